/*
 * ssp.c - stale-synchronous SGD (Ho et al., NIPS 2013): asgd, but after its push a trainer waits
 * until it has made at most `bound` exchanges more than the slowest. At the push it may be bound +
 * 1 ahead.
 *
 *   each step:     v = m v + g;  w -= lr v                           local, on what was pulled
 *   every X steps: W += c (w - w_pulled);  wait while ahead;  w = w_pulled = W    c: exchange.c
 *
 * bound = 0 is bsp; with a bound that no worker reaches it is asgd. An exchange moves the same
 * floats as in asgd. Equally fast workers hardly ever get one exchange ahead: an epoch takes as
 * long as with asgd.
 */
#include "strategies/exchange.h"

struct ssp_opts {
	struct updater_opts updater;
	int64_t bound;
};

#define OWNER struct ssp_opts
static const struct option ssp_options[] = {
	UPDATER_OPTIONS,
	OPTION(bound, INT, "bound", "3",
	       "staleness bound: after its push a worker waits until it has made at most this many "
	       "exchanges more than the slowest, and then pulls; at the push it may be one more "
	       "ahead; 0: as bsp [exchanges]",
	       .min = 0, .max = 1e15),
	{0},
};

static char *ssp_refuse(const struct run *run, const void *opts)
{
	const struct ssp_opts *o = opts;
	char *wrong = exchange_refuse(run, opts);
	if (wrong || o->bound > 0 || workers_leaving(run) == 0)
		return wrong;
	return sentence("--leave=%s: with --ssp.bound=0 every push waits for all workers' pushes; "
			"give a bound of 1 or more",
			run_leave(run));
}

static const char *ssp_why_static(const struct run *run, const void *opts)
{
	const struct ssp_opts *o = opts;
	(void)run;
	return o->bound ? NULL
			: "with --ssp.bound=0 every push waits for all workers' pushes; "
			  "give 1";
}

static struct table_terms ssp_terms(const struct run *run, const void *opts)
{
	const struct ssp_opts *o = opts;
	struct table_terms t = exchange_terms(run, opts);
	t.rounds = o->bound == 0;
	t.bounded = o->bound > 0;
	t.lead = o->bound;
	return t;
}

const struct strategy strategy_ssp = {
	.plugin = {.name = "ssp",
		   .summary = "stale-synchronous SGD: asgd with a bound on how far a worker may be "
			      "ahead",
		   .options = ssp_options,
		   .opts_size = sizeof(struct ssp_opts)},
	.refuse = ssp_refuse,
	.why_static = ssp_why_static,
	.terms = ssp_terms,
	.init = exchange_init,
	.epoch_time = EXCHANGE_TIME "; at its bound a worker waits",
	EXCHANGE_SLOTS,
};
