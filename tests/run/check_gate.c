/*
 * check_gate.c - the statistics of mvbench check (the views gate_*): its tests against known
 * distributions, and the share of false alarms over made baselines.
 */
#include "results/run/run.h"
#include "tests/fixture.h"
#include "tests/made.h"
#include "tests/suites.h"

#include <math.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#define sql(text)    sql_in("run.db", text)
#define number(text) number_in("run.db", text)

/* ---- Made baselines, and the runs that are compared with them ------------ */

static sqlite3 *made;
static sqlite3_stmt *insert[4];

static void open_made(void)
{
	static const char *const text[] = {
		"INSERT INTO baseline (name, cell, seed, made, config, options, config_hash, "
		"test_size, test_accuracy, test_loss, train_loss) VALUES (?1, ?2, ?3, '', 'c', "
		"'{\"workload\":\"mlp\"}', '', ?4, ?5, ?6, ?7)",
		INSERT_RUN(", test_size",
			   "'done', '', 'mlp', 'serial', 1, ?3, 1, 1, 1, 'mpi', 0, ?4"),
		"INSERT INTO epoch (run_id, epoch, test_accuracy, test_loss, train_loss) VALUES "
		"((SELECT max(id) FROM run), 1, ?5, ?6, ?7)",
		"INSERT INTO checked SELECT ?1, ?2, ?3, max(id), '' FROM run"};
	made = made_open("run.db");
	for (int i = 0; i < 4; i++)
		ck_assert_msg(sqlite3_prepare_v2(made, text[i], -1, &insert[i], NULL) == SQLITE_OK,
			      "%s", sqlite3_errmsg(made));
	made_sql(made, "BEGIN");
}

static void close_made(void)
{
	made_sql(made, "INSERT INTO gate_limit SELECT DISTINCT name, 0.01, 0.0005, 0.01, 0, 0 "
		       "FROM baseline; COMMIT");
	for (int i = 0; i < 4; i++)
		sqlite3_finalize(insert[i]);
	sqlite3_close(made);
}

struct figures {
	double accuracy, loss, train; /* NaN = none */
};

static void put(int i, const char *name, const char *cell, int seed, struct figures x)
{
	const double figure[] = {x.accuracy, x.loss, x.train};
	sqlite3_bind_text(insert[i], 1, name, -1, SQLITE_TRANSIENT);
	sqlite3_bind_text(insert[i], 2, cell, -1, SQLITE_TRANSIENT);
	sqlite3_bind_int(insert[i], 3, seed);
	sqlite3_bind_int(insert[i], 4, 1000);
	for (int k = 0; k < 3; k++)
		if (isnan(figure[k]))
			sqlite3_bind_null(insert[i], 5 + k);
		else
			sqlite3_bind_double(insert[i], 5 + k, figure[k]);
	ck_assert_msg(sqlite3_step(insert[i]) == SQLITE_DONE, "%s", sqlite3_errmsg(made));
	sqlite3_reset(insert[i]);
}

static void put_base(const char *name, const char *cell, int seed, struct figures x)
{
	put(0, name, cell, seed, x);
}

static void put_now(const char *name, const char *cell, int seed, struct figures x)
{
	for (int i = 1; i < 4; i++)
		put(i, name, cell, seed, x);
}

static struct figures loss(double x)
{
	return (struct figures){NAN, x, NAN};
}

/* ---- The tests ------------------------------------------------------------ */

/* n seeds whose losses rose so that their t is this: deviations of +-1, and 0 for the last of an
 * odd n. */
static void put_t(const char *name, int n, double t)
{
	double mean = t / sqrt(n % 2 ? n : n - 1);
	for (int i = 0; i < n; i++) {
		double deviation = n % 2 && i == n - 1 ? 0 : i % 2 ? 1 : -1;
		put_base(name, "c", i, loss(100));
		put_now(name, "c", i, loss(100 + mean + deviation));
	}
}

CASE("decisions", .limit = 60, .set_up = folder_new, .tear_down = folder_free);

