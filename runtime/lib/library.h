/*
 * library.h - what the files of libmvbench share: the process's state, its errors, how collective
 * functions begin, and the operations that are started and not waited for.
 *
 * Functions that return an int return MVB_OK or a code. With a code they have set the message.
 */
#ifndef LIBRARY_H
#define LIBRARY_H

#include "runtime/lib/libmvbench.h"

#include "runtime/table/table.h"

#include <pthread.h>

/* ---- What the process is -------------------------------------------------------- */

enum kind { TABLE, GRADS, MODEL };

/* A pointer of the caller's may be to any of these kinds; each kind's struct begins with this one.
 */
struct object {
	enum kind kind;
	struct mvb_table *table; /* its operations end before the object is freed; NULL = none */
	/* Frees it without a collective call; the other workers do the same. */
	void (*drop)(struct object *o);
	struct object *next;
};

struct mvb_table {
	struct object object;
	struct table *core;
	int64_t staleness;
	bool keys; /* of mvb_kv_new */
};

enum { PENDING_OPS = 256 };
/* Numbers of a collective call; facts that its workers compare, each with its negative. */
enum { ARGS = 8, FACTS = 2 * (ARGS + 3) };

/* An operation that is started and not waited for. */
struct pending_op {
	enum pending_state { FREE, TABLE_OP, REDUCTION, DONE } state;
	int64_t generation;
	struct mvb_table *table; /* TABLE_OP */
	struct table_op operation;
	float *x; /* REDUCTION: [n] */
	size_t n;
	enum mvb_reduce op;
	int slot;           /* its index in the library's `slot` */
	double fact[FACTS]; /* of its call; then their maxima over the workers */
	int code;           /* DONE: how it ended, */
	char *why;          /* and the message (heap) */
};

extern struct library {
	enum { UNBORN, WORKER, SERVER, OVER } state;
	int rank, size, servers, workers;
	struct link *everyone; /* of workers and servers */
	struct link *link;     /* of the workers */
	struct lookout *lookout;
	struct link *async; /* of the workers: for started reductions */
	struct tables *tables;
	struct object *object;
	struct pending_op pending_op[PENDING_OPS];
	bool slot[LINK_SLOTS];
	pthread_t home, thread; /* of mvb_init; whose calls are allowed now */
	pid_t process;
	bool launched; /* with MPI, which starts only once */
	bool failed;   /* mvb_init has failed after the start of MPI */
	char backend[256];
} lib;

/* ---- Errors ----------------------------------------------------------------------- */

