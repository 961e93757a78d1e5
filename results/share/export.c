/*
 * export.c - `mvbench export`: one table of results for other programs, as CSV or JSON Lines.
 */
#include "results/db/select.h"
#include "runtime/cli/cli.h"

#include <stdlib.h>
#include <string.h>

struct export_options {
	const char *db, *where, *label, *format, *table, *out;
};

/* The choices of --table beside runs, and the tables that they write. */
#define TABLES(X) \
	X(options, run_option) \
	X(epochs, epoch) \
	X(values, epoch_value) \
	X(evaluations, evaluation) \
	X(ranks, rank_epoch) \
	X(shards, shard) \
	X(staleness, staleness) \
	X(arrivals, arrival) \
	X(events, event) \
	X(places, rank)
#define CHOICE_OF(name, table) "|" #name
#define ROW_OF(name, table)    {#name, #table},

#define OWNER struct export_options

static const struct option options[] = {
	SELECT_OPTIONS(, "where results are", ""),
	OPTION(format, CHOICE, "format", "csv",
	       "csv: RFC 4180; jsonl: one JSON object per line [name]", .choices = "csv|jsonl"),
	OPTION(table, CHOICE, "table", "runs",
	       "table to write; runs has the recorded columns and the figures of "
	       "run_summary; places: where each process ran [name]",
	       .choices = "runs" TABLES(CHOICE_OF)),
	OPTION(out, STRING, "out", "", "output file (empty: standard output) [file]"),
	{.name = NULL},
};

/* It reads run_summary, which database_choose restricts to the selected runs. */
TEXT_FILE(table_runs_sql, "results/share/table_runs.sql");

static const struct {
	const char *name, *table;
} tables[] = {TABLES(ROW_OF)};

static char *run_export(void *options_given, struct arguments *rest, int *status)
{
	const struct export_options *o = options_given;
	enum format format = strcmp(o->format, "csv") == 0 ? FORMAT_CSV : FORMAT_JSON;
	char *sql AUTOFREE = NULL;
	struct store *s AUTOCLOSE = NULL;
	struct output out;
	(void)rest;
	TRY(store_open(&s, o->db, STORE_READ));
	TRY(database_choose(s, o->where, o->label, true));
	for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
		if (strcmp(tables[i].name, o->table) == 0)
			sql = sentence("SELECT * FROM %s WHERE run_id IN (SELECT id FROM "
				       "run_summary) ORDER BY 1, 2, 3, 4",
				       tables[i].table);
	TRY(output_open(&out, "--out=", o->out));
	return output_end(&out,
			  query_print(s, out.f, format, sql ? sql : table_runs_sql, NULL, 0, NULL),
			  status);
}

const struct command command_export = {
	.name = "export",
	.summary = "write results for other programs",
	.usage = "[--option=value ...]",
	.about = "Writes one table of results as CSV or JSON Lines, with all digits.",
	.options = options,
	.size = sizeof(OWNER),
	.example = "--out=runs.csv",
	.run = run_export,
	.interrupted = STARTS_AGAIN,
};
