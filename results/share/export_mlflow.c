/*
 * export_mlflow.c - a run as a folder of MLflow's file store (mlflow/store/tracking/file_store.py):
 *
 *      FOLDER/EXPERIMENT/meta.yaml
 *      FOLDER/EXPERIMENT/RUN/meta.yaml
 *                           /params/NAME     the value
 *                           /metrics/NAME    a line an epoch: time [ms], value, epoch
 *                           /tags/NAME       the value
 *
 * An experiment is a workload. The names of both are hashes: exporting again writes the same files.
 */
#include "results/share/share.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* MLflow's words for how a run stands. */
enum { RUNNING = 1, SCHEDULED = 2, FINISHED = 3, FAILED = 4 };

static const char *text_of(sqlite3_stmt *q, int i)
{
	const char *text = (const char *)sqlite3_column_text(q, i);

	return text ? text : "";
}

static int64_t milliseconds(sqlite3_stmt *q, int i)
{
	return (int64_t)(1000 * sqlite3_column_double(q, i));
}

/* One value in a file of its own. A parameter is one line: what ends a line is shown. */
static char *put_value(const char *folder, const char *kind, const char *name, const char *value)
{
	char *safe = export_name(name), *path = sentence("%s/%s/%s", folder, kind, safe),
	     *wrong = NULL;
	FILE *f = export_open(path, &wrong);

	for (; f && *value; value++) {
		bool ends = *value == '\n' || *value == '\r';
		if (ends && strcmp(kind, "params") == 0)
			fputs(*value == '\n' ? "\\n" : "\\r", f);
		else
			fputc(*value, f);
	}
	if (f)
		wrong = export_close(f, path);
	free(path);
	free(safe);
	return wrong;
}

/* What the run was told, and what is known of it. */
static char *put_values(const char *folder, struct store *s, int64_t id)
{
	static const char tags_sql[] =
		"SELECT 'tags', key, atom FROM json_each((SELECT json_object('mvbench.run', id, "
		"'mvbench.label', label, 'mvbench.status', status, 'mvbench.reason', reason, "
		"'mvbench.config_hash', config_hash, 'mvbench.model_hash', model_hash, "
		"'mvbench.host', "
		"host, 'mvbench.cpu', cpu, 'mvbench.cores', cores, 'mvbench.gpu', gpu, "
		"'mvbench.driver', driver, 'mvbench.mpi', mpi, 'mvbench.onednn', onednn, "
		"'mvbench.cuda', cuda, 'mvbench.params', params, 'mvbench.origin', origin, "
		"'mvbench.origin_id', origin_id, 'mlflow.source.git.commit', git_commit) FROM run "
		"WHERE id = ?1))";
	static const char params_sql[] =
		"SELECT 'params', key, atom FROM run_summary AS s, json_each(config_key) WHERE "
		"s.id = ?1 "
		"AND key <> 'label' UNION ALL SELECT 'params', 'seed', seed FROM run WHERE id = ?1";
	const char *const sql[] = {params_sql, tags_sql};
	char *wrong = NULL;

	for (int i = 0; i < 2 && !wrong; i++) {
		sqlite3_stmt *q = NULL;
		int rc = sqlite3_prepare_v2(s->db, sql[i], -1, &q, NULL);
		sqlite3_bind_int64(q, 1, id);
		while (rc == SQLITE_OK && !wrong && (rc = sqlite3_step(q)) == SQLITE_ROW) {
			if (*text_of(q, 2))
				wrong = put_value(folder, text_of(q, 0), text_of(q, 1),
						  text_of(q, 2));
			rc = SQLITE_OK;
		}
		sqlite3_finalize(q);
		if (!wrong && rc != SQLITE_DONE)
			wrong = database_error(s, rc);
	}
	return wrong;
}

