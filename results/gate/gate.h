/*
 * gate.h - what the files of `mvbench check` share: baseline.c stores baselines, baseline_file.c
 * writes and reads them as text files, runs.c finds and makes the runs to compare, print.c prints
 * the verdicts of the views, time.c measures two programs in turn; gate.c is the command.
 */
#ifndef GATE_H
#define GATE_H

#include "results/run/study.h"

struct gate_options {
	const char *db, *save, *against, *drop, *label, *where, *export, *import;
	const char *rerun, *seeds, *better, *unsure, *time, *program, *format, *out;
	bool replace, list;
	int64_t pairs, jobs;
	double alpha, min_accuracy, min_loss, min_time; /* share, points, %, % */
};

/* ---- Cells ---- */

/* Adds the settings of a cell's options (a JSON object), this seed, and `more` on top. NULL or a
 * sentence. */
char *gate_settings(struct store *s, const char *options, int64_t seed, const struct setting *more,
		    size_t n, struct settings *all);
/* Makes the configuration of these settings. NULL or a sentence; on success the caller calls
 * config_fini. */
char *gate_config(struct store *s, const char *options, int64_t seed, const struct setting *more,
		  size_t n, struct config *c);
/* The same, but opens no file that the baseline names. */
char *gate_config_recorded(struct store *s, const char *options, int64_t seed,
			   const struct setting *more, size_t n, struct config *c);
/* The identity of its cell: its hash with seed 0. */
void gate_cell(const struct config *c, char hex[17]);

/* ---- Baselines: each NULL or a sentence ---- */

char *baseline_name(const char *name);                   /* of --save: is it a valid name? */
char *baseline_clear(struct store *s, const char *name); /* deletes all its rows */
/* NULL, or a sentence: there is no such baseline, with the names of those that exist. */
char *baseline_find(struct store *s, const char *option, const char *name);
/* The modes of check that make no runs. */
char *baseline_save(struct store *s, const struct gate_options *o);
char *baseline_drop(struct store *s, const struct gate_options *o);
char *baseline_list(struct store *s, const struct gate_options *o);
char *baseline_export(struct store *s, const struct gate_options *o);
char *baseline_import(struct store *s, const struct gate_options *o);

/* ---- The runs that are compared ---- */

struct gate_count { /* columns of count_sql (print.c) */
	double cells, failed, better, identical, unsure, runs;
};

struct check {
	struct store *store;
	const struct gate_options *o;
	const struct arguments *a; /* the remaining ones: options of run */
	char program[SHA256_ROOM]; /* hash of this program */
	char *made;                /* time of the baseline */
	struct axis seeds;         /* of --seeds; none: those of the baseline */
	size_t made_now;           /* runs */
	struct gate_count count;
	int64_t slower; /* cells */
};

/* Reads the baseline and finds existing runs; makes the others. Each NULL or a sentence. */
char *gate_limit(struct check *c); /* stores what the views judge by */
char *gate_find(struct check *c);
char *gate_make(struct check *c, bool *interrupted);
void gate_fini(struct check *c);

/* ---- Deciding ---- */

/* Prints the cells in this format, worst first, and counts them. NULL or a sentence. */
char *gate_print(struct store *s, FILE *f, const char *format, const char *name,
		 struct gate_count *count);

/* ---- Wall time ---- */

/* Runs every real cell of the baseline with this program and with o->program in turn, and prints
 * one line for each cell on f. Counts c->slower. Returns an exit status. */
int gate_time(struct check *c, FILE *f);
/* Is o->program an mvbench? NULL or a sentence. */
char *gate_time_check(const struct gate_options *o);

#endif
