/*
 * cpu.c - the CPU: oneDNN's sgemm for matrices, plain loops that the compiler vectorises for the rest.
 *
 * Costs, one core of a 2.45 GHz Zen 3: sgemm runs at 75 to 95 GFLOP/s on hidden layers and at 40 on
 * 10 outputs; an elementwise pass runs at the speed of the cache that holds its floats. A call of
 * sgemm costs 0.4 us before it has done anything, so matrices below TINY go through the plain loop.
 */
#include "platform.h"

#include <math.h>
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
	ALIGN = 64,     /* a cache line [bytes] */
	HUGE = 2 << 20, /* a huge page [bytes] */
	MAPPED =
		64 << 10, /* from here on memory is mapped, so that what is never touched is free */
	MAPPED_HUGE = 4 << 20 /* and from here on in huge pages */
};

/* ---- Memory ---------------------------------------------------------------------------------------- */

static const char *cpu_probe(void)
{
	return NULL;
}

static void cpu_open(struct device *d, int threads)
{
	(void)d;
	omp_set_num_threads(threads);
}

static void cpu_close(struct device *d)
{
	(void)d;
}

static size_t whole(size_t bytes, size_t unit)
{
	return (bytes + unit - 1) / unit * unit;
}

/* As many bytes as alloc took for n floats. */
static size_t footprint(size_t n)
{
	size_t bytes = n * sizeof(float);

	return whole(bytes, bytes >= MAPPED_HUGE ? HUGE : bytes >= MAPPED ? 4096 : ALIGN);
}

static float *cpu_alloc(struct device *d, size_t n)
{
	size_t bytes = footprint(n);

	(void)d;
	if (bytes < MAPPED) {
		float *p = must(aligned_alloc(ALIGN, bytes ? bytes : ALIGN));

		memset(p, 0, bytes);
		return p;
	}
	/* A mapping starts at any page: map one huge page more, and give back what sticks out. */
	size_t slack = bytes >= MAPPED_HUGE ? HUGE : 0;
	char *p = mmap(NULL, bytes + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		       0);

	must(p == MAP_FAILED ? NULL : p);
	if (slack) {
		char *aligned = (char *)whole((uintptr_t)p, HUGE);

		if (aligned > p)
			munmap(p, aligned - p);
		if (p + slack > aligned)
			munmap(aligned + bytes, p + slack - aligned);
		p = aligned;
		madvise(p, bytes, MADV_HUGEPAGE);
	}
	return (float *)p;
}

static void cpu_free(struct device *d, float *p, size_t n)
{
	size_t bytes = footprint(n);

	(void)d;
	if (bytes < MAPPED)
		free(p);
	else
		munmap(p, bytes);
}

static void cpu_put(struct device *d, float *y, const float *host, size_t n)
{
	(void)d;
	if (n)
		memcpy(y, host, n * sizeof *y);
}

static void cpu_get(struct device *d, float *host, const float *x, size_t n)
{
	cpu_put(d, host, x, n);
}

/* ---- Elementwise ------------------------------------------------------------------------------------ */

static void cpu_fill(struct device *d, float *y, float a, size_t n)
{
	(void)d;
	for (size_t i = 0; i < n; i++)
		y[i] = a;
}

static void cpu_copy(struct device *d, float *y, const float *x, size_t n)
{
	cpu_put(d, y, x, n);
}

static void cpu_scale(struct device *d, float *y, float a, size_t n)
{
	(void)d;
	for (size_t i = 0; i < n; i++)
		y[i] *= a;
}

static void cpu_axpy(struct device *d, float *restrict y, float a, const float *restrict x,
		     size_t n)
{
	(void)d;
	for (size_t i = 0; i < n; i++)
		y[i] += a * x[i];
}

static void cpu_take_columns(struct device *d, float *y, const float *x, size_t rows, size_t width,
			     size_t first, size_t n)
{
	for (size_t r = 0; r < rows; r++)
		cpu_put(d, y + r * n, x + r * width + first, n);
}

