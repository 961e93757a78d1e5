/*
 * sequence.cu - the operations of transformers on the GPU: embeddings, layer normalisation and
 * causal attention. One block or one warp computes each sum, always in the same order.
 */
#include "runtime/device/cuda/kernel.h"

#include <cmath>
#include <stdlib.h>

namespace
{
constexpr unsigned MOST = 4096; /* blocks */

/* ---- Embeddings ---------------------------------------------------------- */

/* An invalid token makes the loss a NaN, which ends the run. */
template <typename T>
__global__ void __launch_bounds__(THREADS)
	embed(T *y, const T *token, const float *table, const float *place, size_t rows,
	      size_t places, size_t tokens, size_t n)
{
	for (size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x; i < rows * n;
	     i += (size_t)gridDim.x * THREADS) {
		size_t r = i / n, j = i % n, at = (size_t)number(token[r]);
		y[i] = rounded<T>(at < tokens ? table[at * n + j] + place[r % places * n + j]
					      : (float)NAN);
	}
}

/* One block per token, then one per place; a block searches its rows one after the other. */
template <typename T>
__global__ void __launch_bounds__(THREADS)
	embed_grad(float *dtable, float *dplace, const T *dy, const T *token, size_t rows,
		   size_t places, size_t tokens, size_t n, bool add)
{
	const size_t me = blockIdx.x;
	const bool is_token = me < tokens;
	float *to = is_token ? dtable + me * n : dplace + (me - tokens) * n;
	for (size_t j = threadIdx.x; j < n; j += THREADS) {
		float sum = add && is_token ? to[j] : 0;
		if (is_token) {
			for (size_t r = 0; r < rows; r++)
				if ((size_t)number(token[r]) == me)
					sum += number(dy[r * n + j]);
		} else {
			for (size_t r = me - tokens; r < rows; r += places)
				sum += number(dy[r * n + j]);
		}
		to[j] = sum;
	}
}

/* ---- Layer normalisation: one warp per row ------------------------------- */

template <typename T>
__global__ void __launch_bounds__(THREADS)
	layer_norm(T *y, float *stat, const T *x, const float *scale, size_t rows, size_t n)
{
	const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	for (size_t r = (size_t)blockIdx.x * WARPS + warp; r < rows;
	     r += (size_t)gridDim.x * WARPS) {
		const T *row = x + r * n;
		float sum = 0, squares = 0;
		for (size_t j = lane; j < n; j += 32)
			sum += number(row[j]);
		const float mean = warp_sum(sum) / (float)n;
		for (size_t j = lane; j < n; j += 32)
			squares += (number(row[j]) - mean) * (number(row[j]) - mean);
		const float inverse = 1 / sqrtf(warp_sum(squares) / (float)n + LAYER_NORM_EPSILON);
		for (size_t j = lane; j < n; j += 32)
			y[r * n + j] = rounded<T>((number(row[j]) - mean) * inverse * scale[j] +
						  scale[n + j]);
		if (lane == 0) {
			stat[2 * r] = mean;
			stat[2 * r + 1] = inverse;
		}
	}
}

template <typename T>
__global__ void __launch_bounds__(THREADS)
	layer_norm_dx(T *dx, const T *dy, const T *x, const float *stat, const float *scale,
		      size_t rows, size_t n, bool add)
{
	const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	for (size_t r = (size_t)blockIdx.x * WARPS + warp; r < rows;
	     r += (size_t)gridDim.x * WARPS) {
		const float mean = stat[2 * r], inverse = stat[2 * r + 1];
		float sum = 0, product = 0;
		for (size_t j = lane; j < n; j += 32) {
			float g = number(dy[r * n + j]) * scale[j];
			sum += g;
			product += g * (number(x[r * n + j]) - mean) * inverse;
		}
		sum = warp_sum(sum) / (float)n;
		product = warp_sum(product) / (float)n;
		for (size_t j = lane; j < n; j += 32) {
			float e = (number(x[r * n + j]) - mean) * inverse;
			float of = inverse * (number(dy[r * n + j]) * scale[j] - sum - e * product);
			dx[r * n + j] = rounded<T>(add ? number(dx[r * n + j]) + of : of);
		}
	}
}

/* One thread per column. */
template <typename T>
__global__ void __launch_bounds__(THREADS)
	layer_norm_dscale(float *dscale, const T *dy, const T *x, const float *stat, size_t rows,
			  size_t n)
{
	const size_t j = (size_t)blockIdx.x * THREADS + threadIdx.x;
	float dgamma = 0, dbeta = 0;
	if (j >= n)
		return;
	for (size_t r = 0; r < rows; r++) {
		float g = number(dy[r * n + j]);
		dgamma += g * (number(x[r * n + j]) - stat[2 * r]) * stat[2 * r + 1];
		dbeta += g;
	}
	dscale[j] = dgamma;
	dscale[n + j] = dbeta;
}

/* ---- Attention: one block per head of a row of data ---------------------- */

struct sizes {
	unsigned places, heads, width;
	float scale;
};

/* Offsets for block b: of p[places x places], and of q in x; k and v follow q. */
template <typename T> struct head {
	size_t p, x, y, ld, ldy;
	__device__ head(const sizes &s, unsigned b)
	{
		const size_t row = b / s.heads, h = b % s.heads, wide = (size_t)s.heads * s.width;
		p = (size_t)b * s.places * s.places;
		x = row * s.places * 3 * wide + 3 * h * s.width;
		y = row * s.places * wide + h * s.width;
		ld = 3 * wide;
		ldy = wide;
	}
};

template <typename T>
__global__ void __launch_bounds__(THREADS) attention_forward(T *y, float *p, const T *x, sizes s)
{
	const head<T> at(s, blockIdx.x);
	const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	const T *q = x + at.x, *k = q + s.width, *v = k + s.width;
	p += at.p;
	for (unsigned i = warp; i < s.places; i += WARPS) {
		float *row = p + (size_t)i * s.places;
		float max = -INFINITY, sum = 0;
		for (unsigned j = lane; j < s.places; j += 32) {
			float score = 0;
			for (unsigned c = 0; j <= i && c < s.width; c++)
				score += number(q[i * at.ld + c]) * number(k[j * at.ld + c]);
			row[j] = score * s.scale;
			max = j <= i && row[j] > max ? row[j] : max;
		}
		max = warp_max(max);
		for (unsigned j = lane; j < s.places; j += 32) {
			row[j] = j <= i ? expf(row[j] - max) : 0;
			sum += row[j];
		}
		sum = warp_sum(sum);
		for (unsigned j = lane; j < s.places; j += 32)
			row[j] /= sum;
	}
	__syncthreads();
	for (unsigned o = threadIdx.x; o < s.places * s.width; o += THREADS) {
		const unsigned i = o / s.width, c = o % s.width;
		float sum = 0;
		for (unsigned j = 0; j <= i; j++)
			sum += p[(size_t)i * s.places + j] * number(v[j * at.ld + c]);
		y[at.y + i * at.ldy + c] = rounded<T>(sum);
	}
}

template <typename T>
__global__ void __launch_bounds__(THREADS)
	attention_backward(T *dx, const T *dy, const T *x, const float *p, float *dp, sizes s)
{
	const head<T> at(s, blockIdx.x);
	const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	const T *q = x + at.x, *k = q + s.width, *v = k + s.width, *g = dy + at.y;
	T *dq = dx + at.x, *dk = dq + s.width, *dv = dk + s.width;
	p += at.p;
	dp += at.p;
	for (unsigned i = warp; i < s.places; i += WARPS) {
		const float *row = p + (size_t)i * s.places;
		float *drow = dp + (size_t)i * s.places;
		float sum = 0;
		for (unsigned j = lane; j < s.places; j += 32) {
			float of = 0;
			for (unsigned c = 0; j <= i && c < s.width; c++)
				of += number(g[i * at.ldy + c]) * number(v[j * at.ld + c]);
			drow[j] = of;
			sum += of * row[j];
		}
		sum = warp_sum(sum);
		for (unsigned j = lane; j < s.places; j += 32)
			drow[j] = row[j] * (drow[j] - sum);
	}
	__syncthreads();
	for (unsigned o = threadIdx.x; o < s.places * s.width; o += THREADS) {
		const unsigned i = o / s.width, c = o % s.width;
		float of_q = 0, of_k = 0, of_v = 0;
		for (unsigned j = 0; j <= i; j++)
			of_q += dp[(size_t)i * s.places + j] * number(k[j * at.ld + c]);
		for (unsigned j = i; j < s.places; j++) {
			of_k += dp[(size_t)j * s.places + i] * number(q[j * at.ld + c]);
			of_v += p[(size_t)j * s.places + i] * number(g[j * at.ldy + c]);
		}
		dq[i * at.ld + c] = rounded<T>(of_q * s.scale);
		dk[i * at.ld + c] = rounded<T>(of_k * s.scale);
		dv[i * at.ld + c] = rounded<T>(of_v);
	}
}

struct cuda_attention {
	sizes s;
	size_t bytes; /* of each */
	float *p, *dp;
};

} // namespace

