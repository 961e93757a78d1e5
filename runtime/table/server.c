/*
 * table_serve.c - the life of a rank that only serves tables: it handles the requests of
 * table_mail.h, each worker's in the order in which they came, until worker 0 lets it go.
 *
 * Rounds: pushes are added to W as they come; a copy of W as of the last round's end is what is
 * read, and it stays until nobody is being sent it any more.
 *
 * In a replay a request waits until it is due in the record; what the server numbers (shard.seq)
 * takes place in the record's order.
 *
 * Memory: W and what the updater keeps, of which own and pulled once a worker; and as many buffers
 * of a shard's size as there are workers, made when the table is opened. Only tickets and lists of
 * rows that are larger than any before make more: a worker may have TICKETS_MAX operations under
 * way, and each holds a buffer on its servers. Who has nothing to do sleeps (link_sleep).
 */
#include "runtime/table/wire.h"

#include <stdlib.h>
#include <string.h>

/* Floats that come or go. users: transactions, and the shard whose model it is. */
struct buffer {
	struct buffer *next; /* of the spare ones */
	size_t room;
	int users;
	float *x;
};

/* What a shard knows of a worker. */
struct member {
	int64_t pushes, seen;
	int64_t round;            /* that it is in */
	int64_t last;             /* round of its last push, -1 = none yet */
	int64_t barriers, passed; /* that it has come to, and left */
	float *own, *pulled;      /* [n], NULL when the updater reads none */
	bool closed;
};

struct shard {
	struct table_rules rules;
	size_t n; /* floats */
	float *w, *state;
	struct buffer *model; /* with rounds: W as of the last round's end */
	struct member *member;
	int64_t version, seq;
	int64_t round, counted;       /* rounds that are over; pushes of this one */
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
	int rank, workers, servers;    /* rank: among the servers */
	struct connection *connection; /* [workers] */
	struct shard *shard[TABLES_MAX];
	struct buffer *spare;
	struct transaction *sending, *idle;
	bool lengths; /* tables have no floats */
	bool over;
	const struct recording *replay; /* NULL = requests are handled as they come */
	bool again;                     /* somebody's turn may have come */
	struct trace *trace;            /* NULL = no timeline is kept */
	int latest;                     /* worker whose request is at hand */
};

static struct buffer *buffer_new(const struct server *v, size_t room)
{
	struct buffer *b = must(calloc(1, sizeof *b));
	b->room = room;
	if (v->lengths) {
		b->x = link_nowhere();
		return b;
	}
	b->x = must(aligned_alloc(64, (room * sizeof(float) + 127) & ~(size_t)63));
	memset(b->x, 0, room * sizeof(float)); /* so that its pages are there */
	return b;
}

/* The smallest that is large enough. */
static struct buffer *buffer_take(struct server *v, size_t n)
{
	struct buffer **best = NULL, *b;
	for (struct buffer **at = &v->spare; *at; at = &(*at)->next)
		if ((*at)->room >= n && (!best || (*at)->room < (*best)->room))
			best = at;
	if (best) {
		b = *best;
		*best = b->next;
	} else {
		b = buffer_new(v, n);
	}
	b->users = 1;
	return b;
}

static void buffer_drop(struct server *v, struct buffer **b)
{
	if (*b && --(*b)->users == 0) {
		(*b)->next = v->spare;
		v->spare = *b;
	}
	*b = NULL;
}

/* One for each worker, and for models of rounds that are still being sent. */
static void make_buffers(struct server *v, const struct shard *t)
{
	int wanted = v->workers + (t->rules.rounds ? 2 : 0);
	for (struct buffer *b = v->spare; b; b = b->next)
		wanted -= b->room >= t->n;
	for (; wanted > 0; wanted--) {
		struct buffer *b = buffer_new(v, t->n);
		b->next = v->spare;
		v->spare = b;
	}
}

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
	buffer_drop(v, &j->rows);
	buffer_drop(v, &j->data);
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

static void copy_shard(const struct shard *t, struct buffer *b)
{
	if (!t->rules.lengths)
		memcpy(b->x, t->w, t->n * sizeof(float));
}

/* ---- Opening and closing ---- */

