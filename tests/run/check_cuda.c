/*
 * check_cuda.c - what only the CUDA device has, compared with the CPU: precisions, kept graphs, and
 * operations for peers. check_devices.c tests its operations in float32.
 */
#include "results/gate/gate.h"
#include "runtime/config/config.h"
#include "runtime/config/option.h"
#include "runtime/config/plugins.h"
#include "runtime/device/cuda/cuda.h"
#include "runtime/table/table.h"
#include "tests/fixture.h"
#include "tests/suites.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CPU, GPU, BOTH, PAIRS = 24 };

/* Equal numbers on both devices. */
struct pair {
	struct vec *v[BOTH];
	size_t n;
	bool packed; /* an activation: bf16 on the GPU, where that is the precision */
};

static struct device device[BOTH];
static struct worker worker[BOTH];
static struct loop loop[BOTH];
static struct pair pairs[PAIRS];
static size_t used;
static uint64_t rng;

/* Frees all pairs and closes the devices that are open. */
static void tear_down(void)
{
	for (size_t i = 0; i < used; i++)
		for (int k = 0; k < BOTH; k++)
			vec_free(pairs[i].v[k]);
	used = 0;
	for (int k = 0; k < BOTH && device[k].ops; k++) {
		device[k].ops->close(&device[k]);
		device[k].ops = NULL;
	}
}

/* Opens new devices, of this precision. */
static void set_up(const char *precision)
{
	static struct run run = {.workers = 1, .batch = 4, .threads = 1};
	tear_down();
	use_gpu();
	rng = 3;
	for (int k = 0; k < BOTH; k++) {
		device[k] = (struct device){.ops = k == CPU ? &device_cpu : &device_cuda,
					    .precision = k == CPU ? "float32" : precision,
					    .key = 7,
					    .lr = 0.25f};
		loop[k] = (struct loop){.dev = &device[k]};
		worker[k] = (struct worker){.size = 1,
					    .trainers = 1,
					    .run = &run,
					    .model = &loop[k].model,
					    .loop = &loop[k]};
		device[k].ops->open(&device[k], 1);
	}
}

static bool is_bf16(void)
{
	return strcmp(device[GPU].precision, "bf16") == 0;
}

