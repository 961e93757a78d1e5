/*
 * advise.c - mvbench advise: which strategy, interval and codec are worthwhile on this setup. Each
 * strategy becomes a cell of a sweep for each interval and codec, and an epoch of each cell is
 * simulated without training. advise.sql ranks the cells. If no recorded run shows their
 * accuracies, the fastest are trained for a limited time.
 *
 * The cells are recorded in a copy of the database. The copy has the calibrations that simulations
 * need; the user's file gets no rows.
 */
#include "results/ask/ask.h"
#include "results/db/column.h"
#include "results/run/cells.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TEXT_FILE(advise_sql, "results/ask/advise.sql");
TEXT_FILE(advise_error_sql, "results/ask/advise_error.sql");

struct advise_options {
	const char *intervals, *codecs, *where, *format, *out;
	int64_t jobs;
	double utilisation, train;
	bool changes;
};

#define OWNER struct advise_options
static const struct option options[] = {
	OPTION(intervals, STRING, "intervals", "1,2,4,8,16,32,64",
	       "sync intervals to compare [steps]"),
	OPTION(codecs, STRING, "codecs", "",
	       "codecs to compare, as in none,int8,topk; strategies without messages for a codec "
	       "are simulated once; empty: only --codec [list]"),
	OPTION(jobs, INT, "jobs", "0", "simulations at a time; 0: one for each core [simulations]",
	       .min = 0, .max = JOBS_MAX),
	OPTION(utilisation, REAL, "utilisation", "0",
	       "instead of ranking times: the least --sim.rate at which workers compute for this "
	       "share of their time, within 1 %; 0: rank times [fraction]",
	       .min = 0, .max = 0.999),
	OPTION(train, TIME, "train", "1min",
	       "unless recorded runs answer it: train, for at most this time, on the simulated "
	       "machines: allreduce, and the others from the fastest on, until one loses at most "
	       "half a point of accuracy; 0: train nothing [time]",
	       .min = 0, .max = 1e6),
	OPTION(changes, BOOL, "changes", "true",
	       "simulate the fastest four times more, with half and twice the rate and the step "
	       "time, to print what would change the answer; false: leave that out"),
	SELECT_WHERE(where, "for accuracies: "),
	OPTION(format, CHOICE, "format", "text",
	       "output format; csv and json have the ranking only, not rounded [name]",
	       .choices = "text|markdown|csv|json"),
	OPTION(out, STRING, "out", "",
	       "write the answer to this file instead of the terminal [file]"),
	{.name = NULL},
};

/* ---- The cells ----------------------------------------------------------- */

enum { OWN_MOST = 8 }; /* settings of a cell of its own */

#define CODED " codec=" /* in the names of cells */

struct setup {
	struct config config;    /* of the given options; cells have other strategies */
	struct setting *setting; /* of all cells; with room for a cell's own after them */
	size_t n;
	char cores[24];
	struct axis interval, codec;
	/* section: the strategy, with a variant and a codec: "periodic schedule=down codec=int8" */
	struct sweep sweep;
	struct settings refused;  /* name of a cell's section, and why */
	const char *why;          /* the first of these, of a strategy of several workers */
	char *doubt;              /* NULL, or why the calibration may be wrong */
	char *trained, *turns[2]; /* advice: what was trained; what would change the answer */
	double error[2];          /* of simulated times, relative: median, 90th percentile */
	char *error_from;         /* the cells that show it */
	bool rates;               /* searches the rates for a utilisation */
	bool trains;              /* for accuracies, if no recorded run has them */
	int64_t params, steps;    /* of several workers with a model each */
};

static void setup_fini(struct setup *u)
{
	settings_free(&u->refused);
	free(u->setting);
	free(u->doubt);
	free(u->trained);
	free(u->turns[0]);
	free(u->turns[1]);
	free(u->error_from);
	sweep_free(&u->sweep);
	axis_fini(&u->interval);
	axis_fini(&u->codec);
	config_fini(&u->config);
}

/* A cell simulates one epoch, or all if its strategy has a schedule, because epochs then differ.
 * Servers are for strategies that have tables. */
static char *cell_config(const struct setup *u, const struct strategy *s,
			 const struct setting *variant, const char *codec, const char *x,
			 struct config *c)
{
	char *option AUTOFREE = variant ? sentence("%s.%s", s->plugin.name, variant->name) : NULL;
	size_t n = u->n;
	u->setting[n++] = (struct setting){"strategy", s->plugin.name};
	u->setting[n++] = (struct setting){"sync-every", x};
	if (s->local)
		u->setting[n++] = (struct setting){"workers", "1"};
	if (!s->terms) {
		u->setting[n++] = (struct setting){"servers", "0"};
		u->setting[n++] = (struct setting){"table-home", "auto"};
	}
	if (variant)
		u->setting[n++] = (struct setting){option, variant->value};
	if (codec)
		u->setting[n++] = (struct setting){"codec", codec};
	TRY(config_init(c, u->setting, n, true));
	for (struct config_option at = {.config = c}; config_next(&at);)
		if (strcmp(at.part, "strategy") == 0 && strcmp(at.option->name, "schedule") == 0 &&
		    strcmp(at.value, at.option->def) != 0)
			c->run.epochs = u->config.run.epochs;
	return NULL;
}

/* Adds this strategy with each interval. variant or codec NULL: only the given options. The start
 * of the workers does not depend on the interval. */
