/*
 * measure.c - workers measure what the simulator needs to know about a machine. The same code
 * measures a simulated machine, which shows what the simulator predicts for each figure.
 *
 * Costs are measured under training conditions: between two measurements the worker computes a
 * gradient, which fills the caches as in training. All workers do so at the same time. A figure is
 * the median of several measurements. With less than a second for it, each is measured less often.
 */
#include "sim/sim.h"

#include <math.h>
#include <stdlib.h>

enum {
	TIMES_LEAST = 9,
	TIMES_LONG = 3, /* of a gradient that takes longer than BETWEEN_NS */
	TIMES_MOST = 301,
	TIMES_FEW = 41,       /* at most, of one of many figures */
	BETWEEN_NS = 2000000, /* a gradient between two measurements takes at most this */
};
/* Time for a figure, if `seconds` is 1; of a wire, likewise, and the most for a message. */
static const double figure_s = 0.04, wire_s = 0.3, wire_longest_s = 0.5;

/* [floats]. The number of the workload's parameters is added. Lengths that are above ALWAYS and
 * above four times the parameters are left out, because no operation is as long. */
static const size_t lengths[] = {1,     256,    2048,   8192,    16384,  32768,
				 65536, 131072, 262144, 1048576, 4194304};
enum { LENGTHS = sizeof lengths / sizeof *lengths, ALWAYS = 65536 };

struct bench {
	struct worker *w;
	struct points *out;
	struct link *all;
	double share; /* of the intended number of measurements, above 0; at most 1 */
	/* A figure is measured at least and at most so often, and as often as fits into this time
	 * [s]. The first measurement decides that, and does not count; or one in the middle of the
	 * fewest, which does. */
	int least, most;
	double figure_s;
	bool first_decides;
	bool between; /* compute a gradient between two measurements */
	struct vec *x, *y;
	struct vec *fresh; /* written before each measurement, as a gradient is: its lines are then
			      in this core's cache only; NULL = none */
	float *host[2];    /* [n] */
	const struct codec *codec;
	struct code code;
	float *wire[2]; /* messages of two rounds */
	struct table *table;
	struct table_op op; /* on the table */
	enum cost cost;     /* what is measured; without a table, on vectors */
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
		b->w->model->workload->load(b->w);
		b->w->model->workload->gradient(b->w);
		device_sync(b->w->loop->dev);
	}
	if (b->fresh)
		vec_fill(b->fresh, 1);
}

/* `wanted` measurements, within the bounds and scaled by the share. */
static int times_of(const struct bench *b, double wanted)
{
	return (int)fmax(b->share * fmin(wanted, b->most), b->least);
}

static struct bench bench_of(struct worker *w, double seconds, struct points *out)
{
	return (struct bench){.w = w,
			      .out = out,
			      .all = comm_link(w->all),
			      .share = fmin(seconds, 1),
			      .least = TIMES_LEAST,
			      .most = TIMES_MOST,
			      .figure_s = figure_s};
}

typedef void work_fn(struct bench *b);

/* Whose time counts: the mean over the ranks; the shortest, of a collective; or that of ranks 0 and
 * 1, which do the work. (In a collective, the last rank to arrive does not wait.) */
enum whose { EACH, ALL, PAIR };

/* Seconds of `what`, the same on all ranks. */
static double figure(struct bench *b, work_fn *what, enum whose whose)
{
	int pilot = b->first_decides ? -1 : TIMES_LEAST / 2, times = TIMES_LEAST;
	for (int i = b->first_decides ? -1 : 0; i < times; i++) {
		compute_between(b);
		pulse_step();
		nsec since = clock_now();
		what(b);
		device_sync(b->w->loop->dev);
		double took = 1e-9 * (double)(clock_now() - since);
		if (i >= 0)
			b->took[i] = took;
		if (i == pilot) { /* the number that all ranks have time for */
			link_reduce_all(b->all, &took, 1, REDUCE_MAX);
			times = times_of(b, b->figure_s / took);
		}
	}
	if (whose == ALL)
		link_reduce_all(b->all, b->took, times, REDUCE_MIN);
	double m = median(b->took, times);
	link_reduce_all(b->all, &m, 1, whose == PAIR ? REDUCE_MAX : REDUCE_SUM);
	return whose == PAIR ? m : m / b->w->trainers;
}

