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

static struct layer *push_image(struct net *net, const struct layer_kind *kind)
{
	CHECK(image_size(net->image), "layer %zu needs images, and gets rows of %zu", net->layers,
	      net->outputs);
	return net_push(net, kind);
}

/* Sets the layer's output images. */
static void makes(struct layer *l, struct image to)
{
	l->to = l->net->image = to;
	l->width = l->net->outputs = image_size(to);
}

/* ---- Convolution --------------------------------------------------------- */

static size_t fan_in(const struct layer *l)
{
	return l->window.size * l->window.size * l->from.channels;
}

static void conv_attach(struct layer *l)
{
	const size_t weights = l->to.channels * fan_in(l), biases = l->params - weights;
	net_slices(l, l->to.channels, weights, biases);
	l->conv = conv_new(l->net->w, l->from, l->to.channels, l->window, biases > 0, l->relu,
			   l->net->rows_max);
	net_draw(l, fan_in(l), weights);
}

static void conv_layer_forward(struct layer *l, size_t rows)
{
	conv_forward(l->conv, l->y, l->x, l->weight, l->bias, rows);
}

static void conv_layer_backward(struct layer *l, size_t rows)
{
	if (l->relu)
		vec_relu_grad(l->dy, l->y, rows * l->out);
	conv_backward_weight(l->conv, l->dweight, l->dbias, l->x, l->dy, rows);
	if (!l->dx)
		return;
	if (l->opens) {
		const struct layer *join = &l->net->layer[l->other];

		if (l->dx != join->dy) /* otherwise dx already holds the gradient of the shortcut */
			vec_shortcut_grad(l->dx, join->dy, l->from, join->stride, join->to.channels,
					  rows);
	}
	conv_backward_data(l->conv, l->dx, l->dy, l->weight, l->opens, rows);
}

const struct layer_kind kind_conv = {
	.fuses_relu = true,
	.attach = conv_attach,
	.forward = conv_layer_forward,
	.backward = conv_layer_backward,
};

void net_conv(struct net *net, size_t out, struct window win, bool bias, enum init init)
{
	struct layer *l = push_image(net, &kind_conv);
	CHECK(out > 0, "a convolution without outputs");
	l->window = win;
	l->init = init;
	makes(l, image_after(l->from, win, out));
	l->flops = 2.0 * (double)image_size(l->to) * (double)fan_in(l);
	l->params = out * (fan_in(l) + bias);
}

/* ---- Batch normalisation ------------------------------------------------- */

static void norm_attach(struct layer *l)
{
	net_slices(l, 0, l->params, 0);
	l->running = vec_slice(l->net->w->model->buffer, l->running_at, l->buffers);
	l->norm = norm_new(l->net->w, l->from, l->relu, l->joins, l->net->rows_max);
	net_halves(l->weight, 1, 0);  /* gamma, beta */
	net_halves(l->running, 0, 1); /* mean, variance */
}

/* The output s(x) of the shortcut of the block that ends here. */
static const struct vec *shortcut_output(const struct layer *l, size_t rows)
{
	const struct layer *fork = &l->net->layer[l->other];
	if (!l->stride)
		return fork->x;
	vec_shortcut(l->net->shortcut, fork->x, fork->from, l->stride, l->to.channels, rows);
	return l->net->shortcut;
}

static void norm_layer_forward(struct layer *l, size_t rows)
{
	const struct vec *add = l->joins ? shortcut_output(l, rows) : NULL;
	norm_forward(l->norm, l->y, l->x, add, l->weight, l->running, l->net->training, rows);
}

static void norm_layer_backward(struct layer *l, size_t rows)
{
	norm_backward(l->norm, l->dx, l->dweight, l->dy, l->x, l->y, l->weight, rows);
}

const struct layer_kind kind_norm = {
	.needs_y = true,
	.fuses_relu = true,
	.dx_is_dy = true,
	.spared = true,
	.attach = norm_attach,
	.forward = norm_layer_forward,
	.backward = norm_layer_backward,
};

void net_batch_norm(struct net *net)
{
	struct layer *l = push_image(net, &kind_norm);
	l->params = l->buffers = 2 * l->from.channels;
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

static void pool_attach(struct layer *l)
{
	l->pool = pool_new(l->net->w, l->from, l->window, !l->kind->needs_y, l->net->rows_max);
}

static void pool_layer_forward(struct layer *l, size_t rows)
{
	pool_forward(l->pool, l->y, l->x, rows);
}

static void pool_layer_backward(struct layer *l, size_t rows)
{
	pool_backward(l->pool, l->dx, l->dy, l->x, l->y, rows);
}

static const struct layer_kind kind_max_pool = {
	.needs_y = true, /* shows which input was the largest */
	.attach = pool_attach,
	.forward = pool_layer_forward,
	.backward = pool_layer_backward,
};

static const struct layer_kind kind_average_pool = {
	.attach = pool_attach,
	.forward = pool_layer_forward,
	.backward = pool_layer_backward,
};

void net_max_pool(struct net *net, struct window win)
{
	struct layer *l = push_image(net, &kind_max_pool);
	l->window = win;
	makes(l, image_after(l->from, win, l->from.channels));
}

void net_average_pool(struct net *net)
{
	struct layer *l = push_image(net, &kind_average_pool);
	struct image in = l->from;
	CHECK(in.height == in.width, "an average pool of %zu x %zu", in.height, in.width);
	l->window = (struct window){.size = in.height, .stride = 1};
	makes(l, (struct image){1, 1, in.channels});
}
