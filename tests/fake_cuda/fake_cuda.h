/*
 * fake_cuda.h - a test double of the CUDA language: g++ compiles the *.cu files with it, to run on
 * the CPU. Include it in place of the real definition of LAUNCH if FAKE_CUDA is defined.
 *
 * The threads of a block take turns on stacks of their own (threads.cc). Blocks run one after
 * another, in an order that changes with each launch; results that depend on the order therefore
 * show. Shared memory is filled with NaN before each block. A thread costs a call; a barrier or a
 * shuffle costs two switches of stack for each thread.
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
struct place { /* of the running thread */
	uint3 thread, block;
	dim3 threads, blocks;
};
extern place here;

/* Queues body, to run once for each thread, or records it if the stream is being captured. */
void launch(const char *kernel, dim3 blocks, dim3 threads, cudaStream_t stream,
	    std::function<void()> body);
/* Ends the test, unless p is NULL or memory that kernels can access. */
void check_argument(const char *kernel, int i, const void *p);
void barrier(int line);
/* All threads of a warp give `bytes` at mine; theirs gets the bytes of the thread in that lane. */
void shuffle(int line, unsigned mask, const void *mine, void *theirs, size_t bytes, unsigned lane);
unsigned ballot(int line, unsigned mask, bool mine); /* bit i: thread i of the warp gives true */
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

extern bool has_waited; /* the running kernel has called wait_for_previous */
[[noreturn]] void did_not_wait(const char *kernel);

/* For kernels that may run before the kernel before has ended: they must wait for it. */
template <class... P, class... A>
void launch_early(const char *name, void (*kernel)(P...), dim3 blocks, dim3 threads,
		  cudaStream_t stream, A &&...given)
{
	std::tuple<P...> kept{static_cast<P>(given)...};
	int i = 0;
	std::apply([&](auto &...x) { (check_if_pointer(name, i++, x), ...); }, kept);
	launch(name, blocks, threads, stream, [name, kernel, kept] {
		has_waited = false;
		std::apply(kernel, kept);
		if (!has_waited)
			did_not_wait(name);
	});
}

} // namespace fake

#define LAUNCH_EARLY(kernel, blocks, threads, stream, ...) \
	fake::launch_early(#kernel, kernel, blocks, threads, stream, __VA_ARGS__)
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

static inline unsigned __ballot_sync(unsigned mask, bool mine, int line = __builtin_LINE())
{
	return fake::ballot(line, mask, mine);
}

static inline int __popc(unsigned x)
{
	return __builtin_popcount(x);
}

/* The compiler does not see that it is a product, so it fuses no addition with it. */
static inline float __fmul_rn(float a, float b)
{
	float y = a * b;
	asm("" : "+x"(y));
	return y;
}

/* Threads take turns: no other thread runs between the read and the write. */
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
