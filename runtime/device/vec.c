/*
 * vec.c - vectors. This file checks lengths, once for all devices; the device does the work.
 *
 * A check costs one or two comparisons. The smallest operation of the smallest model (a perceptron
 * on one row) costs some ten times that. The checks therefore stay in all builds.
 */
#include "runtime/device/device.h"

#include <stdlib.h>
#include <string.h>

#define POINT(name) &device_##name,
const struct device_ops *const devices[] = {DEVICE_LIST(POINT) NULL};

FIND_BY_NAME(device_ops, device_find, devices, name)

#define DO(v, op, ...) (v)->dev->ops->op((v)->dev, __VA_ARGS__)

static inline void same(const char *op, const struct vec *y, const struct vec *x)
{
	CHECK(y->n == x->n, "%s: y has %zu floats, x has %zu", op, y->n, x->n);
	CHECK(y->dev == x->dev, "%s: y is on another device than x", op);
}

struct vec *vec_new(struct worker *w, size_t n)
{
	struct vec *v = must(malloc(sizeof *v));
	*v = (struct vec){.n = n, .dev = w->loop->dev};
	v->data = w->loop->dev->ops->alloc(w->loop->dev, n);
	w->loop->dev->bytes += n * sizeof(float);
	return v;
}

/* NULL without data. */
static float *floats_from(const struct vec *v, size_t first)
{
	return v->data ? v->data + first : NULL;
}

struct vec *vec_slice(struct vec *v, size_t first, size_t n)
{
	const size_t end = first + n;
	CHECK(first <= end && end <= v->n, "slice: floats %zu to %zu of %zu", first, end, v->n);
	struct vec *s = must(malloc(sizeof *s));

	*s = (struct vec){.data = floats_from(v, first), .n = n, .dev = v->dev, .view = true};
	return s;
}

void vec_free(struct vec *v)
{
	if (v && !v->view)
		DO(v, free, v->data, v->n);
	free(v);
}

size_t vec_len(const struct vec *v)
{
	return v->n;
}

bool vec_has_data(const struct vec *v)
{
	return v->data != NULL;
}

void vec_put(struct vec *y, const float *host)
{
	DO(y, put, y->data, host, y->n);
}

void vec_get(const struct vec *x, float *host)
{
	DO(x, get, host, x->data, x->n);
}

void vec_fill(struct vec *y, float a)
{
	DO(y, fill, y->data, a, y->n);
}

void vec_copy(struct vec *y, const struct vec *x)
{
	same("copy", y, x);
	DO(y, copy, y->data, x->data, y->n);
}

void vec_scale(struct vec *y, float a)
{
	DO(y, scale, y->data, a, y->n);
}

void vec_axpy(struct vec *y, float a, const struct vec *x)
{
	same("axpy", y, x);
	DO(y, axpy, y->data, a, x->data, y->n);
}

static void columns_fit(const char *op, size_t width, size_t first, size_t n)
{
	CHECK(first <= width && n <= width - first, "%s: %zu columns from %zu of %zu", op, n, first,
	      width);
}

void vec_take_columns(struct vec *y, const struct vec *x, size_t rows, size_t width, size_t first,
		      size_t n)
{
	columns_fit("take_columns", width, first, n);
	vec_room("take_columns", "y", y, rows * n);
	vec_room("take_columns", "x", x, rows * width);
	DO(y, copy_columns, y->data, n, floats_from(x, first), width, rows, n);
}

void vec_put_columns(struct vec *y, const struct vec *x, size_t rows, size_t width, size_t first,
		     size_t n)
{
	columns_fit("put_columns", width, first, n);
	vec_room("put_columns", "y", y, rows * width);
	vec_room("put_columns", "x", x, rows * n);
	DO(y, copy_columns, floats_from(y, first), width, x->data, n, rows, n);
}

