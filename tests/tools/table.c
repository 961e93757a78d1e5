/*
 * table.c - tests of parameter-server tables that run on every worker:
 *   mpirun -n WORKERS+SERVERS table PLACEMENT SERVERS
 * Ends with status 0 and "ok", or prints what failed and ends all ranks. The expected contents of a
 * table are known: pushes are small whole numbers, which floats add without rounding, or one worker
 * alone repeats the same arithmetic. With PLACEMENT gpu, pushed and pulled floats are copied to the
 * worker's GPU and back.
 */
#include "runtime/config/run.h"
#include "runtime/table/blocks.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static struct {
	struct tables *tables;
	struct link *all;
	int rank, size, servers;
	bool onesided;
	struct device *gpu; /* NULL: the placements of the host */
	double rounding;    /* error of the same arithmetic elsewhere */
} us;

/* ---- Helpers ----------------------------------------------------------------- */

static struct table *open_with(struct table_rules r, const float *init)
{
	struct table *t;
	if (!r.updater)
		r.updater = updater_find("add");
	if (!r.columns)
		r.columns = 1;
	char *wrong = table_open(&t, us.tables, &r, init);
	CHECK(!wrong, "%s", wrong);
	return t;
}

/* The operation as the table needs it: with gpu, its floats are copied to memory on the GPU. */
static struct table_op bring(struct table *t, struct table_op p)
{
	const struct device_ops *ops = us.gpu ? us.gpu->ops : NULL;
	size_t n = p.row ? p.rows * t->rules.columns : t->n;
	float *in = us.gpu && p.in ? ops->alloc(us.gpu, n) : NULL;
	float *out = us.gpu && p.out ? ops->alloc(us.gpu, n) : NULL;
	if (in)
		ops->put(us.gpu, in, p.in, n);
	if (out)
		ops->put(us.gpu, out, p.out, n);
	p.in = in ? in : p.in;
	p.out = out ? out : p.out;
	return p;
}

/* Copies the results of an operation of bring() to p, and frees its memory on the GPU. */
static void fetch(struct table *t, struct table_op *p, struct table_op there)
{
	float *in = (float *)there.in, *out = there.out;
	size_t n = p->row ? p->rows * t->rules.columns : t->n;
	if (us.gpu && out)
		us.gpu->ops->get(us.gpu, p->out, out, n);
	if (us.gpu && out)
		us.gpu->ops->free(us.gpu, out, n);
	if (us.gpu && in)
		us.gpu->ops->free(us.gpu, in, n);
	there.in = p->in;
	there.out = p->out;
	*p = there;
}

static struct table_op do_op(struct table *t, struct table_op p)
{
	if (p.kind != OP_PUSH && p.by.scale == 0)
		p.by.scale = 1;
	struct table_op there = bring(t, p);
	char *wrong = table_do(t, &there);
	CHECK(!wrong, "%s", wrong);
	fetch(t, &p, there);
	return p;
}

static void refused(char *wrong, const char *says)
{
	CHECK(wrong && strstr(wrong, says), "\"%s\" instead of a message with \"%s\"",
	      wrong ? wrong : "nothing", says);
	free(wrong);
}

static void barrier(void)
{
	tables_leave(us.tables, AWAY, true);
	link_barrier(us.all);
	tables_leave(us.tables, BACK, true);
	link_barrier(us.all);
}

static float *floats(size_t n, float a)
{
	float *x = must(malloc((n + 1) * sizeof *x));
	for (size_t i = 0; i < n; i++)
		x[i] = a;
	return x;
}

static void all_are(const float *x, size_t n, double a, const char *what)
{
	for (size_t i = 0; i < n; i++)
		CHECK(x[i] == (float)a, "%s: float %zu of %zu is %g, not %g", what, i, n,
		      (double)x[i], a);
}

static const struct push unit = {.scale = 1};

/* ---- Adds and gets ----------------------------------------------------------- */

