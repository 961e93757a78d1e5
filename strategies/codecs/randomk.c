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

/* The parts one after the other: part i begins at floor(i n / k). Without a division for each. */
struct walk {
	size_t k, i, first, length, least, rest, sum;
};

static inline struct walk walk_of(const struct code *c)
{
	size_t k = randomk_kept(c);
	return (struct walk){.k = k, .least = c->n / (k ? k : 1), .rest = c->n % (k ? k : 1)};
}

/* The place that is drawn of the next part. */
static inline size_t next_place(const struct code *c, struct walk *w)
{
	w->first += w->length;
	w->sum += w->rest;
	bool longer = w->sum >= w->k;
	w->sum -= longer ? w->k : 0;
	w->length = w->least + longer;
	return w->first + (size_t)((uint64_t)code_bits(c->common, w->i++) * w->length >> 32);
}

static void randomk_encode(const struct code *c, void *wire, const float *x)
{
	const struct randomk_opts *o = c->opts;
	struct walk w = walk_of(c);
	float *to = wire;
	while (w.i < w.k) {
		float v = x[next_place(c, &w)];
		to[w.i - 1] = o->unbiased ? v * (float)w.length : v;
	}
}

static bool randomk_decode(const struct code *c, float *y, const void *wire, bool add)
{
	struct walk w = walk_of(c);
	const float *from = wire;
	size_t place = w.k ? next_place(c, &w) : c->n;
	for (size_t at = 0; at < c->n; at += TILE) {
		size_t end = c->n - at < TILE ? c->n : at + TILE;
		float some[TILE] = {0};
		while (place < end) {
			if (add)
				y[place] += from[w.i - 1];
			else
				some[place - at] = from[w.i - 1];
			place = w.i < w.k ? next_place(c, &w) : c->n;
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
	.encode_passes = 0.1,
	.decode_passes = 0.5,
};
