/*
 * linear.c - linear layers that are split over the workers, and the layers between them.
 *
 * Split by outputs (initial), worker k holds rows w_k of w: y_k = x w_k^T + b_k, and
 * dx = sum_k dy_k w_k. Split by inputs (base), it holds columns w_k: y = sum_k x_k w_k^T + b, and
 * dx_k = dy w_k. Both: dw_k = dy^T x, db = the sum of dy over the rows, of what this worker has of
 * them. An initial layer, tanh and a base layer need one reduction of rows x outputs floats in the
 * forward pass, and one of rows x inputs in the backward pass if dx is needed.
 */
#include "runtime/lib/library.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_linear(const struct mvb_linear *l)
{
	return l->form == MVB_INITIAL_LINEAR || l->form == MVB_BASE_LINEAR;
}

/* l is checked. */
static struct mvb_linear_part layer_part(const struct mvb_linear *l)
{
	bool initial = l->form == MVB_INITIAL_LINEAR;
	size_t n = initial ? l->outputs : l->inputs, id = (size_t)lib.rank,
	       workers = (size_t)lib.workers;
	struct mvb_linear_part p = {.first = part_of(n, workers, id)};
	p.held = part_of(n, workers, id + 1) - p.first;
	bool whole_in = l->form != MVB_BASE_LINEAR && l->form != MVB_TANH,
	     whole_out = l->form == MVB_BASE_LINEAR || l->form == MVB_INITIAL_RESHAPE;
	p.inputs = whole_in ? l->inputs : p.held;
	p.outputs = whole_out ? l->outputs : p.held;
	if (is_linear(l)) {
		p.w = p.outputs * p.inputs;
		p.b = l->b ? p.outputs : 0;
	}
	return p;
}

/* Sets the part of this worker. */
static int check_layer(const char *function, const struct mvb_linear *l, size_t rows,
		       struct mvb_linear_part *part)
{
	TRY(lib_ready(function));
	if (!l)
		return lib_fail(MVB_ERR_ARGUMENT, "%s: NULL is no layer", function);
	if (l->form < MVB_INITIAL_RESHAPE || l->form > MVB_TANH)
		return lib_fail(MVB_ERR_ARGUMENT, "%s: form %d is none of enum mvb_form", function,
				(int)l->form);
	if (!l->inputs || !l->outputs || (!is_linear(l) && l->inputs != l->outputs))
		return lib_fail(MVB_ERR_ARGUMENT, "%s: a layer of %zu inputs and %zu outputs",
				function, l->inputs, l->outputs);
	size_t most = SIZE_MAX / sizeof(float) / 4;
	if (l->inputs > most / l->outputs || rows > most / (l->inputs + l->outputs))
		return lib_fail(MVB_ERR_ARGUMENT, "%s: %zu rows of %zu inputs and %zu outputs",
				function, rows, l->inputs, l->outputs);
	*part = layer_part(l);
	return MVB_OK;
}

static int collective(enum function function, int code, const struct mvb_linear *l, size_t rows)
{
	struct call call = {.function = function, .code = code};
	if (!code)
		call = (struct call){.function = function,
				     .arg = {l->form, (double)l->inputs, (double)l->outputs,
					     l->b != NULL, (double)rows}};
	return lib_collective(call);
}

int mvb_linear_part(const struct mvb_linear *l, struct mvb_linear_part *part)
{
	struct mvb_linear_part p = {0};
	TRY(check_layer(__func__, l, 0, &p));
	if (!part)
		return lib_fail(MVB_ERR_ARGUMENT, "%s: NULL where the part should go", __func__);
	*part = p;
	return MVB_OK;
}

/* ---- Forward and backward ----------------------------------------------------------------- */

static BEST_OF_CPU float dot(const float *a, const float *b, size_t n)
{
	float sum = 0;
#pragma omp simd reduction(+ : sum)
	for (size_t i = 0; i < n; i++)
		sum += a[i] * b[i];
	return sum;
}

/* y += a x */
static BEST_OF_CPU void axpy(float *restrict y, float a, const float *restrict x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		y[i] += a * x[i];
}

/* Columns first .. first + held - 1 of a matrix of n columns. */
struct block {
	size_t first, held, n, rows;
};

static void take(struct block b, float *own, const float *whole)
{
	for (size_t r = 0; b.held && r < b.rows; r++)
		memcpy(own + r * b.held, whole + r * b.n + b.first, b.held * sizeof *own);
}

static void put(struct block b, const float *own, float *whole)
{
	for (size_t r = 0; b.held && r < b.rows; r++)
		memcpy(whole + r * b.n + b.first, own + r * b.held, b.held * sizeof *own);
}

int mvb_linear_forward(const struct mvb_linear *l, const float *x, size_t rows, float *y)
{
	struct mvb_linear_part p = {0};
	int code = check_layer(__func__, l, rows, &p);
	bool together = code != MVB_ERR_STATE && l && l->form == MVB_BASE_LINEAR;
	code = code ? code : lib_check_floats(__func__, "x", x, rows * p.inputs);
	code = code ? code : lib_check_floats(__func__, "y", y, rows * p.outputs);
	code = code ? code : lib_check_floats(__func__, "w", l->w, p.w);
	TRY(together ? collective(LINEAR_FORWARD, code, l, rows) : code);
	if (l->form == MVB_INITIAL_RESHAPE && rows)
		memmove(y, x, rows * p.inputs * sizeof *y);
	else if (l->form == MVB_BASE_RESHAPE)
		take((struct block){p.first, p.held, l->inputs, rows}, y, x);
	else if (l->form == MVB_TANH)
		for (size_t i = 0; i < rows * p.inputs; i++)
			y[i] = tanhf(x[i]);
	if (!is_linear(l))
		return MVB_OK;
	for (size_t r = 0; r < rows; r++)
		for (size_t o = 0; o < p.outputs; o++)
			y[r * p.outputs + o] = dot(x + r * p.inputs, l->w + o * p.inputs, p.inputs);
	if (together)
		lib_sum(y, rows * p.outputs);
	for (size_t r = 0; l->b && r < rows; r++)
		axpy(y + r * p.outputs, 1, l->b, p.outputs);
	return MVB_OK;
}

