/*
 * store.c - the results database: one SQLite file, in WAL mode, one transaction an epoch.
 *
 * A process that is killed leaves a readable file and a `running` row; whoever next opens the file
 * to write sees that the process is gone and marks the row `failed`. Columns of `run` are found by
 * walking the options of a configuration, so that a new core option needs a column and nothing
 * here.
 */
#include "results/db/db.h"
#include "sim/model/model.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
	SCHEMA_VERSION = 6,
	APPLICATION_ID = 0x6d76626e, /* "mvbn" */
	OPEN_WAIT_MS = 3000,         /* for another process's lock, */
	WRITE_WAIT_MS = 30000,       /* and while there is a result that could be lost */
};

/* The program carries its schema. gcc runs in the repository's root. */
__asm__(".pushsection .rodata\n"
	"schema_sql:\n"
	".incbin \"results/db/schema.sql\"\n"
	".byte 0\n"
	".popsection\n");
extern const char schema_sql[];

/* migrations[v] turns the tables of version v into those of v + 1; the views are made anew after
 * the last. Versions 0 and 1 had the tables of 2. Before 3, all tables were in
 * memory that workers share, and asgd was the only strategy that had any. */
static const char *const migrations[SCHEMA_VERSION] = {
	"",
	"",
	"ALTER TABLE run ADD COLUMN table_home TEXT;"
	"ALTER TABLE run ADD COLUMN record INTEGER NOT NULL DEFAULT 0 CHECK (record IN (0, 1));"
	"UPDATE run SET table_home = 'shared' WHERE strategy = 'asgd';"
	"ALTER TABLE epoch ADD COLUMN pushes INTEGER;"
	"ALTER TABLE epoch ADD COLUMN dropped INTEGER;"
	"ALTER TABLE rank_epoch ADD COLUMN pushes INTEGER;"
	"ALTER TABLE rank_epoch ADD COLUMN dropped INTEGER;"
	"CREATE TABLE staleness ("
	"	run_id INTEGER NOT NULL,"
	"	epoch INTEGER NOT NULL,"
	"	staleness INTEGER NOT NULL,"
	"	pushes INTEGER NOT NULL CHECK (pushes > 0),"
	"	PRIMARY KEY (run_id, epoch, staleness),"
	"	FOREIGN KEY (run_id, epoch) REFERENCES epoch (run_id, epoch) ON DELETE CASCADE"
	") STRICT, WITHOUT ROWID;"
	"CREATE TABLE arrival ("
	"	run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,"
	"	table_id INTEGER NOT NULL,"
	"	shard INTEGER NOT NULL,"
	"	seq INTEGER NOT NULL,"
	"	worker INTEGER NOT NULL,"
	"	kind TEXT NOT NULL,"
	"	PRIMARY KEY (run_id, table_id, shard, seq)"
	") STRICT, WITHOUT ROWID;",
	"ALTER TABLE run ADD COLUMN precision TEXT NOT NULL DEFAULT 'float32';"
	"ALTER TABLE run ADD COLUMN transport TEXT;"
	"ALTER TABLE run ADD COLUMN cuda TEXT;",
	"ALTER TABLE run ADD COLUMN speed TEXT NOT NULL DEFAULT '';"
	"ALTER TABLE run ADD COLUMN pause TEXT NOT NULL DEFAULT '';"
	"ALTER TABLE run ADD COLUMN leave TEXT NOT NULL DEFAULT '';"
	"ALTER TABLE run ADD COLUMN sim_platform TEXT;"
	"ALTER TABLE run ADD COLUMN sim_train INTEGER CHECK (sim_train IN (0, 1));"
	"ALTER TABLE run ADD COLUMN sim_step_time TEXT;"
	"ALTER TABLE run ADD COLUMN sim_update_time TEXT;"
	"ALTER TABLE run ADD COLUMN sim_slow_link TEXT;"
	"ALTER TABLE run ADD COLUMN sim_replay INTEGER;"
	"ALTER TABLE run ADD COLUMN simulated_s REAL;"
	"ALTER TABLE run ADD COLUMN wall_s REAL;"
	"ALTER TABLE run ADD COLUMN events INTEGER;"
	"ALTER TABLE run ADD COLUMN model_hash TEXT;"
	"DROP TABLE calibration;" /* nothing ever wrote it */
	"CREATE TABLE calibration ("
	"	id INTEGER PRIMARY KEY AUTOINCREMENT,"
	"	made TEXT NOT NULL,"
	"	host TEXT, cpu TEXT, cores INTEGER, mpi TEXT, onednn TEXT, gpu TEXT,"
	"	git_commit TEXT, git_dirty INTEGER CHECK (git_dirty IN (0, 1)),"
	"	device TEXT NOT NULL,"
	"	precision TEXT NOT NULL,"
	"	threads INTEGER NOT NULL,"
	"	workload TEXT NOT NULL,"
	"	workload_options TEXT NOT NULL,"
	"	batch INTEGER NOT NULL,"
	"	params INTEGER NOT NULL,"
	"	workers INTEGER NOT NULL"
	") STRICT;"
	"CREATE INDEX calibration_of ON calibration (workload, batch, device, workers);"
	"CREATE TABLE calibration_point ("
	"	calibration_id INTEGER NOT NULL REFERENCES calibration (id) ON DELETE CASCADE,"
	"	name TEXT NOT NULL,"
	"	x REAL NOT NULL,"
	"	value REAL NOT NULL,"
	"	PRIMARY KEY (calibration_id, name, x)"
	") STRICT, WITHOUT ROWID;"
	"ALTER TABLE run ADD COLUMN calibration_id INTEGER"
	"	REFERENCES calibration (id) ON DELETE SET NULL;",
	"CREATE INDEX run_alone ON run (status) WHERE workers = 1;"
	"DROP TABLE epoch_median;" /* what it kept, and more, is computed again */
	"CREATE TABLE run_kept ("
	"	run_id INTEGER PRIMARY KEY REFERENCES run (id) ON DELETE CASCADE,"
	"	epochs_done INTEGER, test_accuracy REAL, best_test_accuracy REAL, test_loss REAL,"
	"	train_loss REAL, epoch_seconds REAL, compute_fraction REAL, comm_fraction REAL,"
	"	wait_fraction REAL, epoch_bytes REAL, staleness_mean REAL, staleness_max INTEGER,"
	"	dropped_fraction REAL, seconds_total REAL, target_epoch INTEGER,"
	"	target_seconds REAL, config TEXT NOT NULL, compare_key TEXT NOT NULL,"
	"	config_key TEXT NOT NULL"
	") STRICT;"
	"ALTER TABLE run ADD COLUMN trace INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE run ADD COLUMN events_lost INTEGER;"
	"DROP TABLE event;" /* nothing ever wrote it */
	"CREATE TABLE event ("
	"	run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,"
	"	rank INTEGER NOT NULL CHECK (rank >= 0), seq INTEGER NOT NULL,"
	"	epoch INTEGER NOT NULL, step INTEGER NOT NULL, name TEXT NOT NULL,"
	"	start_s REAL NOT NULL, duration_s REAL NOT NULL, parent INTEGER, peer INTEGER,"
	"	bytes INTEGER, flow INTEGER, seen INTEGER, staleness INTEGER,"
	"	PRIMARY KEY (run_id, rank, seq)"
	") STRICT, WITHOUT ROWID;"
	"CREATE INDEX event_flow ON event (run_id, flow) WHERE flow IS NOT NULL;"
	"CREATE INDEX event_seen ON event (run_id, seen) WHERE seen IS NOT NULL;"
	"ALTER TABLE run ADD COLUMN origin TEXT;"
	"ALTER TABLE run ADD COLUMN origin_id INTEGER;"
	"ALTER TABLE run ADD COLUMN imported TEXT;"
	"DROP TABLE baseline;" /* nothing ever wrote it */
	"CREATE TABLE baseline ("
	"	name TEXT NOT NULL, cell TEXT NOT NULL, seed INTEGER NOT NULL, made TEXT NOT NULL,"
	"	config TEXT NOT NULL, options TEXT NOT NULL, config_hash TEXT NOT NULL,"
	"	params INTEGER, train_size INTEGER, test_size INTEGER,"
	"	train_loss REAL, test_loss REAL, test_accuracy REAL,"
	"	epoch_seconds REAL, simulated_s REAL, calibration TEXT, model_hash TEXT,"
	"	started TEXT, host TEXT, cpu TEXT, gpu TEXT, mpi TEXT, onednn TEXT, cuda TEXT,"
	"	git_commit TEXT, git_dirty INTEGER CHECK (git_dirty IN (0, 1)),"
	"	run_id INTEGER REFERENCES run (id) ON DELETE SET NULL,"
	"	PRIMARY KEY (name, cell, seed)"
	") STRICT, WITHOUT ROWID;"
	"CREATE INDEX baseline_run ON baseline (run_id);"
	"CREATE TABLE checked ("
	"	name TEXT NOT NULL, cell TEXT NOT NULL, seed INTEGER NOT NULL,"
	"	run_id INTEGER REFERENCES run (id) ON DELETE SET NULL,"
	"	program TEXT,"
	"	PRIMARY KEY (name, cell, seed)"
	") STRICT, WITHOUT ROWID;"
	"CREATE INDEX checked_run ON checked (run_id);"
	"CREATE TABLE gate_limit ("
	"	name TEXT PRIMARY KEY, alpha REAL NOT NULL, min_accuracy REAL NOT NULL,"
	"	min_loss REAL NOT NULL,"
	"	better_fails INTEGER NOT NULL CHECK (better_fails IN (0, 1))"
	") STRICT, WITHOUT ROWID;",
};

