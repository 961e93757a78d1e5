/*
 * check_stats.c - the statistics of the results: medians and their intervals against resampling,
 * times to an accuracy that some runs missed, which configurations differ, what is kept of ended
 * runs, and how `mvbench table` shows all that.
 */
#include "plots/plot.h"
#include "results/run/run.h"
#include "tests/suites.h"
#include "tests/trained.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- A database in memory, or in the folder ------------------------------ */

static sqlite3 *db;

static void exec(const char *sql)
{
	char *wrong = NULL;
	sqlite3_exec(db, sql, NULL, NULL, &wrong);
	ck_assert_msg(!wrong, "%s: %s", sql, wrong);
}

static void open_memory(void)
{
	ck_assert_int_eq(sqlite3_open(":memory:", &db), SQLITE_OK);
	exec(database_schema());
}

static void open_file(void)
{
	folder_new();
	char *path = sentence("%s/run.db", folder);
	ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
	exec(database_schema());
	free(path);
}

static void close_memory(void)
{
	sqlite3_close(db);
}

static void close_file(void)
{
	close_memory();
	folder_free();
}

/* The rows of a query: cells with ',' between, rows with ';', "null" where there is nothing. */
static void expect(const char *sql, const char *want)
{
	char got[2000];
	size_t at = 0;
	sqlite3_stmt *q;
	ck_assert_msg(sqlite3_prepare_v2(db, sql, -1, &q, NULL) == SQLITE_OK, "%s: %s", sql,
		      sqlite3_errmsg(db));
	got[0] = '\0';
	for (int n = 0; sqlite3_step(q) == SQLITE_ROW; n++)
		for (int i = 0; i < sqlite3_column_count(q); i++) {
			const char *cell = (const char *)sqlite3_column_text(q, i);
			at += (size_t)snprintf(got + at, sizeof got - at, "%s%s",
					       i   ? ","
					       : n ? ";"
						   : "",
					       cell ? cell : "null");
			ck_assert_uint_lt(at, sizeof got);
		}
	sqlite3_finalize(q);
	ck_assert_msg(strcmp(got, want) == 0, "%s\ngave %s\nnot  %s", sql, got, want);
}

static double number(const char *sql)
{
	sqlite3_stmt *q;
	ck_assert_msg(sqlite3_prepare_v2(db, sql, -1, &q, NULL) == SQLITE_OK, "%s: %s", sql,
		      sqlite3_errmsg(db));
	ck_assert_int_eq(sqlite3_step(q), SQLITE_ROW);
	double x = sqlite3_column_type(q, 0) == SQLITE_NULL ? NAN : sqlite3_column_double(q, 0);
	sqlite3_finalize(q);
	return x;
}

static const char *workload = "mlp"; /* of what add() adds */

/* A run of one epoch, by `workers` workers; its target is 0.8. */
static void add(const char *strategy, int workers, int seed, const char *status, double accuracy,
		double seconds)
{
	char *sql = sqlite3_mprintf(
		"INSERT INTO run (status, config_hash, workload, strategy, workers, servers, "
		"sync_every, barrier_every, epochs, batch, lr, lr_schedule, momentum, "
		"weight_decay, reduce, lr_scale, seed, device, platform, threads, straggle, "
		"target_accuracy, train_size, params, host, cpu) VALUES ('running', 'h', %Q, "
		"%Q, %d, 0, 1, 0, 1, 64, 0.1, 'constant', 0, 0, 'mean', 'none', %d, 'cpu', 'mpi', "
		"1, 0, 0.8, 1000, 7, 'here', 'a CPU');"
		"INSERT INTO epoch (run_id, epoch, seconds, test_loss, test_accuracy) VALUES "
		"(last_insert_rowid(), 1, %!.17g, %!.17g, %!.17g);"
		"UPDATE run SET status = %Q WHERE id = (SELECT max(id) FROM run)",
		workload, strategy, workers, seed, seconds, 1 - accuracy, accuracy, status);
	exec(sql);
	sqlite3_free(sql);
}

/* ---- The bootstrap ------------------------------------------------------- */

/* P(at least m of n draws hit the first k of n values). */
static double hits(int n, int k, int m)
{
	double p = 0;
	for (int j = m; j <= n; j++)
		p += exp(lgamma(n + 1) - lgamma(j + 1) - lgamma(n - j + 1) + j * log(k) +
			 (k < n    ? (n - j) * log(n - k)
			  : n == j ? 0
				   : -INFINITY) -
			 n * log(n));
	return p;
}

