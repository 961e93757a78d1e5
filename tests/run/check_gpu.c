/*
 * check_gpu.c - the program on GPUs, from outside: equal results, what is recorded, what is
 * refused, and how the failure of a GPU ends a run.
 *
 * The tests run on tests/fake_cuda, which emulates CUDA on the processor, if nvcc was there to
 * build it. With MVBENCH_GPU_TEST=1 they run on the machine's own GPU, except tests that need
 * settings of the fake.
 */
#include "runtime/device/cuda/cuda.h"
#include "tests/suites.h"
#include "tests/trained.h"

#include <dlfcn.h>
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
	/* messages that the GPU makes, and those for which vectors go to the host and back */
	{2, "--workload=lenet --strategy=allreduce --batch=8 --epochs=1 --lr=0.01 --codec=int8",
	 1e-3},
	{2,
	 "--workload=lenet --strategy=periodic --sync-every=2 --batch=8 --epochs=1 --lr=0.01 "
	 "--codec=bf16",
	 1e-3},
	{2,
	 "--workload=lenet --strategy=allreduce --allreduce.overlap=true --allreduce.bucket=64KiB "
	 "--batch=8 --epochs=1 --lr=0.01 --codec=fp16",
	 1e-3},
	{2, "--workload=lenet --strategy=allreduce --batch=8 --epochs=1 --lr=0.01 --codec=sign",
	 1e-2},
	{2,
	 "--workload=lenet --strategy=periodic --sync-every=2 --batch=8 --epochs=1 --lr=0.01 "
	 "--codec=randomk:share=0.1",
	 1e-3},
	{2,
	 "--workload=lenet --strategy=allreduce --batch=8 --epochs=1 --lr=0.01 "
	 "--codec=topk:share=0.1",
	 1e-2},
	{2, "--workload=lenet --strategy=allreduce --batch=8 --epochs=1 --lr=0.01 --codec=qsgd",
	 1e-2},
};

CASE("gpu", .limit = 240, .set_up = make_data, .tear_down = folder_free,
     .lacks = have_gpu() ? NULL : "there is no nvcc, so the emulated GPU was not built");

TEST(gpu_trains_the_same_as_the_cpu, COUNT(same))
{
	struct result gpu = run_tool(same[_i].ranks, words("%s --device=cuda", same[_i].words));
	struct result cpu = run_tool(same[_i].ranks, words("%s --device=cpu", same[_i].words));
	ck_assert_msg(gpu.status == 0, "%s: status %d\n%s", same[_i].words, gpu.status, gpu.output);
	ck_assert_msg(cpu.status == 0, "%s: status %d\n%s", same[_i].words, cpu.status, cpu.output);
	double d = distance(&gpu, &cpu);
	ck_assert_msg(d > 0 && d <= same[_i].tolerance, "%s: %g apart, allowed %g", same[_i].words,
		      d, same[_i].tolerance);
}

/* Over all workers and steps, what was given is what was summed and what the GPUs keep. */
TEST(feedback_on_gpus_loses_nothing, 4)
{
	static const char *const codec[] = {"int8", "sign", "randomk:share=0.1", "topk:share=0.1"};
	double off, size, kept;
	setenv("MVBENCH_PROBE", "coded", 1);
	struct result r = run_tool(2, words("--workload=lenet --strategy=allreduce --batch=8 "
					    "--epochs=1 --lr=0.01 --device=cuda --codec=%s "
					    "--codec.feedback=true",
					    codec[_i]));
	unsetenv("MVBENCH_PROBE");
	const char *line = strstr(r.output, "ledger ");
	ck_assert_msg(r.status == 0 && line, "%s: status %d\n%s", codec[_i], r.status, r.output);
	ck_assert_int_eq(sscanf(line, "ledger %lf of %lf kept %lf", &off, &size, &kept), 3);
	ck_assert_msg(off <= 1e-5 * size, "%s: %g of %g is lost", codec[_i], off, size);
	ck_assert_msg(kept > 0, "%s: nothing is kept", codec[_i]);
}

/* The whole step is a graph here. (tools/train looks at every step, so there each step is called.)
 * Each step sees its own learning rate, which falls all the time, its own dropout, and the number
 * of steps before it. */
