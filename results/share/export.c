/*
 * export.c - `mvbench export`: results for other programs. CSV and JSON Lines are one table in one
 * file; TensorBoard and MLflow get a folder, a run at a time (export_tensorboard.c,
 * export_mlflow.c).
 */
#include "results/share/share.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

extern const struct command command_export;

struct export_options {
	const char *db, *where, *label, *format, *table, *out;
};

#define FIELD(f) .offset = offsetof(struct export_options, f)

static const struct option options[] = {
	{.name = "db",
	 .type = OPT_STRING,
	 FIELD(db),
	 .def = DATABASE,
	 .help = "where results are [file]"},
	{.name = "where",
	 .type = OPT_STRING,
	 FIELD(where),
	 .def = "",
	 .help = "only runs for which this SQL condition holds; mvbench table --help lists the "
		 "columns [SQL]"},
	{.name = "label",
	 .type = OPT_STRING,
	 FIELD(label),
	 .def = "",
	 .help = "only runs with this label [text]"},
	{.name = "format",
	 .type = OPT_CHOICE,
	 FIELD(format),
	 .def = "csv",
	 .choices = "csv|jsonl|tensorboard|mlflow",
	 .help = "csv: RFC 4180; jsonl: one JSON object a line; the others are folders [name]"},
	{.name = "table",
	 .type = OPT_CHOICE,
	 FIELD(table),
	 .def = "runs",
	 .choices = "runs|options|epochs|ranks|staleness|arrivals|events",
	 .help = "which table, for csv and jsonl; runs has the figures of run_summary beside what "
		 "was recorded [name]"},
	{.name = "out",
	 .type = OPT_STRING,
	 FIELD(out),
	 .def = "",
	 .help = "what is written: a file, empty: standard output; or a folder [path]"},
	{.name = NULL},
};

/* ?1: the label; %s: the condition. */
#define CHOSEN "SELECT id FROM run_summary WHERE (?1 = '' OR label = ?1) AND (\n%s\n)"

static const struct {
	const char *name, *sql;
} tables[] = {
	{"runs", "SELECT r.*, s.config, s.config_key, s.epochs_done, s.test_accuracy, "
		 "s.best_test_accuracy, s.test_loss, s.train_loss, s.epoch_seconds, "
		 "s.samples_per_second, s.compute_fraction, s.comm_fraction, s.wait_fraction, "
		 "s.epoch_bytes, s.staleness_mean, s.staleness_max, s.dropped_fraction, "
		 "s.seconds_total FROM run AS r JOIN run_summary AS s USING (id) "
		 "WHERE r.id IN (" CHOSEN ") ORDER BY r.id"},
	{"options", "SELECT * FROM run_option WHERE run_id IN (" CHOSEN ") ORDER BY 1, 2, 3"},
	{"epochs", "SELECT * FROM epoch WHERE run_id IN (" CHOSEN ") ORDER BY 1, 2"},
	{"ranks", "SELECT * FROM rank_epoch WHERE run_id IN (" CHOSEN ") ORDER BY 1, 2, 3"},
	{"staleness", "SELECT * FROM staleness WHERE run_id IN (" CHOSEN ") ORDER BY 1, 2, 3"},
	{"arrivals", "SELECT * FROM arrival WHERE run_id IN (" CHOSEN ") ORDER BY 1, 2, 3, 4"},
	{"events", "SELECT * FROM event WHERE run_id IN (" CHOSEN ") ORDER BY 1, 2, 3"},
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
	char *each = must(strdup(path)), *wrong = NULL;
	struct stat st;

	for (char *c = each + 1; !wrong; c++) {
		char was = *c;
		if (was != '/' && was != '\0')
			continue;
		*c = '\0';
		if (mkdir(each, 0777) != 0 && errno != EEXIST)
			wrong = sentence("--out: the folder %s cannot be made (%s)", each,
					 strerror(errno));
		*c = was;
		if (was == '\0')
			break;
	}
	if (!wrong && (stat(path, &st) != 0 || !S_ISDIR(st.st_mode)))
		wrong = sentence("--out: %s is no folder", path);
	free(each);
	return wrong;
}

FILE *export_open(const char *path, char **wrong)
{
	FILE *f = fopen(path, "wb");

	if (!f)
		*wrong = sentence("%s cannot be written (%s)", path, strerror(errno));
	return f;
}

char *export_close(FILE *f, const char *path)
{
	bool bad = ferror(f) != 0;

	if ((fclose(f) != 0) | bad)
		return sentence("%s cannot be written (%s)", path, strerror(errno ? errno : EIO));
	return NULL;
}

void export_hash(const char *text, uint64_t h[2])
{
	h[0] = UINT64_C(14695981039346656037);
	h[1] = UINT64_C(1099511628211);
	for (int i = 0; i < 2; i++)
		for (const char *c = text; *c; c++)
			h[i] = (h[i] ^ (unsigned char)*c) * UINT64_C(1099511628211);
}

bool export_figure(sqlite3_stmt *epochs, int i, double *x)
{
	*x = sqlite3_column_double(epochs, i);
	return sqlite3_column_type(epochs, i) != SQLITE_NULL && isfinite(*x);
}

