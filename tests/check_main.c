/*
 * check_main.c - runs every suite; CK_RUN_SUITE=train runs one of them. With MVBENCH_GPU_TEST=1 it
 * runs the suites in which a GPU takes part, on this machine's GPU, and fails if there is none.
 * Suites wait more than they compute: with MVBENCH_TEST_LANE=FOLDER several processes share them
 * (lanes.sh). Tests that lack something here are counted as skipped; with MVBENCH_REQUIRE=1 a
 * missing program is a failure.
 */
#include "tests/fixture.h"
#include "tests/suites.h"
#include "runtime/comm/comm.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* In the order in which they start: the longest first. */
static const char *const suites[] = {
	"wires",      "lab",    "validate",   "hostile",   "bindings",   "sim",
	"checkpoint", "advise", "plots",      "python",    "gpu",        "plugins",
	"stats",      "sweep",  "library",    "networks",  "evaluation", "heterogeneity",
	"run",        "train",  "cuda",       "transport", "strategies", "codecs",
	"replay",     "tables", "trace",      "onesided",  "devices",    "workloads",
	"images",     "arrays", "optimizers", "servers",   "bench",      "recipes",
	"gpt",        "split",  "contract",   "consensus", "tune",       "budget",
	"model",      "report", "spread",     "baseline",  "gate",       "ask",
	"export",     "store",  "shards",     "steps",     "rounds",     "oracle",
	"stalls",     "help",   "sql",        "layers",    "options",    "sockets"};
/* A GPU takes part in these. */
static const char *const gpu_suites[] = {"transport", "gpu",    "devices",
					 "workloads", "images", "cuda"};

/* Does this suite run? With a GPU to test only some do. */
static bool is_wanted(const char *suite, bool gpu)
{
	bool found = !gpu;
	for (size_t i = 0; i < COUNT(gpu_suites); i++)
		found = found || strcmp(gpu_suites[i], suite) == 0;
	return found;
}

static int run(SRunner *runner)
{
	srunner_run_all(runner, CK_ENV);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed;
}

/* Runs the suites that no other process has claimed. A process claims a suite by making a folder of
 * that name. */
static int run_unclaimed(const char *lane, bool gpu)
{
	int failed = 0;
	for (size_t i = 0; i < COUNT(suites); i++) {
		char *claim AUTOFREE = sentence("%s/%s", lane, suites[i]);
		if (is_wanted(suites[i], gpu) && mkdir(claim, 0777) == 0) {
			nsec began = clock_now();
			failed += run(srunner_create(suite_make(suites[i])));
			printf("%s: %.0f s\n", suites[i], 1e-9 * (double)(clock_now() - began));
		}
		fflush(stdout);
	}
	return failed;
}

static int run_all(const char *lane, bool gpu)
{
	if (lane)
		return run_unclaimed(lane, gpu);
	SRunner *runner = srunner_create(NULL);
	for (size_t i = 0; i < COUNT(suites); i++)
		if (is_wanted(suites[i], gpu))
			srunner_add_suite(runner, suite_make(suites[i]));
	return run(runner);
}

int main(void)
{
	char *own AUTOFREE = NULL;
	const char *lane = getenv("MVBENCH_TEST_LANE");
	const bool gpu = on_real_gpu();
	const char *missing = gpu ? device_cuda.probe(NULL) : NULL;
	const char *unlisted = suite_unlisted(suites, COUNT(suites));
	if (missing || unlisted) {
		fprintf(stderr,
			missing ? "no GPU to test: %s\n"
				: "check_main.c does not list the suite of %s\n",
			missing ? missing : unlisted);
		return EXIT_FAILURE;
	}
	signal(SIGINT, SIG_DFL); /* a parent may ignore them; mvbench would, too */
	signal(SIGHUP, SIG_DFL);
	/* The expected output does not depend on whether the machine has a GPU. */
	if (!gpu)
		setenv("MVBENCH_CUDA", "none", 1);
	/* Tests see no temporary files of others, and leave none behind. */
	char *wrong = folder_temporary("tests", &own);
	if (wrong)
		return complain(wrong);
	setenv("TMPDIR", own, 1);
	/* Only a real GPU takes long to try algorithms. */
	char *choices AUTOFREE = sentence("%s/choices", own);
	setenv("MVBENCH_CUDA_CACHE", gpu ? choices : "", 1);
	if (!gpu)
		setenv("MVBENCH_CUDA_OWN", "0", 1); /* slow, where it is emulated */
	if (access("/sys/devices/system/cpu", F_OK) != 0)
		setenv("HWLOC_HIDE_ERRORS", "2", 0); /* otherwise every rank reports it */
	setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);    /* containers have no other user */
	setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
	setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0); /* several tests share the cores */
	setenv("OMPI_MCA_pml", "ob1", 0); /* for tools that start MPI: see choose_settings */
	/* each mpirun would look for devices, although no rank is bound near one */
	setenv("HWLOC_COMPONENTS", "-linuxio,-pci,-opencl,-gl,-cuda,-nvml", 0);
	setenv("CK_TIMEOUT_MULTIPLIER", "3", 0); /* limits are for hangs, not for busy machines */
	skips_open();
	int failed = run_all(lane, gpu);
	if (lane)
		printf("left out %d\n", tests_left_out());
	printf("skipped %d\n", skips_count());
	folder_remove(own);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
