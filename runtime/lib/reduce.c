/*
 * reduce.c - reductions for other programs: of one tensor, of a list that is joined into one, and
 * of gradients in buckets.
 *
 * Buckets are started in the order of the backward pass, the same on all workers, in whatever order
 * the tensors become ready. They have a link of their own, so they cannot be mixed up with other
 * reductions. Cost: two copies of each bucket with several tensors.
 */
#include "runtime/lib/library.h"

#include <stdlib.h>
#include <string.h>

struct bucket {
	struct list list;
	float *x; /* what is reduced: its only tensor, or its part of `flat` */
};

struct mvb_grads {
	struct object object;
	struct link *link; /* its own: separate from other reductions */
	struct list list;
	float *flat;           /* the tensors of buckets with several */
	bool *ready;           /* of each tensor */
	struct bucket *bucket; /* the first has the last tensor */
	size_t buckets, started;
};

/* ---- Reductions ----------------------------------------------------------------------- */

static int check_op(const char *function, enum mvb_reduce op)
{
	if (op == MVB_SUM || op == MVB_MEAN)
		return MVB_OK;
	return lib_fail(MVB_ERR_ARGUMENT, "%s: op %d is neither MVB_SUM nor MVB_MEAN", function,
			(int)op);
}

int lib_check_floats(const char *function, const char *what, const float *x, size_t n)
{
	if (x || n == 0)
		return MVB_OK;
	return lib_fail(MVB_ERR_ARGUMENT, "%s: %s is NULL, where %zu floats should be", function,
			what, n);
}

static int check_reduction(const char *function, const float *x, size_t n, enum mvb_reduce op)
{
	int code = lib_check_floats(function, "x", x, n);
	return code ? code : check_op(function, op);
}

void lib_mean(float *x, size_t n, enum mvb_reduce op)
{
	for (size_t i = 0; op == MVB_MEAN && i < n; i++)
		x[i] /= (float)lib.workers;
}

void lib_sum(float *x, size_t n)
{
	if (lib.workers > 1 && n)
		link_allreduce(lib.link, x, n, SUM);
}

static void reduce(float *x, size_t n, enum mvb_reduce op)
{
	lib_sum(x, n);
	lib_mean(x, n, op);
}

int mvb_allreduce(float *x, size_t n, enum mvb_reduce op)
{
	TRY(lib_ready(__func__));
	int code = check_reduction(__func__, x, n, op);
	TRY(lib_collective((struct call){
		.function = ALLREDUCE, .code = code, .arg = {(double)n, (double)op}}));
	reduce(x, n, op);
	return MVB_OK;
}

static int check_started(const char *function, size_t n, const int64_t *ticket)
{
	int slots = 0;
	if (!ticket)
		return lib_fail(MVB_ERR_ARGUMENT, "%s: NULL where the ticket should go", function);
	if (n > INT32_MAX)
		return lib_fail(MVB_ERR_LIMIT, "%s: %zu floats; less than 2^31 can be started",
				function, n);
	for (int i = 0; i < LINK_SLOTS; i++)
		slots += lib.slot[i];
	return slots == LINK_SLOTS ? lib_too_many(function) : MVB_OK;
}

int mvb_allreduce_start(float *x, size_t n, enum mvb_reduce op, int64_t *ticket)
{
	int slot = 0;
	TRY(lib_ready(__func__));
	int code = check_reduction(__func__, x, n, op);
	code = code ? code : check_started(__func__, n, ticket);
	struct pending_op *f = code ? NULL : lib_pending_new();
	if (!code && !f)
		code = lib_too_many(__func__);
	TRY(lib_collective((struct call){
		.function = ALLREDUCE_START, .code = code, .arg = {(double)n, (double)op}}));
	while (lib.slot[slot])
		slot++;
	lib.slot[slot] = true;
	f->state = REDUCTION;
	f->x = x;
	f->n = n;
	f->op = op;
	f->slot = slot;
	if (lib.workers > 1)
		link_allreduce_start(lib.async, slot, x, n);
	*ticket = lib_ticket(f);
	return MVB_OK;
}

/* ---- Lists of tensors ------------------------------------------------------------------- */

int lib_check_list(const char *function, struct list *l)
{
	double total = 0;
	if (l->count && (!l->tensor || !l->n))
		return lib_fail(MVB_ERR_ARGUMENT, "%s: NULL where the list of tensors should be",
				function);
	for (size_t i = 0; i < l->count; i++) {
		if (l->n[i] && !l->tensor[i])
			return lib_fail(MVB_ERR_ARGUMENT, "%s: tensor %zu of %zu floats is NULL",
					function, i, l->n[i]);
		total += (double)l->n[i];
		l->total += l->n[i];
	}
	if (total > (double)(SIZE_MAX / sizeof(float) / 4))
		return lib_fail(MVB_ERR_ARGUMENT, "%s: tensors of %g floats", function, total);
	return MVB_OK;
}

