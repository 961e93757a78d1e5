/*
 * validate.c - mvbench validate: the same cells real and simulated, and how far the two are apart.
 *
 * The cells are those of a job file. Each is simulated once, for simulations repeat themselves, and
 * run for real in rounds: every round takes all cells, every other round backwards, so that the
 * moods of a machine hit all cells alike. The errors are arithmetic of the view `validation`
 * (schema.sql); here they are put together and held to the thresholds.
 *
 * The q-th percentile of n errors is the smallest that ceil(q n / 100) of them do not exceed.
 */
#include "sim/sim.h"
#include "results/run/run.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define LABEL     "validate" /* of the runs that are made here, unless another is given */
#define OWN_CELLS "workloads/sweeps/validate.ini"

struct validate_flags {
	const char *only, *format, *out;
	int64_t rounds;
	double median, p90; /* [%] */
	bool calibrate;
};

#define OWNER struct validate_flags
static const struct option validate_flags[] = {
	OPTION(only, CHOICE, "only", "all",
	       "a part of it: the real runs; the simulations, compared with the real runs that "
	       "there are; or the report on the runs that there are",
	       .choices = "all|real|sim|report"),
	OPTION(rounds, INT, "rounds", "5", "real runs of a cell, of which the median counts [runs]",
	       .min = 1, .max = 1000),
	OPTION(calibrate, BOOL, "calibrate", "true",
	       "with real runs, on the platform local: measure this machine anew between the "
	       "rounds, as its speed may drift; false: take the calibration that there is "
	       "[true/false]"),
	OPTION(median, REAL, "threshold-median", "5",
	       "that the median error of epoch times may reach [%]", .min = 0, .max = 1e6),
	OPTION(p90, REAL, "threshold-p90", "10", "that its 90th percentile may reach [%]", .min = 0,
	       .max = 1e6),
	OPTION(format, CHOICE, "format", "text",
	       "of the report; csv is the cells only; csv and json are not rounded [name]",
	       .choices = "text|markdown|csv|json"),
	OPTION(out, STRING, "out", "", "write the report there instead of on stdout [file]"),
	{0},
};

static bool wants(const struct validate_flags *f, const char *part)
{
	return strcmp(f->only, part) == 0 ||
	       (strcmp(f->only, "all") == 0 && strcmp(part, "report"));
}

/* ---- The cells, in both worlds ------------------------------------------- */

struct cells {
	struct sweep real, simulated; /* cell i of one is cell i of the other */
};

static void cells_free(struct cells *c)
{
	sweep_free(&c->real);
	sweep_free(&c->simulated);
}

/* The job file's cells with what was given, and this on top. */
static char *read_world(const char *path, const struct arguments *a, const struct setting *top,
			size_t n, struct sweep *s)
{
	struct setting *all = must(calloc(1 + a->options + n, sizeof *all));

	all[0] = (struct setting){"label", LABEL};
	memcpy(all + 1, a->option, a->options * sizeof *all);
	memcpy(all + 1 + a->options, top, n * sizeof *all);
	char *wrong = sweep_read(path, all, 1 + a->options + n, s);
	free(all);
	return wrong;
}

/* Real workers have no sim.*: as these are part of a cell's identity, they are as if not given. */
static char *read_real(const char *path, const struct arguments *a, struct sweep *s)
{
	struct setting top[64] = {{"platform", "mpi"}};
	size_t n = 1;

	for (const struct option *o = run_options; o->name; o++)
		if (strncmp(o->name, "sim.", 4) == 0 && n < sizeof top / sizeof *top)
			top[n++] = (struct setting){o->name, o->def};
	return read_world(path, a, top, n, s);
}

