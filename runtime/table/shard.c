/*
 * shard.c - the shards of a server: what an operation does to W, and which worker waits for which.
 *
 * Rounds: a push is added to W when it arrives. Workers read a copy of W as of the last round's
 * end; the copy is kept until all replies with it are sent. In a replay a request waits until it is
 * due; numbered operations (shard.seq) are done in that order.
 */
#include "runtime/table/server.h"

#include <stdlib.h>
#include <string.h>

/* Applies the sum of the round's pushes. */
static void merge(struct shard *t)
{
	const struct table_op push = {.kind = OP_PUSH, .by = t->merged.by, .number = ++t->counted};
	const struct table_rules end = rules_of_end(&t->rules);
	const float factor = merged_factor(&t->merged, &t->rules);
	bool pushed;
	for (size_t i = 0; t->sum && factor != 1 && i < t->n; i++)
		t->sum[i] *= factor;
	for (size_t at = 0, n; !t->rules.lengths && at < t->n; at += n) {
		n = merged_run(&t->merged, &t->rules, t->touched, at, t->n - at, &pushed);
		struct update u = {.w = t->w + at,
				   .state = part(t->state, at),
				   .more = part(t->more, at),
				   .values = t->sum + at};
		if (pushed)
			table_apply(&end, &push, &u, n);
	}
	if (t->sum)
		memset(t->sum, 0, t->n * sizeof *t->sum);
	memset(t->touched, 0, t->rules.rows * sizeof *t->touched);
	t->merged = (struct merged){0};
	table_charge(&push, end.updater, t->n, false);
}

/* With rounds: W as it is now becomes what workers read. */
static void renew_model(struct server *v, struct shard *t)
{
	if (t->merged.pushes > 0)
		merge(t);
	buffer_drop(v, &t->model);
	t->model = buffer_take(v, t, t->n);
	if (!t->rules.lengths)
		memcpy(t->model->x, t->w, t->n * sizeof(float));
}

/* ---- Opening and closing ---- */

/* [n] of the shard; NULL unless they are needed and there are floats at all. */
static float *zeros(const struct shard *t, bool wanted)
{
	return wanted && !t->rules.lengths ? must(calloc(t->n + 1, sizeof(float))) : NULL;
}

void shard_open(struct server *v, int table)
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
	if (t->n > 0) /* otherwise nothing is recorded */
		t->cursor = replay_cursor(v->replay, table, v->rank);
	t->w = o.rules.lengths ? link_nowhere() : zeros(t, true);
	t->state = zeros(t, t->rules.updater->state);
	t->more = zeros(t, t->rules.updater->more);
	t->sum = zeros(t, rounds_merge(&t->rules));
	if (rounds_merge(&t->rules))
		t->touched = must(calloc(t->rules.rows + 1, sizeof *t->touched));
	t->client = must(calloc((size_t)v->workers, sizeof *t->client));
	t->rounds =
		(struct rounds){.now = &t->now,
				.member = must(calloc((size_t)v->workers, sizeof(struct member))),
				.size = v->workers,
				.backup = o.rules.backup,
				.joins = o.rules.joins,
				.grace = o.rules.grace > 0 && !v->replay,
				.lead = o.rules.lead};
	if (o.coded)
		t->tensor = must(calloc((size_t)o.tensors + 1, sizeof *t->tensor));
	t->tensors = (size_t)o.tensors;
	if (t->tensors)
		link_recv(v->link, 0, (float *)(void *)t->tensor,
			  t->tensors * sizeof *t->tensor / sizeof(float));
	if (o.init)
		link_recv(v->link, 0, t->w, t->n);
	for (int k = 0; k < v->workers; k++) {
		struct client *m = &t->client[k];
		m->own = zeros(t, t->rules.updater->own);
		m->pulled = zeros(t, t->rules.updater->pulled);
		if (m->pulled)
			memcpy(m->pulled, t->w, t->n * sizeof(float));
	}
	/* for arriving floats, and for models of rounds that are still being sent */
	buffers_fill(v, t,
		     (int)smaller((size_t)v->workers, COMING_MOST) + 2 * t->rules.rounds +
			     (int)o.coded);
	if (t->rules.rounds)
		renew_model(v, t);
}

void shard_free(struct server *v, int table)
{
	struct shard *t = v->shard[table];
	if (!t)
		return;
	buffer_drop(v, &t->model);
	for (int k = 0; k < v->workers; k++) {
		free(t->client[k].own);
		free(t->client[k].pulled);
	}
	free(t->client);
	free(t->tensor);
	free(t->rounds.member);
	if (!t->rules.lengths)
		free(t->w);
	free(t->state);
	free(t->more);
	free(t->sum);
	free(t->touched);
	free(t);
	v->shard[table] = NULL;
}

