/*
 * history.c - mvbench history: one configuration over the commits of its runs, and the steps of a
 * figure (step.c). For mvbench plot it does the same with all configurations.
 */
#include "results/ask/ask.h"
#include "results/db/column.h"
#include "runtime/cli/cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

TEXT_FILE(history_sql, "results/ask/history.sql");

struct history_options {
	struct select select;
	const char *figure, *format, *busy, *out;
};

#define OWNER struct history_options
static const struct option options[] = {
	SELECT_OPTIONS(select., "database to read", ""),
	SELECT_BUSY(busy),
	OPTION(figure, STRING, "figure", "epoch_seconds",
	       "figure to show; --help lists them; names of mvbench plot such as accuracy_final "
	       "work too [name]"),
	OPTION(format, CHOICE, "format", "text",
	       "output format; csv and json are not rounded [name]",
	       .choices = "text|markdown|csv|json"),
	OPTION(out, STRING, "out", "",
	       "write the table to this file instead of the terminal [file]"),
	{.name = NULL},
};

/* ---- Figures --------------------------------------------------------------- */

struct figure_of_run {
	const char *name, *plot; /* name: its column of finished; plot: a figure of mvbench plot
				  * that shows it; NULL = none */
	const char *means;
	const char *format, *unit; /* of printf; "%", "s" or "" */
	bool share, increase;      /* share: changes are differences; increase: more is better */
};

static const struct figure_of_run figures[] = {
	{"epoch_seconds", "time_epoch", "median seconds of an epoch", "%.4g", "s", false, false},
	{"test_accuracy", "accuracy_final", "after the last epoch [%]", "%.2f", "%", true, true},
	{"best_test_accuracy", NULL, "after any epoch [%]", "%.2f", "%", true, true},
	{"test_loss", NULL, "after the last epoch", "%.4g", "", false, false},
	{"train_loss", NULL, "after the last epoch", "%.4g", "", false, false},
	{"time_to_target", "time_to_accuracy", "seconds of training to its target", "%.4g", "s",
	 false, false},
	{"epoch_bytes", NULL, "bytes sent in an epoch", "%,d", "", false, false},
	{"peak_bytes", NULL, "most bytes that a worker sent in a step", "%,d", "", false, false},
	{"comm_fraction", "comm_split", "share of the time that is communication [%]", "%.1f", "%",
	 true, false},
	{"wait_fraction", NULL, "share of the time that is waiting [%]", "%.1f", "%", true, false},
	{"staleness_mean", "staleness",
	 "pushes of other workers since the pull before a push, mean", "%.4g", "", false, false},
};
enum { FIGURES = sizeof figures / sizeof *figures };

static char *figure_find(const char *option, const char *typed, const struct figure_of_run **found)
{
	const char *name[FIGURES];
	for (size_t i = 0; i < FIGURES; i++) {
		*found = &figures[i];
		name[i] = figures[i].name;
		if (strcmp(typed, name[i]) == 0 ||
		    (figures[i].plot && strcmp(typed, figures[i].plot) == 0))
			return NULL;
	}
	char *list AUTOFREE = text_list(name, FIGURES, ", ");
	char *all AUTOFREE = sentence("there are %s", list);
	return no_such("figure", option, typed, name, FIGURES, all);
}

static char *more_help(FILE *f, const struct arguments *given)
{
	(void)given;
	fputs("Figures:\n", f);
	for (size_t i = 0; i < FIGURES; i++)
		text_row(f, figures[i].name, figures[i].means);
	fputc('\n', f);
	return NULL;
}

/* ---- The runs -------------------------------------------------------------- */