int lib_fail(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Frees the message; NULL is no failure. */
int lib_fail_with(int code, char *wrong);
int lib_no_memory(const char *function, size_t floats);
/* Is a call allowed now? */
int lib_ready(const char *function);
/* Is a call allowed now, and is this pointer to a live object of the library? */
int lib_ready_with(const char *function, enum kind kind, const void *p);

/* Is one of the fields set that this version does not know? */
int lib_check_later(const char *function, const int64_t later[4]);

void *lib_keep(struct object *o, struct object what);
void lib_drop(struct object *o);
/* Counts from 1 in the order of creation, which is the same on all workers. */
double lib_number(const struct object *object);

/* ---- Collective functions: how each begins -------------------------------------------- */

/* For each: the name, and what the numbers of a call mean. The last may be called without waiting:
 * the greatest number of all workers' functions shows whether one is in it. */
#define LISTED "floats of all tensors", "fingerprint of their lengths"
#define FUNCTIONS(X) \
	X(INIT, "mvb_init", "servers", "tables") \
	X(SHUTDOWN, "mvb_shutdown", NULL) \
	X(BARRIER, "mvb_barrier", NULL) \
	X(TABLE_NEW, "mvb_array_new or mvb_matrix_new", "rows", "columns", "updater", "rounds", \
	  "backup", "bounded", "lead", "initial") \
	X(TABLE_FREE, "mvb_table_free", NULL) \
	X(ALLREDUCE, "mvb_allreduce", "n", "op") \
	X(ALLREDUCE_TYPE, "mvb_allreduce_type", "n", "type", "op") \
	X(GATHER, "mvb_gather", "bytes", "root") \
	X(REDUCE_SCATTER, "mvb_reduce_scatter", "n", "op") \
	X(ALLREDUCE_LIST, "mvb_allreduce_list", "count", LISTED, "op") \
	X(BROADCAST, "mvb_broadcast", "n", "root") \
	X(GRADS_NEW, "mvb_grads_new", "count", LISTED, "bucket_bytes") \
	X(GRADS_WAIT, "mvb_grads_wait", NULL) \
	X(GRADS_FREE, "mvb_grads_free", NULL) \
	X(MODEL_NEW, "mvb_model_new", "count", LISTED) \
	X(MODEL_FREE, "mvb_model_free", NULL) \
	X(LINEAR_FORWARD, "mvb_linear_forward", "form", "inputs", "outputs", "bias", "rows") \
	X(LINEAR_BACKWARD, "mvb_linear_backward", "form", "inputs", "outputs", "bias", "rows") \
	X(LINEAR_GATHER, "mvb_linear_gather", "form", "inputs", "outputs", "bias") \
	X(ALLREDUCE_START, "mvb_allreduce_start", "n", "op")
#define FUNCTION_ID(id, ...) id,
enum function { FUNCTIONS(FUNCTION_ID) };

struct call {
	enum function function;
	int code; /* not MVB_OK: refused on this worker, for the reason in its message */
	double arg[ARGS];
	double object; /* number of its table, set or model */
};

/* All workers call it. MVB_OK when all are in the same function, with equal arguments, and none was
 * refused. MVB_ERR_DIFFERS, on all, when they are in different functions. */
int lib_collective(struct call mine);
/* What lib_collective compares, for a call that does not wait. */
void lib_facts(const struct call *mine, double fact[FACTS]);
/* Collective: frees the object if it is of this kind; NULL is fine. */
int lib_free(enum function function, enum kind kind, struct object *o);

/* ---- Started operations ---------------------------------------------------------------- */

struct pending_op *lib_pending_new(void); /* a free entry, or NULL */
int64_t lib_ticket(const struct pending_op *f);
int lib_too_many(const char *function);
/* Waits for what is in this state: operations on one table, or on all (NULL), or reductions.
 * Returns the first error. */
int lib_finish(enum pending_state state, const struct mvb_table *t);

/* ---- Tables (tables.c) -------------------------------------------------------- */

int lib_op_code(const struct mvb_table *t); /* of an operation that failed */
void lib_note_push(struct mvb_table *t, const struct table_op *p);
/* Row += values; out = row, with no other worker's push in between. */
int lib_add_get_row(struct mvb_table *t, int64_t row, const float *values, size_t n, float *out);

/* ---- Lists of tensors (reduce.c) ----------------------------------------------- */

/* tensor[i] [n[i]], i < count; total: the sum of n. */
struct list {
	float *const *tensor;
	const size_t *n;
	size_t count, total;
};

/* Are there n floats at x, which the message calls `what`? */
int lib_check_floats(const char *function, const char *what, const void *x, size_t n);
/* Turns x, a sum over the workers, into the result of op. */
void lib_mean(float *x, size_t n, enum mvb_reduce op);
/* x [n] = its sum over the workers. */
void lib_sum(float *x, size_t n);
int lib_check_list(const char *function, struct list *l); /* sets total */
/* lib_collective of a call with a list and one more argument. If the list has failed its check
 * (code), only its count is compared. */
int lib_collective_list(enum function function, int code, struct list l, double more);
/* The lists themselves, not the tensors, in memory of their own: free tensor and n. */
struct list lib_list_copy(struct list l);
void lib_list_free(struct list l);
void lib_join(float *flat, struct list l);
void lib_part(const float *flat, struct list l);

/* Makes one MPI job of processes of one machine that were started one by one (rendezvous.c). All
 * call it with the same file, before platform_open(true). Returns NULL, or a message. */
char *rendezvous(const char *file, int rank, int size, double timeout_s);

#endif
