/*
 * check_images.c - nets for images: their sizes, gradients, running statistics and
 * augmentation, PyTorch's values for the same nets, and CIFAR-10's files, whole and broken.
 */
#include "results/gate/gate.h"
#include "runtime/config/config.h"
#include "tests/suites.h"
#include "workloads/layers.h"
#include "tests/trained.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

extern const struct dataset dataset_cifar10_or_fashion, dataset_fashion_mnist_32;
extern const struct workload workload_lenet, workload_resnet;

/* ---- Nets written as words ----------------------------------------------- */

/*
 * C4,3,1,2 convolution to 4 channels, window 3, stride 1, pad 2; c the same without a bias; n batch
 * normalisation; r ReLU; t tanh; m2,2,0 max pool; a average pool; d dropout; [ and ] fork and join;
 * 5 linear.
 */
static void stack(struct net *net, const char *word, enum init init)
{
	size_t n[4] = {0};
	struct window win;
	sscanf(word + !strchr("0123456789", *word), "%zu,%zu,%zu,%zu", &n[0], &n[1], &n[2], &n[3]);
	win = (struct window){n[1], n[2], n[3]};
	switch (*word) {
	case 'C':
	case 'c':
		net_conv(net, n[0], win, *word == 'C', init);
		break;
	case 'n':
		net_batch_norm(net);
		break;
	case 'r':
		net_relu(net);
		break;
	case 't':
		net_tanh(net);
		break;
	case 'm':
		net_max_pool(net, (struct window){n[0], n[1], n[2]});
		break;
	case 'a':
		net_average_pool(net);
		break;
	case 'd':
		net_dropout(net, 0.4);
		break;
	case '[':
		net_fork(net);
		break;
	case ']':
		net_join(net);
		break;
	default:
		net_linear(net, n[0], init);
	}
}

static void build(struct worker *w, const struct data *sample, const char *words_, enum init init)
{
	struct net *net = net_new(w, sample);
	for (const char *at = words_; *at; at += strcspn(at, " "), at += strspn(at, " "))
		stack(net, at, init);
	net_finish(net, LOSS_XENT);
}

/* Noise in the shape of images. */
static void open_images(struct fixture *f, struct image image, size_t classes)
{
	fixture_open(f, &device_cpu);
	f->run->batch = 8;
	fixture_data(f, 30, image_size(image), classes);
	f->train.image = f->test.image = image;
	f->w.rows = 8;
}

static const int32_t rows_used[] = {3, 0, 7, 11, 2, 19, 5, 13};

/* ---- Sizes --------------------------------------------------------------- */

static int64_t params_of(const struct workload *workload, struct image image, const char *depth)
{
	struct fixture f AUTOFIXTURE = {0};
	const struct data sample = {
		.n = 1, .features = image_size(image), .classes = 10, .image = image};
	fixture_open(&f, &device_none);
	fixture_workload(&f, workload);
	if (depth) /* the first field of its options */
		memcpy(f.opts, &depth, sizeof depth);
	model_open(&f.w, &sample);
	int64_t params = f.w.model->params;
	ck_assert_int_eq(params, vec_len(f.w.param));
	ck_assert_uint_eq(params, f.w.model->layer[f.w.model->layers]);
	if (workload == &workload_resnet) { /* each stage but the first halves the image */
		const struct layer *pool = &f.w.model->net->layer[f.w.model->net->layers - 2];

		ck_assert_uint_eq(pool->from.height, 8);
		ck_assert_uint_eq(pool->from.width, 8);
		ck_assert_uint_eq(pool->from.channels, 64);
	}
	return params;
}

CASE("nets", .limit = 60); /* a GPU starts, and tries all convolutions */

