/*
 * layers_image.c - the layers that see rows of images [height x width x channels]: convolution,
 * pooling, batch normalisation, and the two ends of a residual block. The formulas are in
 * workloads/net.h; ReLUs on top are fused into a convolution or a normalisation.
 *
 * A residual block is y = f(x) + s(x): f the layers from the fork to the join, s the identity, or
 * option A where the shapes differ. The last layer of f is a normalisation, which adds s(x) and
 * applies the ReLU in the same pass. Backward, it turns its dy into the gradient of s(x), in place;
 * the first layer of f, a convolution, adds its dx to the gradient that comes through s.
 *
 * Cost, floats of B images: a convolution 2 B h w O k^2 C flops forward and in each of two backward
 * passes (one in the lowest), reading B H W C and writing B h w O; a normalisation reads its input
 * twice and writes it once forward, and reads 5 times as much and writes once backward; a pooling
 * reads its input and writes its output once.
 */
#include "workloads/layers.h"

#include <stdlib.h>

static struct layer *push_image(struct net *net, const struct layer_kind *kind)
{
	CHECK(image_size(net->image), "layer %zu needs images, and gets rows of %zu", net->layers,
	      net->outputs);
	return net_push(net, kind);
}

/* Sets the layer's output images. */
static void makes(struct net *net, struct layer *l, struct image to)
{
	l->to = net->image = to;
	net->outputs = image_size(to);
}

static void image_place(struct net *net, struct layer *l)
{
	(void)net;
	l->out = image_size(l->to);
}

/* ---- Convolution --------------------------------------------------------- */

static size_t fan_in(const struct layer *l)
{
	return l->window.size * l->window.size * l->from.channels;
}

static double conv_flops(const struct layer *l)
{
	return 2.0 * (double)image_size(l->to) * (double)fan_in(l);
}

static size_t conv_params(const struct layer *l)
{
	return l->to.channels * (fan_in(l) + l->with_bias);
}

static void conv_draw(struct net *net, struct layer *l)
{
	uint64_t rng = rng_seed(net->w->run->seed, STREAM_INIT, (int64_t)l->index);
	size_t n = vec_len(l->weight), all = conv_params(l);
	float *x = net_zeroed(all, sizeof *x);
	for (size_t i = 0; i < (l->init == INIT_HE ? n : all); i++)
		x[i] = net_draw(&rng, l->init, fan_in(l));
	vec_put(l->weight, x);
	if (l->with_bias)
		vec_put(l->bias, x + n);
	free(x);
}

static void conv_attach(struct net *net, struct layer *l)
{
	net_slices(net, l, l->to.channels, l->to.channels * fan_in(l), l->to.channels,
		   l->with_bias);
	l->conv = conv_new(net->w, l->from, l->to.channels, l->window, l->with_bias, l->relu,
			   net->rows_max);
	if (l->init != INIT_ZERO && vec_has_data(net->w->param))
		conv_draw(net, l);
}

static void conv_layer_forward(struct worker *w, struct layer *l, size_t rows)
{
	(void)w;
	conv_forward(l->conv, l->y, l->x, l->weight, l->bias, rows);
}

static void conv_layer_backward(struct worker *w, struct layer *l, size_t rows)
{
	if (l->relu)
		vec_relu_grad(l->dy, l->y, rows * l->out);
	conv_backward_weight(l->conv, l->dweight, l->dbias, l->x, l->dy, rows);
	if (!l->dx)
		return;
	if (l->opens) {
		const struct layer *join = &w->net->layer[l->other];

		if (l->dx != join->dy) /* otherwise dx already holds the gradient of the shortcut */
			vec_shortcut_grad(l->dx, join->dy, l->from, join->stride, join->to.channels,
					  rows);
	}
	conv_backward_data(l->conv, l->dx, l->dy, l->weight, l->opens, rows);
}

const struct layer_kind kind_conv = {
	.fuses_relu = true,
	.flops = conv_flops,
	.params = conv_params,
	.place = image_place,
	.attach = conv_attach,
	.forward = conv_layer_forward,
	.backward = conv_layer_backward,
};

void net_conv(struct net *net, size_t out, struct window win, bool bias, enum init init)
{
	struct layer *l = push_image(net, &kind_conv);
	CHECK(out > 0, "a convolution without outputs");
	l->window = win;
	l->with_bias = bias;
	l->init = init;
	makes(net, l, image_after(l->from, win, out));
}

/* ---- Batch normalisation ------------------------------------------------- */

static size_t norm_params(const struct layer *l)
{
	return 2 * l->from.channels;
}

static void norm_attach(struct net *net, struct layer *l)
{
	struct worker *w = net->w;
	size_t c = l->from.channels;
	float *x = net_zeroed(2 * c, sizeof *x);
	net_slices(net, l, 0, 2 * c, 0, false);
	l->running = vec_slice(w->buffer, l->running_at, 2 * c);
	l->norm = norm_new(w, l->from, l->relu, l->joins, net->rows_max);
	for (size_t i = 0; i < c; i++)
		x[i] = 1; /* gamma */
	vec_put(l->weight, x);
	for (size_t i = 0; i < c; i++) {
		x[i] = 0; /* mean */
		x[c + i] = 1;
	}
	vec_put(l->running, x);
	free(x);
}

