/*
 * cpu.c - the CPU: oneDNN's sgemm for matrices, plain loops that the compiler vectorises for the
 * rest.
 *
 * Costs, one core of a 2.45 GHz Zen 3: sgemm runs at 75 to 95 GFLOP/s on hidden layers and at 40 on
 * 10 outputs; an elementwise pass runs at the speed of the cache that holds its floats. Matrices up
 * to TINY go through loops of our own, since a call of sgemm costs more than they do.
 */
#include "runtime/device/cpu.h"
#include "runtime/device/draw.h"

#include <math.h>
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* glibc has vector versions of these two (libmvec, within 4 ulp); said here, since its header says
 * so only under -ffast-math, which would also lose NaNs. 1.3 and 0.7 ns a number; oneDNN's
 * tanh: 4.6. */
#if defined __x86_64__ && defined __GLIBC__
__attribute__((simd("notinbranch"), const)) float tanhf(float);
__attribute__((simd("notinbranch"), const)) float expf(float);
#endif

enum {
	ALIGN = 64,     /* a cache line [bytes] */
	HUGE = 2 << 20, /* a huge page [bytes] */
	MAPPED =
		64 << 10, /* from here on memory is mapped, so that what is never touched is free */
	MAPPED_HUGE = 4 << 20 /* and from here on in huge pages */
};

/* ---- Memory -------------------------------------------------------------- */

static const char *cpu_probe(struct device_facts *f)
{
	const dnnl_version_t *v = dnnl_version();

	if (f) {
		*f = (struct device_facts){.count = 1};
		snprintf(f->version, sizeof f->version, "oneDNN %d.%d.%d", v->major, v->minor,
			 v->patch);
	}
	return NULL;
}

/* Velocities of units that get no gradient fade through denormal numbers, which take Intel's
 * processors some 150 cycles each: the perceptron made 0.34 instead of 1.8 million steps a second.
 */
void cpu_flush_denormals(void)
{
#ifdef __x86_64__
	enum { FLUSH_TO_ZERO = 1 << 15, DENORMALS_ARE_ZERO = 1 << 6 };

	__builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | FLUSH_TO_ZERO | DENORMALS_ARE_ZERO);
#endif
}

static void cpu_open(struct device *d, int threads)
{
	(void)d;
	omp_set_num_threads(threads);
}

static void cpu_close(struct device *d)
{
	cpu_image_close(d);
}

static size_t whole(size_t bytes, size_t unit)
{
	return (bytes + unit - 1) / unit * unit;
}

/* As many bytes as alloc took for n floats. */
static size_t footprint(size_t n)
{
	size_t bytes = n * sizeof(float);

	return whole(bytes, bytes >= MAPPED_HUGE ? HUGE : bytes >= MAPPED ? 4096 : ALIGN);
}

static float *cpu_alloc(struct device *d, size_t n)
{
	size_t bytes = footprint(n);

	(void)d;
	if (bytes < MAPPED) {
		float *p = must(aligned_alloc(ALIGN, bytes ? bytes : ALIGN));

		memset(p, 0, bytes);
		return p;
	}
	/* A mapping starts at any page: map one huge page more, and give back what sticks out. */
	size_t slack = bytes >= MAPPED_HUGE ? HUGE : 0;
	void *map = mmap(NULL, bytes + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			 -1, 0);

	must(map == MAP_FAILED ? NULL : map);
	if (!slack)
		return map;
	size_t before = whole((uintptr_t)map, HUGE) - (uintptr_t)map;
	void *p = (char *)map + before;

	if (before)
		munmap(map, before);
	if (before < slack)
		munmap((char *)p + bytes, slack - before);
	madvise(p, bytes, MADV_HUGEPAGE);
	return p;
}

static void cpu_free(struct device *d, float *p, size_t n)
{
	size_t bytes = footprint(n);

	(void)d;
	if (bytes < MAPPED)
		free(p);
	else
		munmap(p, bytes);
}

static void cpu_put(struct device *d, float *y, const float *host, size_t n)
{
	(void)d;
	if (n)
		memcpy(y, host, n * sizeof *y);
}

static void cpu_get(struct device *d, float *host, const float *x, size_t n)
{
	cpu_put(d, host, x, n);
}

/* ---- Elementwise --------------------------------------------------------- */

