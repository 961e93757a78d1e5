/*
 * columns.cu - operations of linear layers other than products: biases, sums over rows, and copies
 * of columns.
 */
#include "runtime/device/cuda/columns.h"

namespace
{
template <typename T, int V> struct bias_job : reads_one<T, V> {
	T *y;
	const float *b;
	bool relu;
	struct kept {
		float b;
	};
	__device__ kept keep(size_t column) const
	{
		return {b[column]};
	}
	__device__ void write(size_t at, const pack<T, V> &i, const kept *k) const
	{
		store_each<V>(y + at, [&](int v) {
			float x = number(i.v[v]) + k[v].b;
			return relu && x < 0 ? 0 : x;
		});
	}
};

template <typename T, int V> struct sum_job : reads_one<T, V> {
	static constexpr int sums = 1;
	float *b;
	struct kept {
	};
	__device__ kept keep(size_t) const
	{
		return {};
	}
	__device__ void add(size_t, const pack<T, V> &i, const kept *, float *sum) const
	{
#pragma unroll
		for (int v = 0; v < V; v++)
			sum[v] += number(i.v[v]);
	}
	__device__ void finish(size_t column, const double *total) const
	{
		b[column] = (float)total[0];
	}
};

__global__ void __launch_bounds__(THREADS) copy_columns(float *y, size_t y_width, const float *x,
							size_t x_width, size_t rows, size_t n)
{
	size_t j = (size_t)blockIdx.x * THREADS + threadIdx.x;
	for (size_t r = blockIdx.y; j < n && r < rows; r += gridDim.y)
		y[r * y_width + j] = x[r * x_width + j];
}

} // namespace

void cuda_copy_columns(struct device *d, float *y, size_t y_width, const float *x, size_t x_width,
		       size_t rows, size_t n)
{
	if (rows && n)
		QUEUE(d, copy_columns,
		      dim3((unsigned)((n + THREADS - 1) / THREADS),
			   (unsigned)smaller(rows, MOST_ROWS)),
		      THREADS, y, y_width, x, x_width, rows, n);
}

void cuda_bias(struct device *d, float *y, const float *b, bool relu, size_t rows, size_t n)
{
	if (rows && n)
		OF_PACK(d, packs<T>(n, y),
			map_columns<V>(d, bias_job<T, V>{{(T *)y}, (T *)y, b, relu}, rows, n));
}

void cuda_add_bias(struct device *d, float *y, const float *b, size_t rows, size_t n)
{
	cuda_bias(d, y, b, false, rows, n);
}

void cuda_sum_rows(struct device *d, float *b, const float *y, size_t rows, size_t n)
{
	if (rows && n)
		OF_PACK(d, packs<T>(n, y),
			sum_columns<V>(d, sum_job<T, V>{{(const T *)y}, b}, rows, n));
	else
		cuda_fill(d, b, 0, n);
}
