/*
 * fixture.c - what several suites set up.
 */
#include "fixture.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

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

/* ---- A folder ------------------------------------------------------------ */

char folder[64];

void folder_new(void)
{
	snprintf(folder, sizeof folder, "/tmp/mvbench-check-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(folder));
}

void folder_free(void)
{
	char *command = sentence("rm -rf '%s'", folder);

	ck_assert_int_eq(system(command), 0);
	free(command);
}

void folder_put(const char *name, const void *x, size_t bytes, bool zipped)
{
	char *path = sentence("%s/%s%s", folder, name, zipped ? ".gz" : "");

	if (zipped) {
		gzFile f = gzopen(path, "wb");

		ck_assert(f && gzwrite(f, x, (unsigned)bytes) == (int)bytes);
		ck_assert_int_eq(gzclose(f), Z_OK);
	} else {
		FILE *f = fopen(path, "w");

		ck_assert(f && fwrite(x, 1, bytes, f) == bytes);
		ck_assert_int_eq(fclose(f), 0);
	}
	free(path);
}

/* ---- A made set of images ------------------------------------------------ */

static void draw_image(uint8_t *pixel, uint64_t label, uint64_t *noise)
{
	uint64_t prototype = 1000 + label;

	for (size_t i = 0; i < PIXELS; i++)
		pixel[i] = (uint8_t)(128 * rng_uniform(&prototype) + 100 * rng_uniform(noise));
}

uint8_t *idx_new(int dims, uint32_t rows, size_t *bytes)
{
	const uint32_t size[] = {rows, SIDE, SIDE};
	size_t row = dims == IDX_IMAGES ? PIXELS : 1, head = 4 + 4 * (size_t)dims;
	uint8_t *x = must(calloc(1, *bytes = head + rows * row));
	uint64_t labels = rows, noise = ~labels;

	x[2] = 8; /* bytes */
	x[3] = (uint8_t)dims;
	for (size_t i = 4; i < head; i++)
		x[i] = (uint8_t)(size[i / 4 - 1] >> (24 - 8 * (i % 4)));
	for (size_t i = 0; i < rows; i++) {
		uint64_t label = rng_next(&labels) % 10;

		if (dims == IDX_IMAGES)
			draw_image(x + head + i * PIXELS, label, &noise);
		else
			x[head + i] = (uint8_t)label;
	}
	return x;
}

void idx_put_set(uint32_t train, uint32_t test, bool zipped, char dot)
{
	static const struct {
		const char *name;
		int dims;
		bool test;
	} files[] = {{"train-images", IDX_IMAGES, false},
		     {"train-labels", IDX_LABELS, false},
		     {"t10k-images", IDX_IMAGES, true},
		     {"t10k-labels", IDX_LABELS, true}};

	for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
		size_t bytes;
		uint8_t *x = idx_new(files[i].dims, files[i].test ? test : train, &bytes);
		char *name = sentence("%s%cidx%d-ubyte", files[i].name, dot, files[i].dims);

		folder_put(name, x, bytes, zipped);
		free(name);
		free(x);
	}
}

/* ---- Commands ------------------------------------------------------------ */

int command_output(const char *command, char *out, size_t room)
{
	char rest[4096];
	FILE *f = popen(command, "r");

	ck_assert_ptr_nonnull(f);
	out[fread(out, 1, room - 1, f)] = '\0';
	while (fread(rest, 1, sizeof rest, f) > 0)
		continue;
	int status = pclose(f);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}
