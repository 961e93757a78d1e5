/*
 * validate_report.c - how far simulated cells are from real ones, printed, and held to thresholds.
 * The errors are arithmetic of the view `validation` (schema.sql); validate.sql puts them together.
 *
 * The q-th percentile of n errors is the smallest that ceil(q n / 100) of them do not exceed.
 */
#include "sim/validate.h"

#include "results/db/db.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

TEXT_FILE(cells_sql, "sim/validate.sql");

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
	char *sql AUTOFREE = sentence("%sSELECT", cells_sql);
	const char *comma = "";
	for (const struct column *c = columns; c->name; c++) {
		if (rounded && !c->head)
			continue;
		char *before AUTOFREE = sql;
		sql = rounded ? sentence("%s%s %s AS \"%s\"", before, comma,
					 c->shown ? c->shown : c->name, c->head)
			      : sentence("%s%s %s", before, comma, c->name);
		comma = ",\n";
	}
	return sentence("%s\nFROM %s", sql, from);
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
	char *sql AUTOFREE = query_text(columns, from, is_rounded(format));
	if (r->printed && is_rounded(format))
		fputc('\n', f);
	r->printed = true;
	return query_print(r->store, f, format, sql, r->param, 2, NULL);
}

static char *print_cells(struct report *r, const struct verdict *v)
{
	if (!is_rounded(r->format))
		return print(r, r->f, r->format, cell_columns, "named");
	if (v->counted > 0)
		TRY(print(r, r->f, r->format, cell_columns, "named WHERE NOT apart"));
	if (v->all == v->counted)
		return NULL;
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
	bool rounded = is_rounded(r->format), json = r->format == FORMAT_JSON;
	if (v->counted > 0)
		TRY(print(r, rounded || json ? r->f : stderr,
			  rounded || json ? r->format : FORMAT_TEXT, summary_columns,
			  "summary ORDER BY place"));
	if (v->missing == 0)
		return NULL;
	return print(r, rounded ? r->f : stderr, rounded ? r->format : FORMAT_TEXT, missing_columns,
		     "missing");
}

static bool is_past(const char *what, double error, const char *option, double threshold)
{
	if (error > threshold)
		fprintf(stderr,
			"mvbench: the %s of epoch times, %.2f %%, is past --threshold-%s=%g\n",
			what, error, option, threshold);
	return error > threshold;
}

static int hold_to(const struct verdict *v, const struct validate_flags *f)
{
	if (v->missing > 0)
		fprintf(stderr, "mvbench: %.0f cell%s could not be compared\n", v->missing,
			plural((int64_t)v->missing));
	if (v->all > 0 && v->counted == 0)
		fprintf(stderr, "mvbench: every cell is oversubscribed: no threshold applies\n");
	bool median = is_past("median error", v->median, "median", f->median);
	bool p90 = is_past("90th percentile of the errors", v->p90, "p90", f->p90);
	return median || p90 || v->missing > 0 ? EXIT_FAILED : EXIT_OK;
}

static char *find_verdict(struct report *r, struct verdict *v)
{
	char *sql AUTOFREE =
		sentence("%s%s", cells_sql,
			 "SELECT count(*), count(*) FILTER (WHERE NOT apart),\n"
			 "	(SELECT count(*) FROM missing),\n"
			 "	(SELECT 100 * median FROM summary WHERE place = 1),\n"
			 "	(SELECT 100 * p90 FROM summary WHERE place = 1) FROM named");
	double x[5];
	TRY(sql_reals(r->store, x, 5, sql, "tt", r->param[0], r->param[1]));
	*v = (struct verdict){x[0], x[1], x[2], x[3], x[4]};
	return NULL;
}

static char *print_report(struct report *r, struct verdict *v, const char *db, bool wanted)
{
	TRY(store_open(&r->store, db, STORE_READ));
	TRY(find_verdict(r, v));
	if (v->all == 0 && wanted)
		return sentence("%s has no cell with the label \"%s\" that was run both real and "
				"simulated: mvbench validate --db=%s runs some",
				db, r->param[0], db);
	if (v->all > 0)
		TRY(print_cells(r, v));
	return print_rest(r, v);
}

int validate_report(const char *db, const char *label, const char *cells,
		    const struct validate_flags *f, FILE *out)
{
	struct report r = {.f = out, .param = {label, cells}};
	struct verdict v;
	CHECK(format_find(f->format, &r.format), "no format %s", f->format);
	char *wrong = print_report(&r, &v, db, strcmp(f->only, "report") == 0);
	store_close(r.store);
	return wrong ? complain(wrong) : hold_to(&v, f);
}