static void cpu_put_columns(struct device *d, float *y, const float *x, size_t rows, size_t width,
			    size_t first, size_t n)
{
	for (size_t r = 0; r < rows; r++)
		cpu_put(d, y + r * width + first, x + r * n, n);
}

/* ---- Matrices ---------------------------------------------------------------------------------------- */

/* y[m x n] = op(a)[m x k] op(b)[k x n], as it is defined: the oracle, and fast enough below TINY. */
static void gemm_plain(float *restrict y, bool at, const float *restrict a, bool bt,
		       const float *restrict b, size_t m, size_t n, size_t k)
{
	if (bt) {
		for (size_t i = 0; i < m; i++)
			for (size_t j = 0; j < n; j++) {
				float sum = 0;

#pragma omp simd reduction(+ : sum)
				for (size_t p = 0; p < k; p++)
					sum += a[at ? p * m + i : i * k + p] * b[j * k + p];
				y[i * n + j] = sum;
			}
		return;
	}
	for (size_t i = 0; i < m; i++) {
		float *row = y + i * n;

		for (size_t j = 0; j < n; j++)
			row[j] = 0;
		for (size_t p = 0; p < k; p++) {
			float x = at ? a[p * m + i] : a[i * k + p];

			for (size_t j = 0; j < n; j++)
				row[j] += x * b[p * n + j];
		}
	}
}

enum { TINY = 4096 }; /* multiply-adds */

static void cpu_gemm(struct device *d, float *y, bool at, const float *a, bool bt, const float *b,
		     size_t m, size_t n, size_t k)
{
	(void)d;
	if (m * n * k <= TINY) {
		gemm_plain(y, at, a, bt, b, m, n, k);
		return;
	}
	dnnl_status_t status = dnnl_sgemm(at ? 'T' : 'N', bt ? 'T' : 'N', m, n, k, 1, a, at ? m : k,
					  b, bt ? k : n, 0, y, n);

	CHECK(status == dnnl_success, "sgemm of %zu x %zu x %zu: oneDNN status %d", m, n, k,
	      status);
}

static void cpu_add_bias(struct device *d, float *restrict y, const float *restrict b, size_t rows,
			 size_t n)
{
	(void)d;
	for (size_t r = 0; r < rows; r++)
		for (size_t j = 0; j < n; j++)
			y[r * n + j] += b[j];
}

static void cpu_sum_rows(struct device *d, float *restrict b, const float *restrict y, size_t rows,
			 size_t n)
{
	cpu_fill(d, b, 0, n);
	for (size_t r = 0; r < rows; r++)
		for (size_t j = 0; j < n; j++)
			b[j] += y[r * n + j];
}

/* ---- Activations -------------------------------------------------------------------------------------- */

/* A NaN stays one. */
static void cpu_relu(struct device *d, float *y, size_t n)
{
	(void)d;
	for (size_t i = 0; i < n; i++)
		y[i] = y[i] < 0 ? 0 : y[i];
}

static void cpu_relu_grad(struct device *d, float *restrict dy, const float *restrict y, size_t n)
{
	(void)d;
	for (size_t i = 0; i < n; i++)
		dy[i] = y[i] == 0 ? 0 : dy[i];
}

static void cpu_tanh(struct device *d, float *y, size_t n)
{
	(void)d;
	for (size_t i = 0; i < n; i++)
		y[i] = tanhf(y[i]);
}

static void cpu_tanh_grad(struct device *d, float *restrict dy, const float *restrict y, size_t n)
{
	(void)d;
	for (size_t i = 0; i < n; i++)
		dy[i] *= 1 - y[i] * y[i];
}

/* ---- Losses -------------------------------------------------------------------------------------------- */

/*
 * Per row: loss = log sum_j exp(z_j - max) - (z_label - max), z = (softmax(z) - onehot) / rows.
 * Three passes, so that exp runs over all rows at once. A NaN or an infinity among the scores makes
 * the row's sum, and so the loss, a NaN; such a row is not a correct answer.
 */
