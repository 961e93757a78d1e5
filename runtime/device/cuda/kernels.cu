/*
 * kernels.cu - the kernels of the CUDA device. kernels.h has what they compute.
 *
 * All of them are bound by memory: they read 16 bytes a thread at once where addresses and lengths
 * allow it (V numbers, a pack), one number otherwise. Three forms carry nearly all of them:
 *
 *   map           y[i] = f(y[i], x[i], i)
 *   columns_map   a matrix [rows x n], as an image's pixels by its channels: a thread keeps to its
 *                 columns, whose parameters it has in registers, and walks down the rows
 *   columns_sum   the same walk, adding up: float32 within a thread and a block, float64 over
 *                 blocks. The block that is done last adds up what all have written, so that a sum
 *                 costs one launch; the order of additions depends on the lengths alone
 */
#include "runtime/device/cuda/kernels.h"

#include <cuda_bf16.h>

#ifdef FAKE_CUDA
#include "fake_cuda.h"
#else
#define LAUNCH(kernel, blocks, threads, stream, ...) \
	kernel<<<blocks, threads, 0, stream>>>(__VA_ARGS__)
#endif

namespace
{

using bf16 = __nv_bfloat16;

constexpr unsigned THREADS = 256, WARPS = THREADS / 32, ALL = 0xffffffffu;
constexpr unsigned MAP_BLOCKS = 2048, TALLY_BLOCKS = 128;

/* ---- Packs --------------------------------------------------------------- */

template <typename T> constexpr int wide = 16 / sizeof(T);

template <typename T, int V> constexpr size_t pack_align = sizeof(T) * V < 16 ? sizeof(T) * V : 16;
template <typename T, int V> struct alignas(pack_align<T, V>) pack {
	T v[V];
};

inline bool aligned(const void *p)
{
	return (uintptr_t)p % 16 == 0;
}

__device__ inline float number(float x)
{
	return x;
}
__device__ inline float number(bf16 x)
{
	return __bfloat162float(x);
}
template <typename T> __device__ inline T rounded(float x);
template <> __device__ inline float rounded<float>(float x)
{
	return x;
}
template <> __device__ inline bf16 rounded<bf16>(float x)
{
	return __float2bfloat16(x);
}

template <int V, typename T> __device__ inline pack<T, V> load(const T *p)
{
	return *(const pack<T, V> *)p;
}
template <int V, typename T> __device__ inline void store(T *p, const pack<T, V> &x)
{
	*(pack<T, V> *)p = x;
}

inline unsigned blocks_for(size_t threads, size_t most)
{
	size_t blocks = (threads + THREADS - 1) / THREADS;
	return (unsigned)(blocks < 1 ? 1 : blocks < most ? blocks : most);
}

/* ---- y[i] = f(y[i], x[i], i) --------------------------------------------- */

/* x may be y, for functions that look at one of them only. */
template <int V, typename T, typename U, typename F>
__global__ void __launch_bounds__(THREADS) map(T *y, const U *x, size_t n, F f)
{
	size_t first = (size_t)blockIdx.x * THREADS + threadIdx.x;
	size_t step = (size_t)gridDim.x * THREADS;

	for (size_t i = first; i < n / V; i += step) {
		pack<T, V> a = load<V>(y + i * V);
		pack<U, V> b = load<V>(x + i * V);

#pragma unroll
		for (int k = 0; k < V; k++)
			a.v[k] = rounded<T>(f(number(a.v[k]), number(b.v[k]), i * V + k));
		store<V>(y + i * V, a);
	}
	for (size_t i = n / V * V + first; i < n; i += step)
		y[i] = rounded<T>(f(number(y[i]), number(x[i]), i));
}

template <typename T, typename U, typename F>
void map_all(cudaStream_t s, T *y, const U *x, size_t n, F f)
{
	constexpr int V = sizeof(T) < sizeof(U) ? wide<T> : wide<U>;

	if (n == 0)
		return;
	if (aligned(y) && aligned(x))
		LAUNCH((map<V, T, U, F>), blocks_for(n / V, MAP_BLOCKS), THREADS, s, y, x, n, f);
	else
		LAUNCH((map<1, T, U, F>), blocks_for(n, MAP_BLOCKS), THREADS, s, y, x, n, f);
}

/* Of activations. */
template <typename F>
void map_activation(cudaStream_t s, bool is_bf16, void *y, const void *x, size_t n, F f)
{
	if (is_bf16)
		map_all(s, (bf16 *)y, (const bf16 *)x, n, f);
	else
		map_all(s, (float *)y, (const float *)x, n, f);
}

struct fill {
	float a;
	__device__ float operator()(float, float, size_t) const
	{
		return a;
	}
};
struct scale {
	float a;
	__device__ float operator()(float y, float, size_t) const
	{
		return a * y;
	}
};
struct axpy {
	float a;
	__device__ float operator()(float y, float x, size_t) const
	{
		return y + a * x;
	}
};
struct take {
	__device__ float operator()(float, float x, size_t) const
	{
		return x;
	}
};
struct relu {
	__device__ float operator()(float y, float, size_t) const
	{
		return y < 0 ? 0 : y; /* a NaN stays one */
	}
};
struct relu_grad {
	__device__ float operator()(float dy, float y, size_t) const
	{
		return y == 0 ? 0 : dy;
	}
};
struct tangent {
	__device__ float operator()(float y, float, size_t) const
	{
		return tanhf(y);
	}
};
struct tangent_grad {
	__device__ float operator()(float dy, float y, size_t) const
	{
		return dy * (1 - y * y);
	}
};
struct dropout {
	const struct kernels_step *at;
	uint64_t key, salt;
	float p, scale;
	__device__ float operator()(float y, float, size_t i) const
	{
		return dropout_keeps(at ? at->key : key, salt, i, p) ? y * scale : 0;
	}
};

/* ---- Walks down the columns of a matrix ----------------------------------- */

/*
 * A block covers `groups` packs of columns and THREADS / groups rows at once; blockIdx.y says which
 * columns. A job has what a thread keeps of its columns (kept, keep), what it reads at one place
 * (item, read) and what it does with that.
 */
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

/* Reads that are under way at once: enough to hide the latency, in registers that there are. */
template <int V> constexpr int ahead = V > 4 ? 2 : 4;

template <int V, typename Job>
__global__ void __launch_bounds__(THREADS)
	columns_map(Job job, size_t rows, size_t n, unsigned groups)
{
	constexpr int U = ahead<V>;
	size_t lanes = THREADS / groups, lane = threadIdx.x / groups, step = gridDim.x * lanes;
	size_t column = ((size_t)blockIdx.y * groups + threadIdx.x % groups) * V;

	if (lane >= lanes || column >= n)
		return;
	typename Job::kept kept = job.keep(column);

	for (size_t row = blockIdx.x * lanes + lane; row < rows; row += step * U) {
		typename Job::item item[U];

#pragma unroll
		for (int u = 0; u < U; u++)
			if (row + u * step < rows)
				item[u] = job.read((row + u * step) * n + column);
#pragma unroll
		for (int u = 0; u < U; u++)
			if (row + u * step < rows)
				job.write((row + u * step) * n + column, item[u], kept);
	}
}

template <int V, typename Job>
void map_columns(cudaStream_t s, const Job &job, size_t rows, size_t n)
{
	walk w = walk_of(n, V);

	LAUNCH((columns_map<V, Job>), dim3(walk_blocks(w, rows, ahead<V>, MAP_BLOCKS), w.chunks),
	       THREADS, s, job, rows, n, w.groups);
}

/* Shared memory is had from plain functions: two templates that each declare some would not be
 * portable to a compiler that only emulates it. */
constexpr int SUMS = 2; /* the most of a job */
__device__ inline float *shared_floats()
{
	__shared__ float all[SUMS * wide<bf16> * THREADS];
	return all;
}
__device__ inline double *shared_doubles()
{
	__shared__ double all[SUMS * THREADS];
	return all;
}
__device__ inline bool *shared_flag()
{
	__shared__ bool one;
	return &one;
}

/* Of M arrays s[THREADS], whose thread t stands in lane t / groups: the first lane gets the sum
 * over all. Every thread of the block comes here. */
template <int M, typename S>
__device__ inline void block_reduce(S *s, unsigned lane, unsigned lanes, unsigned groups)
{
	unsigned by = 1;

	while (by < lanes)
		by *= 2;
	for (by /= 2; by > 0; by /= 2) {
		__syncthreads();
		if (lane < by && lane + by < lanes)
			for (int m = 0; m < M; m++)
				s[m * THREADS + threadIdx.x] +=
					s[m * THREADS + threadIdx.x + by * groups];
	}
}

/* Is this block the last of its row of the grid to come here? What the others wrote before can then
 * be read. Every thread of the block comes here. */
__device__ inline bool last_block(unsigned *counter)
{
	bool *last = shared_flag();

	if (gridDim.x == 1) {
		__syncthreads();
		return true;
	}
	__threadfence();
	__syncthreads();
	if (threadIdx.x == 0) {
		*last = atomicAdd(counter, 1u) == gridDim.x - 1;
		if (*last)
			*counter = 0;
	}
	__syncthreads();
	__threadfence();
	return *last;
}

template <int V, typename Job>
__global__ void __launch_bounds__(THREADS)
	columns_sum(Job job, size_t rows, size_t n, unsigned groups, kernels_stage stage)
{
	constexpr int U = ahead<V>, K = Job::sums;
	unsigned lanes = THREADS / groups, lane = threadIdx.x / groups;
	size_t step = (size_t)gridDim.x * lanes;
	size_t column = ((size_t)blockIdx.y * groups + threadIdx.x % groups) * V;
	bool in = lane < lanes && column < n;
	float sum[K * V] = {0};

	if (in) {
		typename Job::kept kept = job.keep(column);

		for (size_t row = (size_t)blockIdx.x * lanes + lane; row < rows; row += step * U) {
			typename Job::item item[U];

#pragma unroll
			for (int u = 0; u < U; u++)
				if (row + u * step < rows)
					item[u] = job.read((row + u * step) * n + column);
#pragma unroll
			for (int u = 0; u < U; u++)
				if (row + u * step < rows)
					job.add((row + u * step) * n + column, item[u], kept, sum);
		}
	}
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

		if (part < parts)
#pragma unroll 4
			for (unsigned b = part; b < gridDim.x; b += parts)
				for (int k = 0; k < K; k++)
					of[k] += p[((size_t)b * K + k) * n];
		for (int k = 0; k < K; k++)
			total[k * THREADS + threadIdx.x] = of[k];
		block_reduce<K>(total, part, parts, width);
		if (part == 0)
			job.finish(first + c + threadIdx.x, total + threadIdx.x);
		__syncthreads();
	}
}

