/*
 * table.c - `mvbench table`: the results as a table, one row a configuration (the medians over its
 * finished runs) or one row a run. The arithmetic is SQL: this file only puts columns together.
 */
#include "database.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct table_options {
	const char *db, *where, *format, *label, *out;
	bool runs;
};

#define FIELD(f) offsetof(struct table_options, f)

static const struct option options[] = {
	{.name = "db",
	 .type = OPT_STRING,
	 .offset = FIELD(db),
	 .def = DATABASE,
	 .help = "where results are [file]"},
	{.name = "where",
	 .type = OPT_STRING,
	 .offset = FIELD(where),
	 .def = "",
	 .help = "only runs for which this SQL condition on the columns below holds [SQL]"},
	{.name = "label",
	 .type = OPT_STRING,
	 .offset = FIELD(label),
	 .def = "",
	 .help = "only runs with this label [text]"},
	{.name = "format",
	 .type = OPT_CHOICE,
	 .offset = FIELD(format),
	 .def = "text",
	 .choices = "text|markdown|csv|json",
	 .help = "csv and json are not rounded [name]"},
	{.name = "runs",
	 .type = OPT_BOOL,
	 .offset = FIELD(runs),
	 .def = "false",
	 .help = "one row a run instead of one a configuration [yes or no]"},
	{.name = "out",
	 .type = OPT_STRING,
	 .offset = FIELD(out),
	 .def = "",
	 .help = "write the table there instead of on the terminal [file]"},
	{.name = NULL},
};

/* ---- Columns ------------------------------------------------------------- */

struct column {
	const char *name;  /* of the value, for csv and json; NULL = not there */
	const char *head;  /* for text and markdown; NULL = not there */
	const char *shown; /* what stands below that head, rounded; NULL = the value */
};

#define ROUND(fmt, x) "iif(" x " IS NULL, NULL, printf('" fmt "', " x "))"
#define PERCENT(x)    ROUND("%.2f", "100 * " x)
#define SHARE(x)      ROUND("%.0f", "100 * " x)
#define MEAN_AND_MOST(mean, most) \
	"iif(" mean " IS NULL, NULL, printf('%.2f (%d)', " mean ", " most "))"
#define SECONDS(x) "iif(" x " < 1000, printf('%.4g', " x "), " ROUND("%.0f", x) ")"

static const struct column configuration_columns[] = {
	{"workload", "workload", NULL},
	{"configuration", "configuration", NULL},
	{"strategy", NULL, NULL},
	{"workers", "workers", NULL},
	{"servers", NULL, NULL},
	{"sync_every", "X", NULL},
	{"n", "n", NULL},
	{"test_accuracy", "accuracy %", PERCENT("test_accuracy")},
	{"test_accuracy_min", "min..max",
	 "iif(n > 1 AND test_accuracy IS NOT NULL, "
	 "printf('%.2f..%.2f', 100 * test_accuracy_min, 100 * test_accuracy_max), NULL)"},
	{"test_accuracy_max", NULL, NULL},
	{"test_loss", "loss", ROUND("%.4g", "test_loss")},
	{"epoch_seconds", "epoch s", SECONDS("epoch_seconds")},
	{"samples_per_second", "samples/s", ROUND("%.0f", "samples_per_second")},
	{"speedup", "speedup", ROUND("%.2f", "speedup")},
	{"comm_fraction", "comm %", SHARE("comm_fraction")},
	{"wait_fraction", "wait %", SHARE("wait_fraction")},
	{"staleness_mean", "staleness", MEAN_AND_MOST("staleness_mean", "staleness_max")},
	{"staleness_max", NULL, NULL},
	{"dropped_fraction", "dropped %", PERCENT("dropped_fraction")},
	{"failed", "not done",
	 "ltrim(iif(failed, ', ' || failed || ' failed', '') || iif(diverged, ', ' || diverged || "
	 "' diverged', '') || iif(unfinished, ', ' || unfinished || ' unfinished', ''), ', ')"},
	{"diverged", NULL, NULL},
	{"unfinished", NULL, NULL},
	{NULL, NULL, NULL},
};

