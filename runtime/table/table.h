/*
 * table.h - the inside of parameter-server tables: what the table, its updaters and its placements
 * share.
 *
 * A table is rows x columns floats, cut by rows into shards. A worker's operation on it (struct
 * table_op) is a push, a pull, or both at once, over the whole table or some of its rows. A
 * placement defines where the shards are and how an operation gets there; an updater defines what a
 * push does to W.
 *
 * The floats of an operation are in host memory, except in placement gpu: there in, out, and what a
 * worker keeps of its own are on the worker's device.
 *
 * Lengths are in floats. Ranks are those of the workers, unless stated to be everyone's. Functions
 * that return a char * return NULL, or a message (heap) that says what the caller did wrong.
 */
#ifndef TABLE_H
#define TABLE_H

#include "runtime/comm/comm.h"
#include "runtime/device/updaters.h"

#include <string.h>

enum { TABLES_MAX = 256, TICKETS_MAX = 64 };

/* ---- Updaters (updater.c): elementwise, a push onto some floats of a shard ---- */

struct updater {
	const char *name, *summary; /* summary: its formula */
	enum updater_kind kind;     /* its place in updaters[] */
	struct updater_wants wants;
	bool state, more, own, pulled; /* uses and keeps these; they start at 0, pulled at W */
	/* What it adds to W does not depend on W or state: the pushing worker can compute it. */
	bool additive;
	bool staleness; /* uses it */
	/* Applies OP_PUSH to n floats; u->keep is left to the caller. */
	void (*apply)(const struct update *u, size_t n);
};
extern const struct updater *const updaters[];        /* ends at NULL */
const struct updater *updater_find(const char *name); /* NULL: there is none */

/* ---- Recorded order ---- */

/* One operation of a worker on a shard (--record). Operations of equal shard and table took place
 * in the order of seq: every float saw them in this order. */
struct arrival {
	int64_t seq;    /* from 0, of this shard of this table */
	int32_t worker; /* rank */
	int16_t table, shard;
	char kind[8]; /* "push", "pull", "sync" (both), "elastic", "drop"; "round": one has ended */
};

/* All arrivals of a run, sorted by table, shard and seq; seq has no gaps. */
struct recording {
	int64_t run;
	struct arrival *arrival;
	size_t n;
};

/* ---- Operations -------------------------------------------------------------- */

struct table_op {
	enum op_kind kind;
	const float *in;      /* pushed: [n], or [rows x columns]; NULL = nothing */
	const float *message; /* in, as servers get it from a codec; NULL = in itself */
	float *out;           /* gets W, of the same shape; NULL = nothing */
	bool pull;            /* out counts as this worker's pull: sets pulled, and versions seen */
	const int64_t *row;
	size_t rows; /* row NULL: the whole table, otherwise these rows, in this order */
	struct push by;

	/* Part of what is kept beside W, for tables_keep: OP_READ copies it out, OP_PUSH replaces
	 * it. */
	enum keeps kept;

	/* Set by the placement */
	int64_t staleness;
	int64_t number;  /* of a push that counts: its number on the shard, from 1 */
	bool dropped;    /* came too late for its round */
	bool read_later; /* out has to be filled by a read of its own, after the wait */
	int64_t round;   /* round of the push */
	int64_t flow;    /* a push's number in the timeline; 0 = none */

	/* Set by the table, for started operations */
	bool under_way; /* not waited for yet */
	bool ended;     /* but a read in rounds has waited, */
	char *said;     /* with this result */
};

/* ---- Tables -------------------------------------------------------------------- */

