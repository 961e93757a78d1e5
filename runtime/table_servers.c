/*
 * table_servers.c - tables whose shards lie on ranks that do nothing else. Server s holds the rows
 * part_of(rows, servers, s) of each table, and applies what workers send it in the order in which
 * it came. Everyone's ranks are the workers, then the servers.
 *
 * A pass is one question to each server (struct ask, then the rows if it is not for all of them,
 * then the floats that are pushed) and one answer (struct answer, then the floats that are pulled).
 * Every push goes to every server, be it without floats, so that all count alike; a read only to
 * those that hold some of it. A sync sends param - pulled, so that a server keeps nothing for it;
 * and where the one worker that there is has seen all of W, param itself, which is the new W, bit
 * for bit.
 *
 * Rounds: the server adds pushes to W as they come and keeps a copy of W as of the last round's
 * end. That is what is read, and it stays until nobody is being sent it any more.
 *
 * Servers know nothing of each other. Each counts versions by itself; the staleness of a push is
 * what the first server found, and the others can differ from it by what was under way at the same
 * time, at most. Likewise each drops by itself what comes too late for its round: with backup
 * workers and several servers, a push may count on one and be dropped on another, and what a late
 * worker is answered may be of one round here and of the next there.
 *
 * Cost of a sync, on one machine: a worker reads two floats and writes one, MPI copies one there
 * and one back, and the server reads two and writes two. Memory: W and what the updater keeps, of
 * which own and pulled once a worker; and as many buffers of a shard's size as there are workers,
 * made when the table is opened. Only tickets and lists of rows that are larger than any before
 * make more (a worker may have TICKETS_MAX passes under way, and each holds a buffer on its
 * servers).
 *
 * Who has nothing to do sleeps (link_sleep). What a worker spends on a pass is communication, but
 * for the time for which the server held the answer back, because of a round or a lead.
 */
#include "table.h"

#include <stdlib.h>
#include <string.h>

/* ---- What workers and servers say ---------------------------------------------- */

enum { SLOTS = TICKETS_MAX + 1 }; /* the last is that of table_pass */
enum tag { TAG_ASK = 2, TAG_BODY, TAG_ANSWER /* + table x SLOTS + slot */ };
enum what { ASK_OPEN, ASK_PASS, ASK_VERSION, ASK_FLUSH, ASK_RESUME, ASK_CLOSE, ASK_DISMISS };

struct ask {
	enum what what;
	int32_t table, slot;
	enum pass_kind kind;
	int32_t pull, replace; /* replace: a sync that sends the new W */
	int64_t rows;          /* that follow; -1: the whole shard */
	int64_t in, out;       /* floats that follow, and that are wanted */
	struct push by;
};

struct answer {
	int64_t staleness, version;
	int64_t seq, read_seq; /* of the push or pull; of the pull after it, -1 = it was the same */
	nsec held;
	int64_t away_pushes;
	int32_t away; /* the worker that will not push any more: an uneven number of pushes, or -1
		       */
	int32_t dropped;
};

/* Follows ASK_OPEN, and then the shard's first values where `init` says so. */
struct opening {
	int64_t rows, columns, updater, rounds, backup, bounded, lead, init;
};

static int answer_tag(int table, int slot)
{
	return TAG_ANSWER + table * SLOTS + slot;
}

/* ---- A worker's side ------------------------------------------------------------- */

/* What one server does of a pass. */
struct leg {
	struct answer answer;
	size_t first, n;              /* its floats, in the pass's memory or the staged rows */
	int asked, listed, sent, got; /* requests */
	bool answered, over;
};

/* A pass under way. Rows are staged in the order of servers. */
struct slot {
	struct pass *pass;
	bool under_way;
	char *wrong;
	struct leg *leg; /* [servers] */
	int64_t *row;    /* in the server's own numbers, */
	size_t *place;   /* and which of the pass's it is */
	float *stage;
	size_t row_room, stage_room;
};

struct client {
	struct slot slot[SLOTS];
	size_t *bound; /* [servers + 1], rows */
	bool unseen;   /* W has changed since this worker's last pull, by this worker */
};

#define AT(t) ((struct client *)(t)->at)

static void tell(struct tables *s, int server, const struct ask *a)
{
	link_tell(s->everyone, s->size + server, TAG_ASK, a, sizeof *a);
	link_ring(s->everyone, s->size + server);
}

static void tell_all(struct table *t, enum what what)
{
	struct ask a = {.what = what, .table = t->id, .slot = TICKETS_MAX};
	for (int s = 0; s < t->among->servers; s++)
		tell(t->among, s, &a);
}

