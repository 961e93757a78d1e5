/*
 * workload.c - the list of workloads, one line for each.
 */
#include "workloads/net.h"

#define WORKLOADS(X) \
	X(perceptron) \
	X(softmax) \
	X(mlp) \
	X(tanh_mlp) \
	X(lenet) \
	X(resnet) \
	X(gpt) \
	/* the end: a new line changes no other line */

#define DECLARE(name) extern const struct workload workload_##name;
#define ENTRY(name)   &workload_##name,

WORKLOADS(DECLARE)

const struct workload *const workloads[] = {WORKLOADS(ENTRY) NULL};