template <int V, typename Job>
void sum_columns(cudaStream_t s, const Job &job, size_t rows, size_t n, kernels_stage stage)
{
	walk w = walk_of(n, V);
	unsigned blocks = walk_blocks(w, rows, ahead<V>, KERNELS_BLOCKS);

	if (w.chunks > KERNELS_COUNTERS)
		blocks = 1;
	LAUNCH((columns_sum<V, Job>), dim3(blocks, w.chunks), THREADS, s, job, rows, n, w.groups,
	       stage);
}

/* Whether an activation's rows can be read in packs: all addresses are aligned, and so is n. */
template <typename T> inline bool packs(size_t n, const void *a, const void *b, const void *c)
{
	return n % wide<T> == 0 && aligned(a) && aligned(b) && aligned(c);
}

template <typename T, int V> struct bias_job {
	T *y;
	const float *b;
	bool relu;
	struct kept {
		float b[V];
	};
	using item = pack<T, V>;
	__device__ kept keep(size_t column) const
	{
		kept k;
		for (int v = 0; v < V; v++)
			k.b[v] = b[column + v];
		return k;
	}
	__device__ item read(size_t at) const
	{
		return load<V>(y + at);
	}
	__device__ void write(size_t at, item &i, const kept &k) const
	{
#pragma unroll
		for (int v = 0; v < V; v++) {
			float x = number(i.v[v]) + k.b[v];
			i.v[v] = rounded<T>(relu && x < 0 ? 0 : x);
		}
		store<V>(y + at, i);
	}
};

