/*
 * window.c - memory that simulated ranks reach one-sidedly. Its counterpart is
 * runtime/comm/mpi/window.c. The operations have the order and the messages that SMPI gives them:
 *
 *   read and add   waits for the target's lock; a message from the target, then one to it
 *   add            one message, without the lock
 *
 * An add ends no earlier than one that has begun before it, of another rank, into the memory of
 * this one: SMPI's flush waits for both.
 *
 * They are queued, and happen in the flush: one after the other, as one passage of network.c.
 */
#include "runtime/comm/mpi/link.h"
#include "sim/world/network.h"

#include <simgrid/actor.h>
#include <simgrid/semaphore.h>
#include <stdlib.h>
#include <string.h>

/* Old = what is there (NULL: not read), then there += x (NULL: nothing). */
struct reach {
	int rank;
	size_t at, n; /* bytes of the window; elements */
	bool counts;  /* the elements are counters, otherwise floats */
	const void *x;
	void *old;
};

struct link_window {
	struct passage passage;   /* the first member */
	int rank, ranks;          /* of the link; */
	int world;                /* among all */
	struct link_window **all; /* [ranks] */
	char *own;                /* counters, then floats */
	size_t head, bytes;       /* of the counters; of all. No floats: messages of lengths */
	struct reach *reach;      /* [room] queued */
	size_t reaches, room, now;
	bool locked; /* by a rank's operation; further ranks wait, in the order of their arrival */
	struct link_window *first_waiting, **last_waiting, *next;
	double sent_at;           /* this rank's add, while it is adding */
	bool adding, landed;      /* landed: its message has arrived, but it has to wait */
	struct link_window *adds; /* the rank that adds here; NULL: none, or this one, */
	double adds_since;        /* since this time */
	sg_sem_t bell;
};

struct link_window *link_window_new(struct link *l, size_t floats, size_t counters, float **own)
{
	struct link_window *w = must(calloc(1, sizeof *w));
	w->rank = link_rank(l);
	w->ranks = link_size(l);
	w->world = sim_self()->rank;
	w->last_waiting = &w->first_waiting;
	w->head = (counters * sizeof(int64_t) + SHARED_ALIGN - 1) & ~(size_t)(SHARED_ALIGN - 1);
	w->bytes = w->head + floats * sizeof(float);
	w->own = must(calloc(1, w->bytes + sizeof(float)));
	w->all = must(calloc((size_t)w->ranks, sizeof *w->all));
	w->all[w->rank] = w;
	if (l->comm != MPI_COMM_NULL)
		together_gather(l, &w, sizeof w, w->all);
	w->bell = sg_sem_init(0);
	*own = (float *)(void *)(w->own + w->head);
	return w;
}

void link_window_free(struct link_window *w)
{
	free(w->passage.spot);
	free(w->own);
	free(w->all);
	free(w->reach);
	sg_sem_destroy(w->bell);
	free(w);
}

void link_window_sync(struct link_window *w)
{
	(void)w;
	network_advance();
}

/* ---- Operations, one after the other ---- */

static void window_begin(struct passage *p);

static const struct reach *reach_of(const struct link_window *w)
{
	return &w->reach[w->now];
}

static size_t bytes_of(const struct reach *r)
{
	return r->n * (r->counts ? sizeof(int64_t) : sizeof(float));
}

static struct link_window *target_of(const struct link_window *w)
{
	return w->all[reach_of(w)->rank];
}

/* Time of a message alone, with that of the processors. */
static double leg_s(const struct link_window *w, const struct reach *r, bool back)
{
	int here = w->world, there = w->all[r->rank]->world;
	double bytes = (double)bytes_of(r);
	return engine_factor(TIME_SEND, bytes) + engine_factor(TIME_RECV, bytes) +
	       message_least(back ? there : here, back ? here : there, bytes);
}

static bool reads_far(const struct link_window *w, const struct reach *r)
{
	return r->old && r->rank != w->rank;
}

static double least_s(const struct link_window *w, const struct reach *r)
{
	return (reads_far(w, r) ? leg_s(w, r, true) : 0) + (r->x ? leg_s(w, r, false) : 0);
}

static bool has_data(const struct link_window *w, const struct reach *r)
{
	return r->counts || w->bytes > w->head;
}

static void next_reach(struct link_window *w)
{
	struct link_window *to = target_of(w), *waiting = to->first_waiting;
	if (reach_of(w)->old && waiting) {
		to->first_waiting = waiting->next;
		if (!to->first_waiting)
			to->last_waiting = &to->first_waiting;
		passage_delay(&waiting->passage, 0, window_begin);
	} else if (reach_of(w)->old) {
		to->locked = false;
	}
	w->now++;
}

static void window_start(struct link_window *w);

static void added(struct passage *p);

static void end_add(struct link_window *w)
{
	passage_delay(&w->passage, engine_factor(TIME_RECV, (double)bytes_of(reach_of(w))), added);
}

static bool waits_for_add(const struct link_window *w)
{
	return w->adds && w->adds_since < w->sent_at;
}

/* Ends the wait of the target's own add, if it waits for this one. */
static void leave_target(struct link_window *w)
{
	struct link_window *to = target_of(w);
	bool waits = to->adding && waits_for_add(to);
	w->adding = false;
	if (to->adds != w)
		return;
	to->adds = NULL;
	if (waits && target_of(to)->adds == to)
		target_of(to)->adds_since = network_now();
	if (to->landed)
		end_add(to);
	to->landed = false;
}

