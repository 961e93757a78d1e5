/*
 * account.c - what a strategy can ask about the current epoch, and report about it.
 */
#include "runtime/train/trainer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void worker_charge(const struct worker *w, double floats)
{
	(void)w;
	world_charge(floats);
}

/* The device's tally is that of the whole epoch: losses taken from it earlier are added up here. */
double worker_loss(struct worker *w)
{
	struct tally t;
	CHECK(!w->loop->dev->in_graph,
	      "strategy %s: worker_loss is called in a step that a device captures as a graph: do "
	      "not "
	      "set .local",
	      w->loop->strategy->plugin.name);
	tally_take(w, &t);
	tally_add(&w->loop->account->taken, &t);
	return t.rows ? t.loss / (double)t.rows : NAN;
}

double worker_speed(struct worker *w)
{
	struct speeds *s = w->loop->speeds;
	if (!s) {
		s = w->loop->speeds = must(calloc(1, sizeof *s));
		s->each = counts_new(w, (size_t)w->trainers);
		return 1;
	}
	if (s->busy > 0) {
		float now = (float)(1e9 * (double)s->steps / (double)s->busy);
		counts_change(s->each, (size_t)w->rank, now - s->mine);
		s->mine = now;
	}
	s->steps = s->busy = 0;
	const float *each = counts_add(s->each, NULL, 0, 0);
	float most = 0;
	for (int k = 0; k < w->trainers; k++)
		most = each[k] > most ? each[k] : most;
	return most > 0 ? each[w->rank] / most : 1;
}

void speeds_free(struct speeds *s)
{
	if (s)
		counts_free(s->each);
	free(s);
}

void values_add(struct epoch_values *r, const struct epoch_value *more)
{
	int i = 0;
	while (i < r->n && strcmp(r->of[i].name, more->name) != 0)
		i++;
	CHECK(i < REPORTS_MOST, "worker_report: \"%s\" is one name too many; at most %d",
	      more->name, REPORTS_MOST);
	if (i == r->n) {
		r->of[i] = *more;
		r->n++;
	} else {
		r->of[i].sum += more->sum;
		r->of[i].count += more->count;
	}
}

void evaluation_metric(struct worker *w, const char *name, double sum, double rows)
{
	struct epoch_value more = {.sum = sum, .count = rows};
	snprintf(more.name, sizeof more.name, "%s", name);
	values_add(&w->loop->account->metrics, &more);
}

void worker_report(struct worker *w, const char *name, double value)
{
	struct epoch_value more = {.sum = value, .count = 1};
	size_t n = strlen(name);
	CHECK(n > 0 && n < sizeof more.name,
	      "strategy %s: worker_report: the name \"%s\" has %zu characters",
	      w->loop->strategy->plugin.name, name, n);
	memcpy(more.name, name, n);
	if (!isnan(value))
		values_add(&w->loop->account->values, &more);
}
