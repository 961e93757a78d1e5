/*
 * epoch.c - an epoch of one trainer: its steps, and their times.
 *
 * Inside a segment nothing is allocated, printed, stored or evaluated. Times of one rank in an
 * epoch: seconds = compute + comm + wait + other. comm and wait are measured (comm.c). compute is
 * the rest of the time inside steps (batches, gradients, the optimiser, delays). other is the time
 * between steps (shuffling, snapshots, pauses).
 */
#include "runtime/config/config.h"
#include "runtime/config/heterogeneity.h"
#include "runtime/train/trainer.h"

#include <math.h>
#include <string.h>

enum { PILOT = 8 }; /* first steps, from whose duration the number of steps follows */

/* ---- A step -------------------------------------------------------------- */

/* Sums that were started travel during the delay. */
static void delay_and_progress(nsec dt)
{
	const nsec nap = 100000;
	if (link_progress_sums()) { /* never in a simulation */
		const nsec until = clock_now() + dt;
		for (; dt > 0 && link_progress_sums(); dt = until - clock_now())
			clock_delay(dt < nap ? dt : nap);
	}
	clock_delay(dt);
}

/* Delays a step. It takes at least --step-time, in proportion to its rows. With --straggle it takes
 * L times as long, L lognormal(0, sigma), if L > 1. On a slow worker all of this takes 1 / speed
 * times as long. took: its duration without communication. */
static void delay(const struct trainer *r, nsec took, uint64_t *rng)
{
	const struct run *run = r->w.run;
	double sigma = run->straggle, factor = sigma > 0 ? exp(sigma * rng_normal(rng)) : 1;
	double least = 1e9 * run->step_time * (double)r->w.rows / (double)timed_rows(run);
	double wanted = fmax((double)took, least) * fmax(factor, 1) / r->heterogeneity.speed;
	nsec more = (nsec)(wanted - (double)took);
	if (more <= 0)
		return;
	world_wait("its delay", more);
	delay_and_progress(more);
	world_leave();
}

static bool wants_layer(const struct worker *w, size_t i)
{
	const struct strategy *s = w->loop->strategy;
	return s && s->layer_ready && w->loop->part != BATCH_EARLY &&
	       (!s->wants_layer || s->wants_layer(w, i));
}

bool wants_layers(const struct worker *w)
{
	size_t i = w->step > 0 ? w->model->layers : 0;
	while (i > 0 && !wants_layer(w, i - 1))
		i--;
	return i > 0;
}

/* Adds the earlier mini-batches' gradients of layer i. */
static void add_earlier(struct worker *w, size_t i)
{
	size_t first = w->model->layer[i], n = w->model->layer[i + 1] - first;
	struct vec sum = *w->loop->earlier, grad = *w->grad; /* views: nothing may be allocated */
	sum.n = grad.n = n;
	if (vec_has_data(w->grad)) {
		sum.data += first;
		grad.data += first;
	}
	vec_axpy(&grad, 1, &sum);
}

void layer_ready(struct worker *w, size_t i)
{
	if (are_checked(w))
		promise_layer(w, i);
	if (w->loop->part == BATCH_LAST)
		add_earlier(w, i);
	link_progress_sums();
	if (!wants_layer(w, i))
		return;
	if (w->loop->dev->in_graph) {
		/* the strategy's work cannot be in a graph; compute() calls it afterwards */
		w->loop->dev->ops->event_record(w->loop->dev, i);
	} else if (w->step > 0) { /* not for gradients of the warm-up, before step 1 */
		device_sync(w->loop->dev);
		w->loop->strategy->layer_ready(w, i);
	}
}

/* Does its strategy make layers ready only when they are needed? Not in the warm-up. */
static bool makes_ready(const struct worker *w)
{
	return w->loop->by_layer && w->loop->strategy->layer_needed && w->step > 0;
}

void layer_needed(struct worker *w, size_t i)
{
	link_progress_sums();
	if (makes_ready(w) && !w->loop->dev->in_graph) /* otherwise all are ready */
		w->loop->strategy->layer_needed(w, i);
}

void layers_needed(struct worker *w)
{
	for (size_t i = 0; i < (makes_ready(w) ? w->model->layers : 0); i++)
		layer_needed(w, i);
}

bool consensus_marks(const struct worker *w)
{
	return w->loop->marks;
}

void consensus_mark(struct worker *w)
{
	if (!w->loop->marks)
		return;
	vec_copy(w->loop->consensus, w->param);
	w->loop->marked = true;
}

/* The warm-up, before step 1, does not communicate. */
static void fetch(struct worker *w)
{
	if (w->loop->strategy->fetch && w->step > 0)
		w->loop->strategy->fetch(w);
}