static void adds(size_t n)
{
	enum { PUSHES = 50 };
	struct table *t = open_with((struct table_rules){.rows = n}, NULL);
	float *in AUTOFREE = floats(n, (float)(us.rank + 1)), *out AUTOFREE = floats(n, -1);
	double sum = us.size * (us.size + 1) / 2.0;
	int64_t stale = 0;
	for (int i = 0; i < PUSHES; i++)
		stale += do_op(t, (struct table_op){.kind = OP_PUSH,
						    .in = in,
						    .out = i % 2 ? out : NULL,
						    .pull = i % 2,
						    .by = unit})
				 .staleness;
	CHECK(us.size > 1 || stale == 0, "a single worker has staleness %d", (int)stale);
	barrier();
	do_op(t, (struct table_op){.kind = OP_READ, .out = out});
	all_are(out, n, PUSHES * sum, "a table after the adds of all workers");
	barrier();
	int64_t version = us.tables->placement->version(t);
	CHECK(version == (int64_t)PUSHES * us.size, "version %d after %d pushes", (int)version,
	      PUSHES * us.size);
	barrier();
	table_free(t);
}

/* Workers push in turn: the staleness of a push is the number of others' since its last pull. */
static void staleness_in_turn(void)
{
	enum { N = 100 };
	struct table *t = open_with((struct table_rules){.rows = N}, NULL);
	float *in AUTOFREE = floats(N, 1), *out AUTOFREE = floats(N, 0);
	for (int round = 0; round < 6; round++)
		for (int turn = 0; turn < us.size; turn++) {
			barrier();
			if (turn != us.rank)
				continue;
			int met = round == 0 ? turn : us.size - 1;
			if (round == 4) {
				do_op(t,
				      (struct table_op){.kind = OP_READ, .out = out, .pull = true});
				met = 0;
			}
			struct table_op p = do_op(t, (struct table_op){.kind = OP_PUSH,
								       .in = in,
								       .out = out,
								       .pull = true,
								       .by = unit});
			CHECK(p.staleness == met, "round %d of %d workers: staleness %d, not %d",
			      round, us.size, (int)p.staleness, met);
		}
	barrier();
	table_free(t);
}

static void rows(size_t count, size_t columns)
{
	struct table *t = open_with((struct table_rules){.rows = count, .columns = columns}, NULL);
	size_t n = count * columns;
	float *in AUTOFREE = floats(3 * columns + n, 1),
		  *out AUTOFREE = floats(3 * columns + n, -1);
	int64_t last = (int64_t)count - 1, middle = last / 2;
	int64_t thrice[] = {last, 0, last}; /* any order, and one twice */
	for (int i = 0; i < 10; i++) {
		do_op(t, (struct table_op){
				 .kind = OP_PUSH, .in = in, .row = thrice, .rows = 3, .by = unit});
		do_op(t, (struct table_op){.kind = OP_PUSH, .in = in, .by = unit});
		do_op(t, (struct table_op){
				 .kind = OP_PUSH, .in = in, .row = &middle, .rows = 1, .by = unit});
	}
	barrier();
	int64_t ask[] = {middle, last, 0};
	do_op(t, (struct table_op){.kind = OP_READ, .out = out, .row = ask, .rows = 3});
	do_op(t, (struct table_op){.kind = OP_READ, .out = out + 3 * columns});
	double each = 10.0 * us.size;
	for (size_t k = 0; k < 3; k++) {
		double want =
			each * (1 + (ask[k] == middle) + 2 * (ask[k] == last) + (ask[k] == 0));
		all_are(out + k * columns, columns, want, "a row that was asked for");
		all_are(out + (3 + (size_t)ask[k]) * columns, columns, want, "the same row of all");
	}
	if (count > 3)
		all_are(out + (3 + 1) * columns, columns, each * (1 + (middle == 1)),
			"a row of adds of whole tables only");
	int64_t beyond = (int64_t)count, below = -1;
	struct table_op p = {.kind = OP_READ, .out = out, .row = &beyond, .rows = 1};
	refused(table_do(t, &p), "rows 0 to");
	p.row = &below;
	refused(table_do(t, &p), "row -1 of");
	barrier();
	table_free(t);
}

static void several_at_once(void)
{
	enum { TABLES = 5 };
	struct table *t[TABLES];
	for (size_t i = 0; i < TABLES; i++)
		t[i] = open_with((struct table_rules){.rows = 10 + i}, NULL);
	float *in AUTOFREE = floats(20, 1), *out AUTOFREE = floats(20, 0);
	for (size_t i = 0; i < TABLES; i++)
		for (size_t k = 0; k <= i; k++)
			do_op(t[i], (struct table_op){.kind = OP_PUSH, .in = in, .by = unit});
	barrier();
	for (size_t i = 0; i < TABLES; i++) {
		do_op(t[i], (struct table_op){.kind = OP_READ, .out = out});
		all_are(out, 10 + i, (double)(i + 1) * us.size, "one of several tables");
	}
	barrier();
	for (size_t i = 0; i < TABLES; i++)
		table_free(t[(i + 2) % TABLES]);
}

