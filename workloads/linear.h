/*
 * linear.h - a linear layer, as a strategy sees it that splits it over the workers of a model
 * group.
 */
#ifndef LINEAR_H
#define LINEAR_H

#include "mvbench.h"

#pragma GCC visibility push(default) /* as in mvbench.h */

/*
 * Y[B x O] = X[B x I] W^T + b, W[O x I]. A strategy may split it over the model group:
 *   WHOLE      W[O x I] on every worker, x and y whole
 *   BY_OUTPUT  W[O_r x I], b[O_r]; x whole, y[B x O_r] is this worker's part
 *   BY_INPUT   W[O x I_r], b[O] on rank 0 of the group, empty elsewhere; y whole
 */
enum split { WHOLE, BY_OUTPUT, BY_INPUT };

struct linear {
	size_t in, out;        /* of the whole layer: I, O */
	size_t chain, chained; /* place in a chain of linear layers with only elementwise
					   layers between, and the length of that chain */
	bool first;            /* no layer below needs its gradient */
	enum split split;
	bool x_split;                                /* x is already this worker's part */
	size_t in_first, in_held;                    /* columns of W held here */
	size_t out_first, out_held;                  /* rows of W held here */
	size_t bias_held;                            /* floats of b held here */
	size_t places;                               /* rows of x for each row of data */
	size_t rows_max;                             /* the largest B */
	struct vec *weight, *bias, *dweight, *dbias; /* slices of param and grad */
	struct vec *part; /* scratch [rows_max x in_held], NULL unless BY_INPUT on whole x */
};

struct linear_ops {
	/* Called when the net is laid out, before memory exists: sets split .. bias_held. Returns
	 * NULL, or a sentence (heap): why this number of workers cannot split the layer. */
	char *(*place)(const struct worker *w, struct linear *l);
	void (*forward)(struct worker *w, struct linear *l, struct vec *y, const struct vec *x,
			size_t rows);
	/* Input dy; output dweight, dbias and dx; dx NULL for the first layer. */
	void (*backward)(struct worker *w, struct linear *l, struct vec *dx, const struct vec *dy,
			 const struct vec *x, size_t rows);
};
extern const struct linear_ops linear_whole; /* without a split; a strategy may use them */
extern const struct linear_ops linear_split; /* over the model group: strategies/linear_split.c */
double linear_split_bytes(const struct worker *w); /* bytes that these send: as bytes_per_step */
const struct linear_ops *linear_ops_of(const struct worker *w); /* the strategy's .linear */
/* Linear layer i of a net, for cost formulas; NULL after the last. */
const struct linear *net_linear_at(const struct net *net, size_t i);
/* Flops of a gradient of a row, on this worker, in layers without vec_gemm, for simulations. */
double net_other_flops(const struct net *net);

#pragma GCC visibility pop
#endif