static void cpu_softmax_xent(struct device *d, float *restrict z, const float *restrict target,
			     size_t rows, size_t n)
{
	double loss = 0;

	for (size_t r = 0; r < rows; r++) {
		float *row = z + r * n;
		size_t label = (size_t)target[r], best = 0;

		CHECK(label < n, "softmax_xent: label %g of %zu classes", (double)target[r], n);
		for (size_t j = 1; j < n; j++)
			if (row[j] > row[best])
				best = j;
		float max = row[best];

		for (size_t j = 0; j < n; j++)
			row[j] -= max;
		loss -= row[label];
		d->tally.correct += best == label;
	}
	for (size_t i = 0; i < rows * n; i++)
		z[i] = expf(z[i]);
	for (size_t r = 0; r < rows; r++) {
		float *row = z + r * n, sum = 0;
		size_t label = (size_t)target[r];

		for (size_t j = 0; j < n; j++)
			sum += row[j];
		float scale = 1 / (sum * rows);

		for (size_t j = 0; j < n; j++)
			row[j] *= scale;
		row[label] -= 1.0f / rows;
		loss += logf(sum);
	}
	d->tally.loss += loss;
	d->tally.rows += rows;
}

/* Per row: loss = mean_j (z_j - t_j)^2, z = 2 (z - t) / (rows n). */
static void cpu_mse(struct device *d, float *restrict z, const float *restrict target, size_t rows,
		    size_t n)
{
	float scale = 2.0f / (rows * n);
	double sum = 0;

	for (size_t i = 0; i < rows * n; i++) {
		float e = z[i] - target[i];

		sum += (double)e * e;
		z[i] = scale * e;
	}
	d->tally.loss += sum / n;
	d->tally.rows += rows;
}

/* ---- The optimiser, data, the tally --------------------------------------------------------------------- */

static void cpu_sgd(struct device *d, float *restrict p, float *restrict v, const float *restrict g,
		    float lr, float m, float decay, float scale, size_t n)
{
	(void)d;
	if (v)
		for (size_t i = 0; i < n; i++) {
			v[i] = m * v[i] + (scale * g[i] + decay * p[i]);
			p[i] -= lr * v[i];
		}
	else
		for (size_t i = 0; i < n; i++)
			p[i] -= lr * (scale * g[i] + decay * p[i]);
}

static void cpu_gather(struct device *d, float *restrict x, float *restrict y,
		       const struct data *data, const int32_t *index, size_t count)
{
	size_t f = data->features;

	for (size_t i = 0; i < count; i++) {
		size_t row = (size_t)index[i] * f;

		y[i] = data->target[index[i]];
		if (data->bytes)
			for (size_t j = 0; j < f; j++)
				x[i * f + j] = data->bytes[row + j] * (1.0f / 255);
		else
			cpu_put(d, x + i * f, data->floats + row, f);
	}
}

static void cpu_tally(struct device *d, struct tally *out)
{
	*out = d->tally;
	d->tally = (struct tally){0};
}

const struct device_ops device_cpu = {
	.name = "cpu",
	.summary = "the processor, with oneDNN",
	.probe = cpu_probe,
	.open = cpu_open,
	.close = cpu_close,
	.alloc = cpu_alloc,
	.free = cpu_free,
	.put = cpu_put,
	.get = cpu_get,
	.fill = cpu_fill,
	.copy = cpu_copy,
	.scale = cpu_scale,
	.axpy = cpu_axpy,
	.take_columns = cpu_take_columns,
	.put_columns = cpu_put_columns,
	.gemm = cpu_gemm,
	.add_bias = cpu_add_bias,
	.sum_rows = cpu_sum_rows,
	.relu = cpu_relu,
	.relu_grad = cpu_relu_grad,
	.tanh = cpu_tanh,
	.tanh_grad = cpu_tanh_grad,
	.softmax_xent = cpu_softmax_xent,
	.mse = cpu_mse,
	.sgd = cpu_sgd,
	.gather = cpu_gather,
	.tally = cpu_tally,
};
