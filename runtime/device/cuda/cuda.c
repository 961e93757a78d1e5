/*
 * cuda.c - NVIDIA GPUs: cuBLAS for matrices, cuDNN for convolutions (cuda_image.c), kernels of our
 * own for the rest. The functions are those of cpu.c, in the same order.
 *
 * Everything is queued on one stream; put, get, tally, sync and what peers ask for wait for it. The
 * data set is brought here once and stays; the rows of a batch are gathered on the device.
 *
 * A training step is some hundred short kernels, and launching them one by one takes longer than
 * they run. So a body is run twice at most: once as it is, in which everything is made that is made
 * lazily, and once while the stream is captured as a CUDA graph, which every later step launches as
 * a whole. What changes from step to step then is in device memory: the learning rate and the key
 * of random numbers in struct device_state, written by step. Counted for ResNet-32: 229 operations
 * in the graph, and 64 more in bf16 that round weights and widen their gradients; with a batch of
 * 128, they read and write 2.65 GB of activations in float32, half of that in bf16.
 *
 * Precision. float32: no matrix unit that rounds is used. tf32: products of numbers with 10 bits of
 * mantissa, sums in float32. bf16: activations and their gradients are bf16, packed in the first
 * half of their vectors; parameters, their gradients, running statistics, targets and the tally
 * stay float32, and so does every sum. A vector does not know which it holds, so the operation
 * decides. These take floats: put, get, fill, copy, scale, axpy, take_columns, put_columns and sgd
 * (copies, and fills with 0, are right for both); and so are b of add_bias and sum_rows, targets,
 * weights, biases and scales. Everything else is an activation. gemm has the three uses that a
 * linear layer has; at and bt both set would be a fourth, and is refused:
 *
 *   y = x W^T   (bt)   y, x: activations, W: floats
 *   dx = dy W          dx, dy: activations, W: floats
 *   dW = dy^T x (at)   dy, x: activations, dW: floats
 */
#include "runtime/device/cuda/cuda.h"
#include "runtime/table/table.h"
#include "runtime/device/cuda/kernels.h"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <limits.h>
#include <nccl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- What the module takes from the program ------------------------------ */

static const struct cuda_host *host;
static int opened; /* devices of this process */

void panic(const char *file, int line, const char *fmt, ...)
{
	char text[1024];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	host->panic(file, line, "%s", text);
	abort();
}

void failure(const char *fmt, ...)
{
	char text[1024];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	host->failure("%s", text);
	abort();
}

void *must(void *p)
{
	return host->must(p);
}

char *sentence(const char *fmt, ...)
{
	char *text;
	va_list args;

	va_start(args, fmt);
	int n = vasprintf(&text, fmt, args);
	va_end(args);
	return must(n < 0 ? NULL : text);
}

void cuda_failed(struct device *d, const char *file, int line, const char *call, const char *why)
{
	const struct cuda *c = cuda_of(d);

	failure("GPU %d (%s): %.*s: %s (%s:%d)", c->gpu, c->model, (int)strcspn(call, "("), call,
		why, file, line);
}

/* ---- Memory -------------------------------------------------------------- */

struct device_state { /* zeroed when a device is opened */
	struct kernels_step step;
	struct kernels_tally tally;
	unsigned counter[KERNELS_COUNTERS];
};

enum {
	EVENTS = 4096,             /* places in a body: layers with parameters */
	CONTEXT = 512 << 20,       /* what CUDA and its libraries take for themselves, about */
	BLAS_WORKSPACE = 32 << 20, /* what cuBLAS recommends on Hopper [bytes] */
	LEAST_WORKSPACE = 1 << 20,
	OLDEST = 80 /* compute capability, times 10: the first with bf16 and tf32 */
};

static char why_not[512]; /* of the last probe */

static const char *unusable(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(why_not, sizeof why_not, fmt, args);
	va_end(args);
	return why_not;
}

