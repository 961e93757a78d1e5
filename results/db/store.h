/*
 * store.h - what the files of the store share: open.c opens files, migrate.c makes tables and views
 * in them, runs.c writes the rows of runs, sink.c what a run under way hands over.
 */
#ifndef STORE_H
#define STORE_H

#include "results/db/db.h"

enum {
	SCHEMA_VERSION = 14, /* as tables.sql says; rises with what run_options.def does not make */
	APPLICATION_ID = 0x6d76626e, /* "mvbn" */
	HEARTBEAT_S = 30,            /* from one sign of life of a run to the next [s] */
	SILENCE_S = 300,             /* after so long without, what runs elsewhere is dead [s] */
	QUERY_LIMIT_S = 60,          /* of what a user asks for with --where [s] */
};

/* Each: NULL or a sentence. */

/* The version of the file. whole: it has all tables, views and columns of this program. */
char *store_version(struct store *s, int64_t *version, bool *whole, bool *tables);
/* Is this a version, or another application's file? tables: has it any? */
char *store_check_version(const char *path, int64_t application, int64_t version, bool tables);
/* All of a database into another that is open; SQLite's code. */
int database_backup(sqlite3 *from, sqlite3 *to);
/* Makes what is missing, unless another process has done so meanwhile. */
char *store_migrate(struct store *s);

/* Marks `running` rows of this host without a process, and of others without a sign of life. */
char *runs_bury_dead(struct store *s);
/* Signs of life of s->run, by a thread of its own, until they are stopped. */
void heartbeat_start(struct store *s, int seconds); /* from one to the next */
void heartbeat_stop(struct store *s);               /* also where there are none */
/* c, and where a launcher of the user's has dealt the ranks, how. Shares c's memory. */
struct config runs_placed(const struct config *c, const struct experiment *e);
/* Adds a row for this configuration; e NULL = pending; *id 0 = a new one. */
char *runs_insert(struct store *s, const struct config *c, const struct experiment *e, int64_t *id);

/* A run that was interrupted goes on in its own row, whose epochs after e->epoch are forgotten. */
char *runs_resume(struct store *s, const struct experiment *e, int64_t *id);

char *store_begin(
	struct store *s); /* opens a store that is to be opened when its first run begins */

/* "SQL with a marker", "the marker", "what stands there instead": all of them; heap. */
char *text_replaced(const char *text, const char *what, const char *by);

#endif
