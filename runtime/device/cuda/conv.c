/*
 * conv.c - convolutions on the GPU, through cuDNN, channels last.
 *
 * cuDNN has several algorithms for a convolution; choice.c chooses one at the first use of a shape.
 * The choice is not part of the graph, because a body runs once before it is captured.
 *
 * Matrix units need a multiple of four channels (tf32) or eight (bf16). For other numbers (an
 * image's 3 or 1) cuDNN gets padded copies, with channels of zeros. Layers are padded from the
 * start in tf32 and bf16, unless MVBENCH_CUDA_PAD=0; otherwise only if cuDNN has no convolution
 * without padding.
 *
 * In bf16, or padded, cuDNN also gets copies of weights. One launch makes the outdated copies of
 * all layers of a body. Another copies all their gradients back before an operation may read them.
 * With MVBENCH_CUDA_TOGETHER=0 each layer has its own launches.
 *
 * Cost, in passes over an activation: x is read and y written; a bias or a relu makes another pass
 * over y.
 */
#include "runtime/device/cuda/conv.h"

#include <cuda_runtime_api.h>
#include <limits.h>
#include <stdlib.h>

static bool aligned(const void *p)
{
	return (uintptr_t)p % 16 == 0;
}

static size_t weight_bytes(struct device *d, const struct cuda_conv *v)
{
	return conv_weights(v) * cuda_number(cuda_of(d));
}

static cudnnDataType_t type_of(struct device *d)
{
	return cuda_of(d)->bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
}

static void make_filter(struct device *d, struct cuda_conv *v)
{
	const int size = (int)v->s.window.size;
	TRY_DNN(d, cudnnCreateFilterDescriptor(&v->filter));
	TRY_DNN(d,
		cudnnSetFilter4dDescriptor(v->filter, type_of(d), CUDNN_TENSOR_NHWC,
					   (int)v->out.channels, (int)v->in.channels, size, size));
}

static size_t padded_bytes(struct device *d, const struct cuda_conv *v, struct image m)
{
	return v->s.rows_max * image_size(m) * cuda_number(cuda_of(d));
}

static void pad(struct device *d, struct cuda_conv *v)
{
	const struct cuda *c = cuda_of(d);
	v->in.channels = conv_padded(c, v->in.channels);
	v->out.channels = conv_padded(c, v->out.channels);
	if (v->in.channels != v->s.in.channels)
		v->padded_x = cuda_take(d, padded_bytes(d, v, v->in));
	if (v->out.channels != v->s.out.channels)
		v->padded_y = cuda_take(d, padded_bytes(d, v, v->out));
}

void *cuda_conv_new(struct device *d, const struct shape *s)
{
	struct cuda *c = cuda_of(d);
	struct cuda_conv *v = must(calloc(1, sizeof *v));
	*v = (struct cuda_conv){.s = *s, .in = s->in, .out = s->out, .next = c->conv};
	c->conv = v;
	c->convs++;
	if (!conv_exact(c) && !c->unpadded)
		pad(d, v);
	CHECK(image_size(v->in) <= INT_MAX && image_size(v->out) <= INT_MAX &&
		      conv_weights(v) <= INT_MAX && s->rows_max <= INT_MAX,
	      "a convolution of %zu rows of %zu to %zu floats", s->rows_max, image_size(v->in),
	      image_size(v->out));
	make_filter(d, v);
	return v;
}

/* Frees everything that depends on the padding. */
static void unprepare(struct device *d, struct cuda_conv *v)
{
	cuda_sync(d);
	for (size_t i = 0; i < v->plans; i++) {
		TRY_DNN(d, cudnnDestroyTensorDescriptor(v->plan[i].x));
		TRY_DNN(d, cudnnDestroyTensorDescriptor(v->plan[i].y));
		TRY_DNN(d, cudnnDestroyConvolutionDescriptor(v->plan[i].window));
	}
	TRY_DNN(d, cudnnDestroyFilterDescriptor(v->filter));
	cuda_retire(d, v->weight, weight_bytes(d, v));
	cuda_retire(d, v->dweight, weight_bytes(d, v));
	free(v->plan);
	v->plan = NULL;
	v->plans = 0;
	v->weight = v->dweight = NULL;
	v->weight_of = NULL;
}

