/*
 * optimizer.h - the interface of an optimiser. Part of mvbench.h, which includes it.
 */
#ifndef OPTIMIZER_H
#define OPTIMIZER_H

/* ---- Optimisers: strategies/optimizers/NAME.c defines optimizer_NAME; optimizer.c there lists it.
 * Each worker has one for its part of the model. ---- */

/* An optimiser's pass over floats x with gradients g = scale g. runtime/device/rules.h has the
 * formulas, which show the fields that each rule reads. */
enum rule_kind {
	RULE_SGD,
	RULE_MOMENTUM,
	RULE_NESTEROV,
	RULE_ADAMW,
	RULE_LION,
	RULE_ADAGRAD,
	RULE_ADAM /* x = the direction of Adam's step: x, lr and decay are not read */
};
struct rule {
	enum rule_kind kind;
	float lr, scale, decay, eps;
	double beta[2]; /* 1 - beta of a float would be wrong near 1 */
};
/* moment: as many vectors as the rule keeps. The correction for moments that started at 0 depends
 * on the step (struct optimizer). */
void vec_step(struct vec *x, struct vec *const moment[], const struct vec *g,
	      const struct rule *by);

enum { SCRATCH_MOST = 5 };
/* Floats first .. end - 1 of param, grad and the moments, which one step treats alike. */
struct param_group {
	size_t first, end;
	struct vec *param, *grad, *moment[MOMENTS_MOST]; /* views of them */
	float decay;          /* --weight-decay, or 0 where the decay spares them */
	size_t rows, columns; /* of a tensor, if the optimiser asks for these; otherwise 0 */
	struct vec *scratch[SCRATCH_MOST]; /* for a tensor: as the optimiser asks; shared by all
					      groups */
};

struct optimizer {
	struct plugin plugin;
	/* NULL = accepts all configurations. Returns NULL, or why it refuses this one: a message
	 * (heap). */
	char *(*refuse)(const struct run *run, const void *opts);
	/* Number of vectors as long as param that it keeps: at most MOMENTS_MOST. */
	int (*moments)(const struct run *run, const void *opts);
	bool momentum; /* it uses --momentum; otherwise a recipe's momentum is ignored */
	bool coupled;  /* weight decay is part of the gradient */
	/* The length of a step does not follow the gradient's. */
	bool normalises;
	/* A step is -lr v, where v is moment[0], or the gradient if it keeps none: a server can
	 * make the step instead of the worker. */
	bool plain;
	/* A step uses grad only in one vec_step or vec_sgd, which then also applies the factor of
	 * --clip. This saves a pass over memory. */
	bool one_pass;
	/* Factors of a float's moment[0], and of the square root of its moment[1], in step t, from
	 * 1 on, to correct for their start at 0; NULL = 1. */
	void (*unbias)(const void *opts, int64_t t, float by[MOMENTS_MOST]);
	/* NULL = groups have no shape. Otherwise it needs whole hidden matrices, or, with
	 * .tensors, every tensor as a group, and for each scratch of these lengths. */
	bool tensors;
	void (*scratch)(size_t rows, size_t columns, size_t length[SCRATCH_MOST]);
	/* param's step by scale grad; decay: the group's, or 0. It must not read the step's number,
	 * because a device may keep and repeat the operations. */
	void (*step)(struct worker *w, const struct param_group *p, float scale, float decay);
};
extern const struct optimizer *const optimizers[]; /* ends at NULL */

/* An optimiser of a strategy, in addition to the workers': it steps x by scale g, vectors that are
 * laid out as param, or shorter ones, which are rows of floats to it. how: its name and its options
 * that are not defaults, "adamw:beta1=0.8:beta2=0.95". --weight-decay and --clip do not apply to
 * it. Checkpoints contain what it keeps. */
struct stepper;
/* NULL, or a message about this value of --option, which names an optimiser. momentum: for
 * optimisers that use --momentum. */
char *stepper_refuse(const struct run *run, const char *option, const char *how, double momentum);
struct stepper *stepper_new(struct worker *w, const char *how, double momentum, struct vec *x,
			    struct vec *g);
void stepper_step(struct stepper *s, double lr, double momentum, float scale);
const struct vec *stepper_moment(const struct stepper *s, int k); /* NULL: it keeps no such */
void stepper_free(struct stepper *s);                             /* NULL is fine */

#endif
