/*
 * gate_runs.c - the runs that a check wants, one for every run of the baseline: those that there
 * are, and those that are made now.
 *
 * A run counts when this very build made it after the baseline: the same commit without changes,
 * or, as recorded by an earlier check in table `checked`, a program of the same bytes. So an
 * interrupted check goes on, also while one is still trying. None that kept its timeline counts:
 * a simulation's clock is read where a part of a step begins, so its times are rounded otherwise.
 */
#include "results/gate/gate.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SEEDS_MOST = 10000 };

/* ---- Which program is this? ---------------------------------------------- */

static void hash_file(uint64_t *h, const char *path)
{
	unsigned char block[65536];
	FILE *f = fopen(path, "rb");
	size_t n;

	while (f && (n = fread(block, 1, sizeof block, f)) > 0)
		for (size_t i = 0; i < n; i++)
			*h = (*h ^ block[i]) * UINT64_C(1099511628211);
	if (f)
		fclose(f);
}

/* The bytes of this program, its simulator and its CUDA device. */
static void program_hash(char hex[17])
{
	uint64_t h = UINT64_C(14695981039346656037);
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);

	self[n > 0 ? n : 0] = '\0';
	char *simulator = sentence("%s-sim", self), *cuda = sentence("%s_cuda.so", self);
	hash_file(&h, self);
	hash_file(&h, simulator);
	hash_file(&h, cuda);
	free(simulator);
	free(cuda);
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
}

static char *wrong_seeds(const char *list)
{
	return sentence("--seeds=%s: seeds and ranges are wanted, such as --seeds=1,2,11..15",
			list);
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
			return wrong_seeds(list);
		for (long long seed = from; seed <= to; seed++) {
			if (has_seed(c, seed))
				continue;
			c->seed = must(realloc(c->seed, (c->seeds + 1) * sizeof *c->seed));
			c->seed[c->seeds++] = seed;
		}
		at = *end ? end + 1 : end;
	}
	return NULL;
}

/* The first of a's words that b has with another value, "--name=value"; NULL = none. */
static const char *other_word(char **a, char **b, const char **instead)
{
	for (; *a && *b; a++, b++)
		if (strcmp(*a, *b) != 0) {
			*instead = *b + 2;
			return *a;
		}
	return NULL;
}

/* What was given must be so in the cell already: a baseline says nothing of other configurations.
 * What does not decide results may be anything. */
static char *check_given(const struct check *c, const struct wanted *w)
{
	struct config own, given;
	char a[17], b[17];
	char *wrong = gate_config(c->store, w->options, w->seed, NULL, 0, &own);

	if (wrong)
		return wrong;
	gate_cell(&own, a);
	if (strcmp(a, w->cell) != 0)
		wrong = sentence("baseline %s has %s with options %s, of which this mvbench makes "
				 "another configuration, as it has other options: save it anew",
				 c->o->against, w->what, w->options);
	if (!wrong)
		wrong = gate_config(c->store, w->options, w->seed, c->a->option, c->a->options,
				    &given);
	if (!wrong) {
		config_hash(&own, a);
		config_hash(&given, b);
		char **x = config_words(&given), **y = config_words(&own);
		const char *instead = "", *word = other_word(x, y, &instead);
		if (strcmp(a, b) != 0)
			wrong = sentence("%s: baseline %s was made with %s (%s), and says nothing "
					 "of another configuration: leave it out, or save a "
					 "baseline of such runs",
					 word ? word : "the options given", c->o->against, instead,
					 w->what);
		free_words(x);
		free_words(y);
		config_fini(&given);
	}
	config_fini(&own);
	return wrong;
}

/* Can this cell run here, and is it the same model on the same data? Other machines are warned of
 * elsewhere. */
static char *check_plan(const struct check *c, const struct wanted *w, struct config *config)
{
	struct plan plan;
	sqlite3_stmt *q = NULL;
	bool row = false;
	char *wrong = plan_make(config, &plan);

	if (!wrong)
		wrong = simulation_check(config, &plan);
	if (!wrong)
		wrong = gate_query(c->store, &q,
				  "SELECT params, train_size, test_size FROM baseline "
				  "WHERE name = ?1 AND cell = ?2 LIMIT 1",
				  "tt", c->o->against, w->cell);
	if (!wrong)
		wrong = gate_step(c->store, q, &row);
	const char *const name[] = {"parameters", "rows to train on", "rows to test on"};
	const int64_t here[] = {plan.params, (int64_t)plan.train.n, (int64_t)plan.test.n};
	for (int i = 0; !wrong && row && i < 3; i++)
		if (sqlite3_column_type(q, i) != SQLITE_NULL &&
		    sqlite3_column_int64(q, i) != here[i])
			wrong = sentence("baseline %s is of another configuration: %s has %lld %s "
					 "there, and %lld here",
					 c->o->against, w->what,
					 (long long)sqlite3_column_int64(q, i), name[i],
					 (long long)here[i]);
	sqlite3_finalize(q);
	return wrong;
}

