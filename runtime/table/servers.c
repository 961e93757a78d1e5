/*
 * servers.c - the worker's side of tables whose shards lie on server ranks. Server s holds the rows
 * part_of(rows, servers, s) of each table (shard.c), and applies requests in the order of their
 * arrival. The ranks of `everyone` are the workers, then the servers.
 *
 * An operation is one request to each server and one reply (wire.h). Every push goes to every
 * server, even without floats, so that all servers count alike; a read only goes to the servers
 * that hold some of it. A sync sends param - pulled, so a server keeps nothing for it. If there is
 * only one worker and it has seen all of W, it sends param itself, which is the new W, bit for bit.
 *
 * Servers know nothing of each other. Each counts versions by itself. The staleness of a push is
 * what the first server found; the others' can differ at most by operations that were under way at
 * the same time. Each server also drops late pushes by itself: with backup workers and several
 * servers, a push may count on one and be dropped on another, and a late worker's reply may mix two
 * rounds.
 *
 * Cost of a sync, on one machine: a worker reads two floats and writes one, MPI copies one each
 * way, and the server reads two and writes two. A waiting worker sleeps (link_sleep). A worker's
 * time in an operation is communication, except the time for which the server deferred the reply
 * because of a round or a staleness bound.
 */
#include "runtime/table/coded.h"
#include "runtime/table/wire.h"

#include <stdlib.h>
#include <string.h>

/* One server's part of an operation. */
struct subrequest {
	struct table_request request;
	struct table_reply reply;
	size_t first, n; /* its floats, in the operation's memory or the staged rows */
	int asked, awaited, listed, sent, got; /* requests of the link that are under way */
	bool replied, over;
};

/* An operation under way. Rows are staged in the order of servers. */
struct slot {
	struct table_op *op; /* NULL: none is under way */
	bool done;           /* all servers have replied */
	char *wrong;
	struct subrequest *subrequest; /* [servers] */
	int64_t *row;                  /* in the server's numbering */
	size_t *place;                 /* index of each row in the operation's list */
	float *stage;
	size_t row_room, stage_room;
};

struct client {
	struct slot slot[SLOTS];
	size_t *bound; /* [servers + 1], rows */
	bool unseen;   /* this worker has changed W since its last pull */
};

#define AT(t) ((struct client *)(t)->at)

static void send_request(struct link *everyone, int rank, struct table_request a)
{
	a.worker = link_rank(everyone);
	a.slot = TICKETS_MAX;
	link_post(everyone, rank, TAG_REQUEST, &a, sizeof a);
	link_wake(everyone, rank);
}

static void send_to_all(struct table *t, enum request_kind what)
{
	struct tables *s = t->among;
	for (int k = 0; k < s->servers; k++)
		send_request(s->everyone, s->size + k,
			     (struct table_request){
				     .what = what, .table = t->id, .number = s->asked[k]++});
}

/* Messages of lengths have no floats, whatever their place. */
static const float *floats_at(const struct table *t, const float *x, size_t first)
{
	return t->rules.lengths ? link_nowhere() : x + first;
}

/* For worker 0. Returns when the server has the table: a send waits for its receiver. */
static void open_shard_on(struct table *t, int server, const float *init)
{
	struct tables *s = t->among;
	size_t *bound = AT(t)->bound, columns = t->rules.columns;
	struct opening o = {
		.rules = t->rules, .updater = t->rules.updater->kind, .init = init != NULL};
	size_t tensors = 0;
	const struct tensor *tensor = NULL;
	float any = 0;
	if (t->rules.pushes)
		tensor = pushes_tensors(t->rules.pushes, server, &tensors);
	o.coded = t->rules.pushes
			  ? 1 + pushes_pull(t, &(struct table_op){.pull = true, .out = &any})
			  : 0;
	o.tensors = (int64_t)tensors;
	link_send(s->everyone, s->size + server, (const float *)&o, sizeof o / sizeof(float));
	if (tensors)
		link_send(s->everyone, s->size + server, (const float *)(const void *)tensor,
			  tensors * sizeof *tensor / sizeof(float));
	if (init)
		link_send(s->everyone, s->size + server,
			  floats_at(t, init, bound[server] * columns),
			  (bound[server + 1] - bound[server]) * columns);
}