template <typename T, int V> struct sum_job {
	static constexpr int sums = 1;
	const T *y;
	float *b;
	struct kept {
	};
	using item = pack<T, V>;
	__device__ kept keep(size_t) const
	{
		return {};
	}
	__device__ item read(size_t at) const
	{
		return load<V>(y + at);
	}
	__device__ void add(size_t, const item &i, const kept &, float *sum) const
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

/* ---- Batch normalisation -------------------------------------------------- */

/* Squares are those of the distance from the first row, so that little cancels where the mean is
 * far from zero. */
template <typename T, int V> struct statistics_job {
	static constexpr int sums = 2;
	const T *x;
	float *at, *running;
	float alpha;
	size_t rows, n;
	struct kept {
		float first[V];
	};
	using item = pack<T, V>;
	__device__ kept keep(size_t column) const
	{
		kept k;
		for (int v = 0; v < V; v++)
			k.first[v] = number(x[column + v]);
		return k;
	}
	__device__ item read(size_t i) const
	{
		return load<V>(x + i);
	}
	__device__ void add(size_t, const item &i, const kept &k, float *sum) const
	{
#pragma unroll
		for (int v = 0; v < V; v++) {
			float d = number(i.v[v]) - k.first[v];
			sum[v] += d;
			sum[V + v] += d * d;
		}
	}
	__device__ void finish(size_t c, const double *total) const
	{
		double d = total[0] / rows, variance = total[THREADS] / rows - d * d;
		float mean = (float)(number(x[c]) + d);
		float var = variance < 0 ? 0 : (float)variance; /* a NaN stays one */

		at[c] = mean;
		at[n + c] = var;
		running[c] = (1 - alpha) * running[c] + alpha * mean;
		running[n + c] = (1 - alpha) * running[n + c] + alpha * var;
	}
};

template <typename T, int V> struct norm_job {
	T *y;
	const T *x, *more;
	const float *scale, *at;
	float epsilon;
	bool relu;
	size_t n;
	struct kept {
		float mean[V], a[V], beta[V];
	};
	struct item {
		pack<T, V> x, more;
	};
	__device__ kept keep(size_t column) const
	{
		kept k;
		for (int v = 0; v < V; v++) {
			size_t c = column + v;
			k.mean[v] = at[c];
			k.a[v] = scale[c] / sqrtf(at[n + c] + epsilon);
			k.beta[v] = scale[n + c];
		}
		return k;
	}
	__device__ item read(size_t i) const
	{
		item it;
		it.x = load<V>(x + i);
		if (more)
			it.more = load<V>(more + i);
		return it;
	}
	__device__ void write(size_t i, const item &it, const kept &k) const
	{
		pack<T, V> out;

#pragma unroll
		for (int v = 0; v < V; v++) {
			float z = (number(it.x.v[v]) - k.mean[v]) * k.a[v] + k.beta[v];
			if (more)
				z += number(it.more.v[v]);
			out.v[v] = rounded<T>(relu && z < 0 ? 0 : z);
		}
		store<V>(y + i, out);
	}
};

/* What both passes of the gradient read. */
template <typename T, int V> struct norm_grad_item {
	pack<T, V> dy, x, y;
	__device__ norm_grad_item()
	{
	}
	__device__ norm_grad_item(const T *dy_at, const T *x_at, const T *y_at)
	{
		dy = load<V>(dy_at);
		x = load<V>(x_at);
		if (y_at)
			y = load<V>(y_at);
	}
	__device__ float g(int v, bool masked) const
	{
		return masked && number(y.v[v]) == 0 ? 0 : number(dy.v[v]);
	}
};

template <typename T, int V> struct norm_grad_scale_job {
	static constexpr int sums = 2;
	float *dscale;
	T *dy;
	const T *x, *y;
	bool back;
	const float *at;
	float epsilon;
	size_t n;
	struct kept {
		float mean[V], a[V];
	};
	using item = norm_grad_item<T, V>;
	__device__ kept keep(size_t column) const
	{
		kept k;
		for (int v = 0; v < V; v++) {
			k.mean[v] = at[column + v];
			k.a[v] = 1 / sqrtf(at[n + column + v] + epsilon);
		}
		return k;
	}
	__device__ item read(size_t i) const
	{
		return item(dy + i, x + i, y ? y + i : NULL);
	}
	__device__ void add(size_t i, const item &it, const kept &k, float *sum) const
	{
		pack<T, V> masked;

#pragma unroll
		for (int v = 0; v < V; v++) {
			float g = it.g(v, y != NULL);
			sum[v] += g * ((number(it.x.v[v]) - k.mean[v]) * k.a[v]);
			sum[V + v] += g;
			masked.v[v] = rounded<T>(g);
		}
		if (back)
			store<V>(dy + i, masked);
	}
	__device__ void finish(size_t c, const double *total) const
	{
		dscale[c] = (float)total[0];
		dscale[n + c] = (float)total[THREADS];
	}
};

/* dx = gamma / sd (g - mean(g) - xhat mean(g xhat)) */
template <typename T, int V> struct norm_grad_job {
	T *dx;
	const T *dy, *x, *y;
	const float *dscale, *scale, *at;
	float epsilon;
	size_t rows, n;
	struct kept {
		float mean[V], a[V], b[V], c[V];
	};
	using item = norm_grad_item<T, V>;
	__device__ kept keep(size_t column) const
	{
		kept k;
		for (int v = 0; v < V; v++) {
			size_t i = column + v;
			float r = 1 / sqrtf(at[n + i] + epsilon), share = 1.0f / rows;
			k.mean[v] = at[i];
			k.a[v] = scale[i] * r;
			k.b[v] = k.a[v] * r * (dscale[i] * share);
			k.c[v] = k.a[v] * (dscale[n + i] * share);
		}
		return k;
	}
	__device__ item read(size_t i) const
	{
		return item(dy + i, x + i, y ? y + i : NULL);
	}
	__device__ void write(size_t i, const item &it, const kept &k) const
	{
		pack<T, V> out;

#pragma unroll
		for (int v = 0; v < V; v++)
			out.v[v] = rounded<T>(k.a[v] * it.g(v, y != NULL) - k.c[v] -
					      (number(it.x.v[v]) - k.mean[v]) * k.b[v]);
		store<V>(dx + i, out);
	}
};

/* ---- Losses ---------------------------------------------------------------- */

/* Called by all threads of a block; loss and correct are those of thread 0 alone. */
__device__ inline void tally_add(double loss, unsigned long long correct, size_t rows,
				 double divisor, kernels_tally *tally, kernels_stage stage)
{
	double *losses = (double *)stage.partial;
	unsigned long long *corrects = (unsigned long long *)(losses + TALLY_BLOCKS);

	if (threadIdx.x == 0) {
		losses[blockIdx.x] = loss;
		corrects[blockIdx.x] = correct;
	}
	if (!last_block(stage.counter) || threadIdx.x != 0)
		return;
	loss = 0;
	correct = 0;
#pragma unroll 8
	for (unsigned b = 0; b < gridDim.x; b++) {
		loss += losses[b];
		correct += corrects[b];
	}
	tally->loss += loss / divisor;
	tally->correct += correct;
	tally->rows += rows;
}

__device__ inline float warp_sum(float x)
{
	for (int by = 16; by > 0; by /= 2)
		x += __shfl_xor_sync(ALL, x, by);
	return x;
}

__device__ inline float warp_max(float x)
{
	for (int by = 16; by > 0; by /= 2) {
		float other = __shfl_xor_sync(ALL, x, by);
		x = other > x ? other : x;
	}
	return x;
}

/* A warp a row. A NaN among the scores is no maximum, but makes the sum a NaN; an infinity does so
 * too, as inf - inf. The first among equals is the answer, and no answer beats a NaN. */
template <typename T>
__global__ void __launch_bounds__(THREADS)
	softmax_xent(T *z, const float *target, size_t rows, size_t n, kernels_tally *tally,
		     kernels_stage stage)
{
	unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	double loss = 0;
	unsigned correct = 0;

	for (size_t r = (size_t)blockIdx.x * WARPS + warp; r < rows;
	     r += (size_t)gridDim.x * WARPS) {
		T *row = z + r * n;
		float t = target[r], max = -INFINITY, sum = 0, score = 0, beaten = 0;
		bool is_class = t >= 0 && t < n;
		size_t label = is_class ? (size_t)t : n;

		for (size_t j = lane; j < n; j += 32)
			max = number(row[j]) > max ? number(row[j]) : max;
		max = warp_max(max);
		for (size_t j = lane; j < n; j += 32) {
			float x = number(row[j]);
			sum += expf(x - max);
			score += j == label ? x : 0;
			beaten += !(j < label ? x < max : x <= max);
		}
		sum = warp_sum(sum);
		score = warp_sum(score);
		beaten = warp_sum(beaten);
		loss += is_class ? (double)logf(sum) - (score - max) : (double)NAN;
		correct += is_class && beaten == 0 && score == max;
		float share = 1 / (sum * rows), hit = 1.0f / rows;

		for (size_t j = lane; j < n; j += 32)
			row[j] = rounded<T>(expf(number(row[j]) - max) * share -
					    (j == label ? hit : 0));
	}
	double *losses = shared_doubles();

	if (lane == 0) {
		losses[warp] = loss;
		losses[WARPS + warp] = correct;
	}
	__syncthreads();
	for (unsigned w = 1; threadIdx.x == 0 && w < WARPS; w++) {
		loss += losses[w];
		correct += (unsigned)losses[WARPS + w];
	}
	tally_add(loss, correct, rows, 1, tally, stage);
}

template <typename T>
__global__ void __launch_bounds__(THREADS) mse(T *z, const float *target, size_t rows, size_t n,
					       kernels_tally *tally, kernels_stage stage)
{
	float factor = 2.0f / (rows * n);
	double sum = 0, *s = shared_doubles();

	for (size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x; i < rows * n;
	     i += (size_t)gridDim.x * THREADS) {
		float e = number(z[i]) - target[i];
		sum += (double)e * e;
		z[i] = rounded<T>(factor * e);
	}
	s[threadIdx.x] = sum;
	block_reduce<1>(s, threadIdx.x, THREADS, 1);
	tally_add(s[threadIdx.x], 0, rows, (double)n, tally, stage);
}

/* ---- The optimiser, data ---------------------------------------------------- */

__global__ void set_step(kernels_step *at, kernels_step now)
{
	*at = now;
}

__device__ inline void sgd_one(float &p, float *v, float g, float lr, float m, float decay,
			       float scale)
{
	float step = scale * g + decay * p;

	if (v)
		step = *v = m * *v + step;
	p -= lr * step;
}

template <int V>
__global__ void __launch_bounds__(THREADS)
	sgd(float *p, float *v, const float *g, const kernels_step *at, float lr, float m,
	    float decay, float scale, size_t n)
{
	size_t first = (size_t)blockIdx.x * THREADS + threadIdx.x;
	size_t step = (size_t)gridDim.x * THREADS;

	lr = at ? at->lr : lr;
	for (size_t i = first; i < n / V; i += step) {
		pack<float, V> pp = load<V>(p + i * V), gg = load<V>(g + i * V), vv;

		if (v)
			vv = load<V>(v + i * V);
#pragma unroll
		for (int k = 0; k < V; k++)
			sgd_one(pp.v[k], v ? &vv.v[k] : NULL, gg.v[k], lr, m, decay, scale);
		store<V>(p + i * V, pp);
		if (v)
			store<V>(v + i * V, vv);
	}
	for (size_t i = n / V * V + first; i < n; i += step)
		sgd_one(p[i], v ? v + i : NULL, g[i], lr, m, decay, scale);
}

__global__ void __launch_bounds__(THREADS) copy_columns(float *y, size_t y_width, const float *x,
							size_t x_width, size_t rows, size_t n)
{
	size_t j = (size_t)blockIdx.x * THREADS + threadIdx.x;

	for (size_t r = blockIdx.y; j < n && r < rows; r += gridDim.y)
		y[r * y_width + j] = x[r * x_width + j];
}

/* Pixel j of a row that has been moved and mirrored as crop says; -1: zero came in there. */
__device__ inline long source_of(const kernels_source &from, unsigned j, const crop &c)
{
	unsigned channel = j % from.channels, pixel = j / from.channels;
	unsigned w = pixel % from.width, h = pixel / from.width;
	long i = (long)h + (long)c.down - (long)from.pad;
	long k = (long)(c.mirror ? from.width - 1 - w : w) + (long)c.right - (long)from.pad;

	if (i < 0 || i >= (long)from.height || k < 0 || k >= (long)from.width)
		return -1;
	return (i * from.width + k) * from.channels + channel;
}

template <typename T>
__global__ void __launch_bounds__(THREADS)
	gather(T *x, float *y, kernels_source from, kernels_rows rows)
{
	size_t j = (size_t)blockIdx.x * THREADS + threadIdx.x;
	int32_t row = rows.number[blockIdx.y];
	size_t at = (size_t)row * from.features;

	if (j == 0)
		y[blockIdx.y] = from.target[row];
	if (j >= from.features)
		return;
	long source = (long)j;

	if (from.width)
		source = source_of(from, (unsigned)j, crop_of(from.key, row, from.pad, from.flip));
	float value = 0;

	if (source >= 0) {
		value = from.bytes ? from.bytes[at + source] * (1.0f / 255)
				   : from.floats[at + source];
		if (from.mean)
			value -= from.mean[source];
	}
	x[blockIdx.y * from.features + j] = rounded<T>(value);
}

/* ---- Images ------------------------------------------------------------------- */

/* A block a row of the batch (blockIdx.y), a thread a pack of one image (blockIdx.x). */
constexpr size_t MOST_ROWS = 65535;
struct image_grid {
	dim3 blocks;
	unsigned threads;
};
inline image_grid image_blocks(size_t packs, size_t rows)
{
	unsigned threads = packs < THREADS ? ((unsigned)packs + 31) / 32 * 32 : THREADS;
	return {dim3((unsigned)((packs + threads - 1) / threads),
		     (unsigned)(rows < MOST_ROWS ? rows : MOST_ROWS)),
		threads};
}

template <int V, typename T>
__global__ void __launch_bounds__(THREADS) pool(T *y, const T *x, kernels_window w, size_t rows)
{
	unsigned packs = w.channels / V, i = blockIdx.x * blockDim.x + threadIdx.x;
	unsigned c = i % packs * V, ow = i / packs % w.out_width, oh = i / packs / w.out_width;
	int top = (int)(oh * w.stride) - (int)w.pad, left = (int)(ow * w.stride) - (int)w.pad;
	int h0 = top < 0 ? 0 : top, h1 = min(top + (int)w.size, (int)w.in_height);
	int w0 = left < 0 ? 0 : left, w1 = min(left + (int)w.size, (int)w.in_width);
	float share = 1.0f / (w.size * w.size);

	if (oh >= w.out_height)
		return;
	for (size_t r = blockIdx.y; r < rows; r += gridDim.y) {
		const T *from = x + r * w.in_height * w.in_width * w.channels + c;
		float best[V];

		for (int v = 0; v < V; v++)
			best[v] = w.average ? 0 : -INFINITY;
		for (int h = h0; h < h1; h++)
#pragma unroll 4
			for (int k = w0; k < w1; k++) {
				pack<T, V> p =
					load<V>(from + ((size_t)h * w.in_width + k) * w.channels);

#pragma unroll
				for (int v = 0; v < V; v++) {
					float a = number(p.v[v]);
					best[v] = w.average               ? best[v] + a
						  : a > best[v] || a != a ? a
									  : best[v];
				}
			}
		pack<T, V> out;

#pragma unroll
		for (int v = 0; v < V; v++)
			out.v[v] = rounded<T>(w.average ? best[v] * share : best[v]);
		store<V>(y + ((r * w.out_height + oh) * w.out_width + ow) * w.channels + c, out);
	}
}

/* Is pixel (h, k), which equals y, the first of the window from (top, left) that does? from: this
 * channel's. */
template <typename T>
__device__ inline bool first_of(const T *from, const kernels_window &w, int top, int left, int h,
				int k, float y)
{
	for (int i = top < 0 ? 0 : top; i <= h; i++)
		for (int j = left < 0 ? 0 : left; j < min(left + (int)w.size, (int)w.in_width);
		     j++) {
			if (i == h && j == k)
				return true;
			if (number(from[((size_t)i * w.in_width + j) * w.channels]) == y)
				return false;
		}
	return true;
}

/* What a pixel gets from all windows that it lies in: nothing is added in memory. */
template <int V, typename T>
__global__ void __launch_bounds__(THREADS)
	pool_grad(T *dx, const T *dy, const T *x, const T *y, kernels_window w, size_t rows)
{
	unsigned packs = w.channels / V, i = blockIdx.x * blockDim.x + threadIdx.x;
	unsigned c = i % packs * V, k = i / packs % w.in_width, h = i / packs / w.in_width;
	unsigned oh0 = h + w.pad < w.size ? 0 : (h + w.pad - w.size) / w.stride + 1;
	unsigned ow0 = k + w.pad < w.size ? 0 : (k + w.pad - w.size) / w.stride + 1;
	unsigned oh1 = min((h + w.pad) / w.stride + 1, w.out_height);
	unsigned ow1 = min((k + w.pad) / w.stride + 1, w.out_width);
	float share = 1.0f / (w.size * w.size);

	if (h >= w.in_height)
		return;
	for (size_t r = blockIdx.y; r < rows; r += gridDim.y) {
		const T *from = x + r * w.in_height * w.in_width * w.channels + c;
		size_t here = ((size_t)h * w.in_width + k) * w.channels;
		pack<T, V> mine = load<V>(from + here), out;
		float sum[V] = {0};

		for (unsigned oh = oh0; oh < oh1; oh++)
			for (unsigned ow = ow0; ow < ow1; ow++) {
				size_t at =
					((r * w.out_height + oh) * w.out_width + ow) * w.channels +
					c;
				pack<T, V> g = load<V>(dy + at), top = load<V>(y + at);

#pragma unroll
				for (int v = 0; v < V; v++) {
					float best = number(top.v[v]);
					if (w.average)
						sum[v] += number(g.v[v]) * share;
					else if (number(mine.v[v]) == best &&
						 first_of(from + v, w,
							  (int)(oh * w.stride) - (int)w.pad,
							  (int)(ow * w.stride) - (int)w.pad, (int)h,
							  (int)k, best))
						sum[v] += number(g.v[v]);
				}
			}
#pragma unroll
		for (int v = 0; v < V; v++)
			out.v[v] = rounded<T>(sum[v]);
		store<V>(dx + r * w.in_height * w.in_width * w.channels + c + here, out);
	}
}

template <int V, typename T>
__global__ void __launch_bounds__(THREADS) shortcut(T *y, const T *x, kernels_images s, size_t rows)
{
	unsigned packs = s.out_channels / V, i = blockIdx.x * blockDim.x + threadIdx.x;
	unsigned c = i % packs * V, w = i / packs % s.out_width, h = i / packs / s.out_width;
	unsigned before = (s.out_channels - s.in_channels) / 2;

	if (h >= s.out_height)
		return;
	for (size_t r = blockIdx.y; r < rows; r += gridDim.y) {
		pack<T, V> p;

		for (int v = 0; v < V; v++)
			p.v[v] = rounded<T>(0);
		if (c >= before && c - before < s.in_channels)
			p = load<V>(x +
				    ((r * s.in_height + h * s.stride) * s.in_width + w * s.stride) *
					    s.in_channels +
				    (c - before));
		store<V>(y + ((r * s.out_height + h) * s.out_width + w) * s.out_channels + c, p);
	}
}

template <int V, typename T>
__global__ void __launch_bounds__(THREADS)
	shortcut_grad(T *dx, const T *dy, kernels_images s, size_t rows)
{
	unsigned packs = s.in_channels / V, i = blockIdx.x * blockDim.x + threadIdx.x;
	unsigned c = i % packs * V, w = i / packs % s.in_width, h = i / packs / s.in_width;
	unsigned before = (s.out_channels - s.in_channels) / 2;
	bool from = h % s.stride == 0 && w % s.stride == 0;

	if (h >= s.in_height)
		return;
	for (size_t r = blockIdx.y; r < rows; r += gridDim.y) {
		pack<T, V> p;

		for (int v = 0; v < V; v++)
			p.v[v] = rounded<T>(0);
		if (from)
			p = load<V>(
				dy +
				((r * s.out_height + h / s.stride) * s.out_width + w / s.stride) *
					s.out_channels +
				before + c);
		store<V>(dx + ((r * s.in_height + h) * s.in_width + w) * s.in_channels + c, p);
	}
}

/* ---- Peers ---------------------------------------------------------------------- */

template <int V>
__global__ void __launch_bounds__(THREADS) sum(float *y, kernels_peers peers, float a, size_t n)
{
	size_t first = (size_t)blockIdx.x * THREADS + threadIdx.x;
	size_t step = (size_t)gridDim.x * THREADS;

	for (size_t i = first; i < n / V; i += step) {
		pack<float, V> all = load<V>(peers.x[0] + i * V);

#pragma unroll 4
		for (int k = 1; k < peers.k; k++) {
			pack<float, V> x = load<V>(peers.x[k] + i * V);
			for (int v = 0; v < V; v++)
				all.v[v] += x.v[v];
		}
		for (int v = 0; v < V; v++)
			all.v[v] *= a;
		store<V>(y + i * V, all);
	}
	for (size_t i = n / V * V + first; i < n; i += step) {
		float all = peers.x[0][i];

		for (int k = 1; k < peers.k; k++)
			all += peers.x[k][i];
		y[i] = a * all;
	}
}

/* What a push does to W; updater.c has the formulas. */
__device__ inline float pushed(kernels_op_kind kind, const kernels_table &p, size_t i, float w,
			       float g)
{
	switch (kind) {
	case KERNELS_ADD:
		return w + p.scale * g;
	case KERNELS_MOMENTUM:
	case KERNELS_MOMENTUM_EMA: {
		float v = p.momentum * p.state[i] +
			  (kind == KERNELS_MOMENTUM ? g : (1 - p.momentum) * g);
		p.state[i] = v;
		return w - p.lr * v;
	}
	case KERNELS_ADAGRAD:
	case KERNELS_ADAGRAD_SHARED: {
		float *history = kind == KERNELS_ADAGRAD ? p.own : p.state;
		float h = history[i] + g * g;
		history[i] = h;
		return w - p.rho / sqrtf(h + 1e-6f) * g;
	}
	case KERNELS_DCASGD:
		return w - p.lr * (g + p.lambda * g * g * (w - p.pulled[i]));
	case KERNELS_DCASGDA: {
		float square = p.momentum * p.own[i] + (1 - p.momentum) * (g * g);
		p.own[i] = square;
		return w -
		       p.lr * (g + p.lambda / sqrtf(square + 1e-7f) * (g * g) * (w - p.pulled[i]));
	}
	default: /* sgd and staleness, whose lr says how stale the push is */
		return w - p.lr * g;
	}
}

__global__ void __launch_bounds__(THREADS) apply(kernels_op_kind kind, kernels_table p, size_t n)
{
	for (size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x; i < n;
	     i += (size_t)gridDim.x * THREADS) {
		float w = p.w[i];

		if (kind == KERNELS_ELASTIC) {
			float mine = p.out[i], d = p.scale * (mine - w);
			p.w[i] = w + d;
			p.out[i] = mine - d;
			continue;
		}
		if (kind == KERNELS_SYNC)
			w += p.scale * (p.out[i] - p.pulled[i]);
		else if (kind != KERNELS_READ)
			w = pushed(kind, p, i, w, p.in[i]);
		if (kind != KERNELS_READ)
			p.w[i] = w;
		if (p.out)
			p.out[i] = w;
		if (p.keep)
			p.pulled[i] = w;
	}
}

} // namespace

