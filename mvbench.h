/*
 * mvbench.h - everything that a strategy may know; what models know too is in workloads/net.h.
 *
 * A strategy says how workers that each compute gradients keep one model in step. It is written
 * once, as blocking code seen from one worker, and runs on MPI processes as well as on simulated
 * workers in virtual time. That works because it sees no float, no address, no clock and no
 * network: it calls the functions below, and each platform and device gives them their meaning.
 *
 * Letters in shapes: B rows of a mini-batch, I inputs, O outputs, P parameters. Matrices are
 * row-major. Whoever makes a thing frees it. Nothing is allocated between two steps.
 */
#ifndef MVBENCH_H
#define MVBENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(default) /* what plug-ins that are loaded find in the program */

struct vec;      /* floats on a device: host, GPU, or a length without data */
struct keepsake; /* what a checkpoint holds of a strategy */
struct account;  /* what it was told of an epoch, and said */
struct comm;     /* some workers that communicate, and the counters of what they do */
struct request;  /* a communication under way */
struct table;    /* parameters on a parameter server */
struct net;      /* a stack of layers */
struct data;
struct workload;
struct worker;

/* ---- Stopping. A failed CHECK is a bug of ours: it ends all ranks ---- */

void panic(const char *file, int line, const char *fmt, ...)
	__attribute__((noreturn, format(printf, 3, 4)));
#define CHECK(cond, ...) \
	do { \
		if (!(cond)) \
			panic(__FILE__, __LINE__, __VA_ARGS__); \
	} while (0)

