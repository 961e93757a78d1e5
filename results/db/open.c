/*
 * open.c - the results database: one SQLite file, in WAL mode, one transaction for each epoch.
 *
 * A process that is killed leaves a readable file and a `running` row. The next process that opens
 * the file to write finds that the process is gone, and marks the row `failed`.
 */
#include "results/db/store.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
	OPEN_WAIT_S = 3, /* for another process's lock, unless store_open_for opens the file */
	GOES_ON_STEPS = 1000000 /* of SQLite's virtual machine, from one poll to the next */
};

/* ---- Sentences ----------------------------------------------------------- */

#define LOCKED \
	" is locked by another process: wait until that one is done, or end it (an sqlite3 shell " \
	"inside a transaction, for instance)"

/* What is wrong with the file, by SQLite's code; the path is put before. */
static const struct {
	int code;
	const char *says;
} errors[] = {
	{SQLITE_BUSY, LOCKED},
	{SQLITE_LOCKED, LOCKED},
	{SQLITE_FULL, " cannot grow, the disk is full: make room and start the run again; earlier "
		      "results are kept"},
	{SQLITE_READONLY, " cannot be written: make it and its folder writable, or name another "
			  "file with --db"},
	{SQLITE_NOTADB, " is not a results database: name another file with --db"},
	{SQLITE_CORRUPT, " is damaged: save what can be read with `sqlite3 FILE .recover`, or name "
			 "another file with --db"},
	{SQLITE_CANTOPEN, " cannot be opened: check the permissions of the file and its folder, or "
			  "name another file with --db"},
};

char *database_error(const struct store *s, int rc)
{
	int code = rc & 0xff, error = code == SQLITE_IOERR ? sqlite3_system_errno(s->db) : 0;
	code = error == ENOSPC ? SQLITE_FULL : code;
	for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
		if (errors[i].code == code)
			return sentence("%s%s", s->path, errors[i].says);
	if (code == SQLITE_INTERRUPT)
		return s->until ? sentence(QUERY_ENDED, s->path, database_patience_s())
				: sentence("%s: the query was interrupted", s->path);
	if (code == SQLITE_IOERR)
		return sentence("%s: reading or writing failed (%s): check the disk, or name "
				"another file with --db",
				s->path, strerror(error ? error : EIO));
	if (rc == SQLITE_CONSTRAINT_FOREIGNKEY)
		return sentence("%s: the row of this run was deleted while it ran", s->path);
	return sentence("%s: the database refused: %s", s->path, sqlite3_errmsg(s->db));
}

/* ---- The file at a path ---------------------------------------------------- */

static char *folder_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	if (!slash)
		return must(strdup("."));
	return must(slash == path ? strdup("/") : strndup(path, (size_t)(slash - path)));
}

static char *check_folder(const char *path)
{
	char *folder AUTOFREE = folder_of(path);
	struct stat st;
	if (stat(folder, &st) != 0)
		return sentence("%s cannot be made, its folder %s is not there: make the folder, "
				"or name another file with --db",
				path, folder);
	if (!S_ISDIR(st.st_mode))
		return sentence("%s cannot be made, %s is not a folder: name another file with "
				"--db",
				path, folder);
	if (access(folder, W_OK | X_OK) != 0)
		return sentence("%s cannot be written, its folder %s is not writable (%s): name "
				"another file with --db",
				path, folder, strerror(errno));
	return NULL;
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

static int64_t big_endian(const unsigned char *p)
{
	return (int64_t)p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3];
}

/* Reads the first bytes of the file, because SQLite would leave files next to it even when it only
 * reads. */
static char *check_header(const char *path)
{
	unsigned char h[100];
	FILE *f = fopen(path, "rb");
	if (!f)
		return sentence(
			"%s cannot be read (%s): check its permissions, or name another file with "
			"--db",
			path, strerror(errno));
	size_t n = fread(h, 1, sizeof(h), f);
	fclose(f);
	if (n == 0)
		return NULL;
	if (n < sizeof(h) || memcmp(h, "SQLite format 3", 16) != 0)
		return sentence("%s is not a results database: name another file with --db", path);
	return store_check_version(path, big_endian(h + 68), big_endian(h + 60),
				   big_endian(h + 28) > 1);
}

