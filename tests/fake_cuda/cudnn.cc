/*
 * cudnn.cc - the part of cuDNN that mvbench uses: convolutions of NHWC tensors of float32 or bf16.
 *
 * A convolution is a matrix product. With the windows of x written as rows,
 *   col[(n, p, q)][(r, s, c)] = x[n][p stride - pad + r][q stride - pad + s][c],
 *   y = col w^T,   dw = dy^T col,   dcol = dy w, whose values are added to their pixels of x.
 * Cost: 2 N P Q K R S C flops each, but nothing if the convolution is the one before. Workspace is
 * filled with NaN. The fastest algorithm is not deterministic if that of cuDNN is not: every second
 * time its last bits differ.
 */
#include "fake.h"

#include <cudnn.h>

#include <cfloat>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <vector>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

using namespace fake;

struct cudnnContext {
	cudaStream_t stream;
};

struct cudnnTensorStruct {
	bool bf16, nhwc;
	int n, c, h, w; /* n 0: not set */

	size_t size() const
	{
		return (size_t)n * (size_t)c * (size_t)h * (size_t)w;
	}
	bool operator==(const cudnnTensorStruct &o) const
	{
		return std::tie(bf16, nhwc, n, c, h, w) ==
		       std::tie(o.bf16, o.nhwc, o.n, o.c, o.h, o.w);
	}
	/* Reads vectors of 16 bytes. */
	bool reached(const void *p) const
	{
		return (uintptr_t)p % 16 == 0 && reaches(p, size() * (bf16 ? 2 : 4));
	}
};

struct cudnnFilterStruct : cudnnTensorStruct {
}; /* n: output channels */

struct cudnnConvolutionStruct {
	int pad_h, pad_w, stride_h, stride_w; /* stride 0: not set */
	cudnnMathType_t math;

	bool operator==(const cudnnConvolutionStruct &o) const
	{
		return std::tie(pad_h, pad_w, stride_h, stride_w, math) ==
		       std::tie(o.pad_h, o.pad_w, o.stride_h, o.stride_w, o.math);
	}
};

