/*
 * check_evaluation.c - which model is evaluated and on which rows, and that evaluation takes no
 * training time: the part of the training set, and evaluations within epochs (--eval-every).
 */
#include "runtime/config/config.h"
#include "runtime/train/train.h"
#include "tests/made.h"
#include "tests/suites.h"
#include "tests/trained.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* 600 rows: 10 steps an epoch, whatever the number of workers. */
#define SOFTMAX "--workload=softmax --lr=0.01 "
#define SIM     "--platform=sim --sim.step-time=10ms --sim.platform=ethernet_10g "

static double of(const char *query)
{
	return number_in("run.db", query);
}

/* ---- The part of the training set ------------------------------------------- */

CASE("evaluation", .limit = 120, .set_up = small_data, .tear_down = folder_free);

TEST(sample_of_training_rows_is_always_the_same)
{
	enum { N = 60000, PARTS = 10 };
	struct rows a = data_sample(N, TRAIN_ROWS_EVALUATED),
		    b = data_sample(N, TRAIN_ROWS_EVALUATED),
		    all = data_sample(7, TRAIN_ROWS_EVALUATED);
	int part[PARTS] = {0};
	ck_assert_uint_eq(a.n, 5000);
	for (size_t i = 0; i < a.n; i++) {
		ck_assert_int_eq(a.index[i], b.index[i]);
		ck_assert(i == 0 || a.index[i] > a.index[i - 1]);
		ck_assert(a.index[i] >= 0 && a.index[i] < N);
		part[a.index[i] / (N / PARTS)]++;
	}
	for (int i = 0; i < PARTS; i++) /* 500 each, with a standard deviation of 20 */
		near(part[i], 500, 100);
	ck_assert_uint_eq(all.n, 7);
	ck_assert_int_eq(all.index[6], 6);
	free(a.index);
	free(b.index);
	free(all.index);
}

/* A model that does not change has one loss. Otherwise the running loss is of earlier and other
 * models. */
TEST(training_loss_is_that_of_the_evaluated_model)
{
	record_run("--workload=softmax --lr=0 --batch=60 --epochs=2 --seed=1");
	near(of("SELECT max(abs(train_loss - running_loss)) FROM epoch WHERE epoch >= 1"), 0, 1e-5);
	near(of("SELECT max(train_loss) - min(train_loss) FROM epoch"), 0, 0);
	near(of("SELECT count(running_loss) FROM epoch WHERE epoch = 0"), 0, 0);
	record_run(SOFTMAX "--batch=20 --epochs=2 --strategy=periodic --workers=3 --sync-every=10 "
			   "--device=cpu");
	near(of("SELECT count(*) FROM epoch WHERE run_id = 2 AND epoch >= 1 AND "
		"train_loss < running_loss - 0.01"),
	     2, 0);
	near(of("SELECT train_loss - (SELECT train_loss FROM epoch WHERE run_id = 2 AND epoch = 2) "
		"FROM run_summary WHERE id = 2"),
	     0, 0);
}

/* The layers of a split model compute in virtual time when they are evaluated. No epoch includes
 * that time. */
TEST(evaluation_takes_no_training_time)
{
	record_run(SIM
		   "--workload=tanh_mlp --tanh_mlp.hidden=16 --strategy=model_parallel --workers=2 "
		   "--batch=600 --epochs=2");
	near(of("SELECT max(seconds) < 0.0052 AND min(seconds) > 0.005 FROM epoch WHERE epoch "
		">= 1"),
	     1, 0);
	ck_assert_double_gt(of("SELECT simulated_s - seconds_total FROM run_summary"), 0.005);
}

/* ---- Rows that are held out -------------------------------------------------- */

