/*
 * train.c - trains as `mvbench run` would, under mpirun or alone, and shows what the tests
 * look into: train MODEL-FILE [--option=value ...]. sim_train is the same program in the
 * simulated world, where all workers are in one process.
 *
 * Rank 0 writes the final whole model (float32; linear layers in order, W[O x I] then b[O]) and
 * prints
 *   epoch E bytes COUNTED formula EXPECTED train TRAIN-LOSS test TEST-LOSS staleness SUM/PUSHES
 *         most MAX
 *   status STATUS REASON
 *   spread X        the largest difference between two ranks' parameters (replicas only)
 *   allocations N   that our code made from the first step of a segment to its last, on all ranks
 *   computed S      seconds, of the last epoch
 *   rows R sum S    of the last epoch: rows all models drew, and the sum of their numbers
 */
#include "results/run/run.h"

#include <math.h>
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

/* ---- A strategy around the real one, that looks at the counter after every step. ---- */

/* A segment is the epochs from one barrier to the next; before its first step the models were
 * evaluated. */
static bool first_of_segment(const struct worker *w)
{
	int64_t epochs = w->run->barrier_every ? w->run->barrier_every : w->run->epochs;
	return (w->step - 1) % (w->steps * epochs) == 0;
}

static const struct strategy *real;

enum { SEEN_MOST = 512 };
static struct seen {
	long at_last_step, between_steps;
	double formula; /* bytes of one epoch of this trainer, by the strategy's own formula */
	double rows, numbers;
} seen_by[SEEN_MOST]; /* the trainers, by rank */

static struct seen *seen_of(const struct worker *w)
{
	CHECK(w->rank < SEEN_MOST, "rank %d of at most %d", w->rank, SEEN_MOST);
	return &seen_by[w->rank];
}

/* What a plug-in may do: MVBENCH_HOST_PASSES loops over the gradient, on the host, and says so. */
static void host_work(struct worker *w)
{
	static float *x, *left; /* of all simulated workers, who do so one at a time */
	const char *passes = getenv("MVBENCH_HOST_PASSES");
	size_t n = vec_len(w->grad);
	if (!passes)
		return;
	if (!x) {
		x = must(__real_calloc(n, sizeof *x));
		left = must(__real_calloc(n, sizeof *left));
	}
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

static void counted_step(struct worker *w)
{
	struct seen *seen = seen_of(w);
	host_work(w);
	real->step(w);
	if (!first_of_segment(w))
		seen->between_steps += allocations - seen->at_last_step;
	if ((w->step - 1) % w->steps == 0)
		seen->formula = seen->rows = seen->numbers = 0;
	seen->at_last_step = allocations;
	seen->formula += real->bytes_per_step(w);
	seen->rows += (double)w->rows;
	for (size_t i = 0; i < w->rows; i++)
		seen->numbers += w->index[i];
}

/* ---- The sink ------------------------------------------------------------ */

static const char *model_file;

static char *sink_epoch(void *self, const struct epoch_row *r, const struct split_row *ranks, int n,
			const int64_t *staleness)
{
	(void)self;
	(void)ranks;
	(void)staleness;
	printf("epoch %d bytes %lld formula %.17g train %.9g test %.9g staleness %lld/%lld most "
	       "%lld\n",
	       (int)r->epoch, (long long)r->split.bytes_sent, r->epoch ? seen_by[0].formula * n : 0,
	       r->running_loss, r->test_loss, (long long)r->split.staleness_sum,
	       (long long)r->split.pushes, (long long)r->split.staleness_max);
	printf("computed %.9g\n", r->split.compute_s);
	return NULL;
}

static char *sink_end(void *self, const char *status, const char *reason)
{
	(void)self;
	printf("status %s %s\n", status, reason ? reason : "");
	return NULL;
}

/* Puts this rank's blocks of W and b at their places in the whole model. */
static void place_blocks(const struct worker *w, const float *own, double *whole)
{
	const struct linear *l;
	for (size_t i = 0; (l = net_linear_at(w->net, i)); i++) {
		for (size_t o = 0; o < l->out_held; o++)
			for (size_t k = 0; k < l->in_held; k++)
				whole[(l->out_first + o) * l->in + l->in_first + k] = *own++;
		whole += l->out * l->in;
		for (size_t o = 0; o < l->bias_held; o++)
			whole[l->out_first + o] = *own++;
		whole += l->out;
	}
}

static void sink_model(void *self, struct worker *w)
{
	(void)self;
	size_t n = vec_len(w->param), params = (size_t)w->model_params;
	float *own = must(malloc((n + 1) * sizeof(float)));
	double *whole = must(calloc(params, sizeof(double)));
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
	double drawn[2] = {counts ? seen->rows : 0, counts ? seen->numbers : 0};
	link_reduce_all(all, drawn, 2, REDUCE_SUM);
	if (w->rank == 0) {
		FILE *f = fopen(model_file, "w");
		CHECK(f, "cannot write %s", model_file);
		for (size_t i = 0; i < params; i++) {
			float x = (float)whole[i];
			fwrite(&x, sizeof x, 1, f);
		}
		fclose(f);
		printf("spread %.9g\nallocations %.0f\nrows %.0f sum %.0f\n", spread, between,
		       drawn[0], drawn[1]);
	}
	free(own);
	free(whole);
}

int main(int argc, char **argv)
{
	struct arguments a;
	struct config c;
	struct plan plan;
	struct simulation simulation;
	char *error = arguments_read(&a, argc - 2, argv + 2, NULL, NULL);
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
	model_file = argv[1];
	struct strategy counted = *c.strategy;
	real = c.strategy;
	counted.step = counted_step;
	counted.local = false; /* so that every step is seen */
	c.strategy = &counted;
	struct sink sink = {.epoch = sink_epoch, .end = sink_end, .model = sink_model};
	int status = train(&c, &plan, &sink, NULL);
	c.strategy = real;
	if (world_is_virtual)
		simulation_fini(&simulation);
	config_fini(&c);
	arguments_free(&a);
	return status;
}
