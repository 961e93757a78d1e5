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
READ(sync_every)
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