/* The output s(x) of the shortcut of the block that ends here. */
static const struct vec *shortcut_output(struct net *net, const struct layer *l, size_t rows)
{
	const struct layer *fork = &net->layer[l->other];
	if (!l->stride)
		return fork->x;
	vec_shortcut(net->shortcut, fork->x, fork->from, l->stride, l->to.channels, rows);
	return net->shortcut;
}

static void norm_layer_forward(struct worker *w, struct layer *l, size_t rows)
{
	const struct vec *add = l->joins ? shortcut_output(w->net, l, rows) : NULL;
	norm_forward(l->norm, l->y, l->x, add, l->weight, l->running, w->net->training, rows);
}

static void norm_layer_backward(struct worker *w, struct layer *l, size_t rows)
{
	(void)w;
	norm_backward(l->norm, l->dx, l->dweight, l->dy, l->x, l->y, l->weight, rows);
}

const struct layer_kind kind_norm = {
	.needs_y = true,
	.fuses_relu = true,
	.dx_is_dy = true,
	.spared = true,
	.params = norm_params,
	.buffers = norm_params,
	.place = image_place,
	.attach = norm_attach,
	.forward = norm_layer_forward,
	.backward = norm_layer_backward,
};

void net_batch_norm(struct net *net)
{
	struct layer *l = push_image(net, &kind_norm);
	makes(net, l, l->from);
}

/* ---- Residual blocks ----------------------------------------------------- */

void net_fork(struct net *net)
{
	CHECK(net->fork == NO_FORK, "layer %zu: a fork inside of a block", net->layers);
	net->fork = net->layers;
}

/* The stride of the shortcut of a block of images; 0: the identity. */
static size_t image_stride(const struct net *net, struct image from, struct image to)
{
	bool same =
		from.height == to.height && from.width == to.width && from.channels == to.channels;
	size_t stride = (from.height + to.height - 1) / to.height;
	CHECK(strided(from.height, stride) == to.height &&
		      strided(from.width, stride) == to.width && from.channels <= to.channels,
	      "layer %zu: no shortcut from %zu x %zu x %zu to %zu x %zu x %zu", net->layers,
	      from.height, from.width, from.channels, to.height, to.width, to.channels);
	return same ? 0 : stride;
}

void net_join(struct net *net)
{
	struct layer *l = net->layers ? &net->layer[net->layers - 1] : NULL, *open;
	CHECK(net->fork < net->layers, "layer %zu: a join without a fork", net->layers);
	open = &net->layer[net->fork];
	bool image = open->kind == &kind_conv;
	CHECK(image || open->kind == &kind_layer_norm,
	      "layer %zu: a block begins with a convolution or a layer normalisation", net->fork);
	CHECK(image ? l->kind == &kind_norm && !l->relu : l->kind == &kind_linear,
	      "layer %zu: a join follows %s", net->layers,
	      image ? "a batch normalisation without a ReLU" : "a linear layer");
	open->opens = l->joins = true;
	open->other = l->number;
	l->other = open->number;
	l->stride = image ? image_stride(net, open->from, l->to) : 0;
	if (l->stride && net->shortcut_width < image_size(l->to))
		net->shortcut_width = image_size(l->to);
	net->fork = NO_FORK;
}

/* ---- Pooling ------------------------------------------------------------- */

static void pool_attach(struct net *net, struct layer *l)
{
	l->pool = pool_new(net->w, l->from, l->window, !l->kind->needs_y, net->rows_max);
}

static void pool_layer_forward(struct worker *w, struct layer *l, size_t rows)
{
	(void)w;
	pool_forward(l->pool, l->y, l->x, rows);
}

static void pool_layer_backward(struct worker *w, struct layer *l, size_t rows)
{
	(void)w;
	pool_backward(l->pool, l->dx, l->dy, l->x, l->y, rows);
}

static const struct layer_kind kind_max_pool = {
	.needs_y = true, /* shows which input was the largest */
	.place = image_place,
	.attach = pool_attach,
	.forward = pool_layer_forward,
	.backward = pool_layer_backward,
};

static const struct layer_kind kind_average_pool = {
	.place = image_place,
	.attach = pool_attach,
	.forward = pool_layer_forward,
	.backward = pool_layer_backward,
};

void net_max_pool(struct net *net, struct window win)
{
	struct layer *l = push_image(net, &kind_max_pool);
	l->window = win;
	makes(net, l, image_after(l->from, win, l->from.channels));
}

void net_average_pool(struct net *net)
{
	struct layer *l = push_image(net, &kind_average_pool);
	struct image in = l->from;
	CHECK(in.height == in.width, "an average pool of %zu x %zu", in.height, in.width);
	l->window = (struct window){.size = in.height, .stride = 1};
	makes(net, l, (struct image){1, 1, in.channels});
}
