/*
 * table_replay.c - a run repeats the order in which another one's passes came to its tables
 * (--record, then --sim.replay). Whatever else decides the result is the same in both, so that the
 * results are, bit for bit, however long anything takes in either.
 *
 * A pass waits until all that the record has before it have taken place. The order was that of a
 * run, in which nobody waited in a circle; so nobody does here, unless the record is another run's,
 * or was damaged.
 *
 * What the record also decides: whether a push was dropped, whether a worker in its bounds could
 * pull in the pass that it pushed in, and, with backup workers, when a round ended.
 */
#include "runtime/table/table.h"

#include <string.h>

struct turns turns_of(const struct record *r, int table, int shard)
{
	struct turns t = {.table = table, .shard = shard};
	if (!r)
		return t;
	size_t first = 0;
	while (first < r->n && (r->pass[first].table != table || r->pass[first].shard != shard))
		first++;
	t.pass = r->pass + first;
	t.run = r->run;
	while (first + (size_t)t.n < r->n && t.pass[t.n].table == table &&
	       t.pass[t.n].shard == shard)
		t.n++;
	return t;
}

const char *turn_kind(const struct turns *t, int64_t next)
{
	return next < t->n ? t->pass[next].kind : "";
}

/* Could such a pass have been recorded as this kind? */
static bool fits(const char *kind, const struct table_rules *r, const struct pass *p)
{
	bool pulls = p->kind == PASS_SYNC || p->out;
	if (p->kind == PASS_READ)
		return strcmp(kind, "pull") == 0;
	if (p->kind == PASS_ELASTIC)
		return strcmp(kind, "elastic") == 0;
	if (strcmp(kind, "drop") == 0)
		return r->rounds && r->backup > 0;
	if (strcmp(kind, "sync") == 0)
		return pulls && !r->rounds;
	return strcmp(kind, "push") == 0 && (!pulls || r->rounds || r->bounded);
}

static void where(const struct turns *t, char text[64])
{
	snprintf(text, 64, "table %d, shard %d", t->table, t->shard);
}

static const char *name_of(const struct pass *p)
{
	return p->kind == PASS_READ ? "pull" : p->kind == PASS_ELASTIC ? "elastic move" : "push";
}

bool turn_has_come(const struct turns *t, int64_t next, int worker, const struct table_rules *r,
		   const struct pass *p)
{
	const struct arrival *a = &t->pass[next];
	char at[64];
	where(t, at);
	if (next >= t->n)
		failure("the record of run %lld ends after %lld passes over %s, and worker %d "
			"comes with one more, a %s; was it changed since it was made?",
			(long long)t->run, (long long)t->n, at, worker, name_of(p));
	if (a->worker != worker || strcmp(a->kind, "round") == 0)
		return false;
	if (!fits(a->kind, r, p))
		failure("the record of run %lld does not fit: pass %lld over %s is a \"%s\" of "
			"worker %d, which comes with a %s; was it changed since it was made?",
			(long long)t->run, (long long)next, at, a->kind, worker, name_of(p));
	return true;
}

void turn_never_comes(const struct turns *t, int64_t next, int waiting)
{
	char at[64];
	where(t, at);
	failure("the record of run %lld does not fit: pass %lld over %s is of worker %d, which "
		"makes no more before the next barrier, and worker %d waits for it; was it changed "
		"since it was made?",
		(long long)t->run, (long long)next, at, t->pass[next].worker, waiting);
}

void turn_misfits(const struct turns *t, int64_t next)
{
	char at[64];
	where(t, at);
	failure("the record of run %lld does not fit: pass %lld over %s, of worker %d, counts in a "
		"round that is over; was it changed since it was made?",
		(long long)t->run, (long long)next, at, t->pass[next].worker);
}
