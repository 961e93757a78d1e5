/*
 * model.c - the costs of simulated work: names, curves, and the figures that they consist of.
 */
#include "sim/model/model.h"
#include "runtime/world/world.h"

#include <stdlib.h>

const char *const cost_names[COSTS] = {
#define ROW(id, name) [COST_##id] = #name,
	COST_LIST(ROW)
#undef ROW
};

double curve_at(const struct curve *c, double x)
{
	int i = 0;
	if (c->n == 0)
		return 0;
	while (i < c->n && c->x[i] < x)
		i++;
	if (i == 0)
		return c->y[0];
	if (i == c->n)
		return c->y[i - 1] * x / c->x[i - 1];
	double part = (x - c->x[i - 1]) / (c->x[i] - c->x[i - 1]);
	return c->y[i - 1] + part * (c->y[i] - c->y[i - 1]);
}

void points_add(struct points *p, const char *name, double x, double value)
{
	struct point next = {.x = x, .value = value};
	snprintf(next.name, sizeof next.name, "%s", name);
	APPEND(p->point, p->n, next);
}
