/*
 * base.h - the lowest floor: how a process ends, the clock and the world that it runs in, monitors,
 * who started the process, the page that its watcher reads, installed files.
 *
 * Functions that can meet a user's error return a sentence (from the heap, the caller frees), NULL
 * when all is well. Times are in seconds unless the type is nsec.
 */
#ifndef BASE_H
#define BASE_H

#include "mvbench.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

typedef int64_t nsec; /* nanoseconds */

/* ---- Exit statuses and sentences ----------------------------------------- */

/* So begins the reason of a run that was stopped from outside. */
#define INTERRUPTED "interrupted"

enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USER = 2, EXIT_DIVERGED = 3, EXIT_INTERRUPTED = 130 };

void *must(void *p); /* p, or out of memory */
/* Who is told a user_error's sentence (from the heap) instead of the terminal; must not return.
 * NULL = nobody. Returns who was told before. */
typedef void user_error_fn(const char *sentence);
user_error_fn *user_error_handler(user_error_fn *f);

/* Says the sentence on stderr, frees it, and returns EXIT_USER. */
int complain(char *wrong);

/* Does a signal that is blocked wait to end this process, as while a run is watched? */
bool told_to_end(void);

/* What this pointer points to is freed where its block ends: char *text AUTOFREE = sentence(...).
 */
static inline void autofree(void *pointer)
{
	free(*(void **)pointer);
}
#define AUTOFREE __attribute__((cleanup(autofree)))

/* A text in the making: what is written to its file becomes a string on the heap. */
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

/* Defines a function that looks for a name in a list of pointers to structs, which ends at NULL:
 * the row of that name, or NULL. */
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

/* Gives up at the first error but EINTR: what a pipe does not take is lost. */
void write_all(int fd, const void *x, size_t bytes);

/* For qsort: doubles, or structs that begin with one; smaller ones first. */
static inline int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* FNV-1a of more bytes, over those before. */
#define HASH_START UINT64_C(14695981039346656037)
static inline uint64_t hash_of(uint64_t h, const void *x, size_t bytes)
{
	for (const unsigned char *at = (const unsigned char *)x; bytes > 0; at++, bytes--)
		h = (h ^ *at) * UINT64_C(1099511628211);
	return h;
}

/* SHA-256, in hexadecimal. */
enum { SHA256_ROOM = 65 };
struct sha256 {
	uint32_t h[8];
	uint64_t bytes;
	unsigned char block[64];
};
void sha256_begin(struct sha256 *s);
void sha256_add(struct sha256 *s, const void *x, size_t bytes);
bool sha256_file(struct sha256 *s, const char *path); /* adds all of it; false and errno: cannot */
void sha256_end(struct sha256 *s, char hex[SHA256_ROOM]);

/* Something of this machine failed, such as a GPU: ends all ranks, and the run as failed. */
void failure(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));
/* How the last words of panic and failure begin, after who says them. */
#define BUG     "bug"
#define FAILURE "failure"
void panic_as(const char *who); /* who it is; must outlive the process's errors */
/* The same words, of a process that ends by itself; nothing before it is known who it is. */
void tell_failure(const char *text);
/* Last words go here, and not to the terminal: somebody else shows them. */
void panic_to(char *text, size_t room);
/* How panic and failure end the other ranks too; until somebody says how: this process exits. */
void panic_abort_with(void (*f)(int status)); /* which does not return */

/* ---- The world: real (world.c), or simulated in virtual time (sim/world/world.c) ---- */

extern const bool world_is_virtual;
nsec clock_now(void); /* monotonic */
/* The same, of a simulated worker without giving others their turn: for looking, not for timing. */
nsec clock_peek(void);
void clock_delay(nsec dt);

struct config;
struct plan;
struct table_op;

/* Lives of all workers and servers that this process has to lead: one; or all, each on a stack of
 * its own. Returns the exit status of rank 0's. */
int world_run(const struct config *c, const struct plan *p, int (*life)(void *ctx), void *ctx);
void world_exit(int status) __attribute__((noreturn)); /* from within a life, early */
uint64_t world_node(void); /* the machine that this worker is on; real: not known, 0 */
/* What takes time by itself in the real world. */
void world_device(struct worker *w); /* before it is opened: its operations take time */
/* A worker begins to communicate: what, and with which rank; -1 = all, or none in particular. */
void world_enter(const char *what, int peer);
void world_leave(void);             /* and has ended */
void world_stand(const char *what); /* stands still, and may, until it leaves */
/* A worker finds nothing to do, and looks again after dt. */
void world_rest(const char *what, nsec dt);
void world_yield(void); /* simulated workers have their turn, at the same instant */
/* An operation on n floats of a table; shared: which lie in rank 0's memory. */
void world_charge_op(const struct table_op *p, size_t n, bool shared);
/* One-sided access to the memory of these ranks, from first to before end, is served when they next
 * are inside MPI, where nothing else serves it: between simulated hosts. */