/* ---- Layers ---- */

/* In which a gradient computes each layer, and its forward pass: if the workload knows. */
static void measure_layers(struct bench *b)
{
	struct worker *w = b->w;
	const struct workload *of = w->model->workload;
	const size_t n = w->model->layers + 1;
	const int times = b->between ? TIMES_LEAST : TIMES_LONG;
	double *took AUTOFREE = must(calloc(n * (size_t)times, sizeof *took));
	bool known = of->layer_times;
	for (int t = 0; t < times && known; t++) {
		pulse_step();
		of->load(w);
		known = of->layer_times(w, took + n * (size_t)t);
	}
	for (size_t i = 0; i < n && known; i++) {
		for (int t = 0; t < times; t++)
			b->took[t] = took[n * (size_t)t + i];
		double m = median(b->took, times);
		link_reduce_all(b->all, &m, 1, REDUCE_SUM);
		points_add(b->out, "layer", (double)i, m / w->trainers);
	}
}

/* ---- Passes over vectors ---- */

static void do_vectors(struct bench *b)
{
	struct worker *w = b->w;
	bool model = b->n == vec_len(w->param);
	if (b->cost == COST_FILL)
		vec_fill(b->y, 1);
	else if (b->cost == COST_COPY)
		vec_copy(b->y, b->x);
	else if (b->cost == COST_SCALE)
		vec_scale(b->y, 0.5f);
	else if (b->cost == COST_AXPY)
		vec_axpy(b->y, 1e-3f, b->x);
	else if (model) /* with a learning rate of 0 */
		common_step(w);
	else
		vec_sgd(b->y, NULL, b->x, 0, 0, 0, 1);
}

/* As compression with error feedback does it: the remainder is added to the next input. */
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
	points_add(b->out, cost_names[COST_HOST], (double)b->n, figure(b, do_host, EACH));
	for (int k = 0; k < 2; k++)
		free(b->host[k]);
}

static void measure_vectors(struct bench *b)
{
	b->w->lr = 0;
	static const enum cost cost[] = {COST_FILL, COST_COPY, COST_SCALE, COST_AXPY, COST_SGD};
	for (size_t i = 0; i < sizeof cost / sizeof *cost; i++) {
		b->cost = cost[i];
		points_add(b->out, cost_names[b->cost], (double)b->n, figure(b, do_vectors, EACH));
	}
}

/* ---- Codecs ---- */

/* In all its rounds. */
static void do_encode(struct bench *b)
{
	struct code *c = &b->code;
	c->round = 0;
	do {
		c->sum = c->round ? b->wire[(c->round - 1) & 1] : NULL;
		b->codec->encode(c, b->wire[c->round & 1], b->host[0]);
	} while (++c->round < b->codec->rounds);
	c->round--;
}

static void do_decode(struct bench *b)
{
	b->codec->decode(&b->code, b->host[1], b->wire[b->code.round & 1], false);
}

static void measure_codec(struct bench *b, const struct codec *k)
{
	const struct plugin *p = &k->plugin;
	const struct model *m = b->w->model;
	void *opts AUTOFREE = must(calloc(1, p->opts_size + 1));
	char *encode AUTOFREE = sentence("encode_%s", p->name),
		     *decode AUTOFREE = sentence("decode_%s", p->name);
	option_default(p->options, opts);
	b->codec = k;
	b->code = (struct code){
		.opts = opts, .n = b->n, .tensor = m->tensor, .tensors = m->tensors, .workers = 1};
	b->code.state = k->state ? must(calloc(k->state(&b->code) + 1, sizeof(float))) : NULL;
	size_t bytes = 0;
	int rounds = k->rounds ? k->rounds : 1;
	for (; b->code.round < rounds; b->code.round++)
		bytes = k->bytes(&b->code) > bytes ? k->bytes(&b->code) : bytes;
	for (int i = 0; i < 2; i++)
		b->wire[i] = must(calloc(bytes + sizeof(float), 1));
	points_add(b->out, encode, (double)b->n, figure(b, do_encode, EACH) / rounds);
	points_add(b->out, decode, (double)b->n, figure(b, do_decode, EACH));
	for (int i = 0; i < 2; i++)
		free(b->wire[i]);
	free(b->code.state);
}

/* Each codec with its default options, of the whole model. Most of the floats are small, as those
 * of a gradient are: a search for the largest ones depends on that. */
