/*
 * server.h - what the two files of a server share: server.c (its life: who has asked for what) and
 * shard.c (what an operation does to a shard, and who waits for whom there).
 */
#ifndef SERVER_H
#define SERVER_H

#include "runtime/table/buffers.h"
#include "runtime/table/rounds.h"
#include "runtime/table/wire.h"

/* At the same time: requests, and operations whose floats come. */
enum { REQUESTS_MOST = 32, COMING_MOST = 64 };

/* What a shard keeps of a worker. */
struct client {
	int64_t seen;        /* version at its last pull */
	float *own, *pulled; /* [n], NULL when the updater reads none */
};

struct shard {
	struct table_rules rules;
	size_t n; /* floats */
	float *w, *state, *more;
	struct buffer *model; /* with rounds: W as of the last round's end */
	struct client *client;
	int64_t version, seq, counted; /* counted: pushes that were not dropped */
	struct round now;
	struct rounds rounds;         /* on now, and on members of its own */
	struct transaction *deferred; /* replies that wait, oldest first */
	struct replay_cursor cursor;  /* of a replay: seq is the next one */
};

/* An operation on a server. */
struct transaction {
	struct transaction *next; /* of the worker's, the shard's deferred, or the server's */
	struct table_request request;
	struct table_reply reply;
	int worker;
	bool begun; /* floats and rows may come */
	struct buffer *rows, *data;
	int told, listed, moved; /* of the link: requests under way */
	int64_t round, pushes;   /* of its push */
	nsec since;              /* deferred since */
};

/* Of a worker: what is not done of what it has asked for, in that order; next: its number. */
struct connection {
	struct transaction *first;
	int64_t next;
};

/* Room for somebody's request. */
struct incoming {
	struct table_request request;
	int moved;
	bool expected;
};

struct server {
	struct link *link;
	int rank, workers; /* rank: among the servers */
	struct incoming incoming[REQUESTS_MOST];
	int coming;                    /* operations whose floats may come */
	struct connection *connection; /* [workers] */
	struct shard *shard[TABLES_MAX];
	struct buffers buffers; /* its lengths: tables have no floats */
	struct transaction *sending, *idle;
	bool over;
	const struct recording *replay; /* NULL = requests are handled as they come */
	bool again;                     /* somebody's turn may have come */
	struct trace *trace;            /* NULL = no timeline is kept */
	int latest;                     /* worker whose request is at hand */
};

/* ---- server.c: transactions ---- */

struct transaction *transaction_new(struct server *v, int worker, const struct table_request *a);
void transaction_free(struct server *v, struct transaction *j);
/* Sends the reply, and of data what is wanted; the transaction is gone when that has left. */
void transaction_reply(struct server *v, struct transaction *j);

/* ---- shard.c: shards, of tables by number ---- */

void shard_open(struct server *v, int table);
void shard_free(struct server *v, int table); /* there may be none */
/* When all have come: a table's last replies. */
void shard_close(struct server *v, int table);
/* Does an operation that is due, and of which all has come. */
void shard_op(struct server *v, struct shard *t, struct transaction *j);
/* After whatever may end a wait. */
void shard_look(struct server *v, struct shard *t);
/* In a replay: is what transaction j does next, its push or its pull, the next of the record? */
bool shard_due(const struct shard *t, const struct transaction *j, enum op_kind kind);

#endif
