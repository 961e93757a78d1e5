/*
 * platform.h - what the files of the runtime and the commands share, and plug-ins never see:
 * vectors from inside, devices, communicators, options and configurations, the training loop and
 * its sink, and the launching of workers.
 *
 * Functions that can meet a user's error return a sentence (from the heap, the caller frees), NULL
 * when all is well. Times are in seconds unless the type is nsec.
 */
#ifndef PLATFORM_H
#define PLATFORM_H

#include "../mvbench.h"
#include "draw.h"

#include <stdio.h>

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

static inline size_t smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Something of this machine failed, such as a GPU: ends all ranks, and the run as failed. */
void failure(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));
/* How the last words of panic and failure begin, after who says them. */
#define BUG     "bug"
#define FAILURE "failure"

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

/* What simulated work costs, as it was measured (mvbench calibrate) or given. */
enum cost {
	COST_FILL, /* [floats]: y = a */
	COST_COPY,
	COST_SCALE,
	COST_AXPY,
	COST_SGD,
	COST_GEMM, /* [flops] */
	COST_READ, /* passes over a table [floats] */
	COST_PUSH,
	COST_SYNC,
	COST_ELASTIC,
	COST_SUM, /* what an allreduce takes beside its messages [floats] */
	COSTS
};
extern const char *const cost_names[COSTS];

enum { CURVE_POINTS = 64, STEP_BINS = 64 };
struct curve { /* seconds over an amount of work; no points: 0 */
	int n;
	double x[CURVE_POINTS], y[CURVE_POINTS]; /* x ascending */
};
/* On straight lines between points; before the first as there, beyond the last in proportion. */
double curve_at(const struct curve *c, double x);

/* Figures of a machine, as sim/measure.c takes them and table calibration_point keeps them. */
struct point {
	char name[16];
	double x, value;
};
struct points {
	struct point *point;
	size_t n, room;
};
void points_add(struct points *p, const char *name, double x, double value);

struct simulation {
	char *platform_file;    /* SimGrid XML */
	int64_t calibration_id; /* of the step times; 0 = they were given */
	/* Equally likely times of a whole local step (batch, gradient, update) of so many rows. */
	double step_s[STEP_BINS];
	double rows;
	struct curve cost[COSTS];
	struct points points; /* all that the calibration says */
	double update_s; /* of a push with its pull of the whole model; NaN = as the curves say */
	const struct record *replay; /* the order that passes over tables keep; NULL = none */
};

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

/* ---- Devices ---------------------------------------------------------------- */

/* A device is a table of operations on its own memory; vec.c is the one caller, and checks
 * lengths. */

struct tally {       /* what losses add up, until somebody takes it */
	double loss; /* sum over rows */
	int64_t correct, rows;
};

/* What can be known of a kind of device before one is opened. */
struct device_facts {
	bool present; /* there are signs of one, if it can be used or not */
	int count;    /* how many there are */
	/* What a worker takes beside its vectors, at most, and what convolutions add to that. */
	size_t workspace_bytes, conv_workspace_bytes;
	size_t total_bytes, free_bytes; /* memory of the one that has least free; 0: the host's */
	char model[128], driver[64];    /* "NVIDIA H200", "580.159.03"; empty = none */
	char version[128];              /* of its libraries */
};

struct shape;
struct peer_ops;
struct table_rules;
struct pass;