static void servers_open(struct table *t, const float *init)
{
	struct tables *s = t->among;
	size_t servers = (size_t)s->servers;
	struct client *c = t->at = must(calloc(1, sizeof *c));
	c->bound = must(calloc(servers + 1, sizeof *c->bound));
	for (size_t i = 0; i <= servers; i++)
		c->bound[i] = part_of(t->rules.rows, servers, i);
	for (int i = 0; i < SLOTS; i++)
		c->slot[i].subrequest = must(calloc(servers, sizeof(struct subrequest)));
	if (s->rank == 0)
		send_to_all(t, REQUEST_OPEN);
	link_wakeup_new(s->everyone);
	for (int i = 0; i < s->servers && s->rank == 0; i++)
		open_shard_on(t, i, init);
	link_barrier(s->workers);
}

/* The slot of an operation under way; NULL: a free one. */
static struct slot *slot_of(struct table *t, const struct table_op *p)
{
	struct slot *q = AT(t)->slot, *end = q + SLOTS;
	while (q < end && q->op != p)
		q++;
	CHECK(q < end, p ? "the operation is not under way" : "no free slot");
	return q;
}

static void *grown(void *p, size_t *room, size_t n, size_t size)
{
	if (n <= *room)
		return p;
	free(p);
	*room = n;
	return must(malloc(n * size));
}

/* Divides the operation's rows, and the floats that it pushes, into the servers' subrequests. A
 * sync's list may have a row only once: a second one would need what the first has pulled. */
static void shard_rows(struct table *t, struct slot *q, const struct table_op *p)
{
	size_t columns = t->rules.columns, room = q->row_room, k = 0;
	const float *from = op_has_in(p) ? p->in : p->out;
	q->row = grown(q->row, &room, p->rows, sizeof *q->row);
	q->place = grown(q->place, &q->row_room, p->rows, sizeof *q->place);
	if (!t->rules.lengths)
		q->stage = grown(q->stage, &q->stage_room, p->rows * columns, sizeof *q->stage);
	for (int s = 0; s < t->among->servers; s++) {
		size_t first = AT(t)->bound[s], end = AT(t)->bound[s + 1];
		q->subrequest[s].first = k * columns;
		for (size_t i = 0; i < p->rows; i++) {
			size_t row = (size_t)p->row[i];
			float *to = t->rules.lengths ? NULL : q->stage + k * columns;
			if (row < first || row >= end)
				continue;
			q->row[k] = (int64_t)(row - first);
			q->place[k++] = i;
			if (t->rules.lengths)
				continue;
			if (p->kind == OP_SYNC)
				table_change(to, from + i * columns, t->pulled + row * columns, 1,
					     columns);
			else if (op_pushes(p))
				memcpy(to, from + i * columns, columns * sizeof *to);
		}
		q->subrequest[s].n = k * columns - q->subrequest[s].first;
	}
}

/* The floats to send, in the order of the subrequests. */
static const float *floats_to_send(struct table *t, struct slot *q, const struct table_op *p,
				   bool replace)
{
	if (p->row) {
		shard_rows(t, q, p);
		return q->stage;
	}
	for (int s = 0; s < t->among->servers; s++) {
		q->subrequest[s].first = AT(t)->bound[s] * t->rules.columns;
		q->subrequest[s].n =
			AT(t)->bound[s + 1] * t->rules.columns - q->subrequest[s].first;
	}
	if (t->rules.lengths)
		return link_nowhere();
	if (p->kind == OP_SYNC && !replace) /* a pull overwrites pulled before it is read again */
		table_change(t->pulled, p->out, t->pulled, 1, t->n);
	return op_has_in(p) ? p->in : p->kind == OP_SYNC && !replace ? t->pulled : p->out;
}

