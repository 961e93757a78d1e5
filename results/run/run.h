/*
 * run.h - the commands that make runs, and what other commands that do take from them.
 */
#ifndef RUN_H
#define RUN_H

#include "results/db/db.h"
#include "runtime/launch/launch.h"
#include "sim/model/model.h"

/* ---- Running one configuration, for the commands that do (run.c, progress.c) ---- */

/* Draws a run from its status page on stderr: one line that is redrawn on a terminal; else, where
 * lines is set, a plain line an epoch, and one a minute where it is not; quiet: nothing. */
struct progress {
	const char *before; /* stands first on the line, such as "3/24 "; NULL = nothing */
	bool lines, quiet;
	double later_s; /* expected of what comes after this run [s]; 0 = nothing does */
	bool terminal, colour;
	nsec began, drawn;
	double done_before; /* of the run, when it began, as it goes on from a checkpoint: 0..1 */
	int64_t printed;    /* rows of the page that have had their line */
};

void progress_start(struct progress *p);
void progress_tick(void *self, const struct status_page *page);            /* a watcher's tick */
void progress_end(struct progress *p);                                     /* the line is gone */
void duration_put(FILE *f, double s);                                      /* "1:02:03", "0:05" */
void progress_epoch(FILE *f, const struct epoch_row *row, int64_t epochs); /* the plain line */

/* How a run ended. */
struct outcome {
	int status;     /* as an exit status */
	int64_t id;     /* of its row, 0 = it never began */
	char *why;      /* NULL when done */
	char *replayed; /* how a replay's model compares; NULL = it was none, or did not end */
	bool differs;   /* it is another model */
	struct status_page *page; /* its last state, NULL when it could not be launched */
};

/* Launches c and waits. A row that the workers left behind unfinished is marked failed. */
void run_cell(const struct config *c, struct progress *p, struct outcome *o);
void outcome_fini(struct outcome *o);
const char *outcome_word(int status); /* "done", "diverged", "interrupted", "failed" */
double page_seconds(const struct status_page *page); /* of training so far; NULL = 0 */

/* ---- quiet.c ---- */

/* Waits as --quiet-wait says. */
void quiet_wait(const struct config *c);
/* What the worker that had least had of its core when it could have computed; NaN: not known, or
 * they crowd their own cores. */
double page_cores_share(const struct config *c, const struct status_page *page);

/* The result line, or as JSON, on stdout; the reason of a failure on stderr. */
void outcome_print(const struct config *c, const struct outcome *o, enum format format);

/* NULL, or a sentence: can c run here, and be recorded? */
char *run_plan(const struct config *c, struct plan *plan);

/* A job file, expanded: its cells in order, equal ones once (jobfile.c). */
struct cell {
	struct config config;
	char hash[17];
	char *what;    /* for people: "mlp, asgd, 2 workers, sync-every 16" */
	char *section; /* of the file, and its line */
	int line;
	struct plan plan;
	/* of its newest row; "" = none */
	int64_t id;
	char status[16], reason[256];
	bool skip;     /* it is finished */
	size_t number; /* of those to run, from 1 */
	int64_t round; /* from 1: which of its configuration's seeds this is; 0 = not shuffled */
	size_t place;  /* in the file's order */
	uint64_t key;  /* that the shuffle sorts by */
};

struct sweep {
	struct cell *cell;
	size_t cells, duplicates, excluded;
	bool blind; /* what is said of cells is of the rows that are held out, not of the test set
		     */
};

/* NULL, or a sentence with file:line. `given` replaces what the file says. Plans nothing. */
char *sweep_read(const char *path, const struct setting *given, size_t n, struct sweep *s);
void cell_fini(struct cell *c);
void sweep_free(struct sweep *s);
/* In rounds: the first has the first seed of every configuration, in whatever section it stands, in
 * an order that this seed decides; then the second ... So what drifts over a sweep meets all alike.
 */
void sweep_shuffle(struct sweep *s, int64_t seed);
/* A job file as given, or one of those that come with the program, with or without its .ini: its
 * path, from the heap. NULL or a sentence (sweep.c). */
