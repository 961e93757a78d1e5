/*
 * check_main.c - runs every suite; CK_RUN_SUITE=train runs one of them.
 */
#include "suites.h"

#include <stdlib.h>

int main(void)
{
	SRunner *runner = srunner_create(NULL);
	setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1); /* containers have no other user */
	setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
#define ADD_SUITE(name) srunner_add_suite(runner, name##_suite());
	SUITES(ADD_SUITE)
	srunner_run_all(runner, CK_ENV);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