static void candidate_add(struct setup *u, const struct strategy *s, const struct setting *variant,
			  const char *codec)
{
	bool paced = strategy_has_interval(s),
	     flag = variant && strcmp(variant->value, "true") == 0;
	bool coded = codec && strcmp(codec, "none") != 0;
	char *plain AUTOFREE = !variant ? sentence("%s", s->plugin.name)
					: sentence("%s %s%s%s", s->plugin.name, variant->name,
						   flag ? "" : "=", flag ? "" : variant->value);
	char *name AUTOFREE = sentence("%s%s%s", plain, coded ? CODED : "", coded ? codec : "");
	for (size_t i = 0; i < (paced ? u->interval.n : 1); i++) {
		const char *x = paced ? u->interval.value[i] : "1";
		struct config c;
		struct plan plan;
		char *why = cell_config(u, s, variant, codec, x, &c);
		if (!why)
			why = plan_make(&c, &plan);
		if (!why && i == 0)
			why = simulation_check(&c, &plan);
		if (!why && i == 0 && !u->doubt)
			u->doubt = calibration_doubt(&c, &plan);
		if (why) {
			config_fini(&c);
			settings_add(&u->refused, must(strdup(name)), why);
			u->why = u->why || s->local ? u->why : why;
			return;
		}
		if (!sweep_add(&u->sweep, &c, name, 0)) /* the given options are the variant */
			continue;
		struct cell *cell = &u->sweep.cell[u->sweep.cells - 1];
		cell->plan = plan;
		cell->what = sentence("X=%s", x);
		if (!s->local && !s->model_workers) {
			u->params = plan.params;
			u->steps = plan.steps;
		}
	}
}

/* With each codec; once, if the strategy has no messages for one. */
static void candidates_of(struct setup *u, const struct strategy *s, const struct setting *variant)
{
	if (u->codec.n == 0 || s->codes == CODES_NOTHING)
		candidate_add(u, s, variant, NULL);
	for (size_t k = 0; k < u->codec.n && s->codes != CODES_NOTHING; k++)
		candidate_add(u, s, variant, u->codec.value[k]);
}

/* NULL, or why no strategy of several workers can be simulated. */
static char *candidates_add(struct setup *u)
{
	for (size_t i = 0; strategies[i]; i++) {
		if (u->rates && strategies[i]->local)
			continue;
		candidates_of(u, strategies[i], NULL);
		for (const struct setting *v = strategies[i]->variants; v && v->name; v++)
			candidates_of(u, strategies[i], v);
	}
	return u->why && u->steps == 0 ? sentence("%s", u->why) : NULL;
}

/* ---- The setup ----------------------------------------------------------- */

/* The kind of GPU that real workers would compute on; NULL: none. */
static const char *gpu_of(const struct run *r)
{
	bool any = strcmp(r->device, "auto") == 0;
	for (size_t i = 0; devices[i] && strcmp(r->platform, "mpi") == 0; i++) {
		const struct device_ops *d = devices[i];
		if (!d->host && (strcmp(r->device, d->name) == 0 || (any && !d->probe(NULL))))
			return d->name;
	}
	return NULL;
}

/* Simulates what real workers would run on. */
static char *choose_machine(struct setup *u)
{
	const struct run *r = &u->config.run;
	const char *gpu = gpu_of(r), *platform = r->sim_platform;
	if (u->rates && strcmp(platform, "local") == 0) { /* which has no links */
		platform = "cluster";
	} else if (strcmp(r->platform, "mpi") == 0 && strcmp(platform, "local") == 0) {
		if (*u->config.harness.hostfile)
			platform = "hosts";
		else if (gpu)
			return sentence(
				"--device=%s: messages between GPUs of this machine cannot be "
				"calibrated; give a similar one of mvbench list platforms, as in "
				"--sim.platform=gpu4_nvlink, or --device=cpu",
				gpu);
	}
	u->setting[u->n++] = (struct setting){"device", gpu ? gpu : r->device};
	u->setting[u->n++] = (struct setting){"sim.platform", platform};
	return NULL;
}

static char *intervals_read(struct axis *a, const char *list)
{
	char *wrong AUTOFREE = axis_read(a, "sync-every", list);
	if (!wrong)
		return NULL;
	return sentence("--intervals=%s: give whole numbers from 1 to 1000000000, separated by "
			"commas, such as --intervals=1,4,16",
			list);
}

/* Without --workers: one for each usable core, but at least 2. */
static char *settings_read(struct setup *u, const struct arguments *a)
{
	static const struct setting timed[] = {
		{"platform", "sim"}, {"sim.train", "false"}, {"sim.replay", "0"},
		{"epochs", "1"},     {"label", "advise"},    {"record", "false"},
		{"trace", "0"},      {"save", ""},           {"eval-every", "0"},
		{"init-from", ""},   {"initial-model", ""},  {"quiet-wait", "0"},
	};
	enum { TIMED = sizeof timed / sizeof *timed };
	u->setting = must(calloc(a->options + TIMED + 4 + OWN_MOST, sizeof *u->setting));
	snprintf(u->cores, sizeof u->cores, "%d", usable_cores() > 1 ? usable_cores() : 2);
	u->setting[u->n++] = (struct setting){"workers", u->cores};
	for (size_t i = 0; i < a->options; i++)
		u->setting[u->n++] = a->option[i];
	TRY(config_init(&u->config, u->setting, u->n, true));
	for (size_t i = 0; i < TIMED; i++)
		u->setting[u->n++] = timed[i];
	if (u->rates) /* cells have others */
		u->setting[u->n++] = (struct setting){"sim.rate", "1gbit"};
	return choose_machine(u);
}

