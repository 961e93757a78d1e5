/*
 * periodic.c - local SGD, or model averaging: each trainer trains alone for X steps; then all
 * average their models.
 *
 *   each step:     v = m v + g;  w -= lr v                 local
 *   every X steps: w = mean of w                           reduce=mean
 *                  w = w_avg + sum of (w - w_avg)          reduce=sum
 *
 * w_avg is the common model after the last averaging. With --periodic.outer the averaging is a step
 * of an outer optimiser, any of --optimizer, whose gradient is d = mean (or sum) of (w_avg - w):
 *
 *   u = mu (lr / lr_last) u + d; w = w_avg - a u           momentum: SlowMo, arXiv 1910.00643
 *   u = mu u + d;                w = w_avg - a u           sgd
 *   u = mu u + d;                w = w_avg - a (mu u + d)  nesterov: DiLoCo, arXiv 2311.08105
 *
 * a is --periodic.outer-lr, mu --periodic.outer-momentum; mu = 0 and a = 1 give w = mean of w.
 * SlowMo's own u is ours divided by lr, that of the first step of a round: ours is rescaled when lr
 * changes. Other optimisers have options of their own instead of mu: adamw:beta2=0.95.
 *
 * The evaluated model is the one after the averaging and its outer step; within a round it is the
 * model that averaging now would give, the mean of the trainers' contributions. The steps of
 * adagrad, adamw, lion and muon are not linear in w: there it is w_avg.
 *
 * The interval X_e of epoch e of E is X = --sync-every, or X^(1 - (e - 1) / (E - 1)) rounded, from
 * X down to 1 (rare averaging first, as in AdaComm, arXiv 1810.08313, which uses the loss), or the
 * reverse. The first --periodic.start steps are plain allreduce (post-local SGD, Lin et al., ICLR
 * 2020).
 *
 * Streaming (Streaming DiLoCo, arXiv 2501.18512): with --periodic.fragments=F the layers are cut
 * into F fragments, each with a W, a round and an outer step of its own. Fragment k is due in step
 * t if t mod X = floor(k X / F); its sum travels during the next --periodic.delay steps, and then
 *
 *   w = m w + (1 - m) W                                    m: --periodic.mix
 *
 * The steps that a trainer makes in the meantime count only by the share m of w. One fragment
 * without delay is DiLoCo.
 *
 * A delay of X steps is that of DiLoCoX (arXiv 2506.21263). A sum then arrives when the next round
 * begins. w is measured before W changes, so that all steps count; round t = 1, 2, ... ends with
 *
 *   d_t = mean (or sum) of (W_t-1 - w)
 *   W_t = outer step of W_t-1 with d_t-1;  w = m w + (1 - m) W_t
 *
 * The first round makes no outer step: W_1 = W_0. With --periodic.eager (arXiv 2502.12996) the
 * delay is also X, but the trainer's own change is not late:
 *
 *   d_i = 1/N (W_i - w_i) + 1/N sum_{j != i} (W_j - w_j of the round before)
 *
 * and each trainer has its own W_i. With a delay the evaluated model is W, or the mean of the W_i.
 *
 * Two levels: every --periodic.group-every steps the models of a group are averaged, between the
 * rounds of all. A group is a machine or a site, or --periodic.group neighbouring ranks.
 *
 * With optimisers that normalise, a model weighs in each mean as many steps as its worker had rows
 * in since the last one (README, workers without rows). In the mean of all these weights add up to
 * N. A group first sums its own: a float more, where a step had fewer rows than workers.
 *
 * An averaging sends 2 (N - 1) / N P floats a trainer, twice that with --state=average; fragments
 * send as much in X steps, in F parts. An outer step sends nothing; it costs P floats of memory for
 * w_avg, what its optimiser keeps, and three passes. Fragments or a delay cost P floats more, and a
 * delay of X another P.
 */
#include "strategies/fragment.h"
#include "strategies/levels.h"

#include <math.h>
#include <string.h>

