/*
 * check_transport.c - GPU vectors between workers: every transport delivers what it is given, every
 * strategy trains with it the same as on the CPU, tables in a GPU's memory hold what was pushed,
 * and unavailable transports are refused.
 *
 * The tests run on tests/fake_cuda, which emulates CUDA on the processor, if it was built. It
 * reveals missing waits, because it does work only when something waits for it. With
 * MVBENCH_GPU_TEST=1 the tests that need one GPU run on the machine's first.
 */
#include "results/gate/gate.h"
#include "tests/suites.h"
#include "tests/trained.h"

#include <stdlib.h>
#include <string.h>

#define MLP \
	"--workload=mlp --mlp.hidden=8 --lr=0.1 --lr-schedule=constant --momentum=0.5 " \
	"--weight-decay=1e-3 "

/* The variable that set_up changes. The runner has this environment, and other suites follow. */
static const char *variable(void)
{
	return on_real_gpu() ? "CUDA_VISIBLE_DEVICES" : "MVBENCH_CUDA";
}

static char *before;

static void set_up(void)
{
	const char *value = getenv(variable());
	folder_new();
	idx_put_set(192, 32, false, '-');
	before = value ? must(strdup(value)) : NULL;
	use_gpu();
	if (on_real_gpu())
		setenv(variable(), "0", 1);
}

static void tear_down(void)
{
	before ? setenv(variable(), before, 1) : unsetenv(variable());
	free(before);
	folder_free();
}

/* Can there be this many GPUs? */
static bool can_have(int gpus)
{
	return gpus == 1 || !on_real_gpu();
}

static const struct {
	const char *name;
	int gpus;
} transport[] = {{"ipc", 1}, {"auto", 1}, {"ipc", 2}, {"nccl", 4}, {"staged", 1}, {"auto", 4}};

/* The tool prints "ok" and nothing else. */
static void expect_ok(int gpus, int ranks, const char *tool)
{
	char text[2048];
	char *command AUTOFREE =
		sentence("FAKE_CUDA_DEVICES=%d " MPIRUN "%d ./tests/%s 2>&1", gpus, ranks, tool);
	int status = command_output(command, text, sizeof text);
	ck_assert_msg(status == 0 && strcmp(text, "ok\n") == 0, "%s: status %d\n%s", command,
		      status, text);
}

/* ---- Transports --------------------------------------------------------------- */

CASE("transport", .limit = 120, .set_up = set_up, .tear_down = tear_down, .once = true,
     .lacks = have_gpu() ? NULL : "there is no nvcc, so the emulated GPU was not built");

TEST(gpu_communication_delivers_correct_results, COUNT(transport))
{
	int ranks = 2 + _i / 2 % 2;
	if (!can_have(transport[_i].gpus))
		return;
	expect_ok(transport[_i].gpus, ranks, words("tools/comm %d %s", ranks, transport[_i].name));
}

/* ---- Strategies ---------------------------------------------------------------- */

static void run_on_gpus(int gpus, int ranks, size_t n, const char *const *how, struct result *r)
{
	char *count AUTOFREE = sentence("%d", gpus);
	setenv("FAKE_CUDA_DEVICES", count, 1);
	train_all(ranks, n, how, r);
	unsetenv("FAKE_CUDA_DEVICES");
}

static void expect_near(const char *how, const struct result *gpu, const struct result *cpu,
			double allowed)
{
	double d = distance(gpu, cpu);
	ck_assert_msg(d <= allowed, "%s: %g away from the CPU, allowed %g", how, d, allowed);
	ck_assert_msg(cpu->test_loss < 0.99 * cpu->first_test_loss,
		      "%s learns nothing: %g, at first %g", how, cpu->test_loss,
		      cpu->first_test_loss);
	ck_assert_msg(gpu->bytes == cpu->bytes && gpu->pushes == cpu->pushes,
		      "%s: %g bytes and %g pushes, on the CPU %g and %g", how, gpu->bytes,
		      gpu->pushes, cpu->bytes, cpu->pushes);
}

/* Asynchronous strategies exchange at the end of epochs only, because elsewhere the order of
 * arrival decides. It matters there too for elastic moves, but little, because the workers are
 * close to each other. */
