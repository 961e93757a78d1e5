/*
 * baseline.c - named baselines: results of finished runs, with which later runs are compared.
 *
 * A cell is a configuration without its seed. Its identity is its hash with seed 0.
 */
#include "results/gate/gate.h"
#include "runtime/config/config.h"

#include <stdlib.h>
#include <string.h>

TEXT_FILE(save_sql, "results/gate/save.sql");
TEXT_FILE(seeds_sql, "results/gate/seeds.sql");
TEXT_FILE(baselines_sql, "results/gate/baselines.sql");

enum { SEEDS_MIN = 3, COMMANDS_MAX = 5 };

/* ---- Options of a cell --------------------------------------------------- */

/* The file of an initial model does not decide, but a run needs it. A plug-in's option does. */
static bool decides(const char *name)
{
	const struct option *o = option_find(run_options, name);
	return !o || !o->incidental || strcmp(o->name, "init-from") == 0;
}

char *gate_settings(struct store *s, const char *options, int64_t seed, const struct setting *more,
		    size_t n, struct settings *all)
{
	struct sql q AUTODONE = sql_select(s, "SELECT key, atom FROM json_each(?1)", "t", options);
	while (sql_next(&q)) {
		const char *name = sql_text(&q, 0);
		if (!decides(name))
			return sentence("a baseline has only options that decide results, and not "
					"%s: it was changed",
					name);
		settings_add(all, sql_copy(&q, 0), sql_copy(&q, 1));
	}
	settings_add(all, must(strdup("seed")), sentence("%lld", (long long)seed));
	settings_give(all, more, n);
	return sql_done(&q);
}

char *gate_config(struct store *s, const char *options, int64_t seed, const struct setting *more,
		  size_t n, struct config *c)
{
	struct settings all ENDS_WITH(settings_free) = {.setting = NULL};
	TRY(gate_settings(s, options, seed, more, n, &all));
	return config_init(c, all.setting, all.n, false);
}

char *gate_config_recorded(struct store *s, const char *options, int64_t seed,
			   const struct setting *more, size_t n, struct config *c)
{
	struct settings all ENDS_WITH(settings_free) = {.setting = NULL};
	TRY(gate_settings(s, options, seed, more, n, &all));
	return config_init_recorded(c, all.setting, all.n);
}

/* The options that decide results, without the seed, as gate_config reads them. Heap. */
static char *options_of(const struct config *c)
{
	const char *separator = "";
	struct text t;
	FILE *f = text_open(&t);
	fputc('{', f);
	for (struct config_option at = {.config = c}; config_next(&at);) {
		const struct option *o = at.option;
		bool file = strcmp(o->name, "init-from") == 0 && *at.value; /* of initial-model */
		if ((o->incidental && !file) || o->core.repeats || option_follows(&at))
			continue;
		char *name AUTOFREE = option_full_name(at.owner, o);
		fputs(separator, f);
		text_json(f, name);
		fputc(':', f);
		text_json(f, at.value);
		separator = ",";
	}
	fputc('}', f);
	return text_close(&t);
}

void gate_cell(const struct config *c, char hex[17])
{
	struct config same = *c;
	same.run.seed = 0;
	config_hash(&same, hex);
}

/* ---- Names ---------------------------------------------------------------- */

