/*
 * mvbench.h - everything that a strategy may use; workloads/net.h adds what models may use.
 *
 * A strategy decides when and how workers exchange gradients or models. It is blocking code,
 * written once from the view of one worker. It runs on MPI processes and on simulated workers in
 * virtual time, because it sees no float, address, clock or network: it only calls the functions
 * below, which each platform and device implements.
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
int64_t run_workers(const struct run *run), run_servers(const struct run *run),
	run_epochs(const struct run *run), run_batch(const struct run *run),
	run_sync_every(const struct run *run), run_barrier_every(const struct run *run),
	run_seed(const struct run *run);
double run_momentum(const struct run *run);
bool run_record(const struct run *run), run_sim_train(const struct run *run);
const char *run_strategy(const struct run *run), *run_optimizer(const struct run *run),
	*run_codec(const struct run *run), *run_codec_feedback(const struct run *run),
	*run_reduce(const struct run *run), *run_state(const struct run *run),
	*run_leave(const struct run *run), *run_precision(const struct run *run),
	*run_platform(const struct run *run), *run_table_home(const struct run *run),
	*run_data_dir(const struct run *run);
/* The workload's options struct, for its data set. */
const void *run_workload_opts(const struct run *run);
/* The largest number of workers, and of servers. */
enum { WORKERS_MOST = 4096 };
int64_t workers_leaving(const struct run *run); /* the number that --leave names */

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
/* y[m x n] = op(a)[m x k] op(b)[k x n], op = transpose if at, bt. y may be longer: its head is
 * used. */
void vec_gemm(struct vec *y, bool at, const struct vec *a, bool bt, const struct vec *b, size_t m,
	      size_t n, size_t k);
void vec_add_bias(struct vec *y, const struct vec *b, size_t rows); /* y[r][j] += b[j] */
void vec_sum_rows(struct vec *b, const struct vec *y, size_t rows); /* b[j] = sum_r y[r][j] */
/* Heavy ball in one pass: g = scale g + decay p; v = m v + g; p = p - lr v. v NULL: m is 0. */
void vec_sgd(struct vec *p, struct vec *v, const struct vec *g, float lr, float m, float decay,
	     float scale);
/* y[2] += sum of x[i]^2, from first to end - 1: added up in float64. y[1] is 2^-192 of it, for sums
 * that are too large for the float y[0]. */
void vec_add_squares(struct vec *y, const struct vec *x, size_t first, size_t end);
/* y = most / max(least, norm of y) y, where square[2] is its sum of squares. least = most limits
 * the norm to `most`; a tiny `least` sets it to `most`. */
void vec_limit(struct vec *y, const struct vec *square, float most, float least);

enum { MOMENTS_MOST = 2 }; /* vectors next to param that an optimiser keeps */

/* ---- Communication. All functions count their bytes and time. All workers of a comm call its
 * collectives in the same order; on a comm of one worker they return at once. */

/* How the workers' numbers are combined, element by element. SUM, MEAN, MAX: floats; MAX of a NaN
 * is unspecified. SUM_INT32, SUM_INT8: the same 4 n bytes hold n int32_t or 4 n int8_t, put there
 * by vec_put; their sums must not overflow. */
enum reduce { SUM, MEAN, MAX, SUM_INT32, SUM_INT8 };

int comm_rank(const struct comm *c);
int comm_size(const struct comm *c);
/* Returns when the receiver has the data: two workers that send to each other hang. */
void comm_send(struct comm *c, int to, const struct vec *v);
void comm_recv(struct comm *c, int from, struct vec *v);
/* Sends out to one worker and receives in from it, or from another, at the same time; equal
 * lengths. The other calls it, too; with two others all workers of c do. */
