/*
 * study.h - what the files of mvbench tune share with those of mvbench sweep: tune.c, search.c
 * (ranges and what is drawn from them); jobfile.c reads both kinds of files, and sweep.c runs both
 * kinds of cells.
 */
#ifndef STUDY_H
#define STUDY_H

#include "results/run/run.h"

/* ---- Ranges (search.c) ---- */

enum { RANGES_MOST = 10 };

/* A line of [search]: an option, and from where to where, or from which words, it is drawn. */
struct range {
	char *name, *text; /* text: as it stands there */
	bool log, whole;   /* whole: the option takes whole numbers only */
	double low, high;  /* inclusive */
	char **word;       /* a list in place of a range */
	size_t words;      /* 0: there is none */
};

struct search {
	struct range *range;
	size_t ranges;
};

/* "LOW..HIGH", "LOW..HIGH log" or "a, b, c". NULL or a sentence. */
char *range_read(struct range *r, const char *name, const char *text);
void range_fini(struct range *r);
void search_free(struct search *s);
/* Where in [0, 1) the index-th point of Halton's sequence lies in this dimension, from 0. */
double halton(size_t dimension, uint64_t index);
/* What stands there, u in [0, 1), as one types it. Heap. */
char *range_at(const struct range *r, double u);
/* Is it an option of c: a core option, or one of its strategy or workload? */
bool range_applies(const struct range *r, const struct config *c);

/* The text up to `end`, without blanks around it. Heap. */
char *text_trimmed(const char *text, const char *end);

/* ---- What job files say of one key (axis.c) ---- */

/* One key and the values that it takes in turn. */
struct axis {
	char *name;
	const struct option *option;
	char **value;
	size_t n;
	int line; /* 0: the command line */
};

/* "1, 2, 4", "1..5", "0.1..0.5 by 0.1", "1e-4..1 log 5". NULL, or a sentence, and a is empty. */
char *axis_read(struct axis *a, const char *name, const char *list);
void axis_fini(struct axis *a);

/* Cells for which each of these has one of its values are left out. */
struct exclusion {
	struct axis *condition;
	size_t n;
};

/* "strategy=serial workers=2,4". NULL, or a sentence, and e is empty. */
char *exclusion_read(struct exclusion *e, const char *text);
void exclusion_fini(struct exclusion *e);
bool exclusion_holds(const struct exclusion *e, const struct config *c);

/* ---- Job files (jobfile.c) ---- */

/* As sweep_read, of a file that may have a section [search]; search NULL: it may not. s is the
 * caller's to free, whatever comes back. */
char *study_read(const char *path, const struct setting *given, size_t n, struct sweep *s,
		 struct search *search);
/* Takes c over. Returns false if there is one like it. */
bool sweep_add(struct sweep *s, struct config *c, const char *section, int line);

/* ---- Running cells (sweep.c) ---- */

struct sweep_flags {
	bool dry_run, resume, retry;
	int64_t jobs;
	const char *format, *order, *share;
	int64_t order_seed;
};

/* The rows that both commands have; at: where in OWNER they are. */
#define SWEEP_OPTIONS(at) \
	OPTION(at dry_run, BOOL, "dry-run", "false", \
	       "list the cells, and which are finished; run nothing"), \
		OPTION(at retry, BOOL, "retry", "false", \
		       "run cells that failed or diverged again"), \
		OPTION(at jobs, INT, "jobs", "1", \
		       "cells at a time; more than one spoils each other's times [cells]", \
		       .min = 1, .max = JOBS_MAX)
enum { JOBS_MAX = 256 };

/* Runs what is left of cells that are planned, or lists them. *status: an exit status. */
char *sweep_carry_out(struct sweep *s, const struct sweep_flags *f, int *status);

#endif
