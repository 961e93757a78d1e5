/*
 * table_shared.c - tables whose shards lie in memory that the workers of one machine share. The
 * pushing worker itself applies what it pushes.
 *
 * A push and a pull are one pass over the floats, block by block, each block under its own lock.
 * Each worker begins at its own shard, and leaves blocks that somebody else holds for later: so
 * workers meet only where they have nothing else to do, and then the later one sleeps; nobody
 * spins. Cost of a sync: three reads and three writes a float; in rounds, where the push and the
 * pull are a pass each and a round begins with a copy, twice as many.
 *
 * Rounds: there are two copies of W. Pushes of round i make copy i + 1 out of copy i, block by
 * block; when the last one is through, the round ends, and all read copy i + 1. No worker can still
 * be reading the copy that round i + 1 overwrites, as it has to have pushed in round i; only those
 * that a round does not wait for can, and they look at the round's number again after reading.
 *
 * In a GPU's memory (placement gpu) lie the floats alone, which all workers map; locks and counters
 * stay where processors reach them. One block is the whole table, so that an operation is one lock
 * and one kernel, and the time it takes is the kernel's start, not its floats: others look for the
 * lock a little while before they sleep, if there is a core for everybody.
 *
 * Recording: operations hold the lock of a block until they have the next one's, from the first
 * block on. So nobody overtakes, and every block has seen the operations in the same order. In
 * rounds, drops, ends and the pulls between them are recorded under the monitor.
 */
#include "runtime/table/wire.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK_MOST = 8192, BLOCK_LEAST = 1024 }; /* floats under one lock */

static const nsec look_ns = 200000; /* for the lock of a GPU's table: what some operations take */

/* What the others must know of a worker. */
struct worker_state {
	int64_t pushes;
	int64_t round;    /* of its last push, -1 = none yet */
	int64_t barriers; /* that it has come to */
};

struct shared {
	_Alignas(64) atomic_llong version; /* pushes begun */
	struct monitor monitor;            /* guards what follows */
	int64_t round;                     /* rounds that are over */
	int64_t started;                   /* pushes of the round under way that count, */
	int64_t applied;                   /* and those that are through */
	int64_t replayed; /* of a replay: operations of the record that have taken place */
	int64_t seq;      /* recorded operations; under the first block's lock */
	int latest;       /* the worker that others were called for last */
};

/* One a line of the cache, so that neighbours do not disturb each other. */
struct lock {
	_Alignas(64) pthread_mutex_t mutex;
};

/* What is done with the table's floats, where they are; done on return. */
struct floats {
	void (*apply)(const struct table *t, const struct table_op *p, float *w, float *state,
		      float *own, float *pulled, const float *in, float *out, size_t n);
	void (*copy)(const struct table *t, float *to, const float *from, size_t n);
	bool far; /* in a GPU's memory */
};

struct shared_state {
	const struct floats *floats;
	void *handle;
	struct shared *shared;
	struct worker_state *worker;
	struct lock *lock; /* [blocks] */
	int64_t *made;     /* [blocks] with rounds: the round that this block's new copy is of */
	float *w[2];       /* shared [n]; the second with rounds only */
	float *state;      /* shared [n], NULL when the updater keeps none */
	size_t block, blocks;
	struct replay_cursor cursor; /* of a replay */
	size_t *later;               /* [blocks] */
	nsec look;                   /* for a lock, before sleeping */
	int64_t round;               /* that this worker is in */
	int64_t barriers;            /* that this worker has passed */
};

#define AT(t) ((struct shared_state *)(t)->at)

static size_t up(size_t bytes)
{
	return (bytes + 63) & ~(size_t)63;
}

/* Small enough that workers find free blocks, large enough that locking costs little. */
static size_t block_size(size_t n, int workers)
{
	size_t block = BLOCK_MOST;
	while (block > BLOCK_LEAST && n / block < 8 * (size_t)workers)
		block /= 2;
	return block;
}

/* Each vector of the table begins a line of the cache. */
static size_t stride(size_t n)
{
	return up(n * sizeof(float)) / sizeof(float);
}

