/*
 * ipc.c - allreduce through memory that the other ranks map. Each rank copies x into its block;
 * when all have, one kernel on every rank sums the blocks.
 *
 * Each rank has two blocks. Reductions are placed in a block one after the other, in the order of
 * their start, which is the same on all ranks; one that does not fit goes into the other block.
 * Each rank has two counters in memory that all share: reductions placed, and reductions summed. A
 * sum waits until all ranks have placed. Before a rank reuses a block it waits until all ranks have
 * summed its content. It sums its own first, which avoids a deadlock.
 *
 * All of this runs on a second stream, next to the backward pass if it starts early.
 * start waits only for its own rank's copy. A later call queues the sum if all ranks have placed.
 *
 * Cost of n floats over N ranks: a copy (2 n floats of traffic), and (N + 1) n floats read and
 * written by every rank; the host waits twice.
 */
#include "runtime/comm/ipc.h"
#include "runtime/comm/comm.h"

#include <linux/futex.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BLOCKS = 2, AT_ONCE = LINK_SLOTS, SLOTS /* AT_ONCE: slot of ipc_allreduce */ };

/* ---- Shared counters ---------------------------------------------------------- */

struct counter {
	_Alignas(64) atomic_uint n;
};
struct counters { /* of one rank: reductions so far */
	struct counter placed, summed;
};

static bool is_at(struct counter *c, unsigned n)
{
	return (int)(atomic_load(&c->n) - n) >= 0;
}

