/*
 * int8.c - integers of 8 bits with a scale for each block (blocks.h has the formula): n + 4 ceil(n
 * / block) bytes. The quantiser of Dettmers (arXiv 1511.04561) in its linear form, by blocks.
 */
#include "strategies/codecs/blocks.h"

#define OWNER struct blocks_opts
static const struct option int8_options[] = {BLOCKS_OPTION, ROUNDING_OPTION, {0}};

static inline void codes_of(const struct code *c, uint8_t *q, const float *x, size_t at, size_t n,
			    float per, float most)
{
	block_round(c, q, x, at, n, per, most, 0);
}

static inline void floats_of(float *y, const uint8_t *q, size_t n, float scale)
{
	for (size_t i = 0; i < n; i++)
		y[i] = scale * (float)(int8_t)q[i];
}

#define RULE \
	(struct block_rule) \
	{ \
		.most = 127, .scale = block_scale, .encode = codes_of, .decode = floats_of \
	}

static void int8_encode(const struct code *c, void *wire, const float *x)
{
	blocks_encode(c, wire, x, RULE);
}

static bool int8_decode(const struct code *c, float *y, const void *wire, bool add)
{
	return blocks_decode(c, y, wire, add, RULE);
}

static struct code_form int8_form(const void *opts)
{
	return blocks_form(opts, 8);
}

const struct codec codec_int8 = {
	.plugin = {.name = "int8",
		   .summary = "integers of 8 bits with a scale for each block",
		   .options = int8_options,
		   .opts_size = sizeof(struct blocks_opts)},
	.sums = CODEC_SCATTERED,
	.unbiased = blocks_stochastic,
	.feedback = blocks_feedback,
	.block = blocks_block,
	.bytes = bytes_bytes,
	.encode = int8_encode,
	.decode = int8_decode,
	.form = int8_form,
	.encode_passes = 0.5,
	.decode_passes = 0.3,
};
