/*
 * libmvbench.h - keeps the workers of a training loop of your own in step.
 *
 * One program runs as N processes. Each is a worker that trains on its own part of the data, and
 * calls the functions below: parameter-server tables (Multiverso's interface), reductions of
 * gradients and parameters (flashlight's), a manager for whole models. It is plain C11, and works
 * from C++; the transport is Open MPI, but no program needs to know.
 *
 *     cc train.c $(pkg-config --cflags --libs libmvbench) -o train
 *     mpirun -n 4 ./train
 *
 * Errors. A function that returns int returns MVB_OK, which is 0, or one of the MVB_ERR codes, and
 * mvb_message() then says in a sentence what was wrong. None prints, none ends the process, unless
 * memory runs out or MPI itself fails.
 *
 * Collective functions are called by all workers, in the same order and with the same sizes and
 * options. When they are not, all workers that are in a collective function get MVB_ERR_DIFFERS
 * from it, and none waits for ever.
 *
 * What any function may return is not repeated below: MVB_ERR_STATE out of its time or on another
 * thread, MVB_ERR_ARGUMENT for NULL or a dead pointer where an object or floats should be; and if
 * it is collective, MVB_ERR_DIFFERS, and MVB_ERR_PEER on the workers whose own call was fine.
 *
 * Memory. All floats are the caller's, in host memory. From a ..._start to its mvb_wait the floats
 * belong to the library: do not read what is to be filled, nor change what is sent. All else may be
 * reused as soon as the call returns.
 *
 * Threads. All calls come from the thread that called mvb_init.
 */
#ifndef LIBMVBENCH_H
#define LIBMVBENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MVB_VERSION "0.2.0" /* of the program too */

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* ---- Errors -------------------------------------------------------------------- */

enum mvb_error {
	MVB_OK = 0,
	MVB_ERR_STATE,      /* before mvb_init, after mvb_shutdown, on a server, a second time, on
			     * another thread; in rounds, with a push under way */
	MVB_ERR_ARGUMENT,   /* a size, pointer, row, name or number that cannot be */
	MVB_ERR_DIFFERS,    /* workers came with different arguments, or to different functions */
	MVB_ERR_PEER,       /* another worker's call was refused: its sentence is given */
	MVB_ERR_INCOMPLETE, /* in rounds: a worker that is waited for will not push; see rounds */
	MVB_ERR_TICKET,     /* a ticket that was never given out, or was waited for already */
	MVB_ERR_LIMIT,      /* too many tables, tickets, or floats at once */
	MVB_ERR_MEMORY,     /* this machine does not have so much */
	MVB_ERR_START,      /* the processes did not find each other */
};
/* The older name of MVB_ERR_INCOMPLETE, for programs that have it. */
#define MVB_ERR_UNEVEN MVB_ERR_INCOMPLETE

/* The last failure of this process, in one sentence; "" when there was none. Valid until the next
 * failure. */
const char *mvb_message(void);
/* "MVB_ERR_STATE"; "MVB_ERR unknown" for what is no code. */
const char *mvb_error_name(int code);

/* ---- Start and end --------------------------------------------------------------- */

/* Zeros are defaults. Equal on all processes, but for rank. */
struct mvb_setup {
	/* So many processes, those with the highest ranks, are no workers and only keep tables. 0:
	 * the workers keep them. */
	int servers;
	/* Where tables live: "shared" (memory that the workers of one machine share), "onesided"
	 * (MPI windows, any number of machines), "servers". NULL or "auto": on servers if there are
	 * some, else shared on one machine and onesided on several. */
	const char *tables;
	/* For processes of one machine that were started one by one, without mpirun or srun: the
	 * path of a file through which they find each other. The first makes it, and it goes when
	 * the last has shut down. Should one of them die, the others are ended. NULL: the launcher
	 * tells rank and size. */
	const char *file;
	int rank, size;   /* with file: which of how many processes this is, from 0 */
	double timeout_s; /* with file: how long to wait for the others [s]; 0 = 60 s */
};

/*
 * Starts, collectively. setup NULL: mpirun or srun have said who is who, and without them the
 * process is a worker alone. A program that has called MPI_Init itself keeps its MPI: the library
 * then works on communicators of its own, and leaves MPI_Finalize to the program.
 *
 * On a server the call returns when the workers have shut down: its life is over then. So every
 * program with servers begins like this:
 *
 *     if (mvb_init(&setup)) ...
 *     if (mvb_is_server())
 *             return mvb_shutdown();
 *
 * Errors: STATE, has been called before; ARGUMENT, e.g. as many servers as processes; DIFFERS;
 * PEER; START. After an error it may be called again, or mvb_shutdown to end MPI. Source:
 * Multiverso's MV_Init, flashlight's distributedInit (MPI and FILE_SYSTEM).
 */