void vec_gemm(struct vec *y, bool at, const struct vec *a, bool bt, const struct vec *b, size_t m,
	      size_t n, size_t k)
{
	vec_room("gemm", "y", y, m * n);
	vec_room("gemm", "a", a, m * k);
	vec_room("gemm", "b", b, k * n);
	DO(y, gemm, y->data, at, a->data, bt, b->data, m, n, k);
}

void vec_add_bias(struct vec *y, const struct vec *b, size_t rows)
{
	vec_room("add_bias", "y", y, rows * b->n);
	DO(y, add_bias, y->data, b->data, rows, b->n);
}

void vec_sum_rows(struct vec *b, const struct vec *y, size_t rows)
{
	vec_room("sum_rows", "y", y, rows * b->n);
	DO(b, sum_rows, b->data, y->data, rows, b->n);
}

#define IN_PLACE(op) \
	void vec_##op(struct vec *y, size_t n) \
	{ \
		vec_room(#op, "y", y, n); \
		DO(y, op, y->data, y->data, n); \
	}
IN_PLACE(relu)
IN_PLACE(tanh)

#define MAPPED(op, y, x) \
	void vec_##op(struct vec *y, const struct vec *x, size_t n) \
	{ \
		vec_room(#op, #y, y, n); \
		vec_room(#op, #x, x, n); \
		DO(y, op, (y)->data, (x)->data, n); \
	}
MAPPED(relu_grad, dy, y)
MAPPED(tanh_grad, dy, y)
MAPPED(add, y, x)
MAPPED(gelu, y, x)
MAPPED(gelu_grad, dy, x)

/* Returns n, the floats of a token's vector. */
static size_t embedding_fits(const char *op, const struct vec *y, const struct vec *token,
			     const struct vec *table, const struct vec *place, size_t rows,
			     size_t tokens)
{
	const size_t n = table->n / tokens;
	CHECK(tokens && n && table->n == tokens * n && place->n && place->n % n == 0,
	      "%s: %zu tokens of %zu floats, places of %zu", op, tokens, table->n, place->n);
	vec_room(op, "y", y, rows * n);
	vec_room(op, "token", token, rows);
	return n;
}

void vec_embed(struct vec *y, const struct vec *token, const struct vec *table,
	       const struct vec *place, size_t rows, size_t tokens)
{
	const size_t n = embedding_fits("embed", y, token, table, place, rows, tokens);
	DO(y, embed, y->data, token->data, table->data, place->data, rows, place->n / n, tokens, n);
}

void vec_embed_grad(struct vec *dtable, struct vec *dplace, const struct vec *dy,
		    const struct vec *token, size_t rows, size_t tokens, bool add)
{
	const size_t n = embedding_fits("embed_grad", dy, token, dtable, dplace, rows, tokens);
	DO(dy, embed_grad, dtable->data, dplace->data, dy->data, token->data, rows, dplace->n / n,
	   tokens, n, add);
}

static void layer_norm_fits(const char *op, const struct vec *y, const struct vec *x,
			    const struct vec *stat, const struct vec *scale, size_t rows)
{
	vec_room(op, "y", y, rows * scale->n / 2);
	vec_room(op, "x", x, rows * scale->n / 2);
	vec_room(op, "stat", stat, 2 * rows);
}

void vec_layer_norm(struct vec *y, struct vec *stat, const struct vec *x, const struct vec *scale,
		    size_t rows)
{
	layer_norm_fits("layer_norm", y, x, stat, scale, rows);
	DO(y, layer_norm, y->data, stat->data, x->data, scale->data, rows, scale->n / 2);
}

void vec_layer_norm_grad(struct vec *dx, struct vec *dscale, const struct vec *dy,
			 const struct vec *x, const struct vec *stat, const struct vec *scale,
			 size_t rows, bool add)
{
	layer_norm_fits("layer_norm_grad", dx, x, stat, scale, rows);
	layer_norm_fits("layer_norm_grad", dy, x, stat, dscale, rows);
	DO(dy, layer_norm_grad, dx->data, dscale->data, dy->data, x->data, stat->data, scale->data,
	   rows, scale->n / 2, add);
}

#define LOSS(op, targets) \
	void vec_##op(struct vec *z, const struct vec *target, size_t rows, size_t n, float over) \
	{ \
		vec_room(#op, "z", z, rows *n); \
		vec_room(#op, "target", target, targets); \
		DO(z, op, z->data, target->data, rows, n, over); \
	}
LOSS(softmax_xent, rows)
LOSS(mse, rows *n)

void vec_dropout(struct vec *y, size_t n, float p, uint64_t salt)
{
	vec_room("dropout", "y", y, n);
	CHECK(p >= 0 && p < 1, "dropout: probability %g", (double)p);
	DO(y, dropout, y->data, p, salt, n);
}

void vec_sgd(struct vec *p, struct vec *v, const struct vec *g, float lr, float m, float decay,
	     float scale)
{
	CHECK(v || m == 0, "sgd: momentum %g without a velocity", (double)m);
	vec_step(p, &v, g,
		 &(struct rule){.kind = v ? RULE_MOMENTUM : RULE_SGD,
				.lr = lr,
				.scale = scale,
				.decay = decay,
				.beta = {m}});
}

void vec_step(struct vec *x, struct vec *const moment[], const struct vec *g, const struct rule *by)
{
	float *kept[MOMENTS_MOST] = {NULL};
	same("step", x, g);
	for (int k = 0; k < rule_moments(by->kind); k++) {
		CHECK(moment[k], "a rule keeps %d moments, there are %d", rule_moments(by->kind),
		      k);
		same("step", x, moment[k]);
		kept[k] = moment[k]->data;
	}
	DO(x, step, x->data, kept[0], kept[1], g->data, by, x->n);
}

void vec_add_squares(struct vec *y, const struct vec *x, size_t first, size_t end)
{
	vec_room("add_squares", "y", y, 2);
	CHECK(first <= end, "add_squares: floats %zu to %zu", first, end);
	vec_room("add_squares", "x", x, end);
	if (first < end)
		DO(y, add_squares, y->data, vec_floats(x, first), end - first);
}

void vec_ratio(struct vec *y, const struct vec *w, const struct vec *u, float most, float decay)
{
	vec_room("ratio", "w", w, 2);
	vec_room("ratio", "u", u, 2);
	DO(y, ratio, y->data, w->data, u->data, most, decay, y->n);
}

void vec_limit(struct vec *y, const struct vec *square, float most, float least)
{
	vec_room("limit", "square", square, 2);
	CHECK(least > 0, "limit: at least %g", (double)least);
	DO(y, limit, y->data, square->data, most, least, y->n);
}

void tally_take(struct worker *w, struct tally *out)
{
	struct tally *told = &w->loop->told;
	w->loop->dev->ops->tally(w->loop->dev, out);
	out->loss += told->loss;
	out->correct += told->correct;
	out->rows += told->rows;
	*told = (struct tally){0};
}

void worker_tally(struct worker *w, double loss_sum, int64_t rows, int64_t correct)
{
	CHECK(w->model->workload->host,
	      "workload %s: worker_tally is called in a gradient that devices repeat: set .host",
	      w->model->workload->plugin.name);
	w->loop->told.loss += loss_sum;
	w->loop->told.correct += correct;
	w->loop->told.rows += rows;
}

void data_gather(struct worker *w, const struct data *d, const int32_t *index, size_t count,
		 const struct transform *t, struct vec *x, struct vec *y)
{
	vec_room("gather", "x", x, count * d->features);
	vec_room("gather", "y", y, count * data_targets(d));
	for (size_t i = 0; i < count && x->data; i++)
		CHECK((size_t)index[i] < d->n, "gather: row %d of %zu", index[i], d->n);
	const bool plain = !t || !(t->mean || t->pad || t->flip);

	CHECK(plain || image_size(t->image) == d->features, "gather: rows of %zu, images of %zu",
	      d->features, image_size(t->image));
	w->loop->dev->ops->gather(w->loop->dev, x->data, y->data, d, index, count, t);
}
