/*
 * fixture.c - what several suites set up.
 */
#include "runtime/config/config.h"
#include "runtime/config/dataset.h"
#include "runtime/config/plugins.h"
#include "tests/suites.h"
#include "tests/trained.h"
#include "results/db/db.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

void fixture_open(struct fixture *f, const struct device_ops *ops)
{
	*f = (struct fixture){.dev = {.ops = ops, .precision = "float32"}};
	f->run = must(malloc(sizeof *f->run));
	*f->run = (struct run){.workers = 1,
			       .epochs = 1,
			       .batch = 4,
			       .seed = 1,
			       .lr = 0.1,
			       .threads = 1,
			       .decay = "all",
			       .norm_statistics = "average"};
	f->loop = (struct loop){.dev = &f->dev};
	f->w = (struct worker){.size = 1,
			       .trainers = 1,
			       .run = f->run,
			       .model = &f->loop.model,
			       .loop = &f->loop,
			       .lr = 0.1,
			       .weight = 1};
	f->w.optimizer = plugin_find(PART_OPTIMIZER, "sgd");
	f->w.train = &f->train;
	f->w.test = &f->test;
	ops->open(&f->dev, 1);
}

void fixture_workload(struct fixture *f, const struct workload *workload)
{
	const struct plugin *p = &workload->plugin;
	f->w.model->workload = workload;
	f->opts = must(calloc(1, p->opts_size + 1));
	option_default(p->options, f->opts);
	f->w.model->opts = f->opts;
}

bool arrival_decides(const struct strategy *s)
{
	struct config c AUTOCONFIG = {0};
	char *wrong = config_init(&c, &(struct setting){"strategy", s->plugin.name}, 1, false);
	ck_assert_msg(!wrong, "%s", wrong);
	return s->terms && !s->terms(&c.run, c.strategy_opts).rounds;
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
	const char *wrong = f->w.model->workload->dataset->load(f->run, &f->train, &f->test);
	if (!wrong)
		wrong = data_cut(f->w.model->workload, f->opts, &f->train, &f->test);
	if (wrong)
		fprintf(stderr, "%s\n", wrong);
	f->loaded = !wrong;
	return f->loaded;
}

void fixture_init(struct fixture *f)
{
	model_open(&f->w, &f->train);
}

void fixture_close(struct fixture *f)
{
	if (!f->dev.ops)
		return;
	if (!f->w.model->workload)
		net_fini(&f->w);
	model_close(&f->w);
	if (f->loaded) {
		f->w.model->workload->dataset->unload(&f->train, &f->test);
	} else {
		free((void *)f->train.floats);
		free((void *)f->train.target);
		free((void *)f->test.floats);
		free((void *)f->test.target);
	}
	free(f->opts);
	f->dev.ops->close(&f->dev);
	free(f->run);
}

float *fixture_get(const struct vec *v)
{
	float *x = must(calloc(vec_len(v) + 1, sizeof *x));
	vec_get(v, x);
	return x;
}

void step_gradient(struct worker *w)
{
	w->model->workload ? w->model->workload->load(w) : net_load(w);
	w->model->workload ? w->model->workload->gradient(w) : net_gradient(w);
}

/* ---- Options --------------------------------------------------------------- */

