/*
 * hybrid.c - model parallel within groups of G workers, data parallel between them (TorchMPI's
 * cartesian communicator): rank = group x G + place.
 *
 *   g_r = mean over the groups of the gradient of part r;  v_r = m v_r + g_r;  w_r -= lr v_r
 *
 * A group splits the model's linear layers and takes one mini-batch (linear_split.c); the workers
 * at one place of all groups hold the same part r. G = 1 is allreduce, G = N is model_parallel.
 *
 * With D = N / G groups, a step sends linear_split's activations and 2 (D - 1) / D P / G floats a
 * worker: larger groups send less gradient and more activations.
 */
#include "workloads/linear.h"

struct hybrid_opts {
	int64_t group;
};

#define OWNER struct hybrid_opts
static const struct option hybrid_options[] = {
	OPTION(group, INT, "group", "0",
	       "workers that share one model; 0: 2, or 1 when there is only one worker [workers]",
	       .min = 0, .max = WORKERS_MOST),
	{0},
};

static int hybrid_workers(const struct run *run, const void *opts)
{
	const struct hybrid_opts *o = opts;
	if (o->group)
		return (int)o->group;
	return run_workers(run) > 1 ? 2 : 1;
}

static char *hybrid_refuse(const struct run *run, const void *opts)
{
	int workers = (int)run_workers(run), group = hybrid_workers(run, opts);
	if (group > workers)
		return sentence("--hybrid.group=%d: there %s only %d worker%s to share a model; "
				"give at most --hybrid.group=%d, or more --workers",
				group, workers == 1 ? "is" : "are", workers,
				workers == 1 ? "" : "s", workers);
	if (workers % group)
		return sentence("--workers=%d: they cannot be divided into groups of %d; give a "
				"multiple of %d, or a --hybrid.group that divides %d",
				workers, group, group, workers);
	return NULL;
}

static void hybrid_step(struct worker *w)
{
	comm_allreduce(w->data_group, w->grad, COMM_SUM);
	common_step(w);
}

/* The parts of a group differ a little in size; together they are the model. */
static double hybrid_bytes(const struct worker *w)
{
	double groups = comm_size(w->data_group), share = comm_size(w->model_group);
	return linear_split_bytes(w) +
	       2 * (groups - 1) / groups * sizeof(float) * (double)w->model->params / share;
}

const struct strategy strategy_hybrid = {
	.plugin = {.name = "hybrid",
		   .summary = "groups of workers share a model; gradients are averaged between "
			      "groups",
		   .options = hybrid_options,
		   .opts_size = sizeof(struct hybrid_opts)},
	.refuse = hybrid_refuse,
	.model_workers = hybrid_workers,
	.linear = &linear_split,
	.step = hybrid_step,
	.bytes_per_step = hybrid_bytes,
	.epoch_time = "steps (step / G + messages of split layers + allreduce / G)",
};
