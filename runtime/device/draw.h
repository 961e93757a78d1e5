/*
 * draw.h - the random draws of a step for each row or float. Processors and GPUs compile the same
 * code; all devices therefore draw the same.
 */
#ifndef DRAW_H
#define DRAW_H

#include "runtime/base/common.h"

#include <stdbool.h>
#include <stdint.h>

/* How a row is cropped: y[i][j] = x[i + down - pad][k + right - pad], k = j or width - 1 - j. */
struct crop {
	size_t down, right; /* 0 .. 2 pad */
	bool mirror;
};
static inline ON_DEVICE uint64_t hash64(uint64_t x) /* splitmix64's output function */
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}
static inline ON_DEVICE struct crop crop_of(uint64_t key, int32_t row, size_t pad, bool flip)
{
	uint64_t h = hash64(key ^ hash64((uint64_t)row));
	struct crop c;
	c.down = (size_t)((h & 0xffff) * (2 * pad + 1) >> 16);
	c.right = (size_t)((h >> 16 & 0xffff) * (2 * pad + 1) >> 16);
	c.mirror = flip && (h >> 32 & 1);
	return c;
}
/* Does a dropout with this key and salt keep float i? */
static inline ON_DEVICE bool dropout_keeps(uint64_t key, uint64_t salt, size_t i, float p)
{
	return (float)(hash64((key + salt) ^ hash64(i)) >> 40) * (1.0f / (1 << 24)) >= p;
}

#endif