static void initial_values(void)
{
	enum { N = 1003 };
	static const enum table_init how[] = {TABLE_MASTER, TABLE_AVERAGE, TABLE_SUM};
	double sum = 0;
	float *init AUTOFREE = floats(N, (float)(us.rank + 2)), *out AUTOFREE = floats(N, 0);
	for (int k = 0; k < us.size; k++)
		sum += k + 2;
	double want[] = {2, sum / us.size, sum};
	for (int i = 0; i < 3; i++) {
		struct table *t = open_with((struct table_rules){.rows = N, .init = how[i]}, init);
		do_op(t, (struct table_op){.kind = OP_READ, .out = out});
		all_are(out, N, want[i], "an initial value");
		barrier();
		table_free(t);
	}
	struct table *t = open_with((struct table_rules){.rows = N}, us.rank == 0 ? init : NULL);
	do_op(t, (struct table_op){.kind = OP_READ, .out = out});
	all_are(out, N, 2, "the master's initial value, when the others gave none");
	barrier();
	table_free(t);
}

static void starting_and_waiting(void)
{
	enum { N = 5000, AT_ONCE = 4 };
	struct table *t = open_with((struct table_rules){.rows = N}, NULL);
	float *in[AT_ONCE], *out AUTOFREE = floats(N, 0);
	struct table_op push[AT_ONCE], there[AT_ONCE];
	for (int i = 0; i < AT_ONCE; i++) {
		in[i] = floats(N, (float)(1 << i));
		push[i] = (struct table_op){.kind = OP_PUSH, .in = in[i], .by = unit};
		there[i] = bring(t, push[i]);
		char *wrong = table_start(t, &there[i]);
		CHECK(!wrong, "%s", wrong);
	}
	for (int i = AT_ONCE; i-- > 0;) {
		char *wrong = table_wait(t, &there[i]);
		CHECK(!wrong, "%s", wrong);
		CHECK(!there[i].under_way, "still pending after table_wait");
		fetch(t, &push[i], there[i]);
	}
	barrier();
	struct table_op get = {.kind = OP_READ, .out = out}, got = bring(t, get);
	char *wrong = table_start(t, &got);
	CHECK(!wrong, "%s", wrong);
	wrong = table_wait(t, &got);
	CHECK(!wrong, "%s", wrong);
	fetch(t, &get, got);
	all_are(out, N, ((1 << AT_ONCE) - 1) * us.size, "a table after started adds");
	barrier();
	table_free(t);
	for (int i = 0; i < AT_ONCE; i++)
		free(in[i]);
}

/* ---- Syncs and elastic moves ---------------------------------------------------- */

static void syncs(size_t n)
{
	enum { SYNCS = 40 };
	float *param AUTOFREE = floats(n, us.rank == 0 ? 5 : 99), *out AUTOFREE = floats(n, 0);
	struct table *t = open_with((struct table_rules){.rows = n, .syncs = true}, param);
	do_op(t, (struct table_op){.kind = OP_READ, .out = param, .pull = true});
	all_are(param, n, 5, "the first pull");
	barrier();
	for (int i = 0; i < SYNCS; i++) {
		for (size_t k = 0; k < n; k++)
			param[k] += (float)(us.rank + 1);
		do_op(t, (struct table_op){.kind = OP_SYNC, .out = param, .pull = true});
	}
	barrier();
	do_op(t, (struct table_op){.kind = OP_READ, .out = out});
	all_are(out, n, 5 + SYNCS * us.size * (us.size + 1) / 2.0, "a table after syncs");
	barrier();
	table_free(t);
}

