/*
 * layers.c - nets: a stack of layers over one mini-batch, on any device.
 *
 * A net is laid out once, when it is finished: the layers are placed on the workers that share the
 * model, their parameters become slices of one flat vector (weight, bias, weight, bias, ..., as in
 * PyTorch), and every buffer is allocated. A step then computes
 *
 *     forward   y_i = f_i(x_i),  x_{i+1} = y_i        loss puts its gradient where y_last was
 *     backward  dx_i = f_i'(dy_i),  dy_{i-1} = dx_i    from the last layer to the first with
 * parameters
 *
 * Elementwise layers work in place, so y_i keeps what backward needs. dx takes turns in two
 * buffers. Cost of a linear layer, whole: 2 B I O flops forward, 4 B I O backward (2 in the first).
 */
#include "../mvbench.h"

#include <math.h>
#include <stdlib.h>

struct layer {
	const struct layer_kind *kind;
	size_t in, out;      /* width of a row on this worker */
	struct vec *x, *y;   /* [rows x in], [rows x out]; the same when in place */
	struct vec *dx, *dy; /* likewise; dx NULL: nobody below wants it */
	enum init init;      /* of the parameters, if there are any */
	size_t index;        /* among the layers with parameters */
	struct linear linear;
};

/* What a kind of layer does. forward and backward are called in every step; the rest once. */
struct layer_kind {
	bool elementwise; /* in place; does not end a chain of linear layers */
	size_t (*params)(const struct layer *l);         /* of the whole layer; NULL = none */
	size_t (*params_held)(const struct layer *l);    /* here; NULL = none */
	void (*place)(struct net *net, struct layer *l); /* sets in and out; NULL = keeps width */
	/* The parameters are param[first ..]; draws them. NULL = none */
	void (*attach)(struct net *net, struct layer *l, size_t first);
	void (*forward)(struct worker *w, struct layer *l, size_t rows);
	void (*backward)(struct worker *w, struct layer *l, size_t rows);
	void (*detach)(struct layer *l); /* frees what attach made; NULL = nothing */
};

struct net {
	struct worker *w;
	size_t features;
	struct layer *layer;
	size_t layers;
	enum loss loss;
	size_t outputs;
	size_t *first;              /* w->layer */
	size_t rows_max, rows_grad; /* of a forward, of a backward pass */
	struct vec *input, *target; /* [rows_max x features], [rows_max] */
	struct vec *turn[2];        /* dx */
};

static void *zeroed(size_t n, size_t size)
{
	void *p = calloc(n ? n : 1, size);

	CHECK(p, "out of memory: %zu x %zu bytes", n, size);
	return p;
}

void layer_ready(struct worker *w, size_t i)
{
	/* a warm-up's gradients, before step 1, are nobody's */
	if (w->step > 0 && w->strategy && w->strategy->layer_ready)
		w->strategy->layer_ready(w, i);
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
	return w->strategy && w->strategy->linear ? w->strategy->linear : &linear_whole;
}

static size_t linear_params(const struct layer *l)
{
	return l->linear.out * (l->linear.in + 1);
}

static size_t linear_params_held(const struct layer *l)
{
	return l->linear.out_held * l->linear.in_held + l->linear.bias_held;
}

static void linear_place(struct net *net, struct layer *layer)
{
	struct linear *l = &layer->linear;

	l->rows_max = net->rows_max;
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
}

/* The numbers of the whole layer are drawn in order, weight[O x I] then bias[O], and each worker
 * keeps its block: so the parts of a split model are those of the whole one. */
static void linear_draw(struct net *net, struct layer *layer)
{
	struct linear *l = &layer->linear;
	uint64_t rng = rng_seed(net->w->run->seed, STREAM_INIT, (int64_t)layer->index);
	float *weight = zeroed(l->out_held * l->in_held, sizeof *weight);
	float *bias = zeroed(l->bias_held, sizeof *bias);
	size_t bias_first = l->split == BY_OUTPUT ? l->out_first : 0;
	double bound = 1 / sqrt((double)l->in), sigma = sqrt(2.0 / (double)l->in);

	for (size_t o = 0; o < l->out; o++)
		for (size_t i = 0; i < l->in; i++) {
			float x = (float)(layer->init == INIT_HE
						  ? sigma * rng_normal(&rng)
						  : bound * (2 * rng_uniform(&rng) - 1));
			size_t row = o - l->out_first, column = i - l->in_first;

			if (row < l->out_held && column < l->in_held)
				weight[row * l->in_held + column] = x;
		}
	for (size_t o = 0; o < l->out && layer->init == INIT_UNIFORM; o++) {
		float x = (float)(bound * (2 * rng_uniform(&rng) - 1));

		if (o - bias_first < l->bias_held)
			bias[o - bias_first] = x;
	}
	vec_put(l->weight, weight);
	vec_put(l->bias, bias);
	free(weight);
	free(bias);
}

