/*
 * train.c - a worker's whole life: set-up, the race, and the judging of models between races.
 *
 * A race is the epochs from one barrier to the next. Inside it nothing is allocated, printed,
 * stored or evaluated. With a barrier after every epoch (--barrier-every=1) each epoch is a race of
 * its own; without, every trainer keeps a snapshot of what it knows of the model as it ends an
 * epoch, and the snapshots are judged after the race. Times of an epoch, a rank: seconds = compute
 * + comm + wait + other. comm and wait are measured (comm.c), compute is the rest of the time
 * inside steps (batches, gradients, the optimiser, straggling), other what lies between steps
 * (shuffling, snapshots, pauses). Who has left (--leave) waits; its share of the rows is not
 * trained on, and the others' contributions weigh what they did before.
 *
 * The data order: an epoch's permutation of the training set is drawn from the seed, equal on all
 * ranks. The epoch has S = ceil(n / (R B)) steps for R replicas; step s takes its S-th part of the
 * permutation, and replica r takes its R-th part of that. So no row is dropped, mini-batches differ
 * by one row at most, and R replicas see together what one worker with batch R B sees.
 */
#include "runtime/train/train.h"
#include "sim/model/model.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PILOT = 8 }; /* steps whose duration says how many there is time for */

/* A loss this many times the test loss before training has exploded. */
#define EXPLODED 10.0

/* One epoch of this rank, run but not judged yet. */
struct lap {
	int64_t epoch;
	struct split_row split;
	nsec end; /* since the race's start */
	size_t first_collective, last_collective;
	int64_t staleness[STALENESS_BINS];
	struct tally train;
	struct vec *snapshot; /* NULL: judged where it stands, at the barrier */
	struct vec *buffer;   /* of w->buffer, likewise */
	bool left;            /* before its end */
	int teller;           /* the first worker that had not: its snapshot counts */
};

struct race {
	struct worker w;
	struct device dev;
	struct stats stats;
	struct data train, test;
	const struct config *config;
	const struct plan *plan;
	const struct sink *sink;
	struct live *live;

	int replica, replicas; /* place of this worker's model among the models */
	int32_t *order, *test_order;
	size_t *step_first; /* [steps + 1], into order */
	float *lr;          /* [steps] */
	struct vec *saved;  /* param, while another model is judged in its place, */
	struct vec *buffer; /* and w->buffer */

	struct lap *lap;
	int64_t laps, laps_max;
	nsec start;
	nsec raced; /* in the races before this one */

	struct uneven uneven; /* what is said of this worker; what has taken place is at NEVER */
	bool delayed;         /* its steps may be, by --straggle or --speed */
	bool left;            /* --leave */
	nsec stood;           /* --pause */

	struct link *everyone; /* workers and servers; NULL without servers */
	struct trace *trace;   /* --trace; or NULL */

	float *step_s; /* [steps kept]: durations [s], where the sink wants them; or NULL */
	size_t steps_kept, steps_most; /* steps_most 0: not known yet */

	struct split_row *ranks; /* rank 0: gathered */
	size_t arrived;          /* rank 0: passes of the workers that were recorded */
	double first_loss;       /* of the test set before training */
	char reason[512];
	int status;
};

/* ---- Ending early -------------------------------------------------------- */

/* What a worker's user_error needs to end all ranks in good order; it gets nothing but a sentence.
 * Where all workers share this process, whoever ends it ends all. */
static struct {
	struct link
		*everyone; /* workers and servers; NULL without servers, and once they have gone */
	int workers;
	struct live *live; /* rank 0's, else NULL */
	bool launched;     /* mvbench watches: the status travels in the live page */
	bool silent;       /* rank 0 speaks for all */
} ending;

static void end_early(int status)
{
	if (ending.everyone && !world_is_virtual)
		servers_dismiss(ending.everyone, ending.workers);
	if (!world_is_virtual)
		platform_stop();
	world_exit(ending.launched ? EXIT_OK : status);
}

static void end_with_user_error(const char *text)
{
	if (ending.live) {
		live_end(ending.live, EXIT_USER, text);
	} else if (!ending.silent) {
		fprintf(stderr, "mvbench: %s\n", text);
	}
	end_early(EXIT_USER);
}

/* If any rank has a sentence, all ranks stop with the lowest one's. Frees mine. */
static void agree(struct race *r, char *mine)
{
	struct link *all = comm_link(r->w.all);
	double lowest = mine ? r->w.rank : r->w.trainers;
	char text[512];
	link_fold(all, &lowest, 1, FOLD_MIN);
	if (lowest >= r->w.trainers)
		return;
	snprintf(text, sizeof text, "%s", mine ? mine : "");
	free(mine);
	link_broadcast(all, (int)lowest, text, sizeof text);
	user_error("%s", text);
}

/* ---- The order of the data ----------------------------------------------- */

static void deal(struct race *r, int64_t epoch)
{
	const struct run *run = r->w.run;
	size_t n = r->train.n, steps = (size_t)r->w.steps, at = 0;
	const int32_t *permutation = data_order(n, run->seed, epoch);
	for (size_t s = 0; s < steps; s++) {
		size_t first = part_of(n, steps, s), all = part_of(n, steps, s + 1) - first;
		size_t from = part_of(all, (size_t)r->replicas, (size_t)r->replica);
		size_t to = part_of(all, (size_t)r->replicas, (size_t)r->replica + 1);
		r->step_first[s] = at;
		memcpy(r->order + at, permutation + first + from, (to - from) * sizeof *r->order);
		at += to - from;
	}
	r->step_first[steps] = at;
	lr_fill(run, r->replicas, epoch, r->lr, steps);
}

