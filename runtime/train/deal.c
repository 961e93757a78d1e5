/*
 * deal.c - which mini-batches of an epoch a trainer takes.
 *
 * An epoch's permutation of the training set is drawn from the seed, equal on all ranks, and cut
 * into S R mini-batches for R replicas, S = ceil(n / (R B)): step s has the s-th of S parts, and
 * its r-th of R parts is mini-batch s R + r. No row is dropped; mini-batches differ by one row at
 * most; and those of a step together are what one worker with batch R B sees.
 *
 *   static    each replica takes one of every step. If these differ in rows, they go round: no
 *             replica always has fewer rows, or none
 *   dynamic   an idle worker takes the next unassigned ones, by a counter that all workers share
 *             and that continues over epochs; an epoch ends when all its mini-batches are done
 *
 * A worker takes as many at once as it trains between two exchanges: the counter, a push of one
 * float, then costs no more messages than they do. It takes at most 1 / (4 N) of the rest; the last
 * mini-batches are therefore taken one by one.
 *
 * With --split=fixed, dirichlet or dirichlet_classes a replica has its own rows (shards.c), the
 * same number as static assignment gives it. Static: it takes them step by step. Dynamic: the
 * counter only says how many mini-batches of the epoch are left, and how many rows this one has.
 * The worker takes the next rows of its shard. A shard that ends begins again in the order of its
 * next pass. A fast worker therefore makes more passes in an epoch than a slow one.
 *
 * A push that arrives after its round (backup workers) is dropped. With dynamic assignment its
 * mini-batches return to a pool that the workers share. A worker that finds no other mini-batch of
 * the epoch takes one from there. A slow one leaves its own to the others. A worker that ends its
 * epoch counts itself in the pool, and then reads what the pool contains. The last one to do so
 * misses nothing, and takes what is left.
 *
 * A slow worker would be the last to finish if it took one of the last mini-batches. It gives that
 * to the pool, too, and ends its epoch (leaves_rest).
 */
#include "runtime/config/config.h"
#include "runtime/config/schedule.h"
#include "runtime/train/trainer.h"

#include <stdlib.h>
#include <string.h>

struct draws {
	int64_t *first, n; /* [n + 1] draw i: mini-batches first[i] .. first[i + 1] - 1 */
};

struct dealing {
	struct shards *shards;    /* NULL: rows are assigned again in every epoch */
	struct counts *counter;   /* NULL: static */
	struct draws whole, last; /* of the last epoch, which may be shorter; otherwise the same */
	int64_t before;           /* draws of earlier epochs, if the run continues another */
	int64_t taken;            /* number of a draw, of a later epoch; -1 = none */
	int64_t next, end;        /* mini-batches of the current draw, numbered over all epochs */
	struct counts *pool; /* NULL: no push can be dropped. Number 0: workers that have ended,
			      * one more in each segment; then 1 for each returned mini-batch;
			      * the last number: draws of the workers that have ended */
	bool *own;           /* [of the pool] this worker returned it */
	size_t *held;        /* [room] mini-batches since the last push, by number in the pool */
	size_t helds, room, of_segment; /* of_segment: mini-batches */
	int64_t segments;               /* that have ended before this one */
	bool ended;                     /* this worker is counted in this segment */
	int64_t previous, size;         /* end and length of its previous draw */
	bool slow;                      /* once, others took more than twice as many mini-batches */
	int64_t resting;                /* the epoch whose rest it leaves to the others */
	int64_t finishes;  /* the epoch that it has to finish, because all others have ended */
	int64_t undrawn;   /* draws that are left of that epoch */
	int64_t uncounted; /* own draws that the pool does not count yet */
	int64_t pushes, dropped; /* counts of stats before the step */
	bool hurry, drops;       /* rounds may end without its pushes; these may be dropped */
	size_t rows;             /* static: since the last push */
	int32_t *own_rows;       /* [of the shard] dynamic, own rows: in the order of this pass; */
	int64_t pass, seen;      /* pass: from 1, 0 = none yet; rows taken of all passes */
	bool no_more;
};

int64_t epoch_steps(const struct trainer *r, int64_t epoch)
{
	const struct run *run = r->w.run;
	return r->w.steps - (epoch == run->epochs ? run->cut : 0);
}

