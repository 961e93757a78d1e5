/*
 * link.c - links between ranks over MPI: messages, collectives, shared memory.
 */
#include "runtime/comm/mpi/link.h"

#ifdef OPEN_MPI
#include <mpi-ext.h>
#endif
#include <stdlib.h>
#include <string.h>

static struct link *link_of(MPI_Comm comm)
{
	struct link *l = must(calloc(1, sizeof *l));
	l->comm = comm;
	l->size = 1;
	if (comm == MPI_COMM_NULL)
		return l;
	MPI_Comm_rank(comm, &l->rank);
	MPI_Comm_size(comm, &l->size);
	if (world_sums && l->rank == 0)
		l->sums = world_sums->make(l->size);
	if (world_sums) /* they share their memory */
		link_broadcast(l, 0, &l->sums, sizeof l->sums);
	return l;
}

struct link *link_world(int size)
{
	MPI_Comm comm = MPI_COMM_NULL;
	if (in_mpi()) {
		int rank;
		MPI_Comm_rank(MPI_COMM_WORLD, &rank);
		MPI_Comm_split(MPI_COMM_WORLD, rank < size ? 0 : MPI_UNDEFINED, rank, &comm);
	}
	return link_of(comm);
}

struct link *link_split(struct link *l, int color, int *rank, int *size)
{
	MPI_Comm comm = MPI_COMM_NULL;
	if (l->comm != MPI_COMM_NULL)
		MPI_Comm_split(l->comm, color, l->rank, &comm);
	struct link *part = link_of(comm);
	*rank = part->rank;
	*size = part->size;
	return part;
}

int link_rank(const struct link *l)
{
	return l->rank;
}

int link_size(const struct link *l)
{
	return l->size;
}

void link_free(struct link *l)
{
	if (!l)
		return;
	mailbox_free(l->mailbox);
	if (l->sums)
		world_sums->leave(l->sums);
	if (l->comm != MPI_COMM_NULL)
		MPI_Comm_free(&l->comm);
	free(l);
}

