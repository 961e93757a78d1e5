/*
 * table.c - parameter-server tables with any placement: how they are opened, and the entry point of
 * operations and tickets. table.h defines the terms. Placements do the operations and call back
 * into apply.c. Strategies come in through vectors.c, other programs through runtime/lib.
 *
 * Versions: a push gets its number when it begins. Its staleness is the number of other workers'
 * pushes that began between this worker's last pull and it. In a table with rounds it is 0.
 */
#include "runtime/table/coded.h"

#include <stdlib.h>
#include <string.h>

/* ---- The tables of a process ------------------------------------------------- */

#define PLACEMENT_LISTED(name) &placement_##name,
const struct placement *const table_placements[] = {PLACEMENTS(PLACEMENT_LISTED) NULL};

FIND_BY_NAME(placement, placement_find, table_placements, name)

/* Collective. Why these workers cannot have their tables there; NULL = they can. */
static char *lacks(struct tables *s, const struct placement *h)
{
	if (s->servers > 0 && !h->on_servers)
		return sentence("tables cannot live in %s memory when there are servers: leave "
				"the servers out, or the placement",
				h->name);
	if (s->servers == 0 && h->on_servers)
		return sentence("tables cannot live on servers when there are none");
	if (h->floats_on_device && !s->dev)
		return sentence("tables can live in a GPU's memory (%s) only when the workers "
				"compute on GPUs",
				h->name);
	if (h->in_shared_memory && !s->near)
		return sentence("tables in %s memory need all workers on one machine; one-sided "
				"windows (onesided) and servers do not",
				h->floats_on_device ? "a GPU's" : h->name);
	if (h->reaches && !h->reaches(s))
		return sentence("tables cannot live in a GPU's memory (%s): not every worker can "
				"map that of worker 0's GPU; use shared, or auto",
				h->name);
	return NULL;
}

/* Takes the requested placement, or the best; returns NULL, or why that is not possible. */
static char *choose_placement(struct tables *s, const struct placement *wanted)
{
	for (size_t i = 0; table_placements[i]; i++) {
		const struct placement *h = table_placements[i];
		if (wanted && h != wanted)
			continue;
		char *wrong = lacks(s, h);
		if (wrong && wanted)
			return wrong;
		if (!wrong && (!s->placement || h->preference > s->placement->preference))
			s->placement = h;
		free(wrong);
	}
	return NULL;
}

char *tables_open(struct tables **out, struct link *everyone, struct link *workers, int rank,
		  int size, int servers, const char *placement, struct stats *stats,
		  struct device *d)
{
	struct tables *s = must(calloc(1, sizeof *s));
	*s = (struct tables){.everyone = everyone,
			     .workers = workers,
			     .rank = rank,
			     .size = size,
			     .servers = servers,
			     .dev = d && d->ops->peer ? d : NULL};
	s->stats = stats ? stats : &s->unused;
	s->asked = must(calloc((size_t)servers + 1, sizeof *s->asked));
	s->near = servers == 0 && link_one_node(workers);
	char *wrong = choose_placement(s, placement_find(placement));
	*out = s;
	if (wrong) {
		free(s->asked);
		free(s);
		*out = NULL;
	}
	return wrong;
}

char *tables_refuse(const struct table_rules *r, int servers, bool near, const char *placement,
		    bool record)
{
	struct tables s = {.servers = servers, .near = near && servers == 0};
	const struct placement *wanted = placement_find(placement);
	if (wanted && wanted->floats_on_device)
		return NULL;
	char *wrong AUTOFREE = choose_placement(&s, wanted);
	if (wrong)
		return sentence("--table-home=%s: %s", placement, wrong);
	if (record && r->by_rows)
		return sentence("--record: operations on the models of single workers have no "
				"order in common; leave it out");
	if (record && !s.placement->keeps_order)
		return sentence("--record: one-sided pushes have no order to record; use "
				"--table-home=shared or --servers=1");
	return s.placement->refuse ? s.placement->refuse(r, &s) : NULL;
}

void tables_record(struct tables *s, size_t room)
{
	free(s->arrival);
	s->arrival = must(calloc(room + 1, sizeof *s->arrival));
	s->room = room;
	s->arrivals = 0;
}

void tables_replay(struct tables *s, const struct recording *r)
{
	s->replay = r;
	if (s->servers == 0)
		s->placement = &placement_shared;
}

void tables_close(struct tables *s)
{
	if (!s)
		return;
	for (int i = 0; i < s->count; i++)
		table_free(s->table[i]);
	if (s->servers > 0)
		servers_dismiss(s->everyone, s->size);
	free(s->asked);
	free(s->arrival);
	free(s);
}

