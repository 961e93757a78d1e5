/*
 * net.h - everything that a model may know beside mvbench.h: layers' arithmetic, images, data sets,
 * and nets, which stack layers.
 */
#ifndef NET_H
#define NET_H

#include "mvbench.h"

struct conv; /* a convolution, a pooling or a batch normalisation of one shape, */
struct pool; /* prepared on a device */
struct norm;

/* ---- Layers' arithmetic, as vec_ functions of mvbench.h ---- */

void vec_relu(struct vec *y, size_t n);                            /* the first n floats */
void vec_relu_grad(struct vec *dy, const struct vec *y, size_t n); /* dy = 0 where y = 0 */
void vec_tanh(struct vec *y, size_t n);
void vec_tanh_grad(struct vec *dy, const struct vec *y, size_t n); /* dy *= 1 - y^2 */
/* z[rows x n] holds predictions and gets the gradient of the summed loss / over, its mean for over
 * = rows; the summed loss and the correct answers go to the worker's tally. target: class numbers
 * [rows], values [rows x n]; a data set has one value a row, so that n is 1 there. */
void vec_softmax_xent(struct vec *z, const struct vec *target, size_t rows, size_t n, float over);
void vec_mse(struct vec *z, const struct vec *target, size_t rows, size_t n, float over);
/* y[i] = 0 with probability p, else y[i] / (1 - p); drawn from the step's key, the salt and i, so
 * that a second call in the same step drops the same. 0 <= p < 1. */
void vec_dropout(struct vec *y, size_t n, float p, uint64_t salt);

/* ---- Images: rows of [height x width x channels], the channel running fastest (NHWC). ---- */

struct image {
	size_t height, width, channels;
};

static inline size_t image_size(struct image m)
{
	return m.height * m.width * m.channels;
}

/* What is left of n pixels when every stride-th is taken. */
static inline size_t strided(size_t n, size_t stride)
{
	return (n + stride - 1) / stride;
}

/* A square that slides over an image with `pad` more pixels on each side. */
struct window {
	size_t size, stride, pad; /* [pixels] */
};

/* What comes out of a window's places; channels as given. The window must fit. */
struct image image_after(struct image in, struct window win, size_t channels);

/*
 * Convolution: y[h][w][o] = b[o] + sum_{i,j,c} x[h s - pad + i][w s - pad + j][c] W[o][i][j][c],
 * and zeros stand outside of x. W[O x size x size x C], b[O] or NULL. relu: y = max(0, y); the
 * backward functions then want dy already masked (vec_relu_grad). Cost: 2 B h w O size^2 C flops
 * each. rows_max: the most rows of a call. What a number of rows needs is prepared when it comes
 * first.
 */
struct conv *conv_new(struct worker *w, struct image in, size_t out, struct window win, bool bias,
		      bool relu, size_t rows_max);
void conv_free(struct conv *c);
void conv_forward(struct conv *c, struct vec *y, const struct vec *x, const struct vec *weight,
		  const struct vec *bias, size_t rows);
void conv_backward_weight(struct conv *c, struct vec *dweight, struct vec *dbias,
			  const struct vec *x, const struct vec *dy, size_t rows);
/* dx = ..., or with `add`: dx += ... */
void conv_backward_data(struct conv *c, struct vec *dx, const struct vec *dy,
			const struct vec *weight, bool add, size_t rows);

/* Pooling: the largest (padding never wins) or the mean (of size x size, padding counted as zeros;
 * pad is 0 where it is used) of each window. The first among equals gets the gradient. */
struct pool *pool_new(struct worker *w, struct image in, struct window win, bool average,
		      size_t rows_max);
void pool_free(struct pool *p);
void pool_forward(struct pool *p, struct vec *y, const struct vec *x, size_t rows);
/* After the forward of the same rows. */
void pool_backward(struct pool *p, struct vec *dx, const struct vec *dy, const struct vec *x,
		   const struct vec *y, size_t rows);

/*
 * Batch normalisation (Ioffe, Szegedy, arXiv 1502.03167) of each channel over B h w values:
 *   y = f(gamma (x - mean) / sqrt(var + NORM_EPSILON) + beta + add),  f: max(0, .) with relu
 * training: mean and (biased) variance of these rows, and running = (1 - NORM_ALPHA) running +
 * NORM_ALPHA of them; else the running ones. scale[2 C]: gamma, then beta. running[2 C]: mean, then
 * variance. add [as y], with `adds` only: a residual block's shortcut.
 */
#define NORM_EPSILON 1e-4f /* these two: Multiverso's experiment (Lasagne's defaults) */
#define NORM_ALPHA   0.1f
struct norm *norm_new(struct worker *w, struct image in, bool relu, bool adds, size_t rows_max);
void norm_free(struct norm *m);
void norm_forward(struct norm *m, struct vec *y, const struct vec *x, const struct vec *add,
		  const struct vec *scale, struct vec *running, bool training, size_t rows);
/* After the training forward of the same rows; y and x are its. With `adds`, dy becomes the
 * gradient of add (dy masked by relu) and dx is another vector; else dx may be dy itself. */
void norm_backward(struct norm *m, struct vec *dx, struct vec *dscale, struct vec *dy,
		   const struct vec *x, const struct vec *y, const struct vec *scale, size_t rows);

/* The shortcut that has no parameters (He et al., option A): every stride-th pixel, with as many
 * zero channels before (O - C) / 2 as after: y[h][w][c + (O - C) / 2] = x[h s][w s][c]. */
void vec_shortcut(struct vec *y, const struct vec *x, struct image in, size_t stride, size_t out,
		  size_t rows);