/* ---- What kernels.h has ---------------------------------------------------------- */

size_t kernels_partials(size_t n)
{
	/* the fewest chunks, so the most blocks */
	walk w = walk_of(n < wide<bf16> ? wide<bf16> : n, wide<bf16>);
	size_t blocks = w.chunks < KERNELS_BLOCKS ? KERNELS_BLOCKS / w.chunks : 1;
	size_t tally = TALLY_BLOCKS * (sizeof(double) + sizeof(unsigned long long)) / sizeof(float);
	return SUMS * blocks * n > tally ? SUMS * blocks * n : tally;
}

void kernels_set_step(cudaStream_t s, struct kernels_step *at, struct kernels_step now)
{
	LAUNCH(set_step, 1, 1, s, at, now);
}

void kernels_fill(cudaStream_t s, float *y, float a, size_t n)
{
	map_all(s, y, y, n, fill{a});
}

void kernels_scale(cudaStream_t s, float *y, float a, size_t n)
{
	map_all(s, y, y, n, scale{a});
}

void kernels_axpy(cudaStream_t s, float *y, float a, const float *x, size_t n)
{
	map_all(s, y, x, n, axpy{a});
}

void kernels_columns(cudaStream_t s, float *y, size_t y_width, const float *x, size_t x_width,
		     size_t rows, size_t n)
{
	if (rows && n)
		LAUNCH(copy_columns,
		       dim3((unsigned)((n + THREADS - 1) / THREADS),
			    (unsigned)(rows < MOST_ROWS ? rows : MOST_ROWS)),
		       THREADS, s, y, y_width, x, x_width, rows, n);
}

