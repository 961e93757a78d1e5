/*
 * tables.c - checks the promises of libmvbench.h, function by function, on any number of processes.
 * Prints the backend, and each check that fails.
 *
 *     tables [PLACEMENT [SERVERS]]       PLACEMENT: of the tables; default: auto
 *
 * The first test is Multiverso's own (binding/python test.py): arrays and matrices that all workers
 * add to.
 */
#include <libmvbench.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;
static int onesided; /* such tables support fewer updaters, and no backup workers */

static void expect_at(int line, double is, double should)
{
	if (fabs(is - should) <= 1e-5 * fmax(1, fabs(should)))
		return;
	if (failures++ < 20)
		fprintf(stderr, "tests/lib/tables.c:%d: worker %d: %.9g; expected %.9g\n", line,
			mvb_worker_id(), is, should);
}
#define EXPECT(is, should) expect_at(__LINE__, is, should)

static void must_at(int line, int code)
{
	if (code == MVB_OK)
		return;
	fprintf(stderr, "tests/lib/tables.c:%d: worker %d: %s: %s\n", line, mvb_worker_id(),
		mvb_error_name(code), mvb_message());
	exit(1);
}
#define MUST(call) must_at(__LINE__, call)

enum { MOST = 20000 };
static float a[MOST], b[MOST], c[MOST];

static void fill(float *x, size_t n, float value)
{
	for (size_t i = 0; i < n; i++)
		x[i] = value;
}

/* ---- Tables ------------------------------------------------------------------------- */

static void arrays_as_multiverso_tests_them(size_t n)
{
	struct mvb_table *t;
	MUST(mvb_array_new(&t, n, NULL, NULL));
	for (size_t i = 0; i < n; i++)
		a[i] = (float)(i + 1);
	for (int iteration = 1; iteration <= 5; iteration++) {
		MUST(mvb_table_add(t, a, n, NULL));
		MUST(mvb_table_add(t, a, n, NULL));
		MUST(mvb_barrier());
		MUST(mvb_table_get(t, b, n));
		for (size_t i = 0; i < n; i += n / 3 + 1)
			EXPECT(b[i], (double)(i + 1) * iteration * 2 * mvb_num_workers());
		MUST(mvb_barrier());
	}
	MUST(mvb_table_free(t));
}

static void matrices_as_multiverso_tests_them(void)
{
	enum { ROWS = 11, COLUMNS = 10, SIZE = ROWS * COLUMNS };
	const int64_t row[] = {0, 1, 5, 10};
	struct mvb_table *t;
	MUST(mvb_matrix_new(&t, ROWS, COLUMNS, NULL, NULL));
	for (int i = 0; i < SIZE; i++)
		a[i] = (float)i;
	for (int k = 0; k < 4; k++)
		for (int i = 0; i < COLUMNS; i++)
			b[k * COLUMNS + i] = (float)(row[k] * COLUMNS + i);
	for (int times = 1; times <= 5; times++) {
		MUST(mvb_table_add(t, a, SIZE, NULL));
		MUST(mvb_table_add_rows(t, row, 4, b, 4 * COLUMNS, NULL));
		MUST(mvb_barrier());
		double expected = times * mvb_num_workers();
		MUST(mvb_table_get(t, c, SIZE));
		for (int i = 0; i < SIZE; i++) {
			int r = i / COLUMNS, twice = r == 0 || r == 1 || r == 5 || r == 10;
			EXPECT(c[i], i * expected * (1 + twice));
		}
		MUST(mvb_table_get_rows(t, row, 4, c, 4 * COLUMNS));
		for (int i = 0; i < 4 * COLUMNS; i++)
			EXPECT(c[i], b[i] * expected * 2);
		MUST(mvb_barrier());
	}
	MUST(mvb_table_free(t));
}

