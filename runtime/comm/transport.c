/*
 * transport.c - how the vectors of a device reach other ranks.
 *
 *   nccl    each rank has its own GPU: NCCL reduces over any links between the GPUs
 *   ipc     all ranks on one machine; each maps the memory of all others (ipc.c)
 *   mpi     Open MPI takes addresses of GPU memory
 *   staged  through pinned host memory
 *
 * `auto` takes the first one that works on all ranks. NCCL needs that no two ranks share a GPU; it
 * comes first because it uses all links at once, while the kernel of ipc reads over one. Then
 * follow CUDA IPC, CUDA-aware MPI, and staging. Messages (send, recv, exchange, allgather,
 * broadcast) use MPI: directly with mpi, otherwise staged.
 *
 * Started reductions run next to the backward pass. With mpi they are staged, because only the
 * blocking allreduce of MPI takes addresses of GPU memory.
 *
 * Cost of an allreduce of n floats over N ranks, staged: n floats each way between device and host,
 * and MPI_Allreduce of n.
 */
#include "runtime/comm/comm.h"
#include "runtime/comm/ipc.h"
#include "runtime/comm/transport.h"

#include <stdlib.h>
#include <string.h>

/* ---- Operations of a transport --------------------------------------------- */

struct transport_ops {
	const char *name;
	/* Collective. NULL, or why this rank cannot use it. */
	char *(*open)(struct transport *t, size_t n);
	/* Collective: undoes open, also after a failed open. NULL = nothing to undo. */
	void (*close)(struct transport *t);
	/* Collective: makes room for reductions of n floats. NULL = no room needed. */
	void (*grow)(struct transport *t, size_t n);
	void (*allreduce)(struct transport *t, float *x, size_t n, float factor);
	/* Waits may come in another order than starts, which all ranks make in the same order. */
	void (*start)(struct transport *t, int slot);
	void (*wait)(struct transport *t, int slot);
	bool direct; /* MPI sends messages directly from the device's memory */
};

/* A pending reduction. */
struct pending_reduce {
	float *x;
	size_t n;
	float *host; /* staged: its floats, in the transport's pinned memory, or in own */
	float *own;  /* [own_n] its own pinned memory, if the transport's had no room */
	size_t own_n;
};

struct transport {
	const struct transport_ops *ops; /* NULL: not chosen */
	struct link *link;
	int rank, size;
	struct device *dev;
	float *stage; /* pinned [stage_n]: for messages and blocking reductions */
	size_t stage_n;
	struct ipc *ipc;
	void *nccl;
	bool should_work; /* each worker has a GPU of its own, as NCCL needs */
	struct pending_reduce pending[LINK_SLOTS];
	float *pinned; /* [pinned_n]; pending reductions use pinned_used of it */
	size_t pinned_n, pinned_used;
	int under_way;
};

static const struct peer_ops *peer_of(const struct transport *t)
{
	return t->dev->ops->peer;
}

static void scale(struct transport *t, float *x, size_t n, float factor)
{
	if (factor != 1)
		t->dev->ops->scale(t->dev, x, factor, n);
}

static void make_pinned(struct transport *t, float **host, size_t *room, size_t n)
{
	if (*room >= n)
		return;
	if (*host)
		peer_of(t)->pinned_free(t->dev, *host);
	*host = peer_of(t)->pinned_new(t->dev, n);
	*room = n;
}

static float *stage_of(struct transport *t, size_t n)
{
	make_pinned(t, &t->stage, &t->stage_n, n);
	return t->stage;
}

/* Where MPI reads or writes n floats of x: x itself, or pinned memory. */
static float *place_of(struct transport *t, const float *x, size_t n)
{
	if (!t->ops || !t->ops->direct)
		return stage_of(t, n);
	device_sync(t->dev);
	return (float *)(uintptr_t)x;
}

static void fetch(struct transport *t, float *place, const float *x, size_t n)
{
	if (place != x)
		t->dev->ops->get(t->dev, place, x, n);
}

static void put_back(struct transport *t, float *x, const float *place, size_t n)
{
	if (place != x)
		t->dev->ops->put(t->dev, x, place, n);
}

/* Reduces with MPI: directly on the device's memory, or staged. */
static void reduce_there(struct transport *t, float *x, size_t n, enum reduce how)
{
	float *place = place_of(t, x, n);
	fetch(t, place, x, n);
	link_allreduce_by(t->link, place, n, how);
	put_back(t, x, place, n);
}

static void reduce_by_mpi(struct transport *t, float *x, size_t n, float factor)
{
	reduce_there(t, x, n, SUM);
	scale(t, x, n, factor);
}

/* ---- NCCL ------------------------------------------------------------------- */

static char *refuse_shared_gpus(struct transport *t)
{
	int identity[t->size];
	link_gather_counts(t->link, (int)(t->dev->identity >> 33), identity);
	for (int i = 0; i < t->size; i++)
		for (int k = i + 1; k < t->size; k++)
			if (identity[i] == identity[k])
				return sentence("workers %d and %d share a GPU, but NCCL needs "
						"one for each; use ipc or auto",
						i, k);
	return NULL;
}

