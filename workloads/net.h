/*
 * net.h - what a model may use besides mvbench.h: layers' arithmetic, images, data sets, and nets,
 * which stack layers.
 */
#ifndef NET_H
#define NET_H

#include "mvbench.h"
#include "workloads/linear.h"

#pragma GCC visibility push(default) /* as in mvbench.h */

struct conv; /* a convolution, pooling, batch normalisation or attention of one */
struct pool; /* shape, prepared on a device */
struct norm;
struct attention;

/* ---- Layers' arithmetic, as vec_ functions of mvbench.h ---- */

void vec_relu(struct vec *y, size_t n);                            /* the first n floats */
void vec_relu_grad(struct vec *dy, const struct vec *y, size_t n); /* dy = 0 where y = 0 */
void vec_tanh(struct vec *y, size_t n);
void vec_tanh_grad(struct vec *dy, const struct vec *y, size_t n); /* dy *= 1 - y^2 */
/* y += x; the first n floats of activations. */
void vec_add(struct vec *y, const struct vec *x, size_t n);
/* y = x Phi(x), Phi of the normal distribution (Hendrycks, Gimpel, arXiv 1606.08415). Not in place,
 * because the gradient needs x: dy *= Phi(x) + x phi(x). */
void vec_gelu(struct vec *y, const struct vec *x, size_t n);
void vec_gelu_grad(struct vec *dy, const struct vec *x, size_t n);
/* z[rows x n] holds predictions and gets the gradient of the summed loss / over (the gradient of
 * the mean for over = rows). The summed loss and the correct answers are added to the worker's
 * tally. target: class numbers [rows], or values [rows x n]; data sets have one value a row, with n
 * = 1. */
void vec_softmax_xent(struct vec *z, const struct vec *target, size_t rows, size_t n, float over);
void vec_mse(struct vec *z, const struct vec *target, size_t rows, size_t n, float over);
/* y[i] = 0 with probability p, otherwise y[i] / (1 - p). The random numbers depend on the step's
 * key, the salt and i: a second call in the same step drops the same floats. 0 <= p < 1. */
void vec_dropout(struct vec *y, size_t n, float p, uint64_t salt);

/* ---- Images: rows of [height x width x channels], the channel running fastest (NHWC). ---- */

struct image {
	size_t height, width, channels;
};

static inline size_t image_size(struct image m)
{
	return m.height * m.width * m.channels;
}

/* Number of pixels of n when every stride-th is taken. */
static inline size_t strided(size_t n, size_t stride)
{
	return (n + stride - 1) / stride;
}

/* A square that slides over an image with `pad` more pixels on each side. */
struct window {
	size_t size, stride, pad; /* [pixels] */
};

/* The image that a window's places give, with these channels. The window must fit. */
struct image image_after(struct image in, struct window win, size_t channels);

/*
 * Convolution: y[h][w][o] = b[o] + sum_{i,j,c} x[h s - pad + i][w s - pad + j][c] W[o][i][j][c],
 * with zeros outside of x. W[O x size x size x C], b[O] or NULL. relu: y = max(0, y); the backward
 * functions then need dy masked already (vec_relu_grad). Cost: 2 B h w O size^2 C flops each.
 * rows_max: the most rows of a call. The first call with a number of rows prepares the device for
 * it.
 */
struct conv *conv_new(struct worker *w, struct image in, size_t out, struct window win, bool bias,
		      bool relu, size_t rows_max);
void conv_free(struct conv *c);
void conv_forward(struct conv *c, struct vec *y, const struct vec *x, const struct vec *weight,
		  const struct vec *bias, size_t rows);
void conv_backward_weight(struct conv *c, struct vec *dweight, struct vec *dbias,
			  const struct vec *x, const struct vec *dy, size_t rows);
/* dx = ..., or, with `add`, dx += ... */
void conv_backward_data(struct conv *c, struct vec *dx, const struct vec *dy,
			const struct vec *weight, bool add, size_t rows);

