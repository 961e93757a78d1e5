/*
 * vectors.c - the tables of mvbench.h, which strategies call. They connect vectors and workers to
 * the tables of table.c, which know neither.
 *
 * Placement gpu takes vectors of a device where they are. The other placements take floats of the
 * host: vectors go there and back through pinned memory, which costs a copy each way.
 */
#include "runtime/config/run.h"
#include "runtime/table/coded.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct table_terms worker_terms(const struct worker *w)
{
	const struct strategy *s = w->loop->strategy;
	CHECK(s->terms, "strategy %s has tables, but no .terms", s->plugin.name);
	return s->terms(w->run, w->opts);
}

struct table *table_new(struct worker *w, struct vec *init)
{
	const struct table_terms terms = worker_terms(w);
	struct tables *s = w->loop->tables;
	struct table_rules r = {.rows = terms.each ? (size_t)s->size : init->n,
				.columns = terms.each ? init->n : 1,
				.by_rows = terms.each,
				.updater = updater_find(terms.updater ? terms.updater : "add"),
				.rounds = terms.rounds,
				.backup = terms.backup,
				.joins = terms.joins,
				.grace = (nsec)llround(1e9 * terms.grace),
				.mean = terms.mean,
				.full = terms.joins ? 0 : s->size - terms.backup,
				.bounded = terms.bounded,
				.lead = terms.lead,
				.syncs = terms.syncs,
				.alone = terms.syncs && w->loop->tables->size == 1,
				.lengths = !vec_has_data(init),
				.init = terms.init};
	CHECK(r.updater, "no updater %s", terms.updater);
	struct table *t;
	CHECK(init->dev == s->dev || (!s->dev && !init->dev->ops->peer),
	      "these tables do not hold vectors of %s", init->dev->ops->name);
	/* a given time of pushes also applies to pushes of one worker */
	bool charged = world_is_virtual && strcmp(w->run->sim_update_time, "auto") != 0;
	if (terms.syncs && w->run->sync_every == 1 && s->size == 1 && s->servers == 0 &&
	    s->room == 0 && !charged)
		return table_alias(s, &r, init);
	float *first AUTOFREE =
		r.lengths || terms.each ? NULL : must(malloc((init->n + 1) * sizeof *first));
	if (first)
		vec_get(init, first);
	r.pushes = pushes_new(w, init->n, r.lengths);
	char *wrong = table_open(&t, s, &r, first);
	if (wrong)
		user_error("%s", wrong);
	if (terms.each) {
		t->row = s->rank;
		table_push(t, init, &(struct push){.scale = 1});
		link_barrier(s->workers);
	}
	table_pull(t, init);
	return t;
}

void table_of(struct table *t, int trainer)
{
	t->row = trainer;
}

/* ---- Operations ---- */

static size_t floats_of_op(const struct table *t)
{
	return t->rules.by_rows ? t->rules.columns : t->n;
}

static void stage_in(struct table *t, struct table_op *p)
{
	struct device *d = t->among->dev;
	nsec since = clock_now();
	if (p->in)
		d->ops->get(d, t->staged[0], p->in, floats_of_op(t));
	if (p->kind == OP_SYNC || p->kind == OP_ELASTIC) /* these read out before they write it */
		d->ops->get(d, t->staged[1], p->out, floats_of_op(t));
	p->in = p->in ? t->staged[0] : NULL;
	p->out = p->out ? t->staged[1] : NULL;
	stats_spent(t->among->stats, TRACE_PACK, since, -1);
}

static void stage_out(struct table *t, struct vec *out)
{
	struct device *d = t->among->dev;
	nsec since = clock_now();
	d->ops->put(d, out->data, t->staged[1], floats_of_op(t));
	stats_spent(t->among->stats, TRACE_PACK, since, -1);
}

/* A strategy's operation: it covers the whole table, or a row, and a failure ends the run. The
 * device's computation ends before it: that is no communication, and no worker waits for it at a
 * lock. Returns the operation with its results. */
static struct table_op whole_op(struct table *t, const struct vec *in, struct vec *out,
				struct table_op p)
{
	struct device *d = t->among->dev;
	const size_t n = floats_of_op(t);
	CHECK(!in || in->n == n, "a table of %zu floats is given %zu", n, in->n);
	CHECK(!out || out->n == n, "a table of %zu floats is pulled into %zu", n, out->n);
	p.row = t->rules.by_rows ? &t->row : NULL;
	p.rows = t->rules.by_rows;
	p.in = in ? vec_floats(in, 0) : NULL;
	p.out = out ? vec_floats(out, 0) : NULL;
	device_sync(d);
	if (t->staged[0])
		stage_in(t, &p);
	char *wrong = table_do(t, &p);
	if (wrong)
		panic(__FILE__, __LINE__, "%s", wrong);
	if (t->staged[0] && out)
		stage_out(t, out);
	return p;
}