/* "580.95.05", or what the driver calls the CUDA that it supports. */
static void driver_version(char *text, size_t room, int supports)
{
	char line[256] = "";
	FILE *f = fopen("/proc/driver/nvidia/version", "r");

	snprintf(text, room, "CUDA %d.%d", supports / 1000, supports % 1000 / 10);
	if (f && fgets(line, sizeof line, f))
		for (char *at = NULL, *word = strtok_r(line, " \t\n", &at); word;
		     word = strtok_r(NULL, " \t\n", &at))
			if (strspn(word, "0123456789.") == strlen(word) && strchr(word, '.')) {
				snprintf(text, room, "%s", word);
				break;
			}
	if (f)
		fclose(f);
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

/* Memory of the GPU that has least free; one that has not been looked at costs a context there. */
static cudaError_t least_free(struct device_facts *f, int first, int end)
{
	for (int i = first; i < end; i++) {
		size_t free_bytes, total;
		cudaError_t status = cudaSetDevice(i);
		if (status == cudaSuccess)
			status = cudaMemGetInfo(&free_bytes, &total);
		if (status != cudaSuccess)
			return status;
		if (i == first || free_bytes < f->free_bytes) {
			f->free_bytes = free_bytes;
			f->total_bytes = total;
		}
	}
	return cudaSuccess;
}

static const char *cuda_probe(struct device_facts *f)
{
	struct device_facts facts = {0};
	int driver = 0, runtime = 0, current = 0;
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
			return unusable("GPU %d (%s) has compute capability %d.%d, and %d.%d is "
					"the least that is supported: hide it with "
					"CUDA_VISIBLE_DEVICES, or use --device=cpu",
					i, p.name, p.major, p.minor, OLDEST / 10, OLDEST % 10);
		snprintf(facts.model, sizeof facts.model, "%.127s", p.name);
	}
	if (status == cudaSuccess)
		status = cudaGetDevice(&current);
	/* Where a device is open, others are left alone: a context takes memory. */
	if (status == cudaSuccess)
		status = least_free(&facts, opened ? current : 0,
				    opened ? current + 1 : facts.count);
	if (status != cudaSuccess)
		return unusable("the GPU cannot be used: %s", cudaGetErrorString(status));
	cudaSetDevice(current);
	driver_version(facts.driver, sizeof facts.driver, driver);
	library_versions(facts.version, sizeof facts.version, runtime);
	facts.workspace_bytes = CONTEXT + BLAS_WORKSPACE;
	facts.conv_workspace_bytes = CONV_WORKSPACE;
	if (f)
		*f = facts;
	return NULL;
}