struct device_ops {
	const char *name, *summary;
	/* NULL = usable here, or a static sentence why not; f may be NULL. */
	const char *(*probe)(struct device_facts *f);
	/* d->precision and d->number are set. */
	void (*open)(struct device *d, int threads);
	void (*close)(struct device *d);
	float *(*alloc)(struct device *d, size_t n); /* zeroed */
	void (*free)(struct device *d, float *p, size_t n);
	void (*put)(struct device *d, float *y, const float *host, size_t n);
	void (*get)(struct device *d, float *host, const float *x, size_t n);
	void (*fill)(struct device *d, float *y, float a, size_t n);
	void (*copy)(struct device *d, float *y, const float *x, size_t n);
	void (*scale)(struct device *d, float *y, float a, size_t n);
	void (*axpy)(struct device *d, float *y, float a, const float *x, size_t n);
	void (*take_columns)(struct device *d, float *y, const float *x, size_t rows, size_t width,
			     size_t first, size_t n);
	void (*put_columns)(struct device *d, float *y, const float *x, size_t rows, size_t width,
			    size_t first, size_t n);
	void (*gemm)(struct device *d, float *y, bool at, const float *a, bool bt, const float *b,
		     size_t m, size_t n, size_t k);
	void (*add_bias)(struct device *d, float *y, const float *b, size_t rows, size_t n);
	void (*sum_rows)(struct device *d, float *b, const float *y, size_t rows, size_t n);
	void (*relu)(struct device *d, float *y, size_t n);
	void (*relu_grad)(struct device *d, float *dy, const float *y, size_t n);
	void (*tanh)(struct device *d, float *y, size_t n);
	void (*tanh_grad)(struct device *d, float *dy, const float *y, size_t n);
	void (*softmax_xent)(struct device *d, float *z, const float *target, size_t rows,
			     size_t n);
	void (*mse)(struct device *d, float *z, const float *target, size_t rows, size_t n);
	void (*sgd)(struct device *d, float *p, float *v, const float *g, float lr, float m,
		    float decay, float scale, size_t n);
	/* t NULL: as they are */
	void (*gather)(struct device *d, float *x, float *y, const struct data *data,
		       const int32_t *index, size_t count, const struct transform *t);
	void (*tally)(struct device *d, struct tally *out); /* reads and clears it */
	void (*dropout)(struct device *d, float *y, float p, uint64_t salt, size_t n);
	void (*shortcut)(struct device *d, float *y, const float *x, struct image in, size_t stride,
			 size_t out, size_t rows);
	void (*shortcut_grad)(struct device *d, float *dx, const float *dy, struct image in,
			      size_t stride, size_t out, size_t rows);

	/* What is prepared for a shape; the functions are those of mvbench.h. */
	void *(*conv_new)(struct device *d, const struct shape *s);
	void (*conv_free)(struct device *d, void *conv);
	void (*conv_forward)(struct device *d, void *conv, float *y, const float *x,
			     const float *weight, const float *bias, size_t rows);
	void (*conv_backward_weight)(struct device *d, void *conv, float *dweight, float *dbias,
				     const float *x, const float *dy, size_t rows);
	void (*conv_backward_data)(struct device *d, void *conv, float *dx, const float *dy,
				   const float *weight, bool add, size_t rows);
	void *(*pool_new)(struct device *d, const struct shape *s);
	void (*pool_free)(struct device *d, void *pool);
	void (*pool_forward)(struct device *d, void *pool, float *y, const float *x, size_t rows);
	void (*pool_backward)(struct device *d, void *pool, float *dx, const float *dy,
			      const float *x, const float *y, size_t rows);
	void *(*norm_new)(struct device *d, const struct shape *s);
	void (*norm_free)(struct device *d, void *norm);
	void (*norm_forward)(struct device *d, void *norm, float *y, const float *x,
			     const float *add, const float *scale, float *running, bool training,
			     size_t rows);
	void (*norm_backward)(struct device *d, void *norm, float *dx, float *dscale, float *dy,
			      const float *x, const float *y, const float *scale, size_t rows);

	/* Runs body(ctx); may keep what it launches under this key, and only launch it again when
	 * the key comes back; d->lr and d->key are those of the call then. NULL = body is just
	 * called. */
	void (*replay)(struct device *d, size_t key, void (*body)(void *ctx), void *ctx);
	/* In a replayed body: notes this place; and, after the launch, waits until place i has been
	 * reached. NULL where replay is. */
	void (*mark)(struct device *d, size_t i);
	void (*await)(struct device *d, size_t i);
	void (*sync)(struct device *d); /* until all is done; NULL = nothing is ever under way */
	const struct peer_ops *peer;    /* NULL: the host reads and writes its memory */
};

/* What a device with memory of its own offers to other processes and to the network. Floats are on
 * the device but where they are called host. All is done on return, but where it says otherwise. */
