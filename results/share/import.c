/*
 * import.c - `mvbench import`: runs out of another database, with all that belongs to them.
 *
 * The other file is only read: SQLite's backup copies it into a temporary one, which is brought to
 * this version if it is older, and attached. What is new is then copied in one transaction: all of
 * it, or nothing. A run keeps where it came from (origin, origin_id) and gets a new id; what refers
 * to runs and calibrations is changed to match.
 *
 * A run is the same as one that is here when its id where it was recorded, host, process, start,
 * workload, strategy and seed are: so that no run comes twice, on whatever ways.
 */
#include "results/share/share.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

extern const struct command command_import;

struct import_options {
	const char *db, *where, *label;
};

#define FIELD(f) .offset = offsetof(struct import_options, f)

static const struct option options[] = {
	{.name = "db",
	 .type = OPT_STRING,
	 FIELD(db),
	 .def = DATABASE,
	 .help = "the database that gets them; made when it is not there [file]"},
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
	{.name = NULL},
};

/* What one import did. */
struct imported {
	int64_t chosen, fresh, unended, calibrations, baselines,
		held; /* held: names that are taken */
};

/* ---- The copy that is read ------------------------------------------------- */

static char *temporary_file(void)
{
	const char *folder = getenv("TMPDIR");
	char *path = sentence("%s/mvbench-import-XXXXXX", folder && *folder ? folder : "/tmp");
	int fd = mkstemp(path);

	if (fd >= 0) {
		close(fd);
		return path;
	}
	free(path);
	return NULL;
}

static void remove_copy(char *path)
{
	static const char *const ending[] = {"", "-wal", "-shm", "-journal"};

	for (size_t i = 0; path && i < sizeof(ending) / sizeof(*ending); i++) {
		char *file = sentence("%s%s", path, ending[i]);
		unlink(file);
		free(file);
	}
	free(path);
}

/* Another process may be writing there: its last whole state is copied. */
static char *copy_pages(const char *from, const char *to)
{
	struct store in = {.path = (char *)(uintptr_t)from}, out = {.path = (char *)(uintptr_t)to};
	char *wrong = NULL;
	int rc = sqlite3_open_v2(from, &in.db, SQLITE_OPEN_READONLY, NULL);

	if (rc == SQLITE_OK)
		rc = sqlite3_busy_timeout(in.db, 3000);
	if (rc != SQLITE_OK)
		wrong = database_error(&in, rc);
	if (!wrong && (rc = sqlite3_open(to, &out.db)) == SQLITE_OK) {
		sqlite3_backup *b = sqlite3_backup_init(out.db, "main", in.db, "main");
		rc = b ? sqlite3_backup_step(b, -1) : sqlite3_errcode(out.db);
		sqlite3_backup_finish(b);
		if ((rc & 0xff) == SQLITE_FULL || (rc & 0xff) == SQLITE_IOERR)
			wrong = sentence(
				"%s: there is no room for a copy of %s: free some space, or "
				"set TMPDIR to a folder that has it",
				to, from);
		else if (rc != SQLITE_DONE)
			wrong = database_error(&in, rc);
	}
	/* What goes on there is not judged by this machine's processes: only the copy forgets. */
	if (!wrong)
		sqlite3_exec(out.db, "UPDATE run SET pid = NULL WHERE status = 'running'", NULL,
			     NULL, NULL);
	sqlite3_close(in.db);
	sqlite3_close(out.db);
	return wrong;
}

/* The file is no --db here, which a sentence about a database takes it for. */
static char *of_file(char *wrong)
{
	char *end = wrong ? strstr(wrong, " with --db") : NULL;

	if (end && strcmp(end, " with --db") == 0)
		*end = '\0';
	return wrong;
}

static char *check_other(const char *path, const char *db)
{
	struct stat other, own;

	if (stat(path, &other) == 0 && stat(db, &own) == 0 && own.st_dev == other.st_dev &&
	    own.st_ino == other.st_ino)
		return sentence("%s is the database to import into: name another, or give --db",
				path);
	return of_file(store_look(path));
}

/* ---- SQL ------------------------------------------------------------------- */

