/*
 * mvbench.h - everything that a strategy may use; workloads/net.h adds what models may use.
 *
 * A strategy decides when and how workers exchange gradients or models. It is blocking code of one
 * worker. It runs on MPI processes and in virtual time, because it sees no float, address, clock or
 * network: it only calls the functions below, which each platform and device implements.
 *
 * Letters in shapes: B rows of a mini-batch, I inputs, O outputs, P parameters. Matrices are
 * row-major. The code that makes an object frees it. Nothing is allocated between two steps.
 */
#ifndef MVBENCH_H
#define MVBENCH_H

#include "runtime/base/common.h"
#include "runtime/base/rng.h"
#include "runtime/config/option_row.h"

#pragma GCC visibility push(default) /* symbols that loaded plug-ins use */

struct vec;     /* floats on a device: host, GPU, or a length without data */
struct comm;    /* a group of workers that communicate, with its counters */
struct request; /* a pending communication */
struct table;   /* parameters on a parameter server */
struct net;     /* a stack of layers */
struct loop;    /* the training loop's part of a worker */
struct optimizer;
struct codec;
struct linear_ops;
struct data;
struct workload;
struct worker;

/* ---- The run: core options that a plug-in may read: run_sync_every(run) is --sync-every. ---- */

struct run;
int64_t run_workers(const struct run *), run_servers(const struct run *),
	run_epochs(const struct run *), run_batch(const struct run *),
	run_sync_every(const struct run *), run_barrier_every(const struct run *),
	run_seed(const struct run *);
double run_momentum(const struct run *);
bool run_record(const struct run *), run_sim_train(const struct run *);
const char *run_strategy(const struct run *), *run_optimizer(const struct run *),
	*run_codec(const struct run *), *run_codec_feedback(const struct run *),
	*run_codec_pull(const struct run *), *run_reduce(const struct run *),
	*run_state(const struct run *), *run_leave(const struct run *),
	*run_precision(const struct run *), *run_platform(const struct run *),
	*run_table_home(const struct run *), *run_data_dir(const struct run *);
const void *run_workload_opts(const struct run *); /* its options struct, for its data set */
int64_t workers_leaving(const struct run *);       /* the number that --leave names */
enum { WORKERS_MOST = 4096 };                      /* also of servers */

/* ---- Vectors. Arguments may not overlap; lengths are checked. Only y changes. ---- */

struct vec *vec_new(struct worker *w, size_t n);              /* zeroed */
struct vec *vec_slice(struct vec *v, size_t first, size_t n); /* a view: owns no floats */
void vec_free(struct vec *v);                                 /* NULL is fine */
size_t vec_len(const struct vec *v);
bool vec_has_data(const struct vec *v); /* false: a length without data */
void vec_put(struct vec *y, const float *host);
void vec_get(const struct vec *x, float *host);
void vec_fill(struct vec *y, float a);
void vec_copy(struct vec *y, const struct vec *x);
void vec_scale(struct vec *y, float a);                     /* y = a y */
void vec_axpy(struct vec *y, float a, const struct vec *x); /* y = y + a x */
/* y[rows x n] = columns first..first+n of x[rows x width], and back. */
void vec_take_columns(struct vec *y, const struct vec *x, size_t rows, size_t width, size_t first,
		      size_t n);
void vec_put_columns(struct vec *y, const struct vec *x, size_t rows, size_t width, size_t first,
		     size_t n);
/* y[m x n], or its head, = op(a)[m x k] op(b)[k x n]; op = transpose if at, bt. */
void vec_gemm(struct vec *y, bool at, const struct vec *a, bool bt, const struct vec *b, size_t m,
	      size_t n, size_t k);
void vec_add_bias(struct vec *y, const struct vec *b, size_t rows); /* y[r][j] += b[j] */
void vec_sum_rows(struct vec *b, const struct vec *y, size_t rows); /* b[j] = sum_r y[r][j] */
/* Heavy ball in one pass: g = scale g + decay p; v = m v + g; p = p - lr v. v NULL: m is 0. */
void vec_sgd(struct vec *p, struct vec *v, const struct vec *g, float lr, float m, float decay,
	     float scale);