/* ---- The race ------------------------------------------------------------ */

/* A straggling step takes L times as long, L lognormal(0, sigma), when that is longer; on a slow
 * worker all of it takes 1 / speed times as long. took: without what was communicated inside. */
static void delay(const struct race *r, nsec took, uint64_t *rng)
{
	double sigma = r->w.run->straggle, factor = sigma > 0 ? exp(sigma * rng_normal(rng)) : 1;
	factor = fmax(factor, 1) / r->uneven.speed;
	if (factor > 1)
		clock_delay((nsec)((double)took * (factor - 1)));
}

static bool wants_layers(const struct worker *w)
{
	return w->strategy && w->strategy->layer_ready && !w->no_layer_ready;
}

void layer_ready(struct worker *w, size_t i)
{
	if (!wants_layers(w))
		return;
	if (w->dev->replaying) {
		w->dev->ops->mark(w->dev, i); /* what the strategy does there cannot be replayed */
	} else if (w->step > 0) { /* a warm-up's gradients, before step 1, are nobody's */
		device_sync(w->dev);
		w->strategy->layer_ready(w, i);
	}
}

/* A local step needs nobody else, so that a device can take it in one go with the gradient. */
static void gradient_and_local_step(void *ctx)
{
	struct worker *w = ctx;
	w->workload->gradient(w);
	w->strategy->step(w);
}

static void gradient_alone(void *ctx)
{
	struct worker *w = ctx;
	w->workload->gradient(w);
}

/* The gradient of w->index, on devices that replay and on those that do not. Returns true if the
 * strategy's step is done as well. */
static bool compute(struct worker *w, bool with_step)
{
	enum { GRADIENT, STEP, KINDS };
	struct device *d = w->dev;
	with_step &= w->strategy->local && d->ops->replay;
	d->lr = (float)w->lr;
	d->key = rng_seed(w->run->seed, STREAM_DROPOUT,
			  w->step * w->trainers + w->rank / comm_size(w->model_group));
	w->workload->load(w);
	if (!d->ops->replay || comm_size(w->model_group) > 1) { /* those communicate inside */
		w->workload->gradient(w);
		return false;
	}
	d->ops->replay(d, KINDS * w->rows + (with_step ? STEP : GRADIENT),
		       with_step ? gradient_and_local_step : gradient_alone, w);
	for (size_t i = w->layers; wants_layers(w) && w->step > 0 && i-- > 0;) {
		d->ops->await(d, i);
		w->strategy->layer_ready(w, i);
	}
	return with_step;
}

/* Notes what a worker was in since then, and returns the time; 0 where nobody asks. */
static nsec note(struct race *r, enum trace_kind kind, nsec since)
{
	if (!r->stats.trace)
		return 0;
	nsec now = clock_peek();
	trace_add(r->stats.trace, kind, since, now);
	return now;
}

/* Steps that are kept begin and end with this; kept false: nothing that follows is. */
static nsec note_from(struct race *r, bool kept, int64_t step)
{
	r->stats.trace = kept ? r->trace : NULL;
	if (!r->stats.trace)
		return 0;
	trace_at(r->trace, r->w.epoch, step);
	return clock_peek();
}

static void one_step(struct race *r, size_t s, uint64_t *straggle_rng)
{
	struct worker *w = &r->w;
	const struct stats *c = &r->stats;
	nsec began = note_from(r, (int64_t)s < w->run->trace, (int64_t)s + 1), at = began;
	nsec since = r->delayed ? clock_now() : 0, talked = c->comm + c->wait;
	bool done = false;
	w->step++;
	w->lr = r->lr[s];
	w->index = r->order + r->step_first[s];
	w->rows = r->step_first[s + 1] - r->step_first[s];
	if (w->rows) {
		done = compute(w, !r->delayed);
	} else { /* fewer rows than replicas in this step: nothing to add */
		vec_fill(w->grad, 0);
		for (size_t i = w->layers; i-- > 0;)
			layer_ready(w, i);
	}
	at = note(r, TRACE_COMPUTE, at);
	if (r->delayed) {
		device_sync(w->dev);
		talked = c->comm + c->wait - talked;
		delay(r, clock_now() - since - talked, straggle_rng);
		at = note(r, TRACE_DELAY, at);
	}
	if (!done) {
		w->strategy->step(w);
		note(r, TRACE_UPDATE, at);
	}
	note(r, TRACE_STEP, began);
}

static void flush_tables(struct worker *w)
{
	char *wrong = w->tables ? tables_flush(w->tables) : NULL;
	CHECK(!wrong, "%s", wrong);
}

static void stand_at_barrier(struct race *r)
{
	struct worker *w = &r->w;
	if (!r->left)
		flush_tables(w);
	comm_barrier(w->all);
	if (w->tables)
		tables_resume(w->tables);
	if (r->left) /* it stands at the next one already */
		flush_tables(w);
}

static nsec training_time(const struct race *r)
{
	return r->raced + clock_now() - r->start;
}

/* A worker that leaves stands at a barrier from now on: so tables know that nobody need wait for
 * its pushes. */
static void leave(struct race *r)
{
	if (r->w.strategy->flush)
		r->w.strategy->flush(&r->w);
	flush_tables(&r->w);
	r->left = true;
}

