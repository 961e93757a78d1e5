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

static int check_op(const char *function, enum mvb_reduce op, enum mvb_reduce last)
{
	if (op >= MVB_SUM && op <= last)
		return MVB_OK;
	return lib_fail(MVB_ERR_ARGUMENT, "%s: op %d is not %s", function, (int)op,
			last == MVB_MEAN ? "MVB_SUM or MVB_MEAN" : "one of enum mvb_reduce");
}

int lib_check_floats(const char *function, const char *what, const void *x, size_t n)
{
	if (x || n == 0)
		return MVB_OK;
	return lib_fail(MVB_ERR_ARGUMENT, "%s: %s is NULL, where %zu floats should be", function,
			what, n);
}

static int check_reduction(const char *function, const float *x, size_t n, enum mvb_reduce op,
			   enum mvb_reduce last)
{
	int code = lib_check_floats(function, "x", x, n);
	return code ? code : check_op(function, op, last);
}

void lib_sum(float *x, size_t n)
{
	if (lib.workers > 1 && n)
		link_allreduce(lib.link, x, n, COMM_SUM);
}

static void reduce_typed(void *x, size_t n, enum mvb_type type, enum mvb_reduce op)
{
	static const enum link_type types[] = {
		[MVB_FLOAT] = LINK_FLOAT,
		[MVB_DOUBLE] = LINK_DOUBLE,
		[MVB_INT32] = LINK_INT32,
		[MVB_INT64] = LINK_INT64,
	};
	link_reduce_typed(lib.link, x, n, types[type],
			  op == MVB_MIN       ? REDUCE_MIN
			  : op == MVB_MAX     ? REDUCE_MAX
			  : op == MVB_PRODUCT ? REDUCE_PRODUCT
					      : REDUCE_SUM);
	for (size_t i = 0; op == MVB_MEAN && type == MVB_DOUBLE && i < n; i++)
		((double *)x)[i] /= lib.workers;
}

static void reduce(float *x, size_t n, enum mvb_reduce op)
{
	if (op != MVB_SUM && op != MVB_MEAN) {
		reduce_typed(x, n, MVB_FLOAT, op);
		return;
	}
	lib_sum(x, n);
	lib_mean(x, n, op);
}

int mvb_allreduce(float *x, size_t n, enum mvb_reduce op)
{
	TRY(lib_ready(__func__));
	int code = check_reduction(__func__, x, n, op, MVB_PRODUCT);
	TRY(lib_collective((struct call){
		.function = ALLREDUCE, .code = code, .arg = {(double)n, (double)op}}));
	reduce(x, n, op);
	return MVB_OK;
}

int mvb_allreduce_type(void *x, size_t n, enum mvb_type type, enum mvb_reduce op)
{
	TRY(lib_ready(__func__));
	int code = check_reduction(__func__, x, n, op, MVB_PRODUCT);
	if (!code && (type < MVB_FLOAT || type > MVB_INT64))
		code = lib_fail(MVB_ERR_ARGUMENT, "%s: type %d is not one of enum mvb_type",
				__func__, (int)type);
	if (!code && op == MVB_MEAN && type > MVB_DOUBLE)
		code = lib_fail(MVB_ERR_ARGUMENT, "%s: whole numbers have no MVB_MEAN", __func__);
	TRY(lib_collective((struct call){.function = ALLREDUCE_TYPE,
					 .code = code,
					 .arg = {(double)n, (double)type, (double)op}}));
	if (type == MVB_FLOAT)
		reduce(x, n, op);
	else
		reduce_typed(x, n, type, op);
	return MVB_OK;
}

int mvb_gather(const void *x, size_t bytes, void *all, int root)
{
	TRY(lib_ready(__func__));
	bool wanted = root < 0 || root == lib.rank;
	int code = lib_check_floats(__func__, "x", x, bytes);
	if (!code && wanted)
		code = lib_check_floats(__func__, "all", all, bytes);
	if (!code && (root < -1 || root >= lib.workers))
		code = lib_fail(MVB_ERR_ARGUMENT, "%s: root %d; workers are 0 to %d, all are -1",
				__func__, root, lib.workers - 1);
	if (!code && bytes > INT32_MAX)
		code = lib_fail(MVB_ERR_LIMIT, "%s: %zu bytes; a worker gives less than 2^31",
				__func__, bytes);
	TRY(lib_collective(
		(struct call){.function = GATHER, .code = code, .arg = {(double)bytes, root}}));
	if (bytes)
		link_gather(lib.link, root, x, all, (int)bytes);
	return MVB_OK;
}

