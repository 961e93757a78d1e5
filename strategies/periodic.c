/*
 * periodic.c - local SGD, or model averaging: trainers go their own ways for X steps, then meet.
 *
 *   each step:     v = m v + g;  w -= lr v                 local
 *   every X steps: w = mean of w                           reduce=mean
 *                  w = w_met + sum of (w - w_met)          reduce=sum, w_met = w after the last
 * time
 *
 * The first --periodic.start steps are plain allreduce (post-local SGD, Lin et al., ICLR 2020).
 * An averaging sends 2 (N - 1) / N P floats a trainer, twice that with the velocities.
 */
#include "../mvbench.h"

#include <string.h>

struct periodic_opts {
	int64_t start;
	bool velocity;
};

struct periodic {
	struct vec *met; /* reduce=sum only */
};

static const struct option periodic_options[] = {
	{.name = "start",
	 .type = OPT_INT,
	 .offset = offsetof(struct periodic_opts, start),
	 .def = "0",
	 .min = 0,
	 .max = 1e15,
	 .help = "steps of plain allreduce before the averaging begins [steps]"},
	{.name = "velocity",
	 .type = OPT_BOOL,
	 .offset = offsetof(struct periodic_opts, velocity),
	 .def = "false",
	 .help = "average the momentum's velocities too, else they stay local [true/false]"},
	{0},
};

static bool periodic_sums(const struct worker *w)
{
	return strcmp(w->run->reduce, "sum") == 0;
}

static void periodic_init(struct worker *w)
{
	struct periodic *s = w->state;
	if (!periodic_sums(w))
		return;
	s->met = vec_new(w, vec_len(w->param));
	vec_copy(s->met, w->param);
}

static void periodic_meet(struct worker *w)
{
	const struct periodic_opts *o = w->opts;
	struct periodic *s = w->state;
	if (s->met) {
		vec_axpy(w->param, -1, s->met);
		comm_allreduce(w->data_group, w->param, SUM);
		vec_axpy(w->param, 1, s->met);
		vec_copy(s->met, w->param);
	} else {
		comm_allreduce(w->data_group, w->param, MEAN);
	}
	if (o->velocity && w->velocity)
		comm_allreduce(w->data_group, w->velocity, MEAN);
}

static void periodic_step(struct worker *w)
{
	const struct periodic_opts *o = w->opts;
	struct periodic *s = w->state;
	if (w->step <= o->start) {
		comm_allreduce(w->data_group, w->grad, SUM);
		sgd_step(w, w->weight);
		if (w->step == o->start && s->met)
			vec_copy(s->met, w->param);
		return;
	}
	sgd_step(w, 1);
	if (comm_size(w->data_group) > 1 && w->step % w->run->sync_every == 0)
		periodic_meet(w);
}

static void periodic_fini(struct worker *w)
{
	struct periodic *s = w->state;
	vec_free(s->met);
}

static double periodic_bytes(const struct worker *w)
{
	const struct periodic_opts *o = w->opts;
	double n = comm_size(w->data_group), vectors = o->velocity && w->velocity ? 2 : 1;
	double one = 2 * (n - 1) / n * sizeof(float) * (double)vec_len(w->param);
	return w->step <= o->start ? one : vectors * one / (double)w->run->sync_every;
}

const struct strategy strategy_periodic = {
	.plugin = {.name = "periodic",
		   .summary = "local SGD: models are averaged every X steps",
		   .options = periodic_options,
		   .opts_size = sizeof(struct periodic_opts)},
	.state_size = sizeof(struct periodic),
	.init = periodic_init,
	.step = periodic_step,
	.fini = periodic_fini,
	.average = true,
	.bytes_per_step = periodic_bytes,
};
