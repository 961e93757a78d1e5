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
 * SlowMo's own u is ours divided by lr, the learning rate of the first step of a round. Ours is
 * therefore rescaled by the ratio of lr in this round and in the last. Other optimisers have their
 * own options instead of mu, given with the name: adamw:beta2=0.95. The inner optimiser may be the
 * same plug-in with other options.
 *
 * The evaluated model is the one after the averaging and its outer step; within a round it is the
 * model that averaging now would give. That model is linear in w: it is the mean of the trainers'
 * contributions. The steps of adagrad, adamw, lion and muon are not linear: with these it is
 * w_avg, the model after their last step.
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
 * One fragment without delay is DiLoCo. A delay of X steps is that of DiLoCoX (arXiv 2506.21263).
 * The evaluated model is W, because the trainers' models differ from it also after a round.
 *
 * Two levels: with --periodic.group=G, the models of G neighbouring ranks are averaged every
 * --periodic.group-every steps, between the rounds of all.
 *
 * An averaging sends 2 (N - 1) / N P floats a trainer, twice that with the velocities; fragments
 * send as much in X steps, in F parts. An outer step sends nothing; it costs P floats of memory for
 * w_avg, what its optimiser keeps, and three passes. Fragments, and a delay, cost P floats more.
 */
#include "strategies/fragment.h"

#include <math.h>
#include <string.h>

struct periodic_opts {
	int64_t start, fragments, delay, group, group_every;
	bool velocity;
	const char *schedule, *layout;
	double mix;
	struct outer_opts outer;
};

struct periodic {
	struct fragment_terms terms;
	struct fragment fragment[FRAGMENTS_MOST];
	struct comm *group; /* NULL: there are no groups */
};

#define OWNER struct periodic_opts
static const struct option periodic_options[] = {
	OPTION(start, INT, "start", "0",
	       "steps of plain allreduce before the averaging begins [steps]", .min = 0,
	       .max = 1e15),
	OPTION(velocity, BOOL, "velocity", "false",
	       "also average what the local optimiser keeps; the same as --state=average "
	       "[true/false]"),
	OPTION(schedule, CHOICE, "schedule", "fixed",
	       "steps between two averagings: always --sync-every; geometrically from that in the "
	       "first epoch down to 1 in the last; or from 1 up to it",
	       .choices = "fixed|down|up"),
	OUTER_OPTIONS,
	OPTION(fragments, INT, "fragments", "1",
	       "parts of the model that are averaged at different steps, each every --sync-every "
	       "steps: Streaming DiLoCo [fragments]",
	       .min = 1, .max = FRAGMENTS_MOST),
	OPTION(layout, CHOICE, "layout", "strides",
	       "the layers of a fragment: each --periodic.fragments-th, or neighbours",
	       .choices = "strides|neighbours"),
	OPTION(delay, INT, "delay", "0",
	       "steps in which the sum of a fragment travels, while training goes on [steps]",
	       .min = 0, .max = 1e9),
	OPTION(mix, REAL, "mix", "0",
	       "the share that a worker's own model keeps after a round; Streaming DiLoCo's is 0.5 "
	       "with a delay [fraction]",
	       .min = 0, .max = 1),
	OPTION(group, INT, "group", "0",
	       "neighbouring ranks that average with each other between the rounds of all; 0: none "
	       "[workers]",
	       .min = 0, .max = WORKERS_MOST),
	OPTION(group_every, INT, "group-every", "1",
	       "steps between two averagings of a group [steps]", .min = 1, .max = 1e9),
	{0},
};

static bool periodic_has(const char *choice, const char *value)
{
	return strcmp(choice, value) == 0;
}

static bool averages_state(const struct run *run, const struct periodic_opts *o)
{
	return o->velocity || strcmp(run_state(run), "average") == 0;
}

static bool periodic_streams(const struct periodic_opts *o)
{
	return o->fragments > 1 || o->delay > 0 || o->mix > 0;
}

