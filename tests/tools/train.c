/*
 * train.c - trains as `mvbench run` would, under mpirun or alone, and prints what the tests check:
 *   train MODEL-FILE [--option=value ...] [+ [--option=value ...]]...
 * After each + it trains again with the same ranks, because starting ranks takes longer than the
 * training here. sim_train is the same program on the simulated platform, with all workers in one
 * process; it trains once.
 *
 * Rank 0 writes the final whole model (float32; linear layers in order, W[O x I] then b[O]; of the
 * k-th + into MODEL-FILE.k) and prints
 *   epoch E bytes COUNTED formula EXPECTED train TRAIN-LOSS test TEST-LOSS staleness SUM/PUSHES
 *         most MAX
 *   reported E NAME MEAN COUNT
 *   status STATUS REASON
 *   spread X        the largest difference between two ranks' parameters (replicas only)
 *   allocations N   that our code made from the first step of a segment to its last, on all ranks
 *   computed S      seconds, of the last epoch
 *   communicated S  likewise
 *   spent KIND S    seconds of virtual time of this kind, of all workers together
 *   rows R sum S    of the last epoch: rows that all models took, and the sum of their numbers
 *   asked L         mean over rows of the losses that worker_loss returned in the last epoch
 */
#include "results/run/run.h"
#include "runtime/comm/comm.h"
#include "runtime/config/config.h"
#include "runtime/train/train.h"

#include <math.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

/* ---- Counting allocations: the linker sends our objects' calls here. ----- */

static long allocations;

void *__real_malloc(size_t n);
void *__real_calloc(size_t k, size_t n);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t a, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t k, size_t n);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t a, size_t n);

void *__wrap_malloc(size_t n)
{
	allocations++;
	return __real_malloc(n);
}

void *__wrap_calloc(size_t k, size_t n)
{
	allocations++;
	return __real_calloc(k, n);
}

void *__wrap_realloc(void *p, size_t n)
{
	allocations++;
	return __real_realloc(p, n);
}

void *__wrap_aligned_alloc(size_t a, size_t n)
{
	allocations++;
	return __real_aligned_alloc(a, n);
}

/* ---- A strategy that calls the real one and reads the counter after every step. ----- */

static const struct strategy *real;

enum { SEEN_MOST = 512 };
static struct seen {
	long at_last_step, between_steps;
	double formula; /* bytes of one epoch of this trainer, by the strategy's own formula */
	double rows, numbers;
	int64_t epoch;   /* of the last step */
	int64_t fetched; /* the last fetch was before this step, with these rows */
	size_t fetched_rows;
	const int32_t *fetched_index;
	struct vec *own, *all;
	double loss, asked_rows, rows_since; /* of the epoch: as asked for, and since then */
} seen_by[SEEN_MOST];                        /* the trainers, by rank */

static struct seen *seen_of(const struct worker *w)
{
	CHECK(w->rank < SEEN_MOST, "rank %d of at most %d", w->rank, SEEN_MOST);
	return &seen_by[w->rank];
}

/* Host work of a plug-in: MVBENCH_HOST_PASSES loops over the gradient, which it reports. */
static void host_work(struct worker *w)
{
	static float *scratch; /* shared by simulated workers: they run one at a time */
	const char *passes = getenv("MVBENCH_HOST_PASSES");
	size_t n = vec_len(w->grad);
	if (!passes)
		return;
	if (!scratch)
		scratch = must(__real_calloc(2 * n, sizeof *scratch));
	float *restrict x = scratch, *restrict left = scratch + n;
	vec_get(w->grad, x);
	for (int k = atoi(passes); k > 0; k--) {
		for (size_t i = 0; i < n; i++) {
			float sum = left[i] + x[i];
			left[i] = sum - (sum > 0 ? 1e-3f : -1e-3f);
		}
		worker_charge(w, (double)n);
	}
	vec_put(w->grad, x);
}

/* The segment of an epoch, from 0: a segment is the epochs between two barriers. Models are
 * evaluated between segments. With dynamic assignment a worker makes any number of steps in one. */
static int64_t segment_of(const struct worker *w, int64_t epoch)
{
	int64_t epochs = w->run->barrier_every ? w->run->barrier_every : w->run->epochs;
	return epoch ? (epoch - 1) / epochs : -1;
}

/* ---- MVBENCH_PROBE=NAME: a plug-in that checks what the loop gives it. ------ */

static bool probes(const char *name)
{
	const char *probe = getenv("MVBENCH_PROBE");
	return probe && strcmp(probe, name) == 0;
}

