/*
 * onesided.c - tables whose shards lie in MPI windows. Every worker holds a shard (of small tables,
 * only the first few do), and reaches the other shards one-sidedly. It is the placement for workers
 * on several machines without servers.
 *
 *   push   d = updater(0, in), computed by the pushing worker; then W += d, an MPI accumulate
 *   pull   an accumulate that adds nothing and fetches W; a push and a pull are one fetch-and-add
 *
 * The step of an updater must therefore depend neither on W nor on what a shard keeps. A worker
 * uses the same operations on its own shard: MPI makes them atomic among each other, but not with
 * plain stores. Cost of a sync: (N - 1) / N n floats each way, one round trip, and two passes over
 * the worker's memory. A float becomes W + d by MPI_SUM, where shared memory may fuse W + scale x:
 * the results differ by a rounding.
 *
 * An elastic move gets W first and adds d afterwards. W may change in between, but it gains what
 * the worker loses: the sum of all is conserved.
 *
 * Rank 0's window holds the counters: pushes begun, and for each worker the events that others wait
 * for. A waiting worker reads them at intervals from 20 us to 500 us, short again after a change,
 * and sleeps in between.
 *
 * Rounds: two copies of W, as in shared memory. Pushes of round i add to copy i + 1, which equals
 * copy i before. When all workers have pushed, copy i + 1 is the model, and every worker copies its
 * own shard of it over copy i. No worker pushes in round i + 1 before all have done that. No worker
 * can then still be reading copy i, because all have pushed in round i. A worker that has left for
 * good copies no more: the first of those that pushed in the round copies its shard, too. Cost: 4
 * times the shard's floats, over the network.
 *
 * The pushing worker moves the floats, on one machine and on networks that reach remote memory
 * (Open MPI's osc rdma, sm, ucx). Over TCP (osc pt2pt) the owner of the shard does, and only while
 * it is inside MPI: an operation then lasts until every other worker calls an operation or a
 * barrier. Results stay right, but no worker is faster than the slowest: with steps of 2 and 20 ms
 * and 50,000 floats the fast worker's step takes 2.1 ms on one machine, 23.7 ms over TCP. If the
 * slow worker called MPI once a millisecond, it would be 4 ms. Operations that first need an answer
 * from rank 0 (elastic moves, the updater staleness) wait twice. This waiting counts as
 * communication. Between machines, servers (--servers=1) keep asynchronous strategies asynchronous.
 */
#include "runtime/table/rounds.h"
#include "runtime/table/table.h"

#include <stdlib.h>
#include <string.h>

enum { PIECE = 1 << 18 };                        /* most floats of one operation */
enum { SHARD_LEAST = 256 };                      /* floats */
enum { REST_LEAST = 20000, REST_MOST = 500000 }; /* between two reads of the counters [ns] */
enum {
	PUSHES,
	COPIES,
	BASE,
	BARRIERS,
	OF_EACH_WORKER
}; /* counters, after the one of pushes begun */

struct onesided_state {
	struct link_window *window;
	float *shard; /* own floats in the window: one copy of W, two with rounds */
	float *delta; /* [deltas] what the current operation adds */
	size_t deltas;
	struct table_op *now; /* the current operation: started, not settled; NULL = none */
	int64_t before;       /* pushes before it, if it is a push or a pull */
	size_t counts;        /* counters: 1 + 4 N */
	uint64_t moved;       /* their sum at the last read */
	int64_t *count;       /* [counts] at the last read */
	int64_t ignored;
	int gone;      /* workers that had left for good, at the last read */
	bool torn;     /* it found another one, whose other counts may be older */
	bool left;     /* so has this worker */
	int64_t round; /* rounds that have ended for this worker */
	int64_t base;  /* pushes at the last barrier */
	struct round at;
	struct rounds rounds; /* uses at, and members, at the last read */
};

#define AT(t) ((struct onesided_state *)(t)->at)

static const int64_t zero = 0, one = 1;

/* ---- Where things are -------------------------------------------------------- */

/* Number of workers with a shard, the first ones: shards of a few floats would only cost messages.
 */
static size_t holders(const struct table *t)
{
	size_t most = t->n / SHARD_LEAST, all = (size_t)t->among->size;
	most = smaller(most ? most : 1, t->rules.rows);
	return smaller(most, all);
}

static size_t shard_first(const struct table *t, int k)
{
	size_t parts = holders(t);
	return part_of(t->rules.rows, parts, smaller((size_t)k, parts)) * t->rules.columns;
}

static size_t shard_length(const struct table *t, int k)
{
	return shard_first(t, k + 1) - shard_first(t, k);
}

