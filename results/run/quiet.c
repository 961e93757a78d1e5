/*
 * quiet.c - do other processes use the workers' cores? Waits before a run until they are idle, and
 * reports it after the run.
 */
#include "results/run/run.h"

#include <ctype.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { CPU_TIMES = 8, IDLE = 3, IOWAIT = 4 }; /* columns of proc_stat(5) */
static const double quiet = 1 - CORES_SHARE_LEAST;

struct ticks {
	double all, idle;
};

/* The sum over the cores that this process may use; 0 if the system does not report it. */
static struct ticks ticks_now(void)
{
	struct ticks sum = {0, 0};
	char *text AUTOFREE = text_read("/proc/stat");
	cpu_set_t allowed;
	CPU_ZERO(&allowed);
	sched_getaffinity(0, sizeof allowed, &allowed);
	for (const char *at = text; at; at = strchr(at, '\n')) {
		int cpu, n = 0;
		at += *at == '\n';
		if (strncmp(at, "cpu", 3) != 0 || !isdigit((unsigned char)at[3]) ||
		    sscanf(at, "cpu%d%n", &cpu, &n) != 1 || !CPU_ISSET((size_t)cpu, &allowed))
			continue;
		char *next = (char *)(uintptr_t)at + n;
		for (int i = 0; i < CPU_TIMES; i++) {
			double ticks = strtod(next, &next);
			sum.all += ticks;
			sum.idle += i == IDLE || i == IOWAIT ? ticks : 0;
		}
	}
	return sum;
}

/* Measures for one second: the used share of this process's cores; NaN = not known. */
static double share_used(void)
{
	struct ticks before = ticks_now(), after;
	clock_delay(1000000000);
	after = ticks_now();
	double all = after.all - before.all;
	return all > 0 ? 1 - (after.idle - before.idle) / all : NAN;
}

void quiet_wait(const struct config *c)
{
	double limit = c->harness.quiet_wait, used;
	nsec until = clock_now() + (nsec)(1e9 * limit);
	if (limit <= 0 || strcmp(c->run.platform, "sim") == 0 || !((used = share_used()) > quiet))
		return;
	fprintf(stderr,
		"mvbench: other processes use %.0f %% of the cores here: waiting until the cores "
		"are idle, up to %g s (--quiet-wait)\n",
		100 * used, limit);
	while (used > quiet && clock_now() < until && !end_is_requested())
		used = share_used();
	if (used > quiet)
		fprintf(stderr, "mvbench: other processes still use %.0f %% of the cores here\n",
			100 * used);
}

double page_cores_share(const struct config *c, const struct status_page *page)
{
	double delay = 0, seconds = 0;
	for (int64_t i = 0; page && i < page->rows; i++)
		if (page->row[i].epoch > 0) {
			delay += page->row[i].split.run_delay_s;
			delay += fmax(0, page->row[i].split.steal_s); /* NaN: 0 */
			seconds += page->row[i].split.seconds;
		}
	const struct run *run = &c->run;
	bool crowded = !*c->harness.hostfile &&
		       run->workers * run->threads + run->servers > usable_cores();
	double share = seconds > 0 && !crowded ? 1 - delay / seconds : NAN;
	return share < 0 ? 0 : share;
}