/* Every row holds its own number in all fields. Finds which rows are held out. */
static void hold_out(int64_t rows, int64_t seed, bool held[100])
{
	enum { N = 100, F = 3 };
	uint8_t bytes[N * F];
	float target[N];
	struct data train = {.n = N, .features = F, .bytes = bytes, .target = target}, part;
	struct run of = {.validation = rows, .seed = seed};
	bool seen[N] = {false};
	for (int i = 0; i < N * F; i++) {
		bytes[i] = (uint8_t)(i / F);
		target[i / F] = (float)(i / F);
	}
	validation_split(&of, &train, &part);
	ck_assert_uint_eq(train.n, (size_t)(N - rows));
	ck_assert_uint_eq(part.n, (size_t)rows);
	memset(held, 0, N * sizeof *held);
	for (size_t i = 0; i < N; i++) {
		const struct data *d = i < train.n ? &train : &part;
		size_t at = i < train.n ? i : i - train.n;
		for (int j = 0; j < F; j++)
			ck_assert_int_eq(d->bytes[at * F + j], (int)d->target[at]);
		ck_assert(!seen[d->bytes[at * F]]);
		seen[d->bytes[at * F]] = true;
		held[d->bytes[at * F]] = d == &part;
	}
}

TEST(rows_held_out_are_the_same_in_every_run)
{
	bool few[100], many[100], other[100];
	int last = 0;
	hold_out(10, 1, few);
	hold_out(40, 1, many);
	hold_out(40, 2, other);
	ck_assert_mem_eq(many, other, sizeof many);
	for (int i = 0; i < 100; i++) {
		ck_assert(many[i] || !few[i]);
		last += i >= 60 && many[i];
	}
	ck_assert_int_lt(last, 30); /* they are not one block of the file */
	hold_out(0, 1, few);
	hold_out(100, 1, few);
}

/* Rows are still whole, begin where the data set's memory begins, and are not held out. */
static void train_on(int64_t rows, int64_t hold, bool trained[100])
{
	enum { N = 100 };
	uint8_t bytes[N];
	float target[N];
	struct data train = {.n = N, .features = 1, .bytes = bytes, .target = target}, part;
	struct run of = {.validation = hold, .train_rows = rows};
	bool held[N] = {false};
	for (int i = 0; i < N; i++)
		target[i] = bytes[i] = (uint8_t)i;
	validation_split(&of, &train, &part);
	ck_assert_uint_eq(train.n, (size_t)rows);
	ck_assert_uint_eq(part.n, (size_t)hold);
	ck_assert_ptr_eq(train.bytes, bytes);
	memset(trained, 0, N * sizeof *trained);
	for (size_t i = 0; i < part.n; i++)
		held[part.bytes[i]] = true;
	for (size_t i = 0; i < train.n; i++) {
		ck_assert_int_eq(train.bytes[i], (int)train.target[i]);
		ck_assert(!held[train.bytes[i]] && !trained[train.bytes[i]]);
		trained[train.bytes[i]] = true;
	}
}

TEST(rows_trained_on_are_the_same_in_every_run)
{
	static const int64_t rows[] = {1, 20, 45, 60, 89, 90};
	for (int64_t hold = 0; hold <= 10; hold += 10) {
		bool fewer[100] = {false}, trained[100];
		int last = 0;
		for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
			train_on(rows[i], hold, trained);
			for (int k = 0; k < 100; k++)
				ck_assert_msg(trained[k] || !fewer[k], "%lld rows lack %d",
					      (long long)rows[i], k);
			memcpy(fewer, trained, sizeof fewer);
			for (int k = 0; k < 45 && i == 2; k++)
				last += trained[k];
		}
		ck_assert_int_lt(last, 35); /* they are not one block of the file */
		ck_assert_int_gt(last, 5);
	}
}

TEST(fewer_training_rows_shorten_the_epoch)
{
	record_only(SIM "--workload=softmax --train-rows=60 --validation=20 --batch=10 --workers=2 "
			"--strategy=allreduce --epochs=1");
	near(of("SELECT train_size FROM run"), 60, 0);
	near(of("SELECT seconds FROM epoch WHERE epoch = 1"), 3 * 0.01, 0.002);
}

