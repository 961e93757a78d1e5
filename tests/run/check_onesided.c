/*
 * check_onesided.c - tables in MPI windows: the same trainings as in shared memory, by each way in
 * which MPI may serve them. tests/tools/train trains; tests/tools/table looks from inside.
 */
#include "results/gate/gate.h"
#include "tests/suites.h"
#include "tests/trained.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MLP      "--workload=mlp --mlp.hidden=32 --lr=0.05 --epochs=1 --batch=24"
#define SHARED   " --table-home=shared"
#define ONESIDED " --table-home=onesided"

/* NULL: what MPI chooses. The last is what workers on two machines without a better network have:
 * only who is inside MPI serves the others. */
static const struct {
	const char *osc, *btl;
} path[] = {{NULL, NULL}, {"sm", NULL}, {"pt2pt", "self,tcp"}};
enum { CHOSEN, SHARED_MEMORY, TCP, PATHS };

static void take(int which)
{
	unsetenv("OMPI_MCA_osc");
	unsetenv("OMPI_MCA_btl");
	if (path[which].osc)
		setenv("OMPI_MCA_osc", path[which].osc, 1);
	if (path[which].btl)
		setenv("OMPI_MCA_btl", path[which].btl, 1);
}

/* check_tables.c does so with what MPI chooses. */
START_TEST(tables_hold_what_was_pushed)
{
	char text[2048];
	int ranks = 2 + _i / 2;
	take(_i % 2 ? TCP : SHARED_MEMORY);
	int status = command_output(words(MPIRUN "%d ./tests/tools/table onesided 0 2>&1", ranks),
				    text, sizeof text);
	ck_assert_msg(status == 0 && strcmp(text, "ok\n") == 0, "%d ranks, osc %s: status %d\n%s",
		      ranks, path[_i % 2 ? TCP : SHARED_MEMORY].osc, status, text);
}
END_TEST

/* Alone: the same arithmetic, but for W + d, which shared memory fuses with the scaling of d. */
START_TEST(one_worker_is_as_in_shared_memory)
{
	static const struct {
		const char *words;
		double tolerance;
	} row[] = {
		{"--strategy=asgd", 0},
		{"--strategy=asgd --asgd.updater=sgd", 1e-6},
		{"--strategy=asgd --asgd.updater=adagrad --asgd.rho=0.01", 1e-6},
		{"--strategy=asgd --asgd.updater=staleness", 1e-6},
		{"--strategy=bsp --bsp.updater=sgd", 1e-6},
		{"--strategy=ssp --ssp.updater=sgd", 1e-6},
		{"--strategy=downpour --downpour.send=2 --sync-every=4", 0},
		{"--strategy=easgd --sync-every=3", 1e-6},
	};
	for (size_t i = 0; i < sizeof row / sizeof *row; i++)
		expect_same(1, words(MLP ONESIDED " --momentum=0.9 %s", row[i].words), 1,
			    words(MLP SHARED " --momentum=0.9 %s", row[i].words), row[i].tolerance);
}
END_TEST

/* n workers one-sidedly, by this path, and in shared memory. */
static void expect_as_shared(int n, int which, const char *what, double tolerance)
{
	const char *same = words(MLP " %s", what);
	take(which);
	struct result a = train_ok(n, words("%s" ONESIDED, same));
	take(CHOSEN);
	struct result b = train_ok(n, words("%s" SHARED, same));
	double d = distance(&a, &b);
	ck_assert_msg(d <= tolerance, "%d ranks, path %d, %s: differs by %g from shared memory", n,
		      which, what, d);
	ck_assert_msg(b.test_loss < 0.9 * b.first_test_loss, "%s learns nothing: %g, at first %g",
		      what, b.test_loss, b.first_test_loss);
	free(a.param);
	free(b.param);
}

/* Who waits for all gets the same model whichever way the pushes went. */
START_TEST(rounds_are_as_in_shared_memory)
{
	static const struct {
		int workers, path;
		const char *words;
	} row[] = {
		{2, CHOSEN, "--strategy=bsp --momentum=0.9"},
		{3, CHOSEN, "--strategy=bsp --epochs=2"},
		{2, TCP, "--strategy=bsp --momentum=0.9 --epochs=2"},
		{3, TCP, "--strategy=bsp --bsp.updater=sgd --epochs=2 --barrier-every=0"},
		{3, CHOSEN, "--strategy=ssp --ssp.bound=0 --sync-every=3"},
	};
	expect_as_shared(row[_i].workers, row[_i].path, row[_i].words, 2e-6);
}
END_TEST