TEST(image_nets_have_expected_parameter_counts)
{
	static const char *const depths[] = {"20", "32", "44", "56", "110"};
	const struct image grey = {28, 28, 1}, colour = {32, 32, 3};
	ck_assert_int_eq(params_of(&workload_lenet, grey, NULL), 454922);
	ck_assert_int_eq(params_of(&workload_resnet, colour, NULL), 464154);
	for (size_t i = 0; i < COUNT(depths); i++) {
		int n = (atoi(depths[i]) - 2) / 6, right = 3 * 9 * 16 + 2 * 16;

		for (int c = 16; c <= 64; c *= 2) {
			int below = c == 16 ? 16 : c / 2; /* channels into the first block */

			right += 9 * below * c + 2 * c + (2 * n - 1) * (9 * c * c + 2 * c);
		}
		right += 64 * 10 + 10;
		ck_assert_int_eq(params_of(&workload_resnet, colour, depths[i]), right);
	}
}

TEST(activation_gradients_share_vectors)
{
	/* gradients of activations share vectors: a deeper net needs no more of them, and none is
	 * larger than the widest layer */
	static const char *const nets[] = {
		"c4,3,1,1 n r [ c4,3,1,1 n r c4,3,1,1 n ] r a 3",
		"c4,3,1,1 n r [ c4,3,1,1 n r c4,3,1,1 n ] r [ c4,3,1,1 n r c4,3,1,1 n ] r "
		"[ c8,3,2,1 n r c8,3,1,1 n ] r [ c8,3,1,1 n r c8,3,1,1 n ] r a 3"};
	for (size_t i = 0; i < COUNT(nets); i++) {
		struct fixture f AUTOFIXTURE = {0};
		open_images(&f, (struct image){8, 8, 2}, 3);
		build(&f.w, &f.train, nets[i], INIT_HE);
		ck_assert_msg(f.w.model->net->slots <= 3, "%zu vectors of gradients",
			      f.w.model->net->slots);
		for (size_t t = 0; t < f.w.model->net->slots; t++)
			ck_assert_uint_le(f.w.model->net->slot[t].width, 8 * 8 * 4);
	}
}

/* ---- Gradients ----------------------------------------------------------- */

static const struct {
	struct image image;
	const char *words;
	enum init init;
} nets[] = {
	{{6, 5, 2}, "c3,3,1,1 4", INIT_UNIFORM},
	{{6, 5, 2}, "C3,3,1,0 r 4", INIT_HE},
	{{7, 9, 3}, "C4,3,2,1 t C3,1,1,0 r c2,5,1,2 4", INIT_UNIFORM},
	{{8, 8, 1}, "C4,5,1,2 r m2,2,0 C3,5,1,2 r m2,2,0 7 r d 4", INIT_HE},
	{{7, 6, 2}, "m3,2,1 c4,3,1,1 t 4", INIT_HE},
	{{7, 6, 2}, "c4,3,1,1 t m3,2,1 6 t 4", INIT_HE},
	{{5, 5, 2}, "c4,3,1,1 r a 4", INIT_HE},
	{{5, 5, 3}, "n r c4,3,1,1 n a 4", INIT_HE},
	{{5, 5, 3}, "c4,3,1,1 d c3,3,1,1 n r d a 4", INIT_HE},
	{{6, 6, 2}, "[ c2,3,1,1 n ] c3,3,1,1 r 4", INIT_HE},
	{{6, 6, 2}, "c3,3,1,1 n r [ c3,3,1,1 n r c3,3,1,1 n ] r [ c3,3,1,1 n ] r a 4", INIT_HE},
	{{5, 5, 2},
	 "c3,3,1,1 n [ c3,3,1,1 n r c3,3,1,1 n ] [ c6,3,2,1 n c6,3,1,1 n ] r [ c6,3,1,1 n ] a 4",
	 INIT_HE},
	{{6, 6, 2}, "[ C5,3,2,1 r m3,1,1 c5,1,1,0 n ] r d 4", INIT_HE},
	{{5, 4, 2}, "m2,1,0 C3,3,1,1 r 6 r d 5 t 4", INIT_HE},
};

