/*
 * mailbox.c - messages between ranks that must not spin. MPI's own waits spin. Here a rank sleeps
 * until it is woken, and then finds which of its requests are done. Its simulated counterpart is
 * sim/world/mailbox.c.
 */
#include "runtime/comm/mpi/link.h"

#include <errno.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What wakes a rank: nothing for some messages, as where the machines have InfiniBand; the arrival
 * of bytes, and datagrams of ranks of its own machine; or semaphores. Where something wakes it,
 * polling is only for messages that MPI delays. */
enum waking { WOKEN_BY_SOME, WOKEN_BY_BYTES, WOKEN_BY_SIGNALS };
static const nsec nap_least[] = {20000, 200000, 200000}, nap_most[] = {500000, 2000000, 10000000};

struct wakeup {
	_Alignas(64) sem_t sem;
};

struct mailbox {
	MPI_Request *request; /* [room]; MPI_REQUEST_NULL: done, or free */
	bool *taken;          /* [room] */
	int *found;           /* [room] */
	int room, used;       /* used: requests from here on were never taken */
	bool tried;           /* link_wakeup_new was called */
	enum waking waking;
	struct wakeup *wakeup; /* [ranks], shared; NULL: no semaphores */
	void *handle;
	/* [ranks], of their sockets; empty: of another machine; NULL: no datagrams */
	char (*name)[SOCKET_NAME];
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

static void mailbox_free(struct mailbox *m)
{
	free(m->request);
	free(m->taken);
	free(m->found);
	if (m->name)
		sockets_close();
	free(m->name);
	free(m);
}

static struct mailbox *mailbox_of(struct link *l)
{
	enum { ROOM = 256 };
	if (!l->mailbox) {
		l->mailbox = must(calloc(1, sizeof *l->mailbox));
		l->mailbox_free = mailbox_free;
		mailbox_grow(l->mailbox, ROOM);
	}
	return l->mailbox;
}

/* Gives the ranks of this machine each other's names. False: one cannot wake another, as in two
 * containers. Each wakes the next: of several networks, one rank has its next in another. */
static bool names_open(struct link *l, struct link *node, struct mailbox *m)
{
	struct card {
		int rank;
		char name[SOCKET_NAME];
	} mine = {.rank = l->rank}, *all AUTOFREE = must(calloc((size_t)node->size, sizeof *all));
	sockets_open(mine.name);
	link_gather(node, -1, &mine, all, sizeof mine);
	sockets_wake(all[(node->rank + 1) % node->size].name);
	link_barrier(node);
	double woken = sockets_woken();
	link_reduce_all(node, &woken, 1, REDUCE_MIN);
	if (woken == 0) {
		sockets_close();
		return false;
	}
	m->name = must(calloc((size_t)l->size, sizeof *m->name));
	for (int k = 0; k < node->size; k++)
		memcpy(m->name[all[k].rank], all[k].name, SOCKET_NAME);
	return true;
}

void link_wakeup_new(struct link *l)
{
	struct mailbox *m = mailbox_of(l);
	if (m->tried)
		return;
	m->tried = true;
	if (!link_one_node(l)) {
		struct link *node = link_of_node(l);
		const bool near = node->size == 1 || names_open(l, node, m);
		m->waking = near && !has_infiniband() ? WOKEN_BY_BYTES : WOKEN_BY_SOME;
		link_free(node);
		return;
	}
	m->waking = WOKEN_BY_SIGNALS;
	m->wakeup = link_shared_new(l, (size_t)l->size * sizeof *m->wakeup, &m->handle);
	for (int i = 0; i < l->size && l->rank == 0; i++)
		sem_init(&m->wakeup[i].sem, 1, 0);
	MPI_Barrier(l->comm);
}

void link_wakeup_free(struct link *l)
{
	struct mailbox *m = l->mailbox;
	if (!m)
		return;
	if (m->name)
		sockets_close();
	free(m->name);
	m->name = NULL;
	m->waking = WOKEN_BY_SOME;
	if (!m->wakeup)
		return;
	MPI_Barrier(l->comm); /* no rank signals after this */
	link_shared_free(m->wakeup, m->handle);
	m->wakeup = NULL;
}

void link_wake(struct link *l, int rank)
{
	struct mailbox *m = mailbox_of(l);
	if (m->wakeup)
		sem_post(&m->wakeup[rank].sem);
	else if (m->name && m->name[rank][0])
		sockets_wake(m->name[rank]);
}

static nsec longer_nap(nsec nap, enum waking waking)
{
	nsec least = nap_least[waking], most = nap_most[waking];
	return 2 * nap < least ? least : 2 * nap < most ? 2 * nap : most;
}

void link_sleep(struct link *l, nsec *nap, nsec most)
{
	world_enter("mailbox", -1);
	struct mailbox *m = mailbox_of(l);
	*nap = longer_nap(*nap, m->waking);
	if (most && *nap > most)
		*nap = most;
	if (!m->wakeup) {
		sockets_sleep(*nap);
		return;
	}
	nsec end = clock_now() + *nap;
	struct timespec until = {.tv_sec = end / 1000000000, .tv_nsec = end % 1000000000};
	sem_t *mine = &m->wakeup[l->rank].sem;
	while (sem_clockwait(mine, CLOCK_MONOTONIC, &until) != 0 && errno == EINTR)
		;
	while (sem_trywait(mine) == 0) /* senders signal after sending: one poll finds all */
		;
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
	MPI_Irecv(x, count(bytes / sizeof(float)), MPI_FLOAT, from < 0 ? MPI_ANY_SOURCE : from, tag,
		  l->comm, &m->request[i]);
	return i;
}

void link_post(struct link *l, int to, int tag, const void *x, size_t bytes)
{
	world_enter("send", to);
	MPI_Send(x, count(bytes / sizeof(float)), MPI_FLOAT, to, tag, l->comm);
	world_leave();
}

bool link_progress(struct link *l)
{
	struct mailbox *m = mailbox_of(l);
	int n = 0;
	rings_advance();
	/* Open MPI 4 tests first and then moves messages, which only a second test finds. */
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
