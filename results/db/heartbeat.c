/*
 * heartbeat.c - the heartbeat of a run, by which other machines know that it is running. A thread
 * of the process that records writes the time, also while the run waits. It has its own connection,
 * which stays open: another file may come to the path.
 *
 * A lost heartbeat does no harm, so nothing is synced. Therefore this connection never copies the
 * write-ahead log into the database: the log would be overwritten before the copy is on the disk.
 */
#include "results/db/store.h"

#include <errno.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct heartbeat {
	pthread_t thread;
	sem_t over;
	int64_t run;
	int seconds;
	char *process;
	struct store own;
};

/* Reading the version opens the file and its log, but does not parse the schema. That takes 10 ms,
 * and short runs end before the first heartbeat. */
static bool open_own(struct heartbeat *h, const char *path)
{
	sqlite3 **db = &h->own.db;
	return sqlite3_open_v2(path, db, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK &&
	       sqlite3_busy_timeout(*db, 1000) == SQLITE_OK &&
	       sqlite3_wal_autocheckpoint(*db, 0) == SQLITE_OK &&
	       sqlite3_exec(*db, "PRAGMA user_version", NULL, NULL, NULL) == SQLITE_OK;
}

/* Ignores a failed write: the next one can succeed. */
static void write_heartbeat(struct heartbeat *h)
{
	int moved = 0;
	sqlite3_file_control(h->own.db, "main", SQLITE_FCNTL_HAS_MOVED, &moved);
	if (!moved &&
	    sqlite3_exec(h->own.db, "PRAGMA synchronous = OFF", NULL, NULL, NULL) == SQLITE_OK)
		free(sql_change(&h->own,
				"UPDATE run SET heartbeat = strftime('%Y-%m-%dT%H:%M:%SZ', 'now') "
				"WHERE id = ?1 AND status = 'running' AND process IS ?2",
				"it", h->run, h->process));
}

static void *life(void *self)
{
	struct heartbeat *h = self;
	struct timespec next;
	clock_gettime(CLOCK_MONOTONIC, &next);
	next.tv_sec += h->seconds;
	while (sem_clockwait(&h->over, CLOCK_MONOTONIC, &next) != 0)
		if (errno == ETIMEDOUT) {
			write_heartbeat(h);
			next.tv_sec += h->seconds;
		}
	return NULL;
}

static void forget(struct store *s)
{
	sem_destroy(&s->heartbeat->over);
	sqlite3_close(s->heartbeat->own.db);
	free(s->heartbeat->process);
	free(s->heartbeat);
	s->heartbeat = NULL;
}

void heartbeat_start(struct store *s, int seconds)
{
	struct heartbeat *h = must(calloc(1, sizeof *h));
	h->run = s->run;
	h->seconds = seconds;
	h->own.path = s->path;
	h->process = process_name(getpid());
	sem_init(&h->over, 0, 0);
	s->heartbeat = h;
	if (!open_own(h, s->path) || !thread_start(&h->thread, life, h)) /* no heartbeat then */
		forget(s);
}

void heartbeat_stop(struct store *s)
{
	if (!s->heartbeat)
		return;
	sem_post(&s->heartbeat->over);
	pthread_join(s->heartbeat->thread, NULL);
	forget(s);
}