static void elastic(void)
{
	enum { N = 20011, MOVES = 60 };
	float *param AUTOFREE = floats(N, (float)(us.rank + 1)), *centre AUTOFREE = floats(N, 0);
	struct table *t = open_with((struct table_rules){.rows = N}, NULL);
	for (int i = 0; i < MOVES; i++)
		do_op(t, (struct table_op){.kind = OP_ELASTIC,
					   .out = param,
					   .pull = true,
					   .by = {.scale = 0.9f / (float)us.size}});
	barrier();
	do_op(t, (struct table_op){.kind = OP_READ, .out = centre});
	double sum[2] = {param[0], param[N - 1]}, want = us.size * (us.size + 1) / 2.0;
	link_reduce_all(us.all, sum, 2, REDUCE_SUM);
	for (int i = 0; i < 2; i++) {
		double kept = sum[i] + centre[i ? N - 1 : 0];
		CHECK(fabs(kept - want) <= 1e-6 * want * MOVES,
		      "after elastic moves the sum is %g, not %g", kept, want);
	}
	CHECK(centre[7] > 0.3, "the centre stays at %g", (double)centre[7]);
	barrier();
	table_free(t);
}

/* ---- Rounds and staleness bounds -------------------------------------------------- */

enum { N_ROUNDS = 30000 };

/* A read during a pending push waits for the push's round, and leaves its result to it. A second
 * push is refused. Every float except the first has the value `before`. */
static void started_in_rounds(struct table *t, float *in, float *out, double before)
{
	for (size_t k = 0; k < N_ROUNDS; k++)
		in[k] = 1;
	for (int i = 0; i < 10; i++) {
		struct table_op push = {.kind = OP_PUSH, .in = in, .by = unit};
		struct table_op read = {.kind = OP_READ, .out = out, .pull = true};
		if (us.rank == 0)
			usleep(500);
		struct table_op there = bring(t, push);
		char *wrong = table_start(t, &there);
		CHECK(!wrong, "%s", wrong);
		refused(table_start(t, &push), "once a round");
		refused(table_do(t, &push), "once a round");
		do_op(t, read);
		before += us.size;
		all_are(out + 1, N_ROUNDS - 1, before, "a read during a pending push");
		wrong = table_wait(t, &there);
		CHECK(!wrong, "%s", wrong);
		fetch(t, &push, there);
	}
	barrier();
}

static void rounds(void)
{
	enum { N = N_ROUNDS, ROUNDS = 30 };
	struct table *t = open_with((struct table_rules){.rows = N, .rounds = true}, NULL);
	float *in AUTOFREE = floats(N, 0), *out AUTOFREE = floats(N, 0);
	double want = 0;
	for (int i = 1; i <= ROUNDS; i++) {
		for (size_t k = 0; k < N; k++)
			in[k] = (float)(i + us.rank);
		for (int k = 0; k < us.size; k++)
			want += i + k;
		if ((i + us.rank) % 3 == 0)
			usleep(2000);
		struct table_op p = do_op(
			t,
			(struct table_op){
				.kind = OP_PUSH, .in = in, .out = out, .pull = true, .by = unit});
		all_are(out, N, want, "the pull of a round");
		CHECK(p.staleness == 0 && !p.dropped, "a push in a round has staleness %d",
		      (int)p.staleness);
	}
	/* only row 0 is pushed: the other rows have to pass from round to round */
	int64_t first = 0;
	for (int i = 1; i <= 3; i++)
		do_op(t, (struct table_op){.kind = OP_PUSH,
					   .in = in,
					   .out = out,
					   .row = &first,
					   .rows = 1,
					   .by = unit});
	barrier();
	do_op(t, (struct table_op){.kind = OP_READ, .out = out});
	all_are(out + 1, N - 1, want, "rows that three rounds did not touch");
	barrier();
	started_in_rounds(t, in, out, want);
	/* incomplete: worker 0 leaves for a barrier, the others push once more */
	if (us.size > 1 && us.rank != 0) {
		struct table_op p = {
			.kind = OP_PUSH, .in = in, .out = out, .pull = true, .by = unit};
		struct table_op there = bring(t, p);
		refused(table_do(t, &there), "worker 0");
		refused(table_do(t, &there), "accepts no more pushes");
		fetch(t, &p, there);
	}
	barrier();
	table_free(t);
}