static void advance(struct counter *c, unsigned n)
{
	atomic_store(&c->n, n);
	syscall(SYS_futex, &c->n, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Polls for 30 us if every rank has a core, then sleeps. */
static void wait_for(struct counter *c, unsigned n, bool look)
{
	const nsec look_ns = 30000, until = look ? clock_now() + look_ns : 0;
	while (look && !is_at(c, n))
		look = clock_now() < until;
	for (unsigned now; (int)((now = atomic_load(&c->n)) - n) < 0;)
		syscall(SYS_futex, &c->n, FUTEX_WAIT, now, NULL, NULL, 0);
}

/* ---- Blocks --------------------------------------------------------------------- */

struct reduction {
	float *x;
	size_t n;
	float factor;
	int64_t order;   /* of start; 0: done */
	unsigned number; /* order of placing; 0: not placed yet */
	bool queued;     /* its sum is queued */
	int block;
	size_t first; /* its first float in the block */
};

struct ipc {
	struct link *link;
	struct device *dev;
	int rank, size;
	bool look;
	struct counters *all; /* [size], shared */
	void *handle;
	size_t n;              /* room in a block [floats] */
	float **block[BLOCKS]; /* [size], own or mapped; NULL: cannot be mapped */
	int turn;              /* the current block */
	size_t used;           /* its used floats */
	unsigned last[BLOCKS]; /* number of the last reduction placed there */
	unsigned placed;
	int64_t started;
	struct reduction slot[SLOTS];
};

static const struct peer_ops *peer_of(const struct ipc *s)
{
	return s->dev->ops->peer;
}

static void unmap(struct ipc *s)
{
	device_sync(s->dev);
	for (int b = 0; b < BLOCKS; b++)
		for (int k = 0; s->block[b] && k < s->size; k++)
			if (k != s->rank && s->block[b][k])
				peer_of(s)->shared_unmap(s->dev, s->block[b][k]);
	link_barrier(s->link); /* all ranks have unmapped the memory that is freed now */
	for (int b = 0; b < BLOCKS; b++) {
		if (s->block[b] && s->block[b][s->rank])
			peer_of(s)->shared_free(s->dev, s->block[b][s->rank]);
		free(s->block[b]);
		s->block[b] = NULL;
	}
	s->dev->bytes -= BLOCKS * s->n * sizeof(float);
	s->n = 0;
}

typedef unsigned char handles[BLOCKS][PEER_HANDLE_BYTES];

/* Makes blocks of n floats and maps those of all ranks; false: this rank cannot map one. */
static bool map(struct ipc *s, size_t n)
{
	bool all = true;
	handles mine = {{0}}, *of AUTOFREE = must(calloc((size_t)s->size, sizeof *of));
	for (int b = 0; b < BLOCKS; b++) {
		s->block[b] = must(calloc((size_t)s->size, sizeof(float *)));
		s->block[b][s->rank] = peer_of(s)->shared_new(s->dev, n, mine[b]);
	}
	s->n = n;
	s->turn = 0;
	s->used = 0;
	s->dev->bytes += BLOCKS * n * sizeof(float);
	link_gather_bytes(s->link, mine, of, sizeof mine);
	link_broadcast(s->link, 0, of, (size_t)s->size * sizeof *of);
	for (int b = 0; b < BLOCKS; b++)
		for (int k = 0; k < s->size; k++) {
			float **x = &s->block[b][k];
			if (k != s->rank)
				*x = peer_of(s)->shared_map(s->dev, of[k][b]);
			all &= *x != NULL;
		}
	return all;
}

char *ipc_open(struct ipc **out, struct link *l, struct device *d, int rank, int size, size_t n)
{
	struct ipc *s = *out = must(calloc(1, sizeof *s));
	*s = (struct ipc){.link = l, .dev = d, .rank = rank, .size = size};
	if (!link_one_node(l))
		return sentence("the workers are not all on one machine; use nccl, staged or auto");
	s->look = usable_cores() >= size;
	s->all = link_shared_new(l, (size_t)size * sizeof *s->all, &s->handle);
	if (!map(s, n))
		return sentence("worker %d cannot map the GPU memory of all others; use staged or "
				"auto",
				rank);
	return NULL;
}

void ipc_close(struct ipc *s)
{
	if (s && s->all) {
		unmap(s);
		link_shared_free(s->all, s->handle);
	}
	free(s);
}

/* ---- Reductions ------------------------------------------------------------------ */

/* The oldest reduction that is not done; with not_placed: the oldest that is not placed. */
static struct reduction *oldest(struct ipc *s, bool not_placed)
{
	struct reduction *first = NULL;
	for (int i = 0; i < SLOTS; i++) {
		struct reduction *r = &s->slot[i];
		if (r->order && !(not_placed && r->number) && (!first || r->order < first->order))
			first = r;
	}
	return first;
}

/* Queues the sums of reductions that all ranks have placed, oldest first; with `all` it waits until
 * they are placed. Returns the number of the last one, 0: none. On the second stream. */
static unsigned queue_sums(struct ipc *s, bool all)
{
	unsigned last = 0;
	for (;;) {
		struct reduction *r = NULL;
		for (int i = 0; i < SLOTS; i++) {
			struct reduction *one = &s->slot[i];
			if (one->order && one->number && !one->queued &&
			    (!r || one->order < r->order))
				r = one;
		}
		for (int k = 0; r && k < s->size; k++) {
			struct counter *c = &s->all[k].placed;
			if (all)
				wait_for(c, r->number, s->look);
			else if (!is_at(c, r->number))
				r = NULL;
		}
		if (!r)
			return last;
		const float *at[s->size];
		for (int k = 0; k < s->size; k++)
			at[k] = s->block[r->block][k] + r->first;
		peer_of(s)->sum(s->dev, r->x, at, s->size, r->factor, r->n);
		r->queued = true;
		last = r->number;
	}
}

/* Waits for the second stream and marks the queued sums as done. On the second stream. */
static void settle(struct ipc *s)
{
	unsigned last = 0;
	s->dev->ops->sync(s->dev);
	for (int i = 0; i < SLOTS; i++) {
		struct reduction *r = &s->slot[i];
		if (!r->order || !r->queued)
			continue;
		if (!last || (int)(r->number - last) > 0)
			last = r->number;
		r->order = 0;
	}
	if (last)
		advance(&s->all[s->rank].summed, last);
}

static void finish_placed(struct ipc *s)
{
	queue_sums(s, true);
	settle(s);
}

/* Copies its floats into a block, which is large enough. On the second stream. */
static void place(struct ipc *s, struct reduction *r)
{
	if (s->used + r->n > s->n) {
		s->turn = (s->turn + 1) % BLOCKS;
		s->used = 0;
		finish_placed(s);
		for (int k = 0; k < s->size; k++)
			wait_for(&s->all[k].summed, s->last[s->turn], s->look);
	}
	r->block = s->turn;
	r->first = s->used;
	s->used += r->n;
	r->number = s->last[s->turn] = ++s->placed;
	r->queued = false;
	s->dev->ops->copy(s->dev, s->block[r->block][s->rank] + r->first, r->x, r->n);
	settle(s);
	advance(&s->all[s->rank].placed, r->number);
}

void ipc_grow(struct ipc *s, size_t n)
{
	if (n <= s->n)
		return;
	peer_of(s)->use_second_stream(s->dev, true);
	finish_placed(s);
	peer_of(s)->use_second_stream(s->dev, false);
	unmap(s);
	CHECK(map(s, n), "the GPU memory of all workers could be mapped, and now cannot be");
}

static void begin(struct ipc *s, int slot, float *x, size_t n, float factor)
{
	s->slot[slot] = (struct reduction){.x = x, .n = n, .factor = factor, .order = ++s->started};
}

/* A reduction larger than a block is placed in ipc_wait, where all ranks grow their blocks
 * together. Later ones then wait too, because the order of placing must not change. */
void ipc_start(struct ipc *s, int slot, float *x, size_t n)
{
	begin(s, slot, x, n, 1);
	if (oldest(s, true) != &s->slot[slot] || n > s->n)
		return;
	peer_of(s)->use_second_stream(s->dev, true);
	place(s, &s->slot[slot]);
	queue_sums(s, false);
	peer_of(s)->use_second_stream(s->dev, false);
}

void ipc_wait(struct ipc *s, int slot)
{
	while (s->slot[slot].order) {
		struct reduction *r = s->slot[slot].number ? NULL : oldest(s, true);
		if (r)
			ipc_grow(s, r->n);
		peer_of(s)->use_second_stream(s->dev, true);
		if (r)
			place(s, r);
		else
			finish_placed(s);
		peer_of(s)->use_second_stream(s->dev, false);
	}
}

void ipc_allreduce(struct ipc *s, float *x, size_t n, float factor)
{
	begin(s, AT_ONCE, x, n, factor);
	ipc_wait(s, AT_ONCE);
}
