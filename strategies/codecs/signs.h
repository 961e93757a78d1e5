/*
 * signs.h - what sign and majority share: one bit a float, 32 in a word; 1 is negative. 0 is
 * positive.
 */
#ifndef SIGNS_H
#define SIGNS_H

#include "strategies/codecs/tiles.h"

static inline size_t signs_bytes(size_t n)
{
	return (n + 31) / 32 * 4;
}

static inline void signs_pack(uint32_t *to, const float *x, size_t n)
{
	for (size_t i = 0; i < n; i += 32)
		to[i / 32] = mask_negative(x + i, smaller_of(32, n - i));
}

static inline float signs_one(uint32_t word, uint32_t k, float size)
{
	uint32_t bits;
	__builtin_memcpy(&bits, &size, sizeof bits);
	bits ^= word >> k << 31;
	__builtin_memcpy(&size, &bits, sizeof size);
	return size;
}

/* y[i] = (add ? y[i] : 0) + the sign of float first + i, times size: by whole words, between the
 * floats that are in words with others. */
static inline void signs_unpack(float *y, const uint32_t *from, size_t first, size_t n, float size,
				bool add)
{
	for (size_t at = 0, end; at < n; at = end) {
		float some[TILE];
		end = smaller_of(at + TILE, n);
		for (size_t i = at, bits; i < end; i += bits) {
			size_t k = (first + i) % 32;
			uint32_t word = from[(first + i) / 32] >> k;
			bits = smaller_of(32 - k, end - i);
			if (bits == 32)
				for (uint32_t b = 0; b < 32; b++)
					some[i - at + b] = signs_one(word, b, size);
			else
				for (uint32_t b = 0; b < bits; b++)
					some[i - at + b] = signs_one(word, b, size);
		}
		tile_put(y + at, some, end - at, add, n);
	}
	tiles_end();
}

#endif
