/*
 * select.c - decides which tests run. The linker hands every test that a suite adds to this file
 * first (--wrap=_tcase_add_test).
 *
 * MVBENCH_TEST_ONLY=NAME:I runs one test, at index I of its loop.
 * MVBENCH_TEST_QUICK=K thins out the slow loops of the table below: a loop of n tests runs every
 * m-th of them (m <= n), beginning at K modulo m. .ci/run uses the number of commits as K, so that
 * every index has its turn. `make nightly` runs all of them.
 */
#include "tests/suites.h"

#include <stdlib.h>
#include <string.h>

/* Beside each: the seconds that the whole loop takes alone on two cores. */
static const struct loop {
	const char *test;
	int every;
} slow[] = {
	{"a_killed_run_goes_on_as_if_nothing_had_happened", 11}, /* 158 */
	{"disturbances_end_runs", 6},                            /* 55 */
	{"all_strategies_keep_their_promises", 4},               /* 41 */
	{"a_process_that_is_stopped_is_named", 3},               /* 40 */
	{"seeds_programs", 4},                                   /* 38 */
	{"a_stopped_worker_under_the_users_mpirun_is_named", 2}, /* 29 */
	{"every_strategy_runs", 3},                              /* 24 */
	{"a_run_begins_with_a_model", 3},                        /* 23 */
	{"an_asynchronous_run_goes_on", 3},                      /* 23 */
	{"test_split", 3},                                       /* 22 */
	{"hosts_do_not_change_the_model", 2},                    /* 19 */
	{"every_function", 2},                                   /* 17 */
	{"a_wrong_promise_is_found", 3},                         /* 16 */
	{"it_is_one_model", 2},                                  /* 14 */
	{"segments_allocate_nothing", 2},                        /* 10 */
	{"a_gpu_trains_what_the_cpu_trains", 3},                 /* 50 */
	{"strategies_train_what_the_cpu_trains", 3},             /* 21 */
	{"bf16_learns_the_same", 2},                             /* 15 */
	{"ways_of_running_train_what_the_cpu_trains", 3},        /* 12 */
	{"no_row_is_dropped", 6},                                /* 61 */
	{"cells_of_all_kinds_are_calibrated_and_run", 4},        /* 58 */
	{"a_replay_comes_to_the_same_model", 7},                 /* 38 */
	{"simulations_repeat_themselves", 5},                    /* 28 */
	{"simulated_is_real", 2},                                /* 15 */
	{"counted_bytes_are_the_formula", 3},                    /* 14 */
	{"a_worker_that_dies_is_named", 3},                      /* 14 */
	{"the_others_go_on", 3},                                 /* 12 */
	{"norms_are_evaluated_anew", 4},                         /* 12 */
	{"every_strategy_is_calibrated_and_run", 4},             /* 12 */
	{"calibrating_makes_up_for_it", 4},                      /* 11 */
	{"rare_barriers", 3},                                    /* 10 */
	{"same_seed_same_result", 2},                            /* 10 */
	{"false_alarms_are_as_rare_as_promised", 3},             /* 9 */
	{"real_workers_leave", 2},                               /* 9 */
	{"names_are_shown_never_run", 4},                        /* 9 */
	{"so_it_does_with_every_updater", 3},                    /* 8 */
	{"many_workers_learn", 3},                               /* 7 */
	{"points_are_of_the_model_and_cost_nothing", 3},         /* 16 */
	{"tables_hold_what_was_pushed", 4},                      /* 15 */
	{"a_timeline_is_sound", 3},                              /* 11 */
	{"overlap_changes_nothing", 2},                          /* 9 */
	{"a_changed_record_is_found_out", 3},                    /* 9 */
	{"all_workloads_keep_their_promises", 3},                /* 80 */
	{"the_floors_hold_and_what_breaks_them_is_seen", 3},     /* 17 */
	{"test_operation", 3},                                   /* 15 */
	{"test_workload_gradient", 3},                           /* 13 */
	{"strategies_run_on_servers", 3},                        /* 9 */
	{"test_workload_evaluates", 3},                          /* 8 */
	{"test_workload_learns", 3},                             /* 7 */
	{"one_run_is_drawn", 3},                                 /* 8 */
	{"a_shared_batch_is_one_batch", 2},                      /* 7 */
	{"the_model_is_evaluated_on_rows_held_out", 2},          /* 7 */
	{"rounds_are_as_in_shared_memory", 2},                   /* 7 */
	{"losses_of_steps_are_the_epochs", 3},                   /* 7 */
	{"overlap_is_never_slower", 4},                          /* 14 */
	{"the_planted_straggler_is_blamed", 3},                  /* 8 */
};

void __real__tcase_add_test(TCase *tc, const TTest *test, int signal, int allowed_exit, int start,
			    int end);
void __wrap__tcase_add_test(TCase *tc, const TTest *test, int signal, int allowed_exit, int start,
			    int end);

static int left_out;

int tests_left_out(void)
{
	return left_out;
}

/* The m of a test's loop of n; 1 for all that are not in the table. */
static int every(const char *test, int n)
{
	for (size_t i = 0; i < sizeof slow / sizeof *slow; i++)
		if (strcmp(slow[i].test, test) == 0)
			return slow[i].every < n ? slow[i].every : n;
	return 1;
}

void __wrap__tcase_add_test(TCase *tc, const TTest *test, int signal, int allowed_exit, int start,
			    int end)
{
	const char *only = getenv("MVBENCH_TEST_ONLY"), *quick = getenv("MVBENCH_TEST_QUICK");
#ifdef __SANITIZE_ADDRESS__
	/* The sanitizer adds writable data to every object, which this test forbids. */
	if (strcmp(test->name, "the_floors_hold_and_what_breaks_them_is_seen") == 0) {
		left_out += end - start;
		return;
	}
#endif
	if (only) {
		const size_t length = strcspn(only, ":");
		const int at = only[length] ? atoi(only + length + 1) : 0;
		if (strlen(test->name) == length && strncmp(test->name, only, length) == 0 &&
		    at >= start && at < end)
			__real__tcase_add_test(tc, test, signal, allowed_exit, at, at + 1);
		return;
	}
	const int m = quick ? every(test->name, end - start) : 1;
	if (m <= 1) {
		__real__tcase_add_test(tc, test, signal, allowed_exit, start, end);
		return;
	}
	left_out += end - start;
	for (int i = start + atoi(quick) % m; i < end; i += m, left_out--)
		__real__tcase_add_test(tc, test, signal, allowed_exit, i, i + 1);
}
