/*
 * sequence.c - the operations of transformers on the CPU: embeddings, layer normalisation and
 * causal attention. oneDNN does the products of attention, on strided matrices. The rest are loops
 * that the compiler vectorises, with glibc's vector exp.
 */
#include "runtime/device/cpu/cpu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Embeddings ---------------------------------------------------------- */

static size_t token_of(float x, size_t tokens)
{
	size_t i = (size_t)x;
	CHECK(i < tokens, "embed: token %g of %zu", (double)x, tokens);
	return i;
}

void cpu_embed(struct device *d, float *restrict y, const float *token, const float *restrict table,
	       const float *restrict place, size_t rows, size_t places, size_t tokens, size_t n)
{
	for (size_t r = 0; r < rows; r++) {
		const float *a = table + token_of(token[r], tokens) * n,
			    *b = place + r % places * n;

		for (size_t j = 0; j < n; j++)
			y[r * n + j] = a[j] + b[j];
	}
}

void cpu_embed_grad(struct device *d, float *restrict dtable, float *restrict dplace,
		    const float *restrict dy, const float *token, size_t rows, size_t places,
		    size_t tokens, size_t n, bool add)
{
	if (!add)
		cpu_fill(d, dtable, 0, tokens * n);
	cpu_fill(d, dplace, 0, places * n);
	for (size_t r = 0; r < rows; r++) {
		cpu_add(d, dtable + token_of(token[r], tokens) * n, dy + r * n, n);
		cpu_add(d, dplace + r % places * n, dy + r * n, n);
	}
}

/* ---- Layer normalisation ------------------------------------------------- */

void cpu_layer_norm(struct device *d, float *restrict y, float *restrict stat,
		    const float *restrict x, const float *restrict scale, size_t rows, size_t n)
{
	const float *restrict gamma = scale, *restrict beta = scale + n;
	for (size_t r = 0; r < rows; r++, x += n, y += n) {
		float sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
		for (size_t j = 0; j < n; j++)
			sum += x[j];
		float mean = sum / (float)n;
#pragma omp simd reduction(+ : squares)
		for (size_t j = 0; j < n; j++)
			squares += (x[j] - mean) * (x[j] - mean);
		float inverse = 1 / sqrtf(squares / (float)n + LAYER_NORM_EPSILON);

		for (size_t j = 0; j < n; j++)
			y[j] = (x[j] - mean) * inverse * gamma[j] + beta[j];
		stat[2 * r] = mean;
		stat[2 * r + 1] = inverse;
	}
}

void cpu_layer_norm_grad(struct device *d, float *restrict dx, float *restrict dscale,
			 const float *restrict dy, const float *restrict x, const float *stat,
			 const float *restrict scale, size_t rows, size_t n, bool add)
{
	float *restrict dgamma = dscale, *restrict dbeta = dscale + n;
	cpu_fill(d, dscale, 0, 2 * n);
	for (size_t r = 0; r < rows; r++, x += n, dy += n, dx += n) {
		const float mean = stat[2 * r], inverse = stat[2 * r + 1];
		float sum = 0, product = 0;
#pragma omp simd reduction(+ : sum, product)
		for (size_t j = 0; j < n; j++) {
			float e = (x[j] - mean) * inverse, g = dy[j] * scale[j];

			dgamma[j] += dy[j] * e;
			dbeta[j] += dy[j];
			sum += g;
			product += g * e;
		}
		sum /= (float)n;
		product /= (float)n;
#pragma omp simd
		for (size_t j = 0; j < n; j++) {
			float e = (x[j] - mean) * inverse;
			float of = inverse * (dy[j] * scale[j] - sum - e * product);

			dx[j] = add ? dx[j] + of : of;
		}
	}
}

/* ---- Attention ----------------------------------------------------------- */

struct cpu_attention {
	size_t places, heads, width, rows_max;
	float scale;
	float *p;  /* [rows_max x heads][places x places]: kept for the gradient */
	float *dp; /* [places x places] */
};

