/*
 * powersgd.c - PowerSGD (Vogels, Karimireddy, Jaggi, arXiv 1905.13727, algorithm 1): a matrix M[a x
 * b] travels as a product of rank r, with one step of a power iteration that starts from the last
 * one.
 *
 *   P = M Q, added over the workers;  P = orthogonalised P;  Q = M^T P, added;  decoded: P Q^T
 *
 * Q is kept for the next message; at first it is drawn from the common seed (normal). Columns of P
 * are orthogonalised in order, by Gram and Schmidt; a column without length becomes 0. Columns of a
 * kept Q are as long as M, and lengths of columns do not change the decoded floats: a power of two
 * makes them about 1 before M Q, which is otherwise no float for M above 1.8e19. Vectors, and
 * matrices that the factors would not make shorter (r (a + b) >= a b), travel whole, with Q.
 *
 * Feedback keeps x - P Q^T / N, as PyTorch's hook does. 4 r (a + b) bytes a matrix in two sums; two
 * products of 2 a b r flops, and a third to decode.
 */
#include "mvbench.h"

#include <math.h>
#include <string.h>

struct powersgd_opts {
	int64_t rank;
};

#define OWNER struct powersgd_opts
static const struct option powersgd_options[] = {
	OPTION(rank, INT, "rank", "2", "columns of the factors P and Q [columns]", .min = 1,
	       .max = 64),
	{0},
};

static size_t rank_of(const struct code *c)
{
	const struct powersgd_opts *o = c->opts;
	return (size_t)o->rank;
}

static bool is_factored(const struct code *c, const struct tensor *t)
{
	return t->rows > 1 && rank_of(c) * (t->rows + t->columns) < t->rows * t->columns;
}

/* Round 0 sends P, round 1 sends Q and what travels whole. */
static size_t floats_of(const struct code *c, const struct tensor *t)
{
	size_t r = rank_of(c);
	if (!is_factored(c, t))
		return c->round == 1 ? t->rows * t->columns : 0;
	return r * (c->round == 0 ? t->rows : t->columns);
}

static size_t powersgd_bytes(const struct code *c)
{
	size_t n = 0;
	for (size_t k = 0; k < c->tensors; k++)
		n += floats_of(c, &c->tensor[k]);
	return n * sizeof(float);
}

/* For each factored matrix: Q^T [r x b], P^T [r x a], and whether there is a Q. */
static size_t kept_of(const struct code *c, const struct tensor *t)
{
	return is_factored(c, t) ? 1 + rank_of(c) * (t->rows + t->columns) : 0;
}

static size_t powersgd_state(const struct code *c)
{
	size_t n = 0;
	for (size_t k = 0; k < c->tensors; k++)
		n += kept_of(c, &c->tensor[k]);
	return n;
}

static float dot(const float *x, const float *y, size_t n)
{
	float sum = 0;
#pragma omp simd reduction(+ : sum)
	for (size_t i = 0; i < n; i++)
		sum += x[i] * y[i];
	return sum;
}

/* In float64: the squares of large floats are no float. */
static double length_of(const float *x, size_t n)
{
	double sum = 0;
#pragma omp simd reduction(+ : sum)
	for (size_t i = 0; i < n; i++)
		sum += (double)x[i] * (double)x[i];
	return sqrt(sum);
}

/* Rows of p[r x n] become orthonormal, one after the other. */
static void powersgd_orthogonalise(float *p, size_t r, size_t n)
{
	for (size_t k = 0; k < r; k++) {
		float *x = p + k * n;
		double before = length_of(x, n);
		for (size_t j = 0; j < k; j++) {
			float by = dot(x, p + j * n, n);
			for (size_t i = 0; i < n; i++)
				x[i] -= by * p[j * n + i];
		}
		double length = length_of(x, n);
		/* what rounding has left of a column that the others span is no direction */
		float scale = length > 1e-6 * before ? (float)(1 / length) : 0;
		for (size_t i = 0; i < n; i++)
			x[i] *= scale;
	}
}

