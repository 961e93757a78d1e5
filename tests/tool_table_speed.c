/*
 * tool_table_speed.c - what an add and a get of a whole table take, beside a raw MPI_Allreduce of
 * as many floats, in turns in one run: mpirun -n RANKS tool_table_speed FLOATS REPEAT [--servers=K]
 * [HOME]
 *
 * Every worker pushes n floats and gets the sum of all back, again and again, nobody waiting for
 * anybody but in a barrier between turns. Rank 0 prints, in milliseconds: of each worker the median
 * and the 99th percentile over its passes; of these the slowest and the fastest worker.
 *   floats N ranks R home H   table MEDIAN P99 slowest S fastest F   sync MEDIAN P99
 *   allreduce MEDIAN P99
 */
#include "../runtime/table.h"

#include <stdlib.h>
#include <string.h>

enum { TURN = 5, WARM_UP = 3 };

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
	link_fold(all, sum, 2, FOLD_SUM);
	link_fold(all, &most, 1, FOLD_MAX);
	link_fold(all, &least, 1, FOLD_MIN);
	f = (struct figure){
		.median = sum[0] / size, .p99 = sum[1] / size, .slowest = most, .fastest = least};
	return f;
}

static void must_pass(struct table *t, struct pass p)
{
	char *wrong = table_pass(t, &p);
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

int main(int argc, char **argv)
{
	CHECK(argc >= 3, "tool_table_speed FLOATS REPEAT [--servers=K] [HOME]");
	size_t n = strtoul(argv[1], NULL, 10), repeat = strtoul(argv[2], NULL, 10), k = 0;
	const char *home = "auto";
	struct run run = {.workers = atoi(getenv("OMPI_COMM_WORLD_SIZE"))};
	for (int i = 3; i < argc; i++) {
		if (strncmp(argv[i], "--servers=", 10) == 0)
			run.servers = atoi(argv[i] + 10);
		else
			home = argv[i];
	}
	run.workers -= run.servers;
	struct worker w = {.run = &run};
	platform_start(&w);
	struct link *everyone = link_world(w.size), *all = link_world(w.trainers);
	if (w.rank >= w.trainers) {
		tables_serve(everyone, w.rank, w.trainers);
		link_free(all);
		link_free(everyone);
		platform_stop();
		return 0;
	}
	struct tables *s;
	char *wrong = tables_open(&s, run.servers ? everyone : all, all, w.rank, w.trainers,
				  (int)run.servers, home, NULL);
	CHECK(!wrong, "%s", wrong);
	struct table *added = open_table(s, n, false), *synced = open_table(s, n, true);
	float *in = must(malloc(n * sizeof *in)), *out = must(calloc(n, sizeof *out)),
	      *param = must(calloc(n, sizeof *param));
	float *ms[3];
	for (int i = 0; i < 3; i++)
		ms[i] = must(calloc(repeat + TURN, sizeof **ms));
	for (size_t i = 0; i < n; i++)
		in[i] = 1;

	for (size_t turn = 0; k < repeat; turn++)
		for (int what = 0; what < 3; what++) {
			link_barrier(all);
			for (size_t i = 0; i < TURN; i++) {
				nsec since = clock_now();
				if (what == 0)
					must_pass(added, (struct pass){.kind = PASS_PUSH,
								       .in = in,
								       .out = out,
								       .by = {.scale = 1}});
				else if (what == 1)
					must_pass(synced, (struct pass){.kind = PASS_SYNC,
									.out = param,
									.pull = true,
									.by = {.scale = 1}});
				else
					link_allreduce(all, in, n);
				if (turn >= WARM_UP)
					ms[what][k + i] = (float)(clock_now() - since) * 1e-6f;
			}
			for (size_t i = 0; what == 2 && i < n; i++)
				in[i] = 1;
			if (what == 2 && turn >= WARM_UP)
				k += TURN;
		}
	struct figure f[3];
	for (int i = 0; i < 3; i++)
		f[i] = figure_of(all, w.trainers, ms[i], k);
	if (w.rank == 0)
		printf("floats %zu ranks %d home %s table %.4f %.4f slowest %.4f fastest %.4f sync "
		       "%.4f %.4f slowest %.4f fastest %.4f allreduce %.4f %.4f\n",
		       n, w.trainers, s->home->name, f[0].median, f[0].p99, f[0].slowest,
		       f[0].fastest, f[1].median, f[1].p99, f[1].slowest, f[1].fastest, f[2].median,
		       f[2].p99);
	tables_close(s);
	for (int i = 0; i < 3; i++)
		free(ms[i]);
	free(in);
	free(out);
	free(param);
	link_free(all);
	link_free(everyone);
	platform_stop();
	return 0;
}
