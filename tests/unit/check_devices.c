/*
 * check_devices.c - compares every operation of every device with plain loops in double precision:
 * odd sizes, slices at odd offsets, outputs that held NaNs. Memory before and after an output must
 * not change. A result may differ by TOLERANCE of its norm, and each number by as much of itself or
 * of their root mean square. Adding n products one after the other in float32 rounds n times, so
 * the bound of one number grows as the square root of n: of 2,304 sums of 9,216 random products the
 * worst was off by 0.7 to 1.1e-5 in 20 draws (NumPy, one float32 sum). Tests loop over devices[]; a
 * new device is therefore tested too. A device that is not usable here is skipped; its reason is
 * printed once.
 */
#include "runtime/config/config.h"
#include "runtime/device/draw.h"
#include "tests/fixture.h"
#include "tests/suites.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TOLERANCE 1e-5

/* ---- A device, and arrays on it ------------------------------------------ */

enum { GUARD = 64, ODD = 61, ARRAYS = 32 }; /* floats before and after an array */
enum { MANY = 4096 };                       /* products in a sum within TOLERANCE */

struct array {
	size_t n, summed;      /* summed: products in each number, where they are many */
	struct vec *v, *whole; /* v is n floats of whole */
	float *x;              /* values of v; check_array() reads them back */
	double *r;             /* expected values, initially x */
};

struct bench {
	struct device d;
	struct run run;
	struct worker w;
	struct loop loop;
	char what[160]; /* is tested now, for messages */
	struct array array[ARRAYS];
	size_t arrays;
	uint64_t rng;
};

static const char *probed(int device, struct device_facts *facts)
{
	use_gpu();
	return devices[device]->probe(facts);
}

static bool bench_open(struct bench *b, int device)
{
	if (probed(device, NULL))
		return false;
	*b = (struct bench){
		.d = {.ops = devices[device], .precision = "float32", .key = 77, .lr = 0.05f},
		.rng = 1};
	b->run = (struct run){.workers = 1, .batch = 4, .threads = 1};
	b->w = (struct worker){.size = 1,
			       .trainers = 1,
			       .run = &b->run,
			       .model = &b->loop.model,
			       .loop = &b->loop};
	b->loop.dev = &b->d;
	b->d.ops->open(&b->d, 1);
	return true;
}

static void bench_clear(struct bench *b)
{
	for (size_t i = 0; i < b->arrays; i++) {
		vec_free(b->array[i].v);
		vec_free(b->array[i].whole);
		free(b->array[i].x);
		free(b->array[i].r);
	}
	b->arrays = 0;
}

static void bench_close(struct bench *b)
{
	bench_clear(b);
	b->d.ops->close(&b->d);
}

static const float POISON = 12345;

/* x NULL: n floats that hold NaN. */
static struct array *array_at(struct bench *b, const float *x, size_t n, size_t before)
{
	struct array *a = &b->array[b->arrays++];
	float *whole AUTOFREE = must(calloc(before + n + GUARD, sizeof *whole));
	ck_assert_uint_le(b->arrays, ARRAYS);
	*a = (struct array){.n = n,
			    .whole = vec_new(&b->w, before + n + GUARD),
			    .x = must(calloc(n + 1, sizeof(float))),
			    .r = must(calloc(n + 1, sizeof(double)))};
	a->v = vec_slice(a->whole, before, n);
	for (size_t i = 0; i < before + n + GUARD; i++)
		whole[i] = POISON;
	for (size_t i = 0; i < n; i++) {
		whole[before + i] = a->x[i] = x ? x[i] : NAN;
		a->r[i] = x ? x[i] : 0;
	}
	vec_put(a->whole, whole);
	return a;
}

static float *normals(struct bench *b, size_t n)
{
	float *x = must(calloc(n + 1, sizeof *x));
	for (size_t i = 0; i < n; i++)
		x[i] = (float)rng_normal(&b->rng);
	return x;
}

static struct array *random_at(struct bench *b, size_t n, size_t before)
{
	float *x AUTOFREE = normals(b, n);
	return array_at(b, x, n, before);
}

/* Images start on a cache line, parameters and their gradients anywhere. */
static struct array *image_in(struct bench *b, size_t n)
{
	return random_at(b, n, GUARD);
}

static struct array *image_out(struct bench *b, size_t n)
{
	return array_at(b, NULL, n, GUARD);
}

static struct array *param_in(struct bench *b, size_t n)
{
	return random_at(b, n, ODD);
}

static struct array *param_out(struct bench *b, size_t n)
{
	return array_at(b, NULL, n, ODD);
}

/* Reads the array back into x and compares it with r. tolerance: relative to r's norm. */
static void check_array(struct bench *b, struct array *a, const char *name, double tolerance)
{
	size_t all = vec_len(a->whole), before = all - a->n - GUARD;
	float *whole AUTOFREE = must(calloc(all, sizeof *whole));
	double off = 0, norm = 0;
	vec_get(a->whole, whole);
	for (size_t i = 0; i < all; i++)
		if (i < before || i >= before + a->n)
			ck_assert_msg(whole[i] == POISON, "%s: %s[%zd] of %zu was written to: %.9g",
				      b->what, name, (ssize_t)i - (ssize_t)before, a->n,
				      (double)whole[i]);
	memcpy(a->x, whole + before, a->n * sizeof *a->x);
	for (size_t i = 0; i < a->n; i++) {
		ck_assert_msg(isfinite(a->x[i]) == isfinite(a->r[i]),
			      "%s: %s[%zu] is %.9g, should be %.9g", b->what, name, i,
			      (double)a->x[i], a->r[i]);
		if (isfinite(a->r[i])) {
			off += (a->x[i] - a->r[i]) * (a->x[i] - a->r[i]);
			norm += a->r[i] * a->r[i];
		}
	}
	const double mean = sqrt(norm / (double)(a->n ? a->n : 1)),
		     each = tolerance * sqrt(fmax(1, (double)a->summed / MANY));
	for (size_t i = 0; i < a->n; i++)
		ck_assert_msg(!isfinite(a->r[i]) ||
				      fabs(a->x[i] - a->r[i]) <= each * fmax(mean, fabs(a->r[i])),
			      "%s: %s[%zu] is %.9g, should be %.9g", b->what, name, i,
			      (double)a->x[i], a->r[i]);
	ck_assert_msg(sqrt(off) <= tolerance * sqrt(norm),
		      "%s: %s is off by %.3g, its norm is %.3g (first: %.9g, should be %.9g)",
		      b->what, name, sqrt(off), sqrt(norm), (double)a->x[0], a->r[0]);
}

/* ---- Sizes of an operation; each operation reads those that it needs ----- */

struct sizes {
	size_t rows, more; /* more: rows_max = rows + more */
	struct image in;
	size_t out;
	struct window window;
	bool bias, relu, average, adds;
};

static struct image out_of(const struct sizes *s)
{
	return image_after(s->in, s->window, s->out ? s->out : s->in.channels);
}

/* The index of (i, j, c) of image r. */
static size_t at(struct image m, size_t r, size_t i, size_t j, size_t c)
{
	return ((r * m.height + i) * m.width + j) * m.channels + c;
}

/* ---- Vectors: rows x out is the matrix, rows x in.width another ---------- */

static const struct sizes vectors[] = {
	{.rows = 1, .out = 1, .in = {1, 1, 1}},     {.rows = 1, .out = 10, .in = {1, 7, 1}},
	{.rows = 3, .out = 5, .in = {1, 9, 1}},     {.rows = 7, .out = 8, .in = {1, 8, 1}},
	{.rows = 33, .out = 10, .in = {1, 78, 1}},  {.rows = 5, .out = 129, .in = {1, 33, 1}},
	{.rows = 64, .out = 10, .in = {1, 128, 1}}, {.rows = 31, .out = 1031, .in = {1, 3, 1}},
	{.rows = 1, .out = 1, .in = {1, 100, 1}},   {.rows = 100, .out = 10, .in = {1, 1, 1}},
	{.rows = 1, .out = 9, .in = {1, 900, 1}},   {.rows = 9, .out = 1, .in = {1, 900, 1}},
	{.rows = 31, .out = 129, .in = {1, 77, 1}}, {.rows = 1, .out = 4099, .in = {1, 1, 1}},
};

static void op_memory(struct bench *b, const struct sizes *s)
{
	const size_t n = s->rows * s->out;
	struct vec *v = vec_new(&b->w, n);
	struct array *a = param_in(b, n);
	float *x AUTOFREE = must(calloc(n, sizeof *x));
	memset(x, 1, n * sizeof *x);
	vec_get(v, x);
	for (size_t i = 0; i < n; i++)
		ck_assert_msg(x[i] == 0, "%s: new memory holds %g", b->what, (double)x[i]);
	vec_free(v);
	vec_free(NULL);
	check_array(b, a, "what was put", 0);
}

