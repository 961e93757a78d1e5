/*
 * node.c - the blocking sum of ranks that share memory: n floats over N ranks, piece by piece.
 *
 *   1. a rank copies its floats, except its own part of the piece, into its place;
 *   2. when all have, it sums its part over all ranks, in the order of ranks, into x and `sum`;
 *   3. when all have, it copies the other parts from `sum`.
 *
 * Cost: (N - 1) / N n floats copied twice, and (N + 1) / N n floats read, n / N written twice by
 * each rank; two waits a piece. The result has the same bits on all ranks, and as in a simulation.
 *
 * One place and one `sum` are enough: a rank that copies the next piece in has seen that all ranks
 * have summed this one, and a rank that sums the next has seen that all have copied this one out.
 *
 * A waiting rank spins for some tens of microseconds, unless there are fewer cores than ranks, and
 * then sleeps. On a busy machine it thereby leaves its core to the ranks that it waits for;
 * MPI_Allreduce spins, and holds them up.
 *
 * Where memory cannot be shared, or /dev/shm is nearly full, MPI sums.
 */
#include "runtime/comm/mpi/link.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
	PIECE = 1 << 17,         /* floats, at most; so many stay in a core's cache */
	BYTES_MOST = 8 << 20,    /* of a link */
	LINE = SHARED_ALIGN / 4, /* floats of a line of the cache */
	BLOCK = 1024,            /* floats */
	LOOK_NS = 10000000,      /* a sleeping rank gives MPI time so often, */
	LOOK_OFTEN_NS = 200000   /* with sums under way, which go on in it */
};
static const nsec spin_ns = 30000;

/* Shared; what a rank has done. */
struct place {
	_Alignas(SHARED_ALIGN) atomic_uint stage;
	atomic_uint sleepers; /* ranks that sleep until the next stage */
};

struct node {
	struct place *place; /* [ranks]; NULL: MPI sums */
	size_t bytes;
	float *in, *sum; /* [ranks][room], [room] */
	size_t room;
	unsigned stage;
	bool spins;
};

static bool is_at(struct place *p, unsigned stage)
{
	return (int)(atomic_load(&p->stage) - stage) >= 0;
}

