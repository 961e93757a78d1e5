/*
 * base.h - the lowest layer: how a process ends, its clock, the real or simulated platform (the
 * "world"), monitors, the launcher, the status page that the watcher reads, installed files.
 *
 * A function that can find a user's error returns a message ("sentence", on the heap, the caller
 * frees it), or NULL if there is no error. Times are in seconds unless the type is nsec.
 */
#ifndef BASE_H
#define BASE_H

#include "runtime/base/common.h"
#include "runtime/base/rng.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef int64_t nsec; /* nanoseconds */

/* ---- Exit statuses and messages ------------------------------------------ */

/* The reason of a run that was stopped from outside begins with this. */
#define INTERRUPTED "interrupted"
#define REFUSED     "refused"

enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USER = 2, EXIT_DIVERGED = 3, EXIT_INTERRUPTED = 130 };

/* Declares a function that a loaded module (runtime/device/cuda_module.c) calls, too. */
#define EXPORTED __attribute__((visibility("default")))

EXPORTED void *must(void *p); /* returns p; NULL ends the process: out of memory */
/* Sets the function that gets a user_error's message (on the heap); it must not return. NULL = the
 * message goes to the terminal. */
void user_error_handler(void (*f)(const char *sentence));

/* Prints the message to stderr, frees it, and returns EXIT_USER. */
int complain(char *wrong);
/* Replaces control characters, except newlines and tabs, because a terminal would obey them. */
void text_disarm(char *s);

/* Those that end this process from outside: SIGINT, SIGTERM and SIGHUP, except ignored ones. */
sigset_t end_signals(void);
/* Is such a signal pending, because it is blocked? (They are blocked during a run.) */
bool end_is_requested(void);
/* Starts a thread that blocks all signals, which are for the program's own threads. */
bool thread_start(pthread_t *thread, void *(*loop)(void *self), void *self);

/* Frees the memory of a pointer at the end of its block: char *text AUTOFREE = sentence(...). */
static inline void autofree(void *pointer)
{
	free(*(void **)pointer);
}
#define AUTOFREE __attribute__((cleanup(autofree)))
/* The same for an open file: int fd AUTOCLOSED = open(...). */
static inline void autoclose(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}
#define AUTOCLOSED __attribute__((cleanup(autoclose)))

/* Appends an element to a list on the heap. */
#define APPEND(list, n, ...) \
	((list) = must(realloc((list), ((n) + 1) * sizeof *(list))), (list)[(n)++] = (__VA_ARGS__))

/* Returns an error, a message or a code, to the caller's caller. For places where nothing must be
 * freed. */
#define TRY(call) \
	do { \
		__auto_type wrong_ = (call); \
		if (wrong_) \
			return wrong_; \
	} while (0)

/* A text under construction: everything written to its file becomes a string on the heap. */
struct text {
	FILE *f;
	char *at;
	size_t n;
};
static inline FILE *text_open(struct text *t)
{
	return t->f = (FILE *)must(open_memstream(&t->at, &t->n));
}
static inline char *text_close(struct text *t)
{
	fclose(t->f);
	return t->at;
}

/* Defines a function that finds a name in a NULL-terminated list of pointers to structs. It returns
 * the struct of that name, or NULL. */
#define FIND_BY_NAME(kind, function, list, field) \
	const struct kind *function(const char *wanted) \
	{ \
		size_t i = 0; \
		while (list[i] && strcmp(list[i]->field, wanted) != 0) \
			i++; \
		return list[i]; \
	}

static inline size_t smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Stops at the first error other than EINTR; the rest is then lost. */
void write_all(int fd, const void *x, size_t bytes);

/* For qsort: doubles, or structs that begin with a double, in ascending order. */
static inline int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* Continues the FNV-1a hash h with more bytes. */
#define HASH_START UINT64_C(14695981039346656037)
static inline uint64_t hash_of(uint64_t h, const void *x, size_t bytes)
{
	for (const unsigned char *at = (const unsigned char *)x; bytes > 0; at++, bytes--)
		h = (h ^ *at) * UINT64_C(1099511628211);
	return h;
}

/* SHA-256, in hexadecimal. Each begin needs an end, which frees. */
enum { SHA256_ROOM = 65 };
struct sha256 {
	struct evp_md_ctx_st *digest;
};
void sha256_begin(struct sha256 *s);
void sha256_add(struct sha256 *s, const void *x, size_t bytes);
bool sha256_file(struct sha256 *s, const char *path); /* a plain file; false and errno: failed */
void sha256_end(struct sha256 *s, char hex[SHA256_ROOM]);