/* Runs statements without rows. */
static char *change(struct store *s, const char *sql)
{
	int rc = sqlite3_exec(s->db, sql, NULL, NULL, NULL);

	return rc == SQLITE_OK ? NULL : database_error(s, sqlite3_extended_errcode(s->db));
}

static char *count(struct store *s, const char *sql, int64_t *n)
{
	double x = 0;
	char *wrong = query_numbers(s, sql, NULL, 0, &x, 1);

	*n = (int64_t)x;
	return wrong;
}

/* The columns of a table, but for those in `but` ("a,b,"), each after ", " and a prefix; heap. */
static char *columns_of(struct store *s, const char *table, const char *prefix, const char *but)
{
	sqlite3_stmt *q = NULL;
	sqlite3_str *list = sqlite3_str_new(NULL);

	if (sqlite3_prepare_v2(s->db,
			       "SELECT name FROM pragma_table_info(?1) "
			       "WHERE instr(',' || ?2 || ',', ',' || name || ',') = 0 ORDER BY cid",
			       -1, &q, NULL) == SQLITE_OK) {
		sqlite3_bind_text(q, 1, table, -1, SQLITE_STATIC);
		sqlite3_bind_text(q, 2, but, -1, SQLITE_STATIC);
		while (sqlite3_step(q) == SQLITE_ROW)
			sqlite3_str_appendf(list, ", %s\"%w\"", prefix, sqlite3_column_text(q, 0));
	}
	sqlite3_finalize(q);
	char *text = sqlite3_str_finish(list), *copy = must(strdup(text ? text : ""));
	sqlite3_free(text);
	return copy;
}

#define KEY "json_array(ifnull(origin_id, id), host, pid, started, workload, strategy, seed) AS key"

/* wanted: the runs asked for, and those that simulations among them repeated. map: every run of
 * these that has ended, and its id here. */
static const char map_sql[] =
	"INSERT OR IGNORE INTO wanted WITH RECURSIVE needs(id) AS (SELECT id FROM wanted UNION "
	"SELECT sim_replay FROM other.run JOIN needs USING (id) WHERE sim_replay > 0) "
	"SELECT id FROM needs JOIN other.run USING (id);"
	"CREATE TEMP TABLE here AS SELECT id, " KEY " FROM main.run;"
	"CREATE INDEX temp.here_key ON here (key);"
	"CREATE TEMP TABLE map (old INTEGER PRIMARY KEY, new INTEGER, fresh INTEGER);"
	"INSERT INTO map SELECT o.id, (SELECT min(h.id) FROM here AS h WHERE h.key = o.key), 0 "
	"FROM ("
	"	SELECT id, " KEY " FROM other.run WHERE id IN (SELECT id FROM wanted) "
	"	AND status NOT IN ('pending', 'running')) AS o;"
	"UPDATE map SET fresh = 1, new = n.new FROM (SELECT old, row_number() OVER (ORDER BY old) "
	"+ "
	"ifnull((SELECT max(seq) FROM main.sqlite_sequence WHERE name = 'run'), 0) AS new "
	"FROM map WHERE new IS NULL) AS n WHERE n.old = map.old;";

/* Those that the new runs were simulated with: what is equal in everything is the same. */
static const char calibrations_sql[] =
	"CREATE TEMP TABLE calibrated (old INTEGER PRIMARY KEY, new INTEGER, fresh INTEGER);"
	"INSERT INTO calibrated SELECT o.id, (SELECT min(c.id) FROM main.calibration AS c WHERE "
	"	(c.made, c.workload, c.workload_options, c.batch, c.device, c.precision, "
	"c.threads, "
	"	c.workers, c.params) = (o.made, o.workload, o.workload_options, o.batch, o.device, "
	"	o.precision, o.threads, o.workers, o.params) AND c.host IS o.host), 0 "
	"FROM other.calibration AS o WHERE o.id IN (SELECT calibration_id FROM other.run "
	"	WHERE id IN (SELECT old FROM map WHERE fresh));"
	"UPDATE calibrated SET fresh = 1, new = n.new FROM (SELECT old, row_number() OVER (ORDER "
	"BY "
	"old) + ifnull((SELECT max(seq) FROM main.sqlite_sequence WHERE name = 'calibration'), 0) "
	"AS "
	"new FROM calibrated WHERE new IS NULL) AS n WHERE n.old = calibrated.old;";