static size_t control_bytes(const struct shared_state *h, int workers, bool rounds)
{
	return up(sizeof(struct shared)) + up((size_t)workers * sizeof(struct worker_state)) +
	       up(h->blocks * sizeof(struct lock)) + up(rounds ? h->blocks * sizeof(int64_t) : 0);
}

static void lay_out(struct shared_state *h, char *at, int workers, bool rounds)
{
	h->shared = (void *)at;
	at += up(sizeof(struct shared));
	h->worker = (void *)at;
	at += up((size_t)workers * sizeof(struct worker_state));
	h->lock = (void *)at;
	at += up(h->blocks * sizeof(struct lock));
	h->made = rounds ? (void *)at : NULL;
}

static size_t vectors(const struct table_rules *r)
{
	return 1 + (size_t)r->rounds + (size_t)r->updater->state;
}

static void lay_out_floats(struct table *t, float *at)
{
	struct shared_state *h = t->at;
	const struct table_rules *r = &t->rules;
	h->w[0] = at;
	h->w[1] = r->rounds ? at + stride(t->n) : NULL;
	h->state = r->updater->state ? at + (vectors(r) - 1) * stride(t->n) : NULL;
}

static void make_locks(struct shared_state *h)
{
	pthread_mutexattr_t mutex;
	pthread_mutexattr_init(&mutex);
	pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
	for (size_t i = 0; i < h->blocks; i++)
		pthread_mutex_init(&h->lock[i].mutex, &mutex);
	pthread_mutexattr_destroy(&mutex);
	monitor_init(&h->shared->monitor);
}

/* n floats of rank 0's device, zeroed, mapped by all; NULL on a rank that cannot. */
static float *gpu_floats_new(struct tables *s, size_t n)
{
	struct device *d = s->dev;
	unsigned char handle[PEER_HANDLE_BYTES] = {0};
	float *x = s->rank == 0 ? d->ops->peer->shared_new(d, n, handle) : NULL;
	link_broadcast(s->workers, 0, handle, sizeof handle);
	if (s->rank != 0)
		return d->ops->peer->shared_map(d, handle);
	d->bytes += n * sizeof *x;
	return x;
}

static void gpu_floats_free(struct tables *s, float *x, size_t n)
{
	struct device *d = s->dev;
	if (s->rank != 0 && x)
		d->ops->peer->shared_unmap(d, x);
	link_barrier(s->workers); /* nobody maps what is freed now */
	if (s->rank == 0)
		d->bytes -= n * sizeof *x;
	if (s->rank == 0 && x)
		d->ops->peer->shared_free(d, x);
}

bool placement_gpu_maps(struct tables *s)
{
	float *x = gpu_floats_new(s, 1);
	double all = x != NULL;
	link_reduce_all(s->workers, &all, 1, REDUCE_MIN);
	gpu_floats_free(s, x, 1);
	return all > 0;
}

static const struct floats host_floats, no_floats, gpu_floats;

static void open_with(struct table *t, const float *init, const struct floats *floats)
{
	struct tables *s = t->among;
	const struct table_rules *r = &t->rules;
	struct shared_state *h = must(calloc(1, sizeof *h));
	size_t parts = (size_t)s->size, rank = (size_t)s->rank, n = vectors(r) * stride(t->n);
	t->at = h;
	h->floats = floats;
	h->block = floats == &host_floats ? block_size(t->n, s->size) : t->n;
	h->blocks = (t->n + h->block - 1) / h->block;
	h->look = floats->far && usable_cores() >= s->size ? look_ns : 0;
	h->later = must(calloc(h->blocks + 1, sizeof *h->later));
	h->cursor = replay_cursor(s->replay, t->id, 0);
	size_t control = control_bytes(h, s->size, r->rounds);
	bool near = floats == &host_floats;
	char *at =
		link_shared_new(s->workers, control + (near ? n * sizeof(float) : 0), &h->handle);
	lay_out(h, at, s->size, r->rounds);
	lay_out_floats(t, floats->far ? gpu_floats_new(s, n)
			  : near      ? (void *)(at + control)
				      : link_nowhere());
	CHECK(h->w[0], "the GPU memory of worker 0 could be mapped, and now cannot be");
	t->own_first = part_of(t->n, parts, rank);
	t->own_end = part_of(t->n, parts, rank + 1);
	if (rank == 0)
		make_locks(h);
	if (init && near) /* its own shard, so that it lies in memory near the worker */
		memcpy(h->w[0] + t->own_first, init + t->own_first,
		       (t->own_end - t->own_first) * sizeof(float));
	if (init && floats->far && rank == 0)
		s->dev->ops->put(s->dev, h->w[0], init, t->n);
	h->worker[rank].round = -1;
	link_barrier(s->workers);
}

