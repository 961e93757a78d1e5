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

/* q has two columns for each that is shown: the cell, and the value to sort by. */
static void put_cell(FILE *f, const struct sql *q, int i, const struct column *c, bool *numbers)
{
	const char *cell = sql_text(q, 2 * i);
	double x = sql_real(q, 2 * i + 1);
	*numbers |= !isnan(x);
	fputs(i ? "<td" : "<th scope=\"row\"", f);
	if (isinf(x))
		fprintf(f, " class=\"n\" data-v=\"%sInfinity\"", x < 0 ? "-" : "");
	else if (!isnan(x))
		fprintf(f, " class=\"n\" data-v=\"%.9g\"", x);
	fputc('>', f);
	if (c->html)
		fputs(cell, f);
	else
		text_xml(f, cell);
	fputs(i ? "</td>" : "</th>", f);
}

static void put_head(FILE *f, const struct column *c, bool numbers)
{
	const char *about = c->about;
	fprintf(f, "<th scope=\"col\"%s%s", numbers ? " class=\"n\"" : "",
		c->most ? " data-most=\"1\"" : "");
	fputs(about ? " title=\"" : "", f);
	text_xml(f, about ? about : "");
	fputs(about ? "\">" : ">", f);
	text_xml(f, c->head);
	fputs("</th>", f);
}

char *columns_html(struct store *s, FILE *f, const struct column *columns, const char *from,
		   const char *class, const char *label)
{
	struct column *seen AUTOFREE = NULL;
	struct text t, body;
	int n = 0;
	TRY(columns_seen(s, columns, from, &seen));
	text_open(&t);
	for (const struct column *c = seen; c->name; c++, n++)
		fprintf(t.f, "%s %s, %s", n ? "," : "SELECT", c->shown ? c->shown : c->name,
			c->name);
	fprintf(t.f, " FROM %s", from);
	char *sql AUTOFREE = text_close(&t);
	bool *numbers AUTOFREE = must(calloc((size_t)n + 1, sizeof *numbers));
	struct sql q AUTODONE = sql_select(s, sql, "");
	FILE *rows = text_open(&body);
	while (sql_next(&q)) {
		fputs("<tr>", rows);
		for (int i = 0; i < n; i++)
			put_cell(rows, &q, i, &seen[i], &numbers[i]);
		fputs("</tr>\n", rows);
	}
	char *text AUTOFREE = text_close(&body);
	fputs("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"", f);
	text_xml(f, label);
	fprintf(f, "\"><table class=\"%s\"><thead><tr>", class);
	for (int i = 0; i < n; i++)
		put_head(f, &seen[i], numbers[i]);
	fprintf(f, "</tr></thead>\n<tbody>\n%s</tbody></table></div>\n", text);
	return sql_done(&q);
}

char *html_function(struct store *s)
{
	int rc = sqlite3_create_function(s->db, "html", 1, SQLITE_UTF8 | SQLITE_DETERMINISTIC, NULL,
					 escape, NULL, NULL);
	return rc == SQLITE_OK ? NULL : database_error(s, rc);
}