/* y[2] += sum of x[first .. end - 1]^2, in float64; y[1]: 2^-192 of it, for sums beyond y[0]. */
void vec_add_squares(struct vec *y, const struct vec *x, size_t first, size_t end);
/* y = most / max(least, norm) y, where square[2] is y's sum of squares: least = most limits the
 * norm to `most`, a tiny `least` sets it to that. */
void vec_limit(struct vec *y, const struct vec *square, float most, float least);
/* y = most ||w|| / (||u|| + decay ||w||) y, where w[2] and u[2] are sums of squares; y stays if
 * that is 0 or has no value. */
void vec_ratio(struct vec *y, const struct vec *w, const struct vec *u, float most, float decay);

enum { MOMENTS_MOST = 2 }; /* that an optimiser keeps next to param */

/* ---- Communication. All functions count their bytes and time. All workers of a comm call its
 * collectives in the same order; on a comm of one worker they return at once. */

/* Element by element, of floats; the maximum of a NaN is unspecified. INT32, INT8: the same 4 n
 * bytes hold n int32_t or 4 n int8_t, whose sums must not overflow. */
enum reduce { COMM_SUM, COMM_MEAN, COMM_MAX, COMM_SUM_INT32, COMM_SUM_INT8 };

int comm_rank(const struct comm *c);
int comm_size(const struct comm *c);
/* Returns when the receiver has the data: two workers that send to each other hang. */
void comm_send(struct comm *c, int to, const struct vec *v);
void comm_recv(struct comm *c, int from, struct vec *v);
/* Sends out to one worker and receives in, of equal length, from it or from another. The other
 * calls it, too; with two others all workers of c do. */
void comm_exchange(struct comm *c, int to, const struct vec *out, int from, struct vec *in);
void comm_allreduce(struct comm *c, struct vec *v, enum reduce op);
/* Of v[first] .. v[first + n - 1] only. */
void comm_allreduce_part(struct comm *c, struct vec *v, size_t first, size_t n, enum reduce op);
enum { ALLREDUCES_MOST = 64 }; /* pending on one comm */
/* Starts a sum (not a mean). v[first] .. v[first + n - 1] may not be used until comm_wait. */
struct request *comm_allreduce_start(struct comm *c, struct vec *v, size_t first, size_t n);
void comm_wait(struct request *r); /* frees r */
/* all = each worker's mine, in rank order. Unless lengths are equal, they are exchanged first. */
void comm_allgather(struct comm *c, struct vec *all, const struct vec *mine);
void comm_allgather_equal(struct comm *c, struct vec *all, const struct vec *mine);
void comm_broadcast(struct comm *c, int root, struct vec *v); /* v = the v of rank root */
void comm_barrier(struct comm *c);
/* Mean bytes that a worker sends in an allreduce of a vec's part, and to exchange n floats. */
double comm_sum_bytes(const struct comm *c, size_t first, size_t n);
double comm_exchange_bytes(const struct comm *c, size_t n);
/* Workers with the same color (from 0) form a new comm, in the order of their ranks in c.
 * Collective; not between steps. places: those of one machine; or, where the simulated platform has
 * several sites, of one site. *n: the number of comms. */
struct comm *comm_split(struct comm *c, int color);
struct comm *comm_split_places(struct comm *c, int *n);
void comm_free(struct comm *c);

/* ---- Tables: parameters on a parameter server, cut into shards. ---- */

struct push {        /* its numbers; an updater reads those in its formula */
	float scale; /* of a delta; the weight of the push, which lr and rho contain */
	float lr, rho, lambda, eps;
	double momentum, beta[2]; /* 1 - beta of a float would be wrong near 1 */
	float period;             /* pushes between two steps of a delayed momentum */
	/* In rounds with backup workers: the rows behind it, in units of the mean push's; 0 = 1.
	 * idle: there are none, and no round waits for it. */
	float share;
	bool idle;
};