/* Dynamic: mini-batches of an epoch. None is without rows. */
static int64_t batches(const struct trainer *r)
{
	int64_t all = r->w.steps * r->replicas, n = (int64_t)r->train.n;
	return all < n ? all : n;
}

/* The mini-batches of this epoch: those of its steps. */
static int64_t batches_of(const struct trainer *r, int64_t epoch)
{
	return batches(r) * epoch_steps(r, epoch) / r->w.steps;
}

/* Mini-batches of all epochs up to the end of the current one. */
static int64_t batches_end(const struct trainer *r)
{
	return (r->w.epoch - 1) * batches(r) + batches_of(r, r->w.epoch);
}

static const struct draws *draws_of(const struct trainer *r, int64_t epoch)
{
	return epoch == r->w.run->epochs ? &r->dealing->last : &r->dealing->whole;
}

static int64_t draws_end(const struct trainer *r)
{
	return (r->w.epoch - 1) * r->dealing->whole.n + draws_of(r, r->w.epoch)->n;
}

int64_t deal_most(const struct trainer *r)
{
	return r->plan->dynamic ? batches(r) : r->w.steps;
}

/* Cuts an epoch of K mini-batches into draws. */
static void plan_draws(struct draws *d, int64_t K, int64_t workers, int64_t X)
{
	d->first = must(malloc((size_t)(K + 1) * sizeof *d->first));
	for (int64_t at = 0; at < K; d->n++) {
		int64_t most = (K - at) / (4 * workers);
		d->first[d->n] = at;
		at += most < 1 ? 1 : most < X ? most : X;
	}
	d->first[d->n] = K;
}

/* Rows of step s, of all replicas. *first: where they begin in the epoch's permutation. */
static size_t rows_of_step(const struct trainer *r, size_t s, size_t *first)
{
	size_t n = r->train.n, steps = (size_t)r->w.steps;
	*first = part_of(n, steps, s);
	return part_of(n, steps, s + 1) - *first;
}

/* Where in its epoch's permutation this part of step s begins; *rows: its length. The first parts
 * have one row more than the others, if they are not equal. */
static size_t part_of_step(const struct trainer *r, size_t s, size_t part, size_t *rows)
{
	size_t first, all = rows_of_step(r, s, &first), parts = (size_t)r->replicas;
	size_t each = all / parts, more = all % parts;
	*rows = each + (part < more);
	return first + part * each + (part < more ? part : more);
}

/* Static: the replica's part of step s. The replica that follows the last one with one row more
 * gets the next. */
static size_t part_of_replica(const struct trainer *r, int64_t epoch, size_t s, int replica)
{
	size_t first, parts = (size_t)r->replicas, all = rows_of_step(r, s, &first);
	size_t turn = all % parts ? ((size_t)(epoch - 1) * r->train.n + first) % parts : 0;
	return ((size_t)replica + parts - turn) % parts;
}

/* Each model gets as many rows as it has in the steps of an epoch. All ranks use rank 0's shards,
 * because other machines may round a logarithm differently. */
static struct shards *open_shards(struct trainer *r)
{
	size_t models = (size_t)r->replicas, n;
	size_t *rows AUTOFREE = must(calloc(models, sizeof *rows));
	for (size_t m = 0; m < models; m++)
		for (size_t s = 0; s < (size_t)r->w.steps; s++) {
			part_of_step(r, s, part_of_replica(r, 1, s, (int)m), &n);
			rows[m] += n;
		}
	struct shards *s = data_shards(&r->train, r->w.run, rows, models);
	if (!world_is_virtual)
		link_broadcast(r->all, 0, s->owner, s->n * sizeof *s->owner);
	return s;
}

static size_t shard_size(const struct trainer *r)
{
	const size_t *first = r->dealing->shards->first + r->replica;
	return first[1] - first[0];
}

char *deal_record(struct trainer *r)
{
	const struct shards *s = r->dealing->shards;
	size_t classes = data_classes(&r->train);
	if (!s || !r->train.target || !r->sink->shards)
		return NULL;
	int64_t *rows AUTOFREE = must(malloc(s->models * (classes + 1) * sizeof *rows));
	shards_count(s, &r->train, rows);
	return r->sink->shards(r->sink->self, rows, s->models, classes,
			       r->w.trainers / r->replicas);
}

