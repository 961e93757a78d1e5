/*
 * suites.h - the test suites: one a file, listed once. GPU: those that a GPU takes part in.
 */
#ifndef SUITES_H
#define SUITES_H

#include "../results/results.h"

#include <check.h>

#define SUITES(X, GPU) \
	X(options) \
	X(sweep) \
	GPU(devices) \
	GPU(cuda) \
	GPU(workloads) \
	GPU(images) \
	X(store) \
	X(stats) \
	X(plots) \
	X(report) \
	X(export) \
	X(run) \
	X(train) \
	X(validate) \
	X(strategies) \
	X(tables) \
	X(onesided) \
	X(servers) \
	X(replay) \
	GPU(transport) \
	GPU(gpu) \
	X(sim) \
	X(recipes) \
	X(uneven) \
	X(library) \
	X(gate) \
	X(baseline) \
	X(help) \
	X(advise) \
	X(trace)

extern const char tables_2[]; /* SQL: an empty database of version 2, without its views (check_store.c) */

#define DECLARE_SUITE(name) Suite *name##_suite(void);
SUITES(DECLARE_SUITE, DECLARE_SUITE)

#endif
