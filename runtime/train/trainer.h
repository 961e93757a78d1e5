/*
 * trainer.h - what the files of a trainer's life share: train.c (set-up, life), deal.c (which rows
 * it takes), epoch.c (the steps of an epoch), account.c (what the strategy is told of it),
 * promise.c, evaluate.c (the models between segments), checkpoint.c (what a run begins with, and
 * keeps), gather.c (sums over trainers).
 */
#ifndef TRAINER_H
#define TRAINER_H

#include "runtime/train/train.h"
#include "sim/model/model.h"

/* Simulations of time alone have lengths only: shapes of data, no data, and nothing to judge. */
static inline bool has_floats(const struct run *run)
{
	return !world_is_virtual || run->sim_train;
}

/* The model as this rank knew it at one instant, to be evaluated after the segment. */
struct snapshot {
	struct vec *param;  /* NULL: evaluated where it stands, at the barrier */
	struct vec *buffer; /* of w->buffer, likewise */
	int64_t epoch;
	int64_t step;  /* of the run, where it is not an epoch's end */
	nsec end;      /* since the segment's start */
	bool left;     /* before its end */
	int reporting; /* the replica that came there last: its snapshot counts */
};

/* What the strategy was told of an epoch, and said of it. */
struct account {
	struct promises *promises; /* --check-promises; else NULL */
	struct tally taken;        /* losses that worker_loss took from the device */
	struct epoch_values values;
};

/* One epoch of this rank, run but not evaluated yet. */
struct epoch_record {
	struct snapshot model;
	struct split_row split;
	size_t first_meeting, last_meeting;
	int64_t staleness[STALENESS_BINS];
	struct tally running;
	struct epoch_values values;
	double seconds; /* from one epoch's end for all to the next; 0 = one's own */
};

static inline void tally_add(struct tally *t, const struct tally *more)
{
	t->loss += more->loss;
	t->correct += more->correct;
	t->rows += more->rows;
}

struct trainer {
	struct worker w;
	struct device dev;
	struct stats stats;
	struct data train, validation, test;
	const struct config *config;
	const struct plan *plan;
	const struct sink *sink;
	struct status_page *page;
	struct lookout *lookout;        /* NULL: a watcher of ours watches */
	const struct recording *replay; /* the order that operations keep; NULL = none */

	int replica, replicas; /* place of this worker's model among the models */
	struct dealing *dealing;
	struct rows train_rows, validation_rows, test_rows; /* on which models are evaluated */
	int32_t *order;         /* of this trainer's rows of the epoch, or the step */
	size_t *step_first;     /* [steps + 1], into order */
	float *lr;              /* [steps] */
	size_t step;            /* of the epoch: that the mini-batch under way is of */
	bool ends_with_barrier; /* the epoch */
	struct vec *saved;      /* param, while another model is evaluated in its place, */
	struct vec *buffer;     /* and w->buffer, */
	struct vec *statistics; /* which is made anew there; NULL = the workers' mean counts */

	struct account account; /* of the epoch under way */
	struct epoch_record *record;
	int64_t records, records_max;
	struct snapshot *point;                 /* --judge-every: those of this segment */
	int64_t points, points_max, next_point; /* next_point: after so many steps of the run */
	nsec start;
	nsec stopped;   /* the clock, in this segment: what points took */
	double elapsed; /* seconds of the epochs that were evaluated */
	nsec trained;   /* in the segments before this one */

	/* what is said of this worker; what has taken place is at NEVER */
	struct heterogeneity heterogeneity;
	bool delayed;       /* its steps may be, by --step-time, --straggle or --speed */
	bool leaving, left; /* --leave: as soon as what it has taken is trained on; it has */
	nsec stood;         /* --pause */

	struct link *all;      /* of w.all: the trainers */
	struct link *everyone; /* workers and servers; NULL without servers */
	struct trace *trace;   /* --trace; or NULL */
	struct cluster cluster;

	struct checkpoint_head head;          /* --save: of this run; where nothing is kept, too */
	struct checkpoint *initial, *resumed; /* rank 0, in set-up: what it begins with; NULL */
	struct checkpoint *last; /* rank 0: of the last epoch, until the run has ended */
	bool resumes;            /* it goes on after epoch head.epoch */

	float *step_s; /* [steps kept]: durations [s], where the sink wants them; or NULL */
	size_t steps_kept, steps_room;
	size_t steps_most; /* 0: not known yet */

	struct split_row *ranks; /* rank 0: gathered */
	size_t arrived;          /* rank 0: operations of the workers that were recorded */
	double first_loss;       /* of the test set before training */
	char reason[512];
	int status;
};

/* ---- deal.c: mini-batches, which it puts into w->index and w->rows ---- */

void deal_open(struct trainer *r); /* collective, after the strategy's tables */
void deal_close(struct trainer *r);
char *deal_record(struct trainer *r);       /* by rank 0: whose rows are whose, to the sink */
int64_t deal_most(const struct trainer *r); /* steps that it may make in one epoch */
void deal_epoch(struct trainer *r, int64_t epoch); /* what an epoch needs, with learning rates */
/* The i-th that it can get: of this epoch, dynamically of the first, which has the same sizes;
 * false: there are fewer. */
