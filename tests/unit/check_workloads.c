/*
 * check_workloads.c - what one worker computes: every device's operations against their definition,
 * every net's gradients against finite differences and PyTorch's, and the datasets, whole and
 * broken. Loops over devices[] and workloads[], so new ones are tested too.
 */
#include "results/gate/gate.h"
#include "runtime/config/config.h"
#include "runtime/config/machine.h"
#include "runtime/config/plugins.h"
#include "runtime/train/trainer.h"
#include "strategies/fragment.h"
#include "tests/suites.h"
#include "tests/trained.h"
#include "workloads/layers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern const struct dataset dataset_fashion_mnist, dataset_fashion_mnist_32, dataset_cubes;

/* ---- Helpers ------------------------------------------------------------- */

static float *numbers(size_t n, uint64_t rng)
{
	float *x = must(calloc(n + 1, sizeof *x));
	for (size_t i = 0; i < n; i++)
		x[i] = (float)rng_normal(&rng);
	return x;
}

/* Compares y, read from the device, with right. tolerance: relative; absolute below 1. */
static void compare(const char *what, const struct vec *y, const double *right, size_t n,
		    double tolerance)
{
	float *host AUTOFREE = fixture_get(y);
	for (size_t i = 0; i < n; i++)
		ck_assert_msg(fabs(host[i] - right[i]) <= tolerance * fmax(1, fabs(right[i])),
			      "%s: [%zu] is %.9g, should be %.9g", what, i, host[i], right[i]);
}

static bool open_device(struct fixture *f, int i)
{
	if (devices[i]->probe(NULL))
		return false;
	fixture_open(f, devices[i]);
	return true;
}

/* ---- Operations, on odd sizes -------------------------------------------- */

CASE("devices", .limit = 60); /* each test starts the GPU again */

TEST(sgd_step_matches_double_precision, LISTED(devices))
{
	enum { N = 1003 };
	struct fixture f AUTOFIXTURE = {0};
	if (!open_device(&f, _i))
		return;
	for (int with = 0; with < 2; with++) {
		float *p AUTOFREE = numbers(N, 1), *v AUTOFREE = numbers(N, 2),
			 *g AUTOFREE = numbers(N, 3);
		double m = with ? 0.9 : 0, lr = 0.05, decay = 0.3, scale = 0.25, rp[N], rv[N];

		for (size_t i = 0; i < N; i++) {
			rv[i] = m * v[i] + scale * g[i] + decay * p[i];
			rp[i] = p[i] - lr * rv[i];
		}
		/* the worker takes these from the run's options */
		f.run->momentum = m;
		f.run->weight_decay = decay;
		f.w.lr = lr;
		model_layout(&f.w, &(struct layout){.params = N,
						    .layers = 1,
						    .layer = (const size_t[]){0, N}});
		vec_put(f.w.param, p);
		vec_put(f.w.grad, g);
		if (with)
			vec_put(f.w.moment[0], v);
		local_step(&f.w, scale);
		compare("sgd: p", f.w.param, rp, N, 1e-6);
		if (with)
			compare("sgd: v", f.w.moment[0], rv, N, 1e-6);
		else
			ck_assert_ptr_null(f.w.moment[0]);
		model_close(&f.w);
	}
}

TEST(new_vectors_are_zero_and_aligned, LISTED(devices))
{
	static const size_t lengths[] = {
		0, 1, 15, 16383, 16384, 16385, 1 << 20, (1 << 20) + 1, 3 << 20, (5 << 20) + 7};
	struct fixture f AUTOFIXTURE = {0};
	if (!open_device(&f, _i))
		return;
	for (int again = 0; again < 2; again++) /* memory that was freed dirty is zeroed */
		for (size_t l = 0; l < COUNT(lengths); l++) {
			size_t n = lengths[l];
			struct vec *v = vec_new(&f.w, n);
			float *x AUTOFREE = fixture_get(v);

			size_t dirty = 0;

			while (dirty < n && x[dirty] == 0)
				dirty++;
			ck_assert_msg(dirty == n, "%zu floats: [%zu] is %g", n, dirty, x[dirty]);
			ck_assert_uint_eq((uintptr_t)v->data % 64, 0);
			vec_fill(v, 7);
			vec_free(v);
		}
}

/* ---- Lengths are checked: each of these must end the process, with these words ---- */

#define MISUSES(X) \
	X(vec_copy(four, five), "copy: y has 4 floats, x has 5") \
	X(vec_axpy(five, 1, four), "axpy: y has 5 floats, x has 4") \
	X(vec_gemm(four, false, five, false, five, 3, 1, 2), "gemm: a has 5 floats, 6 are") \
	X(vec_gemm(four, false, five, false, five, 5, 1, 1), "gemm: y has 4 floats, 5 are") \
	X(vec_gemm(four, false, five, false, five, 1, 3, 2), "gemm: b has 5 floats, 6 are") \
	X(vec_slice(four, 2, 3), "slice: floats 2 to 5 of 4") \
	X(vec_relu(four, 5), "relu: y has 4 floats, 5 are") \
	X(vec_tanh_grad(five, four, 5), "tanh_grad: y has 4 floats, 5 are") \
	X(vec_softmax_xent(four, five, 2, 3, 2), "softmax_xent: z has 4 floats, 6 are") \
	X(vec_mse(five, four, 5, 1, 5), "mse: target has 4 floats, 5 are") \
	X(vec_sgd(four, NULL, five, 1, 0, 0, 1), "step: y has 4 floats, x has 5") \
	X(vec_sgd(four, NULL, four, 1, 0.9f, 0, 1), "sgd: momentum 0.9 without a velocity") \
	X(vec_add_bias(four, five, 1), "add_bias: y has 4 floats, 5 are") \
	X(vec_sum_rows(five, four, 1), "sum_rows: y has 4 floats, 5 are") \
	X(vec_take_columns(five, four, 2, 2, 1, 2), "take_columns: 2 columns from 1 of 2") \
	X(vec_put_columns(four, five, 2, 3, 0, 2), "put_columns: y has 4 floats, 6 are")

