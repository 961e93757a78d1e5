/*
 * run.c - what plug-ins may read of struct run, whose layout they do not know.
 */
#include "runtime/config/run.h"

#define READ(field) \
	__typeof__(((struct run *)0)->field) run_##field(const struct run *run) \
	{ \
		return run->field; \
	}
READ(workers)
READ(servers)
READ(epochs)
READ(batch)
READ(barrier_every)
READ(seed)
READ(momentum)
READ(record)
READ(sim_train)
READ(strategy)
READ(optimizer)
READ(codec)
READ(codec_feedback)
READ(codec_pull)
READ(reduce)
READ(state)
READ(leave)
READ(precision)
READ(platform)
READ(table_home)
READ(data_dir)
READ(workload_opts)

/* A strategy that declares that it has no interval gets 1, whatever the user gives. */
int64_t run_sync_every(const struct run *run)
{
	CHECK(!run->no_interval, "strategy %s reads --sync-every, but its epoch_time has no X",
	      run->strategy);
	return run->sync_every;
}