static void single_rows(int id, int workers)
{
	enum { ROWS = 7, COLUMNS = 3000 };
	const int64_t twice[] = {6, 6};
	struct mvb_table *t;
	MUST(mvb_matrix_new(&t, ROWS, COLUMNS, NULL, NULL));
	fill(a, 2 * COLUMNS, (float)(id + 1));
	MUST(mvb_table_add_row(t, id % ROWS, a, COLUMNS, NULL));
	MUST(mvb_table_add_rows(t, twice, 2, a, 2 * COLUMNS, NULL));
	MUST(mvb_barrier());
	MUST(mvb_table_get_row(t, 6, b, COLUMNS));
	EXPECT(b[COLUMNS - 1], workers * (workers + 1) + (workers == 7 ? 7 : 0));
	MUST(mvb_table_get_row(t, workers > 1 ? 1 : 0, b, COLUMNS));
	EXPECT(b[0], workers > 1 ? 2 : 1);
	MUST(mvb_table_get_row(t, 5, b, COLUMNS));
	EXPECT(b[7], workers > 5 ? 6 : 0);
	/* zero rows */
	MUST(mvb_table_add_rows(t, twice, 0, a, 0, NULL));
	MUST(mvb_table_add_rows(t, NULL, 0, NULL, 0, NULL));
	MUST(mvb_table_get_rows(t, twice, 0, a, 0));
	MUST(mvb_table_get_rows(t, NULL, 0, NULL, 0));
	MUST(mvb_table_free(t));
}

static void initial_values(int id, int workers)
{
	const double expected[] = {[MVB_MASTER] = 10,
				   [MVB_AVERAGE] = 10 + 0.5 * (workers - 1),
				   [MVB_TOTAL] = 10 * workers + 0.5 * workers * (workers - 1)};
	for (int i = MVB_MASTER; i <= MVB_TOTAL; i++) {
		const struct mvb_options o = {.initial = (enum mvb_initial)i};
		struct mvb_table *t;
		fill(a, 9, (float)(10 + id));
		MUST(mvb_array_new(&t, 9, a, &o));
		EXPECT(a[8], expected[i]);
		MUST(mvb_table_get(t, b, 9));
		EXPECT(b[0], expected[i]);
		MUST(mvb_table_free(t));
	}
}

/* One worker after another pushes 2 with lr 0.5 and momentum 0.5, twice. The resulting W. */
static double expected_after(const char *updater, int workers)
{
	double w = 1, v = 0, history = 0;
	for (int k = 0; k < 2 * workers; k++) {
		int again = k >= workers;
		if (strcmp(updater, "add") == 0)
			w += 2;
		if (strcmp(updater, "sgd") == 0)
			w -= 0.5 * 2;
		if (strcmp(updater, "momentum") == 0)
			w -= 0.5 * (v = 0.5 * v + 2);
		if (strcmp(updater, "momentum_ema") == 0)
			w -= 0.5 * (v = 0.5 * v + 0.5 * 2);
		if (strcmp(updater, "adagrad") == 0)
			w -= 0.1 / sqrt((again ? 8 : 4) + 1e-6) * 2;
		if (strcmp(updater, "adagrad_shared") == 0)
			w -= 0.1 / sqrt((history += 4) + 1e-6) * 2;
		if (strcmp(updater, "staleness") == 0)
			w -= 0.5 / fmax(again ? workers - 1 : k, 1) * 2;
	}
	return w;
}

static void updaters(int id, int workers)
{
	static const char *const name[] = {"add",          "sgd",     "momentum",
					   "momentum_ema", "adagrad", "adagrad_shared",
					   "staleness",    "dcasgd",  "dcasgda"};
	for (size_t u = 0; u < sizeof name / sizeof *name; u++) {
		const struct mvb_options o = {.updater = name[u]};
		struct mvb_push by = MVB_PUSH_DEFAULT;
		struct mvb_table *t;
		int64_t version;
		if (onesided && strcmp(name[u], "add") != 0 && strcmp(name[u], "sgd") != 0 &&
		    strcmp(name[u], "adagrad") != 0 && strcmp(name[u], "staleness") != 0) {
			EXPECT(mvb_array_new(&t, 50, NULL, &o), MVB_ERR_ARGUMENT);
			EXPECT(strstr(mvb_message(), "use servers") != NULL, 1);
			continue;
		}
		by.lr = by.momentum = 0.5f;
		fill(a, 50, 1);
		fill(b, 50, 2);
		MUST(mvb_array_new(&t, 50, a, &o));
		for (int k = 0; k < 2 * workers; k++) {
			if (k % workers == id)
				MUST(mvb_table_add_get(t, b, 50, &by, a));
			MUST(mvb_barrier());
		}
		MUST(mvb_table_get(t, a, 50));
		if (strncmp(name[u], "dc", 2) != 0)
			EXPECT(a[49], expected_after(name[u], workers));
		else
			EXPECT(isfinite(a[49]) && a[49] < 0, 1);
		MUST(mvb_table_version(t, &version));
		EXPECT((double)version, 2 * workers);
		MUST(mvb_table_free(t));
	}
}

