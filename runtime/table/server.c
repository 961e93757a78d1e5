/*
 * server.c - the life of a rank that only serves tables: it handles the requests of wire.h, each
 * worker's in the order in which they came, until worker 0 lets it go.
 *
 * Rounds: pushes are added to W as they come; a copy of W as of the last round's end is what is
 * read, and it stays until nobody is being sent it any more.
 * In a replay a request waits until it is due in the record; what the server numbers (shard.seq)
 * takes place in the record's order.
 *
 * Memory: W and what the updater keeps, of which own and pulled once a worker; and as many buffers
 * of a shard's size as there are workers, made when the table is opened. Only tickets and lists of
 * rows that are larger than any before make more: a worker may have TICKETS_MAX operations under
 * way, and each holds a buffer on its servers. Who has nothing to do sleeps (link_sleep).
 */
#include "runtime/table/buffers.h"
#include "runtime/table/rounds.h"
#include "runtime/table/wire.h"

#include <stdlib.h>
#include <string.h>

/* What a shard keeps of a worker. */
struct client {
	int64_t seen;        /* version at its last pull */
	float *own, *pulled; /* [n], NULL when the updater reads none */
};

struct shard {
	struct table_rules rules;
	size_t n; /* floats */
	float *w, *state;
	struct buffer *model; /* with rounds: W as of the last round's end */
	struct client *client;
	int64_t version, seq;
	struct round now;
	struct rounds rounds;         /* on now, and on members of its own */
	struct transaction *deferred; /* replies that wait, oldest first */
	struct replay_cursor cursor;  /* of a replay: seq is the next one */
};

/* An operation on a server. */
struct transaction {
	struct transaction *next; /* of the shard's deferred, or the server's */
	struct table_request request;
	struct table_reply reply;
	int worker;
	struct buffer *rows, *data;
	int listed, moved;     /* of the link: requests under way */
	int64_t round, pushes; /* of its push */
	nsec since;            /* deferred since */
};

/* A worker: its request, and the operation whose floats are coming. */
struct connection {
	struct table_request request;
	int incoming;
	struct transaction *transaction;
};

struct server {
	struct link *link;
	int rank, workers;             /* rank: among the servers */
	struct connection *connection; /* [workers] */
	struct shard *shard[TABLES_MAX];
	struct buffers buffers; /* its lengths: tables have no floats */
	struct transaction *sending, *idle;
	bool over;
	const struct recording *replay; /* NULL = requests are handled as they come */
	bool again;                     /* somebody's turn may have come */
	struct trace *trace;            /* NULL = no timeline is kept */
	int latest;                     /* worker whose request is at hand */
};

static struct transaction *transaction_new(struct server *v, int worker,
					   const struct table_request *a)
{
	struct transaction *j = v->idle ? v->idle : must(malloc(sizeof *j));
	if (v->idle)
		v->idle = j->next;
	*j = (struct transaction){.request = *a,
				  .reply = {.seq = -1, .read_seq = -1, .away = -1},
				  .worker = worker,
				  .listed = -1,
				  .moved = -1};
	return j;
}

static void transaction_free(struct server *v, struct transaction *j)
{
	buffer_drop(&v->buffers, &j->rows);
	buffer_drop(&v->buffers, &j->data);
	j->next = v->idle;
	v->idle = j;
}

/* Sends the reply, and of data what is wanted; the transaction is gone when that has left. */
static void send_reply(struct server *v, struct transaction *j)
{
	int tag = reply_tag(j->request.table, j->request.slot);
	link_send_eager(v->link, j->worker, tag, &j->reply, sizeof j->reply);
	if (j->request.out > 0 && j->reply.away < 0) {
		j->moved = link_send_start(v->link, j->worker, tag, j->data->x,
					   (size_t)j->request.out * sizeof(float));
		j->next = v->sending;
		v->sending = j;
	} else {
		transaction_free(v, j);
	}
	link_wake(v->link, j->worker);
}

/* In rounds, what is read from now on: W as it is. */
static void renew_model(struct server *v, struct shard *t)
{
	buffer_drop(&v->buffers, &t->model);
	t->model = buffer_take(&v->buffers, t->n);
	if (!t->rules.lengths)
		memcpy(t->model->x, t->w, t->n * sizeof(float));
}

