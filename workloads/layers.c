/*
 * layers.c - nets: a stack of layers over one mini-batch, on any device.
 *
 * A net is laid out once, when all its layers are stacked: the layers are placed on the workers
 * that share the model, their parameters become slices of one flat vector (weight, bias, weight,
 * bias, ..., as in PyTorch), and every buffer is allocated. A step then computes
 *
 *     forward   y_i = f_i(x_i),  x_{i+1} = y_i        loss puts its gradient where y_last was
 *     backward  dx_i = f_i'(dy_i),  dy_{i-1} = dx_i   from the last to the first with parameters
 *
 * Elementwise layers work in place; every other y_i has a vector of its own, which keeps what
 * backward needs. The dx share a few vectors, the slots: a slot is free again when the layer below
 * has read it; the gradient of a shortcut keeps its slot until the backward pass leaves the block.
 * Memory, floats: 2 or 3 P, and for each row the sum of all y_i and a few of the widest dx.
 */
#include "workloads/layers.h"

#include <stdlib.h>
#include <string.h>

void *net_zeroed(size_t n, size_t size)
{
	void *p = calloc(n ? n : 1, size);
	CHECK(p, "out of memory: %zu x %zu bytes", n, size);
	return p;
}

/* ---- Stacking ------------------------------------------------------------ */

struct net *net_new(struct worker *w, const struct data *sample)
{
	struct net *net = net_zeroed(1, sizeof *net);
	CHECK(sample->features > 0, "a net without inputs");
	*net = (struct net){.w = w,
			    .sample = sample,
			    .features = sample->features,
			    .transform = {.image = sample->image},
			    .outputs = sample->features,
			    .places = 1,
			    .image = sample->image,
			    .fork = NO_FORK};
	return net;
}

struct layer *net_push(struct net *net, const struct layer_kind *kind)
{
	struct layer *more = realloc(net->layer, (net->layers + 1) * sizeof *more);
	CHECK(more, "out of memory: %zu layers", net->layers);
	net->layer = more;
	more[net->layers] = (struct layer){.net = net,
					   .kind = kind,
					   .number = net->layers,
					   .from = net->image,
					   .to = net->image};
	return &more[net->layers++];
}

/* A set without rows is not loaded: only its shape is used. */
void net_center(struct net *net)
{
	const struct data *d = net->sample;
	size_t n = net->features;
	double *sum;
	CHECK(image_size(d->image), "a mean image for rows that are not images");
	if (!d->bytes && !d->floats)
		return;
	sum = net_zeroed(n, sizeof *sum);
	float *mean = net_zeroed(n, sizeof *mean);
	for (size_t i = 0; i < d->n; i++)
		for (size_t j = 0; j < n; j++)
			sum[j] += d->bytes ? d->bytes[i * n + j] : (double)d->floats[i * n + j];
	for (size_t j = 0; j < n; j++)
		mean[j] = (float)(sum[j] / (double)d->n / (d->bytes ? 255 : 1));
	free(sum);
	net->transform.mean = mean; /* the net frees it */
}

void net_augment(struct net *net, size_t pad)
{
	CHECK(image_size(net->transform.image), "augmentation of rows that are not images");
	net->transform.pad = pad;
	net->transform.flip = true;
}

/* ---- Laying out ---------------------------------------------------------- */

enum { EVALUATE_LEAST = 64 }; /* rows: fewer at once are slower */

/* Numbers the linear layers within their chains; a layer that is not elementwise ends a chain. */
static void number_chains(struct net *net)
{
	for (size_t i = 0, n; i < net->layers; i = n) {
		size_t chained = 0, at = 0;

		for (n = i; n < net->layers; n++)
			if (net->layer[n].kind->linear)
				chained++;
			else if (!net->layer[n].kind->elementwise && !net->layer[n].kind->chains)
				break;
		for (size_t j = i; j < n; j++)
			if (net->layer[j].kind->linear) {
				net->layer[j].linear.chain = at++;
				net->layer[j].linear.chained = chained;
			}
		n += n == i;
	}
}

/* Places every layer, in order: a layer needs to know whether the one below leaves its output
 * split. Then lays out the model: where each layer's parameters begin, and the flops. Backward, a
 * layer multiplies once for its parameters, and once more for the layer below if a lower layer has
 * parameters. A layer without parameters counts for the layer below. */