TEST(image_net_gradients_match_finite_differences, COUNT(nets))
{
	struct fixture f AUTOFIXTURE = {0};
	open_images(&f, nets[_i].image, 4);
	build(&f.w, &f.train, nets[_i].words, nets[_i].init);
	f.w.index = rows_used;
	check_gradient(&f.w, nets[_i].words);
}

TEST(lowest_layers_compute_no_input_gradient)
{
	/* no gradient is computed below the lowest parameters */
	struct fixture f AUTOFIXTURE = {0};
	open_images(&f, (struct image){6, 6, 2}, 4);
	build(&f.w, &f.train, "m2,2,0 c3,3,1,1 r 4", INIT_HE);
	ck_assert_ptr_null(f.w.model->net->layer[0].dy);
	ck_assert_ptr_null(f.w.model->net->layer[1].dx);
	ck_assert_ptr_nonnull(f.w.model->net->layer[1].dy);
}

/* Invalid nets. */
static const struct {
	const char *words, *says;
} misuses[] = {
	{"5 c2,3,1,1 3", "layer 1 needs images, and gets rows of 5"},
	{"c2,9,1,1 3", "a window of 9"},
	{"c0,3,1,1 3", "a convolution without outputs"},
	{"c2,3,1,1 n", "the last layer is not linear"},
	{"m2,2,0 r 3", "layer 1 overwrites what"},
	{"m2,2,0 d 3", "layer 1 overwrites what"},
	{"c2,3,1,1 n t 3", "layer 2 overwrites what"},
	{"c2,3,1,1 r t 3", "layer 1 overwrites what"},
	{"c2,3,1,1 r d t 3", "layer 2 overwrites what"},
	{"[ c2,3,1,1 n 3", "a fork without a join"},
	{"c2,3,1,1 n ] 3", "a join without a fork"},
	{"[ c2,3,1,1 [ c2,3,1,1 n ] 3", "a fork inside of a block"},
	{"[ c2,3,1,1 ] 3", "a join follows a batch normalisation"},
	{"[ c2,3,1,1 n r ] 3", "a join follows a batch normalisation"},
	{"[ n c2,3,1,1 n ] 3", "a block begins with a convolution"},
	{"c4,3,1,1 [ c2,3,1,1 n ] 3", "no shortcut from 6 x 5 x 4 to 6 x 5 x 2"},
	{"c4,3,1,1 [ c4,3,1,0 n ] 3", "no shortcut from 6 x 5 x 4 to 4 x 3 x 4"},
	{"c2,3,1,1 a 3", "an average pool of 6 x 5"},
};

static void misuse(struct worker *w, int which)
{
	build(w, &(struct data){.features = 60, .image = {6, 5, 2}}, misuses[which].words, INIT_HE);
}

TEST(invalid_image_net_ends_the_process, COUNT(misuses))
{
	ends_the_process(misuse, _i, misuses[_i].says);
}

/* ---- PyTorch ------------------------------------------------------------- */

static const struct reference references[] = {
#include "tests/reference/torch_images.inc"
};

static void build_reference(struct worker *w, const struct data *d, const struct reference *r)
{
	build(w, d, r->layers, INIT_ZERO);
}

/* Every net on every device that can be used here. */
TEST(image_nets_match_pytorch, LISTED(devices) * (int)COUNT(references))
{
	const struct device_ops *device = devices[_i / (int)COUNT(references)];
	const double close = on_real_gpu() && !device->host ? 5e-5 : 2e-5; /* Winograd's error */
	if (!device->probe(NULL))
		check_reference(&references[_i % (int)COUNT(references)], device, build_reference,
				close, close);
}

/* ---- Initial values, running statistics, dropout -------------------------- */

