/*
 * memory.c - memory of a GPU: for vectors, for libraries and layers, for copies of host arrays; and
 * copies from and to the host, which the host waits for.
 */
#include "runtime/device/cuda/cuda.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>

enum { LEAST_WORKSPACE = 1 << 20 };

struct resident { /* a host array that has a copy here */
	const void *host;
	size_t bytes;
	uint64_t print;
	void *at;
};

void *cuda_malloc(struct device *d, size_t bytes)
{
	enum { MIB = 1 << 20 };
	size_t free_bytes = 0, total = 0;
	void *p = NULL;
	cudaError_t status = cudaMalloc(&p, bytes ? bytes : 1);
	if (status == cudaErrorMemoryAllocation) {
		cudaGetLastError();
		cudaMemGetInfo(&free_bytes, &total);
		failure("GPU %d (%s) has too little memory: %.1f MiB more are needed, and %.1f "
			"of its %.1f MiB are free; this worker holds %.1f MiB. Use a smaller "
			"--batch, or fewer --workers on one GPU",
			cuda_of(d)->gpu, cuda_of(d)->model, (double)bytes / MIB,
			(double)free_bytes / MIB, (double)total / MIB,
			(double)(d->bytes + d->workspace_bytes) / MIB);
	}
	if (status != cudaSuccess)
		cuda_failed(d, __FILE__, __LINE__, "cudaMalloc", cudaGetErrorString(status));
	return p;
}

void *cuda_take(struct device *d, size_t bytes)
{
	CHECK(!cuda_of(d)->capturing, "memory is allocated while a graph is captured");
	d->workspace_bytes += bytes;
	return cuda_malloc(d, bytes);
}

void cuda_give(struct device *d, void *p, size_t bytes)
{
	if (!p)
		return;
	TRY_CUDA(d, cudaFree(p));
	d->workspace_bytes -= bytes;
}

void cuda_retire(struct device *d, void *p, size_t bytes)
{
	struct cuda *c = cuda_of(d);
	if (!c->captured || !p) {
		cuda_give(d, p, bytes);
		return;
	}
	APPEND(c->retired, c->retired_n, p);
}

/* It at least doubles: all retired ones together are then smaller than the current one. */
void *cuda_workspace(struct device *d, size_t bytes)
{
	struct cuda *c = cuda_of(d);
	size_t more = c->workspace_bytes ? 2 * c->workspace_bytes : LEAST_WORKSPACE;
	if (bytes <= c->workspace_bytes)
		return c->workspace;
	while (more < bytes)
		more *= 2;
	cuda_retire(d, c->workspace, c->workspace_bytes);
	c->workspace = NULL;
	c->workspace = cuda_take(d, more);
	c->workspace_bytes = more;
	return c->workspace;
}

struct cuda_stage cuda_stage_of(struct device *d, size_t bytes)
{
	return (struct cuda_stage){.partial = cuda_workspace(d, bytes),
				   .counter = cuda_of(d)->state->counter};
}

/* After a sync others, such as MPI, may write the device's memory. */
void cuda_sync(struct device *d)
{
	cuda_writes(d);
	TRY_CUDA(d, cudaStreamSynchronize(cuda_of(d)->stream));
}

float *cuda_alloc(struct device *d, size_t n)
{
	float *p = cuda_malloc(d, n * sizeof *p);
	TRY_CUDA(d, cudaMemsetAsync(p, 0, n * sizeof *p, cuda_of(d)->stream));
	return p;
}

void cuda_free(struct device *d, float *p, size_t n)
{
	cuda_conv_forget(d, p, n);
	TRY_CUDA(d, cudaFree(p));
}

static void copy(struct device *d, float *y, const float *x, size_t n, enum cudaMemcpyKind kind)
{
	if (n)
		TRY_CUDA(d, cudaMemcpyAsync(y, x, n * sizeof *y, kind, cuda_of(d)->stream));
}

void cuda_put(struct device *d, float *y, const float *from, size_t n)
{
	copy(d, y, from, n, cudaMemcpyHostToDevice);
	cuda_sync(d);
}

void cuda_get(struct device *d, float *to, const float *x, size_t n)
{
	copy(d, to, x, n, cudaMemcpyDeviceToHost);
	cuda_sync(d);
}

void cuda_copy(struct device *d, float *y, const float *x, size_t n)
{
	copy(d, y, x, n, cudaMemcpyDeviceToDevice);
}

void cuda_tally(struct device *d, struct tally *out)
{
	struct cuda *c = cuda_of(d);
	TRY_CUDA(d, cudaMemcpyAsync(out, &c->state->tally, sizeof *out, cudaMemcpyDeviceToHost,
				    c->stream));
	TRY_CUDA(d, cudaMemsetAsync(&c->state->tally, 0, sizeof *out, c->stream));
	cuda_sync(d);
}

/* ---- Copies of host arrays ----------------------------------------------- */

/* A hash of a few words of an array, to distinguish data sets loaded to the same address. */
static uint64_t fingerprint_of(const void *array, size_t bytes)
{
	enum { WORDS = 16 };
	const size_t words = bytes / sizeof(uint64_t);
	const char *at = array;
	uint64_t h = hash_of(HASH_START, &bytes, sizeof bytes);
	for (size_t i = 0; words && i < WORDS; i++)
		h = hash_of(h, at + part_of(words - 1, WORDS - 1, i) * sizeof h, sizeof h);
	return hash_of(h, at + words * sizeof h, bytes % sizeof h);
}

static struct resident *resident_of(struct cuda *c, const void *array)
{
	for (size_t i = 0; i < c->residents; i++)
		if (c->resident[i].host == array)
			return &c->resident[i];
	APPEND(c->resident, c->residents, (struct resident){.host = array});
	return &c->resident[c->residents - 1];
}

const void *cuda_brought(struct device *d, const void *array, size_t bytes)
{
	struct cuda *c = cuda_of(d);
	if (!array)
		return NULL;
	struct resident *r = resident_of(c, array);
	uint64_t print = fingerprint_of(array, bytes);

	if (r->at && r->bytes == bytes && r->print == print)
		return r->at;
	if (r->at) {
		cuda_sync(d);
		TRY_CUDA(d, cudaFree(r->at));
		d->bytes -= r->bytes;
	}
	r->at = cuda_malloc(d, bytes);
	r->bytes = bytes;
	r->print = print;
	d->bytes += bytes;
	TRY_CUDA(d, cudaMemcpyAsync(r->at, array, bytes, cudaMemcpyHostToDevice, c->stream));
	cuda_sync(d);
	return r->at;
}

void cuda_memory_close(struct device *d)
{
	struct cuda *c = cuda_of(d);
	for (size_t i = 0; i < c->residents; i++)
		TRY_CUDA(d, cudaFree(c->resident[i].at));
	for (size_t i = 0; i < c->retired_n; i++)
		TRY_CUDA(d, cudaFree(c->retired[i]));
	TRY_CUDA(d, cudaFree(c->workspace));
	free(c->resident);
	free(c->retired);
}
