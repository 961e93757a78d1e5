/*
 * model_parallel.c - one model, its linear layers split over the workers (TorchAD-NN, Megatron's
 * column and row split: linear_split.c). All workers take the same mini-batch, and each updates its
 * own part:
 *
 *   v_r = m v_r + g_r;  w_r -= lr v_r      w_r: worker r's part of the model
 *
 * The step itself sends nothing; the passes send linear_split's allreduces of activations, at least
 * one a step.
 */
#include "workloads/linear.h"

static int model_parallel_workers(const struct run *run, const void *opts)
{
	(void)opts;
	return (int)run_workers(run);
}

static void model_parallel_step(struct worker *w)
{
	local_step(w, 1);
}

const struct strategy strategy_model_parallel = {
	.plugin = {.name = "model_parallel",
		   .summary = "one model, its linear layers split over the workers"},
	.model_workers = model_parallel_workers,
	.linear = &linear_split,
	.step = model_parallel_step,
	.bytes_per_step = linear_split_bytes,
	.epoch_time = "steps (step / N + messages of split layers)",
};
