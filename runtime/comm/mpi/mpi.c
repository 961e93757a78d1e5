/*
 * mpi.c - links between workers over MPI. A worker alone that no launcher started never touches
 * MPI: a run with one worker needs no mpirun and starts at once.
 */

#include "runtime/comm/comm.h"

#include <errno.h>
#include <limits.h>
#include <mpi.h>
#ifdef OPEN_MPI
#include <mpi-ext.h>
#endif
#include <semaphore.h>
#include <stdlib.h>
#include <unistd.h>
#include <string.h>
#include <time.h>

struct mailbox;

struct link {
	MPI_Comm comm;          /* MPI_COMM_NULL: one worker alone */
	struct shared_sum *sum; /* of simulated workers: where they sum; NULL in the real world */
	MPI_Request slot[LINK_SLOTS];
	struct mailbox *mailbox; /* NULL until there is some */
};

static bool ours; /* MPI is ours to end */

static bool in_mpi(void)
{
	int begun, over = 0;
	MPI_Initialized(&begun);
	if (begun)
		MPI_Finalized(&over);
	return begun && !over;
}

static void abort_all(int status) __attribute__((noreturn));
static void abort_all(int status)
{
	if (!world_is_virtual && in_mpi())
		MPI_Abort(MPI_COMM_WORLD, status);
	world_exit(status);
}

void platform_open(bool mpi, int *rank, int *size)
{
	*rank = 0;
	*size = 1;
	panic_abort_with(abort_all);
	if (mpi && !in_mpi()) {
		MPI_Init(NULL, NULL);
		ours = true;
	}
	if (!in_mpi())
		return;
	MPI_Comm_rank(MPI_COMM_WORLD, rank);
	MPI_Comm_size(MPI_COMM_WORLD, size);
}

bool platform_gone(void)
{
	int gone;
	MPI_Finalized(&gone);
	return gone;
}

void platform_start(struct worker *w)
{
	int rank, size, wanted = (int)(w->run->workers + w->run->servers);
	platform_open(wanted > 1 || platform_under_launcher(), &rank, &size);
	w->rank = rank;
	w->size = size;
	w->trainers = (int)w->run->workers;
	if (size != wanted && rank != 0) {
		MPI_Finalize();
		world_exit(EXIT_USER);
	}
	if (size != wanted)
		user_error(
			"%d processes were started for --workers=%d --servers=%d: start %d, or run "
			"mvbench without a launcher and it starts them itself",
			size, (int)w->run->workers, (int)w->run->servers, wanted);
}

