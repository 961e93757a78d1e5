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
	size_t first, count; /* in the order of the backward pass: 0 is the last tensor */
	size_t floats;
	float *joined;  /* NULL: one tensor, reduced where it is */
	size_t missing; /* tensors that are not ready */
};

struct mvb_grads {
	struct object object;
	struct link *link; /* its own: separate from other reductions */
	size_t count;
	float **tensor; /* from the last to the first */
	size_t *n, *bucket_of;
	bool *ready;
	struct bucket *bucket;
	size_t buckets, started, missing;
};

/* ---- Reductions ----------------------------------------------------------------------- */

static int check_op(const char *function, enum mvb_reduce op)
{
	if (op == MVB_SUM || op == MVB_MEAN)
		return MVB_OK;
	return lib_fail(MVB_ERR_ARGUMENT, "%s: op %d is neither MVB_SUM nor MVB_MEAN", function,
			(int)op);
}

static int check_floats(const char *function, const float *x, size_t n)
{
	if (x || n == 0)
		return MVB_OK;
	return lib_fail(MVB_ERR_ARGUMENT, "%s: NULL where %zu floats should be", function, n);
}

static int check_reduction(const char *function, const float *x, size_t n, enum mvb_reduce op)
{
	int code = check_floats(function, x, n);
	return code ? code : check_op(function, op);
}

void lib_mean(float *x, size_t n, enum mvb_reduce op)
{
	for (size_t i = 0; op == MVB_MEAN && i < n; i++)
		x[i] /= (float)lib.workers;
}

/* Replaces x by the sum or the mean over the workers. */
static void reduce(float *x, size_t n, enum mvb_reduce op)
{
	if (lib.workers == 1 || n == 0)
		return;
	link_allreduce(lib.link, x, n, SUM);
	lib_mean(x, n, op);
}

