/*
 * shared.c - tables whose shards lie in memory that the workers of one machine share, or in a GPU's
 * memory (placement gpu). The pushing worker itself applies its push, block by block (blocks.c).
 *
 * Cost of a sync: three reads and three writes a float. In rounds it is twice as many: the push and
 * the pull are separate passes, and a round begins with a copy.
 *
 * Rounds: there are two copies of W. Pushes of round i make copy i + 1 out of copy i, block by
 * block. If the updater is not additive, they first make the sum of the pushes there; the worker
 * that ends the round then applies it. When the last push is complete, the round ends, and all
 * workers read copy i + 1. No worker can still be reading the copy that round i + 1 overwrites,
 * because it has pushed in round i. The exception is a worker that the round did not wait for: it
 * checks the round's number again after reading.
 *
 * Recording: an operation holds the lock of a block until it has the next block's, from the first
 * block on. No operation can therefore overtake another, and every block sees the operations in the
 * same order. In rounds, drops, ends and the pulls between them are recorded under the monitor.
 */
#include "runtime/table/blocks.h"
#include "runtime/table/rounds.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct shared {
	_Alignas(64) atomic_llong version; /* pushes begun */
	atomic_llong
		counted; /* those of them that were not dropped; of merged pushes, the rounds */
	struct monitor monitor; /* guards the rest */
	int64_t replayed;       /* in a replay: recorded operations that have taken place */
	int64_t seq;            /* recorded operations; under the first block's lock */
	int latest;             /* the worker that broadcast last */
	struct round round;
	struct merged merged;
	struct member member[]; /* a worker uses its own part without the monitor */
};

struct shared_state {
	struct blocks blocks;
	struct shared *shared;
	struct rounds rounds;        /* uses shared's round and members */
	struct replay_cursor cursor; /* in a replay */
};

#define AT(t) ((struct shared_state *)(t)->at)

static struct member *me(struct table *t)
{
	return &AT(t)->rounds.member[t->among->rank];
}

static void shared_open(struct table *t, const float *init)
{
	struct tables *s = t->among;
	const struct table_rules *r = &t->rules;
	struct shared_state *h = t->at = must(calloc(1, sizeof *h));
	size_t members = (size_t)s->size * sizeof(struct member);
	h->shared = blocks_open(t, init, sizeof *h->shared + members);
	h->rounds = (struct rounds){.now = &h->shared->round,
				    .member = h->shared->member,
				    .size = s->size,
				    .backup = r->backup,
				    .joins = r->joins,
				    .grace = r->grace > 0 && !s->replay,
				    .lead = r->lead};
	h->cursor = replay_cursor(s->replay, t->id, 0);
	if (s->rank == 0)
		monitor_init(&h->shared->monitor);
	link_barrier(s->workers);
}

static void sleep_for(struct table *t, const char *what, nsec most)
{
	struct shared *s = AT(t)->shared;
	nsec since = clock_now();
	world_enter(what, -1);
	monitor_wait(&s->monitor, most);
	stats_spent(t->among->stats, TRACE_WAIT, since, s->latest);
}

/* Under the monitor: wakes the workers that wait for what this worker has done. */
static void broadcast(struct table *t)
{
	struct shared *s = AT(t)->shared;
	s->latest = t->among->rank;
	monitor_broadcast(&s->monitor);
}

static void shared_close(struct table *t)
{
	struct shared_state *h = AT(t);
	monitor_lock(&h->shared->monitor);
	rounds_leave(&h->rounds, t->among->rank);
	monitor_broadcast(&h->shared->monitor);
	monitor_unlock(&h->shared->monitor);
	blocks_close(t);
	free(h);
}

/* ---- Operations ------------------------------------------------------------------ */

/* Counts the staleness of a push, and the versions that a pull has seen. */
static void count_versions(struct table *t, struct table_op *p)
{
	struct shared *s = AT(t)->shared;
	int64_t before = atomic_fetch_add(&s->version, op_pushes(p));
	if (op_pushes(p) && !p->dropped && !rounds_merge(&t->rules))
		p->number = atomic_fetch_add(&s->counted, 1) + 1;
	op_versions(t, p, before);
}

/* An evaluation read (no pull) changes nothing and is not recorded. */
static bool is_recorded(struct table *t, const struct table_op *p)
{
	return !p->row && t->among->room && (p->pull || op_pushes(p));
}

/* In a replay: sleeps until operation p is the next in the recording, and returns its recorded
 * kind. No other worker's operation takes place before replay_advance. NULL: there is no order to
 * keep. */
static const char *replay_wait(struct table *t, const struct table_op *p)
{
	struct shared_state *h = AT(t);
	struct shared *s = h->shared;
	if (!h->cursor.arrival || !is_recorded(t, p))
		return NULL;
	monitor_lock(&s->monitor);
	while (!replay_due(&h->cursor, s->replayed, t->among->rank, &t->rules, &h->rounds, p))
		sleep_for(t, "its turn in the record", 0);
	const char *kind = replay_kind(&h->cursor, s->replayed);
	monitor_unlock(&s->monitor);
	return kind;
}

