/*
 * exchange.h - what strategies with a table have in common, the exchange of asgd, bsp and ssp.
 */
#ifndef EXCHANGE_H
#define EXCHANGE_H

#include "mvbench.h"

#pragma GCC visibility push(default) /* as in mvbench.h */

struct updater_opts {
	const char *updater;
	double rho, lambda, square, beta1, beta2, eps, outer_lr, outer_momentum, spread;
	int64_t period;
};

/* Rows of an options table of struct OWNER, which begins with a struct updater_opts `updater`. */
#define UPDATER_OPTIONS \
	OPTION(updater.updater, CHOICE, "updater", "add", \
	       "what the server does with a push: add and delayed_nesterov get the change of X " \
	       "steps; momentum, " \
	       "momentum_ema and adam get the sum of X gradients; the others get the sum of X " \
	       "local v = m v + gradient [name]", \
	       .choices = UPDATERS), \
		OPTION(updater.rho, REAL, "rho", "0.1", "step size of adagrad [factor]", \
		       .max = 1e6), \
		OPTION(updater.lambda, REAL, "lambda", "0.1", \
		       "strength of dcasgd's delay compensation [factor]", .max = 1e6), \
		OPTION(updater.square, REAL, "square", "0.95", \
		       "dcasgda: decay factor of the mean of squares at a push [factor]", \
		       .max = 1), \
		OPTION(updater.beta1, REAL, "beta1", "0.9", \
		       "adam: decay factor of the mean of gradients at a push; below 1 [factor]", \
		       .max = 0.999999), \
		OPTION(updater.beta2, REAL, "beta2", "0.999", \
		       "adam: decay factor of the mean of squared gradients; below 1 [factor]", \
		       .max = 0.999999), \
		OPTION(updater.eps, REAL, "eps", "1e-08", \
		       "adam: added to the square root that it divides by [gradient]", \
		       .min = 1e-30, .max = 1), \
		OPTION(updater.outer_lr, REAL, "outer-lr", "0.7", \
		       "delayed_nesterov: learning rate of the server's step [factor]", \
		       .max = 1000), \
		OPTION(updater.outer_momentum, REAL, "outer-momentum", "0.9", \
		       "delayed_nesterov: momentum of the server's step [factor]", .max = 0.999), \
		OPTION(updater.spread, REAL, "spread", "0", \
		       "delayed_nesterov: share of the momentum's step that " \
		       "each push makes, at most " \
		       "1 / workers; the last of a period makes the rest [fraction]", \
		       .max = 1), \
		OPTION(updater.period, INT, "period", "0", \
		       "delayed_nesterov: pushes between two steps of the momentum, without " \
		       "rounds; 0: as many as there are workers; 1: Nesterov's step in each " \
		       "push, without delay [pushes]", \
		       .max = 1e6)

struct exchange {
	struct updater_wants wants;
	struct table *table; /* holds the canonical model */
	/* Sum of gradients, or of steps, since the last push; NULL: deltas are pushed, or X is 1.
	 */
	struct vec *sum;
	bool apart;       /* pushes and pulls have separate intervals: set before exchange_init */
	bool outstanding; /* there are steps since the last push */
	int32_t send;     /* with apart: steps between two pushes; pulls follow --sync-every */
	double weight;    /* of this trainer's push */
	/* The moments after the last push that counted, and their age; NULL: all pushes count, or
	 * the server has v. */
	struct vec *counted[MOMENTS_MOST];
	int64_t counted_age;
	/* In rounds every worker pushes, also without rows. These: sums of worker_share, and of its
	 * rows in units of the mean worker's; and steps, since the last push. */
	bool rounds;
	bool quorum; /* the weight of a push is also that of its steps, in units of X */
	double shares, rows;
	int32_t steps;
	/* Dynamic local updates: steps between two exchanges, now; 0: --sync-every. From `last` on.
	 */
	int64_t interval, last;
};

/* Slots of a strategy whose state begins with a struct exchange whose table it has made. If it
 * pulls from the table, it also needs exchange_rejoin. */
void exchange_rejoin(struct worker *w);
void exchange_fini(struct worker *w);
void exchange_canonical(struct worker *w, struct vec *model);
#define TABLE_SLOTS \
	.state_size = sizeof(struct exchange), .fini = exchange_fini, \
	.canonical = exchange_canonical, .may_leave = true, .meets = MEETS_ALONE
double exchange_bytes(const struct worker *w); /* of the pushes and pulls of exchange_step */

/* A strategy whose options begin with a struct updater_opts has terms that are exchange_terms, or
 * begin with it, */
struct table_terms exchange_terms(const struct run *run, const void *opts);
/* an init that is exchange_init, or ends with it, */
void exchange_init(struct worker *w);
/* a refuse that is this function, or begins with it, */
char *exchange_refuse(const struct run *run, const void *opts);
void exchange_step(struct worker *w);
void exchange_flush(struct worker *w);
/* and these slots. */
#define EXCHANGE_SLOTS \
	TABLE_SLOTS, .codes = CODES_PUSHES, .step = exchange_step, .flush = exchange_flush, \
		     .rejoin = exchange_rejoin, .bytes_per_step = exchange_bytes
#define EXCHANGE_TIME "steps (step + push and pull / X)" /* its epoch_time if no worker waits */

#pragma GCC visibility pop
#endif