/* A file a figure: all of them are open together while the epochs go by. */
static char *put_metrics(const char *folder, struct store *s, sqlite3_stmt *epochs)
{
	int n = sqlite3_column_count(epochs), rc;
	FILE **f = must(calloc((size_t)n, sizeof(FILE *)));
	char *wrong = NULL;
	double x;

	while ((rc = sqlite3_step(epochs)) == SQLITE_ROW && !wrong)
		for (int i = EPOCH_FIGURES; i < n && !wrong; i++) {
			char *path =
				sentence("%s/metrics/%s", folder, sqlite3_column_name(epochs, i));
			bool there = export_figure(epochs, i, &x);
			if (there && !f[i])
				f[i] = export_open(path, &wrong);
			if (there && f[i])
				fprintf(f[i], "%lld %.17g %lld\n",
					(long long)milliseconds(epochs, EPOCH_TIME), x,
					(long long)sqlite3_column_int64(epochs, EPOCH_NUMBER));
			free(path);
		}
	for (int i = EPOCH_FIGURES; i < n; i++) {
		char *failed = f[i] ? export_close(f[i], folder) : NULL;
		if (wrong)
			free(failed);
		else
			wrong = failed;
	}
	free(f);
	if (!wrong && rc != SQLITE_DONE)
		wrong = database_error(s, rc);
	return wrong;
}

static char *put_experiment(const char *folder, const char *id, sqlite3_stmt *row)
{
	char *path = sentence("%s/meta.yaml", folder), *wrong = NULL;
	FILE *f = export_open(path, &wrong);

	if (f) {
		fputs("artifact_location: ", f);
		text_json(f, folder);
		fprintf(f, "\nexperiment_id: '%s'\nlifecycle_stage: active\nname: ", id);
		text_json(f, text_of(row, RUN_WORKLOAD));
		fputc('\n', f);
		wrong = export_close(f, path);
	}
	free(path);
	return wrong;
}

static int status_of(const char *status)
{
	return strcmp(status, "done") == 0      ? FINISHED
	       : strcmp(status, "running") == 0 ? RUNNING
	       : strcmp(status, "pending") == 0 ? SCHEDULED
						: FAILED;
}

static char *put_run(const char *folder, const char *experiment, const char *id, sqlite3_stmt *row)
{
	char *path = sentence("%s/meta.yaml", folder),
	     *artifacts = sentence("%s/artifacts", folder);
	char *wrong = NULL;
	FILE *f = export_open(path, &wrong);

	if (f) {
		fputs("artifact_uri: ", f);
		text_json(f, artifacts);
		fprintf(f, "\nend_time: ");
		if (sqlite3_column_type(row, RUN_FINISHED) == SQLITE_NULL)
			fputs("null", f);
		else
			fprintf(f, "%lld", (long long)milliseconds(row, RUN_FINISHED));
		fprintf(f,
			"\nentry_point_name: ''\nexperiment_id: '%s'\nlifecycle_stage: active\n"
			"run_id: %s\nrun_name: ",
			experiment, id);
		text_json(f, text_of(row, RUN_NAME));
		fprintf(f,
			"\nrun_uuid: %s\nsource_name: mvbench\nsource_type: 4\nsource_version: ''\n"
			"start_time: %lld\nstatus: %d\ntags: []\nuser_id: ''\n",
			id, (long long)milliseconds(row, RUN_STARTED),
			status_of(text_of(row, RUN_STATUS)));
		wrong = export_close(f, path);
	}
	free(artifacts);
	free(path);
	return wrong;
}

char *mlflow_run(const char *folder, struct store *s, sqlite3_stmt *row, sqlite3_stmt *epochs)
{
	static const char *const parts[] = {"params", "metrics", "tags", "artifacts"};
	uint64_t h[2];
	char experiment[32], id[40], *wrong = NULL;
	char *root = realpath(folder, NULL); /* MLflow wants to know where it is */

	export_hash(text_of(row, RUN_WORKLOAD), h);
	snprintf(experiment, sizeof(experiment), "%" PRIu64, h[0] % UINT64_C(1000000000000000000));
	export_hash(text_of(row, RUN_KEY), h);
	snprintf(id, sizeof(id), "%016" PRIx64 "%016" PRIx64, h[0], h[1]);
	char *of = sentence("%s/%s", root ? root : folder, experiment),
	     *own = sentence("%s/%s", of, id);
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts) && !wrong; i++) {
		char *part = sentence("%s/%s", own, parts[i]);
		wrong = export_folder(part);
		free(part);
	}
	if (!wrong)
		wrong = put_experiment(of, experiment, row);
	if (!wrong)
		wrong = put_run(own, experiment, id, row);
	if (!wrong)
		wrong = put_values(own, s, sqlite3_column_int64(row, RUN_ID));
	if (!wrong)
		wrong = put_value(own, "tags", "mlflow.runName", text_of(row, RUN_NAME));
	if (!wrong)
		wrong = put_metrics(own, s, epochs);
	free(own);
	free(of);
	free(root);
	return wrong;
}
