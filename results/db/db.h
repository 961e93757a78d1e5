/*
 * db.h - the store: one SQLite file that holds every run, and the queries on it. Only rank 0 of a
 * run, and the commands, open it.
 */
#ifndef DB_H
#define DB_H

#include "runtime/config/settings.h"
#include "runtime/train/sink.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <time.h>

/* Calls f with the address of a variable when its block ends: struct settings all
 * ENDS_WITH(settings_free) = ...; the variable has to be initialised. */
#define ENDS_WITH(f) __attribute__((cleanup(f)))
/* Closes an output that was printed with this result, which it returns. An error is a failure. */
static inline char *output_end(struct output *out, char *wrong, int *status)
{
	wrong = output_close(out, wrong);
	*status = wrong ? EXIT_FAILED : EXIT_OK;
	return wrong;
}

/* NULL = no error. */
static inline void complain_if(char *wrong)
{
	if (wrong)
		complain(wrong);
}

static inline const char *plural(int64_t n)
{
	return n == 1 ? "" : "s";
}

struct store {
	sqlite3 *db;                 /* NULL = STORE_LATER, and no run has begun */
	char *path;                  /* as the user gave it */
	int64_t run;                 /* the run that the sink writes, 0 = none */
	int64_t begun;               /* the newest run that it began, 0 = none */
	double cost_before[3];       /* simulated_s, wall_s, events of run until it was resumed */
	struct heartbeat *heartbeat; /* of run; NULL = none */
	nsec until;                  /* time limit of a query; 0 = none */
	double lock_wait_s;          /* how long it waits for another's lock; at least 3 s */
	struct timespec lock_since;  /* the start of that wait */
	bool said_lock;              /* has printed that it waits */
	bool makes;                  /* a missing file */
	struct status_page *page; /* gets the owner of a run that begins; NULL = no one reads it */
	/* Called for each epoch that the sink gets; NULL = nothing to call. */
	void (*on_epoch)(void *ctx, const struct epoch_row *row);
	void *on_epoch_ctx;
};

/* A sentence about a failed call on s->db that says what to do. */
char *database_error(const struct store *s, int rc);

const char *database_schema(void); /* the statements that make the tables and views */
struct topics;
void table_topics(struct topics *l); /* help on them: a topic_source */

/* Is `where` one SQL condition on the columns of run_summary? "" is one. NULL or a sentence. */
char *database_condition(struct store *s, const char *where);
/* The columns of run_summary, indented, in lines. */
void database_columns(struct store *s, FILE *f);
/* Executes `what`, the text of a statement up to its WHERE, on the rows of run_summary that fulfil
 * the condition and have the label ("" = all). NULL or a sentence. */
char *database_selected(struct store *s, const char *what, const char *where, const char *label);
/* NULL, or a sentence: no run has this label ("" = any). The three below call it. */
char *label_check(struct store *s, const char *label);
/* Makes the temporary table listed (id) of these runs. */
char *database_list(struct store *s, const char *where, const char *label);
/* Restricts statistics to some runs: on this connection run_summary becomes a table of the runs
 * that fulfil the condition and have the label ("" = all), and finished, configuration_summary,
 * compared and comparison are made of these alone. busy: seconds of an epoch are over all epochs,
 * also those in which workers had less than CORES_SHARE_LEAST of their cores. The file itself is
 * only read. NULL or a sentence. */
char *database_choose(struct store *s, const char *where, const char *label, bool busy);
/* The same in two steps: makes the table run_summary; makes the statistics, after the caller has
 * changed it. They group runs by config_key, as the caller has written it. */
char *database_take(struct store *s, const char *where, const char *label, bool busy);
char *database_summarise(struct store *s);

/* WRITE makes a missing file; LATER makes it when the first run begins; CHANGE makes none: a
 * missing one was moved. */
enum store_mode { STORE_READ, STORE_WRITE, STORE_LATER, STORE_CHANGE };

/* NULL or a sentence: missing (READ), read-only, newer schema, locked, not a database, disk full.
 * Older schemas migrate (WRITE). WRITE marks `running` rows of dead processes as failed. */
char *store_open(struct store **out, const char *path, enum store_mode mode);
/* The same for a run or a sweep, which waits for another process's lock almost as long as its
 * --stall-timeout, to open the file and to write its results; 0: without end. */