static void *device_malloc(struct device *d, size_t bytes)
{
	enum { MIB = 1 << 20 };
	size_t free_bytes = 0, total = 0;
	void *p = NULL;
	cudaError_t status = cudaMalloc(&p, bytes ? bytes : 1);

	if (status == cudaErrorMemoryAllocation) {
		cudaGetLastError();
		cudaMemGetInfo(&free_bytes, &total);
		failure("GPU %d (%s) has too little memory: %.1f MiB more are needed, and %.1f "
			"of its %.1f MiB are free; this worker holds %.1f. A smaller --batch "
			"takes less, and fewer --workers on one GPU leave more",
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
	CHECK(!cuda_of(d)->capturing, "memory is taken while a graph is captured");
	d->workspace_bytes += bytes;
	return device_malloc(d, bytes);
}

void cuda_give(struct device *d, void *p, size_t bytes)
{
	if (!p)
		return;
	TRY(d, cudaFree(p));
	d->workspace_bytes -= bytes;
}

void cuda_retire(struct device *d, void *p, size_t bytes)
{
	struct cuda *c = cuda_of(d);

	if (!c->captured || !p) {
		cuda_give(d, p, bytes);
		return;
	}
	c->retired = must(realloc(c->retired, (c->retired_n + 1) * sizeof(void *)));
	c->retired[c->retired_n++] = p;
}

/* It at least doubles, so that all that are retired are no larger than the one in use. */
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

struct kernels_stage cuda_stage(struct device *d, size_t n)
{
	return (struct kernels_stage){
		.partial = cuda_workspace(d, kernels_partials(n) * sizeof(float)),
		.counter = cuda_of(d)->state->counter};
}

static void cuda_sync(struct device *d)
{
	TRY(d, cudaStreamSynchronize(cuda_of(d)->stream));
}

static void cuda_open(struct device *d, int threads)
{
	struct cuda *c = d->at = must(calloc(1, sizeof *c));
	struct cudaDeviceProp p;
	int count = 0;

	(void)threads;
	TRY(d, cudaGetDeviceCount(&count));
	CHECK(count > 0, "no GPU to open");
	c->gpu = d->number % count;
	TRY(d, cudaSetDevice(c->gpu));
	TRY(d, cudaGetDeviceProperties(&p, c->gpu));
	snprintf(c->model, sizeof c->model, "%.127s", p.name);
	/* a number would not do: each worker may be shown one GPU only, which is its 0 */
	for (size_t i = 0; i < sizeof p.uuid.bytes; i++)
		d->identity = hash64(d->identity ^ (unsigned char)p.uuid.bytes[i]);
	c->bf16 = strcmp(d->precision, "bf16") == 0;
	c->tf32 = strcmp(d->precision, "tf32") == 0;
	CHECK(c->bf16 || c->tf32 || strcmp(d->precision, "float32") == 0, "precision %s",
	      d->precision);
	TRY(d, cudaStreamCreateWithFlags(&c->stream, cudaStreamNonBlocking));
	TRY(d, cudaStreamCreateWithFlags(&c->side, cudaStreamNonBlocking));
	c->state = cuda_take(d, sizeof *c->state);
	TRY(d, cudaMemsetAsync(c->state, 0, sizeof *c->state, c->stream));
	TRY(d, cudaHostAlloc((void **)&c->event, EVENTS * sizeof *c->event, cudaHostAllocDefault));
	memset(c->event, 0, EVENTS * sizeof *c->event);
	TRY_BLAS(d, cublasCreate(&c->blas));
	TRY_BLAS(d, cublasSetStream(c->blas, c->stream));
	/* Of its own choice it would allocate while a graph is captured. */
	c->blas_workspace = cuda_take(d, BLAS_WORKSPACE);
	TRY_BLAS(d, cublasSetWorkspace(c->blas, c->blas_workspace, BLAS_WORKSPACE));
	TRY_DNN(d, cudnnCreate(&c->dnn));
	TRY_DNN(d, cudnnSetStream(c->dnn, c->stream));
	cuda_sync(d);
	opened++;
}

struct resident { /* a host array, brought here */
	const void *host;
	size_t bytes;
	uint64_t print;
	void *at;
};
struct kept_graph {
	size_t key;
	cudaGraphExec_t exec; /* NULL: its body has run once */
};

static void cuda_close(struct device *d)
{
	struct cuda *c = cuda_of(d);

	cuda_sync(d);
	for (size_t i = 0; i < c->graphs; i++)
		if (c->graph[i].exec)
			TRY(d, cudaGraphExecDestroy(c->graph[i].exec));
	TRY(d, cudaFreeHost(c->event));
	for (size_t i = 0; i < c->residents; i++)
		TRY(d, cudaFree(c->resident[i].at));
	for (size_t i = 0; i < c->retired_n; i++)
		TRY(d, cudaFree(c->retired[i]));
	TRY_DNN(d, cudnnDestroy(c->dnn));
	TRY_BLAS(d, cublasDestroy(c->blas));
	TRY(d, cudaFree(c->workspace));
	TRY(d, cudaFree(c->blas_workspace));
	TRY(d, cudaFree(c->state));
	TRY(d, cudaStreamDestroy(c->side));
	TRY(d, cudaStreamDestroy(c->stream));
	free(c->graph);
	free(c->choice);
	free(c->resident);
	free(c->retired);
	free(c);
	d->at = NULL;
	opened--;
}

static float *cuda_alloc(struct device *d, size_t n)
{
	float *p = device_malloc(d, n * sizeof *p);

	TRY(d, cudaMemsetAsync(p, 0, n * sizeof *p, cuda_of(d)->stream));
	return p;
}

static void cuda_free(struct device *d, float *p, size_t n)
{
	(void)n;
	TRY(d, cudaFree(p));
}

static void cuda_put(struct device *d, float *y, const float *from, size_t n)
{
	if (n)
		TRY(d, cudaMemcpyAsync(y, from, n * sizeof *y, cudaMemcpyHostToDevice,
				       cuda_of(d)->stream));
	cuda_sync(d);
}

static void cuda_get(struct device *d, float *to, const float *x, size_t n)
{
	if (n)
		TRY(d, cudaMemcpyAsync(to, x, n * sizeof *x, cudaMemcpyDeviceToHost,
				       cuda_of(d)->stream));
	cuda_sync(d);
}

/* ---- Elementwise --------------------------------------------------------- */

static void cuda_fill(struct device *d, float *y, float a, size_t n)
{
	RUN(d, kernels_fill(cuda_of(d)->stream, y, a, n));
}

static void cuda_copy(struct device *d, float *y, const float *x, size_t n)
{
	if (n)
		TRY(d, cudaMemcpyAsync(y, x, n * sizeof *y, cudaMemcpyDeviceToDevice,
				       cuda_of(d)->stream));
}

static void cuda_scale(struct device *d, float *y, float a, size_t n)
{
	RUN(d, kernels_scale(cuda_of(d)->stream, y, a, n));
}

static void cuda_axpy(struct device *d, float *y, float a, const float *x, size_t n)
{
	RUN(d, kernels_axpy(cuda_of(d)->stream, y, a, x, n));
}

static void cuda_take_columns(struct device *d, float *y, const float *x, size_t rows, size_t width,
			      size_t first, size_t n)
{
	RUN(d, kernels_columns(cuda_of(d)->stream, y, n, x + first, width, rows, n));
}

static void cuda_put_columns(struct device *d, float *y, const float *x, size_t rows, size_t width,
			     size_t first, size_t n)
{
	RUN(d, kernels_columns(cuda_of(d)->stream, y + first, width, x, n, rows, n));
}

/* ---- Matrices ------------------------------------------------------------ */

/* cuBLAS has matrices column by column: what it is given is the transpose of everything, y^T =
 * op(b)^T op(a)^T. */
static void multiply(struct device *d, void *y, cudaDataType_t y_type, bool at, const void *a,
		     bool bt, const void *b, cudaDataType_t type, int m, int n, int k)
{
	struct cuda *c = cuda_of(d);
	const float one = 1, zero = 0;
	cublasComputeType_t compute = c->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;

	TRY_BLAS(d,
		 cublasGemmEx(c->blas, bt ? CUBLAS_OP_T : CUBLAS_OP_N,
			      at ? CUBLAS_OP_T : CUBLAS_OP_N, n, m, k, &one, b, type, bt ? k : n, a,
			      type, at ? m : k, &zero, y, y_type, n, compute, CUBLAS_GEMM_DEFAULT));
}

static void cuda_gemm(struct device *d, float *y, bool at, const float *a, bool bt, const float *b,
		      size_t m, size_t n, size_t k)
{
	struct cuda *c = cuda_of(d);

	CHECK(m <= INT_MAX && n <= INT_MAX && k <= INT_MAX, "gemm of %zu x %zu x %zu", m, n, k);
	if (m == 0 || n == 0)
		return;
	if (!c->bf16) {
		multiply(d, y, CUDA_R_32F, at, a, bt, b, CUDA_R_32F, (int)m, (int)n, (int)k);
		return;
	}
	CHECK(!(at && bt), "gemm in bf16: neither operand is known to be a weight");
	if (at) {
		multiply(d, y, CUDA_R_32F, at, a, bt, b, CUDA_R_16BF, (int)m, (int)n, (int)k);
		return;
	}
	void *weight = cuda_workspace(d, n * k * sizeof(uint16_t));

	RUN(d, kernels_to_bf16(c->stream, weight, b, n * k));
	multiply(d, y, CUDA_R_16BF, at, a, bt, weight, CUDA_R_16BF, (int)m, (int)n, (int)k);
}

static void cuda_add_bias(struct device *d, float *y, const float *b, size_t rows, size_t n)
{
	struct cuda *c = cuda_of(d);

	RUN(d, kernels_add_bias(c->stream, c->bf16, y, b, false, rows, n));
}

static void cuda_sum_rows(struct device *d, float *b, const float *y, size_t rows, size_t n)
{
	struct cuda *c = cuda_of(d);

	RUN(d, kernels_sum_rows(c->stream, c->bf16, b, y, rows, n, cuda_stage(d, n)));
}

/* ---- Activations --------------------------------------------------------- */

static void cuda_relu(struct device *d, float *y, size_t n)
{
	struct cuda *c = cuda_of(d);

	RUN(d, kernels_relu(c->stream, c->bf16, y, n));
}

static void cuda_relu_grad(struct device *d, float *dy, const float *y, size_t n)
{
	struct cuda *c = cuda_of(d);

	RUN(d, kernels_relu_grad(c->stream, c->bf16, dy, y, n));
}

static void cuda_tanh(struct device *d, float *y, size_t n)
{
	struct cuda *c = cuda_of(d);

	RUN(d, kernels_tanh(c->stream, c->bf16, y, n));
}

static void cuda_tanh_grad(struct device *d, float *dy, const float *y, size_t n)
{
	struct cuda *c = cuda_of(d);

	RUN(d, kernels_tanh_grad(c->stream, c->bf16, dy, y, n));
}

/* ---- Losses -------------------------------------------------------------- */

/* A label that is no class cannot be checked from here: its loss is a NaN, which ends the run. */
static void cuda_softmax_xent(struct device *d, float *z, const float *target, size_t rows,
			      size_t n)
{
	struct cuda *c = cuda_of(d);

	RUN(d, kernels_softmax_xent(c->stream, c->bf16, z, target, rows, n, &c->state->tally,
				    cuda_stage(d, 0)));
}

static void cuda_mse(struct device *d, float *z, const float *target, size_t rows, size_t n)
{
	struct cuda *c = cuda_of(d);

	RUN(d, kernels_mse(c->stream, c->bf16, z, target, rows, n, &c->state->tally,
			   cuda_stage(d, 0)));
}

/* ---- The optimiser, data, the tally -------------------------------------- */

/* In a graph that is kept, the learning rate is not what it was when the graph was captured. */
static void cuda_sgd(struct device *d, float *p, float *v, const float *g, float lr, float m,
		     float decay, float scale, size_t n)
{
	struct cuda *c = cuda_of(d);

	CHECK(!d->in_graph || lr == d->lr, "sgd: lr %g in a step of %g", (double)lr, (double)d->lr);
	RUN(d, kernels_sgd(c->stream, p, v, g, d->in_graph ? &c->state->step : NULL, lr, m, decay,
			   scale, n));
}

/* A few words of an array: they tell apart two sets that were loaded to the same place. */
static uint64_t fingerprint_of(const void *array, size_t bytes)
{
	enum { WORDS = 16 };
	const size_t words = bytes / sizeof(uint64_t);
	uint64_t h = bytes, word;

	for (size_t i = 0; words && i < WORDS; i++) {
		memcpy(&word, (const char *)array + part_of(words - 1, WORDS - 1, i) * sizeof word,
		       sizeof word);
		h = hash64(h ^ word);
	}
	for (size_t i = words * sizeof word; i < bytes; i++)
		h = hash64(h ^ ((const unsigned char *)array)[i]);
	return h;
}

static struct resident *resident_of(struct cuda *c, const void *array)
{
	for (size_t i = 0; i < c->residents; i++)
		if (c->resident[i].host == array)
			return &c->resident[i];
	c->resident = must(realloc(c->resident, (c->residents + 1) * sizeof *c->resident));
	c->resident[c->residents] = (struct resident){.host = array};
	return &c->resident[c->residents++];
}

/* The array on the device; NULL for NULL. */
static const void *brought(struct device *d, const void *array, size_t bytes)
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
		TRY(d, cudaFree(r->at));
		d->bytes -= r->bytes;
	}
	r->at = device_malloc(d, bytes);
	r->bytes = bytes;
	r->print = print;
	d->bytes += bytes;
	TRY(d, cudaMemcpyAsync(r->at, array, bytes, cudaMemcpyHostToDevice, c->stream));
	cuda_sync(d);
	return r->at;
}

