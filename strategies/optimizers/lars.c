/*
 * lars.c - LARS (You, Gitman, Ginsburg, arXiv 1708.03888): the heavy ball with a learning rate for
 * each tensor.
 *
 *   l = trust ||w|| / (||g|| + d ||w||);  v = m v + lr l (g + d w);  w -= v
 *
 * The norms are of one tensor; m is --momentum, d --weight-decay. Where l would be 0, as of biases
 * at the start, or has no value, it is 1, as in the authors' program (NVCaffe).
 */
#include "strategies/optimizers/lamb.h"

struct lars_opts {
	double trust;
};

#define OWNER struct lars_opts
static const struct option lars_options[] = {
	OPTION(trust, REAL, "trust", "0.001",
	       "length of a step with --lr=1 and without momentum, over the tensor's [factor]",
	       .max = 1000),
	{0},
};

static int lars_moments(const struct run *run, const void *opts)
{
	(void)opts;
	return run_momentum(run) != 0;
}

/* moment[0] is -v: lr then enters by vec_sgd, as graphs that a GPU keeps need. */
static void lars_step(struct worker *w, const struct param_group *p, float scale, float decay)
{
	const struct lars_opts *o = w->optimizer_opts;
	struct vec *u = p->scratch[0], *v = p->moment[0];
	vec_copy(u, p->grad);
	vec_scale(u, scale);
	lamb_norms(p, u);
	vec_axpy(u, decay, p->param);
	vec_ratio(u, p->scratch[1], p->scratch[2], (float)o->trust, decay);
	if (!v) {
		vec_sgd(p->param, NULL, u, (float)w->lr, 0, 0, 1);
		return;
	}
	vec_scale(v, (float)run_momentum(w->run));
	vec_sgd(v, NULL, u, (float)w->lr, 0, 0, 1);
	vec_axpy(p->param, 1, v);
}

const struct optimizer optimizer_lars = {
	.plugin = {.name = "lars",
		   .summary = "the heavy ball with steps in proportion to each tensor",
		   .options = lars_options,
		   .opts_size = sizeof(struct lars_opts)},
	.normalises = true,
	.momentum = true,
	.moments = lars_moments,
	.tensors = true,
	.scratch = lamb_scratch,
	.step = lars_step,
};
