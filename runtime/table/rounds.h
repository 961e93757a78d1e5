/*
 * rounds.h - who waits for whom at a table: bulk-synchronous rounds, with backup workers or
 * without, and bounded leads. Pure: numbers that the placement keeps where it likes (memory that
 * workers share, a server's own, a copy of a window's counters) and guards as it has to.
 *
 *   round   over when N - backup pushes that count are through; what comes later is dropped
 *   lead    a worker waits while it has made more than `lead` pushes more than another since their
 *           last barrier: what a worker lacks there is not made up for after it
 *   away    worker k has come to a barrier that the one who asks has not left: no push of k's will
 *           come before that one is there too, so that nobody waits for k
 *
 * Cost: a look at every worker a question.
 */
#ifndef ROUNDS_H
#define ROUNDS_H

#include <stdbool.h>
#include <stdint.h>

/* What is known of a worker; all of it only grows. Zeros are the beginning. */
struct member {
	int64_t pushes;   /* that it has made */
	int64_t in;       /* the round that it is in, */
	int64_t pushed;   /* and the first one after its last push */
	int64_t barriers; /* that it has come to; MEMBER_GONE: it will not be back */
	int64_t passed;   /* and those that it has left */
	int64_t base;     /* its pushes when it came to the last one */
};
#define MEMBER_GONE (INT64_MAX / 2)

struct round {
	int64_t over;    /* rounds that are: the number of the one under way */
	int64_t counted; /* its pushes that count, */
	int64_t applied; /* and those of them that are through */
};

struct rounds {
	struct round *now;
	struct member *member; /* [size] */
	int size;
	int64_t backup, lead;
};

enum round_fate {
	ROUND_OPEN,       /* pushes are to come */
	ROUND_FULL,       /* it can be ended */
	ROUND_OVER,       /* it has been */
	ROUND_INCOMPLETE, /* it never can: somebody is away without having pushed */
};

bool rounds_away(const struct rounds *r, int k, int of);
/* Is worker `of`, with its pushes-th push, too far ahead of one that is not away? */
bool rounds_leads(const struct rounds *r, int of, int64_t pushes);
/* Does a push of worker k come too late to count? Not when it is the only one still to come. */
bool rounds_late(const struct rounds *r, int k);
/* Worker k pushes, in the round that it is in, which is returned. */
int64_t rounds_push(struct rounds *r, int k, bool counts);
/* What has become of round `in`, as worker `of` sees it. away: of an incomplete one, whom to name.
 * Backup workers that are left alone, as the others are away, end rounds with fewer pushes. */
enum round_fate rounds_fate(const struct rounds *r, int64_t in, int of, int *away);
void rounds_end(struct rounds *r);
/* Worker k comes to a barrier, or leaves for good. */
void rounds_arrive(struct rounds *r, int k);
void rounds_leave(struct rounds *r, int k);
/* Worker k leaves a barrier; others may have ended rounds while it stood there. */
void rounds_resume(struct rounds *r, int k);

#endif