/* Exchanges at barriers only: then sums are all that is left of the order. */
START_TEST(rare_pushes_are_as_in_shared_memory)
{
	static const char *const row[] = {
		"--strategy=asgd",
		"--strategy=asgd --asgd.updater=adagrad --asgd.rho=0.01",
		"--strategy=ssp",
		"--strategy=downpour",
	};
	expect_as_shared(3, CHOSEN, words("--deal=static --epochs=2 --sync-every=1000 %s", row[_i]),
			 1e-6);
}
END_TEST

/* Nobody waits: every push arrives and is counted, and the model learns. */
START_TEST(asynchronous_pushes_arrive)
{
	static const struct {
		int workers, path;
		const char *words;
	} row[] = {
		{2, CHOSEN, "--strategy=asgd"},
		{3, CHOSEN, "--strategy=asgd --asgd.updater=sgd"},
		{3, CHOSEN, "--strategy=asgd --asgd.updater=adagrad --asgd.rho=0.01"},
		{2, CHOSEN, "--strategy=asgd --asgd.updater=staleness"},
		{3, CHOSEN, "--strategy=ssp --ssp.bound=1"},
		{3, CHOSEN, "--strategy=downpour --downpour.send=2"},
		{2, CHOSEN, "--strategy=easgd"},
		{3, TCP, "--strategy=asgd"},
		{2, TCP, "--strategy=asgd --asgd.updater=staleness"},
		{3, TCP, "--strategy=ssp --ssp.bound=1"},
		{3, TCP, "--strategy=easgd"},
	};
	int n = row[_i].workers;
	const char *what = row[_i].words;
	take(row[_i].path);
	/* 60 or 40 steps an epoch */
	struct result r = train_ok(n, words(MLP ONESIDED
					    " --deal=static --batch=20 --epochs=2 --sync-every=2 "
					    "--barrier-every=0 --straggle=0.3 %s",
					    what));
	ck_assert_msg(r.bytes > 0 && fabs(r.bytes - r.formula) <= 1e-9 * r.formula,
		      "%s on %d: counted %.17g bytes, the formula says %.17g", what, n, r.bytes,
		      r.formula);
	ck_assert_msg(r.pushes == TRAIN_ROWS / 20 / 2, "%s on %d: %g pushes", what, n, r.pushes);
	ck_assert_msg(r.test_loss < 0.9 * r.first_test_loss, "%s on %d: %g, at first %g", what, n,
		      r.test_loss, r.first_test_loss);
	free(r.param);
}
END_TEST

START_TEST(what_cannot_live_here_is_refused_in_a_sentence)
{
	static const struct {
		int workers;
		const char *words, *says;
	} row[] = {
		{1, "--strategy=asgd --asgd.updater=momentum", "updater momentum needs a server"},
		{1, "--strategy=ssp --ssp.updater=dcasgd", "updater dcasgd needs a server"},
		{2, "--strategy=bsp --bsp.backup=1", "1 backup workers"},
	};
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct result r = run_tool(row[i].workers, words(MLP ONESIDED " %s", row[i].words));
		ck_assert_msg(r.status == EXIT_USER && strstr(r.output, row[i].says) &&
				      strstr(r.output, "--servers=1"),
			      "%s: status %d\n%s", row[i].words, r.status, r.output);
		free(r.param);
	}
}
END_TEST

Suite *onesided_suite(void)
{
	Suite *s = suite_create("onesided");
	TCase *t = tcase_create("onesided");
	tcase_set_timeout(t, 60);
	tcase_add_unchecked_fixture(t, trained_data, folder_free);
	tcase_add_loop_test(t, tables_hold_what_was_pushed, 0, 4);
	tcase_add_test(t, one_worker_is_as_in_shared_memory);
	tcase_add_loop_test(t, rounds_are_as_in_shared_memory, 0, 5);
	tcase_add_loop_test(t, rare_pushes_are_as_in_shared_memory, 0, 4);
	tcase_add_loop_test(t, asynchronous_pushes_arrive, 0, 11);
	tcase_add_test(t, what_cannot_live_here_is_refused_in_a_sentence);
	suite_add_tcase(s, t);
	return s;
}