/* For a model that does not change, the losses of both parts give that of the whole. */
TEST(model_is_evaluated_on_held_out_rows, 4)
{
	static const char *const how[] = {
		"--workload=softmax", SIM "--workload=softmax",
		"--workload=mlp --mlp.hidden=16 --strategy=model_parallel --workers=2",
		"--workload=mlp --mlp.hidden=16 --strategy=periodic --workers=3 --sync-every=5"};
	const char *common = "--batch=20 --lr=0 --epochs=1 --device=cpu";
	record_run(words("%s %s", how[_i], common));
	record_run(words("%s %s --validation=90", how[_i], common));
	near(of("SELECT train_size FROM run WHERE id = 2"), 510, 0);
	near(of("SELECT (510 * b.train_loss + 90 * b.validation_loss) / 600 - a.train_loss FROM "
		"epoch AS a JOIN epoch AS b USING (epoch) WHERE a.run_id = 1 AND b.run_id = 2 AND "
		"epoch = 1"),
	     0, 1e-5);
	near(of("SELECT 510 * b.train_accuracy + 90 * b.validation_accuracy - 600 * "
		"a.train_accuracy FROM epoch AS a JOIN epoch AS b USING (epoch) WHERE a.run_id = 1 "
		"AND b.run_id = 2 AND epoch = 1"),
	     0, 1e-6);
	near(of("SELECT a.test_loss - b.test_loss FROM epoch AS a JOIN epoch AS b USING (epoch) "
		"WHERE a.run_id = 1 AND b.run_id = 2 AND epoch = 1"),
	     0, 1e-7);
	near(of("SELECT count(*) FROM epoch WHERE run_id = 1 AND validation_loss IS NULL"), 2, 0);
}

TEST(rows_held_out_are_the_same_in_simulations_and_replays)
{
	char out[4096];
	record_run(SOFTMAX
		   "--strategy=asgd --workers=2 --batch=20 --epochs=2 --validation=60 --record "
		   "--device=cpu --eval-every=0");
	int status = run_mvbench(
		"timeout 60 env",
		"--platform=sim --sim.replay=1 --sim.platform=ethernet_1g --sim.step-time=1ms", out,
		sizeof out);
	ck_assert_msg(status == EXIT_OK && strstr(out, "bit for bit"), "%d: %s", status, out);
	near(of("SELECT count(DISTINCT validation_loss) FROM epoch WHERE epoch = 2"), 1, 0);
	near(of("SELECT count(*) FROM epoch WHERE epoch = 2 AND validation_loss <> train_loss AND "
		"validation_loss <> test_loss"),
	     2, 0);
	near(of("SELECT min(validation_loss) - (SELECT validation_loss FROM epoch WHERE run_id = 1 "
		"AND epoch = 2) FROM run_summary"),
	     0, 0);
	record_run(SIM SOFTMAX "--batch=60 --epochs=1 --validation=60 --eval-every=4");
	near(of("SELECT count(validation_loss) FROM curve WHERE run_id = 3"), 4, 0);
}

/* ---- Between the ends of epochs ----------------------------------------------- */

/* The evaluations at the ends of epochs are in other rows. */
TEST(evaluation_points_are_at_the_requested_steps)
{
	record_run(SIM SOFTMAX "--batch=60 --epochs=3 --eval-every=4");
	record_run(SIM SOFTMAX "--batch=60 --epochs=3");
	expect_row("SELECT group_concat(step || ':' || round(epochs, 6) || ':' || "
		   "round(seconds, 6), ' ') FROM evaluation",
		   "4:0.4:0.04 8:0.8:0.08 12:1.2:0.12 16:1.6:0.16 24:2.4:0.24 28:2.8:0.28\r\n");
	near(of("SELECT count(*) FROM curve WHERE run_id = 1"), 10, 0);
	record_run(SIM SOFTMAX "--batch=60 --epochs=3 --eval-every=10"); /* 10 steps: an epoch */
	near(of("SELECT count(*) FROM evaluation WHERE run_id = 3"), 0, 0);
	near(of("SELECT count(*) FROM (SELECT test_loss, lag(test_loss) OVER (ORDER BY epochs) "
		"AS b "
		"FROM curve WHERE run_id = 1) WHERE test_loss >= b"),
	     0, 0);
}