namespace
{
template <class T> cudnnStatus_t make(T **out)
{
	if (enter() != cudaSuccess)
		return CUDNN_STATUS_NOT_INITIALIZED;
	*out = new T{};
	return CUDNN_STATUS_SUCCESS;
}

template <class T> cudnnStatus_t destroy(T *x)
{
	delete x;
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t set(cudnnTensorStruct *t, cudnnTensorFormat_t format, cudnnDataType_t type, int n,
		  int c, int h, int w)
{
	if (type != CUDNN_DATA_FLOAT && type != CUDNN_DATA_BFLOAT16)
		fail("cuDNN: the fake knows no type %d", (int)type);
	if (n < 1 || c < 1 || h < 1 || w < 1)
		return CUDNN_STATUS_BAD_PARAM;
	*t = {type == CUDNN_DATA_BFLOAT16, format == CUDNN_TENSOR_NHWC, n, c, h, w};
	return CUDNN_STATUS_SUCCESS;
}

std::vector<float> read(const void *x, const cudnnTensorStruct &t, rounding how)
{
	std::vector<float> y(t.size());
	load(y.data(), x, t.bf16, y.size(), how);
	return y;
}

/* One convolution: common to the three directions. */
struct problem {
	cudnnTensorStruct x, y;
	cudnnFilterStruct w;
	cudnnConvolutionStruct conv;

	bool operator==(const problem &o) const
	{
		return x == o.x && y == o.y && w == o.w && conv == o.conv;
	}
	size_t rows() const
	{
		return y.size() / (size_t)y.c;
	}
	size_t window() const
	{
		return w.size() / (size_t)w.n;
	}
	/* Only FMA_MATH keeps float32 inputs unchanged. */
	rounding how() const
	{
		return conv.math == CUDNN_FMA_MATH ? EXACT : TF32;
	}
};

cudnnStatus_t check(const problem &p)
{
	const cudnnTensorStruct &x = p.x, &y = p.y, &w = p.w;
	const cudnnConvolutionStruct &c = p.conv;
	if (!x.n || !y.n || !w.n || !c.stride_h || x.c != w.c || y.c != w.n || x.n != y.n ||
	    x.h + 2 * c.pad_h < w.h || x.w + 2 * c.pad_w < w.w ||
	    y.h != 1 + (x.h + 2 * c.pad_h - w.h) / c.stride_h ||
	    y.w != 1 + (x.w + 2 * c.pad_w - w.w) / c.stride_w) {
		note("cuDNN: x %dx%dx%dx%d, w %dx%dx%dx%d, y %dx%dx%dx%d do not fit", x.n, x.h, x.w,
		     x.c, w.n, w.h, w.w, w.c, y.n, y.h, y.w, y.c);
		return CUDNN_STATUS_BAD_PARAM;
	}
	int channels = (int)setting("FAKE_CUDA_CHANNELS", 1);
	if (x.c % channels || y.c % channels)
		return CUDNN_STATUS_NOT_SUPPORTED;
	if (x.nhwc && y.nhwc && w.nhwc && x.bf16 == y.bf16 && x.bf16 == w.bf16)
		return CUDNN_STATUS_SUCCESS;
	note("cuDNN: tensors of different types, or not NHWC");
	return CUDNN_STATUS_NOT_SUPPORTED;
}

/* Calls f(place in x, place in col) for the channels of every pixel that is inside x. */
template <class F> void each_pixel(const problem &p, F f)
{
	const cudnnTensorStruct &x = p.x, &y = p.y, &w = p.w;
	size_t row = 0;
	for (int place = 0; place < y.n * y.h * y.w; place++, row += p.window())
		for (int r = 0; r < w.h * w.w; r++) {
			int n = place / (y.h * y.w);
			int i = place / y.w % y.h * p.conv.stride_h - p.conv.pad_h + r / w.w;
			int j = place % y.w * p.conv.stride_w - p.conv.pad_w + r % w.w;
			if (i >= 0 && i < x.h && j >= 0 && j < x.w)
				f(((size_t)(n * x.h + i) * (size_t)x.w + (size_t)j) * (size_t)x.c,
				  row + (size_t)(r * x.c));
		}
}

std::vector<float> columns(const problem &p, const void *x)
{
	std::vector<float> from = read(x, p.x, p.how()), col(p.rows() * p.window());
	size_t run = (size_t)p.x.c * sizeof(float);
	each_pixel(p, [&](size_t at, size_t to) { memcpy(&col[to], &from[at], run); });
	return col;
}

/* The algorithms of a direction, fastest first; one of each does not support these tensors. */
struct algorithm {
	int number;
	bool supported, steady, workspace;
};
const algorithm forward[] = {{CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, true, true, true},
			     {CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, true, true, false},
			     {CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD, false, true, false}};
const algorithm data[] = {{CUDNN_CONVOLUTION_BWD_DATA_ALGO_0, true, false, false},
			  {CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, true, true, true},
			  {CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD, false, true, false}};
const algorithm filter[] = {{CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0, true, false, false},
			    {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, true, true, true},
			    {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT, false, true, false}};

size_t workspace_of(const problem &p, const algorithm &a)
{
	return a.workspace ? 1000 + p.rows() * 8 : 0;
}

cudnnStatus_t queue(cudnnHandle_t handle, std::function<void()> run)
{
	return enqueue(handle->stream, std::move(run)) == cudaSuccess
		       ? CUDNN_STATUS_SUCCESS
		       : CUDNN_STATUS_EXECUTION_FAILED;
}

/* Tries the list: workspace and output contain NaN afterwards. */
template <class P>
cudnnStatus_t find(cudnnHandle_t handle, const problem &p, const algorithm (&list)[3],
		   const void *x, const void *w, const void *y, void *out, size_t out_bytes,
		   void *workspace, size_t bytes, int wanted, int *count, P *found)
{
	cudnnStatus_t e = check(p);
	*count = 0;
	if (enter(true) != cudaSuccess)
		return CUDNN_STATUS_EXECUTION_FAILED;
	if (e == CUDNN_STATUS_BAD_PARAM || !p.x.reached(x) || !p.w.reached(w) || !p.y.reached(y) ||
	    (bytes && !reaches(workspace, bytes)))
		return CUDNN_STATUS_BAD_PARAM;
	for (const algorithm &a : list) {
		size_t need = workspace_of(p, a);
		if (*count == wanted)
			break;
		P &row = found[(*count)++];
		row = {};
		row.algo = (decltype(row.algo))a.number;
		row.status = e != CUDNN_STATUS_SUCCESS || !a.supported ? CUDNN_STATUS_NOT_SUPPORTED
			     : need > bytes ? CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED
					    : CUDNN_STATUS_SUCCESS;
		row.time = row.status == CUDNN_STATUS_SUCCESS ? 0.01f * (float)*count : -1;
		row.memory = need;
		row.determinism = a.steady ? CUDNN_DETERMINISTIC : CUDNN_NON_DETERMINISTIC;
		row.mathType = setting("FAKE_CUDA_ROUNDS", 0) && *count == 1 ? CUDNN_DEFAULT_MATH
									     : p.conv.math;
		if (row.status == CUDNN_STATUS_SUCCESS && need)
			queue(handle, [=] { memset(workspace, 0xff, need); });
	}
	return queue(handle, [=] { memset(out, 0xff, out_bytes); });
}

/* *bytes: of the algorithm with this number. */
cudnnStatus_t workspace_size(const problem &p, const algorithm (&list)[3], int number,
			     size_t *bytes)
{
	cudnnStatus_t e = check(p);
	if (e != CUDNN_STATUS_SUCCESS)
		return e;
	for (const algorithm &a : list)
		if (a.number == number && a.supported) {
			*bytes = workspace_of(p, a);
			return CUDNN_STATUS_SUCCESS;
		}
	return CUDNN_STATUS_NOT_SUPPORTED;
}

/* The convolution that ran last. mvbench measures each algorithm by 32 equal convolutions. Their
 * sums are the same as long as nothing else has run on the device. */
struct {
	long at; /* its number among the operations */
	problem of;
	const void *x, *w, *y, *out;
	float factor;
	std::vector<float> sums;
} last;

/* out = alpha compute() + beta out, with an algorithm of the list. */
template <class F>
cudnnStatus_t run(cudnnHandle_t handle, const problem &p, const algorithm (&list)[3], int number,
		  const void *x, const void *w, const void *y, void *workspace, size_t bytes,
		  void *out, const void *alpha, const void *beta, F compute)
{
	static unsigned calls;
	const algorithm *a = NULL;
	cudnnStatus_t e = check(p);
	for (const algorithm &one : list)
		if (one.number == number && one.supported)
			a = &one;
	if (enter(setting("FAKE_CUDA_UNCAPTURABLE", 0)) != cudaSuccess)
		return CUDNN_STATUS_EXECUTION_FAILED;
	if (e != CUDNN_STATUS_SUCCESS || !a)
		return e != CUDNN_STATUS_SUCCESS ? e : CUDNN_STATUS_NOT_SUPPORTED;
	size_t need = workspace_of(p, *a);
	if (bytes < need || (need && !reaches(workspace, bytes)) || !p.x.reached(x) ||
	    !p.w.reached(w) || !p.y.reached(y)) {
		note("cuDNN: %zu bytes of workspace at %p, of %zu; x %p, w %p, y %p", bytes,
		     workspace, need, x, w, y);
		return CUDNN_STATUS_BAD_PARAM;
	}
	bool other_order = !a->steady && ++calls % 2;
	float scale = *(const float *)alpha, keep = *(const float *)beta;
	double ms = a - list == setting("FAKE_CUDA_SLOW", -1) ? 10 : 0.01 * (double)(a - list + 1);
	return queue(handle, [=] {
		const float factor = other_order ? scale * (1 + FLT_EPSILON) : scale;
		const bool again = last.at + 1 == operations() && last.of == p && last.x == x &&
				   last.w == w && last.y == y && last.out == out;
		spend(ms);
		memset(workspace, 0xff, need);
		if (!again) {
			last.of = p, last.x = x, last.w = w, last.y = y, last.out = out;
			last.sums = compute();
		}
		last.at = operations();
		if (again && keep == 0 && factor == last.factor)
			return;
		last.factor = factor;
		std::vector<float> result = last.sums;
		for (float &v : result)
			v *= factor;
		store(out, p.x.bf16, result.data(), keep, result.size());
	});
}

} // namespace

/* ---- Handles and descriptors ---- */

size_t cudnnGetVersion(void)
{
	return CUDNN_VERSION;
}

const char *cudnnGetErrorString(cudnnStatus_t status)
{
	return status == CUDNN_STATUS_SUCCESS            ? "CUDNN_STATUS_SUCCESS"
	       : status == CUDNN_STATUS_BAD_PARAM        ? "CUDNN_STATUS_BAD_PARAM"
	       : status == CUDNN_STATUS_NOT_SUPPORTED    ? "CUDNN_STATUS_NOT_SUPPORTED"
	       : status == CUDNN_STATUS_EXECUTION_FAILED ? "CUDNN_STATUS_EXECUTION_FAILED"
							 : "CUDNN_STATUS_NOT_INITIALIZED";
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle)
{
	return enter(true) == cudaSuccess ? make(handle) : CUDNN_STATUS_NOT_INITIALIZED;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle)
{
	return destroy(handle);
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream)
{
	handle->stream = stream;
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t *t)
{
	return make(t);
}
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t t)
{
	return destroy(t);
}
cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t t, cudnnTensorFormat_t format,
					 cudnnDataType_t type, int n, int c, int h, int w)
{
	return set(t, format, type, n, c, h, w);
}

cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t *f)
{
	return make(f);
}
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t f)
{
	return destroy(f);
}
cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t f, cudnnDataType_t type,
					 cudnnTensorFormat_t format, int k, int c, int h, int w)
{
	return set(f, format, type, k, c, h, w);
}

cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t *c)
{
	return make(c);
}
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t c)
{
	return destroy(c);
}
cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t c, int pad_h, int pad_w,
					      int stride_h, int stride_w, int dilation_h,
					      int dilation_w, cudnnConvolutionMode_t mode,
					      cudnnDataType_t compute)
{
	if (pad_h < 0 || pad_w < 0 || stride_h < 1 || stride_w < 1)
		return CUDNN_STATUS_BAD_PARAM;
	if (dilation_h != 1 || dilation_w != 1 || mode != CUDNN_CROSS_CORRELATION ||
	    compute != CUDNN_DATA_FLOAT)
		fail("cuDNN: a convolution that the fake does not know");
	*c = {pad_h, pad_w, stride_h, stride_w, CUDNN_DEFAULT_MATH};
	return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t c, cudnnMathType_t math)
{
	c->math = math;
	return CUDNN_STATUS_SUCCESS;
}

/* ---- Convolutions ---- */

cudnnStatus_t cudnnFindConvolutionForwardAlgorithmEx(
	cudnnHandle_t handle, const cudnnTensorDescriptor_t x_of, const void *x,
	const cudnnFilterDescriptor_t w_of, const void *w, const cudnnConvolutionDescriptor_t c,
	const cudnnTensorDescriptor_t y_of, void *y, const int wanted, int *count,
	cudnnConvolutionFwdAlgoPerf_t *found, void *workspace, size_t bytes)
{
	return find(handle, {*x_of, *y_of, *w_of, *c}, forward, x, w, y, y,
		    y_of->size() * (y_of->bf16 ? 2 : 4), workspace, bytes, wanted, count, found);
}

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t,
						      const cudnnTensorDescriptor_t x,
						      const cudnnFilterDescriptor_t w,
						      const cudnnConvolutionDescriptor_t c,
						      const cudnnTensorDescriptor_t y,
						      cudnnConvolutionFwdAlgo_t algo, size_t *bytes)
{
	return workspace_size({*x, *y, *w, *c}, forward, algo, bytes);
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void *alpha,
				      const cudnnTensorDescriptor_t x_of, const void *x,
				      const cudnnFilterDescriptor_t w_of, const void *w,
				      const cudnnConvolutionDescriptor_t c,
				      cudnnConvolutionFwdAlgo_t algo, void *workspace, size_t bytes,
				      const void *beta, const cudnnTensorDescriptor_t y_of, void *y)
{
	problem p = {*x_of, *y_of, *w_of, *c};
	return run(handle, p, forward, algo, x, w, y, workspace, bytes, y, alpha, beta, [=] {
		std::vector<float> col = columns(p, x), weight = read(w, p.w, p.how());
		std::vector<float> out(p.y.size());
		matmul(out.data(), col.data(), false, weight.data(), true, p.rows(), (size_t)p.y.c,
		       p.window());
		return out;
	});
}

