/*
 * minifloat.h - what fp8 and fp4 share: floats of few bits with one scale for each block.
 *
 *   s = max |x| / (largest number of the format);  q = x / s in the format;  decoded: s q
 *
 * A format has a sign, e bits of exponent with the bias 2^(e - 1) - 1, and m of mantissa. Rounding
 * is to nearest, ties to even; below the least exponent steps are equal, down to 0. The scale makes
 * the largest float of a block the largest number of the format, so that none overflows. The error
 * of a float is at most 2^-(m + 1) of it, unless it is far smaller than the block's largest.
 */
#ifndef MINIFLOAT_H
#define MINIFLOAT_H

#include "strategies/codecs/blocks.h"
#include "strategies/codecs/halves.h"

struct format {
	int e, m;
	float largest;
};

/* |x| is at most the largest. Without the sign. */
static inline uint32_t mini_to(float x, struct format f)
{
	const int bias = (1 << (f.e - 1)) - 1, least = 1 - bias;
	uint32_t bits = bits_of(x) & 0x7fffffffu, shift = (uint32_t)(23 - f.m);
	/* adding a number whose last bit is the format's least step rounds to that */
	uint32_t magic = (uint32_t)(127 + least + 23 - f.m) << 23;
	uint32_t small = bits_of(float_of(bits) + float_of(magic)) - magic;
	uint32_t half = (1u << (shift - 1)) - 1 + (bits >> shift & 1);
	uint32_t normal = ((bits + half) >> shift) - ((uint32_t)(127 - bias) << f.m);
	/* a mask: with a condition the loop would not be vectorised */
	uint32_t is_small = -(uint32_t)(bits < (uint32_t)(127 + least) << 23);
	return (small & is_small) | (normal & ~is_small);
}

static inline float mini_from(uint32_t code, struct format f)
{
	const int bias = (1 << (f.e - 1)) - 1, least = 1 - bias;
	float step = float_of((uint32_t)(127 + least - f.m) << 23);
	float normal = float_of((code << (23 - f.m)) + ((uint32_t)(127 - bias) << 23));
	return code >> f.m ? normal : (float)(int32_t)code * step;
}

/* q[i]: the sign in the bit after the format's. With a scale of 0 or NaN any codes decode to that.
 */
static inline void mini_encode(uint8_t *q, const float *x, size_t n, float scale, struct format f)
{
	float per = scale > 0 ? 1 / scale : 0;
	per = per > 1e38f ? 0 : per;
	for (size_t i = 0; i < n; i++) {
		float v = fabsf(x[i]) * per;
		v = v < f.largest ? v : f.largest;
		q[i] = (uint8_t)(mini_to(v, f) | bits_of(x[i]) >> 31 << (f.e + f.m));
	}
}

/* All numbers of the format: number[1 << (1 + e + m)]. */
static inline void mini_numbers(float *number, struct format f)
{
	uint32_t n = 1u << (f.e + f.m);
	for (uint32_t q = 0; q < n; q++) {
		number[q] = mini_from(q, f);
		number[n + q] = -number[q];
	}
}

static inline bool mini_feedback(const void *opts)
{
	(void)opts;
	return true;
}

#endif