/* Rows of q[r x n] get lengths from 1/2 to 1, by powers of two: floats keep their bits. */
static void shorten(float *q, size_t r, size_t n)
{
	for (size_t k = 0; k < r; k++) {
		double length = length_of(q + k * n, n);
		int e = 0;
		if (length > 0 && isfinite(length))
			frexp(length, &e);
		for (size_t i = 0; i < n && e != 0; i++)
			q[k * n + i] = (float)ldexp((double)q[k * n + i], -e);
	}
}

/* p[r x a] = (M Q)^T of m[a x b], q[r x b]. */
static void left_factor(float *p, const float *m, const float *q, size_t a, size_t b, size_t r)
{
	for (size_t i = 0; i < a; i++)
		for (size_t k = 0; k < r; k++)
			p[k * a + i] = dot(m + i * b, q + k * b, b);
}

/* q[r x b] = (M^T P)^T. */
static void right_factor(float *q, const float *m, const float *p, size_t a, size_t b, size_t r)
{
	memset(q, 0, r * b * sizeof *q);
	for (size_t i = 0; i < a; i++)
		for (size_t k = 0; k < r; k++) {
			float by = p[k * a + i];
			for (size_t j = 0; j < b; j++)
				q[k * b + j] += by * m[i * b + j];
		}
}

static void draw_first(const struct code *c, float *q, size_t n, size_t tensor)
{
	uint64_t rng = c->common ^ (uint64_t)tensor * 0x9e3779b97f4a7c15u;
	for (size_t i = 0; i < n; i++)
		q[i] = (float)rng_normal(&rng);
}

static void powersgd_encode(const struct code *c, void *wire, const float *x)
{
	size_t r = rank_of(c);
	const float *summed = c->sum;
	float *to = wire, *kept = c->state;
	for (size_t k = 0; k < c->tensors; k++) {
		const struct tensor *t = &c->tensor[k];
		size_t a = t->rows, b = t->columns;
		float *there = kept, *q = kept + 1, *p = q + r * b;
		if (!is_factored(c, t)) {
			memcpy(to, x + t->first, floats_of(c, t) * sizeof *to);
		} else if (c->round == 0) {
			if (*there == 0)
				draw_first(c, q, r * b, k);
			*there = 1;
			shorten(q, r, b);
			left_factor(to, x + t->first, q, a, b, r);
		} else {
			memcpy(p, summed, r * a * sizeof *p);
			summed += r * a;
			powersgd_orthogonalise(p, r, a);
			right_factor(to, x + t->first, p, a, b, r);
		}
		to += floats_of(c, t);
		kept += kept_of(c, t);
	}
}

static bool powersgd_decode(const struct code *c, float *y, const void *wire, bool add)
{
	size_t r = rank_of(c);
	const float *from = wire;
	float *kept = c->state;
	if (!add)
		memset(y, 0, c->n * sizeof *y);
	for (size_t k = 0; k < c->tensors; k++) {
		const struct tensor *t = &c->tensor[k];
		size_t a = t->rows, b = t->columns;
		float *q = kept + 1, *p = q + r * b, *to = y + t->first;
		if (is_factored(c, t)) {
			memcpy(q, from, r * b * sizeof *q);
			for (size_t i = 0; i < a; i++)
				for (size_t j = 0; j < r; j++)
					for (size_t m = 0; m < b; m++)
						to[i * b + m] += p[j * a + i] * q[j * b + m];
		} else {
			for (size_t i = 0; i < a * b; i++)
				to[i] += from[i];
		}
		from += floats_of(c, t);
		kept += kept_of(c, t);
	}
	return true;
}

/* The products' flops are in proportion to the rank. */
static double powersgd_work(const void *opts)
{
	const struct powersgd_opts *o = opts;
	return (double)o->rank / 2;
}

static bool powersgd_feedback(const void *opts)
{
	(void)opts;
	return true;
}

const struct codec codec_powersgd = {
	.plugin = {.name = "powersgd",
		   .summary = "PowerSGD: matrices as products of low rank",
		   .options = powersgd_options,
		   .opts_size = sizeof(struct powersgd_opts)},
	.sums = CODEC_SUMMED,
	.rounds = 2,
	.joint = true,
	.feedback = powersgd_feedback,
	.bytes = powersgd_bytes,
	.state = powersgd_state,
	.encode = powersgd_encode,
	.decode = powersgd_decode,
	.encode_passes = 2,
	.decode_passes = 2,
	.work = powersgd_work,
};