void world_reach(int first, int end);
void world_charge_sum(size_t n, int ranks); /* n floats over so many ranks, in an allreduce */
/* What this worker's ranks do together is timed by nobody, until they are told otherwise, all of
 * them at the same place: simulated collectives then take neither time nor messages. */
void world_off_clock(bool off);
bool world_is_off_clock(void);

/* Where messages of lengths only come from and go to: one place for all, whose floats mean
 * nothing. Simulations only. */
float *link_nowhere(void);
/* Allreduces of workers that share their memory: floats are summed there, and messages carry their
 * lengths. What the ranks of a link sum in is made by one of them, and freed by the last. */
struct link;
struct world_sums {
	struct sums *(*make)(int ranks);
	void (*leave)(struct sums *s); /* by each */
	void (*allreduce)(struct link *l, struct sums *s, float *x, size_t n, enum reduce how);
	/* Its messages go on while the ranks compute; each waits for the slot before it uses x. */
	void (*start)(struct link *l, struct sums *s, int slot, float *x, size_t n);
	void (*wait)(struct link *l, struct sums *s, int slot);
	/* In no time, and without messages: waits until all have come; the last of them then calls
	 * all with what each has brought, x[ranks], before anybody goes on. NULL: they only meet.
	 */
	void (*meet)(struct sums *s, int rank, void *x,
		     void (*all)(void **x, int ranks, const void *how), const void *how);
};
extern const struct world_sums *const world_sums; /* NULL in the real world */

/* What a simulation took so far; false in the real world. */
struct world_cost {
	double simulated_s, wall_s;
	int64_t events; /* computations and communications of workers */
};
bool world_cost(struct world_cost *out);

/* A monitor, in memory that workers of one machine share: one at a time holds its lock, and others
 * wait for a broadcast. */
struct monitor {
	unsigned char at[128] __attribute__((aligned(64)));
};
void monitor_init(struct monitor *m); /* by one of them */
void monitor_lock(struct monitor *m);
void monitor_unlock(struct monitor *m);
void monitor_wait(struct monitor *m);      /* locked: unlocks, sleeps until a broadcast, locks */
void monitor_broadcast(struct monitor *m); /* locked: wakes all */

/* ---- Who started this process (launcher.c) ---- */

bool platform_under_launcher(void); /* mpirun, srun did */
int rank_of_launcher(void);         /* -1: no launcher did */
int rank_on_node(void);             /* 0: likewise */
int usable_cores(void);             /* of this machine, by the process or by its launcher */

/* ---- The status page (status.c) ---- */

/* Figures of an epoch of one rank: times [s], of which trainers have means, and counts, of which
 * they have sums. What is listed here is gathered by itself. */
#define SPLIT_TIMES(X) \
	X(seconds) X(compute_s) X(comm_s) X(wait_s) X(user_s) X(system_s) X(run_delay_s)
#define SPLIT_COUNTS(X) X(bytes_sent) X(pushes) X(staleness_sum) X(dropped) X(preemptions)
struct split_row {
#define FIGURE(name) double name;
	SPLIT_TIMES(FIGURE)
#undef FIGURE
#define FIGURE(name) int64_t name;
	SPLIT_COUNTS(FIGURE)
#undef FIGURE
	int64_t staleness_max;
};

/* Less of its cores than this share, and times of an epoch or a run say little. */
#define CORES_SHARE_LEAST 0.9

struct epoch_row {     /* losses and accuracies: NaN = not known */
	int64_t epoch; /* 0 = before training */
	/* times: mean over trainers, but seconds: the segment's, run_delay_s: the most of one */
	struct split_row split;
	/* of each worker's mini-batches under its own model, before the step on each */
	double running_loss, running_accuracy;
	/* of the evaluated model, on a part of the training set, */
	double train_loss, train_accuracy;
	double validation_loss, validation_accuracy; /* on these rows, */
	double test_loss, test_accuracy;             /* and on these */
	double consensus; /* sqrt(mean over the models of |w_i - mean w|^2); NaN: no barrier */
};

/* A model between two ends of epochs (--judge-every), as above. */
struct point_row {
	int64_t step;   /* of the run: after so many */
	double epochs;  /* that is, after so many epochs */
	double seconds; /* of training so far */
	double train_loss, train_accuracy, validation_loss, validation_accuracy, test_loss,
		test_accuracy;
};

/* What a process has had of its cores since it began (usage.c). NaN, -1: of a simulation; or the
 * system does not say. */
struct usage {
	double user_s, system_s;
	double run_delay_s; /* ready, while others had its cores: the mean of its compute threads */
	int64_t preemptions; /* involuntary context switches */
};
void usage_open(int compute_threads); /* once these have been started */
struct usage usage_now(void);

/* Of a rank: whether it gets on. Others look at it while it is written, by PULSE_GET and PULSE_PUT:
 * what they see is whole, number by number, but in no order. */