/* Before a step: what is due of --pause and --leave. */
static void attend(struct race *r)
{
	struct uneven *u = &r->uneven;
	if (u->pause_at < NEVER && training_time(r) >= u->pause_at) {
		nsec since = clock_now();
		u->pause_at = NEVER;
		clock_delay(u->pause);
		r->stood += clock_now() - since;
		note_from(r, true, 0);
		note(r, TRACE_PAUSE, since);
	}
	if (u->leave_at < NEVER && training_time(r) >= u->leave_at) {
		u->leave_at = NEVER;
		leave(r);
	}
}

/* Enough steps are kept. */
static bool has_kept_all(const struct race *r)
{
	return r->step_s && r->steps_most && r->steps_kept >= r->steps_most;
}

static void keep_duration(struct race *r, nsec *last)
{
	device_sync(r->w.dev);
	nsec now = clock_now();
	r->step_s[r->steps_kept++] = 1e-9f * (float)(now - *last);
	if (r->steps_kept == PILOT) { /* so many fit into the time that is wanted, on all ranks */
		double mean = 1e-9 * (double)(now - r->start) / PILOT;
		link_fold(comm_link(r->w.all), &mean, 1, FOLD_MAX);
		double fit = r->sink->steps_wanted_s / mean;
		r->steps_most = fit < 4 * PILOT ? 4 * PILOT : (size_t)fit;
		now = clock_now();
	}
	*last = now;
}

/* Runs one epoch and fills the next lap. Ends with a barrier when `barrier` says so. */
static void run_epoch(struct race *r, bool barrier)
{
	struct worker *w = &r->w;
	struct stats *s = &r->stats, before = *s;
	struct lap *lap = &r->lap[r->laps];
	uint64_t rng = rng_seed(w->run->seed, STREAM_STRAGGLE, w->epoch * w->size + w->rank);
	nsec began = r->laps ? r->lap[r->laps - 1].end + r->start : r->start, stood = r->stood;

	nsec in_steps = clock_now(), last = in_steps;
	for (int64_t i = 0; i < w->steps && !has_kept_all(r); i++) {
		if (r->uneven.pause_at < NEVER || r->uneven.leave_at < NEVER)
			attend(r);
		if (r->left)
			break;
		one_step(r, (size_t)i, &rng);
		if (r->live)
			r->live->step = i + 1;
		if (r->step_s)
			keep_duration(r, &last);
	}
	device_sync(w->dev);
	in_steps = clock_now() - in_steps - (r->stood - stood);
	nsec busy = (s->comm - before.comm) + (s->wait - before.wait);
	note_from(r, barrier, 0);
	if (barrier) {
		if (w->strategy->flush && !r->left)
			w->strategy->flush(w);
		stand_at_barrier(r);
		if (w->strategy->rejoin && !r->left && w->epoch < w->run->epochs)
			w->strategy->rejoin(w);
		device_sync(w->dev);
	}
	note_from(r, false, 0);
	nsec now = clock_now();
	lap->epoch = w->epoch;
	lap->left = r->left;
	lap->end = now - r->start;
	lap->first_collective = before.collectives;
	lap->last_collective = s->collectives;
	lap->split = (struct split_row){
		.seconds = 1e-9 * (double)(now - began),
		.compute_s = 1e-9 * (double)(in_steps - busy),
		.comm_s = 1e-9 * (double)(s->comm - before.comm),
		.wait_s = 1e-9 * (double)(s->wait - before.wait),
		.bytes_sent = s->bytes_sent - before.bytes_sent,
		.pushes = s->pushes - before.pushes,
		.staleness_sum = s->staleness_sum - before.staleness_sum,
		.staleness_max = s->staleness_max,
		.dropped = s->dropped - before.dropped,
	};
	s->staleness_max = 0;
	for (int i = 0; i < STALENESS_BINS; i++)
		lap->staleness[i] = s->staleness[i] - before.staleness[i];
	tally_take(w, &lap->train);
	if (lap->snapshot && !r->left) {
		if (w->strategy->canonical)
			w->strategy->canonical(w, lap->snapshot);
		else
			vec_copy(lap->snapshot, w->param);
	}
	if (lap->buffer)
		vec_copy(lap->buffer, w->buffer);
	r->laps++;
}

/* ---- Judging ------------------------------------------------------------- */

/* The test set's loss and correct answers under the model that stands in param: each replica takes
 * a part of the rows. */
static struct tally evaluate(struct race *r)
{
	struct worker *w = &r->w;
	struct tally t;
	size_t first = part_of(r->test.n, (size_t)r->replicas, (size_t)r->replica);
	size_t end = part_of(r->test.n, (size_t)r->replicas, (size_t)r->replica + 1);
	for (size_t at = first; at < end; at += EVALUATE_ROWS) {
		size_t rows = end - at < EVALUATE_ROWS ? end - at : EVALUATE_ROWS;
		w->workload->evaluate(w, r->test_order + at, rows);
	}
	tally_take(w, &t);
	return t;
}

/* Is the model that is judged another than the one in param? */
static bool is_elsewhere(const struct race *r, const struct lap *lap)
{
	const struct strategy *s = r->w.strategy;
	return (lap && lap->snapshot) || s->canonical || s->average;
}

/* The mean over the workers that have not left. */
static void average_buffers(struct race *r, bool left)
{
	struct worker *w = &r->w;
	double there = !left;
	if (*w->run->leave == '\0') {
		comm_allreduce(w->data_group, w->buffer, MEAN);
		return;
	}
	link_fold(comm_link(w->all), &there, 1, FOLD_SUM);
	if (left)
		vec_fill(w->buffer, 0);
	comm_allreduce(w->data_group, w->buffer, SUM);
	vec_scale(w->buffer, 1 / (float)there);
}