void comm_exchange(struct comm *c, int to, const struct vec *out, int from, struct vec *in);
void comm_allreduce(struct comm *c, struct vec *v, enum reduce op);
/* The same for v[first] .. v[first + n - 1] only. */
void comm_allreduce_part(struct comm *c, struct vec *v, size_t first, size_t n, enum reduce op);
/* The most pending allreduces on one comm; one more is a bug. */
enum { ALLREDUCES_MOST = 64 };
/* Starts a sum (not a mean). v[first] .. v[first + n - 1] may not be used until comm_wait. */
struct request *comm_allreduce_start(struct comm *c, struct vec *v, size_t first, size_t n);
void comm_wait(struct request *r); /* frees r */
/* all = each worker's mine, in rank order; lengths may differ. */
void comm_allgather(struct comm *c, struct vec *all, const struct vec *mine);
/* The same for equal lengths: saves the messages that exchange the lengths. */
void comm_allgather_equal(struct comm *c, struct vec *all, const struct vec *mine);
void comm_broadcast(struct comm *c, int root, struct vec *v); /* v = the v of rank root */
void comm_barrier(struct comm *c);
/* Mean bytes that a worker sends in an allreduce of floats first .. first + n - 1 of a vec, and in
 * an exchange of n floats. */
double comm_sum_bytes(const struct comm *c, size_t first, size_t n);
double comm_exchange_bytes(const struct comm *c, size_t n);
/* Workers with the same color (from 0) form a new comm, in the order of their ranks in c.
 * Collective; not between steps. */
struct comm *comm_split(struct comm *c, int color);
void comm_free(struct comm *c);

/* ---- Tables: parameters on a parameter server, cut into shards. ---- */

/* The numbers of a push. An updater reads those in its formula. */
struct push {
	float scale; /* of a delta; the weight of the push, which lr and rho contain */
	float lr, rho, lambda, eps;
	double momentum, beta[2]; /* 1 - beta of a float would be wrong near 1 */
	float period;             /* pushes between two steps of a delayed momentum */
	/* In rounds with backup workers: the rows behind the push, in units of the mean push's; 0 =
	 * 1. idle: there are none. A round does not wait for idle pushes. */
	float share;
	bool idle;
};

/* The initial value: that of rank 0, the mean over the workers, or their sum. */
enum table_init { TABLE_MASTER, TABLE_AVERAGE, TABLE_SUM };

struct table_terms {
	const char *updater; /* how a push changes W, see UPDATER_OPTIONS; NULL = "add" */
	/* Bulk-synchronous: a pull waits for the push of every worker. An updater whose step
	 * depends on W or on what it keeps then gets one push a round, the sum of scale g. */
	bool rounds;
	int64_t backup; /* with rounds: late pushes per round that are dropped, not awaited */
	bool mean;      /* with backup: the sum of a round's pushes is divided by their shares */
	int64_t lead;   /* with bounded: the most pushes a worker is ahead of the slowest */
	bool bounded;
	/* All pushes are table_syncs. A single worker that syncs in every step then needs no copy:
	 * its init is the table. */
	bool syncs;
	enum table_init init;
};

/* Collective. A table with the terms of the strategy. Their init decides the initial W, which init
 * receives as the first pulled values. */
struct table *table_new(struct worker *w, struct vec *init);
struct table_terms worker_terms(const struct worker *w); /* the strategy's .terms */
void table_free(struct table *t);                        /* collective */
/* Each call is one operation on the shards. A push is counted with its staleness: the pushes of
 * other workers since this worker's last pull. Waits for other workers only if the terms say so.
 *   sync       W += scale (param - pulled);  param = pulled = W       scale: by->scale
 *   push       W = updater(W, g)
 *   push_pull  W = updater(W, g);  param = pulled = W
 *   pull       param = pulled = W
 *   elastic    d = alpha (param - W);  W += d;  param -= d
 * Operations with a push return false if the push was too late for its round and was dropped; their
 * pull is still done. */
bool table_sync(struct table *t, struct vec *param, const struct push *by);
bool table_push(struct table *t, const struct vec *g, const struct push *by);
bool table_push_pull(struct table *t, const struct vec *g, const struct push *by,
		     struct vec *param);
