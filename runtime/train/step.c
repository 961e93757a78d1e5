/*
 * step.c - the optimiser's step of one worker, with --clip, --weight-decay and --state.
 */
#include "runtime/config/config.h"
#include "runtime/train/trainer.h"

#include <string.h>

/* The squared norm of the gradient over all workers that share the model. A tensor that each of
 * them holds whole counts once. */
static void add_squares(struct worker *w)
{
	bool first = comm_rank(w->model_group) == 0;
	vec_fill(w->loop->squares, 0);
	for (size_t i = 0; i < w->model->tensors; i++) {
		size_t from = w->model->tensor[i].first, to = from;
		for (; i < w->model->tensors && (first || !w->model->tensor[i].shared); i++)
			to += w->model->tensor[i].rows * w->model->tensor[i].columns;
		vec_add_squares(w->loop->squares, w->grad, from, to);
	}
	if (comm_size(w->model_group) > 1)
		comm_allreduce(w->model_group, w->loop->squares, COMM_SUM);
}

/* Limits ||scale grad|| to --clip: at once, or, with in_step, in the optimiser's next step. */
static void clip(struct worker *w, float scale, bool in_step)
{
	if (!w->loop->squares)
		return;
	float most = (float)w->run->clip / scale;
	add_squares(w);
	w->loop->dev->most = most;
	w->loop->dev->square = in_step ? w->loop->squares->data : NULL;
	if (!in_step)
		vec_limit(w->grad, w->loop->squares, most, most);
}

static void update(struct worker *w, double scale, bool decayed)
{
	for (size_t i = 0; i < w->loop->groups; i++) {
		const struct param_group *p = &w->loop->group[i];
		w->optimizer->step(w, p, (float)scale, decayed ? 0 : p->decay);
	}
	w->age += !w->loop->dev->in_graph; /* a graph's repetitions are counted by the loop */
}

double worker_share(const struct worker *w)
{
	return !w->loop->busy ? 1
	       : w->rows      ? (double)comm_size(w->data_group) / (double)w->loop->busy
			      : 0;
}

/* Without rows the gradient is 0. A linear step by it is right: the mean of all workers' steps is
 * then the step by their mean gradient. A step that is as long for any gradient is not made. */
static bool makes_own_step(const struct worker *w)
{
	return w->rows || !w->loop->busy || !w->optimizer->normalises;
}

static void step(struct worker *w, double scale)
{
	clip(w, (float)scale, w->optimizer->one_pass);
	update(w, scale, false);
	w->loop->dev->square = NULL;
}

void local_step(struct worker *w, double scale)
{
	if (makes_own_step(w))
		step(w, scale);
}

/* The moments of all workers are equal now. */
static void note_common(struct worker *w)
{
	w->loop->common.shares = w->loop->shares;
	w->loop->common.step = w->step;
	w->loop->common.age = w->age;
}

void common_step(struct worker *w)
{
	step(w, w->weight);
	note_common(w);
}

bool common_step_later(struct worker *w)
{
	if (w->loop->squares)
		return false;
	w->loop->later.lr = w->lr;
	memcpy(w->loop->later.unbias, w->loop->dev->unbias, sizeof w->loop->later.unbias);
	w->age++;
	return true;
}

void common_step_part(struct worker *w, size_t first, size_t end)
{
	struct device *d = w->loop->dev;
	const double lr = w->lr;
	float unbias[MOMENTS_MOST];
	memcpy(unbias, d->unbias, sizeof unbias);
	memcpy(d->unbias, w->loop->later.unbias, sizeof unbias);
	w->lr = w->loop->later.lr;
	d->lr = (float)w->lr;
	for (size_t i = 0; i < w->loop->groups; i++) {
		const struct param_group *p = &w->loop->group[i];
		if (first <= p->first && p->end <= end)
			w->optimizer->step(w, p, (float)w->weight, p->decay);
	}
	memcpy(d->unbias, unbias, sizeof unbias);
	w->lr = lr;
	d->lr = (float)lr;
}

void local_gradient(struct worker *w)
{
	if (!makes_own_step(w))
		return;
	clip(w, 1, false);
	for (size_t i = 0; w->optimizer->coupled && i < w->loop->groups; i++)
		if (w->loop->group[i].decay > 0)
			vec_axpy(w->loop->group[i].grad, w->loop->group[i].decay,
				 w->loop->group[i].param);
}

void local_update(struct worker *w)
{
	if (makes_own_step(w))
		update(w, 1, w->optimizer->coupled);
}

static void begin_unbias(struct worker *w)
{
	const struct optimizer *o = w->optimizer;
	struct device *d = w->loop->dev;
	d->unbias[0] = d->unbias[1] = 1;
	if (o->unbias && w->step > 0)
		o->unbias(w->optimizer_opts, w->age + 1, d->unbias);
}

void local_begin(struct worker *w)
{
	w->loop->dev->lr = (float)w->lr;
	begin_unbias(w);
}

void local_forget(struct worker *w)
{
	for (int k = 0; k < MOMENTS_MOST; k++)
		if (w->moment[k])
			vec_fill(w->moment[k], 0);
	w->age = 0;
	begin_unbias(w); /* a strategy may exchange models before its step */
}

/* Moments of an optimiser that normalises weigh in the mean as models do. Those of workers that
 * made fewer steps are less than they would be in all steps, by what .unbias corrects: they get
 * that here, so that all workers have one age again. */
static void average_moments(struct worker *w)
{
	const struct optimizer *o = w->optimizer;
	const struct loop *l = w->loop;
	int64_t steps = w->step - l->common.step, age = l->common.age + steps;
	bool weighs = o->normalises && steps > 0;
	double share = weighs ? (l->shares - l->common.shares) / (double)steps : 1;
	float mine[MOMENTS_MOST] = {1, 1}, all[MOMENTS_MOST] = {1, 1};
	if (weighs && o->unbias && w->age > 0 && w->age != age) {
		o->unbias(w->optimizer_opts, w->age, mine);
		o->unbias(w->optimizer_opts, age, all);
	}
	for (int k = 0; k < MOMENTS_MOST && w->moment[k]; k++) {
		double ratio = all[k] > 0 ? mine[k] / all[k] : 1;
		float by = (float)(share * (k == 0 ? ratio : ratio * ratio));
		if (by != 1)
			vec_scale(w->moment[k], by);
		comm_allreduce(w->data_group, w->moment[k], COMM_MEAN);
	}
	w->age = weighs ? age : w->age;
	note_common(w);
	begin_unbias(w);
}

void local_met(struct worker *w)
{
	CHECK(w->loop->strategy->meets != MEETS_NEVER,
	      "strategy %s: .meets is MEETS_NEVER, but it calls local_met: --state would be "
	      "refused",
	      w->loop->strategy->plugin.name);
	if (strcmp(w->run->state, "reset") == 0)
		local_forget(w);
	if (strcmp(w->run->state, "average") == 0)
		average_moments(w);
}
