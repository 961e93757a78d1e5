/*
 * table.c - `mvbench table`: the results as a table with one row for each configuration (the
 * medians over its finished runs, their intervals, and which of them differ) or for each run. The
 * arithmetic is SQL, in table.sql and the statistics of the database; this file only composes the
 * columns.
 */
#include "results/ask/ask.h"
#include "results/db/column.h"
#include "results/run/run.h"

#include <stdlib.h>
#include <string.h>

TEXT_FILE(table_sql, "results/ask/table.sql");

struct table_options {
	struct select select;
	const char *format, *versus, *out, *busy, *sort, *columns;
	int64_t top;
	double margin_accuracy, margin_loss, margin_time; /* points, %, % */
	bool runs, tuned;
};

#define OWNER struct table_options

static const struct option options[] = {
	SELECT_OPTIONS(select., "database to read", ""),
	SELECT_BUSY(busy),
	OPTION(format, CHOICE, "format", "text",
	       "output format; csv and json are not rounded; latex needs "
	       "\\usepackage{booktabs}, and has only the most important columns unless --columns "
	       "names others [name]",
	       .choices = "text|markdown|csv|json|latex"),
	OPTION(runs, BOOL, "runs", "false",
	       "one row for each run instead of each configuration [yes or no]"),
	OPTION(tuned, BOOL, "tuned", "false",
	       "show the results of mvbench tune: each configuration as tuned, and as the job file "
	       "has it [yes or no]"),
	OPTION(versus, STRING, "versus", "",
	       "compare with this configuration, by its name in the table or a figure, or by its "
	       "short name, as in \"asgd 2w\"; of several, the most similar to each row counts; "
	       "empty: an allreduce of the same workload; without one, serial [text]"),
	OPTION(margin_accuracy, REAL, "margin-accuracy", "0.3",
	       "accuracies that surely differ by less than this are equal [percentage points]",
	       .min = 0, .max = 100),
	OPTION(margin_loss, REAL, "margin-loss", "1",
	       "losses that surely differ by less than this are equal [%]", .min = 0, .max = 1e6),
	OPTION(margin_time, REAL, "margin-time", "5",
	       "seconds of an epoch that surely differ by less than this are equal [%]", .min = 0,
	       .max = 1e6),
	OPTION(sort, STRING, "sort", "",
	       "sort rows by these columns, as in --sort=workload,-test_accuracy: the least first; "
	       "with - before the name or :desc behind it, the greatest first [columns]"),
	OPTION(columns, STRING, "columns", "",
	       "show these columns, in this order, as in --columns=configuration,epoch_seconds; "
	       "empty: the most important ones that have values [columns]"),
	OPTION(top, INT, "top", "0",
	       "print at most this number of rows, the first ones; 0: all [rows]", .min = 0,
	       .max = 1e9),
	OPTION(out, STRING, "out", "",
	       "write the table to this file instead of the terminal [file]"),
	{.name = NULL},
};

/* ---- Columns ------------------------------------------------------------- */

#define SHARE(x)   ROUND("%.0f", "100 * " x)
#define SECONDS(x) "iif(" x " < 1000, printf('%.4g', " x "), " ROUND("%.0f", x) ")"
/* How a figure compares: the mark, the difference and its interval, each in this format, and the
 * number of seeds that would decide. */
#define DIFFERENCE(x, format, digits, scale) \
	x "_mark || iif(" x "_difference IS NULL, '', printf(' " format "', " scale " * " x \
	  "_difference)) || CASE WHEN '" x "' = 'epoch_seconds' AND " x "_difference_low = " x \
	  "_difference_high THEN ' (exact)' WHEN " x \
	  "_difference_low IS NULL THEN '' ELSE printf(' (%+.*f..%+.*f)', " digits ", " scale \
	  " * " x "_difference_low, " digits ", " scale " * " x \
	  "_difference_high) END || ifnull(', ' || " x "_wanted_text, '')"