char *store_open_for(struct store **out, const struct config *c, enum store_mode mode);
char *store_begin(struct store *s); /* of LATER: opens it to write, unless it is open */
void store_close(struct store *s);  /* NULL is fine */
/* Closed where its block ends: struct store *s AUTOCLOSE = NULL; */
static inline void store_autoclose(struct store **s)
{
	store_close(*s);
}
#define AUTOCLOSE ENDS_WITH(store_autoclose)
/* Computes the figures of ended runs that have none yet (table run_kept), as store_open(WRITE)
 * does, for callers that add such runs themselves. NULL or a sentence. */
char *store_keep(struct store *s);
/* Could store_open(WRITE) succeed? Writes nothing, makes no file. NULL or a sentence. */
char *store_check(const char *path);
/* Is this a results database, of this version or an older one? NULL or a sentence. */
char *store_probe(const char *path);

/* The sink that writes runs into s; one run at a time. */
struct sink store_sink(struct store *s);

/* The newest run of this cell: its status and reason into the buffers ("" = none).
 * Returns its id, 0 for none. */
int64_t store_cell(struct store *s, const char *config_hash, char status[16], char reason[256]);
/* Makes a `pending` row for a cell. store_sink's begin takes over the oldest pending row of its
 * hash, those that its sweep has claimed first, but no row that another process has claimed. *id:
 * that of an existing row; 0 = none, and gets the id of the new one. round and seed are of the
 * sweep's shuffle; round 0 = not shuffled. */
char *store_pend(struct store *s, const struct config *c, int64_t *id, int64_t round, int64_t seed);
/* Claims the cell of this pending row for this process, before it is run, because another sweep may
 * have it too. *mine: claimed; otherwise *owner (heap) runs it, NULL = it has ended. */
char *store_claim(struct store *s, int64_t id, bool *mine, char **owner);
char *store_owner(struct store *s, int64_t id, char **owner); /* the same without a claim */
/* This process as the rows of its runs have it: number and name. Heap. Workers of a sweep find the
 * sweep's in MVBENCH_CLAIM. */
char *process_owner(void);
/* *n: runs whose process runs them or is about to begin: on this host a process that exists,
 * elsewhere one with a recent heartbeat. NULL or a sentence. */
char *store_count_live(struct store *s, int64_t *n);
/* Marks a run that is still `running` as failed (its process is gone or never began), if its row is
 * this owner's (process_owner): the recording process; NULL = this one. */
char *store_fail(struct store *s, int64_t id, const char *owner, const char *reason);

enum format { FORMAT_TEXT, FORMAT_MARKDOWN, FORMAT_CSV, FORMAT_JSON, FORMAT_LATEX };
enum format format_of(const char *name); /* "text", "markdown", "csv" or "json" */

/* Runs one SELECT with `count` text parameters (?1, ?2, ...) and prints the rows: an aligned table,
 * markdown, RFC 4180 CSV, or one JSON object a row. NULL or a sentence. rows may be NULL. */
char *query_print(struct store *s, FILE *f, enum format format, const char *sql,
		  const char *const *param, size_t count, int64_t *rows);
/* One JSON object for each run, as `run --format=json` promises. */
char *query_run_json(struct store *s, FILE *f, int64_t id);

/* ---- SQL (sql.c). types, a letter for each parameter: i int64_t, n the same (NULL below 0), r
 * double (NULL unless finite), t text. A statement may have the comment MEDIANS: see median.sql.
 * ---- */

char *sql_medians(const char *sql); /* with the text of median.sql in its place. Heap. */

/* A running statement:
 *	struct sql q = sql_select(s, "SELECT a, b FROM c WHERE d = ?1", "i", d);
 *	while (sql_next(&q))
 *		... sql_int(&q, 0), sql_text(&q, 1) ...
 *	wrong = sql_done(&q);
 * An error ends the rows; sql_done returns it as a sentence. */
struct sql {
	sqlite3_stmt *stmt;
	struct store *store;
	int rc;
};
struct sql sql_select(struct store *s, const char *sql, const char *types, ...);
/* Restarts it with other values from this parameter (1, ...) on; the other parameters keep theirs.
 */
