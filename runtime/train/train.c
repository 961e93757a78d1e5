/*
 * train.c - runs a worker from start to end: set-up, segments, and the end.
 *
 * A segment is the epochs from one barrier to the next (epoch.c). Between segments models are
 * evaluated (evaluate.c), and the workers' results are gathered (gather.c). With a barrier after
 * every epoch (--barrier-every=1) each epoch is a segment. A worker that has left (--leave) waits;
 * the weights of the other workers' contributions do not change.
 */
#include "runtime/config/config.h"
#include "runtime/config/heterogeneity.h"
#include "runtime/config/machine.h"
#include "runtime/train/trainer.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- Ending early -------------------------------------------------------- */

/* end_with_user_error gets only a message; from this it ends all ranks in good order. If all
 * workers share this process, it has the fields that are the same for all. */
static const struct trainer *ending;

static void end_with_user_error(const char *text)
{
	if (ending->page)
		status_end(ending->page, EXIT_USER, text);
	else if (ending->w.rank == 0) /* it prints the message for all */
		fprintf(stderr, "mvbench: %s\n", text);
	if (ending->serves)
		servers_dismiss(ending->everyone, ending->w.trainers);
	if (!world_is_virtual)
		platform_stop();
	world_exit(ending->launched ? EXIT_OK : EXIT_USER);
}

/* ---- Set-up, training, the end ------------------------------------------- */

static void set_up_comms(struct trainer *r)
{
	struct worker *w = &r->w;
	int share = config_model_workers(r->config);
	r->replicas = w->trainers / share;
	r->replica = w->rank / share;
	w->model_group = comm_divide(w->all, r->replica);
	w->data_group = comm_divide(w->all, w->rank % share);
	w->weight = strcmp(w->run->reduce, "sum") == 0 ? 1 : 1.0 / r->replicas;
}

static struct comm *coded_of(struct worker *w, const struct vec *v, const struct tensor *tensor,
			     size_t tensors)
{
	void *kept;
	size_t bytes;
	struct comm *coded = comm_coded(w, w->data_group, v, tensor, tensors);
	/* what pairs know is as long as a model for each worker */
	int pairs = w->loop->saves ? comm_size(coded) : 0;
	for (int i = 0; i < 3 + pairs; i++)
		if ((kept = comm_kept(coded, i, &bytes)))
			worker_keep(w, kept, bytes);
	worker_keep_vec(w, comm_kept_there(coded));
	return coded;
}

struct comm *worker_coded(struct worker *w, const struct vec *v, const struct tensor *tensor,
			  size_t tensors)
{
	struct comm *coded = coded_of(w, v, tensor, tensors);
	if (coded == w->data_group) /* a coded one has its memory */
		comm_prepare_sums(coded, v);
	return coded;
}

static void find_cluster(struct trainer *r)
{
	if (world_is_virtual)
		return;
	char *wrong = cluster_find(r->everyone ? r->everyone : r->all, r->w.trainers, r->w.run,
				   r->plan, &r->cluster);
	if (wrong)
		user_error("%s", wrong);
}

/* Ranks that the user's own launcher started may have different options. */
static void agree_on_options(struct trainer *r)
{
	char hex[17];
	config_hash(r->config, hex);
	double hash = (double)(strtoull(hex, NULL, 16) >> 12), most[] = {hash, -hash};
	link_reduce_all(r->all, most, 2, REDUCE_MAX);
	if (most[0] != -most[1])
		user_error(
			"the processes were started with different options: give all of them the "
			"same");
}

/* Operations that a segment's epochs may record on each shard: for each step a draw of
 * mini-batches, a push, a pull and the end of a round; a pull after a barrier. */
static size_t arrivals_expected(const struct trainer *r)
{
	int64_t shards = r->w.run->servers > 0 ? r->w.run->servers : 1;
	return (size_t)(4 * (deal_most(r) + 2) * r->records_max * shards);
}