static void cuda_gather(struct device *d, float *x, float *y, const struct data *data,
			const int32_t *index, size_t count, const struct transform *t)
{
	struct cuda *c = cuda_of(d);
	const size_t f = data->features, size = c->bf16 ? sizeof(uint16_t) : sizeof(float);
	struct kernels_source from = {
		.bytes = brought(d, data->bytes, data->n * f),
		.floats =
			data->bytes ? NULL : brought(d, data->floats, data->n * f * sizeof(float)),
		.target = brought(d, data->target, data->n * sizeof(float)),
		.mean = t ? brought(d, t->mean, f * sizeof(float)) : NULL,
		.features = f};

	if (t && (t->pad || t->flip)) {
		from.key = t->key;
		from.width = (unsigned)t->image.width;
		from.height = (unsigned)t->image.height;
		from.channels = (unsigned)t->image.channels;
		from.pad = (unsigned)t->pad;
		from.flip = t->flip;
	}
	for (size_t i = 0; i < count; i += KERNELS_ROWS) {
		struct kernels_rows rows;
		size_t n = smaller(count - i, KERNELS_ROWS);
		memcpy(rows.number, index + i, n * sizeof *index);
		RUN(d, kernels_gather(c->stream, c->bf16, (char *)x + i * f * size, y + i, &from,
				      &rows, n));
	}
}

