/*
 * transport.h - how the vectors of a device reach other ranks: comm.c's side of transport.c.
 *
 * Floats are on the device. Unless it is said otherwise, a call that reads floats waits for what
 * computes them, and what it writes is there for whatever the device is told to do next.
 */
#ifndef TRANSPORT_H
#define TRANSPORT_H

#include "runtime/device/device.h"

struct transport;

/* For the ranks of l, and vectors of d. Messages can be sent at once; reductions want a choice. */
struct transport *transport_new(struct link *l, int rank, int size, struct device *d);
void transport_free(struct transport *t); /* collective where one was chosen; NULL is fine */
bool transport_is_for(const struct transport *t, const struct device *d);
/* Collective: opens the one that is wanted (NULL, "auto": the first that can be had), ready for
 * reductions of the most floats that a rank names. NULL, or a sentence, which is the same on all
 * ranks. Choosing again only makes room for more floats. */
char *transport_choose(struct transport *t, const char *wanted, size_t n);
const char *transport_name(const struct transport *t);     /* NULL: not chosen */
const char *transport_messages(const struct transport *t); /* that all but reductions go by */
/* The same on all ranks. Sums and means go as was chosen, the others by MPI. */
void transport_allreduce(struct transport *t, float *x, size_t n, enum reduce how);
/* Waits for nothing that the device does: x must be final. Sums. */
void transport_start(struct transport *t, int slot, float *x, size_t n);
void transport_wait(struct transport *t, int slot);
void transport_send(struct transport *t, int to, const float *x, size_t n);
void transport_recv(struct transport *t, int from, float *x, size_t n);
void transport_exchange(struct transport *t, int peer, const float *out, float *in, size_t n);
void transport_allgather(struct transport *t, float *all, const int *counts, const int *firsts,
			 const float *mine, int n);
void transport_broadcast(struct transport *t, int root, float *x, size_t n);

#endif
