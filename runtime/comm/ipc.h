/*
 * ipc.h - reductions through GPU memory that the ranks of one machine map: the interface that
 * transport.c uses.
 */
#ifndef IPC_H
#define IPC_H

#include "runtime/device/device.h"

struct ipc;

/* All functions except start and wait are collective. open returns a message if this rank cannot
 * map the others' memory; ipc_close is needed then too. n: room for reductions [floats]. */
char *ipc_open(struct ipc **out, struct link *l, struct device *d, int rank, int size, size_t n);
void ipc_close(struct ipc *s); /* NULL is fine */
void ipc_grow(struct ipc *s, size_t n);
/* x = factor times the sum over the ranks, in rank order. x must be final; complete on return. */
void ipc_allreduce(struct ipc *s, float *x, size_t n, float factor);
/* Sums while the device computes. All ranks start in the same order; they may wait in any order. */
void ipc_start(struct ipc *s, int slot, float *x, size_t n);
void ipc_wait(struct ipc *s, int slot);

#endif
