/*
 * made.c - databases that a test makes with its own SQL.
 */
#include "tests/made.h"
#include "results/db/db.h"
#include "tests/fixture.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

char *in_folder(const char *name)
{
	return sentence("%s/%s", folder, name);
}

void new_database(const char *file)
{
	struct store *s;
	char *path AUTOFREE = in_folder(file), *wrong = store_open(&s, path, STORE_WRITE);
	ck_assert_msg(!wrong, "%s", wrong);
	store_close(s);
}

sqlite3 *made_again(const char *file)
{
	char *path AUTOFREE = in_folder(file);
	sqlite3 *db;
	ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
	sqlite3_busy_timeout(db, 5000); /* runs may write to it */
	return db;
}

sqlite3 *made_open(const char *file)
{
	new_database(file);
	return made_again(file);
}

void made_sql(sqlite3 *db, const char *text)
{
	char *wrong = NULL;
	sqlite3_exec(db, text, NULL, NULL, &wrong);
	ck_assert_msg(!wrong, "%s: %.2000s", wrong, text);
}

void made_format(sqlite3 *db, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	char *text = sqlite3_vmprintf(format, args);
	va_end(args);
	made_sql(db, text);
	sqlite3_free(text);
}

static sqlite3_stmt *prepared(sqlite3 *db, const char *query)
{
	sqlite3_stmt *q;
	ck_assert_msg(sqlite3_prepare_v2(db, query, -1, &q, NULL) == SQLITE_OK, "%s: %s", query,
		      sqlite3_errmsg(db));
	return q;
}

static bool stepped(sqlite3 *db, sqlite3_stmt *q)
{
	int rc = sqlite3_step(q);
	ck_assert_msg(rc == SQLITE_ROW || rc == SQLITE_DONE, "%s: %s", sqlite3_sql(q),
		      sqlite3_errmsg(db));
	return rc == SQLITE_ROW;
}

double made_number(sqlite3 *db, const char *query)
{
	sqlite3_stmt *q = prepared(db, query);
	bool is = stepped(db, q) && sqlite3_column_type(q, 0) != SQLITE_NULL;
	double x = is ? sqlite3_column_double(q, 0) : NAN;
	sqlite3_finalize(q);
	return x;
}

char *made_rows(sqlite3 *db, const char *query)
{
	sqlite3_stmt *q = prepared(db, query);
	struct text t;
	FILE *f = text_open(&t);
	for (int n = 0; stepped(db, q); n++)
		for (int i = 0; i < sqlite3_column_count(q); i++) {
			const char *cell = (const char *)sqlite3_column_text(q, i);
			fprintf(f, "%s%s", i ? "," : n ? ";" : "", cell ? cell : "null");
		}
	sqlite3_finalize(q);
	return text_close(&t);
}

void made_expect(sqlite3 *db, const char *query, const char *want)
{
	char *got AUTOFREE = made_rows(db, query);
	ck_assert_msg(strcmp(got, want) == 0, "%s\ngave %s\nnot  %s", query, got, want);
}

void sql_in(const char *file, const char *text)
{
	sqlite3 *db = made_again(file);
	made_sql(db, text);
	sqlite3_close(db);
}

double number_in(const char *file, const char *query)
{
	sqlite3 *db = made_again(file);
	double x = made_number(db, query);
	sqlite3_close(db);
	return x;
}

void expect_in(const char *file, const char *query, const char *want)
{
	sqlite3 *db = made_again(file);
	made_expect(db, query, want);
	sqlite3_close(db);
}

void near(double x, double want, double within)
{
	ck_assert_msg(fabs(x - want) <= within, "%.10g is not within %g of %.10g", x, within, want);
}

void ck_near(const char *what, double x, double want, double within)
{
	ck_assert_msg(fabs(x - want) <= within, "%s: %.9g, wanted %.9g within %.2g", what, x, want,
		      within);
}
