/*
 * comm.h - communication: timeline and counters of a worker, the inside of communicators, and
 * links, which are the only interface to MPI (mpi/).
 */
#ifndef COMM_H
#define COMM_H

#include "runtime/device/device.h"

/* ---- The timeline (trace.c): what a worker does, from when to when ---- */

/* The names in results; view event_kind (timeline.sql) has their meanings and colours. A kind that
 * can be inside another comes after it. */
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
	int64_t bytes;      /* sent by this rank; -1: does not apply */
	/* Of a push: its number; of an apply by another rank: that push's number; 0 = none. Tables
	 * that workers access directly number all their pushes in order. */
	int64_t flow;
	int64_t seen;     /* of a pull from such a table: pushes that it contains; 0 = no pull */
	int64_t joint_op; /* index of this operation with peers since stats_reset; -1: no such */
	int32_t kind, rank, epoch, step; /* step: of its epoch, from 1; 0 = between steps */
	int32_t peer;                    /* rank; -1 = all, or not known */
	int32_t staleness;               /* of a push; -1: not a push */
	int32_t seq, parent; /* number in this rank; parent: enclosing event, -1 = none */
};

struct trace;
struct stats;
struct link;

/* Collective over l, which has all ranks, workers and servers: measures their clock offsets. Keeps
 * up to `room` events, or fewer if all ranks of this process would take too much memory. */
struct trace *trace_new(struct link *l, int rank, int size, size_t room);
void trace_free(struct trace *t); /* NULL is fine */
/* Events from now on belong to this step. */
void trace_at(struct trace *t, int64_t epoch, int64_t step);
/* Returns the event, so that the caller can fill in more. Allocates nothing: without room the event
 * is counted as lost. */
struct slice *trace_add(struct trace *t, enum trace_kind kind, nsec since, nsec until);
void trace_of(const struct trace *t, int32_t *epoch, int32_t *step);
/* Sorts the events since the last call and finds each one's parent. s: has the waiting times inside
 * operations with peers (stats_reduce); NULL = no such operations. */
void trace_settle(struct trace *t, const struct stats *s);
/* Events of several ranks, by rank; heap. */
struct slices {
	struct slice *event;
	size_t n, lost;
};
/* Off the clock, collective over l: rank 0 gets the settled events of all ranks, the others none.
 * Clears them. */
struct slices trace_gather(struct trace *t, struct link *l);

/* ---- Communication: comm.c counts and times, links (mpi/) move the data ---- */

/* A histogram of staleness is exact below STALENESS_EXACT; above, each octave has 16 bins. */
enum { STALENESS_EXACT = 128, STALENESS_BINS = STALENESS_EXACT + 16 * 16 };
int64_t staleness_of_bin(int bin); /* the least staleness of a bin */

/* An operation with peers: a collective, or a message between two ranks. The shortest duration of
 * its ranks is its cost, because the last rank to arrive does not wait; the rest is waiting. */
struct joint_op {
	struct comm *comm;
	float s, shortest_s;
	int16_t peer; /* rank in comm; -1 = all ranks */
	int16_t last; /* the worker that the others waited for; rank among all workers */
};

struct stats {                                        /* of one worker since stats_reset */
	nsec comm, wait;                              /* in wrappers; in barriers and locks */
	int64_t bytes_sent, peak_bytes;               /* peak: the most in one step */
	int64_t pushes, staleness_sum, staleness_max; /* pushes: only applied ones */
	int64_t dropped;                              /* pushes after the end of their round */
	int64_t preemptions;                          /* see usage_now; -1: not known */
	int64_t staleness[STALENESS_BINS];
	struct joint_op *joint_op;
	/* Operations with peers; kept at most; the first ones that stats_reduce has compared. Waits
	 * of the others are extrapolated. */
	size_t joint_ops, room, compared;
	struct trace *trace; /* where events go now; NULL = no timeline */
};

