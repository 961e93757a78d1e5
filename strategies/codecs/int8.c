/*
 * int8.c - integers of 8 bits with a scale for each block (blocks.h has the formula): n + 4 ceil(n
 * / block) bytes. The quantiser of Dettmers (arXiv 1511.04561) in its linear form, by blocks.
 */
#include "strategies/codecs/blocks.h"

#define OWNER struct blocks_opts
static const struct option int8_options[] = {BLOCKS_OPTION, ROUNDING_OPTION, {0}};

static size_t int8_bytes(const struct code *c)
{
	return 4 * blocks_count(c) + (c->n + 3) / 4 * 4;
}

static void int8_encode(const struct code *c, void *wire, const float *x)
{
	size_t block = blocks_block(c->opts), blocks = blocks_count(c);
	float *scale = wire;
	int8_t *q = (int8_t *)(scale + blocks);
	for (size_t b = 0; b < blocks; b++) {
		size_t first = b * block, n = c->n - first < block ? c->n - first : block;
		scale[b] = block_scale(x + first, n, 127);
		block_round(c, q + first, x + first, first, n, scale[b], 127);
	}
	for (size_t i = c->n; i % 4; i++)
		q[i] = 0;
}

static bool int8_decode(const struct code *c, float *y, const void *wire, bool add)
{
	size_t block = blocks_block(c->opts), blocks = blocks_count(c);
	const float *scale = wire;
	const int8_t *q = (const int8_t *)(scale + blocks);
	for (size_t b = 0; b < blocks; b++) {
		size_t end = c->n - b * block < block ? c->n : (b + 1) * block;
		for (size_t i = b * block; add && i < end; i++)
			y[i] += scale[b] * q[i];
		for (size_t i = b * block; !add && i < end; i++)
			y[i] = scale[b] * q[i];
	}
	return true;
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
	.bytes = int8_bytes,
	.encode = int8_encode,
	.decode = int8_decode,
	.encode_passes = 1,
	.decode_passes = 0.75,
};