TEST(initial_values_follow_he_and_uniform)
{
	/* He: N(0, 2 / fan-in), bias 0; uniform: within 1 / sqrt(fan-in), bias too */
	const size_t fan_in = 3 * 3 * 8, n = 64 * fan_in;
	for (int uniform = 0; uniform < 2; uniform++) {
		struct fixture f AUTOFIXTURE = {0};
		open_images(&f, (struct image){4, 4, 8}, 4);
		build(&f.w, &f.train, "C64,3,1,1 n 4", uniform ? INIT_UNIFORM : INIT_HE);

		float *p AUTOFREE = fixture_get(f.w.param),
			 *running AUTOFREE = fixture_get(f.w.model->buffer);
		double sum = 0, squares = 0, most = 0, variance;

		for (size_t i = 0; i < n; i++) {
			sum += p[i];
			squares += (double)p[i] * p[i];
			most = fmax(most, fabsf(p[i]));
		}
		variance = uniform ? 1 / (3.0 * (double)fan_in) : 2 / (double)fan_in;
		ck_assert_double_eq_tol(sum / (double)n, 0, 4 * sqrt(variance / (double)n));
		ck_assert_double_eq_tol(squares / (double)n, variance, 0.05 * variance);
		ck_assert(!uniform || most <= 1 / sqrt((double)fan_in));
		for (size_t i = 0; i < 64; i++) {
			ck_assert(uniform ? p[n + i] != 0 : p[n + i] == 0);
			ck_assert_float_eq(p[n + 64 + i], 1);
			ck_assert_float_eq(p[n + 128 + i], 0);
			ck_assert_float_eq(running[i], 0);
			ck_assert_float_eq(running[64 + i], 1);
		}
	}
}

static double evaluated(struct worker *w)
{
	struct tally t;
	net_evaluate(w, w->test, rows_used, COUNT(rows_used));
	tally_take(w, &t);
	return t.loss;
}

static double trained_on(struct worker *w)
{
	struct tally t;
	step_gradient(w);
	tally_take(w, &t);
	return t.loss;
}

TEST(running_statistics_affect_evaluation_only)
{
	/* evaluation uses the running statistics; training updates them and does not use them */
	struct fixture f AUTOFIXTURE = {0};
	open_images(&f, (struct image){6, 6, 2}, 4);
	build(&f.w, &f.train, "c3,3,1,1 n r [ c3,3,1,1 n ] r a 4", INIT_HE);
	f.w.index = rows_used;
	f.w.test = &f.train;
	double first = evaluated(&f.w), training = trained_on(&f.w), second = evaluated(&f.w);

	ck_assert(first != second);
	ck_assert_double_eq(second, evaluated(&f.w));
	ck_assert_double_eq(training, trained_on(&f.w));
	for (int i = 0; i < 200; i++) /* they approach this mini-batch's */
		trained_on(&f.w);
	ck_assert_double_eq_tol(evaluated(&f.w), training, 1e-4 * training);
	ck_assert(fabs(second - training) > 1e-2 * training);
	vec_fill(f.w.model->buffer, 3);
	ck_assert(fabs(evaluated(&f.w) - training) > 1e-2 * training);
	ck_assert_double_eq(training, trained_on(&f.w));
}

TEST(net_dropout_depends_on_key_in_training_only)
{
	/* dropout depends on the step's key, and acts in training only */
	struct fixture f AUTOFIXTURE = {0};
	open_images(&f, (struct image){6, 6, 2}, 4);
	build(&f.w, &f.train, "c3,3,1,1 r d 20 r d 4", INIT_HE);
	f.w.index = rows_used;
	f.w.test = &f.train;
	f.dev.key = 1;
	double a = trained_on(&f.w), whole = evaluated(&f.w);

	ck_assert_double_eq(a, trained_on(&f.w));
	ck_assert(a != whole);
	f.dev.key = 2;
	ck_assert(a != trained_on(&f.w));
	ck_assert_double_eq(whole, evaluated(&f.w));
}

/* ---- Augmentation of images ----------------------------------------------- */

enum { WIDTH = 6, FLOATS = WIDTH * WIDTH * 2 };

