/*
 * advise.c - mvbench advise: which strategy and interval are worthwhile on this setup. Each
 * strategy becomes a cell of a sweep for each interval, and an epoch of each cell is simulated
 * without training. advise.sql ranks the cells.
 *
 * The cells are recorded in a copy of the database. The copy has the calibrations that simulations
 * need; the user's file gets no rows.
 */
#include "results/ask/ask.h"
#include "results/db/column.h"
#include "results/run/study.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TEXT_FILE(advise_sql, "results/ask/advise.sql");

struct advise_options {
	const char *intervals, *where, *format, *out;
	int64_t jobs;
	double utilisation, train;
};

#define OWNER struct advise_options
static const struct option options[] = {
	OPTION(intervals, STRING, "intervals", "1,2,4,8,16,32,64",
	       "sync intervals to compare [steps]"),
	OPTION(jobs, INT, "jobs", "0", "simulations at a time; 0: one for each core [simulations]",
	       .min = 0, .max = JOBS_MAX),
	OPTION(utilisation, REAL, "utilisation", "0",
	       "instead of ranking times: the least --sim.rate at which workers compute for this "
	       "share of their time, within 1 %; 0: rank times [fraction]",
	       .min = 0, .max = 0.999),
	OPTION(train, TIME, "train", "0s",
	       "also train, for at most this time, on the simulated machines: allreduce, and the "
	       "others from the fastest on, until one loses at most half a point of accuracy; 0: "
	       "train nothing [time]",
	       .min = 0, .max = 1e6),
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

struct setup {
	struct config config;    /* of the given options; cells have other strategies */
	struct setting *setting; /* of all cells; with room for a cell's own after them */
	size_t n;
	char cores[24];
	struct axis interval;
	struct sweep sweep; /* section: the strategy, with a variant: "periodic schedule=down" */
	struct settings refused; /* name of a cell's section, and why */
	const char *why;         /* the first of these, of a strategy of several workers */
	char *doubt;             /* NULL, or why the calibration may be wrong */
	char *trained, *turns;   /* advice: what was trained; what would change the answer */
	bool rates;              /* searches the rates for a utilisation */
	int64_t params, steps;   /* of several workers with a model each */
};

static void setup_fini(struct setup *u)
{
	settings_free(&u->refused);
	free(u->setting);
	free(u->doubt);
	free(u->trained);
	free(u->turns);
	sweep_free(&u->sweep);
	axis_fini(&u->interval);
	config_fini(&u->config);
}

bool strategy_has_interval(const struct strategy *s)
{
	return !s->epoch_time || strchr(s->epoch_time, 'X');
}

/* A cell simulates one epoch, or all if its strategy has a schedule, because epochs then differ.
 * Servers are for strategies that have tables. */
static char *cell_config(const struct setup *u, const struct strategy *s,
			 const struct setting *variant, const char *x, struct config *c)
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
	TRY(config_init(c, u->setting, n, true));
	for (struct config_option at = {.config = c}; config_next(&at);)
		if (strcmp(at.part, "strategy") == 0 && strcmp(at.option->name, "schedule") == 0 &&
		    strcmp(at.value, at.option->def) != 0)
			c->run.epochs = u->config.run.epochs;
	return NULL;
}

/* Adds this strategy with each interval. variant NULL: only the given options. The start of the
 * workers does not depend on the interval. */
