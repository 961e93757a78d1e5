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

#define OWNER struct adamw
struct adamw {
	struct adamw_opts o;
};
static const struct option adamw_options[] = {ADAMW_OPTIONS(o), {0}};

static int adamw_moments(const struct run *run, const void *opts)
{
	(void)run, (void)opts;
	return 2;
}

void adamw_unbias(const struct adamw_opts *o, int64_t t, float by[MOMENTS_MOST])
{
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
				.beta = {(float)o->beta1, (float)o->beta2},
				.eps = (float)o->eps});
}

static void unbias(const void *opts, int64_t t, float by[MOMENTS_MOST])
{
	const struct adamw *a = opts;
	adamw_unbias(&a->o, t, by);
}

static void adamw_step(struct worker *w, const struct param_group *p, float scale, float decay)
{
	const struct adamw *a = w->optimizer_opts;
	adamw_group(&a->o, w->lr, p, scale, decay);
}

const struct optimizer optimizer_adamw = {
	.plugin = {.name = "adamw",
		   .summary = "Adam with decoupled weight decay",
		   .options = adamw_options,
		   .opts_size = sizeof(struct adamw)},
	.moments = adamw_moments,
	.one_pass = true,
	.unbias = unbias,
	.step = adamw_step,
};
