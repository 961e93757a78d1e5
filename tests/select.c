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

/* Where an index is a pair, m has no factor in common with the number of second values, so that one
 * check runs several of both. In the comments: the seconds that the whole loop takes alone on two
 * cores. */
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
	/* Not timed alone: those of the check's longest suites that start the program for each
	 * index. In the order of suites. */
	{"package_multiverso_has_the_words_of_its_pages", 2},
	{"workers_that_have_finished_block_no_round", 2},
	{"lua_init_takes_an_updater", 2},
	{"budget_of_steps_ends_where_a_longer_run_is_at_that_step", 2},
	{"dynamic_budget_trains_on_as_many_mini_batches", 2},
	{"accumulated_gradients_are_those_of_a_larger_batch", 5},
	{"averages_are_of_the_canonical_model", 2},
	{"coded_runs_learn_and_equal_simulated_ones", 9},
	{"simulated_powersgd_takes_the_time_of_its_rank", 2},
	{"coded_pushes_learn_and_equal_simulated_ones", 4},
	{"coded_pulls_learn_and_equal_simulated_ones", 2},
	{"placements_have_the_same_coded_pushes", 2},
	{"one_worker_loses_nothing", 4},
	{"pushes_have_the_bytes_of_the_encoding", 2},
	{"feedback_loses_nothing", 4},
	{"pairs_keep_the_mean", 2},
	{"equal_replicas_have_distance_0", 3},
	{"lookahead_gradient_equals_nesterov", 3},
	{"worker_reports_are_averaged", 3},
	{"simulated_reductions_support_all_kinds", 2},
	{"overlap_with_the_next_step_leaves_models_unchanged", 3},
	{"steps_in_graphs_equal_the_cpus", 2},
	{"model_is_the_same_without_graphs_or_branch", 2},
	{"fastest_algorithms_are_chosen", 4},
	{"sharing_of_a_gpu_is_recorded", 2},
	{"slow_worker_takes_fewer_mini_batches", 3},
	{"staleness_bound_counts_from_the_last_barrier", 2},
	{"quorum_waits_for_late_pushes_in_its_grace", 3},
	{"fast_workers_finish_the_epoch", 4},
	{"dynamic_deal_trains_on_every_row_once", 2},
	{"fast_worker_makes_more_passes_over_its_shard", 2},
	{"pause_adds_its_duration", 2},
	{"several_workers_leave", 2},
	{"late_worker_that_leaves_makes_no_step", 3},
	{"database_moved_during_a_run_loses_nothing", 3},
	{"moved_database_ends_tune_check_and_calibrate", 5},
	{"locked_database_delays_a_run_without_a_timeout", 2},
	{"files_that_rows_name_are_not_opened", 2},
	{"baseline_with_options_that_decide_nothing_is_refused", 2},
	{"small_shared_memory_is_named", 3},
	{"small_machine_refuses_what_does_not_fit", 4},
	{"every_library_mistake_returns_an_error", 2},
	{"planted_fault_is_found", 3},
	{"messages_take_the_given_rates_and_latencies", 4},
	{"flows_of_tables_are_simgrids", 2},
	{"long_rings_take_the_time_of_their_steps", 2},
	{"long_rings_continue_short_ones", 2},
	{"run_tells_where_workers_are", 3},
	{"time_alone_needs_no_memory_for_parameters", 2},
	{"asynchronous_pushes_arrive", 2},
	{"one_worker_is_serial_with_every_optimizer", 4},
	{"one_worker_is_serial_with_every_table_placement", 4},
	{"outer_steps_every_step_are_allreduce", 2},
	{"simulated_optimizers_equal_real_ones", 2},
	{"random_runs_equal_numpys", 2},
	{"few_rows_equal_numpys", 3},
	{"models_without_rows_count_alike_in_every_mean", 4},
	{"rows_of_a_step_have_the_same_weight", 2},
	{"idle_workers_of_gossip_and_easgd_step_only_if_linear", 2},
	{"order_of_arrival_changes_no_round", 4},
	{"merged_rounds_equal_allreduce", 2},
	{"clip_holds_for_gradients_of_any_length", 5},
	{"codecs_lose_no_gradient_for_its_length", 4},
	{"infinite_gradient_ends_the_run_as_diverged", 3},
	{"simulated_host_workload_takes_its_steps_time", 5},
	{"file_without_a_plugin_is_refused", 2},
	{"name_in_a_file_loads_no_code", 2},
	{"copy_that_others_can_have_made_is_not_loaded", 2},
	{"python_model_trains_with_each_strategy", 2},
	{"parameters_are_spared_by_name", 2},
	{"simulated_python_model_has_losses_of_the_real_one", 2},
	{"python_model_follows_rules_of_papers", 2},
	{"interrupted_python_model_continues", 2},
	{"options_of_a_python_file_are_tuned", 2},
	{"python_file_is_refused", 3},
	{"python_exception_ends_all_ranks", 2},
	{"python_parameters_are_those_of_the_worker", 2},
	{"python_step_may_take_long", 2},
	{"simulated_torch_model_has_losses_of_the_real_one", 3},
	{"evaluated_buffers_are_averaged_or_of_the_first_worker", 2},
	{"simulated_workers_have_buffers_of_their_own", 2},
	{"torch_steps_equal_a_plain_loop", 2},
	{"torch_files_equal_a_plain_loop", 2},
	{"accuracy_of_a_torch_file_is_its_own", 2},
	{"torch_model_is_refused", 2},
	{"randomly_drawn_runs_are_replayed", 5},
	{"simulated_options_equal_real_ones", 4},
	{"simulated_asynchronous_workers_learn", 3},
	{"platform_without_factors_takes_its_own_latency_and_bandwidth", 5},
	{"global_batch_step_time_is_shared_by_workers", 2},
	{"update_takes_the_given_time", 2},
	{"started_allreduce_takes_the_time_of_a_blocking_one", 2},
	{"default_bucket_overlaps_every_model", 2},
	{"update_takes_the_calibrated_time", 3},
	{"charges_of_a_step_add_up_to_its_time", 3},
	{"codec_takes_the_calibrated_time", 3},
	{"valid_values_of_platforms_are_accepted", 2},
	{"simulated_deadlocks_are_reported", 2},
	{"gossip_converges_to_one_model", 2},
	{"gossip_bytes_follow_the_schedule", 2},
	{"complete_gossip_is_periodic", 2},
	{"averagings_of_adpsgd_keep_the_mean", 3},
	{"quorum_of_all_is_bsp", 2},
	{"sparta_of_the_whole_model_is_periodic", 2},
	{"sparta_bytes_equal_the_formula", 2},
	{"delayed_nesterov_in_rounds_is_diloco", 2},
	{"hybrid_with_groups_of_one_is_allreduce", 2},
	{"hybrid_with_one_group_is_model_parallel", 2},
	{"hybrid_is_serial_with_the_groups_batch", 2},
	{"outer_step_without_momentum_is_averaging", 2},
	{"outer_momentum_every_step_is_allreduce", 2},
	{"last_outer_step_is_evaluated", 2},
	{"one_worker_with_an_updater_is_serial", 4},
	{"one_worker_with_adam_is_adamw", 2},
	{"bsp_every_step_is_allreduce", 2},
	{"downpour_with_adagrad_equals_the_formula", 2},
	{"synchronous_centre_moves_by_beta", 2},
	{"one_worker_is_serial", 3},
	{"allreduce_is_serial_with_the_whole_batch", 2},
	{"periodic_every_step_is_allreduce", 2},
	{"periodic_start_is_allreduce", 2},
	{"periodic_with_averaged_state_is_allreduce", 2},
	{"sum_and_linear_scaling_agree", 2},
	{"model_parallel_is_serial", 2},
	{"asgd_with_pushes_at_barriers_is_periodic", 2},
	{"asgd_staleness_is_within_bounds", 2},
	{"refusal_under_a_launcher_is_one_message", 2},
	{"chosen_transport_is_recorded", 3},
	{"bench_has_a_row_for_every_transport", 2},
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