enum table_init { TABLE_MASTER, TABLE_AVERAGE, TABLE_SUM }; /* W is rank 0's, the mean, the sum */

struct table_terms {
	const char *updater; /* how a push changes W, see UPDATER_OPTIONS; NULL = "add" */
	/* Bulk-synchronous: a pull waits for the push of every worker. An updater whose step
	 * depends on W or on what it keeps then gets one push a round, the sum of scale g. */
	bool rounds;
	int64_t backup; /* with rounds: late pushes per round that are dropped, not awaited; */
	bool joins;     /* they are not dropped: they count in the round in which they come, */
	double grace;   /* [s] and a round waits for them after it has enough */
	bool mean;      /* with backup: a round's sum is divided by the shares of a full one */
	int64_t lead;   /* with bounded: the most pushes a worker is ahead of the slowest */
	bool bounded;
	bool each; /* one W for each trainer, see table_of; only with updater add */
	/* All pushes are table_syncs. Of a single worker in every step, init is the table. */
	bool syncs;
	bool none; /* this run makes no table */
	enum table_init init;
};

/* Collective. A table with the terms of the strategy. init receives the initial W. */
struct table *table_new(struct worker *w, struct vec *init);
/* With .each: from now on this worker's operations are on the W of that trainer; at first on its
 * own, which init is added to. Placement onesided has it on its trainer. */
void table_of(struct table *t, int trainer);
struct table_terms worker_terms(const struct worker *w); /* the strategy's .terms */
void table_free(struct table *t);                        /* collective */
/* One operation each. A push is counted with its staleness: the pushes of other workers since this
 * worker's last pull. Waits for other workers only if the terms say so.
 *   sync       W += scale (param - pulled);  param = pulled = W       scale: by->scale
 *   push       W = updater(W, g)
 *   push_pull  W = updater(W, g);  param = pulled = W
 *   pull       param = pulled = W
 *   elastic    d = alpha (param - W);  W += d;  param -= d           by codec: d as decoded
 * Operations with a push return false if the push was too late for its round and was dropped; their
 * pull is still done. */
bool table_sync(struct table *t, struct vec *param, const struct push *by);
bool table_push(struct table *t, const struct vec *g, const struct push *by);
bool table_push_pull(struct table *t, const struct vec *g, const struct push *by,
		     struct vec *param);
void table_pull(struct table *t, struct vec *param);
void table_elastic(struct table *t, struct vec *param, float alpha);
void table_get(struct table *t, struct vec *out); /* out = W; not counted, no pull */
/* Mean cost for this trainer of n floats to (or from) a table [bytes]; its own shard costs 0. */
double table_bytes(const struct worker *w, double n);
/* The same of a push to t, and of a pull, whose messages a codec may shorten. */
double table_push_bytes(const struct worker *w, const struct table *t);
double table_pull_bytes(const struct worker *w, const struct table *t);

/* The updaters of pushes (runtime/device/updaters.h), and the inputs of each: */
extern const char updater_choices[]; /* "|add|sgd..." */
#define UPDATERS (updater_choices + 1)
struct updater_wants {
	bool gradient; /* takes gradients, otherwise deltas */
	bool change;   /* takes deltas, too, but adds more than them: they are pushed, not synced */
	bool momentum; /* takes --momentum; it keeps v itself */
	bool betas;    /* takes beta in place of --momentum */
	bool squares;  /* its m decays a mean of squares: not a momentum */
	bool evens;    /* each push's step is as long for any gradient */
	bool whole;    /* takes lr undivided, also for a mean: its own divisor replaces N */
};
struct updater_wants updater_wants(const char *name);

/* ---- Workers. ------------------------------------------------------------ */