static void op_fill(struct bench *b, const struct sizes *s)
{
	struct array *y = param_out(b, s->rows * s->out);
	vec_fill(y->v, 0.7f);
	for (size_t i = 0; i < y->n; i++)
		y->r[i] = 0.7f;
	check_array(b, y, "y", 0);
}

static void op_copy(struct bench *b, const struct sizes *s)
{
	struct array *x = param_in(b, s->rows * s->out), *y = image_out(b, x->n);
	vec_copy(y->v, x->v);
	memcpy(y->r, x->r, x->n * sizeof *x->r);
	check_array(b, y, "y", 0);
}

static void op_scale(struct bench *b, const struct sizes *s)
{
	struct array *y = param_in(b, s->rows * s->out);
	vec_scale(y->v, -1.5f);
	for (size_t i = 0; i < y->n; i++)
		y->r[i] *= -1.5;
	check_array(b, y, "y", 1e-7);
}

static void op_axpy(struct bench *b, const struct sizes *s)
{
	struct array *y = param_in(b, s->rows * s->out), *x = image_in(b, y->n);
	vec_axpy(y->v, 2.5f, x->v);
	for (size_t i = 0; i < y->n; i++)
		y->r[i] += 2.5 * x->r[i];
	check_array(b, y, "y", 1e-6);
}

static void op_columns(struct bench *b, const struct sizes *s)
{
	const size_t width = s->out, first = width / 3, n = width - first - width / 4;
	struct array *whole = image_in(b, s->rows * width), *part = image_out(b, s->rows * n),
		     *back = image_in(b, s->rows * width);
	vec_take_columns(part->v, whole->v, s->rows, width, first, n);
	vec_put_columns(back->v, part->v, s->rows, width, first, n);
	for (size_t r = 0; r < s->rows; r++)
		for (size_t j = 0; j < n; j++)
			back->r[r * width + first + j] = part->r[r * n + j] =
				whole->r[r * width + first + j];
	check_array(b, part, "taken", 0);
	check_array(b, back, "put back", 0);
}

static void op_gemm(struct bench *b, const struct sizes *s)
{
	const size_t m = s->rows, n = s->out, k = s->in.width;
	for (int t = 0; t < 4; t++) {
		struct array *x = image_in(b, m * k), *w = param_in(b, k * n),
			     *y = image_out(b, m * n);
		const bool xt = t & 1, wt = t & 2;

		vec_gemm(y->v, xt, x->v, wt, w->v, m, n, k);
		for (size_t i = 0; i < m; i++)
			for (size_t j = 0; j < n; j++)
				for (size_t p = 0; p < k; p++)
					y->r[i * n + j] += x->r[xt ? p * m + i : i * k + p] *
							   w->r[wt ? j * k + p : p * n + j];
		check_array(b, y, xt ? wt ? "xT wT" : "xT w" : wt ? "x wT" : "x w", 4e-6);
	}
}

static void op_bias(struct bench *b, const struct sizes *s)
{
	struct array *y = image_in(b, s->rows * s->out), *bias = param_in(b, s->out),
		     *sum = param_out(b, s->out);
	vec_add_bias(y->v, bias->v, s->rows);
	for (size_t i = 0; i < y->n; i++)
		y->r[i] += bias->r[i % s->out];
	check_array(b, y, "y", 1e-6);
	vec_sum_rows(sum->v, y->v, s->rows);
	for (size_t i = 0; i < y->n; i++)
		sum->r[i % s->out] += y->r[i];
	check_array(b, sum, "sum", 1e-6);
}

static void op_relu(struct bench *b, const struct sizes *s)
{
	const size_t head = (s->rows * s->out + 1) / 2;
	struct array *y = image_in(b, s->rows * s->out), *dy = image_in(b, y->n);
	vec_relu(y->v, head);
	vec_relu_grad(dy->v, y->v, head);
	for (size_t i = 0; i < head; i++) {
		y->r[i] = fmax(0, y->r[i]);
		dy->r[i] = y->r[i] == 0 ? 0 : dy->r[i];
	}
	check_array(b, y, "y", 0);
	check_array(b, dy, "dy", 0);
}

static void op_tanh(struct bench *b, const struct sizes *s)
{
	const size_t head = (s->rows * s->out + 1) / 2;
	struct array *y = image_in(b, s->rows * s->out), *dy = image_in(b, y->n);
	vec_scale(y->v, 4);
	vec_tanh(y->v, head);
	vec_tanh_grad(dy->v, y->v, head);
	for (size_t i = 0; i < y->n; i++)
		y->r[i] *= 4;
	for (size_t i = 0; i < head; i++) {
		y->r[i] = tanh(y->r[i]);
		dy->r[i] *= 1 - y->r[i] * y->r[i];
	}
	check_array(b, y, "y", 3e-7);
	check_array(b, dy, "dy", 2e-6);
}

static void tallied(struct bench *b, double loss, size_t correct, size_t rows)
{
	struct tally t;
	tally_take(&b->w, &t);
	ck_assert_msg(fabs(t.loss - loss) <= 1e-6 * fabs(loss) + 1e-7,
		      "%s: the loss is %.9g, should be %.9g", b->what, t.loss, loss);
	ck_assert_msg(t.correct == (int64_t)correct && t.rows == (int64_t)rows,
		      "%s: %d of %d correct, should be %zu of %zu", b->what, (int)t.correct,
		      (int)t.rows, correct, rows);
	tally_take(&b->w, &t);
	ck_assert_msg(t.loss == 0 && t.correct == 0 && t.rows == 0, "%s: the tally is not cleared",
		      b->what);
}

/* A NaN at any place makes the loss NaN, and the largest other value is not a correct answer. */
static void check_nan(struct bench *b, struct vec *z, struct vec *target, float *row, size_t n)
{
	struct tally t;
	for (size_t at = 0; at < n; at += 1 + n / 16) {
		for (size_t j = 0; j < n; j++)
			row[j] = j == n / 2 ? 9 : 0;
		row[at] = NAN;
		vec_put(z, row);
		vec_fill(target, at == n / 2 ? 0 : (float)(n / 2));
		vec_softmax_xent(z, target, 1, n, 1);
		tally_take(&b->w, &t);
		ck_assert_msg(isnan(t.loss) && t.correct == 0,
			      "%s: NaN at %zu: loss %g, %d correct", b->what, at, t.loss,
			      (int)t.correct);
	}
}

/* In every third row all values are equal; the first of them is then the answer. exp of the values
 * of row 1 alone is infinite. */
static void op_xent(struct bench *b, const struct sizes *s)
{
	const size_t n = s->out;
	float *raw AUTOFREE = normals(b, s->rows * n),
		   *label AUTOFREE = must(calloc(s->rows, sizeof *label));
	double loss = 0;
	size_t correct = 0;
	for (size_t i = 0; i < s->rows * n; i++)
		raw[i] = i / n % 3 == 2 ? 0.5f : i / n == 1 ? 1e4f * raw[i] : raw[i];
	struct array *z = array_at(b, raw, s->rows * n, GUARD);

	for (size_t r = 0; r < s->rows; r++) {
		double *row = z->r + r * n;
		size_t best = 0, t = r % 3 ? rng_next(&b->rng) % n : 0;

		for (size_t j = 1; j < n; j++)
			best = row[j] > row[best] ? j : best;
		t = r % 3 == 1 ? best : t;
		double max = row[best], hit = row[t], sum = exp(row[0] - max);

		label[r] = (float)t;
		for (size_t j = 1; j < n; j++)
			sum += exp(row[j] - max);
		for (size_t j = 0; j < n; j++)
			row[j] = (exp(row[j] - max) / sum - (j == t)) / (0.75 * (double)s->rows);
		loss += log(sum) - (hit - max);
		correct += best == t;
	}
	struct array *target = array_at(b, label, s->rows, GUARD);

	vec_softmax_xent(z->v, target->v, s->rows, n, 0.75f * (float)s->rows);
	if (n > 1)
		check_array(b, z, "z", n > 100 ? 2e-6 : 1e-6);
	tallied(b, loss, correct, s->rows);
	check_nan(b, z->v, target->v, raw, n);
}

