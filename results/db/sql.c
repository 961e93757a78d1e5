/*
 * sql.c - statements: prepared, bound, stepped. A statement keeps its error until sql_done returns
 * it as a sentence. No layer above this one calls SQLite.
 */
#include "results/db/db.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

TEXT_FILE(median_sql, "results/db/median.sql");

char *sql_medians(const char *sql)
{
	return text_replaced(sql, "/* MEDIANS */", median_sql);
}

static void bind(sqlite3_stmt *q, int i, const char *types, va_list args)
{
	for (; *types; i++, types++) {
		if (*types == 'i') {
			sqlite3_bind_int64(q, i, va_arg(args, int64_t));
		} else if (*types == 'n') {
			int64_t n = va_arg(args, int64_t);
			n >= 0 ? sqlite3_bind_int64(q, i, n) : sqlite3_bind_null(q, i);
		} else if (*types == 'r') {
			double x = va_arg(args, double);
			isfinite(x) ? sqlite3_bind_double(q, i, x) : sqlite3_bind_null(q, i);
		} else {
			sqlite3_bind_text(q, i, va_arg(args, const char *), -1, SQLITE_TRANSIENT);
		}
	}
}

static struct sql select_with(struct store *s, const char *sql, const char *types, va_list args)
{
	struct sql q = {.store = s};
	char *whole AUTOFREE = sql_medians(sql);
	q.rc = sqlite3_prepare_v2(s->db, whole, -1, &q.stmt, NULL);
	if (q.rc == SQLITE_OK)
		bind(q.stmt, 1, types, args);
	return q;
}

/* Prepares a statement with the parameters that follow `types`. */
#define SELECT_WITH(q, s, sql, types) \
	va_list args; \
	va_start(args, types); \
	struct sql q = select_with(s, sql, types, args); \
	va_end(args)

struct sql sql_select(struct store *s, const char *sql, const char *types, ...)
{
	SELECT_WITH(q, s, sql, types);
	return q;
}

bool sql_well(const struct sql *q)
{
	return q->rc == SQLITE_OK || q->rc == SQLITE_DONE || q->rc == SQLITE_ROW;
}

void sql_set(struct sql *q, int parameter, const char *types, ...)
{
	va_list args;
	if (!sql_well(q))
		return;
	q->rc = sqlite3_reset(q->stmt);
	va_start(args, types);
	bind(q->stmt, parameter, types, args);
	va_end(args);
}

int sql_parameter(const struct sql *q, const char *name)
{
	return sqlite3_bind_parameter_index(q->stmt, name);
}

bool sql_next(struct sql *q)
{
	if (q->rc == SQLITE_OK || q->rc == SQLITE_ROW)
		q->rc = sqlite3_step(q->stmt);
	return q->rc == SQLITE_ROW;
}

char *sql_done(struct sql *q)
{
	char *wrong = sql_well(q) ? NULL : database_error(q->store, q->rc);
	sqlite3_finalize(q->stmt);
	*q = (struct sql){.rc = SQLITE_DONE};
	return wrong;
}

int64_t sql_int(const struct sql *q, int column)
{
	return sqlite3_column_int64(q->stmt, column);
}

double sql_real(const struct sql *q, int column)
{
	int type = sqlite3_column_type(q->stmt, column);
	bool number = type == SQLITE_INTEGER || type == SQLITE_FLOAT;
	return number ? sqlite3_column_double(q->stmt, column) : NAN;
}

const char *sql_text(const struct sql *q, int column)
{
	const char *text = (const char *)sqlite3_column_text(q->stmt, column);
	return text ? text : "";
}

char *sql_copy(const struct sql *q, int column)
{
	return must(strdup(sql_text(q, column)));
}

bool sql_null(const struct sql *q, int column)
{
	return sqlite3_column_type(q->stmt, column) == SQLITE_NULL;
}

int sql_columns(const struct sql *q)
{
	return q->stmt ? sqlite3_column_count(q->stmt) : 0;
}

const char *sql_name(const struct sql *q, int column)
{
	return sqlite3_column_name(q->stmt, column);
}

struct sql sql_part(struct store *s, const char **sql)
{
	struct sql q = {.store = s};
	do
		q.rc = sqlite3_prepare_v2(s->db, *sql, -1, &q.stmt, sql);
	while (q.rc == SQLITE_OK && !q.stmt && **sql);
	return q;
}

char *sql_change(struct store *s, const char *sql, const char *types, ...)
{
	char *all AUTOFREE = sql_medians(sql), *wrong = NULL;
	for (const char *rest = all; *rest && !wrong;) {
		struct sql q = sql_part(s, &rest);
		va_list args;
		va_start(args, types);
		if (q.stmt)
			bind(q.stmt, 1, types, args);
		va_end(args);
		while (q.stmt && sql_next(&q))
			;
		wrong = sql_done(&q);
	}
	return wrong;
}

char *sql_number(struct store *s, int64_t *x, const char *sql, const char *types, ...)
{
	SELECT_WITH(q, s, sql, types);
	*x = sql_next(&q) ? sql_int(&q, 0) : 0;
	return sql_done(&q);
}

char *sql_reals(struct store *s, double *x, int n, const char *sql, const char *types, ...)
{
	SELECT_WITH(q, s, sql, types);
	bool row = sql_next(&q);
	for (int i = 0; i < n; i++)
		x[i] = row ? sql_real(&q, i) : NAN;
	return sql_done(&q);
}

char *sql_first(struct store *s, char **text, const char *sql, const char *types, ...)
{
	SELECT_WITH(q, s, sql, types);
	*text = sql_next(&q) && !sql_null(&q, 0) ? sql_copy(&q, 0) : NULL;
	return sql_done(&q);
}

char *sql_script(struct store *s, const char *sql)
{
	return sql_change(s, sql, "");
}

char *sql_begin(struct store *s)
{
	return sql_script(s, "BEGIN IMMEDIATE");
}

char *sql_end(struct store *s, char *wrong)
{
	if (!wrong)
		wrong = sql_script(s, "COMMIT");
	if (!sqlite3_get_autocommit(s->db))
		sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
	return wrong;
}

struct store *sql_memory(void)
{
	struct store *s = must(calloc(1, sizeof *s));
	s->path = must(strdup("a database in memory"));
	CHECK(sqlite3_open(":memory:", &s->db) == SQLITE_OK, "no memory for a database");
	return s;
}

void sql_forget(struct store **s)
{
	sqlite3_close((*s)->db);
	free((*s)->path);
	free(*s);
}

bool sql_is_text(const struct sql *q, int column)
{
	return sqlite3_column_type(q->stmt, column) == SQLITE_TEXT;
}

const char *sql_refused(const struct sql *q)
{
	return sql_well(q) ? NULL : sqlite3_errmsg(q->store->db);
}
