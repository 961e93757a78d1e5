/*
 * elementwise.cu - y[i] = f(y[i], x[i], i), for floats and for activations; and the optimiser.
 */
#include "runtime/device/cuda/kernel.h"
#include "runtime/device/maps.h"

#include <cmath>

namespace
{
template <typename F> struct map {
	F f;
	template <int V, typename T> __device__ void operator()(at<V> here, T *y, const T *x) const
	{
		pack<T, V> a = load<V>(y + here.i), b = load<V>(x + here.i);

		store_each<V>(y + here.i,
			      [&](int k) { return f(number(a.v[k]), number(b.v[k]), here.i + k); });
	}
};

/* x may be y, for functions that use only one of them. */
template <typename T, typename F> void map_all(struct device *d, T *y, const T *x, size_t n, F f)
{
	for_each<wide<T>>(d, true, n, map<F>{f}, y, x);
}

template <typename F> void map_activation(struct device *d, float *y, const float *x, size_t n, F f)
{
	OF_TYPE(d, map_all(d, (T *)y, (const T *)x, n, f));
}

#define MAP_OF(name, ...) \
	struct name##_map { \
		float a; \
		__device__ float operator()(float y, float x, size_t) const \
		{ \
			return map_##name(y, x, a); \
		} \
	};
SCALED_LIST(MAP_OF)
MAP_LIST(MAP_OF)

template <rule_kind R> __device__ moving rule_of(moving f, rule by, moving_step now)
{
#define RULE_CASE(kind, word, moments) \
	if (R == RULE_##kind) \
		return rule_##word(f, by, now);
	RULE_LIST(RULE_CASE)
	return f;
}

template <rule_kind R, int MOMENTS> struct stepping {
	const struct cuda_now *step; /* values of this step; NULL: they are in `now` */
	const float *square;         /* as in struct device */
	float most;
	moving_step now;
	rule by;
	template <int V>
	__device__ void operator()(at<V> here, float *x, float *a, float *b, const float *g) const
	{
		const moving_step by_now = step ? step->moving : now;
		pack<float, V> xx = load<V>(x + here.i), gg = load<V>(g + here.i), aa = {}, bb = {};
		rule limited = by;
		limit to = {1, 1};

		if (square)
			to = limit_of(square, most, most);
		limited.scale *= to.then;
		if (MOMENTS > 0)
			aa = load<V>(a + here.i);
		if (MOMENTS > 1)
			bb = load<V>(b + here.i);
#pragma unroll
		for (int k = 0; k < V; k++) {
			moving f = rule_of<R>(moving{xx.v[k], to.first * gg.v[k], aa.v[k], bb.v[k]},
					      limited, by_now);

			xx.v[k] = f.x;
			aa.v[k] = f.a;
			bb.v[k] = f.b;
		}
		store<V>(x + here.i, xx);
		if (MOMENTS > 0)
			store<V>(a + here.i, aa);
		if (MOMENTS > 1)
			store<V>(b + here.i, bb);
	}
};

/* One block sums all of x, in float64, always in the same order. */
__global__ void __launch_bounds__(THREADS) add_squares(float *y, const float *x, size_t n)
{
	double *of = shared_doubles(), sum = 0;
	for (size_t i = threadIdx.x; i < n; i += THREADS)
		sum += (double)x[i] * x[i];
	of[threadIdx.x] = sum;
	block_reduce<1>(of, threadIdx.x, THREADS, 1);
	if (threadIdx.x == 0) {
		y[0] += (float)of[0];
		y[1] += (float)(SQUARES_SCALE * of[0]);
	}
}

__global__ void set_step(struct cuda_now *step, struct cuda_now now)
{
	*step = now;
}

__global__ void mark(volatile uint32_t *host, const struct cuda_now *step)
{
	*host = step->turn;
	__threadfence_system();
}

} // namespace

#define CUDA_SCALED(name, params, args, kind, amount, effect, from) \
	void cuda_##name DEVICE_PARAMS(params) \
	{ \
		map_all(d, y, from, n, name##_map{a}); \
	}
SCALED_LIST(CUDA_SCALED)

#define CUDA_MAP(name, ...) \
	void cuda_##name(struct device *d, float *y, const float *x, size_t n) \
	{ \
		map_activation(d, y, x, n, name##_map{0}); \
	}
MAP_LIST(CUDA_MAP)

/* In a captured graph the key is read from memory, because each launch has another key. */
void cuda_dropout(struct device *d, float *y, float p, uint64_t salt, size_t n)
{
	const struct cuda_now *step = d->in_graph ? &cuda_of(d)->state->step : NULL;
	const uint64_t key = d->key;
	const float scale = 1 / (1 - p);
	map_activation(d, y, y, n, [=] __device__(float of, float, size_t i) {
		return dropout_keeps(step ? step->key : key, salt, i, p) ? of * scale : 0;
	});
}

/* In a captured graph so is the learning rate. */
void cuda_step(struct device *d, float *x, float *a, float *b, const float *g,
	       const struct rule *by, size_t n)
{
	const struct cuda_now *step = d->in_graph ? &cuda_of(d)->state->step : NULL;
	const moving_step now = {by->lr, {d->unbias[0], d->unbias[1]}};
	CHECK(!step || by->lr == d->lr, "step: the rule has lr %g, the device has %g",
	      (double)by->lr, (double)d->lr);
#define STEP_BY(kind, word, moments) \
	case RULE_##kind: \
		for_each<wide<float>>( \
			d, true, n, \
			stepping<RULE_##kind, moments>{step, d->square, d->most, now, *by}, x, a, \
			b, g); \
		break;
	switch (by->kind) {
		RULE_LIST(STEP_BY)
	}
}

void cuda_add_squares(struct device *d, float *y, const float *x, size_t n)
{
	QUEUE(d, add_squares, 1, THREADS, y, x, n);
}

void cuda_ratio(struct device *d, float *y, const float *w, const float *u, float most, float decay,
		size_t n)
{
	map_all(d, y, y, n, [=] __device__(float of, float, size_t) {
		return of * ratio_of(w, u, most, decay);
	});
}

void cuda_limit(struct device *d, float *y, const float *square, float most, float least, size_t n)
{
	map_all(d, y, y, n, [=] __device__(float of, float, size_t) {
		const limit by = limit_of(square, most, least);
		return of * by.first * by.then;
	});
}

void cuda_set_step(struct device *d)
{
	struct cuda *c = cuda_of(d);
	const struct cuda_now now = {d->key, {d->lr, {d->unbias[0], d->unbias[1]}}, ++c->turn};
	QUEUE(d, set_step, 1, 1, &c->state->step, now);
}

void cuda_mark(struct device *d, uint32_t *host)
{
	QUEUE(d, mark, 1, 1, host, &cuda_of(d)->state->step);
}
