/*
 * open.c - the results database: one SQLite file, in WAL mode, one transaction for each epoch.
 *
 * A process that is killed leaves a readable file and a `running` row. The next process that opens
 * the file to write finds that the process is gone, and marks the row `failed`.
 */
#include "results/db/store.h"
#include "runtime/config/config.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- The file at a path ---------------------------------------------------- */

static char *folder_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	if (!slash)
		return must(strdup("."));
	return must(slash == path ? strdup("/") : strndup(path, (size_t)(slash - path)));
}

static char *open_check_folder(const char *path)
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

/* The name of the file that links lead to, next to which SQLite keeps the others. Heap. */
static char *real_name(const char *path)
{
	char real[PATH_MAX] = "";
	/* the C library also gives the name of a file that is not there */
	bool found = realpath(path, real) || errno == ENOENT;
	return must(strdup(found && *real ? real : path));
}

/* SQLite would delete what is left of another database when it makes one at this path, or reads an
 * empty file there. */
static char *nothing_left(const char *path)
{
	char *real AUTOFREE = real_name(path), *left AUTOFREE = sentence("%s-wal", real);
	struct stat log, st;
	if (stat(left, &log) != 0 || log.st_size == 0)
		return NULL;
	bool there = stat(path, &st) == 0;
	if (there && st.st_size > 0) /* another process has just made it */
		return NULL;
	return sentence("%s is %s, but %s has results of a database that was moved or removed: "
			"give it the name of that database again, with -wal, or remove it",
			path, there ? "empty" : "not there", left);
}

char *store_check(const char *path)
{
	struct stat st;
	if (*path == '\0')
		return sentence("--db=: give the name of a file, as in --db=" DATABASE);
	if (stat(path, &st) != 0) {
		int why = errno;
		TRY(open_check_folder(path));
		return why == ENOENT ? nothing_left(path)
				     : sentence("%s cannot be opened (%s): name another file with "
						"--db",
						path, strerror(why));
	}
	TRY(not_a_file(path, &st));
	if (st.st_size == 0)
		TRY(nothing_left(path));
	if (access(path, W_OK) != 0)
		return sentence("%s cannot be written (%s): change its permissions, or name "
				"another file with --db",
				path, strerror(errno));
	TRY(check_header(path));
	return open_check_folder(path);
}

/* ---- Opening --------------------------------------------------------------- */

/* The file becomes WAL only after its schema is in it: check_header reads that from the file. */
static char *use_wal(struct store *s)
{
	int rc, waits = 0;
	/* SQLite does not wait here for another process that is just opening the file. */
	do
		rc = sqlite3_exec(s->db, "PRAGMA journal_mode = WAL", NULL, NULL, NULL);
	while (rc == SQLITE_BUSY && database_wait(s, waits++));
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
	char *real AUTOFREE = real_name(path);
	struct stat st;
	for (size_t i = 0; i < sizeof ending / sizeof *ending; i++) {
		char *apart AUTOFREE = sentence("%s%s", real, ending[i]);
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
	if (st.st_size == 0)
		TRY(nothing_left(s->path));
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
