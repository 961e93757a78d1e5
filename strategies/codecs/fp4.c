/*
 * fp4.c - floats of 4 bits with a scale for each block (minifloat.h has the formula), two in a
 * byte: e2m1 (0, 0.5, 1, 1.5, 2, 3, 4, 6; Open Compute Project, Microscaling formats, 1.0) and e3m0
 * (0 and the powers of two from 1/4 to 16), in which Streaming DiLoCo (arXiv 2501.18512) sends its
 * outer gradients. n / 2 + 4 ceil(n / block) bytes.
 */
#include "strategies/codecs/minifloat.h"

#define OWNER struct blocks_opts
static const struct option fp4_options[] = {
	BLOCKS_OPTION,
	OPTION(kind, CHOICE, "format", "e3m0",
	       "3 bits of exponent and none of mantissa; or 2 and 1 [name]",
	       .choices = "e3m0|e2m1"),
	{0},
};

MINIFLOAT(e3m0, true, 3, 0, 16)
MINIFLOAT(e2m1, true, 2, 1, 6)

static void fp4_encode(const struct code *c, void *wire, const float *x)
{
	(blocks_is(c->opts, "e3m0") ? e3m0_encode : e2m1_encode)(c, wire, x);
}

static bool fp4_decode(const struct code *c, float *y, const void *wire, bool add)
{
	return (blocks_is(c->opts, "e3m0") ? e3m0_decode : e2m1_decode)(c, y, wire, add);
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
	.encode_passes = 0.75,
	.decode_passes = 0.5,
};
