/*
 * suites.h - how a test file names its tests. A suite is a file, and has its name without "check_".
 * The linker collects the TEST and CASE lines of all files in the section "tests", and suites.c
 * makes Check's suites of them. check_main.c lists the suites, select.c decides which tests run.
 */
#ifndef SUITES_H
#define SUITES_H

#include <check.h>
#include <stdbool.h>

#undef START_TEST /* TEST takes its place */

struct test_case {
	const char *name;
	int limit;                                /* of each test [s]; 0: Check's own, 4 */
	void (*set_up)(void), (*tear_down)(void); /* before and after each test, in its process; */
	bool once;                                /* or before the first and after the last */
	bool left_out;                            /* its tests do not run here */
	const char *lacks; /* nor with this: what is missing here. Counts as skipped */
};

struct test_row {
	TTest test; /* of a CASE: without function */
	const char *suite;
	void (*add)(const struct test_row *row);
};

#define TEST_ROW(ID, ...) \
	static const struct test_row ID##_row = {__VA_ARGS__}; \
	static const struct test_row *const ID##_at __attribute__((used, section("tests"))) = \
		&ID##_row

/* TEST(name) { ... }: a test. TEST(name, n): a loop of tests, with _i from 0 to n - 1.
 * TEST(name, a, b): from a to b - 1. A number may be a call. */
#define TEST(NAME, ...) \
	static void NAME(int _i); \
	static void NAME##_add(const struct test_row *row) \
	{ \
		const int range[] = {0, __VA_ARGS__}; \
		test_add(row, range, (int)(sizeof range / sizeof *range) - 1); \
	} \
	TEST_ROW(NAME, {#NAME, NAME, __FILE__, __LINE__}, NULL, NAME##_add); \
	static void NAME(int _i __attribute__((unused)))

/* CASE("name", .limit = 60, ...): the tests below it, up to the next CASE of the file, belong to
 * this test case. CASE("name") without settings continues an earlier one. Without a CASE tests
 * belong to a case of default settings. CASE_OF: of a suite that has no file of its own. */
#define CASE(...)           CASE_OF(NULL, __VA_ARGS__)
#define CASE_OF(SUITE, ...) CASE_AT(__LINE__, SUITE, __VA_ARGS__)
#define CASE_AT(LINE, ...)  CASE_ROW(LINE, __VA_ARGS__)
#define CASE_ROW(LINE, SUITE, NAME, ...) \
	static void case_##LINE##_add(const struct test_row *row) \
	{ \
		case_begin(row, &(const struct test_case){.name = NAME, __VA_ARGS__}); \
	} \
	TEST_ROW(case_##LINE, {NAME, NULL, __FILE__, LINE}, SUITE, case_##LINE##_add)

void test_add(const struct test_row *row, const int *range, int n);
void case_begin(const struct test_row *row, const struct test_case *settings);

/* The suite of this name, with its selected tests; panics if there is none. */
Suite *suite_make(const char *name);
/* The file of a suite that is not among these n names; NULL if there is none. */
const char *suite_unlisted(const char *const *names, int n);

/* The number of entries of a list of pointers that ends in NULL. */
#define LISTED(list) listed((const void *const *)(list))
int listed(const void *const *list);

/* ---- Things that a test needs and that may be missing ------------------- */

/* Counts skipped tests over all processes; to be called before the first of them starts. */
void skips_open(void);
int skips_count(void);
/* This test, or a part of it, does not run here: counts it and prints the reason. */
void skipped(const char *why);
/* Returns whether this program is missing. The test is then skipped, or fails with
 * MVBENCH_REQUIRE=1, which means that everything that can be installed is there. */
bool lacks_program(const char *name);

/* ---- select.c ----------------------------------------------------------- */

/* Adds those tests of a loop from start to end - 1 that are selected. */
void tests_select(TCase *into, const TTest *test, int start, int end);
/* How many tests of its suites this process has left out. */
int tests_left_out(void);

#endif
