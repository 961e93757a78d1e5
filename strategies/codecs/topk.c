/*
 * topk.c - the k floats with the largest |x|, and their places (Stich, Cordonnier, Jaggi, arXiv
 * 1809.07599; Lin et al., arXiv 1712.01887, use it with 0.1 % and by layer).
 *
 *   k = ceil(share n)     of all n floats of a message, or of those of each tensor
 *
 * Of equal |x| the first ones are sent. A message is k places, then k floats: 8 k bytes. Workers
 * gather the messages of all, because their places differ.
 *
 * The k-th largest is found exactly: |x| as a number of 31 bits is cut into three digits, and a
 * histogram of each tells the next one. That is three passes of reads; a fourth collects. Of many
 * floats with a small k, a sample first tells which are too small: two passes are then enough.
 */
#include "strategies/codecs/tiles.h"

struct topk_opts {
	double share;
	const char *of;
};

#define OWNER struct topk_opts
static const struct option topk_options[] = {
	OPTION(share, REAL, "share", "0.01", "part of the floats that is sent [factor]",
	       .min = 1e-9, .max = 1),
	OPTION(of, CHOICE, "of", "all",
	       "the largest of all floats together, or of each tensor [name]",
	       .choices = "all|tensors"),
	{0},
};

static bool by_tensor(const struct code *c)
{
	const struct topk_opts *o = c->opts;
	return strcmp(o->of, "tensors") == 0;
}

static size_t kept_of(const struct code *c, size_t n)
{
	const struct topk_opts *o = c->opts;
	double k = ceil(o->share * (double)n * (1 - 1e-12)); /* 0.1 of 30 is 3 */
	return k < 1 ? n > 0 : k < (double)n ? (size_t)k : n;
}

static size_t topk_kept(const struct code *c)
{
	size_t k = 0;
	for (size_t i = 0; by_tensor(c) && i < c->tensors; i++)
		k += kept_of(c, c->tensor[i].rows * c->tensor[i].columns);
	return by_tensor(c) ? k : kept_of(c, c->n);
}

static size_t topk_bytes(const struct code *c)
{
	return 2 * sizeof(float) * topk_kept(c);
}

enum { DIGIT = 11, DIGITS = 1 << DIGIT, SAMPLES = 16384, BLOCK = 32 };

/* The k-th largest |x| of n; *equal: how many of that size are among the k largest. */
static uint32_t threshold(const float *x, size_t n, size_t k, size_t *equal)
{
	uint32_t prefix = 0, shift = 20;
	for (int pass = 0; pass < 3; pass++, shift = pass == 1 ? 9 : 0) {
		/* digits of 11, 11 and 9 bits; the bits above are those of prefix */
		uint32_t count[2][DIGITS] = {{0}}, width = pass < 2 ? DIGIT : 9;
		uint32_t above = shift + width, mask = (1u << width) - 1;
		if (pass ==
		    0) { /* two histograms: equal digits in a row would wait for each other */
			for (size_t i = 0; i < n; i++)
				count[i & 1][size_of(x, i) >> shift]++;
		} else {
			for (size_t i = 0; i < n; i++)
				if (size_of(x, i) >> above == prefix >> above)
					count[0][size_of(x, i) >> shift & mask]++;
		}
		uint32_t d = mask;
		for (; d > 0 && count[0][d] + count[1][d] < k; d--)
			k -= count[0][d] + count[1][d];
		prefix |= d << shift;
	}
	*equal = k;
	return prefix;
}

/* Floats of at least this size are probably some more than k, and fewer than 2 k. 0: not worth it.
 */
static uint32_t guess(const float *x, size_t n, size_t k)
{
	float sample[SAMPLES];
	size_t stride = n / SAMPLES, equal;
	double expected = SAMPLES * (double)k / (double)n;
	if (stride < 8 || k > n / 16)
		return 0;
	for (size_t i = 0; i < SAMPLES; i++)
		sample[i] = x[i * stride];
	return threshold(sample, SAMPLES, (size_t)(expected + 2.5 * sqrt(expected) + 2), &equal);
}

