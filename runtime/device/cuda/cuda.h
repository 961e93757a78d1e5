/*
 * cuda.h - what the two sides of the CUDA device share, and what the files of its module share.
 *
 * The device is a module, mvbench_cuda.so, that the program loads when a worker opens it: a program
 * linked to cuBLAS and cuDNN would take 60 ms longer to start, whatever it does. cuda_module.c is
 * the program's side; cuda.c, cuda_image.c and kernels.cu are the module.
 *
 * No header of CUDA is included here: its handles are pointers to structs that it never shows.
 */
#ifndef CUDA_H
#define CUDA_H

#include "runtime/device/device.h"

/* What the module calls in the program. It defines functions of these names that pass on. */
struct cuda_host {
	size_t ops_bytes, device_bytes; /* of the structs: both sides are of one build */
	void (*panic)(const char *file, int line, const char *fmt, ...); /* these two do not */
	void (*failure)(const char *fmt, ...);                           /* return */
	void *(*must)(void *p);
};

/* All that the module exports. Its probe asks CUDA in this process: after that, a child that is
 * forked cannot use it. NULL: it was built for another program. */
const struct device_ops *mvbench_cuda(const struct cuda_host *host);

/* ---- Inside the module ----------------------------------------------------- */

struct device_state; /* on the device: kernels_step, kernels_tally, counters */
struct resident;
struct kept_graph;
struct conv_choice;

struct cuda { /* device->at */
	int gpu;
	char model[128];
	bool bf16; /* activations are */
	bool tf32;
	struct CUstream_st *stream, *side;
	struct cublasContext *blas;
	struct cudnnContext *dnn;
	void *blas_workspace;
	struct device_state *state;

	/* One piece of memory serves every operation that needs some while it runs. */
	void *workspace;
	size_t workspace_bytes;
	void **retired; /* out of use, but graphs that are kept may name it */
	size_t retired_n;

	struct resident *resident; /* host arrays that were brought here */
	size_t residents;
	struct kept_graph *graph;
	size_t graphs;
	bool capturing, captured; /* now; ever */
	bool switched;   /* since the body began, a layer has, to what it has not prepared yet */
	uint32_t turn;   /* bodies begun */
	uint32_t *event; /* pinned [EVENTS]: the last turn that got there */
	struct conv_choice *choice; /* algorithms, so that equal shapes are tried once */
	size_t choices;
};

enum { CONV_WORKSPACE = 256 << 20 }; /* the most that an algorithm of cuDNN may want [bytes] */

static inline struct cuda *cuda_of(struct device *d)
{
	return d->at;
}

/* A call failed: says which, on which GPU, and why. */
void cuda_failed(struct device *d, const char *file, int line, const char *call, const char *why)
	__attribute__((noreturn));

#define TRY_(d, type, good, text, call) \
	do { \
		type status_ = (call); \
		if (status_ != (good)) \
			cuda_failed(d, __FILE__, __LINE__, #call, text(status_)); \
	} while (0)
#define TRY(d, call) TRY_(d, cudaError_t, cudaSuccess, cudaGetErrorString, call)
#define TRY_BLAS(d, call) \
	TRY_(d, cublasStatus_t, CUBLAS_STATUS_SUCCESS, cublasGetStatusString, call)
#define TRY_DNN(d, call) TRY_(d, cudnnStatus_t, CUDNN_STATUS_SUCCESS, cudnnGetErrorString, call)
/* A function of kernels.h. */
#define RUN(d, call) \
	do { \
		call; \
		cudaError_t status_ = cudaGetLastError(); \
		if (status_ != cudaSuccess) \
			cuda_failed(d, __FILE__, __LINE__, #call, cudaGetErrorString(status_)); \
	} while (0)

/* Device memory that libraries and layers need beside vectors: counted in workspace_bytes. */
void *cuda_take(struct device *d, size_t bytes);
void cuda_give(struct device *d, void *p, size_t bytes);
/* Gives it back when no graph can use it any more. */
void cuda_retire(struct device *d, void *p, size_t bytes);
/* The workspace, of so many bytes at least; what is in it is gone at the next operation. */
void *cuda_workspace(struct device *d, size_t bytes);
/* Of sums of n columns (kernels.h). */
struct kernels_stage cuda_stage(struct device *d, size_t n);

/* cuda_image.c; the slots of the same names */
void *cuda_conv_new(struct device *d, const struct shape *s);
void cuda_conv_free(struct device *d, void *conv);
void cuda_conv_forward(struct device *d, void *conv, float *y, const float *x, const float *weight,
		       const float *bias, size_t rows);
void cuda_conv_backward_weight(struct device *d, void *conv, float *dweight, float *dbias,
			       const float *x, const float *dy, size_t rows);
void cuda_conv_backward_data(struct device *d, void *conv, float *dx, const float *dy,
			     const float *weight, bool add, size_t rows);
void *cuda_pool_new(struct device *d, const struct shape *s);
void cuda_pool_free(struct device *d, void *pool);
void cuda_pool_forward(struct device *d, void *pool, float *y, const float *x, size_t rows);
void cuda_pool_backward(struct device *d, void *pool, float *dx, const float *dy, const float *x,
			const float *y, size_t rows);
void *cuda_norm_new(struct device *d, const struct shape *s);
void cuda_norm_free(struct device *d, void *norm);
void cuda_norm_forward(struct device *d, void *norm, float *y, const float *x, const float *add,
		       const float *scale, float *running, bool training, size_t rows);
void cuda_norm_backward(struct device *d, void *norm, float *dx, float *dscale, float *dy,
			const float *x, const float *y, const float *scale, size_t rows);
void cuda_shortcut(struct device *d, float *y, const float *x, struct image in, size_t stride,
		   size_t out, size_t rows);
void cuda_shortcut_grad(struct device *d, float *dx, const float *dy, struct image in,
			size_t stride, size_t out, size_t rows);

#endif
