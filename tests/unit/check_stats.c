/*
 * check_stats.c - the statistics of the results: medians and their intervals against resampling,
 * times to an accuracy that some runs missed, which configurations differ, the stored figures of
 * ended runs, and how `mvbench table` shows all that.
 */
#include "plots/plot.h"
#include "results/run/run.h"
#include "tests/made.h"
#include "tests/suites.h"
#include "tests/trained.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- A database in memory, or in the folder ------------------------------ */

static sqlite3 *db;

#define exec(text)          made_sql(db, text)
#define expect(query, want) made_expect(db, query, want)
#define number(query)       made_number(db, query)

static void open_memory(void)
{
	ck_assert_int_eq(sqlite3_open(":memory:", &db), SQLITE_OK);
	exec(database_schema());
}

static void open_file(void)
{
	folder_new();
	char *path AUTOFREE = sentence("%s/run.db", folder);
	ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
	exec(database_schema());
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

static const char *workload = "mlp"; /* of what add() adds */

/* A run of one epoch, by `workers` workers; its target is 0.8. */
static void add(const char *strategy, int workers, int seed, const char *status, double accuracy,
		double seconds)
{
	made_format(
		db,
		INSERT_RUN(", train_size, params, host, cpu",
			   "'running', 'h', %Q, %Q, %d, %d, 1, 64, 1, 'mpi', 0.8, 1000, 7, 'here', "
			   "'a CPU';"
			   "INSERT INTO epoch (run_id, epoch, seconds, test_loss, test_accuracy) "
			   "VALUES (last_insert_rowid(), 1, %!.17g, %!.17g, %!.17g);"
			   "UPDATE run SET status = %Q WHERE id = (SELECT max(id) FROM run)"),
		workload, strategy, workers, seed, seconds, 1 - accuracy, accuracy, status);
}

/* ---- Intervals of medians ------------------------------------------------- */

/* P(Bin(n, 1/2) < k). */
static double fewer(int n, int k)
{
	double p = 0;
	for (int j = 0; j < k; j++)
		p += exp(lgamma(n + 1) - lgamma(j + 1) - lgamma(n - j + 1) - n * log(2));
	return p;
}

CASE("views", .limit = 60, .set_up = open_memory, .tear_down = close_memory);

TEST(median_ranks_match_exact_distribution)
{
	expect("SELECT n, low, high, coverage FROM median_rank WHERE n <= 7",
	       "1,null,null,null;2,1,2,0.5;3,1,3,0.75;4,1,4,0.875;5,1,5,0.9375;6,1,6,0.96875;"
	       "7,1,7,0.984375");
	expect("SELECT low, high, round(coverage, 4) FROM median_rank WHERE n IN (13, 23)",
	       "3,11,0.9775;7,17,0.9653");
	expect("SELECT count(*), min(n), max(n) FROM median_rank", "100,1,100");
	/* the view grows to the number of runs */
	exec(INSERT_RUN("", "'pending', 'h', 'mlp', 'serial', 1, n, 1, 64, 1, 'mpi', 0 FROM (WITH "
			    "RECURSIVE i(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n < "
			    "300) SELECT n FROM i)"));
	expect("SELECT count(*), max(n) FROM median_rank", "300,300");
	exec("CREATE TEMP TABLE rank AS SELECT * FROM median_rank");
	for (int n = 6; n <= 300; n++) {
		char sql[100];
		snprintf(sql, sizeof sql,
			 "SELECT low FROM rank WHERE n = %d AND high = n + 1 - low", n);
		int low = (int)number(sql);
		ck_assert_msg(fewer(n, low) <= 0.025 && fewer(n, low + 1) > 0.025, "n = %d: %d", n,
			      low);
		snprintf(sql, sizeof sql, "SELECT coverage FROM rank WHERE n = %d", n);
		ck_assert_double_eq_tol(number(sql), 1 - 2 * fewer(n, low), 1e-10);
	}
}

/* The views' intervals contain the median of a skewed distribution with the stated coverage. */
TEST(intervals_contain_median_at_stated_rate)
{
	enum { CELLS = 100 };
	static const int sizes[] = {3, 5, 7, 13};
	uint64_t rng = 5;
	exec("BEGIN");
	for (size_t i = 0; i < COUNT(sizes); i++)
		for (int cell = 0; cell < CELLS; cell++)
			for (int seed = 0; seed < sizes[i]; seed++) {
				double x = rng_uniform(&rng);
				/* the median of x^2 is 1/4; workers, and labels below, make
				 * separate cells */
				add("serial", 1 + (int)i, seed + 100 * cell, "done", x * x, 1 + x);
			}
	exec("UPDATE run SET label = seed / 100, seed = seed % 100;"
	     "UPDATE run SET status = status; COMMIT");
	exec("CREATE TEMP TABLE told AS SELECT * FROM configuration_summary");
	for (size_t i = 0; i < COUNT(sizes); i++) {
		char sql[300];
		snprintf(sql, sizeof sql,
			 "SELECT min(abs(1 - test_loss_low - test_accuracy_high) < 1e-9 AND "
			 "test_loss_coverage = test_accuracy_coverage) FROM told WHERE n = %d",
			 sizes[i]);
		ck_assert_double_eq(number(sql), 1);
		snprintf(sql, sizeof sql,
			 "SELECT avg(0.25 BETWEEN test_accuracy_low AND test_accuracy_high) - "
			 "avg(test_accuracy_coverage) FROM told WHERE n = %d",
			 sizes[i]);
		double p = 1 - 2 * fewer(sizes[i], sizes[i] == 13 ? 3 : 1);
		/* within four standard deviations of the sampled share */
		ck_assert_double_eq_tol(number(sql), 0, 4 * sqrt(p * (1 - p) / CELLS));
	}
	exec("DELETE FROM run WHERE seed > 0 OR label > '0'");
	expect("SELECT n, test_accuracy IS NULL, test_accuracy_low, test_accuracy_high FROM "
	       "configuration_summary WHERE workers = 1",
	       "1,0,null,null");
}

/* ---- Time to an accuracy ------------------------------------------------- */

TEST(missed_target_sorts_after_all_times)
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
	/* a run that diverged has missed it */
	add("serial", 1, 6, "diverged", 0.1, 3);
	expect(TIMES, "3,2,30.0,10.0,null");
	/* half of them missed it */
	add("serial", 1, 7, "done", 0.7, 1);
	expect(TIMES, "3,3,null,10.0,null");
	/* no run missed it; then there is no target */
	exec("DELETE FROM run WHERE seed IN (4, 6, 7)");
	expect(TIMES, "3,0,20.0,10.0,30.0");
	exec("UPDATE run SET target_accuracy = 0");
	expect(TIMES, "0,0,null,null,null");
	/* a configuration whose runs all diverged has a row, too */
	exec("DELETE FROM run");
	add("serial", 1, 1, "diverged", 0.1, 3);
	expect("SELECT n, diverged, test_accuracy, reached, missed FROM configuration_summary",
	       "0,1,-Inf,0,1");
}