static void layers_lay_out(struct net *net)
{
	size_t *first = net_zeroed(net->layers + 1, sizeof *first), width = net->features;
	double *flops = net_zeroed(net->layers + 1, sizeof *flops), forward = 0;
	struct layout to = {.layer = first, .flops = flops};
	bool split = false;
	number_chains(net);
	for (size_t i = 0, at = 0; i < net->layers; i++) {
		struct layer *l = &net->layer[i];

		l->in = width;
		l->out = l->width ? l->width : width;
		l->held = l->params;
		l->linear.first = to.layers == 0;
		l->linear.x_split = split;
		if (l->kind->place)
			l->kind->place(l);
		if (!l->kind->elementwise && !l->kind->chains)
			split = l->kind->linear && l->linear.split == BY_OUTPUT;
		CHECK(l->in == width, "layer %zu: takes rows of %zu, gets %zu", i, l->in, width);
		width = l->out;
		if (l->params) {
			l->running_at = to.buffers;
			to.buffers += l->buffers;
			l->index = at = to.layers++;
			first[l->index] = l->first = to.params;
			to.params += l->held;
			to.whole += (int64_t)l->params;
		}
		if (!l->own && !l->kind->multiplies)
			l->own = l->flops;
		forward += (double)net->places * l->flops;
		flops[at] += (at ? 2 : 1) * (double)net->places * l->flops;
		net->other_flops += (at ? 3 : 2) * (double)net->places * l->own;
	}
	first[to.layers] = to.params;
	flops[to.layers] = forward;
	CHECK(!split && width == net->outputs, "the last layer leaves its output split");
	model_layout(net->w, &to);
	free(first);
	free(flops);
}

/* A layer that works in place must leave what the backward pass still needs of the vector: all of
 * it, or, where a ReLU was applied, which floats are above 0. The loss overwrites the last one. */
static void check_stack(const struct net *net)
{
	bool all = false, sign = false;
	CHECK(net->layers, "a net without layers");
	for (size_t i = 0; i < net->layers; i++) {
		const struct layer *l = &net->layer[i];
		bool in_place = l->kind->elementwise;

		CHECK(!in_place || (i && i + 1 < net->layers),
		      "layer %zu: an elementwise layer is between two others", i);
		CHECK(!in_place || (!all && (!sign || l->kind->keeps_sign)),
		      "layer %zu overwrites what the backward pass of those below needs", i);
		all = (in_place && all) || (l->kind->needs_y && !l->relu);
		sign = (in_place && sign) || l->relu;
	}
	const struct layer_kind *last = net->layer[net->layers - 1].kind;
	CHECK(last->linear || last->tied, "the last layer is not linear");
	CHECK(net->fork == NO_FORK, "layer %zu: a fork without a join", net->fork);
}

/* The free slot that fits best: the narrowest that is wide enough, otherwise the widest; or a new
 * one. */
static struct slot_buffer *take_slot(struct net *net, size_t width)
{
	struct slot_buffer *best = NULL;
	size_t wasted = SIZE_MAX;
	for (struct slot_buffer *t = net->slot; t < net->slot + net->slots; t++) {
		size_t waste = t->width >= width ? t->width - width : SIZE_MAX / 2 - t->width;

		if (!t->taken && waste < wasted) {
			best = t;
			wasted = waste;
		}
	}
	if (!best)
		best = &net->slot[net->slots++];
	best->taken = true;
	if (best->width < width)
		best->width = width;
	return best;
}

/* Assigns slots to the layers above `below`, the lowest layer with parameters. */
static void assign_slots(struct net *net, size_t below)
{
	struct slot_buffer *dy = NULL;
	net->slot = net_zeroed(net->layers + 1, sizeof *net->slot);
	for (size_t i = net->layers; i-- > below;) {
		struct layer *l = &net->layer[i];
		bool in_place = l->kind->elementwise || (l->kind->dx_is_dy && !l->joins);
		struct slot_buffer *around = l->opens ? net->layer[l->other].dy_slot : NULL;
		bool same = l->opens && !net->layer[l->other].stride;

		l->dy_slot = dy;
		l->dx_slot = in_place     ? dy
			     : i == below ? NULL
			     : same       ? around
					  : take_slot(net, l->in);
		if (dy && !in_place && !l->joins)
			dy->taken = false;
		if (around && !same)
			around->taken = false;
		dy = l->dx_slot;
	}
}

/* Gives each layer its vectors. */
static void wire_layers(struct net *net)
{
	struct worker *w = net->w;
	struct vec *x = net->input, *dy;
	size_t below = net->layers;
	for (size_t i = 0; i < net->layers; i++) {
		struct layer *l = &net->layer[i];

		l->x = x;
		l->y = x =
			l->kind->elementwise ? x : vec_new(w, net->rows_max * net->places * l->out);
		if (l->params && below == net->layers)
			below = i;
	}
	if (net->shortcut_width)
		net->shortcut = vec_new(w, net->rows_max * net->shortcut_width);
	assign_slots(net, below);
	for (size_t i = 0; i < net->slots; i++)
		net->slot[i].vec = vec_new(w, net->rows_grad * net->places * net->slot[i].width);
	dy = x;
	for (size_t i = net->layers; i-- > below;) {
		struct layer *l = &net->layer[i];

		l->dy = dy;
		l->dx = dy = l->dx_slot ? l->dx_slot->vec : NULL;
	}
}