/* Puts the canonical model into param, and the mean of the models' buffers into buffer; lap: as
 * they stood at its end, NULL = now. */
static void place_model(struct race *r, const struct lap *lap)
{
	struct worker *w = &r->w;
	if (is_elsewhere(r, lap))
		vec_copy(r->saved, w->param);
	if (lap && lap->snapshot)
		vec_copy(w->param, lap->snapshot);
	else if (w->strategy->canonical)
		w->strategy->canonical(w, w->param);
	if (w->strategy->average)
		comm_allreduce(w->data_group, w->param, MEAN);
	else if (is_elsewhere(r, lap))
		comm_broadcast(w->data_group, lap ? lap->teller : 0, w->param);
	if (!w->buffer)
		return;
	vec_copy(r->buffer, w->buffer);
	if (lap && lap->buffer)
		vec_copy(w->buffer, lap->buffer);
	average_buffers(r, lap ? lap->left : r->left);
}

static void take_back_model(struct race *r, const struct lap *lap)
{
	struct worker *w = &r->w;
	if (is_elsewhere(r, lap))
		vec_copy(w->param, r->saved);
	if (w->buffer)
		vec_copy(w->buffer, r->buffer);
}

static struct tally judge_model(struct race *r, const struct lap *lap)
{
	nsec since = clock_peek();
	place_model(r, lap);
	struct tally t = evaluate(r);
	take_back_model(r, lap);
	if (r->trace) {
		trace_at(r->trace, lap->epoch, 0);
		trace_add(r->trace, TRACE_EVALUATE, since, clock_peek());
	}
	return t;
}

/* Sums tallies over the models: of each model group only the first worker counts. */
static void fold_tally(struct race *r, const struct tally *t, double *loss, double *accuracy)
{
	bool counts = comm_rank(r->w.model_group) == 0;
	double sum[3] = {counts ? t->loss : 0, counts ? (double)t->correct : 0,
			 counts ? (double)t->rows : 0};
	link_fold(comm_link(r->w.all), sum, 3, FOLD_SUM);
	*loss = sum[2] > 0 ? sum[0] / sum[2] : NAN;
	*accuracy = sum[2] > 0 && r->train.classes ? sum[1] / sum[2] : NAN;
}

/* Rank 0 decides, all ranks learn: has the run ended, and how? */
static void decide(struct race *r, char *sink_error)
{
	double status = r->status;
	if (sink_error) {
		snprintf(r->reason, sizeof r->reason, "%s", sink_error);
		status = EXIT_FAILED;
		free(sink_error);
	}
	link_broadcast(comm_link(r->w.all), 0, &status, sizeof status);
	r->status = (int)status;
}

static void look_for_divergence(struct race *r, const struct epoch_row *row)
{
	if (!vec_has_data(r->w.param))
		return;
	/* The worse of the two is the one to name; before training there is no training loss. Of
	 * running statistics that know no data yet, the test loss says little. */
	bool running = r->w.buffer != NULL && isfinite(row->test_loss);
	bool by_test = row->epoch == 0 || (!running && row->train_loss <= EXPLODED * r->first_loss);
	double loss = by_test ? row->test_loss : row->train_loss;
	const char *which = by_test ? "test" : "training";
	if (row->epoch == 0)
		r->first_loss = running ? log((double)r->train.classes) : row->test_loss;
	if (!isfinite(loss))
		snprintf(r->reason, sizeof r->reason,
			 "epoch %d: the %s loss is %s; a smaller --lr may help", (int)row->epoch,
			 which, isnan(loss) ? "not a number" : "infinite");
	else if ((row->epoch > 0 || !running) && loss > EXPLODED * r->first_loss)
		snprintf(r->reason, sizeof r->reason,
			 "epoch %d: the %s loss exploded to %.4g, it was %.4g before training; a "
			 "smaller --lr may help",
			 (int)row->epoch, which, loss, r->first_loss);
	else
		return;
	r->status = EXIT_DIVERGED;
}

/* This rank's split of a lap, settled: what was waiting inside collectives moves from comm to
 * wait. */
static void settle(struct race *r, struct lap *lap)
{
	double waited =
		1e-9 * (double)stats_waited(&r->stats, lap->first_collective, lap->last_collective);
	lap->split.comm_s -= waited;
	lap->split.wait_s += waited;
}

/* Collective: where no barrier ends a lap, a worker that has left waits until the last of the
 * others has ended it. */
static void wait_for_those_there(struct race *r)
{
	struct link *all = comm_link(r->w.all);
	nsec before = 0;
	for (int64_t k = 0; k < r->laps && *r->w.run->leave; k++) {
		struct lap *lap = &r->lap[k];
		double end = lap->left ? 0 : (double)lap->end;
		double teller = lap->left ? r->w.trainers : r->w.rank;
		link_fold(all, &end, 1, FOLD_MAX);
		link_fold(all, &teller, 1, FOLD_MIN);
		lap->teller = (int)teller;
		if (lap->left && k < r->laps - 1 && end > (double)lap->end)
			lap->end = (nsec)end;
		if (lap->left) {
			double seconds = 1e-9 * (double)(lap->end - before);
			lap->split.wait_s += seconds - lap->split.seconds;
			lap->split.seconds = seconds;
		}
		before = lap->end;
	}
}