#define COMPARED \
	"SELECT n, versus_n, pairs, round(difference, 6), round(difference_low, 6), " \
	"round(difference_high, 6), mark FROM comparison WHERE config = 'asgd 2w' AND name = "
#define OF_ASGD(what, name) \
	number("SELECT " what " FROM comparison WHERE config = 'asgd 2w' AND versus = 'serial' " \
	       "AND name = '" name "'")

/* ---- Runs that diverged --------------------------------------------------- */

TEST(diverged_run_counts_as_worst_of_its_cell)
{
	static const char figures[] =
		"SELECT n, diverged, samples, round(test_accuracy, 6), test_accuracy_low, "
		"test_accuracy_high, round(test_loss, 6), test_loss_high, epoch_seconds FROM "
		"configuration_summary WHERE strategy = 'asgd'";
	const double accuracy[] = {0.9, 0.7, 0.8};
	for (int seed = 0; seed < 3; seed++) {
		add("serial", 1, seed, "done", 0.8 + 0.001 * seed, 10 + 0.1 * seed);
		add("asgd", 2, seed, "done", accuracy[seed], 10);
	}
	expect(figures, "3,0,3,0.8,0.7,0.9,0.2,0.3,10.0");
	/* each moves the median down by half a rank; its time does not count */
	add("asgd", 2, 3, "diverged", 0.95, 99);
	expect(figures, "3,1,4,0.75,-Inf,0.9,0.25,Inf,10.0");
	add("asgd", 2, 4, "diverged", 0.95, 99);
	expect(figures, "3,2,5,0.7,-Inf,0.9,0.3,Inf,10.0");
	add("asgd", 2, 5, "diverged", 0.95, 99);
	expect(figures, "3,3,6,-Inf,-Inf,0.9,Inf,Inf,10.0");
	/* of a repeated seed the newest run counts, whichever diverged */
	add("asgd", 2, 5, "done", 0.95, 10);
	add("asgd", 2, 0, "diverged", 0.95, 10);
	expect(figures, "4,3,6,-Inf,-Inf,0.95,Inf,Inf,10.0");
	/* a task without accuracies gets none */
	exec("UPDATE epoch SET test_accuracy = NULL");
	expect("SELECT test_accuracy, test_loss FROM configuration_summary WHERE strategy = 'asgd'",
	       "null,Inf");
}

TEST(diverged_runs_enter_comparisons)
{
	static const char compared[] =
		"SELECT name, pairs, round(difference, 3), mark FROM comparison "
		"WHERE config = 'asgd 2w' AND name <> 'epoch_seconds' ORDER BY name";
	for (int seed = 0; seed < 5; seed++) {
		add("serial", 1, seed, "done", 0.8 + 0.001 * seed, 10);
		add("asgd", 2, seed, seed < 3 ? "done" : "diverged", 0.8 + 0.0011 * seed, 10);
	}
	exec("INSERT INTO epoch (run_id, epoch, test_loss) SELECT id, 0, 2.3 FROM run;"
	     "UPDATE run SET status = status");
	/* two of five diverged: the three others alone would be equal, all five are not */
	expect(compared, "test_accuracy,5,null,undecided;test_loss,5,null,undecided");
	exec("UPDATE run SET status = 'diverged' WHERE strategy = 'asgd'");
	expect(compared, "test_accuracy,5,null,worse;test_loss,5,null,worse");
	/* diverged runs whose seed the other side lacks count, too */
	exec("UPDATE run SET status = 'done' WHERE seed < 3;"
	     "UPDATE run SET seed = seed + 10 WHERE strategy = 'asgd' AND seed >= 3");
	expect(compared, "test_accuracy,5,null,undecided;test_loss,5,null,undecided");
	exec("DELETE FROM run WHERE status = 'diverged'");
	expect(compared, "test_accuracy,3,0.0,equal;test_loss,3,0.0,equal");
	/* two runs of one seed that both diverged are equal */
	exec("DELETE FROM run WHERE seed >= 3; UPDATE run SET status = 'diverged' WHERE seed = 2");
	expect(compared, "test_accuracy,3,0.0,equal;test_loss,3,0.0,equal");
}

/* The values that the view takes for diverged runs are those with the least t: a search over
 * numbers finds no smaller one, and comes close. */
TEST(diverged_run_gives_the_least_t)
{
	const double serial[] = {0.80, 0.82, 0.81, 0.85, 0.79}, asgd[] = {0.78, 0.81, 0.80, 0.83};
	for (int paired = 0; paired < 2; paired++) {
		double least = 0;
		exec("DELETE FROM run");
		for (int i = 0; i < 5; i++)
			add("serial", 1, i, "done", serial[i], 1);
		for (int i = 0; i < 4; i++)
			add("asgd", 2, paired ? i : 10 + i, "done", asgd[i], 1);
		add("asgd", 2, paired ? 4 : 14, "diverged", 0.5, 1);
		for (int k = -4000; k < 4000; k++) {
			const double x = 0.8 + k * 5e-5;
			double s[5], mean = 0, ss = 0, other = 0, other_ss = 0;
			for (int i = 0; i < 5; i++) {
				s[i] = (i < 4 ? asgd[i] : x) - (paired ? serial[i] : 0);
				mean += s[i] / 5;
				other += paired ? 0 : serial[i] / 5;
			}
			for (int i = 0; i < 5; i++) {
				ss += (s[i] - mean) * (s[i] - mean);
				other_ss += paired ? 0 : (serial[i] - other) * (serial[i] - other);
			}
			least = fmin(least, (mean - other) / sqrt((ss + other_ss) / 20));
		}
		/* P(T > t), by Simpson's rule over the density; two tests */
		const int df = paired ? 4 : 8, n = 20000;
		double p = 0;
		for (int i = 0; i <= n; i++) {
			const double u = 1.0 * i / n, t = -least / fmax(u, 1e-12);
			p += (i == 0 || i == n ? 1
			      : i % 2          ? 4
					       : 2) *
			     (u == 0 ? 0 : -least / u / u) *
			     exp(lgamma((df + 1) / 2.0) - lgamma(df / 2.0)) / sqrt(df * acos(-1)) *
			     pow(1 + t * t / df, -(df + 1) / 2.0) / 3 / n;
		}
		ck_assert_double_eq_tol(OF_ASGD("p_worse", "test_accuracy"), 2 * p, 1e-5);
		ck_assert_double_eq_tol(OF_ASGD("p_better", "test_accuracy"), fmin(1, 2 * (1 - p)),
					1e-5);
		ck_assert_double_eq_tol(
			number("SELECT p_better FROM comparison WHERE config = 'serial' AND "
			       "name = 'test_accuracy'"),
			2 * p, 1e-5);
	}
}

/* A run that is diverged instead never makes its strategy look better, whatever the other runs are;
 * equal strategies whose runs diverge at random are rarely told apart. */
