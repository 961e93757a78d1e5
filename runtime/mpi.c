/*
 * mpi.c - links between workers over MPI. A worker alone that no launcher started never touches
 * MPI: a run with one worker needs no mpirun and starts at once.
 */
#include "platform.h"

#include <limits.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

struct link {
	MPI_Comm comm; /* MPI_COMM_NULL: one worker alone */
	MPI_Request slot[LINK_SLOTS];
};

static bool started;

bool platform_under_launcher(void)
{
	/* srun shows itself by its PMI; SLURM_PROCID alone is also set in a batch job's own
	 * shell. */
	static const char *const signs[] = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"};
	for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
		if (getenv(signs[i]))
			return true;
	return false;
}

void platform_start(struct worker *w)
{
	int rank = 0, size = 1, wanted = (int)(w->run->workers + w->run->servers);
	if (wanted > 1 || platform_under_launcher()) {
		MPI_Init(NULL, NULL);
		started = true;
		MPI_Comm_rank(MPI_COMM_WORLD, &rank);
		MPI_Comm_size(MPI_COMM_WORLD, &size);
	}
	w->rank = rank;
	w->size = size;
	w->trainers = (int)w->run->workers;
	if (size != wanted && rank != 0) {
		MPI_Finalize();
		exit(EXIT_USER);
	}
	if (size != wanted)
		user_error(
			"%d processes were started for --workers=%d --servers=%d: start %d, or run "
			"mvbench without a launcher and it starts them itself",
			size, (int)w->run->workers, (int)w->run->servers, wanted);
}

void platform_stop(void)
{
	if (started)
		MPI_Finalize();
	started = false;
}

void platform_abort(int status)
{
	if (started)
		MPI_Abort(MPI_COMM_WORLD, status);
	exit(status);
}

const char *platform_version(void)
{
	static char text[MPI_MAX_LIBRARY_VERSION_STRING];
	int n;
	MPI_Get_library_version(text, &n);
	text[strcspn(text, ",\n")] = '\0';
	return text;
}

static struct link *link_of(MPI_Comm comm)
{
	struct link *l = must(calloc(1, sizeof *l));
	l->comm = comm;
	return l;
}

struct link *link_world(int size)
{
	MPI_Comm comm = MPI_COMM_NULL;
	if (started) {
		int rank;
		MPI_Comm_rank(MPI_COMM_WORLD, &rank);
		MPI_Comm_split(MPI_COMM_WORLD, rank < size ? 0 : MPI_UNDEFINED, rank, &comm);
	}
	return link_of(comm);
}

struct link *link_split(struct link *l, int color, int *rank, int *size)
{
	MPI_Comm comm = MPI_COMM_NULL;
	*rank = 0;
	*size = 1;
	if (l->comm != MPI_COMM_NULL) {
		MPI_Comm_rank(l->comm, rank);
		MPI_Comm_split(l->comm, color, *rank, &comm);
		MPI_Comm_rank(comm, rank);
		MPI_Comm_size(comm, size);
	}
	return link_of(comm);
}

void link_free(struct link *l)
{
	if (l && l->comm != MPI_COMM_NULL)
		MPI_Comm_free(&l->comm);
	free(l);
}