void net_finish(struct net *net, enum loss loss)
{
	struct worker *w = net->w;
	size_t batch = (size_t)run_batch(w->run);
	check_stack(net);
	CHECK(net->places == 1 || net->tokens == net->outputs, "scores of %zu for %zu tokens",
	      net->outputs, net->tokens);
	CHECK(loss != LOSS_MSE || net->outputs == 1, "regression of %zu values", net->outputs);
	net->loss = loss;
	net->sample = NULL;
	net->rows_grad = batch;
	/* evaluation then uses what is prepared for a mini-batch, where that is no slower */
	net->rows_max = batch * net->places >= EVALUATE_LEAST ? batch : EVALUATE_ROWS;
	w->model->net = net;
	layers_lay_out(net);
	net->input = vec_new(w, net->rows_max * net->features);
	net->target = vec_new(w, net->rows_max * net->places);
	wire_layers(net);
	net->tensor = net_zeroed(2 * net->layers, sizeof *net->tensor);
	for (size_t i = 0; i < net->layers; i++)
		if (net->layer[i].kind->attach)
			net->layer[i].kind->attach(&net->layer[i]);
	model_tensors(w, net->tensor, net->tensors);
	free(net->tensor);
	net->tensor = NULL;
}

void net_fini(struct worker *w)
{
	struct net *net = w->model->net;
	if (!net)
		return;
	for (size_t i = 0; i < net->layers; i++) {
		struct layer *l = &net->layer[i];

		struct vec *const own[] = {
			l->weight,  l->dweight, l->bias,        l->dbias,
			l->running, l->stat,    l->linear.part, l->y != l->x ? l->y : NULL};

		for (size_t k = 0; k < sizeof own / sizeof *own; k++)
			vec_free(own[k]);
		conv_free(l->conv);
		pool_free(l->pool);
		norm_free(l->norm);
		attention_free(l->attention);
	}
	for (size_t i = 0; i < net->slots; i++)
		vec_free(net->slot[i].vec);
	vec_free(net->shortcut);
	vec_free(net->input);
	vec_free(net->target);
	free((void *)(uintptr_t)net->transform.mean);
	free(net->slot);
	free(net->layer);
	free(net);
	w->model->net = NULL;
}

/* ---- Running ------------------------------------------------------------- */

/* Adds the loss of the loaded rows to the tally; the last y gets its gradient. */
static void layers_forward(struct net *net, bool training, size_t rows)
{
	struct worker *w = net->w;
	struct vec *z = net->layer[net->layers - 1].y;
	double over = training && w->mean_rows > 0 ? w->mean_rows : (double)rows;
	over *= (double)net->places;
	rows *= net->places;
	net->training = training;
	for (size_t i = 0; i < net->layers; i++) {
		if (training && net->layer[i].params)
			layer_needed(w, net->layer[i].index);
		net->layer[i].kind->forward(&net->layer[i], rows);
	}
	if (net->loss == LOSS_XENT)
		vec_softmax_xent(z, net->target, rows, net->outputs, (float)over);
	else
		vec_mse(z, net->target, rows, net->outputs, (float)over);
}

/* Augments the rows as in that epoch. */
static void load_rows(struct worker *w, const int32_t *index, size_t rows, int64_t epoch)
{
	struct net *net = w->model->net;
	struct transform t = net->transform;
	CHECK(rows > 0 && rows <= net->rows_grad, "a mini-batch of %zu rows, at most %zu", rows,
	      net->rows_grad);
	t.key = rng_seed(run_seed(w->run), RNG_AUGMENT, epoch);
	data_gather(w, w->train, index, rows, &t, net->input, net->target);
}

void net_load(struct worker *w)
{
	load_rows(w, w->index, w->rows, w->epoch);
}

void net_gradient(struct worker *w)
{
	struct net *net = w->model->net;
	layers_forward(net, true, w->rows);
	for (size_t i = net->layers; i-- > 0 && net->layer[i].dy;) {
		struct layer *l = &net->layer[i];

		l->kind->backward(l, w->rows * net->places);
		if (l->params)
			layer_ready(w, l->index);
	}
}

/* A norm adds NORM_ALPHA of a mini-batch's statistics to the rest of the running ones, which are 0
 * here. Epoch 0 is not a training epoch: the result depends only on the weights. */
void net_statistics(struct worker *w, const int32_t *index, size_t rows)
{
	load_rows(w, index, rows, 0);
	vec_fill(w->model->buffer, 0);
	layers_forward(w->model->net, true, rows);
	vec_scale(w->model->buffer, 1 / NORM_ALPHA);
}

void net_evaluate(struct worker *w, const struct data *set, const int32_t *index, size_t rows)
{
	struct net *net = w->model->net;
	struct transform t = {.image = net->transform.image, .mean = net->transform.mean};
	CHECK(rows <= EVALUATE_ROWS, "evaluation of %zu rows, at most %d", rows, EVALUATE_ROWS);
	for (size_t at = 0, n; at < rows; at += n) {
		n = rows - at < net->rows_max ? rows - at : net->rows_max;
		data_gather(w, set, index + at, n, &t, net->input, net->target);
		layers_forward(net, false, n);
	}
}