void shard_close(struct server *v, int table)
{
	if (++v->shard[table]->closes < v->workers)
		return;
	shard_free(v, table);
	for (int k = 0; k < v->workers; k++) {
		struct transaction *j = transaction_new();
		j->request =
			(struct table_request){.worker = k, .table = table, .slot = TICKETS_MAX};
		transaction_reply(v, j);
	}
}

/* ---- Floats ---- */

/* Piece i of a transaction's floats, as op_piece; the whole shard goes in blocks that stay in the
 * cache. False: there are no more pieces. */
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

/* In the timeline, a server's work belongs to the step of the worker that it works for. */
static void note(struct server *v, enum trace_kind kind, const struct transaction *j, nsec since)
{
	if (!v->trace || j->request.epoch == 0)
		return;
	struct slice *e = trace_add(v->trace, kind, since, clock_peek());
	e->epoch = j->request.epoch;
	e->step = j->request.step;
	e->peer = j->request.worker;
	e->flow = kind == TRACE_APPLY ? j->request.flow : 0;
	e->bytes = kind == TRACE_APPLY ? -1 : j->request.out * (int64_t)sizeof(float);
}

/* Applies the push; with `read`, data then gets what is pulled. */
static void shard_apply(struct server *v, struct shard *t, struct transaction *j, bool read)
{
	struct client *m = &t->client[j->request.worker];
	bool sync = j->request.kind == OP_SYNC, sums = rounds_merge(&t->rules);
	const struct table_rules r = sync || sums ? rules_of_sum(&t->rules) : t->rules;
	struct table_op p = {.kind = sync ? OP_PUSH : j->request.kind,
			     .pull = j->request.pull,
			     .by = j->request.by,
			     .staleness = j->reply.staleness,
			     .number = sums ? 0 : ++t->counted};
	size_t first, n, offset;
	nsec since = v->trace ? clock_peek() : 0;
	if (sums)
		merged_add(&t->merged, &p.by, j->request.rows < 0, j->request.worker);
	if (j->request.in == 0)
		return;
	if (j->request.words > 0)
		transaction_decode(v, t, j);
	read = (read && j->request.out > 0) || p.kind == OP_ELASTIC;
	for (size_t i = 0; piece(t, j, i, &first, &n, &offset); i++) {
		float *w = (sums ? t->sum : t->w) + first;
		float *x = j->data->x + offset, *out = read ? x : NULL;
		if (sums && j->request.rows >= 0)
			t->touched[first / t->rules.columns] = true;
		if (j->request.replace) {
			memcpy(w, x, n * sizeof *w);
			if (m->pulled)
				memcpy(m->pulled + first, x, n * sizeof *w);
			continue;
		}
		struct update u = {.w = w,
				   .state = part(t->state, first),
				   .more = part(t->more, first),
				   .own = part(m->own, first),
				   .pulled = part(m->pulled, first),
				   .values = x,
				   .out = out};
		table_apply(&r, &p, &u, n);
	}
	p.out = read ? j->data->x : NULL;
	table_charge(&p, sync ? t->rules.updater : r.updater, (size_t)j->request.in, false);
	note(v, TRACE_APPLY, j, since);
}

/* Fills data with what the worker reads, and counts a pull as seen. */
static void read_model(struct server *v, struct shard *t, struct transaction *j)
{
	struct client *m = &t->client[j->request.worker];
	float *from = t->rules.rounds ? t->model->x : t->w;
	size_t first, n, offset;
	nsec since = v->trace ? clock_peek() : 0;
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
		j->data = buffer_take(v, t, (size_t)j->request.out);
	}
	for (size_t i = 0; piece(t, j, i, &first, &n, &offset); i++) {
		if (copy)
			memcpy(j->data->x + offset, from + first, n * sizeof *from);
		if (j->request.pull && m->pulled)
			memcpy(m->pulled + first, from + first, n * sizeof *from);
	}
	table_charge(&(struct table_op){.kind = OP_READ}, NULL, (size_t)j->request.out, false);
	note(v, TRACE_PULL, j, since);
}

/* ---- Rounds and staleness bounds ---- */

/* Has this push's round ended, or can it be ended, or can it never end? */
static bool round_is_over(struct server *v, struct shard *t, struct transaction *j)
{
	int away;
	if (j->reply.dropped)
		return true;
	enum round_state state = rounds_state(&t->rounds, j->round, j->request.worker, &away);
	if (state == ROUND_GRACE && t->now.until == 0)
		t->now.until = clock_now() + t->rules.grace;
	if (state == ROUND_FULL) {
		renew_model(v, t);
		rounds_end(&t->rounds);
	} else if (state == ROUND_INCOMPLETE) {
		j->reply.away = away;
		j->reply.away_pushes = t->rounds.member[away].pushes;
	}
	return state != ROUND_OPEN && state != ROUND_GRACE;
}