/* The last shard that begins at or before this row. */
static int shard_of(const struct table *t, size_t first)
{
	unsigned __int128 row = first / t->rules.columns;
	return (int)(((row + 1) * holders(t) - 1) / t->rules.rows);
}

static size_t counter_of(const struct table *t, int what, int worker)
{
	return 1 + (size_t)(what * t->among->size + worker);
}

static int64_t last_count(const struct table *t, int what, int worker)
{
	return AT(t)->count[counter_of(t, what, worker)];
}

/* Do others wait for this worker's pushes? */
static bool is_waited_for(const struct table *t)
{
	return t->rules.rounds || t->rules.bounded;
}

static char *onesided_refuse(const struct table_rules *r, const struct tables *s)
{
	(void)s;
	if (!r->updater->additive)
		return sentence("the updater %s needs a server that works on W, which one-sided "
				"pushes only add to: give --servers=1 and no --table-home, or "
				"start all workers on one machine",
				r->updater->name);
	if (r->rounds && r->backup > 0)
		return sentence("%lld backup worker%s: a one-sided push cannot be dropped when it "
				"comes too late; give --servers=1 and no --table-home, or start "
				"all workers on one machine",
				(long long)r->backup, r->backup == 1 ? "" : "s");
	return NULL;
}

static void onesided_open(struct table *t, const float *init)
{
	struct tables *s = t->among;
	struct onesided_state *h = must(calloc(1, sizeof *h));
	size_t mine = shard_length(t, s->rank);
	t->at = h;
	t->own_first = shard_first(t, s->rank);
	t->own_end = t->own_first + mine;
	h->deltas = t->n;
	h->delta = t->rules.lengths ? link_nowhere() : must(calloc(t->n, sizeof(float)));
	h->counts = 1 + (size_t)(OF_EACH_WORKER * s->size);
	h->count = must(calloc(h->counts, sizeof *h->count));
	h->rounds = (struct rounds){.now = &h->at,
				    .member = must(calloc((size_t)s->size, sizeof(struct member))),
				    .size = s->size,
				    .lead = t->rules.lead};
	h->window = link_window_new(s->workers, t->rules.lengths ? 0 : mine * (1 + t->rules.rounds),
				    h->counts, &h->shard);
	for (int i = 0; init && !t->rules.lengths && i < 1 + t->rules.rounds; i++)
		memcpy(h->shard + (size_t)i * mine, init + t->own_first, mine * sizeof(float));
	link_window_sync(h->window);
	link_barrier(s->workers);
}

static void start_count_add(struct table *t, int what, const int64_t *by)
{
	struct onesided_state *h = AT(t);
	link_window_count(h->window, counter_of(t, what, t->among->rank), by, &h->ignored);
}

static void count_add(struct table *t, int what, int64_t by)
{
	start_count_add(t, what, &by);
	link_window_flush(AT(t)->window, 0);
}

/* ---- One operation ----------------------------------------------------------- */

/* On entry d is W, on return what W gains. */
static BEST_OF_CPU void elastic_moves(float *restrict d, float *restrict param, float alpha,
				      size_t n)
{
#pragma omp simd
	for (size_t i = 0; i < n; i++) {
		d[i] = alpha * (param[i] - d[i]);
		param[i] -= d[i];
	}
}

static BEST_OF_CPU void add_floats(float *restrict y, const float *restrict x, size_t n)
{
#pragma omp simd
	for (size_t i = 0; i < n; i++)
		y[i] += x[i];
}

/* Floats within one shard. */
struct piece {
	int shard;
	size_t at;               /* in the shard's first copy */
	size_t first, offset, n; /* as op_piece returns them */
};

static float *delta_of(const struct table *t, const struct piece *x)
{
	return AT(t)->delta + x->offset;
}

/* Index in the window, in the copy that is pushed to or the copy that is read. */
static size_t place(const struct table *t, const struct piece *x, bool pushed)
{
	if (!t->rules.rounds)
		return x->at;
	return x->at + (size_t)((AT(t)->round + pushed) % 2) * shard_length(t, x->shard);
}

static void get_piece(struct table *t, const struct table_op *p, const struct piece *x)
{
	float *to = p->kind == OP_ELASTIC ? delta_of(t, x) : p->out + x->offset;
	link_window_reach(AT(t)->window, x->shard, place(t, x, false), NULL, to, x->n);
}

static void move_piece(struct table *t, const struct table_op *p, const struct piece *x)
{
	float *d = delta_of(t, x);
	if (!t->rules.lengths)
		elastic_moves(d, p->out + x->offset, p->by.scale, x->n);
	link_window_reach(AT(t)->window, x->shard, place(t, x, true), d, NULL, x->n);
}

