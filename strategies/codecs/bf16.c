/*
 * bf16.c - bfloat16: the upper half of a float32, 8 bits of exponent and 7 of mantissa, rounded to
 * nearest, ties to even. The relative error is at most 2^-9 (2^-8 between two neighbours).
 *
 * 2 bytes a float. Sums are in float32: workers add in it and round the sum once more.
 */
#include "strategies/codecs/halves.h"

static inline uint16_t bf16_to(float x)
{
	uint32_t bits = bits_of(x), nan = (bits & 0x7fffffffu) > 0x7f800000u;
	return (uint16_t)(nan ? bits >> 16 | 0x40 : (bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

static inline float bf16_from(uint16_t h)
{
	return float_of((uint32_t)h << 16);
}

HALVES(bf16, FORM_BF16)

const struct codec codec_bf16 = {
	.plugin = {.name = "bf16", .summary = "bfloat16: half the bytes, the range of float32"},
	.sums = CODEC_SCATTERED,
	.bytes = halves_bytes,
	.encode = bf16_encode,
	.decode = bf16_decode,
	.form = bf16_form,
	.encode_passes = 0.5,
	.decode_passes = 0.35,
};