void platform_stop(void)
{
	if (ours && in_mpi())
		MPI_Finalize();
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
	int rank;
	l->comm = comm;
	if (!world_is_virtual || comm == MPI_COMM_NULL)
		return l;
	MPI_Comm_rank(comm, &rank);
	if (rank == 0)
		l->sum = world_sum_new(link_size(l));
	link_broadcast(l, 0, &l->sum, sizeof l->sum); /* they share their memory */
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

static void mailbox_free(struct mailbox *m);

void link_free(struct link *l)
{
	if (l) {
		mailbox_free(l->mailbox);
		world_sum_free(l->sum);
	}
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
	if (world_is_virtual) {
		double least = (double)(world_node() >> 12), most = least;
		link_reduce_all(l, &least, 1, REDUCE_MIN);
		link_reduce_all(l, &most, 1, REDUCE_MAX);
		return least == most;
	}
	MPI_Comm_split_type(l->comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
	MPI_Comm_size(node, &mine);
	MPI_Comm_size(l->comm, &all);
	MPI_Comm_free(&node);
	int same = mine == all;
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

/* MPI counts in int: what may be longer goes in pieces. */
enum { PIECE = 1 << 30 };

static int count(size_t n)
{
	CHECK(n <= INT_MAX, "%zu in one message, %d is the most", n, INT_MAX);
	return (int)n;
}

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
	world_enter("exchange", peer);
	MPI_Sendrecv(out, count(n), MPI_FLOAT, peer, 1, in, count(n), MPI_FLOAT, peer, 1, l->comm,
		     MPI_STATUS_IGNORE);
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
	if (l->sum) {
		world_allreduce(l, l->sum, x, n);
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
	if (l->sum) {
		world_allreduce_start(l, l->sum, slot, x, n);
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

/* Off the clock. Simulated, two trees are a fraction of an allreduce's messages. */
static void reduce_all(struct link *l, void *x, int n, MPI_Datatype type, MPI_Op op)
{
	int rank;
	if (l->comm == MPI_COMM_NULL || n == 0)
		return;
	if (!world_is_virtual) {
		MPI_Allreduce(MPI_IN_PLACE, x, n, type, op, l->comm);
		return;
	}
	MPI_Comm_rank(l->comm, &rank);
	MPI_Reduce(rank ? x : MPI_IN_PLACE, x, n, type, op, 0, l->comm);
	MPI_Bcast(x, n, type, 0, l->comm);
}

void link_reduce_all(struct link *l, double *x, int n, enum link_reduce how)
{
	reduce_all(l, x, n, MPI_DOUBLE, op_of(how));
}

void link_reduce_all_float_min(struct link *l, float *x, int n)
{
	reduce_all(l, x, n, MPI_FLOAT, MPI_MIN);
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
	if (l->comm == MPI_COMM_NULL) {
		size_t room = (bytes + SHARED_ALIGN) & ~(size_t)(SHARED_ALIGN - 1);
		p = must(aligned_alloc(SHARED_ALIGN, room));
		*handle = NULL;
		return memset(p, 0, room);
	}
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

void link_shared_free(void *p, void *handle)
{
	if (!handle) {
		free(p);
		return;
	}
	MPI_Win_free(handle);
	free(handle);
}

/* ---- Windows. Everything that may meet goes through accumulating operations, which MPI keeps
 * atomic and in order; MPI_NO_OP makes one of them a read. ---- */

struct link_window {
	MPI_Win at;  /* MPI_WIN_NULL: one worker alone, in plain memory */
	char *own;   /* counters, then floats */
	size_t head; /* of the counters [bytes] */
	MPI_Request counters_read;
};

/* SMPI does not know the question; all of its memory is plain. */
static void check_unified(MPI_Win at)
{
	int *model, known;
	if (world_is_virtual)
		return;
	MPI_Win_get_attr(at, MPI_WIN_MODEL, &model, &known);
	CHECK(known && *model == MPI_WIN_UNIFIED, "windows are not in plain memory here");
}

/* SMPI would take a lock on every rank, by every rank; to it, a fence is as good. */
static void begin_access(MPI_Win at)
{
	if (world_is_virtual)
		MPI_Win_fence(0, at);
	else
		MPI_Win_lock_all(MPI_MODE_NOCHECK, at);
}

static void end_access(MPI_Win at)
{
	if (world_is_virtual)
		MPI_Win_fence(0, at);
	else
		MPI_Win_unlock_all(at);
}

struct link_window *link_window_new(struct link *l, size_t floats, size_t counters, float **own)
{
	struct link_window *w = must(calloc(1, sizeof *w));
	w->at = MPI_WIN_NULL;
	w->head = (counters * sizeof(int64_t) + SHARED_ALIGN - 1) & ~(size_t)(SHARED_ALIGN - 1);
	size_t bytes = w->head + (floats + 1) * sizeof(float);
	if (l->comm == MPI_COMM_NULL) {
		w->own = must(calloc(1, bytes));
	} else {
		MPI_Win_allocate((MPI_Aint)bytes, 1, MPI_INFO_NULL, l->comm, &w->own, &w->at);
		check_unified(w->at);
		begin_access(w->at);
		memset(w->own, 0, bytes);
		MPI_Win_sync(w->at);
		MPI_Barrier(l->comm);
	}
	*own = (float *)(void *)(w->own + w->head);
	return w;
}

void link_window_free(struct link_window *w)
{
	if (w->at != MPI_WIN_NULL) {
		end_access(w->at);
		MPI_Win_free(&w->at);
	} else {
		free(w->own);
	}
	free(w);
}

void link_window_sync(struct link_window *w)
{
	if (w->at != MPI_WIN_NULL)
		MPI_Win_sync(w->at);
}

static MPI_Aint float_at(const struct link_window *w, size_t first)
{
	return (MPI_Aint)(w->head + first * sizeof(float));
}

static float *alone(struct link_window *w, size_t first)
{
	return (float *)(void *)(w->own + float_at(w, first));
}

void link_window_get(struct link_window *w, int rank, size_t first, float *x, size_t n)
{
	int k = count(n);
	if (w->at != MPI_WIN_NULL)
		MPI_Get_accumulate(NULL, 0, MPI_FLOAT, x, k, MPI_FLOAT, rank, float_at(w, first), k,
				   MPI_FLOAT, MPI_NO_OP, w->at);
	else
		memcpy(x, alone(w, first), n * sizeof *x);
}

void link_window_add(struct link_window *w, int rank, size_t first, const float *x, size_t n)
{
	int k = count(n);
	if (w->at != MPI_WIN_NULL)
		MPI_Accumulate(x, k, MPI_FLOAT, rank, float_at(w, first), k, MPI_FLOAT, MPI_SUM,
			       w->at);
	else
		for (size_t i = 0; i < n; i++)
			alone(w, first)[i] += x[i];
}

void link_window_get_add(struct link_window *w, int rank, size_t first, const float *x, float *old,
			 size_t n)
{
	int k = count(n);
	if (w->at != MPI_WIN_NULL) {
		MPI_Get_accumulate(x, k, MPI_FLOAT, old, k, MPI_FLOAT, rank, float_at(w, first), k,
				   MPI_FLOAT, MPI_SUM, w->at);
	} else {
		link_window_get(w, rank, first, old, n);
		link_window_add(w, rank, first, x, n);
	}
}

void link_window_count(struct link_window *w, size_t counter, const int64_t *by, int64_t *before)
{
	size_t at = counter * sizeof(int64_t);
	if (w->at != MPI_WIN_NULL) {
		MPI_Fetch_and_op(by, before, MPI_INT64_T, 0, (MPI_Aint)at, MPI_SUM, w->at);
	} else {
		int64_t *own = (int64_t *)(void *)(w->own + at);
		*before = *own;
		*own += *by;
	}
}

void link_window_read_counters(struct link_window *w, int64_t *x, size_t n)
{
	int k = count(n);
	if (w->at != MPI_WIN_NULL)
		MPI_Rget_accumulate(NULL, 0, MPI_INT64_T, x, k, MPI_INT64_T, 0, 0, k, MPI_INT64_T,
				    MPI_NO_OP, w->at, &w->counters_read);
	else
		memcpy(x, w->own, n * sizeof *x);
}

bool link_window_ready(struct link_window *w)
{
	enum { TURNS = 8 }; /* each moves a part of a message */
	int done = true, none;
	if (w->at == MPI_WIN_NULL)
		return true;
	/* A look at oneself is done at once; what others want of this rank would never be. */
	for (int i = 0; i < TURNS; i++)
		MPI_Iprobe(0, 0, MPI_COMM_SELF, &none, MPI_STATUS_IGNORE);
	MPI_Test(&w->counters_read, &done, MPI_STATUS_IGNORE);
	return done;
}

void link_window_flush(struct link_window *w, int rank)
{
	world_enter("one-sided access", rank);
	if (w->at == MPI_WIN_NULL)
		return;
	if (rank < 0)
		MPI_Win_flush_all(w->at);
	else
		MPI_Win_flush(rank, w->at);
}

/* ---- Mailboxes. MPI's own waits spin; here a rank sleeps until it is woken. ---- */

/* Across machines there are no wakeups: sleep is short and looks again. With them it is only there
 * for what MPI itself puts off. */
static const nsec nap_least[] = {20000, 200000}, nap_most[] = {500000, 10000000};

struct wakeup {
	_Alignas(64) sem_t sem;
};

struct mailbox {
	MPI_Request *request; /* [room]; MPI_REQUEST_NULL: done, or free */
	bool *taken;          /* [room] */
	int *found;           /* [room] */
	int room, used;       /* used: those from here on were never taken */
	bool tried;           /* to have wakeups */
	bool found_one;       /* while sleeping */
	int rank;
	struct wakeup *wakeup; /* [ranks], shared; NULL: none */
	void *handle;
};

static void mailbox_grow(struct mailbox *m, int room)
{
	size_t n = (size_t)room;
	m->request = must(realloc(m->request, n * sizeof *m->request));
	m->taken = must(realloc(m->taken, n * sizeof *m->taken));
	m->found = must(realloc(m->found, n * sizeof *m->found));
	for (; m->room < room; m->room++)
		m->taken[m->room] = false;
}

static struct mailbox *mailbox_of(struct link *l)
{
	enum { ROOM = 256 };
	if (!l->mailbox) {
		l->mailbox = must(calloc(1, sizeof *l->mailbox));
		MPI_Comm_rank(l->comm, &l->mailbox->rank);
		mailbox_grow(l->mailbox, ROOM);
	}
	return l->mailbox;
}

static void mailbox_free(struct mailbox *m)
{
	if (m) {
		free(m->request);
		free(m->taken);
		free(m->found);
	}
	free(m);
}

int link_rank(struct link *l)
{
	return mailbox_of(l)->rank;
}

int link_size(struct link *l)
{
	int size;
	MPI_Comm_size(l->comm, &size);
	return size;
}

void link_wakeup_new(struct link *l)
{
	struct mailbox *m = mailbox_of(l);
	int size = link_size(l);
	if (m->tried || world_is_virtual)
		return;
	m->tried = true;
	if (!link_one_node(l))
		return;
	m->wakeup = link_shared_new(l, (size_t)size * sizeof *m->wakeup, &m->handle);
	for (int i = 0; i < size && m->rank == 0; i++)
		sem_init(&m->wakeup[i].sem, 1, 0);
	MPI_Barrier(l->comm);
}

void link_wakeup_free(struct link *l)
{
	struct mailbox *m = l->mailbox;
	if (!m || !m->wakeup)
		return;
	MPI_Barrier(l->comm); /* nobody wakes anybody any more */
	link_shared_free(m->wakeup, m->handle);
	m->wakeup = NULL;
}

void link_wake(struct link *l, int rank)
{
	struct mailbox *m = mailbox_of(l);
	if (m->wakeup)
		sem_post(&m->wakeup[rank].sem);
}

void link_sleep(struct link *l, nsec *nap)
{
	world_enter("mailbox", -1);
	struct mailbox *m = mailbox_of(l);
	bool wakeups = m->wakeup != NULL;
	if (world_is_virtual) { /* nothing else comes than what MPI can wait for */
		int i;
		MPI_Waitany(m->used, m->request, &i, MPI_STATUS_IGNORE);
		m->found_one = true;
		return;
	}
	nsec least = nap_least[wakeups], most = nap_most[wakeups];
	*nap = 2 * *nap < least ? least : 2 * *nap < most ? 2 * *nap : most;
	if (!wakeups) {
		clock_delay(*nap);
		return;
	}
	nsec end = clock_now() + *nap;
	struct timespec until = {.tv_sec = end / 1000000000, .tv_nsec = end % 1000000000};
	sem_t *mine = &m->wakeup[m->rank].sem;
	while (sem_clockwait(mine, CLOCK_MONOTONIC, &until) != 0 && errno == EINTR)
		;
	while (sem_trywait(mine) == 0) /* who woke it has sent before: one look finds it all */
		;
}

void link_send_eager(struct link *l, int to, int tag, const void *x, size_t bytes)
{
	world_enter("mailbox", to);
	MPI_Send(x, count(bytes / sizeof(float)), MPI_FLOAT, to, tag, l->comm);
}

static int request_new(struct mailbox *m)
{
	int i = 0;
	while (i < m->used && m->taken[i])
		i++;
	if (i == m->room)
		mailbox_grow(m, 2 * m->room);
	if (i == m->used)
		m->used++;
	m->taken[i] = true;
	return i;
}

int link_send_start(struct link *l, int to, int tag, const void *x, size_t bytes)
{
	struct mailbox *m = mailbox_of(l);
	int i = request_new(m);
	MPI_Isend(x, count(bytes / sizeof(float)), MPI_FLOAT, to, tag, l->comm, &m->request[i]);
	return i;
}

int link_recv_start(struct link *l, int from, int tag, void *x, size_t bytes)
{
	struct mailbox *m = mailbox_of(l);
	int i = request_new(m);
	MPI_Irecv(x, count(bytes / sizeof(float)), MPI_FLOAT, from, tag, l->comm, &m->request[i]);
	return i;
}

bool link_progress(struct link *l)
{
	struct mailbox *m = mailbox_of(l);
	int n = 0;
	if (m->found_one) {
		m->found_one = false;
		return true;
	}
	/* Open MPI 4 looks first and moves messages then: what that brought, the second look finds
	 */
	for (int i = 0; i < 2 && n == 0; i++)
		MPI_Testsome(m->used, m->request, &n, m->found, MPI_STATUSES_IGNORE);
	return n != MPI_UNDEFINED && n > 0;
}

bool link_test(struct link *l, int *request)
{
	if (*request < 0)
		return true;
	if (l->mailbox->request[*request] != MPI_REQUEST_NULL)
		return false;
	l->mailbox->taken[*request] = false;
	*request = -1;
	return true;
}

void link_cancel(struct link *l, int *request)
{
	if (link_test(l, request))
		return;
	MPI_Cancel(&l->mailbox->request[*request]);
	MPI_Wait(&l->mailbox->request[*request], MPI_STATUS_IGNORE);
	link_test(l, request);
}