static char *codecs_read(struct axis *axis, const struct arguments *a, const char *list)
{
	const char *one = arguments_value(a, "codec");
	if (!*list)
		return NULL;
	if (one)
		return sentence("--codecs=%s: it compares codecs, and --codec=%s is that of all; "
				"leave one of the two out",
				list, one);
	char *wrong AUTOFREE = axis_read(axis, "codec", list);
	if (!wrong)
		return NULL;
	return sentence("--codecs=%s: give names of mvbench list codecs, separated by commas, such "
			"as --codecs=none,int8,topk",
			list);
}

/* Options that leave no rate to be sought. */
static char *rates_refuse(const struct arguments *a)
{
	const char *rate = arguments_value(a, "sim.rate"), *on = arguments_value(a, "sim.platform");
	if (rate)
		return sentence("--sim.rate=%s: --utilisation seeks the rate; leave one of the two "
				"out",
				rate);
	if (on && (strcmp(on, "local") == 0 || strcmp(on, "hosts") == 0))
		return sentence("--sim.platform=%s: --utilisation seeks the rate of links, and "
				"those of this platform were measured; give --sim.platform=cluster",
				on);
	return NULL;
}

static char *setup_read(struct setup *u, const struct arguments *a, const struct advise_options *o)
{
	TRY(settings_check(a->option, a->options));
	for (size_t i = 0; i < a->options; i++)
		if (strcmp(a->option[i].name, "strategy") == 0 ||
		    strcmp(a->option[i].name, "sync-every") == 0)
			return sentence("--%s: advise compares them all; give --workload, "
					"--batch, --workers, --device, ...",
					a->option[i].name);
	if (u->rates)
		TRY(rates_refuse(a));
	TRY(intervals_read(&u->interval, o->intervals));
	TRY(codecs_read(&u->codec, a, o->codecs));
	TRY(settings_read(u, a));
	if (u->config.run.workers < 2)
		return sentence(
			"--workers=%lld: advise compares strategies of several workers; give "
			"--workers=2 or more",
			(long long)u->config.run.workers);
	return candidates_add(u);
}

/* ---- The answer ---------------------------------------------------------- */

static char *advise_simulate(struct setup *u, const char *copy, int64_t jobs, FILE *lines,
			     int *status);

/* ---- The least rates ---- */

/* The rates between which a cell reaches the utilisation [bit/s]. */
struct bracket {
	double low, high;
};
static const struct bracket all_rates = {1e5, 1e13};

/* Simulates each cell at the middle of its bracket, and halves the brackets. */
static char *halve(struct setup *u, struct bracket *b, double wanted, const char *copy,
		   int64_t jobs, FILE *lines, int *status)
{
	for (size_t i = 0; i < u->sweep.cells; i++) {
		struct cell *c = &u->sweep.cell[i];
		c->config.harness.sim_rate = round(sqrt(b[i].low * b[i].high));
		config_hash(&c->config, c->hash);
		c->id = 0;
		c->skip = false;
		c->status[0] = '\0';
	}
	TRY(advise_simulate(u, copy, jobs, lines, status));
	struct store *s AUTOCLOSE = NULL;
	TRY(store_open(&s, copy, STORE_READ));
	for (size_t i = 0; i < u->sweep.cells; i++) {
		const struct cell *c = &u->sweep.cell[i];
		double reached = NAN;
		TRY(sql_reals(s, &reached, 1,
			      "SELECT utilisation FROM run_summary WHERE config_hash = ?1 AND "
			      "status = 'done' ORDER BY id DESC LIMIT 1",
			      "t", c->hash));
		*(reached >= wanted ? &b[i].high : &b[i].low) = c->config.harness.sim_rate;
	}
	return NULL;
}

static char *print_rates(const struct setup *u, const struct bracket *b,
			 const struct advise_options *o, FILE *f)
{
	struct store *s AUTOCLOSE = sql_schema();
	enum format format = format_of(o->format);
	TRY(sql_script(s, "CREATE TEMP TABLE found (strategy TEXT, x INTEGER, rate REAL, always "
			  "INTEGER)"));
	for (size_t i = 0; i < u->sweep.cells; i++) {
		const struct cell *c = &u->sweep.cell[i];
		TRY(sql_change(s, "INSERT INTO found VALUES (?1, ?2, ?3, ?4)", "tnri", c->section,
			       strategy_has_interval(c->config.strategy) ? c->config.run.sync_every
									 : -1,
			       b[i].high < all_rates.high ? b[i].high : NAN,
			       (int64_t)(b[i].low <= all_rates.low)));
	}
	if (for_people(format))
		fprintf(f,
			"The least rate at which %lld workers on simulated %s compute for %g of "
			"their time\n\n",
			(long long)u->config.run.workers, u->sweep.cell[0].config.run.sim_platform,
			o->utilisation);
	return query_print(
		s, f, format,
		for_people(format)
			? "SELECT strategy, x AS X, CASE WHEN rate IS NULL THEN 'never' "
			  "WHEN always THEN format('at most %.3g mbit', rate / 1e6) "
			  "WHEN rate >= 1e9 THEN format('%.3g gbit', rate / 1e9) ELSE "
			  "format('%.3g mbit', rate / 1e6) END AS rate FROM found ORDER BY "
			  "found.rate IS NULL, found.rate, rowid"
			: "SELECT strategy, x AS sync_every, rate AS sim_rate FROM found "
			  "ORDER BY rate IS NULL, rate, rowid",
		NULL, 0, NULL);
}

