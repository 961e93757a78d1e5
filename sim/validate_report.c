/*
 * validate_report.c - prints the differences between simulated and real cells, and compares them
 * with thresholds. The view `validation` (statistics.sql) computes the errors; validate.sql
 * collects them.
 *
 * The q-th percentile of n errors is the smallest that ceil(q n / 100) of them do not exceed.
 */
#include "sim/validate.h"

#include "results/db/column.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

TEXT_FILE(cells_sql, "sim/validate.sql");

#define SHARE(x)   ROUND("%.1f", "100 * (" x ")")
#define SIGNED(x)  ROUND("%+.1f", "100 * (" x ")")
#define SECONDS(x) ROUND("%.4g", x)

static const struct column cell_columns[] = {
	PLAIN("cell"),
	HIDDEN("workload"),
	HIDDEN("strategy"),
	HIDDEN("workers"),
	HIDDEN("servers"),
	HIDDEN("sync_every"),
	HIDDEN("batch"),
	HIDDEN("seed"),
	HIDDEN("oversubscribed"),
	PLAIN("n"),
	SHOWN("real_s", "real s", SECONDS("real_s")),
	SHOWN("real_low", "spread %",
	      "iif(n > 1, " SHARE("(real_high - real_low) / real_s") ", NULL)"),
	HIDDEN("real_high"),
	SHOWN("simulated_s", "sim s", SECONDS("simulated_s")),
	SHOWN("time_error", "error %", SIGNED("time_error")),
	SHOWN("real_comm_s", "real comm s", SECONDS("real_comm_s")),
	SHOWN("simulated_comm_s", "sim comm s", SECONDS("simulated_comm_s")),
	SHOWN("comm_error", "comm error %", SIGNED("comm_error")),
	HIDDEN("real_compute_s"),
	HIDDEN("simulated_compute_s"),
	HIDDEN("compute_error"),
	SHOWN("real_share", "real comm %", SHARE("real_share")),
	SHOWN("simulated_share", "sim comm %", SHARE("simulated_share")),
	SHOWN("share_error", "points", SIGNED("share_error")),
	SHOWN("staleness_distance", "staleness %", SHARE("staleness_distance")),
	SHOWN("real_loss", "real loss", ROUND("%.4f", "real_loss")),
	SHOWN("simulated_loss", "sim loss", ROUND("%.4f", "simulated_loss")),
	SHOWN("loss_error", "loss error %", SIGNED("loss_error")),
	HIDDEN("cores_share"),
	SHOWN("restless", "", "CASE WHEN busy THEN 'busy' WHEN restless THEN 'noisy' ELSE '' END"),
	HIDDEN("busy"),
	{.name = NULL},
};

static const struct column summary_columns[] = {
	SHOWN("measure", "error of",
	      "CASE place WHEN 1 THEN 'epoch time [%]' WHEN 2 THEN 'communication time [%]'\n"
	      "WHEN 3 THEN 'communication share [points]'\n"
	      "WHEN 4 THEN 'staleness histogram [% of pushes]' ELSE 'final test loss [%]' END"),
	SHOWN("ranks", "ranks", NULL),
	PLAIN("cells"),
	SHOWN("median", "median", PERCENT("median")),
	SHOWN("p90", "90th percentile", PERCENT("p90")),
	SHOWN("worst", "worst", PERCENT("worst")),
	SHOWN("worst_cell", "in", NULL),
	{.name = NULL},
};

struct report {
	struct store *store;
	FILE *f;
	enum format format;
	bool printed; /* something, so the next part begins with a blank line */
};

struct verdict {
	double all, on_cores, excluded, missing; /* cells */
	/* Errors [%]; NaN = none counts: of epoch times, of one rank or of several, whichever is
	 * worse; of communication and waiting where they are 5 % of the epoch or more. */
	double median, p90, comm_median, comm_p90;
};

static char *print(struct report *r, FILE *f, enum format format, const struct column *columns,
		   const char *from)
{
	if (r->printed && for_people(format))
		fputc('\n', f);
	r->printed = true;
	return columns_print(r->store, f, format, columns, from, NULL, NULL);
}

static char *print_cells(struct report *r, const struct verdict *v)
{
	if (!for_people(r->format))
		return print(r, r->f, r->format, cell_columns, "named");
	if (v->on_cores > 0)
		TRY(print(r, r->f, r->format, cell_columns, "named WHERE NOT oversubscribed"));
	if (v->all == v->on_cores)
		return NULL;
	fprintf(r->f,
		"%sOversubscribed: with more workers than cores real times are unreliable; these "
		"cells do not count.\n",
		r->printed ? "\n" : "");
	r->printed = true;
	return print(r, r->f, r->format, cell_columns, "named WHERE oversubscribed");
}

