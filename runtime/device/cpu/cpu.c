/*
 * cpu.c - the CPU: plain loops that the compiler vectorises. gemm.c has matrices; conv.c, pool.c
 * and norm.c have images. An elementwise pass runs at the speed of the cache that holds its floats.
 */
#include "runtime/device/cpu/cpu.h"
#include "runtime/device/draw.h"

#include <math.h>
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
	ALIGN = 64,     /* a cache line [bytes] */
	PAGE = 4 << 10, /* a page [bytes] */
	HUGE = 2 << 20, /* a huge page [bytes] */
	STEP = 17 *
	       ALIGN, /* a vector's offset in its page, minus that of the vector before [bytes] */
	MAPPED = 64 << 10,    /* from this size on memory is mapped: untouched pages cost nothing */
	MAPPED_HUGE = 4 << 20 /* from this size on in huge pages */
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

/* Velocities of units without gradient decay through denormal numbers. These cost some 150 cycles
 * each on Intel's processors: the perceptron made 0.34 instead of 1.8 million steps per second. */
void cpu_flush_denormals(void)
{
#ifdef __x86_64__
	enum { FLUSH_TO_ZERO = 1 << 15, DENORMALS_ARE_ZERO = 1 << 6 };
	__builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | FLUSH_TO_ZERO | DENORMALS_ARE_ZERO);
#endif
}

static void cpu_open(struct device *d, int threads)
{
	omp_set_num_threads(threads);
}

static size_t whole(size_t bytes, size_t unit)
{
	return (bytes + unit - 1) / unit * unit;
}

/* The unit in which cpu_alloc allocates bytes for n floats. */
static size_t unit_of(size_t n)
{
	size_t bytes = n * sizeof(float);
	return bytes >= MAPPED_HUGE ? HUGE : bytes >= MAPPED ? PAGE : ALIGN;
}

/* The number of bytes that it allocates. */
static size_t footprint(size_t n)
{
	return whole(n * sizeof(float) + (unit_of(n) > ALIGN ? PAGE : 0), unit_of(n));
}

/* A processor assumes that a load depends on an earlier store if the low bits of their addresses
 * are equal. Each vector therefore starts at a different offset in its page: a pass over several
 * vectors then uses different low bits in each. */
static float *staggered(void *p)
{
	static size_t vectors;
	return (float *)(void *)((char *)p + vectors++ * STEP % PAGE);
}

float *cpu_alloc(struct device *d, size_t n)
{
	size_t bytes = footprint(n);
	if (unit_of(n) == ALIGN) {
		float *p = must(aligned_alloc(ALIGN, bytes ? bytes : ALIGN));

		memset(p, 0, bytes);
		return p;
	}
	/* A mapping starts at any page: map one huge page more, and unmap both ends. */
	size_t slack = unit_of(n) == HUGE ? HUGE : 0;
	void *map = mmap(NULL, bytes + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			 -1, 0);

	must(map == MAP_FAILED ? NULL : map);
	if (!slack)
		return staggered(map);
	size_t before = whole((uintptr_t)map, HUGE) - (uintptr_t)map;
	void *p = (char *)map + before;

	if (before)
		munmap(map, before);
	if (before < slack)
		munmap((char *)p + bytes, slack - before);
	madvise(p, bytes, MADV_HUGEPAGE);
	return staggered(p);
}

void cpu_free(struct device *d, float *p, size_t n)
{
	if (unit_of(n) == ALIGN)
		free(p);
	else
		munmap((char *)p - (uintptr_t)p % PAGE, footprint(n));
}

void cpu_put(struct device *d, float *y, const float *host, size_t n)
{
	if (n)
		memcpy(y, host, n * sizeof *y);
}

static void cpu_get(struct device *d, float *host, const float *x, size_t n)
{
	cpu_put(d, host, x, n);
}

/* ---- Elementwise --------------------------------------------------------- */

/* Inlined with a constant formula. */
static inline __attribute__((always_inline)) void map_all(float *y, const float *x, size_t n,
							  float (*f)(float, float, float), float a)
{
#pragma omp simd
	for (size_t i = 0; i < n; i++)
		y[i] = f(y[i], x[i], a);
}