/* A figure with its interval, and its comparison with the control. */
#define FIGURE(x, place, head_, text, interval, versus, held, more) \
	COLUMN(x, .head = head_, .shown = FINITE(x, text(x)) interval, .rare = true, \
	       .front = place), \
		HIDDEN(x "_low"), HIDDEN(x "_high"), HIDDEN(x "_coverage"), \
		more RARE(x "_mark", versus, held), HIDDEN(x "_versus"), HIDDEN(x "_pairs"), \
		HIDDEN(x "_difference"), HIDDEN(x "_difference_low"), \
		HIDDEN(x "_difference_high"), HIDDEN(x "_margin"), HIDDEN(x "_p_better"), \
		HIDDEN(x "_p_worse"), HIDDEN(x "_p_equal"), HIDDEN(x "_wanted"), \
		HIDDEN(x "_wanted_low"), HIDDEN(x "_wanted_high")
#define PACE \
	SHOWN("samples_per_second", "samples/s", ROUND("%.0f", "samples_per_second")), \
		COLUMN("speedup", .head = "speedup", .shown = ROUND("%.2f", "speedup"), \
		       .rare = true, .front = 6)
#define TIME_SPENT \
	SHOWN("comm_fraction", "comm %", SHARE("comm_fraction")), \
		SHOWN("wait_fraction", "wait %", SHARE("wait_fraction")), \
		COLUMN("utilisation", .head = NULL, .shown = SHARE("utilisation") " || ' %'"), \
		SHOWN("staleness_mean", "staleness", \
		      "iif(staleness_mean IS NULL, NULL, printf('%.2f (%d)', staleness_mean, " \
		      "staleness_max))"), \
		HIDDEN("staleness_max"), \
		RARE("dropped_fraction", "dropped %", PERCENT("dropped_fraction")), \
		HIDDEN("peak_bytes")

/* With marks, if a run's workers had less than 90 % of their cores, or were more than the cores. */
#define MARKED_SECONDS(x) SECONDS(x) " || iif(busy, '*', '') || iif(crowded, '+', '')"
#define ACCURACIES        HIDDEN("test_accuracy_min"), HIDDEN("test_accuracy_max"),
#define TO_TARGET         SECONDS("time_to_accuracy")

static const struct column configuration_columns[] = {
	KEY("workload"),
	KEY("configuration"),
	HIDDEN("strategy"),
	HIDDEN("workers"),
	HIDDEN("servers"),
	HIDDEN("sync_every"),
	COLUMN("n", .head = "n",
	       .shown = "iif(seeds < n, n || ' (' || seeds || iif(seeds = 1, ' seed)', ' seeds)'), "
			"n)",
	       .front = 2),
	HIDDEN("seeds"),
	HIDDEN("samples"),
	FIGURE("test_accuracy", 3, "accuracy %", PERCENT,
	       INTERVAL("test_accuracy", PERCENT, "test_accuracy_coverage"), "accuracy versus",
	       DIFFERENCE("test_accuracy", "%+.2f", "2", "100"), ACCURACIES),
	/* loss has an interval and a comparison only for tasks without accuracy */
	FIGURE("test_loss", 5, "loss", LOSS,
	       "|| iif(test_accuracy IS NULL, ''" INTERVAL("test_loss", LOSS,
							   "test_loss_coverage") ", '')",
	       "loss versus",
	       "iif(test_accuracy IS NULL, " DIFFERENCE("test_loss", "%+.4f", "4",
							"1") ", NULL)", ),
	/* equal times, as of simulations, need no interval */
	FIGURE("epoch_seconds", 4, "epoch s", MARKED_SECONDS,
	       "|| iif(epoch_seconds_low = epoch_seconds_high, '', ''" INTERVAL(
		       "epoch_seconds", SECONDS, "epoch_seconds_coverage") ")",
	       "time versus", DIFFERENCE("epoch_seconds", "%+.1f %%", "1", "100"), ),
	PACE,
	HIDDEN("target_accuracy"),
	HIDDEN("target_loss"),
	RARE("time_to_accuracy", "to target s",
	     "CASE WHEN ifnull(target_accuracy, target_loss) IS NULL OR reached + missed = 0 "
	     "THEN NULL "
	     "WHEN missed = 0 THEN " TO_TARGET " ELSE ifnull(" TO_TARGET " || ', ', '') || "
	     "printf('not reached %d/%d', missed, reached + missed) END" BETWEEN(
		     SECONDS("time_to_accuracy_low"),
		     "ifnull(" SECONDS("time_to_accuracy_high") ", 'never')",
		     "time_to_accuracy_coverage")),
	HIDDEN("time_to_accuracy_low"),
	HIDDEN("time_to_accuracy_high"),
	HIDDEN("time_to_accuracy_coverage"),
	HIDDEN("reached"),
	HIDDEN("missed"),
	TIME_SPENT,
	RARE("reported", "reported", "reported"),
	HIDDEN("cores_share"),
	HIDDEN("busy"),
	RARE("failed", "not done",
	     "ltrim(iif(failed, ', ' || failed || ' failed', '') || iif(refused, ', ' "
	     "|| refused || ' refused', '') || iif(diverged, ', ' || "
	     "diverged || ' diverged', '') || iif(unfinished, ', ' || unfinished || "
	     "' unfinished', ''), ', ')"),
	HIDDEN("refused"),
	HIDDEN("diverged"),
	HIDDEN("unfinished"),
	{.name = NULL},
};