/* ---- Sentences ----------------------------------------------------------- */

static char *disk_full(const struct store *s)
{
	return sentence(
		"%s cannot grow, the disk is full: make room and start the run again; what was "
		"recorded before is kept",
		s->path);
}

char *database_error(const struct store *s, int rc)
{
	switch (rc & 0xff) {
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return sentence("%s is locked by another process: wait until that one is done, or "
				"end it (an sqlite3 shell inside a transaction, for instance)",
				s->path);
	case SQLITE_FULL:
		return disk_full(s);
	case SQLITE_READONLY:
		return sentence("%s cannot be written: make it and its folder writable, or name "
				"another file with --db",
				s->path);
	case SQLITE_NOTADB:
		return sentence("%s is not a results database: name another file with --db",
				s->path);
	case SQLITE_CORRUPT:
		return sentence(
			"%s is damaged: save what can be read with `sqlite3 FILE .recover`, "
			"or name another file with --db",
			s->path);
	case SQLITE_CANTOPEN:
		return sentence("%s cannot be opened: look at the permissions of the file and its "
				"folder, or name another file with --db",
				s->path);
	case SQLITE_IOERR:
		if (sqlite3_system_errno(s->db) == ENOSPC)
			return disk_full(s);
		return sentence("%s: reading or writing failed (%s): look at the disk, or name "
				"another file with --db",
				s->path, strerror(sqlite3_system_errno(s->db)));
	case SQLITE_CONSTRAINT:
		if (rc == SQLITE_CONSTRAINT_FOREIGNKEY)
			return sentence(
				"%s: the row of this run is gone; somebody deleted it while "
				"it ran",
				s->path);
		/* fall through */
	default:
		return sentence("%s: the database refused: %s", s->path, sqlite3_errmsg(s->db));
	}
}

