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
 * An averaging sends 2 (N - 1) / N P floats a trainer, twice that with the velocities; an outer
 * step sends nothing; it costs P floats of memory for w_avg, what its optimiser keeps, and three
 * passes.
 */
#include "mvbench.h"

#include <math.h>
#include <string.h>

struct periodic_opts {
	int64_t start;
	bool velocity;
	const char *schedule;
	const char *outer;
	double outer_lr, outer_momentum;
};

struct periodic {
	struct vec *averaged;  /* w after the last averaging; NULL: reduce=mean needs none, except
				* with a codec */
	struct stepper *outer; /* NULL: there is none */
	int64_t last;          /* the step of the last averaging */
	double lr, lr_last;    /* of the first step of this round, and of the last; 0 = none */
	double shares;         /* sum of worker_share since the last averaging */
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
	OPTION(outer, STRING, "outer", "none",
	       "outer optimiser, whose gradient is minus the change of the models since the last "
	       "averaging: none only averages them; momentum is SlowMo, nesterov is DiLoCo; or "
	       "any other, followed by its own options, such as adamw:beta2=0.95 [name]"),
	OPTION(outer_lr, REAL, "outer-lr", "1",
	       "learning rate of the outer optimiser; SlowMo's is 1, DiLoCo's 0.7 [factor]",
	       .min = 0, .max = 1000),
	OPTION(outer_momentum, REAL, "outer-momentum", "0.5",
	       "momentum of the outer optimiser, if it is momentum, sgd or nesterov; SlowMo's is "
	       "0.4 to 0.8, DiLoCo's 0.9 [factor]",
	       .min = 0, .max = 0.999),
	{0},
};

static bool periodic_has(const char *choice, const char *value)
{
	return strcmp(choice, value) == 0;
}

/* SlowMo is sgd, except that its u is rescaled with lr. */
static const char *outer_words(const struct periodic_opts *o)
{
	return periodic_has(o->outer, "momentum") ? "sgd" : o->outer;
}

/* Optimisers with mu, whose step is linear in d. */
static bool outer_is_linear(const struct periodic_opts *o)
{
	return periodic_has(outer_words(o), "sgd") || periodic_has(o->outer, "nesterov");
}

static bool averages(const struct run *run, const struct periodic_opts *o)
{
	return o->velocity || strcmp(run_state(run), "average") == 0;
}

static char *periodic_refuse(const struct run *run, const void *opts)
{
	const struct periodic_opts *o = opts;
	if (!periodic_has(o->outer, "none")) {
		char *wrong =
			stepper_refuse(run, "periodic.outer", outer_words(o), o->outer_momentum);
		if (wrong)
			return wrong;
		if (!outer_is_linear(o) && o->outer_momentum != 0.5)
			return sentence("--periodic.outer-momentum=%g: --periodic.outer=%s has "
					"options of its own in its place; leave it out",
					o->outer_momentum, o->outer);
	}
	if (!o->velocity || strcmp(run_state(run), "keep") == 0)
		return NULL;
	return sentence("--state=%s: --periodic.velocity also sets what averaging does to the "
			"optimiser's state; leave one of the two out",
			run_state(run));
}

