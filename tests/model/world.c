/*
 * world.c - what the real code of a model calls: locks, monitors, barriers and messages of workers
 * that the explorer runs, vectors of floats, and a clock that always shows 0.
 */
#include "runtime/config/schedule.h"
#include "runtime/table/coded.h"
#include "runtime/train/trainer.h"
#include "tests/model/explore.h"
#include "tests/model/seams.h"
#undef memcpy
#undef memset
#undef free

#include <stdarg.h>
#include <stdio.h>

/* ---- Memory ---- */

void model_touch(const void *p, size_t bytes, bool writes); /* explore.c */

void *model_malloc(size_t bytes)
{
	return own_alloc(bytes);
}

void *model_calloc(size_t n, size_t bytes)
{
	return own_alloc(n * bytes);
}

void model_free(void *p)
{
	(void)p;
}

void *model_memcpy(void *to, const void *from, size_t n)
{
	model_touch(from, n, false);
	model_touch(to, n, true);
	return memcpy(to, from, n);
}

void *model_memset(void *to, int byte, size_t n)
{
	model_touch(to, n, true);
	return memset(to, byte, n);
}

void *must(void *p)
{
	return p;
}

/* ---- Locks and monitors: like those of pthreads, not robust ---- */

static struct owner *of(pthread_mutex_t *m)
{
	return (struct owner *)(void *)m;
}

int model_mutex_init(pthread_mutex_t *m, const pthread_mutexattr_t *a)
{
	(void)a;
	of(m)->who = 0;
	return 0;
}

int model_mutex_trylock(pthread_mutex_t *m)
{
	stop_before(FREE, "polls lock", m, NULL);
	if (of(m)->who)
		return 1;
	of(m)->who = me() + 1;
	return 0;
}

int model_mutex_lock(pthread_mutex_t *m)
{
	if (of(m)->who == me() + 1)
		wrong("worker %d takes a lock that it already holds", me());
	stop_before(LOCK, "takes lock", m, NULL);
	of(m)->who = me() + 1;
	return 0;
}

/* A separate step: a worker that polls the lock finds it taken before, and free after. */
int model_mutex_unlock(pthread_mutex_t *m)
{
	if (is_fine())
		stop_before(FREE, "unlocks", m, NULL);
	if (of(m)->who != me() + 1)
		wrong("worker %d unlocks a lock of worker %d", me(), of(m)->who - 1);
	release(of(m));
	return 0;
}

struct model_monitor {
	struct owner owner;
	int64_t awake[WORKERS];
};

static struct model_monitor *in(struct monitor *m)
{
	return (struct model_monitor *)(void *)m->at;
}

void monitor_init(struct monitor *m)
{
	_Static_assert(sizeof(struct model_monitor) <= sizeof *m, "a monitor is too small");
	*in(m) = (struct model_monitor){.owner.who = 0};
}

void monitor_lock(struct monitor *m)
{
	stop_before(LOCK, "enters monitor", m, NULL);
	in(m)->owner.who = me() + 1;
}

void monitor_unlock(struct monitor *m)
{
	if (in(m)->owner.who != me() + 1)
		wrong("worker %d leaves a monitor that it is not in", me());
	release(&in(m)->owner);
}

void monitor_wait(struct monitor *m, nsec most)
{
	(void)most;
	int64_t *awake = &in(m)->awake[me()];
	*awake = 0;
	monitor_unlock(m);
	stop_before(WAKEUP, "wakes up in monitor", m, awake);
	in(m)->owner.who = me() + 1;
}

void monitor_broadcast(struct monitor *m)
{
	if (in(m)->owner.who != me() + 1)
		wrong("worker %d wakes others from outside the monitor", me());
	for (int k = 0; k < WORKERS; k++)
		in(m)->awake[k] = 1;
}

/* ---- Links: all data are in shared memory, between two barriers ---- */

static void *shared; /* the last allocation: the same on all, because they allocate together */

bool link_one_node(struct link *l)
{
	(void)l;
	return true;
}

void link_barrier(struct link *l)
{
	(void)l;
	pass_barrier("reaches the barrier");
}