static const char *const misuse_says[] = {
#define SAYS(call, words) words,
	MISUSES(SAYS)};

static void misuse(struct worker *w, int which)
{
	struct vec *four = vec_new(w, 4), *five = vec_new(w, 5);
	int i = 0;
#define CALL(call, words) \
	if (which == i++) \
		call;
	MISUSES(CALL)
}

CASE("misuse");

TEST(wrong_lengths_end_the_process, COUNT(misuse_says))
{
	ends_the_process(misuse, _i, misuse_says[_i]);
}

/* ---- A generated set of images ------------------------------------------- */

enum { IMAGES = 48, TESTS = 20 };

static void made_set(void)
{
	folder_new();
	idx_put_set(IMAGES, TESTS, false, '-');
}

CASE("datasets", .set_up = folder_new, .tear_down = folder_free);

TEST(idx_files_are_read, 4)
{
	/* the four ways in which sets are named and packed */
	struct run run = {.data_dir = folder};
	struct data train, test;
	size_t n;
	idx_put_set(IMAGES, TESTS, _i & 1, _i & 2 ? '.' : '-');
	const char *wrong = dataset_fashion_mnist.probe(&run, &train, &test);

	ck_assert_msg(!wrong, "%s", wrong);
	ck_assert_uint_eq(train.n, IMAGES);
	ck_assert_uint_eq(test.n, TESTS);
	ck_assert_uint_eq(train.features, PIXELS);
	ck_assert_uint_eq(train.classes, 10);
	ck_assert_ptr_null(train.bytes);
	wrong = dataset_fashion_mnist.load(&run, &train, &test);
	ck_assert_msg(!wrong, "%s", wrong);

	uint8_t *images AUTOFREE = idx_new(IDX_IMAGES, TESTS, &n);

	ck_assert_mem_eq(test.bytes, images + IDX_IMAGES_AT, TESTS * PIXELS);

	uint8_t *labels AUTOFREE = idx_new(IDX_LABELS, IMAGES, &n);

	for (size_t i = 0; i < IMAGES; i++)
		ck_assert_float_eq(train.target[i], labels[IDX_LABELS_AT + i]);

	struct data wide, wide_test;

	wrong = dataset_fashion_mnist_32.load(&run, &wide, &wide_test);
	ck_assert_msg(!wrong, "%s", wrong);
	ck_assert_uint_eq(wide.features, 1024);
	for (size_t i = 0; i < IMAGES; i++)
		for (size_t y = 0; y < 32; y++)
			for (size_t x = 0; x < 32; x++) {
				bool in = y - 2 < SIDE && x - 2 < SIDE;
				uint8_t right =
					in ? train.bytes[i * PIXELS + (y - 2) * SIDE + x - 2] : 0;

				ck_assert_uint_eq(wide.bytes[i * 1024 + y * 32 + x], right);
			}
	dataset_fashion_mnist_32.unload(&wide, &wide_test);
	dataset_fashion_mnist.unload(&train, &test);
	ck_assert_ptr_null(train.bytes);
}

/* Ways to spoil a set: in this file, this byte, or this length. */
static const struct spoilt {
	const char *file;
	bool zipped;      /* the set is zipped, and the .gz is changed */
	long at;          /* this byte (from the end when negative) ... */
	int value;        /* ... becomes this one (-1: is inverted), or with */
	bool cut;         /* the file is cut there */
	bool more;        /* or a byte is appended */
	const char *says; /* the message contains this */
	bool late;        /* found by load only, not by probe */
} spoilt[] = {
	{"train-images-idx3-ubyte", .at = 3, .value = 1, .says = "000008"},
	{"train-labels-idx1-ubyte", .at = 2, .value = 9, .says = "00000901"},
	{"t10k-images-idx3-ubyte", .at = 7, .value = TESTS - 1, .says = "19 images"},
	{"t10k-labels-idx1-ubyte", .at = 7, .value = 0, .says = "size 0 is 0"},
	{"train-images-idx3-ubyte", .at = 11, .value = 0, .says = "size 1 is 0"},
	{"train-images-idx3-ubyte", .at = 12, .value = 200, .says = "size 2"},
	{"train-images-idx3-ubyte", .at = 4, .value = 255, .says = "size 0"},
	{"t10k-images-idx3-ubyte", .at = 11, .value = 27, .says = "test images"},
	{"t10k-images-idx3-ubyte", .at = 2, .cut = true, .says = "ends early"},
	{"t10k-images-idx3-ubyte", .at = 10, .cut = true, .says = "ends early"},
	{"train-labels-idx1-ubyte", .at = -1, .cut = true, .says = "1 bytes", .late = true},
	{"train-images-idx3-ubyte", .at = -5, .cut = true, .says = "5 bytes", .late = true},
	{"train-images-idx3-ubyte", .more = true, .says = "more bytes after", .late = true},
	{"t10k-labels-idx1-ubyte", .more = true, .says = "more bytes after", .late = true},
	{"t10k-labels-idx1-ubyte", .at = 8 + 7, .value = 10, .says = "row 7", .late = true},
	{"train-images-idx3-ubyte.gz", true, .at = -40, .cut = true, .says = "fetch", .late = true},
	{"train-images-idx3-ubyte.gz", true, .at = -6, .value = -1, .says = "fetch", .late = true},
	{"train-labels-idx1-ubyte.gz", true, .at = -6, .value = -1, .says = "fetch", .late = true},
	{"train-labels-idx1-ubyte.gz", true, .at = -3, .cut = true, .says = "fetch", .late = true},
	{"train-images-idx3-ubyte.gz", true, .at = 2000, .value = -1, .says = "fetch",
	 .late = true},
};