int mvb_init(const struct mvb_setup *setup);
/* Ends, collectively: applies every push that is outstanding, frees tables, models and gradients
 * that are left (their pointers are then void), lets servers go. Waits for all workers; those that
 * are still in another collective function get MVB_ERR_DIFFERS there. Afterwards the process may go
 * on alone, but not start again. Errors: STATE, and nothing has happened; INCOMPLETE, of a push
 * that was under way, and all the above has. Source: Multiverso's MV_ShutDown. */
int mvb_shutdown(void);

/* These do not fail. Source: Multiverso's MV_NumWorkers, MV_WorkerId and is_master_worker (of its
 * Python binding), MV_NumServers; flashlight's getWorldRank and getWorldSize. */
int mvb_num_workers(void); /* processes that train; -1 = not started */
int mvb_worker_id(void);   /* from 0 to mvb_num_workers() - 1; -1 = a server, or not started */
bool mvb_is_master(void);  /* is this worker 0, that prints and validates? */
int mvb_num_servers(void); /* processes that only keep tables; -1 = not started */
bool mvb_is_server(void);
int mvb_rank(void); /* among all processes, workers first; -1 = not started */
int mvb_size(void); /* workers and servers; -1 = not started */
/* "Open MPI v4.1.4, tables: shared", "one process, tables: shared", "a server of the others'
 * tables", or "not started". flashlight's distributedBackend. */
const char *mvb_backend(void);

/* Returns when all workers have come, and everything that any of them has pushed is applied,
 * operations that were started included; these are still to be waited for, which then returns at
 * once. Collective. Errors: INCOMPLETE, of a push that was under way. Source: Multiverso's
 * MV_Barrier, which does not wait for pushes; flashlight's barrier. */
int mvb_barrier(void);

/* ---- Tables: parameters W that live on a parameter server ------------------------ */

/*
 * A table is rows x columns floats, row-major, cut into shards that the workers or the servers
 * keep; an array of n floats is a table of n rows and one column. Any n > 0 will do. Nobody waits
 * for anybody in the functions below, unless the table has rounds or is bounded.
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
 * bak_k is the W that worker k got last, tau how many pushes of others there were since then, t how
 * many there were to the shard, this one with them, whichever rows they were of.
 * Onesided tables have those whose step depends neither on W nor on what is kept beside it: add,
 * sgd, adagrad and staleness; and no backup workers.
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
	/* Bulk-synchronous: the i-th add of a worker returns when all have made their i-th, and
	 * nobody sees W in between. Multiverso's -sync=true.
	 * A worker has one push under way at most: a second before the mvb_wait for the first is
	 * refused with STATE, and leaves no trace. A read between the two waits for its round. Who
	 * waits for a worker that stands in a collective function instead gets INCOMPLETE, and the
	 * table's rounds are over for good: whatever this worker pushes from now on is refused with
	 * INCOMPLETE. It may still read: W is what it was after the last full round, without the
	 * push that failed. To go on, all workers make a new table, and none pushes to this one:
	 * whoever was missing and pushes after all may mix both rounds. */
	bool rounds;
	/* With rounds: go on without the last so many workers, and drop their pushes. From 0 to
	 * mvb_num_workers() - 1. */
	int backup;
	/* Stale-synchronous (Ho et al., NIPS 2013): a worker waits after a push while it is more
	 * than `lead` pushes ahead of the slowest. */
	bool bounded;
	int lead; /* with bounded: 0 or more [pushes] */
	enum mvb_initial initial;
};

/* What goes with a push to an updater that takes gradients; NULL stands for the defaults. */
struct mvb_push {
	float lr, momentum, rho, lambda; /* any finite ones; which are read, the updater says */
};
/* Multiverso's defaults (its AddOption): struct mvb_push by = MVB_PUSH_DEFAULT; by.lr = 0.1f; */
#define MVB_PUSH_DEFAULT \
	{ \
		0.01f, 0.0f, 0.1f, 0.1f \
	}

