/*
 * validation.c - what rows there are: as the workload cuts the data set; and those of the training
 * set that --validation holds out, and that --train-rows trains on: the only place where it is
 * split.
 *
 * They are the last ones of a permutation that no option decides, and those before them; so all
 * runs hold out the same rows, and more of them contain fewer. Of a set whose rows follow on each
 * other they are its last ones, and the first ones. Its steps from the end (Fisher and
 * Yates, as Knuth has it: The Art of Computer Programming 2, 3.4.2, algorithm P) are made on the
 * rows themselves: what is held out stands behind what is trained on, and nobody else has to know
 * of it.
 */
#include "runtime/config/config.h"

#include <string.h>

/* Both are rows of so many bytes at `at`, which the data set owns. */
static void swap(const void *at, size_t bytes, size_t a, size_t b)
{
	char *x = (char *)(uintptr_t)at + a * bytes, *y = (char *)(uintptr_t)at + b * bytes;
	for (size_t i = 0; i < bytes; i++) {
		char t = x[i];
		x[i] = y[i];
		y[i] = t;
	}
}

static void swap_rows(const struct data *d, size_t a, size_t b)
{
	if (a == b)
		return;
	if (d->bytes)
		swap(d->bytes, d->features * sizeof *d->bytes, a, b);
	if (d->floats)
		swap(d->floats, d->features * sizeof *d->floats, a, b);
	if (d->target)
		swap(d->target, data_targets(d) * sizeof *d->target, a, b);
}

char *data_cut(const struct workload *w, const void *opts, struct data *train, struct data *test)
{
	char *wrong = w->cut ? w->cut(opts, train) : NULL;
	return w->cut && !wrong ? w->cut(opts, test) : wrong;
}

void validation_split(const struct run *run, struct data *train, struct data *held)
{
	uint64_t rng = rng_seed(0, STREAM_VALIDATION, 0);
	size_t rows = (size_t)run->validation, rest = train->n - rows,
	       chosen = run->train_rows ? (size_t)run->train_rows : rest, others = rest - chosen;
	CHECK(rows <= train->n && chosen <= rest, "of %zu rows %zu are held out, %zu trained on",
	      train->n, rows, chosen);
	for (size_t i = train->n; !train->ordered && i > (others ? others : rest); i--)
		swap_rows(train, i - 1, (size_t)(((unsigned __int128)rng_next(&rng) * i) >> 64));
	/* those that are trained on go to the front, where the data set's memory begins */
	size_t moved = chosen < others ? chosen : others, from = chosen + others - moved;
	for (size_t i = 0; !train->ordered && i < moved; i++)
		swap_rows(train, i, from + i);
	*held = *train;
	held->n = rows;
	train->n = chosen;
	if (held->bytes)
		held->bytes += rest * held->features;
	if (held->floats)
		held->floats += rest * held->features;
	if (held->target)
		held->target += rest * data_targets(held);
}

char *validation_check(const struct run *run, size_t rows, int64_t models)
{
	int64_t most = (int64_t)rows - models, chosen = run->train_rows;
	if (chosen && (chosen < models || chosen > (int64_t)rows - run->validation))
		return sentence("--train-rows=%lld: there are %zu rows, of which --validation=%lld "
				"are held out, and %lld worker%s; give %lld to %lld",
				(long long)chosen, rows, (long long)run->validation,
				(long long)models, models == 1 ? "" : "s", (long long)models,
				(long long)rows - run->validation);
	if (run->validation == 0 || run->validation <= most)
		return NULL;
	if (most < 1)
		return sentence("--validation=%lld: there are only %zu rows to train on, which the "
				"workers need; leave it out",
				(long long)run->validation, rows);
	return sentence("--validation=%lld: of %zu rows that leaves fewer than the one that each "
			"of %lld worker%s needs to train on; give at most --validation=%lld",
			(long long)run->validation, rows, (long long)models, models == 1 ? "" : "s",
			(long long)most);
}
