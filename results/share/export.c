/*
 * export.c - `mvbench export`: results for other programs. CSV and JSON Lines are one table in one
 * file; TensorBoard and MLflow read a folder, which is written run by run (export_tensorboard.c,
 * export_mlflow.c).
 */
#include "results/db/select.h"
#include "results/share/share.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct export_options {
	const char *db, *where, *label, *format, *table, *out;
};

#define OWNER struct export_options

static const struct option options[] = {
	SELECT_OPTIONS(, "where results are", ""),
	OPTION(format, CHOICE, "format", "csv",
	       "csv: RFC 4180; jsonl: one JSON object per line; the others are folders [name]",
	       .choices = "csv|jsonl|tensorboard|mlflow"),
	OPTION(table, CHOICE, "table", "runs",
	       "table for csv and jsonl; runs has the recorded columns and the figures of "
	       "run_summary [name]",
	       .choices = "runs|options|epochs|values|evaluations|ranks|shards|staleness|arrivals|"
			  "events"),
	OPTION(out, STRING, "out", "", "output file (empty: standard output) or folder [path]"),
	{.name = NULL},
};

/* These read run_summary, which database_choose restricts to the selected runs. */
TEXT_FILE(table_runs_sql, "results/share/table_runs.sql");
TEXT_FILE(runs_sql, "results/share/runs.sql");
TEXT_FILE(epochs_sql, "results/share/epochs.sql");
TEXT_FILE(values_sql, "results/share/values.sql");

static const struct {
	const char *name, *table;
} tables[] = {
	{"options", "run_option"}, {"epochs", "epoch"},
	{"ranks", "rank_epoch"},   {"evaluations", "evaluation"},
	{"shards", "shard"},       {"staleness", "staleness"},
	{"values", "epoch_value"}, {"arrivals", "arrival"},
	{"events", "event"},       {"places", "rank"},
};

/* ---- Files and folders ------------------------------------------------------ */

char *export_name(const char *text)
{
	char *name = must(strdup(*text ? text : "-"));
	for (char *c = name; *c; c++)
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.",
			    *c) ||
		    (*c == '.' && c == name))
			*c = '-';
	if (strlen(name) > 120)
		name[120] = '\0';
	return name;
}

char *export_folder(const char *path)
{
	int failed = folder_make(path);
	if (failed == ENOTDIR)
		return sentence("--out: %s is not a folder", path);
	return failed ? sentence("--out: the folder %s cannot be made (%s)", path, strerror(failed))
		      : NULL;
}

/* ---- One table in one file -------------------------------------------------- */

static char *export_table(struct store *s, const struct export_options *o)
{
	enum format format = strcmp(o->format, "csv") == 0 ? FORMAT_CSV : FORMAT_JSON;
	char *sql AUTOFREE = NULL;
	struct output out;
	TRY(output_open(&out, "--out=", o->out));
	for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
		if (strcmp(tables[i].name, o->table) == 0)
			sql = sentence("SELECT * FROM %s WHERE run_id IN (SELECT id FROM "
				       "run_summary) ORDER BY 1, 2, 3, 4",
				       tables[i].table);
	return output_close(
		&out, query_print(s, out.f, format, sql ? sql : table_runs_sql, NULL, 0, NULL));
}

/* ---- A folder of runs -------------------------------------------------------- */

static char *export_runs(struct store *s, const struct export_options *o, export_function *exporter)
{
	TRY(export_folder(o->out));
	struct sql row AUTODONE = sql_select(s, runs_sql, "");
	struct sql epochs AUTODONE = sql_select(s, epochs_sql, "");
	struct sql values AUTODONE = sql_select(s, values_sql, "");
	int64_t n = 0;

	for (; sql_next(&row); n++) {
		sql_again(&epochs, "i", sql_int(&row, RUN_ID));
		sql_again(&values, "i", sql_int(&row, RUN_ID));
		TRY(exporter(o->out, s, &row, &epochs, &values));
	}
	TRY(sql_done(&row));
	TRY(sql_done(&epochs));
	TRY(sql_done(&values));
	printf("%s: %lld run%s\n", o->out, (long long)n, plural(n));
	return NULL;
}

/* ---- The command -------------------------------------------------------------- */

static char *run_export(void *options_given, struct arguments *rest, int *status)
{
	const struct export_options *o = options_given;
	bool tensorboard = strcmp(o->format, "tensorboard") == 0;
	bool folder = tensorboard || strcmp(o->format, "mlflow") == 0;
	struct store *s AUTOCLOSE = NULL;
	(void)rest;
	if (folder && !*o->out)
		return sentence("--format=%s: give a folder, as in --out=%s", o->format,
				tensorboard ? "runs" : "mlruns");
	TRY(store_open(&s, o->db, STORE_READ));
	TRY(database_choose(s, o->where, o->label, true));
	*status = EXIT_FAILED;
	TRY(folder ? export_runs(s, o, tensorboard ? tensorboard_run : mlflow_run)
		   : export_table(s, o));
	*status = EXIT_OK;
	return NULL;
}

const struct command command_export = {
	.name = "export",
	.summary = "write results for other programs",
	.usage = "[--option=value ...]",
	.about = "Writes one table of results as CSV or JSON Lines, with all digits; or a folder "
		 "that TensorBoard (--logdir) or MLflow (--backend-store-uri) opens, with the "
		 "figures of every epoch. Exporting again into a folder writes the same files "
		 "again.",
	.options = options,
	.size = sizeof(OWNER),
	.example = "--out=runs.csv",
	.run = run_export,
};
