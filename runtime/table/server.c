/*
 * table_serve.c - the life of a rank that only serves tables: it answers the questions of
 * table_mail.h, each worker's in the order in which they came, until worker 0 lets it go.
 *
 * Rounds: pushes are added to W as they come; a copy of W as of the last round's end is what is
 * read, and it stays until nobody is being sent it any more.
 *
 * In a replay a question waits until its turn in the record has come; what the server numbers
 * (shard.seq) takes place in the record's order.
 *
 * Memory: W and what the updater keeps, of which own and pulled once a worker; and as many buffers
 * of a shard's size as there are workers, made when the table is opened. Only tickets and lists of
 * rows that are larger than any before make more: a worker may have TICKETS_MAX passes under way,
 * and each holds a buffer on its servers. Who has nothing to do sleeps (link_sleep).
 */
#include "runtime/table/wire.h"

#include <stdlib.h>
#include <string.h>

/* Floats that come or go. users: jobs, and the shard whose model it is. */
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
	int64_t round, counted; /* rounds that are over; pushes of this one */
	struct job *held;       /* answers that wait, oldest first */
	struct turns turns;     /* of a replay: seq is the next one */
};

/* A pass on a server. */
struct job {
	struct job *next; /* of the shard's held, or the server's */
	struct ask ask;
	struct answer answer;
	int worker;
	struct buffer *rows, *data;
	int listed, moved;     /* requests */
	int64_t round, pushes; /* of its push */
	nsec since;            /* held since */
};

/* A worker: its question, and the pass whose floats are coming. */
struct line {
	struct ask ask;
	int asking;
	struct job *job;
};

