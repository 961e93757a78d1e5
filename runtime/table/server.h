/*
 * server.h - what the files of a server share: server.c (its main loop and the workers' requests),
 * shard.c (what an operation does to a shard, and which worker waits for which there),
 * transaction.c (operations on their way, their messages of a codec, and replies) and buffers.c
 * (the floats that it receives and sends). Each uses only those behind it.
 */
#ifndef SERVER_H
#define SERVER_H

#include "runtime/table/rounds.h"
#include "runtime/table/wire.h"

/* Floats that a server receives or sends. users: the transactions and the shard that use it. */
struct buffer {
	struct buffer *next; /* next in the list of spare buffers */
	size_t room;
	int users;
	float *x;
};

/* Most at the same time: requests, and operations whose floats are arriving. */
enum { REQUESTS_MOST = 32, COMING_MOST = 64 };

/* What a shard stores for a worker. */
struct client {
	int64_t seen;        /* version at its last pull */
	float *own, *pulled; /* [n], NULL when the updater reads none */
};

struct shard {
	struct table_rules rules;
	size_t n; /* floats */
	float *w, *state, *more;
	struct buffer *model; /* with rounds: W at the end of the last round */
	struct merged merged; /* where the round's pushes are merged: */
	float *sum;           /* of them; NULL otherwise */
	bool *touched;        /* [rows] that they name */
	struct client *client;
	int closes; /* workers that have closed it */
	int64_t version, seq;
	int64_t counted; /* pushes that were not dropped; of merged pushes, the rounds */
	struct round now;
	struct rounds rounds;         /* uses now, and members of its own */
	struct transaction *deferred; /* replies that wait, oldest first */
	struct tensor *tensor;        /* of coded pushes; NULL: a push is its floats */
	size_t tensors;
	struct replay_cursor cursor; /* in a replay: seq is its next operation */
};

/* An operation on a server. */
struct transaction {
	struct transaction *next; /* in the worker's, the shard's deferred or the server's list */
	struct table_request request;
	struct table_reply reply;
	bool begun; /* receives floats and rows */
	struct buffer *rows, *data;
	int told, listed, moved; /* requests of the link that are under way */
	int64_t round, pushes;   /* of its push */
	nsec since;              /* deferred since */
};

/* A worker's requests that are not done, in the order of their numbers; next: the next number. */
struct connection {
	struct transaction *first;
	int64_t next;
};

struct server {
	struct link *link;
	int rank, workers;                           /* rank: among the servers */
	struct transaction *incoming[REQUESTS_MOST]; /* their requests are arriving; or NULL */
	int coming;                                  /* operations whose floats are arriving */
	struct connection *connection;               /* [workers] */
	struct shard *shard[TABLES_MAX];
	struct buffer *spare, nowhere; /* nowhere: of all tables that have only lengths */
	struct transaction *sending;
	bool over;
	const struct recording *replay; /* NULL = requests are handled as they arrive */
	bool again;                     /* another request's turn may have come */
	struct trace *trace;            /* NULL = no timeline is kept */
	struct coder coder[WAYS];
	int latest; /* worker whose request is being handled */
};

/* ---- buffers.c: made when tables are opened, then taken and given back ---- */

struct buffer *buffer_take(struct server *v, const struct shard *t, size_t n);
/* Removes one user; the last one gives the buffer back. */
void buffer_drop(struct server *v, struct buffer **b);
/* Ensures `wanted` spare buffers of at least the shard's size. */
void buffers_fill(struct server *v, const struct shard *t, int wanted);
void buffers_free(struct server *v);

/* ---- transaction.c ---- */

struct transaction *transaction_new(void);
void transaction_free(struct server *v, struct transaction *j);
/* data, which is a message, becomes its floats. */
void transaction_decode(struct server *v, const struct shard *t, struct transaction *j);
/* Sends the reply and the floats of data that it includes, which a coded pull encodes first; frees
 * the transaction when both have left. */
void transaction_reply(struct server *v, struct transaction *j);
/* Frees the transactions whose replies have left. */
void transactions_advance(struct server *v);

/* ---- shard.c: shards, of tables by number ---- */

void shard_open(struct server *v, int table);
void shard_free(struct server *v, int table); /* there may be none */
/* Sends a table's last replies when all workers have closed it. */
void shard_close(struct server *v, int table);
/* Does an operation that is due and has arrived completely. */
void shard_op(struct server *v, struct shard *t, struct transaction *j);
/* To be called after anything that may end a wait. */
void shard_poll(struct server *v, struct shard *t);
/* In a replay: is what transaction j does next, its push or its pull, the next in the recording? */
bool shard_due(const struct shard *t, const struct transaction *j, enum op_kind kind);

#endif
