/*
 * asgd.c - asynchronous SGD on a parameter server (Multiverso's default): no worker waits for
 * another.
 *
 *   each step:     v = m v + g;  w -= lr v                           local, on what was pulled
 *   every X steps: W += c (w - w_pulled);  w = w_pulled = W          c = 1 for sum, 1/N for mean
 *
 * That is the updater add; other updaters get gradients (exchange.c). W, the canonical model, is in
 * a table. An exchange moves 2 (N - 1) / N P floats, 2 P with servers. A barrier comes between a
 * push and a pull, as in Multiverso's tutorial; all workers continue from one model.
 *
 * Dynamic local updates (Liu et al. 2024, arXiv 2401.09135), --asgd.local=dynamic: after an
 * exchange worker k of measured speed v_k [steps/s] has the interval
 *
 *   X_k = max(1, round(v_k / max_j v_j X))
 *
 * so that all workers push about equally often. Equally fast workers have X: that is the plain
 * form. The paper rounds down; then the smallest difference would cost a worker a step. Speeds are
 * those since a worker's last push. They travel in a table of N floats.
 */
#include "strategies/exchange.h"

#include <string.h>

struct asgd_opts {
	struct updater_opts updater;
	const char *local;
};

#define OWNER struct asgd_opts
static const struct option asgd_options[] = {
	UPDATER_OPTIONS,
	OPTION(local, CHOICE, "local", "fixed",
	       "steps between two exchanges: --sync-every, or, for workers that are slower than "
	       "the fastest, in proportion fewer [name]",
	       .choices = "fixed|dynamic"),
	{0},
};

static bool is_dynamic(const void *opts)
{
	const struct asgd_opts *o = opts;
	return strcmp(o->local, "dynamic") == 0;
}

static char *asgd_refuse(const struct run *run, const void *opts)
{
	if (is_dynamic(opts) && run_record(run))
		return sentence(
			"--record: with --asgd.local=dynamic intervals follow from measured "
			"times, which a recording does not have; leave one of the two out");
	return exchange_refuse(run, opts);
}

static void asgd_init(struct worker *w)
{
	struct exchange *s = w->state;
	exchange_init(w);
	if (!is_dynamic(w->opts))
		return;
	worker_speed(w);
	s->interval = run_sync_every(w->run);
	worker_keep(w, &s->interval, sizeof s->interval);
	worker_keep(w, &s->last, sizeof s->last);
}

const struct strategy strategy_asgd = {
	.plugin =
		{.name = "asgd",
		 .summary =
			 "asynchronous SGD: push what X steps changed to a server, pull its model",
		 .options = asgd_options,
		 .opts_size = sizeof(struct asgd_opts)},
	.refuse = asgd_refuse,
	.terms = exchange_terms,
	.init = asgd_init,
	.epoch_time = EXCHANGE_TIME,
	EXCHANGE_SLOTS,
};
