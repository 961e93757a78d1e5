/*
 * measure.c - what the simulator has to know of a machine, measured by its workers. The same code
 * measures a simulated machine: so it is known what the simulator says of a figure.
 *
 * Costs are measured where they will be paid: between two of them the worker computes a gradient,
 * so that the caches hold what they hold in training, and all workers do so at the same time. A
 * figure is the median of several, and of a collective the shortest over the ranks (the last to
 * arrive waits for nobody).
 */
#include "sim/sim.h"

#include <stdlib.h>

enum {
	TIMES_LEAST = 9,
	TIMES_MOST = 301,
	BETWEEN_NS = 2000000, /* a gradient that takes longer is not computed between */
};
static const double figure_s = 0.04; /* wanted for a figure */

/* [floats]; the parameters of the workload are added. */
static const size_t lengths[] = {1,     256,    2048,   8192,    16384,  32768,
				 65536, 131072, 262144, 1048576, 4194304};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

struct bench {
	struct worker *w;
	struct points *out;
	struct link *all;
	bool between; /* gradients, between two measurements */
	struct vec *x, *y;
	struct vec *fresh; /* is written before a measurement, as a gradient is: so that its lines
			      are in this core's cache alone; NULL = none */
	float *host[2];    /* [n] */
	struct table *table;
	struct table_op op; /* over it */
	enum cost cost;     /* or over vectors: what is measured */
	size_t n;
	double took[TIMES_MOST];
};

static double median(double *x, int n)
{
	qsort(x, (size_t)n, sizeof *x, by_value);
	return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

static void compute_between(struct bench *b)
{
	if (b->between) {
		b->w->workload->load(b->w);
		b->w->workload->gradient(b->w);
		device_sync(b->w->dev);
	}
	if (b->fresh)
		vec_fill(b->fresh, 1);
}

typedef void work_fn(struct bench *b);

/* Seconds of what, agreed on by all ranks: of a collective the shortest, else the mean. */
static double figure(struct bench *b, work_fn *what, bool collective)
{
	int times = TIMES_LEAST;
	for (int i = 0; i < times; i++) {
		compute_between(b);
		nsec since = clock_now();
		what(b);
		device_sync(b->w->dev);
		b->took[i] = 1e-9 * (double)(clock_now() - since);
		if (i == TIMES_LEAST / 2) { /* as many as all ranks have time for */
			double took = b->took[i];
			link_reduce_all(b->all, &took, 1, REDUCE_MAX);
			double wanted = took > 0 ? figure_s / took : TIMES_MOST;
			times = wanted > TIMES_MOST    ? TIMES_MOST
				: wanted < TIMES_LEAST ? TIMES_LEAST
						       : (int)wanted;
		}
	}
	if (collective)
		link_reduce_all(b->all, b->took, times, REDUCE_MIN);
	double m = median(b->took, times);
	link_reduce_all(b->all, &m, 1, REDUCE_SUM);
	return m / b->w->trainers;
}

/* ---- Passes over vectors ---- */

static void do_vectors(struct bench *b)
{
	struct worker *w = b->w;
	struct vec *v = b->n == vec_len(w->param) ? w->velocity : NULL;
	if (b->cost == COST_FILL)
		vec_fill(b->y, 1);
	else if (b->cost == COST_COPY)
		vec_copy(b->y, b->x);
	else if (b->cost == COST_SCALE)
		vec_scale(b->y, 0.5f);
	else if (b->cost == COST_AXPY)
		vec_axpy(b->y, 1e-3f, b->x);
	else
		vec_sgd(b->y, v, b->x, 0, v ? 0.9f : 0, 0, 1);
}

/* As a compression with error feedback does it: what is left over goes into the next. */
static void do_host(struct bench *b)
{
	float *restrict left = b->host[0];
	const float *restrict x = b->host[1];
	for (size_t i = 0; i < b->n; i++) {
		float sum = left[i] + x[i];
		left[i] = sum - (sum > 0 ? 0.5f : -0.5f);
	}
}

static void measure_host(struct bench *b)
{
	for (int k = 0; k < 2; k++)
		b->host[k] = must(calloc(b->n, sizeof(float)));
	points_add(b->out, cost_names[COST_HOST], (double)b->n, figure(b, do_host, false));
	for (int k = 0; k < 2; k++)
		free(b->host[k]);
}

static void measure_vectors(struct bench *b)
{
	static const enum cost cost[] = {COST_FILL, COST_COPY, COST_SCALE, COST_AXPY, COST_SGD};
	for (size_t i = 0; i < sizeof cost / sizeof *cost; i++) {
		b->cost = cost[i];
		points_add(b->out, cost_names[b->cost], (double)b->n, figure(b, do_vectors, false));
	}
}

/* ---- Operations on tables ---- */

static void do_op(struct bench *b)
{
	char *wrong = table_do(b->table, &b->op);
	CHECK(!wrong, "%s", wrong);
}

static void measure_tables(struct bench *b, struct tables *s)
{
	static const struct {
		enum cost cost;
		struct table_op op;
	} row[] = {{COST_READ, {.kind = OP_READ}},
		   {COST_PUSH, {.kind = OP_PUSH, .by = {.scale = 1e-3f}}},
		   {COST_SYNC, {.kind = OP_SYNC, .by = {.scale = 1}}},
		   {COST_ELASTIC, {.kind = OP_ELASTIC, .by = {.scale = 0.1f}}}};
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct table_rules r = {.rows = b->n,
					.columns = 1,
					.updater = updater_find("add"),
					.syncs = row[i].cost == COST_SYNC};
		char *wrong = table_open(&b->table, s, &r, NULL);
		CHECK(!wrong, "%s", wrong);
		b->op = row[i].op;
		b->op.in = row[i].cost == COST_PUSH ? b->x->data : NULL;
		b->op.out = b->y->data;
		b->op.pull = true;
		points_add(b->out, cost_names[row[i].cost], (double)b->n, figure(b, do_op, false));
		table_close(b->table);
	}
}