/* Fills side with the only configuration. NULL, or a sentence: none or several are selected. */
static char *only_one(struct store *s)
{
	char *name AUTOFREE = NULL;
	int64_t n = 0;
	TRY(sql_number(s, &n, "SELECT count(*) FROM title", ""));
	if (n == 0)
		return sentence("no run in %s matches: loosen --where or --label", s->path);
	TRY(sql_first(s, &name,
		      "SELECT group_concat(text, '; ') FROM (SELECT workload || ' ' || "
		      "configuration AS text FROM title ORDER BY 1 LIMIT 20)",
		      ""));
	if (n > 1)
		return sentence("name one configuration, as in mvbench history \"asgd 2w\"; there "
				"are %s%s",
				name, n > 20 ? "; ..." : "");
	return sql_script(s,
			  "INSERT INTO side SELECT '', NULL, config_key, configuration FROM title");
}

#define UNLABELLED(table) \
	"UPDATE temp." table " SET config_key = json_remove(config_key, '$.label')"

/* Selects the runs of the cell that a word names, of the only cell, or of all cells, whatever their
 * labels. Makes the commit of a run its configuration. */
static char *choose_cell_runs(struct store *s, const struct select *o, const char *word, bool all,
			      bool busy)
{
	int64_t n = 0;
	TRY(database_take(s, o->where, o->label, busy));
	TRY(sql_script(s, UNLABELLED("run_summary")));
	TRY(names_make(s));
	if (!all)
		TRY(word ? names_find(s, word, o, "") : only_one(s));
	TRY(sql_script(s, UNLABELLED("side")));
	TRY(sql_script(s,
		       all ? "DELETE FROM temp.run_summary WHERE status NOT IN ('done', 'diverged')"
			   : "DELETE FROM temp.run_summary WHERE config_key NOT IN (SELECT "
			     "config_key FROM side) OR status NOT IN ('done', 'diverged')"));
	TRY(sql_script(s, "UPDATE temp.run_summary SET config_key = json_array((SELECT rowid FROM "
			  "title AS t WHERE t.config_key = run_summary.config_key), (SELECT "
			  "ifnull(git_commit, 'unknown') || iif(git_dirty, '-dirty', '') FROM "
			  "main.run AS r WHERE r.id = run_summary.id))"));
	TRY(sql_number(s, &n, "SELECT count(*) FROM temp.run_summary", ""));
	if (n == 0 && !all)
		return sentence("none of its runs that were chosen has ended: loosen --where or "
				"--label");
	return database_summarise(s);
}

/* ---- Steps ----------------------------------------------------------------- */

/* The values in the order of their commits. */
struct series {
	double *x;
	size_t *end;
	int64_t *place; /* of the commit, in table history */
	size_t n, ends, places;
};

static void series_fini(struct series *a)
{
	free(a->x);
	free(a->end);
	free(a->place);
}

/* Reads the newest values of a cell. A run that diverged has no figure to fit. */
static char *read_series(struct store *s, int64_t cell, struct series *a)
{
	struct sql q AUTODONE = sql_select(
		s,
		"SELECT * FROM (SELECT h.place, v.x FROM history AS h JOIN value AS v ON made_by "
		"= json_array(cell, git_commit) WHERE abs(x) < 9e999 AND cell = ?2 ORDER BY "
		"h.place DESC LIMIT ?1) ORDER BY place",
		"ii", (int64_t)SERIES_MOST, cell);
	while (sql_next(&q)) {
		APPEND(a->x, a->n, sql_real(&q, 1));
		if (a->places == 0 || a->place[a->places - 1] != sql_int(&q, 0)) {
			APPEND(a->place, a->places, sql_int(&q, 0));
			APPEND(a->end, a->ends, 0);
		}
		a->end[a->ends - 1] = a->n;
	}
	return sql_done(&q);
}