static void load_rows(struct fixture *f, int64_t seed, int64_t epoch, const int32_t *index,
		      float *to)
{
	f->run->seed = seed;
	f->w.epoch = epoch;
	f->w.index = index;
	net_load(&f->w);
	float *x AUTOFREE = fixture_get(f->w.model->net->input);

	memcpy(to, x, 8 * FLOATS * sizeof *x);
}

TEST(augmentation_depends_on_row_epoch_and_seed)
{
	static const int32_t other[] = {13, 5, 19, 2, 11, 7, 0, 3};
	static float x[4][8 * FLOATS], plain[8 * FLOATS];
	const size_t row = FLOATS * sizeof(float);
	struct fixture f AUTOFIXTURE = {0};
	size_t differ = 0, moved = 0;
	open_images(&f, (struct image){WIDTH, WIDTH, 2}, 4);
	struct net *net = net_new(&f.w, &f.train);

	net_center(net);
	net_augment(net, 2);
	net_linear(net, 4, INIT_HE);
	net_finish(net, LOSS_XENT);
	load_rows(&f, 1, 1, rows_used, x[0]);
	load_rows(&f, 1, 1, other, x[1]);
	load_rows(&f, 1, 2, rows_used, x[2]);
	load_rows(&f, 2, 1, rows_used, x[3]);
	for (size_t i = 0; i < 8; i++) { /* a row's crop does not depend on its place, */
		ck_assert_mem_eq(x[0] + i * FLOATS, x[1] + (7 - i) * FLOATS, row);
		differ += memcmp(x[0] + i * FLOATS, x[2] + i * FLOATS, row) != 0;
		differ += memcmp(x[0] + i * FLOATS, x[3] + i * FLOATS, row) != 0;
	}
	ck_assert_uint_ge(differ, 12); /* but on epoch and seed */
	load_rows(&f, 1, 1, rows_used, x[1]);
	ck_assert_mem_eq(x[0], x[1], sizeof x[0]);

	/* evaluation only subtracts the mean */
	f.w.test = &f.train;
	evaluated(&f.w);
	float *input AUTOFREE = fixture_get(f.w.model->net->input);

	memcpy(plain, input, sizeof plain);
	for (size_t i = 0; i < 8; i++) {
		for (size_t j = 0; j < FLOATS; j++) {
			double mean = 0;

			for (size_t k = 0; k < f.train.n; k++)
				mean += f.train.floats[k * FLOATS + j] / (double)f.train.n;
			ck_assert_double_eq_tol(
				plain[i * FLOATS + j],
				f.train.floats[(size_t)rows_used[i] * FLOATS + j] - mean, 1e-6);
		}
		moved += memcmp(plain + i * FLOATS, x[0] + i * FLOATS, row) != 0;
	}
	ck_assert_uint_ge(moved, 6);
}

/* ---- Workloads ----------------------------------------------------------- */

enum { IMAGES = 320, TESTS = 64 };

static void made_set(void)
{
	folder_new();
	idx_put_set(IMAGES, TESTS, false, '-');
}

CASE("workloads", .limit = 60, .set_up = made_set, .tear_down = folder_free);

TEST(lenet_learns)
{
	struct fixture f AUTOFIXTURE = {0};
	int32_t index[IMAGES];
	struct tally t;
	fixture_open(&f, &device_cpu);
	f.run->data_dir = folder;
	f.run->batch = 32;
	f.run->momentum = 0.9;
	f.w.lr = 0.02;
	fixture_workload(&f, &workload_lenet);
	ck_assert(fixture_load(&f));
	fixture_init(&f);
	for (int32_t i = 0; i < IMAGES; i++)
		index[i] = i;
	f.w.rows = 32;
	for (int step = 0; step < 60; step++) {
		f.w.index = index + 32 * (step % (IMAGES / 32));
		step_gradient(&f.w);
		local_step(&f.w, 1);
	}
	tally_take(&f.w, &t);
	f.w.model->workload->evaluate(&f.w, f.w.test, index, TESTS);
	tally_take(&f.w, &t);
	ck_assert_msg(t.correct >= 0.9 * TESTS, "%d of %d test images are right", (int)t.correct,
		      TESTS);
}