static void op_mse(struct bench *b, const struct sizes *s)
{
	struct array *z = image_in(b, s->rows * s->out), *t = image_in(b, z->n);
	struct tally taken;
	double loss = 0;
	for (size_t i = 0; i < z->n; i++) {
		double e = z->r[i] - t->r[i];

		z->r[i] = 2 * e / (1.5 * (double)z->n); /* mean over 1.5 times these rows */
		loss += e * e / (double)s->out;
	}
	vec_mse(z->v, t->v, s->rows, s->out, 1.5f * (float)s->rows);
	check_array(b, z, "z", 1e-6);
	tallied(b, loss, 0, s->rows);
	z->x[z->n / 2] = NAN; /* one is enough */
	vec_put(z->v, z->x);
	vec_mse(z->v, t->v, s->rows, s->out, 1);
	tally_take(&b->w, &taken);
	ck_assert(isnan(taken.loss));
}

/* A step of each rule of rules.h, in double precision. */
static double reference_step(const struct rule *r, const float unbias[2], double x, double g,
			     double *a, double *b)
{
	const double b1 = r->beta[0], b2 = r->beta[1], decay = r->decay;
	double u;
	g *= r->scale;
	switch (r->kind) {
	case RULE_SGD:
		return x - r->lr * (g + decay * x);
	case RULE_MOMENTUM:
		*a = b1 * *a + g + decay * x;
		return x - r->lr * *a;
	case RULE_NESTEROV:
		*a = b1 * *a + g + decay * x;
		return x - r->lr * (g + decay * x + b1 * *a);
	case RULE_ADAMW:
		*a = b1 * *a + (1 - b1) * g;
		*b = b2 * *b + (1 - b2) * g * g;
		return x - r->lr * (*a * unbias[0] / (sqrt(*b) * unbias[1] + r->eps) + decay * x);
	case RULE_LION:
		u = b1 * *a + (1 - b1) * g;
		*a = b2 * *a + (1 - b2) * g;
		return x - r->lr * ((u > 0) - (u < 0) + decay * x);
	case RULE_ADAGRAD:
		u = g + decay * x;
		*a += u * u;
		return x - r->lr * u / (sqrt(*a) + r->eps);
	case RULE_ADAM:
		*a = b1 * *a + (1 - b1) * g;
		*b = b2 * *b + (1 - b2) * g * g;
		return *a * unbias[0] / (sqrt(*b) * unbias[1] + r->eps);
	}
	return NAN;
}

#define KIND(kind, ...) RULE_##kind,

static void op_step(struct bench *b, const struct sizes *s)
{
	static const enum rule_kind kinds[] = {RULE_LIST(KIND)};
	b->d.unbias[0] = 10;
	b->d.unbias[1] = 4;
	for (size_t k = 0; k < COUNT(kinds); k++) {
		const struct rule by = {.kind = kinds[k],
					.lr = b->d.lr,
					.scale = 0.25f,
					.decay = 0.3f,
					.beta = {0.9, 0.99},
					.eps = 1e-3f};
		struct array *x = param_in(b, s->rows * s->out), *m = param_in(b, x->n),
			     *v = param_in(b, x->n), *g = param_in(b, x->n);
		float *squares AUTOFREE = must(calloc(x->n + 1, sizeof *squares));
		for (size_t i = 0; i < x->n; i++) {
			v->r[i] = fabs(v->r[i]);
			squares[i] = (float)v->r[i];
		}
		vec_put(v->v, squares);
		bool sums = kinds[k] == RULE_ADAGRAD; /* its only moment is a sum of squares */
		struct array *first = sums ? v : m, *second = sums ? m : v;
		vec_step(x->v, (struct vec *const[]){first->v, second->v}, g->v, &by);
		for (size_t i = 0; i < x->n; i++)
			x->r[i] = reference_step(&by, b->d.unbias, x->r[i], g->r[i], &first->r[i],
						 &second->r[i]);
		check_array(b, x, "x", TOLERANCE);
		check_array(b, first, "first moment", TOLERANCE);
		check_array(b, second, "second moment", TOLERANCE);
	}
}

/* Means of gradients that start at 0: 1 - beta of a rounded beta is wrong by percents there. */
static void op_first_step(struct bench *b, const struct sizes *s)
{
	const double near = 0.999999;
	b->d.unbias[0] = (float)(1 / (1 - near));
	b->d.unbias[1] = (float)(1 / sqrt(1 - near));
	for (int lion = 0; lion < 2; lion++) {
		const struct rule by = {.kind = lion ? RULE_LION : RULE_ADAMW,
					.lr = b->d.lr,
					.scale = 1,
					.beta = {near, near},
					.eps = 1e-8f};
		struct array *x = param_in(b, s->rows * s->out), *m = param_in(b, x->n),
			     *v = param_in(b, x->n), *g = param_in(b, x->n);
		vec_fill(m->v, 0);
		vec_fill(v->v, 0);
		vec_step(x->v, (struct vec *const[]){m->v, v->v}, g->v, &by);
		vec_scale(m->v, 1e6f);
		for (size_t i = 0; i < x->n; i++) {
			m->r[i] = 1e6 * (1 - near) * g->r[i];
			v->r[i] = 1e6 * (1 - near) * g->r[i] * g->r[i];
			x->r[i] -= b->d.lr * ((g->r[i] > 0) - (g->r[i] < 0));
		}
		check_array(b, m, "first moment", TOLERANCE);
		if (!lion) {
			vec_scale(v->v, 1e6f);
			check_array(b, v, "second moment", TOLERANCE);
			check_array(b, x, "x", TOLERANCE);
		}
	}
}

static void op_limit(struct bench *b, const struct sizes *s)
{
	struct array *x = param_in(b, s->rows * s->out), *y = param_in(b, 2);
	double sum = y->r[0];
	size_t from = x->n / 3;
	for (size_t i = from; i < x->n; i++)
		sum += x->r[i] * x->r[i];
	vec_add_squares(y->v, x->v, from, x->n);
	y->r[0] = sum;
	check_array(b, y, "squares", TOLERANCE);
	for (int longer = 0; longer < 2; longer++) { /* is the norm above the limit? */
		double most = sqrt(fabs(sum)) * (longer ? 0.5 : 2);
		vec_fill(y->v, (float)fabs(sum));
		vec_limit(x->v, y->v, (float)most, (float)most);
		for (size_t i = 0; longer && i < x->n; i++)
			x->r[i] *= 0.5;
		check_array(b, x, "limited", TOLERANCE);
	}
}

/* most ||w|| / (||u|| + decay ||w||), also of norms whose squares are too large for a float. */
static void op_ratio(struct bench *b, const struct sizes *s)
{
	static const double norms[][2] = {{3, 4}, {0, 4}, {3, 0}, {0, 0}, {5e25, 2e25}};
	const double most = 0.5, decay = 0.25;
	for (size_t k = 0; k < COUNT(norms); k++) {
		struct array *x = param_in(b, s->rows * s->out), *w = param_in(b, 2),
			     *u = param_in(b, 2);
		const double *norm = norms[k], over = norm[1] + decay * norm[0];
		for (int i = 0; i < 2; i++)
			vec_put(i ? u->v : w->v,
				(const float[]){(float)(norm[i] * norm[i]),
						(float)(SQUARES_SCALE * norm[i] * norm[i])});
		vec_ratio(x->v, w->v, u->v, (float)most, (float)decay);
		for (size_t i = 0; i < x->n && norm[0] > 0 && over > 0; i++)
			x->r[i] *= most * norm[0] / over;
		check_array(b, x, "scaled", TOLERANCE);
		bench_clear(b);
	}
}

/* Rules that divide by the root of a square must not take one that is too large for a float for an
 * infinitely long way: a step of 0 would go on as if nothing had happened. */
static void op_overflow(struct bench *b, const struct sizes *s)
{
	static const enum rule_kind kinds[] = {RULE_ADAMW, RULE_ADAGRAD};
	for (size_t k = 0; k < COUNT(kinds); k++) {
		const struct rule rule = {
			.kind = kinds[k], .lr = 0.1f, .scale = 1, .beta = {0.9, 0.9}, .eps = 1e-8f};
		struct array *x = param_in(b, s->rows * s->out), *m = param_in(b, x->n),
			     *v = param_in(b, x->n), *g = param_in(b, x->n);
		b->d.unbias[0] = b->d.unbias[1] = 1;
		vec_fill(m->v, 0);
		vec_fill(v->v, 0);
		vec_fill(g->v, 1e20f);
		vec_step(x->v, (struct vec *const[]){m->v, v->v}, g->v, &rule);
		for (size_t i = 0; i < x->n; i++)
			x->r[i] = NAN;
		check_array(b, x, "stepped", 0);
		bench_clear(b);
	}
}

/* Gradients whose squares are larger than a float, by themselves and in a step of each rule, must
 * get the length of the limit, and keep their direction. */