struct periodic_opts {
	int64_t start;
	const char *schedule;
	struct outer_opts outer;
	struct stream_opts stream;
	struct levels_opts levels;
};

struct periodic {
	struct fragment_terms terms;
	struct fragment fragment[FRAGMENTS_MOST];
	struct levels levels;
};

#define OWNER struct periodic_opts
static const struct option periodic_options[] = {
	OPTION(start, INT, "start", "0",
	       "steps of plain allreduce before the averaging begins [steps]", .min = 0,
	       .max = 1e15),
	OPTION(schedule, CHOICE, "schedule", "fixed",
	       "steps between two averagings: always --sync-every; geometrically from that in the "
	       "first epoch down to 1 in the last; or from 1 up to it",
	       .choices = "fixed|down|up"),
	OUTER_OPTIONS,
	STREAM_OPTIONS,
	LEVELS_OPTIONS,
	{0},
};

static bool is_fixed(const struct periodic_opts *o)
{
	return strcmp(o->schedule, "fixed") == 0;
}

static char *periodic_refuse(const struct run *run, const void *opts)
{
	const struct periodic_opts *o = opts;
	char *wrong = outer_refuse(run, "periodic", &o->outer);
	wrong = wrong ? wrong : stream_refuse(run, "periodic", &o->stream, &o->outer);
	wrong = wrong ? wrong : levels_refuse(run, "periodic", &o->levels);
	if (wrong || is_fixed(o) || (o->stream.fragments == 1 && o->stream.delay == 0))
		return wrong;
	return sentence("--periodic.schedule=%s: the interval of a fragment, or with a delay, is "
			"--sync-every; use fixed",
			o->schedule);
}

static void periodic_init(struct worker *w)
{
	const struct periodic_opts *o = w->opts;
	struct periodic *s = w->state;
	bool sums = strcmp(run_reduce(w->run), "sum") == 0;
	/* a codec compresses changes of models, not models */
	s->terms = (struct fragment_terms){.outer = &o->outer,
					   .stream = &o->stream,
					   .remembers = sums || w->coded != w->data_group};
	if ((size_t)o->stream.fragments > w->model->layers)
		user_error("--periodic.fragments=%lld: the model has %zu layers; give at most as "
			   "many",
			   (long long)o->stream.fragments, w->model->layers);
	for (int64_t k = 0; k < o->stream.fragments; k++)
		fragment_init(&s->fragment[k], w, &s->terms, (size_t)k);
	levels_init(&s->levels, w, "periodic", &o->levels);
}

/* X_e, the steps between two averagings in epoch e. */
static int64_t interval(const struct run *run, const struct periodic_opts *o, int64_t epoch)
{
	double x = (double)run_sync_every(run), over;
	if (is_fixed(o) || run_epochs(run) == 1)
		return run_sync_every(run);
	over = (double)(epoch - 1) / (double)(run_epochs(run) - 1);
	return (int64_t)round(pow(x, strcmp(o->schedule, "down") == 0 ? 1 - over : over));
}

/* A fixed interval counts from the first step, whatever --periodic.start is; a changing interval
 * counts from the last averaging. */
static bool periodic_due(const struct worker *w, int64_t k)
{
	const struct periodic_opts *o = w->opts;
	const struct periodic *s = w->state;
	int64_t every = run_sync_every(w->run);
	if (is_fixed(o))
		return w->step % every == k * every / o->stream.fragments;
	return w->step - s->fragment[k].now.sent >= interval(w->run, o, w->epoch);
}

/* What a fragment has to do after a step: take the sum that has travelled, or send a new one. */
static void periodic_round(struct worker *w, int64_t k)
{
	const struct periodic_opts *o = w->opts;
	struct periodic *s = w->state;
	struct fragment *f = &s->fragment[k];
	bool due = periodic_due(w, k);
	if (!f->late && f->now.taken < f->now.sent && w->step >= f->now.sent + o->stream.delay)
		fragment_take(f, w, &s->terms);
	if (!due)
		return;
	consensus_mark(w);
	worker_report(w, "interval", (double)(w->step - f->now.sent));
	fragment_send(f, w, &s->terms);
	if (o->stream.delay == 0)
		fragment_take(f, w, &s->terms);
}

