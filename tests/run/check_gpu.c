/*
 * check_gpu.c - the program on GPUs, from outside: equal results, what is recorded, what is
 * refused, and how a GPU ends that fails in the middle.
 *
 * They run on tests/fake_cuda, which emulates CUDA on the processor, wherever nvcc was there to
 * build it; with MVBENCH_GPU_TEST=1 on the machine's own GPU, but for what only the fake can be
 * told.
 */
#include "tests/suites.h"
#include "tests/trained.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { OUTPUT = 8192 };

static void make_data(void)
{
	folder_new();
	idx_put_set(48, 16, false, '-');
	use_gpu();
}

/* ---- Equal results ------------------------------------------------------------- */

static const struct {
	int ranks;
	const char *words;
	double tolerance;
} same[] = {
	{1, "--workload=lenet --strategy=serial --batch=8 --epochs=2 --lr=0.01", 1e-4},
	{1, "--workload=lenet --lenet.dropout=0.5 --strategy=serial --batch=9 --epochs=1 --lr=0.01",
	 1e-4},
	{1, "--workload=resnet --resnet.depth=20 --strategy=serial --batch=16 --epochs=1 --lr=0.01",
	 1e-3},
	{2, "--workload=lenet --strategy=allreduce --batch=8 --epochs=1 --lr=0.01", 1e-4},
	{2,
	 "--workload=lenet --strategy=allreduce --allreduce.overlap=true --allreduce.bucket=64KiB "
	 "--batch=8 --epochs=1 --lr=0.01",
	 1e-4},
};

START_TEST(a_gpu_trains_what_the_cpu_trains)
{
	struct result gpu = run_tool(same[_i].ranks, words("%s --device=cuda", same[_i].words));
	struct result cpu = run_tool(same[_i].ranks, words("%s --device=cpu", same[_i].words));
	ck_assert_msg(gpu.status == 0, "%s: status %d\n%s", same[_i].words, gpu.status, gpu.output);
	ck_assert_msg(cpu.status == 0, "%s: status %d\n%s", same[_i].words, cpu.status, cpu.output);
	double d = distance(&gpu, &cpu);
	ck_assert_msg(d > 0 && d <= same[_i].tolerance, "%s: %g apart, allowed %g", same[_i].words,
		      d, same[_i].tolerance);
	free(gpu.param);
	free(cpu.param);
}
END_TEST

/* The whole step is a graph here (tools/train looks at every step, and so has it called): each sees
 * its own learning rate, which falls all the time, and its own dropout. */
START_TEST(steps_in_graphs_are_the_cpus)
{
	static const char *const device[] = {"cpu", "cuda"};
	char out[OUTPUT];
	for (int i = 0; i < 2; i++) {
		char *how = sentence("--workload=lenet --lenet.dropout=0.5 --strategy=serial "
				     "--batch=7 --lr=0.02 --epochs=3 --lr-schedule=cosine "
				     "--device=%s",
				     device[i]);
		ck_assert_msg(run_mvbench("", how, out, sizeof out) == 0, "%s", out);
		free(how);
	}
	expect_row("SELECT count(b.running_loss), "
		   "max(abs(a.test_loss - b.test_loss) / a.test_loss) < 1e-3, "
		   "max(abs(a.running_loss - b.running_loss) / a.running_loss) < 1e-3, "
		   "max(a.test_loss <> b.test_loss) FROM epoch AS a JOIN epoch AS b "
		   "USING (epoch) WHERE a.run_id = 1 AND b.run_id = 2 AND epoch > 0",
		   "3,1,1,1\r\n");
}
END_TEST

/* ---- What is recorded ------------------------------------------------------------ */

START_TEST(what_ran_is_recorded)
{
	char out[OUTPUT];
	int status = run_mvbench("",
				 "--workload=mlp --mlp.hidden=8 --strategy=allreduce --workers=2 "
				 "--batch=8 --epochs=1 --device=cuda --precision=tf32",
				 out, sizeof out);
	ck_assert_msg(status == 0, "status %d: %s", status, out);
	ck_assert_msg(strstr(out, "for parameters"), "says nothing of memory: %s", out);
	expect_row("SELECT device, precision, transport IN ('ipc', 'nccl'), gpu IS NOT NULL, "
		   "driver IS NOT NULL, cuda LIKE '%CUDA%cuDNN%', (SELECT config FROM run_summary) "
		   "FROM run",
		   "cuda,tf32,1,1,1,1,allreduce 2w cuda tf32\r\n");
}
END_TEST

