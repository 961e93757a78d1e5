/*
 * late.c - worker 1 of two is late at a barrier; then both compute for the same time.
 */
#include <libmvbench.h>

#include <unistd.h>

enum { LATE_S = 11 };

int main(void)
{
	int failed = mvb_init(NULL) || mvb_barrier();
	if (mvb_worker_id() == 1)
		sleep(LATE_S);
	failed = failed || mvb_barrier();
	sleep(LATE_S);
	failed = failed || mvb_barrier();
	return mvb_shutdown() || failed;
}