static void periodic_step(struct worker *w)
{
	const struct periodic_opts *o = w->opts;
	struct periodic *s = w->state;
	if (w->step <= o->start) {
		comm_allreduce(w->coded, w->grad, COMM_SUM);
		common_step(w);
		for (int64_t k = 0; k < o->stream.fragments; k++)
			fragment_restart(&s->fragment[k], w->step, w->step == o->start);
		return;
	}
	local_step(w, 1);
	for (int64_t k = 0; k < o->stream.fragments; k++)
		fragment_stepped(&s->fragment[k], w);
	levels_stepped(&s->levels, w);
	/* a single worker averages with no other, but its outer optimiser steps as well, and W is
	 * the model that counts in streams */
	if (comm_size(w->data_group) == 1 && !s->fragment[0].outer && !s->fragment[0].slice)
		return;
	if (levels_due(&s->levels, w) && !periodic_due(w, 0))
		levels_average(&s->levels, w);
	for (int64_t k = 0; k < o->stream.fragments; k++)
		periodic_round(w, k);
	if (!s->fragment[0].slice && s->fragment[0].now.taken == w->step) /* all are equal */
		levels_restart(&s->levels);
}

/* A barrier takes no sum before its time, but the sums have arrived then. */
static void periodic_flush(struct worker *w)
{
	const struct periodic_opts *o = w->opts;
	struct periodic *s = w->state;
	for (int64_t k = 0; k < o->stream.fragments; k++)
		fragment_wait(&s->fragment[k]);
}

static void periodic_canonical(struct worker *w, struct vec *model)
{
	const struct periodic_opts *o = w->opts;
	const struct periodic *s = w->state;
	for (int64_t k = 0; k < o->stream.fragments; k++)
		fragment_preview(&s->fragment[k], w, &s->terms, model);
}

static void periodic_fini(struct worker *w)
{
	const struct periodic_opts *o = w->opts;
	struct periodic *s = w->state;
	for (int64_t k = 0; k < o->stream.fragments; k++)
		fragment_fini(&s->fragment[k], w);
	levels_fini(&s->levels);
}

static double periodic_bytes(const struct worker *w)
{
	const struct periodic_opts *o = w->opts;
	const struct periodic *s = w->state;
	double every = (double)interval(w->run, o, w->epoch);
	size_t floats = vec_len(w->param);
	double all = 0;
	if (w->step <= o->start)
		return comm_sum_bytes(w->coded, 0, floats);
	for (int64_t k = 0; k < o->stream.fragments; k++)
		all += comm_sum_bytes(s->fragment[k].coded, 0, vec_len(s->fragment[k].change));
	bool moments = strcmp(run_state(w->run), "average") == 0;
	for (int k = 0; moments && k < MOMENTS_MOST && w->moment[k]; k++)
		all += comm_sum_bytes(w->data_group, 0, floats);
	all += levels_bytes(&s->levels, w, (int64_t)every);
	return all / every;
}

static const struct setting periodic_variants[] = {{"schedule", "down"}, {NULL, NULL}};

const struct strategy strategy_periodic = {
	.plugin = {.name = "periodic",
		   .summary = "local SGD: models are averaged every X steps",
		   .options = periodic_options,
		   .opts_size = sizeof(struct periodic_opts)},
	.state_size = sizeof(struct periodic),
	.refuse = periodic_refuse,
	.init = periodic_init,
	.step = periodic_step,
	.flush = periodic_flush,
	.codes = CODES_SUMS,
	.fini = periodic_fini,
	.canonical = periodic_canonical,
	.average = true,
	.meets = MEETS_TOGETHER,
	.bytes_per_step = periodic_bytes,
	.epoch_time = "steps (step + wait for the slowest / sqrt X + allreduce / X)",
	.variants = periodic_variants,
};
