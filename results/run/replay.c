/*
 * replay.c - a run that repeats the order of another's pushes (--sim.replay): what it takes from
 * that run's rows, and how its model compares in the end.
 *
 * What decides the result is that run's, and may be given again only if it is the same; what only
 * takes time (the platform, step times, stragglers) may be anything.
 */
#include "results/run/run.h"

#include <stdlib.h>
#include <string.h>

/* How a replay comes by an option. All others are taken from the run, and have to agree with it. */
static const struct {
	const char *name;
	enum {
		OWN, /* has nothing to do with that run */
		FREE /* taken from it, unless given */
	} how;
} exceptions[] = {
	{"platform", OWN}, {"hostfile", OWN}, {"transport", OWN},  {"db", OWN},
	{"label", OWN},    {"record", OWN},   {"table-home", OWN}, {"straggle", FREE},
	{"speed", FREE},   {"pause", FREE},   {"data-dir", FREE},  {"target-accuracy", FREE},
};

static bool is_exception(const struct option *o, int how)
{
	if (strncmp(o->name, "sim.", 4) == 0)
		return how == OWN;
	for (size_t i = 0; i < sizeof exceptions / sizeof *exceptions; i++)
		if (strcmp(exceptions[i].name, o->name) == 0)
			return (int)exceptions[i].how == how;
	return false;
}

static const char *value_of(const struct setting *s, size_t n, const char *name)
{
	const char *value = NULL;

	for (size_t i = 0; i < n; i++)
		if (strcmp(s[i].name, name) == 0)
			value = s[i].value ? s[i].value : "true";
	return value;
}

static void settings_add(struct settings *all, char *name, char *value)
{
	all->setting = must(realloc(all->setting, (all->n + 1) * sizeof *all->setting));
	all->setting[all->n++] = (struct setting){name, value};
}

void settings_free(struct settings *all)
{
	for (size_t i = 0; i < all->taken; i++) {
		free((char *)(uintptr_t)all->setting[i].name);
		free((char *)(uintptr_t)all->setting[i].value);
	}
	free(all->setting);
	*all = (struct settings){.setting = NULL};
}

/* ---- The run that is replayed ---------------------------------------------- */

/* The store of --db, and a row of run. */
struct source {
	struct store *store;
	sqlite3_stmt *row;
	int64_t id;
};

static int column(const struct source *s, const char *name)
{
	for (int i = 0; i < sqlite3_column_count(s->row); i++)
		if (strcmp(sqlite3_column_name(s->row, i), name) == 0)
			return i;
	CHECK(false, "table run has no column %s", name);
	return -1;
}

static const char *text_of(const struct source *s, const char *name)
{
	return (const char *)sqlite3_column_text(s->row, column(s, name));
}

static bool is(const struct source *s, const char *name, const char *value)
{
	const char *text = text_of(s, name);
	return text && strcmp(text, value) == 0;
}

/* Can it be? */
static char *check_source(const struct source *s, const char *path)
{
	long long id = s->id;

	if (is(s, "record", "0"))
		return sentence("--sim.replay=%lld: the order of run %lld's pushes was not kept; "
				"give a run that was made with --record",
				id, id);
	if (!is(s, "status", "done") && !is(s, "status", "diverged"))
		return sentence(
			"--sim.replay=%lld: run %lld did not end (%s), so there is no model "
			"to come to; give one that did",
			id, id, text_of(s, "status"));
	if (!text_of(s, "model_hash"))
		return sentence("--sim.replay=%lld: run %lld was made by an older mvbench, which "
				"did not keep a hash of its model; record it again",
				id, id);
	if (is(s, "model_hash", "") || is(s, "sim_train", "0"))
		return sentence("--sim.replay=%lld: run %lld computed no gradients (--sim.train); "
				"give one that did",
				id, id);
	if (!is(s, "device", "cpu"))
		return sentence(
			"--sim.replay=%lld: run %lld computed on %s, and simulated workers "
			"compute on the cpu, which gives other last bits; record a run with "
			"--device=cpu",
			id, id, text_of(s, "device"));
	if (!is(s, "leave", ""))
		return sentence("--sim.replay=%lld: workers left run %lld (--leave=%s) at times "
				"that a replay does not know; record a run that all stay in",
				id, id, text_of(s, "leave"));
	int64_t arrivals = 0;
	sqlite3_stmt *q;
	int rc = sqlite3_prepare_v2(s->store->db,
				    "SELECT EXISTS (SELECT 1 FROM arrival WHERE run_id = ?1)", -1,
				    &q, NULL);
	if (rc != SQLITE_OK)
		return database_error(s->store, rc);
	sqlite3_bind_int64(q, 1, s->id);
	if (sqlite3_step(q) == SQLITE_ROW)
		arrivals = sqlite3_column_int64(q, 0);
	sqlite3_finalize(q);
	if (!arrivals)
		return sentence(
			"--sim.replay=%lld: the record of run %lld is gone: %s has no row of "
			"it in table arrival",
			id, id, path);
	return NULL;
}

