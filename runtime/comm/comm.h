/*
 * comm.h - communication: the timeline and the counters of a worker, communicators from inside, and
 * links, the one thing that MPI (mpi.c) stands behind.
 */
#ifndef COMM_H
#define COMM_H

#include "runtime/device/device.h"

/* ---- The timeline (trace.c): what a worker is in, from when to when ---- */

/* The names in results; view event_kind (timeline.sql) says what each is, and its colour. What lies
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
	int64_t seen;    /* such a table's pushes that are in what was pulled; 0 = nothing was */
	int64_t meeting; /* the how many-th meeting since stats_reset; -1: it was none */
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
 * waiting inside meetings (stats_reduce); NULL = there were none. */
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

/* What takes several at once: a collective, or a message from one to another. Over those who take
 * part, the shortest duration is what it costs (the last to arrive waits for nobody); what another
 * spends longer is waiting. */
struct meeting {
	struct comm *comm;
	float s, shortest_s;
	int16_t peer; /* rank in comm; -1 = all of it */
	int16_t last; /* whom the others waited for, among all workers */
};

struct stats {           /* of one worker since stats_reset */
	nsec comm, wait; /* in wrappers; in barriers and locks */
	int64_t bytes_sent;
	int64_t pushes, staleness_sum, staleness_max; /* pushes: those that were applied */
	int64_t dropped;                              /* came too late for their round */
	int64_t preemptions;                          /* see usage_now; -1: not known */
	int64_t staleness[STALENESS_BINS];
	struct meeting *meeting;
	/* All; those that are kept; of these, from the first, those that stats_reduce has compared:
	 * the rest is extrapolated. */
	size_t meetings, room, compared;
	struct trace *trace; /* where events go now; NULL = nowhere */
};

/* Without a timeline this is one branch. */
static inline void traced(const struct stats *s, enum trace_kind kind, nsec since, nsec until,
			  int peer)
{
	if (__builtin_expect(s->trace != NULL, 0))
		trace_add(s->trace, kind, since, until)->peer = peer;
}

/* stats.c, but stats_reduce: comm.c. */
void stats_init(struct stats *s, size_t room); /* room: meetings of a segment that are kept */
void stats_fini(struct stats *s);
void stats_reset(struct stats *s);
/* A push met so many foreign ones since its worker's last pull. */
void stats_push(struct stats *s, int64_t staleness);
/* Collective, off the clock, after a segment: compares the durations of each meeting over those who
 * took part. */
void stats_reduce(struct worker *w);
/* After stats_reduce: what this worker waited in meetings first to last - 1 since stats_reset. */
nsec stats_waited(const struct stats *s, size_t first, size_t last);

/* How vectors of a device can travel (transport.c), the one that auto prefers first. */
#define TRANSPORT_LIST(X)      X(nccl) X(ipc) X(mpi) X(staged)
#define TRANSPORT_CHOICE(name) "|" #name
#define TRANSPORTS             "auto" TRANSPORT_LIST(TRANSPORT_CHOICE)

struct comm *comm_layout(int rank, int size); /* without a link: for laying out models only */
/* Every trainer; counts into w->stats. transport: what vectors on GPUs go by, as for comm_prepare.
 */
struct comm *comm_world_trainers(struct worker *w, const char *transport);
/* Collective: finds the transport for vectors up to v's length on v's device; name: --transport,
 * "auto" or one to use. Ends the run with a sentence if that cannot be used. Host vectors, and a
 * comm of one: nothing to do. */
void comm_prepare(struct comm *c, const struct vec *v, const char *name);
/* The same; but that it cannot be used is a sentence, the same on all ranks. NULL: it can. */
char *comm_try(struct comm *c, const struct vec *v, const char *name);
/* Its name; NULL for host vectors, and on a comm of one. */
const char *comm_transport(const struct comm *c);
/* What all but reductions go by; likewise. */
const char *comm_messages(const struct comm *c);

/* The platform's side. Ranks are those of the comm. link is what the platform made of it. */
struct link;
/* Takes MPI as the program has started it, or starts it if `mpi`; else this process is alone. */
void platform_open(bool mpi, int *rank, int *size);
bool platform_gone(void);              /* the program has ended MPI before platform_stop */
void platform_start(struct worker *w); /* sets rank and size; no MPI for one worker alone */
void platform_stop(void);
const char *platform_version(void); /* "Open MPI v4.1.4" */
struct link *link_world(int size);  /* ranks below size, in order */
struct link *link_split(struct link *l, int color, int *rank, int *size);
int link_rank(const struct link *l);
int link_size(const struct link *l);
void link_free(struct link *l);
struct link *link_of_node(struct link *l); /* those that share memory with this one */
bool link_one_node(struct link *l);        /* do all share memory? */
bool link_reads_devices(void);             /* may x be on a GPU, in messages and allreduce? */
void link_send(struct link *l, int to, const float *x, size_t n);
/* The same, but may return before the other end has received. */
void link_send_plain(struct link *l, int to, const float *x, size_t n);
void link_recv(struct link *l, int from, float *x, size_t n);
void link_exchange(struct link *l, int peer, const float *out, float *in, size_t n);
/* Sends out to one rank and receives as much from another. */
void link_shift(struct link *l, int to, const float *out, int from, float *in, size_t n);
void link_allreduce(struct link *l, float *x, size_t n);
void link_allreduce_by(struct link *l, float *x, size_t n, enum reduce how); /* MEAN: as SUM */
/* Started reductions have a slot, below LINK_SLOTS. */
enum { LINK_SLOTS = ALLREDUCES_MOST };
void link_allreduce_start(struct link *l, int slot, float *x, size_t n);
void link_allreduce_wait(struct link *l, int slot);
void link_gather_counts(struct link *l, int mine, int *all); /* all[size] on every rank */
void link_allgather(struct link *l, float *all, const int *counts, const int *firsts,
		    const float *mine, int n);