enum { PEER_HANDLE_BYTES = 128, NCCL_ID_BYTES = 128 };
struct peer_ops {
	float *(*pinned_new)(struct device *d, size_t n); /* host memory that copies are fast to */
	void (*pinned_free)(struct device *d, float *host);
	/* get, beside what is under way: waits for nothing but this copy. x must be final. */
	void (*fetch)(struct device *d, float *host, const float *x, size_t n);
	/* Zeroed floats that other processes of this machine map by the handle. */
	float *(*shared_new)(struct device *d, size_t n, unsigned char handle[PEER_HANDLE_BYTES]);
	void (*shared_free)(struct device *d, float *p);
	/* NULL: this device cannot map them. */
	float *(*shared_map)(struct device *d, const unsigned char handle[PEER_HANDLE_BYTES]);
	void (*shared_unmap)(struct device *d, float *p);
	/* y = a (x[0] + ... + x[k - 1]), added in this order; y may be one of x. Not waited for. */
	void (*sum)(struct device *d, float *y, const float *const *x, int k, float a, size_t n);
	/* pass_apply (table.h) on device floats. */
	void (*pass)(struct device *d, const struct table_rules *r, const struct pass *p, float *w,
		     float *state, float *own, float *pulled, const float *in, float *out,
		     size_t n);
	/* NCCL, one device a rank. Rank 0 makes the id. A sentence (heap) where it cannot be had.
	 */
	char *(*nccl_id)(struct device *d, unsigned char id[NCCL_ID_BYTES]);
	char *(*nccl_new)(struct device *d, void **nccl, const unsigned char id[NCCL_ID_BYTES],
			  int rank, int size);
	void (*nccl_free)(struct device *d, void *nccl);
	void (*nccl_allreduce)(struct device *d, void *nccl, float *x, size_t n); /* sum */
};

/* Of a convolution, a pooling or a batch normalisation. */
struct shape {
	struct image in, out;
	struct window window; /* norm: none */
	bool bias, relu;      /* conv; relu: norm too */
	bool average;         /* pool */
	bool adds;            /* norm */
	size_t rows_max;
};

struct device {
	const struct device_ops *ops;
	struct tally tally;
	float lr;               /* of the step, and */
	uint64_t key;           /* what its random numbers are drawn from */
	const char *precision;  /* of matrix work: "float32", "tf32", "bf16" */
	int number;             /* of several of its kind on this machine */
	uint64_t identity;      /* of the one that was opened, unlike any other's */
	size_t bytes;           /* that alloc has given out, */
	size_t workspace_bytes; /* and that libraries took */
	int convs;              /* that were prepared on it */
	bool replaying;         /* inside a body that is kept */
	void *at;               /* the device's own */
};

/* Until all that was asked of it is done; d may be NULL. */
static inline void device_sync(struct device *d)
{
	if (d && d->ops->sync)
		d->ops->sync(d);
}

extern const struct device_ops device_cpu;
/* From here on, this thread takes denormal numbers as zeros. Trainers and servers do. */
void cpu_flush_denormals(void);
extern const struct device_ops device_cuda;
extern const struct device_ops device_none;      /* lengths only: computes and holds nothing */
extern const struct device_ops *const devices[]; /* what --device can name; ends at NULL */

struct vec {
	float *data; /* on the device; NULL on device_none */
	size_t n;
	struct device *dev;
	bool view; /* owns no floats */
};

static inline float *vec_floats(const struct vec *v, size_t first)
{
	return v->data ? v->data + first : link_nowhere();
}

void tally_take(struct worker *w, struct tally *out);

/* ---- The timeline (trace.c): what a worker is in, from when to when ---- */

/* The names in results; view event_kind of schema.sql says what each is, and its colour. What lies
 * in another comes after it. */
#define TRACE_KINDS(X) \
	X(STEP, step) \
	X(COMPUTE, compute) \
	X(DELAY, delay) \
	X(UPDATE, update) \
	X(PAUSE, pause) \
	X(PUSH, push) \
	X(PULL, pull) \
	X(PACK, pack) \
	X(SEND, send) \
	X(RECV, recv) \
	X(EXCHANGE, exchange) \
	X(ALLREDUCE, allreduce) \
	X(ALLGATHER, allgather) \
	X(BROADCAST, broadcast) \
	X(BARRIER, barrier) \
	X(APPLY, apply) \
	X(WAIT, wait) \
	X(EVALUATE, evaluate)
enum trace_kind {
#define ROW(id, name) TRACE_##id,
	TRACE_KINDS(ROW)
#undef ROW
		TRACE_KINDS_COUNT
};
extern const char *const trace_names[TRACE_KINDS_COUNT];

struct slice {
	nsec start, length; /* start: since the run's timeline began */
	int64_t bytes;      /* that this rank sent; -1: does not apply */
	/* A push: its number; who applies it for another: that one's number. Numbers of tables that
	 * workers reach by themselves count all their pushes; 0 = none. */
	int64_t flow;
	int64_t seen;       /* such a table's pushes that are in what was pulled; 0 = nothing was */
	int64_t collective; /* the how many-th since stats_reset; -1: it was none */
	int32_t kind, rank, epoch, step; /* step: of its epoch, from 1; 0 = between steps */
	int32_t peer;                    /* rank; -1 = all, or not known */
	int32_t staleness;               /* of a push; -1: it is none */
	int32_t seq, parent; /* of this rank; parent: in which this one lies, -1 = none */
};

