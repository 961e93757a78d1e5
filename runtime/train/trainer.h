/*
 * trainer.h - what the files of a trainer's life share: train.c (set-up, life), deal.c (which rows
 * it takes), epoch.c (the steps of an epoch), evaluate.c (the models between segments), gather.c
 * (sums over trainers).
 */
#ifndef TRAINER_H
#define TRAINER_H

#include "runtime/train/train.h"
#include "sim/model/model.h"

/* One epoch of this rank, run but not evaluated yet. */
struct epoch_record {
	int64_t epoch;
	struct split_row split;
	nsec end; /* since the segment's start */
	size_t first_collective, last_collective;
	int64_t staleness[STALENESS_BINS];
	struct tally train;
	struct vec *snapshot; /* NULL: evaluated where it stands, at the barrier */
	struct vec *buffer;   /* of w->buffer, likewise */
	bool left;            /* before its end */
	double seconds;       /* from one epoch's end for all to the next; 0 = one's own */
	int reporting;        /* the replica that ended it last: its snapshot counts */
};

struct trainer {
	struct worker w;
	struct device dev;
	struct stats stats;
	struct data train, test;
	const struct config *config;
	const struct plan *plan;
	const struct sink *sink;
	struct status_page *page;
	const struct recording *replay; /* the order that operations keep; NULL = none */

	int replica, replicas; /* place of this worker's model among the models */
	struct dealing *dealing;
	int32_t *order, *test_order; /* order: of this trainer's rows of the epoch, or the step */
	size_t *step_first;          /* [steps + 1], into order */
	float *lr;                   /* [steps] */
	size_t step;                 /* of the epoch: that the mini-batch under way is of */
	struct vec *saved;           /* param, while another model is evaluated in its place, */
	struct vec *buffer;          /* and w->buffer */

	struct epoch_record *record;
	int64_t records, records_max;
	nsec start;
	nsec trained; /* in the segments before this one */

	/* what is said of this worker; what has taken place is at NEVER */
	struct heterogeneity heterogeneity;
	bool delayed;       /* its steps may be, by --straggle or --speed */
	bool leaving, left; /* --leave: as soon as what it has taken is trained on; it has */
	nsec stood;         /* --pause */

	struct link *all;      /* of w.all: the trainers */
	struct link *everyone; /* workers and servers; NULL without servers */
	struct trace *trace;   /* --trace; or NULL */

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

/* ---- epoch.c ---- */

void epoch_warm_up(struct trainer *r); /* after the first deal; leaves the model as it was */
/* Runs one epoch and fills the next record. Ends with a barrier when `barrier` says so. */
void epoch_run(struct trainer *r, bool barrier);
bool epoch_has_kept_all(const struct trainer *r); /* enough durations of steps */

/* ---- evaluate.c: collective, off the clock ---- */

/* Puts the canonical model into param, and the mean of the models' buffers into buffer, until it is
 * taken back; record: as they stood at its end, NULL = now. */
void model_place(struct trainer *r, const struct epoch_record *record);
void model_take_back(struct trainer *r, const struct epoch_record *record);
void model_hash(struct trainer *r, char hex[17]);
/* Evaluates at the ends of these n epochs, and hands their rows to the sink. */
void evaluate(struct trainer *r, struct epoch_record *record, int64_t n);
/* Rank 0 decides (its sentence, or NULL), all ranks learn: has the run ended, and how? */
void decide(struct trainer *r, char *sink_error);

/* ---- gather.c: collective, off the clock ---- */

/* What trainers have together. Of doubles only, so that one reduction takes all of it. */
struct epoch_sum {
#define FIGURE(name) double name;
	SPLIT_TIMES(FIGURE)
	SPLIT_COUNTS(FIGURE)
#undef FIGURE
	struct tally_sum {
		double loss, correct, rows;
	} train, test;
};

/* When the epochs of these records ended, and whose snapshots count. */
void gather_ends(struct trainer *r, struct epoch_record *record, int64_t n);
/* The figures of an epoch record, with those of the test, over the trainers: row on every rank but
 * for its most, r->ranks on rank 0; the histogram of staleness is summed in the record. */
void gather_epoch(struct trainer *r, struct epoch_record *record, const struct tally *test,
		  struct epoch_row *row);
/* What was recorded in this segment goes to the sink, in order: operations on tables, which
 * --record wants or a replay is held to; the timeline of workers and servers. */
void gather_arrivals(struct trainer *r);
void gather_events(struct trainer *r);

#endif