/* Without a timeline this is one branch. */
static inline void traced(const struct stats *s, enum trace_kind kind, nsec since, nsec until,
			  int peer)
{
	if (__builtin_expect(s->trace != NULL, 0))
		trace_add(s->trace, kind, since, until)->peer = peer;
}
/* Counts the time since then as waiting; TRACE_PACK: as communication. */
static inline void stats_spent(struct stats *s, enum trace_kind kind, nsec since, int peer)
{
	nsec now = clock_now();
	*(kind == TRACE_PACK ? &s->comm : &s->wait) += now - since;
	traced(s, kind, since, now, peer);
}

/* stats.c; stats_reduce is in comm.c. */
void stats_init(struct stats *s, size_t room); /* room: operations to keep in a segment */
void stats_fini(struct stats *s);
void stats_reset(struct stats *s);
/* After a step that began with this number of bytes_sent. */
void stats_step(struct stats *s, int64_t sent_before);
/* Counts a push with this staleness: pushes of other workers since its worker's last pull. */
void stats_push(struct stats *s, int64_t staleness);
/* Collective, off the clock, after a segment: compares the durations of each operation over the
 * ranks that took part. */
void stats_reduce(struct worker *w);
/* After stats_reduce: this worker's waiting time in operations [first, last) since stats_reset. */
nsec stats_waited(const struct stats *s, size_t first, size_t last);

/* Transports for vectors of a device (transport.c), in the order that auto tries. */
#define TRANSPORT_LIST(X)      X(nccl) X(ipc) X(mpi) X(staged)
#define TRANSPORT_CHOICE(name) "|" #name
#define TRANSPORTS             "auto" TRANSPORT_LIST(TRANSPORT_CHOICE)

struct comm *comm_layout(int rank, int size); /* without a link: for laying out models only */
/* All trainers; counts into w->loop->stats. transport, "auto" or a name: for vectors on GPUs. */
struct comm *comm_world_trainers(struct worker *w, const char *transport);
/* Collective: opens the transport for vectors up to v's length on v's device. Ends the run with a
 * message if it cannot be used. Does nothing for host vectors or a comm of one. */
void comm_prepare(struct comm *c, const struct vec *v);
/* Collective: the memory of one more sum of vectors as v in the host's memory, which may be under
 * way beside others. Otherwise the first takes it. */
void comm_prepare_sums(struct comm *c, const struct vec *v);
/* comm_split; the first sum takes its memory. */
struct comm *comm_divide(struct comm *c, int color);
/* comm_prepare for a transport of this name. Returns the message, the same on all ranks; NULL: it
 * can be used. */
char *comm_try(struct comm *c, const struct vec *v, const char *name);
/* The workers of c; what they reduce or exchange is compressed by the run's codec. c itself without
 * a codec, and on a comm of one. For vecs laid out as v, whose floats are these tensors.
 * Collective, after the model is made: it is equal on all workers. Free it before c. */
struct comm *comm_coded(struct worker *w, struct comm *c, const struct vec *v,
			const struct tensor *tensor, size_t tensors);
/* What a checkpoint has of it: the i-th object, from 0 to 2, and for pairs one of each rank; NULL:
 * none. */
void *comm_kept(struct comm *c, int i, size_t *bytes);
struct vec *comm_kept_there(struct comm *c); /* the same; what feedback keeps on a GPU, or NULL */
/* Its name; NULL for host vectors, and on a comm of one. */
const char *comm_transport(const struct comm *c);
/* The transport of everything except reductions; likewise. */
const char *comm_messages(const struct comm *c);

/* The platform's side: a link is a communicator of MPI; ranks are those of the link. */
/* Uses MPI if the program has started it; otherwise starts it if `mpi`. Without MPI this process is
 * alone. */
void platform_open(bool mpi, int *rank, int *size);
bool platform_gone(void);              /* MPI has been finalized, by the program or by us */
void platform_start(struct worker *w); /* sets rank and size; no MPI for one worker alone */
void platform_stop(void);
const char *platform_version(void); /* "Open MPI v4.1.4" */
struct link *link_world(int size);  /* ranks below size, in order */
struct link *link_split(struct link *l, int color);
int link_rank(const struct link *l);
int link_size(const struct link *l);
void link_free(struct link *l);
struct link *link_of_node(struct link *l); /* of several ranks: those that share memory with this */
bool link_one_node(struct link *l);        /* do all ranks share memory? */
/* May x be on a GPU, in messages and link_allreduce_by_mpi? */
bool link_reads_devices(void);
void link_send(struct link *l, int to, const float *x, size_t n); /* returns once it is received */
/* For link_recv; blocking, but may return before the other end has received. bytes: a multiple of a
 * float's. */
