/*
 * muon.c - Muon (Jordan et al., 2024): the momentum of a matrix, made orthogonal.
 *
 *   M = m M + g;  O = NS(g + m M);  w -= lr (sqrt(max(1, rows / columns)) O + d w)
 *   NS:  X = G / ||G||, on its shorter side;  five times  A = X X^T;  X = a X + (b A + c A A) X
 *
 * This applies to matrices within the model: weights of linear layers and convolutions (a row for
 * each output), except the last layer's. All other parameters use adamw, with a separate learning
 * rate.
 *
 * Cost of an O x I matrix, n = min(O, I), k the other: 5 (4 n^2 k + 2 n^3) flops; floats of
 * scratch: 2 n k + 2 n^2 of the largest.
 */
#include "strategies/optimizers/adamw.h"

#include <math.h>
#include <string.h>

struct muon_opts {
	double momentum, rest;
	struct adamw_opts adamw;
};

#define OWNER struct muon_opts
static const struct option muon_options[] = {
	OPTION(momentum, REAL, "momentum", "0.95", "momentum of the matrices; below 1 [factor]",
	       .max = 0.999999),
	OPTION(rest, REAL, "rest", "0.05",
	       "learning rate of all other parameters, which use adamw, over --lr [factor]",
	       .max = 1000),
	ADAMW_OPTIONS(adamw.),
	{0},
};

static char *muon_refuse(const struct run *run, const void *opts)
{
	(void)opts;
	if (strcmp(run_precision(run), "bf16") == 0)
		return sentence("--precision=bf16: --optimizer=muon multiplies what is kept in "
				"float32; use --precision=tf32");
	return NULL;
}

static void muon_unbias(const void *opts, int64_t t, float by[MOMENTS_MOST])
{
	const struct muon_opts *o = opts;
	adamw_unbias(&o->adamw, t, by);
	by[0] *= (float)o->rest; /* in this factor it also reaches graphs that a GPU keeps */
}

/* Scratch for X and the next X, A and its square, and ||G||^2. */
static void muon_scratch(size_t rows, size_t columns, size_t length[SCRATCH_MOST])
{
	size_t n = rows < columns ? rows : columns;
	length[0] = length[1] = rows * columns;
	length[2] = length[3] = n * n;
	length[4] = 2;
}

/* Moves x[n x k] or, if tall, x[k x n], towards the orthogonal matrix nearest to it. */
static void muon_orthogonalise(struct vec *x, struct vec *y, struct vec *a, struct vec *b, size_t n,
			       size_t k, bool tall)
{
	static const float c[] = {3.4445f, -4.7750f, 2.0315f};
	for (int i = 0; i < 5; i++) {
		vec_gemm(a, tall, x, !tall, x, n, n, k); /* A = X X^T, or X^T X */
		vec_gemm(b, false, a, false, a, n, n, n);
		vec_scale(b, c[2]);
		vec_axpy(b, c[1], a);
		if (tall)
			vec_gemm(y, false, x, false, b, k, n, n);
		else
			vec_gemm(y, false, b, false, x, n, k, n);
		vec_scale(x, c[0]);
		vec_axpy(x, 1, y);
	}
}

static void matrix_step(struct worker *w, const struct param_group *p, float scale, float decay)
{
	const struct muon_opts *o = w->optimizer_opts;
	size_t size = p->rows * p->columns;
	bool tall = p->rows > p->columns;
	size_t n = tall ? p->columns : p->rows, k = size / n;
	float m = (float)o->momentum, lr = (float)w->lr;
	struct vec *x = p->scratch[0], *y = p->scratch[1], *a = p->scratch[2], *b = p->scratch[3],
		   *square = p->scratch[4];
	vec_scale(p->moment[0], m);
	vec_axpy(p->moment[0], scale, p->grad);
	vec_copy(x, p->moment[0]);
	vec_scale(x, m);
	vec_axpy(x, scale, p->grad);
	vec_fill(square, 0);
	vec_add_squares(square, x, 0, size);
	vec_limit(x, square, 1, 1e-7f);
	muon_orthogonalise(x, y, a, b, n, k, tall);
	vec_sgd(p->param, NULL, x, lr, 0, decay,
		sqrtf(tall ? (float)p->rows / (float)p->columns : 1));
}

static void muon_step(struct worker *w, const struct param_group *p, float scale, float decay)
{
	const struct muon_opts *o = w->optimizer_opts;
	if (p->rows)
		matrix_step(w, p, scale, decay);
	else
		adamw_group(&o->adamw, w->lr, p, scale, (float)o->rest * decay);
}

const struct optimizer optimizer_muon = {
	.plugin = {.name = "muon",
		   .summary = "orthogonal steps of matrices, and adamw for the rest",
		   .options = muon_options,
		   .opts_size = sizeof(struct muon_opts)},
	.refuse = muon_refuse,
	.normalises = true,
	.moments = adamw_moments,
	.unbias = muon_unbias,
	.scratch = muon_scratch,
	.step = muon_step,
};
