/*
 * select.c - decides which tests run.
 *
 * MVBENCH_TEST_ONLY=NAME:I runs one test, at index I of its loop.
 *
 * MVBENCH_TEST_QUICK=K thins out the slow loops of the table below: a loop of n tests runs every
 * m-th of them (m <= n), starting at K modulo m. .ci/run uses the number of commits as K, so every
 * index runs in turn. `make nightly` runs all of them.
 */
#include "tests/suites.h"

#include <stdlib.h>
#include <string.h>

/* In the comments: the seconds that the whole loop takes alone on two cores. */
static const struct loop {
	const char *test;
	int every;
} slow[] = {
	{"killed_run_resumes_bit_for_bit", 11},                  /* 158 */
	{"disturbances_end_runs", 6},                            /* 55 */
	{"all_strategies_keep_their_promises", 4},               /* 41 */
	{"stopped_library_process_is_named", 3},                 /* 40 */
	{"seeds_programs_run", 4},                               /* 38 */
	{"stopped_worker_under_the_users_mpirun_is_named", 2},   /* 29 */
	{"every_strategy_runs_in_a_lab", 3},                     /* 24 */
	{"run_starts_from_a_saved_model", 3},                    /* 23 */
	{"killed_asynchronous_run_resumes", 3},                  /* 23 */
	{"split_image_nets_equal_one_worker", 3},                /* 22 */
	{"hosts_do_not_change_the_model", 2},                    /* 19 */
	{"every_library_function_works", 2},                     /* 17 */
	{"broken_promise_is_found", 3},                          /* 16 */
	{"gpt_equals_one_worker_in_every_mode", 2},              /* 14 */
	{"segments_allocate_nothing", 2},                        /* 10 */
	{"gpu_trains_the_same_as_the_cpu", 3},                   /* 50 */
	{"strategies_on_gpus_train_the_same_as_on_the_cpu", 3},  /* 21 */
	{"bf16_learns_the_same", 2},                             /* 15 */
	{"options_on_gpus_train_the_same_as_on_the_cpu", 3},     /* 12 */
	{"epoch_trains_on_every_row_once", 6},                   /* 61 */
	{"cells_of_all_kinds_are_calibrated_and_run", 4},        /* 58 */
	{"replay_reaches_the_same_model", 7},                    /* 38 */
	{"simulations_repeat_themselves", 5},                    /* 28 */
	{"simulated_model_equals_the_real_one", 2},              /* 15 */
	{"counted_bytes_are_the_formula", 3},                    /* 14 */
	{"failed_worker_is_named", 3},                           /* 14 */
	{"other_workers_continue_when_one_leaves", 3},           /* 12 */
	{"rare_barriers_change_no_result", 3},                   /* 10 */
	{"same_seed_gives_the_same_result", 2},                  /* 10 */
	{"false_alarm_rate_is_at_most_alpha", 3},                /* 9 */
	{"real_workers_leave", 2},                               /* 9 */
	{"replay_is_bit_identical_for_every_updater", 3},        /* 8 */
	{"many_simulated_workers_learn", 3},                     /* 7 */
	{"evaluation_points_change_neither_model_nor_times", 3}, /* 16 */
	{"tables_hold_what_was_pushed_in_every_placement", 4},   /* 15, with the next */
	{"onesided_tables_hold_what_was_pushed", 4},
	{"timeline_is_consistent", 3},                      /* 11 */
	{"overlap_leaves_results_unchanged", 2},            /* 9 */
	{"changed_recording_is_detected", 3},               /* 9 */
	{"all_workloads_keep_their_promises", 3},           /* 80 */
	{"layers_hold_and_violations_are_found", 3},        /* 17 */
	{"device_operations_match_double_precision", 3},    /* 15 */
	{"workload_gradients_match_finite_differences", 3}, /* 13 */
	{"strategies_run_on_servers", 3},                   /* 9 */
	{"workload_evaluation_changes_no_state", 3},        /* 8 */
	{"workload_training_lowers_loss", 3},               /* 7 */
	{"shared_batch_equals_one_workers_batch", 2},       /* 7 */
	{"model_is_evaluated_on_held_out_rows", 2},         /* 7 */
	{"onesided_rounds_equal_shared_memory", 2},         /* 7 */
	{"step_losses_give_the_epoch_loss", 3},             /* 7 */
	{"overlap_is_never_slower", 4},                     /* 14 */
	{"planted_straggler_is_blamed", 3},                 /* 8 */
	{"lua_programs_end_at_the_parameters_of_c", 3},     /* 14 */
	{"split_layers_equal_whole_ones", 2},               /* 5 */
	{"python_binding_works_and_refuses_mistakes", 2},   /* 6 */
	{"lua_binding_works_and_refuses_mistakes", 2},      /* 4 */
	{"python_programs_of_the_page_run", 2},             /* 5 */
	{"bindings_free_what_they_make", 2},                /* 6 */
};

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

void tests_select(TCase *into, const TTest *test, int start, int end)
{
	const char *only = getenv("MVBENCH_TEST_ONLY"), *quick = getenv("MVBENCH_TEST_QUICK");
#ifdef __SANITIZE_ADDRESS__
	/* The sanitizer adds writable data to every object, which the first forbids, and makes
	 * pushes slower than computing, which the second times. */
	if (strcmp(test->name, "layers_hold_and_violations_are_found") == 0 ||
	    strcmp(test->name, "real_slow_worker_takes_fewer_mini_batches") == 0) {
		left_out += end - start;
		return;
	}
#endif
	if (only) {
		const size_t length = strcspn(only, ":");
		const int at = only[length] ? atoi(only + length + 1) : 0;
		if (strlen(test->name) == length && strncmp(test->name, only, length) == 0 &&
		    at >= start && at < end)
			tcase_add_loop_test(into, test, at, at + 1);
		return;
	}
	const int m = quick ? every(test->name, end - start) : 1;
	if (m <= 1) {
		tcase_add_loop_test(into, test, start, end);
		return;
	}
	left_out += end - start;
	for (int i = start + atoi(quick) % m; i < end; i += m, left_out--)
		tcase_add_loop_test(into, test, i, i + 1);
}
