/*
 * comm.c - what strategies call to communicate: each wrapper checks, counts the bytes, times
 * itself, and has the platform's link do the work.
 *
 * Bytes are those that a bandwidth-optimal algorithm has a rank send (nccl-tests' convention), so
 * that they are the same on every platform: n floats over N ranks cost all ranks together
 *   allreduce 2 (N - 1) n, broadcast (N - 1) n, allgather (N - 1) n, exchange n each.
 * A total that N does not divide is dealt out so that the ranks' shares add up to it exactly.
 *
 * Communicating and waiting: nobody can tell from inside a collective how long it waited for
 * others. But the last to arrive waits for nobody, so over the ranks the shortest duration is what
 * the collective itself costs, and what another rank spent longer is its wait. The durations are
 * kept during a race, and compared after it (stats_fold).
 */
#include "platform.h"

#include <stdlib.h>
#include <string.h>

struct request {
	struct comm *comm;
	bool busy;
};

struct comm {
	struct link *link;
	int rank, size;
	struct stats *stats;
	struct request slot[LINK_SLOTS];
};

void stats_fold(struct worker *w)
{
	struct stats *s = w->stats;
	double kept = (double)(s->collectives < s->room ? s->collectives : s->room);
	link_fold(comm_link(w->all), &kept, 1, FOLD_MIN);
	s->collectives = (size_t)kept < s->room ? (size_t)kept : s->collectives;
	memcpy(s->shortest_s, s->collective_s, (size_t)kept * sizeof(float));
	link_fold_float_min(comm_link(w->all), s->shortest_s, (int)kept);
}

static void count_collective(struct comm *c, nsec since, size_t total_floats)
{
	struct stats *s = c->stats;
	nsec dt = clock_now() - since;
	s->comm += dt;
	if (s->collectives < s->room)
		s->collective_s[s->collectives] = (float)dt * 1e-9f;
	s->collectives++;
	s->bytes_sent +=
		(int64_t)((sizeof(float) * total_floats + (size_t)c->rank) / (size_t)c->size);
}

static void count_message(struct comm *c, nsec since, size_t floats)
{
	c->stats->comm += clock_now() - since;
	c->stats->bytes_sent += (int64_t)(sizeof(float) * floats);
}

static struct comm *comm_new(struct link *link, int rank, int size, struct stats *stats)
{
	struct comm *c = must(calloc(1, sizeof *c));
	*c = (struct comm){.link = link, .rank = rank, .size = size, .stats = stats};
	for (int i = 0; i < LINK_SLOTS; i++)
		c->slot[i].comm = c;
	return c;
}

struct comm *comm_layout(int rank, int size)
{
	return comm_new(NULL, rank, size, NULL);
}

struct comm *comm_world_trainers(struct worker *w)
{
	return comm_new(link_world(w->trainers), w->rank, w->trainers, w->stats);
}

struct comm *comm_split(struct comm *c, int color)
{
	int rank = 0, size = 1;
	struct link *l = link_split(c->link, color, &rank, &size);
	return comm_new(l, rank, size, c->stats);
}

void comm_free(struct comm *c)
{
	if (!c)
		return;
	for (int i = 0; i < LINK_SLOTS; i++)
		CHECK(!c->slot[i].busy, "a reduction that was started is never waited for");
	link_free(c->link);
	free(c);
}

struct link *comm_link(struct comm *c)
{
	return c->link;
}

int comm_rank(const struct comm *c)
{
	return c->rank;
}

int comm_size(const struct comm *c)
{
	return c->size;
}

static void check_peer(const struct comm *c, int peer)
{
	CHECK(peer >= 0 && peer < c->size && peer != c->rank, "rank %d of %d talks to rank %d",
	      c->rank, c->size, peer);
}

void comm_send(struct comm *c, int to, const struct vec *v)
{
	nsec t = clock_now();
	check_peer(c, to);
	link_send(c->link, to, v->data, v->n);
	count_message(c, t, v->n);
}