/* A baseline from before training losses were evaluated is compared by the running loss. */
TEST(older_baselines_are_compared_by_running_loss)
{
#define VERDICTS \
	"SELECT group_concat(metric || ' ' || verdict, ', ') FROM (SELECT * FROM gate_test ORDER " \
	"BY metric)"
	open_made();
	for (int seed = 0; seed < 5; seed++) {
		put_base("old", "c", seed, loss(1));
		put_now("old", "c", seed, (struct figures){NAN, 1, 0.9});
	}
	close_made();
	sql("UPDATE baseline SET running_loss = 1 + 0.001 * seed;"
	    "UPDATE epoch SET running_loss = 1.1 + 0.0011 * (run_id - 1)");
	expect_in("run.db", VERDICTS, "running loss worse, test loss identical");
	/* a baseline that has both is compared by the evaluated loss alone */
	sql("UPDATE baseline SET train_loss = 0.9");
	expect_in("run.db", VERDICTS, "test loss identical, train loss identical");
}

/* From published tables: df, t, and the probability of more. */
static const struct {
	int df;
	double t, above;
} quantiles[] = {
	{1, 1, 0.25},          {1, 6.313752, 0.05},    {1, 63.656741, 0.005},
	{2, 0.816497, 0.25},   {2, 6.964557, 0.01},    {3, 5.840909, 0.005},
	{4, 2.131847, 0.05},   {4, 8.610302, 0.0005},  {5, 4.032143, 0.005},
	{6, -1.439756, 0.9},   {7, 2.997952, 0.01},    {9, 0, 0.5},
	{10, 1.812461, 0.05},  {10, 4.586894, 0.0005}, {30, 3.385185, 0.001},
	{60, 2.660283, 0.005}, {120, 1.979930, 0.025}, {120, -2.617421, 0.995},
};

TEST(student_t_equals_published_tables)
{
	char name[16], text[128];
	open_made();
	for (size_t i = 0; i < COUNT(quantiles); i++) {
		snprintf(name, sizeof name, "q%zu", i);
		put_t(name, quantiles[i].df + 1, quantiles[i].t);
	}
	close_made();
	for (size_t i = 0; i < COUNT(quantiles); i++) {
		snprintf(text, sizeof text, "SELECT df FROM gate_test WHERE name = 'q%zu'", i);
		near(number(text), quantiles[i].df, 0);
		snprintf(text, sizeof text, "SELECT t FROM gate_test WHERE name = 'q%zu'", i);
		near(number(text), quantiles[i].t, 1e-9);
		snprintf(text, sizeof text, "SELECT p FROM gate_test WHERE name = 'q%zu'", i);
		near(number(text), quantiles[i].above, 2e-6 * (quantiles[i].above + 0.01) * 100);
		snprintf(text, sizeof text,
			 "SELECT p + p_better FROM gate_test WHERE name = 'q%zu'", i);
		near(number(text), 1, 1e-12);
	}
}

/* An interval of 95 % just reaches zero where the probability of more is 0.025. */
TEST(intervals_agree_with_the_tests)
{
	char name[16];
	open_made();
	for (int df = 1; df <= 60; df++) {
		snprintf(name, sizeof name, "d%d", df);
		put_t(name, df + 1, 3);
	}
	close_made();
	/* half an interval is a quantile times worse / t; the test of that very quantile: */
	char *path AUTOFREE = in_folder("run.db");
	sqlite3_stmt *q;
	double quantile[61] = {0};
	ck_assert_int_eq(sqlite3_open(path, &made), SQLITE_OK);
	sqlite3_prepare_v2(made, "SELECT df, (high - worse) / (worse / t) FROM gate_test", -1, &q,
			   NULL);
	while (sqlite3_step(q) == SQLITE_ROW)
		quantile[sqlite3_column_int(q, 0)] = sqlite3_column_double(q, 1);
	sqlite3_finalize(q);
	sqlite3_close(made);
	remove(path);
	open_made();
	for (int df = 1; df <= 60; df++) {
		snprintf(name, sizeof name, "d%d", df);
		put_t(name, df + 1, quantile[df]);
	}
	close_made();
	near(number("SELECT count(*) FROM gate_test"), 60, 0);
	near(number("SELECT max(abs(p - 0.025)) FROM gate_test"), 0, 2e-7);
}