char *store_probe(const char *path)
{
	struct stat st;
	if (stat(path, &st) != 0)
		return sentence("%s cannot be read (%s): name another database", path,
				strerror(errno));
	TRY(not_a_file(path, &st));
	if (st.st_size == 0)
		return sentence("%s is empty: name another database", path);
	return check_header(path);
}

/* SQLite would delete what is left of another database before it makes one at this path. */
static char *nothing_left(const char *path)
{
	char *left AUTOFREE = sentence("%s-wal", path);
	struct stat st;
	return stat(left, &st) == 0 && st.st_size > 0
		       ? sentence("%s is not there, but %s has results of a database that was "
				  "moved or removed: give it the name of that database again, with "
				  "-wal, or remove it",
				  path, left)
		       : NULL;
}

char *store_check(const char *path)
{
	struct stat st;
	if (*path == '\0')
		return sentence("--db=: give the name of a file, as in --db=" DATABASE);
	if (stat(path, &st) != 0) {
		int why = errno;
		TRY(check_folder(path));
		return why == ENOENT ? nothing_left(path)
				     : sentence("%s cannot be opened (%s): name another file with "
						"--db",
						path, strerror(why));
	}
	TRY(not_a_file(path, &st));
	if (access(path, W_OK) != 0)
		return sentence("%s cannot be written (%s): change its permissions, or name "
				"another file with --db",
				path, strerror(errno));
	TRY(check_header(path));
	return check_folder(path);
}

/* ---- Opening --------------------------------------------------------------- */

/* Called by SQLite while another process has a lock. waits: how often before, for this lock.
 * Returns 0 to give up. */
static int wait_for_lock(void *self, int waits)
{
	enum { POLL_MS = 20 };
	struct store *s = self;
	struct timespec now; /* not clock_now, which stands still in a simulation */
	clock_gettime(CLOCK_MONOTONIC, &now);
	if (waits == 0)
		s->lock_since = now;
	double waited = (double)(now.tv_sec - s->lock_since.tv_sec) +
			1e-9 * (double)(now.tv_nsec - s->lock_since.tv_nsec);
	double most = fmax(s->lock_wait_s, OPEN_WAIT_S);
	if (end_is_requested()) /* what a run has is still recorded if the lock is a short one */
		most = s->run ? OPEN_WAIT_S : 0;
	if (waited >= most)
		return 0;
	if (waited > OPEN_WAIT_S && !s->said_lock) {
		fprintf(stderr, "mvbench: %s is locked by another process: waiting ", s->path);
		if (isinf(most))
			fputs("until it is free (--stall-timeout=0)\n", stderr);
		else
			fprintf(stderr, "for up to %.0f s\n", most);
		s->said_lock = true;
	}
	sqlite3_sleep(POLL_MS);
	return 1;
}

/* The file becomes WAL only after its schema is in it: check_header reads that from the file. */
static char *use_wal(struct store *s)
{
	int rc, waits = 0;
	/* SQLite does not wait here for another process that is just opening the file. */
	do
		rc = sqlite3_exec(s->db, "PRAGMA journal_mode = WAL", NULL, NULL, NULL);
	while (rc == SQLITE_BUSY && wait_for_lock(s, waits++));
	return rc == SQLITE_OK ? NULL : database_error(s, rc);
}

static char *prepare_write(struct store *s)
{
	int64_t version = 0;
	bool whole = false, tables = false;
	TRY(store_version(s, &version, &whole, &tables));
	if (!whole)
		TRY(store_migrate(s));
	TRY(use_wal(s));
	TRY(runs_mark_failed(s));
	return store_keep(s);
}

/* SQLite's name for the file: never a special name, such as ":memory:". */
static char *plain_name(const char *path)
{
	return sentence("%s%s", *path == '/' ? "" : "./", path);
}

/* The name as a URI that promises that the file does not change. It is for read-only media, where
 * SQLite cannot make the files that WAL mode needs next to a database. */
