/*
 * randomk.c - k floats in random places, which all workers draw from a common seed: no place
 * travels, and the sum of messages is the message of the sum (Stich et al., arXiv 1809.07599;
 * Koloskova, Stich, Jaggi, arXiv 1902.00340).
 *
 *   k = ceil(share n): the n floats are cut into k parts of nearly equal length; one is drawn of
 * each decoded: x there, or with --randomk.unbiased x times the length of its part; 0 elsewhere
 *
 * Drawing one of each part takes k draws instead of a pass, and every float has the same chance as
 * the others of its part. 4 k bytes.
 */
#include "strategies/codecs/tiles.h"

struct randomk_opts {
	double share;
	bool unbiased;
};

#define OWNER struct randomk_opts
static const struct option randomk_options[] = {
	OPTION(share, REAL, "share", "0.01", "part of the floats that is sent [factor]",
	       .min = 1e-9, .max = 1),
	OPTION(unbiased, BOOL, "unbiased", "false",
	       "multiply what is sent so that its mean is right, in place of feedback "
	       "[true/false]"),
	{0},
};

static size_t randomk_kept(const struct code *c)
{
	const struct randomk_opts *o = c->opts;
	double k = ceil(o->share * (double)c->n * (1 - 1e-12));
	return k < 1 ? c->n > 0 : k < (double)c->n ? (size_t)k : c->n;
}

static size_t randomk_bytes(const struct code *c)
{
	return sizeof(float) * randomk_kept(c);
}

/* Walks over the parts: part i begins at floor(i n / k). Without a division for each. */
struct walk {
	size_t k, i, first, least, rest, sum;
};

enum { AT_ONCE = 64 };

static inline struct walk walk_of(const struct code *c)
{
	size_t k = randomk_kept(c);
	return (struct walk){.k = k, .least = c->n / (k ? k : 1), .rest = c->n % (k ? k : 1)};
}

struct drawn {
	size_t n, place[AT_ONCE], length[AT_ONCE];
};

/* The places of the next parts, and the parts' lengths. */
static inline void randomk_draw(const struct code *c, struct walk *w, struct drawn *d)
{
	uint32_t bits[AT_ONCE];
	const uint64_t key = c->common;
	struct walk now = *w;
	d->n = smaller_of(AT_ONCE, now.k - now.i);
	for (size_t j = 0; j < AT_ONCE; j++)
		bits[j] = code_bits(key, now.i + j);
	for (size_t j = 0; j < d->n; j++) {
		now.sum += now.rest;
		size_t longer = now.sum >= now.k, length = now.least + longer;
		now.sum -= longer * now.k;
		d->place[j] = now.first + (size_t)((uint64_t)bits[j] * length >> 32);
		d->length[j] = length;
		now.first += length;
	}
	now.i += d->n;
	*w = now;
}

/* Nearly every place is in another line: all of the next places are fetched before the last ones
 * are read. */
static void randomk_encode(const struct code *c, void *wire, const float *x)
{
	const struct randomk_opts *o = c->opts;
	struct walk w = walk_of(c);
	struct drawn d[2];
	float *to = wire;
	randomk_draw(c, &w, &d[0]);
	for (int now = 0; d[now].n > 0; now = !now) {
		const struct drawn *here = &d[now];
		randomk_draw(c, &w, &d[!now]);
		for (size_t j = 0; j < d[!now].n; j++)
			__builtin_prefetch(x + d[!now].place[j]);
		for (size_t j = 0; j < here->n; j++)
			*to++ = x[here->place[j]] * (o->unbiased ? (float)here->length[j] : 1);
	}
}

static bool randomk_decode(const struct code *c, float *y, const void *wire, bool add)
{
	struct walk w = walk_of(c);
	struct drawn d = {.n = 0};
	const float *from = wire;
	size_t j = 0;
	for (size_t at = 0; at < c->n; at += TILE) {
		size_t end = smaller_of(at + TILE, c->n);
		float some[TILE] = {0};
		for (;; j++) {
			if (j == d.n) {
				randomk_draw(c, &w, &d);
				j = 0;
			}
			if (d.n == 0 || d.place[j] >= end)
				break;
			if (add)
				y[d.place[j]] += *from++;
			else
				some[d.place[j] - at] = *from++;
		}
		if (!add)
			tile_put(y + at, some, end - at, false, c->n);
	}
	tiles_end();
	return true;
}

static bool randomk_unbiased(const void *opts)
{
	const struct randomk_opts *o = opts;
	return o->unbiased;
}

static bool randomk_feedback(const void *opts)
{
	return !randomk_unbiased(opts);
}

static struct code_form randomk_form(const void *opts)
{
	return (struct code_form){.kind = FORM_RANDOMK, .unbiased = randomk_unbiased(opts)};
}

const struct codec codec_randomk = {
	.plugin = {.name = "randomk",
		   .summary = "floats in random places that all workers draw alike",
		   .options = randomk_options,
		   .opts_size = sizeof(struct randomk_opts)},
	.sums = CODEC_SUMMED,
	.unbiased = randomk_unbiased,
	.feedback = randomk_feedback,
	.bytes = randomk_bytes,
	.encode = randomk_encode,
	.decode = randomk_decode,
	.form = randomk_form,
	.encode_passes = 0.15,
	.decode_passes = 0.25,
};