TEST(steps_in_graphs_equal_the_cpus, 3)
{
	static const char *const device[] = {"cpu", "cuda"};
	static const char *const optimizer[] = {
		"--lr=0.02", "--lr=0.002 --optimizer=adamw --adamw.eps=1e-3 --clip=0.5",
		"--lr=0.01 --optimizer=muon --muon.eps=1e-3 --weight-decay=0.1"};
	char out[OUTPUT];
	for (int i = 0; i < 2; i++) {
		char *how AUTOFREE =
			sentence("--workload=lenet --lenet.dropout=0.5 --strategy=serial "
				 "--batch=7 --epochs=3 --lr-schedule=cosine %s --device=%s",
				 optimizer[_i], device[i]);
		ck_assert_msg(run_mvbench("", how, out, sizeof out) == 0, "%s", out);
	}
	expect_row("SELECT count(b.running_loss), "
		   "max(abs(a.test_loss - b.test_loss) / a.test_loss) < 1e-3, "
		   "max(abs(a.running_loss - b.running_loss) / a.running_loss) < 1e-3, "
		   "max(a.test_loss <> b.test_loss) FROM epoch AS a JOIN epoch AS b "
		   "USING (epoch) WHERE a.run_id = 1 AND b.run_id = 2 AND epoch > 0",
		   "3,1,1,1\r\n");
}

/* Switches of the program, and a library that makes a call which cannot be captured. */
TEST(model_is_the_same_without_graphs_or_branch, 2)
{
	static const char *const precision[] = {"float32", "bf16"},
				 *const how[] = {"",
						 "MVBENCH_CUDA_GRAPHS=0",
						 "MVBENCH_CUDA_BRANCH=0",
						 "MVBENCH_CUDA_TOGETHER=0",
						 "MVBENCH_CUDA_EARLY=0",
						 "FAKE_CUDA_UNCAPTURABLE=1"};
	for (int i = 0; i < (int)COUNT(how) - on_real_gpu(); i++) {
		char out[OUTPUT];
		int status = run_mvbench(how[i],
					 words("--workload=lenet --strategy=allreduce --workers=2 "
					       "--allreduce.overlap=true --allreduce.bucket=64KiB "
					       "--batch=8 --epochs=1 --lr=0.01 --device=cuda "
					       "--precision=%s",
					       precision[_i]),
					 out, sizeof out);
		ck_assert_msg(status == 0, "%s: status %d: %s", how[i], status, out);
		ck_assert_msg((i == 5) == (strstr(out, "launched one by one") != NULL), "%s", out);
	}
	expect_row("SELECT count(DISTINCT model_hash), min(status) FROM run", "1,done\r\n");
}

/* Nodes in the graph of a step; 0: there is no graph. */
static int nodes_of_a_step(const char *environment, const char *how)
{
	char out[4 * OUTPUT];
	int status = run_mvbench(words("FAKE_CUDA_NODES=1 %s", environment), how, out, sizeof out);
	ck_assert_msg(status == 0, "status %d: %s", status, out);
	int most = 0; /* graphs that measure algorithms are smaller */
	for (const char *says = "a graph of ", *at = out; (at = strstr(at, says));) {
		const int nodes = atoi(at += strlen(says));
		most = nodes > most ? nodes : most;
	}
	return most;
}

/* One launch for all copies of weights, and one for all gradients. ResNet-20 has 19 convolutions.
 */
TEST(weights_are_copied_together, on_real_gpu() ? 0 : 1)
{
	const char *how = "--workload=resnet --resnet.depth=20 --strategy=serial --batch=16 "
			  "--epochs=1 --device=cuda --precision=bf16";
	int together = nodes_of_a_step("", how),
	    alone = nodes_of_a_step("MVBENCH_CUDA_TOGETHER=0", how);
	ck_assert_msg(together > 0 && alone - together == 2 * (19 - 1), "%d nodes, %d alone",
		      together, alone);
}

