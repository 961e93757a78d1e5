/*
 * exchange.h - the exchange that asgd, bsp and ssp have in common, and linear layers cut over
 * workers.
 */
#ifndef EXCHANGE_H
#define EXCHANGE_H

#include "mvbench.h"

struct updater_opts {
	const char *updater;
	double rho, lambda, square;
};

/* Rows of an options table, for a struct updater_opts called `field`. */
#define UPDATER_OPTIONS(owner, field) \
	{.name = "updater", \
	 .type = OPT_CHOICE, \
	 .offset = offsetof(owner, field.updater), \
	 .def = "add", \
	 .choices = UPDATERS, \
	 .help = "what the server does with a push: add takes what X steps changed, momentum and " \
		 "momentum_ema the sum of X gradients, the others the sum of X local v = m v + " \
		 "gradient [name]"}, \
		{.name = "rho", \
		 .type = OPT_REAL, \
		 .offset = offsetof(owner, field.rho), \
		 .def = "0.1", \
		 .min = 0, \
		 .max = 1e6, \
		 .help = "adagrad's step [factor]"}, \
		{.name = "lambda", \
		 .type = OPT_REAL, \
		 .offset = offsetof(owner, field.lambda), \
		 .def = "0.1", \
		 .min = 0, \
		 .max = 1e6, \
		 .help = "dcasgd's compensation of the delay [factor]"}, \
	{ \
		.name = "square", .type = OPT_REAL, .offset = offsetof(owner, field.square), \
		.def = "0.95", .min = 0, .max = 1, \
		.help = "dcasgda's mean of squares: what stays of it at a push [factor]" \
	}

struct exchange {
	struct updater_wants wants;
	struct table *table;
	struct vec *sum;  /* gradients since the last push; NULL: deltas are pushed, or X is 1 */
	bool outstanding; /* steps since the last push */
};

/* The slots of a strategy whose state begins with a struct exchange, and its options with a struct
 * updater_opts. */
void exchange_init(struct worker *w, struct table_terms terms); /* syncs and updater: of opts */
void exchange_step(struct worker *w);
void exchange_flush(struct worker *w);
void exchange_rejoin(struct worker *w);
void exchange_fini(struct worker *w);
void exchange_canonical(struct worker *w, struct vec *model);
double exchange_bytes(const struct worker *w);

extern const struct linear_ops linear_split;       /* cut over the model group: linear_split.c */
double linear_split_bytes(const struct worker *w); /* what those send: as bytes_per_step */

#endif