/* To the nearest; ties to even. */
static uint16_t bf16_of(float x)
{
	uint32_t bits;
	memcpy(&bits, &x, sizeof bits);
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float of_bf16(uint16_t x)
{
	uint32_t bits = (uint32_t)x << 16;
	float y;
	memcpy(&y, &bits, sizeof y);
	return y;
}

static struct pair *pair_of(const float *x, size_t n, bool packed)
{
	struct pair *p = &pairs[used++];
	float *rounded AUTOFREE = must(calloc(n + 1, sizeof *rounded)),
		       *bits AUTOFREE = must(calloc(n + 1, sizeof *bits));
	ck_assert_uint_le(used, PAIRS);
	*p = (struct pair){.n = n, .packed = packed && is_bf16()};
	for (size_t i = 0; i < n; i++) {
		const uint16_t b = bf16_of(x[i]);

		rounded[i] = p->packed ? of_bf16(b) : x[i];
		memcpy((char *)bits + 2 * i, &b, sizeof b);
	}
	for (int k = 0; k < BOTH; k++) {
		p->v[k] = vec_new(&worker[k], n);
		vec_put(p->v[k], k == GPU && p->packed ? bits : rounded);
	}
	return p;
}

static struct pair *random_pair(size_t n, bool packed)
{
	float *x AUTOFREE = must(calloc(n + 1, sizeof *x));
	for (size_t i = 0; i < n; i++)
		x[i] = (float)rng_normal(&rng);
	return pair_of(x, n, packed);
}

static struct pair *activation(size_t n)
{
	return random_pair(n, true);
}

static struct pair *parameter(size_t n)
{
	return random_pair(n, false);
}

/* The difference between the devices, relative to the CPU's norm. */
static double apart(const struct pair *p)
{
	float *x[BOTH];
	double off = 0, all = 0;
	for (int k = 0; k < BOTH; k++) {
		x[k] = must(calloc(p->n + 1, sizeof(float)));
		vec_get(p->v[k], x[k]);
	}
	for (size_t i = 0; i < p->n; i++) {
		uint16_t b;
		memcpy(&b, (char *)x[GPU] + 2 * i, sizeof b);
		double y = p->packed ? of_bf16(b) : x[GPU][i], d = y - x[CPU][i];
		off += d * d;
		all += (double)x[CPU][i] * x[CPU][i];
	}
	for (int k = 0; k < BOTH; k++)
		free(x[k]);
	return all > 0 ? sqrt(off / all) : sqrt(off);
}

static void same(const char *what, const struct pair *p, double tolerance)
{
	double d = apart(p);
	ck_assert_msg(d <= tolerance, "%s, %s: %g apart, allowed %g", device[GPU].precision, what,
		      d, tolerance);
}

#define EACH(call) \
	for (int k = 0; k < BOTH; k++) { \
		call; \
	}

/* ---- Precisions ---------------------------------------------------------- */

static const struct {
	const char *name;
	double tolerance, real; /* real: on a GPU, whose cuDNN may use Winograd's algorithm */
} precisions[] = {{"float32", 2e-6, 1e-5}, {"tf32", 2e-3, 2e-3}, {"bf16", 1e-2, 1e-2}};

static double tolerance_of(size_t i)
{
	return on_real_gpu() ? precisions[i].real : precisions[i].tolerance;
}

static void rows_of(size_t rows, size_t n, double tol)
{
	struct pair *y = activation(rows * n), *dy = activation(rows * n), *b = parameter(n),
		    *t = activation(rows * n), *dt = activation(rows * n);
	EACH(vec_relu(y->v[k], rows * n));
	EACH(vec_relu_grad(dy->v[k], y->v[k], rows * n));
	EACH(vec_add_bias(y->v[k], b->v[k], rows));
	EACH(vec_tanh(t->v[k], rows * n));
	EACH(vec_tanh_grad(dt->v[k], t->v[k], rows * n));
	EACH(vec_sum_rows(b->v[k], dy->v[k], rows));
	same("relu, bias", y, tol);
	same("relu_grad", dy, tol);
	same("tanh", t, tol);
	same("tanh_grad", dt, tol);
	same("sum_rows", b, tol);
	EACH(vec_dropout(y->v[k], rows * n, 0.3f, 9));
	same("dropout", y, tol);
}

static void linear_of(size_t rows, size_t in, size_t out, double tol)
{
	struct pair *x = activation(rows * in), *w = parameter(out * in),
		    *y = activation(rows * out), *dy = activation(rows * out),
		    *dw = parameter(out * in), *dx = activation(rows * in);
	EACH(vec_gemm(y->v[k], false, x->v[k], true, w->v[k], rows, out, in));
	EACH(vec_gemm(dw->v[k], true, dy->v[k], false, x->v[k], out, in, rows));
	EACH(vec_gemm(dx->v[k], false, dy->v[k], false, w->v[k], rows, in, out));
	same("linear", y, tol);
	same("linear, weights", dw, tol);
	same("linear, data", dx, tol);
}

static void losses_of(size_t rows, size_t n, double tol)
{
	struct pair *z = activation(rows * n), *e = activation(rows * n),
		    *value = parameter(rows * n);
	float *label AUTOFREE = must(calloc(rows, sizeof *label));
	struct tally got[BOTH];
	for (size_t r = 0; r < rows; r++)
		label[r] = (float)(r * 5 % n);
	struct pair *target = pair_of(label, rows, false);

	EACH(vec_softmax_xent(z->v[k], target->v[k], rows, n, (float)rows));
	EACH(vec_mse(e->v[k], value->v[k], rows, n, (float)rows));
	EACH(tally_take(&worker[k], &got[k]));
	same("softmax_xent", z, tol);
	same("mse", e, tol);
	ck_assert_double_le(fabs(got[GPU].loss / got[CPU].loss - 1), 1e-5);
	ck_assert_int_eq(got[GPU].correct, got[CPU].correct);
	ck_assert_int_eq(got[GPU].rows, got[CPU].rows);
	EACH(tally_take(&worker[k], &got[k]));
	ck_assert(got[GPU].loss == 0 && got[GPU].correct == 0 && got[GPU].rows == 0);
}

CASE("cuda", .limit = 120, .tear_down = tear_down, .left_out = !have_gpu());

TEST(plain_operations_equal_the_cpus, COUNT(precisions))
{
	const double tol = tolerance_of((size_t)_i);
	set_up(precisions[_i].name);
	rows_of(6, 16, tol);
	rows_of(5, 7, tol);
	set_up(precisions[_i].name);
	rows_of(3, 2100, tol); /* more columns than a block has threads */
	rows_of(3, 301, tol);
	set_up(precisions[_i].name);
	linear_of(9, 24, 16, tol);
	set_up(precisions[_i].name);
	linear_of(3, 5, 7, tol);
	losses_of(70, 10, tol);
	losses_of(3, 41, tol);
}

TEST(batch_operations_equal_the_cpus, COUNT(precisions))
{
	enum { N = 30, ROWS = 1000 };
	const struct image m = {5, 3, 3};
	const size_t f = image_size(m);
	uint8_t *bytes AUTOFREE = must(calloc(N, f));
	float target[N], mean[5 * 3 * 3];
	int32_t index[ROWS];
	set_up(precisions[_i].name);
	for (size_t i = 0; i < N * f; i++)
		bytes[i] = (uint8_t)rng_next(&rng);
	for (size_t i = 0; i < N; i++)
		target[i] = (float)i;
	for (size_t i = 0; i < f; i++)
		mean[i] = 0.1f * (float)i;
	for (size_t i = 0; i < ROWS; i++)
		index[i] = (int32_t)(i * 7 % N);
	const struct data d = {.n = N, .features = f, .image = m, .bytes = bytes, .target = target};
	const struct transform t = {.image = m, .mean = mean, .pad = 1, .flip = true, .key = 3};

	for (int again = 0; again < 2; again++) { /* another set in the same place */
		struct pair *x = activation(ROWS * f), *y = parameter(ROWS);

		EACH(data_gather(&worker[k], &d, index, ROWS, &t, x->v[k], y->v[k]));
		same("batch", x, tolerance_of((size_t)_i));
		same("targets", y, 0);
		for (size_t i = 0; i < N * f; i++)
			bytes[i] = (uint8_t)rng_next(&rng);
	}
}

static void conv_of(struct image in, size_t out, struct window win, size_t rows, double tol)
{
	const struct image m = image_after(in, win, out);
	struct pair *x = activation(rows * image_size(in)), *y = activation(rows * image_size(m)),
		    *dy = activation(rows * image_size(m)), *dx = activation(rows * image_size(in)),
		    *w = parameter(out * win.size * win.size * in.channels), *b = parameter(out),
		    *dw = parameter(w->n), *db = parameter(out);
	EACH(struct conv *c = conv_new(&worker[k], in, out, win, true, true, rows);
	     conv_forward(c, y->v[k], x->v[k], w->v[k], b->v[k], rows);
	     conv_backward_weight(c, dw->v[k], db->v[k], x->v[k], dy->v[k], rows);
	     conv_backward_data(c, dx->v[k], dy->v[k], w->v[k], true, rows);
	     /* weights that have changed since the copy */
	     vec_scale(w->v[k], 0.5f);
	     conv_backward_data(c, dx->v[k], dy->v[k], w->v[k], true, rows); conv_free(c));
	same("conv", y, tol);
	same("conv, weights", dw, tol);
	same("conv, bias", db, tol);
	same("conv, data", dx, tol);
}

static void norm_of(struct image in, bool relu, bool adds, size_t rows, double tol)
{
	const size_t n = rows * image_size(in);
	struct pair *x = activation(n), *y = activation(n), *z = activation(n),
		    *add = activation(n), *dy = activation(n), *dx = activation(n),
		    *scale = parameter(2 * in.channels), *running = parameter(2 * in.channels),
		    *dscale = parameter(2 * in.channels);
	EACH(struct norm *m = norm_new(&worker[k], in, relu, adds, rows); /* keep variances > 0 */
	     vec_fill(running->v[k], 0.5f);
	     norm_forward(m, y->v[k], x->v[k], add->v[k], scale->v[k], running->v[k], true, rows);
	     norm_backward(m, dx->v[k], dscale->v[k], dy->v[k], x->v[k], y->v[k], scale->v[k],
			   rows);
	     norm_forward(m, z->v[k], x->v[k], add->v[k], scale->v[k], running->v[k], false, rows);
	     norm_free(m));
	same("norm", y, tol);
	same("norm, running", running, 1e-5);
	same("norm, scale", dscale, tol);
	same("norm, data", dx, tol);
	same("norm, added", dy, adds || !relu ? tol : 1e-30);
	same("norm, evaluated", z, tol);
}

static void pool_of(struct image in, struct window win, bool average, size_t rows, double tol)
{
	const struct image m = image_after(in, win, in.channels);
	struct pair *x = activation(rows * image_size(in)), *y = activation(rows * image_size(m)),
		    *dy = activation(rows * image_size(m)), *dx = activation(rows * image_size(in));
	EACH(vec_relu(x->v[k], x->n)); /* ties */
	EACH(struct pool *p = pool_new(&worker[k], in, win, average, rows);
	     pool_forward(p, y->v[k], x->v[k], rows);
	     pool_backward(p, dx->v[k], dy->v[k], x->v[k], y->v[k], rows); pool_free(p));
	same("pool", y, tol);
	same("pool, data", dx, tol);
}

static void shortcut_of(struct image in, size_t stride, size_t out, size_t rows)
{
	const size_t n = rows * ((in.height + stride - 1) / stride) *
			 ((in.width + stride - 1) / stride) * out;
	struct pair *x = activation(rows * image_size(in)), *y = activation(n),
		    *dx = activation(rows * image_size(in));
	EACH(vec_shortcut(y->v[k], x->v[k], in, stride, out, rows));
	EACH(vec_shortcut_grad(dx->v[k], y->v[k], in, stride, out, rows));
	same("shortcut", y, 0);
	same("shortcut, data", dx, 0);
}

/* Precisions, and how many channels cuDNN gets: the real number, padded from the start, or padded
 * where cuDNN has no convolution otherwise. */
static const struct {
	size_t precision;
	const char *pad, *channels;
} ways[] = {{0, "1", "1"}, {0, "1", "4"}, {1, "1", "4"}, {1, "0", "1"},
	    {2, "1", "8"}, {2, "0", "8"}, {2, "0", "1"}};

TEST(image_operations_equal_the_cpus, 4 * COUNT(ways))
{
	const struct {
		struct image in;
		size_t out;
	} row[] = {{{6, 5, 8}, 24}, {{7, 4, 3}, 5}, {{7, 4, 8}, 5}, {{7, 4, 1}, 8}};
	const size_t way = (size_t)_i / COUNT(row), which = ways[way].precision;
	const double tol = tolerance_of(which);
	const struct image in = row[_i % (int)COUNT(row)].in;
	const size_t out = row[_i % (int)COUNT(row)].out;
	setenv("MVBENCH_CUDA_PAD", ways[way].pad, 1);
	setenv("FAKE_CUDA_CHANNELS", ways[way].channels, 1);
	set_up(precisions[which].name);
	conv_of(in, out, (struct window){3, 2, 1}, 3, tol);
	conv_of(in, out, (struct window){3, 2, 1}, 2, tol);
	shortcut_of(in, 2, out > in.channels ? out : in.channels, 3);
	set_up(precisions[which].name);
	pool_of(in, (struct window){3, 2, 1}, false, 3, tol);
	pool_of(in, (struct window){2, 2, 0}, true, 3, tol);
	norm_of(in, true, false, 5, tol);
	set_up(precisions[which].name);
	norm_of(in, true, true, 5, tol);
	norm_of(in, false, false, 70, tol);
}

/* Our own kernel for gradients of weights: every form of it, more rows than warps, and images that
 * its tiles do not divide. */
TEST(own_gradients_of_weights_equal_the_cpus, 3 * 7)
{
	const struct {
		struct image in;
		size_t out;
		struct window win;
		size_t rows;
	} row[] = {{{6, 5, 8}, 24, {3, 1, 1}, 3},    {{7, 4, 3}, 5, {3, 2, 1}, 3},
		   {{9, 10, 16}, 16, {3, 1, 1}, 20}, {{8, 8, 20}, 36, {3, 2, 1}, 2},
		   {{7, 4, 1}, 8, {5, 1, 2}, 3},     {{6, 9, 10}, 18, {5, 1, 2}, 2},
		   {{4, 3, 6}, 4, {3, 2, 0}, 1}};
	const size_t which = (size_t)_i / COUNT(row), i = (size_t)_i % COUNT(row);
	setenv("MVBENCH_CUDA_OWN", "1", 1);
	setenv("MVBENCH_CUDA_PAD", i % 2 ? "0" : "1", 1);
	set_up(precisions[which].name);
	conv_of(row[i].in, row[i].out, row[i].win, row[i].rows, tolerance_of(which));
}

/* In tf32 and bf16, cuDNN and cuBLAS use matrix units: their results differ from float32. The
 * shapes are those for which matrix units are the fastest on a GPU by far. */
TEST(products_are_rounded_as_the_precision_says, COUNT(precisions))
{
	const size_t side = on_real_gpu() ? 32 : 6, rows = side, n = side * side;
	const struct image m = {side, side, 64};
	const struct window win = {3, 1, 1};
	const double least = _i ? 2e-5 : 0;
	set_up(precisions[_i].name);
	struct pair *x = activation(rows * image_size(m)), *y = activation(rows * image_size(m)),
		    *w = parameter(64 * 9 * 64), *a = activation(n * n), *b = parameter(n * n),
		    *c = activation(n * n);
	EACH(struct conv *conv = conv_new(&worker[k], m, 64, win, false, false, rows);
	     conv_forward(conv, y->v[k], x->v[k], w->v[k], NULL, rows); conv_free(conv));
	EACH(vec_gemm(c->v[k], false, a->v[k], true, b->v[k], n, n, n));
	same("convolution", y, tolerance_of((size_t)_i));
	same("product", c, tolerance_of((size_t)_i));
	ck_assert_msg(apart(y) >= least && apart(c) >= least,
		      "%s: convolutions are %g, products %g from float32", precisions[_i].name,
		      apart(y), apart(c));
}

/* ---- Copies of weights -------------------------------------------------------- */

enum { WEIGHTS = 8 * 9 * 8, WRITERS = 12 };

struct written {
	struct pair *w, *other;
};

static void sgd_in_body(void *ctx)
{
	struct written *b = ctx;
	vec_sgd(b->w->v[GPU], NULL, b->other->v[GPU], 0.25f, 0, 0, 1);
}

/* Writes as an MPI that accepts addresses of GPU memory. */
static void write_from_outside(struct device *d, float *to, const float *from)
{
	struct device outside = {.ops = &device_cuda, .precision = "float32"};
	outside.ops->open(&outside, 1);
	d->ops->sync(d);
	outside.ops->copy(&outside, to, from, WEIGHTS);
	outside.ops->close(&outside);
}

/* Sets w to `other`, or nearly, in every way in which a device writes floats. */
static void write_weights(int how, struct pair *w, struct pair *other, int k)
{
	struct device *d = &device[k];
	struct vec *to = w->v[k], *from = other->v[k];
	const float *one[] = {from->data};
	const struct updater *updater = updaters[0];
	const struct table_rules rules = {.rows = WEIGHTS, .columns = 1, .updater = updater};
	const struct table_op op = {.kind = OP_READ, .pull = true};
	struct update u = {.w = from->data, .out = to->data};
	struct written b = {w, other};
	float *host AUTOFREE = fixture_get(from);
	update_complete(&u, &rules, &op);
	if (how == 0)
		vec_copy(to, from);
	else if (how == 1)
		vec_put(to, host);
	else if (how == 2)
		vec_scale(to, -0.5f);
	else if (how == 3)
		vec_axpy(to, 0.5f, from);
	else if (how == 4)
		vec_fill(to, 0.5f);
	else if (how == 5)
		vec_sgd(to, NULL, from, d->lr, 0, 0, 1);
	else if (how == 6)
		vec_put_columns(to, from, 8, 72, 0, 72);
	else if (how == 7)
		vec_take_columns(to, from, 8, 72, 0, 72);
	else if (k == CPU)
		how == 9 ? vec_sgd(to, NULL, from, d->lr, 0, 0, 1) : vec_copy(to, from);
	else if (how == 8)
		d->ops->peer->sum(d, to->data, one, 1, 1, WEIGHTS);
	else if (how == 9)
		d->ops->graph(d, (size_t)(w - pairs), sgd_in_body, &b);
	else if (how == 10)
		d->ops->peer->apply(d, OP_READ, updater->kind, &u, WEIGHTS);
	else
		write_from_outside(d, to->data, from->data);
}

/* A convolution sees the new weights, even if its copy was made together with another's. A
 * convolution whose weights are freed does not keep others from copying theirs. */
TEST(convolution_uses_the_latest_weights, WRITERS)
{
	enum { ROWS = 2 };
	const struct image m = {4, 5, 8};
	const struct window win = {3, 1, 1};
	set_up("bf16");
	struct pair *x = activation(ROWS * image_size(m)), *other = parameter(WEIGHTS), *w[2],
		    *y[2];
	struct conv *conv[2][BOTH];
	for (int i = 0; i < 2; i++) {
		w[i] = parameter(WEIGHTS);
		y[i] = activation(ROWS * image_size(m));
		EACH(conv[i][k] = conv_new(&worker[k], m, 8, win, false, false, ROWS));
	}
	for (int round = 0; round < 3; round++) /* in the last round the body is launched again */
		for (int i = 1; i >= 0; i--) {
			EACH(conv_forward(conv[i][k], y[i]->v[k], x->v[k], w[i]->v[k], NULL, ROWS));
			same("conv", y[i], tolerance_of(2));
			EACH(write_weights(_i, w[i], other, k));
		}
	for (int k = 0; k < BOTH; k++) {
		vec_free(w[1]->v[k]);
		w[1]->v[k] = NULL;
	}
	EACH(conv_forward(conv[0][k], y[0]->v[k], x->v[k], w[0]->v[k], NULL, ROWS));
	same("conv", y[0], tolerance_of(2));
	for (int i = 0; i < 2; i++)
		EACH(conv_free(conv[i][k]));
}

struct forward {
	struct conv *conv;
	struct pair *x, *y, *w;
};

static void forward_alone(void *ctx)
{
	struct forward *f = ctx;
	conv_forward(f->conv, f->y->v[GPU], f->x->v[GPU], f->w->v[GPU], NULL, 1);
}

/* A body that is launched again copies no weights of another body that existed when it was
 * captured. */
TEST(graph_copies_only_its_own_weights)
{
	const struct image m = {4, 5, 8};
	struct forward f[2];
	set_up("bf16");
	for (int i = 0; i < 2; i++)
		f[i] = (struct forward){.conv = conv_new(&worker[GPU], m, 8,
							 (struct window){3, 1, 1}, false, false, 1),
					.x = activation(image_size(m)),
					.y = activation(image_size(m)),
					.w = parameter(WEIGHTS)};
	for (int step = 0; step < 3; step++) {
		device[GPU].ops->graph(&device[GPU], 5, forward_alone, &f[0]);
		if (step == 0) {
			forward_alone(&f[1]);
			vec_scale(f[1].w->v[GPU], 0.5f);
		} else if (step == 1) {
			vec_free(f[1].w->v[GPU]);
			f[1].w->v[GPU] = NULL;
		}
	}
	device[GPU].ops->sync(&device[GPU]);
	for (int i = 0; i < 2; i++)
		conv_free(f[i].conv);
}

/* ---- Signs of life ----------------------------------------------------------- */

/* A pulse that a child process shares. */
static struct pulse *shared_pulse(void)
{
	void *p = mmap(NULL, sizeof(struct pulse), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(p, MAP_FAILED);
	return p;
}

/* The number of progresses while a convolution of so many channels is used. */
static int64_t progress_of_conv(size_t channels)
{
	const struct pulse *mine = pulse_mine();
	const int64_t before = PULSE_GET(mine->events);
	used = 0;
	conv_of((struct image){6, 5, channels}, 8, (struct window){3, 1, 1}, 3, tolerance_of(0));
	for (size_t i = 0; i < used; i++)
		EACH(vec_free(pairs[i].v[k]));
	used = 0;
	return PULSE_GET(mine->events) - before;
}

/* Holds the lock of the choices until another process has made three progresses. */
static pid_t hold_choices(const struct pulse *p)
{
	int ready[2];
	char byte = 0;
	const int64_t until = PULSE_GET(p->events) + 3;
	ck_assert_int_eq(pipe(ready), 0);
	const pid_t child = fork();
	if (child == 0) {
		const int fd = open(folder, O_RDONLY | O_DIRECTORY);
		if (flock(fd, LOCK_EX) != 0 || write(ready[1], &byte, 1) != 1)
			_exit(1);
		for (int ms = 0; ms < 20000 && PULSE_GET(p->events) < until; ms++)
			usleep(1000);
		_exit(0);
	}
	ck_assert_int_eq(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	close(ready[1]);
	return child;
}

/* A worker that tries algorithms, or waits for another one that does, has not stalled. In each
 * direction cuDNN tries all, then each one is measured. The emulated cuDNN has two; gradients of
 * weights also have our own. */
TEST(trying_algorithms_is_progress)
{
	enum { DIRECTIONS = 3, TRIALS = 2, EMULATED = DIRECTIONS * (1 + 2) + 1, WAITED = 3 };
	struct pulse *mine = shared_pulse();
	int status;
	folder_new();
	setenv("MVBENCH_CUDA_CACHE", folder, 1);
	unsetenv("MVBENCH_CUDA_OWN");
	set_up("float32");
	pulse_of(mine);
	ck_assert_int_ge(progress_of_conv(8), DIRECTIONS * TRIALS);
	ck_assert_int_eq(progress_of_conv(8), 0);
	const int64_t progress = progress_of_conv(12);
	ck_assert_msg(on_real_gpu() ? progress >= DIRECTIONS * TRIALS : progress == EMULATED, "%jd",
		      (intmax_t)progress);
	const pid_t holder = hold_choices(mine);
	ck_assert_int_ge(progress_of_conv(16), DIRECTIONS * TRIALS + WAITED);
	ck_assert_int_eq(waitpid(holder, &status, 0), holder);
	ck_assert_int_eq(status, 0);
	pulse_of(NULL);
	tear_down();
	folder_free();
}

static pid_t hanging;
static char *ended_because;

static pid_t process_of_hanging(const void *self, int rank)
{
	(void)self, (void)rank;
	return hanging;
}

static char *name_of_hanging(const void *self, int rank)
{
	(void)self;
	return sentence("worker %d", rank);
}

static void end_hanging(void *self, char *why)
{
	(void)self;
	ended_because = why;
}

/* Nothing trains yet: only the start of the GPU has a limit. */
TEST(hanging_start_of_a_gpu_ends_the_run, on_real_gpu() ? 0 : 1)
{
	struct pulse *its = shared_pulse();
	struct stall stall = {.ranks = 1,
			      .pulse = its,
			      .timeout_s = 1,
			      .setting = "--stall-timeout",
			      .process = process_of_hanging,
			      .name = name_of_hanging,
			      .end = end_hanging};
	use_gpu();
	hanging = fork();
	if (hanging == 0) {
		struct device d = {.ops = &device_cuda, .precision = "float32"};
		setenv("FAKE_CUDA_HANG", "1", 1);
		pulse_of(its);
		d.ops->open(&d, 1);
		_exit(0);
	}
	for (int ms = 0; ms < 20000 && PULSE_GET(its->peer) != WAITS_LEGITIMATELY; ms++)
		usleep(1000);
	stall_open(&stall);
	stall_poll(&stall, false);
	ck_assert_ptr_null(ended_because);
	const nsec second = 1000000000;
	stall.looked = clock_now() - 2 * second; /* as if 9 s had passed */
	stall.seen[0].got_on -= 9 * second;
	stall_poll(&stall, false);
	ck_assert_msg(ended_because && strstr(ended_because, "worker 0 waits for its device, for "),
		      "%s", ended_because ? ended_because : "the run goes on");
	free(ended_because);
	stall_close(&stall);
	kill(hanging, SIGKILL);
	ck_assert_int_eq(waitpid(hanging, NULL, 0), hanging);
}

/* ---- Graphs ---------------------------------------------------------------- */

/* If the body cannot be captured, it runs again, with copies of the latest weights. */
TEST(uncapturable_body_uses_the_latest_weights, on_real_gpu() ? 0 : 1)
{
	const struct image m = {4, 5, 8};
	struct conv *conv[BOTH];
	set_up("bf16");
	EACH(conv[k] = conv_new(&worker[k], m, 8, (struct window){3, 1, 1}, false, false, 1));
	struct forward f = {.conv = conv[GPU],
			    .x = activation(image_size(m)),
			    .y = activation(image_size(m)),
			    .w = parameter(WEIGHTS)};
	for (int step = 0; step < 2; step++) {
		if (step)
			setenv("FAKE_CUDA_UNCAPTURABLE", "1", 1);
		conv_forward(conv[CPU], f.y->v[CPU], f.x->v[CPU], f.w->v[CPU], NULL, 1);
		device[GPU].ops->graph(&device[GPU], 5, forward_alone, &f);
		same("conv", f.y, tolerance_of(2));
		EACH(vec_scale(f.w->v[k], 0.5f));
	}
	ck_assert(cuda_of(&device[GPU])->without_graphs); /* the capture has failed */
	EACH(conv_free(conv[k]));
}

struct body {
	struct pair *p, *g, *drops;
	int calls;
};

enum { LAST = 6001 }; /* of gpt with 1,000 layers */

static void step_once(void *ctx)
{
	struct body *b = ctx;
	b->calls++;
	for (int k = 0; k < BOTH; k++) {
		vec_fill(b->drops->v[k], 1);
		vec_dropout(b->drops->v[k], b->drops->n, 0.5f, 4);
		if (device[k].in_graph)
			device[k].ops->event_record(&device[k], LAST);
		vec_sgd(b->p->v[k], NULL, b->g->v[k], device[k].lr, 0, 0, 1);
	}
}

/* The body is called twice for a key. Every launch has its own learning rate and key, and records
 * events to wait for. The CPU's part of the body has to be done here. */
TEST(cuda_graph_is_captured_once_per_key)
{
	enum { STEPS = 5, N = 3000 };
	float *host;
	set_up("float32");
	struct body b = {.p = parameter(N), .g = parameter(N), .drops = parameter(N)};

	host = device[GPU].ops->peer->pinned_new(&device[GPU], N);
	for (int i = 0; i < STEPS; i++) {
		const int before = b.calls;

		for (int k = 0; k < BOTH; k++) {
			device[k].lr = 0.1f * (float)(i + 1);
			device[k].key = (uint64_t)i;
		}
		device[GPU].ops->graph(&device[GPU], 11, step_once, &b);
		ck_assert(!device[GPU].in_graph);
		ck_assert_int_eq(b.calls - before, i < 2);
		if (b.calls == before) {
			vec_fill(b.drops->v[CPU], 1);
			vec_dropout(b.drops->v[CPU], N, 0.5f, 4);
			vec_sgd(b.p->v[CPU], NULL, b.g->v[CPU], device[CPU].lr, 0, 0, 1);
		}
		device[GPU].ops->event_wait(&device[GPU], LAST);
		device[GPU].ops->peer->use_second_stream(&device[GPU], true);
		device[GPU].ops->get(&device[GPU], host, b.drops->v[GPU]->data, N);
		device[GPU].ops->peer->use_second_stream(&device[GPU], false);
		ck_assert_mem_eq(host, b.drops->v[CPU]->data, N * sizeof *host);
		same("kept step", b.p, 1e-6);
	}
	device[GPU].ops->graph(&device[GPU], 12, step_once, &b); /* another key starts again */
	ck_assert_int_eq(b.calls, 3);
	device[GPU].ops->peer->pinned_free(&device[GPU], host);
}

/* Weight gradients run beside the chain. What they read is overwritten only after them, and what
 * they write is read only after them, in a graph and before. */
struct both_gradients {
	struct conv *conv[BOTH];
	struct pair *x, *dy, *w, *dw, *first, *copied, *copy;
};

static void both_gradients(void *ctx)
{
	enum { ROWS = 3 };
	struct both_gradients *b = ctx;
	for (int k = 0; k < BOTH; k++) {
		conv_backward_weight(b->conv[k], b->first->v[k], NULL, b->x->v[k], b->dy->v[k],
				     ROWS);
		conv_backward_weight(b->conv[k], b->copied->v[k], NULL, b->x->v[k], b->dy->v[k],
				     ROWS);
		vec_copy(b->copy->v[k], b->copied->v[k]);
		conv_backward_weight(b->conv[k], b->dw->v[k], NULL, b->x->v[k], b->dy->v[k], ROWS);
		if (device[k].in_graph)
			device[k].ops->event_record(&device[k], 1);
		conv_backward_data(b->conv[k], b->x->v[k], b->dy->v[k], b->w->v[k], false, ROWS);
	}
}

TEST(weight_gradients_run_beside_input_gradients, COUNT(precisions))
{
	enum { ROWS = 3, CHANNELS = 8 };
	const struct image m = {6, 5, CHANNELS};
	const struct window win = {3, 1, 1};
	const double tol = tolerance_of((size_t)_i);
	set_up(precisions[_i].name);
	struct both_gradients b = {.x = activation(ROWS * image_size(m)),
				   .dy = activation(ROWS * image_size(m)),
				   .w = parameter(CHANNELS * CHANNELS * 9),
				   .dw = parameter(CHANNELS * CHANNELS * 9),
				   .first = parameter(CHANNELS * CHANNELS * 9),
				   .copied = parameter(CHANNELS * CHANNELS * 9),
				   .copy = parameter(CHANNELS * CHANNELS * 9)};
	EACH(b.conv[k] = conv_new(&worker[k], m, CHANNELS, win, false, false, ROWS));
	for (int i = 0; i < 2; i++) { /* called, then captured and launched */
		device[GPU].ops->graph(&device[GPU], 5, both_gradients, &b);
		device[GPU].ops->event_wait(&device[GPU], 1);
		device[GPU].ops->peer->use_second_stream(&device[GPU], true);
		same("weights, from their event on", b.dw, tol * (i + 1));
		device[GPU].ops->peer->use_second_stream(&device[GPU], false);
		device[GPU].ops->sync(&device[GPU]);
		same("weights beside", b.dw, tol * (i + 1));
		same("their copy", b.copy, tol * (i + 1));
		same("the first", b.first, tol * (i + 1));
		same("data", b.x, tol);
		EACH(vec_scale(b.w->v[k], 0.5f)); /* so that x differs in the next round */
	}
	EACH(conv_free(b.conv[k]));
}

/* ---- Peers ----------------------------------------------------------------- */

static const enum op_kind kinds[] = {OP_READ, OP_SYNC, OP_ELASTIC, OP_PUSH};

static struct update floats_of_update(float *const at[])
{
	return (struct update){.w = at[0],
			       .state = at[1],
			       .own = at[2],
			       .pulled = at[3],
			       .values = at[4],
			       .out = at[5],
			       .more = at[6]};
}

/* One operation, compared with the host's, on floats at unaligned places: what it writes, and what
 * it leaves unchanged. */
static void one_op(const struct updater *updater, struct table_op op, bool in_is_out)
{
	enum { N = 1001, ROOM = N + 4, FIRST = 3 };
	const struct table_rules rules = {.rows = N, .columns = 1, .updater = updater};
	struct pair *all[7]; /* w, state, own, pulled, in, out, more */
	float *at[BOTH][COUNT(all)];
	for (size_t i = 0; i < COUNT(all); i++) {
		all[i] = parameter(ROOM);
		for (int k = 0; k < BOTH; k++)
			at[k][i] = all[i]->v[k]->data + FIRST;
	}
	for (int k = 0; k < BOTH; k++) { /* sums of squares start at 0; `in` may be `out` */
		float zeros[ROOM] = {0};
		vec_put(all[6]->v[k], zeros);
		vec_put(all[1]->v[k], zeros);
		vec_put(all[2]->v[k], zeros);
		if (in_is_out)
			at[k][4] = at[k][5];
		if (op.kind != OP_PUSH)
			at[k][4] = NULL;
		else if (!op.pull && !in_is_out)
			at[k][5] = NULL;
	}
	for (int round = 0; round < 2; round++) {
		op.number = round + 1;
		struct update host = floats_of_update(at[CPU]), u = floats_of_update(at[GPU]);
		table_apply(&rules, &op, &host, N);
		update_complete(&u, &rules, &op);
		device[GPU].ops->peer->apply(&device[GPU], op.kind, updater->kind, &u, N);
	}
	for (size_t i = 0; i < COUNT(all); i++)
		same(updater->name, all[i], 1e-6);
}

TEST(table_operations_equal_the_hosts, LISTED(updaters))
{
	const struct updater *updater = updaters[_i];
	for (size_t i = 0; i < COUNT(kinds); i++)
		for (int how = 0; how < 4; how++) {
			set_up("float32");
			one_op(updater,
			       (struct table_op){.kind = kinds[i],
						 .pull = how & 1,
						 .staleness = 2,
						 .by = {.scale = 0.5f,
							.lr = 0.1f,
							.momentum = 0.9f,
							.rho = 0.2f,
							.lambda = 0.3f,
							.beta = {0.9, 0.99},
							.eps = 1e-3f}},
			       how & 2);
		}
}

TEST(peer_sum_equals_the_cpus)
{
	enum { N = 1003, K = 5 };
	set_up("float32");
	for (int odd = 0; odd < 2; odd++) {
		struct pair *x[K];
		const float *at[K];
		float *mine AUTOFREE = must(calloc(N, sizeof *mine)),
			    *want AUTOFREE = must(calloc(N, sizeof *want));

		for (int i = 0; i < K; i++) {
			x[i] = parameter(N);
			at[i] = x[i]->v[GPU]->data + odd;
		}
		for (int i = 0; i < N - odd; i++) {
			for (int j = 0; j < K; j++)
				want[i] += x[j]->v[CPU]->data[i + odd];
			want[i] *= 0.25f;
		}
		device[GPU].ops->peer->sum(&device[GPU], x[2]->v[GPU]->data + odd, at, K, 0.25f,
					   N - odd);
		device[GPU].ops->get(&device[GPU], mine, x[2]->v[GPU]->data + odd,
				     (size_t)(N - odd));
		ck_assert_mem_eq(mine, want, (size_t)(N - odd) * sizeof *mine);
	}
}

/* ---- Codecs ------------------------------------------------------------------ */

/* Codecs whose messages the GPU makes. */
static const struct {
	const char *codec, *option, *value;
} coded[] = {
	{"bf16", NULL, NULL},
	{"fp16", NULL, NULL},
	{"int8", "block", "256"},
	{"int8", "block", "8"},
	{"int8", "rounding", "stochastic"},
	{"int4", "block", "64"},
	{"int4", "rounding", "stochastic"},
	{"sign", NULL, NULL},
	{"randomk", "share", "0.01"},
	{"randomk", "share", "0.6"},
	{"randomk", "share", "1"},
	{"randomk", "unbiased", "true"},
	{"topk", "share", "0.01"},
	{"topk", "share", "0.6"},
	{"topk", "share", "1"},
};

/* Floats of all sizes, some equal and some 0. One is `special`, unless that is 0. */
static void draw_floats(float *x, size_t n, float special)
{
	for (size_t i = 0; i < n; i++)
		x[i] = i % 7 == 0    ? (float)(i % 3) - 1
		       : i % 11 == 0 ? -0.0f
				     : (float)(rng_normal(&rng) * exp(4 * rng_normal(&rng)));
	if (special != 0)
		x[n / 2] = special;
}

enum { TENSORS = 30 };

/* Cuts n floats into short tensors, and the rest. */
static size_t cut(struct tensor *tensor, size_t n)
{
	size_t k = 0;
	for (size_t first = 0, some; first < n; first += some, k++) {
		some = k + 1 < TENSORS ? smaller(1 + k * k % 41, n - first) : n - first;
		tensor[k] = (struct tensor){.first = first, .rows = 1, .columns = some};
	}
	return k;
}

/* The GPU's message of x, which is in its memory, and the floats that it adds to y or sets. */
static void expect_own(const struct codec *codec, const struct code *c, const float *x, float *on,
		       float *wire_on, float *y_on)
{
	struct device *d = &device[GPU];
	const struct code_form form = codec->form(c->opts);
	const size_t n = c->n, words = codec->bytes(c) / sizeof(float);
	float *wire AUTOFREE = must(malloc(words * sizeof *wire)),
		    *y AUTOFREE = must(malloc(n * sizeof *y)),
		    *got AUTOFREE = must(malloc((n + words) * sizeof *got));
	d->ops->put(d, on, x, n);
	d->ops->peer->encode(d, &form, c, wire_on, words, on);
	d->ops->get(d, got, wire_on, words);
	codec->encode(c, wire, x);
	for (size_t i = 0; i < words; i++)
		ck_assert_msg(memcmp(wire + i, got + i, sizeof *wire) == 0,
			      "%s of %zu floats: word %zu of %zu", codec->plugin.name, n, i, words);
	for (int add = 0; add < 2; add++) {
		for (size_t i = 0; i < n; i++)
			y[i] = (float)i;
		d->ops->put(d, y_on, y, n);
		ck_assert(d->ops->peer->decode(d, &form, c, y_on, wire_on, words, add));
		d->ops->get(d, got, y_on, n);
		ck_assert(codec->decode(c, y, wire, add));
		for (size_t i = 0; i < n; i++)
			ck_assert_msg(memcmp(y + i, got + i, sizeof *y) == 0 ||
					      (isnan(y[i]) && isnan(got[i])),
				      "%s of %zu floats, add %d: float %zu is %.9g, not %.9g",
				      codec->plugin.name, n, add, i, (double)got[i], (double)y[i]);
	}
}

/* At the start of an allocation, where packs of floats are aligned, and one float after it. */
static void check_coded(size_t row, size_t n)
{
	const struct codec *codec = plugin_find(PART_CODEC, coded[row].codec);
	const float special[] = {0, INFINITY, NAN};
	struct tensor tensor[TENSORS];
	double opts[8] = {0};
	struct device *d = &device[GPU];
	option_default(codec->plugin.options, opts);
	if (coded[row].option)
		ck_assert_ptr_null(option_set(option_find(codec->plugin.options, coded[row].option),
					      opts, codec->plugin.name, coded[row].value));
	const struct code c = {.opts = opts,
			       .n = n,
			       .tensor = tensor,
			       .tensors = cut(tensor, n),
			       .key = 7,
			       .common = 11,
			       .workers = 1};
	const size_t words = codec->bytes(&c) / sizeof(float);
	float *x AUTOFREE = must(malloc(n * sizeof *x)), *on = d->ops->alloc(d, n + 1),
		 *wire = d->ops->alloc(d, words), *y = d->ops->alloc(d, n + 1);
	for (size_t i = 0; i < COUNT(special); i++) {
		draw_floats(x, n, special[i]);
		expect_own(codec, &c, x, on, wire, y);
		expect_own(codec, &c, x, on + 1, wire, y + 1);
	}
	d->ops->free(d, on, n + 1);
	d->ops->free(d, wire, words);
	d->ops->free(d, y, n + 1);
}

TEST(gpu_messages_equal_the_codecs, COUNT(coded))
{
	static const size_t length[] = {1, 2, 31, 507, 8193, 200003};
	set_up("float32");
	for (size_t i = 0; i < COUNT(length); i++)
		check_coded((size_t)_i, length[i]);
}

/* Nothing is written outside of y: the emulated GPU would end the test. */
TEST(gpu_refuses_places_that_do_not_rise, 4)
{
	enum { N = 507, K = 6 };
	static const uint32_t place[][2 * K] = {
		{0, 1, 2, 3, 4, N}, {0, 1, 2, 2, 4, 5}, {5, 4, 3, 2, 1, 0}, {0, 1, 2, 3, 4, N - 1}};
	const struct code c = {.n = N};
	const struct code_form form = {.kind = FORM_TOPK};
	float message[2 * K];
	set_up("float32");
	struct device *d = &device[GPU];
	float *wire = d->ops->alloc(d, 2 * K), *y = d->ops->alloc(d, N);
	memcpy(message, place[_i], sizeof message);
	d->ops->put(d, wire, message, 2 * K);
	for (int add = 0; add < 2; add++)
		ck_assert_int_eq(d->ops->peer->decode(d, &form, &c, y, wire, 2 * K, add), _i == 3);
	d->ops->free(d, wire, 2 * K);
	d->ops->free(d, y, N);
}

/* Each codec whose messages a GPU makes is in the table above. */
TEST(codecs_with_kernels_are_tested)
{
	for (size_t i = 0; codecs[i]; i++) {
		bool found = !codecs[i]->form;
		for (size_t k = 0; k < COUNT(coded); k++)
			found |= strcmp(coded[k].codec, codecs[i]->plugin.name) == 0;
		ck_assert_msg(found, "codec %s", codecs[i]->plugin.name);
	}
}
