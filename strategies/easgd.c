/*
 * easgd.c - elastic averaging SGD (Zhang, Choromanska, LeCun, NIPS 2015): trainers and a centre c
 * on the server pull at each other.
 *
 *   each step:     v = m v + g;  w -= lr v                           local
 *   every X steps: d = alpha (w - c);  w -= d;  c += d               alpha = beta / N
 *
 * The model that counts is the centre; what it gains the trainers lose. An exchange moves
 * 2 (N - 1) / N P floats, 2 P with servers. --reduce does not matter: beta takes its place.
 */
#include "strategies/exchange.h"

struct easgd_opts {
	double beta;
};

#define OWNER struct easgd_opts
static const struct option easgd_options[] = {
	OPTION(beta, REAL, "beta", "0.9",
	       "sum of the trainers' pulls on the centre, alpha = beta / N [factor]", .min = 0,
	       .max = 1),
	{0},
};

static void easgd_init(struct worker *w)
{
	struct exchange *s = w->state;
	s->table = table_new(w, w->param, &(struct table_terms){.init = TABLE_MASTER});
}

static void easgd_step(struct worker *w)
{
	const struct easgd_opts *o = w->opts;
	struct exchange *s = w->state;
	sgd_step(w, 1);
	if (w->step % w->run->sync_every != 0)
		return;
	consensus_mark(w);
	table_elastic(s->table, w->param, (float)(o->beta / (double)comm_size(w->data_group)));
}

static struct expected easgd_expect(struct costs c, const struct run *run, const void *opts)
{
	(void)run, (void)opts;
	return EXPECTED(c.steps * (c.T_step + c.T_elastic / c.X));
}

const struct strategy strategy_easgd = {
	.plugin = {.name = "easgd",
		   .summary = "elastic averaging: trainers and a centre pull at each other",
		   .options = easgd_options,
		   .opts_size = sizeof(struct easgd_opts)},
	.init = easgd_init,
	.step = easgd_step,
	.asynchronous = true,
	.bytes_per_step = exchange_bytes,
	.expect = easgd_expect,
	TABLE_SLOTS,
};
