/*
 * run.h - functions that the commands that make runs share.
 */
#ifndef RUN_H
#define RUN_H

#include "results/db/db.h"
#include "runtime/cli/cli.h"
#include "runtime/config/clusters.h"
#include "runtime/config/plan.h"
#include "runtime/launch/launch.h"
#include "sim/model/model.h"

/* ---- Running one configuration (run.c, progress.c) ---- */

/* Shows a run on stderr, from its status page. Terminal: one line that is redrawn. Otherwise a
 * plain line per epoch if lines is set, or one per minute. quiet: nothing. */
struct progress {
	const char *before; /* start of the line, such as "3/24 "; NULL = nothing */
	bool lines, quiet;
	double later_s; /* expected duration of all later runs [s]; 0 = none */
	bool terminal;
	nsec began, drawn;
	double done_before; /* fraction done before it resumed from a checkpoint: 0..1 */
	int64_t printed;    /* rows of the page already printed */
};

bool progress_has_bars(void); /* is stderr a terminal that can redraw a line? */
void progress_start(struct progress *p);
void progress_tick(void *self, const struct status_page *page);            /* a watcher's tick */
void progress_end(struct progress *p);                                     /* removes the line */
void duration_put(FILE *f, double s);                                      /* "1:02:03", "0:05" */
void progress_epoch(FILE *f, const struct epoch_row *row, int64_t epochs); /* the plain line */

/* Shows on a terminal how far other work is, and how long it will take, if it takes more than a
 * second: start; a step after each part, with the number that are done; end removes the line. */
struct meter {
	const char *what; /* "figure" */
	size_t of;
	size_t later;   /* parts of other work that follow these: for the time left, */
	double later_s; /* and what follows them, at most [s] */
	bool terminal;
	nsec began, drawn;
};
void meter_start(struct meter *m, const char *what, size_t of);
void meter_step(struct meter *m, size_t done);
void meter_end(struct meter *m);

/* Freed at the end of its block: struct status_page *page AUTOPAGE = status_of_launcher(); */
static inline void page_autofree(struct status_page **page)
{
	status_free(*page);
}
#define AUTOPAGE ENDS_WITH(page_autofree)

/* How a run ended. */
struct outcome {
	int status;     /* as an exit status */
	int64_t id;     /* of its row; 0 = it did not begin */
	char *why;      /* NULL when done */
	char *replayed; /* comparison of a replay's model; NULL = no replay, or not ended */
	bool differs;   /* the replay's model differs */
	struct status_page *page; /* its last state; NULL = not launched */
};

/* Launches c and waits. A row that the workers left behind unfinished is marked failed. */
void run_cell(const struct config *c, struct progress *p, struct outcome *o);
void outcome_fini(struct outcome *o);
/* Marks a row that the workers left unfinished (page: theirs), or this process's pending one (page
 * NULL). NULL or a sentence. */
char *run_mark_failed(const struct config *c, int64_t id, const struct status_page *page,
		      const char *why);
const char *outcome_word(int status);                /* "done", "diverged", "refused", ... */
double page_seconds(const struct status_page *page); /* of training so far [s]; page NULL: 0 */

/* ---- quiet.c ---- */

/* Waits as --quiet-wait says. */
void quiet_wait(const struct config *c);
/* The smallest share of its core that a worker got while it was runnable. NaN = not known, or the
 * workers themselves oversubscribe the cores. */
double page_cores_share(const struct config *c, const struct status_page *page);

/* Prints the result line or JSON on stdout, and the reason of a failure on stderr. */
void outcome_print(const struct config *c, const struct outcome *o, enum format format);

/* In a worker process: plans and trains c; reports to the sink. Returns the exit status of the
 * process. page: of the watcher; NULL = the user's own launcher started it. */
int worker_train(const struct config *c, const struct sink *sink, struct status_page *page);
/* NULL, or a sentence: why c cannot run here or cannot be recorded. starts: the run starts now. A
 * simulation then itself finds out whether its workers can start. */
char *run_plan(const struct config *c, struct plan *plan, bool starts);
/* Runs the planned configuration as mvbench run does; returns the exit status. *id: of its row; 0 =
 * it did not begin. */
int run_and_print(const struct config *c, const struct plan *plan, enum format format, int64_t *id);

/* Under mpirun or srun: a sentence that this command starts its own workers; otherwise NULL
 * (sweep.c). */