static void linear_attach(struct net *net, struct layer *layer, size_t first)
{
	struct worker *w = net->w;
	struct linear *l = &layer->linear;
	size_t n = l->out_held * l->in_held;

	l->weight = vec_slice(w->param, first, n);
	l->dweight = vec_slice(w->grad, first, n);
	l->bias = vec_slice(w->param, first + n, l->bias_held);
	l->dbias = vec_slice(w->grad, first + n, l->bias_held);
	if (l->split == BY_INPUT && !l->x_split)
		l->part = vec_new(w, l->rows_max * l->in_held);
	if (layer->init != INIT_ZERO && vec_has_data(w->param))
		linear_draw(net, layer);
}

static void linear_forward(struct worker *w, struct layer *l, size_t rows)
{
	linear_ops(w)->forward(w, &l->linear, l->y, l->x, rows);
}

static void linear_backward(struct worker *w, struct layer *l, size_t rows)
{
	linear_ops(w)->backward(w, &l->linear, l->dx, l->dy, l->x, rows);
}

static void linear_detach(struct layer *layer)
{
	struct linear *l = &layer->linear;

	vec_free(l->weight);
	vec_free(l->dweight);
	vec_free(l->bias);
	vec_free(l->dbias);
	vec_free(l->part);
}

static const struct layer_kind kind_linear = {
	.params = linear_params,
	.params_held = linear_params_held,
	.place = linear_place,
	.attach = linear_attach,
	.forward = linear_forward,
	.backward = linear_backward,
	.detach = linear_detach,
};

/* ---- Elementwise: y = f(x) in place, dx = f'(y) dy in place -------------- */

static void relu_forward(struct worker *w, struct layer *l, size_t rows)
{
	(void)w;
	vec_relu(l->y, rows * l->out);
}

static void relu_backward(struct worker *w, struct layer *l, size_t rows)
{
	(void)w;
	vec_relu_grad(l->dy, l->y, rows * l->out);
}

static const struct layer_kind kind_relu = {
	.elementwise = true,
	.forward = relu_forward,
	.backward = relu_backward,
};

static void tanh_forward(struct worker *w, struct layer *l, size_t rows)
{
	(void)w;
	vec_tanh(l->y, rows * l->out);
}

static void tanh_backward(struct worker *w, struct layer *l, size_t rows)
{
	(void)w;
	vec_tanh_grad(l->dy, l->y, rows * l->out);
}

static const struct layer_kind kind_tanh = {
	.elementwise = true,
	.forward = tanh_forward,
	.backward = tanh_backward,
};

/* ---- Stacking ------------------------------------------------------------ */

struct net *net_new(struct worker *w, size_t features)
{
	struct net *net = zeroed(1, sizeof *net);

	CHECK(features > 0, "a net without inputs");
	*net = (struct net){.w = w, .features = features, .outputs = features};
	return net;
}

static struct layer *push(struct net *net, const struct layer_kind *kind)
{
	struct layer *more = realloc(net->layer, (net->layers + 1) * sizeof *more);

	CHECK(more, "out of memory: %zu layers", net->layers);
	net->layer = more;
	more[net->layers] = (struct layer){.kind = kind};
	return &more[net->layers++];
}

void net_linear(struct net *net, size_t out, enum init init)
{
	struct layer *l = push(net, &kind_linear);

	CHECK(out > 0, "a linear layer without outputs");
	l->init = init;
	l->linear = (struct linear){.in = net->outputs, .out = out};
	net->outputs = out;
}

void net_relu(struct net *net)
{
	push(net, &kind_relu);
}

void net_tanh(struct net *net)
{
	push(net, &kind_tanh);
}

/* ---- Laying out ---------------------------------------------------------- */

/* Numbers the linear layers within their runs; what is not elementwise ends a run. */
static void number_chains(struct net *net)
{
	for (size_t i = 0, n; i < net->layers; i = n) {
		size_t chained = 0, at = 0;

		for (n = i; n < net->layers; n++)
			if (net->layer[n].kind == &kind_linear)
				chained++;
			else if (!net->layer[n].kind->elementwise)
				break;
		for (size_t j = i; j < n; j++)
			if (net->layer[j].kind == &kind_linear) {
				net->layer[j].linear.chain = at++;
				net->layer[j].linear.chained = chained;
			}
		n += n == i;
	}
}

/* Places every layer, in order: each must know what the one below leaves split. Counts
 * parameters. */
static size_t place_layers(struct net *net)
{
	struct worker *w = net->w;
	size_t width = net->features, params = 0;
	bool split = false;

	w->model_params = 0;
	w->layers = 0;
	number_chains(net);
	for (size_t i = 0; i < net->layers; i++) {
		struct layer *l = &net->layer[i];

		l->in = l->out = width;
		l->linear.first = w->layers == 0;
		l->linear.x_split = split;
		if (l->kind->place)
			l->kind->place(net, l);
		if (!l->kind->elementwise)
			split = l->kind == &kind_linear && l->linear.split == BY_OUTPUT;
		CHECK(l->in == width, "layer %zu: takes rows of %zu, gets %zu", i, l->in, width);
		width = l->out;
		if (!l->kind->params)
			continue;
		l->index = w->layers++;
		net->first[l->index] = params;
		params += l->kind->params_held(l);
		w->model_params += (int64_t)l->kind->params(l);
	}
	net->first[w->layers] = params;
	CHECK(!split && width == net->outputs, "the last layer leaves its output split");
	return params;
}

