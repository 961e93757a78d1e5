/*
 * allreduce.c - synchronous data-parallel SGD: all replicas stay equal.
 *
 *   g = mean of the trainers' gradients;  v = m v + g;  w -= lr v      on every replica
 *
 * A step sends 2 (N - 1) / N P floats a trainer. With --allreduce.overlap the gradient is cut, from
 * the last layer to the first, into buckets; a bucket is sent as soon as the backward pass has left
 * its layers, while the layers below still compute (flashlight's and PyTorch DDP's scheme).
 */
#include "mvbench.h"

enum { BUCKETS = ALLREDUCES_MOST }; /* all may be under way at once */

struct allreduce_opts {
	bool overlap;
	int64_t bucket;
};

struct bucket {
	size_t layer; /* its first layer, the last one that the backward pass reaches */
	size_t first, n;
	struct request *request; /* NULL = not under way */
};

struct allreduce {
	struct bucket bucket[BUCKETS];
	size_t buckets;
};

#define OWNER struct allreduce_opts
static const struct option allreduce_options[] = {
	OPTION(overlap, BOOL, "overlap", "false",
	       "send a bucket of gradients while the layers below still compute [true/false]"),
	OPTION(bucket, SIZE, "bucket", "4KiB",
	       "with --allreduce.overlap: size of a bucket of gradients [bytes]", .min = 1,
	       .max = 1e12),
	{0},
};

/* Layers, from the last one down, join a bucket until it is full; past BUCKETS all join the last
 * bucket. Of a model with more layers a bucket holds at least its share: otherwise the last one
 * would hold most of the model, and nothing would hide its sum. */
static void allreduce_init(struct worker *w)
{
	const struct allreduce_opts *o = w->opts;
	struct allreduce *s = w->state;
	const struct model *m = w->model;
	size_t full = (size_t)o->bucket / sizeof(float), share = vec_len(w->grad) / BUCKETS + 1;
	if (m->layers > BUCKETS && full < share)
		full = share;
	for (size_t i = m->layers; i-- > 0;) {
		size_t n = m->layer[i + 1] - m->layer[i];
		struct bucket *b = s->buckets ? &s->bucket[s->buckets - 1] : NULL;
		if (!b || (b->n >= full && s->buckets < BUCKETS))
			b = &s->bucket[s->buckets++];
		*b = (struct bucket){.layer = i, .first = w->model->layer[i], .n = b->n + n};
	}
}

/* The bucket whose first layer this is; NULL: none. */
static struct bucket *bucket_at(const struct worker *w, size_t i)
{
	struct allreduce *s = w->state;
	for (size_t k = 0; k < s->buckets; k++)
		if (s->bucket[k].layer == i)
			return &s->bucket[k];
	return NULL;
}

static bool allreduce_wants_layer(const struct worker *w, size_t i)
{
	const struct allreduce_opts *o = w->opts;
	return o->overlap && bucket_at(w, i);
}

static void allreduce_layer_ready(struct worker *w, size_t i)
{
	struct bucket *b = bucket_at(w, i);
	b->request = comm_allreduce_start(w->coded, w->grad, b->first, b->n);
}

static void allreduce_step(struct worker *w)
{
	const struct allreduce_opts *o = w->opts;
	struct allreduce *s = w->state;
	if (!o->overlap)
		comm_allreduce(w->coded, w->grad, SUM);
	for (size_t k = 0; o->overlap && k < s->buckets; k++) {
		comm_wait(s->bucket[k].request);
		s->bucket[k].request = NULL;
	}
	common_step(w);
}

static double allreduce_bytes(const struct worker *w)
{
	const struct allreduce_opts *o = w->opts;
	const struct allreduce *s = w->state;
	double bytes = 0;
	for (size_t k = 0; o->overlap && k < s->buckets; k++)
		bytes += comm_sum_bytes(w->coded, s->bucket[k].first, s->bucket[k].n);
	return o->overlap ? bytes : comm_sum_bytes(w->coded, 0, vec_len(w->grad));
}

static const struct setting allreduce_variants[] = {{"overlap", "true"}, {NULL, NULL}};

const struct strategy strategy_allreduce = {
	.plugin = {.name = "allreduce",
		   .summary = "synchronous SGD: gradients are averaged at every step",
		   .options = allreduce_options,
		   .opts_size = sizeof(struct allreduce_opts)},
	.state_size = sizeof(struct allreduce),
	.init = allreduce_init,
	.layer_ready = allreduce_layer_ready,
	.wants_layer = allreduce_wants_layer,
	.step = allreduce_step,
	.codes = CODES_SUMS,
	.bytes_per_step = allreduce_bytes,
	.epoch_time = "steps (step + wait for the slowest + allreduce); overlap hides a part",
	.variants = allreduce_variants,
};