static void spoil(const struct spoilt *s)
{
	char path[256];
	snprintf(path, sizeof path, "%s/%s", folder, s->file);
	FILE *f = fopen(path, "r+");

	ck_assert_ptr_nonnull(f);
	fseek(f, 0, SEEK_END);
	long size = ftell(f), at = s->at < 0 ? size + s->at : s->at;

	if (s->cut) {
		ck_assert_int_eq(ftruncate(fileno(f), at), 0);
	} else if (s->more) {
		fputc(0, f);
	} else {
		fseek(f, at, SEEK_SET);
		int old = fgetc(f);

		fseek(f, at, SEEK_SET);
		fputc(s->value < 0 ? ~old & 255 : s->value, f);
	}
	fclose(f);
}

TEST(spoilt_idx_files_are_refused, COUNT(spoilt))
{
	const struct spoilt *s = &spoilt[_i];
	struct run run = {.data_dir = folder};
	struct data train, test;
	idx_put_set(IMAGES, TESTS, s->zipped, '-');
	spoil(s);
	const char *wrong = dataset_fashion_mnist.probe(&run, &train, &test);

	ck_assert_msg(s->late || wrong, "probe finds no error");
	free((char *)wrong);
	dataset_fashion_mnist.unload(&train, &test);
	wrong = dataset_fashion_mnist.load(&run, &train, &test);
	ck_assert_msg(wrong != NULL, "%s: load finds no error, should say: %s", s->file, s->says);
	ck_assert_msg(strstr(wrong, s->says) != NULL, "\"%s\" lacks \"%s\"", wrong, s->says);
	ck_assert_msg(strstr(wrong, folder) != NULL, "\"%s\" names no file", wrong);
	ck_assert_ptr_null(train.bytes);
	ck_assert_ptr_null(train.target);
	ck_assert_ptr_null(test.bytes);
	free((char *)wrong);
}

/* 14 x 56 pixels are as many as 28 x 28. */
TEST(idx_images_of_two_shapes_are_refused)
{
	static const struct spoilt shape[] = {{"t10k-images-idx3-ubyte", .at = 11, .value = 14},
					      {"t10k-images-idx3-ubyte", .at = 15, .value = 56}};
	struct run run = {.data_dir = folder};
	struct data train, test;
	idx_put_set(IMAGES, TESTS, false, '-');
	spoil(&shape[0]);
	spoil(&shape[1]);
	char *wrong AUTOFREE = dataset_fashion_mnist.probe(&run, &train, &test);
	ck_assert_msg(wrong && strstr(wrong, "28 x 28, test images 14 x 56"), "%s", wrong);
}

