/*
 * files.c - copies and removes whole databases.
 */
#include "results/db/store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int database_backup(sqlite3 *from, sqlite3 *to)
{
	sqlite3_backup *b = sqlite3_backup_init(to, "main", from, "main");
	int rc = b ? sqlite3_backup_step(b, -1) : sqlite3_errcode(to);
	sqlite3_backup_finish(b);
	return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* The change would run the file's triggers. They are trusted only if all of them are this
 * program's. */
static char *forget_processes(struct store *s)
{
	int64_t version;
	bool whole, tables;
	char *drop AUTOFREE = NULL;
	TRY(store_version(s, &version, &whole, &tables));
	if (!whole)
		TRY(sql_first(s, &drop,
			      "SELECT group_concat(printf('DROP TRIGGER \"%w\"', name), ';') "
			      "FROM sqlite_master WHERE type = 'trigger'",
			      ""));
	if (drop)
		TRY(sql_script(s, drop));
	return sql_script(s, "UPDATE run SET pid = NULL WHERE status = 'running'");
}

char *database_copy(const char *from, const char *to)
{
	struct store in = {.path = (char *)(uintptr_t)from}, out = {.path = (char *)(uintptr_t)to};
	int rc = sqlite3_open_v2(from, &in.db, SQLITE_OPEN_READONLY, NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_busy_timeout(in.db, 3000);
	if (rc == SQLITE_OK)
		rc = database_open(&out, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, to);
	if (rc == SQLITE_OK)
		rc = database_backup(in.db, out.db);
	bool full = out.db && ((rc & 0xff) == SQLITE_FULL || (rc & 0xff) == SQLITE_IOERR);
	char *wrong = full ? sentence("%s: there is no room for a copy of %s: free some space, or "
				      "set TMPDIR to a folder that has it",
				      to, from)
		      : rc != SQLITE_OK ? database_error(&in, rc)
					: NULL;
	if (!wrong)
		free(forget_processes(&out)); /* store_open says what is wrong with such a file */
	sqlite3_close(in.db);
	sqlite3_close(out.db);
	return wrong;
}

void database_remove(const char *path)
{
	static const char *const ending[] = {"", "-wal", "-shm", "-journal"};
	for (size_t i = 0; i < sizeof ending / sizeof *ending; i++) {
		char *file AUTOFREE = sentence("%s%s", path, ending[i]);
		unlink(file);
	}
}