char *baseline_name(const char *name)
{
	for (const char *p = name; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			return sentence("--save: the name of a baseline is one line without "
					"control characters, such as --save=main");
	return *name ? NULL : sentence("--save=: give a name, such as --save=main");
}

char *baseline_clear(struct store *s, const char *name)
{
	return sql_change(s,
			  "DELETE FROM baseline WHERE name = ?1;"
			  "DELETE FROM checked WHERE name = ?1;"
			  "DELETE FROM gate_limit WHERE name = ?1",
			  "t", name);
}

/* ---- Saving -------------------------------------------------------------- */

static char *save_run(struct store *s, struct sql *insert, int64_t id)
{
	struct config c AUTOCONFIG = {0};
	char cell[17];
	bool exact;
	char *wrong AUTOFREE = recorded_config(s, id, &c, &exact);
	if (wrong)
		return sentence("run %lld cannot be a baseline: %s", (long long)id, wrong);
	char *options AUTOFREE = options_of(&c);
	gate_cell(&c, cell);
	sql_set(insert, 3, "tti", cell, options, id);
	sql_next(insert);
	return exact ? NULL
		     : sentence("run %lld was recorded by an mvbench with other options; this one "
				"cannot make its configuration: record it again, or leave it out "
				"with --where=\"id <> %lld\"",
				(long long)id, (long long)id);
}

/* Saves the newest finished run of every selected cell and seed. */
static char *save_runs(struct store *s, const struct gate_options *o, int64_t *runs)
{
	static const char choice[] =
		"SELECT max(id) FROM run JOIN listed USING (id) WHERE status = 'done' AND "
		"ifnull(sim_replay, 0) = 0 AND trace = 0 GROUP BY config_hash";
	char *made AUTOFREE = NULL;
	TRY(sql_first(s, &made, "SELECT strftime('%Y-%m-%dT%H:%M:%SZ', 'now')", ""));
	TRY(database_list(s, o->where, o->label));
	struct sql q AUTODONE = sql_select(s, choice, "");
	struct sql insert AUTODONE = sql_select(s, save_sql, "tt", o->save, made);
	for (; sql_next(&q); ++*runs)
		TRY(save_run(s, &insert, sql_int(&q, 0)));
	TRY(sql_done(&q));
	TRY(sql_done(&insert));
	if (*runs)
		return NULL;
	return sentence(
		"--save=%s: none of the finished runs in %s matches (runs with a timeline, "
		"--trace, and replays do not count): record some with mvbench sweep, or loosen "
		"--where or --label",
		o->save, s->path);
}

/* A test needs the spread of a cell: at least SEEDS_MIN seeds. Simulations of time alone have no
 * spread. */
static char *check_seeds(struct store *s, const char *name)
{
	struct sql q AUTODONE = sql_select(s, seeds_sql, "ti", name, (int64_t)SEEDS_MIN);
	char *list AUTOFREE = must(strdup("")), *db AUTOFREE = word_quoted(s->path);
	int few = 0;
	while (sql_next(&q) && few++ < COMMANDS_MAX) {
		struct config c AUTOCONFIG = {0};
		TRY(gate_config(s, sql_text(&q, 0), 0, NULL, 0, &c));
		char *command AUTOFREE = command_of(&c, true), *before AUTOFREE = list;
		list = sentence("%s\n  for seed in %s; do %s --seed=$seed --db=%s; done", before,
				sql_text(&q, 1), command, db);
	}
	TRY(sql_done(&q));
	return few ? sentence("--save=%s: %s fewer than %d seeds, and the test needs the spread of "
			      "the seeds; leave them out with --where, or add seeds:%s%s",
			      name, few > 1 ? "some cells have" : "one of the cells has", SEEDS_MIN,
			      list, few > COMMANDS_MAX ? "\n  ..." : "")
		   : NULL;
}

/* Asynchronous strategies train another model over another network. */
static char *check_networks(struct store *s, const char *name)
{
	struct sql q AUTODONE = sql_select(
		s,
		"SELECT b.config, group_concat(DISTINCT ifnull(r.hosts || ': ' || r.network, "
		"'one machine')) FROM baseline AS b JOIN run AS r ON r.id = b.run_id WHERE "
		"b.name = ?1 GROUP BY cell HAVING count(DISTINCT ifnull(r.hosts || r.network, "
		"'')) > 1",
		"t", name);
	if (sql_next(&q))
		return sentence("--save=%s: the runs of %s are on several networks (%s): choose "
				"one with --where, as in --where=\"hosts = 'lab1,lab2'\"",
				name, sql_text(&q, 0), sql_text(&q, 1));
	return sql_done(&q);
}

static char *save(struct store *s, const struct gate_options *o, int64_t *cells, int64_t *runs)
{
	int64_t there;
	TRY(sql_number(s, &there, "SELECT count(*) FROM baseline WHERE name = ?1", "t", o->save));
	if (there && !o->replace)
		return sentence(
			"--save=%s: there is a baseline of this name; give another name, or "
			"--replace to replace it by these runs",
			o->save);
	TRY(baseline_clear(s, o->save));
	TRY(save_runs(s, o, runs));
	TRY(check_networks(s, o->save));
	TRY(check_seeds(s, o->save));
	return sql_number(s, cells, "SELECT count(DISTINCT cell) FROM baseline WHERE name = ?1",
			  "t", o->save);
}

char *baseline_save(struct store *s, const struct gate_options *o)
{
	int64_t cells = 0, runs = 0;
	TRY(baseline_name(o->save));
	TRY(sql_begin(s));
	TRY(sql_end(s, save(s, o, &cells, &runs)));
	printf("baseline %s: %lld cell%s, %lld run%s\n", o->save, (long long)cells, plural(cells),
	       (long long)runs, plural(runs));
	return NULL;
}

/* ---- Finding, listing, deleting ------------------------------------------- */

char *baseline_find(struct store *s, const char *option, const char *name)
{
	struct sql q AUTODONE = sql_select(s,
					   "SELECT max(name = ?1), group_concat(name, ', ') FROM "
					   "(SELECT DISTINCT name FROM baseline ORDER BY name)",
					   "t", name);
	if (!sql_next(&q) || sql_int(&q, 0))
		return sql_done(&q);
	if (!sql_null(&q, 0))
		return sentence("--%s=%s: %s has no baseline of this name; it has %s", option, name,
				s->path, sql_text(&q, 1));
	char *quoted AUTOFREE = word_quoted(name);
	return sentence("--%s=%s: %s has no baselines yet; mvbench check --save=%s makes one of "
			"its finished runs",
			option, name, s->path, quoted);
}

char *baseline_drop(struct store *s, const struct gate_options *o)
{
	TRY(baseline_find(s, "delete", o->drop));
	TRY(sql_begin(s));
	return sql_end(s, baseline_clear(s, o->drop));
}

char *baseline_list(struct store *s, const struct gate_options *o)
{
	int64_t n = 0;
	TRY(sql_number(s, &n, "SELECT count(*) FROM baseline", ""));
	if (n > 0)
		return query_print(s, stdout, FORMAT_TEXT, baselines_sql, NULL, 0, NULL);
	char *db AUTOFREE = word_quoted(o->db);
	printf("%s has no baselines yet; mvbench check --save=NAME --db=%s makes one of its "
	       "finished runs\n",
	       s->path, db);
	return NULL;
}
