/*
 * baseline_file.c - a baseline as a text file that lives beside the code: JSON Lines, a header and
 * one line a run, in a fixed order, each number with the digits that read back as the same double.
 * So two versions of it differ in the lines of the runs that differ.
 */
#include "results/gate/gate.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_VERSION = 1, LINE_BYTES_MAX = 1 << 20 };

/* The columns of baseline that travel, in this order; the others follow from them. */
static const struct field {
	const char *name, *type; /* as json_each has it */
	bool needed;
} fields[] = {
	{"config", "text", true},         {"seed", "integer", true},
	{"options", "object", true},      {"config_hash", "text", true},
	{"params", "integer", false},     {"train_size", "integer", false},
	{"test_size", "integer", false},  {"train_loss", "real", false},
	{"test_loss", "real", false},     {"test_accuracy", "real", false},
	{"epoch_seconds", "real", false}, {"simulated_s", "real", false},
	{"calibration", "text", false},   {"model_hash", "text", false},
	{"started", "text", false},       {"host", "text", false},
	{"cpu", "text", false},           {"gpu", "text", false},
	{"mpi", "text", false},           {"onednn", "text", false},
	{"cuda", "text", false},          {"git_commit", "text", false},
	{"git_dirty", "integer", false},
};
enum { FIELDS = sizeof fields / sizeof *fields };

/* ---- Out ----------------------------------------------------------------- */

/* The shortest decimal that reads back as x, never taken for a whole number. */
static void write_real(FILE *f, double x)
{
	char text[40];

	for (int digits = 15; digits <= 17; digits++) {
		snprintf(text, sizeof text, "%.*g", digits, x);
		if (strtod(text, NULL) == x)
			break;
	}
	fprintf(f, "%s%s", text, text[strspn(text, "-0123456789")] ? "" : ".0");
}

/* What is not known has no field. */
static void write_run(FILE *f, sqlite3_stmt *q)
{
	const char *separator = "{";

	for (int i = 0; i < FIELDS; i++) {
		int type = sqlite3_column_type(q, i);
		if (type == SQLITE_NULL)
			continue;
		fprintf(f, "%s\"%s\":", separator, fields[i].name);
		if (type == SQLITE_FLOAT)
			write_real(f, sqlite3_column_double(q, i));
		else if (type == SQLITE_INTEGER || strcmp(fields[i].type, "object") == 0)
			fputs(gate_text(q, i), f);
		else
			text_json(f, gate_text(q, i));
		separator = ",";
	}
	fputs("}\n", f);
}

static char *write_header(struct store *s, FILE *f, const char *name)
{
	sqlite3_stmt *q = NULL;
	bool row = false;
	char *wrong = gate_query(s, &q, "SELECT max(made), count(*) FROM baseline WHERE name = ?1",
				"t", name);

	if (!wrong)
		wrong = gate_step(s, q, &row);
	if (!wrong) {
		fprintf(f, "{\"mvbench_baseline\":%d,\"name\":", FILE_VERSION);
		text_json(f, name);
		fprintf(f, ",\"made\":\"%s\",\"runs\":%lld}\n", gate_text(q, 0),
			(long long)sqlite3_column_int64(q, 1));
	}
	sqlite3_finalize(q);
	return wrong;
}

char *baseline_export(struct store *s, FILE *f, const char *name)
{
	sqlite3_str *sql = sqlite3_str_new(NULL);
	sqlite3_stmt *q = NULL;
	bool row = false;
	char *wrong = baseline_find(s, "against", name);

	for (int i = 0; i < FIELDS; i++)
		sqlite3_str_appendf(sql, "%s%s", i ? ", " : "SELECT ", fields[i].name);
	sqlite3_str_appendall(sql, " FROM baseline WHERE name = ?1 ORDER BY options, seed");
	char *text = must(sqlite3_str_finish(sql));
	if (!wrong)
		wrong = write_header(s, f, name);
	if (!wrong)
		wrong = gate_query(s, &q, text, "t", name);
	while (!wrong && !(wrong = gate_step(s, q, &row)) && row)
		write_run(f, q);
	sqlite3_finalize(q);
	sqlite3_free(text);
	return wrong;
}

/* ---- In ------------------------------------------------------------------ */

struct reader {
	struct store *store;
	const char *path;
	FILE *file;
	char *line;
	size_t room;
	int64_t number, runs, promised; /* lines from 1; runs read, and those of the header */
	char *name, *made;
};

static char *at_line(const struct reader *r, char *what)
{
	char *wrong = sentence("%s:%lld: %s", r->path, (long long)r->number, what);

	free(what);
	return wrong;
}

/* *more: is there another line? It is JSON, and an object. */
static char *next_line(struct reader *r, bool *more)
{
	int64_t good = 0;
	ssize_t n = getline(&r->line, &r->room, r->file);

	*more = n >= 0;
	if (n < 0)
		return ferror(r->file)
			       ? sentence("%s: cannot be read (%s)", r->path, strerror(errno))
			       : NULL;
	r->number++;
	if (n > LINE_BYTES_MAX || strlen(r->line) != (size_t)n)
		return at_line(r, sentence("this is no line of a baseline"));
	char *wrong = sql_number(r->store, &good,
				 "SELECT iif(json_valid(?1), json_type(?1) IS 'object', 0)", "t",
				 r->line);
	if (!wrong && !good)
		wrong = at_line(r, sentence("this is not a whole JSON object: the line is damaged, "
					    "or the file was not made by mvbench check --export"));
	return wrong;
}