static const struct {
	const char *words;
	bool same; /* as without points: model and times */
} run[] = {
	{"--strategy=serial --batch=60", true},
	{"--strategy=allreduce --workers=2 --batch=30", true},
	{"--strategy=allreduce --workers=2 --batch=30 --barrier-every=0", true},
	{"--strategy=periodic --workers=3 --batch=20 --sync-every=7 --momentum=0.9", true},
	{"--strategy=gossip --workers=4 --batch=15 --sync-every=2 --straggle=0.5", true},
	{"--strategy=sparta --workers=3 --batch=20 --sparta.share=0.1", true},
	{"--strategy=periodic --workload=mlp --mlp.hidden=16 --workers=2 --batch=30 "
	 "--sync-every=5 --periodic.fragments=2 --periodic.delay=3 --periodic.outer=nesterov",
	 false}, /* sums that were on their way, and the outer momentum, still move it */
	{"--strategy=adasum --workers=2 --batch=30", true},
	{"--strategy=model_parallel --workload=mlp --mlp.hidden=16 --workers=2 --batch=60", true},
	{"--strategy=hybrid --hybrid.group=2 --workload=mlp --mlp.hidden=16 --workers=4 --batch=30",
	 true},
	{"--strategy=bsp --workers=3 --batch=20", false},
	{"--strategy=bsp --workers=2 --batch=30 --servers=1", false},
	{"--strategy=asgd --workers=3 --batch=20 --barrier-every=0", false},
	{"--strategy=asgd --workers=2 --batch=30 --servers=2 --speed=1:0.5 --deal=dynamic", false},
	{"--strategy=easgd --workers=3 --batch=20 --deal=dynamic --barrier-every=0", false},
	{"--strategy=ssp --workers=2 --batch=30 --servers=1 --straggle=0.5 --barrier-every=2",
	 false},
	{"--strategy=downpour --workers=2 --batch=30 --sync-every=4", false},
	{"--strategy=adpsgd --workers=3 --batch=20 --sync-every=3", false},
	{"--strategy=bsp --bsp.backup=1 --workers=3 --batch=20 --deal=dynamic --speed=2:0.3 "
	 "--servers=1",
	 false},
	{"--strategy=asgd --workers=3 --batch=20 --leave=1:45ms", false},
};

TEST(every_strategy_has_evaluation_points)
{
	for (size_t k = 0; strategies[k]; k++) {
		const char *word = words("--strategy=%s ", strategies[k]->plugin.name);
		size_t i = 0;
		while (i < COUNT(run) && !strstr(run[i].words, word))
			i++;
		ck_assert_msg(i < COUNT(run), "%sis in no row of this table", word);
	}
}

/* Each row of the table. From epoch 2 on nothing is learned, so every model is that of epoch 1. */
TEST(evaluation_points_change_neither_model_nor_times, COUNT(run))
{
	char *how = words(SIM SOFTMAX "--epochs=3 --lr-schedule=step:1:x1e-30 %s", run[_i].words);
	record_run(words("%s --eval-every=3", how));
	record_run(how);
	near(of("SELECT count(*) FROM evaluation"), 9, 0);
	near(of("SELECT count(*) FROM evaluation WHERE test_loss IS NULL OR train_loss IS NULL OR "
		"seconds NOT BETWEEN 0 AND (SELECT seconds_total FROM run_summary WHERE id = 1)"),
	     0, 0);
	near(of("SELECT count(*) FROM (SELECT seconds, lag(seconds) OVER (ORDER BY epochs) AS b "
		"FROM curve WHERE run_id = 1) WHERE seconds < b - 1e-9"),
	     0, 0);
	ck_assert_double_lt(of("SELECT max(test_loss) FROM evaluation WHERE step BETWEEN 5 AND 9"),
			    of("SELECT test_loss FROM epoch WHERE run_id = 1 AND epoch = 0"));
	if (!run[_i].same)
		return;
	near(of("SELECT max(abs(test_loss - (SELECT test_loss FROM epoch WHERE run_id = 1 AND "
		"epoch "
		"= 1))) FROM evaluation WHERE step > 10"),
	     0, 1e-6);
	near(of("SELECT count(*) FROM run"), 2, 0);
	near(of("SELECT count(DISTINCT model_hash) FROM run"), 1, 0);
	near(of("SELECT max(abs(a.seconds - b.seconds) + abs(a.comm_s - b.comm_s) + abs(a.wait_s - "
		"b.wait_s) + abs(a.bytes_sent - b.bytes_sent)) FROM epoch AS a JOIN epoch AS b "
		"USING (epoch) WHERE a.run_id = 1 AND b.run_id = 2 AND epoch >= 1"),
	     0, 1e-8);
}