/* Floats of param, from `first` on: a matrix W[rows x columns] of products, or a row (biases). */
struct tensor {
	size_t first, rows, columns;
	bool spared; /* --decay=weights does not decay it */
	bool hidden; /* a matrix inside the model, not an embedding or the last layer */
	bool shared; /* every worker of the model group has all of it, not a part */
};

/* The model as its workload laid it out. */
struct model {
	const struct workload *workload;
	const void *opts;    /* the workload's options struct */
	void *state;         /* of the workload: state_size bytes, zeroed */
	struct net *net;     /* if it is a net */
	int64_t params;      /* trainable parameters of the whole model */
	const size_t *layer; /* layer i is floats layer[i]..layer[i+1] of param */
	size_t layers;
	/* Of a row in the whole model: flops[i] of the backward pass of layer i, flops[layers] of
	 * the forward pass. NULL = not known. */
	const double *flops;
	const struct tensor *tensor; /* all of param, in order */
	size_t tensors;
	/* Untrained state: running means and variances. Each worker has its own in training;
	 * evaluation uses their mean over the models. NULL = none. */
	struct vec *buffer;
};

struct worker {
	int rank, size; /* among all ranks; servers come last */
	int trainers;   /* ranks below this compute gradients */
	const struct run *run;
	const void *opts; /* the strategy's options struct */
	void *state;      /* of the strategy: state_size bytes, zeroed */
	const struct optimizer *optimizer;
	const void *optimizer_opts;
	const struct codec *codec, *codec_pull; /* codec_pull: of pulls; NULL = none */
	const void *codec_opts, *codec_pull_opts;
	struct model *model;
	struct vec *param, *grad;         /* [P], same layout: this worker's part of the model */
	struct vec *moment[MOMENTS_MOST]; /* [P], state of the optimiser; NULL = unused */
	int64_t age;                      /* steps of the optimiser since the moments were 0 */
	struct comm *all;                 /* every trainer */
	struct comm *model_group;         /* trainers that share a model, and so a mini-batch */
	struct comm *data_group;          /* trainers with the same part of a model */
	struct comm *coded; /* the same; --codec compresses: see struct strategy's .codes */
	const struct data *train, *test;
	const int32_t *index; /* [rows]: the rows of this step's mini-batch */
	size_t rows; /* 0: no mini-batch, as there are fewer rows than workers; grad is 0 then */
	/* The sum of its rows' gradients is divided by this: the mean of rows over the workers, so
	 * that each row has the same weight in a mean over them. 0: rows. */
	double mean_rows;
	int64_t steps;       /* of one epoch */
	int64_t step, epoch; /* current, from 1; steps count on over epochs */
	double lr;           /* of this step: schedule and --lr-scale applied */
	double weight;       /* of one trainer's contribution: 1/N for mean, 1 for sum */
	struct loop *loop;   /* the training loop's own, not for plug-ins */
};

/* 1; if models have no rows in this step, 0 for their workers, and for the others as much more: the
 * weight in a mean over workers whose steps are equally long for any gradient (.normalises). */
double worker_share(const struct worker *w);
/* A plug-in that computes on the host, between vec_get and vec_put, reports the work here: the
 * number of floats that a vectorisable loop reads twice and writes once; loops with branches count
 * several times. A simulated worker takes the calibrated time of it (1 ns per float if not
 * calibrated). Not in a workload's gradient, whose time includes the work. */
void worker_charge(const struct worker *w, double floats);
/* For checkpoints (--save): init calls it once for each object that the strategy keeps beside
 * param, moments, buffer and tables. The bytes hold no address, and are whole floats. */
void worker_keep_vec(struct worker *w, struct vec *v); /* NULL is fine */
void worker_keep(struct worker *w, void *state, size_t bytes);
/* As w->coded, for vecs laid out as v, whose floats are these tensors, with error feedback of its
 * own. data_group itself without a codec. Collective: init calls it; fini frees it if it is not
 * data_group. */
struct comm *worker_coded(struct worker *w, const struct vec *v, const struct tensor *tensor,
			  size_t tensors);