void deal_open(struct trainer *r)
{
	struct dealing *d = r->dealing = must(calloc(1, sizeof *d));
	int64_t all = batches(r) * r->records_max, X = r->w.run->sync_every;
	d->taken = -1;
	d->hurry = tables_hurry(r->w.loop->tables);
	d->drops = tables_drop(r->w.loop->tables);
	if (data_split_of(r->w.run).own)
		d->shards = open_shards(r);
	if (!r->plan->dynamic)
		return;
	d->counter = counter_new(&r->w);
	if (d->shards) {
		d->own_rows = must(malloc((shard_size(r) + 1) * sizeof *d->own_rows));
		worker_keep(&r->w, &d->seen, sizeof d->seen);
	}
	plan_draws(&d->whole, batches(r), r->w.trainers, X);
	plan_draws(&d->last, batches_of(r, r->w.run->epochs), r->w.trainers, X);
	d->before = d->whole.n * r->head.epoch;
	if (!d->drops)
		return;
	d->of_segment = (size_t)all;
	d->room = (size_t)(X < all ? X : all);
	d->held = must(malloc(d->room * sizeof *d->held));
	d->own = must(calloc(d->of_segment + 1, sizeof *d->own));
	d->pool = counts_new(&r->w, d->of_segment + 2);
}

void deal_close(struct trainer *r)
{
	struct dealing *d = r->dealing;
	counts_free(d->counter);
	counts_free(d->pool);
	free(d->own_rows);
	free(d->whole.first);
	free(d->last.first);
	free(d->held);
	free(d->own);
	free(d);
}

/* Each row of a step has the same weight, even if the workers' shares differ. Where rounds
 * may end without a push, the table divides by the rows that came. Workers that do not wait for
 * each other share no step, unless a --global-batch says so. */
static void weigh(struct trainer *r)
{
	size_t first, all = rows_of_step(r, r->step, &first);
	bool shared = config_why_static(r->config) || r->w.run->global_batch;
	r->w.mean_rows = r->dealing->hurry ? (double)(r->w.run->batch * r->w.run->accumulate)
			 : shared          ? (double)all / r->replicas
					   : (double)r->w.rows;
	r->w.loop->busy = r->plan->dynamic || all >= (size_t)r->replicas ? 0 : all;
}

void deal_epoch(struct trainer *r, int64_t epoch)
{
	const struct run *run = r->w.run;
	struct shards *own = r->dealing->shards;
	size_t steps = (size_t)r->w.steps, at = 0, rows;
	r->dealing->segments += r->dealing->ended && (epoch - 1) % r->records_max == 0;
	r->dealing->ended &= (epoch - 1) % r->records_max != 0;
	lr_fill(run, r->replicas, epoch, r->lr, steps);
	if (r->plan->dynamic)
		return;
	const int32_t *permutation = data_order(r->train.n, run->seed, epoch, own);
	for (size_t s = 0; s < steps; s++, at += rows) {
		size_t part = part_of_replica(r, own ? 1 : epoch, s, r->replica);
		size_t first = part_of_step(r, s, part, &rows);
		if (own)
			first = own->first[r->replica] + at;
		r->step_first[s] = at;
		memcpy(r->order + at, permutation + first, rows * sizeof *r->order);
	}
	r->step_first[steps] = at;
}

static void take_own_rows(struct trainer *r)
{
	struct dealing *d = r->dealing;
	size_t n = shard_size(r), some;
	r->w.rows = n ? r->w.rows : 0;
	for (size_t got = 0; got < r->w.rows; got += some, d->seen += (int64_t)some) {
		int64_t pass = d->seen / (int64_t)n + 1;
		size_t at = (size_t)(d->seen % (int64_t)n);
		if (pass != d->pass)
			memcpy(d->own_rows,
			       data_order(r->train.n, r->w.run->seed, pass, d->shards) +
				       d->shards->first[r->replica],
			       n * sizeof *d->own_rows);
		d->pass = pass;
		some = n - at < r->w.rows - got ? n - at : r->w.rows - got;
		memcpy(r->order + got, d->own_rows + at, some * sizeof *r->order);
	}
}