/* A baseline comes with its runs; one of the same name stays as it is. */
static const char baselines_sql[] =
	"CREATE TEMP TABLE named AS SELECT DISTINCT name, "
	"	EXISTS (SELECT 1 FROM main.baseline AS b WHERE b.name = o.name) AS held "
	"FROM other.baseline AS o WHERE o.run_id IN (SELECT old FROM map);";

/* ---- Copying ---------------------------------------------------------------- */

static char *copy_calibrations(struct store *s)
{
	char *columns = columns_of(s, "calibration", "", "id");
	char *from = columns_of(s, "calibration", "o.", "id");
	char *sql =
		sentence("INSERT INTO main.calibration (id%s) SELECT c.new%s FROM calibrated AS c "
			 "JOIN other.calibration AS o ON o.id = c.old WHERE c.fresh;"
			 "INSERT INTO main.calibration_point SELECT c.new, p.name, p.x, p.value "
			 "FROM calibrated AS c JOIN other.calibration_point AS p "
			 "ON p.calibration_id = c.old WHERE c.fresh",
			 columns, from);
	char *wrong = change(s, sql);

	free(sql);
	free(from);
	free(columns);
	return wrong;
}

/* They are `running` until their epochs are there: what is kept of a run is computed when it ends.
 * origin: of runs that were recorded there. */
static char *copy_runs(struct store *s, const char *origin)
{
	static const char own[] = "id,status,sim_replay,calibration_id,origin,origin_id,imported";
	char *columns = columns_of(s, "run", "", own), *from = columns_of(s, "run", "o.", own);
	char *sql = sqlite3_mprintf(
		"INSERT INTO main.run (id, status, sim_replay, calibration_id, origin, origin_id, "
		"imported%s) SELECT m.new, 'running', CASE WHEN o.sim_replay > 0 THEN "
		"ifnull((SELECT "
		"new FROM map AS r WHERE r.old = o.sim_replay), -o.sim_replay) ELSE o.sim_replay "
		"END, "
		"(SELECT new FROM calibrated AS c WHERE c.old = o.calibration_id), "
		"ifnull(o.origin, "
		"%Q), ifnull(o.origin_id, o.id), strftime('%%Y-%%m-%%dT%%H:%%M:%%SZ', 'now')%s "
		"FROM map AS m JOIN other.run AS o ON o.id = m.old WHERE m.fresh ORDER BY m.new",
		columns, origin, from);
	char *wrong = change(s, must(sql));

	sqlite3_free(sql);
	free(from);
	free(columns);
	return wrong;
}

/* Every table that belongs to runs, whatever it holds; what is derived, and what stands by itself,
 * left out. */
static char *copy_tables(struct store *s)
{
	sqlite3_stmt *q = NULL;
	char *wrong = NULL;
	int rc = sqlite3_prepare_v2(
		s->db,
		"SELECT m.name FROM main.sqlite_schema AS m "
		"JOIN pragma_table_info(m.name) AS c WHERE m.type = 'table' "
		"AND c.name = 'run_id' AND m.name NOT IN ('run_kept', 'baseline', "
		"'checked') ORDER BY m.rowid",
		-1, &q, NULL);

	while (rc == SQLITE_OK && !wrong && (rc = sqlite3_step(q)) == SQLITE_ROW) {
		const char *table = (const char *)sqlite3_column_text(q, 0);
		char *columns = columns_of(s, table, "", "run_id");
		char *from = columns_of(s, table, "o.", "run_id");
		char *sql =
			sentence("INSERT INTO main.\"%s\" (run_id%s) SELECT m.new%s FROM map AS m "
				 "JOIN other.\"%s\" AS o ON o.run_id = m.old WHERE m.fresh",
				 table, columns, from, table);
		wrong = change(s, sql);
		free(sql);
		free(from);
		free(columns);
		rc = SQLITE_OK;
	}
	sqlite3_finalize(q);
	if (!wrong && rc != SQLITE_DONE)
		wrong = database_error(s, rc);
	return wrong;
}

