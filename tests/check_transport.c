/*
 * check_transport.c - vectors of GPUs between workers: every transport and every strategy train what
 * the CPU trains, tables in a GPU's memory hold what was pushed, and what cannot be had is refused.
 *
 * They run on tests/fake_cuda, which emulates CUDA on the processor, wherever it was built. A wait
 * that is missing shows there: work that nobody waits for is not done.
 */
#include "suites.h"
#include "trained.h"
#include "../runtime/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FAKE "fake/mvbench_cuda.so"
#define MLP  "--workload=mlp --mlp.hidden=8 --lr=0.05 --lr-schedule=constant --epochs=2 "

enum { ROWS = 192, ROWS_TO_TEST = 32, WORKERS_MOST = 3 };

static void make_data(void)
{
	folder_new();
	idx_put_set(ROWS, ROWS_TO_TEST, false, '-');
	setenv("MVBENCH_CUDA", FAKE, 1);
}

/* gpus: how many there are. Not more than `allowed` apart, and they learn something. */
static void expect_as_on_cpu(int gpus, int ranks, const char *how, const char *more, double allowed)
{
	char *count = sentence("%d", gpus);
	setenv("FAKE_CUDA_DEVICES", count, 1);
	struct result gpu = train_ok(ranks, words("%s --device=cuda %s", how, more));
	struct result cpu = train_ok(ranks, words("%s --device=cpu", how));
	unsetenv("FAKE_CUDA_DEVICES");
	double d = distance(&gpu, &cpu);
	ck_assert_msg(d <= allowed, "%d ranks, %s %s: %g away from the CPU, allowed %g", ranks, how,
		      more, d, allowed);
	ck_assert_msg(cpu.test_loss < 0.95 * cpu.first_test_loss,
		      "%s learns nothing: %g, at first %g", how, cpu.test_loss,
		      cpu.first_test_loss);
	ck_assert_msg(gpu.bytes == cpu.bytes, "%s %s: %g bytes, %g on the CPU", how, more,
		      gpu.bytes, cpu.bytes);
	free(count);
	free(gpu.param);
	free(cpu.param);
}

/* ---- Transports and strategies ------------------------------------------------- */

static const struct {
	const char *name;
	int gpus;
} transport[] = {{"auto", 1}, {"ipc", 1}, {"ipc", 2}, {"nccl", WORKERS_MOST}, {"staged", 1}};
enum { TRANSPORTS = sizeof transport / sizeof *transport };

/* Every strategy with every transport. Asynchronous ones meet at barriers only: in the middle, what
 * they do depends on who comes first. */
START_TEST(strategies_train_what_the_cpu_trains)
{
	const struct strategy *s = strategies[_i / TRANSPORTS];
	int by = _i % TRANSPORTS, ranks = by % 2 ? WORKERS_MOST : 2;
	const char *name = s->plugin.name;
	if (strcmp(name, "serial") == 0)
		return;
	if (strcmp(name, "hybrid") == 0)
		ranks = 2 + 2 * (by == 0);
	const char *when = s->asynchronous ? "--sync-every=1000" : "--sync-every=1";
	/* where workers arrive in any order, only what commutes is the same */
	double allowed = strcmp(name, "easgd") == 0 ? 2e-3 : 1e-5;
	expect_as_on_cpu(transport[by].gpus, ranks,
			 words(MLP "--batch=%d --momentum=0.9 --weight-decay=1e-3 --strategy=%s %s",
			       24 / ranks, name, when),
			 words("--transport=%s", transport[by].name), allowed);
}
END_TEST

/* Buckets that are sent while the layers below compute, many at once; and more floats than were
 * prepared for. */
START_TEST(reductions_may_be_under_way)
{
	expect_as_on_cpu(transport[_i].gpus, 2,
			 MLP "--batch=12 --mlp.depth=3 --strategy=allreduce --allreduce.overlap "
			     "--allreduce.bucket=64",
			 words("--transport=%s", transport[_i].name), 1e-5);
}
END_TEST
