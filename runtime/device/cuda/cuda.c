/*
 * cuda.c - NVIDIA GPUs: cuBLAS for matrices (gemm.c), cuDNN for convolutions (conv.c), own kernels
 * for the rest (*.cu). This file has the probe, open and close.
 *
 * All operations are queued on one stream. put, get, tally, sync and most peer operations wait for
 * it. The data set is copied to the GPU once; rows of a batch are gathered on the device.
 *
 * Precision. float32: no matrix unit that rounds is used. tf32: products of numbers with 10 bits of
 * mantissa, sums in float32. bf16: activations and their gradients are bf16, packed in the first
 * half of their vectors; parameters, their gradients, running statistics, targets and the tally
 * stay float32, and so do all sums. The operation decides the type, because a vector does not know
 * its own. These operate on floats: put, get, fill, copy, scale, axpy, copy_columns, step,
 * add_squares and limit (copies, and fills with 0, are right for both types). b of add_bias and
 * sum_rows, targets, weights, biases and scales are floats, too. Everything else is an activation.
 * gemm supports the three uses of a linear layer; at and bt together are refused:
 *
 *   y = x W^T   (bt)   y, x: activations, W: floats
 *   dx = dy W          dx, dy: activations, W: floats
 *   dW = dy^T x (at)   dy, x: activations, dW: floats
 */
#include "runtime/device/cuda/cuda.h"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <nccl.h>
#include <stdarg.h>
#include <stdlib.h>

void cuda_failed(struct device *d, const char *file, int line, const char *call, const char *why)
{
	struct cuda *c = cuda_of(d);
	call += *call == '('; /* QUEUE's parentheses around a template */
	char *what = sentence("GPU %d (%s): %.*s: %s (%s:%d)", c->gpu, c->model,
			      (int)strcspn(call, "(<"), call, why, file, line);
	if (!c->capturing)
		failure("%s", what);
	if (c->uncaptured)
		free(what);
	else
		c->uncaptured = what;
}

/* ---- Can a GPU be used here? ---------------------------------------------- */

enum {
	CONTEXT = 512 << 20, /* approximate memory of CUDA and its libraries [bytes] */
	OLDEST = 80,         /* compute capability, times 10: the first with bf16 and tf32 */
	EARLY = 90           /* the first with programmatic dependent launch */
};

static char why_not[512]; /* of the last probe */
static bool computes;     /* mvbench_cuda */

static const char *unusable(const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	vsnprintf(why_not, sizeof why_not, fmt, args);
	va_end(args);
	return why_not;
}

/* "580.95.05"; if unknown, the version of CUDA that the driver supports. */
static void driver_version(char *text, size_t room, int supports)
{
	char *line AUTOFREE = text_read("/proc/driver/nvidia/version"), *at = NULL;
	snprintf(text, room, "CUDA %d.%d", supports / 1000, supports % 1000 / 10);
	if (line)
		line[strcspn(line, "\n")] = '\0';
	for (char *word = line ? strtok_r(line, " \t", &at) : NULL; word;
	     word = strtok_r(NULL, " \t", &at))
		if (strspn(word, "0123456789.") == strlen(word) && strchr(word, '.')) {
			snprintf(text, room, "%s", word);
			return;
		}
}

static void library_versions(char *text, size_t room, int runtime)
{
	int blas[3] = {0}, nccl = 0, dnn = (int)cudnnGetVersion();
	cublasGetProperty(MAJOR_VERSION, &blas[0]);
	cublasGetProperty(MINOR_VERSION, &blas[1]);
	cublasGetProperty(PATCH_LEVEL, &blas[2]);
	ncclGetVersion(&nccl);
	snprintf(text, room, "CUDA %d.%d, cuBLAS %d.%d.%d, cuDNN %d.%d.%d, NCCL %d.%d.%d",
		 runtime / 1000, runtime % 1000 / 10, blas[0], blas[1], blas[2], dnn / 10000,
		 dnn / 100 % 100, dnn % 100, nccl / 10000, nccl / 100 % 100, nccl % 100);
}

