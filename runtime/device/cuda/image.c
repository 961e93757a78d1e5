/*
 * cuda_image.c - images on the GPU: convolutions through cuDNN, channels last; batch
 * normalisations, poolings and shortcuts by kernels of our own, which cuDNN's would need more
 * passes for (a normalisation fused with what a residual block adds), or whose ties it does not
 * settle (the first of equal numbers in a pooling's window gets the gradient).
 *
 * cuDNN has several algorithms for a convolution. When a shape comes first, all are tried on the
 * data at hand, and the fastest that always gives the same sum is taken; all layers of that shape
 * on this device then use it. That is not part of the graph: the body runs once before. Where there
 * is none for bf16 (few channels), that layer works in floats on copies of its activations.
 *
 * Costs, in passes over an activation: a convolution reads x and writes y, and once more over y
 * where it has a bias or a relu; a normalisation reads x twice and writes y (and reads what it
 * adds); its gradient reads dy, x and (with relu) y twice and writes dx, or with `adds` reads y
 * once and writes dy besides. In bf16 each weight is rounded to a copy by the forward pass, which
 * the backward pass after it uses too.
 */
#include "runtime/device/cuda/cuda.h"
#include "runtime/device/cuda/kernels.h"

#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <limits.h>
#include <stdlib.h>

/* ---- Convolution --------------------------------------------------------- */

enum direction { FORWARD, BACKWARD_DATA, BACKWARD_WEIGHT, DIRECTIONS };
static const char *const direction_names[] = {"forward", "backward data", "backward weight"};

enum { ALGORITHMS = 16 };

struct conv_choice {
	struct image in, out;
	struct window window;
	size_t rows;
	enum direction direction;
	bool floats;
	int algorithm; /* -1: there is none */
	cudnnMathType_t math;
	size_t bytes; /* of workspace */
};

struct conv_plan { /* of a number of rows */
	size_t rows;
	cudnnTensorDescriptor_t x, y;
	cudnnConvolutionDescriptor_t window[DIRECTIONS];
	struct conv_choice choice[DIRECTIONS]; /* rows 0: not made yet */
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
	TRY(d, cudaStreamSynchronize(cuda_of(d)->stream));
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
	RUN(d, kernels_from_bf16(cuda_of(d)->stream, wide, x, n));
	return wide;
}