static void op_huge(struct bench *b, const struct sizes *s)
{
	static const enum rule_kind kinds[] = {RULE_LIST(KIND)};
	static const float size[] = {1e17f, 1e19f, 1e25f, 6e37f};
	for (size_t k = 0; k < 2 * COUNT(size); k++) {
		const float limit = k % 2 ? 1e30f : 0.5f;
		struct array *x = param_in(b, s->rows * s->out), *y = param_in(b, 2);
		double sum = 0;
		vec_scale(x->v, size[k / 2]);
		vec_fill(y->v, 0);
		vec_add_squares(y->v, x->v, 0, x->n);
		vec_limit(x->v, y->v, limit, limit);
		for (size_t i = 0; i < x->n; i++)
			sum += x->r[i] * x->r[i];
		double norm = (double)size[k / 2] * sqrt(sum);
		for (size_t i = 0; i < x->n; i++)
			x->r[i] *= (double)size[k / 2] * fmin(1, (double)limit / norm);
		check_array(b, x, "limited", TOLERANCE);
		bench_clear(b);
	}
	for (size_t k = 0; k < COUNT(size) * COUNT(kinds); k++) {
		const float by = size[k % COUNT(size)];
		const struct rule rule = {.kind = kinds[k / COUNT(size)],
					  .lr = b->d.lr,
					  .scale = 0.25f,
					  .beta = {0.9, 0.99},
					  .eps = 1e-3f};
		struct array *x = param_in(b, s->rows * s->out), *m = param_in(b, x->n),
			     *v = param_in(b, x->n), *g = param_in(b, x->n), *y = param_in(b, 2);
		double sum = 0;
		b->d.unbias[0] = 10;
		b->d.unbias[1] = 4;
		vec_fill(m->v, 0);
		vec_fill(v->v, 0);
		vec_fill(y->v, 0);
		for (size_t i = 0; i < x->n; i++) {
			sum += g->r[i] * g->r[i];
			m->r[i] = v->r[i] = 0;
		}
		vec_scale(g->v, by);
		vec_add_squares(y->v, g->v, 0, x->n);
		b->d.square = y->v->data;
		b->d.most = 2 / rule.scale;
		vec_step(x->v, (struct vec *const[]){m->v, v->v}, g->v, &rule);
		b->d.square = NULL;
		for (size_t i = 0; i < x->n; i++)
			x->r[i] = reference_step(&rule, b->d.unbias, x->r[i],
						 8 * g->r[i] / sqrt(sum), &m->r[i], &v->r[i]);
		check_array(b, x, "stepped", 3 * TOLERANCE);
		bench_clear(b);
	}
}

/* ---- Data ---------------------------------------------------------------- */

/* more: pad; bias: from bytes; relu: mirrored; adds: a mean is subtracted */
static const struct sizes gathers[] = {
	{.rows = 4, .in = {1, 21, 1}, .bias = true},
	{.rows = 4, .in = {5, 7, 3}},
	{.rows = 9, .in = {5, 7, 3}, .bias = true, .adds = true},
	{.rows = 9, .in = {5, 7, 1}, .bias = true, .adds = true, .relu = true},
	{.rows = 30, .in = {5, 7, 3}, .bias = true, .adds = true, .relu = true, .more = 2},
	{.rows = 30, .in = {8, 8, 3}, .adds = true, .relu = true, .more = 4},
	{.rows = 30, .in = {6, 3, 1}, .bias = true, .more = 4}, /* some crops miss the image */
};

static void op_gather(struct bench *b, const struct sizes *s)
{
	enum { ROWS = 40 };
	const struct image m = s->in;
	const size_t n = image_size(m);
	float *floats AUTOFREE = normals(b, ROWS * n), *mean AUTOFREE = normals(b, n), target[ROWS];
	uint8_t *bytes AUTOFREE = must(calloc(ROWS * n, 1));
	int32_t index[ROWS];
	struct array *x = image_out(b, s->rows * n), *y = image_out(b, s->rows);
	const struct transform t = {.image = m,
				    .mean = s->adds ? mean : NULL,
				    .pad = s->more,
				    .flip = s->relu,
				    .key = 99};
	const struct data d = {.n = ROWS,
			       .features = n,
			       .image = m,
			       .bytes = s->bias ? bytes : NULL,
			       .floats = s->bias ? NULL : floats,
			       .target = target};
	for (size_t i = 0; i < ROWS * n; i++)
		bytes[i] = (uint8_t)rng_next(&b->rng);
	for (size_t r = 0; r < ROWS; r++)
		target[r] = (float)r + 0.5f;
	for (size_t r = 0; r < s->rows; r++) {
		index[r] = (int32_t)(r == 1 ? ROWS - 1 : rng_next(&b->rng) % ROWS);
		const struct crop c = crop_of(t.key, index[r], t.pad, t.flip);

		y->r[r] = target[index[r]];
		for (size_t i = 0; i < m.height; i++)
			for (size_t j = 0; j < m.width; j++)
				for (size_t k = 0; k < m.channels; k++) {
					size_t col = c.mirror ? m.width - 1 - j : j;
					size_t down = i + c.down, right = col + c.right;

					if (down < t.pad || down - t.pad >= m.height ||
					    right < t.pad || right - t.pad >= m.width)
						continue; /* padding: 0 */
					size_t from = at(m, 0, down - t.pad, right - t.pad, k);
					size_t of = (size_t)index[r] * n + from;

					x->r[at(m, r, i, j, k)] =
						(s->bias ? bytes[of] / 255.0 : floats[of]) -
						(s->adds ? mean[from] : 0);
				}
	}
	data_gather(&b->w, &d, index, s->rows, s->more || s->relu || s->adds ? &t : NULL, x->v,
		    y->v);
	check_array(b, x, "x", 1e-6);
	check_array(b, y, "y", 0);
}

static void op_dropout(struct bench *b, const struct sizes *s)
{
	const float p = s->rows % 2 ? 0.5f : 0.3f;
	struct array *y = image_in(b, s->rows * s->out + 5);
	vec_dropout(y->v, y->n - 5, p, 3);
	for (size_t i = 0; i < y->n - 5; i++)
		y->r[i] = dropout_keeps(b->d.key, 3, i, p) ? y->r[i] / (1 - p) : 0;
	check_array(b, y, "y", TOLERANCE);
}

/* ---- Images -------------------------------------------------------------- */

static const struct sizes shortcuts[] = {
	{.rows = 1, .in = {5, 7, 3}, .window = {1, 1, 0}, .out = 3},
	{.rows = 3, .in = {5, 7, 3}, .window = {1, 2, 0}, .out = 8},
	{.rows = 2, .in = {8, 8, 16}, .window = {1, 2, 0}, .out = 32},
	{.rows = 2, .in = {9, 4, 1}, .window = {1, 3, 0}, .out = 4},
	{.rows = 2, .in = {4, 4, 5}, .window = {1, 1, 0}, .out = 7},
};

static void op_shortcut(struct bench *b, const struct sizes *s)
{
	const struct image out = out_of(s);
	const size_t stride = s->window.stride, before = (s->out - s->in.channels) / 2;
	struct array *x = image_in(b, s->rows * image_size(s->in)),
		     *y = image_out(b, s->rows * image_size(out)), *dx = image_out(b, x->n),
		     *dy = image_in(b, y->n);
	vec_shortcut(y->v, x->v, s->in, stride, s->out, s->rows);
	vec_shortcut_grad(dx->v, dy->v, s->in, stride, s->out, s->rows);
	for (size_t r = 0; r < s->rows; r++)
		for (size_t i = 0; i < out.height; i++)
			for (size_t j = 0; j < out.width; j++)
				for (size_t c = 0; c < s->in.channels; c++) {
					size_t there = at(out, r, i, j, before + c),
					       here = at(s->in, r, i * stride, j * stride, c);

					y->r[there] = x->r[here];
					dx->r[here] = dy->r[there];
				}
	check_array(b, y, "y", 0);
	check_array(b, dx, "dx", 0);
}

static const struct sizes convs[] = {
	{1, 0, {5, 7, 3}, 4, {3, 1, 1}, .bias = true},
	{3, 5, {5, 7, 3}, 5, {3, 2, 1}, .bias = false},
	{2, 0, {9, 6, 16}, 16, {3, 1, 1}, .bias = false},
	{2, 3, {8, 8, 16}, 32, {3, 2, 1}, .relu = true},
	{4, 1, {7, 5, 1}, 32, {5, 1, 2}, .bias = true, .relu = true},
	{1, 2, {6, 6, 32}, 7, {1, 1, 0}, .bias = true, .relu = true},
	{2, 0, {5, 7, 13}, 11, {3, 2, 0}, .bias = true},
	{3, 1, {4, 4, 64}, 64, {3, 1, 1}, .bias = true},
	{2, 0, {11, 9, 8}, 8, {5, 3, 1}, .bias = false},
	{9, 11, {32, 32, 16}, 16, {3, 1, 1}, .bias = false},
};