TEST(one_more_divergence_never_helps)
{
	enum { SETS = 1000, STEPS = 2 };
	static const char *const row[] = {"serial", "asgd", "easgd"};
	uint64_t rng = 23;
	exec("BEGIN");
	for (int set = 0; set < SETS; set++) {
		/* every fifth table: few common seeds, or none; every second: equal strategies */
		const int n = 2 + (int)(7 * rng_uniform(&rng)), apart = set % 5 ? 0 : n - set % 2;
		const double lost = set % 4 < 2 ? 0 : 0.3 * rng_uniform(&rng),
			     effect = set % 2 ? 0 : 0.1 * rng_uniform(&rng);
		char name[12];
		snprintf(name, sizeof name, "%d", set);
		workload = name;
		for (int i = 0; i < n; i++)
			for (int r = 0; r < (set % 4 ? 2 : 3); r++)
				if (set % 3 || r == 0 || rng_uniform(&rng) < 0.9)
					add(row[r], 1 + (r > 0), i + r * apart,
					    rng_uniform(&rng) < lost ? "diverged" : "done",
					    0.7 + r * effect + 0.1 * rng_uniform(&rng), 1);
	}
	workload = "mlp";
	exec("CREATE TEMP TABLE told AS SELECT 0 AS step, *, (mark = 'better') - (mark = 'worse') "
	     "AS looks FROM comparison WHERE name <> 'epoch_seconds'");
	/* equal strategies with five seeds or more, up to 30 % of which diverged */
	double alarms = number(
		"SELECT avg(any) FROM (SELECT max(looks <> 0) AS any FROM told WHERE "
		"workload % 2 AND name = 'test_accuracy' GROUP BY workload HAVING max(n) > 4)");
	ck_assert_msg(alarms < 0.08, "false alarms: %g", alarms);
	for (int step = 1; step <= STEPS; step++) {
		char sql[1200];
		const char *side = row[step % 2];
		snprintf(sql, sizeof sql,
			 "CREATE TEMP TABLE hit_%d AS SELECT id, workload, max(id * 7919 %% 101) "
			 "FROM run WHERE strategy = '%s' AND status = 'done' GROUP BY workload;"
			 "UPDATE run SET status = 'diverged' WHERE id IN (SELECT id FROM hit_%d);"
			 "INSERT INTO told SELECT %d, *, (mark = 'better') - (mark = 'worse') FROM "
			 "comparison WHERE name <> 'epoch_seconds'",
			 step, side, step, step);
		exec(sql);
		snprintf(sql, sizeof sql,
			 "SELECT count(*) > 3500, total(b.looks * up > a.looks * up) FROM "
			 "(SELECT *, iif(config LIKE '%s%%', 1, -1) AS up FROM told WHERE "
			 "step = %d AND (config LIKE '%s%%' OR versus LIKE '%s%%')) AS b "
			 "JOIN told AS a ON a.step = b.step - 1 AND a.workload = b.workload AND "
			 "a.name = b.name AND a.config = b.config AND a.versus = b.versus",
			 side, step, side, side);
		expect(sql, "1,0.0");
	}
	/* the tables are of all kinds */
	expect("SELECT min(looks), max(looks), max(pairs) > 5, min(pairs), max(diverged) > 2, "
	       "count(DISTINCT mark) FROM told",
	       "-1,1,1,0,1,4");
	exec("COMMIT");
}

/* ---- Repeats of a seed --------------------------------------------------- */

/* Importing or running a seed again adds no sample; only real times add one. */
TEST(repeated_seed_is_one_sample)
{
	static const char figures[] =
		"SELECT n, seeds, test_accuracy, test_accuracy_low, test_accuracy_high, "
		"round(test_loss_low, 6), epoch_seconds, epoch_seconds_low, epoch_seconds_high, "
		"reached, missed, time_to_accuracy_high FROM configuration_summary";
	for (int repeat = 0; repeat < 4; repeat++)
		for (int seed = 1; seed <= 5; seed++)
			add("serial", 1, seed, "done", 0.8 + 0.01 * seed + 0.001 * repeat,
			    10 * seed + repeat);
	/* the newest run of a seed counts; each real time is a sample */
	expect(figures, "20,5,0.833,0.813,0.853,0.147,31.5,21.0,42.0,20,0,42.0");
	/* simulated times are not */
	exec("UPDATE run SET platform = 'sim'");
	expect(figures, "20,5,0.833,0.813,0.853,0.147,33.0,13.0,53.0,5,0,53.0");
	/* a diverged run that was repeated (sweep --retry) no longer counts */
	exec("UPDATE run SET status = 'diverged' WHERE id = 1");
	expect(figures, "19,5,0.833,0.813,0.853,0.147,33.0,13.0,53.0,5,0,53.0");
	/* but a diverged run that is the newest counts: the worst of the five */
	exec("UPDATE run SET status = 'diverged' WHERE id = 16; DELETE FROM run WHERE id = 1");
	expect(figures, "18,5,0.833,-Inf,0.853,0.147,38.0,23.0,53.0,4,1,null");
	add("asgd", 2, 1, "done", 0.9, 1);
	add("asgd", 2, 2, "done", 0.9, 1);
	add("asgd", 2, 2, "done", 0.9, 1);
	exec("UPDATE run SET platform = 'sim'");
	expect("SELECT name, n, versus_n, pairs FROM comparison WHERE versus = 'serial sim' "
	       "ORDER BY 1",
	       "epoch_seconds,2,4,0;test_accuracy,2,5,2;test_loss,2,5,2");
}

/* In a study, a run that failed before any evaluation counts as the worst; it is not left out. */
TEST(run_failed_at_start_counts_in_study)
{
	for (int seed = 1; seed <= 3; seed++)
		add("serial", 1, seed, "done", 0.8 + 0.01 * seed, 1);
	exec("DELETE FROM epoch WHERE run_id > 1;"
	     "UPDATE run SET config_hash = id, status = iif(id > 1, 'failed', 'done');"
	     "INSERT INTO study (name, hash, made, objective, budget, search) VALUES "
	     "('s', 'x', '', 'accuracy', 1, '{}');"
	     "INSERT INTO trial SELECT 1, 'a', 'tuned', seed, '{}', config_hash FROM run");
	expect("SELECT n, diverged, failed, test_accuracy, test_accuracy_low, test_accuracy_high "
	       "FROM study_result",
	       "3,0,2,-Inf,-Inf,0.81");
}

/* ---- What differs -------------------------------------------------------- */

static void add_both(int first, int last, const double *serial, const double *asgd)
{
	for (int seed = first; seed <= last; seed++) {
		add("serial", 1, seed, "done", serial[seed - first], 10 * serial[seed - first]);
		add("asgd", 2, seed, "done", asgd[seed - first], 10 * asgd[seed - first]);
	}
}

/* Student's t: the figures were computed by integrating its density, to 1e-9 and better. Intervals
 * are corrected for two tests: the quantile is that of 1 - 0.025 / 2. */
