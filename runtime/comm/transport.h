/*
 * transport.h - how the vectors of a device reach other ranks: the interface that comm.c uses.
 *
 * Floats are on the device. Unless stated otherwise, a call waits for the computation of its input,
 * and the device's next operation sees its output.
 */
#ifndef TRANSPORT_H
#define TRANSPORT_H

#include "runtime/device/device.h"

struct transport;

/* For the ranks of l and vectors of d. Messages work at once; reductions need transport_choose. */
struct transport *transport_new(struct link *l, int rank, int size, struct device *d);
void transport_free(struct transport *t); /* collective after transport_choose; NULL is fine */
bool transport_is_for(const struct transport *t, const struct device *d);
/* Collective: opens the transport `wanted` (NULL, "auto": the first that works) for reductions of
 * up to n floats, the largest n of all ranks. NULL, or a message, the same on all ranks. A second
 * choice only makes room for more floats. */
char *transport_choose(struct transport *t, const char *wanted, size_t n);
const char *transport_name(const struct transport *t);     /* NULL: not chosen */
const char *transport_messages(const struct transport *t); /* for all except reductions */
/* The same on all ranks. Sums and means use the chosen transport, other reductions MPI. */
void transport_allreduce(struct transport *t, float *x, size_t n, enum reduce how);
/* Starts a sum. Does not wait for the device: x must be final. */
void transport_start(struct transport *t, int slot, float *x, size_t n);
void transport_wait(struct transport *t, int slot);
void transport_send(struct transport *t, int to, const float *x, size_t n);
void transport_recv(struct transport *t, int from, float *x, size_t n);
void transport_exchange(struct transport *t, int peer, const float *out, float *in, size_t n);
void transport_allgather(struct transport *t, float *all, const int *counts, const int *firsts,
			 const float *mine, int n);
void transport_broadcast(struct transport *t, int root, float *x, size_t n);

#endif