struct trace;
struct stats;
struct link;

/* Collective over l, of all ranks, workers and servers: finds out how their clocks differ. Keeps up
 * to `room` events, or fewer if all ranks of this process would take too much memory. */
struct trace *trace_new(struct link *l, int rank, int size, size_t room);
void trace_free(struct trace *t); /* NULL is fine */
/* What begins belongs to this step. */
void trace_at(struct trace *t, int64_t epoch, int64_t step);
/* The event's place, for whoever knows more of it; allocates nothing. When there is no room left,
 * the event is counted and lost. */
struct slice *trace_add(struct trace *t, enum trace_kind kind, nsec since, nsec until);
void trace_of(const struct trace *t, int32_t *epoch, int32_t *step);
/* Puts the events since the last time in order and says which lies in which. s: knows what was
 * waiting inside collectives (stats_fold); NULL = there were none. */
void trace_settle(struct trace *t, const struct stats *s);
/* Off the clock: sends what was settled to rank `to`, and forgets it. */
void trace_send(struct trace *t, struct link *l, int to);
/* Events of several ranks. */
struct slices {
	struct slice *event;
	size_t n, lost;
};
void trace_take(struct trace *t, struct slices *all); /* this rank's own */
void trace_recv(struct link *l, int from, struct slices *all);

/* ---- Communication: comm.c counts and times, the platform's own file (mpi.c) moves. ---- */

/* A histogram of staleness is exact below STALENESS_EXACT; above, each octave has 16 bins. */
enum { STALENESS_EXACT = 128, STALENESS_BINS = STALENESS_EXACT + 16 * 16 };
int64_t staleness_of_bin(int bin); /* the least staleness that falls into it */

struct stats {           /* of one worker since stats_reset */
	nsec comm, wait; /* in wrappers; in barriers and locks */
	int64_t bytes_sent;
	int64_t pushes, staleness_sum, staleness_max; /* pushes: those that were applied */
	int64_t dropped;                              /* came too late for their round */
	int64_t staleness[STALENESS_BINS];
	/* The durations of collectives. Over the trainers, the shortest is the cost of one (the
	 * last to arrive waits for nobody); what another spends longer is waiting. */
	float *collective_s, *shortest_s;
	size_t collectives, room; /* collectives may exceed room: the rest is extrapolated */
	struct trace *trace;      /* where events go now; NULL = nowhere */
};

/* Without a timeline this is one branch. */
static inline void traced(const struct stats *s, enum trace_kind kind, nsec since, nsec until,
			  int peer)
{
	if (__builtin_expect(s->trace != NULL, 0))
		trace_add(s->trace, kind, since, until)->peer = peer;
}

/* stats.c, but stats_fold: comm.c. */
void stats_init(struct stats *s, size_t room); /* room: collectives of a race that are kept */
void stats_fini(struct stats *s);
void stats_reset(struct stats *s);
/* A push met so many foreign ones since its worker's last pull. */
void stats_push(struct stats *s, int64_t staleness);
/* Collective, off the clock, after a race: finds each collective's shortest duration over the
 * trainers. */
void stats_fold(struct worker *w);
/* After stats_fold: what this worker waited in collectives first to last - 1 since stats_reset. */
nsec stats_waited(const struct stats *s, size_t first, size_t last);

struct comm *comm_layout(int rank, int size);       /* without a link: for laying out models only */
struct comm *comm_world_trainers(struct worker *w); /* every trainer; counts into w->stats */
/* Collective: finds the transport for vectors up to v's length on v's device; name: --transport,
 * "auto" or one to use. Ends the run with a sentence if that cannot be used. Host vectors, and a
 * comm of one: nothing to do. */
void comm_prepare(struct comm *c, const struct vec *v, const char *name);
/* Its name; NULL for host vectors, and on a comm of one. */
const char *comm_transport(const struct comm *c);

/* The platform's side. Ranks are those of the comm. link is what the platform made of it. */
struct link;
bool platform_under_launcher(void); /* mpirun, srun started this process */
/* Takes MPI as the program has started it, or starts it if `mpi`; else this process is alone. */
void platform_open(bool mpi, int *rank, int *size);
/* Processes of one machine that were started one by one become one MPI job (rendezvous.c): called
 * before platform_open(true), with the same file by all. NULL, or a sentence. */
