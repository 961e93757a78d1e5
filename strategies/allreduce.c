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
 *
 * With --allreduce.hierarchical the workers of each machine sum first, then one of each machine
 * with those of the others, and it gives the sum to the rest of its machine: M machines of G
 * workers make 2 (M - 1) steps between machines instead of 2 (M G - 1). Where the simulated
 * platform has several sites, these take the place of machines.
 */
#include "mvbench.h"

#include <string.h>

enum { BUCKETS = ALLREDUCES_MOST }; /* all may be under way at once */

struct allreduce_opts {
	const char *overlap;
	bool hierarchical;
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
	/* hierarchical: the workers of this machine; the first ones of all machines, if this worker
	 * is one of them, otherwise the others */
	struct comm *machine, *across;
	int machines;
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
	OPTION(hierarchical, BOOL, "hierarchical", "false",
	       "sum inside each machine, or site, then between them [true/false]"),
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
	bool coded = strcmp(run_codec(run), "none") != 0;
	if (o->hierarchical && strcmp(o->overlap, "false") != 0)
		return sentence("--allreduce.hierarchical: it sums whole gradients; leave "
				"--allreduce.overlap out");
	if (o->hierarchical && coded)
		return sentence("--allreduce.hierarchical: its sums are not compressed; leave "
				"--codec=%s out",
				run_codec(run));
	if (strcmp(o->overlap, "next") == 0 && coded)
		return sentence("--allreduce.overlap=next: no sum of --codec=%s may last until the "
				"next step; give --allreduce.overlap=true",
				run_codec(run));
	return NULL;
}

static void find_machines(struct worker *w)
{
	struct allreduce *s = w->state;
	s->machine = comm_split_places(w->data_group, &s->machines);
	s->across = comm_split(w->data_group, comm_rank(s->machine) > 0);
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
	if (o->hierarchical)
		find_machines(w);
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

static void hierarchical_sum(struct worker *w)
{
	struct allreduce *s = w->state;
	comm_allreduce(s->machine, w->grad, COMM_SUM);
	if (comm_rank(s->machine) == 0)
		comm_allreduce(s->across, w->grad, COMM_SUM);
	if (s->machines > 1)
		comm_broadcast(s->machine, 0, w->grad);
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
	if (o->hierarchical)
		hierarchical_sum(w);
	else if (!overlaps(w))
		comm_allreduce(w->coded, w->grad, COMM_SUM);
	for (size_t k = 0; overlaps(w) && k < s->buckets; k++)
		await(&s->bucket[k]);
	common_step(w);
}

static double allreduce_bytes(const struct worker *w)
{
	const struct allreduce_opts *o = w->opts;
	const struct allreduce *s = w->state;
	double bytes = 0, n = comm_size(w->data_group), m = s->machines;
	if (o->hierarchical) /* inside, between, and the broadcast */
		return sizeof(float) * (double)vec_len(w->grad) / n *
		       (2 * (n - m) + 2 * (m - 1) + (m > 1) * (n - m));
	for (size_t k = 0; overlaps(w) && k < s->buckets; k++)
		bytes += comm_sum_bytes(w->coded, s->bucket[k].first, s->bucket[k].n);
	return overlaps(w) ? bytes : comm_sum_bytes(w->coded, 0, vec_len(w->grad));
}

static void allreduce_fini(struct worker *w)
{
	struct allreduce *s = w->state;
	comm_free(s->machine);
	comm_free(s->across);
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
	.fini = allreduce_fini,
	.layer_ready = allreduce_layer_ready,
	.wants_layer = allreduce_wants_layer,
	.step = allreduce_step,
	.layer_needed = allreduce_layer_needed,
	.codes = CODES_SUMS,
	.bytes_per_step = allreduce_bytes,
	.epoch_time = "steps (step + wait for the slowest + allreduce); overlap hides a part",
	.variants = allreduce_variants,
};
