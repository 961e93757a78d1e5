/*
 * trainer.h - what the files of this module share: train.c (set-up, main loop), deal.c (which
 * mini-batches a trainer takes), epoch.c (the steps of an epoch), account.c (what the strategy
 * learns of them and reports), promise.c, evaluate.c (evaluation between segments), checkpoint.c
 * (what a run begins with, and keeps), gather.c (sums over trainers).
 */
#ifndef TRAINER_H
#define TRAINER_H

#include "runtime/config/checkpoint.h"
#include "runtime/config/heterogeneity.h"
#include "runtime/table/table.h"
#include "runtime/train/train.h"
#include "sim/model/model.h"

/* Simulations of time alone know only shapes of data; there is no data and nothing to evaluate. */
static inline bool has_floats(const struct run *run)
{
	return !world_is_virtual || run_sim_train(run);
}

/* The model as this rank knew it at one instant, to be evaluated after the segment. */
struct snapshot {
	struct vec *param;  /* NULL: the model in w->param is evaluated, at the barrier */
	struct vec *buffer; /* of w->model->buffer, likewise */
	int64_t epoch;
	int64_t step;  /* of the run, if this is not an epoch's end */
	nsec end;      /* since the segment's start */
	bool left;     /* the worker left before that instant */
	double share;  /* mean_share at that instant */
	int reporting; /* the replica that got there last: its snapshot counts */
};

/* Losses that the strategy asked for in an epoch, and values that it reported; values of the
 * workload in the last evaluation. */
struct account {
	struct promises *promises; /* with --check-promises; otherwise NULL */
	struct tally taken;        /* losses that worker_loss took from the device */
	struct epoch_values values, metrics;
};

/* One epoch of this rank, run but not evaluated yet. */
struct epoch_record {
	struct snapshot model;
	struct split_row split;
	size_t first_joint_op, last_meeting;
	int64_t staleness[STALENESS_BINS];
	struct tally running;
	struct epoch_values values;
	double seconds; /* from one common end of an epoch to the next; 0 = use the worker's own */
};

static inline void tally_add(struct tally *t, const struct tally *more)
{
	t->loss += more->loss;
	t->correct += more->correct;
	t->rows += more->rows;
}

/* Of worker_speed: steps and their time since the last call; and what the workers know of each
 * other. */
struct speeds {
	struct counts *each; /* [trainers] steps a second */
	int64_t steps;
	nsec busy;
	float mine; /* as in each */
};
void speeds_free(struct speeds *s); /* NULL is fine */

struct trainer {
	struct worker w;
	struct loop loop;
	struct device dev;
	struct stats stats;
	struct data train, validation, test;
	const struct config *config;
	const struct plan *plan;
	const struct sink *sink; /* NULL: ends before it trains (train_try) */
	struct status_page *page;
	bool launched;                  /* mvbench watches: the status page has the exit status */
	struct lookout *lookout;        /* NULL: mvbench's watcher watches */
	const struct recording *replay; /* the order of operations to repeat; NULL = none */

	int replica, replicas; /* place of this worker's model among the models */
	struct dealing *dealing;
	struct rows train_rows, validation_rows, test_rows; /* on which models are evaluated */
	int32_t *order;         /* of this trainer's rows of the epoch, or the step */
	size_t *step_first;     /* [steps + 1], into order */
	float *lr;              /* [steps] */
	size_t step;            /* of the epoch, of the current mini-batch */
	bool ends_with_barrier; /* the current epoch */
	struct vec *saved;      /* param, while another model is evaluated in its place */
	struct vec *buffer;     /* w->model->buffer, likewise */
	struct vec *averaged;   /* --ema: of the models of averaged_steps steps; NULL = none */
	int64_t averaged_steps;
	struct vec *statistics; /* recomputed w->model->buffer; NULL = the workers' mean is used */

	struct account account; /* of the current epoch */
	struct epoch_record *record;
	int64_t records, records_max;
	struct snapshot *point;                 /* --eval-every: those of this segment */
	int64_t points, points_max, next_point; /* next_point: step of the run */
	nsec start;
	nsec clock_stopped_ns; /* how long the clock was stopped in this segment, for points */
	double elapsed;        /* of the epochs that were evaluated [s] */
	nsec trained;          /* training time in the segments before this one */

