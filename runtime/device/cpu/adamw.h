/*
 * adamw.h - adamw's formula (rules.h) on vectors of 16, for local steps and for pushes on servers.
 *
 * One unit of the processor does both divisions and square roots; these take longer than the memory
 * traffic: 130 us against 91 us for 464,154 parameters. Therefore a product with a reciprocal
 * replaces the division. The reciprocal is estimated to 14 bits and improved once. Factors that are
 * the same for all floats are combined. All floats use the same operations, wherever a slice or a
 * shard ends; a result may differ from the formula's in the last bit or two.
 */
#ifndef CPU_ADAMW_H
#define CPU_ADAMW_H

#include "runtime/device/rules.h"

#ifdef __AVX512F__
#include <immintrin.h>

struct adamw_wide {
	__m512 first, scale, keep, keep2, take, take2, lr, eps, decay;
};

/* A step of those of 16 floats whose bit in `here` is set. all: no mask, because masked stores
 * wait. */
static inline __attribute__((always_inline)) void adamw_16(const struct adamw_wide *w, float *x,
							   float *a, float *b, const float *g,
							   __mmask16 here, bool all)
{
#define AT(v)       (all ? _mm512_loadu_ps(v) : _mm512_maskz_loadu_ps(here, v))
#define STORE(v, y) (all ? _mm512_storeu_ps(v, y) : _mm512_mask_storeu_ps(v, here, y))
	__m512 gg = _mm512_mul_ps(w->scale, _mm512_mul_ps(w->first, AT(g))), aa = AT(a), bb = AT(b),
	       xx = AT(x);
#undef AT
	aa = _mm512_fmadd_ps(w->keep, aa, _mm512_mul_ps(w->take, gg));
	bb = _mm512_fmadd_ps(w->keep2, bb, _mm512_mul_ps(_mm512_mul_ps(w->take2, gg), gg));
	__m512 d = _mm512_add_ps(_mm512_sqrt_ps(bb), w->eps), r = _mm512_rcp14_ps(d);
	r = _mm512_mul_ps(r, _mm512_fnmadd_ps(d, r, _mm512_set1_ps(2)));
	r = _mm512_mul_ps(_mm512_mul_ps(w->lr, aa), r);
	xx = _mm512_sub_ps(xx, _mm512_fmadd_ps(w->decay, xx, r));
	STORE(a, aa);
	STORE(b, bb);
	STORE(x, xx);
#undef STORE
}

static inline bool adamw_wide(float *x, float *a, float *b, const float *g, struct rule by,
			      struct moving_step now, float first, size_t n)
{
	const struct adamw_wide w = {.first = _mm512_set1_ps(first),
				     .keep = _mm512_set1_ps(rule_keep(&by, 0)),
				     .keep2 = _mm512_set1_ps(rule_keep(&by, 1)),
				     .scale = _mm512_set1_ps(by.scale),
				     .take = _mm512_set1_ps(rule_take(&by, 0)),
				     .take2 = _mm512_set1_ps(rule_take(&by, 1)),
				     .lr = _mm512_set1_ps(now.lr * now.unbias[0] / now.unbias[1]),
				     .eps = _mm512_set1_ps(by.eps / now.unbias[1]),
				     .decay = _mm512_set1_ps(now.lr * by.decay)};
	size_t i = 0;
	for (; i + 16 <= n; i += 16)
		adamw_16(&w, x + i, a + i, b + i, g + i, 0, true);
	if (i < n)
		adamw_16(&w, x + i, a + i, b + i, g + i, (__mmask16)((1u << (n - i)) - 1), false);
	return true;
}
#else
/* False: this processor has no vectors of 16 floats. */
static inline bool adamw_wide(float *x, float *a, float *b, const float *g, struct rule by,
			      struct moving_step now, float first, size_t n)
{
	(void)x, (void)a, (void)b, (void)g, (void)by, (void)now, (void)first, (void)n;
	return false;
}
#endif

#endif