/* The convolution couples x, w and y in products of three; what = 'x', 'w' or 'y' gets the sums of
 * the products of the other two. */
static void convolve(const struct sizes *s, size_t rows, char what, double *x, double *w, double *y)
{
	const struct image out = out_of(s);
	const size_t size = s->window.size, pad = s->window.pad, channels = s->in.channels;
	for (size_t r = 0; r < rows; r++)
		for (size_t i = 0; i < out.height * out.width; i++)
			for (size_t k = 0; k < size * size; k++) {
				size_t h = i / out.width * s->window.stride + k / size,
				       v = i % out.width * s->window.stride + k % size;

				if (h < pad || h - pad >= s->in.height || v < pad ||
				    v - pad >= s->in.width)
					continue;
				double *xs = x + at(s->in, r, h - pad, v - pad, 0),
				       *ys = y + at(out, r, i / out.width, i % out.width, 0);

				for (size_t o = 0; o < out.channels; o++) {
					double *ws = w + (o * size * size + k) * channels;

					for (size_t c = 0; c < channels; c++)
						if (what == 'y')
							ys[o] += xs[c] * ws[c];
						else if (what == 'x')
							xs[c] += ys[o] * ws[c];
						else
							ws[c] += xs[c] * ys[o];
				}
			}
}

static void conv_once(struct bench *b, const struct sizes *s, struct conv *conv, size_t rows)
{
	const struct image out = out_of(s);
	const size_t weights = s->out * s->window.size * s->window.size * s->in.channels;
	struct array *x = image_in(b, rows * image_size(s->in)), *w = param_in(b, weights),
		     *bias = param_in(b, s->out), *y = image_out(b, rows * image_size(out)),
		     *dy = image_in(b, y->n), *dw = param_out(b, weights),
		     *db = param_out(b, s->out), *dx = image_out(b, x->n),
		     *added = image_in(b, x->n);
	conv_forward(conv, y->v, x->v, w->v, s->bias ? bias->v : NULL, rows);
	for (size_t i = 0; i < y->n; i++)
		y->r[i] = s->bias ? bias->r[i % s->out] : 0;
	convolve(s, rows, 'y', x->r, w->r, y->r);
	for (size_t i = 0; i < y->n; i++)
		y->r[i] = s->relu ? fmax(0, y->r[i]) : y->r[i];
	check_array(b, y, "y", TOLERANCE);

	conv_backward_weight(conv, dw->v, s->bias ? db->v : NULL, x->v, dy->v, rows);
	convolve(s, rows, 'w', x->r, dw->r, dy->r);
	dw->summed = rows * out.height * out.width;
	check_array(b, dw, "dweight", TOLERANCE);
	for (size_t i = 0; i < y->n; i++)
		db->r[i % s->out] += dy->r[i];
	if (s->bias)
		check_array(b, db, "dbias", TOLERANCE);

	conv_backward_data(conv, dx->v, dy->v, w->v, false, rows);
	convolve(s, rows, 'x', dx->r, w->r, dy->r);
	check_array(b, dx, "dx", TOLERANCE);
	conv_backward_data(conv, added->v, dy->v, w->v, true, rows);
	convolve(s, rows, 'x', added->r, w->r, dy->r);
	check_array(b, added, "dx added", TOLERANCE);
	check_array(b, x, "x", 0);
	check_array(b, w, "weight", 0);
	check_array(b, dy, "dy", 0);
	bench_clear(b);
}

/* Changes the number of rows and back: what was prepared for a number must be kept. */
static void op_conv(struct bench *b, const struct sizes *s)
{
	const size_t most = s->rows + s->more;
	struct conv *conv = conv_new(&b->w, s->in, s->out, s->window, s->bias, s->relu, most);
	conv_once(b, s, conv, s->rows);
	if (s->more) {
		conv_once(b, s, conv, most);
		conv_once(b, s, conv, s->rows);
	}
	conv_free(conv);
}

static const struct sizes pools[] = {
	{.rows = 1, .in = {5, 7, 3}, .window = {2, 2, 0}},
	{.rows = 3, .more = 2, .in = {6, 8, 32}, .window = {2, 2, 0}},
	{.rows = 2, .in = {5, 7, 5}, .window = {3, 2, 1}},
	{.rows = 2, .more = 1, .in = {5, 5, 16}, .window = {3, 1, 1}},
	{.rows = 2, .in = {7, 6, 9}, .window = {2, 3, 0}},
	{.rows = 1, .in = {1, 1, 1}, .window = {1, 1, 0}},
	{.rows = 3, .more = 4, .in = {8, 8, 64}, .window = {8, 1, 0}, .average = true},
	{.rows = 2, .in = {5, 7, 3}, .window = {2, 2, 0}, .average = true},
	{.rows = 2, .in = {5, 5, 10}, .window = {3, 1, 0}, .average = true},
};

static void pool_once(struct bench *b, const struct sizes *s, struct pool *pool, size_t rows)
{
	const struct image out = out_of(s);
	const size_t n = rows * image_size(s->in), size = s->window.size, pad = s->window.pad;
	float *few AUTOFREE = must(calloc(n, sizeof *few)); /* values, so that there are ties, */
	for (size_t i = 0; i < n; i++) /* all below 0, a possible padding value */
		few[i] = (float)(rng_next(&b->rng) % 5) - 9;
	struct array *x = array_at(b, few, n, GUARD), *y = image_out(b, rows * image_size(out)),
		     *dy = image_in(b, y->n), *dx = image_out(b, n);

	pool_forward(pool, y->v, x->v, rows);
	pool_backward(pool, dx->v, dy->v, x->v, y->v, rows);
	for (size_t r = 0; r < rows; r++)
		for (size_t i = 0; i < image_size(out); i++) {
			size_t c = i % out.channels, j = i / out.channels % out.width,
			       h = i / out.channels / out.width, best = SIZE_MAX,
			       to = r * image_size(out) + i;

			for (size_t k = 0; k < size * size; k++) {
				size_t down = h * s->window.stride + k / size,
				       right = j * s->window.stride + k % size;

				if (down < pad || down - pad >= s->in.height || right < pad ||
				    right - pad >= s->in.width)
					continue;
				size_t from = at(s->in, r, down - pad, right - pad, c);

				if (s->average) {
					y->r[to] += x->r[from] / (double)(size * size);
					dx->r[from] += dy->r[to] / (double)(size * size);
				} else if (best == SIZE_MAX || x->r[from] > x->r[best]) {
					best = from;
				}
			}
			if (!s->average) {
				y->r[to] = x->r[best];
				dx->r[best] += dy->r[to];
			}
		}
	check_array(b, y, "y", s->average ? TOLERANCE : 0);
	check_array(b, dx, "dx", TOLERANCE);
	bench_clear(b);
}

static void op_pool(struct bench *b, const struct sizes *s)
{
	const size_t most = s->rows + s->more;
	struct pool *pool = pool_new(&b->w, s->in, s->window, s->average, most);
	pool_once(b, s, pool, s->rows);
	if (s->more) {
		pool_once(b, s, pool, most);
		pool_once(b, s, pool, s->rows);
	}
	pool_free(pool);
}

static const struct sizes norms[] = {
	{.rows = 2, .in = {5, 7, 3}},
	{.rows = 2, .in = {5, 7, 3}, .relu = true, .adds = true},
	{.rows = 7, .more = 3, .in = {8, 8, 16}, .relu = true},
	{.rows = 7, .more = 3, .in = {8, 8, 16}, .relu = true, .adds = true},
	{.rows = 3, .in = {4, 4, 64}, .adds = true},
	{.rows = 33, .in = {1, 1, 300}, .relu = true},
	{.rows = 40, .in = {32, 32, 5}, .relu = true},
	{.rows = 1, .more = 1, .in = {2, 3, 1}, .relu = true},
};

/* Returns the normalised x. */
static void norm_reference(const struct sizes *s, double *y, const double *x, const double *add,
			   const double *scale, const double *mean, const double *variance,
			   size_t n)
{
	const size_t channels = s->in.channels;
	for (size_t i = 0; i < n; i++) {
		size_t c = i % channels;
		double v = (x[i] - mean[c]) / sqrt(variance[c] + NORM_EPSILON) * scale[c] +
			   scale[channels + c] + (s->adds ? add[i] : 0);

		y[i] = s->relu ? fmax(0, v) : v;
	}
}

