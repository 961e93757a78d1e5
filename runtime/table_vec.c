/*
 * table_vec.c - the tables of mvbench.h, which strategies call: their vectors and the worker they
 * belong to, on the tables of table.c, which know neither.
 */
#include "table.h"

#include <stdlib.h>

struct table *table_new(struct worker *w, struct vec *init, const struct table_terms *terms)
{
	CHECK(init->dev->ops == &device_cpu, "tables hold host vectors only, not those of %s",
	      init->dev->ops->name);
	CHECK(w->tables, "%s has tables, but does not say so", w->strategy->plugin.name);
	struct table_rules r = {.rows = init->n,
				.columns = 1,
				.updater = updater_find(terms->updater ? terms->updater : "add"),
				.rounds = terms->rounds,
				.backup = terms->backup,
				.bounded = terms->bounded,
				.lead = terms->lead,
				.syncs = terms->syncs,
				.init = terms->init};
	CHECK(r.updater, "no updater %s", terms->updater);
	struct tables *s = w->tables;
	struct table *t;
	if (terms->syncs && s->size == 1 && s->servers == 0 && s->room == 0)
		return table_alias(s, &r, init);
	char *wrong = table_open(&t, s, &r, init->data);
	if (wrong)
		user_error("%s", wrong);
	table_pull(t, init);
	return t;
}

void table_free(struct table *t)
{
	table_close(t);
}

/* A strategy's pass: it covers the whole table, and what goes wrong ends the run. */
static void whole_pass(struct table *t, const struct vec *v, struct pass p)
{
	CHECK(v->n == t->n, "a table of %zu floats is given %zu", t->n, v->n);
	char *wrong = table_pass(t, &p);
	if (wrong)
		panic(__FILE__, __LINE__, "%s", wrong);
}

void table_sync(struct table *t, struct vec *param, float scale)
{
	CHECK(t->rules.syncs, "a table whose terms say nothing of syncs");
	if (t->alias) {
		CHECK(param == t->alias, "a table with one client holds that client's own vector");
		stats_push(t->among->stats, 0);
		t->pushes++;
		return;
	}
	whole_pass(t, param,
		   (struct pass){.kind = PASS_SYNC,
				 .out = param->data,
				 .pull = true,
				 .by = {.scale = scale}});
}

void table_push(struct table *t, const struct vec *g, const struct push *by)
{
	whole_pass(t, g, (struct pass){.kind = PASS_PUSH, .in = g->data, .by = *by});
}

void table_push_pull(struct table *t, const struct vec *g, const struct push *by, struct vec *param)
{
	CHECK(param->n == t->n, "a table of %zu floats is pulled into %zu", t->n, param->n);
	whole_pass(t, g,
		   (struct pass){.kind = PASS_PUSH,
				 .in = g->data,
				 .out = param->data,
				 .pull = true,
				 .by = *by});
}

void table_pull(struct table *t, struct vec *param)
{
	if (!t->alias)
		whole_pass(t, param,
			   (struct pass){.kind = PASS_READ, .out = param->data, .pull = true});
}

void table_elastic(struct table *t, struct vec *param, float alpha)
{
	whole_pass(t, param,
		   (struct pass){.kind = PASS_ELASTIC,
				 .out = param->data,
				 .pull = true,
				 .by = {.scale = alpha}});
}

void table_get(struct table *t, struct vec *out)
{
	if (!t->alias)
		whole_pass(t, out, (struct pass){.kind = PASS_READ, .out = out->data});
	else if (out != t->alias)
		vec_copy(out, t->alias);
}

double table_bytes(const struct worker *w, double n)
{
	double clients = comm_size(w->data_group);
	return sizeof(float) * n * (w->run->servers > 0 ? 1 : (clients - 1) / clients);
}
