/*
 * validation.c - the rows of the training set that --validation holds out: the only place where it
 * is split.
 *
 * They are the last ones of a permutation that no option decides, so that all runs hold out the
 * same rows, and more of them contain fewer. Its steps from the end (Fisher and Yates, as Knuth has
 * it: The Art of Computer Programming 2, 3.4.2, algorithm P) are made on the rows themselves: what
 * is held out stands behind what is trained on, and nobody else has to know of it.
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
		swap(d->target, sizeof *d->target, a, b);
}

void validation_split(const struct run *run, struct data *train, struct data *held)
{
	uint64_t rng = rng_seed(0, STREAM_VALIDATION, 0);
	size_t rows = (size_t)run->validation, rest = train->n - rows;
	CHECK(rows <= train->n, "%zu of %zu rows are held out", rows, train->n);
	for (size_t i = train->n; i > rest; i--)
		swap_rows(train, i - 1, (size_t)(((unsigned __int128)rng_next(&rng) * i) >> 64));
	*held = *train;
	held->n = rows;
	train->n = rest;
	if (held->bytes)
		held->bytes += rest * held->features;
	if (held->floats)
		held->floats += rest * held->features;
	if (held->target)
		held->target += rest;
}

char *validation_check(const struct run *run, size_t rows, int64_t models)
{
	int64_t most = (int64_t)rows - models;
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