static void measure_codecs(struct bench *b)
{
	struct bench own = *b;
	own.most = TIMES_FEW;
	for (int k = 0; k < 2; k++)
		own.host[k] = must(calloc(b->n, sizeof(float)));
	for (size_t i = 0; i < b->n; i++) {
		float u = code_uniform(1, i) - 0.5f;
		own.host[0][i] = u * u * u;
	}
	for (size_t i = 0; codecs[i]; i++)
		if (codecs[i]->encode)
			measure_codec(&own, codecs[i]);
	for (int k = 0; k < 2; k++)
		free(own.host[k]);
}

/* ---- Operations on tables ---- */

static void do_op(struct bench *b)
{
	char *wrong = table_do(b->table, &b->op);
	CHECK(!wrong, "%s", wrong);
}

static void measure_table(struct bench *b, struct tables *s, const char *name,
			  const struct table_op *op, const struct updater *u)
{
	struct table_rules r = {
		.rows = b->n, .columns = 1, .updater = u, .syncs = op->kind == OP_SYNC};
	char *wrong = table_open(&b->table, s, &r, NULL);
	CHECK(!wrong, "%s", wrong);
	b->op = *op;
	b->op.in = op->kind == OP_PUSH ? b->x->data : NULL;
	b->op.out = b->y->data;
	b->op.pull = true;
	points_add(b->out, name, (double)b->n, figure(b, do_op, EACH));
	table_free(b->table);
}

/* A push with each updater that takes gradients, of the whole model. */
static void measure_updaters(struct bench *b, struct tables *s)
{
	const struct table_op push = {.kind = OP_PUSH,
				      .by = {.lr = 1e-3f,
					     .momentum = 0.9f,
					     .rho = 1e-3f,
					     .lambda = 0.1f,
					     .beta = {0.9, 0.999},
					     .eps = 1e-8f}};
	for (size_t i = 0; updaters[i]; i++)
		if (updaters[i]->wants.gradient || updaters[i]->wants.change) {
			char *name AUTOFREE = sentence("push_%s", updaters[i]->name);
			measure_table(b, s, name, &push, updaters[i]);
		}
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
	for (size_t i = 0; i < sizeof row / sizeof *row; i++)
		measure_table(b, s, cost_names[row[i].cost], &row[i].op, updater_find("add"));
	if (b->n == vec_len(b->w->param))
		measure_updaters(b, s);
}

/* ---- Wake-up ---- */

struct wakeup_probe {
	struct monitor monitor;
	int64_t waits, wakeups; /* waits so far; wake-up signals so far */
	nsec signalled_at;
};

/* Rank 1 sleeps for about a step; rank 0 wakes it. The time from the signal until it resumes [s].
 */
static double sleep_once(struct bench *b, struct wakeup_probe *probe)
{
	double took = 0;
	if (b->w->rank == 1) {
		monitor_lock(&probe->monitor);
		for (probe->waits++; probe->wakeups < probe->waits;)
			monitor_wait(&probe->monitor, 0);
		took = 1e-9 * (double)(clock_now() - probe->signalled_at);
		monitor_unlock(&probe->monitor);
	} else if (b->w->rank == 0) {
		for (bool asleep = false; !asleep;) {
			compute_between(b);
			monitor_lock(&probe->monitor);
			asleep = probe->waits > probe->wakeups;
			monitor_unlock(&probe->monitor);
		}
		compute_between(b);
		monitor_lock(&probe->monitor);
		probe->wakeups++;
		probe->signalled_at = clock_now();
		monitor_broadcast(&probe->monitor);
		monitor_unlock(&probe->monitor);
	}
	return took;
}

static void measure_waking(struct bench *b)
{
	int waits = times_of(b, 101);
	void *handle;
	struct wakeup_probe *probe = link_shared_new(b->all, sizeof *probe, &handle);
	if (b->w->rank == 0)
		monitor_init(&probe->monitor);
	link_barrier(b->all);
	for (int i = 0; i < waits; i++)
		b->took[i] = sleep_once(b, probe);
	double m = median(b->took, waits);
	link_reduce_all(b->all, &m, 1, REDUCE_MAX);
	points_add(b->out, cost_names[COST_WAKE], 1, m);
	link_shared_free(probe, handle);
}

