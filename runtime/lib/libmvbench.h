/*
 * libmvbench.h - synchronises the workers of your own training loop.
 *
 * One program runs as N processes. Each is a worker that trains on its own part of the data, and
 * calls the functions below: parameter-server tables (Multiverso's interface), reductions of
 * gradients and parameters (flashlight's), a manager for whole models, layers that are split over
 * the workers (TorchAD-NN's). It is plain C11, and works from C++; the transport is Open MPI, but
 * no program needs to know.
 *
 *     cc train.c $(pkg-config --cflags --libs libmvbench) -o train
 *     mpirun -n 4 ./train
 *
 * Errors. A function that returns int returns MVB_OK, which is 0, or one of the MVB_ERR codes, and
 * mvb_message() then returns a message that says what was wrong. No function prints, or ends the
 * process, unless memory runs out or MPI itself fails.
 *
 * Collective functions are called by all workers, in the same order and with the same sizes and
 * options. When they are not, all workers that are in a collective function get MVB_ERR_DIFFERS
 * from it, and no worker waits for ever. mvb_allreduce_start returns at once; its mvb_wait then
 * returns the error.
 *
 * Errors of every function are not repeated below: MVB_ERR_STATE for a call at the wrong time or on
 * another thread; MVB_ERR_ARGUMENT for NULL or a pointer to a freed object where an object or
 * floats are needed; and for a collective function, MVB_ERR_DIFFERS, and MVB_ERR_PEER on the
 * workers whose own call was fine.
 *
 * Memory. All floats are the caller's, in host memory. From a ..._start to its mvb_wait the floats
 * belong to the library: do not read what is to be filled, nor change what is sent. All other
 * memory may be reused as soon as the call returns.
 *
 * Threads. All calls come from the thread that called mvb_init (see mvb_thread). A forked child is
 * no worker: its calls return MVB_ERR_STATE.
 */
#ifndef LIBMVBENCH_H
#define LIBMVBENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MVB_VERSION "0.3.0" /* of the program too */

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* MVB_VERSION of the library that runs. */
const char *mvb_version(void);

/* ---- Errors -------------------------------------------------------------------- */

enum mvb_error {
	MVB_OK = 0,
	MVB_ERR_STATE,      /* before mvb_init, after mvb_shutdown, on a server, a second time, on
			     * another thread, in a forked child; in rounds,
			     * with a push under way */
	MVB_ERR_ARGUMENT,   /* a size, pointer, row, name or number that is not possible */
	MVB_ERR_DIFFERS,    /* workers called with different arguments, or in different functions */
	MVB_ERR_PEER,       /* another worker's call was refused: mvb_message() has its message */
	MVB_ERR_INCOMPLETE, /* in rounds: a worker whose push is needed will not push; see rounds */
	MVB_ERR_TICKET,     /* a ticket that was never given out, or was already waited for */
	MVB_ERR_LIMIT,      /* too many tables, tickets, or floats at once */
	MVB_ERR_MEMORY,     /* this machine does not have enough */
	MVB_ERR_START,      /* the processes did not find each other */
};
/* The older name of MVB_ERR_INCOMPLETE, for programs that have it. */
#define MVB_ERR_UNEVEN MVB_ERR_INCOMPLETE

/* The message of this process's last failure; "" when there was none. Valid until the next failure.
 */
const char *mvb_message(void);
/* "MVB_ERR_STATE"; "MVB_ERR unknown" for any other number. */
const char *mvb_error_name(int code);

/* ---- Start and end --------------------------------------------------------------- */

/* Zeros are defaults. Equal on all processes, except rank. */
struct mvb_setup {
	/* Number of processes that are no workers and only keep tables; those with the highest
	 * ranks. 0: the workers keep the tables. */
	int servers;
	/* Placement of the tables: "shared" (memory that the workers of one machine share),
	 * "onesided" (MPI windows, any number of machines), "servers". NULL or "auto": on servers
	 * if there are any, otherwise shared on one machine and onesided on several. */
	const char *tables;
	/* For processes of one machine that were started one by one, without mpirun or srun: the
	 * path of a file through which they find each other. The first makes it; it is removed when
	 * the last has shut down. If one of them dies, the others are ended. NULL: the launcher
	 * sets rank and size. */
	const char *file;
	int rank, size;   /* with file: rank of this process, from 0, and number of processes */
	double timeout_s; /* with file: how long to wait for the others [s]; 0 = 60 s */
	int64_t later[4]; /* zeros: room for fields of later versions */
};

