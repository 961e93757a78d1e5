/*
 * validation.c - the rows of a run: the workload cuts the data set; --validation holds out rows of
 * the training set, and --train-rows chooses the rows to train on. Nothing else splits the set.
 *
 * The held-out rows are the last ones of a permutation that does not depend on any option; the rows
 * to train on are those before them. All runs therefore hold out the same rows, and a larger
 * validation set contains the smaller ones. If the set's rows are ordered, the last rows are held
 * out and the first ones trained on. The permutation (Fisher and Yates; Knuth, The Art of Computer
 * Programming 2, 3.4.2, algorithm P, from the end) is applied to the rows in memory: held-out rows
 * follow the training rows, and no other code has to know of them.
 */
#include "runtime/config/config.h"
#include "runtime/config/dataset.h"
#include "workloads/net.h"

#include <string.h>

/* Swaps rows a and b of `bytes` bytes each at `at`, which the data set owns. */
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

/* Draws the rows from `first` on among all rows, from the last to the first. */
static void shuffle_tail(struct data *d, size_t first)
{
	uint64_t rng = rng_seed(0, RNG_VALIDATION, 0);
	for (size_t i = d->n; i > first; i--)
		swap_rows(d, i - 1, (size_t)(((unsigned __int128)rng_next(&rng) * i) >> 64));
}

/* n rows of d, in its memory. */
static struct data data_slice(const struct data *d, size_t first, size_t n)
{
	struct data slice = *d;
	slice.n = n;
	if (slice.bytes)
		slice.bytes += first * d->features;
	if (slice.floats)
		slice.floats += first * d->features;
	if (slice.target)
		slice.target += first * data_targets(d);
	return slice;
}

/* The memory is then [trained | unused | held]. What is drawn comes to its end: first held, then
 * trained, whose rows move to the start, as many as are not there. */
void validation_split(const struct run *run, struct data *train, struct data *held)
{
	size_t rows = (size_t)run->validation, rest = train->n - rows,
	       chosen = run->train_rows ? (size_t)run->train_rows : rest, unused = rest - chosen;
	CHECK(rows <= train->n && chosen <= rest, "of %zu rows %zu are held out, %zu trained on",
	      train->n, rows, chosen);
	if (!train->ordered) {
		size_t moved = smaller(chosen, unused);
		shuffle_tail(train, unused ? unused : rest);
		for (size_t i = 0; i < moved; i++)
			swap_rows(train, i, rest - moved + i);
	}
	*held = data_slice(train, rest, rows);
	*train = data_slice(train, 0, chosen);
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
		return sentence("--validation=%lld: there %s only %zu row%s to train on, which the "
				"workers need; leave it out",
				(long long)run->validation, rows == 1 ? "is" : "are", rows,
				rows == 1 ? "" : "s");
	return sentence("--validation=%lld: of %zu rows that leaves fewer than one for each of "
			"%lld worker%s to train on; give at most --validation=%lld",
			(long long)run->validation, rows, (long long)models, models == 1 ? "" : "s",
			(long long)most);
}
