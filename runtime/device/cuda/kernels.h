/*
 * kernels.h - what the CUDA device computes by itself; kernels.cu has the kernels.
 *
 * Every function queues its work on the stream and returns. An activation is of type float, or of
 * type bf16 where `is_bf16` is set; then its pointer is to bf16 numbers. Arrays that are written do
 * not overlap others, but where it says so.
 */
#ifndef KERNELS_H
#define KERNELS_H

#include "runtime/device/draw.h"

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a kernel of a kept graph cannot be given as an argument, since it changes. */
struct kernels_step {
	uint64_t key;
	float lr;
	uint32_t turn; /* counts the bodies */
};

struct kernels_tally {
	double loss;
	unsigned long long correct, rows;
};

/* Sums over rows are made in two stages: every block writes what it has, the last one that is done
 * adds this up, in an order that never changes. */
enum {
	KERNELS_BLOCKS = 256,    /* the most of one sum */
	KERNELS_COUNTERS = 1024, /* zero between two sums */
};
struct kernels_stage {
	float *partial;    /* [kernels_partials(n) floats], 16 bytes aligned; or more */
	unsigned *counter; /* [KERNELS_COUNTERS] */
};
size_t kernels_partials(size_t n); /* of sums of n columns */

/* Plain floats. */
void kernels_set_step(cudaStream_t s, struct kernels_step *at, struct kernels_step now);
void kernels_fill(cudaStream_t s, float *y, float a, size_t n);
void kernels_scale(cudaStream_t s, float *y, float a, size_t n);
void kernels_axpy(cudaStream_t s, float *y, float a, const float *x, size_t n);
/* y[r y_width + j] = x[r x_width + j], j < n */
void kernels_columns(cudaStream_t s, float *y, size_t y_width, const float *x, size_t x_width,
		     size_t rows, size_t n);
/* at not NULL: lr is there. */
void kernels_sgd(cudaStream_t s, float *p, float *v, const float *g, const struct kernels_step *at,
		 float lr, float m, float decay, float scale, size_t n);
void kernels_to_bf16(cudaStream_t s, void *y, const float *x, size_t n);
void kernels_from_bf16(cudaStream_t s, float *y, const void *x, size_t n);

/* Activations. */
void kernels_add_bias(cudaStream_t s, bool is_bf16, void *y, const float *b, bool relu, size_t rows,
		      size_t n);
void kernels_sum_rows(cudaStream_t s, bool is_bf16, float *b, const void *y, size_t rows, size_t n,
		      struct kernels_stage stage);
void kernels_relu(cudaStream_t s, bool is_bf16, void *y, size_t n);
void kernels_relu_grad(cudaStream_t s, bool is_bf16, void *dy, const void *y, size_t n);
void kernels_tanh(cudaStream_t s, bool is_bf16, void *y, size_t n);
void kernels_tanh_grad(cudaStream_t s, bool is_bf16, void *dy, const void *y, size_t n);
/* at not NULL: key is there. */
void kernels_dropout(cudaStream_t s, bool is_bf16, void *y, const struct kernels_step *at,
		     uint64_t key, uint64_t salt, float p, size_t n);
/* A target that is no class makes the loss a NaN. */
void kernels_softmax_xent(cudaStream_t s, bool is_bf16, void *z, const float *target, size_t rows,
			  size_t n, struct kernels_tally *tally, struct kernels_stage stage);
void kernels_mse(cudaStream_t s, bool is_bf16, void *z, const float *target, size_t rows, size_t n,
		 struct kernels_tally *tally, struct kernels_stage stage);

/* Rows of a data set. Their numbers travel as an argument, so that no memory of the host is read
 * later. */
