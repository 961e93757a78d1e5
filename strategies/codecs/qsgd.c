/*
 * qsgd.c - QSGD (Alistarh, Grubic, Li, Tomioka, Vojnovic, arXiv 1610.02132) with L levels, by
 * blocks (the paper's buckets):
 *
 *   q = |x| / |x|_2 L, rounded down or up at random so that its mean stays;  decoded: |x|_2 q sign
 * / L
 *
 * A message is norm / L for each block, then integers of 4 bits for up to 7 levels, of 8 bits for
 * up to 127: the paper's variable-length code of them is not used, because all workers have to know
 * the length of a message. The variance is at most min(block / L^2, sqrt(block) / L) |x|_2^2.
 */
#include "strategies/codecs/blocks.h"

enum { NIBBLE_LEVELS = 7 };

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
	return is_short(c) ? nibbles_bytes(c) : bytes_bytes(c);
}

/* norm / L: NaN if a number is not finite. */
static inline float qsgd_step_of(const float *x, size_t n, float levels)
{
	enum { LANES = 16 };
	double lane[LANES] = {0}, sum = 0;
	size_t i = 0;
	for (; i + LANES <= n; i += LANES)
		for (size_t k = 0; k < LANES; k++)
			lane[k] += (double)x[i + k] * (double)x[i + k];
	for (; i < n; i++)
		lane[i % LANES] += (double)x[i] * (double)x[i];
	for (int k = 0; k < LANES; k++)
		sum += lane[k];
	return isfinite(sum) ? (float)sqrt(sum) / levels : NAN;
}

/* Plus 8 where they take 4 bits. */
static inline void levels_of(const struct code *c, uint8_t *q, const float *x, size_t at, size_t n,
			     float per, float most)
{
	const uint32_t limit = bits_of(most), zero = is_short(c) ? 8 : 0;
	const uint64_t key = c->key;
	for (size_t i = 0; i < n; i++) { /* NaN is above the limit */
		uint32_t v = bits_of(fabsf(x[i]) * per + code_uniform(key, at + i));
		uint32_t negative = -(bits_of(x[i]) >> 31);
		/* rounds down */
		uint32_t level = (uint32_t)(int32_t)float_of(v < limit ? v : limit);
		q[i] = (uint8_t)(((level ^ negative) - negative) + zero);
	}
}

static inline void floats_of_bytes(float *y, const uint8_t *q, size_t n, float step)
{
	for (size_t i = 0; i < n; i++)
		y[i] = step * (float)(int8_t)q[i];
}

static inline void floats_of_nibbles(float *y, const uint8_t *q, size_t n, float step)
{
	for (size_t i = 0; i < n; i++)
		y[i] = step * (float)(q[i] - 8);
}

static struct block_rule rule_of(const struct code *c)
{
	const struct qsgd_opts *o = c->opts;
	return (struct block_rule){.nibbles = is_short(c),
				   .most = (float)o->levels,
				   .scale = qsgd_step_of,
				   .encode = levels_of,
				   .decode = is_short(c) ? floats_of_nibbles : floats_of_bytes};
}

static void qsgd_encode(const struct code *c, void *wire, const float *x)
{
	blocks_encode(c, wire, x, rule_of(c));
}

static bool qsgd_decode(const struct code *c, float *y, const void *wire, bool add)
{
	return blocks_decode(c, y, wire, add, rule_of(c));
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
	.encode_passes = 1.2,
	.decode_passes = 0.35,
};
