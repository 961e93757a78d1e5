/*
 * adpsgd.c - AD-PSGD (Lian et al., ICML 2018, arXiv 1710.06952): each trainer averages its model
 * with that of one other, at its own time; no worker waits for another.
 *
 *   each step, g of what w_i was when its gradient began:
 *     every X steps: w_i = w_j = (w_i + w_j) / 2                j: one of the others, at random
 *     v = m v + g;  w_i -= lr v
 *
 * X = 1 is the paper's box. --adpsgd.graph says who the others are: all, or those of graph.h.
 * The models are in a table with a w for each trainer, so that others average with w_i while
 * trainer i computes. In placement onesided each trainer has its own.
 *
 * w_j changes in one operation. Trainer i reads w_i right before it and adds d, the half of the
 * difference that w_j lost, right after it, together with its step. If a third trainer averages
 * with w_i in between, d is of the w_i before that. The sum of all models changes by steps only, in
 * any case: an averaging keeps the mean over the trainers, which is the evaluated model.
 *
 * --adpsgd.form=push is push-sum, for messages in one direction (GoSGD, Blot et al. 2016, arXiv
 * 1611.01540, with a message every X steps):
 *
 *     every X steps: w_i = (y_i w_i + sum of x that came) / (y_i + sum of y that came)
 *                    y_i = y_i + sum of y that came            at first 1
 *     v = m v + g;  w_i -= lr v
 *     every X steps: y_i = y_i / 2;  x = y_i w_i and y = y_i go to j      if y_i >= 1e-6
 *
 * There the table has an inbox of P + 1 floats for each trainer. Messages keep the sums of all y w
 * and of all y. The quotient of these sums is the evaluated model. One-sided
 * operations are atomic for each float only: a trainer may get a part of a message, and the rest
 * with its next one.
 *
 * An averaging moves 2 P floats, a message P + 1, as what is the trainer's own is near it; with
 * servers 6 P, and 3 P. The vector beside w_i costs P floats and three passes over two vectors.
 */
#include "strategies/graph.h"

#include <string.h>

struct adpsgd_opts {
	const char *graph, *form;
};

struct adpsgd {
	struct table *models; /* of all, or their inboxes; NULL: there are no others */
	struct vec *known;    /* w_i when this trainer last read it */
	/* push: a message [P + 1], its parts, and y_i */
	struct vec *message, *x, *y;
	double weight;
};

#define OWNER struct adpsgd_opts
static const struct option adpsgd_options[] = {
	OPTION(graph, CHOICE, "graph", "complete",
	       "with whom a worker averages: one of all others, of its neighbours on a ring or a "
	       "torus, or of those at distances of 1, 2, 4, ... [name]",
	       .choices = "complete|neighbours|torus|exponential"),
	OPTION(form, CHOICE, "form", "average",
	       "two workers average their models; or one pushes half of its own to the other, "
	       "which adds it later: push-sum [name]",
	       .choices = "average|push"),
	{0},
};

static bool pushes(const struct worker *w)
{
	const struct adpsgd_opts *o = w->opts;
	return strcmp(o->form, "push") == 0;
}

static char *adpsgd_refuse(const struct run *run, const void *opts)
{
	const struct adpsgd_opts *o = opts;
	if (strcmp(run_reduce(run), "sum") == 0)
		return sentence("--reduce=sum: adpsgd averages models, and makes no sum; use "
				"--reduce=mean");
	if (workers_leaving(run) > 0 && strcmp(o->form, "push") == 0)
		return sentence("--leave=%s: what is pushed to a worker that has left is lost; use "
				"--adpsgd.form=average",
				run_leave(run));
	return NULL;
}

static struct table_terms adpsgd_terms(const struct run *run, const void *opts)
{
	(void)run, (void)opts;
	return (struct table_terms){.each = true};
}

static void adpsgd_init(struct worker *w)
{
	struct adpsgd *s = w->state;
	if (comm_size(w->data_group) == 1)
		return;
	size_t n = vec_len(w->param);
	if (!pushes(w)) {
		s->models = table_new(w, w->param);
		s->known = vec_new(w, n);
		vec_copy(s->known, w->param);
		return;
	}
	s->message = vec_new(w, n + 1);
	s->x = vec_slice(s->message, 0, n);
	s->y = vec_slice(s->message, n, 1);
	s->weight = 1;
	s->models = table_new(w, s->message);
	worker_keep(w, &s->weight, sizeof s->weight);
}

static int partner(const struct worker *w)
{
	const struct adpsgd_opts *o = w->opts;
	struct peers p[PEERS_MOST];
	int n = comm_size(w->data_group), rank = comm_rank(w->data_group);
	bool all = strcmp(o->graph, "complete") == 0;
	uint64_t rng = rng_seed(run_seed(w->run), RNG_STRATEGY, w->step * n + rank);
	uint64_t others = (uint64_t)(all ? n - 1 : graph_peers(w, o->graph, 0, p));
	int k = (int)(rng_next(&rng) % others);
	return all ? (rank + 1 + k) % n : p[k].to;
}

/* w_i += what changed here since it was read;  param = w_i */
static void catch_up(struct worker *w)
{
	struct adpsgd *s = w->state;
	vec_scale(s->known, -1);
	vec_axpy(s->known, 1, w->param);
	table_of(s->models, comm_rank(w->data_group));
	table_push_pull(s->models, s->known, &(struct push){.scale = 1}, w->param);
	vec_copy(s->known, w->param);
}

