/*
 * elementwise.c - y[i] = f(y[i], x[i], a), copies, dropout, and rows that have a bias. A pass runs
 * at the speed of the cache that holds its floats.
 */
#include "runtime/device/cpu/cpu.h"
#include "runtime/device/draw.h"

#include <math.h>

/* Inlined with a constant formula. */
static inline __attribute__((always_inline)) void map_all(float *y, const float *x, size_t n,
							  float (*f)(float, float, float), float a)
{
#pragma omp simd
	for (size_t i = 0; i < n; i++)
		y[i] = f(y[i], x[i], a);
}

#define CPU_SCALED(name, params, args, kind, amount, effect, from) \
	void cpu_##name DEVICE_PARAMS(params) \
	{ \
		map_all(y, from, n, map_##name, a); \
	}
SCALED_LIST(CPU_SCALED)

#define CPU_MAP(name, ...) \
	void cpu_##name(struct device *d, float *y, const float *x, size_t n) \
	{ \
		map_all(y, x, n, map_##name, 0); \
	}
MAP_LIST(CPU_MAP)

void cpu_copy(struct device *d, float *y, const float *x, size_t n)
{
	cpu_put(d, y, x, n);
}

void cpu_copy_columns(struct device *d, float *y, size_t y_width, const float *x, size_t x_width,
		      size_t rows, size_t n)
{
	for (size_t r = 0; r < rows; r++)
		cpu_put(d, y + r * y_width, x + r * x_width, n);
}

/* ---- Rows ---------------------------------------------------------------- */

void cpu_add_bias(struct device *d, float *restrict y, const float *restrict b, size_t rows,
		  size_t n)
{
	for (size_t r = 0; r < rows; r++)
		for (size_t j = 0; j < n; j++)
			y[r * n + j] += b[j];
}

void cpu_sum_rows(struct device *d, float *restrict b, const float *restrict y, size_t rows,
		  size_t n)
{
	cpu_fill(d, b, 0, n);
	for (size_t r = 0; r < rows; r++)
		for (size_t j = 0; j < n; j++)
			b[j] += y[r * n + j];
}

/* ---- Dropout ------------------------------------------------------------- */

void cpu_dropout(struct device *d, float *y, float p, uint64_t salt, size_t n)
{
	const uint64_t key = d->key;
	const float scale = 1 / (1 - p);
	for (size_t i = 0; i < n; i++)
		y[i] = dropout_keeps(key, salt, i, p) ? y[i] * scale : 0;
}