static char *open_tables(struct trainer *r)
{
	struct worker *w = &r->w;
	const struct run *run = w->run;
	const struct recording *replay = r->replay;
	TRY(plan_tables(r->config, link_one_node(r->all)));
	char *wrong AUTOFREE = tables_open(
		&w->loop->tables, r->everyone ? r->everyone : r->all, r->all, w->rank, w->trainers,
		(int)run->servers, replay ? "auto" : run->table_home, w->loop->stats, w->loop->dev);
	if (wrong)
		return sentence("--table-home=%s: %s", run->table_home, wrong);
	if (replay)
		tables_replay(w->loop->tables, replay);
	if (!run->record && !replay)
		return NULL;
	tables_record(w->loop->tables, arrivals_expected(r));
	return NULL;
}

/* Synchronisations of a segment: a few in each step. At most as many as a float can count exactly,
 * because two workers exchange their numbers as floats. */
static size_t meetings_expected(const struct trainer *r)
{
	enum { A_STEP = 8, LEAST = 1 << 12, MOST = 1 << 24 };
	size_t n = (size_t)(r->plan->steps * r->records_max) * A_STEP;
	return n < LEAST ? LEAST : n > MOST ? MOST : n;
}

static void open_device(struct trainer *r)
{
	r->dev.ops = device_find(r->plan->device);
	world_device(&r->w);
	CHECK(r->dev.ops, "no device %s", r->plan->device);
	r->dev.precision = r->w.run->precision;
	r->dev.number = rank_on_node();
	r->dev.ops->open(&r->dev, (int)r->w.run->threads);
}

static struct snapshot snapshot_new(struct worker *w)
{
	return (struct snapshot){.param = vec_new(w, vec_len(w->param)),
				 .buffer = w->model->buffer ? vec_new(w, vec_len(w->model->buffer))
							    : NULL};
}

static void snapshot_free(struct snapshot *s)
{
	vec_free(s->param);
	vec_free(s->buffer);
}

/* Snapshots of the ends of epochs without a barrier, and of the points between them. */
static void make_snapshots(struct trainer *r)
{
	struct worker *w = &r->w;
	bool each_ends_with_barrier = w->run->barrier_every == 1;
	r->record = must(calloc((size_t)r->records_max, sizeof *r->record));
	for (int64_t i = 0; !each_ends_with_barrier && i < r->records_max; i++)
		r->record[i].model = snapshot_new(w);
	r->points_max = plan_points(w->run, w->steps);
	r->point = must(calloc((size_t)r->points_max + 1, sizeof *r->point));
	for (int64_t i = 0; i < r->points_max; i++)
		r->point[i] = snapshot_new(w);
	if (r->points_max) { /* without those of the epochs before a resumed run's first */
		int64_t before = r->head.epoch * w->steps;
		r->next_point = epoch_next_point(w, before - before % w->run->eval_every);
	}
	ema_open(r);
	if (!each_ends_with_barrier || r->points_max || r->averaged ||
	    w->loop->strategy->canonical || w->loop->strategy->average)
		r->saved = vec_new(w, vec_len(w->param));
}

/* Allocates what epochs need, because they may not allocate. */
static void make_room(struct trainer *r)
{
	struct worker *w = &r->w;
	size_t n = r->train.n, steps = (size_t)w->steps;
	bool judged = has_floats(w->run);
	r->order = must(malloc((n / (size_t)r->replicas + steps + 1) * sizeof(int32_t)));
	r->step_first = must(malloc((steps + 1) * sizeof(size_t)));
	r->lr = must(malloc(steps * sizeof(float)));
	r->test_rows = data_sample(r->test.n, judged ? r->test.n : 0);
	r->validation_rows = data_sample(r->validation.n, judged ? r->validation.n : 0);
	r->train_rows = data_sample(r->train.n, judged ? TRAIN_ROWS_EVALUATED : 0);
	if (w->rank == 0)
		r->ranks = must(calloc((size_t)w->size, sizeof *r->ranks));
	r->steps_room = (size_t)(w->steps * w->run->epochs);
	if (r->sink->steps_wanted_s > 0)
		r->step_s = must(calloc(r->steps_room, sizeof *r->step_s));
	make_snapshots(r);
}

