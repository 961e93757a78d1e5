/*
 * fake_cuda.h - what the *.cu files need to be compiled by g++ and run on the CPU: a test double of
 * the CUDA language. Include it in place of LAUNCH's real definition when FAKE_CUDA is defined.
 *
 * The threads of a block take turns on stacks of their own (threads.cc); blocks run one after the
 * other, in an order that changes from launch to launch, so that what depends on the order shows.
 * Shared memory is filled with NaN before each block. A thread costs a call; a barrier or a shuffle
 * costs two switches of stack a thread.
 */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <tuple>
#include <type_traits>

#include <cuda_runtime_api.h>
#include <cuda_bf16.h>

#undef __device__
#undef __global__
#undef __shared__
#undef __launch_bounds__
#define __device__
#define __global__
#define __shared__ static __attribute__((section("fake_shared")))
#define __launch_bounds__(...)

namespace fake
{
struct place { /* of the thread that runs */
	uint3 thread, block;
	dim3 threads, blocks;
};
extern place here;

/* Queues body, once for every thread, or records it where the stream is being captured. */
void launch(const char *kernel, dim3 blocks, dim3 threads, cudaStream_t stream,
	    std::function<void()> body);
/* Is p NULL, or something that kernels can reach? Else the test ends. */
void check_argument(const char *kernel, int i, const void *p);
void barrier(int line);
/* All of a warp give `bytes` at mine; theirs is what the thread of that lane gave. */
void shuffle(int line, unsigned mask, const void *mine, void *theirs, size_t bytes, unsigned lane);
unsigned lane();

template <class T> void check_if_pointer(const char *kernel, int i, const T &value)
{
	if constexpr (std::is_pointer_v<T>)
		check_argument(kernel, i, (const void *)value);
}

template <class... P, class... A>
void launch_with(const char *name, void (*kernel)(P...), dim3 blocks, dim3 threads,
		 cudaStream_t stream, A &&...given)
{
	static_assert(sizeof...(P) == sizeof...(A), "a kernel gets all of its arguments");
	static_assert(sizeof(std::tuple<P...>) <= 4096, "and they have 4 KiB");
	std::tuple<P...> kept{static_cast<P>(given)...};
	int i = 0;
	std::apply([&](auto &...x) { (check_if_pointer(name, i++, x), ...); }, kept);
	launch(name, blocks, threads, stream, [kernel, kept] { std::apply(kernel, kept); });
}

} // namespace fake

#define LAUNCH(kernel, blocks, threads, stream, ...) \
	fake::launch_with(#kernel, kernel, blocks, threads, stream, __VA_ARGS__)

#define threadIdx fake::here.thread
#define blockIdx  fake::here.block
#define blockDim  fake::here.threads
#define gridDim   fake::here.blocks

static inline void __syncthreads(int line = __builtin_LINE())
{
	fake::barrier(line);
}
template <class T> T __shfl_xor_sync(unsigned mask, T v, int by, int line = __builtin_LINE())
{
	T theirs;
	fake::shuffle(line, mask, &v, &theirs, sizeof v, fake::lane() ^ (unsigned)by);
	return theirs;
}

/* Threads take turns: nobody comes between the reading and the writing. */
template <class T> T atomicAdd(T *p, std::common_type_t<T> v)
{
	static_assert(std::is_same_v<T, int> || std::is_same_v<T, unsigned> ||
			      std::is_same_v<T, unsigned long long> || std::is_same_v<T, float> ||
			      std::is_same_v<T, double>,
		      "CUDA has no such atomicAdd");
	T old = *p;
	*p = old + v;
	return old;
}
static inline void __threadfence()
{
}
static inline void __threadfence_system()
{
}
template <class A, class B> std::common_type_t<A, B> min(A a, B b)
{
	return b < a ? b : a;
}

#endif