/* dcasgd: W moved by 2 since the pull, so the second push is corrected. */
static void delay_is_compensated(int id, int workers)
{
	const struct mvb_options o = {.updater = "dcasgd"};
	const struct mvb_push by = {1, 0, 0, 0.5f};
	struct mvb_table *t;
	MUST(mvb_array_new(&t, 1, NULL, &o));
	a[0] = -2;
	for (int k = 0; k < 2 && k < workers; k++) {
		if (id == k)
			MUST(mvb_table_add(t, a, 1, &by));
		MUST(mvb_barrier());
	}
	MUST(mvb_table_get(t, b, 1));
	EXPECT(b[0], workers == 1 ? 2 : 2 + 2 - 0.5 * 4 * 2);
	MUST(mvb_table_free(t));
}

static void syncs_and_staleness(int id, int workers)
{
	struct mvb_table *t;
	int64_t stale;
	fill(a, MOST, 3);
	MUST(mvb_array_new(&t, MOST, a, NULL));
	MUST(mvb_table_staleness(t, &stale));
	EXPECT((double)stale, -1);
	for (int k = 0; k < workers; k++) {
		fill(a, MOST, a[0] + 1); /* the change by training */
		if (k == id) {
			MUST(mvb_table_sync(t, a, MOST));
			MUST(mvb_table_staleness(t, &stale));
			EXPECT((double)stale, id);
			EXPECT(a[MOST - 1], 3 + (id + 1) * (id + 2) / 2);
		}
		MUST(mvb_barrier());
	}
	MUST(mvb_table_free(t));
}

static void elastic(int id, int workers)
{
	struct mvb_table *t;
	double whole = 0;
	fill(a, 5, 1);
	MUST(mvb_array_new(&t, 5, a, NULL));
	fill(a, 5, (float)(id + 2));
	for (int i = 0; i < 10; i++)
		MUST(mvb_table_elastic(t, a, 5, 0.2f));
	MUST(mvb_barrier());
	MUST(mvb_table_get(t, b, 5));
	MUST(mvb_allreduce(a, 5, MVB_SUM));
	whole = a[4] + b[4]; /* the centre gains the sum of the workers' losses */
	EXPECT(whole, 1 + 2 * workers + workers * (workers - 1) / 2);
	EXPECT(b[4] > 1.4f, 1);
	MUST(mvb_table_free(t));
}

/* Worker 0 replaces W between two pushes of all; then some rows. */
static void sets(int id, int workers)
{
	enum { ROWS = 7, COLUMNS = 3000, SIZE = ROWS * COLUMNS };
	static float x[SIZE];
	const int64_t row[] = {6, 0, 6};
	const double sum = workers * (workers + 1) / 2.0;
	struct mvb_table *t;
	int64_t version;
	MUST(mvb_matrix_new(&t, ROWS, COLUMNS, NULL, NULL));
	if (onesided) {
		EXPECT(mvb_table_set(t, x, SIZE), MVB_ERR_ARGUMENT);
		EXPECT(strstr(mvb_message(), "onesided") != NULL, 1);
		MUST(mvb_table_free(t));
		return;
	}
	fill(x, SIZE, (float)(id + 1));
	MUST(mvb_table_add(t, x, SIZE, NULL));
	MUST(mvb_barrier());
	if (id == 0)
		MUST(mvb_table_set(t, x, SIZE));
	MUST(mvb_barrier());
	MUST(mvb_table_add(t, x, SIZE, NULL));
	MUST(mvb_barrier());
	if (id == workers - 1) {
		fill(a, COLUMNS, 4);
		fill(a + COLUMNS, COLUMNS, 5);
		fill(a + 2 * (size_t)COLUMNS, COLUMNS, 6);
		MUST(mvb_table_set_rows(t, row, 3, a, 3 * (size_t)COLUMNS));
		MUST(mvb_table_set_rows(t, NULL, 0, NULL, 0));
	}
	MUST(mvb_barrier());
	MUST(mvb_table_get(t, x, SIZE));
	for (int i = 0; i < SIZE; i += COLUMNS / 2)
		EXPECT(x[i], i / COLUMNS == 6 ? 6 : i / COLUMNS == 0 ? 5 : 1 + sum);
	MUST(mvb_table_version(t, &version));
	EXPECT((double)version, 2 * workers + 3);
	MUST(mvb_table_free(t));
}

