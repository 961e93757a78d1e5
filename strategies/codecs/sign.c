/*
 * sign.c - scaled signs: EF-signSGD (Karimireddy, Rebjock, Stich, Jaggi, arXiv 1901.09847, with
 * feedback), 1-bit SGD (Seide et al., Interspeech 2014):
 *
 *   decoded: (|x|_1 / n) sign(x)      for each tensor of n floats
 *
 * |x|_1 is the sum of the tiles' sums: tile t goes to lane t mod 64, and the lanes are added by
 * halves, so that a GPU adds in the same order.
 *
 * A message is a scale for each tensor, then the bits: 4 T + 4 ceil(P / 32) bytes. Workers gather
 * the messages of all: the sum of signs with different scales has no signs and scale.
 */
#include "strategies/codecs/signs.h"

static size_t sign_bytes(const struct code *c)
{
	return sizeof(float) * c->tensors + signs_bytes(c->n);
}

enum { LANES_OF_TILES = 64 };

static size_t end_of(const struct code *c, size_t k)
{
	return c->tensor[k].first + c->tensor[k].rows * c->tensor[k].columns;
}

/* One pass: the floats whose signs are packed are in the cache when their sizes are added up. */
static void sign_encode(const struct code *c, void *wire, const float *x)
{
	float *scale = wire;
	uint32_t *bits = (uint32_t *)wire + c->tensors;
	size_t packed = 0;
	for (size_t k = 0; k < c->tensors; k++) {
		size_t first = c->tensor[k].first, end = end_of(c, k);
		double lane[LANES_OF_TILES] = {0};
		for (size_t i = first, n, t = 0; i < end; i += n, t++) {
			n = smaller_of(TILE, end - i);
			for (size_t more; packed < i + n; packed += more) {
				more = smaller_of(TILE, c->n - packed);
				signs_pack(bits + packed / 32, x + packed, more);
			}
			lane[t % LANES_OF_TILES] += sum_of_sizes(x + i, n);
		}
		double sum = sum_of_lanes(lane, LANES_OF_TILES);
		scale[k] = end > first ? (float)(sum / (double)(end - first)) : 0;
	}
}

static bool sign_decode(const struct code *c, float *y, const void *wire, bool add)
{
	const float *scale = wire;
	const uint32_t *bits = (const uint32_t *)wire + c->tensors;
	for (size_t k = 0; k < c->tensors; k++)
		signs_unpack(y + c->tensor[k].first, bits, c->tensor[k].first,
			     end_of(c, k) - c->tensor[k].first, scale[k], add);
	return true;
}

static bool sign_feedback(const void *opts)
{
	(void)opts;
	return true;
}

static struct code_form sign_form(const void *opts)
{
	(void)opts;
	return (struct code_form){.kind = FORM_SIGNS};
}

const struct codec codec_sign = {
	.plugin = {.name = "sign", .summary = "signs, with a scale for each tensor: 1 bit a float"},
	.sums = CODEC_GATHERED,
	.feedback = sign_feedback,
	.bytes = sign_bytes,
	.encode = sign_encode,
	.decode = sign_decode,
	.form = sign_form,
	.encode_passes = 0.4,
	.decode_passes = 0.25,
};
