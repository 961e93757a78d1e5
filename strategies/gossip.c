/*
 * gossip.c - decentralised averaging: each trainer averages with a few others; there is no sum over
 * all.
 *
 *   order=after, each step:   v = m v + g;  w -= lr v                        local
 *     every X steps, round t: w_i = sum_j A_ij w_j
 *   order=before:             w_i = sum_j A_ij w_j - lr v_i, with g_i at w_i before the mixing
 *
 *     then an outer step:     u_i = mu u_i + a (w_i - W_i);  W_i += u_i;  w_i = W_i
 *
 * A is 1 / (d + 1) for a trainer and the d others that it hears in the round. Each hears as many as
 * hear it, so A is doubly stochastic: a round keeps the mean over the trainers, which is the
 * evaluated model, and the push-sum weights of SGP are 1. Who hears whom: graph.h, or all
 * (complete). Weights by rows would not keep the mean. A model therefore counts also in steps in
 * which its worker has no rows.
 *
 * The outer step with pairs is NoLoCo (arXiv 2506.10911), as its authors' code has it: the weight
 * of the distance between the two W equals a. It sends w alone: the mean change of the pair and the
 * distance of its W add up to (mean w) - W_i. a = 1 and mu = 0 is no outer step.
 *
 * order=before with every step (X = 1) is D-PSGD (Lian et al., NIPS 2017, arXiv 1705.09056);
 * one_peer with order=after is SGP (Assran et al., ICML 2019, arXiv 1811.10792). Both ends of a
 * message wait for each other; those of adpsgd do not.
 *
 * The distance of the models from their mean shrinks in a round without steps by the second largest
 * |eigenvalue| of A; for neighbours (1 + 2 cos(2 pi / N)) / 3.
 *
 * A round sends d P floats a trainer, an averaging of all by an allreduce 2 (N - 1) / N P.
 */
#include "strategies/graph.h"

#include <string.h>

struct gossip_opts {
	const char *schedule, *order;
	double outer_lr, outer_momentum;
};

struct gossip {
	struct vec *other;   /* a neighbour's w */
	struct vec *sum;     /* NULL: there is one neighbour at most */
	struct vec *own, *u; /* W_i, u_i; NULL: there is no outer step */
};

#define OWNER struct gossip_opts
static const struct option gossip_options[] = {
	OPTION(schedule, CHOICE, "schedule", "ring",
	       "with whom a worker averages: in pairs, with a neighbour on a ring, "
	       "along an edge of "
	       "a hypercube, or at random; or with several: both neighbours, four on a torus; one "
	       "at a distance of 1, 2, 4, ... in turn, all of these, or everybody",
	       .choices = "ring|hypercube|pairs|neighbours|torus|one_peer|exponential|complete"),
	OPTION(order, CHOICE, "order", "after",
	       "averages after the step, or before it, with the gradient of the model before: "
	       "D-PSGD",
	       .choices = "after|before"),
	OPTION(outer_lr, REAL, "outer-lr", "1",
	       "learning rate of the outer step after an averaging; NoLoCo's is 0.7 [factor]",
	       .min = 0, .max = 1000),
	OPTION(outer_momentum, REAL, "outer-momentum", "0",
	       "momentum of the outer step; NoLoCo's is 0.5 [factor]", .min = 0, .max = 0.999),
	{0},
};

static bool gossip_is(const struct gossip_opts *o, const char *schedule)
{
	return strcmp(o->schedule, schedule) == 0;
}

static bool gossip_pairs(const struct gossip_opts *o)
{
	return gossip_is(o, "ring") || gossip_is(o, "hypercube") || gossip_is(o, "pairs");
}

static char *gossip_refuse(const struct run *run, const void *opts)
{
	int64_t n = run_workers(run);
	if (strcmp(run_reduce(run), "sum") == 0)
		return sentence(
			"--reduce=sum: gossip averages the models of a few workers, and makes no "
			"sum over all workers; use --reduce=mean");
	if (gossip_is(opts, "hypercube") && (n & (n - 1)))
		return sentence("--workers=%d: a hypercube needs a power of two (2, 4, 8, ...); "
				"give one, or --gossip.schedule=ring",
				(int)n);
	if (!gossip_pairs(opts) && strcmp(run_codec(run), "none") != 0)
		return sentence("--codec=%s: a codec's messages need pairs of workers, and "
				"--gossip.schedule=%s has none; use ring, hypercube or pairs",
				run_codec(run), ((const struct gossip_opts *)opts)->schedule);
	return NULL;
}

