/*
 * check_rounds.c - explores every order in which three workers push, end a push, wait and leave
 * early at a table, between two barriers and after. It visits each state once and checks the
 * invariants in it.
 */
#include "runtime/table/rounds.h"
#include "runtime/table/table.h"
#include "tests/suites.h"

#include <stdlib.h>
#include <string.h>

enum { WORKERS = 3, STATES = 1 << 20 };

/* A worker's state. PUSHING: its push is counted, but not applied. LEFT: at a barrier. */
enum { FREE, PUSHING, WAITING, LEFT, DENIED };

/* The whole state. */
struct world {
	struct round now;
	struct member member[WORKERS];
	int64_t round[WORKERS]; /* of its current push */
	int doing[WORKERS];
};

static uint64_t *seen; /* [STATES] hashes, open addressing; 0 = free */
static size_t states;
static int64_t backup, lead;
static bool joins, grace;
static int64_t segments, pushes; /* their number, each ends at a barrier; pushes in each */

static struct rounds rounds_of(struct world *w)
{
	return (struct rounds){.now = &w->now,
			       .member = w->member,
			       .size = WORKERS,
			       .backup = backup,
			       .joins = joins,
			       .grace = grace,
			       .lead = lead};
}

static bool is_new(const struct world *w)
{
	uint64_t h = 14695981039346656037U;
	const unsigned char *byte = (const void *)w;
	for (size_t i = 0; i < sizeof *w; i++)
		h = (h ^ byte[i]) * 1099511628211U;
	h += h == 0;
	size_t at = (h >> 20) % STATES;
	for (; seen[at]; at = (at + 1) % STATES)
		if (seen[at] == h)
			return false;
	seen[at] = h;
	ck_assert_uint_lt(++states, STATES / 2);
	return true;
}

static int count(const struct world *w, int doing)
{
	int n = 0;
	for (int k = 0; k < WORKERS; k++)
		n += w->doing[k] == doing;
	return n;
}

/* Worker `of` ends the round. It must have N - backup pushes, or one of every worker that can still
 * push, because the others are at a barrier that `of` has not passed; if late ones join, it may
 * have more, and before the end of its grace it has all. */
static void check_end(const struct world *w, int of)
{
	int64_t could = w->now.counted;
	int away = 0;
	for (int k = 0; k < WORKERS; k++) {
		bool gone = w->doing[k] == LEFT && w->member[k].barriers > w->member[of].passed;
		away += gone;
		could += !gone && w->member[k].pushed <= w->now.over;
	}
	ck_assert_int_eq(w->now.applied, w->now.counted);
	if (joins) {
		ck_assert(w->now.counted >= WORKERS - backup || w->now.counted == could);
		ck_assert(!grace || w->now.waited || w->now.counted == could);
		return;
	}
	ck_assert_int_le(w->now.counted, WORKERS - backup);
	if (away == 0)
		ck_assert_int_eq(w->now.counted, WORKERS - backup);
	else if (w->now.counted < WORKERS - backup)
		ck_assert_int_eq(w->now.counted, could);
	if (backup == 0)
		ck_assert_int_eq(w->now.counted, WORKERS);
}

/* Worker k arrives at a barrier if `leaves` is true or it has made its pushes. If all have arrived,
 * it resumes. false: neither. */
static bool step_at_barrier(struct world *w, int k, bool leaves)
{
	struct member *m = &w->member[k];
	struct rounds r = rounds_of(w);
	if (w->doing[k] == FREE && (leaves || m->pushes >= pushes * (m->barriers + 1))) {
		rounds_arrive(&r, k);
		w->doing[k] = LEFT;
		return true;
	}
	if (w->doing[k] != LEFT || m->barriers == segments)
		return false;
	for (int i = 0; i < WORKERS; i++)
		if (w->member[i].barriers < m->barriers)
			return false;
	rounds_resume(&r, k);
	w->doing[k] = FREE;
	return true;
}

/* ---- Rounds ------------------------------------------------------------------------ */

/* Worker k makes its next step; false: it has none now. leaves: it goes to a barrier where it may
 * choose. */
static bool step_in_rounds(struct world *w, int k, bool leaves)
{
	struct rounds r = rounds_of(w);
	struct member *m = &w->member[k];
	int away;
	bool late;
	if (step_at_barrier(w, k, leaves))
		return true;
	switch (w->doing[k]) {
	case FREE:
		m->pushes++;
		late = rounds_late(&r, k);
		if (backup == 0 || joins)
			ck_assert(!late);
		w->round[k] = rounds_push(&r, k, !late, false);
		w->doing[k] = late ? WAITING : PUSHING;
		return true;
	case PUSHING:
		w->now.applied++;
		w->doing[k] = WAITING;
		return true;
	case WAITING:
		switch (rounds_state(&r, w->round[k], k, &away)) {
		case ROUND_OPEN:
			return false;
		case ROUND_GRACE: /* it may be over at any time */
			ck_assert(grace && joins && !w->now.waited);
			w->now.waited = leaves;
			return leaves;
		case ROUND_FULL:
			check_end(w, k);
			rounds_end(&r);
			ck_assert_int_eq(w->now.over, w->round[k] + 1);
			break;
		case ROUND_INCOMPLETE:
			ck_assert_int_eq(backup, 0);
			ck_assert_int_eq(w->doing[away], LEFT);
			ck_assert_int_le(w->member[away].pushed, w->round[k]);
			w->doing[k] = DENIED;
			return true;
		case ROUND_OVER:
			break;
		}
		m->in = w->now.over;
		w->round[k] = 0;
		w->doing[k] = FREE;
		return true;
	}
	return false;
}

