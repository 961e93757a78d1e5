/*
 * device.h - the internals of devices and their vectors.
 */
#ifndef DEVICE_H
#define DEVICE_H

#include "runtime/world/world.h"
#include "runtime/device/rules.h"
#include "runtime/device/updaters.h"
#include "mvbench.h"
#include "workloads/net.h"

/* A device is a table of operations on its own memory. Its only caller, vec.c, checks lengths. */

struct tally {       /* the sum of losses since the last tally_take */
	double loss; /* sum over rows */
	int64_t correct, rows;
};

/* What the training loop, communication and tables keep with a worker. */
struct loop {
	struct device *dev;
	struct stats *stats;
	struct tables *tables; /* made with the strategy's first table */
	const struct strategy *strategy;
	struct model model;              /* worker.model */
	const struct param_group *group; /* all of param, as groups of the optimiser */
	size_t groups;
	bool by_layer; /* no group has floats of two layers: common_step_cut */
	struct {
		double lr;
		float unbias[MOMENTS_MOST];
	} later;             /* of common_step_later */
	struct vec *scratch; /* of groups */
	struct vec *squares; /* [2], for --clip: of the gradient; NULL without it */
	/* --accumulate: the sum of the gradients of a step's earlier mini-batches; NULL without it.
	 * The gradient of an early one is not the step's; that of the last one gets the sum added,
	 * layer by layer. */
	struct vec *earlier;
	enum { BATCH_ALONE, BATCH_EARLY, BATCH_LAST } part;
	/* net.h's, and does this step need them while the gradient is computed? For modules below
	 * the loop. */
	void (*layer_ready)(struct worker *w, size_t i);
	bool (*wants_layers)(const struct worker *w);
	/* An evaluation adds `rows` rows with this sum of a value of the workload. */
	void (*metric)(struct worker *w, const char *name, double sum, double rows);
	struct tally told; /* by worker_tally, since the last tally_take */
	size_t busy;       /* models that have rows in this step; 0: all */
	double shares;     /* sum of worker_share over the steps so far */
	struct {
		double shares;
		int64_t step, age;
	} common;                /* what they were when the workers' moments were last equal */
	struct keepsake *kept;   /* of worker_keep and worker_keep_vec */
	bool saves;              /* the run makes or reads checkpoints */
	struct account *account; /* of worker_loss and worker_report */
	struct speeds *speeds;   /* of worker_speed; NULL: it is not used */
	struct vec *consensus; /* copied by consensus_mark; NULL = not measured, or equal models */
	bool marks, marked;    /* consensus_mark copies in this step; has copied in this epoch */
};

enum { GPUS_MOST = 64 };

/* Facts about a kind of device, known before one is opened. */
struct device_facts {
	bool present;                 /* one seems to be installed, usable or not */
	int count;                    /* number of devices that this process sees */
	uint64_t identity[GPUS_MOST]; /* unique, the same in all processes; of the first GPUs */
	/* The most that a worker takes besides its vectors, and what convolutions add to that. */
	size_t workspace_bytes, conv_workspace_bytes;
	size_t total_bytes, free_bytes; /* of the GPU with the least free memory; 0: the host's */
	bool mps;                       /* processes use a GPU at the same time, by NVIDIA's MPS */
	char model[128], driver[64];    /* "NVIDIA H200", "580.159.03"; empty = none */
	char version[128];              /* of its libraries */
};

struct shape;
struct peer_ops;

/*
 * The operations of devices: name, parameters, the same as arguments, both without the device d,
 * and the cost for a simulated worker: its kind and amount (sim/world/device.c). All code that has
 * a line for each operation is made from this list.
 *
 * The last word says what a GPU, which computes gradients of convolutions' weights concurrently and
 * on copies of weights, need not expect of the operation (cuda/cuda.c). ANY: nothing; NO_WEIGHTS:
 * it writes no weights; NO_GRADIENTS: nor does it read a gradient of weights; JOINS: and it waits
 * for the concurrent work by itself, if it must.
 */