/* A training step adds NORM_ALPHA of the mini-batch's statistics to (1 - NORM_ALPHA) of the running
 * ones. In epoch 0 both calls augment alike. */
TEST(norm_statistics_are_those_of_the_rows)
{
	struct fixture f AUTOFIXTURE = {0};
	int32_t index[32];
	struct tally ignored;
	double most = 0;
	fixture_open(&f, &device_cpu);
	f.run->data_dir = folder;
	f.run->batch = 32;
	fixture_workload(&f, &workload_resnet);
	ck_assert(fixture_load(&f));
	fixture_init(&f);
	for (int32_t i = 0; i < 32; i++)
		index[i] = 3 * i;
	float *before AUTOFREE = fixture_get(f.w.model->buffer);
	f.w.index = index;
	f.w.rows = 32;
	step_gradient(&f.w);
	float *after AUTOFREE = fixture_get(f.w.model->buffer);
	f.w.model->workload->statistics(&f.w, index, 32);
	float *own AUTOFREE = fixture_get(f.w.model->buffer);
	for (size_t i = 0; i < vec_len(f.w.model->buffer); i++) {
		double kept = (1 - NORM_ALPHA) * before[i] + NORM_ALPHA * own[i];
		ck_assert_double_eq_tol(after[i], kept, 1e-5 * (1 + fabs(kept)));
		most = fmax(most, fabs(own[i] - before[i]));
	}
	ck_assert_double_gt(most, 0.1);
	tally_take(&f.w, &ignored);
}

/* One model over two workers, and two replicas, learn what one worker learns. */
static const struct {
	const char *split, *whole;
	double tolerance;
} splits[] = {
	{"--workload=lenet --strategy=model_parallel --batch=32",
	 "--workload=lenet --strategy=serial --batch=32", 1e-5},
	{"--workload=lenet --strategy=allreduce --batch=16",
	 "--workload=lenet --strategy=serial --batch=32", 1e-5},
	{"--workload=resnet --resnet.depth=20 --strategy=model_parallel --batch=32",
	 "--workload=resnet --resnet.depth=20 --strategy=serial --batch=32", 5e-3},
};

TEST(split_image_nets_equal_one_worker, COUNT(splits))
{
	const char *rest = "--device=cpu --lr=0.02 --momentum=0.9 --weight-decay=0 --epochs=1";
	struct result a = train_ok(2, words("%s %s", splits[_i].split, rest)),
		      b = train_ok(1, words("%s %s", splits[_i].whole, rest));
	ck_assert_double_eq_tol(a.running_loss, b.running_loss,
				splits[_i].tolerance * b.running_loss);
	ck_assert_double_eq_tol(a.test_loss, b.test_loss, splits[_i].tolerance * b.test_loss);
	ck_assert(b.test_loss < 0.98 * b.first_test_loss);
}

/* ---- CIFAR-10 ------------------------------------------------------------ */

enum { ROW = 3073, ROWS = 4 };

/* Row i of file n: label, then red, green and blue. */
static uint8_t pixel_of(int n, size_t i, size_t at)
{
	return (uint8_t)(at * 7 + at / 1024 * 50 + i * 31 + (size_t)n * 11);
}

static void put_batch(const char *name, int n, size_t rows)
{
	uint8_t *x AUTOFREE = must(malloc(rows * ROW + 1));
	for (size_t i = 0; i < rows; i++) {
		x[i * ROW] = (uint8_t)((i + (size_t)n) % 10);
		for (size_t at = 0; at < ROW - 1; at++)
			x[i * ROW + 1 + at] = pixel_of(n, i, at);
	}
	folder_put(name, x, rows * ROW, false);
}

static void put_cifar(int batches)
{
	for (int n = 1; n <= batches; n++) {
		char *name AUTOFREE = sentence("data_batch_%d.bin", n);

		put_batch(name, n, ROWS + (size_t)n);
	}
	put_batch("test_batch.bin", 0, ROWS);
}

