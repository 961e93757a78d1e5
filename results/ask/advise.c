/*
 * advise.c - mvbench advise: which strategy, interval and codec are worthwhile on this setup. Each
 * strategy becomes a cell of a sweep for each interval and codec, and an epoch of each cell is
 * simulated without training. advise.sql ranks the cells, and says whose accuracy can change the
 * choice. Those without recorded runs are trained for a limited time.
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
	bool changes, all;
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
	       "train, for at most this time, on the simulated machines, what recorded runs do not "
	       "answer: allreduce, exact strategies that are as fast, and surely faster ones from "
	       "the fastest on, until one loses at most half a point of accuracy; 0: train nothing "
	       "[time]",
	       .min = 0, .max = 1e6),
	OPTION(changes, BOOL, "changes", "true",
	       "simulate the fastest four times more, with half and twice the rate and the step "
	       "time, to print what would change the answer; false: leave that out"),
	OPTION(all, BOOL, "all", "false",
	       "print all rows; false: the first, and those to compare with"),
	SELECT_WHERE(where, "for accuracies: "),
	OPTION(format, CHOICE, "format", "text",
	       "output format; csv and json have the ranking only, not rounded [name]",
	       .choices = "text|markdown|csv|json"),
	OPTION(out, STRING, "out", "",
	       "write the answer to this file instead of the terminal [file]"),
	{.name = NULL},
};

/* ---- The cells ----------------------------------------------------------- */

enum { OWN_MOST = 8 };            /* settings of a cell of its own */
enum { FASTEST = 12, TURNS = 4 }; /* of the cells to simulate again; how often */

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
	int64_t params;           /* of several workers with a model each */
	double cell_s;            /* how long a simulation took; 0: none has ended */
	size_t later_cells;       /* simulations after those that run, */
	double later_s;           /* and other work after them, at most [s] */
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
		if (!s->local && !s->model_workers)
			u->params = plan.params;
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
	return u->why && u->params == 0 ? sentence("%s", u->why) : NULL;
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
static char *make_ranking(struct store *s, const struct setup *u, const struct advise_options *o);

static void file_close(FILE **f)
{
	fclose(*f);
}

static void put_point(FILE *f, const char *text)
{
	char *visible AUTOFREE = text_visible(text);
	fputs("- ", f);
	text_wrap(f, visible, 2);
}

/* A point for each row. */
static char *put_points(struct store *s, FILE *f, const char *sql)
{
	struct sql q = sql_select(s, sql, "");
	while (sql_next(&q))
		put_point(f, sql_text(&q, 0));
	return sql_done(&q);
}

/* Rows were left out of a table. */
static void put_rest(FILE *f, enum format format, int64_t rows, int64_t all)
{
	if (rows < all)
		fprintf(f, "%s(%lld of %lld rows: --all prints all)\n",
			format == FORMAT_MARKDOWN ? "\n" : "", (long long)rows, (long long)all);
}

/* What was asked, with the given options of the cluster. */
static void put_question(const struct setup *u, const struct arguments *a, FILE *f)
{
	const struct run *r = &u->config.run;
	struct text t;
	FILE *head = text_open(&t);
	fprintf(head, "%s, batch %lld, %lld workers on simulated %s", r->workload,
		(long long)r->batch, (long long)r->workers,
		u->sweep.cell[0].config.run.sim_platform);
	for (size_t i = 0; i < a->options; i++)
		if (strncmp(a->option[i].name, "sim.", 4) == 0 && a->option[i].value &&
		    strcmp(a->option[i].name, "sim.platform") != 0 &&
		    arguments_value(a, a->option[i].name) == a->option[i].value) /* the last */
			fprintf(head, ", %s %s", a->option[i].name + 4, a->option[i].value);
	fprintf(head, ": %lld parameters", (long long)u->params);
	char *text AUTOFREE = text_close(&t), *visible AUTOFREE = text_visible(text);
	text_wrap(f, visible, 0);
	fputc('\n', f);
}

/* Prints that a part of the work begins; left_s: until the end of all; 0: not known. */
static void put_phase(const char *what, double left_s)
{
	fprintf(stderr, "mvbench: %s", what);
	if (left_s > 0) {
		fputs("; about ", stderr);
		duration_put(stderr, left_s);
		fputs(" left", stderr);
	}
	fputc('\n', stderr);
}

