/*
 * link.c - links between ranks over MPI: messages, collectives, shared memory.
 */
#include "runtime/comm/mpi/link.h"

#ifdef OPEN_MPI
#include <mpi-ext.h>
#endif
#include <stdlib.h>
#include <string.h>

/* Waits for an operation. Sums that are under way go on: other ranks may wait for such a sum before
 * they join this operation. */
static void complete(MPI_Request *request)
{
	for (int over = 0; !over; rings_advance())
		MPI_Test(request, &over, MPI_STATUS_IGNORE);
}

/* Started collectives of all links of this process, which are sums of codecs: MPI moves them only
 * during its calls. Simulated ranks share this, and have none. One beyond the room moves in others'
 * calls. */
static MPI_Request *started[2 * LINK_SLOTS];
static int starts;

static void collective_started(MPI_Request *request)
{
	if (!world_is_virtual && starts < (int)(sizeof started / sizeof *started))
		started[starts++] = request;
}

static void collective_over(const MPI_Request *request)
{
	for (int i = starts - 1; i >= 0; i--)
		if (started[i] == request)
			started[i] = started[--starts];
}

static void collectives_advance(void)
{
	for (int i = starts - 1, over; i >= 0; i--) {
		MPI_Test(started[i], &over, MPI_STATUS_IGNORE);
		if (over)
			started[i] = started[--starts];
	}
}

static struct link *link_of(MPI_Comm comm)
{
	struct link *l = must(calloc(1, sizeof *l));
	l->comm = comm;
	l->size = 1;
	if (comm == MPI_COMM_NULL)
		return l;
	MPI_Comm_rank(comm, &l->rank);
	MPI_Comm_size(comm, &l->size);
	struct sums *sums = world_sums && l->rank == 0 ? world_sums->make(l->size) : NULL;
	if (world_sums) /* simulated ranks share their memory */
		link_broadcast(l, 0, &sums, sizeof sums);
	l->sums = sums;
	return l;
}

struct link *link_world(int size)
{
	MPI_Comm comm = MPI_COMM_NULL;
	int rank, all = 0;
	if (!in_mpi())
		return link_of(comm);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &all);
	if (!world_is_virtual) {
		MPI_Comm_split(MPI_COMM_WORLD, rank < size ? 0 : MPI_UNDEFINED, rank, &comm);
	} else { /* SMPI's split gathers the colours: N searches through N messages */
		MPI_Group whole, part;
		MPI_Comm_group(MPI_COMM_WORLD, &whole);
		MPI_Group_range_incl(whole, 1, &(int[]){0, size - 1, 1}, &part);
		MPI_Comm_create(MPI_COMM_WORLD, size < all ? part : whole, &comm);
		MPI_Group_free(&part);
	}
	return link_of(comm);
}

struct link *link_split(struct link *l, int color)
{
	MPI_Comm comm = MPI_COMM_NULL;
	if (l->comm != MPI_COMM_NULL && !l->sums)
		MPI_Comm_split(l->comm, color, l->rank, &comm);
	return l->sums ? together_split(l, color) : link_of(comm);
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
	if (l->mailbox)
		l->mailbox_free(l->mailbox);
	rings_free(l);
	node_free(l);
	if (l->sums)
		world_sums->leave(l->sums);
	if (l->comm != MPI_COMM_NULL && !l->borrowed)
		MPI_Comm_free(&l->comm);
	free(l);
}

