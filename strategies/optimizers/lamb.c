/*
 * lamb.c - LAMB (You et al., arXiv 1904.00962): Adam, whose step of each tensor is as long, in
 * proportion to the tensor, for all of them.
 *
 *   M = b1 M + (1 - b1) g;  S = b2 S + (1 - b2) g^2
 *   u = M / (1 - b1^t) / (sqrt(S / (1 - b2^t)) + eps) + d w
 *   w -= lr ||w|| / ||u|| u                                  d is --weight-decay
 *
 * The norms are of one tensor. Where one of them is 0, as of biases at the start, their ratio
 * counts as 1. t counts the steps since M and S were 0.
 */
#include "strategies/optimizers/lamb.h"

#define OWNER struct adamw_opts
static const struct option lamb_options[] = {
	OPTION(beta1, REAL, "beta1", "0.9",
	       "decay factor of the mean of gradients in a step; below 1 [factor]",
	       .max = 0.999999),
	OPTION(beta2, REAL, "beta2", "0.999",
	       "decay factor of the mean of squared gradients; below 1 [factor]", .max = 0.999999),
	OPTION(eps, REAL, "eps", "1e-06", "added to the square root that it divides by [gradient]",
	       .min = 1e-30, .max = 1),
	{0},
};

void lamb_scratch(size_t rows, size_t columns, size_t length[SCRATCH_MOST])
{
	length[0] = rows * columns;
	length[1] = length[2] = 2;
}

void lamb_norms(const struct param_group *p, const struct vec *u)
{
	vec_fill(p->scratch[1], 0);
	vec_fill(p->scratch[2], 0);
	vec_add_squares(p->scratch[1], p->param, 0, vec_len(p->param));
	vec_add_squares(p->scratch[2], u, 0, vec_len(u));
}

static void lamb_step(struct worker *w, const struct param_group *p, float scale, float decay)
{
	const struct adamw_opts *o = w->optimizer_opts;
	struct vec *u = p->scratch[0];
	vec_step(u, p->moment, p->grad,
		 &(struct rule){.kind = RULE_ADAM,
				.lr = (float)w->lr,
				.scale = scale,
				.eps = (float)o->eps,
				.beta = {o->beta1, o->beta2}});
	vec_axpy(u, decay, p->param);
	lamb_norms(p, u);
	vec_ratio(u, p->scratch[1], p->scratch[2], 1, 0);
	vec_sgd(p->param, NULL, u, (float)w->lr, 0, 0, 1);
}

const struct optimizer optimizer_lamb = {
	.plugin = {.name = "lamb",
		   .summary = "Adam with steps in proportion to each tensor",
		   .options = lamb_options,
		   .opts_size = sizeof(struct adamw_opts)},
	.normalises = true,
	.moments = adamw_moments,
	.unbias = adamw_unbias,
	.tensors = true,
	.scratch = lamb_scratch,
	.step = lamb_step,
};
