/*
 * mailbox.c - messages between simulated ranks that sleep until one arrives. Its counterpart is
 * runtime/comm/mpi/mailbox.c.
 *
 * As with MPI's synchronous sends, a message begins when its receiver has asked for it; receives
 * and messages find each other in the order in which they were posted. A message is a passage of
 * network.c: no actor waits for each.
 */
#include "runtime/comm/mpi/link.h"
#include "sim/world/network.h"

#include <simgrid/actor.h>
#include <simgrid/semaphore.h>
#include <stdlib.h>
#include <string.h>

/* A request: under way; done, which its rank has not found; found. */
enum stage { FREE, PENDING, DONE, FOUND };

struct letter {
	struct passage passage; /* the first member */
	struct letter *next;    /* posted before its receive */
	int from, to, tag;
	const void *x;
	size_t bytes;
	int sends, receives; /* requests; sends -1: nobody waits, x is the letter's own */
};

struct request_of {
	enum stage stage;
	bool receives;
	bool copied; /* the message waited in a buffer, which takes time to read */
	int next;    /* in a list of requests; -1: the last */
	int from, tag;
	void *x;
	size_t bytes;
};

struct list {
	int first, last; /* -1: empty */
};

struct mailbox {
	struct request_of *request; /* [room] */
	int room;
	struct list spare, posted, done;      /* requests: free; receives without a message; done */
	struct letter *letter, **last_letter; /* messages without a receive */
	int receives;                         /* pending, or done and not found */
	bool found_one;                       /* link_sleep found a request */
	bool asleep;
	sg_sem_t bell;
};

static void append(struct mailbox *m, struct list *l, int i)
{
	m->request[i].next = -1;
	*(l->last < 0 ? &l->first : &m->request[l->last].next) = i;
	l->last = i;
}

/* Removes the request after `before`; before -1: the first. */
static int take_after(struct mailbox *m, struct list *l, int before)
{
	int *at = before < 0 ? &l->first : &m->request[before].next, i = *at;
	if (i < 0)
		return i;
	*at = m->request[i].next;
	if (l->last == i)
		l->last = before;
	return i;
}

static struct mailbox *mailbox_of(int rank)
{
	struct sim_worker *w = sim_worker_of(rank);
	if (!w->mailbox) {
		struct mailbox *m = w->mailbox = must(calloc(1, sizeof *m));
		m->spare = m->posted = m->done = (struct list){-1, -1};
		m->last_letter = &m->letter;
		m->bell = sg_sem_init(0);
	}
	return w->mailbox;
}

static struct mailbox *mine(const struct link *l)
{
	CHECK(l->rank == sim_self()->rank, "a mailbox of rank %d is used by %d", l->rank,
	      sim_self()->rank);
	return mailbox_of(l->rank);
}

/* Of a link, which has none: those of ranks are freed when all have ended. */
void mailbox_free(struct mailbox *m)
{
	if (!m)
		return;
	while (m->letter) {
		struct letter *a = m->letter;
		m->letter = a->next;
		free(a->sends < 0 ? (void *)(uintptr_t)a->x : NULL);
		free(a);
	}
	free(m->request);
	free(m);
}

void link_wakeup_new(struct link *l)
{
	(void)l;
}

void link_wakeup_free(struct link *l)
{
	(void)l;
}

void link_wake(struct link *l, int rank)
{
	(void)l, (void)rank;
}

static int mailbox_request_new(struct mailbox *m)
{
	int i = take_after(m, &m->spare, -1);
	if (i < 0) {
		int old = m->room;
		m->room = 2 * old + 16;
		m->request = must(realloc(m->request, (size_t)m->room * sizeof *m->request));
		for (i = old; i < m->room; i++)
			append(m, &m->spare, i);
		i = take_after(m, &m->spare, -1);
	}
	m->request[i] = (struct request_of){.stage = PENDING, .next = -1};
	return i;
}

static void request_done(struct mailbox *m, int i)
{
	m->request[i].stage = DONE;
	append(m, &m->done, i);
	const bool wake = m->asleep;
	m->asleep = false;
	if (wake) /* other actors run here */
		sg_sem_release(m->bell);
}

/* ---- Messages ---- */

static void arrived(struct passage *p)
{
	struct letter *a = (struct letter *)(void *)p;
	struct mailbox *to = mailbox_of(a->to);
	const struct request_of *r = &to->request[a->receives];
	if (a->x != link_nowhere() && r->x != link_nowhere())
		memcpy(r->x, a->x, a->bytes);
	passage_over(p);
	request_done(to, a->receives);
	if (a->sends >= 0)
		request_done(mailbox_of(a->from), a->sends);
	else
		free((void *)(uintptr_t)a->x);
	free(p->spot);
	free(a);
}