#define DEVICE_PARAMS(params) DEVICE_EXPAND(DEVICE_PARAMS_OF params)
#define DEVICE_ARGS(args)     DEVICE_EXPAND(DEVICE_ARGS_OF args)
#define DEVICE_PARAMS_OF(...) (struct device * d, __VA_ARGS__)
#define DEVICE_ARGS_OF(...)   (d, __VA_ARGS__)
#define DEVICE_EXPAND(...)    __VA_ARGS__ /* for cppcheck, which expands only arguments twice */
#define Y_OF_X                (float *y, const float *x, size_t n)
/* Formulas: maps.h. */
#define SCALED_LIST(X) /* the last word: x of the formula */ \
	X(fill, (float *y, float a, size_t n), (y, a, n), FILL, n, ANY, y) \
	X(scale, (float *y, float a, size_t n), (y, a, n), SCALE, n, ANY, y) \
	X(axpy, (float *y, float a, const float *x, size_t n), (y, a, x, n), AXPY, n, ANY, x)
#define MAP_LIST(X) \
	X(relu, Y_OF_X, (y, x, n), SCALE, n, NO_WEIGHTS) \
	X(relu_grad, Y_OF_X, (y, x, n), AXPY, n, NO_GRADIENTS) \
	X(tanh, Y_OF_X, (y, x, n), SCALE, n, NO_WEIGHTS) \
	X(tanh_grad, Y_OF_X, (y, x, n), AXPY, n, NO_GRADIENTS) \
	X(add, Y_OF_X, (y, x, n), AXPY, n, ANY) \
	X(gelu, Y_OF_X, (y, x, n), SCALE, n, ANY) \
	X(gelu_grad, Y_OF_X, (y, x, n), AXPY, n, ANY)
