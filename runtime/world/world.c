/*
 * world.c - the real platform: the monotonic clock, sleep, and monitors where workers wait for each
 * other. The functions that charge virtual time in sim/world/world.c do nothing here.
 */

#include "runtime/world/world.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
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

void world_charge_op(struct table_work work, size_t n, bool shared)
{
	(void)work, (void)n, (void)shared;
}

void world_charge_sum(size_t n, int ranks)
{
	(void)n, (void)ranks;
}

void world_charge(double floats)
{
	(void)floats;
}

void world_charge_code(const void *which, double passes, size_t n, bool decodes)
{
	(void)which, (void)passes, (void)n, (void)decodes;
}

/* ---- Monitors ---- */

struct pthread_monitor {
	pthread_mutex_t mutex;
	pthread_cond_t cond;
};
_Static_assert(sizeof(struct pthread_monitor) <= sizeof(struct monitor), "a monitor is too small");

static struct pthread_monitor *in(struct monitor *m)
{
	return (struct pthread_monitor *)(void *)m->at;
}

void monitor_init(struct monitor *m)
{
	pthread_mutexattr_t mutex;
	pthread_condattr_t cond;
	pthread_mutexattr_init(&mutex);
	pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
	pthread_condattr_init(&cond);
	pthread_condattr_setpshared(&cond, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(&in(m)->mutex, &mutex);
	pthread_cond_init(&in(m)->cond, &cond);
	pthread_mutexattr_destroy(&mutex);
	pthread_condattr_destroy(&cond);
}

void monitor_lock(struct monitor *m)
{
	pthread_mutex_lock(&in(m)->mutex);
}

void monitor_unlock(struct monitor *m)
{
	pthread_mutex_unlock(&in(m)->mutex);
}

void monitor_wait(struct monitor *m, nsec most)
{
	nsec end = most ? clock_now() + most : 0;
	struct timespec until = {.tv_sec = end / 1000000000, .tv_nsec = end % 1000000000};
	if (most)
		pthread_cond_clockwait(&in(m)->cond, &in(m)->mutex, CLOCK_MONOTONIC, &until);
	else
		pthread_cond_wait(&in(m)->cond, &in(m)->mutex);
}

void monitor_broadcast(struct monitor *m)
{
	pthread_cond_broadcast(&in(m)->cond);
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

void world_describe(FILE *f)
{
	(void)f;
}

int world_place(void)
{
	return -1;
}

uint64_t world_node(void)
{
	return 0;
}

void world_device(struct worker *w)
{
	(void)w;
}

/* ---- The pulse, which the watcher reads ---- */

void world_enter(const char *what, int peer)
{
	struct pulse *pulse = pulse_mine();
	const size_t length = strnlen(what, sizeof pulse->doing - 1);
	PULSE_PUT(pulse->events, pulse->events + !pulse->doing[0]);
	for (size_t n = 0; n < length; n++)
		PULSE_PUT(pulse->doing[n], what[n]);
	PULSE_PUT(pulse->doing[length], '\0');
	PULSE_PUT(pulse->peer, peer);
}

void world_wait(const char *what, nsec expected)
{
	PULSE_PUT(pulse_mine()->expected, expected);
	world_enter(what, WAITS_LEGITIMATELY);
}

void world_leave(void)
{
	struct pulse *pulse = pulse_mine();
	PULSE_PUT(pulse->doing[0], '\0');
	PULSE_PUT(pulse->events, pulse->events + 1);
}

void world_rest(const char *what, nsec dt)
{
	world_enter(what, -1);
	clock_delay(dt);
}

struct world_cost world_cost(void)
{
	return (struct world_cost){.simulated_s = NAN, .wall_s = NAN, .events = -1};
}

/* ---- For simulated workers only ---- */

void world_reach(int first, int end)
{
	(void)first, (void)end;
}

float *link_nowhere(void)
{
	panic(__FILE__, __LINE__, "lengths without floats in the real world");
}

void world_off_clock(bool off)
{
	(void)off;
}

bool world_is_off_clock(void)
{
	return false;
}

const struct world_sums *const world_sums = NULL;
