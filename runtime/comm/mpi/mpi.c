/*
 * mpi.c - start and end of MPI. A single worker without a launcher does not use MPI: such a run
 * needs no mpirun and starts at once.
 */
#include "runtime/config/run.h"
#include "runtime/comm/mpi/link.h"
#include "runtime/watch/watch.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>

static bool ours; /* we started MPI, and therefore end it */

bool in_mpi(void)
{
	int begun, over = 0;
	MPI_Initialized(&begun);
	if (begun)
		MPI_Finalized(&over);
	return begun && !over;
}

static _Noreturn void abort_all(int status)
{
	launcher_hear_out();
	if (!world_is_virtual && in_mpi())
		MPI_Abort(MPI_COMM_WORLD, status);
	world_exit(status);
}

bool has_infiniband(void)
{
	glob_t found;
	bool has = glob("/sys/class/infiniband/*", 0, NULL, &found) == 0;
	globfree(&found);
	return has;
}

/* On one machine: shared memory alone. Otherwise Open MPI 4 also tries drivers of networks, and
 * waits 0.2 s for a device of one that is not there.
 *
 * Settings for TCP, unless the user has set them: how to send, and how to sum (tcp.rules). Open MPI
 * 4 chooses UCX for one-sided communication, which finds no network and fails. With its "put"
 * protocol two ranks that send to each other take turns, because the reply that allows a transfer
 * waits behind a rank's own data. Messages up to the eager limit need no such reply. Without the
 * limit, messages to a server would wait behind the data of another worker on that host. */
static void choose_settings(void)
{
	if (world_is_virtual)
		return;
	if (!launched_on_several_hosts())
		setenv("OMPI_MCA_pml", "ob1", 0);
	if (!launched_on_several_hosts() || has_infiniband())
		return;
	setenv("OMPI_MCA_osc", "^ucx", 0);
	setenv("OMPI_MCA_btl_tcp_flags", "1", 0);
	setenv("OMPI_MCA_btl_tcp_eager_limit", "1048576", 0);
	setenv("OMPI_MCA_btl_tcp_rndv_eager_limit", "1048576", 0);
	char *rules AUTOFREE = installed_path("runtime/comm/mpi/tcp.rules");
	if (!rules || getenv("OMPI_MCA_coll_tuned_use_dynamic_rules"))
		return;
	setenv("OMPI_MCA_coll_tuned_use_dynamic_rules", "1", 0);
	setenv("OMPI_MCA_coll_tuned_dynamic_rules_filename", rules, 0);
}

static int start_mpi(void)
{
	int level; /* calls come from one thread at a time, which may change (mvb_thread) */
	return MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
}

/* All ranks wait for each other in this call. */
static void guarded(const char *what, int (*call)(void))
{
	if (world_is_virtual) {
		call();
		return;
	}
	lookout_guard(what);
	world_enter(what, -1);
	call();
	world_leave();
	lookout_unguard();
}

void platform_open(bool mpi, int *rank, int *size)
{
	*rank = 0;
	*size = 1;
	panic_abort_with(abort_all);
	if (mpi && !in_mpi()) {
		choose_settings();
		guarded("MPI_Init", start_mpi);
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
		guarded("MPI_Finalize", MPI_Finalize);
}

const char *platform_version(void)
{
	static char text[MPI_MAX_LIBRARY_VERSION_STRING];
	int n;
	MPI_Get_library_version(text, &n);
	text[strcspn(text, ",\n")] = '\0';
	return text;
}
