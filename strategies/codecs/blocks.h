/*
 * blocks.h - what codecs with one scale for each block of floats share. Of int8 and int4:
 *
 *   s = max |x| / L over the block;  q = round(x / s), from -L to L;  decoded: s q
 *
 * L is 127 for 8 bits, 7 for 4. Nearest: the error is at most s / 2. Stochastic: q = floor(x / s +
 * u) with u uniform in [0, 1), so that the mean of s q is x; the error is below s.
 *
 * A message is the scales, then the integers: 4 ceil(n / block) + bits n / 8 bytes. A block with a
 * number that is not finite decodes to NaN, so that the run is found to diverge.
 */
#ifndef BLOCKS_H
#define BLOCKS_H

#include "mvbench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct blocks_opts {
	int64_t block;
	const char *kind; /* of int8 and int4: the rounding; of fp8 and fp4: the format */
};

#define BLOCKS_OPTION \
	OPTION(block, INT, "block", "256", "floats that share a scale [floats]", .min = 8, \
	       .max = 1 << 20, .check = blocks_check)
#define ROUNDING_OPTION \
	OPTION(kind, CHOICE, "rounding", "nearest", \
	       "nearest: the smallest error; stochastic: the mean of the error is 0 [name]", \
	       .choices = "nearest|stochastic")

static inline char *blocks_check(const struct option *o, const char *text)
{
	return strtoll(text, NULL, 10) % 8 == 0
		       ? NULL
		       : sentence("--%s=%s: give a multiple of 8, such as 256", o->name, text);
}

static inline bool blocks_is(const void *opts, const char *kind)
{
	const struct blocks_opts *o = opts;
	return strcmp(o->kind, kind) == 0;
}

static inline bool blocks_stochastic(const void *opts)
{
	return blocks_is(opts, "stochastic");
}

/* What is lost at nearest has a mean of its own, which feedback returns. */
static inline bool blocks_feedback(const void *opts)
{
	return !blocks_stochastic(opts);
}

/* block is the first member of all their options. */
static inline size_t blocks_block(const void *opts)
{
	return (size_t) * (const int64_t *)opts;
}

static inline size_t blocks_count(const struct code *c)
{
	size_t block = blocks_block(c->opts);
	return (c->n + block - 1) / block;
}

/* Of a message of scales and 4 bits a float. */
static inline size_t nibbles_bytes(const struct code *c)
{
	return 4 * blocks_count(c) + (c->n + 7) / 8 * 4;
}

/* max |x| / most; NaN if a number is not finite. */
static inline float block_scale(const float *x, size_t n, float most)
{
	float largest = 0, odd = 0;
#pragma omp simd reduction(max : largest) reduction(+ : odd)
	for (size_t i = 0; i < n; i++) {
		float a = fabsf(x[i]);
		largest = a > largest ? a : largest;
		odd += 0 * x[i];
	}
	return odd == 0 ? largest / most : NAN;
}

/* NaN becomes most: its block has the scale NaN. */
static inline int8_t block_clamp(float v, float most)
{
	v = v < most ? v : most;
	return (int8_t)(v > -most ? v : -most);
}

/* q[n] of a block whose first float is number `first` of the message. */
static inline void block_round(const struct code *c, int8_t *q, const float *x, size_t first,
			       size_t n, float scale, float most)
{
	float per = scale > 0 ? 1 / scale : 0; /* 0 also for NaN */
	per = per > 1e38f ? 0 : per;           /* of a scale that is hardly a number */
	if (blocks_stochastic(c->opts)) {
		for (size_t i = 0; i < n; i++) { /* above 0, a cast rounds down */
			float v = x[i] * per + code_uniform(c->key, first + i) + most;
			v = v < 2 * most ? v : 2 * most;
			v = v > 0 ? v : 0;
			q[i] = (int8_t)((int)v - (int)most);
		}
	} else {
		for (size_t i = 0; i < n; i++)
			q[i] = block_clamp(rintf(x[i] * per), most);
	}
}

#endif
