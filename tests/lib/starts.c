/*
 * starts.c - how long the start of a reduction takes: of a registered tensor, which waits for no
 * worker, and of mvb_allreduce_start, which waits until all have called it.
 *
 *     mpirun -n 4 starts [FLOATS [TIMES]]        default: 256 floats, 1000 times
 *
 * Worker 0 prints the medians [us], each the mean over the workers. TorchMPI's test expects 50 us.
 */
#include <libmvbench.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
	const double *x = a, *y = b;
	return (*x > *y) - (*x < *y);
}

int main(int argc, char **argv)
{
	size_t n = argc > 1 ? (size_t)atol(argv[1]) : 256;
	int times = argc > 2 ? atoi(argv[2]) : 1000, failed = mvb_init(NULL);
	float *x = calloc(n, sizeof *x), *const tensor[] = {x};
	double *ready = calloc((size_t)times, sizeof *ready),
	       *start = calloc((size_t)times, sizeof *start);
	struct mvb_grads *g;
	int64_t ticket;
	if (!x || !ready || !start)
		return 1;
	failed = failed || mvb_grads_new(&g, tensor, &n, 1, 0);
	for (int i = 0; i < times && !failed; i++) {
		double since = now_us();
		failed = mvb_grads_ready(g, 0);
		ready[i] = now_us() - since;
		failed = failed || mvb_grads_wait(g);
		since = now_us();
		failed = failed || mvb_allreduce_start(x, n, MVB_SUM, &ticket);
		start[i] = now_us() - since;
		failed = failed || mvb_wait(ticket);
	}
	qsort(ready, (size_t)times, sizeof *ready, by_value);
	qsort(start, (size_t)times, sizeof *start, by_value);
	double median[] = {ready[times / 2], start[times / 2]};
	failed = failed || mvb_allreduce_type(median, 2, MVB_DOUBLE, MVB_MEAN);
	if (failed)
		fprintf(stderr, "worker %d: %s\n", mvb_worker_id(), mvb_message());
	else if (mvb_is_master())
		printf("mvb_grads_ready %.1f us, mvb_allreduce_start %.1f us\n", median[0],
		       median[1]);
	free(x);
	free(ready);
	free(start);
	return mvb_shutdown() || failed;
}