/* Does out get W with the push? */
static bool fetches(const struct table_op *p)
{
	return p->out && !p->read_later && (p->kind == OP_PUSH || p->kind == OP_SYNC);
}

static void push_piece(struct table *t, const struct table_op *p, const struct piece *x)
{
	float *d = delta_of(t, x);
	if (t->rules.lengths) {
		/* nothing to work out */
	} else if (p->kind == OP_SYNC) {
		table_change(d, p->out + x->offset, t->pulled + x->first, p->by.scale, x->n);
	} else {
		memset(d, 0, x->n * sizeof *d);
		t->rules.updater->apply(&(struct update){.w = d,
							 .own = t->own ? t->own + x->first : NULL,
							 .values = p->in + x->offset,
							 .by = p->by,
							 .staleness = p->staleness},
					x->n);
	}
	link_window_reach(AT(t)->window, x->shard, place(t, x, true), d,
			  fetches(p) ? p->out + x->offset : NULL, x->n);
}

typedef void piece_fn(struct table *t, const struct table_op *p, const struct piece *x);

/* Floats first .. first + n - 1 of the table. */
static void each_piece(struct table *t, const struct table_op *p, piece_fn *each, size_t first,
		       size_t offset, size_t n)
{
	while (n) {
		struct piece x = {.shard = shard_of(t, first), .first = first, .offset = offset};
		x.at = first - shard_first(t, x.shard);
		x.n = smaller(n, smaller(PIECE, shard_length(t, x.shard) - x.at));
		each(t, p, &x);
		first += x.n;
		offset += x.n;
		n -= x.n;
	}
}

/* Calls each for the operation's list of rows, consecutive rows at once; or for the whole table,
 * starting at this worker's shard, so that workers do not all start at the same one. */
static void all_pieces(struct table *t, const struct table_op *p, piece_fn *each)
{
	size_t columns = t->rules.columns;
	if (!p->row) {
		each_piece(t, p, each, t->own_first, t->own_first, t->n - t->own_first);
		each_piece(t, p, each, 0, 0, t->own_first);
		return;
	}
	for (size_t i = 0, k; i < p->rows; i = k) {
		for (k = i + 1; k < p->rows && p->row[k] == p->row[k - 1] + 1;)
			k++;
		each_piece(t, p, each, (size_t)p->row[i] * columns, i * columns, (k - i) * columns);
	}
}

/* Completes the current operation: out = W, and pulled too if it was a pull. */
static void settle_floats(struct table *t, const struct table_op *p)
{
	struct onesided_state *h = AT(t);
	link_window_flush(h->window, -1);
	if (fetches(p) && !t->rules.lengths)
		add_floats(p->out, h->delta, op_floats(t, p));
	if (p->pull && p->out && t->pulled && !p->read_later)
		op_pulled(t, p);
}

/* A list of rows may be longer than the table. */
static void make_deltas(struct table *t, size_t n)
{
	struct onesided_state *h = AT(t);
	if (n <= h->deltas || t->rules.lengths)
		return;
	h->deltas = n;
	h->delta = must(realloc(h->delta, n * sizeof *h->delta));
}

static void settle(struct table *t)
{
	struct onesided_state *h = AT(t);
	struct table_op *p = h->now;
	if (!p)
		return;
	settle_floats(t, p);
	op_versions(t, p, h->before);
	h->now = NULL;
}

static void onesided_begin(struct table *t, struct table_op *p)
{
	struct onesided_state *h = AT(t);
	if (op_pushes(p))
		make_deltas(t, op_floats(t, p));
	if (op_pushes(p) || p->pull)
		link_window_count(h->window, 0, op_pushes(p) ? &one : &zero, &h->before);
	if (op_pushes(p) && t->rules.updater->staleness) { /* needed before the push */
		link_window_flush(h->window, 0);
		p->staleness = t->rules.rounds ? 0 : h->before - t->seen;
	}
	all_pieces(t, p, p->kind == OP_READ || p->kind == OP_ELASTIC ? get_piece : push_piece);
	if (p->kind == OP_ELASTIC) {
		link_window_flush(h->window, -1);
		all_pieces(t, p, move_piece);
	}
	table_charge(p, t->rules.updater, op_floats(t, p), false);
	h->now = p;
}

/* ---- Waiting for others --------------------------------------------------------- */

