/*
 * check_onesided.c - tables in MPI windows: the same trainings as in shared memory, over each path
 * by which MPI may serve them. tests/tools/train trains; tests/tools/table checks the tables from
 * inside.
 */
#include "results/gate/gate.h"
#include "tests/suites.h"
#include "tests/trained.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MLP      "--workload=mlp --mlp.hidden=32 --lr=0.05 --epochs=1 --batch=24"
#define SHARED   " --table-home=shared"
#define ONESIDED " --table-home=onesided"

/* NULL: MPI's choice. The last path is that of workers on two machines without a better network: a
 * worker serves the others only while it is inside MPI. */
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

CASE("onesided", .limit = 60, .set_up = trained_data, .tear_down = folder_free, .once = true);

/* check_tables.c runs the same test with MPI's choice. */
TEST(onesided_tables_hold_what_was_pushed, 4)
{
	char text[2048];
	int ranks = 2 + _i / 2;
	take(_i % 2 ? TCP : SHARED_MEMORY);
	int status = command_output(words(MPIRUN "%d ./tests/tools/table onesided 0 2>&1", ranks),
				    text, sizeof text);
	ck_assert_msg(status == 0 && strcmp(text, "ok\n") == 0, "%d ranks, osc %s: status %d\n%s",
		      ranks, path[_i % 2 ? TCP : SHARED_MEMORY].osc, status, text);
}

/* One worker does the same arithmetic, except for W + d, which shared memory fuses with the scaling
 * of d. */
TEST(one_onesided_worker_equals_shared_memory)
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
	for (size_t i = 0; i < COUNT(row); i++)
		expect_same(1, words(MLP ONESIDED " --momentum=0.9 %s", row[i].words), 1,
			    words(MLP SHARED " --momentum=0.9 %s", row[i].words), row[i].tolerance);
}

/* Compares n one-sided workers on this path with shared memory, on MPI's path, because not every
 * path has it. */
static void expect_as_shared(int n, int which, size_t rows, const char *const *row,
			     double tolerance)
{
	const char *apart[RUNS_MOST], *shared[RUNS_MOST];
	struct result a[RUNS_MOST], b[RUNS_MOST];
	for (size_t i = 0; i < rows; i++) {
		apart[i] = words(MLP " %s" ONESIDED, row[i]);
		shared[i] = words(MLP " %s" SHARED, row[i]);
	}
	take(which);
	train_all(n, rows, apart, a);
	take(CHOSEN);
	train_all(n, rows, shared, b);
	for (size_t i = 0; i < rows; i++)
		compare_runs(&a[i], apart[i], &b[i], shared[i], tolerance);
}

/* Workers that wait for all get the same model on every path. */
TEST(onesided_rounds_equal_shared_memory, 4)
{
	static const struct {
		int workers, path;
		const char *words[3];
	} row[] = {
		{2, CHOSEN, {"--strategy=bsp --momentum=0.9"}},
		{3,
		 CHOSEN,
		 {"--strategy=bsp --epochs=2", "--strategy=ssp --ssp.bound=0 --sync-every=3"}},
		{2, TCP, {"--strategy=bsp --momentum=0.9 --epochs=2"}},
		{3, TCP, {"--strategy=bsp --bsp.updater=sgd --epochs=2 --barrier-every=0"}},
	};
	expect_as_shared(row[_i].workers, row[_i].path, row[_i].words[1] ? 2 : 1, row[_i].words,
			 2e-6);
}

/* With exchanges at barriers only, the order of arrival changes nothing but the order of sums. */
TEST(rare_onesided_pushes_equal_shared_memory)
{
#define RARE "--deal=static --epochs=2 --sync-every=1000 "
	static const char *const row[] = {
		RARE "--strategy=asgd",
		RARE "--strategy=asgd --asgd.updater=adagrad --asgd.rho=0.01",
		RARE "--strategy=ssp",
		RARE "--strategy=downpour",
	};
	expect_as_shared(3, CHOSEN, COUNT(row), row, 1e-6);
}

/* Without waiting, every push arrives and is counted, and the model learns. */
TEST(asynchronous_pushes_arrive, 4)
{
	static const struct {
		int workers, path;
		const char *words[5];
	} row[] = {
		{2,
		 CHOSEN,
		 {"--strategy=asgd", "--strategy=asgd --asgd.updater=staleness",
		  "--strategy=easgd"}},
		{3,
		 CHOSEN,
		 {"--strategy=asgd --asgd.updater=sgd",
		  "--strategy=asgd --asgd.updater=adagrad --asgd.rho=0.01",
		  "--strategy=ssp --ssp.bound=1", "--strategy=downpour --downpour.send=2"}},
		{2, TCP, {"--strategy=asgd --asgd.updater=staleness"}},
		{3, TCP, {"--strategy=asgd", "--strategy=ssp --ssp.bound=1", "--strategy=easgd"}},
	};
	const char *how[5];
	struct result r[5];
	int n = row[_i].workers;
	size_t runs = 0;
	/* 60 or 40 steps an epoch */
	for (; row[_i].words[runs]; runs++)
		how[runs] =
			words(MLP ONESIDED " --deal=static --batch=20 --epochs=2 --sync-every=2 "
					   "--barrier-every=0 --straggle=0.3 %s",
			      row[_i].words[runs]);
	take(row[_i].path);
	train_all(n, runs, how, r);
	for (size_t i = 0; i < runs; i++) {
		const char *what = row[_i].words[i];
		ck_assert_msg(r[i].bytes > 0 &&
				      fabs(r[i].bytes - r[i].formula) <= 1e-9 * r[i].formula,
			      "%s on %d: counted %.17g bytes, the formula says %.17g", what, n,
			      r[i].bytes, r[i].formula);
		ck_assert_msg(r[i].pushes == TRAIN_ROWS / 20 / 2, "%s on %d: %g pushes", what, n,
			      r[i].pushes);
		ck_assert_msg(r[i].test_loss < 0.9 * r[i].first_test_loss,
			      "%s on %d: %g, at first %g", what, n, r[i].test_loss,
			      r[i].first_test_loss);
	}
}

TEST(unsupported_onesided_tables_are_refused)
{
	static const struct {
		int workers;
		const char *words, *says;
	} row[] = {
		{1, "--strategy=asgd --asgd.updater=momentum", "updater momentum needs a server"},
		{1, "--strategy=ssp --ssp.updater=dcasgd", "updater dcasgd needs a server"},
		{1, "--strategy=asgd --asgd.updater=adam --momentum=0",
		 "updater adam needs a server"},
		{2, "--strategy=bsp --bsp.backup=1", "1 backup worker:"},
	};
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct result r = run_tool(row[i].workers, words(MLP ONESIDED " %s", row[i].words));
		ck_assert_msg(r.status == EXIT_USER && strstr(r.output, row[i].says) &&
				      strstr(r.output, "--servers=1"),
			      "%s: status %d\n%s", row[i].words, r.status, r.output);
	}
}
