/*
 * layers.h - what the files of a net share: layers.c stacks layers, lays them out and runs them;
 * layers_linear.c has linear and elementwise layers, layers_image.c layers of images,
 * layers_sequence.c layers of sequences of tokens.
 */
#ifndef LAYERS_H
#define LAYERS_H

#include "workloads/net.h"

struct layer {
	struct net *net;
	const struct layer_kind *kind;
	size_t number;  /* among all layers */
	size_t in, out; /* width of a row on this worker */
	size_t width;   /* out, where it is known when layers are stacked; 0: in, or kind->place */
	struct image from, to; /* the same as images; all 0 if rows are not images */
	struct vec *x, *y;     /* [rows x in], [rows x out]; the same when in place */
	struct vec *dx, *dy;   /* likewise; dx NULL: no layer below needs it */
	enum init init;        /* of the parameters, if any */
	double flops;          /* of a row, forward, of the whole layer */
	double own;          /* of these, on this worker and not in matrix products of the device */
	size_t params, held; /* parameters of the whole layer, 0 = none; those on this worker */
	size_t buffers;      /* floats of w->model->buffer */
	size_t index;        /* among the layers with parameters */
	size_t first, running_at; /* where they begin in param, and its part of w->model->buffer */
	bool relu;                /* y = max(0, y): a ReLU, or one fused into this layer */

	struct linear linear;
	struct window window;
	struct conv *conv;
	struct pool *pool;
	struct norm *norm;
	/* Slices of param and grad, may be empty; a norm's scale is weight. */
	struct vec *weight, *bias, *dweight, *dbias;
	struct vec *running; /* of a norm */
	struct attention *attention;
	size_t head_width; /* of an attention */
	struct vec *stat;  /* of a layer normalisation */
	float drop;        /* probability */
	uint64_t salt;

	/* A residual block: its first layer opens it, its last one, a norm, joins the shortcut. */
	bool opens, joins;
	size_t other;  /* number of the layer at the other end of the block */
	size_t stride; /* of the shortcut, in the layer that joins; 0: the identity */

	struct slot_buffer *dy_slot, *dx_slot; /* the net's, for dy and dx; NULL: none */
};

/* A kind of layer. forward and backward are called in every step; the rest once. */
struct layer_kind {
	bool elementwise; /* in place; does not end a chain of linear layers: */
	bool chains;      /* nor does this, which works on any part of a split row */
	bool needs_y;     /* backward needs all of y; after a ReLU it only needs */
	bool keeps_sign;  /* which floats are above 0, and this layer keeps that */
	bool fuses_relu;  /* forward also applies a ReLU */
	bool dx_is_dy;    /* backward works in place, except in a norm that joins */
	bool spared;      /* --decay=weights does not shrink its parameters */
	bool linear;      /* it can be split over workers, and a loss can follow */
	bool tied;        /* a linear layer with the embedding's weights: a loss can follow */
	bool multiplies;  /* its flops are matrix products of the device (vec_gemm) */
	/* Where the parameters held here lie in the whole layer, from `first` on; NULL = as here */
	void (*places)(const struct layer *l, size_t first, size_t *place);
	void (*place)(struct layer *l); /* sets in, out and held; NULL = as above */
	/* Called when parameters exist: takes slices, draws values, prepares the device. NULL =
	 * nothing */
	void (*attach)(struct layer *l);
	void (*forward)(struct layer *l, size_t rows);
	void (*backward)(struct layer *l, size_t rows);
};

/* A vector that gradients of activations use in turn. */
struct slot_buffer {
	size_t width; /* of a row */
	bool taken;   /* while slots are assigned */
	struct vec *vec;
};

struct net {
	struct worker *w;
	const struct data *sample; /* until the net is finished */
	size_t features;
	struct transform transform; /* of training; evaluation only subtracts the mean */
	struct layer *layer;
	size_t layers;
	enum loss loss;
	size_t outputs;        /* width of the last layer stacked so far, */
	struct image image;    /* and the same as an image; all 0: not an image */
	size_t places;         /* rows of activations per row of data: tokens of a sequence, or 1 */
	size_t tokens;         /* number of different ones; 0: rows are not sequences */
	bool tied;             /* the embedding's gradient is added to that of the last layer */
	size_t fork;           /* number of the layer that opens the current block; or NO_FORK */
	struct tensor *tensor; /* in net_finish: tensors of the layers so far */
	size_t tensors;
	double other_flops;         /* of a row on this worker, of layers that do not multiply */
	size_t rows_max, rows_grad; /* of data, in a forward pass, in a backward pass */
	struct vec *input, *target; /* [rows_max x features], [rows_max x places] */
	struct slot_buffer *slot;
	size_t slots;
	size_t shortcut_width;
	struct vec *shortcut; /* [rows_max x shortcut_width]: option A, used at once; may be NULL */
	bool training;        /* the current forward pass is for training */
};
#define NO_FORK SIZE_MAX

extern const struct layer_kind kind_linear, kind_conv, kind_norm, kind_layer_norm;

void *net_zeroed(size_t n, size_t size); /* never NULL */
struct layer *net_push(struct net *net, const struct layer_kind *kind);
/* The layer's parameters and their gradients: weights, as a matrix of `rows` rows (0: no matrix),
 * then biases. */
void net_slices(struct layer *l, size_t rows, size_t weights, size_t biases);
/* Draws the parameters of a layer with `inputs` inputs: the first `weights` of the whole layer, or
 * all with INIT_UNIFORM. The others are 0. */
void net_draw(struct layer *l, size_t inputs, size_t weights);
/* Fills the first half of v with a, and the second with b. */
void net_halves(struct vec *v, float a, float b);

#endif
