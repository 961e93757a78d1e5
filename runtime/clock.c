/*
 * clock.c - time on a real machine: the monotonic clock, and sleep.
 */
#include "platform.h"

#include <errno.h>
#include <time.h>

nsec clock_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (nsec)t.tv_sec * 1000000000 + t.tv_nsec;
}

void clock_delay(nsec dt)
{
	struct timespec t = {.tv_sec = dt / 1000000000, .tv_nsec = dt % 1000000000};
	if (dt <= 0)
		return;
	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &t, &t) == EINTR)
		;
}