/* Rates are known within 1 % after these halvings of a factor of 10^8. */
static char *advise_rates(struct setup *u, const struct advise_options *o, const char *copy,
			  FILE *f, int *status)
{
	enum { HALVINGS = 11 };
	struct bracket *b AUTOFREE = must(calloc(u->sweep.cells, sizeof *b));
	FILE *lines = must(fopen("/dev/null", "w"));
	char *wrong = NULL;
	for (size_t i = 0; i < u->sweep.cells; i++)
		b[i] = all_rates;
	for (int k = 0; k < HALVINGS && !wrong && *status != EXIT_INTERRUPTED; k++) {
		fprintf(stderr, "mvbench: %d of %d: %zu simulations\n", k + 1, HALVINGS,
			u->sweep.cells);
		wrong = halve(u, b, o->utilisation, copy, o->jobs, lines, status);
	}
	fclose(lines);
	return wrong || *status == EXIT_INTERRUPTED ? wrong : print_rates(u, b, o, f);
}

/* ---- Accuracy: trains cells on the simulated machines ---- */

enum { SEEDS_MOST = 3 };

static void file_close(FILE **f)
{
	fclose(*f);
}

/* Ends in the same model as one worker with the global batch, apart from rounding. */
static bool is_exact(const struct cell *c)
{
	const struct strategy *s = c->config.strategy;
	return (strcmp(s->plugin.name, "allreduce") == 0 || s->model_workers) &&
	       !strstr(c->section, CODED);
}

/* Work whose results are read later: only an interruption of it is the command's. */
static void keep_interruption(int *status, int of_part)
{
	if (of_part == EXIT_INTERRUPTED)
		*status = of_part;
}

/* The seconds of an epoch of this cell; NaN: it could not be simulated. */
static char *epoch_seconds(struct store *s, const struct cell *c, double *seconds)
{
	*seconds = NAN;
	return sql_reals(s, seconds, 1,
			 "SELECT seconds_total / epochs_done FROM run_summary WHERE config_hash = "
			 "?1 AND status = 'done' ORDER BY id DESC LIMIT 1",
			 "t", c->hash);
}

/* A limited time to train in. */
struct budget {
	nsec until;
	bool over;   /* what was under way then was given up */
	char *fault; /* NULL, or why the cells cannot be trained */
};

/* Trains this cell with another seed each. *accuracy: the mean; NaN: none, or it diverged. */
static char *train_cell(const struct setup *u, const struct cell *of, int64_t first, int64_t seeds,
			const char *copy, struct budget *b, double *accuracy, int *status)
{
	struct sweep trial ENDS_WITH(sweep_free) = {.cells = 0};
	FILE *lines ENDS_WITH(file_close) = must(fopen("/dev/null", "w"));
	const struct sweep_flags flags = {
		.jobs = usable_cores(), .lines = lines, .until = b->until, .late = &b->over};
	char *epochs AUTOFREE = sentence("%lld", (long long)u->config.run.epochs);
	int of_part = EXIT_OK;
	*accuracy = NAN;
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "mvbench: trains %s %s, at most %.0f s\n", of->section, of->what,
			fmax(0, 1e-9 * (double)(b->until - clock_now())));
	for (int64_t k = 0; k < seeds; k++) {
		struct settings all ENDS_WITH(settings_free) = {.n = 0};
		struct config c;
		struct plan plan;
		char *seed AUTOFREE = sentence("%lld", (long long)(u->config.run.seed + first + k));
		const struct setting own[] = {
			{"sim.train", "true"}, {"epochs", epochs}, {"seed", seed}, {"db", copy}};
		settings_add_config(&all, &of->config);
		settings_give(&all, own, sizeof own / sizeof *own);
		TRY(config_init(&c, all.setting, all.n, true));
		b->fault = b->fault ? b->fault : plan_make(&c, &plan);
		if (b->fault || !sweep_add(&trial, &c, of->section, 0)) {
			config_fini(&c);
			return NULL;
		}
		trial.cell[trial.cells - 1].plan = plan;
		trial.cell[trial.cells - 1].what = sentence("seed %s", seed);
	}
	TRY(sweep_carry_out(&trial, &flags, &of_part));
	if (!b->over)
		keep_interruption(status, of_part);
	struct store *s AUTOCLOSE = NULL;
	double sum = 0;
	TRY(store_open(&s, copy, STORE_READ));
	for (size_t i = 0; i < trial.cells; i++) {
		double one = NAN;
		TRY(sql_reals(s, &one, 1,
			      "SELECT test_accuracy FROM run_summary WHERE config_hash = ?1 AND "
			      "status = 'done' ORDER BY id DESC LIMIT 1",
			      "t", trial.cell[i].hash));
		sum += one;
	}
	*accuracy = sum / (double)trial.cells;
	return NULL;
}

/* The indexes of the cells of several workers that were simulated, the fastest first. */
static char *order_cells(const struct setup *u, const char *copy, size_t *order, size_t *n)
{
	double *seconds AUTOFREE = must(calloc(u->sweep.cells, sizeof *seconds));
	struct store *s AUTOCLOSE = NULL;
	TRY(store_open(&s, copy, STORE_READ));
	*n = 0;
	for (size_t i = 0; i < u->sweep.cells; i++) {
		TRY(epoch_seconds(s, &u->sweep.cell[i], &seconds[i]));
		if (isnan(seconds[i]) || u->sweep.cell[i].config.strategy->local)
			continue;
		size_t k = (*n)++;
		for (; k > 0 && seconds[order[k - 1]] > seconds[i]; k--)
			order[k] = order[k - 1];
		order[k] = i;
	}
	return NULL;
}

