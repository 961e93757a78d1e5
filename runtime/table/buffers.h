/*
 * buffers.h - buffers of a server. They are made when tables are opened, and taken and given back
 * while the server runs.
 */
#ifndef BUFFERS_H
#define BUFFERS_H

#include "runtime/table/table.h"

/* Floats that a server receives or sends. users: the transactions and the shard that use it. */
struct buffer {
	struct buffers *from;
	struct buffer *next; /* next in the list of spare buffers */
	size_t room;
	int users;
	float *x;
};

struct buffers {
	struct buffer *spare;
	bool lengths; /* there are no floats */
};

struct buffer *buffer_take(struct buffers *p, size_t n);
/* Removes one user; the last one gives the buffer back. */
void buffer_drop(struct buffer **b);
/* Ensures `wanted` spare buffers of at least n floats. */
void buffers_fill(struct buffers *p, size_t n, int wanted);
void buffers_free(struct buffers *p);

#endif
