/*
 * serial.c - one worker without any synchronisation: the reference for all other strategies.
 *
 *   v = m v + g;  w -= lr v
 */
#include "mvbench.h"

static char *serial_refuse(const struct run *run, const void *opts)
{
	(void)opts;
	if (run_workers(run) == 1)
		return NULL;
	return sentence(
		"strategy serial runs on one worker, not on %d: give --workers=1, or another "
		"strategy (mvbench list strategies)",
		(int)run_workers(run));
}

static void serial_step(struct worker *w)
{
	local_step(w, 1);
}

static double serial_bytes(const struct worker *w)
{
	(void)w;
	return 0;
}

const struct strategy strategy_serial = {
	.plugin = {.name = "serial", .summary = "one worker, no communication: the baseline"},
	.refuse = serial_refuse,
	.local = true,
	.step = serial_step,
	.bytes_per_step = serial_bytes,
	.epoch_time = "steps x step",
};
