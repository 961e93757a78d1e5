/*
 * baseline.c - named baselines: what finished runs came to, for later ones to be held to.
 *
 * A cell is a configuration without its seed, known by its hash with seed 0.
 */
#include "results/gate/gate.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SEEDS_MIN = 3, COMMANDS_MAX = 5 };

/* ---- Options of a cell --------------------------------------------------- */

struct settings_list {
	struct setting *setting;
	size_t n;
};

static void list_add(struct settings_list *l, char *name, char *value)
{
	l->setting = must(realloc(l->setting, (l->n + 1) * sizeof *l->setting));
	l->setting[l->n++] = (struct setting){name, value};
}

static void list_free(struct settings_list *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free((char *)(uintptr_t)l->setting[i].name);
		free((char *)(uintptr_t)l->setting[i].value);
	}
	free(l->setting);
}

char *gate_config(struct store *s, const char *options, int64_t seed, const struct setting *more,
		  size_t n, struct config *c)
{
	struct settings_list l = {.setting = NULL};
	sqlite3_stmt *q = NULL;
	bool row = false;
	char *wrong = gate_query(s, &q, "SELECT key, atom FROM json_each(?1)", "t", options);

	while (!wrong && !(wrong = gate_step(s, q, &row)) && row)
		list_add(&l, must(strdup(gate_text(q, 0))), must(strdup(gate_text(q, 1))));
	sqlite3_finalize(q);
	list_add(&l, must(strdup("seed")), sentence("%lld", (long long)seed));
	size_t own = l.n;
	for (size_t i = 0; i < n; i++)
		list_add(&l, (char *)(uintptr_t)more[i].name, (char *)(uintptr_t)more[i].value);
	if (!wrong)
		wrong = config_init(c, l.setting, l.n, false);
	l.n = own;
	list_free(&l);
	return wrong;
}

struct option_writer {
	const struct config *config;
	FILE *f;
	const char *separator;
};

static bool decides(const struct option *o, const char *value)
{
	return option_decides(o, value) && !o->core.repeats;
}

static void write_option(void *ctx, const char *part, const struct option *o, const char *value)
{
	struct option_writer *w = ctx;

	if (!decides(o, value))
		return;
	const char *owner = strcmp(part, "strategy") == 0   ? w->config->strategy->plugin.name
			    : strcmp(part, "workload") == 0 ? w->config->workload->plugin.name
							    : "";
	char *name = sentence("%s%s%s", owner, *owner ? "." : "", o->name);
	fputs(w->separator, w->f);
	text_json(w->f, name);
	fputc(':', w->f);
	text_json(w->f, value);
	w->separator = ",";
	free(name);
}

char *gate_options_of(const struct config *c)
{
	char *text = NULL;
	size_t n = 0;
	struct option_writer w = {c, must(open_memstream(&text, &n)), ""};

	fputc('{', w.f);
	config_each(c, write_option, &w);
	fputc('}', w.f);
	fclose(w.f);
	return text;
}

void gate_cell(const struct config *c, char hex[17])
{
	struct config same = *c;

	same.run.seed = 0;
	config_hash(&same, hex);
}

void gate_word(FILE *f, const char *word)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789-_=.,:+/@%";

	if (word[strspn(word, plain)] == '\0') {
		fputs(word, f);
		return;
	}
	fputc('\'', f);
	for (; *word; word++)
		fputs(*word == '\'' ? "'\\''" : (char[]){*word, '\0'}, f);
	fputc('\'', f);
}

char *gate_quoted(const char *word)
{
	char *text = NULL;
	size_t n = 0;
	FILE *f = must(open_memstream(&text, &n));

	gate_word(f, word);
	fclose(f);
	return text;
}

static bool has_word(char **words, const char *word)
{
	for (; *words; words++)
		if (strcmp(*words, word) == 0)
			return true;
	return false;
}