/* LeNet has 4 layers with parameters: one bucket has one mark, four have four. */
TEST(only_ends_of_buckets_are_marked, on_real_gpu() ? 0 : 1)
{
	const char *how = "--workload=lenet --strategy=allreduce --workers=2 --batch=8 --epochs=1 "
			  "--device=cuda --allreduce.overlap=true --allreduce.bucket=%s";
	int one = nodes_of_a_step("", words(how, "1GiB")),
	    four = nodes_of_a_step("", words(how, "1"));
	ck_assert_msg(one > 0 && four - one == 4 - 1, "%d nodes, %d with four buckets", one, four);
}

/* ---- Chosen algorithms are kept ------------------------------------------ */

#define LENET2 \
	"--workload=lenet --strategy=allreduce --workers=2 --batch=8 --epochs=1 --device=cuda"

/* A run that keeps its choices beside the database: how many were tried, and how many were
 * found. */
static void count_choices(const char *how, int *tried, int *found)
{
	char out[4 * OUTPUT];
	int status = run_mvbench(
		words("MVBENCH_CUDA_CACHE=%s MVBENCH_CUDA_VERBOSE=1 MVBENCH_CUDA_OWN=", folder),
		how, out, sizeof out);
	ck_assert_msg(status == 0, "status %d: %s", status, out);
	*tried = *found = 0;
	for (const char *at = out; (at = strstr(at, " us when tried")); at++)
		++*tried;
	for (const char *at = out; (at = strstr(at, " bytes, kept")); at++)
		++*found;
}

/* The number that a command prints, in the folder of the choices. */
static int lines_of(const char *command)
{
	char text[64];
	ck_assert_int_eq(command_output(words("cd %s && %s", folder, command), text, sizeof text),
			 0);
	return atoi(text);
}

TEST(chosen_algorithms_are_kept)
{
	int tried, found, all;
	count_choices(LENET2, &tried, &found);
	all = tried;
	/* two workers: one tried each algorithm, the other found it */
	ck_assert_msg(tried > 0 && found == tried, "%d tried, %d found", tried, found);
	ck_assert_int_eq(lines_of("wc -l <algorithms"), all);
	ck_assert_int_eq(lines_of("cut -f1-5 algorithms | sort -u | wc -l"), all);
	count_choices(LENET2, &tried, &found);
	ck_assert_msg(tried == 0 && found == 2 * all, "%d tried again", tried);
	expect_row("SELECT count(DISTINCT model_hash) FROM run", "1\r\n");
	count_choices(LENET2 " --precision=tf32", &tried, &found);
	ck_assert_int_eq(tried, all);
	/* an algorithm that cuDNN refuses, and half a line: both are ignored */
	ck_assert_int_eq(lines_of("sed -i 's/algorithm [0-9]*/algorithm 77/' algorithms; "
				  "printf 'Fake GPU\t' >>algorithms; echo 0"),
			 0);
	count_choices(LENET2, &tried, &found);
	ck_assert_int_eq(tried, all);
	ck_assert_int_eq(lines_of("grep -c . algorithms"), 2 * all);
	ck_assert_int_eq(lines_of("ls -A | grep -c part || true"), 0);
}

/* The fastest deterministic algorithm is chosen, measured with the units that the precision uses;
 * in float32 these do not round. Shapes for rounding units are padded. Algorithm 100 is our own. */
