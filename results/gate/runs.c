/*
 * runs.c - the runs that a check needs, one for every run of the baseline: it finds existing ones,
 * and makes the others.
 *
 * A run counts if this very build made it after the baseline: the same commit without changes, or,
 * as an earlier check recorded in table `checked`, a program of the same bytes. An interrupted
 * check can therefore continue, also with uncommitted changes. Runs with a timeline do not count:
 * tracing reads a simulation's clock where a part of a step begins, and thereby rounds its times
 * differently.
 */
#include "results/gate/gate.h"

#include <stdlib.h>
#include <string.h>

TEXT_FILE(wanted_sql, "results/gate/wanted.sql");
TEXT_FILE(newest_sql, "results/gate/newest.sql");

enum { SEEDS_MOST = 10000 };

/* ---- Which program is this? ---------------------------------------------- */

static uint64_t hash_file(uint64_t h, const char *path)
{
	unsigned char block[65536];
	FILE *f = fopen(path, "rb");
	size_t n;
	while (f && (n = fread(block, 1, sizeof block, f)) > 0)
		h = hash_of(h, block, n);
	if (f)
		fclose(f);
	return h;
}

/* Hashes the bytes of this program, its simulator and its CUDA device. */
static void program_hash(char hex[17])
{
	static const char *const ending[] = {"", "-sim", "_cuda.so"};
	uint64_t h = HASH_START;
	char *self AUTOFREE = program_path();
	for (size_t i = 0; i < sizeof ending / sizeof *ending; i++) {
		char *path AUTOFREE = sentence("%s%s", self, ending[i]);
		h = hash_file(h, path);
	}
	snprintf(hex, 17, "%016llx", (unsigned long long)h);
}

/* ---- The cells of a baseline --------------------------------------------- */

void gate_fini(struct check *c)
{
	for (size_t i = 0; i < c->wants; i++) {
		free(c->want[i].options);
		free(c->want[i].what);
		free(c->want[i].cell);
	}
	free(c->want);
	free(c->seed);
	free(c->made);
	store_close(c->store);
}

static bool has_seed(const struct check *c, long long seed)
{
	for (size_t i = 0; i < c->seeds; i++)
		if (c->seed[i] == seed)
			return true;
	return false;
}

static char *read_seeds(struct check *c, const char *list)
{
	for (const char *at = list; *at;) {
		char *end;
		long long from = strtoll(at, &end, 10), to = from;
		if (end > at && strncmp(end, "..", 2) == 0) {
			at = end + 2;
			to = strtoll(at, &end, 10);
		}
		if (end == at || (*end && (*end != ',' || !end[1])) || from < 0 || to < from ||
		    to > 4294967295 || to - from >= SEEDS_MOST)
			return sentence(
				"--seeds=%s: give seeds and ranges, such as --seeds=1,2,11..15",
				list);
		for (long long seed = from; seed <= to; seed++) {
			if (!has_seed(c, seed))
				APPEND(c->seed, c->seeds, seed);
		}
		at = *end ? end + 1 : end;
	}
	return NULL;
}

/* Returns the first of a's words that differs in b, "--name=value"; NULL = none. */
static const char *other_word(char **a, char **b, const char **instead)
{
	for (; *a && *b; a++, b++)
		if (strcmp(*a, *b) != 0) {
			*instead = *b + 2;
			return *a;
		}
	return NULL;
}

/* Given options must be those of the cell, because a baseline is valid only for its own
 * configurations. Options that do not decide results may differ. */
static char *check_given(const struct check *c, const struct wanted *w)
{
	struct config own AUTOCONFIG = {0}, given AUTOCONFIG = {0};
	char a[17], b[17];
	TRY(gate_config(c->store, w->options, w->seed, NULL, 0, &own));
	gate_cell(&own, a);
	if (strcmp(a, w->cell) != 0)
		return sentence(
			"baseline %s has %s with options %s, which make another configuration in "
			"this mvbench, because it has other options: save it again",
			c->o->against, w->what, w->options);
	TRY(gate_config(c->store, w->options, w->seed, c->a->option, c->a->options, &given));
	config_hash(&own, a);
	config_hash(&given, b);
	if (strcmp(a, b) == 0)
		return NULL;
	char **x AUTOWORDS = config_words(&given), **y AUTOWORDS = config_words(&own);
	const char *instead = "", *word = other_word(x, y, &instead);
	return sentence("%s: baseline %s was made with %s (%s), and is valid only for its own "
			"configurations: leave it out, or save a baseline of such runs",
			word ? word : "the options given", c->o->against, instead, w->what);
}

