/*
 * migrate.c - makes the tables and views of a results database, in an empty file or in one of an
 * older version.
 *
 * run_options defines the core options: their columns of table run, their rows of view option_info,
 * and the parts of config_key. A file gets the columns that its tables lack, whatever its version;
 * an option or a measured column therefore needs no statement here. Other changes are statements in
 * migrations/, with a new version. After these statements, missing tables are made as in a new
 * file; views are always made again.
 */
#include "results/db/store.h"

#include <stdlib.h>
#include <string.h>

TEXT_FILE(tables_sql, "results/db/tables.sql");
TEXT_FILE(views_sql, "results/db/views.sql");
TEXT_FILE(statistics_sql, "results/db/statistics.sql");
TEXT_FILE(study_sql, "results/db/study.sql");
TEXT_FILE(gate_sql, "results/db/gate.sql");
TEXT_FILE(student_sql, "results/db/student.sql");
TEXT_FILE(welch_sql, "results/db/welch.sql");
TEXT_FILE(timeline_sql, "results/db/timeline.sql");

/* Each makes version v to v + 1. */
#define MIGRATIONS(X)     X(16) X(20)
#define MIGRATION_TEXT(v) TEXT_FILE(migration_##v, "results/db/migrations/" #v ".sql");
#define MIGRATION_ROW(v)  [v] = migration_##v,
MIGRATIONS(MIGRATION_TEXT)
static const char *const migrations[SCHEMA_VERSION] = {MIGRATIONS(MIGRATION_ROW)};

/* ---- Schema text from the core options ------------------------------------- */

static bool is_whole(const struct option *o)
{
	return o->type == OPT_INT || o->type == OPT_BOOL;
}

static bool is_real(const struct option *o)
{
	return o->type == OPT_REAL || o->type == OPT_RATE || o->type == OPT_COUNT;
}

static const char *column_type(const struct option *o)
{
	return is_whole(o) ? "INTEGER" : is_real(o) ? "REAL" : "TEXT";
}

static bool may_be_null(const struct option *o)
{
	return o->core.stored == USED_IF_ANY || o->core.stored == OF_SIMULATION;
}

/* A value of the option as an SQL literal; heap. */
static char *value_sql(const struct option *o, const char *value)
{
	if (o->type == OPT_BOOL)
		return must(strdup(strcmp(value, "true") == 0 ? "1" : "0"));
	if (is_whole(o) || is_real(o)) /* defaults have no unit */
		return must(strdup(value));
	char *quoted = must(sqlite3_mprintf("%Q", value)), *text = must(strdup(quoted));
	sqlite3_free(quoted);
	return text;
}

/* "precision TEXT NOT NULL DEFAULT 'float32'"; heap. Rows that are older than the option have its
 * default. */
static char *column_definition(const struct option *o)
{
	char column[COLUMN_ROOM], *def AUTOFREE = value_sql(o, o->def);
	option_column(o, column);
	char *check AUTOFREE = sentence(" CHECK (%s IN (0, 1))", column);
	return sentence("%s %s%s%s%s", column, column_type(o),
			may_be_null(o) ? "" : " NOT NULL DEFAULT ", may_be_null(o) ? "" : def,
			o->type == OPT_BOOL ? check : "");
}

/* The text that `put` writes for each option that has a column; heap. */
static char *of_options(void (*put)(FILE *f, const struct option *o))
{
	struct text t;
	FILE *f = text_open(&t);
	for (const struct option *o = run_options; o->name; o++)
		if (o->core.stored != UNSTORED)
			put(f, o);
	return text_close(&t);
}

/* Writes a line of CREATE TABLE run, with the unit at the end of the option's help. */
static void put_column(FILE *f, const struct option *o)
{
	char *definition AUTOFREE = column_definition(o);
	const char *unit = strrchr(o->help, '[');
	fprintf(f, "\t%s,%s%s\n", definition, unit ? " -- " : "", unit ? unit : "");
}

