/*
 * search.c - ranges, and the points in them that the trials use.
 *
 * The points are Halton's sequence (Numerische Mathematik 2, 1960, pp. 84-90): coordinate j of
 * point i is the radical inverse of i to the j-th prime. They cover the ranges more evenly than
 * random points. The first k points do not depend on the length, so a budget can be raised later.
 * The study's seed sets the start; the sequence is equally good (Wang and Hickernell, Randomized
 * Halton sequences, Mathematical and Computer Modelling 32, 2000). RANGES_MOST limits the
 * dimensions, because with a large prime the first points are uneven.
 */
#include "results/run/study.h"
#include "runtime/config/config.h"

#include <math.h>
#include <string.h>

double halton(size_t dimension, uint64_t index)
{
	static const uint64_t prime[RANGES_MOST] = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29};
	CHECK(dimension < RANGES_MOST, "dimension %zu of %d", dimension, RANGES_MOST);
	double u = 0, part = 1;
	for (; index > 0; index /= prime[dimension]) {
		part /= (double)prime[dimension];
		u += part * (double)(index % prime[dimension]);
	}
	return u;
}

/* ---- Reading ------------------------------------------------------------- */

void range_fini(struct range *r)
{
	axis_fini(&r->list);
	free(r->name);
	free(r->text);
}

void search_free(struct search *s)
{
	for (size_t i = 0; i < s->ranges; i++)
		range_fini(&s->range[i]);
	free(s->range);
	*s = (struct search){.range = NULL};
}

/* Options that define what is compared (strategy, data, duration) are not drawn: tuning would only
 * pick the best of them. */
static bool may_be_drawn(const char *name)
{
	const struct option *o = option_find(run_options, name);
	return !o || !(o->incidental || o->core.compared);
}

static char *read_list(struct range *r)
{
	TRY(axis_read(&r->list, r->name, r->text));
	if (r->list.n > 1)
		return NULL;
	return sentence(
		"%s: \"%s\" is a single value; give a range such as 0.001..0.3 log, or a list",
		r->name, r->text);
}

static char *read_ends(struct range *r)
{
	struct span s;
	const struct option *o = NULL;
	bool plain = span_cut(&s, r->text) && !*s.amount && strcmp(s.word, "by") != 0;
	TRY(config_check(r->name, s.low, &o));
	TRY(config_check(r->name, s.high, &o));
	if (!plain || (o->type != OPT_INT && o->type != OPT_REAL))
		return sentence("%s: \"%s\" is not a range of plain numbers; give a list of values",
				r->name, r->text);
	r->low = s.from;
	r->high = s.to;
	r->log = *s.word == 'l';
	r->whole = o->type == OPT_INT;
	if (r->low >= r->high)
		return sentence("%s: the range \"%s\" is empty; the lower end comes first", r->name,
				r->text);
	if (r->log && r->low <= 0)
		return sentence(
			"%s: the range \"%s\" begins at %g; a logarithmic range must begin above 0",
			r->name, r->text, r->low);
	return NULL;
}

char *range_read(struct range *r, const char *name, const char *text)
{
	*r = (struct range){.name = must(strdup(name)), .text = must(strdup(text))};
	if (!may_be_drawn(name))
		return sentence("%s: it defines what is compared and cannot be searched; set it in "
				"another section or in [defaults]",
				name);
	return strstr(text, "..") ? read_ends(r) : read_list(r);
}

bool option_applies(const char *name, const struct config *c)
{
	const char *const owner[] = {c->run.workload, c->run.strategy, c->run.optimizer,
				     c->run.codec};
	size_t n = strcspn(name, ".");
	if (strcmp(name, "sync-every") == 0)
		return strategy_has_interval(c->strategy);
	bool applies = !name[n] || option_find(run_options, name);
	for (size_t i = 0; i < sizeof owner / sizeof *owner; i++)
		applies |= strncmp(name, owner[i], n) == 0 && !owner[i][n];
	return applies;
}

/* ---- Drawing ------------------------------------------------------------- */

static double between(double low, double high, bool log_scale, double u)
{
	return log_scale ? exp(log(low) + u * (log(high) - log(low))) : low + u * (high - low);
}

char *range_at(const struct range *r, double u)
{
	if (r->list.n)
		return must(strdup(r->list.value[(size_t)(u * (double)r->list.n)]));
	if (r->whole)
		return sentence("%.0f",
				fmin(floor(between(r->low, r->high + 1, r->log, u)), r->high));
	double x = between(r->low, r->high, r->log, u);
	char *text = sentence("%.4g", x); /* short, if the rounded value stays in the range */
	double rounded = strtod(text, NULL);
	if (rounded >= r->low && rounded <= r->high)
		return text;
	free(text);
	return sentence("%.17g", x);
}