void tables_leave(struct tables *s, enum leaving how, bool all)
{
	for (int i = 0; s && i < s->count; i++) {
		struct table *t = s->table[i];
		if (t && !t->alias && (all || t->rules.rounds || t->rules.bounded))
			s->placement->leave(t, how);
	}
}

bool tables_block(const struct tables *s)
{
	for (int i = 0; s && i < s->count; i++)
		if (s->table[i] && (s->table[i]->rules.rounds || s->table[i]->rules.bounded))
			return true;
	return false;
}

bool tables_hurry(const struct tables *s)
{
	for (int i = 0; s && i < s->count; i++)
		if (s->table[i] && s->table[i]->rules.backup > 0)
			return true;
	return false;
}

bool tables_drop(const struct tables *s)
{
	for (int i = 0; s && i < s->count; i++)
		if (s->table[i] && s->table[i]->rules.backup > 0 && !s->table[i]->rules.joins)
			return true;
	return false;
}

/* ---- One table ----------------------------------------------------------------- */

/* The same initial values on every worker, in memory of their own; NULL = zeros. With rules.lengths
 * it sends messages of the same lengths, without values. */
static float *agree_on_init(const struct tables *s, const struct table_rules *r, size_t n,
			    const float *init)
{
	double any = init || r->lengths;
	if (r->init == TABLE_MASTER)
		link_broadcast(s->workers, 0, &any, sizeof any);
	else
		link_reduce_all(s->workers, &any, 1, REDUCE_MAX);
	if (any == 0)
		return NULL;
	float *all = r->lengths ? link_nowhere() : must(calloc(n + 1, sizeof *all));
	if (init && !r->lengths)
		memcpy(all, init, n * sizeof *all);
	if (s->size == 1)
		return all;
	if (r->init == TABLE_MASTER) {
		link_broadcast(s->workers, 0, all, n * sizeof *all);
		return all;
	}
	link_allreduce(s->workers, all, n, COMM_SUM);
	for (size_t i = 0; r->init == TABLE_AVERAGE && !r->lengths && i < n; i++)
		all[i] /= (float)s->size;
	return all;
}

/* The same on all ranks, because tables are opened and closed on all of them alike. */
static int free_place(const struct tables *s)
{
	int id = 0;
	while (id < s->count && s->table[id])
		id++;
	return id;
}

static void take_place(struct table *t)
{
	struct tables *s = t->among;
	t->id = free_place(s);
	CHECK(t->id < TABLES_MAX, "more than %d tables", TABLES_MAX);
	s->table[t->id] = t;
	s->count += t->id == s->count;
}

static char *check_rules(const struct tables *s, const struct table_rules *r)
{
	if (free_place(s) == TABLES_MAX)
		return sentence("there are %d tables already, which is the most", TABLES_MAX);
	CHECK(r->rows && r->columns, "a table of %zu x %zu floats", r->rows, r->columns);
	CHECK(!r->rounds || (r->backup >= 0 && r->backup < s->size), "%lld backup workers of %d",
	      (long long)r->backup, s->size);
	return s->placement->refuse ? s->placement->refuse(r, s) : NULL;
}

/* n floats of this worker, in the memory that its operations use: a copy of like, NULL = zeros. */
static float *floats_new(const struct table *t, float *like)
{
	struct device *d = table_device(t);
	float *x = d ? d->ops->alloc(d, t->n) : must(calloc(t->n + 1, sizeof *x));
	if (d)
		d->bytes += t->n * sizeof *x;
	if (like)
		floats_move(d, x, like, t->n, true);
	return x;
}

static void floats_free(const struct table *t, float *x)
{
	struct device *d = table_device(t);
	if (!d)
		free(x);
	else if (x)
		d->ops->free(d, x, t->n);
}

char *table_open(struct table **out, struct tables *s, const struct table_rules *rules,
		 const float *init)
{
	char *wrong = check_rules(s, rules);
	*out = NULL;
	if (wrong)
		return wrong;
	struct table *t = must(calloc(1, sizeof *t));
	*t = (struct table){.among = s, .rules = *rules, .n = rules->rows * rules->columns};
	if (rules->rounds && rules->updater->pulled) /* no push is late: nothing to compensate */
		t->rules.updater = updaters[UPDATER_sgd];
	rules = &t->rules;
	take_place(t);
	float *first = agree_on_init(s, rules, t->n, init);
	if (!rules->lengths && (rules->syncs || rules->updater->pulled))
		t->pulled = floats_new(t, first);
	if (!rules->lengths && rules->updater->own && !s->placement->keeps_own)
		t->own = floats_new(t, NULL);
	for (int i = 0; i < 2 && s->dev && !s->placement->floats_on_device; i++)
		t->staged[i] = s->dev->ops->peer->pinned_new(s->dev, rules->by_rows ? rules->columns
										    : t->n);
	s->placement->open(t, first);
	if (!rules->lengths)
		free(first);
	*out = t;
	return NULL;
}

