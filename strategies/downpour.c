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
	UPDATER_OPTIONS_SINCE(8),
	OPTION(send, INT, "send", "0",
	       "mini-batches between two pushes; 0: as between two pulls (--sync-every) [steps]",
	       .min = 0, .max = 1e9),
	{0},
};

static int64_t interval(const struct run *run, const struct downpour_opts *o)
{
	return o->send ? o->send : run->sync_every;
}

static int64_t downpour_interval(const struct worker *w)
{
	return interval(w->run, w->opts);
}

/* With equal intervals this is the exchange of asgd. */
static void downpour_init(struct worker *w)
{
	struct exchange *s = w->state;
	s->apart = downpour_interval(w) != w->run->sync_every;
	exchange_init(w);
}

static void downpour_push(struct worker *w)
{
	struct exchange *s = w->state;
	struct push by = exchange_push(w);
	s->outstanding = false;
	table_push(s->table, s->sum, &by);
	vec_fill(s->sum, 0);
}

static void downpour_pull(struct worker *w)
{
	struct exchange *s = w->state;
	table_pull(s->table, w->param);
	local_met(w);
}

static void downpour_step(struct worker *w)
{
	struct exchange *s = w->state;
	if (!s->apart) {
		exchange_step(w);
		return;
	}
	s->outstanding = true;
	if (w->optimizer->plain) {
		vec_axpy(s->sum, s->wants.gradient ? 1 : -(float)w->lr, exchange_local_step(w));
	} else { /* the parameter change of the step */
		vec_axpy(s->sum, -1, w->param);
		local_step(w, 1);
		vec_axpy(s->sum, 1, w->param);
	}
	if (w->step % w->run->sync_every == 0)
		consensus_mark(w);
	if (w->step % downpour_interval(w) == 0)
		downpour_push(w);
	if (w->step % w->run->sync_every == 0)
		downpour_pull(w);
}

static void downpour_flush(struct worker *w)
{
	struct exchange *s = w->state;
	if (!s->apart)
		exchange_flush(w);
	else if (s->outstanding)
		downpour_push(w);
}

static double downpour_bytes(const struct worker *w)
{
	double one = table_bytes(w, (double)vec_len(w->param));
	return one / (double)downpour_interval(w) + one / (double)w->run->sync_every;
}

const struct strategy strategy_downpour = {
	.plugin = {.name = "downpour",
		   .summary =
			   "Downpour SGD: push sums of steps, pull the model, each at an interval",
		   .options = downpour_options,
		   .opts_size = sizeof(struct downpour_opts)},
	.refuse = exchange_refuse,
	.terms = exchange_terms,
	.init = downpour_init,
	.step = downpour_step,
	.flush = downpour_flush,
	.rejoin = exchange_rejoin,
	.asynchronous = true,
	.bytes_per_step = downpour_bytes,
	.epoch_time = "steps (step + push / F + pull / X), with F = --downpour.send or X",
	TABLE_SLOTS,
};
