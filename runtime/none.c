/*
 * none.c - the device that has lengths and no floats: it lays out models whose parameters are only
 * counted, and carries simulations of time alone.
 *
 * Everything is done by not doing it, so that an operation costs its call. Losses are 0 over 0
 * rows.
 */
#include "platform.h"

static const char *none_probe(void)
{
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
			const int32_t *index, size_t count)
{
	(void)d, (void)x, (void)y, (void)data, (void)index, (void)count;
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
};