/* What was trained, and how far it came. Heap. */
static char *say_trained(const struct setup *u, const struct advise_options *o,
			 const struct budget *b, bool reference, size_t done, size_t all,
			 bool found)
{
	const long long epochs = (long long)u->config.run.epochs;
	if (b->fault)
		return sentence("Nothing was trained: %s.", b->fault);
	if (!reference)
		return sentence("Accuracy: unknown, because %lld epoch%s of allreduce %s within "
				"--train=%gs.",
				epochs, plural(epochs), b->over ? "do not end" : "gave none",
				o->train);
	return sentence("Trained here in %.0f s, for %lld epoch%s on the simulated machines: "
			"allreduce, and %zu of the %zu that are faster, from the fastest on%s.",
			o->train - 1e-9 * (double)(b->until - clock_now()), epochs, plural(epochs),
			done, all,
			found        ? "; the last one is accurate enough"
			: done < all ? "; then the time of --train was over"
				     : "");
}

/* Cells that are slower than the fastest exact one need no training. What was trained: in
 * u->trained. */
static char *train_cells(struct setup *u, const struct advise_options *o, const char *copy,
			 int *status)
{
	const double most_lost = 0.005;
	size_t *order AUTOFREE = must(calloc(u->sweep.cells, sizeof *order)), n, all = 0, done = 0,
		      at = 0;
	double exact = NAN, accuracy = NAN;
	struct budget b = {.until = clock_now() + (nsec)(1e9 * o->train)};
	TRY(order_cells(u, copy, order, &n));
	while (all < n && !is_exact(&u->sweep.cell[order[all]]))
		all++;
	while (at < n && strcmp(u->sweep.cell[order[at]].section, "allreduce") != 0)
		at++;
	if (at == n)
		return NULL;
	const struct cell *reference = &u->sweep.cell[order[at]], *found = NULL;
	char *wrong = train_cell(u, reference, 0, 1, copy, &b, &exact, status);
	const bool judged = isfinite(exact);
	while (!wrong && judged && done < all && !found && !b.over && !b.fault &&
	       *status != EXIT_INTERRUPTED) {
		const struct cell *c = &u->sweep.cell[order[done]];
		wrong = train_cell(u, c, 0, 1, copy, &b, &accuracy, status);
		done += !b.over;
		if (accuracy >= exact - most_lost)
			found = c;
	}
	for (int k = 0; k < 2 && !wrong && found && !b.over && *status != EXIT_INTERRUPTED; k++)
		wrong = train_cell(u, k ? found : reference, 1, SEEDS_MOST - 1, copy, &b, &accuracy,
				   status);
	u->trained = say_trained(u, o, &b, judged, done, all, found);
	free(b.fault);
	return wrong;
}

/* ---- How sure, and what would change the answer ---- */

/* From the cells of mvbench validate in the database, if there are enough for a 90th percentile;
 * otherwise the errors of randomly drawn cells in sim/README.md. */
static char *find_error(struct setup *u, const char *copy)
{
	enum { CELLS_LEAST = 10 };
	struct store *s AUTOCLOSE = NULL;
	int64_t any = 0;
	double here[3] = {0};
	TRY(store_open(&s, copy, STORE_READ));
	TRY(sql_number(s, &any, "SELECT count(*) FROM run WHERE label = 'validate'", ""));
	if (any >= 2 * CELLS_LEAST)
		TRY(sql_reals(s, here, 3, advise_error_sql, ""));
	bool enough = here[0] >= CELLS_LEAST;
	u->error[0] = enough ? here[1] : 0.029;
	u->error[1] = enough ? here[2] : 0.068;
	u->error_from = enough ? sentence("%.0f cells of mvbench validate here", here[0])
			       : sentence("51 cells of mvbench validate on another machine");
	return NULL;
}

/* Simulates these cells with one setting changed, and says which is the fastest then, an exact one
 * first if it is as fast within the error. */
static char *turn(struct setup *u, const struct advise_options *o, const char *copy,
		  const size_t *order, size_t n, const char *what, double rate, double factor,
		  FILE *f, int *status)
{
	struct sweep all = u->sweep, some = {.cells = n};
	struct store *s AUTOCLOSE = NULL;
	FILE *lines ENDS_WITH(file_close) = must(fopen("/dev/null", "w"));
	double *seconds AUTOFREE = must(calloc(n, sizeof *seconds)), least = INFINITY;
	const struct cell *best = NULL, *exact = NULL;
	int of_part = EXIT_OK;
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "mvbench: simulates %zu cells with %s\n", n, what);
	some.cell = must(calloc(n, sizeof *some.cell));
	for (size_t i = 0; i < n; i++) {
		some.cell[i] = all.cell[order[i]]; /* borrowed, except for what changes here */
		struct cell *c = &some.cell[i];
		if (rate > 0)
			c->config.harness.sim_rate = rate;
		c->config.harness.sim_step_factor *= factor;
		config_hash(&c->config, c->hash);
		c->id = 0;
		c->skip = false;
		c->status[0] = '\0';
	}
	u->sweep = some;
	char *wrong = advise_simulate(u, copy, o->jobs, lines, &of_part);
	u->sweep = all;
	keep_interruption(status, of_part);
	wrong = wrong ? wrong : store_open(&s, copy, STORE_READ);
	for (size_t i = 0; i < n && !wrong; i++) {
		wrong = epoch_seconds(s, &some.cell[i], &seconds[i]);
		least = fmin(least, seconds[i]);
	}
	for (size_t i = 0; i < n && !wrong; i++) {
		const struct cell *c = &some.cell[i];
		if (seconds[i] == least)
			best = c;
		if (is_exact(c) && seconds[i] <= (1 + u->error[1]) * least &&
		    (!exact || seconds[i] < seconds[exact - some.cell]))
			exact = c;
	}
	best = exact ? exact : best;
	if (best && !wrong) {
		bool paced = strategy_has_interval(best->config.strategy);
		fprintf(f, "%swith %s: %s%s%s, %.4g s an epoch", ftell(f) ? "; " : "By time, ",
			what, best->section, paced ? " with " : "", paced ? best->what : "",
			seconds[best - some.cell]);
	}
	free(some.cell);
	return wrong;
}