#define DEVICE_OPS(X) \
	X(put, (float *y, const float *host, size_t n), (y, host, n), COPY, n, ANY) \
	X(copy, Y_OF_X, (y, x, n), COPY, n, ANY) \
	SCALED_LIST(X) \
	/* y[r y_width + j] = x[r x_width + j], j < n */ \
	X(copy_columns, \
	  (float *y, size_t y_width, const float *x, size_t x_width, size_t rows, size_t n), \
	  (y, y_width, x, x_width, rows, n), COPY, (rows * n), ANY) \
	X(gemm, \
	  (float *y, bool at, const float *a, bool bt, const float *b, size_t m, size_t n, \
	   size_t k), \
	  (y, at, a, bt, b, m, n, k), PRODUCT, 2.0 * (double)m * (double)n * (double)k, \
	  NO_WEIGHTS) \
	X(add_bias, (float *y, const float *b, size_t rows, size_t n), (y, b, rows, n), SCALE, \
	  (rows * n), NO_WEIGHTS) \
	X(sum_rows, (float *b, const float *y, size_t rows, size_t n), (b, y, rows, n), SCALE, \
	  (rows * n), NO_WEIGHTS) \
	MAP_LIST(X) \
	X(embed, \
	  (float *y, const float *token, const float *table, const float *place, size_t rows, \
	   size_t places, size_t tokens, size_t n), \
	  (y, token, table, place, rows, places, tokens, n), COPY, (rows * n), ANY) \
	X(embed_grad, \
	  (float *dtable, float *dplace, const float *dy, const float *token, size_t rows, \
	   size_t places, size_t tokens, size_t n, bool add), \
	  (dtable, dplace, dy, token, rows, places, tokens, n, add), AXPY, (rows * n), ANY) \
	X(layer_norm, \
	  (float *y, float *stat, const float *x, const float *scale, size_t rows, size_t n), \
	  (y, stat, x, scale, rows, n), SCALE, (rows * n), ANY) \
	X(layer_norm_grad, \
	  (float *dx, float *dscale, const float *dy, const float *x, const float *stat, \
	   const float *scale, size_t rows, size_t n, bool add), \
	  (dx, dscale, dy, x, stat, scale, rows, n, add), AXPY, (rows * n), ANY) \
	X(softmax_xent, (float *z, const float *target, size_t rows, size_t n, float over), \
	  (z, target, rows, n, over), SCALE, (rows * n), NO_WEIGHTS) \
	X(mse, (float *z, const float *target, size_t rows, size_t n, float over), \
	  (z, target, rows, n, over), NOTHING, n, NO_WEIGHTS) \
	/* a, b: the moments, NULL if the rule has none */ \
	X(step, (float *x, float *a, float *b, const float *g, const struct rule *by, size_t n), \
	  (x, a, b, g, by, n), UPDATE, n, ANY) \
	X(add_squares, Y_OF_X, (y, x, n), CLIP, n, ANY) \
	X(limit, (float *y, const float *square, float most, float least, size_t n), \
	  (y, square, most, least, n), CLIP, n, ANY) \
	X(ratio, (float *y, const float *w, const float *u, float most, float decay, size_t n), \
	  (y, w, u, most, decay, n), CLIP, n, ANY) \
	/* t NULL: the rows as they are */ \
	X(gather, \
	  (float *x, float *y, const struct data *data, const int32_t *index, size_t count, \
	   const struct transform *t), \
	  (x, y, data, index, count, t), DATA, count * data->features, NO_WEIGHTS) \
	X(dropout, (float *y, float p, uint64_t salt, size_t n), (y, p, salt, n), NOTHING, n, \
	  NO_GRADIENTS) \
	X(shortcut, \
	  (float *y, const float *x, struct image in, size_t stride, size_t out, size_t rows), \
	  (y, x, in, stride, out, rows), NOTHING, 0, NO_WEIGHTS) \
	X(shortcut_grad, \
	  (float *dx, const float *dy, struct image in, size_t stride, size_t out, size_t rows), \
	  (dx, dy, in, stride, out, rows), NOTHING, 0, NO_GRADIENTS) \
	/* conv, ...: from conv_new, pool_new, norm_new, attention_new; as those of net.h. */ \
	X(conv_forward, \
	  (void *conv, float *y, const float *x, const float *weight, const float *bias, \
	   size_t rows), \
	  (conv, y, x, weight, bias, rows), NOTHING, 0, NO_WEIGHTS) \
	X(conv_backward_weight, \
	  (void *conv, float *dweight, float *dbias, const float *x, const float *dy, \
	   size_t rows), \
	  (conv, dweight, dbias, x, dy, rows), NOTHING, 0, JOINS) \
	X(conv_backward_data, \
	  (void *conv, float *dx, const float *dy, const float *weight, bool add, size_t rows), \
	  (conv, dx, dy, weight, add, rows), NOTHING, 0, JOINS) \
	X(pool_forward, (void *pool, float *y, const float *x, size_t rows), (pool, y, x, rows), \
	  NOTHING, 0, NO_WEIGHTS) \
	X(pool_backward, \
	  (void *pool, float *dx, const float *dy, const float *x, const float *y, size_t rows), \
	  (pool, dx, dy, x, y, rows), NOTHING, 0, NO_GRADIENTS) \
	X(norm_forward, \
	  (void *norm, float *y, const float *x, const float *add, const float *scale, \
	   float *running, bool training, size_t rows), \
	  (norm, y, x, add, scale, running, training, rows), NOTHING, 0, NO_WEIGHTS) \
	X(norm_backward, \
	  (void *norm, float *dx, float *dscale, float *dy, const float *x, const float *y, \
	   const float *scale, size_t rows), \
	  (norm, dx, dscale, dy, x, y, scale, rows), NOTHING, 0, JOINS) \
	X(attention_forward, (void *attention, float *y, const float *x, size_t rows), \
	  (attention, y, x, rows), NOTHING, 0, ANY) \
	X(attention_backward, \
	  (void *attention, float *dx, const float *dy, const float *x, size_t rows), \
	  (attention, dx, dy, x, rows), NOTHING, 0, ANY)

