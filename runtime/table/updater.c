/*
 * updater.c - what a push does to the parameters on a server, elementwise.
 *
 *   add           W += scale d
 *   sgd           W -= lr g
 *   momentum      v = m v + g;        W -= lr v             v: of the shard
 *   momentum_ema  v = m v + (1-m) g;  W -= lr v             as Multiverso writes it
 *   adagrad       G_k += g^2;         W -= rho / sqrt(G_k + 1e-6) g      G_k: of worker k;
 *   adagrad_shared                                                      G: of the shard
 *   dcasgd        W -= lr (g + lambda g^2 (W - bak_k))      bak_k: what worker k pulled last
 *   dcasgda       M_k = m M_k + (1-m) g^2;  W -= lr (g + lambda / sqrt(M_k + 1e-7) g^2 (W - bak_k))
 *   staleness     W -= lr / (1 + tau) g                     tau: others' pushes since k's pull
 *
 * Sources: AdaGrad, Duchi et al., JMLR 12 (2011); delay compensation, Zheng et al., arXiv
 * 1609.08326; staleness-aware steps, Zhang et al., arXiv 1511.05950. Cost: one pass, 3 to 6 floats
 * of traffic a parameter.
 */
#include "runtime/table/table.h"

#include <math.h>
#ifdef __AVX__
#include <immintrin.h>
#endif
#include <string.h>

static void add_apply(const struct update *u, size_t n)
{
	float *restrict w = u->w;
	const float *restrict d = u->values;
	float scale = u->by.scale;
#pragma omp simd
	for (size_t i = 0; i < n; i++)
		w[i] += scale * d[i];
}

/* As many floats of out as can be written past the cache: a line that is written whole need not be
 * fetched first, and of a large table nobody finds it there later. Returns how many it did. */
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
#endif
	return i;
}

static void add_apply_read(const struct update *u, float *restrict out, size_t n)
{
	float *restrict w = u->w;
	const float *restrict d = u->values;
	float scale = u->by.scale;
	size_t done = u->large ? add_and_stream(w, d, scale, out, n) : 0;
#pragma omp simd
	for (size_t i = done; i < n; i++) {
		float now = w[i] + scale * d[i];
		w[i] = now;
		out[i] = now;
	}
}

/* W -= step g, in the order of operations of the local optimiser. */
static void descend(float *restrict w, const float *restrict g, float step, size_t n)
{
#pragma omp simd
	for (size_t i = 0; i < n; i++)
		w[i] -= step * g[i];
}

static void sgd_apply(const struct update *u, size_t n)
{
	descend(u->w, u->values, u->by.lr, n);
}

static void staleness_apply(const struct update *u, size_t n)
{
	descend(u->w, u->values, u->by.lr / (float)(1 + u->staleness), n);
}

static void heavy_ball(const struct update *u, float take, size_t n)
{
	float *restrict w = u->w, *restrict v = u->state;
	const float *restrict g = u->values;
	float m = u->by.momentum, lr = u->by.lr;
#pragma omp simd
	for (size_t i = 0; i < n; i++) {
		v[i] = m * v[i] + take * g[i];
		w[i] -= lr * v[i];
	}
}

static void momentum_apply(const struct update *u, size_t n)
{
	heavy_ball(u, 1, n);
}

static void momentum_ema_apply(const struct update *u, size_t n)
{
	heavy_ball(u, 1 - u->by.momentum, n);
}

static void adagrad_with(const struct update *u, float *restrict history, size_t n)
{
	float *restrict w = u->w;
	const float *restrict g = u->values;
	float rho = u->by.rho;
#pragma omp simd
	for (size_t i = 0; i < n; i++) {
		history[i] += g[i] * g[i];
		w[i] -= rho / sqrtf(history[i] + 1e-6f) * g[i];
	}
}

static void adagrad_apply(const struct update *u, size_t n)
{
	adagrad_with(u, u->own, n);
}

static void adagrad_shared_apply(const struct update *u, size_t n)
{
	adagrad_with(u, u->state, n);
}

static void dcasgd_apply(const struct update *u, size_t n)
{
	float *restrict w = u->w;
	const float *restrict g = u->values, *restrict bak = u->pulled;
	float lr = u->by.lr, lambda = u->by.lambda;
#pragma omp simd
	for (size_t i = 0; i < n; i++)
		w[i] -= lr * (g[i] + lambda * g[i] * g[i] * (w[i] - bak[i]));
}

static void dcasgda_apply(const struct update *u, size_t n)
{
	float *restrict w = u->w, *restrict square = u->own;
	const float *restrict g = u->values, *restrict bak = u->pulled;
	float lr = u->by.lr, lambda = u->by.lambda, m = u->by.momentum;
#pragma omp simd
	for (size_t i = 0; i < n; i++) {
		float g2 = g[i] * g[i];
		square[i] = m * square[i] + (1 - m) * g2;
		w[i] -= lr * (g[i] + lambda / sqrtf(square[i] + 1e-7f) * g2 * (w[i] - bak[i]));
	}
}

#define UPDATER(word, formula, ...) \
	static const struct updater updater_##word = { \
		.name = #word, .summary = formula, .apply = word##_apply, __VA_ARGS__};
#define LIST(X) \
	X(add, "W += d", .additive = true, .apply_read = add_apply_read) \
	X(sgd, "W -= lr g", .wants.gradient = true, .additive = true) \
	X(momentum, "v = m v + g; W -= lr v", .wants.gradient = true, .state = true, \
	  .wants.momentum = true) \
	X(momentum_ema, "v = m v + (1-m) g; W -= lr v", .wants.gradient = true, .state = true, \
	  .wants.momentum = true) \
	X(adagrad, "G_k += g^2; W -= rho / sqrt(G_k + 1e-6) g", .wants.gradient = true, \
	  .own = true, .additive = true) \
	X(adagrad_shared, "G += g^2; W -= rho / sqrt(G + 1e-6) g", .wants.gradient = true, \
	  .state = true) \
	X(dcasgd, "W -= lr (g + lambda g^2 (W - bak_k))", .wants.gradient = true, .pulled = true) \
	X(dcasgda, \
	  "M_k = m M_k + (1-m) g^2; W -= lr (g + lambda / sqrt(M_k + 1e-7) g^2 (W - bak_k))", \
	  .wants.gradient = true, .pulled = true, .own = true, .wants.squares = true) \
	X(staleness, "W -= lr / (1 + tau) g", .wants.gradient = true, .additive = true, \
	  .staleness = true)
#define POINT(word, ...) &updater_##word,

LIST(UPDATER)
const struct updater *const updaters[] = {LIST(POINT) NULL};

const struct updater *updater_find(const char *name)
{
	for (size_t i = 0; updaters[i]; i++)
		if (strcmp(updaters[i]->name, name) == 0)
			return updaters[i];
	return NULL;
}

struct updater_wants updater_wants(const char *name)
{
	return updater_find(name)->wants;
}
