/*
 * config.h - the fields of an experiment: the core options, and those of its plug-ins. A new core
 * option changes these structs, so include it only where fields are used; settings.h has the rest.
 */
#ifndef CONFIG_H
#define CONFIG_H

#include "runtime/config/run.h"
#include "runtime/config/settings.h"

#include <string.h>

/* The core options that strategies and workloads do not see. */
struct harness_options {
#define OPTION_RUN(...)
#define OPTION_HARNESS(field, type, ...) FIELD_OF_##type field;
#include "runtime/config/run_options.def"
};

/* One experiment: the core options and those of its plug-ins, resolved. */
struct config {
	struct run run;
	struct harness_options harness;
	const struct strategy *strategy;
	const struct workload *workload;
	const struct optimizer *optimizer;
	const struct codec *codec, *codec_pull; /* codec_pull: of pulls; NULL: they are floats */
	void *strategy_opts, *workload_opts, *optimizer_opts, *codec_opts;
	void *codec_pull_opts; /* may be codec_opts */
	char **strings;        /* the strings that fields point to */
	size_t nstrings;
	bool servers_chosen; /* config_init has set run.servers, to more than 0 */
	/* A given --sync-every that the strategy does not read: run.sync_every is 1. 0 = none. */
	int64_t interval_ignored;
};

static inline bool is_simulated(const struct config *c) /* then all workers are one process */
{
	return strcmp(c->run.platform, "sim") == 0;
}
/* Is there more than one process, or may it be on another machine? */
static inline bool config_needs_mpirun(const struct config *c)
{
	return !is_simulated(c) && (c->run.workers + c->run.servers > 1 || *c->harness.hostfile);
}

/* The rows whose gradient takes --step-time or --sim.step-time: a mini-batch, or the global batch
 * that the workers share. */
static inline int64_t timed_rows(const struct run *run)
{
	return run->global_batch ? run->global_batch : run->batch;
}
/* Does the run end after --steps or --tokens? --epochs follows from these. */
static inline bool has_budget(const struct run *run)
{
	return run->steps > 0 || run->tokens > 0;
}
/* --arrival-seed, or --seed in its place. */
static inline int64_t arrival_seed(const struct run *run)
{
	return run->arrival_seed ? run->arrival_seed : run->seed;
}

#endif