static char *fit_cell(struct store *s, int64_t cell)
{
	struct series a ENDS_WITH(series_fini) = {.x = NULL};
	TRY(read_series(s, cell, &a));
	bool *begins AUTOFREE = must(calloc(a.ends + 1, sizeof *begins));
	double *level AUTOFREE = must(calloc(a.ends + 1, sizeof *level));
	steps_find(a.x, a.end, a.ends, begins, level);
	for (size_t i = 0; i < a.ends; i++) {
		double before = i && begins[i] ? level[i - 1] : NAN;
		TRY(sql_change(s,
			       "UPDATE history SET level = ?2, step = (?2 - ?3) / (SELECT "
			       "iif(share, 1, nullif(abs(?3), 0)) FROM asked) WHERE place = ?1 "
			       "AND cell = ?4",
			       "irri", a.place[i], level[i], before, cell));
	}
	return NULL;
}

static char *fit(struct store *s)
{
	double ends[2];
	TRY(sql_reals(s, ends, 2, "SELECT ifnull(min(cell), 1), ifnull(max(cell), 0) FROM history",
		      ""));
	for (int64_t cell = (int64_t)ends[0]; cell <= (int64_t)ends[1]; cell++)
		TRY(fit_cell(s, cell));
	return NULL;
}

/* Makes the tables history and value from the runs that choose_cell_runs() selected. */
static char *make_history(struct store *s, const struct figure_of_run *figure)
{
	char *values AUTOFREE = sentence(
		"CREATE TEMP TABLE value AS SELECT config_key AS made_by, id, %s AS x FROM "
		"finished WHERE x IS NOT NULL",
		figure->name);
	TRY(sql_script(s, values));
	TRY(sql_change(s, history_sql, "itri", (int64_t)figure->share, figure->format,
		       *figure->unit == '%' ? 100.0 : 1.0, (int64_t)figure->increase));
	return fit(s);
}

/* ---- For mvbench plot ------------------------------------------------------ */

static char *copy_past(struct store *from, struct store *to, const struct figure_of_run *figure)
{
	struct sql q AUTODONE = sql_select(
		from,
		"SELECT t.config_key, git_commit, started, scale * median, scale * median_low, "
		"scale * median_high, scale * level, 100 * step, (step > 0) = increase "
		"FROM history AS h JOIN title AS t ON t.rowid = h.cell CROSS JOIN asked "
		"WHERE abs(median) < 9e999 ORDER BY cell, place",
		"");
	char *name AUTOFREE = *figure->unit ? sentence("%s [%s]", figure->name, figure->unit)
					    : must(strdup(figure->name));
	while (sql_next(&q))
		TRY(sql_change(to,
			       "INSERT INTO past VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
			       "tttrrrrrrt", sql_text(&q, 0), sql_text(&q, 1), sql_text(&q, 2),
			       sql_real(&q, 3), sql_real(&q, 4), sql_real(&q, 5), sql_real(&q, 6),
			       sql_real(&q, 7), sql_real(&q, 8), name));
	return sql_done(&q);
}

char *history_past(struct store *to, const struct select *of, const char *option, const char *name)
{
	const struct figure_of_run *figure;
	struct store *s AUTOCLOSE = NULL;
	int64_t several = 0;
	TRY(figure_find(option, *name ? name : figures[0].name, &figure));
	TRY(sql_number(to, &several,
		       "SELECT count(DISTINCT git_commit || git_dirty) > 1 FROM main.run", ""));
	if (!several)
		return NULL;
	TRY(store_open(&s, to->path, STORE_READ));
	TRY(choose_cell_runs(s, of, NULL, true, true));
	TRY(make_history(s, figure));
	return copy_past(s, to, figure);
}

/* ---- The table ------------------------------------------------------------- */

#define OF_FIGURE(x) "(SELECT printf(format, scale * " x ") FROM asked)"
#define CHANGE(x) \
	"iif(" x " IS NULL, NULL, (SELECT printf(iif(share, '%+.2f', '%+.1f %%'), 100 * " x \
	") FROM asked))"

