/*
 * layers_linear.c - the layers that see rows of numbers: linear ones, and the elementwise ReLU,
 * tanh, dropout and GELU.
 *
 *     linear   y[B x O] = x[B x I] W^T + b, W[O x I]
 *     ReLU     y = max(0, x)            on a convolution or a batch normalisation: fused into it
 *     dropout  y = x / (1 - p), or 0 with probability p; in evaluation y = x
 *
 * Elementwise layers other than GELU work in place. Cost of a linear layer, whole: 2 B I O flops
 * forward, 4 B I O backward (2 in the lowest); 4 B (I + O) + 4 I O bytes read or written in each
 * pass. GELU reads and writes 2 n floats of a row forward, 3 n backward.
 */
#include "workloads/layers.h"

#include <math.h>
#include <stdlib.h>

/* ---- Parameters, also of images ------------------------------------------ */

void net_slices(struct layer *l, size_t rows, size_t weights, size_t biases)
{
	struct net *net = l->net;
	struct worker *w = net->w;
	const size_t first_bias = l->first + weights;
	const bool last = l->number + 1 == net->layers;
	struct tensor *t = &net->tensor[net->tensors];
	l->weight = vec_slice(w->param, l->first, weights);
	l->dweight = vec_slice(w->grad, l->first, weights);
	l->bias = vec_slice(w->param, first_bias, biases);
	l->dbias = vec_slice(w->grad, first_bias, biases);
	t[0] = (struct tensor){.first = l->first,
			       .rows = rows ? rows : 1,
			       .columns = rows ? weights / rows : weights,
			       .spared = l->kind->spared,
			       .hidden = rows && !last,
			       .shared = !l->kind->linear || l->linear.split == WHOLE};
	t[1] = (struct tensor){.first = first_bias,
			       .rows = 1,
			       .columns = biases,
			       .spared = true,
			       .shared = t->shared};
	net->tensors += 2;
}

/* The standard deviation of a weight that is drawn from a normal distribution. */
static double deviation(const struct layer *l, size_t inputs)
{
	size_t joins = 0;
	if (l->init == INIT_HE)
		return sqrt(2.0 / (double)inputs);
	for (size_t i = 0; i < l->net->layers; i++)
		joins += l->net->layer[i].joins;
	return 0.02 / (l->joins ? sqrt((double)joins) : 1);
}

/* Where the layer's parameters lie in the whole model; the whole layer begins at first. */
static void layer_places(const struct layer *l, size_t first, size_t *place)
{
	if (l->kind->places)
		l->kind->places(l, first, place);
	for (size_t k = 0; k < l->params && !l->kind->places; k++)
		place[k] = first + k;
}

/* The numbers of the whole layer are drawn in order, and each worker keeps its own: the parts of a
 * split model equal those of the whole model. */
void net_draw(struct layer *l, size_t inputs, size_t weights)
{
	const struct worker *w = l->net->w;
	const size_t drawn = l->init == INIT_UNIFORM ? l->params : weights;
	uint64_t rng = rng_seed(run_seed(w->run), RNG_INIT, (int64_t)l->index);
	if (l->init == INIT_ZERO || !vec_has_data(w->param))
		return;
	float *all = net_zeroed(l->params, sizeof *all), *mine = net_zeroed(l->held, sizeof *mine);
	size_t *place = net_zeroed(l->held, sizeof *place);

	const bool uniform = l->init == INIT_UNIFORM;
	const double by = uniform ? 1 / sqrt((double)inputs) : deviation(l, inputs);
	for (size_t i = 0; i < drawn; i++)
		all[i] = (float)(by * (uniform ? 2 * rng_uniform(&rng) - 1 : rng_normal(&rng)));
	layer_places(l, 0, place);
	for (size_t i = 0; i < l->held; i++)
		mine[i] = all[place[i]];
	vec_put(l->weight, mine);
	vec_put(l->bias, mine + vec_len(l->weight));
	free(all);
	free(mine);
	free(place);
}

void net_halves(struct vec *v, float a, float b)
{
	const size_t n = vec_len(v);
	float *x = net_zeroed(n, sizeof *x);
	for (size_t i = 0; i < n; i++)
		x[i] = i < n / 2 ? a : b;
	vec_put(v, x);
	free(x);
}