/* Runs body in a child process, which ends with _exit or exec; if body returns, with status 127.
 * said: gets what it prints, up to the room; NULL: it prints to this process's streams. Returns its
 * status as waitpid does; -1 and errno: no child could be started. */
int child_run(void (*body)(const void *ctx), const void *ctx, char *said, size_t room);

/* A part of this machine failed, such as a GPU: ends all ranks; the run has failed. */
EXPORTED void failure(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));
/* The last message of panic and failure begins with one of these, after the name of the process. */
#define BUG     "bug"
#define FAILURE "failure"
void panic_as(const char *name); /* sets the name of this process; not copied */
/* Prints the same message without ending the process; prints nothing before panic_as. */
void print_failure(const char *text);
/* Writes the last message here instead of to the terminal; another process prints it. */
void panic_to(char *text, size_t room);
/* Sets how panic and failure end all ranks. Without it only this process exits. */
void panic_abort_with(void (*f)(int status)); /* f does not return */

/* ---- The world: real (world.c), or simulated in virtual time (sim/world/world.c) ---- */

extern const bool world_is_virtual;
nsec clock_now(void); /* monotonic */
/* The same; a simulated worker does not yield to the others here. For polling, not for timing. */
nsec clock_peek(void);
void clock_delay(nsec dt);

struct config;
struct plan;
struct worker;
struct table_op;
struct updater;

/* Runs the main loop (life) of each worker and server of this process: one in the real world; all
 * in a simulation, each on its own stack. Returns the exit status of rank 0. */
int world_run(const struct config *c, const struct plan *p, int (*life)(void *ctx), void *ctx);
void world_exit(int status) __attribute__((noreturn)); /* ends a main loop early */
uint64_t world_node(void); /* the simulated machine of this worker; real world: 0 */
/* One line of a simulation with how many workers are where; nothing if that goes without saying. */
#define WORKERS_WHERE "places: "
void world_print_places(FILE *f);
/* The following charge virtual time for work that takes time by itself in the real world. */
void world_device(struct worker *w); /* call before opening: charges the device's operations */
/* A worker starts to communicate: operation and peer rank; -1 = all ranks, or no specific one. */
void world_enter(const char *what, int peer);
void world_leave(void); /* the communication has ended */
/* The worker waits until world_leave, but not for other workers. It has stalled if that takes much
 * longer than expected; NO_END: never. */
void world_wait(const char *what, nsec expected);
#define NO_END INT64_MAX
/* A worker finds nothing to do and polls again after dt. */
void world_rest(const char *what, nsec dt);
void world_yield(void); /* lets the other simulated workers run at the same virtual time */
/* An operation on n floats of a table with this updater; shared: they are in rank 0's memory. */
void world_charge(double floats); /* of a loop of the host, see worker_charge */
void world_charge_op(const struct table_op *p, const struct updater *u, size_t n, bool shared);
/* Between simulated hosts, one-sided access to ranks [first, end) waits until the target next
 * enters MPI, because nothing else serves it there. */
void world_reach(int first, int end);
void world_charge_sum(size_t n, int ranks); /* an allreduce of n floats over `ranks` ranks */
/* Off the clock, simulated collectives take neither time nor messages. All ranks must switch at the
 * same point. */
void world_off_clock(bool off);
bool world_is_off_clock(void);

/* The buffer of messages that have a length but no content; one for all, its floats mean nothing.
 * Simulations only. */
float *link_nowhere(void);
/* Allreduce of simulated workers, which share their memory: it sums the floats there; the messages
 * only carry lengths. One rank of a link makes its struct sums, the last one frees it. */
struct link;
struct world_sums {
	struct sums *(*make)(int ranks);
	void (*leave)(struct sums *s); /* called by each rank */
	void (*allreduce)(struct link *l, struct sums *s, float *x, size_t n, int how);
	/* The messages continue while the ranks compute; each rank waits for the slot before it
	 * uses x. */
	void (*start)(struct link *l, struct sums *s, int slot, float *x, size_t n);
	void (*wait)(struct link *l, struct sums *s, int slot);
	/* Takes no time and no messages. Waits until all ranks have called it; the last one then
	 * calls all with every rank's x, x[ranks], before any rank continues. NULL: barrier only.
	 */
	void (*rendezvous)(struct sums *s, int rank, void *x,
			   void (*all)(void **x, int ranks, const void *how), const void *how);
};
extern const struct world_sums *const world_sums; /* NULL in the real world */