/* Pooling of each window: the largest value (padding never wins), or the mean (over size x size,
 * padding counted as zeros; pad is 0 where it is used). The first of equal values gets the
 * gradient. */
struct pool *pool_new(struct worker *w, struct image in, struct window win, bool average,
		      size_t rows_max);
void pool_free(struct pool *p);
void pool_forward(struct pool *p, struct vec *y, const struct vec *x, size_t rows);
/* Call after the forward of the same rows. */
void pool_backward(struct pool *p, struct vec *dx, const struct vec *dy, const struct vec *x,
		   const struct vec *y, size_t rows);

/*
 * Batch normalisation (Ioffe, Szegedy, arXiv 1502.03167) of each channel over B h w values:
 *   y = f(gamma (x - mean) / sqrt(var + NORM_EPSILON) + beta + add),  f: max(0, .) with relu
 * training: mean and (biased) variance of these rows, and running = (1 - NORM_ALPHA) running +
 * NORM_ALPHA of them; otherwise the running ones. scale[2 C]: gamma, then beta. running[2 C]: mean,
 * then variance. add [as y], with `adds` only: a residual block's shortcut.
 */
#define NORM_EPSILON 1e-4f /* both as in Multiverso's experiment (Lasagne's defaults) */
#define NORM_ALPHA   0.1f
struct norm *norm_new(struct worker *w, struct image in, bool relu, bool adds, size_t rows_max);
void norm_free(struct norm *m);
void norm_forward(struct norm *m, struct vec *y, const struct vec *x, const struct vec *add,
		  const struct vec *scale, struct vec *running, bool training, size_t rows);
/* Call after the training forward of the same rows, with its y and x. With `adds`, dy becomes the
 * gradient of add (dy masked by relu) and dx is another vector; otherwise dx may be dy itself. */
void norm_backward(struct norm *m, struct vec *dx, struct vec *dscale, struct vec *dy,
		   const struct vec *x, const struct vec *y, const struct vec *scale, size_t rows);

/* ---- Sequences: a row of data is `places` tokens; a row of activations is one token. Tokens are
 * ordered place by place; `rows` below is places times the rows of data. ---- */

/* y[rows x n] = table[token[r]] + place[r % places]: table[tokens x n], place[places x n]; token:
 * whole numbers below `tokens`, as floats. */
void vec_embed(struct vec *y, const struct vec *token, const struct vec *table,
	       const struct vec *place, size_t rows, size_t tokens);
/* dplace = sum of dy at each place; dtable = sum of dy of each token, or with `add`: adds it. */
void vec_embed_grad(struct vec *dtable, struct vec *dplace, const struct vec *dy,
		    const struct vec *token, size_t rows, size_t tokens, bool add);
/*
 * Layer normalisation (Ba, Kiros, Hinton, arXiv 1607.06450) of each row of x[rows x n]:
 *   y = gamma e + beta,  e = (x - mean) / sqrt(var + LAYER_NORM_EPSILON), var biased
 * scale[2 n]: gamma, then beta; stat[2 rows] gets mean and 1 / sqrt(...) for the gradient, which is
 *   dbeta = sum_r dy, dgamma = sum_r dy e; with g = gamma dy: dx = (g - mean(g) - e mean(g e)) /
 * sqrt(...), or with `add`: dx += that.
 */
#define LAYER_NORM_EPSILON 1e-5f /* PyTorch's */
void vec_layer_norm(struct vec *y, struct vec *stat, const struct vec *x, const struct vec *scale,
		    size_t rows);
void vec_layer_norm_grad(struct vec *dx, struct vec *dscale, const struct vec *dy,
			 const struct vec *x, const struct vec *stat, const struct vec *scale,
			 size_t rows, bool add);
