/*
 * signs.h - what sign and majority share: one bit a float, 32 in a word; 1 is negative. 0 is
 * positive.
 */
#ifndef SIGNS_H
#define SIGNS_H

#include "mvbench.h"

#include <math.h>

static inline size_t signs_bytes(size_t n)
{
	return (n + 31) / 32 * 4;
}

static inline void signs_pack(uint32_t *to, const float *x, size_t n)
{
	for (size_t i = 0; i < n; i += 32) {
		size_t bits = n - i < 32 ? n - i : 32;
		uint32_t word = 0;
		if (bits == 32)
#pragma omp simd reduction(| : word)
			for (uint32_t k = 0; k < 32; k++)
				word |= (uint32_t)(x[i + k] < 0) << k;
		else
			for (uint32_t k = 0; k < bits; k++)
				word |= (uint32_t)(x[i + k] < 0) << k;
		to[i / 32] = word;
	}
}

/* y[i] = (add ? y[i] : 0) + the sign of float first + i, times size */
static inline void signs_unpack(float *y, const uint32_t *from, size_t first, size_t n, float size,
				bool add)
{
	for (size_t i = 0; i < n; i++) {
		size_t at = first + i;
		float s = from[at / 32] >> at % 32 & 1 ? -size : size;
		y[i] = (add ? y[i] : 0) + s;
	}
}

#endif
