/*
 * rules.c - an optimiser's pass over memory: a loop for each formula of rules.h; and the limit on a
 * gradient's length.
 */
#include "runtime/device/cpu/adamw.h"
#include "runtime/device/cpu/cpu.h"

typedef struct moving formula(struct moving f, struct rule by, struct moving_step now);

/* Inlined with a constant formula and number of moments: each rule gets its own loop. */
static inline __attribute__((always_inline)) void rule_each(float *restrict x, float *restrict a,
							    float *restrict b,
							    const float *restrict g,
							    const struct rule *by,
							    struct moving_step now, float first,
							    size_t n, formula *step, int moments)
{
	const struct rule r = *by;
#pragma omp simd
	for (size_t i = 0; i < n; i++) {
		struct moving f = step((struct moving){.x = x[i],
						       .g = first * g[i],
						       .a = moments > 0 ? a[i] : 0,
						       .b = moments > 1 ? b[i] : 0},
				       r, now);
		x[i] = f.x;
		if (moments > 0)
			a[i] = f.a;
		if (moments > 1)
			b[i] = f.b;
	}
}

/* Functions of their own, because the longest one would slow the short ones down: it saves many
 * registers. */
typedef void rule_loop(float *x, float *a, float *b, const float *g, const struct rule *by,
		       struct moving_step now, float first, size_t n);
#define LOOP(kind, word, moments) \
	static void all_##word(float *x, float *a, float *b, const float *g, \
			       const struct rule *by, struct moving_step now, float first, \
			       size_t n) \
	{ \
		rule_each(x, a, b, g, by, now, first, n, rule_##word, moments); \
	}
RULE_LIST(LOOP)

#define LOOP_OF(kind, word, moments) [RULE_##kind] = all_##word,

void cpu_step(struct device *d, float *x, float *a, float *b, const float *g, const struct rule *by,
	      size_t n)
{
	static rule_loop *const loop[] = {RULE_LIST(LOOP_OF)};
	const struct moving_step now = {by->lr, {d->unbias[0], d->unbias[1]}};
	struct rule limited = *by;
	struct limit to = {1, 1};
	if (d->square)
		to = limit_of(d->square, d->most, d->most);
	limited.scale *= to.then;
	if (by->kind != RULE_ADAMW || !adamw_wide(x, a, b, g, limited, now, to.first, n))
		loop[by->kind](x, a, b, g, &limited, now, to.first, n);
}

void cpu_add_squares(struct device *d, float *y, const float *x, size_t n)
{
	double sum = 0;
#pragma omp simd reduction(+ : sum)
	for (size_t i = 0; i < n; i++)
		sum += (double)x[i] * x[i];
	y[0] += (float)sum;
	y[1] += (float)(SQUARES_SCALE * sum);
}

void cpu_ratio(struct device *d, float *y, const float *w, const float *u, float most, float decay,
	       size_t n)
{
	cpu_scale(d, y, ratio_of(w, u, most, decay), n);
}

void cpu_limit(struct device *d, float *restrict y, const float *square, float most, float least,
	       size_t n)
{
	const struct limit by = limit_of(square, most, least);
	if (by.first != 1)
		cpu_scale(d, y, by.first, n);
	if (by.then != 1)
		cpu_scale(d, y, by.then, n);
}