static const struct column columns[] = {
	SHOWN("git_commit", "commit", "git_commit"),
	SHOWN("started", "first run", "replace(substr(started, 1, 16), 'T', ' ')"),
	PLAIN("n"),
	RARE("diverged", "diverged", "diverged"),
	SHOWN("median", "median",
	      FINITE("median", OF_FIGURE("median"))
		      INTERVAL("median", OF_FIGURE, "median_coverage")),
	HIDDEN("median_low"),
	HIDDEN("median_high"),
	HIDDEN("median_coverage"),
	SHOWN("change", "change", CHANGE("change")),
	HIDDEN("level"),
	SHOWN("step", "step", CHANGE("step")),
	{.name = NULL},
};

/* Prints the steps that the fit found. */
static char *print_steps(struct store *s, FILE *f, enum format format,
			 const struct figure_of_run *figure)
{
	int64_t commits = 0, n = 0;
	TRY(sql_number(s, &commits, "SELECT count(*) FROM history", ""));
	TRY(sql_number(s, &n, "SELECT count(*) FROM stepped", ""));
	if (n > 0)
		return query_print(s, f, format, "SELECT * FROM stepped", NULL, 0, NULL);
	fprintf(f, "no step of %s among %lld commit%s\n", figure->name, (long long)commits,
		plural(commits));
	return NULL;
}

static char *print_history(struct store *s, FILE *f, const struct figure_of_run *figure,
			   enum format format)
{
	const char *const what[] = {figure->name, figure->means};
	const bool people = for_people(format);
	char *places AUTOFREE = NULL;
	TRY(sql_first(s, &places, "SELECT text FROM places", ""));
	if (people) {
		TRY(query_print(s, f, format,
				"SELECT DISTINCT workload, configuration, ?1 AS figure, ?2 AS "
				"\"which is\" FROM side, run_summary",
				what, 2, NULL));
		fputc('\n', f);
	}
	TRY(columns_print(s, f, format, columns, "history", NULL, NULL));
	if (people) {
		fputc('\n', f);
		TRY(print_steps(s, f, format, figure));
	}
	if (places)
		complain(
			sentence("warning: not all times were measured in one place: a step can be "
				 "a change of machine: %s",
				 places));
	return NULL;
}

/* ---- The command ----------------------------------------------------------- */

static char *history(void *options_given, struct arguments *a, int *status)
{
	const struct history_options *o = options_given;
	const struct figure_of_run *figure;
	struct store *s AUTOCLOSE = NULL;
	struct output out;
	enum format format = format_of(o->format);
	if (a->words > 1)
		return sentence("%s: one configuration at a time; put a name with blanks in quotes",
				a->word[1]);
	TRY(figure_find("--figure=", o->figure, &figure));
	TRY(store_open(&s, o->select.db, STORE_READ));
	TRY(choose_cell_runs(s, &o->select, a->words ? a->word[0] : NULL, false,
			     strcmp(o->busy, "keep") == 0));
	TRY(make_history(s, figure));
	TRY(output_open(&out, "--out=", o->out));
	return output_end(&out, print_history(s, out.f, figure, format), status);
}

const struct command command_history = {
	.name = "history",
	.summary = "show a configuration over commits, and the steps of a figure",
	.usage = "[CONFIGURATION|RUN] [--option=value ...]",
	.about =
		"Shows one configuration, whatever its labels: one row for each commit of its "
		"runs, in the order of the commits' first runs. A row has the median over its n "
		"runs, the 95 % interval, and the change since the commit before. Name the "
		"configuration as mvbench table does, or by one of its runs; leave the name out if "
		"only one is selected.\n\n"
		"A step is a commit where a piecewise constant fit changes its level, as in "
		"airspeed velocity (asv). The fit has the least ln(s + mean deviation from the "
		"level) + 4 k ln(n) / n, with k segments of two runs or more and n commits; s is a "
		"thousandth of the median. Few commits therefore show only large steps; mvbench "
		"compare tests whether two commits differ. Runs that diverged are the worst of a "
		"median. The fit leaves them out, and uses the newest thousand runs.",
	.options = options,
	.size = sizeof(OWNER),
	.pages = true,
	.run = history,
	.more = more_help,
	.interrupted = STARTS_AGAIN,
};
