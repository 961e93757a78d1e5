/*
 * fp8.c - floats of 8 bits with a scale for each block (minifloat.h has the formula), in the
 * formats of Micikevicius et al. (arXiv 2209.05433): e4m3 to 448, e5m2 to 57344. n + 4 ceil(n /
 * block) bytes.
 */
#include "strategies/codecs/minifloat.h"

#define OWNER struct blocks_opts
static const struct option fp8_options[] = {
	BLOCKS_OPTION,
	OPTION(kind, CHOICE, "format", "e4m3",
	       "4 bits of exponent and 3 of mantissa; or 5 and 2 [name]", .choices = "e4m3|e5m2"),
	{0},
};

static size_t fp8_bytes(const struct code *c)
{
	return 4 * blocks_count(c) + (c->n + 3) / 4 * 4;
}

enum { AT_ONCE = 256 };
static const struct format e4m3 = {4, 3, 448}, e5m2 = {5, 2, 57344};

__attribute__((always_inline)) static inline void encode_as(const struct code *c, void *wire,
							    const float *x, struct format f)
{
	size_t block = blocks_block(c->opts), blocks = blocks_count(c);
	float *scale = wire;
	uint8_t *q = (uint8_t *)(scale + blocks);
	for (size_t b = 0; b < blocks; b++) {
		size_t first = b * block, n = c->n - first < block ? c->n - first : block;
		scale[b] = block_scale(x + first, n, f.largest);
		for (size_t at = first; at < first + n; at += AT_ONCE) {
			uint8_t some[AT_ONCE]; /* bytes elsewhere might be the floats */
			size_t k = first + n - at < AT_ONCE ? first + n - at : AT_ONCE;
			mini_encode(some, x + at, k, scale[b], f);
			memcpy(q + at, some, k);
		}
	}
	for (size_t i = c->n; i % 4; i++)
		q[i] = 0;
}

/* Two calls with constants: the compiler makes a loop of each format. */
static void fp8_encode(const struct code *c, void *wire, const float *x)
{
	if (blocks_is(c->opts, "e4m3"))
		encode_as(c, wire, x, e4m3);
	else
		encode_as(c, wire, x, e5m2);
}

static bool fp8_decode(const struct code *c, float *y, const void *wire, bool add)
{
	size_t block = blocks_block(c->opts), blocks = blocks_count(c);
	const float *scale = wire;
	const uint8_t *q = (const uint8_t *)(scale + blocks);
	float number[256];
	mini_numbers(number, blocks_is(c->opts, "e4m3") ? e4m3 : e5m2);
	for (size_t b = 0; b < blocks; b++) {
		size_t end = c->n - b * block < block ? c->n : (b + 1) * block;
		for (size_t i = b * block; i < end; i++)
			y[i] = (add ? y[i] : 0) + scale[b] * number[q[i]];
	}
	return true;
}

const struct codec codec_fp8 = {
	.plugin = {.name = "fp8",
		   .summary = "floats of 8 bits, e4m3 or e5m2, with a scale for each block",
		   .options = fp8_options,
		   .opts_size = sizeof(struct blocks_opts)},
	.sums = CODEC_SCATTERED,
	.feedback = mini_feedback,
	.block = blocks_block,
	.bytes = fp8_bytes,
	.encode = fp8_encode,
	.decode = fp8_decode,
	.encode_passes = 2,
	.decode_passes = 1,
};