START_TEST(ranks_are_those_of_the_exact_distribution)
{
	expect("SELECT * FROM bootstrap_rank WHERE n <= 2", "1,null,null,null;2,1,2,null");
	expect("SELECT count(*), min(n), max(n) FROM bootstrap_rank", "101,1,101");
	for (int n = 2; n <= 100; n++) {
		char sql[200];
		snprintf(sql, sizeof sql, "SELECT low FROM bootstrap_rank WHERE n = %d", n);
		int low = (int)number(sql), m = (n + 1) / 2;
		ck_assert_msg(hits(n, low, m) >= 0.025, "n = %d: %d is too low", n, low);
		ck_assert_msg(low == 1 || hits(n, low - 1, m) < 0.025, "n = %d: %d is too high", n,
			      low);
		snprintf(sql, sizeof sql,
			 "SELECT high + low - 1 - n, ifnull(minority, -1) FROM bootstrap_rank "
			 "WHERE n = %d",
			 n);
		/* the sign test: 2 P(Bin(n, 1/2) <= minority) <= 0.05 */
		int most = -1;
		for (double tail = 0; most < n; most++) {
			tail += exp(lgamma(n + 1) - lgamma(most + 2) - lgamma(n - most) -
				    n * log(2));
			if (2 * tail > 0.05)
				break;
		}
		char want[20];
		snprintf(want, sizeof want, "0,%d", most);
		expect(sql, want);
	}
	/* beyond the list, where there are so many runs: at most a rank off */
	exec("WITH RECURSIVE i(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n < 300) "
	     "INSERT INTO run (status, config_hash, workload, strategy, workers, servers, "
	     "sync_every, barrier_every, epochs, batch, lr, lr_schedule, momentum, weight_decay, "
	     "reduce, lr_scale, seed, device, platform, threads, straggle, target_accuracy) SELECT "
	     "'pending', 'h', 'mlp', 'serial', 1, 0, 1, 0, 1, 64, 0.1, 'c', 0, 0, 'mean', 'none', "
	     "n, 'cpu', 'mpi', 1, 0, 0 FROM i");
	expect("SELECT count(*), max(n) FROM bootstrap_rank", "300,300");
	for (int n = 101; n <= 300; n++) {
		char sql[100];
		snprintf(sql, sizeof sql, "SELECT low FROM bootstrap_rank WHERE n = %d", n);
		int low = (int)number(sql), m = (n + 1) / 2;
		ck_assert_msg(hits(n, low + 1, m) >= 0.025 && hits(n, low - 2, m) < 0.025,
			      "n = %d: %d", n, low);
	}
}
END_TEST

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* The distribution itself, by drawing: how often is the median of a sample below the interval? */
START_TEST(intervals_are_those_of_resampling)
{
	enum { DRAWS = 20000 };
	uint64_t rng = 5;
	for (int n = 2; n <= 12; n++) {
		double x[12], sample[12], below = 0, above = 0, at = 0;
		exec("DELETE FROM run");
		for (int i = 0; i < n; i++) {
			x[i] = rng_uniform(&rng);
			add("serial", 1, i, "done", x[i], 1 + x[i]);
		}
		char want[40];
		snprintf(want, sizeof want, "%d,%d,1,1,1", n, n);
		expect("SELECT n, seeds, abs(epoch_seconds - 1 - test_accuracy) < 1e-9, "
		       "abs(epoch_seconds_high - 1 - test_accuracy_high) < 1e-9, "
		       "abs(1 - test_loss_low - test_accuracy_high) < 1e-9 "
		       "FROM configuration_summary",
		       want);
		double low = number("SELECT test_accuracy_low FROM configuration_summary");
		double high = number("SELECT test_accuracy_high FROM configuration_summary");
		double median = number("SELECT test_accuracy FROM configuration_summary");
		qsort(x, (size_t)n, sizeof *x, ascending);
		ck_assert_double_eq_tol(median, (x[(n - 1) / 2] + x[n / 2]) / 2, 1e-12);
		for (int draw = 0; draw < DRAWS; draw++) {
			for (int i = 0; i < n; i++)
				sample[i] = x[(int)(n * rng_uniform(&rng))];
			qsort(sample, (size_t)n, sizeof *sample, ascending);
			below += sample[(n - 1) / 2] < low;
			at += sample[(n - 1) / 2] <= low;
			above += sample[n / 2] > high;
		}
		/* 0.025, give or take four standard deviations of what was drawn */
		ck_assert_msg(below / DRAWS < 0.0295 && above / DRAWS < 0.0295 &&
				      at / DRAWS > 0.0205,
			      "n = %d: %g below, %g up to, %g above the interval", n, below / DRAWS,
			      at / DRAWS, above / DRAWS);
	}
	exec("DELETE FROM run WHERE seed > 0");
	expect("SELECT n, test_accuracy IS NULL, test_accuracy_low, test_accuracy_high FROM "
	       "configuration_summary",
	       "1,0,null,null");
}
END_TEST

