/*
 * choice.c - chooses the algorithm for a convolution: one of cuDNN's, or our own (weight.cu).
 *
 * At the first use of a shape, cuDNN tries all of its algorithms on the current data, which loads
 * them. Those that work, and ours, are then measured in a CUDA graph, as training runs them:
 * cuDNN's own trials launch each kernel from the host, and a launch takes longer than most of these
 * kernels. (ResNet-32 on an H200: the trials of the chosen algorithms took 44 us or more, even
 * where the kernel runs for 11 us. One chosen kernel ran for 63 us, the fastest for 8.) The first
 * shape's trials go on for WARM, because the GPU's clock rises only under load. The fastest
 * deterministic algorithm is chosen. All layers of that shape on this device then use it.
 * MVBENCH_CUDA_OWN=1 chooses our own wherever it exists, =0 nowhere; either keeps no choice.
 *
 * On a GPU that nothing has used yet, trials can take longer than the limit for a worker that makes
 * no progress. Each trial is therefore recorded as progress, and so is waiting for other processes.
 *
 * Times are useless while another process computes on the GPU, and the winner among nearly equal
 * algorithms varies, with different last bits of the results. Therefore a file keeps each choice in
 * a line; its key is GPU, version of cuDNN, precision, direction and shape. Only one process tries
 * at a time, with the file's folder locked; a process that waited finds the choice of the other.
 * The folder is MVBENCH_CUDA_CACHE (empty: none), otherwise mvbench in $XDG_CACHE_HOME or ~/.cache.
 * Without a folder no choice is kept and no process waits. A line that cuDNN refuses is ignored.
 */
#include "runtime/device/cuda/conv.h"

#include <cuda_runtime_api.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

enum {
	ALGORITHMS = 16,
	REPEATS = 8,     /* of a convolution in the graph that is measured */
	LAUNCHES = 4,    /* of that graph; the first one does not count */
	WARM = 50,       /* least duration of the first shape's trials [milliseconds] */
	WAIT_MOST = 120, /* for the lock [seconds]; then this process no longer waits for it */
	LOOK_EVERY = 5   /* interval of polling the lock [milliseconds] */
};

#define DIRECTION_TEXT(name, text, ...) text,
static const char *const direction_names[] = {DIRECTION_LIST(DIRECTION_TEXT)};

/* ---- Trials ---------------------------------------------------------------- */

/* cuDNN's results for an algorithm; cuDNN has three types with these fields. */
struct found {
	int algorithm;
	cudnnStatus_t status;
	bool steady; /* deterministic */
	cudnnMathType_t math;
	double ms;
};

/* Tries all algorithms, with a temporary output. Returns their number, the fastest first. */
static int try_all(struct device *d, struct cuda_conv *v, struct conv_plan *p, enum direction k,
		   const void *a, const void *b, void *out, void *work, size_t bytes,
		   struct found *found)
{
	cudnnHandle_t dnn = cuda_of(d)->dnn;
	cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
	int n = 0;
#define TRY_ALL(name, text, Word, Short, a_shape, b_shape, out_shape) \
	if (k == name) { \
		cudnnConvolution##Short##AlgoPerf_t all[ALGORITHMS]; \
		status = cudnnFindConvolution##Word##AlgorithmEx( \
			dnn, a_shape, a, b_shape, b, p->window, out_shape, out, ALGORITHMS, &n, \
			all, work, bytes); \
		for (int i = 0; i < n; i++) \
			found[i] = (struct found){.algorithm = (int)all[i].algo, \
						  .status = all[i].status, \
						  .steady = all[i].determinism == \
							    CUDNN_DETERMINISTIC, \
						  .math = all[i].mathType, \
						  .ms = (double)all[i].time}; \
	}
	DIRECTION_LIST(TRY_ALL)
	if (status == CUDNN_STATUS_SUCCESS)
		return n;
	if (!conv_can_pad(cuda_of(d), v))
		cuda_failed(d, __FILE__, __LINE__, "cudnnFindConvolution...Ex",
			    cudnnGetErrorString(status));
	return 0;
}

/* Workspace of the algorithm with this math, which may differ from that of the trial [bytes];
 * SIZE_MAX: it does not support this math. */