/* ---- Opening and closing ---- */

/* [n] of the shard, if they are wanted, and there are floats at all. */
static float *zeros(const struct shard *t, bool wanted)
{
	return wanted && !t->rules.lengths ? must(calloc(t->n + 1, sizeof(float))) : NULL;
}

static void open_shard(struct server *v, int table)
{
	struct opening o;
	struct shard *t = v->shard[table] = must(calloc(1, sizeof *t));
	link_wakeup_new(v->link);
	link_recv(v->link, 0, (float *)&o, sizeof o / sizeof(float));
	t->rules = o.rules;
	t->rules.updater = updaters[o.updater];
	size_t all = o.rules.rows, rank = (size_t)v->rank;
	size_t servers = (size_t)(link_size(v->link) - v->workers);
	t->rules.rows = part_of(all, servers, rank + 1) - part_of(all, servers, rank);
	t->n = t->rules.rows * t->rules.columns;
	if (t->n > 0) /* else nothing is recorded */
		t->cursor = replay_cursor(v->replay, table, v->rank);
	v->buffers.lengths = o.rules.lengths;
	t->w = o.rules.lengths ? link_nowhere() : zeros(t, true);
	t->state = zeros(t, t->rules.updater->state);
	t->client = must(calloc((size_t)v->workers, sizeof *t->client));
	t->rounds =
		(struct rounds){.now = &t->now,
				.member = must(calloc((size_t)v->workers, sizeof(struct member))),
				.size = v->workers,
				.backup = o.rules.backup,
				.lead = o.rules.lead};
	if (o.init)
		link_recv(v->link, 0, t->w, t->n);
	for (int k = 0; k < v->workers; k++) {
		struct client *m = &t->client[k];
		m->own = zeros(t, t->rules.updater->own);
		m->pulled = zeros(t, t->rules.updater->pulled);
		if (m->pulled)
			memcpy(m->pulled, t->w, t->n * sizeof(float));
	}
	/* one for each worker, and for models of rounds that are still being sent */
	buffers_fill(&v->buffers, t->n, v->workers + (t->rules.rounds ? 2 : 0));
	if (t->rules.rounds)
		renew_model(v, t);
}

static void free_shard(struct server *v, int table)
{
	struct shard *t = v->shard[table];
	if (!t)
		return;
	buffer_drop(&v->buffers, &t->model);
	for (int k = 0; k < v->workers; k++) {
		free(t->client[k].own);
		free(t->client[k].pulled);
	}
	free(t->client);
	free(t->rounds.member);
	if (!v->buffers.lengths)
		free(t->w);
	free(t->state);
	free(t);
	v->shard[table] = NULL;
}

/* When all have come: a table's last replies. */
static void close_if_all(struct server *v, int table)
{
	struct table_request a = {.table = table, .slot = TICKETS_MAX};
	for (int k = 0; k < v->workers; k++)
		if (v->shard[table]->rounds.member[k].barriers < MEMBER_GONE)
			return;
	free_shard(v, table);
	for (int k = 0; k < v->workers; k++)
		send_reply(v, transaction_new(v, k, &a));
}

/* ---- Floats ---- */

/* Piece i of a transaction's floats, as op_piece; the whole shard goes in blocks that stay in the
 * cache. False: there are no more. */
static bool piece(const struct shard *t, const struct transaction *j, size_t i, size_t *first,
		  size_t *n, size_t *offset)
{
	enum { BLOCK = 8192 };
	if (t->rules.lengths)
		return false;
	if (j->request.rows < 0) {
		*first = *offset = i * BLOCK;
		*n = *first < t->n ? smaller(BLOCK, t->n - *first) : 0;
		return *n > 0;
	}
	if (i >= (size_t)j->request.rows)
		return false;
	*n = t->rules.columns;
	*first = (size_t)((const int64_t *)(const void *)j->rows->x)[i] * *n;
	*offset = i * *n;
	return true;
}

/* In the timeline, what a server does belongs to the step of the worker that it does it for. */
static void note(struct server *v, enum trace_kind kind, const struct transaction *j, nsec since)
{
	if (!v->trace || j->request.epoch == 0)
		return;
	struct slice *e = trace_add(v->trace, kind, since, clock_peek());
	e->epoch = j->request.epoch;
	e->step = j->request.step;
	e->peer = j->worker;
	e->flow = kind == TRACE_APPLY ? j->request.flow : 0;
	e->bytes = kind == TRACE_APPLY ? -1 : j->request.out * (int64_t)sizeof(float);
}

