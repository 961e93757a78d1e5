/*
 * starts.c - how long the start of a reduction takes: of a registered tensor, and of any floats
 * with mvb_allreduce_start. Neither waits for a worker.
 *
 *     mpirun -n 4 starts [FLOATS [TIMES]]        default: 256 floats, 1000 times
 *
 * Worker 0 prints the medians [us], each the mean over the workers. TorchMPI's test expects 50 us.
 * Then the last worker is late, up to 20 times; worker 0 prints the median and the fastest of its
 * own starts. The exit status is 1 if a sum is wrong.
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

enum { LATE_TIMES = 20, LATE_MS = 100 };

/* start [times]: how long this worker's starts take while the last worker is late [us]. */
static int start_before_others(float *x, size_t n, int times, double *start)
{
	const struct timespec late = {.tv_nsec = LATE_MS * 1000000};
	const int id = mvb_worker_id(), workers = mvb_num_workers();
	int failed = mvb_barrier();
	int64_t ticket;
	for (int i = 0; i < times && !failed; i++) {
		for (size_t k = 0; k < n; k++)
			x[k] = (float)(id + i);
		if (id > 0 && id == workers - 1)
			nanosleep(&late, NULL);
		const double since = now_us();
		failed = mvb_allreduce_start(x, n, MVB_SUM, &ticket);
		start[i] = now_us() - since;
		failed = failed || mvb_wait(ticket);
		for (size_t k = 0; k < n && !failed; k++)
			failed = x[k] != (float)(workers * (workers - 1) / 2 + workers * i);
	}
	qsort(start, (size_t)times, sizeof *start, by_value);
	return failed;
}

int main(int argc, char **argv)
{
	size_t n = argc > 1 ? (size_t)atol(argv[1]) : 256;
	int times = argc > 2 ? atoi(argv[2]) : 1000, failed = mvb_init(NULL),
	    late_times = times < LATE_TIMES ? times : LATE_TIMES;
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
	failed = failed || start_before_others(x, n, late_times, start);
	if (failed)
		fprintf(stderr, "worker %d: %s\n", mvb_worker_id(), mvb_message());
	else if (mvb_is_master())
		printf("mvb_grads_ready %.1f us, mvb_allreduce_start %.1f us; while a worker is "
		       "%d ms late %.1f us, the fastest %.1f us\n",
		       median[0], median[1], LATE_MS, start[late_times / 2], start[0]);
	free(x);
	free(ready);
	free(start);
	return mvb_shutdown() || failed;
}