bool table_sync(struct table *t, struct vec *param, const struct push *by)
{
	CHECK(t->rules.syncs, "a sync on a table whose terms do not include syncs");
	if (t->alias) {
		CHECK(param == t->alias, "a table with one client holds that client's own vector");
		stats_push(t->among->stats, 0);
		t->pushes++;
		return true;
	}
	return !whole_op(t, NULL, param,
			 (struct table_op){.kind = OP_SYNC, .pull = true, .by = *by})
			.dropped;
}

bool table_push(struct table *t, const struct vec *g, const struct push *by)
{
	return !whole_op(t, g, NULL, (struct table_op){.kind = OP_PUSH, .by = *by}).dropped;
}

bool table_push_pull(struct table *t, const struct vec *g, const struct push *by, struct vec *param)
{
	return !whole_op(t, g, param, (struct table_op){.kind = OP_PUSH, .pull = true, .by = *by})
			.dropped;
}

void table_pull(struct table *t, struct vec *param)
{
	if (!t->alias)
		whole_op(t, NULL, param, (struct table_op){.kind = OP_READ, .pull = true});
}

void table_elastic(struct table *t, struct vec *param, float alpha)
{
	whole_op(t, NULL, param,
		 (struct table_op){.kind = OP_ELASTIC, .pull = true, .by = {.scale = alpha}});
}

void table_get(struct table *t, struct vec *out)
{
	if (!t->alias)
		whole_op(t, NULL, out, (struct table_op){.kind = OP_READ});
	else if (out != t->alias)
		vec_copy(out, t->alias);
}

double table_bytes(const struct worker *w, double n)
{
	double clients = comm_size(w->data_group);
	return sizeof(float) * n * (w->run->servers > 0 ? 1 : (clients - 1) / clients);
}

static double bytes_of_way(const struct worker *w, const struct table *t, enum table_way way)
{
	const struct pushes *k = t->rules.pushes;
	return table_bytes(w, k ? (double)pushes_bytes(k, way) / sizeof(float) : (double)t->n);
}

double table_push_bytes(const struct worker *w, const struct table *t)
{
	return bytes_of_way(w, t, WAY_PUSH);
}

double table_pull_bytes(const struct worker *w, const struct table *t)
{
	return bytes_of_way(w, t, WAY_PULL);
}

/* ---- Shared counts ---------------------------------------------------------------- */

/* A table of one row: it lies on one server. It has floats even if the model has none. */
struct counts {
	struct table *table;
	struct vec *in, *out; /* [n] */
	float *change, *now;  /* [n], on the host */
	bool on_host;         /* they are the memory of in and out */
	int64_t next;         /* of a counter: the next number if no other worker pushes */
};

struct counts *counts_new(struct worker *w, size_t n)
{
	struct counts *c = must(calloc(1, sizeof *c));
	const struct table_rules r = {
		.rows = 1, .columns = n, .updater = updater_find("add"), .counter = true};
	c->in = vec_new(w, n);
	c->out = vec_new(w, n);
	c->change = must(calloc(n, sizeof *c->change));
	c->now = must(calloc(n, sizeof *c->now));
	c->on_host = !vec_has_data(c->in);
	if (c->on_host) {
		c->in->data = c->change;
		c->out->data = c->now;
	}
	char *wrong = table_open(&c->table, w->loop->tables, &r, NULL);
	CHECK(!wrong, "%s", wrong);
	return c;
}

void counts_change(struct counts *c, size_t at, float by)
{
	c->change[at] += by;
}

const float *counts_add(struct counts *c, const size_t *at, size_t n, float by)
{
	const struct table_op push = {.kind = OP_PUSH, .pull = true, .by = {.scale = 1}};
	for (size_t i = 0; i < n; i++)
		counts_change(c, at[i], by);
	if (!c->on_host)
		vec_put(c->in, c->change);
	whole_op(c->table, c->in, c->out, push);
	if (!c->on_host)
		vec_get(c->out, c->now);
	memset(c->change, 0, c->in->n * sizeof *c->change);
	return c->now;
}

void counts_free(struct counts *c)
{
	if (!c)
		return;
	table_free(c->table);
	vec_free(c->in);
	vec_free(c->out);
	free(c->change);
	free(c->now);
	free(c);
}

/* ---- A counter -------------------------------------------------------------------- */

/* One count without meaning. Pushes are numbered, and a push returns how many other pushes came
 * since this worker's last. It therefore knows its own number, in any placement. */
struct counts *counter_new(struct worker *w)
{
	struct counts *c = counts_new(w, 1);
	table_pull(c->table, c->out);
	return c;
}

int64_t counter_next(struct counts *c)
{
	const struct table_op push = {.kind = OP_PUSH, .pull = true};
	int64_t others = whole_op(c->table, c->in, c->out, push).staleness;
	c->next += others + 1;
	return c->next - 1;
}
