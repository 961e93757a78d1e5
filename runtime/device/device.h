/*
 * device.h - devices and their vectors, from inside.
 */
#ifndef DEVICE_H
#define DEVICE_H

#include "runtime/base/base.h"
#include "workloads/net.h"

/* A device is a table of operations on its own memory; vec.c is the one caller, and checks
 * lengths. */

struct tally {       /* what losses add up, until somebody takes it */
	double loss; /* sum over rows */
	int64_t correct, rows;
};

/* What can be known of a kind of device before one is opened. */
struct device_facts {
	bool present; /* there are signs of one, if it can be used or not */
	int count;    /* how many there are */
	/* What a worker takes beside its vectors, at most, and what convolutions add to that. */
	size_t workspace_bytes, conv_workspace_bytes;
	size_t total_bytes, free_bytes; /* memory of the one that has least free; 0: the host's */
	char model[128], driver[64];    /* "NVIDIA H200", "580.159.03"; empty = none */
	char version[128];              /* of its libraries */
};

struct shape;
struct peer_ops;
struct table_rules;
struct table_op;

struct device_ops {
	const char *name, *summary;
	/* NULL = usable here, or a static sentence why not; f may be NULL. */
	const char *(*probe)(struct device_facts *f);
	/* d->precision and d->number are set. */
	void (*open)(struct device *d, int threads);
	void (*close)(struct device *d);
	float *(*alloc)(struct device *d, size_t n); /* zeroed */
	void (*free)(struct device *d, float *p, size_t n);
	void (*put)(struct device *d, float *y, const float *host, size_t n);
	void (*get)(struct device *d, float *host, const float *x, size_t n);
	void (*fill)(struct device *d, float *y, float a, size_t n);
	void (*copy)(struct device *d, float *y, const float *x, size_t n);
	void (*scale)(struct device *d, float *y, float a, size_t n);
	void (*axpy)(struct device *d, float *y, float a, const float *x, size_t n);
	void (*take_columns)(struct device *d, float *y, const float *x, size_t rows, size_t width,
			     size_t first, size_t n);
	void (*put_columns)(struct device *d, float *y, const float *x, size_t rows, size_t width,
			    size_t first, size_t n);
	void (*gemm)(struct device *d, float *y, bool at, const float *a, bool bt, const float *b,
		     size_t m, size_t n, size_t k);
	void (*add_bias)(struct device *d, float *y, const float *b, size_t rows, size_t n);
	void (*sum_rows)(struct device *d, float *b, const float *y, size_t rows, size_t n);
	void (*relu)(struct device *d, float *y, size_t n);
	void (*relu_grad)(struct device *d, float *dy, const float *y, size_t n);
	void (*tanh)(struct device *d, float *y, size_t n);
	void (*tanh_grad)(struct device *d, float *dy, const float *y, size_t n);
	void (*softmax_xent)(struct device *d, float *z, const float *target, size_t rows,
			     size_t n);
	void (*mse)(struct device *d, float *z, const float *target, size_t rows, size_t n);
	void (*sgd)(struct device *d, float *p, float *v, const float *g, float lr, float m,
		    float decay, float scale, size_t n);
	/* t NULL: as they are */
	void (*gather)(struct device *d, float *x, float *y, const struct data *data,
		       const int32_t *index, size_t count, const struct transform *t);
	void (*tally)(struct device *d, struct tally *out); /* reads and clears it */
	void (*dropout)(struct device *d, float *y, float p, uint64_t salt, size_t n);
	void (*shortcut)(struct device *d, float *y, const float *x, struct image in, size_t stride,
			 size_t out, size_t rows);
	void (*shortcut_grad)(struct device *d, float *dx, const float *dy, struct image in,
			      size_t stride, size_t out, size_t rows);

	/* What is prepared for a shape; the functions are those of mvbench.h. */
	void *(*conv_new)(struct device *d, const struct shape *s);
	void (*conv_free)(struct device *d, void *conv);
	void (*conv_forward)(struct device *d, void *conv, float *y, const float *x,
			     const float *weight, const float *bias, size_t rows);
	void (*conv_backward_weight)(struct device *d, void *conv, float *dweight, float *dbias,
				     const float *x, const float *dy, size_t rows);
	void (*conv_backward_data)(struct device *d, void *conv, float *dx, const float *dy,
				   const float *weight, bool add, size_t rows);
	void *(*pool_new)(struct device *d, const struct shape *s);
	void (*pool_free)(struct device *d, void *pool);
	void (*pool_forward)(struct device *d, void *pool, float *y, const float *x, size_t rows);
	void (*pool_backward)(struct device *d, void *pool, float *dx, const float *dy,
			      const float *x, const float *y, size_t rows);
	void *(*norm_new)(struct device *d, const struct shape *s);
	void (*norm_free)(struct device *d, void *norm);
	void (*norm_forward)(struct device *d, void *norm, float *y, const float *x,
			     const float *add, const float *scale, float *running, bool training,
			     size_t rows);
	void (*norm_backward)(struct device *d, void *norm, float *dx, float *dscale, float *dy,
			      const float *x, const float *y, const float *scale, size_t rows);