/* ---- Staleness bound --------------------------------------------------------------- */

static bool step_in_lead(struct world *w, int k, bool leaves)
{
	struct rounds r = rounds_of(w);
	struct member *m = &w->member[k];
	if (step_at_barrier(w, k, leaves))
		return true;
	if (w->doing[k] == FREE) {
		m->pushes++;
		w->doing[k] = WAITING;
		return true;
	}
	if (w->doing[k] != WAITING || rounds_too_far_ahead(&r, k, m->pushes))
		return false;
	for (int i = 0; i < WORKERS; i++)
		if (w->member[i].barriers <= m->passed)
			ck_assert_int_le(m->pushes - m->base -
						 (w->member[i].pushes - w->member[i].base),
					 lead);
	w->doing[k] = FREE;
	return true;
}

/* No worker waits forever: where no worker has a next step, all have left or been refused. */
static void explore(struct world w, bool (*step)(struct world *w, int k, bool leaves))
{
	bool stuck = true;
	if (!is_new(&w))
		return;
	for (int k = 0; k < WORKERS; k++)
		for (int leaves = 0; leaves < 2; leaves++) {
			struct world next = w;
			if (!step(&next, k, leaves))
				continue;
			stuck = false;
			explore(next, step);
		}
	if (stuck)
		ck_assert_msg(count(&w, LEFT) + count(&w, DENIED) == WORKERS,
			      "backup %d, lead %d: of %d workers, %d wait forever in round %d",
			      (int)backup, (int)lead, WORKERS, count(&w, WAITING), (int)w.now.over);
}

static void explore_all(bool (*step)(struct world *w, int k, bool leaves), size_t least)
{
	struct world begin;
	memset(&begin, 0, sizeof begin);
	seen = calloc(STATES, sizeof *seen);
	states = 0;
	explore(begin, step);
	ck_assert_uint_gt(states, least);
	free(seen);
}

TEST(rounds_end_with_enough_pushes, 2 * WORKERS - 1)
{
	backup = _i % WORKERS;
	segments = 1 + _i / WORKERS;
	pushes = segments == 1 ? 3 : 2;
	explore_all(step_in_rounds, 400);
}

TEST(rounds_of_a_quorum_end_with_late_pushes, 2 * WORKERS)
{
	backup = _i % WORKERS;
	grace = _i / WORKERS;
	segments = 1;
	pushes = 3;
	joins = true;
	explore_all(step_in_rounds, 400);
	joins = grace = false;
}

TEST(workers_stay_within_staleness_bound, 3)
{
	backup = 0;
	lead = _i;
	segments = pushes = 2;
	explore_all(step_in_lead, 200);
}

/* ---- Single cases ------------------------------------------------------------------ */

TEST(push_after_full_round_is_late)
{
	struct world w = {.doing = {0}};
	int away;
	backup = 1;
	struct rounds r = rounds_of(&w);
	for (int k = 0; k < 2; k++) {
		ck_assert(!rounds_late(&r, k));
		rounds_push(&r, k, true, false);
		w.now.applied++;
	}
	ck_assert(rounds_late(&r, 2)); /* the round is full */
	ck_assert_int_eq(rounds_state(&r, 0, 0, &away), ROUND_FULL);
	rounds_end(&r);
	ck_assert(rounds_late(&r, 2)); /* it is over */
	ck_assert_int_eq(rounds_state(&r, 0, 0, &away), ROUND_OVER);
	w.member[2].in = 1;
	ck_assert(!rounds_late(&r, 2));
}

TEST(late_push_joins_the_current_round)
{
	struct world w = {.now = {.over = 3}, .doing = {0}};
	int away;
	backup = 1;
	joins = grace = true;
	struct rounds r = rounds_of(&w);
	for (int k = 0; k < 2; k++) {
		ck_assert_int_eq(rounds_push(&r, k, true, false), 3);
		w.now.applied++;
	}
	ck_assert(!rounds_full(&r));
	ck_assert(!rounds_late(&r, 2));
	ck_assert_int_eq(rounds_state(&r, 3, 0, &away), ROUND_GRACE);
	w.now.waited = true;
	ck_assert_int_eq(rounds_state(&r, 3, 0, &away), ROUND_FULL);
	w.now.waited = false;
	ck_assert_int_eq(rounds_push(&r, 2, true, false), 3); /* it was in round 0 */
	ck_assert_int_eq(rounds_state(&r, 3, 0, &away), ROUND_OPEN);
	w.now.applied++;
	ck_assert_int_eq(rounds_state(&r, 3, 0, &away), ROUND_FULL);
	joins = grace = false;
}