static char *cells_read(const char *path, const struct arguments *a, struct cells *c)
{
	static const struct setting simulated = {"platform", "sim"};

	for (size_t i = 0; i < a->options; i++)
		if (strcmp(a->option[i].name, simulated.name) == 0)
			return sentence("--platform: validate runs every cell on both platforms; "
					"leave it out");
	char *wrong = read_real(path, a, &c->real);
	if (!wrong)
		wrong = read_world(path, a, &simulated, 1, &c->simulated);
	if (!wrong && c->real.cells != c->simulated.cells)
		wrong = sentence("a cell is simulated in one way only: give each option of sim.* "
				 "one value");
	return wrong;
}

/* All that the simulations lack, such as calibrations, each sentence once; the last is returned. */
static char *plan_simulated(struct sweep *s)
{
	char **said = must(calloc(s->cells + 1, sizeof *said)), *wrong;
	size_t n = 0;

	for (size_t i = 0; i < s->cells; i++) {
		struct cell *c = &s->cell[i];
		wrong = plan_make(&c->config, &c->plan);
		if (!wrong)
			wrong = simulation_check(&c->config, &c->plan);
		for (size_t k = 0; wrong && k < n; k++)
			if (strcmp(said[k], wrong) == 0) {
				free(wrong);
				wrong = NULL;
			}
		if (wrong)
			said[n++] = wrong;
	}
	for (size_t k = 0; k + 1 < n; k++)
		complain(said[k]);
	wrong = n ? said[n - 1] : NULL;
	free(said);
	return wrong;
}

/* Does it calibrate by itself? */
static bool calibrates(const struct validate_flags *f, const struct cells *c)
{
	return f->calibrate && strcmp(f->only, "all") == 0 &&
	       strcmp(c->simulated.cell[0].config.run.sim_platform, "local") == 0;
}

/* Nothing starts before all can run. */
static char *cells_plan(const char *path, struct cells *c, const struct validate_flags *f)
{
	char *wrong = wants(f, "real") ? sweep_plan(path, &c->real) : NULL;

	return wrong || !wants(f, "sim") || calibrates(f, c) ? wrong
							     : plan_simulated(&c->simulated);
}

/* As JSON, for the queries; "[]" when the report is not about cells in particular. */
static char *cells_text(const struct cells *c)
{
	char *text = NULL;
	size_t n = 0;
	FILE *f = must(open_memstream(&text, &n));

	fputc('[', f);
	for (size_t i = 0; c && i < c->real.cells; i++) {
		fprintf(f, "%s{\"real\": \"%s\", \"simulated\": \"%s\", \"what\": ", i ? ", " : "",
			c->real.cell[i].hash, c->simulated.cell[i].hash);
		text_json(f, c->real.cell[i].what);
		fputc('}', f);
	}
	fputc(']', f);
	fclose(f);
	return text;
}

/* ---- Running ------------------------------------------------------------- */

struct doing {
	size_t runs, ended, failed;
	nsec began;
	int status; /* that ends it all: interrupted, or cannot run like this */
};

static void say_end(const struct doing *d, const struct cell *c, const char *world,
		    const struct outcome *o)
{
	double seconds = 0;

	for (int64_t i = 0; o->page && i < o->page->rows; i++)
		seconds += o->page->row[i].split.seconds;
	fprintf(stderr, "%zu/%zu %s: %s: ", d->ended, d->runs, world, c->what);
	if (o->status == EXIT_OK)
		fprintf(stderr, "%.3f s\n", seconds);
	else
		fprintf(stderr, "%s%s%s\n", outcome_word(o->status), o->why ? ": " : "",
			o->why ? o->why : "");
}

static void do_cell(struct doing *d, const struct cell *c, const char *world)
{
	char before[96];
	double mean = d->ended ? 1e-9 * (double)(clock_now() - d->began) / (double)d->ended : 0;
	struct progress progress = {.before = before,
				    .later_s = mean * (double)(d->runs - d->ended - 1)};
	struct outcome o;

	snprintf(before, sizeof before, "%zu/%zu %s %s ", d->ended + 1, d->runs, world,
		 c->config.run.strategy);
	run_cell(&c->config, &progress, &o);
	if (o.status == EXIT_INTERRUPTED || o.status == EXIT_USER)
		d->status = o.status;
	else
		d->ended++;
	d->failed += o.status != EXIT_OK && o.status != EXIT_INTERRUPTED;
	if (o.status == EXIT_USER)
		complain(sentence("%s: %s: %s", world, c->what, o.why));
	else if (o.status != EXIT_INTERRUPTED)
		say_end(d, c, world, &o);
	if (!d->status && o.page && o.page->interrupted) /* when it was done already */
		d->status = EXIT_INTERRUPTED;
	outcome_fini(&o);
}