static void start_subrequest(struct table *t, struct slot *q, int s, struct table_request a,
			     const float *from)
{
	struct link *l = t->among->everyone;
	struct subrequest *g = &q->subrequest[s];
	int server = t->among->size + s;
	bool pushes = q->op->kind != OP_READ;
	g->asked = g->listed = g->sent = g->got = -1;
	g->replied = false;
	g->over = a.what == REQUEST_OP && !pushes && g->n == 0;
	if (g->over)
		return;
	a.worker = t->among->rank;
	a.in = pushes ? (int64_t)g->n : 0;
	a.out = q->op->out ? (int64_t)g->n : 0;
	if (q->op->row)
		a.rows = (int64_t)(g->n / t->rules.columns);
	g->awaited =
		link_recv_start(l, server, reply_tag(t->id, a.slot), &g->reply, sizeof g->reply);
	size_t first = g->first, words = g->n;
	if (a.in > 0 && q->op->message) {
		from = q->op->message;
		words = pushes_words(t->rules.pushes, WAY_PUSH, s, &first);
		a.words = (int64_t)words;
		a.common = pushes_common(t->rules.pushes);
	}
	if (a.out > 0 && pushes_pull(t, q->op))
		a.pull = PULL_CODED;
	a.number = t->among->asked[s]++;
	g->request = a;
	g->asked = link_send_start(l, server, TAG_REQUEST, &g->request, sizeof g->request);
	if (a.rows > 0)
		g->listed =
			link_send_start(l, server, TAG_BODY, q->row + g->first / t->rules.columns,
					(size_t)a.rows * sizeof *q->row);
	if (a.in > 0)
		g->sent = link_send_start(l, server, TAG_BODY, floats_at(t, from, first),
					  words * sizeof(float));
	link_wake(l, server);
}

/* True: this server has done its part. */
static bool advance_subrequest(struct table *t, struct slot *q, int s)
{
	struct link *l = t->among->everyone;
	struct subrequest *g = &q->subrequest[s];
	float *back = q->op->row ? q->stage : q->op->out;
	size_t first = g->first, words = g->n;
	if (g->over || (!g->replied && !link_test(l, &g->awaited)))
		return g->over;
	if (g->request.pull == PULL_CODED) {
		back = pushes_reply(t->rules.pushes);
		words = pushes_words(t->rules.pushes, WAY_PULL, s, &first);
	}
	if (!g->replied && q->op->out && g->n > 0 && g->reply.away < 0)
		g->got = link_recv_start(
			l, t->among->size + s, reply_tag(t->id, (int)(q - AT(t)->slot)),
			(float *)(uintptr_t)floats_at(t, back, first), words * sizeof *back);
	g->replied = true;
	return g->over = link_test(l, &g->asked) & link_test(l, &g->listed) &
			 link_test(l, &g->sent) & link_test(l, &g->got);
}

/* Where MPI moves long messages in pieces, both ends have to poll: an end that finds an unfinished
 * message wakes the other. */
static void nudge_servers(struct table *t, struct slot *q)
{
	struct link *l = t->among->everyone;
	for (int s = 0; s < t->among->servers; s++) {
		struct subrequest *g = &q->subrequest[s];
		if (!g->over && (g->replied || !link_test(l, &g->sent) || !link_test(l, &g->asked)))
			link_wake(l, t->among->size + s);
	}
}

static bool advance_subrequests(struct table *t, struct slot *q)
{
	bool over = true;
	for (int s = 0; s < t->among->servers; s++)
		over &= advance_subrequest(t, q, s);
	return over;
}

/* Waits until all servers have replied. */
static void wait_for_replies(struct table *t, struct slot *q)
{
	struct link *l = t->among->everyone;
	nsec since = clock_now(), deferred = 0, nap = 0;
	int latest = -1;
	while (!advance_subrequests(t, q)) {
		if (link_progress(l)) {
			nap = 0;
			continue;
		}
		if (nap)
			nudge_servers(t, q);
		link_sleep(l, &nap, 0);
	}
	for (int s = 0; s < t->among->servers; s++)
		if (q->subrequest[s].replied && q->subrequest[s].reply.deferred > deferred) {
			deferred = q->subrequest[s].reply.deferred;
			latest = q->subrequest[s].reply.latest;
		}
	nsec now = clock_now(), took = now - since;
	deferred = deferred < took ? deferred : took;
	t->among->stats->wait += deferred;
	traced(t->among->stats, TRACE_RECV, since, now, -1);
	if (deferred > 0) /* the request's transfer is before it, the reply's after */
		traced(t->among->stats, TRACE_WAIT, since, since + deferred, latest);
}

