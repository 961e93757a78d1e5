/*
 * code_speed.c - measures each codec's encode and decode, and the least time that their bytes take:
 * code_speed FLOATS REPEAT [cuda]
 *
 * encode reads the floats and writes the message; decode reads the message and writes the floats.
 * Of randomk, encode reads only the cache lines of its places. In turns with them runs a copy of
 * the floats, 8 bytes a float. The floor is the time of both passes' bytes at the copy's bandwidth.
 * Matrices are 1024 columns wide. The floor of powersgd is the time of its three products alone. On
 * a GPU a time is the mean of 20 passes in a row, of codecs for which it has kernels.
 *
 *   NAME bytes B pass MEDIAN floor MEDIAN encode MEDIAN decode MEDIAN      times in microseconds
 */
#include "runtime/config/config.h"
#include "runtime/device/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ENCODE, DECODE, COPY, PRODUCTS, KINDS, COLUMNS = 1024, LINE = 64 };

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

static size_t bytes_of(const struct codec *c, struct code *code)
{
	size_t bytes = 0;
	code->round = 0;
	do
		bytes += c->bytes(code);
	while (++code->round < c->rounds);
	code->round = 0;
	return bytes;
}

static void encode(const struct codec *c, struct code *code, float *wire[2], const float *x)
{
	code->round = 0;
	do {
		code->sum = wire[1 - code->round % 2];
		c->encode(code, wire[code->round % 2], x);
	} while (++code->round < c->rounds);
	code->round--;
}

/* Those of powersgd with its default rank: M Q, M^T P and P Q^T, by the CPU's own products. */
static void multiply(struct device *d, float *v[4], size_t rows)
{
	enum { RANK = 2 };
	d->ops->gemm(d, v[2], false, v[0], false, v[3], rows, RANK, COLUMNS);
	d->ops->gemm(d, v[3], true, v[0], false, v[2], COLUMNS, RANK, rows);
	d->ops->gemm(d, v[1], false, v[2], true, v[3], rows, COLUMNS, RANK);
}

static void measure(struct device *d, const struct codec *c, float *v[4], size_t n, size_t repeat)
{
	double *opts = must(calloc(1, c->plugin.opts_size + sizeof *opts)), *took[KINDS], us[KINDS];
	struct tensor matrix = {.rows = n / COLUMNS, .columns = COLUMNS};
	struct code code = {.opts = opts,
			    .n = n,
			    .tensor = &matrix,
			    .tensors = 1,
			    .key = 1,
			    .common = 2,
			    .workers = 1};
	option_default(c->plugin.options, opts);
	const struct peer_ops *gpu = d->ops->peer;
	const struct code_form form =
		gpu && c->form ? c->form(opts) : (struct code_form){.kind = FORM_HOST};
	const int passes = gpu ? 20 : 1;
	if (gpu && form.kind == FORM_HOST) {
		free(opts);
		return;
	}
	size_t wire = bytes_of(c, &code), state = c->state ? c->state(&code) : 0;
	float *kept = must(calloc(state + 1, sizeof *kept));
	code.state = kept;
	for (int what = 0; what < KINDS; what++)
		took[what] = must(calloc(repeat, sizeof **took));
	for (size_t i = 0; i < repeat; i++)
		for (int what = 0; what < KINDS; what++) {
			nsec since = clock_now();
			for (int pass = 0; pass < passes; pass++)
				if (what == COPY)
					d->ops->copy(d, v[1], v[0], n);
				else if (what == ENCODE && gpu)
					gpu->encode(d, &form, &code, v[2], wire / sizeof(float),
						    v[0]);
				else if (what == DECODE && gpu)
					gpu->decode(d, &form, &code, v[1], v[2],
						    wire / sizeof(float), false);
				else if (what == ENCODE)
					encode(c, &code, v + 2, v[0]);
				else if (what == DECODE)
					c->decode(&code, v[1], v[2 + code.round % 2], false);
				else if (c->rounds > 1)
					multiply(d, v, matrix.rows);
			device_sync(d);
			took[what][i] = 1e-3 * (double)(clock_now() - since) / passes;
		}
	for (int what = 0; what < KINDS; what++) {
		us[what] = median(took[what], repeat);
		free(took[what]);
	}
	size_t read = strcmp(c->plugin.name, "randomk") == 0
			      ? smaller(wire / sizeof(float) * LINE, n * sizeof(float))
			      : n * sizeof(float);
	double bytes = (double)(read + n * sizeof(float) + 2 * wire);
	double least = c->rounds > 1 ? us[PRODUCTS] : bytes * us[COPY] / (8 * (double)n);
	printf("%s bytes %zu pass %.1f floor %.1f encode %.1f decode %.1f\n", c->plugin.name, wire,
	       us[ENCODE] + us[DECODE], least, us[ENCODE], us[DECODE]);
	free(kept);
	free(opts);
}

int main(int argc, char **argv)
{
	size_t n = argc > 1 ? (size_t)atol(argv[1]) : 8 << 20,
	       repeat = argc > 2 ? (size_t)atol(argv[2]) : 20;
	struct device d = {.ops = argc > 3 ? device_find(argv[3]) : &device_cpu,
			   .precision = "float32"};
	const char *why = d.ops ? d.ops->probe(NULL) : "no such device";
	float *v[4], *drawn;
	uint64_t rng = 1;
	if (why) {
		fprintf(stderr, "%s\n", why);
		return 1;
	}
	n = n / COLUMNS * COLUMNS;
	drawn = must(malloc(2 * n * sizeof *drawn));
	d.ops->open(&d, 1);
	cpu_flush_denormals();
	for (int k = 0; k < 4; k++) {
		v[k] = d.ops->alloc(&d, 2 * n);
		for (size_t i = 0; i < 2 * n; i++)
			drawn[i] = (float)(rng_uniform(&rng) - 0.5);
		d.ops->put(&d, v[k], drawn, 2 * n);
	}
	free(drawn);
	for (size_t i = 1; codecs[i]; i++)
		measure(&d, codecs[i], v, n, repeat);
	for (int k = 0; k < 4; k++)
		d.ops->free(&d, v[k], 2 * n);
	d.ops->close(&d);
	return 0;
}
