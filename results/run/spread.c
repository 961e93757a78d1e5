/*
 * spread.c - mvbench spread: how much of the variance of repeated runs is due to the seed, and how
 * much to the order in which workers reach the parameter server.
 *
 * In a simulated run --seed decides initial values and data order. --arrival-seed decides the step
 * times, and thereby the order of arrival. Every seed can thus be run with every order: a two-way
 * layout with one run per cell and random effects,
 *
 *   y_ij = mean + seed_i + order_j + both_ij
 *
 * whose variances are estimated from the mean squares (Searle, Casella, McCulloch, Variance
 * Components, 1992, 4.3): seed (MS_seed - MS_both) / orders, order likewise, both MS_both.
 * Simulations are bit-identical, so both_ij is the interaction of seed and order, without noise.
 * Intervals: exact for both; for the others Williams's (Biometrika 49, 1962), which cover at least
 * 90 % and about 95 %.
 */
#include "results/run/cells.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Splitting ----------------------------------------------------------- */

/* The continued fraction of the incomplete beta function (Abramowitz and Stegun, 26.5.8), by
 * Lentz's method. */
static double beta_fraction(double a, double b, double x)
{
	double c = 1, d = 1 / (1 - (a + b) * x / (a + 1)), h = d;
	for (int m = 1; m < 500; m++) {
		double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
		double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
		d = 1 / (1 + even * d);
		c = 1 + even / c;
		h *= c * d;
		d = 1 / (1 + odd * d);
		c = 1 + odd / c;
		h *= c * d;
		if (fabs(c * d - 1) < 1e-14)
			break;
	}
	return h;
}

/* P(F < f) with these degrees of freedom. */
static double f_cdf(double f, double df1, double df2)
{
	double a = df1 / 2, b = df2 / 2, x = df1 * f / (df1 * f + df2);
	double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
	return x < (a + 1) / (a + b + 2) ? front * beta_fraction(a, b, x) / a
					 : 1 - front * beta_fraction(b, a, 1 - x) / b;
}

double f_quantile(double p, double df1, double df2)
{
	double low = -60, high = 60; /* of its logarithm */
	for (int i = 0; i < 100; i++) {
		double middle = (low + high) / 2;
		if (f_cdf(exp(middle), df1, df2) < p)
			low = middle;
		else
			high = middle;
	}
	return exp(low);
}

void spread_split(const double *y, int seeds, int orders, struct spread *s)
{
	double seed[SPREAD_MOST] = {0}, order[SPREAD_MOST] = {0}, square[SPREAD_PARTS] = {0};
	const int per[] = {orders, seeds, 1};
	const double all = 1e7; /* F with that many: chi-squared over its degrees of freedom */
	*s = (struct spread){.df = {seeds - 1, orders - 1, (seeds - 1) * (orders - 1)}};
	for (int i = 0; i < seeds; i++)
		for (int j = 0; j < orders; j++) {
			seed[i] += y[i * orders + j] / orders;
			order[j] += y[i * orders + j] / seeds;
			s->mean += y[i * orders + j] / (seeds * orders);
		}
	for (int i = 0; i < seeds; i++)
		square[SPREAD_SEED] += orders * pow(seed[i] - s->mean, 2);
	for (int j = 0; j < orders; j++)
		square[SPREAD_ORDER] += seeds * pow(order[j] - s->mean, 2);
	for (int i = 0; i < seeds; i++)
		for (int j = 0; j < orders; j++)
			square[SPREAD_BOTH] +=
				pow(y[i * orders + j] - seed[i] - order[j] + s->mean, 2);
	double both = square[SPREAD_BOTH] / s->df[SPREAD_BOTH];
	for (int k = 0; k < SPREAD_PARTS; k++) {
		double df = s->df[k], mean_square = square[k] / df,
		       rest = k == SPREAD_BOTH ? 0 : both;
		s->variance[k] = fmax(0, (mean_square - rest) / per[k]);
		s->low[k] =
			fmax(0, (mean_square - rest * f_quantile(0.975, df, s->df[SPREAD_BOTH])) /
					(per[k] * f_quantile(0.975, df, all)));
		s->high[k] =
			fmax(0, (mean_square - rest * f_quantile(0.025, df, s->df[SPREAD_BOTH])) /
					(per[k] * f_quantile(0.025, df, all)));
	}
}

