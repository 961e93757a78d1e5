/*
 * runs.c - the rows of runs: makes them, lets a process take over a pending cell, and marks them
 * failed when the process that records is gone. Columns of `run` are found by walking the options
 * of a configuration.
 */
#include "results/db/store.h"
#include "runtime/config/config.h"
#include "runtime/config/plugins.h"
#include "runtime/config/machine.h"
#include "runtime/config/plan.h"
#include "sim/model/model.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Runs whose process has ended -------------------------------------------- */

/* When process pid started [clock ticks since boot]; 0 = there is none, -1 = not known. */
static int64_t process_start(int64_t pid)
{
	enum { EXITING = 4 }; /* PF_EXITING of Linux */
	char *path AUTOFREE = sentence("/proc/%lld/stat", (long long)pid);
	char *text AUTOFREE = text_read(path), state = ' ';
	unsigned flags = 0;
	long long ticks;
	const char *name_end = text ? strrchr(text, ')') : NULL; /* a name may have any text */
	if (!name_end)
		return kill((pid_t)pid, 0) != 0 && errno == ESRCH ? 0 : -1;
	/* proc_pid_stat(5): the state, the flags (9) and the start (22) */
	int fields = sscanf(name_end + 1,
			    " %c %*s %*s %*s %*s %*s %u %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
			    "%*s %*s %lld",
			    &state, &flags, &ticks);
	if (state == 'Z' || state == 'X') /* a zombie: its parent has not waited for it */
		return 0;
	if (flags & EXITING) /* killed; freeing its memory can take long */
		return 0;
	return fields == 3 ? ticks : -1;
}

/* Where process ids and starts have this meaning: "BOOT PID-NAMESPACE TIME-NAMESPACE"; "" = not
 * known. The system's clock and the host's name prove nothing: the one is set, and containers share
 * the other. */
static const char *process_space(void)
{
	static char space[128];
	struct stat pids, times = {0};
	if (*space)
		return space;
	char *boot AUTOFREE = text_read("/proc/sys/kernel/random/boot_id");
	stat("/proc/self/ns/time", &times); /* older kernels have none */
	if (boot && stat("/proc/self/ns/pid", &pids) == 0)
		snprintf(space, sizeof space, "%.36s %lld %lld", boot, (long long)pids.st_ino,
			 (long long)times.st_ino);
	return space;
}

char *process_name(int64_t pid)
{
	int64_t start = process_start(pid);
	const char *space = process_space();
	return *space && start > 0 ? sentence("%s %lld", space, (long long)start) : NULL;
}

char *process_owner(void)
{
	char *name AUTOFREE = process_name(getpid());
	return sentence("%d %s", (int)getpid(), name ? name : "-");
}

/* process_lives(PID, PROCESS) in SQL: does the process run that recorded this name of itself? NULL:
 * this process cannot know. */
static void process_lives(sqlite3_context *result, int n, sqlite3_value **given)
{
	const char *name = (const char *)sqlite3_value_text(given[n - 1]), *space = process_space();
	size_t length = strlen(space);
	if (name && (!length || strncmp(name, space, length) != 0 || name[length] != ' '))
		return;
	int64_t start = process_start(sqlite3_value_int64(given[0]));
	if (start == 0)
		sqlite3_result_int(result, 0);
	else if (name && start > 0)
		sqlite3_result_int(result, atoll(name + length) == start);
}

static char *know_processes(struct store *s)
{
	int rc = sqlite3_create_function(s->db, "process_lives", 2, SQLITE_UTF8, NULL,
					 process_lives, NULL, NULL);
	return rc == SQLITE_OK ? NULL : database_error(s, rc);
}

/* Does the process of a row live? If that cannot be proved: has it been silent for less than ?2? */
#define LIVES(since) \
	"ifnull(iif(host = ?1, process_lives(pid, process), NULL), " \
	"ifnull(unixepoch() - unixepoch(" since ") <= ?2, 1))"

enum { CLAIM_S = 600 }; /* how long a claim counts where its process cannot be checked */

