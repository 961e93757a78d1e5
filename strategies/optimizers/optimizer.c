/*
 * optimizer.c - the list of optimisers. To add an optimiser: a file that defines optimizer_NAME,
 * and one line here. If no existing rule fits, its formula for one float goes to
 * runtime/device/rules.h, with a row there.
 */
#include "mvbench.h"

#define OPTIMIZERS(X) \
	X(sgd) \
	X(nesterov) \
	X(adagrad) \
	X(adamw) \
	X(lion) \
	X(muon) \
	X(lamb) \
	X(lars) \
	/* the end: a new line changes no other line */

#define DECLARE(name) extern const struct optimizer optimizer_##name;
#define POINT(name)   &optimizer_##name,

OPTIMIZERS(DECLARE)
const struct optimizer *const optimizers[] = {OPTIMIZERS(POINT) NULL};