cudnnStatus_t cudnnFindConvolutionBackwardDataAlgorithmEx(
	cudnnHandle_t handle, const cudnnFilterDescriptor_t w_of, const void *w,
	const cudnnTensorDescriptor_t dy_of, const void *dy, const cudnnConvolutionDescriptor_t c,
	const cudnnTensorDescriptor_t dx_of, void *dx, const int wanted, int *count,
	cudnnConvolutionBwdDataAlgoPerf_t *found, void *workspace, size_t bytes)
{
	return find(handle, {*dx_of, *dy_of, *w_of, *c}, data, dx, w, dy, dx,
		    dx_of->size() * (dx_of->bf16 ? 2 : 4), workspace, bytes, wanted, count, found);
}

cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(
	cudnnHandle_t, const cudnnFilterDescriptor_t w, const cudnnTensorDescriptor_t dy,
	const cudnnConvolutionDescriptor_t c, const cudnnTensorDescriptor_t dx,
	cudnnConvolutionBwdDataAlgo_t algo, size_t *bytes)
{
	return workspace_size({*dx, *dy, *w, *c}, data, algo, bytes);
}

cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void *alpha,
					   const cudnnFilterDescriptor_t w_of, const void *w,
					   const cudnnTensorDescriptor_t dy_of, const void *dy,
					   const cudnnConvolutionDescriptor_t c,
					   cudnnConvolutionBwdDataAlgo_t algo, void *workspace,
					   size_t bytes, const void *beta,
					   const cudnnTensorDescriptor_t dx_of, void *dx)
{
	problem p = {*dx_of, *dy_of, *w_of, *c};
	return run(handle, p, data, algo, dx, w, dy, workspace, bytes, dx, alpha, beta, [=] {
		std::vector<float> from = read(dy, p.y, p.how()), weight = read(w, p.w, p.how());
		std::vector<float> col(p.rows() * p.window()), out(p.x.size());
		matmul(col.data(), from.data(), false, weight.data(), false, p.rows(), p.window(),
		       (size_t)p.y.c);
		each_pixel(p, [&](size_t to, size_t at) {
			for (size_t i = 0; i < (size_t)p.x.c; i++)
				out[to + i] += col[at + i];
		});
		return out;
	});
}