/* The rate of the links of a platform file, if it has one bandwidth for all [bit/s]; otherwise 0.
 */
static double file_rate(const char *path)
{
	char *text AUTOFREE = path ? text_read(path) : NULL;
	double rate = 0;
	if (!text || strstr(text, "bandwidth="))
		return 0;
	for (const char *at = text; (at = strstr(at, "bw=\"")); at++) {
		char *unit;
		double bytes = strtod(at + strlen("bw=\""), &unit);
		if (at > text && !isspace((unsigned char)at[-1])) /* loopback_bw */
			continue;
		bytes *= strncmp(unit, "GBps", 4) == 0   ? 1e9
			 : strncmp(unit, "MBps", 4) == 0 ? 1e6
							 : 0;
		if (bytes <= 0 || (rate > 0 && rate != 8 * bytes))
			return 0;
		rate = 8 * bytes;
	}
	return rate;
}

/* The rate of the links that --sim.rate would replace [bit/s]; 0: it cannot. */
static char *find_rate(const struct setup *u, double *rate)
{
	const struct cell *first = &u->sweep.cell[0];
	const char *platform = first->config.run.sim_platform;
	struct cluster_shape shape;
	struct simulation sim;
	*rate = first->config.harness.sim_rate;
	if (*rate > 0 || strcmp(platform, "local") == 0 || strcmp(platform, "hosts") == 0)
		return NULL;
	if (cluster_of(&first->config, &shape)) {
		*rate = shape.rate;
		return NULL;
	}
	TRY(simulation_find(&first->config, &first->plan, &sim));
	*rate = file_rate(sim.platform_file);
	simulation_fini(&sim);
	return NULL;
}

/* The fastest cells, and all exact ones, with half and twice the rate and the step time: u->turns.
 */
static char *find_turns(struct setup *u, const struct advise_options *o, const char *copy,
			int *status)
{
	enum { FASTEST = 12 };
	static const char *const what[] = {"half the rate", "twice the rate", "half the step time",
					   "twice the step time"};
	size_t *order AUTOFREE = must(calloc(u->sweep.cells, sizeof *order)), n, some = 0;
	double rate;
	char *wrong = NULL;
	TRY(order_cells(u, copy, order, &n));
	TRY(find_rate(u, &rate));
	for (size_t i = 0; i < n; i++)
		if (i < FASTEST || is_exact(&u->sweep.cell[order[i]]))
			order[some++] = order[i];
	for (int k = 0; k < 4 && some > 1 && !wrong && *status != EXIT_INTERRUPTED; k += 2) {
		struct text t;
		FILE *f = text_open(&t);
		for (int j = k;
		     j < k + 2 && !wrong && (k || rate > 0) && *status != EXIT_INTERRUPTED; j++) {
			double by = j % 2 ? 2 : 0.5;
			wrong = turn(u, o, copy, order, some, what[j], k ? 0 : by * rate,
				     k ? by : 1, f, status);
		}
		char *text AUTOFREE = text_close(&t);
		if (*text && !wrong)
			u->turns[k / 2] = sentence("%s.", text);
	}
	return wrong;
}

/* ---- The ranking ---- */

#define SHARE(x) ROUND("%.1f", "100 * " x)
static const struct column ranking_columns[] = {
	SHOWN("place", "#", NULL),
	PLAIN("strategy"),
	SHOWN("sync_every", "X", NULL),
	HIDDEN("workers"),
	SHOWN("epoch_seconds", "epoch s", ROUND("%.4g", "epoch_seconds")),
	SHOWN("speedup", "speedup", ROUND("%.3g", "speedup")),
	SHOWN("compute_fraction", "compute %", SHARE("compute_fraction")),
	SHOWN("comm_fraction", "comm %", SHARE("comm_fraction")),
	SHOWN("wait_fraction", "wait %", SHARE("wait_fraction")),
	RARE("staleness", "staleness", ROUND("%.3g", "staleness")),
	RARE("test_accuracy", "accuracy %", PERCENT("test_accuracy")),
	HIDDEN("accuracy_n"),
	HIDDEN("accuracy_low"),
	HIDDEN("accuracy_high"),
	HIDDEN("epoch_time"),
	{.name = NULL},
};