/* Writes a row of option_info. */
static void put_row(FILE *f, const struct option *o)
{
	static const char *const stored[] = {[AS_GIVEN] = "given",
					     [AS_USED] = "used",
					     [USED_IF_ANY] = "used if any",
					     [OF_SIMULATION] = "simulation"};
	char column[COLUMN_ROOM], *def AUTOFREE = value_sql(o, o->def);
	bool keyed = (!o->incidental || o->core.kept_apart) && !o->core.repeats;
	fprintf(f, "%s\n\t('%s', '%s', %d, '%s', %s, %d, %d, '%s', %d, '%s', %d, %d)",
		ftell(f) ? "," : "", o->name, option_column(o, column), (int)(o - run_options) + 1,
		o->type == OPT_BOOL   ? "BOOL"
		: o->type == OPT_RATE ? "RATE"
				      : column_type(o),
		def, !o->incidental, keyed, stored[o->core.stored], o->core.label,
		o->core.part ? o->core.part : "", o->core.work, o->core.trains);
}

/* Writes the column, of row r of run, to the end of a list. */
static void put_field(FILE *f, const struct option *o)
{
	char column[COLUMN_ROOM];
	fprintf(f, ", r.%s", option_column(o, column));
}

static void put_work(FILE *f, const struct option *o)
{
	if (o->core.work)
		put_field(f, o);
}

/* Writes a key of config_key and its value, of row r of run. A NULL value would remove the key.
 * Those from sim.platform on are an object of their own: a function of SQLite has 127 arguments. */
static void put_value(FILE *f, const struct option *o)
{
	char column[COLUMN_ROOM];
	if ((o->incidental && !o->core.kept_apart) || o->core.repeats)
		return;
	option_column(o, column);
	const char *between = strcmp(o->name, "sim.platform") == 0 ? "), json_object("
			      : ftell(f)                           ? ","
								   : "";
	fprintf(f, may_be_null(o) ? "%s\n\t\t'%s', ifnull(r.%s, '')" : "%s\n\t\t'%s', r.%s",
		between, column, column);
}

/* Writes the condition that the short name of row r of run omits the option. A part without a blank
 * in front continues that of the option before, which is then there too. */
static void put_omission(FILE *f, const struct option *o)
{
	char column[COLUMN_ROOM], *def AUTOFREE = value_sql(o, may_be_null(o) ? "" : o->def);
	fprintf(f, "ifnull(r.%s, '') IN (%s, '%s')", option_column(o, column), def,
		o->core.plain ? o->core.plain : "");
	if (o[1].core.label == o->core.label - 1 && o[1].core.part[0] != ' ') {
		fputs(" AND ", f);
		put_omission(f, o + 1);
	}
}

/* The parts of short names, in their order. */
static char *make_parts(void)
{
	char column[COLUMN_ROOM];
	struct text t;
	FILE *f = text_open(&t);
	const struct option *o = run_options;
	for (int place = 1; o->name; place++) {
		for (o = run_options; o->name && o->core.label != -place; o++)
			;
		if (!o->name)
			break;
		fputs("\n\t\t|| iif(", f);
		put_omission(f, o);
		fprintf(f, ", '', replace('%s', '#', r.%s))", o->core.part,
			option_column(o, column));
	}
	return text_close(&t);
}

/* Each change in these tables deletes the run's row of run_kept. */
static char *make_triggers(void)
{
	static const char *const table[] = {"run_option", "evaluation", "epoch"};
	static const char *const change[][2] = {{"INSERT", "NEW.run_id"},
						{"UPDATE", "OLD.run_id, NEW.run_id"},
						{"DELETE", "OLD.run_id"}};
	struct text t;
	FILE *f = text_open(&t);
	for (size_t i = 0; i < 9; i++)
		fprintf(f,
			"CREATE TRIGGER %s_%s AFTER %s ON %s BEGIN\n"
			"\tDELETE FROM run_kept WHERE run_id IN (%s);\nEND;\n",
			table[i / 3], change[i % 3][0], change[i % 3][0], table[i / 3],
			change[i % 3][1]);
	return text_close(&t);
}

#define OF_TIME(name)  "\t" #name " REAL,\n"
#define OF_TOTAL(name) "\t" #name " INTEGER,\n"