static char *copy_baselines(struct store *s)
{
	char *columns = columns_of(s, "baseline", "", "run_id");
	char *from = columns_of(s, "baseline", "o.", "run_id");
	char *sql =
		sentence("INSERT INTO main.baseline (run_id%s) SELECT (SELECT new FROM map WHERE "
			 "old = o.run_id)%s FROM other.baseline AS o WHERE o.name IN "
			 "(SELECT name FROM named WHERE NOT held)",
			 columns, from);
	char *wrong = change(s, sql);

	free(sql);
	free(from);
	free(columns);
	return wrong;
}

/* Replays repeat a run that has another number now, which is part of what they are. Where this
 * program does not know their options, the hash stays. */
static char *renew_hashes(struct store *s, struct store *other)
{
	sqlite3_stmt *q = NULL;
	char *wrong = NULL;
	int rc = sqlite3_prepare_v2(
		s->db,
		"SELECT m.old, m.new, r.sim_replay FROM map AS m JOIN main.run AS r "
		"ON r.id = m.new WHERE m.fresh AND r.sim_replay > 0",
		-1, &q, NULL);

	while (rc == SQLITE_OK && !wrong && (rc = sqlite3_step(q)) == SQLITE_ROW) {
		struct config c;
		bool exact = false;
		char hash[17];
		char *unknown = recorded_config(other, sqlite3_column_int64(q, 0), &c, &exact);
		rc = SQLITE_OK;
		if (unknown) {
			free(unknown);
			continue;
		}
		c.run.sim_replay = sqlite3_column_int64(q, 2);
		config_hash(&c, hash);
		config_fini(&c);
		char *sql = sentence("UPDATE main.run SET config_hash = '%s' WHERE id = %lld", hash,
				     (long long)sqlite3_column_int64(q, 1));
		wrong = exact ? change(s, sql) : NULL;
		free(sql);
	}
	sqlite3_finalize(q);
	if (!wrong && rc != SQLITE_DONE)
		wrong = database_error(s, rc);
	return wrong;
}

/* Fills `wanted`. */
static char *choose(struct store *s, const struct import_options *o)
{
	char *sql = sqlite3_mprintf("CREATE TEMP TABLE wanted (id INTEGER PRIMARY KEY); INSERT "
				    "INTO wanted SELECT id FROM "
				    "other.run_summary WHERE (%Q = '' OR label = %Q) AND (\n%s\n)",
				    o->label, o->label, *o->where ? o->where : "1");
	char *wrong = change(s, must(sql));

	sqlite3_free(sql);
	return wrong;
}

static char *copy_all(struct store *s, struct store *other, const char *origin, struct imported *t)
{
	static const char last_sql[] =
		"UPDATE main.run SET status = (SELECT status FROM other.run AS o JOIN map AS m ON "
		"o.id = m.old WHERE m.new = main.run.id) WHERE id IN (SELECT new FROM map WHERE "
		"fresh)";
	char *wrong = change(s, map_sql);

	if (!wrong)
		wrong = change(s, calibrations_sql);
	if (!wrong)
		wrong = copy_calibrations(s);
	if (!wrong)
		wrong = copy_runs(s, origin);
	if (!wrong)
		wrong = copy_tables(s);
	if (!wrong)
		wrong = renew_hashes(s, other);
	if (!wrong)
		wrong = change(s, last_sql);
	if (!wrong)
		wrong = change(s, baselines_sql);
	if (!wrong)
		wrong = copy_baselines(s);
	if (!wrong)
		wrong = count(s, "SELECT count(*) FROM wanted", &t->chosen);
	if (!wrong)
		wrong = count(s, "SELECT count(*) FROM map WHERE fresh", &t->fresh);
	if (!wrong)
		wrong = count(s,
			      "SELECT count(*) FROM wanted WHERE id NOT IN (SELECT old FROM map)",
			      &t->unended);
	if (!wrong)
		wrong = count(s, "SELECT count(*) FROM calibrated WHERE fresh", &t->calibrations);
	if (!wrong)
		wrong = count(s, "SELECT count(*) FROM named WHERE NOT held", &t->baselines);
	if (!wrong)
		wrong = count(s, "SELECT count(*) FROM named WHERE held", &t->held);
	return wrong;
}