char *sweep_find(const char *name, char **path);
void job_files_each(void (*each)(void *ctx, const struct word *w), void *ctx);
/* Plans every cell: NULL, or a sentence about the first that cannot run. path: the job file. */
/* Of a section's combinations those that nobody can run are taken out, which is said, unless none
 * can be run. */
void sweep_leave_out(const char *path, struct sweep *s);
char *sweep_plan(const char *path, struct sweep *s);

/* Prints what studies came to (mvbench tune): a row for what was tuned, and one for what was not.
 * condition: on view study_result. NULL or a sentence (tune.c). */
char *study_print(struct store *s, FILE *f, enum format format, const char *condition,
		  int64_t *rows);

/* What a simulation of c needs (calibration.c): its platform's file, and what work costs, from --db
 * or as given. NULL or a sentence. simulation_fini frees. */
char *simulation_find(const struct config *c, const struct plan *p, struct simulation *s);
void simulation_fini(struct simulation *s);
#define IN_MEMORY "/proc/self/fd/"
char *file_in_memory(const char *text); /* a name by which this process and its children open it */
/* XML of what was measured (platform.c), heap: this machine, or so many hosts with wires. */
char *platform_local(const struct points *p, int cores);
char *platform_hosts(const struct points *wires, int hosts, int cores);
/* NULL, or what simulation_find would say; real runs need nothing. */
char *simulation_check(const struct config *c, const struct plan *p);

/* Keeps what was measured of c's workload, or of the wires between hosts (NULL: none). NULL or a
 * sentence. */
char *calibration_save(struct store *s, const struct config *c, const struct plan *p,
		       const char *hosts, const struct points *points);
/* Of c's work, with as many workers; 0 = there is none. */
int64_t calibration_newest(struct store *s, const struct config *c, const struct plan *p);
char *calibration_add(struct store *s, int64_t id, const struct points *points);
/* Equal keys (heap) need the same calibration. */
char *calibration_key(const struct config *c);
/* Both from the heap: the workload's own options, and what of the optimiser decides what an update
 * takes; and the command that measures what simulations of c with so many workers side by side
 * need. */
char *workload_words(const struct config *c);
char *calibrate_words(const struct config *c, int workers);
/* Prints the calibrations whose numbers are above this one: of machines, or of wires. */
char *calibration_print(struct store *s, FILE *f, int64_t after, bool wires);
int64_t calibration_last(struct store *s);

/* ---- What a spread is made of (spread.c) ---- */

enum { SPREAD_SEED, SPREAD_ORDER, SPREAD_BOTH, SPREAD_PARTS, SPREAD_MOST = 50 };
struct spread {
	double mean;
	/* of each part: its variance, 0 where the estimate is below, the ends of its 95 % interval,
	 * and the degrees of freedom of its mean square */
	double variance[SPREAD_PARTS], low[SPREAD_PARTS], high[SPREAD_PARTS];
	int df[SPREAD_PARTS];
};
/* y[seeds][orders], row-major, 2 to SPREAD_MOST each, in any unit; mean is in it, variances and
 * their intervals in its square. Estimates: Searle, Casella, McCulloch, Variance Components,
 * 1992, 4.3; intervals: Williams, Biometrika 49, 1962. */
void spread_split(const double *y, int seeds, int orders, struct spread *s);
double f_quantile(double p, double df1, double df2); /* of F with these degrees of freedom */

/* ---- Replays (replay.c): a run that repeats the order of another's pushes ---- */

/* NULL, or a sentence: there is no such run in --db, it cannot be replayed, or something is given
 * that disagrees with it. The settings of the run that is replayed come first. */
char *replay_settings(struct settings *all, const struct setting *given, size_t n);
/* The record of --sim.replay's run; NULL when there is nothing to replay. */
char *replay_load(const struct config *c, struct recording **out);
void replay_free(struct recording *r);
/* Says how the model of run `id` compares with that of the run that it replayed. */
char *replay_compare(const struct config *c, int64_t id, bool *equal, char **said);

#endif