/*
 * Causal attention (Vaswani et al., arXiv 1706.03762) of heads side by side, over x[places][heads]
 * [q, k, v of `width` floats each], y[places][heads][width]:
 *   y_i = sum_{j <= i} p_ij v_j,  p_i = softmax_{j <= i}(q_i k_j / sqrt(width))
 * rows and rows_max: of data. Cost, B rows: 4 B heads places^2 width flops forward, 10 backward;
 * B heads places^2 floats are kept between the two.
 */
struct attention *attention_new(struct worker *w, size_t places, size_t heads, size_t width,
				size_t rows_max);
void attention_free(struct attention *a);
void attention_forward(struct attention *a, struct vec *y, const struct vec *x, size_t rows);
/* Call after the forward of the same rows. */
void attention_backward(struct attention *a, struct vec *dx, const struct vec *dy,
			const struct vec *x, size_t rows);

/* The shortcut without parameters (He et al., option A): every stride-th pixel, with (O - C) / 2
 * zero channels before and the same number after: y[h][w][c + (O - C) / 2] = x[h s][w s][c]. */
void vec_shortcut(struct vec *y, const struct vec *x, struct image in, size_t stride, size_t out,
		  size_t rows);
/* dx = its gradient: zero at pixels that no y uses. */
void vec_shortcut_grad(struct vec *dx, const struct vec *dy, struct image in, size_t stride,
		       size_t out, size_t rows);

/* ---- Data: rows of a training or test set, in host memory, one copy a process. ---- */

struct data {
	size_t n, features;
	size_t classes;       /* 0 = regression: target has one value a row */
	bool uncounted;       /* of classes, but nothing counts correct answers */
	struct image image;   /* of a row; all 0 if rows are not images */
	size_t value_size;    /* of a value in memory [bytes]; known before there are values */
	bool tokens;          /* a value is the byte itself: one of `classes` */
	bool ordered;         /* the order of rows matters: --validation takes the last ones */
	size_t targets;       /* of a row, one for each of its values; 0 = one for the row */
	const uint8_t *bytes; /* [n x features], a value is byte/255; or NULL and */
	const float *floats;  /* [n x features] */
	const float *target;  /* [n], or [n x targets]: class numbers or values */
};

static inline size_t data_targets(const struct data *d)
{
	return d->targets ? d->targets : 1;
}

/* Number of classes of a row; 0 = rows have no class. */
static inline size_t data_classes(const struct data *d)
{
	return d->targets ? 0 : d->classes;
}

/* Does a model of these rows have an accuracy? */
static inline bool data_is_counted(const struct data *d)
{
	return d->classes && !d->uncounted;
}

struct dataset {
	const char *name, *summary;
	const char *needs; /* what the user has to install or give; NULL = nothing */
	/* Finds the set without reading all of it: fills n, features and classes of both parts.
	 * Returns NULL, or a message (heap) that says what is wrong. */
	char *(*probe)(const struct run *run, struct data *train, struct data *test);
	/* Reads the set into writable memory: --validation changes the order of rows. Returns NULL
	 * or a message, as probe does; in both cases the caller frees with unload. */
	char *(*load)(const struct run *run, struct data *train, struct data *test);
	void (*unload)(struct data *train, struct data *test);
	bool of_machine; /* without --data-dir, too, its content is that of files of the machine */
	bool of_seed;    /* unless --data-dir has the rows, they are made from the seed */
	/* The hash of the content of the rows, if they are not in struct data; as data_hash_find.
	 * NULL = the rows are there. */
	const char *(*identity)(const struct run *run);
};

/* The sets that data() of a Python file returns, as an archive of NumPy: an open file, which the
 * caller closes, or -1. *wrong: NULL, or a message. */
int data_of_python(const char *file, char **wrong);

/* How an image is changed when it is loaded: the mean image is subtracted; for training, it is also
 * moved by up to `pad` pixels each way (zeros come in) and mirrored at random. Both are drawn from
 * key and the row's number, and do not depend on the worker that takes the row. */
struct transform {
	struct image image;
	const float *mean; /* [features], NULL = 0 */
	size_t pad;        /* [pixels] */
	bool flip;
	uint64_t key; /* of the epoch */
};