TEST(missing_idx_files_are_named)
{
	static const char *const files[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
					    "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};
	struct run run = {.data_dir = folder};
	struct data train, test;
	for (size_t i = 0; i < COUNT(files); i++) {
		char path[256];

		idx_put_set(IMAGES, TESTS, false, '-');
		snprintf(path, sizeof path, "%s/%s", folder, files[i]);
		ck_assert_int_eq(unlink(path), 0);
		const char *wrong = dataset_fashion_mnist.probe(&run, &train, &test);

		ck_assert_ptr_nonnull(wrong);
		ck_assert_msg(strstr(wrong, path) != NULL, "\"%s\" lacks \"%s\"", wrong, path);
		ck_assert_ptr_nonnull(strstr(wrong, "--data-dir=FOLDER"));
		free((char *)wrong);
	}

	/* images that do not fit into the padded size */
	size_t n;
	uint8_t *b AUTOFREE = idx_new(IDX_IMAGES, IMAGES, &n);

	idx_put_set(IMAGES, TESTS, false, '-');
	b[11] = 14;
	b[15] = 56;
	folder_put("train-images-idx3-ubyte", b, n, false);
	const char *wrong = dataset_fashion_mnist_32.probe(&run, &train, &test);

	ck_assert_ptr_nonnull(wrong);
	ck_assert_msg(strstr(wrong, "14 x 56") != NULL, "%s", wrong);
	free((char *)wrong);
}

TEST(cubes_data_follow_seed_and_formula)
{
	struct run run = {.seed = 1}, other = {.seed = 2};
	struct data a, at, b, bt, c, ct;
	ck_assert_ptr_null(dataset_cubes.probe(&run, &a, &at));
	ck_assert_uint_eq(a.n, 10000);
	ck_assert_uint_eq(at.n, 2000);
	ck_assert_ptr_null(dataset_cubes.load(&run, &a, &at));
	ck_assert_ptr_null(dataset_cubes.load(&run, &b, &bt));
	ck_assert_ptr_null(dataset_cubes.load(&other, &c, &ct));
	ck_assert_mem_eq(a.floats, b.floats, a.n * 10 * sizeof(float));
	ck_assert_mem_eq(a.target, b.target, a.n * sizeof(float));
	ck_assert_mem_ne(a.floats, c.floats, 40);
	ck_assert_mem_ne(a.floats, at.floats, 40);

	double sum = 0, squares = 0;

	for (size_t i = 0; i < a.n; i++) {
		double noise = a.target[i];

		for (size_t j = 0; j < 10; j++) {
			double x = a.floats[i * 10 + j];

			ck_assert(x >= 1 && x <= 2);
			noise -= x * x * x;
		}
		ck_assert_msg(fabs(noise) < 1 + 1e-4, "row %zu: noise %g", i, noise);
		sum += noise;
		squares += noise * noise;
	}
	ck_assert_double_eq_tol(sum / (double)a.n, 0, 0.03);
	ck_assert_double_eq_tol(squares / (double)a.n, 0.5, 0.02); /* the smallest possible MSE */
	dataset_cubes.unload(&a, &at);
	dataset_cubes.unload(&b, &bt);
	dataset_cubes.unload(&c, &ct);
}

/* ---- Workloads ----------------------------------------------------------- */

static const int32_t rows_used[] = {3, 0, 7, 11, 2, 19, 5, 13};

/* A workload with its dataset (image sets: the generated one), 8 rows in a mini-batch. */
static void open_workload(struct fixture *f, const struct workload *workload, double momentum)
{
	fixture_open(f, &device_cpu);
	f->run->data_dir = folder;
	f->run->batch = COUNT(rows_used);
	f->run->momentum = momentum;
	fixture_workload(f, workload);
	for (const struct setting *s = workload->recipe; s && s->name; s++)
		if (strcmp(s->name, "optimizer") == 0) {
			static _Alignas(max_align_t) char opts[256];
			const struct plugin *p = plugin_find(PART_OPTIMIZER, s->value);

			ck_assert_uint_le(p->opts_size, sizeof opts);
			option_default(p->options, opts);
			f->w.optimizer = plugin_find(PART_OPTIMIZER, s->value);
			f->w.optimizer_opts = opts;
		}
	ck_assert_msg(fixture_load(f), "%s: no data", workload->plugin.name);
	fixture_init(f);
	f->w.index = rows_used;
	f->w.rows = COUNT(rows_used);
}

CASE("workloads", .limit = 60, .set_up = made_set, .tear_down = folder_free);

TEST(workload_gradients_match_finite_differences, LISTED(workloads))
{
	struct fixture f AUTOFIXTURE = {0};
	open_workload(&f, workloads[_i], 0);
	check_gradient(&f.w, workloads[_i]->plugin.name);
}

TEST(workload_training_lowers_loss, LISTED(workloads))
{
	/* thirty steps with the recipe's rate on one mini-batch lower its loss */
	struct fixture f AUTOFIXTURE = {0};
	struct tally first, last;
	open_workload(&f, workloads[_i], 0.9);
	for (const struct setting *s = workloads[_i]->recipe; s && s->name; s++)
		if (strcmp(s->name, "lr") == 0)
			f.w.lr = atof(s->value);
	ck_assert_ptr_nonnull(f.w.moment[0]);
	step_gradient(&f.w);
	tally_take(&f.w, &first);
	for (int i = 0; i < 30; i++) {
		f.w.step = i + 1;
		local_begin(&f.w);
		local_step(&f.w, 1);
		step_gradient(&f.w);
		tally_take(&f.w, &last);
	}
	ck_assert_int_eq(last.rows, COUNT(rows_used) * data_targets(&f.train));
	ck_assert_msg(last.loss < 0.9 * first.loss, "%s: loss %g after %g",
		      workloads[_i]->plugin.name, last.loss, first.loss);
}

TEST(workload_evaluation_changes_no_state, LISTED(workloads))
{
	/* evaluation gives the loss of the gradient step, for any rows, and changes nothing; with
	 * batch normalisation the loss differs */
	struct fixture f AUTOFIXTURE = {0};
	struct tally a, b;
	open_workload(&f, workloads[_i], 0);
	f.w.test = &f.train;
	step_gradient(&f.w);
	tally_take(&f.w, &a);
	float *param AUTOFREE = fixture_get(f.w.param), *grad AUTOFREE = fixture_get(f.w.grad),
		     *buffer AUTOFREE = f.w.model->buffer ? fixture_get(f.w.model->buffer) : NULL;

	f.w.model->workload->evaluate(&f.w, f.w.test, rows_used, COUNT(rows_used));
	tally_take(&f.w, &b);
	ck_assert(buffer ? a.loss != b.loss : a.loss == b.loss);
	ck_assert(buffer || a.correct == b.correct);
	ck_assert_int_eq(a.rows, b.rows);

	int32_t many[EVALUATE_ROWS];

	for (size_t i = 0; i < EVALUATE_ROWS; i++)
		many[i] = (int32_t)(i % f.train.n);
	f.w.model->workload->evaluate(&f.w, f.w.test, many, EVALUATE_ROWS);
	tally_take(&f.w, &b);
	ck_assert_int_eq(b.rows, EVALUATE_ROWS * data_targets(&f.train));

	float *param_after AUTOFREE = fixture_get(f.w.param),
			   *grad_after AUTOFREE = fixture_get(f.w.grad);

	ck_assert_mem_eq(param, param_after, vec_len(f.w.param) * sizeof *param);
	ck_assert_mem_eq(grad, grad_after, vec_len(f.w.param) * sizeof *grad);
	if (buffer) {
		float *buffer_after AUTOFREE = fixture_get(f.w.model->buffer);

		ck_assert_mem_eq(buffer, buffer_after, vec_len(f.w.model->buffer) * sizeof *buffer);
	}
	f.w.rows = 3; /* the last mini-batch of an epoch may be smaller */
	step_gradient(&f.w);
	tally_take(&f.w, &b);
	ck_assert_int_eq(b.rows, 3 * data_targets(&f.train));
}

TEST(seed_determines_initial_model, LISTED(workloads))
{
	/* the seed decides the model; two workers of one seed start equal */
	const struct workload *workload = workloads[_i];
	struct fixture f[3];
	for (int i = 0; i < 3; i++) {
		fixture_open(&f[i], &device_cpu);
		f[i].run->data_dir = folder;
		f[i].run->seed = i == 2 ? 8 : 7;
		fixture_workload(&f[i], workload);
		ck_assert(fixture_load(&f[i]));
		fixture_init(&f[i]);
	}
	size_t bytes = vec_len(f[0].w.param) * sizeof(float);
	float *a AUTOFREE = fixture_get(f[0].w.param), *b AUTOFREE = fixture_get(f[1].w.param),
		 *c AUTOFREE = fixture_get(f[2].w.param);
	bool zero = a[0] == 0 && memcmp(a, a + 1, bytes - sizeof *a) == 0;

	ck_assert_mem_eq(a, b, bytes);
	ck_assert_msg(zero || memcmp(a, c, bytes) != 0, "%s: the seed changes nothing",
		      workload->plugin.name);
	for (int i = 0; i < 3; i++)
		fixture_close(&f[i]);
}

/* Layouts without memory: the parameters that the papers and tutorials name. */
TEST(workload_parameter_counts_match_papers)
{
	static const struct {
		const char *name;
		int64_t params;
	} table[] = {
		{"perceptron", 1201},  {"softmax", 7850}, {"mlp", 101770},
		{"tanh_mlp", 2119690}, {"lenet", 454922}, {"resnet", 463866}, /* one channel */
		{"gpt", 834304},
	};
	for (size_t i = 0; workloads[i]; i++) {
		const char *name = workloads[i]->plugin.name;
		struct fixture f AUTOFIXTURE = {0};
		struct data sample, test;
		int64_t params = 0;

		for (size_t j = 0; j < COUNT(table); j++)
			if (strcmp(table[j].name, name) == 0)
				params = table[j].params;
		ck_assert_msg(params, "%s: its number of parameters is not in this table", name);
		fixture_open(&f, &device_none);
		f.run->momentum = 0.9;
		f.run->data_dir = folder;
		fixture_workload(&f, workloads[i]);
		ck_assert_ptr_null(workloads[i]->dataset->probe(f.run, &sample, &test));
		ck_assert_ptr_null(data_cut(workloads[i], f.opts, &sample, &test));
		model_open(&f.w, &sample);
		ck_assert_msg(f.w.model->params == params, "%s has %d parameters, not %d", name,
			      (int)f.w.model->params, (int)params);
		ck_assert_uint_eq(vec_len(f.w.param), params);
		ck_assert_uint_eq(vec_len(f.w.moment[0]), params);
		ck_assert(!vec_has_data(f.w.param));
		ck_assert_uint_eq(f.w.model->layer[0], 0);
		ck_assert_uint_eq(f.w.model->layer[f.w.model->layers], params);
		f.w.train = &sample; /* a step without floats does nothing */
		f.w.rows = 4;
		step_gradient(&f.w);
		local_step(&f.w, 1);
		struct tally t;

		tally_take(&f.w, &t);
		ck_assert_double_eq(t.loss, 0);
	}
}

/* Of whole layers there is no more equal cut of gpt into 8: two of its 12 largest layers are in one
 * fragment, the smallest such pair that the others allow has 65,664 + 49,536 of 834,304 floats. */
TEST(fragments_of_gpt_are_about_equal)
{
	enum { MOST = 8, LAYERS = 26 };
	struct fixture f AUTOFIXTURE = {0};
	struct data sample, test;
	const struct workload *gpt = plugin_find(PART_WORKLOAD, "gpt");
	fixture_open(&f, &device_none);
	f.run->data_dir = folder;
	fixture_workload(&f, gpt);
	ck_assert_ptr_null(gpt->dataset->probe(f.run, &sample, &test));
	ck_assert_ptr_null(data_cut(gpt, f.opts, &sample, &test));
	model_open(&f.w, &sample);
	const struct model *m = f.w.model;
	ck_assert_uint_eq(m->layers, LAYERS);
	for (size_t n = 1; n <= MOST; n++)
		for (int strides = 0; strides < 2; strides++) {
			size_t of[LAYERS], floats[MOST] = {0}, most = 0;
			fragment_layout(m, strides, n, of);
			for (size_t i = 0; i < LAYERS; i++) {
				ck_assert_uint_lt(of[i], n);
				ck_assert(strides || i == 0 || of[i] - of[i - 1] <= 1);
				floats[of[i]] += m->layer[i + 1] - m->layer[i];
			}
			for (size_t k = 0; k < n; k++) {
				ck_assert_uint_gt(floats[k], 0);
				most = floats[k] > most ? floats[k] : most;
			}
			double shares = (double)(n * most) / (double)m->params;
			ck_assert_msg(shares < (strides ? 1.106 : 1.27),
				      "the largest of %zu fragments (%s) has %.3f shares", n,
				      strides ? "strides" : "neighbours", shares);
		}
	/* four blocks of six layers: each matrix of a block is in another fragment than that of the
	 * next block */
	size_t of[LAYERS];
	fragment_layout(m, true, 4, of);
	for (size_t i = 2; i + 6 < LAYERS - 1; i++)
		ck_assert(m->layer[i + 1] - m->layer[i] < 1000 || of[i] != of[i + 6]);
	fragment_layout(m, true, LAYERS, of);
	for (size_t i = 0; i < LAYERS; i++)
		for (size_t k = 0; k < i; k++)
			ck_assert_uint_ne(of[i], of[k]);
}

/* A step whose gradient is 0 only decays weights. */
static void check_decay(const struct workload *workload, const char *decay, double momentum,
			size_t spared_floats)
{
	struct fixture f AUTOFIXTURE = {0};
	struct data sample, test;
	size_t left = 0, wrong = 0;
	fixture_open(&f, &device_cpu);
	f.run->weight_decay = 0.5;
	f.run->decay = decay;
	f.run->momentum = momentum;
	f.run->data_dir = folder;
	fixture_workload(&f, workload);
	ck_assert_ptr_null(workload->dataset->probe(f.run, &sample, &test));
	ck_assert_ptr_null(data_cut(workload, f.opts, &sample, &test));
	model_open(&f.w, &sample);
	vec_fill(f.w.param, 1);
	vec_fill(f.w.grad, 0);
	local_step(&f.w, 1);
	local_gradient(&f.w);
	float *p AUTOFREE = fixture_get(f.w.param), *g AUTOFREE = fixture_get(f.w.grad);
	for (size_t n = 0; n < vec_len(f.w.param); n++) {
		bool spared = p[n] == 1;
		left += spared;
		wrong += !spared && fabs(p[n] - 0.95) > 1e-6;
		wrong += fabs(g[n] - (spared ? 0 : 0.475)) > 1e-6;
	}
	ck_assert_msg(wrong == 0, "%s: %zu floats are wrong", workload->plugin.name, wrong);
	ck_assert_msg(left == spared_floats, "%s: %zu floats are spared", workload->plugin.name,
		      left);
}

/* --decay=weights spares the biases and norms of each model, which are counted here by hand. */
TEST(weight_decay_can_exclude_norms_and_biases)
{
	static const struct {
		const char *name;
		size_t spared;
	} table[] = {{"perceptron", 100 + 1},
		     {"softmax", 10},
		     {"mlp", 128 + 10},
		     {"tanh_mlp", 2048 + 10},
		     {"lenet", 32 + 64 + 128 + 10},
		     {"resnet", 2 * (11 * 16 + 10 * 32 + 10 * 64) + 10},
		     {"gpt", 4 * (4 * 128 + (3 + 1 + 4 + 1) * 128) + 2 * 128}};
	for (size_t i = 0; workloads[i]; i++) {
		const char *name = workloads[i]->plugin.name;
		size_t k = 0;
		while (k < COUNT(table) && strcmp(table[k].name, name) != 0)
			k++;
		ck_assert_msg(k < COUNT(table), "%s is not in this table", name);
		for (int spare = 0; spare < 2; spare++)
			for (int momentum = 0; momentum < 2; momentum++)
				check_decay(workloads[i], spare ? "weights" : "all",
					    momentum ? 0.9 : 0, spare ? table[k].spared : 0);
	}
}

/* ---- Nets ---------------------------------------------------------------- */

/* "9t3": linear to 9, tanh, linear to 3; r is ReLU. */
static void build_net(struct worker *w, size_t features, const char *layers, enum init init,
		      enum loss loss)
{
	struct net *net = net_new(w, &(struct data){.features = features});
	while (*layers)
		if (*layers == 'r' || *layers == 't')
			(*layers++ == 'r' ? net_relu : net_tanh)(net);
		else
			net_linear(net, strtoul(layers, (char **)&layers, 10), init);
	net_finish(net, loss);
}

/* Invalid nets. */
static const struct {
	const char *layers;
	bool mse;
	const char *says;
} net_misuses[] = {
	{"", false, "a net without layers"},
	{"5t", false, "layer 1: an elementwise layer is between two others"},
	{"r5", false, "layer 0: an elementwise layer is between two others"},
	{"5tr3", false, "layer 2 overwrites what the backward pass"},
	{"5rt3", false, "layer 2 overwrites what the backward pass"},
	{"5t0", false, "a linear layer without outputs"},
	{"5t3", true, "regression of 3 values"},
};

static void misuse_net(struct worker *w, int which)
{
	build_net(w, 11, net_misuses[which].layers, INIT_HE,
		  net_misuses[which].mse ? LOSS_MSE : LOSS_XENT);
}

CASE("misuse");

TEST(invalid_net_ends_the_process, COUNT(net_misuses))
{
	ends_the_process(misuse_net, _i, net_misuses[_i].says);
}

static const struct {
	const char *layers;
	enum init init;
	bool mse;
} nets[] = {
	{"3", INIT_UNIFORM, false},  {"9t3", INIT_UNIFORM, false},   {"9r3", INIT_HE, false},
	{"8t7r6t4", INIT_HE, false}, {"12r9t1", INIT_UNIFORM, true}, {"6t5t1", INIT_HE, true},
	{"7t5r6t3", INIT_HE, false}, {"40r1", INIT_HE, true},
};

CASE("nets");

TEST(net_gradients_match_finite_differences, COUNT(nets))
{
	struct fixture f AUTOFIXTURE = {0};
	fixture_open(&f, &device_cpu);
	f.run->batch = 8;
	fixture_data(&f, 30, 11, nets[_i].mse ? 0 : 3);
	build_net(&f.w, 11, nets[_i].layers, nets[_i].init, nets[_i].mse ? LOSS_MSE : LOSS_XENT);
	f.w.index = rows_used;
	f.w.rows = 8;
	check_gradient(&f.w, nets[_i].layers);
}

/* layer_ready of a strategy that only records the calls. */
static void watch(struct worker *w, size_t i)
{
	int *seen = w->state;
	seen[++seen[0]] = (int)i;
	/* this layer's gradient is final: the marker from before the step is gone */
	float *g AUTOFREE = fixture_get(w->grad);

	for (size_t j = w->model->layer[i]; j < w->model->layer[i + 1]; j++)
		ck_assert(g[j] != 12345);
}

TEST(layer_ready_runs_from_last_layer_to_first)
{
	static const struct strategy watcher = {.layer_ready = watch};
	struct fixture f AUTOFIXTURE = {0};
	int seen[8] = {0};
	fixture_open(&f, &device_cpu);
	fixture_data(&f, 30, 11, 3);
	f.w.loop->strategy = &watcher;
	f.w.state = seen;
	build_net(&f.w, 11, "9t6r3", INIT_HE, LOSS_XENT);
	f.w.index = rows_used;
	f.w.rows = 4;
	vec_fill(f.w.grad, 12345);
	step_gradient(&f.w);
	ck_assert_int_eq(seen[0], 0); /* before the first step, as in warm-up: no calls */
	f.w.step = 1;
	vec_fill(f.w.grad, 12345);
	step_gradient(&f.w);
	ck_assert_int_eq(seen[0], 3);
	ck_assert_int_eq(seen[1], 2);
	ck_assert_int_eq(seen[2], 1);
	ck_assert_int_eq(seen[3], 0);
}

/* Places layers as a model-parallel strategy would, on worker state[0] of state[1]. */
static char *part_place(const struct worker *w, struct linear *l)
{
	const size_t *part = w->state, i = part[0], n = part[1];
	*l = (struct linear){.in = l->in,
			     .out = l->out,
			     .chain = l->chain,
			     .chained = l->chained,
			     .first = l->first,
			     .x_split = l->x_split,
			     .rows_max = l->rows_max,
			     .in_held = l->in,
			     .out_held = l->out};
	if (l->chain + 1 == l->chained || l->x_split) {
		l->split = BY_INPUT;
		l->in_first = part_of(l->in, n, i);
		l->in_held = part_of(l->in, n, i + 1) - l->in_first;
		l->bias_held = i == 0 ? l->out : 0;
	} else {
		l->split = BY_OUTPUT;
		l->out_first = part_of(l->out, n, i);
		l->out_held = part_of(l->out, n, i + 1) - l->out_first;
		l->bias_held = l->out_held;
	}
	return NULL;
}

TEST(split_layers_contain_each_parameter_once)
{
	/* 11 -> 9 -> 7 -> 5 over three: by output, by input of a split x, by input of a whole x */
	static const struct linear_ops ops = {.place = part_place};
	static const struct strategy split = {.linear = &ops};
	static const enum split kinds[] = {BY_OUTPUT, BY_INPUT, BY_INPUT};
	struct fixture whole AUTOFIXTURE = {0};
	size_t held = 0;
	fixture_open(&whole, &device_cpu);
	build_net(&whole.w, 11, "9t7r5", INIT_UNIFORM, LOSS_XENT);
	for (size_t i = 0; i < 3; i++) {
		struct fixture f AUTOFIXTURE = {0};
		size_t part[2] = {i, 3};

		fixture_open(&f, &device_cpu);
		f.w.loop->strategy = &split;
		f.w.state = part;
		build_net(&f.w, 11, "9t7r5", INIT_UNIFORM, LOSS_XENT);
		held += vec_len(f.w.param);
		ck_assert_int_eq(f.w.model->params, whole.w.model->params);
		for (size_t j = 0; j < 3; j++) {
			const struct linear *l = net_linear_at(f.w.model->net, j),
					    *all = net_linear_at(whole.w.model->net, j);

			ck_assert_int_eq(l->split, kinds[j]);
			ck_assert_int_eq(all->split, WHOLE);
			ck_assert_uint_eq(l->chain, j);
			ck_assert_uint_eq(l->chained, 3);
			ck_assert_int_eq(l->first, j == 0);
			ck_assert_int_eq(l->x_split, j == 1);
			ck_assert_int_eq(l->part != NULL, j == 2);
			ck_assert_uint_eq(l->rows_max, EVALUATE_ROWS);
			float *w AUTOFREE = fixture_get(l->weight),
				 *ww AUTOFREE = fixture_get(all->weight),
				 *b AUTOFREE = fixture_get(l->bias),
				 *wb AUTOFREE = fixture_get(all->bias);

			for (size_t o = 0; o < l->out_held; o++)
				for (size_t c = 0; c < l->in_held; c++)
					ck_assert_float_eq(
						w[o * l->in_held + c],
						ww[(l->out_first + o) * l->in + l->in_first + c]);
			for (size_t o = 0; o < l->bias_held; o++)
				ck_assert_float_eq(b[o], wb[l->out_first + o]);
		}
		ck_assert_ptr_null(net_linear_at(f.w.model->net, 3));
	}
	ck_assert_uint_eq(held, whole.w.model->params); /* each parameter once */
}

/* ---- PyTorch ------------------------------------------------------------- */

static const struct reference references[] = {
#include "tests/reference/torch.inc"
};

static void build_reference(struct worker *w, const struct data *d, const struct reference *r)
{
	build_net(w, d->features, r->layers, INIT_ZERO, r->mse ? LOSS_MSE : LOSS_XENT);
}

TEST(linear_nets_match_pytorch, COUNT(references))
{
	check_reference(&references[_i], &device_cpu, build_reference, 1e-5, 1e-6);
}

#include "tests/reference/torch_gpt.inc"

/* A small gpt: its loss, the gradient of its scores, and every 37th of its parameters. */
TEST(gpt_matches_pytorch)
{
	enum { LAYERS = 2, HEADS = 2, WIDTH = 8, CONTEXT = 5, ROWS = 3, KEPT = 37 };
	static const int32_t index[ROWS] = {0, 1, 2};
	struct fixture f AUTOFIXTURE = {0};
	uint8_t bytes[ROWS * CONTEXT];
	float target[ROWS * CONTEXT];
	for (size_t i = 0; i < COUNT(bytes); i++) {
		bytes[i] = (uint8_t)(i * 151 + 7);
		target[i] = (float)(uint8_t)((i + 1) * 151 + 7);
	}
	fixture_open(&f, &device_cpu);
	f.run->batch = ROWS;
	fixture_workload(&f, plugin_find(PART_WORKLOAD, "gpt"));
	const struct setting small[] = {
		{"layers", "2"}, {"heads", "2"}, {"width", "8"}, {"context", "5"}};
	for (size_t i = 0; i < COUNT(small); i++)
		ck_assert_ptr_null(
			option_set(option_find(f.w.model->workload->plugin.options, small[i].name),
				   f.opts, "gpt", small[i].value));
	f.train = (struct data){.n = ROWS * CONTEXT,
				.features = 1,
				.classes = 256,
				.tokens = true,
				.bytes = bytes,
				.target = target};
	ck_assert_ptr_null(f.w.model->workload->cut(f.opts, &f.train));
	fixture_init(&f);
	float *p AUTOFREE = fixture_get(f.w.param);
	for (size_t i = 0; i < vec_len(f.w.param); i++)
		p[i] = (float)((int)((i * 7919 + 12345) % 2001) - 1000) / 2500;
	vec_put(f.w.param, p);
	f.w.index = index;
	f.w.rows = ROWS;
	step_gradient(&f.w);
	struct tally t;

	tally_take(&f.w, &t);
	ck_assert_int_eq(t.rows, ROWS * CONTEXT);
	ck_assert_double_eq_tol(t.loss / ROWS / CONTEXT, torch_gpt_loss, 1e-5);
	float *g AUTOFREE = fixture_get(f.w.grad),
		 *z AUTOFREE = fixture_get(f.w.model->net->layer[f.w.model->net->layers - 1].y);
	for (size_t i = 0; i < COUNT(torch_gpt_grad); i++)
		ck_assert_double_eq_tol(g[i * KEPT], torch_gpt_grad[i], 1e-5);
	for (size_t i = 0; i < COUNT(torch_gpt_scores); i++)
		ck_assert_double_eq_tol(z[i * KEPT], torch_gpt_scores[i], 1e-6);
	f.train = (struct data){.n = 0};
}

/* The root of the mean square of floats first .. first + n - 1. */
static double root_of(const float *p, size_t first, size_t n)
{
	double sum = 0;
	for (size_t i = first; i < first + n; i++)
		sum += (double)p[i] * (double)p[i] / (double)n;
	return sqrt(sum);
}

/* GPT-2's start: 0.02, and 0.02 / sqrt(2 layers) in the two projections of a layer that are added
 * to its input. Biases are 0, scales 1. The root of n squares is off by 1 / sqrt(2 n), n >= D^2. */
TEST(gpt_starts_as_gpt2, 3)
{
	enum { D = 64, CONTEXT = 16 };
	static const char *const layers[] = {"1", "4", "7"};
	const double residual = 0.02 / sqrt(2 * atof(layers[_i])), within = 4 / sqrt(2.0 * D * D);
	const struct {
		size_t n;
		double root;
	} part[] = {{D, 1}, {D, 0}, {3 * D * D, 0.02}, {3 * D, 0}, {D * D, residual},     {D, 0},
		    {D, 1}, {D, 0}, {4 * D * D, 0.02}, {4 * D, 0}, {4 * D * D, residual}, {D, 0}};
	struct fixture f AUTOFIXTURE = {0};
	uint8_t bytes[CONTEXT] = {0};
	float target[CONTEXT] = {0};
	fixture_open(&f, &device_cpu);
	fixture_workload(&f, plugin_find(PART_WORKLOAD, "gpt"));
	const struct setting small[] = {
		{"layers", layers[_i]}, {"heads", "2"}, {"width", "64"}, {"context", "16"}};
	for (size_t i = 0; i < COUNT(small); i++)
		ck_assert_ptr_null(
			option_set(option_find(f.w.model->workload->plugin.options, small[i].name),
				   f.opts, "gpt", small[i].value));
	f.train = (struct data){.n = CONTEXT,
				.features = 1,
				.classes = 256,
				.tokens = true,
				.bytes = bytes,
				.target = target};
	ck_assert_ptr_null(f.w.model->workload->cut(f.opts, &f.train));
	fixture_init(&f);
	float *p AUTOFREE = fixture_get(f.w.param);
	size_t at = (256 + CONTEXT) * D;
	ck_assert_double_eq_tol(root_of(p, 0, at) / 0.02, 1, within);
	for (int k = 0; k < atoi(layers[_i]); k++)
		for (size_t i = 0; i < COUNT(part); i++) {
			double root = root_of(p, at, part[i].n), scale = fmax(part[i].root, 1e-9);
			ck_assert_msg(fabs(root - part[i].root) <= within * scale,
				      "layer %d, part %zu: %g, should be %g", k, i, root,
				      part[i].root);
			at += part[i].n;
		}
	ck_assert_uint_eq(at + 2 * D, vec_len(f.w.param));
	f.train = (struct data){.n = 0};
}

/* ---- Random streams, provenance ------------------------------------------ */

static int by_state(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

CASE("devices");

TEST(random_streams_have_distinct_states)
{
	/* seeds, kinds and parts that are close, as layers and epochs are, and far apart, as ranks
	 * may be */
	enum { SEEDS = 5, KINDS = RNG_OPTIMIZER + 1, NEAR = 2000, FAR = 40 };
	static const int64_t seeds[SEEDS] = {0, 1, 2, -1, INT64_MAX};
	static uint64_t state[SEEDS * KINDS * (NEAR + FAR)];
	size_t n = 0;
	for (int i = 0; i < SEEDS; i++)
		for (int what = 0; what < KINDS; what++) {
			for (int64_t at = 0; at < NEAR; at++)
				state[n++] = rng_seed(seeds[i], (enum rng_stream)what, at);
			for (int64_t k = 0; k < FAR; k++) /* past the near ones */
				state[n++] = rng_seed(seeds[i], (enum rng_stream)what,
						      NEAR + ((int64_t)1 << k));
		}
	ck_assert_uint_eq(n, COUNT(state));
	qsort(state, n, sizeof *state, by_state);
	for (size_t i = 1; i < n; i++)
		ck_assert_msg(state[i - 1] != state[i], "two streams begin with the state %#llx",
			      (unsigned long long)state[i]);
}

TEST(machine_reports_library_versions)
{
	const struct machine *m = machine();
	ck_assert_ptr_nonnull(m->onednn);
	ck_assert_msg(strncmp(m->onednn, "oneDNN", 6) == 0, "%s", m->onednn);
	ck_assert_msg(strpbrk(m->onednn, "0123456789") != NULL, "%s: no version", m->onednn);
	ck_assert_ptr_nonnull(strstr(m->mpi, "MPI"));
}

/* ---- The suite ----------------------------------------------------------- */