/* The model is read from a server over a network that takes milliseconds for it. */
TEST(evaluation_points_stop_the_clock)
{
	const char *how = "--platform=sim --sim.platform=ethernet_1g --sim.step-time=10us "
			  "--workload=mlp --strategy=asgd --servers=1 --workers=1 --batch=60 "
			  "--epochs=1";
	record_run(words("%s --eval-every=1", how));
	record_run(how);
	near(of("SELECT count(*) FROM evaluation"), 9, 0);
	near(of("SELECT (SELECT sum(seconds) FROM epoch WHERE run_id = 1) / sum(seconds) FROM "
		"epoch WHERE run_id = 2"),
	     1, 0.01);
}

/* Points have times of training: none is later than the end of its epoch on the slowest worker. (A
 * busy machine may stop one worker and not the others.) */
TEST(evaluation_points_of_real_workers_lie_within_their_epoch)
{
	record_run(
		"--workload=mlp --mlp.hidden=16 --strategy=asgd --workers=2 --batch=15 --epochs=2 "
		"--eval-every=3 --device=cpu");
	near(of("SELECT count(*) FROM evaluation"), 13, 0);
	near(of("SELECT count(*) FROM evaluation AS e WHERE seconds > 1.001 * (SELECT max(t) FROM "
		"(SELECT total(seconds) AS t FROM rank_epoch WHERE run_id = 1 AND "
		"epoch BETWEEN 1 AND ceil(e.epochs) GROUP BY rank))"),
	     0, 0);
	ck_assert_double_lt(of("SELECT test_loss FROM evaluation WHERE step = 36"),
			    of("SELECT test_loss FROM epoch WHERE epoch = 0"));
}

/* A target between two evaluations is reached on the line between them. */
TEST(targets_are_interpolated)
{
	record_run(SIM SOFTMAX "--batch=60 --epochs=3 --eval-every=2 --lr=0.001");
	double low = of("SELECT test_loss FROM evaluation WHERE step = 14"),
	       high = of("SELECT test_loss FROM evaluation WHERE step = 12");
	record_run(words(SIM SOFTMAX "--batch=60 --epochs=3 --eval-every=2 --lr=0.001 "
				     "--target-loss=%.17g",
			 0.75 * low + 0.25 * high));
	near(of("SELECT target_seconds FROM run_summary WHERE id = 2"), 0.135, 1e-9);
	near(of("SELECT target_epoch FROM run_summary WHERE id = 2"), 2, 0);
}

TEST(impossible_evaluation_options_are_refused)
{
	expect_refused("", "--workload=softmax --target-loss=0.5 --target-accuracy=0.5",
		       "--target-loss=0.5: a run has one target");
	expect_refused("", "--workload=perceptron --target-accuracy=0.9",
		       "--target-accuracy=0.9: perceptron has no accuracy; give --target-loss");
	expect_refused("", SIM "--workload=softmax --sim.train=false --eval-every=5",
		       "--eval-every=5: with --sim.train=false");
	expect_refused("", "--workload=softmax --strategy=asgd --workers=2 --record --eval-every=5",
		       "--eval-every=5: not with --record");
	expect_refused("",
		       "--workload=tanh_mlp --batch=1 --epochs=1000000 --eval-every=1 "
		       "--barrier-every=0",
		       "--eval-every=1: the models of all points");
	expect_refused("", "--workload=softmax --eval-every=-1", "--eval-every=-1");
	expect_refused("",
		       "--workload=softmax --strategy=allreduce --workers=3 --validation=598 "
		       "--device=cpu",
		       "give at most --validation=597");
	expect_refused("", "--workload=softmax --validation=600", "--validation=600: of 600 rows");
}

/* ---- Updates that wait for the next step ----------------------------------------- */

/* The update of a layer waits until the next step reads it: the models stay equal, bit for bit,
 * with every optimiser, in every layer, when they are evaluated within an epoch, and without
 * barriers. */
