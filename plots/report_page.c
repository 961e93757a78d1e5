/*
 * report_page.c - parts of a report page. Text from the database goes through text_xml; the
 * drawings went through gnuplot's own escapes.
 */
#include "plots/report.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { SPARK_POINTS = 40, SPARK_WIDE = 110, SPARK_HIGH = 24 };

/* ---- Text ---------------------------------------------------------------- */

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
			text_xml(p->f, va_arg(args, const char *));
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
	static const char *const fmts[] = {
		[FIGURE_COUNT] = "%.0f",   [FIGURE_PERCENT] = "%.2f", [FIGURE_LOSS] = "%.4g",
		[FIGURE_SECONDS] = "%.4g", [FIGURE_FACTOR] = "%.2f",  [FIGURE_RATE] = "%.0f"};
	const char *fmt = kind == FIGURE_SECONDS && fabs(x) >= 1000 ? "%.0f" : fmts[kind];
	if (isinf(x))
		snprintf(buf, 40, kind == FIGURE_SECONDS ? "not reached" : "diverged");
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
		fprintf(p->f, "<td class=\"n\" data-v=\"%sInfinity\">%s", x < 0 ? "-" : "", text);
	else
		fprintf(p->f, "<td class=\"n\" data-v=\"%.9g\">%s", x, text);
	if (!isnan(low) && !isnan(high)) {
		number_text(kind, low, from);
		number_text(kind, high, to);
		fprintf(p->f, " <span class=\"range\">%s–%s</span>", from, to);
	}
	fputs("</td>", p->f);
}

void page_table(struct report *p, const char *label, const char *heads)
{
	page_print(p,
		   "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"%s\"><table>"
		   "<thead><tr>",
		   label);
	for (const char *end; *heads; heads = end + (*end == '|')) {
		bool number = *heads == '#';
		end = heads + strcspn(heads, "|");
		heads += number;
		fprintf(p->f, "<th scope=\"col\"%s>%.*s</th>", number ? " class=\"n\"" : "",
			(int)(end - heads), heads);
	}
	fputs("</tr></thead>\n<tbody>\n", p->f);
}

/* Every k-th point, and the last one. */
void page_spark(struct report *p, int64_t run)
{
	double y[SPARK_POINTS + 1], low = INFINITY, high = -INFINITY;
	int n = 0;
	sql_again(&p->spark, "ii", run, (int64_t)SPARK_POINTS);
	for (; n <= SPARK_POINTS && sql_next(&p->spark); n++) {
		y[n] = sql_real(&p->spark, 0);
		low = fmin(low, y[n]);
		high = fmax(high, y[n]);
	}
	if (n < 2)
		return;
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
}

/* ---- Queries ------------------------------------------------------------- */

static int column(const struct sql *q, const char *name)
{
	for (int i = 0; i < sql_columns(q); i++)
		if (strcmp(sql_name(q, i), name) == 0)
			return i;
	CHECK(false, "plots/report.sql gives no column %s", name);
	return -1;
}

const char *cell_text(const struct sql *q, const char *name)
{
	return sql_text(q, column(q, name));
}

double cell_number(const struct sql *q, const char *name)
{
	return sql_real(q, column(q, name));
}