void other_value(const struct option *o, char *text, size_t room)
{
	static const struct setting odd[] = {{"workload", "tanh_mlp"},
					     {"strategy", "asgd"},
					     {"optimizer", "nesterov"},
					     {"codec", "sign"},
					     {"codec.pull", "bf16"},
					     {"lr-schedule", "step:7:x0.3"},
					     {"split", "dirichlet:2"},
					     {"sim.step-time", "3ms"},
					     {"sim.update-time", "3ms"},
					     {"sim.encode-time", "3ms"},
					     {"sim.decode-time", "3ms"},
					     {"speed", "0:0.5"},
					     {"sim.slow-link", "0:0.5"},
					     {"pause", "0:1s:1s"},
					     {"leave", "0:1s"},
					     {"lab.rate", "1mbit"},
					     {"initial-model", "fedcba9876543210"},
					     {"data-hash", "fedcba9876543210"},
					     {"sim.platform-hash", "fedcba9876543210"},
					     {"block", "64"}};
	const char *value = o->type == OPT_STRING         ? "other"
			    : o->type == OPT_CHOICE       ? strrchr(o->choices, '|') + 1
			    : o->type != OPT_BOOL         ? NULL
			    : strcmp(o->def, "true") == 0 ? "false"
							  : "true";
	for (size_t i = 0; i < COUNT(odd); i++)
		if (strcmp(odd[i].name, o->name) == 0)
			value = odd[i].value;
	if (value)
		snprintf(text, room, "%s", value);
	else if (o->max > 0 && o->max <= 1)
		snprintf(text, room, "0.77");
	else
		snprintf(text, room, "%.17g%s", o->min + 2 + (atof(o->def) == o->min + 2),
			 o->type == OPT_TIME   ? "s"
			 : o->type == OPT_RATE ? "bit"
					       : "");
}

/* ---- Gradients ----------------------------------------------------------- */

/* The mean loss of the mini-batch at param + a d. */
static double loss_at(struct worker *w, const float *param, double a, const float *d)
{
	size_t n = vec_len(w->param);
	float *p AUTOFREE = must(malloc(n * sizeof *p));
	struct tally t;
	for (size_t i = 0; i < n; i++)
		p[i] = (float)(param[i] + a * d[i]);
	vec_put(w->param, p);
	step_gradient(w);
	tally_take(w, &t);
	return t.loss / (double)t.rows;
}

/*
 * The slope of the loss along d, which is 0 outside one layer, must be grad . d. Steps are small
 * enough that few ReLUs bend, and large enough for the precision of the float loss.
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
	/* the float loss of a net with convolutions is coarser: its sums are longer */
	double least = w->loop->dev->convs ? 5e-5 : 2e-5;
	double error = INFINITY, slope = 0, limit = 2e-3 * sqrt(size) * norm + least * norm;

	for (double eps = 3e-2; eps > 2e-4 && error > limit; eps /= 3) {
		double h = eps / norm;

		slope = (loss_at(w, param, h, d) - loss_at(w, param, -h, d)) / (2 * h);
		error = fabs(slope - right);
	}
	vec_put(w->param, param);
	ck_assert_msg(error <= limit, "%s: slope %.8g, gradient says %.8g (allowed %.2g)", what,
		      slope, right, limit);
}

/* For each layer: along its gradient, along noise, and along the single floats where it is
 * steepest. */
