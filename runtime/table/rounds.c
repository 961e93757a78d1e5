/*
 * rounds.c - bulk-synchronous rounds, backup workers and staleness bounds; rounds.h defines them.
 */
#include "runtime/table/rounds.h"

bool rounds_away(const struct rounds *r, int k, int of)
{
	return r->member[k].barriers > r->member[of].passed;
}

bool rounds_too_far_ahead(const struct rounds *r, int of, int64_t pushes)
{
	const struct member *m = r->member;
	int64_t own = pushes - m[of].base;
	for (int k = 0; k < r->size; k++)
		if (k != of && !rounds_away(r, k, of) && own - (m[k].pushes - m[k].base) > r->lead)
			return true;
	return false;
}

bool rounds_full(const struct rounds *r)
{
	return !r->joins && r->now->counted == r->size - r->backup;
}

bool rounds_late(const struct rounds *r, int k)
{
	if (rounds_full(r) || r->joins)
		return !r->joins;
	for (int i = 0; i < r->size; i++)
		if (i != k && !rounds_away(r, i, k))
			return r->member[k].in != r->now->over;
	return false;
}

int64_t rounds_push(struct rounds *r, int k, bool counts, bool idle)
{
	struct member *m = &r->member[k];
	if (counts) {
		m->in = r->now->over;
		m->pushed = m->in + 1;
	}
	idle = idle && r->backup > 0;
	r->now->counted += counts && !idle;
	r->now->idle += counts && idle;
	return m->in;
}

enum round_state rounds_state(const struct rounds *r, int64_t in, int of, int *away)
{
	const struct member *m = r->member;
	int64_t possible = r->now->counted, needed = r->size - r->backup;
	if (r->now->over != in)
		return ROUND_OVER;
	*away = -1;
	for (int k = 0; k < r->size; k++) {
		if (m[k].pushed > in)
			continue;
		if (!rounds_away(r, k, of))
			possible++;
		else if (m[k].barriers >= MEMBER_GONE && r->backup == 0)
			needed--;
		else if (*away < 0 || m[k].pushes < m[*away].pushes)
			*away = k;
	}
	if (possible < needed && r->backup == 0)
		return ROUND_INCOMPLETE;
	if (r->now->counted < (possible < needed ? possible : needed))
		return ROUND_OPEN;
	if (r->now->applied != r->now->counted + r->now->idle)
		return ROUND_OPEN;
	bool early = r->grace && !r->now->waited && r->now->counted < possible;
	return early ? ROUND_GRACE : ROUND_FULL;
}

void rounds_end(struct rounds *r)
{
	*r->now = (struct round){.over = r->now->over + 1};
}

void rounds_arrive(struct rounds *r, int k)
{
	r->member[k].base = r->member[k].pushes;
	r->member[k].barriers++;
}

void rounds_leave(struct rounds *r, int k)
{
	r->member[k].barriers = MEMBER_GONE;
}

void rounds_resume(struct rounds *r, int k)
{
	r->member[k].passed++;
	r->member[k].in = r->now->over;
}