void link_send_plain(struct link *l, int to, const void *x, size_t bytes);
void link_recv(struct link *l, int from, float *x, size_t n);
/* Sends out to one rank and receives n floats from another, or from the same. */
void link_shift(struct link *l, int to, const float *out, int from, float *in, size_t n);
/* COMM_MEAN: as COMM_SUM. A sum has the same bits on all ranks; if all are on one machine, it is in
 * the order of ranks. x is in the host's memory. */
void link_allreduce(struct link *l, float *x, size_t n, enum reduce how);
void link_allreduce_by_mpi(struct link *l, float *x, size_t n, enum reduce how);
/* Each pending reduction has a slot below LINK_SLOTS. A rank may wait for it before a barrier or a
 * message, and another rank after it. All other collectives come on all ranks before the wait, or
 * on all after it. */
enum { LINK_SLOTS = ALLREDUCES_MOST };
/* Collective: the memory of one more sum of n floats. Otherwise the first sum takes it. */
void link_prepare_sums(struct link *l, size_t n);
void link_allreduce_start(struct link *l, int slot, float *x, size_t n);
/* The same, in the real world, if the facts of all ranks are equal; otherwise the wait returns, and
 * x is as it was. facts [facts_n]: each is followed by its negative; they become the maxima over
 * the same ranks, as by link_reduce_all on facts_link. No rank waits for another. */
void link_allreduce_start_if(struct link *l, int slot, float *x, size_t n, struct link *facts_link,
			     double *facts, int facts_n);
static inline bool all_equal(const double *facts, int n)
{
	for (int i = 0; i < n; i += 2)
		if (facts[i] != -facts[i + 1])
			return false;
	return true;
}
void link_allreduce_wait(struct link *l, int slot);
/* Moves the messages of all started reductions of this process; call it now and then while the rank
 * computes or sleeps, because MPI moves none by itself. False: none is under way. */
bool link_progress_sums(void);
void link_allgather(struct link *l, float *all, const int *counts, const int *firsts,
		    const float *mine, int n);
/* Started, and waited for by link_start_wait. out: counts[j] floats from firsts[j] on go to rank j;
 * in: likewise, from rank j. */
void link_allgather_start(struct link *l, int slot, float *all, const int *counts,
			  const int *firsts, const float *mine, int n);
void link_alltoall_start(struct link *l, int slot, float *in, const int *counts_in,
			 const int *firsts_in, const float *out, const int *counts,
			 const int *firsts);
void link_start_wait(struct link *l, int slot);
void link_broadcast(struct link *l, int root, void *x, size_t bytes);
void link_barrier(struct link *l);
/* The same, but waiting ranks sleep, which leaves the cores to ranks that measure or record. Real
 * world, several ranks. */
void link_barrier_asleep(struct link *l);
enum link_reduce { REDUCE_SUM, REDUCE_MAX, REDUCE_MIN, REDUCE_LEAST, REDUCE_PRODUCT };
/* For small x[n], off the clock: doubles, or with REDUCE_LEAST struct least. */
void link_reduce_all(struct link *l, void *x, int n, enum link_reduce how);
/* For x[n] of a type, any n, in the real world: sum, product, maximum or minimum. */
enum link_type { LINK_FLOAT, LINK_DOUBLE, LINK_INT32, LINK_INT64 };
void link_reduce_typed(struct link *l, void *x, size_t n, enum link_type type,
		       enum link_reduce how);
struct least {
	float x;
	int rank; /* its owner; of equal ones the lowest */
};
static inline bool is_less(struct least a, struct least b)
{
	return a.x < b.x || (a.x == b.x && a.rank < b.rank);
}
/* all[size] on rank root = each rank's mine; root -1: on every rank. */
void link_gather(struct link *l, int root, const void *mine, void *all, int bytes);
/* Rank 0 gets the parts of all ranks in order, *total bytes on the heap; other ranks get NULL.
 * Parts are multiples of a float and may differ in length. */
