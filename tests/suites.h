/*
 * suites.h - the test suites: one a file, listed once.
 */
#ifndef SUITES_H
#define SUITES_H

#include "../results/results.h"

#include <check.h>

#define SUITES(X) \
	X(options) \
	X(sweep) \
	X(devices) \
	X(workloads) \
	X(images) \
	X(store) \
	X(plots) \
	X(run) \
	X(train) \
	X(strategies) \
	X(tables) \
	X(onesided) \
	X(servers) \
	X(gpu) \
	X(library)

#define DECLARE_SUITE(name) Suite *name##_suite(void);
SUITES(DECLARE_SUITE)

#endif