static void open_shard(struct server *v, int table)
{
	struct opening o;
	struct shard *t = v->shard[table] = must(calloc(1, sizeof *t));
	v->servers = link_size(v->link) - v->workers;
	link_wakeup_new(v->link);
	link_recv(v->link, 0, (float *)&o, sizeof o / sizeof(float));
	t->rules = (struct table_rules){.columns = (size_t)o.columns,
					.updater = updaters[o.updater],
					.rounds = o.rounds,
					.backup = o.backup,
					.bounded = o.bounded,
					.lead = o.lead,
					.lengths = o.lengths};
	size_t all = (size_t)o.rows, servers = (size_t)v->servers, rank = (size_t)v->rank;
	t->rules.rows = part_of(all, servers, rank + 1) - part_of(all, servers, rank);
	t->n = t->rules.rows * t->rules.columns;
	if (t->n > 0) /* else nothing is recorded */
		t->cursor = replay_cursor(v->replay, table, v->rank);
	v->lengths = o.lengths;
	t->w = v->lengths ? link_nowhere() : must(calloc(t->n + 1, sizeof(float)));
	t->state = !v->lengths && t->rules.updater->state ? must(calloc(t->n + 1, sizeof(float)))
							  : NULL;
	t->member = must(calloc((size_t)v->workers, sizeof *t->member));
	if (o.init)
		link_recv(v->link, 0, t->w, t->n);
	for (int k = 0; k < v->workers; k++) {
		struct member *m = &t->member[k];
		m->last = -1;
		if (v->lengths)
			continue;
		if (t->rules.updater->own)
			m->own = must(calloc(t->n + 1, sizeof(float)));
		if (t->rules.updater->pulled) {
			m->pulled = must(malloc((t->n + 1) * sizeof(float)));
			memcpy(m->pulled, t->w, t->n * sizeof(float));
		}
	}
	make_buffers(v, t);
	if (t->rules.rounds) {
		t->model = buffer_take(v, t->n);
		copy_shard(t, t->model);
	}
}

static void free_shard(struct server *v, int table)
{
	struct shard *t = v->shard[table];
	if (!t)
		return;
	buffer_drop(v, &t->model);
	for (int k = 0; k < v->workers; k++) {
		free(t->member[k].own);
		free(t->member[k].pulled);
	}
	free(t->member);
	if (!v->lengths)
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
		if (!v->shard[table]->member[k].closed)
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
	struct slice *e = trace_add(v->trace, kind, since, clock_peek());
	e->epoch = j->request.epoch;
	e->step = j->request.step;
	e->peer = j->worker;
	e->flow = kind == TRACE_APPLY ? j->request.flow : 0;
	e->bytes = kind == TRACE_APPLY ? -1 : j->request.out * (int64_t)sizeof(float);
}

static bool is_noted(const struct server *v, const struct transaction *j)
{
	return v->trace && j->request.epoch > 0;
}

/* The push; with `read`, data is then what is pulled. */
static void apply(struct server *v, struct shard *t, struct transaction *j, bool read)
{
	const struct table_rules adding = {.updater = updater_find("add")};
	struct member *m = &t->member[j->worker];
	bool sync = j->request.kind == OP_SYNC;
	struct table_op p = {.kind = sync ? OP_PUSH : j->request.kind,
			     .pull = j->request.pull,
			     .by = j->request.by,
			     .staleness = j->reply.staleness};
	size_t first, n, offset;
	nsec since = is_noted(v, j) ? clock_peek() : 0;
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
	if (is_noted(v, j))
		note(v, TRACE_APPLY, j, since);
}

/* Makes data what the worker is to see, and counts it as its pull. */
static void read_model(struct server *v, struct shard *t, struct transaction *j)
{
	struct member *m = &t->member[j->worker];
	float *from = t->rules.rounds ? t->model->x : t->w;
	size_t first, n, offset;
	nsec since = is_noted(v, j) ? clock_peek() : 0;
	if (j->request.pull)
		m->seen = t->version;
	if (j->request.out == 0)
		return;
	bool copy = !t->rules.rounds || j->request.rows >= 0;
	if (!copy) {
		buffer_drop(v, &j->data);
		j->data = t->model;
		t->model->users++;
	} else if (!j->data) {
		j->data = buffer_take(v, (size_t)j->request.out);
	}
	for (size_t i = 0; piece(t, j, i, &first, &n, &offset); i++) {
		if (copy)
			memcpy(j->data->x + offset, from + first, n * sizeof *from);
		if (j->request.pull && m->pulled)
			memcpy(m->pulled + first, from + first, n * sizeof *from);
	}
	world_charge_op(&(struct table_op){.kind = OP_READ}, (size_t)j->request.out, false);
	if (is_noted(v, j))
		note(v, TRACE_PULL, j, since);
}

/* ---- Rounds and leads ---- */

/* Has worker k come to a barrier that worker `of` has not left? */
static bool is_away(const struct shard *t, int k, int of)
{
	return t->member[k].barriers > t->member[of].passed;
}

/* So many pushes end this round, as worker `of` sees it. Fewer than it should be when backup
 * workers are left to themselves, as the others stand at a barrier already. */
static int64_t needed_pushes(const struct server *v, const struct shard *t, int of, int *away)
{
	int64_t possible = t->counted, needed = v->workers - t->rules.backup;
	*away = -1;
	for (int k = 0; k < v->workers; k++) {
		bool gone = is_away(t, k, of);
		if (gone && (*away < 0 || t->member[k].pushes < t->member[*away].pushes))
			*away = k; /* the one to name */
		possible += !gone && t->member[k].last < t->round;
	}
	return possible < needed ? possible : needed;
}

static void end_round(struct server *v, struct shard *t)
{
	buffer_drop(v, &t->model);
	t->model = buffer_take(v, t->n);
	copy_shard(t, t->model);
	t->round++;
	t->counted = 0;
}