void kernels_sgd(cudaStream_t s, float *p, float *v, const float *g, const struct kernels_step *at,
		 float lr, float m, float decay, float scale, size_t n)
{
	constexpr int V = wide<float>;

	if (n == 0)
		return;
	if (aligned(p) && aligned(v) && aligned(g))
		LAUNCH(sgd<V>, blocks_for(n / V, MAP_BLOCKS), THREADS, s, p, v, g, at, lr, m, decay,
		       scale, n);
	else
		LAUNCH(sgd<1>, blocks_for(n, MAP_BLOCKS), THREADS, s, p, v, g, at, lr, m, decay,
		       scale, n);
}

void kernels_to_bf16(cudaStream_t s, void *y, const float *x, size_t n)
{
	map_all(s, (bf16 *)y, x, n, take());
}

void kernels_from_bf16(cudaStream_t s, float *y, const void *x, size_t n)
{
	map_all(s, y, (const bf16 *)x, n, take());
}

/* Calls f(T) with a number of the type that an activation has. */
#define OF_TYPE(is_bf16, ...) \
	do { \
		if (is_bf16) { \
			using T = bf16; \
			__VA_ARGS__; \
		} else { \
			using T = float; \
			__VA_ARGS__; \
		} \
	} while (0)
/* The same for its packs: V is wide where `wide_too` holds for T, else 1. */
#define OF_PACK(is_bf16, wide_too, ...) \
	OF_TYPE( \
		is_bf16, \
		if (wide_too) { \
			constexpr int V = wide<T>; \
			__VA_ARGS__; \
		} else { \
			constexpr int V = 1; \
			__VA_ARGS__; \
		})