struct table_rules {
	size_t rows, columns;
	const struct updater *updater;
	bool rounds;    /* bulk-synchronous: all push, then all pull */
	int64_t backup; /* with rounds: pushes that a round does not wait for; */
	bool joins;     /* they count in the round in which they come, and are not dropped */
	nsec grace;     /* with joins: a round still waits so long for them */
	bool mean;      /* with backup: a round's sum is divided by the shares of its pushes, */
	int64_t full;   /* and by 1 for each push that it has less than this; 0 with joins */
	bool bounded;
	int64_t lead; /* with bounded: pushes that a worker may be ahead of the slowest */
	bool syncs;   /* OP_SYNC is used */
	bool alone;   /* all operations are those of one client, with a push and a pull each */
	bool lengths; /* there are no floats: operations move meaningless data */
	bool counter; /* its pushes are not counted among the run's (vectors.c) */
	bool by_rows; /* a strategy's operations are on one row each (vectors.c) */
	enum table_init init;
	struct pushes *pushes; /* coded.c: the table frees them; NULL = a push is its floats */
};

struct placement;

struct table {
	struct tables *among;
	struct table_rules rules;
	int id;                    /* in among->table, equal on all ranks */
	size_t n;                  /* rows x columns */
	float *pulled, *own;       /* this worker's [n]; NULL if not used */
	float *staged[2];          /* pinned [n]: host copies of a device's in and out */
	int64_t seen;              /* version at this worker's last pull */
	int64_t pushes;            /* of this worker */
	struct table_op *pushing;  /* this worker's last push, if it has not been waited for */
	bool incomplete;           /* with rounds: a round could not end; no later one will */
	int64_t row;               /* with by_rows: that of the next operations */
	struct vec *alias;         /* one client: its init vector is W, and no float moves */
	size_t own_first, own_end; /* floats that this worker reaches without moving them */
	void *at;                  /* the placement's state */
};

/* The tables of one process, and the processes that share them. */
struct tables {
	struct link *everyone; /* workers, then servers; used only with servers */
	struct link *workers;  /* NULL on a server */
	int rank, size;        /* among the workers, and how many */
	int servers;
	int64_t *asked; /* [servers] requests of this worker */
	bool near;      /* the workers are on one machine; not determined with servers */
	const struct placement *placement;
	struct device *dev; /* of the workers' vectors, if it has its own memory; or NULL */
	struct stats *stats, unused; /* unused: replaces stats where the caller gives none */
	struct table *table[TABLES_MAX];
	int count;
	struct arrival *arrival; /* this worker's, of the segment */
	size_t arrivals, room;
	const struct recording *replay; /* the order to repeat; NULL = none */
};

/* A round is a function of its set of pushes. Updaters that are not additive therefore get one push
 * a round: the sum of scale g over its pushes. With backup workers it is known only at the end of a
 * round how many rows are behind its pushes: the changes of additive updaters are then summed, too.
 */
static inline bool rounds_merge(const struct table_rules *r)
{
	return r->rounds && (!r->updater->additive || r->backup > 0);
}
static inline float push_share(const struct push *by)
{
	return by->idle ? 0 : by->share != 0 ? by->share : 1;
}

/* The pushes of the current round, of a table that merges them. */
struct merged {
	int64_t pushes;
	int32_t rank;   /* the lowest of those that pushed: */
	struct push by; /* its numbers hold for the round */
	double shares;  /* sum of push_share */
	bool whole;     /* one was of the whole table; otherwise only pushed rows change */
};

/* Vectors of n floats that a table of n floats keeps on its workers or servers. */
static inline size_t table_vectors(const struct table_rules *r)
{
	return 1 + (size_t)r->rounds + (size_t)r->updater->state + (size_t)r->updater->more;
}

/* Why a table of these rules, and record its order of operations, is not possible in this
 * placement; NULL: it is possible. near: all workers are on one machine. A placement on GPUs is
 * possible here: only the workers know. */
char *tables_refuse(const struct table_rules *r, int servers, bool near, const char *placement,
		    bool record);
/* Collective over the workers. placement: one of TABLE_HOMES. everyone: the link of workers and
 * servers; not used without servers. stats may be NULL. d: of the workers' vectors,
 * NULL = the host. Returns a message when this placement is not available. */
char *tables_open(struct tables **out, struct link *everyone, struct link *workers, int rank,
		  int size, int servers, const char *placement, struct stats *stats,
		  struct device *d);