enum { STANDS = -2 };
struct pulse {
	int64_t beat;           /* of one on another machine: it lives */
	int64_t events;         /* grows whenever it gets on */
	int32_t peer;           /* of world_enter; STANDS: it may */
	char doing[20];         /* "" = computing; else what it waits in */
} __attribute__((aligned(64))); /* each rank writes its own, at every step */
#define PULSE_GET(x)    __atomic_load_n(&(x), __ATOMIC_RELAXED)
#define PULSE_PUT(x, v) __atomic_store_n(&(x), v, __ATOMIC_RELAXED)

/* Shared by the workers and the process that watches them: plain stores, no system call. All but
 * the pulses is rank 0's. */
struct status_page {
	int64_t magic;         /* that of this run */
	int64_t ranks, epochs; /* that there are pulses, and rows, of */
	volatile int64_t id;   /* of the row, 0 = not begun */
	volatile int64_t step, steps, epoch;
	volatile int64_t rows; /* of .row that are valid */
	volatile int state;    /* enum run_state */
	volatile int status;   /* exit status, once ended */
	char reason[512];      /* why, when the status is not 0 */
	bool interrupted;      /* from outside, though it may have ended by itself then */
	bool simulated;        /* and what that took, once ended */
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

/* In a file that a launcher's children can find, in this folder if there may be one (NULL:
 * /dev/shm); path gets its name. NULL: none could be made. */
struct status_page *status_new(int64_t epochs, int64_t ranks, const char *folder,
			       char path[PATH_MAX]);
void status_free(struct status_page *l);
size_t status_bytes(const struct status_page *l); /* all of it */
struct pulse *status_pulse(struct status_page *l, int rank);
/* The last words: readers that see STATUS_ENDED see status and reason too. */
void status_end(struct status_page *l, int status, const char *reason);
/* In a worker started by launch through mpirun; else NULL. */
struct status_page *status_of_launcher(void);
/* Where the watcher is on another machine: a copy, of which the watcher hears what changes; one a
 * process. NULL: no launcher's. */
struct status_page *status_far(const struct status_page *head);
bool status_is_far(const struct status_page *l);
/* In the watcher: is this line of a worker's stderr of that kind? Then it is in the page. */
bool status_hear(struct status_page *l, const char *line);
/* The page of which status_variable says this; NULL: it is not on this machine. */
struct status_page *status_find(const char *variable);
/* What the variable says of a page: its heap text. */
char *status_variable(const struct status_page *l, const char *path);
#define STATUS_LINE     "\036mvbench-page"
#define STATUS_MAGIC    INT64_C(0x6d7662656e636873)
#define STATUS_VARIABLE "MVBENCH_STATUS_PAGE"
/* Whose pulse this process's worker has; NULL = nobody looks. */
void pulse_of(struct pulse *p);
struct pulse *pulse_mine(void); /* never NULL */
void pulse_step(void);          /* it got on */

/* ---- Files (files.c) ---- */

/* A file of the source tree as text in the program: symbol is a string. */
#define TEXT_FILE(symbol, path) \
	__asm__(".pushsection .rodata\n" #symbol ":\n.incbin \"" path \
		"\"\n.byte 0\n.popsection\n"); \
	extern const char symbol[]

char *text_read(const char *path); /* from the heap; NULL and errno when it cannot be read */
/* Makes a folder for what is not to be kept: its path, from the heap; name is part of it. Those of
 * processes that were killed go. NULL or a sentence. */
char *folder_temporary(const char *name, char **path);
char *folder_locked(const char *parent, const char *name, char **path); /* the same, there */
const char *folder_for_now(void);                                       /* TMPDIR, or /tmp */
void folder_remove(const char *path);                                   /* with all that is in it */
int folder_make(const char *path); /* and those above it; 0, or errno */

/* A file that a user named. A plain one is written beside, and takes its place when it is whole and
 * on the disk; what is none, such as a pipe or a link, is written as it is; "" is stdout. No
 * database is written over. What a killed process left beside, the next output there removes. */
struct output {
	FILE *f;
	const char *option; /* for sentences: "--out=", or "" */
	char *path, *beside;
};
char *output_open(struct output *o, const char *option, const char *path);
char *output_close(struct output *o,
		   char *wrong); /* hands on what is wrong; then no file is left */

/* ---- Installed files ---- */

/* A folder or file of the installation (plots, workloads/sweeps, sim/platforms/titanx4.xml): beside
 * the program's build folder, or under ../share/mvbench. Heap; NULL when it is not there. */
char *installed_path(const char *name);
char *program_path(void); /* of this program, from the heap; "" where that is not known */
/* The files of such a folder whose names end so, in order; name is without the ending. */
void installed_each(const char *folder, const char *ending,
		    void (*each)(void *ctx, const char *name, const char *path), void *ctx);

#endif