static void started(int id, int workers)
{
	enum { N = 10000, TIMES = 10 };
	struct mvb_table *t, *other;
	int64_t ticket[TIMES + 1];
	MUST(mvb_array_new(&t, N, NULL, NULL));
	MUST(mvb_array_new(&other, 3, NULL, NULL));
	fill(a, N, (float)(id + 1));
	for (int i = 0; i < TIMES; i++)
		MUST(mvb_table_add_start(t, a, N, NULL, &ticket[i]));
	MUST(mvb_table_add_start(other, a, 3, NULL, &ticket[TIMES]));
	for (int i = TIMES; i >= TIMES / 2; i--)
		MUST(mvb_wait(ticket[i]));
	MUST(mvb_barrier()); /* waits for the other half */
	double all = TIMES * workers * (workers + 1) / 2.0;
	MUST(mvb_table_get(t, b, N));
	EXPECT(b[N - 1], all);
	for (int i = 0; i < TIMES / 2; i++)
		MUST(mvb_wait(ticket[i]));
	MUST(mvb_table_get_start(t, c, N, &ticket[0]));
	MUST(mvb_wait(ticket[0]));
	EXPECT(c[0], all);
	MUST(mvb_barrier());
	c[5] += 1;
	MUST(mvb_table_sync_start(t, c, N, &ticket[0]));
	MUST(mvb_wait(ticket[0]));
	MUST(mvb_barrier());
	MUST(mvb_table_get(t, c, N));
	EXPECT(c[4], all);
	EXPECT(c[5], all + workers);
	MUST(mvb_barrier());
	MUST(mvb_table_get(other, c, 3));
	EXPECT(c[2], workers * (workers + 1) / 2.0);
	/* freed while an operation is pending */
	MUST(mvb_table_add_start(t, a, N, NULL, &ticket[0]));
	MUST(mvb_table_free(t));
	MUST(mvb_wait(ticket[0]));
	MUST(mvb_table_free(other));
}

/* The i-th push returns when all workers have pushed i times; a read then gives W of that round. */
static void rounds(int id, int workers)
{
	const struct mvb_options o = {.rounds = true};
	struct mvb_table *t;
	int64_t ticket;
	MUST(mvb_array_new(&t, 300, NULL, &o));
	fill(a, 300, (float)(id + 1));
	double one = workers * (workers + 1) / 2.0;
	EXPECT(mvb_table_set(t, a, 300), MVB_ERR_ARGUMENT);
	for (int i = 1; i <= 20; i++) {
		if (i % 3 == 0) {
			MUST(mvb_table_add_start(t, a, 300, NULL, &ticket));
			MUST(mvb_wait(ticket));
			MUST(mvb_table_get(t, b, 300));
		} else if (i % 3 == 1) {
			MUST(mvb_table_add_get(t, a, 300, NULL, b));
		} else {
			MUST(mvb_table_add(t, a, 300, NULL));
			MUST(mvb_table_get(t, b, 300));
		}
		EXPECT(b[0], i * one);
		EXPECT(b[299], i * one);
		if (i == 10)
			MUST(mvb_barrier());
	}
	MUST(mvb_table_free(t));
}