static void cuda_tally(struct device *d, struct tally *out)
{
	struct cuda *c = cuda_of(d);
	struct kernels_tally t;

	TRY(d, cudaMemcpyAsync(&t, &c->state->tally, sizeof t, cudaMemcpyDeviceToHost, c->stream));
	TRY(d, cudaMemsetAsync(&c->state->tally, 0, sizeof t, c->stream));
	cuda_sync(d);
	*out = (struct tally){
		.loss = t.loss, .correct = (int64_t)t.correct, .rows = (int64_t)t.rows};
}

/* ---- Dropout ------------------------------------------------------------- */

static void cuda_dropout(struct device *d, float *y, float p, uint64_t salt, size_t n)
{
	struct cuda *c = cuda_of(d);

	RUN(d, kernels_dropout(c->stream, c->bf16, y, d->in_graph ? &c->state->step : NULL, d->key,
			       salt, p, n));
}

/* ---- Graphs -------------------------------------------------------------- */

/* What a graph finds changed at each launch. */
static void set_step(struct device *d)
{
	struct cuda *c = cuda_of(d);

	RUN(d, kernels_set_step(c->stream, &c->state->step,
				(struct kernels_step){d->key, d->lr, ++c->turn}));
}

static struct kept_graph *graph_of(struct cuda *c, size_t key, bool *is_new)
{
	*is_new = false;
	for (size_t i = 0; i < c->graphs; i++)
		if (c->graph[i].key == key)
			return &c->graph[i];
	*is_new = true;
	c->graph = must(realloc(c->graph, (c->graphs + 1) * sizeof *c->graph));
	c->graph[c->graphs] = (struct kept_graph){.key = key};
	return &c->graph[c->graphs++];
}

