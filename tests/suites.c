/*
 * suites.c - makes Check's suites of the TEST and CASE lines of all test files.
 */
#include "tests/suites.h"
#include "runtime/world/world.h"

#include <stdlib.h>
#include <string.h>

extern const struct test_row *const __start_tests[], *const __stop_tests[]; /* by the linker */

enum { CASES_MOST = 16 };

static struct {
	const char *name;
	Suite *suite;
	int cases;
	struct {
		const char *name;
		TCase *tests; /* NULL: left out */
	} known[CASES_MOST];
	TCase *now;
	bool left_out;
} making;

int listed(const void *const *list)
{
	int n = 0;
	while (list[n])
		n++;
	return n;
}

/* The linker does not keep the order of lines. */
static int by_line(const void *a, const void *b)
{
	const TTest *x = &(*(const struct test_row *const *)a)->test;
	const TTest *y = &(*(const struct test_row *const *)b)->test;
	const int file = strcmp(x->file, y->file);
	return file ? file : x->line - y->line;
}

/* Is this row, or its file if it names no suite, of this suite? */
static bool is_of(const struct test_row *row, const char *suite)
{
	const char *at = strstr(row->test.file, "/check_");
	const size_t length = strlen(suite);
	if (row->suite)
		return strcmp(row->suite, suite) == 0;
	return at && strncmp(at + 7, suite, length) == 0 && strcmp(at + 7 + length, ".c") == 0;
}

const char *suite_unlisted(const char *const *names, int n)
{
	for (const struct test_row *const *row = __start_tests; row < __stop_tests; row++) {
		int i = 0;
		while (i < n && !is_of(*row, names[i]))
			i++;
		if (i == n)
			return (*row)->test.file;
	}
	return NULL;
}

static void begin(const char *name, bool left_out)
{
	making.now = left_out ? NULL : tcase_create(name);
	making.left_out = left_out;
	if (making.now)
		suite_add_tcase(making.suite, making.now);
}

void case_begin(const struct test_row *row, const struct test_case *c)
{
	int i = 0;
	while (i < making.cases && strcmp(making.known[i].name, row->test.name) != 0)
		i++;
	if (i < making.cases) {
		making.now = making.known[i].tests;
		making.left_out = !making.now;
		return;
	}
	CHECK(i < CASES_MOST, "suite %s has more than %d cases", making.name, CASES_MOST);
	if (c->lacks) {
		char *why AUTOFREE = sentence("suite %s: %s", making.name, c->lacks);
		skipped(why);
	}
	begin(c->name, c->left_out || c->lacks);
	making.known[making.cases++].name = c->name;
	making.known[i].tests = making.now;
	if (!making.now)
		return;
	if (c->limit)
		tcase_set_timeout(making.now, c->limit);
	if (c->set_up)
		(c->once ? tcase_add_unchecked_fixture
			 : tcase_add_checked_fixture)(making.now, c->set_up, c->tear_down);
}

void test_add(const struct test_row *row, const int *range, int n)
{
	if (!making.now && !making.left_out)
		begin(making.name, false);
	if (making.now)
		tests_select(making.now, &row->test, n == 2 ? range[1] : 0, n ? range[n] : 1);
}

Suite *suite_make(const char *name)
{
	const size_t n = (size_t)(__stop_tests - __start_tests);
	const struct test_row **rows AUTOFREE = must(calloc(n, sizeof *rows));
	bool inside = false, found = false;
	memcpy(rows, __start_tests, n * sizeof *rows);
	qsort(rows, n, sizeof *rows, by_line);
	memset(&making, 0, sizeof making);
	making.name = name;
	making.suite = suite_create(name);
	for (size_t i = 0; i < n; i++) {
		if (i == 0 || !rows[i]->test.fn ||
		    strcmp(rows[i]->test.file, rows[i - 1]->test.file) != 0)
			inside = is_of(rows[i], name);
		if (inside)
			rows[i]->add(rows[i]);
		found = found || inside;
	}
	CHECK(found, "no test file contains suite %s", name);
	return making.suite;
}
