/*
 * rng.c - splitmix64 (Steele, Lea, Flood, OOPSLA 2014): 64 bits of state, the same numbers on every
 * platform. A stream is a seed mixed with a number: shards, batches, initial weights and stragglers
 * never share a stream.
 */
#include "runtime/base/base.h"

#include <math.h>

static uint64_t mix(uint64_t z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

uint64_t rng_seed(int64_t seed, enum rng_stream what, int64_t index)
{
	uint64_t stream = (uint64_t)what << 56 | (uint64_t)index;
	CHECK(index >= 0 && index >> 56 == 0, "stream %d has no part %lld", (int)what,
	      (long long)index);
	return mix(mix((uint64_t)seed + 0x9e3779b97f4a7c15u) ^ mix(~stream));
}

uint64_t rng_next(uint64_t *s)
{
	return mix(*s += 0x9e3779b97f4a7c15u);
}

double rng_uniform(uint64_t *s)
{
	return (double)(rng_next(s) >> 11) * 0x1p-53;
}

/* Box and Muller. The second number of a pair is dropped to keep the state one word. */
double rng_normal(uint64_t *s)
{
	double u = 1.0 - rng_uniform(s), v = rng_uniform(s);
	return sqrt(-2.0 * log(u)) * cos(2.0 * M_PI * v);
}