/* The kinds of virtual time: gradients; steps of optimisers; other vector operations; operations on
 * tables; sums of an allreduce beyond its messages; a plug-in's work on the host; from a wake-up
 * signal until a sleeping worker resumes; delays, pauses and naps. Messages, and waiting for
 * others, are all time that no worker charges. */
#define SPENT_LIST(X) \
	X(STEP, step) \
	X(UPDATE, update) \
	X(VECTOR, vector) \
	X(PUSH, push) \
	X(SUM, sum) \
	X(HOST, host) \
	X(WAKE, wake) \
	X(SLEEP, sleep) \
	X(MESSAGE, message)
enum spent {
#define ROW(id, name) SPENT_##id,
	SPENT_LIST(ROW)
#undef ROW
		SPENT_KINDS
};
extern const char *const spent_names[SPENT_KINDS];

/* The cost of the simulation so far; real world: NaN, NaN, -1. */
struct world_cost {
	double simulated_s, wall_s;
	int64_t events;              /* computations and communications of workers */
	double spent_s[SPENT_KINDS]; /* of the calling worker, within segments */
};
struct world_cost world_cost(void);

/* A monitor in memory that the workers of one machine share: one worker at a time holds its lock;
 * others wait for a broadcast. */
struct monitor {
	unsigned char at[128] __attribute__((aligned(64)));
};
void monitor_init(struct monitor *m); /* called by one worker */
void monitor_lock(struct monitor *m);
void monitor_unlock(struct monitor *m);
void monitor_wait(struct monitor *m);      /* locked: unlocks, sleeps until a broadcast, locks */
void monitor_broadcast(struct monitor *m); /* locked: wakes all */

/* ---- The launcher of this process (launcher.c) ---- */

bool platform_under_launcher(void);   /* mpirun or srun started this process */
int rank_of_launcher(void);           /* -1: no launcher */
int rank_on_node(void);               /* 0: no launcher */
bool launched_on_several_hosts(void); /* by the environment, also before MPI starts */
/* Cores that this process, or its launcher, may use: by its affinity and its control groups. */
int usable_cores(void);
/* A launcher that learns of a failed rank may not read the rest of its messages. Under a launcher,
 * this waits until it has read them, for some seconds at most. */
void launcher_hear_out(void);

/* Calls each for the folder of this process's control group, and of all groups around it, that
 * limit what the controller ("cpu", "memory", "pids") counts (cgroup.c). */
void cgroup_each(const char *controller, void (*each)(void *ctx, const char *folder), void *ctx);

/* ---- The status page (status.c) ---- */

/* Figures of one rank in one epoch: times [s], averaged over the workers, and counts, summed over
 * them. Every figure listed here is gathered automatically. */
#define SPLIT_TIMES(X) \
	X(seconds) X(compute_s) X(comm_s) X(wait_s) X(user_s) X(system_s) X(run_delay_s) X(steal_s)
#define SPLIT_TOTALS(X) X(bytes_sent) X(pushes) X(dropped) X(preemptions)
#define SPLIT_COUNTS(X) SPLIT_TOTALS(X) X(staleness_sum)
struct split_row {
#define FIGURE(name) double name;
	SPLIT_TIMES(FIGURE)
#undef FIGURE
#define FIGURE(name) int64_t name;
	SPLIT_COUNTS(FIGURE)
#undef FIGURE
	int64_t staleness_max;
};

/* Times of an epoch or a run are unreliable if it had less than this share of its cores. */
#define CORES_SHARE_LEAST 0.9

/* A model's means over the rows that it was evaluated on; NaN = not known. */
struct judged {
	double loss, accuracy;
};
/* The rows of an evaluation: a part of the training set, the validation rows, the test rows. */
enum { ON_TRAIN, ON_VALIDATION, ON_TEST, EVALUATED };

struct epoch_row {
	int64_t epoch; /* 0 = before training */
	/* times: mean over workers; except seconds: of the segment; run_delay_s and steal_s: the
	 * maximum */
	struct split_row split;
	/* on the mini-batches, under each worker's own model, before the step */
	struct judged running, on[EVALUATED]; /* on: of the evaluated model */
	double consensus; /* sqrt(mean over the models of |w_i - mean w|^2); NaN: no barrier */
};

