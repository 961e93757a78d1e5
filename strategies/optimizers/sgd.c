/*
 * sgd.c - the heavy ball:  v = m v + g + d w;  w -= lr v      m is --momentum, d --weight-decay
 */
#include "mvbench.h"

static int sgd_moments(const struct run *run, const void *opts)
{
	(void)opts;
	return run_momentum(run) != 0;
}

static void sgd_step(struct worker *w, const struct param_group *p, float scale, float decay)
{
	float m = p->moment[0] ? (float)run_momentum(w->run) : 0;
	vec_sgd(p->param, p->moment[0], p->grad, (float)w->lr, m, decay, scale);
}

const struct optimizer optimizer_sgd = {
	.plugin = {.name = "sgd", .summary = "SGD, with --momentum the heavy ball"},
	.moments = sgd_moments,
	.one_pass = true,
	.momentum = true,
	.coupled = true,
	.plain = true,
	.step = sgd_step,
};
