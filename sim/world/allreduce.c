/*
 * allreduce.c - the allreduce of simulated workers. They share their memory, so one worker computes
 * the sum once. Messages without data take the time, by the algorithms of Open MPI:
 *
 *   below RING_LEAST bytes,       recursive doubling: log2 N exchanges of everything
 *   and between two ranks         (a ring of two would exchange one half after the other)
 *   otherwise, to RING_MOST ranks ring: N - 1 pieces of 1/N around to sum, N - 1 around to spread
 *   otherwise                     halving and doubling (Rabenseifner), because rings of many ranks
 *                                 are millions of messages: 2 log2 N exchanges of 1/2, 1/4, ...
 *
 * A step therefore costs the host a sum and a copy for each rank, and the events of the messages.
 * Sources of the algorithms: Thakur, Rabenseifner, Gropp, Optimization of collective communication
 * operations in MPICH, IJHPCA 19 (2005); the bounds: Open MPI 4's fixed decisions, coarsely.
 *
 * The sum is in the order of ranks: it may differ from a real one's in the last bits.
 */
#include "sim/sim.h"
#include "strategies/exchange.h"

#include <simgrid/barrier.h>
#include <stdlib.h>
#include <string.h>

enum { RING_LEAST = 10000 /* bytes */, RING_MOST = 64 /* ranks */ };

/* One sum. No rank leaves before all have arrived. */
struct sum {
	int arrived;
	size_t n;
	enum reduce how;
	float **x; /* [ranks] of those that have arrived; NULL before the first has */
};

struct sums {
	int ranks, users;
	struct sum at_once, started[LINK_SLOTS];
	int came;       /* ranks that have arrived, off the clock */
	void **brought; /* [ranks] with their data */
	sg_bar_t door;  /* barrier that opens when all have arrived */
};

static struct sums *make(int ranks)
{
	struct sums *m = must(calloc(1, sizeof *m));
	m->ranks = m->users = ranks;
	m->brought = must(calloc((size_t)ranks, sizeof *m->brought));
	m->door = sg_barrier_init((unsigned)ranks);
	return m;
}

static void leave(struct sums *m)
{
	if (--m->users > 0)
		return;
	free(m->at_once.x);
	for (int i = 0; i < LINK_SLOTS; i++)
		free(m->started[i].x);
	sg_barrier_destroy(m->door);
	free(m->brought);
	free(m);
}

static void add(float *restrict sum, const float *restrict x, size_t n)
{
#pragma omp simd
	for (size_t i = 0; i < n; i++)
		sum[i] += x[i];
}

/* The other kinds; whole numbers that do not fit wrap around. */
static void join(float *sum, const float *x, size_t n, enum reduce how)
{
	uint8_t *small = (uint8_t *)sum;
	const uint8_t *more = (const uint8_t *)x;
	for (size_t i = 0; i < n && how == MAX; i++)
		sum[i] = x[i] > sum[i] ? x[i] : sum[i];
	for (size_t i = 0; i < n * sizeof *sum && how == SUM_INT8; i++)
		small[i] = (uint8_t)(small[i] + more[i]);
	for (size_t i = 0; i < n && how == SUM_INT32; i++) {
		uint32_t a, b;
		memcpy(&a, sum + i, sizeof a);
		memcpy(&b, x + i, sizeof b);
		a += b;
		memcpy(sum + i, &a, sizeof a);
	}
}

/* In the order of ranks; block by block, which reads each float from memory once. */
static void sum_up(const struct sum *s, int ranks)
{
	enum { BLOCK = 2048 };
	float sum[BLOCK];
	for (size_t first = 0; first < s->n; first += BLOCK) {
		size_t n = smaller(BLOCK, s->n - first);
		memcpy(sum, s->x[0] + first, n * sizeof *sum);
		for (int k = 1; k < ranks; k++)
			if (s->how == SUM || s->how == MEAN)
				add(sum, s->x[k] + first, n);
			else
				join(sum, s->x[k] + first, n, s->how);
		for (int k = 0; k < ranks; k++)
			memcpy(s->x[k] + first, sum, n * sizeof *sum);
	}
}