char *gate_command(const struct config *c)
{
	const struct setting names[] = {{"workload", c->run.workload},
					{"strategy", c->run.strategy}};
	char *text = NULL, **words = config_words(c), **usual;
	struct config plain;
	size_t n = 0;
	FILE *f = must(open_memstream(&text, &n));
	char *wrong = config_init(&plain, names, 2, false);

	CHECK(!wrong, "a configuration is refused by its own names: %s", wrong);
	usual = config_words(&plain);
	fprintf(f, "mvbench run --workload=%s --strategy=%s", c->run.workload, c->run.strategy);
	for (char **w = words; *w; w++) {
		bool other = strncmp(*w, "--seed=", 7) != 0 && strncmp(*w, "--db=", 5) != 0 &&
			     strncmp(*w, "--label=", 8) != 0;
		if (!other || has_word(usual, *w))
			continue;
		fputc(' ', f);
		gate_word(f, *w);
	}
	fclose(f);
	config_fini(&plain);
	free_words(usual);
	free_words(words);
	return text;
}

/* ---- Names ---------------------------------------------------------------- */

char *baseline_name(const char *option, const char *name)
{
	for (const char *p = name; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			return sentence("--%s: the name of a baseline is one line without control "
					"characters, such as --%s=main",
					option, option);
	return *name ? NULL
		     : sentence("--%s=: a name is wanted, such as --%s=main", option, option);
}

char *baseline_clear(struct store *s, const char *name)
{
	static const char *const sql[] = {"DELETE FROM baseline WHERE name = ?1",
					  "DELETE FROM checked WHERE name = ?1",
					  "DELETE FROM gate_limit WHERE name = ?1"};
	char *wrong = NULL;

	for (size_t i = 0; !wrong && i < sizeof sql / sizeof *sql; i++)
		wrong = sql_change(s, sql[i], "t", name);
	return wrong;
}

/* ---- Saving -------------------------------------------------------------- */

/* ?2 the cell, ?4 its options, ?5 the run. */
static const char insert_sql[] =
	"INSERT INTO baseline (name, cell, made, options, seed, config, config_hash, "
	"params, train_size, test_size, train_loss, test_loss, test_accuracy, "
	"epoch_seconds, simulated_s, calibration, model_hash, started, host, cpu, gpu, "
	"mpi, onednn, cuda, git_commit, git_dirty, run_id) "
	"SELECT ?1, ?2, ?3, ?4, r.seed, s.config, r.config_hash, r.params, r.train_size, "
	"r.test_size, s.train_loss, s.test_loss, s.test_accuracy, s.epoch_seconds, "
	"r.simulated_s, c.made || ifnull(' ' || c.host, ''), r.model_hash, r.started, "
	"r.host, r.cpu, r.gpu, r.mpi, r.onednn, r.cuda, r.git_commit, r.git_dirty, r.id "
	"FROM run_summary AS s JOIN run AS r ON r.id = ?5 "
	"LEFT JOIN calibration AS c ON c.id = r.calibration_id WHERE s.id = ?5";

static char *save_run(struct store *s, sqlite3_stmt *insert, int64_t id)
{
	struct config c;
	char cell[17];
	bool exact, more;
	char *wrong = recorded_config(s, id, &c, &exact);

	if (wrong) {
		char *longer = sentence("run %lld cannot be a baseline: %s", (long long)id, wrong);
		free(wrong);
		return longer;
	}
	if (!exact) {
		config_fini(&c);
		return sentence("run %lld was recorded by an mvbench with other options, so this "
				"one cannot give its configuration again: record it anew, or leave "
				"it out with --where=\"id <> %lld\"",
				(long long)id, (long long)id);
	}
	gate_cell(&c, cell);
	sqlite3_reset(insert);
	sqlite3_bind_text(insert, 2, cell, -1, SQLITE_TRANSIENT);
	sqlite3_bind_text(insert, 4, gate_options_of(&c), -1, free);
	sqlite3_bind_int64(insert, 5, id);
	config_fini(&c);
	return gate_step(s, insert, &more);
}

/* The newest finished run of every cell and seed that was asked for: their numbers, from the heap.
 */
static char *choose_runs(struct store *s, const struct gate_options *o, int64_t **id, size_t *n)
{
	sqlite3_stmt *q = NULL;
	bool row = false;
	char *sql =
		sentence("SELECT max(id) FROM run_summary WHERE status = 'done' AND (?1 = '' "
			 "OR label = ?1) AND (\n%s\n) AND (SELECT ifnull(sim_replay, 0) = 0 "
			 "AND trace = 0 FROM run WHERE id = run_summary.id) GROUP BY config_hash",
			 *o->where ? o->where : "1");
	char *wrong = gate_query(s, &q, sql, "t", o->label);

	while (!wrong && !(wrong = gate_step(s, q, &row)) && row) {
		*id = must(realloc(*id, (*n + 1) * sizeof **id));
		(*id)[(*n)++] = sqlite3_column_int64(q, 0);
	}
	sqlite3_finalize(q);
	free(sql);
	if (!wrong && *n == 0)
		wrong = sentence("--save=%s: none of the finished runs in %s matches (those with a "
				 "timeline, of --trace, and replays are passed over): record some "
				 "with mvbench sweep, or loosen --where or --label",
				 o->save, s->path);
	return wrong;
}

static char *save_runs(struct store *s, const char *name, const int64_t *id, size_t n)
{
	sqlite3_stmt *insert = NULL;
	time_t now = time(NULL);
	char made[32];

	strftime(made, sizeof made, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
	char *wrong = gate_query(s, &insert, insert_sql, "ttt", name, "", made);
	for (size_t i = 0; !wrong && i < n; i++)
		wrong = save_run(s, insert, id[i]);
	sqlite3_finalize(insert);
	return wrong;
}

/* "for seed in 2 3; do ...; done": the first seeds from 1 on that this cell lacks. */
static char *add_seeds(struct store *s, const char *name, sqlite3_stmt *q)
{
	int64_t has = sqlite3_column_int64(q, 2), there = 0;
	struct config c;
	char *text = NULL;
	size_t n = 0;
	char *wrong = gate_config(s, gate_text(q, 1), 0, NULL, 0, &c);

	if (wrong)
		return wrong;
	FILE *f = must(open_memstream(&text, &n));
	char *command = gate_command(&c);
	fputs("  for seed in", f);
	for (int64_t seed = 1; !wrong && has < SEEDS_MIN; seed++) {
		wrong = sql_number(s, &there,
				   "SELECT count(*) FROM baseline WHERE name = ?1 AND cell = ?2 "
				   "AND seed = ?3",
				   "tti", name, gate_text(q, 0), seed);
		if (!there) {
			fprintf(f, " %lld", (long long)seed);
			has++;
		}
	}
	fprintf(f, "; do %s --seed=$seed --db=", command);
	gate_word(f, s->path);
	fputs("; done\n", f);
	fclose(f);
	free(command);
	config_fini(&c);
	free(wrong);
	return text;
}

/* A difference needs a spread to be seen against: at least SEEDS_MIN seeds a cell. Simulations of
 * time alone have none. */
static char *check_seeds(struct store *s, const char *name)
{
	sqlite3_stmt *q = NULL;
	bool row = false;
	char *list = must(strdup("")), *wrong;
	int few = 0;

	wrong = gate_query(s, &q,
			   "SELECT cell, options, count(*) FROM baseline WHERE name = ?1 "
			   "GROUP BY cell HAVING count(*) < ?2 AND count(test_loss) > 0 "
			   "ORDER BY options",
			   "ti", name, (int64_t)SEEDS_MIN);
	while (!wrong && !(wrong = gate_step(s, q, &row)) && row && few++ < COMMANDS_MAX) {
		char *command = add_seeds(s, name, q), *longer = sentence("%s%s", list, command);
		free(list);
		free(command);
		list = longer;
	}
	sqlite3_finalize(q);
	if (!wrong && few)
		wrong = sentence("--save=%s: %s fewer than %d seeds, and a difference is "
				 "judged by how far seeds differ; leave them out with --where, or "
				 "add seeds:\n%s%s",
				 name, few > 1 ? "some cells have" : "one of the cells has",
				 SEEDS_MIN, list, few > COMMANDS_MAX ? "  ...\n" : "");
	free(list);
	if (wrong && wrong[strlen(wrong) - 1] == '\n')
		wrong[strlen(wrong) - 1] = '\0';
	return wrong;
}

char *baseline_save(struct store *s, const struct gate_options *o)
{
	int64_t there = 0, cells = 0, *id = NULL;
	size_t n = 0;
	char *wrong = baseline_name("save", o->save);

	if (!wrong && *o->where)
		wrong = database_condition(s, o->where);
	if (wrong || (wrong = sql_begin(s)))
		return wrong;
	wrong = sql_number(s, &there, "SELECT count(*) FROM baseline WHERE name = ?1", "t",
			   o->save);
	if (!wrong && there && !o->replace)
		wrong = sentence("--save=%s: there is a baseline of this name; give another name, "
				 "or --replace to save these runs in its place",
				 o->save);
	if (!wrong)
		wrong = choose_runs(s, o, &id, &n);
	if (!wrong)
		wrong = baseline_clear(s, o->save);
	if (!wrong)
		wrong = save_runs(s, o->save, id, n);
	free(id);
	if (!wrong)
		wrong = check_seeds(s, o->save);
	if (!wrong)
		wrong = sql_number(s, &cells,
				   "SELECT count(DISTINCT cell) FROM baseline WHERE name = ?1", "t",
				   o->save);
	wrong = sql_end(s, wrong);
	if (!wrong)
		printf("baseline %s: %lld cell%s, %zu run%s\n", o->save, (long long)cells,
		       cells == 1 ? "" : "s", n, n == 1 ? "" : "s");
	return wrong;
}

/* ---- Finding, listing, taking away --------------------------------------- */

char *baseline_find(struct store *s, const char *option, const char *name)
{
	sqlite3_stmt *q = NULL;
	bool row = false, found = false;
	char *list = must(strdup("")), *quoted = gate_quoted(name), *wrong;

	wrong = gate_query(s, &q, "SELECT DISTINCT name FROM baseline ORDER BY name", "");
	while (!wrong && !(wrong = gate_step(s, q, &row)) && row) {
		char *longer = sentence("%s%s%s", list, *list ? ", " : "", gate_text(q, 0));
		found |= strcmp(gate_text(q, 0), name) == 0;
		free(list);
		list = longer;
	}
	sqlite3_finalize(q);
	if (!wrong && !found && *list)
		wrong = sentence("--%s=%s: %s has no baseline of this name; it has %s", option,
				 name, s->path, list);
	else if (!wrong && !found)
		wrong = sentence("--%s=%s: %s has no baselines yet; mvbench check --save=%s makes "
				 "one of its finished runs",
				 option, name, s->path, quoted);
	free(list);
	free(quoted);
	return wrong;
}

char *baseline_drop(struct store *s, const char *name)
{
	char *wrong = baseline_find(s, "delete", name);

	if (wrong || (wrong = sql_begin(s)))
		return wrong;
	return sql_end(s, baseline_clear(s, name));
}

char *baseline_list(struct store *s, FILE *f)
{
	int64_t n = 0;
	char *wrong = sql_number(s, &n, "SELECT count(*) FROM baseline", "");

	if (!wrong && n == 0) {
		fprintf(f, "%s has no baselines yet; mvbench check --save=NAME --db=", s->path);
		gate_word(f, s->path);
		fputs(" makes one of its finished runs\n", f);
	}
	if (wrong || n == 0)
		return wrong;
	return query_print(
		s, f, FORMAT_TEXT,
		"SELECT name AS baseline, count(DISTINCT cell) AS cells, count(*) AS "
		"runs, min(n) || iif(max(n) > min(n), '..' || max(n), '') AS seeds, "
		"min(made) AS saved, group_concat(DISTINCT host) AS host, "
		"group_concat(DISTINCT git_commit || iif(git_dirty, '-dirty', '')) AS "
		"\"commit\" FROM (SELECT *, count(*) OVER (PARTITION BY name, cell) AS n "
		"FROM baseline) GROUP BY name",
		NULL, 0, NULL);
}
