/*
 * plugin.h - plug-ins in a user's file (--strategy=NAME.c), which ends in
 * MVBENCH_PLUGIN(.strategy = &strategy_mine); or .workload, .optimizer, .codec. mvbench.h includes
 * this header last, because it takes the sizes of its structs.
 */
#ifndef PLUGIN_H
#define PLUGIN_H

/* Grows when plug-ins compiled with the older contract no longer work. */
#define CONTRACT_VERSION 4
struct plugin_file {
	uint32_t version;  /* first in all versions, */
	uint32_t bytes[5]; /* if equal, then these: struct sizes at compilation */
	const struct strategy *strategy;
	const struct workload *workload;
	const struct optimizer *optimizer;
	const struct codec *codec;
};
#define CONTRACT_BYTES \
	sizeof(struct option), sizeof(struct worker), sizeof(struct strategy), \
		sizeof(struct optimizer), sizeof(struct codec)
extern const struct plugin_file mvbench_plugin; /* defined by the plug-in */
#define MVBENCH_PLUGIN(...) \
	const struct plugin_file mvbench_plugin = { \
		.version = CONTRACT_VERSION, .bytes = {CONTRACT_BYTES}, __VA_ARGS__}

#endif