/* A second push before the wait for the first is refused; reads between them are allowed. */
static void one_push_a_round(int id, int workers, int backup)
{
	enum { ROWS = 10, COLUMNS = 300, SIZE = ROWS * COLUMNS, TIMES = 8 };
	const struct mvb_options o = {.rounds = true, .backup = backup};
	const int64_t row = 7;
	struct mvb_table *t;
	int64_t ticket, second, version;
	double one = workers * (workers + 1) / 2.0;
	MUST(mvb_matrix_new(&t, ROWS, COLUMNS, NULL, &o));
	fill(a, SIZE, (float)(id + 1));
	fill(b, SIZE, 1000);
	for (int i = 1; i <= TIMES; i++) {
		MUST(mvb_table_add_start(t, a, SIZE, NULL, &ticket));
		EXPECT(mvb_table_add_start(t, b, SIZE, NULL, &second), MVB_ERR_STATE);
		EXPECT(mvb_table_add(t, b, SIZE, NULL), MVB_ERR_STATE);
		EXPECT(mvb_table_add_row(t, row, b, COLUMNS, NULL), MVB_ERR_STATE);
		EXPECT(strstr(mvb_message(), "mvb_table_add_row: a worker pushes once") != NULL, 1);
		MUST(mvb_table_get(t, c, SIZE)); /* of this round, or of the previous one */
		if (!backup)
			EXPECT(c[0], c[0] > (i - 0.5) * one ? i * one : (i - 1) * one);
		MUST(mvb_table_get_row(t, row, c, COLUMNS));
		MUST(mvb_wait(ticket));
		MUST(mvb_table_get(t, c, SIZE));
		EXPECT(c[0] <= TIMES * one, 1);
		if (!backup) {
			EXPECT(c[0], i * one);
			EXPECT(c[SIZE - 1], i * one);
		}
	}
	/* A worker with nothing to push takes part in the round anyway. */
	MUST(mvb_table_add_rows(t, id ? &row : NULL, id > 0, id ? a : NULL, id ? COLUMNS : 0,
				NULL));
	MUST(mvb_barrier());
	MUST(mvb_table_get_row(t, row, c, COLUMNS));
	if (!backup)
		EXPECT(c[COLUMNS - 1], (TIMES + 1) * one - 1);
	MUST(mvb_table_version(t, &version));
	EXPECT((double)version, (TIMES + 1) * workers);
	MUST(mvb_table_free(t));
}

static void rounds_with_a_backup(int id, int workers)
{
	const struct mvb_options o = {.rounds = true, .backup = workers > 1};
	struct mvb_table *t;
	int64_t stale, version;
	MUST(mvb_array_new(&t, 30, NULL, &o));
	fill(a, 30, 1);
	for (int i = 0; i < 30; i++)
		MUST(mvb_table_add_get(t, a, 30, NULL, b));
	MUST(mvb_table_staleness(t, &stale));
	EXPECT(stale == 0 || (stale == -1 && o.backup), 1);
	MUST(mvb_barrier());
	MUST(mvb_table_get(t, b, 30));
	MUST(mvb_table_version(t, &version));
	EXPECT(b[0] <= 30.0f * (float)workers && b[0] >= 30.0f * (float)(workers - o.backup), 1);
	EXPECT((double)version, 30 * workers);
	(void)id;
	MUST(mvb_table_free(t));
}

static void bounded_leads(int id, int workers)
{
	const struct mvb_options o = {.bounded = true, .lead = 2};
	struct mvb_table *t;
	int64_t version;
	MUST(mvb_array_new(&t, 30, NULL, &o));
	fill(a, 30, 1);
	for (int i = 1; i <= 50; i++) {
		MUST(mvb_table_add_get(t, a, 30, NULL, b));
		/* the slowest is at most 2 steps behind */
		EXPECT(b[0] >= (float)(i + (workers - 1) * (i > 2 ? i - 2 : 0)), 1);
	}
	if (id == 0) /* the others continue without it, because it waits at a barrier */
		MUST(mvb_barrier());
	for (int i = 0; id > 0 && i < 10; i++)
		MUST(mvb_table_add(t, a, 30, NULL));
	if (id > 0)
		MUST(mvb_barrier());
	MUST(mvb_table_version(t, &version));
	EXPECT((double)version, 50 * workers + 10 * (workers - 1));
	MUST(mvb_table_free(t));
}

/* ---- Keys ---- */