static char *make_schema(void)
{
	char *triggers AUTOFREE = make_triggers(), *named AUTOFREE = make_parts();
	const struct {
		const char *marker, *text;
		void (*put)(FILE *f, const struct option *o); /* where text is NULL */
	} parts[] = {{"/* TRIGGERS */\n", triggers, NULL},
		     {"/* PARTS OF NAMES */", named, NULL},
		     {"/* STUDENT */", student_sql, NULL},
		     {"/* WELCH */", welch_sql, NULL},
		     {"\t-- FIGURES: a column each, from runtime/train/rows.h\n",
		      SPLIT_TIMES(OF_TIME) SPLIT_TOTALS(OF_TOTAL), NULL},
		     {"\t-- OPTIONS: a column each, from runtime/config/run_options.def\n", NULL,
		      put_column},
		     {" /* OPTION ROWS */", NULL, put_row},
		     {"/* OPTION VALUES */", NULL, put_value},
		     {"/* OPTION COLUMNS */", NULL, put_field},
		     {"/* OPTIONS OF WORK */", NULL, put_work}};
	char *text = sentence("PRAGMA application_id = %d;\nPRAGMA user_version = %d;\n"
			      "%s\n%s\n%s\n%s\n%s\n%s",
			      APPLICATION_ID, SCHEMA_VERSION, tables_sql, views_sql, statistics_sql,
			      study_sql, gate_sql, timeline_sql);
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		char *list AUTOFREE = parts[i].put ? of_options(parts[i].put) : NULL;
		char *before AUTOFREE = text;
		CHECK(strstr(text, parts[i].marker), "no \"%s\" in results/db", parts[i].marker);
		text = text_replaced(before, parts[i].marker, list ? list : parts[i].text);
	}
	char *before AUTOFREE = text;
	return sql_medians(before);
}

const char *database_schema(void)
{
	static char *schema;
	if (!schema)
		schema = make_schema();
	return schema;
}

/* ---- Versions -------------------------------------------------------------- */

char *store_check_version(const char *path, int64_t application, int64_t version, bool tables)
{
	if (application != APPLICATION_ID && (application != 0 || version != 0 || tables))
		return sentence("%s is an SQLite database, but not one of mvbench's results: name "
				"another file with --db",
				path);
	if (tables && version < OLDEST_VERSION)
		return sentence(
			"%s was made before version 0.3.0 of mvbench (schema %lld, the oldest "
			"that this one reads is %d): name another file with --db",
			path, (long long)version, OLDEST_VERSION);
	if (version > SCHEMA_VERSION)
		return sentence("%s was made by a newer mvbench (schema %lld, this one knows %d): "
				"use that one, or name another file with --db",
				path, (long long)version, SCHEMA_VERSION);
	return NULL;
}

static void put_name(FILE *f, const struct option *o)
{
	char column[COLUMN_ROOM];
	fprintf(f, "%s('%s')", ftell(f) ? ", " : "", option_column(o, column));
}

/* Conditions on rows of sqlite_master. MADE: SQL that runs when a process queries or writes the
 * object. OF_OTHERS: a user's view, whose name the schema ?1 does not have. */
#define MADE \
	"sql IS NOT NULL AND sql NOT GLOB 'CREATE TABLE *' AND sql NOT GLOB 'CREATE INDEX *' AND " \
	"sql NOT GLOB 'CREATE UNIQUE INDEX *'"
#define OF_OTHERS \
	"(type = 'view' AND sql GLOB 'CREATE VIEW *' AND " \
	"NOT instr(lower(?1), 'create view ' || lower(name) || ' ') AND " \
	"NOT instr(lower(?1), 'create table ' || lower(name) || ' '))"

/* Has the file a column for every option, and word for word the views and triggers of this program?
 * Their SQL runs, and is therefore not trusted. Users' views are allowed, other triggers are not.
 * It is one query, because every opened file is checked. */
static char *has_all(struct store *s, bool *whole)
{
	char *names AUTOFREE = of_options(put_name);
	char *sql AUTOFREE = sentence(
		"WITH made AS MATERIALIZED ("
		"SELECT instr(?1, sql || ';') > 0 AS ours, * FROM sqlite_master WHERE " MADE ") "
		"SELECT (SELECT count(*) FROM (VALUES %s) WHERE column1 NOT IN "
		"(SELECT name FROM pragma_table_info('run'))) + "
		"(SELECT count(*) FROM made WHERE NOT ours AND NOT " OF_OTHERS ") + "
		"abs((SELECT count(*) FROM made WHERE ours) - ?2)",
		names);
	int64_t off = 0, made = 0;
	const char *schema = database_schema();
	for (const char *at = schema; (at = strstr(at, "CREATE ")); at++)
		made += strncmp(at + 7, "VIEW ", 5) == 0 || strncmp(at + 7, "TRIGGER ", 8) == 0;
	TRY(sql_number(s, &off, sql, "ti", schema, made));
	*whole = off == 0;
	return NULL;
}

