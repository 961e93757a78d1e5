/*
 * allreduce.c - the allreduce of simulated workers. They share their memory, so one worker computes
 * the sum once. Messages without data take the time, by the algorithms of Open MPI:
 *
 *   below RING_LEAST bytes,       recursive doubling: log2 N exchanges of everything
 *   and between two ranks         (a ring of two would exchange one half after the other)
 *   otherwise                     ring: N - 1 pieces of 1/N around to sum, N - 1 around to spread
 *
 * Rings of more than RING_MOST ranks would be millions of messages. Their steps are all alike: each
 * rank sends the same length to the same neighbour, at the same time as all others. Therefore one
 * step is sent, and the others take the time of its slowest message. No step of a ring can be
 * faster: after the first steps, each rank waits for the slowest of them.
 *
 * A sum costs the host an addition and a copy for each rank, and the events of the messages.
 * A sum that is only started (allreduce --allreduce.overlap) has the same messages. An actor for
 * each rank, its carrier, sends them while the rank computes, one sum after the other. Sources of
 * the algorithms: Thakur, Rabenseifner, Gropp, Optimization of collective communication operations
 * in MPICH, IJHPCA 19 (2005); the bound: Open MPI 4.0's fixed decision.
 *
 * On this machine, as calibrated, ranks sum in shared memory (runtime/comm/mpi/node.c): they wait
 * for the last one, and the sum takes its calibrated time, without messages. One that is only
 * started has messages there, too.
 *
 * The sum is in the order of ranks, as a real one of one machine. Between machines a real one may
 * differ from it in the last bits.
 */
#include "runtime/config/plan.h"
#include "sim/sim.h"

#include <simgrid/actor.h>
#include <simgrid/barrier.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <simgrid/semaphore.h>
#include <stdlib.h>
#include <string.h>

enum { RING_LEAST = 10000 /* bytes */, RING_MOST = 64 /* ranks */ };

/* Numbers of the steps of a sum. In a ring, a rank can be one step ahead of its neighbour; in the
 * others, log2 N steps ahead of another rank. The last step there is PHASES - 1. */
enum { PHASES = 64 };

struct carrier {
	struct sums *of;
	int rank;
	sg_host_t host;
	sg_actor_t actor;
	bool over;
	sg_sem_t work;             /* sums that all ranks have started */
	sg_sem_t arrivals[PHASES]; /* messages of a step; NULL = none yet */
	sg_sem_t done[LINK_SLOTS]; /* the sum of a slot */
};

/* One sum. No rank leaves before all have arrived. */
struct sum {
	int arrived;
	size_t n;
	enum reduce how;
	bool by_layer; /* started for common_step_part */
	float **x;     /* [ranks] of those that have arrived; NULL before the first has */
};

/* Where the ranks of a long ring meet before and after the step that is sent. */
struct ring {
	sg_bar_t door;  /* NULL before the first */
	int told;       /* ranks that have told how long their messages took */
	double slowest; /* of these [s] */
};