void link_broadcast(struct link *l, int root, void *x, size_t bytes);
void link_barrier(struct link *l);
/* The same, but who waits sleeps: ranks that measure meanwhile have the cores. */
void link_barrier_asleep(struct link *l);
enum link_reduce { REDUCE_SUM, REDUCE_MAX, REDUCE_MIN };
/* small, off the clock */
void link_reduce_all(struct link *l, double *x, int n, enum link_reduce how);
struct least {
	float x;
	int who; /* its owner; the lower of two */
};
void link_reduce_all_least(struct link *l, struct least *x, int n);
void link_gather_bytes(struct link *l, const void *mine, void *all, int bytes); /* to rank 0 */
/* To rank 0, which gets all ranks' parts in order, *total bytes from the heap; others NULL. Parts
 * are multiples of a float, and may differ. */
void *link_gather_parts(struct link *l, const void *mine, size_t bytes, size_t *total);
/* The same on all ranks: NULL, or the sentence (heap) of the lowest rank that has one. Frees mine.
 */
char *link_agree(struct link *l, char *mine);
/* Zeroed memory that all ranks of a node share; each rank gets the same block. */
void *link_shared_new(struct link *l, size_t bytes, void **handle);
void link_shared_free(void *p, void *handle);
/* A window: floats of every rank, zero at first, and int64 counters of rank 0, all of which all
 * ranks reach without the owner's help. What is started (all but new, free, sync, ready) is done
 * after the flush of that rank; each element is added to and read atomically. */
struct link_window;
/* Collective. floats: this rank's own, which *own points to; counters: equal on all ranks. */
struct link_window *link_window_new(struct link *l, size_t floats, size_t counters, float **own);
void link_window_free(struct link_window *w); /* collective */
/* Before and after plain loads and stores of own floats that nobody else is reaching for. */
void link_window_sync(struct link_window *w);
/* old = the floats (NULL: nobody asks), then floats += x (NULL: nothing). */
void link_window_reach(struct link_window *w, int rank, size_t first, const float *x, float *old,
		       size_t n);
/* by has to stay until the flush. */
void link_window_count(struct link_window *w, size_t counter, const int64_t *by, int64_t *before);
/* Reads the first n counters: they are there when link_window_ready says so, which needs no flush.
 * That also gives others a turn at this rank's floats, where that takes its help. */
void link_window_read_counters(struct link_window *w, int64_t *x, size_t n);
bool link_window_ready(struct link_window *w);
void link_window_flush(struct link_window *w, int rank); /* rank -1: all of them */
/* Mailboxes of ranks that must not spin (runtime/table/servers.c). A request is a number from 0;
 * link_progress finds out which are done, and link_test makes such a one -1; -1 is done. bytes: a
 * multiple of a float's. */
void link_wakeup_new(struct link *l);  /* collective, once: on one machine, sleepers can be woken */
void link_wakeup_free(struct link *l); /* collective; before link_free, when there are any */
void link_wake(struct link *l, int rank); /* after each message */
/* Until this rank is woken; at most a nap, which grows from time to time: begin with 0. */
void link_sleep(struct link *l, nsec *nap);
/* few: at once */
void link_send_eager(struct link *l, int to, int tag, const void *x, size_t bytes);
int link_send_start(struct link *l, int to, int tag, const void *x, size_t bytes);
int link_recv_start(struct link *l, int from, int tag, void *x, size_t bytes);
bool link_progress(struct link *l); /* false: nothing new is done */
bool link_test(struct link *l, int *request);
void link_cancel(struct link *l, int *request); /* a receive */

/* Where no launcher of ours watches: a thread of each rank that sees what those of its machine do,
 * and the first that is not stopped says who makes no progress; after timeout_s, which the user
 * knows as `setting`, it ends them (0: never). From rank `workers` on they serve, and wait for
 * nobody. Collective; NULL where this cannot be had. */
struct lookout *lookout_open(struct link *all, int workers, double timeout_s, const char *setting);
void lookout_close(struct lookout *o);

struct link *comm_link(struct comm *c);

#endif