/* Memory of the GPU with the least free memory. Each query makes a context on that GPU. */
static cudaError_t least_free(struct device_facts *f)
{
	for (int i = 0; i < f->count; i++) {
		size_t free_bytes, total;
		cudaError_t status = cudaSetDevice(i);
		if (status == cudaSuccess)
			status = cudaMemGetInfo(&free_bytes, &total);
		if (status != cudaSuccess)
			return status;
		if (i == 0 || free_bytes < f->free_bytes) {
			f->free_bytes = free_bytes;
			f->total_bytes = total;
		}
	}
	return cudaSuccess;
}

/* Not the GPU's number: a worker may see only one GPU, which is then its 0. */
static uint64_t identity_of(const struct cudaDeviceProp *p)
{
	return hash_of(HASH_START, p->uuid.bytes, sizeof p->uuid.bytes);
}

static const char *cuda_probe(struct device_facts *f)
{
	struct device_facts facts = {0};
	int driver = 0, runtime = 0;
	cudaError_t status = cudaDriverGetVersion(&driver);
	cudaRuntimeGetVersion(&runtime);
	if (status == cudaSuccess)
		status = cudaGetDeviceCount(&facts.count);
	if (status == cudaErrorInsufficientDriver || driver == 0) {
		if (driver == 0)
			return unusable("the NVIDIA driver is not running here");
		return unusable(
			"the NVIDIA driver is too old: it supports CUDA %d.%d, and this mvbench "
			"was built with %d.%d. Update the driver, or build with an older CUDA "
			"Toolkit",
			driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
	}
	if (status == cudaErrorNoDevice || (status == cudaSuccess && facts.count == 0))
		return unusable("the NVIDIA driver finds no GPU here (CUDA_VISIBLE_DEVICES can "
				"hide them)");
	for (int i = facts.count; i-- > 0 && status == cudaSuccess;) {
		struct cudaDeviceProp p;
		status = cudaGetDeviceProperties(&p, i);
		if (status != cudaSuccess)
			break;
		if (p.major * 10 + p.minor < OLDEST)
			return unusable("GPU %d (%s) has compute capability %d.%d, and the "
					"minimum is %d.%d: hide it with "
					"CUDA_VISIBLE_DEVICES, or use --device=cpu",
					i, p.name, p.major, p.minor, OLDEST / 10, OLDEST % 10);
		snprintf(facts.model, sizeof facts.model, "%.127s", p.name);
		facts.free_bytes = facts.total_bytes = p.totalGlobalMem; /* without least_free */
		if (i < GPUS_MOST)
			facts.identity[i] = identity_of(&p);
		int mps = 0;
		status = cudaDeviceGetAttribute(&mps, cudaDevAttrMpsEnabled, i);
		facts.mps |= mps != 0;
	}
	/* A context takes memory and stays: a process that computes makes only its own. */
	if (status == cudaSuccess && !computes)
		status = least_free(&facts);
	if (status != cudaSuccess)
		return unusable("the GPU cannot be used: %s", cudaGetErrorString(status));
	driver_version(facts.driver, sizeof facts.driver, driver);
	library_versions(facts.version, sizeof facts.version, runtime);
	facts.workspace_bytes = CONTEXT + BLAS_WORKSPACE;
	facts.conv_workspace_bytes = (size_t)2 * CONV_WORKSPACE; /* chain, branch */
	if (f)
		*f = facts;
	return NULL;
}

/* ---- Open and close ------------------------------------------------------ */

static void cuda_open(struct device *d, int threads)
{
	struct cuda *c = d->at = must(calloc(1, sizeof *c));
	struct cudaDeviceProp p;
	int count = 0;
	(void)threads;
	TRY_CUDA(d, cudaGetDeviceCount(&count));
	CHECK(count > 0, "no GPU to open");
	c->gpu = d->number % count;
	TRY_CUDA(d, cudaSetDevice(c->gpu));
	TRY_CUDA(d, cudaGetDeviceProperties(&p, c->gpu));
	snprintf(c->model, sizeof c->model, "%.127s", p.name);
	d->identity = identity_of(&p);
	c->without_graphs = cuda_switch("MVBENCH_CUDA_GRAPHS", "0");
	c->alone = cuda_switch("MVBENCH_CUDA_TOGETHER", "0");
	c->unpadded = cuda_switch("MVBENCH_CUDA_PAD", "0");
	c->early = !cuda_switch("MVBENCH_CUDA_EARLY", "0") && p.major * 10 + p.minor >= EARLY;
	c->bf16 = strcmp(d->precision, "bf16") == 0;
	c->tf32 = strcmp(d->precision, "tf32") == 0;
	CHECK(c->bf16 || c->tf32 || strcmp(d->precision, "float32") == 0, "precision %s",
	      d->precision);
	TRY_CUDA(d, cudaStreamCreateWithFlags(&c->stream, cudaStreamNonBlocking));
	/* Work on the second stream goes first: the host waits for it while the step goes on. */
	int least, greatest;
	TRY_CUDA(d, cudaDeviceGetStreamPriorityRange(&least, &greatest));
	TRY_CUDA(d, cudaStreamCreateWithPriority(&c->side, cudaStreamNonBlocking, greatest));
	c->state = cuda_take(d, sizeof *c->state);
	TRY_CUDA(d, cudaMemsetAsync(c->state, 0, sizeof *c->state, c->stream));
	TRY_CUDA(d, cudaHostAlloc((void **)&c->event, EVENTS * sizeof *c->event,
				  cudaHostAllocDefault));
	memset(c->event, 0, EVENTS * sizeof *c->event);
	TRY_BLAS(d, cublasCreate(&c->blas));
	TRY_BLAS(d, cublasSetStream(c->blas, c->stream));
	/* With its own workspace cuBLAS would allocate while a graph is captured. */
	c->blas_workspace = cuda_take(d, BLAS_WORKSPACE);
	TRY_BLAS(d, cublasSetWorkspace(c->blas, c->blas_workspace, BLAS_WORKSPACE));
	TRY_DNN(d, cudnnCreate(&c->dnn));
	TRY_DNN(d, cudnnSetStream(c->dnn, c->stream));
	cuda_branch_open(d);
	cuda_sync(d);
}

static void cuda_close(struct device *d)
{
	struct cuda *c = cuda_of(d);
	cuda_sync(d);
	cuda_graphs_close(d);
	TRY_CUDA(d, cudaFreeHost(c->event));
	cuda_branch_close(d);
	TRY_DNN(d, cudnnDestroy(c->dnn));
	TRY_BLAS(d, cublasDestroy(c->blas));
	cuda_memory_close(d);
	TRY_CUDA(d, cudaFree(c->blas_workspace));
	TRY_CUDA(d, cudaFree(c->state));
	TRY_CUDA(d, cudaStreamDestroy(c->side));
	TRY_CUDA(d, cudaStreamDestroy(c->stream));
	free(c->choice);
	free(c);
	d->at = NULL;
}

/* ---- The table of operations ---------------------------------------------- */

/* The last words of the rows of DEVICE_OPS; each promises what those before it promise, too. */
enum { EFFECT_ANY, EFFECT_NO_WEIGHTS, EFFECT_NO_GRADIENTS, EFFECT_JOINS };

#define JOINED(name, params, args, kind, amount, effect, ...) \
	static void joined_##name DEVICE_PARAMS(params) \
	{ \
		if (EFFECT_##effect < EFFECT_JOINS) \
			cuda_join(d); \
		if (EFFECT_##effect < EFFECT_NO_GRADIENTS) \
			cuda_conv_settle(d); \
		if (EFFECT_##effect < EFFECT_NO_WEIGHTS) \
			cuda_writes(d); \
		cuda_##name DEVICE_ARGS(args); \
	}
DEVICE_OPS(JOINED)

#define SLOT(name, ...)   .name = joined_##name,
#define LAYER_SLOTS(name) .name##_new = cuda_##name##_new, .name##_free = cuda_##name##_free,
static const struct device_ops ops = {.name = "cuda",
				      DEVICE_BASICS(cuda),
				      .graph = cuda_graph,
				      .event_record = cuda_event_record,
				      .event_wait = cuda_event_wait,
				      .sync = cuda_sync,
				      .peer = &cuda_peer,
				      DEVICE_OPS(SLOT) DEVICE_LAYERS(LAYER_SLOTS)};

__attribute__((visibility("default"))) const struct device_ops *mvbench_cuda(uint64_t build,
									     bool uses_cuda)
{
	computes = uses_cuda;
	return build == cuda_build() ? &ops : NULL;
}