void sql_set(struct sql *q, int parameter, const char *types, ...);
#define sql_again(q, ...) sql_set(q, 1, __VA_ARGS__)
bool sql_next(struct sql *q);                             /* is there another row? */
bool sql_well(const struct sql *q);                       /* no error so far */
int sql_parameter(const struct sql *q, const char *name); /* its number */
char *sql_done(struct sql *q);                            /* frees it. NULL or a sentence */
/* Freed where its block ends, at the latest: struct sql q AUTODONE = sql_select(...); */
static inline void sql_autodone(struct sql *q)
{
	free(sql_done(q));
}
#define AUTODONE ENDS_WITH(sql_autodone)
const char *sql_refused(const struct sql *q);          /* before sql_done: NULL, or SQLite's text */
int64_t sql_int(const struct sql *q, int column);      /* of this row; 0 for NULL */
double sql_real(const struct sql *q, int column);      /* NaN where there is no number */
const char *sql_text(const struct sql *q, int column); /* until the next row; "" for NULL */
char *sql_copy(const struct sql *q, int column);       /* the same, on the heap */
bool sql_null(const struct sql *q, int column);
bool sql_is_text(const struct sql *q, int column);
int sql_columns(const struct sql *q);
const char *sql_name(const struct sql *q, int column); /* of a column */
/* Runs one or more statements and ignores their rows; each gets all parameters, and uses those that
 * it names. NULL or a sentence. */
char *sql_change(struct store *s, const char *sql, const char *types, ...);
char *sql_script(struct store *s, const char *sql); /* the same, without parameters */
/* Prepares the first of several statements, and moves *sql past it; stmt is NULL if none is left.
 */
struct sql sql_part(struct store *s, const char **sql);
/* The first column of the first row; 0 if there is none. NULL or a sentence. */
char *sql_number(struct store *s, int64_t *x, const char *sql, const char *types, ...);
/* The first n columns of the first row; NaN where there is no number. NULL or a sentence. */
char *sql_reals(struct store *s, double *x, int n, const char *sql, const char *types, ...);
/* The first column of the first row as text (heap); NULL if there is none. NULL or a sentence. */
char *sql_first(struct store *s, char **text, const char *sql, const char *types, ...);
/* sql_begin begins a transaction. sql_end commits it, or rolls it back if `wrong` is an error,
 * which it returns. */
char *sql_begin(struct store *s);
char *sql_end(struct store *s, char *wrong);
struct store *sql_memory(void); /* a database of its own, for store_close or sql_forget */
struct store *sql_schema(void); /* the same, with an empty store's tables and views */
void sql_forget(struct store **s);

/* ---- Settings and commands (words.c) ---- */

/* Settings of a configuration; later ones override earlier ones. */
struct settings {
	struct setting *setting;
	size_t n;
};
void settings_add(struct settings *all, char *name, char *value);       /* takes both over */
void settings_add_word(struct settings *all, const char *word);         /* --NAME=VALUE */
void settings_add_config(struct settings *all, const struct config *c); /* those of c's words */
void settings_give(struct settings *all, const struct setting *given, size_t n); /* copies them */
void settings_free(struct settings *all);

/* The shortest command that runs c: values that differ from defaults, and options that are always
 * shown. cell: of any seed, into any database. Heap. */
char *command_of(const struct config *c, bool cell);

/* ---- Files (files.c) ---- */

/* Copies the last consistent state of a database, also while another process writes it, to an empty
 * file. Running runs have no process in the copy: this machine does not check them. NULL or a
 * sentence. */
char *database_copy(const char *from, const char *to);
void database_remove(const char *path); /* with SQLite's files next to it */

/* ---- Recorded runs as configurations again (recorded.c) ---- */

/* *id: the run whose number the word is. NULL, or a sentence: there is none. */
char *run_number(struct store *s, const char *word, int64_t *id);

/* All settings in the rows of a run, and its config_hash. NULL, or a sentence: there is no such
 * run. */
char *recorded_settings(struct store *s, int64_t id, struct settings *all, char hash[17]);

/* The configuration of run `id`, from its rows. NULL, or a sentence: there is no such run, or this
 * program does not know its strategy, workload or options. exact: its config_hash equals that of
 * the row. */
char *recorded_config(struct store *s, int64_t id, struct config *c, bool *exact);
/* The command that repeats it: words quoted for a POSIX shell, without defaults. Heap. */
char *recorded_command(struct store *s, int64_t id, char **command, bool *exact);

#endif