/* Mini-batch `number` of all epochs. */
static void take_batch(struct trainer *r, int64_t number)
{
	int64_t all = batches(r), of_epoch = number % all, epoch = number / all + 1;
	size_t first = (size_t)of_epoch;
	r->step = (size_t)(((of_epoch + 1) * r->w.steps - 1) / all); /* as in rows_of_step */
	r->w.rows = 1;
	if (all == r->w.steps * r->replicas) /* otherwise each has one row */
		first = part_of_step(r, r->step, (size_t)(of_epoch % r->replicas), &r->w.rows);
	r->w.index = r->order;
	if (r->dealing->shards)
		take_own_rows(r);
	weigh(r);
	if (!r->dealing->shards)
		memcpy(r->order, data_order(r->train.n, r->w.run->seed, epoch, NULL) + first,
		       r->w.rows * sizeof *r->order);
}

bool deal_take(struct trainer *r, int64_t i)
{
	const int64_t seen = r->dealing->seen;
	if (i >= deal_most(r))
		return false;
	if (r->plan->dynamic) {
		take_batch(r, i);
		r->dealing->seen = seen;
		return true;
	}
	r->step = (size_t)i;
	r->w.index = r->order + r->step_first[i];
	r->w.rows = r->step_first[i + 1] - r->step_first[i];
	weigh(r);
	return true;
}

/* Returns mini-batches to the pool. */
static void return_batches(struct dealing *d)
{
	for (size_t i = 0; i < d->helds; i++)
		d->own[d->held[i]] = true;
	counts_add(d->pool, d->held, d->helds, 1);
	d->helds = 0;
}

/* The others took `taken` mini-batches while this worker made its last steps. */
#ifndef IS_SLOW
#define IS_SLOW(r, taken, most) ((taken) > (most))
#endif

/* The number of mini-batches of this epoch that the others have taken since the worker's previous
 * draw. `next` is not assigned yet. */
static int64_t taken_by_others(struct trainer *r, int64_t next)
{
	struct dealing *d = r->dealing;
	int64_t before = (r->w.epoch - 1) * batches(r);
	int64_t taken = next - (d->previous > before ? d->previous : before);
	d->slow |= IS_SLOW(r, taken, 2 * r->w.trainers * d->size);
	return taken;
}

/* With a pool: leaves the current draw to the others if they will have finished it, and the rest of
 * the epoch, before this worker could. They are about to finish one mini-batch each. */
static bool leaves_rest(struct trainer *r)
{
	struct dealing *d = r->dealing;
	int64_t all = batches_end(r), N = r->w.trainers;
	int64_t taken = taken_by_others(r, d->next);
	d->previous = d->end;
	d->size = d->end - d->next;
	if (!d->pool || d->helds || d->finishes == r->w.epoch ||
	    !IS_SLOW(r, taken, all - d->end + N))
		return false;
	while (d->next < d->end && d->helds < d->room)
		d->held[d->helds++] = 1 + (size_t)(d->next++ % (int64_t)d->of_segment);
	return_batches(d);
	d->resting = r->w.epoch;
	return true;
}

/* Does it leave the mini-batches that are not assigned yet to the others? */
static bool leaves(const struct trainer *r)
{
	const struct dealing *d = r->dealing;
	bool has_to_draw = d->finishes == r->w.epoch && d->undrawn > 0;
	return (d->no_more || d->resting == r->w.epoch) && !has_to_draw;
}

/* The next mini-batch of the current draw, or of a new one. A draw of a later epoch is kept for
 * that epoch. -1: none is left. */
static int64_t next_drawn(struct trainer *r)
{
	struct dealing *d = r->dealing;
	if (d->next < d->end)
		return d->next++;
	if (d->taken < 0 && !leaves(r)) {
		d->taken = d->before + counter_next(d->counter);
		d->uncounted++;
		d->undrawn--;
	}
	if (d->taken < 0 || d->taken >= draws_end(r)) {
		taken_by_others(r, batches_end(r));
		return -1;
	}
	int64_t epoch = d->taken / d->whole.n + 1, before = (epoch - 1) * batches(r);
	const int64_t *first = draws_of(r, epoch)->first + d->taken % d->whole.n;
	d->next = before + first[0];
	d->end = before + first[1];
	d->taken = -1;
	return leaves_rest(r) ? -1 : d->next++;
}