/* Also where a layer turns to floats in the middle of its first backward pass. */
START_TEST(bf16_learns_the_same)
{
	if (_i)
		setenv("FAKE_CUDA_FILTER_CHANNELS", "8", 1);
	const char *how = "--workload=lenet --strategy=serial --batch=8 --epochs=2 --lr=0.01";
	struct result gpu = run_tool(1, words("%s --device=cuda --precision=bf16", how));
	struct result cpu = run_tool(1, words("%s --device=cpu", how));
	ck_assert_msg(gpu.status == 0 && cpu.status == 0, "%s\n%s", gpu.output, cpu.output);
	double d = distance(&gpu, &cpu);
	ck_assert_msg(d > 1e-6 && d < 0.02, "%g apart", d);
	ck_assert_double_le(fabs(gpu.test_loss - cpu.test_loss), 0.05 * cpu.test_loss);
	free(gpu.param);
	free(cpu.param);
}
END_TEST

/* ---- What is refused; failures ----------------------------------------------------- */

#define SMALL "--workload=mlp --mlp.hidden=8 --batch=8 --epochs=1 --device=cuda "

static const struct {
	const char *environment, *words, *what;
} refused[] = {
	{"FAKE_CUDA_DEVICES=0", SMALL, "finds no GPU"},
	{"FAKE_CUDA_DRIVER=11080", SMALL, "driver"},
	{"FAKE_CUDA_MEMORY=1500000000", "--workload=lenet --batch=4096 --device=cuda", "would fit"},
	{"FAKE_CUDA_MEMORY=2000000000",
	 "--workload=lenet --device=cuda --strategy=asgd --workers=8 --batch=64", "--workers="},
	{"FAKE_CUDA_MEMORY=1000000", SMALL, "use --device=cpu"},
	{"", "--workload=mlp --device=cpu --precision=bf16", "--precision=bf16"},
	{"", "--workload=mlp --device=cpu --transport=ipc", "--transport=ipc"},
	{"", SMALL "--strategy=model_parallel --workers=2 --precision=bf16", "tf32"},
	{"", "--workload=mlp --device=cpu --strategy=asgd --table-home=gpu", "--table-home=gpu"},
};

START_TEST(what_cannot_run_is_refused)
{
	expect_refused(refused[_i].environment, refused[_i].words, refused[_i].what);
}
END_TEST

/* What a refusal says would fit, fits. */
START_TEST(the_batch_that_is_advised_fits)
{
	char out[OUTPUT];
	const char *environment = "FAKE_CUDA_MEMORY=1500000000";
	long long batch = 0;
	run_mvbench(environment, "--workload=lenet --batch=4096 --device=cuda", out, sizeof out);
	const char *advice = strstr(out, "; --batch=");
	ck_assert_msg(advice && sscanf(advice, "; --batch=%lld", &batch) == 1 && batch > 0, "%s",
		      out);
	char *dry = sentence("--workload=lenet --batch=%lld --device=cuda --dry-run", batch);
	ck_assert_int_eq(run_mvbench(environment, dry, out, sizeof out), 0);
	free(dry);
}
END_TEST

START_TEST(auto_takes_the_gpu_if_there_is_one)
{
	char out[OUTPUT];
	run_mvbench("", "--workload=mlp --device=auto --dry-run", out, sizeof out);
	ck_assert_msg(strstr(out, "device used              cuda"), "%s", out);
	run_mvbench("FAKE_CUDA_DEVICES=0", "--workload=mlp --device=auto --dry-run", out,
		    sizeof out);
	ck_assert_msg(strstr(out, "device used              cpu"), "%s", out);
}
END_TEST

START_TEST(a_gpu_that_fails_ends_the_run)
{
	char out[OUTPUT];
	char *how =
		sentence(SMALL "--strategy=%s --workers=%d", _i == 1 ? "serial" : "allreduce", _i);
	int status = run_mvbench("FAKE_CUDA_FAIL=60", how, out, sizeof out);
	ck_assert_msg(status == 1 && strstr(out, "GPU 0"), "status %d: %s", status, out);
	expect_row("SELECT status, reason LIKE '%GPU 0%' FROM run", "failed,1\r\n");
	free(how);
}
END_TEST

Suite *gpu_suite(void)
{
	Suite *s = suite_create("gpu");
	if (!have_gpu()) {
		skipped("suite gpu: there is no nvcc, so the emulated GPU was not built");
		return s;
	}
	TCase *t = tcase_create("gpu");
	tcase_set_timeout(t, 240);
	tcase_add_checked_fixture(t, make_data, folder_free);
	tcase_add_loop_test(t, a_gpu_trains_what_the_cpu_trains, 0, COUNT(same));
	tcase_add_test(t, steps_in_graphs_are_the_cpus);
	tcase_add_test(t, what_ran_is_recorded);
	tcase_add_loop_test(t, bf16_learns_the_same, 0, 2);
	if (!on_real_gpu()) {
		tcase_add_loop_test(t, what_cannot_run_is_refused, 0, COUNT(refused));
		tcase_add_test(t, the_batch_that_is_advised_fits);
		tcase_add_test(t, auto_takes_the_gpu_if_there_is_one);
		tcase_add_loop_test(t, a_gpu_that_fails_ends_the_run, 1, 3);
	}
	suite_add_tcase(s, t);
	return s;
}
