/*
 * model.c - explores all interleavings of three workers from start to end (explore.h):
 *   model [briefly|NAME ...]
 *
 * Real code: a worker's epochs (runtime/train: epoch.c, deal.c), its exchange (strategies:
 * exchange.c), and its tables in shared memory (runtime/table: vectors.c, table.c, shared.c,
 * blocks.c, rounds.c, apply.c, updater.c). Mini-batch j adds 1 to parameter j: W shows how often
 * each has been counted. Tables have several blocks.
 *
 * A death: locks and monitors are not robust, and nothing repairs them. In a run the watcher
 * detects the ended process and ends the other workers (runtime/launch). Until then three
 * properties must hold. The other workers sleep or end; they never loop without progress. They
 * report no other error. An epoch is recorded, after its barrier, only if it is complete.
 * A worker with --leave= may leave before any of its steps; then no worker waits for it.
 */
#include "runtime/config/config.h"
#include "runtime/train/trainer.h"
#include "strategies/exchange.h"
#include "runtime/table/table.h"
#include "tests/model/explore.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const struct scenario {
	const char *name, *what;
	int steps, epochs, sync_every; /* 0: 1 */
	bool segment;                  /* one barrier, after the last epoch */
	bool dynamic, rounds, joins, bounded, records, fine, deaths;
	bool closes; /* tables are closed, too; false: workers end after the last barrier */
	int backup, lead, preemptions;
	int leaves; /* number of workers that may leave: the last ones */
	int slow;   /* number of workers that are too slow for the rest: the last ones */
	bool briefly;
} scenarios[] = {
#include "tests/model/scenarios.def"
};
enum { SCENARIOS = sizeof scenarios / sizeof *scenarios, ROWS_MOST = 32 };

static const struct scenario *now;
static struct trainer *trainer[WORKERS];
static struct run run;
static int32_t order[ROWS_MOST];

/* ---- What workers use ---- */

const int32_t *data_order(size_t n, int64_t seed, int64_t epoch, struct shards *s)
{
	(void)n, (void)seed, (void)epoch, (void)s;
	return order;
}

struct data_split data_split_of(const struct run *r)
{
	(void)r;
	return (struct data_split){.own = false};
}

void worker_report(struct worker *w, const char *name, double value)
{
	(void)w, (void)name, (void)value;
}

static int rows(void)
{
	return now->steps * WORKERS;
}

/* ---- Checked properties ---- */

/* In rounds that wait for all workers, a pull before step s of an epoch has all steps before s, and
 * nothing else. */
static void check_round(const struct worker *w, int64_t step)
{
	for (int j = 0; j < rows(); j++) {
		float due = (float)(w->epoch - 1 + (j / WORKERS < step));
		if (w->param->data[j] != due)
			wrong("worker %d, in epoch %d before step %d, has mini-batch %d %g times",
			      w->rank, (int)w->epoch, (int)step, j, (double)w->param->data[j]);
	}
}

/* With a staleness bound: a worker that has made n pushes sees at least n - lead pushes of each
 * other worker. */
static void check_lead(const struct worker *w)
{
	for (int k = 0; k < WORKERS; k++) {
		float seen = 0;
		for (int j = k; j < rows(); j += WORKERS)
			seen += w->param->data[j];
		if (seen < (float)(w->step - 1 - now->lead))
			wrong("worker %d has made %d pushes and sees %g of worker %d", w->rank,
			      (int)w->step - 1, (double)seen, k);
	}
}

static void gradient(struct worker *w)
{
	struct trainer *r = trainer[w->rank];
	if (w->step != 1 && now->rounds && !now->backup && !now->dynamic)
		check_round(w, (int64_t)r->step);
	if (now->bounded && !now->dynamic && now->epochs == 1)
		check_lead(w);
	vec_fill(w->grad, 0);
	for (size_t i = 0; i < w->rows; i++)
		w->grad->data[w->index[i]] = -1; /* with a learning rate of 1 */
}

/* The model that is recorded. Where rows of a dropped push are not assigned again, they are lost
 * and counted as lost. */