static const struct column run_columns[] = {
	{"id", "id", NULL},
	{"workload", "workload", NULL},
	{"configuration", "configuration", NULL},
	{"strategy", NULL, NULL},
	{"workers", NULL, NULL},
	{"servers", NULL, NULL},
	{"sync_every", NULL, NULL},
	{"seed", "seed", NULL},
	{"label", "label", NULL},
	{"status", "status", NULL},
	{"epochs_done", "epochs", "epochs_done || '/' || epochs"},
	{"test_accuracy", "accuracy %", PERCENT("test_accuracy")},
	{"best_test_accuracy", "best %", PERCENT("best_test_accuracy")},
	{"test_loss", "loss", ROUND("%.4g", "test_loss")},
	{"epoch_seconds", "epoch s", SECONDS("epoch_seconds")},
	{"samples_per_second", "samples/s", ROUND("%.0f", "samples_per_second")},
	{"speedup", "speedup", ROUND("%.2f", "speedup")},
	{"comm_fraction", "comm %", SHARE("comm_fraction")},
	{"wait_fraction", "wait %", SHARE("wait_fraction")},
	{"staleness_mean", "staleness", MEAN_AND_MOST("staleness_mean", "staleness_max")},
	{"staleness_max", NULL, NULL},
	{"dropped_fraction", "dropped %", PERCENT("dropped_fraction")},
	{"started", "started", NULL},
	{"reason", "reason", "ifnull(reason, '')"},
	{NULL, NULL, NULL},
};

/* ---- The query ----------------------------------------------------------- */

/* The runs asked for; %s: the condition. The line breaks end a comment in it. */
static const char chosen_sql[] =
	"WITH chosen AS MATERIALIZED (\n"
	"	SELECT id, label, status, reason, started, workload, config, config_key, "
	"compare_key,\n"
	"		strategy, workers, servers, sync_every, seed, epochs, epochs_done, "
	"train_size,\n"
	"		test_accuracy, best_test_accuracy, test_loss, epoch_seconds, "
	"comm_fraction,\n"
	"		wait_fraction, staleness_mean, staleness_max, dropped_fraction\n"
	"	FROM run_summary WHERE (?1 = '' OR label = ?1) AND (\n%s\n)),\n"
	/* Where a short name stands for several configurations, what these differ in is added. */
	"named AS MATERIALIZED (\n"
	"	SELECT DISTINCT workload, config, config_key FROM chosen),\n"
	"setting AS MATERIALIZED (\n"
	"	SELECT n.workload, n.config, n.config_key, e.key, e.atom\n"
	"	FROM (SELECT *, count(*) OVER (PARTITION BY workload, config) AS twins FROM named) "
	"AS n,\n"
	"		json_each(n.config_key) AS e\n"
	"	WHERE n.twins > 1),\n"
	"differs AS (\n"
	"	SELECT workload, config, key FROM setting GROUP BY workload, config, key\n"
	"	HAVING count(DISTINCT atom) > 1 OR count(*) < (\n"
	"		SELECT count(*) FROM named AS n\n"
	"		WHERE n.workload = setting.workload AND n.config = setting.config)),\n"
	"suffix AS MATERIALIZED (\n"
	"	SELECT config_key, group_concat(key || '=' || atom, ' ') AS text FROM (\n"
	"		SELECT config_key, key, atom FROM setting\n"
	"			JOIN differs USING (workload, config, key)\n"
	"		WHERE atom <> '' ORDER BY config_key, key)\n"
	"	GROUP BY config_key),\n"
	"base AS MATERIALIZED (SELECT compare_key, epoch_seconds FROM one_worker),\n";