/* From now on, stores operations in s->arrival, up to room, in the order in which they took place.
 */
void tables_record(struct tables *s, size_t room);
/* Call before tables are opened, and before tables_record: operations repeat the order of r.
 * Without servers, tables are then in shared memory even with workers on several machines, because
 * simulated workers share all memory. */
void tables_replay(struct tables *s, const struct recording *r);
/* Collective over the workers; frees the tables that are left, and dismisses the servers. */
void tables_close(struct tables *s);
/* For rank 0: ends the main loops of the servers, everyone's ranks from `workers` on. */
void servers_dismiss(struct link *everyone, int workers);
/* The codecs of the workers' messages, by way; without encode, or NULL: they are floats. */
enum table_way { WAY_PUSH, WAY_PULL, WAYS };
struct coder {
	const struct codec *codec;
	const void *opts;
};
static inline bool is_coder(const struct coder *c)
{
	return c->codec && c->codec->encode;
}
/* A server's main loop: returns when the workers have closed their tables. replay, trace
 * and coder[WAYS] may be NULL. */
void tables_serve(struct link *everyone, int rank, int workers, const struct recording *replay,
		  struct trace *trace, const struct coder *coder);
/* For rank 0: the servers then call trace_gather over everyone; no worker may need them before. */
void servers_events(struct link *everyone, int workers);

/* Collective over the workers, in the same order. init [n], in host memory, may be NULL: zeros. */
char *table_open(struct table **out, struct tables *s, const struct table_rules *rules,
		 const float *init);
/* For one worker without servers, whose pushes are all syncs: W is v itself, and no float moves. */
struct table *table_alias(struct tables *s, const struct table_rules *rules, struct vec *v);
/* n numbers that the workers share, from 0. add: adds `by` to those at at[0 .. n_at - 1], makes the
 * changes since the last call, and returns all numbers, valid until the next call. Each is as it
 * was at some time during the call; that time may differ between numbers. new and free are
 * collective. */
struct counts;
struct counts *counts_new(struct worker *w, size_t n);
void counts_change(struct counts *c, size_t at, float by);
const float *counts_add(struct counts *c, const size_t *at, size_t n_at, float by);
void counts_free(struct counts *c);
/* 0, 1, 2, ...: the workers take numbers from it, each number once. --record stores and
 * --sim.replay repeats this as they do for pushes. new is collective; counts_free frees it. */
struct counts *counter_new(struct worker *w);
int64_t counter_next(struct counts *c);
int64_t table_version(struct table *t); /* pushes started so far */
/* Does the operation. Returns when all of it has been applied and is in p->out. */
char *table_do(struct table *t, struct table_op *p);
/* Starts it; at most TICKETS_MAX at once. p, in and out belong to the table until table_wait, which
 * has to be called once. */
char *table_start(struct table *t, struct table_op *p);
char *table_wait(struct table *t, struct table_op *p);
/* Before a barrier (AWAY): tells the workers that wait for this worker's push, in a round or
 * because of a staleness bound, that none will come. BACK: after it, that this worker is back; all
 * are then in the same round. GONE: this worker has finished; rounds end without it. all: tables
 * without rounds and bounds, too. s may be NULL. */
enum leaving { BACK, AWAY, GONE };
void tables_leave(struct tables *s, enum leaving how, bool all);
/* Can rounds of one of them end without a push; can one of them drop pushes? s may be NULL. */
bool tables_hurry(const struct tables *s), tables_drop(const struct tables *s);
/* Do workers wait for others' pushes in one of them? */
bool tables_block(const struct tables *s);

/* A checkpoint, made at a barrier, stores what updaters keep beside W: each worker's own, and on
 * worker 0 the state. Copies these floats of this worker to x; with put, from x to tables that have
 * got only W. x NULL: copies nothing. Returns their number. s may be NULL. */
size_t tables_keep(struct tables *s, float *x, bool put);