/* Has a living process claimed this pending row? ?3: the claim that counts as this process's own.
 */
#define CLAIMED \
	"(ifnull(pid, 0) > 0 AND pid || ' ' || ifnull(process, '-') <> ?3 AND " LIVES("started") ")"

/* The claim of the sweep that has started this process; otherwise its own. Heap. */
static char *own_claim(void)
{
	const char *of_sweep = getenv("MVBENCH_CLAIM");
	return of_sweep ? must(strdup(of_sweep)) : process_owner();
}

char *runs_pending(struct store *s, const char *hash, bool resumes, double found[3])
{
	char *claim AUTOFREE = own_claim();
	TRY(know_processes(s));
	return sql_reals(s, found, 3,
			 "SELECT id, sweep_round, sweep_seed FROM run WHERE status = 'pending' AND "
			 "config_hash = ?4 AND (checkpoint IS NULL OR NOT ?5) AND NOT " CLAIMED
			 " ORDER BY pid IS NULL, id LIMIT 1",
			 "titti", machine()->host, (int64_t)CLAIM_S, claim, hash, (int64_t)resumes);
}

/* The process that launched the run knows better than runs_mark_failed why it ended: its reason
 * replaces the other one. */
char *store_fail(struct store *s, int64_t id, const char *owner, const char *reason)
{
	char *own AUTOFREE = process_owner();
	return sql_change(s,
			  "UPDATE run SET status = 'failed', reason = ?2, "
			  "finished = strftime('%Y-%m-%dT%H:%M:%SZ', 'now') "
			  "WHERE id = ?1 AND pid || ' ' || ifnull(process, '-') = ?3 AND "
			  "(status IN ('pending', 'running') OR "
			  "(status = 'failed' AND reason LIKE '" INTERRUPTED ": its process %'))",
			  "itt", id, reason, owner ? owner : own);
}

/* Runs elsewhere, on other machines or in other PID namespaces, have ended if they have had no
 * heartbeat for SILENCE_S. Nobody saw their end: `finished` is therefore the last heartbeat. */
char *runs_mark_failed(struct store *s)
{
	TRY(know_processes(s));
	return sql_change(s,
			  "UPDATE run SET status = 'failed', "
			  "finished = ifnull(heartbeat, started), "
			  "reason = '" INTERRUPTED ": its process ' || pid || "
			  "iif(host = ?1 AND process_lives(pid, process) = 0, ' is gone', "
			  "' on ' || host || ' was last seen ' || ifnull(heartbeat, started)) "
			  "WHERE status = 'running' AND pid > 0 AND host NOT NULL AND "
			  "NOT " LIVES("heartbeat"),
			  "ti", machine()->host, (int64_t)SILENCE_S);
}

char *store_count_live(struct store *s, int64_t *n)
{
	TRY(know_processes(s));
	return sql_number(s, n,
			  "SELECT count(*) FROM run WHERE status IN ('running', 'pending') AND "
			  "pid > 0 AND " LIVES("ifnull(heartbeat, started)"),
			  "ti", machine()->host, (int64_t)SILENCE_S);
}

#define UNKEPT \
	"status IN ('done', 'failed', 'diverged') AND id NOT IN (SELECT run_id FROM run_kept)"

char *store_keep(struct store *s)
{
	int64_t missing = 0;
	TRY(sql_number(s, &missing, "SELECT EXISTS (SELECT 1 FROM run WHERE " UNKEPT ")", ""));
	return missing ? sql_change(s,
				    "INSERT INTO run_kept SELECT c.* FROM run AS r CROSS JOIN "
				    "run_computed AS c ON c.run_id = r.id WHERE " UNKEPT,
				    "")
		       : NULL;
}

/* ---- Making a row ------------------------------------------------------------ */

struct row {
	sqlite3_str *columns, *values;
};

static void add_text(struct row *r, const char *column, const char *value)
{
	sqlite3_str_appendf(r->columns, ", \"%w\"", column);
	sqlite3_str_appendf(r->values, ", %Q", value);
}