static void periodic_init(struct worker *w)
{
	const struct periodic_opts *o = w->opts;
	struct periodic *s = w->state;
	bool outer = !periodic_has(o->outer, "none");
	bool sums = outer || periodic_has(run_reduce(w->run), "sum");
	/* a codec compresses changes of models, not models */
	bool has_average = sums || w->coded != w->data_group;
	s->averaged = has_average ? vec_new(w, vec_len(w->param)) : NULL;
	if (s->averaged)
		vec_copy(s->averaged, w->param);
	worker_keep_vec(w, s->averaged);
	if (outer)
		s->outer = stepper_new(w, outer_words(o), o->outer_momentum, s->averaged, w->param);
	worker_keep(w, &s->last, sizeof s->last);
	worker_keep(w, &s->lr, sizeof s->lr);
	worker_keep(w, &s->lr_last, sizeof s->lr_last);
	worker_keep(w, &s->shares, sizeof s->shares);
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
static bool periodic_due(const struct worker *w)
{
	const struct periodic_opts *o = w->opts;
	const struct periodic *s = w->state;
	if (periodic_has(o->schedule, "fixed"))
		return w->step % run_sync_every(w->run) == 0;
	return w->step - s->last >= interval(w->run, o, w->epoch);
}

/* The factor of u in the outer step of this round. */
static double periodic_momentum(const struct worker *w)
{
	const struct periodic_opts *o = w->opts;
	const struct periodic *s = w->state;
	bool moves = periodic_has(o->outer, "momentum") && s->lr_last > 0;
	return o->outer_momentum * (moves ? s->lr / s->lr_last : 1);
}

/* param holds sum of (w - w_avg), which is -N d for the mean and -d for the sum; the step
 * multiplies it by the scale that gives d. */
static void periodic_outer(struct worker *w)
{
	const struct periodic_opts *o = w->opts;
	struct periodic *s = w->state;
	stepper_step(s->outer, o->outer_lr, periodic_momentum(w), -(float)w->weight);
	s->lr_last = s->lr;
	vec_copy(w->param, s->averaged);
}

/* Weight of this trainer's model in an average now, relative to 1/N. Gradients have their rows'
 * weights; steps that are equally long for any gradient do not. */
static float periodic_share(const struct worker *w)
{
	const struct periodic *s = w->state;
	return w->optimizer->normalises ? (float)(s->shares / (double)(w->step - s->last)) : 1;
}

static void periodic_average(struct worker *w)
{
	const struct periodic_opts *o = w->opts;
	struct periodic *s = w->state;
	float share = periodic_share(w);
	consensus_mark(w);
	if (s->averaged)
		vec_axpy(w->param, -1, s->averaged);
	if (share != 1)
		vec_scale(w->param, share);
	if (s->outer || periodic_has(run_reduce(w->run), "sum"))
		comm_allreduce(w->coded, w->param, SUM);
	else
		comm_allreduce(w->coded, w->param, MEAN);
	if (s->outer) {
		periodic_outer(w);
	} else if (s->averaged) {
		vec_axpy(w->param, 1, s->averaged);
		vec_copy(s->averaged, w->param);
	}
	local_met(w);
	for (int k = 0; o->velocity && k < MOMENTS_MOST && w->moment[k]; k++)
		comm_allreduce(w->data_group, w->moment[k], MEAN);
	worker_report(w, "interval", (double)(w->step - s->last));
	s->last = w->step;
	s->shares = 0;
}

static void periodic_step(struct worker *w)
{
	const struct periodic_opts *o = w->opts;
	struct periodic *s = w->state;
	if (w->step <= o->start) {
		comm_allreduce(w->coded, w->grad, SUM);
		common_step(w);
		s->last = w->step;
		if (w->step == o->start && s->averaged)
			vec_copy(s->averaged, w->param);
		return;
	}
	if (w->step == s->last + 1)
		s->lr = w->lr;
	local_step(w, 1);
	s->shares += worker_share(w);
	/* a single worker averages with no other, but its outer optimiser steps as well */
	if ((comm_size(w->data_group) > 1 || s->outer) && periodic_due(w))
		periodic_average(w);
}

/* This trainer's contribution to the w that averaging now would give; w is the mean of all N.
 *   momentum   w_avg - a mu u - a d         nesterov   w_avg - a mu^2 u - a (1 + mu) d */
static void periodic_canonical(struct worker *w, struct vec *model)
{
	const struct periodic_opts *o = w->opts;
	const struct periodic *s = w->state;
	bool other = s->outer && !outer_is_linear(o) && s->last != w->step;
	if (other || model != w->param)
		vec_copy(model, other ? s->averaged : w->param);
	if (other || s->last == w->step)
		return;
	float share = periodic_share(w);
	if (!s->averaged && share != 1)
		vec_scale(model, share);
	if (!s->averaged)
		return;
	float a = s->outer ? (float)o->outer_lr : 1;
	float mu = s->outer ? (float)periodic_momentum(w) : 0;
	float all = (float)(w->weight * comm_size(w->data_group)); /* 1 for mean, N for sum */
	float nesterov = periodic_has(o->outer, "nesterov") ? mu : 0;
	float d = a * all * (1 + nesterov);
	vec_scale(model, d * share);
	vec_axpy(model, 1 - d * share, s->averaged);
	if (mu > 0)
		vec_axpy(model, -a * mu * (nesterov > 0 ? mu : 1), stepper_moment(s->outer, 0));
}

static void periodic_fini(struct worker *w)
{
	struct periodic *s = w->state;
	stepper_free(s->outer);
	vec_free(s->averaged);
}

static double periodic_bytes(const struct worker *w)
{
	const struct periodic_opts *o = w->opts;
	double one = comm_sum_bytes(w->coded, 0, vec_len(w->param)), all = one;
	for (int k = 0; averages(w->run, o) && k < MOMENTS_MOST && w->moment[k]; k++)
		all += comm_sum_bytes(w->data_group, 0, vec_len(w->param));
	return w->step <= o->start ? one : all / (double)interval(w->run, o, w->epoch);
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
	.codes = CODES_SUMS,
	.fini = periodic_fini,
	.canonical = periodic_canonical,
	.average = true,
	.meets = MEETS_TOGETHER,
	.bytes_per_step = periodic_bytes,
	.epoch_time = "steps (step + wait for the slowest / sqrt X + allreduce / X)",
	.variants = periodic_variants,
};
