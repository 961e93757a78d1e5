/*
 * lion.c - Lion (Chen et al., arXiv 2302.06675):
 *
 *   w -= lr (sign(b1 M + (1 - b1) g) + d w);  M = b2 M + (1 - b2) g
 *
 * Each parameter moves by lr. Use a third to a tenth of adamw's lr, and increase d by the same
 * factor.
 */
#include "mvbench.h"

struct lion_opts {
	double beta1, beta2;
};

#define OWNER struct lion_opts
static const struct option lion_options[] = {
	OPTION(beta1, REAL, "beta1", "0.9",
	       "weight of the mean of gradients in a step; the gradient has the rest [factor]",
	       .max = 0.999999),
	OPTION(beta2, REAL, "beta2", "0.99",
	       "decay factor of the mean of gradients in a step [factor]", .max = 0.999999),
	{0},
};

static int lion_moments(const struct run *run, const void *opts)
{
	(void)run, (void)opts;
	return 1;
}

static void lion_step(struct worker *w, const struct param_group *p, float scale, float decay)
{
	const struct lion_opts *o = w->optimizer_opts;
	vec_step(p->param, p->moment, p->grad,
		 &(struct rule){.kind = RULE_LION,
				.lr = (float)w->lr,
				.scale = scale,
				.decay = decay,
				.beta = {o->beta1, o->beta2}});
}

const struct optimizer optimizer_lion = {
	.plugin = {.name = "lion",
		   .summary = "the sign of a mean of gradients, with decoupled weight decay",
		   .options = lion_options,
		   .opts_size = sizeof(struct lion_opts)},
	.normalises = true,
	.moments = lion_moments,
	.one_pass = true,
	.step = lion_step,
};