/* One of the most important columns of a run. */
#define MAIN(x, head_, shown_) COLUMN(x, .head = head_, .shown = shown_, .front = 2)

static const struct column run_columns[] = {
	MAIN("id", "id", NULL),
	MAIN("workload", "workload", NULL),
	MAIN("configuration", "configuration", NULL),
	HIDDEN("strategy"),
	HIDDEN("workers"),
	HIDDEN("servers"),
	HIDDEN("sync_every"),
	MAIN("seed", "seed", NULL),
	RARE("label", "label", NULL),
	MAIN("status", "status",
	     "iif(status = 'failed' AND reason LIKE '" INTERRUPTED "%', '" INTERRUPTED
	     "', status)"),
	SHOWN("epochs_done", "epochs", "epochs_done || '/' || epochs"),
	MAIN("test_accuracy", "accuracy %", PERCENT("test_accuracy")),
	SHOWN("best_test_accuracy", "best %", PERCENT("best_test_accuracy")),
	SHOWN("test_loss", "loss", LOSS("test_loss")),
	RARE("validation_accuracy", "validation %", PERCENT("validation_accuracy")),
	RARE("validation_loss", "validation loss", LOSS("validation_loss")),
	MAIN("epoch_seconds", "epoch s",
	     SECONDS("epoch_seconds") " || iif(cores_share < 0.9 AND NOT "
				      "ifnull(oversubscribed, 0), '*', '') || "
				      "iif(oversubscribed AND platform <> 'sim', '+', '')"),
	HIDDEN("cores_share"),
	PACE,
	TIME_SPENT,
	RARE("reported", "reported", "reported"),
	PLAIN("started"),
	SHOWN("reason", "reason", "ifnull(reason, '')"),
	{.name = NULL},
};

/* ---- Below the table ----------------------------------------------------- */

/* Does the name of a column end with this? */
static bool shows(const struct column *c, const char *end)
{
	for (; c->name; c++)
		if (strlen(c->name) >= strlen(end) &&
		    strcmp(c->name + strlen(c->name) - strlen(end), end) == 0)
			return true;
	return false;
}

