/*
 * fake.h - what the fake libraries share.
 *
 * Streams are lazy: work waits in its stream until somebody waits for it, and is done then, on the
 * host's thread. That is the latest that CUDA allows, so a wait that is missing shows: the host
 * finds NaN or old values.
 *
 * Environment:
 *   FAKE_CUDA_DEVICES=n     how many GPUs there are (1)
 *   FAKE_CUDA_MPS=1         processes share them by MPS
 *   FAKE_CUDA_MEMORY=bytes  of each, for each process (4 GiB)
 *   FAKE_CUDA_DRIVER=n      what the driver supports, as cudaDriverGetVersion gives it
 *   FAKE_CUDA_CHANNELS=n    convolutions want channels that are a multiple of n (1)
 *   FAKE_CUDA_FILTER_CHANNELS=n  the same of inputs, and of the filters' gradient only (1)
 *   FAKE_CUDA_ROUNDS=1      the fastest algorithm was tried with units that round
 *   FAKE_CUDA_UNCAPTURABLE=1  convolutions cannot be captured
 *   FAKE_CUDA_STRICT=0      the host may touch device memory
 *   FAKE_CUDA_FAIL=n        the n-th kernel of each process fails
 *   FAKE_CUDA_NOTES=1       calls that return an error say why on stderr
 *   FAKE_CUDA_NODES=1       each graph says on stderr how many nodes it has
 *   FAKE_CUDA_STARTS=file   gets a line for each GPU that a process makes a context on
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

/* Of a library's call: can any be made? unsafe: it may not be made while a capture is under way. */
cudaError_t enter(bool unsafe = false);
/* Queues or records what a stream is to do. at_once: others wait for it, it can not be put off. */
cudaError_t enqueue(cudaStream_t s, std::function<void()> run, bool at_once = false);
/* Do these bytes lie in one piece of memory that the device reaches? */
bool reaches(const void *p, size_t bytes);
int device(); /* the current one */

/* Runs body once for every thread of every block. */
void run_blocks(const char *kernel, dim3 blocks, dim3 threads, const std::function<void()> &body);
/* "kernel k, block (0,0), thread (1,0,0)" while one runs, else NULL. Valid until the next call. */
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