/* A local step does not communicate. A device can therefore do it in one graph with the gradient.
 */
static void gradient_and_local_step(void *ctx)
{
	struct worker *w = ctx;
	w->model->workload->gradient(w);
	w->loop->strategy->step(w);
}

static void gradient_only(void *ctx)
{
	struct worker *w = ctx;
	if (are_checked(w))
		promise_gradient(w);
	else
		w->model->workload->gradient(w);
}

/* A device's work for a mini-batch depends on its rows (lower 32 bits), and on the rows of all
 * workers together in the step (upper bits). */
static size_t graph_key(const struct worker *w)
{
	size_t all = (size_t)(w->mean_rows * comm_size(w->data_group) + 0.5);
	return w->rows + (all << 32);
}

/* Computes the gradient of one mini-batch, w->index, on devices with and without graphs; the k-th
 * of its step. Returns true if the strategy's step is done as well. */
static bool compute_batch(struct worker *w, bool with_step, int64_t k)
{
	enum { STEP = BATCH_LAST + 1, KINDS };
	struct device *d = w->loop->dev;
	int kind = with_step ? STEP : (int)w->loop->part;
	pulse_step();
	d->key = rng_seed(w->run->seed, RNG_DROPOUT,
			  (w->step * w->trainers + w->rank / comm_size(w->model_group)) *
					  w->run->accumulate +
				  k);
	w->model->workload->load(w);
	if (k == 0)
		fetch(w);
	/* a simulated gradient takes its time as a whole, also on the host; model groups
	 * communicate inside */
	if (!d->ops->graph || (w->model->workload->host && !world_is_virtual) ||
	    comm_size(w->model_group) > 1) {
		if (!w->model->workload->by_layer)
			layers_needed(w);
		gradient_only(w);
		return false;
	}
	/* otherwise layer by layer, as the simulated forward pass takes time */
	if (!world_is_virtual || !w->model->workload->by_layer)
		layers_needed(w);
	d->ops->graph(d, KINDS * graph_key(w) + (size_t)kind,
		      with_step ? gradient_and_local_step : gradient_only, w);
	for (size_t i = wants_layers(w) ? w->model->layers : 0; i-- > 0;) {
		const bool wanted = wants_layer(w, i);
		if (wanted || world_is_virtual) /* each wait charges its layer's time */
			d->ops->event_wait(d, i);
		if (wanted)
			w->loop->strategy->layer_ready(w, i);
	}
	return with_step;
}

/* Computes the gradient of a step, of one mini-batch, or of the sum of --accumulate of them, which
 * differ by one row at most. Each row has the weight 1 / w->mean_rows. */
static bool compute(struct worker *w, bool with_step)
{
	const int32_t *index = w->index;
	size_t rows = w->rows, parts = smaller((size_t)w->run->accumulate, rows);
	local_begin(w);
	with_step &= w->loop->strategy->local && w->loop->dev->ops->graph && !are_checked(w);
	if (parts == 1)
		return compute_batch(w, with_step, 0);
	for (size_t k = 0; k < parts; k++) {
		size_t first = part_of(rows, parts, k);
		w->index = index + first;
		w->rows = part_of(rows, parts, k + 1) - first;
		w->loop->part = k + 1 < parts ? BATCH_EARLY : BATCH_LAST;
		compute_batch(w, false, (int64_t)k);
		if (k == 0)
			vec_copy(w->loop->earlier, w->grad);
		else if (k + 1 < parts)
			vec_axpy(w->loop->earlier, 1, w->grad);
	}
	w->loop->part = BATCH_ALONE;
	w->index = index;
	w->rows = rows;
	return false;
}

/* Adds an event of this kind, from `since` to now, to the timeline. Returns the time; 0 if the step
 * is not kept. */
static nsec note(struct trainer *r, enum trace_kind kind, nsec since)
{
	if (!r->stats.trace)
		return 0;
	nsec now = clock_peek();
	trace_add(r->stats.trace, kind, since, now);
	return now;
}

/* Begins a step in the timeline, and returns the time. kept false: no event from now on is kept. */
static nsec note_from(struct trainer *r, bool kept, int64_t step)
{
	r->stats.trace = kept ? r->trace : NULL;
	if (!r->stats.trace)
		return 0;
	trace_at(r->trace, r->w.epoch, step);
	return clock_peek();
}

/* May the synchronisation after this step be this worker's last one of the epoch? With static
 * assignment one is among its last X steps. With dynamic assignment the number of its steps is not
 * known, and other workers make 1 / speed steps while this one makes one. */
