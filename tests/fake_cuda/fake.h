/*
 * fake.h - shared by the fake libraries.
 *
 * Streams are lazy: work is queued in its stream and runs on the host's thread when something waits
 * for it. That is as late as CUDA allows. A missing wait therefore shows: the host finds NaN or old
 * values.
 *
 * Environment:
 *   FAKE_CUDA_DEVICES=n     number of GPUs (1)
 *   FAKE_CUDA_FIRST=n       the first of the machine's GPUs that this process sees (0)
 *   FAKE_CUDA_HANG=1        making a stream never ends
 *   FAKE_CUDA_MPS=1         processes share them by MPS
 *   FAKE_CUDA_MEMORY=bytes  of each, for each process (4 GiB)
 *   FAKE_CUDA_DRIVER=n      the version that the driver supports, as cudaDriverGetVersion gives it
 *   FAKE_CUDA_CHANNELS=n    convolutions need channels that are a multiple of n (1)
 *   FAKE_CUDA_FILTER_CHANNELS=n  the same for inputs, in the filters' gradient only (1)
 *   FAKE_CUDA_SLOW=n        the n-th algorithm of each direction is slow, but not when tried
 *   FAKE_CUDA_ROUNDS=1      the fastest algorithm was tried with units that round
 *   FAKE_CUDA_UNCAPTURABLE=1  convolutions cannot be captured
 *   FAKE_CUDA_STRICT=0      the host may access device memory
 *   FAKE_CUDA_FAIL=n        the n-th kernel of each process fails
 *   FAKE_CUDA_NOTES=1       calls that return an error print the reason on stderr
 *   FAKE_CUDA_NODES=1       each graph prints its number of nodes on stderr
 *   FAKE_CUDA_STARTS=file   gets a line for each GPU on which a process makes a context
 */
#ifndef FAKE_H
#define FAKE_H

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>

namespace fake
{
long setting(const char *name, long otherwise);
[[noreturn]] void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* In a library's call: is a call possible now? unsafe: it is not allowed during a capture. */
cudaError_t enter(bool unsafe = false);
/* Queues or records an operation of a stream. at_once: others wait for it, it cannot be delayed. */
cudaError_t enqueue(cudaStream_t s, std::function<void()> run, bool at_once = false);
/* Are these bytes in one piece of memory that the device can access? */
bool reaches(const void *p, size_t bytes);
int device(); /* the current one */
/* The GPU's clock, which events read: a running operation adds its time. A kernel takes longer than
 * any convolution of cuDNN. */
enum { KERNEL_MS = 1 };
void spend(double ms);
/* How many operations of streams have run, with the one that is running. */
long operations();

/* Runs body once for each thread of each block. */
void run_blocks(const char *kernel, dim3 blocks, dim3 threads, const std::function<void()> &body);
/* "kernel k, block (0,0), thread (1,0,0)" while one runs, otherwise NULL. Valid until the next
 * call. */
const char *running();

/* c[m x n] = op(a) op(b), op(a) is [m x k]; rows are dense, at: a is [k x m]. */
void matmul(float *c, const float *a, bool at, const float *b, bool bt, size_t m, size_t n,
	    size_t k);
enum rounding { EXACT, TF32 };
/* Floats from n values of type float or bf16, rounded as a matrix unit would. */
void load(float *y, const void *x, bool bf16, size_t n, rounding how);
/* y = x + beta y; y is not read where beta is 0. */
void store(void *y, bool bf16, const float *x, float beta, size_t n);

} // namespace fake

#endif
