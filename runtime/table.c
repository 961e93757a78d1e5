/*
 * table.c - parameters on a parameter server: an array of P floats, cut into one shard a worker.
 *
 *   W += scale (param - pulled);  param = pulled = W
 *
 * The shards lie in memory that the workers of a node share. A push and a pull are one pass over
 * the floats, block by block, each block under its own lock, and each worker begins at its own
 * shard: workers meet only where they overtake each other. A lock that is held puts the waiter to
 * sleep; nobody spins. Cost of a sync: four reads and three writes a float, 2 (P - own shard)
 * floats moved between workers.
 *
 * Versions: a push takes its number as it begins. Its staleness is how many other pushes began
 * between this worker's last pull and it.
 */
#include "platform.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 8192 }; /* floats under one lock: 32 KiB, so that a block's work stays in cache */

struct shared {
	_Alignas(64) atomic_llong version;
	_Alignas(64) pthread_mutex_t lock[];
};

struct table {
	struct worker *worker;
	struct comm *comm;
	size_t n, blocks;
	struct vec *only; /* one client: its init vector is the table */
	void *handle;
	struct shared *shared;
	float *w;      /* shared [n] */
	float *pulled; /* own [n] */
	int64_t version, seen;
};

static size_t locks_bytes(size_t blocks)
{
	return (sizeof(struct shared) + blocks * sizeof(pthread_mutex_t) + 63) & ~(size_t)63;
}

struct table *table_new(struct worker *w, struct vec *init)
{
	struct table *t = must(calloc(1, sizeof *t));
	*t = (struct table){.worker = w, .comm = w->data_group, .n = init->n};
	if (comm_size(t->comm) == 1) {
		t->only = init;
		return t;
	}
	if (!link_one_node(comm_link(t->comm)))
		user_error(
			"the parameter server's tables need all %d workers on one node: use fewer "
			"workers, or a strategy without tables (allreduce, periodic)",
			comm_size(t->comm));
	CHECK(init->dev->ops == &device_cpu, "tables hold host vectors only, not those of %s",
	      init->dev->ops->name);
	t->blocks = (t->n + BLOCK - 1) / BLOCK;
	size_t head = locks_bytes(t->blocks);
	t->shared = link_shared_new(comm_link(t->comm), head + t->n * sizeof(float), &t->handle);
	t->w = (void *)((char *)t->shared + head);
	t->pulled = must(malloc((t->n + 1) * sizeof(float)));
	if (comm_rank(t->comm) == 0) {
		pthread_mutexattr_t attr;
		pthread_mutexattr_init(&attr);
		pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
		for (size_t i = 0; i < t->blocks; i++)
			pthread_mutex_init(&t->shared->lock[i], &attr);
		pthread_mutexattr_destroy(&attr);
		memcpy(t->w, init->data, t->n * sizeof(float));
	}
	link_barrier(comm_link(t->comm));
	memcpy(t->pulled, t->w, t->n * sizeof(float));
	memcpy(init->data, t->w, t->n * sizeof(float));
	return t;
}

void table_free(struct table *t)
{
	if (!t)
		return;
	if (!t->only) {
		link_barrier(comm_link(t->comm));
		link_shared_free(t->handle);
		free(t->pulled);
	}
	free(t);
}

static void lock_block(struct table *t, size_t i)
{
	pthread_mutex_t *m = &t->shared->lock[i];
	if (pthread_mutex_trylock(m) == 0)
		return;
	nsec since = clock_now();
	pthread_mutex_lock(m);
	t->worker->stats->wait += clock_now() - since;
}

static void sync_block(float *restrict w, float *restrict param, float *restrict pulled,
		       float scale, size_t n)
{
#pragma omp simd
	for (size_t i = 0; i < n; i++) {
		float now = w[i] + scale * (param[i] - pulled[i]);
		w[i] = now;
		pulled[i] = now;
		param[i] = now;
	}
}

int64_t table_sync(struct table *t, struct vec *param, float scale)
{
	CHECK(param->n == t->n, "a table of %zu floats is given %zu", t->n, param->n);
	if (t->only) {
		CHECK(param == t->only, "a table with one client holds that client's own vector");
		t->version++;
		return 0;
	}
	struct stats *stats = t->worker->stats;
	nsec since = clock_now(), waited = stats->wait;
	int64_t version = atomic_fetch_add(&t->shared->version, 1);
	int64_t staleness = version - t->seen;
	t->seen = version + 1;
	size_t own = part_of(t->n, (size_t)comm_size(t->comm), (size_t)comm_rank(t->comm)) / BLOCK;
	for (size_t k = 0; k < t->blocks; k++) {
		size_t i = (own + k) % t->blocks, first = i * BLOCK;
		size_t n = t->n - first < BLOCK ? t->n - first : BLOCK;
		lock_block(t, i);
		sync_block(t->w + first, param->data + first, t->pulled + first, scale, n);
		pthread_mutex_unlock(&t->shared->lock[i]);
	}
	stats->comm += clock_now() - since - (stats->wait - waited);
	stats->bytes_sent += table_sync_bytes(t);
	return staleness;
}

static void read_blocks(struct table *t, float *out)
{
	for (size_t i = 0; i < t->blocks; i++) {
		size_t first = i * BLOCK, n = t->n - first < BLOCK ? t->n - first : BLOCK;
		lock_block(t, i);
		memcpy(out + first, t->w + first, n * sizeof(float));
		pthread_mutex_unlock(&t->shared->lock[i]);
	}
}

void table_pull(struct table *t, struct vec *param)
{
	CHECK(param->n == t->n, "a table of %zu floats is pulled into %zu", t->n, param->n);
	if (t->only)
		return;
	struct stats *stats = t->worker->stats;
	nsec since = clock_now(), waited = stats->wait;
	t->seen = (int64_t)atomic_load(&t->shared->version);
	read_blocks(t, t->pulled);
	memcpy(param->data, t->pulled, t->n * sizeof(float));
	stats->comm += clock_now() - since - (stats->wait - waited);
	stats->bytes_sent += table_sync_bytes(t) / 2;
}

void table_get(struct table *t, struct vec *out)
{
	CHECK(out->n == t->n, "a table of %zu floats is read into %zu", t->n, out->n);
	if (!t->only)
		read_blocks(t, out->data);
	else if (out != t->only)
		vec_copy(out, t->only);
}

int64_t table_version(const struct table *t)
{
	return t->only ? t->version : (int64_t)atomic_load(&t->shared->version);
}

int64_t table_sync_bytes(const struct table *t)
{
	size_t parts = (size_t)comm_size(t->comm), r = (size_t)comm_rank(t->comm);
	size_t own = part_of(t->n, parts, r + 1) - part_of(t->n, parts, r);
	return (int64_t)(2 * sizeof(float) * (t->n - own));
}

void staleness_add(struct worker *w, int64_t staleness)
{
	struct stats *s = w->stats;
	s->pushes++;
	s->staleness_sum += staleness;
	if (staleness > s->staleness_max)
		s->staleness_max = staleness;
}
