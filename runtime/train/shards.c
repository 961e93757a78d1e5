/*
 * shards.c - which rows belong to which model, if each keeps its rows for the whole run (--split).
 *
 *   fixed            rows are put in a random order and cut into shards
 *   dirichlet:alpha  label skew: for each class c the shares q_c of the models are drawn from a
 *                    symmetric Dirichlet(alpha); rows come in a random order, and each goes to a
 *                    model that is drawn with q_c[m] among those that have room
 *
 * A model gets as many rows as static assignment of the whole set gives it. The number of steps and
 * the sizes of mini-batches are therefore those of --split=shuffled. Sources: Hsu, Qi, Brown, arXiv
 * 1909.06335 (they draw each client's classes and give all clients the same number of rows); the
 * sampler: Marsaglia, Tsang, A Simple Method for Generating Gamma Variables, ACM TOMS 26 (2000).
 *
 * Cost: n draws over the models, once. An epoch's permutation is sorted by owner in one pass, which
 * keeps its order within a shard. With one model the order is therefore that of shuffled.
 */
#include "runtime/train/train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The logarithm of a Gamma(a) number: for small a the number may be too small for a double. */
static double draw_log_gamma(double a, uint64_t *rng)
{
	double d = (a < 1 ? a + 1 : a) - 1.0 / 3, c = 1 / sqrt(9 * d), x, v;
	do {
		do {
			x = rng_normal(rng);
			v = 1 + c * x;
		} while (v <= 0);
		v = v * v * v;
	} while (log(1 - rng_uniform(rng)) >= x * x / 2 + d - d * v + d * log(v));
	return log(d * v) + (a < 1 ? log(1 - rng_uniform(rng)) / a : 0);
}

/* q[m] in proportion to Dirichlet(alpha); the largest is 1. All are above 0: any model that has
 * room can be drawn. */
static void draw_shares(double alpha, uint64_t rng, double *q, size_t models)
{
	const double least = 1e-300;
	double most = -INFINITY;
	for (size_t m = 0; m < models; m++) {
		q[m] = draw_log_gamma(alpha, &rng);
		most = fmax(most, q[m]);
	}
	for (size_t m = 0; m < models; m++)
		q[m] = fmax(exp(q[m] - most), least);
}

static size_t draw_owner(const double *q, const size_t *room, size_t models, uint64_t *rng)
{
	double sum = 0, at;
	size_t owner = models;
	for (size_t m = 0; m < models; m++)
		sum += room[m] ? q[m] : 0;
	at = sum * rng_uniform(rng);
	for (size_t m = 0; m < models && (owner == models || at >= 0); m++)
		if (room[m]) {
			owner = m;
			at -= q[m];
		}
	return owner;
}

static void skew(struct shards *s, const struct data *train, double alpha, int64_t seed,
		 const int32_t *order)
{
	size_t classes = data_classes(train);
	double *q AUTOFREE = must(malloc(classes * s->models * sizeof *q));
	size_t *room AUTOFREE = must(malloc(s->models * sizeof *room));
	uint64_t rng = rng_seed(seed, STREAM_SHARD, 0);
	for (size_t m = 0; m < s->models; m++)
		room[m] = s->first[m + 1] - s->first[m];
	for (size_t c = 0; c < classes; c++)
		draw_shares(alpha, rng_seed(seed, STREAM_SHARD, (int64_t)c + 1), q + c * s->models,
			    s->models);
	for (size_t i = 0; i < s->n; i++) {
		size_t c = (size_t)train->target[order[i]];
		CHECK(c < classes, "row %zu is of class %zu of %zu", i, c, classes);
		size_t owner = draw_owner(q + c * s->models, room, s->models, &rng);
		CHECK(owner < s->models, "row %zu of %zu: all shards are full", i, s->n);
		s->owner[order[i]] = (int32_t)owner;
		room[owner]--;
	}
}

struct shards *shards_new(const struct data *train, const struct data_split *split, int64_t seed,
			  const size_t *rows, size_t models)
{
	struct shards *s = must(calloc(1, sizeof *s));
	const int32_t *order = data_order(train->n, seed, 0, NULL); /* the epochs' are from 1 */
	s->n = train->n;
	s->models = models;
	s->first = must(calloc(models + 1, sizeof *s->first));
	s->next = must(malloc(models * sizeof *s->next));
	s->owner = must(malloc((s->n + 1) * sizeof *s->owner));
	s->scratch = must(malloc((s->n + 1) * sizeof *s->scratch));
	for (size_t m = 0; m < models; m++)
		s->first[m + 1] = s->first[m] + rows[m];
	CHECK(s->first[models] == s->n, "shards have %zu rows, the data set has %zu",
	      s->first[models], s->n);
	if (split->alpha > 0 && train->target)
		skew(s, train, split->alpha, seed, order);
	else
		for (size_t m = 0; m < models; m++)
			for (size_t i = s->first[m]; i < s->first[m + 1]; i++)
				s->owner[order[i]] = (int32_t)m;
	return s;
}

void shards_free(struct shards *s)
{
	if (!s)
		return;
	free(s->first);
	free(s->next);
	free(s->owner);
	free(s->scratch);
	free(s);
}

void shards_sort(struct shards *s, int32_t *row)
{
	memcpy(s->next, s->first, s->models * sizeof *s->next);
	memcpy(s->scratch, row, s->n * sizeof *row);
	for (size_t i = 0; i < s->n; i++)
		row[s->next[s->owner[s->scratch[i]]]++] = s->scratch[i];
}

void shards_count(const struct shards *s, const struct data *train, int64_t *rows)
{
	size_t classes = data_classes(train) ? data_classes(train) : 1;
	memset(rows, 0, s->models * classes * sizeof *rows);
	for (size_t i = 0; i < s->n; i++)
		rows[(size_t)s->owner[i] * classes +
		     (data_classes(train) ? (size_t)train->target[i] : 0)]++;
}
