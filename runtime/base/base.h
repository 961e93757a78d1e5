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

typedef int64_t nsec; /* nanoseconds */

/* A file's text, compiled in as a string. */
#define TEXT_FILE(symbol, path) \
	__asm__(".pushsection .rodata\n" #symbol ":\n.incbin \"" path \
		"\"\n.byte 0\n.popsection\n"); \
	extern const char symbol[]

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

static inline size_t smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Something of this machine failed, such as a GPU: ends all ranks, and the run as failed. */
void failure(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));
/* How the last words of panic and failure begin, after who says them. */
#define BUG     "bug"
#define FAILURE "failure"
void panic_as(const char *who); /* who it is; must outlive the process's errors */
/* Last words go here, and not to the terminal: somebody else shows them. */
void panic_to(char *text, size_t room);
/* How panic and failure end the other ranks too; until somebody says how: this process exits. */
void panic_abort_with(void (*abort)(int status) __attribute__((noreturn)));

/* ---- The world: real (world.c), or simulated in virtual time (sim/world.c) ---------- */

extern const bool world_is_virtual;
nsec clock_now(void); /* monotonic */
/* The same, of a simulated worker without giving others their turn: for looking, not for timing. */
nsec clock_peek(void);
void clock_delay(nsec dt);

struct config;
struct plan;
struct pass;

/* Lives of all workers and servers that this process has to lead: one; or all, each on a stack of
 * its own. Returns the exit status of rank 0's. */
int world_run(const struct config *c, const struct plan *p, int (*life)(void *ctx), void *ctx);
void world_exit(int status) __attribute__((noreturn)); /* from within a life, early */
uint64_t world_node(void); /* the machine that this worker is on; real: not known, 0 */
/* What takes time by itself in the real world. */
void world_device(struct worker *w); /* before it is opened: its operations take time */
/* A worker begins to communicate: what, and with which rank; -1 = all, or none in particular. */
void world_enter(const char *what, int peer);
/* A worker finds nothing to do, and looks again after dt. */
void world_rest(const char *what, nsec dt);
/* A pass over n floats of a table; shared: which lie in rank 0's memory. */
void world_charge_pass(const struct pass *p, size_t n, bool shared);
void world_charge_sum(size_t n, int ranks); /* n floats over so many ranks, in an allreduce */

/* Where messages of lengths only come from and go to: one place for all, whose floats mean
 * nothing. Simulations only, as what follows. */
float *link_nowhere(void);
/* An allreduce of workers that share their memory: floats are summed there, and messages carry
 * their lengths. What the ranks of a link sum in is made by one of them, and freed by the last. */
struct link;
struct meeting *world_meeting_new(int ranks);
void world_meeting_free(struct meeting *m); /* by each; NULL is fine */
void world_allreduce(struct link *l, struct meeting *m, float *x, size_t n);
void world_allreduce_start(struct link *l, struct meeting *m, int slot, float *x, size_t n);

/* What a simulation took so far; false in the real world. */
struct world_cost {
	double simulated_s, wall_s;
	int64_t events; /* computations and communications of workers */
};
bool world_cost(struct world_cost *out);

/* A place in memory that workers of one machine share, where one at a time goes on, and others wait
 * to be called. */
struct gate {
	_Alignas(64) unsigned char at[128];
};
void gate_init(struct gate *g); /* by one of them */
void gate_enter(struct gate *g);
void gate_leave(struct gate *g);
void gate_wait(struct gate *g); /* inside: leaves, sleeps until a call, enters */
void gate_call(struct gate *g); /* inside: wakes all */

/* ---- Who started this process (launcher.c) ---- */

bool platform_under_launcher(void); /* mpirun, srun did */
int rank_of_launcher(void);         /* -1: no launcher did */
int rank_on_node(void);             /* 0: likewise */
int usable_cores(void);             /* of this machine, by the process or by its launcher */

/* ---- The status page (status.c) ---- */

struct split_row { /* of one rank, or the mean over trainers [s] */
	double seconds, compute_s, comm_s, wait_s;
	int64_t bytes_sent;
	int64_t pushes, staleness_sum, staleness_max, dropped;
};

struct epoch_row {              /* losses and accuracies: NaN = not known */
	int64_t epoch;          /* 0 = before training */
	struct split_row split; /* times: mean over trainers, but seconds: the race's */
	double train_loss, train_accuracy, test_loss, test_accuracy;
};

/* Shared by the workers' rank 0 and the process that watches them: plain stores, no system call. */
struct live {
	volatile int64_t id; /* of the row, 0 = not begun */
	volatile int64_t step, steps, epoch, epochs;
	volatile int64_t rows; /* of .row that are valid */
	volatile int state;    /* enum live_state */
	volatile int status;   /* exit status, once ended */
	char reason[512];      /* why, when the status is not 0 */
	bool interrupted;      /* from outside, though it may have ended by itself then */
	bool simulated;        /* and what that took, once ended */
	struct world_cost cost;
	struct epoch_row row[]; /* 0..epochs */
};
enum live_state { LIVE_STARTING, LIVE_LOADING, LIVE_TRAINING, LIVE_JUDGING, LIVE_ENDED };

/* In a file that a launcher's children can find; path gets its name. NULL: none could be made. */
struct live *live_new(int64_t epochs, char path[PATH_MAX]);
void live_free(struct live *l);
/* The last words: readers that see LIVE_ENDED see status and reason too. */
void live_end(struct live *l, int status, const char *reason);
struct live *live_of_launcher(void); /* in a worker started by launch through mpirun; else NULL */
#define LIVE_VARIABLE "MVBENCH_LIVE" /* names its file */

/* ---- Installed files ---- */

/* A folder or file of the installation (plots, workloads/sweeps, sim/platforms/titanx4.xml): beside
 * the program's build folder, or under ../share/mvbench. Heap; NULL when it is not there. */
char *installed_path(const char *name);

#endif
