/*
 * asgd.c - asynchronous SGD on a parameter server (Multiverso's default): nobody waits for anybody.
 *
 *   each step:     v = m v + g;  w -= lr v                           local, on what was pulled
 *   every X steps: W += c (w - w_pulled);  w = w_pulled = W          c = 1 for sum, 1/N for mean
 *
 * W, the model that counts, lives in a table of one shard a trainer. A sync moves the shards of the
 * others both ways: 2 (N - 1) / N P floats. A barrier stands between a push and a pull, as in
 * Multiverso's tutorial, so that all go on from one model.
 */
#include "../mvbench.h"

struct asgd {
	struct table *table;
	bool outstanding; /* steps since the last sync */
};

static void asgd_init(struct worker *w)
{
	struct asgd *s = w->state;
	s->table = table_new(w, w->param);
}

static void asgd_sync(struct worker *w)
{
	struct asgd *s = w->state;
	staleness_add(w, table_sync(s->table, w->param, (float)w->weight));
	s->outstanding = false;
}

static void asgd_step(struct worker *w)
{
	struct asgd *s = w->state;
	sgd_step(w, 1);
	s->outstanding = true;
	if (w->step % w->run->sync_every == 0)
		asgd_sync(w);
}

static void asgd_flush(struct worker *w)
{
	struct asgd *s = w->state;
	if (s->outstanding)
		asgd_sync(w);
}

/* The push came before the barrier; the pull after it gives all the same model. */
static void asgd_rejoin(struct worker *w)
{
	struct asgd *s = w->state;
	table_pull(s->table, w->param);
}

static void asgd_canonical(struct worker *w, struct vec *model)
{
	struct asgd *s = w->state;
	table_get(s->table, model);
}

static void asgd_fini(struct worker *w)
{
	struct asgd *s = w->state;
	table_free(s->table);
}

static double asgd_bytes(const struct worker *w)
{
	double n = comm_size(w->data_group);
	return 2 * (n - 1) / n * sizeof(float) * (double)vec_len(w->param) /
	       (double)w->run->sync_every;
}

const struct strategy strategy_asgd = {
	.plugin =
		{.name = "asgd",
		 .summary =
			 "asynchronous SGD: push what X steps changed to a server, pull its model"},
	.state_size = sizeof(struct asgd),
	.init = asgd_init,
	.step = asgd_step,
	.flush = asgd_flush,
	.rejoin = asgd_rejoin,
	.fini = asgd_fini,
	.canonical = asgd_canonical,
	.asynchronous = true,
	.bytes_per_step = asgd_bytes,
};
