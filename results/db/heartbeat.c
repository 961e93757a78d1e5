/*
 * heartbeat.c - the heartbeat of a run, by which other machines know that it is running. A thread
 * of the process that records writes the time, also while the run waits. It has its own connection
 * for each write.
 */
#include "results/db/store.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

struct heartbeat {
	pthread_t thread;
	pthread_mutex_t mutex;
	pthread_cond_t over_now;
	bool over;
	int64_t run;
	int seconds;
	char *path;
};

/* Ignores a failed write: the next one can succeed. */
static void write_heartbeat(const struct heartbeat *h)
{
	static const char sql[] = "UPDATE run SET heartbeat = strftime('%Y-%m-%dT%H:%M:%SZ', "
				  "'now') WHERE id = ?1 AND status = 'running'";
	sqlite3 *db = NULL;
	sqlite3_stmt *stmt = NULL;
	if (sqlite3_open_v2(h->path, &db, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK &&
	    sqlite3_busy_timeout(db, 1000) == SQLITE_OK &&
	    sqlite3_exec(db, "PRAGMA synchronous = OFF", NULL, NULL, NULL) == SQLITE_OK &&
	    sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) == SQLITE_OK &&
	    sqlite3_bind_int64(stmt, 1, h->run) == SQLITE_OK)
		sqlite3_step(stmt);
	sqlite3_finalize(stmt);
	sqlite3_close(db);
}

static void *life(void *self)
{
	struct heartbeat *h = self;
	struct timespec next;
	clock_gettime(CLOCK_MONOTONIC, &next);
	pthread_mutex_lock(&h->mutex);
	while (!h->over) {
		next.tv_sec += h->seconds;
		while (!h->over && pthread_cond_timedwait(&h->over_now, &h->mutex, &next) == 0)
			;
		bool over = h->over;
		pthread_mutex_unlock(&h->mutex);
		if (!over)
			write_heartbeat(h);
		pthread_mutex_lock(&h->mutex);
	}
	pthread_mutex_unlock(&h->mutex);
	return NULL;
}

static void forget(struct store *s)
{
	struct heartbeat *h = s->heartbeat;
	pthread_cond_destroy(&h->over_now);
	pthread_mutex_destroy(&h->mutex);
	free(h->path);
	free(h);
	s->heartbeat = NULL;
}

void heartbeat_start(struct store *s, int seconds)
{
	struct heartbeat *h = must(calloc(1, sizeof *h));
	pthread_condattr_t attr;
	h->run = s->run;
	h->seconds = seconds;
	h->path = must(strdup(s->path));
	pthread_mutex_init(&h->mutex, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&h->over_now, &attr);
	pthread_condattr_destroy(&attr);
	s->heartbeat = h;
	if (!thread_start(&h->thread, life, h)) /* the run has no heartbeat then */
		forget(s);
}

void heartbeat_stop(struct store *s)
{
	struct heartbeat *h = s->heartbeat;
	if (!h)
		return;
	pthread_mutex_lock(&h->mutex);
	h->over = true;
	pthread_cond_signal(&h->over_now);
	pthread_mutex_unlock(&h->mutex);
	pthread_join(h->thread, NULL);
	forget(s);
}