/* Make a table, collectively: an array of n floats, or a matrix of rows x columns. values [n] or
 * [rows x columns], this worker's initial ones: overwritten with those that W starts with, so that
 * all workers begin with equal parameters. NULL: zeros. options NULL: all zeros. *t: NULL after an
 * error. Errors: ARGUMENT (no floats, an unknown updater, options that cannot be or that the
 * placement of the tables does not have), DIFFERS (sizes, options), LIMIT (256 tables), MEMORY.
 * Source: Multiverso's ArrayTableHandler and MatrixTableHandler (MV_NewArrayTable,
 * MV_NewMatrixTable). */
int mvb_array_new(struct mvb_table **t, size_t n, float *values, const struct mvb_options *options);
int mvb_matrix_new(struct mvb_table **t, size_t rows, size_t columns, float *values,
		   const struct mvb_options *options);
/* Collective. What is still under way is finished first. NULL is fine. Errors: INCOMPLETE, of a
 * push that was under way, and the table is gone; DIFFERS, and it is not. */
int mvb_table_free(struct mvb_table *t);

/* All of W. values, out, param [n]; n has to be the table's, rows x columns. by NULL: the defaults.
 * Errors: ARGUMENT (n, a number in by); in rounds, of those that push, STATE and INCOMPLETE: see
 * rounds. Nothing has been pushed, and nothing is in out or param, after an error but INCOMPLETE.
 * Source: the handlers' add and get (MV_AddArrayTable, MV_GetArrayTable; Matrix..All). */
int mvb_table_add(struct mvb_table *t, const float *values, size_t n, const struct mvb_push *by);
int mvb_table_get(struct mvb_table *t, float *out, size_t n); /* out = W */
/* add and get in one operation; out may be values */
int mvb_table_add_get(struct mvb_table *t, const float *values, size_t n, const struct mvb_push *by,
		      float *out);
/* W += param - what this worker got last; param = W. With updater add only, else ARGUMENT. What
 * Multiverso's bindings call mv_sync. */
int mvb_table_sync(struct mvb_table *t, float *param, size_t n);
/* d = alpha (param - W); W += d; param -= d. With updater add only, neither in rounds nor bounded,
 * else ARGUMENT. alpha: of the difference, from 0 to 1. Elastic averaging, Zhang et al., NIPS
 * 2015. */
int mvb_table_elastic(struct mvb_table *t, float *param, size_t n, float alpha);

/* The same, started: mvb_wait(*ticket) has to follow, and may return INCOMPLETE. Errors: theirs,
 * and LIMIT (64 operations on a table, 256 of all and of reductions, may be under way). */
int mvb_table_add_start(struct mvb_table *t, const float *values, size_t n,
			const struct mvb_push *by, int64_t *ticket);
int mvb_table_get_start(struct mvb_table *t, float *out, size_t n, int64_t *ticket);
int mvb_table_sync_start(struct mvb_table *t, float *param, size_t n, int64_t *ticket);

/* Some rows: row[0] .. row[rows - 1], each from 0 to the table's rows - 1, in any order, and as
 * often as you like. values, out [rows x columns], which n has to be. An empty list is fine, with
 * NULLs too: a push of no rows is a push that others may wait for. Or one row, without a list:
 * values, out [columns]. Errors: as above, and ARGUMENT (a row). Source: MatrixTableHandler's
 * row_ids (MV_AddMatrixTableByRows, MV_GetMatrixTableByRows). */
int mvb_table_add_rows(struct mvb_table *t, const int64_t *row, size_t rows, const float *values,
		       size_t n, const struct mvb_push *by);
int mvb_table_get_rows(struct mvb_table *t, const int64_t *row, size_t rows, float *out, size_t n);
int mvb_table_add_row(struct mvb_table *t, int64_t row, const float *values, size_t n,
		      const struct mvb_push *by);
int mvb_table_get_row(struct mvb_table *t, int64_t row, float *out, size_t n);

/* *version: pushes of all workers so far [pushes]. Errors: those of any function. */
int mvb_table_version(struct mvb_table *t, int64_t *version);
/* *pushes: how many pushes of others this worker's last push met, that it had not seen [pushes]; 0
 * in rounds. -1: this worker has not pushed yet, or (backup) its last push was dropped. With
 * several servers it is what the first one saw. Errors: those of any function. */
int mvb_table_staleness(struct mvb_table *t, int64_t *pushes);

/* Waits for what was started, a table's or mvb_allreduce_start. Once a ticket. Errors: TICKET;
 * INCOMPLETE, of a push in rounds. */
int mvb_wait(int64_t ticket);

/* ---- Reductions: all collective, over the workers ---------------------------------- */

enum mvb_reduce { MVB_SUM, MVB_MEAN };

