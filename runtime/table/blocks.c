/*
 * blocks.c - a table's floats in memory that all workers reach: of the host, or of worker 0's GPU.
 *
 * An operation is one pass over the floats, block by block, each block under its own lock. Each
 * worker begins at its own shard. It leaves locked blocks for later, so it waits only when no other
 * block is left. Then it polls the lock for about as long as a block takes, if each worker has a
 * core, and then sleeps: waking up takes longer than most waits, and by then the other worker may
 * hold the lock again.
 *
 * A GPU's memory holds only the floats, which all workers map; locks and counters are in host
 * memory. The whole table is one block: an operation is one lock and one kernel. Its time is the
 * start of the kernel, not the floats, and other workers poll longer.
 */
#include "runtime/table/blocks.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#ifndef BLOCK_FLOATS /* tests/model uses tables of a few floats */
#define BLOCK_FLOATS 1024
#endif
enum { BLOCK_MOST = 8192, BLOCK_LEAST = BLOCK_FLOATS }; /* floats under one lock */

static const nsec look_ns = 20000, look_gpu_ns = 200000; /* of polling a lock */

#define AT(t) ((struct blocks *)(t)->at)

/* ---- Memory ---------------------------------------------------------------------- */

static size_t up(size_t bytes)
{
	return (bytes + 63) & ~(size_t)63;
}

/* Small enough that workers find unlocked blocks, large enough that locking costs little. */
static size_t block_size(size_t n, int workers)
{
	size_t block = BLOCK_MOST;
	while (block > BLOCK_LEAST && n / block < 8 * (size_t)workers)
		block /= 2;
	return block;
}

/* Each vector of the table starts a cache line. */
static size_t stride(size_t n)
{
	return up(n * sizeof(float)) / sizeof(float);
}

static void make_locks(struct blocks *b)
{
	pthread_mutexattr_t mutex;
	pthread_mutexattr_init(&mutex);
	pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
	for (size_t i = 0; i < b->count; i++)
		pthread_mutex_init(&b->lock[i].mutex, &mutex);
	pthread_mutexattr_destroy(&mutex);
}

/* n floats on rank 0's device, zeroed, mapped by all ranks; NULL on a rank that cannot map them. */
static float *gpu_floats_new(struct tables *s, size_t n)
{
	struct device *d = s->dev;
	unsigned char handle[PEER_HANDLE_BYTES] = {0};
	float *x = s->rank == 0 ? d->ops->peer->shared_new(d, n, handle) : NULL;
	link_broadcast(s->workers, 0, handle, sizeof handle);
	if (s->rank != 0)
		return d->ops->peer->shared_map(d, handle);
	d->bytes += n * sizeof *x;
	return x;
}

static void gpu_floats_free(struct tables *s, float *x, size_t n)
{
	struct device *d = s->dev;
	if (s->rank != 0 && x)
		d->ops->peer->shared_unmap(d, x);
	link_barrier(s->workers); /* rank 0 frees the memory only when no rank maps it */
	if (s->rank == 0)
		d->bytes -= n * sizeof *x;
	if (s->rank == 0 && x)
		d->ops->peer->shared_free(d, x);
}

bool blocks_map(struct tables *s)
{
	float *x = gpu_floats_new(s, 1);
	double all = x != NULL;
	link_reduce_all(s->workers, &all, 1, REDUCE_MIN);
	gpu_floats_free(s, x, 1);
	return all > 0;
}

static void lay_out_floats(struct table *t, float *at)
{
	struct blocks *b = t->at;
	const struct table_rules *r = &t->rules;
	CHECK(at, "the GPU memory of worker 0 could be mapped, and now cannot be");
	b->w[0] = at;
	b->w[1] = r->rounds ? at + stride(t->n) : NULL;
	at += (1 + (size_t)r->rounds) * stride(t->n);
	b->state = r->updater->state ? at : NULL;
	b->more = r->updater->more ? at + stride(t->n) : NULL;
}

