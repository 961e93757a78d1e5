/*
 * updater.c - what a push does to the parameters on a server, on the CPU: one loop for each formula
 * of runtime/device/updaters.h.
 */
#include "runtime/device/cpu/adamw.h"
#include "runtime/table/table.h"

#ifdef __AVX__
#include <immintrin.h>
#endif
#include <string.h>

/* Writes floats of out past the cache: a line that is written whole need not be fetched first, and
 * a large table is not read from the cache later. Returns how many floats it did. */
static size_t add_and_stream(float *restrict w, const float *restrict d, float scale,
			     float *restrict out, size_t n)
{
	size_t i = 0;
#ifdef __AVX__
	for (; i < n && (uintptr_t)(out + i) % sizeof(__m256); i++)
		out[i] = w[i] += scale * d[i];
	for (; i + 8 <= n; i += 8) {
		__m256 x = _mm256_mul_ps(_mm256_set1_ps(scale), _mm256_loadu_ps(d + i));
		x = _mm256_add_ps(_mm256_loadu_ps(w + i), x);
		_mm256_storeu_ps(w + i, x);
		_mm256_stream_ps(out + i, x);
	}
	_mm_sfence();
#else
	(void)w, (void)d, (void)scale, (void)out, (void)n;
#endif
	return i;
}

/* As the local optimiser does. Returns how many floats it did. */
static size_t adam_wide(const struct update *u, size_t n)
{
	struct moving_step now = {.lr = u->by.lr};
	update_unbias(u, now.unbias);
	if (!adamw_wide(u->w, u->state, u->more, u->values, adam_rule(u->by), now, 1, n))
		return 0;
	if (u->out)
		memcpy(u->out, u->w, n * sizeof *u->w);
	return n;
}

typedef struct table_element formula(struct table_element x, struct push by);

/* All arguments but u are constants where this is inlined, so each updater has loops of its own. */
static inline __attribute__((always_inline)) void updater_each(const struct update *u, size_t i,
							       size_t n, formula *push,
							       enum keeps keeps, bool reads,
							       bool outs)
{
	const struct push by = u->by;
	const float tau = (float)u->staleness, *g = u->values, *pulled = u->pulled;
	float *w = u->w, *out = u->out, *state = update_state(u, keeps), *more = u->more;
	float unbias[2] = {1, 1};
	if (keeps == KEEPS_MORE)
		update_unbias(u, unbias);
	const float first = unbias[0], second = unbias[1];
#pragma omp simd
	for (size_t j = i; j < n; j++) {
		struct table_element x =
			push((struct table_element){.w = w[j],
						    .g = g[j],
						    .state = keeps ? state[j] : 0,
						    .pulled = reads ? pulled[j] : 0,
						    .tau = tau,
						    .more = keeps == KEEPS_MORE ? more[j] : 0,
						    .unbias = {first, second}},
			     by);
		w[j] = x.w;
		if (keeps)
			state[j] = x.state;
		if (keeps == KEEPS_MORE)
			more[j] = x.more;
		if (outs)
			out[j] = x.w;
	}
}

#define UPDATER(word, formula_text, keeps, reads, ...) \
	static BEST_OF_CPU void word##_apply(const struct update *u, size_t n) \
	{ \
		size_t done = 0; \
		if (UPDATER_##word == UPDATER_add && u->out && u->large) \
			done = add_and_stream(u->w, u->values, u->by.scale, u->out, n); \
		if (UPDATER_##word == UPDATER_adam) \
			done = adam_wide(u, n); \
		if (u->out) \
			updater_each(u, done, n, push_##word, KEEPS_##keeps, reads, true); \
		else \
			updater_each(u, done, n, push_##word, KEEPS_##keeps, reads, false); \
	} \
	static const struct updater updater_##word = {.name = #word, \
						      .summary = formula_text, \
						      .kind = UPDATER_##word, \
						      .apply = word##_apply, \
						      .state = KEEPS_##keeps == KEEPS_STATE || \
							       KEEPS_##keeps == KEEPS_MORE, \
						      .more = KEEPS_##keeps == KEEPS_MORE, \
						      .own = KEEPS_##keeps == KEEPS_OWN, \
						      .pulled = reads, \
						      __VA_ARGS__};
UPDATER_LIST(UPDATER)

#define POINT(word, ...)  &updater_##word,
#define CHOICE(word, ...) "|" #word
const struct updater *const updaters[] = {UPDATER_LIST(POINT) NULL};
const char updater_choices[] = "" UPDATER_LIST(CHOICE);

FIND_BY_NAME(updater, updater_find, updaters, name)

struct updater_wants updater_wants(const char *name)
{
	return updater_find(name)->wants;
}