/* Is it the first of the cells that need the same calibration? */
static bool needs_its_own(const struct sweep *s, size_t i)
{
	char *key = calibration_key(&s->cell[i].config);
	bool first = true;

	for (size_t k = 0; k < i && first; k++) {
		char *other = calibration_key(&s->cell[k].config);
		first = strcmp(key, other) != 0;
		free(other);
	}
	free(key);
	return first;
}

static void calibrate(struct doing *d, const struct cells *c, int repetition, bool simulated)
{
	for (size_t i = 0; i < c->simulated.cells && !d->status; i++) {
		const struct config *config = &c->simulated.cell[i].config;
		if (!needs_its_own(&c->simulated, i) || (simulated && config->run.workers == 1))
			continue;
		int status = calibration_repeat(config, repetition, simulated);
		d->status = status == EXIT_OK ? d->status : status;
	}
}

static void simulate(struct doing *d, const struct cells *c)
{
	for (size_t i = 0; i < c->simulated.cells && !d->status; i++)
		do_cell(d, &c->simulated.cell[i], "simulated");
}

static void do_runs(struct doing *d, const struct cells *c, const struct validate_flags *f)
{
	size_t n = c->real.cells;
	int64_t rounds = wants(f, "real") ? f->rounds : 0;
	sigset_t signals, before;

	d->runs = (wants(f, "sim") ? n : 0) + (size_t)rounds * n;
	d->began = clock_now();
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGHUP);
	sigprocmask(SIG_BLOCK, &signals, &before); /* between two runs: the next one sees it */
	if (wants(f, "sim") && !calibrates(f, c))
		simulate(d, c);
	for (int64_t round = 0; round < rounds; round++) {
		char world[48];
		snprintf(world, sizeof world, "real, round %lld", (long long)round + 1);
		if (calibrates(f, c))
			calibrate(d, c, (int)round, false);
		for (size_t i = 0; i < n && !d->status; i++)
			do_cell(d, &c->real.cell[round % 2 ? n - 1 - i : i], world);
	}
	if (calibrates(f, c)) {
		calibrate(d, c, 0, true);
		simulate(d, c);
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (d->status == EXIT_INTERRUPTED)
		fprintf(stderr,
			"mvbench: interrupted: %zu of %zu runs are recorded; --only=report tells "
			"what they say\n",
			d->ended, d->runs);
}

/* ---- The report ---------------------------------------------------------- */

/* The cells that it is about, and the percentiles of their errors: ?1 a label, ?2 of cells_text.
 * Where a short name stands for several cells, what these differ in is added. */