/*
 * Starts, collectively. setup NULL: mpirun, srun, or torchrun on one machine have set rank and
 * size; without them the process is the only worker. A program that has called MPI_Init itself
 * keeps its MPI: the library then works on communicators of its own, and leaves MPI_Finalize to the
 * program.
 *
 * On a server the call returns when the workers have shut down. Every program with servers
 * therefore begins like this:
 *
 *     if (mvb_init(&setup)) ...
 *     if (mvb_is_server())
 *             return mvb_shutdown();
 *
 * Errors: STATE, it has been called before; ARGUMENT, e.g. as many servers as processes, or a
 * field of a later version; DIFFERS;
 * PEER; START. After an error it may be called again, or mvb_shutdown to end MPI. Source:
 * Multiverso's MV_Init, flashlight's distributedInit (MPI and FILE_SYSTEM).
 */
int mvb_init(const struct mvb_setup *setup);
/* Ends, collectively: applies every outstanding push, frees the tables, models and gradients that
 * are left (their pointers become invalid), and dismisses the servers. Waits for all workers; those
 * that are still in another collective function get MVB_ERR_DIFFERS there. Afterwards the process
 * may go on alone; only a process that was the only worker may start again. Workers that are still
 * pushing to tables in rounds go on without this one. Errors: STATE, and nothing was done;
 * INCOMPLETE, of a push that was under way, and all of the above was done. Source: Multiverso's
 * MV_ShutDown. */
int mvb_shutdown(void);

/* here: from now on the calls come from this thread; false: from that of mvb_init again. For
 * callbacks on a thread that another one waits for. No call may be under way. Errors: STATE. */
int mvb_thread(bool here);

/* These do not fail. Source: Multiverso's MV_NumWorkers, MV_WorkerId and is_master_worker (of its
 * Python binding), MV_NumServers; flashlight's getWorldRank and getWorldSize. */
int mvb_num_workers(void); /* processes that train; -1 = not started */
int mvb_worker_id(void);   /* from 0 to mvb_num_workers() - 1; -1 = a server, or not started */
bool mvb_is_master(void);  /* is this worker 0, which prints and validates? */
int mvb_num_servers(void); /* processes that only keep tables; -1 = not started */
bool mvb_is_server(void);
int mvb_rank(void); /* among all processes, workers first; -1 = not started */
int mvb_size(void); /* workers and servers; -1 = not started */
/* "Open MPI v4.1.4, tables: shared", "one process, tables: shared", "a server of the others'
 * tables", or "not started". flashlight's distributedBackend. */
const char *mvb_backend(void);

/* Returns when all workers have called it and all pushes are applied, including started ones.
 * Started operations still need mvb_wait, which then returns at once. Collective. Errors:
 * INCOMPLETE, of a push that was under way. Source: Multiverso's MV_Barrier, which does not wait
 * for pushes; flashlight's barrier. */
int mvb_barrier(void);

/* ---- Tables: parameters W that live on a parameter server ------------------------ */

