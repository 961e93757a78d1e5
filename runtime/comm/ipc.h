/*
 * ipc.h - reductions through GPU memory that the ranks of one machine map: transport.c's side of
 * ipc.c.
 */
#ifndef IPC_H
#define IPC_H

#include "runtime/device/device.h"

struct ipc;

/* All are collective but start and wait. A sentence where this rank cannot map all others' memory;
 * what was made till then is to be freed all the same. n: room for reductions [floats]. */
char *ipc_open(struct ipc **out, struct link *l, struct device *d, int rank, int size, size_t n);
void ipc_close(struct ipc *s); /* NULL is fine */
void ipc_grow(struct ipc *s, size_t n);
/* x = factor times the sum over the ranks, added in their order. x must be final; done on return.
 */
void ipc_allreduce(struct ipc *s, float *x, size_t n, float factor);
/* Sums, beside what the device does. All ranks start in the same order, but need not wait in it. */
void ipc_start(struct ipc *s, int slot, float *x, size_t n);
void ipc_wait(struct ipc *s, int slot);

#endif
