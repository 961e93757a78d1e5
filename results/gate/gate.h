/*
 * gate.h - what the files of `mvbench check` share: baseline.c keeps baselines, baseline_file.c
 * carries them in text files, runs.c finds and makes the runs that are held to them,
 * print.c prints what the views decided, time.c measures two programs side by side;
 * gate.c is the command.
 */
#ifndef GATE_H
#define GATE_H

#include "results/run/run.h"

struct gate_options {
	const char *db, *save, *against, *drop, *label, *where, *export, *import;
	const char *rerun, *seeds, *better, *unsure, *time, *program, *format, *out;
	bool replace, list;
	int64_t pairs;
	double alpha, min_accuracy, min_loss, min_time; /* share, points, %, % */
};

/* ---- Cells ---- */

/* The configuration of a cell's options (a JSON object) with this seed, and `more` on top. NULL or
 * a sentence; on success config_fini is the caller's. */
char *gate_config(struct store *s, const char *options, int64_t seed, const struct setting *more,
		  size_t n, struct config *c);
/* Its options, as gate_config reads them: those that decide what it is, but the seed. Heap. */
char *gate_options_of(const struct config *c);
/* The identity of its cell: its hash with seed 0. */
void gate_cell(const struct config *c, char hex[17]);

/* ---- Baselines: each NULL or a sentence ---- */

char *baseline_name(const char *option, const char *name); /* is it fit to be one? */
char *baseline_clear(struct store *s, const char *name);   /* takes all of its rows away */
char *baseline_save(struct store *s, const struct gate_options *o);
char *baseline_drop(struct store *s, const char *name);
char *baseline_list(struct store *s, FILE *f);
/* NULL, or: there is no such baseline, with the nearest that is. */
char *baseline_find(struct store *s, const char *option, const char *name);
char *baseline_export(struct store *s, FILE *f, const char *name);
char *baseline_import(struct store *s, const struct gate_options *o);

/* ---- The runs that are compared ---- */

struct wanted {               /* one run */
	char *options;        /* of its cell */
	char *what;           /* "mlp asgd 2w X=4" */
	char *cell, hash[17]; /* config_hash, without and with the seed */
	int64_t seed, run_id; /* 0: it is to be made */
	bool own;             /* by a program of these bytes, as an earlier check recorded */
};

struct gate_count {
	int64_t cells, failed, better, identical, unsure, runs;
};

struct check {
	struct store *store;
	const struct gate_options *o;
	const struct arguments *a; /* what is left: options of run */
	char program[17];
	char *made;   /* the baseline */
	int64_t last; /* run that it was made of; 0: none is here */
	int64_t *seed;
	size_t seeds; /* 0: those of the baseline */
	struct wanted *want;
	size_t wants, made_now;
	struct gate_count count;
	int64_t slower; /* cells */
};

/* Reads the baseline, and finds the runs that there are; then makes the others. Each NULL or a
 * sentence. */
char *gate_find(struct check *c);
char *gate_make(struct check *c, bool *interrupted);
void gate_fini(struct check *c);

/* ---- Deciding ---- */

/* Prints the cells, worst first, as `format` says, and counts them. NULL or a sentence. */
char *gate_print(struct store *s, FILE *f, const char *format, const char *name,
		 struct gate_count *count);

/* ---- Wall time ---- */

/* Runs every real cell of the baseline by this program and by o->program in turn, and prints a line
 * a cell on f. *slower: how many got slower. An exit status. */
int gate_time(struct store *s, FILE *f, const struct gate_options *o, int64_t *slower);
/* Is o->program an mvbench? NULL or a sentence. */
char *gate_time_check(const struct gate_options *o);

#endif