/* Other seeds: Welch's t, computed by hand in 50 digits. */
TEST(other_seeds_are_compared_unpaired)
{
	const double base[] = {1.0, 2.0, 3.0, 4.5}, now[] = {3.0, 5.5, 4.0, 8.0, 6.5};
	open_made();
	for (int i = 0; i < 4; i++)
		put_base("w", "c", i, loss(base[i]));
	for (int i = 0; i < 5; i++)
		put_now("w", "c", 10 + i, loss(now[i]));
	close_made();
	near(number("SELECT paired FROM gate_test"), 0, 0);
	near(number("SELECT worse FROM gate_test"), 2.775, 1e-12);
	near(number("SELECT t FROM gate_test"), 2.395187632162459, 1e-12);
	near(number("SELECT df FROM gate_test"), 6, 0);
	near(number("SELECT p FROM gate_test"), 0.026822766915791787, 1e-12);
}

/* n seeds whose losses differ from 100 by this mean and this variance. */
static void put_spread(const char *name, const char *cell, int n, double mean, double variance)
{
	double scale = sqrt(n % 2 ? variance : variance * (n - 1) / n);
	for (int i = 0; i < n; i++) {
		double deviation = n % 2 && i == n - 1 ? 0 : i % 2 ? scale : -scale;
		put_base(name, cell, i, loss(100));
		put_now(name, cell, i, loss(100 + mean + deviation));
	}
}

/* Cells share variances; the figures were computed in 40 digits, by bisection of trigamma. */
TEST(similar_cells_share_variances)
{
	static const struct {
		const char *name;
		double variance[5];
		int n[5];
		double df, prior; /* of the prior; infinite: the variances do not differ */
	} known[] = {
		{"some", {1, 4, 9, 0.25, 30}, {5, 5, 5, 5, 5}, 0.5925394892687, 0.389769167804673},
		{"far",
		 {1, 0.01, 900, 0.00001, 30},
		 {5, 5, 3, 7, 4},
		 0.142125433612288,
		 2.91901357884322e-6},
		{"like", {1, 5, 1, 0.4, 2}, {5, 5, 5, 5, 5}, 1.45015180754678, 0.754413981155666},
		{"alike", {1, 1.05, 0.95, 1, 1.02}, {5, 5, 5, 5, 5}, INFINITY, 1.3149816943377},
	};
	char text[160], cell[2] = "a";
	open_made();
	for (size_t i = 0; i < COUNT(known); i++)
		for (int c = 0; c < 5; c++) {
			cell[0] = (char)('a' + c);
			put_spread(known[i].name, cell, known[i].n[c], c ? 0.1 : 3,
				   known[i].variance[c]);
		}
	put_spread("alone", "a", 5, 3, 1);
	close_made();
	for (size_t i = 0; i < COUNT(known); i++) {
		snprintf(text, sizeof text, "SELECT prior_df FROM gate_test WHERE name = '%s'",
			 known[i].name);
		if (isinf(known[i].df))
			ck_assert(isinf(number(text)));
		else
			near(number(text), known[i].df, 1e-8);
		snprintf(text, sizeof text,
			 "SELECT 1e4 * prior_variance FROM gate_test WHERE name = '%s'",
			 known[i].name);
		near(number(text), known[i].prior, 1e-8 * known[i].prior);
	}
	near(number("SELECT t FROM gate_test WHERE name = 'some' AND cell = 'a'"), 6.98897640135595,
	     1e-8);
	near(number("SELECT df FROM gate_test WHERE name = 'some' AND cell = 'a'"), 4, 0);
	near(number("SELECT t FROM gate_test WHERE name = 'like' AND cell = 'a'"), 6.93873745818163,
	     1e-8);
	near(number("SELECT df FROM gate_test WHERE name = 'like' AND cell = 'a'"), 5, 0);
	/* at most as many degrees of freedom as there are differences to learn from */
	near(number("SELECT min(df = 20 AND t > 0) FROM gate_test WHERE name = 'alike'"), 1, 0);
	near(number("SELECT prior_df IS NULL AND df = 4 FROM gate_test WHERE name = 'alone'"), 1,
	     0);
	near(number("SELECT t FROM gate_test WHERE name = 'alone'"), 3 * sqrt(5), 1e-9);
}

