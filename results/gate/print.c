/*
 * gate_print.c - the verdicts on the cells of a check, worst first, as text or for other programs.
 * They are those of the views gate_line, gate_cell and gate_test (schema.sql).
 */
#include "results/gate/gate.h"

#include <stdlib.h>
#include <string.h>

/* The cells are decided once, into a table of this connection; all else is read from there. */
static const char lines_sql[] = "CREATE TEMP TABLE shown AS SELECT * FROM gate_line "
				"WHERE name = ?1 ORDER BY rank, chance, configuration";

static const char text_sql[] = "SELECT verdict, configuration AS cell, n, metric AS figure, base "
			       "AS baseline, now, change, "
			       "interval AS \"95 % interval\", p, note FROM shown";

static const char junit_sql[] =
	"SELECT fails, lower(verdict), configuration, ltrim(ifnull(metric || ' ' || base || ' -> ' "
	"|| now || ', ' || change || ' (95 % interval ' || interval || '), p ' || p || ', ' || n "
	"|| ' runs', '') || iif(note = '', '', '; ' || note), '; ') FROM shown";

/* One object a cell: the verdict, then what %s stands for, every figure without rounding. */
static const char json_sql[] =
	"CREATE TEMP TABLE shown AS SELECT c.verdict, c.fails, c.cell, configuration, wanted AS "
	"runs_wanted, runs, c.n_base "
	"AS baseline_runs, c.paired, c.metric AS figure, chance AS p%s, differs AS "
	"simulated_time_differs, comparable AS simulated_time_comparable, longer AS "
	"simulated_time_change, note FROM gate_cell AS c "
	"LEFT JOIN (SELECT * FROM gate_test WHERE name = ?1) AS t USING (cell) "
	"WHERE c.name = ?1 GROUP BY c.cell ORDER BY rank, chance, configuration";

/* Accuracies grow worse by falling: their signs turn, and so do the ends of their intervals. */
static char *json_text(void)
{
	static const struct {
		const char *name, *metric, *low, *high;
		int sign;
	} figure[] = {{"test_accuracy", "test accuracy", "change_high", "change_low", -1},
		      {"test_loss", "test loss", "change_low", "change_high", 1},
		      {"train_loss", "train loss", "change_low", "change_high", 1}};
	sqlite3_str *sql = sqlite3_str_new(NULL);

	for (int i = 0; i < 3; i++) {
		const struct {
			const char *name, *column;
			int sign;
		} part[] = {{"_baseline", "base", figure[i].sign},
			    {"", "now", figure[i].sign},
			    {"_change", "change", figure[i].sign},
			    {"_low", figure[i].low, figure[i].sign},
			    {"_high", figure[i].high, figure[i].sign},
			    {"_p", "p_holm", 1}};
		for (size_t k = 0; k < sizeof part / sizeof *part; k++)
			sqlite3_str_appendf(sql,
					    ", max(%d * t.%s) FILTER (WHERE t.metric = %Q) AS %s%s",
					    part[k].sign, part[k].column, figure[i].metric,
					    figure[i].name, part[k].name);
	}
	char *columns = must(sqlite3_str_finish(sql)), *text = sentence(json_sql, columns);
	sqlite3_free(columns);
	return text;
}

static const char count_sql[] = "SELECT count(*), total(fails), "
				"total(verdict = 'better' AND NOT fails), "
				"total(verdict = 'identical'), "
				"total(runs) FROM shown";

/* ---- JUnit --------------------------------------------------------------- */

/* As the text of an attribute: XML has no way to write most control characters. */
static void put_xml(FILE *f, const char *text)
{
	while (*text) {
		unsigned char c = (unsigned char)*text;
		const char *name = c == '&'    ? "&amp;"
				   : c == '<'  ? "&lt;"
				   : c == '>'  ? "&gt;"
				   : c == '"'  ? "&quot;"
				   : c == '\n' ? "&#10;"
				   : c == '\t' ? "&#9;"
					       : NULL;
		if (!name && c >= 0x20) {
			text_put(f, &text);
			continue;
		}
		fputs(name ? name : "?", f);
		text++;
	}
}

static char *print_junit(struct store *s, FILE *f, const char *name, const struct gate_count *n)
{
	sqlite3_stmt *q = NULL;
	bool row = false;
	char *wrong = gate_query(s, &q, junit_sql, "");

	fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite "
	      "name=\"mvbench check ",
	      f);
	put_xml(f, name);
	fprintf(f, "\" tests=\"%lld\" failures=\"%lld\">\n", (long long)n->cells,
		(long long)n->failed);
	while (!wrong && !(wrong = gate_step(s, q, &row)) && row) {
		bool fails = sqlite3_column_int(q, 0);
		fputs("  <testcase classname=\"", f);
		put_xml(f, name);
		fputs("\" name=\"", f);
		put_xml(f, gate_text(q, 2));
		fputs(fails ? "\"><failure type=\"" : "\"><system-out>", f);
		put_xml(f, gate_text(q, 1));
		fputs(fails ? "\" message=\"" : ": ", f);
		put_xml(f, gate_text(q, 3));
		fputs(fails ? "\"/></testcase>\n" : "</system-out></testcase>\n", f);
	}
	fputs("</testsuite>\n</testsuites>\n", f);
	sqlite3_finalize(q);
	return wrong;
}

/* ---- All of them --------------------------------------------------------- */

char *gate_print(struct store *s, FILE *f, enum gate_format format, const char *name,
		 struct gate_count *count)
{
	enum format printed = format == GATE_JSON       ? FORMAT_JSON
			      : format == GATE_MARKDOWN ? FORMAT_MARKDOWN
							: FORMAT_TEXT;
	char *json = format == GATE_JSON ? json_text() : NULL;
	double n[5];
	char *wrong = sql_change(s, json ? json : lines_sql, "t", name);

	free(json);
	if (!wrong)
		wrong = query_numbers(s, count_sql, NULL, 0, n, 5);
	if (wrong)
		return wrong;
	*count = (struct gate_count){(int64_t)n[0], (int64_t)n[1], (int64_t)n[2], (int64_t)n[3],
				     (int64_t)n[4]};
	if (format == GATE_JUNIT)
		wrong = print_junit(s, f, name, count);
	else
		wrong = query_print(s, f, printed,
				    format == GATE_JSON ? "SELECT * FROM shown" : text_sql, NULL, 0,
				    NULL);
	free(sql_change(s, "DROP TABLE temp.shown", ""));
	return wrong;
}