/* Over the trainers: times are means, counts are sums. Without a barrier every trainer's epoch
 * begins and ends at a time of its own; means of the trainers' own epochs still add up to the whole
 * race. */
static struct split_row fold_split(struct race *r, const struct split_row *own)
{
	struct link *all = comm_link(r->w.all);
	double n = r->w.trainers;
	double time[4] = {own->seconds, own->compute_s, own->comm_s, own->wait_s};
	double count[4] = {(double)own->bytes_sent, (double)own->pushes, (double)own->staleness_sum,
			   (double)own->dropped};
	double most = (double)own->staleness_max;
	link_fold(all, time, 4, FOLD_SUM);
	link_fold(all, count, 4, FOLD_SUM);
	link_fold(all, &most, 1, FOLD_MAX);
	return (struct split_row){.seconds = time[0] / n,
				  .compute_s = time[1] / n,
				  .comm_s = time[2] / n,
				  .wait_s = time[3] / n,
				  .bytes_sent = (int64_t)count[0],
				  .pushes = (int64_t)count[1],
				  .staleness_sum = (int64_t)count[2],
				  .staleness_max = (int64_t)most,
				  .dropped = (int64_t)count[3]};
}

/* The trainers' histograms, summed on every rank. */
static void fold_staleness(struct race *r, int64_t bins[STALENESS_BINS])
{
	double sum[STALENESS_BINS];
	for (int i = 0; i < STALENESS_BINS; i++)
		sum[i] = (double)bins[i];
	link_fold(comm_link(r->w.all), sum, STALENESS_BINS, FOLD_SUM);
	for (int i = 0; i < STALENESS_BINS; i++)
		bins[i] = (int64_t)sum[i];
}

static int by_order(const void *a, const void *b)
{
	const struct arrival *x = a, *y = b;
	int where = x->table != y->table ? x->table - y->table : x->shard - y->shard;
	return where ? where : x->seq < y->seq ? -1 : x->seq > y->seq;
}

/* Collective: what the trainers recorded in this race goes to the sink, in order. */
static char *hand_over_arrivals(struct race *r)
{
	enum { FLOATS = sizeof(struct arrival) / sizeof(float) };
	struct worker *w = &r->w;
	struct tables *s = w->tables;
	struct link *all = comm_link(w->all);
	int n[w->trainers];
	size_t total = 0, at = s->arrivals;
	n[0] = (int)s->arrivals;
	if (w->trainers > 1)
		link_gather_counts(all, (int)s->arrivals, n);
	if (w->rank != 0) {
		link_send(all, 0, (const float *)s->arrival, s->arrivals * FLOATS);
		s->arrivals = 0;
		return NULL;
	}
	for (int k = 0; k < w->trainers; k++)
		total += (size_t)n[k];
	struct arrival *a = must(malloc((total + 1) * sizeof *a));
	memcpy(a, s->arrival, at * sizeof *a);
	s->arrivals = 0;
	for (int k = 1; k < w->trainers; k++) {
		link_recv(all, k, (float *)(a + at), (size_t)n[k] * FLOATS);
		at += (size_t)n[k];
	}
	qsort(a, total, sizeof *a, by_order);
	r->arrived += total;
	char *error = w->run->record && r->sink->arrivals
			      ? r->sink->arrivals(r->sink->self, a, total)
			      : NULL;
	free(a);
	return error;
}

/* Collective: the timeline since the last time, of workers and servers, goes to the sink. */
static void hand_over_events(struct race *r)
{
	struct link *all = comm_link(r->w.all);
	struct slices e = {.n = 0};
	char *error = NULL;
	if (!r->trace)
		return;
	trace_settle(r->trace, &r->stats);
	if (r->w.rank != 0) {
		trace_send(r->trace, all, 0);
	} else {
		trace_take(r->trace, &e);
		for (int k = 1; k < r->w.trainers; k++)
			trace_recv(all, k, &e);
		if (r->everyone && r->w.tables)
			servers_events(r->everyone, r->w.trainers, &e);
		error = r->sink->events ? r->sink->events(r->sink->self, e.event, e.n, e.lost)
					: NULL;
		free(e.event);
	}
	decide(r, error);
}

static const struct record *replayed(const struct race *r)
{
	return r->plan->simulation ? r->plan->simulation->replay : NULL;
}

/* Rank 0, at the end: has the whole record been repeated? */
static char *look_for_rest(const struct race *r)
{
	const struct record *record = replayed(r);
	if (!record || r->status == EXIT_FAILED || r->arrived == record->n)
		return NULL;
	return sentence("the record of run %lld has %zu passes, and this run made %zu; was it "
			"changed since it was made?",
			(long long)record->run, record->n, r->arrived);
}