/* How many models' gradients an exact strategy averages; 0: it is an approximation. Those with the
 * same number end in the same model, apart from rounding. */
static int64_t models_of(const struct cell *c)
{
	const struct strategy *s = c->config.strategy;
	bool exact = s->local || s->model_workers || strcmp(s->plugin.name, "allreduce") == 0;
	return exact && strcmp(c->config.run.codec, "none") == 0
		       ? c->config.run.workers / config_model_workers(&c->config)
		       : 0;
}

/* "allreduce", "gossip with X=64". Heap. */
static char *cell_name(const struct cell *c)
{
	bool paced = strategy_has_interval(c->config.strategy);
	return sentence("%s%s%s", c->section, paced ? " with " : "", paced ? c->what : "");
}

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

/* Makes view said: the rates, in words too. */
static char *found_rates(struct store *s, const struct setup *u, const struct bracket *b)
{
	TRY(sql_script(s, "CREATE TEMP TABLE found (strategy TEXT, x INTEGER, rate REAL, always "
			  "INTEGER, exact INTEGER)"));
	for (size_t i = 0; i < u->sweep.cells; i++) {
		const struct cell *c = &u->sweep.cell[i];
		bool paced = strategy_has_interval(c->config.strategy);
		TRY(sql_change(s, "INSERT INTO found VALUES (?1, ?2, ?3, ?4, ?5)", "tnrii",
			       c->section, paced ? c->config.run.sync_every : -1,
			       b[i].high < all_rates.high ? b[i].high : NAN,
			       (int64_t)(b[i].low <= all_rates.low), (int64_t)(models_of(c) > 0)));
	}
	return sql_script(
		s,
		"CREATE TEMP VIEW said AS SELECT *, strategy || ifnull(' with X=' || x, '') AS "
		"name, CASE WHEN rate IS NULL THEN 'never' WHEN always THEN format('at most %.3g "
		"mbit', rate / 1e6) WHEN rate >= 1e9 THEN format('%.3g gbit', rate / 1e9) ELSE "
		"format('%.3g mbit', rate / 1e6) END AS text, row_number() OVER (ORDER BY rate IS "
		"NULL, rate, rowid) AS i FROM found");
}

static const char rates_advice[] =
	"SELECT 'allreduce: ' || text || '.' FROM said WHERE strategy = 'allreduce' UNION ALL "
	"SELECT 'The least of the exact strategies: ' || name || ', ' || text || '.' FROM (SELECT "
	"* FROM said WHERE exact ORDER BY i LIMIT 1) UNION ALL SELECT 'The least of all: ' || name "
	"|| ', ' || text || '. An approximation costs accuracy: mvbench advise with --sim.rate "
	"shows how much.' FROM said WHERE i = 1 AND NOT exact";

/* The answer, then the rates of each strategy for its shortest and its longest interval, or all. */
static char *print_rates(const struct setup *u, const struct bracket *b, const struct arguments *a,
			 const struct advise_options *o, FILE *f)
{
	struct store *s AUTOCLOSE = sql_schema();
	enum format format = format_of(o->format);
	int64_t rows = 0;
	TRY(found_rates(s, u, b));
	if (!for_people(format))
		return query_print(s, f, format,
				   "SELECT strategy, x AS sync_every, rate AS sim_rate FROM said "
				   "ORDER BY i",
				   NULL, 0, NULL);
	put_question(u, a, f);
	char *asked AUTOFREE = sentence("The least rate of links at which the workers compute for "
					"%g %% of their time:",
					100 * o->utilisation);
	text_wrap(f, asked, 0);
	fputc('\n', f);
	TRY(put_points(s, f, rates_advice));
	fputc('\n', f);
	char *sql AUTOFREE = sentence(
		"SELECT strategy, x AS X, text AS rate FROM (SELECT *, min(x) OVER w AS least, "
		"max(x) OVER w AS most FROM said WINDOW w AS (PARTITION BY strategy)) WHERE %s "
		"ORDER BY i",
		o->all ? "1" : "x IS NULL OR x IN (least, most)");
	TRY(query_print(s, f, format, sql, NULL, 0, &rows));
	put_rest(f, format, rows, (int64_t)u->sweep.cells);
	return NULL;
}