/* Of four cells, one is identical: that is no test. The p of the others count three times, twice
 * and once, and never fall. */
TEST(p_values_are_corrected_for_many_tests)
{
	const double t[] = {5, 4.5, 1};
	char cell[2] = "a";
	double p[3];
	open_made();
	for (int c = 0; c < 4; c++, cell[0]++)
		for (int i = 0; i < 4; i++) {
			double rise = c < 3 ? t[c] / sqrt(3) + (i % 2 ? 1 : -1) : 0;
			put_base("h", cell, i, loss(100));
			put_now("h", cell, i, loss(100 + rise));
			put_base("other", cell, i, loss(100)); /* is counted separately */
			put_now("other", cell, i, loss(100 + i));
		}
	close_made();
	cell[0] = 'a';
	for (int c = 0; c < 3; c++, cell[0]++) {
		char *text AUTOFREE =
			sentence("SELECT p FROM gate_test WHERE name = 'h' AND cell = '%s'", cell);
		p[c] = number(text);
	}
	ck_assert(p[0] < p[1] && 2 * p[1] < 3 * p[0] + p[1]);
	near(number("SELECT p_holm FROM gate_test WHERE name = 'h' AND cell = 'a'"), 3 * p[0],
	     1e-12);
	near(number("SELECT p_holm FROM gate_test WHERE name = 'h' AND cell = 'b'"),
	     fmax(3 * p[0], 2 * p[1]), 1e-12);
	near(number("SELECT p_holm FROM gate_test WHERE name = 'h' AND cell = 'c'"), p[2], 1e-12);
	near(number("SELECT identical AND p_holm = 1 FROM gate_test WHERE name = 'h' AND cell = "
		    "'d'"),
	     1, 0);
}

/* Three seeds whose accuracy fell by one test row in a thousand, all alike, prove nothing. Losses
 * that rose alike are certain, and count as worse only beyond the minimum. */
TEST(equal_differences_are_handled)
{
	open_made();
	for (int i = 0; i < 3; i++) {
		put_base("z", "row", i, (struct figures){0.9 - 0.01 * i, NAN, NAN});
		put_now("z", "row", i, (struct figures){0.899 - 0.01 * i, NAN, NAN});
		put_base("z", "tiny", i, loss(2));
		put_now("z", "tiny", i, loss(2.0078125));
		put_base("z", "large", i, loss(2));
		put_now("z", "large", i, loss(2.0625));
		put_base("z", "less", i, loss(2));
		put_now("z", "less", i, loss(1.9375));
	}
	for (int i = 0; i < 2; i++)
		put_base("z", "lonely", i, loss(2));
	put_now("z", "lonely", 0, loss(3));
	close_made();
	near(number("SELECT p > 0.02 AND p < 0.04 FROM gate_test WHERE cell = 'row'"), 1, 0);
	near(number("SELECT p FROM gate_test WHERE cell = 'tiny'"), 0, 0);
	near(number("SELECT p FROM gate_test WHERE cell = 'less'"), 1, 0);
	expect_row("SELECT group_concat(cell || ' ' || verdict) FROM (SELECT * FROM gate_cell "
		   "ORDER BY rank, cell)",
		   "\"large worse,lonely untested,less better,row unsure,tiny ok\"\r\n");
	expect_row("SELECT group_concat(cell) FROM gate_cell WHERE fails ORDER BY cell",
		   "\"large,lonely\"\r\n");
	expect_row("SELECT base, now, change, interval, p FROM gate_line WHERE verdict = 'better'",
		   "2,1.938,-3.13 %,-3.13 .. -3.13 %,<0.0001\r\n");
}