/* dx = its gradient: zero where no y came from. */
void vec_shortcut_grad(struct vec *dx, const struct vec *dy, struct image in, size_t stride,
		       size_t out, size_t rows);

/* ---- Data: rows of a training or test set, in host memory, one copy a process. ---- */

struct data {
	size_t n, features;
	size_t classes;       /* 0 = regression: target holds one value a row */
	struct image image;   /* of a row; all 0 where rows are no images */
	size_t value_size;    /* of one in memory [bytes]; known before there are any */
	const uint8_t *bytes; /* [n x features], a value is byte/255; or NULL and */
	const float *floats;  /* [n x features] */
	const float *target;  /* [n]: class numbers or values */
};

struct dataset {
	const char *name, *summary;
	const char *needs; /* what to install or give; NULL = nothing */
	/* Finds the set without reading it whole: fills n, features and classes of both parts.
	 * Returns NULL, or a sentence from the heap that says what is wrong. */
	char *(*probe)(const struct run *run, struct data *train, struct data *test);
	/* Reads it, into memory that may be written: --validation changes the order of rows.
	 * Returns NULL or a sentence, as probe does; the caller frees with unload. */
	char *(*load)(const struct run *run, struct data *train, struct data *test);
	void (*unload)(struct data *train, struct data *test);
};

/* What is done to an image on its way in: the mean image is subtracted; then, for training, it is
 * moved by up to `pad` pixels each way (zeros come in) and mirrored at random. Which way is drawn
 * from key and the row's number, so that a row's fate does not depend on who draws it. */
struct transform {
	struct image image;
	const float *mean; /* [features], NULL = 0 */
	size_t pad;        /* [pixels] */
	bool flip;
	uint64_t key; /* of the epoch */
};

/* x[count x features] and y[count] get the rows whose numbers are in index; t may be NULL. */
void data_gather(struct worker *w, const struct data *d, const int32_t *index, size_t count,
		 const struct transform *t, struct vec *x, struct vec *y);

/* ---- Workloads: workloads/NAME.c defines workload_NAME; workloads/workload.c lists it. ---- */

struct workload {
	struct plugin plugin;
	const struct dataset *dataset;
	const struct setting *recipe; /* defaults of its own; ends at name NULL */
	/* Makes net, param and grad; equal on all ranks. sample: shape of the data. */
	void (*init)(struct worker *w, const struct data *sample);
	/* Brings in the mini-batch w->index. */
	void (*load)(struct worker *w);
	/* Fills grad with the gradient of its rows' loss, summed and divided by w->mean_rows (0: by
	 * as many as they are); adds to the tally. Calls layer_ready(w, i) as it leaves layer i.
	 * Does the same for every mini-batch of as many rows and the same mean_rows: a device may
	 * keep what it was asked to do, and do it again without asking. */
	void (*gradient)(struct worker *w);
	/* Loss and correct answers of the rows index[0] to index[rows - 1] of set, whose rows are
	 * of w->train's shape, go to the tally. */
	void (*evaluate)(struct worker *w, const struct data *set, const int32_t *index,
			 size_t rows);
	/* w->buffer = what these training rows alone make of it, as a mini-batch, with the weights
	 * as they are; adds to the tally. Not called without a buffer. */
	void (*statistics)(struct worker *w, const int32_t *index, size_t rows);
	/* NULL, or a sentence: can the linear layers be cut over the model group as w->strategy
	 * would have it? The slot is NULL where there are none: strategies that cut are refused. */
	char *(*split)(const struct worker *w);
	void (*fini)(struct worker *w);
};
extern const struct workload *const workloads[]; /* ends at NULL */
#define EVALUATE_ROWS 256                        /* the most rows that evaluate is given at once */

void layer_ready(struct worker *w, size_t i); /* tells the strategy, when it wants to know */

/* ---- Nets: a stack of layers, which a workload's init builds ---- */

enum init { INIT_ZERO, INIT_UNIFORM, INIT_HE }; /* 0; U(+-1/sqrt I), bias too; N(0, 2/I), bias 0 */
enum loss { LOSS_XENT, LOSS_MSE };

struct net *net_new(struct worker *w, const struct data *sample);
/* The mean image of the training set is subtracted. */
void net_center(struct net *net);
/* In training, images are moved by up to `pad` pixels each way, and mirrored at random. */
void net_augment(struct net *net, size_t pad);
/* out channels, by windows of win; bias or none. A net_relu on top of it, or of a batch norm, costs
 * no pass of its own. */
void net_conv(struct net *net, size_t out, struct window win, bool bias, enum init init);
void net_batch_norm(struct net *net);
void net_max_pool(struct net *net, struct window win);
void net_average_pool(struct net *net); /* of each channel over the whole image */
void net_dropout(struct net *net, double p);
/* From the fork to the join stands what a residual block adds to its input, which comes round by a
 * shortcut (option A where the shapes differ). A join follows a batch normalisation. */
void net_fork(struct net *net);
void net_join(struct net *net);
void net_linear(struct net *net, size_t out, enum init init);
void net_relu(struct net *net);
void net_tanh(struct net *net);
void net_finish(struct net *net, enum loss loss); /* lays out and fills param; sets w->net */
void net_load(struct worker *w);
void net_gradient(struct worker *w);
void net_evaluate(struct worker *w, const struct data *set, const int32_t *index, size_t rows);
void net_statistics(struct worker *w, const int32_t *index, size_t rows);
char *net_split(const struct worker *w);
void net_fini(struct worker *w);
/* The slots of a workload whose model is a net. */
#define NET_SLOTS \
	.load = net_load, .gradient = net_gradient, .evaluate = net_evaluate, \
	.statistics = net_statistics, .split = net_split, .fini = net_fini

#endif
