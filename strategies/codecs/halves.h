/*
 * halves.h - what the codecs of 16 bits a float share: two floats in each word.
 */
#ifndef HALVES_H
#define HALVES_H

#include "strategies/codecs/tiles.h"

static inline size_t halves_bytes(const struct code *c)
{
	return (c->n + 1) / 2 * 4;
}

static inline uint32_t bits_of(float x)
{
	uint32_t bits;
	__builtin_memcpy(&bits, &x, sizeof bits);
	return bits;
}

static inline float float_of(uint32_t bits)
{
	float x;
	__builtin_memcpy(&x, &bits, sizeof x);
	return x;
}

/* encode and decode from the formulas of one float: NAME_to(float), NAME_from(uint16_t). An odd
 * number of floats leaves the last half of the last word 0. */
#define HALVES(NAME, KIND) \
	static struct code_form NAME##_form(const void *opts) \
	{ \
		(void)opts; \
		return (struct code_form){.kind = KIND}; \
	} \
	static void NAME##_encode(const struct code *c, void *wire, const float *x) \
	{ \
		uint16_t *h = wire; \
		for (size_t i = 0; i < c->n; i++) \
			h[i] = NAME##_to(x[i]); \
		if (c->n % 2) \
			h[c->n] = 0; \
	} \
	static bool NAME##_decode(const struct code *c, float *y, const void *wire, bool add) \
	{ \
		const uint16_t *h = wire; \
		for (size_t at = 0; at < c->n; at += TILE) { \
			size_t n = smaller_of(TILE, c->n - at); \
			float some[TILE]; \
			for (size_t i = 0; i < n; i++) \
				some[i] = NAME##_from(h[at + i]); \
			tile_put(y + at, some, n, add, c->n); \
		} \
		tiles_end(); \
		return true; \
	}

#endif