char *launcher_refuse(const char *command);
/* *path (heap) = the job file that is the command's only word, or an installed one, with or without
 * .ini. Without a word: a sentence with the example (NULL: *path stays). NULL or a sentence
 * (sweep.c). */
char *sweep_find(const struct arguments *a, const char *command, const char *example, char **path);
/* The text without this ending; heap. */
char *text_without(const char *text, const char *ending);
void job_files_each(void (*each)(void *ctx, const struct word *w), void *ctx);
/* Prints results of studies (mvbench tune): a row for each tuned configuration and one for it
 * untuned. condition: on view study_result. NULL or a sentence (tune.c). */
char *study_print(struct store *s, FILE *f, enum format format, const char *condition,
		  int64_t *rows);

/* The inputs of a simulation of c (calibration.c): platform file and costs, from --db or as given.
 * NULL or a sentence. simulation_fini frees. */
char *simulation_find(const struct config *c, const struct plan *p, struct simulation *s);
void simulation_fini(struct simulation *s);
/* A measured platform as XML (platform.c), heap: this machine, or `hosts` hosts with wires. */
char *platform_local(const struct points *p, int cores);
char *platform_hosts(const struct points *wires, int hosts, int cores);
char *platform_cluster(const struct cluster_shape *k);
/* The result of simulation_find without its data; NULL for real runs. */
char *simulation_inputs(const struct config *c, const struct plan *p);
/* The same, then that of simulator_try. */
char *simulation_check(const struct config *c, const struct plan *p);
/* simulator.c: can the workers start on their simulated platform? NULL, or a message. */
char *simulator_try(const struct config *c);

/* Stores measurements of c's workload, or of the wires between hosts (NULL: of none). NULL or a
 * sentence. */
char *calibration_save(struct store *s, const struct config *c, const struct plan *p,
		       const char *hosts, const struct points *points);
/* The newest calibration of c's workload with the same number of workers; 0 = none. */
int64_t calibration_newest(struct store *s, const struct config *c, const struct plan *p);
char *calibration_add(struct store *s, int64_t id, const struct points *points);
/* Equal keys (heap) need the same calibration. */
char *calibration_key(const struct config *c);
/* The name of a calibration's points with the share of their cores that its repetitions had. */
#define CALIBRATED_SHARE "cores_share"
/* NULL, or a sentence: other processes ran while the calibration of this simulation was made. Heap.
 */
char *calibration_doubt(const struct config *c, const struct plan *p);
/* Prints the calibrations with numbers above `after`: of machines, or of wires. */
char *calibration_print(struct store *s, FILE *f, int64_t after, bool wires);

/* ---- Parts of a spread (spread.c) ---- */

enum { SPREAD_SEED, SPREAD_ORDER, SPREAD_BOTH, SPREAD_PARTS, SPREAD_MOST = 50 };
struct spread {
	double mean;
	/* of each part: its variance (a negative estimate is 0), the ends of its 95 % interval, and
	 * the degrees of freedom of its mean square */
	double variance[SPREAD_PARTS], low[SPREAD_PARTS], high[SPREAD_PARTS];
	int df[SPREAD_PARTS];
};
/* y[seeds][orders], row-major, 2 to SPREAD_MOST each, in any unit; the mean has this unit,
 * variances and their intervals have its square. Estimates: Searle, Casella, McCulloch, Variance
 * Components, 1992, 4.3; intervals: Williams, Biometrika 49, 1962. */
void spread_split(const double *y, int seeds, int orders, struct spread *s);
double f_quantile(double p, double df1, double df2); /* of the F distribution */

/* ---- Replays (replay.c): runs that repeat the push order of a recorded run ---- */

/* The text of this value as config_next writes it (0.1 for 0.10); NULL = not a value of this
 * option. Heap. */
char *option_plain(const struct option *o, const char *text);
/* *all = the settings of the replayed run, then the given ones. NULL, or a sentence: the run is not
 * in --db, cannot be replayed, or a given setting contradicts it. */
char *replay_settings(struct settings *all, const struct setting *given, size_t n);
/* *out = the recording of --sim.replay's run; NULL without a replay. */
char *replay_load(const struct config *c, struct recording **out);
void replay_free(struct recording *r);
/* Compares the model of run `id` with that of the run that it replayed. *said: heap. */
char *replay_compare(const struct config *c, int64_t id, bool *equal, char **said);

/* Restarts this process's command in a lab of this many hosts. NULL: this process is in a lab
 * already. */
char *lab_enter(int64_t hosts);

#endif