static void *shared_by_all(size_t bytes)
{
	if (me() == 0)
		shared = shared_alloc(bytes);
	pass_barrier("makes memory");
	void *p = shared;
	pass_barrier("has it");
	return p;
}

void *link_shared_new(struct link *l, size_t bytes, void **handle)
{
	(void)l;
	*handle = NULL;
	return shared_by_all(bytes);
}

void link_shared_free(void *p, void *handle)
{
	(void)p, (void)handle;
}

void link_broadcast(struct link *l, int root, void *p, size_t bytes)
{
	static const void *sent;
	(void)l;
	if (me() == root)
		sent = p;
	pass_barrier("sends");
	if (me() != root)
		memcpy(p, sent, bytes);
	pass_barrier("has it");
}

bool link_progress_sums(void)
{
	return false;
}

void link_allreduce(struct link *l, float *p, size_t n, enum reduce how)
{
	(void)l, (void)p, (void)n, (void)how;
	wrong("nothing is summed here");
}

void link_reduce_all(struct link *l, void *p, int n, enum link_reduce how)
{
	(void)l, (void)p, (void)n, (void)how;
	wrong("nothing is summed here");
}

void comm_barrier(struct comm *c)
{
	(void)c;
	pass_barrier("reaches the barrier");
}

int comm_size(const struct comm *c)
{
	return c ? WORKERS : 1;
}

void comm_allreduce(struct comm *c, struct vec *v, enum reduce how)
{
	(void)c, (void)v, (void)how;
	wrong("nothing is summed here");
}

/* ---- Vectors ---- */

struct vec *vec_new(struct worker *w, size_t n)
{
	struct vec *v = own_alloc(sizeof *v);
	*v = (struct vec){.data = own_alloc(n * sizeof(float)), .n = n, .dev = w->loop->dev};
	return v;
}

void vec_free(struct vec *v)
{
	(void)v;
}

size_t vec_len(const struct vec *v)
{
	return v->n;
}

bool vec_has_data(const struct vec *v)
{
	return v->data != NULL;
}

void vec_get(const struct vec *v, float *out)
{
	memcpy(out, v->data, v->n * sizeof *out);
}

void vec_put(struct vec *y, const float *host)
{
	memcpy(y->data, host, y->n * sizeof *host);
}

void vec_copy(struct vec *y, const struct vec *v)
{
	memcpy(y->data, v->data, v->n * sizeof *v->data);
}

void vec_fill(struct vec *y, float a)
{
	for (size_t i = 0; i < y->n; i++)
		y->data[i] = a;
}

void vec_axpy(struct vec *y, float a, const struct vec *v)
{
	for (size_t i = 0; i < y->n; i++)
		y->data[i] += a * v->data[i];
}

void vec_sgd(struct vec *param, struct vec *v, const struct vec *g, float lr, float m, float decay,
	     float scale)
{
	(void)v, (void)m, (void)decay;
	vec_axpy(param, -lr * scale, g);
}

void local_step(struct worker *w, double scale)
{
	vec_axpy(w->param, -(float)(w->lr * scale), w->grad);
}

/* As asgd: no worker waits for another. */
const char *config_why_static(const struct config *c)
{
	(void)c;
	return NULL;
}

double worker_share(const struct worker *w)
{
	(void)w;
	return 1;
}

double worker_speed(struct worker *w)
{
	(void)w;
	return 1;
}

void local_gradient(struct worker *w)
{
	(void)w;
}

void local_begin(struct worker *w)
{
	(void)w;
}

void local_forget(struct worker *w)
{
	(void)w;
}

void local_met(struct worker *w)
{
	(void)w;
}

/* No checkpoints are made. */
void worker_keep(struct worker *w, void *state, size_t bytes)
{
	(void)w, (void)state, (void)bytes;
}

void worker_keep_vec(struct worker *w, struct vec *v)
{
	(void)w, (void)v;
}

/* ---- Errors that the explored code reports ---- */

static char said[512];

char *sentence(const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	vsnprintf(said, sizeof said, fmt, args);
	va_end(args);
	return said;
}

void panic(const char *file, int line, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	vsnprintf(said, sizeof said, fmt, args);
	va_end(args);
	wrong("%s:%d: %s", file, line, said);
}

