/*
 * fp4.c - floats of 4 bits with a scale for each block (minifloat.h has the formula), two in a
 * byte: e2m1 (0, 0.5, 1, 1.5, 2, 3, 4, 6; Open Compute Project, Microscaling formats, 1.0) and e3m0
 * (0 and the powers of two from 1/4 to 16), in which Streaming DiLoCo (arXiv 2501.18512) sends its
 * outer gradients. n / 2 + 4 ceil(n / block) bytes.
 */
#include "strategies/codecs/minifloat.h"

enum { AT_ONCE = 256 };

#define OWNER struct blocks_opts
static const struct option fp4_options[] = {
	BLOCKS_OPTION,
	OPTION(kind, CHOICE, "format", "e3m0",
	       "3 bits of exponent and none of mantissa; or 2 and 1 [name]",
	       .choices = "e3m0|e2m1"),
	{0},
};

static struct format format_of(const struct code *c)
{
	return blocks_is(c->opts, "e3m0") ? (struct format){3, 0, 16} : (struct format){2, 1, 6};
}

static void fp4_encode(const struct code *c, void *wire, const float *x)
{
	size_t block = blocks_block(c->opts), blocks = blocks_count(c);
	const struct format f = format_of(c);
	float *scale = wire;
	uint8_t *to = (uint8_t *)(scale + blocks);
	if (c->n > 0)
		memset((uint8_t *)wire + nibbles_bytes(c) - 4, 0, 4);
	for (size_t b = 0; b < blocks; b++) {
		size_t first = b * block, end = c->n - first < block ? c->n : first + block;
		scale[b] = block_scale(x + first, end - first, f.largest);
		for (size_t at = first; at < end; at += AT_ONCE) {
			uint8_t q[AT_ONCE + 1];
			size_t n = end - at < AT_ONCE ? end - at : AT_ONCE;
			mini_encode(q, x + at, n, scale[b], f);
			q[n] = 0;
			for (size_t i = 0; i < n; i += 2)
				to[(at + i) / 2] = (uint8_t)(q[i] | q[i + 1] << 4);
		}
	}
}

/* The 16 numbers of the format are a table. */
static bool fp4_decode(const struct code *c, float *y, const void *wire, bool add)
{
	size_t block = blocks_block(c->opts), blocks = blocks_count(c);
	const float *scale = wire;
	const uint8_t *from = (const uint8_t *)(scale + blocks);
	float number[16];
	mini_numbers(number, format_of(c));
	for (size_t b = 0; b < blocks; b++) {
		size_t end = c->n - b * block < block ? c->n : (b + 1) * block;
		for (size_t i = b * block; i < end; i++)
			y[i] = (add ? y[i] : 0) +
			       scale[b] * number[from[i / 2] >> (i % 2 ? 4 : 0) & 15];
	}
	return true;
}

const struct codec codec_fp4 = {
	.plugin = {.name = "fp4",
		   .summary = "floats of 4 bits, e3m0 or e2m1, with a scale for each block",
		   .options = fp4_options,
		   .opts_size = sizeof(struct blocks_opts)},
	.sums = CODEC_SCATTERED,
	.feedback = mini_feedback,
	.block = blocks_block,
	.bytes = nibbles_bytes,
	.encode = fp4_encode,
	.decode = fp4_decode,
	.encode_passes = 2.5,
	.decode_passes = 1,
};
