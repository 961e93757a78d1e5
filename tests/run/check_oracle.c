/*
 * check_oracle.c - results of runs, computed again: by NumPy in float64 (tests/oracle), by one
 * worker, or by the same run with another order of arrival.
 */
#include "tests/suites.h"
#include "tests/fixture.h"
#include "tests/shell.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define RUN "./mvbench run --db=%s/o.db --format=json "

/* A figure of the database. */
static double figure(const char *query)
{
	run(0, "sqlite3 %s/o.db \"%s\"", folder, query);
	return atof(printed);
}

static double printed_loss(void)
{
	const char *at = strstr(printed, "\"test_loss\":");
	ck_assert_msg(at, "no test loss in\n%s", printed);
	return atof(at + strlen("\"test_loss\":"));
}

/* The last test loss of this run, which has to end well. */
static double loss_of(const char *how)
{
	run(0, RUN "%s", folder, how);
	return printed_loss();
}

static void expect_near(double a, double b, double most, const char *how)
{
	ck_assert_msg(fabs(a - b) <= most * fabs(b), "%s: test loss %.9g, expected %.9g", how, a,
		      b);
}

CASE("oracle", .limit = 300, .set_up = folder_new, .tear_down = folder_free);

/* Each seed is another strategy, optimiser, updater, schedule, number of workers and of rows. */
TEST(random_runs_equal_numpys, 2)
{
	const char *python = python_with("numpy");
	if (python)
		run(0,
		    "%s $MVBENCH_HOME/tests/oracle/oracle.py --mvbench=./mvbench --count=10 "
		    "--seed=%d",
		    python, 1 + 10 * _i);
}

/* Every step has fewer rows than workers, and the optimisers make no step by a gradient of 0:
 * groups, fragments, late sums and averaged moments of periodic, and parts of sparta. */
TEST(few_rows_equal_numpys, 3)
{
	static const struct {
		const char *strategy;
		int seed;
	} row[] = {{"periodic", 1}, {"periodic", 17}, {"sparta", 1}};
	const char *python = python_with("numpy");
	if (python)
		run(0,
		    "%s $MVBENCH_HOME/tests/oracle/oracle.py --mvbench=./mvbench --few --count=12 "
		    "--only=%s --seed=%d",
		    python, row[_i].strategy, row[_i].seed);
}

/* ---- A step's gradient is the mean over its rows ---- */

#define CUBES "--workload=perceptron --epochs=4 --lr=1e-3 "

/* With fewer rows than workers in a step, and with shares that differ by a row. */
TEST(rows_of_a_step_have_the_same_weight, 5)
{
	static const struct {
		int rows, workers, batch;
	} size[] = {{9, 4, 1}, {5, 4, 1}, {7, 3, 2}, {11, 2, 3}, {10, 5, 1}};
	static const char *const strategy[] = {"allreduce",
					       "allreduce --allreduce.overlap=true",
					       "hybrid --hybrid.group=1",
					       "periodic",
					       "bsp",
					       "bsp --servers=1"};
	const int n = size[_i].rows, workers = size[_i].workers, batch = size[_i].batch;
	char *how AUTOFREE =
		sentence(CUBES "--train-rows=%d --batch=%d --strategy=serial", n, workers * batch);
	double right = loss_of(how);
	for (size_t k = 0; k < COUNT(strategy); k++) {
		char *mine AUTOFREE =
			sentence(CUBES "--train-rows=%d --batch=%d --workers=%d --strategy=%s", n,
				 batch, workers, strategy[k]);
		expect_near(loss_of(mine), right, 1e-5, mine);
	}
}

/* The groups of a hybrid are the workers that get rows. */
TEST(groups_without_rows_do_not_count)
{
	double right = loss_of(CUBES "--train-rows=5 --batch=4 --strategy=serial");
	const char *how =
		CUBES "--train-rows=5 --batch=1 --workers=8 --strategy=hybrid --hybrid.group=2";
	expect_near(loss_of(how), right, 1e-5, how);
}

/* Nine rows in mini-batches of one row: nine pushes an epoch, each of one row. */
TEST(asgd_pushes_only_what_has_rows)
{
	loss_of(CUBES "--train-rows=9 --batch=1 --strategy=asgd --workers=4 --record "
		      "--table-home=shared");
	ck_assert_int_eq(
		(int)figure("SELECT count(*) FROM arrival WHERE table_id = 0 AND kind = 'sync'"),
		4 * 9);
}

/* Three of four workers have rows in a step. These are the same means of all models: a round, a
 * group of all workers, a part that is the whole model. The worker without rows must count alike.
 */
TEST(models_without_rows_count_alike_in_every_mean, LISTED(optimizers))
{
	static const char *const how[] = {
		"periodic --sync-every=2",
		"periodic --sync-every=1000 --periodic.group=4 --periodic.group-every=2",
		"sparta --sync-every=2 --sparta.share=1"};
	static const char *const where[] = {
		"", "--platform=sim --sim.platform=ethernet_10g --sim.step-time=1ms"};
	double right = 0;
	if (!optimizers[_i]->normalises) /* its plain means are right */
		return;
	for (size_t k = 0; k < COUNT(how) * COUNT(where); k++) {
		char *mine AUTOFREE = sentence(
			"--workload=perceptron --epochs=4 --lr=0.01 --train-rows=9 --batch=1 "
			"--workers=4 --optimizer=%s --strategy=%s %s",
			optimizers[_i]->plugin.name, how[k / 2], where[k % 2]);
		double loss = loss_of(mine);
		if (k > 0)
			expect_near(loss, right, 1e-4, mine);
		else
			right = loss;
	}
}