/* The value for the column of a core option. */
static const char *kept(const struct config *c, struct config_option *at)
{
	const struct option *o = at->option;
	if (o->core.stored == OF_SIMULATION && !is_simulated(c))
		return NULL;
	if (o->type == OPT_BOOL)
		return strcmp(at->value, "true") == 0 ? "1" : "0";
	if (o->type == OPT_RATE || o->type == OPT_COUNT)
		option_number(o, at->fields, at->number, sizeof at->number);
	return at->value; /* at->number, of a number */
}

/* Completes the row with what is known when the run begins. */
static char *put_facts(struct store *s, int64_t id, const struct experiment *e)
{
	const struct config *config = e->config;
	const struct cluster *c = e->cluster;
	const struct machine *m = e->machine;
	const struct plan *p = e->plan;
	const bool oversubscribed = c && (c->hosts > 1 || *config->harness.hostfile)
					    ? c->oversubscribed
					    : p->oversubscribed || (c && c->shares_gpus);
	char *process AUTOFREE = process_name(getpid());
	return sql_change(
		s,
		"UPDATE run SET process = ?21, started = ?2, heartbeat = ?2, "
		"checkpoint = nullif(?3, ''), "
		"host = nullif(?4, ''), cpu = nullif(?5, ''), cores = ?6, mpi = nullif(?7, ''), "
		"onednn = nullif(?8, ''), git_commit = nullif(?9, ''), "
		"git_dirty = iif(?9 <> '', ?10, NULL), pid = ?11, params = ?12, train_size = ?13, "
		"test_size = ?14, targets = ?20, oversubscribed = ?15, gpu = nullif(?16, ''), "
		"driver = nullif(?17, ''), cuda = nullif(?18, ''), calibration_id = nullif(?19, 0) "
		"WHERE id = ?1",
		"ittttitttiiiiiitttiit", id, e->started, e->checkpoint, m->host, m->cpu,
		(int64_t)m->cores, m->mpi, m->onednn, m->git_commit, (int64_t)m->git_dirty,
		(int64_t)getpid(), p->params, (int64_t)p->train.n, (int64_t)p->test.n,
		(int64_t)oversubscribed, p->facts.model, p->facts.driver,
		strcmp(p->device, "cuda") == 0 ? p->facts.version : NULL,
		p->simulation ? p->simulation->calibration_id : 0, (int64_t)data_targets(&p->test),
		process);
}

/* The speed of the slowest link; NaN: not known. */
static double slowest_link(const struct cluster *c)
{
	double least = NAN;
	for (int i = 0; i < c->ranks; i++)
		if (c->rank[i].link_speed)
			least = fmin(least, (double)c->rank[i].link_speed);
	return least;
}

/* "941 Mbit/s, 32 us": the first measurement is the name. Heap. */
static char *network_name(const struct cluster *c)
{
	bool giga = c->bandwidth * 8 >= 1e9, milli = c->latency_s >= 1e-3;
	return sentence("%.3g %cbit/s, %.2g %cs", c->bandwidth * 8 * (giga ? 1e-9 : 1e-6),
			giga ? 'G' : 'M', c->latency_s * (milli ? 1e3 : 1e6), milli ? 'm' : 'u');
}

/* Finds the name that earlier runs on these machines have for the same network; otherwise makes
 * one. */
static char *find_network(struct store *s, const struct cluster *c, char **name)
{
	TRY(sql_first(s, name,
		      "SELECT network FROM run WHERE id IN (SELECT min(id) FROM run WHERE "
		      "hosts = ?1 AND network_bandwidth > 0 GROUP BY network) AND "
		      "network_speed IS ?2 AND network_bandwidth BETWEEN ?3 / 1.5 AND ?3 * 1.5 AND "
		      "max(network_latency, 1e-3) BETWEEN ?4 / 4 AND ?4 * 4 ORDER BY id DESC",
		      "trrr", c->names, slowest_link(c), c->bandwidth, fmax(c->latency_s, 1e-3)));
	if (!*name)
		*name = network_name(c);
	return NULL;
}

