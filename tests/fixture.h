/*
 * fixture.h - a worker alone, built by hand: one rank, one device, a workload or none. For tests of
 * what a single worker does, without the training loop, a communicator or a strategy.
 */
#ifndef FIXTURE_H
#define FIXTURE_H

#include "../runtime/platform.h"

struct fixture {
	struct worker w;
	struct run run;
	struct device dev;
	struct data train, test;
	void *opts;
	bool loaded; /* train and test are the dataset's own */
};

/* Fills run with defaults (seed 1, batch 4, lr 0.1, no momentum) and opens the device. */
void fixture_open(struct fixture *f, const struct device_ops *ops);
/* The workload's options at their defaults; its model is made by fixture_init. */
void fixture_workload(struct fixture *f, const struct workload *workload);
/* Rows of noise instead of the dataset: n rows of `features`, of `classes` or regression. */
void fixture_data(struct fixture *f, size_t n, size_t features, size_t classes);
/* The workload's own dataset, loaded; returns false with a message when it is not there. */
bool fixture_load(struct fixture *f);
void fixture_init(struct fixture *f); /* calls the workload's init on the training data */
void fixture_close(struct fixture *f);

/* The whole vector in host memory, from the heap. */
float *fixture_get(const struct vec *v);

#endif