static const char cells_sql[] =
	"WITH v AS MATERIALIZED (\n"
	"	SELECT * FROM validation WHERE label = ?1 AND (?2 = '[]' OR config_hash IN (\n"
	"		SELECT json_extract(value, '$.real') FROM json_each(?2)))),\n"
	"setting AS MATERIALIZED (\n"
	"	SELECT t.simulated_id, t.workload, t.config, e.key, e.atom\n"
	"	FROM (SELECT *, count(*) OVER (PARTITION BY workload, config) AS twins\n"
	"		FROM v) AS t, json_each(t.cell) AS e\n"
	"	WHERE t.twins > 1),\n"
	"differs AS (\n"
	"	SELECT workload, config, key FROM setting GROUP BY workload, config, key\n"
	"	HAVING count(DISTINCT atom) > 1),\n"
	"extra AS (\n"
	"	SELECT simulated_id, group_concat(key || '=' || atom, ' ') AS text FROM (\n"
	"		SELECT simulated_id, key, atom FROM setting\n"
	"			JOIN differs USING (workload, config, key)\n"
	"		ORDER BY simulated_id, key)\n"
	"	GROUP BY simulated_id),\n"
	"named AS MATERIALIZED (\n"
	"	SELECT v.*, workload || ' ' || config || ifnull(' ' || x.text, '') AS name,\n"
	"		ifnull(oversubscribed, 0) AS apart\n"
	"	FROM v LEFT JOIN extra AS x USING (simulated_id)\n"
	"	ORDER BY apart, workload, workers, strategy, sync_every, name),\n"
	"error AS (\n"
	"	SELECT column1 AS place, column2 AS measure, name, CASE column1\n"
	"		WHEN 1 THEN abs(time_error) WHEN 2 THEN abs(share_error)\n"
	"		WHEN 3 THEN staleness_distance ELSE abs(loss_error) END AS x\n"
	"	FROM named CROSS JOIN (VALUES (1, 'epoch_seconds'), (2, 'comm_share'),\n"
	"		(3, 'staleness'), (4, 'test_loss'))\n"
	"	WHERE NOT apart),\n"
	"ranked AS (\n"
	"	SELECT *, row_number() OVER (PARTITION BY place ORDER BY x, name) AS i,\n"
	"		count(*) OVER (PARTITION BY place) AS n\n"
	"	FROM error WHERE x IS NOT NULL),\n"
	"summary AS (\n"
	"	SELECT place, measure, n AS cells,\n"
	"		avg(x) FILTER (WHERE i IN ((n + 1) / 2, (n + 2) / 2)) AS median,\n"
	"		max(x) FILTER (WHERE i = (9 * n + 9) / 10) AS p90, max(x) AS worst,\n"
	"		max(iif(x > 0, name, NULL)) FILTER (WHERE i = n) AS worst_cell\n"
	"	FROM ranked GROUP BY place),\n"
	"missing AS (\n"
	"	SELECT value FROM json_each(?2)\n"
	"	WHERE json_extract(value, '$.real') NOT IN (SELECT config_hash FROM v))\n";

/* name: for csv and json; head: for text and markdown, with what is shown there; NULL = not there,
 * or shown as it is. */
struct column {
	const char *name, *head, *shown;
};

#define ROUND(fmt, x) "iif(" x " IS NULL, NULL, printf('" fmt "', " x "))"
#define SHARE(x)      ROUND("%.1f", "100 * (" x ")")
#define SIGNED(x)     ROUND("%+.1f", "100 * (" x ")")
#define PERCENT(x)    ROUND("%.2f", "100 * (" x ")")
#define SECONDS(x)    ROUND("%.4g", x)

static const struct column cell_columns[] = {
	{"name AS cell", "cell", "name"},
	{"workload", NULL, NULL},
	{"strategy", NULL, NULL},
	{"workers", NULL, NULL},
	{"servers", NULL, NULL},
	{"sync_every", NULL, NULL},
	{"batch", NULL, NULL},
	{"seed", NULL, NULL},
	{"apart AS oversubscribed", NULL, NULL},
	{"n", "n", NULL},
	{"real_s", "real s", SECONDS("real_s")},
	{"real_low", "spread %", "iif(n > 1, " SHARE("(real_high - real_low) / real_s") ", NULL)"},
	{"real_high", NULL, NULL},
	{"simulated_s", "sim s", SECONDS("simulated_s")},
	{"time_error", "error %", SIGNED("time_error")},
	{"real_share", "real comm %", SHARE("real_share")},
	{"simulated_share", "sim comm %", SHARE("simulated_share")},
	{"share_error", "points", SIGNED("share_error")},
	{"staleness_distance", "staleness %", SHARE("staleness_distance")},
	{"real_loss", "real loss", ROUND("%.4f", "real_loss")},
	{"simulated_loss", "sim loss", ROUND("%.4f", "simulated_loss")},
	{"loss_error", "loss error %", SIGNED("loss_error")},
	{NULL, NULL, NULL},
};

