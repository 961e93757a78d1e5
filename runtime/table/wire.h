/*
 * wire.h - what workers and the servers of their tables say to each other.
 *
 * A question is a struct ask, then the rows if it is not for all of them, then the floats that are
 * pushed; the answer a struct answer, then the floats that are pulled.
 */
#ifndef WIRE_H
#define WIRE_H

#include "runtime/table/table.h"

enum { SLOTS = TICKETS_MAX + 1 }; /* the last is that of table_pass */
enum tag { TAG_ASK = 2, TAG_BODY, TAG_ANSWER /* + table x SLOTS + slot */ };
enum what {
	ASK_OPEN,
	ASK_PASS,
	ASK_VERSION,
	ASK_FLUSH,
	ASK_RESUME,
	ASK_CLOSE,
	ASK_EVENTS,
	ASK_DISMISS
};

struct ask {
	enum what what;
	int32_t table, slot;
	enum pass_kind kind;
	int32_t pull, replace; /* replace: a sync that sends the new W */
	int64_t rows;          /* that follow; -1: the whole shard */
	int64_t in, out;       /* floats that follow, and that are wanted */
	struct push by;
	int64_t flow;        /* of a push, in the timeline; 0 = the pass is not in it, or a pull */
	int32_t epoch, step; /* likewise; epoch 0 = it is not */
};

struct answer {
	int64_t staleness, version;
	int64_t seq, read_seq; /* of the push or pull; of the pull after it, -1 = it was the same */
	nsec held;
	int64_t away_pushes;
	int32_t away; /* the worker that will not push any more: an uneven number of pushes, or -1
		       */
	int32_t dropped;
	int32_t latest; /* the worker whose question ended the wait; -1: there was none */
};

/* Follows ASK_OPEN, and then the shard's first values where `init` says so. */
struct opening {
	int64_t rows, columns, updater, rounds, backup, bounded, lead, lengths, init;
};

static inline int answer_tag(int table, int slot)
{
	return TAG_ANSWER + table * SLOTS + slot;
}

#endif
