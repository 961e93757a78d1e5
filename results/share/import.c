/*
 * import.c - `mvbench import`: copies runs from another database, with all that belongs to them.
 *
 * The other file is only read: SQLite's backup copies it into a temporary one, which is brought to
 * this version if it is older, and attached. New rows are then copied in one transaction: all or
 * none. A run keeps where it came from (origin, origin_id) and gets a new id; what refers
 * to runs and calibrations is changed to match.
 *
 * Two rows are the same run if their checkpoints have the same name (--save). Without checkpoints:
 * if original id, host, process, start, workload, strategy and seed are equal. No run is thus
 * imported twice, also through a third database. A run that failed here and later resumed from a
 * checkpoint replaces its row; of several rows of a run the one with most progress counts.
 */
#include "results/db/select.h"
#include "results/run/run.h"
#include "runtime/config/config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define OWNER struct select
static const struct option options[] = {
	SELECT_OPTIONS(, "database that receives the runs; created if missing", ""),
	{.name = NULL},
};

/* Makes temporary tables about the runs in `wanted`. */
TEXT_FILE(import_sql, "results/share/import.sql");

/* ---- The copy that is read ------------------------------------------------- */

/* Removes " with --db" from a message: the imported file is not --db. */
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
	return of_file(store_probe(path));
}

/* ---- Copying ---------------------------------------------------------------- */

/* Copies the rows of a table. Its columns `own` ("a,b") get `values`; the others come from the
 * table that `from` calls o. ?1 in a value: the path of the file. */
static char *copy_rows(struct store *s, const char *origin, const char *table, const char *own,
		       const char *values, const char *from)
{
	char *sql AUTOFREE = NULL;
	TRY(sql_first(s, &sql,
		      "SELECT printf('INSERT INTO main.\"%w\" (%s%s) SELECT %s%s FROM %s', "
		      "?1, ?2, group_concat(printf(', \"%w\"', name), ''), ?3, "
		      "group_concat(printf(', o.\"%w\"', name), ''), ?4) "
		      "FROM pragma_table_info(?1) "
		      "WHERE instr(',' || ?2 || ',', ',' || name || ',') = 0",
		      "tttt", table, own, values, from));
	return sql_change(s, sql ? sql : "", "t", origin);
}

/* Copies every table with a run_id, except derived ones and those that are not part of a run. */
static char *copy_tables(struct store *s)
{
	struct meter meter ENDS_WITH(meter_end) = {.of = 0};
	size_t done = 0;
	struct sql q AUTODONE =
		sql_select(s,
			   "SELECT m.name, count(*) OVER () FROM main.sqlite_schema AS m "
			   "JOIN pragma_table_info(m.name) AS c WHERE m.type = 'table' "
			   "AND c.name = 'run_id' AND m.name NOT IN ('run_kept', "
			   "'baseline', 'checked') ORDER BY m.rowid",
			   "");
	while (sql_next(&q)) {
		if (done == 0)
			meter_start(&meter, "table", (size_t)sql_int(&q, 1));
		char *from AUTOFREE =
			sentence("map AS m JOIN other.\"%s\" AS o ON o.run_id = m.old "
				 "WHERE m.fresh",
				 sql_text(&q, 0));
		TRY(copy_rows(s, "", sql_text(&q, 0), "run_id", "m.new", from));
		meter_step(&meter, ++done);
	}
	return sql_done(&q);
}

/* Replayed runs have new numbers, which are part of the configurations of their replays: computes
 * those hashes again. Keeps a hash if this program does not know all options. */
static char *renew_hashes(struct store *s, struct store *other)
{
	struct sql q AUTODONE =
		sql_select(s,
			   "SELECT m.old, m.new, r.sim_replay FROM map AS m JOIN main.run "
			   "AS r ON r.id = m.new WHERE m.fresh AND r.sim_replay > 0",
			   "");
	while (sql_next(&q)) {
		struct config c AUTOCONFIG = {0};
		bool exact = false;
		char hash[17],
			*unknown AUTOFREE = recorded_config(other, sql_int(&q, 0), &c, &exact);
		if (unknown)
			continue;
		c.run.sim_replay = sql_int(&q, 2);
		config_hash(&c, hash);
		if (exact)
			TRY(sql_change(s, "UPDATE main.run SET config_hash = ?1 WHERE id = ?2",
				       "ti", hash, sql_int(&q, 1)));
	}
	return sql_done(&q);
}

/* Runs have status `running` until their epochs are copied, because the end of a run computes
 * run_kept. A replay of a run that is not here keeps its number, negated. Baselines are copied with
 * their runs; an existing one of the same name stays. */