void cuda_conv_free(struct device *d, void *conv)
{
	struct cuda_conv *v = conv, **at = &cuda_of(d)->conv;
	while (*at != v)
		at = &(*at)->next;
	*at = v->next;
	cuda_of(d)->convs--;
	unprepare(d, v);
	cuda_give(d, v->padded_x, padded_bytes(d, v, v->in));
	cuda_give(d, v->padded_y, padded_bytes(d, v, v->out));
	free(v);
}

/* For a shape that cuDNN supports only with padding. */
static void turn_to_padded(struct device *d, struct cuda_conv *v)
{
	if (v->dweight_to) {
		cuda_join(d);
		cuda_conv_settle(d);
	}
	unprepare(d, v);
	pad(d, v);
	make_filter(d, v);
	cuda_of(d)->switched = true;
}

/* Copies images to images with another number of channels. */
static void move_images(struct device *d, void *y, struct image to, const void *x,
			struct image from, size_t rows)
{
	const unsigned pixels = (unsigned)(rows * from.height * from.width);
	const bool bf16 = cuda_of(d)->bf16;
	const struct cuda_piece all = {
		x, y, pixels, (unsigned)from.channels, pixels, (unsigned)to.channels};
	cuda_move(d, &all, 1, bf16, bf16);
}

/* x for cuDNN: x itself, or a padded copy. */
static const void *given(struct device *d, void *padded, struct image to, const float *x,
			 struct image from, size_t rows)
{
	if (!padded)
		return x;
	move_images(d, padded, to, x, from, rows);
	return padded;
}

static const void *given_x(struct device *d, const struct cuda_conv *v, const float *x, size_t rows)
{
	return given(d, v->padded_x, v->in, x, v->s.in, rows);
}

static const void *given_y(struct device *d, const struct cuda_conv *v, const float *y, size_t rows)
{
	return given(d, v->padded_y, v->out, y, v->s.out, rows);
}

static cudnnTensorDescriptor_t tensor_of(struct device *d, struct image m, size_t rows)
{
	cudnnTensorDescriptor_t t;
	TRY_DNN(d, cudnnCreateTensorDescriptor(&t));
	TRY_DNN(d, cudnnSetTensor4dDescriptor(t, CUDNN_TENSOR_NHWC, type_of(d), (int)rows,
					      (int)m.channels, (int)m.height, (int)m.width));
	return t;
}

static struct conv_plan *plan_of(struct device *d, struct cuda_conv *v, size_t rows)
{
	for (size_t i = 0; i < v->plans; i++)
		if (v->plan[i].rows == rows)
			return &v->plan[i];
	v->plan = must(realloc(v->plan, (v->plans + 1) * sizeof *v->plan));
	struct conv_plan *p = &v->plan[v->plans++];
	const int pad = (int)v->s.window.pad, stride = (int)v->s.window.stride;