TEST(pairs_are_compared_seed_by_seed)
{
	/* seeds differ far more than strategies */
	const double serial[] = {0.10, 0.30, 0.50, 0.70, 0.20},
		     asgd[] = {0.12, 0.31, 0.54, 0.73, 0.25};
	add_both(1, 5, serial, asgd);
	expect(COMPARED "'test_accuracy'", "5,5,5,0.03,0.005284,0.054716,better");
	expect(COMPARED "'test_loss'", "5,5,5,-0.03,-0.054716,-0.005284,better");
	/* t = 4.24264 with 4 degrees of freedom; two configurations, each compared with the other:
	 * two tests */
	ck_assert_double_eq_tol(OF_ASGD("p_better", "test_accuracy"), 2 * 0.00661779978184134,
				1e-9);
	ck_assert_double_eq(OF_ASGD("p_worse", "test_accuracy"), 1);
	expect("SELECT count(*) FROM comparison WHERE name = 'test_accuracy' AND config = 'serial' "
	       "AND versus = 'asgd 2w' AND round(difference, 6) = -0.03 AND mark = 'worse'",
	       "1");
	/* times are not paired: they vary too much within each side */
	expect("SELECT pairs, mark FROM comparison WHERE config = 'asgd 2w' AND "
	       "name = 'epoch_seconds'",
	       "0,undecided");
	/* one seed has a large difference of the other sign */
	exec("UPDATE epoch SET test_accuracy = 0.05 WHERE run_id = 2");
	expect(COMPARED "'test_accuracy'", "5,5,5,0.016,-0.046136,0.078136,undecided");
	/* times of different work are not compared */
	exec("UPDATE run SET batch = 32 WHERE strategy = 'asgd'");
	expect("SELECT name, count(*) FROM comparison GROUP BY name",
	       "test_accuracy,2;test_loss,2");
}

/* Three seeds, as in make demo, tell 0.30 s from 0.15 s; six show 0.30 and 0.30 s equal to 5 %. */
TEST(three_seeds_distinguish_times)
{
	const double slow[] = {0.3045, 0.2986, 0.3102}, fast[] = {0.1524, 0.1561, 0.1498},
		     same[] = {0.3030, 0.3066, 0.3021};
	for (int i = 0; i < 3; i++) {
		add("serial", 1, i, "done", 0.88, slow[i]);
		add("asgd", 2, i, "done", 0.88, fast[i]);
		add("easgd", 2, i, "done", 0.88, same[i]);
	}
	expect("SELECT config, pairs, round(difference, 6), mark FROM comparison "
	       "WHERE versus = 'serial' AND name = 'epoch_seconds' ORDER BY 1",
	       "asgd 2w,0,-0.498204,better;easgd 2w,0,-0.001651,undecided");
	/* the logarithms' Welch t is -42.5 with 3.97 degrees of freedom, of which 3 count; the
	 * first of six tests has the quantile 1 - 0.025 / 6, which is 6.231543 */
	ck_assert_double_eq_tol(OF_ASGD("difference_high", "epoch_seconds"), 0.5552401570019 - 1,
				1e-6);
	for (int i = 3; i < 6; i++) {
		add("serial", 1, i, "done", 0.88, slow[i - 3]);
		add("easgd", 2, i, "done", 0.88, same[i - 3]);
	}
	expect("SELECT mark FROM comparison WHERE versus = 'serial' AND config = 'easgd 2w' AND "
	       "name = 'epoch_seconds'",
	       "equal");
}

/* Times of simulations without noise have no spread: one run of each side decides. */
TEST(simulated_times_without_noise_are_exact)
{
	static const char *const noisy[] = {"sim_step_time = 'auto'", "straggle = 0.1",
					    "calibration_id = 1", "split = 'dirichlet:1'"};
	add("serial", 1, 1, "done", 0.8, 2);
	add("asgd", 2, 1, "done", 0.8, 1);
	exec("UPDATE run SET platform = 'sim', sim_step_time = '5ms'");
	exec("INSERT INTO calibration (id, made, device, precision, threads, workload, "
	     "workload_options, batch, params, workers) VALUES (1, '', '', '', 1, '', '', 1, 1, "
	     "1)");
#define TIMES_ASGD \
	"SELECT n, versus_n, round(difference, 9), round(difference_low, 9), " \
	"round(difference_high, 9), mark, wanted FROM comparison WHERE " \
	"config = 'asgd 2w sim' AND name = 'epoch_seconds'"
	expect(TIMES_ASGD, "1,1,-0.5,-0.5,-0.5,better,null");
	expect("SELECT mark FROM comparison WHERE name = 'test_accuracy'", "undecided;undecided");
	for (size_t i = 0; i < COUNT(noisy); i++) {
		exec("SAVEPOINT noise");
		made_format(db, "UPDATE run SET %s", noisy[i]);
		expect(TIMES_ASGD, "1,1,-0.5,null,null,undecided,null");
		exec("ROLLBACK TO noise; RELEASE noise");
	}
	/* the seed draws whom a worker meets, and who shares a link with it */
#define MARK_OF(config) \
	"SELECT mark FROM comparison WHERE config = '" config "' AND name = 'epoch_seconds'"
	exec("SAVEPOINT partners; UPDATE run SET strategy = 'adpsgd' WHERE strategy = 'asgd'");
	expect(MARK_OF("adpsgd 2w sim"), "undecided");
	exec("INSERT INTO run_option VALUES (2, 'strategy', 'schedule', 'ring'); "
	     "UPDATE run SET strategy = 'gossip' WHERE strategy = 'adpsgd'");
	expect(MARK_OF("gossip 2w sim"), "better");
	exec("UPDATE run_option SET value = 'pairs'");
	expect(MARK_OF("gossip 2w sim"), "undecided");
	exec("ROLLBACK TO partners; RELEASE partners");
	/* one exact side: the spread is that of the other, with its degrees of freedom */
	for (int seed = 2; seed <= 3; seed++)
		add("asgd", 2, seed, "done", 0.8, 1 + 0.01 * seed);
	exec("UPDATE run SET platform = 'sim', sim_step_time = '5ms', straggle = 0.1 * (strategy = "
	     "'asgd')");
	expect("SELECT n, versus_n, mark FROM comparison WHERE config = 'asgd 2w sim' AND "
	       "name = 'epoch_seconds'",
	       "3,1,better");
	near(number("SELECT (ln(1 + difference_high) - ln(1 + difference_low)) / 2 FROM comparison "
		    "WHERE config = 'asgd 2w sim' AND name = 'epoch_seconds'"),
	     /* t(2, 1 - 0.025 / 2) times the standard error of ln 1, ln 1.02, ln 1.03 */
	     6.205347 * 0.008695624, 1e-6);
}