static void arrive(struct sum *s, int ranks, int rank, float *x, size_t n, enum reduce how)
{
	CHECK(s->arrived == 0 || s->n == n, "an allreduce of %zu floats by some, of %zu by others",
	      s->n, n);
	CHECK(s->arrived == 0 || s->how == how, "an allreduce of kind %d by some, of %d by others",
	      (int)s->how, (int)how);
	if (!s->x)
		s->x = must(calloc((size_t)ranks, sizeof *s->x));
	s->n = n;
	s->how = how;
	s->x[rank] = x;
	if (++s->arrived < ranks)
		return;
	s->arrived = 0;
	if (x != link_nowhere())
		sum_up(s, ranks);
}

static void meet(struct sums *m, int rank, void *x,
		 void (*all)(void **x, int ranks, const void *how), const void *how)
{
	m->brought[rank] = x;
	if (++m->came == m->ranks) {
		m->came = 0;
		if (all)
			all(m->brought, m->ranks, how);
	}
	sg_barrier_wait(m->door);
}

static void start(struct link *l, struct sums *m, int slot, float *x, size_t n)
{
	arrive(&m->started[slot], m->ranks, link_rank(l), x, n, SUM);
}

/* ---- The messages ---- */

static void exchange(struct link *l, int peer, size_t n)
{
	float *x = link_nowhere();
	link_exchange(l, peer, x, x, n);
}

static int power_below(int ranks)
{
	int power = 1;
	while (2 * power <= ranks)
		power *= 2;
	return power;
}

/* Ranks beyond a power of two send their part to a neighbour and receive the sum from it. Returns
 * this rank's number among the power of two that continue, or -1; `back`: the way back. */
static int to_power_of_two(struct link *l, int rank, int extra, size_t n, bool back)
{
	float *x = link_nowhere();
	if (rank >= 2 * extra)
		return rank - extra;
	if ((rank % 2 == 0) != back)
		link_send(l, rank % 2 ? rank - 1 : rank + 1, x, n);
	else
		link_recv(l, rank % 2 ? rank - 1 : rank + 1, x, n);
	return rank % 2 ? rank / 2 : -1;
}

static int rank_of(int number, int extra)
{
	return number < extra ? 2 * number + 1 : number + extra;
}

static void doubling(struct link *l, int rank, int ranks, size_t n, bool halving)
{
	int power = power_below(ranks), extra = ranks - power;
	int me = to_power_of_two(l, rank, extra, n, false);
	size_t part = n;
	for (int k = 1; k < power && me >= 0; k *= 2) {
		part = halving ? (part + 1) / 2 : n;
		exchange(l, rank_of(me ^ (halving ? power / 2 / k : k), extra), part);
	}
	for (int k = 1; k < power && me >= 0 && halving; k *= 2) {
		exchange(l, rank_of(me ^ k, extra), part);
		part = smaller(2 * part, n);
	}
	to_power_of_two(l, rank, extra, n, true);
}

static void ring(struct link *l, int rank, int ranks, size_t n)
{
	float *x = link_nowhere();
	size_t piece = (n + (size_t)ranks - 1) / (size_t)ranks;
	for (int k = 0; k < 2 * (ranks - 1); k++)
		link_shift(l, (rank + 1) % ranks, x, (rank + ranks - 1) % ranks, x, piece);
}

static void allreduce(struct link *l, struct sums *m, float *x, size_t n, enum reduce how)
{
	int rank = link_rank(l);
	if (n == 0)
		return;
	arrive(&m->at_once, m->ranks, rank, x, n, how);
	if (world_is_off_clock())
		meet(m, rank, NULL, NULL, NULL);
	else if (n * sizeof *x < RING_LEAST || m->ranks == 2)
		doubling(l, rank, m->ranks, n, false);
	else if (m->ranks <= RING_MOST)
		ring(l, rank, m->ranks, n);
	else
		doubling(l, rank, m->ranks, n, true);
}

static const struct world_sums sums = {
	.make = make, .leave = leave, .allreduce = allreduce, .start = start, .meet = meet};
const struct world_sums *const world_sums = &sums;
