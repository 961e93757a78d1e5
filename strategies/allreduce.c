/*
 * allreduce.c - synchronous data-parallel SGD: all replicas stay equal.
 *
 *   g = mean of the trainers' gradients;  v = m v + g;  w -= lr v      on every replica
 *
 * A step sends 2 (N - 1) / N P floats a trainer. With --allreduce.overlap the gradient is cut, from
 * the last layer to the first, into buckets; a bucket is sent as soon as the backward pass has left
 * its layers, while the layers below still compute (flashlight's and PyTorch DDP's scheme).
 *
 * With --allreduce.hierarchical the workers of each machine sum first, then one of each machine
 * with those of the others, and it gives the sum to the rest of its machine: M machines of G
 * workers make 2 (M - 1) steps between machines instead of 2 (M G - 1).
 */
#include "mvbench.h"

#include <string.h>

enum { BUCKETS = ALLREDUCES_MOST }; /* all may be under way at once */

struct allreduce_opts {
	bool overlap, hierarchical;
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
	/* hierarchical: the workers of this machine; the first ones of all machines, if this worker
	 * is one of them, otherwise the others */
	struct comm *machine, *across;
	double machines;
};

#define OWNER struct allreduce_opts
static const struct option allreduce_options[] = {
	OPTION(overlap, BOOL, "overlap", "false",
	       "send a bucket of gradients while the layers below still compute [true/false]"),
	OPTION(bucket, SIZE, "bucket", "4KiB",
	       "with --allreduce.overlap: size of a bucket of gradients [bytes]", .min = 1,
	       .max = 1e12),
	OPTION(hierarchical, BOOL, "hierarchical", "false",
	       "sum inside each machine, then between machines [true/false]"),
	{0},
};

static char *allreduce_refuse(const struct run *run, const void *opts)
{
	const struct allreduce_opts *o = opts;
	if (o->hierarchical && o->overlap)
		return sentence("--allreduce.hierarchical: it sums whole gradients; leave "
				"--allreduce.overlap out");
	if (o->hierarchical && strcmp(run_codec(run), "none") != 0)
		return sentence("--allreduce.hierarchical: its sums are not compressed; leave "
				"--codec=%s out",
				run_codec(run));
	return NULL;
}

static void find_machines(struct worker *w)
{
	struct allreduce *s = w->state;
	int first = comm_machine(w->data_group), me = comm_rank(w->data_group);
	s->machine = comm_split(w->data_group, first);
	s->across = comm_split(w->data_group, me != first);
	s->machines = me == first ? comm_size(s->across)
				  : comm_size(w->data_group) - comm_size(s->across);
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

static void hierarchical_sum(struct worker *w)
{
	struct allreduce *s = w->state;
	comm_allreduce(s->machine, w->grad, SUM);
	if (comm_rank(s->machine) == 0)
		comm_allreduce(s->across, w->grad, SUM);
	if (s->machines > 1)
		comm_broadcast(s->machine, 0, w->grad);
}

static void allreduce_step(struct worker *w)
{
	const struct allreduce_opts *o = w->opts;
	struct allreduce *s = w->state;
	if (o->hierarchical)
		hierarchical_sum(w);
	else if (!o->overlap)
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
	double bytes = 0, n = comm_size(w->data_group), m = s->machines;
	if (o->hierarchical) /* inside, between, and the broadcast */
		return sizeof(float) * (double)vec_len(w->grad) / n *
		       (2 * (n - m) + 2 * (m - 1) + (m > 1) * (n - m));
	for (size_t k = 0; o->overlap && k < s->buckets; k++)
		bytes += comm_sum_bytes(w->coded, s->bucket[k].first, s->bucket[k].n);
	return o->overlap ? bytes : comm_sum_bytes(w->coded, 0, vec_len(w->grad));
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
	.codes = CODES_SUMS,
	.bytes_per_step = allreduce_bytes,
	.epoch_time = "steps (step + wait for the slowest + allreduce); overlap hides a part",
	.variants = allreduce_variants,
};