/* And after it has written the copy: */
static void taken(struct device *d, const struct cuda_conv *v, float *y, const float *wide,
		  size_t n)
{
	if (v->floats)
		RUN(d, kernels_to_bf16(cuda_of(d)->stream, y, wide, n));
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

static bool same_problem(const struct conv_choice *c, const struct cuda_conv *v, size_t rows,
			 enum direction k)
{
	const struct shape *s = &v->s;

	return c->rows == rows && c->direction == k && c->floats == v->floats &&
	       image_size(c->in) == image_size(s->in) && c->in.height == s->in.height &&
	       c->in.channels == s->in.channels && c->out.channels == s->out.channels &&
	       c->window.size == s->window.size && c->window.stride == s->window.stride &&
	       c->window.pad == s->window.pad;
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

	TRY(d, cudaStreamSynchronize(c->stream));
	cuda_give(d, out, numbers);
	TRY(d, cudaFree(work));
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
	return (struct conv_choice){.in = v->s.in,
				    .out = v->s.out,
				    .window = v->s.window,
				    .rows = p->rows,
				    .direction = k,
				    .floats = v->floats,
				    .algorithm = best < 0 ? -1 : found[best].algorithm,
				    .math = best < 0 || exact(c) ? math_of(c, v) : found[best].math,
				    .bytes = best < 0 ? 0 : found[best].bytes};
}

/* The algorithm for this direction, NULL: there is none for bf16. *work gets its workspace. a, b:
 * what it reads. */
static const struct conv_choice *choice_of(struct device *d, struct cuda_conv *v,
					   struct conv_plan *p, enum direction k, const void *a,
					   const void *b, void **work)
{
	struct cuda *c = cuda_of(d);
	struct conv_choice *mine = &p->choice[k];

	CHECK(aligned(a) && aligned(b), "a convolution's memory is not on a 16-byte boundary");
	for (size_t i = 0; mine->rows == 0 && i < c->choices; i++)
		if (same_problem(&c->choice[i], v, p->rows, k))
			*mine = c->choice[i];
	if (mine->rows == 0) {
		*mine = choose(d, v, p, k, a, b);
		c->choice = must(realloc(c->choice, (c->choices + 1) * sizeof *c->choice));
		c->choice[c->choices++] = *mine;
	}
	if (mine->algorithm < 0)
		return NULL;
	TRY_DNN(d, cudnnSetConvolutionMathType(p->window[k], mine->math));
	*work = cuda_workspace(d, mine->bytes);
	return mine;
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
		RUN(d, kernels_to_bf16(c->stream, v->weight, weight, weights_of(&v->s)));
	else
		TRY(d, cudaMemcpyAsync(v->weight, weight, weight_bytes(d, v),
				       cudaMemcpyDeviceToDevice, c->stream));
	return v->weight;
}

void cuda_conv_forward(struct device *d, void *conv, float *y, const float *x, const float *weight,
		       const float *bias, size_t rows)
{
	struct cuda *c = cuda_of(d);
	struct cuda_conv *v = conv;
	struct conv_plan *p = plan_of(d, v, rows);
	const size_t pixels = rows * v->s.out.height * v->s.out.width, n = v->s.out.channels;
	const float one = 1, zero = 0;
	const void *w = weights(d, v, weight),
		   *in = given(d, v, v->wide_x, x, rows * image_size(v->s.in));
	void *work, *out = v->floats ? v->wide_y : y;
	const struct conv_choice *choice = choice_of(d, v, p, FORWARD, in, w, &work);

	if (!choice) {
		use_floats(d, v);
		cuda_conv_forward(d, conv, y, x, weight, bias, rows);
		return;
	}
	v->weight_of = w == v->weight ? weight : NULL;
	TRY_DNN(d, cudnnConvolutionForward(c->dnn, &one, p->x, in, v->filter, w, p->window[FORWARD],
					   (cudnnConvolutionFwdAlgo_t)choice->algorithm, work,
					   choice->bytes, &zero, p->y, out));
	taken(d, v, y, out, pixels * n);
	if (v->s.bias)
		RUN(d, kernels_add_bias(c->stream, c->bf16, y, bias, v->s.relu, pixels, n));
	else if (v->s.relu)
		RUN(d, kernels_relu(c->stream, c->bf16, y, pixels * n));
}

void cuda_conv_backward_weight(struct device *d, void *conv, float *dweight, float *dbias,
			       const float *x, const float *dy, size_t rows)
{
	struct cuda *c = cuda_of(d);
	struct cuda_conv *v = conv;
	struct conv_plan *p = plan_of(d, v, rows);
	const size_t pixels = rows * v->s.out.height * v->s.out.width, n = v->s.out.channels;
	const bool direct = !bf16(c, v) && aligned(dweight);
	const float one = 1, zero = 0;
	const void *in = given(d, v, v->wide_x, x, rows * image_size(v->s.in)),
		   *grad = given(d, v, v->wide_y, dy, pixels * n);
	void *work;
	const struct conv_choice *choice = choice_of(d, v, p, BACKWARD_WEIGHT, in, grad, &work);

	if (!choice) {
		use_floats(d, v);
		cuda_conv_backward_weight(d, conv, dweight, dbias, x, dy, rows);
		return;
	}
	if (!direct && !v->dweight)
		v->dweight = cuda_take(d, weight_bytes(d, v));
	TRY_DNN(d, cudnnConvolutionBackwardFilter(
			   c->dnn, &one, p->x, in, p->y, grad, p->window[BACKWARD_WEIGHT],
			   (cudnnConvolutionBwdFilterAlgo_t)choice->algorithm, work, choice->bytes,
			   &zero, v->filter, direct ? dweight : v->dweight));
	if (bf16(c, v))
		RUN(d, kernels_from_bf16(c->stream, dweight, v->dweight, weights_of(&v->s)));
	else if (!direct)
		TRY(d, cudaMemcpyAsync(dweight, v->dweight, weight_bytes(d, v),
				       cudaMemcpyDeviceToDevice, c->stream));
	if (v->s.bias)
		RUN(d,
		    kernels_sum_rows(c->stream, c->bf16, dbias, dy, pixels, n, cuda_stage(d, n)));
}

void cuda_conv_backward_data(struct device *d, void *conv, float *dx, const float *dy,
			     const float *weight, bool add, size_t rows)
{
	struct cuda *c = cuda_of(d);
	struct cuda_conv *v = conv;
	struct conv_plan *p = plan_of(d, v, rows);
	const size_t pixels = rows * v->s.out.height * v->s.out.width,
		     floats = rows * image_size(v->s.in);
	const float one = 1, beta = add;
	const bool copied = v->weight_of == weight;
	const void *w = copied ? v->weight : weights(d, v, weight),
		   *grad = given(d, v, v->wide_y, dy, pixels * v->s.out.channels);
	float *out = v->floats ? v->wide_x : dx;
	void *work;
	const struct conv_choice *choice = choice_of(d, v, p, BACKWARD_DATA, grad, w, &work);

	if (!choice) {
		use_floats(d, v);
		cuda_conv_backward_data(d, conv, dx, dy, weight, add, rows);
		return;
	}
	v->weight_of = NULL; /* by the next time they may have changed */
	if (add)
		given(d, v, out, dx, floats);
	TRY_DNN(d, cudnnConvolutionBackwardData(c->dnn, &one, v->filter, w, p->y, grad,
						p->window[BACKWARD_DATA],
						(cudnnConvolutionBwdDataAlgo_t)choice->algorithm,
						work, choice->bytes, &beta, p->x, out));
	taken(d, v, dx, out, floats);
}

/* ---- Pooling ------------------------------------------------------------- */

void *cuda_pool_new(struct device *d, const struct shape *s)
{
	struct kernels_window *w = must(calloc(1, sizeof *w));

	(void)d;
	CHECK(image_size(s->in) <= INT_MAX, "a pooling of %zu floats", image_size(s->in));
	*w = (struct kernels_window){.in_height = (unsigned)s->in.height,
				     .in_width = (unsigned)s->in.width,
				     .out_height = (unsigned)s->out.height,
				     .out_width = (unsigned)s->out.width,
				     .channels = (unsigned)s->in.channels,
				     .size = (unsigned)s->window.size,
				     .stride = (unsigned)s->window.stride,
				     .pad = (unsigned)s->window.pad,
				     .average = s->average};
	return w;
}

void cuda_pool_free(struct device *d, void *pool)
{
	(void)d;
	free(pool);
}

void cuda_pool_forward(struct device *d, void *pool, float *y, const float *x, size_t rows)
{
	struct cuda *c = cuda_of(d);
	const struct kernels_window *w = pool;

	RUN(d, kernels_pool(c->stream, c->bf16, y, x, *w, rows));
}

void cuda_pool_backward(struct device *d, void *pool, float *dx, const float *dy, const float *x,
			const float *y, size_t rows)
{
	struct cuda *c = cuda_of(d);
	const struct kernels_window *w = pool;

	RUN(d, kernels_pool_grad(c->stream, c->bf16, dx, dy, x, y, *w, rows));
}

/* ---- Batch normalisation ------------------------------------------------- */

struct cuda_norm {
	struct shape s;
	float *statistics; /* [2 C] of the last training forward: means, variances */
};

void *cuda_norm_new(struct device *d, const struct shape *s)
{
	struct cuda_norm *m = must(calloc(1, sizeof *m));

	m->s = *s;
	m->statistics = cuda_take(d, 2 * s->in.channels * sizeof(float));
	return m;
}

void cuda_norm_free(struct device *d, void *norm)
{
	struct cuda_norm *m = norm;

	TRY(d, cudaStreamSynchronize(cuda_of(d)->stream));
	cuda_give(d, m->statistics, 2 * m->s.in.channels * sizeof(float));
	free(m);
}

void cuda_norm_forward(struct device *d, void *norm, float *y, const float *x, const float *add,
		       const float *scale, float *running, bool training, size_t rows)
{
	struct cuda *c = cuda_of(d);
	const struct cuda_norm *m = norm;
	const size_t pixels = rows * m->s.in.height * m->s.in.width, n = m->s.in.channels;

	if (training)
		RUN(d, kernels_norm_statistics(c->stream, c->bf16, x, m->statistics, running,
					       NORM_ALPHA, pixels, n, cuda_stage(d, n)));
	RUN(d,
	    kernels_norm(c->stream, c->bf16, y, x, m->s.adds ? add : NULL, scale,
			 training ? m->statistics : running, NORM_EPSILON, m->s.relu, pixels, n));
}

/* The first pass needs y to mask dy. It writes that back where the shortcut wants it; then the
 * second pass finds it masked. */
void cuda_norm_backward(struct device *d, void *norm, float *dx, float *dscale, float *dy,
			const float *x, const float *y, const float *scale, size_t rows)
{
	struct cuda *c = cuda_of(d);
	const struct cuda_norm *m = norm;
	const size_t pixels = rows * m->s.in.height * m->s.in.width, n = m->s.in.channels;
	const bool back = m->s.relu && m->s.adds;

	RUN(d,
	    kernels_norm_grad_scale(c->stream, c->bf16, dscale, dy, x, m->s.relu ? y : NULL, back,
				    m->statistics, NORM_EPSILON, pixels, n, cuda_stage(d, n)));
	RUN(d, kernels_norm_grad(c->stream, c->bf16, dx, dy, x, m->s.relu && !back ? y : NULL,
				 dscale, scale, m->statistics, NORM_EPSILON, pixels, n));
}

/* ---- Shortcuts ----------------------------------------------------------- */

static struct kernels_images images(struct image in, size_t stride, size_t out)
{
	return (struct kernels_images){.in_height = (unsigned)in.height,
				       .in_width = (unsigned)in.width,
				       .in_channels = (unsigned)in.channels,
				       .out_height = (unsigned)(strided(in.height, stride)),
				       .out_width = (unsigned)(strided(in.width, stride)),
				       .out_channels = (unsigned)out,
				       .stride = (unsigned)stride};
}

void cuda_shortcut(struct device *d, float *y, const float *x, struct image in, size_t stride,
		   size_t out, size_t rows)
{
	struct cuda *c = cuda_of(d);

	RUN(d, kernels_shortcut(c->stream, c->bf16, y, x, images(in, stride, out), rows));
}

void cuda_shortcut_grad(struct device *d, float *dx, const float *dy, struct image in,
			size_t stride, size_t out, size_t rows)
{
	struct cuda *c = cuda_of(d);

	RUN(d, kernels_shortcut_grad(c->stream, c->bf16, dx, dy, images(in, stride, out), rows));
}
