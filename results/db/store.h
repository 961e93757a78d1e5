/*
 * store.h - what the files of the store share: open.c opens files, migrate.c makes their tables and
 * views, runs.c writes the rows of runs, sink.c writes what a run reports.
 */
#ifndef STORE_H
#define STORE_H

#include "results/db/db.h"

enum {
	SCHEMA_VERSION = 21,         /* run_options.def does not change it */
	OLDEST_VERSION = 16,         /* of files that are brought to this version */
	APPLICATION_ID = 0x6d76626e, /* "mvbn" */
	HEARTBEAT_S = 30,            /* from one heartbeat of a run to the next [s] */
	SILENCE_S = 300,             /* without a heartbeat, a run elsewhere counts as ended [s] */
};

/* Each: NULL or a sentence. */

/* Reads the version of the file. whole: it has all tables, views and columns of this program. */
char *store_version(struct store *s, int64_t *version, bool *whole, bool *tables);
/* Is it a supported version of this application? tables: has the file tables? */
char *store_check_version(const char *path, int64_t application, int64_t version, bool tables);
/* How long a query with --where may take: the variable, or 60 s. */
#define QUERY_TIMEOUT "MVBENCH_QUERY_TIMEOUT"
double database_patience_s(void);
#define QUERY_ENDED "%s: the query was ended after %g s (" QUERY_TIMEOUT ")"
/* Opens s->db, with the limits that hold for a file that anyone can have written. Returns SQLite's
 * code. */
int database_open(struct store *s, int flags, const char *name);
/* Called by SQLite while another process has a lock. waits: how often before, for this lock.
 * Returns 0 to give up. */
int database_wait(void *self, int waits);
/* If the file at the path is no longer the open one: completes the open one from the files next to
 * its old name, and leaves those there, because another database may have that name. */
void store_part(struct store *s);
/* Copies a whole database into another open one. Returns SQLite's code. */
int database_backup(sqlite3 *from, sqlite3 *to);
/* Makes what is missing, unless another process has made it meanwhile. */
char *store_migrate(struct store *s);

/* The name of a process, which no other has had or will have; heap; NULL: not known. */
char *process_name(int64_t pid);
/* Is the run still this process's, in the file at the path? Called in each transaction that writes
 * results. */
char *runs_own(struct store *s, int64_t id);
/* Marks as failed: `running` rows whose process is gone, and those elsewhere without a heartbeat.
 */
char *runs_mark_failed(struct store *s);
/* The pending row of this cell that this process may begin: id, sweep_round, sweep_seed; NaN: there
 * is none. resumes: a run that resumes has a row already. */
char *runs_pending(struct store *s, const char *config_hash, bool resumes, double found[3]);
/* Writes the heartbeat of s->run from a thread, until it is stopped. */
void heartbeat_start(struct store *s, int seconds); /* from one to the next */
void heartbeat_stop(struct store *s);               /* also if there is none */
/* Returns c; if the user's launcher placed the ranks, with this placement. Shares c's memory. */
struct config runs_placed(const struct config *c, const struct experiment *e);
/* Adds a row for this configuration. e NULL = pending; *id 0 = a new id. */
char *runs_insert(struct store *s, const struct config *c, const struct experiment *e, int64_t *id);

/* Resumes an interrupted run in its own row, and deletes its epochs after e->epoch. */
char *runs_resume(struct store *s, const struct experiment *e, int64_t *id);

#endif