void *blocks_open(struct table *t, const float *init, size_t bytes)
{
	struct tables *s = t->among;
	struct blocks *b = t->at;
	size_t parts = (size_t)s->size, rank = (size_t)s->rank;
	size_t n = table_vectors(&t->rules) * stride(t->n);
	b->dev = table_device(t);
	bool near = !b->dev && !t->rules.lengths;
	b->length = near ? block_size(t->n, s->size) : t->n;
	b->count = (t->n + b->length - 1) / b->length;
	b->look = usable_cores() < s->size ? 0 : b->dev ? look_gpu_ns : look_ns;
	b->later = must(calloc(b->count + 1, sizeof *b->later));
	size_t locks = up(b->count * sizeof *b->lock);
	size_t made = t->rules.rounds ? up(b->count * sizeof *b->made) : 0;
	size_t touched = rounds_merge(&t->rules) ? up(t->rules.rows * sizeof *b->touched) : 0;
	size_t control = up(bytes) + locks + made + touched;
	char *at = b->control =
		link_shared_new(s->workers, control + (near ? n * sizeof(float) : 0), &b->handle);
	b->lock = (void *)(at + up(bytes));
	b->made = made ? (void *)(at + up(bytes) + locks) : NULL;
	b->touched = touched ? (void *)(at + up(bytes) + locks + made) : NULL;
	lay_out_floats(t, b->dev ? gpu_floats_new(s, n)
			  : near ? (void *)(at + control)
				 : link_nowhere());
	t->own_first = part_of(t->n, parts, rank);
	t->own_end = part_of(t->n, parts, rank + 1);
	if (rank == 0)
		make_locks(b);
	if (init && near) /* its own shard: the memory is then near the worker */
		memcpy(b->w[0] + t->own_first, init + t->own_first,
		       (t->own_end - t->own_first) * sizeof(float));
	if (init && b->dev && rank == 0)
		s->dev->ops->put(s->dev, b->w[0], init, t->n);
	return at;
}

void blocks_close(struct table *t)
{
	struct blocks *b = AT(t);
	if (b->dev)
		gpu_floats_free(t->among, b->w[0], table_vectors(&t->rules) * stride(t->n));
	else
		link_barrier(t->among->workers);
	link_shared_free(b->control, b->handle);
	free(b->later);
}

/* ---- Locks ----------------------------------------------------------------------- */

static bool look_for(pthread_mutex_t *m, nsec until, bool yield)
{
	while (clock_now() < until) {
		if (pthread_mutex_trylock(m) == 0)
			return true;
		if (yield)
			sched_yield();
	}
	return false;
}

void block_lock(struct table *t, size_t i)
{
	pthread_mutex_t *m = &AT(t)->lock[i].mutex;
	if (pthread_mutex_trylock(m) == 0)
		return;
	nsec since = clock_now();
	if (!look_for(m, since + AT(t)->look, AT(t)->dev != NULL))
		pthread_mutex_lock(m);
	stats_spent(t->among->stats, TRACE_WAIT, since, -1);
}

void block_unlock(struct table *t, size_t i)
{
	pthread_mutex_unlock(&AT(t)->lock[i].mutex);
}

/* ---- Floats ---------------------------------------------------------------------- */

static size_t block_length(const struct table *t, size_t i)
{
	return smaller(AT(t)->length, t->n - i * AT(t)->length);
}

/* to = from */
static void copy_floats(struct table *t, float *to, const float *from, size_t n)
{
	struct device *d = AT(t)->dev;
	if (d) {
		d->ops->copy(d, to, from, n);
		device_sync(d);
	} else if (!t->rules.lengths) {
		memcpy(to, from, n * sizeof *to);
	}
}

/* The first push to block i in this round begins the block's next copy: as W, or, where pushes are
 * merged, as their sum. */
static void begin_copy(struct table *t, size_t i, int64_t round)
{
	struct blocks *b = AT(t);
	size_t first = i * b->length, n = block_length(t, i);
	float *to = b->w[(round + 1) % 2] + first;
	if (b->made[i] == round + 1)
		return;
	b->made[i] = round + 1;
	if (!rounds_merge(&t->rules)) {
		copy_floats(t, to, b->w[round % 2] + first, n);
	} else if (b->dev) {
		b->dev->ops->fill(b->dev, to, 0, n);
		device_sync(b->dev);
	} else if (!t->rules.lengths) {
		memset(to, 0, n * sizeof *to);
	}
}

static void apply_update(struct table *t, const struct table_rules *r, const struct table_op *p,
			 struct update *u, size_t n)
{
	struct device *d = AT(t)->dev;
	if (d) {
		update_complete(u, r, p);
		d->ops->peer->apply(d, p->kind, r->updater->kind, u, n);
	} else if (!r->lengths) {
		table_apply(r, p, u, n);
	}
}

static void scale_floats(struct table *t, float *x, float factor, size_t n)
{
	struct device *d = AT(t)->dev;
	if (factor == 1 || t->rules.lengths)
		return;
	if (d)
		d->ops->scale(d, x, factor, n);
	for (size_t i = 0; !d && i < n; i++)
		x[i] *= factor;
}

