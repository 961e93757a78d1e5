/*
 * check_sql.c - statements on the store: values and NULL in both directions, errors that are
 * reported once and change nothing; and the files that commands write.
 */
#include "results/db/db.h"
#include "tests/fixture.h"
#include "tests/made.h"
#include "tests/suites.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct store *s;

static void well(char *wrong)
{
	ck_assert_msg(!wrong, "%s", wrong);
}

static void open_memory(void)
{
	s = sql_memory();
	well(sql_script(s, "CREATE TABLE t (i INTEGER PRIMARY KEY, r REAL, x TEXT)"));
}

static void close_memory(void)
{
	store_close(s);
}

CASE("statements", .set_up = open_memory, .tear_down = close_memory);

TEST(sql_values_are_read_back_unchanged)
{
	int64_t n;
	double x[4];
	struct sql insert = sql_select(s, "INSERT INTO t (i, r, x) VALUES (?1, ?2, ?3)", "irt",
				       (int64_t)1, 0.1, "it's");
	ck_assert(!sql_next(&insert));
	sql_set(&insert, 1, "ir", (int64_t)2, NAN); /* ?3 keeps its value */
	ck_assert(!sql_next(&insert));
	sql_set(&insert, 1, "ir", INT64_MAX, 2.0);
	sql_set(&insert, sql_parameter(&insert, "?3"), "t", (char *)NULL);
	ck_assert(!sql_next(&insert) && sql_well(&insert));
	well(sql_done(&insert));
	struct sql q = sql_select(s, "SELECT i, r, x FROM t ORDER BY i", "");
	ck_assert_int_eq(sql_columns(&q), 3);
	ck_assert_str_eq(sql_name(&q, 2), "x");
	ck_assert(sql_next(&q) && sql_int(&q, 0) == 1 && sql_real(&q, 1) == 0.1);
	ck_assert(sql_next(&q) && isnan(sql_real(&q, 1)) && sql_null(&q, 1));
	ck_assert_str_eq(sql_text(&q, 2), "it's");
	ck_assert(isnan(sql_real(&q, 2)));
	ck_assert(sql_next(&q) && sql_int(&q, 0) == INT64_MAX && sql_null(&q, 2));
	ck_assert_str_eq(sql_text(&q, 2), "");
	ck_assert(!sql_next(&q) && !sql_next(&q));
	well(sql_done(&q));
	well(sql_reals(s, x, 4, "SELECT 1, 'a', NULL, r FROM t WHERE i = ?1", "i", (int64_t)1));
	ck_assert(x[0] == 1 && isnan(x[1]) && isnan(x[2]) && x[3] == 0.1);
	well(sql_reals(s, x, 1, "SELECT 1 FROM t WHERE i = 7", ""));
	ck_assert(isnan(x[0]));
	well(sql_number(s, &n, "SELECT i FROM t WHERE i = 7", ""));
	ck_assert_int_eq(n, 0);
	char *text = "not touched";
	well(sql_first(s, &text, "SELECT x FROM t WHERE i > ?1", "i", (int64_t)2));
	ck_assert_ptr_null(text);
	char *wrong AUTOFREE = sql_first(s, &text, "SELECT x FROM none", "");
	ck_assert_msg(wrong && strstr(wrong, "no such table"), "%s", wrong);
}

TEST(sql_errors_are_reported_and_rolled_back)
{
	int64_t n;
	well(sql_begin(s));
	well(sql_change(s, "INSERT INTO t (i) VALUES (1)", ""));
	struct sql q = sql_select(s, "INSERT INTO t (i) VALUES (?1)", "i", (int64_t)1);
	ck_assert(!sql_next(&q) && !sql_well(&q));
	sql_again(&q, "i", (int64_t)2); /* no effect after an error */
	ck_assert(!sql_next(&q));
	char *wrong = sql_end(s, sql_done(&q));
	ck_assert_msg(wrong && strstr(wrong, "UNIQUE"), "%s", wrong);
	free(wrong);
	well(sql_number(s, &n, "SELECT count(*) FROM t", ""));
	ck_assert_int_eq(n, 0);
	q = sql_select(s, "SELECT a FROM nowhere", "i", (int64_t)1);
	sql_again(&q, "i", (int64_t)2);
	ck_assert(!sql_next(&q) && sql_columns(&q) == 0);
	wrong = sql_done(&q);
	ck_assert_msg(wrong && strstr(wrong, "nowhere"), "%s", wrong);
	free(wrong);
}

CASE("files", .set_up = folder_new, .tear_down = folder_free);

TEST(output_files_are_written_or_refused)
{
	struct output out;
	char *path = in_folder("none/file"), *wrong = output_open(&out, "--out=", path);
	ck_assert_msg(strstr(wrong, "--out=") && strstr(wrong, "No such file"), "%s", wrong);
	free(wrong);
	free(path);
	char *full AUTOFREE = own_device("full"), *begin AUTOFREE = sentence("%s: ", full);
	if (!full)
		return;
	well(output_open(&out, "", full));
	fputs("more than fits", out.f);
	wrong = output_close(&out, NULL);
	ck_assert_msg(wrong && strncmp(wrong, begin, strlen(begin)) == 0, "%s", wrong);
	free(wrong);
	path = in_folder("file");
	well(output_open(&out, "--out=", path));
	fputs("text", out.f);
	ck_assert_int_ne(access(path, R_OK), 0); /* appears when complete */
	well(output_close(&out, NULL));
	ck_assert_int_eq(access(path, R_OK), 0);
	database_remove(path);
	ck_assert_int_ne(access(path, R_OK), 0);
	free(path);
}

TEST(database_copy_is_complete)
{
	char *from AUTOFREE = in_folder("a.db"), *to AUTOFREE = in_folder("b.db");
	new_database("a.db");
	sql_in("a.db", "CREATE TABLE more AS SELECT 1 AS one");
	well(database_copy(from, to));
	expect_in("b.db", "SELECT one FROM more", "1");
	char *wrong AUTOFREE = database_copy(folder, to);
	ck_assert_ptr_nonnull(wrong);
}
