/*
 * layers_sequence.c - the layers that see sequences of tokens, one row for each token: embedding,
 * layer normalisation, causal attention, and the scores that the embedding's table gives. The
 * formulas are in net.h.
 *
 * A pre-norm block is x + f(norm(x)): a layer normalisation opens it, and the last layer of f, a
 * linear one, joins. Backward, the gradient of the sum stays where the linear layer found it, and
 * the normalisation adds its own. Attention and GELU work on any part of a split row, so the linear
 * layers on both sides are a pair; a part of an attention is some of its heads.
 *
 * Cost of a row, floats read and written: embedding 3 n; normalisation 3 n forward, 6 n backward;
 * attention: attention_new. Scores: a linear layer.
 */
#include "workloads/layers.h"

/* ---- Embedding ----------------------------------------------------------- */

static void embedding_attach(struct layer *l)
{
	struct net *net = l->net;
	const size_t n = l->width;
	net_slices(l, net->tokens, net->tokens * n, net->places * n);
	struct tensor *t = &net->tensor[net->tensors - 2];
	t[0].hidden = t[1].spared = false;
	t[1].rows = net->places;
	t[1].columns = n;
	net_draw(l, n, l->params);
}

static void embedding_forward(struct layer *l, size_t rows)
{
	vec_embed(l->y, l->x, l->weight, l->bias, rows, l->net->tokens);
}

static void embedding_backward(struct layer *l, size_t rows)
{
	vec_embed_grad(l->dweight, l->dbias, l->dy, l->x, rows, l->net->tokens, l->net->tied);
}

static const struct layer_kind kind_embedding = {
	.attach = embedding_attach,
	.forward = embedding_forward,
	.backward = embedding_backward,
};

void net_embedding(struct net *net, size_t n)
{
	const struct data *d = net->sample;
	CHECK(net->layers == 0, "layer %zu: an embedding is the lowest layer", net->layers);
	CHECK(d->tokens && data_targets(d) == d->features,
	      "an embedding of rows that are not tokens");
	net->places = d->features;
	net->tokens = d->classes;
	struct layer *l = net_push(net, &kind_embedding);
	l->init = INIT_SMALL;
	l->width = net->outputs = n;
	l->params = (net->tokens + net->places) * n;
}

/* ---- Scores of the next token -------------------------------------------- */

static void tied_forward(struct layer *l, size_t rows)
{
	vec_gemm(l->y, false, l->x, true, l->net->layer[0].weight, rows, l->out, l->in);
}

static void tied_backward(struct layer *l, size_t rows)
{
	const struct layer *table = &l->net->layer[0];
	vec_gemm(table->dweight, true, l->dy, false, l->x, l->out, l->in, rows);
	vec_gemm(l->dx, false, l->dy, false, table->weight, rows, l->in, l->out);
}

static const struct layer_kind kind_tied = {
	.tied = true,
	.multiplies = true,
	.forward = tied_forward,
	.backward = tied_backward,
};

void net_tied(struct net *net)
{
	CHECK(net->tokens, "scores of tokens without an embedding");
	struct layer *l = net_push(net, &kind_tied);
	l->flops = 2.0 * (double)net->outputs * (double)net->tokens;
	l->width = net->outputs = net->tokens;
	net->tied = true;
}

/* ---- Layer normalisation ------------------------------------------------- */

static void layer_norm_attach(struct layer *l)
{
	net_slices(l, 0, l->params, 0);
	l->stat = vec_new(l->net->w, 2 * l->net->rows_max * l->net->places);
	net_halves(l->weight, 1, 0); /* gamma, beta */
}

static void layer_norm_forward(struct layer *l, size_t rows)
{
	vec_layer_norm(l->y, l->stat, l->x, l->weight, rows);
}

static void layer_norm_backward(struct layer *l, size_t rows)
{
	vec_layer_norm_grad(l->dx, l->dweight, l->dy, l->x, l->stat, l->weight, rows, l->opens);
}

const struct layer_kind kind_layer_norm = {
	.spared = true,
	.attach = layer_norm_attach,
	.forward = layer_norm_forward,
	.backward = layer_norm_backward,
};

void net_layer_norm(struct net *net)
{
	CHECK(net->layers, "a layer normalisation of the data themselves");
	net_push(net, &kind_layer_norm)->params = 2 * net->outputs;
}

/* ---- Attention ----------------------------------------------------------- */

static void attention_place(struct layer *l)
{
	if (l->in % (3 * l->head_width))
		user_error("the heads of an attention cannot be divided evenly among %d workers "
			   "that share a model; let a number of workers that divides them share it",
			   comm_size(l->net->w->model_group));
	l->out = l->in / 3;
	l->own = 4.0 * (double)l->net->places * (double)l->out; /* of one token, over all */
	l->flops = l->own * (l->linear.x_split ? comm_size(l->net->w->model_group) : 1);
}

static void attention_attach(struct layer *l)
{
	l->attention = attention_new(l->net->w, l->net->places, l->out / l->head_width,
				     l->head_width, l->net->rows_max);
}

static void attention_layer_forward(struct layer *l, size_t rows)
{
	attention_forward(l->attention, l->y, l->x, rows / l->net->places);
}

static void attention_layer_backward(struct layer *l, size_t rows)
{
	attention_backward(l->attention, l->dx, l->dy, l->x, rows / l->net->places);
}

static const struct layer_kind kind_attention = {
	.chains = true,
	.place = attention_place,
	.attach = attention_attach,
	.forward = attention_layer_forward,
	.backward = attention_layer_backward,
};

void net_attention(struct net *net, size_t heads)
{
	CHECK(net->tokens && net->outputs % (3 * heads) == 0,
	      "%zu heads of q, k and v of %zu floats", heads, net->outputs);
	net_push(net, &kind_attention)->head_width = net->outputs / (3 * heads);
	net->outputs /= 3;
}
