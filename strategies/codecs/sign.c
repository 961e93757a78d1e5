/*
 * sign.c - scaled signs: EF-signSGD (Karimireddy, Rebjock, Stich, Jaggi, arXiv 1901.09847, with
 * feedback), 1-bit SGD (Seide et al., Interspeech 2014):
 *
 *   decoded: (|x|_1 / n) sign(x)      for each tensor of n floats
 *
 * A message is a scale for each tensor, then the bits: 4 T + 4 ceil(P / 32) bytes. Workers gather
 * the messages of all: the sum of signs with different scales has no signs and scale.
 */
#include "strategies/codecs/signs.h"

static size_t sign_bytes(const struct code *c)
{
	return sizeof(float) * c->tensors + signs_bytes(c->n);
}

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
		double sum = 0;
		for (size_t i = first, n; i < end; i += n) {
			n = smaller_of(TILE, end - i);
			for (size_t more; packed < i + n; packed += more) {
				more = smaller_of(TILE, c->n - packed);
				signs_pack(bits + packed / 32, x + packed, more);
			}
			sum += sum_of_sizes(x + i, n);
		}
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

const struct codec codec_sign = {
	.plugin = {.name = "sign", .summary = "signs, with a scale for each tensor: 1 bit a float"},
	.sums = CODEC_GATHERED,
	.feedback = sign_feedback,
	.bytes = sign_bytes,
	.encode = sign_encode,
	.decode = sign_decode,
	.encode_passes = 0.4,
	.decode_passes = 0.25,
};