static void record_subrequest(struct table *t, const struct table_op *p,
			      const struct table_reply *a, int s)
{
	struct table_op push = *p, read = {.kind = OP_READ, .pull = true};
	push.dropped = a->dropped;
	if (op_pushes(p) && (t->rules.rounds || a->read_seq >= 0))
		push.read_later = true; /* the pull was a separate operation */
	if (op_pushes(p) || p->pull)
		table_arrived(t, &push, s, a->seq);
	if (a->read_seq >= 0)
		table_arrived(t, &read, s, a->read_seq);
}

/* Copies the received floats to where the operation and the table need them. */
static void keep_floats(struct table *t, const struct slot *q)
{
	const struct table_op *p = q->op;
	size_t columns = t->rules.columns;
	bool staged = p->out && p->row && !t->rules.lengths;
	if (pushes_pull(t, p))
		pushes_decode(t->rules.pushes, p->out);
	for (size_t k = 0; staged && k < p->rows; k++)
		memcpy(p->out + q->place[k] * columns, q->stage + k * columns,
		       columns * sizeof *p->out);
	if (p->pull && p->out && t->pulled && t->rules.syncs && p->kind != OP_ELASTIC)
		op_pulled(t, p);
}

static void finish(struct table *t, struct slot *q)
{
	struct table_op *p = q->op;
	/* The first reply; if there are replies with floats, the first of those, as they are
	 * recorded. */
	const struct subrequest *said = NULL;
	wait_for_replies(t, q);
	for (int s = 0; s < t->among->servers; s++) {
		const struct table_reply *a = &q->subrequest[s].reply;
		if (!q->subrequest[s].replied)
			continue;
		if (!said || (said->n == 0 && q->subrequest[s].n > 0))
			said = &q->subrequest[s];
		if (t->among->room && q->subrequest[s].n > 0)
			record_subrequest(t, p, a, s);
		if (a->away >= 0 && !q->wrong)
			q->wrong = table_incomplete(t, a->away, a->away_pushes);
	}
	if (said) {
		p->staleness = said->reply.staleness;
		p->dropped = said->reply.dropped;
	}
	if (!q->wrong)
		keep_floats(t, q);
	q->done = true;
}

static void finish_all(struct table *t)
{
	for (int i = 0; i < SLOTS; i++)
		if (AT(t)->slot[i].op && !AT(t)->slot[i].done)
			finish(t, &AT(t)->slot[i]);
}

/* The only worker has seen all of W: what it sends with scale 1 is the new W. */
static bool may_replace(const struct table *t, const struct table_op *p)
{
	return p->kind == OP_SYNC && t->among->size == 1 && p->by.scale == 1 && !p->row &&
	       !AT(t)->unseen;
}

/* A sync waits for the operations before it, because it needs what they pull. */
static char *servers_start(struct table *t, struct table_op *p)
{
	struct client *c = AT(t);
	struct slot *q = slot_of(t, NULL);
	if (p->kind == OP_SYNC)
		finish_all(t);
	bool replace = may_replace(t, p), pulls = p->pull && p->kind != OP_ELASTIC;
	q->op = p;
	q->done = false;
	p->flow = 0;
	if (op_pushes(p) && !t->rules.counter)
		p->flow = (int64_t)(t->among->rank + 1) << 24 | (t->pushes & 0xffffff);
	c->unseen = (c->unseen && (p->row || !pulls)) || (op_pushes(p) && !pulls);
	struct stats *stats = t->among->stats;
	nsec since = stats->trace ? clock_peek() : 0;
	const float *from = floats_to_send(t, q, p, replace);
	nsec packed = stats->trace ? clock_peek() : 0;
	traced(stats, TRACE_PACK, since, packed, -1);
	struct table_request a = {.what = REQUEST_OP,
				  .table = t->id,
				  .slot = (int32_t)(q - c->slot),
				  .kind = p->kind,
				  .kept = p->kept,
				  .pull = p->pull,
				  .replace = replace,
				  .rows = -1,
				  .by = p->by};
	if (stats->trace && !t->rules.counter) {
		trace_of(stats->trace, &a.epoch, &a.step);
		a.flow = p->flow ? (int64_t)t->id << 40 | p->flow : 0;
	}
	for (int s = 0; s < t->among->servers; s++)
		start_subrequest(t, q, s, a, from);
	traced(stats, TRACE_SEND, packed, stats->trace ? clock_peek() : 0, -1);
	return NULL;
}

