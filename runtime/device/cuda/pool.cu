/*
 * pool.cu - poolings and shortcuts on the GPU, [rows x height x width x channels]. Among equal
 * numbers in a window the first gets the gradient; cuDNN's poolings do not define which.
 */
#include "runtime/device/cuda/kernel.h"

#include <limits.h>
#include <stdlib.h>

namespace
{
struct geometry {
	unsigned in_height, in_width, in_channels, out_height, out_width, out_channels;
	unsigned size = 1, stride = 1, pad = 0; /* of windows */
	bool average = false;
	/* The index of a pixel's first number. */
	__device__ size_t in(size_t r, unsigned h, unsigned w) const
	{
		return ((r * in_height + h) * in_width + w) * in_channels;
	}
	__device__ size_t out(size_t r, unsigned h, unsigned w) const
	{
		return ((r * out_height + h) * out_width + w) * out_channels;
	}
};

/* Numbers c .. c + V - 1 of pixel (h, w) of row r. */
template <int V> struct spot {
	size_t r;
	unsigned h, w, c;
};

/* f(spot, g, p ...) for all `rows` images: blockIdx.y is the row, and each thread has one pack of
 * an image. */
template <int V, typename F, typename... P>
__global__ void __launch_bounds__(THREADS)
	each_spot(unsigned height, unsigned width, unsigned channels, size_t rows, F f, geometry g,
		  P... p)
{
	unsigned packs = channels / V, i = blockIdx.x * blockDim.x + threadIdx.x;
	unsigned c = i % packs * V, w = i / packs % width, h = i / packs / width;
	for (size_t r = blockIdx.y; h < height && r < rows; r += gridDim.y)
		f(spot<V>{r, h, w, c}, g, p...);
}

template <int V, typename F, typename... P>
void for_spots(struct device *d, unsigned height, unsigned width, unsigned channels, size_t rows,
	       F f, const geometry &g, P... p)
{
	const size_t packs = (size_t)height * width * (channels / V);
	const unsigned threads = packs < THREADS ? ((unsigned)packs + 31) / 32 * 32 : THREADS;
	const dim3 blocks((unsigned)((packs + threads - 1) / threads),
			  (unsigned)smaller(rows, MOST_ROWS));
	QUEUE(d, (each_spot<V, F, P...>), blocks, threads, height, width, channels, rows, f, g,
	      p...);
}

/* All spots of the input images, or of the output images. */
#define FOR_INS(d, g, rows, ...) \
	for_spots<V>(d, (g).in_height, (g).in_width, (g).in_channels, rows, __VA_ARGS__)
#define FOR_OUTS(d, g, rows, ...) \
	for_spots<V>(d, (g).out_height, (g).out_width, (g).out_channels, rows, __VA_ARGS__)

struct pooled {
	template <int V, typename T>
	__device__ void operator()(spot<V> o, const geometry &g, T *y, const T *x) const
	{
		int top = (int)(o.h * g.stride) - (int)g.pad;
		int left = (int)(o.w * g.stride) - (int)g.pad;
		int h0 = top < 0 ? 0 : top, h1 = min(top + (int)g.size, (int)g.in_height);
		int w0 = left < 0 ? 0 : left, w1 = min(left + (int)g.size, (int)g.in_width);
		float share = 1.0f / (g.size * g.size), best[V];

		for (int v = 0; v < V; v++)
			best[v] = g.average ? 0 : -INFINITY;
		for (int h = h0; h < h1; h++)
#pragma unroll 4
			for (int w = w0; w < w1; w++) {
				pack<T, V> p = load<V>(x + g.in(o.r, h, w) + o.c);

#pragma unroll
				for (int v = 0; v < V; v++) {
					float a = number(p.v[v]);
					best[v] = g.average               ? best[v] + a
						  : a > best[v] || a != a ? a
									  : best[v];
				}
			}
		store_each<V>(y + g.out(o.r, o.h, o.w) + o.c,
			      [&](int v) { return g.average ? best[v] * share : best[v]; });
	}
};

/* Is pixel (h, k), which equals y, the first such pixel of the window at (top, left)? from: the
 * image, at this channel. */
template <typename T>
__device__ inline bool first_of(const T *from, const geometry &g, int top, int left, int h, int k,
				float y)
{
	for (int i = top < 0 ? 0 : top; i <= h; i++)
		for (int j = left < 0 ? 0 : left; j < min(left + (int)g.size, (int)g.in_width);
		     j++) {
			if (i == h && j == k)
				return true;
			if (number(from[((size_t)i * g.in_width + j) * g.in_channels]) == y)
				return false;
		}
	return true;
}

/* Sums a pixel's gradient over all windows that contain it, without additions in memory. */
struct pooled_grad {
	template <int V, typename T>
	__device__ void operator()(spot<V> i, const geometry &g, T *dx, const T *dy, const T *x,
				   const T *y) const
	{
		unsigned down = i.h + g.pad, across = i.w + g.pad;
		unsigned oh0 = down < g.size ? 0 : (down - g.size) / g.stride + 1;
		unsigned ow0 = across < g.size ? 0 : (across - g.size) / g.stride + 1;
		unsigned oh1 = min(down / g.stride + 1, g.out_height);
		unsigned ow1 = min(across / g.stride + 1, g.out_width);
		const T *from = x + g.in(i.r, 0, 0) + i.c;
		size_t here = g.in(i.r, i.h, i.w) + i.c;
		pack<T, V> mine = load<V>(x + here);
		float share = 1.0f / (g.size * g.size), sum[V] = {0};

		for (unsigned oh = oh0; oh < oh1; oh++)
			for (unsigned ow = ow0; ow < ow1; ow++) {
				int top = (int)(oh * g.stride) - (int)g.pad;
				int left = (int)(ow * g.stride) - (int)g.pad;
				size_t at = g.out(i.r, oh, ow) + i.c;
				pack<T, V> grad = load<V>(dy + at), best = load<V>(y + at);

#pragma unroll
				for (int v = 0; v < V; v++) {
					float most = number(best.v[v]);
					if (g.average)
						sum[v] += number(grad.v[v]) * share;
					else if (number(mine.v[v]) == most &&
						 first_of(from + v, g, top, left, (int)i.h,
							  (int)i.w, most))
						sum[v] += number(grad.v[v]);
				}
			}
		store_each<V>(dx + here, [&](int v) { return sum[v]; });
	}
};

/* to = from, or zeros. */
template <int V, typename T> __device__ inline void copy_if(bool there, T *to, const T *from)
{
	if (there)
		store<V>(to, load<V>(from));
	else
		store_each<V>(to, [](int) { return 0.0f; });
}

struct shortcut {
	template <int V, typename T>
	__device__ void operator()(spot<V> o, const geometry &g, T *y, const T *x) const
	{
		unsigned c = o.c - (g.out_channels - g.in_channels) / 2; /* wraps around below 0 */

		copy_if<V>(c < g.in_channels, y + g.out(o.r, o.h, o.w) + o.c,
			   x + g.in(o.r, o.h * g.stride, o.w * g.stride) + c);
	}
};

struct shortcut_grad {
	template <int V, typename T>
	__device__ void operator()(spot<V> i, const geometry &g, T *dx, const T *dy) const
	{
		unsigned before = (g.out_channels - g.in_channels) / 2;
		bool went = i.h % g.stride == 0 && i.w % g.stride == 0;

		copy_if<V>(went, dx + g.in(i.r, i.h, i.w) + i.c,
			   dy + g.out(i.r, i.h / g.stride, i.w / g.stride) + before + i.c);
	}
};

geometry geometry_of(struct image in, struct image out)
{
	return {(unsigned)in.height,  (unsigned)in.width,  (unsigned)in.channels,
		(unsigned)out.height, (unsigned)out.width, (unsigned)out.channels};
}

geometry shortcut_of(struct image in, size_t stride, size_t channels)
{
	geometry g =
		geometry_of(in, {strided(in.height, stride), strided(in.width, stride), channels});
	g.stride = (unsigned)stride;
	return g;
}

/* Can the channels be read in packs, on both sides? */
template <typename T, typename... P> bool packs(const geometry &g, P... p)
{
	return g.in_channels % wide<T> == 0 && g.out_channels % wide<T> == 0 &&
	       (g.out_channels - g.in_channels) / 2 % wide<T> == 0 && aligned(p...);
}

} // namespace