/* Block i's next copy holds the sum of the round's pushes, and becomes the updated W. No worker
 * reads the old copy any more, so the update may change it, too. */
static void merge_block(struct table *t, size_t i, int64_t round, const struct merged *m,
			int64_t number)
{
	struct blocks *b = AT(t);
	const struct table_op push = {.kind = OP_PUSH, .by = m->by, .number = number};
	const struct table_rules end = rules_of_end(&t->rules);
	const float factor = merged_factor(m, &t->rules);
	size_t first = i * b->length, left = block_length(t, i), n;
	for (bool pushed; left; first += n, left -= n) {
		float *w = b->w[round % 2] + first, *next = b->w[(round + 1) % 2] + first;
		struct update u = {.w = w,
				   .state = part(b->state, first),
				   .more = part(b->more, first),
				   .values = next,
				   .out = next};
		n = merged_run(m, &t->rules, b->touched, first, left, &pushed);
		scale_floats(t, next, factor, pushed ? n : 0);
		if (pushed)
			apply_update(t, &end, &push, &u, n);
		else
			copy_floats(t, next, w, n);
	}
}

void blocks_end_round(struct table *t, int64_t round, const struct merged *m, int64_t number)
{
	struct blocks *b = AT(t);
	for (size_t i = 0; i < b->count; i++)
		if (b->made[i] != round + 1)
			copy_floats(t, b->w[(round + 1) % 2] + i * b->length,
				    b->w[round % 2] + i * b->length, block_length(t, i));
		else if (rounds_merge(&t->rules))
			merge_block(t, i, round, m, number);
	if (b->touched && !m->whole)
		memset(b->touched, 0, t->rules.rows * sizeof *b->touched);
}

/* Applies the operation to floats first .. first + n - 1 of the table, all in block i, whose lock
 * is held. offset: their place in the operation's own memory. */
static void apply_within(struct table *t, const struct table_op *p, size_t i, size_t first,
			 size_t n, size_t offset)
{
	struct blocks *b = AT(t);
	float *w = b->w[0];
	const bool sums = op_pushes(p) && rounds_merge(&t->rules);
	const struct table_rules r = sums ? rules_of_sum(&t->rules) : t->rules;
	if (t->rules.rounds) {
		w = b->w[(p->round + op_pushes(p)) % 2];
		if (op_pushes(p))
			begin_copy(t, i, p->round);
	}
	struct update u = {.w = w + first,
			   .state = part(b->state, first),
			   .more = part(b->more, first),
			   .own = part(t->own, first),
			   .pulled = part(t->pulled, first),
			   .values = p->in ? p->in + offset : NULL,
			   .out = part(op_out(p), offset)};
	apply_update(t, &r, p, &u, n);
}

void block_apply(struct table *t, const struct table_op *p, size_t i)
{
	size_t first = i * AT(t)->length;
	apply_within(t, p, i, first, block_length(t, i), first);
}

/* An operation on a row holds a block until it has the next one: no other on this row overtakes it,
 * and each sees all or nothing of another. */
static void apply_rows(struct table *t, const struct table_op *p)
{
	size_t length = AT(t)->length;
	for (size_t k = 0; k < op_pieces(p); k++) {
		size_t at, left, offset, n, i = 0;
		op_piece(t, p, k, &at, &left, &offset);
		for (size_t begin = at; left; at += n, offset += n, left -= n) {
			i = at / length;
			n = smaller((i + 1) * length - at, left);
			block_lock(t, i);
			if (at > begin)
				block_unlock(t, i - 1);
			apply_within(t, p, i, at, n, offset);
			if (op_pushes(p) && AT(t)->touched)
				AT(t)->touched[at / t->rules.columns] = true;
		}
		block_unlock(t, i);
	}
}

void blocks_apply(struct table *t, const struct table_op *p)
{
	struct blocks *b = AT(t);
	size_t begin = t->own_first / b->length, n = 0;
	if (p->row) {
		apply_rows(t, p);
		return;
	}
	for (size_t k = 0; k < b->count; k++) {
		size_t i = (begin + k) % b->count;
		if (pthread_mutex_trylock(&b->lock[i].mutex) != 0) {
			b->later[n++] = i;
			continue;
		}
		block_apply(t, p, i);
		block_unlock(t, i);
	}
	for (size_t k = 0; k < n; k++) {
		block_lock(t, b->later[k]);
		block_apply(t, p, b->later[k]);
		block_unlock(t, b->later[k]);
	}
}