static const struct column summary_columns[] = {
	{"measure", "error of",
	 "CASE place WHEN 1 THEN 'epoch time [%]' WHEN 2 THEN 'communication share [points]'\n"
	 "WHEN 3 THEN 'staleness histogram [% of pushes]' ELSE 'final test loss [%]' END"},
	{"cells", "cells", NULL},
	{"median", "median", PERCENT("median")},
	{"p90", "90th percentile", PERCENT("p90")},
	{"worst", "worst", PERCENT("worst")},
	{"worst_cell", "in", NULL},
	{NULL, NULL, NULL},
};

/* What became of one side of a cell that has no row: its newest run. */
#define NEWEST(side) \
	"ifnull((SELECT status || iif(reason IS NULL, '', ': ' || reason)\n" \
	"		|| iif(status = 'done', ifnull(', tables: ' || table_home, ''), '')\n" \
	"	FROM run WHERE label = ?1 AND config_hash = json_extract(value, '$." side "')\n" \
	"	ORDER BY id DESC LIMIT 1), 'not run')"

static const struct column missing_columns[] = {
	{"json_extract(value, '$.what') AS cell", "not compared", "json_extract(value, '$.what')"},
	{NEWEST("real") " AS real", "real", NEWEST("real")},
	{NEWEST("simulated") " AS simulated", "simulated", NEWEST("simulated")},
	{NULL, NULL, NULL},
};

static bool is_rounded(enum format format)
{
	return format == FORMAT_TEXT || format == FORMAT_MARKDOWN;
}

static char *query_text(const struct column *columns, const char *from, bool rounded)
{
	char *sql = sentence("%sSELECT", cells_sql);
	const char *comma = "";

	for (const struct column *c = columns; c->name; c++) {
		if (rounded && !c->head)
			continue;
		char *longer = rounded ? sentence("%s%s %s AS \"%s\"", sql, comma,
						  c->shown ? c->shown : c->name, c->head)
				       : sentence("%s%s %s", sql, comma, c->name);
		free(sql);
		sql = longer;
		comma = ",\n";
	}
	char *whole = sentence("%s\nFROM %s", sql, from);
	free(sql);
	return whole;
}

struct report {
	struct store *store;
	FILE *f;
	enum format format;
	const char *param[2]; /* label, cells_text */
	bool printed;         /* something, so that a blank line comes next */
};

struct verdict {
	double all, counted, missing; /* cells */
	double median, p90;           /* errors of epoch times [%]; NaN = none counts */
};

static char *print(struct report *r, FILE *f, enum format format, const struct column *columns,
		   const char *from)
{
	char *sql = query_text(columns, from, is_rounded(format));

	if (r->printed && is_rounded(format))
		fputc('\n', f);
	char *wrong = query_print(r->store, f, format, sql, r->param, 2, NULL);
	free(sql);
	r->printed = true;
	return wrong;
}

static char *print_cells(struct report *r, const struct verdict *v)
{
	char *wrong = NULL;

	if (!is_rounded(r->format))
		return print(r, r->f, r->format, cell_columns, "named");
	if (v->counted > 0)
		wrong = print(r, r->f, r->format, cell_columns, "named WHERE NOT apart");
	if (wrong || v->all == v->counted)
		return wrong;
	fprintf(r->f,
		"%sOversubscribed: more workers than cores, so real times say little, and these "
		"cells do not count.\n",
		r->printed ? "\n" : "");
	r->printed = true;
	return print(r, r->f, r->format, cell_columns, "named WHERE apart");
}