/* ---- Placements: shared.c (shared and gpu), onesided.c, servers.c ------------------ */

/* To add a placement: a file, and a name here. */
#define PLACEMENTS(X)        X(shared) X(onesided) X(servers) X(gpu)
#define PLACEMENT_NAME(name) "|" #name
#define TABLE_HOMES          "auto" PLACEMENTS(PLACEMENT_NAME) /* values of --table-home */

struct placement {
	const char *name;
	int preference; /* "auto" is the available placement with the highest */
	/* Its properties: */
	bool on_servers;       /* shards lie on ranks that do nothing else */
	bool in_shared_memory; /* workers access W directly, on one machine */
	bool floats_on_device; /* W, and the floats of operations, are on the workers' device */
	bool keeps_own;        /* what updaters keep for each worker is stored with the shards */
	bool counts_versions;  /* one count of pushes, by which the timeline identifies them */
	bool keeps_order;      /* the order of operations can be recorded */
	bool only_adds;        /* no operation replaces W: no OP_SET */
	/* Collective: can all workers, on one machine, reach the memory that it needs? NULL: yes */
	bool (*reaches)(struct tables *s);
	char *(*refuse)(const struct table_rules *r, const struct tables *s); /* NULL: none */
	/* Collective. init [n] on every worker, NULL = zeros. */
	void (*open)(struct table *t, const float *init);
	void (*close)(struct table *t);
	/* A push may leave the read that belongs to it to another operation: read_later. */
	char *(*start)(struct table *t, struct table_op *p);
	char *(*wait)(struct table *t, struct table_op *p);
	int64_t (*version)(struct table *t);
	/* Between two barriers: x[n] = the updater's state, more or t (one number, n times), or
	 * this worker's own where these lie with the shards; with put the reverse. NULL = no
	 * updater here has them. */
	void (*keep)(struct table *t, enum keeps what, float *x, bool put);
	/* See tables_leave. GONE: followed by nothing but barriers and close. */
	void (*leave)(struct table *t, enum leaving how);
};
#define PLACEMENT_DECLARED(name) extern const struct placement placement_##name;
PLACEMENTS(PLACEMENT_DECLARED)
extern const struct placement *const table_placements[];  /* ends at NULL */
const struct placement *placement_find(const char *name); /* NULL: none, or "auto" */

/* The device that holds W and the floats of operations; NULL = the host. */
static inline struct device *table_device(const struct table *t)
{
	return t->among->placement->floats_on_device ? t->among->dev : NULL;
}
/* host[n] = x[n], or with put the reverse. d: has x; NULL = the host. */
static inline void floats_move(struct device *d, float *x, float *host, size_t n, bool put)
{
	if (d && put)
		d->ops->put(d, x, host, n);
	else if (d)
		d->ops->get(d, host, x, n);
	else
		memcpy(put ? x : host, put ? host : x, n * sizeof *x);
}

/* ---- What a placement calls back into (apply.c) ------------------------------------- */

/* Does the operation's work on floats first .. first + n - 1 of the table; the caller holds the
 * lock that guards them. The caller sets the pointers of u: w, state, more of the shard, at
 * `first`; own, pulled of the worker, likewise; values, out: where the operation has these floats.
 */
void table_apply(const struct table_rules *r, const struct table_op *p, struct update *u, size_t n);
/* Charges a simulated worker for it, on n floats of a table with this updater (NULL: it reads). */
void table_charge(const struct table_op *p, const struct updater *u, size_t n, bool shared);
/* d = scale (param - pulled); d may be pulled. */
void table_change(float *d, const float *param, const float *pulled, float scale, size_t n);
/* Sets the rest of u, for a device that has these floats. */
void update_complete(struct update *u, const struct table_rules *r, const struct table_op *p);
/* A merging table: what its pushes do to the sum of their round. */
struct table_rules rules_of_sum(const struct table_rules *r);
struct table_rules rules_of_end(const struct table_rules *r); /* what the sum does to W */
void merged_add(struct merged *m, const struct push *by, bool whole, int rank);
float merged_factor(const struct merged *m, const struct table_rules *r); /* of the sum */
/* The length of the run of floats from `at` on, at most n, of which either all or none have got a
 * push in the round; *pushed: which. touched: [rows], not used if a push was of the whole table. */
