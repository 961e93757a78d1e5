/*
 * html.c - prints the rows of a table or view as a table of an HTML page. Text is escaped, except
 * in columns that the query gives as HTML.
 */
#include "results/db/column.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* html(text) in SQL. */
static void escape(sqlite3_context *result, int n, sqlite3_value **given)
{
	const char *text = (const char *)sqlite3_value_text(given[n - 1]);
	struct text t;
	if (!text)
		return; /* NULL */
	text_xml(text_open(&t), text);
	sqlite3_result_text(result, text_close(&t), -1, free);
}

struct shown {
	const struct column *column;
	bool numbers;
};

/* q has two columns for each that is shown: the cell, and the value to sort by. */
static void put_cell(FILE *f, const struct sql *q, int i, struct shown *c)
{
	const char *cell = sql_text(q, 2 * i);
	double x = sql_real(q, 2 * i + 1);
	c->numbers |= !isnan(x);
	fputs(i ? "<td" : "<th scope=\"row\"", f);
	if (isinf(x))
		fprintf(f, " class=\"n\" data-v=\"%sInfinity\"", x < 0 ? "-" : "");
	else if (!isnan(x))
		fprintf(f, " class=\"n\" data-v=\"%.9g\"", x);
	fputc('>', f);
	if (c->column->html)
		fputs(cell, f);
	else
		text_xml(f, cell);
	fputs(i ? "</td>" : "</th>", f);
}

static void put_head(FILE *f, const struct shown *c)
{
	const char *about = c->column->about;
	fprintf(f, "<th scope=\"col\"%s%s", c->numbers ? " class=\"n\"" : "",
		c->column->most ? " data-most=\"1\"" : "");
	fputs(about ? " title=\"" : "", f);
	text_xml(f, about ? about : "");
	fputs(about ? "\">" : ">", f);
	text_xml(f, c->column->head);
	fputs("</th>", f);
}

/* The SELECT for put_cell (heap), and its columns (heap). */
static char *choose(struct store *s, const struct column *columns, const char *from, char **sql,
		    struct shown **shown, int *n)
{
	struct text t;
	FILE *f = text_open(&t);
	size_t chosen = 0;
	char *wrong = NULL;
	for (const struct column *c = columns; c->name && !wrong; c++) {
		int64_t any = 1;
		wrong = c->rare ? column_has_any(s, c, from, &any) : NULL;
		if (!any)
			continue;
		fprintf(f, "%s %s, %s", chosen ? "," : "SELECT", c->shown ? c->shown : c->name,
			c->name);
		APPEND(*shown, chosen, (struct shown){.column = c});
	}
	fprintf(f, " FROM %s", from);
	*sql = text_close(&t);
	*n = (int)chosen;
	return wrong;
}

char *columns_html(struct store *s, FILE *f, const struct column *columns, const char *from,
		   const char *class, const char *label)
{
	struct shown *shown AUTOFREE = NULL;
	char *sql AUTOFREE = NULL;
	struct text body;
	int n = 0;
	TRY(choose(s, columns, from, &sql, &shown, &n));
	struct sql q AUTODONE = sql_select(s, sql, "");
	FILE *rows = text_open(&body);
	while (sql_next(&q)) {
		fputs("<tr>", rows);
		for (int i = 0; i < n; i++)
			put_cell(rows, &q, i, &shown[i]);
		fputs("</tr>\n", rows);
	}
	char *text AUTOFREE = text_close(&body);
	fputs("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"", f);
	text_xml(f, label);
	fprintf(f, "\"><table class=\"%s\"><thead><tr>", class);
	for (int i = 0; i < n; i++)
		put_head(f, &shown[i]);
	fprintf(f, "</tr></thead>\n<tbody>\n%s</tbody></table></div>\n", text);
	return sql_done(&q);
}

char *html_function(struct store *s)
{
	int rc = sqlite3_create_function(s->db, "html", 1, SQLITE_UTF8 | SQLITE_DETERMINISTIC, NULL,
					 escape, NULL, NULL);
	return rc == SQLITE_OK ? NULL : database_error(s, rc);
}