/* Simulates the cells, side by side, into the copy. */
static char *advise_simulate(struct setup *u, const char *copy, int64_t jobs, FILE *lines,
			     int *status)
{
	const struct harness_options *h = &u->config.harness;
	const struct sweep_flags flags = {.jobs = jobs           ? jobs
						  : *h->lab_rate ? 1 /* a sweep insists */
								 : usable_cores(),
					  .lines = lines};
	if (access(h->db, F_OK) == 0 && access(copy, F_OK) != 0) {
		struct store *s AUTOCLOSE = NULL;
		TRY(store_open(&s, h->db, STORE_READ)); /* finds all that is wrong with it */
		TRY(database_copy(h->db, copy));
	}
	for (size_t i = 0; i < u->sweep.cells; i++)
		u->sweep.cell[i].config.harness.db = copy;
	return sweep_carry_out(&u->sweep, &flags, status);
}

static char *fill_cells(struct store *s, const struct setup *u)
{
	TRY(sql_script(s, "CREATE TEMP TABLE allowed (id INTEGER PRIMARY KEY); " /* runs */
			  "CREATE TEMP TABLE cell (place INTEGER PRIMARY KEY, strategy TEXT, "
			  "plugin TEXT, epoch_time TEXT, x INTEGER, hash TEXT, exact INTEGER); "
			  "CREATE TEMP TABLE refused (strategy TEXT, because TEXT)"));
	for (size_t i = 0; i < u->sweep.cells; i++) {
		const struct cell *c = &u->sweep.cell[i];
		const struct strategy *of = c->config.strategy;
		TRY(sql_change(s, "INSERT INTO cell VALUES (NULL, ?1, ?2, ?3, ?4, ?5, ?6)",
			       "tttnti", c->section, of->plugin.name, of->epoch_time,
			       strategy_has_interval(of) ? c->config.run.sync_every : -1, c->hash,
			       (int64_t)is_exact(c)));
	}
	for (size_t i = 0; i < u->refused.n; i++)
		TRY(sql_change(s, "INSERT INTO refused VALUES (?1, ?2)", "tt",
			       u->refused.setting[i].name, u->refused.setting[i].value));
	return NULL;
}

/* Prints the rows, if there are any. */
static char *print_part(struct store *s, FILE *f, enum format format, const char *head,
			const char *sql)
{
	char *any AUTOFREE = NULL;
	TRY(sql_first(s, &any, sql, ""));
	if (!any)
		return NULL;
	fprintf(f, "\n%s\n%s", head, format == FORMAT_MARKDOWN ? "\n" : "");
	return query_print(s, f, format, sql, NULL, 0, NULL);
}

static void put_point(FILE *f, const char *text)
{
	char *visible AUTOFREE = text_visible(text);
	fputs("- ", f);
	text_wrap(f, visible, 2);
}

/* Sentences of table advice with these places. */
static char *print_advice(struct store *s, FILE *f, int64_t from, int64_t to)
{
	struct sql q = sql_select(
		s, "SELECT says FROM advice WHERE place BETWEEN ?1 AND ?2 ORDER BY place", "ii",
		from, to);
	while (sql_next(&q))
		put_point(f, sql_text(&q, 0));
	return sql_done(&q);
}

/* The answer, then what it rests on. */
static char *advise_print_text(const struct setup *u, struct store *s, FILE *f, enum format format)
{
	const struct run *r = &u->config.run;
	int64_t rows = 0, all = 0;
	char *head AUTOFREE = sentence(
		"%s, batch %lld, %lld workers on simulated %s: %lld parameters, %lld steps an "
		"epoch",
		r->workload, (long long)r->batch, (long long)r->workers,
		u->sweep.cell[0].config.run.sim_platform, (long long)u->params,
		(long long)u->steps);
	char *visible AUTOFREE = text_visible(head);
	text_wrap(f, visible, 0);
	fputc('\n', f);
	TRY(print_advice(s, f, 0, 9));
	for (size_t i = 0; i < sizeof u->turns / sizeof *u->turns; i++)
		if (u->turns[i])
			put_point(f, u->turns[i]);
	TRY(sql_number(s, &all, "SELECT count(*) FROM ranking", ""));
	fputc('\n', f);
	TRY(columns_print(s, f, format, ranking_columns, "ranking_head", &rows, NULL));
	if (rows < all)
		fprintf(f, "%s(%lld of %lld rows: --format=csv has all)\n",
			format == FORMAT_MARKDOWN ? "\n" : "", (long long)rows, (long long)all);
	TRY(print_part(s, f, format,
		       "What takes time (X: the interval, N: workers, G: workers "
		       "that share a model):",
		       "SELECT plugin AS strategy, epoch_time AS 'an epoch takes' FROM ranking "
		       "WHERE epoch_time IS NOT NULL GROUP BY plugin ORDER BY min(place)"));
	TRY(print_part(s, f, format, "Not simulated:", "SELECT * FROM refused"));
	fputs("\nDetails:\n", f);
	return print_advice(s, f, 10, INT64_MAX);
}

/* Makes the tables of advise.sql. */
static char *make_ranking(struct store *s, const struct setup *u, const struct advise_options *o)
{
	TRY(fill_cells(s, u));
	TRY(database_selected(s, "INSERT INTO allowed SELECT id FROM run_summary", o->where,
			      u->config.harness.label));
	if (u->trained)
		TRY(sql_change(s,
			       "INSERT OR IGNORE INTO allowed SELECT id FROM run_summary WHERE "
			       "label = 'advise' AND test_accuracy IS NOT NULL",
			       ""));
	return sql_change(s, advise_sql, "itrrt", u->config.run.epochs, u->trained, u->error[0],
			  u->error[1], u->error_from);
}