/* x[count x features] and y[count x targets] get the rows whose numbers are in index, as they are
 * if t is NULL or has neither mean, pad nor flip. */
void data_gather(struct worker *w, const struct data *d, const int32_t *index, size_t count,
		 const struct transform *t, struct vec *x, struct vec *y);

/* ---- The layout of a worker's model, which a workload's init defines ---- */

struct layout {
	size_t params;       /* floats of param on this worker, */
	int64_t whole;       /* and of the whole model, if workers share it; 0 = the same */
	size_t layers;       /* number of layers with parameters */
	const size_t *layer; /* [layers + 1]: where each begins in param, and the last ends */
	size_t buffers;      /* floats of buffer */
	const double *flops; /* [layers + 1], see struct worker; NULL = unknown */
	/* On a device that uses the host's memory: where param, grad and buffer are, in zeroed
	 * memory that the workload frees after fini. NULL = the device allocates them. */
	float *const *host;
};
/* Call once, before anything else: makes param, grad, buffer and what the optimiser keeps, zeroed;
 * model_close frees them. layer and flops are copied. */
void model_layout(struct worker *w, const struct layout *l);
/* The tensors of param, in order and without a gap; copied. Without this call param is one tensor
 * that is not a matrix. */
void model_tensors(struct worker *w, const struct tensor *tensor, size_t n);

/* ---- Workloads: workloads/NAME.c defines workload_NAME; workloads/workload.c lists it. ---- */

struct workload {
	struct plugin plugin;
	const struct dataset *dataset;
	const struct setting *recipe; /* its own defaults; ends at name NULL */
	size_t state_size;            /* of worker->model, the workload's own [bytes], zeroed */
	/* NULL, or a message (heap): why it refuses this configuration. The slot is NULL if it
	 * refuses none. */
	char *(*refuse)(const struct run *run, const void *opts);
	/* Cuts the data set's rows into its own rows, in place; set may be only a shape. Returns
	 * NULL or a message, as refuse does. The slot is NULL if rows stay as they are. */
	char *(*cut)(const void *opts, struct data *set);
	/* gradient computes on the host, between vec_get and vec_put: it is called in every step,
	 * and devices keep none of its operations. If it computes on the host and this is not set,
	 * a GPU that keeps operations fails or repeats the first mini-batch's results
	 * (--check-promises detects it). --device=auto is then the host's. */
	bool host;
	/* gradient calls layer_needed(w, i) before it reads the parameters of layer i. Otherwise
	 * all of them are made ready before the gradient. */
	bool by_layer;
	/* Makes the model: calls model_layout, and sets param's first values, equal on all ranks.
	 * sample: shape of the data. */
	void (*init)(struct worker *w, const struct data *sample);
	/* Loads the mini-batch w->index. */
	void (*load)(struct worker *w);
	/* Fills grad with the gradient of its rows' loss, summed and divided by w->mean_rows (0: by
	 * their number); adds to the tally. Calls layer_ready(w, i) when it leaves layer i, from
	 * the last to the first; otherwise a strategy sends unfinished gradients, or waits for ever
	 * (--check-promises). Does the same for every mini-batch with the same number of rows and
	 * mean_rows: a device may keep the operations and repeat them without a call. */
	void (*gradient)(struct worker *w);
	/* Adds loss and correct answers of the rows index[0] to index[rows - 1] of set, whose rows
	 * have w->train's shape, to the tally. */
	void (*evaluate)(struct worker *w, const struct data *set, const int32_t *index,
			 size_t rows);
	/* Sets w->model->buffer to the statistics of these training rows alone, as one mini-batch,
	 * with the current weights; adds to the tally. Not called without a buffer. */
	void (*statistics)(struct worker *w, const int32_t *index, size_t rows);
	/* Computes a gradient of the mini-batch w->index, and measures it as struct layout's flops
	 * count it: s[i] = time of the backward pass of layer i, s[layers] = of the forward pass
	 * [s]. False = not known. The slot is NULL: a simulated step is divided by flops. */
	bool (*layer_times)(struct worker *w, double *s);
	/* NULL, or a message: can the linear layers be split over the model group as
	 * w->loop->strategy needs? The slot is NULL if there are no linear layers: strategies that
	 * split are refused.
	 */
	char *(*split)(const struct worker *w);
	/* Place of each float of param in the whole model: place[len of param]. NULL = all of it is
	 * here, in the order of param. */
	void (*places)(const struct worker *w, size_t *place);
	void (*fini)(struct worker *w);
};
extern const struct workload *const workloads[]; /* ends at NULL */
#define EVALUATE_ROWS 256                        /* the most rows of one evaluate */

