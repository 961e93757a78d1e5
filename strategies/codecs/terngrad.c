/*
 * terngrad.c - TernGrad (Wen et al., arXiv 1705.07878): each float becomes -s, 0 or s.
 *
 *   s = max |x| over a tensor;  decoded: s sign(x) with the probability |x| / s, otherwise 0
 *
 * The mean is x. A message is a scale for each tensor, then 2 bits a float: 4 T + 4 ceil(P / 16)
 * bytes. Workers gather the messages of all. The paper also clips gradients to 2.5 standard
 * deviations; --clip limits their norm instead.
 */
#include "strategies/codecs/tiles.h"

enum { IN_A_WORD = 16, AT_ONCE = 256 };

static size_t terngrad_bytes(const struct code *c)
{
	return sizeof(float) * (c->tensors + (c->n + IN_A_WORD - 1) / IN_A_WORD);
}

/* 0, 1 for s, 2 for -s. A tensor with a number that is not finite decodes to NaN. */
static void terngrad_encode(const struct code *c, void *wire, const float *x)
{
	float *scale = wire;
	uint32_t *to = (uint32_t *)wire + c->tensors;
	for (size_t i = 0; i < c->n; i += IN_A_WORD)
		to[i / IN_A_WORD] = 0;
	for (size_t k = 0; k < c->tensors; k++) {
		size_t first = c->tensor[k].first;
		size_t end = first + c->tensor[k].rows * c->tensor[k].columns;
		float most = 0, odd = 0;
#pragma omp simd reduction(max : most) reduction(+ : odd)
		for (size_t i = first; i < end; i++) {
			most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
			odd += 0 * x[i];
		}
		scale[k] = odd == 0 ? most : NAN;
		for (size_t at = first; at < end; at += AT_ONCE) {
			uint32_t q[AT_ONCE];
			size_t n = smaller_of(AT_ONCE, end - at);
			for (size_t i = 0; i < n; i++) {
				uint32_t sent =
					code_uniform(c->key, at + i) * scale[k] < fabsf(x[at + i]);
				q[i] = sent << (x[at + i] < 0);
			}
			for (size_t i = 0; i < n; i++)
				to[(at + i) / IN_A_WORD] |= q[i] << (at + i) % IN_A_WORD * 2;
		}
	}
}

static bool terngrad_decode(const struct code *c, float *y, const void *wire, bool add)
{
	const float *scale = wire;
	const uint32_t *from = (const uint32_t *)wire + c->tensors;
	for (size_t k = 0; k < c->tensors; k++) {
		size_t first = c->tensor[k].first;
		size_t end = first + c->tensor[k].rows * c->tensor[k].columns;
		const float number[] = {0 * scale[k], scale[k], -scale[k], NAN};
		for (size_t i = first; i < end; i++)
			y[i] = (add ? y[i] : 0) +
			       number[from[i / IN_A_WORD] >> i % IN_A_WORD * 2 & 3];
	}
	return true;
}

static bool terngrad_unbiased(const void *opts)
{
	(void)opts;
	return true;
}

const struct codec codec_terngrad = {
	.plugin = {.name = "terngrad",
		   .summary = "TernGrad: -s, 0 or s at random, with a scale for each tensor"},
	.sums = CODEC_GATHERED,
	.unbiased = terngrad_unbiased,
	.bytes = terngrad_bytes,
	.encode = terngrad_encode,
	.decode = terngrad_decode,
	.encode_passes = 3,
	.decode_passes = 1,
};