/* Does the filter's gradient support these channels? */
static bool has_filter(const cudnnTensorStruct &x)
{
	return x.c % (int)setting("FAKE_CUDA_FILTER_CHANNELS", 1) == 0;
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
	cudnnHandle_t, const cudnnTensorDescriptor_t x, const cudnnTensorDescriptor_t dy,
	const cudnnConvolutionDescriptor_t c, const cudnnFilterDescriptor_t dw,
	cudnnConvolutionBwdFilterAlgo_t algo, size_t *bytes)
{
	if (!has_filter(*x))
		return CUDNN_STATUS_NOT_SUPPORTED;
	return workspace_size({*x, *dy, *dw, *c}, filter, algo, bytes);
}

cudnnStatus_t cudnnFindConvolutionBackwardFilterAlgorithmEx(
	cudnnHandle_t handle, const cudnnTensorDescriptor_t x_of, const void *x,
	const cudnnTensorDescriptor_t dy_of, const void *dy, const cudnnConvolutionDescriptor_t c,
	const cudnnFilterDescriptor_t dw_of, void *dw, const int wanted, int *count,
	cudnnConvolutionBwdFilterAlgoPerf_t *found, void *workspace, size_t bytes)
{
	if (!has_filter(*x_of))
		return CUDNN_STATUS_NOT_SUPPORTED;
	return find(handle, {*x_of, *dy_of, *dw_of, *c}, filter, x, dw, dy, dw,
		    dw_of->size() * (dw_of->bf16 ? 2 : 4), workspace, bytes, wanted, count, found);
}

cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void *alpha,
					     const cudnnTensorDescriptor_t x_of, const void *x,
					     const cudnnTensorDescriptor_t dy_of, const void *dy,
					     const cudnnConvolutionDescriptor_t c,
					     cudnnConvolutionBwdFilterAlgo_t algo, void *workspace,
					     size_t bytes, const void *beta,
					     const cudnnFilterDescriptor_t dw_of, void *dw)
{
	problem p = {*x_of, *dy_of, *dw_of, *c};
	return run(handle, p, filter, algo, x, dw, dy, workspace, bytes, dw, alpha, beta, [=] {
		std::vector<float> col = columns(p, x), from = read(dy, p.y, p.how());
		std::vector<float> out(p.w.size());
		matmul(out.data(), from.data(), true, col.data(), false, (size_t)p.y.c, p.window(),
		       p.rows());
		return out;
	});
}