/* ---- The runs ------------------------------------------------------------ */

struct spread_flags {
	struct sweep_flags sweep;
	const char *db, *format;
	int64_t repeats;
};

#define OWNER struct spread_flags
static const struct option options[] = {
	OPTION(db, STRING, "db", DATABASE,
	       "database of the run; the new runs go there, too [file]"),
	OPTION(repeats, INT, "repeats", "5",
	       "number of seeds, and of orders of arrival for each [runs]", .min = 2,
	       .max = SPREAD_MOST),
	OPTION(format, CHOICE, "format", "text", "output format; json: one object for each figure",
	       .choices = "text|json"),
	SWEEP_OPTIONS(sweep.),
	{0},
};

static char *check_repeatable(const struct config *c, int64_t id)
{
	if (!is_simulated(c))
		return sentence(
			"run %lld had real workers, whose order of arrival cannot be chosen; "
			"give a run with --platform=sim",
			(long long)id);
	if (!c->run.sim_train)
		return sentence("run %lld computed no gradients (--sim.train=false), so "
				"its repetitions would not differ; give one that did",
				(long long)id);
	if (c->run.sim_replay)
		return sentence(
			"run %lld is a replay, which takes its order from another run; give "
			"one that is not",
			(long long)id);
	return NULL;
}

enum { FIGURES = 4 };
static const struct {
	const char *name, *column;
	double unit;
} figures[FIGURES] = {{"test accuracy %", "test_accuracy", 100},
		      {"test loss", "test_loss", 1},
		      {"train loss", "train_loss", 1},
		      {"seconds", "seconds_total", 1}};

/* The cells of the sweep: seed by seed, each with all orders. */
static char *make_layout(const struct config *c, const struct plan *plan, int n,
			 struct sweep *cells)
{
	for (int i = 0; i < n * n; i++) {
		struct settings all ENDS_WITH(settings_free) = {.setting = NULL};
		struct config config;
		long long seed = c->run.seed + i / n, order = 1 + i % n;
		settings_add_config(&all, c);
		settings_add(&all, must(strdup("seed")), sentence("%lld", seed));
		settings_add(&all, must(strdup("arrival-seed")), sentence("%lld", order));
		TRY(config_init(&config, all.setting, all.n, false));
		CHECK(sweep_add(cells, &config, "spread", 0), "two seeds make one cell");
		struct cell *cell = &cells->cell[i];
		cell->what = sentence("seed %lld with arrival seed %lld", seed, order);
		cell->plan = *plan;
	}
	return NULL;
}

/* y[FIGURES][cells] */
static char *read_figures(const struct sweep *cells, double *y)
{
	struct store *s AUTOCLOSE = NULL;
	/* updates table run_kept */
	TRY(store_open_for(&s, &cells->cell[0].config, STORE_CHANGE));
	for (size_t i = 0; i < cells->cells; i++) {
		double x[FIGURES];
		TRY(sql_reals(s, x, FIGURES,
			      "SELECT test_accuracy, test_loss, train_loss, seconds_total "
			      "FROM run_summary WHERE id = ?1",
			      "i", cells->cell[i].id));
		for (int k = 0; k < FIGURES; k++)
			y[(size_t)k * cells->cells + i] = x[k];
	}
	return NULL;
}

/* ---- Results ------------------------------------------------------------- */

static const char *const parts[SPREAD_PARTS] = {"seed", "order", "both"};

static void print_json(const char *name, const struct spread *s, double total)
{
	printf("{\"figure\": \"%s\", \"mean\": %.17g", name, s->mean);
	for (int k = 0; k < SPREAD_PARTS; k++)
		printf(", \"%s\": {\"variance\": %.17g, \"low\": %.17g, \"high\": %.17g, "
		       "\"df\": %d, \"share\": %.17g}",
		       parts[k], s->variance[k], s->low[k], s->high[k], s->df[k],
		       total > 0 ? s->variance[k] / total : 0);
	puts("}");
}

