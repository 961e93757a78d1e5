/*
 * bare.c - the lowest cost of a synchronous step: a bare loop of gradient, MPI_Allreduce in place
 * and the optimiser, without strategy, wrappers, counting or training loop. The workers are set up
 * as by `mvbench run`. mpirun -n N bare --strategy=allreduce [--option=value ...] prints the
 * samples/s of all workers together, the median of REPEATS.
 */
#include "runtime/cli/cli.h"
#include "runtime/comm/comm.h"
#include "runtime/config/config.h"
#include "runtime/train/train.h"

#include <stdlib.h>

enum { REPEATS = 5, STEPS = 1000 };

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void sink_model(void *self, struct worker *w, const float *step_s, size_t steps)
{
	struct link *all = comm_link(w->all);
	size_t rows = (size_t)w->run->batch, n = w->train->n;
	int32_t *order AUTOFREE = must(malloc(n * sizeof *order));
	double rate[REPEATS];
	(void)self, (void)step_s, (void)steps;
	uint64_t rng = rng_seed(w->run->seed, RNG_ORDER, w->rank);
	for (size_t i = 0; i < n; i++)
		order[i] = (int32_t)(rng_next(&rng) % n);
	w->rows = rows;
	for (int r = 0; r < REPEATS; r++) {
		link_barrier(all);
		nsec since = clock_now();
		for (size_t s = 0; s < STEPS; s++) {
			w->index = order + s * rows % (n - rows);
			w->model->workload->load(w);
			w->model->workload->gradient(w);
			link_allreduce(all, w->grad->data, w->grad->n, COMM_SUM);
			local_step(w, 1.0 / w->trainers);
		}
		link_barrier(all);
		rate[r] = 1e9 * STEPS * (double)rows * w->trainers / (double)(clock_now() - since);
	}
	qsort(rate, REPEATS, sizeof *rate, ascending);
	if (w->rank == 0)
		printf("%.1f\n", rate[REPEATS / 2]);
}

int main(int argc, char **argv)
{
	struct arguments a;
	struct config c;
	struct plan plan;
	char *error = arguments_read(&a, argc - 1, argv + 1, NULL, NULL);
	if (!error)
		error = config_init(&c, a.option, a.options, false);
	if (!error)
		error = plan_make(&c, &plan);
	if (error)
		user_error("%s", error);
	struct sink sink = {.model = sink_model};
	int status = train(&c, &plan, &sink, NULL);
	config_fini(&c);
	arguments_free(&a);
	return status;
}