TEST(strategies_on_gpus_train_the_same_as_on_the_cpu, LISTED(strategies))
{
	const struct strategy *s = strategies[_i];
	const char *name = s->plugin.name;
	if (strcmp(name, "serial") == 0)
		return;
	int ranks = strcmp(name, "hybrid") == 0 ? 4 : 3;
	/* two runs of easgd on the CPU differed by up to 0.04; adpsgd moves models in the same way
	 */
	bool elastic = strcmp(name, "easgd") == 0 || strcmp(name, "adpsgd") == 0;
	double allowed = elastic ? 0.1 : 1e-5;
	const char *how = words(MLP "--epochs=2 --batch=%d --strategy=%s %s", 24 / ranks, name,
				arrival_decides(s) ? "--deal=static --sync-every=8" : "");
	const char *with[1 + COUNT(transport)] = {words("%s --device=cpu", how)};
	struct result r[1 + COUNT(transport)];
	size_t n = 1;
	/* with one GPU all runs share a start, with several each has its own; strategies with
	 * tables use one transport only */
	for (size_t i = 0; i < COUNT(transport); i++) {
		if (strcmp(transport[i].name, "auto") == 0 || transport[i].gpus > 1)
			continue;
		with[n++] = words("%s --device=cuda --transport=%s", how, transport[i].name);
		if (s->terms)
			break;
	}
	run_on_gpus(1, ranks, n, with, r);
	for (size_t i = 0; i < COUNT(transport) && !s->terms; i++) {
		if (strcmp(transport[i].name, "auto") == 0 || transport[i].gpus <= 2 ||
		    !can_have(transport[i].gpus))
			continue;
		with[n] = words("%s --device=cuda --transport=%s", how, transport[i].name);
		run_on_gpus(transport[i].gpus, ranks, 1, &with[n], &r[n]);
		n++;
	}
	for (size_t i = 1; i < n; i++)
		expect_near(with[i], &r[i], &r[0], allowed);
}

static const struct {
	int ranks;
	const char *words;
} more[] = {
	/* buckets that are sent while the layers below compute */
	{2,
	 "--strategy=allreduce --allreduce.overlap=true --allreduce.bucket=64 --transport=staged"},
	{2, "--strategy=allreduce --allreduce.overlap=true --allreduce.bucket=64 --transport=ipc"},
	/* without a barrier between the epochs */
	{2, "--strategy=allreduce --barrier-every=0"},
	{2, "--strategy=bsp --barrier-every=0"},
	/* pushes of gradients, and one client that has a table nevertheless */
	{2, "--strategy=bsp --bsp.updater=sgd --sync-every=3"},
	{1, "--strategy=bsp --bsp.updater=momentum"},
	{2, "--strategy=ssp --ssp.bound=0 --ssp.updater=sgd"},
	{1, "--strategy=asgd --asgd.updater=dcasgda"},
	{1, "--strategy=downpour --downpour.send=2 --sync-every=3"},
	{1, "--strategy=easgd --sync-every=3"},
	/* tables in another memory, through pinned memory */
	{2, "--strategy=bsp --table-home=shared --bsp.updater=sgd"},
	{2, "--strategy=bsp --table-home=onesided"},
	{3, "--strategy=bsp --workers=2 --servers=1 --bsp.updater=sgd"},
	{1, "--strategy=easgd --table-home=shared"},
	/* fewer rows in the last step than workers */
	{2, "--strategy=allreduce --allreduce.overlap=true --allreduce.bucket=64 --batch=191"},
};

TEST(options_on_gpus_train_the_same_as_on_the_cpu, COUNT(more))
{
	const char *transport_at = strstr(more[_i].words, "--transport=");
	int n = transport_at ? (int)(transport_at - more[_i].words) : 512;
	const char *same = MLP "--epochs=2 --batch=12";
	const char *how[] = {words("%s %s --device=cuda", same, more[_i].words),
			     words("%s %.*s --device=cpu", same, n, more[_i].words)};
	struct result r[2];
	run_on_gpus(1, more[_i].ranks, 2, how, r);
	expect_near(more[_i].words, &r[0], &r[1], 1e-5);
}

/* NCCL sums buckets while the layers below compute. */
TEST(overlapped_nccl_trains_the_same_as_the_cpu, can_have(2))
{
	const char *same = MLP "--epochs=2 --batch=12 --strategy=allreduce "
			       "--allreduce.overlap=true --allreduce.bucket=64";
	const char *how[] = {words("%s --device=cuda --transport=nccl", same),
			     words("%s --device=cpu", same)};
	struct result r[2];
	run_on_gpus(2, 2, 2, how, r);
	expect_near("nccl", &r[0], &r[1], 1e-5);
}

/* ---- Tables in a GPU's memory ----------------------------------------------------- */

TEST(gpu_tables_hold_what_was_pushed)
{
	expect_ok(1, 3, "tools/table gpu 0");
}

/* ---- What is chosen, recorded and refused -------------------------------- */

#define SMALL "--workload=mlp --mlp.hidden=8 --batch=16 --epochs=1 --device=cuda "

