/*
 * stall.h - ranks that make no progress: they are reported after some seconds and end the run after
 * its timeout. The watcher of a run (runtime/launch) polls the pulses once a second. Without one,
 * the ranks of a machine do so themselves (runtime/comm/lookout.c).
 */
#ifndef STALL_H
#define STALL_H

#include "runtime/base/base.h"

#include <sys/types.h>

/* A rank's pulse, and when this process last saw it change. */
struct seen {
	int64_t beat, events;
	nsec lived, got_on, stopped; /* stopped: start of the stop; 0 = runs */
	nsec longest;                /* longest time between two progresses */
	char *named;                 /* the name it was reported under as stalled; NULL = was not */
};

struct stall {
	int ranks;
	const struct pulse *pulse; /* [ranks] */
	double timeout_s;          /* a longer stall ends the run; 0: never */
	const char *setting;       /* the user's name for this timeout */
	bool programs;  /* a user's program, which computes between calls: see stall.c. Then: */
	int workers;    /* ranks below this are workers; the others only serve */
	bool elsewhere; /* some ranks cannot be seen from here */
	/* A rank's process id on this machine; -1: ended; 0: not known. far: on another machine. */
	pid_t (*process)(const void *self, int rank, bool *far);
	char *(*name)(const void *self, int rank); /* heap */
	void (*end)(void *self, char *why);        /* why: heap, the callee frees it */
	void *self;

	struct seen *seen; /* [ranks] */
	nsec looked;
	bool over; /* end has been called */
};

void stall_open(struct stall *s); /* call after setting the fields above */
void stall_close(struct stall *s);
/* Call it at least once a second. computing: ranks that compute must make progress too; silent:
 * report no rank now. */
void stall_poll(struct stall *s, bool computing, bool silent);
bool process_is_stopped(pid_t pid); /* by a signal, or a debugger */

#endif