bool deal_take(struct trainer *r, int64_t i);
/* The one for its i-th step of this epoch; false: none is left. */
bool deal_next(struct trainer *r, int64_t i);
/* After what may have pushed. True: a push was dropped, and its rows come again. */
bool deal_settle(struct trainer *r);
/* Takes no more, but for what it has taken; true: that is nothing. */
bool deal_no_more(struct trainer *r);

/* ---- step.c: beside the contract's local_* ---- */

void local_begin(struct worker *w);  /* before a step: what of it is not the same in each */
void local_forget(struct worker *w); /* the moments begin anew */

/* ---- account.c: beside the contract's worker_loss and worker_report ---- */

void values_add(struct epoch_values *r, const struct epoch_value *more);

/* ---- promise.c: with --check-promises, what a strategy and a workload say of themselves; where it
 * is not so, the run ends with a sentence that names the plug-in and the flag ---- */

void promises_open(struct trainer *r); /* after the strategy's init */
void promises_close(struct trainer *r);
void promises_at_barrier(struct trainer *r); /* collective, off the clock */
/* The rest only where they are checked: */
static inline bool are_checked(const struct worker *w)
{
	return __builtin_expect(w->account && w->account->promises, 0);
}
void promise_gradient(struct worker *w); /* the workload's, */
void promise_step(struct worker *w);     /* the strategy's, watched */
void promise_layer(struct worker *w, size_t i);
void promise_met(const struct worker *w);

/* ---- epoch.c ---- */

void epoch_warm_up(struct trainer *r); /* after the first deal; leaves the model as it was */
/* After so many steps of the run, that is no epoch's end: the next point to be evaluated. */
int64_t epoch_next_point(const struct worker *w, int64_t after);
/* Runs one epoch and fills the next record. Ends with a barrier when `barrier` says so. */
void epoch_run(struct trainer *r, bool barrier);
bool epoch_has_kept_all(const struct trainer *r); /* enough durations of steps */

/* ---- evaluate.c: collective, off the clock ---- */

/* Puts the canonical model into param, and the mean of the models' buffers into buffer, until it is
 * taken back; s: as they stood then, NULL = now. */
void model_place(struct trainer *r, const struct snapshot *s);
void model_take_back(struct trainer *r, const struct snapshot *s);
void model_hash(struct trainer *r, char hex[17]);
/* Evaluates at the ends of these n epochs, and hands their rows to the sink. */
void evaluate(struct trainer *r, struct epoch_record *record, int64_t n);
/* Rank 0 decides (its sentence, or NULL), all ranks learn: has the run ended, and how? */
void decide(struct trainer *r, char *sink_error);

/* ---- checkpoint.c: collective, off the clock (but worker_keep) ---- */

/* Finds what the run begins with, and brings its model in: before tables and strategies, which
 * begin with what stands in param. */
void checkpoint_begin(struct trainer *r);
/* Right before the first epoch: every worker gets back what it had. */
void checkpoint_resume(struct trainer *r);
void checkpoint_save(struct trainer *r); /* after the evaluation at a barrier, if one is due */
void checkpoint_end(struct trainer *r);  /* the run has ended, and is recorded */
void checkpoint_close(struct trainer *r);
void keepsakes_free(struct worker *w); /* what worker_keep and worker_keep_vec named */

/* ---- gather.c: collective, off the clock ---- */

/* What trainers have together. Of doubles only, so that one reduction takes all of it. */
struct epoch_sum {
#define FIGURE(name) double name;
	SPLIT_TIMES(FIGURE)
	SPLIT_COUNTS(FIGURE)
#undef FIGURE
	double reports; /* names that workers have, each its own */
	struct tally_sum {
		double loss, correct, rows;
	} running, train, validation, test;
};

/* What a model came to on the rows that models are evaluated on, this trainer's part of them. */
struct evaluated {
	struct tally train, validation, test;
};

/* When the epochs of these records ended, and the points, and whose snapshots count. */
void gather_ends(struct trainer *r, struct epoch_record *record, int64_t n);
/* The figures of a point's evaluation, over the trainers. */
void gather_point(struct trainer *r, const struct evaluated *evaluated, struct point_row *row);
/* The figures of an epoch record, with those of its evaluation, over the trainers: row on every
 * rank but for its most, r->ranks on rank 0; the histogram of staleness is summed in the record,
 * and so, on rank 0, are the strategy's reports. */
void gather_epoch(struct trainer *r, struct epoch_record *record, const struct evaluated *evaluated,
		  struct epoch_row *row);
/* What was recorded in this segment goes to the sink, in order: operations on tables, which
 * --record wants or a replay is held to; the timeline of workers and servers. */
void gather_arrivals(struct trainer *r);
void gather_events(struct trainer *r);

#endif
