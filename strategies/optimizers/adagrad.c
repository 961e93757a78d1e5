/*
 * adagrad.c - AdaGrad (Duchi, Hazan, Singer, JMLR 12, 2011), as PyTorch writes it:
 *
 *   g += d w;  G += g^2;  w -= lr g / (sqrt(G) + eps)      d is --weight-decay
 *
 * G only grows, and with it the steps only shrink: a schedule of lr is rarely needed.
 */
#include "mvbench.h"

struct adagrad_opts {
	double eps;
};

#define OWNER struct adagrad_opts
static const struct option adagrad_options[] = {
	OPTION(eps, REAL, "eps", "1e-10", "added to the square root that it divides by [gradient]",
	       .min = 1e-30, .max = 1),
	{0},
};

static int adagrad_moments(const struct run *run, const void *opts)
{
	(void)run, (void)opts;
	return 1;
}

static void adagrad_step(struct worker *w, const struct param_group *p, float scale, float decay)
{
	const struct adagrad_opts *o = w->optimizer_opts;
	vec_step(p->param, p->moment, p->grad,
		 &(struct rule){.kind = RULE_ADAGRAD,
				.lr = (float)w->lr,
				.scale = scale,
				.decay = decay,
				.eps = (float)o->eps});
}

const struct optimizer optimizer_adagrad = {
	.plugin = {.name = "adagrad",
		   .summary = "a learning rate for each parameter, which its gradients lower",
		   .options = adagrad_options,
		   .opts_size = sizeof(struct adagrad_opts)},
	.normalises = true,
	.moments = adagrad_moments,
	.one_pass = true,
	.coupled = true,
	.step = adagrad_step,
};