static void shared_close(struct table *t)
{
	struct shared_state *h = AT(t);
	monitor_lock(&h->shared->monitor);
	h->worker[t->among->rank].barriers = INT64_MAX; /* no push of mine will come */
	monitor_broadcast(&h->shared->monitor);
	monitor_unlock(&h->shared->monitor);
	if (h->floats->far)
		gpu_floats_free(t->among, h->w[0], vectors(&t->rules) * stride(t->n));
	else
		link_barrier(t->among->workers);
	link_shared_free(h->shared, h->handle);
	free(h->later);
	free(h);
}

/* ---- Floats of the host, and of a GPU -------------------------------------------- */

static void host_apply(const struct table *t, const struct table_op *p, float *w, float *state,
		       float *own, float *pulled, const float *in, float *out, size_t n)
{
	table_apply(&t->rules, p, w, state, own, pulled, in, out, n);
}

static void host_copy(const struct table *t, float *to, const float *from, size_t n)
{
	(void)t;
	memcpy(to, from, n * sizeof *to);
}

static void gpu_apply(const struct table *t, const struct table_op *p, float *w, float *state,
		      float *own, float *pulled, const float *in, float *out, size_t n)
{
	struct device *d = t->among->dev;
	d->ops->peer->apply(d, &t->rules, p, w, state, own, pulled, in, out, n);
}

static void gpu_copy(const struct table *t, float *to, const float *from, size_t n)
{
	struct device *d = t->among->dev;
	d->ops->copy(d, to, from, n);
	device_sync(d);
}

static const struct floats host_floats = {.apply = host_apply, .copy = host_copy};
static void no_apply(const struct table *t, const struct table_op *p, float *w, float *state,
		     float *own, float *pulled, const float *in, float *out, size_t n)
{
	(void)t, (void)p, (void)w, (void)state, (void)own, (void)pulled, (void)in, (void)out;
	(void)n;
}

static void no_copy(const struct table *t, float *to, const float *from, size_t n)
{
	(void)t, (void)to, (void)from, (void)n;
}

static const struct floats no_floats = {.apply = no_apply, .copy = no_copy};
static const struct floats gpu_floats = {.apply = gpu_apply, .copy = gpu_copy, .far = true};

static void shared_open(struct table *t, const float *init)
{
	open_with(t, init, t->rules.lengths ? &no_floats : &host_floats);
}

static void gpu_open(struct table *t, const float *init)
{
	open_with(t, init, &gpu_floats);
}

/* ---- One pass over the blocks ------------------------------------------------- */

static bool look_for(pthread_mutex_t *m, nsec until)
{
	while (clock_now() < until) {
		if (pthread_mutex_trylock(m) == 0)
			return true;
		sched_yield();
	}
	return false;
}

static void lock_or_sleep(struct table *t, size_t block)
{
	pthread_mutex_t *m = &AT(t)->lock[block].mutex;
	if (pthread_mutex_trylock(m) == 0)
		return;
	nsec since = clock_now();
	if (!look_for(m, since + AT(t)->look))
		pthread_mutex_lock(m);
	nsec now = clock_now();
	t->among->stats->wait += now - since;
	traced(t->among->stats, TRACE_WAIT, since, now, -1);
}