/* hash: of the configuration; NULL = to be found out. */
static char *want(struct check *c, sqlite3_stmt *q, int64_t seed, const char *hash)
{
	struct config config;
	char *wrong = NULL;

	c->want = must(realloc(c->want, (c->wants + 1) * sizeof *c->want));
	struct wanted *w = &c->want[c->wants++];
	*w = (struct wanted){
		.cell = must(strdup(gate_text(q, 0))),
		.what = must(strdup(gate_text(q, 1))),
		.options = must(strdup(gate_text(q, 2))),
		.seed = seed,
	};
	snprintf(w->hash, sizeof w->hash, "%s", hash ? hash : "");
	if (!hash && !(wrong = gate_config(c->store, w->options, seed, NULL, 0, &config))) {
		config_hash(&config, w->hash);
		config_fini(&config);
	}
	return wrong;
}

/* Cells in the order of their options, seeds within. */
static char *read_cells(struct check *c)
{
	static const char sql[] =
		"SELECT cell, json_extract(options, '$.workload') || ' ' || config, options, seed, "
		"made, cell <> lag(cell, 1, '') OVER (ORDER BY options, seed), config_hash, "
		"(SELECT max(run_id) FROM baseline WHERE name = ?1) FROM baseline "
		"WHERE name = ?1 ORDER BY options, seed";
	sqlite3_stmt *q = NULL;
	bool row = false;
	char *wrong = gate_query(c->store, &q, sql, "t", c->o->against);

	while (!wrong && !(wrong = gate_step(c->store, q, &row)) && row) {
		bool first = sqlite3_column_int(q, 5);
		size_t before = c->wants;
		if (!c->made) {
			c->made = must(strdup(gate_text(q, 4)));
			c->last = sqlite3_column_int64(q, 7);
		}
		if (c->seeds == 0)
			wrong = want(c, q, sqlite3_column_int64(q, 3), gate_text(q, 6));
		for (size_t i = 0; !wrong && first && i < c->seeds; i++)
			wrong = want(c, q, c->seed[i], NULL);
		if (!wrong && first)
			wrong = check_given(c, &c->want[before]);
	}
	sqlite3_finalize(q);
	return wrong;
}

/* ---- Runs that there are ------------------------------------------------- */

/* The newest run that counts, of this hash: after the last of the baseline's, as both may be of one
 * second. Failures are not final, unless nothing is run again. */
static char *find_runs(struct check *c)
{
	static const char sql[] =
		"SELECT id, id IN (SELECT run_id FROM checked WHERE run_id = r.id AND program = "
		"?7) AS "
		"own FROM run AS r WHERE config_hash = ?1 AND started >= ?2 AND id > ?3 "
		"AND trace = 0 AND (status IN ('done', 'diverged') "
		"OR (?4 = 'never' AND status = 'failed' AND "
		"ifnull(reason, '') NOT LIKE '" INTERRUPTED "%')) "
		"AND (?4 = 'never' OR (host = ?5 AND ((?6 <> '' AND git_commit = ?6 AND git_dirty "
		"= 0) OR own))) ORDER BY id DESC LIMIT 1";
	const struct machine *m = machine();
	bool clean = !m->git_dirty && strcmp(m->git_commit, "unknown") != 0, row = false;
	sqlite3_stmt *q = NULL;
	char *wrong = gate_query(c->store, &q, sql, "ttitttt", "", c->made, c->last, c->o->rerun,
				m->host, clean ? m->git_commit : "", c->program);

	for (size_t i = 0; !wrong && i < c->wants && strcmp(c->o->rerun, "always") != 0; i++) {
		struct wanted *w = &c->want[i];
		sqlite3_reset(q);
		sqlite3_bind_text(q, 1, w->hash, -1, SQLITE_STATIC);
		wrong = gate_step(c->store, q, &row);
		if (!wrong && row) {
			w->run_id = sqlite3_column_int64(q, 0);
			w->own = sqlite3_column_int(q, 1);
		}
	}
	sqlite3_finalize(q);
	return wrong;
}