/* x [n] = the sum or mean of all workers' x; n may be 0. Errors: ARGUMENT (op), DIFFERS (n, op).
 * Source: flashlight's allReduce. */
int mvb_allreduce(float *x, size_t n, enum mvb_reduce op);
/* The same, started: mvb_wait(*ticket) has to follow. It waits for all workers to come to it, but
 * for no float. Errors: the same, and LIMIT (n of 2^31 or more; 64 reductions may be under way).
 * Source: flashlight's allReduce, async. */
int mvb_allreduce_start(float *x, size_t n, enum mvb_reduce op, int64_t *ticket);
/* tensor[i] [n[i]], i < count: all in one reduction, through a copy of all of them. Errors: those
 * of mvb_allreduce, DIFFERS also by count and lengths; MEMORY. Source: flashlight's
 * allReduceMultiple, and with the parameters its allReduceParameters. (The mean of differently
 * drawn models is smaller than each: to start equal, broadcast.) */
int mvb_allreduce_list(float *const *tensor, const size_t *n, size_t count, enum mvb_reduce op);
/* x [n] = worker root's x; n may be 0. Errors: ARGUMENT (root is no worker's id), DIFFERS (n,
 * root). Source: MPI_Bcast; flashlight, which has none, averages parameters instead. */
int mvb_broadcast(float *x, size_t n, int root);

/* ---- Gradients that are reduced while they are computed ---------------------------- */

/*
 * Registered once; then, in each step, the backward pass says as it leaves tensor i, from the last
 * to the first, that its gradient is ready. Neighbours are coalesced into buckets, and a bucket is
 * reduced as soon as it is full, while the pass goes on. flashlight's distributeModuleGrads.
 */
struct mvb_grads;

/* Collective. tensor[i] [n[i]], i < count, keep their place in memory; the lists may go.
 * bucket_bytes: at least so much is sent at once; 0 = 1 MiB. *g: NULL after an error. Errors:
 * ARGUMENT (no tensors), DIFFERS (count, lengths, bucket_bytes), LIMIT (a bucket of 2^31 floats or
 * more), MEMORY. */
int mvb_grads_new(struct mvb_grads **g, float *const *tensor, const size_t *n, size_t count,
		  size_t bucket_bytes);
/* tensor[i] is complete, and belongs to the library until mvb_grads_wait. Once a step for each i,
 * in any order, and waiting for nobody. Errors: ARGUMENT (no tensor i, or a second time in this
 * step), and the step goes on as if it had not been called. */
int mvb_grads_ready(struct mvb_grads *g, size_t i);
/* Collective. Returns when every tensor holds the mean over the workers; the next step may begin.
 * Errors: ARGUMENT: some tensor was not made ready. The step is over then on all workers, and none
 * of the tensors is of use. DIFFERS: the step is not over. */
int mvb_grads_wait(struct mvb_grads *g);
/* Collective; NULL is fine. Ends a step that has begun. DIFFERS: the set is still there. */
int mvb_grads_free(struct mvb_grads *g);

/* ---- A whole model as one table ------------------------------------------------------ */

/* Multiverso's MVNetParamManager: the tensors of a model, laid end to end in an array table. */
struct mvb_model;

/* Collective. tensor[i] [n[i]], i < count, keep their place in memory, and get the values that the
 * table starts with; the lists may go. options as for a table, with updater add. *m: NULL after an
 * error. Errors: ARGUMENT (no floats, another updater, options), DIFFERS (count, lengths, options),
 * LIMIT (256 tables), MEMORY. */
int mvb_model_new(struct mvb_model **m, float *const *tensor, const size_t *n, size_t count,
		  const struct mvb_options *options);
/* Pushes what changed since the last call, and pulls: MVNetParamManager's update_all_param. Errors:
 * INCOMPLETE, in rounds; the tensors are as they were then. */
int mvb_model_sync(struct mvb_model *m);
/* tensors = W. Errors: those of any function. */
int mvb_model_pull(struct mvb_model *m);
/* *n: floats of all tensors. Errors: those of any function. */
int mvb_model_size(struct mvb_model *m, size_t *n);
/* flat [n] = tensors, end to end; and back. n: mvb_model_size's, else ARGUMENT. Only this worker's
 * memory is touched. */
int mvb_model_flatten(struct mvb_model *m, float *flat, size_t n);
int mvb_model_unflatten(struct mvb_model *m, const float *flat, size_t n);
/* Collective; NULL is fine. The tensors stay the caller's. DIFFERS: the model is still there. */
int mvb_model_free(struct mvb_model *m);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
