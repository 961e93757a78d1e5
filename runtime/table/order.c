/*
 * order.c - a run repeats the recorded order of another run's operations on its tables (--record,
 * then --sim.replay). Everything else that decides the result is the same in both runs. The results
 * are therefore equal bit for bit, however long anything takes in either.
 *
 * An operation waits until all operations before it in the recording have taken place. The recorded
 * run had no circular wait, so the replay has none either, unless the recording is another run's or
 * is damaged.
 *
 * The recording also decides whether a push was dropped; whether a worker within its staleness
 * bound could pull in the operation of its push; and, with backup workers, when a round ended.
 *
 * Arrivals at barriers need no place in the recording. A late push counts if all other workers are
 * at a barrier: the recording has it as counted, whether or not they are there in the replay. A
 * round that ends early because workers are at a barrier can only end later in the replay, and no
 * operation of the shard comes between.
 */
#include "runtime/table/rounds.h"
#include "runtime/table/table.h"

#include <string.h>

struct replay_cursor replay_cursor(const struct recording *r, int table, int shard)
{
	struct replay_cursor t = {.table = table, .shard = shard};
	if (!r)
		return t;
	t.arrival = r->arrival;
	t.run = r->run;
	for (const struct arrival *a = r->arrival; a < r->arrival + r->n; a++)
		if (a->table == table && a->shard == shard && t.n++ == 0)
			t.arrival = a; /* they are sorted */
	return t;
}

const char *replay_kind(const struct replay_cursor *t, int64_t next)
{
	return next < t->n ? t->arrival[next].kind : "";
}

/* Can the recording have this kind for such an operation? */
static bool fits(const char *kind, const struct table_rules *r, const struct table_op *p)
{
	bool pulls = p->kind == OP_SYNC || p->out;
	if (p->kind == OP_READ)
		return strcmp(kind, "pull") == 0;
	if (p->kind == OP_ELASTIC)
		return strcmp(kind, "elastic") == 0;
	if (strcmp(kind, "drop") == 0)
		return r->rounds && r->backup > 0;
	if (strcmp(kind, "sync") == 0)
		return pulls && !r->rounds;
	return strcmp(kind, "push") == 0 && (!pulls || r->rounds || r->bounded);
}

/* Ends the run: operation number `next` cannot have been as recorded (what: from the heap). */
static _Noreturn void misfit(const struct replay_cursor *t, int64_t next, char *what)
{
	failure("the recording of run %lld does not fit: operation %lld on table %d, shard %d%s; "
		"was it changed since it was made?",
		(long long)t->run, (long long)next, t->table, t->shard, what);
}

static const char *name_of(const struct table_op *p)
{
	return p->kind == OP_READ ? "pull" : p->kind == OP_ELASTIC ? "elastic move" : "push";
}

bool replay_due(const struct replay_cursor *t, int64_t next, int worker,
		const struct table_rules *r, const struct rounds *others, const struct table_op *p)
{
	const struct arrival *a = &t->arrival[next];
	if (next >= t->n)
		failure("the recording of run %lld ends after %lld operations over table %d, shard "
			"%d, but worker %d makes one more, a %s; was it changed since it was "
			"made?",
			(long long)t->run, (long long)t->n, t->table, t->shard, worker, name_of(p));
	bool round = strcmp(a->kind, "round") == 0;
	if (a->worker != worker && !round && rounds_away(others, a->worker, worker))
		misfit(t, next,
		       sentence(" is of worker %d, which makes no more before the next barrier, "
				"and worker %d waits for it",
				a->worker, worker));
	if (a->worker != worker || round)
		return false;
	if (!fits(a->kind, r, p))
		misfit(t, next,
		       sentence(" is a \"%s\" of worker %d, which makes a %s", a->kind, worker,
				name_of(p)));
	return true;
}

bool replay_drops(const struct replay_cursor *t, int64_t next, bool late, bool full)
{
	if (!t->arrival)
		return late;
	if (strcmp(replay_kind(t, next), "drop") == 0)
		return true;
	if (full)
		misfit(t, next,
		       sentence(", of worker %d, counts in a round that is full",
				t->arrival[next].worker));
	return false;
}
