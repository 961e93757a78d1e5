/*
 * table_servers.c - tables whose shards lie on ranks that do nothing else: a worker's side of it.
 * Server s holds the rows part_of(rows, servers, s) of each table (table_serve.c), and applies what
 * workers send it in the order in which it came. Everyone's ranks are the workers, then the
 * servers.
 *
 * A pass is one question to each server and one answer (table_mail.h). Every push goes to every
 * server, be it without floats, so that all count alike; a read only to those that hold some of it.
 * A sync sends param - pulled, so that a server keeps nothing for it; and where the one worker that
 * there is has seen all of W, param itself, which is the new W, bit for bit.
 *
 * Servers know nothing of each other. Each counts versions by itself; the staleness of a push is
 * what the first server found, and the others can differ from it by what was under way at the same
 * time, at most. Likewise each drops by itself what comes too late for its round: with backup
 * workers and several servers, a push may count on one and be dropped on another, and what a late
 * worker is answered may be of one round here and of the next there.
 *
 * Cost of a sync, on one machine: a worker reads two floats and writes one, MPI copies one there
 * and one back, and the server reads two and writes two. Who waits sleeps (link_sleep). What a
 * worker spends on a pass is communication, but for the time for which the server held the answer
 * back, because of a round or a lead.
 */
#include "runtime/table/wire.h"

#include <stdlib.h>
#include <string.h>

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
			    .lengths = r->lengths,
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
	if (t->rules.lengths)
		return link_nowhere();
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
	int latest = -1;
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
		if (q->leg[s].answered && q->leg[s].answer.held > held) {
			held = q->leg[s].answer.held;
			latest = q->leg[s].answer.latest;
		}
	nsec now = clock_now(), took = now - since;
	held = held < took ? held : took;
	t->among->stats->wait += held;
	traced(t->among->stats, TRACE_RECV, since, now, -1);
	if (held > 0) /* the answer's way comes after it, the question's before */
		traced(t->among->stats, TRACE_WAIT, since, since + held, latest);
}

static void record_leg(struct table *t, const struct pass *p, const struct answer *a, int s)
{
	struct pass push = *p, read = {.kind = PASS_READ, .pull = true};
	push.dropped = a->dropped;
	if (pass_pushes(p) && (t->rules.rounds || a->read_seq >= 0))
		push.read_later = true; /* a pull of its own came then */
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
	bool pulled = p->pull && t->pulled && t->rules.syncs && p->kind != PASS_ELASTIC;
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
	p->flow = pass_pushes(p) ? (int64_t)(t->among->rank + 1) << 24 | (t->pushes & 0xffffff) : 0;
	c->unseen = (c->unseen && (p->row || !pulls)) || (pass_pushes(p) && !pulls);
	struct stats *stats = t->among->stats;
	nsec since = stats->trace ? clock_peek() : 0;
	const float *from = floats_to_send(t, q, p, replace);
	nsec packed = stats->trace ? clock_peek() : 0;
	traced(stats, TRACE_PACK, since, packed, -1);
	struct ask a = {.what = ASK_PASS,
			.table = t->id,
			.slot = (int32_t)(q - c->slot),
			.kind = p->kind,
			.pull = p->pull,
			.replace = replace,
			.rows = -1,
			.by = p->by};
	if (stats->trace) {
		trace_of(stats->trace, &a.epoch, &a.step);
		a.flow = p->flow ? (int64_t)t->id << 40 | p->flow : 0;
	}
	for (int s = 0; s < t->among->servers; s++)
		start_leg(t, q, s, a, from);
	traced(stats, TRACE_SEND, packed, stats->trace ? clock_peek() : 0, -1);
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

void servers_events(struct link *everyone, int workers, struct slices *all)
{
	struct ask a = {.what = ASK_EVENTS};
	for (int s = workers; s < link_size(everyone); s++) {
		link_tell(everyone, s, TAG_ASK, &a, sizeof a);
		link_ring(everyone, s);
		trace_recv(everyone, s, all);
	}
}

static void servers_finish(struct tables *s)
{
	servers_dismiss(s->everyone, s->size);
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