/* Gives each layer its buffers: y of its own unless it works in place, dx from the two in turn. */
static void wire_layers(struct net *net)
{
	struct worker *w = net->w;
	struct vec *x = net->input;
	size_t widest = 0, below = net->layers;

	for (size_t i = 0; i < net->layers; i++) {
		struct layer *l = &net->layer[i];

		l->x = x;
		l->y = x = l->kind->elementwise ? x : vec_new(w, net->rows_max * l->out);
		if (l->kind->params && below == net->layers)
			below = i;
		if (i > below && l->in > widest)
			widest = l->in;
	}
	for (int i = 0; i < 2; i++)
		net->turn[i] = vec_new(w, net->rows_grad * widest);

	struct vec *dy = x;
	size_t turn = 0;

	for (size_t i = net->layers; i-- > below;) {
		struct layer *l = &net->layer[i];

		l->dy = dy;
		l->dx = dy = i == below ? NULL : l->kind->elementwise ? dy : net->turn[turn++ % 2];
	}
}

void net_finish(struct net *net, enum loss loss)
{
	struct worker *w = net->w;
	size_t batch = (size_t)w->run->batch;

	/* In place means that y_i must outlive what stands on it: another f would overwrite what
	 * backward needs of it, and so would the gradient of the loss. */
	for (size_t i = 0; i < net->layers; i++)
		CHECK(!net->layer[i].kind->elementwise ||
			      (i && i + 1 < net->layers && !net->layer[i - 1].kind->elementwise),
		      "layer %zu: an elementwise layer stands between two others", i);
	CHECK(net->layers, "a net without layers");
	CHECK(loss != LOSS_MSE || net->outputs == 1, "regression of %zu values", net->outputs);
	net->loss = loss;
	net->rows_grad = batch;
	net->rows_max = batch > EVALUATE_ROWS ? batch : EVALUATE_ROWS;
	net->first = zeroed(net->layers + 1, sizeof *net->first);

	size_t params = place_layers(net);

	w->net = net;
	w->layer = net->first;
	w->param = vec_new(w, params);
	w->grad = vec_new(w, params);
	w->velocity = w->run->momentum != 0 ? vec_new(w, params) : NULL;
	net->input = vec_new(w, net->rows_max * net->features);
	net->target = vec_new(w, net->rows_max);
	wire_layers(net);
	for (size_t i = 0; i < net->layers; i++) {
		struct layer *l = &net->layer[i];

		if (l->kind->attach)
			l->kind->attach(net, l, net->first[l->index]);
	}
}

void net_fini(struct worker *w)
{
	struct net *net = w->net;

	if (!net)
		return;
	for (size_t i = 0; i < net->layers; i++) {
		struct layer *l = &net->layer[i];

		if (l->kind->detach)
			l->kind->detach(l);
		if (l->y != l->x)
			vec_free(l->y);
	}
	vec_free(net->turn[0]);
	vec_free(net->turn[1]);
	vec_free(net->input);
	vec_free(net->target);
	vec_free(w->param);
	vec_free(w->grad);
	vec_free(w->velocity);
	free(net->first);
	free(net->layer);
	free(net);
	w->net = NULL;
	w->param = w->grad = w->velocity = NULL;
	w->layer = NULL;
	w->layers = 0;
}

/* ---- Running ------------------------------------------------------------- */

/* The tally gets the loss of these rows; the last y gets its gradient. */
static void forward(struct net *net, const struct data *data, const int32_t *index, size_t rows)
{
	struct worker *w = net->w;
	struct vec *z = net->layer[net->layers - 1].y;

	data_gather(w, data, index, rows, net->input, net->target);
	for (size_t i = 0; i < net->layers; i++)
		net->layer[i].kind->forward(w, &net->layer[i], rows);
	if (net->loss == LOSS_XENT)
		vec_softmax_xent(z, net->target, rows, net->outputs);
	else
		vec_mse(z, net->target, rows, net->outputs);
}

void net_gradient(struct worker *w)
{
	struct net *net = w->net;

	CHECK(w->rows > 0 && w->rows <= net->rows_grad, "a mini-batch of %zu rows, at most %zu",
	      w->rows, net->rows_grad);
	forward(net, w->train, w->index, w->rows);
	for (size_t i = net->layers; i-- > 0 && net->layer[i].dy;) {
		struct layer *l = &net->layer[i];

		l->kind->backward(w, l, w->rows);
		if (l->kind->params)
			layer_ready(w, l->index);
	}
}

void net_evaluate(struct worker *w, const int32_t *index, size_t rows)
{
	CHECK(rows <= EVALUATE_ROWS, "evaluation of %zu rows, at most %d", rows, EVALUATE_ROWS);
	forward(w->net, w->test, index, rows);
}

const struct linear *net_linear_at(const struct net *net, size_t i)
{
	for (size_t j = 0; j < net->layers; j++)
		if (net->layer[j].kind == &kind_linear && i-- == 0)
			return &net->layer[j].linear;
	return NULL;
}