static void norm_once(struct bench *b, const struct sizes *s, struct norm *norm, size_t rows)
{
	const size_t n = rows * image_size(s->in), channels = s->in.channels;
	const double pixels = (double)(n / channels);
	float *raw AUTOFREE = normals(b, n);
	for (size_t i = 0; i < n; i++) /* channels of different mean and width */
		raw[i] = raw[i] * (0.3f + (float)(i % channels) * 0.1f) + (float)(i % channels);
	struct array *x = array_at(b, raw, n, GUARD), *add = image_in(b, n), *y = image_out(b, n),
		     *evaluated = image_out(b, n), *scale = param_in(b, 2 * channels),
		     *running = param_in(b, 2 * channels), *dy = image_in(b, n),
		     *own = array_at(b, dy->x, n, GUARD), *dx = image_out(b, n),
		     *dscale = param_out(b, 2 * channels), *again = param_out(b, 2 * channels);
	double *mean AUTOFREE = must(calloc(channels, sizeof *mean)),
		     *variance AUTOFREE = must(calloc(channels, sizeof *variance));

	for (size_t i = 0; i < n; i++)
		mean[i % channels] += x->r[i] / pixels;
	for (size_t i = 0; i < n; i++)
		variance[i % channels] += pow(x->r[i] - mean[i % channels], 2) / pixels;
	for (size_t c = channels; c < 2 * channels; c++) /* a variance is positive */
		running->x[c] = (float)(running->r[c] = fabsf(running->x[c]));
	vec_put(running->v, running->x);

	norm_forward(norm, evaluated->v, x->v, add->v, scale->v, running->v, false, rows);
	norm_reference(s, evaluated->r, x->r, add->r, scale->r, running->r, running->r + channels,
		       n);
	check_array(b, evaluated, "y by what was running", TOLERANCE);
	check_array(b, running, "running after evaluation", 0);

	norm_forward(norm, y->v, x->v, add->v, scale->v, running->v, true, rows);
	norm_reference(s, y->r, x->r, add->r, scale->r, mean, variance, n);
	for (size_t c = 0; c < channels; c++) {
		running->r[c] += NORM_ALPHA * (mean[c] - running->r[c]);
		running->r[channels + c] += NORM_ALPHA * (variance[c] - running->r[channels + c]);
	}
	check_array(b, y, "y", TOLERANCE);
	check_array(b, running, "running", TOLERANCE);

	for (size_t i = 0; i < n; i++) {
		size_t c = i % channels;
		double g = s->relu && y->r[i] == 0 ? 0 : dy->r[i];

		if (s->adds)
			dy->r[i] = g;
		own->r[i] = g;
		dscale->r[channels + c] += g;
		dscale->r[c] += g * (x->r[i] - mean[c]) / sqrt(variance[c] + NORM_EPSILON);
	}
	for (size_t i = 0; i < n; i++) {
		size_t c = i % channels;
		double inverse = 1 / sqrt(variance[c] + NORM_EPSILON);

		own->r[i] = dx->r[i] = scale->r[c] * inverse *
				       (own->r[i] - dscale->r[channels + c] / pixels -
					(x->r[i] - mean[c]) * inverse * dscale->r[c] / pixels);
	}
	memcpy(again->r, dscale->r, 2 * channels * sizeof *again->r);
	norm_backward(norm, dx->v, dscale->v, dy->v, x->v, y->v, scale->v, rows);
	check_array(b, dx, "dx", TOLERANCE);
	check_array(b, dscale, "dscale", TOLERANCE);
	if (s->adds) {
		check_array(b, dy, "dy, masked", TOLERANCE);
	} else {
		norm_backward(norm, own->v, again->v, own->v, x->v, y->v, scale->v, rows);
		check_array(b, own, "dx in dy's place", TOLERANCE);
		check_array(b, again, "dscale, the second time", TOLERANCE);
	}
	bench_clear(b);
}

static void op_norm(struct bench *b, const struct sizes *s)
{
	const size_t most = s->rows + s->more;
	struct norm *norm = norm_new(&b->w, s->in, s->relu, s->adds, most);
	norm_once(b, s, norm, s->rows);
	if (s->more) {
		norm_once(b, s, norm, most);
		norm_once(b, s, norm, s->rows);
	}
	norm_free(norm);
}

/* ---- Sequences: rows of in.height places; in.width heads of in.channels floats; out tokens ----
 */

static const struct sizes sequences[] = {
	{.rows = 1, .in = {1, 1, 6}, .out = 1},
	{.rows = 2, .in = {3, 2, 5}, .out = 7, .adds = true},
	{.rows = 3, .more = 2, .in = {17, 3, 8}, .out = 40},
	{.rows = 2, .in = {64, 2, 32}, .out = 256, .adds = true},
	{.rows = 1, .in = {70, 1, 33}, .out = 3},
};

static void op_gelu(struct bench *b, const struct sizes *s)
{
	const size_t head = (s->rows * s->out + 1) / 2;
	struct array *x = image_in(b, s->rows * s->out), *y = image_in(b, x->n),
		     *dy = image_in(b, x->n), *sum = image_in(b, x->n);
	vec_gelu(y->v, x->v, head);
	vec_gelu_grad(dy->v, x->v, head);
	vec_add(sum->v, x->v, head);
	for (size_t i = 0; i < head; i++) {
		const double v = x->r[i], phi = 0.5 * (1 + erf(v / sqrt(2)));

		y->r[i] = v * phi;
		dy->r[i] *= phi + v * exp(-v * v / 2) / sqrt(2 * M_PI);
		sum->r[i] += v;
	}
	check_array(b, y, "y", TOLERANCE);
	check_array(b, dy, "dy", TOLERANCE);
	check_array(b, sum, "sum", TOLERANCE);
}

static void op_embed(struct bench *b, const struct sizes *s)
{
	const size_t places = s->in.height, rows = s->rows * places,
		     n = s->in.width * s->in.channels;
	float *number AUTOFREE = must(calloc(rows, sizeof *number));
	for (size_t r = 0; r < rows; r++)
		number[r] = (float)(rng_next(&b->rng) % s->out);
	struct array *token = array_at(b, number, rows, GUARD), *table = param_in(b, s->out * n),
		     *place = param_in(b, places * n), *y = image_out(b, rows * n),
		     *dy = image_in(b, rows * n),
		     *dtable = s->adds ? param_in(b, s->out * n) : param_out(b, s->out * n),
		     *dplace = param_out(b, places * n);
	vec_embed(y->v, token->v, table->v, place->v, rows, s->out);
	vec_embed_grad(dtable->v, dplace->v, dy->v, token->v, rows, s->out, s->adds);
	for (size_t i = 0; i < rows * n; i++) {
		const size_t t = (size_t)number[i / n] * n + i % n, p = i / n % places * n + i % n;

		y->r[i] = table->r[t] + place->r[p];
		dtable->r[t] += dy->r[i];
		dplace->r[p] += dy->r[i];
	}
	check_array(b, y, "y", TOLERANCE);
	check_array(b, dtable, "dtable", TOLERANCE);
	check_array(b, dplace, "dplace", TOLERANCE);
}

static void op_layer_norm(struct bench *b, const struct sizes *s)
{
	const size_t rows = s->rows * s->in.height, n = s->in.width * s->in.channels;
	struct array *x = image_in(b, rows * n), *scale = param_in(b, 2 * n),
		     *y = image_out(b, rows * n), *stat = param_out(b, 2 * rows),
		     *dy = image_in(b, rows * n), *dscale = param_out(b, 2 * n),
		     *dx = s->adds ? image_in(b, rows * n) : image_out(b, rows * n);
	vec_layer_norm(y->v, stat->v, x->v, scale->v, rows);
	vec_layer_norm_grad(dx->v, dscale->v, dy->v, x->v, stat->v, scale->v, rows, s->adds);
	for (size_t r = 0; r < rows; r++) {
		const double *in = x->r + r * n, *up = dy->r + r * n;
		double mean = 0, variance = 0, sum = 0, product = 0;

		for (size_t j = 0; j < n; j++)
			mean += in[j] / (double)n;
		for (size_t j = 0; j < n; j++)
			variance += (in[j] - mean) * (in[j] - mean) / (double)n;
		const double inverse = 1 / sqrt(variance + (double)LAYER_NORM_EPSILON);

		for (size_t j = 0; j < n; j++) {
			const double e = (in[j] - mean) * inverse, g = up[j] * scale->r[j];

			y->r[r * n + j] = e * scale->r[j] + scale->r[n + j];
			dscale->r[j] += up[j] * e;
			dscale->r[n + j] += up[j];
			sum += g / (double)n;
			product += g * e / (double)n;
		}
		for (size_t j = 0; j < n; j++)
			dx->r[r * n + j] += inverse * (up[j] * scale->r[j] - sum -
						       (in[j] - mean) * inverse * product);
		stat->r[2 * r] = mean;
		stat->r[2 * r + 1] = inverse;
	}
	check_array(b, y, "y", TOLERANCE);
	check_array(b, stat, "stat", TOLERANCE);
	check_array(b, dx, "dx", TOLERANCE);
	check_array(b, dscale, "dscale", TOLERANCE);
}

