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
#include "runtime/comm/transport.h"

#include <linux/futex.h>
#include <stdatomic.h>
#include <stdlib.h>
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

enum progress { DONE, STARTED, PLACED, QUEUED /* its sum is queued */ };
struct reduction {
	enum progress state;
	float *x;
	size_t n;
	float factor;
	unsigned number; /* in the order of start, which is that of placing, from 1 */
	int block;
	size_t first; /* its first float in the block */
};

struct ipc {
	bool look;
	struct counters *all; /* [size], shared */
	void *handle;
	size_t n;              /* room in a block [floats] */
	float **block[BLOCKS]; /* [size], own or mapped; NULL: cannot be mapped */
	int turn;              /* the current block */
	size_t used;           /* its used floats */
	unsigned last[BLOCKS]; /* number of the last reduction placed there */
	unsigned started;
	struct reduction slot[SLOTS];
};

static void unmap(struct transport *t)
{
	struct ipc *s = t->ipc;
	device_sync(t->dev);
	for (int b = 0; b < BLOCKS; b++)
		for (int k = 0; s->block[b] && k < t->size; k++)
			if (k != t->rank && s->block[b][k])
				peer_of(t)->shared_unmap(t->dev, s->block[b][k]);
	link_barrier(t->link); /* all ranks have unmapped the memory that is freed now */
	for (int b = 0; b < BLOCKS; b++) {
		if (s->block[b] && s->block[b][t->rank])
			peer_of(t)->shared_free(t->dev, s->block[b][t->rank]);
		free(s->block[b]);
		s->block[b] = NULL;
	}
	t->dev->bytes -= BLOCKS * s->n * sizeof(float);
	s->n = 0;
}

typedef unsigned char handles[BLOCKS][PEER_HANDLE_BYTES];

/* Makes blocks of n floats and maps those of all ranks; false: this rank cannot map one. */
static bool ipc_map(struct transport *t, size_t n)
{
	struct ipc *s = t->ipc;
	bool all = true;
	handles mine = {{0}}, *of AUTOFREE = must(calloc((size_t)t->size, sizeof *of));
	for (int b = 0; b < BLOCKS; b++) {
		s->block[b] = must(calloc((size_t)t->size, sizeof(float *)));
		s->block[b][t->rank] = peer_of(t)->shared_new(t->dev, n, mine[b]);
	}
	s->n = n;
	s->turn = 0;
	s->used = 0;
	t->dev->bytes += BLOCKS * n * sizeof(float);
	link_gather(t->link, -1, mine, of, sizeof mine);
	for (int b = 0; b < BLOCKS; b++)
		for (int k = 0; k < t->size; k++) {
			float **x = &s->block[b][k];
			if (k != t->rank)
				*x = peer_of(t)->shared_map(t->dev, of[k][b]);
			all &= *x != NULL;
		}
	return all;
}

static char *ipc_open(struct transport *t, size_t n)
{
	struct ipc *s = t->ipc = must(calloc(1, sizeof *s));
	if (!link_one_node(t->link))
		return sentence("the workers are not all on one machine; use nccl, staged or auto");
	s->look = usable_cores() >= t->size;
	s->all = link_shared_new(t->link, (size_t)t->size * sizeof *s->all, &s->handle);
	if (!ipc_map(t, n))
		return sentence("worker %d cannot map the GPU memory of all others; use staged or "
				"auto",
				t->rank);
	return NULL;
}

static void ipc_close(struct transport *t)
{
	struct ipc *s = t->ipc;
	if (s->all) {
		unmap(t);
		link_shared_free(s->all, s->handle);
	}
	free(s);
	t->ipc = NULL;
}

/* ---- Reductions ------------------------------------------------------------------ */

/* The oldest reduction in this state, or NULL. */
static struct reduction *oldest(struct ipc *s, enum progress state)
{
	struct reduction *first = NULL;
	for (struct reduction *r = s->slot; r < s->slot + SLOTS; r++)
		if (r->state == state && (!first || (int)(r->number - first->number) < 0))
			first = r;
	return first;
}