/* All workers add to the same new keys, each in another order, in a table that they fill. */
static void values_by_key(int id, int workers)
{
	enum { KEYS = 60 };
	const int64_t ends[] = {INT64_MIN, -1, 0, INT64_MAX}, absent = 12345;
	int64_t key[KEYS], other[KEYS];
	struct mvb_table *t;
	MUST(mvb_kv_new(&t, KEYS));
	for (int i = 0; i < KEYS; i++) {
		int k = (i + 17 * id) % KEYS;
		key[i] = k < 4 ? ends[k] : ((int64_t)k << 40) - k;
		a[i] = (float)(k + 1);
	}
	MUST(mvb_kv_get(t, key, KEYS, b)); /* while others add */
	MUST(mvb_kv_add(t, key, KEYS / 2, a));
	for (int i = KEYS / 2; i < KEYS; i++)
		MUST(mvb_kv_add(t, &key[i], 1, &a[i]));
	MUST(mvb_barrier());
	for (int i = 0; i < KEYS; i++)
		other[i] = key[KEYS - 1 - i];
	MUST(mvb_kv_get(t, other, KEYS, b));
	for (int i = 0; i < KEYS; i++)
		EXPECT(b[i], a[KEYS - 1 - i] * (float)workers);
	MUST(mvb_kv_get(t, &absent, 1, b)); /* after a look at all places */
	EXPECT(b[0], 0);
	EXPECT(mvb_kv_add(t, &absent, 1, a), MVB_ERR_LIMIT);
	MUST(mvb_kv_get(t, NULL, 0, NULL));
	MUST(mvb_table_free(t));
	other[0] = other[1] = absent; /* a new key, listed twice */
	MUST(mvb_kv_new(&t, 1000));
	MUST(mvb_kv_add(t, other, 2, a));
	MUST(mvb_kv_get(t, other, 2, b));
	EXPECT(b[0] >= a[0] + a[1], 1);
	MUST(mvb_table_free(t));
}

/* ---- Reductions ------------------------------------------------------------------------- */

static void reductions(int id, int workers)
{
	double sum = workers * (workers + 1) / 2.0;
	float *const list[] = {a, b, NULL, c};
	const size_t n[] = {3, 1, 0, MOST};
	int64_t ticket[3];
	fill(a, MOST, (float)(id + 1));
	MUST(mvb_allreduce(a, MOST, MVB_SUM));
	EXPECT(a[MOST - 1], sum);
	fill(a, 1, (float)(id + 1));
	MUST(mvb_allreduce(a, 1, MVB_MEAN));
	EXPECT(a[0], sum / workers);
	EXPECT(a[1], sum);
	MUST(mvb_allreduce(NULL, 0, MVB_SUM));

	fill(a, 10, (float)(id + 1));
	fill(b, 10, 2 * (float)(id + 1));
	fill(c, 10, 3 * (float)(id + 1));
	MUST(mvb_allreduce_start(a, 10, MVB_SUM, &ticket[0]));
	MUST(mvb_allreduce_start(b, 10, MVB_MEAN, &ticket[1]));
	MUST(mvb_allreduce_start(c, 10, MVB_SUM, &ticket[2]));
	for (int i = 2; i >= 0; i--)
		MUST(mvb_wait(ticket[i]));
	EXPECT(a[9], sum);
	EXPECT(b[9], 2 * sum / workers);
	EXPECT(c[9], 3 * sum);

	fill(a, 3, (float)(id + 1));
	fill(b, 1, 10 * (float)(id + 1));
	fill(c, MOST, 100 * (float)(id + 1));
	MUST(mvb_allreduce_list(list, n, 4, MVB_SUM));
	EXPECT(a[2], sum);
	EXPECT(b[0], 10 * sum);
	EXPECT(c[MOST - 1], 100 * sum);
	MUST(mvb_allreduce_list(NULL, NULL, 0, MVB_SUM));

	fill(a, 100, (float)(id + 1));
	MUST(mvb_broadcast(a, 99, workers - 1));
	EXPECT(a[98], workers);
	EXPECT(a[99], id + 1);
}

/* Worker 0 waits for a sum, and then pushes. The others push first, and their push waits for its.
 */