void kernels_add_bias(cudaStream_t s, bool is_bf16, void *y, const float *b, bool relu, size_t rows,
		      size_t n)
{
	if (rows && n)
		OF_PACK(is_bf16, packs<T>(n, y, NULL, NULL), {
			bias_job<T, V> job{(T *)y, b, relu};
			map_columns<V>(s, job, rows, n);
		});
}

void kernels_sum_rows(cudaStream_t s, bool is_bf16, float *b, const void *y, size_t rows, size_t n,
		      struct kernels_stage stage)
{
	if (rows && n)
		OF_PACK(is_bf16, packs<T>(n, y, NULL, NULL), {
			sum_job<T, V> job{(const T *)y, b};
			sum_columns<V>(s, job, rows, n, stage);
		});
	else
		kernels_fill(s, b, 0, n);
}

void kernels_relu(cudaStream_t s, bool is_bf16, void *y, size_t n)
{
	map_activation(s, is_bf16, y, y, n, relu());
}

void kernels_relu_grad(cudaStream_t s, bool is_bf16, void *dy, const void *y, size_t n)
{
	map_activation(s, is_bf16, dy, y, n, relu_grad());
}

void kernels_tanh(cudaStream_t s, bool is_bf16, void *y, size_t n)
{
	map_activation(s, is_bf16, y, y, n, tangent());
}