static cudaGraphExec_t capture(struct device *d, void (*body)(void *ctx), void *ctx)
{
	struct cuda *c = cuda_of(d);
	cudaGraph_t graph;
	cudaGraphExec_t exec;

	TRY(d, cudaStreamBeginCapture(c->stream, cudaStreamCaptureModeThreadLocal));
	c->capturing = c->captured = true;
	body(ctx);
	c->capturing = false;
	TRY(d, cudaStreamEndCapture(c->stream, &graph));
	TRY(d, cudaGraphInstantiateWithFlags(&exec, graph, 0));
	TRY(d, cudaGraphDestroy(graph));
	return exec;
}

static void cuda_graph(struct device *d, size_t key, void (*body)(void *ctx), void *ctx)
{
	struct cuda *c = cuda_of(d);
	bool is_new;
	struct kept_graph *g = graph_of(c, key, &is_new);

	set_step(d);
	d->in_graph = true;
	c->switched = false;
	if (is_new)
		body(ctx);
	else if (!g->exec)
		g->exec = capture(d, body, ctx);
	d->in_graph = false;
	if (is_new && c->switched)
		c->graphs--; /* once more as it is, before it is captured */
	if (g->exec)
		TRY(d, cudaGraphLaunch(g->exec, c->stream));
}

/* The turn's number arrives in host memory when the stream comes to this place. A CUDA event could
 * still be the record of the launch before, until the graph gets to where it records it. */
static void cuda_event_record(struct device *d, size_t i)
{
	struct cuda *c = cuda_of(d);

	CHECK(i < EVENTS, "an event past the %dth", EVENTS);
	TRY(d, cudaMemcpyAsync(&c->event[i], &c->state->step.turn, sizeof *c->event,
			       cudaMemcpyDeviceToHost, c->stream));
}

static void cuda_event_wait(struct device *d, size_t i)
{
	struct cuda *c = cuda_of(d);

	CHECK(i < EVENTS, "an event past the %dth", EVENTS);
	while (__atomic_load_n(&c->event[i], __ATOMIC_ACQUIRE) != c->turn) {
		cudaError_t status = cudaStreamQuery(c->stream);
		bool there = __atomic_load_n(&c->event[i], __ATOMIC_ACQUIRE) == c->turn;
		if (status == cudaErrorNotReady)
			cudaGetLastError(); /* it is kept as if it were an error */
		else
			TRY(d, status);
		CHECK(status == cudaErrorNotReady || there, "event %zu was never recorded", i);
		sched_yield();
	}
}

