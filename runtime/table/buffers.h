/*
 * buffers.h - buffers of a server, which are made when tables are opened, and taken and given back
 * while they are served.
 */
#ifndef BUFFERS_H
#define BUFFERS_H

#include "runtime/table/table.h"

/* Floats that come or go. users: jobs, and the shard whose model it is. */
struct buffer {
	struct buffer *next; /* of the spare ones */
	size_t room;
	int users;
	float *x;
};

struct buffers {
	struct buffer *spare;
	bool lengths; /* there are no floats */
};

struct buffer *buffer_take(struct buffers *p, size_t n);
/* One user less; the last one gives it back. */
void buffer_drop(struct buffers *p, struct buffer **b);
/* So many spare ones of n floats and more. */
void buffers_fill(struct buffers *p, size_t n, int wanted);
void buffers_free(struct buffers *p);

#endif