void kernels_tanh_grad(cudaStream_t s, bool is_bf16, void *dy, const void *y, size_t n)
{
	map_activation(s, is_bf16, dy, y, n, tangent_grad());
}

void kernels_dropout(cudaStream_t s, bool is_bf16, void *y, const struct kernels_step *at,
		     uint64_t key, uint64_t salt, float p, size_t n)
{
	map_activation(s, is_bf16, y, y, n, dropout{at, key, salt, p, 1 / (1 - p)});
}

void kernels_softmax_xent(cudaStream_t s, bool is_bf16, void *z, const float *target, size_t rows,
			  size_t n, struct kernels_tally *tally, struct kernels_stage stage)
{
	unsigned blocks = blocks_for(rows * 32, TALLY_BLOCKS);

	if (rows && n)
		OF_TYPE(is_bf16, LAUNCH(softmax_xent<T>, blocks, THREADS, s, (T *)z, target, rows,
					n, tally, stage));
}

void kernels_mse(cudaStream_t s, bool is_bf16, void *z, const float *target, size_t rows, size_t n,
		 struct kernels_tally *tally, struct kernels_stage stage)
{
	unsigned blocks = blocks_for(rows * n, TALLY_BLOCKS);

	if (rows && n)
		OF_TYPE(is_bf16,
			LAUNCH(mse<T>, blocks, THREADS, s, (T *)z, target, rows, n, tally, stage));
}