const char *database_schema(void)
{
	return schema_sql;
}

/* ---- Statements ---------------------------------------------------------- */

/* Binds i: int64_t, r: double, t: const char *, one letter a parameter. What is not finite is
 * NULL. */
static void bind_all(sqlite3_stmt *q, const char *types, va_list args)
{
	for (int i = 1; *types; i++, types++) {
		if (*types == 'i') {
			sqlite3_bind_int64(q, i, va_arg(args, int64_t));
		} else if (*types == 'r') {
			double x = va_arg(args, double);
			if (isfinite(x))
				sqlite3_bind_double(q, i, x);
		} else {
			sqlite3_bind_text(q, i, va_arg(args, const char *), -1, SQLITE_TRANSIENT);
		}
	}
}

/* Runs one statement without rows. */
static int change(struct store *s, const char *sql, const char *types, ...)
{
	sqlite3_stmt *q;
	va_list args;
	int rc = sqlite3_prepare_v2(s->db, sql, -1, &q, NULL);

	if (rc != SQLITE_OK)
		return rc;
	va_start(args, types);
	bind_all(q, types, args);
	va_end(args);
	while ((rc = sqlite3_step(q)) == SQLITE_ROW)
		;
	sqlite3_finalize(q);
	return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* The first column of the first row into *x, which keeps its value when there is none. */
static int read_number(struct store *s, int64_t *x, const char *sql, const char *types, ...)
{
	sqlite3_stmt *q;
	va_list args;
	int rc = sqlite3_prepare_v2(s->db, sql, -1, &q, NULL);

	if (rc != SQLITE_OK)
		return rc;
	va_start(args, types);
	bind_all(q, types, args);
	va_end(args);
	rc = sqlite3_step(q);
	if (rc == SQLITE_ROW)
		*x = sqlite3_column_int64(q, 0);
	sqlite3_finalize(q);
	return rc == SQLITE_DONE || rc == SQLITE_ROW ? SQLITE_OK : rc;
}

static int begin_change(struct store *s)
{
	return sqlite3_exec(s->db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
}

/* Commits what went well, takes back what did not. NULL or a sentence. */
static char *end_change(struct store *s, int rc)
{
	char *wrong = NULL;

	if (rc == SQLITE_OK)
		rc = sqlite3_exec(s->db, "COMMIT", NULL, NULL, NULL);
	if (rc != SQLITE_OK)
		wrong = database_error(s, rc);
	if (!sqlite3_get_autocommit(s->db))
		sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
	return wrong;
}

/* ---- Opening ------------------------------------------------------------- */

static char *folder_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (!slash)
		return must(strdup("."));
	return must(slash == path ? strdup("/") : strndup(path, (size_t)(slash - path)));
}

static char *check_folder(const char *path)
{
	char *folder = folder_of(path), *wrong = NULL;
	struct stat st;

	if (stat(folder, &st) != 0)
		wrong = sentence("%s cannot be made, its folder %s is not there: make the folder, "
				 "or name another file with --db",
				 path, folder);
	else if (!S_ISDIR(st.st_mode))
		wrong = sentence("%s cannot be made, %s is not a folder: name another file with "
				 "--db",
				 path, folder);
	else if (access(folder, W_OK | X_OK) != 0)
		wrong = sentence("%s cannot be written, its folder %s is not writable (%s): name "
				 "another file with --db",
				 path, folder, strerror(errno));
	free(folder);
	return wrong;
}

static char *not_a_file(const char *path, const struct stat *st)
{
	if (S_ISDIR(st->st_mode))
		return sentence("%s is a folder: name a file in it, as in --db=%s/" DATABASE, path,
				path);
	if (!S_ISREG(st->st_mode))
		return sentence("%s is not a plain file: name another with --db", path);
	return NULL;
}

/* What the identities of an SQLite file say; tables: has it any? */
static char *check_version(const char *path, int64_t application, int64_t version, bool tables)
{
	if (application != APPLICATION_ID && (application != 0 || version != 0 || tables))
		return sentence("%s is an SQLite database, but not one of mvbench's results: name "
				"another file with --db",
				path);
	if (version > SCHEMA_VERSION)
		return sentence("%s was made by a newer mvbench (schema %lld, this one knows %d): "
				"use that one, or name another file with --db",
				path, (long long)version, SCHEMA_VERSION);
	return NULL;
}

static int64_t big_endian(const unsigned char *p)
{
	return (int64_t)p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3];
}