static char *import_copy(struct store *s, const char *copy, const char *origin,
			 const struct import_options *o, struct imported *t)
{
	struct store *other = NULL;
	char *wrong = store_open(&other, copy, STORE_WRITE); /* brings it to this version */
	char *attach = sqlite3_mprintf("ATTACH %Q AS other", copy);

	if (!wrong)
		wrong = database_condition(other, o->where);
	if (!wrong)
		wrong = change(s, must(attach));
	if (!wrong)
		wrong = change(s, "BEGIN IMMEDIATE; PRAGMA defer_foreign_keys = ON");
	if (!wrong)
		wrong = choose(s, o);
	if (!wrong)
		wrong = copy_all(s, other, origin, t);
	if (!wrong)
		wrong = change(s, "COMMIT");
	if (!sqlite3_get_autocommit(s->db))
		sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
	sqlite3_free(attach);
	store_close(other);
	return wrong;
}

/* ---- The command ------------------------------------------------------------ */

static const char *plural(int64_t n)
{
	return n == 1 ? "" : "s";
}

static void say(const char *path, const struct imported *t)
{
	int64_t same = t->chosen - t->fresh - t->unended;

	printf("%s: %lld new run%s", path, (long long)t->fresh, plural(t->fresh));
	if (same)
		printf(", %lld here already", (long long)same);
	if (t->unended)
		printf(", %lld not ended and left out", (long long)t->unended);
	if (t->calibrations)
		printf(", %lld calibration%s", (long long)t->calibrations, plural(t->calibrations));
	if (t->baselines)
		printf(", %lld baseline%s", (long long)t->baselines, plural(t->baselines));
	if (t->held)
		printf(", %lld baseline%s of a name that is taken left out", (long long)t->held,
		       plural(t->held));
	putchar('\n');
}

static char *import(const char *path, const struct import_options *o)
{
	struct store *s = NULL;
	struct imported t = {.chosen = 0};
	char *wrong = check_other(path, o->db), *origin = NULL;
	char *copy = wrong ? NULL : temporary_file();

	if (!wrong && !copy)
		wrong = sentence(
			"no temporary file can be made (%s): set TMPDIR to a folder that has "
			"room",
			strerror(errno));
	if (!wrong)
		wrong = of_file(copy_pages(path, copy));
	if (!wrong)
		wrong = store_open(&s, o->db, STORE_WRITE);
	if (!wrong) {
		origin = must(realpath(path, NULL));
		wrong = import_copy(s, copy, origin, o, &t);
	}
	if (!wrong)
		say(path, &t);
	store_close(s);
	remove_copy(copy);
	free(origin);
	return wrong;
}

static int run_import(int argc, char **argv)
{
	struct arguments a;
	struct import_options o;
	char *wrong = arguments_read(&a, argc, argv, NULL);
	int status = EXIT_OK;

	if (wrong)
		return complain(wrong);
	option_default(options, &o);
	wrong = arguments_take(&a, options, &o);
	if (!wrong)
		wrong = arguments_refuse(&a, options);
	if (!wrong && !a.help && !a.words)
		wrong = sentence("import: another database is wanted, as in `mvbench import "
				 "other.db`");
	if (!wrong && a.help)
		command_help(stdout, &command_import);
	for (size_t i = 0; !wrong && !a.help && i < a.words; i++)
		wrong = import(a.word[i], &o);
	if (wrong)
		status = complain(wrong);
	arguments_free(&a);
	return status;
}

const struct command command_import = {
	.name = "import",
	.summary = "copy runs from another machine's database",
	.usage = "FILE ... [--option=value ...]",
	.about =
		"Copies the runs that have ended, with everything that belongs to them: epochs, "
		"timelines, calibrations, and the baselines that hold them. The other file may be "
		"of an older mvbench, and stays as it is. Imported runs keep where they come from "
		"in the columns origin, origin_id and imported of table run, and get new ids. What "
		"is here already is not copied again.\n\nTimes of different machines cannot be "
		"compared: table, report and check say so where runs of several stand together.",
	.options = options,
	.run = run_import,
};
