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
 */
#include "strategies/exchange.h"

struct asgd_opts {
	struct updater_opts updater;
};

#define OWNER struct asgd_opts
static const struct option asgd_options[] = {
	UPDATER_OPTIONS,
	{0},
};

const struct strategy strategy_asgd = {
	.plugin =
		{.name = "asgd",
		 .summary =
			 "asynchronous SGD: push what X steps changed to a server, pull its model",
		 .options = asgd_options,
		 .opts_size = sizeof(struct asgd_opts)},
	.refuse = exchange_refuse,
	.terms = exchange_terms,
	.init = exchange_init,
	.epoch_time = EXCHANGE_TIME,
	EXCHANGE_SLOTS,
};