/* Collective, off the clock: judges the laps of the race, and hands their rows to the sink. */
static void judge(struct race *r)
{
	struct worker *w = &r->w;
	if (r->live)
		r->live->state = LIVE_JUDGING;
	stats_fold(w);
	wait_for_those_there(r);
	if (w->tables && (w->run->record || replayed(r)))
		decide(r, hand_over_arrivals(r));
	for (int64_t k = 0; k < r->laps && !r->status; k++) {
		struct lap *lap = &r->lap[k];
		struct epoch_row row = {.epoch = lap->epoch};
		char *error = NULL;
		settle(r, lap);
		row.split = fold_split(r, &lap->split);
		if (row.split.pushes)
			fold_staleness(r, lap->staleness);
		link_gather_bytes(comm_link(w->all), &lap->split, r->ranks, sizeof lap->split);
		fold_tally(r, &lap->train, &row.train_loss, &row.train_accuracy);
		struct tally t = judge_model(r, lap);
		fold_tally(r, &t, &row.test_loss, &row.test_accuracy);
		if (w->rank == 0) {
			look_for_divergence(r, &row);
			error = r->sink->epoch(r->sink->self, &row, r->ranks, w->trainers,
					       row.split.pushes ? lap->staleness : NULL);
			if (r->live) {
				r->live->row[r->live->rows] = row;
				__atomic_fetch_add(&r->live->rows, 1, __ATOMIC_RELEASE);
			}
		}
		decide(r, error);
	}
	r->laps = 0;
	hand_over_events(r);
	stats_reset(&r->stats); /* what judging communicated does not count */
}

/* ---- Set-up and the whole life ------------------------------------------- */

/* Is this the first step of so many rows? */
static bool is_new_size(const struct race *r, size_t s)
{
	size_t rows = r->step_first[s + 1] - r->step_first[s];
	for (size_t i = 0; i < s; i++)
		if (r->step_first[i + 1] - r->step_first[i] == rows)
			return false;
	return rows > 0;
}

/* Touches memory, makes the libraries compile their kernels for every size of mini-batch, and opens
 * the connections. Leaves the model as it was: a learning rate of 0 does. */
static void warm_up(struct race *r)
{
	enum { TIMES = 3, SIZES = 4 }; /* sizes differ by two rows at most */
	struct worker *w = &r->w;
	struct tally ignored;
	int sizes = 0;
	w->step = 0; /* so layer_ready tells the strategy nothing */
	w->lr = 0;
	if (w->buffer)
		vec_copy(r->buffer, w->buffer);
	for (size_t s = 0; s < (size_t)w->steps && sizes < SIZES; s++) {
		if (!is_new_size(r, s))
			continue;
		sizes++;
		w->index = r->order + r->step_first[s];
		w->rows = r->step_first[s + 1] - r->step_first[s];
		for (int i = 0; i < TIMES; i++)
			compute(w, !r->delayed);
	}
	if (w->buffer)
		vec_copy(w->buffer, r->buffer);
	if (w->velocity)
		vec_fill(w->velocity, 0);
	for (int i = 0; i < TIMES; i++)
		comm_allreduce(w->data_group, w->grad, MEAN);
	device_sync(w->dev);
	tally_take(w, &ignored);
	stats_reset(&r->stats);
}

static void set_up_comms(struct race *r)
{
	struct worker *w = &r->w;
	int share = config_model_workers(r->config);
	r->replicas = w->trainers / share;
	r->replica = w->rank / share;
	w->model_group = comm_split(w->all, r->replica);
	w->data_group = comm_split(w->all, w->rank % share);
	w->weight = strcmp(w->run->reduce, "sum") == 0 ? 1 : 1.0 / r->replicas;
}

/* Ranks that a launcher of the user's started may have been given different words. */
static void agree_on_options(struct race *r)
{
	char hex[17];
	config_hash(r->config, hex);
	double hash = (double)(strtoull(hex, NULL, 16) >> 12), least = hash, most = hash;
	link_fold(comm_link(r->w.all), &least, 1, FOLD_MIN);
	link_fold(comm_link(r->w.all), &most, 1, FOLD_MAX);
	if (least != most)
		user_error(
			"the processes were started with different options: give all of them the "
			"same");
}

/* What a race's epochs may record: a push, a pull and the end of a round a step, and a pull after a
 * barrier, on each shard. */
static size_t arrivals_expected(const struct race *r)
{
	int64_t shards = r->w.run->servers > 0 ? r->w.run->servers : 1;
	return (size_t)(3 * (r->w.steps + 1) * r->laps_max * shards);
}

static char *open_tables(struct race *r)
{
	struct worker *w = &r->w;
	const struct run *run = w->run;
	struct link *workers = comm_link(w->all);
	const struct record *replay = replayed(r);
	char *wrong = tables_open(&w->tables, r->everyone ? r->everyone : workers, workers, w->rank,
				  w->trainers, (int)run->servers, replay ? "auto" : run->table_home,
				  w->stats, w->dev);
	if (wrong) {
		char *more = sentence("--table-home=%s: %s", run->table_home, wrong);
		free(wrong);
		return more;
	}
	if (replay)
		tables_replay(w->tables, replay);
	if (!run->record && !replay)
		return NULL;
	if (w->tables->home == &home_onesided)
		return sentence("--record: one-sided pushes have no order that could be kept; use "
				"--table-home=shared or --servers=1");
	tables_record(w->tables, arrivals_expected(r));
	return NULL;
}

/* Collectives of a race: a few a step, for as many epochs as a race has. */
static size_t collectives_expected(const struct race *r)
{
	enum { A_STEP = 8, LEAST = 1 << 12, MOST = 1 << 26 };
	size_t n = (size_t)(r->plan->steps * r->laps_max) * A_STEP;
	return n < LEAST ? LEAST : n > MOST ? MOST : n;
}

/* Simulations of time alone have lengths only: shapes of data, no data. */
static bool has_floats(const struct run *run)
{
	return !world_is_virtual || run->sim_train;
}