int lib_collective_list(enum function function, int code, struct list l, double more)
{
	struct call call = {
		.function = function, .code = code, .arg = {(double)l.count, 0, 0, more}};
	if (!code) {
		call.arg[1] = (double)l.total;
		/* exact as a double; differs, or nearly surely so, for other lengths */
		call.arg[2] = (double)(hash_of(HASH_START, l.n, l.count * sizeof *l.n) >> 12);
	}
	return lib_collective(call);
}

struct list lib_list_copy(struct list l)
{
	float **tensor = must(calloc(l.count + 1, sizeof *tensor));
	size_t *n = must(calloc(l.count + 1, sizeof *n));
	for (size_t i = 0; i < l.count; i++) {
		tensor[i] = l.tensor[i];
		n[i] = l.n[i];
	}
	return (struct list){tensor, n, l.count, l.total};
}

void lib_list_free(struct list l)
{
	free((void *)(uintptr_t)l.tensor);
	free((void *)(uintptr_t)l.n);
}

void lib_join(float *flat, struct list l)
{
	for (size_t i = 0; i < l.count; flat += l.n[i++])
		if (l.n[i])
			memcpy(flat, l.tensor[i], l.n[i] * sizeof *flat);
}

void lib_part(const float *flat, struct list l)
{
	for (size_t i = 0; i < l.count; flat += l.n[i++])
		if (l.n[i])
			memcpy(l.tensor[i], flat, l.n[i] * sizeof *flat);
}

int mvb_allreduce_list(float *const *tensor, const size_t *n, size_t count, enum mvb_reduce op)
{
	struct list l = {tensor, n, count, 0};
	TRY(lib_ready(__func__));
	int code = lib_check_list(__func__, &l);
	code = code ? code : check_op(__func__, op);
	float *flat AUTOFREE = code ? NULL : malloc((l.total + 1) * sizeof *flat);
	if (!code && !flat)
		code = lib_no_memory(__func__, l.total);
	TRY(lib_collective_list(ALLREDUCE_LIST, code, l, (double)op));
	lib_join(flat, l);
	reduce(flat, l.total, op);
	lib_part(flat, l);
	return MVB_OK;
}

int mvb_broadcast(float *x, size_t n, int root)
{
	TRY(lib_ready(__func__));
	int code = lib_check_floats(__func__, "x", x, n);
	if (!code && (root < 0 || root >= lib.workers))
		code = lib_fail(MVB_ERR_ARGUMENT, "%s: root %d; workers are 0 to %d", __func__,
				root, lib.workers - 1);
	TRY(lib_collective(
		(struct call){.function = BROADCAST, .code = code, .arg = {(double)n, root}}));
	if (n)
		link_broadcast(lib.link, root, x, n * sizeof *x);
	return MVB_OK;
}

/* ---- Gradients ------------------------------------------------------------------------- */

static const size_t bucket_bytes_default = 1 << 20;

/* Each bucket joins neighbours, from the last tensor to the first, until it has at least `bytes`.
 * The number of buckets stays below LINK_SLOTS. */
static void fill_buckets(struct mvb_grads *g, size_t bytes)
{
	const struct list all = g->list;
	size_t least = bytes / sizeof(float), bound = all.total / (LINK_SLOTS / 2) + 1;
	float *flat = g->flat + all.total;
	for (size_t i = all.count; i-- > 0;) {
		struct bucket *b = &g->bucket[g->buckets];
		flat -= all.n[i];
		b->list = (struct list){all.tensor + i, all.n + i, b->list.count + 1,
					b->list.total + all.n[i]};
		b->x = b->list.count > 1 ? flat : all.tensor[i];
		g->buckets += (b->list.total >= least && b->list.total >= bound) || i == 0;
	}
}

static void grads_free(struct mvb_grads *g)
{
	link_free(g->link);
	lib_list_free(g->list);
	free(g->flat);
	free(g->ready);
	free(g->bucket);
	free(g);
}

/* The part of the creation that needs no other worker; flat is NULL when there is no memory. */
static struct mvb_grads *grads_make(struct list l, size_t bytes)
{
	struct mvb_grads *g = must(calloc(1, sizeof *g));
	g->list = lib_list_copy(l);
	g->ready = must(calloc(l.count, sizeof *g->ready));
	g->bucket = must(calloc(l.count, sizeof *g->bucket));
	g->flat = malloc((l.total + 1) * sizeof *g->flat);
	if (g->flat)
		fill_buckets(g, bytes ? bytes : bucket_bytes_default);
	return g;
}