/* At the last read: the other worker with the fewest pushes; -1 = there is no other. */
static int slowest(const struct table *t)
{
	const struct member *m = AT(t)->rounds.member;
	int least = -1;
	for (int k = 0; k < t->among->size; k++)
		if (k != t->among->rank && (least < 0 || m[k].pushes < m[least].pushes))
			least = k;
	return least;
}

static void rest(struct table *t, nsec *pause)
{
	nsec since = clock_now();
	world_rest("others' pushes", *pause);
	stats_spent(t->among->stats, TRACE_WAIT, since, slowest(t));
	*pause = 2 * *pause < REST_MOST ? 2 * *pause : REST_MOST;
}

/* Reads all counters; sleeps while rank 0 is needed and not yet inside MPI. *pause between two
 * reads becomes short again after a change. */
static void read_counters(struct table *t, nsec *pause)
{
	struct onesided_state *h = AT(t);
	nsec own = REST_LEAST;
	uint64_t before = h->moved;
	int gone = 0;
	link_window_read_counters(h->window, h->count, h->counts);
	while (!link_window_ready(h->window))
		rest(t, &own);
	h->moved = 0;
	for (size_t i = 0; i < h->counts; i++)
		h->moved += (uint64_t)h->count[i]; /* counters only grow */
	for (int k = 0; k < h->rounds.size; k++) {
		h->rounds.member[k].pushes = last_count(t, PUSHES, k);
		h->rounds.member[k].base = last_count(t, BASE, k);
		h->rounds.member[k].barriers = last_count(t, BARRIERS, k);
		gone += h->rounds.member[k].barriers >= MEMBER_GONE;
	}
	h->torn = gone > h->gone;
	h->gone = gone;
	if (h->moved != before)
		*pause = REST_LEAST;
}

/* Is this worker too far ahead of another? By the last read since the last barrier, which can only
 * err towards yes. */
static bool is_too_far_ahead(const struct table *t)
{
	return rounds_too_far_ahead(&AT(t)->rounds, t->among->rank, t->pushes);
}

/* State of round `in` at the last read. The round is full when every worker has counted `what` in
 * it. */
static enum round_state state_of_round(const struct table *t, int what, int64_t in, int *away)
{
	struct rounds *r = &AT(t)->rounds;
	*r->now = (struct round){.over = in};
	for (int k = 0; k < r->size; k++) {
		r->member[k].pushed = last_count(t, what, k);
		r->now->applied += r->member[k].pushed > in;
	}
	r->now->counted = r->now->applied;
	return rounds_state(r, in, t->among->rank, away);
}

/* Waits until all workers have counted `what` in round `in`. A worker counts it before it counts a
 * barrier, or that it has left, but one read may see the second and miss the first. A worker that
 * is away and has not counted it by the next read never will. */
static char *onesided_wait_for(struct table *t, int what, int64_t in)
{
	nsec pause = REST_LEAST;
	int away, left = -1;
	for (bool looked = false;; looked = true) {
		enum round_state state = state_of_round(t, what, in, &away);
		if (state == ROUND_FULL && !AT(t)->torn)
			return NULL;
		if (state == ROUND_INCOMPLETE && away == left)
			return table_incomplete(t, away, AT(t)->rounds.member[away].pushes);
		left = state == ROUND_INCOMPLETE ? away : -1;
		if (looked && left < 0 && !AT(t)->torn)
			rest(t, &pause);
		read_counters(t, &pause);
	}
}

/* Copies the copy that is read over the other one, which no worker uses now: W - W + new, because
 * windows only add. */
static void copy_piece(struct table *t, const struct table_op *p, const struct piece *x)
{
	struct onesided_state *h = AT(t);
	float *now = h->delta, *old = now + x->n;
	(void)p;
	link_window_reach(h->window, x->shard, place(t, x, false), NULL, now, x->n);
	link_window_reach(h->window, x->shard, place(t, x, true), NULL, old, x->n);
	link_window_flush(h->window, x->shard);
	for (size_t i = 0; i < x->n; i++)
		old[i] = -old[i];
	link_window_reach(h->window, x->shard, place(t, x, true), old, NULL, x->n);
	link_window_flush(h->window, x->shard);
	link_window_reach(h->window, x->shard, place(t, x, true), now, NULL, x->n);
	link_window_flush(h->window, x->shard);
}

/* After round `in`: those that did not push in it have left. All others know the same of it. */
static void copy_shards_of_gone(struct table *t, int64_t in)
{
	const struct member *m = AT(t)->rounds.member;
	int first = 0;
	while (m[first].pushed <= in)
		first++;
	for (int k = 0; first == t->among->rank && k < (int)holders(t); k++)
		if (m[k].pushed <= in) {
			make_deltas(t, 2 * smaller(PIECE, shard_length(t, k)));
			each_piece(t, NULL, copy_piece, shard_first(t, k), 0, shard_length(t, k));
		}
}