/* Prints, for people, what an interval in brackets and column `reported` are. */
static char *put_meanings(struct store *s, FILE *f, const struct table_options *o,
			  const struct column *shown)
{
	int64_t intervals = 0, reported = 0;
	TRY(sql_number(s, &intervals,
		       "SELECT count(ifnull(test_accuracy_coverage, epoch_seconds_coverage)) FROM "
		       "shown",
		       ""));
	TRY(sql_number(s, &reported, "SELECT count(reported) FROM shown", ""));
	if (intervals && !o->runs && (shows(shown, "test_accuracy") || shows(shown, "_seconds")))
		fputs("\n(low..high): the 95 % interval of the median. Fewer than six values have "
		      "none: these are their least and greatest, with the probability that the "
		      "median lies between them.\n",
		      f);
	if (reported && shows(shown, "reported"))
		fputs("\nreported: figures that strategies report of themselves, as means over the "
		      "last epoch\n",
		      f);
	return NULL;
}

/* Prints, for people, what the marks mean. Warns of times that do not compare: below a table for
 * people, otherwise on stderr. */
static char *put_notes(struct store *s, FILE *f, const struct table_options *o,
		       const struct column *shown, enum format format)
{
	const bool people = for_people(format);
	const char *line = format == FORMAT_MARKDOWN ? " " : "\n  ";
	char *places AUTOFREE = NULL;
	int64_t held = 0, busy = 0, crowded = 0;
	TRY(sql_number(s, &busy,
		       o->runs ? "SELECT count(*) FROM shown_run WHERE cores_share < 0.9 AND "
				 "NOT ifnull(oversubscribed, 0)"
			       : "SELECT total(busy) FROM shown",
		       ""));
	TRY(sql_number(s, &crowded,
		       o->runs ? "SELECT count(*) FROM shown_run WHERE oversubscribed AND "
				 "platform <> 'sim' AND epoch_seconds IS NOT NULL"
			       : "SELECT total(crowded) FROM shown",
		       ""));
	TRY(sql_number(s, &held, "SELECT EXISTS (SELECT 1 FROM held)", ""));
	TRY(sql_first(s, &places, "SELECT text FROM places", ""));
	if (people)
		TRY(put_meanings(s, f, o, shown));
	if (people && held && shows(shown, "_mark"))
		fprintf(f,
			"\nversus %s: the mean difference and its interval; all intervals "
			"of a column hold together in 95 %% of cases.%sbetter, worse: "
			"by more than chance (5 %% over all rows of a workload);%sequal: "
			"surely within %g points of accuracy, %g %% of loss, %g %% of "
			"seconds;%sundecided: none of these; with the number of seeds that would "
			"probably decide;%sexact: the times of both sides have no spread\n",
			*o->versus ? "the control (--versus)"
				   : "the control (allreduce; without one, serial)",
			line, line, o->margin_accuracy, o->margin_loss, o->margin_time, line, line);
	if (busy && people && shows(shown, "epoch_seconds"))
		fprintf(f,
			"\n*: in %lld run%s a worker had less than 90 %% of its core, because "
			"other processes ran there; --busy=drop uses only the other epochs\n",
			(long long)busy, plural(busy));
	if (crowded && people && shows(shown, "epoch_seconds"))
		fprintf(f,
			"\n+: %lld run%s oversubscribed, with more processes than cores, or than "
			"GPUs: the times are unreliable\n",
			(long long)crowded, crowded == 1 ? " was" : "s were");
	if (places)
		text_disarm(places);
	if (places)
		fprintf(people ? f : stderr,
			"%swarning: not all times were measured in one place, so they do not "
			"compare: %s\n",
			people ? "\n" : "mvbench: ", places);
	return NULL;
}

static char *print_notes(struct store *s, FILE *f, const struct table_options *o,
			 const struct column *shown, enum format format)
{
	struct text t;
	char *wrong = put_notes(s, text_open(&t), o, shown, format);
	char *notes AUTOFREE = text_close(&t);
	note_put(f, format, notes);
	return wrong;
}