static void rounds_with_backup(void)
{
	enum { N = 20000, ROUNDS = 40 };
	if (us.onesided || us.size < 3)
		return;
	struct table *t =
		open_with((struct table_rules){.rows = N, .rounds = true, .backup = 1}, NULL);
	float *in AUTOFREE = floats(N, 1), *out AUTOFREE = floats(N, 0);
	double counted[2] = {0, 0};
	for (int i = 0; i < ROUNDS; i++) {
		/* the others end a round before worker 0 pushes, also where they share its core */
		usleep(us.rank == 0 ? 3000 : 300);
		struct table_op p = do_op(
			t,
			(struct table_op){
				.kind = OP_PUSH, .in = in, .out = out, .pull = true, .by = unit});
		counted[p.dropped]++;
		if (us.servers <= 1) /* several servers drop separately */
			all_are(out, N, out[0], "the pull of a round with backup workers");
	}
	barrier();
	do_op(t, (struct table_op){.kind = OP_READ, .out = out});
	link_reduce_all(us.all, counted, 2, REDUCE_SUM);
	if (us.servers <= 1)
		all_are(out, N, counted[0], "the counted pushes");
	CHECK(counted[0] + counted[1] == ROUNDS * us.size, "%g pushes", counted[0] + counted[1]);
	CHECK(counted[1] > 0, "a slow worker's pushes are never dropped");
	barrier();
	/* stragglers have ended rounds alone; now all are in the same one again */
	struct table_op p = {.kind = OP_PUSH, .in = in, .out = out, .pull = true, .by = unit};
	double fresh = !do_op(t, p).dropped;
	barrier();
	link_reduce_all(us.all, &fresh, 1, REDUCE_SUM);
	CHECK(fresh >= us.size - 1, "%g of %d pushes count in the first round after a barrier",
	      fresh, us.size);
	table_free(t);
}

/* In a second table each worker counts the pushes that it has started. */
static void lead(int64_t bound)
{
	enum { N = 2000, PUSHES = 60 };
	struct table *t =
		open_with((struct table_rules){.rows = N, .bounded = true, .lead = bound}, NULL);
	struct table *begun = open_with((struct table_rules){.rows = (size_t)us.size}, NULL);
	float *in AUTOFREE = floats(N, 1), *out AUTOFREE = floats(N, 0), one = 1;
	float *counts AUTOFREE = floats((size_t)us.size, 0);
	int64_t me = us.rank;
	for (int i = 1; i <= PUSHES; i++) {
		if (us.rank == 0 && i < PUSHES / 2)
			usleep(500);
		do_op(begun,
		      (struct table_op){
			      .kind = OP_PUSH, .in = &one, .row = &me, .rows = 1, .by = unit});
		do_op(t, (struct table_op){
				 .kind = OP_PUSH, .in = in, .out = out, .pull = true, .by = unit});
		do_op(begun, (struct table_op){.kind = OP_READ, .out = counts});
		for (int k = 0; k < us.size; k++)
			CHECK(counts[k] >= (float)(i - bound),
			      "after push %d with bound %d, worker %d has started %g", i,
			      (int)bound, k, (double)counts[k]);
		CHECK(out[0] >= (float)((us.size - 1) * (i - bound > 0 ? i - bound : 0) + i),
		      "a pull after push %d lacks what the bound promises: %g", i, (double)out[0]);
	}
	barrier();
	do_op(t, (struct table_op){.kind = OP_READ, .out = out});
	all_are(out, N, PUSHES * us.size, "a table with a staleness bound");
	barrier();
	table_free(t);
	table_free(begun);
}

/* ---- Updaters: one worker alone repeats the same pushes ------------------------------ */

/* All that a table's workers and shards store. */
struct reference {
	const struct updater *updater;
	size_t n;
	float *w, *state, *more, **own, **pulled;
};

static struct reference reference_new(const struct updater *u, size_t n, const float *init)
{
	struct reference r = {.updater = u, .n = n};
	r.w = floats(n, 0);
	r.state = floats(n, 0);
	r.more = floats(n, 0);
	r.own = must(calloc((size_t)us.size, sizeof *r.own));
	r.pulled = must(calloc((size_t)us.size, sizeof *r.pulled));
	memcpy(r.w, init, n * sizeof *init);
	for (int k = 0; k < us.size; k++) {
		r.own[k] = floats(n, 0);
		r.pulled[k] = floats(n, 0);
		memcpy(r.pulled[k], init, n * sizeof *init);
	}
	return r;
}

static void reference_free(struct reference *r)
{
	for (int k = 0; k < us.size; k++) {
		free(r->own[k]);
		free(r->pulled[k]);
	}
	free(r->w);
	free(r->state);
	free(r->more);
	free(r->own);
	free(r->pulled);
}

