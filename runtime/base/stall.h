/*
 * stall.h - ranks that make no progress: named after some seconds, and the end of the run after its
 * timeout. Who sees the pulses of several ranks looks at them once a second: the watcher of a run
 * (runtime/launch), and where there is none the ranks of a machine themselves
 * (runtime/comm/lookout.c).
 */
#ifndef STALL_H
#define STALL_H

#include "runtime/base/base.h"

#include <sys/types.h>

/* Of a rank's pulse, when this process last saw it change. */
struct seen {
	int64_t beat, events;
	nsec lived, got_on, stopped; /* stopped: since when it is; 0 = it is not */
	nsec longest;                /* that it took to get on */
	char *named;                 /* as one that makes no progress, by this name; NULL = not */
};

struct stall {
	int ranks;
	const struct pulse *pulse; /* [ranks] */
	double timeout_s;          /* then the run ends; 0: it goes on */
	const char *setting;       /* what that is called */
	bool programs;  /* what they do between two calls is theirs: see stall.c. Then: */
	int workers;    /* the first ones; the others serve, and wait for nobody */
	bool elsewhere; /* there are ranks that are not seen here */
	/* A rank's process if it is on this machine, -1: it has ended, 0: not known; far: it is on
	 * another one. */
	pid_t (*process)(const void *self, int rank, bool *far);
	char *(*name)(const void *self, int rank); /* heap */
	void (*end)(void *self, char *why);        /* why: heap, for it to free */
	void *self;

	struct seen *seen; /* [ranks] */
	nsec looked;
	bool over; /* it has been told to end */
};

void stall_open(struct stall *s); /* after the above is set */
void stall_close(struct stall *s);
/* To be called at least once a second. computing: ranks that compute are expected to get on;
 * silent: nobody is named now. */
void stall_look(struct stall *s, bool computing, bool silent);
bool process_is_stopped(pid_t pid); /* by a signal, or a debugger */

#endif
