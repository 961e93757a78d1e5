/*
 * runs.c - the runs that a check needs, one for every run of the baseline: it finds existing ones,
 * and makes the others as a sweep does.
 *
 * A run counts if this very build made it after the baseline: the same commit without changes, or,
 * as an earlier check recorded in table `checked`, a program of the same bytes. An interrupted
 * check can therefore continue, also with uncommitted changes. Runs with a timeline do not count:
 * tracing reads a simulation's clock where a part of a step begins, and thereby rounds its times
 * differently.
 */
#include "results/gate/gate.h"
#include "results/run/cells.h"
#include "runtime/config/machine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

TEXT_FILE(wanted_sql, "results/gate/wanted.sql");
TEXT_FILE(newest_sql, "results/gate/newest.sql");

/* Hashes the bytes of this program, its simulator and its CUDA device. */
static void program_hash(char hex[SHA256_ROOM])
{
	static const char *const ending[] = {"", "-sim", "_cuda.so"};
	char *self AUTOFREE = program_path();
	struct sha256 hash;
	sha256_begin(&hash);
	for (size_t i = 0; i < sizeof ending / sizeof *ending; i++) {
		char *path AUTOFREE = sentence("%s%s", self, ending[i]);
		sha256_file(&hash, path); /* a missing one adds nothing */
	}
	sha256_end(&hash, hex);
}

void gate_fini(struct check *c)
{
	axis_fini(&c->seeds);
	free(c->made);
	store_close(c->store);
}

/* ---- The cells of a baseline --------------------------------------------- */

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

enum { CELL, WHAT, OPTIONS }; /* columns of wanted.sql */

/* Reads the configuration of a cell. Given options must be those of the cell, because a baseline is
 * valid only for its own configurations. Options that do not decide results may differ. */
static char *read_cell(const struct check *c, const struct sql *cell, struct config *own)
{
	const char *what = sql_text(cell, WHAT), *options = sql_text(cell, OPTIONS);
	struct config given AUTOCONFIG = {0};
	char a[17], b[17];
	TRY(gate_config_recorded(c->store, options, 0, NULL, 0, own));
	gate_cell(own, a);
	if (strcmp(a, sql_text(cell, CELL)) != 0)
		return sentence(
			"baseline %s has %s with options %s, which make another configuration in "
			"this mvbench, because it has other options: save it again",
			c->o->against, what, options);
	if (c->a->options == 0)
		return NULL;
	TRY(gate_config_recorded(c->store, options, 0, c->a->option, c->a->options, &given));
	config_hash(own, a);
	config_hash(&given, b);
	if (strcmp(a, b) == 0)
		return NULL;
	char **x AUTOWORDS = config_words(&given), **y AUTOWORDS = config_words(own);
	const char *instead = "", *word = other_word(x, y, &instead);
	return sentence("%s: baseline %s was made with %s (%s), and is valid only for its own "
			"configurations: leave it out, or save a baseline of such runs",
			word ? word : "the options given", c->o->against, instead, what);
}

/* Adds the run of a cell with this seed to table wanted, unless it is there. */
static char *want(struct check *c, const struct sql *cell, struct config *own, int64_t seed)
{
	char hash[17];
	own->run.seed = seed;
	config_hash(own, hash);
	return sql_change(c->store,
			  "INSERT OR IGNORE INTO wanted (cell, seed, what, options, hash) "
			  "VALUES (?1, ?2, ?3, ?4, ?5)",
			  "tittt", sql_text(cell, CELL), seed, sql_text(cell, WHAT),
			  sql_text(cell, OPTIONS), hash);
}

/* Its runs: with each of --seeds, otherwise with each of the baseline's. */
static char *want_all(struct check *c, const struct sql *cell, struct config *own)
{
	for (size_t i = 0; i < c->seeds.n; i++)
		TRY(want(c, cell, own, strtoll(c->seeds.value[i], NULL, 10)));
	if (c->seeds.n > 0)
		return NULL;
	struct sql q AUTODONE =
		sql_select(c->store,
			   "SELECT seed FROM baseline WHERE name = ?1 AND cell = "
			   "?2 AND options = ?3 ORDER BY seed",
			   "ttt", c->o->against, sql_text(cell, CELL), sql_text(cell, OPTIONS));
	while (sql_next(&q))
		TRY(want(c, cell, own, sql_int(&q, 0)));
	return sql_done(&q);
}

