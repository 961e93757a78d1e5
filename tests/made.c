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

static struct store *store_in(const char *file, enum store_mode mode)
{
	struct store *s;
	char *path = in_folder(file), *wrong = store_open(&s, path, mode);
	ck_assert_msg(!wrong, "%s", wrong);
	free(path);
	return s;
}

void new_database(const char *file)
{
	store_close(store_in(file, STORE_WRITE));
}

void sql_in(const char *file, const char *text)
{
	char *path = in_folder(file), *wrong = NULL;
	sqlite3 *db;
	ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
	sqlite3_exec(db, text, NULL, NULL, &wrong);
	ck_assert_msg(!wrong, "%s: %s", text, wrong);
	sqlite3_close(db);
	free(path);
}

double number_in(const char *file, const char *query)
{
	struct store *s = store_in(file, STORE_READ);
	double x;
	char *wrong = sql_reals(s, &x, 1, query, "");
	ck_assert_msg(!wrong, "%s: %s", query, wrong);
	store_close(s);
	return x;
}

void expect_in(const char *file, const char *query, const char *want)
{
	char *path = in_folder(file);
	sqlite3 *db;
	sqlite3_stmt *q;
	ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
	ck_assert_msg(sqlite3_prepare_v2(db, query, -1, &q, NULL) == SQLITE_OK, "%s: %s", query,
		      sqlite3_errmsg(db));
	ck_assert_int_eq(sqlite3_step(q), SQLITE_ROW);
	const char *got = (const char *)sqlite3_column_text(q, 0);
	ck_assert_msg(got && strcmp(got, want) == 0, "%s: wanted %s, got %s", query, want, got);
	sqlite3_finalize(q);
	sqlite3_close(db);
	free(path);
}

void near(double x, double want, double within)
{
	ck_assert_msg(fabs(x - want) <= within, "%.10g is not within %g of %.10g", x, within, want);
}