void check_gradient(struct worker *w, const char *name)
{
	size_t n = vec_len(w->param);
	float *param AUTOFREE = fixture_get(w->param), *d AUTOFREE = must(calloc(n, sizeof *d));
	loss_at(w, param, 0, d);
	float *grad AUTOFREE = fixture_get(w->grad);
	uint64_t rng = 9;
	char what[120];

	/* a deep net tests a few layers, including the last one, and no single floats, because one
	 * of its many ReLUs soon bends */
	size_t apart = w->model->layers > 20 ? w->model->layers / 8 : 1;
	int directions = apart > 1 ? 2 : 8;

	for (size_t l = (w->model->layers - 1) % apart; l < w->model->layers; l += apart) {
		size_t first = w->model->layer[l], end = w->model->layer[l + 1];

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
}

/* ---- PyTorch ------------------------------------------------------------- */

static void close_loss(struct worker *w, const struct reference *r, const char *what, double right,
		       double own)
{
	struct tally t;
	tally_take(w, &t);
	ck_assert_int_eq(t.rows, r->rows);
	t.loss /= (double)r->rows;
	ck_assert_msg(fabs(t.loss - right) <= own * right, "%s: %s loss %.9g, PyTorch's %.9g",
		      r->name, what, t.loss, right);
}

static void close_to(const struct reference *r, const char *what, const struct vec *v,
		     const float *right, double own, double most)
{
	float *x AUTOFREE = fixture_get(v);
	double largest = 0;
	for (size_t i = 0; i < vec_len(v); i++)
		largest = fmax(largest, fabsf(right[i]));
	for (size_t i = 0; i < vec_len(v); i++)
		ck_assert_msg(fabs((double)x[i] - right[i]) <=
				      fmax(own * fabsf(right[i]), most * largest),
			      "%s: %s[%zu] is %.9g, PyTorch's %.9g", r->name, what, i, x[i],
			      right[i]);
}

/* The number that torch_reference.py draws: exact, from -1 to 1. */
static float drawn(size_t i)
{
	uint32_t h = (uint32_t)(i + 1) * 2654435761u;
	h = (h ^ h >> 15) * 2246822519u;
	return ldexpf((float)((h ^ h >> 13) >> 12), -19) - 1;
}

void check_reference(const struct reference *r, const struct device_ops *device,
		     void (*build)(struct worker *w, const struct data *d,
				   const struct reference *r),
		     double own, double most)
{
	enum { TARGET = 1 << 16, PARAM = 2 << 16 }; /* where the numbers of each begin */
	const size_t features = r->features ? r->features : image_size(r->image);
	float *x AUTOFREE = must(malloc(r->rows * features * sizeof *x)), target[64];
	float *param AUTOFREE = must(malloc(r->params * sizeof *param));
	const struct data d = {.n = r->rows,
			       .features = features,
			       .classes = r->mse ? 0 : r->outputs,
			       .image = r->image,
			       .floats = x,
			       .target = target};
	int32_t index[COUNT(target)];
	struct fixture f AUTOFIXTURE = {0};
	struct worker *w = &f.w;
	ck_assert_uint_le(r->rows, COUNT(index));
	for (size_t i = 0; i < r->rows; i++) {
		index[i] = (int32_t)i;
		target[i] = drawn(TARGET + i);
		if (!r->mse)
			target[i] = floorf((target[i] + 1) / 2 * (float)r->outputs);
	}
	for (size_t i = 0; i < r->rows * features; i++)
		x[i] = drawn(i);
	for (size_t i = 0; i < r->params; i++)
		param[i] = drawn(PARAM + i) / 2;
	fixture_open(&f, device);
	f.run->batch = (int64_t)r->rows;
	f.run->momentum = 0.9;
	f.run->weight_decay = 0.01;
	build(w, &d, r);
	ck_assert_uint_eq(vec_len(w->param), r->params);
	ck_assert_uint_eq(w->model->buffer ? vec_len(w->model->buffer) : 0, r->buffers);
	vec_put(w->param, param);
	w->train = w->test = &d;
	w->index = index;
	w->rows = r->rows;
	step_gradient(w);
	close_loss(w, r, "training", r->loss, own);
	close_to(r, "gradient", w->grad, r->grad, own, most);
	for (int step = 0; step < 3; step++) {
		struct tally ignored;

		step_gradient(w);
		local_step(w, 1);
		tally_take(w, &ignored);
	}
	close_to(r, "parameter after three steps", w->param, r->after, own, most);
	if (r->buffers)
		close_to(r, "running statistic", w->model->buffer, r->running, own, most);
	if (r->evaluated != 0) {
		net_evaluate(w, w->test, index, r->rows);
		close_loss(w, r, "evaluated", r->evaluated, own);
	}
}

/* ---- The GPU to be tested ------------------------------------------------ */

bool on_real_gpu(void)
{
	return getenv("MVBENCH_GPU_TEST") != NULL;
}

const char *gpu_module(void)
{
	return on_real_gpu() ? "mvbench_cuda.so" : "fake/mvbench_cuda.so";
}

bool have_gpu(void)
{
	return on_real_gpu() || access(gpu_module(), R_OK) == 0;
}

void use_gpu(void)
{
	if (!on_real_gpu() && have_gpu())
		setenv("MVBENCH_CUDA", gpu_module(), 1);
}

/* ---- Missing programs ---------------------------------------------------- */

static int *skips; /* one for all processes */

void skips_open(void)
{
	skips = mmap(NULL, sizeof *skips, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	CHECK(skips != MAP_FAILED, "no memory for the counter of skipped tests");
}

int skips_count(void)
{
	return __atomic_load_n(skips, __ATOMIC_RELAXED);
}

void skipped(const char *why)
{
	__atomic_add_fetch(skips, 1, __ATOMIC_RELAXED);
	printf("skipped: %s\n", why);
	fflush(stdout);
}

bool lacks_program(const char *name)
{
	const char *require = getenv("MVBENCH_REQUIRE");
	char *look AUTOFREE = sentence("command -v %s >/dev/null 2>&1", name);
	bool missing = system(look) != 0;
	if (!missing)
		return false;
	ck_assert_msg(!require || strcmp(require, "1") != 0,
		      "%s is not installed, and MVBENCH_REQUIRE=1", name);
	char *why AUTOFREE = sentence("%s is not installed", name);
	skipped(why);
	return true;
}

/* ---- Internal errors ----------------------------------------------------- */

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

void folder_enter(void)
{
	folder_new();
	ck_assert_int_eq(chdir(folder), 0);
}

void folder_free(void)
{
	folder_remove(folder); /* needs no program: a test may have changed PATH */
	ck_assert_int_ne(access(folder, F_OK), 0);
}

void folder_put(const char *name, const void *x, size_t bytes, bool zipped)
{
	char *path AUTOFREE = sentence("%s/%s%s", folder, name, zipped ? ".gz" : "");
	if (zipped) {
		gzFile f = gzopen(path, "wb");

		ck_assert(f && gzwrite(f, x, (unsigned)bytes) == (int)bytes);
		ck_assert_int_eq(gzclose(f), Z_OK);
	} else {
		FILE *f = fopen(path, "w");

		ck_assert(f && fwrite(x, 1, bytes, f) == bytes);
		ck_assert_int_eq(fclose(f), 0);
	}
}

void folder_text(const char *name, const char *text)
{
	folder_put(name, text, strlen(text), false);
}

char *own_device(const char *name)
{
	char *path = sentence("%s/%s", folder, name);
	const unsigned number = strcmp(name, "full") == 0 ? 7 : 3;
	int fd = mknod(path, S_IFCHR | 0600, makedev(1, number)) == 0 ? open(path, O_WRONLY) : -1;
	if (fd >= 0) {
		close(fd);
		return path;
	}
	free(path);
	if (geteuid() != 0)
		return sentence("/dev/%s", name);
	skipped("no device can be made here");
	return NULL;
}

char *folder_read(const char *name)
{
	char *path AUTOFREE = sentence("%s/%s", folder, name), *text = text_read(path);
	ck_assert_msg(text != NULL, "%s: %s", path, strerror(errno));
	return text;
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
	for (size_t i = 0; i < COUNT(files); i++) {
		size_t bytes;
		uint8_t *x AUTOFREE = idx_new(files[i].dims, files[i].test ? test : train, &bytes);
		char *name AUTOFREE =
			sentence("%s%cidx%d-ubyte", files[i].name, dot, files[i].dims);

		folder_put(name, x, bytes, zipped);
	}
}

void small_data(void)
{
	folder_new();
	idx_put_set(600, 60, false, '-');
}

/* ---- Simulated platforms ----------------------------------------------- */

void put_hosts(const char *name, int hosts, int cores, int slow)
{
	struct text t;
	FILE *f = text_open(&t);
	fprintf(f, PLATFORM_HEAD "<zone id='all' routing='Floyd'><router id='switch'/>\n");
	for (int i = 0; i < hosts; i++)
		fprintf(f,
			"<host id='h%d' speed='%dMf' core='%d'/><link id='l%d' bandwidth='1MBps' "
			"latency='1ms' sharing_policy='SPLITDUPLEX'/>\n",
			i, i < slow ? 500 : 1000, cores, i);
	for (int i = 0; i < hosts; i++)
		fprintf(f,
			"<route src='h%d' dst='switch'><link_ctn id='l%d' direction='UP'/></route>"
			"\n",
			i, i);
	fprintf(f, "</zone></platform>\n");
	char *text AUTOFREE = text_close(&t);
	folder_text(name, text);
}

/* ---- Commands ------------------------------------------------------------ */

int start_command(const struct command *c, const char *const *word)
{
	char *argv[16];
	int argc = 0, status;
	for (; word[argc]; argc++) {
		ck_assert_uint_lt((size_t)argc, COUNT(argv));
		argv[argc] = (char *)(uintptr_t)word[argc];
	}
	fflush(NULL);
	pid_t child = fork();
	if (child == 0) {
		if (!freopen("out", "w", stdout) || !freopen("err", "w", stderr))
			_exit(99);
		status = command_start(c, argc, argv);
		fflush(NULL);
		_exit(status);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_msg(WIFEXITED(status), "the command was killed");
	return WEXITSTATUS(status);
}

void expect_said(const char *file, const char *text, bool there)
{
	char *all AUTOFREE = folder_read(file);
	ck_assert_msg((strstr(all, text) != NULL) == there, "\"%s\" is %sin: %s", text,
		      there ? "not " : "", all);
}

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

char output[1 << 16];

void expect_command(int want, const char *command, const char *says)
{
	int status = command_output(command, output, sizeof output);
	ck_assert_msg(status == want && strstr(output, says),
		      "%s: status %d, wanted %d and \"%s\":\n%s", command, status, want, says,
		      output);
}

int run_mvbench(const char *environment, const char *words, char *out, size_t room)
{
	/* a leak checker, if there is one, would report what Open MPI leaves behind */
	char *command AUTOFREE =
		sentence("%s ASAN_OPTIONS=detect_leaks=0 ./mvbench run --data-dir=%s "
			 "--db=%s/run.db %s 2>&1",
			 environment, folder, folder, words);
	return command_output(command, out, room);
}

void record_run(const char *words)
{
	char out[16384];
	int status = run_mvbench("timeout 200 env", words, out, sizeof out);
	ck_assert_msg(status == EXIT_OK, "%s: status %d: %s", words, status, out);
}

void record_only(const char *words)
{
	forget_runs();
	record_run(words);
}

void forget_runs(void)
{
	static const char *const end[] = {"", "-wal", "-shm"};
	for (size_t i = 0; i < COUNT(end); i++) {
		char *path AUTOFREE = sentence("%s/run.db%s", folder, end[i]);
		remove(path);
	}
}

void expect_row(const char *sql, const char *want)
{
	char *path AUTOFREE = sentence("%s/run.db", folder);
	struct store *store AUTOCLOSE = NULL;
	struct text t;
	FILE *f = text_open(&t);
	char *wrong = store_open(&store, path, STORE_READ);
	ck_assert_msg(!wrong, "%s", wrong);
	wrong = query_print(store, f, FORMAT_CSV, sql, NULL, 0, NULL);
	ck_assert_msg(!wrong, "%s", wrong);
	char *text AUTOFREE = text_close(&t);
	ck_assert_str_eq(strchr(text, '\n') + 1, want);
}

void expect_recorded(const char *environment, const char *words, const char *sql, const char *want)
{
	char out[4096];
	forget_runs();
	int status = run_mvbench(environment, words, out, sizeof out);
	ck_assert_msg(status == EXIT_OK, "%s %s: status %d: %s", environment, words, status, out);
	expect_row(sql, want);
}

void expect_refused(const char *environment, const char *words, const char *says)
{
	char out[4096];
	int status = run_mvbench(environment, words, out, sizeof out);
	ck_assert_msg(status == EXIT_USER && strstr(out, says),
		      "%s %s: status %d, wanted %d and \"%s\":\n%s", environment, words, status,
		      EXIT_USER, says, out);
}
