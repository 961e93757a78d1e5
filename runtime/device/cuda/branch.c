/*
 * branch.c - the branch: work that runs concurrently with the chain of a training step. It has the
 * gradients of convolutions' weights, which nothing in the backward pass needs, and the marks of
 * events.
 *
 * In a body, which may be captured, the branch is a second stream with its own cuDNN handle and
 * workspace. Its work starts after everything that was queued on the chain before it. The chain
 * waits for the branch where an operation may write what the branch reads, or read what it writes:
 * every operation waits, except those of the backward pass that compare the addresses themselves.
 * Outside of bodies, and with MVBENCH_CUDA_BRANCH=0, there is no branch.
 */
#include "runtime/device/cuda/cuda.h"

#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <stdlib.h>

void cuda_branch_open(struct device *d)
{
	struct cuda *c = cuda_of(d);
	struct branch *b = &c->branch;
	b->off = cuda_switch("MVBENCH_CUDA_BRANCH", "0");
	TRY_CUDA(d, cudaStreamCreateWithFlags(&b->stream, cudaStreamNonBlocking));
	TRY_CUDA(d, cudaEventCreateWithFlags(&b->forked, cudaEventDisableTiming));
	TRY_CUDA(d, cudaEventCreateWithFlags(&b->joined, cudaEventDisableTiming));
	TRY_DNN(d, cudnnCreate(&b->dnn));
	TRY_DNN(d, cudnnSetStream(b->dnn, b->stream));
}

void cuda_branch_close(struct device *d)
{
	struct branch *b = &cuda_of(d)->branch;
	TRY_DNN(d, cudnnDestroy(b->dnn));
	TRY_CUDA(d, cudaFree(b->workspace));
	TRY_CUDA(d, cudaEventDestroy(b->joined));
	TRY_CUDA(d, cudaEventDestroy(b->forked));
	TRY_CUDA(d, cudaStreamDestroy(b->stream));
}

static void exchange(struct cuda *c)
{
	const struct cuda was = *c;
	c->stream = was.branch.stream;
	c->dnn = was.branch.dnn;
	c->workspace = was.branch.workspace;
	c->workspace_bytes = was.branch.workspace_bytes;
	c->branch.stream = was.stream;
	c->branch.dnn = was.dnn;
	c->branch.workspace = was.workspace;
	c->branch.workspace_bytes = was.workspace_bytes;
}

bool cuda_branch_enter(struct device *d)
{
	struct cuda *c = cuda_of(d);
	struct branch *b = &c->branch;
	if (b->off || !d->in_graph)
		return false;
	if (b->reads == BRANCH_READS)
		cuda_join(d);
	TRY_CUDA(d, cudaEventRecord(b->forked, c->stream));
	TRY_CUDA(d, cudaStreamWaitEvent(b->stream, b->forked, 0));
	b->busy = true;
	exchange(c);
	return true;
}

void cuda_branch_leave(struct device *d, const void *a, size_t a_bytes, const void *b,
		       size_t b_bytes)
{
	struct cuda *c = cuda_of(d);
	exchange(c);
	if (a || b)
		c->branch.read[c->branch.reads++] =
			(struct branch_read){{a, b}, {a_bytes, b_bytes}};
}

void cuda_join(struct device *d)
{
	struct cuda *c = cuda_of(d);
	struct branch *b = &c->branch;
	if (!b->busy)
		return;
	TRY_CUDA(d, cudaEventRecord(b->joined, b->stream));
	TRY_CUDA(d, cudaStreamWaitEvent(c->stream, b->joined, 0));
	b->busy = false;
	b->reads = 0;
}

void cuda_join_before(struct device *d, const void *p, size_t bytes)
{
	const struct branch *b = &cuda_of(d)->branch;
	bool overlap = false;
	for (size_t i = 0; p && i < b->reads; i++)
		for (int k = 0; k < 2; k++) {
			const char *from = b->read[i].at[k], *to = p;
			overlap |= from && from < to + bytes && to < from + b->read[i].bytes[k];
		}
	if (overlap)
		cuda_join(d);
}