/* ahead: heavy-ball momentum with gradients at p - lr m v, which makes it Nesterov's method. That
 * point is evaluated, too. */
static void look_ahead(struct worker *w, struct vec *p, float times)
{
	vec_axpy(p, (float)(-times * w->lr * w->run->momentum), w->moment[0]);
}

static void ahead_fetch(struct worker *w)
{
	struct seen *seen = seen_of(w);
	CHECK(w->step == seen->fetched + 1, "fetch before step %lld, after that before %lld",
	      (long long)w->step, (long long)seen->fetched);
	seen->fetched = w->step;
	seen->fetched_rows = w->rows;
	seen->fetched_index = w->index;
	look_ahead(w, w->param, 1);
}

static void ahead_canonical(struct worker *w, struct vec *model)
{
	if (model != w->param)
		vec_copy(model, w->param);
	look_ahead(w, model, 1);
}

/* loss: calls worker_loss in each step; odd ranks call it in each third step and the last of an
 * epoch. The mean over the rows is the epoch's loss. */
static void ask_for_loss(struct worker *w)
{
	struct seen *seen = seen_of(w);
	if (w->epoch != seen->epoch)
		seen->loss = seen->asked_rows = seen->rows_since = 0;
	seen->rows_since += (double)w->rows;
	if (w->rank % 2 && w->step % 3 && w->step % w->steps)
		return;
	double loss = worker_loss(w);
	CHECK(isfinite(loss) == (seen->rows_since > 0 && vec_has_data(w->param)),
	      "a loss of %g, of %g rows", loss, seen->rows_since);
	CHECK(isnan(worker_loss(w)), "a loss of no rows");
	if (isnan(loss))
		return;
	seen->loss += loss * seen->rows_since;
	seen->asked_rows += seen->rows_since;
	seen->rows_since = 0;
}

/* report: in epoch 1 each step reports the rank, and every fifth step of rank 0 reports 0.5. In
 * epoch 2 only the last rank reports, once, under its own name. */
static void report(struct worker *w)
{
	char name[32];
	worker_report(w, "nothing", NAN);
	if (w->epoch == 1)
		worker_report(w, "rank", w->rank);
	if (w->epoch == 1 && w->rank == 0 && w->step % 5 == 0)
		worker_report(w, "half", 0.5);
	snprintf(name, sizeof name, "worker_%d", w->rank);
	if (w->epoch == 2 && w->rank == w->trainers - 1 && w->step % w->steps == 0)
		worker_report(w, name, -1);
}

/* kinds, gather, gather_equal: in each step reductions of each kind, or a gather. */
enum { NUMBERS = 64 };

static void probe_init(struct worker *w)
{
	struct seen *seen = seen_of(w);
	if (real->init)
		real->init(w);
	seen->own = vec_new(w, NUMBERS);
	seen->all = vec_new(w, NUMBERS * (size_t)w->trainers);
}

static void probe_fini(struct worker *w)
{
	if (real->fini)
		real->fini(w);
	vec_free(seen_of(w)->own);
	vec_free(seen_of(w)->all);
}

static void reduce_kinds(struct worker *w)
{
	struct vec *v = seen_of(w)->own;
	const int n = w->trainers, ranks = n * (n - 1) / 2;
	union {
		float x[NUMBERS];
		int32_t i[NUMBERS];
		int8_t c[4 * NUMBERS];
	} h;
	for (int i = 0; i < NUMBERS; i++)
		h.x[i] = (float)((w->rank + i) % n) - 1.5f;
	vec_put(v, h.x);
	comm_allreduce(w->all, v, COMM_MAX);
	vec_get(v, h.x);
	for (int i = 0; i < NUMBERS; i++)
		CHECK(h.x[i] == (float)n - 2.5f, "the largest is %g", (double)h.x[i]);
	for (int i = 0; i < NUMBERS; i++)
		h.i[i] = (w->rank - 1) * (1 + i * 1000003);
	vec_put(v, h.x);
	comm_allreduce(w->all, v, COMM_SUM_INT32);
	vec_get(v, h.x);
	for (int i = 0; i < NUMBERS; i++)
		CHECK(h.i[i] == (ranks - n) * (1 + i * 1000003), "a sum of %d", h.i[i]);
	for (int i = 0; i < 4 * NUMBERS; i++)
		h.c[i] = (int8_t)((w->rank + i) % 2 ? 1 : -1);
	vec_put(v, h.x);
	comm_allreduce(w->all, v, COMM_SUM_INT8);
	vec_get(v, h.x);
	for (int i = 0; i < 4 * NUMBERS; i++)
		CHECK(h.c[i] == (n % 2 ? (i % 2 ? 1 : -1) : 0), "a vote of %d", h.c[i]);
}