static void cpu_fill(struct device *d, float *y, float a, size_t n)
{
	(void)d;
	for (size_t i = 0; i < n; i++)
		y[i] = a;
}

static void cpu_copy(struct device *d, float *y, const float *x, size_t n)
{
	cpu_put(d, y, x, n);
}

static void cpu_scale(struct device *d, float *y, float a, size_t n)
{
	(void)d;
	for (size_t i = 0; i < n; i++)
		y[i] *= a;
}

static void cpu_axpy(struct device *d, float *restrict y, float a, const float *restrict x,
		     size_t n)
{
	(void)d;
	for (size_t i = 0; i < n; i++)
		y[i] += a * x[i];
}

static void cpu_take_columns(struct device *d, float *y, const float *x, size_t rows, size_t width,
			     size_t first, size_t n)
{
	for (size_t r = 0; r < rows; r++)
		cpu_put(d, y + r * n, x + r * width + first, n);
}

static void cpu_put_columns(struct device *d, float *y, const float *x, size_t rows, size_t width,
			    size_t first, size_t n)
{
	for (size_t r = 0; r < rows; r++)
		cpu_put(d, y + r * width + first, x + r * n, n);
}

/* ---- Matrices ------------------------------------------------------------ */

/* y[m x n] = op(a)[m x k] op(b)[k x n], as it is defined. What is too narrow for the blocks below
 * comes here too. */
static void gemm_plain(float *restrict y, bool at, const float *restrict a, bool bt,
		       const float *restrict b, size_t m, size_t n, size_t k)
{
	size_t ai = at ? 1 : k, ap = at ? m : 1, bj = bt ? k : 1, bp = bt ? 1 : n;

	for (size_t i = 0; i < m; i++)
		for (size_t j = 0; j < n; j++) {
			float sum = 0;

			for (size_t p = 0; p < k; p++)
				sum += a[i * ai + p * ap] * b[j * bj + p * bp];
			y[i * n + j] = sum;
		}
}

/* Eight floats anywhere in memory; the compiler makes of them what the machine has. */
enum { LANES = 8 };
typedef float lanes __attribute__((vector_size(LANES * sizeof(float)), aligned(4), may_alias));
typedef int32_t lane_numbers __attribute__((vector_size(LANES * sizeof(int32_t))));

static inline lanes load(const float *p)
{
	return *(const lanes *)p;
}

#define PICK(a, b, ...) __builtin_shuffle(a, b, (lane_numbers){__VA_ARGS__})

