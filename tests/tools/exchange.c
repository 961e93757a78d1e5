/*
 * exchange.c - the floor of a push with its pull: rank 0 sends n floats to rank 1, which sends n
 * back; both spin in MPI. mpirun -n 2 exchange N REPEAT     prints the median [ms]
 */
#include "runtime/comm/comm.h"

#include <mpi.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	int rank, size, n = argc > 1 ? atoi(argv[1]) : 464154,
			repeats = argc > 2 ? atoi(argv[2]) : 200, warm_up = repeats / 10 + 1;
	platform_open(true, &rank, &size);
	float *x = must(calloc((size_t)n, sizeof *x));
	double *ms = must(calloc((size_t)repeats, sizeof *ms));
	for (int i = -warm_up; i < repeats; i++) {
		nsec since = clock_now();
		for (int k = 0; k < 2 && rank < 2; k++)
			if (rank == k)
				MPI_Send(x, n, MPI_FLOAT, 1 - k, 0, MPI_COMM_WORLD);
			else
				MPI_Recv(x, n, MPI_FLOAT, k, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		if (i >= 0)
			ms[i] = 1e-6 * (double)(clock_now() - since);
	}
	qsort(ms, (size_t)repeats, sizeof *ms, by_value);
	if (rank == 0)
		printf("%.6g\n", ms[repeats / 2]);
	free(x);
	free(ms);
	platform_stop();
	return 0;
}
