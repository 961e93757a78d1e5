/*
 * heartbeat.c - the heartbeat of a run, by which other machines know that it is running. A thread
 * of the process that records writes the time, also while the run waits. It has its own connection
 * for each write.
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
	char *path, *process;
};

/* Ignores a failed write: the next one can succeed. */
static void write_heartbeat(const struct heartbeat *h)
{
	struct store own = {.path = h->path};
	if (sqlite3_open_v2(h->path, &own.db, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK &&
	    sqlite3_busy_timeout(own.db, 1000) == SQLITE_OK)
		free(sql_change(&own,
				"PRAGMA synchronous = OFF;"
				"UPDATE run SET heartbeat = strftime('%Y-%m-%dT%H:%M:%SZ', 'now') "
				"WHERE id = ?1 AND status = 'running' AND process IS ?2",
				"it", h->run, h->process));
	sqlite3_close(own.db);
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
	free(s->heartbeat->path);
	free(s->heartbeat->process);
	free(s->heartbeat);
	s->heartbeat = NULL;
}

void heartbeat_start(struct store *s, int seconds)
{
	struct heartbeat *h = must(calloc(1, sizeof *h));
	h->run = s->run;
	h->seconds = seconds;
	h->path = must(strdup(s->path));
	h->process = process_name(getpid());
	sem_init(&h->over, 0, 0);
	s->heartbeat = h;
	if (!thread_start(&h->thread, life, h)) /* the run has no heartbeat then */
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