static void source_close(struct source *s)
{
	sqlite3_finalize(s->row);
	store_close(s->store);
}

static char *source_open(struct source *s, const char *path, int64_t id)
{
	*s = (struct source){.id = id};
	char *wrong = store_open(&s->store, path, STORE_READ);

	if (wrong)
		return wrong;
	int rc = sqlite3_prepare_v2(s->store->db, "SELECT * FROM run WHERE id = ?1", -1, &s->row,
				    NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_bind_int64(s->row, 1, id);
	if (rc == SQLITE_OK)
		rc = sqlite3_step(s->row);
	if (rc == SQLITE_ROW)
		return check_source(s, path);
	if (rc != SQLITE_DONE)
		return database_error(s->store, rc);
	return sentence("--sim.replay=%lld: %s has no run %lld; mvbench table --runs --db=%s lists "
			"them",
			(long long)id, path, (long long)id, path);
}

/* ---- Its options ------------------------------------------------------------- */

/* The one text of what this text means, from the heap; NULL = it is no value of this option. */
static char *plain_text(const struct option *o, const char *text)
{
	struct option alone = *o;
	union {
		double real;
		int64_t whole;
		bool yes;
		const char *text;
	} x = {.whole = 0};
	char plain[64];

	alone.offset = 0;
	char *wrong = option_set(&alone, &x, NULL, text);
	if (wrong) {
		free(wrong);
		return NULL;
	}
	if (o->type == OPT_STRING || o->type == OPT_CHOICE)
		return must(strdup(x.text));
	option_text(&alone, &x, plain, sizeof plain);
	return must(strdup(plain));
}

/* From the heap; NULL = the row does not say. */
static char *option_of(const struct source *s, const struct option *o)
{
	char *name = must(strdup(o->name)), text[64];
	for (char *c = name; *c; c++)
		if (*c == '-' || *c == '.')
			*c = '_';
	int i = column(s, name);
	free(name);
	if (sqlite3_column_type(s->row, i) == SQLITE_NULL)
		return NULL;
	if (sqlite3_column_type(s->row, i) != SQLITE_FLOAT)
		return plain_text(o, (const char *)sqlite3_column_text(s->row, i));
	snprintf(text, sizeof text, "%.17g", sqlite3_column_double(s->row, i)); /* every digit */
	return plain_text(o, text);
}

/* name, value: the run's, which this takes over. */
static char *take(struct settings *all, const struct source *s, const struct option *o, char *name,
		  char *value, const struct setting *given, size_t n)
{
	const char *typed = value_of(given, n, name);
	char *own = typed ? plain_text(o, typed) : NULL; /* wrong in itself: that is said later */
	bool any = strcmp(o->name, "device") == 0 && own && strcmp(own, "auto") == 0;
	char *wrong = NULL;

	if (own && !any && !is_exception(o, FREE) && strcmp(own, value) != 0)
		wrong = sentence(
			"--%s=%s: run %lld had %s, and a replay of it cannot have another; "
			"leave it out",
			name, typed, (long long)s->id, *value ? value : "none");
	free(own);
	settings_add(all, name, value);
	all->taken++;
	return wrong;
}

static char *take_core_options(struct settings *all, const struct source *s,
			       const struct setting *given, size_t n)
{
	char *wrong = NULL;

	for (const struct option *o = run_options; o->name && !wrong; o++) {
		char *value = is_exception(o, OWN) ? NULL : option_of(s, o);
		if (value)
			wrong = take(all, s, o, must(strdup(o->name)), value, given, n);
	}
	return wrong;
}

static char *take_plugin_options(struct settings *all, const struct source *s,
				 const struct setting *given, size_t n)
{
	sqlite3_stmt *q;
	char *wrong = NULL;
	int rc = sqlite3_prepare_v2(
		s->store->db,
		"SELECT iif(part = 'strategy', r.strategy, r.workload) || '.' || "
		"name, value FROM run_option JOIN run AS r ON r.id = run_id "
		"WHERE run_id = ?1 AND value IS NOT NULL ORDER BY part, name",
		-1, &q, NULL);

	if (rc == SQLITE_OK)
		rc = sqlite3_bind_int64(q, 1, s->id);
	while (rc == SQLITE_OK && !wrong && (rc = sqlite3_step(q)) == SQLITE_ROW) {
		const char *name = (const char *)sqlite3_column_text(q, 0);
		const char *value = (const char *)sqlite3_column_text(q, 1);
		const struct option *o = NULL;
		wrong = config_check(name, value, &o);
		if (!wrong)
			wrong = take(all, s, o, must(strdup(name)), plain_text(o, value), given, n);
		rc = SQLITE_OK;
	}
	sqlite3_finalize(q);
	if (!wrong && rc != SQLITE_DONE)
		wrong = database_error(s->store, rc);
	return wrong;
}

static bool is_true(const char *text)
{
	char *plain = plain_text(option_find(run_options, "sim.train"), text);
	bool yes = !plain || strcmp(plain, "true") == 0;

	free(plain);
	return yes;
}

/* What may be given of what is not taken. */
static char *check_given(const struct source *s, const struct setting *given, size_t n)
{
	const char *platform = value_of(given, n, "platform");
	const char *train = value_of(given, n, "sim.train");
	const char *placement = value_of(given, n, "table-home");

	if (!platform || strcmp(platform, "sim") != 0)
		return sentence("--sim.replay=%lld: only simulated workers can be made to wait for "
				"their turn; give --platform=sim with it",
				(long long)s->id);
	if (train && !is_true(train))
		return sentence(
			"--sim.train=%s: a replay is there to come to a model; leave it out",
			train);
	if (placement && strcmp(placement, "auto") != 0 && !is(s, "table_home", placement))
		return sentence("--table-home=%s: run %lld had %s, and a replay of it cannot have "
				"another; leave it out",
				placement, (long long)s->id, text_of(s, "table_home"));
	return NULL;
}

/* Of what was given, in --sim.replay; 0 = none. */
static char *find_id(const struct setting *given, size_t n, int64_t *id)
{
	const char *text = value_of(given, n, "sim.replay");
	struct run run = {.sim_replay = 0};

	if (!text)
		return NULL;
	char *wrong = option_set(option_find(run_options, "sim.replay"), &run, NULL, text);
	*id = run.sim_replay;
	return wrong;
}

char *replay_settings(struct settings *all, const struct setting *given, size_t n)
{
	struct source s;
	int64_t id = 0;
	const char *db = value_of(given, n, "db");
	char *wrong = find_id(given, n, &id);

	*all = (struct settings){.setting = NULL};
	if (!wrong && id) {
		wrong = source_open(&s, db ? db : DATABASE, id);
		if (!wrong)
			wrong = check_given(&s, given, n);
		if (!wrong)
			wrong = take_core_options(all, &s, given, n);
		if (!wrong)
			wrong = take_plugin_options(all, &s, given, n);
		source_close(&s);
	}
	all->setting = must(realloc(all->setting, (all->n + n + 1) * sizeof *all->setting));
	for (size_t i = 0; i < n; i++)
		all->setting[all->n++] = given[i];
	return wrong;
}

/* ---- Its record ---------------------------------------------------------------- */

static char *damaged(const struct recording *r, const struct arrival *a)
{
	return sentence(
		"the record of run %lld is damaged: table %d, shard %d has no operation %lld in "
		"table arrival",
		(long long)r->run, a->table, a->shard, (long long)a->seq);
}

/* The next row into *a. Operations on a shard are numbered from 0. */
static char *read_arrival(sqlite3_stmt *q, const struct config *c, const struct recording *r,
			  struct arrival *a)
{
	const struct arrival *last = r->n ? a - 1 : NULL;
	int64_t table = sqlite3_column_int64(q, 0), shard = sqlite3_column_int64(q, 1),
		worker = sqlite3_column_int64(q, 3);
	bool same = last && last->table == table && last->shard == shard;
	const char *kind = (const char *)sqlite3_column_text(q, 4);

	*a = (struct arrival){.seq = same ? last->seq + 1 : 0,
			      .worker = (int32_t)worker,
			      .table = (int16_t)table,
			      .shard = (int16_t)shard};
	if (a->table != table || a->shard != shard || worker < 0 || worker >= c->run.workers)
		return sentence("the record of run %lld is damaged: in table arrival, worker %lld "
				"comes to table %lld, shard %lld, and there is no such thing",
				(long long)r->run, (long long)worker, (long long)table,
				(long long)shard);
	if (sqlite3_column_int64(q, 2) != a->seq)
		return damaged(r, a);
	snprintf(a->kind, sizeof a->kind, "%s", kind);
	return NULL;
}

char *replay_load(const struct config *c, struct recording **out)
{
	struct store *s;
	sqlite3_stmt *q = NULL;
	size_t room = 0;
	char *wrong;

	*out = NULL;
	if (c->run.sim_replay == 0)
		return NULL;
	if ((wrong = store_open(&s, c->run.db, STORE_READ)))
		return wrong;
	struct recording *r = must(calloc(1, sizeof *r));
	r->run = c->run.sim_replay;
	int rc = sqlite3_prepare_v2(s->db,
				    "SELECT table_id, shard, seq, worker, kind FROM arrival "
				    "WHERE run_id = ?1 ORDER BY table_id, shard, seq",
				    -1, &q, NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_bind_int64(q, 1, r->run);
	while (rc == SQLITE_OK && !wrong && (rc = sqlite3_step(q)) == SQLITE_ROW) {
		if (r->n == room)
			r->arrival = must(
				realloc(r->arrival, (room = 2 * room + 1024) * sizeof *r->arrival));
		wrong = read_arrival(q, c, r, &r->arrival[r->n]);
		r->n++;
		rc = SQLITE_OK;
	}
	if (!wrong && rc != SQLITE_DONE)
		wrong = database_error(s, rc);
	sqlite3_finalize(q);
	store_close(s);
	*out = r;
	if (wrong) {
		replay_free(r);
		*out = NULL;
	}
	return wrong;
}

void replay_free(struct recording *r)
{
	if (r)
		free(r->arrival);
	free(r);
}

/* ---- What came of it ------------------------------------------------------------- */

char *replay_compare(const struct config *c, int64_t id, bool *equal, char **said)
{
	static const char sql[] =
		"SELECT a.model_hash IS b.model_hash,"
		"	iif(a.git_commit IS b.git_commit, '', ' by another version of mvbench'),"
		"	iif(a.cpu IS b.cpu, '', ' on another processor'),"
		"	iif(a.onednn IS b.onednn, '', ' with another oneDNN') "
		"FROM run AS a, run AS b WHERE a.id = ?1 AND b.id = ?2";
	struct store *s;
	sqlite3_stmt *q = NULL;
	char *wrong = store_open(&s, c->run.db, STORE_READ);

	if (wrong)
		return wrong;
	int rc = sqlite3_prepare_v2(s->db, sql, -1, &q, NULL);
	sqlite3_bind_int64(q, 1, id);
	sqlite3_bind_int64(q, 2, c->run.sim_replay);
	if (rc == SQLITE_OK)
		rc = sqlite3_step(q);
	if (rc == SQLITE_ROW) {
		const char *how[3];
		long long first = c->run.sim_replay;
		for (int i = 0; i < 3; i++)
			how[i] = (const char *)sqlite3_column_text(q, 1 + i);
		*equal = sqlite3_column_int(q, 0);
		*said = *equal ? sentence("the model equals run %lld's, bit for bit", first)
			: *how[0] || *how[1] || *how[2]
				? sentence(
					  "the model differs from run %lld's, which was made%s%s%s",
					  first, how[0], how[1], how[2])
				: sentence("the model differs from run %lld's: its record or the "
					   "data "
					   "set were changed since it was made",
					   first);
	} else if (rc == SQLITE_DONE) {
		wrong = sentence("%s: the row of run %lld or of run %lld is gone", c->run.db,
				 (long long)id, (long long)c->run.sim_replay);
	} else {
		wrong = database_error(s, rc);
	}
	sqlite3_finalize(q);
	store_close(s);
	return wrong;
}
