/*
 * majority.c - signSGD with majority vote (Bernstein, Zhao, Azizzadenesheli, Anandkumar, arXiv
 * 1810.05291): a worker sends its signs, and gets the sign of their sum.
 *
 *   decoded: sign(sum of sign(x_i))       times N, so that a mean over N workers is -1 or 1
 *
 * Steps are lr long in every parameter: lr has to be far smaller than without it. The sign of 0 is
 * 1, also of a vote that ties. 1 bit a float, both ways: 4 ceil(n / 32) bytes a message.
 */
#include "strategies/codecs/signs.h"

#include <string.h>

static size_t majority_block(const void *opts)
{
	(void)opts;
	return 32;
}

static size_t majority_bytes(const struct code *c)
{
	return signs_bytes(c->n);
}

static void majority_encode(const struct code *c, void *wire, const float *x)
{
	signs_pack(wire, x, c->n);
}

static bool majority_decode(const struct code *c, float *y, const void *wire, bool add)
{
	signs_unpack(y, wire, 0, c->n, c->total ? (float)c->workers : 1, add);
	return true;
}

static char *majority_refuse(const struct run *run, const void *opts)
{
	(void)opts;
	static const char *const sized[] = {"periodic", "easgd", "asgd", "bsp", "ssp", "downpour"};
	for (size_t i = 0; i < sizeof sized / sizeof *sized; i++)
		if (strcmp(run_strategy(run), sized[i]) == 0)
			return sentence("--codec=majority: a vote has no size, and what %s adds "
					"up has one; use --codec=sign",
					sized[i]);
	return strcmp(run_codec_feedback(run), "true") == 0
		       ? sentence("--codec.feedback=true: a vote has no size, and what it has lost "
				  "cannot be measured; use --codec=sign, or leave it out")
		       : NULL;
}

const struct codec codec_majority = {
	.plugin = {.name = "majority",
		   .summary = "signSGD: the sign of the sum of the workers' signs, without scale"},
	.refuse = majority_refuse,
	.sums = CODEC_SCATTERED,
	.block = majority_block,
	.bytes = majority_bytes,
	.encode = majority_encode,
	.decode = majority_decode,
	.encode_passes = 0.35,
	.decode_passes = 0.25,
};
