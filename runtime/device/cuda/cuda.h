/*
 * cuda.h - shared by the two sides of the CUDA device, and by the files of its module.
 *
 * The device is a module, mvbench_cuda.so. The program loads it when a worker opens the device,
 * because a program linked to cuBLAS and cuDNN takes 60 ms longer to start. cuda_module.c is the
 * program's side; this folder is the module.
 *
 * This file includes no header of CUDA: CUDA's handles are pointers to opaque structs.
 */
#ifndef CUDA_H
#define CUDA_H

#ifdef __cplusplus
extern "C" {
#endif

#include "runtime/device/device.h"

#include <string.h>
#include <time.h>

/* A hash of what must be equal on both sides: the structs, and the formulas of the updaters,
 * because an updater that the module lacks would push nothing. */
static inline uint64_t cuda_build(void)
{
#define UPDATER_TEXT(word, formula, ...) #word ": " formula "\n"
#define RULE_TEXT(kind, word, moments)   #word #moments "\n"
	static const char updaters_text[] = UPDATER_LIST(UPDATER_TEXT) RULE_LIST(RULE_TEXT);
#undef UPDATER_TEXT
#undef RULE_TEXT
	const size_t bytes[] = {sizeof(struct device_ops),   sizeof(struct peer_ops),
				sizeof(struct device_facts), sizeof(struct device),
				sizeof(struct code),         sizeof(struct code_form)};
	uint64_t structs = hash_of(HASH_START, bytes, sizeof bytes);
	return hash_of(structs, updaters_text, sizeof updaters_text);
}

/* The only export of the module. build: cuda_build() of the program; computes: this process uses
 * CUDA: the probe makes no contexts on other GPUs. The probe starts CUDA in this process; children
 * forked later cannot use CUDA. NULL: the module was built for another program. The module calls
 * functions of the program (cuda_module.c lists them). */
typedef const struct device_ops *mvbench_cuda_fn(uint64_t build, bool computes);
mvbench_cuda_fn mvbench_cuda;

/* ---- Inside the module ----------------------------------------------------- */

/* Values that differ between launches of a graph: kernels read them from memory. */
struct cuda_now {
	uint64_t key;
	struct moving_step moving;
	uint32_t turn; /* number of the body */
};

enum { CUDA_COUNTERS = 1024 };
struct device_state { /* on the device; zeroed at open */
	struct cuda_now step;
	struct tally tally;
	unsigned counter[CUDA_COUNTERS]; /* zero between two sums */
};

struct resident;
struct recorded_graph;
struct conv_choice;
struct cuda_conv;

/* Work that runs concurrently with the chain (branch.c). */
enum { BRANCH_READS = 8 };
struct branch {
	bool off;
	bool busy; /* work was queued on it since the last join */
	struct CUstream_st *stream;
	struct cudnnContext *dnn;
	void *workspace;
	size_t workspace_bytes;
	struct CUevent_st *forked, *joined;
	struct branch_read { /* two ranges of memory */
		const void *at[2];
		size_t bytes[2];
	} read[BRANCH_READS];
	size_t reads;
};

struct cuda { /* device->at */
	int gpu;
	char model[128];
	bool bf16; /* activations are bf16 */
	bool tf32;
	struct CUstream_st *stream, *side;
	bool on_second_stream; /* stream and side are exchanged */
	struct branch branch;
	struct cublasContext *blas;
	struct cudnnContext *dnn;
	void *blas_workspace;
	struct device_state *state;

	/* Temporary memory, shared by all operations. */
	void *workspace;
	size_t workspace_bytes;
	void **retired; /* unused memory that captured graphs may still use */
	size_t retired_n;

	struct resident *resident; /* copies of host arrays */
	size_t residents;
	struct recorded_graph *graph;
	size_t graphs;
	size_t body;              /* the current body, or the last one */
	bool without_graphs;      /* each step's kernels are launched one by one */
	bool capturing, captured; /* now; ever */
	char *uncaptured;         /* message about the first call that cannot be captured */
	bool switched; /* a layer has turned to padding in this body, and must be prepared again */
	uint32_t turn; /* number of bodies begun */
	uint32_t *event;            /* pinned [EVENTS]: the last turn that reached each event */
	struct conv_choice *choice; /* algorithms: each shape is tried once */
	size_t choices;
	bool warm;              /* trials have raised the GPU's clock */
	struct cuda_conv *conv; /* list of all convolutions */
	size_t convs;
	uint64_t written;     /* number of operations that may have written weights */
	bool unsettled;       /* some dweight must still be copied to the gradient */
	bool alone, unpadded; /* switches (conv.c) */
	bool early;           /* switch: kernels start before the previous one has ended */
};

enum {
	EVENTS = 1 << 16,          /* places in a body: layers with parameters */
	BLAS_WORKSPACE = 32 << 20, /* what cuBLAS recommends on Hopper [bytes] */
	CONV_WORKSPACE = 256 << 20 /* most workspace of an algorithm of cuDNN [bytes] */
};

static inline struct cuda *cuda_of(struct device *d)
{
	return (struct cuda *)d->at;
}

/* Size of one number of an activation [bytes]. */
static inline size_t cuda_number(const struct cuda *c)
{
	return c->bf16 ? sizeof(uint16_t) : sizeof(float);
}

/* Has this environment variable this value? */
static inline bool cuda_switch(const char *name, const char *value)
{
	const char *set = getenv(name);
	return set && strcmp(set, value) == 0;
}

/* The time since an arbitrary start [s], also in a simulation. */
static inline double cuda_seconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Reports a failed call, its GPU and the reason, and ends the process. While a graph is captured,
 * it keeps the first such message and returns; graph.c then continues without graphs. */
void cuda_failed(struct device *d, const char *file, int line, const char *call, const char *why);

#define TRY_(d, type, good, text, call) \
	do { \
		type status_ = (call); \
		if (status_ != (good)) \
			cuda_failed(d, __FILE__, __LINE__, #call, text(status_)); \
	} while (0)
#define TRY_CUDA(d, call) TRY_(d, cudaError_t, cudaSuccess, cudaGetErrorString, call)
#define TRY_BLAS(d, call) \
	TRY_(d, cublasStatus_t, CUBLAS_STATUS_SUCCESS, cublasGetStatusString, call)
#define TRY_DNN(d, call) TRY_(d, cudnnStatus_t, CUDNN_STATUS_SUCCESS, cudnnGetErrorString, call)

/* ---- Memory ---------------------------------------------------------------- */

void *cuda_malloc(struct device *d, size_t bytes);
/* Memory of libraries and layers, other than vectors; counted in workspace_bytes. */
void *cuda_take(struct device *d, size_t bytes);
void cuda_give(struct device *d, void *p, size_t bytes);
/* Frees it when no graph can use it any more. */
void cuda_retire(struct device *d, void *p, size_t bytes);
/* The workspace, of at least this size; the next operation may overwrite it. */
void *cuda_workspace(struct device *d, size_t bytes);
/* The workspace and counters, for sums over blocks. */
struct cuda_stage {
	float *partial;
	unsigned *counter; /* [CUDA_COUNTERS] */
};
struct cuda_stage cuda_stage_of(struct device *d, size_t bytes);
/* The copy of the host array on the device; NULL for NULL. */
const void *cuda_brought(struct device *d, const void *array, size_t bytes);
void cuda_memory_close(struct device *d);
void cuda_sync(struct device *d);
float *cuda_alloc(struct device *d, size_t n);
void cuda_free(struct device *d, float *p, size_t n);
void cuda_get(struct device *d, float *host, const float *x, size_t n);
void cuda_tally(struct device *d, struct tally *out);

/* ---- The branch ------------------------------------------------------------- */

void cuda_branch_open(struct device *d);
void cuda_branch_close(struct device *d);
/* Work that is queued from now until cuda_branch_leave is on the branch; false: no branch. */
bool cuda_branch_enter(struct device *d);
/* a, b: memory that the queued work reads; NULL = none. */
void cuda_branch_leave(struct device *d, const void *a, size_t a_bytes, const void *b,
		       size_t b_bytes);
/* Later work waits for the branch; cuda_join_before: only if the branch reads these bytes. */
void cuda_join(struct device *d);
void cuda_join_before(struct device *d, const void *p, size_t bytes);

/* ---- Operations of the list, and functions that they share ----------------- */

#define CUDA_OP(name, params, ...) void cuda_##name DEVICE_PARAMS(params);
DEVICE_OPS(CUDA_OP)
#define CUDA_LAYER(name) \
	void *cuda_##name##_new(struct device *d, const struct shape *s); \
	void cuda_##name##_free(struct device *d, void *name);
DEVICE_LAYERS(CUDA_LAYER)

void cuda_bias(struct device *d, float *y, const float *b, bool relu, size_t rows, size_t n);

/* Copies a matrix to one with more or fewer rows and columns; additional ones are 0. */
struct cuda_piece {
	const void *from;
	void *to;
	unsigned from_rows, from_columns, to_rows, to_columns;
};
/* Copies n pieces, of floats or bf16. */
void cuda_move(struct device *d, const struct cuda_piece *p, size_t n, bool from_bf16,
	       bool to_bf16);

/* The gradient of a convolution's weights by a kernel of our own (weight.cu), for activations of
 * the device's type. dw [out channels x window x in channels], x: input images, dy: gradient of the
 * output; work: cuda_weight_bytes, SIZE_MAX = this window is not supported. */
size_t cuda_weight_bytes(struct image in, struct image out, struct window w, size_t rows);
void cuda_weight_gradient(struct device *d, void *dw, const void *x, const void *dy,
			  struct image in, struct image out, struct window w, size_t rows,
			  void *work);

/* Copies gradients of convolutions' weights to the parameters' gradient. After cuda_join. */
void cuda_conv_settle(struct device *d);
/* Called before these floats are freed. */
void cuda_conv_forget(struct device *d, const float *p, size_t n);
/* Work that is queued now may write any floats: copies of weights are then outdated. */
static inline void cuda_writes(struct device *d)
{
	cuda_of(d)->written++;
}

/* ---- Graphs and peers ------------------------------------------------------ */

/* Sets struct cuda_now for the next launch. */
void cuda_set_step(struct device *d);
/* Writes the turn to pinned host memory; by a kernel, because a copy might wait for an engine. */
void cuda_mark(struct device *d, uint32_t *host);
void cuda_graph(struct device *d, size_t key, void (*body)(void *ctx), void *ctx);
void cuda_event_record(struct device *d, size_t i);
void cuda_event_wait(struct device *d, size_t i);
void cuda_graphs_close(struct device *d);

void cuda_sum(struct device *d, float *y, const float *const *x, int k, float a, size_t n);
void cuda_apply(struct device *d, enum op_kind kind, enum updater_kind updater,
		const struct update *u, size_t n);
void cuda_encode(struct device *d, const struct code_form *f, const struct code *c, float *wire,
		 size_t words, const float *x);
bool cuda_decode(struct device *d, const struct code_form *f, const struct code *c, float *y,
		 const float *wire, size_t words, bool add);
extern const struct peer_ops cuda_peer;

#ifdef __cplusplus
}
#endif

#endif
