/*
 * sql.c - what the files of `mvbench check` still use beside results/db/sql.c.
 */
#include "results/gate/gate.h"

#include <math.h>
#include <stdarg.h>

char *gate_query(struct store *s, sqlite3_stmt **q, const char *sql, const char *types, ...)
{
	va_list args;
	int rc = sqlite3_prepare_v2(s->db, sql, -1, q, NULL);

	if (rc != SQLITE_OK)
		return database_error(s, rc);
	va_start(args, types);
	for (int i = 1; *types; i++, types++) {
		if (*types == 'i') {
			sqlite3_bind_int64(*q, i, va_arg(args, int64_t));
		} else if (*types == 'r') {
			double x = va_arg(args, double);
			if (isfinite(x))
				sqlite3_bind_double(*q, i, x);
		} else {
			sqlite3_bind_text(*q, i, va_arg(args, const char *), -1, SQLITE_TRANSIENT);
		}
	}
	va_end(args);
	return NULL;
}

char *gate_step(struct store *s, sqlite3_stmt *q, bool *row)
{
	int rc = sqlite3_step(q);

	*row = rc == SQLITE_ROW;
	return rc == SQLITE_ROW || rc == SQLITE_DONE ? NULL : database_error(s, rc);
}

const char *gate_text(sqlite3_stmt *q, int column)
{
	const char *text = (const char *)sqlite3_column_text(q, column);

	return text ? text : "";
}
