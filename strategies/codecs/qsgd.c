/*
 * qsgd.c - QSGD (Alistarh, Grubic, Li, Tomioka, Vojnovic, arXiv 1610.02132) with L levels, by
 * blocks (the paper's buckets):
 *
 *   q = |x| / |x|_2 L, rounded down or up at random so that its mean stays;  decoded: |x|_2 q sign
 * / L
 *
 * A message is a norm for each block, then integers of 4 bits for up to 7 levels, of 8 bits for up
 * to 127: the paper's variable-length code of them is not used, because all workers have to know
 * the length of a message. The variance is at most min(block / L^2, sqrt(block) / L) |x|_2^2.
 */
#include "strategies/codecs/blocks.h"

enum { NIBBLE_LEVELS = 7, AT_ONCE = 256 };

struct qsgd_opts {
	int64_t block, levels;
};

#define OWNER struct qsgd_opts
static const struct option qsgd_options[] = {
	OPTION(block, INT, "block", "512", "floats that share a norm [floats]", .min = 8,
	       .max = 1 << 20, .check = blocks_check),
	OPTION(levels, INT, "levels", "7",
	       "levels between 0 and the norm; up to 7 take 4 bits, more take 8 [levels]", .min = 1,
	       .max = 127),
	{0},
};

static bool is_short(const struct code *c)
{
	const struct qsgd_opts *o = c->opts;
	return o->levels <= NIBBLE_LEVELS;
}

static size_t qsgd_bytes(const struct code *c)
{
	return is_short(c) ? nibbles_bytes(c) : 4 * blocks_count(c) + (c->n + 3) / 4 * 4;
}

/* q[n] of floats that begin at number `at` of the message; per: L / norm. */
static void levels_of(const struct code *c, int8_t *q, const float *x, size_t at, size_t n,
		      float per)
{
	const struct qsgd_opts *o = c->opts;
	const uint32_t most = bits_of((float)o->levels);
	const uint64_t key = c->key;
	for (size_t i = 0; i < n; i++) { /* NaN is above the most */
		uint32_t v = bits_of(fabsf(x[i]) * per + code_uniform(key, at + i));
		uint32_t negative = -(bits_of(x[i]) >> 31);
		uint32_t level = (uint32_t)(int32_t)float_of(v < most ? v : most);
		q[i] = (int8_t)((level ^ negative) - negative);
	}
}

static void qsgd_encode(const struct code *c, void *wire, const float *x)
{
	const struct qsgd_opts *o = c->opts;
	size_t block = blocks_block(c->opts), blocks = blocks_count(c);
	float *norm = wire;
	uint8_t *to = (uint8_t *)(norm + blocks);
	if (c->n > 0)
		memset((uint8_t *)wire + qsgd_bytes(c) - 4, 0, 4);
	for (size_t b = 0; b < blocks; b++) {
		size_t first = b * block, end = c->n - first < block ? c->n : first + block;
		double sum = 0;
		for (size_t i = first; i < end; i++)
			sum += (double)x[i] * (double)x[i];
		norm[b] = isfinite(sum) ? (float)sqrt(sum) : NAN;
		float per = norm[b] > 0 ? (float)o->levels / norm[b] : 0;
		per = per > 1e38f ? 0 : per;
		for (size_t at = first; at < end; at += AT_ONCE) {
			int8_t q[AT_ONCE + 1];
			size_t n = smaller_of(AT_ONCE, end - at);
			levels_of(c, q, x + at, at, n, per);
			q[n] = -8;
			if (!is_short(c))
				memcpy(to + at, q, n);
			for (size_t i = 0; is_short(c) && i < n; i += 2)
				to[(at + i) / 2] = (uint8_t)((q[i] + 8) | (q[i + 1] + 8) << 4);
		}
	}
}

static bool qsgd_decode(const struct code *c, float *y, const void *wire, bool add)
{
	const struct qsgd_opts *o = c->opts;
	size_t block = blocks_block(c->opts), blocks = blocks_count(c);
	const float *norm = wire;
	const uint8_t *from = (const uint8_t *)(norm + blocks);
	bool nibbles = is_short(c);
	for (size_t b = 0; b < blocks; b++) {
		size_t end = c->n - b * block < block ? c->n : (b + 1) * block;
		float step = norm[b] / (float)o->levels;
		for (size_t i = b * block; i < end; i++) {
			int q = nibbles ? (from[i / 2] >> (i % 2 ? 4 : 0) & 15) - 8
					: (int8_t)from[i];
			y[i] = (add ? y[i] : 0) + step * (float)q;
		}
	}
	return true;
}

static bool qsgd_unbiased(const void *opts)
{
	(void)opts;
	return true;
}

const struct codec codec_qsgd = {
	.plugin = {.name = "qsgd",
		   .summary = "QSGD: levels of a block's norm, rounded at random",
		   .options = qsgd_options,
		   .opts_size = sizeof(struct qsgd_opts)},
	.sums = CODEC_SCATTERED,
	.unbiased = qsgd_unbiased,
	.block = blocks_block,
	.bytes = qsgd_bytes,
	.encode = qsgd_encode,
	.decode = qsgd_decode,
	.encode_passes = 3,
	.decode_passes = 1,
};