/* An evaluation between two ends of epochs (--eval-every); fields as above. */
struct point_row {
	int64_t step;   /* steps of the run so far */
	double epochs;  /* the same in epochs */
	double seconds; /* training time so far */
	struct judged on[EVALUATED];
};

/* CPU use of a process since its start (usage.c). NaN, -1: simulated, or the system gives none. */
struct usage {
	double user_s, system_s;
	double run_delay_s;  /* ready to run but without a core: mean of its compute threads */
	double steal_s;      /* taken by the hypervisor: mean of the cores that it may use */
	int64_t preemptions; /* involuntary context switches */
};
void usage_open(int compute_threads); /* call after these threads have started */
struct usage usage_now(void);
/* The columns of proc_stat(5), summed over the cores that this process may use [s]. cores 0: the
 * system does not report them. */
enum { CORE_IDLE = 3, CORE_IOWAIT = 4, CORE_STEAL = 7, CORE_TIMES };
struct core_times {
	int cores;
	double s[CORE_TIMES];
};
struct core_times core_times_now(void);

/* The progress of a rank. Others read it while it is written, with PULSE_GET and PULSE_PUT: each
 * number is read whole, but numbers may be from different moments. */
enum { WAITS_LEGITIMATELY = -2 };
enum { RANKS_MOST = 8192 }; /* workers and servers */
enum phase { PHASE_STARTS, PHASE_LOADS, PHASE_WORKS };
struct pulse {
	int64_t beat;           /* grows while a rank on another machine is alive */
	int64_t events;         /* grows with each progress */
	nsec cpu;               /* CPU time that a rank on another machine has used */
	nsec expected;          /* duration of the current world_wait */
	int32_t peer;           /* of world_enter; WAITS_LEGITIMATELY: in world_wait */
	int16_t phase;          /* enum phase */
	char doing[18];         /* "" = computing; otherwise the operation that it waits in */
} __attribute__((aligned(64))); /* each rank writes its own, at every step */
#define PULSE_GET(x)    __atomic_load_n(&(x), __ATOMIC_RELAXED)
#define PULSE_PUT(x, v) __atomic_store_n(&(x), v, __ATOMIC_RELAXED)

/* Shared by the workers and the watching process: plain stores, no system call. Rank 0 writes
 * everything except the pulses. */
