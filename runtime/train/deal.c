/*
 * deal.c - which mini-batches of an epoch a trainer takes.
 *
 * An epoch's permutation of the training set is drawn from the seed, equal on all ranks, and cut
 * into S R mini-batches for R replicas, S = ceil(n / (R B)): step s has the s-th of S parts, and
 * its r-th of R parts is mini-batch s R + r. No row is dropped; mini-batches differ by one row at
 * most; and those of a step together are what one worker with batch R B sees.
 *
 *   static    replica r takes the r-th of every step
 *   dynamic   an idle worker takes the next unassigned ones, by a counter that all workers share
 *             and that continues over epochs; an epoch ends when all its mini-batches are done
 *
 * A worker takes as many at once as it trains between two exchanges: the counter, a push of one
 * float, then costs no more messages than they do. It takes at most 1 / (4 N) of the rest; the last
 * mini-batches are therefore taken one by one.
 *
 * With --split=fixed or dirichlet a replica has its own rows (shards.c), the same number as static
 * assignment gives it, and takes them step by step. Assignment is then static, because an idle
 * worker could not take rows of another shard.
 *
 * A push that arrives after its round (backup workers) is dropped. With dynamic assignment its
 * worker trains on those rows again before it takes others. If only these are left of an epoch, the
 * other workers are at the barrier, and the push counts.
 */
#include "runtime/train/trainer.h"

#include <stdlib.h>
#include <string.h>

struct dealing {
	struct shards *shards;   /* NULL: rows are assigned again in every epoch */
	struct counter *counter; /* NULL: static */
	int64_t *first, draws;   /* [draws + 1] draw i: mini-batches first[i] .. first[i + 1] - 1 */
	int64_t before;          /* draws of earlier epochs, if the run continues another */
	int64_t taken;           /* number of a draw, of a later epoch; -1 = none */
	int64_t next, end;       /* mini-batches of the current draw, numbered over all epochs */
	int64_t *held, *again;   /* [room] mini-batches since the last push; to train on again */
	size_t helds, agains, room;
	int64_t pushes, dropped; /* counts of stats before the step */
	bool no_more;
};

static int64_t batches(const struct trainer *r)
{
	return r->w.steps * r->replicas;
}

int64_t deal_most(const struct trainer *r)
{
	return r->plan->dynamic ? batches(r) : r->w.steps;
}

/* Cuts an epoch of K mini-batches into draws. */
static void plan_draws(struct dealing *d, int64_t K, int64_t workers, int64_t X)
{
	d->first = must(malloc((size_t)(K + 1) * sizeof *d->first));
	for (int64_t at = 0; at < K; d->draws++) {
		int64_t most = (K - at) / (4 * workers);
		d->first[d->draws] = at;
		at += most < 1 ? 1 : most < X ? most : X;
	}
	d->first[d->draws] = K;
}

/* Where in its epoch's permutation the replica's part of step s begins; *rows: its length. */
static size_t part_of_step(const struct trainer *r, size_t s, int replica, size_t *rows)
{
	size_t n = r->train.n, steps = (size_t)r->w.steps, parts = (size_t)r->replicas;
	size_t first = part_of(n, steps, s), all = part_of(n, steps, s + 1) - first;
	size_t from = part_of(all, parts, (size_t)replica);
	*rows = part_of(all, parts, (size_t)replica + 1) - from;
	return first + from;
}

/* Each model gets as many rows as it has in the steps of an epoch. All ranks use rank 0's shards,
 * because other machines may round a logarithm differently. */
static struct shards *open_shards(struct trainer *r)
{
	size_t models = (size_t)r->replicas, n;
	size_t *rows AUTOFREE = must(calloc(models, sizeof *rows));
	for (size_t m = 0; m < models; m++)
		for (size_t s = 0; s < (size_t)r->w.steps; s++) {
			part_of_step(r, s, (int)m, &n);
			rows[m] += n;
		}
	struct shards *s = data_shards(&r->train, r->w.run, rows, models);
	if (!world_is_virtual)
		link_broadcast(r->all, 0, s->owner, s->n * sizeof *s->owner);
	return s;
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
	if (data_split_of(r->w.run).own)
		d->shards = open_shards(r);
	if (!r->plan->dynamic)
		return;
	d->counter = counter_new(&r->w);
	plan_draws(d, batches(r), r->w.trainers, X);
	d->before = d->draws * r->head.epoch;
	d->room = tables_drop(r->w.tables) ? (size_t)(X < all ? X : all) : 0;
	d->held = must(malloc((d->room + 1) * sizeof *d->held));
	d->again = must(malloc((d->room + 1) * sizeof *d->again));
}