static void remove_file(const char *name)
{
	char *path AUTOFREE = sentence("%s/%s", folder, name);
	ck_assert_int_eq(unlink(path), 0);
}

CASE("cifar", .set_up = folder_new, .tear_down = folder_free);

TEST(cifar_batches_are_read, 1, 6)
{
	/* any number of batches; red, green and blue of a pixel become neighbours */
	struct run run = {.data_dir = folder};
	struct data train, test;
	size_t n = 0, row = 0;
	put_cifar(_i);
	for (int i = 1; i <= _i; i++)
		n += ROWS + (size_t)i;
	char *wrong = dataset_cifar10_or_fashion.probe(&run, &train, &test);

	ck_assert_msg(!wrong, "%s", wrong);
	ck_assert_uint_eq(train.n, n);
	ck_assert_uint_eq(test.n, ROWS);
	ck_assert_uint_eq(train.features, 3072);
	ck_assert_uint_eq(train.classes, 10);
	ck_assert_uint_eq(train.image.channels, 3);
	ck_assert_ptr_null(train.bytes);
	wrong = dataset_cifar10_or_fashion.load(&run, &train, &test);
	ck_assert_msg(!wrong, "%s", wrong);
	ck_assert_uint_eq(train.n, n);
	for (int b = 1; b <= _i; b++)
		for (size_t i = 0; i < ROWS + (size_t)b; i++, row++) {
			ck_assert_float_eq(train.target[row], (float)((i + (size_t)b) % 10));
			for (size_t at = 0; at < 3072; at++)
				ck_assert_uint_eq(
					train.bytes[row * 3072 + at % 1024 * 3 + at / 1024],
					pixel_of(b, i, at));
		}
	ck_assert_float_eq(test.target[3], 3);
	ck_assert_uint_eq(test.bytes[3 * 3072 + 1], pixel_of(0, 3, 1024));
	dataset_cifar10_or_fashion.unload(&train, &test);
	ck_assert_ptr_null(train.bytes);
	ck_assert_ptr_null(test.target);
}

/* Ways to spoil a set of three batches. */
static const struct {
	const char *missing; /* remove this file; or */
	const char *file;    /* rewrite this one: its size, the label of row 0 */
	size_t bytes;
	int label;
	const char *says[2];
	bool late; /* found by load only */
} spoilt[] = {
	{.missing = "data_batch_1.bin", .says = {"data_batch_1.bin: No such file", "test_batch"}},
	{.missing = "data_batch_2.bin", .says = {"data_batch_2.bin is not there", "_3.bin is"}},
	{.missing = "test_batch.bin", .says = {"test_batch.bin: No such file", "test_batch.bin"}},
	{.file = "data_batch_2.bin", .bytes = 2 * ROW - 1, .says = {"has 6145 bytes", "fetch"}},
	{.file = "data_batch_3.bin", .bytes = ROW + 1, .says = {"has 3074 bytes", "of 3073"}},
	{.file = "test_batch.bin", .bytes = 0, .says = {"test_batch.bin: has 0 bytes", "fetch"}},
	{.file = "data_batch_3.bin",
	 .bytes = ROW,
	 .label = 10,
	 .says = {"data_batch_3.bin: row 0 has the label 10", "0 to 9"},
	 .late = true},
	{.file = "test_batch.bin",
	 .bytes = ROW,
	 .label = 255,
	 .says = {"test_batch.bin: row 0 has the label 255", "0 to 9"},
	 .late = true},
};

static void must_say(char *wrong, const char *says)
{
	ck_assert_msg(wrong != NULL, "no error; it should say: %s", says);
	ck_assert_msg(strstr(wrong, says) != NULL, "\"%s\" lacks \"%s\"", wrong, says);
}