TEST(fastest_algorithms_are_chosen, on_real_gpu() ? 0 : 10)
{
	static const struct {
		const char *environment, *precision, *direction, *shape, *line;
	} row[] = {
		{"", "float32", "forward", "28x28x1 to", "algorithm 1 math 3"},
		{"FAKE_CUDA_ROUNDS=1", "float32", "forward", "28x28x1 to", "algorithm 1 math 3"},
		{"FAKE_CUDA_ROUNDS=1", "tf32", "forward", "28x28x4 to", "algorithm 1 math 0"},
		{"MVBENCH_CUDA_PAD=0", "tf32", "forward", "28x28x1 to", "algorithm 1 math 0"},
		{"", "bf16", "forward", "28x28x8 to", "algorithm 1 math 1"},
		{"FAKE_CUDA_SLOW=0", "float32", "forward", "28x28x1 to", "algorithm 0 math 3"},
		{"", "tf32", "backward weight", "14x14x32 to", "algorithm 1 math 0"},
		{"FAKE_CUDA_SLOW=1", "tf32", "backward weight", "14x14x32 to",
		 "algorithm 1 math 0"},
		{"MVBENCH_CUDA_OWN= FAKE_CUDA_SLOW=1", "tf32", "backward weight", "14x14x32 to",
		 "algorithm 100"},
		{"MVBENCH_CUDA_OWN=1", "tf32", "backward weight", "14x14x32 to", "algorithm 100"}};
	char out[4 * OUTPUT];
	int status = run_mvbench(
		words("MVBENCH_CUDA_VERBOSE=1 %s", row[_i].environment),
		words("--workload=lenet --strategy=serial --batch=8 --epochs=1 --device=cuda "
		      "--precision=%s",
		      row[_i].precision),
		out, sizeof out);
	const char *at = strstr(out, words("\t%s\t8 x %s", row[_i].direction, row[_i].shape));
	ck_assert_msg(status == 0 && at, "status %d: %s", status, out);
	const char *line = strstr(at, "algorithm");
	ck_assert_msg(strncmp(line, row[_i].line, strlen(row[_i].line)) == 0, "%.40s", line);
}

/* ---- What is recorded ------------------------------------------------------------ */

/* Paced workers sleep most of the time. With a hostfile, the ranks tell each other
 * which GPU they use. */
TEST(sharing_of_a_gpu_is_recorded, on_real_gpu() ? 0 : 5)
{
	static const struct {
		const char *environment, *options, *says, *want;
	} row[] = {{"FAKE_CUDA_MPS=0", "--step-time=0", "share 1 GPU in turns",
		    "1; 1 GPU, 2 workers a GPU; 2"},
		   {"FAKE_CUDA_MPS=1", "--step-time=0", "share 1 GPU under MPS",
		    "1; 1 GPU, 2 workers a GPU, MPS; 2"},
		   {"FAKE_CUDA_DEVICES=2", "--step-time=0", NULL, "0; 2 GPUs, 1 worker a GPU; 2"},
		   {"FAKE_CUDA_MPS=0", "--step-time=1ms", NULL, "0; 1 GPU, 2 workers a GPU; 2"},
		   {"FAKE_CUDA_MPS=0", "--step-time=1ms --hostfile=%s/hosts", NULL,
		    "0; 1 GPU, 2 workers a GPU; 2"}};
	char out[OUTPUT];
	char host[256], *hosts AUTOFREE = NULL;
	ck_assert_int_eq(gethostname(host, sizeof host), 0);
	hosts = sentence("%s slots=2\n", host);
	folder_text("hosts", hosts);
	char *options AUTOFREE = must(strdup(words(row[_i].options, folder)));
	char *line AUTOFREE = sentence("--workload=mlp --mlp.hidden=8 --strategy=allreduce "
				       "--workers=2 --batch=8 --epochs=1 --device=cuda %s",
				       options);
	int status = run_mvbench(row[_i].environment, line, out, sizeof out);
	ck_assert_msg(status == 0, "status %d: %s", status, out);
	ck_assert_msg(row[_i].says ? !!strstr(out, row[_i].says)
				   : !strstr(out, "share 1 GPU") && !strstr(out, "share 2 GPU") &&
					     !strstr(out, "share a GPU"),
		      "%s", out);
	expect_row("SELECT (oversubscribed AND NOT run.workers > run.cores) || substr(libraries, "
		   "instr(libraries, ';')) || '; ' || count(*) FROM run JOIN rank "
		   "ON run_id = run.id GROUP BY libraries",
		   words("\"%s\"\r\n", row[_i].want));
}