static char *nccl_open(struct transport *t, size_t n)
{
	unsigned char id[NCCL_ID_BYTES] = {0};
	char *wrong = link_agree(t->link, refuse_shared_gpus(t));
	(void)n;
	if (wrong)
		return wrong;
	t->should_work = true;
	wrong = link_agree(t->link, t->rank == 0 ? peer_of(t)->nccl_id(t->dev, id) : NULL);
	if (wrong)
		return wrong;
	link_broadcast(t->link, 0, id, sizeof id);
	return peer_of(t)->nccl_new(t->dev, &t->nccl, id, t->rank, t->size);
}

static void nccl_close(struct transport *t)
{
	if (t->nccl)
		peer_of(t)->nccl_free(t->dev, t->nccl);
	t->nccl = NULL;
}

static void nccl_allreduce(struct transport *t, float *x, size_t n, float factor)
{
	peer_of(t)->nccl_allreduce(t->dev, t->nccl, x, n);
	scale(t, x, n, factor);
}

static void nccl_start(struct transport *t, int slot)
{
	peer_of(t)->use_second_stream(t->dev, true);
	peer_of(t)->nccl_allreduce(t->dev, t->nccl, t->pending[slot].x, t->pending[slot].n);
	peer_of(t)->use_second_stream(t->dev, false);
}

/* Waits for all pending reductions, because NCCL does them in order. */
static void nccl_wait(struct transport *t, int slot)
{
	(void)slot;
	peer_of(t)->use_second_stream(t->dev, true);
	device_sync(t->dev);
	peer_of(t)->use_second_stream(t->dev, false);
}

/* ---- CUDA IPC ----------------------------------------------------------------- */

static char *open_ipc(struct transport *t, size_t n)
{
	return ipc_open(&t->ipc, t->link, t->dev, t->rank, t->size, n);
}

static void close_ipc(struct transport *t)
{
	ipc_close(t->ipc);
	t->ipc = NULL;
}

static void grow_ipc(struct transport *t, size_t n)
{
	ipc_grow(t->ipc, n);
}

static void allreduce_by_ipc(struct transport *t, float *x, size_t n, float factor)
{
	ipc_allreduce(t->ipc, x, n, factor);
}

static void start_by_ipc(struct transport *t, int slot)
{
	ipc_start(t->ipc, slot, t->pending[slot].x, t->pending[slot].n);
}

static void wait_for_ipc(struct transport *t, int slot)
{
	ipc_wait(t->ipc, slot);
}

/* ---- Staging ---------------------------------------------------------------------- */

static char *staged_open(struct transport *t, size_t n)
{
	make_pinned(t, &t->pinned, &t->pinned_n, n);
	stage_of(t, n);
	return NULL;
}

static void staged_close(struct transport *t)
{
	for (int i = 0; i < LINK_SLOTS; i++)
		if (t->pending[i].own)
			peer_of(t)->pinned_free(t->dev, t->pending[i].own);
	if (t->pinned)
		peer_of(t)->pinned_free(t->dev, t->pinned);
	t->pinned = NULL;
	t->pinned_n = 0;
}

static void staged_grow(struct transport *t, size_t n)
{
	if (t->under_way == 0)
		make_pinned(t, &t->pinned, &t->pinned_n, n);
}

static void staged_start(struct transport *t, int slot)
{
	struct pending_reduce *g = &t->pending[slot];
	if (g->n <= t->pinned_n - t->pinned_used) {
		g->host = t->pinned + t->pinned_used;
		t->pinned_used += g->n;
	} else {
		make_pinned(t, &g->own, &g->own_n, g->n);
		g->host = g->own;
	}
	t->under_way++;
	peer_of(t)->use_second_stream(t->dev, true);
	t->dev->ops->get(t->dev, g->host, g->x, g->n);
	peer_of(t)->use_second_stream(t->dev, false);
	link_allreduce_start(t->link, slot, g->host, g->n);
}

static void staged_wait(struct transport *t, int slot)
{
	struct pending_reduce *g = &t->pending[slot];
	link_allreduce_wait(t->link, slot);
	t->dev->ops->put(t->dev, g->x, g->host, g->n);
	if (--t->under_way == 0)
		t->pinned_used = 0;
}

/* ---- CUDA-aware MPI ------------------------------------------------------------- */

static char *mpi_open(struct transport *t, size_t n)
{
	if (!link_reads_devices())
		return sentence("%s was built without CUDA, and cannot take addresses of GPU "
				"memory; use staged or auto",
				platform_version());
	make_pinned(t, &t->pinned, &t->pinned_n, n);
	return NULL;
}

/* ---- The choice ---------------------------------------------------------------------- */

