/*
 * strategy.c - the list of strategies. To add a strategy: a file that defines strategy_NAME, and
 * one line here.
 */
#include "mvbench.h"

#define STRATEGIES(X) \
	X(serial) \
	X(allreduce) \
	X(adasum) \
	X(asgd) \
	X(bsp) \
	X(ssp) \
	X(periodic) \
	X(downpour) \
	X(easgd) \
	X(gossip) \
	X(adpsgd) \
	X(sparta) \
	X(model_parallel) \
	X(hybrid) \
	/* the end: a new line changes no other line */

#define DECLARE(name) extern const struct strategy strategy_##name;
#define POINT(name)   &strategy_##name,

STRATEGIES(DECLARE)
const struct strategy *const strategies[] = {STRATEGIES(POINT) NULL};
