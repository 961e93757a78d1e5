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

MINIFLOAT(e4m3, false, 4, 3, 448)
MINIFLOAT(e5m2, false, 5, 2, 57344)

static void fp8_encode(const struct code *c, void *wire, const float *x)
{
	(blocks_is(c->opts, "e4m3") ? e4m3_encode : e5m2_encode)(c, wire, x);
}

static bool fp8_decode(const struct code *c, float *y, const void *wire, bool add)
{
	return (blocks_is(c->opts, "e4m3") ? e4m3_decode : e5m2_decode)(c, y, wire, add);
}

const struct codec codec_fp8 = {
	.plugin = {.name = "fp8",
		   .summary = "floats of 8 bits, e4m3 or e5m2, with a scale for each block",
		   .options = fp8_options,
		   .opts_size = sizeof(struct blocks_opts)},
	.sums = CODEC_SCATTERED,
	.feedback = mini_feedback,
	.block = blocks_block,
	.bytes = bytes_bytes,
	.encode = fp8_encode,
	.decode = fp8_decode,
	.encode_passes = 0.7,
	.decode_passes = 0.4,
};