static char *copy_all(struct store *s, struct store *other, const char *origin,
		      const struct select *of)
{
	TRY(sql_script(s, "PRAGMA defer_foreign_keys = ON"));
	TRY(sql_script(s, "CREATE TEMP TABLE wanted (id INTEGER PRIMARY KEY)"));
	TRY(database_selected(s, "INSERT INTO wanted SELECT id FROM other.run_summary", of->where,
			      of->label));
	TRY(sql_script(s, import_sql));
	TRY(sql_script(s, "DELETE FROM main.run WHERE id IN (SELECT new FROM map WHERE older "
			  "UNION SELECT id FROM superseded)"));
	TRY(copy_rows(s, origin, "calibration", "id", "c.new",
		      "calibrated AS c JOIN other.calibration AS o ON o.id = c.old WHERE c.fresh"));
	TRY(copy_rows(s, origin, "calibration_point", "calibration_id", "c.new",
		      "calibrated AS c JOIN other.calibration_point AS o "
		      "ON o.calibration_id = c.old WHERE c.fresh"));
	TRY(copy_rows(s, origin, "run",
		      "id,status,sim_replay,calibration_id,origin,origin_id,imported",
		      "m.new, 'running', "
		      "ifnull((SELECT new FROM map WHERE old = o.sim_replay), -abs(o.sim_replay)), "
		      "(SELECT new FROM calibrated WHERE old = o.calibration_id), "
		      "ifnull(o.origin, ?1), ifnull(o.origin_id, o.id), "
		      "strftime('%Y-%m-%dT%H:%M:%SZ', 'now')",
		      "map AS m JOIN other.run AS o ON o.id = m.old WHERE m.fresh ORDER BY m.new"));
	TRY(copy_tables(s));
	TRY(renew_hashes(s, other));
	TRY(sql_script(s,
		       "INSERT OR IGNORE INTO main.source SELECT * FROM other.source WHERE hash IN "
		       "(SELECT o.value FROM map AS m JOIN main.run_option AS o ON o.run_id = "
		       "m.new WHERE m.fresh AND o.name = 'source')"));
	TRY(sql_script(s, "UPDATE main.run SET status = o.status FROM map AS m "
			  "JOIN other.run AS o ON o.id = m.old WHERE m.fresh AND m.new = run.id"));
	TRY(copy_rows(s, origin, "study", "id", "c.new",
		      "studied AS c JOIN other.study AS o ON o.id = c.old WHERE c.fresh"));
	TRY(copy_rows(s, origin, "trial", "study_id", "c.new",
		      "studied AS c JOIN other.trial AS o ON o.study_id = c.old WHERE (c.new, "
		      "o.contestant, o.kind, o.number) NOT IN (SELECT study_id, contestant, kind, "
		      "number FROM main.trial)"));
	TRY(sql_script(
		s, "UPDATE main.study SET budget = max(study.budget, o.budget) FROM studied AS c "
		   "JOIN other.study AS o ON o.id = c.old WHERE study.id = c.new"));
	return copy_rows(s, origin, "baseline", "run_id",
			 "(SELECT new FROM map WHERE old = o.run_id)",
			 "other.baseline AS o "
			 "WHERE o.name IN (SELECT name FROM named WHERE NOT held)");
}

static char *import_copy(struct store *s, struct store *other, const char *copy, const char *origin,
			 const struct select *of)
{
	TRY(sql_change(s, "ATTACH ?1 AS other", "t", copy));
	TRY(sql_begin(s));
	return sql_end(s, copy_all(s, other, origin, of));
}

/* ---- The command ------------------------------------------------------------ */

static char *print_imported(struct store *s, const char *path)
{
	char *text AUTOFREE = NULL;
	TRY(sql_first(s, &text, "SELECT text FROM imported", ""));
	printf("%s: %s\n", path, text);
	return NULL;
}

static char *import(const char *path, const struct select *of)
{
	char *folder AUTOREMOVED = NULL;
	struct store *s AUTOCLOSE = NULL,
			*other AUTOCLOSE = NULL; /* closed before the folder is removed */
	TRY(folder_temporary("import", &folder));
	char *copy AUTOFREE = sentence("%s/copy.db", folder);
	TRY(of_file(database_copy(path, copy)));
	TRY(store_open(&other, copy, STORE_WRITE)); /* migrates it to this version */
	TRY(database_condition(other, of->where));
	TRY(store_open(&s, of->db, STORE_WRITE));
	char *origin AUTOFREE = must(realpath(path, NULL));
	TRY(import_copy(s, other, copy, origin, of));
	return print_imported(s, path);
}

static char *run_import(void *options_given, struct arguments *a, int *status)
{
	const struct select *of = options_given;
	(void)status;
	if (!a->words)
		return sentence("import: give another database, as in `mvbench import "
				"other.db`");
	for (size_t i = 0; i < a->words; i++)
		TRY(check_other(a->word[i], of->db));
	for (size_t i = 0; i < a->words; i++)
		TRY(import(a->word[i], of));
	return NULL;
}

const struct command command_import = {
	.name = "import",
	.summary = "copy runs from another machine's database",
	.usage = "FILE ... [--option=value ...]",
	.about = "Copies the runs that have ended, with everything that belongs to them: epochs, "
		 "timelines, calibrations, their baselines, and their studies of mvbench tune. "
		 "The other file may be from an older mvbench; it is not changed. Imported runs "
		 "get new ids; columns origin, origin_id and imported of table run record their "
		 "source. Runs that are here already are not copied again, unless they have "
		 "resumed from a checkpoint since.\n\nTimes of different machines cannot be "
		 "compared: table, report and check warn if they show runs of several machines.",
	.options = options,
	.size = sizeof(OWNER),
	.run = run_import,
};
