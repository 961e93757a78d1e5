/*
 * conv.c - convolutions on the GPU, through cuDNN, channels last.
 *
 * cuDNN has several algorithms for a convolution. When a shape comes first, all are tried on the
 * data at hand, and the fastest that always gives the same sum is taken; all layers of that shape
 * on this device then use it. That is not part of the graph: the body runs once before. Where there
 * is none for bf16 (few channels), that layer works in floats on copies of its activations.
 *
 * Cost, in passes over an activation: x is read and y written, and once more over y where there is
 * a bias or a relu. In bf16 each weight is rounded to a copy by the forward pass, which the
 * backward pass after it uses too.
 */
#include "runtime/device/cuda/cuda.h"

#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <limits.h>
#include <stdlib.h>

/* ---- Convolution --------------------------------------------------------- */

enum direction { FORWARD, BACKWARD_DATA, BACKWARD_WEIGHT, DIRECTIONS };
static const char *const direction_names[] = {"forward", "backward data", "backward weight"};

enum { ALGORITHMS = 16 };

struct problem { /* numbers of one type, so that equal ones are equal bytes */
	struct image in, out;
	struct window window;
	size_t rows, direction, floats;
};

struct conv_choice {
	struct problem problem;
	int algorithm; /* -1: there is none */
	cudnnMathType_t math;
	size_t bytes; /* of workspace */
};

struct conv_plan { /* of a number of rows */
	size_t rows;
	cudnnTensorDescriptor_t x, y;
	cudnnConvolutionDescriptor_t window[DIRECTIONS];
	struct conv_choice choice[DIRECTIONS]; /* of 0 rows: not made yet */
};

struct cuda_conv {
	struct shape s;
	bool floats; /* in bf16: cuDNN has no such convolution, and is given floats */
	float *wide_x, *wide_y;
	cudnnFilterDescriptor_t filter;
	struct conv_plan *plan;
	size_t plans;
	/* Weights and their gradient as cuDNN wants them: bf16, or where the parameters' own are
	 * not on a 16-byte boundary. NULL until needed. */
	void *weight, *dweight;
	const float *weight_of; /* whose copy is in weight since the last forward pass */
};

static bool aligned(const void *p)
{
	return (uintptr_t)p % 16 == 0;
}

static size_t weights_of(const struct shape *s)
{
	return s->out.channels * s->window.size * s->window.size * s->in.channels;
}

/* Is cuDNN given bf16? */
static bool bf16(const struct cuda *c, const struct cuda_conv *v)
{
	return c->bf16 && !v->floats;
}

static size_t number_bytes(const struct cuda *c, const struct cuda_conv *v)
{
	return bf16(c, v) ? sizeof(uint16_t) : sizeof(float);
}

static size_t weight_bytes(struct device *d, const struct cuda_conv *v)
{
	return weights_of(&v->s) * number_bytes(cuda_of(d), v);
}

static cudnnDataType_t type_of(const struct cuda *c, const struct cuda_conv *v)
{
	return bf16(c, v) ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
}

static bool exact(const struct cuda *c)
{
	return !c->bf16 && !c->tf32;
}

static cudnnMathType_t math_of(const struct cuda *c, const struct cuda_conv *v)
{
	return bf16(c, v) ? CUDNN_TENSOR_OP_MATH
	       : exact(c) ? CUDNN_FMA_MATH
			  : CUDNN_DEFAULT_MATH; /* which is tf32 for floats */
}

static void make_filter(struct device *d, struct cuda_conv *v)
{
	const struct shape *s = &v->s;
	TRY_DNN(d, cudnnCreateFilterDescriptor(&v->filter));
	TRY_DNN(d, cudnnSetFilter4dDescriptor(v->filter, type_of(cuda_of(d), v), CUDNN_TENSOR_NHWC,
					      (int)s->out.channels, (int)s->in.channels,
					      (int)s->window.size, (int)s->window.size));
}

void *cuda_conv_new(struct device *d, const struct shape *s)
{
	struct cuda_conv *v = must(calloc(1, sizeof *v));
	v->s = *s;
	CHECK(image_size(s->in) <= INT_MAX && image_size(s->out) <= INT_MAX &&
		      weights_of(s) <= INT_MAX && s->rows_max <= INT_MAX,
	      "a convolution of %zu rows of %zu to %zu floats", s->rows_max, image_size(s->in),
	      image_size(s->out));
	make_filter(d, v);
	return v;
}