/* The mean loss of the rows that this worker has trained on since its last call, or since the start
 * of the epoch, up to its last gradient. NaN = no rows, or a simulation without training. It waits
 * for a GPU: call it only every few steps, and not in a `local` step. */
double worker_loss(struct worker *w);
/* Steps a second since its last call, without communication, as a share of the most that any worker
 * had at its own last call. init calls it first: collective, and 1. Sends a float and gets N. */
double worker_speed(struct worker *w);
/* A gradient or an evaluation of the workload's own, on the host, adds rows with this sum of losses
 * and number of correct answers; correct < 0 = not counted: these rows have no accuracy. */
void worker_tally(struct worker *w, double loss_sum, int64_t rows, int64_t correct);
/* A value of the strategy, such as an interval that it chose: table epoch_value stores, by name,
 * the mean over all reports of an epoch, and their number. NaN is ignored. A name has 1 to 31
 * characters; a strategy has at most REPORTS_MOST names. Cheap. */
enum { REPORTS_MOST = 16 };
void worker_report(struct worker *w, const char *name, double value);
/* The local optimiser's step by the worker's own gradient, scale grad; --clip may shorten grad.
 * Without rows an optimiser that .normalises makes none; others step by a gradient of 0. */
void local_step(struct worker *w, double scale);
/* All make the step by w->weight times the sum of all trainers' gradients, which is in grad. */
void common_step(struct worker *w);
/* common_step in parts, each for whole layers: floats first .. end - 1. They may come after the
 * next step has begun. common_step_cut: once, in init. common_step_later: in a step, keeps its
 * numbers, such as its learning rate; false: --clip needs all of grad, so call common_step. */
void common_step_cut(struct worker *w);
bool common_step_later(struct worker *w);
void common_step_part(struct worker *w, size_t first, size_t end);
/* local_step in two parts: --clip and --weight-decay change grad (decay only if the optimiser has
 * it in the gradient); then the optimiser's step. */
void local_gradient(struct worker *w);
void local_update(struct worker *w);
/* Called after param was averaged or exchanged with other workers. It applies --state: the moments
 * are kept, averaged over the data group (collective), or reset. */
void local_met(struct worker *w);
/* A strategy whose workers have different models calls it right before param is averaged or
 * exchanged. The last call of an epoch copies param for the consensus distance; without calls that
 * is measured at the end of the epoch. */
void consensus_mark(struct worker *w);
bool consensus_marks(const struct worker *w); /* would it copy in this step? */

#include "strategies/codecs/codec.h"         /* the bytes of what workers send */
#include "strategies/optimizers/optimizer.h" /* the step of each worker */

/* ---- Strategies: strategies/NAME.c defines strategy_NAME; strategies/strategy.c lists it. ---- */

/* The flags are promises. Each comment says what silently goes wrong if a flag is wrong.
 * --check-promises detects this and names the flag, except where the comment says "unseen". */
