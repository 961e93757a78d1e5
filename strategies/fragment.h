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
		       "learning rate of the outer optimiser; SlowMo's is 1, DiLoCo's " \
		       "0.7 [factor]", \
		       .min = 0, .max = 1000), \
		OPTION(outer.momentum, REAL, "outer-momentum", "0.5", \
		       "momentum of the outer optimiser, if it is momentum, sgd or nesterov; " \
		       "SlowMo's " \
		       "is 0.4 to 0.8, DiLoCo's 0.9 [factor]", \
		       .min = 0, .max = 0.999)
/* Parts of the model, and how long their sums travel. */
struct stream_opts {
	int64_t fragments, delay;
	bool eager;
	const char *layout;
	double mix;
};
/* Rows for a struct stream_opts `stream`. */
#define STREAM_OPTIONS \
	OPTION(stream.fragments, INT, "fragments", "1", \
	       "parts of the model that are averaged at different steps, each every --sync-every " \
	       "steps: Streaming DiLoCo [fragments]", \
	       .min = 1, .max = FRAGMENTS_MOST), \
		OPTION(stream.layout, CHOICE, "layout", "strides", \
		       "how the layers are dealt to fragments of about equal sizes: in turn over " \
		       "the model's depth, or as neighbours", \
		       .choices = "strides|neighbours"), \
		OPTION(stream.delay, INT, "delay", "0", \
		       "steps in which the sum of a fragment travels, while training goes on " \
		       "[steps]", \
		       .max = 1e9), \
		OPTION(stream.mix, REAL, "mix", "0", \
		       "the share that a worker's own model keeps after a round; Streaming " \
		       "DiLoCo's is 0.5 with a delay [fraction]", \
		       .max = 1), \
		OPTION(stream.eager, BOOL, "eager", "false", \
		       "with a delay of --sync-every: a worker's own change counts at once, the " \
		       "others' a round later [true/false]")
/* NULL, or why the strategy of this name refuses them. */
char *stream_refuse(const struct run *run, const char *strategy, const struct stream_opts *o,
		    const struct outer_opts *outer);
char *outer_refuse(const struct run *run, const char *strategy, const struct outer_opts *o);

/* What is the same for all fragments of a strategy. */
struct fragment_terms {
	const struct outer_opts *outer;
	const struct stream_opts *stream;
	bool remembers; /* W is needed also to average only */
};

struct fragment {
	struct vec *averaged;  /* W after its last round; NULL: a mean needs none */
	struct stepper *outer; /* NULL: there is none */
	struct vec *change;    /* what travels; one for all: param itself */
	struct comm *coded;    /* whose workers add it up; one for all: the worker's */
	/* With a delay of a whole round: the sum that has arrived, which the outer step takes.
	 * Eager: between rounds, the change that it sent last. */
	struct vec *late;
	size_t slices; /* ranges of neighbouring layers; one for all: 0 */
	struct fragment_slice {
		size_t first, length; /* in the model */
		struct vec *param, *change, *averaged;
	} * slice;
	struct request *sum; /* on its way; NULL: there is none, or it has arrived */
	struct {
		int64_t sent, taken; /* the steps in which rounds were last begun, and ended */
		double lr, lr_last; /* of the first step of this round, and of the last; 0 = none */
		double momentum;    /* of the outer step of the round that was sent */
		/* Steps since it was sent, and the sum of worker_share over them. Of those before a
		 * late sum came, param has kept the share --*.mix: they count as much. */
		double steps, shares;
	} now;
};

/* of[i] = which of n fragments has layer i (layout.c). n: at most as many as there are layers. */
void fragment_layout(const struct model *m, bool strides, size_t n, size_t *of);
/* Fragment k: its layers, its vectors, and whose workers add it up (layout.c). */
void fragment_cut(struct fragment *f, struct worker *w, const struct stream_opts *o, size_t k);

void fragment_init(struct fragment *f, struct worker *w, const struct fragment_terms *t, size_t k);
void fragment_fini(struct fragment *f, const struct worker *w);
/* A round begins after this step; common: with W = param. */
void fragment_restart(struct fragment *f, int64_t step, bool common);
void fragment_stepped(struct fragment *f, const struct worker *w); /* after each local step */
/* Sends the change since the last round. With a delay of a whole round it also ends that round, as
 * fragment_take; eager: with the new change. */
void fragment_send(struct fragment *f, struct worker *w, const struct fragment_terms *t);
void fragment_wait(struct fragment *f); /* until the sum has arrived */
/* Ends the round that was sent: outer step, new W, new param; then local_met. */
void fragment_take(struct fragment *f, struct worker *w, const struct fragment_terms *t);
/* model, which is laid out as param, gets W if training goes on meanwhile, or if an outer step is
 * not linear in the models. Otherwise it gets this trainer's contribution to the W that a round now
 * would give, which is the mean of all N. It may be param itself. */
void fragment_preview(const struct fragment *f, struct worker *w, const struct fragment_terms *t,
		      struct vec *model);

#pragma GCC visibility pop
#endif
