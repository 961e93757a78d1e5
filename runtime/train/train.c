/*
 * train.c - a worker's whole life: set-up, the segments, and the evaluation of models between them.
 *
 * A segment is the epochs from one barrier to the next. Inside it nothing is allocated, printed,
 * stored or evaluated. With a barrier after every epoch (--barrier-every=1) each epoch is a segment
 * of its own; without, every trainer keeps a snapshot of what it knows of the model as it ends an
 * epoch, and the snapshots are evaluated after the segment. Times of an epoch, a rank: seconds =
 * compute + comm + wait + other. comm and wait are measured (comm.c), compute is the rest of the
 * time inside steps (batches, gradients, the optimiser, straggling), other what lies between steps
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
	int reporting_rank;   /* the first worker that had not: its snapshot counts */
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

	int replica, replicas; /* place of this worker's model among the models */
	int32_t *order, *test_order;
	size_t *step_first; /* [steps + 1], into order */
	float *lr;          /* [steps] */
	struct vec *saved;  /* param, while another model is evaluated in its place, */
	struct vec *buffer; /* and w->buffer */

	struct epoch_record *record;
	int64_t records, records_max;
	nsec start;
	nsec trained; /* in the segments before this one */

	/* what is said of this worker; what has taken place is at NEVER */
	struct heterogeneity heterogeneity;
	bool delayed; /* its steps may be, by --straggle or --speed */
	bool left;    /* --leave */
	nsec stood;   /* --pause */

	struct link *everyone; /* workers and servers; NULL without servers */
	struct trace *trace;   /* --trace; or NULL */

	float *step_s; /* [steps kept]: durations [s], where the sink wants them; or NULL */
	size_t steps_kept, steps_most; /* steps_most 0: not known yet */

	struct split_row *ranks; /* rank 0: gathered */
	size_t arrived;          /* rank 0: operations of the workers that were recorded */
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
	struct status_page *page; /* rank 0's, else NULL */
	bool launched;            /* mvbench watches: the status travels in the status page */
	bool silent;              /* rank 0 speaks for all */
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
	if (ending.page) {
		status_end(ending.page, EXIT_USER, text);
	} else if (!ending.silent) {
		fprintf(stderr, "mvbench: %s\n", text);
	}
	end_early(EXIT_USER);
}

/* If any rank has a sentence, all ranks stop with the lowest one's. Frees mine. */
static void agree(struct trainer *r, char *mine)
{
	struct link *all = comm_link(r->w.all);
	double lowest = mine ? r->w.rank : r->w.trainers;
	char text[512];
	link_reduce_all(all, &lowest, 1, REDUCE_MIN);
	if (lowest >= r->w.trainers)
		return;
	snprintf(text, sizeof text, "%s", mine ? mine : "");
	free(mine);
	link_broadcast(all, (int)lowest, text, sizeof text);
	user_error("%s", text);
}

/* ---- The order of the data ----------------------------------------------- */

static void shard_epoch(struct trainer *r, int64_t epoch)
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

/* ---- A segment ----------------------------------------------------------- */

/* A straggling step takes L times as long, L lognormal(0, sigma), when that is longer; on a slow
 * worker all of it takes 1 / speed times as long. took: without what was communicated inside. */