static void train_set_up(struct trainer *r)
{
	struct worker *w = &r->w;
	const struct run *run = w->run;
	r->heterogeneity = heterogeneity_of(run, w->rank);
	r->delayed = run->straggle > 0 || run->step_time > 0 || r->heterogeneity.speed < 1;
	stats_init(&r->stats, meetings_expected(r));
	set_up_comms(r);
	agree_on_options(r);
	if (r->page)
		r->page->state = STATUS_LOADING;
	open_device(r);
	trainers_agree(r, data_open(r));
	const struct data *const data[] = {&r->train, &r->validation, &r->test};
	if (r->cluster.hosts > 1)
		trainers_agree(r, cluster_check_data(r->all, data, 3));
	w->train = &r->train;
	w->test = &r->test;
	w->steps = r->plan->steps;

	model_open(w, &r->train);
	checkpoint_begin(r);
	if (w->model->buffer)
		r->buffer = vec_new(w, vec_len(w->model->buffer));
	if (w->model->buffer && strcmp(run->norm_statistics, "recompute") == 0)
		r->statistics = vec_new(w, vec_len(w->model->buffer));
	w->coded = coded_of(w, w->param, w->model->tensor, w->model->tensors);
	comm_prepare(w->data_group, w->param);
	comm_prepare(w->model_group, w->param);
	if (w->loop->strategy->terms)
		trainers_agree(r, open_tables(r));
	w->state = must(calloc(1, w->loop->strategy->state_size + 1));
	if (w->loop->strategy->init)
		w->loop->strategy->init(w);
	if (r->replicas > 1 && (w->loop->strategy->canonical || w->loop->strategy->average) &&
	    vec_has_data(w->param))
		w->loop->consensus = vec_new(w, vec_len(w->param));
	promises_open(r);
	deal_open(r);
	make_room(r);
}

static void tear_down(struct trainer *r)
{
	struct worker *w = &r->w;
	if (w->loop->strategy->fini)
		w->loop->strategy->fini(w);
	promises_close(r);
	deal_close(r);
	speeds_free(r->loop.speeds);
	tables_close(w->loop->tables);
	r->serves = false;
	for (int64_t i = 0; i < r->records_max; i++)
		snapshot_free(&r->record[i].model);
	for (int64_t i = 0; i < r->points_max; i++)
		snapshot_free(&r->point[i]);
	checkpoint_close(r);
	vec_free(r->saved);
	vec_free(r->averaged);
	vec_free(w->loop->consensus);
	vec_free(r->buffer);
	vec_free(r->statistics);
	model_close(w);
	data_close(w->run);
	comm_free(w->model_group);
	if (w->coded != w->data_group)
		comm_free(w->coded);
	comm_free(w->data_group);
	comm_free(w->all); /* before the device: they may hold its memory */
	world_wait("its device", 0);
	r->dev.ops->close(&r->dev);
	world_leave();
	stats_fini(&r->stats);
	trace_free(r->trace);
	free(w->state);
	free(r->order);
	free(r->step_first);
	free(r->lr);
	free(r->test_rows.index);
	free(r->validation_rows.index);
	free(r->train_rows.index);
	free(r->ranks);
	free(r->step_s);
	free(r->record);
	free(r->point);
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
			       .table_home = r->w.loop->tables && r->w.loop->tables->count
						     ? r->w.loop->tables->placement->name
						     : NULL,
			       .transport = comm_transport(r->w.data_group),
			       .cluster = world_is_virtual ? NULL : &r->cluster,
			       .checkpoint = *r->config->harness.save ? r->head.run : NULL,
			       .resumes = r->resumes,
			       .epoch = r->head.epoch};
	char *error = r->sink->begin ? r->sink->begin(r->sink->self, &e, &id) : NULL;
	if (!error)
		error = deal_record(r);
	if (r->page) {
		struct text t;
		world_describe(text_open(&t));
		char *text AUTOFREE = text_close(&t);
		snprintf(r->page->described, sizeof r->page->described, "%s", text);
		r->page->id = id;
		r->page->steps = r->w.steps;
	}
	return error;
}