void failure(const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	vsnprintf(said, sizeof said, fmt, args);
	va_end(args);
	wrong("%s", said);
}

void user_error(const char *fmt, ...)
{
	failure("%s", fmt);
}

/* ---- What is not modelled: time, figures, learning rates, other placements ---- */

const bool world_is_virtual = false;
const struct placement placement_onesided = {.name = "onesided", .on_servers = true};
const struct placement placement_servers = {.name = "servers", .on_servers = true};

nsec clock_now(void)
{
	return 0;
}

nsec clock_peek(void)
{
	return 0;
}

int usable_cores(void)
{
	return 1;
}

struct usage usage_now(void)
{
	return (struct usage){.preemptions = -1};
}

void tally_take(struct worker *w, struct tally *out)
{
	(void)w;
	*out = (struct tally){0};
}

bool ema_is_due(const struct trainer *r)
{
	(void)r;
	return false;
}

void ema_step(struct trainer *r)
{
	(void)r;
}

const struct vec *ema_model(const struct trainer *r)
{
	(void)r;
	return NULL;
}

void lr_fill(const struct run *run, int models, int64_t epoch, float *lr, size_t steps)
{
	(void)run, (void)models, (void)epoch;
	for (size_t i = 0; i < steps; i++)
		lr[i] = 1;
}

float *link_nowhere(void)
{
	wrong("vectors without floats are not modelled");
}

struct slice *trace_add(struct trace *t, enum trace_kind kind, nsec since, nsec until)
{
	(void)t, (void)kind, (void)since, (void)until;
	wrong("timelines are not modelled");
}

struct shards *data_shards(const struct data *d, const struct run *r, const size_t *rows, size_t n)
{
	(void)d, (void)r, (void)rows, (void)n;
	wrong("shards are not modelled");
}

/* No codec is modelled: pushes are floats. */
struct pushes *pushes_new(const struct worker *w, size_t n, bool lengths)
{
	(void)w, (void)n, (void)lengths;
	return NULL;
}

int64_t pushes_bytes(const struct pushes *k, enum table_way way)
{
	(void)k, (void)way;
	wrong("coded pushes are not modelled");
	return 0;
}

float *pushes_room(struct pushes *k)
{
	(void)k;
	wrong("coded pushes are not modelled");
	return NULL;
}

void pushes_differ(struct pushes *k, const float *param, float alpha)
{
	(void)k, (void)param, (void)alpha;
	wrong("coded pushes are not modelled");
}

void pushes_moved(struct pushes *k, float *param)
{
	(void)k, (void)param;
	wrong("coded pushes are not modelled");
}

bool pushes_pull(const struct table *t, const struct table_op *p)
{
	(void)t, (void)p;
	return false;
}

size_t pushes_keep(struct pushes *k, float *x, bool put)
{
	(void)k, (void)x, (void)put;
	return 0;
}

/* Further figures would make additional states. */
void stats_push(struct stats *s, int64_t staleness)
{
	(void)staleness;
	s->pushes++;
}

#define NOTHING(name, ...) \
	void name(__VA_ARGS__) \
	{ \
	}
#pragma GCC diagnostic ignored "-Wunused-parameter"
NOTHING(clock_delay, nsec dt)
NOTHING(world_enter, const char *what, int peer)
NOTHING(world_wait, const char *what, nsec expected)
NOTHING(world_leave, void)
NOTHING(servers_dismiss, struct link *everyone, int workers)
NOTHING(world_charge_op, struct table_work work, size_t n, bool on_worker)
NOTHING(pulse_step, void)
NOTHING(pushes_free, struct pushes *k)
NOTHING(pushes_encode, struct pushes *k, struct table_op *p)
NOTHING(pushes_recode, struct pushes *k, float *out)
NOTHING(promise_gradient, struct worker *w)
NOTHING(promise_step, struct worker *w)
NOTHING(promise_layer, struct worker *w, size_t i)
NOTHING(trace_at, struct trace *t, int64_t epoch, int64_t step)
NOTHING(shards_count, const struct shards *s, const struct data *train, int64_t *rows)
NOTHING(stats_reset, struct stats *s)
NOTHING(stats_step, struct stats *s, int64_t sent_before)
