/*
 * fixture.c - what several suites set up.
 */
#include "fixture.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

void fixture_open(struct fixture *f, const struct device_ops *ops)
{
	*f = (struct fixture){
		.run = {.workers = 1, .epochs = 1, .batch = 4, .seed = 1, .lr = 0.1, .threads = 1},
		.dev = {.ops = ops, .precision = "float32"},
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

void step_gradient(struct worker *w)
{
	w->workload ? w->workload->load(w) : net_load(w);
	w->workload ? w->workload->gradient(w) : net_gradient(w);
}

/* ---- Gradients ----------------------------------------------------------- */

/* The mean loss of the mini-batch at param + a d. */
static double loss_at(struct worker *w, const float *param, double a, const float *d)
{
	size_t n = vec_len(w->param);
	float *p = must(malloc(n * sizeof *p));
	struct tally t;

	for (size_t i = 0; i < n; i++)
		p[i] = (float)(param[i] + a * d[i]);
	vec_put(w->param, p);
	free(p);
	step_gradient(w);
	tally_take(w, &t);
	return t.loss / (double)t.rows;
}

/*
 * Along d, and inside floats first..first+n only, the slope of the loss must be grad . d. Steps are
 * small enough for few ReLUs to bend, and large enough for the float loss to tell.
 */
static void check_slope(struct worker *w, const float *param, const float *grad, const float *d,
			const char *what)
{
	size_t n = vec_len(w->param);
	double right = 0, norm = 0, size = 0, biggest = 0;

	for (size_t i = 0; i < n; i++) {
		right += (double)grad[i] * d[i];
		norm += (double)d[i] * d[i];
		size += d[i] != 0 ? (double)grad[i] * grad[i] : 0;
		biggest = fmax(biggest, fabs(d[i]));
	}
	norm = sqrt(norm);
	if (norm == 0)
		return;
	double error = INFINITY, slope = 0, limit = 2e-3 * sqrt(size) * norm + 5e-5 * norm;

	for (double eps = 3e-2; eps > 2e-4 && error > limit; eps /= 3) {
		double h = eps / norm;

		slope = (loss_at(w, param, h, d) - loss_at(w, param, -h, d)) / (2 * h);
		error = fabs(slope - right);
	}
	vec_put(w->param, param);
	ck_assert_msg(error <= limit, "%s: slope %.8g, gradient says %.8g (allowed %.2g)", what,
		      slope, right, limit);
}

/* Each layer: along its gradient, along noise, and along the single floats where it is steepest. */
void check_gradient(struct worker *w, const char *name)
{
	size_t n = vec_len(w->param);
	float *param = fixture_get(w->param), *d = must(calloc(n, sizeof *d));

	loss_at(w, param, 0, d);
	float *grad = fixture_get(w->grad);
	uint64_t rng = 9;
	char what[120];

	/* of a deep net a few layers, the uppermost among them; where single floats go, a ReLU of
	 * so many bends soon */
	size_t apart = w->layers > 20 ? w->layers / 8 : 1;
	int directions = apart > 1 ? 2 : 8;

	for (size_t l = (w->layers - 1) % apart; l < w->layers; l += apart) {
		size_t first = w->layer[l], end = w->layer[l + 1];

		for (int along = 0; along < directions; along++) {
			size_t steepest = first;

			memset(d, 0, n * sizeof *d);
			for (size_t i = first; i < end; i++)
				if (fabsf(grad[i]) > fabsf(grad[steepest]) ||
				    rng_next(&rng) % 97 == 0)
					steepest = i;
			for (size_t i = first; i < end; i++)
				d[i] = along == 0   ? grad[i]
				       : along == 1 ? (float)rng_normal(&rng)
						    : i == (along == 7 ? end - 1 : steepest);
			snprintf(what, sizeof what, "%s, layer %zu, direction %d", name, l, along);
			check_slope(w, param, grad, d, what);
		}
	}
	free(param);
	free(grad);
	free(d);
}

/* ---- Bugs of ours -------------------------------------------------------- */

/* Runs it in a process of its own, which must find a bug of ours and say so in these words. */
void ends_the_process(void (*with)(struct worker *w, int which), int which, const char *says)
{
	char text[1024] = "";
	int ends[2], status;

	ck_assert_int_eq(pipe(ends), 0);
	fflush(NULL);
	pid_t child = fork();
	if (child == 0) {
		struct fixture f;

		dup2(ends[1], STDERR_FILENO);
		fixture_open(&f, &device_cpu);
		with(&f.w, which);
		_exit(EXIT_OK);
	}
	close(ends[1]);
	for (ssize_t n, at = 0; (n = read(ends[0], text + at, sizeof text - 1 - (size_t)at)) > 0;)
		at += n;
	close(ends[0]);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_FAILED,
		      "should say \"%s\", but ends with status %d: %s", says, status, text);
	ck_assert_msg(strstr(text, "mvbench: bug: ") && strstr(text, says),
		      "should say \"%s\", but says: %s", says, text);
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