/* Of two workers that have not pushed, the one that has finished is not needed, and the other is.
 */
TEST(round_needs_no_worker_that_has_finished)
{
	struct world w = {.doing = {0}};
	int away;
	backup = 0;
	struct rounds r = rounds_of(&w);
	rounds_leave(&r, 2);
	rounds_push(&r, 0, true, false);
	w.now.applied++;
	ck_assert_int_eq(rounds_state(&r, 0, 0, &away), ROUND_OPEN);
	rounds_arrive(&r, 1);
	ck_assert_int_eq(rounds_state(&r, 0, 0, &away), ROUND_INCOMPLETE);
	ck_assert_int_eq(away, 1);
	rounds_leave(&r, 1);
	ck_assert_int_eq(rounds_state(&r, 0, 0, &away), ROUND_FULL);
	w.member[1].pushed = 1; /* it has pushed in this round before it finished */
	w.now.counted++;
	ck_assert_int_eq(rounds_state(&r, 0, 0, &away), ROUND_OPEN);
	w.now.applied++;
	ck_assert_int_eq(rounds_state(&r, 0, 0, &away), ROUND_FULL);
}

/* A worker at a barrier is away for others until they pass the same barrier. */
TEST(worker_at_barrier_is_away)
{
	struct world w = {.member = {{.barriers = 1}, {.barriers = 0}, {.barriers = MEMBER_GONE}}};
	backup = 0;
	lead = 0;
	struct rounds r = rounds_of(&w);
	w.now.over = 7;
	ck_assert(rounds_away(&r, 0, 1));
	ck_assert(rounds_away(&r, 2, 1));
	ck_assert(!rounds_too_far_ahead(&r, 1, 5));
	rounds_resume(&r, 1);
	ck_assert(!rounds_away(&r, 0, 1));
	ck_assert(rounds_away(&r, 2, 1)); /* it has left */
	ck_assert(rounds_too_far_ahead(&r, 1, 5));
	ck_assert(!rounds_too_far_ahead(&r, 1, 0));
	ck_assert_int_eq(w.member[1].in, 7);
}

/* The named worker has not pushed in this round; of several, it has made the fewest pushes. */
TEST(incomplete_round_names_missing_worker)
{
	struct world w = {.now = {.over = 4, .counted = 1, .applied = 1},
			  .member = {{.pushes = 3, .pushed = 5, .barriers = 1},
				     {.pushes = 5, .pushed = 4},
				     {.pushes = 4, .pushed = 4, .barriers = 1}}};
	int away;
	backup = 0;
	struct rounds r = rounds_of(&w);
	ck_assert_int_eq(rounds_state(&r, 4, 1, &away), ROUND_INCOMPLETE);
	ck_assert_int_eq(away, 2);
	w.member[2].barriers = 0;
	ck_assert_int_eq(rounds_state(&r, 4, 1, &away), ROUND_OPEN);
}

/* A slow worker that has made fewer pushes before a barrier is not behind after it. */
TEST(staleness_counts_from_the_last_barrier)
{
	struct world w = {.member = {{.pushes = 9}, {.pushes = 2}, {.pushes = 9}}};
	backup = 0;
	lead = 3;
	struct rounds r = rounds_of(&w);
	ck_assert(rounds_too_far_ahead(&r, 0, 10)); /* 10 - 2 */
	for (int k = 0; k < WORKERS; k++)
		rounds_arrive(&r, k);
	for (int k = 0; k < WORKERS; k++)
		rounds_resume(&r, k);
	ck_assert(!rounds_too_far_ahead(&r, 0, 12)); /* 3 since the barrier, against 0 */
	ck_assert(rounds_too_far_ahead(&r, 0, 13));
	w.member[1].pushes = 3;
	ck_assert(rounds_too_far_ahead(&r, 0, 13)); /* the third one has made none */
	w.member[2].pushes = 10;
	ck_assert(!rounds_too_far_ahead(&r, 0, 13));
}

/* The rest of an epoch may have rounds of fewer pushes: each push still weighs as in a full one. A
 * push without rows is one of those that a round needs. */
TEST(push_of_a_short_round_weighs_as_in_a_full_one)
{
	const struct table_rules drops = {.rounds = true, .backup = 2, .mean = true, .full = 14},
				 quorum = {.rounds = true, .backup = 2, .mean = true};
	const struct push one = {.scale = 1}, half = {.scale = 1, .share = 0.5f},
			  idle = {.scale = 1, .idle = true};
	struct merged m = {0};
	merged_add(&m, &one, true, 0);
	ck_assert_float_eq(merged_factor(&m, &drops), 1 / 14.0f);
	ck_assert_float_eq(merged_factor(&m, &quorum), 1);
	merged_add(&m, &half, true, 1);
	ck_assert_float_eq(merged_factor(&m, &drops), 1 / 13.5f);
	for (int k = 2; k < 14; k++)
		merged_add(&m, &idle, true, k);
	ck_assert_float_eq(merged_factor(&m, &drops), 1 / 1.5f);
	ck_assert_float_eq(merged_factor(&m, &quorum), 1 / 1.5f);
}