static void reference_push(struct reference *r, int worker, size_t first, size_t n,
			   const float *values, struct push by, int64_t staleness, int64_t number)
{
	r->updater->apply(&(struct update){.w = r->w + first,
					   .state = r->state + first,
					   .more = r->more + first,
					   .own = r->own[worker] + first,
					   .pulled = r->pulled[worker] + first,
					   .values = values + first,
					   .by = by,
					   .staleness = staleness,
					   .number = number},
			  n);
	memcpy(r->pulled[worker] + first, r->w + first, n * sizeof(float));
}

/* The i-th push of worker k. */
static void gradient(float *g, size_t n, int k, int i)
{
	uint64_t rng = rng_seed(k * 1000 + i, RNG_INIT, 1);
	for (size_t j = 0; j < n; j++)
		g[j] = (float)(rng_uniform(&rng) - 0.5);
}

static const struct push full = {.scale = 0.5f,
				 .lr = 0.1f,
				 .momentum = 0.9,
				 .rho = 0.1f,
				 .lambda = 0.3f,
				 .beta = {0.9, 0.99},
				 .eps = 1e-3f};

static void updater_in_turn(const struct updater *u, size_t n)
{
	float *g = floats(n, 0), *out = floats(n, 0);
	gradient(g, n, 77, 0);
	if (us.onesided && !u->additive) {
		struct table *t;
		struct table_rules r = {.rows = n, .columns = 1, .updater = u};
		refused(table_open(&t, us.tables, &r, g), "server");
		free(g);
		free(out);
		return;
	}
	struct table *t = open_with((struct table_rules){.rows = n, .updater = u}, g);
	struct reference r = reference_new(u, n, g);
	for (int i = 0; i < 5; i++)
		for (int k = 0; k < us.size; k++) {
			gradient(g, n, k, i);
			int64_t met = i ? us.size - 1 : k;
			reference_push(&r, k, 0, n, g, full, met, i * us.size + k + 1);
			if (k == us.rank)
				do_op(t, (struct table_op){.kind = OP_PUSH,
							   .in = g,
							   .out = out,
							   .pull = true,
							   .by = full});
			barrier();
		}
	for (size_t j = 0; j < n; j++)
		CHECK(fabs(out[j] - r.pulled[us.rank][j]) <= us.rounding,
		      "%s: float %zu of worker %d is %.9g, not %.9g", u->name, j, us.rank,
		      (double)out[j], (double)r.pulled[us.rank][j]);
	table_free(t);
	reference_free(&r);
	free(g);
	free(out);
}

/* ---- The recorded order ---------------------------------------------------------------- */

static int by_order(const void *a, const void *b)
{
	const struct arrival *x = a, *y = b;
	return x->shard != y->shard ? x->shard - y->shard : (x->seq > y->seq) - (x->seq < y->seq);
}

/* All push at once. Repeating the pushes in the recorded order, shard by shard, gives the same bits
 * (on a GPU, the same except for the rounding of its sums of products). */
static void recorded_order(const char *updater, size_t n)
{
	enum { PUSHES = 60, FLOATS = sizeof(struct arrival) / sizeof(float) };
	if (us.onesided)
		return;
	const struct updater *u = updater_find(updater);
	float *init AUTOFREE = floats(n, 0), *g AUTOFREE = floats(n, 0),
		    *out AUTOFREE = floats(n, 0);
	gradient(init, n, 77, 0);
	struct table *t = open_with((struct table_rules){.rows = n, .updater = u}, init);
	size_t shards = us.servers ? (size_t)us.servers : 1, mine = PUSHES * shards;
	tables_record(us.tables, mine);
	barrier();
	for (int i = 0; i < PUSHES; i++) {
		gradient(g, n, us.rank, i);
		if (i % 4 == us.rank % 4) /* lets others push in between */
			usleep(300);
		do_op(t, (struct table_op){
				 .kind = OP_PUSH, .in = g, .out = out, .pull = true, .by = full});
	}
	barrier();
	CHECK(us.tables->arrivals == mine, "%zu operations recorded, not %zu", us.tables->arrivals,
	      mine);
	size_t total = mine * (size_t)us.size;
	struct arrival *a AUTOFREE = must(calloc(total, sizeof *a));
	memcpy(a + (size_t)us.rank * mine, us.tables->arrival, mine * sizeof *a);
	if (us.size > 1)
		for (int k = 0; k < us.size; k++)
			link_broadcast(us.all, k, a + (size_t)k * mine, mine * sizeof *a);
	qsort(a, total, sizeof *a, by_order);
	struct reference r = reference_new(u, n, init);
	int done[64] = {0}, changes = 0;
	int64_t seen[64] = {0}; /* pushes before the worker's last pull */
	for (size_t i = 0; i < total; i++) {
		size_t shard = (size_t)a[i].shard, first = part_of(n, shards, shard);
		size_t place = i % (PUSHES * (size_t)us.size);
		CHECK(a[i].seq == (int64_t)place && strcmp(a[i].kind, "sync") == 0,
		      "arrival %zu of shard %zu has number %d, kind %s", place, shard,
		      (int)a[i].seq, a[i].kind);
		if (place == 0) {
			memset(done, 0, sizeof done);
			memset(seen, 0, sizeof seen);
		}
		changes += place > 0 && a[i].worker != a[i - 1].worker;
		int worker = a[i].worker;
		gradient(g, n, worker, done[worker]++);
		reference_push(&r, worker, first, part_of(n, shards, shard + 1) - first, g, full,
			       (int64_t)place - seen[worker], (int64_t)place + 1);
		seen[worker] = (int64_t)place + 1;
	}
	CHECK(us.size == 1 || changes > 2 * us.size, "workers did not push at the same time");
	for (size_t j = 0; j < n; j++)
		CHECK(fabs(out[j] - r.pulled[us.rank][j]) <= us.rounding * PUSHES,
		      "%s, done again: float %zu of worker %d is %.9g, not %.9g", updater, j,
		      us.rank, (double)out[j], (double)r.pulled[us.rank][j]);
	tables_record(us.tables, 0);
	barrier();
	table_free(t);
	reference_free(&r);
}

