/*
 * conv.h - shared by the files of convolutions: conv.c runs them, choice.c chooses algorithms.
 */
#ifndef CONV_H
#define CONV_H

#include "runtime/device/cuda/cuda.h"

#include <cudnn.h>

/* The directions: name, text, two words of cuDNN's names; the shapes of the inputs a and b and of
 * the output, in the order of cuDNN's arguments. */
#define DIRECTION_LIST(X) \
	X(FORWARD, "forward", Forward, Fwd, p->x, v->filter, p->y) \
	X(BACKWARD_DATA, "backward data", BackwardData, BwdData, v->filter, p->y, p->x) \
	X(BACKWARD_WEIGHT, "backward weight", BackwardFilter, BwdFilter, p->x, p->y, v->filter)
#define DIRECTION_NAME(name, ...) name,
enum direction { DIRECTION_LIST(DIRECTION_NAME) };

struct problem { /* all fields are size_t: no padding, and memcmp compares them */
	struct image in, out;
	struct window window;
	size_t rows, direction;
};

enum { CONV_OWN = 100 }; /* the number of weight.cu, among cuDNN's algorithms */

struct conv_choice {
	struct problem problem;
	int algorithm; /* of cuDNN, or CONV_OWN; -1: there is none */
	cudnnMathType_t math;
	size_t bytes; /* of workspace */
};

struct conv_plan { /* for a number of rows */
	size_t rows;
	cudnnTensorDescriptor_t x, y;
	cudnnConvolutionDescriptor_t window; /* its math is set before each use */
};

struct cuda_conv {
	struct shape s;
	struct image in, out;      /* for cuDNN: with the channels of the padding */
	void *padded_x, *padded_y; /* NULL: not padded */
	cudnnFilterDescriptor_t filter;
	struct conv_plan *plan;
	size_t plans;
	/* Copies of weights and their gradient for cuDNN: in bf16, padded, or because the
	 * parameters are not on a 16-byte boundary. NULL until needed. */
	void *weight, *dweight;
	const float *weight_of; /* the weights whose copy is in weight; NULL: none */
	uint64_t weight_at;     /* cuda->written at the time of the copy */
	size_t body;            /* the last body that used the copy */
	float *dweight_to;      /* where dweight must still be copied to; NULL: nowhere */
	struct cuda_conv *next; /* next convolution of the device */
};

static inline size_t conv_weights(const struct cuda_conv *v)
{
	return v->out.channels * v->s.window.size * v->s.window.size * v->in.channels;
}

/* The number of channels, rounded up for matrix units. */
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

/* float32 uses no matrix units that round. */
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

/* Queues out = the convolution of a and b + beta out, with this choice; work: its workspace. */
cudnnStatus_t conv_run(struct device *d, const struct cuda_conv *v, const struct conv_plan *p,
		       enum direction k, const struct conv_choice *how, const void *a,
		       const void *b, float beta, void *work, void *out);
/* The algorithm for this direction, chosen at the first call, which may not be during a capture. a,
 * b: its inputs. Algorithm -1: cuDNN has none, but padding is possible. The next call may move the
 * result. */
const struct conv_choice *conv_choice_of(struct device *d, struct cuda_conv *v, struct conv_plan *p,
					 enum direction k, const void *a, const void *b);

#endif
