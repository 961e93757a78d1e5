/*
 * kernel.h - building blocks of the kernels of the CUDA device.
 *
 * All kernels are memory-bound: a thread reads 16 bytes at once (V numbers, a pack) if addresses
 * and lengths allow it, otherwise one number. Sums over rows have two stages: each block writes its
 * sum, and the last block to finish adds these, always in the same order. Every operation queues
 * its work on the stream and returns.
 */
#ifndef KERNEL_H
#define KERNEL_H

#include "runtime/device/cuda/cuda.h"

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#ifdef FAKE_CUDA
#include "fake_cuda.h"
#else
#define LAUNCH(kernel, blocks, threads, stream, ...) \
	kernel<<<blocks, threads, 0, stream>>>(__VA_ARGS__)
#define LAUNCH_EARLY(kernel, ...) launch_early(kernel, __VA_ARGS__)

/* Programmatic dependent launch: blocks may start when the kernel before lets them. */
template <typename... P, typename... A>
void launch_early(void (*kernel)(P...), dim3 blocks, dim3 threads, cudaStream_t stream,
		  A &&...given)
{
	cudaLaunchAttribute early = {};
	early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
	early.val.programmaticStreamSerializationAllowed = 1;
	cudaLaunchConfig_t how = {};
	how.gridDim = blocks;
	how.blockDim = threads;
	how.stream = stream;
	how.attrs = &early;
	how.numAttrs = 1;
	cudaLaunchKernelEx(&how, kernel, static_cast<P>(given)...);
}
#endif

/* Launches on the device's stream. may_be_early: the kernel begins with wait_for_previous. */
#define QUEUE_AS(may_be_early, d, kernel, blocks, threads, ...) \
	do { \
		if ((may_be_early) && cuda_of(d)->early) \
			LAUNCH_EARLY(kernel, blocks, threads, cuda_of(d)->stream, __VA_ARGS__); \
		else \
			LAUNCH(kernel, blocks, threads, cuda_of(d)->stream, __VA_ARGS__); \
		cudaError_t status_ = cudaGetLastError(); \
		if (status_ != cudaSuccess) \
			cuda_failed(d, __FILE__, __LINE__, #kernel, cudaGetErrorString(status_)); \
	} while (0)
#define QUEUE(...)       QUEUE_AS(false, __VA_ARGS__)
#define QUEUE_EARLY(...) QUEUE_AS(true, __VA_ARGS__)

namespace
{
using bf16 = __nv_bfloat16;

constexpr unsigned THREADS = 256, MAP_BLOCKS = 2048;
constexpr size_t MOST_ROWS = 65535; /* of a grid */

/* ---- Packs --------------------------------------------------------------- */

template <typename T> constexpr int wide = 16 / sizeof(T);

template <typename T, int V> constexpr size_t pack_align = sizeof(T) * V < 16 ? sizeof(T) * V : 16;
template <typename T, int V> struct alignas(pack_align<T, V>) pack {
	T v[V];
};

template <typename... P> bool aligned(P... p)
{
	return (((uintptr_t)p % 16 == 0) && ...);
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

/* p[v] = x(v), v < V. */
template <int V, typename T, typename X> __device__ inline void store_each(T *p, X x)
{
	pack<T, V> out;
#pragma unroll
	for (int v = 0; v < V; v++)
		out.v[v] = rounded<T>(x(v));
	store<V>(p, out);
}

inline unsigned blocks_for(size_t threads, size_t most)
{
	size_t blocks = (threads + THREADS - 1) / THREADS;
	return (unsigned)(blocks < 1 ? 1 : blocks < most ? blocks : most);
}

/* Lets the next kernel start, if it was launched early, and waits until the previous kernel
 * has ended and its writes are visible. Needs code for sm_90 (NVCC_ARCH): otherwise it does not
 * wait. */
__device__ inline void wait_for_previous()
{
#ifdef FAKE_CUDA
	fake::has_waited = true;
#elif defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 900
	cudaTriggerProgrammaticLaunchCompletion();
	cudaGridDependencySynchronize();
#endif
}

/* Runs the code with T as the type of the device's activations. */
#define OF_TYPE(d, ...) \
	do { \
		if (cuda_of(d)->bf16) { \
			using T = bf16; \
			__VA_ARGS__; \
		} else { \
			using T = float; \
			__VA_ARGS__; \
		} \
	} while (0)
/* The same for packs: V is wide<T> if `wide_too` holds for T, otherwise 1. */
#define OF_PACK(d, wide_too, ...) \
	OF_TYPE( \
		d, \
		if (wide_too) { \
			constexpr int V = wide<T>; \
			__VA_ARGS__; \
		} else { \
			constexpr int V = 1; \
			__VA_ARGS__; \
		})

/* ---- All floats ---------------------------------------------------------- */

/* Stands for the numbers i .. i + V - 1. */
template <int V> struct at {
	size_t i;
};

/* f(at, p ...): for packs, then one by one for the numbers after the last pack. */
template <int V, typename F, typename... P>
__global__ void __launch_bounds__(THREADS) each(size_t n, F f, P... p)
{
	size_t first = (size_t)blockIdx.x * THREADS + threadIdx.x;
	size_t step = (size_t)gridDim.x * THREADS;
	wait_for_previous();
	for (size_t i = first; i < n / V; i += step)
		f(at<V>{i * V}, p...);
	for (size_t i = n / V * V + first; i < n; i += step)
		f(at<1>{i}, p...);
}

/* p: arrays of n, or NULL. Uses packs of V if all are aligned and `packed` is set. */
template <int V, typename F, typename... P>
void for_each(struct device *d, bool packed, size_t n, F f, P... p)
{
	if (n == 0)
		return;
	if (packed && aligned(p...))
		QUEUE_EARLY(d, (each<V, F, P...>), blocks_for(n / V, MAP_BLOCKS), THREADS, n, f,
			    p...);
	else
		QUEUE_EARLY(d, (each<1, F, P...>), blocks_for(n, MAP_BLOCKS), THREADS, n, f, p...);
}

/* ---- Over a warp: all its threads must call, and all get the result -------- */

constexpr unsigned WARPS = THREADS / 32, ALL = 0xffffffffu;

template <typename T> __device__ inline T warp_sum(T x)
{
	for (int by = 16; by > 0; by /= 2)
		x += __shfl_xor_sync(ALL, x, by);
	return x;
}

template <typename T> __device__ inline T warp_max(T x)
{
	for (int by = 16; by > 0; by /= 2) {
		T other = __shfl_xor_sync(ALL, x, by);
		x = other > x ? other : x;
	}
	return x;
}

/* ---- Sums of a block, and of blocks -------------------------------------- */

/* Plain functions provide shared memory: declarations in several templates would not be portable to
 * a compiler that only emulates it. */
constexpr int SUMS = 2; /* most sums of a job */
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

/* Sums M arrays s[THREADS] over lanes, where thread t is in lane t / groups; the first lane gets
 * the sum. All threads of the block must call. */
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

/* Is this block the last of its row of the grid to call? It can then read what the others wrote
 * before. All threads of the block must call. */
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

} // namespace

#endif