/* With five rows a step has two or three of four workers. All of them take part in turn. */
TEST(workers_without_rows_take_turns)
{
	const char *python = python_with("numpy");
	if (!python)
		return;
	run(0,
	    "ORACLE_LOG=%s " RUN
	    "--workload=$MVBENCH_HOME/tests/oracle/net.c --train-rows=5 --batch=1 "
	    "--workers=4 --strategy=periodic --epochs=4",
	    folder, folder);
	run(0, "cd %s && stat -c %%s 0 1 2 3 | sort -u | wc -l",
	    folder); /* each has trained on 5 of the 20 rows */
	expect("1\n");
}

/* Gradients are 0 here: a step only shrinks the model, by lr x weight decay = 1/2. Two of its steps
 * have rows for three and two of four workers. adamw of the others stands still; sgd with momentum
 * takes a step by 0, which is linear. The model is the first one times 1 - 10 lr of one worker. */
TEST(idle_workers_of_gossip_and_easgd_step_only_if_linear, 4)
{
#define SHRINK \
	"ORACLE_LOG=%s " RUN \
	"--workload=$MVBENCH_HOME/tests/oracle/net.c --oracle.scale=0 --batch=1 --epochs=1 " \
	"--weight-decay=10 --decay=all --lr-schedule=constant "
#define GOSSIP "--strategy=gossip --gossip.schedule=complete"
#define EASGD  "--strategy=easgd --easgd.form=synchronous --easgd.order=after --easgd.beta=0.8"
	static const struct {
		const char *how, *lr;
	} row[] = {
		/* 5/8 x 3/4; a stepping worker has 1/2 of its model, an idle one all of it */
		{GOSSIP " --optimizer=adamw", "0.053125"},
		/* the centre: 7/10, then 54/100 */
		{EASGD " --optimizer=adamw", "0.046"},
		/* lr v: 1/2, then 1/10 + 1/4 */
		{GOSSIP " --momentum=0.2", "0.085"},
		/* the centre: 6/10, then 28/100 */
		{EASGD " --momentum=0.2", "0.072"},
	};
	double loss[2];
	for (int alone = 0; alone < 2; alone++) {
		char *how AUTOFREE =
			alone ? sentence("--strategy=serial --train-rows=1 --optimizer=adamw "
					 "--lr=%s",
					 row[_i].lr)
			      : sentence("--workers=4 --train-rows=5 --sync-every=1 --lr=0.05 %s",
					 row[_i].how);
		run(0, SHRINK "%s", folder, folder, how);
		loss[alone] = printed_loss();
	}
	expect_near(loss[0], loss[1], 1e-5, row[_i].how);
}

/* ---- A round is a function of its set of pushes ---- */

TEST(order_of_arrival_changes_no_round, 11)
{
	const char *updater[16], *list = updater_choices;
	char *copy AUTOFREE = must(strdup(list + 1)), *rest = copy;
	int n = 0;
	while (rest)
		updater[n++] = strsep(&rest, "|");
	ck_assert_int_eq(n, 11); /* as many as this loop has */
#define ROUNDS \
	"--workload=softmax --train-rows=200 --batch=10 --epochs=2 --momentum=0 --strategy=bsp " \
	"--workers=3 --lr=0.05 --bsp.updater=%s "
	static const char *const how[] = {
		"--straggle=1 --step-time=1ms --arrival-seed=1",
		"--straggle=1 --step-time=1ms --arrival-seed=2",
		"--straggle=1 --servers=1 --step-time=1ms --arrival-seed=3",
		"--servers=2",
		"--platform=sim --sim.platform=gpu4_nvlink --sim.step-time=1ms --straggle=1 "
		"--arrival-seed=4",
		"--platform=sim --sim.platform=ethernet_10g --sim.step-time=1ms --servers=1",
	};
	double first = 0;
	for (size_t k = 0; k < COUNT(how); k++) {
		char *mine AUTOFREE = sentence(ROUNDS "%s", updater[_i], how[k]);
		double loss = loss_of(mine);
		if (k > 0)
			expect_near(loss, first, 1e-5, mine);
		else
			first = loss;
	}
}

/* The mean of a round's gradients makes the step that allreduce makes of it. */
TEST(merged_rounds_equal_allreduce, 2)
{
	static const char *const pair[][2] = {
		{"--strategy=bsp --bsp.updater=momentum --momentum=0.9",
		 "--strategy=allreduce --momentum=0.9"},
		{"--strategy=bsp --bsp.updater=adam --momentum=0",
		 "--strategy=allreduce --optimizer=adamw"}};
	double loss[2];
	for (int k = 0; k < 2; k++) {
		char *how AUTOFREE =
			sentence("--workload=softmax --train-rows=500 --batch=10 --epochs=2 "
				 "--workers=3 --lr=0.01 %s",
				 pair[_i][k]);
		loss[k] = loss_of(how);
	}
	expect_near(loss[0], loss[1], 1e-5, pair[_i][0]);
}

/* ---- Consensus ---- */

/* Workers whose server makes the step have moved, too, before they pull. */
TEST(consensus_does_not_depend_on_who_steps)
{
	static const char *const updater[] = {"add", "sgd"};
	double at[2];
	for (int k = 0; k < 2; k++) {
		char *how AUTOFREE =
			sentence("--workload=softmax --train-rows=400 --batch=10 --epochs=1 "
				 "--momentum=0 --strategy=bsp --workers=2 --bsp.updater=%s",
				 updater[k]);
		loss_of(how);
		at[k] = figure("SELECT consensus FROM epoch WHERE epoch = 1 ORDER BY run_id DESC");
	}
	ck_assert_double_gt(at[0], 0);
	ck_assert_msg(fabs(at[1] - at[0]) <= 1e-4 * at[0], "%g with sgd, %g with add", at[1],
		      at[0]);
}