char *rendezvous(const char *file, int rank, int size, double timeout_s);
bool platform_gone(void);              /* the program has ended MPI before platform_stop */
void platform_start(struct worker *w); /* sets rank and size; no MPI for one worker alone */
void platform_stop(void);
void platform_abort(int status) __attribute__((noreturn));
const char *platform_version(void); /* "Open MPI v4.1.4" */
struct link *link_world(int size);  /* ranks below size, in order */
struct link *link_split(struct link *l, int color, int *rank, int *size);
void link_free(struct link *l);
bool link_one_node(struct link *l); /* do all share memory? */
bool link_reads_devices(void);      /* may x be on a GPU, in messages and allreduce? */
void link_send(struct link *l, int to, const float *x, size_t n);
/* The same, but may return before the other end has received. */
void link_send_plain(struct link *l, int to, const float *x, size_t n);
void link_recv(struct link *l, int from, float *x, size_t n);
void link_exchange(struct link *l, int peer, const float *out, float *in, size_t n);
/* Sends out to one rank and receives as much from another. */
void link_shift(struct link *l, int to, const float *out, int from, float *in, size_t n);
void link_allreduce(struct link *l, float *x, size_t n);
/* Started reductions have a slot, below LINK_SLOTS. */
enum { LINK_SLOTS = 64 };
void link_allreduce_start(struct link *l, int slot, float *x, size_t n);
void link_allreduce_wait(struct link *l, int slot);
void link_gather_counts(struct link *l, int mine, int *all); /* all[size] on every rank */
void link_allgather(struct link *l, float *all, const int *counts, const int *firsts,
		    const float *mine, int n);
void link_broadcast(struct link *l, int root, void *x, size_t bytes);
void link_barrier(struct link *l);
enum fold { FOLD_SUM, FOLD_MAX, FOLD_MIN };
void link_fold(struct link *l, double *x, int n, enum fold how); /* small, off the clock */
void link_fold_float_min(struct link *l, float *x, int n);
void link_gather_bytes(struct link *l, const void *mine, void *all, int bytes); /* to rank 0 */
/* Zeroed memory that all ranks of a node share; each rank gets the same block. */
void *link_shared_new(struct link *l, size_t bytes, void **handle);
void link_shared_free(void *p, void *handle);
/* A window: floats of every rank, zero at first, and int64 counters of rank 0, all of which all
 * ranks reach without the owner's help. What is started (all but new, free, sync, looked) is done
 * after the flush of that rank; each element is added to and read atomically. */
struct link_window;
/* Collective. floats: this rank's own, which *own points to; counters: equal on all ranks. */
struct link_window *link_window_new(struct link *l, size_t floats, size_t counters, float **own);
void link_window_free(struct link_window *w); /* collective */
/* Before and after plain loads and stores of own floats that nobody else is reaching for. */
void link_window_sync(struct link_window *w);
void link_window_get(struct link_window *w, int rank, size_t first, float *x, size_t n);
void link_window_add(struct link_window *w, int rank, size_t first, const float *x, size_t n);
/* old = the floats before x was added */
void link_window_get_add(struct link_window *w, int rank, size_t first, const float *x, float *old,
			 size_t n);
/* by has to stay until the flush. */
void link_window_count(struct link_window *w, size_t counter, const int64_t *by, int64_t *before);
/* Reads the first n counters: they are there when looked says so, which needs no flush. looked also
 * gives others a turn at this rank's floats, where that takes its help. */
void link_window_look(struct link_window *w, int64_t *x, size_t n);
bool link_window_looked(struct link_window *w);
void link_window_flush(struct link_window *w, int rank); /* rank -1: all of them */
/* Mail between ranks that must not spin (table_servers.c). A request is a number from 0; link_look
 * finds out which are done, and link_done makes such a one -1; -1 is done. bytes: a multiple of a
 * float's. */
int link_rank(struct link *l);
int link_size(struct link *l);
void link_bells_new(struct link *l);  /* collective, once: on one machine, sleepers can be woken */
void link_bells_free(struct link *l); /* collective; before link_free, when there are any */
void link_ring(struct link *l, int rank); /* after each message */
/* Until this rank's bell rings; at most a nap, which grows from time to time: begin with 0. */
void link_sleep(struct link *l, nsec *nap);
void link_tell(struct link *l, int to, int tag, const void *x, size_t bytes); /* few: at once */
int link_send_start(struct link *l, int to, int tag, const void *x, size_t bytes);
int link_recv_start(struct link *l, int from, int tag, void *x, size_t bytes);
bool link_look(struct link *l); /* false: nothing new is done */
bool link_done(struct link *l, int *request);
void link_cancel(struct link *l, int *request); /* a receive */