static void gather_all(struct worker *w, bool equal)
{
	struct seen *seen = seen_of(w);
	float first[NUMBERS * SEEN_MOST];
	vec_fill(seen->own, (float)w->rank);
	if (equal)
		comm_allgather_equal(w->all, seen->all, seen->own);
	else
		comm_allgather(w->all, seen->all, seen->own);
	vec_get(seen->all, first);
	for (int i = 0; i < NUMBERS * w->trainers; i++)
		CHECK(first[i] == (float)(i / NUMBERS), "%g was gathered", (double)first[i]);
}

static void probe_step(struct worker *w)
{
	if (probes("kinds"))
		reduce_kinds(w);
	if (probes("gather") || probes("gather_equal"))
		gather_all(w, probes("gather_equal"));
	const struct seen *seen = seen_of(w);
	if (probes("report"))
		report(w);
	if (probes("loss"))
		ask_for_loss(w);
	if (!probes("ahead"))
		return;
	CHECK(w->step == seen->fetched && w->rows == seen->fetched_rows &&
		      w->index == seen->fetched_index,
	      "step %lld of %zu rows, after the fetch of step %lld of %zu", (long long)w->step,
	      w->rows, (long long)seen->fetched, seen->fetched_rows);
	look_ahead(w, w->param, -1);
}

/* wrong_FLAG: a workload or strategy that breaks this promise. */
static const struct workload *honest;

static void gradient_on_host(struct worker *w)
{
	float first;
	struct vec *one = vec_slice(w->grad, 0, 1);
	honest->gradient(w);
	vec_get(one, &first);
	vec_free(one);
}

static void gradient_twice(struct worker *w)
{
	honest->gradient(w);
	honest->gradient(w);
}

static void count_step(struct worker *w)
{
	++*(int64_t *)w->state;
	local_step(w, 1);
}

static void step_on_host(struct worker *w)
{
	float first;
	struct vec *one = vec_slice(w->grad, 0, 1);
	vec_get(one, &first);
	vec_free(one);
	local_step(w, 1);
}

/* An allreduce, layer by layer. */
static void sum_layer(struct worker *w, size_t i)
{
	comm_allreduce_part(w->data_group, w->grad, w->model->layer[i],
			    w->model->layer[i + 1] - w->model->layer[i], COMM_SUM);
}

static void step_of_sums(struct worker *w)
{
	common_step(w);
}

static void step_of_interval(struct worker *w)
{
	if (w->step % run_sync_every(w->run) == 0)
		local_step(w, 1);
}

static bool wants_none(const struct worker *w, size_t i)
{
	(void)w, (void)i;
	return false;
}

/* coded: adds up what allreduce is given and what it gets, without --clip and --weight-decay. All
 * workers together: what was given is what was summed, and what they have kept. */
struct ledger {
	double given, got;
};

static struct ledger *ledger_of(struct worker *w)
{
	static struct ledger *all[SEEN_MOST];
	if (!all[w->rank])
		all[w->rank] = must(__real_calloc(vec_len(w->grad), sizeof **all));
	return all[w->rank];
}

static void coded_step(struct worker *w)
{
	size_t n = vec_len(w->grad);
	struct ledger *l = ledger_of(w);
	float *x = must(__real_malloc(n * sizeof *x));
	vec_get(w->grad, x);
	for (size_t i = 0; i < n; i++)
		l[i].given += (double)x[i];
	real->step(w);
	vec_get(w->grad, x);
	for (size_t i = 0; i < n; i++)
		l[i].got += (double)x[i];
	free(x);
}

static void print_ledger(struct worker *w)
{
	size_t n = vec_len(w->grad), bytes;
	const struct ledger *l = ledger_of(w);
	struct vec *there = comm_kept_there(w->coded);
	const float *here = comm_kept(w->coded, 1, &bytes);
	float *kept = must(__real_malloc(n * sizeof *kept));
	double *lost = must(__real_malloc(n * sizeof *lost)), largest = 0, size = 0, held = 0;
	CHECK((here || there) && bytes == n * sizeof *kept, "feedback keeps nothing, or too much");
	if (there)
		vec_get(there, kept);
	else
		memcpy(kept, here, bytes);
	for (size_t i = 0; i < n; i++) {
		lost[i] = l[i].given - (double)kept[i];
		held += (double)(kept[i] * kept[i]);
	}
	link_reduce_all(comm_link(w->all), lost, (int)n, REDUCE_SUM);
	for (size_t i = 0; i < n; i++) {
		largest = fmax(largest, fabs(lost[i] - l[i].got));
		size = fmax(size, fabs(l[i].got));
	}
	if (w->rank == 0)
		printf("ledger %.9g of %.9g kept %.9g\n", largest, size, sqrt(held));
	free(kept);
	free(lost);
}