static size_t square(const struct cpu_attention *a)
{
	return a->places * a->places;
}

void *cpu_attention_new(struct device *d, const struct shape *s)
{
	struct cpu_attention *a = must(calloc(1, sizeof *a));
	a->places = s->out.height;
	a->heads = s->out.width;
	a->width = s->out.channels;
	a->rows_max = s->rows_max;
	a->scale = 1 / sqrtf((float)a->width);
	a->p = cpu_alloc(d, a->rows_max * a->heads * square(a));
	a->dp = cpu_alloc(d, square(a));
	return a;
}

void cpu_attention_free(struct device *d, void *attention)
{
	struct cpu_attention *a = attention;
	cpu_free(d, a->p, a->rows_max * a->heads * square(a));
	cpu_free(d, a->dp, square(a));
	free(a);
}

/* Replaces row i of p[places x places] by the softmax of its first i + 1 numbers, then zeros. */
static void causal_softmax(float *restrict p, size_t places)
{
	for (size_t i = 0; i < places; i++, p += places) {
		float max = p[0], sum = 0;
		for (size_t j = 1; j <= i; j++)
			max = p[j] > max ? p[j] : max;
#pragma omp simd reduction(+ : sum)
		for (size_t j = 0; j <= i; j++) {
			p[j] = expf(p[j] - max);
			sum += p[j];
		}
		const float by = 1 / sum;
		for (size_t j = 0; j <= i; j++)
			p[j] *= by;
		memset(p + i + 1, 0, (places - i - 1) * sizeof *p);
	}
}

/* dp = p (dp - sum_j p dp) of each row. */
static void softmax_grad(float *restrict dp, const float *restrict p, size_t places)
{
	for (size_t i = 0; i < places; i++, p += places, dp += places) {
		float sum = 0;
#pragma omp simd reduction(+ : sum)
		for (size_t j = 0; j <= i; j++)
			sum += p[j] * dp[j];
		for (size_t j = 0; j < places; j++) /* p is 0 past i */
			dp[j] = p[j] * (dp[j] - sum);
	}
}

void cpu_attention_forward(struct device *d, void *attention, float *y, const float *x, size_t rows)
{
	const struct cpu_attention *a = attention;
	const size_t t = a->places, w = a->width, wide = a->heads * w;
	float *p = a->p;
	for (size_t b = 0; b < rows; b++, x += 3 * t * wide, y += t * wide)
		for (size_t h = 0; h < a->heads; h++, p += square(a)) {
			const float *q = x + 3 * h * w, *k = q + w, *v = k + w;

			cpu_product(p, t, false, q, 3 * wide, true, k, 3 * wide, t, t, w, a->scale);
			causal_softmax(p, t);
			cpu_product(y + h * w, wide, false, p, t, false, v, 3 * wide, t, w, t, 1);
		}
}

void cpu_attention_backward(struct device *d, void *attention, float *dx, const float *dy,
			    const float *x, size_t rows)
{
	const struct cpu_attention *a = attention;
	const size_t t = a->places, w = a->width, wide = a->heads * w, ld = 3 * wide;
	const float *p = a->p;
	for (size_t b = 0; b < rows; b++, x += t * ld, dx += t * ld, dy += t * wide)
		for (size_t h = 0; h < a->heads; h++, p += square(a)) {
			const float *q = x + 3 * h * w, *k = q + w, *v = k + w, *g = dy + h * w;
			float *dq = dx + 3 * h * w, *dk = dq + w, *dv = dk + w;

			cpu_product(a->dp, t, false, g, wide, true, v, ld, t, t, w, 1);
			cpu_product(dv, ld, true, p, t, false, g, wide, t, w, t, 1);
			softmax_grad(a->dp, p, t);
			cpu_product(dq, ld, false, a->dp, t, false, k, ld, t, w, t, a->scale);
			cpu_product(dk, ld, true, a->dp, t, false, q, ld, t, w, t, a->scale);
		}
}