void table_pull(struct table *t, struct vec *param);
void table_elastic(struct table *t, struct vec *param, float alpha);
void table_get(struct table *t, struct vec *out); /* out = W; not counted, no pull */
int64_t table_version(struct table *t);           /* pushes started so far */
/* Mean cost for this trainer of n floats to (or from) a table [bytes]; its own shard costs 0. */
double table_bytes(const struct worker *w, double n);
/* The same of a push of t, whose messages a codec may shorten. */
double table_push_bytes(const struct worker *w, const struct table *t);

/* The updaters that a push can use (runtime/device/updaters.h), and the inputs of each: */
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

/* Floats first .. first + rows columns - 1 of param: a matrix W[rows x columns] of products, or a
 * row such as biases. */
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
	/* Work of a row in the whole model [flops]: flops[i] for the backward pass of layer i,
	 * flops[layers] for the whole forward pass. NULL = not known. */
	const double *flops;
	const struct tensor *tensor; /* all of param, in order */
	size_t tensors;
	/* Untrained state that evaluation needs: running means and variances. Each worker has its
	 * own in training; evaluation uses their mean over the models. NULL = none. */
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
	const struct codec *codec;
	const void *codec_opts;

	struct model *model;
	struct vec *param, *grad;         /* [P], same layout: this worker's part of the model */
	struct vec *moment[MOMENTS_MOST]; /* [P], state of the optimiser; NULL = unused */
	int64_t age;                      /* steps of the optimiser since the moments were 0 */

	struct comm *all;         /* every trainer */
	struct comm *model_group; /* trainers that share a model, and so a mini-batch */
	struct comm *data_group;  /* trainers with the same part of a model */
	/* The same trainers; what they reduce or exchange is compressed by --codec, if there is
	 * one: see struct strategy's .codes. */
	struct comm *coded;

	const struct data *train, *test;
	const int32_t *index; /* [rows]: the rows of this step's mini-batch */
	/* 0: this worker has no mini-batch in this step, because there are fewer rows than workers;
	 * grad is 0 then. */
	size_t rows;
	/* The sum of the gradients of its rows is divided by this: the mean of rows over the
	 * workers of the step. Each row of a step then has the same weight in a mean over the
	 * workers. 0: rows. */
	double mean_rows;
	int64_t steps;       /* of one epoch */
	int64_t step, epoch; /* current, from 1; steps count on over epochs */
	double lr;           /* of this step: schedule and --lr-scale applied */
	double weight;       /* of one trainer's contribution: 1/N for mean, 1 for sum */

	struct loop *loop; /* the training loop's own, not for plug-ins */
};

/* 1; if models have no rows in this step, 0 for their workers, and for the others as much more. A
 * mean over workers whose steps are equally long for any gradient (.normalises) weighs them by it.
 */
double worker_share(const struct worker *w);

/* A plug-in that computes on the host, between vec_get and vec_put, reports the work here: the
 * number of floats that a vectorisable loop reads twice and writes once. Code that branches, or
 * depends on the previous float, counts several times. A simulated worker takes the calibrated time
 * of such a loop (1 ns per float if not calibrated); for a real one the call does nothing. Do not
 * call it in a workload's gradient, whose time already includes the work. */
void worker_charge(const struct worker *w, double floats);

/* Registers state of a strategy for checkpoints (--save), in addition to param, moments, buffer and
 * tables. init calls it once for each object, after making it. The bytes hold no address; their
 * number is a multiple of sizeof(float). */
void worker_keep_vec(struct worker *w, struct vec *v); /* NULL is fine */
void worker_keep(struct worker *w, void *state, size_t bytes);

/* As w->coded, for vecs laid out as v, whose floats are these tensors: with error feedback of its
 * own, which checkpoints contain. data_group itself without a codec. Collective: init calls it, and
 * fini frees it if it is not data_group. */
struct comm *worker_coded(struct worker *w, const struct vec *v, const struct tensor *tensor,
			  size_t tensors);

/* The mean loss of the rows that this worker has trained on since its last call, or since the start
 * of the epoch. In step and fetch the rows of its last gradient are the newest. It is local: a mean
 * over workers needs an allreduce of a vec of one. NaN = no rows, or a simulation without training.
 * A call on a GPU waits for it and copies 24 bytes, and idles it for about the time of a launch:
 * call it only every few steps there. A `local` step may not call it. */
