/*
 * pool.c - poolings and shortcuts on the CPU, in own loops.
 *
 * The inner loop of a pooling runs over the channels of one place of one window. Maximum of 2 x 2
 * on 64 x 28 x 28 x 32, forward and backward, one core [ms]: 0.7 and 0.5, oneDNN's 1.2 and 1.0;
 * with AVX2 0.8 and 0.5, oneDNN's 6.5 and 3.9.
 */
#include "runtime/device/cpu/cpu.h"

#include <stdlib.h>
#include <string.h>

struct cpu_pool {
	struct shape s;
	uint8_t *winner; /* [rows_max x out]: the maximum's place in its window (last forward) */
	int32_t *place;  /* [C]: the same for one window */
	float share;     /* weight of a pixel in the mean */
};

static size_t winners(const struct cpu_pool *p)
{
	return p->s.average ? 0 : p->s.rows_max * image_size(p->s.out);
}

void *cpu_pool_new(struct device *d, const struct shape *s)
{
	struct cpu_pool *p = must(calloc(1, sizeof *p));
	CHECK(s->average || s->window.size < 16, "a pooling window of %zu: the maximum is 15",
	      s->window.size);
	p->s = *s;
	p->share = 1.0f / (float)(s->window.size * s->window.size);
	p->place = must(calloc(s->in.channels, sizeof *p->place));
	p->winner = must(calloc(winners(p) + 1, 1));
	d->workspace_bytes += winners(p);
	return p;
}

void cpu_pool_free(struct device *d, void *pool)
{
	struct cpu_pool *p = pool;
	free(p->winner);
	free(p->place);
	free(p);
}

/* The pixels that window i of an axis of n pixels covers. */
struct span {
	size_t first, end;
};

static struct span span_of(struct window win, size_t i, size_t n)
{
	const size_t from = i * win.stride, to = from + win.size;
	return (struct span){from < win.pad ? 0 : from - win.pad, smaller(to - win.pad, n)};
}

static void larger(float *restrict y, int32_t *restrict place, const float *restrict x, int32_t k,
		   size_t channels)
{
	for (size_t c = 0; c < channels; c++) {
		const bool more = x[c] > y[c];

		y[c] = more ? x[c] : y[c];
		place[c] = more ? k : place[c];
	}
}

static void add_scaled(float *restrict y, const float *restrict x, float scale, size_t channels)
{
	for (size_t c = 0; c < channels; c++)
		y[c] += scale * x[c];
}

static void add_where(float *restrict dx, const int32_t *restrict place, const float *restrict dy,
		      int32_t k, size_t channels)
{
	for (size_t c = 0; c < channels; c++)
		dx[c] += place[c] == k ? dy[c] : 0;
}

/* The functions below pool x to y or, with `back`, add to the gradient x what y's gradient gives
 * it. They are inlined with a constant `back`. */
#define INLINED static inline __attribute__((always_inline))

/* One pixel of the output, of the window down x across of an image. */
INLINED void window(const struct cpu_pool *p, float *y, float *image, struct span down,
		    struct span across, bool back)
{
	const size_t channels = p->s.in.channels;
	int32_t k = 0;
	if (p->s.average && !back)
		memset(y, 0, channels * sizeof *y);
	for (size_t h = down.first; h < down.end; h++)
		for (size_t w = across.first; w < across.end; w++, k++) {
			float *x = image + (h * p->s.in.width + w) * channels;

			if (p->s.average) {
				add_scaled(back ? x : y, back ? y : x, p->share, channels);
			} else if (back) {
				add_where(x, p->place, y, k, channels);
			} else if (k) {
				larger(y, p->place, x, k, channels);
			} else {
				memcpy(y, x, channels * sizeof *y);
				memset(p->place, 0, channels * sizeof *p->place);
			}
		}
}

INLINED void windows(const struct cpu_pool *p, float *y, float *x, size_t rows, bool back)
{
	const struct image in = p->s.in, out = p->s.out;
	const size_t kept = p->s.average ? 0 : in.channels;
	int32_t *place = p->place;
	uint8_t *winner = p->winner;
	for (size_t r = 0; r < rows; r++, x += image_size(in)) {
		if (back)
			memset(x, 0, image_size(in) * sizeof *x);
		for (size_t h = 0; h < out.height; h++)
			for (size_t w = 0; w < out.width; w++, y += in.channels) {
				for (size_t c = 0; back && c < kept; c++)
					place[c] = *winner++;
				window(p, y, x, span_of(p->s.window, h, in.height),
				       span_of(p->s.window, w, in.width), back);
				for (size_t c = 0; !back && c < kept; c++)
					*winner++ = (uint8_t)place[c];
			}
	}
}

void cpu_pool_forward(struct device *d, void *pool, float *y, const float *x, size_t rows)
{
	windows(pool, y, (float *)(uintptr_t)x, rows, false);
}

void cpu_pool_backward(struct device *d, void *pool, float *dx, const float *dy, const float *x,
		       const float *y, size_t rows)
{
	windows(pool, (float *)(uintptr_t)dy, dx, rows, true);
}

/* ---- Shortcuts ----------------------------------------------------------- */

void cpu_shortcut(struct device *d, float *restrict y, const float *restrict x, struct image in,
		  size_t stride, size_t out, size_t rows)
{
	const size_t before = (out - in.channels) / 2;
	for (size_t r = 0; r < rows; r++, x += image_size(in))
		for (size_t i = 0; i < in.height; i += stride)
			for (size_t j = 0; j < in.width; j += stride, y += out) {
				const float *from = x + (i * in.width + j) * in.channels;

				for (size_t c = 0; c < before; c++)
					y[c] = 0;
				for (size_t c = 0; c < in.channels; c++)
					y[before + c] = from[c];
				for (size_t c = before + in.channels; c < out; c++)
					y[c] = 0;
			}
}

void cpu_shortcut_grad(struct device *d, float *restrict dx, const float *restrict dy,
		       struct image in, size_t stride, size_t out, size_t rows)
{
	const size_t before = (out - in.channels) / 2, across = strided(in.width, stride),
		     down = strided(in.height, stride);
	for (size_t r = 0; r < rows; r++, dy += down * across * out)
		for (size_t i = 0; i < in.height; i++)
			for (size_t j = 0; j < in.width; j++, dx += in.channels) {
				const bool went = i % stride == 0 && j % stride == 0;
				const float *from =
					dy + (i / stride * across + j / stride) * out + before;

				for (size_t c = 0; c < in.channels; c++)
					dx[c] = went ? from[c] : 0;
			}
}