/* Does a recorded run show that a faster strategy than the exact ones is accurate enough? */
static char *is_answered(const struct setup *u, const struct advise_options *o, const char *copy,
			 bool *answered)
{
	struct store *s AUTOCLOSE = NULL;
	int64_t n = 0;
	TRY(store_open(&s, copy, STORE_READ));
	TRY(make_ranking(s, u, o));
	TRY(sql_number(
		s, &n,
		"SELECT count(*) FROM good WHERE NOT exact AND test_accuracy IS NOT NULL AND "
		"place < (SELECT min(place) FROM ranking WHERE exact)",
		""));
	*answered = n > 0;
	return NULL;
}

static char *answer(const struct setup *u, const struct advise_options *o, const char *copy,
		    FILE *f)
{
	struct store *s AUTOCLOSE = NULL;
	enum format format = format_of(o->format);
	TRY(store_open(&s, copy, STORE_READ));
	TRY(make_ranking(s, u, o));
	if (for_people(format))
		return advise_print_text(u, s, f, format);
	TRY(print_part(s, stderr, FORMAT_TEXT, "Not simulated:", "SELECT * FROM refused"));
	return columns_print(s, f, format, ranking_columns, "ranking", NULL, NULL);
}

static char *advise(struct setup *u, const struct advise_options *o, int *status)
{
	char *folder AUTOREMOVED = NULL;
	struct output out;
	TRY(folder_temporary("advise", &folder));
	char *copy AUTOFREE = sentence("%s/copy.db", folder);
	/* a bar takes the place of the lines, of which there are hundreds */
	FILE *nowhere ENDS_WITH(file_close) = must(fopen("/dev/null", "w"));
	FILE *lines = progress_has_bars() ? nowhere : stderr;
	TRY(output_open(&out, "--out=", o->out));
	char *wrong = u->rates ? advise_rates(u, o, copy, out.f, status)
			       : advise_simulate(u, copy, o->jobs, lines, status);
	bool ranks = !wrong && !u->rates && *status != EXIT_INTERRUPTED, answered = false;
	if (ranks)
		wrong = find_error(u, copy);
	if (ranks && !wrong && o->changes && for_people(format_of(o->format)))
		wrong = find_turns(u, o, copy, status);
	if (ranks && !wrong && u->trains && *status != EXIT_INTERRUPTED)
		wrong = is_answered(u, o, copy, &answered);
	if (ranks && !wrong && u->trains && !answered && *status != EXIT_INTERRUPTED)
		wrong = train_cells(u, o, copy, status);
	if (!wrong && *status == EXIT_INTERRUPTED) {
		free(output_close(&out, sentence("%s", INTERRUPTED))); /* an older file remains */
		return NULL;
	}
	return output_close(&out, wrong || u->rates ? wrong : answer(u, o, copy, out.f));
}

/* ---- The command --------------------------------------------------------- */

static char *run_advise(void *options_given, struct arguments *a, int *status)
{
	const struct advise_options *o = options_given;
	struct store *empty AUTOCLOSE = sql_schema();
	struct setup u ENDS_WITH(setup_fini) = {.setting = NULL};
	TRY(database_condition(empty, o->where)); /* before anything is simulated */
	TRY(launcher_refuse("advise"));
	u.rates = o->utilisation > 0;
	const char *with_gradients = arguments_value(a, "sim.train");
	u.trains = o->train > 0 && !(with_gradients && strcmp(with_gradients, "false") == 0);
	TRY(setup_read(&u, a, o));
	if (u.doubt)
		fprintf(stderr, "mvbench advise: %s\n", u.doubt);
	return advise(&u, o, status);
}

const struct command command_advise = {
	.name = "advise",
	.summary = "show which strategy, interval and codec are worthwhile on this setup, and why",
	.usage = "[--option=value ...]",
	.about =
		"Simulates an epoch of every strategy with each interval, and with each codec of "
		"--codecs, and ranks the times. The "
		"first sentences are the answer: which one to choose, which are as fast within the "
		"simulator's error (an exact strategy comes first among these), its accuracy, and "
		"what half and twice the rate and the step time would change. Below are the times, "
		"and what takes them: computing, communicating, waiting. Strategies that cannot be "
		"simulated are listed with the reason.\n\n"
		"Accuracies are those of recorded runs. If they do not answer, the fastest are "
		"trained on the simulated machines, for at most --train. No run is recorded.\n\n"
		"Give the options of mvbench run that describe the training: --workload, --batch, "
		"--workers (default: one for each core), --servers, --straggle, and options of "
		"strategies, such as --downpour.send=8. The simulated machine is this one, or "
		"those of --hostfile, as mvbench calibrate measured them. It can also be a "
		"cluster: --platform=sim --sim.platform=NAME --sim.step-time=TIME. With "
		"--utilisation=0.8 the answer is instead, for each strategy and interval, the "
		"least rate of the cluster's links at which workers compute for 80 % of their "
		"time; without --sim.platform, of --sim.platform=cluster. Recorded runs count "
		"with the same --epochs, --lr and so on; --label and --where select them.\n\n"
		"The time of the command grows with the workers and the steps of an epoch; fewer "
		"--intervals take less. Simulated messages always make progress: overlapping "
		"hides less in a real run. The errors of mvbench validate in this database "
		"count.\n\n"
		"Exit status: 0 there is an answer, 1 and some simulations failed, 2 refused, 130 "
		"interrupted.",
	.options = options,
	.size = sizeof(OWNER),
	.run_options = true,
	.example = "--workload=mlp",
	.run = run_advise,
	.interrupted = STARTS_AGAIN,
};
