/*
 * norm.cu - batch normalisation on the GPU. It reads x twice, and what it adds, and writes y. Its
 * gradient reads dy, x and (with relu) y twice and writes dx; with `adds` it reads y once and also
 * writes dy. cuDNN's would need more passes, because it cannot be fused with the addition of a
 * residual block.
 */
#include "runtime/device/cuda/columns.h"

#include <stdlib.h>

namespace
{
/* Squares are of the distance from the first row, to avoid cancellation if the mean is far from
 * zero. */
template <typename T, int V> struct statistics_job : reads_one<T, V> {
	static constexpr int sums = 2;
	float *at, *running;
	size_t rows, n;
	struct kept {
		float first;
	};
	__device__ kept keep(size_t c) const
	{
		return {number(this->x[c])};
	}
	__device__ void add(size_t, const pack<T, V> &i, const kept *k, float *sum) const
	{
#pragma unroll
		for (int v = 0; v < V; v++) {
			float d = number(i.v[v]) - k[v].first;
			sum[v] += d;
			sum[V + v] += d * d;
		}
	}
	__device__ void finish(size_t c, const double *total) const
	{
		double d = total[0] / rows, variance = total[THREADS] / rows - d * d;
		float mean = (float)(number(this->x[c]) + d);
		float var = variance < 0 ? 0 : (float)variance; /* a NaN stays a NaN */

		at[c] = mean;
		at[n + c] = 1 / sqrtf(var + NORM_EPSILON);
		running[c] = (1 - NORM_ALPHA) * running[c] + NORM_ALPHA * mean;
		running[n + c] = (1 - NORM_ALPHA) * running[n + c] + NORM_ALPHA * var;
	}
};

template <typename T, int V> struct norm_job {
	T *y;
	const T *x, *more;
	const float *scale, *at;
	bool training, relu; /* training: at has inverse deviations; otherwise variances */
	size_t n;
	struct kept {
		float mean, a, beta;
	};
	struct item {
		pack<T, V> x, more;
	};
	__device__ kept keep(size_t c) const
	{
		return {at[c],
			scale[c] * (training ? at[n + c] : 1 / sqrtf(at[n + c] + NORM_EPSILON)),
			scale[n + c]};
	}
	__device__ item read(size_t i) const
	{
		item it;
		it.x = load<V>(x + i);
		if (more)
			it.more = load<V>(more + i);
		return it;
	}
	__device__ void write(size_t i, const item &it, const kept *k) const
	{
		store_each<V>(y + i, [&](int v) {
			float z = (number(it.x.v[v]) - k[v].mean) * k[v].a + k[v].beta;
			if (more)
				z += number(it.more.v[v]);
			return relu && z < 0 ? 0 : z;
		});
	}
};

/* Both passes of the gradient read x and dy, which y masks if it is not NULL. */
template <typename T, int V> struct masked_job {
	const T *given, *x, *y;
	const float *at;
	size_t n;
	struct item {
		pack<T, V> dy, x, y;
	};
	__device__ item read(size_t i) const
	{
		item it;
		it.dy = load<V>(given + i);
		it.x = load<V>(x + i);
		if (y)
			it.y = load<V>(y + i);
		return it;
	}
	__device__ float g(const item &it, int v) const
	{
		return y && number(it.y.v[v]) == 0 ? 0 : number(it.dy.v[v]);
	}
};

/* Sums for dscale; back: writes the masked dy back. */
template <typename T, int V> struct norm_grad_scale_job : masked_job<T, V> {
	static constexpr int sums = 2;
	float *dscale;
	T *back;
	using typename masked_job<T, V>::item;
	struct kept {
		float mean, a;
	};
	__device__ kept keep(size_t c) const
	{
		return {this->at[c], this->at[this->n + c]};
	}
	__device__ void add(size_t i, const item &it, const kept *k, float *sum) const
	{
#pragma unroll
		for (int v = 0; v < V; v++) {
			float g = this->g(it, v);
			sum[v] += g * ((number(it.x.v[v]) - k[v].mean) * k[v].a);
			sum[V + v] += g;
		}
		if (back)
			store_each<V>(back + i, [&](int v) { return this->g(it, v); });
	}
	__device__ void finish(size_t c, const double *total) const
	{
		dscale[c] = (float)total[0];
		dscale[this->n + c] = (float)total[THREADS];
	}
};

/* dx = gamma / sd (g - mean(g) - xhat mean(g xhat)) */
template <typename T, int V> struct norm_grad_job : masked_job<T, V> {
	T *dx;
	const float *dscale, *scale;
	float share; /* 1 / rows */
	using typename masked_job<T, V>::item;
	struct kept {
		float mean, a, b, c;
	};
	__device__ kept keep(size_t i) const
	{
		const float r = this->at[this->n + i], a = scale[i] * r;
		return {this->at[i], a, a * r * (dscale[i] * share),
			a * (dscale[this->n + i] * share)};
	}
	__device__ void write(size_t i, const item &it, const kept *k) const
	{
		store_each<V>(dx + i, [&](int v) {
			return k[v].a * this->g(it, v) - k[v].c -
			       (number(it.x.v[v]) - k[v].mean) * k[v].b;
		});
	}
};

} // namespace