static struct opening opening_of(const struct table_rules *r, bool init)
{
	struct opening o = {.rows = (int64_t)r->rows,
			    .columns = (int64_t)r->columns,
			    .rounds = r->rounds,
			    .backup = r->backup,
			    .bounded = r->bounded,
			    .lead = r->lead,
			    .init = init};
	while (updaters[o.updater] != r->updater)
		o.updater++;
	return o;
}

/* By worker 0. Returns when the server has the table: a send waits for its receiver. */
static void open_shard_on(struct table *t, int server, const float *init)
{
	struct tables *s = t->among;
	size_t *bound = AT(t)->bound, columns = t->rules.columns;
	struct opening o = opening_of(&t->rules, init != NULL);
	link_send(s->everyone, s->size + server, (const float *)&o, sizeof o / sizeof(float));
	if (init)
		link_send(s->everyone, s->size + server, init + bound[server] * columns,
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
		c->slot[i].leg = must(calloc(servers, sizeof(struct leg)));
	if (s->rank == 0)
		tell_all(t, ASK_OPEN);
	link_bells_new(s->everyone);
	for (int i = 0; i < s->servers && s->rank == 0; i++)
		open_shard_on(t, i, init);
	link_barrier(s->workers);
}

static struct slot *slot_of(struct table *t, struct pass *p)
{
	bool ticket = p >= t->ticket && p < t->ticket + TICKETS_MAX;
	return &AT(t)->slot[ticket ? p - t->ticket : TICKETS_MAX];
}

static void *grown(void *p, size_t *room, size_t n, size_t size)
{
	if (n <= *room)
		return p;
	free(p);
	*room = n;
	return must(malloc(n * size));
}

/* Deals the pass's rows out to the servers' legs. */
static void deal_rows(struct table *t, struct slot *q, const struct pass *p)
{
	size_t columns = t->rules.columns, room = q->row_room, k = 0;
	q->row = grown(q->row, &room, p->rows, sizeof *q->row);
	q->place = grown(q->place, &q->row_room, p->rows, sizeof *q->place);
	q->stage = grown(q->stage, &q->stage_room, p->rows * columns, sizeof *q->stage);
	for (int s = 0; s < t->among->servers; s++) {
		size_t first = AT(t)->bound[s], end = AT(t)->bound[s + 1];
		q->leg[s].first = k * columns;
		for (size_t i = 0; i < p->rows; i++)
			if ((size_t)p->row[i] >= first && (size_t)p->row[i] < end) {
				q->row[k] = p->row[i] - (int64_t)first;
				q->place[k++] = i;
			}
		q->leg[s].n = k * columns - q->leg[s].first;
	}
}

static void subtract(float *restrict d, const float *restrict a, const float *restrict b, size_t n)
{
#pragma omp simd
	for (size_t i = 0; i < n; i++)
		d[i] = a[i] - b[i];
}

/* pulled = param - pulled: it is pulled anew before anybody reads it. */
static void leave_change(float *restrict pulled, const float *restrict param, size_t n)
{
#pragma omp simd
	for (size_t i = 0; i < n; i++)
		pulled[i] = param[i] - pulled[i];
}

/* A row of a sync may stand in its list once only: the second would have to know what the first has
 * pulled. */
static void stage_rows(struct table *t, struct slot *q, const struct pass *p)
{
	size_t columns = t->rules.columns;
	const float *from = p->kind == PASS_PUSH ? p->in : p->out;
	for (size_t k = 0; k < p->rows && pass_pushes(p); k++) {
		size_t i = q->place[k], row = (size_t)p->row[i];
		if (p->kind == PASS_SYNC)
			subtract(q->stage + k * columns, p->out + i * columns,
				 t->pulled + row * columns, columns);
		else
			memcpy(q->stage + k * columns, from + i * columns, columns * sizeof(float));
	}
}

/* What the servers are sent, in the order of their legs. */
static const float *floats_to_send(struct table *t, struct slot *q, const struct pass *p,
				   bool replace)
{
	if (p->row) {
		deal_rows(t, q, p);
		stage_rows(t, q, p);
		return q->stage;
	}
	for (int s = 0; s < t->among->servers; s++) {
		q->leg[s].first = AT(t)->bound[s] * t->rules.columns;
		q->leg[s].n = AT(t)->bound[s + 1] * t->rules.columns - q->leg[s].first;
	}
	if (p->kind == PASS_SYNC && !replace)
		leave_change(t->pulled, p->out, t->n);
	return p->kind == PASS_PUSH ? p->in : p->kind == PASS_SYNC && !replace ? t->pulled : p->out;
}

static void start_leg(struct table *t, struct slot *q, int s, struct ask a, const float *from)
{
	struct link *l = t->among->everyone;
	struct leg *g = &q->leg[s];
	int server = t->among->size + s;
	bool pushes = a.kind != PASS_READ;
	g->listed = g->sent = g->got = -1;
	g->answered = false;
	g->over = !pushes && g->n == 0;
	if (g->over)
		return;
	a.in = pushes ? (int64_t)g->n : 0;
	a.out = q->pass->out ? (int64_t)g->n : 0;
	if (q->pass->row)
		a.rows = (int64_t)(g->n / t->rules.columns);
	g->asked =
		link_recv_start(l, server, answer_tag(t->id, a.slot), &g->answer, sizeof g->answer);
	link_tell(l, server, TAG_ASK, &a, sizeof a);
	if (a.rows > 0)
		g->listed =
			link_send_start(l, server, TAG_BODY, q->row + g->first / t->rules.columns,
					(size_t)a.rows * sizeof *q->row);
	if (a.in > 0)
		g->sent =
			link_send_start(l, server, TAG_BODY, from + g->first, g->n * sizeof(float));
	link_ring(l, server);
}

/* Memory of this pass that leg g's floats come back into. */
static float *back_into(struct slot *q, struct leg *g)
{
	return (q->pass->row ? q->stage : q->pass->out) + g->first;
}

/* True: this server has done its part. */
static bool advance_leg(struct table *t, struct slot *q, int s)
{
	struct link *l = t->among->everyone;
	struct leg *g = &q->leg[s];
	if (g->over || (!g->answered && !link_done(l, &g->asked)))
		return g->over;
	if (!g->answered && q->pass->out && g->n > 0 && g->answer.away < 0)
		g->got = link_recv_start(l, t->among->size + s,
					 answer_tag(t->id, (int)(q - AT(t)->slot)), back_into(q, g),
					 g->n * sizeof(float));
	g->answered = true;
	return g->over = link_done(l, &g->listed) & link_done(l, &g->sent) & link_done(l, &g->got);
}

/* Where MPI moves long messages in pieces, both ends have to look again and again: whoever finds
 * one unfinished rings for the other. */
static void nudge_servers(struct table *t, struct slot *q)
{
	struct link *l = t->among->everyone;
	for (int s = 0; s < t->among->servers; s++) {
		struct leg *g = &q->leg[s];
		if (!g->over && (g->answered || !link_done(l, &g->sent)))
			link_ring(l, t->among->size + s);
	}
}

static bool advance_legs(struct table *t, struct slot *q)
{
	bool over = true;
	for (int s = 0; s < t->among->servers; s++)
		over &= advance_leg(t, q, s);
	return over;
}

/* Until all servers have answered. */
static void await(struct table *t, struct slot *q)
{
	struct link *l = t->among->everyone;
	nsec since = clock_now(), held = 0, nap = 0;
	while (!advance_legs(t, q)) {
		if (link_look(l)) {
			nap = 0;
			continue;
		}
		if (nap)
			nudge_servers(t, q);
		link_sleep(l, &nap);
	}
	for (int s = 0; s < t->among->servers; s++)
		if (q->leg[s].answered && q->leg[s].answer.held > held)
			held = q->leg[s].answer.held;
	nsec took = clock_now() - since;
	t->among->stats->wait += held < took ? held : took;
}

static void record_leg(struct table *t, const struct pass *p, const struct answer *a, int s)
{
	struct pass push = *p, read = {.kind = PASS_READ, .pull = true};
	push.dropped = a->dropped;
	if (t->rules.rounds || a->read_seq >= 0)
		push.out = NULL; /* a pull of its own came later */
	if (pass_pushes(p) || p->pull)
		table_arrived(t, &push, s, a->seq);
	if (a->read_seq >= 0)
		table_arrived(t, &read, s, a->read_seq);
}

/* Puts what came back where the pass and the table want it. */
static void keep_floats(struct table *t, const struct slot *q)
{
	const struct pass *p = q->pass;
	size_t columns = t->rules.columns, bytes = columns * sizeof(float);
	bool pulled = p->pull && t->rules.syncs && p->kind != PASS_ELASTIC;
	if (p->out && !p->row && pulled)
		memcpy(t->pulled, p->out, t->n * sizeof(float));
	for (size_t k = 0; p->out && p->row && k < p->rows; k++) {
		size_t i = q->place[k], row = (size_t)p->row[i];
		memcpy(p->out + i * columns, q->stage + k * columns, bytes);
		if (pulled)
			memcpy(t->pulled + row * columns, q->stage + k * columns, bytes);
	}
}

static void finish(struct table *t, struct slot *q)
{
	struct pass *p = q->pass;
	bool first = true;
	q->under_way = false;
	await(t, q);
	for (int s = 0; s < t->among->servers; s++) {
		const struct answer *a = &q->leg[s].answer;
		if (!q->leg[s].answered)
			continue;
		if (first) {
			p->staleness = a->staleness;
			p->dropped = a->dropped;
		}
		first = false;
		if (t->among->room && q->leg[s].n > 0)
			record_leg(t, p, a, s);
		if (a->away >= 0 && !q->wrong)
			q->wrong = table_uneven(t, a->away, a->away_pushes);
	}
	if (!q->wrong)
		keep_floats(t, q);
}

static void finish_all(struct table *t)
{
	for (int i = 0; i < SLOTS; i++)
		if (AT(t)->slot[i].under_way)
			finish(t, &AT(t)->slot[i]);
}

/* The one worker has seen all of W: what it sends with scale 1 is the new W. */
static bool may_replace(const struct table *t, const struct pass *p)
{
	return p->kind == PASS_SYNC && t->among->size == 1 && p->by.scale == 1 && !p->row &&
	       !AT(t)->unseen;
}

/* A sync needs what the passes before it pull: it waits for them. */
static char *servers_start(struct table *t, struct pass *p)
{
	struct client *c = AT(t);
	struct slot *q = slot_of(t, p);
	if (p->kind == PASS_SYNC)
		finish_all(t);
	bool replace = may_replace(t, p), pulls = p->pull && p->kind != PASS_ELASTIC;
	q->pass = p;
	q->under_way = true;
	p->staleness = 0;
	p->dropped = false;
	t->pushes += pass_pushes(p);
	c->unseen = (c->unseen && (p->row || !pulls)) || (pass_pushes(p) && !pulls);
	const float *from = floats_to_send(t, q, p, replace);
	struct ask a = {.what = ASK_PASS,
			.table = t->id,
			.slot = (int32_t)(q - c->slot),
			.kind = p->kind,
			.pull = p->pull,
			.replace = replace,
			.rows = -1,
			.by = p->by};
	for (int s = 0; s < t->among->servers; s++)
		start_leg(t, q, s, a, from);
	return NULL;
}

static char *servers_wait(struct table *t, struct pass *p)
{
	struct slot *q = slot_of(t, p);
	if (q->under_way)
		finish(t, q);
	char *wrong = q->wrong;
	q->wrong = NULL;
	return wrong;
}

/* A question without floats to servers 0 .. n - 1, and their answers, in the last slot. */
static void ask_plainly(struct table *t, enum what what, int n)
{
	struct slot *q = &AT(t)->slot[TICKETS_MAX];
	struct pass none = {.kind = PASS_READ};
	struct ask a = {.what = what, .table = t->id, .slot = TICKETS_MAX};
	q->pass = &none;
	for (int s = 0; s < t->among->servers; s++) {
		struct leg *g = &q->leg[s];
		*g = (struct leg){.listed = -1, .sent = -1, .got = -1, .over = s >= n};
		if (g->over)
			continue;
		g->asked = link_recv_start(t->among->everyone, t->among->size + s,
					   answer_tag(t->id, TICKETS_MAX), &g->answer,
					   sizeof g->answer);
		tell(t->among, s, &a);
	}
	await(t, q);
	q->pass = NULL;
}

static int64_t servers_version(struct table *t)
{
	ask_plainly(t, ASK_VERSION, 1);
	return AT(t)->slot[TICKETS_MAX].leg[0].answer.version;
}

static void servers_flush(struct table *t)
{
	tell_all(t, ASK_FLUSH);
}

static void servers_resume(struct table *t)
{
	tell_all(t, ASK_RESUME);
}

/* Servers answer when all workers have come to this. */
static void servers_close(struct table *t)
{
	struct client *c = AT(t);
	finish_all(t);
	ask_plainly(t, ASK_CLOSE, t->among->servers);
	for (int i = 0; i < SLOTS; i++) {
		struct slot *q = &c->slot[i];
		free(q->leg);
		free(q->row);
		free(q->place);
		free(q->stage);
		free(q->wrong);
	}
	free(c->bound);
	free(c);
}

void servers_dismiss(struct link *everyone, int workers)
{
	struct ask a = {.what = ASK_DISMISS};
	for (int s = workers; s < link_size(everyone) && link_rank(everyone) == 0; s++) {
		link_tell(everyone, s, TAG_ASK, &a, sizeof a);
		link_ring(everyone, s);
	}
	link_bells_free(everyone);
}

static void servers_finish(struct tables *s)
{
	servers_dismiss(s->everyone, s->size);
}

/* ---- A server's side --------------------------------------------------------------- */

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
	bool over;
};