/*
 * A table is rows x columns floats, row-major, cut into shards that the workers or the servers
 * keep; an array of n floats is a table of n rows and one column. Any n > 0 will do. No worker
 * waits for another in the functions below, unless the table has rounds or is bounded.
 *
 * What add does to W is the table's updater (g or d is what is pushed, k the worker that pushes,
 * lr, momentum m, rho and lambda come with the push):
 *   add             W += d                           d is a delta: the caller has applied -lr
 *   sgd             W -= lr g
 *   momentum        v = m v + g;  W -= lr v
 *   momentum_ema    v = m v + (1-m) g;  W -= lr v                    Multiverso's form
 *   adagrad         G_k += g^2;  W -= rho / sqrt(G_k + 1e-6) g       Duchi et al., JMLR 12 (2011)
 *   adagrad_shared  the same with one G for all workers
 *   dcasgd          W -= lr (g + lambda g^2 (W - bak_k))             Zheng et al., arXiv 1609.08326
 *   dcasgda         M_k = m M_k + (1-m) g^2;
 *                   W -= lr (g + lambda / sqrt(M_k + 1e-7) g^2 (W - bak_k))
 *   adam            M = 0.9 M + 0.1 g;  S = 0.999 S + 0.001 g^2;
 *                   W -= lr M / (1 - 0.9^t) / (sqrt(S / (1 - 0.999^t)) + 1e-8)
 *                                                                    Kingma, Ba, arXiv 1412.6980
 *   staleness       W -= lr / max(tau, 1) g                          Zhang et al., arXiv 1511.05950
 * bak_k is the W that worker k got last; tau the number of other workers' pushes since then; t the
 * number of pushes to the shard, including this one, of whichever rows. Onesided tables have the
 * updaters whose step depends neither on W nor on what is kept beside it: add, sgd, adagrad and
 * staleness. They have no backup workers.
 */
struct mvb_table;

enum mvb_initial {
	MVB_MASTER,  /* W starts as worker 0's values */
	MVB_AVERAGE, /* as the mean of all workers' */
	MVB_TOTAL,   /* as their sum */
};

/* Zeros are defaults. Equal on all workers. */
struct mvb_options {
	const char *updater; /* NULL = "add" */
	/* Bulk-synchronous: the i-th add of a worker returns when all workers have made their i-th,
	 * and no worker sees W in between. Multiverso's -sync=true. A worker has one push under way
	 * at most: a second before the mvb_wait for the first is refused with STATE and has no
	 * effect. A read between the two waits for its round. A worker that waits for the push of
	 * one that is in a collective function other than mvb_shutdown gets INCOMPLETE. The table's
	 * rounds are then over for good: every later push of this worker is refused with
	 * INCOMPLETE. It may still read: W is what it was after the last full round, without the
	 * push that failed. To go on, all workers make a new table, and none pushes to this one: a
	 * late push of the missing worker may mix both rounds. The updaters that onesided tables
	 * lack (below: their step depends on W or on what is kept) are applied once a round, to the
	 * sum of its pushes, in rows that one of them names, with the lr, momentum, ... of the
	 * lowest worker that pushed; t counts rounds. dcasgd and dcasgda are sgd: no push of a
	 * round is late. */
	bool rounds;
	/* With rounds: a round does not wait for the last `backup` workers, and drops their pushes.
	 * From 0 to mvb_num_workers() - 1. */
	int backup;
	/* Stale-synchronous (Ho et al., NIPS 2013): a worker waits after a push while it is more
	 * than `lead` pushes ahead of the slowest. */
	bool bounded;
	int lead; /* with bounded: 0 or more [pushes] */
	enum mvb_initial initial;
	int64_t later[4]; /* zeros: room for fields of later versions */
};

/* What goes with a push to an updater that takes gradients; NULL stands for the defaults. */
struct mvb_push {
	float lr; /* all finite; the updater uses some */
	double momentum;
	float rho, lambda;
};
/* Multiverso's defaults (its AddOption): struct mvb_push by = MVB_PUSH_DEFAULT; by.lr = 0.1f; */
#define MVB_PUSH_DEFAULT \
	{ \
		0.01f, 0.0, 0.1f, 0.1f \
	}

/* Make a table, collectively: an array of n floats, or a matrix of rows x columns. values [n] or
 * [rows x columns], this worker's initial values: overwritten with the values that W starts with,
 * so that all workers begin with equal parameters. NULL: zeros. options NULL: all zeros. *t: NULL
 * after an error. Errors: ARGUMENT (no floats, an unknown updater, options that are not possible,
 * or not with the placement of the tables), DIFFERS (sizes, options), LIMIT (256 tables), MEMORY.
 * Source: Multiverso's ArrayTableHandler and MatrixTableHandler (MV_NewArrayTable,
 * MV_NewMatrixTable). */