struct table *table_alias(struct tables *s, const struct table_rules *rules, struct vec *v)
{
	struct table *t = must(calloc(1, sizeof *t));
	*t = (struct table){.among = s, .rules = *rules, .n = rules->rows, .alias = v};
	take_place(t);
	return t;
}

void table_free(struct table *t)
{
	if (!t)
		return;
	t->among->table[t->id] = NULL;
	if (!t->alias)
		t->among->placement->close(t);
	pushes_free(t->rules.pushes);
	floats_free(t, t->pulled);
	floats_free(t, t->own);
	for (int i = 0; i < 2; i++)
		if (t->staged[i])
			t->among->dev->ops->peer->pinned_free(t->among->dev, t->staged[i]);
	free(t);
}

/* ---- Operations ---------------------------------------------------------------- */

static char *table_check_op(const struct table *t, const struct table_op *p)
{
	CHECK(p->kind != OP_ELASTIC || !(t->rules.rounds || t->rules.bounded),
	      "an elastic move waits for no worker: not in rounds, or with a bounded lead");
	if (t->rules.rounds && op_pushes(p) && t->incomplete)
		return sentence("this table had an incomplete round and accepts no more pushes: "
				"create a new one");
	if (t->rules.rounds && op_pushes(p) && t->pushing)
		return sentence("a worker pushes once a round: wait for the push under way before "
				"the next");
	for (size_t i = 0; p->row && i < p->rows; i++)
		if (p->row[i] < 0 || (size_t)p->row[i] >= t->rules.rows)
			return sentence("row %lld of a table with rows 0 to %lld",
					(long long)p->row[i], (long long)t->rules.rows - 1);
	return NULL;
}

/* Floats of the operation that have to move between workers, one way. */
static size_t moved(const struct table *t, const struct table_op *p)
{
	size_t moves = 0;
	for (size_t i = 0; i < op_pieces(p); i++) {
		size_t first, n, offset;
		op_piece(t, p, i, &first, &n, &offset);
		size_t from = first > t->own_first ? first : t->own_first;
		size_t to = smaller(first + n, t->own_end);
		moves += n - (to > from ? to - from : 0);
	}
	return moves;
}

/* Of all parts of a message; without servers, each worker has an equal part of the table. */
static int64_t bytes_of_message(const struct table *t, enum table_way way)
{
	int64_t all = pushes_bytes(t->rules.pushes, way), size = t->among->size;
	return t->among->servers ? all : ((size - 1) * all + t->among->rank) / size;
}

static int64_t bytes_of(const struct table *t, const struct table_op *p)
{
	int ways = p->kind == OP_READ ? p->pull : p->kind == OP_PUSH ? 1 + (p->out != NULL) : 2;
	size_t listed = p->row && t->among->placement->on_servers ? p->rows * sizeof *p->row : 0;
	const bool pulls = pushes_pull(t, p);
	if (p->message || pulls) {
		int64_t floats = (int64_t)(sizeof(float) * moved(t, p));
		int64_t in = p->message ? bytes_of_message(t, WAY_PUSH) : p->in ? floats : 0;
		return in + (pulls ? bytes_of_message(t, WAY_PULL) : p->out ? floats : 0);
	}
	return (int64_t)(sizeof(float) * moved(t, p) * (size_t)ways + listed);
}

static void count_op(struct table *t, const struct table_op *p)
{
	struct stats *s = t->among->stats;
	if (t->rules.counter)
		return;
	s->bytes_sent += bytes_of(t, p);
	if (op_pushes(p) && p->dropped)
		s->dropped += !p->by.idle;
	else if (op_pushes(p))
		stats_push(s, p->staleness);
}

/* Times an operation; the placement has counted the time it slept as waiting. */
static char *timed(struct table *t, char *(*slot)(struct table *, struct table_op *),
		   struct table_op *p)
{
	struct stats *s = t->among->stats;
	nsec since = clock_now(), waited = s->wait;
	char *wrong = slot(t, p);
	world_leave();
	pulse_step();
	s->comm += clock_now() - since - (s->wait - waited);
	return wrong;
}

static char *wait_op(struct table *t, struct table_op *p)
{
	const struct placement *h = t->among->placement;
	char *wrong = timed(t, h->wait, p);
	if (!wrong && p->read_later) {
		struct table_op read = *p;
		read.kind = OP_READ;
		read.dropped = read.read_later = false;
		wrong = timed(t, h->start, &read);
		wrong = wrong ? wrong : timed(t, h->wait, &read);
	}
	if (op_pushes(p))
		t->pushing = NULL;
	if (!wrong && !h->on_servers && pushes_pull(t, p)) {
		nsec since = clock_now();
		pushes_recode(t->rules.pushes, p->out);
		stats_spent(t->among->stats, TRACE_PACK, since, -1);
	}
	if (!wrong)
		count_op(t, p);
	t->incomplete |= wrong != NULL;
	return wrong;
}

