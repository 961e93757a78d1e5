/*
 * conv.h - what the two files of convolutions share: conv.c runs them, choice.c chooses how.
 */
#ifndef CONV_H
#define CONV_H

#include "runtime/device/cuda/cuda.h"

#include <cudnn.h>

enum direction { FORWARD, BACKWARD_DATA, BACKWARD_WEIGHT, DIRECTIONS };

struct problem { /* numbers of one type, so that equal ones are equal bytes */
	struct image in, out;
	struct window window;
	size_t rows, direction;
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
	struct image in, out;      /* as cuDNN is given them: padded, channels of zeros are added */
	void *padded_x, *padded_y; /* NULL: there are none */
	cudnnFilterDescriptor_t filter;
	struct conv_plan *plan;
	size_t plans;
	/* Weights and their gradient as cuDNN wants them: bf16, padded, or where the parameters'
	 * own are not on a 16-byte boundary. NULL until needed. */
	void *weight, *dweight;
	const float *weight_of; /* whose copy is in weight, NULL: nobody's, */
	uint64_t weight_at;     /* as they were then (cuda->written) */
	size_t body;            /* that used them last */
	float *dweight_to;      /* where what is in dweight still has to go; NULL: nowhere */
	struct cuda_conv *next; /* of the device's */
};

static inline size_t conv_weights(const struct cuda_conv *v)
{
	return v->out.channels * v->s.window.size * v->s.window.size * v->in.channels;
}

/* Channels as matrix units take them. */
static inline size_t conv_padded(const struct cuda *c, size_t channels)
{
	const size_t of = c->bf16 ? 8 : 4;
	return (channels + of - 1) / of * of;
}

static inline bool conv_can_pad(const struct cuda *c, const struct cuda_conv *v)
{
	return v->in.channels != conv_padded(c, v->in.channels) ||
	       v->out.channels != conv_padded(c, v->out.channels);
}

/* The math of float32: no matrix unit that rounds. */
static inline bool conv_exact(const struct cuda *c)
{
	return !c->bf16 && !c->tf32;
}

static inline cudnnMathType_t conv_math(const struct cuda *c)
{
	return c->bf16         ? CUDNN_TENSOR_OP_MATH
	       : conv_exact(c) ? CUDNN_FMA_MATH
			       : CUDNN_DEFAULT_MATH; /* which is tf32 for floats */
}

/* The algorithm for this direction, made when it is asked for first; never while a graph is
 * captured. a, b: what it reads. -1: cuDNN has none, and can be given more channels. */
const struct conv_choice *conv_choice_of(struct device *d, struct cuda_conv *v, struct conv_plan *p,
					 enum direction k, const void *a, const void *b);

#endif
