/*
 * watch.h - who looks after the ranks of a run: the status page that they share with a watcher, its
 * copies on other machines, and the detection of ranks that make no progress.
 */
#ifndef WATCH_H
#define WATCH_H

#include "runtime/world/world.h"

#include <sys/types.h>

/* ---- The status page (page.c) ---- */

/* The newest rows: a run of any length needs no more memory. ROW_WORDS: of a row. */
enum { PAGE_ROWS = 512, ROW_WORDS = 40 };

/* Shared by the workers and the watching process: plain stores, no system call. Rank 0 writes
 * everything except the pulses. */
struct status_page {
	int64_t magic;         /* identifies the run */
	int64_t ranks, epochs; /* numbers of pulses, and of rows until the end, without epoch 0 */
	volatile int64_t id;   /* of the run's row in the database, 0 = not begun; then: */
	char owner[128];       /* of that row: the process that records (process_owner) */
	int64_t file;          /* inode of the database */
	volatile int64_t step, steps, epoch;
	volatile int64_t rows; /* so far; status_row has the newest */
	volatile int state;    /* enum run_state */
	volatile int status;   /* exit status, once ended */
	char reason[512];      /* why the status is not 0 */
	bool interrupted;      /* from outside; the run may still have ended by itself */
	bool simulated;        /* then, once ended, with its cost: */
	struct world_cost cost;
	char described[400]; /* of a simulation: world_describe */
	struct {
		int64_t first; /* epoch of the first row */
		int64_t dropped;
		double seconds, delay_s; /* delay_s: ready to run but without a core */
	} sum;                           /* of all rows so far */
	uint64_t row[][ROW_WORDS];       /* see runtime/train/rows.h */
};
enum run_state {
	STATUS_STARTING,
	STATUS_LOADING,
	STATUS_TRAINING,
	STATUS_EVALUATING,
	STATUS_ENDED
};

/* Makes a page in a file that a launcher's children can find: in this folder (NULL: /dev/shm), or
 * else in /tmp or here. path gets the file's name. NULL: failed. */
struct status_page *status_new(int64_t epochs, int64_t ranks, const char *folder,
			       char path[PATH_MAX]);
/* Row i of those so far, from 0; it is there while i >= rows - PAGE_ROWS. */
void *status_row(const struct status_page *l, int64_t i);
size_t status_bytes(const struct status_page *l); /* total size */
struct pulse *status_pulse(struct status_page *l, int rank);
/* Marks the end: readers that see STATUS_ENDED see status and reason too. */
void status_end(struct status_page *l, int status, const char *reason);
/* The page that this value of status_variable describes; NULL: it is not on this machine. */
struct status_page *status_find(const char *variable);
/* The path in such a value; head gets its numbers. NULL: invalid. */
const char *status_described(const char *variable, struct status_page *head);
/* The value of STATUS_VARIABLE for a page; heap. */
char *status_variable(const struct status_page *l, const char *path);
#define STATUS_MAGIC    INT64_C(0x6d7662656e636873)
#define STATUS_VARIABLE "MVBENCH_STATUS_PAGE"

/* ---- The page wherever the watcher is (far.c) ---- */

/* The page of this worker's launcher. If that is on another machine: a copy, one a process, whose
 * changes it gets. NULL: launch did not start this process through mpirun. */
struct status_page *status_of_launcher(void);
void status_free(struct status_page *l); /* such a copy stays */
/* In the watcher: copies such a change from a line of a worker's stderr into the page. false: the
 * line is something else. */
bool status_hear(struct status_page *l, const char *line);
#define STATUS_LINE "\036mvbench-page"

/* ---- Ranks that make no progress (stall.c) ----
 *
 * They are reported after some seconds and end the run after its timeout. The watcher of a run
 * (runtime/launch) polls the pulses once a second. Without one, the ranks do so themselves
 * (lookout.c). */

enum { STALL_NAMED_S = 8 }; /* a stall is reported within 10 s, polling included */

/* A rank's pulse, and when this process last saw it change. */
struct rank_seen {
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

	struct rank_seen *seen; /* [ranks + 1]; the last is the launcher */
	nsec looked;
	bool over; /* end has been called */
};

void stall_open(struct stall *s); /* call after setting the fields above */
void stall_close(struct stall *s);
/* Call it at least once a second. silent: report no rank now. */
void stall_poll(struct stall *s, bool silent);
/* By a signal, or a debugger? *cpu: the time that it has used; NULL: not wanted. */
bool process_is_stopped(pid_t pid, nsec *cpu);

/* ---- Ranks that watch each other (lookout.c) ---- */

/* Stall detection without mvbench's own launcher. A thread of each rank watches all ranks; the
 * first rank that is not stopped reports those that make no progress. After timeout_s (0: never),
 * which the user knows as `setting`, it ends the ranks of its machine. Call lookout_limits first,
 * before MPI starts. Ranks from `workers` on only serve. programs: see stall.c.
 * Collective; NULL: not available. */
struct lookout_ranks {
	int rank, ranks, machine; /* machine: the lowest rank on this one */
	bool several;             /* machines */
	void (*gather)(void *self, const void *mine, void *all, size_t bytes); /* to all ranks */
	void *self;
};
void lookout_limits(double timeout_s, const char *setting);
struct lookout *lookout_open(const struct lookout_ranks *all, int workers, bool programs);
void lookout_close(struct lookout *o);
/* Applies the limits to a call, until lookout_unguard, in which this rank waits for all others. */
void lookout_guard(const char *what);
void lookout_unguard(void);

#endif