/* ---- Messages ---- */

static void do_allreduce(struct bench *b)
{
	link_allreduce(b->all, vec_floats(b->y, 0), b->n, COMM_SUM);
	world_charge_sum(b->n, b->w->trainers);
}

static void there_and_back(struct bench *b)
{
	int rank = b->w->rank;
	for (int k = 0; k < 2 && rank < 2; k++)
		if (rank == k)
			link_send_plain(b->all, 1 - k, vec_floats(b->x, 0), b->n * sizeof(float));
		else
			link_recv(b->all, k, vec_floats(b->y, 0), b->n);
}

static void measure_messages(struct bench *b)
{
	struct bench pair = *b;
	pair.between = false;
	pair.fresh = b->w->rank < 2 ? b->x : NULL; /* as a model is written between two messages */
	pair.figure_s = INFINITY;
	pair.most = b->n <= 65536 ? 201 : 41;
	points_add(b->out, "message", (double)(b->n * sizeof(float)),
		   figure(&pair, there_and_back, PAIR) / 2);
	b->fresh = b->y;
	points_add(b->out, "allreduce", (double)b->n, figure(b, do_allreduce, ALL));
	b->fresh = NULL;
}

/* ---- All measurements ---- */

static void measure_length(struct bench *b, struct tables *s)
{
	b->x = vec_new(b->w, b->n);
	b->y = vec_new(b->w, b->n);
	bool far = b->w->loop->dev->ops->peer; /* a GPU's floats: only computations are measured */
	if (s) {
		measure_vectors(b);
		measure_host(b);
	}
	if (s && b->n == vec_len(b->w->param))
		measure_codecs(b);
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

void measure_costs(struct worker *w, double seconds, struct points *out)
{
	struct bench b = bench_of(w, seconds, out);
	size_t params = vec_len(w->param);
	struct tables *s = NULL;
	if (!world_is_virtual) {
		char *wrong =
			tables_open(&s, b.all, b.all, w->rank, w->trainers, 0, "auto", NULL, NULL);
		CHECK(!wrong, "%s", wrong);
		b.between = is_cheap(&b);
		measure_layers(&b);
		if (w->trainers > 1)
			measure_waking(&b);
	}
	size_t n = LENGTHS, longest = params > ALWAYS / 4 ? 4 * params : ALWAYS;
	while (lengths[n - 1] > longest)
		n--;
	for (size_t i = 0, before = 0; i <= n; before = b.n, i++) {
		size_t next = i < n ? lengths[i] : SIZE_MAX;
		b.n = params;
		if (before < params && params < next)
			measure_length(&b, s);
		b.n = next;
		if (i < n)
			measure_length(&b, s);
	}
	tables_close(s);
}

/* ---- Network links between hosts ---- */

/* [floats], up to the first that takes too long */
static const size_t wire_lengths[] = {1,     16,    128,    1024,   4096,    8192,
				      16384, 65536, 131072, 524288, 2097152, 4194304};

static void both_ways(struct bench *b)
{
	int peer = 1 - b->w->rank;
	if (b->w->rank < 2)
		link_shift(b->all, peer, vec_floats(b->x, 0), peer, vec_floats(b->y, 0), b->n);
}

void measure_wires(struct worker *w, double seconds, struct points *out)
{
	struct bench b = bench_of(w, seconds, out);
	double message = 0;
	b.first_decides = true; /* in the first, TCP finds its speed */
	b.figure_s = wire_s;
	b.least = world_is_virtual ? 1 : 3;
	b.most = world_is_virtual ? 1 : TIMES_MOST;
	for (size_t i = 0; i < sizeof wire_lengths / sizeof *wire_lengths; i++) {
		b.n = wire_lengths[i];
		if (message * (double)b.n > wire_longest_s * (double)wire_lengths[i - (i > 0)])
			break;
		b.x = vec_new(w, b.n);
		b.y = vec_new(w, b.n);
		double bytes = (double)(b.n * sizeof(float));
		message = figure(&b, there_and_back, PAIR) / 2;
		points_add(out, "message", bytes, message);
		points_add(out, "both", bytes, figure(&b, both_ways, PAIR));
		points_add(out, "allreduce", (double)b.n, figure(&b, do_allreduce, ALL));
		vec_free(b.x);
		vec_free(b.y);
	}
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