/* ---- Time to an accuracy ------------------------------------------------- */

START_TEST(a_miss_is_later_than_all_others)
{
	add("serial", 1, 1, "done", 0.9, 10);
	add("serial", 1, 2, "done", 0.8, 30);
	add("serial", 1, 3, "done", 0.85, 20);
	add("serial", 1, 4, "done", 0.7, 1);
	add("serial", 1, 5, "failed", 0.9, 2);
#define TIMES \
	"SELECT reached, missed, time_to_accuracy, time_to_accuracy_low, time_to_accuracy_high " \
	"FROM configuration_summary"
	expect(TIMES, "3,1,25.0,10.0,null");
	/* a run that diverged has missed it, and says nothing else */
	add("serial", 1, 6, "diverged", 0.1, 3);
	expect(TIMES, "3,2,30.0,10.0,null");
	expect("SELECT n, seeds, diverged, test_accuracy, test_accuracy_low FROM "
	       "configuration_summary",
	       "4,4,1,0.825,0.7");
	/* half of them missed it */
	add("serial", 1, 7, "done", 0.7, 1);
	expect(TIMES, "3,3,null,10.0,null");
	/* nobody did, and nobody had to */
	exec("DELETE FROM run WHERE seed IN (4, 6, 7)");
	expect(TIMES, "3,0,20.0,10.0,30.0");
	exec("UPDATE run SET target_accuracy = 0");
	expect(TIMES, "0,0,null,null,null");
	/* a configuration of which all diverged is there too */
	exec("DELETE FROM run");
	add("serial", 1, 1, "diverged", 0.1, 3);
	expect("SELECT n, diverged, test_accuracy, reached, missed FROM configuration_summary",
	       "0,1,null,0,1");
}
END_TEST

/* ---- Repeats of a seed --------------------------------------------------- */

/* Imported twice, or run again, it tells nothing new. */
START_TEST(a_repeated_seed_is_one_sample)
{
	static const char figures[] =
		"SELECT n, seeds, test_accuracy, test_accuracy_low, test_accuracy_high, "
		"round(test_loss_low, 6), epoch_seconds, epoch_seconds_low, epoch_seconds_high, "
		"reached, missed, time_to_accuracy_high FROM configuration_summary";
	for (int repeat = 0; repeat < 4; repeat++)
		for (int seed = 1; seed <= 5; seed++)
			add("serial", 1, seed, "done", 0.8 + 0.01 * seed + 0.001 * repeat,
			    10 * seed + repeat);
	/* the first of a seed counts; real times are samples of their own */
	expect(figures, "20,5,0.83,0.81,0.85,0.15,31.5,21.0,42.0,20,0,42.0");
	/* simulated ones are not */
	exec("UPDATE run SET platform = 'sim'");
	expect(figures, "20,5,0.83,0.81,0.85,0.15,30.0,10.0,50.0,5,0,50.0");
	/* one that diverged is no sample where another of its seed is */
	exec("UPDATE run SET status = 'diverged' WHERE id = 1");
	expect(figures, "19,5,0.83,0.811,0.85,0.15,30.0,11.0,50.0,5,0,50.0");
	add("asgd", 2, 1, "done", 0.9, 1);
	add("asgd", 2, 2, "done", 0.9, 1);
	add("asgd", 2, 2, "done", 0.9, 1);
	exec("UPDATE run SET platform = 'sim'");
	expect("SELECT name, n, versus_n, pairs FROM comparison WHERE versus = 'serial sim' "
	       "ORDER BY 1",
	       "epoch_seconds,2,5,2;test_accuracy,2,5,2;test_loss,2,5,2;time_to_accuracy,2,5,2");
}
END_TEST

