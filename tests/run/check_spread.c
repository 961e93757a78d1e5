/*
 * check_spread.c - mvbench spread: planted variances are found, and their intervals contain them at
 * the stated rate; differences of runs come from the seed, the order of arrival, or both.
 */
#include "results/run/run.h"
#include "tests/made.h"
#include "tests/suites.h"
#include "tests/trained.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- The split ------------------------------------------------------------- */

CASE("spread", .limit = 120, .set_up = small_data, .tear_down = folder_free);

/* From printed tables. */
TEST(chi_squared_quantiles_equal_tables)
{
	static const struct {
		double p, df1, df2, f;
	} row[] = {{0.975, 4, 4, 9.6045},      {0.975, 4, 16, 3.7294}, {0.95, 1, 10, 4.9646},
		   {0.025, 4, 16, 1 / 8.6326}, {0.5, 7, 7, 1},         {0.975, 4, 1e7, 2.7858},
		   {0.025, 2, 1e7, 0.025318}};
	for (size_t i = 0; i < COUNT(row); i++)
		near(f_quantile(row[i].p, row[i].df1, row[i].df2), row[i].f, 1e-4 * row[i].f);
}

TEST(additive_effects_are_split_exactly)
{
	static const double seed[] = {1, 2, 6}, order[] = {0, 0.5};
	double y[6];
	struct spread s;
	for (int i = 0; i < 6; i++)
		y[i] = 10 + seed[i / 2] + order[i % 2];
	spread_split(y, 3, 2, &s);
	near(s.mean, 13.25, 1e-12);
	near(s.variance[SPREAD_SEED], 7, 1e-12);
	near(s.variance[SPREAD_ORDER], 0.125, 1e-12);
	near(s.variance[SPREAD_BOTH], 0, 1e-12);
	ck_assert_int_eq(s.df[SPREAD_SEED], 2);
	ck_assert_int_eq(s.df[SPREAD_ORDER], 1);
	ck_assert_int_eq(s.df[SPREAD_BOTH], 2);
	near(s.low[SPREAD_SEED], 7 / 3.6889, 1e-3); /* chi-squared of 2 at 0.975, over 2 */
	ck_assert_double_gt(s.high[SPREAD_SEED], 7 / 0.0254);
}

/* Drawn many times with these standard deviations. */
TEST(planted_variances_are_found)
{
	enum { TIMES = 1000, N = 5 };
	static const double sd[] = {2, 1, 0.5};
	double mean[SPREAD_PARTS] = {0}, held[SPREAD_PARTS] = {0};
	uint64_t rng = rng_seed(1, RNG_DATA, 0);
	for (int k = 0; k < TIMES; k++) {
		double order[N], y[N * N];
		struct spread s;
		for (int j = 0; j < N; j++)
			order[j] = sd[SPREAD_ORDER] * rng_normal(&rng);
		for (int i = 0; i < N; i++) {
			double seed = sd[SPREAD_SEED] * rng_normal(&rng);
			for (int j = 0; j < N; j++)
				y[i * N + j] =
					7 + seed + order[j] + sd[SPREAD_BOTH] * rng_normal(&rng);
		}
		spread_split(y, N, N, &s);
		for (int p = 0; p < SPREAD_PARTS; p++) {
			double is = sd[p] * sd[p];
			mean[p] += s.variance[p] / TIMES;
			held[p] += (s.low[p] <= is && is <= s.high[p]) / (double)TIMES;
		}
	}
	/* four standard errors: sqrt(2 / df / TIMES) each; for intervals 0.028 */
	for (int p = 0; p < SPREAD_PARTS; p++) {
		near(mean[p] / (sd[p] * sd[p]), 1, 0.1);
		near(held[p], 0.95, 0.028);
	}
}

/* ---- The command ------------------------------------------------------------- */

static void spread(const char *how, int want, const char *says)
{
	expect_command(want, words("./mvbench spread --db=%s/run.db %s 2>&1", folder, how), says);
}

#define SIM \
	"--workload=softmax --epochs=1 --batch=20 --platform=sim --sim.platform=ethernet_10g " \
	"--sim.step-time=1ms --workers=3 --straggle=0.5 "

/* The order of arrival does not change what allreduce learns. asgd learns in the order in which
 * pushes arrive. */
