/*
 * table_speed.c - measures an add and a get of a whole table, and a raw MPI_Allreduce of the same
 * number of floats, in turns in one run: mpirun -n RANKS table_speed FLOATS REPEAT [--servers=K]
 * [PLACEMENT]
 *
 * Every worker repeatedly pushes n floats and gets the sum of all back. Workers wait for each other
 * only at a barrier between turns. With placement gpu the floats are in GPU memory, and an
 * operation ends when the GPU has done it; MPI_Allreduce uses host memory.
 *
 * Each worker has a median and a 99th percentile over its operations. Rank 0 prints, in
 * milliseconds, the means of both over the workers, and the largest (slowest) and the smallest
 * (fastest) median.
 *
 *   floats N ranks R home PLACEMENT   table MEDIAN P99 slowest S fastest F
 *   sync MEDIAN P99 slowest S fastest F   allreduce MEDIAN P99
 */
#include "runtime/config/run.h"
#include "runtime/table/table.h"

#include <stdlib.h>
#include <string.h>

enum { TURN = 5, WARM_UP = 3 };
enum what { ADD, SYNC, ALLREDUCE, WHATS };

struct bench {
	struct link *everyone, *all; /* all: the workers */
	int rank, trainers, servers;
	const char *placement;
	struct tables *tables;
	struct table *added, *synced;
	struct device *gpu; /* NULL: in, out and param are the host's */
	size_t n;
	float *in, *out, *param, *sum; /* [n] */
	float *ms[WHATS];              /* [operations + TURN] */
};

static int by_size(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;
	return (x > y) - (x < y);
}

struct figure {
	double median, p99, slowest, fastest; /* slowest, fastest: of the workers' medians [ms] */
};

static struct figure figure_of(struct link *all, int size, float *ms, size_t n)
{
	qsort(ms, n, sizeof *ms, by_size);
	double mine[2] = {ms[n / 2], ms[n - 1 - n / 100]};
	struct figure f;
	double sum[2] = {mine[0], mine[1]}, most = mine[0], least = mine[0];
	link_reduce_all(all, sum, 2, REDUCE_SUM);
	link_reduce_all(all, &most, 1, REDUCE_MAX);
	link_reduce_all(all, &least, 1, REDUCE_MIN);
	f = (struct figure){
		.median = sum[0] / size, .p99 = sum[1] / size, .slowest = most, .fastest = least};
	return f;
}

static void must_do(struct table *t, struct table_op p)
{
	char *wrong = table_do(t, &p);
	CHECK(!wrong, "%s", wrong);
}

static struct table *open_table(struct tables *s, size_t n, bool syncs)
{
	struct table *t;
	char *wrong = table_open(
		&t, s,
		&(struct table_rules){
			.rows = n, .columns = 1, .updater = updater_find("add"), .syncs = syncs},
		NULL);
	CHECK(!wrong, "%s", wrong);
	return t;
}

static float *floats(size_t n, float x)
{
	float *f = must(malloc(n * sizeof *f));
	for (size_t i = 0; i < n; i++)
		f[i] = x;
	return f;
}

/* n times x, where the tables' vectors are. */
static float *vector(struct bench *b, size_t n, float x)
{
	if (!b->gpu)
		return floats(n, x);
	float *f = b->gpu->ops->alloc(b->gpu, n);
	b->gpu->ops->fill(b->gpu, f, x, n);
	return f;
}

static void vector_free(struct bench *b, float *f)
{
	if (b->gpu)
		b->gpu->ops->free(b->gpu, f, b->n);
	else
		free(f);
}

static void bench_open(struct bench *b, size_t n, size_t operations)
{
	if (b->gpu)
		b->gpu->ops->open(b->gpu, 1);
	char *wrong = tables_open(&b->tables, b->servers ? b->everyone : b->all, b->all, b->rank,
				  b->trainers, b->servers, b->placement, NULL, b->gpu);
	CHECK(!wrong, "%s", wrong);
	b->added = open_table(b->tables, n, false);
	b->synced = open_table(b->tables, n, true);
	b->n = n;
	b->in = vector(b, n, 1);
	b->out = vector(b, n, 0);
	b->param = vector(b, n, 0);
	b->sum = floats(n, 1);
	for (int what = 0; what < WHATS; what++)
		b->ms[what] = floats(operations + TURN, 0);
}