static bool last_meeting(const struct trainer *r)
{
	double steps = r->plan->dynamic ? 2 / r->heterogeneity.speed : 1;
	return (double)r->step + steps * (double)r->w.run->sync_every >=
	       (double)epoch_steps(r, r->w.epoch);
}

/* The worker's i-th step of the epoch, from 0, on the mini-batch that it has taken. */
static void one_step(struct trainer *r, int64_t i, uint64_t *straggle_rng)
{
	struct worker *w = &r->w;
	const struct stats *c = &r->stats;
	nsec began = note_from(r, i < w->run->trace, i + 1), at = began;
	struct speeds *speeds = w->loop->speeds;
	nsec since = r->delayed || speeds ? clock_now() : 0, talked = c->comm + c->wait;
	const nsec before = since - talked;
	const int64_t sent = c->bytes_sent;
	bool done = false;
	w->step++;
	w->lr = r->lr[r->step];
	w->loop->shares += worker_share(w);
	if (w->rows) {
		done = compute(w, !r->delayed);
		w->age += done;
	} else { /* fewer rows than replicas in this step: nothing to add */
		local_begin(w);
		fetch(w);
		layers_needed(w);
		vec_fill(w->grad, 0);
		for (size_t k = w->model->layers; k-- > 0;)
			layer_ready(w, k);
	}
	at = note(r, TRACE_COMPUTE, at);
	if (r->delayed) {
		device_sync(w->loop->dev);
		talked = c->comm + c->wait - talked;
		delay(r, clock_now() - since - talked, straggle_rng);
		at = note(r, TRACE_DELAY, at);
	}
	w->loop->marks = w->loop->consensus && r->ends_with_barrier && last_meeting(r);
	if (!done) {
		if (are_checked(w))
			promise_step(w);
		else
			w->loop->strategy->step(w);
		note(r, TRACE_UPDATE, at);
	}
	note(r, TRACE_STEP, began);
	stats_step(&r->stats, sent);
	if (!speeds)
		return;
	speeds->steps++;
	speeds->busy += clock_now() - c->comm - c->wait - before;
}

/* ---- Barriers, pauses, leaving ------------------------------------------- */

static void wait_at_barrier(struct trainer *r)
{
	struct worker *w = &r->w;
	if (!r->left)
		tables_leave(w->loop->tables, AWAY, true);
	comm_barrier(w->all);
	tables_leave(w->loop->tables, BACK, true);
	if (r->left) /* it waits at the next barrier already */
		tables_leave(w->loop->tables, AWAY, true);
}

/* Time since the segment's start, without the time for which the clock was stopped. */
static nsec segment_time(const struct trainer *r)
{
	return clock_now() - r->start - r->clock_stopped_ns;
}

static nsec training_time(const struct trainer *r)
{
	return r->trained + segment_time(r);
}

/* A worker that leaves waits at a barrier from now on: tables then know that no worker must wait
 * for its pushes. It first finishes its mini-batches. */
static void leave_if_done(struct trainer *r)
{
	if (!deal_stop(r))
		return;
	if (r->w.loop->strategy->flush)
		r->w.loop->strategy->flush(&r->w);
	deal_after_push(r);
	if (!deal_end(r))
		return;
	tables_leave(r->w.loop->tables, AWAY, true);
	r->left = true;
}

/* Before a step: applies --pause and --leave when they are due. */
static void apply_pause_and_leave(struct trainer *r)
{
	struct heterogeneity *u = &r->heterogeneity;
	if (u->pause_at < NEVER && training_time(r) >= u->pause_at) {
		nsec since = clock_now();
		u->pause_at = NEVER;
		world_wait("a pause", u->pause);
		clock_delay(u->pause);
		world_leave();
		r->paused_ns += clock_now() - since;
		note_from(r, true, 0);
		note(r, TRACE_PAUSE, since);
	}
	if (u->leave_at < NEVER && training_time(r) >= u->leave_at) {
		u->leave_at = NEVER;
		r->leaving = true;
	}
}

bool epoch_has_all_durations(const struct trainer *r)
{
	return r->step_s && r->steps_most && r->steps_kept >= r->steps_most;
}

/* In proportion to its rows, as of a whole mini-batch. A step without rows has no duration. */
static void keep_duration(struct trainer *r, nsec *last)
{
	device_sync(r->w.loop->dev);
	nsec now = clock_now();
	double whole = r->w.rows ? (double)timed_rows(r->w.run) / (double)r->w.rows : NAN;
	r->step_s[r->steps_kept++] = (float)(1e-9 * (double)(now - *last) * whole);
	if (r->steps_kept == PILOT) { /* how many fit into the sink's time, on the slowest rank */
		double mean = 1e-9 * (double)(now - r->start) / PILOT;
		link_reduce_all(r->all, &mean, 1, REDUCE_MAX);
		double fit = r->sink->steps_wanted_s / mean;
		r->steps_most = fit < 4 * PILOT ? 4 * PILOT : (size_t)fit;
		now = clock_now();
	}
	*last = now;
}