TEST(spoilt_cifar_batches_are_refused, COUNT(spoilt))
{
	struct run run = {.data_dir = folder};
	struct data train, test;
	uint8_t bytes[2 * ROW] = {(uint8_t)spoilt[_i].label};
	put_cifar(3);
	if (spoilt[_i].missing)
		remove_file(spoilt[_i].missing);
	else
		folder_put(spoilt[_i].file, bytes, spoilt[_i].bytes, false);
	char *wrong = dataset_cifar10_or_fashion.probe(&run, &train, &test);

	ck_assert_msg(spoilt[_i].late != (wrong != NULL), "probe: %s", wrong ? wrong : "fine");
	free(wrong);
	wrong = dataset_cifar10_or_fashion.load(&run, &train, &test);
	must_say(wrong, spoilt[_i].says[0]);
	must_say(wrong, spoilt[_i].says[1]);
	must_say(wrong, folder);
	ck_assert_ptr_null(train.bytes);
	ck_assert_ptr_null(test.bytes);
	free(wrong);
}

TEST(cifar_folder_selects_data_set)
{
	struct run run = {.data_dir = folder};
	struct data train, test;
	/* neither set: both are named */
	char *wrong = dataset_cifar10_or_fashion.probe(&run, &train, &test);

	must_say(wrong, "has no data_batch_1.bin of CIFAR-10");
	must_say(wrong, "train-images-idx3-ubyte");
	must_say(wrong, folder);
	free(wrong);
	/* a missing folder, and a path that is too long */
	char *none AUTOFREE = sentence("%s/none", folder),
		   *long_name AUTOFREE = must(calloc(1, 5000));

	run.data_dir = none;
	wrong = dataset_cifar10_or_fashion.load(&run, &train, &test);
	must_say(wrong, none);
	free(wrong);
	run.data_dir = memset(long_name, 'x', 4999);
	wrong = dataset_cifar10_or_fashion.load(&run, &train, &test);
	must_say(wrong, "too long");
	free(wrong);
	/* a folder where a file should be */
	char *path AUTOFREE = sentence("%s/data_batch_1.bin", folder);

	run.data_dir = folder;
	ck_assert_int_eq(mkdir(path, 0755), 0);
	wrong = dataset_cifar10_or_fashion.probe(&run, &train, &test);
	must_say(wrong, "data_batch_1.bin: Is a directory");
	free(wrong);
	ck_assert_int_eq(rmdir(path), 0);
	/* a folder with IDX files: the other data set */
	idx_put_set(12, 8, false, '-');
	wrong = dataset_cifar10_or_fashion.load(&run, &train, &test);
	ck_assert_msg(!wrong, "%s", wrong);
	ck_assert_uint_eq(train.n, 12);
	ck_assert_uint_eq(train.features, 1024);
	ck_assert_uint_eq(train.image.channels, 1);
	dataset_cifar10_or_fashion.unload(&train, &test);
	ck_assert_ptr_null(train.bytes);
	/* no folder given: the installed data set */
	run.data_dir = "";
	wrong = dataset_cifar10_or_fashion.probe(&run, &train, &test);
	ck_assert_msg(!wrong, "%s", wrong);
	ck_assert_uint_eq(train.image.width, 32);
}

TEST(list_workloads_shows_used_data_set)
{
	/* `list workloads` shows which data set is used */
	char text[20000];
	char *command AUTOFREE = sentence("./mvbench list workloads --data-dir=%s", folder);
	put_cifar(1);
	ck_assert_int_eq(command_output(command, text, sizeof text), 0);
	ck_assert_ptr_nonnull(strstr(text, "cifar10_or_fashion: found, 5 rows to train on and 4 to "
					   "test, 3072 values each"));
	ck_assert_ptr_nonnull(strstr(text, "parameters: 464154"));
	ck_assert_int_eq(command_output("./mvbench list workloads", text, sizeof text), 0);
	ck_assert_ptr_nonnull(strstr(text, "cifar10_or_fashion: found, 60000 rows to train on and "
					   "10000 to test, 1024 values each"));
}

/* ---- The suite ----------------------------------------------------------- */