	*p = (struct conv_plan){
		.rows = rows, .x = tensor_of(d, v->in, rows), .y = tensor_of(d, v->out, rows)};
	TRY_DNN(d, cudnnCreateConvolutionDescriptor(&p->window));
	TRY_DNN(d, cudnnSetConvolution2dDescriptor(p->window, pad, pad, stride, stride, 1, 1,
						   CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
	return p;
}

cudnnStatus_t conv_run(struct device *d, const struct cuda_conv *v, const struct conv_plan *p,
		       enum direction k, const struct conv_choice *how, const void *a,
		       const void *b, float beta, void *work, void *out)
{
	cudnnHandle_t dnn = cuda_of(d)->dnn;
	const float one = 1;
	if (how->algorithm == CONV_OWN) {
		cuda_weight_gradient(d, out, a, b, v->in, v->out, v->s.window, p->rows, work);
		return CUDNN_STATUS_SUCCESS;
	}
	cudnnStatus_t status = cudnnSetConvolutionMathType(p->window, how->math);
#define CONVOLVE(name, text, Word, Short, a_shape, b_shape, out_shape) \
	if (status == CUDNN_STATUS_SUCCESS && k == name) \
		status = cudnnConvolution##Word(dnn, &one, a_shape, a, b_shape, b, p->window, \
						(cudnnConvolution##Short##Algo_t)how->algorithm, \
						work, how->bytes, &beta, out_shape, out);
	DIRECTION_LIST(CONVOLVE)
	return status;
}

/* out = the convolution of a and b + beta out; a, b: the direction's inputs. False: cuDNN does not
 * support it; from now on it is padded. */
static bool convolve(struct device *d, struct cuda_conv *v, struct conv_plan *p, enum direction k,
		     const void *a, const void *b, float beta, void *out)
{
	CHECK(aligned(a) && aligned(b) && aligned(out),
	      "a convolution's memory is not on a 16-byte boundary");
	const struct conv_choice *how = conv_choice_of(d, v, p, k, a, b);

	if (how->algorithm < 0) {
		turn_to_padded(d, v);
		return false;
	}
	TRY_DNN(d, conv_run(d, v, p, k, how, a, b, beta, cuda_workspace(d, how->bytes), out));
	return true;
}

static size_t pixels_of(const struct cuda_conv *v, size_t rows)
{
	return rows * v->s.out.height * v->s.out.width;
}

/* ---- Weights --------------------------------------------------------------- */

static bool is_direct(struct device *d, const struct cuda_conv *v, const float *weight)
{
	return !cuda_of(d)->bf16 && !v->padded_x && !v->padded_y && aligned(weight);
}

/* The copy of the weights; back: the copy of their gradient to the parameters' gradient. */
static struct cuda_piece piece_of(const struct cuda_conv *v, bool back)
{
	const size_t window = v->s.window.size * v->s.window.size;
	const unsigned rows = (unsigned)(v->s.out.channels * window),
		       columns = (unsigned)v->s.in.channels,
		       padded_rows = (unsigned)(v->out.channels * window),
		       padded_columns = (unsigned)v->in.channels;
	if (back)
		return (struct cuda_piece){v->dweight,     v->dweight_to, padded_rows,
					   padded_columns, rows,          columns};
	return (struct cuda_piece){v->weight_of, v->weight,   rows,
				   columns,      padded_rows, padded_columns};
}

/* Copies the weights of this layer, and of all others whose copies are outdated: in a body only
 * those of this body, because others may be freed when its graph is launched again. */
static void copy_weights(struct device *d, struct cuda_conv *v)
{
	struct cuda *c = cuda_of(d);
	struct cuda_piece piece[c->convs];
	size_t n = 0;
	for (struct cuda_conv *o = c->conv; o; o = o->next) {
		const bool too = !c->alone && o->weight_of && o->weight_at != c->written &&
				 (!d->in_graph || o->body == c->body);
		if (o != v && !too)
			continue;
		o->weight_at = c->written;
		piece[n++] = piece_of(o, false);
	}
	cuda_move(d, piece, n, false, c->bf16);
}

/* The weights in cuDNN's form. */
static const void *conv_weights_of(struct device *d, struct cuda_conv *v, const float *weight)
{
	const struct cuda *c = cuda_of(d);
	if (is_direct(d, v, weight))
		return weight;
	if (!v->weight)
		v->weight = cuda_take(d, weight_bytes(d, v));
	if (d->in_graph)
		v->body = c->body;
	if (v->weight_of != weight || v->weight_at != c->written) {
		v->weight_of = weight;
		copy_weights(d, v);
	}
	return v->weight;
}

void cuda_conv_settle(struct device *d)
{
	struct cuda *c = cuda_of(d);
	struct cuda_piece piece[c->convs + 1];
	size_t n = 0;
	if (!c->unsettled)
		return;
	for (struct cuda_conv *o = c->conv; o; o = o->next)
		if (o->dweight_to) {
			piece[n++] = piece_of(o, true);
			o->dweight_to = NULL;
		}
	cuda_move(d, piece, n, c->bf16, false);
	c->unsettled = false;
}

void cuda_conv_forget(struct device *d, const float *p, size_t n)
{
	for (struct cuda_conv *v = cuda_of(d)->conv; v; v = v->next)
		if (v->weight_of >= p && v->weight_of < p + n)
			v->weight_of = NULL;
}

/* ---- The three directions -------------------------------------------------- */

void cuda_conv_forward(struct device *d, void *conv, float *y, const float *x, const float *weight,
		       const float *bias, size_t rows)
{
	struct cuda_conv *v = conv;
	const size_t pixels = pixels_of(v, rows), n = v->s.out.channels;
	const void *w = conv_weights_of(d, v, weight), *in = given_x(d, v, x, rows);
	void *out = v->padded_y ? v->padded_y : y;
	if (!convolve(d, v, plan_of(d, v, rows), FORWARD, in, w, 0, out)) {
		cuda_conv_forward(d, conv, y, x, weight, bias, rows);
		return;
	}
	if (v->padded_y)
		move_images(d, y, v->s.out, out, v->out, rows);
	if (v->s.bias)
		cuda_bias(d, y, bias, v->s.relu, pixels, n);
	else if (v->s.relu)
		cuda_relu(d, y, y, pixels * n);
}

/* False: cuDNN does not support it; from now on it is padded. */
static bool weight_gradient(struct device *d, struct cuda_conv *v, float *dweight, const float *x,
			    const float *dy, size_t rows)
{
	struct cuda *c = cuda_of(d);
	const bool direct = is_direct(d, v, dweight);
	const void *in = given_x(d, v, x, rows), *grad = given_y(d, v, dy, rows);
	if (!direct && !v->dweight)
		v->dweight = cuda_take(d, weight_bytes(d, v));
	if (!convolve(d, v, plan_of(d, v, rows), BACKWARD_WEIGHT, in, grad, 0,
		      direct ? dweight : v->dweight))
		return false;
	if (direct)
		return true;
	v->dweight_to = dweight;
	c->unsettled = true;
	if (c->alone || !d->in_graph)
		cuda_conv_settle(d);
	return true;
}

/* On the branch, unless it uses padded copies, which the chain uses too. */
void cuda_conv_backward_weight(struct device *d, void *conv, float *dweight, float *dbias,
			       const float *x, const float *dy, size_t rows)
{
	struct cuda_conv *v = conv;
	const size_t pixels = pixels_of(v, rows), n = v->s.out.channels;
	if (v->dweight_to) {
		cuda_join(d);
		cuda_conv_settle(d);
	}
	const bool in_branch = !v->padded_x && !v->padded_y && cuda_branch_enter(d),
		   done = weight_gradient(d, v, dweight, x, dy, rows);
	if (in_branch)
		cuda_branch_leave(d, x, rows * image_size(v->s.in) * sizeof *x, dy,
				  pixels * n * sizeof *dy);
	if (!done) {
		cuda_join(d);
		weight_gradient(d, v, dweight, x, dy, rows);
	}
	if (v->s.bias)
		cuda_sum_rows(d, dbias, dy, pixels, n);
}

void cuda_conv_backward_data(struct device *d, void *conv, float *dx, const float *dy,
			     const float *weight, bool add, size_t rows)
{
	struct cuda_conv *v = conv;
	const void *w = conv_weights_of(d, v, weight), *grad = given_y(d, v, dy, rows);
	void *out = v->padded_x ? v->padded_x : dx;
	cuda_join_before(d, dx, rows * image_size(v->s.in) * sizeof *dx);
	if (add)
		given_x(d, v, dx, rows);
	if (!convolve(d, v, plan_of(d, v, rows), BACKWARD_DATA, w, grad, add, out)) {
		cuda_conv_backward_data(d, conv, dx, dy, weight, add, rows);
		return;
	}
	if (v->padded_x)
		move_images(d, dx, v->s.in, out, v->in, rows);
}
