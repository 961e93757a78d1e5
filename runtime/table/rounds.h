/*
 * rounds.h - which worker waits for which at a table: bulk-synchronous rounds, with or without
 * backup workers, and staleness bounds. Pure functions: the placement stores their numbers where it
 * needs them (memory that workers share, a server's memory, a copy of a window's counters) and
 * locks them as necessary.
 *
 *   round   ends when N - backup pushes that count are complete, or all that can come if workers
 *           have no rows; later pushes are dropped, or, with `joins`, count in the round in which
 *           they come. With `grace` it ends that much later, unless all pushes have come before
 *   lead    a worker waits while it is more than `lead` pushes ahead of another, both
 *           counted from their last barrier
 *   away    worker k has reached a barrier that the asking worker has not left: k pushes no more
 *           before the asking worker gets there too, so no worker waits for k
 *   gone    worker k has left for good: rounds end without its push
 *
 * Cost: each call reads all N workers.
 */
#ifndef ROUNDS_H
#define ROUNDS_H

#include <stdbool.h>
#include <stdint.h>

/* State of a worker; the numbers only grow, and begin at zero. */
struct member {
	int64_t pushes;   /* pushes it has made */
	int64_t in;       /* the round it is in */
	int64_t pushed;   /* the first round after its last push that counts */
	int64_t barriers; /* barriers it has reached; MEMBER_GONE: it will not return */
	int64_t passed;   /* barriers it has left */
	int64_t base;     /* pushes at the last barrier it has reached */
};
#define MEMBER_GONE (INT64_MAX / 2)

struct round {
	int64_t over;    /* rounds that have ended: the number of the current one */
	int64_t counted; /* pushes of the current round that count, */
	int64_t idle;    /* those without rows, for which it does not wait, */
	int64_t applied; /* and those of both that are complete */
	int64_t until;   /* of the placement: the end of its grace; 0 = not begun; */
	bool waited;     /* it has ended */
};

struct rounds {
	struct round *now;
	struct member *member; /* [size] */
	int size;
	int64_t backup, lead;
	bool joins, grace;
};

enum round_state {
	ROUND_OPEN,       /* pushes are still to come */
	ROUND_GRACE,      /* it can be ended after its grace */
	ROUND_FULL,       /* it can be ended */
	ROUND_OVER,       /* it has ended */
	ROUND_INCOMPLETE, /* it can never end: a worker is away and has not pushed */
};

bool rounds_away(const struct rounds *r, int k, int of);
/* Is worker `of`, at this number of pushes, too far ahead of a worker that is not away? */
bool rounds_too_far_ahead(const struct rounds *r, int of, int64_t pushes);
/* Can no more pushes count in the current round? */
bool rounds_full(const struct rounds *r);
/* Does a push of worker k come too late to count? Not when all other workers are away. */
bool rounds_late(const struct rounds *r, int k);
/* Worker k pushes in its round; returns that round. counts: it is not late. idle: without rows. */
int64_t rounds_push(struct rounds *r, int k, bool counts, bool idle);
/* State of round `in`, as worker `of` sees it. *away: a worker that an incomplete round lacks; of
 * several, the one with the fewest pushes. With backup workers, rounds end with fewer pushes when
 * too many workers are away or have no rows. */
enum round_state rounds_state(const struct rounds *r, int64_t in, int of, int *away);
void rounds_end(struct rounds *r);
/* Worker k reaches a barrier, or leaves for good. */
void rounds_arrive(struct rounds *r, int k);
void rounds_leave(struct rounds *r, int k);
/* Worker k leaves a barrier; others may have ended rounds while it waited there. */
void rounds_resume(struct rounds *r, int k);

#endif