TEST(arrival_order_changes_asgd_only)
{
	record_run(SIM "--strategy=allreduce");
	record_run(SIM "--strategy=asgd --deal=static");
	spread("1 --repeats=2", EXIT_OK, "share %");
	near(number_in("run.db", "SELECT count(*) FROM run WHERE arrival_seed > 0"), 4, 0);
	near(number_in("run.db",
		       "SELECT count(DISTINCT model_hash) FROM run WHERE arrival_seed > 0 "
		       "GROUP BY seed ORDER BY 1 DESC"),
	     1, 0);
	spread("1 --repeats=2 --format=json", EXIT_OK,
	       "{\"figure\": \"seconds_total\", \"mean\": ");
	near(number_in("run.db", "SELECT count(*) FROM run"), 6, 0); /* no run is repeated */
	spread("1 --repeats=2 --format=json", EXIT_OK,
	       "\"order\": {\"variance\": 0, \"low\": 0, \"high\": 0, \"df\": 1, \"share\": 0}");
	spread("2 --repeats=2 --format=json", EXIT_OK, "{\"figure\": \"test_loss\", \"mean\": ");
	near(number_in("run.db",
		       "SELECT count(DISTINCT test_loss) FROM run_summary WHERE strategy = "
		       "'asgd' AND config_key->>'arrival_seed' > 0 AND seed = 1"),
	     2, 0);
	/* an order with another seed is the same order: the times are those of allreduce, too */
	near(number_in("run.db", "SELECT count(DISTINCT round(seconds_total, 9)) FROM run_summary "
				 "WHERE strategy = 'asgd' AND config_key->>'arrival_seed' > 0"),
	     2, 0);
}

/* Cells are listed, run side by side, and left out if they have ended. Only figures are on stdout.
 */
TEST(spread_runs_missing_cells_side_by_side)
{
	char out[8192],
		*command AUTOFREE =
			sentence("./mvbench spread 1 --repeats=2 --jobs=2 --format=json "
				 "--db=%s/run.db 2>%s/said; grep -c ' .spread. seed ' %s/said",
				 folder, folder, folder);
	record_run(SIM "--strategy=asgd --deal=static");
	spread("1 --repeats=2 --dry-run", EXIT_OK, "4 cells, 4 to run, 0 finished");
	near(number_in("run.db", "SELECT count(*) FROM run"), 1, 0);
	command_output(command, out, sizeof out);
	ck_assert_msg(strstr(out, "{\"figure\": \"test_loss\"") && strstr(out, "}\n4\n") &&
			      !strstr(out, "[spread]"),
		      "%s", out);
	near(number_in("run.db", "SELECT count(*) FROM run WHERE status = 'done'"), 5, 0);
	sql_in("run.db", "DELETE FROM run WHERE arrival_seed = 2 AND seed = 2");
	spread("1 --repeats=2", EXIT_OK, "1/1 [spread] seed 2 with arrival seed 2: ");
	near(number_in("run.db", "SELECT count(*) FROM run"), 5, 0);
}

TEST(runs_without_spread_are_refused)
{
	record_run(SIM "--strategy=asgd --sim.train=false");
	record_run("--workload=softmax --epochs=1 --device=cpu");
	spread("1", EXIT_USER, "run 1 computed no gradients");
	spread("2", EXIT_USER, "run 2 had real workers");
	spread("7", EXIT_USER, "run.db has no such run");
	spread("1 2", EXIT_USER, "give the number of a run, as in mvbench spread 3; mvbench table");
	spread("x", EXIT_USER, "x: give the number of a run");
	spread("", EXIT_USER, "give the number of a run");
	spread("1 --repeats=1", EXIT_USER, "--repeats=1");
}

/* The exit status is that of the runs. A run that an mvbench with other options recorded is
 * refused. */
TEST(spread_has_the_status_of_its_runs)
{
	char out[4096];
	ck_assert_int_eq(run_mvbench("timeout 60 env", SIM "--strategy=allreduce --lr=1000", out,
				     sizeof out),
			 EXIT_DIVERGED);
	spread("1 --repeats=2", EXIT_DIVERGED, "seed 1 with arrival seed 1: diverged: ");
	sql_in("run.db", "UPDATE run SET config_hash = 'of others' WHERE id = 1");
	spread("1 --repeats=2", EXIT_USER, "run 1 was recorded by an mvbench with other options");
}