static void added(struct passage *p)
{
	struct link_window *w = (struct link_window *)(void *)p;
	const struct reach *r = reach_of(w);
	char *there = target_of(w)->own + r->at;
	if (r->counts) {
		int64_t *y = (int64_t *)(void *)there;
		const int64_t *x = r->x;
		for (size_t i = 0; i < r->n; i++)
			y[i] += x[i];
	} else if (has_data(target_of(w), r)) {
		float *y = (float *)(void *)there;
		const float *x = r->x;
		for (size_t i = 0; i < r->n; i++)
			y[i] += x[i];
	}
	leave_target(w);
	next_reach(w);
	window_start(w);
}

static void add_arrived(struct passage *p)
{
	struct link_window *w = (struct link_window *)(void *)p;
	w->landed = waits_for_add(w);
	if (!w->landed)
		end_add(w);
}

static void send_add(struct link_window *w, double after)
{
	const struct reach *r = reach_of(w);
	const double bytes = (double)bytes_of(r);
	struct link_window *to = target_of(w);
	w->passage.least_s -= leg_s(w, r, false);
	w->sent_at = network_now() + after + engine_factor(TIME_SEND, bytes);
	w->adding = true;
	w->landed = false;
	/* one that began before the target's own is not forgotten: the target waits for it */
	if (to != w && !to->landed && !(to->adding && waits_for_add(to))) {
		to->adds = w;
		to->adds_since = w->sent_at;
	}
	passage_send(&w->passage, after + engine_factor(TIME_SEND, bytes), w->world,
		     target_of(w)->world, bytes, add_arrived);
}

static void was_read(struct passage *p)
{
	struct link_window *w = (struct link_window *)(void *)p;
	next_reach(w);
	window_start(w);
}

/* after: the time of this rank's processor, which comes first. */
static void take(struct link_window *w, double after)
{
	const struct reach *r = reach_of(w);
	if (has_data(target_of(w), r))
		memcpy(r->old, target_of(w)->own + r->at, bytes_of(r));
	if (r->x)
		send_add(w, after);
	else
		passage_delay(&w->passage, after, was_read);
}

static void read_arrived(struct passage *p)
{
	struct link_window *w = (struct link_window *)(void *)p;
	take(w, engine_factor(TIME_RECV, (double)bytes_of(reach_of(w))));
}

/* This rank has the lock, if it needs it. */
static void window_begin(struct passage *p)
{
	struct link_window *w = (struct link_window *)(void *)p;
	const struct reach *r = reach_of(w);
	const double bytes = (double)bytes_of(r);
	if (!r->old) {
		send_add(w, 0);
	} else if (reads_far(w, r)) {
		p->least_s -= leg_s(w, r, true);
		passage_send(p, engine_factor(TIME_SEND, bytes), target_of(w)->world, w->world,
			     bytes, read_arrived);
	} else {
		take(w, 0);
	}
}

static void window_start(struct link_window *w)
{
	if (w->now == w->reaches) {
		passage_over(&w->passage);
		sg_sem_release(w->bell);
		return;
	}
	struct link_window *to = target_of(w);
	if (!reach_of(w)->old || !to->locked) {
		to->locked |= reach_of(w)->old != NULL;
		window_begin(&w->passage);
		return;
	}
	w->next = NULL;
	*to->last_waiting = w;
	to->last_waiting = &w->next;
}

static void run_queue(struct link_window *w)
{
	if (w->reaches == 0)
		return;
	network_advance();
	w->passage.least_s = 0; /* of the messages that have not begun */
	for (size_t i = 0; i < w->reaches; i++)
		w->passage.least_s += least_s(w, &w->reach[i]);
	window_start(w); /* first: the clock, which runs in passage_begin, needs its event */
	passage_begin(&w->passage);
	sg_sem_acquire(w->bell);
	w->reaches = w->now = 0;
}

/* ---- What tables call ---- */

static void queue(struct link_window *w, struct reach r)
{
	if (w->reaches == w->room) {
		w->room = 2 * w->room + 16;
		w->reach = must(realloc(w->reach, w->room * sizeof *w->reach));
	}
	w->reach[w->reaches++] = r;
}

void link_window_reach(struct link_window *w, int rank, size_t first, const float *x, float *old,
		       size_t n)
{
	queue(w, (struct reach){.rank = rank,
				.at = w->head + first * sizeof(float),
				.n = n,
				.x = x,
				.old = old});
}

void link_window_count(struct link_window *w, size_t counter, const int64_t *by, int64_t *before)
{
	queue(w, (struct reach){.at = counter * sizeof(int64_t),
				.n = 1,
				.counts = true,
				.x = by,
				.old = before});
}

void link_window_read_counters(struct link_window *w, int64_t *x, size_t n)
{
	queue(w, (struct reach){.n = n, .counts = true, .old = x});
	run_queue(w);
}

/* The probes of the counterpart, of which SMPI charges each. */
bool link_window_ready(struct link_window *w)
{
	const double probes_s = 8e-6;
	(void)w;
	sg_actor_sleep_for(probes_s);
	return true;
}

void link_window_flush(struct link_window *w, int rank)
{
	world_enter("one-sided access", rank);
	run_queue(w);
	world_reach(rank < 0 ? 0 : rank, rank < 0 ? w->ranks : rank + 1);
}