bool shard_due(const struct shard *t, const struct transaction *j, enum op_kind kind)
{
	float out = 0; /* never written to */
	struct table_op p = {.kind = kind, .out = j->request.out > 0 ? &out : NULL};
	return !t->cursor.arrival || (kind == OP_READ && !j->request.pull) ||
	       replay_due(&t->cursor, t->seq, j->request.worker, &t->rules, &t->rounds, &p);
}

static void release(struct server *v, struct shard *t, struct transaction *j)
{
	j->reply.deferred = clock_now() - j->since;
	j->reply.latest = v->latest;
	if (j->reply.away < 0) {
		t->rounds.member[j->request.worker].in = t->now.over;
		if (j->request.pull)
			j->reply.read_seq = t->seq++;
		read_model(v, t, j);
	}
	transaction_reply(v, j);
}

void shard_poll(struct server *v, struct shard *t)
{
	struct transaction **at = &t->deferred;
	t->now.waited = t->now.until > 0 && clock_now() >= t->now.until;
	while (*at) {
		struct transaction *j = *at;
		int64_t round = t->now.over, seq = t->seq;
		bool over = t->rules.rounds ? round_is_over(v, t, j)
					    : !rounds_too_far_ahead(&t->rounds, j->request.worker,
								    j->pushes);
		if (over && (j->reply.away >= 0 || shard_due(t, j, OP_READ))) {
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

static void shard_push_in_round(struct server *v, struct shard *t, struct transaction *j)
{
	j->reply.dropped =
		replay_drops(&t->cursor, j->reply.seq, rounds_late(&t->rounds, j->request.worker),
			     rounds_full(&t->rounds));
	j->round =
		rounds_push(&t->rounds, j->request.worker, !j->reply.dropped, j->request.by.idle);
	if (!j->reply.dropped) {
		shard_apply(v, t, j, false);
		t->now.applied++;
	}
	buffer_drop(v, &j->data);
	defer(t, j);
	shard_poll(v, t);
}

static void shard_push(struct server *v, struct shard *t, struct transaction *j)
{
	struct client *m = &t->client[j->request.worker];
	j->reply.staleness = t->rules.rounds ? 0 : t->version - m->seen;
	j->reply.seq = t->seq++;
	j->pushes = ++t->rounds.member[j->request.worker].pushes;
	t->version++;
	m->seen++; /* its own push */
	if (t->rules.rounds) {
		shard_push_in_round(v, t, j);
		return;
	}
	bool too_far = t->rules.bounded &&
		       (t->cursor.arrival
				? strcmp(replay_kind(&t->cursor, j->reply.seq), "push") == 0
				: rounds_too_far_ahead(&t->rounds, j->request.worker, j->pushes));
	shard_apply(v, t, j, !too_far);
	if (too_far) {
		defer(t, j);
	} else {
		if (j->request.pull)
			m->seen = t->version;
		transaction_reply(v, j);
	}
	if (t->rules.bounded)
		shard_poll(v, t);
}

static void read_op(struct server *v, struct shard *t, struct transaction *j)
{
	if (j->request.pull) { /* an evaluation read joins no round */
		t->rounds.member[j->request.worker].in = t->now.over;
		j->reply.seq = t->seq++;
	}
	read_model(v, t, j);
	transaction_reply(v, j);
}

/* Sends or replaces what the updater keeps beside W. */
static void keep_op(struct server *v, struct shard *t, struct transaction *j)
{
	float *const kept[] = {[KEEPS_STATE] = t->state,
			       [KEEPS_OWN] = t->client[j->request.worker].own,
			       [KEEPS_MORE] = t->more,
			       [KEEPS_T] = NULL};
	float *x = kept[j->request.kept];
	if (j->request.in > 0 && x) {
		memcpy(x, j->data->x, t->n * sizeof *x);
	} else if (j->request.in > 0) {
		t->counted = (int64_t)j->data->x[0];
	} else if (j->request.out > 0) {
		j->data = buffer_take(v, t, t->n);
		for (size_t i = 0; i < t->n; i++)
			j->data->x[i] = x ? x[i] : (float)t->counted;
	}
	transaction_reply(v, j);
}

void shard_op(struct server *v, struct shard *t, struct transaction *j)
{
	if (j->request.kept)
		keep_op(v, t, j);
	else if (j->request.kind == OP_READ)
		read_op(v, t, j);
	else
		shard_push(v, t, j);
}