int mvb_array_new(struct mvb_table **t, size_t n, float *values, const struct mvb_options *options);
int mvb_matrix_new(struct mvb_table **t, size_t rows, size_t columns, float *values,
		   const struct mvb_options *options);
/* Collective. Operations that are under way are finished first. NULL is fine. Errors: INCOMPLETE,
 * of a push that was under way, and the table is freed; DIFFERS, and it is not. */
int mvb_table_free(struct mvb_table *t);

/* All of W. values, out, param [n]; n must be the table's rows x columns. by NULL: the defaults.
 * Errors: ARGUMENT (n, a number in by); in rounds, of those that push, STATE and INCOMPLETE: see
 * rounds. After an error other than INCOMPLETE nothing has been pushed, and out and param are
 * unchanged. Source: the handlers' add and get (MV_AddArrayTable, MV_GetArrayTable; Matrix..All).
 */
int mvb_table_add(struct mvb_table *t, const float *values, size_t n, const struct mvb_push *by);
int mvb_table_get(struct mvb_table *t, float *out, size_t n); /* out = W */
/* W = values, whatever the updater, which keeps what it has beside W. Another worker's push to a
 * float comes before it or after it. It counts as a push. Neither in rounds nor on onesided tables:
 * ARGUMENT. Source: the rules copy and zero of TorchMPI's parameter server. */
int mvb_table_set(struct mvb_table *t, const float *values, size_t n);
/* add and get in one operation; out may be values */
int mvb_table_add_get(struct mvb_table *t, const float *values, size_t n, const struct mvb_push *by,
		      float *out);
/* W += param - what this worker got last; param = W. With updater add only, otherwise ARGUMENT.
 * Multiverso's bindings call it mv_sync. */
int mvb_table_sync(struct mvb_table *t, float *param, size_t n);
/* d = alpha (param - W); W += d; param -= d. With updater add only, neither in rounds nor bounded,
 * otherwise ARGUMENT. alpha: a fraction, from 0 to 1. Elastic averaging, Zhang et al., NIPS 2015.
 */
int mvb_table_elastic(struct mvb_table *t, float *param, size_t n, float alpha);

/* Starts the same: mvb_wait(*ticket) must follow, and may return INCOMPLETE. Errors: theirs, and
 * LIMIT (64 operations on a table may be under way; 256 operations and reductions together). */
int mvb_table_add_start(struct mvb_table *t, const float *values, size_t n,
			const struct mvb_push *by, int64_t *ticket);
int mvb_table_get_start(struct mvb_table *t, float *out, size_t n, int64_t *ticket);
int mvb_table_sync_start(struct mvb_table *t, float *param, size_t n, int64_t *ticket);

/* Some rows: row[0] .. row[rows - 1], each from 0 to the table's rows - 1, in any order, also
 * repeatedly. values, out [rows x columns], which n must be. An empty list is fine, also with
 * NULLs: other workers may wait for a push of no rows. The functions for one row take no list:
 * values, out [columns]. Errors: as above, and ARGUMENT (a row). Source: MatrixTableHandler's
 * row_ids (MV_AddMatrixTableByRows, MV_GetMatrixTableByRows). */
int mvb_table_add_rows(struct mvb_table *t, const int64_t *row, size_t rows, const float *values,
		       size_t n, const struct mvb_push *by);
/* Of a row that is listed twice, the last values stay. */
int mvb_table_set_rows(struct mvb_table *t, const int64_t *row, size_t rows, const float *values,
		       size_t n);
int mvb_table_get_rows(struct mvb_table *t, const int64_t *row, size_t rows, float *out, size_t n);
int mvb_table_add_row(struct mvb_table *t, int64_t row, const float *values, size_t n,
		      const struct mvb_push *by);
int mvb_table_get_row(struct mvb_table *t, int64_t row, float *out, size_t n);

