/*
 * optimizer.c - the list of optimisers. A new one is a file of its own, which defines
 * optimizer_NAME, and one line here; what it does to a float is a row and a formula of
 * runtime/device/rules.h, where no other's will do.
 */
#include "mvbench.h"

#define OPTIMIZERS(X) \
	X(sgd) \
	X(nesterov) \
	X(adamw) \
	X(lion) \
	X(muon) \
	/* the end, so that no line above changes when one is added */

#define DECLARE(name) extern const struct optimizer optimizer_##name;
#define POINT(name)   &optimizer_##name,

OPTIMIZERS(DECLARE)
const struct optimizer *const optimizers[] = {OPTIMIZERS(POINT) NULL};