void deal_close(struct trainer *r)
{
	struct dealing *d = r->dealing;
	if (d->shards)
		data_shards_close();
	counter_free(d->counter);
	free(d->first);
	free(d->held);
	free(d->again);
	free(d);
}

/* Each row of a --global-batch has the same weight, even if the workers' shares differ. */
static double mean_rows(const struct trainer *r, size_t s)
{
	size_t n = r->train.n, steps = (size_t)r->w.steps;
	return r->w.run->global_batch
		       ? (double)(part_of(n, steps, s + 1) - part_of(n, steps, s)) / r->replicas
		       : 0;
}

void deal_epoch(struct trainer *r, int64_t epoch)
{
	const struct run *run = r->w.run;
	struct shards *own = r->dealing->shards;
	size_t steps = (size_t)r->w.steps, at = 0, rows;
	lr_fill(run, r->replicas, epoch, r->lr, steps);
	if (r->plan->dynamic)
		return;
	const int32_t *permutation = data_order(r->train.n, run->seed, epoch, own);
	for (size_t s = 0; s < steps; s++, at += rows) {
		size_t first = part_of_step(r, s, r->replica, &rows);
		if (own)
			first = own->first[r->replica] + at;
		r->step_first[s] = at;
		memcpy(r->order + at, permutation + first, rows * sizeof *r->order);
	}
	r->step_first[steps] = at;
}

/* Mini-batch `number` of all epochs. */
static void take(struct trainer *r, int64_t number)
{
	int64_t of_epoch = number % batches(r), epoch = number / batches(r) + 1;
	const int32_t *permutation = data_order(r->train.n, r->w.run->seed, epoch, NULL);
	r->step = (size_t)(of_epoch / r->replicas);
	size_t first = part_of_step(r, r->step, (int)(of_epoch % r->replicas), &r->w.rows);
	r->w.mean_rows = mean_rows(r, r->step);
	memcpy(r->order, permutation + first, r->w.rows * sizeof *r->order);
	r->w.index = r->order;
}

bool deal_take(struct trainer *r, int64_t i)
{
	if (i >= deal_most(r))
		return false;
	if (r->plan->dynamic) {
		take(r, i);
		return true;
	}
	r->step = (size_t)i;
	r->w.mean_rows = mean_rows(r, r->step);
	r->w.index = r->order + r->step_first[i];
	r->w.rows = r->step_first[i + 1] - r->step_first[i];
	return true;
}

/* The next mini-batch of the current draw, or of a new one. A draw of a later epoch is kept for
 * that epoch. -1: none is left. */
static int64_t draw(struct trainer *r)
{
	struct dealing *d = r->dealing;
	if (d->next < d->end)
		return d->next++;
	if (d->taken < 0 && !d->no_more)
		d->taken = d->before + counter_next(d->counter);
	if (d->taken < 0 || d->taken >= d->draws * r->w.epoch)
		return -1;
	int64_t before = d->taken / d->draws * batches(r);
	d->next = before + d->first[d->taken % d->draws];
	d->end = before + d->first[d->taken % d->draws + 1];
	d->taken = -1;
	return d->next++;
}

bool deal_next(struct trainer *r, int64_t i)
{
	struct dealing *d = r->dealing;
	if (!d->counter)
		return deal_take(r, i);
	int64_t number = d->agains ? d->again[--d->agains] : draw(r);
	if (number < 0)
		return false;
	take(r, number);
	if (d->helds < d->room)
		d->held[d->helds++] = number;
	d->pushes = r->stats.pushes;
	d->dropped = r->stats.dropped;
	return true;
}

bool deal_settle(struct trainer *r)
{
	struct dealing *d = r->dealing;
	if (r->stats.dropped != d->dropped)
		while (d->helds)
			d->again[d->agains++] = d->held[--d->helds];
	else if (r->stats.pushes != d->pushes)
		d->helds = 0;
	d->pushes = r->stats.pushes;
	d->dropped = r->stats.dropped;
	return d->agains > 0;
}

bool deal_no_more(struct trainer *r)
{
	struct dealing *d = r->dealing;
	d->no_more = true;
	return d->taken < 0 && d->next == d->end && d->agains == 0;
}