/* ---- Peers --------------------------------------------------------------- */

static float *cuda_pinned_new(struct device *d, size_t n)
{
	void *p;

	TRY(d, cudaHostAlloc(&p, (n ? n : 1) * sizeof(float), cudaHostAllocDefault));
	return p;
}

static void cuda_pinned_free(struct device *d, float *p)
{
	TRY(d, cudaFreeHost(p));
}

static void cuda_fetch(struct device *d, float *to, const float *x, size_t n)
{
	struct cuda *c = cuda_of(d);

	if (n)
		TRY(d, cudaMemcpyAsync(to, x, n * sizeof *x, cudaMemcpyDeviceToHost, c->side));
	TRY(d, cudaStreamSynchronize(c->side));
}

/* Small allocations share a piece of SHARED bytes, which a peer would map as a whole. */
enum { SHARED = 2 << 20 };

static float *cuda_shared_new(struct device *d, size_t n, unsigned char handle[PEER_HANDLE_BYTES])
{
	struct cuda *c = cuda_of(d);
	size_t bytes = (n * sizeof(float) / SHARED + 1) * SHARED;
	float *p = device_malloc(d, bytes);
	cudaIpcMemHandle_t ipc;

	_Static_assert(sizeof ipc <= PEER_HANDLE_BYTES, "a handle has room");
	TRY(d, cudaMemsetAsync(p, 0, bytes, c->stream));
	cuda_sync(d);
	memset(handle, 0, PEER_HANDLE_BYTES);
	cudaError_t status = cudaIpcGetMemHandle(&ipc, p);

	if (status != cudaSuccess)
		cudaGetLastError(); /* zeros: nobody can map it */
	else
		memcpy(handle, &ipc, sizeof ipc);
	return p;
}

static void cuda_shared_free(struct device *d, float *p)
{
	cuda_sync(d);
	TRY(d, cudaFree(p));
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
	TRY(d, cudaIpcCloseMemHandle(p));
}

static void cuda_sum(struct device *d, float *y, const float *const *x, int k, float a, size_t n)
{
	struct kernels_peers peers = {.k = k};

	CHECK(k > 0 && k <= KERNELS_PEERS, "sum of %d peers", k);
	memcpy(peers.x, x, (size_t)k * sizeof *x);
	RUN(d, kernels_sum(cuda_of(d)->stream, y, &peers, a, n));
}

static const struct {
	const char *updater;
	enum kernels_op_kind kind;
} pushes[] = {
	{"add", KERNELS_ADD},
	{"sgd", KERNELS_SGD},
	{"momentum", KERNELS_MOMENTUM},
	{"momentum_ema", KERNELS_MOMENTUM_EMA},
	{"adagrad", KERNELS_ADAGRAD},
	{"adagrad_shared", KERNELS_ADAGRAD_SHARED},
	{"dcasgd", KERNELS_DCASGD},
	{"dcasgda", KERNELS_DCASGDA},
	{"staleness", KERNELS_STALENESS},
};

static enum kernels_op_kind kind_of(const struct table_rules *r, const struct table_op *p)
{
	static const enum kernels_op_kind plain[] = {
		[OP_READ] = KERNELS_READ, [OP_SYNC] = KERNELS_SYNC, [OP_ELASTIC] = KERNELS_ELASTIC};

	if (p->kind != OP_PUSH)
		return plain[p->kind];
	for (size_t i = 0; i < sizeof pushes / sizeof *pushes; i++)
		if (strcmp(pushes[i].updater, r->updater->name) == 0)
			return pushes[i].kind;
	panic(__FILE__, __LINE__, "updater %s has no kernel", r->updater->name);
}