static char *immutable_name(const char *path)
{
	char *plain AUTOFREE = plain_name(path), *uri = must(malloc(3 * strlen(plain) + 32)),
		    *p = uri;
	p += sprintf(p, "file:");
	for (const char *c = plain; *c; c++)
		p += sprintf(p, strchr("%?#", *c) ? "%%%02X" : "%c", (unsigned char)*c);
	sprintf(p, "?immutable=1");
	return uri;
}

/* Interrupts a long query when the process is told to end, although signals wait for a run's end,
 * and at its time limit. */
static int must_stop(void *self)
{
	const struct store *s = self;
	return end_is_requested() || (s->until && clock_now() > s->until);
}

/* The SQL in a file is not trusted: anyone can have written it. Views and triggers are those of
 * this program, word for word (migrate.c). SQLite's own switch for them would refuse the JSON
 * functions in them. */
int database_open(struct store *s, int flags, const char *name)
{
	int rc = sqlite3_open_v2(name, &s->db, flags, NULL);
	if (rc != SQLITE_OK)
		return rc;
	sqlite3_extended_result_codes(s->db, 1);
	sqlite3_db_config(s->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_limit(s->db, SQLITE_LIMIT_LENGTH, 1 << 28);
	sqlite3_progress_handler(s->db, GOES_ON_STEPS, must_stop, s);
	sqlite3_busy_handler(s->db, wait_for_lock, s);
	/* This is the first access: opening alone reads nothing. */
	return sqlite3_exec(s->db,
			    "PRAGMA foreign_keys = ON; PRAGMA synchronous = NORMAL;"
			    "SELECT count(*) FROM sqlite_master",
			    NULL, NULL, NULL);
}

/* A reader may write only what is temporary. */
static int only_temporary(void *ctx, int action, const char *a, const char *b, const char *database,
			  const char *trigger)
{
	bool asks = action == SQLITE_PRAGMA &&
		    (!b || strcmp(a, "table_info") == 0 || strcmp(a, "temp_store") == 0 ||
		     strcmp(a, "cache_size") == 0);
	bool reads = asks || action == SQLITE_SELECT || action == SQLITE_READ ||
		     action == SQLITE_FUNCTION || action == SQLITE_RECURSIVE ||
		     action == SQLITE_TRANSACTION || action == SQLITE_SAVEPOINT;
	/* table-valued functions need this; DEFENSIVE keeps users from writing to sqlite_master */
	bool schema = a && strcmp(a, "sqlite_master") == 0;
	if (action == SQLITE_ALTER_TABLE)
		database = a;
	(void)ctx, (void)trigger;
	return reads || schema || (database && strcmp(database, "temp") == 0) ? SQLITE_OK
									      : SQLITE_DENY;
}

/* Opens the file for writing where it may; it can then remove the files that SQLite keeps next to
 * an open database. */
static int open_reader(struct store *s)
{
	bool writable = access(s->path, W_OK) == 0;
	char *name AUTOFREE = plain_name(s->path);
	int rc = database_open(s, writable ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY, name);
	if (rc == SQLITE_OK)
		sqlite3_set_authorizer(s->db, only_temporary, NULL);
	return rc;
}

/* Migrates in memory a file that is read-only, and that is older or has other views. */
static char *bring_up_in_memory(struct store *s)
{
	sqlite3 *from = s->db;
	int rc = database_open(s, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, ":memory:");
	if (rc == SQLITE_OK)
		rc = database_backup(from, s->db);
	sqlite3_close(from);
	char *wrong = rc == SQLITE_OK ? store_migrate(s) : database_error(s, rc);
	sqlite3_set_authorizer(s->db, only_temporary, NULL);
	return wrong;
}

/* SQLite reads a file in a folder that may not be written only as it is, without what lies next to
 * it: results of the last transactions, or the old pages of one that was interrupted. */
static char *nothing_apart(const char *path)
{
	static const char *const ending[] = {"-wal", "-journal"};
	char *real AUTOFREE = realpath(path, NULL); /* SQLite follows links, too */
	struct stat st;
	for (size_t i = 0; i < sizeof ending / sizeof *ending; i++) {
		char *apart AUTOFREE = sentence("%s%s", real ? real : path, ending[i]);
		if (stat(apart, &st) == 0 && st.st_size > 0)
			return sentence(
				"%s: a part of its results is in %s, which can be read only "
				"where the folder may be written: copy both to a folder of "
				"your own",
				path, apart);
	}
	return NULL;
}

static char *open_read(struct store *s)
{
	struct stat st;
	int64_t version = 0;
	bool whole = false, tables = false;
	if (stat(s->path, &st) != 0)
		return sentence("there is no results database %s: record one with `mvbench run "
				"--db=%s`, or name another file with --db",
				s->path, s->path);
	TRY(not_a_file(s->path, &st));
	int rc = open_reader(s);
	if ((rc & 0xff) == SQLITE_CANTOPEN || (rc & 0xff) == SQLITE_READONLY) {
		sqlite3_close(s->db);
		s->db = NULL;
		TRY(nothing_apart(s->path));
		char *name AUTOFREE = immutable_name(s->path);
		rc = database_open(s, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, name);
	}
	if (rc != SQLITE_OK)
		return database_error(s, rc);
	TRY(store_version(s, &version, &whole, &tables));
	if (!tables)
		return sentence("%s is empty: record something with `mvbench run --db=%s`", s->path,
				s->path);
	if (whole)
		return NULL;

	if (access(s->path, W_OK) != 0)
		return bring_up_in_memory(s);
	sqlite3_close(s->db);
	s->db = NULL;
	TRY(store_begin(s));
	sqlite3_close(s->db);
	rc = open_reader(s);
	return rc == SQLITE_OK ? NULL : database_error(s, rc);
}

char *store_begin(struct store *s)
{
	struct stat st;
	if (s->db)
		return NULL;
	TRY(store_check(s->path));
	if (!s->makes && access(s->path, F_OK) != 0)
		return sentence("%s was moved or removed: nothing is recorded in another file in "
				"its place",
				s->path);
	int fd = s->makes ? open(s->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644) : -1;
	bool made = fd >= 0;
	if (made)
		close(fd);
	char *name AUTOFREE = plain_name(s->path);
	int rc =
		database_open(s, SQLITE_OPEN_READWRITE | (s->makes ? SQLITE_OPEN_CREATE : 0), name);
	char *wrong = rc == SQLITE_OK ? prepare_write(s) : database_error(s, rc);
	if (!wrong)
		return NULL;
	bool locked = (sqlite3_errcode(s->db) & 0xff) == SQLITE_BUSY;
	sqlite3_close(s->db);
	s->db = NULL;
	/* remove the file that this process made and could not fill, unless another process has */
	if (made && !locked && stat(s->path, &st) == 0 && st.st_size == 0)
		database_remove(s->path);
	return wrong;
}

static char *open_store(struct store **out, const char *path, enum store_mode mode, double wait_s)
{
	struct store *s = must(calloc(1, sizeof(*s)));
	s->path = must(strdup(path));
	s->lock_wait_s = wait_s;
	s->makes = mode == STORE_WRITE || mode == STORE_LATER;
	char *wrong = mode == STORE_READ    ? open_read(s)
		      : mode == STORE_LATER ? NULL
					    : store_begin(s);
	*out = wrong ? NULL : s;
	if (wrong)
		store_close(s);
	return wrong;
}

char *store_open(struct store **out, const char *path, enum store_mode mode)
{
	return open_store(out, path, mode, 0);
}

/* Gives up before the run's watcher would end it, because this message is the better one. */
static double lock_wait_of(const struct config *c)
{
	double timeout = c->harness.stall_timeout;
	return timeout > 0 ? 0.9 * timeout : INFINITY;
}

char *store_open_for(struct store **out, const struct config *c, enum store_mode mode)
{
	return open_store(out, c->harness.db, mode, lock_wait_of(c));
}

void store_part(struct store *s)
{
	int moved = 0, keep = 1;
	sqlite3_file_control(s->db, "main", SQLITE_FCNTL_HAS_MOVED, &moved);
	if (!moved)
		return;
	sqlite3_file_control(s->db, "main", SQLITE_FCNTL_PERSIST_WAL, &keep);
	sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
}

void store_close(struct store *s)
{
	if (!s)
		return;
	heartbeat_stop(s);
	if (s->db)
		store_part(s);
	sqlite3_close(s->db);
	free(s->path);
	free(s);
}
