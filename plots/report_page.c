/*
 * report_page.c - the pieces that a report page is made of. Whatever comes out of the database goes
 * through page_text; the drawings went through gnuplot's own escapes.
 */
#include "plots/report.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { SPARK_POINTS = 40, SPARK_WIDE = 110, SPARK_HIGH = 24 };

/* ---- Text ---------------------------------------------------------------- */

/* The length of the UTF-8 sequence at s, 0 when it is none. */
static size_t utf8_length(const unsigned char *s)
{
	static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t n = s[0] < 0x80 ? 1 : s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : s[0] >= 0xc2 ? 2 : 0;
	unsigned code = n == 1 ? s[0] : s[0] & (0x7fu >> n);

	if (n == 0 || s[0] > 0xf4)
		return 0;
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (s[i] & 0x3f);
	}
	return code < least[n] || code > 0x10ffff || code >> 11 == 0x1b ? 0 : n;
}

void page_text(struct report *p, const char *text)
{
	const unsigned char *s = (const unsigned char *)text;

	while (*s) {
		size_t n = utf8_length(s);
		bool control = (*s < ' ' && *s != '\n' && *s != '\t') || *s == 0x7f;
		if (*s == '&')
			fputs("&amp;", p->f);
		else if (*s == '<')
			fputs("&lt;", p->f);
		else if (*s == '>')
			fputs("&gt;", p->f);
		else if (*s == '"')
			fputs("&quot;", p->f);
		else if (*s == '\'')
			fputs("&#39;", p->f);
		else if (n == 0 || control)
			fputs("\xef\xbf\xbd", p->f);
		else
			fwrite(s, 1, n, p->f);
		s += n ? n : 1;
	}
}

void page_print(struct report *p, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	for (; *fmt; fmt++) {
		if (*fmt != '%') {
			fputc(*fmt, p->f);
			continue;
		}
		fmt++;
		if (*fmt == 's')
			page_text(p, va_arg(args, const char *));
		else if (*fmt == 'd')
			fprintf(p->f, "%d", va_arg(args, int));
		else
			fputc('%', p->f);
	}
	va_end(args);
}

/* ---- Numbers ------------------------------------------------------------- */

static void number_text(enum figure_kind kind, double x, char buf[40])
{
	const char *fmt = kind == FIGURE_PERCENT   ? "%.2f"
			  : kind == FIGURE_COUNT   ? "%.0f"
			  : kind == FIGURE_FACTOR  ? "%.2f"
			  : kind == FIGURE_SECONDS ? (fabs(x) < 1000 ? "%.4g" : "%.0f")
			  : kind == FIGURE_RATE    ? "%.0f"
						   : "%.4g";

	if (isinf(x))
		snprintf(buf, 40, "not reached");
	else
		snprintf(buf, 40, fmt, kind == FIGURE_PERCENT ? 100 * x : x);
}

void page_number(struct report *p, enum figure_kind kind, double x, double low, double high)
{
	char text[40], from[40], to[40];

	if (isnan(x)) {
		fputs("<td class=\"n\"></td>", p->f);
		return;
	}
	number_text(kind, x, text);
	if (isinf(x))
		fprintf(p->f, "<td class=\"n\" data-v=\"Infinity\">%s", text);
	else
		fprintf(p->f, "<td class=\"n\" data-v=\"%.9g\">%s", x, text);
	if (!isnan(low) && !isnan(high)) {
		number_text(kind, low, from);
		number_text(kind, high, to);
		fprintf(p->f, " <span class=\"range\">%s–%s</span>", from, to);
	}
	fputs("</td>", p->f);
}

char *page_spark(struct report *p, int64_t run)
{
	/* Every k-th point, and the last one. */
	static const char sql[] =
		"WITH point AS (SELECT epoch, ifnull(test_accuracy, -test_loss) AS y, "
		"row_number() OVER (ORDER BY epoch) - 1 AS i, count(*) OVER () AS n "
		"FROM epoch WHERE run_id = ?1 AND ifnull(test_accuracy, test_loss) IS NOT NULL) "
		"SELECT y, n FROM point WHERE n > 1 AND (i % ((n + ?2 - 1) / ?2) = 0 OR i = n - 1) "
		"ORDER BY i";
	double y[SPARK_POINTS + 1], low = INFINITY, high = -INFINITY;
	int n = 0, rc;

	if (!p->spark && sqlite3_prepare_v2(p->s->db, sql, -1, &p->spark, NULL) != SQLITE_OK)
		return database_error(p->s, sqlite3_extended_errcode(p->s->db));
	sqlite3_bind_int64(p->spark, 1, run);
	sqlite3_bind_int(p->spark, 2, SPARK_POINTS);
	while ((rc = sqlite3_step(p->spark)) == SQLITE_ROW && n <= SPARK_POINTS) {
		y[n] = sqlite3_column_double(p->spark, 0);
		low = fmin(low, y[n]);
		high = fmax(high, y[n]);
		n++;
	}
	sqlite3_reset(p->spark);
	if (rc != SQLITE_DONE && rc != SQLITE_ROW)
		return database_error(p->s, rc);
	if (n < 2)
		return NULL;
	fprintf(p->f,
		"<svg class=\"spark\" viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"by epoch\">"
		"<polyline points=\"",
		SPARK_WIDE, SPARK_HIGH);
	for (int i = 0; i < n; i++)
		fprintf(p->f, "%s%.4g,%.3g", i ? " " : "", (double)SPARK_WIDE * i / (n - 1),
			1 + (SPARK_HIGH - 2) * (high > low && isfinite(y[i])
							? (high - y[i]) / (high - low)
							: 0.5));
	fputs("\"/></svg>", p->f);
	return NULL;
}

/* ---- Queries ------------------------------------------------------------- */

char *page_each(struct report *p, const char *sql, const char *param,
		char *(*row)(struct report *p, sqlite3_stmt *q, void *ctx), void *ctx)
{
	sqlite3_stmt *q = NULL;
	char *wrong = NULL;
	int rc = sqlite3_prepare_v2(p->s->db, sql, -1, &q, NULL);

	if (rc == SQLITE_OK && param)
		rc = sqlite3_bind_text(q, 1, param, -1, SQLITE_TRANSIENT);
	while (rc == SQLITE_OK && !wrong && (rc = sqlite3_step(q)) == SQLITE_ROW) {
		wrong = row(p, q, ctx);
		rc = SQLITE_OK;
	}
	if (!wrong && rc != SQLITE_DONE)
		wrong = database_error(p->s, rc);
	sqlite3_finalize(q);
	return wrong;
}

static int column(sqlite3_stmt *q, const char *name)
{
	for (int i = 0; i < sqlite3_column_count(q); i++)
		if (strcmp(sqlite3_column_name(q, i), name) == 0)
			return i;
	CHECK(false, "plots/report.sql gives no column %s", name);
	return -1;
}

const char *cell_text(sqlite3_stmt *q, const char *name)
{
	const char *text = (const char *)sqlite3_column_text(q, column(q, name));

	return text ? text : "";
}

double cell_number(sqlite3_stmt *q, const char *name)
{
	int i = column(q, name);

	return sqlite3_column_type(q, i) == SQLITE_NULL ? NAN : sqlite3_column_double(q, i);
}