void cuda_embed(struct device *d, float *y, const float *token, const float *table,
		const float *place, size_t rows, size_t places, size_t tokens, size_t n)
{
	if (rows)
		OF_TYPE(d, QUEUE(d, embed<T>, blocks_for(rows * n, MOST), THREADS, (T *)y,
				 (const T *)token, table, place, rows, places, tokens, n));
}

void cuda_embed_grad(struct device *d, float *dtable, float *dplace, const float *dy,
		     const float *token, size_t rows, size_t places, size_t tokens, size_t n,
		     bool add)
{
	OF_TYPE(d, QUEUE(d, embed_grad<T>, (unsigned)(tokens + places), THREADS, dtable, dplace,
			 (const T *)dy, (const T *)token, rows, places, tokens, n, add));
}

void cuda_layer_norm(struct device *d, float *y, float *stat, const float *x, const float *scale,
		     size_t rows, size_t n)
{
	if (rows)
		OF_TYPE(d, QUEUE(d, layer_norm<T>, blocks_for(rows * 32, MOST), THREADS, (T *)y,
				 stat, (const T *)x, scale, rows, n));
}

void cuda_layer_norm_grad(struct device *d, float *dx, float *dscale, const float *dy,
			  const float *x, const float *stat, const float *scale, size_t rows,
			  size_t n, bool add)
{
	OF_TYPE(d, QUEUE(d, layer_norm_dscale<T>, (unsigned)((n + THREADS - 1) / THREADS), THREADS,
			 dscale, (const T *)dy, (const T *)x, stat, rows, n);
		if (rows) QUEUE(d, layer_norm_dx<T>, blocks_for(rows * 32, MOST), THREADS, (T *)dx,
				(const T *)dy, (const T *)x, stat, scale, rows, n, add));
}