void layer_ready(struct worker *w, size_t i);  /* tells the strategy, if it needs to know */
void layer_needed(struct worker *w, size_t i); /* lets the strategy make it ready */

/* ---- Nets: a stack of layers, which a workload's init builds ---- */

/* 0; U(+-1/sqrt I), bias too; N(0, 2/I), bias 0; N(0, 0.02^2), or 1 / (number of joins) of that
 * variance in a layer that joins, as GPT-2's residual layers, bias 0 */
enum init { INIT_ZERO, INIT_UNIFORM, INIT_HE, INIT_SMALL };
enum loss { LOSS_XENT, LOSS_MSE };

struct net *net_new(struct worker *w, const struct data *sample);
/* Subtracts the mean image of the training set. */
void net_center(struct net *net);
/* In training, moves images by up to `pad` pixels each way, and mirrors them at random. */
void net_augment(struct net *net, size_t pad);
/* A convolution with `out` channels and windows of win, with or without bias. A net_relu after it,
 * or after a batch norm, costs no pass of its own. */
void net_conv(struct net *net, size_t out, struct window win, bool bias, enum init init);
void net_batch_norm(struct net *net);
void net_max_pool(struct net *net, struct window win);
void net_average_pool(struct net *net); /* of each channel over the whole image */
void net_dropout(struct net *net, double p);
/* The layers from the fork to the join are what a residual block adds to its input, which a
 * shortcut brings to the join (option A where the shapes differ). A join follows a batch
 * normalisation if the block begins with a convolution, or a linear layer if it begins with a layer
 * normalisation. */
void net_fork(struct net *net);
void net_join(struct net *net);
void net_linear(struct net *net, size_t out, enum init init);
/* The values of a row are tokens. From here on a layer's row is one token, of width n: the sum of a
 * vector of the token and one of the place, each of N(0, 0.02^2). Must be the lowest layer. */
void net_embedding(struct net *net, size_t n);
void net_layer_norm(struct net *net); /* of each row; can open a block that a linear layer joins */
/* Follows a linear layer with 3 n outputs, which are heads of [q, k, v] (attention_new). */
void net_attention(struct net *net, size_t heads);
void net_gelu(struct net *net);
void net_tied(struct net *net); /* y = x table^T, the embedding's table: scores of the next token */
void net_relu(struct net *net);
void net_tanh(struct net *net);
void net_finish(struct net *net, enum loss loss); /* lays out and fills param; sets w->model->net */
void net_load(struct worker *w);
void net_gradient(struct worker *w);
void net_evaluate(struct worker *w, const struct data *set, const int32_t *index, size_t rows);
void net_statistics(struct worker *w, const int32_t *index, size_t rows);
char *net_split(const struct worker *w);
void net_places(const struct worker *w, size_t *place);
void net_fini(struct worker *w);
/* The slots of a workload whose model is a net. */
#define NET_SLOTS \
	.by_layer = true, .load = net_load, .gradient = net_gradient, .evaluate = net_evaluate, \
	.statistics = net_statistics, .split = net_split, .places = net_places, .fini = net_fini

#pragma GCC visibility pop
#endif