int mvb_allreduce(float *x, size_t n, enum mvb_reduce op)
{
	TRY(lib_ready(__func__));
	struct call call = {.function = ALLREDUCE,
			    .code = check_reduction(__func__, x, n, op),
			    .arg = {(double)n, (double)op}};
	TRY(lib_collective(&call));
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
	struct call call = {
		.function = ALLREDUCE_START, .code = code, .arg = {(double)n, (double)op}};
	TRY(lib_collective(&call));
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

int lib_check_list(const char *function, float *const *tensor, const size_t *n, size_t count)
{
	double total = 0;
	if (count && (!tensor || !n))
		return lib_fail(MVB_ERR_ARGUMENT, "%s: NULL where the list of tensors should be",
				function);
	for (size_t i = 0; i < count; i++) {
		if (n[i] && !tensor[i])
			return lib_fail(MVB_ERR_ARGUMENT, "%s: tensor %zu of %zu floats is NULL",
					function, i, n[i]);
		total += (double)n[i];
	}
	if (total > (double)(SIZE_MAX / sizeof(float) / 4))
		return lib_fail(MVB_ERR_ARGUMENT, "%s: tensors of %g floats", function, total);
	return MVB_OK;
}

size_t lib_list_total(const size_t *n, size_t count)
{
	size_t total = 0;
	for (size_t i = 0; i < count; i++)
		total += n[i];
	return total;
}

/* Exact as a double. Differs, or nearly surely so, for lists of equal total and other lengths. */
static double list_print(const size_t *n, size_t count)
{
	return (double)(hash_of(HASH_START, n, count * sizeof *n) >> 12);
}

struct call lib_list_call(enum function function, int code, const size_t *n, size_t count)
{
	struct call call = {.function = function, .code = code, .arg = {(double)count}};
	if (!code) {
		call.arg[1] = (double)lib_list_total(n, count);
		call.arg[2] = list_print(n, count);
	}
	return call;
}

void lib_join(float *flat, float *const *tensor, const size_t *n, size_t count)
{
	for (size_t i = 0; i < count; flat += n[i++])
		if (n[i])
			memcpy(flat, tensor[i], n[i] * sizeof *flat);
}

void lib_part(const float *flat, float *const *tensor, const size_t *n, size_t count)
{
	for (size_t i = 0; i < count; flat += n[i++])
		if (n[i])
			memcpy(tensor[i], flat, n[i] * sizeof *flat);
}

int mvb_allreduce_list(float *const *tensor, const size_t *n, size_t count, enum mvb_reduce op)
{
	TRY(lib_ready(__func__));
	int code = lib_check_list(__func__, tensor, n, count);
	code = code ? code : check_op(__func__, op);
	float *flat = NULL;
	size_t total = code ? 0 : lib_list_total(n, count);
	if (!code && !(flat = malloc((total + 1) * sizeof *flat)))
		code = lib_no_memory(__func__, total);
	struct call call = lib_list_call(ALLREDUCE_LIST, code, n, count);
	call.arg[3] = (double)op;
	code = lib_collective(&call);
	if (!code) {
		lib_join(flat, tensor, n, count);
		reduce(flat, total, op);
		lib_part(flat, tensor, n, count);
	}
	free(flat);
	return code;
}

int mvb_broadcast(float *x, size_t n, int root)
{
	TRY(lib_ready(__func__));
	int code = check_floats(__func__, x, n);
	if (!code && (root < 0 || root >= lib.workers))
		code = lib_fail(MVB_ERR_ARGUMENT, "%s: root %d; workers are 0 to %d", __func__,
				root, lib.workers - 1);
	struct call call = {.function = BROADCAST, .code = code, .arg = {(double)n, root}};
	code = lib_collective(&call);
	if (!code && n)
		link_broadcast(lib.link, root, x, n * sizeof *x);
	return code;
}

/* ---- Gradients ------------------------------------------------------------------------- */

static const size_t bucket_bytes_default = 1 << 20;

/* Each bucket joins neighbours, from the last tensor to the first, until it has at least `bytes`.
 * The number of buckets stays below LINK_SLOTS. */
static void fill_buckets(struct mvb_grads *g, size_t bytes)
{
	size_t total = lib_list_total(g->n, g->count), least = bytes / sizeof(float);
	if (least < total / (LINK_SLOTS / 2) + 1)
		least = total / (LINK_SLOTS / 2) + 1;
	for (size_t i = 0; i < g->count; i++) {
		struct bucket *b = &g->bucket[g->buckets];
		g->bucket_of[i] = g->buckets;
		b->first = b->count++ ? b->first : i;
		b->floats += g->n[i];
		g->buckets += b->floats >= least || i + 1 == g->count;
	}
}

static void grads_reset(struct mvb_grads *g)
{
	for (size_t i = 0; i < g->buckets; i++)
		g->bucket[i].missing = g->bucket[i].count;
	memset(g->ready, 0, g->count * sizeof *g->ready);
	g->started = 0;
	g->missing = g->count;
}

static void grads_free(struct mvb_grads *g)
{
	for (size_t i = 0; i < g->buckets; i++)
		free(g->bucket[i].joined);
	link_free(g->link);
	free(g->tensor);
	free(g->n);
	free(g->bucket_of);
	free(g->ready);
	free(g->bucket);
	free(g);
}

/* The part of the creation that needs no other worker; NULL when there is no memory. */
static struct mvb_grads *grads_make(float *const *tensor, const size_t *n, size_t count,
				    size_t bytes)
{
	struct mvb_grads *g = calloc(1, sizeof *g);
	if (!g)
		return NULL;
	g->count = count;
	g->tensor = calloc(count + 1, sizeof *g->tensor);
	g->n = calloc(count + 1, sizeof *g->n);
	g->bucket_of = calloc(count + 1, sizeof *g->bucket_of);
	g->ready = calloc(count + 1, sizeof *g->ready);
	g->bucket = calloc(count + 1, sizeof *g->bucket);
	bool whole_of_it = g->tensor && g->n && g->bucket_of && g->ready && g->bucket;
	for (size_t i = 0; whole_of_it && i < count; i++) {
		g->tensor[i] = tensor[count - 1 - i];
		g->n[i] = n[count - 1 - i];
	}
	if (whole_of_it)
		fill_buckets(g, bytes ? bytes : bucket_bytes_default);
	for (size_t i = 0; whole_of_it && i < g->buckets; i++) {
		struct bucket *b = &g->bucket[i];
		if (b->count > 1)
			whole_of_it = (b->joined = malloc((b->floats + 1) * sizeof(float)));
	}
	if (whole_of_it)
		return g;
	grads_free(g);
	return NULL;
}

static int check_buckets(const char *function, const struct mvb_grads *g)
{
	for (size_t i = 0; i < g->buckets; i++)
		if (g->bucket[i].floats > INT32_MAX)
			return lib_fail(
				MVB_ERR_LIMIT,
				"%s: %zu floats in one bucket; less than 2^31 can be started",
				function, g->bucket[i].floats);
	return MVB_OK;
}

static void start_bucket(struct mvb_grads *g)
{
	struct bucket *b = &g->bucket[g->started];
	if (b->joined)
		lib_join(b->joined, g->tensor + b->first, g->n + b->first, b->count);
	if (lib.workers > 1)
		link_allreduce_start(g->link, (int)g->started,
				     b->joined ? b->joined : g->tensor[b->first], b->floats);
	g->started++;
}

static void end_bucket(struct mvb_grads *g, size_t i)
{
	struct bucket *b = &g->bucket[i];
	float *x = b->joined ? b->joined : g->tensor[b->first];
	if (lib.workers > 1)
		link_allreduce_wait(g->link, (int)i);
	lib_mean(x, b->floats, MVB_MEAN);
	if (b->joined)
		lib_part(x, g->tensor + b->first, g->n + b->first, b->count);
}

/* Collective: starts the buckets that other workers may have started, and waits for all. */
static void grads_drain(struct mvb_grads *g)
{
	while (g->started < g->buckets)
		start_bucket(g);
	for (size_t i = 0; i < g->buckets; i++)
		end_bucket(g, i);
	grads_reset(g);
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
	struct mvb_grads *g = NULL;
	if (out)
		*out = NULL;
	TRY(lib_ready(__func__));
	int code = lib_check_list(__func__, tensor, n, count);
	if (!code && (!out || count == 0))
		code = lib_fail(MVB_ERR_ARGUMENT, "%s: %s", __func__,
				out ? "no tensors" : "NULL where the set should go");
	if (!code && !(g = grads_make(tensor, n, count, bucket_bytes)))
		code = lib_no_memory(__func__, lib_list_total(n, count));
	if (g)
		code = check_buckets(__func__, g);
	struct call call = lib_list_call(GRADS_NEW, code, n, count);
	call.arg[3] = (double)bucket_bytes;
	code = lib_collective(&call);
	if (code) {
		if (g)
			grads_free(g);
		return code;
	}
	g->link = link_split(lib.link, 0);
	grads_reset(g);
	*out = lib_keep(&g->object, (struct object){.kind = GRADS, .drop = grads_drop});
	return MVB_OK;
}

int mvb_grads_ready(struct mvb_grads *g, size_t i)
{
	TRY(lib_ready_with(__func__, GRADS, g));
	if (i >= g->count)
		return lib_fail(MVB_ERR_ARGUMENT, "%s: tensor %zu; they are 0 to %zu", __func__, i,
				g->count - 1);
	size_t place = g->count - 1 - i;
	if (g->ready[place])
		return lib_fail(MVB_ERR_ARGUMENT, "%s: tensor %zu for the second time in this step",
				__func__, i);
	g->ready[place] = true;
	g->missing--;
	g->bucket[g->bucket_of[place]].missing--;
	while (g->started < g->buckets && g->bucket[g->started].missing == 0)
		start_bucket(g);
	return MVB_OK;
}

int mvb_grads_wait(struct mvb_grads *g)
{
	size_t place = 0;
	int code = MVB_OK;
	TRY(lib_ready_with(__func__, GRADS, g));
	while (place < g->count && g->ready[place])
		place++;
	if (g->missing)
		code = lib_fail(MVB_ERR_ARGUMENT, "%s: tensor %zu and %zu more were not made ready",
				__func__, g->count - 1 - place, g->missing - 1);
	struct call call = {.function = GRADS_WAIT, .code = code, .object = lib_number(&g->object)};
	code = lib_collective(&call);
	if (code != MVB_ERR_DIFFERS)
		grads_drain(g);
	return code;
}

int mvb_grads_free(struct mvb_grads *g)
{
	return lib_free(GRADS_FREE, GRADS, g ? &g->object : NULL);
}
