/*
 * replay.c - a replay repeats the push order of a recorded run (--sim.replay). This file reads that
 * run's options and recording, and compares the models at the end.
 *
 * Options that decide the result are the recorded run's; the user may repeat but not change them.
 * Options that only affect time (platform, step times, stragglers) are free.
 */
#include "results/run/run.h"
#include "runtime/config/config.h"
#include "runtime/config/plugins.h"
#include "runtime/table/table.h"

#include <stdlib.h>
#include <string.h>

TEXT_FILE(replay_source_sql, "results/run/replay_source.sql");

static const char *value_of(const struct setting *s, size_t n, const char *name)
{
	const char *value = NULL;
	for (size_t i = 0; i < n; i++)
		if (strcmp(s[i].name, name) == 0)
			value = s[i].value ? s[i].value : "true";
	return value;
}

/* ---- Its options ------------------------------------------------------------- */

char *option_plain(const struct option *o, const char *text)
{
	struct option alone = *o;
	union {
		double real;
		int64_t whole;
		bool yes;
		const char *text;
	} x = {.whole = 0};
	char plain[64];
	const struct plugin *p;
	if (option_chooses(o) < PART_COUNT) { /* the user may give a file, and options after it */
		char *none AUTOFREE = plugin_choose(option_chooses(o), text, NULL, 0, &p);
		const char *options = plugin_options(text);
		return none ? NULL : sentence("%s%s", p->name, options ? options : "");
	}
	alone.offset = 0;
	char *wrong AUTOFREE = option_set(&alone, &x, NULL, text);
	if (wrong)
		return NULL;
	if (o->type == OPT_STRING || o->type == OPT_CHOICE)
		return must(strdup(x.text));
	option_text(&alone, &x, plain, sizeof plain);
	return must(strdup(plain));
}

/* Is it a core option with this replay rule? Options of plug-ins must equal the recorded ones. */
static bool is_core(const struct option *o, int how)
{
	return option_find(run_options, o->name) == o && (int)o->core.replay == how;
}

/* Copies the recorded run's options into *all, except REPLAY_OWN. Given options may differ only
 * where run_options.def allows it. */
static char *replay_take_options(struct settings *all, struct store *s, int64_t id,
				 const struct setting *given, size_t n)
{
	struct settings recorded ENDS_WITH(settings_free) = {.setting = NULL};
	char hash[17];
	TRY(recorded_settings(s, id, &recorded, hash));
	TRY(plugins_load(recorded.setting, recorded.n));
	for (size_t i = 0; i < recorded.n; i++) {
		const char *name = recorded.setting[i].name, *typed = value_of(given, n, name);
		const struct option *o = NULL;
		TRY(config_check(name, recorded.setting[i].value, &o));
		if (is_core(o, REPLAY_OWN))
			continue;
		char *value = option_plain(o, recorded.setting[i].value);
		settings_add(all, must(strdup(name)), value);
		char *own AUTOFREE =
			typed ? option_plain(o, typed) : NULL; /* invalid: reported later */
		bool any = o->core.stored == AS_USED && own && strcmp(own, "auto") == 0;
		if (own && !any && !is_core(o, REPLAY_MAY) && strcmp(own, value) != 0)
			return sentence(
				"--%s=%s: run %lld had %s, and its replay must have the same; "
				"leave it out",
				name, typed, (long long)id, *value ? value : "none");
	}
	return NULL;
}

/* The given value of a core option as config_next gives it; NULL = none, or invalid, which is
 * reported later. Heap. */
static char *given_plain(const struct setting *given, size_t n, const char *name)
{
	const char *text = value_of(given, n, name);
	return text ? option_plain(option_find(run_options, name), text) : NULL;
}

/* Checks given options that are not copied from the recorded run. used: where its tables were. */
static char *check_given(int64_t id, const char *used, const struct setting *given, size_t n)
{
	char *train AUTOFREE = given_plain(given, n, "sim.train");
	const char *platform = value_of(given, n, "platform");
	const char *placement = value_of(given, n, "table-home");
	if (!platform || strcmp(platform, "sim") != 0)
		return sentence("--sim.replay=%lld: a replay needs simulated workers; give "
				"--platform=sim, too",
				(long long)id);
	if (train && strcmp(train, "true") != 0)
		return sentence("--sim.train=%s: a replay must train; leave it out", train);
	if (placement && strcmp(placement, "auto") != 0 && strcmp(used, placement) != 0)
		return sentence(
			"--table-home=%s: run %lld had %s, and its replay must have the same; "
			"leave it out",
			placement, (long long)id, used);
	return NULL;
}

