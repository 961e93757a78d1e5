/*
 * trace_gather.c - the timeline of all ranks: how their clocks differ, and how their events come to
 * rank 0.
 *
 * Clocks: processes of one machine share the monotonic one. On several machines rank 0 asks each
 * rank for its time, ASK_TIMES times; the answer that came soonest counts, and is wrong by half the
 * time that it took at most. A difference that small is taken for none.
 */
#include "runtime/comm/comm.h"
#include "runtime/comm/trace.h"

#include <stdlib.h>
#include <string.h>

enum { ASK_TIMES = 16, FLOATS = sizeof(nsec) / sizeof(float) };

/* ---- Clocks -------------------------------------------------------------------- */

static void send_time(struct link *l, int to, nsec t)
{
	link_send_plain(l, to, (const float *)(const void *)&t, FLOATS);
}

static nsec recv_time(struct link *l, int from)
{
	nsec t;
	link_recv(l, from, (float *)(void *)&t, FLOATS);
	return t;
}

/* Rank 0: how far is that rank's clock ahead of mine? */
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

/* What to add to this rank's clock to get the time since rank 0 came here. */
static nsec offset_of(struct link *l, int rank, int size)
{
	nsec origin = clock_now();
	if (world_is_virtual)
		return 0;
	for (int k = 1; k < size && rank == 0; k++)
		send_time(l, k, -origin - ask_time(l, k));
	for (int i = 0; i < ASK_TIMES && rank > 0; i++) {
		recv_time(l, 0);
		send_time(l, 0, clock_now());
	}
	return rank > 0 ? recv_time(l, 0) : -origin;
}

struct trace *trace_new(struct link *l, int rank, int size, size_t room)
{
	return trace_make(rank, size, room, offset_of(l, rank, size));
}

/* ---- To rank 0 ------------------------------------------------------------------- */

enum { EVENT_FLOATS = sizeof(struct slice) / sizeof(float) };
_Static_assert(sizeof(struct slice) % sizeof(float) == 0, "events travel as floats");

static void forget(struct trace *t)
{
	t->n = t->lost = 0;
}

void trace_send(struct trace *t, struct link *l, int to)
{
	int64_t head[2] = {(int64_t)t->n, (int64_t)t->lost};
	link_send(l, to, (const float *)(const void *)head, 2 * FLOATS);
	if (t->n)
		link_send(l, to, (const float *)(const void *)t->event, t->n * EVENT_FLOATS);
	forget(t);
}

static struct slice *room_for(struct slices *all, size_t n)
{
	all->event = must(realloc(all->event, (all->n + n + 1) * sizeof *all->event));
	all->n += n;
	return all->event + all->n - n;
}

void trace_take(struct trace *t, struct slices *all)
{
	memcpy(room_for(all, t->n), t->event, t->n * sizeof *t->event);
	all->lost += t->lost;
	forget(t);
}

void trace_recv(struct link *l, int from, struct slices *all)
{
	int64_t head[2];
	link_recv(l, from, (float *)(void *)head, 2 * FLOATS);
	struct slice *e = room_for(all, (size_t)head[0]);
	if (head[0])
		link_recv(l, from, (float *)(void *)e, (size_t)head[0] * EVENT_FLOATS);
	all->lost += (size_t)head[1];
}
