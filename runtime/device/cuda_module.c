/*
 * cuda_module.c - the program's side of the CUDA device: finds its module, asks it whether a GPU is
 * usable here, and loads it when a worker opens a GPU.
 *
 * The probe starts CUDA. A process that has started CUDA cannot fork workers that use it. Therefore
 * a child process runs the probe; this process keeps the answer until it ends. A worker that
 * mvbench's launcher has started forks no workers and will use CUDA: it runs the probe itself.
 * The driver can hang while it starts. A probe in a child process has ANSWER_WITHIN. In a worker,
 * the probe and the start have the limits of a stalled worker (runtime/watch/stall.c).
 * Cost: 0.1 ms without a driver; otherwise the start of CUDA, and some 0.3 s for each GPU whose
 * memory is read.
 */
#include "runtime/device/cuda/cuda.h"
#include "runtime/watch/watch.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ANSWER_WITHIN = 120 }; /* [seconds]; at first 1.3 GB of libraries are read from disk */

/* The module calls these functions: the program must contain and export them. */
static void (*const exported[])(void) __attribute__((used)) = {
	(void (*)(void))panic,       (void (*)(void))failure,     (void (*)(void))must,
	(void (*)(void))sentence,    (void (*)(void))pulse_step,  (void (*)(void))text_read,
	(void (*)(void))folder_make, (void (*)(void))output_open, (void (*)(void))output_close};

static bool computes; /* this process uses CUDA */

/* ---- The module ---------------------------------------------------------- */

/* In this program's folder or the one above (tests), in the build folder of MVBENCH_HOME, or where
 * it is installed; heap, NULL if not found. MVBENCH_CUDA names another file. */
static char *module_path(void)
{
	const char *home = getenv("MVBENCH_HOME"), *named = getenv("MVBENCH_CUDA");
	char *self AUTOFREE = program_path();
	if (named && *named)
		return sentence("%s", named);
	char *slash = strrchr(self, '/');
	if (slash)
		*slash = '\0';
	char *places[] = {sentence("%s/mvbench_cuda.so", self),
			  sentence("%s/../mvbench_cuda.so", self),
			  sentence("%s/build/mvbench_cuda.so", home ? home : self),
			  sentence("%s/../lib/mvbench/mvbench_cuda.so", self)};
	char *found = NULL;

	for (size_t i = 0; i < sizeof places / sizeof *places; i++)
		if (!found && access(places[i], R_OK) == 0)
			found = places[i];
		else
			free(places[i]);
	return found;
}

/* On failure returns NULL, with a message (heap) in *wrong. */
static const struct device_ops *load_module(char **wrong)
{
	mvbench_cuda_fn *entry;
	char *path AUTOFREE = module_path();
	if (!path) {
		*wrong = sentence("this mvbench was built without CUDA: install the CUDA Toolkit, "
				  "cuDNN and NCCL and build again, or use --device=cpu");
		return NULL;
	}
	void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	void *symbol = module ? dlsym(module, "mvbench_cuda") : NULL;

	const struct device_ops *ops = NULL;

	memcpy(&entry, &symbol, sizeof entry);
	if (!symbol)
		*wrong = sentence("the CUDA module cannot be loaded: %s", dlerror());
	else if (!(ops = entry(cuda_build(), computes)))
		*wrong = sentence("%s is of another version than this mvbench: build again", path);
	return ops;
}

/* ---- The probe ----------------------------------------------------------- */

struct answer {
	struct device_facts facts;
	char wrong[512]; /* empty: usable */
};

static void ask_here(struct answer *a)
{
	char *cannot;
	const struct device_ops *ops = load_module(&cannot);
	const char *wrong = ops ? ops->probe(&a->facts) : cannot;
	snprintf(a->wrong, sizeof a->wrong, "%s", wrong ? wrong : "");
}

/* In a child process: an alarm ends it if the driver hangs. */
static void ask_and_end(const void *answer)
{
	signal(SIGALRM, SIG_DFL);
	alarm(ANSWER_WITHIN);
	ask_here((struct answer *)(uintptr_t)answer);
	_Exit(0);
}

static void ask_in_child(struct answer *a)
{
	struct answer *told =
		mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	const int status = told == MAP_FAILED ? -1 : child_run(ask_and_end, told, NULL, 0);

	if (status == -1)
		snprintf(a->wrong, sizeof a->wrong, "cannot look for GPUs: no process (%s)",
			 strerror(errno));
	else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
		snprintf(a->wrong, sizeof a->wrong, "the NVIDIA driver did not answer within %d s",
			 ANSWER_WITHIN);
	else if (status != 0)
		snprintf(a->wrong, sizeof a->wrong, "CUDA crashed while looking for GPUs (%s %d)",
			 WIFSIGNALED(status) ? "signal" : "status",
			 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	else
		*a = *told;
	if (told != MAP_FAILED)
		munmap(told, sizeof *told);
}

/* A fast check for the driver's library; it does not start the driver. */
static bool driver_is_there(void)
{
	const char *named = getenv("MVBENCH_CUDA");
	if (named && *named)
		return true;
	return dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL) != NULL; /* never closed */
}

static const char *probe(struct device_facts *f)
{
	static struct answer known;
	static bool asked;
	bool present = !asked && driver_is_there();

	computes = platform_under_launcher() && getenv(STATUS_VARIABLE);
	if (present && computes) {
		world_wait("its device", 0);
		ask_here(&known);
		world_leave();
	} else if (present)
		ask_in_child(&known);
	else if (!asked)
		snprintf(known.wrong, sizeof known.wrong,
			 "no NVIDIA driver is installed here (libcuda.so.1 is missing): install "
			 "it, or use --device=cpu");
	known.facts.present |= present;
	asked = true;
	if (f)
		*f = known.facts;
	return *known.wrong ? known.wrong : NULL;
}

static void open_module(struct device *d, int threads)
{
	char *wrong;
	world_wait("its device", 0);
	const struct device_ops *ops = load_module(&wrong);
	if (!ops)
		user_error("--device=cuda: %s", wrong);
	d->ops = ops;
	d->ops->open(d, threads);
	world_leave();
}

/* Its other operations are those of the module, which open_module loads. */
const struct device_ops device_cuda = {
	.name = "cuda",
	.summary = "NVIDIA GPUs, with cuBLAS, cuDNN and NCCL",
	.probe = probe,
	.open = open_module,
};