static void bench_close(struct bench *b)
{
	tables_close(b->tables);
	for (int what = 0; what < WHATS; what++)
		free(b->ms[what]);
	vector_free(b, b->in);
	vector_free(b, b->out);
	vector_free(b, b->param);
	free(b->sum);
	if (b->gpu)
		b->gpu->ops->close(b->gpu);
}

static void do_once(struct bench *b, enum what what)
{
	struct push by = {.scale = 1};
	if (what == ADD)
		must_do(b->added,
			(struct table_op){.kind = OP_PUSH, .in = b->in, .out = b->out, .by = by});
	else if (what == SYNC)
		must_do(b->synced,
			(struct table_op){
				.kind = OP_SYNC, .out = b->param, .pull = true, .by = by});
	else
		link_allreduce(b->all, b->sum, b->n, COMM_SUM);
	if (b->gpu && what != ALLREDUCE)
		b->gpu->ops->sync(b->gpu);
}

/* TURN operations of each kind; their times are stored from index k on. */
static void take_turn(struct bench *b, size_t k)
{
	for (enum what what = 0; what < WHATS; what++) {
		link_barrier(b->all);
		for (size_t i = 0; i < TURN; i++) {
			nsec since = clock_now();
			do_once(b, what);
			b->ms[what][k + i] = (float)(clock_now() - since) * 1e-6f;
		}
	}
	for (size_t i = 0; i < b->n; i++)
		b->sum[i] = 1; /* the sums have become large */
}

static void report(struct bench *b, size_t operations)
{
	struct figure f[WHATS];
	for (int what = 0; what < WHATS; what++)
		f[what] = figure_of(b->all, b->trainers, b->ms[what], operations);
	if (b->rank == 0)
		printf("floats %zu ranks %d home %s table %.4f %.4f slowest %.4f fastest %.4f sync "
		       "%.4f %.4f slowest %.4f fastest %.4f allreduce %.4f %.4f\n",
		       b->n, b->trainers, b->tables->placement->name, f[ADD].median, f[ADD].p99,
		       f[ADD].slowest, f[ADD].fastest, f[SYNC].median, f[SYNC].p99, f[SYNC].slowest,
		       f[SYNC].fastest, f[ALLREDUCE].median, f[ALLREDUCE].p99);
}

/* Main function of a worker. */
static void measure(struct bench *b, size_t n, size_t repeat)
{
	size_t k = 0;
	bench_open(b, n, repeat);
	for (int turn = 0; turn < WARM_UP; turn++)
		take_turn(b, 0);
	for (; k < repeat; k += TURN)
		take_turn(b, k);
	report(b, k);
	bench_close(b);
}

int main(int argc, char **argv)
{
	struct device gpu = {.ops = &device_cuda, .number = rank_on_node(), .precision = "float32"};
	CHECK(argc >= 3, "table_speed FLOATS REPEAT [--servers=K] [PLACEMENT]");
	size_t n = strtoul(argv[1], NULL, 10), repeat = strtoul(argv[2], NULL, 10);
	struct bench b = {.placement = "auto"};
	struct run run = {.workers = atoi(getenv("OMPI_COMM_WORLD_SIZE"))};
	struct loop loop = {.dev = NULL};
	struct worker w = {.run = &run, .model = &loop.model, .loop = &loop};
	for (int i = 3; i < argc; i++)
		if (strncmp(argv[i], "--servers=", 10) == 0)
			run.servers = atoi(argv[i] + 10);
		else
			b.placement = argv[i];
	run.workers -= run.servers;
	if (strcmp(b.placement, "gpu") == 0) {
		const char *missing = gpu.ops->probe(NULL);
		CHECK(!missing, "%s", missing);
		b.gpu = &gpu;
	}
	platform_start(&w);
	b.rank = w.rank;
	b.trainers = w.trainers;
	b.servers = (int)run.servers;
	b.everyone = link_world(w.size);
	b.all = link_world(w.trainers);
	if (w.rank < w.trainers)
		measure(&b, n, repeat);
	else
		tables_serve(b.everyone, w.rank, w.trainers, NULL, NULL, NULL);
	link_free(b.all);
	link_free(b.everyone);
	platform_stop();
	return 0;
}