/* The user's launcher may let each worker see only one GPU: its own, or one that they share. */
TEST(gpus_of_the_users_launcher_are_told_apart, on_real_gpu() ? 0 : 2)
{
	static const char *const want[] = {"0; 2 GPUs, 1 worker a GPU",
					   "1; 1 GPU, 2 workers a GPU"};
	char out[OUTPUT];
	const char *run = words("./mvbench run --workload=mlp --mlp.hidden=8 --strategy=allreduce "
				"--workers=2 --batch=8 --epochs=1 --device=cuda --data-dir=%s "
				"--db=%s/run.db",
				folder, folder);
	char *both AUTOFREE =
		sentence("%s1 env FAKE_CUDA_FIRST=0 %s : -n 1 env FAKE_CUDA_FIRST=%d %s 2>&1",
			 MPIRUN, run, 1 - _i, run);
	int status = command_output(both, out, sizeof out);
	ck_assert_msg(status == 0, "%s: status %d: %s", both, status, out);
	ck_assert_msg(!strstr(out, "share a GPU") == !_i, "%s", out);
	expect_row("SELECT DISTINCT (oversubscribed AND NOT run.workers > run.cores) || "
		   "substr(libraries, instr(libraries, ';')) FROM run JOIN rank ON run_id = run.id",
		   words("\"%s\"\r\n", want[_i]));
}

/* Each worker starts CUDA on its own GPU alone. A child of the launcher, which reads the sizes of
 * memory, starts it on each. */
TEST(each_worker_starts_cuda_once, on_real_gpu() ? 0 : 1)
{
	char out[OUTPUT];
	int status = run_mvbench(
		words("FAKE_CUDA_DEVICES=2 FAKE_CUDA_STARTS=%s/starts", folder),
		"--workload=mlp --mlp.hidden=8 --strategy=allreduce --workers=2 --batch=8 "
		"--epochs=1 --device=cuda",
		out, sizeof out);
	ck_assert_msg(status == 0, "status %d: %s", status, out);
	ck_assert_int_eq(lines_of("cut -d' ' -f1 starts | sort -u | wc -l"), 1 + 2);
	ck_assert_int_eq(lines_of("wc -l <starts"), 2 + 2);
	expect_row("SELECT gpu, driver IS NOT NULL, cuda LIKE '%CUDA%' FROM run",
		   "Fake GPU,1,1\r\n");
}

TEST(device_and_libraries_are_recorded)
{
	char out[OUTPUT];
	int status = run_mvbench("",
				 "--workload=mlp --mlp.hidden=8 --strategy=allreduce --workers=2 "
				 "--batch=8 --epochs=1 --device=cuda --precision=tf32",
				 out, sizeof out);
	ck_assert_msg(status == 0, "status %d: %s", status, out);
	ck_assert_msg(strstr(out, "for parameters"), "no line about memory: %s", out);
	expect_row("SELECT device, precision, transport IN ('ipc', 'nccl'), gpu IS NOT NULL, "
		   "driver IS NOT NULL, cuda LIKE '%CUDA%cuDNN%', (SELECT config FROM run_summary) "
		   "FROM run",
		   "cuda,tf32,1,1,1,1,allreduce 2w cuda tf32\r\n");
}

/* Also if a layer changes to floats in the middle of its first backward pass. */
TEST(bf16_learns_the_same, 2)
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
}

/* ---- The scripts of the first day -------------------------------------------------- */

TEST(scripts_without_a_gpu_are_skipped, on_real_gpu() ? 0 : 1)
{
	char out[OUTPUT];
	char *scripts AUTOFREE = installed_path("tests/gpu_day");
	char *all AUTOFREE = sentence(
		"cd %s && printf '#!/bin/sh\nexit 9\n' >nvidia-smi && chmod +x "
		"nvidia-smi && for s in %s/[1-9]*_*.sh; do PATH=$PWD:/usr/bin:/bin OUT=%s/out "
		"bash $s >said 2>&1; echo $?; grep -c 'skipped: no GPU' said; done | "
		"sort | uniq -c | tr -s ' \n' ' ' >counts; n=$(ls %s/[1-9]*_*.sh | wc -l); "
		"grep -q \"^ $n 1 $n 77 $\" counts && ls; cat counts",
		folder, scripts, folder, scripts);
	command_output(all, out, sizeof out);
	ck_assert_msg(strstr(out, "nvidia-smi\n") && !strstr(out, "out\n"), "%s", out);
}

static const struct {
	const char *name;
	int commands;
} limited[] = {{"5_sweep", 1}, {"10_diloco", 12}, {"11_muloco", 12}};