/* What is no table of cells; a csv file has one table. */
static char *print_rest(struct report *r, const struct verdict *v)
{
	bool aside = r->format == FORMAT_CSV;
	FILE *f = aside ? stderr : r->f;
	enum format format = aside ? FORMAT_TEXT : r->format;
	char *wrong = NULL;

	if (v->counted > 0)
		wrong = print(r, f, format, summary_columns, "summary ORDER BY place");
	if (!wrong && v->missing > 0)
		wrong = print(r, format == FORMAT_JSON ? stderr : f,
			      format == FORMAT_JSON ? FORMAT_TEXT : format, missing_columns,
			      "missing");
	return wrong;
}

static int status_of_verdict(const struct verdict *v, const struct validate_flags *f)
{
	bool median = v->median > f->median, p90 = v->p90 > f->p90;

	if (v->missing > 0)
		fprintf(stderr, "mvbench: %.0f cell%s could not be compared\n", v->missing,
			v->missing == 1 ? "" : "s");
	if (v->all > 0 && v->counted == 0)
		fprintf(stderr, "mvbench: every cell is oversubscribed: no threshold applies\n");
	if (median)
		fprintf(stderr,
			"mvbench: the median error of epoch times, %.2f %%, is past "
			"--threshold-median=%g\n",
			v->median, f->median);
	if (p90)
		fprintf(stderr,
			"mvbench: the 90th percentile of the errors of epoch times, %.2f %%, is "
			"past --threshold-p90=%g\n",
			v->p90, f->p90);
	return median || p90 || v->missing > 0 ? EXIT_FAILED : EXIT_OK;
}

static char *numbers(struct report *r, const char *select, double *x, int n)
{
	char *sql = sentence("%s%s", cells_sql, select);
	char *wrong = query_numbers(r->store, sql, r->param, 2, x, n);

	free(sql);
	return wrong;
}

static char *find_verdict(struct report *r, struct verdict *v)
{
	double cells[2] = {0}, missing = 0, error[2] = {NAN, NAN};
	char *wrong = numbers(r, "SELECT count(*), count(*) FILTER (WHERE NOT apart) FROM named",
			      cells, 2);

	if (!wrong)
		wrong = numbers(r, "SELECT count(*) FROM missing", &missing, 1);
	if (!wrong)
		wrong = numbers(r, "SELECT 100 * median, 100 * p90 FROM summary WHERE place = 1",
				error, 2);
	*v = (struct verdict){cells[0], cells[1], missing, error[0], error[1]};
	return wrong;
}

static char *no_cell(const char *db, const char *label)
{
	return sentence("%s has no cell with the label \"%s\" that was run both real and "
			"simulated: mvbench validate --db=%s runs some",
			db, label, db);
}

/* cells NULL: all that there are. */
static int report(const char *db, const char *label, const struct cells *cells,
		  const struct validate_flags *f, FILE *out)
{
	char *text = cells_text(cells);
	struct report r = {.f = out, .param = {label, text}};
	struct verdict v;

	CHECK(format_find(f->format, &r.format), "no format %s", f->format);
	char *wrong = store_open(&r.store, db, STORE_READ);
	if (!wrong)
		wrong = find_verdict(&r, &v);
	if (!wrong && v.all == 0 && strcmp(f->only, "report") == 0)
		wrong = no_cell(db, label);
	if (!wrong && v.all > 0)
		wrong = print_cells(&r, &v);
	if (!wrong)
		wrong = print_rest(&r, &v);
	int status = wrong ? complain(wrong) : status_of_verdict(&v, f);
	store_close(r.store);
	free(text);
	return status;
}

/* ---- The command --------------------------------------------------------- */

static int run_and_report(const struct cells *c, const struct validate_flags *f, bool all_of_label,
			  FILE *out)
{
	const struct run *first = &c->real.cell[0].config.run;
	struct doing d = {.runs = 0};

	if (strcmp(f->only, "report") != 0)
		do_runs(&d, c, f);
	if (d.status)
		return d.status;
	if (strcmp(f->only, "real") == 0) {
		fprintf(stderr, "%zu runs are recorded, %zu failed; --only=sim compares them\n",
			d.ended, d.failed);
		return d.failed ? EXIT_FAILED : EXIT_OK;
	}
	int status = report(first->db, first->label, all_of_label ? NULL : c, f, out);
	return status == EXIT_OK && d.failed ? EXIT_FAILED : status;
}