/* ---- False alarms --------------------------------------------------------- */

static double normal(uint64_t *state)
{
	double u = rng_uniform(state), v = rng_uniform(state);
	return sqrt(-2 * log(1 - u)) * cos(2 * acos(-1) * v);
}

/* One run: the effect of its seed, which both sides share, and noise of its own. The three figures
 * share a part of the noise. */
static struct figures draw(uint64_t *state, double shared, double worse, double noise)
{
	double common = 0.7 * normal(state) + shared;
	double a = common + normal(state), l = common + normal(state), t = common + normal(state);
	return (struct figures){0.8 - 0.004 * noise * (a + worse), 1 + 0.02 * noise * (l + worse),
				1 + 0.02 * noise * (t + worse)};
}

/* Baselines with 3 cells of 5 seeds, compared with runs of the same code; cell b may be worse. The
 * noise of the third cell is multiplied by `noisy`. */
static void make_baselines(int n, bool paired, double noisy, double worse, uint64_t state)
{
	char name[16], cell[2] = "a";
	open_made();
	for (int b = 0; b < n; b++) {
		snprintf(name, sizeof name, "b%d", b);
		for (cell[0] = 'a'; cell[0] < 'd'; cell[0]++)
			for (int seed = 0; seed < 5; seed++) {
				double shared = normal(&state);
				double other = paired ? shared : normal(&state);
				double noise = cell[0] == 'c' ? noisy : 1;
				put_base(name, cell, seed, draw(&state, shared, 0, noise));
				put_now(name, cell, seed + (paired ? 0 : 100),
					draw(&state, other, cell[0] == 'b' ? worse : 0, noise));
			}
	}
	close_made();
}

/* The number of baselines that fail. */
static double failures(double alpha)
{
	char *limit AUTOFREE =
		sentence("INSERT OR REPLACE INTO gate_limit SELECT DISTINCT name, %g, 0, 0, 0, 0 "
			 "FROM baseline",
			 alpha);
	sql(limit);
	return number("SELECT count(*) FROM (SELECT name FROM gate_cell GROUP BY name HAVING "
		      "max(fails))");
}

/* Unchanged code fails at most a share alpha of the baselines, whatever the number of tests. The
 * share is not far below alpha, because otherwise the test would find nothing. 500 draws: 4
 * standard deviations are allowed. */
TEST(false_alarm_rate_is_at_most_alpha, 3)
{
	make_baselines(500, _i > 0, _i > 1 ? 3 : 1, 0, 20260131 + (uint64_t)_i);
	near(number("SELECT min(paired) FROM gate_test"), _i > 0, 0);
	near(number("SELECT count(*) FROM gate_test"), 500 * 9, 0);
	double at_20 = failures(0.2), at_5 = failures(0.05), at_1 = failures(0.01);
	ck_assert_msg(at_20 <= 100 + 4 * sqrt(100 * 0.8) && at_20 >= 38, "%g of 500 at 0.2", at_20);
	ck_assert_msg(at_5 <= 25 + 4 * sqrt(25 * 0.95) && at_5 >= 6, "%g of 500 at 0.05", at_5);
	ck_assert_msg(at_1 <= 5 + 4 * sqrt(5 * 0.99), "%g of 500 at 0.01", at_1);
}

TEST(real_differences_are_found)
{
	make_baselines(100, true, 1, 10, 7);
	double seen = failures(0.01);
	ck_assert_msg(seen >= 75, "%g of 100", seen);
	near(number("SELECT count(*) FROM gate_cell WHERE verdict = 'worse' AND cell <> 'b'"), 0,
	     10);
}
