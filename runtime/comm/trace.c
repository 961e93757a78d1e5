/*
 * trace.c - the timeline of a run: each rank notes what it is in, from when to when, in memory that
 * was there before the segment. After the segment they are put in order, and go to rank 0
 * (trace_gather.c).
 *
 * An event is noted when it ends, with the clock as it was read for other reasons where possible:
 * some 20 ns, and as much for each time that the clock is read. Slices of one rank nest: what a
 * worker does inside something else lies in it. On devices that compute on their own, an event is
 * what the host was in, and the device may still be at work.
 */
#include "runtime/comm/comm.h"
#include "runtime/comm/trace.h"

#include <stdlib.h>
#include <string.h>

const char *const trace_names[TRACE_KINDS_COUNT] = {
#define ROW(id, name) [TRACE_##id] = #name,
	TRACE_KINDS(ROW)
#undef ROW
};

enum { ROOM_MOST = 1 << 18, ROOM_ALL = 1 << 21 };

/* ---- Noting -------------------------------------------------------------------- */

struct trace *trace_make(int rank, int ranks, size_t room, nsec offset)
{
	struct trace *t = must(calloc(1, sizeof *t));
	size_t here = world_is_virtual ? (size_t)ranks : 1;
	t->room = smaller(room, smaller(ROOM_MOST, ROOM_ALL / here));
	size_t bytes = ((t->room + 1) * sizeof *t->event + 63) & ~(size_t)63;
	t->event = must(aligned_alloc(64, bytes));
	memset(t->event, 0, bytes); /* so that its pages are there */
	t->rank = rank;
	t->offset = offset;
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
			    .collective = -1,
			    .kind = kind,
			    .rank = t->rank,
			    .epoch = t->epoch,
			    .step = t->step,
			    .peer = -1,
			    .staleness = -1};
	return e;
}

/* ---- After the segment ----------------------------------------------------------- */

/* What a collective took longer than on the last to arrive was waiting, and came first. */
static void add_waits(struct trace *t, const struct stats *s)
{
	size_t kept = smaller(s->collectives, s->room);
	for (size_t i = 0, n = t->n; i < n; i++) {
		const struct slice e = t->event[i];
		if (e.collective < 0 || (size_t)e.collective >= kept)
			continue;
		float waited = s->collective_s[e.collective] - s->shortest_s[e.collective];
		nsec length = (nsec)(1e9f * waited);
		if (length <= 0)
			continue;
		struct slice *w = trace_add(t, TRACE_WAIT, e.start,
					    e.start + (length < e.length ? length : e.length));
		w->epoch = e.epoch;
		w->step = e.step;
	}
}

/* By start; what lies in another comes after it. */
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
