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
#include "mvbench.h"

#include <math.h>
#include <string.h>

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

/* The place that is drawn of part i of k, and the part's length. */
static inline size_t place_of(const struct code *c, size_t i, size_t k, size_t *length)
{
	size_t first = part_of(c->n, k, i);
	*length = part_of(c->n, k, i + 1) - first;
	return first + (size_t)((uint64_t)code_bits(c->common, i) * *length >> 32);
}

static void randomk_encode(const struct code *c, void *wire, const float *x)
{
	const struct randomk_opts *o = c->opts;
	size_t k = randomk_kept(c), length;
	float *to = wire;
	for (size_t i = 0; i < k; i++) {
		float v = x[place_of(c, i, k, &length)];
		to[i] = o->unbiased ? v * (float)length : v;
	}
}

static bool randomk_decode(const struct code *c, float *y, const void *wire, bool add)
{
	size_t k = randomk_kept(c), length;
	const float *from = wire;
	if (!add)
		memset(y, 0, c->n * sizeof *y);
	for (size_t i = 0; i < k; i++)
		y[place_of(c, i, k, &length)] += from[i];
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