static void check_epoch(const struct worker *w, const struct vec *model)
{
	int64_t lost = 0;
	float all = 0;
	for (int k = 0; !now->dynamic && k < WORKERS; k++)
		lost += trainer[k]->stats.dropped * run.sync_every;
	for (int j = 0; j < rows(); j++) {
		float times = model->data[j];
		all += times;
		if (times > (float)w->epoch || (times < (float)w->epoch && !lost))
			wrong("after epoch %d mini-batch %d has been counted %g times",
			      (int)w->epoch, j, (double)times);
	}
	if (!now->leaves && all + (float)lost < (float)(rows() * w->epoch))
		wrong("after epoch %d mini-batches were counted %g times, and %d dropped",
		      (int)w->epoch, (double)all, (int)lost);
}

/* Each operation number is in the recording once. */
static void check_record(void)
{
	int64_t seen[2] = {0};
	for (int k = 0; k < WORKERS; k++) {
		struct tables *s = trainer[k]->w.loop->tables;
		for (size_t i = 0; i < s->arrivals; i++) {
			int64_t bit = INT64_C(1) << s->arrival[i].seq,
				*of = &seen[s->arrival[i].table];
			if (*of & bit)
				wrong("operation %d is recorded twice", (int)s->arrival[i].seq);
			*of |= bit;
		}
	}
	for (int t = 0; t < 2; t++)
		if (seen[t] & (seen[t] + 1))
			wrong("an operation is missing in the recording");
}

/* ---- A worker ---- */

int model_slow(const struct trainer *r);
int model_slow(const struct trainer *r)
{
	return r->w.rank >= WORKERS - now->slow;
}

static const struct device_ops device = {.name = "model", .host = true};
static struct table_terms terms(const struct run *of, const void *opts)
{
	struct table_terms t = exchange_terms(of, opts);
	t.rounds = now->rounds;
	t.backup = now->backup;
	t.joins = now->joins;
	t.bounded = now->bounded;
	t.lead = now->lead;
	return t;
}

static const struct strategy strategy = {.terms = terms,
					 .step = exchange_step,
					 .flush = exchange_flush,
					 .rejoin = exchange_rejoin,
					 .canonical = exchange_canonical};
static void load(struct worker *w)
{
	(void)w;
}
static const struct workload workload = {.load = load, .gradient = gradient};
static const struct updater_opts opts = {.updater = "add"};
static const struct optimizer optimizer = {.plain = true};

static struct trainer *trainer_new(void)
{
	struct trainer *r = trainer[me()] = own_alloc(sizeof *r);
	struct plan *plan = own_alloc(sizeof *plan);
	struct worker *w = &r->w;
	plan->dynamic = now->dynamic;
	r->plan = plan;
	r->dev.ops = &device;
	r->train.n = (size_t)rows();
	r->replica = me();
	r->replicas = WORKERS;
	r->heterogeneity = (struct heterogeneity){.speed = 1, .pause_at = NEVER, .leave_at = NEVER};
	if (me() >= WORKERS - now->leaves)
		r->heterogeneity.leave_at = 1;
	r->records_max = now->segment ? now->epochs : 1;
	r->record = own_alloc((size_t)r->records_max * sizeof *r->record);
	r->order = own_alloc((size_t)rows() * sizeof *r->order);
	r->step_first = own_alloc((size_t)(now->steps + 1) * sizeof *r->step_first);
	r->lr = own_alloc((size_t)now->steps * sizeof *r->lr);
	*w = (struct worker){.rank = me(),
			     .size = WORKERS,
			     .trainers = WORKERS,
			     .run = &run,
			     .optimizer = &optimizer,
			     .opts = &opts,
			     .state = own_alloc(sizeof(struct exchange)),
			     .steps = now->steps,
			     .weight = 1,
			     .model = &r->loop.model,
			     .loop = &r->loop};
	r->loop = (struct loop){.dev = &r->dev,
				.stats = &r->stats,
				.strategy = &strategy,
				.model = {.workload = &workload}};
	w->param = vec_new(w, (size_t)rows());
	w->grad = vec_new(w, (size_t)rows());
	return r;
}