/* ---- Linear -------------------------------------------------------------- */

static char *whole_place(const struct worker *w, struct linear *l)
{
	(void)w;
	l->split = WHOLE;
	l->in_held = l->in;
	l->out_held = l->bias_held = l->out;
	return NULL;
}

/* y[B x O] = x[B x I] W^T + b, W[O x I] */
static void whole_forward(struct worker *w, struct linear *l, struct vec *y, const struct vec *x,
			  size_t rows)
{
	(void)w;
	vec_gemm(y, false, x, true, l->weight, rows, l->out_held, l->in_held);
	if (l->bias_held)
		vec_add_bias(y, l->bias, rows);
}

/* dW[O x I] = dy^T[O x B] x[B x I], db[O] = sum_B dy, dx[B x I] = dy[B x O] W[O x I] */
static void whole_backward(struct worker *w, struct linear *l, struct vec *dx, const struct vec *dy,
			   const struct vec *x, size_t rows)
{
	(void)w;
	vec_gemm(l->dweight, true, dy, false, x, l->out_held, l->in_held, rows);
	if (l->bias_held)
		vec_sum_rows(l->dbias, dy, rows);
	if (dx)
		vec_gemm(dx, false, dy, false, l->weight, rows, l->in_held, l->out_held);
}

const struct linear_ops linear_whole = {
	.place = whole_place,
	.forward = whole_forward,
	.backward = whole_backward,
};

static const struct linear_ops *linear_ops(const struct worker *w)
{
	const struct linear_ops *split = linear_ops_of(w);
	return split ? split : &linear_whole;
}

/* Of the whole layer: weight[O x I], then bias[O]. */
static void linear_places(const struct layer *layer, size_t first, size_t *place)
{
	const struct linear *l = &layer->linear;
	size_t bias_first = l->split == BY_OUTPUT ? l->out_first : 0;
	for (size_t o = 0; o < l->out_held; o++)
		for (size_t i = 0; i < l->in_held; i++)
			*place++ = first + (l->out_first + o) * l->in + l->in_first + i;
	for (size_t o = 0; o < l->bias_held; o++)
		*place++ = first + l->out * l->in + bias_first + o;
}

static void linear_place(struct layer *layer)
{
	struct linear *l = &layer->linear;
	const struct net *net = layer->net;
	l->rows_max = net->rows_max * net->places;
	l->places = net->places;
	char *wrong = linear_ops(net->w)->place(net->w, l);
	if (wrong)
		user_error("%s", wrong);
	CHECK(!l->x_split || l->split == BY_INPUT,
	      "linear %zu -> %zu: its input is split, it must be split by input", l->in, l->out);
	CHECK(l->in_first + l->in_held <= l->in && l->out_first + l->out_held <= l->out,
	      "linear %zu -> %zu: placed outside of itself", l->in, l->out);
	CHECK(l->split == BY_INPUT || l->in_held == l->in,
	      "linear %zu -> %zu: holds %zu columns, not split by input", l->in, l->out,
	      l->in_held);
	CHECK(l->split == BY_OUTPUT || l->out_held == l->out,
	      "linear %zu -> %zu: holds %zu rows, not split by output", l->in, l->out, l->out_held);
	layer->in = l->x_split ? l->in_held : l->in;
	layer->out = l->out_held;
	layer->held = l->out_held * l->in_held + l->bias_held;
}

static void linear_attach(struct layer *layer)
{
	struct linear *l = &layer->linear;
	net_slices(layer, l->out_held, l->out_held * l->in_held, l->bias_held);
	l->weight = layer->weight, l->dweight = layer->dweight;
	l->bias = layer->bias, l->dbias = layer->dbias;
	if (l->split == BY_INPUT && !l->x_split)
		l->part = vec_new(layer->net->w, l->rows_max * l->in_held);
	net_draw(layer, l->in, l->out * l->in);
}

static void linear_forward(struct layer *l, size_t rows)
{
	struct worker *w = l->net->w;
	linear_ops(w)->forward(w, &l->linear, l->y, l->x, rows);
	if (l->joins)
		vec_add(l->y, l->net->layer[l->other].x, rows * l->out);
}