static bool fits(const struct request_of *r, const struct letter *a)
{
	return r->tag == a->tag && (r->from < 0 || r->from == a->from);
}

static void begin(struct letter *a, struct mailbox *to, int receives)
{
	struct request_of *r = &to->request[receives];
	CHECK(r->bytes == a->bytes, "rank %d expects %zu bytes of %d, which sends %zu", a->to,
	      r->bytes, a->from, a->bytes);
	r->copied = a->sends < 0;
	a->receives = receives;
	network_advance();
	passage_send(&a->passage, 0, a->from, a->to, (double)a->bytes, arrived);
	passage_begin(&a->passage);
}

static void post(struct letter *a)
{
	struct mailbox *to = mailbox_of(a->to);
	for (int i = to->posted.first, before = -1; i >= 0; before = i, i = to->request[i].next)
		if (fits(&to->request[i], a)) {
			take_after(to, &to->posted, before);
			begin(a, to, i);
			return;
		}
	*to->last_letter = a;
	to->last_letter = &a->next;
}

static struct letter *letter_new(const struct link *l, int to, int tag, const void *x, size_t bytes)
{
	struct letter *a = must(calloc(1, sizeof *a));
	a->from = l->rank;
	a->to = to;
	a->tag = tag;
	a->x = x;
	a->bytes = bytes;
	a->sends = -1;
	return a;
}

static void spend(enum message_cost what, size_t bytes)
{
	double seconds = engine_factor(what, (double)bytes);
	if (seconds > 0)
		sg_actor_sleep_for(seconds);
}

void link_post(struct link *l, int to, int tag, const void *x, size_t bytes)
{
	world_enter("send", to);
	spend(TIME_SEND, bytes);
	post(letter_new(l, to, tag, memcpy(must(malloc(bytes)), x, bytes), bytes));
}

int link_send_start(struct link *l, int to, int tag, const void *x, size_t bytes)
{
	struct letter *a = letter_new(l, to, tag, x, bytes);
	a->sends = mailbox_request_new(mine(l));
	int request = a->sends;
	spend(TIME_ISEND, bytes);
	post(a);
	return request;
}

int link_recv_start(struct link *l, int from, int tag, void *x, size_t bytes)
{
	struct mailbox *m = mine(l);
	int i = mailbox_request_new(m);
	struct request_of *r = &m->request[i];
	r->receives = true;
	r->from = from;
	r->tag = tag;
	r->x = x;
	r->bytes = bytes;
	m->receives++;
	for (struct letter **at = &m->letter; *at; at = &(*at)->next) {
		struct letter *a = *at;
		if (!fits(r, a))
			continue;
		*at = a->next;
		if (!*at)
			m->last_letter = at;
		begin(a, m, i);
		return i;
	}
	append(m, &m->posted, i);
	return i;
}

/* Finds one request that is done, and the sends that were done before it; a send alone wakes
 * nobody. */
void link_sleep(struct link *l, nsec *nap, nsec most)
{
	struct mailbox *m = mine(l);
	struct request_of *r;
	(void)nap;
	world_enter("mailbox", -1);
	network_advance();
	do {
		while (m->done.first < 0) {
			m->asleep = true;
			if (!most)
				sg_sem_acquire(m->bell);
			else if (sg_sem_acquire_timeout(m->bell, 1e-9 * (double)most)) {
				m->asleep = false;
				return;
			}
		}
		r = &m->request[take_after(m, &m->done, -1)];
		r->stage = FOUND;
		m->receives -= r->receives;
		if (r->copied)
			spend(TIME_RECV, r->bytes);
	} while (!r->receives && m->receives > 0);
	m->found_one = true;
}

bool link_progress(struct link *l)
{
	struct mailbox *m = mine(l);
	bool found = m->found_one;
	m->found_one = false;
	return found;
}

bool link_test(struct link *l, int *request)
{
	if (*request < 0)
		return true;
	struct mailbox *m = mine(l);
	if (m->request[*request].stage != FOUND)
		return false;
	m->request[*request].stage = FREE;
	append(m, &m->spare, *request);
	*request = -1;
	return true;
}

void link_cancel(struct link *l, int *request)
{
	struct mailbox *m = mine(l);
	if (link_test(l, request))
		return;
	int i = m->posted.first, before = -1;
	while (i >= 0 && i != *request)
		before = i, i = m->request[i].next;
	if (i >= 0) { /* otherwise its message is under way */
		take_after(m, &m->posted, before);
		m->receives--;
		append(m, &m->spare, i);
	}
	*request = -1;
}