	/* the options of this worker; an event that has happened is set to NEVER */
	struct heterogeneity heterogeneity;
	bool delayed;       /* --step-time, --straggle or --speed may delay its steps */
	bool leaving, left; /* --leave: due, after the mini-batches it has taken; has left */
	nsec paused_ns;     /* time spent in pauses (--pause) */

	struct link *all;      /* the link of w.all: the trainers */
	struct link *everyone; /* workers and servers; NULL without servers */
	bool serves;           /* servers wait for operations, or do so soon */
	struct trace *trace;   /* NULL without --trace */
	struct cluster cluster;

	struct checkpoint_head head;          /* of this run; valid without --save, too */
	struct checkpoint *initial, *resumed; /* rank 0, in set-up: of the run's start, or NULL */
	struct checkpoint *last; /* rank 0: of the last epoch, until the run has ended */
	bool resumes;            /* it continues a run after epoch head.epoch */

	float *step_s; /* [steps_room] durations [s]; NULL: the sink does not ask for them */
	size_t steps_kept, steps_room;
	size_t steps_most; /* number of steps to make; 0: not known yet */

	struct split_row *ranks; /* rank 0: gathered rows */
	size_t arrived;          /* rank 0: number of recorded operations of the workers */
	double first_loss;       /* of the test set before training */
	char reason[512];
	int status;
};

/* The mean of worker_share over this worker's steps; 0: it has had no rows yet. */
static inline double mean_share(const struct trainer *r)
{
	return r->w.step > 0 ? r->loop.shares / (double)r->w.step : 0;
}

/* ---- train.c ---- */

/* If any rank has a message, all ranks end the run with that of the lowest such rank. Frees mine.
 */
void trainers_agree(struct trainer *r, char *mine);

/* ---- data.c ---- */

/* The data set, common to all workers of a process: the first one loads it, the last one frees it,
 * with the shards. Simulations of time alone have the plan's shapes. NULL or the load's message. */
char *data_open(struct trainer *r);
void data_close(const struct run *run);

/* ---- deal.c: puts mini-batches into w->index and w->rows ---- */

void deal_open(struct trainer *r); /* collective, after the strategy's tables */
void deal_close(struct trainer *r);
/* The last epoch of a run with --steps or --tokens may be shorter. */
int64_t epoch_steps(const struct trainer *r, int64_t epoch);
char *deal_record(struct trainer *r);              /* rank 0 gives the shards to the sink */
int64_t deal_most(const struct trainer *r);        /* upper bound of its steps in one epoch */
void deal_epoch(struct trainer *r, int64_t epoch); /* prepares an epoch, with learning rates */
/* Takes the i-th mini-batch that it could get: of this epoch, or, dynamically, of the first epoch,
 * which has the same sizes. False: there are fewer. */
bool deal_take(struct trainer *r, int64_t i);
/* Takes the mini-batch for its i-th step of this epoch. False: none is left. */
bool deal_next(struct trainer *r, int64_t i);
/* Called after a possible push. Dynamic: the mini-batches of a dropped one are to be trained on
 * again, by any worker. Static: its rows are lost, and reported. */
void deal_after_push(struct trainer *r);
/* Called where the worker has no mini-batch left of those before a barrier. False: it has to call
 * deal_next again, because mini-batches have been returned. */
bool deal_end(struct trainer *r);
/* From now on it takes no new mini-batches. True: it has finished those that it has taken. */
bool deal_stop(struct trainer *r);

/* ---- step.c: in addition to the contract's local_* ---- */

void local_begin(struct worker *w);  /* before a step: sets what differs between steps */
void local_forget(struct worker *w); /* resets the moments */

/* ---- account.c: in addition to the contract's worker_loss and worker_report ---- */

void values_add(struct epoch_values *r, const struct epoch_value *more);
void evaluation_metric(struct worker *w, const char *name, double sum, double rows);

/* ---- promise.c: with --check-promises, checks what a strategy and a workload state about
 * themselves; a false flag ends the run with a message that names the plug-in and the flag ---- */

void promises_open(struct trainer *r); /* after the strategy's init */
void promises_close(struct trainer *r);
void promises_at_barrier(struct trainer *r); /* collective, off the clock */
/* The functions below are called only if this is true. */
static inline bool are_checked(const struct worker *w)
{
	return __builtin_expect(w->loop->account && w->loop->account->promises, 0);
}
void promise_gradient(struct worker *w); /* calls the workload's gradient, and checks it */
void promise_step(struct worker *w);     /* calls the strategy's step, and checks it */
void promise_layer(struct worker *w, size_t i);