/* All that depends on what cuDNN is given. */
static void unprepare(struct device *d, struct cuda_conv *v)
{
	cuda_sync(d);
	for (size_t i = 0; i < v->plans; i++) {
		TRY_DNN(d, cudnnDestroyTensorDescriptor(v->plan[i].x));
		TRY_DNN(d, cudnnDestroyTensorDescriptor(v->plan[i].y));
		for (int k = 0; k < DIRECTIONS; k++)
			TRY_DNN(d, cudnnDestroyConvolutionDescriptor(v->plan[i].window[k]));
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

static size_t wide_bytes(const struct cuda_conv *v, struct image m)
{
	return v->s.rows_max * image_size(m) * sizeof(float);
}

void cuda_conv_free(struct device *d, void *conv)
{
	struct cuda_conv *v = conv;
	unprepare(d, v);
	cuda_give(d, v->wide_x, wide_bytes(v, v->s.in));
	cuda_give(d, v->wide_y, wide_bytes(v, v->s.out));
	free(v);
}

static void use_floats(struct device *d, struct cuda_conv *v)
{
	unprepare(d, v);
	v->floats = true;
	cuda_of(d)->switched = true;
	v->wide_x = cuda_take(d, wide_bytes(v, v->s.in));
	v->wide_y = cuda_take(d, wide_bytes(v, v->s.out));
	make_filter(d, v);
}

/* What cuDNN is given of an activation: itself, or a copy in floats. */
static const void *given(struct device *d, const struct cuda_conv *v, float *wide, const float *x,
			 size_t n)
{
	if (!v->floats)
		return x;
	cuda_from_bf16(d, wide, x, n);
	return wide;
}

/* And after it has written the copy: */
static void taken(struct device *d, const struct cuda_conv *v, float *y, const float *wide,
		  size_t n)
{
	if (v->floats)
		cuda_to_bf16(d, y, wide, n);
}

static cudnnTensorDescriptor_t tensor_of(struct device *d, const struct cuda_conv *v,
					 struct image m, size_t rows)
{
	cudnnTensorDescriptor_t t;
	TRY_DNN(d, cudnnCreateTensorDescriptor(&t));
	TRY_DNN(d,
		cudnnSetTensor4dDescriptor(t, CUDNN_TENSOR_NHWC, type_of(cuda_of(d), v), (int)rows,
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

	*p = (struct conv_plan){.rows = rows,
				.x = tensor_of(d, v, v->s.in, rows),
				.y = tensor_of(d, v, v->s.out, rows)};
	for (int k = 0; k < DIRECTIONS; k++) {
		TRY_DNN(d, cudnnCreateConvolutionDescriptor(&p->window[k]));
		TRY_DNN(d, cudnnSetConvolution2dDescriptor(p->window[k], pad, pad, stride, stride,
							   1, 1, CUDNN_CROSS_CORRELATION,
							   CUDNN_DATA_FLOAT));
		TRY_DNN(d, cudnnSetConvolutionMathType(p->window[k], math_of(cuda_of(d), v)));
	}
	return p;
}

/* What cuDNN found out about an algorithm: its three types of it say the same. */
struct found {
	int algorithm;
	cudnnStatus_t status;
	size_t bytes;
	bool steady; /* always the same sum */
	cudnnMathType_t math;
};

#define TAKE_FOUND(to, from, n) \
	for (int i_ = 0; i_ < (n); i_++) \
		(to)[i_] = (struct found) \
		{ \
			.algorithm = (int)(from)[i_].algo, .status = (from)[i_].status, \
			.bytes = (from)[i_].memory, \
			.steady = (from)[i_].determinism == CUDNN_DETERMINISTIC, \
			.math = (from)[i_].mathType \
		}

/* Tries all algorithms, on copies of what they would write. Returns how many there are, the fastest
 * first. */
static int try_all(struct device *d, struct cuda_conv *v, struct conv_plan *p, enum direction k,
		   const void *a, const void *b, void *out, void *work, size_t bytes,
		   struct found *found)
{
	cudnnHandle_t dnn = cuda_of(d)->dnn;
	cudnnStatus_t status;
	int n = 0;
	if (k == FORWARD) {
		cudnnConvolutionFwdAlgoPerf_t all[ALGORITHMS];
		status = cudnnFindConvolutionForwardAlgorithmEx(dnn, p->x, a, v->filter, b,
								p->window[k], p->y, out, ALGORITHMS,
								&n, all, work, bytes);
		TAKE_FOUND(found, all, n);
	} else if (k == BACKWARD_DATA) {
		cudnnConvolutionBwdDataAlgoPerf_t all[ALGORITHMS];
		status = cudnnFindConvolutionBackwardDataAlgorithmEx(
			dnn, v->filter, b, p->y, a, p->window[k], p->x, out, ALGORITHMS, &n, all,
			work, bytes);
		TAKE_FOUND(found, all, n);
	} else {
		cudnnConvolutionBwdFilterAlgoPerf_t all[ALGORITHMS];
		status = cudnnFindConvolutionBackwardFilterAlgorithmEx(
			dnn, p->x, a, p->y, b, p->window[k], v->filter, out, ALGORITHMS, &n, all,
			work, bytes);
		TAKE_FOUND(found, all, n);
	}
	if (status == CUDNN_STATUS_SUCCESS)
		return n;
	if (bf16(cuda_of(d), v))
		return 0; /* it can be had in floats */
	cuda_failed(d, __FILE__, __LINE__, "cudnnFindConvolution...Ex",
		    cudnnGetErrorString(status));
}

/* As much as there is for trying, down to nothing. */
static void *trial_memory(size_t *bytes)
{
	void *p = NULL;
	while (*bytes && cudaMalloc(&p, *bytes) != cudaSuccess) {
		cudaGetLastError();
		*bytes /= 2;
	}
	return p;
}

static struct conv_choice choose(struct device *d, struct cuda_conv *v, struct conv_plan *p,
				 enum direction k, const void *a, const void *b)
{
	struct cuda *c = cuda_of(d);
	struct found found[ALGORITHMS];
	size_t bytes = CONV_WORKSPACE, numbers = k == FORWARD ? p->rows * image_size(v->s.out)
						 : k == BACKWARD_DATA
							 ? p->rows * image_size(v->s.in)
							 : weights_of(&v->s);
	CHECK(!c->capturing, "a convolution meets %zu rows first while a graph is captured",
	      p->rows);
	numbers *= number_bytes(c, v);
	void *out = cuda_take(d, numbers), *work = trial_memory(&bytes);
	int n = try_all(d, v, p, k, a, b, out, work, bytes, found), best = -1;

	cuda_sync(d);
	cuda_give(d, out, numbers);
	TRY_CUDA(d, cudaFree(work));
	for (int i = n; i-- > 0;) {
		const bool rounds = exact(c) && found[i].math != CUDNN_FMA_MATH &&
				    found[i].math != CUDNN_DEFAULT_MATH;
		if (found[i].status != CUDNN_STATUS_SUCCESS || found[i].bytes > bytes || rounds)
			continue;
		if (best < 0 || found[i].steady || !found[best].steady)
			best = i;
	}
	if (best < 0 && !bf16(c, v))
		failure("cuDNN has no %s convolution in %s on GPU %d (%s) for %zu rows of %zu x "
			"%zu x %zu with %zu windows of %zu x %zu: try another --precision",
			direction_names[k], d->precision, c->gpu, c->model, p->rows, v->s.in.height,
			v->s.in.width, v->s.in.channels, v->s.out.channels, v->s.window.size,
			v->s.window.size);
	return (struct conv_choice){.algorithm = best < 0 ? -1 : found[best].algorithm,
				    .math = best < 0 || exact(c) ? math_of(c, v) : found[best].math,
				    .bytes = best < 0 ? 0 : found[best].bytes};
}

/* The algorithm for this direction. a, b: what it reads. */
static const struct conv_choice *choice_of(struct device *d, struct cuda_conv *v,
					   struct conv_plan *p, enum direction k, const void *a,
					   const void *b)
{
	const struct problem problem = {v->s.in, v->s.out, v->s.window, p->rows, k, v->floats};
	struct cuda *c = cuda_of(d);
	struct conv_choice *mine = &p->choice[k];
	for (size_t i = 0; mine->problem.rows == 0 && i < c->choices; i++)
		if (memcmp(&c->choice[i].problem, &problem, sizeof problem) == 0)
			*mine = c->choice[i];
	if (mine->problem.rows == 0) {
		*mine = choose(d, v, p, k, a, b);
		mine->problem = problem;
		c->choice = must(realloc(c->choice, (c->choices + 1) * sizeof *c->choice));
		c->choice[c->choices++] = *mine;
	}
	return mine;
}

/* out = the convolution of a and b (an activation or its gradient; weights, or a gradient) + beta
 * out. False: there is none for bf16; floats will be used from here on. */
static bool convolve(struct device *d, struct cuda_conv *v, struct conv_plan *p, enum direction k,
		     const void *a, const void *b, float beta, void *out)
{
	cudnnHandle_t dnn = cuda_of(d)->dnn;
	cudnnConvolutionDescriptor_t w = p->window[k];
	const float one = 1;
	CHECK(aligned(a) && aligned(b), "a convolution's memory is not on a 16-byte boundary");
	const struct conv_choice *how = choice_of(d, v, p, k, a, b);
	const int algorithm = how->algorithm;
	const size_t bytes = how->bytes;

	if (algorithm < 0) {
		use_floats(d, v);
		return false;
	}
	TRY_DNN(d, cudnnSetConvolutionMathType(w, how->math));
	void *work = cuda_workspace(d, bytes);

	if (k == FORWARD)
		TRY_DNN(d, cudnnConvolutionForward(dnn, &one, p->x, a, v->filter, b, w,
						   (cudnnConvolutionFwdAlgo_t)algorithm, work,
						   bytes, &beta, p->y, out));
	else if (k == BACKWARD_DATA)
		TRY_DNN(d, cudnnConvolutionBackwardData(dnn, &one, v->filter, b, p->y, a, w,
							(cudnnConvolutionBwdDataAlgo_t)algorithm,
							work, bytes, &beta, p->x, out));
	else
		TRY_DNN(d,
			cudnnConvolutionBackwardFilter(dnn, &one, p->x, a, p->y, b, w,
						       (cudnnConvolutionBwdFilterAlgo_t)algorithm,
						       work, bytes, &beta, v->filter, out));
	return true;
}

static size_t pixels_of(const struct cuda_conv *v, size_t rows)
{
	return rows * v->s.out.height * v->s.out.width;
}

/* The weights as cuDNN can read them. */
static const void *weights(struct device *d, struct cuda_conv *v, const float *weight)
{
	struct cuda *c = cuda_of(d);
	if (!bf16(c, v) && aligned(weight))
		return weight;
	if (!v->weight)
		v->weight = cuda_take(d, weight_bytes(d, v));
	if (bf16(c, v))
		cuda_to_bf16(d, v->weight, weight, weights_of(&v->s));
	else
		cuda_copy(d, v->weight, weight, weights_of(&v->s));
	return v->weight;
}

void cuda_conv_forward(struct device *d, void *conv, float *y, const float *x, const float *weight,
		       const float *bias, size_t rows)
{
	struct cuda_conv *v = conv;
	const size_t pixels = pixels_of(v, rows), n = v->s.out.channels;
	const void *w = weights(d, v, weight),
		   *in = given(d, v, v->wide_x, x, rows * image_size(v->s.in));
	void *out = v->floats ? v->wide_y : y;
	if (!convolve(d, v, plan_of(d, v, rows), FORWARD, in, w, 0, out)) {
		cuda_conv_forward(d, conv, y, x, weight, bias, rows);
		return;
	}
	v->weight_of = w == v->weight ? weight : NULL;
	taken(d, v, y, out, pixels * n);
	if (v->s.bias)
		cuda_bias(d, y, bias, v->s.relu, pixels, n);
	else if (v->s.relu)
		cuda_relu(d, y, pixels * n);
}

void cuda_conv_backward_weight(struct device *d, void *conv, float *dweight, float *dbias,
			       const float *x, const float *dy, size_t rows)
{
	struct cuda_conv *v = conv;
	const size_t pixels = pixels_of(v, rows), n = v->s.out.channels;
	const bool direct = !bf16(cuda_of(d), v) && aligned(dweight);
	const void *in = given(d, v, v->wide_x, x, rows * image_size(v->s.in)),
		   *grad = given(d, v, v->wide_y, dy, pixels * n);
	if (!direct && !v->dweight)
		v->dweight = cuda_take(d, weight_bytes(d, v));
	if (!convolve(d, v, plan_of(d, v, rows), BACKWARD_WEIGHT, in, grad, 0,
		      direct ? dweight : v->dweight)) {
		cuda_conv_backward_weight(d, conv, dweight, dbias, x, dy, rows);
		return;
	}
	if (bf16(cuda_of(d), v))
		cuda_from_bf16(d, dweight, v->dweight, weights_of(&v->s));
	else if (!direct)
		cuda_copy(d, dweight, v->dweight, weights_of(&v->s));
	if (v->s.bias)
		cuda_sum_rows(d, dbias, dy, pixels, n);
}

void cuda_conv_backward_data(struct device *d, void *conv, float *dx, const float *dy,
			     const float *weight, bool add, size_t rows)
{
	struct cuda_conv *v = conv;
	const size_t floats = rows * image_size(v->s.in);
	const void *w = v->weight_of == weight ? v->weight : weights(d, v, weight),
		   *grad = given(d, v, v->wide_y, dy, rows * image_size(v->s.out));
	float *out = v->floats ? v->wide_x : dx;
	if (add)
		given(d, v, out, dx, floats);
	if (!convolve(d, v, plan_of(d, v, rows), BACKWARD_DATA, grad, w, add, out)) {
		cuda_conv_backward_data(d, conv, dx, dy, weight, add, rows);
		return;
	}
	v->weight_of = NULL; /* by the next time they may have changed */
	taken(d, v, dx, out, floats);
}