/* ---- Snapshots ------------------------------------------------------------ */

static void take_snapshot(struct trainer *r, struct snapshot *s)
{
	struct worker *w = &r->w;
	s->epoch = w->epoch;
	s->left = r->left;
	s->share = mean_share(r);
	if (s->param && !r->left) {
		if (ema_model(r))
			vec_copy(s->param, ema_model(r));
		else if (w->loop->strategy->canonical)
			w->loop->strategy->canonical(w, s->param);
		else
			vec_copy(s->param, w->param);
	}
	if (s->buffer)
		vec_copy(s->buffer, w->model->buffer);
}

int64_t epoch_next_point(const struct worker *w, int64_t after)
{
	do
		after += w->run->eval_every;
	while (after % w->steps == 0);
	return after;
}

/* Before step number `step` of the run: copies the model for the points that come before it. The
 * time and the communication of this do not count. */
static void pass_points(struct trainer *r, int64_t step)
{
	struct worker *w = &r->w;
	if (r->points == r->points_max || r->next_point > step)
		return;
	layers_needed(w);
	device_sync(w->loop->dev);
	nsec at = segment_time(r), since = at + r->start + r->clock_stopped_ns;
	struct stats kept = r->stats; /* restored below: evaluation reads do not count */
	r->stats.trace = NULL;
	for (; r->points < r->points_max && r->next_point <= step;
	     r->next_point = epoch_next_point(w, r->next_point)) {
		struct snapshot *s = &r->point[r->points++];
		take_snapshot(r, s);
		s->step = r->next_point;
		s->end = at;
	}
	device_sync(w->loop->dev);
	r->stats = kept;
	r->clock_stopped_ns += clock_now() - since;
}

/* Makes steps until no mini-batch of the epoch is left, or the worker has left. */
static void epoch_take_steps(struct trainer *r, int64_t *i, nsec *last, uint64_t *rng)
{
	const struct worker *w = &r->w;
	bool dynamic = r->plan->dynamic;
	for (; (dynamic || *i < epoch_steps(r, w->epoch)) && !epoch_has_all_durations(r); ++*i) {
		if (!r->left &&
		    (r->heterogeneity.pause_at < NEVER || r->heterogeneity.leave_at < NEVER))
			apply_pause_and_leave(r);
		if (r->leaving && !r->left)
			leave_if_done(r);
		if (r->left || !deal_next(r, *i))
			break;
		nsec clock_stopped_ns = r->clock_stopped_ns;
		pass_points(r, (w->epoch - 1) * w->steps + (int64_t)r->step);
		*last += r->clock_stopped_ns - clock_stopped_ns;
		one_step(r, *i, rng);
		clock_stopped_ns = r->clock_stopped_ns;
		if (ema_is_due(r)) {
			layers_needed(&r->w);
			ema_step(r);
		}
		*last += r->clock_stopped_ns - clock_stopped_ns;
		deal_after_push(r);
		if (r->page)
			r->page->step = (int64_t)r->step + 1;
		if (r->step_s && r->steps_kept < r->steps_room)
			keep_duration(r, last);
	}
}

/* Before a barrier: pushes what was not pushed yet. True: a push was dropped, perhaps another
 * worker's, and this worker has to train on its mini-batches. */
static bool has_dropped_rows(struct trainer *r)
{
	struct worker *w = &r->w;
	if (!tables_drop(w->loop->tables) || !r->plan->dynamic)
		return false;
	if (!r->left) {
		if (w->loop->strategy->flush)
			w->loop->strategy->flush(w);
		deal_after_push(r);
	}
	return !deal_end(r) && !r->left;
}

/* Makes the steps of an epoch; returns their time without pauses. */
static nsec make_steps(struct trainer *r, bool barrier)
{
	struct worker *w = &r->w;
	uint64_t rng = rng_seed(arrival_seed(w->run), RNG_STRAGGLE, w->epoch * w->size + w->rank);
	nsec began = clock_now(), last = began, paused_ns = r->paused_ns,
	     clock_stopped_ns = r->clock_stopped_ns;
	int64_t i = 0;
	r->ends_with_barrier = barrier;
	do
		epoch_take_steps(r, &i, &last, &rng);
	while (barrier && has_dropped_rows(r));
	pass_points(r, (w->epoch - 1) * w->steps + epoch_steps(r, w->epoch) - 1);
	layers_needed(w);
	device_sync(w->loop->dev);
	return clock_now() - began - (r->paused_ns - paused_ns) -
	       (r->clock_stopped_ns - clock_stopped_ns);
}

