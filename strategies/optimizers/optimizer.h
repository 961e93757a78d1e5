/*
 * optimizer.h - what an optimiser is. A part of mvbench.h, which includes it.
 */
#ifndef OPTIMIZER_H
#define OPTIMIZER_H

/* ---- Optimisers: strategies/optimizers/NAME.c defines optimizer_NAME; optimizer.c there lists it.
 * Each worker steps by one, on what it holds of the model. ---- */

enum { SCRATCH_MOST = 5 };
/* Floats first .. end - 1 of param, grad and the moments, that one step treats alike. */
struct param_group {
	size_t first, end;
	struct vec *param, *grad, *moment[MOMENTS_MOST]; /* views of them */
	float decay;          /* --weight-decay, or 0 where it spares them */
	size_t rows, columns; /* of a hidden matrix, for an optimiser that wants such; else 0 */
	struct vec *scratch[SCRATCH_MOST]; /* of a matrix: as the optimiser says; shared by all */
};

struct optimizer {
	struct plugin plugin;
	/* NULL = can run; else refuses this configuration: a sentence (heap). */
	char *(*refuse)(const struct run *run, const void *opts);
	/* How many vectors as long as param it keeps: at most MOMENTS_MOST. */
	int (*moments)(const struct run *run, const void *opts);
	bool momentum; /* --momentum is its; else a recipe's does not hold */
	bool coupled;  /* weight decay is a part of the gradient */
	/* A step is -lr v, where v is moment[0], or the gradient where it keeps none: so that a
	 * server can make it in place of the worker. */
	bool plain;
	/* All that a step does with grad is one vec_step or vec_sgd on it: that then takes what
	 * --clip leaves of it, too, and a pass over memory is saved. */
	bool one_pass;
	/* What the moments of a float are multiplied by in step t from 1 on, as they began as 0;
	 * NULL = 1. */
	void (*unbias)(const void *opts, int64_t t, float by[MOMENTS_MOST]);
	/* NULL = groups have no shape. Else it wants whole matrices, and for one of this shape
	 * scratch of these lengths. */
	void (*scratch)(size_t rows, size_t columns, size_t length[SCRATCH_MOST]);
	/* param's step by scale grad, with decay: that of the group, or 0. May not look at the
	 * step's number: a device may keep what it was asked to do. */
	void (*step)(struct worker *w, const struct param_group *p, float scale, float decay);
};
extern const struct optimizer *const optimizers[]; /* ends at NULL */

/* An optimiser of a strategy's own, beside the workers': it steps x by scale g, vectors that are
 * laid out as param. how: its name, and options of it that are not at their defaults,
 * "adamw:beta1=0.8:beta2=0.95". Neither --weight-decay nor --clip reaches it, and what it keeps is
 * in checkpoints. */
struct stepper;
/* NULL, or a sentence about this value of --option, which names one. momentum: for those that take
 * --momentum. */
char *stepper_refuse(const struct run *run, const char *option, const char *how, double momentum);
struct stepper *stepper_new(struct worker *w, const char *how, double momentum, struct vec *x,
			    struct vec *g);
void stepper_step(struct stepper *s, double lr, double momentum, float scale);
const struct vec *stepper_moment(const struct stepper *s, int k); /* NULL: it keeps no such */
void stepper_free(struct stepper *s);                             /* NULL is fine */

#endif
