/*
 * cuda.h - what the two sides of the CUDA device share, and what the files of its module share.
 *
 * The device is a module, mvbench_cuda.so, that the program loads when a worker opens it: a program
 * linked to cuBLAS and cuDNN would take 60 ms longer to start, whatever it does. cuda_module.c is
 * the program's side; this folder is the module.
 *
 * No header of CUDA is included here: its handles are pointers to structs that it never shows.
 */
#ifndef CUDA_H
#define CUDA_H

#ifdef __cplusplus
extern "C" {
#endif

#include "runtime/device/device.h"

#include <string.h>

/* What the module calls in the program. It defines functions of these names that pass on. */
struct cuda_host {
	uint64_t build; /* cuda_build(), as the program was compiled */
	bool computes;  /* in this process: a probe then leaves other GPUs than its own alone */
	void (*panic)(const char *file, int line, const char *fmt, ...); /* these two do not */
	void (*failure)(const char *fmt, ...);                           /* return */
	void *(*must)(void *p);
	char *(*text_read)(const char *path);
	int (*folder_make)(const char *path);
	char *(*output_open)(struct output *o, const char *option, const char *path);
	char *(*output_close)(struct output *o, char *wrong);
};

/* Of what both sides must know alike: the structs, and the formulas of the updaters, since one that
 * a module lacks would push nothing. */
static inline uint64_t cuda_build(void)
{
#define UPDATER_TEXT(word, formula, ...) #word ": " formula "\n"
#define RULE_TEXT(kind, word, moments)   #word #moments "\n"
	static const char updaters_text[] = UPDATER_LIST(UPDATER_TEXT) RULE_LIST(RULE_TEXT);
#undef UPDATER_TEXT
#undef RULE_TEXT
	const size_t bytes[] = {sizeof(struct device_ops), sizeof(struct peer_ops),
				sizeof(struct device_facts), sizeof(struct device),
				sizeof(struct cuda_host)};
	uint64_t structs = hash_of(HASH_START, bytes, sizeof bytes);
	return hash_of(structs, updaters_text, sizeof updaters_text);
}

/* All that the module exports. Its probe asks CUDA in this process: after that, a child that is
 * forked cannot use it. NULL: it was built for another program. */
const struct device_ops *mvbench_cuda(const struct cuda_host *host);

/* ---- Inside the module ----------------------------------------------------- */

extern const struct cuda_host *cuda_program;

/* What a kernel of a kept graph cannot be given as an argument, since it changes. */
struct cuda_now {
	uint64_t key;
	struct moving_step moving;
	uint32_t turn; /* counts the bodies */
};

struct cuda_losses {
	double loss;
	unsigned long long correct, rows;
};

enum { CUDA_COUNTERS = 1024 };
struct device_state { /* on the device; zeroed when it is opened */
	struct cuda_now step;
	struct cuda_losses tally;
	unsigned counter[CUDA_COUNTERS]; /* zero between two sums */
};

struct resident;
struct kept_graph;
struct conv_choice;
struct cuda_conv;

/* What is computed beside the chain (branch.c). */
enum { BRANCH_READS = 8 };
struct branch {
	bool off;
	bool busy; /* has been asked for something since it was joined */
	struct CUstream_st *stream;
	struct cudnnContext *dnn;
	void *workspace;
	size_t workspace_bytes;
	struct CUevent_st *forked, *joined;
	struct branch_read { /* two pieces of memory */
		const void *at[2];
		size_t bytes[2];
	} read[BRANCH_READS];
	size_t reads;
};

struct cuda { /* device->at */
	int gpu;
	char model[128];
	bool bf16; /* activations are */
	bool tf32;
	struct CUstream_st *stream, *side;
	bool aside; /* these two are exchanged */
	struct branch branch;
	struct cublasContext *blas;
	struct cudnnContext *dnn;
	void *blas_workspace;
	struct device_state *state;

	/* One piece of memory serves every operation that needs some while it runs. */
	void *workspace;
	size_t workspace_bytes;
	void **retired; /* out of use, but graphs that are kept may name it */
	size_t retired_n;

	struct resident *resident; /* host arrays that were brought here */
	size_t residents;
	struct kept_graph *graph;
	size_t graphs;
	size_t body;              /* that runs, or ran last */
	bool without_graphs;      /* each step's kernels are launched one by one */
	bool capturing, captured; /* now; ever */
	char *uncaptured;         /* the first call that a capture could not take, a sentence */
	bool switched;   /* since the body began, a layer has, to what it has not prepared yet */
	uint32_t turn;   /* bodies begun */
	uint32_t *event; /* pinned [EVENTS]: the last turn that got there */
	struct conv_choice *choice; /* algorithms, so that equal shapes are tried once */
	size_t choices;
	struct cuda_conv *conv; /* all that there are */
	size_t convs;
	uint64_t written;     /* counts what may have written weights */
	bool unsettled;       /* gradients of weights are not yet where they belong */
	bool alone, unpadded; /* switches (conv.c) */
	size_t sum_blocks;    /* the most that add up columns */
};

enum {
	EVENTS = 4096,             /* places in a body: layers with parameters */
	BLAS_WORKSPACE = 32 << 20, /* what cuBLAS recommends on Hopper [bytes] */
	CONV_WORKSPACE = 256 << 20 /* the most that an algorithm of cuDNN may want [bytes] */
};

static inline struct cuda *cuda_of(struct device *d)
{
	return (struct cuda *)d->at;
}

/* Of an activation [bytes]. */
static inline size_t cuda_number(const struct cuda *c)
{
	return c->bf16 ? sizeof(uint16_t) : sizeof(float);
}

bool cuda_off(const char *name); /* Is this switch of the environment =0? */

/* A call failed: says which, on which GPU, and why, and ends the process. While a graph is captured
 * it keeps the first such sentence and returns: graph.c goes on without graphs. */
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
/* What libraries and layers need beside vectors: counted in workspace_bytes. */
void *cuda_take(struct device *d, size_t bytes);
void cuda_give(struct device *d, void *p, size_t bytes);
/* Gives it back when no graph can use it any more. */
void cuda_retire(struct device *d, void *p, size_t bytes);
/* The workspace, of so many bytes at least; what is in it is gone at the next operation. */
void *cuda_workspace(struct device *d, size_t bytes);
/* It, and counters, for sums over blocks. */
struct cuda_stage {
	float *partial;
	unsigned *counter; /* [CUDA_COUNTERS] */
};
struct cuda_stage cuda_stage_of(struct device *d, size_t bytes);
/* The array, on the device; NULL for NULL. */
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
/* What is queued from here to leave is on the branch; false: there is none now. */
bool cuda_branch_enter(struct device *d);
/* What was queued reads these two; NULL = nothing. */
void cuda_branch_leave(struct device *d, const void *a, size_t a_bytes, const void *b,
		       size_t b_bytes);
/* What is queued from here on comes after all of the branch; before: if that reads these bytes. */
void cuda_join(struct device *d);
void cuda_join_before(struct device *d, const void *p, size_t bytes);

/* ---- Operations: those of the list, and what they share -------------------- */

#define CUDA_OP(name, params, ...) void cuda_##name params;
DEVICE_OPS(CUDA_OP)
#define CUDA_LAYER(name) \
	void *cuda_##name##_new(struct device *d, const struct shape *s); \
	void cuda_##name##_free(struct device *d, void *name);
DEVICE_LAYERS(CUDA_LAYER)

void cuda_bias(struct device *d, float *y, const float *b, bool relu, size_t rows, size_t n);

/* A matrix that goes into another of more or fewer rows and columns: what that has more is 0. */
struct cuda_piece {
	const void *from;
	void *to;
	unsigned from_rows, from_columns, to_rows, to_columns;
};
/* n of them, of floats or bf16. */
void cuda_move(struct device *d, const struct cuda_piece *p, size_t n, bool from_bf16,
	       bool to_bf16);

/* Gradients of convolutions' weights are where they belong. After cuda_join. */
void cuda_conv_settle(struct device *d);
/* These floats are freed. */
void cuda_conv_forget(struct device *d, const float *p, size_t n);
/* What is queued from here on may write any floats: copies of weights are not as they are then. */
static inline void cuda_writes(struct device *d)
{
	cuda_of(d)->written++;
}

/* ---- Graphs and peers ------------------------------------------------------ */

/* What a graph finds changed at each launch. */
void cuda_set_step(struct device *d);
/* The turn goes to pinned host memory; by a kernel, so that none waits for a copy engine. */
void cuda_mark(struct device *d, uint32_t *host);
void cuda_graph(struct device *d, size_t key, void (*body)(void *ctx), void *ctx);
void cuda_event_record(struct device *d, size_t i);
void cuda_event_wait(struct device *d, size_t i);
void cuda_graphs_close(struct device *d);

void cuda_sum(struct device *d, float *y, const float *const *x, int k, float a, size_t n);
void cuda_apply(struct device *d, enum op_kind kind, enum updater_kind updater,
		const struct update *u, size_t n);
extern const struct peer_ops cuda_peer;

#ifdef __cplusplus
}
#endif

#endif