/* Reads the first bytes of the file, because SQLite would leave files beside it even when
 * reading. */
static char *check_header(const char *path)
{
	unsigned char h[100];
	FILE *f = fopen(path, "rb");

	if (!f)
		return sentence("%s cannot be read (%s): look at its permissions, or name another "
				"file with --db",
				path, strerror(errno));
	size_t n = fread(h, 1, sizeof(h), f);
	fclose(f);
	if (n == 0)
		return NULL;
	if (n < sizeof(h) || memcmp(h, "SQLite format 3", 16) != 0)
		return sentence("%s is not a results database: name another file with --db", path);
	return check_version(path, big_endian(h + 68), big_endian(h + 60), big_endian(h + 28) > 1);
}

char *store_look(const char *path)
{
	struct stat st;

	if (stat(path, &st) != 0)
		return sentence("%s cannot be read (%s): name another database", path,
				strerror(errno));
	char *wrong = not_a_file(path, &st);
	if (!wrong && st.st_size == 0)
		wrong = sentence("%s is empty: name another database", path);
	return wrong ? wrong : check_header(path);
}

char *store_check(const char *path)
{
	struct stat st;
	char *wrong;

	if (*path == '\0')
		return sentence("--db=: the name of a file is wanted, as in --db=" DATABASE);
	if (stat(path, &st) != 0) {
		wrong = check_folder(path);
		if (!wrong && errno != ENOENT)
			wrong = sentence("%s cannot be opened (%s): name another file with --db",
					 path, strerror(errno));
		return wrong;
	}
	wrong = not_a_file(path, &st);
	if (!wrong && access(path, W_OK) != 0)
		wrong = sentence("%s cannot be written (%s): change its permissions, or name "
				 "another file with --db",
				 path, strerror(errno));
	if (!wrong)
		wrong = check_header(path);
	return wrong ? wrong : check_folder(path);
}

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

/* Who launched the run knows better than bury_dead why it ended: its reason replaces that one's. */
static int mark_failed(struct store *s, int64_t id, const char *reason)
{
	return change(s,
		      "UPDATE run SET status = 'failed', reason = ?2, "
		      "finished = strftime('%Y-%m-%dT%H:%M:%SZ', 'now') "
		      "WHERE id = ?1 AND (status IN ('pending', 'running') OR "
		      "(status = 'failed' AND reason LIKE '" INTERRUPTED ": its process %'))",
		      "it", id, reason);
}

