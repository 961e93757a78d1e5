/*
 * rows.h - what a run tells of an epoch: plain numbers, which the status page and the results have.
 */
#ifndef ROWS_H
#define ROWS_H

#include "runtime/watch/watch.h"

/* Figures of one rank in one epoch: times [s], averaged over the workers, and counts, summed over
 * them. Every figure listed here is gathered automatically. */
#define SPLIT_TIMES(X) \
	X(seconds) X(compute_s) X(comm_s) X(wait_s) X(user_s) X(system_s) X(run_delay_s) X(steal_s)
#define SPLIT_TOTALS(X) X(bytes_sent) X(pushes) X(dropped) X(preemptions)
#define SPLIT_COUNTS(X) SPLIT_TOTALS(X) X(staleness_sum)
struct split_row {
#define FIGURE(name) double name;
	SPLIT_TIMES(FIGURE)
#undef FIGURE
#define FIGURE(name) int64_t name;
	SPLIT_COUNTS(FIGURE)
#undef FIGURE
	int64_t staleness_max, peak_bytes; /* the largest of a worker */
};

/* Times of an epoch or a run are unreliable if it had less than this share of its cores. */
#define CORES_SHARE_LEAST 0.9

/* A model's means over the rows that it was evaluated on; NaN = not known. */
struct judged {
	double loss, accuracy;
};
/* The rows of an evaluation: a part of the training set, the validation rows, the test rows. */
enum { ON_TRAIN, ON_VALIDATION, ON_TEST, EVALUATED };

struct epoch_row {
	int64_t epoch; /* 0 = before training */
	double share;  /* steps, as a part of those of a whole epoch */
	/* times: mean over workers; except seconds: of the segment; run_delay_s and steal_s: the
	 * maximum */
	struct split_row split;
	/* on the mini-batches, under each worker's own model, before the step */
	struct judged running, on[EVALUATED]; /* on: of the evaluated model */
	double consensus; /* sqrt(mean over the models of |w_i - mean w|^2); NaN: no barrier */
};

/* An evaluation between two ends of epochs (--eval-every); fields as above. */
struct point_row {
	int64_t step;   /* steps of the run so far */
	double epochs;  /* the same in epochs */
	double seconds; /* training time so far */
	struct judged on[EVALUATED];
};

_Static_assert(sizeof(struct epoch_row) <= sizeof(uint64_t) * ROW_WORDS, "ROW_WORDS of a page");

/* Of a page: row i of those so far, as status_row. */
static inline struct epoch_row *page_row(const struct status_page *p, int64_t i)
{
	return (struct epoch_row *)status_row(p, i);
}
/* Adds a row, and its figures to the sums. */
void page_add(struct status_page *p, const struct epoch_row *row);

#endif
