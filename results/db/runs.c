/*
 * runs.c - the rows of runs: made, taken over by who runs a pending cell, and marked failed when
 * the process that records is gone. Columns of `run` are found by walking the options of a
 * configuration.
 */
#include "results/db/store.h"
#include "sim/model/model.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- Runs that nobody records any more --------------------------------------- */

/* When did process pid start [Unix time, s]? 0 = there is none, -1 = not known. */
static double process_start(int64_t pid)
{
	char path[64], line[1024];
	struct timespec boot;
	unsigned long long ticks;
	if (kill((pid_t)pid, 0) != 0 && errno == ESRCH)
		return 0;
	snprintf(path, sizeof(path), "/proc/%lld/stat", (long long)pid);
	FILE *f = fopen(path, "r");
	char *got = f ? fgets(line, sizeof(line), f) : NULL;
	if (f)
		fclose(f);
	const char *p = got ? strrchr(line, ')') : NULL; /* the name before may hold anything */
	if (p && (p[2] == 'Z' || p[2] == 'X')) /* dead, and nobody has asked how it died */
		return 0;
	for (int field = 2; p && field < 22; field++)
		p = strchr(p + 1, ' ');
	if (!p || sscanf(p, "%llu", &ticks) != 1 || clock_gettime(CLOCK_BOOTTIME, &boot) != 0)
		return -1;
	double age = (double)boot.tv_sec - (double)ticks / (double)sysconf(_SC_CLK_TCK);
	return age < -1 ? -1 : (double)time(NULL) - age;
}

/* Is the process that began to record at `started` [Unix time, s] still there? Its number alone
 * proves nothing: numbers are used again, in containers at once. */
static bool process_lives(int64_t pid, double started)
{
	double since = process_start(pid);
	return since != 0 && (since < 0 || started <= 0 || since < started + 60);
}

/* Who launched the run knows better than runs_bury_dead why it ended: its reason replaces that
 * one's. */
char *store_fail(struct store *s, int64_t id, const char *reason)
{
	return sql_change(s,
			  "UPDATE run SET status = 'failed', reason = ?2, "
			  "finished = strftime('%Y-%m-%dT%H:%M:%SZ', 'now') "
			  "WHERE id = ?1 AND (status IN ('pending', 'running') OR "
			  "(status = 'failed' AND reason LIKE '" INTERRUPTED ": its process %'))",
			  "it", id, reason);
}

char *runs_bury_dead(struct store *s)
{
	struct sql q AUTODONE = sql_select(s,
					   "SELECT id, pid, strftime('%s', started) FROM run "
					   "WHERE status = 'running' AND host = ?1 AND pid > 0",
					   "t", machine()->host);
	while (sql_next(&q)) {
		if (process_lives(sql_int(&q, 1), atof(sql_text(&q, 2))))
			continue;
		char *reason AUTOFREE =
			sentence(INTERRUPTED ": its process %s is gone", sql_text(&q, 1));
		TRY(store_fail(s, sql_int(&q, 0), reason));
	}
	return sql_done(&q);
}

char *store_keep(struct store *s)
{
	static const char some[] = "status IN ('done', 'failed', 'diverged') AND id NOT IN "
				   "(SELECT run_id FROM run_kept)";
	char *asked AUTOFREE = sentence("SELECT EXISTS (SELECT 1 FROM run WHERE %s)", some);
	char *sql AUTOFREE =
		sentence("INSERT INTO run_kept SELECT c.* FROM run AS r CROSS JOIN run_computed "
			 "AS c ON c.run_id = r.id WHERE %s",
			 some);
	int64_t missing = 0;
	TRY(sql_number(s, &missing, asked, ""));
	return missing ? sql_change(s, sql, "") : NULL;
}

/* ---- Making a row ------------------------------------------------------------ */

/* A row of `run` in the making. */
struct row {
	sqlite3_str *columns, *values;
	const struct experiment *e; /* knows what was chosen; NULL = as configured */
	bool simulated;
};

static void add_text(struct row *r, const char *column, const char *value)
{
	sqlite3_str_appendf(r->columns, ", \"%w\"", column);
	sqlite3_str_appendf(r->values, ", %Q", value);
}

static void add_int(struct row *r, const char *column, int64_t value)
{
	sqlite3_str_appendf(r->columns, ", \"%w\"", column);
	sqlite3_str_appendf(r->values, ", %lld", (long long)value);
}

/* Provenance that is not known is NULL. */
static void add_known(struct row *r, const char *column, const char *value)
{
	add_text(r, column, value && *value ? value : NULL);
}