static void set_up(struct race *r)
{
	struct worker *w = &r->w;
	const struct run *run = w->run;

	r->uneven = uneven_of(run, w->rank);
	r->delayed = run->straggle > 0 || r->uneven.speed < 1;
	bool always = run->barrier_every == 1;
	r->laps_max = run->barrier_every ? run->barrier_every : run->epochs;
	if (r->laps_max > run->epochs)
		r->laps_max = run->epochs > 0 ? run->epochs : 1;
	stats_init(&r->stats, collectives_expected(r));
	set_up_comms(r);
	agree_on_options(r);
	if (r->live)
		r->live->state = LIVE_LOADING;
	for (size_t i = 0; devices[i]; i++)
		if (strcmp(devices[i]->name, r->plan->device) == 0)
			r->dev.ops = devices[i];
	if (world_is_virtual)
		r->dev.ops = &device_cpu;
	CHECK(r->dev.ops, "no device %s", r->plan->device);
	world_device(w);
	r->dev.precision = run->precision;
	r->dev.number = rank_on_node();
	r->dev.ops->open(&r->dev, (int)run->threads);
	r->train = r->plan->train;
	r->test = r->plan->test;
	if (has_floats(run))
		agree(r, data_open(w->workload->dataset, run, &r->train, &r->test));
	w->train = &r->train;
	w->test = &r->test;
	w->steps = r->plan->steps;

	w->workload->init(w, &r->train);
	if (w->buffer)
		r->buffer = vec_new(w, vec_len(w->buffer));
	comm_prepare(w->data_group, w->param, r->config->own.transport);
	comm_prepare(w->model_group, w->param, r->config->own.transport);
	if (w->strategy->tables)
		agree(r, open_tables(r));
	w->state = must(calloc(1, w->strategy->state_size + 1));
	if (w->strategy->init)
		w->strategy->init(w);

	size_t n = r->train.n, steps = (size_t)w->steps;
	r->order = must(malloc((n / (size_t)r->replicas + steps + 1) * sizeof(int32_t)));
	r->step_first = must(malloc((steps + 1) * sizeof(size_t)));
	r->lr = must(malloc(steps * sizeof(float)));
	r->test_order = must(malloc((r->test.n + 1) * sizeof(int32_t)));
	for (size_t i = 0; i < r->test.n; i++)
		r->test_order[i] = (int32_t)i;
	if (w->rank == 0)
		r->ranks = must(calloc((size_t)w->size, sizeof *r->ranks));
	if (r->sink->steps)
		r->step_s = must(calloc((size_t)(w->steps * run->epochs), sizeof *r->step_s));

	r->lap = must(calloc((size_t)r->laps_max, sizeof *r->lap));
	for (int64_t i = 0; i < r->laps_max && !always; i++)
		r->lap[i].snapshot = vec_new(w, vec_len(w->param));
	for (int64_t i = 0; i < r->laps_max && !always && w->buffer; i++)
		r->lap[i].buffer = vec_new(w, vec_len(w->buffer));
	if (!always || w->strategy->canonical || w->strategy->average)
		r->saved = vec_new(w, vec_len(w->param));
}

static void tear_down(struct race *r)
{
	struct worker *w = &r->w;
	if (w->strategy->fini)
		w->strategy->fini(w);
	tables_close(w->tables);
	ending.everyone = NULL;
	for (int64_t i = 0; i < r->laps_max; i++)
		vec_free(r->lap[i].snapshot);
	for (int64_t i = 0; i < r->laps_max; i++)
		vec_free(r->lap[i].buffer);
	vec_free(r->saved);
	vec_free(r->buffer);
	w->workload->fini(w);
	if (has_floats(w->run))
		data_close(w->workload->dataset);
	comm_free(w->model_group);
	comm_free(w->data_group);
	comm_free(w->all); /* they may hold memory of the device */
	r->dev.ops->close(&r->dev);
	stats_fini(&r->stats);
	trace_free(r->trace);
	free(w->state);
	free(r->order);
	free(r->step_first);
	free(r->lr);
	free(r->test_order);
	free(r->ranks);
	free(r->step_s);
	free(r->lap);
}

