/*
 * sum_speed.c - measures a sum of n floats over all ranks, in turns with MPI_Allreduce and with the
 * floor, a copy of n floats between two buffers in the cache: mpirun -n N sum_speed N REPEAT
 *
 * All ranks start a sum at the same time. Its time is that of the last rank. Rank 0 prints medians
 * [us]: sum S mpi M floor F
 */
#include "runtime/config/run.h"
#include "runtime/comm/comm.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

enum what { OURS, MPI, COPY, WHATS };

static void once(enum what what, struct link *l, float *x, float *y, size_t n)
{
	if (what == OURS)
		link_allreduce(l, x, n, COMM_SUM);
	else if (what == MPI)
		MPI_Allreduce(MPI_IN_PLACE, x, (int)n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
	else
		memcpy(y, x, n * sizeof *x);
}

int main(int argc, char **argv)
{
	int rank, size;
	const size_t n = argc > 1 ? strtoul(argv[1], NULL, 10) : 464154,
		     repeats = argc > 2 ? strtoul(argv[2], NULL, 10) : 1000, warm_up = repeats / 10;
	platform_open(true, &rank, &size);
	struct link *l = link_world(size);
	float *x = must(calloc(n, sizeof *x)), *y = must(calloc(n, sizeof *y));
	double *took[WHATS];
	for (int what = 0; what < WHATS; what++)
		took[what] = must(calloc(repeats + 1, sizeof *took[what]));
	memset(y, 1, n * sizeof *y);
	for (size_t i = 0; i < warm_up + repeats; i++)
		for (int what = 0; what < WHATS; what++) {
			MPI_Barrier(MPI_COMM_WORLD);
			nsec since = clock_now();
			once((enum what)what, l, x, y, n);
			if (i >= warm_up)
				took[what][i - warm_up] = 1e-3 * (double)(clock_now() - since);
		}
	for (int what = 0; what < WHATS; what++) {
		MPI_Allreduce(MPI_IN_PLACE, took[what], (int)repeats, MPI_DOUBLE, MPI_MAX,
			      MPI_COMM_WORLD);
		qsort(took[what], repeats, sizeof(double), by_value);
	}
	if (rank == 0)
		printf("sum %.4g mpi %.4g floor %.4g\n", took[OURS][repeats / 2],
		       took[MPI][repeats / 2], took[COPY][repeats / 2]);
	for (int what = 0; what < WHATS; what++)
		free(took[what]);
	free(x);
	free(y);
	link_free(l);
	platform_stop();
	return 0;
}