/* NULL, or a sentence: no row has the name that --versus gives. */
static char *check_versus(struct store *s, const struct table_options *o)
{
	char *names AUTOFREE = NULL;
	if (!*o->versus)
		return NULL;
	TRY(sql_first(s, &names,
		      "SELECT group_concat(configuration, '; ') FROM (SELECT DISTINCT "
		      "configuration FROM title ORDER BY 1 LIMIT 20) WHERE NOT EXISTS (SELECT 1 "
		      "FROM title JOIN asked ON versus IN (title.configuration, config))",
		      ""));
	return names ? sentence("--versus=%s: there is no such row; it is one of: %s", o->versus,
				names)
		     : NULL;
}

/* ---- The command --------------------------------------------------------- */

static void columns_help(FILE *f, const char *of, const struct column *all)
{
	struct text t;
	columns_names(all, text_open(&t));
	char *names AUTOFREE = text_close(&t);
	fprintf(f, "Columns of %s, for --sort and --columns:\n  ", of);
	text_wrap(f, names, 2);
	fputc('\n', f);
}

static char *more_help(FILE *f, const struct arguments *given)
{
	struct store *s AUTOCLOSE = sql_schema();
	(void)given;
	columns_help(f, "configurations", configuration_columns);
	columns_help(f, "--runs", run_columns);
	fputs("Columns for --where, as in --where=\"workload='mlp' AND workers IN (2, 4)\":\n", f);
	database_columns(s, f);
	fputs("\n\n", f);
	return NULL;
}

/* Prints why the table is empty. */
static char *explain_empty(struct store *s)
{
	int64_t n;
	TRY(sql_number(s, &n, "SELECT count(*) FROM main.run", ""));
	if (n == 0)
		fprintf(stderr,
			"mvbench: %s holds no runs yet: record one with `mvbench run --db=%s`\n",
			s->path, s->path);
	else
		fprintf(stderr,
			"mvbench: none of the %lld runs in %s matches: loosen --where or --label\n",
			(long long)n, s->path);
	return NULL;
}

/* Prints the studies that contain a selected run. */
static char *print_tuned(struct store *s, FILE *f, enum format format)
{
	int64_t rows = 0;
	TRY(study_print(s, f, format,
			"(study_id, contestant) IN (SELECT study_id, contestant FROM study_run "
			"JOIN temp.run_summary AS r ON r.id = run_id)",
			&rows));
	if (rows == 0)
		fprintf(stderr,
			"mvbench: %s holds no tuned comparison that matches: make one with "
			"mvbench tune\n",
			s->path);
	return NULL;
}

/* Prints the command with the options that the user gave, for a pipe. */
static void put_piped(FILE *f, const struct arguments *a)
{
	struct text t;
	fputs("mvbench table ", text_open(&t));
	for (size_t i = 0; i < a->all; i++) {
		const struct setting *given = &a->option[i];
		char *word AUTOFREE = sentence("--%s%s%s", given->name, given->value ? "=" : "",
					       given->value ? given->value : "");
		word_put(t.f, word);
		fputc(' ', t.f);
	}
	fputs("| less -S", t.f);
	char *command AUTOFREE = text_close(&t);
	text_disarm(command);
	command_put(f, command);
	fputc('\n', f);
}

/* Prints one row for each configuration or run. */
static char *print_rows(struct store *s, FILE *f, const struct table_options *o,
			const struct arguments *a, const struct column *columns, enum format format)
{
	int64_t rows = 0;
	int parts = 1;
	TRY(columns_print(s, f, format, columns, "sorted", &rows, &parts));
	if (parts > 1) {
		note_put(
			f, format,
			"\nThe table is wider than the terminal and goes on below. "
			"--columns=configuration,epoch_seconds chooses columns; --help names them. "
			"Lines stay whole with:\n");
		put_piped(f, a);
	}
	return rows > 0 ? print_notes(s, f, o, columns, format) : explain_empty(s);
}

/* Options that --tuned refuses. */
static const char *const untuned[] = {"runs",        "versus",      "margin-accuracy",
				      "margin-loss", "margin-time", "sort",
				      "columns",     "top",         "busy"};
/* Options that --runs refuses. */
static const char *const unheld[] = {"versus", "margin-accuracy", "margin-loss", "margin-time"};

