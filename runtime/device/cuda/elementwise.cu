/*
 * elementwise.cu - y[i] = f(y[i], x[i], i), of floats and of activations; and the optimiser.
 */
#include "runtime/device/cuda/kernel.h"

#include <cmath>

namespace
{
template <typename F> struct map {
	F f;
	template <int V, typename T, typename U>
	__device__ void operator()(at<V> here, T *y, const U *x) const
	{
		pack<T, V> a = load<V>(y + here.i);
		pack<U, V> b = load<V>(x + here.i);

		store_each<V>(y + here.i,
			      [&](int k) { return f(number(a.v[k]), number(b.v[k]), here.i + k); });
	}
};

/* x may be y, for functions that look at one of them only. */
template <typename T, typename U, typename F>
void map_all(struct device *d, T *y, const U *x, size_t n, F f)
{
	constexpr int V = sizeof(T) < sizeof(U) ? wide<T> : wide<U>;
	for_each<V>(d, true, n, map<F>{f}, y, x);
}

template <typename F> void map_activation(struct device *d, float *y, const float *x, size_t n, F f)
{
	OF_TYPE(d, map_all(d, (T *)y, (const T *)x, n, f));
}

struct take {
	__device__ float operator()(float, float x, size_t) const
	{
		return x;
	}
};

struct sgd {
	const struct cuda_step *step; /* not NULL: lr is there */
	float lr, m, decay, scale;
	template <int V>
	__device__ void operator()(at<V> here, float *p, float *v, const float *g) const
	{
		const float rate = step ? step->lr : lr;
		pack<float, V> pp = load<V>(p + here.i), gg = load<V>(g + here.i), vv;

		if (v)
			vv = load<V>(v + here.i);
#pragma unroll
		for (int k = 0; k < V; k++) {
			float by = scale * gg.v[k] + decay * pp.v[k];

			if (v)
				by = vv.v[k] = m * vv.v[k] + by;
			pp.v[k] -= rate * by;
		}
		store<V>(p + here.i, pp);
		if (v)
			store<V>(v + here.i, vv);
	}
};

__global__ void set_step(cuda_step *step, cuda_step now)
{
	*step = now;
}

} // namespace

void cuda_fill(struct device *d, float *y, float a, size_t n)
{
	map_all(d, y, y, n, [=] __device__(float, float, size_t) { return a; });
}

void cuda_scale(struct device *d, float *y, float a, size_t n)
{
	map_all(d, y, y, n, [=] __device__(float of, float, size_t) { return a * of; });
}

void cuda_axpy(struct device *d, float *y, float a, const float *x, size_t n)
{
	map_all(d, y, x, n, [=] __device__(float to, float by, size_t) { return to + a * by; });
}

/* A NaN stays one. */
void cuda_relu(struct device *d, float *y, size_t n)
{
	map_activation(d, y, y, n,
		       [] __device__(float of, float, size_t) { return of < 0 ? 0 : of; });
}

void cuda_relu_grad(struct device *d, float *dy, const float *y, size_t n)
{
	map_activation(d, dy, y, n,
		       [] __device__(float g, float of, size_t) { return of == 0 ? 0 : g; });
}

void cuda_tanh(struct device *d, float *y, size_t n)
{
	map_activation(d, y, y, n, [] __device__(float of, float, size_t) { return tanhf(of); });
}

void cuda_tanh_grad(struct device *d, float *dy, const float *y, size_t n)
{
	map_activation(d, dy, y, n,
		       [] __device__(float g, float of, size_t) { return g * (1 - of * of); });
}

/* In a graph that is kept, the key is not what it was when the graph was captured. */
void cuda_dropout(struct device *d, float *y, float p, uint64_t salt, size_t n)
{
	const struct cuda_step *step = d->in_graph ? &cuda_of(d)->state->step : NULL;
	const uint64_t key = d->key;
	const float scale = 1 / (1 - p);
	map_activation(d, y, y, n, [=] __device__(float of, float, size_t i) {
		return dropout_keeps(step ? step->key : key, salt, i, p) ? of * scale : 0;
	});
}

void cuda_to_bf16(struct device *d, void *y, const float *x, size_t n)
{
	map_all(d, (bf16 *)y, x, n, take());
}

void cuda_from_bf16(struct device *d, float *y, const void *x, size_t n)
{
	map_all(d, y, (const bf16 *)x, n, take());
}

/* Neither is the learning rate. */
void cuda_sgd(struct device *d, float *p, float *v, const float *g, float lr, float m, float decay,
	      float scale, size_t n)
{
	const struct cuda_step *step = d->in_graph ? &cuda_of(d)->state->step : NULL;
	CHECK(!step || lr == d->lr, "sgd: lr %g in a step of %g", (double)lr, (double)d->lr);
	for_each<wide<float>>(d, true, n, sgd{step, lr, m, decay, scale}, p, v, g);
}

void cuda_set_step(struct device *d)
{
	struct cuda *c = cuda_of(d);
	QUEUE(d, set_step, 1, 1, &c->state->step, (cuda_step{d->key, d->lr, ++c->turn}));
}
