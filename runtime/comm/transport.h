/*
 * transport.h - how the vectors of a device reach other ranks: what comm.c, transport.c and ipc.c
 * share. Floats are on the device unless stated otherwise.
 */
#ifndef TRANSPORT_H
#define TRANSPORT_H

#include "runtime/comm/comm.h"

struct transport;

/* How a transport reduces. */
struct transport_ops {
	const char *name;
	/* Collective: n: room for reductions [floats]. NULL, or why this rank cannot use it. */
	char *(*open)(struct transport *t, size_t n);
	/* Collective: undoes open, also after a failed open. NULL = nothing to undo. */
	void (*close)(struct transport *t);
	/* Collective: makes room for reductions of n floats. NULL = no room needed. */
	void (*grow)(struct transport *t, size_t n);
	/* Collective: x = factor times the sum over the ranks. It waits for the computation of x,
	 * and the device's next operation sees the sum. */
	void (*allreduce)(struct transport *t, float *x, size_t n, float factor);
	/* On the second stream: starts a sum. Does not wait for the device: x must be final. Waits
	 * may come in another order than starts, which all ranks make in the same order. */
	void (*start)(struct transport *t, int slot, float *x, size_t n);
	void (*wait)(struct transport *t, int slot);
	bool direct; /* MPI sends messages directly from the device's memory */
};
#define TRANSPORT_DECLARED(name) extern const struct transport_ops transport_##name;
TRANSPORT_LIST(TRANSPORT_DECLARED)

/* A pending staged reduction. */
struct pending_reduce {
	float *x;
	size_t n;
	float *host; /* its floats, in the transport's pinned memory, or in own */
	float *own;  /* [own_n] its own pinned memory, if the transport's had no room */
	size_t own_n;
};

struct transport {
	const struct transport_ops *ops; /* NULL: not chosen */
	struct link *link;
	int rank, size; /* of the link */
	struct device *dev;
	float *stage; /* pinned [stage_n]: for messages and blocking reductions */
	size_t stage_n;
	struct ipc *ipc;
	void *nccl;
	bool should_work; /* each worker has a GPU of its own, as NCCL needs */
	struct pending_reduce pending[LINK_SLOTS];
	float *pinned; /* [pinned_n]; pending reductions use pinned_used of it */
	size_t pinned_n, pinned_used;
	int under_way;
};

static inline const struct peer_ops *peer_of(const struct transport *t)
{
	return t->dev->ops->peer;
}

/* For the ranks of l and vectors of d. Messages work at once; reductions need transport_choose. */
struct transport *transport_new(struct link *l, struct device *d);
void transport_free(struct transport *t); /* collective after transport_choose; NULL is fine */
/* Collective: opens the transport `wanted` ("auto": the first that works) for reductions of
 * up to n floats, the largest n of all ranks. NULL, or a message, the same on all ranks. A second
 * choice only makes room for more floats. */
char *transport_choose(struct transport *t, const char *wanted, size_t n);
/* The same on all ranks. Sums and means use the chosen transport, other reductions MPI. */
void transport_allreduce(struct transport *t, float *x, size_t n, enum reduce how);

/* Messages: where the link reads and writes the floats x. That is x itself if t is NULL (x is in
 * the host's memory) or MPI takes addresses of device memory; otherwise it is pinned memory. The
 * device is idle. */
/* Where the link writes x. room [floats]: at least x's, and those of an output after it. */
float *transport_in(struct transport *t, float *x, size_t room);
/* Where the link reads x[n]: in pinned memory after the first `after` floats. */
const float *transport_out(struct transport *t, const float *x, size_t n, size_t after);
/* The link has written x[n]. */
void transport_arrived(struct transport *t, float *x, size_t n);

#endif