struct status_page {
	int64_t magic;         /* identifies the run */
	int64_t ranks, epochs; /* numbers of pulses, and of rows */
	volatile int64_t id;   /* of the run's row in the database, 0 = not begun; then: */
	char owner[128];       /* of that row: the process that records (process_owner) */
	int64_t file;          /* inode of the database */
	volatile int64_t step, steps, epoch;
	volatile int64_t rows; /* valid elements of .row */
	volatile int state;    /* enum run_state */
	volatile int status;   /* exit status, once ended */
	char reason[512];      /* why the status is not 0 */
	bool interrupted;      /* from outside; the run may still have ended by itself */
	bool simulated;        /* then, once ended, with its cost: */
	struct world_cost cost;
	struct epoch_row row[]; /* 0..epochs */
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
void status_free(struct status_page *l);
size_t status_bytes(const struct status_page *l); /* total size */
struct pulse *status_pulse(struct status_page *l, int rank);
/* Marks the end: readers that see STATUS_ENDED see status and reason too. */
void status_end(struct status_page *l, int status, const char *reason);
/* The page of this worker's launcher; NULL: launch did not start it through mpirun. */
struct status_page *status_of_launcher(void);
/* A copy for a worker whose watcher is on another machine, which gets the changes; one copy a
 * process. NULL: not under a launcher. */
struct status_page *status_far(const struct status_page *head);
bool status_is_far(const struct status_page *l);
/* In the watcher: copies such a change from a line of a worker's stderr into the page. false: the
 * line is something else. */
bool status_hear(struct status_page *l, const char *line);
/* The page that this value of status_variable describes; NULL: it is not on this machine. */
struct status_page *status_find(const char *variable);
/* The value of STATUS_VARIABLE for a page; heap. */
char *status_variable(const struct status_page *l, const char *path);
#define STATUS_LINE     "\036mvbench-page"
#define STATUS_MAGIC    INT64_C(0x6d7662656e636873)
#define STATUS_VARIABLE "MVBENCH_STATUS_PAGE"
/* Sets the pulse of this process's worker; NULL = no one reads it. The phase stays. */
void pulse_of(struct pulse *p);
struct pulse *pulse_mine(void); /* never NULL */
EXPORTED void pulse_step(void); /* records progress */
/* A thread's sign of life for its process, with the CPU time of the other threads. */
void pulse_alive(struct pulse *p);
/* Until a rank works, its CPU use counts as progress, because a start takes long legitimately. */
void pulse_phase(enum phase phase);

/* ---- Files (files.c) ---- */

/* Embeds a file of the source tree in the program as a string named symbol. */
#define TEXT_FILE(symbol, path) \
	__asm__(".pushsection .rodata\n" #symbol ":\n.incbin \"" path \
		"\"\n.byte 0\n.popsection\n"); \
	extern const char symbol[]

/* From the heap; NULL and errno when it cannot be read, or is larger than FILE_MOST (EFBIG). */
EXPORTED char *text_read(const char *path);
char *bytes_read(const char *path, size_t *n); /* the same; bytes 0 are part of it */
enum { FILE_MOST = 64 << 20 };                 /* [bytes] */
/* The first room - 1 bytes, as a string; for reading between steps, which allocates nothing. false:
 * it cannot be read. */
bool text_begins(const char *path, char *text, size_t room);
/* Makes a temporary folder whose name contains `name`; path: heap. Removes the temporary folders of
 * killed processes. NULL, or a message. */
char *folder_temporary(const char *name, char **path);
#define IN_MEMORY "/proc/self/fd/"
char *file_in_memory(const char *text); /* a path for this process and its children. Heap. */
char *folder_locked(const char *parent, const char *name, char **path); /* the same in parent */
const char *folder_for_now(void);                                       /* TMPDIR, or /tmp */
void folder_remove(const char *path);                                   /* with its contents */
/* Removed at the end of its block: char *folder AUTOREMOVED = NULL; */
static inline void autoremove(char **folder)
{
	if (*folder)
		folder_remove(*folder);
	free(*folder);
}
#define AUTOREMOVED __attribute__((cleanup(autoremove)))
EXPORTED int folder_make(const char *path); /* with its parents; 0, or errno */
int folder_make_own(const char *path);      /* the same, closed to other users whatever umask is */

/* What can still be written in /dev/shm [bytes]; INFINITY: unknown. */
double shared_memory_free(void);
/* Lets the ranks of this machine, which this process is or starts, send through shared memory only,
 * if there is enough of it: otherwise each would listen on all networks. The user's own setting has
 * precedence. */
void ranks_stay_off_the_network(int ranks);
#define ENLARGE_SHARED_MEMORY \
	"enlarge it (mount -o remount,size=1G /dev/shm; docker run --shm-size=1g)"

/* An output file that a user named. A plain file is written under another name next to it, and
 * renamed when it is complete and on the disk. A link stays, and the file that it leads to is
 * written like this. Others, such as pipes, are written in place; "" is stdout. A database is never
 * overwritten. The next output in that folder removes the partial files of killed processes. */
struct output {
	FILE *f;
	const char *option; /* for messages: "--out=", or "" */
	char *path;         /* as the user named it */
	char *target;       /* the same without links; NULL: stdout */
	char *temporary;    /* NULL: written in place */
};
EXPORTED char *output_open(struct output *o, const char *option, const char *path);
/* Why an earlier write to it probably failed, which stdio does not keep: errno, or 0. */
int stream_failure(FILE *f);
/* Returns wrong, if any; then it removes the new file. */
EXPORTED char *output_close(struct output *o, char *wrong);

/* ---- Installed files ---- */

/* A folder or file of the installation (plots, workloads/sweeps, sim/platforms/titanx4.xml): under
 * MVBENCH_HOME, above the build folder, or under ../share/mvbench. Heap; NULL: not found. */
char *installed_path(const char *name);
char *program_path(void); /* of this program, from the heap; "": not known */
/* Calls each for the files of such a folder that have this ending, in order; name: without it. */
void installed_each(const char *folder, const char *ending,
		    void (*each)(void *ctx, const char *name, const char *path), void *ctx);
bool program_exists(const char *program); /* in $PATH */

#endif