/* Rates are known within 1 % after these halvings of a factor of 10^8. */
static char *advise_rates(struct setup *u, const struct arguments *a,
			  const struct advise_options *o, const char *copy, FILE *f, int *status)
{
	enum { HALVINGS = 11 };
	struct bracket *b AUTOFREE = must(calloc(u->sweep.cells, sizeof *b));
	FILE *lines ENDS_WITH(file_close) = must(fopen("/dev/null", "w"));
	char *wrong = NULL;
	for (size_t i = 0; i < u->sweep.cells; i++)
		b[i] = all_rates;
	for (int k = 0; k < HALVINGS && !wrong && *status != EXIT_INTERRUPTED; k++) {
		char *what AUTOFREE = sentence("rates, %d of %d: %zu simulations", k + 1, HALVINGS,
					       u->sweep.cells);
		u->later_cells = (size_t)(HALVINGS - k - 1) * u->sweep.cells;
		put_phase(what, u->cell_s * (double)(u->later_cells + u->sweep.cells));
		wrong = halve(u, b, o->utilisation, copy, o->jobs, lines, status);
	}
	return wrong || *status == EXIT_INTERRUPTED ? wrong : print_rates(u, b, a, o, f);
}

/* ---- Accuracy: trains cells on the simulated machines ---- */

enum { SEEDS_MOST = 3 };

/* Work whose results are read later: only an interruption of it is the command's. */
static void keep_interruption(int *status, int of_part)
{
	if (of_part == EXIT_INTERRUPTED)
		*status = of_part;
}

/* A limited time to train in. */
struct budget {
	nsec until;
	bool over;   /* what was under way then was given up */
	char *fault; /* NULL, or why the cells cannot be trained */
	int *seeds;  /* trained so far, of each cell */
	size_t cells, runs;
};

/* Adds a trial of the cell for each seed from first on (0: the given one), below seeds. */
static char *add_trials(const struct setup *u, const struct cell *of, int first, int seeds,
			const char *copy, struct budget *b, struct sweep *trial)
{
	char *epochs AUTOFREE = sentence("%lld", (long long)u->config.run.epochs);
	for (int k = first; k < seeds; k++) {
		struct settings all ENDS_WITH(settings_free) = {.n = 0};
		struct config c;
		struct plan plan;
		char *seed AUTOFREE = sentence("%lld", (long long)(u->config.run.seed + k));
		const struct setting own[] = {
			{"sim.train", "true"}, {"epochs", epochs}, {"seed", seed}, {"db", copy}};
		settings_add_config(&all, &of->config);
		settings_give(&all, own, sizeof own / sizeof *own);
		TRY(config_init(&c, all.setting, all.n, true));
		b->fault = b->fault ? b->fault : plan_make(&c, &plan);
		if (b->fault || !sweep_add(trial, &c, of->section, 0)) {
			config_fini(&c);
			return NULL;
		}
		trial->cell[trial->cells - 1].plan = plan;
		trial->cell[trial->cells - 1].what = sentence("seed %s", seed);
	}
	return NULL;
}

/* Trains this cell with one seed; the next time with the others. */
static char *train_cell(const struct setup *u, size_t at, const char *copy, struct budget *b,
			int *status)
{
	struct sweep trial ENDS_WITH(sweep_free) = {.cells = 0};
	FILE *lines ENDS_WITH(file_close) = must(fopen("/dev/null", "w"));
	const struct sweep_flags flags = {
		.jobs = usable_cores(), .lines = lines, .until = b->until, .late = &b->over};
	int of_part = EXIT_OK, had = b->seeds[at], seeds = had ? SEEDS_MOST : 1;
	char *name AUTOFREE = cell_name(&u->sweep.cell[at]),
		   *what AUTOFREE = sentence("trains %s%s", name, had ? " with other seeds" : "");
	double left_s = 1e-9 * (double)(b->until - clock_now());
	put_phase(what, fmax(0, left_s) + u->later_s);
	TRY(add_trials(u, &u->sweep.cell[at], had, seeds, copy, b, &trial));
	if (b->fault)
		return NULL;
	TRY(sweep_carry_out(&trial, &flags, &of_part));
	b->seeds[at] = seeds;
	b->cells += !had && !b->over;
	b->runs += b->over ? 0 : trial.cells;
	if (!b->over)
		keep_interruption(status, of_part);
	return NULL;
}

