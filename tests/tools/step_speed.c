/*
 * step_speed.c - measures an optimiser's pass over its vectors on the CPU, and the least time that
 * its bytes take: step_speed FLOATS REPEAT
 *
 * A rule's pass reads x, g and its moments, and writes all except g. In turns with it, on the same
 * floats, run a copy of one half of them to the other, 8 bytes a float, and a triad of both halves,
 * y += a x, 12 bytes a float. The floor is the time of the pass's bytes at the larger of the two
 * median bandwidths.
 *
 *   NAME bytes B pass MEDIAN floor MEDIAN copy GB/s triad GB/s             times in microseconds
 */
#include "runtime/comm/comm.h"
#include "runtime/device/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COPY, TRIAD, PASS, KINDS, VECTORS = 2 + MOMENTS_MOST };

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median(double *x, size_t n)
{
	qsort(x, n, sizeof *x, by_size);
	return x[n / 2];
}

/* y += by x, or y = x. */
static void stream(struct device *d, int what, float by, float *y, const float *x, size_t n)
{
	if (what == COPY)
		d->ops->copy(d, y, x, n);
	else
		d->ops->axpy(d, y, by, x, n);
}

static void pass(struct device *d, int what, const struct rule *by, float *const v[], size_t n,
		 size_t vectors)
{
	size_t rest = vectors - vectors / 2;
	if (what == PASS) {
		d->ops->step(d, v[0], v[2], v[3], v[1], by, n);
		return;
	}
	for (size_t k = 0; k < vectors / 2; k++)
		stream(d, what, by->lr, v[rest + k], v[k], n);
	if (vectors % 2)
		stream(d, what, by->lr, v[rest - 1] + n / 2, v[rest - 1], n / 2);
}

/* lr is 0: floats keep values such as models have. */
static void measure(struct device *d, const char *name, enum rule_kind kind, size_t n,
		    size_t repeat)
{
	const struct rule by = {.kind = kind, .scale = 1, .beta = {0.9, 0.999}, .eps = 1e-8f};
	size_t moments = (size_t)rule_moments(kind), vectors = 2 + moments;
	float *v[VECTORS] = {NULL};
	double *took[KINDS], us[KINDS];
	for (size_t k = 0; k < vectors; k++) {
		v[k] = d->ops->alloc(d, n);
		d->ops->fill(d, v[k], 0.01f, n);
	}
	for (int what = 0; what < KINDS; what++)
		took[what] = must(calloc(repeat, sizeof **took));
	for (size_t i = 0; i < repeat; i++)
		for (int what = 0; what < KINDS; what++) {
			nsec since = clock_now();
			pass(d, what, &by, v, n, vectors);
			took[what][i] = 1e-3 * (double)(clock_now() - since);
		}
	for (int what = 0; what < KINDS; what++) {
		us[what] = median(took[what], repeat);
		free(took[what]);
	}
	double halves = (double)(vectors * n / 2), bytes = 12 + 8 * (double)moments;
	double copy = 8 * halves / us[COPY], triad = 12 * halves / us[TRIAD];
	double floor_us = bytes * (double)n / (copy > triad ? copy : triad);
	printf("%s bytes %.0f pass %.2f floor %.2f copy %.2f triad %.2f\n", name, bytes * (double)n,
	       us[PASS], floor_us, 1e-3 * copy, 1e-3 * triad);
	for (size_t k = 0; k < vectors; k++)
		d->ops->free(d, v[k], n);
}

int main(int argc, char **argv)
{
	size_t n = argc > 1 ? (size_t)atol(argv[1]) : 464154,
	       repeat = argc > 2 ? (size_t)atol(argv[2]) : 300;
	struct device d = {.ops = &device_cpu, .unbias = {1.5f, 2}};
	d.ops->open(&d, 1);
	cpu_flush_denormals();
#define MEASURE(kind, word, moments) measure(&d, #word, RULE_##kind, n, repeat);
	RULE_LIST(MEASURE)
	d.ops->close(&d);
	return 0;
}
