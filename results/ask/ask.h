/*
 * ask.h - what the commands that ask share.
 */
#ifndef ASK_H
#define ASK_H

#include "results/db/select.h"

/* A run by its number, or "latest": the newest that is selected and that `among`, a condition of
 * ours on run_summary, matches ("" = all). NULL or a sentence (trace.c). */
char *run_find(struct store *s, const char *word, const struct select *of, const char *among,
	       int64_t *id);

/* ---- Predictions (predict.c) ---- */

struct term {
	const char *name, *means; /* means NULL: it is no time */
	size_t offset;            /* of its field of struct costs */
};
extern const struct term terms[]; /* ends at name NULL */
double *term_of(struct costs *c, const char *name, size_t length);

struct prediction {
	double seconds; /* of an epoch */
	bool at_best;
	bool paced;              /* it depends on X */
	char *formula, *numbers; /* as it is written, and with the numbers in it [ms] */
	char *why;               /* there is none, a reason; NULL = there is one */
};
/* What this strategy expects with these costs. */
struct prediction predict(const struct strategy *s, const struct costs *c, const struct run *run,
			  const void *opts);
void prediction_fini(struct prediction *p);

struct config;
/* Of an epoch of this run by its strategy's formula, with what calibrations of this machine in its
 * database say [s]; NaN = there is no formula, or its terms were not measured. NULL or a sentence
 * (advise.c). */
char *predict_run(const struct config *c, double *seconds);

#endif