/* ---- epoch.c ---- */

void epoch_warm_up(struct trainer *r); /* after the first deal; leaves the model as it was */
/* The step of the run, after step `after`, of the next point to evaluate; not an epoch's end. */
int64_t epoch_next_point(const struct worker *w, int64_t after);
/* Runs one epoch and fills the next record. barrier: the epoch ends with one. */
void epoch_run(struct trainer *r, bool barrier);
bool epoch_has_all_durations(const struct trainer *r); /* has it enough durations of steps? */

/* ---- ema.c ---- */

void ema_open(struct trainer *r); /* in set-up */
/* After a step, if it is due; all layers have to be ready then. */
bool ema_is_due(const struct trainer *r);
void ema_step(struct trainer *r);
/* This worker's view of the averaged model; NULL: it has none, so the canonical model counts. */
const struct vec *ema_model(const struct trainer *r);

/* ---- evaluate.c: collective, off the clock ---- */

/* Puts the canonical model into param, and the mean of the models' buffers into buffer, until
 * model_take_back. s: as they were in this snapshot; NULL = now. */
void model_place(struct trainer *r, const struct snapshot *s);
void model_take_back(struct trainer *r, const struct snapshot *s);
/* Evaluates the models of the ends of these n epochs, and gives their rows to the sink. */
void trainer_evaluate(struct trainer *r, struct epoch_record *record, int64_t n);
/* Rank 0 broadcasts r->status; a message of its sink (or NULL) makes the run fail. */
void trainer_share_status(struct trainer *r, char *sink_error);
/* Collective: rank 0 calls this slot of its sink, if it has one, when `wanted`. */
#define TO_SINK(r, wanted, slot, ...) \
	do { \
		char *error_ = NULL; \
		world_wait("the database", 0); \
		if ((r)->w.rank == 0 && (wanted) && (r)->sink->slot) \
			error_ = (r)->sink->slot((r)->sink->self, __VA_ARGS__); \
		world_leave(); \
		trainer_share_status(r, error_); \
	} while (0)

/* ---- keep.c: what worker_keep and worker_keep_vec have named ---- */

size_t keepsakes_bytes(const struct worker *w);
/* Copies it to this memory; put: back from there. Returns the bytes. */
size_t keepsakes_copy(struct worker *w, char *at, bool put);
void keepsakes_free(struct worker *w);

/* ---- checkpoint.c: collective, off the clock ---- */

/* Finds the checkpoint that the run begins with, and loads its model. Called before tables and
 * strategies start, because they start from param. */
void checkpoint_begin(struct trainer *r);
/* Right before the first epoch: each worker gets its state back. */
void checkpoint_resume(struct trainer *r);
void checkpoint_save(struct trainer *r); /* after the evaluation at a barrier, if due */
void checkpoint_end(struct trainer *r);  /* the run has ended, and is stored */
void checkpoint_close(struct trainer *r);

/* ---- gather.c: collective, off the clock ---- */

/* Sums over the trainers. Doubles only: one reduction handles the whole struct. */
struct epoch_sum {
#define FIGURE(name) double name;
	SPLIT_TIMES(FIGURE)
	SPLIT_COUNTS(FIGURE)
#undef FIGURE
	double reports; /* number of reported names, over all workers */
	double staleness[STALENESS_BINS];
};

/* Finds when the epochs of these records and the points ended, and whose snapshots count. */
void gather_ends(struct trainer *r, struct epoch_record *record, int64_t n);
/* Reduces n <= EVALUATED tallies over the trainers. */
void gather_tallies(struct trainer *r, const struct tally *t, int n, struct judged *out);
/* Reduces the figures of an epoch record over the trainers: row on every rank, except its maxima,
 * and r->ranks on rank 0. The histogram of staleness is summed in the record; the strategy's
 * reports are summed there on rank 0. */
void gather_epoch(struct trainer *r, struct epoch_record *record, struct epoch_row *row);
/* Give to the sink, in order, what was recorded in this segment: operations on tables, for --record
 * or to check a replay; the timeline of workers and servers. */
void gather_arrivals(struct trainer *r);
void gather_events(struct trainer *r);

#endif