char *store_version(struct store *s, int64_t *version, bool *whole, bool *tables)
{
	int64_t application = 0, n = 0;
	TRY(sql_number(s, &application, "PRAGMA application_id", ""));
	TRY(sql_number(s, version, "PRAGMA user_version", ""));
	TRY(sql_number(s, &n, "SELECT count(*) FROM sqlite_master", ""));
	*tables = n > 0;
	TRY(store_check_version(s->path, application, *version, *tables));
	*whole = *tables && *version == SCHEMA_VERSION;
	return *whole ? has_all(s, whole) : NULL;
}

/* ---- Making ---------------------------------------------------------------- */

/* Drops views and triggers. For another version it drops all, because columns that they name can
 * disappear; otherwise users' views stay. */
static char *drop_views(struct store *s, bool all)
{
	char *drop AUTOFREE = NULL;
	TRY(sql_first(
		s, &drop,
		"SELECT group_concat(printf('DROP %s \"%w\"', type, name), ';') "
		"FROM sqlite_master WHERE type IN ('view', 'trigger') AND (?2 OR NOT " OF_OTHERS
		")",
		"ti", database_schema(), (int64_t)all));
	return drop ? sql_script(s, drop) : NULL;
}

/* Adds the columns that the file's tables lack, as tables.sql defines them. table: a pattern of
 * names. */
static char *add_columns(struct store *s, const char *table)
{
	struct store *schema ENDS_WITH(sql_forget) = sql_schema();
	struct sql q AUTODONE = sql_select(
		schema,
		"SELECT name, field, printf('ALTER TABLE %s ADD COLUMN %s', name, "
		"rtrim(substr(line, 1, instr(line || ' --', ' --') - 1), ' ,')) FROM ("
		"SELECT name, field, substr(rest, 1, instr(rest, char(10)) - 1) AS line FROM ("
		"SELECT t.name, c.name AS field, "
		"substr(t.sql, instr(t.sql, char(10, 9) || c.name || ' ') + 2) AS rest "
		"FROM sqlite_master AS t CROSS JOIN pragma_table_info(t.name) AS c "
		"WHERE t.type = 'table' AND t.name GLOB ?1))",
		"t", table);
	while (sql_next(&q)) {
		int64_t lacks = 0;
		TRY(sql_number(s, &lacks,
			       "SELECT count(*) > 0 AND total(name = ?2) = 0 "
			       "FROM pragma_table_info(?1)",
			       "tt", sql_text(&q, 0), sql_text(&q, 1)));
		if (lacks)
			TRY(sql_script(s, sql_text(&q, 2)));
	}
	return sql_done(&q);
}

/* Keeps existing tables, except the kept figures of runs, which other views may have computed. */
static char *make_all(struct store *s)
{
	char *all AUTOFREE =
		text_replaced(database_schema(), "CREATE TABLE ", "CREATE TABLE IF NOT EXISTS ");
	char *sql AUTOFREE = text_replaced(all, "CREATE INDEX ", "CREATE INDEX IF NOT EXISTS ");
	TRY(sql_script(s, "DROP TABLE IF EXISTS run_kept"));
	return sql_script(s, sql);
}

static char *bring_up(struct store *s, int64_t version)
{
	TRY(drop_views(s, version < SCHEMA_VERSION));
	TRY(add_columns(s, "run")); /* the migrations use them */
	for (; version < SCHEMA_VERSION; version++)
		if (migrations[version])
			TRY(sql_script(s, migrations[version]));
	return add_columns(s, "*");
}

static char *migrate(struct store *s)
{
	int64_t version = 0;
	bool whole = false, tables = false;
	TRY(store_version(s, &version, &whole, &tables));
	if (whole)
		return NULL;
	if (tables)
		TRY(bring_up(s, version));
	return make_all(s);
}

char *store_migrate(struct store *s)
{
	TRY(sql_begin(s));
	return sql_end(s, migrate(s));
}

struct store *sql_schema(void)
{
	struct store *s = sql_memory();
	char *wrong = sql_script(s, database_schema());
	CHECK(!wrong, "the schema: %s", wrong);
	return s;
}