/* ---- What differs -------------------------------------------------------- */

#define COMPARED \
	"SELECT n, versus_n, pairs, round(difference, 6), round(difference_low, 6), " \
	"round(difference_high, 6), enough, significant FROM comparison WHERE config = 'asgd 2w' " \
	"AND name = "

static void add_both(int first, int last, const double *serial, const double *asgd)
{
	for (int seed = first; seed <= last; seed++) {
		add("serial", 1, seed, "done", serial[seed - first], 10 * serial[seed - first]);
		add("asgd", 2, seed, "done", asgd[seed - first], 10 * asgd[seed - first]);
	}
}

START_TEST(pairs_are_compared_seed_by_seed)
{
	/* what a seed does is far more than what the strategy does */
	const double serial[] = {0.10, 0.30, 0.50, 0.70, 0.20, 0.90},
		     asgd[] = {0.12, 0.31, 0.54, 0.73, 0.25, 0.93};
	add_both(1, 5, serial, asgd);
	expect(COMPARED "'test_accuracy'", "5,5,5,0.03,0.01,0.05,1,0");
	add_both(6, 6, serial + 5, asgd + 5);
	expect(COMPARED "'test_accuracy'", "6,6,6,0.03,0.01,0.05,1,1");
	expect(COMPARED "'test_loss'", "6,6,6,-0.03,-0.05,-0.01,1,1");
	expect(COMPARED "'epoch_seconds'", "6,6,6,0.3,0.1,0.5,1,1");
	expect("SELECT count(*) FROM comparison WHERE name = 'test_accuracy' AND config = 'serial' "
	       "AND versus = 'asgd 2w' AND round(difference, 6) = -0.03",
	       "1");
	/* one seed of six goes the other way */
	exec("UPDATE epoch SET test_accuracy = 0.09 WHERE run_id = 2");
	expect(COMPARED "'test_accuracy'", "6,6,6,0.03,-0.01,0.05,1,0");
	/* one of seven does: the interval leaves 0 out, the sign test does not reject it (p =
	 * 0.125) */
	add("serial", 1, 7, "done", 0.4, 4);
	add("asgd", 2, 7, "done", 0.44, 4.4);
	expect(COMPARED "'test_accuracy'", "7,7,7,0.03,0.01,0.04,1,0");
	exec("DELETE FROM run WHERE seed = 7");
	/* a tie is no sign */
	exec("UPDATE epoch SET test_accuracy = 0.1 WHERE run_id = 2");
	expect(COMPARED "'test_accuracy'", "6,6,6,0.03,0.0,0.05,1,0");
	/* other work is not compared in time */
	exec("UPDATE run SET batch = 32 WHERE strategy = 'asgd'");
	expect("SELECT name, count(*) FROM comparison GROUP BY name",
	       "test_accuracy,2;test_loss,2");
}
END_TEST

START_TEST(sides_without_common_seeds_are_compared_as_a_whole)
{
	const double low[] = {0.1, 0.2, 0.3, 0.4, 0.5};
	for (int i = 0; i < 3; i++)
		add("serial", 1, i, "done", low[i], 1 + low[i]);
	for (int i = 0; i < 3; i++)
		add("asgd", 2, 10 + i, "done", 0.5 + low[i], 1.5 + low[i]);
	/* 2 / C(6, 3) = 0.1: nothing that these can show is significant */
	expect(COMPARED "'test_accuracy'", "3,3,0,0.5,null,null,0,0");
	add("serial", 1, 3, "done", low[3], 1);
	add("asgd", 2, 13, "done", 0.9, 1);
	/* 2 / C(8, 4) = 0.029 */
	expect(COMPARED "'test_accuracy'", "4,4,0,0.5,0.2,0.8,1,1");
	/* one of four lies among the others: 4 / C(8, 4) = 0.057 */
	exec("UPDATE epoch SET test_accuracy = 0.35 WHERE test_accuracy = 0.6");
	expect(COMPARED "'test_accuracy'", "4,4,0,0.5,-0.05,0.8,1,0");
	/* repeats of a seed are no seeds, but times need none */
	exec("UPDATE run SET seed = 1 WHERE strategy = 'asgd'");
	expect("SELECT name, versus_n, n, pairs FROM comparison WHERE config = 'asgd 2w' ORDER BY "
	       "1",
	       "epoch_seconds,4,4,0;test_accuracy,4,1,0;test_loss,4,1,0;time_to_accuracy,4,4,0");
	exec("UPDATE run SET seed = 1");
	expect("SELECT name, versus_n, n, pairs FROM comparison WHERE config = 'asgd 2w' ORDER BY "
	       "1",
	       "epoch_seconds,4,4,4;test_accuracy,1,1,0;test_loss,1,1,0;time_to_accuracy,4,4,4");
}
END_TEST

