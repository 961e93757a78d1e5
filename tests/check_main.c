/*
 * check_main.c - runs every suite; CK_RUN_SUITE=train runs one of them. With MVBENCH_GPU_TEST=1 it
 * runs those that a GPU takes part in, on this machine's own, and fails where there is none. Suites
 * wait more than they compute: MVBENCH_TEST_LANE divides them among processes.
 */
#include "suites.h"
#include "fixture.h"

#include <stdlib.h>

/* MVBENCH_TEST_LANE=1/2: every second suite, from the second one on. */
static bool in_lane(int place)
{
	const char *lane = getenv("MVBENCH_TEST_LANE");
	int i, n;
	return !lane || sscanf(lane, "%d/%d", &i, &n) != 2 || n < 1 || place % n == i;
}

int main(void)
{
	int place = 0;
	const bool gpu = on_real_gpu();
	const char *missing = gpu ? device_cuda.probe(NULL) : NULL;
	if (missing) {
		fprintf(stderr, "no GPU to test: %s\n", missing);
		return EXIT_FAILURE;
	}
	/* What the tests expect does not depend on the machine's having a GPU. */
	if (!gpu)
		setenv("MVBENCH_CUDA", "none", 1);
	SRunner *runner = srunner_create(NULL);
	setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1); /* containers have no other user */
	setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
#define ADD_SUITE(name) \
	if (in_lane(place++)) \
		srunner_add_suite(runner, name##_suite());
#define ADD_UNLESS_GPU(name) \
	if (!gpu && in_lane(place++)) \
		srunner_add_suite(runner, name##_suite());
	SUITES(ADD_UNLESS_GPU, ADD_SUITE)
	srunner_run_all(runner, CK_ENV);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