/* Can this cell run here, with the same model and data? warn_of_machines warns of other machines.
 */
static char *check_plan(const struct check *c, const struct wanted *w, struct config *config)
{
	struct plan plan;
	TRY(plan_make(config, &plan));
	TRY(simulation_check(config, &plan));
	const char *const name[] = {"parameters", "rows to train on", "rows to test on"};
	const int64_t here[] = {plan.params, (int64_t)plan.train.n, (int64_t)plan.test.n};
	struct sql q AUTODONE = sql_select(c->store,
					   "SELECT params, train_size, test_size FROM baseline "
					   "WHERE name = ?1 AND cell = ?2 LIMIT 1",
					   "tt", c->o->against, w->cell);
	bool row = sql_next(&q);
	for (int i = 0; row && i < 3; i++)
		if (!sql_null(&q, i) && sql_int(&q, i) != here[i])
			return sentence("baseline %s is of another configuration: %s has %lld %s "
					"there, and %lld here",
					c->o->against, w->what, (long long)sql_int(&q, i), name[i],
					(long long)here[i]);
	return sql_done(&q);
}

/* hash: of the configuration; NULL = compute it. */
static char *want(struct check *c, const struct sql *q, int64_t seed, const char *hash)
{
	struct config config AUTOCONFIG = {0};
	APPEND(c->want, c->wants,
	       (struct wanted){.cell = sql_copy(q, 0),
			       .what = sql_copy(q, 1),
			       .options = sql_copy(q, 2),
			       .seed = seed});
	struct wanted *w = &c->want[c->wants - 1];
	snprintf(w->hash, sizeof w->hash, "%s", hash ? hash : "");
	if (hash)
		return NULL;
	TRY(gate_config(c->store, w->options, seed, NULL, 0, &config));
	config_hash(&config, w->hash);
	return NULL;
}

/* Adds each run of the baseline; or, with --seeds, each cell with each of these seeds. */
static char *read_cells(struct check *c)
{
	struct sql q AUTODONE = sql_select(c->store, wanted_sql, "t", c->o->against);
	while (sql_next(&q)) {
		bool first = sql_int(&q, 5);
		size_t before = c->wants;
		if (!c->made) {
			c->made = sql_copy(&q, 4);
			c->last = sql_int(&q, 7);
		}
		if (c->seeds == 0)
			TRY(want(c, &q, sql_int(&q, 3), sql_text(&q, 6)));
		for (size_t i = 0; first && i < c->seeds; i++)
			TRY(want(c, &q, c->seed[i], NULL));
		if (first)
			TRY(check_given(c, &c->want[before]));
	}
	return sql_done(&q);
}

/* ---- Existing runs ------------------------------------------------------- */

static char *find_runs(struct check *c)
{
	const struct machine *m = machine();
	bool clean = !m->git_dirty && strcmp(m->git_commit, "unknown") != 0;
	struct sql q =
		sql_select(c->store, newest_sql, "ttittttt", "", c->made, c->last, c->o->rerun,
			   m->host, clean ? m->git_commit : "", c->program, INTERRUPTED);
	for (size_t i = 0; i < c->wants && strcmp(c->o->rerun, "always") != 0; i++) {
		struct wanted *w = &c->want[i];
		sql_again(&q, "t", w->hash);
		if (sql_next(&q)) {
			w->run_id = sql_int(&q, 0);
			w->own = sql_int(&q, 1);
		}
	}
	return sql_done(&q);
}