START_TEST(misses_are_compared_too)
{
	for (int i = 0; i < 6; i++) {
		add("serial", 1, i, "done", 0.9, 10 + i);
		add("asgd", 2, i, "done", i < 4 ? 0.7 : 0.9, 12 + i);
	}
	/* four times never, twice two seconds later */
	expect(COMPARED "'time_to_accuracy'", "6,6,6,null,2.0,null,1,1");
	exec("UPDATE epoch SET test_accuracy = 0.5");
	expect(COMPARED "'time_to_accuracy'", "6,6,6,0.0,0.0,0.0,1,0");
}
END_TEST

/* Two-sided p of the rank-sum test, by trying out who could have been on which side. */
static double rank_sum_p(const double *a, int n, const double *b, int m)
{
	double all[16], extreme = 0, count = 0, mine = 0;
	for (int i = 0; i < n; i++)
		for (int j = 0; j < m; j++)
			mine += a[i] < b[j];
	for (int i = 0; i < n + m; i++)
		all[i] = i < n ? a[i] : b[i - n];
	for (unsigned set = 0; set < 1u << (n + m); set++) {
		double u = 0;
		if (__builtin_popcount(set) != n)
			continue;
		for (int i = 0; i < n + m; i++)
			for (int j = 0; j < n + m; j++)
				u += (set >> i & 1) && !(set >> j & 1) && all[i] < all[j];
		count++;
		extreme += fabs(u - n * m / 2.0) >= fabs(mine - n * m / 2.0);
	}
	return extreme / count;
}

/* Sides that differ in nothing are told apart in at most 5 % of all cases; and nothing is
 * significant that an exact test does not find so. */
START_TEST(false_alarms_are_rare)
{
	enum { SETS = 300 };
	uint64_t rng = 11;
	int alarms = 0, found = 0;
	double p[SETS];
	exec("BEGIN");
	for (int set = 0; set < SETS; set++) {
		double a[5] = {0}, b[5] = {0}, shift = set % 3 ? 0 : 0.4;
		int n = 4 + set % 2, m = 4 + set / 2 % 2;
		char name[12];
		snprintf(name, sizeof name, "%d", set);
		workload = name;
		for (int i = 0; i < n; i++) {
			a[i] = rng_uniform(&rng);
			add("serial", 1, i, "done", a[i], 1);
		}
		for (int i = 0; i < m; i++) {
			b[i] = rng_uniform(&rng) + shift;
			add("asgd", 2, 10 + i, "done", b[i], 1);
		}
		p[set] = rank_sum_p(a, n, b, m);
	}
	exec("COMMIT; CREATE TEMP TABLE told AS SELECT CAST(workload AS INTEGER) AS id, "
	     "significant "
	     "FROM comparison WHERE config = 'asgd 2w' AND name = 'test_accuracy'");
	for (int set = 0; set < SETS; set++) {
		char sql[60];
		snprintf(sql, sizeof sql, "SELECT significant FROM told WHERE id = %d", set);
		bool told = number(sql) > 0;
		ck_assert_msg(told ? p[set] <= 0.05 : p[set] > 0.04, "set %d: p = %g", set, p[set]);
		*(set % 3 ? &alarms : &found) += told;
	}
	/* of 200: 10 are expected at most, and 17 are more than two deviations above */
	ck_assert_int_le(alarms, 17);
	ck_assert_int_ge(found, 20); /* of 100 */
}
END_TEST

/* ---- What is kept of ended runs ------------------------------------------ */