void comm_recv(struct comm *c, int from, struct vec *v)
{
	nsec t = clock_now();
	check_peer(c, from);
	link_recv(c->link, from, v->data, v->n);
	count_message(c, t, 0);
}

void comm_exchange(struct comm *c, int peer, const struct vec *out, struct vec *in)
{
	nsec t = clock_now();
	check_peer(c, peer);
	CHECK(out->n == in->n, "exchange of %zu floats for %zu", out->n, in->n);
	link_exchange(c->link, peer, out->data, in->data, out->n);
	count_message(c, t, out->n);
}

void comm_allreduce_part(struct comm *c, struct vec *v, size_t first, size_t n, enum reduce op)
{
	CHECK(first + n <= v->n, "allreduce of [%zu, %zu) of %zu", first, first + n, v->n);
	if (c->size == 1)
		return;
	nsec t = clock_now();
	link_allreduce(c->link, v->data + first, n);
	count_collective(c, t, 2 * (size_t)(c->size - 1) * n);
	if (op == MEAN)
		v->dev->ops->scale(v->dev, v->data + first, 1.0f / (float)c->size, n);
}

void comm_allreduce(struct comm *c, struct vec *v, enum reduce op)
{
	comm_allreduce_part(c, v, 0, v->n, op);
}

struct request *comm_allreduce_start(struct comm *c, struct vec *v, size_t first, size_t n)
{
	int i = 0;
	CHECK(first + n <= v->n, "allreduce of [%zu, %zu) of %zu", first, first + n, v->n);
	while (i < LINK_SLOTS && c->slot[i].busy)
		i++;
	CHECK(i < LINK_SLOTS, "more than %d reductions under way", LINK_SLOTS);
	c->slot[i].busy = true;
	if (c->size > 1) {
		nsec t = clock_now();
		link_allreduce_start(c->link, i, v->data + first, n);
		c->stats->comm += clock_now() - t;
		c->stats->bytes_sent += (int64_t)((sizeof(float) * 2 * (size_t)(c->size - 1) * n +
						   (size_t)c->rank) /
						  (size_t)c->size);
	}
	return &c->slot[i];
}

void comm_wait(struct request *r)
{
	struct comm *c = r->comm;
	CHECK(r->busy, "waits twice for one request");
	if (c->size > 1) {
		nsec t = clock_now();
		link_allreduce_wait(c->link, (int)(r - c->slot));
		count_collective(c, t, 0);
	}
	r->busy = false;
}

void comm_allgather(struct comm *c, struct vec *all, const struct vec *mine)
{
	nsec t = clock_now();
	int counts[c->size], firsts[c->size], n = (int)mine->n;
	if (c->size == 1) {
		CHECK(all->n == mine->n, "gathers %zu floats into %zu", mine->n, all->n);
		all->dev->ops->copy(all->dev, all->data, mine->data, mine->n);
		return;
	}
	link_gather_counts(c->link, n, counts);
	size_t total = 0;
	for (int i = 0; i < c->size; i++) {
		firsts[i] = (int)total;
		total += (size_t)counts[i];
	}
	CHECK(total == all->n, "gathers %zu floats into %zu", total, all->n);
	link_allgather(c->link, all->data, counts, firsts, mine->data, n);
	count_collective(c, t, (size_t)(c->size - 1) * total);
}

void comm_broadcast(struct comm *c, int root, struct vec *v)
{
	if (c->size == 1)
		return;
	nsec t = clock_now();
	link_broadcast(c->link, root, v->data, v->n * sizeof(float));
	count_collective(c, t, (size_t)(c->size - 1) * v->n);
}

/* A barrier moves nothing: all of its time is waiting. */
void comm_barrier(struct comm *c)
{
	if (c->size == 1)
		return;
	nsec t = clock_now();
	link_barrier(c->link);
	c->stats->wait += clock_now() - t;
}