/* ---- One table in one file -------------------------------------------------- */

static char *chosen_sql(const char *format, const char *where)
{
	char *sql = sqlite3_mprintf(format, *where ? where : "1"), *copy = must(strdup(must(sql)));

	sqlite3_free(sql);
	return copy;
}

static char *export_table(struct store *s, const struct export_options *o)
{
	enum format format = strcmp(o->format, "csv") == 0 ? FORMAT_CSV : FORMAT_JSON;
	FILE *f = stdout;
	char *wrong = NULL;
	size_t i = 0;

	while (strcmp(tables[i].name, o->table) != 0)
		i++;
	if (*o->out && !(f = fopen(o->out, "wb")))
		return sentence("--out=%s: the file cannot be written (%s)", o->out,
				strerror(errno));
	char *sql = chosen_sql(tables[i].sql, o->where);
	wrong = query_print(s, f, format, sql, &o->label, 1, NULL);
	free(sql);
	if (f != stdout && fclose(f) != 0 && !wrong)
		wrong = sentence("--out=%s: the file cannot be written (%s)", o->out,
				 strerror(errno));
	return wrong;
}

/* ---- A folder of runs -------------------------------------------------------- */

static const char runs_sql[] =
	"SELECT id, id || '-' || config || '-seed' || seed, workload, status, "
	"ifnull(strftime('%%s', started), 0), strftime('%%s', finished), host, "
	"json_array(id, host, started, config_hash) FROM run_summary WHERE id IN (" CHOSEN
	") ORDER BY id";

static const char epochs_sql[] =
	"SELECT epoch, ifnull(strftime('%s', started), 0) + total(seconds) OVER (ORDER BY epoch), "
	"test_accuracy, train_accuracy, test_loss, train_loss, seconds, compute_s, comm_s, wait_s, "
	"bytes_sent, staleness_mean, staleness_max, pushes, dropped "
	"FROM epoch JOIN run ON id = run_id WHERE run_id = ?1 ORDER BY epoch";

static char *export_runs(struct store *s, const struct export_options *o, export_function *exporter)
{
	sqlite3_stmt *row = NULL, *epochs = NULL;
	char *sql = chosen_sql(runs_sql, o->where);
	char *wrong = export_folder(o->out);
	int64_t n = 0;
	int rc = sqlite3_prepare_v2(s->db, sql, -1, &row, NULL);

	if (rc == SQLITE_OK)
		rc = sqlite3_prepare_v2(s->db, epochs_sql, -1, &epochs, NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_bind_text(row, 1, o->label, -1, SQLITE_STATIC);
	for (; rc == SQLITE_OK && !wrong && (rc = sqlite3_step(row)) == SQLITE_ROW; n++) {
		sqlite3_bind_int64(epochs, 1, sqlite3_column_int64(row, RUN_ID));
		wrong = exporter(o->out, s, row, epochs);
		rc = sqlite3_reset(epochs);
	}
	if (!wrong && rc != SQLITE_DONE)
		wrong = database_error(s, rc);
	sqlite3_finalize(row);
	sqlite3_finalize(epochs);
	free(sql);
	if (!wrong)
		printf("%s: %lld run%s\n", o->out, (long long)n, n == 1 ? "" : "s");
	return wrong;
}

/* ---- The command -------------------------------------------------------------- */

static int export(const struct export_options *o)
{
	bool tensorboard = strcmp(o->format, "tensorboard") == 0;
	bool folder = tensorboard || strcmp(o->format, "mlflow") == 0;
	struct store *s = NULL;
	char *wrong = NULL;

	if (folder && !*o->out)
		wrong = sentence("--format=%s: a folder is wanted, as in --out=%s", o->format,
				 tensorboard ? "runs" : "mlruns");
	if (!wrong)
		wrong = store_open(&s, o->db, STORE_READ);
	if (!wrong)
		wrong = database_condition(s, o->where);
	if (wrong) {
		store_close(s);
		return complain(wrong);
	}
	wrong = folder ? export_runs(s, o, tensorboard ? tensorboard_run : mlflow_run)
		       : export_table(s, o);
	store_close(s);
	if (wrong)
		complain(wrong);
	return wrong ? EXIT_FAILED : EXIT_OK;
}

static int run_export(int argc, char **argv)
{
	struct arguments a;
	struct export_options o;
	char *wrong = arguments_read(&a, argc, argv, NULL);
	int status = EXIT_OK;

	if (wrong)
		return complain(wrong);
	option_default(options, &o);
	wrong = arguments_take(&a, options, &o);
	if (!wrong)
		wrong = arguments_refuse(&a, options);
	if (!wrong && !a.help && a.words)
		wrong = sentence("%s: export takes options only, such as --out=runs.csv",
				 a.word[0]);
	if (wrong)
		status = complain(wrong);
	else if (a.help)
		command_help(stdout, &command_export);
	else
		status = export(&o);
	arguments_free(&a);
	return status;
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
	.run = run_export,
};