struct link *comm_link(struct comm *c);

/* ---- Options and configurations (options.c, config.c) -------------------- */

extern const struct option run_options[]; /* of struct run; ends at name NULL */

void option_default(const struct option *table, void *fields);
/* Strings and choices are not copied: text must outlive the fields. owner: of a plug-in's, or
 * NULL. */
char *option_set(const struct option *o, void *fields, const char *owner, const char *text);
/* The value as a user would type it. */
void option_text(const struct option *o, const void *fields, char *buf, size_t room);
const struct option *option_find(const struct option *table, const char *name);
/* The name in the list that is nearest to what was typed, or NULL when none is near. */
const char *nearest(const char *typed, const char *const *names, size_t n);
void option_help(FILE *f, const char *prefix, const struct option *table);
/* What help shows of an option: as one types its default, and what it is; both on the heap. */
void option_words(const struct option *o, const char *owner, char **left, char **right);
/* Prints words from this column on, in lines of at most 100. */
void text_wrap(FILE *f, const char *text, int column);
void text_row(FILE *f, const char *left, const char *right); /* in two columns, as options are */
void option_json(FILE *f, const struct option *o, const void *fields); /* the value */
void text_json(FILE *f, const char *s); /* "s", escaped, and valid UTF-8 whatever s is */
/* Reads one character of UTF-8 and moves past it; U+FFFD for a byte that is none. */
uint32_t text_character(const char **s);
/* Writes that character; or all of them, for what people typed need not be UTF-8. */
void text_put(FILE *f, const char **s);
void text_utf8(FILE *f, const char *s);

/* A command line cut up: options in the order given, then positional words. */
struct arguments {
	struct setting *option; /* value NULL where there is none */
	size_t options;
	const char **word;
	size_t words;
	bool help;
};
/* bare(name): does this option take no value when none is given with '='? */
char *arguments_read(struct arguments *a, int argc, char **argv, bool (*bare)(const char *name));
void arguments_free(struct arguments *a);
/* Sets fields from the options that the table has, and takes those out of a. A sentence, or
 * NULL. */
char *arguments_take(struct arguments *a, const struct option *table, void *fields);
/* NULL, or a sentence about the first option that nobody took, with the table's nearest name. */
char *arguments_refuse(const struct arguments *a, const struct option *table);

/* One experiment: the core options and those of its strategy and workload, resolved. */
struct config {
	struct run run;
	const struct strategy *strategy;
	const struct workload *workload;
	void *strategy_opts, *workload_opts;
	char **strings; /* what the fields point to */
	size_t nstrings;
};
/* Later settings win; the workload's recipe stands below them. lenient: options of plug-ins that
 * this configuration does not use are checked by name only (job files share their defaults). */
char *config_init(struct config *c, const struct setting *given, size_t n, bool lenient);
void config_fini(struct config *c);
/* NULL, or a sentence: is there an option of each name, with a value if it needs one? */
char *settings_check(const struct setting *given, size_t n);
/* NULL, or a sentence: is there such an option, core or a plug-in's, and is this a value of it? */
char *config_check(const char *name, const char *value, const struct option **out);
/* Calls each(ctx, part, option, value as text) for every option; part: "run", "strategy",
 * "workload". */
void config_each(const struct config *c,
		 void (*each)(void *ctx, const char *part, const struct option *o,
			      const char *value),
		 void *ctx);
void config_hash(const struct config *c, char hex[17]); /* the identity of a cell */
/* What --speed, --pause, --leave and --sim.slow-link say of one worker (uneven.c). Times count from
 * the start of the first race, over races only: while models are judged they stand still. */
#define NEVER INT64_MAX
struct uneven {
	double speed;         /* its gradients take 1 / speed times as long; (0, 1] */
	nsec pause_at, pause; /* before the first step from then on it stands still, so long */
	nsec leave_at;        /* the first step from then on, and all after it, it does not make */
	double link;          /* of the bandwidth of its links; (0, 1] */
};
struct uneven uneven_of(const struct run *run, int rank); /* as every other, if nothing is said */
/* NULL, or a sentence: if o is one of these options, is this such a list? */
char *uneven_check(const struct option *o, const char *text);
/* NULL, or a sentence: can the workers of this run be told so? */
char *uneven_refuse(const struct config *c);
/* The arguments that give this configuration again: --name=value ..., ends at NULL; for
 * free_words. */