/* With backup workers, the recording has a drop for each dropped push, and a pull for each push. In
 * shared memory it also has the ends of rounds, for which size - 1 pushes are enough. */
static void recorded_rounds(void)
{
	enum { N = 9000, ROUNDS = 20, PUSH = 0, PULL, DROP, ROUND, KINDS };
	if (us.onesided || us.size < 3 || us.servers > 1)
		return;
	struct table *t =
		open_with((struct table_rules){.rows = N, .rounds = true, .backup = 1}, NULL);
	float *in AUTOFREE = floats(N, 1), *out AUTOFREE = floats(N, 0);
	int kinds[KINDS] = {0}, dropped = 0;
	tables_record(us.tables, 3 * ROUNDS);
	for (int i = 0; i < ROUNDS; i++) {
		if (us.rank == 0)
			usleep(1500);
		dropped += do_op(t, (struct table_op){.kind = OP_PUSH,
						      .in = in,
						      .out = out,
						      .pull = true,
						      .by = unit})
				   .dropped;
	}
	for (size_t i = 0; i < us.tables->arrivals; i++) {
		const char *kind = us.tables->arrival[i].kind;
		kinds[strcmp(kind, "push") == 0   ? PUSH
		      : strcmp(kind, "pull") == 0 ? PULL
		      : strcmp(kind, "drop") == 0 ? DROP
						  : ROUND]++;
	}
	CHECK(kinds[PULL] == ROUNDS && kinds[DROP] == dropped && kinds[PUSH] == ROUNDS - dropped,
	      "%d pushes (%d dropped): recorded %d pushes, %d drops, %d pulls", ROUNDS, dropped,
	      kinds[PUSH], kinds[DROP], kinds[PULL]);
	tables_record(us.tables, 0);
	barrier(); /* workers that are behind end their rounds alone */
	double all[2] = {kinds[PUSH], kinds[ROUND]};
	link_reduce_all(us.all, all, 2, REDUCE_SUM);
	CHECK(us.servers ? all[1] == 0 : all[1] * (us.size - 1) >= all[0] && all[1] <= all[0],
	      "%g rounds of %g pushes of %d workers", all[1], all[0], us.size);
	table_free(t);
}

/* ---- Waits ------------------------------------------------------------------- */

enum { ROUNDS = 2000, TRIES = 50, ENOUGH = 20 };

struct holder {
	struct table *t;
	atomic_int turn; /* odd: the lock is held */
};

/* Holds the lock for three microseconds in its turns. */
static void *hold(void *arg)
{
	struct holder *h = arg;
	for (int i = 0; i < ROUNDS; i++) {
		while (atomic_load(&h->turn) != 2 * i)
			sched_yield();
		block_lock(h->t, 0);
		nsec until = clock_now() + 3000;
		atomic_store(&h->turn, 2 * i + 1);
		while (clock_now() < until)
			continue;
		block_unlock(h->t, 0);
	}
	return NULL;
}

