/*
 * usage.c - CPU use of this process: its own time, the time that its threads were ready to run but
 * had no core, and the time that a hypervisor took from its cores.
 */
#include "runtime/world/world.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
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

/* The lines of the cores are the first. */
struct core_times core_times_now(void)
{
	static char text[1 << 18];
	struct core_times sum = {.cores = 0};
	text_begins("/proc/stat", text, sizeof text);
	cpu_set_t usable;
	CPU_ZERO(&usable);
	sched_getaffinity(0, sizeof usable, &usable);
	for (const char *at = text, *end; at && strncmp(at, "cpu", 3) == 0;
	     at = end ? end + 1 : NULL) {
		char *next;
		size_t core = strtoul(at + 3, &next, 10);
		end = strchr(at, '\n');
		if (!isdigit((unsigned char)at[3]) || !CPU_ISSET(core, &usable))
			continue;
		for (int i = 0; i < CORE_TIMES; i++)
			sum.s[i] += strtod(next, &next) / (double)sysconf(_SC_CLK_TCK);
		sum.cores++;
	}
	return sum;
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
	struct core_times t = core_times_now();
	return (struct usage){seconds(u.ru_utime), seconds(u.ru_stime), run_delay(),
			      t.cores ? t.s[CORE_STEAL] / t.cores : NAN, u.ru_nivcsw};
}