static char *insert_ranks(struct store *s, int64_t id, const struct cluster *c)
{
	for (int i = 0; i < c->ranks; i++) {
		const struct rank_row *r = &c->rank[i];
		TRY(sql_change(s,
			       "INSERT INTO rank (run_id, rank, role, host, slot, cpu, cores, "
			       "address, git_commit, libraries, load, mhz) VALUES (?, ?, ?, ?, ?, "
			       "?, ?, nullif(?, ''), ?, ?, ?, ?)",
			       "iittititttrr", id, (int64_t)i, i < c->workers ? "worker" : "server",
			       r->host, (int64_t)r->slot, r->cpu, (int64_t)r->cores, r->address,
			       r->commit, r->libraries, r->load, r->mhz));
	}
	return NULL;
}

static char *put_cluster(struct store *s, int64_t id, const struct cluster *c)
{
	const bool wired = c->hosts > 1;
	char *network AUTOFREE = NULL;
	if (wired)
		TRY(find_network(s, c, &network));
	TRY(sql_change(s,
		       "UPDATE run SET hosts = ?2, launcher = nullif(?3, ''), "
		       "mpi_settings = nullif(?4, ''), network = ?5, network_speed = ?6, "
		       "network_latency = ?7, network_bandwidth = ?8 WHERE id = ?1",
		       "ittttrrr", id, c->names, c->launcher, c->mpi_settings, network,
		       wired ? slowest_link(c) : NAN, wired ? c->latency_s : NAN,
		       wired ? c->bandwidth : NAN));
	return insert_ranks(s, id, c);
}

struct keeping {
	struct store *store;
	int64_t place;
	char *wrong;
};

static void keep_source(void *ctx, const char *hash, const char *file, const char *text)
{
	struct keeping *k = ctx;
	if (!k->wrong)
		k->wrong = sql_change(k->store,
				      "INSERT OR IGNORE INTO source (hash, place, file, text) "
				      "VALUES (?1, ?2, ?3, ?4)",
				      "titt", hash, k->place++, file, text);
}

static char *insert_sources(struct store *s, const struct config *c)
{
	const struct plugin *of[] = {&c->strategy->plugin, &c->workload->plugin,
				     &c->optimizer->plugin, &c->codec->plugin};
	for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
		struct keeping k = {.store = s};
		plugin_sources(of[i], keep_source, &k);
		TRY(k.wrong);
	}
	return NULL;
}

static char *insert_plugin_options(struct store *s, int64_t id, const struct config *c)
{
	for (struct config_option at = {.config = c}; config_next(&at);)
		if (at.owner)
			TRY(sql_change(s,
				       "INSERT INTO run_option (run_id, part, name, value) "
				       "VALUES (?, ?, ?, ?)",
				       "ittt", id, at.part, at.option->name, at.value));
	return NULL;
}

struct config runs_placed(const struct config *c, const struct experiment *e)
{
	struct config placed = *c;
	if (e && e->cluster && !*c->harness.placement)
		placed.harness.placement = e->cluster->placement;
	return placed;
}

char *runs_insert(struct store *s, const struct config *given, const struct experiment *e,
		  int64_t *id)
{
	struct config c = runs_placed(given, e);
	struct row r = {.columns = sqlite3_str_new(s->db), .values = sqlite3_str_new(s->db)};
	char hash[17];
	config_hash(&c, hash);
	if (e) { /* what was chosen; NULL: not used */
		c.run.device = e->plan->device;
		c.run.table_home = e->table_home;
		c.harness.transport = e->transport;
	}
	sqlite3_str_appendall(r.columns, "status");
	sqlite3_str_appendf(r.values, "%Q", e ? "running" : "pending");
	add_text(&r, "config_hash", hash);
	if (*id) {
		char *number AUTOFREE = sentence("%lld", (long long)*id);
		add_text(&r, "id", number);
	}
	for (struct config_option at = {.config = &c}; config_next(&at);) {
		char column[COLUMN_ROOM];
		if (!at.owner && at.option->core.stored != UNSTORED)
			add_text(&r, option_column(at.option, column), kept(&c, &at));
	}
	char *columns = must(sqlite3_str_finish(r.columns));
	char *values = must(sqlite3_str_finish(r.values));
	char *sql AUTOFREE = sentence("INSERT INTO run (%s) VALUES (%s)", columns, values);
	sqlite3_free(columns);
	sqlite3_free(values);
	TRY(sql_change(s, sql, ""));
	*id = sqlite3_last_insert_rowid(s->db);
	TRY(insert_plugin_options(s, *id, &c));
	TRY(insert_sources(s, &c));
	if (e)
		TRY(put_facts(s, *id, e));
	return e && e->cluster ? put_cluster(s, *id, e->cluster) : NULL;
}

