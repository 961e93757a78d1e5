/*
 * wire.h - the requests of workers to the servers of their tables, and the replies.
 *
 * A request is a struct table_request, then the list of rows unless it is for all rows, then the
 * pushed floats, or a message of a codec. The reply is a struct table_reply, then the pulled
 * floats, or a message.
 */
#ifndef WIRE_H
#define WIRE_H

#include "runtime/table/table.h"

enum { SLOTS = TICKETS_MAX + 1 }; /* the last is also for other requests */
enum tag { TAG_REQUEST = 2, TAG_BODY, TAG_REPLY /* + table x SLOTS + slot */ };
enum request_kind {
	REQUEST_OPEN,
	REQUEST_OP,
	REQUEST_VERSION,
	REQUEST_FLUSH,
	REQUEST_RESUME,
	REQUEST_LEAVE,
	REQUEST_CLOSE,
	REQUEST_EVENTS,
	REQUEST_DISMISS
};

enum { PULL_CODED = 2 }; /* 1: floats */

struct table_request {
	enum request_kind what;
	int32_t worker, table, slot;
	int64_t number; /* counts the worker's requests to this server, from 0; -1: in any order */
	enum op_kind kind;
	/* pull: PULL_CODED returns a message of the codec; replace: a sync that sends the new W */
	int32_t pull, replace;
	enum keeps kept;
	int64_t rows;    /* rows in the list; -1: the whole shard */
	int64_t in, out; /* floats that follow, floats that the reply returns */
	int64_t words;   /* of a codec's message, which follows in their place; 0 = none */
	uint64_t common; /* of the message, for struct code */
	struct push by;
	int64_t flow; /* number of a push in the timeline; 0 = a pull, or not in the timeline */
	int32_t epoch, step; /* in the timeline; epoch 0 = not in it */
};

struct table_reply {
	int64_t staleness, version;
	int64_t seq, read_seq; /* of the push or pull; of the pull after it, -1 = none */
	nsec deferred;
	int64_t away_pushes;
	int32_t away; /* the worker that pushes no more (an incomplete round), or -1 */
	int32_t dropped;
	int32_t latest; /* the worker whose request ended the wait; -1: no wait */
};

/* Follows REQUEST_OPEN, and then the shard's first values where `init` says so. */
struct opening {
	struct table_rules rules; /* of the whole table; the server ignores its updater */
	int64_t updater;          /* and takes this one of the list */
	int64_t init;
	/* coded: 1, pushes are messages; 2, pulls are. The shard's tensors follow first. */
	int64_t coded, tensors;
};

static inline int reply_tag(int table, int slot)
{
	return TAG_REPLY + table * SLOTS + slot;
}

#endif
