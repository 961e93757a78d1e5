/*
 * databases.c - malformed databases, and the commands that read them. An input is a whole file, or
 * changes to a valid one, FUZZ_BASE: cells with arbitrary values, and deleted rows. Its last byte
 * selects the command that reads it.
 */
#include "runtime/config/config.h"
#include "tests/fuzz/fuzz.h"
#include "results/run/run.h"

#include <math.h>
#include <string.h>

extern const struct command command_table, command_show, command_status, command_compare,
	command_history, command_blame, command_trace, command_export, command_relabel,
	command_delete, command_import, command_report, command_run;

/* ---- A database ---------------------------------------------------------- */

/* The valid one, and its cells: a table and a column each. */
static struct base {
	char *bytes;
	size_t size;
	struct cells {
		char *table, *column;
	} * cell, *calibrated; /* only those of calibration tables */
	size_t cells, calibrations;
} base;

static void read_cells(sqlite3 *db)
{
	sqlite3_stmt *q;
	CHECK(sqlite3_prepare_v2(db,
				 "SELECT m.name, c.name FROM sqlite_master AS m "
				 "JOIN pragma_table_info(m.name) AS c WHERE m.type = 'table' "
				 "ORDER BY 1, c.cid",
				 -1, &q, NULL) == SQLITE_OK,
	      "%s", sqlite3_errmsg(db));
	while (sqlite3_step(q) == SQLITE_ROW) {
		struct cells c = {.table = must(strdup((const char *)sqlite3_column_text(q, 0))),
				  .column = must(strdup((const char *)sqlite3_column_text(q, 1)))};
		APPEND(base.cell, base.cells, c);
		if (strncmp(c.table, "calibration", strlen("calibration")) == 0)
			APPEND(base.calibrated, base.calibrations, c);
	}
	sqlite3_finalize(q);
}

static void find_base(void)
{
	const char *path = getenv("FUZZ_BASE");
	FILE *f = path ? fopen(path, "rb") : NULL;
	sqlite3 *db;
	if (base.size)
		return;
	CHECK(f, "FUZZ_BASE must name a valid database: %m");
	fseek(f, 0, SEEK_END);
	base.size = (size_t)ftell(f);
	base.bytes = must(malloc(base.size));
	rewind(f);
	CHECK(fread(base.bytes, 1, base.size, f) == base.size, "%s: %m", path);
	fclose(f);
	char *copy AUTOFREE = write_file("base.db", (const uint8_t *)base.bytes, base.size);
	CHECK(sqlite3_open(copy, &db) == SQLITE_OK, "%s", sqlite3_errmsg(db));
	read_cells(db);
	sqlite3_close(db);
}

static void bind_value(sqlite3_stmt *q, const uint8_t *word, const uint8_t *text, size_t length)
{
	static const int64_t whole[] = {INT64_MIN, INT64_MAX, INT32_MAX, -1, 1LL << 53, 1 << 20};
	static const double real[] = {INFINITY, -INFINITY, 1e308, -1e-308, 0.5, 1e18, -0.0};
	switch (word[3] % 8) {
	case 0:
		sqlite3_bind_null(q, 1);
		break;
	case 1:
		sqlite3_bind_int64(q, 1, (int8_t)word[4]);
		break;
	case 2:
		sqlite3_bind_int64(q, 1, whole[word[4] % (sizeof whole / sizeof *whole)]);
		break;
	case 3:
		sqlite3_bind_double(q, 1, real[word[4] % (sizeof real / sizeof *real)]);
		break;
	case 4:
		sqlite3_bind_blob(q, 1, text, (int)length, SQLITE_STATIC);
		break;
	default:
		sqlite3_bind_text(q, 1, (const char *)text, (int)length, SQLITE_STATIC);
	}
}

/* Sets a column in the rows with the same value as one of them, or in all; or deletes these rows.
 * Returns the number of bytes of data that it has used. */
static size_t change(sqlite3 *db, const struct cells *cell, size_t cells, const uint8_t *data,
		     size_t size)
{
	enum { WORD = 5 };
	size_t length = data[3] % 8 < 4 ? 0 : smaller(data[4], size - WORD);
	const struct cells *c = &cell[(size_t)(data[0] << 8 | data[1]) % cells];
	const char *const form[] = {
		"UPDATE OR IGNORE \"%w\" SET \"%w\" = ?1 WHERE \"%w\" IS "
		"(SELECT \"%w\" FROM \"%w\" LIMIT 1 OFFSET ?2)",
		"UPDATE OR IGNORE \"%w\" SET \"%w\" = ?1",
		"DELETE FROM \"%w\" WHERE \"%w\" IS (SELECT \"%w\" FROM \"%w\" LIMIT 1 OFFSET ?2)"};
	size_t which = data[3] >= 250 ? 2 : data[2] == 255;
	char *sql = which == 2 ? sqlite3_mprintf(form[2], c->table, c->column, c->column, c->table)
			       : sqlite3_mprintf(form[which], c->table, c->column, c->column,
						 c->column, c->table);
	sqlite3_stmt *q = NULL;
	if (sqlite3_prepare_v2(db, sql, -1, &q, NULL) == SQLITE_OK) {
		if (which < 2)
			bind_value(q, data, data + WORD, length);
		sqlite3_bind_int(q, 2, data[2]);
		sqlite3_step(q);
	}
	sqlite3_finalize(q);
	sqlite3_free(sql);
	return WORD + length;
}

