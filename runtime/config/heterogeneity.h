/*
 * heterogeneity.h - workers that are not alike: --speed, --pause, --leave, --sim.slow-link.
 */
#ifndef HETEROGENEITY_H
#define HETEROGENEITY_H

#include "runtime/config/settings.h"

/* One worker's --speed, --pause, --leave and --sim.slow-link (heterogeneity.c). Times count from
 * the start of the first segment and over segments only, not during evaluation. */
#define NEVER INT64_MAX
struct heterogeneity {
	double speed;         /* its gradients take 1 / speed times as long; (0, 1] */
	nsec pause_at, pause; /* before the first step after pause_at it waits for `pause` */
	nsec leave_at;        /* it makes no step after this time */
	double link;          /* share of the bandwidth of its links; (0, 1] */
};
/* Defaults if the options do not name this worker. */
struct heterogeneity heterogeneity_of(const struct run *run, int rank);
/* NULL, or a message: is text a valid list for o, one of these options? */
char *heterogeneity_check(const struct option *o, const char *text);
/* NULL, or a message: can these options apply to the workers of this run? */
char *heterogeneity_refuse(const struct config *c);

#endif
