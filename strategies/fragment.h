/*
 * fragment.h - a part of the model that trainers average by itself, at its own time: what local SGD
 * and its relatives share.
 *
 * A round of a fragment: each trainer sends the change of its part since the last round; the sum of
 * the changes is the gradient of an outer step, or gives the mean; the result becomes a new common
 * W, which replaces the trainer's part, or is mixed with it.
 */
#ifndef FRAGMENT_H
#define FRAGMENT_H

#include "mvbench.h"

#pragma GCC visibility push(default) /* as in mvbench.h */

enum { FRAGMENTS_MOST = 32 };

/* The outer optimiser, of a strategy's options. */
struct outer_opts {
	const char *how; /* "none", "momentum", or the words of a stepper */
	double lr, momentum;
};
/* Rows of an options table of struct OWNER, which has a struct outer_opts `outer`. */
#define OUTER_OPTIONS \
	OPTION(outer.how, STRING, "outer", "none", \
	       "outer optimiser, whose gradient is minus the change of the models since the last " \
	       "averaging: none only averages them; momentum is SlowMo, nesterov is DiLoCo; or " \
	       "any other, followed by its own options, such as adamw:beta2=0.95 [name]"), \
		OPTION(outer.lr, REAL, "outer-lr", "1", \
		       "learning rate of the outer optimiser; SlowMo's is 1, DiLoCo's 0.7 [factor]", \
		       .min = 0, .max = 1000), \
		OPTION(outer.momentum, REAL, "outer-momentum", "0.5", \
		       "momentum of the outer optimiser, if it is momentum, sgd or nesterov; SlowMo's " \
		       "is 0.4 to 0.8, DiLoCo's 0.9 [factor]", \
		       .min = 0, .max = 0.999)
/* NULL, or why the strategy of this name refuses them. */
char *outer_refuse(const struct run *run, const char *strategy, const struct outer_opts *o);

/* What is the same for all fragments of a strategy. */
struct fragment_terms {
	const struct outer_opts *outer; /* none: averages only */
	bool remembers;                 /* W is needed even then */
	float mix; /* the share that the trainer's own part keeps after a round */
	/* Its layers: neighbours, or each n-th. whole: all of them, and nothing happens while the
	 * sum travels. */
	enum { NEIGHBOURS, STRIDES, WHOLE } layout;
};

struct fragment {
	struct vec *averaged;  /* W after its last round; NULL: a mean needs none */
	struct stepper *outer; /* NULL: there is none */
	struct vec *change;    /* what travels; WHOLE: param itself */
	struct comm *coded;    /* whose workers add it up; WHOLE: the worker's */
	size_t slices;         /* ranges of neighbouring layers; WHOLE: 0 */
	struct fragment_slice {
		size_t first, length; /* in the model */
		struct vec *param, *change, *averaged;
	} * slice;
	struct request *sum; /* on its way; NULL: there is none, or it has arrived */
	struct {
		int64_t sent, taken; /* the steps in which rounds were last begun, and ended */
		double lr, lr_last; /* of the first step of this round, and of the last; 0 = none */
		double momentum;    /* of the outer step of the round that was sent */
		double shares;      /* sum of worker_share since then */
	} now;
};

/* Fragment k of n. */
void fragment_init(struct fragment *f, struct worker *w, const struct fragment_terms *t, size_t k,
		   size_t n);
void fragment_fini(struct fragment *f, const struct worker *w);
/* A round begins after this step; common: with W = param. */
void fragment_restart(struct fragment *f, int64_t step, bool common);
void fragment_stepped(struct fragment *f, const struct worker *w); /* after each local step */
void fragment_send(struct fragment *f, struct worker *w, const struct fragment_terms *t);
void fragment_wait(struct fragment *f); /* until the sum has arrived */
/* Ends the round that was sent: outer step, new W, new param. */
void fragment_take(struct fragment *f, struct worker *w, const struct fragment_terms *t);
/* model, which is laid out as param, gets W if training goes on meanwhile, or if an outer step is
 * not linear in the models. Otherwise it gets this trainer's contribution to the W that a round now
 * would give, which is the mean of all N. It may be param itself. */
void fragment_preview(const struct fragment *f, struct worker *w, const struct fragment_terms *t,
		      struct vec *model);

#pragma GCC visibility pop
#endif