/* The first cell that ends in the same model. */
static size_t first_alike(const struct setup *u, size_t at)
{
	int64_t models = models_of(&u->sweep.cell[at]);
	for (size_t i = 0; models && i < at; i++)
		if (models_of(&u->sweep.cell[i]) == models)
			return i;
	return at;
}

/* *next: the cell to train now; the number of cells: none can change the choice. *judged: is the
 * accuracy of allreduce known? */
static char *find_training(const struct setup *u, const struct advise_options *o, const char *copy,
			   const struct budget *b, size_t *next, int64_t *judged)
{
	struct store *s AUTOCLOSE = NULL;
	*next = u->sweep.cells;
	TRY(store_open(&s, copy, STORE_READ));
	TRY(make_ranking(s, u, o));
	TRY(sql_number(s, judged, "SELECT count(*) FROM ranking WHERE enough", ""));
	struct sql q = sql_select(s, "SELECT cell, runs FROM worth ORDER BY turn, place", "");
	while (*next == u->sweep.cells && sql_next(&q)) {
		size_t at = first_alike(u, (size_t)sql_int(&q, 0) - 1);
		int known = sql_int(&q, 1) > 0;
		/* recorded accuracies stay as they are; what gave none is not trained again */
		if (b->seeds[at] == known)
			*next = at;
	}
	return sql_done(&q);
}

/* What was trained, and how far it came. Heap; NULL: there was nothing to train. */
static char *say_trained(const struct setup *u, const struct advise_options *o,
			 const struct budget *b, bool judged)
{
	const long long epochs = (long long)u->config.run.epochs;
	if (b->fault)
		return sentence("Nothing was trained: %s.", b->fault);
	if (!judged && b->runs == 0 && !b->over)
		return NULL; /* allreduce could not be simulated */
	if (!judged)
		return sentence("Accuracy: unknown, because %lld epoch%s of allreduce %s within "
				"--train=%gs.",
				epochs, plural(epochs), b->over ? "do not end" : "gave none",
				o->train);
	if (b->runs == 0 && !b->over)
		return sentence("Nothing was trained: recorded runs have all accuracies that can "
				"change the choice.");
	return sentence("Trained here in %.0f s, for %lld epoch%s on the simulated machines: %zu "
			"of the strategies and intervals, in %zu run%s%s.",
			o->train - 1e-9 * (double)(b->until - clock_now()), epochs, plural(epochs),
			b->cells, b->runs, plural((int64_t)b->runs),
			b->over ? "; then the time of --train was over" : "");
}

/* Trains until no accuracy can change the choice, or the time is over. What was trained: in
 * u->trained. */