/* The push; with `read`, data is then what is pulled. */
static void apply(struct server *v, struct shard *t, struct transaction *j, bool read)
{
	const struct table_rules adding = {.updater = updaters[UPDATER_add]};
	struct client *m = &t->client[j->worker];
	bool sync = j->request.kind == OP_SYNC;
	struct table_op p = {.kind = sync ? OP_PUSH : j->request.kind,
			     .pull = j->request.pull,
			     .by = j->request.by,
			     .staleness = j->reply.staleness};
	size_t first, n, offset;
	nsec since = v->trace ? clock_peek() : 0;
	if (j->request.in == 0)
		return;
	read = (read && j->request.out > 0) || p.kind == OP_ELASTIC;
	for (size_t i = 0; piece(t, j, i, &first, &n, &offset); i++) {
		float *w = t->w + first, *x = j->data->x + offset, *out = read ? x : NULL;
		if (j->request.replace) {
			memcpy(w, x, n * sizeof *w);
			if (m->pulled)
				memcpy(m->pulled + first, x, n * sizeof *w);
			continue;
		}
		table_apply(sync ? &adding : &t->rules, &p, w, part(t->state, first),
			    part(m->own, first), part(m->pulled, first), x, out, n);
	}
	world_charge_op(&p, (size_t)j->request.in, false);
	note(v, TRACE_APPLY, j, since);
}

/* Makes data what the worker is to see, and counts it as its pull. */
static void read_model(struct server *v, struct shard *t, struct transaction *j)
{
	struct client *m = &t->client[j->worker];
	float *from = t->rules.rounds ? t->model->x : t->w;
	size_t first, n, offset;
	nsec since = v->trace ? clock_peek() : 0;
	if (j->request.pull)
		m->seen = t->version;
	if (j->request.out == 0)
		return;
	bool copy = !t->rules.rounds || j->request.rows >= 0;
	if (!copy) {
		buffer_drop(&v->buffers, &j->data);
		j->data = t->model;
		t->model->users++;
	} else if (!j->data) {
		j->data = buffer_take(&v->buffers, (size_t)j->request.out);
	}
	for (size_t i = 0; piece(t, j, i, &first, &n, &offset); i++) {
		if (copy)
			memcpy(j->data->x + offset, from + first, n * sizeof *from);
		if (j->request.pull && m->pulled)
			memcpy(m->pulled + first, from + first, n * sizeof *from);
	}
	world_charge_op(&(struct table_op){.kind = OP_READ}, (size_t)j->request.out, false);
	note(v, TRACE_PULL, j, since);
}

/* ---- Rounds and leads ---- */

/* Is this push's round over, can it be ended, or will it never be? */
static bool round_is_over(struct server *v, struct shard *t, struct transaction *j)
{
	int away;
	if (j->reply.dropped)
		return true;
	enum round_fate fate = rounds_fate(&t->rounds, j->round, j->worker, &away);
	if (fate == ROUND_FULL) {
		renew_model(v, t);
		rounds_end(&t->rounds);
	} else if (fate == ROUND_INCOMPLETE) {
		j->reply.away = away;
		j->reply.away_pushes = t->rounds.member[away].pushes;
	}
	return fate != ROUND_OPEN;
}

/* In a replay: is what transaction j does next, its push or its pull, the next of the record? */
static bool is_due(const struct shard *t, const struct transaction *j, enum op_kind kind)
{
	float out = 0; /* a place that nothing is written to */
	struct table_op p = {.kind = kind, .out = j->request.out > 0 ? &out : NULL};
	if (!t->cursor.arrival || (kind == OP_READ && !j->request.pull) ||
	    replay_due(&t->cursor, t->seq, j->worker, &t->rules, &p))
		return true;
	if (rounds_away(&t->rounds, t->cursor.arrival[t->seq].worker, j->worker))
		replay_stuck(&t->cursor, t->seq, j->worker);
	return false;
}