static int validate(const char *path, struct cells *c, const struct validate_flags *f,
		    bool all_of_label)
{
	char *wrong = cells_plan(path, c, f);

	if (!wrong && strcmp(f->only, "report") != 0)
		wrong = store_check(c->real.cell[0].config.run.db);
	if (wrong)
		return complain(wrong);
	FILE *out = *f->out ? fopen(f->out, "w") : stdout;
	if (!out)
		return complain(sentence("--out=%s: the file cannot be written (%s)", f->out,
					 strerror(errno)));
	int status = run_and_report(c, f, all_of_label, out);
	if (out != stdout && fclose(out) != 0)
		return complain(sentence("--out=%s: the file cannot be written (%s)", f->out,
					 strerror(errno)));
	return status;
}

/* Do options say which cells are meant? Those that say where and under which name do not. */
static bool names_cells(const struct arguments *a)
{
	for (size_t i = 0; i < a->options; i++) {
		const struct option *o = option_find(run_options, a->option[i].name);
		if (!o || !o->incidental)
			return true;
	}
	return a->words > 0;
}

static char *find_cells(const struct arguments *a, char **path)
{
	if (a->words)
		return sweep_find(a->word[0], path);
	*path = installed_path(OWN_CELLS);
	return *path ? NULL
		     : sentence(
			       "%s is missing: it belongs beside the program's build folder, or in "
			       "../share/mvbench; or name a job file of yours",
			       OWN_CELLS);
}

static int run_validate(void *options, struct arguments *a)
{
	const struct validate_flags *flags = options;
	struct cells cells = {.real = {.cell = NULL}};
	bool all_of_label = strcmp(flags->only, "report") == 0 && !names_cells(a);
	char *path = NULL, *wrong = NULL;

	if (a->words > 1)
		wrong = sentence("%s: validate takes one job file, %s", a->word[1], a->word[0]);
	if (!wrong && platform_under_launcher())
		wrong = sentence("validate starts its own workers: run it without mpirun or srun");
	if (!wrong)
		wrong = find_cells(a, &path);
	if (!wrong)
		wrong = cells_read(path, a, &cells);
	int status = wrong ? complain(wrong) : validate(path, &cells, flags, all_of_label);
	cells_free(&cells);
	free(path);
	return status;
}

const struct command command_validate = {
	.name = "validate",
	.summary = "hold the simulator against real runs, cell by cell",
	.usage = "[FILE.ini] [--option=value ...]",
	.about = "Runs the cells of a job file real and simulated, and reports how far the "
		 "simulation is off: in epoch time, in the share of communication and waiting "
		 "(several ranks), in the histogram of staleness (total variation distance; "
		 "several workers that push), and in the final test loss. Without a file: softmax "
		 "and mlp with batch 32 on 1 and 2 workers, by allreduce, and by asgd and periodic "
		 "every 1, 4 and 16 steps. Options of mvbench run replace those of the file, lists "
		 "too. Runs get the label " LABEL ", unless --label says another. Between the "
		 "rounds it calibrates.\n\n"
		 "A real time is the median over the rounds of a run's median epoch; spread is the "
		 "largest minus the smallest of the rounds. Cells with more workers than cores are "
		 "reported apart. Of earlier runs with the label, equal real ones on this machine "
		 "count too, if they are not older than the calibration, and the newest "
		 "simulation. mvbench plot simulated_real draws it.\n\n"
		 "Exit status: 0 within the thresholds, 1 past one, or cells are missing, 2 cannot "
		 "run like this, 130 interrupted.",
	.options = validate_flags,
	.words = job_files_each,
	.size = sizeof(OWNER),
	.run_options = true,
	.run = run_validate,
};
