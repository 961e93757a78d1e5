/*
 * blocks.h - a table's floats in memory that all workers reach, cut into blocks with a lock each.
 */
#ifndef BLOCKS_H
#define BLOCKS_H

#include "runtime/table/table.h"

#include <pthread.h>

/* Each lock has a cache line of its own; neighbours do not disturb each other. */
struct lock {
	_Alignas(64) pthread_mutex_t mutex;
};

/* The placement's state at t->at begins with this. */
struct blocks {
	struct device *dev; /* device whose memory holds the floats; NULL = the host */
	void *control, *handle;
	struct lock *lock;   /* [count] */
	int64_t *made;       /* [count] with rounds: the round of this block's new copy */
	bool *touched;       /* [rows] rows that the round's merged pushes name; NULL: no merging */
	float *w[2];         /* shared [n]; the second with rounds only */
	float *state, *more; /* shared [n], NULL when the updater keeps none */
	size_t length, count;
	size_t *later; /* [count] */
	nsec look;     /* how long to poll a lock before sleeping */
};

/* Collective, workers on one machine: can all of them reach the memory of rank 0's device? */
bool blocks_map(struct tables *s);
/* Collective. Returns `bytes` of zeroed memory that workers share; the caller still has to call a
 * barrier. */
void *blocks_open(struct table *t, const float *init, size_t bytes);
void blocks_close(struct table *t); /* collective; waits for all */
void block_lock(struct table *t, size_t i);
void block_unlock(struct table *t, size_t i);
/* Does the operation on the floats of block i, whose lock is held. */
void block_apply(struct table *t, const struct table_op *p, size_t i);
/* Does the operation on all of its floats. */
void blocks_apply(struct table *t, const struct table_op *p);
/* Ends a round: completes the next round's W. m: the round's pushes, if the table merges them;
 * number: of their push, from 1. */
void blocks_end_round(struct table *t, int64_t round, const struct merged *m, int64_t number);

#endif