static const char runs_sql[] =
	"row AS (\n"
	"	SELECT c.*, config || ifnull(' ' || s.text, '') AS configuration,\n"
	"		train_size / nullif(c.epoch_seconds, 0) AS samples_per_second,\n"
	"		b.epoch_seconds / nullif(c.epoch_seconds, 0) AS speedup\n"
	"	FROM chosen AS c LEFT JOIN suffix AS s USING (config_key)\n"
	"		LEFT JOIN base AS b USING (compare_key)\n"
	"	ORDER BY id)\n";

/* figure holds one number a row, so that one window finds all the medians. */
static const char configurations_sql[] =
	"figure AS (\n"
	"	SELECT config_key, 'accuracy' AS name, test_accuracy AS x FROM chosen\n"
	"		WHERE status = 'done'\n"
	"	UNION ALL SELECT config_key, 'loss', test_loss FROM chosen WHERE status = 'done'\n"
	"	UNION ALL SELECT config_key, 'seconds', epoch_seconds FROM chosen WHERE status = "
	"'done'\n"
	"	UNION ALL SELECT config_key, 'comm', comm_fraction FROM chosen WHERE status = "
	"'done'\n"
	"	UNION ALL SELECT config_key, 'wait', wait_fraction FROM chosen WHERE status = "
	"'done'\n"
	"	UNION ALL SELECT config_key, 'stale', staleness_mean FROM chosen\n"
	"		WHERE status = 'done'\n"
	"	UNION ALL SELECT config_key, 'dropped', dropped_fraction FROM chosen\n"
	"		WHERE status = 'done'),\n"
	"ranked AS (\n"
	"	SELECT config_key, name, x, row_number() OVER same AS i,\n"
	"		count(*) OVER (PARTITION BY config_key, name) AS n\n"
	"	FROM figure WHERE x IS NOT NULL\n"
	"	WINDOW same AS (PARTITION BY config_key, name ORDER BY x)),\n"
	"median AS MATERIALIZED (\n"
	"	SELECT config_key,\n"
	"		avg(x) FILTER (WHERE name = 'accuracy') AS test_accuracy,\n"
	"		avg(x) FILTER (WHERE name = 'loss') AS test_loss,\n"
	"		avg(x) FILTER (WHERE name = 'seconds') AS epoch_seconds,\n"
	"		avg(x) FILTER (WHERE name = 'comm') AS comm_fraction,\n"
	"		avg(x) FILTER (WHERE name = 'wait') AS wait_fraction,\n"
	"		avg(x) FILTER (WHERE name = 'stale') AS staleness_mean,\n"
	"		avg(x) FILTER (WHERE name = 'dropped') AS dropped_fraction\n"
	"	FROM ranked WHERE i IN ((n + 1) / 2, (n + 2) / 2) GROUP BY config_key),\n"
	"grouped AS MATERIALIZED (\n"
	"	SELECT config_key, max(compare_key) AS compare_key, workload, config, strategy, "
	"workers,\n"
	"		servers, sync_every, max(train_size) AS train_size,\n"
	"		count(*) FILTER (WHERE status = 'done') AS n,\n"
	"		count(*) FILTER (WHERE status = 'failed') AS failed,\n"
	"		count(*) FILTER (WHERE status = 'diverged') AS diverged,\n"
	"		count(*) FILTER (WHERE status IN ('pending', 'running')) AS unfinished,\n"
	"		min(test_accuracy) FILTER (WHERE status = 'done') AS test_accuracy_min,\n"
	"		max(test_accuracy) FILTER (WHERE status = 'done') AS test_accuracy_max,\n"
	"		max(staleness_max) FILTER (WHERE status = 'done') AS staleness_max\n"
	"	FROM chosen GROUP BY config_key),\n"
	"row AS (\n"
	"	SELECT g.*, config || ifnull(' ' || s.text, '') AS configuration,\n"
	"		m.test_accuracy, m.test_loss, m.epoch_seconds, m.comm_fraction,\n"
	"		m.wait_fraction, m.staleness_mean, m.dropped_fraction,\n"
	"		train_size / nullif(m.epoch_seconds, 0) AS samples_per_second,\n"
	"		b.epoch_seconds / nullif(m.epoch_seconds, 0) AS speedup\n"
	"	FROM grouped AS g LEFT JOIN median AS m USING (config_key)\n"
	"		LEFT JOIN suffix AS s USING (config_key)\n"
	"		LEFT JOIN base AS b USING (compare_key)\n"
	"	ORDER BY workload, workers, strategy, sync_every, configuration)\n";