static const struct transport_ops nccl = {.name = "nccl",
					  .open = nccl_open,
					  .close = nccl_close,
					  .allreduce = nccl_allreduce,
					  .start = nccl_start,
					  .wait = nccl_wait},
				  ipc = {.name = "ipc",
					 .open = open_ipc,
					 .close = close_ipc,
					 .grow = grow_ipc,
					 .allreduce = allreduce_by_ipc,
					 .start = start_by_ipc,
					 .wait = wait_for_ipc},
				  mpi = {.name = "mpi",
					 .open = mpi_open,
					 .close = staged_close,
					 .grow = staged_grow,
					 .allreduce = reduce_by_mpi,
					 .start = staged_start,
					 .wait = staged_wait,
					 .direct = true},
				  staged = {.name = "staged",
					    .open = staged_open,
					    .close = staged_close,
					    .grow = staged_grow,
					    .allreduce = reduce_by_mpi,
					    .start = staged_start,
					    .wait = staged_wait};

#define POINT(name) &name,
static const struct transport_ops *const transports[] = {TRANSPORT_LIST(POINT) NULL};

struct transport *transport_new(struct link *l, int rank, int size, struct device *d)
{
	struct transport *t = must(calloc(1, sizeof *t));
	*t = (struct transport){.link = l, .rank = rank, .size = size, .dev = d};
	return t;
}

void transport_free(struct transport *t)
{
	if (t && t->ops && t->ops->close)
		t->ops->close(t);
	if (t && t->stage)
		peer_of(t)->pinned_free(t->dev, t->stage);
	free(t);
}

bool transport_is_for(const struct transport *t, const struct device *d)
{
	return t->dev == d;
}

char *transport_choose(struct transport *t, const char *wanted, size_t n)
{
	bool any = !wanted || strcmp(wanted, "auto") == 0;
	char *wrong = NULL;
	double most = (double)n;
	link_reduce_all(t->link, &most, 1, REDUCE_MAX);
	n = (size_t)most; /* all ranks must grow together, even if their parts of a model differ */
	if (t->ops && t->ops->grow)
		t->ops->grow(t, n);
	for (size_t i = 0; !t->ops && transports[i]; i++) {
		const struct transport_ops *ops = transports[i];
		if (!any && strcmp(ops->name, wanted) != 0)
			continue;
		free(wrong);
		wrong = link_agree(t->link, ops->open(t, n));
		if (!wrong)
			t->ops = ops;
		else if (ops->close)
			ops->close(t);
		if (wrong && any && ops == &nccl && t->should_work && t->rank == 0)
			fprintf(stderr, "mvbench: each worker has a GPU, but %s\n", wrong);
	}
	CHECK(t->ops || wrong, "no transport %s", wanted);
	return wrong;
}

const char *transport_name(const struct transport *t)
{
	return t->ops ? t->ops->name : NULL;
}

const char *transport_messages(const struct transport *t)
{
	return t->ops && t->ops->direct ? t->ops->name : staged.name;
}

void transport_allreduce(struct transport *t, float *x, size_t n, enum reduce how)
{
	if (t->ops->grow)
		t->ops->grow(t, n);
	if (how == SUM || how == MEAN)
		t->ops->allreduce(t, x, n, how == MEAN ? 1.0f / (float)t->size : 1);
	else
		reduce_there(t, x, n, how);
}

void transport_start(struct transport *t, int slot, float *x, size_t n)
{
	struct pending_reduce *g = &t->pending[slot];
	g->x = x;
	g->n = n;
	t->ops->start(t, slot);
}

void transport_wait(struct transport *t, int slot)
{
	t->ops->wait(t, slot);
}

/* ---- Messages ---------------------------------------------------------------------- */

void transport_send(struct transport *t, int to, const float *x, size_t n)
{
	float *place = place_of(t, x, n);
	fetch(t, place, x, n);
	link_send(t->link, to, place, n);
}

void transport_recv(struct transport *t, int from, float *x, size_t n)
{
	float *place = place_of(t, x, n);
	link_recv(t->link, from, place, n);
	put_back(t, x, place, n);
}

/* For both directions at once: in pinned memory the output follows the input. */
static const float *place_output(struct transport *t, float *place, const float *in, size_t room,
				 const float *out, size_t n)
{
	if (place == in)
		return out;
	fetch(t, place + room, out, n);
	return place + room;
}

void transport_exchange(struct transport *t, int peer, const float *out, float *in, size_t n)
{
	float *place = place_of(t, in, 2 * n);
	link_exchange(t->link, peer, place_output(t, place, in, n, out, n), place, n);
	put_back(t, in, place, n);
}

void transport_allgather(struct transport *t, float *all, const int *counts, const int *firsts,
			 const float *mine, int n)
{
	size_t total = (size_t)firsts[t->size - 1] + (size_t)counts[t->size - 1], own = (size_t)n;
	float *place = place_of(t, all, total + own);
	link_allgather(t->link, place, counts, firsts,
		       place_output(t, place, all, total, mine, own), n);
	put_back(t, all, place, total);
}

void transport_broadcast(struct transport *t, int root, float *x, size_t n)
{
	float *place = place_of(t, x, n);
	if (t->rank == root)
		fetch(t, place, x, n);
	link_broadcast(t->link, root, place, n * sizeof *x);
	if (t->rank != root)
		put_back(t, x, place, n);
}