struct link *link_of_node(struct link *l)
{
	MPI_Comm node = MPI_COMM_NULL;
	if (l->comm != MPI_COMM_NULL)
		MPI_Comm_split_type(l->comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
	return link_of(node);
}

bool link_one_node(struct link *l)
{
	if (l->comm == MPI_COMM_NULL)
		return true;
	if (world_is_virtual) {
		double most[] = {(double)(world_node() >> 12), -(double)(world_node() >> 12)};
		link_reduce_all(l, most, 2, REDUCE_MAX);
		return most[0] == -most[1];
	}
	struct link *node = link_of_node(l);
	int same = node->size == l->size;
	link_free(node);
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

/* MPI counts in int. Messages of simulated workers that have lengths only may be longer. They are
 * counted in units of the longest type, and sent in few pieces: SMPI reads the lower 32 bits of a
 * number of bytes as an int, and copies messages for which that is below EAGER. */
enum { UNIT = 32, EAGER = 1 << 16 };
static const size_t word = (size_t)1 << 32, piece_most = 15 * ((size_t)1 << 32) + (1 << 30);

size_t piece_of(size_t n)
{
	size_t bytes = n * sizeof(float);
	if (!world_is_virtual || bytes < word / 2)
		return n;
	if (bytes > piece_most)
		return piece_most / sizeof(float);
	return bytes % word < word / 2 ? n : (bytes - bytes % word / 2) / sizeof(float);
}

struct length length_of(size_t n)
{
	size_t bytes = n * sizeof(float);
	if (!world_is_virtual || bytes < word / 2)
		return (struct length){count(n), MPI_FLOAT};
	bytes += bytes % word < EAGER ? EAGER - bytes % word : 0;
	return (struct length){count((bytes + UNIT - 1) / UNIT), MPI_C_LONG_DOUBLE_COMPLEX};
}

enum { PIECE = 1 << 30 }; /* longer messages are sent in pieces, because MPI counts in int */

void link_send(struct link *l, int to, const float *x, size_t n)
{
	MPI_Request request;
	world_enter("send", to);
	do {
		const size_t part = piece_of(n);
		if (rings_are_under_way()) {
			MPI_Issend(x, FLOATS(part), to, 0, l->comm, &request);
			complete(&request);
		} else {
			MPI_Ssend(x, FLOATS(part), to, 0, l->comm);
		}
		n -= part;
	} while (n > 0);
	world_leave();
}

void link_send_plain(struct link *l, int to, const void *x, size_t bytes)
{
	world_enter("send", to);
	MPI_Send(x, count(bytes / sizeof(float)), MPI_FLOAT, to, 0, l->comm);
	world_leave();
}

static void receive(struct link *l, int from, float *x, size_t n)
{
	MPI_Request request;
	if (!rings_are_under_way()) {
		MPI_Recv(x, FLOATS(n), from, 0, l->comm, MPI_STATUS_IGNORE);
		return;
	}
	MPI_Irecv(x, FLOATS(n), from, 0, l->comm, &request);
	complete(&request);
}

void link_recv(struct link *l, int from, float *x, size_t n)
{
	world_enter("recv", from);
	do {
		const size_t part = piece_of(n);
		receive(l, from, x, part);
		n -= part;
	} while (n > 0);
	world_leave();
}

static void shift(struct link *l, int to, const float *out, int from, float *in, size_t n)
{
	MPI_Request request[2];
	if (!rings_are_under_way()) {
		MPI_Sendrecv(out, FLOATS(n), to, 1, in, FLOATS(n), from, 1, l->comm,
			     MPI_STATUS_IGNORE);
		return;
	}
	MPI_Irecv(in, FLOATS(n), from, 1, l->comm, &request[0]);
	MPI_Isend(out, FLOATS(n), to, 1, l->comm, &request[1]);
	complete(&request[0]);
	complete(&request[1]);
}

void link_shift(struct link *l, int to, const float *out, int from, float *in, size_t n)
{
	world_enter("exchange", to);
	do {
		const size_t part = piece_of(n);
		shift(l, to, out, from, in, part);
		n -= part;
	} while (n > 0);
	world_leave();
}

void link_allreduce_by_mpi(struct link *l, float *x, size_t n, enum reduce how)
{
	const MPI_Datatype type = how == COMM_SUM_INT8    ? MPI_INT8_T
				  : how == COMM_SUM_INT32 ? MPI_INT32_T
							  : MPI_FLOAT;
	const MPI_Op op = how == COMM_MAX ? MPI_MAX : MPI_SUM;
	const size_t in_a_float = how == COMM_SUM_INT8 ? sizeof *x : 1, piece = PIECE / in_a_float;
	world_enter("allreduce", -1);
	for (; n > piece; x += piece, n -= piece)
		MPI_Allreduce(MPI_IN_PLACE, x, PIECE, type, op, l->comm);
	MPI_Allreduce(MPI_IN_PLACE, x, (int)(n * in_a_float), type, op, l->comm);
	world_leave();
}

static void open_node(struct link *l)
{
	if (!l->node)
		node_open(l, link_one_node(l));
}

void link_prepare_sums(struct link *l, size_t n)
{
	if (l->sums || l->size == 1)
		return;
	open_node(l);
	if (n > 0)
		rings_prepare(l, n);
}

static bool sum_in_memory(struct link *l, float *x, size_t n)
{
	open_node(l);
	return node_sum(l, x, n);
}

void link_allreduce(struct link *l, float *x, size_t n, enum reduce how)
{
	bool done = true;
	world_enter("allreduce", -1);
	if (l->sums)
		world_sums->allreduce(l, l->sums, x, n, how);
	else if (l->size > 1)
		done = (how == COMM_SUM || how == COMM_MEAN) && sum_in_memory(l, x, n);
	world_leave();
	if (!done)
		link_allreduce_by_mpi(l, x, n, how);
}

void link_allreduce_start(struct link *l, int slot, float *x, size_t n)
{
	world_enter("allreduce", -1);
	if (l->sums)
		world_sums->start(l, l->sums, slot, x, n);
	else
		ring_start(l, slot, x, n);
	world_leave();
}

void link_allreduce_start_if(struct link *l, int slot, float *x, size_t n, struct link *facts_link,
			     double *facts, int facts_n)
{
	world_enter("allreduce", -1);
	ring_start_if(l, slot, x, n, facts_link, facts, facts_n);
	world_leave();
}

void link_allreduce_wait(struct link *l, int slot)
{
	world_enter("allreduce", -1);
	if (l->sums)
		world_sums->wait(l, l->sums, slot);
	else
		ring_wait(l, slot);
	world_leave();
}

bool link_progress_sums(void)
{
	rings_advance();
	collectives_advance();
	return rings_are_under_way() || starts > 0;
}

void link_allgather(struct link *l, float *all, const int *counts, const int *firsts,
		    const float *mine, int n)
{
	world_enter("allgather", -1);
	MPI_Allgatherv(mine, n, MPI_FLOAT, all, counts, firsts, MPI_FLOAT, l->comm);
	world_leave();
}

void link_allgather_start(struct link *l, int slot, float *all, const int *counts,
			  const int *firsts, const float *mine, int n)
{
	world_enter("allgather", -1);
	MPI_Iallgatherv(mine, n, MPI_FLOAT, all, counts, firsts, MPI_FLOAT, l->comm,
			&l->slot[slot]);
	collective_started(&l->slot[slot]);
	world_leave();
}

void link_alltoall_start(struct link *l, int slot, float *in, const int *counts_in,
			 const int *firsts_in, const float *out, const int *counts,
			 const int *firsts)
{
	world_enter("alltoall", -1);
	MPI_Ialltoallv(out, counts, firsts, MPI_FLOAT, in, counts_in, firsts_in, MPI_FLOAT, l->comm,
		       &l->slot[slot]);
	collective_started(&l->slot[slot]);
	world_leave();
}

void link_start_wait(struct link *l, int slot)
{
	world_enter("alltoall", -1);
	collective_over(&l->slot[slot]);
	if (rings_are_under_way())
		complete(&l->slot[slot]);
	else
		MPI_Wait(&l->slot[slot], MPI_STATUS_IGNORE);
	world_leave();
}

/* Lengths only, beyond their room, where SMPI would copy the segments of a broadcast. A chain of
 * ranks, from the root on: each sends one segment while it receives the next. */
static void broadcast_lengths(struct link *l, int root, size_t n)
{
	enum { SEGMENTS = 64 };
	float *x = link_nowhere();
	const int last = l->size - 1, place = (l->rank + l->size - root) % l->size;
	for (int i = 0; i < SEGMENTS + last - 1; i++) {
		const int out = i - place, in = out + 1; /* segments */
		int to = MPI_PROC_NULL, from = MPI_PROC_NULL;
		if (place < last && out >= 0 && SEGMENTS > out)
			to = (l->rank + 1) % l->size;
		if (place > 0 && in >= 0 && SEGMENTS > in)
			from = (l->rank + last) % l->size;
		if (to != from)
			link_shift(l, to, x, from, x, (n + SEGMENTS - 1) / SEGMENTS);
	}
}

void link_broadcast(struct link *l, int root, void *x, size_t bytes)
{
	char *at = x;
	world_enter("broadcast", root);
	if (are_together(l)) {
		together_broadcast(l, root, x, bytes);
	} else if (world_is_virtual && bytes > NOWHERE_BYTES && x == link_nowhere()) {
		broadcast_lengths(l, root, bytes / sizeof(float));
	} else if (l->comm != MPI_COMM_NULL) {
		for (; bytes > PIECE; at += PIECE, bytes -= PIECE)
			MPI_Bcast(at, PIECE, MPI_BYTE, root, l->comm);
		MPI_Bcast(at, (int)bytes, MPI_BYTE, root, l->comm);
	}
	world_leave();
}

void link_barrier(struct link *l)
{
	world_enter("barrier", -1);
	if (are_together(l)) {
		together_barrier(l);
	} else if (world_is_virtual && l->comm != MPI_COMM_NULL) {
		MPI_Barrier(l->comm);
	} else if (l->comm != MPI_COMM_NULL) {
		MPI_Request all;
		MPI_Ibarrier(l->comm, &all);
		complete(&all);
	}
	world_leave();
}

void link_barrier_asleep(struct link *l)
{
	const nsec nap_least = 20000, nap_most = 1000000;
	int here = 0;
	MPI_Request all;
	world_enter("barrier", -1);
	MPI_Ibarrier(l->comm, &all);
	for (nsec nap = nap_least;; nap = nap < nap_most ? 2 * nap : nap_most) {
		rings_advance();
		MPI_Test(&all, &here, MPI_STATUS_IGNORE);
		if (here)
			break;
		clock_delay(nap);
	}
	world_leave();
}

/* Off the clock. In a simulation reduce and broadcast take far fewer messages than an allreduce. A
 * single rank returns early, because SMPI would send a message to no rank. */
void link_reduce_all(struct link *l, void *x, int n, enum link_reduce how)
{
	const MPI_Datatype type = how == REDUCE_LEAST ? MPI_FLOAT_INT : MPI_DOUBLE;
	const MPI_Op op = how == REDUCE_SUM   ? MPI_SUM
			  : how == REDUCE_MAX ? MPI_MAX
			  : how == REDUCE_MIN ? MPI_MIN
					      : MPI_MINLOC;
	if (are_together(l)) {
		together_reduce(l, x, n, how);
	} else if (l->size == 1 || n == 0) {
		return;
	} else if (!world_is_virtual) {
		MPI_Request all;
		world_enter("allreduce", -1);
		MPI_Iallreduce(MPI_IN_PLACE, x, n, type, op, l->comm, &all);
		complete(&all);
		world_leave();
	} else {
		MPI_Reduce(l->rank ? x : MPI_IN_PLACE, x, n, type, op, 0, l->comm);
		MPI_Bcast(x, n, type, 0, l->comm);
	}
}

void link_reduce_typed(struct link *l, void *x, size_t n, enum link_type type, enum link_reduce how)
{
	static const size_t bytes[] = {4, 8, 4, 8}, piece = PIECE / 8;
	const MPI_Datatype types[] = {MPI_FLOAT, MPI_DOUBLE, MPI_INT32_T, MPI_INT64_T};
	const MPI_Op op = how == REDUCE_SUM       ? MPI_SUM
			  : how == REDUCE_PRODUCT ? MPI_PROD
			  : how == REDUCE_MAX     ? MPI_MAX
						  : MPI_MIN;
	char *at = x;
	world_enter("allreduce", -1);
	for (size_t part; n > 0 && l->comm != MPI_COMM_NULL; n -= part, at += part * bytes[type]) {
		part = n < piece ? n : piece;
		MPI_Allreduce(MPI_IN_PLACE, at, (int)part, types[type], op, l->comm);
	}
	world_leave();
}

void link_gather(struct link *l, int root, const void *mine, void *all, int bytes)
{
	if (are_together(l))
		together_gather(l, mine, (size_t)bytes, root < 0 || l->rank == root ? all : NULL);
	else if (l->comm == MPI_COMM_NULL)
		memcpy(all, mine, (size_t)bytes);
	else {
		if (!world_is_virtual) /* there it is a part of another operation */
			world_enter(root < 0 ? "allgather" : "gather", root);
		if (root < 0)
			MPI_Allgather(mine, bytes, MPI_BYTE, all, bytes, MPI_BYTE, l->comm);
		else
			MPI_Gather(mine, bytes, MPI_BYTE, all, bytes, MPI_BYTE, root, l->comm);
		world_leave();
	}
}

void *link_gather_parts(struct link *l, const void *mine, size_t bytes, size_t *total)
{
	int ranks = l->rank == 0 ? l->size : 0;
	struct part {
		const void *at;
		size_t bytes;
	} own = {mine, bytes}, *part AUTOFREE = must(calloc((size_t)ranks + 1, sizeof *part));
	bool together = are_together(l); /* then rank 0 reads the parts where they are */
	link_gather(l, 0, &own, part, sizeof own);
	*total = 0;
	for (int k = 0; k < ranks; k++)
		*total += part[k].bytes;
	char *all = ranks ? must(malloc(*total + 1)) : NULL, *at = all;
	for (int k = 0; k < ranks; at += part[k++].bytes)
		if (k == 0 || together)
			memcpy(at, part[k].at, part[k].bytes);
		else
			link_recv(l, k, (float *)(void *)at, part[k].bytes / sizeof(float));
	if (together)
		together_barrier(l);
	else if (!ranks)
		link_send(l, 0, mine, bytes / sizeof(float));
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

void link_memory_check(struct link *l, int code, size_t bytes)
{
	MPI_Comm_set_errhandler(l->comm, MPI_ERRORS_ARE_FATAL);
	if (code != MPI_SUCCESS)
		failure("cannot share %.1f MB with the other processes: %.1f MB are free in "
			"/dev/shm; " ENLARGE_SHARED_MEMORY,
			1e-6 * (double)bytes, 1e-6 * shared_memory_free());
}

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
	MPI_Comm_set_errhandler(l->comm, MPI_ERRORS_RETURN);
	int code = MPI_Win_allocate_shared(l->rank ? 0 : (MPI_Aint)(bytes + SHARED_ALIGN), 1,
					   MPI_INFO_NULL, l->comm, &p, win);
	link_memory_check(l, code, bytes);
	MPI_Win_shared_query(*win, 0, &size, &unit, &p);
	/* Every rank maps whole pages; rounding up therefore gives the same byte on all ranks. */
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
