/*
 * mailbox.c - messages between ranks that must not spin. MPI's own waits spin. Here a rank sleeps
 * until it is woken, and then finds which of its requests are done.
 */
#include "runtime/comm/mpi/link.h"

#include <errno.h>
#include <semaphore.h>
#include <stdlib.h>
#include <time.h>

/* [wake-up signals available]. Across machines there are none: a rank sleeps shortly and polls.
 * With them, polling is only for messages that MPI delays. */
static const nsec nap_least[] = {20000, 200000}, nap_most[] = {500000, 10000000};

struct wakeup {
	_Alignas(64) sem_t sem;
};

/* MORE: a further piece of a long simulated message, for which nobody asks. */
enum use { FREE, SENDS, RECEIVES, SENDS_MORE, RECEIVES_MORE };

struct mailbox {
	MPI_Request *request;  /* [room]; MPI_REQUEST_NULL: done, or free */
	enum use *use;         /* [room] */
	int *found;            /* [room] */
	int room, used;        /* used: requests from here on were never taken */
	int receives;          /* pending; counted in simulations only */
	bool tried;            /* link_wakeup_new was called */
	bool far;              /* several machines: no wake-up signals */
	bool found_one;        /* a request was completed in link_sleep */
	struct wakeup *wakeup; /* [ranks], shared; NULL: no wake-up signals */
	void *handle;
};

static void mailbox_grow(struct mailbox *m, int room)
{
	size_t n = (size_t)room;
	m->request = must(realloc(m->request, n * sizeof *m->request));
	m->use = must(realloc(m->use, n * sizeof *m->use));
	m->found = must(realloc(m->found, n * sizeof *m->found));
	for (; m->room < room; m->room++)
		m->use[m->room] = FREE;
}

static struct mailbox *mailbox_of(struct link *l)
{
	enum { ROOM = 256 };
	if (!l->mailbox) {
		l->mailbox = must(calloc(1, sizeof *l->mailbox));
		mailbox_grow(l->mailbox, ROOM);
	}
	return l->mailbox;
}

void mailbox_free(struct mailbox *m)
{
	if (m) {
		free(m->request);
		free(m->use);
		free(m->found);
	}
	free(m);
}

void link_wakeup_new(struct link *l)
{
	struct mailbox *m = mailbox_of(l);
	if (m->tried)
		return;
	m->tried = true;
	m->far = !link_one_node(l);
	if (m->far || world_is_virtual)
		return;
	m->wakeup = link_shared_new(l, (size_t)l->size * sizeof *m->wakeup, &m->handle);
	for (int i = 0; i < l->size && l->rank == 0; i++)
		sem_init(&m->wakeup[i].sem, 1, 0);
	MPI_Barrier(l->comm);
}

void link_wakeup_free(struct link *l)
{
	struct mailbox *m = l->mailbox;
	if (!m || !m->wakeup)
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
}

static nsec longer_nap(nsec nap, bool wakeups)
{
	nsec least = nap_least[wakeups], most = nap_most[wakeups];
	return 2 * nap < least ? least : 2 * nap < most ? 2 * nap : most;
}

/* Simulated: request i has been completed. Returns what it was. */
static enum use completed(struct mailbox *m, int i)
{
	enum use use = m->use[i];
	m->receives -= use == RECEIVES || use == RECEIVES_MORE;
	if (use == SENDS_MORE || use == RECEIVES_MORE)
		m->use[i] = FREE;
	m->found_one = true;
	return use;
}

/* Simulated: waits for an MPI request. Across machines a real rank finds a message half a nap late
 * on average. A completed send does not end the sleep. This code waits and never tests, because
 * SimGrid never removes requests that a test found done from its lists. MPI_Waitany first reads
 * this rank's previous request to the simulator, which may be on a dead stack frame; world_yield
 * replaces it. */
