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
 * With optimisers that normalise, a part weighs as many steps as its worker had rows in since the
 * part was last averaged (README, workers without rows).
 *
 * The evaluated model is the mean over the trainers, with these weights. A step sends
 * 2 (N - 1) / N p P / X floats a trainer, at any time at most p P: no peak as of local SGD.
 */
#include "mvbench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS_MOST = 4096 };

struct sparta_opts {
	double share;
};

struct sparta {
	struct vec *part, *rest; /* a column of param; what is behind its last row, or NULL */
	double shares;           /* sum of worker_share */
	struct mark {
		double shares;
		int64_t step;
	} * last; /* [parts]: what they were when a part was last averaged */
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

static size_t parts_of(const struct worker *w)
{
	const struct sparta *s = w->state;
	return columns_of(w) + (s->rest != NULL);
}

static void sparta_init(struct worker *w)
{
	struct sparta *s = w->state;
	size_t n = vec_len(w->param), columns = columns_of(w), rest = n % columns, parts;
	s->part = vec_new(w, n / columns);
	s->rest = rest ? vec_new(w, rest) : NULL;
	parts = parts_of(w);
	s->last = calloc(parts, sizeof *s->last);
	CHECK(s->last, "no memory for %zu parts", parts);
	worker_keep(w, &s->shares, sizeof s->shares);
	worker_keep(w, s->last, parts * sizeof *s->last);
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

/* Part k: columns first .. first + n - 1 of the model as a matrix[rows x width]. */
struct place {
	struct vec *part; /* for a copy */
	size_t rows, width, first, n;
};

static struct place place_of(const struct worker *w, size_t k)
{
	const struct sparta *s = w->state;
	size_t columns = columns_of(w), all = vec_len(w->param);
	if (k < columns)
		return (struct place){s->part, vec_len(s->part), columns, k, 1};
	size_t rest = vec_len(s->rest);
	return (struct place){s->rest, 1, all, all - rest, rest};
}

/* Weight of this trainer's part k in an average now, relative to 1/N. */
static float share_of(const struct worker *w, size_t k)
{
	const struct sparta *s = w->state;
	int64_t steps = w->step - s->last[k].step;
	bool counts = w->optimizer->normalises && steps > 0;
	return counts ? (float)((s->shares - s->last[k].shares) / (double)steps) : 1;
}

static void sparta_step(struct worker *w)
{
	struct sparta *s = w->state;
	int64_t every = run_sync_every(w->run);
	local_step(w, 1);
	s->shares += worker_share(w);
	if (comm_size(w->data_group) == 1 || w->step % every)
		return;
	size_t k = shuffled(run_seed(w->run), w->step / every - 1, parts_of(w));
	struct place p = place_of(w, k);
	float share = share_of(w, k);
	consensus_mark(w);
	vec_take_columns(p.part, w->param, p.rows, p.width, p.first, p.n);
	if (share != 1)
		vec_scale(p.part, share);
	comm_allreduce(w->data_group, p.part, COMM_MEAN);
	vec_put_columns(w->param, p.part, p.rows, p.width, p.first, p.n);
	s->last[k] = (struct mark){.shares = s->shares, .step = w->step};
}

static void sparta_canonical(struct worker *w, struct vec *model)
{
	if (model != w->param)
		vec_copy(model, w->param);
	for (size_t k = 0; k < parts_of(w); k++) {
		struct place p = place_of(w, k);
		float share = share_of(w, k);
		if (share == 1)
			continue;
		vec_take_columns(p.part, model, p.rows, p.width, p.first, p.n);
		vec_scale(p.part, share);
		vec_put_columns(model, p.part, p.rows, p.width, p.first, p.n);
	}
}

static void sparta_fini(struct worker *w)
{
	struct sparta *s = w->state;
	vec_free(s->part);
	vec_free(s->rest);
	free(s->last);
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
	.canonical = sparta_canonical,
	.average = true,
	.meets = MEETS_NEVER,
	.bytes_per_step = sparta_bytes,
	.epoch_time = "steps (step + wait for the slowest / sqrt X + allreduce of a part / X)",
};