/* A table of values by key: any keys of 64 bits, spread over the shards by a hash. places: the most
 * keys that it can ever have, of 24 bytes each; twice as many places as keys keep it fast. It is
 * for the two functions below, which wait for no push, and for mvb_table_free. Collective; errors:
 * those of mvb_matrix_new. Source: Multiverso's KVTable. */
int mvb_kv_new(struct mvb_table **t, size_t places);
/* The values of key[0] .. key[n - 1] += values [n]; a key may be listed twice. Errors: ARGUMENT (t
 * is not of mvb_kv_new), MEMORY, and LIMIT: a new key finds no place. Then nothing is added. */
int mvb_kv_add(struct mvb_table *t, const int64_t *key, size_t n, const float *values);
/* values [n] = those of key[0] .. key[n - 1]; 0 for a key to which no worker has added. Errors:
 * ARGUMENT, MEMORY. */
int mvb_kv_get(struct mvb_table *t, const int64_t *key, size_t n, float *values);

/* *version: pushes of all workers so far [pushes]. Errors: those of any function. */
int mvb_table_version(struct mvb_table *t, int64_t *version);
/* *pushes: the staleness of this worker's last push, other workers' pushes that it had not seen
 * [pushes]; 0 in rounds. -1: this worker has not pushed yet, or (backup) its last push was dropped.
 * With several servers it is what the first one saw. Errors: those of any function. */
int mvb_table_staleness(struct mvb_table *t, int64_t *pushes);

/* Waits for a started operation on a table, or for mvb_allreduce_start. Once for each ticket.
 * Errors: TICKET; INCOMPLETE, of a push in rounds; DIFFERS and PEER, of mvb_allreduce_start. */
int mvb_wait(int64_t ticket);

/* ---- Reductions: all collective, over the workers ---------------------------------- */

enum mvb_reduce { MVB_SUM, MVB_MEAN, MVB_MIN, MVB_MAX, MVB_PRODUCT };
enum mvb_type { MVB_FLOAT, MVB_DOUBLE, MVB_INT32, MVB_INT64 };

/* x [n] = the sum, mean, ... of all workers' x; n may be 0. Errors: ARGUMENT (op), DIFFERS (n, op).
 * Source: flashlight's allReduce. */
int mvb_allreduce(float *x, size_t n, enum mvb_reduce op);
/* The same for x [n] of another type. Whole numbers have no mean. Errors: ARGUMENT (op, type),
 * DIFFERS (n, type, op). */
int mvb_allreduce_type(void *x, size_t n, enum mvb_type type, enum mvb_reduce op);
/* Starts a sum or mean, and waits for no worker: mvb_wait(*ticket) must follow. If the workers'
 * calls differ, mvb_wait returns DIFFERS, or PEER with the name of the error, and x is unchanged.
 * While there is a table in rounds, or bounded, it waits until all workers have called it, and
 * returns these errors itself. Errors: ARGUMENT (op), LIMIT (n of 2^31 or more; 64 reductions may
 * be under way). Source: flashlight's allReduce, async. */
int mvb_allreduce_start(float *x, size_t n, enum mvb_reduce op, int64_t *ticket);
/* tensor[i] [n[i]], i < count: all in one reduction, through a copy of all of them. Errors: those
 * of mvb_allreduce, DIFFERS also by count and lengths; MEMORY. Source: flashlight's
 * allReduceMultiple, and with the parameters its allReduceParameters. (The mean of independently
 * drawn models is smaller than each of them: to start equal, broadcast.) */
int mvb_allreduce_list(float *const *tensor, const size_t *n, size_t count, enum mvb_reduce op);
/* x [n] = worker root's x; n may be 0. Errors: ARGUMENT (root is no worker's id), DIFFERS (n,
 * root). Source: MPI_Bcast; flashlight has none and averages parameters instead. */
int mvb_broadcast(float *x, size_t n, int root);
/* all [workers x bytes] = the workers' x [bytes], in order, on worker root; root -1: on all
 * workers. all may be NULL elsewhere. Errors: ARGUMENT (root), DIFFERS (bytes, root), LIMIT (bytes
 * of 2^31 or more). Source: MPI_Gather, MPI_Allgather; TorchMPI's allgatherTensor. */