static char *servers_wait(struct table *t, struct table_op *p)
{
	struct slot *q = slot_of(t, p);
	if (!q->done)
		finish(t, q);
	char *wrong = q->wrong;
	q->wrong = NULL;
	q->op = NULL;
	return wrong;
}

/* Sends a request without floats to all servers and awaits the replies, in the last slot. */
static void request_plainly(struct table *t, enum request_kind what)
{
	const struct table_request a = {.what = what, .table = t->id, .slot = TICKETS_MAX};
	struct slot *q = &AT(t)->slot[TICKETS_MAX];
	struct table_op none = {.kind = OP_READ};
	CHECK(!q->op, "more than %d operations under way", TICKETS_MAX);
	q->op = &none;
	for (int s = 0; s < t->among->servers; s++)
		start_subrequest(t, q, s, a, NULL);
	wait_for_replies(t, q);
	world_leave();
	q->op = NULL;
}

static int64_t servers_version(struct table *t)
{
	request_plainly(t, REQUEST_VERSION);
	return AT(t)->slot[TICKETS_MAX].subrequest[0].reply.version;
}

/* Transferred like any other operation, but servers do not count it. */
static void servers_keep(struct table *t, enum keeps what, float *x, bool put)
{
	struct table_op p = {.kind = put ? OP_PUSH : OP_READ,
			     .kept = what,
			     .in = put ? x : NULL,
			     .out = put ? NULL : x};
	servers_start(t, &p);
	char *wrong = servers_wait(t, &p);
	world_leave();
	CHECK(!wrong, "%s", wrong);
}

static void servers_leave(struct table *t, enum leaving how)
{
	send_to_all(t, how == AWAY ? REQUEST_FLUSH : how == BACK ? REQUEST_RESUME : REQUEST_LEAVE);
}

/* Servers reply when all workers have called this. */
static void servers_close(struct table *t)
{
	struct client *c = AT(t);
	finish_all(t);
	request_plainly(t, REQUEST_CLOSE);
	for (int i = 0; i < SLOTS; i++) {
		struct slot *q = &c->slot[i];
		free(q->subrequest);
		free(q->row);
		free(q->place);
		free(q->stage);
		free(q->wrong);
	}
	free(c->bound);
	free(c);
}

/* From rank 0 to each server; in any order with workers' other requests. */
static void tell_servers(struct link *everyone, int workers, enum request_kind what)
{
	for (int s = workers; s < link_size(everyone) && link_rank(everyone) == 0; s++)
		send_request(everyone, s, (struct table_request){.what = what, .number = -1});
}

void servers_dismiss(struct link *everyone, int workers)
{
	tell_servers(everyone, workers, REQUEST_DISMISS);
	link_wakeup_free(everyone);
}

void servers_events(struct link *everyone, int workers)
{
	tell_servers(everyone, workers, REQUEST_EVENTS);
}

const struct placement placement_servers = {
	.name = "servers",
	.on_servers = true,
	.keeps_own = true,
	.keeps_order = true,
	.open = servers_open,
	.close = servers_close,
	.start = servers_start,
	.wait = servers_wait,
	.version = servers_version,
	.keep = servers_keep,
	.leave = servers_leave,
};
