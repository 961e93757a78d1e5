/*
 * world.h - what the platform provides: time, waiting and its cost, monitors, the launcher, the use
 * of cores. world.c is the real one, sim/ the simulated one, in virtual time: each function of the
 * first section is in both.
 */
#ifndef WORLD_H
#define WORLD_H

#include "runtime/base/base.h"

/* ---- The world: real (world.c), or simulated in virtual time (sim/world/world.c) ---- */

extern const bool world_is_virtual;
nsec clock_now(void); /* monotonic */
/* The same; a simulated worker does not yield to the others here. For polling, not for timing. */
nsec clock_peek(void);
void clock_delay(nsec dt);

struct config;
struct plan;
struct worker;

/* Runs the main loop (life) of each worker and server of this process: one in the real world; all
 * in a simulation, each on its own stack. Returns the exit status of rank 0. */
int world_run(const struct config *c, const struct plan *p, int (*life)(void *ctx), void *ctx);
void world_exit(int status) __attribute__((noreturn)); /* ends a main loop early */
/* Simulated: the first worker on this one's site, or, if all are on one, on its machine. Real
 * world: -1. */
int world_place(void);
uint64_t world_node(void); /* the simulated machine of this worker; real world: 0 */
/* Lines of a simulation: the factors of messages; and how many workers are where, unless that goes
 * without saying. */
#define MESSAGE_FACTORS "factors: "
#define WORKERS_WHERE   "places: "
void world_describe(FILE *f);
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
void world_charge(double floats); /* of a loop of the host, see worker_charge */
/* Codec `which` encodes n floats, or decodes them; passes: what worker_charge gets for each, if its
 * time was not measured. */
void world_charge_code(const void *which, double passes, size_t n, bool decodes);
struct table_work { /* of an operation on a table */
	enum { WORK_READ, WORK_PUSH, WORK_SYNC, WORK_ELASTIC } kind;
	bool updates;       /* a push of gradients or changes, whose updater does more than add */
	bool one_way;       /* half of a push with its pull */
	bool goes, returns; /* the floats come from the worker; the worker gets them */
};
/* It is on n floats; shared: they are in rank 0's memory. */
void world_charge_op(struct table_work work, size_t n, bool shared);
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
enum { NOWHERE_BYTES = 1 << 28 }; /* its room; a message that begins there may be longer */
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
/* Locked: unlocks, sleeps until a broadcast, or so long (0: without limit), locks. */
void monitor_wait(struct monitor *m, nsec most);
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

/* What can still be written in /dev/shm [bytes]; INFINITY: unknown. */
double shared_memory_free(void);
/* Lets the ranks of this machine, which this process is or starts, send through shared memory only,
 * if there is enough of it: otherwise each would listen on all networks. The user's own setting has
 * precedence. */
void ranks_stay_off_the_network(int ranks);
#define ENLARGE_SHARED_MEMORY \
	"enlarge it (mount -o remount,size=1G /dev/shm; docker run --shm-size=1g)"

/* ---- The pulse of a rank (pulse.c) ---- */

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
/* Sets the pulse of this process's worker; NULL = no one reads it. The phase stays. */
void pulse_of(struct pulse *p);
struct pulse *pulse_mine(void); /* never NULL */
EXPORTED void pulse_step(void); /* records progress */
/* A thread's sign of life for its process, with the CPU time of the other threads. */
void pulse_alive(struct pulse *p);
/* Until a rank works, its CPU use counts as progress, because a start takes long legitimately. */
void pulse_phase(enum phase phase);

/* ---- The use of cores (usage.c) ---- */

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

#endif