struct server {
	struct link *link;
	int rank, workers, servers; /* rank: among the servers */
	struct line *line;          /* [workers] */
	struct shard *shard[TABLES_MAX];
	struct buffer *spare;
	struct job *sending, *idle;
	bool lengths; /* tables have no floats */
	bool over;
	const struct record *replay; /* NULL = questions are answered as they come */
	bool again;                  /* somebody's turn may have come */
	struct trace *trace;         /* NULL = no timeline is kept */
	int latest;                  /* worker whose question is at hand */
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

static struct job *job_new(struct server *v, int worker, const struct ask *a)
{
	struct job *j = v->idle ? v->idle : must(malloc(sizeof *j));
	if (v->idle)
		v->idle = j->next;
	*j = (struct job){.ask = *a,
			  .answer = {.seq = -1, .read_seq = -1, .away = -1},
			  .worker = worker,
			  .listed = -1,
			  .moved = -1};
	return j;
}

static void job_free(struct server *v, struct job *j)
{
	buffer_drop(v, &j->rows);
	buffer_drop(v, &j->data);
	j->next = v->idle;
	v->idle = j;
}

/* Sends the answer, and of data what is wanted; the job is gone when that has left. */
static void answer(struct server *v, struct job *j)
{
	int tag = answer_tag(j->ask.table, j->ask.slot);
	link_tell(v->link, j->worker, tag, &j->answer, sizeof j->answer);
	if (j->ask.out > 0 && j->answer.away < 0) {
		j->moved = link_send_start(v->link, j->worker, tag, j->data->x,
					   (size_t)j->ask.out * sizeof(float));
		j->next = v->sending;
		v->sending = j;
	} else {
		job_free(v, j);
	}
	link_ring(v->link, j->worker);
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
	link_bells_new(v->link);
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
		t->turns = turns_of(v->replay, table, v->rank);
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

/* When all have come: a table's last answers. */
static void close_if_all(struct server *v, int table)
{
	struct ask a = {.table = table, .slot = TICKETS_MAX};
	for (int k = 0; k < v->workers; k++)
		if (!v->shard[table]->member[k].closed)
			return;
	free_shard(v, table);
	for (int k = 0; k < v->workers; k++)
		answer(v, job_new(v, k, &a));
}

/* ---- Floats ---- */

/* Piece i of a job's floats, as pass_piece; the whole shard goes in blocks that stay in the cache.
 * False: there are no more. */
static bool piece(const struct shard *t, const struct job *j, size_t i, size_t *first, size_t *n,
		  size_t *offset)
{
	enum { BLOCK = 8192 };
	if (t->rules.lengths)
		return false;
	if (j->ask.rows < 0) {
		*first = *offset = i * BLOCK;
		*n = *first < t->n ? smaller(BLOCK, t->n - *first) : 0;
		return *n > 0;
	}
	if (i >= (size_t)j->ask.rows)
		return false;
	*n = t->rules.columns;
	*first = (size_t)((const int64_t *)(const void *)j->rows->x)[i] * *n;
	*offset = i * *n;
	return true;
}

/* In the timeline, what a server does belongs to the step of the worker that it does it for. */
static void note(struct server *v, enum trace_kind kind, const struct job *j, nsec since)
{
	struct slice *e = trace_add(v->trace, kind, since, clock_peek());
	e->epoch = j->ask.epoch;
	e->step = j->ask.step;
	e->peer = j->worker;
	e->flow = kind == TRACE_APPLY ? j->ask.flow : 0;
	e->bytes = kind == TRACE_APPLY ? -1 : j->ask.out * (int64_t)sizeof(float);
}

static bool is_noted(const struct server *v, const struct job *j)
{
	return v->trace && j->ask.epoch > 0;
}

/* The push; with `read`, data is then what is pulled. */
static void apply(struct server *v, struct shard *t, struct job *j, bool read)
{
	const struct table_rules adding = {.updater = updater_find("add")};
	struct member *m = &t->member[j->worker];
	bool sync = j->ask.kind == PASS_SYNC;
	struct pass p = {.kind = sync ? PASS_PUSH : j->ask.kind,
			 .pull = j->ask.pull,
			 .by = j->ask.by,
			 .staleness = j->answer.staleness};
	size_t first, n, offset;
	nsec since = is_noted(v, j) ? clock_peek() : 0;
	if (j->ask.in == 0)
		return;
	read = (read && j->ask.out > 0) || p.kind == PASS_ELASTIC;
	for (size_t i = 0; piece(t, j, i, &first, &n, &offset); i++) {
		float *w = t->w + first, *x = j->data->x + offset, *out = read ? x : NULL;
		if (j->ask.replace) {
			memcpy(w, x, n * sizeof *w);
			if (m->pulled)
				memcpy(m->pulled + first, x, n * sizeof *w);
			continue;
		}
		pass_apply(sync ? &adding : &t->rules, &p, w, part(t->state, first),
			   part(m->own, first), part(m->pulled, first), x, out, n);
	}
	world_charge_pass(&p, (size_t)j->ask.in, false);
	if (is_noted(v, j))
		note(v, TRACE_APPLY, j, since);
}

/* Makes data what the worker is to see, and counts it as its pull. */
static void read_model(struct server *v, struct shard *t, struct job *j)
{
	struct member *m = &t->member[j->worker];
	float *from = t->rules.rounds ? t->model->x : t->w;
	size_t first, n, offset;
	nsec since = is_noted(v, j) ? clock_peek() : 0;
	if (j->ask.pull)
		m->seen = t->version;
	if (j->ask.out == 0)
		return;
	bool copy = !t->rules.rounds || j->ask.rows >= 0;
	if (!copy) {
		buffer_drop(v, &j->data);
		j->data = t->model;
		t->model->users++;
	} else if (!j->data) {
		j->data = buffer_take(v, (size_t)j->ask.out);
	}
	for (size_t i = 0; piece(t, j, i, &first, &n, &offset); i++) {
		if (copy)
			memcpy(j->data->x + offset, from + first, n * sizeof *from);
		if (j->ask.pull && m->pulled)
			memcpy(m->pulled + first, from + first, n * sizeof *from);
	}
	world_charge_pass(&(struct pass){.kind = PASS_READ}, (size_t)j->ask.out, false);
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
static bool round_is_over(struct server *v, struct shard *t, struct job *j)
{
	int away;
	int64_t needed = needed_pushes(v, t, j->worker, &away);
	if (j->answer.dropped || j->round != t->round)
		return true;
	if (t->rules.backup == 0 && needed < v->workers) {
		j->answer.away = away;
		j->answer.away_pushes = t->member[away].pushes;
		return true;
	}
	if (t->counted >= needed)
		end_round(v, t);
	return j->round != t->round;
}

static bool leads(const struct server *v, const struct shard *t, const struct job *j)
{
	for (int k = 0; k < v->workers; k++)
		if (k != j->worker && !is_away(t, k, j->worker) &&
		    j->pushes - t->member[k].pushes > t->rules.lead)
			return true;
	return false;
}

/* In a replay: is what job j does next, its push or its pull, the next of the record? */
static bool has_turn(const struct shard *t, const struct job *j, enum pass_kind kind)
{
	float out = 0; /* a place that nothing is written to */
	struct pass p = {.kind = kind, .out = j->ask.out > 0 ? &out : NULL};
	if (!t->turns.pass || (kind == PASS_READ && !j->ask.pull) ||
	    turn_has_come(&t->turns, t->seq, j->worker, &t->rules, &p))
		return true;
	if (is_away(t, t->turns.pass[t->seq].worker, j->worker))
		turn_never_comes(&t->turns, t->seq, j->worker);
	return false;
}

static void release(struct server *v, struct shard *t, struct job *j)
{
	j->answer.held = clock_now() - j->since;
	j->answer.latest = v->latest;
	if (j->answer.away < 0) {
		t->member[j->worker].round = t->round;
		if (j->ask.pull)
			j->answer.read_seq = t->seq++;
		read_model(v, t, j);
	}
	answer(v, j);
}

/* After whatever may end a wait. */
static void look_at_held(struct server *v, struct shard *t)
{
	struct job **at = &t->held;
	while (*at) {
		struct job *j = *at;
		int64_t round = t->round, seq = t->seq;
		bool over = t->rules.rounds ? round_is_over(v, t, j) : !leads(v, t, j);
		if (over && (j->answer.away >= 0 || has_turn(t, j, PASS_READ))) {
			*at = j->next;
			release(v, t, j);
		} else {
			at = &j->next;
		}
		if (t->round != round || (t->turns.pass && t->seq != seq))
			at = &t->held;
	}
}

static void hold(struct shard *t, struct job *j)
{
	struct job **at = &t->held;
	while (*at)
		at = &(*at)->next;
	*at = j;
	j->next = NULL;
	j->since = clock_now();
}

/* ---- Passes ---- */

static void push_in_round(struct server *v, struct shard *t, struct job *j)
{
	struct member *m = &t->member[j->worker];
	j->round = m->last = m->round;
	bool late = m->round != t->round || t->counted == v->workers - t->rules.backup;
	j->answer.dropped =
		t->turns.pass ? strcmp(turn_kind(&t->turns, j->answer.seq), "drop") == 0 : late;
	if (late && !j->answer.dropped)
		turn_misfits(&t->turns, j->answer.seq);
	if (!j->answer.dropped) {
		apply(v, t, j, false);
		t->counted++;
	}
	buffer_drop(v, &j->data);
	hold(t, j);
	look_at_held(v, t);
}

static void push(struct server *v, struct shard *t, struct job *j)
{
	struct member *m = &t->member[j->worker];
	j->answer.staleness = t->rules.rounds ? 0 : t->version - m->seen;
	j->answer.seq = t->seq++;
	j->pushes = ++m->pushes;
	t->version++;
	m->seen++; /* its own */
	if (t->rules.rounds) {
		push_in_round(v, t, j);
		return;
	}
	bool too_far = t->rules.bounded &&
		       (t->turns.pass ? strcmp(turn_kind(&t->turns, j->answer.seq), "push") == 0
				      : leads(v, t, j));
	apply(v, t, j, !too_far);
	if (too_far) {
		hold(t, j);
	} else {
		if (j->ask.pull)
			m->seen = t->version;
		answer(v, j);
	}
	if (t->rules.bounded)
		look_at_held(v, t);
}

static void read_pass(struct server *v, struct shard *t, struct job *j)
{
	t->member[j->worker].round = t->round;
	if (j->ask.pull)
		j->answer.seq = t->seq++;
	read_model(v, t, j);
	answer(v, j);
}

static void start_body(struct server *v, struct job *j)
{
	size_t rows = j->ask.rows > 0 ? (size_t)j->ask.rows : 0, in = (size_t)j->ask.in;
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

/* ---- Questions ---- */

static void listen(struct server *v, int k)
{
	struct line *c = &v->line[k];
	c->asking = link_recv_start(v->link, k, TAG_ASK, &c->ask, sizeof c->ask);
}

/* All but passes. */
static void obey(struct server *v, int k)
{
	struct ask *a = &v->line[k].ask;
	struct shard *t = v->shard[a->table];
	struct job *j;
	switch (a->what) {
	case ASK_OPEN:
		open_shard(v, a->table);
		return;
	case ASK_VERSION:
		j = job_new(v, k, a);
		j->answer.version = t->version;
		answer(v, j);
		return;
	case ASK_FLUSH:
		t->member[k].barriers++;
		look_at_held(v, t);
		v->again |= t->turns.pass != NULL;
		return;
	case ASK_RESUME:
		t->member[k].passed++;
		t->member[k].round = t->round; /* stragglers may have ended some */
		return;
	case ASK_CLOSE:
		t->member[k].barriers = INT64_MAX;
		t->member[k].closed = true;
		look_at_held(v, t);
		close_if_all(v, a->table);
		return;
	case ASK_EVENTS:
		trace_settle(v->trace, NULL);
		trace_send(v->trace, v->link, 0);
		return;
	case ASK_DISMISS:
		v->over = true;
		return;
	case ASK_PASS:
		break;
	}
}

static void start_pass(struct server *v, int k)
{
	struct line *c = &v->line[k];
	c->job = job_new(v, k, &c->ask);
	start_body(v, c->job);
}

static void do_pass(struct server *v, int k)
{
	struct job *j = v->line[k].job;
	struct shard *t = v->shard[j->ask.table];
	v->line[k].job = NULL;
	if (j->ask.kind == PASS_READ)
		read_pass(v, t, j);
	else
		push(v, t, j);
	if (t->turns.pass)
		look_at_held(v, t);
	v->again |= t->turns.pass != NULL;
}

/* Takes the next step with worker k's question. */
static void advance_line(struct server *v, int k)
{
	struct line *c = &v->line[k];
	v->latest = k;
	if (!c->job) {
		if (!link_done(v->link, &c->asking))
			return;
		if (c->ask.what == ASK_PASS)
			start_pass(v, k);
		else
			obey(v, k);
	}
	if (c->job) {
		if (!link_done(v->link, &c->job->listed) | !link_done(v->link, &c->job->moved))
			return;
		if (!has_turn(v->shard[c->ask.table], c->job, c->ask.kind))
			return;
		do_pass(v, k);
	}
	listen(v, k);
}

static void advance_sending(struct server *v)
{
	for (struct job **at = &v->sending; *at;) {
		struct job *j = *at;
		if (link_done(v->link, &j->moved)) {
			*at = j->next;
			job_free(v, j);
		} else {
			at = &j->next;
		}
	}
}

/* As nudge_servers in table_servers.c. */
static void nudge_workers(struct server *v)
{
	for (int k = 0; k < v->workers; k++)
		if (v->line[k].job)
			link_ring(v->link, k);
	for (struct job *j = v->sending; j; j = j->next)
		link_ring(v->link, j->worker);
}

/* Answers that nobody has fetched within a second belong to a run that ends early. */
static void leave(struct server *v)
{
	nsec since = clock_now(), nap = 0;
	for (; v->sending && clock_now() - since < 1000000000; advance_sending(v))
		if (!link_look(v->link))
			link_sleep(v->link, &nap);
	for (int k = 0; k < v->workers; k++)
		link_cancel(v->link, &v->line[k].asking);
	link_bells_free(v->link);
	for (int i = 0; i < TABLES_MAX; i++)
		free_shard(v, i);
	for (struct buffer *b = v->spare, *next; b; b = next) {
		next = b->next;
		if (!v->lengths)
			free(b->x);
		free(b);
	}
	for (struct job *j = v->idle, *next; j; j = next) {
		next = j->next;
		free(j);
	}
	free(v->line);
	free(v);
}

void tables_serve(struct link *everyone, int rank, int workers, const struct record *replay,
		  struct trace *trace)
{
	struct server *v = must(calloc(1, sizeof *v));
	nsec nap = 0;
	*v = (struct server){.link = everyone,
			     .rank = rank - workers,
			     .workers = workers,
			     .replay = replay,
			     .trace = trace};
	v->line = must(calloc((size_t)workers, sizeof *v->line));
	for (int k = 0; k < workers; k++)
		listen(v, k);
	while (!v->over) {
		if (!link_look(everyone)) {
			if (nap)
				nudge_workers(v);
			link_sleep(everyone, &nap);
			continue;
		}
		nap = 0;
		do {
			v->again = false;
			for (int k = 0; k < workers && !v->over; k++)
				advance_line(v, k);
		} while (v->again && !v->over);
		advance_sending(v);
	}
	leave(v);
}
