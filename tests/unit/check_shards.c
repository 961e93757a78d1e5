/*
 * check_shards.c - the partition of rows into shards (runtime/train/shards.c): every row has one
 * owner, shards have the requested sizes, alpha determines the label skew, and an epoch's order
 * moves no row from one shard to another.
 */
#include "runtime/train/train.h"
#include "tests/fixture.h"
#include "tests/suites.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 6000, CLASSES = 10, MODELS = 4, SEED = 3 };

static float target[N];
static size_t rows[MODELS];

static struct data labelled(void)
{
	for (size_t i = 0; i < N; i++)
		target[i] = (float)(i % CLASSES);
	for (size_t m = 0; m < MODELS; m++) /* as uneven as the steps of an epoch make them */
		rows[m] = part_of(N - 3, MODELS, m + 1) - part_of(N - 3, MODELS, m) + m % 2 +
			  (m == 3);
	return (struct data){.n = N, .features = 1, .classes = CLASSES, .target = target};
}

static struct shards *split(struct data *d, double alpha, int64_t seed)
{
	*d = labelled();
	return shards_new(d, &(struct data_split){.own = true, .alpha = alpha}, seed, rows, MODELS);
}

/* The largest share of one class in the rows of a model; the mean over the models. */
static double purity(const struct shards *s, const struct data *d)
{
	int64_t count[MODELS * CLASSES];
	double sum = 0;
	shards_count(s, d, count);
	for (size_t m = 0; m < MODELS; m++) {
		int64_t most = 0, all = 0;
		for (size_t c = 0; c < CLASSES; c++) {
			int64_t n = count[m * CLASSES + c];
			most = n > most ? n : most;
			all += n;
		}
		ck_assert_uint_eq((size_t)all, rows[m]);
		sum += (double)most / (double)all;
	}
	return sum / MODELS;
}

static const double alphas[] = {0, 0.001, 0.05, 0.5, 1, 100, 1e6};

TEST(every_row_has_one_owner_in_every_epoch, COUNT(alphas))
{
	struct data d;
	struct shards *s = split(&d, alphas[_i], SEED);
	for (int64_t epoch = 1; epoch <= 3; epoch++) {
		const int32_t *row = data_order(N, SEED, epoch, s);
		bool seen[N] = {false};
		for (size_t m = 0; m < MODELS; m++) {
			ck_assert_uint_eq(s->first[m + 1] - s->first[m], rows[m]);
			for (size_t i = s->first[m]; i < s->first[m + 1]; i++) {
				ck_assert_int_eq(s->owner[row[i]], (int)m);
				ck_assert(!seen[row[i]]);
				seen[row[i]] = true;
			}
		}
	}
	shards_free(s);
}

TEST(alpha_determines_label_skew)
{
	struct data d;
	enum { SEEDS = 10 };
	double skewed[COUNT(alphas)] = {0};
	for (size_t i = 0; i < SEEDS * COUNT(alphas); i++) {
		struct shards *s = split(&d, alphas[i / SEEDS], (int64_t)(i % SEEDS) + 1);
		skewed[i / SEEDS] += purity(s, &d) / SEEDS;
		shards_free(s);
	}
	/* of 1,500 rows a class has 150 +- 11.6; the largest of ten is 1.54 deviations above */
	const double even = 0.1 * (1 + 1.54 * 11.6 / 150), within = 0.004;
	ck_assert_double_eq_tol(skewed[0], even, within);
	ck_assert_double_eq_tol(skewed[6], even, within);
	ck_assert_double_gt(skewed[1], 0.25); /* 2.5 classes for each model would be 0.4 */
	ck_assert_double_gt(skewed[2], 0.25);
	for (size_t i = 2; i < 5; i++)
		ck_assert_double_gt(skewed[i], skewed[i + 1]);
	ck_assert_double_gt(skewed[5], even);
}

/* With alpha 1 a share of two models is uniform: mean 1/2, variance 1/12. Within the first half of
 * the rows no shard can be full. */
TEST(shard_shares_are_dirichlet)
{
	enum { DRAWS = 400 };
	static const double variance[][2] = {{1, 1.0 / 12}, {0.5, 1.0 / 8}, {4, 1.0 / 36}};
	for (size_t k = 0; k < COUNT(variance); k++) {
		double sum = 0, squares = 0;
		for (int64_t seed = 1; seed <= DRAWS; seed++) {
			static float one[500]; /* rows of one class */
			struct data d = {
				.n = COUNT(one), .features = 1, .classes = 1, .target = one};
			const size_t half[] = {COUNT(one) / 2, COUNT(one) / 2};
			struct shards *s = shards_new(
				&d, &(struct data_split){.own = true, .alpha = variance[k][0]},
				seed, half, 2);
			const int32_t *order = data_order(d.n, seed, 0, NULL);
			double first = 0; /* the share of model 0 */
			for (size_t i = 0; i < COUNT(one) / 2; i++)
				first += s->owner[order[i]] == 0;
			first /= (double)COUNT(one) / 2;
			sum += first;
			squares += (first - 0.5) * (first - 0.5);
			shards_free(s);
		}
		/* rows add a variance of 1 / 250 / 4; 400 draws give a variance to about 7 % */
		ck_assert_double_eq_tol(sum / DRAWS, 0.5, 4 * sqrt(variance[k][1] / DRAWS));
		ck_assert_double_eq_tol(squares / DRAWS / variance[k][1], 1, 0.25);
	}
}

/* One model owns all rows: the order of an epoch is that of --split=shuffled. */
TEST(one_model_has_shuffled_order)
{
	struct data d = labelled();
	const size_t all = N;
	int32_t shuffled[N];
	memcpy(shuffled, data_order(N, SEED, 1, NULL), sizeof shuffled);
	data_order(N, SEED, 3, NULL); /* overwrites the order of epoch 1 */
	struct shards *s =
		shards_new(&d, &(struct data_split){.own = true, .alpha = 0.1}, SEED, &all, 1);
	ck_assert_mem_eq(data_order(N, SEED, 1, s), shuffled, sizeof shuffled);
	shards_free(s);
}

TEST(seed_determines_row_owners)
{
	struct data d;
	for (size_t i = 0; i < COUNT(alphas); i++) {
		struct shards *a = split(&d, alphas[i], SEED), *b = split(&d, alphas[i], SEED),
			      *c = split(&d, alphas[i], SEED + 1);
		ck_assert_mem_eq(a->owner, b->owner, N * sizeof *a->owner);
		ck_assert_mem_ne(a->owner, c->owner, N * sizeof *a->owner);
		shards_free(a);
		shards_free(b);
		shards_free(c);
	}
}
