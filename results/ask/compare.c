/*
 * compare.c - mvbench compare: compares two runs or configurations: the settings in which they
 * differ, their results, whether the difference is more than chance, and their curves. compare.sql
 * does the arithmetic; the test is that of mvbench table (view comparison), with two sides.
 */
#include "results/ask/ask.h"
#include "results/db/column.h"
#include "runtime/cli/cli.h"

#include <stdlib.h>
#include <string.h>

TEXT_FILE(compare_sql, "results/ask/compare.sql");

struct compare_options {
	struct select select;
	const char *format, *out;
};

#define OWNER struct compare_options
static const struct option options[] = {
	SELECT_OPTIONS(select., "database to read", "for latest and the names of configurations: "),
	OPTION(format, CHOICE, "format", "text",
	       "output format; csv and json: one row for each setting and figure, not "
	       "rounded [name]",
	       .choices = "text|csv|json"),
	OPTION(out, STRING, "out", "",
	       "write the comparison to this file instead of the terminal [file]"),
	{.name = NULL},
};

/* Makes the runs of both sides the only runs of the connection. */
static char *choose_sides(struct store *s, const struct select *o, const char *const *word)
{
	static const char only[] =
		"INSERT INTO temp.run_summary SELECT * FROM main.run_summary WHERE id IN "
		"(SELECT run_id FROM side) AND id NOT IN (SELECT id FROM temp.run_summary);"
		"DELETE FROM temp.run_summary WHERE id NOT IN (SELECT run_id FROM side);"
		"UPDATE temp.run_summary SET config_key = "
		"(SELECT name FROM side WHERE run_id = id)";
	char *twice AUTOFREE = NULL;
	TRY(database_take(s, o->where, o->label, true));
	TRY(names_make(s));
	TRY(names_find(s, word[0], o, "A"));
	TRY(names_find(s, word[1], o, "B"));
	TRY(sql_first(s, &twice, "SELECT run_id FROM side GROUP BY run_id HAVING count(*) > 1",
		      ""));
	if (twice)
		return sentence("%s, %s: run %s is on both sides; name other runs, or leave it out "
				"with --where=\"id <> %s\"",
				word[0], word[1], twice, twice);
	TRY(sql_script(s, only));
	return database_summarise(s);
}

static char *print_settings(struct store *s, FILE *f)
{
	int64_t n = 0;
	TRY(sql_number(s, &n, "SELECT count(*) FROM differing", ""));
	if (n == 0)
		fputs("no setting differs\n", f);
	return n ? query_print(s, f, FORMAT_TEXT, "SELECT * FROM differing", NULL, 0, NULL) : NULL;
}

/* By epoch, then by seconds of training. */
static char *print_curves(struct store *s, FILE *f)
{
	struct sql q AUTODONE = sql_select(s, "SELECT * FROM line", "");
	while (sql_next(&q)) {
		if (*sql_text(&q, 0))
			fprintf(f, "\n%s\n", sql_text(&q, 0));
		char *curve AUTOFREE = text_visible(sql_text(&q, 2));
		fprintf(f, "%s  %s\n", sql_text(&q, 1), curve);
	}
	return sql_done(&q);
}

/* Prints how to draw both sides, if figures distinguish them and the runs are fewer than 100. */
static char *print_hint(struct store *s, FILE *f)
{
	char *where AUTOFREE = NULL;
	TRY(sql_first(s, &where,
		      "SELECT iif(count(DISTINCT config_key) > 1 AND count(*) < 100, "
		      "'--where=id IN (' || group_concat(run_id, ', ') || ')', NULL) FROM side",
		      ""));
	if (!where)
		return NULL;
	char *path AUTOFREE = sentence("--db=%s", s->path), *db AUTOFREE = word_quoted(path),
		   *which AUTOFREE = word_quoted(where),
		   *command AUTOFREE =
			   sentence("mvbench plot accuracy_epoch accuracy_time %s %s", db, which);
	fputs("\nFigures of these curves:\n", f);
	command_put(f, command);
	fputc('\n', f);
	return NULL;
}