static char *read_seeds(struct check *c)
{
	const char *list = c->o->seeds;
	char *wrong AUTOFREE = *list ? axis_read(&c->seeds, "seed", list) : NULL;
	return wrong ? sentence("--seeds=%s: %s", list, wrong) : NULL;
}

/* Makes and fills table wanted. what: as "mlp asgd 2w X=4"; newest.sql sets the last three. */
static char *read_cells(struct check *c)
{
	TRY(sql_script(c->store,
		       "CREATE TEMP TABLE wanted (id INTEGER PRIMARY KEY, cell TEXT, seed INTEGER, "
		       "what TEXT, options TEXT, hash TEXT, run_id INTEGER, own INTEGER, "
		       "ended INTEGER, UNIQUE (cell, seed))"));
	struct sql cell AUTODONE = sql_select(c->store, wanted_sql, "t", c->o->against);
	while (sql_next(&cell)) {
		struct config own AUTOCONFIG = {0};
		TRY(read_cell(c, &cell, &own));
		TRY(want_all(c, &cell, &own));
	}
	return sql_done(&cell);
}

/* ---- Existing runs ------------------------------------------------------- */

static char *find_runs(struct check *c)
{
	const struct machine *m = machine();
	bool clean = !m->git_dirty && strcmp(m->git_commit, "unknown") != 0;
	TRY(sql_first(c->store, &c->made, "SELECT max(made) FROM baseline WHERE name = ?1", "t",
		      c->o->against));
	return sql_change(c->store, newest_sql, "ttttttt", c->o->against, c->made, c->o->rerun,
			  m->host, clean ? m->git_commit : "", c->program, INTERRUPTED);
}

/* Writes the rows of `checked`, from which the views compare. */
static char *store_runs(struct check *c)
{
	return sql_change(c->store,
			  "DELETE FROM checked WHERE name = ?1;"
			  "INSERT INTO checked (name, program, cell, seed, run_id) SELECT ?1, "
			  "iif(own, ?2, NULL), cell, seed, run_id FROM wanted",
			  "tt", c->o->against, c->program);
}

char *gate_limit(struct check *c)
{
	TRY(sql_change(c->store, "DELETE FROM gate_limit", ""));
	return sql_change(c->store,
			  "INSERT INTO gate_limit (name, alpha, min_accuracy, min_loss, "
			  "better_fails, unsure_fails) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
			  "trrrii", c->o->against, c->o->alpha, c->o->min_accuracy / 100,
			  c->o->min_loss / 100, (int64_t)(strcmp(c->o->better, "fail") == 0),
			  (int64_t)(strcmp(c->o->unsure, "fail") == 0));
}

char *gate_find(struct check *c)
{
	program_hash(c->program);
	TRY(read_seeds(c));
	TRY(read_cells(c));
	TRY(find_runs(c));
	TRY(sql_begin(c->store));
	return sql_end(c->store, store_runs(c));
}

/* ---- Runs that are made now ---------------------------------------------- */

/* Can this run, a row of table wanted, be made here, with the same model and data? */
static char *check_plan(const struct check *c, const struct sql *row, struct cell *cell)
{
	struct plan *plan = &cell->plan;
	double there[3];
	TRY(plan_make(&cell->config, plan));
	TRY(simulation_check(&cell->config, plan));
	TRY(sql_reals(c->store, there, 3,
		      "SELECT params, train_size, test_size FROM baseline "
		      "WHERE name = ?1 AND cell = ?2",
		      "tt", c->o->against, sql_text(row, 1)));
	const char *const name[] = {"parameters", "rows to train on", "rows to test on"};
	const double here[] = {(double)plan->params, (double)plan->train.n, (double)plan->test.n};
	for (int i = 0; i < 3; i++)
		if (!isnan(there[i]) && there[i] != here[i])
			return sentence("baseline %s is of another configuration: %s has %.0f %s "
					"there, and %.0f here",
					c->o->against, sql_text(row, 3), there[i], name[i],
					here[i]);
	return NULL;
}