/* Is this push's round over, can it be ended, or will it never be? */
static bool round_is_over(struct server *v, struct shard *t, struct transaction *j)
{
	int away;
	int64_t needed = needed_pushes(v, t, j->worker, &away);
	if (j->reply.dropped || j->round != t->round)
		return true;
	if (t->rules.backup == 0 && needed < v->workers) {
		j->reply.away = away;
		j->reply.away_pushes = t->member[away].pushes;
		return true;
	}
	if (t->counted >= needed)
		end_round(v, t);
	return j->round != t->round;
}

static bool leads(const struct server *v, const struct shard *t, const struct transaction *j)
{
	for (int k = 0; k < v->workers; k++)
		if (k != j->worker && !is_away(t, k, j->worker) &&
		    j->pushes - t->member[k].pushes > t->rules.lead)
			return true;
	return false;
}

/* In a replay: is what transaction j does next, its push or its pull, the next of the record? */
static bool is_due(const struct shard *t, const struct transaction *j, enum op_kind kind)
{
	float out = 0; /* a place that nothing is written to */
	struct table_op p = {.kind = kind, .out = j->request.out > 0 ? &out : NULL};
	if (!t->cursor.arrival || (kind == OP_READ && !j->request.pull) ||
	    replay_due(&t->cursor, t->seq, j->worker, &t->rules, &p))
		return true;
	if (is_away(t, t->cursor.arrival[t->seq].worker, j->worker))
		replay_stuck(&t->cursor, t->seq, j->worker);
	return false;
}

static void release(struct server *v, struct shard *t, struct transaction *j)
{
	j->reply.deferred = clock_now() - j->since;
	j->reply.latest = v->latest;
	if (j->reply.away < 0) {
		t->member[j->worker].round = t->round;
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
		int64_t round = t->round, seq = t->seq;
		bool over = t->rules.rounds ? round_is_over(v, t, j) : !leads(v, t, j);
		if (over && (j->reply.away >= 0 || is_due(t, j, OP_READ))) {
			*at = j->next;
			release(v, t, j);
		} else {
			at = &j->next;
		}
		if (t->round != round || (t->cursor.arrival && t->seq != seq))
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
	struct member *m = &t->member[j->worker];
	j->round = m->last = m->round;
	bool late = m->round != t->round || t->counted == v->workers - t->rules.backup;
	j->reply.dropped = t->cursor.arrival
				   ? strcmp(replay_kind(&t->cursor, j->reply.seq), "drop") == 0
				   : late;
	if (late && !j->reply.dropped)
		replay_misfit(&t->cursor, j->reply.seq);
	if (!j->reply.dropped) {
		apply(v, t, j, false);
		t->counted++;
	}
	buffer_drop(v, &j->data);
	defer(t, j);
	look_at_deferred(v, t);
}

static void push(struct server *v, struct shard *t, struct transaction *j)
{
	struct member *m = &t->member[j->worker];
	j->reply.staleness = t->rules.rounds ? 0 : t->version - m->seen;
	j->reply.seq = t->seq++;
	j->pushes = ++m->pushes;
	t->version++;
	m->seen++; /* its own */
	if (t->rules.rounds) {
		push_in_round(v, t, j);
		return;
	}
	bool too_far =
		t->rules.bounded &&
		(t->cursor.arrival ? strcmp(replay_kind(&t->cursor, j->reply.seq), "push") == 0
				   : leads(v, t, j));
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
	t->member[j->worker].round = t->round;
	if (j->request.pull)
		j->reply.seq = t->seq++;
	read_model(v, t, j);
	send_reply(v, j);
}

static void start_body(struct server *v, struct transaction *j)
{
	size_t rows = j->request.rows > 0 ? (size_t)j->request.rows : 0, in = (size_t)j->request.in;
	if (rows) {
		j->rows = buffer_take(v, rows * sizeof(int64_t) / sizeof(float));
		j->listed = link_recv_start(v->link, j->worker, TAG_BODY, j->rows->x,
					    rows * sizeof(int64_t));
	}
	if (in) {
		j->data = buffer_take(v, in);
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
		t->member[k].barriers++;
		look_at_deferred(v, t);
		v->again |= t->cursor.arrival != NULL;
		return;
	case REQUEST_RESUME:
		t->member[k].passed++;
		t->member[k].round = t->round; /* stragglers may have ended some */
		return;
	case REQUEST_CLOSE:
		t->member[k].barriers = INT64_MAX;
		t->member[k].closed = true;
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

static void start_op(struct server *v, int k)
{
	struct connection *c = &v->connection[k];
	c->transaction = transaction_new(v, k, &c->request);
	start_body(v, c->transaction);
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

/* As nudge_servers in table_servers.c. */
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
	for (struct buffer *b = v->spare, *next; b; b = next) {
		next = b->next;
		if (!v->lengths)
			free(b->x);
		free(b);
	}
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
