/*
 * nesterov.c - Nesterov's momentum, as PyTorch's SGD writes it:
 *
 *   g += d w;  v = m v + g;  w -= lr (g + m v)       m is --momentum, d --weight-decay
 */
#include "mvbench.h"

static char *nesterov_refuse(const struct run *run, const void *opts)
{
	(void)opts;
	if (run_momentum(run) > 0)
		return NULL;
	return sentence("--optimizer=nesterov: without momentum it is sgd; give --momentum=0.9");
}

static int nesterov_moments(const struct run *run, const void *opts)
{
	(void)run, (void)opts;
	return 1;
}

static void nesterov_step(struct worker *w, const struct param_group *p, float scale, float decay)
{
	vec_step(p->param, p->moment, p->grad,
		 &(struct rule){.kind = RULE_NESTEROV,
				.lr = (float)w->lr,
				.scale = scale,
				.decay = decay,
				.beta = {run_momentum(w->run)}});
}

const struct optimizer optimizer_nesterov = {
	.plugin = {.name = "nesterov",
		   .summary = "SGD with Nesterov's momentum, the gradient of a look ahead"},
	.refuse = nesterov_refuse,
	.moments = nesterov_moments,
	.one_pass = true,
	.momentum = true,
	.coupled = true,
	.step = nesterov_step,
};
