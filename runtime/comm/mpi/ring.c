/*
 * ring.c - sums that travel while their ranks compute: of n floats over N ranks, in a ring.
 *
 *   step t = 0 .. 2 N - 3   send part (r - t) mod N to rank r + 1, receive part (r - t - 1) mod N
 *   t < N - 1               add the received floats to the own ones
 *   later                   the received part is the sum
 *
 * Part k is the sum of the ranks in the order k, k + 1, ..., made once and then copied: the result
 * has the same bits on all ranks. A rank sends 2 (N - 1) / N n floats, the least possible. Open
 * MPI's in-place MPI_Iallreduce sends the vector twice (a reduce and a broadcast).
 *
 * The vector is cut into lanes. Each is a ring of its own: while the floats of one lane are added,
 * those of others travel, and a link is never idle. Short vectors take MPI_Iallreduce.
 *
 * A sum may depend on facts that the ranks compare first. They travel, too, and no rank waits for
 * them; the sum begins in the call in which they have arrived.
 *
 * MPI moves messages only during its calls. A sum therefore goes on in rings_advance, which start
 * and wait call, and the training loop (link_progress_sums) between layers and in a delay. Source:
 * Patarasuk, Yuan, Bandwidth optimal all-reduce algorithms for clusters of workstations, JPDC 69
 * (2009).
 */
#include "runtime/comm/mpi/link.h"

#include <stdlib.h>

enum {
	LANES = 8,
	LANE_BYTES = 16384, /* a part of a lane is at least so long if there are several lanes */
	RING_LEAST = 10000, /* bytes; as sim/world/allreduce.c */
	TAG = 1 << 13,      /* the first; other messages of a link with sums have lower ones */
	SUMS = 1 << 10      /* sums with different tags: more than can be under way */
};
static const nsec spin_ns = 50000, nap_ns = 20000; /* a waiting rank spins, then naps */

struct lane {
	size_t first, n; /* its floats */
	int step;
};

/* The sum of a slot. */
struct ring {
	struct link *link;
	struct ring *next; /* in the order of starts; under way */
	float *x;
	size_t n;
	bool over;
	double *facts; /* [facts_n] being reduced: the sum begins if the ranks agree. NULL: begun */
	int facts_n;
	int tag;
	int lanes, lanes_over; /* 0: MPI_Iallreduce */
	struct lane lane[LANES];
	MPI_Request request[2 * LANES]; /* of each lane: from the rank before, to the one after */
	int found[2 * LANES];
	float *received[LANES]; /* in the room of all, from `first` to `end`, or in its own */
	size_t first, end, own_n;
	float *own;
};

struct rings {
	struct ring slot[LINK_SLOTS];
	int64_t started;
	float *room; /* [n] */
	size_t n;
};

/* Those of all links of this process. Simulated ranks have none (world_sums). */
static struct ring *under_way;

struct part {
	float *x;
	int n;
};

/* What this rank sends in step t of a lane; it receives what it sends in step t + 1. */
static struct part part_at(const struct ring *r, const struct lane *a, int t)
{
	const int ranks = r->link->size, k = ((r->link->rank - t) % ranks + ranks) % ranks;
	const size_t first = part_of(a->n, (size_t)ranks, (size_t)k),
		     end = part_of(a->n, (size_t)ranks, (size_t)k + 1);
	return (struct part){r->x + a->first + first, count(end - first)};
}

static void begin_step(struct ring *r, int i)
{
	const struct link *l = r->link;
	const struct lane *a = &r->lane[i];
	const struct part out = part_at(r, a, a->step), in = part_at(r, a, a->step + 1);
	const bool adds = a->step < l->size - 1;
	MPI_Irecv(adds ? r->received[i] : in.x, in.n, MPI_FLOAT, (l->rank + l->size - 1) % l->size,
		  r->tag + i, l->comm, &r->request[2 * i]);
	MPI_Isend(out.x, out.n, MPI_FLOAT, (l->rank + 1) % l->size, r->tag + i, l->comm,
		  &r->request[2 * i + 1]);
}

/* Both messages of the step are complete, so its floats may be overwritten. */
static void end_step(struct ring *r, int i)
{
	struct lane *a = &r->lane[i];
	const struct part in = part_at(r, a, a->step + 1);
	float *restrict x = in.x;
	const float *restrict y = r->received[i];
	for (int k = 0; k < in.n && a->step < r->link->size - 1; k++)
		x[k] += y[k];
	if (++a->step < 2 * (r->link->size - 1))
		begin_step(r, i);
	else
		r->lanes_over++;
}

/* Floats that arrive at once in a sum of n; the parts of a lane differ by one float. */
static size_t floats_of(const struct link *l, size_t n)
{
	return n / (size_t)l->size + 2 * (size_t)LANES;
}

/* The first floats that no sum of the link uses; if all are used, others. */
static float *ring_room_for(struct ring *r, size_t n)
{
	const struct rings *all = r->link->rings;
	r->first = 0;
	for (const struct ring *o = under_way; o;) {
		bool meets = o->link == r->link && r->first < o->end && o->first < r->first + n;
		r->first = meets ? o->end : r->first;
		o = meets ? under_way : o->next;
	}
	r->end = r->first + n;
	if (r->end <= all->n)
		return all->room + r->first;
	r->first = r->end = 0;
	if (r->own_n < n) {
		free(r->own);
		r->own = must(malloc(n * sizeof *r->own));
		r->own_n = n;
	}
	return r->own;
}

