/*
 * allreduce.c - a lower bound for a synchronous step: raw MPI_Allreduce of n floats, in place.
 * mpirun -n N allreduce n [repeats]    prints the median and the 99th percentile [us]
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	int rank, n = argc > 1 ? atoi(argv[1]) : 101770, repeats = argc > 2 ? atoi(argv[2]) : 2000;
	float *x = calloc((size_t)n, sizeof *x);
	double *took = calloc((size_t)repeats, sizeof *took);
	if (!x || !took)
		MPI_Abort(MPI_COMM_WORLD, 1);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	for (int i = -repeats / 10; i < repeats; i++) {
		MPI_Barrier(MPI_COMM_WORLD);
		double t = MPI_Wtime();
		MPI_Allreduce(MPI_IN_PLACE, x, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
		if (i >= 0)
			took[i] = MPI_Wtime() - t;
	}
	qsort(took, (size_t)repeats, sizeof *took, ascending);
	if (rank == 0)
		printf("%.3f %.3f\n", 1e6 * took[repeats / 2], 1e6 * took[repeats * 99 / 100]);
	free(x);
	free(took);
	MPI_Finalize();
	return 0;
}
