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

/* ---- Names (names.c), of the runs of the temporary table run_summary (database_take) ---- */

/* Makes the temporary tables title (config_key, workload, configuration, ...) and side, empty, and
 * the view places: see names.sql. NULL or a sentence. */
char *names_make(struct store *s);
/* Adds to table side, under this name, the runs that a word means: one run by its number, or latest
 * (as run_find); else those that have ended of the configuration of this name, as mvbench table
 * shows it, with its workload before it or not; else those with this label; else of the only
 * configuration of this short name. NULL, or a sentence: there is nothing of this name, with the
 * nearest, or they are of several configurations. */
char *names_find(struct store *s, const char *word, const struct select *of, const char *side);

/* ---- History (history.c) ---- */

/* Fills table past of style.sql, on another connection, with what mvbench history finds of each
 * configuration of the selected runs, whatever its labels; leaves it empty where all are of one
 * commit. figure: of its --figure, which this option named; "" = seconds of an epoch. NULL or a
 * sentence. */
char *history_past(struct store *to, const struct select *of, const char *option,
		   const char *figure);

/* ---- Steps (step.c) ---- */

enum { SERIES_MOST = 1000 }; /* values that are looked at */
/* Where does a series step? It is taken for constant but for noise and steps between its groups.
 * x: the values of n groups, one group after the other; end[i]: the index behind the last of group
 * i, so that end[n - 1], at most SERIES_MOST, is how many there are. begins[i]: does a segment
 * begin with group i? level[i]: the median of its segment. Below four values, or two groups, there
 * is one segment. */
void steps_find(const double *x, const size_t *end, size_t n, bool *begins, double *level);

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