/* The layers that a device prepares for a shape, and frees. */
#define DEVICE_LAYERS(X) X(conv) X(pool) X(norm) X(attention)

struct device_ops {
	const char *name, *summary;
	bool host; /* its floats, and those that it is given, are in the host's memory */
	/* NULL = usable here, or a static message that says why not; f may be NULL. */
	const char *(*probe)(struct device_facts *f);
	/* d->precision and d->number are set. */
	void (*open)(struct device *d, int threads);
	void (*close)(struct device *d);
	float *(*alloc)(struct device *d, size_t n); /* zeroed */
	void (*free)(struct device *d, float *p, size_t n);
	void (*get)(struct device *d, float *host, const float *x, size_t n);
	void (*tally)(struct device *d, struct tally *out); /* reads and clears it */
#define DEVICE_SLOT(name, params, ...) void(*name) DEVICE_PARAMS(params);
	DEVICE_OPS(DEVICE_SLOT)
#define DEVICE_LAYER_SLOTS(name) \
	void *(*name##_new)(struct device * d, const struct shape *s); \
	void (*name##_free)(struct device * d, void *name);
	DEVICE_LAYERS(DEVICE_LAYER_SLOTS)

	/* Runs body(ctx). It may capture the launches of body as a graph under this key, and launch
	 * the graph when the key is used again, with d->lr, d->unbias and d->key of that call.
	 * NULL = the caller runs body. */
	void (*graph)(struct device *d, size_t key, void (*body)(void *ctx), void *ctx);
	/* event_record, in a captured body: records event i at this place. event_wait, after the
	 * launch: waits for event i. NULL if graph is NULL. */
	void (*event_record)(struct device *d, size_t i);
	void (*event_wait)(struct device *d, size_t i);
	void (*sync)(struct device *d); /* waits for all operations; NULL = they are synchronous */
	const struct peer_ops *peer;    /* NULL: the host reads and writes its memory */
};

/* The slots that every device has, in functions with its prefix. */
#define DEVICE_BASICS(prefix) \
	.probe = prefix##_probe, .open = prefix##_open, .close = prefix##_close, \
	.alloc = prefix##_alloc, .free = prefix##_free, .get = prefix##_get, \
	.tally = prefix##_tally

/* A device with its own memory offers these to other processes and to the network. Floats are on
 * the device unless they are called host. Operations are complete on return unless stated
 * otherwise. */
enum { PEER_HANDLE_BYTES = 128, NCCL_ID_BYTES = 128 };
struct peer_ops {
	float *(*pinned_new)(struct device *d, size_t n); /* host memory with fast copies */
	void (*pinned_free)(struct device *d, float *host);
	/* Between use_second_stream(true) and (false) operations run at the same time as
	 * the earlier ones, in their own order; sync waits only for them. Not in a body of graph.
	 */
	void (*use_second_stream)(struct device *d, bool on);
	/* Zeroed floats that other processes of this machine map by the handle. */
	float *(*shared_new)(struct device *d, size_t n, unsigned char handle[PEER_HANDLE_BYTES]);
	void (*shared_free)(struct device *d, float *p);
	/* NULL: this device cannot map them. */
	float *(*shared_map)(struct device *d, const unsigned char handle[PEER_HANDLE_BYTES]);
	void (*shared_unmap)(struct device *d, float *p);
	/* y = a (x[0] + ... + x[k - 1]), added in this order; y may be one of x. Asynchronous. */
	void (*sum)(struct device *d, float *y, const float *const *x, int k, float a, size_t n);
	/* A codec's message of x, and y = its floats, or with add y += them. words: its length in
	 * floats. The form is not FORM_HOST. false: no encode has made it; only decode of
	 * FORM_TOPK waits for that, otherwise they are asynchronous. */
	void (*encode)(struct device *d, const struct code_form *f, const struct code *c,
		       float *wire, size_t words, const float *x);
	bool (*decode)(struct device *d, const struct code_form *f, const struct code *c, float *y,
		       const float *wire, size_t words, bool add);
	/* An operation on n floats of a table. */
	void (*apply)(struct device *d, enum op_kind kind, enum updater_kind updater,
		      const struct update *u, size_t n);
	/* NCCL, one device per rank. Rank 0 makes the id. NULL or a message (heap). */
	char *(*nccl_id)(struct device *d, unsigned char id[NCCL_ID_BYTES]);
	char *(*nccl_new)(struct device *d, void **nccl, const unsigned char id[NCCL_ID_BYTES],
			  int rank, int size);
	void (*nccl_free)(struct device *d, void *nccl);
	/* Sums. Asynchronous. */
	void (*nccl_allreduce)(struct device *d, void *nccl, float *x, size_t n);
};

/* The shape of a convolution, a pooling, a batch normalisation, or an attention (there in and out
 * are places x heads x floats). */
struct shape {
	struct image in, out;
	struct window window; /* not norm */
	bool bias, relu;      /* bias: conv; relu: conv, norm */
	bool average;         /* pool */
	bool adds;            /* norm */
	size_t rows_max;
};

struct device {
	const struct device_ops *ops;
	struct tally tally;
	float lr; /* of the current step */
	float unbias[MOMENTS_MOST];
	const float *square; /* [2]; squared norm of the gradient, which steps shorten to `most` */
	float most;          /* if it is longer; square NULL: no limit */
	uint64_t key;        /* seed of the step's random numbers */
	const char *precision;  /* of matrix work: "float32", "tf32", "bf16" */
	int number;             /* among those of its kind on this machine */
	uint64_t identity;      /* of the opened device, unique */
	size_t bytes;           /* allocated by alloc */
	size_t workspace_bytes; /* allocated for libraries */
	int convs;              /* number of prepared convolutions */
	/* The weights that attentions keep for the gradient. A GPU keeps the same number again, and
	 * counts both in workspace_bytes. */
	size_t attention_floats;
	bool in_graph; /* inside a body that is captured */
	void *at;      /* data of the device's code */
};

/* Waits until all its operations are done; d may be NULL. */
static inline void device_sync(struct device *d)
{
	if (d && d->ops->sync)
		d->ops->sync(d);
}

/* The values of --device; the first is always available. */
#define DEVICE_LIST(X)      X(cpu) X(cuda)
#define DEVICE_CHOICE(name) "|" #name
#define DEVICES             "auto" DEVICE_LIST(DEVICE_CHOICE)
#define DEVICE_EXTERN(name) extern const struct device_ops device_##name;
DEVICE_LIST(DEVICE_EXTERN)
extern const struct device_ops *const devices[];        /* all of them; ends at NULL */
const struct device_ops *device_find(const char *name); /* NULL: unknown name */
extern const struct device_ops device_none; /* lengths only: computes and holds nothing */
/* From now on this thread treats denormal numbers as zeros. Trainers and servers call it. */
void cpu_flush_denormals(void);

struct vec {
	float *data; /* on the device; NULL on device_none */
	size_t n;
	struct device *dev;
	bool view; /* owns no floats */
};

/* A failed check names the operation and both lengths. */
static inline void vec_room(const char *op, const char *arg, const struct vec *v, size_t n)
{
	CHECK(v && v->n >= n, "%s: %s has %zu floats, %zu are needed", op, arg, v ? v->n : 0, n);
}

static inline float *vec_floats(const struct vec *v, size_t first)
{
	return v->data ? v->data + first : link_nowhere();
}

void tally_take(struct worker *w, struct tally *out);

/* Makes the workload's model, which its init lays out. w->optimizer is set, or NULL: no steps. */
void model_open(struct worker *w, const struct data *sample);
void model_close(struct worker *w); /* also after a failed model_open */
/* Frees groups, scratch and moments, of a worker that shares another's param and grad. */
void model_forget(struct worker *w);

#endif