static void plant(struct strategy *s, struct workload *w)
{
	s->local = false; /* every step must be seen */
	if (probes("wrong_local") || probes("wrong_local_state") || probes("wrong_local_host"))
		s->local = true;
	if (probes("wrong_local_state")) {
		s->state_size = sizeof(int64_t);
		s->step = count_step;
	}
	if (probes("wrong_local_host"))
		s->step = step_on_host;
	if (probes("wrong_average"))
		s->average = false;
	if (probes("no_terms"))
		s->terms = NULL;
	if (probes("wrong_meets"))
		s->meets = MEETS_NEVER;
	if (probes("wrong_interval"))
		s->step = step_of_interval;
	if (probes("wrong_wants_layer") || probes("right_wants_layer")) {
		s->wants_layer = probes("wrong_wants_layer") ? wants_none : NULL;
		s->layer_ready = sum_layer;
		s->step = step_of_sums;
	}
	if (probes("wrong_host"))
		w->gradient = gradient_on_host;
	if (probes("wrong_layers"))
		w->gradient = gradient_twice;
}

static void probe(struct strategy *s)
{
	if (probes("kinds") || probes("gather") || probes("gather_equal")) {
		s->init = probe_init;
		s->fini = probe_fini;
	}
	if (probes("ahead")) {
		s->fetch = ahead_fetch;
		s->canonical = ahead_canonical;
	}
}

static void counted_step(struct worker *w)
{
	struct seen *seen = seen_of(w);
	host_work(w);
	probe_step(w);
	if (probes("coded"))
		coded_step(w);
	else
		real->step(w);
	if (segment_of(w, w->epoch) == segment_of(w, seen->epoch))
		seen->between_steps += allocations - seen->at_last_step;
	if (w->epoch != seen->epoch)
		seen->formula = seen->rows = seen->numbers = 0;
	seen->epoch = w->epoch;
	seen->at_last_step = allocations;
	seen->formula += real->bytes_per_step(w);
	seen->rows += (double)w->rows;
	for (size_t i = 0; i < w->rows; i++)
		seen->numbers += w->index[i];
}

/* ---- The sink ------------------------------------------------------------ */

static char *model_file;

static char *sink_epoch(void *self, const struct epoch_row *r, const struct split_row *ranks, int n,
			const int64_t *staleness, const struct epoch_values *values)
{
	(void)self;
	(void)ranks;
	(void)staleness;
	printf("epoch %d bytes %lld formula %.17g train %.9g test %.9g staleness %lld/%lld most "
	       "%lld\n",
	       (int)r->epoch, (long long)r->split.bytes_sent, r->epoch ? seen_by[0].formula * n : 0,
	       r->running.loss, r->on[ON_TEST].loss, (long long)r->split.staleness_sum,
	       (long long)r->split.pushes, (long long)r->split.staleness_max);
	printf("computed %.9g\ncommunicated %.9g\n", r->split.compute_s,
	       r->split.comm_s + r->split.wait_s);
	for (int i = 0; values && i < values->n; i++)
		printf("reported %d %s %g %g\n", (int)r->epoch, values->of[i].name,
		       values->of[i].sum / values->of[i].count, values->of[i].count);
	return NULL;
}

static char *sink_end(void *self, const char *status, const char *reason, const struct closing *c)
{
	(void)self, (void)c;
	printf("status %s %s\n", status, reason ? reason : "");
	return NULL;
}

/* Puts this rank's blocks of W and b at their places in the whole model. */
static void place_blocks(const struct worker *w, const float *own, double *whole)
{
	const struct linear *l;
	for (size_t i = 0; (l = net_linear_at(w->model->net, i)); i++) {
		for (size_t o = 0; o < l->out_held; o++)
			for (size_t k = 0; k < l->in_held; k++)
				whole[(l->out_first + o) * l->in + l->in_first + k] = *own++;
		whole += l->out * l->in;
		for (size_t o = 0; o < l->bias_held; o++)
			whole[l->out_first + o] = *own++;
		whole += l->out;
	}
}