#define CPU_SCALED(name, params, args, kind, amount, effect, from) \
	void cpu_##name DEVICE_PARAMS(params) \
	{ \
		map_all(y, from, n, map_##name, a); \
	}
SCALED_LIST(CPU_SCALED)

#define CPU_MAP(name, ...) \
	void cpu_##name(struct device *d, float *y, const float *x, size_t n) \
	{ \
		map_all(y, x, n, map_##name, 0); \
	}
MAP_LIST(CPU_MAP)

void cpu_copy(struct device *d, float *y, const float *x, size_t n)
{
	cpu_put(d, y, x, n);
}

void cpu_copy_columns(struct device *d, float *y, size_t y_width, const float *x, size_t x_width,
		      size_t rows, size_t n)
{
	for (size_t r = 0; r < rows; r++)
		cpu_put(d, y + r * y_width, x + r * x_width, n);
}

/* ---- Rows ---------------------------------------------------------------- */

void cpu_add_bias(struct device *d, float *restrict y, const float *restrict b, size_t rows,
		  size_t n)
{
	for (size_t r = 0; r < rows; r++)
		for (size_t j = 0; j < n; j++)
			y[r * n + j] += b[j];
}

void cpu_sum_rows(struct device *d, float *restrict b, const float *restrict y, size_t rows,
		  size_t n)
{
	cpu_fill(d, b, 0, n);
	for (size_t r = 0; r < rows; r++)
		for (size_t j = 0; j < n; j++)
			b[j] += y[r * n + j];
}

/* ---- Losses -------------------------------------------------------------- */

/*
 * Per row: loss = log sum_j exp(z_j - max) - (z_label - max), z = (softmax(z) - onehot) / over.
 * Three passes, because exp then runs over all rows at once. A NaN or an infinity among the scores
 * makes the row's sum and the loss a NaN; such a row is not correct.
 */
void cpu_softmax_xent(struct device *d, float *restrict z, const float *restrict target,
		      size_t rows, size_t n, float over)
{
	double loss = 0;
	for (size_t r = 0; r < rows; r++) {
		float *row = z + r * n, max = row[0];
		size_t label = (size_t)target[r];
		bool best = true; /* among equal scores the first wins; with a NaN none wins */

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
		float scale = 1 / (sum * over);

		for (size_t j = 0; j < n; j++)
			row[j] *= scale;
		row[label] -= 1.0f / over;
		loss += logf(sum);
	}
	d->tally.loss += loss;
	d->tally.rows += rows;
}

/* Per row: loss = mean_j (z_j - t_j)^2, z = 2 (z - t) / (over n). */
void cpu_mse(struct device *d, float *restrict z, const float *restrict target, size_t rows,
	     size_t n, float over)
{
	float scale = 2.0f / (over * (float)n);
	double sum = 0;
	for (size_t i = 0; i < rows * n; i++) {
		float e = z[i] - target[i];

		sum += (double)e * e;
		z[i] = scale * e;
	}
	d->tally.loss += sum / n;
	d->tally.rows += rows;
}

/* ---- Data, the tally -------------------------------------- */

/* Prefetches a row: rows are scattered in memory, whose latency is some 100 ns. */
static inline void prefetch(const void *row, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += ALIGN)
		__builtin_prefetch((const char *)row + at);
}

enum { AHEAD = 4 }; /* rows */

/* x[n] = the data's floats from `at` on, or bytes / 255, minus the mean's from `mean` on. */
static inline void take_features(float *restrict x, const struct data *data, size_t at,
				 const float *restrict mean, size_t n)
{
	if (data->bytes) {
		const uint8_t *restrict bytes = data->bytes + at;

		const float unit = data->tokens ? 1 : 1.0f / 255;

		for (size_t j = 0; j < n; j++)
			x[j] = bytes[j] * unit;
	} else {
		memcpy(x, data->floats + at, n * sizeof *x);
	}
	if (mean)
		for (size_t j = 0; j < n; j++)
			x[j] -= mean[j];
}

/* Reverses x[width][channels] along its width. */
static void mirror(float *x, size_t width, size_t channels)
{
	for (size_t a = 0, b = width - 1; a < b; a++, b--)
		for (size_t k = 0; k < channels; k++) {
			float kept = x[a * channels + k];

			x[a * channels + k] = x[b * channels + k];
			x[b * channels + k] = kept;
		}
}

/* Crops the image that begins at `at` of the data: line by line, the part inside the image, and
 * zeros on both sides. */
static void take_crop(float *x, const struct data *data, size_t at, const struct transform *t,
		      struct crop c)
{
	const size_t width = t->image.width, channels = t->image.channels, line = width * channels,
		     left = smaller(width, c.right < t->pad ? t->pad - c.right : 0),
		     right = smaller(width, c.right > t->pad ? c.right - t->pad : 0),
		     n = width - left - right; /* pixels from `right` on go to `left` */
	for (size_t i = 0; i < t->image.height; i++, x += line) {
		const size_t row = i + c.down - t->pad; /* wraps around above the image */
		const size_t from = row * line + right * channels;

		if (row >= t->image.height) {
			memset(x, 0, line * sizeof *x);
			continue;
		}
		memset(x, 0, left * channels * sizeof *x);
		take_features(x + left * channels, data, at + from, t->mean ? t->mean + from : NULL,
			      n * channels);
		memset(x + (left + n) * channels, 0, right * channels * sizeof *x);
		if (c.mirror)
			mirror(x, width, channels);
	}
}

void cpu_gather(struct device *d, float *restrict x, float *restrict y, const struct data *data,
		const int32_t *index, size_t count, const struct transform *t)
{
	const size_t f = data->features, targets = data_targets(data);
	const bool crops = t && (t->pad || t->flip);
	for (size_t i = 0; i < count; i++, x += f) {
		const size_t at = (size_t)index[i] * f;

		cpu_put(d, y + i * targets, data->target + (size_t)index[i] * targets, targets);
		if (data->bytes && i + AHEAD < count)
			prefetch(data->bytes + (size_t)index[i + AHEAD] * f, f);
		if (crops)
			take_crop(x, data, at, t, crop_of(t->key, index[i], t->pad, t->flip));
		else
			take_features(x, data, at, t ? t->mean : NULL, f);
	}
}

static void cpu_tally(struct device *d, struct tally *out)
{
	*out = d->tally;
	d->tally = (struct tally){0};
}

/* ---- Dropout ------------------------------------------------------------- */

void cpu_dropout(struct device *d, float *y, float p, uint64_t salt, size_t n)
{
	const uint64_t key = d->key;
	const float scale = 1 / (1 - p);
	for (size_t i = 0; i < n; i++)
		y[i] = dropout_keeps(key, salt, i, p) ? y[i] * scale : 0;
}

#define SLOT(name, ...)   .name = cpu_##name,
#define LAYER_SLOTS(name) .name##_new = cpu_##name##_new, .name##_free = cpu_##name##_free,
const struct device_ops device_cpu = {.name = "cpu",
				      .summary = "the processor, with oneDNN",
				      .host = true,
				      DEVICE_BASICS(cpu),
				      DEVICE_OPS(SLOT) DEVICE_LAYERS(LAYER_SLOTS)};