TEST(sides_without_common_seeds_are_compared_as_a_whole)
{
	const double low[] = {0.1, 0.2, 0.3, 0.4, 0.5};
	for (int i = 0; i < 4; i++) {
		add("serial", 1, i, "done", low[i], 1);
		add("asgd", 2, 10 + i, "done", 0.3 + low[i], 1.5);
	}
	/* t = 3.2863 with 6 degrees of freedom */
	expect(COMPARED "'test_accuracy'", "4,4,0,0.3,0.028997,0.571003,better");
	ck_assert_double_eq_tol(OF_ASGD("p_better", "test_accuracy"), 2 * 0.00834499215791573,
				1e-9);
	add("serial", 1, 4, "done", low[4], 1);
	add("asgd", 2, 14, "done", 0.2, 1);
	expect(COMPARED "'test_accuracy'", "5,5,0,0.18,-0.136388,0.496388,undecided");
	/* repetitions of a seed are one sample of accuracy, but several of time */
	exec("UPDATE run SET seed = 1 WHERE strategy = 'asgd'");
	expect("SELECT name, versus_n, n, pairs, mark FROM comparison WHERE config = 'asgd 2w' "
	       "AND name <> 'epoch_seconds' ORDER BY 1",
	       "test_accuracy,5,1,0,undecided;test_loss,5,1,0,undecided");
	expect("SELECT versus_n, n FROM comparison WHERE config = 'asgd 2w' AND "
	       "name = 'epoch_seconds'",
	       "5,5");
}

/* Accuracies differ by at least one test row; equal differences of that size prove nothing. */
TEST(differences_below_one_test_row_prove_nothing)
{
	for (int i = 0; i < 3; i++) {
		add("serial", 1, i, "done", 0.8 + 0.01 * i, 1);
		add("asgd", 2, i, "done", 0.801 + 0.01 * i, 1);
	}
	expect("SELECT mark FROM comparison WHERE config = 'asgd 2w' AND name = 'test_accuracy'",
	       "equal");
	exec("UPDATE run SET test_size = 100"); /* 0.1 points are a tenth of a row */
	expect("SELECT mark FROM comparison WHERE config = 'asgd 2w' AND name = 'test_accuracy'",
	       "undecided");
	exec("UPDATE run SET targets = 100"); /* of a row, as the bytes of a text: 10,000 answers */
	expect("SELECT mark FROM comparison WHERE config = 'asgd 2w' AND name = 'test_accuracy'",
	       "equal");
}

TEST(runs_without_a_result_are_counted_once)
{
	add("asgd", 2, 1, "diverged", 0.1, 10); /* a later run of the seed was done */
	add("asgd", 2, 1, "done", 0.8, 10);
	add("asgd", 2, 2, "done", 0.8, 10);
	add("asgd", 2, 2, "diverged", 0.1, 10);
	add("asgd", 2, 3, "failed", 0.1, 10);
	add("asgd", 2, 4, "failed", 0.1, 10);
	add("asgd", 2, 5, "running", 0.1, 10);
	add("serial", 1, 3, "done", 0.8, 10);
	exec("UPDATE run SET reason = 'interrupted' WHERE id = 6");
	expect("SELECT * FROM lacking ORDER BY id",
	       "4,diverged;5,failed;6,unfinished;7,unfinished");
	exec("UPDATE run SET label = 'a' WHERE id = 1");
	expect("SELECT * FROM lacking WHERE id = 1", "1,diverged");
}

static double normal(uint64_t *rng)
{
	double r = sqrt(-2 * log(1 - rng_uniform(rng)));
	return r * cos(2 * acos(-1) * rng_uniform(rng));
}

/* The number of seeds that the view names decides a comparison, in four of five cases. */
TEST(named_number_of_seeds_decides_comparison)
{
	enum { SETS = 60 };
	uint64_t rng = 3;
	for (int part = 0; part < 2; part++) {
		/* pairs differ by 0.02 on average, or 0; the deviation is 0.02, or 0.002 */
		double shift = part ? 0 : 0.02, spread = part ? 0.002 : 0.02;
		int wanted = 0;
		exec("DELETE FROM run; BEGIN");
		for (int set = -1; set < SETS; set++) {
			int n = set < 0 ? 4 : wanted;
			char name[12];
			snprintf(name, sizeof name, "%d", set);
			workload = name;
			for (int i = 0; i < n; i++) {
				static const double sure[] = {1, -1, 1, -1};
				double z = set < 0 ? sure[i] * sqrt(0.75) : normal(&rng);
				add("serial", 1, i, "done", 0.5, 1);
				add("asgd", 2, i, "done", 0.5 + shift + spread * z, 1);
			}
			if (set < 0) {
				wanted = (int)OF_ASGD("wanted", "test_accuracy");
				exec("DELETE FROM run");
			}
		}
		exec("COMMIT");
		workload = "mlp";
		/* two tests a workload: one-sided at 0.0125, z = 2.2414; 2.2414^2 / 2 = 2.5 more */
		ck_assert_int_eq(wanted, part ? 7 : 13);
		double share = number("SELECT avg(mark <> 'undecided') FROM comparison WHERE "
				      "config = 'asgd 2w' AND name = 'test_accuracy'");
		ck_assert_msg(share > 0.6 && share < 0.98, "%d seeds decide %g", wanted, share);
	}
}

/* At most 5 % of the tables mark equal sides as different, whatever their number of rows; large
 * differences are found. */
TEST(false_alarms_are_rare)
{
	enum { SETS = 200, ROWS = 3 };
	static const char *const row[ROWS] = {"asgd", "easgd", "gossip"};
	uint64_t rng = 11;
	exec("BEGIN");
	for (int set = 0; set < SETS; set++) {
		double shift = set % 4 ? 0 : 0.6;
		char name[12];
		snprintf(name, sizeof name, "%d", set);
		workload = name;
		for (int seed = 0; seed < 4; seed++) {
			double shared = rng_uniform(&rng);
			add("serial", 1, seed, "done", shared, 1);
			for (int i = 0; i < ROWS; i++)
				add(row[i], 2, seed, "done",
				    shared + shift * (i == 1) + 0.2 * rng_uniform(&rng) - 0.1, 1);
		}
	}
	workload = "mlp";
	exec("COMMIT; CREATE TEMP TABLE told AS SELECT workload, "
	     "max(mark IN ('better', 'worse')) AS any, "
	     "max(versus = 'serial' AND config = 'easgd 2w' AND mark = 'better') AS found, "
	     "count(difference_low) AS n, total((p_better < 0.025 OR p_worse < 0.025) <> "
	     "(difference_low > 0 OR difference_high < 0)) AS torn "
	     "FROM comparison WHERE name = 'test_accuracy' GROUP BY workload");
	/* of 150: 7.5 are expected at most, and 16 are more than three deviations above */
	ck_assert_double_le(number("SELECT sum(any) FROM told WHERE workload % 4 <> 0"), 16);
	ck_assert_double_ge(number("SELECT sum(found) FROM told WHERE workload % 4 = 0"), 40);
	/* a mark and its interval have the same correction */
	ck_assert_double_eq(number("SELECT sum(n) FROM told"), SETS * (ROWS + 1) * ROWS);
	ck_assert_double_eq(number("SELECT sum(torn) FROM told"), 0);
}