/* Rank 0 only. */
static char *begin_sink(struct race *r)
{
	char started[32];
	time_t now = time(NULL);
	int64_t id = 0;
	strftime(started, sizeof started, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
	struct experiment e = {.config = r->config,
			       .machine = machine(),
			       .plan = r->plan,
			       .started = started,
			       .table_home = r->w.tables ? r->w.tables->home->name : NULL,
			       .transport = comm_transport(r->w.data_group)};
	char *error = r->sink->begin(r->sink->self, &e, &id);
	if (r->live) {
		r->live->id = id;
		r->live->steps = r->w.steps;
	}
	return error;
}

static void race_on(struct race *r)
{
	struct worker *w = &r->w;
	const struct run *run = w->run;

	/* epoch 0: the model before training */
	r->lap[0].epoch = 0;
	r->laps = 1;
	struct lap first = r->lap[0];
	r->lap[0].snapshot = r->lap[0].buffer = NULL;
	judge(r);
	r->lap[0].snapshot = first.snapshot;
	r->lap[0].buffer = first.buffer;
	r->lap[0].split = (struct split_row){0};
	memset(r->lap[0].staleness, 0, sizeof r->lap[0].staleness);
	r->lap[0].end = 0;

	deal(r, 1);
	if (!world_is_virtual)
		warm_up(r);
	for (w->epoch = 1; w->epoch <= run->epochs && !r->status && !has_kept_all(r); w->epoch++) {
		bool barrier = w->epoch == run->epochs ||
			       (run->barrier_every && w->epoch % run->barrier_every == 0);
		if (w->epoch > 1)
			deal(r, w->epoch);
		if (r->live) {
			r->live->epoch = w->epoch;
			r->live->step = 0;
			r->live->state = LIVE_TRAINING;
		}
		if (r->laps == 0) {
			link_barrier(comm_link(w->all));
			r->start = clock_now();
		}
		run_epoch(r, barrier);
		if (barrier) {
			r->raced += r->lap[r->laps - 1].end;
			judge(r);
		}
	}
}

/* A server's whole life. */
static int serve(struct race *r)
{
	tables_serve(r->everyone, r->w.rank, r->w.trainers, replayed(r), r->trace);
	trace_free(r->trace);
	comm_free(r->w.all);
	link_free(r->everyone);
	platform_stop();
	free(r);
	return EXIT_OK;
}

/* Collective: FNV-1a of the floats of the canonical model. */
static void hash_model(struct race *r, char hex[17])
{
	struct worker *w = &r->w;
	uint64_t h = UINT64_C(14695981039346656037);
	size_t n = vec_len(w->param);
	*hex = '\0';
	if (!vec_has_data(w->param))
		return;
	place_model(r, NULL);
	if (w->rank == 0) {
		float *x = must(malloc((n + 1) * sizeof *x));
		vec_get(w->param, x);
		for (size_t i = 0; i < n * sizeof *x; i++)
			h = (h ^ ((const unsigned char *)x)[i]) * UINT64_C(1099511628211);
		free(x);
		snprintf(hex, 17, "%016llx", (unsigned long long)h);
	}
	take_back_model(r, NULL);
}

/* Events of one race: a few a step, with room for reductions that go in many parts; a server's: of
 * all workers' passes. */
static size_t events_expected(const struct race *r)
{
	enum { A_STEP = 32, A_LAP = 64 };
	const struct run *run = r->w.run;
	int64_t steps = run->trace < r->plan->steps ? run->trace : r->plan->steps, laps = 1;
	if (run->barrier_every != 1)
		laps = run->barrier_every && run->barrier_every < run->epochs ? run->barrier_every
									      : run->epochs;
	size_t room = (size_t)((steps * A_STEP + A_LAP) * laps);
	return r->w.rank < r->w.trainers ? room : room / 4 * (size_t)r->w.trainers;
}

/* Collective over all ranks. */
static struct trace *make_trace(struct race *r)
{
	struct worker *w = &r->w;
	if (w->run->trace == 0)
		return NULL;
	return trace_new(r->everyone ? r->everyone : comm_link(w->all), w->rank, w->size,
			 events_expected(r));
}

/* What all workers are given. */
struct order {
	const struct config *config;
	const struct plan *plan;
	const struct sink *sink;
	struct live *live;
};

static int live_as_worker(void *ctx)
{
	const struct order *o = ctx;
	const struct config *c = o->config;
	const struct sink *sink = o->sink;
	struct race *r = must(calloc(1, sizeof *r));
	r->config = c;
	r->plan = o->plan;
	r->sink = sink;
	r->w = (struct worker){.run = &c->run,
			       .strategy = c->strategy,
			       .opts = c->strategy_opts,
			       .workload = c->workload,
			       .workload_opts = c->workload_opts,
			       .dev = &r->dev,
			       .stats = &r->stats};
	cpu_flush_denormals();
	platform_start(&r->w);
	if (r->w.rank == 0) {
		r->live = o->live;
	} else if (!world_is_virtual) {
		ending.live = NULL;
		ending.silent = true;
	}
	ending.workers = r->w.trainers;
	r->everyone = ending.everyone = c->run.servers > 0 ? link_world(r->w.size) : NULL;
	r->w.all = comm_world_trainers(&r->w, c->own.transport);
	r->trace = make_trace(r);
	if (r->w.rank >= r->w.trainers)
		return serve(r);
	set_up(r);
	agree(r, r->w.rank == 0 ? begin_sink(r) : NULL);
	race_on(r);
	decide(r, r->w.rank == 0 ? look_for_rest(r) : NULL);

	char *error = NULL;
	if (sink->steps)
		sink->steps(sink->self, &r->w, r->step_s, r->steps_kept);
	if (sink->model) {
		place_model(r, NULL);
		sink->model(sink->self, &r->w);
		take_back_model(r, NULL);
	}
	struct closing closing = {.simulated = world_cost(&closing.cost)};
	hash_model(r, closing.model_hash);
	if (r->w.rank == 0) {
		static const char *const name[] = {
			[EXIT_OK] = "done", [EXIT_FAILED] = "failed", [EXIT_DIVERGED] = "diverged"};
		error = sink->closing ? sink->closing(sink->self, &closing) : NULL;
		if (!error)
			error = sink->end(sink->self, name[r->status],
					  r->status ? r->reason : NULL);
	}
	decide(r, error);
	int status = r->status;
	if (r->live) {
		r->live->simulated = closing.simulated;
		r->live->cost = closing.cost;
		live_end(r->live, status, r->reason);
	}
	tear_down(r);
	link_free(r->everyone);
	platform_stop();
	free(r);
	return status;
}

int train(const struct config *c, const struct plan *plan, const struct sink *sink,
	  struct live *live)
{
	struct order order = {.config = c, .plan = plan, .sink = sink, .live = live};
	ending.launched = live != NULL;
	ending.live = live;
	ending.silent = false;
	ending.everyone = NULL;
	user_error_handler(end_with_user_error);
	return world_run(c, plan, live_as_worker, &order);
}
