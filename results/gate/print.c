/*
 * print.c - prints the verdicts on the cells of a check, worst first, as text or for other
 * programs. The views gate_line, gate_cell and gate_test decide (results/db/gate.sql).
 */
#include "results/gate/gate.h"

#include <stdlib.h>
#include <string.h>

/* The cells are decided once, into a table of this connection; everything else reads this table. */
static const char lines_sql[] = "CREATE TEMP TABLE shown AS SELECT * FROM gate_line "
				"WHERE name = ?1 ORDER BY rank, chance, configuration";

static const char text_sql[] =
	"SELECT verdict, configuration AS cell, n, metric AS figure, base AS baseline, now, "
	"change, interval AS \"95 % interval\", p, note FROM shown";

static const char count_sql[] =
	"SELECT count(*), total(fails), total(verdict = 'better' AND NOT fails), "
	"total(verdict = 'identical'), total(verdict = 'unsure'), total(runs) FROM shown";

TEXT_FILE(cells_sql, "results/gate/cells.sql");
TEXT_FILE(junit_sql, "results/gate/junit.sql");

/* ---- JUnit --------------------------------------------------------------- */

static char *print_junit(struct store *s, FILE *f, const char *name, const struct gate_count *n)
{
	struct sql q = sql_select(s, junit_sql, "");
	fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite "
	      "name=\"mvbench check ",
	      f);
	text_xml(f, name);
	fprintf(f, "\" tests=\"%.0f\" failures=\"%.0f\">\n", n->cells, n->failed);
	while (sql_next(&q)) {
		bool fails = sql_int(&q, 0);
		fputs("  <testcase classname=\"", f);
		text_xml(f, name);
		fputs("\" name=\"", f);
		text_xml(f, sql_text(&q, 2));
		fputs(fails ? "\"><failure type=\"" : "\"><system-out>", f);
		text_xml(f, sql_text(&q, 1));
		fputs(fails ? "\" message=\"" : ": ", f);
		text_xml(f, sql_text(&q, 3));
		fputs(fails ? "\"/></testcase>\n" : "</system-out></testcase>\n", f);
	}
	fputs("</testsuite>\n</testsuites>\n", f);
	return sql_done(&q);
}

/* ---- All formats --------------------------------------------------------- */

char *gate_print(struct store *s, FILE *f, const char *format, const char *name,
		 struct gate_count *count)
{
	bool junit = strcmp(format, "junit") == 0;
	enum format printed = junit ? FORMAT_TEXT : format_of(format);
	bool json = printed == FORMAT_JSON;
	double n[sizeof *count / sizeof(double)];
	TRY(sql_change(s, json ? cells_sql : lines_sql, "t", name));
	TRY(sql_reals(s, n, sizeof n / sizeof *n, count_sql, ""));
	memcpy(count, n, sizeof n);
	TRY(junit ? print_junit(s, f, name, count)
		  : query_print(s, f, printed, json ? "SELECT * FROM shown" : text_sql, NULL, 0,
				NULL));
	return sql_change(s, "DROP TABLE temp.shown", "");
}