static void reach(struct link *l, unsigned stage)
{
	struct place *p = &l->node->place[l->rank];
	atomic_store(&p->stage, stage);
	if (atomic_load(&p->sleepers) > 0)
		syscall(SYS_futex, &p->stage, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Another rank may need this one's share of an operation of MPI before it comes here. */
static void sleep_on(struct link *l, struct place *p, unsigned stage)
{
	const struct timespec look = {.tv_nsec = rings_are_under_way() ? LOOK_OFTEN_NS : LOOK_NS};
	int none;
	atomic_fetch_add(&p->sleepers, 1);
	unsigned now = atomic_load(&p->stage);
	if ((int)(now - stage) < 0)
		syscall(SYS_futex, &p->stage, FUTEX_WAIT, now, &look, NULL, 0);
	atomic_fetch_sub(&p->sleepers, 1);
	if (!is_at(p, stage)) {
		rings_advance();
		MPI_Iprobe(MPI_ANY_SOURCE, 0, l->comm, &none, MPI_STATUS_IGNORE);
	}
}

static void await_all(struct link *l, unsigned stage)
{
	struct node *s = l->node;
	const nsec until = s->spins ? clock_now() + spin_ns : 0;
	bool spins = s->spins;
	for (struct place *p = s->place; p < s->place + l->size; p++) {
		for (; spins && !is_at(p, stage); rings_advance())
			spins = clock_now() < until;
		while (!is_at(p, stage))
			sleep_on(l, p, stage);
	}
}

/* ---- The shared memory ---- */

/* Makes it on rank 0, whose name for it the others get; NULL: it cannot be had. */
static void *node_map(struct link *l, size_t bytes)
{
	char name[64];
	int fd = -1, all;
	snprintf(name, sizeof name, "/dev/shm/mvbench-sum-%d-%llx", (int)getpid(),
		 (long long)clock_now());
	if (l->rank == 0 && shared_memory_free() > 4.0 * (double)bytes)
		fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	/* with its pages: otherwise a full /dev/shm would end a rank by a signal */
	int made = fd >= 0 && posix_fallocate(fd, 0, (off_t)bytes) == 0;
	MPI_Bcast(&made, 1, MPI_INT, 0, l->comm);
	MPI_Bcast(name, sizeof name, MPI_BYTE, 0, l->comm);
	if (l->rank && made)
		fd = open(name, O_RDWR | O_CLOEXEC);
	void *p = made && fd >= 0 ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
				  : MAP_FAILED;
	int mine = p != MAP_FAILED;
	MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, l->comm);
	if (l->rank == 0 && fd >= 0)
		unlink(name);
	if (fd >= 0)
		close(fd);
	if (mine && !all)
		munmap(p, bytes);
	return all ? p : NULL;
}

void node_open(struct link *l, bool one_node)
{
	const size_t ranks = (size_t)l->size;
	struct node *s = l->node = must(calloc(1, sizeof *s));
	if (!one_node)
		return;
	s->room = smaller(PIECE, BYTES_MOST / sizeof(float) / (ranks + 1) / LINE * LINE);
	s->bytes = ranks * sizeof *s->place + (ranks + 1) * s->room * sizeof(float);
	s->place = node_map(l, s->bytes);
	if (!s->place)
		return;
	s->in = (float *)(void *)(s->place + ranks);
	s->sum = s->in + ranks * s->room;
	s->spins = usable_cores() >= l->size;
}

void node_free(struct link *l)
{
	if (l->node && l->node->place)
		munmap(l->node->place, l->node->bytes);
	free(l->node);
}

/* ---- The sum ---- */

static void add(float *restrict sum, const float *restrict x, size_t n)
{
#pragma omp simd
	for (size_t i = 0; i < n; i++)
		sum[i] += x[i];
}

static void sum_part(struct link *l, float *x, size_t first, size_t end)
{
	const struct node *s = l->node;
	float sum[BLOCK];
	for (size_t n; first < end; first += n) {
		n = smaller(BLOCK, end - first);
		for (int k = 0; k < l->size; k++) {
			const float *y = k == l->rank ? x : s->in + (size_t)k * s->room;
			if (k == 0)
				memcpy(sum, y + first, n * sizeof *sum);
			else
				add(sum, y + first, n);
		}
		memcpy(x + first, sum, n * sizeof *sum);
		memcpy(s->sum + first, sum, n * sizeof *sum);
	}
}

/* A rank's part begins with a line of the cache. */
static size_t bound(size_t n, int ranks, int k)
{
	return smaller(n, LINE * part_of((n + LINE - 1) / LINE, (size_t)ranks, (size_t)k));
}

/* All floats of a piece except those of this rank's part, [first, end). */
static void copy_others(float *to, const float *from, size_t n, size_t first, size_t end)
{
	memcpy(to, from, first * sizeof *to);
	memcpy(to + end, from + end, (n - end) * sizeof *to);
}

bool node_sum(struct link *l, float *x, size_t n)
{
	struct node *s = l->node;
	if (!s->place)
		return false;
	const size_t pieces = (n + s->room - 1) / s->room;
	for (size_t i = 0; i < pieces; i++) {
		float *piece = x + part_of(n, pieces, i);
		const size_t m = part_of(n, pieces, i + 1) - part_of(n, pieces, i),
			     first = bound(m, l->size, l->rank),
			     end = bound(m, l->size, l->rank + 1);
		copy_others(s->in + (size_t)l->rank * s->room, piece, m, first, end);
		reach(l, ++s->stage);
		await_all(l, s->stage);
		sum_part(l, piece, first, end);
		reach(l, ++s->stage);
		await_all(l, s->stage);
		copy_others(piece, s->sum, m, first, end);
	}
	return true;
}
