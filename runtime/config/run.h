/*
 * run.h - the core options of a run that the training loop and plug-ins see. A new option changes
 * this struct, so include it only where its fields are used.
 */
#ifndef CONFIG_RUN_H
#define CONFIG_RUN_H

#include "mvbench.h"

#define FIELD_OF_INT    int64_t
#define FIELD_OF_REAL   double
#define FIELD_OF_BOOL   bool
#define FIELD_OF_TIME   double
#define FIELD_OF_RATE   double
#define FIELD_OF_COUNT  double
#define FIELD_OF_STRING const char *
#define FIELD_OF_CHOICE const char *

struct run {
#define OPTION_RUN(field, type, ...) FIELD_OF_##type field;
#define OPTION_HARNESS(...)
#include "runtime/config/run_options.def"
	const void *workload_opts; /* the workload's options, for its data set */
	/* By --steps or --tokens: the steps that the last epoch is shorter than the others, and
	 * the same in epochs. */
	int64_t cut;
	double cut_epochs;
	bool no_interval; /* the strategy has none: it may not read sync_every, which is 1 */
};

#endif
