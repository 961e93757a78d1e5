/*
 * downpour.c - Downpour SGD (Dean et al., NIPS 2012): pushes and pulls have separate intervals.
 *
 *   each step:     v = m v + g;  w -= lr v;  acc -= lr v             local
 *   every F steps: W += c acc;  acc = 0                              c = 1 for sum, 1/N for mean
 *   every X steps: w = W
 *
 * That is the updater add. Other updaters get accumulated gradients, acc += v, as do Dean's
 * servers, whose updater is adagrad: W = updater(W, acc, c lr), with v and c as in exchange.c.
 *
 * A pull overwrites unpushed steps in w, but not in acc: with F > X a trainer runs on a model that
 * lacks its own last steps. W, the canonical model, is in a table. A push or a pull moves (N - 1) /
 * N P floats, P with servers; acc costs a pass over two vectors a step.
 */
#include "strategies/exchange.h"

struct downpour_opts {
	struct updater_opts updater;
	int64_t send;
};

#define OWNER struct downpour_opts
static const struct option downpour_options[] = {
	UPDATER_OPTIONS,
	OPTION(send, INT, "send", "0",
	       "mini-batches between two pushes; 0: as between two pulls (--sync-every) [steps]",
	       .min = 0, .max = 1e9),
	{0},
};

static int64_t interval(const struct run *run, const struct downpour_opts *o)
{
	return o->send ? o->send : run_sync_every(run);
}

static struct table_terms downpour_terms(const struct run *run, const void *opts)
{
	struct table_terms terms = exchange_terms(run, opts);
	terms.syncs = terms.syncs && interval(run, opts) == run_sync_every(run);
	return terms;
}

/* With equal intervals this is the exchange of asgd. */
static void downpour_init(struct worker *w)
{
	struct exchange *s = w->state;
	int64_t send = interval(w->run, w->opts);
	s->apart = send != run_sync_every(w->run);
	s->send = s->apart ? (int32_t)send : 0;
	exchange_init(w);
}

const struct strategy strategy_downpour = {
	.plugin = {.name = "downpour",
		   .summary =
			   "Downpour SGD: push sums of steps, pull the model, each at an interval",
		   .options = downpour_options,
		   .opts_size = sizeof(struct downpour_opts)},
	.refuse = exchange_refuse,
	.terms = downpour_terms,
	.init = downpour_init,
	.epoch_time = "steps (step + push / F + pull / X), with F = --downpour.send or X",
	EXCHANGE_SLOTS,
};
