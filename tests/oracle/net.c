/*
 * net.c - the workload of the oracle: 4 -> 6 -> 1 with tanh, mean squared error; or, with
 * ORACLE_CLASSES=C in the environment, 4 -> 6 -> C and cross entropy. Before each gradient it
 * writes what an independent program needs to compute the run again.
 *
 * $ORACLE_LOG/RANK: a record for each gradient: rank, step, epoch, rows [int64], lr, then the rows'
 * numbers [int64] and the parameters of the whole model [float], NaN where other workers hold them.
 * $ORACLE_LOG/data.RANK: the training set, then the test
 * set; each as n [int64], x[n x 4], target[n] [float].
 */
#include "workloads/datasets.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { FEATURES = 4, TRAIN = 96, TEST = 7 };

static size_t classes(void)
{
	const char *said = getenv("ORACLE_CLASSES");
	return said ? (size_t)atoi(said) : 0;
}

static char *net_probe(const struct run *run, struct data *train, struct data *test)
{
	const struct data shape = {
		.features = FEATURES, .classes = classes(), .value_size = sizeof(float)};
	(void)run;
	*train = *test = shape;
	train->n = TRAIN;
	test->n = TEST;
	return NULL;
}

static void draw(struct data *d, uint64_t rng)
{
	float *x = malloc(d->n * FEATURES * sizeof *x), *y = malloc(d->n * sizeof *y);
	CHECK(x && y, "no memory");
	for (size_t i = 0; i < d->n * FEATURES; i++)
		x[i] = (float)rng_normal(&rng);
	for (size_t i = 0; i < d->n; i++) {
		y[i] = (float)(sin(2 * x[FEATURES * i]) +
			       x[FEATURES * i + 1] * x[FEATURES * i + 2]);
		if (classes())
			y[i] = (float)((size_t)fabsf(3 * y[i]) % classes());
	}
	d->floats = x;
	d->target = y;
}

static char *net_draw(const struct run *run, struct data *train, struct data *test)
{
	net_probe(run, train, test);
	draw(train, rng_seed(run_seed(run), RNG_DATA, 0));
	draw(test, rng_seed(run_seed(run), RNG_DATA, 1));
	return NULL;
}

static const struct dataset data = {.name = "oracle",
				    .summary = "96 + 7 rows, made from the seed",
				    .probe = net_probe,
				    .load = net_draw,
				    .unload = data_unload};

struct oracle_opts {
	double scale;
};

#define OWNER struct oracle_opts
static const struct option options[] = {
	OPTION(scale, REAL, "scale", "1",
	       "multiplies each gradient after it was computed, for --clip [factor]", .max = 1e30),
	{0},
};

struct log {
	FILE *file;
};

static void net_init(struct worker *w, const struct data *sample)
{
	struct net *net = net_new(w, sample);
	net_linear(net, 6, INIT_UNIFORM);
	net_tanh(net);
	net_linear(net, classes() ? classes() : 1, INIT_UNIFORM);
	net_finish(net, classes() ? LOSS_XENT : LOSS_MSE);
}

static FILE *open_log(const char *kind, int rank)
{
	const char *folder = getenv("ORACLE_LOG");
	char *name = sentence("%s/%s%d", folder ? folder : ".", kind, rank);
	FILE *f = fopen(name, "wb");
	CHECK(f, "%s cannot be written", name);
	free(name);
	return f;
}

static void write_all(FILE *f, const void *x, size_t size, size_t n)
{
	CHECK(fwrite(x, size, n, f) == n, "the log of the oracle cannot be written");
}

static void write_data(const struct worker *w)
{
	FILE *f = open_log("data.", w->rank);
	const struct data *const part[] = {w->train, w->test};
	for (int i = 0; i < 2; i++) {
		const int64_t n = (int64_t)part[i]->n;
		write_all(f, &n, sizeof n, 1);
		write_all(f, part[i]->floats, sizeof(float), part[i]->n * FEATURES);
		write_all(f, part[i]->target, sizeof(float), part[i]->n);
	}
	CHECK(fclose(f) == 0, "the log of the oracle cannot be written");
}

static void write_step(struct worker *w)
{
	struct log *log = w->model->state;
	size_t n = vec_len(w->param), all = (size_t)w->model->params;
	float *param = malloc(n * sizeof *param), *whole = malloc(all * sizeof *whole);
	size_t *place = malloc(n * sizeof *place);
	CHECK(param && whole && place, "no memory");
	if (!log->file) {
		log->file = open_log("", w->rank);
		write_data(w);
	}
	const int64_t head[] = {w->rank, w->step, w->epoch, (int64_t)w->rows};
	write_all(log->file, head, sizeof *head, 4);
	write_all(log->file, &w->lr, sizeof w->lr, 1);
	for (size_t i = 0; i < w->rows; i++) {
		const int64_t row = w->index[i];
		write_all(log->file, &row, sizeof row, 1);
	}
	vec_get(w->param, param);
	net_places(w, place);
	for (size_t i = 0; i < all; i++)
		whole[i] = NAN;
	for (size_t i = 0; i < n; i++)
		whole[place[i]] = param[i];
	write_all(log->file, whole, sizeof *whole, all);
	free(param);
	free(whole);
	free(place);
}

static void net_logged_gradient(struct worker *w)
{
	const struct oracle_opts *o = w->model->opts;
	if (w->step > 0 && vec_has_data(w->param)) /* not in the warm-up */
		write_step(w);
	net_gradient(w);
	if (o->scale != 1)
		vec_scale(w->grad, (float)o->scale);
}

static void net_logged_fini(struct worker *w)
{
	struct log *log = w->model->state;
	if (log->file)
		CHECK(fclose(log->file) == 0, "the log of the oracle cannot be written");
	net_fini(w);
}

static const struct setting recipe[] = {{"epochs", "2"}, {NULL, NULL}};

static const struct workload net = {
	.plugin = {.name = "oracle",
		   .summary = "a small net that logs its steps",
		   .options = options,
		   .opts_size = sizeof(struct oracle_opts)},
	.dataset = &data,
	.recipe = recipe,
	.state_size = sizeof(struct log),
	.host = true,
	.init = net_init,
	.load = net_load,
	.gradient = net_logged_gradient,
	.evaluate = net_evaluate,
	.statistics = net_statistics,
	.split = net_split,
	.places = net_places,
	.fini = net_logged_fini,
};
MVBENCH_PLUGIN(.workload = &net);
