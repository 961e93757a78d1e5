/*
 * sparta.c - sparse parameter averaging: all trainers average a small part of their models in every
 * step, so that each parameter is averaged once in 1/p steps. SPARTA (EXO Labs 2025, as EXO Gym has
 * it with shuffled parts).
 *
 *   each step:      v = m v + g;  w -= lr v              local
 *   every X steps:  w_k = mean of w_k, for every k in the part
 *
 * The model is a matrix with rows of c = round(1 / p) floats. A part is one column; floats behind
 * the last whole row are a part of their own. c steps, or c + 1, take the parts in a new random
 * order, the same for all. p = 1 is averaging of the whole model.
 *
 * The evaluated model is the mean over the trainers. A step sends 2 (N - 1) / N p P / X floats a
 * trainer, at any time at most p P: no peak as of local SGD.
 */
#include "mvbench.h"

#include <math.h>
#include <string.h>

enum { COLUMNS_MOST = 4096 };

struct sparta_opts {
	double share;
};

struct sparta {
	struct vec *part; /* a column of param */
};

#define OWNER struct sparta_opts
static const struct option sparta_options[] = {
	OPTION(share, REAL, "share", "0.005",
	       "part of the model that is averaged at a time [fraction]", .min = 1.0 / COLUMNS_MOST,
	       .max = 1),
	{0},
};

static char *sparta_refuse(const struct run *run, const void *opts)
{
	(void)opts;
	return strcmp(run_reduce(run), "sum") == 0
		       ? sentence(
				 "--reduce=sum: sparta averages parts of models, and makes no sum; "
				 "use --reduce=mean")
		       : NULL;
}

static size_t columns_of(const struct worker *w)
{
	const struct sparta_opts *o = w->opts;
	size_t columns = (size_t)round(1 / o->share), n = vec_len(w->param);
	return columns < n ? columns : n;
}

static void sparta_init(struct worker *w)
{
	struct sparta *s = w->state;
	s->part = vec_new(w, vec_len(w->param) / columns_of(w));
}

/* Element t of endless random orders of the numbers below n. */
static size_t shuffled(int64_t seed, int64_t t, size_t n)
{
	size_t order[COLUMNS_MOST + 1] = {0};
	uint64_t rng = rng_seed(seed, RNG_STRATEGY, t / (int64_t)n);
	for (size_t i = 0; i < n; i++) { /* from the inside out */
		size_t j = (size_t)(rng_next(&rng) % (i + 1));
		order[i] = order[j];
		order[j] = i;
	}
	return order[t % (int64_t)n];
}

static void sparta_step(struct worker *w)
{
	struct sparta *s = w->state;
	size_t columns = columns_of(w), rows = vec_len(s->part), whole = rows * columns;
	size_t rest = vec_len(w->param) - whole;
	int64_t every = run_sync_every(w->run);
	local_step(w, 1);
	if (comm_size(w->data_group) == 1 || w->step % every)
		return;
	size_t k = shuffled(run_seed(w->run), w->step / every - 1, columns + (rest > 0));
	consensus_mark(w);
	if (k == columns) {
		comm_allreduce_part(w->data_group, w->param, whole, rest, MEAN);
		return;
	}
	vec_take_columns(s->part, w->param, rows, columns, k, 1);
	comm_allreduce(w->data_group, s->part, MEAN);
	vec_put_columns(w->param, s->part, rows, columns, k, 1);
}

static void sparta_fini(struct worker *w)
{
	struct sparta *s = w->state;
	vec_free(s->part);
}

/* A mean over the parts, which differ in length by the floats behind the last row. */
static double sparta_bytes(const struct worker *w)
{
	double n = comm_size(w->data_group), floats = (double)vec_len(w->param);
	size_t columns = columns_of(w), rest = vec_len(w->param) % columns;
	double parts = (double)columns + (rest > 0);
	return 2 * (n - 1) / n * sizeof(float) * floats / parts / (double)run_sync_every(w->run);
}

const struct strategy strategy_sparta = {
	.plugin = {.name = "sparta",
		   .summary = "every X steps all average a small random part of their models",
		   .options = sparta_options,
		   .opts_size = sizeof(struct sparta_opts)},
	.state_size = sizeof(struct sparta),
	.refuse = sparta_refuse,
	.init = sparta_init,
	.step = sparta_step,
	.fini = sparta_fini,
	.average = true,
	.meets = MEETS_NEVER,
	.bytes_per_step = sparta_bytes,
	.epoch_time = "steps (step + wait for the slowest / sqrt X + allreduce of a part / X)",
};
