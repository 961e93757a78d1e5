/*
 * mpi.c - the start and the end of MPI. A worker alone that no launcher started never touches it: a
 * run with one worker needs no mpirun and starts at once.
 */
#include "runtime/comm/mpi/link.h"

#include <string.h>

static bool ours; /* MPI is ours to end */

bool in_mpi(void)
{
	int begun, over = 0;
	MPI_Initialized(&begun);
	if (begun)
		MPI_Finalized(&over);
	return begun && !over;
}

static void abort_all(int status) __attribute__((noreturn));
static void abort_all(int status)
{
	if (!world_is_virtual && in_mpi())
		MPI_Abort(MPI_COMM_WORLD, status);
	world_exit(status);
}

void platform_open(bool mpi, int *rank, int *size)
{
	*rank = 0;
	*size = 1;
	panic_abort_with(abort_all);
	if (mpi && !in_mpi()) {
		MPI_Init(NULL, NULL);
		ours = true;
	}
	if (!in_mpi())
		return;
	MPI_Comm_rank(MPI_COMM_WORLD, rank);
	MPI_Comm_size(MPI_COMM_WORLD, size);
}

bool platform_gone(void)
{
	int gone;
	MPI_Finalized(&gone);
	return gone;
}

void platform_start(struct worker *w)
{
	int rank, size, wanted = (int)(w->run->workers + w->run->servers);
	platform_open(wanted > 1 || platform_under_launcher(), &rank, &size);
	w->rank = rank;
	w->size = size;
	w->trainers = (int)w->run->workers;
	if (size != wanted && rank != 0) {
		MPI_Finalize();
		world_exit(EXIT_USER);
	}
	if (size != wanted)
		user_error(
			"%d processes were started for --workers=%d --servers=%d: start %d, or run "
			"mvbench without a launcher and it starts them itself",
			size, (int)w->run->workers, (int)w->run->servers, wanted);
}

void platform_stop(void)
{
	if (ours && in_mpi())
		MPI_Finalize();
}

const char *platform_version(void)
{
	static char text[MPI_MAX_LIBRARY_VERSION_STRING];
	int n;
	MPI_Get_library_version(text, &n);
	text[strcspn(text, ",\n")] = '\0';
	return text;
}