/* The barrier at the end of an epoch, with what the strategy does before and after it. */
static void end_with_barrier(struct trainer *r)
{
	struct worker *w = &r->w;
	const struct strategy *s = w->loop->strategy;
	if (w->loop->consensus && !w->loop->marked)
		vec_copy(w->loop->consensus, w->param);
	if (s->flush && !r->left)
		s->flush(w);
	deal_after_push(r);
	wait_at_barrier(r);
	if (s->rejoin && !r->left && w->epoch < w->run->epochs)
		s->rejoin(w);
	device_sync(w->loop->dev);
}

/* What the epoch cost: counts and times since `before`, and of the processor since `had`. */
static struct split_row split_since(struct stats *s, struct stats before, const struct usage *had)
{
	struct usage has = usage_now();
	s->preemptions = has.preemptions < 0 ? -1 : has.preemptions - had->preemptions;
	before.preemptions = 0;
	return (struct split_row){
#define COUNTED(name) .name = s->name - before.name,
		SPLIT_COUNTS(COUNTED)
#undef COUNTED
			.comm_s = 1e-9 * (double)(s->comm - before.comm),
		.wait_s = 1e-9 * (double)(s->wait - before.wait),
		.user_s = has.user_s - had->user_s,
		.system_s = has.system_s - had->system_s,
		.run_delay_s = has.run_delay_s - had->run_delay_s,
		.steal_s = has.steal_s - had->steal_s,
		.staleness_max = s->staleness_max,
		.peak_bytes = s->peak_bytes,
	};
}

void epoch_run(struct trainer *r, bool barrier)
{
	struct worker *w = &r->w;
	struct stats *s = &r->stats, before = *s;
	struct epoch_record *record = &r->record[r->records];
	struct usage had = usage_now();
	nsec began = r->records ? r->record[r->records - 1].model.end : 0;
	w->loop->marked = false;
	nsec in_steps = make_steps(r, barrier);
	nsec busy = (s->comm - before.comm) + (s->wait - before.wait);
	note_from(r, barrier, 0);
	w->loop->marks = false;
	if (barrier)
		end_with_barrier(r);
	note_from(r, false, 0);
	nsec now = record->model.end = segment_time(r);
	record->first_joint_op = before.joint_ops;
	record->last_meeting = s->joint_ops;
	record->split = split_since(s, before, &had);
	record->split.seconds = 1e-9 * (double)(now - began);
	record->split.compute_s = 1e-9 * (double)(in_steps - busy);
	s->staleness_max = s->peak_bytes = 0;
	for (int i = 0; i < STALENESS_BINS; i++)
		record->staleness[i] = s->staleness[i] - before.staleness[i];
	tally_take(w, &record->running);
	tally_add(&record->running, &r->account.taken);
	record->values = r->account.values;
	r->account = (struct account){.promises = r->account.promises};
	take_snapshot(r, &record->model);
	r->records++;
}

/* ---- Warm-up ------------------------------------------------------------- */

/* Touches memory, makes the libraries compile their kernels for every size of mini-batch, and opens
 * the connections. The learning rate is 0: the model does not change. */
void epoch_warm_up(struct trainer *r)
{
	enum { TIMES = 3, SIZES = 4 }; /* sizes differ by two rows at most */
	struct worker *w = &r->w;
	struct tally ignored;
	size_t key[SIZES] = {0}, keys = 0;
	w->step = 0; /* layer_ready then does not call the strategy */
	w->lr = 0;
	if (w->model->buffer)
		vec_copy(r->buffer, w->model->buffer);
	for (int64_t i = 0; keys < SIZES && deal_take(r, i); i++) {
		size_t k = 0;
		while (k < keys && key[k] != graph_key(w))
			k++;
		if (k < keys || w->rows == 0)
			continue;
		key[keys++] = graph_key(w);
		for (int n = 0; n < TIMES; n++)
			compute(w, !r->delayed);
	}
	if (w->model->buffer)
		vec_copy(w->model->buffer, r->buffer);
	local_forget(w);
	for (int i = 0; i < TIMES; i++)
		comm_allreduce(w->data_group, w->grad, COMM_MEAN);
	device_sync(w->loop->dev);
	tally_take(w, &ignored);
	stats_reset(&r->stats);
}