struct sums {
	int ranks, users;
	struct ring ring, carried; /* of ranks, of their carriers */
	struct sum at_once, started[LINK_SLOTS];
	struct carrier
		*carrier;      /* [ranks] of those that have started a sum; NULL before the first */
	int ready[LINK_SLOTS]; /* slots that all ranks have started, and no carrier has begun */
	int readies;
	int order[LINK_SLOTS]; /* slots, as carriers begin them; the i-th at i modulo LINK_SLOTS */
	size_t begun;
	int arrived;    /* ranks that have arrived, off the clock */
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

static void dismiss(struct carrier *c)
{
	if (!c->actor)
		return;
	c->over = true;
	sg_sem_release(c->work);
	sg_actor_join(c->actor, -1);
	sg_sem_destroy(c->work);
	for (int i = 0; i < PHASES; i++)
		if (c->arrivals[i])
			sg_sem_destroy(c->arrivals[i]);
	for (int i = 0; i < LINK_SLOTS; i++)
		sg_sem_destroy(c->done[i]);
}

static void leave(struct sums *m)
{
	if (--m->users > 0)
		return;
	for (int k = 0; k < m->ranks && m->carrier; k++)
		dismiss(&m->carrier[k]);
	free(m->carrier);
	free(m->at_once.x);
	for (int i = 0; i < LINK_SLOTS; i++)
		free(m->started[i].x);
	sg_barrier_destroy(m->door);
	if (m->ring.door)
		sg_barrier_destroy(m->ring.door);
	if (m->carried.door)
		sg_barrier_destroy(m->carried.door);
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
static void allreduce_join(float *sum, const float *x, size_t n, int how)
{
	uint8_t *small = (uint8_t *)sum;
	const uint8_t *more = (const uint8_t *)x;
	for (size_t i = 0; i < n && how == COMM_MAX; i++)
		sum[i] = x[i] > sum[i] ? x[i] : sum[i];
	for (size_t i = 0; i < n * sizeof *sum && how == COMM_SUM_INT8; i++)
		small[i] = (uint8_t)(small[i] + more[i]);
	for (size_t i = 0; i < n && how == COMM_SUM_INT32; i++) {
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
			if (s->how == COMM_SUM || s->how == COMM_MEAN)
				add(sum, s->x[k] + first, n);
			else
				allreduce_join(sum, s->x[k] + first, n, s->how);
		for (int k = 0; k < ranks; k++)
			memcpy(s->x[k] + first, sum, n * sizeof *sum);
	}
}

/* True: this rank is the last one. */
static bool arrive(struct sum *s, int ranks, int rank, float *x, size_t n, enum reduce how)
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
		return false;
	s->arrived = 0;
	if (x != link_nowhere())
		sum_up(s, ranks);
	return true;
}

static void rendezvous(struct sums *m, int rank, void *x,
		       void (*all)(void **x, int ranks, const void *how), const void *how)
{
	m->brought[rank] = x;
	if (++m->arrived == m->ranks) {
		m->arrived = 0;
		if (all)
			all(m->brought, m->ranks, how);
	}
	sg_barrier_wait(m->door);
}

/* ---- The messages ---- */

/* The sender: a rank over its link, or its carrier. phase: of the step under way. */
struct sender {
	struct link *l;
	struct carrier *c;
	struct ring *ring;
	int phase;
};

static sg_sem_t arrival_of(struct carrier *c, int phase)
{
	if (!c->arrivals[phase])
		c->arrivals[phase] = sg_sem_init(0);
	return c->arrivals[phase];
}

static void send(const struct sender *s, int to, size_t n)
{
	if (s->l) {
		link_send(s->l, to, link_nowhere(), n);
		return;
	}
	struct carrier *peer = &s->c->of->carrier[to];
	sg_host_sendto(s->c->host, peer->host, (double)(n * sizeof(float) + MESSAGE_ENVELOPE));
	sg_sem_release(arrival_of(peer, s->phase));
}

static void receive(const struct sender *s, int from, size_t n)
{
	if (s->l)
		link_recv(s->l, from, link_nowhere(), n);
	else
		sg_sem_acquire(arrival_of(s->c, s->phase));
}

static void shift(const struct sender *s, int to, int from, size_t n)
{
	float *x = link_nowhere();
	if (s->l) {
		link_shift(s->l, to, x, from, x, n);
	} else {
		send(s, to, n);
		receive(s, from, n);
	}
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
static int to_power_of_two(struct sender *s, int rank, int extra, size_t n, bool back)
{
	s->phase = back ? PHASES - 1 : 0;
	if (rank >= 2 * extra)
		return rank - extra;
	if ((rank % 2 == 0) != back)
		send(s, rank % 2 ? rank - 1 : rank + 1, n);
	else
		receive(s, rank % 2 ? rank - 1 : rank + 1, n);
	return rank % 2 ? rank / 2 : -1;
}

static int rank_of(int number, int extra)
{
	return number < extra ? 2 * number + 1 : number + extra;
}

static void exchange(struct sender *s, int peer, size_t n)
{
	s->phase++;
	shift(s, peer, peer, n);
}

static void doubling(struct sender *s, int rank, int ranks, size_t n)
{
	int power = power_below(ranks), extra = ranks - power;
	int me = to_power_of_two(s, rank, extra, n, false);
	for (int k = 1; k < power && me >= 0; k *= 2)
		exchange(s, rank_of(me ^ k, extra), n);
	to_power_of_two(s, rank, extra, n, true);
}

/* One of `steps` equal steps of all ranks; the time of the others follows from its slowest
 * message. */
static void equal_steps(struct sender *s, int to, int from, size_t n, int ranks, int steps)
{
	struct ring *r = s->ring;
	if (!r->door)
		r->door = sg_barrier_init((unsigned)ranks);
	sg_barrier_wait(r->door);
	double began = simgrid_get_clock();
	s->phase = 0;
	shift(s, to, from, n);
	double took = simgrid_get_clock() - began;
	r->slowest = r->told == 0 || took > r->slowest ? took : r->slowest;
	r->told = (r->told + 1) % ranks;
	sg_barrier_wait(r->door);
	double left = began + steps * r->slowest - simgrid_get_clock();
	if (left > 0)
		sg_actor_sleep_for(left);
}

static void ring(struct sender *s, int rank, int ranks, size_t n)
{
	size_t piece = (n + (size_t)ranks - 1) / (size_t)ranks;
	int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks, steps = 2 * (ranks - 1);
	if (ranks > RING_MOST) {
		equal_steps(s, to, from, piece, ranks, steps);
		return;
	}
	for (int k = 0; k < steps; k++) {
		s->phase = k % PHASES;
		shift(s, to, from, piece);
	}
}

static void carry(struct sender s, int rank, int ranks, size_t n)
{
	if (n * sizeof(float) < RING_LEAST || ranks == 2)
		doubling(&s, rank, ranks, n);
	else
		ring(&s, rank, ranks, n);
}

static void allreduce(struct link *l, struct sums *m, float *x, size_t n, int how)
{
	int rank = link_rank(l);
	if (n == 0)
		return;
	arrive(&m->at_once, m->ranks, rank, x, n, (enum reduce)how);
	if (world_is_off_clock()) {
		rendezvous(m, rank, NULL, NULL, NULL);
		return;
	}
	if (!sim_self()->connected)
		sg_actor_sleep_for(sim_plan->simulation->connect_s);
	sim_self()->connected = true;
	sim_self()->summed =
		sim_plan->simulation->allreduce.n && (how == COMM_SUM || how == COMM_MEAN);
	if (sim_self()->summed)
		sg_barrier_wait(m->door);
	else
		carry((struct sender){.l = l, .ring = &m->ring}, rank, m->ranks, n);
}

/* ---- Sums that go on while their ranks compute ---- */

/* The first carrier that is free decides for all: the sum that was started first; or last, if a
 * forward pass waits for its layers, because then the first layer's is needed first. */
static int begin_next(struct sums *m)
{
	const bool last = m->started[m->ready[0]].by_layer;
	const int at = last ? m->readies - 1 : 0, slot = m->ready[at];
	m->readies--;
	for (int i = at; i < m->readies; i++)
		m->ready[i] = m->ready[i + 1];
	return m->order[m->begun++ % LINK_SLOTS] = slot;
}

static void carrier_main(int argc, char **argv)
{
	struct carrier *c = sg_actor_self_get_data();
	(void)argc, (void)argv;
	for (size_t i = 0;; i++) {
		sg_sem_acquire(c->work);
		if (c->over)
			return;
		int slot = i < c->of->begun ? c->of->order[i % LINK_SLOTS] : begin_next(c->of);
		carry((struct sender){.c = c, .ring = &c->of->carried}, c->rank, c->of->ranks,
		      c->of->started[slot].n);
		sg_sem_release(c->done[slot]);
	}
}

static void make_carrier(struct sums *m, int rank)
{
	if (!m->carrier)
		m->carrier = must(calloc((size_t)m->ranks, sizeof *m->carrier));
	struct carrier *c = &m->carrier[rank];
	if (c->actor)
		return;
	*c = (struct carrier){
		.of = m, .rank = rank, .host = sg_host_self(), .work = sg_sem_init(0)};
	for (int i = 0; i < LINK_SLOTS; i++)
		c->done[i] = sg_sem_init(0);
	c->actor = sg_actor_init("carrier", c->host);
	sg_actor_set_data(c->actor, c);
	sg_actor_start(c->actor, carrier_main, 0, NULL);
}

/* Messages begin when the last rank has started the sum. */
static void start(struct link *l, struct sums *m, int slot, float *x, size_t n)
{
	int rank = link_rank(l);
	if (!world_is_off_clock())
		make_carrier(m, rank);
	if (!arrive(&m->started[slot], m->ranks, rank, x, n, COMM_SUM) || world_is_off_clock())
		return;
	m->started[slot].by_layer = sim_self()->worker->loop->by_layer;
	m->ready[m->readies++] = slot;
	for (int k = 0; k < m->ranks; k++)
		sg_sem_release(m->carrier[k].work);
}

static void await(struct link *l, struct sums *m, int slot)
{
	int rank = link_rank(l);
	if (world_is_off_clock())
		rendezvous(m, rank, NULL, NULL, NULL);
	else
		sg_sem_acquire(m->carrier[rank].done[slot]);
}

static const struct world_sums sums = {.make = make,
				       .leave = leave,
				       .allreduce = allreduce,
				       .start = start,
				       .wait = await,
				       .rendezvous = rendezvous};
const struct world_sums *const world_sums = &sums;
