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
 * With width D and V tokens: V D + T D + layers (12 D^2 + 13 D) + 2 D parameters, 834,304 by
 * default; a token costs 2 (12 layers D^2 + 2 layers T D + V D) flops forward, three times that in
 * a step. Bytes are the first 256 tokens of a larger vocabulary.
 *
 * --gpt.shape has the shapes of GPT-2 (its table 2) and of GPT-3 (Brown et al. 2020, table 2.1),
 * whose tokens are the same 50,257.
 */
#include "workloads/datasets.h"

#include <stdlib.h>
#include <string.h>

struct gpt {
	const char *shape;
	int64_t layers, heads, width, context, vocabulary;
};

/* Name, layers, heads, width, context. */
#define SHAPE_LIST(X) \
	X("gpt2", 12, 12, 768, 1024) \
	X("gpt2-medium", 24, 16, 1024, 1024) \
	X("gpt2-large", 36, 20, 1280, 1024) \
	X("gpt2-xl", 48, 25, 1600, 1024) \
	X("gpt3-1.3b", 24, 16, 2048, 2048) \
	X("gpt3-2.7b", 32, 32, 2560, 2048) \
	X("gpt3-6.7b", 32, 32, 4096, 2048) \
	X("gpt3-13b", 40, 40, 5120, 2048) \
	X("gpt3-175b", 96, 96, 12288, 2048)
#define SHAPE_NAME(name, ...) "|" name

#define OWNER struct gpt
static const struct option options[] = {
	OPTION(shape, CHOICE, "shape", "own",
	       "shape of a well-known model, instead of the following options; own: as they give "
	       "it [name]",
	       .choices = "own" SHAPE_LIST(SHAPE_NAME)),
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
	OPTION(vocabulary, INT, "vocabulary", "256",
	       "rows of the embedding's table; bytes are the first 256 of them [tokens]",
	       .min = 256, .max = 1e7),
	{0},
};

/* The given options, or those of --gpt.shape. */
static struct gpt shape_of(const struct gpt *o)
{
#define SHAPE_ROW(name, layers, heads, width, context) {name, layers, heads, width, context, 50257},
	static const struct gpt known[] = {SHAPE_LIST(SHAPE_ROW)};
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (strcmp(known[i].shape, o->shape) == 0)
			return known[i];
	return *o;
}

static char *gpt_refuse(const struct run *run, const void *opts)
{
	const struct gpt *o = opts;
	bool own = strcmp(o->shape, "own") == 0;
	(void)run;
	for (const struct option *x = options + 1; x->name && !own; x++)
		if (*(const int64_t *)((const char *)opts + x->offset) != strtoll(x->def, NULL, 10))
			return sentence(
				"--gpt.%s: --gpt.shape=%s sets it; leave one of the two out",
				x->name, o->shape);
	if (!own || o->width % o->heads == 0)
		return NULL;
	return sentence("--gpt.heads=%lld: this number does not divide --gpt.width=%lld; give "
			"numbers of which one divides the other",
			(long long)o->heads, (long long)o->width);
}

static char *gpt_cut(const void *opts, struct data *set)
{
	const struct gpt o = shape_of(opts);
	const size_t context = (size_t)o.context;
	if (set->n < context)
		return sentence("--gpt.context=%zu: the text has a part of only %zu bytes; give a "
				"shorter context, or by --data-dir a longer text",
				context, set->n);
	set->n /= context;
	set->features = set->targets = context;
	set->classes = (size_t)o.vocabulary;
	return NULL;
}

static void gpt_init(struct worker *w, const struct data *sample)
{
	const struct gpt o = shape_of(w->model->opts);
	const size_t width = (size_t)o.width;
	struct net *net = net_new(w, sample);
	net_embedding(net, width);
	for (int64_t i = 0; i < o.layers; i++) {
		net_fork(net);
		net_layer_norm(net);
		net_linear(net, 3 * width, INIT_SMALL);
		net_attention(net, (size_t)o.heads);
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
