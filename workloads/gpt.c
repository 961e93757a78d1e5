/*
 * gpt.c - a language model of bytes: the causal transformer of GPT-2 (Radford et al. 2019), with
 * normalisations before the blocks, learned positions, GELU, and the embedding's table as its last
 * layer. Each of the T bytes of context predicts the next one:
 *
 *     x = table[byte] + place[t]
 *     `layers` times:  x += W_o attention(W_qkv norm(x));  x += W_2 gelu(W_1 norm(x))
 *     scores = table norm(x)
 *
 * Weights start as GPT-2's: N(0, 0.02^2), W_o and W_2 with 0.02 / sqrt(2 layers).
 *
 * With width D: 256 D + T D + layers (12 D^2 + 13 D) + 2 D parameters, 834,304 by default; a byte
 * costs 2 (12 layers D^2 + 2 layers T D + 256 D) flops forward, three times that in a step.
 */
#include "workloads/datasets.h"

struct gpt {
	int64_t layers, heads, width, context;
};

#define OWNER struct gpt
static const struct option options[] = {
	OPTION(layers, INT, "layers", "4",
	       "number of layers, each an attention and a feed-forward block [layers]", .min = 1,
	       .max = 1000),
	OPTION(heads, INT, "heads", "4",
	       "heads of an attention; they must divide --gpt.width [heads]", .min = 1,
	       .max = 1024),
	OPTION(width, INT, "width", "128", "length of a byte's vector [floats]", .min = 1,
	       .max = 65536),
	OPTION(context, INT, "context", "64", "previous bytes that a prediction can use [bytes]",
	       .min = 1, .max = 65536),
	{0},
};

static char *gpt_refuse(const struct run *run, const void *opts)
{
	const struct gpt *o = opts;
	(void)run;
	if (o->width % o->heads == 0)
		return NULL;
	return sentence("--gpt.heads=%lld: this number does not divide --gpt.width=%lld; give "
			"numbers of which one divides the other",
			(long long)o->heads, (long long)o->width);
}

static char *gpt_cut(const void *opts, struct data *set)
{
	const struct gpt *o = opts;
	const size_t context = (size_t)o->context;
	if (set->n < context)
		return sentence("--gpt.context=%zu: the text has a part of only %zu bytes; give a "
				"shorter context, or by --data-dir a longer text",
				context, set->n);
	set->n /= context;
	set->features = set->targets = context;
	return NULL;
}

static void gpt_init(struct worker *w, const struct data *sample)
{
	const struct gpt *o = w->model->opts;
	const size_t width = (size_t)o->width;
	struct net *net = net_new(w, sample);
	net_embedding(net, width);
	for (int64_t i = 0; i < o->layers; i++) {
		net_fork(net);
		net_layer_norm(net);
		net_linear(net, 3 * width, INIT_SMALL);
		net_attention(net, (size_t)o->heads);
		net_linear(net, width, INIT_SMALL);
		net_join(net);
		net_fork(net);
		net_layer_norm(net);
		net_linear(net, 4 * width, INIT_SMALL);
		net_gelu(net);
		net_linear(net, width, INIT_SMALL);
		net_join(net);
	}
	net_layer_norm(net);
	net_tied(net);
	net_finish(net, LOSS_XENT);
}

static const struct setting recipe[] = {
	{"batch", "12"},        {"lr", "1e-3"},          {"lr-schedule", "cosine"},
	{"optimizer", "adamw"}, {"weight-decay", "0.1"}, {"decay", "weights"},
	{"clip", "1"},          {"epochs", "8"},         {NULL, NULL}};

const struct workload workload_gpt = {
	.plugin = {.name = "gpt",
		   .summary = "a transformer that predicts the next byte of a text",
		   .options = options,
		   .opts_size = sizeof(struct gpt)},
	.dataset = &dataset_text,
	.recipe = recipe,
	.refuse = gpt_refuse,
	.cut = gpt_cut,
	.init = gpt_init,
	NET_SLOTS,
};