/* Returns its path, heap. */
static char *make_database(const uint8_t *data, size_t size, bool calibrations)
{
	sqlite3 *db;
	find_base();
	char *path AUTOFREE = sentence("%s/runs.db", folder);
	database_remove(path);
	if (size >= 16 && memcmp(data, "SQLite format 3", 16) == 0)
		return write_file("runs.db", data, size);
	free(write_file("runs.db", (const uint8_t *)base.bytes, base.size));
	CHECK(sqlite3_open(path, &db) == SQLITE_OK, "%s", sqlite3_errmsg(db));
	sqlite3_exec(db,
		     "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; "
		     "PRAGMA ignore_check_constraints = ON",
		     NULL, NULL, NULL);
	for (size_t at = 0; at + 5 <= size;)
		at += calibrations
			      ? change(db, base.calibrated, base.calibrations, data + at, size - at)
			      : change(db, base.cell, base.cells, data + at, size - at);
	sqlite3_close(db);
	return must(strdup(path));
}

/* ---- Commands ------------------------------------------------------------ */

enum { WORDS = 4 };
struct reader {
	const struct command *command;
	const char *word[WORDS];
};

/* out: what it may write; NULL: none. */
static void command_reads(const struct reader *r, const char *db, const char *out)
{
	char *word[WORDS + 2];
	int n = 0;
	while (n < WORDS && r->word[n]) {
		word[n] = must(strdup(r->word[n]));
		n++;
	}
	word[n++] = sentence("--db=%s", db);
	if (out)
		word[n++] = sentence("--out=%s/%s", folder, out);
	command_start(r->command, n, word);
	while (n > 0)
		free(word[--n]);
}

void read_table(const uint8_t *data, size_t size)
{
	static const struct reader plain[] = {
		{&command_table, {NULL}},
		{&command_table, {"--runs", "--format=csv"}},
		{&command_table, {"--format=json", "--sort=-test_accuracy", "--top=3"}},
		{&command_table, {"--tuned", "--format=markdown"}},
		{&command_show, {"1"}},
		{&command_show, {NULL}},
		{&command_status, {NULL}},
		{&command_compare, {"1", "2"}},
		{&command_history, {NULL}},
		{&command_blame, {NULL}},
		{&command_relabel, {"1", "other"}},
		{&command_delete, {"1"}},
		{&command_run,
		 {"--sim.replay=3", "--platform=sim", "--sim.step-time=1ms", "--dry-run"}},
	};
	static const struct reader writes[] = {{&command_trace, {NULL}},
					       {&command_export, {"--format=csv"}},
					       {&command_export, {"--format=jsonl"}}};
	enum { PLAIN = sizeof plain / sizeof *plain, ALL = PLAIN + sizeof writes / sizeof *writes };
	if (size == 0)
		return;
	char *path AUTOFREE = make_database(data, size - 1, false);
	size_t which = data[size - 1] % ALL;
	if (which < PLAIN)
		command_reads(&plain[which], path, NULL);
	else
		command_reads(&writes[which - PLAIN], path, "out");
}

void read_report(const uint8_t *data, size_t size)
{
	static const struct reader report = {&command_report, {NULL}};
	char *path AUTOFREE = make_database(data, size, false);
	command_reads(&report, path, "page.html");
}

/* Into a database that has the same runs, and into a new one. */
void read_import(const uint8_t *data, size_t size)
{
	char *path AUTOFREE = make_database(data, size, false);
	char *to AUTOFREE = sentence("%s/to.db", folder);
	const struct reader import = {&command_import, {path}};
	database_remove(to);
	if (size % 2)
		free(write_file("to.db", (const uint8_t *)base.bytes, base.size));
	command_reads(&import, to, NULL);
}

/* ---- Calibrations -------------------------------------------------------- */

static void be_time(double s)
{
	CHECK(s >= 0 && s < 1e30, "invalid time: %g s", s);
}

/* What a simulation takes from a calibration: a platform, costs, and drawn steps. */
static void simulate(const struct simulation *s)
{
	for (int i = 0; i < 4; i++)
		be_time(steps_draw(&s->step, 0.3 * i));
	for (int k = 0; k < COSTS; k++)
		for (double x = 0; x < 1e9; x = 10 * x + 1)
			be_time(curve_at(&s->cost[k], x));
	char *xml AUTOFREE = s->platform_file ? text_read(s->platform_file) : NULL;
}

/* Its last byte selects the platform. */
void read_calibration(const uint8_t *data, size_t size)
{
	static const char *const platforms[] = {"local", "hosts", "ethernet_1g"};
	static struct config configs[3];
	if (size == 0)
		return;
	int i = data[size - 1] % 3;
	char *path AUTOFREE = make_database(data, size - 1, true), *wrong = NULL;
	struct setting given[] = {{"workload", "softmax"},
				  {"strategy", "allreduce"},
				  {"workers", "2"},
				  {"platform", "sim"},
				  {"batch", "100"},
				  {"sim.platform", platforms[i]},
				  {"db", path}};
	struct plan plan = {.params = 7850, .device = "cpu"};
	struct simulation s;
	if (!configs[i].strings)
		wrong = config_init(&configs[i], given, sizeof given / sizeof *given, false);
	CHECK(!wrong, "%s", wrong);
	wrong = simulation_find(&configs[i], &plan, &s);
	if (!wrong) {
		simulate(&s);
		simulation_fini(&s);
	}
	free(wrong);
}