void *cuda_pool_new(struct device *d, const struct shape *s)
{
	geometry *g = (geometry *)must(malloc(sizeof *g));
	CHECK(image_size(s->in) <= INT_MAX, "a pooling of %zu floats", image_size(s->in));
	(void)d;
	*g = geometry_of(s->in, s->out);
	g->size = (unsigned)s->window.size;
	g->stride = (unsigned)s->window.stride;
	g->pad = (unsigned)s->window.pad;
	g->average = s->average;
	return g;
}

void cuda_pool_free(struct device *, void *pool)
{
	free(pool);
}

void cuda_pool_forward(struct device *d, void *at, float *y, const float *x, size_t rows)
{
	const geometry &g = *(const geometry *)at;
	OF_PACK(d, packs<T>(g, y, x), FOR_OUTS(d, g, rows, pooled(), g, (T *)y, (const T *)x));
}

void cuda_pool_backward(struct device *d, void *at, float *dx, const float *dy, const float *x,
			const float *y, size_t rows)
{
	const geometry &g = *(const geometry *)at;
	OF_PACK(d, packs<T>(g, dx, dy, x, y),
		FOR_INS(d, g, rows, pooled_grad(), g, (T *)dx, (const T *)dy, (const T *)x,
			(const T *)y));
}

void cuda_shortcut(struct device *d, float *y, const float *x, struct image in, size_t stride,
		   size_t out, size_t rows)
{
	const geometry g = shortcut_of(in, stride, out);
	OF_PACK(d, packs<T>(g, y, x), FOR_OUTS(d, g, rows, shortcut(), g, (T *)y, (const T *)x));
}

void cuda_shortcut_grad(struct device *d, float *dx, const float *dy, struct image in,
			size_t stride, size_t out, size_t rows)
{
	const geometry g = shortcut_of(in, stride, out);
	OF_PACK(d, packs<T>(g, dx, dy),
		FOR_INS(d, g, rows, shortcut_grad(), g, (T *)dx, (const T *)dy));
}
