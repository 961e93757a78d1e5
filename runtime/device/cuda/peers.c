/*
 * peers.c - what a GPU offers to other processes and to the network: host memory with fast copies,
 * memory that peers map, and NCCL. table.cu and code.cu have the kernels.
 */
#include "runtime/device/cuda/cuda.h"

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <sched.h>
#include <stdlib.h>

static float *cuda_pinned_new(struct device *d, size_t n)
{
	void *p;
	TRY_CUDA(d, cudaHostAlloc(&p, (n ? n : 1) * sizeof(float), cudaHostAllocDefault));
	return p;
}

static void cuda_pinned_free(struct device *d, float *p)
{
	TRY_CUDA(d, cudaFreeHost(p));
}

static void cuda_use_second_stream(struct device *d, bool on)
{
	struct cuda *c = cuda_of(d), was = *c;
	CHECK(on != c->on_second_stream && !d->in_graph,
	      "use_second_stream(%d): no change, or in a graph", on);
	c->stream = was.side;
	c->side = was.stream;
	c->on_second_stream = on;
}

/* CUDA puts small allocations into one block of this size, which a peer would map as a whole. */
enum { SHARED = 2 << 20 };

static float *cuda_shared_new(struct device *d, size_t n, unsigned char handle[PEER_HANDLE_BYTES])
{
	struct cuda *c = cuda_of(d);
	size_t bytes = (n * sizeof(float) / SHARED + 1) * SHARED;
	float *p = cuda_malloc(d, bytes);
	cudaIpcMemHandle_t ipc;
	_Static_assert(sizeof ipc <= PEER_HANDLE_BYTES, "a handle has room");
	TRY_CUDA(d, cudaMemsetAsync(p, 0, bytes, c->stream));
	cuda_sync(d);
	memset(handle, 0, PEER_HANDLE_BYTES);
	cudaError_t status = cudaIpcGetMemHandle(&ipc, p);

	if (status != cudaSuccess)
		cudaGetLastError(); /* zeros: it cannot be mapped */
	else
		memcpy(handle, &ipc, sizeof ipc);
	return p;
}

static void cuda_shared_free(struct device *d, float *p)
{
	cuda_sync(d);
	TRY_CUDA(d, cudaFree(p));
}

static float *cuda_shared_map(struct device *d, const unsigned char handle[PEER_HANDLE_BYTES])
{
	static const unsigned char nothing[PEER_HANDLE_BYTES];
	cudaIpcMemHandle_t ipc;
	void *p = NULL;
	(void)d;
	if (memcmp(handle, nothing, PEER_HANDLE_BYTES) == 0)
		return NULL;
	memcpy(&ipc, handle, sizeof ipc);
	if (cudaIpcOpenMemHandle(&p, ipc, cudaIpcMemLazyEnablePeerAccess) == cudaSuccess)
		return p;
	cudaGetLastError();
	return NULL;
}

static void cuda_shared_unmap(struct device *d, float *p)
{
	cuda_sync(d);
	TRY_CUDA(d, cudaIpcCloseMemHandle(p));
}

static char *cuda_nccl_id(struct device *d, unsigned char id[NCCL_ID_BYTES])
{
	ncclUniqueId made;
	ncclResult_t status = ncclGetUniqueId(&made);
	(void)d;
	_Static_assert(sizeof made == NCCL_ID_BYTES, "an id has its size");
	if (status != ncclSuccess)
		return sentence("NCCL cannot start: %s; use ipc, staged or auto",
				ncclGetErrorString(status));
	memcpy(id, &made, sizeof made);
	return NULL;
}

/* Waits for a pending operation. NCCL does not block, because one rank that cannot join would make
 * the others wait for ever. Still ncclInProgress: it did not end in time. */
static ncclResult_t settled(ncclComm_t comm, ncclResult_t status, double within_s)
{
	const double until = cuda_seconds() + within_s;
	while (status == ncclInProgress) {
		ncclResult_t asked = ncclCommGetAsyncError(comm, &status);
		if (asked != ncclSuccess)
			return asked;
		if (cuda_seconds() > until)
			break;
		sched_yield();
	}
	return status;
}

static double patience_s(void)
{
	const char *text = getenv("MVBENCH_NCCL_TIMEOUT");
	double s = text ? atof(text) : 0;
	return s > 0 ? s : 60;
}

static char *cuda_nccl_new(struct device *d, void **nccl, const unsigned char id[NCCL_ID_BYTES],
			   int rank, int size)
{
	ncclUniqueId made;
	ncclComm_t comm = NULL;
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	config.blocking = 0;
	memcpy(&made, id, sizeof made);
	ncclResult_t status = ncclCommInitRankConfig(&comm, size, made, rank, &config);
	status = settled(comm, status, patience_s());

	if (status == ncclSuccess) {
		*nccl = comm;
		return NULL;
	}
	if (comm)
		ncclCommAbort(comm);
	if (status == ncclInProgress)
		return sentence("NCCL: worker %d on GPU %d waited %.0f s for the others to join "
				"(MVBENCH_NCCL_TIMEOUT); use ipc, staged or auto",
				rank, cuda_of(d)->gpu, patience_s());
	return sentence("NCCL cannot join worker %d on GPU %d: %s; use ipc, staged or auto", rank,
			cuda_of(d)->gpu, ncclGetErrorString(status));
}

#define TRY_NCCL(d, comm, call) \
	do { \
		ncclResult_t status_ = settled(comm, call, patience_s()); \
		if (status_ != ncclSuccess) \
			cuda_failed(d, __FILE__, __LINE__, #call, ncclGetErrorString(status_)); \
	} while (0)

/* After ncclCommDestroy nothing may be asked of the communicator. */
static void cuda_nccl_free(struct device *d, void *nccl)
{
	TRY_NCCL(d, nccl, ncclCommFinalize(nccl));
	ncclResult_t status = ncclCommDestroy(nccl);
	if (status != ncclSuccess && status != ncclInProgress)
		cuda_failed(d, __FILE__, __LINE__, "ncclCommDestroy", ncclGetErrorString(status));
}

static void cuda_nccl_allreduce(struct device *d, void *nccl, float *x, size_t n)
{
	cuda_writes(d);
	TRY_NCCL(d, nccl, ncclAllReduce(x, x, n, ncclFloat, ncclSum, nccl, cuda_of(d)->stream));
}

const struct peer_ops cuda_peer = {
	.pinned_new = cuda_pinned_new,
	.pinned_free = cuda_pinned_free,
	.use_second_stream = cuda_use_second_stream,
	.shared_new = cuda_shared_new,
	.shared_free = cuda_shared_free,
	.shared_map = cuda_shared_map,
	.shared_unmap = cuda_shared_unmap,
	.sum = cuda_sum,
	.encode = cuda_encode,
	.decode = cuda_decode,
	.apply = cuda_apply,
	.nccl_id = cuda_nccl_id,
	.nccl_new = cuda_nccl_new,
	.nccl_free = cuda_nccl_free,
	.nccl_allreduce = cuda_nccl_allreduce,
};