static void sleep_virtually(struct mailbox *m)
{
	int i;
	enum use use;
	nsec at = clock_now(), nap = 0;
	do {
		world_yield();
		MPI_Waitany(m->used, m->request, &i, MPI_STATUS_IGNORE);
		if (i == MPI_UNDEFINED) /* blocks: the simulator then reports the deadlock */
			MPI_Recv(NULL, 0, MPI_BYTE, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE);
		use = completed(m, i);
	} while (use != RECEIVES && m->receives > 0);
	for (nsec now = clock_now(); m->far && at < now;)
		at += nap = longer_nap(nap, false);
	clock_delay(nap / 2);
}

/* The same for a time: afterwards it finds what has come. */
static void rest_virtually(struct mailbox *m, nsec dt)
{
	clock_delay(dt);
	for (int found = true, i; found;) {
		world_yield();
		MPI_Testany(m->used, m->request, &i, &found, MPI_STATUS_IGNORE);
		found = found && i != MPI_UNDEFINED;
		if (found)
			completed(m, i);
	}
}

void link_sleep(struct link *l, nsec *nap, nsec most)
{
	world_enter("mailbox", -1);
	struct mailbox *m = mailbox_of(l);
	bool wakeups = m->wakeup != NULL;
	if (world_is_virtual && most)
		rest_virtually(m, most);
	else if (world_is_virtual)
		sleep_virtually(m);
	if (world_is_virtual)
		return;
	*nap = longer_nap(*nap, wakeups);
	if (most && *nap > most)
		*nap = most;
	if (!wakeups) {
		clock_delay(*nap);
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

static int request_new(struct mailbox *m, enum use use)
{
	int i = 0;
	while (i < m->used && m->use[i])
		i++;
	if (i == m->room)
		mailbox_grow(m, 2 * m->room);
	if (i == m->used)
		m->used++;
	m->use[i] = use;
	return i;
}

/* Returns the request of the message, or of its first piece. Pieces travel at the same time. */
static int start(struct link *l, bool sends, int peer, int tag, void *x, size_t floats)
{
	struct mailbox *m = mailbox_of(l);
	int first = -1;
	do {
		const size_t part = piece_of(floats);
		const bool more = first >= 0;
		int i = request_new(m, sends ? (more ? SENDS_MORE : SENDS)
					     : (more ? RECEIVES_MORE : RECEIVES));
		/* simulated, Issend takes no longer; SimGrid keeps sends without a waiter in a
		 * long list */
		if (!sends)
			MPI_Irecv(x, FLOATS(part), peer, tag, l->comm, &m->request[i]);
		else if (world_is_virtual)
			MPI_Issend(x, FLOATS(part), peer, tag, l->comm, &m->request[i]);
		else
			MPI_Isend(x, FLOATS(part), peer, tag, l->comm, &m->request[i]);
		m->receives += world_is_virtual && !sends;
		first = more ? first : i;
		floats -= part;
	} while (floats > 0);
	return first;
}

int link_send_start(struct link *l, int to, int tag, const void *x, size_t bytes)
{
	return start(l, true, to, tag, (void *)(uintptr_t)x, bytes / sizeof(float));
}

int link_recv_start(struct link *l, int from, int tag, void *x, size_t bytes)
{
	return start(l, false, from < 0 ? MPI_ANY_SOURCE : from, tag, x, bytes / sizeof(float));
}

bool link_progress(struct link *l)
{
	struct mailbox *m = mailbox_of(l);
	int n = 0;
	if (world_is_virtual) {
		bool found = m->found_one;
		m->found_one = false;
		return found;
	}
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
	l->mailbox->use[*request] = FREE;
	*request = -1;
	return true;
}

void link_cancel(struct link *l, int *request)
{
	if (link_test(l, request))
		return;
	l->mailbox->receives--;
	MPI_Cancel(&l->mailbox->request[*request]);
	MPI_Wait(&l->mailbox->request[*request], MPI_STATUS_IGNORE);
	link_test(l, request);
}