/* One head of one row: q, k and v begin at x, and are ld apart from place to place. */
static void attention_reference(const struct image m, double *y, double *dx, const double *x,
				const double *dy)
{
	const size_t t = m.height, n = m.channels, ld = 3 * m.width * n, ldy = m.width * n;
	double *p AUTOFREE = must(calloc(t, sizeof *p));
	for (size_t i = 0; i < t; i++) {
		double sum = 0, mean = 0;

		for (size_t j = 0; j <= i; j++) {
			p[j] = 0;
			for (size_t c = 0; c < n; c++)
				p[j] += x[i * ld + c] * x[j * ld + n + c] / sqrt((double)n);
			sum += p[j] = exp(p[j]);
		}
		for (size_t j = 0; j <= i; j++)
			for (size_t c = 0; c < n; c++) {
				const double v = x[j * ld + 2 * n + c], g = dy[i * ldy + c];

				y[i * ldy + c] += p[j] / sum * v;
				dx[j * ld + 2 * n + c] += p[j] / sum * g;
				mean += p[j] / sum * g * v;
			}
		for (size_t j = 0; j <= i; j++) {
			double ds = -mean;

			for (size_t c = 0; c < n; c++)
				ds += dy[i * ldy + c] * x[j * ld + 2 * n + c];
			ds *= p[j] / sum / sqrt((double)n);
			for (size_t c = 0; c < n; c++) {
				dx[i * ld + c] += ds * x[j * ld + n + c];
				dx[j * ld + n + c] += ds * x[i * ld + c];
			}
		}
	}
}

static void attention_once(struct bench *b, const struct sizes *s, struct attention *attention,
			   size_t rows)
{
	const size_t one = image_size(s->in), n = rows * one;
	struct array *x = image_in(b, 3 * n), *y = image_out(b, n), *dy = image_in(b, n),
		     *dx = image_out(b, 3 * n);
	attention_forward(attention, y->v, x->v, rows);
	attention_backward(attention, dx->v, dy->v, x->v, rows);
	for (size_t r = 0; r < rows; r++)
		for (size_t h = 0; h < s->in.width; h++) {
			const size_t at_y = r * one + h * s->in.channels,
				     at_x = 3 * r * one + 3 * h * s->in.channels;

			attention_reference(s->in, y->r + at_y, dx->r + at_x, x->r + at_x,
					    dy->r + at_y);
		}
	check_array(b, y, "y", TOLERANCE);
	check_array(b, dx, "dx", TOLERANCE);
	bench_clear(b);
}

static void op_attention(struct bench *b, const struct sizes *s)
{
	const struct image m = s->in;
	struct attention *attention =
		attention_new(&b->w, m.height, m.width, m.channels, s->rows + s->more);
	attention_once(b, s, attention, s->rows);
	if (s->more)
		attention_once(b, s, attention, s->rows + s->more);
	attention_free(attention);
}

/* ---- Every operation, at every size -------------------------------------- */

#define SLOT(name)   offsetof(struct device_ops, name)
#define SIZES(table) .sizes = (table), .count = COUNT(table)

static const struct operation {
	const char *name;
	void (*run)(struct bench *b, const struct sizes *s);
	const struct sizes *sizes;
	size_t count;
	size_t slots[5]; /* slots of struct device_ops that it calls */
} operations[] = {
	{"memory", op_memory, SIZES(vectors), {SLOT(alloc), SLOT(free), SLOT(put), SLOT(get)}},
	{"fill", op_fill, SIZES(vectors), {SLOT(fill)}},
	{"copy", op_copy, SIZES(vectors), {SLOT(copy)}},
	{"scale", op_scale, SIZES(vectors), {SLOT(scale)}},
	{"axpy", op_axpy, SIZES(vectors), {SLOT(axpy)}},
	{"columns", op_columns, SIZES(vectors), {SLOT(copy_columns)}},
	{"gemm", op_gemm, SIZES(vectors), {SLOT(gemm)}},
	{"bias", op_bias, SIZES(vectors), {SLOT(add_bias), SLOT(sum_rows)}},
	{"relu", op_relu, SIZES(vectors), {SLOT(relu), SLOT(relu_grad)}},
	{"tanh", op_tanh, SIZES(vectors), {SLOT(tanh), SLOT(tanh_grad)}},
	{"softmax_xent", op_xent, SIZES(vectors), {SLOT(softmax_xent), SLOT(tally)}},
	{"mse", op_mse, SIZES(vectors), {SLOT(mse)}},
	{"step", op_step, SIZES(vectors), {SLOT(step)}},
	{"first step", op_first_step, SIZES(vectors), {SLOT(step)}},
	{"limit", op_limit, SIZES(vectors), {SLOT(add_squares), SLOT(limit)}},
	{"ratio", op_ratio, SIZES(vectors), {SLOT(ratio)}},
	{"huge", op_huge, SIZES(vectors), {SLOT(add_squares), SLOT(limit)}},
	{"overflow", op_overflow, SIZES(vectors), {SLOT(step)}},
	{"gather", op_gather, SIZES(gathers), {SLOT(gather)}},
	{"dropout", op_dropout, SIZES(vectors), {SLOT(dropout)}},
	{"shortcut", op_shortcut, SIZES(shortcuts), {SLOT(shortcut), SLOT(shortcut_grad)}},
	{"conv",
	 op_conv,
	 SIZES(convs),
	 {SLOT(conv_new), SLOT(conv_free), SLOT(conv_forward), SLOT(conv_backward_weight),
	  SLOT(conv_backward_data)}},
	{"pool",
	 op_pool,
	 SIZES(pools),
	 {SLOT(pool_new), SLOT(pool_free), SLOT(pool_forward), SLOT(pool_backward)}},
	{"norm",
	 op_norm,
	 SIZES(norms),
	 {SLOT(norm_new), SLOT(norm_free), SLOT(norm_forward), SLOT(norm_backward)}},
	{"gelu", op_gelu, SIZES(vectors), {SLOT(gelu), SLOT(gelu_grad), SLOT(add)}},
	{"embed", op_embed, SIZES(sequences), {SLOT(embed), SLOT(embed_grad)}},
	{"layer_norm", op_layer_norm, SIZES(sequences), {SLOT(layer_norm), SLOT(layer_norm_grad)}},
	{"attention",
	 op_attention,
	 SIZES(sequences),
	 {SLOT(attention_new), SLOT(attention_free), SLOT(attention_forward),
	  SLOT(attention_backward)}},
};

CASE("devices", .limit = 60);

TEST(device_operations_match_double_precision, LISTED(devices) * (int)COUNT(operations))
{
	const struct operation *o = &operations[(size_t)_i % COUNT(operations)];
	struct bench b;
	if (!bench_open(&b, _i / (int)COUNT(operations)))
		return;
	for (size_t i = 0; i < o->count; i++) {
		const struct sizes *s = &o->sizes[i];

		snprintf(b.what, sizeof b.what,
			 "%s: %s[%zu]: %zu rows of %zu x %zu x %zu to %zu, window %zu/%zu/%zu",
			 devices[_i / (int)COUNT(operations)]->name, o->name, i, s->rows,
			 s->in.height, s->in.width, s->in.channels, s->out, s->window.size,
			 s->window.stride, s->window.pad);
		o->run(&b, s);
		bench_clear(&b);
	}
	bench_close(&b);
}

/* The table above calls every slot that computes: those from alloc up to graph, without graph. */
TEST(device_tests_cover_every_operation)
{
	for (size_t slot = SLOT(alloc); slot < SLOT(graph); slot += sizeof(void (*)(void))) {
		bool found = false;

		for (size_t i = 0; i < COUNT(operations); i++)
			for (size_t k = 0; k < COUNT(operations[i].slots); k++)
				found |= operations[i].slots[k] == slot;
		ck_assert_msg(found, "no operation of this file calls slot %zu of device_ops",
			      slot / sizeof(void (*)(void)));
	}
}

/* --device names all devices, in the order of devices[]. */
TEST(device_option_names_every_device)
{
	const char *name[16] = {"auto"};
	size_t n = 0;
	for (; devices[n]; n++) {
		name[n + 1] = devices[n]->name;
		ck_assert_ptr_eq(device_find(devices[n]->name), devices[n]);
	}
	char *names AUTOFREE = text_list(name, n + 1, "|");
	ck_assert_str_eq(names, DEVICES);
	ck_assert_ptr_null(device_find("tpu"));
}