/* Does the simulation say which strategy is the fastest? */
static char *print_ranking(struct report *r)
{
	double x[2];
	TRY(sql_reals(r->store, x, 2, "SELECT settings, agreed FROM ranking", ""));
	if (x[0] == 0 || r->format == FORMAT_CSV)
		return NULL;
	if (!for_people(r->format))
		return query_print(r->store, r->f, r->format,
				   "SELECT settings, agreed FROM ranking", NULL, 0, NULL);
	fprintf(r->f,
		"\nThe strategy that is the fastest simulated is the fastest real one, or within "
		"3 %% of it, in %.0f of %.0f settings.\n",
		x[1], x[0]);
	return NULL;
}

/* Everything except the table of cells; a csv file has one table. */
static char *print_rest(struct report *r, const struct verdict *v)
{
	bool rounded = for_people(r->format), json = r->format == FORMAT_JSON;
	if (v->on_cores > v->excluded)
		TRY(print(r, rounded || json ? r->f : stderr,
			  rounded || json ? r->format : FORMAT_TEXT, summary_columns,
			  "summary ORDER BY ranks = 'one', place"));
	TRY(print_ranking(r));
	if (v->missing == 0)
		return NULL;
	FILE *f = rounded ? r->f : stderr;
	fputs(r->printed ? "\n" : "", f);
	return query_print(r->store, f, rounded ? r->format : FORMAT_TEXT,
			   "SELECT cell AS 'not compared', real, simulated FROM missing", NULL, 0,
			   NULL);
}

static bool is_past(const char *what, const char *of, double error, const char *option,
		    double threshold)
{
	if (error > threshold)
		fprintf(stderr, "mvbench: the %s of %s, %.2f %%, is above --threshold-%s=%g\n",
			what, of, error, option, threshold);
	return error > threshold;
}

static bool is_past_any(const struct verdict *v, const struct validate_flags *f)
{
	if (v->missing > 0)
		fprintf(stderr, "mvbench: %.0f cell%s could not be compared\n", v->missing,
			plural((int64_t)v->missing));
	if (v->all > 0 && v->on_cores == 0)
		fprintf(stderr, "mvbench: every cell is oversubscribed: no threshold applies\n");
	if (v->excluded > 0)
		fprintf(stderr,
			"mvbench: %.0f of %.0f cells are excluded. Noisy: a real run differs from "
			"the median of its rounds by more than --threshold-p90=%g %%, or the "
			"calibrations around the runs do. Busy: others used the cores of a worker "
			"for more than %g %% of its time.\n",
			v->excluded, v->on_cores, f->p90, f->p90 / 2);
	static const char median[] = "median error", p90[] = "90th percentile of the errors",
			  epochs[] = "epoch times", comm[] = "communication times";
	bool past = is_past(median, epochs, v->median, "median", f->median);
	past |= is_past(p90, epochs, v->p90, "p90", f->p90);
	past |= is_past(median, comm, v->comm_median, "comm-median", f->comm_median);
	past |= is_past(p90, comm, v->comm_p90, "comm-p90", f->comm_p90);
	return past || v->missing > 0 || 2 * v->excluded > v->on_cores;
}

char *validate_report(const char *db, const char *label, const char *cells,
		      const struct validate_flags *f, FILE *out, bool *past)
{
	struct store *s AUTOCLOSE = NULL;
	struct report r = {.f = out, .format = format_of(f->format)};
	struct verdict v;
	double x[8];
	TRY(store_open(&s, db, STORE_READ));
	TRY(sql_change(s, cells_sql, "ttr", label, cells, f->p90 / 100));
	TRY(sql_reals(s, x, 8,
		      "SELECT count(*), count(*) FILTER (WHERE NOT oversubscribed), "
		      "count(*) FILTER (WHERE NOT oversubscribed AND excluded), "
		      "(SELECT count(*) FROM missing), "
		      "(SELECT 100 * max(median) FROM summary WHERE place = 1), "
		      "(SELECT 100 * max(p90) FROM summary WHERE place = 1), "
		      "(SELECT 100 * max(median) FROM summary WHERE place = 2), "
		      "(SELECT 100 * max(p90) FROM summary WHERE place = 2) FROM named",
		      ""));
	r.store = s;
	v = (struct verdict){x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]};
	if (v.all == 0 && strcmp(f->only, "report") == 0)
		return sentence("%s has no cell with the label \"%s\" that was run both real and "
				"simulated: mvbench validate --db=%s runs some",
				db, label, db);
	if (v.all > 0)
		TRY(print_cells(&r, &v));
	TRY(print_rest(&r, &v));
	*past = is_past_any(&v, f);
	return NULL;
}