/* Counts waits for the holder's lock, and sleeps in them. */
static void wait_for_holder(struct table *t, long *waits, long *sleeps)
{
	struct holder h = {.t = t};
	struct rusage before, after;
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, hold, &h) == 0, "no thread");
	*waits = *sleeps = 0;
	for (int i = 0; i < ROUNDS; i++) {
		while (atomic_load(&h.turn) != 2 * i + 1)
			sched_yield();
		nsec waited = us.tables->stats->wait;
		getrusage(RUSAGE_THREAD, &before);
		block_lock(t, 0);
		getrusage(RUSAGE_THREAD, &after);
		block_unlock(t, 0);
		*waits += us.tables->stats->wait != waited;
		*sleeps += after.ru_nvcsw - before.ru_nvcsw;
		atomic_store(&h.turn, 2 * i + 2);
	}
	pthread_join(thread, NULL);
}

/* On a busy machine the holder may lose its core; one good try is enough. */
static void short_waits_are_not_slept(void)
{
	struct table *t = open_with((struct table_rules){.rows = 1000}, NULL);
	long waits, sleeps;
	bool good = false, told = false;
	for (int i = 0; i < TRIES && !good; i++) {
		wait_for_holder(t, &waits, &sleeps);
		told |= waits >= ENOUGH;
		good = waits >= ENOUGH && 2 * sleeps <= waits;
	}
	CHECK(good || !told, "%ld sleeps in %ld short waits", sleeps, waits);
	table_free(t);
}

int main(int argc, char **argv)
{
	CHECK(argc == 3, "table PLACEMENT SERVERS");
	const char *size = getenv("OMPI_COMM_WORLD_SIZE");
	struct run run = {.servers = atoi(argv[2])};
	run.workers = (size ? atoi(size) : 1) - run.servers;
	struct loop loop = {.dev = NULL};
	struct worker w = {.run = &run, .model = &loop.model, .loop = &loop};
	platform_start(&w);
	struct link *everyone = run.servers ? link_world(w.size) : NULL;
	us.all = link_world(w.trainers);
	us.rank = w.rank;
	us.size = w.trainers;
	us.servers = (int)run.servers;
	us.onesided = strcmp(argv[1], "onesided") == 0;
	struct device gpu = {.ops = &device_cuda, .number = w.rank, .precision = "float32"};
	if (strcmp(argv[1], "gpu") == 0) {
		const char *missing = gpu.ops->probe(NULL);
		CHECK(!missing, "%s", missing);
		gpu.ops->open(&gpu, 1);
		us.gpu = &gpu;
	}
	us.rounding = us.onesided || us.gpu ? 1e-6 : 0;
	if (w.rank >= w.trainers) {
		tables_serve(everyone, w.rank, w.trainers, NULL, NULL, NULL);
	} else {
		char *wrong = tables_open(&us.tables, everyone ? everyone : us.all, us.all, w.rank,
					  w.trainers, us.servers, argv[1], NULL, us.gpu);
		CHECK(!wrong, "%s", wrong);
		const size_t sizes[] = {1, 2, 3, 1000, 100003};
		for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
			adds(sizes[i]);
			syncs(sizes[i]);
		}
		if (!us.gpu)
			adds((1 << 20) + 3); /* larger reads bypass the cache */
		staleness_in_turn();
		rows(1, 1);
		rows(3, 7);
		rows(50, 1000);
		several_at_once();
		initial_values();
		starting_and_waiting();
		elastic();
		rounds();
		rounds_with_backup();
		for (int64_t bound = 0; bound <= 4; bound += 2)
			lead(bound);
		for (size_t i = 0; updaters[i]; i++) {
			updater_in_turn(updaters[i], 2);
			updater_in_turn(updaters[i], 20011);
		}
		recorded_order("momentum", 60007);
		recorded_order("dcasgda", 30011);
		recorded_order("staleness", 30011);
		recorded_order("adam", 30011);
		recorded_rounds();
		if (us.size == 1 && strcmp(argv[1], "shared") == 0 && usable_cores() > 1)
			short_waits_are_not_slept();
		tables_close(us.tables);
		if (us.gpu)
			us.gpu->ops->close(us.gpu);
	}
	if (w.rank == 0)
		puts("ok");
	link_free(us.all);
	link_free(everyone);
	platform_stop();
	return 0;
}
