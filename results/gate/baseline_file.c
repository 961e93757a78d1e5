/*
 * baseline_file.c - a baseline as a text file that is kept with the code: JSON Lines, a header and
 * one line for each run, in a fixed order. Each number has the digits that read back as the same
 * double. Two versions of the file therefore differ in the lines of the runs that differ.
 */
#include "results/gate/gate.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_VERSION = 2, LINE_BYTES_MAX = 1 << 20 };

/* The columns of baseline that the file contains, in this order; the others follow from them. */
static const struct field {
	const char *name, *type; /* as json_each has it */
	bool needed;
} fields[] = {
	{"config", "text", true},         {"seed", "integer", true},
	{"options", "object", true},      {"config_hash", "text", true},
	{"params", "integer", false},     {"train_size", "integer", false},
	{"test_size", "integer", false},  {"running_loss", "real", false},
	{"train_loss", "real", false},    {"test_loss", "real", false},
	{"test_accuracy", "real", false}, {"epoch_seconds", "real", false},
	{"simulated_s", "real", false},   {"calibration", "text", false},
	{"model_hash", "text", false},    {"started", "text", false},
	{"host", "text", false},          {"cpu", "text", false},
	{"gpu", "text", false},           {"mpi", "text", false},
	{"onednn", "text", false},        {"cuda", "text", false},
	{"git_commit", "text", false},    {"git_dirty", "integer", false},
};
enum { FIELDS = sizeof fields / sizeof *fields };

/* ---- Out ----------------------------------------------------------------- */

/* The names of the fields, each after `before`, with commas. Heap. */
static char *field_names(const char *before)
{
	struct text t;
	FILE *f = text_open(&t);
	for (int i = 0; i < FIELDS; i++)
		fprintf(f, "%s%s%s", i ? ", " : "", before, fields[i].name);
	return text_close(&t);
}

/* An unknown value has no field. A real number always has a point or an exponent. */
static void write_run(FILE *f, const struct sql *q)
{
	const char *separator = "{";
	char digits[40];
	for (int i = 0; i < FIELDS; i++) {
		if (sql_null(q, i))
			continue;
		fprintf(f, "%s\"%s\":", separator, fields[i].name);
		if (strcmp(fields[i].type, "real") == 0) {
			real_digits(sql_real(q, i), digits);
			fprintf(f, "%s%s", digits,
				digits[strspn(digits, "-0123456789")] ? "" : ".0");
		} else if (strcmp(fields[i].type, "text") == 0) {
			text_json(f, sql_text(q, i));
		} else {
			fputs(sql_text(q, i), f);
		}
		separator = ",";
	}
	fputs("}\n", f);
}

static char *write_header(struct store *s, FILE *f, const char *name)
{
	struct sql q = sql_select(s, "SELECT max(made), count(*) FROM baseline WHERE name = ?1",
				  "t", name);
	if (sql_next(&q)) {
		fprintf(f, "{\"mvbench_baseline\":%d,\"name\":", FILE_VERSION);
		text_json(f, name);
		fprintf(f, ",\"made\":\"%s\",\"runs\":%lld}\n", sql_text(&q, 0),
			(long long)sql_int(&q, 1));
	}
	return sql_done(&q);
}

char *baseline_export(struct store *s, FILE *f, const char *name)
{
	TRY(baseline_find(s, "against", name));
	TRY(write_header(s, f, name));
	char *names AUTOFREE = field_names("");
	char *sql AUTOFREE =
		sentence("SELECT %s FROM baseline WHERE name = ?1 ORDER BY options, seed", names);
	struct sql q = sql_select(s, sql, "t", name);

	while (sql_next(&q))
		write_run(f, &q);
	return sql_done(&q);
}

/* ---- In ------------------------------------------------------------------ */

struct reader {
	struct store *store;
	const char *path;
	FILE *file;
	char *line;
	size_t room;
	int64_t version;                /* 1: its train_loss is the running loss */
	int64_t number, runs, promised; /* lines from 1; runs read, and runs in the header */
	char *name, *made;
};

static char *at_line(const struct reader *r, char *what)
{
	char *said AUTOFREE = what;
	return sentence("%s:%lld: %s", r->path, (long long)r->number, said);
}

