/*
 * shards.c - which rows belong to which model, if each keeps its rows for the whole run (--split).
 *
 *   fixed            rows are put in a random order and cut into shards
 *   dirichlet:alpha  label skew: the mix of classes of each model, q_m, is drawn from
 *                    Dirichlet(alpha p), where p are the shares of the classes in the set; one
 *                    model after the other draws its rows: a class with q_m[c] among those that
 *                    have rows left, and a random row of it
 *   dirichlet_classes:alpha  weaker skew: for each class c the shares q_c of the models are drawn
 *                    from a symmetric Dirichlet(alpha); rows come in a random order, and each goes
 *                    to a model that is drawn with q_c[m] among those that have room
 *
 * A model gets as many rows as static assignment of the whole set gives it. The number of steps and
 * the sizes of mini-batches are therefore those of --split=shuffled. Sources: dirichlet: Hsu, Qi,
 * Brown, arXiv 1909.06335; dirichlet_classes: Yurochkin et al., arXiv 1905.12022, but their shards
 * have different sizes; the sampler: Marsaglia, Tsang, A Simple Method for Generating Gamma
 * Variables, ACM TOMS 26 (2000).
 *
 * Cost: n draws over the models, or over the classes, once. An epoch's permutation is sorted by
 * owner in one pass, which keeps its order within a shard. With one model the order is therefore
 * that of shuffled.
 */
#include "runtime/train/train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The logarithm of a Gamma(a) number (Marsaglia and Tsang); a number for small a may be too small
 * for a double. For a < 1: Gamma(a + 1) times a uniform number to the power of 1 / a. */
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

/* q[i] in proportion to exp(log_q[i]); the largest with room is 1. All are above 0: each that has
 * room can be drawn. */
static void set_shares(double *q, const double *log_q, const size_t *room, size_t n)
{
	const double least = 1e-300;
	double most = -INFINITY;
	for (size_t i = 0; i < n; i++)
		most = room[i] ? fmax(most, log_q[i]) : most;
	for (size_t i = 0; i < n; i++)
		q[i] = room[i] ? fmax(exp(log_q[i] - most), least) : 0;
}

/* One of those with room. */
static size_t draw_one(const double *q, const size_t *room, size_t n, uint64_t *rng)
{
	double sum = 0, at;
	size_t one = n;
	for (size_t i = 0; i < n; i++)
		sum += room[i] ? q[i] : 0;
	at = sum * rng_uniform(rng);
	for (size_t i = 0; i < n && (one == n || at >= 0); i++)
		if (room[i]) {
			one = i;
			at -= q[i];
		}
	CHECK(one < n, "nothing is left of %zu classes or shards", n);
	return one;
}

static size_t class_of(const struct data *train, int32_t row)
{
	size_t c = (size_t)train->target[row], classes = data_classes(train);
	CHECK(c < classes, "row %d is of class %zu of %zu", (int)row, c, classes);
	return c;
}

static void skew_models(struct shards *s, const struct data *train, double alpha, int64_t seed,
			const int32_t *order)
{
	size_t classes = data_classes(train);
	double *q AUTOFREE = must(malloc(2 * classes * sizeof *q)), *log_q = q + classes;
	size_t *left AUTOFREE = must(calloc(classes, sizeof *left)); /* rows of each class */
	size_t *first AUTOFREE = must(calloc(classes + 1, sizeof *first));
	int32_t *row AUTOFREE = must(malloc(s->n * sizeof *row)); /* by class, at random in it */
	uint64_t rng = rng_seed(seed, RNG_SHARD, 0);
	for (size_t i = 0; i < s->n; i++)
		left[class_of(train, (int32_t)i)]++;
	for (size_t c = 0; c < classes; c++)
		first[c + 1] = first[c] + left[c];
	for (size_t i = 0; i < s->n; i++) {
		size_t c = class_of(train, order[i]);
		row[first[c + 1] - left[c]--] = order[i];
	}
	for (size_t c = 0; c < classes; c++)
		left[c] = first[c + 1] - first[c];
	for (size_t m = 0; m < s->models; m++) {
		uint64_t own = rng_seed(seed, RNG_SHARD, (int64_t)m + 1);
		for (size_t c = 0; c < classes; c++) {
			double p = (double)(first[c + 1] - first[c]) / (double)s->n;
			log_q[c] = p > 0 ? draw_log_gamma(alpha * p, &own) : 0;
		}
		set_shares(q, log_q, left, classes);
		for (size_t i = s->first[m]; i < s->first[m + 1]; i++) {
			size_t c = draw_one(q, left, classes, &rng);
			s->owner[row[first[c + 1] - left[c]]] = (int32_t)m;
			if (--left[c] == 0)
				set_shares(q, log_q, left, classes);
		}
	}
}

static void skew_classes(struct shards *s, const struct data *train, double alpha, int64_t seed,
			 const int32_t *order)
{
	size_t classes = data_classes(train);
	double *q AUTOFREE = must(malloc((classes + 1) * s->models * sizeof *q)),
		  *log_q = q + classes * s->models;
	size_t *room AUTOFREE = must(malloc(s->models * sizeof *room));
	uint64_t rng = rng_seed(seed, RNG_SHARD, 0);
	for (size_t m = 0; m < s->models; m++)
		room[m] = s->first[m + 1] - s->first[m];
	for (size_t c = 0; c < classes; c++) {
		uint64_t own = rng_seed(seed, RNG_SHARD, (int64_t)c + 1);
		for (size_t m = 0; m < s->models; m++)
			log_q[m] = draw_log_gamma(alpha, &own);
		set_shares(q + c * s->models, log_q, room, s->models);
	}
	for (size_t i = 0; i < s->n; i++) {
		size_t c = class_of(train, order[i]);
		size_t owner = draw_one(q + c * s->models, room, s->models, &rng);
		s->owner[order[i]] = (int32_t)owner;
		room[owner]--;
	}
}

void rows_shuffle(int32_t *x, size_t n, uint64_t rng)
{
	for (size_t i = 0; i < n; i++)
		x[i] = (int32_t)i;
	for (size_t i = n; i > 1; i--) {
		size_t j = (size_t)(((unsigned __int128)rng_next(&rng) * i) >> 64);
		int32_t t = x[i - 1];
		x[i - 1] = x[j];
		x[j] = t;
	}
}

struct shards *shards_new(const struct data *train, const struct data_split *split, int64_t seed,
			  const size_t *rows, size_t models)
{
	struct shards *s = must(calloc(1, sizeof *s));
	int32_t *order AUTOFREE = must(malloc((train->n + 1) * sizeof *order));
	rows_shuffle(order, train->n, rng_seed(seed, RNG_ORDER, 0)); /* the epochs' are from 1 */
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
		(split->by_class ? skew_classes : skew_models)(s, train, split->alpha, seed, order);
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