static void release(struct server *v, struct shard *t, struct transaction *j)
{
	j->reply.deferred = clock_now() - j->since;
	j->reply.latest = v->latest;
	if (j->reply.away < 0) {
		t->rounds.member[j->worker].in = t->now.over;
		if (j->request.pull)
			j->reply.read_seq = t->seq++;
		read_model(v, t, j);
	}
	send_reply(v, j);
}

/* After whatever may end a wait. */
static void look_at_deferred(struct server *v, struct shard *t)
{
	struct transaction **at = &t->deferred;
	while (*at) {
		struct transaction *j = *at;
		int64_t round = t->now.over, seq = t->seq;
		bool over = t->rules.rounds ? round_is_over(v, t, j)
					    : !rounds_leads(&t->rounds, j->worker, j->pushes);
		if (over && (j->reply.away >= 0 || is_due(t, j, OP_READ))) {
			*at = j->next;
			release(v, t, j);
		} else {
			at = &j->next;
		}
		if (t->now.over != round || (t->cursor.arrival && t->seq != seq))
			at = &t->deferred;
	}
}

static void defer(struct shard *t, struct transaction *j)
{
	struct transaction **at = &t->deferred;
	while (*at)
		at = &(*at)->next;
	*at = j;
	j->next = NULL;
	j->since = clock_now();
}

/* ---- Operations ---- */

static void push_in_round(struct server *v, struct shard *t, struct transaction *j)
{
	bool late = rounds_late(&t->rounds, j->worker);
	j->reply.dropped = replay_drops(&t->cursor, j->reply.seq, late);
	j->round = rounds_push(&t->rounds, j->worker, !j->reply.dropped);
	if (!j->reply.dropped) {
		apply(v, t, j, false);
		t->now.applied++;
	}
	buffer_drop(&v->buffers, &j->data);
	defer(t, j);
	look_at_deferred(v, t);
}

static void push(struct server *v, struct shard *t, struct transaction *j)
{
	struct client *m = &t->client[j->worker];
	j->reply.staleness = t->rules.rounds ? 0 : t->version - m->seen;
	j->reply.seq = t->seq++;
	j->pushes = ++t->rounds.member[j->worker].pushes;
	t->version++;
	m->seen++; /* its own */
	if (t->rules.rounds) {
		push_in_round(v, t, j);
		return;
	}
	bool too_far =
		t->rules.bounded &&
		(t->cursor.arrival ? strcmp(replay_kind(&t->cursor, j->reply.seq), "push") == 0
				   : rounds_leads(&t->rounds, j->worker, j->pushes));
	apply(v, t, j, !too_far);
	if (too_far) {
		defer(t, j);
	} else {
		if (j->request.pull)
			m->seen = t->version;
		send_reply(v, j);
	}
	if (t->rules.bounded)
		look_at_deferred(v, t);
}

static void read_op(struct server *v, struct shard *t, struct transaction *j)
{
	if (j->request.pull) { /* a look goes into no round */
		t->rounds.member[j->worker].in = t->now.over;
		j->reply.seq = t->seq++;
	}
	read_model(v, t, j);
	send_reply(v, j);
}

/* Floats and rows of worker k's operation may come. */
static void start_op(struct server *v, int k)
{
	struct transaction *j = v->connection[k].transaction =
		transaction_new(v, k, &v->connection[k].request);
	size_t rows = j->request.rows > 0 ? (size_t)j->request.rows : 0, in = (size_t)j->request.in;
	if (rows) {
		j->rows = buffer_take(&v->buffers, rows * sizeof(int64_t) / sizeof(float));
		j->listed = link_recv_start(v->link, j->worker, TAG_BODY, j->rows->x,
					    rows * sizeof(int64_t));
	}
	if (in) {
		j->data = buffer_take(&v->buffers, in);
		j->moved = link_recv_start(v->link, j->worker, TAG_BODY, j->data->x,
					   in * sizeof(float));
	}
}

/* ---- Requests ----- */

static void expect_request(struct server *v, int k)
{
	struct connection *c = &v->connection[k];
	c->incoming = link_recv_start(v->link, k, TAG_REQUEST, &c->request, sizeof c->request);
}