bool link_one_node(struct link *l)
{
	MPI_Comm node;
	int mine;
	if (l->comm == MPI_COMM_NULL)
		return true;
	if (world_is_virtual) {
		double most[] = {(double)(world_node() >> 12), -(double)(world_node() >> 12)};
		link_reduce_all(l, most, 2, REDUCE_MAX);
		return most[0] == -most[1];
	}
	MPI_Comm_split_type(l->comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
	MPI_Comm_size(node, &mine);
	MPI_Comm_free(&node);
	int same = mine == l->size;
	MPI_Allreduce(MPI_IN_PLACE, &same, 1, MPI_INT, MPI_MIN, l->comm);
	return same;
}

bool link_reads_devices(void)
{
#ifdef MPIX_CUDA_AWARE_SUPPORT /* Open MPI's */
	return in_mpi() && MPIX_Query_cuda_support() == 1;
#else
	return false;
#endif
}

enum { PIECE = 1 << 30 }; /* what may be longer than an int goes in pieces */

void link_send(struct link *l, int to, const float *x, size_t n)
{
	world_enter("send", to);
	MPI_Ssend(x, count(n), MPI_FLOAT, to, 0, l->comm);
}

void link_send_plain(struct link *l, int to, const float *x, size_t n)
{
	world_enter("send", to);
	MPI_Send(x, count(n), MPI_FLOAT, to, 0, l->comm);
}

void link_recv(struct link *l, int from, float *x, size_t n)
{
	world_enter("recv", from);
	MPI_Recv(x, count(n), MPI_FLOAT, from, 0, l->comm, MPI_STATUS_IGNORE);
}

void link_exchange(struct link *l, int peer, const float *out, float *in, size_t n)
{
	link_shift(l, peer, out, peer, in, n);
}

void link_shift(struct link *l, int to, const float *out, int from, float *in, size_t n)
{
	world_enter("exchange", to);
	MPI_Sendrecv(out, count(n), MPI_FLOAT, to, 1, in, count(n), MPI_FLOAT, from, 1, l->comm,
		     MPI_STATUS_IGNORE);
}

void link_allreduce(struct link *l, float *x, size_t n)
{
	world_enter("allreduce", -1);
	if (l->sums) {
		world_sums->allreduce(l, l->sums, x, n);
		return;
	}
	for (; n > PIECE; x += PIECE, n -= PIECE)
		MPI_Allreduce(MPI_IN_PLACE, x, PIECE, MPI_FLOAT, MPI_SUM, l->comm);
	MPI_Allreduce(MPI_IN_PLACE, x, (int)n, MPI_FLOAT, MPI_SUM, l->comm);
}

void link_allreduce_start(struct link *l, int slot, float *x, size_t n)
{
	const void *out = MPI_IN_PLACE;
	world_enter("allreduce", -1);
	if (l->sums) {
		world_sums->start(l, l->sums, slot, x, n);
		out = link_nowhere();
		x = link_nowhere() + n;
	}
	MPI_Iallreduce(out, x, count(n), MPI_FLOAT, MPI_SUM, l->comm, &l->slot[slot]);
}

void link_allreduce_wait(struct link *l, int slot)
{
	world_enter("allreduce", -1);
	MPI_Wait(&l->slot[slot], MPI_STATUS_IGNORE);
}

void link_gather_counts(struct link *l, int mine, int *all)
{
	if (l->comm == MPI_COMM_NULL)
		*all = mine;
	else
		MPI_Allgather(&mine, 1, MPI_INT, all, 1, MPI_INT, l->comm);
}

void link_allgather(struct link *l, float *all, const int *counts, const int *firsts,
		    const float *mine, int n)
{
	world_enter("allgather", -1);
	MPI_Allgatherv(mine, n, MPI_FLOAT, all, counts, firsts, MPI_FLOAT, l->comm);
}

void link_broadcast(struct link *l, int root, void *x, size_t bytes)
{
	world_enter("broadcast", root);
	char *at = x;
	if (l->comm == MPI_COMM_NULL)
		return;
	for (; bytes > PIECE; at += PIECE, bytes -= PIECE)
		MPI_Bcast(at, PIECE, MPI_BYTE, root, l->comm);
	MPI_Bcast(at, (int)bytes, MPI_BYTE, root, l->comm);
}

void link_barrier(struct link *l)
{
	world_enter("barrier", -1);
	if (l->comm != MPI_COMM_NULL)
		MPI_Barrier(l->comm);
}

static MPI_Op op_of(enum link_reduce how)
{
	return how == REDUCE_SUM ? MPI_SUM : how == REDUCE_MAX ? MPI_MAX : MPI_MIN;
}

/* Off the clock. Simulated, two trees are a fraction of an allreduce's messages; of a tree that is
 * its root only SMPI makes a message to nobody. */
static void reduce_all(struct link *l, void *x, int n, MPI_Datatype type, MPI_Op op)
{
	if (l->size == 1 || n == 0)
		return;
	if (!world_is_virtual) {
		MPI_Allreduce(MPI_IN_PLACE, x, n, type, op, l->comm);
		return;
	}
	MPI_Reduce(l->rank ? x : MPI_IN_PLACE, x, n, type, op, 0, l->comm);
	MPI_Bcast(x, n, type, 0, l->comm);
}

void link_reduce_all(struct link *l, double *x, int n, enum link_reduce how)
{
	reduce_all(l, x, n, MPI_DOUBLE, op_of(how));
}

void link_reduce_all_least(struct link *l, struct least *x, int n)
{
	reduce_all(l, x, n, MPI_FLOAT_INT, MPI_MINLOC);
}

void link_gather_bytes(struct link *l, const void *mine, void *all, int bytes)
{
	if (l->comm != MPI_COMM_NULL)
		MPI_Gather(mine, bytes, MPI_BYTE, all, bytes, MPI_BYTE, 0, l->comm);
	else
		memcpy(all, mine, (size_t)bytes);
}

void *link_gather_parts(struct link *l, const void *mine, size_t bytes, size_t *total)
{
	int parts[l->size];
	link_gather_counts(l, count(bytes / sizeof(float)), parts);
	if (l->rank != 0) {
		link_send(l, 0, mine, bytes / sizeof(float));
		return NULL;
	}
	*total = 0;
	for (int k = 0; k < l->size; k++)
		*total += (size_t)parts[k] * sizeof(float);
	char *all = must(malloc(*total + 1)), *at = all + bytes;
	memcpy(all, mine, bytes);
	for (int k = 1; k < l->size; at += (size_t)parts[k++] * sizeof(float))
		link_recv(l, k, (float *)(void *)at, (size_t)parts[k]);
	return all;
}

char *link_agree(struct link *l, char *mine)
{
	char text[512];
	double lowest = mine ? l->rank : l->size;
	link_reduce_all(l, &lowest, 1, REDUCE_MIN);
	if (lowest >= l->size)
		return NULL;
	snprintf(text, sizeof text, "%s", mine ? mine : "");
	free(mine);
	link_broadcast(l, (int)lowest, text, sizeof text);
	return sentence("%s", text);
}

/* ---- Shared memory ---- */

void *link_shared_new(struct link *l, size_t bytes, void **handle)
{
	int unit;
	MPI_Aint size;
	void *p;
	if (l->comm == MPI_COMM_NULL) {
		size_t room = (bytes + SHARED_ALIGN) & ~(size_t)(SHARED_ALIGN - 1);
		p = must(aligned_alloc(SHARED_ALIGN, room));
		*handle = NULL;
		return memset(p, 0, room);
	}
	MPI_Win *win = must(malloc(sizeof *win));
	MPI_Win_allocate_shared(l->rank ? 0 : (MPI_Aint)(bytes + SHARED_ALIGN), 1, MPI_INFO_NULL,
				l->comm, &p, win);
	MPI_Win_shared_query(*win, 0, &size, &unit, &p);
	/* Every rank maps whole pages, so that rounding up finds the same byte on all of them. */
	p = (void *)(((uintptr_t)p + SHARED_ALIGN - 1) & ~(uintptr_t)(SHARED_ALIGN - 1));
	if (l->rank == 0)
		memset(p, 0, bytes);
	MPI_Barrier(l->comm);
	*handle = win;
	return p;
}

void link_shared_free(void *p, void *handle)
{
	if (!handle) {
		free(p);
		return;
	}
	MPI_Win_free(handle);
	free(handle);
}