static char *train_cells(struct setup *u, const struct advise_options *o, const char *copy,
			 int *status)
{
	int *seeds AUTOFREE = must(calloc(u->sweep.cells, sizeof *seeds));
	struct budget b = {.until = clock_now() + (nsec)(1e9 * o->train), .seeds = seeds};
	size_t next;
	int64_t judged = 0;
	char *wrong = find_training(u, o, copy, &b, &next, &judged);
	while (!wrong && next < u->sweep.cells && !b.over && !b.fault &&
	       *status != EXIT_INTERRUPTED) {
		wrong = train_cell(u, next, copy, &b, status);
		if (!wrong)
			wrong = find_training(u, o, copy, &b, &next, &judged);
	}
	u->trained = say_trained(u, o, &b, judged > 0);
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

/* order[n]: the cells that are simulated again; *choice, heap: the name of the answer, or NULL;
 * *known: some accuracies are known. */
static char *find_turned(const struct setup *u, const struct advise_options *o, const char *copy,
			 size_t *order, size_t *n, char **choice, int64_t *known)
{
	struct store *s AUTOCLOSE = NULL;
	*n = 0;
	TRY(store_open(&s, copy, STORE_READ));
	TRY(make_ranking(s, u, o));
	TRY(sql_first(s, choice, "SELECT name FROM tied WHERE i = 1", ""));
	TRY(sql_number(s, known, "SELECT known FROM tied WHERE i = 1", ""));
	struct sql q = sql_select(s,
				  "SELECT cell FROM ranking WHERE place <= ?1 OR exact OR enough "
				  "OR strategy = 'allreduce' ORDER BY place",
				  "i", (int64_t)FASTEST);
	while (sql_next(&q))
		order[(*n)++] = (size_t)sql_int(&q, 0) - 1;
	return sql_done(&q);
}

/* Compares the answer for u's cells with this one. *says: heap. */
static char *compare_choice(const struct setup *u, const struct advise_options *o, const char *copy,
			    const char *choice, char **says)
{
	struct store *s AUTOCLOSE = NULL;
	TRY(store_open(&s, copy, STORE_READ));
	TRY(make_ranking(s, u, o));
	return sql_first(
		s, says,
		"SELECT iif(EXISTS (SELECT 1 FROM tied AS t WHERE t.name = ?1 AND t.exact = "
		"f.exact), 'the answer stays', printf('the answer becomes %s, %.4g s an epoch', "
		"name, epoch_seconds)) FROM tied AS f WHERE i = 1",
		"t", choice);
}

/* Simulates these cells with one setting changed. */
static char *turn(struct setup *u, const struct advise_options *o, const char *copy,
		  const size_t *order, size_t n, double rate, double factor, const char *choice,
		  char **says, int *status)
{
	struct sweep all = u->sweep, some = {.cells = n};
	FILE *lines ENDS_WITH(file_close) = must(fopen("/dev/null", "w"));
	int of_part = EXIT_OK;
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
	keep_interruption(status, of_part);
	if (!wrong && *status != EXIT_INTERRUPTED)
		wrong = compare_choice(u, o, copy, choice, says);
	u->sweep = all;
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

/* With half and twice the rate and the step time: u->turns. */
static char *find_turns(struct setup *u, const struct advise_options *o, const char *copy,
			int *status)
{
	static const char *const what[TURNS] = {"half the rate", "twice the rate",
						"half the step time", "twice the step time"};
	size_t *order AUTOFREE = must(calloc(u->sweep.cells, sizeof *order)), n;
	int64_t known = 0;
	char *choice AUTOFREE = NULL, *wrong = NULL;
	double rate;
	TRY(find_turned(u, o, copy, order, &n, &choice, &known));
	TRY(find_rate(u, &rate));
	for (int k = 0; k < TURNS && choice && !wrong && *status != EXIT_INTERRUPTED; k += 2) {
		struct text t;
		FILE *f = text_open(&t);
		for (int j = k;
		     j < k + 2 && !wrong && (k || rate > 0) && *status != EXIT_INTERRUPTED; j++) {
			double by = j % 2 ? 2 : 0.5;
			char *says AUTOFREE = NULL,
				   *phase AUTOFREE =
					   sentence("simulates %zu cells with %s", n, what[j]);
			u->later_cells = (size_t)(TURNS - 1 - j) * n;
			put_phase(phase, u->cell_s * (double)(u->later_cells + n));
			wrong = turn(u, o, copy, order, n, k ? 0 : by * rate, k ? by : 1, choice,
				     &says, status);
			if (says)
				fprintf(f, "%s %s %s",
					ftell(f) ? "; with"
					: known  ? "Among those accurate enough, with"
						 : "With",
					what[j], says);
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
	COLUMN("place", .head = "#", .key = true),
	KEY("strategy"),
	COLUMN("sync_every", .head = "X", .key = true),
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
					  .lines = lines,
					  .later_cells = u->later_cells,
					  .later_s = u->later_s};
	const nsec began = clock_now();
	if (access(h->db, F_OK) == 0 && access(copy, F_OK) != 0) {
		struct store *s AUTOCLOSE = NULL;
		TRY(store_open(&s, h->db, STORE_READ)); /* finds all that is wrong with it */
		TRY(database_copy(h->db, copy));
	}
	for (size_t i = 0; i < u->sweep.cells; i++)
		u->sweep.cell[i].config.harness.db = copy;
	TRY(sweep_carry_out(&u->sweep, &flags, status));
	u->cell_s = 1e-9 * (double)(clock_now() - began) / (double)u->sweep.cells;
	return NULL;
}

static char *fill_cells(struct store *s, const struct setup *u)
{
	TRY(sql_script(s, "CREATE TEMP TABLE allowed (id INTEGER PRIMARY KEY); " /* runs */
			  "CREATE TEMP TABLE cell (place INTEGER PRIMARY KEY, strategy TEXT, "
			  "plugin TEXT, epoch_time TEXT, x INTEGER, hash TEXT, models INTEGER, "
			  "step_rows INTEGER); "
			  "CREATE TEMP TABLE refused (strategy TEXT, because TEXT)"));
	for (size_t i = 0; i < u->sweep.cells; i++) {
		const struct cell *c = &u->sweep.cell[i];
		const struct strategy *of = c->config.strategy;
		int64_t models = models_of(c);
		TRY(sql_change(s, "INSERT INTO cell VALUES (NULL, ?1, ?2, ?3, ?4, ?5, ?6, ?7)",
			       "tttntni", c->section, of->plugin.name, of->epoch_time,
			       strategy_has_interval(of) ? c->config.run.sync_every : -1, c->hash,
			       models ? models : -1, config_step_rows(&c->config)));
	}
	for (size_t i = 0; i < u->refused.n; i++)
		TRY(sql_change(s, "INSERT INTO refused VALUES (?1, ?2)", "tt",
			       u->refused.setting[i].name, u->refused.setting[i].value));
	return NULL;
}

/* Prints a point for each row, if there are any. */
static char *print_part(struct store *s, FILE *f, const char *head, const char *sql)
{
	char *any AUTOFREE = NULL;
	TRY(sql_first(s, &any, sql, ""));
	if (!any)
		return NULL;
	fprintf(f, "\n%s\n", head);
	return put_points(s, f, sql);
}

#define REFUSED_PART "Not simulated:", "SELECT strategy || ': ' || because FROM refused"

/* The answer, then what it rests on. */
static char *advise_print_text(const struct setup *u, const struct arguments *a,
			       const struct advise_options *o, struct store *s, FILE *f)
{
	enum format format = format_of(o->format);
	int64_t rows = 0, all = 0;
	put_question(u, a, f);
	TRY(put_points(s, f, "SELECT says FROM advice WHERE place < 10 ORDER BY place"));
	for (size_t i = 0; i < sizeof u->turns / sizeof *u->turns; i++)
		if (u->turns[i])
			put_point(f, u->turns[i]);
	char *doubt AUTOFREE = u->doubt ? sentence("In doubt: %s", u->doubt) : NULL;
	if (doubt)
		put_point(f, doubt);
	TRY(sql_number(s, &all, "SELECT count(*) FROM ranking", ""));
	fputc('\n', f);
	TRY(columns_print(s, f, format, ranking_columns, o->all ? "ranking" : "ranking_head", &rows,
			  NULL));
	put_rest(f, format, rows, all);
	TRY(print_part(s, f,
		       "What an epoch takes (X: interval, N: workers, G: workers that "
		       "share a model):",
		       "SELECT plugin || ': ' || epoch_time FROM ranking WHERE epoch_time IS NOT "
		       "NULL GROUP BY plugin ORDER BY min(place)"));
	TRY(print_part(s, f, REFUSED_PART));
	return print_part(s, f,
			  "Details:", "SELECT says FROM advice WHERE place >= 10 ORDER BY place");
}

/* Makes the tables of advise.sql. */
static char *make_ranking(struct store *s, const struct setup *u, const struct advise_options *o)
{
	TRY(fill_cells(s, u));
	TRY(database_selected(s, "INSERT INTO allowed SELECT id FROM run_summary", o->where,
			      u->config.harness.label));
	if (u->trains)
		TRY(sql_change(s,
			       "INSERT OR IGNORE INTO allowed SELECT id FROM run_summary WHERE "
			       "label = 'advise' AND test_accuracy IS NOT NULL",
			       ""));
	return sql_change(s, advise_sql, "itrrt", u->config.run.epochs, u->trained, u->error[0],
			  u->error[1], u->error_from);
}

static char *answer(const struct setup *u, const struct arguments *a,
		    const struct advise_options *o, const char *copy, FILE *f)
{
	struct store *s AUTOCLOSE = NULL;
	enum format format = format_of(o->format);
	TRY(store_open(&s, copy, STORE_READ));
	TRY(make_ranking(s, u, o));
	if (for_people(format))
		return advise_print_text(u, a, o, s, f);
	TRY(print_part(s, stderr, REFUSED_PART));
	return columns_print(s, f, format, ranking_columns, "ranking", NULL, NULL);
}

/* Simulates and trains all that the answer needs. */
static char *find_answer(struct setup *u, const struct advise_options *o, const char *copy,
			 FILE *lines, int *status)
{
	bool turns = o->changes && for_people(format_of(o->format));
	size_t turned = FASTEST;
	for (size_t i = 0; i < u->sweep.cells; i++)
		turned += models_of(&u->sweep.cell[i]) > 0;
	u->later_cells = turns ? TURNS * turned : 0;
	u->later_s = u->trains ? o->train : 0;
	char *what AUTOFREE = sentence("simulates %zu cells", u->sweep.cells);
	put_phase(what, 0);
	TRY(advise_simulate(u, copy, o->jobs, lines, status));
	if (*status == EXIT_INTERRUPTED)
		return NULL;
	TRY(find_error(u, copy));
	u->later_s = u->cell_s * (double)u->later_cells;
	if (u->trains)
		TRY(train_cells(u, o, copy, status));
	u->later_s = 0;
	if (turns && *status != EXIT_INTERRUPTED)
		TRY(find_turns(u, o, copy, status));
	return NULL;
}

static char *advise(struct setup *u, const struct arguments *a, const struct advise_options *o,
		    int *status)
{
	char *folder AUTOREMOVED = NULL;
	struct output out;
	TRY(folder_temporary("advise", &folder));
	char *copy AUTOFREE = sentence("%s/copy.db", folder);
	/* a bar takes the place of the lines, of which there are hundreds */
	FILE *nowhere ENDS_WITH(file_close) = must(fopen("/dev/null", "w"));
	FILE *lines = progress_has_bars() ? nowhere : stderr;
	TRY(output_open(&out, "--out=", o->out));
	char *wrong = u->rates ? advise_rates(u, a, o, copy, out.f, status)
			       : find_answer(u, o, copy, lines, status);
	if (!wrong && *status == EXIT_INTERRUPTED) {
		free(output_close(&out, sentence("%s", INTERRUPTED))); /* an older file remains */
		return NULL;
	}
	return output_close(&out, wrong || u->rates ? wrong : answer(u, a, o, copy, out.f));
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
	if (u.doubt && (u.rates || !for_people(format_of(o->format)))) /* the answer has none */
		fprintf(stderr, "mvbench advise: %s\n", u.doubt);
	return advise(&u, a, o, status);
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
		"whether half and twice the rate and the step time change it. Below are the times, "
		"and what takes them: computing, communicating, waiting. Strategies that cannot be "
		"simulated are listed with the reason.\n\n"
		"Accuracies are those of recorded runs. What these do not answer is trained on the "
		"simulated machines, for at most --train. No run is recorded.\n\n"
		"Give the options of mvbench run that describe the job: --workload, --batch, "
		"--workers (default: one for each core), --epochs, --lr, --servers, --straggle, "
		"and options of strategies, such as --downpour.send=8. --db has recorded runs and "
		"calibrations; --label and --where select runs.\n\n"
		"The simulated machine is this one, or those of --hostfile, as mvbench calibrate "
		"measured them. It can also be a cluster: --platform=sim --sim.platform=NAME "
		"--sim.step-time=TIME. The name cluster takes --sim.rate, --sim.latency, "
		"--sim.nodes, --sim.gpus and --sim.inner-rate. mvbench run --help=all has all "
		"options, and sim/README.md explains clusters.\n\n"
		"With --utilisation=0.8 the answer is instead, for each strategy and interval, the "
		"least rate of the cluster's links at which workers compute for 80 % of their "
		"time; without --sim.platform, of --sim.platform=cluster.\n\n"
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