static void unlock(struct table *t, size_t block)
{
	pthread_mutex_unlock(&AT(t)->lock[block].mutex);
}

/* Floats first .. first + n - 1 of the table, within block i whose lock is held; offset: of them in
 * the operation's own memory. */
static void do_floats(struct table *t, const struct table_op *p, size_t i, size_t first, size_t n,
		      size_t offset)
{
	struct shared_state *h = AT(t);
	float *w = h->w[0];
	if (t->rules.rounds) {
		w = h->w[p->round % 2];
		if (op_pushes(p)) {
			float *next = h->w[(p->round + 1) % 2];
			size_t start = i * h->block,
			       end = start + h->block < t->n ? start + h->block : t->n;
			if (h->made[i] != p->round + 1)
				h->floats->copy(t, next + start, w + start, end - start);
			h->made[i] = p->round + 1;
			w = next;
		}
	}
	h->floats->apply(t, p, w + first, part(h->state, first), part(t->own, first),
			 part(t->pulled, first), p->in ? p->in + offset : NULL,
			 part(p->out, offset), n);
}

static void do_block(struct table *t, const struct table_op *p, size_t i)
{
	struct shared_state *h = AT(t);
	size_t first = i * h->block, n = t->n - first < h->block ? t->n - first : h->block;
	do_floats(t, p, i, first, n, first);
}

static void whole_op(struct table *t, const struct table_op *p)
{
	struct shared_state *h = AT(t);
	size_t begin = t->own_first / h->block, n = 0;
	for (size_t k = 0; k < h->blocks; k++) {
		size_t i = (begin + k) % h->blocks;
		if (pthread_mutex_trylock(&h->lock[i].mutex) != 0) {
			h->later[n++] = i;
			continue;
		}
		do_block(t, p, i);
		unlock(t, i);
	}
	for (size_t k = 0; k < n; k++) {
		size_t i = h->later[k];
		lock_or_sleep(t, i);
		do_block(t, p, i);
		unlock(t, i);
	}
}

/* What a push met, and what a pull has seen. */
static void count_versions(struct table *t, struct table_op *p)
{
	atomic_llong *version = &AT(t)->shared->version;
	int64_t before = atomic_fetch_add(version, op_pushes(p));
	if (op_pushes(p))
		p->staleness = t->rules.rounds ? 0 : before - t->seen;
	p->flow = op_pushes(p) ? before + 1 : 0;
	if (p->pull)
		t->seen = before + op_pushes(p);
	else if (op_pushes(p))
		t->seen++; /* its own push is not foreign */
}

/* Reading for an evaluation (no pull) is not recorded: it changes nothing. */
static bool is_recorded(struct table *t, const struct table_op *p)
{
	return !p->row && t->among->room && (p->pull || op_pushes(p));
}

/* Under the monitor. Has worker k come to a barrier that this worker has not passed? */
static bool is_away(struct table *t, int k)
{
	return AT(t)->worker[k].barriers > AT(t)->barriers;
}

static void sleep_for(struct table *t, const char *what)
{
	struct shared *s = AT(t)->shared;
	nsec since = clock_now();
	world_enter(what, -1);
	monitor_wait(&s->monitor);
	nsec now = clock_now();
	t->among->stats->wait += now - since;
	traced(t->among->stats, TRACE_WAIT, since, now, s->latest);
}

/* Under the monitor: wakes those who wait for what this worker has done. */
static void call_others(struct table *t)
{
	struct shared *s = AT(t)->shared;
	s->latest = t->among->rank;
	monitor_broadcast(&s->monitor);
}

/* In a replay: sleeps until operation p is the next of the record, and returns what the record
 * calls it. Nobody else's operation takes place until replay_advance. NULL: no order is kept. */
