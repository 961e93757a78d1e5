/*
 * columns.h - loops down the columns of a matrix [rows x n], such as an image's pixels by channels.
 *
 * A thread stays in its columns, keeps their parameters in registers, and loops over the rows. A
 * block covers `groups` packs of columns and THREADS / groups rows at once; blockIdx.y selects the
 * columns. A job defines what a thread keeps of each of its columns (kept, keep), what it reads at
 * one place (item, read) and what it does with that:
 *
 *   columns_map   write: called at each place
 *   columns_sum   add: float32 within a thread and a block, float64 over blocks; finish: called
 * with the sum of a column. One launch; the order of additions depends only on lengths
 */
#ifndef COLUMNS_H
#define COLUMNS_H

#include "runtime/device/cuda/kernel.h"

namespace
{
struct walk {
	unsigned groups, chunks;
	size_t lanes;
};
inline walk walk_of(size_t n, int v)
{
	size_t packs = n / v;
	unsigned groups = (unsigned)(packs < THREADS ? packs : THREADS);
	return {groups, (unsigned)((packs + groups - 1) / groups), THREADS / groups};
}
inline unsigned walk_blocks(const walk &w, size_t rows, size_t each, size_t most)
{
	size_t blocks = (rows + w.lanes * each - 1) / (w.lanes * each);
	most = most / w.chunks ? most / w.chunks : 1;
	return (unsigned)(blocks < most ? blocks : most);
}

/* Number of pending reads: enough to hide the latency, and few enough for the registers. */
template <int V> constexpr int ahead = V > 4 ? 2 : 4;

/* This thread's loop: use(place, item, kept). */
template <int V, typename Job, typename Use>
__device__ inline void walk_down(const Job &job, size_t rows, size_t n, size_t column, size_t lane,
				 size_t lanes, Use use)
{
	constexpr int U = ahead<V>;
	const size_t step = gridDim.x * lanes;
	typename Job::kept kept[V];
#pragma unroll
	for (int v = 0; v < V; v++)
		kept[v] = job.keep(column + v);
	for (size_t row = blockIdx.x * lanes + lane; row < rows; row += step * U) {
		typename Job::item item[U];

#pragma unroll
		for (int u = 0; u < U; u++)
			if (row + u * step < rows)
				item[u] = job.read((row + u * step) * n + column);
#pragma unroll
		for (int u = 0; u < U; u++)
			if (row + u * step < rows)
				use((row + u * step) * n + column, item[u], kept);
	}
}

template <int V, typename Job>
__global__ void __launch_bounds__(THREADS)
	columns_map(Job job, size_t rows, size_t n, unsigned groups)
{
	size_t lanes = THREADS / groups, lane = threadIdx.x / groups;
	size_t column = ((size_t)blockIdx.y * groups + threadIdx.x % groups) * V;
	wait_for_previous();
	if (lane < lanes && column < n)
		walk_down<V>(job, rows, n, column, lane, lanes,
			     [&](size_t at, const typename Job::item &item,
				 const typename Job::kept *kept) { job.write(at, item, kept); });
}

template <int V, typename Job>
void map_columns(struct device *d, const Job &job, size_t rows, size_t n)
{
	walk w = walk_of(n, V);
	QUEUE_EARLY(d, (columns_map<V, Job>),
		    dim3(walk_blocks(w, rows, ahead<V>, MAP_BLOCKS), w.chunks), THREADS, job, rows,
		    n, w.groups);
}

constexpr unsigned AT_ONCE = 16; /* pending reads of the blocks' partial sums */

template <int V, typename Job>
__global__ void __launch_bounds__(THREADS)
	columns_sum(Job job, size_t rows, size_t n, unsigned groups, cuda_stage stage)
{
	constexpr int K = Job::sums;
	unsigned lanes = THREADS / groups, lane = threadIdx.x / groups;
	size_t column = ((size_t)blockIdx.y * groups + threadIdx.x % groups) * V;
	bool in = lane < lanes && column < n;
	float sum[K * V] = {0};
	wait_for_previous();
	if (in)
		walk_down<V>(job, rows, n, column, lane, lanes,
			     [&](size_t at, const typename Job::item &item,
				 const typename Job::kept *kept) { job.add(at, item, kept, sum); });
	float *s = shared_floats();

#pragma unroll
	for (int i = 0; i < K * V; i++)
		s[i * THREADS + threadIdx.x] = sum[i];
	block_reduce<K * V>(s, lane, lanes, groups);
	if (in && lane == 0)
		for (int k = 0; k < K; k++)
			for (int v = 0; v < V; v++)
				stage.partial[((size_t)blockIdx.x * K + k) * n + column + v] =
					s[(k * V + v) * THREADS + threadIdx.x];

	if (!last_block(stage.counter + blockIdx.y))
		return;
	size_t first = (size_t)blockIdx.y * groups * V;
	size_t count = n - first < (size_t)groups * V ? n - first : (size_t)groups * V;
	double *total = shared_doubles();

	for (size_t c = 0; c < count; c += THREADS) {
		unsigned width = (unsigned)(count - c < THREADS ? count - c : THREADS);
		unsigned part = threadIdx.x / width, parts = THREADS / width;
		const float *p = stage.partial + first + c + threadIdx.x % width;
		double of[K] = {0};

		for (unsigned b = part; part < parts && b < gridDim.x; b += parts * AT_ONCE) {
			float got[AT_ONCE][K];
#pragma unroll
			for (unsigned u = 0; u < AT_ONCE; u++)
				for (int k = 0; k < K && b + u * parts < gridDim.x; k++)
					got[u][k] = p[((size_t)(b + u * parts) * K + k) * n];
#pragma unroll
			for (unsigned u = 0; u < AT_ONCE; u++)
				for (int k = 0; k < K && b + u * parts < gridDim.x; k++)
					of[k] += got[u][k];
		}
		for (int k = 0; k < K; k++)
			total[k * THREADS + threadIdx.x] = of[k];
		block_reduce<K>(total, part, parts, width);
		if (part == 0)
			job.finish(first + c + threadIdx.x, total + threadIdx.x);
		__syncthreads();
	}
}

/* Most blocks that sum columns; 128 take as long on an H200. */
constexpr size_t SUM_BLOCKS = 256;

template <int V, typename Job>
void sum_columns(struct device *d, const Job &job, size_t rows, size_t n)
{
	walk w = walk_of(n, V);
	unsigned blocks = w.chunks > CUDA_COUNTERS ? 1 : walk_blocks(w, rows, ahead<V>, SUM_BLOCKS);
	/* the fewest chunks give the most blocks */
	size_t chunks = walk_of(n < wide<bf16> ? wide<bf16> : n, wide<bf16>).chunks;
	size_t most = chunks < SUM_BLOCKS ? SUM_BLOCKS / chunks : 1;
	QUEUE_EARLY(d, (columns_sum<V, Job>), dim3(blocks, w.chunks), THREADS, job, rows, n,
		    w.groups, cuda_stage_of(d, SUMS * most * n * sizeof(float)));
}

/* Can an activation's rows be read in packs? All addresses and n must be aligned. */
template <typename T, typename... P> bool packs(size_t n, P... p)
{
	return n % wide<T> == 0 && aligned(p...);
}

/* A job that reads one array. */
template <typename T, int V> struct reads_one {
	const T *x;
	using item = pack<T, V>;
	__device__ item read(size_t i) const
	{
		return load<V>(x + i);
	}
};

} // namespace

#endif
