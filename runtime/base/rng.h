/*
 * rng.h - random numbers: splitmix64, the same on every platform.
 */
#ifndef RNG_H
#define RNG_H

#include <stdint.h>

#pragma GCC visibility push(default) /* as in mvbench.h */

/* The purposes; each has its own streams, numbered by index. */
enum rng_stream {
	RNG_DATA,
	RNG_INIT,
	RNG_ORDER,
	RNG_STRAGGLE,
	RNG_AUGMENT,
	RNG_DROPOUT,
	RNG_COMPUTE,
	RNG_SAMPLE,
	RNG_SHARD,
	RNG_VALIDATION,
	RNG_CELLS,
	/* For plug-ins. A run has one of each kind. The plug-in chooses the index: rank, or step *
	 * trainers + rank. The other streams belong to the core. */
	RNG_STRATEGY,
	RNG_WORKLOAD,
	RNG_OPTIMIZER,
	RNG_CODEC /* of the core, for struct code */
};
uint64_t rng_seed(int64_t seed, enum rng_stream what, int64_t index);
uint64_t rng_next(uint64_t *s);
double rng_uniform(uint64_t *s); /* [0, 1) */
double rng_normal(uint64_t *s);  /* mean 0, variance 1 */

#pragma GCC visibility pop
#endif