/* The same as threshold, mostly in one pass: of the floats that a guess leaves, which `room`, of 2
 * k floats or NULL, keeps. */
static uint32_t threshold_of_few(const float *x, size_t n, size_t k, size_t *equal, float *room)
{
	uint32_t least = room ? guess(x, n, k) : 0;
	size_t found = 0;
	for (size_t at = 0; least > 0 && at < n && found <= 2 * k; at += BLOCK) {
		size_t end = n - at < BLOCK ? n : at + BLOCK;
		uint32_t mask = mask_at_least(x + at, end - at, least);
		for (; mask; mask &= mask - 1, found++)
			if (found < 2 * k)
				room[found] = x[at + (size_t)__builtin_ctz(mask)];
	}
	return found >= k && found <= 2 * k ? threshold(room, found, k, equal)
					    : threshold(x, n, k, equal);
}

static void choose(uint32_t *place, float *value, const float *x, size_t first, size_t n, size_t k,
		   float *room)
{
	size_t equal, found = 0;
	x += first;
	if (k == 0)
		return;
	uint32_t least = threshold_of_few(x, n, k, &equal, room);
	for (size_t at = 0; at < n && found < k; at += BLOCK) {
		size_t end = n - at < BLOCK ? n : at + BLOCK;
		uint32_t mask = mask_at_least(x + at, end - at, least);
		for (; mask && found < k; mask &= mask - 1) {
			size_t i = at + (size_t)__builtin_ctz(mask);
			bool tie = size_of(x, i) == least;
			if (tie && equal == 0)
				continue;
			equal -= tie;
			place[found] = (uint32_t)(first + i);
			value[found++] = x[i];
		}
	}
}

static void topk_encode(const struct code *c, void *wire, const float *x)
{
	size_t all = topk_kept(c);
	uint32_t *place = wire;
	float *value = (float *)wire + all;
	if (!by_tensor(c)) {
		choose(place, value, x, 0, c->n, all, wire);
		return;
	}
	for (size_t i = 0; i < c->tensors; i++) {
		size_t n = c->tensor[i].rows * c->tensor[i].columns, k = kept_of(c, n);
		float *room = 2 * k <= all ? value : NULL;
		choose(place, value, x, c->tensor[i].first, n, k, room);
		place += k;
		value += k;
		all -= k;
	}
}

/* Places rise: none comes twice, and none is outside. */
static bool topk_decode(const struct code *c, float *y, const void *wire, bool add)
{
	size_t k = topk_kept(c);
	const uint32_t *place = wire;
	const float *value = (const float *)wire + k;
	for (size_t i = 0; i < k; i++)
		if (place[i] >= c->n || (i > 0 && place[i] <= place[i - 1]))
			return false;
	for (size_t i = 0; add && i < k; i++)
		y[place[i]] += value[i];
	for (size_t at = 0, i = 0; !add && at < c->n; at += TILE) {
		size_t end = smaller_of(at + TILE, c->n);
		float some[TILE] = {0};
		for (; i < k && place[i] < end; i++)
			some[place[i] - at] = value[i];
		tile_put(y + at, some, end - at, false, c->n);
	}
	tiles_end();
	return true;
}

static bool topk_feedback(const void *opts)
{
	(void)opts;
	return true;
}

const struct codec codec_topk = {
	.plugin = {.name = "topk",
		   .summary = "the largest floats and their places",
		   .options = topk_options,
		   .opts_size = sizeof(struct topk_opts)},
	.sums = CODEC_GATHERED,
	.feedback = topk_feedback,
	.bytes = topk_bytes,
	.encode = topk_encode,
	.decode = topk_decode,
	.encode_passes = 0.9,
	.decode_passes = 0.25,
};