void kernels_gather(cudaStream_t s, bool is_bf16, void *x, float *y,
		    const struct kernels_source *from, const struct kernels_rows *rows,
		    size_t count)
{
	dim3 blocks((unsigned)((from->features + THREADS - 1) / THREADS), (unsigned)count);

	if (count && from->features)
		OF_TYPE(is_bf16, LAUNCH(gather<T>, blocks, THREADS, s, (T *)x, y, *from, *rows));
}

void kernels_pool(cudaStream_t s, bool is_bf16, void *y, const void *x, struct kernels_window w,
		  size_t rows)
{
	OF_PACK(is_bf16, packs<T>(w.channels, y, x, NULL), {
		image_grid g =
			image_blocks((size_t)w.out_height * w.out_width * (w.channels / V), rows);
		LAUNCH((pool<V, T>), g.blocks, g.threads, s, (T *)y, (const T *)x, w, rows);
	});
}

void kernels_pool_grad(cudaStream_t s, bool is_bf16, void *dx, const void *dy, const void *x,
		       const void *y, struct kernels_window w, size_t rows)
{
	OF_PACK(is_bf16, packs<T>(w.channels, dx, dy, x) && aligned(y), {
		image_grid g =
			image_blocks((size_t)w.in_height * w.in_width * (w.channels / V), rows);
		LAUNCH((pool_grad<V, T>), g.blocks, g.threads, s, (T *)dx, (const T *)dy,
		       (const T *)x, (const T *)y, w, rows);
	});
}

template <typename T> static bool shortcut_packs(const kernels_images &c)
{
	return c.in_channels % wide<T> == 0 && (c.out_channels - c.in_channels) / 2 % wide<T> == 0;
}

void kernels_shortcut(cudaStream_t s, bool is_bf16, void *y, const void *x, struct kernels_images c,
		      size_t rows)
{
	OF_PACK(is_bf16, packs<T>(c.out_channels, y, x, NULL) && shortcut_packs<T>(c), {
		image_grid g = image_blocks(
			(size_t)c.out_height * c.out_width * (c.out_channels / V), rows);
		LAUNCH((shortcut<V, T>), g.blocks, g.threads, s, (T *)y, (const T *)x, c, rows);
	});
}

void kernels_shortcut_grad(cudaStream_t s, bool is_bf16, void *dx, const void *dy,
			   struct kernels_images c, size_t rows)
{
	OF_PACK(is_bf16, packs<T>(c.out_channels, dx, dy, NULL) && shortcut_packs<T>(c), {
		image_grid g =
			image_blocks((size_t)c.in_height * c.in_width * (c.in_channels / V), rows);
		LAUNCH((shortcut_grad<V, T>), g.blocks, g.threads, s, (T *)dx, (const T *)dy, c,
		       rows);
	});
}

void kernels_norm_statistics(cudaStream_t s, bool is_bf16, const void *x, float *at, float *running,
			     float alpha, size_t rows, size_t n, struct kernels_stage stage)
{
	OF_PACK(is_bf16, packs<T>(n, x, NULL, NULL), {
		statistics_job<T, V> job{(const T *)x, at, running, alpha, rows, n};
		sum_columns<V>(s, job, rows, n, stage);
	});
}

void kernels_norm(cudaStream_t s, bool is_bf16, void *y, const void *x, const void *add,
		  const float *scale, const float *at, float epsilon, bool relu, size_t rows,
		  size_t n)
{
	OF_PACK(is_bf16, packs<T>(n, y, x, add), {
		norm_job<T, V> job{(T *)y, (const T *)x, (const T *)add, scale,
				   at,     epsilon,      relu,           n};
		map_columns<V>(s, job, rows, n);
	});
}

void kernels_norm_grad_scale(cudaStream_t s, bool is_bf16, float *dscale, void *dy, const void *x,
			     const void *y, bool keep, const float *at, float epsilon, size_t rows,
			     size_t n, struct kernels_stage stage)
{
	OF_PACK(is_bf16, packs<T>(n, dy, x, y), {
		norm_grad_scale_job<T, V> job{dscale, (T *)dy, (const T *)x, (const T *)y,
					      keep,   at,      epsilon,      n};
		sum_columns<V>(s, job, rows, n, stage);
	});
}

void kernels_norm_grad(cudaStream_t s, bool is_bf16, void *dx, const void *dy, const void *x,
		       const void *y, const float *dscale, const float *scale, const float *at,
		       float epsilon, size_t rows, size_t n)
{
	OF_PACK(is_bf16, packs<T>(n, dx, dy, x) && aligned(y), {
		norm_grad_job<T, V> job{(T *)dx,      (const T *)dy,
					(const T *)x, (const T *)y,
					dscale,       scale,
					at,           epsilon,
					rows,         n};
		map_columns<V>(s, job, rows, n);
	});
}

void kernels_sum(cudaStream_t s, float *y, const struct kernels_peers *peers, float a, size_t n)
{
	constexpr int V = wide<float>;
	bool all = aligned(y);

	for (int k = 0; k < peers->k; k++)
		all = all && aligned(peers->x[k]);
	if (n == 0)
		return;
	if (all)
		LAUNCH(sum<V>, blocks_for(n / V, MAP_BLOCKS), THREADS, s, y, *peers, a, n);
	else
		LAUNCH(sum<1>, blocks_for(n, MAP_BLOCKS), THREADS, s, y, *peers, a, n);
}

void kernels_apply(cudaStream_t s, enum kernels_op_kind kind, const struct kernels_table *p,
		   size_t n)
{
	if (n)
		LAUNCH(apply, blocks_for(n, MAP_BLOCKS), THREADS, s, kind, *p, n);
}
