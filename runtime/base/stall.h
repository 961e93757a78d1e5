/*
 * stall.h - ranks that make no progress: they are reported after some seconds and end the run after
 * its timeout. The watcher of a run (runtime/launch) polls the pulses once a second. Without one,
 * the ranks do so themselves (runtime/comm/lookout.c).
 */
#ifndef STALL_H
#define STALL_H

#include "runtime/base/base.h"

#include <sys/types.h>

enum { STALL_NAMED_S = 8 }; /* a stall is reported within 10 s, polling included */

/* A rank's pulse, and when this process last saw it change. */
struct seen {
	int64_t beat, events;
	nsec lived, got_on, stopped; /* stopped: start of the stop; 0 = runs */
	nsec cpu;                    /* that its process has used, while it starts or loads */
	bool computes;               /* at the last poll it computed, and not to start or load */
	nsec computed;               /* longest time that it computed between two progresses */
	char *named;                 /* the name it was reported under as stalled; NULL = was not */
};

/* In place of a process id on this machine. FAR: the rank is on another machine; UNSEEN: also, and
 * it has not reported yet. */
enum { PROCESS_UNKNOWN = 0, PROCESS_FAR = -1, PROCESS_ENDED = -2, PROCESS_UNSEEN = -3 };

struct stall {
	int ranks;
	const struct pulse *pulse; /* [ranks] */
	double timeout_s;          /* a longer stall ends the run; 0: never */
	const char *setting;       /* the user's name for this timeout */
	bool programs;  /* a user's program, which computes between calls: see stall.c. Then: */
	int workers;    /* ranks below this are workers; the others only serve */
	pid_t launcher; /* mpirun, which may be stopped as well; 0: none */
	pid_t (*process)(const void *self, int rank); /* a rank's, or one of the above */
	char *(*name)(const void *self, int rank);    /* heap */
	void (*end)(void *self, char *why);           /* why: heap, the callee frees it */
	void *self;

	struct seen *seen; /* [ranks + 1]; the last is the launcher */
	nsec looked;
	bool over; /* end has been called */
};

void stall_open(struct stall *s); /* call after setting the fields above */
void stall_close(struct stall *s);
/* Call it at least once a second. silent: report no rank now. */
void stall_poll(struct stall *s, bool silent);
/* By a signal, or a debugger? *cpu: the time that it has used; NULL: not wanted. */
bool process_is_stopped(pid_t pid, nsec *cpu);

#endif