/* *more: is there another line? Checks that the line is a JSON object. */
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
		return at_line(r, sentence("not a line of a baseline"));
	TRY(sql_number(r->store, &good, "SELECT iif(json_valid(?1), json_type(?1) IS 'object', 0)",
		       "t", r->line));
	return good ? NULL
		    : at_line(r, sentence("not a complete JSON object: the line is damaged, or the "
					  "file was not made by mvbench check --export"));
}

static char *read_header(struct reader *r)
{
	bool more;
	TRY(next_line(r, &more));
	if (!more)
		return sentence("--import=%s: the file is empty", r->path);
	struct sql q AUTODONE =
		sql_select(r->store,
			   "SELECT ?1->>'mvbench_baseline', ?1->>'name', ?1->>'made', "
			   "?1->>'runs', ?1->>'made' IS strftime('%Y-%m-%dT%H:%M:%SZ', "
			   "?1->>'made')",
			   "t", r->line);
	if (!sql_next(&q))
		return sql_done(&q);
	int64_t version = sql_int(&q, 0);
	r->promised = sql_int(&q, 3);
	r->name = sql_copy(&q, 1);
	r->made = sql_copy(&q, 2);
	if (version > FILE_VERSION)
		return at_line(r, sentence("the file was made by a newer mvbench (version %lld, "
					   "this one knows %d)",
					   (long long)version, FILE_VERSION));
	r->version = version;
	if (version < 1 || !*r->name || !sql_int(&q, 4) || r->promised < 1)
		return at_line(r, sentence("the first line of a baseline looks like "
					   "{\"mvbench_baseline\":2,\"name\":\"main\",\"made\":"
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

/* NULL, or a sentence: the field has another type, or is out of range. */
static char *check_field(const struct field *f, const char *key, const char *type, double x)
{
	bool whole = strcmp(type, "integer") == 0;
	if (!f)
		return sentence("\"%s\" is not a field of a baseline", key);
	if (strcmp(f->type, type) != 0 && !(whole && strcmp(f->type, "real") == 0))
		return sentence("\"%s\" is of type %s, not %s", key, type, f->type);
	if (strcmp(key, "test_accuracy") == 0 && (x < 0 || x > 1))
		return sentence("\"test_accuracy\":%g is not in 0..1", x);
	if (!isfinite(x) || (x < 0 && strcmp(f->type, "integer") == 0))
		return sentence("\"%s\":%g is out of range", key, x);
	return NULL;
}

static int parameter_of(const struct sql *insert, const struct field *f)
{
	char name[32];
	snprintf(name, sizeof name, ":%s", f->name);
	return sql_parameter(insert, name);
}

/* Binds one field of a line to the parameter of its name. */
static char *bind_field(const struct reader *r, const struct sql *q, struct sql *insert,
			bool seen[FIELDS])
{
	const char *key = sql_text(q, 0);
	if (r->version == 1 && strcmp(key, "train_loss") == 0)
		key = "running_loss";
	const char *type = sql_text(q, 1), *raw = sql_text(q, 2);
	const struct field *f = field_find(key);
	bool number = strcmp(type, "real") == 0 || strcmp(type, "integer") == 0;
	double x = number ? strtod(raw, NULL) : 0;
	TRY(check_field(f, key, type, x));
	if (seen[f - fields])
		return sentence("\"%s\" occurs twice", key);
	seen[f - fields] = true;
	int at = parameter_of(insert, f);
	if (strcmp(f->type, "real") == 0) /* SQLite's parser can be wrong in the last bit */
		sql_set(insert, at, "r", x);
	else if (number)
		sql_set(insert, at, "i", sql_int(q, 3));
	else
		sql_set(insert, at, "t", *type == 'o' ? raw : sql_text(q, 3));
	return NULL;
}

static char *bind_fields(const struct reader *r, struct sql *insert)
{
	bool seen[FIELDS] = {false};
	struct sql q AUTODONE = sql_select(
		r->store, "SELECT key, type, ?1 -> fullkey, atom FROM json_each(?1)", "t", r->line);
	for (int i = 0; i < FIELDS; i++)
		sql_set(insert, parameter_of(insert, &fields[i]), "t", (char *)NULL);
	while (sql_next(&q))
		TRY(bind_field(r, &q, insert, seen));
	TRY(sql_done(&q));
	for (int i = 0; i < FIELDS; i++)
		if (fields[i].needed && !seen[i])
			return sentence("\"%s\" is missing", fields[i].name);
	return NULL;
}

/* The line's options must make the configuration of its config_hash. Otherwise the line was edited,
 * or comes from an mvbench with other options. cell gets the identity of the cell. */
static char *check_options(const struct reader *r, char cell[17])
{
	struct config c AUTOCONFIG = {0};
	char hex[17];
	struct sql q AUTODONE = sql_select(
		r->store, "SELECT ?1->'options', ?1->>'seed', ?1->>'config_hash'", "t", r->line);
	if (!sql_next(&q))
		return sql_done(&q);
	TRY(gate_config(r->store, sql_text(&q, 0), sql_int(&q, 1), NULL, 0, &c));
	config_hash(&c, hex);
	gate_cell(&c, cell);
	if (strcmp(hex, sql_text(&q, 2)) == 0)
		return NULL;
	return sentence("the options do not make config_hash %s: the line was changed, or comes "
			"from an mvbench with other options",
			sql_text(&q, 2));
}

/* Returns no row if the run is in the baseline already. */
static char *insert_text(void)
{
	char *names AUTOFREE = field_names(""), *values AUTOFREE = field_names(":");
	return sentence("INSERT INTO baseline (name, made, cell, run_id, %s) "
			"VALUES (:name, :made, :cell, (SELECT id FROM run WHERE "
			"config_hash = :config_hash AND started = :started AND host IS :host "
			"AND status = 'done'), %s) ON CONFLICT DO NOTHING RETURNING 1",
			names, values);
}

static char *read_run(struct reader *r, struct sql *insert)
{
	char cell[17];
	char *wrong = bind_fields(r, insert);
	if (!wrong)
		wrong = check_options(r, cell);
	if (wrong)
		return at_line(r, wrong);
	sql_set(insert, sql_parameter(insert, ":name"), "t", r->name);
	sql_set(insert, sql_parameter(insert, ":made"), "t", r->made);
	sql_set(insert, sql_parameter(insert, ":cell"), "t", cell);
	r->runs++;
	if (!sql_next(insert) && sql_well(insert))
		return at_line(r, sentence("this run occurs twice: same options, same seed"));
	return NULL;
}

static char *read_runs(struct reader *r)
{
	char *text AUTOFREE = insert_text();
	struct sql insert AUTODONE = sql_select(r->store, text, "");
	for (bool more;;) {
		TRY(next_line(r, &more));
		if (!more)
			return sql_done(&insert);
		TRY(read_run(r, &insert));
	}
}

/* Deletes the stored rows of this baseline. Another baseline of its name needs --replace. */
static char *make_room(struct reader *r, const struct gate_options *o)
{
	int64_t other = 0;
	TRY(sql_number(r->store, &other,
		       "SELECT count(*) FROM baseline WHERE name = ?1 AND made <> ?2", "tt",
		       r->name, r->made));
	if (other && !o->replace)
		return sentence(
			"--import=%s: %s has another baseline %s; use --replace to replace it, or "
			"--save=NAME to give this one another name",
			r->path, r->store->path, r->name);
	return other ? baseline_clear(r->store, r->name)
		     : sql_change(r->store, "DELETE FROM baseline WHERE name = ?1", "t", r->name);
}

static char *read_file(struct reader *r, const struct gate_options *o)
{
	TRY(read_header(r));
	if (*o->save) {
		free(r->name);
		r->name = must(strdup(o->save));
	}
	char *wrong = baseline_name("save", r->name);
	if (wrong)
		return *o->save ? wrong : at_line(r, wrong);
	TRY(make_room(r, o));
	TRY(read_runs(r));
	if (r->runs == r->promised)
		return NULL;
	return sentence(
		"%s:%lld: the first line announces %lld runs, but the file has %lld: it is cut "
		"short, or lines were taken out or added",
		r->path, (long long)r->number, (long long)r->promised, (long long)r->runs);
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
		complain(sentence("baseline %s has %lld run%s", r.name, (long long)r.runs,
				  plural(r.runs)));
	fclose(r.file);
	free(r.line);
	free(r.name);
	free(r.made);
	return wrong;
}
