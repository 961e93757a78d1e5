/*
 * seams.h - what the real code of a model calls instead of the C library; included before all other
 * code (-include). A worker stops before it takes a lock, and memory is the explorer's. The calls
 * that the compiler adds report atomic operations and each access to memory.
 */
#ifndef SEAMS_H
#define SEAMS_H

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

int model_mutex_init(pthread_mutex_t *m, const pthread_mutexattr_t *a);
int model_mutex_lock(pthread_mutex_t *m);
int model_mutex_trylock(pthread_mutex_t *m);
int model_mutex_unlock(pthread_mutex_t *m);
void *model_malloc(size_t bytes);
void *model_calloc(size_t n, size_t bytes);
void model_free(void *p);
void *model_memcpy(void *to, const void *from, size_t n);
void *model_memset(void *to, int byte, size_t n);

#define pthread_mutex_init    model_mutex_init
#define pthread_mutex_lock    model_mutex_lock
#define pthread_mutex_trylock model_mutex_trylock
#define pthread_mutex_unlock  model_mutex_unlock
#define malloc                model_malloc
#define calloc                model_calloc
#define free                  model_free
#define memcpy                model_memcpy
#define memset                model_memset

/* Which workers are too slow for the rest of an epoch (deal.c). */
struct trainer;
int model_slow(const struct trainer *r);
#define IS_SLOW(r, taken, most) ((void)(taken), (void)(most), model_slow(r))

/* Few floats under one lock: a table then has several locks (blocks.c). */
#define BLOCK_FLOATS 2

#endif