static size_t workspace_of(struct device *d, struct cuda_conv *v, struct conv_plan *p,
			   enum direction k, int algorithm, cudnnMathType_t math)
{
	cudnnHandle_t dnn = cuda_of(d)->dnn;
	size_t bytes = 0;
	if (algorithm == CONV_OWN)
		return k == BACKWARD_WEIGHT && !cuda_switch("MVBENCH_CUDA_OWN", "0")
			       ? cuda_weight_bytes(v->in, v->out, v->s.window, p->rows)
			       : SIZE_MAX;
	cudnnStatus_t status = cudnnSetConvolutionMathType(p->window, math);
#define WORKSPACE(name, text, Word, Short, a_shape, b_shape, out_shape) \
	if (status == CUDNN_STATUS_SUCCESS && k == name) \
		status = cudnnGetConvolution##Word##WorkspaceSize( \
			dnn, a_shape, b_shape, p->window, out_shape, \
			(cudnnConvolution##Short##Algo_t)algorithm, &bytes);
	DIRECTION_LIST(WORKSPACE)
	return status == CUDNN_STATUS_SUCCESS ? bytes : SIZE_MAX;
}

/* Allocates memory for trials: less, down to none, if there is not enough. */
static void *trial_memory(size_t *bytes)
{
	void *p = NULL;
	while (*bytes && cudaMalloc(&p, *bytes) != cudaSuccess) {
		cudaGetLastError();
		*bytes /= 2;
	}
	return p;
}

static size_t numbers_out(const struct cuda_conv *v, const struct conv_plan *p, enum direction k)
{
	return k == FORWARD         ? p->rows * image_size(v->out)
	       : k == BACKWARD_DATA ? p->rows * image_size(v->in)
				    : conv_weights(v);
}

/* The time of a convolution in a graph [ms]; `otherwise` if it cannot be captured, INFINITY if it
 * fails. */
static double measured(struct device *d, struct cuda_conv *v, struct conv_plan *p, enum direction k,
		       const struct conv_choice *how, const void *a, const void *b, void *work,
		       void *out, double otherwise)
{
	struct cuda *c = cuda_of(d);
	cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
	cudaGraph_t graph = NULL;
	cudaGraphExec_t exec;
	cudaEvent_t from, to;
	double best = INFINITY;

	TRY_CUDA(d, cudaStreamBeginCapture(c->stream, cudaStreamCaptureModeThreadLocal));
	for (int i = 0; i < REPEATS && status == CUDNN_STATUS_SUCCESS; i++)
		status = conv_run(d, v, p, k, how, a, b, 0, work, out);
	const cudaError_t ended = cudaStreamEndCapture(c->stream, &graph);
	cudaGetLastError(); /* a persistent error returns at the next call, and ends the run */
	if (ended != cudaSuccess || status != CUDNN_STATUS_SUCCESS) {
		if (graph)
			TRY_CUDA(d, cudaGraphDestroy(graph));
		return ended != cudaSuccess ? otherwise : INFINITY;
	}
	TRY_CUDA(d, cudaGraphInstantiateWithFlags(&exec, graph, 0));
	TRY_CUDA(d, cudaGraphDestroy(graph));
	TRY_CUDA(d, cudaEventCreateWithFlags(&from, cudaEventDefault));
	TRY_CUDA(d, cudaEventCreateWithFlags(&to, cudaEventDefault));
	for (int i = 0; i < LAUNCHES; i++) {
		float ms;
		TRY_CUDA(d, cudaEventRecord(from, c->stream));
		TRY_CUDA(d, cudaGraphLaunch(exec, c->stream));
		TRY_CUDA(d, cudaEventRecord(to, c->stream));
		cuda_sync(d);
		TRY_CUDA(d, cudaEventElapsedTime(&ms, from, to));
		if (i > 0)
			best = fmin(best, (double)ms / REPEATS);
	}
	TRY_CUDA(d, cudaEventDestroy(from));
	TRY_CUDA(d, cudaEventDestroy(to));
	TRY_CUDA(d, cudaGraphExecDestroy(exec));
	return best;
}

/* The fastest deterministic algorithm of those found, otherwise the fastest; algorithm -1: there is
 * none. float32 uses each of them without units that round. */
static struct conv_choice best_of(struct device *d, struct cuda_conv *v, struct conv_plan *p,
				  enum direction k, const struct found *found, int n, const void *a,
				  const void *b, void *work, size_t bytes, void *out, double *ms)
{
	const struct cuda *c = cuda_of(d);
	struct conv_choice best = {.algorithm = -1, .math = conv_math(c)};
	bool steady = false;
	*ms = INFINITY;
	for (int i = 0; i < n; i++) {
		if (found[i].status != CUDNN_STATUS_SUCCESS || (steady && !found[i].steady))
			continue;
		struct conv_choice how = {.algorithm = found[i].algorithm,
					  .math = conv_exact(c) ? conv_math(c) : found[i].math};
		how.bytes = workspace_of(d, v, p, k, how.algorithm, how.math);
		if (how.bytes > bytes)
			continue;
		pulse_step();
		const double its = measured(d, v, p, k, &how, a, b, work, out, found[i].ms);
		if (cuda_switch("MVBENCH_CUDA_VERBOSE", "1"))
			fprintf(stderr, "mvbench: algorithm %d math %d%s: %.1f us\n", how.algorithm,
				(int)how.math, found[i].steady ? "" : ", not deterministic",
				1e3 * its);
		const bool forced =
			how.algorithm == CONV_OWN && cuda_switch("MVBENCH_CUDA_OWN", "1");
		if (isinf(its) || (its >= *ms && steady == found[i].steady && !forced))
			continue;
		best = how;
		*ms = its;
		steady = found[i].steady;
	}
	return best;
}

static struct conv_choice choice_choose(struct device *d, struct cuda_conv *v, struct conv_plan *p,
					enum direction k, const void *a, const void *b, double *ms)
{
	struct cuda *c = cuda_of(d);
	struct found found[ALGORITHMS + 1];
	size_t bytes = CONV_WORKSPACE, out_bytes = numbers_out(v, p, k) * cuda_number(c);
	void *out = cuda_take(d, out_bytes), *work = trial_memory(&bytes);
	int n = 0;
	TRY_DNN(d, cudnnSetConvolutionMathType(p->window, conv_math(c)));
	const double warm_at = cuda_seconds() + 1e-3 * WARM;