/* ---- Tests and intervals of a table together ------------------------------ */

TEXT_FILE(student_sql, "results/db/student.sql");

/* A row of table estimate of student.sql, and the true difference. */
static void estimate(int family, double d, double se, int df, double truth)
{
	made_format(
		db,
		"INSERT INTO estimate (family, d, se, df, margin, size, level, corrected, truth) "
		"VALUES (%d, %!.17g, %!.17g, %d, 0.5, %d, 0.025, 1, %!.17g)",
		family, d, se, df, df + 1, truth);
}

static void estimates_new(void)
{
	exec("DROP TABLE IF EXISTS estimate; CREATE TEMP TABLE estimate (id INTEGER PRIMARY KEY, "
	     "family, d REAL, se REAL, df INTEGER, margin REAL, size INTEGER, level REAL, "
	     "corrected INTEGER, truth REAL); BEGIN");
}

static void estimates_test(void)
{
	char *sql AUTOFREE = sentence("COMMIT; DROP TABLE IF EXISTS tested; CREATE TEMP TABLE "
				      "tested AS WITH %s SELECT * FROM student",
				      student_sql);
	exec(sql);
}

/* All intervals of a table contain their true differences in 95 % of the tables, also where most
 * rows differ from the control, which they share. */
TEST(intervals_of_a_table_hold_together)
{
	enum { TABLES = 600, ROWS = 18, SEEDS = 5 };
	uint64_t rng = 18;
	estimates_new();
	for (int table = 0; table < TABLES; table++) {
		double control[SEEDS];
		for (int i = 0; i < SEEDS; i++)
			control[i] = normal(&rng);
		for (int row = 0; row < ROWS; row++) {
			double truth = row < 6 ? 0.01 * row : 20, x[SEEDS], mean = 0, ss = 0;
			for (int i = 0; i < SEEDS; i++) {
				x[i] = truth + normal(&rng) - 0.3 * control[i];
				mean += x[i] / SEEDS;
			}
			for (int i = 0; i < SEEDS; i++)
				ss += (x[i] - mean) * (x[i] - mean);
			estimate(table, mean, sqrt(ss / (SEEDS - 1) / SEEDS), SEEDS - 1, truth);
		}
	}
	estimates_test();
	double share = number("SELECT avg(held) FROM (SELECT min(abs(d - truth) <= half) AS held "
			      "FROM tested GROUP BY family)");
	/* 0.9512 if rows are independent; two deviations below that. Holm's levels give 0.88 */
	ck_assert_msg(share > 0.933, "all intervals hold in %.3f of the tables", share);
	/* exactly: P(|T| < t) of 4 degrees of freedom is sin a (1 + cos^2 a / 2), t = 2 tan a */
	ck_assert_double_eq_tol(
		number("SELECT max(abs(0.05 / 18 - 1 + sin(a) * (1 + pow(cos(a), "
		       "2) / 2))) FROM (SELECT atan(half / se / 2) AS a FROM tested)"),
		0, 1e-12);
	/* marks agree with intervals */
	expect("SELECT total((p_more < level OR p_less < level) <> (abs(d) > half)), "
	       "total((p_equal < level) <> (abs(d) + half < margin)) FROM tested",
	       "0.0,0.0");
}

/* From three seeds the number of seeds that decide is not known to a factor of ten. From more, the
 * range contains the true one in 80 % of all cases, if the difference is as measured. */
TEST(number_of_seeds_is_a_range, 3)
{
	enum { DRAWS = 1000 };
	static const int sizes[] = {5, 10, 30};
	const int df = sizes[_i] - 1;
	uint64_t rng = 5;
	estimates_new();
	for (int draw = 0; draw < DRAWS; draw++) {
		double chi = 0;
		for (int i = 0; i < df; i++)
			chi += pow(normal(&rng), 2);
		estimate(draw, 0.3, sqrt(chi / df / sizes[_i]), df, 0);
	}
	estimate(-1, 0.3, sqrt(1.0 / sizes[_i]), df, 0); /* the true spread */
	estimate(-2, 0.3, 1, 3, 0);
	estimate(-3, 0.001, 4, df, 0);
	estimates_test();
	ck_assert_double_eq_tol(
		number("SELECT avg(x.wanted BETWEEN t.wanted_low AND t.wanted_high) FROM tested "
		       "AS t, tested AS x WHERE t.family >= 0 AND x.family = -1"),
		0.8, 4 * sqrt(0.8 * 0.2 / DRAWS));
	expect("SELECT wanted_low IS NULL, wanted_high IS NULL, wanted_text FROM tested WHERE "
	       "family = -2",
	       "1,1,more than 4 seeds");
	expect("SELECT wanted_text = format('%d to %d seeds', wanted_low, wanted_high) FROM tested "
	       "WHERE family = -1",
	       "1");
	expect("SELECT wanted_text FROM tested WHERE family = -3", "more than 999 seeds");
}

/* ---- Stored figures of ended runs ---------------------------------------- */

TEST(stored_figures_equal_computed_figures)
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
	/* after any change by hand, run_summary gives the current values */
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
	/* an epoch is quiet if at most a tenth of it was taken, by processes or the hypervisor */
	exec("UPDATE run SET status = status; UPDATE epoch SET run_delay_s = 0.4, steal_s = 0.5");
	expect("SELECT quiet_epoch_seconds, cores_share FROM run_summary WHERE id = 1",
	       "10.0,0.91");
	exec("UPDATE run SET status = status; UPDATE epoch SET steal_s = 0.7");
	expect("SELECT quiet_epoch_seconds FROM run_summary WHERE id = 1", "null");
	exec("UPDATE run SET status = status; UPDATE epoch SET test_accuracy = 0.5, seconds = 3");
	expect("SELECT id, test_accuracy, epoch_seconds FROM run_summary ORDER BY id",
	       "1,0.5,3.0;2,0.5,3.0;3,0.5,3.0");
	expect(KEPT, "0");
	exec("UPDATE run SET status = status");
	expect(KEPT, "2");
	exec("UPDATE run SET status = 'running'");
	expect(KEPT, "0");
}

CASE("table", .limit = 60, .set_up = open_file, .tear_down = close_file);

/* Runs that were inserted as ended, as imported runs are. */
TEST(opening_for_write_adds_missing_figures)
{
	struct store *s;
	char *path AUTOFREE = sentence("%s/run.db", folder);
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
}

/* ---- mvbench table ------------------------------------------------------- */

/* Compares all that the command prints, on both outputs. */
static void ck_table(int status, const char *words, const char *want)
{
	char out[8000];
	char *command AUTOFREE = sentence("./mvbench table --db=%s/run.db %s 2>&1", folder, words);
	int got = command_output(command, out, sizeof out);
	ck_assert_msg(got == status && strcmp(out, want) == 0, "%s: status %d\n%s\nnot\n%s", words,
		      got, out, want);
}

