/*
 * usage.c - CPU use of this process: its own time, the time that its threads were ready to run but
 * had no core, and the time that a hypervisor took from its cores.
 */
#include "runtime/base/base.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

enum { THREADS_MOST = 256 };
static int schedstat[THREADS_MOST]; /* an open file for each thread */
static int threads, computing;

void usage_open(int compute_threads)
{
	static const char folder[] = "/proc/self/task";
	DIR *d = world_is_virtual ? NULL : opendir(folder);
	while (threads > 0)
		close(schedstat[--threads]);
	computing = compute_threads;
	for (struct dirent *e; d && (e = readdir(d)) && threads < THREADS_MOST;) {
		char *path AUTOFREE = sentence("%s/%s/schedstat", folder, e->d_name);
		int fd = *e->d_name == '.' ? -1 : open(path, O_RDONLY | O_CLOEXEC);
		if (fd >= 0)
			schedstat[threads++] = fd;
	}
	if (d)
		closedir(d);
}

/* The second number of schedstat [ns]. All threads except compute threads sleep: no waiting. */
static double run_delay(void)
{
	double delay = 0, all = 0;
	for (int i = 0; i < threads; i++) {
		char text[64] = "";
		long long ran, waited;
		if (pread(schedstat[i], text, sizeof text - 1, 0) > 0 &&
		    sscanf(text, "%lld %lld", &ran, &waited) == 2)
			delay += 1e-9 * (double)waited, all += (double)ran;
	}
	return all > 0 ? delay / computing : NAN; /* all is 0: the system does not count */
}

/* The eighth number of a core in /proc/stat [ticks]. */
static double steal(void)
{
	cpu_set_t usable;
	char line[256];
	double all = 0;
	int cores = 0;
	FILE *f = sched_getaffinity(0, sizeof usable, &usable) == 0 ? fopen("/proc/stat", "re")
								    : NULL;
	while (f && fgets(line, sizeof line, f)) {
		int core;
		long long ticks;
		if (sscanf(line, "cpu%d %*d %*d %*d %*d %*d %*d %*d %lld", &core, &ticks) == 2 &&
		    core >= 0 && core < CPU_SETSIZE && CPU_ISSET(core, &usable))
			all += (double)ticks, cores++;
	}
	if (f)
		fclose(f);
	return cores ? all / cores / (double)sysconf(_SC_CLK_TCK) : NAN;
}

static double seconds(struct timeval t)
{
	return (double)t.tv_sec + 1e-6 * (double)t.tv_usec;
}

struct usage usage_now(void)
{
	struct rusage u;
	if (world_is_virtual || getrusage(RUSAGE_SELF, &u) != 0)
		return (struct usage){NAN, NAN, NAN, NAN, -1};
	return (struct usage){seconds(u.ru_utime), seconds(u.ru_stime), run_delay(), steal(),
			      u.ru_nivcsw};
}
