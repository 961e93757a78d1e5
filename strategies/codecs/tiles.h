/*
 * tiles.h - loops over many floats by parts that stay in the first cache: a decoder fills a tile,
 * and tile_put writes it where it belongs; a mask tells which of 32 floats are wanted.
 *
 * Vectors that are longer than the caches are written past them: otherwise the processor first
 * reads each line that it overwrites, which doubles the traffic of a decoder.
 */
#ifndef TILES_H
#define TILES_H

#include "mvbench.h"

#include <math.h>
#include <string.h>
#ifdef __AVX2__
#include <immintrin.h>
#endif

static inline size_t smaller_of(size_t a, size_t b)
{
	return a < b ? a : b;
}

enum { TILE = 2048, FAR = 1 << 22 /* [floats] */ };

/* y[n] = x, which is a tile; with add y += x. all: the length of the whole vector. */
static inline void tile_put(float *y, const float *x, size_t n, bool add, size_t all)
{
	size_t i = 0;
	for (; add && i < n; i++)
		y[i] += x[i];
#ifdef __AVX2__
	if (!add && all >= FAR) {
		for (; i < n && (uintptr_t)(y + i) % sizeof(__m256); i++)
			y[i] = x[i];
		for (; i + 8 <= n; i += 8)
			_mm256_stream_ps(y + i, _mm256_loadu_ps(x + i));
	}
#endif
	(void)all;
	for (; i < n; i++)
		y[i] = x[i];
}

/* After the last tile: other processes see what was written. */
static inline void tiles_end(void)
{
#ifdef __AVX2__
	_mm_sfence();
#endif
}

/* Bit i: x[i] < 0, of n <= 32 floats. */
static inline uint32_t mask_negative(const float *x, size_t n)
{
	uint32_t mask = 0, i = 0;
#ifdef __AVX2__
	for (; n == 32 && i < 32; i += 8)
		mask |= (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(x + i),
								   _mm256_setzero_ps(), _CMP_LT_OQ))
			<< i;
#endif
	for (; i < n; i++)
		mask |= (uint32_t)(x[i] < 0) << i;
	return mask;
}

/* |x| as a number of 31 bits, in an order that is that of the numbers; NaN is above all. */
static inline uint32_t size_of(const float *x, size_t i)
{
	uint32_t bits;
	memcpy(&bits, x + i, sizeof bits);
	return bits & 0x7fffffffu;
}

/* Bit i: size_of(x, i) >= least, of n <= 32 floats. */
static inline uint32_t mask_at_least(const float *x, size_t n, uint32_t least)
{
	uint32_t mask = 0, i = 0;
#ifdef __AVX2__
	const __m256i size = _mm256_set1_epi32(0x7fffffff),
		      below = _mm256_set1_epi32((int32_t)(least - 1));
	for (; n == 32 && i < 32; i += 8) {
		__m256i bits = _mm256_castps_si256(_mm256_loadu_ps(x + i));
		__m256i wanted = _mm256_cmpgt_epi32(_mm256_and_si256(bits, size), below);
		mask |= (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(wanted)) << i;
	}
#endif
	for (; i < n; i++)
		mask |= (uint32_t)(size_of(x, i) >= least) << i;
	return mask;
}

/* The sum of n numbers, a power of 2, which it overwrites: the order of a GPU's threads. */
static inline double sum_of_lanes(double *lane, size_t n)
{
	for (size_t by = n / 2; by > 0; by /= 2)
		for (size_t k = 0; k < by; k++)
			lane[k] += lane[k + by];
	return lane[0];
}

/* The sum of |x| of a tile, in the same order on all processors. */
static inline double sum_of_sizes(const float *x, size_t n)
{
	enum { LANES = 32 };
	float lane[LANES] = {0};
	double wide[LANES];
	size_t i = 0;
	for (; i + LANES <= n; i += LANES)
		for (size_t k = 0; k < LANES; k++)
			lane[k] += fabsf(x[i + k]);
	for (; i < n; i++)
		lane[i % LANES] += fabsf(x[i]);
	for (int k = 0; k < LANES; k++)
		wide[k] = (double)lane[k];
	return sum_of_lanes(wide, LANES);
}

#endif