enum { KERNELS_ROWS = 960 };
struct kernels_rows {
	int32_t number[KERNELS_ROWS];
};
struct kernels_source {       /* on the device */
	const uint8_t *bytes; /* [n x features], or NULL and */
	const float *floats;
	const float *target; /* [n] */
	const float *mean;   /* [features]; NULL = 0 */
	size_t features;
	uint64_t key;
	unsigned width, height, channels, pad; /* width 0: rows are taken as they are */
	bool flip;
};
void kernels_gather(cudaStream_t s, bool is_bf16, void *x, float *y,
		    const struct kernels_source *from, const struct kernels_rows *rows,
		    size_t count);

/* Images. [rows x height x width x channels] */
struct kernels_window {
	unsigned in_height, in_width, out_height, out_width, channels, size, stride, pad;
	bool average;
};
void kernels_pool(cudaStream_t s, bool is_bf16, void *y, const void *x, struct kernels_window w,
		  size_t rows);
void kernels_pool_grad(cudaStream_t s, bool is_bf16, void *dx, const void *dy, const void *x,
		       const void *y, struct kernels_window w, size_t rows);
struct kernels_images {
	unsigned in_height, in_width, in_channels, out_height, out_width, out_channels, stride;
};
void kernels_shortcut(cudaStream_t s, bool is_bf16, void *y, const void *x, struct kernels_images c,
		      size_t rows);
void kernels_shortcut_grad(cudaStream_t s, bool is_bf16, void *dx, const void *dy,
			   struct kernels_images c, size_t rows);
/* Statistics of the n columns of x: at[n] means, at[n ..] variances; running moves towards them by
 * alpha. */
void kernels_norm_statistics(cudaStream_t s, bool is_bf16, const void *x, float *at, float *running,
			     float alpha, size_t rows, size_t n, struct kernels_stage stage);
/* y = f(gamma (x - mean) / sqrt(variance + epsilon) + beta + add); add NULL = 0. scale: gamma, then
 * beta; at: as above. */
void kernels_norm(cudaStream_t s, bool is_bf16, void *y, const void *x, const void *add,
		  const float *scale, const float *at, float epsilon, bool relu, size_t rows,
		  size_t n);
/* dscale of dy masked by y (NULL: it is not masked); keep: the masked dy is written back. */
void kernels_norm_grad_scale(cudaStream_t s, bool is_bf16, float *dscale, void *dy, const void *x,
			     const void *y, bool keep, const float *at, float epsilon, size_t rows,
			     size_t n, struct kernels_stage stage);
/* dx may be dy. y NULL: dy is masked already, or is not to be. */
void kernels_norm_grad(cudaStream_t s, bool is_bf16, void *dx, const void *dy, const void *x,
		       const void *y, const float *dscale, const float *scale, const float *at,
		       float epsilon, size_t rows, size_t n);

/* Peers. y may be one of x. */
enum { KERNELS_PEERS = 256 };
struct kernels_peers {
	const float *x[KERNELS_PEERS];
	int k;
};
void kernels_sum(cudaStream_t s, float *y, const struct kernels_peers *peers, float a, size_t n);

/* An operation on a table (table.h). What is not used is NULL. in may be out. */
enum kernels_op_kind {
	KERNELS_READ,
	KERNELS_SYNC,
	KERNELS_ELASTIC,
	KERNELS_ADD, /* pushes, from here on */
	KERNELS_SGD,
	KERNELS_MOMENTUM,
	KERNELS_MOMENTUM_EMA,
	KERNELS_ADAGRAD,
	KERNELS_ADAGRAD_SHARED,
	KERNELS_DCASGD,
	KERNELS_DCASGDA,
	KERNELS_STALENESS,
};
struct kernels_table {
	float *w, *state, *own, *pulled;
	const float *in;
	float *out;
	float scale, lr, momentum, rho, lambda;
	bool keep; /* pulled gets what out gets */
};
void kernels_apply(cudaStream_t s, enum kernels_op_kind kind, const struct kernels_table *op,
		   size_t n);

#ifdef __cplusplus
}
#endif

#endif