static void cut_into_lanes(struct ring *r)
{
	const size_t ranks = (size_t)r->link->size, bytes = r->n * sizeof(float);
	const size_t lanes = bytes / ranks / LANE_BYTES, n = lanes < 1 ? 1 : smaller(lanes, LANES);
	const size_t room_n = floats_of(r->link, r->n);
	float *room = ring_room_for(r, room_n);
	size_t used = 0;
	r->lanes = (int)n;
	for (size_t i = 0; i < n; i++) {
		const size_t first = part_of(r->n, n, i), end = part_of(r->n, n, i + 1);
		r->lane[i] = (struct lane){.first = first, .n = end - first};
		r->received[i] = room + used;
		used += (end - first + ranks - 1) / ranks;
	}
	CHECK(used <= room_n, "parts of %zu floats in %zu", used, room_n);
}

static void ring_begin(struct ring *r)
{
	const struct link *l = r->link;
	r->tag = TAG + LANES * (int)(l->rings->started++ % SUMS);
	if (r->n * sizeof *r->x < RING_LEAST || l->size == 1)
		MPI_Iallreduce(MPI_IN_PLACE, r->x, count(r->n), MPI_FLOAT, MPI_SUM, l->comm,
			       &r->request[0]);
	else
		cut_into_lanes(r);
	for (int i = 0; i < r->lanes; i++)
		begin_step(r, i);
}

/* True: its facts have arrived, and it has begun or is over. */
static bool ring_decide(struct ring *r)
{
	int here;
	MPI_Test(&r->request[0], &here, MPI_STATUS_IGNORE);
	if (!here)
		return false;
	r->over = !all_equal(r->facts, r->facts_n);
	r->facts = NULL;
	if (!r->over)
		ring_begin(r);
	return true;
}

/* True: a message was completed. */
static bool advance(struct ring *r)
{
	int n = 0;
	MPI_Testsome(r->lanes ? 2 * r->lanes : 1, r->request, &n, r->found, MPI_STATUSES_IGNORE);
	for (int i = 0; i < r->lanes && n > 0; i++)
		if (r->lane[i].step < 2 * (r->link->size - 1) &&
		    r->request[2 * i] == MPI_REQUEST_NULL &&
		    r->request[2 * i + 1] == MPI_REQUEST_NULL)
			end_step(r, i);
	r->over = r->lanes ? r->lanes_over == r->lanes : r->request[0] == MPI_REQUEST_NULL;
	return n > 0 || r->over;
}

/* Facts may arrive in any order; sums begin in the order of their starts, as on the other ranks. */
bool rings_advance(void)
{
	bool moved = false, undecided = false;
	for (struct ring **at = &under_way; *at;) {
		struct ring *r = *at;
		undecided = undecided || (r->facts && !ring_decide(r));
		if (!r->facts && !r->over)
			moved |= advance(r);
		if (r->over)
			*at = r->next;
		else
			at = &r->next;
	}
	return moved;
}

bool rings_are_under_way(void)
{
	return under_way != NULL;
}

static struct rings *rings_of(struct link *l)
{
	if (!l->rings)
		l->rings = must(calloc(1, sizeof *l->rings));
	return l->rings;
}

void rings_prepare(struct link *l, size_t n)
{
	struct rings *all = rings_of(l);
	CHECK(!under_way, "memory of sums that are under way");
	all->n += floats_of(l, n);
	all->room = must(realloc(all->room, all->n * sizeof *all->room));
}

/* The last of the sums under way; it has not begun. */
static struct ring *ring_queue(struct link *l, int slot, float *x, size_t n)
{
	struct ring *r = &rings_of(l)->slot[slot], **last = &under_way;
	*r = (struct ring){.link = l, .x = x, .n = n, .own = r->own, .own_n = r->own_n};
	while (*last)
		last = &(*last)->next;
	return *last = r;
}

void ring_start(struct link *l, int slot, float *x, size_t n)
{
	ring_begin(ring_queue(l, slot, x, n));
	rings_advance();
}

void ring_start_if(struct link *l, int slot, float *x, size_t n, struct link *facts_link,
		   double *facts, int facts_n)
{
	struct ring *r = ring_queue(l, slot, x, n);
	r->facts = facts;
	r->facts_n = facts_n;
	MPI_Iallreduce(MPI_IN_PLACE, facts, facts_n, MPI_DOUBLE, MPI_MAX, facts_link->comm,
		       &r->request[0]);
	rings_advance();
}

void ring_wait(struct link *l, int slot)
{
	nsec idle = 0;
	while (!l->rings->slot[slot].over) {
		if (rings_advance())
			idle = 0;
		else if (idle == 0)
			idle = clock_now();
		else if (clock_now() - idle > spin_ns)
			clock_delay(nap_ns);
	}
}

void rings_free(struct link *l)
{
	if (!l->rings)
		return;
	for (int i = 0; i < LINK_SLOTS; i++)
		free(l->rings->slot[i].own);
	free(l->rings->room);
	free(l->rings);
}