double worker_loss(struct worker *w);

/* For a gradient, or an evaluation, of the workload's own: adds rows with this sum of losses, and
 * the number of correct answers, to the worker's tally. vec_softmax_xent and vec_mse do so
 * themselves. On the host, in a workload with .host. */
void worker_tally(struct worker *w, double loss_sum, int64_t rows, int64_t correct);

/* Reports a value of the strategy, such as an interval that it chose. Table epoch_value stores, by
 * name, the mean over all reports of all workers in an epoch, and their number; without reports
 * there is no row. NaN is ignored. A name has 1 to 31 characters; a strategy has at most
 * REPORTS_MOST names. Cheap: it looks up the name, adds, and allocates nothing. */
enum { REPORTS_MOST = 16 };
void worker_report(struct worker *w, const char *name, double value);

/* The local optimiser's step by the worker's own gradient, scale grad; --clip may shorten grad.
 * Without rows an optimiser that .normalises makes none; others step by a gradient of 0. */
void local_step(struct worker *w, double scale);
/* The step by the sum of all trainers' gradients, which is in grad: all of them make it. The sum is
 * multiplied by w->weight: the mean's 1/N costs no pass of its own. */
void common_step(struct worker *w);
/* local_step in two parts, for a strategy that acts between them or takes another step: first
 * --clip and --weight-decay change grad (decay only if the optimiser has it in the gradient); then
 * the optimiser's step. */
void local_gradient(struct worker *w);
void local_update(struct worker *w);
/* A strategy calls it after param was averaged or exchanged with other workers. It applies --state:
 * the moments are kept, averaged over the data group, or reset. Collective if they are averaged. */
void local_met(struct worker *w);