bool link_one_node(struct link *l)
{
	MPI_Comm node;
	int mine, all;
	if (l->comm == MPI_COMM_NULL)
		return true;
	MPI_Comm_split_type(l->comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
	MPI_Comm_size(node, &mine);
	MPI_Comm_size(l->comm, &all);
	MPI_Comm_free(&node);
	int same = mine == all;
	MPI_Allreduce(MPI_IN_PLACE, &same, 1, MPI_INT, MPI_MIN, l->comm);
	return same;
}

/* MPI counts in int. */
static int count(size_t n)
{
	CHECK(n <= INT_MAX, "%zu in one message, %d is the most", n, INT_MAX);
	return (int)n;
}

void link_send(struct link *l, int to, const float *x, size_t n)
{
	MPI_Ssend(x, count(n), MPI_FLOAT, to, 0, l->comm);
}

void link_recv(struct link *l, int from, float *x, size_t n)
{
	MPI_Recv(x, count(n), MPI_FLOAT, from, 0, l->comm, MPI_STATUS_IGNORE);
}

void link_exchange(struct link *l, int peer, const float *out, float *in, size_t n)
{
	MPI_Sendrecv(out, count(n), MPI_FLOAT, peer, 1, in, count(n), MPI_FLOAT, peer, 1, l->comm,
		     MPI_STATUS_IGNORE);
}

void link_allreduce(struct link *l, float *x, size_t n)
{
	MPI_Allreduce(MPI_IN_PLACE, x, count(n), MPI_FLOAT, MPI_SUM, l->comm);
}

void link_allreduce_start(struct link *l, int slot, float *x, size_t n)
{
	MPI_Iallreduce(MPI_IN_PLACE, x, count(n), MPI_FLOAT, MPI_SUM, l->comm, &l->slot[slot]);
}

void link_allreduce_wait(struct link *l, int slot)
{
	MPI_Wait(&l->slot[slot], MPI_STATUS_IGNORE);
}

void link_gather_counts(struct link *l, int mine, int *all)
{
	MPI_Allgather(&mine, 1, MPI_INT, all, 1, MPI_INT, l->comm);
}

void link_allgather(struct link *l, float *all, const int *counts, const int *firsts,
		    const float *mine, int n)
{
	MPI_Allgatherv(mine, n, MPI_FLOAT, all, counts, firsts, MPI_FLOAT, l->comm);
}

void link_broadcast(struct link *l, int root, void *x, size_t bytes)
{
	if (l->comm != MPI_COMM_NULL)
		MPI_Bcast(x, count(bytes), MPI_BYTE, root, l->comm);
}

void link_barrier(struct link *l)
{
	if (l->comm != MPI_COMM_NULL)
		MPI_Barrier(l->comm);
}

static MPI_Op op_of(enum fold how)
{
	return how == FOLD_SUM ? MPI_SUM : how == FOLD_MAX ? MPI_MAX : MPI_MIN;
}

void link_fold(struct link *l, double *x, int n, enum fold how)
{
	if (l->comm != MPI_COMM_NULL)
		MPI_Allreduce(MPI_IN_PLACE, x, n, MPI_DOUBLE, op_of(how), l->comm);
}

void link_fold_float_min(struct link *l, float *x, int n)
{
	if (l->comm != MPI_COMM_NULL)
		MPI_Allreduce(MPI_IN_PLACE, x, n, MPI_FLOAT, MPI_MIN, l->comm);
}

void link_gather_bytes(struct link *l, const void *mine, void *all, int bytes)
{
	if (l->comm != MPI_COMM_NULL)
		MPI_Gather(mine, bytes, MPI_BYTE, all, bytes, MPI_BYTE, 0, l->comm);
	else
		memcpy(all, mine, (size_t)bytes);
}

enum { SHARED_ALIGN = 64 };

void *link_shared_new(struct link *l, size_t bytes, void **handle)
{
	int rank, unit;
	MPI_Aint size;
	void *p;
	MPI_Win *win = must(malloc(sizeof *win));
	MPI_Comm_rank(l->comm, &rank);
	MPI_Win_allocate_shared(rank ? 0 : (MPI_Aint)(bytes + SHARED_ALIGN), 1, MPI_INFO_NULL,
				l->comm, &p, win);
	MPI_Win_shared_query(*win, 0, &size, &unit, &p);
	/* Every rank maps whole pages, so that rounding up finds the same byte on all of them. */
	p = (void *)(((uintptr_t)p + SHARED_ALIGN - 1) & ~(uintptr_t)(SHARED_ALIGN - 1));
	if (rank == 0)
		memset(p, 0, bytes);
	MPI_Barrier(l->comm);
	*handle = win;
	return p;
}

void link_shared_free(void *handle)
{
	MPI_Win_free(handle);
	free(handle);
}