/* Shards end a round one by one: a read while this worker's push is under way could mix two rounds.
 * This therefore waits for the push first. */
static void end_push(struct table *t)
{
	struct table_op *p = t->pushing;
	p->said = wait_op(t, p);
	p->ended = true;
}

static char *start_op(struct table *t, struct table_op *p)
{
	if (t->rules.rounds && t->pushing && !op_pushes(p))
		end_push(t);
	if (op_pushes(p))
		t->pushing = p;
	t->pushes += op_pushes(p);
	if (p->in && t->rules.pushes) {
		nsec since = clock_now();
		pushes_encode(t->rules.pushes, p);
		stats_spent(t->among->stats, TRACE_PACK, since, -1);
	}
	p->dropped = p->read_later = p->ended = false;
	p->staleness = 0;
	char *wrong = timed(t, t->among->placement->start, p);
	if (wrong) { /* its round cannot begin */
		t->pushing = NULL;
		t->incomplete = true;
	}
	return wrong;
}

/* In the timeline, the upper bits of a number identify the table. */
static int64_t numbered(const struct table *t, int64_t n)
{
	return n > 0 ? (int64_t)t->id << 40 | n : 0;
}

static void note_op(struct table *t, const struct table_op *p, nsec since)
{
	struct slice *e = trace_add(t->among->stats->trace, op_pushes(p) ? TRACE_PUSH : TRACE_PULL,
				    since, clock_peek());
	e->bytes = bytes_of(t, p);
	if (op_pushes(p) && !p->dropped) {
		e->flow = numbered(t, p->flow);
		e->staleness = (int32_t)p->staleness;
	}
	if (p->pull && t->among->placement->counts_versions)
		e->seen = numbered(t, t->seen);
}

static char *move_coded(struct table *t, struct table_op *p)
{
	struct pushes *k = t->rules.pushes;
	float *d = pushes_room(k);
	struct table_op pull = {.kind = OP_READ, .pull = true, .out = d},
			push = {.kind = OP_PUSH, .in = d, .by = {.scale = 1}};
	TRY(table_do(t, &pull));
	nsec since = clock_now();
	pushes_differ(k, p->out, p->by.scale);
	stats_spent(t->among->stats, TRACE_PACK, since, -1);
	TRY(table_do(t, &push));
	pushes_moved(k, p->out);
	p->staleness = push.staleness;
	return NULL;
}

char *table_do(struct table *t, struct table_op *p)
{
	if (p->kind == OP_ELASTIC && t->rules.pushes)
		return move_coded(t, p);
	bool noted = __builtin_expect(t->among->stats->trace != NULL, 0) && !t->rules.counter;
	nsec since = noted ? clock_peek() : 0;
	char *wrong = table_check_op(t, p);
	if (!wrong)
		wrong = start_op(t, p);
	if (!wrong)
		wrong = wait_op(t, p);
	if (noted)
		note_op(t, p, since);
	return wrong;
}

char *table_start(struct table *t, struct table_op *p)
{
	TRY(table_check_op(t, p));
	TRY(start_op(t, p));
	p->under_way = true;
	return NULL;
}

char *table_wait(struct table *t, struct table_op *p)
{
	CHECK(p->under_way, "waits twice for one operation");
	p->under_way = false;
	return p->ended ? p->said : wait_op(t, p);
}

/* ---- What a checkpoint has ------------------------------------------------------ */

/* Does this worker keep it beside W? Worker 0 keeps what all share. */
static bool has_kept(const struct table *t, enum keeps what)
{
	const struct updater *u = t->rules.updater;
	if (t->alias || t->rules.lengths)
		return false;
	return what == KEEPS_OWN
		       ? u->own
		       : (what == KEEPS_STATE ? u->state : u->more) && t->among->rank == 0;
}

size_t tables_keep(struct tables *s, float *x, bool put)
{
	size_t n = 0;
	for (int i = 0; s && i < s->count; i++) {
		if (s->table[i] && s->table[i]->rules.pushes)
			n += pushes_keep(s->table[i]->rules.pushes, part(x, n), put);
		for (enum keeps what = KEEPS_STATE; s->table[i] && what <= KEEPS_T; what++) {
			struct table *t = s->table[i];
			if (!has_kept(t, what))
				continue;
			if (x && what == KEEPS_OWN && t->own)
				floats_move(table_device(t), t->own, x + n, t->n, put);
			else if (x)
				s->placement->keep(t, what, x + n, put);
			n += t->n;
		}
	}
	return n;
}

int64_t table_version(struct table *t)
{
	return t->alias ? t->pushes : t->among->placement->version(t);
}