/* A strategy whose workers have different models calls it right before param is averaged or
 * exchanged. The last such call of an epoch copies param for the consensus distance; others do
 * nothing. Without calls the distance is measured at the end of the epoch. */
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
	/* Checks the configuration before anything starts: NULL, or a sentence (heap) that refuses
	 * it. */
	char *(*refuse)(const struct run *run, const void *opts);
	/* How many workers share one model. NULL = 1: whole model on every worker. */
	int (*model_workers)(const struct run *run, const void *opts);
	const struct linear_ops *linear; /* workloads/linear.h; NULL = linear_whole */
	void (*init)(struct worker *w);  /* after the workload's; NULL = nothing to do */
	/* Called in every step before the gradient: sets param to the point of the gradient (a
	 * look-ahead, a pulled or a delayed model). w->index, w->rows (0: no mini-batch) and w->lr
	 * are those of this step. step finds param as fetch left it. Not called in the warm-up,
	 * whose gradients are not used. NULL = param is as the previous step left it. */
	void (*fetch)(struct worker *w);
	/* step uses only this worker's vectors and w->lr. Otherwise a GPU, which replays the
	 * operations of the first such step, omits what the host does: messages, sums, counts. */
	bool local;
	/* Called after the backward pass of layer i: its part of grad is final. NULL = not used. */
	void (*layer_ready)(struct worker *w, size_t i);
	/* Does this run need that call for layer i? Always the same answer in a run, because a
	 * GPU's graph marks only these layers. If step waits for operations that only layer_ready
	 * starts, those of other layers are missing, and the models drift apart. NULL = all. */
	bool (*wants_layer)(const struct worker *w, size_t i);
	void (*step)(struct worker *w); /* grad is new: updates param */
	/* Before a barrier and at the end: pushes pending changes. NULL = there are never any. */
	void (*flush)(struct worker *w);
	/* After a barrier during training: makes models equal again. NULL = nothing to do. */
	void (*rejoin)(struct worker *w);
	void (*fini)(struct worker *w); /* frees objects of init; NULL = nothing */
	/* The model to evaluate: fills model[P] with this trainer's view of it, without waiting for
	 * other workers; model may be w->param itself. NULL = param. */
	void (*canonical)(struct worker *w, struct vec *model);
	/* The evaluated model is the mean over the trainers' canonical models; otherwise that of
	 * one trainer of a data group, because all are equal. Not set although they differ: only
	 * one is evaluated. Set although they are equal: a useless reduction. */
	bool average;
	/* Trainers may stop for good (--leave), and the others continue. Set although a trainer
	 * waits for them: it hangs until --stall-timeout reports it. Unseen. */
	bool may_leave;
	/* NULL, or returns NULL: --deal=dynamic may give trainers different numbers of
	 * mini-batches, if may_leave and terms are set. Otherwise returns a static sentence: why
	 * all trainers need the same number with these options. NULL although they need it: a
	 * trainer with more mini-batches waits at the end, as with may_leave. Unseen. */
	const char *(*why_static)(const struct run *run, const void *opts);
	/* The terms of its tables, which --servers, --table-home and --record concern: a run is
	 * refused before it starts if they are not possible. NULL: it has no tables. Set, but no
	 * table is made: the servers are idle. */
	struct table_terms (*terms)(const struct run *run, const void *opts);
	/* When its workers call local_met, which applies --state to the optimiser's moments:
	 *   MEETS_NEVER     never: the moments of all workers stay equal
	 *   MEETS_ALONE     each worker at its own time
	 *   MEETS_TOGETHER  all workers of a data group in the same step
	 * NEVER, but it calls local_met: --state is refused without need. TOGETHER, but workers
	 * call it alone: --state=average hangs. ALONE or TOGETHER, but it does not call local_met:
	 * --state has no effect; unseen. */
	enum { MEETS_NEVER, MEETS_ALONE, MEETS_TOGETHER } meets;
	/* What a codec compresses:
	 *   CODES_NOTHING  nothing: a run with a codec is refused
	 *
	 *   CODES_SUMS     sums over w->coded: of gradients, or of changes of models since all were
	 * equal. Each is a vec as long as param; a model itself is no change
	 *
	 *   CODES_PAIRS    comm_exchange over w->coded, of models that the workers then average in
	 * pairs
	 *
	 *   CODES_PUSHES   pushes to its table, which is as long as param; terms have no syncs then
	 *
	 * Set, but it uses data_group or syncs: --codec has no effect, and the counted bytes show
	 * it. */
	enum { CODES_NOTHING, CODES_SUMS, CODES_PAIRS, CODES_PUSHES } codes;
	/* Bytes that a trainer sends in a step, as a mean over trainers and sync_every steps of
	 * equal batches. Tests compare the counted bytes with it. */
	double (*bytes_per_step)(const struct worker *w);
	/* What takes time in an epoch, in words: mvbench advise prints it next to simulated times.
	 * It contains X if --sync-every matters, and no other capital X. NULL = not told; all
	 * intervals are then simulated. */
	const char *epoch_time;
	/* Other values of its options that mvbench advise simulates, too, one at a time; ends at
	 * name NULL. NULL = none. */
	const struct setting *variants;
};
extern const struct strategy *const strategies[]; /* ends at NULL */

/* ---- Plug-ins in a user's file (--strategy=NAME.c): the file ends in
 *     MVBENCH_PLUGIN(.strategy = &strategy_mine);
 * or .workload, .optimizer, .codec. ---- */

/* Grows when plug-ins compiled with the older contract no longer work. */
#define CONTRACT_VERSION 3
struct plugin_file {
	uint32_t version;  /* first in all versions, */
	uint32_t bytes[5]; /* if equal, then these: struct sizes at compilation */
	const struct strategy *strategy;
	const struct workload *workload;
	const struct optimizer *optimizer;
	const struct codec *codec;
};
#define CONTRACT_BYTES \
	sizeof(struct option), sizeof(struct worker), sizeof(struct strategy), \
		sizeof(struct optimizer), sizeof(struct codec)
extern const struct plugin_file mvbench_plugin; /* defined by the plug-in */
#define MVBENCH_PLUGIN(...) \
	const struct plugin_file mvbench_plugin = { \
		.version = CONTRACT_VERSION, .bytes = {CONTRACT_BYTES}, __VA_ARGS__}

#pragma GCC visibility pop
#endif