static char *refuse_streams(const struct run *run, const struct periodic_opts *o)
{
	const char *what = o->fragments > 1 ? "fragments" : o->delay > 0 ? "delay" : "mix";
	if (!periodic_streams(o))
		return NULL;
	if (averages_state(run, o) || strcmp(run_state(run), "keep") != 0)
		return sentence("--periodic.%s: the optimiser's state belongs to all layers, and "
				"cannot be averaged or reset with one fragment; use --state=keep",
				what);
	if (!periodic_has(o->schedule, "fixed"))
		return sentence("--periodic.%s: the interval of a fragment is --sync-every; use "
				"--periodic.schedule=fixed",
				what);
	if (o->delay > run_sync_every(run))
		return sentence("--periodic.delay=%lld: a fragment is due again after "
				"--sync-every=%lld steps; give at most that many",
				(long long)o->delay, (long long)run_sync_every(run));
	if (o->fragments > 1 && strncmp(o->outer.how, "muon", 4) == 0)
		return sentence("--periodic.fragments=%lld: muon needs whole matrices, and a "
				"fragment is a row of floats; choose another --periodic.outer",
				(long long)o->fragments);
	return NULL;
}

static char *refuse_groups(const struct run *run, const struct periodic_opts *o)
{
	if (o->group == 0)
		return NULL;
	if (run_workers(run) % o->group)
		return sentence("--periodic.group=%lld: %lld workers are no whole number of such "
				"groups",
				(long long)o->group, (long long)run_workers(run));
	if (averages_state(run, o))
		return sentence("--periodic.group=%lld: a group averages models only; leave "
				"--periodic.velocity and --state=average out",
				(long long)o->group);
	return NULL;
}

static char *periodic_refuse(const struct run *run, const void *opts)
{
	const struct periodic_opts *o = opts;
	char *wrong = outer_refuse(run, "periodic", &o->outer);
	wrong = wrong ? wrong : refuse_streams(run, o);
	wrong = wrong ? wrong : refuse_groups(run, o);
	if (wrong || !o->velocity || strcmp(run_state(run), "keep") == 0)
		return wrong;
	return sentence("--state=%s: --periodic.velocity also sets what averaging does to the "
			"optimiser's state; leave one of the two out",
			run_state(run));
}

static void periodic_init(struct worker *w)
{
	const struct periodic_opts *o = w->opts;
	struct periodic *s = w->state;
	bool sums = periodic_has(run_reduce(w->run), "sum");
	/* a codec compresses changes of models, not models */
	s->terms = (struct fragment_terms){.outer = &o->outer,
					   .remembers = sums || w->coded != w->data_group,
					   .mix = (float)o->mix,
					   .layout = !periodic_streams(o) ? WHOLE
						     : periodic_has(o->layout, "strides")
							     ? STRIDES
							     : NEIGHBOURS};
	if ((size_t)o->fragments > w->model->layers)
		user_error("--periodic.fragments=%lld: the model has %zu layers; give at most as "
			   "many",
			   (long long)o->fragments, w->model->layers);
	for (int64_t k = 0; k < o->fragments; k++)
		fragment_init(&s->fragment[k], w, &s->terms, (size_t)k, (size_t)o->fragments);
	if (o->group > 1)
		s->group = comm_split(w->data_group, comm_rank(w->data_group) / (int)o->group);
}

/* X_e, the steps between two averagings in epoch e. */
static int64_t interval(const struct run *run, const struct periodic_opts *o, int64_t epoch)
{
	double x = (double)run_sync_every(run), over;
	if (periodic_has(o->schedule, "fixed") || run_epochs(run) == 1)
		return run_sync_every(run);
	over = (double)(epoch - 1) / (double)(run_epochs(run) - 1);
	return (int64_t)round(pow(x, periodic_has(o->schedule, "down") ? 1 - over : over));
}

/* A fixed interval counts from the first step, whatever --periodic.start is; a changing interval
 * counts from the last averaging. */