START_TEST(kept_figures_are_those_that_are_computed)
{
#define KEPT   "SELECT count(*) FROM run_kept"
#define DIFFER "SELECT count(*) FROM (SELECT * FROM run_kept EXCEPT SELECT * FROM run_computed)"
	add("serial", 1, 1, "done", 0.9, 10);
	add("asgd", 2, 1, "diverged", 0.1, 10);
	add("asgd", 2, 2, "running", 0.1, 10);
	expect(KEPT, "2");
	expect(DIFFER, "0");
	expect("SELECT id, test_accuracy, epoch_seconds, target_seconds FROM run_summary",
	       "1,0.9,10.0,10.0;2,0.1,10.0,null;3,0.1,10.0,null");
	/* whatever is changed by hand, run_summary tells what is there now */
	exec("UPDATE run SET label = 'it''s', target_accuracy = 0.95 WHERE id = 1");
	expect("SELECT config_key ->> 'label', target_seconds FROM run_summary WHERE id = 1",
	       "it's,null");
	exec("INSERT INTO run_option VALUES (1, 'strategy', 'beta', '0.5')");
	expect("SELECT json_extract(config_key, '$.\"serial.beta\"') FROM run_summary WHERE id = 1",
	       "0.5");
	exec("UPDATE run SET status = status; UPDATE run_option SET value = '0.7'");
	expect("SELECT json_extract(config_key, '$.\"serial.beta\"') FROM run_summary WHERE id = 1",
	       "0.7");
	exec("UPDATE run SET status = status; DELETE FROM run_option");
	expect("SELECT json_extract(config_key, '$.\"serial.beta\"') FROM run_summary WHERE id = 1",
	       "null");
	exec("UPDATE run SET status = status; UPDATE epoch SET test_accuracy = 0.5, seconds = 3");
	expect("SELECT id, test_accuracy, epoch_seconds FROM run_summary ORDER BY id",
	       "1,0.5,3.0;2,0.5,3.0;3,0.5,3.0");
	expect(KEPT, "0");
	exec("UPDATE run SET status = status");
	expect(KEPT, "2");
	exec("UPDATE run SET status = 'running'");
	expect(KEPT, "0");
}
END_TEST

/* Runs that came in already ended, as others' do. */
START_TEST(who_opens_the_file_to_write_adds_what_is_missing)
{
	struct store *s;
	char *path = sentence("%s/run.db", folder);
	add("serial", 1, 1, "done", 0.9, 10);
	add("serial", 1, 2, "running", 0.9, 10);
	exec("DELETE FROM run_kept");
	expect("SELECT test_accuracy, epoch_seconds, config FROM run_summary WHERE id = 1",
	       "0.9,10.0,serial");
	char *wrong = store_open(&s, path, STORE_WRITE);
	ck_assert_msg(!wrong, "%s", wrong);
	store_close(s);
	expect("SELECT run_id, test_accuracy, config FROM run_kept", "1,0.9,serial");
	expect(DIFFER, "0");
	free(path);
}
END_TEST

/* ---- mvbench table ------------------------------------------------------- */

/* What the command prints on both outputs, one after the other, or in a file. */
static void ck_table(int status, const char *words, const char *want)
{
	char out[8000];
	char *command = sentence("./mvbench table --db=%s/run.db %s 2>&1", folder, words);
	int got = command_output(command, out, sizeof out);
	ck_assert_msg(got == status && strcmp(out, want) == 0, "%s: status %d\n%s\nnot\n%s", words,
		      got, out, want);
	free(command);
}

static void ck_says(int status, const char *words, const char *part)
{
	char out[16000];
	char *command = sentence("./mvbench table --db=%s/run.db %s 2>&1", folder, words);
	int got = command_output(command, out, sizeof out);
	ck_assert_msg(got == status && strstr(out, part), "%s: status %d, no \"%s\" in\n%s", words,
		      got, part, out);
	free(command);
}

static void ck_silent(const char *words, const char *part)
{
	char out[16000];
	char *command = sentence("./mvbench table --db=%s/run.db %s 2>&1", folder, words);
	ck_assert_int_eq(command_output(command, out, sizeof out), EXIT_OK);
	ck_assert_msg(!strstr(out, part), "%s: \"%s\" in\n%s", words, part, out);
	free(command);
}

#define MARKS \
	"\n* the best of its workload in accuracy (without one, in loss), and of equal work in " \
	"time\n" \
	"~ not significantly different from that: a two-sided test at 5 % does not tell them " \
	"apart, or there are\n  too few runs for any to do so (it takes 6 seeds that both have, " \
	"or " \
	"4 runs against 4)\n"

