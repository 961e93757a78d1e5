/*
 * world.c - the real world: the monotonic clock, sleep, and gates where workers wait for each
 * other. What its counterpart sim/world.c has to charge for takes its time here by itself.
 */

#include "runtime/base/base.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

const bool world_is_virtual = false;

/* ---- Time ---- */

nsec clock_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (nsec)t.tv_sec * 1000000000 + t.tv_nsec;
}

nsec clock_peek(void)
{
	return clock_now();
}

void clock_delay(nsec dt)
{
	struct timespec t = {.tv_sec = dt / 1000000000, .tv_nsec = dt % 1000000000};
	if (dt <= 0)
		return;
	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &t, &t) == EINTR)
		;
}

void world_charge_pass(const struct pass *p, size_t n, bool shared)
{
	(void)p, (void)n, (void)shared;
}

void world_charge_sum(size_t n, int ranks)
{
	(void)n, (void)ranks;
}

/* ---- Gates ---- */

struct pthread_gate {
	pthread_mutex_t mutex;
	pthread_cond_t turn;
};
_Static_assert(sizeof(struct pthread_gate) <= sizeof(struct gate), "a gate is too small");

static struct pthread_gate *in(struct gate *g)
{
	return (struct pthread_gate *)(void *)g->at;
}

void gate_init(struct gate *g)
{
	pthread_mutexattr_t mutex;
	pthread_condattr_t cond;
	pthread_mutexattr_init(&mutex);
	pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
	pthread_condattr_init(&cond);
	pthread_condattr_setpshared(&cond, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(&in(g)->mutex, &mutex);
	pthread_cond_init(&in(g)->turn, &cond);
	pthread_mutexattr_destroy(&mutex);
	pthread_condattr_destroy(&cond);
}

void gate_enter(struct gate *g)
{
	pthread_mutex_lock(&in(g)->mutex);
}

void gate_leave(struct gate *g)
{
	pthread_mutex_unlock(&in(g)->mutex);
}

void gate_wait(struct gate *g)
{
	pthread_cond_wait(&in(g)->turn, &in(g)->mutex);
}

void gate_call(struct gate *g)
{
	pthread_cond_broadcast(&in(g)->turn);
}

/* ---- Workers ---- */

int world_run(const struct config *c, const struct plan *p, int (*life)(void *ctx), void *ctx)
{
	(void)c, (void)p;
	return life(ctx);
}

void world_exit(int status)
{
	exit(status);
}

uint64_t world_node(void)
{
	return 0;
}

void world_device(struct worker *w)
{
	(void)w;
}

void world_enter(const char *what, int peer)
{
	(void)what, (void)peer;
}

void world_rest(const char *what, nsec dt)
{
	(void)what;
	clock_delay(dt);
}

bool world_cost(struct world_cost *out)
{
	(void)out;
	return false;
}

/* ---- What only simulated workers need ---- */

float *link_nowhere(void)
{
	panic(__FILE__, __LINE__, "lengths without floats in the real world");
}

struct meeting *world_meeting_new(int ranks)
{
	panic(__FILE__, __LINE__, "a meeting of %d in the real world", ranks);
}

void world_meeting_free(struct meeting *m)
{
	(void)m;
}

void world_allreduce_start(struct link *l, struct meeting *m, int slot, float *x, size_t n)
{
	(void)l, (void)m, (void)slot, (void)x, (void)n;
	panic(__FILE__, __LINE__, "a simulated allreduce in the real world");
}

void world_allreduce(struct link *l, struct meeting *m, float *x, size_t n)
{
	(void)l, (void)m, (void)x, (void)n;
	panic(__FILE__, __LINE__, "a simulated allreduce in the real world");
}