TEST(usable_devices_report_facts, LISTED(devices))
{
	const bool is_here =
		devices[_i] == &device_cpu || (devices[_i] == &device_cuda && have_gpu());
	struct device_facts facts = {0};
	const char *why = probed(_i, &facts);
	ck_assert_msg(!why || !is_here, "%s is here, but: %s", devices[_i]->name, why);
	if (why) {
		printf("devices: %s is not tested: %s\n", devices[_i]->name, why);
		return;
	}
	ck_assert_int_gt(facts.count, 0);
	ck_assert_msg(*facts.version, "%s: libraries without a version", devices[_i]->name);
}

/* ---- Gradients against differences --------------------------------------- */

/* The sum of r[i] y[i], with y read from the device. */
static double weighted_sum(struct array *y, const double *r)
{
	double sum = 0;
	vec_get(y->v, y->x);
	for (size_t i = 0; i < y->n; i++)
		sum += y->x[i] * r[i];
	return sum;
}

enum { CONV, NORM, MAX_POOL, AVERAGE_POOL, LAYERS };
static const char *const layer_names[] = {"conv", "norm", "max pool", "average pool"};

/* f(x + h v) - f(x - h v) is 2 h <gradient, v>, along random v: of x, and of the parameters. */
TEST(layer_gradients_match_finite_differences, LISTED(devices) * LAYERS)
{
	enum { ROWS = 3, STEPS = 2 };
	const struct image in = {5, 7, 4};
	const struct window win = {3, 2, 1}, square = {2, 1, 0};
	const double h = 1e-2;
	const int kind = _i % LAYERS;
	struct bench b;
	if (!bench_open(&b, _i / LAYERS))
		return;
	const struct image out = kind == CONV   ? image_after(in, win, 5)
				 : kind == NORM ? in
						: image_after(in, square, in.channels);
	struct conv *conv = conv_new(&b.w, in, 5, win, false, false, ROWS);
	struct norm *norm = norm_new(&b.w, in, false, false, ROWS);
	struct pool *pool = pool_new(&b.w, in, square, kind == AVERAGE_POOL, ROWS);
	const size_t params = kind == CONV ? 5 * 9 * 4 : kind == NORM ? 8 : 1;
	struct array *x = image_in(&b, ROWS * image_size(in)), *p = param_in(&b, params),
		     *y = image_out(&b, ROWS * image_size(out)), *dy = image_in(&b, y->n),
		     *dx = image_out(&b, x->n), *dp = param_out(&b, params),
		     *running = param_in(&b, 8), *vx = image_in(&b, x->n),
		     *vp = param_in(&b, params);
	double value[STEPS] = {0};

	if (kind == MAX_POOL) /* no two so close that a step changes which is larger */
		for (size_t i = 0; i < x->n; i++) {
			x->r[i] = (double)(i * 89 % x->n);
			vx->r[i] = fmax(-3, fmin(3, vx->r[i]));
		}
	vec_fill(dp->v, 0);
	for (int step = 0; step <= STEPS; step++) {
		const double by = step == STEPS ? 0 : step ? -h : h;

		for (size_t i = 0; i < x->n; i++)
			x->x[i] = (float)(x->r[i] + by * vx->r[i]);
		for (size_t i = 0; i < params; i++)
			p->x[i] = (float)(p->r[i] + by * vp->r[i]);
		vec_put(x->v, x->x);
		vec_put(p->v, p->x);
		if (kind == CONV)
			conv_forward(conv, y->v, x->v, p->v, NULL, ROWS);
		else if (kind == NORM)
			norm_forward(norm, y->v, x->v, NULL, p->v, running->v, true, ROWS);
		else
			pool_forward(pool, y->v, x->v, ROWS);
		if (step < STEPS)
			value[step] = weighted_sum(y, dy->r);
	}
	if (kind == CONV) {
		conv_backward_weight(conv, dp->v, NULL, x->v, dy->v, ROWS);
		conv_backward_data(conv, dx->v, dy->v, p->v, false, ROWS);
	} else if (kind == NORM) {
		norm_backward(norm, dx->v, dp->v, dy->v, x->v, y->v, p->v, ROWS);
	} else {
		pool_backward(pool, dx->v, dy->v, x->v, y->v, ROWS);
	}
	double right = (value[0] - value[1]) / (2 * h), got = weighted_sum(dx, vx->r);

	got += weighted_sum(dp, vp->r);
	ck_assert_msg(fabs(got - right) <= 2e-3 * fabs(right) + 1e-3,
		      "%s: %s: the gradient gives %.6g, differences %.6g",
		      devices[_i / LAYERS]->name, layer_names[kind], got, right);
	conv_free(conv);
	norm_free(norm);
	pool_free(pool);
	bench_close(&b);
}

/* ---- Random draws -------------------------------------------------------- */

TEST(dropout_drops_given_share_by_key, LISTED(devices))
{
	enum { N = 100000 };
	struct bench b;
	if (!bench_open(&b, _i))
		return;
	struct array *y[4];

	for (int i = 0; i < 4; i++) { /* the same twice, another salt, another step */
		y[i] = image_out(&b, N);
		vec_fill(y[i]->v, 1);
		b.d.key += i == 3;
		vec_dropout(y[i]->v, N, 0.25f, i == 2 ? 8 : 7);
		vec_get(y[i]->v, y[i]->x);
	}
	size_t dropped = 0, same[4] = {0};

	for (size_t j = 0; j < N; j++) {
		dropped += y[0]->x[j] == 0;
		for (int i = 1; i < 4; i++)
			same[i] += (y[i]->x[j] == 0) == (y[0]->x[j] == 0);
	}
	ck_assert_msg(fabs((double)dropped / N - 0.25) < 0.01, "%zu of %d dropped", dropped, N);
	ck_assert_uint_eq(same[1], N);
	for (int i = 2; i < 4; i++) /* two independent draws agree at 1 - 2 p (1 - p) = 0.625 */
		ck_assert_msg(fabs((double)same[i] / N - 0.625) < 0.01, "%zu of %d agree", same[i],
			      N);
	bench_close(&b);
}

TEST(crops_occur_at_every_offset, LISTED(devices))
{
	/* The value of a pixel is its place + 1: the middle pixel of an output identifies its
	 * crop. */
	enum { EDGE = 9, PAD = 2, AREA = EDGE * EDGE, ROWS = 1000, WAYS = 2 * PAD + 1 };
	const struct image m = {EDGE, EDGE, 1};
	struct bench b;
	float place[AREA], *floats = must(calloc(ROWS * AREA, sizeof *floats)), *target;
	int32_t index[ROWS];
	size_t seen[WAYS][WAYS][2] = {0}, moved = 0;
	if (!bench_open(&b, _i)) {
		free(floats);
		return;
	}
	target = normals(&b, ROWS);
	for (size_t i = 0; i < AREA; i++)
		place[i] = (float)i + 1;
	for (size_t r = 0; r < ROWS; r++) {
		memcpy(floats + r * AREA, place, sizeof place);
		index[r] = (int32_t)r;
	}
	const struct data d = {
		.n = ROWS, .features = AREA, .image = m, .floats = floats, .target = target};
	struct array *x[3], *y = image_out(&b, ROWS);

	for (int i = 0; i < 3; i++) { /* the same key twice, then another */
		const struct transform t = {.image = m, .pad = PAD, .flip = true, .key = 5 + i / 2};

		x[i] = image_out(&b, ROWS * AREA);
		data_gather(&b.w, &d, index, ROWS, &t, x[i]->v, y->v);
		vec_get(x[i]->v, x[i]->x);
	}
	ck_assert_mem_eq(x[0]->x, x[1]->x, ROWS * AREA * sizeof(float));
	for (size_t r = 0; r < ROWS; r++) {
		const float *middle = x[0]->x + r * AREA + AREA / 2;
		size_t from = (size_t)middle[0] - 1, down = from / EDGE + PAD - EDGE / 2,
		       right = from % EDGE + PAD - EDGE / 2;

		ck_assert_uint_lt(down, WAYS);
		ck_assert_uint_lt(right, WAYS);
		seen[down][right][middle[1] < middle[0]]++;
		moved += middle[0] != x[2]->x[r * AREA + AREA / 2];
	}
	for (size_t i = 0; i < WAYS * WAYS * 2; i++) /* 20 each on average */
		ck_assert_msg((&seen[0][0][0])[i] > 0, "crop %zu of %d never occurs", i,
			      WAYS * WAYS * 2);
	ck_assert_uint_gt(moved, ROWS * 9 / 10); /* 1 in 25 is the same by chance */
	free(floats);
	free(target);
	bench_close(&b);
}

/* ---- The suite ----------------------------------------------------------- */
