/*
 * int4.c - integers of 4 bits with a scale for each block (blocks.h has the formula), two in a
 * byte: n / 2 + 4 ceil(n / block) bytes.
 */
#include "strategies/codecs/blocks.h"

enum { AT_ONCE = 256 };

#define OWNER struct blocks_opts
static const struct option int4_options[] = {BLOCKS_OPTION, ROUNDING_OPTION, {0}};

/* Integer i is in the lower half of byte i / 2 if i is even, plus 8. */
static void int4_encode(const struct code *c, void *wire, const float *x)
{
	size_t block = blocks_block(c->opts), blocks = blocks_count(c), bytes = nibbles_bytes(c);
	float *scale = wire;
	uint8_t *to = (uint8_t *)(scale + blocks);
	if (c->n > 0)
		memset((uint8_t *)wire + bytes - 4, 0, 4);
	for (size_t b = 0; b < blocks; b++) {
		size_t first = b * block, end = c->n - first < block ? c->n : first + block;
		scale[b] = block_scale(x + first, end - first, 7);
		for (size_t at = first; at < end; at += AT_ONCE) {
			int8_t q[AT_ONCE + 1];
			size_t n = end - at < AT_ONCE ? end - at : AT_ONCE;
			block_round(c, q, x + at, at, n, scale[b], 7);
			q[n] = -8;
			for (size_t i = 0; i < n; i += 2)
				to[(at + i) / 2] = (uint8_t)((q[i] + 8) | (q[i + 1] + 8) << 4);
		}
	}
}

static bool int4_decode(const struct code *c, float *y, const void *wire, bool add)
{
	size_t block = blocks_block(c->opts), blocks = blocks_count(c);
	const float *scale = wire;
	const uint8_t *from = (const uint8_t *)(scale + blocks);
	for (size_t b = 0; b < blocks; b++) {
		size_t end = c->n - b * block < block ? c->n : (b + 1) * block;
		for (size_t i = b * block; i < end; i++) {
			int q = (from[i / 2] >> (i % 2 ? 4 : 0) & 15) - 8;
			y[i] = (add ? y[i] : 0) + scale[b] * (float)q;
		}
	}
	return true;
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
	.encode_passes = 1.5,
	.decode_passes = 1,
};
