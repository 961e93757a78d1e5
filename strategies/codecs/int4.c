/*
 * int4.c - integers of 4 bits with a scale for each block (blocks.h has the formula), two in a
 * byte: n / 2 + 4 ceil(n / block) bytes.
 */
#include "strategies/codecs/blocks.h"

#define OWNER struct blocks_opts
static const struct option int4_options[] = {BLOCKS_OPTION, ROUNDING_OPTION, {0}};

static inline void codes_of(const struct code *c, uint8_t *q, const float *x, size_t at, size_t n,
			    float per, float most)
{
	block_round(c, q, x, at, n, per, most, 8);
}

static inline void floats_of(float *y, const uint8_t *q, size_t n, float scale)
{
	for (size_t i = 0; i < n; i++)
		y[i] = scale * (float)(q[i] - 8);
}

#define RULE \
	(struct block_rule) \
	{ \
		.nibbles = true, .most = 7, .scale = block_scale, .encode = codes_of, \
		.decode = floats_of \
	}

static void int4_encode(const struct code *c, void *wire, const float *x)
{
	blocks_encode(c, wire, x, RULE);
}

static bool int4_decode(const struct code *c, float *y, const void *wire, bool add)
{
	return blocks_decode(c, y, wire, add, RULE);
}

static struct code_form int4_form(const void *opts)
{
	return blocks_form(opts, 4);
}

const struct codec codec_int4 = {
	.plugin = {.name = "int4",
		   .summary = "integers of 4 bits with a scale for each block",
		   .options = int4_options,
		   .opts_size = sizeof(struct blocks_opts)},
	.sums = CODEC_SCATTERED,
	.unbiased = blocks_stochastic,
	.feedback = blocks_feedback,
	.block = blocks_block,
	.bytes = nibbles_bytes,
	.encode = int4_encode,
	.decode = int4_decode,
	.form = int4_form,
	.encode_passes = 0.6,
	.decode_passes = 0.3,
};