/* Adds the run of this row: its cell with this seed, in this database, with the given label. */
static char *add_run(const struct check *c, const struct sql *row, struct sweep *runs)
{
	size_t n = c->a->options;
	struct setting *more AUTOFREE = must(calloc(n + 2, sizeof *more));
	struct config config;
	char hash[17];
	if (n)
		memcpy(more, c->a->option, n * sizeof *more);
	more[n] = (struct setting){"db", c->o->db};
	more[n + 1] = (struct setting){"label", c->o->label};
	TRY(gate_config(c->store, sql_text(row, 4), sql_int(row, 2), more, n + 2, &config));
	config_hash(&config, hash);
	if (strcmp(hash, sql_text(row, 6)) != 0) {
		config_fini(&config);
		return sentence("%s: its data, its initial model or its machines here are others "
				"than those of baseline %s: give the same ones",
				sql_text(row, 3), c->o->against);
	}
	if (!sweep_add(runs, &config, c->o->against, (int)sql_int(row, 0)))
		return NULL;
	struct cell *cell = &runs->cell[runs->cells - 1];
	cell->what = sentence("%s, seed %lld", sql_text(row, 3), (long long)sql_int(row, 2));
	text_disarm(cell->what);
	cell->id = sql_int(row, 5);
	snprintf(cell->status, sizeof cell->status, "pending");
	return check_plan(c, row, cell);
}

static char *add_runs(const struct check *c, struct sweep *runs)
{
	struct sql q AUTODONE =
		sql_select(c->store,
			   "SELECT id, cell, seed, what, options, run_id, hash FROM "
			   "wanted WHERE ended IS NOT 1 ORDER BY id",
			   "");
	while (sql_next(&q))
		TRY(add_run(c, &q, runs));
	return sql_done(&q);
}

/* Adds pending rows: an interrupted check leaves some, and the next one makes these runs. */
static char *pend(struct check *c, struct sweep *runs)
{
	for (size_t i = 0; i < runs->cells; i++) {
		struct cell *cell = &runs->cell[i];
		TRY(store_pend(c->store, &cell->config, &cell->id, 0, 0));
		TRY(sql_change(c->store, "UPDATE wanted SET run_id = ?1 WHERE id = ?2", "ii",
			       cell->id, (int64_t)cell->line));
	}
	return store_runs(c);
}

/* Records which runs this program has made. A run that began has replaced its pending row, which a
 * row of `checked` then no longer refers to. */
static char *record_made(struct check *c, const struct sweep *runs)
{
	for (size_t i = 0; i < runs->cells; i++) {
		const struct cell *cell = &runs->cell[i];
		bool made = !cell->of_another && (strcmp(cell->status, "done") == 0 ||
						  strcmp(cell->status, "diverged") == 0 ||
						  strcmp(cell->status, "failed") == 0);
		char hex[17];
		gate_cell(&cell->config, hex);
		c->made_now += made;
		TRY(sql_change(c->store,
			       "UPDATE checked SET run_id = ?1, program = iif(?2, ?3, NULL) WHERE "
			       "name = ?4 AND cell = ?5 AND seed = ?6",
			       "iittti", cell->id, (int64_t)made, c->program, c->o->against, hex,
			       cell->config.run.seed));
	}
	return NULL;
}

/* The connection, which must not be inherited through fork, is closed meanwhile. */
char *gate_make(struct check *c, bool *interrupted)
{
	struct sweep runs ENDS_WITH(sweep_free) = {.cell = NULL};
	const struct sweep_flags f = {
		.jobs = c->o->jobs, .order = "rounds", .looked_up = true, .lines = stderr};
	int status = EXIT_OK;
	TRY(add_runs(c, &runs));
	if (runs.cells == 0)
		return NULL;
	TRY(sql_begin(c->store));
	TRY(sql_end(c->store, pend(c, &runs)));
	store_close(c->store);
	c->store = NULL;
	TRY(sweep_carry_out(&runs, &f, &status));
	*interrupted = status == EXIT_INTERRUPTED;
	TRY(store_open_for(&c->store, &runs.cell[0].config, STORE_CHANGE));
	TRY(sql_begin(c->store));
	return sql_end(c->store, record_made(c, &runs));
}