/* ---- Waking ---- */

struct bed {
	struct monitor monitor;
	int64_t nights, rings; /* slept through, until a ring */
	nsec rang;
};

/* Rank 1 sleeps, for about a step; rank 0 rings. From the ring until it goes on [s]. */
static double sleep_once(struct bench *b, struct bed *bed)
{
	double took = 0;
	if (b->w->rank == 1) {
		monitor_lock(&bed->monitor);
		for (bed->nights++; bed->rings < bed->nights;)
			monitor_wait(&bed->monitor);
		took = 1e-9 * (double)(clock_now() - bed->rang);
		monitor_unlock(&bed->monitor);
	} else if (b->w->rank == 0) {
		for (bool asleep = false; !asleep;) {
			compute_between(b);
			monitor_lock(&bed->monitor);
			asleep = bed->nights > bed->rings;
			monitor_unlock(&bed->monitor);
		}
		compute_between(b);
		monitor_lock(&bed->monitor);
		bed->rings++;
		bed->rang = clock_now();
		monitor_broadcast(&bed->monitor);
		monitor_unlock(&bed->monitor);
	}
	return took;
}

static void measure_waking(struct bench *b)
{
	enum { NIGHTS = 101 };
	void *handle;
	struct bed *bed = link_shared_new(b->all, sizeof *bed, &handle);
	if (b->w->rank == 0)
		monitor_init(&bed->monitor);
	link_barrier(b->all);
	for (int i = 0; i < NIGHTS; i++)
		b->took[i] = sleep_once(b, bed);
	double m = median(b->took, NIGHTS);
	link_reduce_all(b->all, &m, 1, REDUCE_MAX);
	points_add(b->out, cost_names[COST_WAKE], 1, m);
	link_shared_free(bed, handle);
}

/* ---- Messages ---- */

static void do_allreduce(struct bench *b)
{
	link_allreduce(b->all, vec_floats(b->y, 0), b->n);
	world_charge_sum(b->n, b->w->trainers);
}

/* Half the way there and back, between ranks 0 and 1. */
static double message(struct bench *b)
{
	int rank = b->w->rank, times = TIMES_LEAST;
	float *out = vec_floats(b->x, 0), *in = vec_floats(b->y, 0);
	for (int i = 0; rank < 2 && i < times; i++) {
		vec_fill(b->x, 1); /* as a model is, between two messages */
		nsec since = clock_now();
		for (int k = 0; k < 2; k++)
			if (rank == k)
				link_send_plain(b->all, 1 - k, out, b->n);
			else
				link_recv(b->all, k, in, b->n);
		b->took[i] = 0.5e-9 * (double)(clock_now() - since);
		if (i == TIMES_LEAST / 2)
			times = b->n <= 65536 ? 201 : 41;
	}
	double m = rank < 2 ? median(b->took, times) : 0;
	link_reduce_all(b->all, &m, 1, REDUCE_MAX);
	return m;
}

static void measure_messages(struct bench *b)
{
	points_add(b->out, "message", (double)(b->n * sizeof(float)), message(b));
	b->fresh = b->y;
	points_add(b->out, "allreduce", (double)b->n, figure(b, do_allreduce, true));
	b->fresh = NULL;
}

/* ---- All of it ---- */

static void measure_length(struct bench *b, struct tables *s)
{
	b->x = vec_new(b->w, b->n);
	b->y = vec_new(b->w, b->n);
	bool far = b->w->dev->ops->peer; /* a GPU's floats: only what it computes */
	if (s) {
		measure_vectors(b);
		measure_host(b);
	}
	if (s && !far)
		measure_tables(b, s);
	if (b->w->trainers > 1 && !far)
		measure_messages(b);
	vec_free(b->x);
	vec_free(b->y);
}

static bool is_cheap(struct bench *b)
{
	nsec since = clock_now();
	b->between = true;
	compute_between(b);
	double took = (double)(clock_now() - since);
	link_reduce_all(b->all, &took, 1, REDUCE_MAX);
	return took < BETWEEN_NS;
}

void measure_costs(struct worker *w, struct points *out)
{
	struct bench b = {.w = w, .out = out, .all = comm_link(w->all)};
	size_t params = vec_len(w->param);
	struct tables *s = NULL;
	if (!world_is_virtual) {
		char *wrong =
			tables_open(&s, b.all, b.all, w->rank, w->trainers, 0, "auto", NULL, NULL);
		CHECK(!wrong, "%s", wrong);
		b.between = is_cheap(&b);
		if (w->trainers > 1)
			measure_waking(&b);
	}
	for (size_t i = 0, before = 0; i <= LENGTHS; before = b.n, i++) {
		size_t next = i < LENGTHS ? lengths[i] : SIZE_MAX;
		b.n = params;
		if (before < params && params < next)
			measure_length(&b, s);
		b.n = next;
		if (i < LENGTHS)
			measure_length(&b, s);
	}
	tables_close(s);
}

/* ---- Steps ---- */

void measure_steps(struct worker *w, const float *step, size_t n, int repetition,
		   struct points *out)
{
	size_t bytes;
	float *pool AUTOFREE = link_gather_parts(comm_link(w->all), step, n * sizeof *step, &bytes);
	if (pool)
		steps_points(out, pool, bytes / sizeof *pool, repetition);
}
