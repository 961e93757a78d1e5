/*
 * levels.h - two-level averaging: between the rounds of all trainers, those of a group average
 * their models. A group is the trainers of a machine or of a site, or a number of neighbouring
 * ranks.
 */
#ifndef LEVELS_H
#define LEVELS_H

#include "mvbench.h"

#pragma GCC visibility push(default) /* as in mvbench.h */

struct levels_opts {
	int64_t every, size;
};
/* clang-format off */
/* Rows of an options table of struct OWNER, which has a struct levels_opts `levels`. */
#define LEVELS_OPTIONS \
	OPTION(levels.every, INT, "group-every", "0", \
	       "steps between two averagings within a group, between the rounds of all; 0: there " \
	       "are no groups [steps]", \
	       .max = 1e9), \
	OPTION(levels.size, INT, "group", "0", \
	       "a group: that many neighbouring ranks; 0: the workers of a machine, or of " \
	       "a site of a simulated platform [workers]", \
	       .max = WORKERS_MOST)
/* clang-format on */
/* NULL, or why the strategy of this name refuses them. */
char *levels_refuse(const struct run *run, const char *strategy, const struct levels_opts *o);

struct levels {
	struct comm *comm; /* NULL: there are no groups */
	int groups;
	int64_t every;
	struct vec *share; /* [1] */
	struct {
		double shares; /* sum of worker_share */
		int64_t idle;  /* steps in which some worker had no rows */
	} since;               /* the models of a group were last averaged */
};

/* Without groups none of these sends anything. l: a part of the worker's state. */
void levels_init(struct levels *l, struct worker *w, const char *strategy,
		 const struct levels_opts *o);
void levels_fini(struct levels *l);
void levels_stepped(struct levels *l, const struct worker *w); /* after each local step */
bool levels_due(const struct levels *l, const struct worker *w);
void levels_average(struct levels *l, struct worker *w); /* then local_met */
void levels_restart(struct levels *l);                   /* all trainers have one model now */
/* What a trainer sends within its group between two rounds that are so many steps apart. */
double levels_bytes(const struct levels *l, const struct worker *w, int64_t steps);

#pragma GCC visibility pop
#endif