static void add_three(void)
{
	for (int seed = 1; seed <= 6; seed++) {
		add("serial", 1, seed, "done", 0.80 + 0.01 * seed, 10 + seed);
		add("asgd", 2, seed, "done", 0.79 + 0.01 * seed, 6);
		add("easgd", 2, seed, "done", 0.79 + 0.011 * seed + 0.01 * (seed == 1),
		    6.5 - 0.1 * seed);
	}
	add("easgd", 2, 7, "diverged", 0.1, 1);
}

START_TEST(tables_mark_what_does_not_differ)
{
	add_three();
	ck_table(EXIT_OK, "",
		 "workload  configuration  workers  X  n  accuracy %          95 %    loss  epoch "
		 "s  "
		 "    95 %  samples/s  speedup  to target s             95 %  comm %  wait %  "
		 "staleness"
		 "  not done\n"
		 "--------  -------------  -------  -  -  ----------  ------------  ------  "
		 "-------  "
		 "--------  ---------  -------  --------------------  ------  ------  ------  "
		 "---------"
		 "  ----------\n"
		 "mlp       serial               1  1  6      83.50*  81.00..86.00   0.165    13.5 "
		 "  "
		 "  11..16         74     1.00  13.5                  11..16       -       -       "
		 "   -"
		 "\n"
		 "mlp       asgd 2w              2  1  6      82.50   80.00..85.00   0.175       "
		 "6*  "
		 "    6..6        167     2.25  6                       6..6       -       -       "
		 "   -"
		 "\n"
		 "mlp       easgd 2w             2  1  6      82.85~  81.10..85.60  0.1715    "
		 "6.15~  "
		 "5.9..6.4        163     2.20  6.2, not reached 1/7  6..6.4       -       -       "
		 "   -"
		 "  1 diverged\n" MARKS);
	ck_says(EXIT_OK, "--format=markdown", "|     82.85~ | 81.10..85.60 |");
	ck_says(EXIT_OK, "--format=markdown",
		"\n\n\\* the best of its workload in accuracy (without one, in loss), and of equal "
		"work in time; ~ not significantly");
	ck_silent("--format=csv", "~");
	ck_silent("--format=json", "~");
	ck_silent("--runs", "~");
	/* alone, nothing is best */
	ck_silent("--where=\"strategy = 'serial'\"", "*");
	/* the runs that are asked for make the statistics */
	ck_says(EXIT_OK, "--where='seed <= 3'", "      82.00*  81.00..83.00");
	ck_says(EXIT_OK, "--where='seed <= 3'", "      81.00~  80.00..82.00");
	ck_says(EXIT_OK, "--where='seed <= 3'", "  3      82.00*");
	/* runs that are no samples are told */
	add("serial", 1, 6, "done", 0.9, 16);
	ck_says(EXIT_OK, "", "  7 (6 seeds)      83.50*  81.00..86.00");
	ck_says(EXIT_OK, "--format=csv --where='seed = 6'", "mlp,serial,serial,1,0,1,2,1,");
}
END_TEST

START_TEST(tables_compare_with_the_row_that_is_asked_for)
{
	add_three();
	ck_says(EXIT_OK, "--versus='asgd 2w'",
		"* what the others of its workload are compared with (--versus)");
	ck_says(EXIT_OK, "--versus='asgd 2w'", " 82.50*  80.00..85.00   0.175       6* ");
	ck_says(EXIT_OK, "--versus='asgd 2w'", " 83.50   81.00..86.00   0.165    13.5  ");
	ck_says(EXIT_OK, "--versus='asgd 2w' --format=json --where=\"strategy <> 'easgd'\"",
		"\"test_accuracy_versus\": \"asgd 2w\", \"test_accuracy_pairs\": 6, "
		"\"test_accuracy_difference\": 0.01");
	ck_says(EXIT_OK, "--versus='asgd 2w' --format=json --where=\"strategy <> 'easgd'\"",
		"\"epoch_seconds_difference\": 7.5, \"epoch_seconds_difference_low\": 5, "
		"\"epoch_seconds_difference_high\": 10, \"epoch_seconds_significant\": 1");
	ck_says(EXIT_USER, "--versus=\"it's\"",
		"--versus=it's: there is no such row; it is one of: asgd 2w, easgd 2w, serial");
	ck_says(EXIT_USER, "--versus=serial --where=\"strategy = 'asgd'\"",
		"it is one of: asgd 2w");
	/* a name with everything in it */
	exec("UPDATE run SET label = 'a,\"b''|<script>' || char(10) || '%s' WHERE strategy = "
	     "'asgd' AND "
	     "seed <= 3");
	ck_says(EXIT_OK, "--versus=\"asgd 2w label=a,\\\"b'|<script>\n%s\"",
		"asgd 2w label=a,\"b'|<script>\\n%s        2  1  3      81.00*");
	ck_says(EXIT_OK, "--format=markdown", "| asgd 2w label=a,\"b'\\|\\<script>\\\\n%s |");
	ck_says(EXIT_OK, "--format=csv", ",\"asgd 2w label=a,\"\"b'|<script>\n%s\",asgd,");
}
END_TEST