static bool hears_several(const struct gossip_opts *o)
{
	return gossip_is(o, "neighbours") || gossip_is(o, "torus") || gossip_is(o, "exponential");
}

static void gossip_init(struct worker *w)
{
	const struct gossip_opts *o = w->opts;
	struct gossip *s = w->state;
	s->other = vec_new(w, vec_len(w->param));
	s->sum = hears_several(o) ? vec_new(w, vec_len(w->param)) : NULL;
	if (o->outer_lr == 1 && o->outer_momentum == 0)
		return;
	s->own = vec_new(w, vec_len(w->param));
	vec_copy(s->own, w->param);
	s->u = vec_new(w, vec_len(w->param));
	worker_keep_vec(w, s->own);
	worker_keep_vec(w, s->u);
}

static void outer_step(struct worker *w)
{
	const struct gossip_opts *o = w->opts;
	struct gossip *s = w->state;
	if (!s->u)
		return;
	vec_axpy(w->param, -1, s->own);
	vec_scale(s->u, (float)o->outer_momentum);
	vec_axpy(s->u, (float)o->outer_lr, w->param);
	vec_axpy(s->own, 1, s->u);
	vec_copy(w->param, s->own);
}

static void gossip_mix(struct worker *w, int64_t t)
{
	const struct gossip_opts *o = w->opts;
	struct gossip *s = w->state;
	struct peers p[PEERS_MOST];
	bool complete = gossip_is(o, "complete");
	consensus_mark(w);
	if (complete)
		comm_allreduce(w->data_group, w->param, COMM_MEAN);
	int d = complete ? 0 : graph_peers(w, o->schedule, t, p);
	const float share = 1.0f / (float)(d + 1); /* 0.5 is exact: both ends round alike */
	struct vec *sum = d > 1 ? s->sum : w->param;
	for (int k = 0; k < d; k++) {
		comm_exchange(w->coded, p[k].to, w->param, p[k].from, s->other);
		if (k == 0 && d > 1)
			vec_copy(sum, w->param);
		if (k == 0)
			vec_scale(sum, share);
		vec_axpy(sum, share, s->other);
	}
	if (d > 1)
		vec_copy(w->param, sum);
	outer_step(w);
	if (d > 0 || complete)
		local_met(w);
}

static void gossip_step(struct worker *w)
{
	const struct gossip_opts *o = w->opts;
	int64_t every = run_sync_every(w->run), t = w->step / every - 1;
	bool alone = comm_size(w->data_group) == 1, mixes = !alone && w->step % every == 0;
	if (mixes && strcmp(o->order, "before") == 0) {
		local_gradient(w);
		gossip_mix(w, t);
		local_update(w);
		return;
	}
	local_step(w, 1);
	if (mixes)
		gossip_mix(w, t);
	else if (alone && w->step % every == 0)
		outer_step(w);
}

static void gossip_fini(struct worker *w)
{
	struct gossip *s = w->state;
	vec_free(s->other);
	vec_free(s->sum);
	vec_free(s->own);
	vec_free(s->u);
}

static double gossip_bytes(const struct worker *w)
{
	const struct gossip_opts *o = w->opts;
	struct peers p[PEERS_MOST];
	int n = comm_size(w->data_group);
	double messages = (double)(n - n % 2) / n; /* of pairs: one may sit out */
	if (n == 1)
		return 0;
	if (gossip_is(o, "complete"))
		messages = 2 * (double)(n - 1) / n;
	else if (!gossip_pairs(o))
		messages = graph_peers(w, o->schedule, 0, p);
	return messages * comm_exchange_bytes(w->coded, vec_len(w->param)) /
	       (double)run_sync_every(w->run);
}

const struct strategy strategy_gossip = {
	.plugin =
		{.name = "gossip",
		 .summary =
			 "decentralised: every X steps a worker averages with one or a few others, "
			 "and waits for them; D-PSGD, SGP and NoLoCo are settings",
		 .options = gossip_options,
		 .opts_size = sizeof(struct gossip_opts)},
	.state_size = sizeof(struct gossip),
	.refuse = gossip_refuse,
	.init = gossip_init,
	.step = gossip_step,
	.fini = gossip_fini,
	.average = true,
	.codes = CODES_PAIRS,
	.meets = MEETS_ALONE,
	.bytes_per_step = gossip_bytes,
	.epoch_time = "steps (step + wait for a neighbour / sqrt X + messages / X)",
};