/* Writes the rows of `checked` and gate_limit, from which the views compare. */
static char *store_limits(struct check *c)
{
	TRY(sql_change(c->store, "DELETE FROM gate_limit", ""));
	TRY(sql_change(c->store,
		       "INSERT INTO gate_limit (name, alpha, min_accuracy, min_loss, better_fails, "
		       "unsure_fails) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
		       "trrrii", c->o->against, c->o->alpha, c->o->min_accuracy / 100,
		       c->o->min_loss / 100, (int64_t)(strcmp(c->o->better, "fail") == 0),
		       (int64_t)(strcmp(c->o->unsure, "fail") == 0)));
	TRY(sql_change(c->store, "DELETE FROM checked WHERE name = ?1", "t", c->o->against));
	struct sql q =
		sql_select(c->store,
			   "INSERT OR IGNORE INTO checked (name, program, cell, seed, run_id) "
			   "VALUES (?1, iif(?6, ?2, NULL), ?3, ?4, nullif(?5, 0))",
			   "tt", c->o->against, c->program);
	for (size_t i = 0; i < c->wants; i++) {
		const struct wanted *w = &c->want[i];
		sql_set(&q, 3, "tiii", w->cell, w->seed, w->run_id, (int64_t)w->own);
		sql_next(&q);
	}
	return sql_done(&q);
}

/* ---- Runs that are made now ---------------------------------------------- */

/* Makes the configuration of a run: that of its cell, in this database, with the given label. */
static char *config_of(const struct check *c, const struct wanted *w, struct config *config)
{
	size_t n = c->a->options;
	struct setting *more AUTOFREE = must(calloc(n + 2, sizeof *more));
	if (n)
		memcpy(more, c->a->option, n * sizeof *more);
	more[n] = (struct setting){"db", c->o->db};
	more[n + 1] = (struct setting){"label", c->o->label};
	return gate_config(c->store, w->options, w->seed, more, n + 2, config);
}

/* Checks every configuration before the first run. */
static char *check_plans(const struct check *c)
{
	const char *last = "";
	for (size_t i = 0; i < c->wants; i++) {
		struct config config AUTOCONFIG = {0};
		if (c->want[i].run_id || strcmp(c->want[i].cell, last) == 0)
			continue;
		last = c->want[i].cell;
		TRY(config_of(c, &c->want[i], &config));
		TRY(check_plan(c, &c->want[i], &config));
	}
	return NULL;
}

static char *run_one(struct check *c, struct wanted *w, size_t number, size_t of, int *status)
{
	struct config config AUTOCONFIG = {0};
	struct outcome o;
	char before[160];
	struct progress progress = {.before = before};
	TRY(config_of(c, w, &config));
	snprintf(before, sizeof before, "%zu/%zu %s ", number, of, w->what);
	text_disarm(before);
	store_close(c->store); /* a connection must not be inherited through fork */
	run_cell(&config, &progress, &o);
	char *wrong = store_open(&c->store, c->o->db, STORE_WRITE);
	*status = o.status;
	bool why = o.why && o.status != EXIT_INTERRUPTED;
	if (why || !progress.terminal)
		fprintf(stderr, "%sseed %lld: %s%s%s\n", before, (long long)w->seed,
			outcome_word(o.status), why ? ": " : "", why ? o.why : "");
	if (!wrong && o.id && o.status != EXIT_INTERRUPTED) {
		w->run_id = o.id;
		wrong = sql_change(c->store,
				   "UPDATE checked SET run_id = ?1, program = ?2 "
				   "WHERE name = ?3 AND cell = ?4 AND seed = ?5",
				   "ittti", o.id, c->program, c->o->against, w->cell, w->seed);
		c->made_now++;
	}
	outcome_fini(&o);
	return wrong;
}

char *gate_make(struct check *c, bool *interrupted)
{
	size_t of = 0, number = 0;
	int status = EXIT_OK;
	TRY(check_plans(c));
	for (size_t i = 0; i < c->wants; i++)
		of += !c->want[i].run_id;
	for (size_t i = 0; i < c->wants && status != EXIT_INTERRUPTED; i++)
		if (!c->want[i].run_id)
			TRY(run_one(c, &c->want[i], ++number, of, &status));
	*interrupted = status == EXIT_INTERRUPTED;
	return NULL;
}

char *gate_find(struct check *c)
{
	program_hash(c->program);
	TRY(read_seeds(c, c->o->seeds));
	TRY(read_cells(c));
	TRY(find_runs(c));
	TRY(sql_begin(c->store));
	return sql_end(c->store, store_limits(c));
}