/* A formatted string on the heap; the caller frees it. */
char *sentence(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Ends this run because of what the user asked for or gave: one sentence that says what to do.
 * Collective data loading and set-up use it; all ranks stop, exit status 2, nothing is recorded. */
void user_error(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* ---- Options: one row is parser, range, help and results column. --------- */

enum option_type {
	OPT_INT,    /* field is int64_t */
	OPT_REAL,   /* double */
	OPT_BOOL,   /* bool */
	OPT_STRING, /* const char * */
	OPT_CHOICE, /* const char *, one of .choices */
	OPT_SIZE,   /* int64_t, bytes; takes KiB, MiB, GiB, kB, MB, GB */
	OPT_TIME,   /* double, seconds; takes us, ms, s, min, h */
};

/* Of a core option: how it is kept, compared and repeated. */
struct option_facts {
	int since;           /* the version of the database that has it first; 0 = the oldest */
	const char *earlier; /* its value in runs of before it; NULL = the default */
	int label; /* its place in names of figures; 0 = short names have it, or need it not */
	enum { AS_GIVEN, AS_USED, USED_IF_ANY, OF_SIMULATION, UNSTORED } stored;
	enum { REPLAY_MUST, REPLAY_MAY, REPLAY_OWN } replay; /* agree with the run replayed */
	bool kept_apart, repeats; /* by statistics, beside what decides; over which they are */
	bool compared;            /* what a comparison is of, and not what it is tuned in */
};

struct option {
	const char *name; /* "bucket", given as --allreduce.bucket=1MiB */
	enum option_type type;
	size_t offset;       /* of the field in the owner's options struct */
	const char *def;     /* as a user would type it */
	double min, max;     /* inclusive; both 0 = any */
	const char *choices; /* OPT_CHOICE: "mean|sum" */
	bool incidental;     /* does not decide the result: no part of a cell's identity */
	/* NULL, or a sentence: what a range cannot say of one value. NULL = nothing. */
	char *(*check)(const struct option *o, const char *text);
	struct option_facts core; /* what run_options.def says; of plug-ins' options: .since */
	const char *help;         /* ends in its unit: "... [steps]" */
};

/* A row of a table of options: its field of struct OWNER, which the file that has the table
 * defines; type, name, default, help, and then what else there is to say: .min = 1, .choices =
 * "a|b". */
#define OPTION(field, type_, name_, def_, help_, ...) \
	{ \
		.name = name_, .type = OPT_##type_, .offset = offsetof(OWNER, field), .def = def_, \
		.help = help_, __VA_ARGS__ \
	}

struct setting {
	const char *name, *value; /* as a user would type them; value NULL: a bare flag */
};

struct plugin {
	const char *name;             /* --strategy=NAME, and the results column */
	const char *summary;          /* one line for help */
	const struct option *options; /* ends at name NULL; NULL = none */
	size_t opts_size;             /* of the options struct [bytes] */
};

/* ---- The run: the core options, resolved, as run_options.def says what they are. ---- */

#define FIELD_OF_INT    int64_t
#define FIELD_OF_REAL   double
#define FIELD_OF_BOOL   bool
#define FIELD_OF_TIME   double
#define FIELD_OF_STRING const char *
#define FIELD_OF_CHOICE const char *

struct run {
#define OPTION_RUN(field, type, ...) FIELD_OF_##type field;
#define OPTION_OWN(...)
#include "runtime/config/run_options.def"
};

/* The most workers, and the most servers, that there can be. */
enum { WORKERS_MOST = 4096 };
int64_t workers_leaving(const struct run *run); /* how many --leave names */

/* ---- Vectors. Arguments may not overlap; lengths are checked. y is what changes. ---- */

struct vec *vec_new(struct worker *w, size_t n);              /* zeroed */
struct vec *vec_slice(struct vec *v, size_t first, size_t n); /* a view: owns no floats */
void vec_free(struct vec *v);                                 /* NULL is fine */
size_t vec_len(const struct vec *v);
bool vec_has_data(const struct vec *v); /* false: a length only, nothing to fill in or read */
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
/* The head of y or x may be used: y[m x n] = op(a)[m x k] op(b)[k x n], op = transpose if set. */
void vec_gemm(struct vec *y, bool at, const struct vec *a, bool bt, const struct vec *b, size_t m,
	      size_t n, size_t k);
void vec_add_bias(struct vec *y, const struct vec *b, size_t rows); /* y[r][j] += b[j] */
void vec_sum_rows(struct vec *b, const struct vec *y, size_t rows); /* b[j] = sum_r y[r][j] */
/* Heavy ball in one pass: g = scale g + decay p; v = m v + g; p = p - lr v. v NULL: m is 0. */
void vec_sgd(struct vec *p, struct vec *v, const struct vec *g, float lr, float m, float decay,
	     float scale);
/* y[0] += sum of x[i]^2, from first to end - 1; added up in float64. */
void vec_add_squares(struct vec *y, const struct vec *x, size_t first, size_t end);
/* y = most / max(least, sqrt(square[0])) y, where square[1] is a sum of squares: a length that is
 * held to `most`, with least = most; or made `most`, with least next to 0. */
void vec_limit(struct vec *y, const struct vec *square, float most, float least);

/* An optimiser's pass, where x is one of the floats and g = scale g its gradient; the formulas are
 * in runtime/device/rules.h, and name what they read. */
enum { MOMENTS_MOST = 2 }; /* vectors beside x that one keeps */
enum rule_kind { RULE_SGD, RULE_MOMENTUM, RULE_NESTEROV, RULE_ADAMW, RULE_LION };
struct rule {
	enum rule_kind kind;
	float lr, scale, decay;
	float beta[2], eps;
};
/* moment[i] as many as the rule keeps. What it divides by for moments that began as 0 is the step's
 * (struct optimizer). */
void vec_step(struct vec *x, struct vec *const moment[], const struct vec *g,
	      const struct rule *by);

/* ---- Communication. All wrappers count bytes and time themselves. Collectives on a comm are
 * called by all of its workers in the same order; on a comm of one they return at once. */

/* What becomes of the workers' numbers, place by place. Of floats, where MAX of a NaN may be
 * anything; SUM_INT32 and SUM_INT8 are of other numbers that the same 4 n bytes hold, n int32_t or
 * 4 n int8_t, as vec_put brought them there; their sums have to fit. */
enum reduce { SUM, MEAN, MAX, SUM_INT32, SUM_INT8 };

int comm_rank(const struct comm *c);
int comm_size(const struct comm *c);
/* Returns when the other end has received: two workers that send to each other hang. */
void comm_send(struct comm *c, int to, const struct vec *v);
void comm_recv(struct comm *c, int from, struct vec *v);
/* out goes to the peer, and in comes from it, at once; of equal length. The peer calls it too. */
void comm_exchange(struct comm *c, int peer, const struct vec *out, struct vec *in);
void comm_allreduce(struct comm *c, struct vec *v, enum reduce op);
/* The same for v[first] .. v[first + n - 1] only. */
void comm_allreduce_part(struct comm *c, struct vec *v, size_t first, size_t n, enum reduce op);
/* So many may be under way on one comm: one more is a bug. */
enum { ALLREDUCES_MOST = 64 };
/* Started; v[first] .. may not be touched until comm_wait, which sums (no mean). */
struct request *comm_allreduce_start(struct comm *c, struct vec *v, size_t first, size_t n);
void comm_wait(struct request *r); /* r is gone */
/* all = each worker's mine, in rank order; lengths may differ. */
void comm_allgather(struct comm *c, struct vec *all, const struct vec *mine);
/* The same, of equal lengths: without the round of messages in which all tell each other theirs. */
void comm_allgather_equal(struct comm *c, struct vec *all, const struct vec *mine);
void comm_broadcast(struct comm *c, int root, struct vec *v); /* v = the v of rank root */
void comm_barrier(struct comm *c);
/* The workers of one color (from 0) make a comm, in the order of their ranks in c. Collective; not
 * between steps. */
struct comm *comm_split(struct comm *c, int color);
void comm_free(struct comm *c);

/* Part i of n floats cut into `parts` nearly equal pieces starts here; part_of(n, parts, parts) =
 * n. */
static inline size_t part_of(size_t n, size_t parts, size_t i)
{
	return (size_t)((unsigned __int128)n * i / parts);
}

/* ---- Tables: parameters that live on a parameter server, cut into shards. ---- */

/* What goes with a push. An updater reads what its formula names. */
struct push {
	float scale; /* of a delta */
	float lr, momentum, rho, lambda;
	double beta[2];
	float eps;
};

/* The initial value: rank 0's, the mean of all workers', or their sum. */
enum table_init { TABLE_MASTER, TABLE_AVERAGE, TABLE_SUM };

struct table_terms {
	const char *updater; /* what a push does to W, see UPDATER_OPTIONS; NULL = "add" */
	bool rounds;         /* bulk-synchronous: a pull waits for everybody's push */
	int64_t backup;      /* with rounds: so many pushes are not waited for, and dropped */
	int64_t lead;        /* with bounded: pushes that a worker may be ahead of the slowest */
	bool bounded;
	/* Pushes are table_syncs. One client then needs no copy: the table is its init vector. */
	bool syncs;
	enum table_init init;
};

/* Collective. W starts as init says, and so do the pulled values: init gets them. Tables that
 * cannot be had on these terms end the run with a sentence (user_error). */
struct table *table_new(struct worker *w, struct vec *init, const struct table_terms *terms);
void table_free(struct table *t); /* collective */
/* Each is one operation on the shards; pushes are counted with their staleness: others' pushes
 * since this worker's last pull. Waits for nobody, but where the terms say so.
 *   sync       W += scale (param - pulled);  param = pulled = W
 *   push       W = updater(W, g)
 *   push_pull  W = updater(W, g);  param = pulled = W
 *   pull       param = pulled = W
 *   elastic    d = alpha (param - W);  W += d;  param -= d
 * Those that push return false if the push came too late for its round and was dropped; the pull
 * took place. */
bool table_sync(struct table *t, struct vec *param, float scale);
bool table_push(struct table *t, const struct vec *g, const struct push *by);
bool table_push_pull(struct table *t, const struct vec *g, const struct push *by,
		     struct vec *param);
void table_pull(struct table *t, struct vec *param);
void table_elastic(struct table *t, struct vec *param, float alpha);
void table_get(struct table *t, struct vec *out); /* out = W; not counted, no pull */
int64_t table_version(struct table *t);           /* pushes begun so far */
/* What n floats to a table (or from it) cost this trainer on average [bytes]: its own shard is
 * free. */
double table_bytes(const struct worker *w, double n);

/* The updaters that a push can name (runtime/device/updaters.h), and what each wants of it: */
extern const char updater_choices[]; /* "|add|sgd..." */
#define UPDATERS (updater_choices + 1)
struct updater_wants {
	bool gradient; /* gradients, else deltas */
	bool momentum; /* plain ones: it keeps v itself */
	bool betas;    /* those are in the place of --momentum */
	bool squares;  /* its m is that of a mean of squares, no momentum */
	bool whole;    /* lr itself, also for a mean: it divides by what takes the place of N */
};
struct updater_wants updater_wants(const char *name);

/* ---- Random numbers: splitmix64; equal on every platform. ---------------- */

/* What is drawn; each has streams of its own, numbered by index. */
enum stream {
	STREAM_DATA,
	STREAM_INIT,
	STREAM_ORDER,
	STREAM_STRAGGLE,
	STREAM_AUGMENT,
	STREAM_DROPOUT,
	STREAM_COMPUTE,
	STREAM_SAMPLE,
	STREAM_SHARD,
	STREAM_VALIDATION,
	STREAM_CELLS,
	/* Plug-ins' own, of a run one of each kind; index as it likes: rank, or step * trainers +
	 * rank. The others are the core's. */
	STREAM_STRATEGY,
	STREAM_WORKLOAD,
	STREAM_OPTIMIZER
};
uint64_t rng_seed(int64_t seed, enum stream what, int64_t index);
uint64_t rng_next(uint64_t *s);
double rng_uniform(uint64_t *s); /* [0, 1) */
double rng_normal(uint64_t *s);  /* mean 0, variance 1 */

/* ---- Workers. ------------------------------------------------------------ */

/* Floats first .. first + rows columns - 1 of param, as a matrix that products take as W[rows x
 * columns], or a row of biases or the like. */
struct tensor {
	size_t first, rows, columns;
	bool spared; /* --decay=weights leaves it as it is */
	bool hidden; /* a matrix within the model, neither an embedding nor the last layer's */
	bool shared; /* held alike by all that share a model, not as a part of it */
};

struct worker {
	int rank, size; /* among all ranks; servers come last */
	int trainers;   /* ranks below this compute gradients */
	const struct run *run;
	const struct strategy *strategy;
	const void *opts; /* the strategy's options struct */
	void *state;      /* the strategy's own: state_size bytes, zeroed */
	const struct workload *workload;
	const void *workload_opts;
	struct net *net; /* the workload's model, where it is a net */
	void *model;     /* the workload's own: state_size bytes, zeroed */
	const struct optimizer *optimizer;
	const void *optimizer_opts;

	struct vec *param, *grad; /* [P], same layout: what this worker holds of the model */
	struct vec *moment[MOMENTS_MOST]; /* [P], what the optimiser keeps; NULL = no more */
	int64_t fresh;                    /* the step after which they were 0 */
	const struct tensor *tensor;      /* of param, in order: all of it */
	size_t tensors;
	const struct param_group *group; /* the same, as the optimiser takes it */
	size_t groups;
	struct vec *scratch; /* of groups */
	struct vec *squares; /* [1], of --clip: the gradient's; NULL without it */
	/* What evaluation needs beside param and nobody trains: running means and variances. Each
	 * worker's own in training; their mean over the models is evaluated. NULL = none. */
	struct vec *buffer;
	const size_t *layer; /* layer i is floats layer[i]..layer[i+1] of param */
	size_t layers;
	/* What of the whole model a row multiplies [flops]: flops[i] backward in layer i,
	 * flops[layers] forward in all. NULL = not known. */
	const double *flops;
	int64_t model_params; /* trainable parameters of the whole model */

	struct comm *all;         /* every trainer */
	struct comm *model_group; /* the trainers that share one model: draw one mini-batch */
	struct comm *data_group;  /* the trainers that hold the same part of a model */

	const struct data *train, *test;
	const int32_t *index; /* rows of this step's mini-batch, */
	size_t rows;          /* that many */
	double mean_rows;     /* as many as its loss is the mean over; 0: its rows */
	int64_t steps;        /* of one epoch */
	int64_t step, epoch;  /* under way, from 1; steps count on over epochs */
	double lr;            /* of this step: schedule and --lr-scale applied */
	double weight;        /* of one trainer's contribution: 1/N for mean, 1 for sum */

	struct keepsake *kept;   /* what worker_keep and worker_keep_vec name; the loop's */
	struct account *account; /* of the epoch, by worker_loss and worker_report; the loop's */
	/* What consensus_mark notes; the loop's: NULL = nobody asks, or replicas are equal. */
	struct vec *consensus;
	bool marks, marked; /* it is asked for in this step; it was, in this epoch */

	/* A strategy's init sets it: this run can do without the slot. Where step waits for what it
	 * would have begun there, it waits for nothing, and models drift apart. */
	bool no_layer_ready;
	struct device *dev;
	struct stats *stats;
	struct tables *tables; /* made when a strategy asks for the first */
};

/* After work of its own on the host, between vec_get and vec_put, a plug-in says what it came to:
 * so many floats that a plain loop, which the compiler can vectorise, reads twice and writes once;
 * what branches, or depends on the float before, counts several times. A simulated worker takes as
 * long as that was measured to take (1 ns a float where nobody measured); a real one has taken it.
 * Not called inside a workload's gradient, whose time has it already. */
void worker_charge(const struct worker *w, double floats);

/* What a strategy has to find as it left it when a run goes on from a checkpoint (--save), beside
 * param, velocity, buffer and tables: its init names it, each once, after it has made it. The bytes
 * hold no address, and are a multiple of a float's. */
void worker_keep_vec(struct worker *w, struct vec *v); /* NULL is fine */
void worker_keep(struct worker *w, void *state, size_t bytes);

/* The mean loss of the rows that this worker has trained on since it last asked, or since the epoch
 * began: in step and fetch, those of its last gradient are the newest. Its own: a mean over workers
 * takes an allreduce of a vec of one. NaN = there were none, or a simulation is of time alone. Not
 * asked for, it costs nothing; asked for, a GPU is waited for and 24 bytes are copied, so that it
 * stands for about the time of a launch: there, ask every so many steps. A `local` step may not. */
double worker_loss(struct worker *w);

/* A figure of the strategy's own, such as an interval that it chose: table epoch_value keeps, by
 * this name, the mean of what all workers said in an epoch, each time alike, and how often. Where
 * nobody spoke there is no row; NaN says nothing. A name has 1 to 31 characters, and a strategy
 * has so many. Cheap: it looks for the name, adds, and allocates nothing. */
enum { REPORTS_MOST = 16 };
void worker_report(struct worker *w, const char *name, double value);

/* The local optimiser's step, with the gradient scale grad; --clip may shorten grad. */
void local_step(struct worker *w, double scale);
/* The same in two, for a strategy that has something to do between them, or whose step is another:
 * what --clip and --weight-decay make of grad, where the optimiser's decay is a part of it; and the
 * step that is left then. */
void local_gradient(struct worker *w);
void local_update(struct worker *w);
/* After param was brought together with others': the moments are kept, averaged over the data group
 * or begun anew, as --state says. Collective where they are averaged. */
void local_met(struct worker *w);

/* Where workers' models differ, a strategy calls it right before param is brought together with
 * others': what the consensus distance of an epoch is measured by. It copies param at the last such
 * meeting of an epoch, else it does nothing; a strategy that never calls is measured at its end. */
void consensus_mark(struct worker *w);

#include "strategies/optimizers/optimizer.h" /* what each worker steps by */

/* ---- Strategies: strategies/NAME.c defines strategy_NAME; strategies/strategy.c lists it. ---- */

/*
 * Y[B x O] = X[B x I] W^T + b, W[O x I]. A strategy may split it over the model group:
 *   WHOLE      W[O x I] on every worker, x and y whole
 *   BY_OUTPUT  W[O_r x I], b[O_r]; x whole, y[B x O_r] is this worker's part
 *   BY_INPUT   W[O x I_r], b[O] on rank 0 of the group, empty elsewhere; y whole
 */
enum split { WHOLE, BY_OUTPUT, BY_INPUT };

struct linear {
	size_t in, out;        /* of the whole layer: I, O */
	size_t chain, chained; /* place in a run of linear layers with only elementwise
					   layers between, and how long that run is */
	bool first;            /* no layer below wants its gradient */
	enum split split;
	bool x_split;                                /* x is this worker's part already */
	size_t in_first, in_held;                    /* columns of W held here */
	size_t out_first, out_held;                  /* rows of W held here */
	size_t bias_held;                            /* floats of b held here */
	size_t places;                               /* rows of it that a row of data makes */
	size_t rows_max;                             /* the largest B */
	struct vec *weight, *bias, *dweight, *dbias; /* slices of param and grad */
	struct vec *part; /* scratch [rows_max x in_held], NULL unless BY_INPUT on whole x */
};

struct linear_ops {
	/* Called when the net is laid out, before memory exists: sets split .. bias_held. Returns
	 * NULL, or a sentence (heap): why the layer cannot be spread over so many workers. */
	char *(*place)(const struct worker *w, struct linear *l);
	void (*forward)(struct worker *w, struct linear *l, struct vec *y, const struct vec *x,
			size_t rows);
	/* dy in; dweight, dbias and dx out; dx NULL for the first layer. */
	void (*backward)(struct worker *w, struct linear *l, struct vec *dx, const struct vec *dy,
			 const struct vec *x, size_t rows);
};
extern const struct linear_ops linear_whole; /* the plain ones; a strategy may build on them */
/* The linear layers of a net, for cost formulas: NULL past the last. */
const struct linear *net_linear_at(const struct net *net, size_t i);

/* Times of a step, as calibrations or recorded runs tell them: of N workers side by side, and of a
 * whole model [s]. NaN = not known, and so is what is made of it. */
#define STEP_TIMES(X) \
	X(T_one, "a step of one worker alone") \
	X(T_step, "a step of one of the workers, its update in it") \
	X(T_update, "of it, the update") \
	X(T_backward, "of it, the backward pass") \
	X(T_wait, "how much longer the slowest of the workers takes, on average") \
	X(T_late, "how much longer the slowest but one takes") \
	X(T_pair, "how much longer the slower of two takes") \
	X(T_allreduce, "an allreduce of the model") \
	X(T_scale, "a pass over the model, that makes a sum a mean") \
	X(T_add, "a pass over two, that adds one to the other") \
	X(T_message, "an allreduce of one number") \
	X(T_exchange, "a message with the model, from one worker to another") \
	X(T_sync, "a push and pull of the model, to tables") \
	X(T_push, "a push of a sum of steps") \
	X(T_pull, "a pull") \
	X(T_elastic, "a push and pull, of elastic averaging")

struct costs {
	double steps; /* of an epoch, of one trainer */
	double N, G;  /* workers, and how many of them share one model */
	double X;     /* steps between synchronisations */
#define STEP_TIMES_FIELD(name, means) double name;
	STEP_TIMES(STEP_TIMES_FIELD)
#undef STEP_TIMES_FIELD
};

struct expected {
	double seconds;      /* of an epoch */
	const char *formula; /* NULL = none for these options */
	struct costs c;      /* what was put in */
	bool at_best;        /* it takes that or longer */
};
/* An expression in fields of a struct costs c, and its text: what is computed is what is shown. */
#define EXPECTED(expression, ...) \
	((struct expected){.seconds = (expression), .formula = #expression, .c = c, __VA_ARGS__})
static inline double positive(double x) /* or 0 where it is less; NaN stays */
{
	return x < 0 ? 0 : x;
}

/* Its flags are promises: what is said of each is what goes wrong where it is not so, without a
 * word;
 * --check-promises looks for that, and names the flag, but where it says unseen. */
struct strategy {
	struct plugin plugin;
	size_t state_size; /* of worker->state [bytes] */
	/* NULL = can run; else refuses this configuration before anything starts: a sentence
	 * (heap). */
	char *(*refuse)(const struct run *run, const void *opts);
	/* How many workers share one model. NULL = 1: whole model on every worker. */
	int (*model_workers)(const struct run *run, const void *opts);
	const struct linear_ops *linear; /* NULL = linear_whole */
	void (*init)(struct worker *w);  /* after the workload's; NULL = nothing to do */
	/* In every step before the gradient: makes param what the gradient is to be of (a look
	 * ahead, what was pulled of a model, or came late). The mini-batch is in: w->index, w->rows
	 * (0: it has none) and w->lr are this step's. step finds param as this left it. Not in the
	 * warm-up, where gradients are nobody's. NULL = as the step before left it. */
	void (*fetch)(struct worker *w);
	/* step touches nothing but this worker's vectors, and w->lr. Else: a GPU repeats what the
	 * first such step asked of it, and nothing that the host did: not its messages, sums,
	 * counts. */
	bool local;
	/* Called as the backward pass leaves layer i: its part of grad is final. NULL = wait. */
	void (*layer_ready)(struct worker *w, size_t i);
	void (*step)(struct worker *w); /* grad is fresh: make param ready */
	/* Before a barrier and at the end: push what is outstanding. NULL = nothing ever is. */
	void (*flush)(struct worker *w);
	/* After a barrier inside the training: start equal again. NULL = nothing to do. */
	void (*rejoin)(struct worker *w);
	void (*fini)(struct worker *w); /* frees what init made; NULL = nothing */
	/* Where evaluation finds the model: fills model[P] with what this trainer knows of it,
	 * without waiting for others; model may be w->param itself. NULL = param. */
	void (*canonical)(struct worker *w, struct vec *model);
	/* The model is the mean of what the trainers gave, else that of one of a data group, as all
	 * give the same. Not set where they differ: the others' work is never evaluated. Set where
	 * they are the same: a reduction for nothing. */
	bool average;
	/* The result depends on the order of arrival, at default options. Not set where it does:
	 * equal seeds have different results, and tests that hold it to itself and to simulations
	 * fail now and then. */
	bool asynchronous;
	/* Trainers may stop for good (--leave), and the others go on. Set where one waits for them:
	 * that one hangs until --stall-timeout names it. Unseen. */
	bool may_leave;
	/* NULL = one trainer may be dealt more mini-batches than another (--deal) where it may
	 * leave. Else the same, or a static sentence: why all need as many with these options. NULL
	 * where they need them: who has more waits at the end, as with may_leave. Unseen. */
	const char *(*even)(const struct run *run, const void *opts);
	/* Keeps parameters on a server: --servers and --record mean something. Not set: table_new
	 * ends the run, always. Set, and no table is made: servers stand idle. */
	bool tables;
	/* Calls local_met: never, as moments stay equal; each worker when it comes; all of a data
	 * group at once. NEVER where it does: --state is refused though it had a meaning. TOGETHER
	 * where they come alone: --state=average hangs. Unseen the other way: it does nothing. */
	enum { MEETS_NEVER, MEETS_ALONE, MEETS_TOGETHER } meets;
	/* What one trainer sends in one step, averaged over trainers and sync_every steps of equal
	 * batches [bytes]. Tests hold the counted bytes to it. */
	double (*bytes_per_step)(const struct worker *w);
	/* What an epoch takes on workers that are alike. run and opts as given, for what c does not
	 * say; c is its own, to put in what an option makes of a figure. NULL = nobody knows. */
	struct expected (*expect)(struct costs c, const struct run *run, const void *opts);
	/* Values of its options that are worth a prediction beside the given ones, one at a time;
	 * ends at name NULL. NULL = none */
	const struct setting *variants;
};
extern const struct strategy *const strategies[]; /* ends at NULL */

/* ---- Plug-ins in files of one's own (--strategy=NAME.c): the file ends in
 *     MVBENCH_PLUGIN(.strategy = &strategy_mine);
 * or .workload, .optimizer. ---- */

/* Grows when what was compiled with an older contract would not do any more. */
#define CONTRACT_VERSION 1
struct plugin_file {
	uint32_t version;  /* first in all versions, */
	uint32_t bytes[4]; /* and these where it is the same: what it was compiled with */
	const struct strategy *strategy;
	const struct workload *workload;
	const struct optimizer *optimizer;
};
#define CONTRACT_BYTES \
	sizeof(struct run), sizeof(struct worker), sizeof(struct strategy), sizeof(struct optimizer)
extern const struct plugin_file mvbench_plugin; /* a plug-in's */
#define MVBENCH_PLUGIN(...) \
	const struct plugin_file mvbench_plugin = { \
		.version = CONTRACT_VERSION, .bytes = {CONTRACT_BYTES}, __VA_ARGS__}

#pragma GCC visibility pop
#endif
