/*
 * nccl.cc - the part of NCCL that mvbench uses: the sum over all ranks, which are processes of this
 * machine.
 *
 * The unique id names a file of shared memory in which every rank has a window. A sum passes
 * through it window by window: every rank writes its own, then adds up all in the order of ranks. A
 * rank that waits for more than a minute in a sum gives up. Communicators do not block: joining
 * returns ncclInProgress until all have joined, and so do the calls that end a communicator.
 * FAKE_NCCL_ABSENT=n: rank n never joins.
 * FAKE_NCCL_REFUSED=n: rank n cannot join, which the others are told.
 */
#include "fake.h"

#include <nccl.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>
#include <set>
#include <string>
#include <vector>

using namespace fake;

namespace
{
constexpr size_t WINDOW = 1 << 16; /* floats */
constexpr int MOST = 64;
constexpr time_t PATIENCE_S = 60;

struct shared_comm { /* in shared memory */
	std::atomic<int> arrived;
	std::atomic<bool> refused; /* one rank cannot join */
	std::atomic<unsigned> round;
	int device[MOST];
	float window[MOST][WINDOW];
};

} // namespace

struct ncclComm {
	shared_comm *m;
	int rank, size, on;
	bool joined;
	std::string name; /* of the shared memory, until all have joined */
};

namespace
{
std::set<ncclComm_t> made; /* and not destroyed */

/* Waits until all ranks are here. */
bool meet(const ncclComm &c)
{
	unsigned round = c.m->round;
	time_t begun = time(NULL);
	if (c.m->arrived.fetch_add(1) + 1 == c.size) {
		c.m->arrived = 0;
		c.m->round++;
		return true;
	}
	while (c.m->round == round) {
		sched_yield();
		if (time(NULL) - begun > PATIENCE_S)
			return false;
	}
	return true;
}

void sum(const ncclComm &c, float *out, const float *in, size_t n)
{
	for (size_t first = 0; first < n; first += WINDOW) {
		size_t count = n - first < WINDOW ? n - first : WINDOW;
		memcpy(c.m->window[c.rank], in + first, count * sizeof *in);
		if (!meet(c))
			fail("ncclAllReduce: rank %d of %d waited in vain", c.rank, c.size);
		for (size_t i = 0; i < count; i++) {
			float s = c.m->window[0][i];
			for (int r = 1; r < c.size; r++)
				s += c.m->window[r][i];
			out[first + i] = s;
		}
		if (!meet(c))
			fail("ncclAllReduce: rank %d of %d waited in vain", c.rank, c.size);
	}
}

} // namespace

ncclResult_t ncclGetVersion(int *version)
{
	*version = NCCL_VERSION_CODE;
	return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t r)
{
	return r == ncclSuccess        ? "no error"
	       : r == ncclInvalidUsage ? "invalid usage (run with NCCL_DEBUG=WARN for details)"
	       : r == ncclRemoteError  ? "remote process exited or there was a network error"
				       : "a fake NCCL error";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
	static int made;
	if (enter() != cudaSuccess)
		return ncclUnhandledCudaError;
	memset(id, 0, sizeof *id);
	snprintf(id->internal, sizeof id->internal, "/fake_nccl_%d_%d", (int)getpid(), made++);
	return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int size, ncclUniqueId id, int rank,
				    ncclConfig_t *config)
{
	if (enter(true) != cudaSuccess)
		return ncclUnhandledCudaError;
	if (rank < 0 || rank >= size || size > MOST || config->blocking != 0)
		return ncclInvalidArgument;
	int fd = shm_open(id.internal, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, sizeof(shared_comm)) != 0)
		return ncclSystemError;
	void *m = mmap(NULL, sizeof(shared_comm), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (m == MAP_FAILED)
		return ncclSystemError;
	ncclComm c = {(shared_comm *)m, rank, size, device(), false, id.internal};
	*comm = new ncclComm(c);
	made.insert(*comm);
	if (rank == setting("FAKE_NCCL_REFUSED", -1)) {
		c.m->refused = true;
		return ncclSystemError;
	}
	c.m->device[rank] = c.on + (int)setting("FAKE_CUDA_FIRST", 0);
	if (rank != setting("FAKE_NCCL_ABSENT", -1) && c.m->arrived.fetch_add(1) + 1 == size) {
		c.m->arrived = 0;
		c.m->round++;
		shm_unlink(id.internal);
	}
	return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *status)
{
	if (!made.count(c))
		fail("ncclCommGetAsyncError: the communicator was destroyed");
	*status = c->joined       ? ncclSuccess
		  : c->m->refused ? ncclRemoteError
		  : c->m->round   ? ncclSuccess
				  : ncclInProgress;
	if (c->joined || *status != ncclSuccess)
		return ncclSuccess;
	for (int r = 0; r < c->size; r++)
		for (int s = 0; s < r; s++)
			if (c->m->device[r] == c->m->device[s]) {
				note("two ranks on one GPU");
				*status = ncclInvalidUsage;
				return ncclSuccess;
			}
	c->joined = true;
	return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t)
{
	return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
	munmap(comm->m, sizeof(shared_comm));
	made.erase(comm);
	delete comm;
	return ncclInProgress;
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
	shm_unlink(comm->name.c_str());
	return ncclCommDestroy(comm);
}

ncclResult_t ncclAllReduce(const void *in, void *out, size_t n, ncclDataType_t type, ncclRedOp_t op,
			   ncclComm_t comm, cudaStream_t stream)
{
	if (enter() != cudaSuccess)
		return ncclUnhandledCudaError;
	if (type != ncclFloat || op != ncclSum)
		fail("ncclAllReduce: the fake adds floats only");
	if (device() != comm->on || !reaches(in, n * 4) || !reaches(out, n * 4))
		return ncclInvalidArgument;
	ncclComm c = *comm;
	cudaError_t e = enqueue(
		stream, [=] { sum(c, (float *)out, (const float *)in, n); }, true);
	return e == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}
