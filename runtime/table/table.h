/*
 * table.h - parameter-server tables from inside: what the table, its updaters and its placements
 * share.
 *
 * A table is rows x columns floats, cut by rows into shards. Whatever a worker does with it is one
 * operation (struct table_op): a push, a pull, or both at once, over the whole table or some of its
 * rows. A placement says where the shards are and how an operation gets there; an updater says what
 * a push does to W.
 *
 * The floats of an operation are the host's, but in placement gpu: there in, out, and what a worker
 * keeps of its own are on the worker's device.
 *
 * Lengths are in floats, ranks are those of the workers unless they are said to be everyone's.
 * Functions that return a char * return NULL, or a sentence (heap) that says what the caller did
 * wrong.
 */
#ifndef TABLE_H
#define TABLE_H

#include "runtime/comm/comm.h"
#include "runtime/device/updaters.h"

enum { TABLES_MAX = 256, TICKETS_MAX = 64 };

/* ---- Updaters (updater.c): elementwise, a push onto some floats of a shard ---- */

struct updater {
	const char *name, *summary; /* summary: its formula */
	enum updater_kind kind;     /* its place in updaters[] */
	struct updater_wants wants;
	bool state, more, own, pulled; /* reads and keeps these; they start at 0 and at W */
	/* What it adds to W does not depend on W or state: the pushing worker can work it out. */
	bool additive;
	bool staleness; /* reads it */
	/* Of OP_PUSH on n floats; u->keep is the caller's. */
	void (*apply)(const struct update *u, size_t n);
};
extern const struct updater *const updaters[];        /* ends at NULL */
const struct updater *updater_find(const char *name); /* NULL: there is none */

/* ---- Recorded order ---- */

/* One operation of a worker on a shard, in the order in which they took place (--record). Between
 * two operations of equal shard and table, seq tells which came first: every float saw them in this
 * order.
 */
struct arrival {
	int64_t seq;    /* from 0, of this shard of this table */
	int32_t worker; /* rank */
	int16_t table, shard;
	char kind[8]; /* "push", "pull", "sync" (both), "elastic", "drop"; "round": one has ended */
};

/* All arrivals of a run, by table, shard and seq, which are without gaps. */
struct recording {
	int64_t run;
	struct arrival *arrival;
	size_t n;
};

/* ---- Operations -------------------------------------------------------------- */

struct table_op {
	enum op_kind kind;
	const float *in; /* pushed: [n], or [rows x columns]; NULL = nothing */
	float *out;      /* gets W, likewise; NULL = nothing */
	bool pull;       /* out counts as this worker's pull: sets pulled, and versions seen */
	const int64_t *row;
	size_t rows; /* row NULL: the whole table, else these, in this order */
	struct push by;

	/* Of what is kept beside W, for tables_keep: OP_READ brings it, OP_PUSH replaces it. */
	enum kept kept;

	/* The placement's */
	int64_t staleness;
	int64_t number;  /* of a push that counts, among those to the shard; from 1 */
	bool dropped;    /* came too late for its round */
	bool read_later; /* out is filled in the waiting */
	int64_t round;   /* that it was pushed in */
	int64_t flow;    /* a push's number in the timeline; 0 = none */

	/* The table's, of one that was started */
	bool under_way; /* it has not been waited for */
	bool ended;     /* but a read in rounds has, */
	char *said;     /* with this result */
};

/* ---- Tables -------------------------------------------------------------------- */

struct table_rules {
	size_t rows, columns;
	const struct updater *updater;
	bool rounds;    /* bulk-synchronous: all push, then all pull */
	int64_t backup; /* with rounds: pushes that a round does not wait for */
	bool bounded;
	int64_t lead; /* with bounded: pushes that a worker may be ahead of the slowest */
	bool syncs;   /* OP_SYNC is used */
	bool lengths; /* there are no floats: operations move what means nothing */
	bool counter; /* its pushes only number themselves: none of the run's (vectors.c) */
	enum table_init init;
};

struct placement;

struct table {
	struct tables *among;
	struct table_rules rules;
	int id;              /* in among->table, equal on all ranks */
	size_t n;            /* rows x columns */
	float *pulled, *own; /* this worker's [n]; NULL when nobody reads them */
	float *staged[2];    /* pinned [n], for in and out of vectors that have to come here */
	int64_t seen;        /* version at this worker's last pull */
	int64_t pushes;      /* of this worker */
	bool pushing;        /* with rounds: this worker's push has not been waited for */
	bool incomplete;     /* with rounds: one could not end, so that none will any more */
	struct vec *alias;   /* one client: its init vector is W, and nothing moves */
	size_t own_first, own_end; /* floats that this worker reaches without moving them */
	struct table_op ticket[TICKETS_MAX]; /* that were started */
	void *at;                            /* the placement's own */
};

