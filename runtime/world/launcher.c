/*
 * launcher.c - finds the launcher of this process from the environment, and the number of cores
 * for all processes that it started.
 */
#include "runtime/world/world.h"

#include <math.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { HEAR_OUT_MS = 5000 }; /* for a launcher on a busy machine; a stopped one never reads */

/* The number in the first variable that is set. */
static int first_number(const char *const *variable, int otherwise)
{
	for (; *variable; variable++)
		if (getenv(*variable))
			return atoi(getenv(*variable));
	return otherwise;
}

bool platform_under_launcher(void)
{
	/* srun sets PMI variables; SLURM_PROCID is also set in the shell of a batch job. */
	static const char *const signs[] = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", NULL};
	return first_number(signs, -1) >= 0;
}

/* A quota of CPU time, as of a container, in cores. */
static void limit_cores(void *ctx, const char *folder)
{
	int *cores = ctx;
	char *both AUTOFREE = sentence("%s/cpu.max", folder),
		   *first AUTOFREE = sentence("%s/cpu.cfs_quota_us", folder),
		   *second AUTOFREE = sentence("%s/cpu.cfs_period_us", folder);
	char *max AUTOFREE = text_read(both), *quota AUTOFREE = text_read(first),
		  *period AUTOFREE = text_read(second);
	char *text AUTOFREE = sentence("%s %s",
				       max     ? max
				       : quota ? quota
					       : "",
				       period ? period : "");
	double used = 0, of = 0; /* "max 100000": no limit; nor is -1 */
	if (sscanf(text, "%lf %lf", &used, &of) == 2 && used > 0 && used < of * *cores)
		*cores = (int)ceil(used / of);
}

/* A launcher binds its ranks to cores; the launcher's own affinity has all usable cores. */
int usable_cores(void)
{
	cpu_set_t set;
	pid_t process = platform_under_launcher() ? getppid() : 0;
	if (sched_getaffinity(process, sizeof set, &set) != 0 &&
	    sched_getaffinity(0, sizeof set, &set) != 0)
		return 1;
	int cores = CPU_COUNT(&set);
	cgroup_each("cpu", limit_cores, &cores);
	return cores;
}

int rank_of_launcher(void)
{
	static const char *const variable[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
					       "SLURM_PROCID", NULL};
	return first_number(variable, -1);
}

int rank_on_node(void)
{
	static const char *const variable[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID", NULL};
	return first_number(variable, 0);
}

bool launched_on_several_hosts(void)
{
	static const char *const of_step[] = {"SLURM_STEP_NUM_NODES", "SLURM_NNODES", NULL};
	const char *all = getenv("OMPI_COMM_WORLD_SIZE"),
		   *here = getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
	if (all && here)
		return atoi(here) < atoi(all);
	return first_number(of_step, 1) > 1;
}

/* Has this pipe text that its reader, which lives, has not read? */
static bool is_unread(int fd)
{
	struct stat st;
	struct pollfd reader = {.fd = fd};
	int bytes = 0;
	return fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode) && poll(&reader, 1, 0) == 0 &&
	       ioctl(fd, FIONREAD, &bytes) == 0 && bytes > 0;
}

void launcher_hear_out(void)
{
	if (!platform_under_launcher())
		return;
	fflush(stdout);
	for (int ms = 0; ms < HEAR_OUT_MS; ms++) {
		if (!is_unread(STDOUT_FILENO) && !is_unread(STDERR_FILENO))
			return;
		usleep(1000);
	}
}

double shared_memory_free(void)
{
	struct statvfs shm;
	return statvfs("/dev/shm", &shm) == 0 ? (double)shm.f_bavail * (double)shm.f_frsize
					      : INFINITY;
}

/* Each rank needs SEGMENT bytes of shared memory. BTLs that are not named here, such as that for
 * GPUs, open no port. */
void ranks_stay_off_the_network(int ranks)
{
	enum { SEGMENT = 8 << 20 };
	if (shared_memory_free() >= (double)SEGMENT * ranks)
		setenv("OMPI_MCA_btl", "^tcp,openib,uct,ofi,usnic", 0);
}
