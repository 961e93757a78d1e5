/*
 * suites.h - the test suites: one a file, listed once, the long ones last. GPU: those that a GPU
 * takes part in.
 */
#ifndef SUITES_H
#define SUITES_H

#include <check.h>
#include <stdbool.h>

#define SUITES(X, GPU) \
	X(options) \
	X(layers) \
	X(sql) \
	X(sweep) \
	X(help) \
	X(advise) \
	X(gate) \
	X(baseline) \
	X(export) \
	X(report) \
	X(stats) \
	X(rounds) \
	X(steps) \
	X(shards) \
	X(evaluation) \
	X(spread) \
	X(tune) \
	X(store) \
	GPU(cuda) \
	GPU(images) \
	X(recipes) \
	X(run) \
	X(validate) \
	X(trace) \
	X(servers) \
	X(heterogeneity) \
	GPU(gpu) \
	X(onesided) \
	X(split) \
	X(consensus) \
	GPU(transport) \
	GPU(workloads) \
	X(strategies) \
	GPU(devices) \
	X(plots) \
	X(tables) \
	X(replay) \
	X(sim) \
	X(library) \
	X(train)

extern const char
	tables_2[]; /* SQL: an empty database of version 2, without its views (check_store.c) */

#define DECLARE_SUITE(name) Suite *name##_suite(void);
SUITES(DECLARE_SUITE, DECLARE_SUITE)

/* ---- What a test needs that may not be there ---------------------------- */

/* Counts what is skipped, over all processes of the tests: before the first of them is made. */
void skips_open(void);
int skips_count(void);
/* This test, or a part of it, is not made here: counted, and said with its reason. */
void skipped(const char *why);
/* Is this program missing? Then skipped; but a failure where MVBENCH_REQUIRE=1 says that all that
 * can be installed is there. */
bool lacks_program(const char *name);

/* How many tests this process has left out of what its suites contain (select.c). */
int tests_left_out(void);

#endif