int mvb_gather(const void *x, size_t bytes, void *all, int root);
/* part [n] = the sum, mean, ... of all workers' x [workers x n], of which worker k gets floats n k
 * to n (k + 1) - 1; n may be 0. x is unchanged, unless part is in it. It reduces a copy of x, so it
 * costs an mvb_allreduce. Errors: those of mvb_allreduce; MEMORY. Source: MPI_Reduce_scatter_block.
 */
int mvb_reduce_scatter(const float *x, float *part, size_t n, enum mvb_reduce op);
/* Not collective: x [bytes] goes to another worker, and is received there. Each waits for the
 * other. Errors: ARGUMENT (worker; bytes are no multiple of 4), DIFFERS on both (bytes), and
 * nothing is sent. Source: MPI_Ssend, MPI_Recv; TorchMPI's sendreceiveTensor. */
int mvb_send(const void *x, size_t bytes, int to);
int mvb_receive(void *x, size_t bytes, int from);

/* ---- Gradients that are reduced while they are computed ---------------------------- */

/*
 * Gradients are registered once. In each step the backward pass calls mvb_grads_ready when it
 * leaves tensor i, from the last to the first. Neighbours are joined into buckets, and a bucket is
 * reduced as soon as it is full, while the pass continues. Source: flashlight's
 * distributeModuleGrads.
 */
struct mvb_grads;

/* Collective. tensor[i] [n[i]], i < count, keep their place in memory; the lists may be freed.
 * bucket_bytes: the least that is sent at once; 0 = 1 MiB. *g: NULL after an error. Errors:
 * ARGUMENT (no tensors), DIFFERS (count, lengths, bucket_bytes), LIMIT (a bucket of 2^31 floats or
 * more), MEMORY. */
int mvb_grads_new(struct mvb_grads **g, float *const *tensor, const size_t *n, size_t count,
		  size_t bucket_bytes);
/* tensor[i] is complete, and belongs to the library until mvb_grads_wait. Once a step for each i,
 * in any order. It does not wait for other workers. Errors: ARGUMENT (no tensor i, or a second time
 * in this step), and the step goes on as if it had not been called. */
int mvb_grads_ready(struct mvb_grads *g, size_t i);
/* Collective. Returns when every tensor holds the mean over the workers; the next step may begin.
 * Errors: ARGUMENT: some tensor was not made ready. The step is then over on all workers, and the
 * tensors are not usable. DIFFERS: the step is not over. */
int mvb_grads_wait(struct mvb_grads *g);
/* Collective; NULL is fine. Ends a step that has begun. DIFFERS: the set is not freed. */
int mvb_grads_free(struct mvb_grads *g);

/* ---- A whole model as one table ------------------------------------------------------ */

/* Multiverso's MVNetParamManager: the tensors of a model, laid end to end in an array table. */
struct mvb_model;

/* Collective. tensor[i] [n[i]], i < count, keep their place in memory, and get the values that the
 * table starts with; the lists may be freed. options as for a table, with updater add. *m: NULL
 * after an error. Errors: ARGUMENT (no floats, another updater, options), DIFFERS (count, lengths,
 * options), LIMIT (256 tables), MEMORY. */
int mvb_model_new(struct mvb_model **m, float *const *tensor, const size_t *n, size_t count,
		  const struct mvb_options *options);
/* Pushes what changed since the last call, and pulls: MVNetParamManager's update_all_param. Errors:
 * INCOMPLETE, in rounds; the tensors are then unchanged. */
int mvb_model_sync(struct mvb_model *m);
/* tensors = W. Errors: those of any function. */
int mvb_model_pull(struct mvb_model *m);
/* *n: floats of all tensors. Errors: those of any function. */
int mvb_model_size(struct mvb_model *m, size_t *n);
/* flat [n] = tensors, end to end; and back. n: mvb_model_size's, otherwise ARGUMENT. It accesses
 * only this worker's memory. */