START_TEST(markdown_shows_labels_as_they_are)
{
	static const struct {
		const char *label, *cell;
	} row[] = {
		{"<!--", "| \\<!-- |"},           {"</script>", "| \\</script> |"},
		{"*x*_y_", "| \\*x\\*\\_y_ |"},   {"`a`~~b~~", "| \\`a\\`\\~\\~b\\~~ |"},
		{"a\\|b\\", "| a\\\\\\|b\\\\ |"}, {"&amp;", "| \\&amp; |"},
		{"[t](u)", "| \\[t\\](u) |"},
	};
	add("serial", 1, 1, "done", 0.9, 1);
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		char *sql = sqlite3_mprintf("UPDATE run SET label = %Q", row[i].label);
		exec(sql);
		sqlite3_free(sql);
		ck_says(EXIT_OK, "--runs --format=markdown", row[i].cell);
	}
}
END_TEST

START_TEST(tables_warn_of_other_machines)
{
#define WARNING "warning: not all times were measured in one place"
	add_three();
	ck_silent("", WARNING);
	exec("UPDATE run SET cpu = 'another' WHERE id > 10");
	ck_says(EXIT_OK, "", WARNING ", so they do not compare: here (a CPU); here (another)\n");
	ck_says(EXIT_OK, "--format=json --out=/dev/null", "mvbench: " WARNING);
	ck_says(EXIT_OK, "--runs", WARNING);
	ck_silent("--where='id > 10'", WARNING);
	/* virtual times are the same everywhere */
	exec("UPDATE run SET platform = 'sim' WHERE id > 10");
	ck_silent("", WARNING);
	exec("UPDATE run SET gpu = 'a GPU' WHERE id = 1");
	ck_silent("", WARNING);
	exec("UPDATE run SET gpu = 'another GPU' WHERE id = 2");
	ck_says(EXIT_OK, "", "here (a CPU, a GPU,another GPU)");
}
END_TEST

Suite *stats_suite(void)
{
	Suite *suite = suite_create("stats");
	TCase *views = tcase_create("views"), *shown = tcase_create("table");
	tcase_add_checked_fixture(views, open_memory, close_memory);
	tcase_set_timeout(views, 60);
	tcase_add_test(views, ranks_are_those_of_the_exact_distribution);
	tcase_add_test(views, intervals_are_those_of_resampling);
	tcase_add_test(views, a_miss_is_later_than_all_others);
	tcase_add_test(views, a_repeated_seed_is_one_sample);
	tcase_add_test(views, pairs_are_compared_seed_by_seed);
	tcase_add_test(views, sides_without_common_seeds_are_compared_as_a_whole);
	tcase_add_test(views, misses_are_compared_too);
	tcase_add_test(views, false_alarms_are_rare);
	tcase_add_test(views, kept_figures_are_those_that_are_computed);
	suite_add_tcase(suite, views);
	tcase_add_checked_fixture(shown, open_file, close_file);
	tcase_set_timeout(shown, 60);
	tcase_add_test(shown, who_opens_the_file_to_write_adds_what_is_missing);
	tcase_add_test(shown, tables_mark_what_does_not_differ);
	tcase_add_test(shown, tables_compare_with_the_row_that_is_asked_for);
	tcase_add_test(shown, markdown_shows_labels_as_they_are);
	tcase_add_test(shown, tables_warn_of_other_machines);
	suite_add_tcase(suite, shown);
	return suite;
}