void *link_gather_parts(struct link *l, const void *mine, size_t bytes, size_t *total);
/* Returns the same on all ranks: NULL, or the message (heap) of the lowest rank that has one. Frees
 * mine. */
char *link_agree(struct link *l, char *mine);
/* Zeroed memory that all ranks share; they must be on one node. Each rank gets the same block. */
void *link_shared_new(struct link *l, size_t bytes, void **handle);
void link_shared_free(void *p, void *handle);
/* A window: floats of every rank and int64 counters of rank 0, zero at first. All ranks access them
 * without the owner's help. Operations (all except new, free, sync, ready) are complete after the
 * flush of that rank; each element is added to and read atomically. */
struct link_window;
/* Collective. floats: number of this rank's own, at *own; counters: equal on all ranks. */
struct link_window *link_window_new(struct link *l, size_t floats, size_t counters, float **own);
void link_window_free(struct link_window *w); /* collective */
/* Before and after plain loads and stores of own floats that no other rank accesses now. */
void link_window_sync(struct link_window *w);
/* old = the floats (NULL: not read), then floats += x (NULL: adds nothing). */
void link_window_reach(struct link_window *w, int rank, size_t first, const float *x, float *old,
		       size_t n);
/* by must stay valid until the flush. */
void link_window_count(struct link_window *w, size_t counter, const int64_t *by, int64_t *before);
/* Starts to read the first n counters; complete when link_window_ready is true, without a flush.
 * link_window_ready also serves others' access to this rank's floats, where MPI needs that. */
void link_window_read_counters(struct link_window *w, int64_t *x, size_t n);
bool link_window_ready(struct link_window *w);
void link_window_flush(struct link_window *w, int rank); /* rank -1: all of them */
/* Mailboxes of ranks that must not spin (runtime/table/servers.c). A request is a number from 0.
 * link_progress finds completed requests; link_test then sets them to -1, which means done. bytes:
 * a multiple of a float's. */
void link_wakeup_new(struct link *l);     /* collective, once: wake-up signals within each machine;
					   * between machines the arrival of bytes wakes */
void link_wakeup_free(struct link *l);    /* collective; before link_free */
void link_wake(struct link *l, int rank); /* call after each message */
/* Sleeps until this rank is woken, but at most a nap, which grows with each call; start with 0.
 * With most > 0 at most that long; simulated, then just as long. */
void link_sleep(struct link *l, nsec *nap, nsec most);
int link_send_start(struct link *l, int to, int tag, const void *x, size_t bytes);
int link_recv_start(struct link *l, int from, int tag, void *x, size_t bytes);
void link_post(struct link *l, int to, int tag, const void *x,
	       size_t bytes);       /* short; no request */
bool link_progress(struct link *l); /* false: no request was completed */
bool link_test(struct link *l, int *request);
void link_cancel(struct link *l, int *request); /* a receive */

/* Real world (sockets.c): sleeps until a TCP connection of this process has something to do, or a
 * process of this machine wakes it, but at most so long. False: neither. */
bool sockets_sleep(nsec most);
enum { SOCKET_NAME = 6 };
void sockets_open(char name[SOCKET_NAME]);       /* by which others wake it; empty: they cannot */
void sockets_close(void);                        /* after the last, it has no name */
void sockets_wake(const char name[SOCKET_NAME]); /* after sockets_open */
bool sockets_woken(void);                        /* since the last call, or the last sleep */

/* lookout_open for the ranks of this link. Collective. */
struct lookout *link_lookout(struct link *all, int workers, bool programs);

struct link *comm_link(struct comm *c);

/* What a codec compresses in this run. */
static inline int strategy_codes(const struct strategy *s, const struct run *run, const void *opts)
{
	bool sums = s->codes == CODES_MOVES && s->terms(run, opts).none;
	return sums ? CODES_SUMS : s->codes;
}

#endif