/* Prints what the columns of figures are, and that times are of busy cores. */
static char *print_legend(struct store *s, FILE *f)
{
	int64_t tested = 0, busy = 0;
	struct text t;
	TRY(sql_number(s, &tested, "SELECT count(p) FROM result", ""));
	TRY(sql_number(s, &busy, BUSY_RUNS, ""));
	text_open(&t);
	fputs("\nA, B: medians of the runs, with their 95 % intervals.\n"
	      "B - A: of accuracy, loss and seconds the mean difference, which need not be that "
	      "of the medians; of the other figures that of the medians.\n",
	      t.f);
	if (tested)
		fputs("p, and the interval of B - A, are of this pair alone. mvbench table "
		      "corrects both for the number of its rows: several make its intervals "
		      "wider.\n",
		      t.f);
	if (busy)
		fprintf(t.f,
			"In %lld run%s a worker had less than 90 %% of its core, because other "
			"processes ran there: these seconds are not reliable.\n",
			(long long)busy, plural(busy));
	char *legend AUTOFREE = text_close(&t);
	note_put(f, FORMAT_TEXT, legend);
	return NULL;
}

static char *print_comparison(struct store *s, FILE *f, enum format format)
{
	if (!for_people(format))
		return query_print(s, f, format, "SELECT * FROM told", NULL, 0, NULL);
	TRY(query_print(s, f, FORMAT_TEXT, "SELECT * FROM sides", NULL, 0, NULL));
	fputc('\n', f);
	TRY(print_settings(s, f));
	fputc('\n', f);
	TRY(query_print(
		s, f, FORMAT_TEXT,
		"SELECT head AS figure, a_text || ifnull(' (' || a_interval || ')', '') AS A, "
		"b_text || ifnull(' (' || b_interval || ')', '') AS B, change AS \"B - A\", "
		"verdict AS \"B is\" FROM result",
		NULL, 0, NULL));
	TRY(print_legend(s, f));
	TRY(print_curves(s, f));
	return print_hint(s, f);
}

static char *compare(void *options_given, struct arguments *a, int *status)
{
	const struct compare_options *o = options_given;
	struct store *s AUTOCLOSE = NULL;
	struct output out;
	enum format format = format_of(o->format);
	if (a->words != 2)
		return sentence(
			"give two, as in mvbench compare 1 2: each the number of a run, latest, "
			"the name of a configuration (mvbench table), or a label");
	TRY(store_open(&s, o->select.db, STORE_READ));
	TRY(choose_sides(s, &o->select, a->word));
	TRY(sql_change(s, compare_sql, ""));
	TRY(output_open(&out, "--out=", o->out));
	return output_end(&out, print_comparison(s, out.f, format), status);
}

const struct command command_compare = {
	.name = "compare",
	.summary = "compare two runs or configurations, and test whether they differ by more than "
		   "chance",
	.usage = "A B [--option=value ...]",
	.about =
		"A and B are each the number of a run, latest, the name of a configuration as "
		"mvbench table shows it (all of its runs that have ended), or a label (all of its "
		"runs, if they are of one configuration). Shows the settings in which they differ, "
		"including the commit, the machine and the seeds; the medians of both sides with "
		"their 95 % intervals; and their curves on one scale: each character is the median "
		"of the side's runs at that point.\n\n"
		"For accuracy, loss and seconds of an epoch it prints whether B is better, worse "
		"or equal, by the test and the margins of mvbench table --versus, but for this "
		"pair alone: without the table's correction for the number of rows. It is "
		"Student's t of the differences seed by seed if both sides share two seeds or "
		"more, otherwise Welch's t; for seconds, Welch's t of their logarithms. p is "
		"two-sided. There is no test of one run, because it has no spread. Times are "
		"compared only if the work is the same.",
	.options = options,
	.size = sizeof(OWNER),
	.pages = true,
	.run = compare,
	.interrupted = STARTS_AGAIN,
};
