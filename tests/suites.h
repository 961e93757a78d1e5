/*
 * suites.h - the test suites: one for each file, listed once, the long ones last. GPU: suites in
 * which a GPU takes part.
 */
#ifndef SUITES_H
#define SUITES_H

#include <check.h>
#include <stdbool.h>

#define SUITES(X, GPU) \
	X(options) \
	X(layers) \
	X(sql) \
	X(help) \
	X(rounds) \
	X(stalls) \
	X(steps) \
	X(shards) \
	X(stats) \
	X(store) \
	X(export) \
	X(ask) \
	X(gate) \
	X(baseline) \
	X(spread) \
	X(sweep) \
	X(report) \
	X(advise) \
	X(model) \
	X(tune) \
	X(consensus) \
	X(contract) \
	X(split) \
	X(gpt) \
	X(recipes) \
	X(bench) \
	GPU(cuda) \
	X(servers) \
	X(optimizers) \
	X(plugins) \
	X(bindings) \
	X(evaluation) \
	X(hostile) \
	GPU(images) \
	GPU(workloads) \
	GPU(devices) \
	X(onesided) \
	X(trace) \
	X(plots) \
	X(tables) \
	X(strategies) \
	X(run) \
	GPU(gpu) \
	X(heterogeneity) \
	X(replay) \
	X(library) \
	GPU(transport) \
	X(train) \
	X(sim) \
	X(validate) \
	X(checkpoint) \
	X(lab) \
	X(wires)

extern const char
	tables_2[]; /* SQL: an empty database of version 2, without its views (check_store.c) */

#define DECLARE_SUITE(name) Suite *name##_suite(void);
SUITES(DECLARE_SUITE, DECLARE_SUITE)

/* ---- Things that a test needs and that may be missing ------------------- */

/* Counts skipped tests over all processes; to be called before the first of them starts. */
void skips_open(void);
int skips_count(void);
/* This test, or a part of it, does not run here: counts it and prints the reason. */
void skipped(const char *why);
/* Returns whether this program is missing. The test is then skipped, or fails with
 * MVBENCH_REQUIRE=1, which means that everything that can be installed is there. */
bool lacks_program(const char *name);

/* How many tests of its suites this process has left out (select.c). */
int tests_left_out(void);

#endif
