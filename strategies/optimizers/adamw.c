/*
 * adamw.c - AdamW (Loshchilov, Hutter, arXiv 1711.05101):
 *
 *   M = b1 M + (1 - b1) g;  S = b2 S + (1 - b2) g^2
 *   w -= lr (M / (1 - b1^t) / (sqrt(S / (1 - b2^t)) + eps) + d w)
 *
 * t counts the steps since M and S were 0.
 */
#include "strategies/optimizers/adamw.h"

#include <math.h>

#define OWNER struct adamw_opts
static const struct option adamw_options[] = {ADAMW_OPTIONS(), {0}};

int adamw_moments(const struct run *run, const void *opts)
{
	(void)run, (void)opts;
	return 2;
}

void adamw_unbias(const void *opts, int64_t t, float by[MOMENTS_MOST])
{
	const struct adamw_opts *o = opts;
	by[0] = (float)(1 / (1 - pow(o->beta1, (double)t)));
	by[1] = (float)(1 / sqrt(1 - pow(o->beta2, (double)t)));
}

void adamw_group(const struct adamw_opts *o, double lr, const struct param_group *p, float scale,
		 float decay)
{
	vec_step(p->param, p->moment, p->grad,
		 &(struct rule){.kind = RULE_ADAMW,
				.lr = (float)lr,
				.scale = scale,
				.decay = decay,
				.beta = {o->beta1, o->beta2},
				.eps = (float)o->eps});
}

static void adamw_step(struct worker *w, const struct param_group *p, float scale, float decay)
{
	adamw_group(w->optimizer_opts, w->lr, p, scale, decay);
}

const struct optimizer optimizer_adamw = {
	.plugin = {.name = "adamw",
		   .summary = "Adam with decoupled weight decay",
		   .options = adamw_options,
		   .opts_size = sizeof(struct adamw_opts)},
	.normalises = true,
	.moments = adamw_moments,
	.one_pass = true,
	.unbias = adamw_unbias,
	.step = adamw_step,
};
