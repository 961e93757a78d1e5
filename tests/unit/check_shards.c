/*
 * check_shards.c - the partition of rows into shards (runtime/train/shards.c): every row has one
 * owner, shards have the requested sizes and NumPy's distribution of labels, alpha determines the
 * label skew, and an epoch's order moves no row from one shard to another.
 */
#include "runtime/train/train.h"
#include "tests/fixture.h"
#include "tests/shell.h"
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

static struct shards *split(struct data *d, bool by_class, double alpha, int64_t seed)
{
	*d = labelled();
	return shards_new(d,
			  &(struct data_split){.own = true, .by_class = by_class, .alpha = alpha},
			  seed, rows, MODELS);
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

TEST(every_row_has_one_owner_in_every_epoch, 2 * COUNT(alphas))
{
	struct data d;
	struct shards *s = split(&d, _i % 2, alphas[_i / 2], SEED);
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

TEST(alpha_determines_label_skew, 2)
{
	struct data d;
	enum { SEEDS = 10 };
	double skewed[COUNT(alphas)] = {0};
	for (size_t i = 0; i < SEEDS * COUNT(alphas); i++) {
		struct shards *s = split(&d, _i, alphas[i / SEEDS], (int64_t)(i % SEEDS) + 1);
		skewed[i / SEEDS] += purity(s, &d) / SEEDS;
		shards_free(s);
	}
	/* of 1,500 rows a class has 150 +- 11.6; the largest of ten is 1.54 deviations above */
	const double even = 0.1 * (1 + 1.54 * 11.6 / 150), within = 0.004;
	ck_assert_double_eq_tol(skewed[0], even, within);
	/* dirichlet: the last model gets what three others have left, 1.7 times as uneven */
	ck_assert_double_eq_tol(skewed[6], _i ? even : even + 0.1 * 1.54 * 11.6 / 150 * 0.73 / 4,
				within);
	/* 2.5 classes for each model would be 0.4 */
	ck_assert_double_gt(skewed[1], _i ? 0.25 : 0.38);
	ck_assert_double_gt(skewed[2], _i ? 0.25 : 0.38);
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
			struct shards *s = shards_new(&d,
						      &(struct data_split){.own = true,
									   .by_class = true,
									   .alpha = variance[k][0]},
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

/* The label mixes of Hsu et al.: with alpha 0.1 and ten equal classes the total variation distance
 * of a mix from uniform is 0.872 on average, and a mix has 1.14 classes. A shard is half a class,
 * so that the first one's rows are drawn by its mix. */
TEST(dirichlet_mixes_are_those_of_hsu_et_al)
{
	enum { SPLITS = 1000, SHARDS = 20 };
	struct data d = labelled();
	size_t equal[SHARDS];
	double distance = 0, classes = 0;
	for (size_t m = 0; m < SHARDS; m++)
		equal[m] = N / SHARDS;
	for (int64_t seed = 1; seed <= SPLITS; seed++) {
		int64_t count[SHARDS * CLASSES];
		struct shards *s = shards_new(&d, &(struct data_split){.own = true, .alpha = 0.1},
					      seed, equal, SHARDS);
		double squares = 0;
		shards_count(s, &d, count);
		for (size_t c = 0; c < CLASSES; c++) {
			double share = (double)count[c] / (double)equal[0];
			distance += fabs(share - 1.0 / CLASSES) / 2 / SPLITS;
			squares += share * share;
		}
		classes += 1 / squares / SPLITS;
		shards_free(s);
	}
	/* standard deviations of one mix: 0.09 and 0.3 */
	ck_assert_double_eq_tol(distance, 0.872, 4 * 0.09 / sqrt(SPLITS));
	ck_assert_double_eq_tol(classes, 1.138, 4 * 0.3 / sqrt(SPLITS));
}

/* Both splits have the distribution that NumPy's implementation has (reference/shards.py). */
TEST(shards_equal_numpy)
{
	enum { SPLITS = 600, TYPES = 5, WORKERS = 7 };
	static const double alpha[] = {0.05, 0.5, 5};
	static const size_t of_class[2][TYPES] = {{100, 100, 100, 100, 100}, {251, 150, 60, 38, 1}},
			    sizes[2][WORKERS] = {{125, 125, 125, 125},
						 {72, 72, 72, 71, 71, 71, 71}};
	const char *python = python_with("numpy");
	static float label[500];
	struct data d = {.n = COUNT(label), .features = 1, .classes = TYPES, .target = label};
	struct text t;
	if (!python)
		return;
	folder_new();
	FILE *f = text_open(&t);
	for (size_t i = 0; i < 4 * COUNT(alpha); i++) {
		const bool by_class = i % 2;
		const size_t uneven = i / 2 % 2, workers = uneven ? WORKERS : 4;
		const struct data_split how = {
			.own = true, .by_class = by_class, .alpha = alpha[i / 4]};
		for (size_t c = 0, row = 0; c < TYPES; c++)
			for (size_t k = 0; k < of_class[uneven][c]; k++)
				label[row++] = (float)c;
		fprintf(f, "%d %g\n", by_class, how.alpha);
		for (size_t c = 0; c < TYPES; c++)
			fprintf(f, "%zu ", of_class[uneven][c]);
		fprintf(f, "\n");
		for (size_t m = 0; m < workers; m++)
			fprintf(f, "%zu ", sizes[uneven][m]);
		fprintf(f, "\n%d\n", SPLITS);
		for (int64_t seed = 1; seed <= SPLITS; seed++) {
			int64_t count[WORKERS * TYPES];
			struct shards *s = shards_new(&d, &how, seed, sizes[uneven], workers);
			shards_count(s, &d, count);
			for (size_t k = 0; k < workers * TYPES; k++)
				fprintf(f, "%lld ", (long long)count[k]);
			fprintf(f, "\n");
			shards_free(s);
		}
	}
	char *text AUTOFREE = text_close(&t);
	folder_text("shards", text);
	run(0, "%s $MVBENCH_HOME/tests/reference/shards.py %s/shards", python, folder);
	folder_free();
	ck_assert_str_eq(printed, "equal\n");
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
	for (size_t i = 0; i < 2 * COUNT(alphas); i++) {
		const double alpha = alphas[i / 2];
		struct shards *a = split(&d, i % 2, alpha, SEED),
			      *b = split(&d, i % 2, alpha, SEED),
			      *c = split(&d, i % 2, alpha, SEED + 1);
		ck_assert_mem_eq(a->owner, b->owner, N * sizeof *a->owner);
		ck_assert_mem_ne(a->owner, c->owner, N * sizeof *a->owner);
		shards_free(a);
		shards_free(b);
		shards_free(c);
	}
}
