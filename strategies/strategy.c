/*
 * strategy.c - the list of strategies. A new one is a file of its own, which defines
 * strategy_NAME, and one line here.
 */
#include "mvbench.h"

#define STRATEGIES(X) \
	X(serial) \
	X(allreduce) \
	X(asgd) \
	X(bsp) \
	X(ssp) \
	X(periodic) \
	X(downpour) \
	X(easgd) \
	X(gossip) \
	X(model_parallel) \
	X(hybrid) \
	/* the end, so that no line above changes when one is added */

#define DECLARE(name) extern const struct strategy strategy_##name;
#define POINT(name)   &strategy_##name,

STRATEGIES(DECLARE)
const struct strategy *const strategies[] = {STRATEGIES(POINT) NULL};