/* All but operations. */
static void handle(struct server *v, int k)
{
	struct table_request *a = &v->connection[k].request;
	struct shard *t = v->shard[a->table];
	struct transaction *j;
	switch (a->what) {
	case REQUEST_OPEN:
		open_shard(v, a->table);
		return;
	case REQUEST_VERSION:
		j = transaction_new(v, k, a);
		j->reply.version = t->version;
		send_reply(v, j);
		return;
	case REQUEST_FLUSH:
		t->rounds.member[k].barriers++;
		look_at_deferred(v, t);
		v->again |= t->cursor.arrival != NULL;
		return;
	case REQUEST_RESUME:
		rounds_resume(&t->rounds, k);
		return;
	case REQUEST_CLOSE:
		t->rounds.member[k].barriers = MEMBER_GONE;
		look_at_deferred(v, t);
		close_if_all(v, a->table);
		return;
	case REQUEST_EVENTS:
		trace_settle(v->trace, NULL);
		trace_send(v->trace, v->link, 0);
		return;
	case REQUEST_DISMISS:
		v->over = true;
		return;
	case REQUEST_OP:
		break;
	}
}

static void do_op(struct server *v, int k)
{
	struct transaction *j = v->connection[k].transaction;
	struct shard *t = v->shard[j->request.table];
	v->connection[k].transaction = NULL;
	if (j->request.kind == OP_READ)
		read_op(v, t, j);
	else
		push(v, t, j);
	if (t->cursor.arrival)
		look_at_deferred(v, t);
	v->again |= t->cursor.arrival != NULL;
}

/* Takes the next step with worker k's request. */
static void advance_connection(struct server *v, int k)
{
	struct connection *c = &v->connection[k];
	v->latest = k;
	if (!c->transaction) {
		if (!link_test(v->link, &c->incoming))
			return;
		if (c->request.what == REQUEST_OP)
			start_op(v, k);
		else
			handle(v, k);
	}
	if (c->transaction) {
		if (!link_test(v->link, &c->transaction->listed) |
		    !link_test(v->link, &c->transaction->moved))
			return;
		if (!is_due(v->shard[c->request.table], c->transaction, c->request.kind))
			return;
		do_op(v, k);
	}
	expect_request(v, k);
}

static void advance_sending(struct server *v)
{
	for (struct transaction **at = &v->sending; *at;) {
		struct transaction *j = *at;
		if (link_test(v->link, &j->moved)) {
			*at = j->next;
			transaction_free(v, j);
		} else {
			at = &j->next;
		}
	}
}

/* As nudge_servers in servers.c. */
static void nudge_workers(struct server *v)
{
	for (int k = 0; k < v->workers; k++)
		if (v->connection[k].transaction)
			link_wake(v->link, k);
	for (struct transaction *j = v->sending; j; j = j->next)
		link_wake(v->link, j->worker);
}

/* Replies that nobody has fetched within a second belong to a run that ends early. */
static void shut_down(struct server *v)
{
	nsec since = clock_now(), nap = 0;
	for (; v->sending && clock_now() - since < 1000000000; advance_sending(v))
		if (!link_progress(v->link))
			link_sleep(v->link, &nap);
	for (int k = 0; k < v->workers; k++)
		link_cancel(v->link, &v->connection[k].incoming);
	link_wakeup_free(v->link);
	for (int i = 0; i < TABLES_MAX; i++)
		free_shard(v, i);
	buffers_free(&v->buffers);
	for (struct transaction *j = v->idle, *next; j; j = next) {
		next = j->next;
		free(j);
	}
	free(v->connection);
	free(v);
}

void tables_serve(struct link *everyone, int rank, int workers, const struct recording *replay,
		  struct trace *trace)
{
	struct server *v = must(calloc(1, sizeof *v));
	nsec nap = 0;
	*v = (struct server){.link = everyone,
			     .rank = rank - workers,
			     .workers = workers,
			     .replay = replay,
			     .trace = trace};
	v->connection = must(calloc((size_t)workers, sizeof *v->connection));
	for (int k = 0; k < workers; k++)
		expect_request(v, k);
	while (!v->over) {
		if (!link_progress(everyone)) {
			if (nap)
				nudge_workers(v);
			link_sleep(everyone, &nap);
			continue;
		}
		nap = 0;
		do {
			v->again = false;
			for (int k = 0; k < workers && !v->over; k++)
				advance_connection(v, k);
		} while (v->again && !v->over);
		advance_sending(v);
	}
	shut_down(v);
}