static void parameter_gradients(const struct mvb_linear *l, const struct mvb_linear_part *p,
				const float *x, const float *dy, size_t rows)
{
	if (p->w)
		memset(l->dw, 0, p->w * sizeof *l->dw);
	if (p->b)
		memset(l->db, 0, p->b * sizeof *l->db);
	for (size_t r = 0; r < rows; r++, dy += p->outputs) {
		for (size_t o = 0; o < p->outputs; o++)
			axpy(l->dw + o * p->inputs, dy[o], x + r * p->inputs, p->inputs);
		if (p->b)
			axpy(l->db, 1, dy, p->b);
	}
}

static void input_gradient(const struct mvb_linear *l, const struct mvb_linear_part *p,
			   const float *x, const float *dy, size_t rows, float *dx)
{
	size_t n = rows * p->inputs;
	if (l->form == MVB_INITIAL_RESHAPE && n)
		memmove(dx, dy, n * sizeof *dx);
	if (l->form == MVB_TANH)
		for (size_t i = 0; i < n; i++)
			dx[i] = dy[i] * (1 - tanhf(x[i]) * tanhf(x[i]));
	if (l->form == MVB_INITIAL_RESHAPE || l->form == MVB_TANH || n == 0)
		return;
	memset(dx, 0, n * sizeof *dx);
	if (l->form == MVB_BASE_RESHAPE)
		put((struct block){p->first, p->held, l->inputs, rows}, dy, dx);
	for (size_t r = 0; is_linear(l) && r < rows; r++)
		for (size_t o = 0; o < p->outputs; o++)
			axpy(dx + r * p->inputs, dy[r * p->outputs + o], l->w + o * p->inputs,
			     p->inputs);
	if (l->form != MVB_BASE_LINEAR)
		lib_sum(dx, n);
}

int mvb_linear_backward(const struct mvb_linear *l, const float *x, const float *dy, size_t rows,
			float *dx)
{
	struct mvb_linear_part p = {0};
	int code = check_layer(__func__, l, rows, &p);
	bool together = code != MVB_ERR_STATE && l && dx &&
			(l->form == MVB_INITIAL_LINEAR || l->form == MVB_BASE_RESHAPE);
	code = code ? code : lib_check_floats(__func__, "x", x, rows * p.inputs);
	code = code ? code : lib_check_floats(__func__, "dy", dy, rows * p.outputs);
	code = code ? code : lib_check_floats(__func__, "w", l->w, p.w);
	code = code ? code : lib_check_floats(__func__, "dw", l->dw, p.w);
	code = code ? code : lib_check_floats(__func__, "db", l->db, p.b);
	TRY(together ? collective(LINEAR_BACKWARD, code, l, rows) : code);
	if (is_linear(l))
		parameter_gradients(l, &p, x, dy, rows);
	if (dx)
		input_gradient(l, &p, x, dy, rows, dx);
	return MVB_OK;
}

/* ---- Saving and loading ------------------------------------------------------------------- */

/* Where the own w and b are in the whole layer's; whole rows are columns of one long row. */
static struct block block_of_w(const struct mvb_linear *l)
{
	struct mvb_linear_part p = layer_part(l);
	if (l->form == MVB_BASE_LINEAR)
		return (struct block){p.first, p.held, l->inputs, l->outputs};
	return (struct block){p.first * l->inputs, p.held * l->inputs, 0, 1};
}

static struct block block_of_b(const struct mvb_linear *l)
{
	struct mvb_linear_part p = layer_part(l);
	return (struct block){l->form == MVB_BASE_LINEAR ? 0 : p.first, p.b, 0, 1};
}

static int check_whole(const char *function, const struct mvb_linear *l, const float *w,
		       const float *b)
{
	struct mvb_linear_part p = {0};
	TRY(check_layer(function, l, 0, &p));
	if (!is_linear(l))
		return lib_fail(MVB_ERR_ARGUMENT, "%s: this form has no parameters", function);
	TRY(lib_check_floats(function, "the layer's w", l->w, p.w));
	TRY(lib_check_floats(function, "w", w, l->inputs * l->outputs));
	return l->b ? lib_check_floats(function, "b", b, l->outputs) : MVB_OK;
}

int mvb_linear_gather(const struct mvb_linear *l, float *w, float *b)
{
	TRY(lib_ready(__func__));
	int code = check_whole(__func__, l, w, b);
	TRY(collective(LINEAR_GATHER, code, l, 0));
	memset(w, 0, l->inputs * l->outputs * sizeof *w);
	put(block_of_w(l), l->w, w);
	lib_sum(w, l->inputs * l->outputs);
	if (!l->b)
		return MVB_OK;
	memset(b, 0, l->outputs * sizeof *b);
	put(block_of_b(l), l->b, b);
	if (l->form == MVB_INITIAL_LINEAR) /* otherwise each worker has all of it */
		lib_sum(b, l->outputs);
	return MVB_OK;
}

int mvb_linear_scatter(const struct mvb_linear *l, const float *w, const float *b)
{
	TRY(check_whole(__func__, l, w, b));
	take(block_of_w(l), l->w, w);
	if (l->b)
		take(block_of_b(l), l->b, b);
	return MVB_OK;
}
