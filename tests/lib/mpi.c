/*
 * mpi.c - a program that uses MPI itself, next to libmvbench. It starts and ends MPI, and its
 * messages are separate from the library's. Linked with the static library.
 */
#include <libmvbench.h>

#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	int rank, size, finalized, got = -1, wrong = 0;
	float one = 1;
	MPI_Request request;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &request);
	wrong += mvb_init(NULL) != MVB_OK;
	wrong += mvb_rank() != rank || mvb_size() != size;
	wrong += mvb_allreduce(&one, 1, MVB_SUM) || one != (float)size;
	MPI_Send(&rank, 1, MPI_INT, (rank + 1) % size, 5, MPI_COMM_WORLD);
	wrong += mvb_barrier() != MVB_OK;
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	wrong += got != (rank + size - 1) % size;
	if (argc > 1) { /* MPI ends first: an error, which is reported */
		MPI_Finalize();
		wrong += mvb_barrier() != MVB_ERR_STATE;
		wrong += mvb_shutdown() != MVB_ERR_STATE;
	} else {
		wrong += mvb_shutdown() != MVB_OK;
		MPI_Finalized(&finalized);
		wrong += finalized;
		MPI_Barrier(MPI_COMM_WORLD);
		MPI_Finalize();
	}
	if (wrong)
		fprintf(stderr, "rank %d: %d checks failed: %s\n", rank, wrong, mvb_message());
	return wrong != 0;
}
