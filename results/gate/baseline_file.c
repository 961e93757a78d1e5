/*
 * baseline_file.c - a baseline as a text file that is kept with the code: JSON Lines, a header and
 * one line for each run, in a fixed order. Each number has the digits that read back as the same
 * double. Two versions of the file therefore differ in the lines of the runs that differ.
 */
#include "results/gate/gate.h"
#include "runtime/config/config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

TEXT_FILE(fields_sql, "results/gate/fields.sql");
TEXT_FILE(line_sql, "results/gate/line.sql");

enum { FILE_VERSION = 2 };

/* A statement about the fields: the first %s of `form` becomes "a, b", the second ":a, :b". *sql:
 * heap. */
static char *of_fields(struct store *s, const char *form, char **sql)
{
	TRY(sql_script(s, fields_sql));
	return sql_first(s, sql,
			 "SELECT printf(?1, group_concat(name, ', '), "
			 "group_concat(':' || name, ', ')) FROM field",
			 "t", form);
}

/* ---- Out ----------------------------------------------------------------- */

/* An unknown value has no field. */
static void write_run(FILE *f, const struct sql *q)
{
	const char *separator = "{";
	char digits[40];
	for (int i = 0; i < sql_columns(q); i++) {
		if (sql_null(q, i))
			continue;
		fprintf(f, "%s\"%s\":", separator, sql_name(q, i));
		separator = ",";
		if (!sql_is_text(q, i)) {
			real_digits(sql_real(q, i), digits, sizeof digits);
			fputs(digits, f);
		} else if (strcmp(sql_name(q, i), "options") == 0) {
			text_json_made(f, sql_text(q, i));
		} else {
			text_json(f, sql_text(q, i));
		}
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
		fputs(",\"made\":", f);
		text_json(f, sql_text(&q, 0));
		fprintf(f, ",\"runs\":%lld}\n", (long long)sql_int(&q, 1));
	}
	return sql_done(&q);
}

static char *write_runs(struct store *s, FILE *f, const char *name)
{
	char *sql AUTOFREE = NULL;
	TRY(of_fields(s, "SELECT %s FROM baseline WHERE name = ?1 ORDER BY options, seed", &sql));
	struct sql q = sql_select(s, sql, "t", name);
	while (sql_next(&q))
		write_run(f, &q);
	return sql_done(&q);
}

char *baseline_export(struct store *s, const struct gate_options *o)
{
	struct output out;
	if (!*o->against)
		return sentence("--export=%s: name the baseline with --against", o->export);
	TRY(baseline_find(s, "against", o->against));
	TRY(output_open(&out, "--export=", strcmp(o->export, "-") == 0 ? "" : o->export));
	char *wrong = write_header(s, out.f, o->against);
	if (!wrong)
		wrong = write_runs(s, out.f, o->against);
	return output_close(&out, wrong);
}

/* ---- In ------------------------------------------------------------------ */

struct reader {
	struct store *store;
	const char *path;
	char *line, *rest; /* of the file */
	int64_t version;
	int64_t number, runs, promised; /* lines from 1; runs read, and runs in the header */
	char *name, *made;
};

static char *at_line(const struct reader *r, char *what)
{
	char *said AUTOFREE = what;
	return sentence("%s:%lld: %s", r->path, (long long)r->number, said);
}

/* Takes the next line, which must be a JSON object. NULL in r->line: the file has ended. */
static char *next_line(struct reader *r)
{
	int64_t object = 0;
	r->line = r->rest && *r->rest ? strsep(&r->rest, "\n") : NULL;
	if (!r->line)
		return NULL;
	r->number++;
	TRY(sql_number(r->store, &object,
		       "SELECT iif(json_valid(?1), json_type(?1) IS 'object', 0)", "t", r->line));
	return object ? NULL
		      : at_line(r, sentence("not a complete JSON object: the line is damaged, or "
					    "the file was not made by mvbench check --export"));
}

static char *read_header(struct reader *r)
{
	TRY(next_line(r));
	if (!r->line)
		return sentence("--import=%s: the file is empty", r->path);
	struct sql q AUTODONE =
		sql_select(r->store,
			   "SELECT ?1->>'mvbench_baseline', ?1->>'name', ?1->>'made', "
			   "?1->>'runs', ?1->>'made' IS strftime('%Y-%m-%dT%H:%M:%SZ', "
			   "?1->>'made')",
			   "t", r->line);
	if (!sql_next(&q))
		return sql_done(&q);
	r->version = sql_int(&q, 0);
	r->name = sql_copy(&q, 1);
	r->made = sql_copy(&q, 2);
	r->promised = sql_int(&q, 3);
	if (r->version > FILE_VERSION)
		return at_line(r, sentence("the file was made by a newer mvbench (version %lld, "
					   "this one knows %d)",
					   (long long)r->version, FILE_VERSION));
	if (r->version < 1 || !*r->name || !sql_int(&q, 4) || r->promised < 1)
		return at_line(r, sentence("the first line of a baseline looks like "
					   "{\"mvbench_baseline\":2,\"name\":\"main\",\"made\":"
					   "\"2026-01-31T12:00:00Z\",\"runs\":15}"));
	return NULL;
}