/* Makes table sorted: the rows to print. */
static char *make_rows(struct store *s, const struct table_options *o, const struct column *all)
{
	TRY(names_make(s));
	TRY(held_make(s, o->versus, o->margin_accuracy / 100, o->margin_loss / 100,
		      o->margin_time / 100));
	TRY(sql_change(s, table_sql, "i", (int64_t)(strcmp(o->busy, "drop") == 0)));
	TRY(check_versus(s, o));
	return columns_sort(s, all, o->runs ? "shown_run" : "shown", o->sort, o->top, "sorted");
}

static char *table(void *options_given, struct arguments *a, int *status)
{
	const struct table_options *o = options_given;
	const struct column *all = o->runs ? run_columns : configuration_columns;
	struct column *columns AUTOFREE = NULL;
	struct store *s AUTOCLOSE = NULL;
	struct output out;
	enum format format = format_of(o->format);
	if (a->words > 0)
		return sentence("\"%s\" is not understood: conditions are given with --where, "
				"files with --db",
				a->word[0]);
	for (size_t i = 0; o->tuned && i < sizeof untuned / sizeof *untuned; i++)
		if (arguments_took(a, untuned[i]))
			return sentence(
				"--tuned: each row is compared only with its default; leave --%s "
				"out",
				untuned[i]);
	for (size_t i = 0; o->runs && i < sizeof unheld / sizeof *unheld; i++)
		if (arguments_took(a, unheld[i]))
			return sentence("--%s: runs are not compared, only configurations; leave "
					"--runs out, or use mvbench compare",
					unheld[i]);
	TRY(columns_choose(all, o->columns, &columns));
	if (format == FORMAT_LATEX)
		columns_for_paper(columns);
	TRY(store_open(&s, o->select.db, STORE_READ));
	TRY(database_choose(s, o->select.where, o->select.label, strcmp(o->busy, "keep") == 0));
	if (!o->tuned)
		TRY(make_rows(s, o, all));
	TRY(output_open(&out, "--out=", o->out));
	return output_end(&out,
			  o->tuned ? print_tuned(s, out.f, format)
				   : print_rows(s, out.f, o, a, columns, format),
			  status);
}

const struct command command_table = {
	.name = "table",
	.summary = "print results as a table",
	.usage = "[--option=value ...]",
	.about =
		"Shows the results: one row for each configuration, with the medians over its n "
		"finished runs and their 95 % intervals, or one row for each run. An interval lies "
		"between two of the sorted values. Fewer than six values have no interval of 95 %; "
		"the table then prints the one from the least to the greatest, with the "
		"probability that it holds the median. A run that diverged counts as worse than "
		"all others. Repeating a seed adds no sample (its newest run counts), except to "
		"real times.\n\n"
		"versus is the comparison of a row with its control (--versus): better, worse, "
		"equal (surely within --margin-accuracy, --margin-loss, --margin-time) or "
		"undecided, with the number of seeds that would probably decide. Accuracies and "
		"losses are compared by Student's t of the differences seed by seed if both sides "
		"share two seeds or more, otherwise by Welch's t. Seconds do not depend on the "
		"seed: they are compared by Welch's t of their logarithms. Words and intervals are "
		"corrected for the number of rows (Bonferroni).\n\n"
		"to target s is the training time until --target-accuracy or --target-loss was "
		"reached for good; runs that missed it count as later than all others. Times are "
		"per epoch. speedup is relative to serial with the same workload, batch, device "
		"and platform. comm % and wait % are shares of the time; utilisation, the share of "
		"computation, is shown with --columns=configuration,utilisation. staleness is the "
		"number of other workers' pushes since the pull before a push: the mean, and the "
		"maximum in brackets. reported has figures that strategies report of themselves, "
		"such as an interval that they chose. dropped % is the share of pushes that came "
		"too late for their round.",
	.options = options,
	.size = sizeof(OWNER),
	.pages = true,
	.run = table,
	.more = more_help,
	.interrupted = STARTS_AGAIN,
};