	do {
		pulse_step();
		n = try_all(d, v, p, k, a, b, out, work, bytes, found);
		cuda_sync(d);
	} while (!c->warm && cuda_seconds() < warm_at);
	c->warm = true;
	found[n++] = (struct found){.algorithm = CONV_OWN,
				    .status = CUDNN_STATUS_SUCCESS,
				    .steady = true,
				    .math = conv_math(c),
				    .ms = INFINITY};
	struct conv_choice best = best_of(d, v, p, k, found, n, a, b, work, bytes, out, ms);
	cuda_give(d, out, out_bytes);
	TRY_CUDA(d, cudaFree(work));

	if (best.algorithm < 0 && !conv_can_pad(c, v))
		failure("cuDNN has no %s convolution in %s on GPU %d (%s) for %zu rows of %zu x "
			"%zu x %zu with %zu windows of %zu x %zu: try another --precision",
			direction_names[k], d->precision, c->gpu, c->model, p->rows, v->s.in.height,
			v->s.in.width, v->s.in.channels, v->s.out.channels, v->s.window.size,
			v->s.window.size);
	return best;
}

/* ---- The file of choices --------------------------------------------------- */

static char *cache_folder(void)
{
	const char *named = getenv("MVBENCH_CUDA_CACHE"), *cache = getenv("XDG_CACHE_HOME"),
		   *home = getenv("HOME");
	const char *own = getenv("MVBENCH_CUDA_OWN");
	if (own && *own)
		return NULL;
	if (named)
		return *named ? sentence("%s", named) : NULL;
	if (cache && *cache == '/')
		return sentence("%s/mvbench", cache);
	return home && *home == '/' ? sentence("%s/.cache/mvbench", home) : NULL;
}

/* Waits for other processes' trials. After a wait in vain no shape waits again: a process may keep
 * the lock forever. Returns the folder's descriptor, whose close ends the lock; -1: not locked. */
static int cache_lock(const char *folder)
{
	static bool in_vain;
	const struct timespec look = {.tv_nsec = LOOK_EVERY * 1000000L};
	const int fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	for (int i = 0; fd >= 0 && i < WAIT_MOST * 1000 / LOOK_EVERY; i++) {
		if (flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK || in_vain)
			return fd;
		pulse_step();
		nanosleep(&look, NULL);
	}
	in_vain = fd >= 0;
	return fd;
}

/* The start of a line. */
static char *key_of(struct device *d, const struct cuda_conv *v, const struct conv_plan *p,
		    enum direction k)
{
	const struct shape *s = &v->s;
	return sentence("%s\tcuDNN %zu\t%s\t%s\t%zu x %zux%zux%zu to %zu, window %zu/%zu/%zu\t",
			cuda_of(d)->model, cudnnGetVersion(), d->precision, direction_names[k],
			p->rows, s->in.height, s->in.width, v->in.channels, v->out.channels,
			s->window.size, s->window.stride, s->window.pad);
}

/* Finds a line with this key that cuDNN supports. */
static bool recall(struct device *d, struct cuda_conv *v, struct conv_plan *p, enum direction k,
		   const char *file, const char *key, struct conv_choice *to)
{
	char *text AUTOFREE = file ? text_read(file) : NULL;
	for (const char *line = text; line && *line; line = strchr(line, '\n') + 1) {
		int algorithm, math, end = 0;
		if (!strchr(line, '\n')) /* of another program: mvbench writes whole lines */
			return false;
		if (strncmp(line, key, strlen(key)) != 0 ||
		    sscanf(line + strlen(key), "algorithm %d math %d%n", &algorithm, &math, &end) <
			    2 ||
		    algorithm < 0)
			continue;
		const size_t bytes = workspace_of(d, v, p, k, algorithm, (cudnnMathType_t)math);
		if (bytes > CONV_WORKSPACE)
			continue;
		*to = (struct conv_choice){
			.algorithm = algorithm, .math = (cudnnMathType_t)math, .bytes = bytes};
		return true;
	}
	return false;
}

/* Best effort: without a line the next process tries again. Replaces a line with the same key. */
static void choice_keep(const char *file, const char *key, const struct conv_choice *choice,
			double ms)
{
	struct output o;
	char *old AUTOFREE = text_read(file);
	char *wrong AUTOFREE = output_open(&o, "", file);
	if (wrong)
		return;
	for (char *line = old, *end; line && (end = strchr(line, '\n')); line = end + 1)
		if (strncmp(line, key, strlen(key)) != 0)
			fwrite(line, 1, (size_t)(end + 1 - line), o.f);
	fprintf(o.f, "%salgorithm %d math %d\t%.1f us\n", key, choice->algorithm, (int)choice->math,
		1e3 * ms);
	free(output_close(&o, NULL));
}

static void tell(const char *key, const struct conv_choice *choice, bool kept, double ms)
{
	if (!cuda_switch("MVBENCH_CUDA_VERBOSE", "1"))
		return;
	char *how AUTOFREE = kept ? sentence("kept") : sentence("%.1f us when tried", 1e3 * ms);
	fprintf(stderr, "mvbench: %salgorithm %d math %d, %zu bytes, %s\n", key, choice->algorithm,
		(int)choice->math, choice->bytes, how);
}

/* Reads the choice from the file, or makes it by trials. */
static struct conv_choice choice_make(struct device *d, struct cuda_conv *v, struct conv_plan *p,
				      enum direction k, const void *a, const void *b)
{
	struct conv_choice choice;
	char *folder AUTOFREE = cache_folder(), *key AUTOFREE = key_of(d, v, p, k);
	const bool keeps = folder && folder_make(folder) == 0;
	char *file AUTOFREE = keeps ? sentence("%s/algorithms", folder) : NULL;
	int lock = -1;
	double ms = 0;
	bool kept = recall(d, v, p, k, file, key, &choice);

	if (!kept) {
		lock = cache_lock(keeps ? folder : NULL);
		kept = recall(d, v, p, k, file, key, &choice);
	}
	if (!kept) {
		choice = choice_choose(d, v, p, k, a, b, &ms);
		if (file && choice.algorithm >= 0)
			choice_keep(file, key, &choice, ms);
	}
	if (lock >= 0)
		close(lock);
	tell(key, &choice, kept, ms);
	return choice;
}

const struct conv_choice *conv_choice_of(struct device *d, struct cuda_conv *v, struct conv_plan *p,
					 enum direction k, const void *a, const void *b)
{
	const struct problem problem = {v->in, v->out, v->s.window, p->rows, k};
	struct cuda *c = cuda_of(d);
	for (size_t i = 0; i < c->choices; i++)
		if (memcmp(&c->choice[i].problem, &problem, sizeof problem) == 0)
			return &c->choice[i];
	CHECK(!c->capturing, "the first convolution of %zu rows comes while a graph is captured",
	      p->rows);
	struct conv_choice made = choice_make(d, v, p, k, a, b);

	made.problem = problem;
	APPEND(c->choice, c->choices, made);
	return &c->choice[c->choices - 1];
}