/* The settings of run `id`, checked against the given ones. */
static char *settings_of(struct settings *all, int64_t id, const struct setting *given, size_t n)
{
	const char *db = value_of(given, n, "db"), *path = db ? db : DATABASE;
	struct store *s AUTOCLOSE = NULL;
	TRY(store_open(&s, path, STORE_READ));
	struct sql row AUTODONE = sql_select(s, replay_source_sql, "it", id, path);
	if (!sql_next(&row)) {
		TRY(sql_done(&row));
		return sentence("--sim.replay=%lld: %s has no run %lld; mvbench table --runs "
				"--db=%s lists them",
				(long long)id, path, (long long)id, path);
	}
	if (!sql_null(&row, 0))
		return sentence("--sim.replay=%lld: %s", (long long)id, sql_text(&row, 0));
	TRY(check_given(id, sql_text(&row, 1), given, n));
	return replay_take_options(all, s, id, given, n);
}

char *replay_settings(struct settings *all, const struct setting *given, size_t n)
{
	char *number AUTOFREE = given_plain(given, n, "sim.replay");
	int64_t id = number ? strtoll(number, NULL, 10) : 0;
	*all = (struct settings){.setting = NULL};
	char *wrong = id ? settings_of(all, id, given, n) : NULL;
	settings_give(all, given, n);
	return wrong;
}

/* ---- Its recording ------------------------------------------------------------- */

static char *damaged(const struct recording *r, const struct arrival *a)
{
	return sentence(
		"the recording of run %lld is damaged: table %d, shard %d has no operation %lld in "
		"table arrival",
		(long long)r->run, a->table, a->shard, (long long)a->seq);
}

/* Reads the next row into *a. Operations on a shard are numbered from 0. */
static char *read_arrival(const struct sql *q, const struct config *c, const struct recording *r,
			  struct arrival *a)
{
	const struct arrival *last = r->n ? a - 1 : NULL;
	int64_t table = sql_int(q, 0), shard = sql_int(q, 1), worker = sql_int(q, 3);
	bool same = last && last->table == table && last->shard == shard;
	*a = (struct arrival){.seq = same ? last->seq + 1 : 0,
			      .worker = (int32_t)worker,
			      .table = (int16_t)table,
			      .shard = (int16_t)shard};
	if (a->table != table || a->shard != shard || worker < 0 || worker >= c->run.workers)
		return sentence(
			"the recording of run %lld is damaged: table arrival has worker %lld "
			"at table %lld, shard %lld, which the run did not have",
			(long long)r->run, (long long)worker, (long long)table, (long long)shard);
	if (sql_int(q, 2) != a->seq)
		return damaged(r, a);
	snprintf(a->kind, sizeof a->kind, "%s", sql_text(q, 4));
	return NULL;
}

static char *read_arrivals(struct store *s, const struct config *c, struct recording *r)
{
	size_t room = 0;
	struct sql q AUTODONE = sql_select(s,
					   "SELECT table_id, shard, seq, worker, kind FROM arrival "
					   "WHERE run_id = ?1 ORDER BY table_id, shard, seq",
					   "i", r->run);
	for (; sql_next(&q); r->n++) {
		if (r->n == room)
			r->arrival = must(
				realloc(r->arrival, (room = 2 * room + 1024) * sizeof *r->arrival));
		TRY(read_arrival(&q, c, r, &r->arrival[r->n]));
	}
	return sql_done(&q);
}

char *replay_load(const struct config *c, struct recording **out)
{
	struct store *s AUTOCLOSE = NULL;
	*out = NULL;
	if (c->run.sim_replay == 0)
		return NULL;
	TRY(store_open(&s, c->harness.db, STORE_READ));
	struct recording *r = must(calloc(1, sizeof *r));
	r->run = c->run.sim_replay;
	char *wrong = read_arrivals(s, c, r);
	if (wrong)
		replay_free(r);
	else
		*out = r;
	return wrong;
}

void replay_free(struct recording *r)
{
	if (r)
		free(r->arrival);
	free(r);
}

/* ---- The result ------------------------------------------------------------------ */

char *replay_compare(const struct config *c, int64_t id, bool *equal, char **said)
{
	static const char sql[] =
		"SELECT equal, 'the model ' || iif(equal, 'equals', 'differs from') || ' run ' || "
		"id || CASE WHEN equal THEN '''s, bit for bit' WHEN other <> '' THEN "
		"'''s, which was made' || other ELSE '''s: its recording or the data set has "
		"changed since then' END FROM (SELECT b.id, a.model_hash IS b.model_hash AS equal, "
		"iif(a.git_commit IS b.git_commit, '', ' by another version of mvbench') || "
		"iif(a.cpu IS b.cpu, '', ' on another processor') || "
		"iif(a.onednn IS b.onednn, '', ' with another oneDNN') AS other "
		"FROM run AS a, run AS b WHERE a.id = ?1 AND b.id = ?2)";
	struct store *s AUTOCLOSE = NULL;
	TRY(store_open(&s, c->harness.db, STORE_READ));
	struct sql q AUTODONE = sql_select(s, sql, "ii", id, c->run.sim_replay);
	if (!sql_next(&q)) {
		TRY(sql_done(&q));
		return sentence("%s: the row of run %lld or of run %lld is gone", c->harness.db,
				(long long)id, (long long)c->run.sim_replay);
	}
	*equal = sql_int(&q, 0);
	*said = sql_copy(&q, 1);
	return NULL;
}