/* The tables of one process, and whom it shares them with. */
struct tables {
	struct link *everyone; /* workers, then servers; the workers' link when there are none */
	struct link *workers;  /* NULL on a server */
	int rank, size;        /* among the workers, and how many */
	int servers;
	int64_t *asked; /* [servers] requests of this worker */
	bool near;      /* the workers are on one machine; not asked when there are servers */
	const struct placement *placement;
	struct device *dev; /* of the workers' vectors, if it has its own memory; or NULL */
	struct stats *stats, unused; /* unused: where nobody gave stats */
	struct table *table[TABLES_MAX];
	int count;
	struct arrival *arrival; /* this worker's, of the segment */
	size_t arrivals, room;
	const struct recording *replay; /* the order that operations keep; NULL = none */
};

/* Collective over the workers. placement: one of TABLE_HOMES. everyone: with servers, the link of
 * workers and servers, else that of the workers. stats may be NULL. d: of the workers' vectors,
 * NULL = the host. A sentence when this placement cannot be had. */
char *tables_open(struct tables **out, struct link *everyone, struct link *workers, int rank,
		  int size, int servers, const char *placement, struct stats *stats,
		  struct device *d);
/* From here on, operations are kept in s->arrival, up to room; takes their order from them. */
void tables_record(struct tables *s, size_t room);
/* Before tables are opened, and recorded: operations keep the order of r. Without servers, tables
 * then live in shared memory even where workers are on several machines: simulated ones share
 * all. */
void tables_replay(struct tables *s, const struct recording *r);
/* Collective over the workers; frees tables that are left, lets servers go. */
void tables_close(struct tables *s);
/* Tells the servers (everyone's ranks from `workers` on) that their life is over; rank 0 does. */
void servers_dismiss(struct link *everyone, int workers);
/* A server's life: returns when the workers have closed their tables. replay and trace may be NULL.
 */
void tables_serve(struct link *everyone, int rank, int workers, const struct recording *replay,
		  struct trace *trace);
/* By rank 0: what the servers' timelines have since the last time. */
void servers_events(struct link *everyone, int workers, struct slices *all);

/* Collective over the workers, in the same order. init [n], the host's, may be NULL: zeros. */
char *table_open(struct table **out, struct tables *s, const struct table_rules *rules,
		 const float *init);
/* One worker without servers, whose pushes are all syncs: W is v itself, and nothing moves. */
struct table *table_alias(struct tables *s, const struct table_rules *rules, struct vec *v);
void table_close(struct table *t);
/* 0, 1, 2 ...: a number that all workers draw from, each once; kept and repeated by --record and
 * --sim.replay as pushes are. new and free are collective. */
struct counter;
struct counter *counter_new(struct worker *w);
int64_t counter_next(struct counter *c);
void counter_free(struct counter *c);
/* Does the operation and returns when all of it has been applied and is in p->out. */
char *table_do(struct table *t, struct table_op *p);
/* Starts it, TICKETS_MAX at once at most; in and out belong to the table until *started was waited
 * for, once. */
char *table_start(struct table *t, const struct table_op *p, struct table_op **started);
char *table_wait(struct table *t, struct table_op *started);
/* Before a barrier: waits for all that was started, and tells those who wait for this worker's
 * push, in a round or because they lead, that none will come. After it: all are in the same round.
 */
char *tables_flush(struct tables *s);
bool tables_drop(const struct tables *s); /* may one of them drop pushes? s may be NULL */
void tables_resume(struct tables *s);

/* A checkpoint, made at a barrier, has of tables what updaters keep beside W: of each worker its
 * own, and on worker 0 the state. Floats that this worker has of it: */
size_t tables_kept(const struct tables *s); /* s may be NULL */
/* x gets them, or, with put, gives them back, to tables that W and nothing more was given. */
void tables_keep(struct tables *s, float *x, bool put);

/* ---- Placements: shared.c (shared and gpu), onesided.c, servers.c ------------------ */

/* A file, and a row here. */
#define PLACEMENTS(X)        X(shared) X(onesided) X(servers) X(gpu)
#define PLACEMENT_NAME(name) "|" #name
#define TABLE_HOMES          "auto" PLACEMENTS(PLACEMENT_NAME) /* what can be asked for */

