/*
 * allreduce.c - synchronous data-parallel SGD: all replicas stay equal.
 *
 *   g = mean of the trainers' gradients;  v = m v + g;  w -= lr v      on every replica
 *
 * A step sends 2 (N - 1) / N P floats a trainer. With --allreduce.overlap the gradient is cut, from
 * the last layer to the first, into buckets; a bucket is sent as soon as the backward pass has left
 * its layers, while the layers below still compute (flashlight's and PyTorch DDP's scheme). With
 * --allreduce.overlap=next it may still travel in the forward pass of the next step, which waits
 * for a layer's bucket, and makes its step, only before it reads that layer.
 */
#include "mvbench.h"

#include <string.h>

enum { BUCKETS = ALLREDUCES_MOST }; /* all may be under way at once */

struct allreduce_opts {
	const char *overlap;
	int64_t bucket;
};

struct bucket {
	size_t layer; /* its first layer, the last one that the backward pass reaches */
	size_t first, n;
	struct request *request; /* NULL = not under way */
	bool later;              /* its step is still to be made */
};

struct allreduce {
	struct bucket bucket[BUCKETS];
	size_t buckets;
};

#define OWNER struct allreduce_opts
static const struct option allreduce_options[] = {
	OPTION(overlap, CHOICE, "overlap", "false",
	       "send a bucket of gradients while the layers below still compute (true), and until "
	       "the "
	       "next forward pass reaches its layers (next) [name]",
	       .choices = "false|true|next"),
	OPTION(bucket, SIZE, "bucket", "4KiB",
	       "with --allreduce.overlap: size of a bucket of gradients [bytes]", .min = 1,
	       .max = 1e12),
	{0},
};

static bool overlaps(const struct worker *w)
{
	const struct allreduce_opts *o = w->opts;
	return strcmp(o->overlap, "false") != 0;
}

/* The sums of a codec belong to one step. */
static char *allreduce_refuse(const struct run *run, const void *opts)
{
	const struct allreduce_opts *o = opts;
	return strcmp(o->overlap, "next") == 0 && strcmp(run_codec(run), "none") != 0
		       ? sentence("--allreduce.overlap=next: no sum of --codec=%s may last until "
				  "the "
				  "next step; give --allreduce.overlap=true",
				  run_codec(run))
		       : NULL;
}

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
	if (strcmp(o->overlap, "next") == 0)
		common_step_cut(w);
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
	return overlaps(w) && bucket_at(w, i);
}

static void allreduce_layer_ready(struct worker *w, size_t i)
{
	struct bucket *b = bucket_at(w, i);
	b->request = comm_allreduce_start(w->coded, w->grad, b->first, b->n);
}

static void await(struct bucket *b)
{
	comm_wait(b->request);
	b->request = NULL;
}

/* The bucket of layer i makes the step that allreduce_step left to it. */
static void allreduce_layer_needed(struct worker *w, size_t i)
{
	struct allreduce *s = w->state;
	struct bucket *b = s->bucket;
	while (b->layer > i)
		b++;
	if (!b->later)
		return;
	b->later = false;
	await(b);
	common_step_part(w, b->first, b->first + b->n);
}

static void allreduce_step(struct worker *w)
{
	const struct allreduce_opts *o = w->opts;
	struct allreduce *s = w->state;
	bool later = strcmp(o->overlap, "next") == 0 && common_step_later(w);
	for (size_t k = 0; k < s->buckets; k++)
		s->bucket[k].later = later;
	if (later)
		return;
	if (!overlaps(w))
		comm_allreduce(w->coded, w->grad, SUM);
	for (size_t k = 0; overlaps(w) && k < s->buckets; k++)
		await(&s->bucket[k]);
	common_step(w);
}

static double allreduce_bytes(const struct worker *w)
{
	const struct allreduce *s = w->state;
	double bytes = 0;
	for (size_t k = 0; overlaps(w) && k < s->buckets; k++)
		bytes += comm_sum_bytes(w->coded, s->bucket[k].first, s->bucket[k].n);
	return overlaps(w) ? bytes : comm_sum_bytes(w->coded, 0, vec_len(w->grad));
}

static const struct setting allreduce_variants[] = {{"overlap", "true"}, {NULL, NULL}};

const struct strategy strategy_allreduce = {
	.plugin = {.name = "allreduce",
		   .summary = "synchronous SGD: gradients are averaged at every step",
		   .options = allreduce_options,
		   .opts_size = sizeof(struct allreduce_opts)},
	.state_size = sizeof(struct allreduce),
	.refuse = allreduce_refuse,
	.init = allreduce_init,
	.layer_ready = allreduce_layer_ready,
	.wants_layer = allreduce_wants_layer,
	.step = allreduce_step,
	.layer_needed = allreduce_layer_needed,
	.codes = CODES_SUMS,
	.bytes_per_step = allreduce_bytes,
	.epoch_time = "steps (step + wait for the slowest + allreduce); overlap hides a part",
	.variants = allreduce_variants,
};
