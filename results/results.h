/*
 * results.h - the store: one SQLite file that holds every run, and how people ask it.
 * Only rank 0 of a run, and the commands, open it.
 */
#ifndef RESULTS_H
#define RESULTS_H

#include "../runtime/platform.h"

#define DATABASE "mvbench.db" /* when none is named, as --db of run_options says */

struct store;

enum store_mode { STORE_READ, STORE_WRITE }; /* WRITE makes the file when there is none */

/* NULL or a sentence: missing (READ), read-only, newer schema, locked, not a database, disk full.
 * Older schemas migrate (WRITE). WRITE marks `running` rows of dead processes as failed. */
char *store_open(struct store **out, const char *path, enum store_mode mode);
void store_close(struct store *s); /* NULL is fine */
/* Computes the figures of ended runs of which none are kept yet (table run_kept), as
 * store_open(WRITE) does: for who adds such runs himself. NULL or a sentence. */
char *store_keep(struct store *s);
/* NULL or a sentence: could store_open(WRITE) succeed? Writes nothing, makes no file. */
char *store_check(const char *path);
/* NULL or a sentence: is this a results database, of this version or an older one? */
char *store_look(const char *path);

/* The sink that writes runs into s; one run at a time. */
struct sink store_sink(struct store *s);

/* The newest run of this cell: its status and reason into the buffers ("" = none).
 * Returns its id, 0 for none. */
int64_t store_cell(struct store *s, const char *config_hash, char status[16], char reason[256]);
/* Makes a `pending` row for a cell; store_sink's begin takes the oldest pending row of its hash
 * over. */
char *store_pend(struct store *s, const struct config *c);
/* Marks a run that is still `running` as failed (its process is gone or never began). */
char *store_fail(struct store *s, int64_t id, const char *reason);

enum format { FORMAT_TEXT, FORMAT_MARKDOWN, FORMAT_CSV, FORMAT_JSON };
/* text: NULL or one of the names; false when unknown. */
bool format_find(const char *text, enum format *out);

/* Runs one SELECT with `count` text parameters (?1, ?2, ...) and prints the rows: an aligned table,
 * markdown, RFC 4180 CSV, or one JSON object a row. NULL or a sentence. rows may be NULL. */
char *query_print(struct store *s, FILE *f, enum format format, const char *sql,
		  const char *const *param, size_t count, int64_t *rows);
/* The first n columns of the first row of one such SELECT; NaN where there is no number. */
char *query_numbers(struct store *s, const char *sql, const char *const *param, size_t count,
		    double *x, int n);
/* One JSON object a run, as `run --format=json` promises (DESIGN). */
char *query_run_json(struct store *s, FILE *f, int64_t id);

/* ---- Running one configuration, for the commands that do (run.c, progress.c) ---- */

/* Draws a run from its live page on stderr: one line that is redrawn on a terminal; else, where
 * lines is set, a plain line an epoch; quiet: nothing. */
struct progress {
	const char *before; /* stands first on the line, such as "3/24 "; NULL = nothing */
	bool lines, quiet;
	double later_s; /* expected of what comes after this run [s]; 0 = nothing does */
	bool terminal, colour;
	nsec began, drawn;
	int64_t printed; /* rows of the page that have had their line */
};

void progress_start(struct progress *p);
void progress_tick(void *self, const struct live *live);                   /* a watcher's tick */
void progress_end(struct progress *p);                                     /* the line is gone */
void progress_epoch(FILE *f, const struct epoch_row *row, int64_t epochs); /* the plain line */

/* How a run ended. */
struct outcome {
	int status;        /* as an exit status */
	int64_t id;        /* of its row, 0 = it never began */
	char *why;         /* NULL when done */
	char *replayed;    /* how a replay's model compares; NULL = it was none, or did not end */
	bool differs;      /* it is another model */
	struct live *live; /* its last state, NULL when it could not be launched */
};

/* Launches c and waits. A row that the workers left behind unfinished is marked failed. */
void run_cell(const struct config *c, struct progress *p, struct outcome *o);
void outcome_fini(struct outcome *o);
const char *outcome_word(int status); /* "done", "diverged", "interrupted", "failed" */
/* The result line, or as JSON, on stdout; the reason of a failure on stderr. */
void outcome_print(const struct config *c, const struct outcome *o, enum format format);

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
};

struct sweep {
	struct cell *cell;
	size_t cells, duplicates;
};

/* NULL, or a sentence with file:line. `given` replaces what the file says. Plans nothing. */
char *sweep_read(const char *path, const struct setting *given, size_t n, struct sweep *s);
void sweep_free(struct sweep *s);
/* A job file as given, or one of those that come with the program, with or without its .ini: its
 * path, from the heap. NULL or a sentence (sweep.c). */
char *sweep_find(const char *name, char **path);
/* Plans every cell: NULL, or a sentence about the first that cannot run. path: the job file. */
char *sweep_plan(const char *path, struct sweep *s);

/* What a simulation of c needs (calibration.c): its platform's file, and what work costs, from --db
 * or as given. NULL or a sentence. simulation_fini frees. */