static char *read_header(struct reader *r)
{
	sqlite3_stmt *q = NULL;
	bool more;
	char *wrong = next_line(r, &more);

	if (!wrong && !more)
		wrong = sentence("--import=%s: the file is empty", r->path);
	if (!wrong)
		wrong = gate_query(r->store, &q,
				  "SELECT ?1->>'mvbench_baseline', ?1->>'name', ?1->>'made', "
				  "?1->>'runs', ?1->>'made' IS strftime('%Y-%m-%dT%H:%M:%SZ', "
				  "?1->>'made')",
				  "t", r->line);
	if (!wrong)
		wrong = gate_step(r->store, q, &more);
	if (wrong) {
		sqlite3_finalize(q);
		return wrong;
	}
	int64_t version = sqlite3_column_int64(q, 0);
	r->promised = sqlite3_column_int64(q, 3);
	r->name = must(strdup(gate_text(q, 1)));
	r->made = must(strdup(gate_text(q, 2)));
	bool dated = sqlite3_column_int(q, 4);
	sqlite3_finalize(q);
	if (version > FILE_VERSION)
		return at_line(r, sentence("the file was made by a newer mvbench (version %lld, "
					   "this one knows %d)",
					   (long long)version, FILE_VERSION));
	if (version != FILE_VERSION || !*r->name || !dated || r->promised < 1)
		return at_line(r, sentence("the first line of a baseline looks like "
					   "{\"mvbench_baseline\":1,\"name\":\"main\",\"made\":"
					   "\"2026-01-31T12:00:00Z\",\"runs\":15}"));
	return NULL;
}

static const struct field *field_find(const char *name)
{
	for (int i = 0; i < FIELDS; i++)
		if (strcmp(fields[i].name, name) == 0)
			return &fields[i];
	return NULL;
}

/* NULL, or what is wrong with it: of the right kind, and in its range? */
static char *check_field(const struct field *f, const char *key, const char *type, double x)
{
	bool whole = strcmp(type, "integer") == 0;

	if (!f)
		return sentence("\"%s\" is no field of a baseline", key);
	if (strcmp(f->type, type) != 0 && !(whole && strcmp(f->type, "real") == 0))
		return sentence("\"%s\" is of type %s where %s is wanted", key, type, f->type);
	if (strcmp(key, "test_accuracy") == 0 && (x < 0 || x > 1))
		return sentence("\"test_accuracy\":%g is not in 0..1", x);
	if (!isfinite(x) || (x < 0 && strcmp(f->type, "integer") == 0))
		return sentence("\"%s\":%g is out of range", key, x);
	return NULL;
}

/* The fields of a line, bound to the statement's parameters of their names. */
static char *bind_fields(const struct reader *r, sqlite3_stmt *insert)
{
	sqlite3_stmt *q = NULL;
	bool more = false, seen[FIELDS] = {false};
	char *wrong =
		gate_query(r->store, &q, "SELECT key, type, ?1 -> fullkey, atom FROM json_each(?1)",
			  "t", r->line);

	while (!wrong && !(wrong = gate_step(r->store, q, &more)) && more) {
		const char *key = gate_text(q, 0), *type = gate_text(q, 1), *raw = gate_text(q, 2);
		const struct field *f = field_find(key);
		bool number = strcmp(type, "real") == 0 || strcmp(type, "integer") == 0;
		double x = number ? strtod(raw, NULL) : 0;
		if ((wrong = check_field(f, key, type, x)))
			break;
		if (seen[f - fields]) {
			wrong = sentence("\"%s\" stands there twice", key);
			break;
		}
		seen[f - fields] = true;
		char parameter[32];
		snprintf(parameter, sizeof parameter, ":%s", key);
		int at = sqlite3_bind_parameter_index(insert, parameter);
		if (strcmp(f->type, "real") == 0) /* SQLite's reading can be a last bit off */
			sqlite3_bind_double(insert, at, x);
		else if (number)
			sqlite3_bind_int64(insert, at, sqlite3_column_int64(q, 3));
		else
			sqlite3_bind_text(insert, at, *type == 'o' ? raw : gate_text(q, 3), -1,
					  SQLITE_TRANSIENT);
	}
	sqlite3_finalize(q);
	for (int i = 0; !wrong && i < FIELDS; i++)
		if (fields[i].needed && !seen[i])
			wrong = sentence("\"%s\" is missing", fields[i].name);
	return wrong;
}

/* The line's options must make the configuration that it says: else it was edited, or comes from
 * an mvbench with other options. cell gets its identity. */