/* As in train.c. */
static void run_worker(void)
{
	struct trainer *r = trainer_new();
	struct worker *w = &r->w;
	struct vec *model = vec_new(w, (size_t)rows());
	if (tables_open(&w->loop->tables, NULL, NULL, me(), WORKERS, 0, "shared", &r->stats, NULL))
		wrong("no tables can be opened");
	if (now->records)
		tables_record(w->loop->tables, 60);
	exchange_init(w);
	deal_open(r);
	begin_here();
	for (w->epoch = 1; w->epoch <= now->epochs; w->epoch++) {
		bool barrier = w->epoch == now->epochs || !now->segment;
		deal_epoch(r, w->epoch);
		epoch_run(r, barrier);
		if (!barrier)
			continue;
		if (w->epoch == now->epochs) { /* unused values must not make states */
			vec_fill(w->param, 0);
			struct table *t = ((struct exchange *)w->state)->table;
			memset(t->pulled, 0, t->n * sizeof *t->pulled);
			t->seen = 0;
			if (w->rank > 0 && !now->closes)
				return;
		}
		exchange_canonical(w, model);
		check_epoch(w, model);
		if (now->records && me() == 0)
			check_record();
		if (w->epoch == now->epochs && !now->closes)
			return;
		pass_barrier("has evaluated");
		r->records = 0;
	}
	exchange_fini(w);
	deal_close(r);
	tables_close(w->loop->tables);
}

static int64_t *time_to_leave(int k)
{
	return trainer[k]->heterogeneity.leave_at == 1 ? &trainer[k]->trained : NULL;
}

/* ---- The program ---- */

static double seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int explore_one(const struct scenario *s)
{
	double began = seconds();
	now = s;
	run = (struct run){.sync_every = s->sync_every ? s->sync_every : 1,
			   .epochs = s->epochs,
			   .batch = 1,
			   .accumulate = 1,
			   .reduce = "sum",
			   .codec = "none",
			   .codec_pull = "false",
			   .sim_update_time = "auto"};
	for (int j = 0; j < ROWS_MOST; j++)
		order[j] = j;
	struct explored found = explore(&(struct exploration){.worker = run_worker,
							      .tick = time_to_leave,
							      .deaths = s->deaths,
							      .fine = s->fine,
							      .preemptions = s->preemptions});
	printf("%-12s %9llu states %10llu steps %7llu ends %8llu dead ends %5zu longest %6.1f s  "
	       "%s\n",
	       s->name, (unsigned long long)found.states, (unsigned long long)found.steps,
	       (unsigned long long)found.ends, (unsigned long long)found.dead_ends, found.longest,
	       seconds() - began, s->what);
	fflush(stdout);
	return 0;
}

static bool is_wanted(const struct scenario *s, bool briefly, int argc, char **argv)
{
	bool wanted = argc < 2 || (briefly && s->briefly);
	for (int i = 1; i < argc; i++)
		wanted |= strcmp(argv[i], s->name) == 0;
	return wanted;
}

/* Each scenario runs in a process of its own, with zeroed memory. */
int main(int argc, char **argv)
{
	bool briefly = argc > 1 && strcmp(argv[1], "briefly") == 0;
	int bad = 0, explored = 0;
	for (size_t i = 0; i < SCENARIOS; i++) {
		struct scenario s = scenarios[i];
		int status = 0;
		if (!is_wanted(&s, briefly, argc, argv))
			continue;
		if (briefly && s.preemptions > 2)
			s.preemptions = 2;
		explored++;
		fflush(stdout);
		pid_t child = fork();
		if (child == 0)
			_exit(explore_one(&s));
		if (child < 0 || waitpid(child, &status, 0) != child || status)
			printf("%s: failed\n", s.name);
		bad |= child < 0 || status != 0;
	}
	if (!explored)
		printf("no such scenario: %s\n", argv[1]);
	return bad || !explored;
}