/* Lane i of the result is the sum of the lanes of v[i]. */
static inline lanes sums_of(const lanes v[LANES])
{
	lanes two[4], four[2];

	for (int i = 0; i < 4; i++)
		two[i] = PICK(v[2 * i], v[2 * i + 1], 0, 8, 1, 9, 4, 12, 5, 13) +
			 PICK(v[2 * i], v[2 * i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
	for (int i = 0; i < 2; i++)
		four[i] = PICK(two[2 * i], two[2 * i + 1], 0, 1, 8, 9, 4, 5, 12, 13) +
			  PICK(two[2 * i], two[2 * i + 1], 2, 3, 10, 11, 6, 7, 14, 15);
	return PICK(four[0], four[1], 0, 1, 2, 3, 8, 9, 10, 11) +
	       PICK(four[0], four[1], 4, 5, 6, 7, 12, 13, 14, 15);
}

/* Blocks of eight; the last one ends at n and covers again what the one before it did. */
static inline size_t block(size_t at, size_t n)
{
	return at + LANES <= n ? at : n - LANES;
}

/* y[m x n] = a[m x k] b^T, b[n x k]: eight dot products at once. n and k at least LANES. */
static void gemm_dots(float *restrict y, const float *restrict a, const float *restrict b, size_t m,
		      size_t n, size_t k)
{
	size_t tail = k % LANES;

	for (size_t i = 0; i < m; i++, a += k) {
		lanes last = load(a + k - LANES); /* of a, without what whole blocks covered */

		for (size_t p = 0; p < LANES - tail; p++)
			last[p] = 0;
		for (size_t j = 0; j < n; j += LANES) {
			const float *rows = b + block(j, n) * k;
			lanes sum[LANES] = {0};

			for (size_t p = 0; p + LANES <= k; p += LANES)
				for (size_t r = 0; r < LANES; r++)
					sum[r] += load(a + p) * load(rows + r * k + p);
			if (tail)
				for (size_t r = 0; r < LANES; r++)
					sum[r] += last * load(rows + r * k + k - LANES);
			*(lanes *)(y + i * n + block(j, n)) = sums_of(sum);
		}
	}
}

/* Returns a . b, both [k]. */
static float dot(const float *restrict a, const float *restrict b, size_t k)
{
	float sum = 0;

#pragma omp simd reduction(+ : sum)
	for (size_t p = 0; p < k; p++)
		sum += a[p] * b[p];
	return sum;
}

/* y[m x n] = op(a) b, b[k x n]: sums of rows of b, eight columns at once. n at least LANES. */
static void gemm_rows(float *restrict y, bool at, const float *restrict a, const float *restrict b,
		      size_t m, size_t n, size_t k)
{
	size_t ai = at ? 1 : k, ap = at ? m : 1;

	for (size_t i = 0; i < m; i++, a += ai)
		for (size_t j = 0; j < n; j += LANES) {
			size_t first = block(j, n);
			lanes sum = a[0] * load(b + first);

			for (size_t p = 1; p < k; p++)
				sum += a[p * ap] * load(b + p * n + first);
			*(lanes *)(y + i * n + first) = sum;
		}
}

/* y[m x n] = a b^T, the outer product of a[m] and b[n]. n at least LANES. */
static void gemm_outer(float *restrict y, const float *restrict a, const float *restrict b,
		       size_t m, size_t n)
{
	for (size_t j = 0; j < n; j += LANES) {
		size_t first = block(j, n);
		lanes row = load(b + first);

		for (size_t i = 0; i < m; i++)
			*(lanes *)(y + i * n + first) = a[i] * row;
	}
}

/*
 * Up to TINY multiply-adds the loops above win: a call of sgemm costs 0.4 us before it computes,
 * and has little to hold on to in matrices that are thin. Measured [us], here and there: 1 x 100 x
 * 10 of the second kind transposed 0.10, 0.45; 100 x 10 x 1 0.08, 0.68; 16 x 16 x 16 0.3, 0.4; 20 x
 * 20 x 20 0.65, 0.65; 32 x 32 x 32 1.7 to 2.5, 1.0.
 */
enum { TINY = 20 * 20 * 20 };

static void cpu_gemm(struct device *d, float *y, bool at, const float *a, bool bt, const float *b,
		     size_t m, size_t n, size_t k)
{
	(void)d;
	if (m * n * k <= TINY) {
		if (bt && !at && n >= LANES && k >= LANES)
			gemm_dots(y, a, b, m, n, k);
		else if (m == 1 && n == 1)
			*y = dot(a, b, k);
		else if (!bt && n >= LANES && k == 1)
			gemm_outer(y, a, b, m, n);
		else if (!bt && n >= LANES && k > 1)
			gemm_rows(y, at, a, b, m, n, k);
		else
			gemm_plain(y, at, a, bt, b, m, n, k);
		return;
	}
	dnnl_status_t status = dnnl_sgemm(at ? 'T' : 'N', bt ? 'T' : 'N', m, n, k, 1, a, at ? m : k,
					  b, bt ? k : n, 0, y, n);

	CHECK(status == dnnl_success, "sgemm of %zu x %zu x %zu: oneDNN status %d", m, n, k,
	      status);
}

static void cpu_add_bias(struct device *d, float *restrict y, const float *restrict b, size_t rows,
			 size_t n)
{
	(void)d;
	for (size_t r = 0; r < rows; r++)
		for (size_t j = 0; j < n; j++)
			y[r * n + j] += b[j];
}

static void cpu_sum_rows(struct device *d, float *restrict b, const float *restrict y, size_t rows,
			 size_t n)
{
	cpu_fill(d, b, 0, n);
	for (size_t r = 0; r < rows; r++)
		for (size_t j = 0; j < n; j++)
			b[j] += y[r * n + j];
}

/* ---- Activations --------------------------------------------------------- */

/* A NaN stays one. */
static void cpu_relu(struct device *d, float *y, size_t n)
{
	(void)d;
	for (size_t i = 0; i < n; i++)
		y[i] = y[i] < 0 ? 0 : y[i];
}

static void cpu_relu_grad(struct device *d, float *restrict dy, const float *restrict y, size_t n)
{
	(void)d;
	for (size_t i = 0; i < n; i++) {
		float g = dy[i];

		dy[i] = y[i] == 0 ? 0 : g;
	}
}

static void cpu_tanh(struct device *d, float *y, size_t n)
{
	(void)d;
#pragma omp simd
	for (size_t i = 0; i < n; i++)
		y[i] = tanhf(y[i]);
}

static void cpu_tanh_grad(struct device *d, float *restrict dy, const float *restrict y, size_t n)
{
	(void)d;
	for (size_t i = 0; i < n; i++)
		dy[i] *= 1 - y[i] * y[i];
}

/* ---- Losses -------------------------------------------------------------- */

/*
 * Per row: loss = log sum_j exp(z_j - max) - (z_label - max), z = (softmax(z) - onehot) / rows.
 * Three passes, so that exp runs over all rows at once. A NaN or an infinity among the scores makes
 * the row's sum, and so the loss, a NaN; such a row is not a correct answer.
 */
static void cpu_softmax_xent(struct device *d, float *restrict z, const float *restrict target,
			     size_t rows, size_t n)
{
	double loss = 0;

	for (size_t r = 0; r < rows; r++) {
		float *row = z + r * n, max = row[0];
		size_t label = (size_t)target[r];
		bool best = true; /* the first among equals is the answer; no answer beats a NaN */

		CHECK(label < n, "softmax_xent: label %g of %zu classes", (double)target[r], n);
		for (size_t j = 1; j < n; j++)
			max = row[j] > max ? row[j] : max;
		for (size_t j = 0; j < n; j++)
			best &= j < label ? row[j] < max : row[j] <= max;
		d->tally.correct += best && row[label] == max;
		for (size_t j = 0; j < n; j++)
			row[j] -= max;
		loss -= row[label];
	}
#pragma omp simd
	for (size_t i = 0; i < rows * n; i++)
		z[i] = expf(z[i]);
	for (size_t r = 0; r < rows; r++) {
		float *row = z + r * n, sum = row[0];
		size_t label = (size_t)target[r];

		for (size_t j = 1; j < n; j++)
			sum += row[j];
		float scale = 1 / (sum * rows);

		for (size_t j = 0; j < n; j++)
			row[j] *= scale;
		row[label] -= 1.0f / rows;
		loss += logf(sum);
	}
	d->tally.loss += loss;
	d->tally.rows += rows;
}

/* Per row: loss = mean_j (z_j - t_j)^2, z = 2 (z - t) / (rows n). */
static void cpu_mse(struct device *d, float *restrict z, const float *restrict target, size_t rows,
		    size_t n)
{
	float scale = 2.0f / (rows * n);
	double sum = 0;

	for (size_t i = 0; i < rows * n; i++) {
		float e = z[i] - target[i];

		sum += (double)e * e;
		z[i] = scale * e;
	}
	d->tally.loss += sum / n;
	d->tally.rows += rows;
}

/* ---- The optimiser, data, the tally -------------------------------------- */

static void cpu_sgd(struct device *d, float *restrict p, float *restrict v, const float *restrict g,
		    float lr, float m, float decay, float scale, size_t n)
{
	(void)d;
	if (v)
		for (size_t i = 0; i < n; i++) {
			v[i] = m * v[i] + (scale * g[i] + decay * p[i]);
			p[i] -= lr * v[i];
		}
	else
		for (size_t i = 0; i < n; i++)
			p[i] -= lr * (scale * g[i] + decay * p[i]);
}

/* Asks for a row before it is needed: rows are anywhere, and memory answers after some 100 ns. */
static inline void prefetch(const void *row, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += ALIGN)
		__builtin_prefetch((const char *)row + at);
}

enum { AHEAD = 4 }; /* rows */

/* x[n] = the data's floats from `at` on, or bytes / 255, minus the mean's from `mean` on. */
static inline void take(float *restrict x, const struct data *data, size_t at,
			const float *restrict mean, size_t n)
{
	if (data->bytes) {
		const uint8_t *restrict bytes = data->bytes + at;

		for (size_t j = 0; j < n; j++)
			x[j] = bytes[j] * (1.0f / 255);
	} else {
		memcpy(x, data->floats + at, n * sizeof *x);
	}
	if (mean)
		for (size_t j = 0; j < n; j++)
			x[j] -= mean[j];
}

/* x[width][channels] from back to front. */
static void mirror(float *x, size_t width, size_t channels)
{
	for (size_t a = 0, b = width - 1; a < b; a++, b--)
		for (size_t k = 0; k < channels; k++) {
			float kept = x[a * channels + k];

			x[a * channels + k] = x[b * channels + k];
			x[b * channels + k] = kept;
		}
}

/* The image that begins at `at` of the data, cropped: line by line, what lies inside of it, and
 * zeros on both sides. */
static void take_crop(float *x, const struct data *data, size_t at, const struct transform *t,
		      struct crop c)
{
	const size_t width = t->image.width, channels = t->image.channels, line = width * channels,
		     left = smaller(width, c.right < t->pad ? t->pad - c.right : 0),
		     right = smaller(width, c.right > t->pad ? c.right - t->pad : 0),
		     n = width - left - right; /* pixels from `right` on come to `left` */

	for (size_t i = 0; i < t->image.height; i++, x += line) {
		const size_t row = i + c.down - t->pad; /* wraps where it lies above */
		const size_t from = row * line + right * channels;

		if (row >= t->image.height) {
			memset(x, 0, line * sizeof *x);
			continue;
		}
		memset(x, 0, left * channels * sizeof *x);
		take(x + left * channels, data, at + from, t->mean ? t->mean + from : NULL,
		     n * channels);
		memset(x + (left + n) * channels, 0, right * channels * sizeof *x);
		if (c.mirror)
			mirror(x, width, channels);
	}
}

static void cpu_gather(struct device *d, float *restrict x, float *restrict y,
		       const struct data *data, const int32_t *index, size_t count,
		       const struct transform *t)
{
	const size_t f = data->features;
	const bool crops = t && (t->pad || t->flip);

	(void)d;
	for (size_t i = 0; i < count; i++, x += f) {
		const size_t at = (size_t)index[i] * f;

		y[i] = data->target[index[i]];
		if (data->bytes && i + AHEAD < count)
			prefetch(data->bytes + (size_t)index[i + AHEAD] * f, f);
		if (crops)
			take_crop(x, data, at, t, crop_of(t->key, index[i], t->pad, t->flip));
		else
			take(x, data, at, t ? t->mean : NULL, f);
	}
}

static void cpu_tally(struct device *d, struct tally *out)
{
	*out = d->tally;
	d->tally = (struct tally){0};
}

/* ---- Dropout ------------------------------------------------------------- */

static void cpu_dropout(struct device *d, float *y, float p, uint64_t salt, size_t n)
{
	const uint64_t key = d->key;
	const float scale = 1 / (1 - p);

	for (size_t i = 0; i < n; i++)
		y[i] = dropout_keeps(key, salt, i, p) ? y[i] * scale : 0;
}

const struct device_ops device_cpu = {
	.name = "cpu",
	.summary = "the processor, with oneDNN",
	.probe = cpu_probe,
	.open = cpu_open,
	.close = cpu_close,
	.alloc = cpu_alloc,
	.free = cpu_free,
	.put = cpu_put,
	.get = cpu_get,
	.fill = cpu_fill,
	.copy = cpu_copy,
	.scale = cpu_scale,
	.axpy = cpu_axpy,
	.take_columns = cpu_take_columns,
	.put_columns = cpu_put_columns,
	.gemm = cpu_gemm,
	.add_bias = cpu_add_bias,
	.sum_rows = cpu_sum_rows,
	.relu = cpu_relu,
	.relu_grad = cpu_relu_grad,
	.tanh = cpu_tanh,
	.tanh_grad = cpu_tanh_grad,
	.softmax_xent = cpu_softmax_xent,
	.mse = cpu_mse,
	.sgd = cpu_sgd,
	.gather = cpu_gather,
	.tally = cpu_tally,
	.dropout = cpu_dropout,
	.shortcut = cpu_shortcut,
	.shortcut_grad = cpu_shortcut_grad,
	.conv_new = cpu_conv_new,
	.conv_free = cpu_conv_free,
	.conv_forward = cpu_conv_forward,
	.conv_backward_weight = cpu_conv_backward_weight,
	.conv_backward_data = cpu_conv_backward_data,
	.pool_new = cpu_pool_new,
	.pool_free = cpu_pool_free,
	.pool_forward = cpu_pool_forward,
	.pool_backward = cpu_pool_backward,
	.norm_new = cpu_norm_new,
	.norm_free = cpu_norm_free,
	.norm_forward = cpu_norm_forward,
	.norm_backward = cpu_norm_backward,
};