static bool periodic_due(const struct worker *w, int64_t k)
{
	const struct periodic_opts *o = w->opts;
	const struct periodic *s = w->state;
	int64_t every = run_sync_every(w->run);
	if (periodic_has(o->schedule, "fixed"))
		return w->step % every == k * every / o->fragments;
	return w->step - s->fragment[k].now.sent >= interval(w->run, o, w->epoch);
}

static void periodic_take(struct worker *w, struct fragment *f)
{
	const struct periodic_opts *o = w->opts;
	const struct periodic *s = w->state;
	fragment_take(f, w, &s->terms);
	local_met(w);
	for (int k = 0; o->velocity && k < MOMENTS_MOST && w->moment[k]; k++)
		comm_allreduce(w->data_group, w->moment[k], MEAN);
}

/* What a fragment has to do after a step: take the sum that has travelled, or send a new one. */
static void periodic_round(struct worker *w, int64_t k)
{
	const struct periodic_opts *o = w->opts;
	struct periodic *s = w->state;
	struct fragment *f = &s->fragment[k];
	bool due = periodic_due(w, k);
	if (f->now.taken < f->now.sent && w->step >= f->now.sent + o->delay)
		periodic_take(w, f);
	if (!due)
		return;
	consensus_mark(w);
	worker_report(w, "interval", (double)(w->step - f->now.sent));
	fragment_send(f, w, &s->terms);
	if (o->delay == 0)
		periodic_take(w, f);
}

static void periodic_step(struct worker *w)
{
	const struct periodic_opts *o = w->opts;
	struct periodic *s = w->state;
	if (w->step <= o->start) {
		comm_allreduce(w->coded, w->grad, SUM);
		common_step(w);
		for (int64_t k = 0; k < o->fragments; k++)
			fragment_restart(&s->fragment[k], w->step, w->step == o->start);
		return;
	}
	local_step(w, 1);
	for (int64_t k = 0; k < o->fragments; k++)
		fragment_stepped(&s->fragment[k], w);
	/* a single worker averages with no other, but its outer optimiser steps as well */
	if (comm_size(w->data_group) == 1 && !s->fragment[0].outer)
		return;
	if (s->group && w->step % o->group_every == 0 && !periodic_due(w, 0)) {
		consensus_mark(w);
		comm_allreduce(s->group, w->param, MEAN);
		local_met(w);
	}
	for (int64_t k = 0; k < o->fragments; k++)
		periodic_round(w, k);
}

/* A barrier takes no sum before its time, but the sums have arrived then. */
static void periodic_flush(struct worker *w)
{
	const struct periodic_opts *o = w->opts;
	struct periodic *s = w->state;
	for (int64_t k = 0; k < o->fragments; k++)
		fragment_wait(&s->fragment[k]);
}

static void periodic_canonical(struct worker *w, struct vec *model)
{
	const struct periodic_opts *o = w->opts;
	const struct periodic *s = w->state;
	for (int64_t k = 0; k < o->fragments; k++)
		fragment_preview(&s->fragment[k], w, &s->terms, model);
}

static void periodic_fini(struct worker *w)
{
	const struct periodic_opts *o = w->opts;
	struct periodic *s = w->state;
	for (int64_t k = 0; k < o->fragments; k++)
		fragment_fini(&s->fragment[k], w);
	if (s->group)
		comm_free(s->group);
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
	for (int64_t k = 0; k < o->fragments; k++)
		all += comm_sum_bytes(s->fragment[k].coded, 0, vec_len(s->fragment[k].change));
	for (int k = 0; averages_state(w->run, o) && k < MOMENTS_MOST && w->moment[k]; k++)
		all += comm_sum_bytes(w->data_group, 0, floats);
	for (int64_t i = 1; s->group && i < (int64_t)every; i++)
		if (i % o->group_every == 0)
			all += comm_sum_bytes(s->group, 0, floats);
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