char *simulation_find(const struct config *c, const struct plan *p, struct simulation *s);
void simulation_fini(struct simulation *s);
/* NULL, or what simulation_find would say; real runs need nothing. */
char *simulation_check(const struct config *c, const struct plan *p);

/* Keeps what was measured of c's workload; *id gets its number. NULL or a sentence. */
char *calibration_save(struct store *s, const struct config *c, const struct plan *p,
		       const struct points *points, int64_t *id);
/* Of c's work, with as many workers; 0 = there is none. */
int64_t calibration_newest(struct store *s, const struct config *c, const struct plan *p);
char *calibration_add(struct store *s, int64_t id, const struct points *points);
/* Launches visit `visit` (0: a new calibration, and all costs) of what c needs, with c's workers;
 * or, simulated, the measuring on this machine as it was found. Returns an exit status, says what
 * is wrong (sim/calibrate.c). Equal keys (heap) need the same. */
int calibration_visit(const struct config *c, int visit, bool simulated);
char *calibration_key(const struct config *c);
/* Both from the heap: the workload's own options as one would type them, and the command that
 * measures what simulations of c with so many workers side by side need. */
char *workload_words(const struct config *c);
char *calibrate_words(const struct config *c, int workers);
/* Prints the calibrations whose numbers are above this one. */
char *calibration_print(struct store *s, FILE *f, int64_t after);
int64_t calibration_last(struct store *s);

/* ---- Replays (replay.c): a run that repeats the order of another's pushes ---- */

/* What a run is given, later ones win; those of the run that is replayed come first. */
struct settings {
	struct setting *setting;
	size_t n, taken; /* taken: from that run, on the heap */
};
/* NULL, or a sentence: there is no such run in --db, it cannot be replayed, or something is given
 * that disagrees with it. */
char *replay_settings(struct settings *all, const struct setting *given, size_t n);
void settings_free(struct settings *all);
/* The record of --sim.replay's run; NULL when there is nothing to replay. */
char *replay_load(const struct config *c, struct record **out);
void replay_free(struct record *r);
/* Says how the model of run `id` compares with that of the run that it replayed. */
char *replay_compare(const struct config *c, int64_t id, bool *equal, char **said);

/* ---- Recorded runs as configurations again (recorded.c) ---- */

/* The configuration of run `id`, as its rows say. NULL, or a sentence: there is no such run, or
 * this program does not know its strategy, workload or options. exact: its config_hash is the
 * row's. */
char *recorded_config(struct store *s, int64_t id, struct config *c, bool *exact);
/* The command, from the heap, that repeats it: words quoted for a POSIX shell, defaults left out.
 */
char *recorded_command(struct store *s, int64_t id, char **command, bool *exact);

/* Says the sentence on stderr, frees it, and returns EXIT_USER. */
int complain(char *wrong);

/* ---- Help (topic.c, manual.c, completion.c) ---- */

/* What one can ask help for; made from the tables of commands, options, plug-ins, figures and the
 * database. Several may have one name. */
struct topic;
typedef void topic_function(const struct help *p, const struct topic *t, const struct topic *all);

struct topic {
	const char *kind; /* "command", "option", "strategy", ...: see topic.c */
	char *name, *summary;
	const char *owner; /* of an option: its plug-in or command; else NULL */
	const void *of;    /* what kind says */
	topic_function *print;
};
/* Ends at name NULL; for topics_free. */
struct topic *topics_make(void);
void topics_free(struct topic *all);
/* A row a topic of this kind. */
void topics_list(const struct help *p, const struct topic *all, const char *kind);
/* Prints all that have this name (or KIND:NAME, or an option as typed); false: there is none. */
bool topic_print(const struct help *p, const struct topic *all, const char *name);

/* The figures that there are to draw (plots/figures.c). */
void figures_each(void (*each)(void *ctx, const char *name, const char *summary, const char *needs),
		  void *ctx);
/* A figure's path without .sql and .gp, on the heap: from plots on where it comes along, whole
 * where it is the user's. */
char *figures_stem(const char *name);
/* A script that completes mvbench's words in bash. */
void completion_bash(FILE *f);

extern const struct command *const commands[]; /* all, ends at NULL */
void manual_overview(FILE *f);                 /* what mvbench says by itself */

/* A run by its number, or "latest": the newest with this label ("" = any) that `where`, a condition
 * on run_summary, and `among`, one of ours, match ("" = all). NULL or a sentence (trace.c). */
char *run_find(struct store *s, const char *word, const char *where, const char *label,
	       const char *among, int64_t *id);

/* ---- Commands: the only list of them, in the order in which help shows them. ---- */

#define COMMANDS(X) \
	X(run) \
	X(sweep) \
	X(list) \
	X(table) \
	X(plot) \
	X(report) \
	X(export) \
	X(import) \
	X(calibrate) \
	X(validate) \
	X(check) \
	X(trace) \
	X(blame) \
	X(advise) \
	X(manual)

#define DECLARE_COMMAND(name) extern const struct command command_##name;
COMMANDS(DECLARE_COMMAND)
#undef DECLARE_COMMAND

#endif
