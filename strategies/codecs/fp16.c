/*
 * fp16.c - IEEE 754 half precision: 5 bits of exponent and 10 of mantissa, rounded to nearest, ties
 * to even. The relative error is at most 2^-11 from 2^-14 to 65504. Below, steps are 2^-24; above,
 * it is infinite, and the run diverges.
 *
 * 2 bytes a float. Sums are in float32: workers add in it and round the sum once more.
 */
#include "strategies/codecs/halves.h"

static inline uint16_t fp16_to(float x)
{
	uint32_t bits = bits_of(x), sign = bits >> 16 & 0x8000u, most = bits & 0x7fffffffu;
	/* normal: the exponent's bias falls from 127 to 15, and 13 bits of mantissa go */
	uint32_t normal = (most - (112u << 23) + 0xfffu + (most >> 13 & 1)) >> 13;
	/* subnormal: adding 1/2 shifts the mantissa to steps of 2^-24, and rounds it */
	uint32_t small = bits_of(float_of(most) + 0.5f) - bits_of(0.5f);
	uint32_t large = most > 0x7f800000u ? 0x7e00u : 0x7c00u; /* NaN, infinite */
	/* masks: with conditions the loop would not be vectorised */
	uint32_t is_small = -(uint32_t)(most < 113u << 23);
	uint32_t is_large = -(uint32_t)(most >= 0x477ff000u);
	uint32_t half = (small & is_small) | (large & is_large) | (normal & ~is_small & ~is_large);
	return (uint16_t)(sign | half);
}

static inline float fp16_from(uint16_t h)
{
	uint32_t most = h & 0x7fffu, sign = (uint32_t)(h & 0x8000u) << 16;
	float normal = float_of((most << 13) + (112u << 23));
	float small = (float)(int32_t)most * 0x1p-24f;
	float large = float_of(most << 13 | 0x7f800000u);
	uint32_t is_small = -(uint32_t)(most < 0x400u), is_large = -(uint32_t)(most >= 0x7c00u);
	return float_of(sign | (bits_of(small) & is_small) | (bits_of(large) & is_large) |
			(bits_of(normal) & ~is_small & ~is_large));
}

HALVES(fp16, FORM_FP16)

const struct codec codec_fp16 = {
	.plugin = {.name = "fp16",
		   .summary = "half precision: half the bytes; infinite above 65504"},
	.sums = CODEC_SCATTERED,
	.bytes = halves_bytes,
	.encode = fp16_encode,
	.decode = fp16_decode,
	.form = fp16_form,
	.encode_passes = 0.7,
	.decode_passes = 0.45,
};
