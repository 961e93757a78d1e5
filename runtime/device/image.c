/*
 * image.c - convolutions, poolings, batch normalisations, shortcuts and attention. This file checks
 * lengths, once for all devices; the device does the work.
 */
#include "runtime/device/device.h"

#include <stdlib.h>

/* A layer that a device has prepared for a shape. */
#define LAYER(layer) \
	struct layer { \
		struct device *dev; \
		struct shape shape; \
		void *at; \
	}; \
	static struct layer *layer##_of(struct worker *w, const struct shape *s) \
	{ \
		struct layer *l = must(malloc(sizeof *l)); \
		*l = (struct layer){w->loop->dev, *s, \
				    w->loop->dev->ops->layer##_new(w->loop->dev, s)}; \
		return l; \
	} \
	void layer##_free(struct layer *l) \
	{ \
		if (l) \
			l->dev->ops->layer##_free(l->dev, l->at); \
		free(l); \
	}
DEVICE_LAYERS(LAYER)

struct image image_after(struct image in, struct window win, size_t channels)
{
	size_t height = in.height + 2 * win.pad, width = in.width + 2 * win.pad;
	CHECK(win.size && win.stride && win.size <= height && win.size <= width,
	      "a window of %zu, stride %zu, on %zu x %zu padded by %zu", win.size, win.stride,
	      in.height, in.width, win.pad);
	return (struct image){(height - win.size) / win.stride + 1,
			      (width - win.size) / win.stride + 1, channels};
}

#define DO(l, op, ...) (l)->dev->ops->op((l)->dev, (l)->at, __VA_ARGS__)

/* Checks the rows of a layer's input and output. */
#define FIT(op, l, rows, x, y) fit(op, &(l)->shape, rows, #x, x, #y, y)
static void fit(const char *op, const struct shape *s, size_t rows, const char *x_name,
		const struct vec *x, const char *y_name, const struct vec *y)
{
	CHECK(rows > 0 && rows <= s->rows_max, "%s: %zu rows, prepared for up to %zu", op, rows,
	      s->rows_max);
	vec_room(op, x_name, x, rows * image_size(s->in));
	vec_room(op, y_name, y, rows * image_size(s->out));
}

static float *data_of(const struct vec *v)
{
	return v ? v->data : NULL;
}

/* ---- Convolution --------------------------------------------------------- */

struct conv *conv_new(struct worker *w, struct image in, size_t out, struct window win, bool bias,
		      bool relu, size_t rows_max)
{
	w->loop->dev->convs++;
	return conv_of(w, &(struct shape){.in = in,
					  .out = image_after(in, win, out),
					  .window = win,
					  .bias = bias,
					  .relu = relu,
					  .rows_max = rows_max});
}

static size_t weight_size(const struct shape *s)
{
	return s->out.channels * s->window.size * s->window.size * s->in.channels;
}

void conv_forward(struct conv *c, struct vec *y, const struct vec *x, const struct vec *weight,
		  const struct vec *bias, size_t rows)
{
	FIT("conv", c, rows, x, y);
	vec_room("conv", "weight", weight, weight_size(&c->shape));
	if (c->shape.bias)
		vec_room("conv", "bias", bias, c->shape.out.channels);
	DO(c, conv_forward, y->data, x->data, weight->data, data_of(bias), rows);
}

void conv_backward_weight(struct conv *c, struct vec *dweight, struct vec *dbias,
			  const struct vec *x, const struct vec *dy, size_t rows)
{
	FIT("conv backward", c, rows, x, dy);
	vec_room("conv backward", "dweight", dweight, weight_size(&c->shape));
	if (c->shape.bias)
		vec_room("conv backward", "dbias", dbias, c->shape.out.channels);
	DO(c, conv_backward_weight, dweight->data, data_of(dbias), x->data, dy->data, rows);
}

void conv_backward_data(struct conv *c, struct vec *dx, const struct vec *dy,
			const struct vec *weight, bool add, size_t rows)
{
	FIT("conv backward", c, rows, dx, dy);
	vec_room("conv backward", "weight", weight, weight_size(&c->shape));
	DO(c, conv_backward_data, dx->data, dy->data, weight->data, add, rows);
}

/* ---- Pooling ------------------------------------------------------------- */

struct pool *pool_new(struct worker *w, struct image in, struct window win, bool average,
		      size_t rows_max)
{
	CHECK(!average || win.pad == 0, "an average pool does not pad");
	CHECK(win.pad < win.size, "a window of %zu may lie entirely in the padding of %zu",
	      win.size, win.pad);
	return pool_of(w, &(struct shape){.in = in,
					  .out = image_after(in, win, in.channels),
					  .window = win,
					  .average = average,
					  .rows_max = rows_max});
}

void pool_forward(struct pool *pool, struct vec *y, const struct vec *x, size_t rows)
{
	FIT("pool", pool, rows, x, y);
	DO(pool, pool_forward, y->data, x->data, rows);
}

void pool_backward(struct pool *pool, struct vec *dx, const struct vec *dy, const struct vec *x,
		   const struct vec *y, size_t rows)
{
	FIT("pool backward", pool, rows, dx, dy);
	FIT("pool backward", pool, rows, x, y);
	DO(pool, pool_backward, dx->data, dy->data, x->data, y->data, rows);
}

/* ---- Batch normalisation ------------------------------------------------- */

struct norm *norm_new(struct worker *w, struct image in, bool relu, bool adds, size_t rows_max)
{
	return norm_of(
		w, &(struct shape){
			   .in = in, .out = in, .relu = relu, .adds = adds, .rows_max = rows_max});
}

void norm_forward(struct norm *m, struct vec *y, const struct vec *x, const struct vec *add,
		  const struct vec *scale, struct vec *running, bool training, size_t rows)
{
	FIT("norm", m, rows, x, y);
	vec_room("norm", "scale", scale, 2 * m->shape.in.channels);
	vec_room("norm", "running", running, 2 * m->shape.in.channels);
	if (m->shape.adds)
		vec_room("norm", "add", add, rows * image_size(m->shape.in));
	DO(m, norm_forward, y->data, x->data, data_of(add), scale->data, running->data, training,
	   rows);
}

void norm_backward(struct norm *m, struct vec *dx, struct vec *dscale, struct vec *dy,
		   const struct vec *x, const struct vec *y, const struct vec *scale, size_t rows)
{
	FIT("norm backward", m, rows, dx, dy);
	FIT("norm backward", m, rows, x, y);
	vec_room("norm backward", "scale", scale, 2 * m->shape.in.channels);
	vec_room("norm backward", "dscale", dscale, 2 * m->shape.in.channels);
	CHECK(!m->shape.adds || dx != dy, "norm backward: dx is dy, which add's gradient needs");
	DO(m, norm_backward, dx->data, dscale->data, dy->data, x->data, y->data, scale->data, rows);
}

/* ---- Attention ----------------------------------------------------------- */

struct attention *attention_new(struct worker *w, size_t places, size_t heads, size_t width,
				size_t rows_max)
{
	w->loop->dev->attention_floats += rows_max * heads * places * places;
	return attention_of(w, &(struct shape){.in = {places, heads, 3 * width},
					       .out = {places, heads, width},
					       .rows_max = rows_max});
}

void attention_forward(struct attention *a, struct vec *y, const struct vec *x, size_t rows)
{
	FIT("attention", a, rows, x, y);
	DO(a, attention_forward, y->data, x->data, rows);
}

void attention_backward(struct attention *a, struct vec *dx, const struct vec *dy,
			const struct vec *x, size_t rows)
{
	FIT("attention backward", a, rows, x, dy);
	FIT("attention backward", a, rows, dx, dy);
	DO(a, attention_backward, dx->data, dy->data, x->data, rows);
}

/* ---- Shortcuts ----------------------------------------------------------- */

static void check_shortcut(const struct vec *y, const struct vec *x, struct image in, size_t stride,
			   size_t out, size_t rows)
{
	CHECK(stride && out >= in.channels, "shortcut: %zu channels to %zu, stride %zu",
	      in.channels, out, stride);
	vec_room("shortcut", "x", x, rows * image_size(in));
	vec_room("shortcut", "y", y,
		 rows * strided(in.height, stride) * strided(in.width, stride) * out);
}

void vec_shortcut(struct vec *y, const struct vec *x, struct image in, size_t stride, size_t out,
		  size_t rows)
{
	check_shortcut(y, x, in, stride, out, rows);
	y->dev->ops->shortcut(y->dev, y->data, x->data, in, stride, out, rows);
}

void vec_shortcut_grad(struct vec *dx, const struct vec *dy, struct image in, size_t stride,
		       size_t out, size_t rows)
{
	check_shortcut(dy, dx, in, stride, out, rows);
	dx->dev->ops->shortcut_grad(dx->dev, dx->data, dy->data, in, stride, out, rows);
}
