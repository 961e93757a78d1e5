/*
 * export_mlflow.c - a run as a folder of MLflow's file store (mlflow/store/tracking/file_store.py):
 *
 *      FOLDER/EXPERIMENT/meta.yaml
 *      FOLDER/EXPERIMENT/RUN/meta.yaml
 *                           /params/NAME     the value
 *                           /metrics/NAME    a line for each epoch: time [ms], value, epoch
 *                           /tags/NAME       the value
 *
 * An experiment is a workload. EXPERIMENT and RUN are hashes: exporting again writes the same
 * files.
 */
#include "results/share/share.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

TEXT_FILE(mlflow_sql, "results/share/mlflow.sql");

static int64_t milliseconds(const struct sql *q, int i)
{
	return (int64_t)(1000 * sql_real(q, i));
}

/* Writes one value into its own file. A parameter is one line: line ends are escaped. */
static char *put_value(const char *folder, const char *kind, const char *name, const char *value)
{
	char *safe AUTOFREE = export_name(name);
	char *path AUTOFREE = sentence("%s/%s/%s", folder, kind, safe);
	struct output out;
	TRY(output_open(&out, "", path));
	for (const char *c = value; *c; c++) {
		bool ends = *c == '\n' || *c == '\r';
		if (ends && strcmp(kind, "params") == 0)
			fputs(*c == '\n' ? "\\n" : "\\r", out.f);
		else
			fputc(*c, out.f);
	}
	return output_close(&out, NULL);
}

/* The options of the run, and facts about it. */
static char *put_values(const char *folder, struct store *s, const struct sql *row)
{
	struct sql q AUTODONE =
		sql_select(s, mlflow_sql, "it", sql_int(row, RUN_ID), sql_text(row, RUN_NAME));
	while (sql_next(&q))
		TRY(put_value(folder, sql_text(&q, 0), sql_text(&q, 1), sql_text(&q, 2)));
	return sql_done(&q);
}

/* One file for each figure; all are open at once, because the rows are epochs. */
static char *put_metrics(const char *folder, struct sql *epochs)
{
	int n = sql_columns(epochs);
	struct output *out AUTOFREE = must(calloc((size_t)n, sizeof *out));
	char *wrong = NULL;
	while (!wrong && sql_next(epochs))
		for (int i = EPOCH_FIGURES; i < n && !wrong; i++) {
			double x = sql_real(epochs, i);
			char *path AUTOFREE =
				sentence("%s/metrics/%s", folder, sql_name(epochs, i));
			if (isfinite(x) && !out[i].f)
				wrong = output_open(&out[i], "", path);
			if (isfinite(x) && !wrong)
				fprintf(out[i].f, "%lld %.17g %lld\n",
					(long long)milliseconds(epochs, EPOCH_TIME), x,
					(long long)sql_int(epochs, EPOCH_NUMBER));
		}
	for (int i = EPOCH_FIGURES; i < n; i++)
		if (out[i].f)
			wrong = output_close(&out[i], wrong);
	return wrong;
}

/* The same for values that the strategy reported; rows are sorted by name. */
static char *put_reported(const char *folder, struct sql *values)
{
	struct output out = {.f = NULL};
	char *name AUTOFREE = NULL;
	while (sql_next(values)) {
		if (!name || strcmp(name, sql_text(values, VALUE_NAME)) != 0) {
			if (out.f)
				TRY(output_close(&out, NULL));
			free(name);
			name = must(strdup(sql_text(values, VALUE_NAME)));
			char *safe AUTOFREE = export_name(name);
			char *path AUTOFREE = sentence("%s/metrics/%s", folder, safe);
			TRY(output_open(&out, "", path));
		}
		fprintf(out.f, "%lld %.17g %lld\n", (long long)milliseconds(values, VALUE_TIME),
			sql_real(values, VALUE_VALUE), (long long)sql_int(values, VALUE_EPOCH));
	}
	if (out.f)
		TRY(output_close(&out, NULL));
	return NULL;
}

static char *open_meta(struct output *out, const char *folder)
{
	char *path AUTOFREE = sentence("%s/meta.yaml", folder);
	return output_open(out, "", path);
}

static char *put_experiment(const char *folder, const char *id, const struct sql *row)
{
	struct output out;
	TRY(open_meta(&out, folder));
	fputs("artifact_location: ", out.f);
	text_json(out.f, folder);
	fprintf(out.f, "\nexperiment_id: '%s'\nlifecycle_stage: active\nname: ", id);
	text_json(out.f, sql_text(row, RUN_WORKLOAD));
	fputc('\n', out.f);
	return output_close(&out, NULL);
}

static char *put_run(const char *folder, const char *experiment, const char *id,
		     const struct sql *row)
{
	char *artifacts AUTOFREE = sentence("%s/artifacts", folder);
	struct output out;
	TRY(open_meta(&out, folder));
	fputs("artifact_uri: ", out.f);
	text_json(out.f, artifacts);
	fprintf(out.f, "\nend_time: ");
	if (sql_null(row, RUN_FINISHED))
		fputs("null", out.f);
	else
		fprintf(out.f, "%lld", (long long)milliseconds(row, RUN_FINISHED));
	fprintf(out.f,
		"\nentry_point_name: ''\nexperiment_id: '%s'\nlifecycle_stage: active\n"
		"run_id: %s\nrun_name: ",
		experiment, id);
	text_json(out.f, sql_text(row, RUN_NAME));
	fprintf(out.f,
		"\nrun_uuid: %s\nsource_name: mvbench\nsource_type: 4\nsource_version: ''\n"
		"start_time: %lld\nstatus: %s\ntags: []\nuser_id: ''\n",
		id, (long long)milliseconds(row, RUN_STARTED), sql_text(row, RUN_STATUS));
	return output_close(&out, NULL);
}

/* Two hashes of a text, from two start values. */
static void hash_twice(const char *text, uint64_t h[2])
{
	h[0] = hash_of(HASH_START, text, strlen(text));
	h[1] = hash_of(UINT64_C(1099511628211), text, strlen(text));
}

static char *put_folder(const char *of, const char *experiment, const char *id, struct store *s,
			struct sql *row, struct sql *epochs, struct sql *values)
{
	static const char *const parts[] = {"params", "metrics", "tags", "artifacts"};
	char *own AUTOFREE = sentence("%s/%s", of, id);
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
		char *part AUTOFREE = sentence("%s/%s", own, parts[i]);
		TRY(export_folder(part));
	}
	TRY(put_experiment(of, experiment, row));
	TRY(put_run(own, experiment, id, row));
	TRY(put_values(own, s, row));
	TRY(put_reported(own, values));
	return put_metrics(own, epochs);
}

char *mlflow_run(const char *folder, struct store *s, struct sql *row, struct sql *epochs,
		 struct sql *values)
{
	uint64_t h[2];
	char experiment[32], id[40];
	char *root AUTOFREE = realpath(folder, NULL); /* MLflow stores the absolute path */
	hash_twice(sql_text(row, RUN_WORKLOAD), h);
	snprintf(experiment, sizeof(experiment), "%" PRIu64, h[0] % UINT64_C(1000000000000000000));
	hash_twice(sql_text(row, RUN_KEY), h);
	snprintf(id, sizeof(id), "%016" PRIx64 "%016" PRIx64, h[0], h[1]);
	char *of AUTOFREE = sentence("%s/%s", root ? root : folder, experiment);
	return put_folder(of, experiment, id, s, row, epochs, values);
}