/* ---- Whose run it is -------------------------------------------------------- */

char *runs_own(struct store *s, int64_t id)
{
	int moved = 0;
	int64_t others = 0;
	char *process AUTOFREE = process_name(getpid());
	sqlite3_file_control(s->db, "main", SQLITE_FCNTL_HAS_MOVED, &moved);
	if (moved)
		return sentence(
			"%s was moved or removed while run %lld recorded its results there: "
			"they end with the epoch before, in that file",
			s->path, (long long)id);
	TRY(sql_number(s, &others,
		       "SELECT count(*) FROM run WHERE id = ?1 AND "
		       "(pid IS NOT ?2 OR process IS NOT ?3)",
		       "iit", id, (int64_t)getpid(), process));
	return others ? sentence("%s: run %lld is no longer this process's: another process "
				 "continues it",
				 s->path, (long long)id)
		      : NULL;
}

/* ---- Resuming from a checkpoint ------------------------------------------------ */

/* Finds the row that made the checkpoint. NULL, or a sentence: it is not here, or cannot be
 * resumed. */
static char *runs_find_resumed(struct store *s, const struct experiment *e, int64_t *id)
{
	const char *save = e->config->harness.save;
	char *claim AUTOFREE = own_claim();
	int64_t claimed = 0;
	TRY(know_processes(s)); /* before a statement runs */
	struct sql q AUTODONE = sql_select(
		s,
		"SELECT id, status, CASE WHEN git_commit <> ?2 OR git_dirty <> ?3 THEN 'by another "
		"build of mvbench' WHEN cpu <> ?4 THEN 'on another processor' WHEN device <> ?5 "
		"THEN 'on another device' WHEN trace > 0 THEN 'with a timeline' END, "
		"(SELECT count(*) FROM epoch WHERE run_id = run.id AND epoch <= ?6) FROM run "
		"WHERE checkpoint = ?1 ORDER BY origin IS NOT NULL, id LIMIT 1",
		"ttitti", e->checkpoint, e->machine->git_commit, (int64_t)e->machine->git_dirty,
		e->machine->cpu, e->plan->device, e->epoch);
	if (!sql_next(&q)) {
		TRY(sql_done(&q));
		return sentence(
			"--save=%s: this checkpoint is of a run that is not in %s: name its "
			"database with --db. Or remove the file to start from the beginning; or "
			"train its model further in a new run, with --init-from",
			save, s->path);
	}
	const char *status = sql_text(&q, 1), *made = sql_text(&q, 2);
	*id = sql_int(&q, 0);
	/* pending: a sweep has claimed it, to resume it now */
	if (strcmp(status, "failed") != 0 && strcmp(status, "pending") != 0)
		return sentence("--save=%s: run %lld, which made this checkpoint, %s: name another "
				"file, or remove it",
				save, (long long)*id,
				strcmp(status, "done") == 0      ? "is done"
				: strcmp(status, "running") == 0 ? "is still running"
								 : "has diverged");
	TRY(sql_number(s, &claimed,
		       "SELECT status = 'pending' AND " CLAIMED " FROM run WHERE id = ?4", "titi",
		       machine()->host, (int64_t)CLAIM_S, claim, *id));
	if (claimed)
		return sentence("--save=%s: another process has claimed run %lld, which made this "
				"checkpoint: wait until that one is done, or name another file",
				save, (long long)*id);
	if (*made)
		return sentence(
			"--save=%s: run %lld began %s, and cannot be continued here: remove the "
			"file to start from the beginning",
			save, (long long)*id, made);
	return sql_int(&q, 3) == e->epoch + 1
		       ? NULL
		       : sentence("--save=%s: run %lld lacks epochs of this checkpoint: remove the "
				  "file to start from the beginning; or train its model further in "
				  "a new run, with --init-from",
				  save, (long long)*id);
}