/* Under the monitor. */
static void replay_advance(struct table *t)
{
	struct shared *s = AT(t)->shared;
	if (!AT(t)->cursor.arrival)
		return;
	s->replayed++;
	monitor_broadcast(&s->monitor);
}

/* Versions are counted in the recorded order, so that the staleness follows from it. */
static void recorded_op(struct table *t, struct table_op *p)
{
	struct shared_state *h = AT(t);
	for (size_t i = 0; i < h->blocks.count; i++) {
		block_lock(t, i);
		if (i == 0) {
			count_versions(t, p);
			table_arrived(t, p, 0, h->shared->seq++);
		} else {
			block_unlock(t, i - 1);
		}
		block_apply(t, p, i);
	}
	block_unlock(t, h->blocks.count - 1);
	if (!h->cursor.arrival)
		return;
	monitor_lock(&h->shared->monitor);
	replay_advance(t);
	monitor_unlock(&h->shared->monitor);
}

static void shared_do_op(struct table *t, struct table_op *p)
{
	struct stats *stats = t->among->stats;
	nsec since = stats->trace ? clock_peek() : 0;
	if (is_recorded(t, p)) {
		recorded_op(t, p);
	} else {
		count_versions(t, p);
		blocks_apply(t, p);
	}
	table_charge(p, rounds_merge(&t->rules) ? updaters[UPDATER_add] : t->rules.updater,
		     op_floats(t, p), true);
	if (stats->trace && op_pushes(p) && !t->rules.counter)
		trace_add(stats->trace, TRACE_APPLY, since, clock_peek());
}

/* ---- Rounds and staleness bounds ----------------------------------------- */

/* Under the monitor: records an operation without a pass over the blocks; it took place now. p
 * NULL: a round has ended. */
static void record(struct table *t, const struct table_op *p)
{
	if (!t->among->room || (p && !is_recorded(t, p)))
		return;
	block_lock(t, 0);
	table_arrived(t, p, 0, AT(t)->shared->seq++);
	block_unlock(t, 0);
	replay_advance(t);
}

/* In a replay with backup workers a round ends at its recorded place. */
static bool may_end(struct table *t)
{
	struct shared_state *h = AT(t);
	return !h->cursor.arrival || t->rules.backup == 0 ||
	       strcmp(replay_kind(&h->cursor, h->shared->replayed), "round") == 0;
}

/* Under the monitor, when the round's last push is complete. */
static void shared_end_round(struct table *t)
{
	struct shared *s = AT(t)->shared;
	const struct table_op push = {.kind = OP_PUSH};
	bool merges = s->merged.pushes > 0;
	blocks_end_round(t, s->round.over, &s->merged,
			 merges ? atomic_fetch_add(&s->counted, 1) + 1 : 0);
	if (merges)
		table_charge(&push, rules_of_end(&t->rules).updater, t->n, false);
	s->merged = (struct merged){0};
	rounds_end(&AT(t)->rounds);
	if (t->rules.backup > 0) /* then the pushes do not show where the round ended */
		record(t, NULL);
	monitor_broadcast(&s->monitor);
}

static void push_in_round(struct table *t, struct table_op *p)
{
	struct shared_state *h = AT(t);
	struct shared *s = h->shared;
	int rank = t->among->rank;
	replay_wait(t, p);
	monitor_lock(&s->monitor);
	p->dropped = replay_drops(&h->cursor, s->replayed, rounds_late(&h->rounds, rank),
				  rounds_full(&h->rounds));
	p->round = rounds_push(&h->rounds, rank, !p->dropped, p->by.idle);
	me(t)->pushes = t->pushes;
	if (p->dropped)
		record(t, p);
	else if (rounds_merge(&t->rules))
		merged_add(&s->merged, &p->by, !p->row, rank);
	monitor_unlock(&s->monitor);
	if (p->dropped) {
		count_versions(t, p);
		return;
	}
	shared_do_op(t, p);
	monitor_lock(&s->monitor);
	s->round.applied++;
	broadcast(t);
	monitor_unlock(&s->monitor);
}

/* Sleeps until a push comes, at most until the end of the round's grace, which begins now if it has
 * not. */
static void wait_in_grace(struct table *t)
{
	struct shared *s = AT(t)->shared;
	nsec now = clock_now();
	if (s->round.until == 0)
		s->round.until = now + t->rules.grace;
	s->round.waited = now >= s->round.until;
	if (!s->round.waited)
		sleep_for(t, "others' pushes", s->round.until - now);
}

/* Sleeps until the given round has ended; this worker is then in the next. */
static char *wait_for_round(struct table *t, int64_t round)
{
	struct shared_state *h = AT(t);
	struct shared *s = h->shared;
	char *wrong = NULL;
	enum round_state state;
	int away;
	monitor_lock(&s->monitor);
	while (!wrong &&
	       (state = rounds_state(&h->rounds, round, t->among->rank, &away)) != ROUND_OVER) {
		if (state == ROUND_INCOMPLETE)
			wrong = table_incomplete(t, away, h->rounds.member[away].pushes);
		else if (state == ROUND_FULL && may_end(t))
			shared_end_round(t);
		else if (state == ROUND_GRACE)
			wait_in_grace(t);
		else
			sleep_for(t, "others' pushes", 0);
	}
	me(t)->in = s->round.over;
	monitor_unlock(&s->monitor);
	return wrong;
}

