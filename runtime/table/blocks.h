/*
 * blocks.h - a table's floats in memory that all workers reach, cut into blocks with a lock each.
 */
#ifndef BLOCKS_H
#define BLOCKS_H

#include "runtime/table/table.h"

#include <pthread.h>

/* One a line of the cache, so that neighbours do not disturb each other. */
struct lock {
	_Alignas(64) pthread_mutex_t mutex;
};

/* A table's t->at begins with it. */
struct blocks {
	struct device *dev; /* whose memory the floats lie in; NULL = the host's */
	void *control, *handle;
	struct lock *lock;   /* [count] */
	int64_t *made;       /* [count] with rounds: the round that this block's new copy is of */
	float *w[2];         /* shared [n]; the second with rounds only */
	float *state, *more; /* shared [n], NULL when the updater keeps none */
	size_t length, count;
	size_t *later; /* [count] */
	nsec look;     /* for a lock, before sleeping */
};

/* Collective: can all workers, which share a machine, reach the memory of rank 0's device? */
bool blocks_map(struct tables *s);
/* Collective. Returns `bytes` of memory that workers share, zeroed; a barrier is still to come. */
void *blocks_open(struct table *t, const float *init, size_t bytes);
void blocks_close(struct table *t); /* collective; waits for all */
void block_lock(struct table *t, size_t i);
void block_unlock(struct table *t, size_t i);
/* The operation on the floats of block i, whose lock is held. */
void block_apply(struct table *t, const struct table_op *p, size_t i);
/* The operation on all of its floats. */
void blocks_apply(struct table *t, const struct table_op *p);
/* x[n] = the updater's state or more, or the other way round; nobody pushes meanwhile. */
void blocks_keep(struct table *t, enum kept what, float *x, bool put);
/* Blocks that nobody pushed to in this round go over to the next as they are. */
void blocks_carry_over(struct table *t, int64_t round);

#endif
