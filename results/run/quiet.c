/*
 * quiet.c - do other processes use the workers' cores? Waits before a run until they are idle, and
 * reports it after the run.
 */
#include "results/run/run.h"
#include "runtime/config/config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double quiet = 1 - CORES_SHARE_LEAST;

/* Measures for one second: the used share of this process's cores; NaN = not known. */
static double share_used(void)
{
	struct core_times before = core_times_now(), after;
	double all = 0, idle = 0;
	clock_delay(1000000000);
	after = core_times_now();
	for (int i = 0; i < CORE_TIMES; i++) {
		double s = after.s[i] - before.s[i];
		all += s;
		idle += i == CORE_IDLE || i == CORE_IOWAIT ? s : 0;
	}
	return all > 0 ? 1 - idle / all : NAN;
}

void quiet_wait(const struct config *c)
{
	double limit = c->harness.quiet_wait, used;
	nsec until = clock_now() + (nsec)(1e9 * limit);
	if (limit <= 0 || is_simulated(c) || !((used = share_used()) > quiet))
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
	double seconds = page ? page->sum.seconds : 0;
	const struct run *run = &c->run;
	bool crowded = !*c->harness.hostfile &&
		       run->workers * run->threads + run->servers > usable_cores();
	double share = seconds > 0 && !crowded ? 1 - page->sum.delay_s / seconds : NAN;
	return share < 0 ? 0 : share;
}