struct cuda_norm {
	struct shape s;
	float *statistics; /* [2 C] of the last training forward: means, 1 / deviations */
};

static size_t statistics_bytes(const struct shape *s)
{
	return 2 * s->in.channels * sizeof(float);
}

void *cuda_norm_new(struct device *d, const struct shape *s)
{
	struct cuda_norm *m = (struct cuda_norm *)must(calloc(1, sizeof *m));
	m->s = *s;
	m->statistics = (float *)cuda_take(d, statistics_bytes(s));
	return m;
}

void cuda_norm_free(struct device *d, void *norm)
{
	struct cuda_norm *m = (struct cuda_norm *)norm;
	cuda_sync(d);
	cuda_give(d, m->statistics, statistics_bytes(&m->s));
	free(m);
}

void cuda_norm_forward(struct device *d, void *norm, float *y, const float *x, const float *add,
		       const float *scale, float *running, bool training, size_t rows)
{
	const struct cuda_norm *m = (const struct cuda_norm *)norm;
	const struct shape *s = &m->s;
	const size_t pixels = rows * s->in.height * s->in.width, n = s->in.channels;
	if (training)
		OF_PACK(d, packs<T>(n, x),
			sum_columns<V>(d,
				       statistics_job<T, V>{
					       {(const T *)x}, m->statistics, running, pixels, n},
				       pixels, n));
	OF_PACK(d, packs<T>(n, y, x, s->adds ? add : NULL), {
		norm_job<T, V> job{(T *)y,
				   (const T *)x,
				   s->adds ? (const T *)add : NULL,
				   scale,
				   training ? m->statistics : running,
				   training,
				   s->relu,
				   n};
		map_columns<V>(d, job, pixels, n);
	});
}

/* The first pass uses y to mask dy. With a shortcut it writes the masked dy back, and the second
 * pass reads that. */
void cuda_norm_backward(struct device *d, void *norm, float *dx, float *dscale, float *dy,
			const float *x, const float *y, const float *scale, size_t rows)
{
	const struct cuda_norm *m = (const struct cuda_norm *)norm;
	const size_t pixels = rows * m->s.in.height * m->s.in.width, n = m->s.in.channels;
	const bool back = m->s.relu && m->s.adds;
	cuda_join_before(d, dx, pixels * n * sizeof *dx);
	if (back)
		cuda_join_before(d, dy, pixels * n * sizeof *dy);
	OF_PACK(d, packs<T>(n, dx, dy, x, m->s.relu ? y : NULL), {
		masked_job<T, V> from{(const T *)dy, (const T *)x, m->s.relu ? (const T *)y : NULL,
				      m->statistics, n};
		norm_grad_scale_job<T, V> first{from, dscale, back ? (T *)dy : NULL};
		sum_columns<V>(d, first, pixels, n);
		from.y = back ? NULL : from.y;
		norm_grad_job<T, V> second{from, (T *)dx, dscale, scale, 1.0f / pixels};
		map_columns<V>(d, second, pixels, n);
	});
}