/* Few strategies drop updates: text has that column only when one of the runs did. */
static bool is_empty(struct store *s, const struct table_options *o, const char *name)
{
	if (strcmp(name, "dropped_fraction") != 0)
		return false;
	char *sql = sentence("SELECT EXISTS (SELECT 1 FROM run_summary WHERE (?1 = '' OR label = "
			     "?1) AND (\n%s\n) AND %s > 0)",
			     *o->where ? o->where : "1", name);
	sqlite3_stmt *q = NULL;
	bool some = false;

	if (sqlite3_prepare_v2(s->db, sql, -1, &q, NULL) == SQLITE_OK) {
		sqlite3_bind_text(q, 1, o->label, -1, SQLITE_STATIC);
		some = sqlite3_step(q) == SQLITE_ROW && sqlite3_column_int(q, 0);
	}
	sqlite3_finalize(q);
	free(sql);
	return !some;
}

static char *query_text(struct store *s, const struct table_options *o, enum format format)
{
	const struct column *columns = o->runs ? run_columns : configuration_columns;
	bool rounded = format == FORMAT_TEXT || format == FORMAT_MARKDOWN;
	sqlite3_str *sql = sqlite3_str_new(NULL);

	sqlite3_str_appendf(sql, chosen_sql, *o->where ? o->where : "1");
	sqlite3_str_appendall(sql, o->runs ? runs_sql : configurations_sql);
	const char *separator = "SELECT ";
	for (const struct column *c = columns; c->name; c++) {
		if (rounded && (!c->head || is_empty(s, o, c->name)))
			continue;
		sqlite3_str_appendf(sql, "%s%s AS \"%w\"", separator,
				    rounded && c->shown ? c->shown : c->name,
				    rounded ? c->head : c->name);
		separator = ", ";
	}
	sqlite3_str_appendall(sql, " FROM row");
	return must(sqlite3_str_finish(sql));
}

/* ---- The command --------------------------------------------------------- */

static void print_columns(struct store *s, FILE *f)
{
	sqlite3_stmt *q;
	int at = 0;

	if (sqlite3_prepare_v2(s->db, "SELECT * FROM run_summary", -1, &q, NULL) != SQLITE_OK)
		return;
	for (int i = 0; i < sqlite3_column_count(q); i++) {
		const char *name = sqlite3_column_name(q, i);
		if (at + (int)strlen(name) > 90) {
			fputs("\n", f);
			at = 0;
		}
		at += fprintf(f, "  %s", name);
	}
	fputs("\n", f);
	sqlite3_finalize(q);
}

/* The columns of run_summary, in any database of this version. */
static void print_all_columns(FILE *f)
{
	struct store s = {.run = 0};

	if (sqlite3_open(":memory:", &s.db) == SQLITE_OK &&
	    sqlite3_exec(s.db, database_schema(), NULL, NULL, NULL) == SQLITE_OK)
		print_columns(&s, f);
	sqlite3_close(s.db);
}

static void help(void)
{
	puts("mvbench table [--option=value ...]\n"
	     "\n"
	     "Shows the results: one row a configuration, with the medians over its n finished "
	     "runs\n"
	     "(seeds), or one row a run. Times are per epoch. speedup is relative to one worker "
	     "with\n"
	     "the same workload, batch, device and platform. comm % and wait % are shares of the "
	     "time;\n"
	     "staleness is what a push met, in updates: the mean, and the maximum in brackets. "
	     "Where\n"
	     "updates came too late and were thrown away, dropped % is their share.\n");
	option_help(stdout, NULL, options);
	puts("\nColumns for --where, as in --where=\"workload='mlp' AND workers IN (2, 4)\":");
	print_all_columns(stdout);
}