static void delay(const struct trainer *r, nsec took, uint64_t *rng)
{
	double sigma = r->w.run->straggle, factor = sigma > 0 ? exp(sigma * rng_normal(rng)) : 1;
	factor = fmax(factor, 1) / r->heterogeneity.speed;
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
	if (w->dev->in_graph) {
		/* what the strategy does there cannot be in a graph */
		w->dev->ops->event_record(w->dev, i);
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

/* The gradient of w->index, on devices that keep graphs and on those that do not. Returns true if
 * the strategy's step is done as well. */
static bool compute(struct worker *w, bool with_step)
{
	enum { GRADIENT, STEP, KINDS };
	struct device *d = w->dev;
	with_step &= w->strategy->local && d->ops->graph;
	d->lr = (float)w->lr;
	d->key = rng_seed(w->run->seed, STREAM_DROPOUT,
			  w->step * w->trainers + w->rank / comm_size(w->model_group));
	w->workload->load(w);
	if (!d->ops->graph || comm_size(w->model_group) > 1) { /* those communicate inside */
		w->workload->gradient(w);
		return false;
	}
	d->ops->graph(d, KINDS * w->rows + (with_step ? STEP : GRADIENT),
		      with_step ? gradient_and_local_step : gradient_alone, w);
	for (size_t i = w->layers; wants_layers(w) && w->step > 0 && i-- > 0;) {
		d->ops->event_wait(d, i);
		w->strategy->layer_ready(w, i);
	}
	return with_step;
}

/* Notes what a worker was in since then, and returns the time; 0 where nobody asks. */
static nsec note(struct trainer *r, enum trace_kind kind, nsec since)
{
	if (!r->stats.trace)
		return 0;
	nsec now = clock_peek();
	trace_add(r->stats.trace, kind, since, now);
	return now;
}

/* Steps that are kept begin and end with this; kept false: nothing that follows is. */
static nsec note_from(struct trainer *r, bool kept, int64_t step)
{
	r->stats.trace = kept ? r->trace : NULL;
	if (!r->stats.trace)
		return 0;
	trace_at(r->trace, r->w.epoch, step);
	return clock_peek();
}

static void one_step(struct trainer *r, size_t s, uint64_t *straggle_rng)
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

static void stand_at_barrier(struct trainer *r)
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

static nsec training_time(const struct trainer *r)
{
	return r->trained + clock_now() - r->start;
}

/* A worker that leaves stands at a barrier from now on: so tables know that nobody need wait for
 * its pushes. */
static void leave_run(struct trainer *r)
{
	if (r->w.strategy->flush)
		r->w.strategy->flush(&r->w);
	flush_tables(&r->w);
	r->left = true;
}

/* Before a step: what is due of --pause and --leave. */
static void attend(struct trainer *r)
{
	struct heterogeneity *u = &r->heterogeneity;
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
		leave_run(r);
	}
}

/* Enough steps are kept. */
static bool has_kept_all(const struct trainer *r)
{
	return r->step_s && r->steps_most && r->steps_kept >= r->steps_most;
}

static void keep_duration(struct trainer *r, nsec *last)
{
	device_sync(r->w.dev);
	nsec now = clock_now();
	r->step_s[r->steps_kept++] = 1e-9f * (float)(now - *last);
	if (r->steps_kept == PILOT) { /* so many fit into the time that is wanted, on all ranks */
		double mean = 1e-9 * (double)(now - r->start) / PILOT;
		link_reduce_all(comm_link(r->w.all), &mean, 1, REDUCE_MAX);
		double fit = r->sink->steps_wanted_s / mean;
		r->steps_most = fit < 4 * PILOT ? 4 * PILOT : (size_t)fit;
		now = clock_now();
	}
	*last = now;
}

/* Runs one epoch and fills the next record. Ends with a barrier when `barrier` says so. */
static void run_epoch(struct trainer *r, bool barrier)
{
	struct worker *w = &r->w;
	struct stats *s = &r->stats, before = *s;
	struct epoch_record *record = &r->record[r->records];
	uint64_t rng = rng_seed(w->run->seed, STREAM_STRAGGLE, w->epoch * w->size + w->rank);
	nsec began = r->records ? r->record[r->records - 1].end + r->start : r->start,
	     stood = r->stood;

	nsec in_steps = clock_now(), last = in_steps;
	for (int64_t i = 0; i < w->steps && !has_kept_all(r); i++) {
		if (r->heterogeneity.pause_at < NEVER || r->heterogeneity.leave_at < NEVER)
			attend(r);
		if (r->left)
			break;
		one_step(r, (size_t)i, &rng);
		if (r->page)
			r->page->step = i + 1;
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
	record->epoch = w->epoch;
	record->left = r->left;
	record->end = now - r->start;
	record->first_collective = before.collectives;
	record->last_collective = s->collectives;
	record->split = (struct split_row){
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
		record->staleness[i] = s->staleness[i] - before.staleness[i];
	tally_take(w, &record->train);
	if (record->snapshot && !r->left) {
		if (w->strategy->canonical)
			w->strategy->canonical(w, record->snapshot);
		else
			vec_copy(record->snapshot, w->param);
	}
	if (record->buffer)
		vec_copy(record->buffer, w->buffer);
	r->records++;
}

/* ---- Evaluation ---------------------------------------------------------- */

/* The test set's loss and correct answers under the model that stands in param: each replica takes
 * a part of the rows. */
static struct tally evaluate(struct trainer *r)
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

/* Is the model that is evaluated another than the one in param? */
static bool is_elsewhere(const struct trainer *r, const struct epoch_record *record)
{
	const struct strategy *s = r->w.strategy;
	return (record && record->snapshot) || s->canonical || s->average;
}

/* The mean over the workers that have not left. */
static void average_buffers(struct trainer *r, bool left)
{
	struct worker *w = &r->w;
	double there = !left;
	if (*w->run->leave == '\0') {
		comm_allreduce(w->data_group, w->buffer, MEAN);
		return;
	}
	link_reduce_all(comm_link(w->all), &there, 1, REDUCE_SUM);
	if (left)
		vec_fill(w->buffer, 0);
	comm_allreduce(w->data_group, w->buffer, SUM);
	vec_scale(w->buffer, 1 / (float)there);
}

/* Puts the canonical model into param, and the mean of the models' buffers into buffer; record: as
 * they stood at its end, NULL = now. */
static void place_model(struct trainer *r, const struct epoch_record *record)
{
	struct worker *w = &r->w;
	if (is_elsewhere(r, record))
		vec_copy(r->saved, w->param);
	if (record && record->snapshot)
		vec_copy(w->param, record->snapshot);
	else if (w->strategy->canonical)
		w->strategy->canonical(w, w->param);
	if (w->strategy->average)
		comm_allreduce(w->data_group, w->param, MEAN);
	else if (is_elsewhere(r, record))
		comm_broadcast(w->data_group, record ? record->reporting_rank : 0, w->param);
	if (!w->buffer)
		return;
	vec_copy(r->buffer, w->buffer);
	if (record && record->buffer)
		vec_copy(w->buffer, record->buffer);
	average_buffers(r, record ? record->left : r->left);
}

static void take_back_model(struct trainer *r, const struct epoch_record *record)
{
	struct worker *w = &r->w;
	if (is_elsewhere(r, record))
		vec_copy(w->param, r->saved);
	if (w->buffer)
		vec_copy(w->buffer, r->buffer);
}

static struct tally evaluate_model(struct trainer *r, const struct epoch_record *record)
{
	nsec since = clock_peek();
	place_model(r, record);
	struct tally t = evaluate(r);
	take_back_model(r, record);
	if (r->trace) {
		trace_at(r->trace, record->epoch, 0);
		trace_add(r->trace, TRACE_EVALUATE, since, clock_peek());
	}
	return t;
}

/* Sums tallies over the models: of each model group only the first worker counts. */
static void reduce_tally(struct trainer *r, const struct tally *t, double *loss, double *accuracy)
{
	bool counts = comm_rank(r->w.model_group) == 0;
	double sum[3] = {counts ? t->loss : 0, counts ? (double)t->correct : 0,
			 counts ? (double)t->rows : 0};
	link_reduce_all(comm_link(r->w.all), sum, 3, REDUCE_SUM);
	*loss = sum[2] > 0 ? sum[0] / sum[2] : NAN;
	*accuracy = sum[2] > 0 && r->train.classes ? sum[1] / sum[2] : NAN;
}

/* Rank 0 decides, all ranks learn: has the run ended, and how? */
static void decide(struct trainer *r, char *sink_error)
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

static void look_for_divergence(struct trainer *r, const struct epoch_row *row)
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

/* This rank's split of an epoch, settled: what was waiting inside collectives moves from comm to
 * wait. */
static void settle(struct trainer *r, struct epoch_record *record)
{
	double waited = 1e-9 * (double)stats_waited(&r->stats, record->first_collective,
						    record->last_collective);
	record->split.comm_s -= waited;
	record->split.wait_s += waited;
}

/* Collective: where no barrier ends an epoch, a worker that has left waits until the last of the
 * others has ended it. */
static void wait_for_those_there(struct trainer *r)
{
	struct link *all = comm_link(r->w.all);
	nsec before = 0;
	for (int64_t k = 0; k < r->records && *r->w.run->leave; k++) {
		struct epoch_record *record = &r->record[k];
		double end = record->left ? 0 : (double)record->end;
		double reporting_rank = record->left ? r->w.trainers : r->w.rank;
		link_reduce_all(all, &end, 1, REDUCE_MAX);
		link_reduce_all(all, &reporting_rank, 1, REDUCE_MIN);
		record->reporting_rank = (int)reporting_rank;
		if (record->left && k < r->records - 1 && end > (double)record->end)
			record->end = (nsec)end;
		if (record->left) {
			double seconds = 1e-9 * (double)(record->end - before);
			record->split.wait_s += seconds - record->split.seconds;
			record->split.seconds = seconds;
		}
		before = record->end;
	}
}

/* Over the trainers: times are means, counts are sums. Without a barrier every trainer's epoch
 * begins and ends at a time of its own; means of the trainers' own epochs still add up to the whole
 * segment. */
static struct split_row reduce_split(struct trainer *r, const struct split_row *own)
{
	struct link *all = comm_link(r->w.all);
	double n = r->w.trainers;
	double time[4] = {own->seconds, own->compute_s, own->comm_s, own->wait_s};
	double count[4] = {(double)own->bytes_sent, (double)own->pushes, (double)own->staleness_sum,
			   (double)own->dropped};
	double most = (double)own->staleness_max;
	link_reduce_all(all, time, 4, REDUCE_SUM);
	link_reduce_all(all, count, 4, REDUCE_SUM);
	link_reduce_all(all, &most, 1, REDUCE_MAX);
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
static void reduce_staleness(struct trainer *r, int64_t bins[STALENESS_BINS])
{
	double sum[STALENESS_BINS];
	for (int i = 0; i < STALENESS_BINS; i++)
		sum[i] = (double)bins[i];
	link_reduce_all(comm_link(r->w.all), sum, STALENESS_BINS, REDUCE_SUM);
	for (int i = 0; i < STALENESS_BINS; i++)
		bins[i] = (int64_t)sum[i];
}

static int by_order(const void *a, const void *b)
{
	const struct arrival *x = a, *y = b;
	int where = x->table != y->table ? x->table - y->table : x->shard - y->shard;
	return where ? where : x->seq < y->seq ? -1 : x->seq > y->seq;
}

/* Collective: what the trainers recorded in this segment goes to the sink, in order. */
static char *hand_over_arrivals(struct trainer *r)
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
static void hand_over_events(struct trainer *r)
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

static const struct recording *replayed(const struct trainer *r)
{
	return r->plan->simulation ? r->plan->simulation->replay : NULL;
}

/* Rank 0, at the end: has the whole record been repeated? */
static char *look_for_rest(const struct trainer *r)
{
	const struct recording *record = replayed(r);
	if (!record || r->status == EXIT_FAILED || r->arrived == record->n)
		return NULL;
	return sentence("the record of run %lld has %zu operations, and this run made %zu; was it "
			"changed since it was made?",
			(long long)record->run, record->n, r->arrived);
}

/* Collective, off the clock: evaluates the epochs of the segment, and hands their rows to the
 * sink. */
static void evaluate_segment(struct trainer *r)
{
	struct worker *w = &r->w;
	if (r->page)
		r->page->state = STATUS_EVALUATING;
	stats_reduce(w);
	wait_for_those_there(r);
	if (w->tables && (w->run->record || replayed(r)))
		decide(r, hand_over_arrivals(r));
	for (int64_t k = 0; k < r->records && !r->status; k++) {
		struct epoch_record *record = &r->record[k];
		struct epoch_row row = {.epoch = record->epoch};
		char *error = NULL;
		settle(r, record);
		row.split = reduce_split(r, &record->split);
		if (row.split.pushes)
			reduce_staleness(r, record->staleness);
		link_gather_bytes(comm_link(w->all), &record->split, r->ranks,
				  sizeof record->split);
		reduce_tally(r, &record->train, &row.train_loss, &row.train_accuracy);
		struct tally t = evaluate_model(r, record);
		reduce_tally(r, &t, &row.test_loss, &row.test_accuracy);
		if (w->rank == 0) {
			look_for_divergence(r, &row);
			error = r->sink->epoch(r->sink->self, &row, r->ranks, w->trainers,
					       row.split.pushes ? record->staleness : NULL);
			if (r->page) {
				r->page->row[r->page->rows] = row;
				__atomic_fetch_add(&r->page->rows, 1, __ATOMIC_RELEASE);
			}
		}
		decide(r, error);
	}
	r->records = 0;
	hand_over_events(r);
	stats_reset(&r->stats); /* what evaluation communicated does not count */
}

/* ---- Set-up and the whole life ------------------------------------------- */

/* Is this the first step of so many rows? */
static bool is_new_size(const struct trainer *r, size_t s)
{
	size_t rows = r->step_first[s + 1] - r->step_first[s];
	for (size_t i = 0; i < s; i++)
		if (r->step_first[i + 1] - r->step_first[i] == rows)
			return false;
	return rows > 0;
}

/* Touches memory, makes the libraries compile their kernels for every size of mini-batch, and opens
 * the connections. Leaves the model as it was: a learning rate of 0 does. */
static void warm_up(struct trainer *r)
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

static void set_up_comms(struct trainer *r)
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
static void agree_on_options(struct trainer *r)
{
	char hex[17];
	config_hash(r->config, hex);
	double hash = (double)(strtoull(hex, NULL, 16) >> 12), least = hash, most = hash;
	link_reduce_all(comm_link(r->w.all), &least, 1, REDUCE_MIN);
	link_reduce_all(comm_link(r->w.all), &most, 1, REDUCE_MAX);
	if (least != most)
		user_error(
			"the processes were started with different options: give all of them the "
			"same");
}

/* What a segment's epochs may record: a push, a pull and the end of a round a step, and a pull
 * after a barrier, on each shard. */
static size_t arrivals_expected(const struct trainer *r)
{
	int64_t shards = r->w.run->servers > 0 ? r->w.run->servers : 1;
	return (size_t)(3 * (r->w.steps + 1) * r->records_max * shards);
}

static char *open_tables(struct trainer *r)
{
	struct worker *w = &r->w;
	const struct run *run = w->run;
	struct link *workers = comm_link(w->all);
	const struct recording *replay = replayed(r);
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
	if (w->tables->placement == &placement_onesided)
		return sentence("--record: one-sided pushes have no order that could be kept; use "
				"--table-home=shared or --servers=1");
	tables_record(w->tables, arrivals_expected(r));
	return NULL;
}

/* Collectives of a segment: a few a step, for as many epochs as a segment has. */
static size_t collectives_expected(const struct trainer *r)
{
	enum { A_STEP = 8, LEAST = 1 << 12, MOST = 1 << 26 };
	size_t n = (size_t)(r->plan->steps * r->records_max) * A_STEP;
	return n < LEAST ? LEAST : n > MOST ? MOST : n;
}

/* Simulations of time alone have lengths only: shapes of data, no data. */
static bool has_floats(const struct run *run)
{
	return !world_is_virtual || run->sim_train;
}

static void set_up(struct trainer *r)
{
	struct worker *w = &r->w;
	const struct run *run = w->run;

	r->heterogeneity = heterogeneity_of(run, w->rank);
	r->delayed = run->straggle > 0 || r->heterogeneity.speed < 1;
	bool always = run->barrier_every == 1;
	r->records_max = run->barrier_every ? run->barrier_every : run->epochs;
	if (r->records_max > run->epochs)
		r->records_max = run->epochs > 0 ? run->epochs : 1;
	stats_init(&r->stats, collectives_expected(r));
	set_up_comms(r);
	agree_on_options(r);
	if (r->page)
		r->page->state = STATUS_LOADING;
	r->dev.ops = device_find(world_is_virtual ? "cpu" : r->plan->device);
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
	comm_prepare(w->data_group, w->param, run->transport);
	comm_prepare(w->model_group, w->param, run->transport);
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

	r->record = must(calloc((size_t)r->records_max, sizeof *r->record));
	for (int64_t i = 0; i < r->records_max && !always; i++)
		r->record[i].snapshot = vec_new(w, vec_len(w->param));
	for (int64_t i = 0; i < r->records_max && !always && w->buffer; i++)
		r->record[i].buffer = vec_new(w, vec_len(w->buffer));
	if (!always || w->strategy->canonical || w->strategy->average)
		r->saved = vec_new(w, vec_len(w->param));
}

static void tear_down(struct trainer *r)
{
	struct worker *w = &r->w;
	if (w->strategy->fini)
		w->strategy->fini(w);
	tables_close(w->tables);
	ending.everyone = NULL;
	for (int64_t i = 0; i < r->records_max; i++)
		vec_free(r->record[i].snapshot);
	for (int64_t i = 0; i < r->records_max; i++)
		vec_free(r->record[i].buffer);
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
	free(r->record);
}

/* Rank 0 only. */
static char *begin_sink(struct trainer *r)
{
	char started[32];
	time_t now = time(NULL);
	int64_t id = 0;
	strftime(started, sizeof started, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
	struct experiment e = {.config = r->config,
			       .machine = machine(),
			       .plan = r->plan,
			       .started = started,
			       .table_home = r->w.tables ? r->w.tables->placement->name : NULL,
			       .transport = comm_transport(r->w.data_group)};
	char *error = r->sink->begin(r->sink->self, &e, &id);
	if (r->page) {
		r->page->id = id;
		r->page->steps = r->w.steps;
	}
	return error;
}

static void train_epochs(struct trainer *r)
{
	struct worker *w = &r->w;
	const struct run *run = w->run;

	/* epoch 0: the model before training */
	r->record[0].epoch = 0;
	r->records = 1;
	struct epoch_record first = r->record[0];
	r->record[0].snapshot = r->record[0].buffer = NULL;
	evaluate_segment(r);
	r->record[0].snapshot = first.snapshot;
	r->record[0].buffer = first.buffer;
	r->record[0].split = (struct split_row){0};
	memset(r->record[0].staleness, 0, sizeof r->record[0].staleness);
	r->record[0].end = 0;

	shard_epoch(r, 1);
	if (!world_is_virtual)
		warm_up(r);
	for (w->epoch = 1; w->epoch <= run->epochs && !r->status && !has_kept_all(r); w->epoch++) {
		bool barrier = w->epoch == run->epochs ||
			       (run->barrier_every && w->epoch % run->barrier_every == 0);
		if (w->epoch > 1)
			shard_epoch(r, w->epoch);
		if (r->page) {
			r->page->epoch = w->epoch;
			r->page->step = 0;
			r->page->state = STATUS_TRAINING;
		}
		if (r->records == 0) {
			link_barrier(comm_link(w->all));
			r->start = clock_now();
		}
		run_epoch(r, barrier);
		if (barrier) {
			r->trained += r->record[r->records - 1].end;
			evaluate_segment(r);
		}
	}
}

/* A server's whole life. */
static int serve(struct trainer *r)
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
static void hash_model(struct trainer *r, char hex[17])
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

/* Events of one segment: a few a step, with room for reductions that go in many parts; a server's:
 * of all workers' operations. */
static size_t events_expected(const struct trainer *r)
{
	enum { A_STEP = 32, AN_EPOCH = 64 };
	const struct run *run = r->w.run;
	int64_t steps = run->trace < r->plan->steps ? run->trace : r->plan->steps, records = 1;
	if (run->barrier_every != 1)
		records = run->barrier_every && run->barrier_every < run->epochs
				  ? run->barrier_every
				  : run->epochs;
	size_t room = (size_t)((steps * A_STEP + AN_EPOCH) * records);
	return r->w.rank < r->w.trainers ? room : room / 4 * (size_t)r->w.trainers;
}

/* Collective over all ranks. */
static struct trace *make_trace(struct trainer *r)
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
	struct status_page *page;
};

static int worker_main(void *ctx)
{
	const struct order *o = ctx;
	const struct config *c = o->config;
	const struct sink *sink = o->sink;
	struct trainer *r = must(calloc(1, sizeof *r));
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
		r->page = o->page;
	} else if (!world_is_virtual) {
		ending.page = NULL;
		ending.silent = true;
	}
	ending.workers = r->w.trainers;
	r->everyone = ending.everyone = c->run.servers > 0 ? link_world(r->w.size) : NULL;
	r->w.all = comm_world_trainers(&r->w);
	r->trace = make_trace(r);
	if (r->w.rank >= r->w.trainers)
		return serve(r);
	set_up(r);
	agree(r, r->w.rank == 0 ? begin_sink(r) : NULL);
	train_epochs(r);
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
	if (r->page) {
		r->page->simulated = closing.simulated;
		r->page->cost = closing.cost;
		status_end(r->page, status, r->reason);
	}
	tear_down(r);
	link_free(r->everyone);
	platform_stop();
	free(r);
	return status;
}

int train(const struct config *c, const struct plan *plan, const struct sink *sink,
	  struct status_page *page)
{
	struct order order = {.config = c, .plan = plan, .sink = sink, .page = page};
	ending.launched = page != NULL;
	ending.page = page;
	ending.silent = false;
	ending.everyone = NULL;
	user_error_handler(end_with_user_error);
	return world_run(c, plan, worker_main, &order);
}