static const char *replay_wait(struct table *t, const struct table_op *p)
{
	struct shared_state *h = AT(t);
	struct shared *s = h->shared;
	const struct replay_cursor *cursor = &h->cursor;
	if (!cursor->arrival || !is_recorded(t, p))
		return NULL;
	monitor_lock(&s->monitor);
	while (!replay_due(cursor, s->replayed, t->among->rank, &t->rules, p)) {
		if (is_away(t, cursor->arrival[s->replayed].worker) &&
		    strcmp(replay_kind(cursor, s->replayed), "round") != 0)
			replay_stuck(cursor, s->replayed, t->among->rank);
		sleep_for(t, "its turn in the record");
	}
	const char *kind = replay_kind(cursor, s->replayed);
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

/* Versions are counted in the order that is recorded, so that what a push met follows from it. */
static void recorded_op(struct table *t, struct table_op *p)
{
	struct shared_state *h = AT(t);
	for (size_t i = 0; i < h->blocks; i++) {
		lock_or_sleep(t, i);
		if (i == 0) {
			count_versions(t, p);
			table_arrived(t, p, 0, h->shared->seq++);
		} else {
			unlock(t, i - 1);
		}
		do_block(t, p, i);
	}
	unlock(t, h->blocks - 1);
	if (!h->cursor.arrival)
		return;
	monitor_lock(&h->shared->monitor);
	replay_advance(t);
	monitor_unlock(&h->shared->monitor);
}

static void row_op(struct table *t, const struct table_op *p)
{
	struct shared_state *h = AT(t);
	for (size_t k = 0; k < op_pieces(p); k++) {
		size_t at, left, offset;
		op_piece(t, p, k, &at, &left, &offset);
		while (left) {
			size_t i = at / h->block, n = (i + 1) * h->block - at;
			n = n < left ? n : left;
			lock_or_sleep(t, i);
			do_floats(t, p, i, at, n, offset);
			unlock(t, i);
			at += n;
			offset += n;
			left -= n;
		}
	}
}

static void walk(struct table *t, const struct table_op *p)
{
	if (p->row)
		row_op(t, p);
	else
		whole_op(t, p);
}

static void do_op(struct table *t, struct table_op *p)
{
	struct stats *stats = t->among->stats;
	nsec since = stats->trace ? clock_peek() : 0;
	if (is_recorded(t, p)) {
		recorded_op(t, p);
	} else {
		count_versions(t, p);
		walk(t, p);
	}
	world_charge_op(p, op_floats(t, p), true);
	if (stats->trace && op_pushes(p))
		trace_add(stats->trace, TRACE_APPLY, since, clock_peek());
}

/* ---- Rounds and leads ----------------------------------------------------------- */

/* Under the monitor: notes what is no walk over the blocks; it took place now. p NULL: a round has
 * ended. */
static void record(struct table *t, const struct table_op *p)
{
	if (!t->among->room || (p && !is_recorded(t, p)))
		return;
	lock_or_sleep(t, 0);
	table_arrived(t, p, 0, AT(t)->shared->seq++);
	unlock(t, 0);
	replay_advance(t);
}

/* Under the monitor: so many pushes end this round. Fewer than it should be when backup workers are
 * left to themselves, as the others stand at a barrier already. */
static int64_t needed_pushes(struct table *t, int *away)
{
	struct shared_state *h = AT(t);
	int64_t possible = h->shared->started, needed = t->among->size - t->rules.backup;
	*away = -1;
	for (int k = 0; k < t->among->size; k++) {
		bool gone = is_away(t, k);
		if (gone && (*away < 0 || h->worker[k].pushes < h->worker[*away].pushes))
			*away = k; /* the one to name */
		possible += !gone && h->worker[k].round < h->shared->round;
	}
	return possible < needed ? possible : needed;
}

/* Under the monitor, the round's last push is through: blocks that nobody pushed to (there are such
 * only where rows are pushed) go over as they are. */
static void end_round(struct table *t)
{
	struct shared_state *h = AT(t);
	struct shared *s = h->shared;
	for (size_t i = 0; i < h->blocks; i++) {
		size_t first = i * h->block, n = t->n - first < h->block ? t->n - first : h->block;
		if (h->made[i] != s->round + 1)
			h->floats->copy(t, h->w[(s->round + 1) % 2] + first,
					h->w[s->round % 2] + first, n);
		h->made[i] = s->round + 1;
	}
	s->round++;
	s->started = s->applied = 0;
	if (t->rules.backup > 0) /* then it is not known from the pushes */
		record(t, NULL);
	monitor_broadcast(&s->monitor);
}

/* In a replay with backup workers a round ends when it did. */
static bool may_end(struct table *t)
{
	struct shared_state *h = AT(t);
	return !h->cursor.arrival || t->rules.backup == 0 ||
	       strcmp(replay_kind(&h->cursor, h->shared->replayed), "round") == 0;
}

/* Under the monitor: ends this round if it can. NULL, or why it never will. */
static char *look_for_end(struct table *t, int64_t round)
{
	struct shared_state *h = AT(t);
	int away;
	int64_t needed = needed_pushes(t, &away);
	if (h->shared->round != round)
		return NULL;
	if (t->rules.backup == 0 && needed < t->among->size)
		return table_incomplete(t, away, h->worker[away].pushes);
	if (h->shared->applied >= needed && may_end(t))
		end_round(t);
	return NULL;
}

/* What a push does before the wait when its pull comes after it: what stands in W then is not yet
 * to be seen. A sync's out is also what it pushes. */
static struct table_op push_alone(const struct table_op *p)
{
	struct table_op push = *p;
	if (p->kind == OP_PUSH)
		push.out = NULL;
	push.pull = false;
	return push;
}

static void push_in_round(struct table *t, struct table_op *p)
{
	struct shared_state *h = AT(t);
	struct shared *s = h->shared;
	struct worker_state *me = &h->worker[t->among->rank];
	struct table_op push = push_alone(p);
	const char *recorded = replay_wait(t, p);
	monitor_lock(&s->monitor);
	p->dropped =
		recorded ? strcmp(recorded, "drop") == 0
			 : h->round != s->round || s->started == t->among->size - t->rules.backup;
	if (recorded && !p->dropped && h->round != s->round)
		replay_misfit(&h->cursor, s->replayed);
	me->round = p->round = push.round = h->round;
	me->pushes = t->pushes;
	s->started += !p->dropped;
	if (p->dropped)
		record(t, p);
	monitor_unlock(&s->monitor);
	if (p->dropped) {
		count_versions(t, &push);
		return;
	}
	do_op(t, &push);
	p->flow = push.flow;
	monitor_lock(&s->monitor);
	s->applied++;
	call_others(t);
	monitor_unlock(&s->monitor);
}

/* Sleeps until the round is over that was pushed in; this worker is then in the next. */
static char *wait_for_round(struct table *t, int64_t round)
{
	struct shared_state *h = AT(t);
	struct shared *s = h->shared;
	char *wrong = NULL;
	monitor_lock(&s->monitor);
	while (!(wrong = look_for_end(t, round)) && s->round == round)
		sleep_for(t, "others' pushes");
	h->round = s->round;
	monitor_unlock(&s->monitor);
	return wrong;
}

static int64_t rounds_over(struct table *t)
{
	struct shared *s = AT(t)->shared;
	monitor_lock(&s->monitor);
	int64_t round = s->round;
	monitor_unlock(&s->monitor);
	return round;
}

/* After a read. False: a later round may have written into what it read; it can when it does not
 * wait for this worker. */
static bool was_newest(struct table *t, const struct table_op *read)
{
	struct shared *s = AT(t)->shared;
	if (t->rules.backup == 0 && !t->among->room)
		return true;
	monitor_lock(&s->monitor);
	bool newest = t->rules.backup == 0 || s->round == read->round;
	if (newest)
		record(t, read);
	monitor_unlock(&s->monitor);
	return newest;
}

/* Reads the newest round's copy. */
static void read_in_round(struct table *t, const struct table_op *p)
{
	struct table_op read = *p;
	read.kind = OP_READ;
	read.dropped = read.read_later = false;
	replay_wait(t, &read);
	do {
		read.round = rounds_over(t);
		count_versions(t, &read);
		walk(t, &read);
		world_charge_op(&read, op_floats(t, &read), true);
	} while (!was_newest(t, &read));
	AT(t)->round = read.round;
}

/* Under the monitor: is this worker too far ahead, with the push at hand? */
static bool leads(struct table *t)
{
	for (int k = 0; k < t->among->size; k++)
		if (k != t->among->rank && !is_away(t, k) &&
		    t->pushes - AT(t)->worker[k].pushes > t->rules.lead)
			return true;
	return false;
}

/* In a replay, as the record has it. */
static bool may_pull_too(struct table *t, const struct table_op *p)
{
	struct shared *s = AT(t)->shared;
	const char *recorded = replay_wait(t, p);
	if (recorded)
		return strcmp(recorded, "sync") == 0;
	monitor_lock(&s->monitor);
	bool go = !leads(t);
	monitor_unlock(&s->monitor);
	return go;
}

/* Tells the others of a push that is through, and sleeps while this worker is too far ahead. */
static void keep_lead(struct table *t)
{
	struct shared *s = AT(t)->shared;
	monitor_lock(&s->monitor);
	AT(t)->worker[t->among->rank].pushes = t->pushes;
	call_others(t);
	while (leads(t))
		sleep_for(t, "others' pushes");
	monitor_unlock(&s->monitor);
}

/* ---- The placement's slots -------------------------------------------------------- */

/* With a bounded lead, a pull in the same operation shows all that the bound promises if the
 * slowest was near enough before it; if not, the pull comes after the wait. */
static char *shared_start(struct table *t, struct table_op *p)
{
	p->dropped = p->read_later = false;
	p->staleness = 0;
	t->pushes += op_pushes(p);
	if (t->rules.rounds && op_pushes(p)) {
		p->read_later = p->out != NULL;
		push_in_round(t, p);
	} else if (t->rules.rounds) {
		read_in_round(t, p);
	} else if (t->rules.bounded && op_pushes(p) && !may_pull_too(t, p)) {
		p->read_later = p->out != NULL;
		struct table_op push = push_alone(p);
		do_op(t, &push);
		p->staleness = push.staleness;
		p->flow = push.flow;
	} else {
		replay_wait(t, p);
		do_op(t, p);
	}
	return NULL;
}

static char *shared_wait(struct table *t, struct table_op *p)
{
	struct table_op read = *p;
	char *wrong = NULL;
	if (!op_pushes(p))
		return NULL;
	if (t->rules.rounds)
		wrong = wait_for_round(t, p->round);
	if (t->rules.bounded)
		keep_lead(t);
	if (wrong || !p->read_later)
		return wrong;
	read.kind = OP_READ;
	read.read_later = false;
	if (t->rules.rounds) {
		read_in_round(t, p);
	} else {
		replay_wait(t, &read);
		do_op(t, &read);
	}
	return NULL;
}

static int64_t shared_version(struct table *t)
{
	return (int64_t)atomic_load(&AT(t)->shared->version);
}

static void shared_flush(struct table *t)
{
	struct shared_state *h = AT(t);
	monitor_lock(&h->shared->monitor);
	h->worker[t->among->rank].barriers++;
	call_others(t);
	monitor_unlock(&h->shared->monitor);
}

/* Stragglers may have ended rounds while this worker stood at the barrier. */
static void shared_resume(struct table *t)
{
	AT(t)->barriers++;
	AT(t)->round = rounds_over(t);
}

const struct placement placement_shared = {
	.name = "shared",
	.open = shared_open,
	.close = shared_close,
	.start = shared_start,
	.wait = shared_wait,
	.version = shared_version,
	.flush = shared_flush,
	.resume = shared_resume,
};

const struct placement placement_gpu = {
	.name = "gpu",
	.open = gpu_open,
	.close = shared_close,
	.start = shared_start,
	.wait = shared_wait,
	.version = shared_version,
	.flush = shared_flush,
	.resume = shared_resume,
};