/* all [workers x n]: memory for the copy. */
static void reduce_part(float *all, const float *x, float *part, size_t n, enum mvb_reduce op)
{
	const size_t total = n * (size_t)lib.workers;
	memcpy(all, x, total * sizeof *all);
	reduce(all, total, op);
	memcpy(part, all + n * (size_t)lib.rank, n * sizeof *part);
}

int mvb_reduce_scatter(const float *x, float *part, size_t n, enum mvb_reduce op)
{
	const size_t workers = (size_t)lib.workers;
	TRY(lib_ready(__func__));
	int code = check_reduction(__func__, x, n, op, MVB_PRODUCT);
	code = code ? code : lib_check_floats(__func__, "part", part, n);
	if (!code && n >= SIZE_MAX / sizeof *x / workers)
		code = lib_no_memory(__func__, n);
	float *all AUTOFREE = code ? NULL : malloc((n * workers + 1) * sizeof *all);
	if (!code && !all)
		code = lib_no_memory(__func__, n * workers);
	TRY(lib_collective((struct call){
		.function = REDUCE_SCATTER, .code = code, .arg = {(double)n, (double)op}}));
	if (n)
		reduce_part(all, x, part, n, op);
	return MVB_OK;
}

/* ---- From one worker to another ------------------------------------------------------- */

static int check_peer(const char *function, const void *x, size_t bytes, int peer)
{
	TRY(lib_check_floats(function, "x", x, bytes));
	if (peer < 0 || peer >= lib.workers || peer == lib.rank)
		return lib_fail(MVB_ERR_ARGUMENT,
				"%s: worker %d; it has to be another one from 0 to %d", function,
				peer, lib.workers - 1);
	if (bytes % sizeof(float))
		return lib_fail(MVB_ERR_ARGUMENT, "%s: %zu bytes are no multiple of 4", function,
				bytes);
	return MVB_OK;
}

/* The lengths go first, both ways: with different ones nothing is sent. */
static int check_bytes(const char *function, uint64_t mine, uint64_t other, int peer)
{
	if (mine == other)
		return MVB_OK;
	return lib_fail(MVB_ERR_DIFFERS, "%s: %llu bytes, but worker %d has %llu", function,
			(unsigned long long)mine, peer, (unsigned long long)other);
}

int mvb_send(const void *x, size_t bytes, int to)
{
	uint64_t mine = bytes, other;
	TRY(lib_ready(__func__));
	TRY(check_peer(__func__, x, bytes, to));
	link_send(lib.link, to, (const void *)&mine, 2);
	link_recv(lib.link, to, (void *)&other, 2);
	TRY(check_bytes(__func__, mine, other, to));
	if (bytes)
		link_send(lib.link, to, x, bytes / sizeof(float));
	return MVB_OK;
}

int mvb_receive(void *x, size_t bytes, int from)
{
	uint64_t mine = bytes, other;
	TRY(lib_ready(__func__));
	TRY(check_peer(__func__, x, bytes, from));
	link_recv(lib.link, from, (void *)&other, 2);
	link_send(lib.link, from, (const void *)&mine, 2);
	TRY(check_bytes(__func__, mine, other, from));
	if (bytes)
		link_recv(lib.link, from, x, bytes / sizeof(float));
	return MVB_OK;
}

/* ---- Started reductions --------------------------------------------------------------- */

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
	int code = check_reduction(__func__, x, n, op, MVB_MEAN);
	code = code ? code : check_started(__func__, n, ticket);
	struct pending_op *f = code ? NULL : lib_pending_new();
	if (!code && !f)
		code = lib_too_many(__func__);
	const struct call call = {
		.function = ALLREDUCE_START, .code = code, .arg = {(double)n, (double)op}};
	/* a worker that waits for a push of this one has to learn that none comes */
	if (code || tables_block(lib.tables))
		TRY(lib_collective(call));
	while (lib.slot[slot])
		slot++;
	lib.slot[slot] = true;
	f->state = REDUCTION;
	f->x = x;
	f->n = n;
	f->op = op;
	f->slot = slot;
	lib_facts(&call, f->fact);
	if (lib.workers > 1)
		link_allreduce_start_if(lib.async, slot, x, n, lib.link, f->fact, FACTS);
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
	code = code ? code : check_op(__func__, op, MVB_PRODUCT);
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