/* Marks the `running` rows of this host whose processes are gone. */
static int bury_dead(struct store *s)
{
	sqlite3_stmt *q;
	int rc = sqlite3_prepare_v2(s->db,
				    "SELECT id, pid, strftime('%s', started) FROM run "
				    "WHERE status = 'running' AND host = ?1 AND pid > 0",
				    -1, &q, NULL);

	if (rc != SQLITE_OK)
		return rc;
	sqlite3_bind_text(q, 1, machine()->host, -1, SQLITE_TRANSIENT);
	while ((rc = sqlite3_step(q)) == SQLITE_ROW) {
		int64_t pid = sqlite3_column_int64(q, 1);
		if (process_lives(pid, sqlite3_column_double(q, 2)))
			continue;
		char *reason = sentence(INTERRUPTED ": its process %lld is gone", (long long)pid);
		int failed = mark_failed(s, sqlite3_column_int64(q, 0), reason);
		free(reason);
		if (failed != SQLITE_OK) {
			sqlite3_finalize(q);
			return failed;
		}
	}
	sqlite3_finalize(q);
	return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* Takes the views and triggers of another version away. */
static int drop_views(struct store *s)
{
	sqlite3_stmt *q;
	char *drop = NULL;
	int rc =
		sqlite3_prepare_v2(s->db,
				   "SELECT group_concat(printf('DROP %s \"%w\"', type, name), ';') "
				   "FROM sqlite_master WHERE type IN ('view', 'trigger')",
				   -1, &q, NULL);

	if (rc != SQLITE_OK)
		return rc;
	if (sqlite3_step(q) == SQLITE_ROW && sqlite3_column_text(q, 0))
		drop = must(strdup((const char *)sqlite3_column_text(q, 0)));
	rc = sqlite3_finalize(q);
	if (rc == SQLITE_OK && drop)
		rc = sqlite3_exec(s->db, drop, NULL, NULL, NULL);
	free(drop);
	return rc;
}

static int make_views(struct store *s)
{
	const char *views = strstr(schema_sql, "\n-- VIEWS\n");

	CHECK(views, "results/schema.sql has no line \"-- VIEWS\"");
	return sqlite3_exec(s->db, views, NULL, NULL, NULL);
}

static char *read_version(struct store *s, int64_t *version, bool *tables)
{
	int64_t application = 0, n = 0;
	int rc = read_number(s, &application, "PRAGMA application_id", "");

	if (rc == SQLITE_OK)
		rc = read_number(s, version, "PRAGMA user_version", "");
	if (rc == SQLITE_OK)
		rc = read_number(s, &n, "SELECT count(*) FROM sqlite_master", "");
	if (rc != SQLITE_OK)
		return database_error(s, rc);
	*tables = n > 0;
	return check_version(s->path, application, *version, *tables);
}

/* Makes the schema, or brings an older one up, unless another process has done so meanwhile. */
static char *migrate(struct store *s)
{
	int64_t version = 0;
	bool tables = false;
	int rc = begin_change(s);

	if (rc != SQLITE_OK)
		return database_error(s, rc);
	char *wrong = read_version(s, &version, &tables);
	if (wrong) {
		free(end_change(s, SQLITE_ABORT));
		return wrong;
	}
	if (!tables) {
		rc = sqlite3_exec(s->db, schema_sql, NULL, NULL, NULL);
	} else if (version < SCHEMA_VERSION) {
		rc = drop_views(s);
		for (; rc == SQLITE_OK && version < SCHEMA_VERSION; version++)
			rc = sqlite3_exec(s->db, migrations[version], NULL, NULL, NULL);
		if (rc == SQLITE_OK)
			rc = make_views(s);
		char *pragma = sentence("PRAGMA user_version = %d", SCHEMA_VERSION);
		if (rc == SQLITE_OK)
			rc = sqlite3_exec(s->db, pragma, NULL, NULL, NULL);
		free(pragma);
	}
	return end_change(s, rc);
}

/* The file becomes WAL only after its schema is in it: check_header reads that from the file. */
static char *use_wal(struct store *s)
{
	int rc = SQLITE_BUSY;

	/* Another process that opens the file at this moment is not waited for by SQLite here. */
	for (int i = 0; i < OPEN_WAIT_MS / 20 && rc == SQLITE_BUSY; i++) {
		rc = sqlite3_exec(s->db, "PRAGMA journal_mode = WAL", NULL, NULL, NULL);
		if (rc == SQLITE_BUSY)
			sqlite3_sleep(20);
	}
	return rc == SQLITE_OK ? NULL : database_error(s, rc);
}

char *store_keep(struct store *s)
{
	int64_t missing = 0;
	int rc = read_number(s, &missing,
			     "SELECT EXISTS (SELECT 1 FROM run WHERE status IN ('done', 'failed', "
			     "'diverged') AND id NOT IN (SELECT run_id FROM run_kept))",
			     "");

	if (rc == SQLITE_OK && missing)
		rc = change(s,
			    "INSERT INTO run_kept SELECT c.* FROM run AS r CROSS JOIN run_computed "
			    "AS c ON c.run_id = r.id WHERE r.status IN ('done', 'failed', "
			    "'diverged') AND r.id NOT IN (SELECT run_id FROM run_kept)",
			    "");
	return rc == SQLITE_OK ? NULL : database_error(s, rc);
}

static char *prepare_write(struct store *s)
{
	int64_t version = 0;
	bool tables = false;
	char *wrong = read_version(s, &version, &tables);

	if (!wrong && (!tables || version < SCHEMA_VERSION))
		wrong = migrate(s);
	if (!wrong)
		wrong = use_wal(s);
	if (wrong)
		return wrong;
	int rc = bury_dead(s);
	return rc == SQLITE_OK ? store_keep(s) : database_error(s, rc);
}

/* SQLite's name for the file: never a special name, such as ":memory:". */
static char *plain_name(const char *path)
{
	return sentence("%s%s", *path == '/' ? "" : "./", path);
}

/* The name as a URI that promises that nobody changes the file: for media that cannot be written,
 * where SQLite cannot make the files that it wants beside a database in WAL mode. */
static char *immutable_name(const char *path)
{
	char *plain = plain_name(path), *uri = must(malloc(3 * strlen(plain) + 32)), *p = uri;

	p += sprintf(p, "file:");
	for (const char *c = plain; *c; c++)
		p += sprintf(p, strchr("%?#", *c) ? "%%%02X" : "%c", (unsigned char)*c);
	sprintf(p, "?immutable=1");
	free(plain);
	return uri;
}

static int open_database(struct store *s, int flags, char *name)
{
	int rc = sqlite3_open_v2(name, &s->db, flags, NULL);

	free(name);
	if (rc != SQLITE_OK)
		return rc;
	sqlite3_extended_result_codes(s->db, 1);
	sqlite3_busy_timeout(s->db, OPEN_WAIT_MS);
	/* The first access; opening alone reads nothing. */
	return sqlite3_exec(s->db,
			    "PRAGMA foreign_keys = ON; PRAGMA synchronous = NORMAL;"
			    "SELECT count(*) FROM sqlite_master",
			    NULL, NULL, NULL);
}

static char *open_read(struct store *s)
{
	struct stat st;
	int64_t version = 0;
	bool tables = false;

	if (stat(s->path, &st) != 0)
		return sentence("there is no results database %s: record one with `mvbench run "
				"--db=%s`, or name another file with --db",
				s->path, s->path);
	char *wrong = not_a_file(s->path, &st);
	if (wrong)
		return wrong;
	int rc = open_database(s, SQLITE_OPEN_READONLY, plain_name(s->path));
	if ((rc & 0xff) == SQLITE_CANTOPEN || (rc & 0xff) == SQLITE_READONLY) {
		sqlite3_close(s->db);
		rc = open_database(s, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI,
				   immutable_name(s->path));
	}
	if (rc != SQLITE_OK)
		return database_error(s, rc);
	wrong = read_version(s, &version, &tables);
	if (!wrong && !tables)
		return sentence("%s is empty: record something with `mvbench run --db=%s`", s->path,
				s->path);
	if (wrong || version == SCHEMA_VERSION)
		return wrong;

	struct store *writer;
	sqlite3_close(s->db);
	s->db = NULL;
	wrong = store_open(&writer, s->path, STORE_WRITE);
	if (wrong)
		return wrong;
	store_close(writer);
	rc = open_database(s, SQLITE_OPEN_READONLY, plain_name(s->path));
	return rc == SQLITE_OK ? NULL : database_error(s, rc);
}

static char *open_write(struct store *s)
{
	char *wrong = store_check(s->path);

	if (wrong)
		return wrong;
	int rc = open_database(s, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, plain_name(s->path));
	wrong = rc == SQLITE_OK ? prepare_write(s) : database_error(s, rc);
	return wrong;
}

/* A file that could not be made whole is no file. */
static void remove_new(const char *path)
{
	static const char *const ending[] = {"", "-wal", "-shm", "-journal"};

	for (size_t i = 0; i < sizeof ending / sizeof *ending; i++) {
		char *file = sentence("%s%s", path, ending[i]);
		unlink(file);
		free(file);
	}
}

char *store_open(struct store **out, const char *path, enum store_mode mode)
{
	struct store *s = must(calloc(1, sizeof(*s)));
	bool is_new = mode == STORE_WRITE && access(path, F_OK) != 0;

	s->path = must(strdup(path));
	char *wrong = mode == STORE_READ ? open_read(s) : open_write(s);
	*out = wrong ? NULL : s;
	if (wrong)
		store_close(s);
	if (wrong && is_new)
		remove_new(path);
	return wrong;
}

void store_close(struct store *s)
{
	if (!s)
		return;
	sqlite3_close(s->db);
	free(s->path);
	free(s);
}

/* ---- Runs ---------------------------------------------------------------- */

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
	if (r->e && strcmp(o->name, "device") == 0)
		return r->e->plan->device;
	if (r->e && strcmp(o->name, "table-home") == 0)
		return r->e->table_home;
	if (r->e && strcmp(o->name, "transport") == 0)
		return r->e->transport;
	if (strncmp(o->name, "sim.", 4) == 0 && !r->simulated)
		return NULL;
	if (o->type == OPT_BOOL)
		return strcmp(value, "true") == 0 ? "1" : "0";
	return value ? value : "";
}

