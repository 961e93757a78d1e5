/*
 * datasets.h - the data sets that models use, and what their files share.
 */
#ifndef DATASETS_H
#define DATASETS_H

#include "workloads/net.h"

#pragma GCC visibility push(default) /* as in mvbench.h */

extern const struct dataset dataset_cubes;              /* cubes.c */
extern const struct dataset dataset_fashion_mnist;      /* mnist.c */
extern const struct dataset dataset_fashion_mnist_32;   /* mnist.c */
extern const struct dataset dataset_cifar10_or_fashion; /* cifar.c */
extern const struct dataset dataset_text;               /* text.c */

/* Frees the rows, and leaves both parts empty: the unload of all sets. */
void data_unload(struct data *train, struct data *test);
/* Memory for d->n rows of bytes and their targets, zeroed; false = out of memory. */
bool data_room(struct data *d);

/* Defines the probe and the load of a set: NAME_probe, NAME_load. get: what both return, an
 * expression of their arguments (run, train, test) and of `load`. */
#define PROBE_AND_LOAD(name, get) \
	PROBE_OR_LOAD(name##_probe, false, get) \
	PROBE_OR_LOAD(name##_load, true, get)
#define PROBE_OR_LOAD(function, loads, get) \
	static char *function(const struct run *run, struct data *train, struct data *test) \
	{ \
		const bool load = loads; \
		return get; \
	}

#pragma GCC visibility pop
#endif