/* message = what is in the inbox;  model = y_i w_i + x of it;  returns y_i + y of it */
static double add_message(struct worker *w, struct vec *model)
{
	const struct adpsgd *s = w->state;
	float more = 0;
	if (model != w->param)
		vec_copy(model, w->param);
	vec_scale(model, (float)s->weight);
	vec_axpy(model, 1, s->x);
	if (vec_has_data(s->y))
		vec_get(s->y, &more);
	return s->weight + more;
}

/* Empties the inbox: an elastic move by all of the difference from 0. */
static void collect(struct worker *w)
{
	struct adpsgd *s = w->state;
	vec_fill(s->message, 0);
	table_of(s->models, comm_rank(w->data_group));
	table_elastic(s->models, s->message, 1);
	s->weight = add_message(w, w->param);
	vec_scale(w->param, (float)(1 / s->weight));
}

/* A worker that has pushed so often without a message keeps the rest: halves of it would vanish. */
#define LEAST_WEIGHT 1e-6

static void push_half(struct worker *w)
{
	struct adpsgd *s = w->state;
	if (s->weight < LEAST_WEIGHT)
		return;
	if (vec_has_data(s->y))
		s->weight /= 2;
	vec_copy(s->x, w->param);
	vec_scale(s->x, (float)s->weight);
	vec_fill(s->y, (float)s->weight);
	table_of(s->models, partner(w));
	table_push(s->models, s->message, &(struct push){.scale = 1});
}

static void average(struct worker *w)
{
	struct adpsgd *s = w->state;
	catch_up(w);
	consensus_mark(w);
	table_of(s->models, partner(w));
	table_elastic(s->models, w->param, 0.5f);
}

static void adpsgd_step(struct worker *w)
{
	const struct adpsgd *s = w->state;
	bool steps = w->rows > 0, meets = s->models && w->step % run_sync_every(w->run) == 0;
	if (!meets) {
		if (steps) /* otherwise it has nothing to add */
			local_step(w, 1);
		return;
	}
	if (steps)
		local_gradient(w);
	if (pushes(w))
		consensus_mark(w);
	if (pushes(w))
		collect(w);
	else
		average(w);
	local_met(w);
	if (steps)
		local_update(w);
	if (pushes(w))
		push_half(w);
	else
		catch_up(w);
}

/* The steps since the last averaging. */
static void adpsgd_flush(struct worker *w)
{
	const struct adpsgd *s = w->state;
	if (s->known && w->step % run_sync_every(w->run))
		catch_up(w);
}

static void adpsgd_rejoin(struct worker *w)
{
	const struct adpsgd *s = w->state;
	if (s->known)
		catch_up(w);
	else if (s->models)
		collect(w);
}

/* At a barrier there are no steps that w_i lacks, and model may be param. Of push-sum: the sum of y
 * w over the trainers, whose y add up to N. */
static void adpsgd_canonical(struct worker *w, struct vec *model)
{
	const struct adpsgd *s = w->state;
	if (s->message) {
		table_of(s->models, comm_rank(w->data_group));
		table_get(s->models, s->message);
		add_message(w, model);
		return;
	}
	if (s->models)
		table_get(s->models, model);
	else if (model != w->param)
		vec_copy(model, w->param);
	if (s->models && model != w->param) {
		vec_axpy(model, 1, w->param);
		vec_axpy(model, -1, s->known);
	}
}

static void adpsgd_fini(struct worker *w)
{
	struct adpsgd *s = w->state;
	table_free(s->models);
	vec_free(s->known);
	vec_free(s->x);
	vec_free(s->y);
	vec_free(s->message);
}

/* Three operations both ways, or an inbox read and another's pushed to. Without servers only those
 * on another trainer's floats send; servers get the number of the row, too. */
static double adpsgd_bytes(const struct worker *w)
{
	double floats = sizeof(float) * (double)vec_len(w->param), one = 2 * floats, row = 8;
	bool servers = run_servers(w->run) > 0;
	if (pushes(w))
		one = (floats + sizeof(float)) * (servers ? 3 : 1) + (servers ? 2 * row : 0);
	else if (servers)
		one = 6 * floats + 3 * row;
	return comm_size(w->data_group) > 1 ? one / (double)run_sync_every(w->run) : 0;
}

const struct strategy strategy_adpsgd = {
	.plugin = {.name = "adpsgd",
		   .summary = "AD-PSGD: a worker averages its model with that of one other, and no "
			      "worker waits",
		   .options = adpsgd_options,
		   .opts_size = sizeof(struct adpsgd_opts)},
	.state_size = sizeof(struct adpsgd),
	.refuse = adpsgd_refuse,
	.terms = adpsgd_terms,
	.init = adpsgd_init,
	.step = adpsgd_step,
	.flush = adpsgd_flush,
	.rejoin = adpsgd_rejoin,
	.fini = adpsgd_fini,
	.canonical = adpsgd_canonical,
	.average = true,
	.may_leave = true,
	.meets = MEETS_ALONE,
	.bytes_per_step = adpsgd_bytes,
	.epoch_time = "steps (step + push and pull / X)",
};