static char *check_options(const struct reader *r, char cell[17])
{
	sqlite3_stmt *q = NULL;
	struct config c;
	char hex[17];
	bool row = false;
	char *wrong =
		gate_query(r->store, &q, "SELECT ?1->'options', ?1->>'seed', ?1->>'config_hash'",
			  "t", r->line);

	if (!wrong)
		wrong = gate_step(r->store, q, &row);
	if (!wrong)
		wrong = gate_config(r->store, gate_text(q, 0), sqlite3_column_int64(q, 1), NULL, 0,
				    &c);
	if (!wrong) {
		config_hash(&c, hex);
		gate_cell(&c, cell);
		config_fini(&c);
		if (strcmp(hex, gate_text(q, 2)) != 0)
			wrong = sentence("the options do not make config_hash %s: the line was "
					 "changed, or comes from an mvbench with other options",
					 gate_text(q, 2));
	}
	sqlite3_finalize(q);
	return wrong;
}

static char *insert_text(void)
{
	sqlite3_str *sql = sqlite3_str_new(NULL);

	sqlite3_str_appendall(sql, "INSERT INTO baseline (name, made, cell, run_id");
	for (int i = 0; i < FIELDS; i++)
		sqlite3_str_appendf(sql, ", %s", fields[i].name);
	sqlite3_str_appendall(sql, ") VALUES (:name, :made, :cell, (SELECT id FROM run WHERE "
				   "config_hash = :config_hash AND started = :started AND host IS "
				   ":host AND status = 'done')");
	for (int i = 0; i < FIELDS; i++)
		sqlite3_str_appendf(sql, ", :%s", fields[i].name);
	sqlite3_str_appendall(sql, ")");
	return must(sqlite3_str_finish(sql));
}

static void bind_name(sqlite3_stmt *q, const char *parameter, const char *value)
{
	sqlite3_bind_text(q, sqlite3_bind_parameter_index(q, parameter), value, -1,
			  SQLITE_TRANSIENT);
}

static char *read_run(struct reader *r, sqlite3_stmt *insert)
{
	char cell[17];

	sqlite3_reset(insert);
	sqlite3_clear_bindings(insert);
	char *wrong = bind_fields(r, insert);
	if (!wrong)
		wrong = check_options(r, cell);
	if (wrong)
		return at_line(r, wrong);
	bind_name(insert, ":name", r->name);
	bind_name(insert, ":made", r->made);
	bind_name(insert, ":cell", cell);
	int rc = sqlite3_step(insert);
	if ((rc & 0xff) == SQLITE_CONSTRAINT)
		return at_line(r, sentence("this run stands there twice: same options, same seed"));
	r->runs++;
	return rc == SQLITE_DONE ? NULL : database_error(r->store, rc);
}

/* The same baseline again changes nothing; another of its name has to be meant. */
static char *make_room(struct reader *r, const struct gate_options *o)
{
	int64_t other = 0;
	char *wrong = sql_number(r->store, &other,
				 "SELECT count(*) FROM baseline WHERE name = ?1 AND made <> ?2",
				 "tt", r->name, r->made);

	if (!wrong && other && !o->replace)
		return sentence("--import=%s: %s has another baseline %s; --replace puts this one "
				"in its place, --save=NAME gives it another name",
				r->path, r->store->path, r->name);
	if (!wrong && other)
		return baseline_clear(r->store, r->name);
	return wrong ? wrong
		     : sql_change(r->store, "DELETE FROM baseline WHERE name = ?1", "t", r->name);
}

static char *read_file(struct reader *r, const struct gate_options *o)
{
	sqlite3_stmt *insert = NULL;
	bool more = false;
	char *wrong = read_header(r);

	if (!wrong && *o->save) {
		free(r->name);
		r->name = must(strdup(o->save));
	}
	if (!wrong && (wrong = baseline_name("save", r->name)) && !*o->save)
		wrong = at_line(r, wrong);
	if (!wrong)
		wrong = make_room(r, o);
	char *sql = insert_text();
	if (!wrong)
		wrong = gate_query(r->store, &insert, sql, "");
	sqlite3_free(sql);
	while (!wrong && !(wrong = next_line(r, &more)) && more)
		wrong = read_run(r, insert);
	sqlite3_finalize(insert);
	if (!wrong && r->runs != r->promised)
		wrong = sentence("%s:%lld: %lld runs are promised in the first line, but the file "
				 "has %lld: it is cut short, or lines were taken out or added",
				 r->path, (long long)r->number, (long long)r->promised,
				 (long long)r->runs);
	return wrong;
}

char *baseline_import(struct store *s, const struct gate_options *o)
{
	struct reader r = {.store = s, .path = o->import, .file = fopen(o->import, "r")};

	if (!r.file)
		return sentence("--import=%s: the file cannot be read (%s)", r.path,
				strerror(errno));
	char *wrong = sql_begin(s);
	if (!wrong)
		wrong = sql_end(s, read_file(&r, o));
	if (!wrong)
		fprintf(stderr, "mvbench: baseline %s has %lld run%s\n", r.name, (long long)r.runs,
			r.runs == 1 ? "" : "s");
	fclose(r.file);
	free(r.line);
	free(r.name);
	free(r.made);
	return wrong;
}