	/* Runs body(ctx); may capture what it launches as a graph under this key, and only launch
	 * that when the key comes back; d->lr and d->key are those of the call then. NULL = body is
	 * just called. */
	void (*graph)(struct device *d, size_t key, void (*body)(void *ctx), void *ctx);
	/* In a body that is kept as a graph: event i is recorded at this place; and, after the
	 * launch, waits until it has been. NULL where graph is. */
	void (*event_record)(struct device *d, size_t i);
	void (*event_wait)(struct device *d, size_t i);
	void (*sync)(struct device *d); /* until all is done; NULL = nothing is ever under way */
	const struct peer_ops *peer;    /* NULL: the host reads and writes its memory */
};

/* What a device with memory of its own offers to other processes and to the network. Floats are on
 * the device but where they are called host. All is done on return, but where it says otherwise. */
enum { PEER_HANDLE_BYTES = 128, NCCL_ID_BYTES = 128 };
struct peer_ops {
	float *(*pinned_new)(struct device *d, size_t n); /* host memory that copies are fast to */
	void (*pinned_free)(struct device *d, float *host);
	/* get, beside what is under way: waits for nothing but this copy. x must be final. */
	void (*fetch)(struct device *d, float *host, const float *x, size_t n);
	/* Zeroed floats that other processes of this machine map by the handle. */
	float *(*shared_new)(struct device *d, size_t n, unsigned char handle[PEER_HANDLE_BYTES]);
	void (*shared_free)(struct device *d, float *p);
	/* NULL: this device cannot map them. */
	float *(*shared_map)(struct device *d, const unsigned char handle[PEER_HANDLE_BYTES]);
	void (*shared_unmap)(struct device *d, float *p);
	/* y = a (x[0] + ... + x[k - 1]), added in this order; y may be one of x. Not waited for. */
	void (*sum)(struct device *d, float *y, const float *const *x, int k, float a, size_t n);
	/* table_apply (table.h) on device floats. */
	void (*apply)(struct device *d, const struct table_rules *r, const struct table_op *p,
		      float *w, float *state, float *own, float *pulled, const float *in,
		      float *out, size_t n);
	/* NCCL, one device a rank. Rank 0 makes the id. A sentence (heap) where it cannot be had.
	 */
	char *(*nccl_id)(struct device *d, unsigned char id[NCCL_ID_BYTES]);
	char *(*nccl_new)(struct device *d, void **nccl, const unsigned char id[NCCL_ID_BYTES],
			  int rank, int size);
	void (*nccl_free)(struct device *d, void *nccl);
	void (*nccl_allreduce)(struct device *d, void *nccl, float *x, size_t n); /* sum */
};

/* Of a convolution, a pooling or a batch normalisation. */
struct shape {
	struct image in, out;
	struct window window; /* norm: none */
	bool bias, relu;      /* conv; relu: norm too */
	bool average;         /* pool */
	bool adds;            /* norm */
	size_t rows_max;
};

struct device {
	const struct device_ops *ops;
	struct tally tally;
	float lr;               /* of the step, and */
	uint64_t key;           /* what its random numbers are drawn from */
	const char *precision;  /* of matrix work: "float32", "tf32", "bf16" */
	int number;             /* of several of its kind on this machine */
	uint64_t identity;      /* of the one that was opened, unlike any other's */
	size_t bytes;           /* that alloc has given out, */
	size_t workspace_bytes; /* and that libraries took */
	int convs;              /* that were prepared on it */
	bool in_graph;          /* inside a body that is kept */
	void *at;               /* the device's own */
};

/* Until all that was asked of it is done; d may be NULL. */
static inline void device_sync(struct device *d)
{
	if (d && d->ops->sync)
		d->ops->sync(d);
}

extern const struct device_ops device_cpu;
/* From here on, this thread takes denormal numbers as zeros. Trainers and servers do. */
void cpu_flush_denormals(void);
extern const struct device_ops device_cuda;
extern const struct device_ops device_none;      /* lengths only: computes and holds nothing */
extern const struct device_ops *const devices[]; /* what --device can name; ends at NULL */

struct vec {
	float *data; /* on the device; NULL on device_none */
	size_t n;
	struct device *dev;
	bool view; /* owns no floats */
};

static inline float *vec_floats(const struct vec *v, size_t first)
{
	return v->data ? v->data + first : link_nowhere();
}

void tally_take(struct worker *w, struct tally *out);

#endif