static struct buffer *buffer_new(size_t room)
{
	struct buffer *b = must(calloc(1, sizeof *b));
	b->room = room;
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
		b = buffer_new(n);
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
		struct buffer *b = buffer_new(t->n);
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
					.lead = o.lead};
	size_t all = (size_t)o.rows, servers = (size_t)v->servers, rank = (size_t)v->rank;
	t->rules.rows = part_of(all, servers, rank + 1) - part_of(all, servers, rank);
	t->n = t->rules.rows * t->rules.columns;
	t->w = must(calloc(t->n + 1, sizeof(float)));
	t->state = t->rules.updater->state ? must(calloc(t->n + 1, sizeof(float))) : NULL;
	t->member = must(calloc((size_t)v->workers, sizeof *t->member));
	if (o.init)
		link_recv(v->link, 0, t->w, t->n);
	for (int k = 0; k < v->workers; k++) {
		struct member *m = &t->member[k];
		m->last = -1;
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
		memcpy(t->model->x, t->w, t->n * sizeof(float));
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

static size_t smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Piece i of a job's floats, as pass_piece; the whole shard goes in blocks that stay in the cache.
 * False: there are no more. */
static bool piece(const struct shard *t, const struct job *j, size_t i, size_t *first, size_t *n,
		  size_t *offset)
{
	enum { BLOCK = 8192 };
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

static float *part(float *x, size_t first)
{
	return x ? x + first : NULL;
}

/* The push; with `read`, data is then what is pulled. */
static void apply(struct shard *t, struct job *j, bool read)
{
	const struct table_rules adding = {.updater = updater_find("add")};
	struct member *m = &t->member[j->worker];
	bool sync = j->ask.kind == PASS_SYNC;
	struct pass p = {.kind = sync ? PASS_PUSH : j->ask.kind,
			 .pull = j->ask.pull,
			 .by = j->ask.by,
			 .staleness = j->answer.staleness};
	size_t first, n, offset;
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
}

/* Makes data what the worker is to see, and counts it as its pull. */
static void read_model(struct server *v, struct shard *t, struct job *j)
{
	struct member *m = &t->member[j->worker];
	float *from = t->rules.rounds ? t->model->x : t->w;
	size_t first, n, offset;
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
	memcpy(t->model->x, t->w, t->n * sizeof(float));
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

static void release(struct server *v, struct shard *t, struct job *j)
{
	j->answer.held = clock_now() - j->since;
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
		int64_t round = t->round;
		if (t->rules.rounds ? !round_is_over(v, t, j) : leads(v, t, j)) {
			at = &j->next;
			continue;
		}
		*at = j->next;
		release(v, t, j);
		if (t->round != round)
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
	j->answer.dropped = m->round != t->round || t->counted == v->workers - t->rules.backup;
	if (!j->answer.dropped) {
		apply(t, j, false);
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
	bool too_far = t->rules.bounded && leads(v, t, j);
	apply(t, j, !too_far);
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
		return;
	case ASK_RESUME:
		t->member[k].passed++;
		return;
	case ASK_CLOSE:
		t->member[k].barriers = INT64_MAX;
		t->member[k].closed = true;
		look_at_held(v, t);
		close_if_all(v, a->table);
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
	v->line[k].job = NULL;
	if (j->ask.kind == PASS_READ)
		read_pass(v, v->shard[j->ask.table], j);
	else
		push(v, v->shard[j->ask.table], j);
}

/* Takes the next step with worker k's question. */
static void advance_line(struct server *v, int k)
{
	struct line *c = &v->line[k];
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

/* As nudge_servers. */
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

void tables_serve(struct link *everyone, int rank, int workers)
{
	struct server *v = must(calloc(1, sizeof *v));
	nsec nap = 0;
	*v = (struct server){.link = everyone, .rank = rank - workers, .workers = workers};
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
		for (int k = 0; k < workers && !v->over; k++)
			advance_line(v, k);
		advance_sending(v);
	}
	leave(v);
}

const struct home home_servers = {
	.name = "servers",
	.open = servers_open,
	.close = servers_close,
	.start = servers_start,
	.wait = servers_wait,
	.version = servers_version,
	.flush = servers_flush,
	.resume = servers_resume,
	.finish = servers_finish,
};