size_t merged_run(const struct merged *m, const struct table_rules *r, const bool *touched,
		  size_t at, size_t n, bool *pushed);
/* Records an operation; p NULL: a round has ended. */
void table_arrived(struct table *t, const struct table_op *p, int shard, int64_t seq);
/* The message that a round will never end, because worker `away` pushes no more after `pushes`. */
char *table_incomplete(const struct table *t, int away, int64_t pushes);
static inline float *part(float *x, size_t first)
{
	return x ? x + first : NULL;
}

/* ---- Replay (order.c): the operations on a shard take place in turn ---- */

struct replay_cursor {
	const struct arrival *arrival; /* [n]; NULL = there is no order to keep */
	int64_t n, run;
	int table, shard;
};
struct replay_cursor replay_cursor(const struct recording *r, int table, int shard);
/* The recorded kind of operation number `next`; "" after the last. */
const char *replay_kind(const struct replay_cursor *t, int64_t next);
/* Is this worker's operation p the next? Ends the run if the recording has another kind for the
 * worker's next operation, or has ended; or if the next operation is of a worker that is away. */
struct rounds;
bool replay_due(const struct replay_cursor *t, int64_t next, int worker,
		const struct table_rules *r, const struct rounds *others, const struct table_op *p);
/* Is a push dropped? late: it comes too late for its round. In a replay: as recorded; its operation
 * is the next in the recording. full: no more pushes can count in the current round. */
bool replay_drops(const struct replay_cursor *t, int64_t next, bool late, bool full);

static inline bool op_pushes(const struct table_op *p)
{
	return p->kind != OP_READ;
}
/* Are the floats that it brings at in? Those of others are at out. */
static inline bool op_has_in(const struct table_op *p)
{
	return p->kind == OP_PUSH || p->kind == OP_SET;
}
/* Where the operation puts W. A push whose read comes later may not read W; a sync's out is also
 * what it pushes. */
static inline float *op_out(const struct table_op *p)
{
	return p->kind == OP_PUSH && p->read_later ? NULL : p->out;
}
/* Sets the staleness and number of a push, and the version that the worker has seen, after an
 * operation that found this many pushes before it. */
static inline void op_versions(struct table *t, struct table_op *p, int64_t before)
{
	if (op_pushes(p))
		p->staleness = t->rules.rounds ? 0 : before - t->seen;
	p->flow = op_pushes(p) ? before + 1 : 0;
	if (p->pull && !p->read_later)
		t->seen = before + op_pushes(p);
	else
		t->seen += op_pushes(p); /* its own push adds no staleness */
}
/* The floats of an operation, piece by piece: a piece is the whole table, or one row. first: in the
 * table; offset: in the operation's own memory. */
static inline size_t op_pieces(const struct table_op *p)
{
	return p->row ? p->rows : 1;
}
static inline size_t op_floats(const struct table *t, const struct table_op *p)
{
	return p->row ? p->rows * t->rules.columns : t->n;
}
static inline void op_piece(const struct table *t, const struct table_op *p, size_t i,
			    size_t *first, size_t *n, size_t *offset)
{
	*first = p->row ? (size_t)p->row[i] * t->rules.columns : 0;
	*n = p->row ? t->rules.columns : t->n;
	*offset = p->row ? i * t->rules.columns : 0;
}
/* out has got W: pulled gets the same. */
static inline void op_pulled(struct table *t, const struct table_op *p)
{
	for (size_t i = 0, first, n, offset; i < op_pieces(p); i++) {
		op_piece(t, p, i, &first, &n, &offset);
		memcpy(t->pulled + first, p->out + offset, n * sizeof *p->out);
	}
}

#endif