char **config_words(const struct config *c);
void free_words(char **words);
/* The learning rate of a step: epochs count from 1, fraction is how much of it is over [0, 1),
 * models how many train in parallel (--lr-scale). */
double lr_at(const struct run *run, int models, int64_t epoch, double fraction);
void lr_fill(const struct run *run, int models, int64_t epoch, float *lr, size_t steps);
/* NULL, or a sentence: is this "auto" (NaN) or a time above 0? seconds may be NULL. */
char *time_check(const char *name, const char *text, double *seconds);
/* NULL, or a sentence: is this a schedule? */
char *lr_schedule_check(const char *schedule);
int config_model_workers(const struct config *c);

const struct strategy *strategy_find(const char *name);
const struct workload *workload_find(const char *name);

int usable_cores(void); /* of this machine, by the process or by its launcher */

/* What a worker takes of its device's memory [bytes]. */
struct footprint {
	size_t parameters; /* with gradients and velocities */
	size_t activations;
	size_t data;      /* the data set */
	size_t workspace; /* at most, of libraries; and what the device takes for itself */
};

/* What probing found out, before anything is started. */
struct plan {
	struct data train, test; /* shapes only */
	int64_t params;          /* of the whole model */
	int64_t steps;           /* of one epoch */
	int cores;               /* that this machine has */
	bool oversubscribed;
	const char *device;         /* the one that `auto` chose, */
	const char *passed_over;    /* why it took the cpu although a GPU may be there; NULL */
	struct device_facts facts;  /* and what it is */
	struct footprint footprint; /* of one worker, where the device has memory of its own */
	const struct simulation *simulation; /* NULL in the real world */
};
/* Checks that this configuration can run here, laying out the model without memory. */
char *plan_make(const struct config *c, struct plan *p);

/* ---- Results leave through a sink, on rank 0 only ------------------------ */

struct machine { /* provenance; strings live as long as the program */
	const char *host, *cpu, *mpi, *onednn, *git_commit;
	int cores;
	bool git_dirty;
};
const struct machine *machine(void);

struct experiment { /* what is known when a run begins */
	const struct config *config;
	const struct machine *machine;
	const struct plan *plan;
	const char *started;    /* ISO 8601, UTC */
	const char *table_home; /* where parameter-server tables live; NULL: the run has none */
	const char *transport;  /* of vectors on GPUs; NULL: none travel */
};

struct split_row { /* of one rank, or the mean over trainers [s] */
	double seconds, compute_s, comm_s, wait_s;
	int64_t bytes_sent;
	int64_t pushes, staleness_sum, staleness_max, dropped;
};

/* One pass of a worker over a shard, in the order in which they took place (--record). Between two
 * passes of equal shard and table, seq tells which came first: every float saw them in this order.
 */
struct arrival {
	int64_t seq;    /* from 0, of this shard of this table */
	int32_t worker; /* rank */
	int16_t table, shard;
	char kind[8]; /* "push", "pull", "sync" (both), "elastic", "drop"; "round": one has ended */
};

/* All arrivals of a run, by table, shard and seq, which are without gaps. */
struct record {
	int64_t run;
	struct arrival *pass;
	size_t n;
};

struct epoch_row {              /* losses and accuracies: NaN = not known */
	int64_t epoch;          /* 0 = before training */
	struct split_row split; /* times: mean over trainers, but seconds: the race's */
	double train_loss, train_accuracy, test_loss, test_accuracy;
};

/* What is known of a run when it ends. */
struct closing {
	char model_hash[17]; /* of the canonical model's floats; "" = it has none */
	bool simulated;
	struct world_cost cost;
};

/* Each returns NULL or a sentence; after a sentence the run fails. */
struct sink {
	void *self;
	char *(*begin)(void *self, const struct experiment *e, int64_t *id);
	/* staleness: how many of the epoch's pushes fell into each of STALENESS_BINS bins; NULL =
	 * there were no pushes. */
	char *(*epoch)(void *self, const struct epoch_row *row, const struct split_row *ranks,
		       int n, const int64_t *staleness);
	/* What --record asks for: after each race, before its epochs. NULL = not wanted. */
	char *(*arrivals)(void *self, const struct arrival *a, size_t n);
	/* What --trace asks for: after each race and its judging; by rank, in order. lost: events
	 * that there was no room for. NULL = not wanted. */
	char *(*events)(void *self, const struct slice *e, size_t n, size_t lost);
	/* On every rank at the end: how long each of its steps took [s]. NULL = not wanted. */
	void (*steps)(void *self, struct worker *w, const float *step_s, size_t n);
	double steps_wanted_s; /* with steps: as many are taken as fit in this time */
	/* Called on every rank at the end: the final model stands in w->param. NULL = not wanted;
	 * only programs that look into a run set it. */
	void (*model)(void *self, struct worker *w);
	/* Before the end of a run that is done or has diverged. NULL = not wanted. */
	char *(*closing)(void *self, const struct closing *c);
	/* status: done, failed or diverged; reason NULL when done */
	char *(*end)(void *self, const char *status, const char *reason);
};

