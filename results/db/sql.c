/*
 * sql.c - statements: prepared, bound, stepped, and
 * what goes wrong as a sentence.
 */
#include "results/db/db.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

static void bind(sqlite3_stmt *q, const char *types, va_list args)
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

static char *prepare(struct store *s, sqlite3_stmt **q, const char *sql, const char *types,
		     va_list args)
{
	int rc = sqlite3_prepare_v2(s->db, sql, -1, q, NULL);

	if (rc != SQLITE_OK)
		return database_error(s, rc);
	bind(*q, types, args);
	return NULL;
}

char *sql_query(struct store *s, sqlite3_stmt **q, const char *sql, const char *types, ...)
{
	va_list args;

	va_start(args, types);
	char *wrong = prepare(s, q, sql, types, args);
	va_end(args);
	return wrong;
}

char *sql_step(struct store *s, sqlite3_stmt *q, bool *row)
{
	int rc = sqlite3_step(q);

	*row = rc == SQLITE_ROW;
	return rc == SQLITE_ROW || rc == SQLITE_DONE ? NULL : database_error(s, rc);
}

char *sql_change(struct store *s, const char *sql, const char *types, ...)
{
	sqlite3_stmt *q = NULL;
	va_list args;
	bool row;

	va_start(args, types);
	char *wrong = prepare(s, &q, sql, types, args);
	va_end(args);
	if (!wrong)
		wrong = sql_step(s, q, &row);
	sqlite3_finalize(q);
	return wrong;
}

char *sql_number(struct store *s, int64_t *x, const char *sql, const char *types, ...)
{
	sqlite3_stmt *q = NULL;
	va_list args;
	bool row = false;

	va_start(args, types);
	char *wrong = prepare(s, &q, sql, types, args);
	va_end(args);
	if (!wrong)
		wrong = sql_step(s, q, &row);
	*x = row ? sqlite3_column_int64(q, 0) : 0;
	sqlite3_finalize(q);
	return wrong;
}

const char *sql_text(sqlite3_stmt *q, int column)
{
	const char *text = (const char *)sqlite3_column_text(q, column);

	return text ? text : "";
}

char *sql_begin(struct store *s)
{
	return sql_change(s, "BEGIN IMMEDIATE", "");
}

char *sql_end(struct store *s, char *wrong)
{
	if (!wrong)
		wrong = sql_change(s, "COMMIT", "");
	if (!sqlite3_get_autocommit(s->db))
		sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
	return wrong;
}