/* NULL, or a sentence: is the condition one SQL expression on the columns of run_summary? */
static char *check_condition(struct store *s, const char *where)
{
	char *sql = sentence("SELECT 1 FROM run_summary WHERE (\n%s\n)", where), *wrong = NULL;
	const char *rest = "";
	sqlite3_stmt *q = NULL;
	int rc = sqlite3_prepare_v2(s->db, sql, -1, &q, &rest);

	if (rc != SQLITE_OK)
		wrong = sentence("--where=%s: %s; an SQL condition is wanted, such as "
				 "--where=\"workload='mlp' AND workers=2\"; the columns are:",
				 where, sqlite3_errmsg(s->db));
	else if (rest[strspn(rest, " \t\r\n")] != '\0' || !sqlite3_stmt_readonly(q))
		wrong = sentence(
			"--where=%s: one SQL condition is wanted, and nothing after it; the "
			"columns are:",
			where);
	sqlite3_finalize(q);
	free(sql);
	return wrong;
}

static bool is_bare(const char *name)
{
	return strcmp(name, "runs") == 0;
}

/* Why is there nothing to see? */
static void explain_empty(struct store *s, const struct table_options *o)
{
	int64_t n = 0;
	sqlite3_stmt *q;

	if (sqlite3_prepare_v2(s->db, "SELECT count(*) FROM run", -1, &q, NULL) == SQLITE_OK &&
	    sqlite3_step(q) == SQLITE_ROW)
		n = sqlite3_column_int64(q, 0);
	sqlite3_finalize(q);
	if (n == 0)
		fprintf(stderr,
			"mvbench: %s holds no runs yet: record one with `mvbench run "
			"--db=%s`\n",
			o->db, o->db);
	else
		fprintf(stderr,
			"mvbench: none of the %lld runs in %s matches: loosen --where or "
			"--label\n",
			(long long)n, o->db);
}

static int print_table(struct store *s, const struct table_options *o)
{
	enum format format;
	int64_t rows = 0;
	FILE *f = stdout;

	CHECK(format_find(o->format, &format), "no format %s", o->format);
	if (*o->where) {
		char *wrong = check_condition(s, o->where);
		if (wrong) {
			int status = complain(wrong);
			print_columns(s, stderr);
			return status;
		}
	}
	if (*o->out && !(f = fopen(o->out, "w")))
		return complain(sentence("--out=%s: the file cannot be written (%s)", o->out,
					 strerror(errno)));
	char *sql = query_text(s, o, format);
	char *wrong = query_print(s, f, format, sql, &o->label, 1, &rows);
	sqlite3_free(sql);
	if (f != stdout && fclose(f) != 0 && !wrong)
		wrong = sentence("--out=%s: the file cannot be written (%s)", o->out,
				 strerror(errno));
	if (wrong) {
		complain(wrong);
		return EXIT_FAILED;
	}
	if (rows == 0)
		explain_empty(s, o);
	return EXIT_OK;
}

static int with_arguments(struct arguments *a)
{
	struct table_options o;
	struct store *s;

	option_default(options, &o);
	char *wrong = arguments_take(a, options, &o);
	if (!wrong)
		wrong = arguments_refuse(a, options);
	if (wrong)
		return complain(wrong);
	if (a->help) {
		help();
		return EXIT_OK;
	}
	if (a->words > 0)
		return complain(sentence("\"%s\" is not understood: conditions are given with "
					 "--where, files with --db",
					 a->word[0]));
	wrong = store_open(&s, o.db, STORE_READ);
	if (wrong)
		return complain(wrong);
	int status = print_table(s, &o);
	store_close(s);
	return status;
}

int command_table(int argc, char **argv)
{
	struct arguments a;
	char *wrong = arguments_read(&a, argc, argv, is_bare);

	if (wrong)
		return complain(wrong);
	int status = with_arguments(&a);
	arguments_free(&a);
	return status;
}
