/*
 * trace.c - the timeline of a run: each rank records its events, with start and end, in memory that
 * is allocated before the segment. After the segment they are sorted and sent to rank 0.
 *
 * An event is recorded when it ends, where possible with clock values that were read anyway: about
 * 20 ns, and about 20 ns for each further clock read. Events of one rank nest. On a device that
 * computes asynchronously an event is the host's time; the device may still be busy.
 *
 * Clocks: processes of one machine share the monotonic clock. On several machines rank 0 asks each
 * rank for its time ASK_TIMES times. The answer with the shortest round trip counts; its error is
 * at most half the round trip. An offset not longer than the round trip counts as 0.
 */
#include "runtime/comm/comm.h"

#include <stdlib.h>
#include <string.h>

const char *const trace_names[TRACE_KINDS_COUNT] = {
#define ROW(id, name) [TRACE_##id] = #name,
	TRACE_KINDS(ROW)
#undef ROW
};

/* A rank's part of the timeline. */
struct trace {
	struct slice *event, lost_event;
	size_t n, room, lost;
	int32_t rank, epoch, step, seq;
	nsec offset; /* from this rank's clock to the timeline */
};

enum { ROOM_MOST = 1 << 18, ROOM_ALL = 1 << 21 };
enum { ASK_TIMES = 16 };

/* ---- Clocks -------------------------------------------------------------------- */

static void send_time(struct link *l, int to, nsec t)
{
	link_send_plain(l, to, &t, sizeof t);
}

static nsec recv_time(struct link *l, int from)
{
	nsec t;
	link_recv(l, from, (float *)(void *)&t, sizeof t / sizeof(float));
	return t;
}

/* Rank 0: how far is the other rank's clock ahead of its own? */
static nsec ask_time(struct link *l, int rank)
{
	nsec best = INT64_MAX, ahead = 0;
	for (int i = 0; i < ASK_TIMES; i++) {
		nsec before = clock_now();
		send_time(l, rank, 0);
		nsec there = recv_time(l, rank), took = clock_now() - before;
		if (took >= best)
			continue;
		best = took;
		ahead = there - (before + took / 2);
	}
	return llabs(ahead) <= best ? 0 : ahead;
}

/* The offset from this rank's clock to the time since rank 0 called this. Ranks are measured one
 * after the other; the others sleep meanwhile. */
static nsec offset_of(struct link *l, int rank, int size)
{
	nsec origin = clock_now(), offset = -origin;
	if (world_is_virtual)
		return 0;
	for (int k = 1; k < size; k++) {
		link_barrier_asleep(l);
		if (rank == 0)
			send_time(l, k, -origin - ask_time(l, k));
		for (int i = 0; i < ASK_TIMES && rank == k; i++) {
			recv_time(l, 0);
			send_time(l, 0, clock_now());
		}
		if (rank == k)
			offset = recv_time(l, 0);
	}
	return offset;
}

/* ---- Recording ----------------------------------------------------------------- */

struct trace *trace_new(struct link *l, int rank, int size, size_t room)
{
	struct trace *t = must(calloc(1, sizeof *t));
	size_t here = world_is_virtual ? (size_t)size : 1;
	t->room = smaller(room, smaller(ROOM_MOST, ROOM_ALL / here));
	size_t bytes = ((t->room + 1) * sizeof *t->event + 63) & ~(size_t)63;
	t->event = must(aligned_alloc(64, bytes));
	memset(t->event, 0, bytes); /* allocates its pages now */
	t->rank = rank;
	t->offset = offset_of(l, rank, size);
	return t;
}

void trace_free(struct trace *t)
{
	if (t)
		free(t->event);
	free(t);
}

void trace_at(struct trace *t, int64_t epoch, int64_t step)
{
	t->epoch = (int32_t)epoch;
	t->step = (int32_t)step;
}

void trace_of(const struct trace *t, int32_t *epoch, int32_t *step)
{
	*epoch = t->epoch;
	*step = t->step;
}

struct slice *trace_add(struct trace *t, enum trace_kind kind, nsec since, nsec until)
{
	struct slice *e = t->n < t->room ? &t->event[t->n++] : &t->lost_event;
	t->lost += e == &t->lost_event;
	*e = (struct slice){.start = since,
			    .length = until - since,
			    .bytes = -1,
			    .joint_op = -1,
			    .kind = kind,
			    .rank = t->rank,
			    .epoch = t->epoch,
			    .step = t->step,
			    .peer = -1,
			    .staleness = -1};
	return e;
}

/* ---- After the segment ----------------------------------------------------------- */

/* Adds the waiting time of each operation with peers as an event at its start: its duration minus
 * the duration on the rank that came last. */
static void add_waits(struct trace *t, const struct stats *s)
{
	for (size_t i = 0, n = t->n; i < n; i++) {
		const struct slice e = t->event[i];
		if (e.joint_op < 0 || (size_t)e.joint_op >= s->compared)
			continue;
		const struct joint_op *m = &s->joint_op[e.joint_op];
		nsec length = (nsec)(1e9f * (m->s - m->shortest_s));
		if (length <= 0)
			continue;
		struct slice *w = trace_add(t, TRACE_WAIT, e.start,
					    e.start + (length < e.length ? length : e.length));
		w->epoch = e.epoch;
		w->step = e.step;
		w->peer = m->last;
	}
}

/* By start; an enclosing event comes before those inside it. */
static int by_place(const void *a, const void *b)
{
	const struct slice *x = a, *y = b;
	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	if (x->length != y->length)
		return x->length > y->length ? -1 : 1;
	return x->kind - y->kind;
}

static void nest(struct trace *t)
{
	enum { DEEP = 16 };
	size_t in[DEEP], depth = 0;
	for (size_t i = 0; i < t->n; i++) {
		struct slice *e = &t->event[i];
		while (depth > 0 &&
		       t->event[in[depth - 1]].start + t->event[in[depth - 1]].length <= e->start)
			depth--;
		e->parent = -1;
		if (depth > 0) {
			const struct slice *p = &t->event[in[depth - 1]];
			nsec left = p->start + p->length - e->start;
			e->parent = p->seq;
			if (world_is_virtual && e->length > left) /* virtual time is rounded */
				e->length = left;
		}
		e->seq = t->seq++;
		CHECK(depth < DEEP, "events %d deep", DEEP);
		in[depth++] = i;
	}
}

void trace_settle(struct trace *t, const struct stats *s)
{
	if (s)
		add_waits(t, s);
	for (size_t i = 0; i < t->n; i++)
		t->event[i].start += t->offset;
	qsort(t->event, t->n, sizeof *t->event, by_place);
	nest(t);
}

/* ---- To rank 0 ------------------------------------------------------------------- */

_Static_assert(sizeof(struct slice) % sizeof(float) == 0, "events travel as floats");

struct slices trace_gather(struct trace *t, struct link *l)
{
	struct slices all = {.n = 0};
	size_t bytes = 0;
	double lost = (double)t->lost;
	link_reduce_all(l, &lost, 1, REDUCE_SUM);
	all.event = link_gather_parts(l, t->event, t->n * sizeof *t->event, &bytes);
	all.n = bytes / sizeof *all.event;
	all.lost = (size_t)lost;
	t->n = t->lost = 0;
	return all;
}
