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
#include "runtime/comm/transport.h"

#include <stdlib.h>
#include <string.h>

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

/* ---- Messages ---------------------------------------------------------------------- */

static bool is_staged(const struct transport *t)
{
	return t && !(t->ops && t->ops->direct);
}

float *transport_in(struct transport *t, float *x, size_t room)
{
	if (!is_staged(t))
		return x;
	make_pinned(t, &t->stage, &t->stage_n, room);
	return t->stage;
}

const float *transport_out(struct transport *t, const float *x, size_t n, size_t after)
{
	if (!is_staged(t))
		return x;
	make_pinned(t, &t->stage, &t->stage_n, after + n);
	t->dev->ops->get(t->dev, t->stage + after, x, n);
	return t->stage + after;
}

void transport_arrived(struct transport *t, float *x, size_t n)
{
	if (is_staged(t))
		t->dev->ops->put(t->dev, x, t->stage, n);
}

/* Reduces with MPI: directly on the device's memory, or staged. */
static void reduce_there(struct transport *t, float *x, size_t n, enum reduce how)
{
	float *place = transport_in(t, x, n);
	transport_out(t, x, n, 0);
	(is_staged(t) ? link_allreduce : link_allreduce_by_mpi)(t->link, place, n, how);
	transport_arrived(t, x, n);
}

static void reduce_by_mpi(struct transport *t, float *x, size_t n, float factor)
{
	reduce_there(t, x, n, COMM_SUM);
	scale(t, x, n, factor);
}

/* ---- NCCL ------------------------------------------------------------------- */

static char *refuse_shared_gpus(struct transport *t)
{
	uint64_t identity[t->size];
	link_gather(t->link, -1, &t->dev->identity, identity, sizeof *identity);
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

static void nccl_start(struct transport *t, int slot, float *x, size_t n)
{
	(void)slot;
	peer_of(t)->nccl_allreduce(t->dev, t->nccl, x, n);
}

/* Waits for all pending reductions, because NCCL does them in order. */
static void nccl_wait(struct transport *t, int slot)
{
	(void)slot;
	peer_of(t)->use_second_stream(t->dev, true);
	device_sync(t->dev);
	peer_of(t)->use_second_stream(t->dev, false);
}

const struct transport_ops transport_nccl = {.name = "nccl",
					     .open = nccl_open,
					     .close = nccl_close,
					     .allreduce = nccl_allreduce,
					     .start = nccl_start,
					     .wait = nccl_wait};

/* ---- Staging ---------------------------------------------------------------------- */

static char *staged_open(struct transport *t, size_t n)
{
	make_pinned(t, &t->pinned, &t->pinned_n, n);
	make_pinned(t, &t->stage, &t->stage_n, n);
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

static void staged_start(struct transport *t, int slot, float *x, size_t n)
{
	struct pending_reduce *g = &t->pending[slot];
	g->x = x;
	g->n = n;
	if (n <= t->pinned_n - t->pinned_used) {
		g->host = t->pinned + t->pinned_used;
		t->pinned_used += n;
	} else {
		make_pinned(t, &g->own, &g->own_n, n);
		g->host = g->own;
	}
	t->under_way++;
	t->dev->ops->get(t->dev, g->host, x, n);
	link_allreduce_start(t->link, slot, g->host, n);
}

static void staged_wait(struct transport *t, int slot)
{
	struct pending_reduce *g = &t->pending[slot];
	link_allreduce_wait(t->link, slot);
	t->dev->ops->put(t->dev, g->x, g->host, g->n);
	if (--t->under_way == 0)
		t->pinned_used = 0;
}

const struct transport_ops transport_staged = {.name = "staged",
					       .open = staged_open,
					       .close = staged_close,
					       .grow = staged_grow,
					       .allreduce = reduce_by_mpi,
					       .start = staged_start,
					       .wait = staged_wait};

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

const struct transport_ops transport_mpi = {.name = "mpi",
					    .open = mpi_open,
					    .close = staged_close,
					    .grow = staged_grow,
					    .allreduce = reduce_by_mpi,
					    .start = staged_start,
					    .wait = staged_wait,
					    .direct = true};

/* ---- The choice ---------------------------------------------------------------------- */

#define POINT(name) &transport_##name,
static const struct transport_ops *const transports[] = {TRANSPORT_LIST(POINT) NULL};

struct transport *transport_new(struct link *l, struct device *d)
{
	struct transport *t = must(calloc(1, sizeof *t));
	*t = (struct transport){.link = l, .rank = link_rank(l), .size = link_size(l), .dev = d};
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

char *transport_choose(struct transport *t, const char *wanted, size_t n)
{
	bool any = strcmp(wanted, "auto") == 0;
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
		if (wrong && any && ops == &transport_nccl && t->should_work && t->rank == 0)
			fprintf(stderr, "mvbench: each worker has a GPU, but %s\n", wrong);
	}
	CHECK(t->ops || wrong, "no transport %s", wanted);
	return wrong;
}

void transport_allreduce(struct transport *t, float *x, size_t n, enum reduce how)
{
	if (t->ops->grow)
		t->ops->grow(t, n);
	if (how == COMM_SUM || how == COMM_MEAN)
		t->ops->allreduce(t, x, n, how == COMM_MEAN ? 1.0f / (float)t->size : 1);
	else
		reduce_there(t, x, n, how);
}
