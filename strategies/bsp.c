/*
 * bsp.c - bulk-synchronous SGD on a parameter server (Multiverso's -sync=true): the i-th pull
 * returns the model after the i-th push of every worker.
 *
 *   each step:     v = m v + g;  w -= lr v                           local, on what was pulled
 *   every X steps: W += c (w - w_pulled);  wait for all;  w = w_pulled = W     c: exchange.c
 *
 * With --bsp.backup=b a round ends after its first N - b pushes (Chen et al., arXiv 1604.00981). A
 * later push is dropped, and its worker continues from the newest model. While other workers wait
 * at a barrier, the remaining ones end their rounds among themselves; c stays what it is, because a
 * step of few workers' gradients is noisy. An exchange moves the same floats as in asgd.
 *
 * With --bsp.late=join the N - b are a quorum (Decoupled DiLoCo, arXiv 2604.21428): a later push
 * counts in the round in which it comes, though it is the change of an older model; and the round
 * of a quorum ends --bsp.grace later, or when all have pushed:
 *
 *   W += sum_k n_k (w_k - w_k,pulled) / sum_k n_k                    n_k: rows behind the push
 *
 * That is the updater add; delayed_nesterov makes DiLoCo's outer step. The paper's learners train
 * on while their push travels, and its n_k also has their rows in a step. Here a worker waits for
 * its round. b = 0 is bsp, whatever the other two are.
 *
 * With one backup worker a round waits for the second slowest worker; no worker is faster than its
 * own steps.
 */
#include "strategies/exchange.h"

#include <string.h>

struct bsp_opts {
	struct updater_opts updater;
	int64_t backup;
	const char *late;
	double grace;
};

#define OWNER struct bsp_opts
static const struct option bsp_options[] = {
	UPDATER_OPTIONS,
	OPTION(backup, INT, "backup", "0", "pushes that a round does not wait for [workers]",
	       .min = 0, .max = WORKERS_MOST - 1),
	OPTION(late, CHOICE, "late", "drop",
	       "a push that comes after the end of its round is dropped, or joins the round in "
	       "which it comes [name]",
	       .choices = "drop|join"),
	OPTION(grace, TIME, "grace", "0s",
	       "with --bsp.late=join: time that a round still waits for late pushes after it has "
	       "enough [time]",
	       .min = 0, .max = 1e6),
	{0},
};

static bool joins(const struct bsp_opts *o)
{
	return strcmp(o->late, "join") == 0;
}

static char *bsp_refuse(const struct run *run, const void *opts)
{
	char *wrong = exchange_refuse(run, opts);
	if (wrong)
		return wrong;
	const struct bsp_opts *o = opts;
	int64_t leaving = workers_leaving(run);
	if (o->backup < leaving)
		return sentence("--leave=%s: a round of bsp waits for all workers but "
				"--bsp.backup=%lld; give --bsp.backup=%lld",
				run_leave(run), (long long)o->backup, (long long)leaving);
	if (o->grace > 0 && !joins(o))
		return sentence("--bsp.grace=%gs: late pushes are dropped, and no round waits for "
				"them; give --bsp.late=join",
				o->grace);
	if (o->backup < run_workers(run))
		return NULL;
	return sentence("--bsp.backup=%lld: of %lld workers at least one has to count; give %lld "
			"or less",
			(long long)o->backup, (long long)run_workers(run),
			(long long)run_workers(run) - 1);
}

static const char *bsp_why_static(const struct run *run, const void *opts)
{
	const struct bsp_opts *o = opts;
	if (o->backup == 0)
		return "a round of bsp waits for all workers; give --bsp.backup=1 or more";
	return run_barrier_every(run) == 1 || joins(o)
		       ? NULL
		       : "rows of a dropped push are trained on again before their "
			 "epoch's barrier; give --barrier-every=1";
}

static struct table_terms bsp_terms(const struct run *run, const void *opts)
{
	const struct bsp_opts *o = opts;
	struct table_terms t = exchange_terms(run, opts);
	t.rounds = true;
	t.backup = o->backup;
	t.joins = joins(o);
	t.grace = o->grace;
	t.mean = o->backup > 0 && strcmp(run_reduce(run), "mean") == 0 &&
		 !updater_wants(t.updater).whole;
	return t;
}

static const struct setting bsp_variants[] = {{"backup", "1"}, {NULL, NULL}};

const struct strategy strategy_bsp = {
	.plugin = {.name = "bsp",
		   .summary = "bulk-synchronous SGD on a server: a pull waits for all pushes",
		   .options = bsp_options,
		   .opts_size = sizeof(struct bsp_opts)},
	.refuse = bsp_refuse,
	.why_static = bsp_why_static,
	.terms = bsp_terms,
	.init = exchange_init,
	.epoch_time = "steps (step + wait for the slowest / sqrt X + push and pull / X)",
	.variants = bsp_variants,
	EXCHANGE_SLOTS,
};