/* ---- Returned mini-batches ---- */

/* Have all other workers ended their epoch, or had they when this worker was about to? Two workers
 * may see this of each other; both then finish the epoch. */
static bool is_last(const struct trainer *r, const float *now)
{
	const struct dealing *d = r->dealing;
	float all = (float)r->w.trainers * (float)(d->segments + 1);
	return d->finishes == r->w.epoch || now[0] - (float)d->ended == all - 1;
}

/* A mini-batch of the pool that this worker may take, as `now` says; 0: none. */
static size_t find_returned(const struct trainer *r, const float *now)
{
	const struct dealing *d = r->dealing;
	bool last = is_last(r, now), others = !leaves(r);
	for (size_t i = 1; i <= d->of_segment; i++)
		if (now[i] > 0 && (last || (others && !(d->slow && d->own[i]))))
			return i;
	return 0;
}

/* Another worker may take the same at the same time: one of the two finds less than nothing. */
static size_t take_returned(struct trainer *r)
{
	struct counts *pool = r->dealing->pool;
	size_t i;
	const float *now = counts_add(pool, NULL, 0, 0);
	while ((i = find_returned(r, now)) > 0 && counts_add(pool, &i, 1, -1)[i] < 0)
		now = counts_add(pool, &i, 1, 1);
	return i;
}

bool deal_end(struct trainer *r)
{
	struct dealing *d = r->dealing;
	const size_t ended = 0, drawn = d->of_segment + 1;
	if (!d->pool || d->ended)
		return true;
	d->ended = true;
	counts_change(d->pool, drawn, (float)d->uncounted);
	counts_add(d->pool, &ended, 1, 1);
	d->uncounted = 0;
	const float *now = counts_add(d->pool, NULL, 0, 0);
	bool last = is_last(r, now);
	d->undrawn = draws_end(r) - d->before - (int64_t)now[drawn];
	if (!last)
		d->undrawn = 0;
	else if (now[drawn] >= 1 << 24) /* sums of floats are no longer exact: it draws to see */
		d->undrawn = leaves(r);
	if (find_returned(r, now) == 0 && d->undrawn <= 0)
		return true;
	if (last)
		d->finishes = r->w.epoch;
	d->ended = false;
	counts_add(d->pool, &ended, 1, -1);
	return false;
}

bool deal_next(struct trainer *r, int64_t i)
{
	struct dealing *d = r->dealing;
	d->pushes = r->stats.pushes;
	d->dropped = r->stats.dropped;
	if (!d->counter && !deal_take(r, i))
		return false;
	if (d->counter && d->shards && shard_size(r) == 0)
		return false; /* it has no rows to take */
	d->rows += r->w.rows;
	if (!d->counter)
		return true;
	int64_t number = next_drawn(r), K = (int64_t)d->of_segment;
	if (number < 0 && d->pool) {
		int64_t before = (r->w.epoch - 1) / r->records_max * K;
		number = before - 1 + (int64_t)take_returned(r);
		number = number < before ? -1 : number;
	}
	if (number < 0)
		return false;
	take_batch(r, number);
	if (d->helds < d->room)
		d->held[d->helds++] = 1 + (size_t)(number % K);
	return true;
}

void deal_after_push(struct trainer *r)
{
	struct dealing *d = r->dealing;
	bool dropped = r->stats.dropped != d->dropped;
	if (!d->drops || (!dropped && r->stats.pushes == d->pushes))
		return;
	if (dropped && d->helds)
		return_batches(d);
	if (dropped && !d->counter)
		worker_report(&r->w, ROWS_LOST, (double)d->rows);
	d->helds = d->rows = 0;
	d->pushes = r->stats.pushes;
	d->dropped = r->stats.dropped;
}

bool deal_stop(struct trainer *r)
{
	struct dealing *d = r->dealing;
	d->no_more = true;
	return d->taken < 0 && d->next == d->end && d->finishes != r->w.epoch;
}