TEST(overlap_with_the_next_step_leaves_models_unchanged, 8)
{
	static const char *const how[] = {
		"--workload=mlp --momentum=0.9 --weight-decay=1e-3 --decay=weights",
		"--workload=mlp --optimizer=adamw --lr-schedule=cosine --eval-every=3",
		"--workload=tanh_mlp --optimizer=muon --barrier-every=0 --epochs=3",
		"--workload=lenet --optimizer=lion --lr=1e-4 --allreduce.bucket=64KiB",
		"--workload=gpt --gpt.layers=2 --gpt.width=32 --gpt.heads=4 --gpt.context=16 "
		"--optimizer=adamw --clip=0 --data-dir=", /* its folder has the database */
		"--workload=perceptron --clip=0.5",       /* --clip needs all of the gradient */
		"--workload=softmax --batch=299 --workers=3 --momentum=0.5",
		"--workload=mlp --workers=1 --momentum=0.9"};
	for (int k = 0; k < 2; k++)
		record_run(words("--workers=2 --epochs=2 --train-rows=600 --device=cpu "
				 "--strategy=allreduce %s --allreduce.overlap=%s",
				 how[_i], k ? "next" : "true"));
	near(of("SELECT count(*) FROM run"), 2, 0);
	near(of("SELECT count(DISTINCT test_loss) - max(epoch) FROM epoch"), 1, 0);
	near(of("SELECT count(DISTINCT model_hash) FROM run"), 1, 0);
}

/* ---- One mini-batch, shared ----------------------------------------------------- */

/* A shared mini-batch gives what one worker makes of it, also if shares and steps are uneven. */
TEST(shared_batch_equals_one_workers_batch, 4)
{
	static const struct {
		int all, workers;
		const char *both, *how; /* both: of both runs; how: of the one that shares */
	} row[] = {{4, 3, "", ""},
		   {7, 4, "--momentum=0.9", ""},
		   {100, 3, "", "--allreduce.overlap"},
		   {5, 2, "", "--barrier-every=0"}};
	int all = row[_i].all, n = row[_i].workers;
	const char *common = words("--workload=mlp --mlp.hidden=16 --epochs=1 --lr=0.02 "
				   "--momentum=0 --device=cpu %s",
				   row[_i].both);
	record_run(words("%s --strategy=serial --batch=%d", common, all));
	record_run(words("%s --strategy=allreduce --workers=%d --global-batch=%d %s", common, n,
			 all, row[_i].how));
	near(of("SELECT abs(a.test_loss - b.test_loss) + abs(a.running_loss - b.running_loss) FROM "
		"epoch AS a JOIN epoch AS b USING (epoch) WHERE a.run_id = 1 AND b.run_id = 2 AND "
		"epoch = 1"),
	     0, 2e-5);
	ck_assert_double_gt(
		of("SELECT (SELECT test_loss FROM epoch WHERE epoch = 0) - test_loss FROM "
		   "epoch WHERE epoch = 1"),
		0.01);
	near(of("SELECT batch FROM run WHERE id = 2"), (all + n - 1) / n, 0);
	/* strong and weak scaling are compared with different runs */
	near(of("SELECT count(DISTINCT compare_key) FROM run_summary"), 2, 0);
	record_run(words("%s --strategy=serial --global-batch=%d", common, all));
	near(of("SELECT count(*) FROM run_summary AS a JOIN run_summary AS b USING (compare_key) "
		"WHERE a.id = 2 AND b.id = 3 AND b.batch = a.global_batch"),
	     1, 0);
}

TEST(shared_batch_is_recorded_and_repeated)
{
	char out[4096];
	record_run("--workload=softmax --strategy=asgd --workers=2 --epochs=1 --global-batch=51 "
		   "--record "
		   "--device=cpu");
	near(of("SELECT sum(pushes) FROM epoch"), 2 * 12, 0);
	int status = run_mvbench(
		"timeout 60 env",
		"--platform=sim --sim.replay=1 --sim.platform=ethernet_1g --sim.step-time=1ms", out,
		sizeof out);
	ck_assert_msg(status == EXIT_OK && strstr(out, "bit for bit"), "%d: %s", status, out);
	char *command AUTOFREE =
		sentence("./mvbench report --db=%s/run.db --out=%s/r.html && grep -o "
			 "'global-batch=51' %s/r.html | head -n 1",
			 folder, folder, folder);
	ck_assert_msg(command_output(command, out, sizeof out) == 0 &&
			      strstr(out, "global-batch=51"),
		      "%s", out);
	expect_refused("", "--workload=softmax --strategy=allreduce --workers=4 --global-batch=3",
		       "--global-batch=3: fewer rows than the 4 models");
	expect_refused("",
		       "--workload=softmax --strategy=allreduce --workers=2 --global-batch=64 "
		       "--batch=32",
		       "--global-batch=64: --batch=32 is the mini-batch of each worker");
}
