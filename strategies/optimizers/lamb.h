/*
 * lamb.h - what LAMB and LARS have in common: norms of a tensor.
 */
#ifndef LAMB_H
#define LAMB_H

#include "strategies/optimizers/adamw.h"

/* Scratch of a tensor: [0] as long as it, for its step; [1], [2] squared norms. */
void lamb_scratch(size_t rows, size_t columns, size_t length[SCRATCH_MOST]);
/* scratch[1] = that of param, scratch[2] = that of u. */
void lamb_norms(const struct param_group *p, const struct vec *u);

#endif