static void ck_says(int status, const char *words, const char *part)
{
	char out[16000];
	char *command AUTOFREE = sentence("./mvbench table --db=%s/run.db %s 2>&1", folder, words);
	int got = command_output(command, out, sizeof out);
	ck_assert_msg(got == status && strstr(out, part), "%s: status %d, no \"%s\" in\n%.3000s",
		      words, got, part, out);
}

static void ck_silent(const char *words, const char *part)
{
	char out[16000];
	char *command AUTOFREE = sentence("./mvbench table --db=%s/run.db %s 2>&1", folder, words);
	ck_assert_int_eq(command_output(command, out, sizeof out), EXIT_OK);
	ck_assert_msg(!strstr(out, part), "%s: \"%s\" in\n%s", words, part, out);
}

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

TEST(table_shows_comparisons_of_rows)
{
	add_three();
	ck_table(EXIT_OK, "",
		 "workload  configuration  n  accuracy %               accuracy versus             "
		 " loss          epoch s  time versus                    samples/s  speedup  "
		 "to target s                        comm %  wait %  staleness  not done\n"
		 "--------  -------------  -  -----------------------  --------------------------  "
		 "-----  ---------------  -----------------------------  ---------  -------  "
		 "---------------------------------  ------  ------  ---------  ----------\n"
		 "mlp       serial         6  83.50 (81.00..86.00)     control                     "
		 "0.165    13.5 (11..16)  control                               74     1.00  "
		 "13.5 (11..16)                           -       -          -\n"
		 "mlp       asgd 2w        6  82.50 (80.00..85.00)     worse -1.00 (-1.00..-1.00)  "
		 "0.175                6  better -55.2 % (-62.6..-46.3)        167     2.25  "
		 "6 (6..6)                                -       -          -\n"
		 "mlp       easgd 2w       6  82.30 (diverged..85.60)  worse                       "
		 "0.177  6.15 (5.9..6.4)  better -54.1 % (-61.9..-44.8)        163     2.20  "
		 "6.2, not reached 1/7 (5.9..never)       -       -          -  1 diverged\n" MARKS(
			 "the control (allreduce; without one, serial)"));
	ck_says(EXIT_OK, "--format=markdown", "| 83.50 (81.00..86.00)    | control ");
	ck_says(EXIT_OK, "--format=markdown",
		"\n\nversus the control (allreduce; without one, serial): the mean "
		"difference and its interval; all intervals of a column hold together in 95 % of "
		"cases. better, worse: by more than chance");
	/* one row has nothing to be compared with */
	ck_silent("--where=\"strategy = 'serial'\"", "versus");
	ck_silent("--runs", "versus");
	/* only selected runs count, and three are too few for 95 % */
	ck_says(EXIT_OK, "--where='seed <= 3'", "82.00 (81.00..83.00, 75 %)  control ");
	ck_says(EXIT_OK, "--where='seed <= 4'", ", 87.5 %)  control ");
	ck_says(EXIT_OK, "--where='seed <= 3'", "worse -1.00 (-1.00..-1.00)");
	for (int seed = 1; seed <= 3; seed++)
		add("gossip", 2, seed, "done", seed == 2 ? 0.9 : 0.6, 6);
	ck_says(EXIT_OK, "--where='seed <= 3'", "undecided -12.00 (");
	ck_says(EXIT_OK, "--where='seed <= 3'", "), more than 3 seeds");
	exec("DELETE FROM run WHERE strategy = 'gossip'");
	/* differences within the margin are equal */
	ck_says(EXIT_OK, "--margin-accuracy=1.5 --where=\"strategy <> 'easgd'\"",
		"equal -1.00 (-1.00..-1.00)");
	ck_says(EXIT_OK, "--margin-accuracy=1.5", "equal: surely within 1.5 points of accuracy");
	ck_says(EXIT_OK, "--versus='asgd 2w' --margin-time=20", "equal +2.5 % (-1.5..+6.6)");
	ck_says(EXIT_USER, "--margin-time=-1", "--margin-time=-1");
	/* a configuration most of whose seeds diverged shows it */
	exec("UPDATE run SET status = 'diverged' WHERE strategy = 'easgd' AND seed > 3");
	ck_says(EXIT_OK, "", "  diverged (diverged..82.30)  worse    ");
	ck_says(EXIT_OK, "--format=json --where=\"strategy <> 'asgd'\"",
		"\"samples\": 7, \"test_accuracy\": null, \"test_accuracy_low\": null, ");
	/* the table shows that a run adds no sample */
	add("serial", 1, 6, "done", 0.9, 16);
	ck_says(EXIT_OK, "", "  7 (6 seeds)  83.50 (81.00..90.00)");
	ck_says(EXIT_OK, "--format=csv --where='seed = 6'", "mlp,serial,serial,1,0,1,2,1,");
}

/* The control is an allreduce with the same number of workers and equal work. */
TEST(table_chooses_control)
{
	static const int workers[] = {1, 2, 4};
	for (int seed = 1; seed <= 3; seed++) {
		for (int i = 0; i < 3; i++) {
			if (i)
				add("allreduce", workers[i], seed, "done", 0.8 + 0.01 * seed,
				    10 - i);
			add("asgd", workers[i], seed, "done", 0.79 + 0.01 * seed, 8 - i);
		}
		add("serial", 1, seed, "done", 0.8 + 0.01 * seed, 12);
	}
#define CONTROLS \
	"--format=csv | tr -d '\\r' | awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i } " \
	"NR > 1 { print $2, \"|\", $at[\"test_accuracy_mark\"], \"|\", " \
	"$at[\"test_accuracy_versus\"], \"|\", $at[\"epoch_seconds_versus\"] }' #"
	ck_table(EXIT_OK, CONTROLS,
		 "asgd | worse | allreduce 2w | allreduce 2w\n"
		 "serial | equal | allreduce 2w | allreduce 2w\n"
		 "allreduce 2w | control |  | \n"
		 "asgd 2w | worse | allreduce 2w | allreduce 2w\n"
		 "allreduce 4w | control |  | \n"
		 "asgd 4w | worse | allreduce 4w | allreduce 4w\n");
	/* an allreduce that is the control of no row is compared like other rows */
	exec("DELETE FROM run WHERE strategy = 'asgd' AND workers = 4");
	ck_table(EXIT_OK, "--where='workers > 1' " CONTROLS,
		 "allreduce 2w | control |  | \n"
		 "asgd 2w | worse | allreduce 2w | allreduce 2w\n"
		 "allreduce 4w | equal | allreduce 2w | allreduce 2w\n");
	ck_table(EXIT_OK, "--where=\"strategy = 'allreduce'\" " CONTROLS,
		 "allreduce 2w | control |  | \n"
		 "allreduce 4w | equal | allreduce 2w | allreduce 2w\n");
	for (int seed = 1; seed <= 3; seed++)
		add("asgd", 4, seed, "done", 0.79 + 0.01 * seed, 6);
	/* different work: accuracies are compared, times are not */
	exec("UPDATE run SET batch = 32 WHERE workers = 4 AND strategy = 'allreduce'");
	ck_table(EXIT_OK, "--where='workers = 4' " CONTROLS,
		 "allreduce 4w batch=32 | control |  | \n"
		 "asgd 4w batch=64 | worse | allreduce 4w batch=32 | \n");
	exec("DELETE FROM run WHERE strategy = 'allreduce'");
	ck_table(EXIT_OK, CONTROLS,
		 "asgd | worse | serial | serial\n"
		 "serial | control |  | \n"
		 "asgd 2w | worse | serial | serial\n"
		 "asgd 4w | worse | serial | serial\n");
}