static void sink_model(void *self, struct worker *w, const float *step_s, size_t steps)
{
	(void)self, (void)step_s, (void)steps;
	size_t n = vec_len(w->param), params = (size_t)w->model->params;
	float *own AUTOFREE = must(malloc((n + 1) * sizeof(float)));
	double *whole AUTOFREE = must(calloc(params, sizeof(double)));
	const struct seen *seen = seen_of(w);
	double spread = 0, between = (double)seen->between_steps;
	struct link *all = comm_link(w->all);
	vec_get(w->param, own);
	if (comm_rank(w->data_group) == 0 && comm_size(w->model_group) > 1)
		place_blocks(w, own, whole);
	for (size_t i = 0; comm_rank(w->all) == 0 && comm_size(w->model_group) == 1 && i < n; i++)
		whole[i] = own[i];
	link_reduce_all(all, whole, (int)params, REDUCE_SUM);
	if (comm_size(w->model_group) == 1)
		for (size_t i = 0; i < n; i++)
			spread = fmax(spread, fabs(own[i] - whole[i]));
	link_reduce_all(all, &spread, 1, REDUCE_MAX);
	link_reduce_all(all, &between, 1, REDUCE_SUM);
	bool counts = comm_rank(w->model_group) == 0;
	double drawn[] = {counts ? seen->rows : 0, counts ? seen->numbers : 0, seen->loss,
			  seen->asked_rows};
	link_reduce_all(all, drawn, 4, REDUCE_SUM);
	if (probes("coded"))
		print_ledger(w);
	struct world_cost cost = world_cost();
	link_reduce_all(all, cost.spent_s, SPENT_KINDS, REDUCE_SUM);
	for (int k = 0; k < SPENT_KINDS && w->rank == 0; k++)
		printf("spent %s %.12g\n", spent_names[k], cost.spent_s[k]);
	if (w->rank == 0) {
		FILE *f = fopen(model_file, "w");
		CHECK(f, "cannot write %s", model_file);
		for (size_t i = 0; i < params; i++) {
			float x = (float)whole[i];
			fwrite(&x, sizeof x, 1, f);
		}
		fclose(f);
		printf("spread %.9g\nallocations %.0f\nrows %.0f sum %.0f\nasked %.9g\n", spread,
		       between, drawn[0], drawn[1], drawn[2] / drawn[3]);
	}
}

/* One run. */
static int train_once(int argc, char **argv)
{
	struct arguments a;
	struct config c;
	struct plan plan;
	struct simulation simulation;
	char *error = arguments_read(&a, argc, argv, NULL, NULL);
	if (!error)
		error = config_init(&c, a.option, a.options, false);
	if (!error)
		error = plan_make(&c, &plan);
	if (!error && world_is_virtual)
		error = simulation_find(&c, &plan, &simulation);
	if (error)
		user_error("%s", error);
	if (world_is_virtual)
		plan.simulation = &simulation;
	memset(seen_by, 0, sizeof seen_by);
	struct strategy planted = *c.strategy;
	struct workload workload = *c.workload;
	const struct strategy *named = c.strategy;
	plant(&planted, &workload);
	real = &planted;
	honest = c.workload;
	struct strategy counted = planted;
	counted.step = counted_step;
	probe(&counted);
	c.strategy = &counted;
	c.workload = &workload;
	struct sink sink = {.epoch = sink_epoch, .end = sink_end, .model = sink_model};
	int status = train(&c, &plan, &sink, NULL);
	c.strategy = named;
	c.workload = honest;
	if (world_is_virtual)
		simulation_fini(&simulation);
	config_fini(&c);
	arguments_free(&a);
	return status;
}

static int words_before_plus(int argc, char **argv)
{
	int n = 0;
	while (n < argc && strcmp(argv[n], "+") != 0)
		n++;
	return n;
}

int main(int argc, char **argv)
{
	int status = EXIT_OK, first = 2, n = words_before_plus(argc - first, argv + first);
	bool several = first + n < argc && platform_under_launcher();
	CHECK(!several || !world_is_virtual, "a process can simulate only one run");
	if (several) /* MPI can start and end only once in a process */
		MPI_Init(NULL, NULL);
	for (int k = 0; first <= argc && status == EXIT_OK; k++) {
		model_file = k ? sentence("%s.%d", argv[1], k) : sentence("%s", argv[1]);
		n = words_before_plus(argc - first, argv + first);
		status = train_once(n, argv + first);
		free(model_file);
		first += n + 1;
	}
	if (several)
		MPI_Finalize();
	return status;
}