static void add_option(void *ctx, const char *part, const struct option *o, const char *value)
{
	struct row *r = ctx;

	if (strcmp(part, "run") != 0 || strcmp(o->name, "db") == 0)
		return;
	char *column = must(strdup(o->name));
	for (char *c = column; *c; c++)
		if (*c == '-' || *c == '.')
			*c = '_';
	add_text(r, column, kept(r, o, value));
	free(column);
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
	int rc;
};

static void insert_plugin_option(void *ctx, const char *part, const struct option *o,
				 const char *value)
{
	struct plugin_options *p = ctx;

	if (p->rc == SQLITE_OK && strcmp(part, "run") != 0)
		p->rc = change(p->s, "INSERT INTO run_option VALUES (?1, ?2, ?3, ?4)", "ittt",
			       p->id, part, o->name, value ? value : "");
}

/* Adds a row for this configuration; e NULL = pending; *id 0 = a new one. */
static int insert_run(struct store *s, const struct config *c, const struct experiment *e,
		      int64_t *id)
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
	char *sql = sentence("INSERT INTO run (%s) VALUES (%s)", columns, values);
	int rc = change(s, sql, "");
	CHECK(rc != SQLITE_ERROR, "results/schema.sql and the core options disagree: %s",
	      sqlite3_errmsg(s->db));
	if (rc == SQLITE_OK)
		*id = sqlite3_last_insert_rowid(s->db);
	sqlite3_free(columns);
	sqlite3_free(values);
	free(sql);
	if (rc != SQLITE_OK)
		return rc;

	struct plugin_options options = {.s = s, .id = *id, .rc = SQLITE_OK};
	config_each(c, insert_plugin_option, &options);
	return options.rc;
}

