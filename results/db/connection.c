/*
 * connection.c - a connection to a database file: its limits, and what its errors mean.
 */
#include "results/db/store.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
	OPEN_WAIT_S = 3, /* for another process's lock, unless store_open_for opens the file */
	GOES_ON_STEPS = 1000000 /* of SQLite's virtual machine, from one poll to the next */
};

double database_patience_s(void)
{
	const char *text = getenv(QUERY_TIMEOUT);
	double s = text ? atof(text) : 0;
	return s > 0 && s < 1e9 ? s : 60;
}

/* ---- Sentences ----------------------------------------------------------- */

#define LOCKED \
	" is locked by another process: wait until that one is done, or end it (an sqlite3 shell " \
	"inside a transaction, for instance)"

/* What is wrong with the file, by SQLite's code; the path is put before. */
static const struct {
	int code;
	const char *says;
} errors[] = {
	{SQLITE_BUSY, LOCKED},
	{SQLITE_LOCKED, LOCKED},
	{SQLITE_FULL, " cannot grow, the disk is full: make room and start the run again; earlier "
		      "results are kept"},
	{SQLITE_READONLY, " cannot be written: make it and its folder writable, or name another "
			  "file with --db"},
	{SQLITE_NOTADB, " is not a results database: name another file with --db"},
	{SQLITE_CORRUPT, " is damaged: save what can be read with `sqlite3 FILE .recover`, or name "
			 "another file with --db"},
	{SQLITE_CANTOPEN, " cannot be opened: check the permissions of the file and its folder, or "
			  "name another file with --db"},
};

char *database_error(const struct store *s, int rc)
{
	int code = rc & 0xff, error = code == SQLITE_IOERR ? sqlite3_system_errno(s->db) : 0;
	code = error == ENOSPC ? SQLITE_FULL : code;
	for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
		if (errors[i].code == code)
			return sentence("%s%s", s->path, errors[i].says);
	if (code == SQLITE_INTERRUPT)
		return s->until ? sentence(QUERY_ENDED, s->path, database_patience_s())
				: sentence("%s: the query was interrupted", s->path);
	if (code == SQLITE_IOERR)
		return sentence("%s: reading or writing failed (%s): check the disk, or name "
				"another file with --db",
				s->path, strerror(error ? error : EIO));
	if (rc == SQLITE_CONSTRAINT_FOREIGNKEY)
		return sentence("%s: the row of this run was deleted while it ran", s->path);
	return sentence("%s: the database refused: %s", s->path, sqlite3_errmsg(s->db));
}

/* ---- The connection ------------------------------------------------------- */

int database_wait(void *self, int waits)
{
	enum { POLL_MS = 20 };
	struct store *s = self;
	struct timespec now; /* not clock_now, which stands still in a simulation */
	clock_gettime(CLOCK_MONOTONIC, &now);
	if (waits == 0)
		s->lock_since = now;
	double waited = (double)(now.tv_sec - s->lock_since.tv_sec) +
			1e-9 * (double)(now.tv_nsec - s->lock_since.tv_nsec);
	double most = fmax(s->lock_wait_s, OPEN_WAIT_S);
	if (end_is_requested()) /* what a run has is still recorded if the lock is a short one */
		most = s->run ? OPEN_WAIT_S : 0;
	if (waited >= most)
		return 0;
	if (waited > OPEN_WAIT_S && !s->said_lock) {
		fprintf(stderr, "mvbench: %s is locked by another process: waiting ", s->path);
		if (isinf(most))
			fputs("until it is free (--stall-timeout=0)\n", stderr);
		else
			fprintf(stderr, "for up to %.0f s\n", most);
		s->said_lock = true;
	}
	sqlite3_sleep(POLL_MS);
	return 1;
}

/* Interrupts a long query when the process is told to end, although signals wait for a run's end,
 * and at its time limit. */
static int must_stop(void *self)
{
	const struct store *s = self;
	return end_is_requested() || (s->until && clock_now() > s->until);
}

/* The SQL in a file is not trusted: anyone can have written it. Views and triggers are those of
 * this program, word for word (migrate.c). SQLite's own switch for them would refuse the JSON
 * functions in them. */
int database_open(struct store *s, int flags, const char *name)
{
	int rc = sqlite3_open_v2(name, &s->db, flags, NULL);
	if (rc != SQLITE_OK)
		return rc;
	sqlite3_extended_result_codes(s->db, 1);
	sqlite3_db_config(s->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_limit(s->db, SQLITE_LIMIT_LENGTH, 1 << 28);
	sqlite3_progress_handler(s->db, GOES_ON_STEPS, must_stop, s);
	sqlite3_busy_handler(s->db, database_wait, s);
	/* This is the first access: opening alone reads nothing. */
	return sqlite3_exec(s->db,
			    "PRAGMA foreign_keys = ON; PRAGMA synchronous = NORMAL;"
			    "SELECT count(*) FROM sqlite_master",
			    NULL, NULL, NULL);
}