/* Of several controls of equal work, the one that agrees in most settings is chosen. */
TEST(control_shares_most_settings)
{
	for (int seed = 1; seed <= 2; seed++) {
		add("allreduce", 4, seed, "done", 0.8, 10);
		add("allreduce", 4, seed, "done", 0.8, 10);
		add("asgd", 4, seed, "done", 0.7, 10);
	}
	exec("UPDATE run SET epochs = 10, momentum = 0.5 WHERE id % 3 = 1;"
	     "UPDATE run SET epochs = 4, momentum = 0.25 WHERE id % 3 <> 1");
#define LIKE "allreduce 4w momentum=0.25 epochs=4"
	ck_table(EXIT_OK, CONTROLS,
		 "allreduce 4w momentum=0.5 epochs=10 | equal | " LIKE " | " LIKE "\n" LIKE
		 " | control |  | \n"
		 "asgd 4w momentum=0.25 epochs=4 | worse | " LIKE " | " LIKE "\n");
	/* a short name: of all rows that have it, the most similar */
	ck_table(EXIT_OK, "--versus='allreduce 4w' " CONTROLS,
		 "allreduce 4w momentum=0.5 epochs=10 | equal | " LIKE " | " LIKE "\n" LIKE
		 " | control |  | \n"
		 "asgd 4w momentum=0.25 epochs=4 | worse | " LIKE " | " LIKE "\n");
}

/* The first by name has a codec. */
TEST(control_is_uncompressed)
{
	for (int seed = 1; seed <= 2; seed++) {
		add("allreduce", 4, seed, "done", 0.8, 10);
		add("allreduce", 4, seed, "done", 0.8, 10);
	}
	exec("UPDATE run SET codec = iif(id % 2, 'int8', 'none')");
	ck_table(EXIT_OK, CONTROLS,
		 "allreduce 4w codec=int8 | equal | allreduce 4w codec=none | allreduce 4w "
		 "codec=none\n"
		 "allreduce 4w codec=none | control |  | \n");
	/* without one, a codec is the control of another */
	exec("UPDATE run SET codec = 'topk' WHERE codec = 'none'");
	ck_table(EXIT_OK, CONTROLS,
		 "allreduce 4w codec=int8 | control |  | \n"
		 "allreduce 4w codec=topk | equal | allreduce 4w codec=int8 | allreduce 4w "
		 "codec=int8\n");
}

TEST(table_versus_selects_control)
{
	add_three();
	ck_says(EXIT_OK, "--versus='asgd 2w'",
		"versus the control (--versus): the mean difference");
	ck_says(EXIT_OK, "--versus='asgd 2w'", "82.50 (80.00..85.00)     control ");
	ck_says(EXIT_OK, "--versus='asgd 2w'", " better +1.00 (+1.00..+1.00) ");
	ck_says(EXIT_OK, "--versus='asgd 2w' --format=json --where=\"strategy <> 'easgd'\"",
		"\"test_accuracy_versus\": \"asgd 2w\", \"test_accuracy_pairs\": 6, "
		"\"test_accuracy_difference\": 0.01");
	ck_says(EXIT_OK, "--versus='asgd 2w' --format=json --where=\"strategy <> 'easgd'\"",
		"\"epoch_seconds_pairs\": 0, \"epoch_seconds_difference\": 1.2318");
	ck_says(EXIT_USER, "--versus=\"it's\"",
		"--versus=it's: there is no such row; it is one of: asgd 2w; easgd 2w; serial");
	ck_says(EXIT_USER, "--versus=serial --where=\"strategy = 'asgd'\"",
		"it is one of: asgd 2w");
	/* a name with all special characters */
	exec("UPDATE run SET label = 'a,\"b''|<script>' || char(10) || '%s' WHERE strategy = "
	     "'asgd' AND "
	     "seed <= 3");
	ck_says(EXIT_OK, "--versus=\"asgd 2w, a,\\\"b'|<script>\n%s\"",
		"asgd 2w, a,\"b'|<script>\\n%s  3  81.00 ");
	ck_says(EXIT_OK, "--format=markdown", "| asgd 2w, a,\"b'\\|\\<script>\\\\n%s |");
	ck_says(EXIT_OK, "--format=csv", ",\"asgd 2w, a,\"\"b'|<script>\n%s\",asgd,");
}

TEST(table_marks_exact_times)
{
	add("serial", 1, 1, "done", 0.8, 2);
	add("asgd", 2, 1, "done", 0.8, 1);
	exec("UPDATE run SET platform = 'sim', sim_step_time = '5ms'");
	ck_says(EXIT_OK, "", "better -50.0 % (exact)  ");
	exec("UPDATE run SET straggle = 0.1");
	ck_says(EXIT_OK, "", "undecided -50.0 %  ");
}

/* Simulated workers have a core each. */
TEST(table_marks_oversubscribed_runs)
{
	add("serial", 1, 1, "done", 0.8, 2);
	add("asgd", 2, 1, "done", 0.8, 1);
	exec("UPDATE run SET oversubscribed = workers > 1");
	ck_says(EXIT_OK, "", "+: 1 run was oversubscribed, with more processes than cores");
	ck_says(EXIT_OK, "--runs", "+: 1 run was oversubscribed");
	exec("UPDATE run SET platform = 'sim', sim_step_time = '5ms'");
	ck_silent("", "oversubscribed");
}

TEST(markdown_escapes_labels)
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
		made_format(db, "UPDATE run SET label = %Q", row[i].label);
		ck_says(EXIT_OK, "--runs --format=markdown", row[i].cell);
	}
}

TEST(table_warns_of_different_machines)
{
#define WARNING "warning: not all times were measured in one place"
	add_three();
	ck_silent("", WARNING);
	exec("UPDATE run SET cpu = 'another' WHERE id > 10");
	ck_says(EXIT_OK, "", WARNING ", so they do not compare: here (a CPU); here (another)\n");
	char *null AUTOFREE = own_device("null"),
		   *nowhere AUTOFREE = sentence("--format=json --out=%s", null);
	if (null)
		ck_says(EXIT_OK, nowhere, "mvbench: " WARNING);
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