struct strategy {
	struct plugin plugin;
	size_t state_size; /* of worker->state [bytes] */
	/* Before anything starts: NULL, or a sentence (heap) that refuses the configuration. */
	char *(*refuse)(const struct run *run, const void *opts);
	/* How many workers share one model. NULL = 1: whole model on every worker. */
	int (*model_workers)(const struct run *run, const void *opts);
	const struct linear_ops *linear; /* workloads/linear.h; NULL = linear_whole */
	void (*init)(struct worker *w);  /* after the workload's; NULL = nothing to do */
	/* Called in every step before the gradient: sets param to its point (a look-ahead, a pulled
	 * or a delayed model), where step finds it. w->index, rows (0: no mini-batch) and lr are
	 * those of this step. Not called in the warm-up. NULL = as the previous step left it. */
	void (*fetch)(struct worker *w);
	/* step uses only this worker's vectors and w->lr. Otherwise a GPU, which replays the first
	 * such step, omits what the host does: messages, sums, counts. */
	bool local;
	/* Called after the backward pass of layer i: its part of grad is final. NULL = not used. */
	void (*layer_ready)(struct worker *w, size_t i);
	/* Does this run need that call for layer i? Always the same answer in a run: a GPU's graph
	 * marks only these layers. What layer_ready would start for others is missing, and the
	 * models drift apart. NULL = all. */
	bool (*wants_layer)(const struct worker *w, size_t i);
	void (*step)(struct worker *w); /* grad is new: updates param */
	/* After common_step_cut: called before the parameters of layer i are read. The forward pass
	 * needs them from the first layer on; before the model is stored or evaluated, all are
	 * needed. Not called in the warm-up; a second call finds nothing to do. NULL = param is
	 * ready when step returns. */
	void (*layer_needed)(struct worker *w, size_t i);
	/* Before a barrier and at the end: pushes pending changes. NULL = there are never any. */
	void (*flush)(struct worker *w);
	/* After a barrier during training: makes models equal again. NULL = nothing to do. */
	void (*rejoin)(struct worker *w);
	void (*fini)(struct worker *w); /* frees objects of init; NULL = nothing */
	/* The model to evaluate: fills model[P] with this trainer's view of it, without waiting for
	 * other workers; model may be w->param itself. NULL = param. */
	void (*canonical)(struct worker *w, struct vec *model);
	/* The mean over the trainers' canonical models is evaluated; otherwise one of a data group,
	 * because all are equal. Not set although they differ: only one is evaluated. Set although
	 * they are equal: a useless reduction. */
	bool average;
	/* Trainers may stop for good (--leave), and the others continue. Set although a trainer
	 * waits for them: it hangs until --stall-timeout reports it. Unseen. */
	bool may_leave;
	/* NULL, or returns NULL: --deal=dynamic may give trainers different numbers of
	 * mini-batches, if may_leave and terms are set. Otherwise returns a static sentence: why
	 * all need the same. NULL although they do: as with may_leave. Unseen. */
	const char *(*why_static)(const struct run *run, const void *opts);
	/* Of its tables: a run with --servers, --table-home or --record is refused before it starts
	 * if they are not possible. NULL: it has none. Set, but none is made: servers are idle. */
	struct table_terms (*terms)(const struct run *run, const void *opts);
	/* When its workers call local_met, which applies --state: NEVER, so that all moments stay
	 * equal; each ALONE; or all of a data group TOGETHER in the same step. NEVER, but it calls
	 * local_met: every run ends with a message. TOGETHER, but it is called alone:
	 * --state=average hangs. ALONE or TOGETHER, but not called: no effect; unseen. */
	enum { MEETS_NEVER, MEETS_ALONE, MEETS_TOGETHER } meets;
	/* What a codec compresses: nothing (it is refused); over w->coded, sums of gradients, or of
	 * changes of models since all were equal, each a vec as long as param; comm_exchange over
	 * w->coded of models, which are then averaged in pairs; pushes to a table as long as param,
	 * whose terms then have no syncs; or its elastic moves, and with terms of .none sums. Set,
	 * but it uses data_group or syncs: --codec has no effect, and counted bytes show it. */
	enum { CODES_NOTHING, CODES_SUMS, CODES_PAIRS, CODES_PUSHES, CODES_MOVES } codes;
	/* Bytes that a trainer sends in a step, as a mean over trainers and sync_every steps of
	 * equal batches. Tests compare the counted bytes. */
	double (*bytes_per_step)(const struct worker *w);
	/* What an epoch takes, in words, for mvbench advise. A capital X stands for --sync-every:
	 * without one no call may read that, and it is 1. NULL = not told: it may be read. */
	const char *epoch_time;
	/* Values of its options that it simulates, too, one at a time; to name NULL. NULL: none. */
	const struct setting *variants;
};
extern const struct strategy *const strategies[]; /* ends at NULL */

#include "runtime/config/plugin.h" /* MVBENCH_PLUGIN, for files of users */

#pragma GCC visibility pop
#endif