static void candidate_add(struct setup *u, const struct strategy *s, const struct setting *variant)
{
	bool paced = strategy_has_interval(s),
	     flag = variant && strcmp(variant->value, "true") == 0;
	char *name AUTOFREE = !variant ? sentence("%s", s->plugin.name)
				       : sentence("%s %s%s%s", s->plugin.name, variant->name,
						  flag ? "" : "=", flag ? "" : variant->value);
	for (size_t i = 0; i < (paced ? u->interval.n : 1); i++) {
		const char *x = paced ? u->interval.value[i] : "1";
		struct config c;
		struct plan plan;
		char *why = cell_config(u, s, variant, x, &c);
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

/* NULL, or why no strategy of several workers can be simulated. */
static char *candidates_add(struct setup *u)
{
	for (size_t i = 0; strategies[i]; i++) {
		if (u->rates && strategies[i]->local)
			continue;
		candidate_add(u, strategies[i], NULL);
		for (const struct setting *v = strategies[i]->variants; v && v->name; v++)
			candidate_add(u, strategies[i], v);
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
	if (strcmp(r->platform, "mpi") == 0 && strcmp(platform, "local") == 0) {
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

static char *setup_read(struct setup *u, const struct arguments *a, const char *intervals)
{
	TRY(settings_check(a->option, a->options));
	for (size_t i = 0; i < a->options; i++)
		if (strcmp(a->option[i].name, "strategy") == 0 ||
		    strcmp(a->option[i].name, "sync-every") == 0)
			return sentence("--%s: advise compares them all; give --workload, "
					"--batch, --workers, --device, ...",
					a->option[i].name);
	TRY(intervals_read(&u->interval, intervals));
	TRY(settings_read(u, a));
	if (u->config.run.workers < 2)
		return sentence(
			"--workers=%lld: advise compares strategies of several workers; give "
			"--workers=2 or more",
			(long long)u->config.run.workers);
	return candidates_add(u);
}

/* ---- The answer ---------------------------------------------------------- */

static char *simulate(struct setup *u, const char *copy, int64_t jobs, FILE *lines, int *status);

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
	TRY(simulate(u, copy, jobs, lines, status));
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
	TRY(sql_script(s, "CREATE TEMP TABLE found (strategy TEXT, x INTEGER, rate REAL)"));
	for (size_t i = 0; i < u->sweep.cells; i++) {
		const struct cell *c = &u->sweep.cell[i];
		TRY(sql_change(s, "INSERT INTO found VALUES (?1, ?2, ?3)", "tnr", c->section,
			       strategy_has_interval(c->config.strategy) ? c->config.run.sync_every
									 : -1,
			       b[i].high < all_rates.high ? b[i].high : NAN));
	}
	if (for_people(format))
		fprintf(f,
			"The least rate at which %lld workers on simulated %s compute for %g of "
			"their time\n\n",
			(long long)u->config.run.workers, u->config.run.sim_platform,
			o->utilisation);
	return query_print(
		s, f, format,
		for_people(format)
			? "SELECT strategy, x AS X, CASE WHEN rate IS NULL THEN 'never' "
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

/* The reference; its variants are not. */
static bool over(const struct cell *c)
{
	return strcmp(c->section, "allreduce") == 0;
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

/* Trains this cell with another seed each. *accuracy: the mean; NaN: none, or it diverged. */
static char *train_cell(const struct setup *u, const struct cell *of, int64_t first, int64_t seeds,
			const char *copy, double *accuracy, int *status)
{
	struct sweep trial ENDS_WITH(sweep_free) = {.cells = 0};
	FILE *lines ENDS_WITH(file_close) = must(fopen("/dev/null", "w"));
	const struct sweep_flags flags = {.jobs = usable_cores(), .lines = lines};
	char *epochs AUTOFREE = sentence("%lld", (long long)u->config.run.epochs);
	*accuracy = NAN;
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
		char *wrong = plan_make(&c, &plan);
		if (wrong || !sweep_add(&trial, &c, of->section, 0)) {
			config_fini(&c);
			return wrong;
		}
		trial.cell[trial.cells - 1].plan = plan;
		trial.cell[trial.cells - 1].what = sentence("seed %s", seed);
	}
	TRY(sweep_carry_out(&trial, &flags, status));
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

/* Cells that are slower than allreduce need no training. What was trained: in u->trained. */
static char *train_cells(struct setup *u, const struct advise_options *o, const char *copy,
			 int *status)
{
	const double most_lost = 0.005;
	size_t *order AUTOFREE = must(calloc(u->sweep.cells, sizeof *order)), n, all = 0, done = 0;
	double exact, accuracy = NAN;
	const nsec until = clock_now() + (nsec)(1e9 * o->train);
	TRY(order_cells(u, copy, order, &n));
	while (all < n && !over(&u->sweep.cell[order[all]]))
		all++;
	if (all == n)
		return NULL;
	const struct cell *reference = &u->sweep.cell[order[all]], *found = NULL;
	TRY(train_cell(u, reference, 0, 1, copy, &exact, status));
	for (; done < all && !found && clock_now() < until && *status == EXIT_OK; done++) {
		const struct cell *c = &u->sweep.cell[order[done]];
		if (isatty(STDERR_FILENO))
			fprintf(stderr, "mvbench: trains %s %s\n", c->section, c->what);
		TRY(train_cell(u, c, 0, 1, copy, &accuracy, status));
		if (accuracy >= exact - most_lost)
			found = c;
	}
	for (int k = 0; k < 2 && found && clock_now() < until && *status == EXIT_OK; k++)
		TRY(train_cell(u, k ? found : reference, 1, SEEDS_MOST - 1, copy, &accuracy,
			       status));
	u->trained = sentence(
		"Trained here in %.0f s, for %lld epoch%s on the simulated machines: allreduce, "
		"and %zu of the %zu that are faster, from the fastest on%s.",
		o->train - 1e-9 * (double)(until - clock_now()), (long long)u->config.run.epochs,
		plural((int)u->config.run.epochs), done, all,
		found        ? "; the last one is accurate enough"
		: done < all ? "; then the time of --train was over"
			     : "");
	return NULL;
}

/* ---- What would change the answer ---- */

/* Simulates the fastest cells with this setting changed, and says which is the fastest then. */
static char *turn(struct setup *u, const struct advise_options *o, const char *copy,
		  const size_t *order, size_t n, const char *what, double rate, const char *step,
		  FILE *f, int *status)
{
	struct sweep all = u->sweep, some = {.cells = n};
	struct store *s AUTOCLOSE = NULL;
	FILE *lines ENDS_WITH(file_close) = must(fopen("/dev/null", "w"));
	double least = INFINITY, seconds;
	const struct cell *best = NULL;
	some.cell = must(calloc(n, sizeof *some.cell));
	for (size_t i = 0; i < n; i++) {
		some.cell[i] = all.cell[order[i]]; /* borrowed, except for what changes here */
		struct cell *c = &some.cell[i];
		if (rate > 0)
			c->config.harness.sim_rate = rate;
		if (step)
			c->config.run.sim_step_time = step;
		config_hash(&c->config, c->hash);
		c->id = 0;
		c->skip = false;
		c->status[0] = '\0';
	}
	u->sweep = some;
	char *wrong = simulate(u, copy, o->jobs, lines, status);
	u->sweep = all;
	wrong = wrong ? wrong : store_open(&s, copy, STORE_READ);
	for (size_t i = 0; i < n && !wrong; i++) {
		wrong = epoch_seconds(s, &some.cell[i], &seconds);
		if (seconds < least) {
			least = seconds;
			best = &some.cell[i];
		}
	}
	if (best && !wrong)
		fprintf(f, "%s%s: %s%s%s, %.4g s an epoch", ftell(f) ? "; " : "With ", what,
			best->section, strategy_has_interval(best->config.strategy) ? " with " : "",
			strategy_has_interval(best->config.strategy) ? best->what : "", least);
	free(some.cell);
	return wrong;
}

/* Half and twice the rate and the step time, where these are numbers: u->turns. */
static char *find_turns(struct setup *u, const struct advise_options *o, const char *copy,
			int *status)
{
	enum { FASTEST = 12 };
	size_t *order AUTOFREE = must(calloc(u->sweep.cells, sizeof *order)), n;
	const struct config *c = &u->sweep.cell[0].config;
	struct cluster_shape shape;
	double step;
	TRY(order_cells(u, copy, order, &n));
	TRY(time_check("sim.step-time", c->run.sim_step_time, &step));
	double rate = c->harness.sim_rate > 0 ? c->harness.sim_rate
		      : cluster_of(c, &shape) ? shape.rate
					      : 0;
	struct text t;
	FILE *f = text_open(&t);
	char *wrong = NULL;
	for (int k = 0; k < 4 && n > 1 && !wrong && *status == EXIT_OK; k++) {
		double by = k % 2 ? 2 : 0.5;
		char *time AUTOFREE = sentence("%.9gs", by * step),
			   *what AUTOFREE = sentence("%s the %s", k % 2 ? "twice" : "half",
						     k < 2 ? "rate" : "step time");
		if (k < 2 ? rate > 0 : isfinite(step))
			wrong = turn(u, o, copy, order, n < FASTEST ? n : FASTEST, what,
				     k < 2 ? by * rate : 0, k < 2 ? NULL : time, f, status);
	}
	char *text = text_close(&t);
	if (*text && !wrong)
		u->turns = sentence("%s.", text);
	free(text);
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
	HIDDEN("epoch_time"),
	{.name = NULL},
};

/* Simulates the cells, side by side, into the copy. */
static char *simulate(struct setup *u, const char *copy, int64_t jobs, FILE *lines, int *status)
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
			  "plugin TEXT, epoch_time TEXT, x INTEGER, hash TEXT); "
			  "CREATE TEMP TABLE refused (strategy TEXT, because TEXT)"));
	for (size_t i = 0; i < u->sweep.cells; i++) {
		const struct cell *c = &u->sweep.cell[i];
		const struct strategy *of = c->config.strategy;
		TRY(sql_change(s, "INSERT INTO cell VALUES (NULL, ?1, ?2, ?3, ?4, ?5)", "tttnt",
			       c->section, of->plugin.name, of->epoch_time,
			       strategy_has_interval(of) ? c->config.run.sync_every : -1, c->hash));
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

static char *print_text(const struct setup *u, struct store *s, FILE *f, enum format format)
{
	const struct run *r = &u->config.run;
	fprintf(f,
		"%s, batch %lld, %lld workers on simulated %s: %lld parameters, %lld steps an "
		"epoch\n\n",
		r->workload, (long long)r->batch, (long long)r->workers,
		u->sweep.cell[0].config.run.sim_platform, (long long)u->params,
		(long long)u->steps);
	TRY(columns_print(s, f, format, ranking_columns, "ranking", NULL, NULL));
	TRY(print_part(s, f, format,
		       "What takes time (X: the interval, N: workers, G: workers "
		       "that share a model):",
		       "SELECT plugin AS strategy, epoch_time AS 'an epoch takes' FROM ranking "
		       "WHERE epoch_time IS NOT NULL GROUP BY plugin ORDER BY min(place)"));
	TRY(print_part(s, f, format, "Not simulated:", "SELECT * FROM refused"));
	struct sql q = sql_select(s, "SELECT says FROM advice ORDER BY place", "");
	fputs("\nAdvice:\n", f);
	while (sql_next(&q)) {
		char *says AUTOFREE = text_visible(sql_text(&q, 0));
		fputs("- ", f);
		text_wrap(f, says, 2);
	}
	if (u->turns) {
		fputs("- ", f);
		text_wrap(f, u->turns, 2);
	}
	return sql_done(&q);
}

static char *answer(const struct setup *u, const struct advise_options *o, const char *copy,
		    FILE *f)
{
	struct store *s AUTOCLOSE = NULL;
	enum format format = format_of(o->format);
	TRY(store_open(&s, copy, STORE_READ));
	TRY(fill_cells(s, u));
	TRY(database_selected(s, "INSERT INTO allowed SELECT id FROM run_summary", o->where,
			      u->config.harness.label));
	if (u->trained)
		TRY(sql_change(s,
			       "INSERT OR IGNORE INTO allowed SELECT id FROM run_summary WHERE "
			       "label = 'advise' AND test_accuracy IS NOT NULL",
			       ""));
	TRY(sql_change(s, advise_sql, "it", u->config.run.epochs, u->trained));
	if (for_people(format))
		return print_text(u, s, f, format);
	TRY(print_part(s, stderr, FORMAT_TEXT, "Not simulated:", "SELECT * FROM refused"));
	return columns_print(s, f, format, ranking_columns, "ranking", NULL, NULL);
}

static char *advise(struct setup *u, const struct advise_options *o, int *status)
{
	char *folder AUTOREMOVED = NULL;
	struct output out;
	TRY(folder_temporary("advise", &folder));
	char *copy AUTOFREE = sentence("%s/copy.db", folder);
	TRY(output_open(&out, "--out=", o->out));
	char *wrong = u->rates ? advise_rates(u, o, copy, out.f, status)
			       : simulate(u, copy, o->jobs, stderr, status);
	bool ranks = !wrong && !u->rates && *status != EXIT_INTERRUPTED;
	if (ranks && for_people(format_of(o->format)))
		wrong = find_turns(u, o, copy, status);
	if (ranks && !wrong && o->train > 0 && *status != EXIT_INTERRUPTED)
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
	TRY(setup_read(&u, a, o->intervals));
	if (u.doubt)
		fprintf(stderr, "mvbench advise: %s\n", u.doubt);
	return advise(&u, o, status);
}

const struct command command_advise = {
	.name = "advise",
	.summary = "show which strategy and interval are worthwhile on this setup, and why",
	.usage = "[--option=value ...]",
	.about =
		"Simulates an epoch of every strategy with each interval, and ranks the times. "
		"Shows what takes this time: computing, communicating, waiting. Shows how much "
		"accuracy a long interval cost in runs of this database. Strategies that cannot be "
		"simulated are listed with the reason. The simulations train nothing, unless "
		"--train gives them time, and are not recorded. With a given --sim.rate or "
		"--sim.step-time it also says what half and twice of it would change.\n\n"
		"Give the options of mvbench run that describe the training: --workload, --batch, "
		"--workers (default: one for each core), --servers, --straggle, and options of "
		"strategies, such as --downpour.send=8. The simulated machine is this one, or "
		"those of --hostfile, as mvbench calibrate measured them. It can also be a "
		"cluster: --platform=sim --sim.platform=NAME --sim.step-time=TIME. With "
		"--utilisation=0.8 the answer is instead, for each strategy and interval, the "
		"least rate of the cluster's links at which workers compute for 80 % of their "
		"time. "
		"Accuracies are "
		"those of runs with the same --epochs, --lr and so on; --label and --where select "
		"runs.\n\n"
		"The time of the command grows with the workers and the steps of an epoch; fewer "
		"--intervals take less. Simulated messages always make progress: overlapping "
		"hides less in a real run. mvbench validate measures the errors of simulations.\n\n"
		"Exit status: 0 there is an answer, 1 and some simulations failed, 2 refused, 130 "
		"interrupted.",
	.options = options,
	.size = sizeof(OWNER),
	.run_options = true,
	.example = "--workload=mlp",
	.run = run_advise,
};