/* Binds the fields of the line to the parameters of their names. */
static char *bind_fields(const struct reader *r, struct sql *insert)
{
	struct sql q AUTODONE = sql_select(r->store, line_sql, "ti", r->line, r->version);
	while (sql_next(&q)) {
		int at = sql_parameter(insert, sql_text(&q, 0));
		const char *value = sql_null(&q, 1) ? NULL : sql_text(&q, 1);
		if (!sql_null(&q, 3))
			return sql_copy(&q, 3);
		if (sql_int(&q, 2)) /* SQLite's parser can be wrong in the last bit */
			sql_set(insert, at, "r", strtod(value, NULL));
		else
			sql_set(insert, at, "t", value);
	}
	return sql_done(&q);
}

/* The line's options must make the configuration of its config_hash. Otherwise the line was edited,
 * or comes from an mvbench with other options. cell gets the identity of the cell. */
static char *check_line_options(const struct reader *r, char cell[17])
{
	struct config c AUTOCONFIG = {0};
	char hex[17];
	struct sql q AUTODONE = sql_select(
		r->store, "SELECT ?1->'options', ?1->>'seed', ?1->>'config_hash'", "t", r->line);
	if (!sql_next(&q))
		return sql_done(&q);
	TRY(gate_config_recorded(r->store, sql_text(&q, 0), sql_int(&q, 1), NULL, 0, &c));
	config_hash(&c, hex);
	gate_cell(&c, cell);
	if (strcmp(hex, sql_text(&q, 2)) == 0)
		return NULL;
	return sentence("the options do not make config_hash %s: the line was changed, or comes "
			"from an mvbench with other options",
			sql_text(&q, 2));
}

static char *read_run(struct reader *r, struct sql *insert)
{
	char cell[17];
	char *wrong = bind_fields(r, insert);
	if (!wrong)
		wrong = check_line_options(r, cell);
	if (wrong)
		return at_line(r, wrong);
	sql_set(insert, 1, "ttt", r->name, r->made, cell);
	r->runs++;
	if (!sql_next(insert) && sql_well(insert))
		return at_line(r, sentence("this run occurs twice: same options, same seed"));
	return NULL;
}

/* The statement returns no row if the run is in the baseline already. */
static char *read_runs(struct reader *r)
{
	char *sql AUTOFREE = NULL;
	TRY(of_fields(r->store,
		      "INSERT INTO baseline (name, made, cell, run_id, %s) VALUES (?1, ?2, ?3, "
		      "(SELECT id FROM run WHERE config_hash = :config_hash AND started = :started "
		      "AND host IS :host AND status = 'done'), %s) ON CONFLICT DO NOTHING "
		      "RETURNING 1",
		      &sql));
	struct sql insert AUTODONE = sql_select(r->store, sql, "");
	TRY(next_line(r));
	while (r->line) {
		TRY(read_run(r, &insert));
		TRY(next_line(r));
	}
	return sql_done(&insert);
}

/* Deletes the stored rows of this baseline. Another baseline of its name needs --replace. */
static char *clear_name(struct reader *r, const struct gate_options *o)
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

static char *read_baseline(struct reader *r, const struct gate_options *o)
{
	TRY(read_header(r));
	if (*o->save) {
		free(r->name);
		r->name = must(strdup(o->save));
	}
	char *wrong = baseline_name(r->name);
	if (wrong)
		return *o->save ? wrong : at_line(r, wrong);
	TRY(clear_name(r, o));
	TRY(read_runs(r));
	if (r->runs == r->promised)
		return NULL;
	return sentence(
		"%s:%lld: the first line announces %lld runs, but the file has %lld: it is cut "
		"short, or lines were taken out or added",
		r->path, (long long)r->number, (long long)r->promised, (long long)r->runs);
}

static char *import_text(struct store *s, const struct gate_options *o, char *text,
			 struct reader *r)
{
	free(r->name);
	free(r->made);
	*r = (struct reader){.store = s, .path = o->import, .rest = text};
	TRY(sql_begin(s));
	return sql_end(s, read_baseline(r, o));
}

/* Tries it in memory first: a file that is refused makes no database. */
char *baseline_import(struct store *s, const struct gate_options *o)
{
	char *text AUTOFREE = text_read(o->import);
	if (!text)
		return sentence("--import=%s: the file cannot be read (%s)", o->import,
				strerror(errno));
	char *again AUTOFREE = must(strdup(text));
	struct store *trial AUTOCLOSE = sql_schema();
	struct reader r = {.name = NULL};
	char *wrong = import_text(trial, o, text, &r);
	if (!wrong)
		wrong = store_begin(s);
	if (!wrong)
		wrong = import_text(s, o, again, &r);
	if (!wrong)
		complain(sentence("baseline %s has %lld run%s", r.name, (long long)r.runs,
				  plural(r.runs)));
	free(r.name);
	free(r.made);
	return wrong;
}