struct placement {
	const char *name;
	int preference; /* the highest that can be had is what "auto" is */
	/* What it can: */
	bool on_servers;       /* shards lie on ranks that do nothing else */
	bool in_shared_memory; /* all workers reach W by themselves, on one machine */
	bool floats_on_device; /* W, and what operations bring and get, is on the workers' device */
	bool keeps_own;        /* what updaters keep of each worker stays with the shards */
	bool counts_versions;  /* one count of pushes, by which the timeline names them */
	bool keeps_order;      /* operations have one that can be recorded */
	/* Collective: can all workers, on one machine, reach the memory that it takes? NULL: yes */
	bool (*reaches)(struct tables *s);
	char *(*refuse)(const struct table_rules *r, const struct tables *s); /* NULL: none */
	/* Collective. init [n] on every worker, NULL = zeros. */
	void (*open)(struct table *t, const float *init);
	void (*close)(struct table *t);
	/* start may do all of it; wait is then empty (NULL). */
	char *(*start)(struct table *t, struct table_op *p);
	char *(*wait)(struct table *t, struct table_op *p);
	int64_t (*version)(struct table *t);
	/* Between two barriers: x[n] = the updater's state, more or t (one number, n times), or
	 * this worker's own where these lie with the shards; or the other way round. NULL = no
	 * updater here has them. */
	void (*keep)(struct table *t, enum kept what, float *x, bool put);
	/* This worker stands at a barrier (or is gone) until resume: no push of its will come. */
	void (*flush)(struct table *t);
	void (*resume)(struct table *t);
	void (*finish)(struct tables *s); /* the last word to servers; NULL = nothing */
};
#define PLACEMENT_DECLARED(name) extern const struct placement placement_##name;
PLACEMENTS(PLACEMENT_DECLARED)
extern const struct placement *const table_placements[];  /* ends at NULL */
const struct placement *placement_find(const char *name); /* NULL: none, or "auto" */

/* ---- What a placement calls back into (apply.c) ------------------------------------- */

/* Under whatever lock guards these n floats: does the operation's work on floats first .. first + n
 * - 1 of the table. Of `at` the pointers are read: w, state, more of the shard, at `first`; own,
 * pulled of the worker, likewise; values, out: where the operation has these floats. */
void table_apply(const struct table_rules *r, const struct table_op *p, struct update at, size_t n);
/* What it does, for a device that has these floats. */
struct update update_of(const struct table_rules *r, const struct table_op *p, struct update at);
/* p NULL: a round has ended. */
void table_arrived(struct table *t, const struct table_op *p, int shard, int64_t seq);
/* Why a round will never end: worker `away`, which made so many pushes, will make no more. */
char *table_incomplete(const struct table *t, int away, int64_t pushes);
static inline float *part(float *x, size_t first)
{
	return x ? x + first : NULL;
}

/* ---- Replay (order.c): the operations on a shard take place in turn ---- */

struct replay_cursor {
	const struct arrival *arrival; /* [n]; NULL = no order is kept */
	int64_t n, run;
	int table, shard;
};
struct replay_cursor replay_cursor(const struct recording *r, int table, int shard);
/* What the record calls operation number `next`; "" after the last. */
const char *replay_kind(const struct replay_cursor *t, int64_t next);
/* Is it this worker's operation p that is next? Ends the run if the record says something else of
 * the worker's next operation, or nothing at all. */
bool replay_due(const struct replay_cursor *t, int64_t next, int worker,
		const struct table_rules *r, const struct table_op *p);
/* The next operation is one of a worker that makes none any more, and this one waits for it. */
void replay_stuck(const struct replay_cursor *t, int64_t next, int waiting)
	__attribute__((noreturn));
/* Is a push dropped that comes too late for its round, or in time? In a replay as it was then: its
 * operation of the record is the next. */
bool replay_drops(const struct replay_cursor *t, int64_t next, bool late);

static inline bool op_pushes(const struct table_op *p)
{
	return p->kind != OP_READ;
}
/* What is left of an operation that pushes when its pull had to come after the wait for others. */
static inline struct table_op pull_after(const struct table_op *p)
{
	struct table_op read = *p;
	read.kind = OP_READ;
	read.dropped = read.read_later = false;
	return read;
}
/* The floats that an operation covers, piece by piece: one is the whole table, or one row. first:
 * in the table; offset: in the operation's own memory. */
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

#endif
