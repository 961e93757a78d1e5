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

struct format {
	int e, m;
	float largest;
};

/* Of a float that is at most the largest, from its bits. */
static inline uint32_t mini_to(uint32_t bits, struct format f)
{
	const int bias = (1 << (f.e - 1)) - 1, least = 1 - bias;
	uint32_t shift = (uint32_t)(23 - f.m);
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
	float small = (float)(int32_t)code * step;
	uint32_t is_small = -(uint32_t)(code < 1u << f.m);
	return float_of((bits_of(small) & is_small) | (bits_of(normal) & ~is_small));
}

/* The sign is in the bit after the format's. */
static inline void mini_encode(uint8_t *q, const float *x, size_t n, float per, struct format f)
{
	const uint32_t largest = bits_of(f.largest);
	for (size_t i = 0; i < n; i++) { /* NaN is above the largest */
		uint32_t bits = bits_of(fabsf(x[i]) * per);
		bits = bits < largest ? bits : largest;
		q[i] = (uint8_t)(mini_to(bits, f) | bits_of(x[i]) >> 31 << (f.e + f.m));
	}
}

static inline void mini_decode(float *y, const uint8_t *q, size_t n, float scale, struct format f)
{
	const uint32_t bits = (uint32_t)(f.e + f.m), size = (1u << bits) - 1;
	for (size_t i = 0; i < n; i++) {
		uint32_t sign = (uint32_t)q[i] >> bits << 31;
		y[i] = scale * float_of(bits_of(mini_from(q[i] & size, f)) | sign);
	}
}

/* NAME_encode and NAME_decode of a format. */
#define MINIFLOAT(NAME, NIBBLES, E, M, LARGEST) \
	static inline void NAME##_codes(const struct code *c, uint8_t *q, const float *x, \
					size_t at, size_t n, float per, float most) \
	{ \
		(void)c, (void)at, (void)most; \
		mini_encode(q, x, n, per, (struct format){E, M, LARGEST}); \
	} \
	static inline void NAME##_floats(float *y, const uint8_t *q, size_t n, float scale) \
	{ \
		mini_decode(y, q, n, scale, (struct format){E, M, LARGEST}); \
	} \
	static void NAME##_encode(const struct code *c, void *wire, const float *x) \
	{ \
		blocks_encode(c, wire, x, \
			      (struct block_rule){NIBBLES, LARGEST, block_scale, NAME##_codes, \
						  NAME##_floats}); \
	} \
	static bool NAME##_decode(const struct code *c, float *y, const void *wire, bool add) \
	{ \
		return blocks_decode(c, y, wire, add, \
				     (struct block_rule){NIBBLES, LARGEST, block_scale, \
							 NAME##_codes, NAME##_floats}); \
	}

static inline bool mini_feedback(const void *opts)
{
	(void)opts;
	return true;
}

#endif
