/*
 * study.h - shared by mvbench tune, spread and sweep: search.c has the ranges that tune.c draws
 * from, jobfile.c reads job files, and sweep.c runs the cells of all.
 */
#ifndef STUDY_H
#define STUDY_H

#include "results/run/run.h"

struct sweep; /* cells.h */

/* ---- One key of a job file and its values (axis.c) ---- */

/* The text up to `end`, without blanks around it. Heap. */
char *text_trimmed(const char *text, const char *end);

/* One key and its list of values. */
struct axis {
	char *name;
	const struct option *option;
	char **value;
	size_t n;
	int line; /* 0: the command line */
};

/* A range as it is typed: "1..5", "0.1..0.5 by 0.1", "1e-4..1 log 5"; word and amount are "" where
 * there is none. */
struct span {
	char low[64], high[64], word[64], amount[64];
	double from, to, by;
};
/* Is this meant as a range, correct or not? */
bool span_cut(struct span *s, const char *text);

/* "1, 2, 4", "1..5", "0.1..0.5 by 0.1", "1e-4..1 log 5". NULL, or a sentence, and a is empty. */
char *axis_read(struct axis *a, const char *name, const char *list);
void axis_fini(struct axis *a);

/* Cells that fulfil all these conditions are left out. */
struct exclusion {
	struct axis *condition;
	size_t n;
};

/* Adds the conditions "strategy=serial workers=2,4" to e. NULL, or a sentence. */
char *exclusion_read(struct exclusion *e, const char *text);
void exclusion_fini(struct exclusion *e);
bool exclusion_holds(const struct exclusion *e, const struct config *c);

/* ---- Ranges (search.c) ---- */

enum { RANGES_MOST = 10 };

/* A line of [search]: an option, and the range or the list of words that it is drawn from. */
struct range {
	char *name, *text; /* text: the value in the file */
	bool log, whole;   /* whole: the option takes whole numbers only */
	double low, high;  /* inclusive */
	struct axis list;  /* of words, in place of a range; n 0: a range */
};

struct search {
	struct range *range;
	size_t ranges;
};

/* "LOW..HIGH", "LOW..HIGH log" or "a, b, c". NULL or a sentence. */
char *range_read(struct range *r, const char *name, const char *text);
void range_fini(struct range *r);
void search_free(struct search *s);
/* A coordinate in [0, 1) of the index-th point of Halton's sequence; dimensions count from 0. */
double halton(size_t dimension, uint64_t index);
/* The value at u in [0, 1), as a user types it. Heap. */
char *range_at(const struct range *r, double u);
/* Does c read this option: a core one, or one of its plug-ins? */
bool option_applies(const char *name, const struct config *c);

/* ---- Job files (jobfile.c) ---- */

/* Takes over c. Returns false if s has an equal cell. */
bool sweep_add(struct sweep *s, struct config *c, const char *section, int line);

/* ---- Running cells (sweep.c) ---- */

struct sweep_flags {
	bool dry_run, resume, retry;
	int64_t jobs;
	const char *format, *order, *share; /* NULL: text; as in the file; all cells */
	int64_t order_seed;
	bool looked_up; /* the caller has set id, status and skip of each cell, and sums up */
	FILE *lines;    /* for the lines about cells; NULL: stdout, or stderr where that has JSON */
	nsec until;     /* cells that run then are interrupted, others not begun; 0: no limit */
	bool *late;     /* gets whether that happened; with a limit only */
	size_t later_cells; /* for the time left: how many cells follow these, */
	double later_s;     /* and other work, at most [s] */
};

/* The options of these commands; at: path to the fields in OWNER. */
#define SWEEP_OPTIONS(at) \
	OPTION(at dry_run, BOOL, "dry-run", "false", \
	       "list the cells, and which are finished; run nothing"), \
		OPTION(at retry, BOOL, "retry", "false", \
		       "run cells that failed or diverged again"), \
		OPTION(at jobs, INT, "jobs", "1", \
		       "cells at a time; more than one distort each other's times [cells]", \
		       .min = 1, .max = JOBS_MAX)
enum { JOBS_MAX = 256 };

/* Runs the planned cells that are not finished, or lists them. *status: an exit status. */
char *sweep_carry_out(struct sweep *s, const struct sweep_flags *f, int *status);

#endif