static const struct {
	int gpus;
	const char *words, *sql, *says;
} chosen[] = {
	{1, "--strategy=allreduce --workers=2", "SELECT transport FROM run", "ipc\r\n"},
	{2, "--strategy=allreduce --workers=2", "SELECT transport FROM run", "nccl\r\n"},
	{2, "--strategy=allreduce --workers=3", "SELECT transport FROM run", "ipc\r\n"},
	{1, "--strategy=serial", "SELECT transport IS NULL FROM run", "1\r\n"},
	{1, "--strategy=asgd --workers=2", "SELECT table_home FROM run", "gpu\r\n"},
	{2, "--strategy=asgd --workers=2 --table-home=gpu", "SELECT table_home FROM run",
	 "gpu\r\n"},
	{1, "--strategy=asgd --workers=2 --table-home=shared", "SELECT table_home FROM run",
	 "shared\r\n"},
	{1, "--strategy=asgd --workers=1 --servers=1", "SELECT table_home FROM run", "servers\r\n"},
	{1, "--strategy=asgd --workers=2 --record",
	 "SELECT sum(kind = 'sync'), count(DISTINCT worker), max(seq) - min(seq) + 1 = count(*), "
	 "(SELECT sum(pushes) FROM epoch) FROM arrival WHERE table_id = 0",
	 "12,2,1,12\r\n"},
};

TEST(chosen_transport_is_recorded, COUNT(chosen))
{
	if (can_have(chosen[_i].gpus))
		expect_recorded(words("FAKE_CUDA_DEVICES=%d", chosen[_i].gpus),
				words(SMALL "%s", chosen[_i].words), chosen[_i].sql,
				chosen[_i].says);
}

static const struct {
	int gpus;
	const char *words, *says;
} refused[] = {
	{1, "--strategy=allreduce --workers=2 --transport=mpi", "built without CUDA"},
	{2, "--strategy=allreduce --workers=3 --transport=nccl", "workers 0 and 2 share a GPU"},
	{1, "--strategy=asgd --workers=2 --servers=1 --table-home=gpu", "--servers=1"},
};

TEST(unavailable_transport_is_refused, on_real_gpu() ? 0 : COUNT(refused))
{
	expect_refused(words("FAKE_CUDA_DEVICES=%d", refused[_i].gpus),
		       words(SMALL "%s", refused[_i].words), refused[_i].says);
}

/* A rank that NCCL refuses, or that never joins, does not make the others wait for ever: the next
 * transport is used. */
TEST(failed_nccl_start_falls_back, on_real_gpu() ? 0 : 2)
{
	static const struct {
		const char *environment, *says;
	} row[] = {{"FAKE_NCCL_REFUSED=1", "NCCL cannot join worker"},
		   {"FAKE_NCCL_ABSENT=1 MVBENCH_NCCL_TIMEOUT=1", "waited 1 s for the others"}};
	const char *environment = words("FAKE_CUDA_DEVICES=2 %s", row[_i].environment);
	char out[8192];
	forget_runs();
	int status =
		run_mvbench(environment, SMALL "--strategy=allreduce --workers=2", out, sizeof out);
	ck_assert_msg(status == 0 && strstr(out, "each worker has a GPU, but NCCL"), "%d: %s",
		      status, out);
	ck_assert_msg(strstr(out, row[_i].says), "%s", out);
	expect_row("SELECT transport FROM run", "ipc\r\n");
	expect_refused(environment, SMALL "--strategy=allreduce --workers=2 --transport=nccl",
		       row[_i].says);
}

/* Every transport that is available. With all of them messages go through the host. */
static const struct {
	int gpus;
	const char *words, *rows[4], *not ;
} benched[] = {
	{1,
	 "",
	 {"allreduce,ipc,", "allreduce,staged,", "sendrecv,staged,", "push_pull,gpu,"},
	 "nccl,"},
	{2,
	 "",
	 {"allreduce,nccl,", "allreduce,ipc,", "allgather,staged,", "broadcast,staged,"},
	 "mpi,"},
	{1, "--transport=staged", {"allreduce,staged,", "sendrecv,staged,"}, "ipc,"},
};

TEST(bench_has_a_row_for_every_transport, COUNT(benched))
{
	char out[8192];
	if (!can_have(benched[_i].gpus))
		return;
	char *line = words("FAKE_CUDA_DEVICES=%d timeout 100 ./mvbench bench comm --device=cuda "
			   "--min=4KiB --max=4KiB --repetitions=1 --format=csv %s 2>/dev/null",
			   benched[_i].gpus, benched[_i].words);
	int status = command_output(line, out, sizeof out);
	ck_assert_msg(status == 0, "%s: %d: %s", line, status, out);
	for (size_t i = 0; i < COUNT(benched[_i].rows) && benched[_i].rows[i]; i++)
		ck_assert_msg(strstr(out, benched[_i].rows[i]), "%s: %s", benched[_i].rows[i], out);
	ck_assert_msg(!strstr(out, benched[_i].not ), "%s: %s", benched[_i].not, out);
	for (char *end = strstr(out, "\r\n"); (end = strstr(end + 2, "\r\n"));)
		ck_assert_msg(end[-2] == ',' && end[-1] == '0', "%s", out); /* none is wrong */
}