/* The caller has to flush. */
static char *onesided_end_round(struct table *t)
{
	struct onesided_state *h = AT(t);
	const int64_t in = h->round;
	char *wrong = onesided_wait_for(t, PUSHES, in);
	if (wrong)
		return wrong;
	size_t n = shard_length(t, t->among->rank), now = (size_t)(++h->round % 2);
	link_window_sync(h->window);
	if (!t->rules.lengths)
		memcpy(h->shard + (1 - now) * n, h->shard + now * n, n * sizeof(float));
	link_window_sync(h->window);
	if (!t->rules.lengths)
		copy_shards_of_gone(t, in);
	start_count_add(t, COPIES, &one);
	return NULL;
}

static void wait_while_too_far_ahead(struct table *t)
{
	nsec pause = REST_LEAST;
	while (is_too_far_ahead(t)) {
		read_counters(t, &pause);
		if (is_too_far_ahead(t))
			rest(t, &pause);
	}
}

/* ---- The placement's slots -------------------------------------------------------- */

/* One operation of this worker at a time: it uses the deltas, and the next one's staleness needs
 * its pull. If other workers wait for its pushes, the operation is done when start returns. */
static char *onesided_start(struct table *t, struct table_op *p)
{
	settle(t);
	if (op_pushes(p)) {
		/* the other copy of every shard has to be made before the next round's pushes */
		char *wrong =
			t->rules.rounds ? onesided_wait_for(t, COPIES, AT(t)->round - 1) : NULL;
		if (wrong)
			return wrong;
		if (t->rules.bounded && is_too_far_ahead(t))
			read_counters(t, &(nsec){0});
		p->read_later = p->out &&
				(t->rules.rounds || (t->rules.bounded && p->pull &&
						     p->kind != OP_ELASTIC && is_too_far_ahead(t)));
	}
	onesided_begin(t, p);
	if (op_pushes(p) && is_waited_for(t)) {
		settle(t);
		count_add(t, PUSHES, 1);
	}
	return NULL;
}

static char *onesided_wait(struct table *t, struct table_op *p)
{
	char *wrong = NULL;
	if (AT(t)->now == p)
		settle(t);
	if (!op_pushes(p))
		return NULL;
	if (t->rules.rounds)
		wrong = onesided_end_round(t);
	if (t->rules.bounded)
		wait_while_too_far_ahead(t);
	if (!wrong && t->rules.rounds && !p->read_later)
		link_window_flush(AT(t)->window, 0);
	return wrong;
}

static int64_t onesided_version(struct table *t)
{
	struct onesided_state *h = AT(t);
	int64_t version;
	link_window_count(h->window, 0, &zero, &version);
	link_window_flush(h->window, 0);
	return version;
}

static void leave_for_good(struct table *t)
{
	struct onesided_state *h = AT(t);
	if (is_waited_for(t) && !h->left)
		count_add(t, BARRIERS, MEMBER_GONE);
	h->left = true;
}

/* Rounds do not end without a worker that left one unfinished: it has not copied its shard. Back, a
 * worker reads the counters, because is_too_far_ahead with those from before the barrier could let
 * it continue. */
static void onesided_leave(struct table *t, enum leaving how)
{
	struct onesided_state *h = AT(t);
	if (how != BACK)
		settle(t);
	if (how == GONE && !t->incomplete)
		leave_for_good(t);
	if (how == AWAY && is_waited_for(t)) {
		count_add(t, BASE, t->pushes - h->base);
		h->base = t->pushes;
		count_add(t, BARRIERS, 1);
	}
	h->rounds.member[t->among->rank].passed += how == BACK;
	if (how == BACK && t->rules.bounded)
		read_counters(t, &(nsec){0});
}

static void onesided_close(struct table *t)
{
	struct onesided_state *h = AT(t);
	settle(t);
	leave_for_good(t);
	link_barrier(t->among->workers);
	link_window_free(h->window);
	if (!t->rules.lengths)
		free(h->delta);
	free(h->count);
	free(h->rounds.member);
	free(h);
}

const struct placement placement_onesided = {
	.name = "onesided",
	.preference = 1,
	.counts_versions = true,
	.only_adds = true, /* MPI lets only one kind of change be made to a float at a time */
	.refuse = onesided_refuse,
	.open = onesided_open,
	.close = onesided_close,
	.start = onesided_start,
	.wait = onesided_wait,
	.version = onesided_version,
	.leave = onesided_leave,
};