static void train_epochs(struct trainer *r)
{
	struct worker *w = &r->w;
	const struct run *run = w->run;
	struct epoch_record untrained = {.model = {.epoch = 0}};
	int64_t first = r->head.epoch + 1; /* 1, unless the run resumes */
	if (!r->resumes)
		trainer_evaluate(r, &untrained, 1);
	deal_epoch(r, first < run->epochs ? first : run->epochs);
	if (!world_is_virtual) {
		epoch_warm_up(r);
		usage_open((int)run->threads);
	}
	checkpoint_resume(r);
	for (w->epoch = first; w->epoch <= run->epochs && !r->status && !epoch_has_all_durations(r);
	     w->epoch++) {
		bool barrier = w->epoch == run->epochs ||
			       (run->barrier_every && w->epoch % run->barrier_every == 0);
		if (w->epoch > first)
			deal_epoch(r, w->epoch);
		if (r->page) {
			r->page->epoch = w->epoch;
			r->page->steps = epoch_steps(r, w->epoch);
			r->page->step = 0;
			r->page->state = STATUS_TRAINING;
		}
		if (r->records == 0) {
			world_off_clock(false);
			link_barrier(r->all);
			r->start = clock_now();
			r->clock_stopped_ns = 0;
		}
		epoch_run(r, barrier);
		if (barrier) {
			world_off_clock(true);
			r->trained += r->record[r->records - 1].model.end;
			promises_at_barrier(r);
			trainer_evaluate(r, r->record, r->records);
			r->records = 0;
			checkpoint_save(r);
		}
	}
}

/* Runs a server from start to end. */
static void serve(struct trainer *r)
{
	pulse_phase(PHASE_WORKS);
	const struct config *c = r->config;
	const struct coder coder[WAYS] = {{c->codec, c->codec_opts},
					  {c->codec_pull, c->codec_pull_opts}};
	tables_serve(r->everyone, r->w.rank, r->w.trainers, r->replay, r->trace, coder);
	trace_free(r->trace);
	comm_free(r->w.all);
}

/* Upper bound of the events of one segment: a few in each step, with room for reductions in many
 * parts. A server has an event for each worker's operation. */
static size_t events_expected(const struct trainer *r)
{
	enum { A_STEP = 32, AN_EPOCH = 64 };
	int64_t kept = r->w.run->trace, steps = kept < r->plan->steps ? kept : r->plan->steps;
	size_t room = (size_t)((steps * A_STEP + AN_EPOCH) * r->records_max);
	return r->w.rank < r->w.trainers ? room : room / 4 * (size_t)r->w.trainers;
}

/* Collective: gives the sink the final results, and how the run has ended. */
static void close_sink(struct trainer *r)
{
	static const char *const name[] = {
		[EXIT_OK] = "done", [EXIT_FAILED] = "failed", [EXIT_DIVERGED] = "diverged"};
	const struct sink *sink = r->sink;
	const struct vec *param = r->w.param;
	struct closing closing = {.cost = world_cost()};
	model_place(r, NULL);
	if (r->w.rank == 0 && vec_has_data(param)) {
		float *x AUTOFREE = must(malloc((vec_len(param) + 1) * sizeof *x));
		vec_get(param, x);
		snprintf(closing.model_hash, sizeof closing.model_hash, "%016llx",
			 (unsigned long long)hash_of(HASH_START, x, vec_len(param) * sizeof *x));
	}
	if (sink->model)
		sink->model(sink->self, &r->w, r->step_s, r->steps_kept);
	model_take_back(r, NULL);
	TO_SINK(r, true, end, name[r->status], r->status ? r->reason : NULL, &closing);
	if (r->page) {
		r->page->simulated = world_is_virtual;
		r->page->cost = closing.cost;
		status_end(r->page, r->status, r->reason);
	}
}