static char *sink_begin(void *self, const struct experiment *e, int64_t *id)
{
	struct store *s = self;
	char hash[17];

	CHECK(s->run == 0, "run %lld has not ended", (long long)s->run);
	*id = 0;
	config_hash(e->config, hash);
	int rc = begin_change(s);
	if (rc == SQLITE_OK)
		rc = read_number(
			s, id,
			"SELECT min(id) FROM run WHERE status = 'pending' AND config_hash = ?1",
			"t", hash);
	if (rc == SQLITE_OK && *id) /* its number lives on in the row that takes its place */
		rc = change(s, "DELETE FROM run WHERE id = ?1", "i", *id);
	if (rc == SQLITE_OK)
		rc = insert_run(s, e->config, e, id);
	char *wrong = end_change(s, rc);
	s->run = wrong ? 0 : *id;
	if (!wrong)
		sqlite3_busy_timeout(s->db, WRITE_WAIT_MS);
	return wrong;
}

static double staleness_mean(const struct split_row *r)
{
	return r->pushes ? (double)r->staleness_sum / (double)r->pushes : NAN;
}

/* The bins that are not empty. */
static int insert_staleness(struct store *s, int64_t epoch, const int64_t *pushes)
{
	int rc = SQLITE_OK;

	for (int i = 0; rc == SQLITE_OK && i < STALENESS_BINS; i++)
		if (pushes[i] > 0)
			rc = change(s, "INSERT INTO staleness VALUES (?1, ?2, ?3, ?4)", "iiii",
				    s->run, epoch, staleness_of_bin(i), pushes[i]);
	return rc;
}

static char *sink_epoch(void *self, const struct epoch_row *row, const struct split_row *ranks,
			int n, const int64_t *staleness)
{
	struct store *s = self;
	const struct split_row *r = &row->split;

	CHECK(s->run, "an epoch of no run");
	int rc = begin_change(s);
	if (rc == SQLITE_OK)
		rc = change(s,
			    "INSERT INTO epoch VALUES "
			    "(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, "
			    "iif(?14 > 0, ?13, NULL), iif(?14 + ?15 > 0, ?14, NULL), "
			    "iif(?14 + ?15 > 0, ?15, NULL))",
			    "iirrrrrrrririii", s->run, row->epoch, r->seconds, r->compute_s,
			    r->comm_s, r->wait_s, row->train_loss, row->train_accuracy,
			    row->test_loss, row->test_accuracy, r->bytes_sent, staleness_mean(r),
			    r->staleness_max, r->pushes, r->dropped);
	if (rc == SQLITE_OK && staleness)
		rc = insert_staleness(s, row->epoch, staleness);
	for (int i = 0; rc == SQLITE_OK && i < n; i++) {
		r = &ranks[i];
		rc = change(s,
			    "INSERT INTO rank_epoch VALUES "
			    "(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, iif(?11 > 0, ?10, NULL), "
			    "iif(?11 + ?12 > 0, ?11, NULL), iif(?11 + ?12 > 0, ?12, NULL))",
			    "iiirrrririii", s->run, row->epoch, (int64_t)i, r->seconds,
			    r->compute_s, r->comm_s, r->wait_s, r->bytes_sent, staleness_mean(r),
			    r->staleness_max, r->pushes, r->dropped);
	}
	return end_change(s, rc);
}

static char *sink_arrivals(void *self, const struct arrival *a, size_t n)
{
	struct store *s = self;
	sqlite3_stmt *q = NULL;

	CHECK(s->run, "arrivals of no run");
	int rc = begin_change(s);
	if (rc == SQLITE_OK)
		rc = sqlite3_prepare_v2(
			s->db,
			"INSERT INTO arrival (table_id, shard, seq, worker, kind, run_id) "
			"VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
			-1, &q, NULL);
	for (size_t i = 0; rc == SQLITE_OK && i < n; i++) {
		sqlite3_bind_int(q, 1, a[i].table);
		sqlite3_bind_int(q, 2, a[i].shard);
		sqlite3_bind_int64(q, 3, a[i].seq);
		sqlite3_bind_int(q, 4, a[i].worker);
		sqlite3_bind_text(q, 5, a[i].kind, (int)strnlen(a[i].kind, sizeof(a[i].kind)),
				  SQLITE_STATIC);
		sqlite3_bind_int64(q, 6, s->run);
		sqlite3_step(q);
		rc = sqlite3_reset(q);
	}
	sqlite3_finalize(q);
	return end_change(s, rc);
}

/* NULL where there is no such number. */
static void bind_from(sqlite3_stmt *q, int i, int64_t least, int64_t x)
{
	if (x >= least)
		sqlite3_bind_int64(q, i, x);
	else
		sqlite3_bind_null(q, i);
}