/* After a read. False: a later round, which did not wait for this worker, may have overwritten what
 * it read. */
static bool was_newest(struct table *t, const struct table_op *read)
{
	struct shared *s = AT(t)->shared;
	if (t->rules.backup == 0 && !t->among->room)
		return true;
	monitor_lock(&s->monitor);
	bool newest = t->rules.backup == 0 || s->round.over == read->round;
	if (newest)
		record(t, read);
	monitor_unlock(&s->monitor);
	return newest;
}

/* Reads the copy of the newest round. */
static void read_in_round(struct table *t, struct table_op *p)
{
	struct shared *s = AT(t)->shared;
	replay_wait(t, p);
	do {
		monitor_lock(&s->monitor);
		p->round = s->round.over;
		monitor_unlock(&s->monitor);
		count_versions(t, p);
		blocks_apply(t, p);
		table_charge(p, t->rules.updater, op_floats(t, p), true);
	} while (!was_newest(t, p));
	if (p->pull) /* an evaluation read joins no round */
		me(t)->in = p->round;
}

static bool is_too_far_ahead(struct table *t)
{
	return rounds_too_far_ahead(&AT(t)->rounds, t->among->rank, t->pushes);
}

/* In a replay: as recorded. */
static bool may_pull_too(struct table *t, const struct table_op *p)
{
	struct shared *s = AT(t)->shared;
	const char *recorded = replay_wait(t, p);
	if (recorded)
		return strcmp(recorded, "sync") == 0;
	monitor_lock(&s->monitor);
	bool go = !is_too_far_ahead(t);
	monitor_unlock(&s->monitor);
	return go;
}

/* Tells the other workers that a push is complete; sleeps while this worker is too far ahead. */
static void wait_while_too_far_ahead(struct table *t)
{
	struct shared *s = AT(t)->shared;
	monitor_lock(&s->monitor);
	me(t)->pushes = t->pushes;
	broadcast(t);
	while (is_too_far_ahead(t))
		sleep_for(t, "others' pushes", 0);
	monitor_unlock(&s->monitor);
}

/* ---- The placement's slots ------------------------------------------------------- */

/* With a staleness bound, a push may pull in the same operation if the slowest worker was near
 * enough before it; otherwise the pull comes after the wait. */
static char *shared_start(struct table *t, struct table_op *p)
{
	if (t->rules.rounds && op_pushes(p)) {
		p->read_later = p->out != NULL;
		push_in_round(t, p);
	} else if (t->rules.rounds) {
		read_in_round(t, p);
	} else {
		if (t->rules.bounded && op_pushes(p))
			p->read_later = !may_pull_too(t, p) && p->out;
		else
			replay_wait(t, p);
		shared_do_op(t, p);
	}
	return NULL;
}

static char *shared_wait(struct table *t, struct table_op *p)
{
	char *wrong = NULL;
	if (!op_pushes(p))
		return NULL;
	/* in a replay, the pull after a dropped push waits for its recorded place instead */
	if (t->rules.rounds && !(p->dropped && AT(t)->cursor.arrival))
		wrong = wait_for_round(t, p->round);
	if (t->rules.bounded)
		wait_while_too_far_ahead(t);
	return wrong;
}

static int64_t shared_version(struct table *t)
{
	return (int64_t)atomic_load(&AT(t)->shared->version);
}

static void shared_keep(struct table *t, enum keeps what, float *x, bool put)
{
	const struct blocks *b = &AT(t)->blocks;
	atomic_llong *counted = &AT(t)->shared->counted;
	CHECK(what != KEEPS_OWN, "workers have their own themselves");
	if (what != KEEPS_T)
		floats_move(b->dev, what == KEEPS_MORE ? b->more : b->state, x, t->n, put);
	else if (put)
		atomic_store(counted, (long long)x[0]);
	for (size_t i = 0; what == KEEPS_T && !put && i < t->n; i++)
		x[i] = (float)atomic_load(counted);
}

static void shared_leave(struct table *t, enum leaving how)
{
	struct shared_state *h = AT(t);
	monitor_lock(&h->shared->monitor);
	if (how == BACK)
		rounds_resume(&h->rounds, t->among->rank);
	else if (how == AWAY)
		rounds_arrive(&h->rounds, t->among->rank);
	else
		rounds_leave(&h->rounds, t->among->rank);
	if (how != BACK)
		broadcast(t);
	monitor_unlock(&h->shared->monitor);
}

#define SLOTS \
	.keeps_order = true, .counts_versions = true, .in_shared_memory = true, \
	.open = shared_open, .close = shared_close, .start = shared_start, .wait = shared_wait, \
	.version = shared_version, .keep = shared_keep, .leave = shared_leave

const struct placement placement_shared = {.name = "shared", .preference = 2, SLOTS};
const struct placement placement_gpu = {
	.name = "gpu", .preference = 3, .floats_on_device = true, .reaches = blocks_map, SLOTS};
