/*
 * blocks.h - what codecs with one scale for each block of floats share. Of int8 and int4:
 *
 *   s = max |x| / L over the block;  q = round(x / s), from -L to L;  decoded: s q
 *
 * L is 127 for 8 bits, 7 for 4. Nearest: the error is at most s / 2. Stochastic: q = floor(x / s +
 * u) with u uniform in [0, 1), so that the mean of s q is x; the error is below s.
 *
 * A message is the scales, then the codes of 8 or 4 bits: 4 ceil(n / block) + bits n / 8 bytes. A
 * block with a number that is not finite decodes to NaN, so that the run is found to diverge.
 *
 * A codec is a struct block_rule. The loops are inlined with it: each codec has its own.
 */
#ifndef BLOCKS_H
#define BLOCKS_H

#include "strategies/codecs/halves.h"

#include <stdlib.h>

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

/* Of a message of scales and 8 bits a float, or 4. */
static inline size_t bytes_bytes(const struct code *c)
{
	return 4 * blocks_count(c) + (c->n + 3) / 4 * 4;
}
static inline size_t nibbles_bytes(const struct code *c)
{
	return 4 * blocks_count(c) + (c->n + 7) / 8 * 4;
}

/* Of int8 and int4. */
static inline struct code_form blocks_form(const void *opts, int bits)
{
	return (struct code_form){.kind = FORM_BLOCKS,
				  .bits = bits,
				  .block = blocks_block(opts),
				  .stochastic = blocks_stochastic(opts)};
}

struct block_rule {
	bool nibbles; /* code i is in the lower half of byte i / 2 if i is even */
	float most;   /* L */
	float (*scale)(const float *x, size_t n, float most);
	/* q[n] of the floats from number `at` of the message; per: 1 / scale, 0 for 0 and NaN */
	void (*encode)(const struct code *c, uint8_t *q, const float *x, size_t at, size_t n,
		       float per, float most);
	void (*decode)(float *y, const uint8_t *q, size_t n, float scale);
};

/* max |x| / most; NaN if a number is not finite: as numbers of 31 bits these are the largest. */
static inline float block_scale(const float *x, size_t n, float most)
{
	uint32_t largest = 0;
#pragma omp simd reduction(max : largest)
	for (size_t i = 0; i < n; i++)
		largest = size_of(x, i) > largest ? size_of(x, i) : largest;
	return largest < 0x7f800000u ? float_of(largest) / most : NAN;
}

/* The integers plus `zero`. Nearest: 1.5 x 2^23 + v has round(v) in its last bits. */
static inline __attribute__((always_inline)) void block_round(const struct code *c, uint8_t *q,
							      const float *x, size_t at, size_t n,
							      float per, float most, uint32_t zero)
{
	if (blocks_stochastic(c->opts)) {
		uint64_t key = c->key;
		for (size_t i = 0; i < n; i++) { /* above 0, a cast rounds down */
			float v = x[i] * per + code_uniform(key, at + i) + most;
			v = v < 2 * most ? v : 2 * most;
			v = v > 0 ? v : 0;
			q[i] = (uint8_t)((uint32_t)(int32_t)v - (uint32_t)most + zero);
		}
	} else {
		for (size_t i = 0; i < n; i++)
			q[i] = (uint8_t)(bits_of(x[i] * per + 0x1.8p23f) + zero);
	}
}

static inline __attribute__((always_inline)) void blocks_encode(const struct code *c, void *wire,
								const float *x,
								const struct block_rule r)
{
	enum { AT_ONCE = 256 };
	size_t block = blocks_block(c->opts), blocks = blocks_count(c);
	float *scale = wire;
	uint8_t *to = (uint8_t *)(scale + blocks);
	if (c->n > 0)
		memset((uint8_t *)wire + (r.nibbles ? nibbles_bytes(c) : bytes_bytes(c)) - 4, 0, 4);
	for (size_t b = 0; b < blocks; b++) {
		size_t first = b * block, end = c->n - first < block ? c->n : first + block;
		float s = scale[b] = r.scale(x + first, end - first, r.most),
		      per = s > 0 ? 1 / s : 0;
		per = per > 1e38f ? 0 : per; /* of a scale that is hardly a number */
		for (size_t at = first; at < end; at += AT_ONCE) {
			uint8_t q[AT_ONCE + 1]; /* bytes elsewhere might be the floats */
			size_t n = smaller_of(AT_ONCE, end - at);
			r.encode(c, q, x + at, at, n, per, r.most);
			q[n] = 0;
			if (!r.nibbles)
				memcpy(to + at, q, n);
			for (size_t i = 0; r.nibbles && i < (n + 1) / 2; i++)
				to[at / 2 + i] = (uint8_t)((q[2 * i] & 15) | q[2 * i + 1] << 4);
		}
	}
}

static inline __attribute__((always_inline)) bool blocks_decode(const struct code *c, float *y,
								const void *wire, bool add,
								const struct block_rule r)
{
	size_t block = blocks_block(c->opts);
	const float *scale = wire;
	const uint8_t *from = (const uint8_t *)(scale + blocks_count(c));
	for (size_t at = 0; at < c->n; at += TILE) {
		float some[TILE];
		uint8_t nibble[TILE];
		size_t end = smaller_of(at + TILE, c->n);
		for (size_t i = 0; r.nibbles && i < (end - at + 1) / 2; i++) {
			nibble[2 * i] = from[at / 2 + i] & 15;
			nibble[2 * i + 1] = from[at / 2 + i] >> 4;
		}
		const uint8_t *q = r.nibbles ? nibble : from + at;
		for (size_t i = at, stop; i < end; i = stop) {
			size_t b = i / block;
			stop = smaller_of((b + 1) * block, end);
			r.decode(some + (i - at), q + (i - at), stop - i, scale[b]);
		}
		tile_put(y + at, some, end - at, add, c->n);
	}
	tiles_end();
	return true;
}

#endif
