/*
 * cells.h - an expanded job file: its cells in order, without duplicates (jobfile.c, cells.c).
 */
#ifndef CELLS_H
#define CELLS_H

#include "results/run/study.h"
#include "runtime/config/config.h"

struct cell {
	struct config config;
	char hash[17];
	char *what;    /* description: "mlp, asgd, 2 workers, sync-every 16" */
	char *section; /* of the file, and its line */
	int line;
	struct plan plan;
	/* of its newest row; "" = no row */
	int64_t id;
	char status[16], reason[256];
	bool skip;       /* it is finished */
	bool of_another; /* another sweep runs it, or has run it */
	size_t number;   /* among the cells to run, from 1 */
	int64_t round;   /* index of its seed within its configuration, from 1; 0 = not shuffled */
	size_t place;    /* in the file's order */
	uint64_t key;    /* sort key of the shuffle */
};

struct sweep {
	struct cell *cell;
	size_t cells, duplicates, excluded, refused; /* refused: left out by sweep_leave_out */
	void *hashes; /* of the cells (tsearch), also of those that were left out since */
	bool blind;   /* report results on the validation rows, not on the test set */
};

/* NULL, or a sentence with file:line. `given` replaces settings of the file. Plans nothing. search:
 * gets section [search]; NULL: the file may not have one. runs: the user wants to run it, so that
 * the plug-ins that it names may be compiled and loaded. The caller frees s, also after an error.
 */
char *sweep_read(const char *path, const struct setting *given, size_t n, struct sweep *s,
		 struct search *search, bool runs);
void cell_fini(struct cell *c);
void sweep_free(struct sweep *s);
/* Orders the cells in blocks: the first seed of every configuration of all sections, shuffled by
 * this seed; then the second seed, and so on. A drift of the machine then affects all
 * configurations alike. */
void sweep_shuffle(struct sweep *s, int64_t seed);
/* Removes and reports the refused combinations of each section. Keeps them if all of a section are
 * refused: sweep_plan then gives the reason. */
void sweep_leave_out(const char *path, struct sweep *s);
/* Plans every cell. NULL, or a sentence about the first that cannot run. path: the job file. */
char *sweep_plan(const char *path, struct sweep *s);

#endif