static void cuda_apply(struct device *d, const struct table_rules *r, const struct table_op *p,
		       float *w, float *state, float *own, float *pulled, const float *in,
		       float *out, size_t n)
{
	struct kernels_table t = {.w = w,
				  .state = state,
				  .own = own,
				  .pulled = pulled,
				  .in = in,
				  .out = out,
				  .scale = p->by.scale,
				  .lr = p->by.lr,
				  .momentum = p->by.momentum,
				  .rho = p->by.rho,
				  .lambda = p->by.lambda,
				  .keep = p->kind == OP_SYNC || (out && pulled && p->pull)};
	enum kernels_op_kind kind = kind_of(r, p);

	if (kind == KERNELS_STALENESS)
		t.lr /= (float)(1 + p->staleness);
	RUN(d, kernels_apply(cuda_of(d)->stream, kind, &t, n));
	cuda_sync(d);
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

static char *cuda_nccl_new(struct device *d, void **nccl, const unsigned char id[NCCL_ID_BYTES],
			   int rank, int size)
{
	ncclUniqueId made;
	ncclComm_t comm;

	memcpy(&made, id, sizeof made);
	ncclResult_t status = ncclCommInitRank(&comm, size, made, rank);

	if (status != ncclSuccess)
		return sentence("NCCL cannot join worker %d on GPU %d: %s; use ipc, staged or auto",
				rank, cuda_of(d)->gpu, ncclGetErrorString(status));
	*nccl = comm;
	return NULL;
}

#define TRY_NCCL(d, call) TRY_(d, ncclResult_t, ncclSuccess, ncclGetErrorString, call)

static void cuda_nccl_free(struct device *d, void *nccl)
{
	TRY_NCCL(d, ncclCommDestroy(nccl));
}

static void cuda_nccl_allreduce(struct device *d, void *nccl, float *x, size_t n)
{
	TRY_NCCL(d, ncclAllReduce(x, x, n, ncclFloat, ncclSum, nccl, cuda_of(d)->stream));
	cuda_sync(d);
}

static const struct peer_ops peer = {
	.pinned_new = cuda_pinned_new,
	.pinned_free = cuda_pinned_free,
	.fetch = cuda_fetch,
	.shared_new = cuda_shared_new,
	.shared_free = cuda_shared_free,
	.shared_map = cuda_shared_map,
	.shared_unmap = cuda_shared_unmap,
	.sum = cuda_sum,
	.apply = cuda_apply,
	.nccl_id = cuda_nccl_id,
	.nccl_new = cuda_nccl_new,
	.nccl_free = cuda_nccl_free,
	.nccl_allreduce = cuda_nccl_allreduce,
};

static const struct device_ops ops = {
	.name = "cuda",
	.summary = "NVIDIA GPUs, with cuBLAS, cuDNN and NCCL",
	.probe = cuda_probe,
	.open = cuda_open,
	.close = cuda_close,
	.alloc = cuda_alloc,
	.free = cuda_free,
	.put = cuda_put,
	.get = cuda_get,
	.fill = cuda_fill,
	.copy = cuda_copy,
	.scale = cuda_scale,
	.axpy = cuda_axpy,
	.take_columns = cuda_take_columns,
	.put_columns = cuda_put_columns,
	.gemm = cuda_gemm,
	.add_bias = cuda_add_bias,
	.sum_rows = cuda_sum_rows,
	.relu = cuda_relu,
	.relu_grad = cuda_relu_grad,
	.tanh = cuda_tanh,
	.tanh_grad = cuda_tanh_grad,
	.softmax_xent = cuda_softmax_xent,
	.mse = cuda_mse,
	.sgd = cuda_sgd,
	.gather = cuda_gather,
	.tally = cuda_tally,
	.dropout = cuda_dropout,
	.shortcut = cuda_shortcut,
	.shortcut_grad = cuda_shortcut_grad,
	.conv_new = cuda_conv_new,
	.conv_free = cuda_conv_free,
	.conv_forward = cuda_conv_forward,
	.conv_backward_weight = cuda_conv_backward_weight,
	.conv_backward_data = cuda_conv_backward_data,
	.pool_new = cuda_pool_new,
	.pool_free = cuda_pool_free,
	.pool_forward = cuda_pool_forward,
	.pool_backward = cuda_pool_backward,
	.norm_new = cuda_norm_new,
	.norm_free = cuda_norm_free,
	.norm_forward = cuda_norm_forward,
	.norm_backward = cuda_norm_backward,
	.graph = cuda_graph,
	.event_record = cuda_event_record,
	.event_wait = cuda_event_wait,
	.sync = cuda_sync,
	.peer = &peer,
};

__attribute__((visibility("default"))) const struct device_ops *mvbench_cuda(
	const struct cuda_host *of_the_program)
{
	host = of_the_program;
	return host->ops_bytes == sizeof ops && host->device_bytes == sizeof(struct device) ? &ops
											    : NULL;
}