static void bind_event(sqlite3_stmt *q, const struct slice *e)
{
	sqlite3_bind_int(q, 2, e->rank);
	sqlite3_bind_int(q, 3, e->seq);
	sqlite3_bind_int(q, 4, e->epoch);
	sqlite3_bind_int(q, 5, e->step);
	sqlite3_bind_text(q, 6, trace_names[e->kind], -1, SQLITE_STATIC);
	sqlite3_bind_double(q, 7, 1e-9 * (double)e->start);
	sqlite3_bind_double(q, 8, 1e-9 * (double)e->length);
	bind_from(q, 9, 0, e->parent);
	bind_from(q, 10, 0, e->peer);
	bind_from(q, 11, 0, e->bytes);
	bind_from(q, 12, 1, e->flow);
	bind_from(q, 13, 1, e->seen);
	bind_from(q, 14, 0, e->staleness);
}

static char *sink_events(void *self, const struct slice *e, size_t n, size_t lost)
{
	struct store *s = self;
	sqlite3_stmt *q = NULL;

	CHECK(s->run, "events of no run");
	int rc = begin_change(s);
	if (rc == SQLITE_OK)
		rc = change(s,
			    "UPDATE run SET events_lost = ifnull(events_lost, 0) + ?2 "
			    "WHERE id = ?1",
			    "ii", s->run, (int64_t)lost);
	if (rc == SQLITE_OK)
		rc = sqlite3_prepare_v2(s->db,
					"INSERT INTO event (run_id, rank, seq, epoch, step, name, "
					"start_s, duration_s, parent, peer, bytes, flow, seen, "
					"staleness) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, "
					"?10, ?11, ?12, ?13, ?14)",
					-1, &q, NULL);
	for (size_t i = 0; rc == SQLITE_OK && i < n; i++) {
		sqlite3_bind_int64(q, 1, s->run);
		bind_event(q, &e[i]);
		sqlite3_step(q);
		rc = sqlite3_reset(q);
	}
	sqlite3_finalize(q);
	return end_change(s, rc);
}

static char *sink_end(void *self, const char *status, const char *reason)
{
	struct store *s = self;

	CHECK(s->run, "the end of no run");
	int rc = begin_change(s);
	if (rc == SQLITE_OK)
		rc = change(s,
			    "UPDATE run SET status = ?2, reason = ?3, "
			    "finished = strftime('%Y-%m-%dT%H:%M:%SZ', 'now') WHERE id = ?1",
			    "itt", s->run, status, reason);
	s->run = 0;
	return end_change(s, rc);
}

static char *sink_closing(void *self, const struct closing *c)
{
	struct store *s = self;
	const struct world_cost *cost = &c->cost;
	int rc = begin_change(s);
	if (rc == SQLITE_OK)
		rc = change(s, "UPDATE run SET model_hash = ?2 WHERE id = ?1", "it", s->run,
			    c->model_hash);
	if (rc == SQLITE_OK && c->simulated)
		rc = change(s,
			    "UPDATE run SET simulated_s = ?2, wall_s = ?3, events = ?4 WHERE id = "
			    "?1",
			    "irri", s->run, cost->simulated_s, cost->wall_s, cost->events);
	return end_change(s, rc);
}

struct sink store_sink(struct store *s)
{
	return (struct sink){
		.self = s,
		.begin = sink_begin,
		.epoch = sink_epoch,
		.arrivals = sink_arrivals,
		.events = sink_events,
		.closing = sink_closing,
		.end = sink_end,
	};
}

int64_t store_cell(struct store *s, const char *hash, char status[16], char reason[256])
{
	sqlite3_stmt *q;
	int64_t id = 0;

	status[0] = reason[0] = '\0';
	int rc = sqlite3_prepare_v2(s->db,
				    "SELECT id, status, ifnull(reason, '') FROM run "
				    "WHERE config_hash = ?1 ORDER BY id DESC LIMIT 1",
				    -1, &q, NULL);
	if (rc != SQLITE_OK)
		return 0;
	sqlite3_bind_text(q, 1, hash, -1, SQLITE_TRANSIENT);
	if (sqlite3_step(q) == SQLITE_ROW) {
		id = sqlite3_column_int64(q, 0);
		snprintf(status, 16, "%s", (const char *)sqlite3_column_text(q, 1));
		snprintf(reason, 256, "%s", (const char *)sqlite3_column_text(q, 2));
	}
	sqlite3_finalize(q);
	return id;
}

char *store_pend(struct store *s, const struct config *c)
{
	int64_t id = 0;
	int rc = begin_change(s);

	if (rc == SQLITE_OK)
		rc = insert_run(s, c, NULL, &id);
	return end_change(s, rc);
}

char *store_fail(struct store *s, int64_t id, const char *reason)
{
	int rc = begin_change(s);

	if (rc == SQLITE_OK)
		rc = mark_failed(s, id, reason);
	return end_change(s, rc);
}
