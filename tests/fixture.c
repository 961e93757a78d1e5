/*
 * fixture.c - a worker alone, built by hand.
 */
#include "fixture.h"

#include <stdlib.h>

void fixture_open(struct fixture *f, const struct device_ops *ops)
{
	*f = (struct fixture){
		.run = {.workers = 1, .epochs = 1, .batch = 4, .seed = 1, .lr = 0.1, .threads = 1},
		.dev = {.ops = ops},
	};
	f->w = (struct worker){
		.size = 1, .trainers = 1, .run = &f->run, .dev = &f->dev, .lr = 0.1, .weight = 1};
	f->w.train = &f->train;
	f->w.test = &f->test;
	ops->open(&f->dev, 1);
}

void fixture_workload(struct fixture *f, const struct workload *workload)
{
	const struct plugin *p = &workload->plugin;

	f->w.workload = workload;
	f->opts = must(calloc(1, p->opts_size + 1));
	option_default(p->options, f->opts);
	f->w.workload_opts = f->opts;
}

static void noise(struct data *d, size_t n, size_t features, size_t classes, uint64_t rng)
{
	float *x = must(calloc(n * features, sizeof *x)), *y = must(calloc(n, sizeof *y));

	for (size_t i = 0; i < n * features; i++)
		x[i] = (float)rng_uniform(&rng);
	for (size_t i = 0; i < n; i++)
		y[i] = (float)(classes ? (double)(rng_next(&rng) % classes) : rng_normal(&rng));
	*d = (struct data){
		.n = n, .features = features, .classes = classes, .floats = x, .target = y};
}

void fixture_data(struct fixture *f, size_t n, size_t features, size_t classes)
{
	noise(&f->train, n, features, classes, 1);
	noise(&f->test, n, features, classes, 2);
}

bool fixture_load(struct fixture *f)
{
	const char *wrong = f->w.workload->dataset->load(&f->run, &f->train, &f->test);

	if (wrong)
		fprintf(stderr, "%s\n", wrong);
	f->loaded = !wrong;
	return f->loaded;
}

void fixture_init(struct fixture *f)
{
	f->w.workload->init(&f->w, &f->train);
}

void fixture_close(struct fixture *f)
{
	if (f->w.param && f->w.workload)
		f->w.workload->fini(&f->w);
	if (f->loaded) {
		f->w.workload->dataset->unload(&f->train, &f->test);
	} else {
		free((void *)f->train.floats);
		free((void *)f->train.target);
		free((void *)f->test.floats);
		free((void *)f->test.target);
	}
	free(f->opts);
	f->dev.ops->close(&f->dev);
}

float *fixture_get(const struct vec *v)
{
	float *x = must(calloc(vec_len(v) + 1, sizeof *x));

	vec_get(v, x);
	return x;
}