void *cuda_attention_new(struct device *d, const struct shape *s)
{
	struct cuda_attention *a = (struct cuda_attention *)must(malloc(sizeof *a));
	a->s = {(unsigned)s->out.height, (unsigned)s->out.width, (unsigned)s->out.channels,
		1 / sqrtf((float)s->out.channels)};
	a->bytes = s->rows_max * s->out.width * s->out.height * s->out.height * sizeof(float);
	a->p = (float *)cuda_take(d, a->bytes);
	a->dp = (float *)cuda_take(d, a->bytes);
	return a;
}

void cuda_attention_free(struct device *d, void *attention)
{
	struct cuda_attention *a = (struct cuda_attention *)attention;
	cuda_give(d, a->p, a->bytes);
	cuda_give(d, a->dp, a->bytes);
	free(a);
}

void cuda_attention_forward(struct device *d, void *attention, float *y, const float *x,
			    size_t rows)
{
	const struct cuda_attention *a = (const struct cuda_attention *)attention;
	if (rows)
		OF_TYPE(d, QUEUE(d, attention_forward<T>, (unsigned)(rows * a->s.heads), THREADS,
				 (T *)y, a->p, (const T *)x, a->s));
}

void cuda_attention_backward(struct device *d, void *attention, float *dx, const float *dy,
			     const float *x, size_t rows)
{
	const struct cuda_attention *a = (const struct cuda_attention *)attention;
	if (rows)
		OF_TYPE(d, QUEUE(d, attention_backward<T>, (unsigned)(rows * a->s.heads), THREADS,
				 (T *)dx, (const T *)dy, (const T *)x, a->p, a->dp, a->s));
}