/* ---- Training and launching ---------------------------------------------- */

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

/* What all workers of a process have in common (common.c): the data set, which the first that asks
 * loads and the last one frees; NULL or the load's sentence. */
char *data_open(const struct dataset *set, const struct run *run, struct data *train,
		struct data *test);
void data_close(const struct dataset *set);
/* An epoch's permutation of n rows; valid until the next call. */
const int32_t *data_order(size_t n, int64_t seed, int64_t epoch);

/* A worker's whole life, or the lives of all simulated ones; returns the exit status. live may be
 * NULL. */
int train(const struct config *c, const struct plan *plan, const struct sink *sink,
	  struct live *live);

/* How a launched run is watched. */
struct watcher {
	void *self;
	void (*tick)(void *self, const struct live *live); /* ten times a second or more */
};
/* Starts the workers (in a child, or through mpirun), waits for them, returns the exit status that
 * they ended with. Each is this program with the command's name and the configuration's words;
 * worker(ctx, live) is what a child without mpirun runs. The reason for a status
 * other than 0 is in *why (heap). live_out gets the shared page; unmap with live_free. */
int launch(const struct config *c, const char *command, int (*worker)(void *ctx, struct live *live),
	   void *ctx, const struct watcher *watcher, struct live **live_out, char **why);
void live_free(struct live *l);
/* The last words: readers that see LIVE_ENDED see status and reason too. */
void live_end(struct live *l, int status, const char *reason);
struct live *live_of_launcher(void); /* in a worker started by launch through mpirun; else NULL */
int rank_of_launcher(void);          /* -1: no launcher started this process */
int rank_on_node(void);              /* 0: likewise */
/* In a worker, first of all: its errors, and the watcher of its run, can then say who it is. */
void worker_introduce(const struct config *c);
void panic_as(const char *who); /* who it is; must outlive the process's errors */
/* Last words go here, and not to the terminal: somebody else shows them. */
void panic_to(char *text, size_t room);

/* A folder or file of the installation (plots, workloads/sweeps, sim/platforms/titanx4.xml): beside
 * the program's build folder, or under ../share/mvbench. Heap; NULL when it is not there. */
char *installed_path(const char *name);

/* ---- Commands, and what help says of them (command.c): results.h lists them ------------- */

struct command {
	const char *name, *summary;
	/* The words after the name. The first says what may stand there: FILE.ini, FIGURE, TOPIC,
	 * or a|b|c to choose from; brackets where it need not. */
	const char *usage;
	const char *about;                 /* for --help: paragraphs, an empty line between them */
	const struct option *options;      /* its own; ends at name NULL */
	bool run_options;                  /* also takes every option of mvbench run */
	bool (*bare)(const char *name);    /* options that need no value; NULL = none */
	int (*run)(int argc, char **argv); /* with the words after its name; an exit status */
	void (*more)(FILE *f);             /* what --help says after the options; NULL = nothing */
};
/* What --help says, made from the above. */
void command_help(FILE *f, const struct command *c);

/* A page of help: as text, or as the source of a manual page (roff). Each part but a title begins
 * with an empty line. */
struct help {
	FILE *f;
	bool roff;
};
void help_head(const struct help *p, int level, const char *text); /* level: 1 or 2 */
void help_words(const struct help *p, const char *text); /* paragraphs, an empty line between */
void help_row(const struct help *p, const char *left, const char *right);
void help_options(const struct help *p, const char *owner, const struct option *table);
void help_verbatim(const struct help *p, const char *text);
/* The same as command_help. level: of its heads. */
void help_command(const struct help *p, int level, const struct command *c);

/* A workload's own defaults, as one types them; from the heap. */
char *recipe_words(const struct setting *recipe);

/* All that there is to choose from, by kind: "strategy", "updater", "workload", "device",
 * "platform" (list.c). */
void catalogue_each(void (*each)(void *ctx, const char *kind, const char *name,
				 const char *summary),
		    void *ctx);

extern const struct command command_list; /* the one that needs no results (list.c) */

#endif