/* What a core option's column holds. */
static const char *kept(const struct row *r, const struct option *o, const char *value)
{
	const struct experiment *e = r->e;
	const char *used = !e                                                     ? value
			   : o->offset == offsetof(struct config, run.device)     ? e->plan->device
			   : o->offset == offsetof(struct config, run.table_home) ? e->table_home
			   : o->offset == offsetof(struct config, own.transport)  ? e->transport
										  : value;
	if (o->core.stored == USED_IF_ANY || o->core.stored == AS_USED)
		return used;
	if (o->core.stored == OF_SIMULATION && !r->simulated)
		return NULL;
	if (o->type == OPT_BOOL)
		return strcmp(value, "true") == 0 ? "1" : "0";
	return value;
}

static void add_option(void *ctx, const char *part, const struct option *o, const char *value)
{
	struct row *r = ctx;
	char column[COLUMN_ROOM];
	if (strcmp(part, "run") == 0 && o->core.stored != UNSTORED)
		add_text(r, option_column(o, column), kept(r, o, value));
}

static void add_machine(struct row *r, const struct machine *m)
{
	add_known(r, "host", m->host);
	add_known(r, "cpu", m->cpu);
	add_int(r, "cores", m->cores);
	add_known(r, "mpi", m->mpi);
	add_known(r, "onednn", m->onednn);
	add_known(r, "git_commit", m->git_commit);
	if (m->git_commit && *m->git_commit)
		add_int(r, "git_dirty", m->git_dirty);
	add_int(r, "pid", getpid());
}

static void add_plan(struct row *r, const struct plan *p)
{
	add_int(r, "params", p->params);
	add_int(r, "train_size", (int64_t)p->train.n);
	add_int(r, "test_size", (int64_t)p->test.n);
	add_int(r, "oversubscribed", p->oversubscribed);
	add_known(r, "gpu", p->facts.model);
	add_known(r, "driver", p->facts.driver);
	add_known(r, "cuda", strcmp(p->device, "cuda") == 0 ? p->facts.version : NULL);
	if (p->simulation && p->simulation->calibration_id)
		add_int(r, "calibration_id", p->simulation->calibration_id);
}

struct plugin_options {
	struct store *s;
	int64_t id;
	char *wrong;
};

static void insert_plugin_option(void *ctx, const char *part, const struct option *o,
				 const char *value)
{
	struct plugin_options *p = ctx;
	if (!p->wrong && strcmp(part, "run") != 0)
		p->wrong = sql_change(
			p->s,
			"INSERT INTO run_option (run_id, part, name, value) VALUES (?, ?, ?, ?)",
			"ittt", p->id, part, o->name, value);
}

char *runs_insert(struct store *s, const struct config *c, const struct experiment *e, int64_t *id)
{
	struct row r = {.columns = sqlite3_str_new(s->db),
			.values = sqlite3_str_new(s->db),
			.e = e,
			.simulated = strcmp(c->run.platform, "sim") == 0};
	char hash[17];
	config_hash(c, hash);
	sqlite3_str_appendall(r.columns, "status");
	sqlite3_str_appendf(r.values, "%Q", e ? "running" : "pending");
	add_text(&r, "config_hash", hash);
	if (*id)
		add_int(&r, "id", *id);
	if (e) {
		add_text(&r, "started", e->started);
		add_machine(&r, e->machine);
		add_plan(&r, e->plan);
	}
	config_each(c, add_option, &r);

	char *columns = must(sqlite3_str_finish(r.columns));
	char *values = must(sqlite3_str_finish(r.values));
	char *sql AUTOFREE = sentence("INSERT INTO run (%s) VALUES (%s)", columns, values);
	struct plugin_options own = {.s = s, .wrong = sql_change(s, sql, "")};
	*id = own.id = sqlite3_last_insert_rowid(s->db);
	config_each(c, insert_plugin_option, &own);
	sqlite3_free(columns);
	sqlite3_free(values);
	return own.wrong;
}

/* ---- Cells ----------------------------------------------------------------- */

int64_t store_cell(struct store *s, const char *hash, char status[16], char reason[256])
{
	struct sql q AUTODONE = sql_select(s,
					   "SELECT id, status, reason FROM run "
					   "WHERE config_hash = ?1 ORDER BY id DESC LIMIT 1",
					   "t", hash);
	int64_t id = 0;
	status[0] = reason[0] = '\0';
	if (sql_next(&q)) {
		id = sql_int(&q, 0);
		snprintf(status, 16, "%s", sql_text(&q, 1));
		snprintf(reason, 256, "%s", sql_text(&q, 2));
	}
	return id;
}

char *store_pend(struct store *s, const struct config *c, int64_t id, int64_t round, int64_t seed)
{
	TRY(sql_begin(s));
	char *wrong = id ? NULL : runs_insert(s, c, NULL, &id);
	if (!wrong)
		wrong = sql_change(s,
				   "UPDATE run SET sweep_round = nullif(?2, 0), "
				   "sweep_seed = iif(?2, ?3, NULL) WHERE id = ?1",
				   "iii", id, round, seed);
	return sql_end(s, wrong);
}