/* A page says how many commands its script left out. */
TEST(script_at_its_time_limit_counts_what_it_leaves_out, on_real_gpu() ? 0 : COUNT(limited))
{
	char out[OUTPUT];
	const char *name = limited[_i].name;
	char *scripts AUTOFREE = installed_path("tests/gpu_day");
	char *command AUTOFREE =
		sentence("b=$PWD && cd %s && mkdir -p bundle/bin && ln -s $b/mvbench bundle/bin && "
			 "printf '#!/bin/sh\\necho A GPU, 1, 2 MiB\\n' >bundle/bin/nvidia-smi && "
			 "chmod +x bundle/bin/nvidia-smi && PATH=$PWD/bundle/bin:$PATH LIMIT=1 "
			 "BUNDLE=$PWD/bundle LOGS=$PWD/logs OUT=$PWD/out bash %s/%s.sh 2>&1; "
			 "cat out/%s.md && tar tzf out/%s.tgz",
			 folder, scripts, name, name, name);
	char *left AUTOFREE =
			   sentence(" of at most 1; commands left out: %d\n", limited[_i].commands),
		   *file AUTOFREE = sentence("%s/left_out", name);
	int status = command_output(command, out, sizeof out);
	ck_assert_msg(status == 0 && strstr(out, "1 x A GPU, 1, 2 MiB") && strstr(out, left) &&
			      strstr(out, file),
		      "status %d: %s", status, out);
}

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

TEST(impossible_gpu_runs_are_refused, on_real_gpu() ? 0 : COUNT(refused))
{
	expect_refused(refused[_i].environment, refused[_i].words, refused[_i].what);
}

/* The batch that a refusal suggests fits. */
TEST(suggested_batch_fits, on_real_gpu() ? 0 : 1)
{
	char out[OUTPUT];
	const char *environment = "FAKE_CUDA_MEMORY=1500000000";
	long long batch = 0;
	run_mvbench(environment, "--workload=lenet --batch=4096 --device=cuda", out, sizeof out);
	const char *advice = strstr(out, "; --batch=");
	ck_assert_msg(advice && sscanf(advice, "; --batch=%lld", &batch) == 1 && batch > 0, "%s",
		      out);
	char *dry AUTOFREE =
		sentence("--workload=lenet --batch=%lld --device=cuda --dry-run", batch);
	ck_assert_int_eq(run_mvbench(environment, dry, out, sizeof out), 0);
}

TEST(device_auto_takes_the_gpu_if_there_is_one, on_real_gpu() ? 0 : 1)
{
	char out[OUTPUT];
	run_mvbench("", "--workload=mlp --device=auto --dry-run", out, sizeof out);
	ck_assert_msg(strstr(out, "device used              cuda"), "%s", out);
	run_mvbench("FAKE_CUDA_DEVICES=0", "--workload=mlp --device=auto --dry-run", out,
		    sizeof out);
	ck_assert_msg(strstr(out, "device used              cpu"), "%s", out);
}

TEST(failing_gpu_ends_the_run, 1, on_real_gpu() ? 1 : 3)
{
	char out[OUTPUT];
	char *how AUTOFREE =
		sentence(SMALL "--strategy=%s --workers=%d", _i == 1 ? "serial" : "allreduce", _i);
	int status = run_mvbench("FAKE_CUDA_FAIL=60", how, out, sizeof out);
	ck_assert_msg(status == 1 && strstr(out, "GPU 0"), "status %d: %s", status, out);
	expect_row("SELECT status, reason LIKE '%GPU 0%' FROM run", "failed,1\r\n");
}

/* The module that the tests use refuses a program with other updaters. */
TEST(module_of_another_build_is_refused)
{
	mvbench_cuda_fn *entry;
	char *whole AUTOFREE = realpath(gpu_module(), NULL);
	ck_assert_msg(whole != NULL, "%s is not here", gpu_module());
	void *module = dlopen(whole, RTLD_NOW | RTLD_LOCAL);
	ck_assert_msg(module != NULL, "%s", dlerror());
	void *symbol = dlsym(module, "mvbench_cuda");
	ck_assert_ptr_nonnull(symbol);
	memcpy(&entry, &symbol, sizeof entry);
	ck_assert_ptr_null(entry(cuda_build() + 1, false));
	ck_assert_ptr_nonnull(entry(cuda_build(), false));
}