static void linear_backward(struct layer *l, size_t rows)
{
	struct worker *w = l->net->w;
	linear_ops(w)->backward(w, &l->linear, l->dx, l->dy, l->x, rows);
}

const struct layer_kind kind_linear = {
	.linear = true,
	.multiplies = true,
	.places = linear_places,
	.place = linear_place,
	.attach = linear_attach,
	.forward = linear_forward,
	.backward = linear_backward,
};

void net_linear(struct net *net, size_t out, enum init init)
{
	struct layer *l = net_push(net, &kind_linear);
	CHECK(out > 0, "a linear layer without outputs");
	l->init = init;
	l->linear = (struct linear){.in = net->outputs, .out = out};
	l->flops = 2.0 * (double)net->outputs * (double)out;
	l->params = out * (net->outputs + 1);
	net->outputs = out;
	net->image = (struct image){0};
}

double net_other_flops(const struct net *net)
{
	return net->other_flops;
}

const struct linear *net_linear_at(const struct net *net, size_t i)
{
	for (size_t j = 0; j < net->layers; j++)
		if (net->layer[j].kind->linear && i-- == 0)
			return &net->layer[j].linear;
	return NULL;
}

/* ---- Elementwise: y = f(x), dx = f'(x or y) dy in place -------------------- */

/* A kind that uses the device's activation of this name, forward by this call on n floats; then
 * other members. In place x is y. */
#define ACTIVATION(op, call, ...) \
	static void op##_forward(struct layer *l, size_t rows) \
	{ \
		const size_t n = rows * l->out; \
		call; \
	} \
	static void op##_backward(struct layer *l, size_t rows) \
	{ \
		vec_##op##_grad(l->dy, l->x, rows * l->out); \
	} \
	static const struct layer_kind kind_##op = { \
		.forward = op##_forward, .backward = op##_backward, __VA_ARGS__};
ACTIVATION(relu, vec_relu(l->y, n), .elementwise = true)
ACTIVATION(tanh, vec_tanh(l->y, n), .elementwise = true, .needs_y = true)
ACTIVATION(gelu, vec_gelu(l->y, l->x, n), .chains = true, .dx_is_dy = true)

void net_relu(struct net *net)
{
	struct layer *below = net->layers ? &net->layer[net->layers - 1] : NULL;
	if (below && below->kind->fuses_relu && !below->relu)
		below->relu = true;
	else
		net_push(net, &kind_relu)->relu = true;
}

void net_tanh(struct net *net)
{
	net_push(net, &kind_tanh);
}

void net_gelu(struct net *net)
{
	CHECK(net->layers, "a GELU of the data themselves");
	net_push(net, &kind_gelu);
}

static void dropout_place(struct layer *l)
{
	/* parts of a split activation drop differently; whole copies drop the same floats */
	size_t part = l->linear.x_split ? (size_t)comm_rank(l->net->w->model_group) : 0;
	l->salt = part * l->net->layers + l->number;
}

static void dropout_forward(struct layer *l, size_t rows)
{
	if (l->net->training)
		vec_dropout(l->y, rows * l->out, l->drop, l->salt);
}

static void dropout_backward(struct layer *l, size_t rows)
{
	vec_dropout(l->dy, rows * l->out, l->drop, l->salt);
}

static const struct layer_kind kind_dropout = {
	.elementwise = true,
	.keeps_sign = true,
	.place = dropout_place,
	.forward = dropout_forward,
	.backward = dropout_backward,
};

void net_dropout(struct net *net, double p)
{
	CHECK(p >= 0 && p < 1, "dropout with probability %g", p);
	net_push(net, &kind_dropout)->drop = (float)p;
}

void net_places(const struct worker *w, size_t *place)
{
	size_t first = 0;
	for (size_t i = 0; i < w->model->net->layers; i++) {
		const struct layer *l = &w->model->net->layer[i];
		layer_places(l, first, place + l->first);
		first += l->params;
	}
}

char *net_split(const struct worker *w)
{
	const struct linear *l;
	char *wrong = NULL;
	for (size_t i = 0; !wrong && (l = net_linear_at(w->model->net, i)); i++) {
		struct linear copy = *l;
		wrong = linear_ops_of(w)->place(w, &copy);
	}
	return wrong;
}
