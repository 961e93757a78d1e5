/*
 * ask.h - what the commands that read results share.
 */
#ifndef ASK_H
#define ASK_H

#include "results/db/select.h"

/* Finds a run by its number or by "latest": the newest selected run that matches `among`, a
 * condition of this program on its id ("" = all). NULL or a sentence (trace.c). */
char *run_find(struct store *s, const char *word, const struct select *of, const char *among,
	       int64_t *id);

/* ---- Names (names.c), of the runs of the temporary table run_summary (database_take) ---- */

/* Makes the temporary tables title (config_key, workload, configuration, ...) and side, empty, and
 * the view places: see names.sql. NULL or a sentence. */
char *names_make(struct store *s);
/* Adds to table side, under the name `side`, the runs that a word means. The first that matches
 * counts: a number, or latest (as run_find): this run; the name of a configuration, as mvbench
 * table shows it, with or without its workload in front: its ended runs; a label: the ended runs
 * with it; a short name that only one configuration has: its ended runs. NULL, or a sentence:
 * nothing has this name (with the nearest name), or the runs are of several configurations. */
char *names_find(struct store *s, const char *word, const struct select *of, const char *side);

/* How many of the runs of run_summary had a worker with less than 90 % of its core: their times are
 * not reliable. */
#define BUSY_RUNS \
	"SELECT count(*) FROM run_summary WHERE status = 'done' AND cores_share < 0.9 AND NOT " \
	"ifnull(oversubscribed, 0)"

/* ---- Comparisons with controls (names.c) ---- */

/* Makes table held (held.sql) of the selected runs, after names_make. versus: the control, "" = an
 * allreduce, or serial. Margins are shares. NULL or a sentence. */
char *held_make(struct store *s, const char *versus, double accuracy, double loss, double time);
#define MARGIN_ACCURACY 0.003
#define MARGIN_LOSS     0.01
#define MARGIN_TIME     0.05

/* ---- History (history.c) ---- */

/* Fills table past of style.sql, on another connection, with what mvbench history finds of each
 * configuration of the selected runs, whatever its labels. Leaves it empty if all runs are of one
 * commit. figure: a value of --figure, which the user gave as `option` ("--y="); "" = seconds of an
 * epoch. NULL or a sentence. */
char *history_past(struct store *to, const struct select *of, const char *option,
		   const char *figure);

/* ---- Steps (step.c) ---- */

enum { SERIES_MOST = 1000 }; /* values of a fit */
/* Finds the steps of a series, which is constant except for noise and steps between its groups. x:
 * the values of n groups, one group after the other; end[i]: the index behind the last value of
 * group i; end[n - 1] is the number of values, at most SERIES_MOST. begins[i]: does a segment begin
 * with group i? level[i]: the median of its segment. With less than four values or two groups,
 * there is one segment. */
void steps_find(const double *x, const size_t *end, size_t n, bool *begins, double *level);

#endif
