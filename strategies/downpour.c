/*
 * downpour.c - Downpour SGD (Dean et al., NIPS 2012): pushes and pulls at intervals of their own.
 *
 *   each step:     v = m v + g;  w -= lr v;  acc -= lr v             local
 *   every F steps: W += c acc;  acc = 0                              c = 1 for sum, 1/N for mean
 *   every X steps: w = W
 *
 * A pull overwrites what has not been pushed yet in w, not in acc: with F > X a trainer runs on a
 * model that lacks its own last steps. W, the model that counts, lives in a table. A push or a pull
 * moves (N - 1) / N P floats, P with servers; acc costs a pass over two vectors a step.
 */
#include "mvbench.h"

struct downpour_opts {
	int64_t send;
};

struct downpour {
	struct table *table;
	struct vec *acc; /* NULL when pushes and pulls coincide: w - w_pulled is the same */
	bool outstanding;
};

#define OWNER struct downpour_opts
static const struct option downpour_options[] = {
	OPTION(send, INT, "send", "0",
	       "mini-batches between pushes, --sync-every are those between pulls; 0: the same "
	       "[steps]",
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

static void downpour_init(struct worker *w)
{
	struct downpour *s = w->state;
	bool same = downpour_interval(w) == w->run->sync_every;
	s->table = table_new(w, w->param, &(struct table_terms){.syncs = same});
	if (!same)
		s->acc = vec_new(w, vec_len(w->param));
}

static void downpour_push(struct worker *w)
{
	struct downpour *s = w->state;
	s->outstanding = false;
	if (!s->acc) {
		table_sync(s->table, w->param, (float)w->weight);
		return;
	}
	table_push(s->table, s->acc, &(struct push){.scale = (float)w->weight});
	vec_fill(s->acc, 0);
}

static void downpour_step(struct worker *w)
{
	struct downpour *s = w->state;
	s->outstanding = true;
	if (!s->acc) {
		sgd_step(w, 1);
	} else {
		if (w->run->weight_decay > 0)
			vec_axpy(w->grad, (float)w->run->weight_decay, w->param);
		vec_sgd(w->param, w->velocity, w->grad, (float)w->lr,
			w->velocity ? (float)w->run->momentum : 0, 0, 1);
		vec_axpy(s->acc, -(float)w->lr, w->velocity ? w->velocity : w->grad);
	}
	if (w->step % downpour_interval(w) == 0)
		downpour_push(w);
	if (s->acc && w->step % w->run->sync_every == 0)
		table_pull(s->table, w->param);
}

static void downpour_flush(struct worker *w)
{
	struct downpour *s = w->state;
	if (s->outstanding)
		downpour_push(w);
}

/* The push came before the barrier; the pull after it gives all the same model. */
static void downpour_rejoin(struct worker *w)
{
	struct downpour *s = w->state;
	table_pull(s->table, w->param);
}

static void downpour_canonical(struct worker *w, struct vec *model)
{
	struct downpour *s = w->state;
	table_get(s->table, model);
}

static void downpour_fini(struct worker *w)
{
	struct downpour *s = w->state;
	table_free(s->table);
	vec_free(s->acc);
}

static double downpour_bytes(const struct worker *w)
{
	double one = table_bytes(w, (double)vec_len(w->param));
	return one / (double)downpour_interval(w) + one / (double)w->run->sync_every;
}

static struct expected downpour_expect(struct costs c, const struct run *run, const void *opts)
{
	double send = (double)interval(run, opts);
	if (send == c.X)
		return EXPECTED(c.steps * (c.T_step + c.T_sync / c.X));
	c.T_push *= c.X / send;
	return EXPECTED(c.steps * (c.T_step + c.T_add + (c.T_push + c.T_pull) / c.X));
}

const struct strategy strategy_downpour = {
	.plugin = {.name = "downpour",
		   .summary =
			   "Downpour SGD: push sums of steps, pull the model, each at an interval",
		   .options = downpour_options,
		   .opts_size = sizeof(struct downpour_opts)},
	.state_size = sizeof(struct downpour),
	.init = downpour_init,
	.step = downpour_step,
	.flush = downpour_flush,
	.rejoin = downpour_rejoin,
	.fini = downpour_fini,
	.canonical = downpour_canonical,
	.asynchronous = true,
	.may_leave = true,
	.tables = true,
	.bytes_per_step = downpour_bytes,
	.expect = downpour_expect,
};
