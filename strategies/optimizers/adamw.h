/*
 * adamw.h - AdamW's options and step, which muon also uses for parameters that are not matrices.
 */
#ifndef ADAMW_H
#define ADAMW_H

#include "mvbench.h"

struct adamw_opts {
	double beta1, beta2, eps;
};
/* Rows of an options table of struct OWNER. at: where it has a struct adamw_opts, such as "field.";
 * nothing: it is one. */
#define ADAMW_OPTIONS(at) \
	OPTION(at beta1, REAL, "beta1", "0.9", \
	       "adamw: decay factor of the mean of gradients in a step; below 1 [factor]", \
	       .max = 0.999999), \
		OPTION(at beta2, REAL, "beta2", "0.999", \
		       "adamw: decay factor of the mean of squared gradients; below 1 [factor]", \
		       .max = 0.999999), \
		OPTION(at eps, REAL, "eps", "1e-08", \
		       "adamw: added to the square root that it divides by [gradient]", \
		       .min = 1e-30, .max = 1)

int adamw_moments(const struct run *run, const void *opts);
/* opts: a struct adamw_opts */
void adamw_unbias(const void *opts, int64_t t, float by[MOMENTS_MOST]);
void adamw_group(const struct adamw_opts *o, double lr, const struct param_group *p, float scale,
		 float decay);

#endif