/* The rows of `checked` from which the views compare. */
static char *keep_wants(struct check *c)
{
	sqlite3_stmt *q = NULL;
	bool row;
	char *wrong = sql_begin(c->store);

	if (wrong)
		return wrong;
	wrong = sql_change(c->store, "DELETE FROM gate_limit", "");
	if (!wrong)
		wrong = sql_change(c->store, "INSERT INTO gate_limit VALUES (?1, ?2, ?3, ?4, ?5)",
				   "trrri", c->o->against, c->o->alpha, c->o->min_accuracy / 100,
				   c->o->min_loss / 100,
				   (int64_t)(strcmp(c->o->better, "fail") == 0));
	if (!wrong)
		wrong = sql_change(c->store, "DELETE FROM checked WHERE name = ?1", "t",
				   c->o->against);
	if (!wrong)
		wrong = gate_query(c->store, &q,
				  "INSERT OR IGNORE INTO checked "
				  "VALUES (?1, ?2, ?3, nullif(?4, 0), iif(?5, ?6, NULL))",
				  "ttiiit", c->o->against, "", (int64_t)0, (int64_t)0, (int64_t)0,
				  c->program);
	for (size_t i = 0; !wrong && i < c->wants; i++) {
		sqlite3_reset(q);
		sqlite3_bind_text(q, 2, c->want[i].cell, -1, SQLITE_TRANSIENT);
		sqlite3_bind_int64(q, 3, c->want[i].seed);
		sqlite3_bind_int64(q, 4, c->want[i].run_id);
		sqlite3_bind_int(q, 5, c->want[i].own);
		wrong = gate_step(c->store, q, &row);
	}
	sqlite3_finalize(q);
	return sql_end(c->store, wrong);
}

/* ---- Runs that are made now ---------------------------------------------- */

/* The configuration of a run: its cell's, in this database, under the label that was given. */
static char *config_of(const struct check *c, const struct wanted *w, struct config *config)
{
	size_t n = c->a->options;
	struct setting *more = must(calloc(n + 2, sizeof *more));

	if (n)
		memcpy(more, c->a->option, n * sizeof *more);
	more[n] = (struct setting){"db", c->o->db};
	more[n + 1] = (struct setting){"label", c->o->label};
	char *wrong = gate_config(c->store, w->options, w->seed, more, n + 2, config);
	free(more);
	return wrong;
}

/* Everything is checked before anything runs. */
static char *check_plans(const struct check *c)
{
	const char *last = "";
	char *wrong = NULL;

	for (size_t i = 0; !wrong && i < c->wants; i++) {
		struct config config;
		if (c->want[i].run_id || strcmp(c->want[i].cell, last) == 0)
			continue;
		last = c->want[i].cell;
		wrong = config_of(c, &c->want[i], &config);
		if (wrong)
			break;
		wrong = check_plan(c, &c->want[i], &config);
		config_fini(&config);
	}
	return wrong;
}

static char *run_one(struct check *c, struct wanted *w, size_t number, size_t of, int *status)
{
	struct config config;
	struct outcome o;
	char before[160];
	struct progress progress = {.before = before};
	char *wrong = config_of(c, w, &config);

	if (wrong)
		return wrong;
	snprintf(before, sizeof before, "%zu/%zu %s ", number, of, w->what);
	store_close(c->store); /* a connection must not be taken along by a fork */
	run_cell(&config, &progress, &o);
	wrong = store_open(&c->store, c->o->db, STORE_WRITE);
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
	config_fini(&config);
	return wrong;
}

char *gate_make(struct check *c, bool *interrupted)
{
	size_t of = 0, number = 0;
	int status = EXIT_OK;
	char *wrong = check_plans(c);

	for (size_t i = 0; i < c->wants; i++)
		of += !c->want[i].run_id;
	for (size_t i = 0; !wrong && i < c->wants && status != EXIT_INTERRUPTED; i++)
		if (!c->want[i].run_id)
			wrong = run_one(c, &c->want[i], ++number, of, &status);
	*interrupted = status == EXIT_INTERRUPTED;
	return wrong;
}

char *gate_find(struct check *c)
{
	program_hash(c->program);
	char *wrong = read_seeds(c, c->o->seeds);

	if (!wrong)
		wrong = read_cells(c);
	if (!wrong)
		wrong = find_runs(c);
	return wrong ? wrong : keep_wants(c);
}