static int check_buckets(const char *function, const struct mvb_grads *g)
{
	for (size_t i = 0; i < g->buckets; i++)
		if (g->bucket[i].list.total > INT32_MAX)
			return lib_fail(
				MVB_ERR_LIMIT,
				"%s: %zu floats in one bucket; less than 2^31 can be started",
				function, g->bucket[i].list.total);
	return MVB_OK;
}

static void start_bucket(struct mvb_grads *g)
{
	struct bucket *b = &g->bucket[g->started];
	if (b->list.count > 1)
		lib_join(b->x, b->list);
	if (lib.workers > 1)
		link_allreduce_start(g->link, (int)g->started, b->x, b->list.total);
	g->started++;
}

static void end_bucket(struct mvb_grads *g, size_t i)
{
	struct bucket *b = &g->bucket[i];
	if (lib.workers > 1)
		link_allreduce_wait(g->link, (int)i);
	lib_mean(b->x, b->list.total, MVB_MEAN);
	if (b->list.count > 1)
		lib_part(b->x, b->list);
}

/* Collective: starts the buckets that other workers may have started, and waits for all. */
static void grads_drain(struct mvb_grads *g)
{
	while (g->started < g->buckets)
		start_bucket(g);
	for (size_t i = 0; i < g->buckets; i++)
		end_bucket(g, i);
	memset(g->ready, false, g->list.count * sizeof *g->ready);
	g->started = 0;
}

static void grads_drop(struct object *o)
{
	struct mvb_grads *g = (struct mvb_grads *)o;
	double started = (double)g->started;
	link_reduce_all(lib.link, &started, 1, REDUCE_MAX);
	if (started > 0)
		grads_drain(g);
	grads_free(g);
}

int mvb_grads_new(struct mvb_grads **out, float *const *tensor, const size_t *n, size_t count,
		  size_t bucket_bytes)
{
	struct list l = {tensor, n, count, 0};
	struct mvb_grads *g = NULL;
	if (out)
		*out = NULL;
	TRY(lib_ready(__func__));
	int code = lib_check_list(__func__, &l);
	if (!code && (!out || count == 0))
		code = lib_fail(MVB_ERR_ARGUMENT, "%s: %s", __func__,
				out ? "no tensors" : "NULL where the set should go");
	if (!code) {
		g = grads_make(l, bucket_bytes);
		code = g->flat ? check_buckets(__func__, g) : lib_no_memory(__func__, l.total);
	}
	code = lib_collective_list(GRADS_NEW, code, l, (double)bucket_bytes);
	if (code) {
		if (g)
			grads_free(g);
		return code;
	}
	g->link = link_split(lib.link, 0);
	*out = lib_keep(&g->object, (struct object){.kind = GRADS, .drop = grads_drop});
	return MVB_OK;
}

/* Are all tensors of the next bucket ready? */
static bool is_full(const struct mvb_grads *g)
{
	const struct list *l = &g->bucket[g->started].list;
	return !memchr(g->ready + (l->tensor - g->list.tensor), 0, l->count);
}

int mvb_grads_ready(struct mvb_grads *g, size_t i)
{
	TRY(lib_ready_with(__func__, GRADS, g));
	if (i >= g->list.count)
		return lib_fail(MVB_ERR_ARGUMENT, "%s: tensor %zu; they are 0 to %zu", __func__, i,
				g->list.count - 1);
	if (g->ready[i])
		return lib_fail(MVB_ERR_ARGUMENT, "%s: tensor %zu for the second time in this step",
				__func__, i);
	g->ready[i] = true;
	while (g->started < g->buckets && is_full(g))
		start_bucket(g);
	return MVB_OK;
}

int mvb_grads_wait(struct mvb_grads *g)
{
	size_t missing = 0, last = 0;
	int code = MVB_OK;
	TRY(lib_ready_with(__func__, GRADS, g));
	for (size_t i = 0; i < g->list.count; i++)
		if (!g->ready[i]) {
			missing++;
			last = i;
		}
	if (missing)
		code = lib_fail(MVB_ERR_ARGUMENT, "%s: tensor %zu and %zu more were not made ready",
				__func__, last, missing - 1);
	code = lib_collective((struct call){
		.function = GRADS_WAIT, .code = code, .object = lib_number(&g->object)});
	if (code != MVB_ERR_DIFFERS)
		grads_drain(g);
	return code;
}

int mvb_grads_free(struct mvb_grads *g)
{
	return lib_free(GRADS_FREE, GRADS, g ? &g->object : NULL);
}