/* Queues the sums of reductions that all ranks have placed, oldest first; with `all` it waits until
 * they are placed. On the second stream. */
static void queue_sums(struct transport *t, bool all)
{
	struct ipc *s = t->ipc;
	for (struct reduction *r; (r = oldest(s, PLACED)); r->state = QUEUED) {
		const float *at[t->size];
		for (int k = 0; k < t->size; k++) {
			struct counter *c = &s->all[k].placed;
			if (all)
				wait_for(c, r->number, s->look);
			else if (!is_at(c, r->number))
				return;
			at[k] = s->block[r->block][k] + r->first;
		}
		peer_of(t)->sum(t->dev, r->x, at, t->size, r->factor, r->n);
	}
}

/* Waits for the second stream and marks the queued sums as done. On the second stream. */
static void settle(struct transport *t)
{
	struct ipc *s = t->ipc;
	struct reduction *last = NULL;
	t->dev->ops->sync(t->dev);
	for (struct reduction *r; (r = oldest(s, QUEUED)); last = r)
		r->state = DONE;
	if (last)
		advance(&s->all[t->rank].summed, last->number);
}

static void finish_placed(struct transport *t)
{
	queue_sums(t, true);
	settle(t);
}

/* Copies its floats into a block, which is large enough. On the second stream. */
static void copy_to_block(struct transport *t, struct reduction *r)
{
	struct ipc *s = t->ipc;
	if (s->used + r->n > s->n) {
		s->turn = (s->turn + 1) % BLOCKS;
		s->used = 0;
		finish_placed(t);
		for (int k = 0; k < t->size; k++)
			wait_for(&s->all[k].summed, s->last[s->turn], s->look);
	}
	r->state = PLACED;
	r->block = s->turn;
	r->first = s->used;
	s->used += r->n;
	s->last[s->turn] = r->number;
	t->dev->ops->copy(t->dev, s->block[r->block][t->rank] + r->first, r->x, r->n);
	settle(t);
	advance(&s->all[t->rank].placed, r->number);
}

static void ipc_grow(struct transport *t, size_t n)
{
	if (n <= t->ipc->n)
		return;
	peer_of(t)->use_second_stream(t->dev, true);
	finish_placed(t);
	peer_of(t)->use_second_stream(t->dev, false);
	unmap(t);
	CHECK(ipc_map(t, n), "the GPU memory of all workers could be mapped, and now cannot be");
}

static void begin(struct ipc *s, int slot, float *x, size_t n, float factor)
{
	s->slot[slot] = (struct reduction){
		.state = STARTED, .x = x, .n = n, .factor = factor, .number = ++s->started};
}

/* A reduction larger than a block is placed in ipc_wait, where all ranks grow their blocks
 * together. Later ones then wait too, because the order of placing must not change. */
static void ipc_start(struct transport *t, int slot, float *x, size_t n)
{
	struct ipc *s = t->ipc;
	begin(s, slot, x, n, 1);
	if (oldest(s, STARTED) != &s->slot[slot] || n > s->n)
		return;
	copy_to_block(t, &s->slot[slot]);
	queue_sums(t, false);
}

static void ipc_wait(struct transport *t, int slot)
{
	struct ipc *s = t->ipc;
	while (s->slot[slot].state != DONE) {
		struct reduction *r = s->slot[slot].state == STARTED ? oldest(s, STARTED) : NULL;
		if (r)
			ipc_grow(t, r->n);
		peer_of(t)->use_second_stream(t->dev, true);
		if (r)
			copy_to_block(t, r);
		else
			finish_placed(t);
		peer_of(t)->use_second_stream(t->dev, false);
	}
}

/* The ranks' floats are added in the order of ranks. */
static void ipc_allreduce(struct transport *t, float *x, size_t n, float factor)
{
	begin(t->ipc, AT_ONCE, x, n, factor);
	ipc_wait(t, AT_ONCE);
}

const struct transport_ops transport_ipc = {.name = "ipc",
					    .open = ipc_open,
					    .close = ipc_close,
					    .grow = ipc_grow,
					    .allreduce = ipc_allreduce,
					    .start = ipc_start,
					    .wait = ipc_wait};