char *runs_resume(struct store *s, const struct experiment *e, int64_t *id)
{
	TRY(runs_find_resumed(s, e, id));
	TRY(sql_change(s, "DELETE FROM epoch WHERE run_id = ?1 AND epoch > ?2", "ii", *id,
		       e->epoch));
	TRY(sql_change(s, "DELETE FROM evaluation WHERE run_id = ?1 AND step > ?2", "ii", *id,
		       e->epoch * e->plan->steps));
	TRY(sql_change(s, "DELETE FROM shard WHERE run_id = ?1", "i", *id)); /* is written again */
	TRY(sql_change(s,
		       "INSERT INTO resumption SELECT id, ifnull(resumed, 0) + 1, ?2, started, ?3 "
		       "FROM run WHERE id = ?1",
		       "iit", *id, e->epoch, e->started));
	char *process AUTOFREE = process_name(getpid());
	return sql_change(s,
			  "UPDATE run SET status = 'running', reason = NULL, finished = NULL, "
			  "host = ?2, pid = ?3, started = ?4, heartbeat = ?4, process = ?5, "
			  "resumed = ifnull(resumed, 0) + 1 "
			  "WHERE id = ?1",
			  "ititt", *id, e->machine->host, (int64_t)getpid(), e->started, process);
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

char *store_owner(struct store *s, int64_t id, char **owner)
{
	TRY(sql_first(s, owner,
		      "SELECT 'process ' || pid || ' on ' || ifnull(host, '') FROM run "
		      "WHERE id = ?1 AND pid > 0 AND status IN ('pending', 'running')",
		      "i", id));
	if (*owner)
		text_disarm(*owner);
	return NULL;
}

/* Claims a pending row, or that of an interrupted run. While the process that claimed it lives, no
 * other process gets it; where that cannot be checked, its claim counts for CLAIM_S. */
static char *claim(struct store *s, int64_t id, bool *mine, char **owner)
{
	char *process AUTOFREE = process_name(getpid());
	TRY(know_processes(s));
	TRY(sql_change(s,
		       "UPDATE run SET status = 'pending', reason = NULL, host = ?1, pid = ?4, "
		       "process = ?5, started = strftime('%Y-%m-%dT%H:%M:%SZ', 'now') "
		       "WHERE id = ?3 AND iif(status = 'pending', ifnull(pid, 0) = 0 OR "
		       "(host = ?1 AND pid = ?4 AND process IS ?5) OR NOT " LIVES(
			       "started") ", "
					  "status = 'failed' AND reason LIKE '" INTERRUPTED "%')",
		       "tiiit", machine()->host, (int64_t)CLAIM_S, id, (int64_t)getpid(), process));
	*mine = sqlite3_changes(s->db) > 0;
	return *mine ? NULL : store_owner(s, id, owner);
}

char *store_claim(struct store *s, int64_t id, bool *mine, char **owner)
{
	*mine = false;
	*owner = NULL;
	TRY(sql_begin(s));
	return sql_end(s, claim(s, id, mine, owner));
}

char *store_pend(struct store *s, const struct config *c, int64_t *id, int64_t round, int64_t seed)
{
	if (!*id)
		TRY(runs_insert(s, c, NULL, id));
	return sql_change(s,
			  "UPDATE run SET sweep_round = nullif(?2, 0), "
			  "sweep_seed = iif(?2, ?3, NULL) WHERE id = ?1 AND status = 'pending'",
			  "iii", *id, round, seed);
}