/* Rank 0, at the end: has the replay repeated the whole recording? NULL or a message. */
static char *look_for_rest(const struct trainer *r)
{
	if (!r->replay || r->status == EXIT_FAILED || r->arrived == r->replay->n)
		return NULL;
	return sentence(
		"the recording of run %lld has %zu operations, and this run made %zu; was it "
		"changed since it was made?",
		(long long)r->replay->run, r->replay->n, r->arrived);
}

static void lead_trainer(struct trainer *r)
{
	train_set_up(r);
	trainers_agree(r, r->w.rank == 0 ? begin_sink(r) : NULL);
	pulse_phase(PHASE_WORKS);
	train_epochs(r);
	trainer_share_status(r, r->w.rank == 0 ? look_for_rest(r) : NULL);
	close_sink(r);
	checkpoint_end(r);
	tear_down(r);
}

/* Trains nothing: can the workers start here? */
static void try_start(struct trainer *r)
{
	bool trains = r->w.rank < r->w.trainers;
	trainers_agree(r, trains ? plan_tables(r->config, link_one_node(r->all)) : NULL);
}

/* given: the fields that are the same for all workers. */
static int worker_main(void *given)
{
	struct trainer *r AUTOFREE = must(malloc(sizeof *r));
	*r = *(const struct trainer *)given;
	const struct config *c = r->config;
	const struct run *run = &c->run;
	r->replay = r->plan->simulation ? r->plan->simulation->replay : NULL;
	r->records_max = plan_segment_epochs(run);
	r->w = (struct worker){.run = run,
			       .opts = c->strategy_opts,
			       .optimizer = c->optimizer,
			       .optimizer_opts = c->optimizer_opts,
			       .codec = c->codec,
			       .codec_opts = c->codec_opts,
			       .codec_pull = c->codec_pull,
			       .codec_pull_opts = c->codec_pull_opts,
			       .model = &r->loop.model,
			       .loop = &r->loop};
	r->loop = (struct loop){.dev = &r->dev,
				.stats = &r->stats,
				.strategy = c->strategy,
				.layer_ready = layer_ready,
				.wants_layers = wants_layers,
				.metric = evaluation_metric,
				.model = {.workload = c->workload, .opts = c->workload_opts},
				.account = &r->account};
	cpu_flush_denormals();
	platform_start(&r->w);
	pulse_phase(PHASE_LOADS);
	world_off_clock(true);
	if (r->w.rank != 0)
		r->page = NULL;
	if (!world_is_virtual)
		ending = r;
	r->everyone = run->servers > 0 ? link_world(r->w.size) : NULL;
	r->w.all = comm_world_trainers(&r->w, r->config->harness.transport);
	r->all = comm_link(r->w.all);
	find_cluster(r);
	if (!r->launched && !world_is_virtual)
		r->lookout = link_lookout(r->everyone ? r->everyone : r->all, r->w.trainers, false);
	r->serves = r->everyone != NULL;
	if (run->trace)
		r->trace = trace_new(r->everyone ? r->everyone : r->all, r->w.rank, r->w.size,
				     events_expected(r));
	if (!r->sink)
		try_start(r);
	else if (r->w.rank >= r->w.trainers)
		serve(r);
	else
		lead_trainer(r);
	int status = r->status;
	cluster_free(&r->cluster);
	lookout_close(r->lookout);
	link_free(r->everyone);
	platform_stop();
	return status;
}

static int start(const struct trainer *given)
{
	ending = given;
	user_error_handler(end_with_user_error);
	if (!given->launched && !world_is_virtual)
		lookout_limits(given->config->harness.stall_timeout, "--stall-timeout");
	int status = world_run(given->config, given->plan, worker_main, (void *)(uintptr_t)given);
	user_error_handler(NULL); /* the trainer is freed */
	return status;
}

int train(const struct config *c, const struct plan *plan, const struct sink *sink,
	  struct status_page *page)
{
	return start(&(struct trainer){
		.config = c, .plan = plan, .sink = sink, .page = page, .launched = page != NULL});
}

int train_try(const struct config *c, const struct plan *plan)
{
	return start(&(struct trainer){.config = c, .plan = plan});
}