static void sum_beside_a_round(int id, int workers)
{
	const struct mvb_options rounds = {.rounds = true};
	struct mvb_table *t;
	int64_t before, ticket;
	fill(c, MOST, (float)(id + 1));
	MUST(mvb_allreduce_start(c, MOST, MVB_SUM, &before)); /* waits for no worker */
	MUST(mvb_array_new(&t, 30, NULL, &rounds));
	fill(a, MOST, (float)(id + 1));
	fill(b, 30, 1);
	MUST(mvb_allreduce_start(a, MOST, MVB_MEAN, &ticket)); /* waits for all */
	if (id == 0)
		MUST(mvb_wait(ticket));
	MUST(mvb_table_add(t, b, 30, NULL));
	if (id > 0)
		MUST(mvb_wait(ticket));
	MUST(mvb_wait(before));
	EXPECT(a[MOST - 1], (workers + 1) / 2.0);
	EXPECT(c[MOST - 1], workers * (workers + 1) / 2.0);
	MUST(mvb_table_free(t));
}

/* Tensors become ready in a different order on each worker. */
static void gradients(int id, int workers, size_t bucket_bytes)
{
	enum { TENSORS = 9 };
	static float store[TENSORS][2000];
	const size_t n[TENSORS] = {1, 2000, 30, 0, 5, 700, 1000, 2, 64};
	float *tensor[TENSORS];
	struct mvb_grads *g;
	for (int i = 0; i < TENSORS; i++)
		tensor[i] = store[i];
	MUST(mvb_grads_new(&g, tensor, n, TENSORS, bucket_bytes));
	for (int step = 1; step <= 5; step++) {
		for (int k = 0; k < TENSORS; k++) {
			int i = (TENSORS - 1 - k + (step > 2 ? id : 0)) % TENSORS;
			fill(tensor[i], n[i], (float)(step * (i + 1) * (id + 1)));
			MUST(mvb_grads_ready(g, (size_t)i));
			if (k == 4) /* other reductions do not disturb */
				MUST(mvb_allreduce(a, 10, MVB_MEAN));
		}
		MUST(mvb_grads_wait(g));
		for (int i = 0; i < TENSORS; i++)
			if (n[i])
				EXPECT(tensor[i][n[i] - 1], step * (i + 1) * (workers + 1) / 2.0);
	}
	MUST(mvb_grads_free(g));
}

/* The library's objects can be made and freed repeatedly. */
static void many_in_turn(void)
{
	for (int i = 0; i < 300; i++) {
		struct mvb_table *t;
		MUST(mvb_array_new(&t, 2, NULL, NULL));
		MUST(mvb_table_free(t));
	}
}

int main(int argc, char **argv)
{
	struct mvb_setup setup = {.tables = argc > 1 ? argv[1] : NULL,
				  .servers = argc > 2 ? atoi(argv[2]) : 0};
	MUST(mvb_init(&setup));
	if (mvb_is_server()) {
		MUST(mvb_shutdown());
		return 0;
	}
	int id = mvb_worker_id(), workers = mvb_num_workers();
	onesided = strstr(mvb_backend(), "onesided") != NULL;
	EXPECT(mvb_size(), workers + setup.servers);
	EXPECT(mvb_num_servers(), setup.servers);
	EXPECT(mvb_rank(), id);
	if (mvb_is_master())
		printf("%d workers: %s\n", workers, mvb_backend());

	const size_t sizes[] = {1, 3, 1000, MOST};
	for (int i = 0; i < 4; i++)
		arrays_as_multiverso_tests_them(sizes[i]);
	matrices_as_multiverso_tests_them();
	single_rows(id, workers);
	initial_values(id, workers);
	updaters(id, workers);
	if (!onesided)
		delay_is_compensated(id, workers);
	syncs_and_staleness(id, workers);
	elastic(id, workers);
	sets(id, workers);
	started(id, workers);
	rounds(id, workers);
	one_push_a_round(id, workers, 0);
	if (!onesided) {
		one_push_a_round(id, workers, workers > 1);
		rounds_with_a_backup(id, workers);
	}
	bounded_leads(id, workers);
	values_by_key(id, workers);
	reductions(id, workers);
	sum_beside_a_round(id, workers);
	gradients(id, workers, 0);
	gradients(id, workers, 4);
	gradients(id, workers, 4096);
	many_in_turn();
	MUST(mvb_shutdown());
	return failures != 0;
}