static void spread_print_text(const char *name, const struct spread *s, double unit, double total)
{
	for (int k = 0; k < SPREAD_PARTS; k++) {
		char share[16] = "-", mean[32] = "";
		if (total > 0)
			snprintf(share, sizeof share, "%.1f", 100 * s->variance[k] / total);
		if (k == 0)
			snprintf(mean, sizeof mean, "%.5g", unit * s->mean);
		printf("%-16s %-10s %-6s %3d %10.4g  %10.4g .. %-10.4g %7s\n", k ? "" : name, mean,
		       parts[k], s->df[k], unit * sqrt(s->variance[k]), unit * sqrt(s->low[k]),
		       unit * sqrt(s->high[k]), share);
	}
}

static void print_all(const double *all, int n, bool json)
{
	if (!json)
		printf("%-16s %-10s %-6s %3s %10s  %-24s %7s\n", "figure", "mean", "part", "df",
		       "sd", "    95 %", "share %");
	for (int k = 0; k < FIGURES; k++) {
		struct spread s;
		const double *y = all + (size_t)k * n * n;
		spread_split(y, n, n, &s);
		double total = s.variance[0] + s.variance[1] + s.variance[2];
		if (isnan(s.mean)) /* a task without accuracy */
			continue;
		if (json)
			print_json(figures[k].column, &s, total);
		else
			spread_print_text(figures[k].name, &s, figures[k].unit, total);
	}
}

static char *config_of_run(const struct arguments *a, const char *db, struct config *c)
{
	struct store *s AUTOCLOSE = NULL;
	int64_t id;
	bool exact;
	if (a->words != 1)
		return sentence("give the number of a run, as in mvbench spread 3; mvbench table "
				"--runs lists them");
	TRY(store_open(&s, db, STORE_READ));
	TRY(run_number(s, a->word[0], &id));
	TRY(recorded_config(s, id, c, &exact));
	if (!exact)
		return sentence("run %lld was recorded by an mvbench with other options, so this "
				"one cannot repeat its configuration: record it again",
				(long long)id);
	return check_repeatable(c, id);
}

static char *spread(void *given, struct arguments *a, int *status)
{
	const struct spread_flags *f = given;
	struct sweep_flags flags = f->sweep;
	struct config c AUTOCONFIG = {0};
	struct sweep cells ENDS_WITH(sweep_free) = {.cell = NULL};
	struct plan plan;
	int n = (int)f->repeats;
	TRY(config_of_run(a, f->db, &c));
	c.harness.db = f->db;
	c.harness.hostfile = ""; /* of real workers */
	c.run.record = false;
	TRY(run_plan(&c, &plan, false));
	TRY(make_layout(&c, &plan, n, &cells));
	flags.resume = true;
	flags.lines = stderr;
	TRY(sweep_carry_out(&cells, &flags, status));
	if (flags.dry_run || *status != EXIT_OK)
		return NULL;
	double *y AUTOFREE = must(calloc(FIGURES * cells.cells, sizeof *y));
	*status = EXIT_FAILED;
	TRY(read_figures(&cells, y));
	*status = EXIT_OK;
	print_all(y, n, strcmp(f->format, "json") == 0);
	return NULL;
}

const struct command command_spread = {
	.name = "spread",
	.summary = "split the spread of a simulated run into seed and order of arrival",
	.usage = "RUN [--option=value ...]",
	.about =
		"Repeats a simulated run with --repeats seeds, each with the same --repeats orders "
		"of arrival (--arrival-seed), and prints how much of the variance is due to the "
		"seed, to the order, and to the interaction of both: standard deviations with "
		"their degrees of freedom, 95 % intervals and shares of the variance. Runs that "
		"have ended already are not repeated: after Ctrl-C the same command continues.\n\n"
		"Exit status: 0 done, 1 a run failed, 2 refused, 3 a run diverged, "
		"130 interrupted.",
	.options = options,
	.size = sizeof(OWNER),
	.run = spread,
	.interrupted = GOES_ON,
};
