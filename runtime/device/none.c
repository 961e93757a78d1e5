/*
 * none.c - the device that has lengths and no floats: it lays out models whose parameters are only
 * counted, and carries simulations of time alone.
 *
 * Everything is done by not doing it, so that an operation costs its call. Losses are 0 over 0
 * rows.
 */
#include "runtime/device/device.h"

static const char *none_probe(struct device_facts *f)
{
	if (f)
		*f = (struct device_facts){.count = 1};
	return NULL;
}

static void none_open(struct device *d, int threads)
{
	(void)d, (void)threads;
}

static void none_close(struct device *d)
{
	(void)d;
}

static float *none_alloc(struct device *d, size_t n)
{
	(void)d, (void)n;
	return NULL;
}

static void none_free(struct device *d, float *p, size_t n)
{
	(void)d, (void)p, (void)n;
}

static void none_put(struct device *d, float *y, const float *host, size_t n)
{
	(void)d, (void)y, (void)host, (void)n;
}

/* There is nothing to read: the host sees zeros rather than what its buffer held. */
static void none_get(struct device *d, float *host, const float *x, size_t n)
{
	(void)d, (void)x;
	for (size_t i = 0; i < n; i++)
		host[i] = 0;
}

static void none_fill(struct device *d, float *y, float a, size_t n)
{
	(void)d, (void)y, (void)a, (void)n;
}

static void none_copy(struct device *d, float *y, const float *x, size_t n)
{
	(void)d, (void)y, (void)x, (void)n;
}

static void none_axpy(struct device *d, float *y, float a, const float *x, size_t n)
{
	(void)d, (void)y, (void)a, (void)x, (void)n;
}

static void none_columns(struct device *d, float *y, const float *x, size_t rows, size_t width,
			 size_t first, size_t n)
{
	(void)d, (void)y, (void)x, (void)rows, (void)width, (void)first, (void)n;
}

static void none_gemm(struct device *d, float *y, bool at, const float *a, bool bt, const float *b,
		      size_t m, size_t n, size_t k)
{
	(void)d, (void)y, (void)at, (void)a, (void)bt, (void)b, (void)m, (void)n, (void)k;
}

static void none_rows(struct device *d, float *y, const float *b, size_t rows, size_t n)
{
	(void)d, (void)y, (void)b, (void)rows, (void)n;
}

static void none_unary(struct device *d, float *y, size_t n)
{
	(void)d, (void)y, (void)n;
}

static void none_sgd(struct device *d, float *p, float *v, const float *g, float lr, float m,
		     float decay, float scale, size_t n)
{
	(void)d, (void)p, (void)v, (void)g, (void)lr, (void)m, (void)decay, (void)scale, (void)n;
}

static void none_gather(struct device *d, float *x, float *y, const struct data *data,
			const int32_t *index, size_t count, const struct transform *t)
{
	(void)d, (void)x, (void)y, (void)data, (void)index, (void)count, (void)t;
}

static void none_dropout(struct device *d, float *y, float p, uint64_t salt, size_t n)
{
	(void)d, (void)y, (void)p, (void)salt, (void)n;
}

static void none_shortcut(struct device *d, float *y, const float *x, struct image in,
			  size_t stride, size_t out, size_t rows)
{
	(void)d, (void)y, (void)x, (void)in, (void)stride, (void)out, (void)rows;
}

static void *none_new(struct device *d, const struct shape *s)
{
	(void)d, (void)s;
	return NULL;
}

static void none_free_one(struct device *d, void *one)
{
	(void)d, (void)one;
}

static void none_conv(struct device *d, void *conv, float *y, const float *x, const float *weight,
		      const float *bias, size_t rows)
{
	(void)d, (void)conv, (void)y, (void)x, (void)weight, (void)bias, (void)rows;
}

static void none_conv_weight(struct device *d, void *conv, float *dweight, float *dbias,
			     const float *x, const float *dy, size_t rows)
{
	(void)d, (void)conv, (void)dweight, (void)dbias, (void)x, (void)dy, (void)rows;
}

static void none_conv_data(struct device *d, void *conv, float *dx, const float *dy,
			   const float *weight, bool add, size_t rows)
{
	(void)d, (void)conv, (void)dx, (void)dy, (void)weight, (void)add, (void)rows;
}

static void none_pool(struct device *d, void *pool, float *y, const float *x, size_t rows)
{
	(void)d, (void)pool, (void)y, (void)x, (void)rows;
}

static void none_pool_backward(struct device *d, void *pool, float *dx, const float *dy,
			       const float *x, const float *y, size_t rows)
{
	(void)d, (void)pool, (void)dx, (void)dy, (void)x, (void)y, (void)rows;
}

static void none_norm(struct device *d, void *norm, float *y, const float *x, const float *add,
		      const float *scale, float *running, bool training, size_t rows)
{
	(void)d, (void)norm, (void)y, (void)x, (void)add, (void)scale, (void)running;
	(void)training, (void)rows;
}

static void none_norm_backward(struct device *d, void *norm, float *dx, float *dscale, float *dy,
			       const float *x, const float *y, const float *scale, size_t rows)
{
	(void)d, (void)norm, (void)dx, (void)dscale, (void)dy, (void)x, (void)y, (void)scale;
	(void)rows;
}

static void none_tally(struct device *d, struct tally *out)
{
	(void)d;
	*out = (struct tally){0};
}

const struct device_ops device_none = {
	.name = "none",
	.summary = "lengths only: computes and holds nothing",
	.probe = none_probe,
	.open = none_open,
	.close = none_close,
	.alloc = none_alloc,
	.free = none_free,
	.put = none_put,
	.get = none_get,
	.fill = none_fill,
	.copy = none_copy,
	.scale = none_fill,
	.axpy = none_axpy,
	.take_columns = none_columns,
	.put_columns = none_columns,
	.gemm = none_gemm,
	.add_bias = none_rows,
	.sum_rows = none_rows,
	.relu = none_unary,
	.relu_grad = none_copy,
	.tanh = none_unary,
	.tanh_grad = none_copy,
	.softmax_xent = none_rows,
	.mse = none_rows,
	.sgd = none_sgd,
	.gather = none_gather,
	.tally = none_tally,
	.dropout = none_dropout,
	.shortcut = none_shortcut,
	.shortcut_grad = none_shortcut,
	.conv_new = none_new,
	.conv_free = none_free_one,
	.conv_forward = none_conv,
	.conv_backward_weight = none_conv_weight,
	.conv_backward_data = none_conv_data,
	.pool_new = none_new,
	.pool_free = none_free_one,
	.pool_forward = none_pool,
	.pool_backward = none_pool_backward,
	.norm_new = none_new,
	.norm_free = none_free_one,
	.norm_forward = none_norm,
	.norm_backward = none_norm_backward,
};