int mvb_model_flatten(struct mvb_model *m, float *flat, size_t n);
int mvb_model_unflatten(struct mvb_model *m, const float *flat, size_t n);
/* Collective; NULL is fine. The tensors stay the caller's. DIFFERS: the model is not freed. */
int mvb_model_free(struct mvb_model *m);

/* ---- Linear layers that are split over the workers ------------------------------------ */

/*
 * Model parallelism: every worker sees the whole mini-batch and holds a part of the parameters.
 * Matrices are row-major. The own part of n columns are columns n k / N to n (k + 1) / N - 1 on
 * worker k of N; mvb_linear_part returns it. The forms, and what goes in and out:
 *   MVB_INITIAL_RESHAPE  whole x -> whole y   y = x;  dx = dy
 *   MVB_INITIAL_LINEAR   whole x -> own y     w [own outputs x inputs], b [own outputs]:
 *                                             y = x w^T + b;  dx = sum over workers of dy w
 *   MVB_BASE_RESHAPE     whole x -> own y     y = own columns of x;  dx = all workers' dy
 *   MVB_BASE_LINEAR      own x -> whole y     w [outputs x own inputs], b [outputs]:
 *                                             y = sum over workers of x w^T, + b;  dx = dy w
 *   MVB_TANH             own x -> own y       y = tanh x;  dx = dy (1 - y^2)
 * A net begins with an initial form, or with a base reshape, and ends with a base linear layer. In
 * such a net all workers compute the same whole y. Source: TorchAD-NN's MPInitialReshape,
 * MPInitialLinear, MPBaseReshape, MPBaseLinear and MPTanh, which split every layer by its inputs.
 */
enum mvb_form {
	MVB_INITIAL_RESHAPE,
	MVB_INITIAL_LINEAR,
	MVB_BASE_RESHAPE,
	MVB_BASE_LINEAR,
	MVB_TANH,
};

/* Equal on all workers, except the pointers, which are the caller's. */
struct mvb_linear {
	enum mvb_form form;
	size_t inputs, outputs; /* of the whole layer; equal in forms that are not linear */
	/* This worker's parameters, and what mvb_linear_backward sets to their gradients. Only
	 * linear forms have them. b NULL: no bias, and no db. */
	float *w, *b, *dw, *db;
};

/* Columns that this worker has of x and of y, and floats of w and b. */
struct mvb_linear_part {
	size_t inputs, outputs; /* columns of x and of y */
	size_t first, held;     /* the own outputs (initial linear) or inputs (other forms) */
	size_t w, b;            /* floats */
};

/* The errors of all: ARGUMENT (an unknown form, sizes that are not possible, NULL where floats
 * should be). x [rows x part.inputs], y [rows x part.outputs]; dx, dy likewise. */

/* The part of this worker. It accesses only l's form and sizes. */
int mvb_linear_part(const struct mvb_linear *l, struct mvb_linear_part *part);
/* Collective for MVB_BASE_LINEAR; otherwise no worker waits. Errors: DIFFERS (form, sizes, rows,
 * with a bias or not). */
int mvb_linear_forward(const struct mvb_linear *l, const float *x, size_t rows, float *y);
/* x: what forward got. dw, db: overwritten. dx NULL: not needed. Collective for MVB_INITIAL_LINEAR
 * and MVB_BASE_RESHAPE with dx; otherwise no worker waits. Errors: as above. */
int mvb_linear_backward(const struct mvb_linear *l, const float *x, const float *dy, size_t rows,
			float *dx);
/* For saving: w [outputs x inputs], b [outputs] (NULL without a bias) = the whole layer's, on all
 * workers. Linear forms only. Collective. Errors: DIFFERS (form, sizes). */
int mvb_linear_gather(const struct mvb_linear *l, float *w, float *b);
/* For loading: the own parameters = their part of the whole layer's. It accesses only this
 * worker's memory. */
int mvb_linear_scatter(const struct mvb_linear *l, const float *w, const float *b);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
