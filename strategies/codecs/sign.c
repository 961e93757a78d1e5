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

static size_t floats_of(const struct tensor *t)
{
	return t->rows * t->columns;
}

static void sign_encode(const struct code *c, void *wire, const float *x)
{
	enum { PARTIAL = 4096 }; /* float32 adds these; float64 adds their sums */
	float *scale = wire;
	for (size_t k = 0; k < c->tensors; k++) {
		const float *from = x + c->tensor[k].first;
		size_t n = floats_of(&c->tensor[k]);
		double sum = 0;
		for (size_t i = 0; i < n; i += PARTIAL) {
			size_t end = n - i < PARTIAL ? n : i + PARTIAL;
			float part = 0;
#pragma omp simd reduction(+ : part)
			for (size_t j = i; j < end; j++)
				part += fabsf(from[j]);
			sum += (double)part;
		}
		scale[k] = n > 0 ? (float)(sum / (double)n) : 0;
	}
	signs_pack((uint32_t *)wire + c->tensors, x, c->n);
}

static bool sign_decode(const struct code *c, float *y, const void *wire, bool add)
{
	const float *scale = wire;
	const uint32_t *bits = (const uint32_t *)wire + c->tensors;
	for (size_t k = 0; k < c->tensors; k++)
		signs_unpack(y + c->tensor[k].first, bits, c->tensor[k].first,
			     floats_of(&c->tensor[k]), scale[k], add);
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
	.encode_passes = 1,
	.decode_passes = 1,
};
