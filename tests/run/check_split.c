/*
 * check_split.c - data that differ between workers (--split), from outside: no row is lost, one
 * worker alone trains as before, real and simulated workers have the same rows; what is recorded of
 * them and refused.
 */
#include "tests/made.h"
#include "tests/suites.h"
#include "tests/trained.h"

#include <stdlib.h>
#include <string.h>

#define SOFTMAX "--workload=softmax --lr=0.05 --epochs=2 "
#define SIM     "--sim.platform=ethernet_10g --sim.step-time=1ms "

CASE("split", .limit = 120, .set_up = trained_data, .tear_down = folder_free, .once = true);

/* 2,400 rows are not a multiple of the rows that three workers take in a step. */
TEST(split_trains_on_every_row_once)
{
	static const char *const split[] = {"fixed", "dirichlet:0.05", "dirichlet_classes:0.05"};
	const char *how[COUNT(split)];
	struct result r[COUNT(split)];
	for (size_t i = 0; i < COUNT(split); i++)
		how[i] = words(SOFTMAX "--batch=31 --strategy=periodic --sync-every=5 --split=%s",
			       split[i]);
	train_all(3, COUNT(split), how, r);
	for (size_t i = 0; i < COUNT(split); i++) {
		ck_assert_double_eq(r[i].rows, TRAIN_ROWS);
		ck_assert_double_eq(r[i].numbers, TRAIN_ROWS / 2.0 * (TRAIN_ROWS - 1));
		ck_assert_double_lt(r[i].test_loss, 0.9 * r[i].first_test_loss);
	}
}

/* With dynamic assignment an epoch has as many rows as the training set; a worker's own come first.
 * On a busy machine one worker may train on nearly all: more epochs than elsewhere. */
#define LONGER "--epochs=5 "
TEST(dynamic_split_trains_on_as_many_rows)
{
	static const char *const how[] = {
		SOFTMAX LONGER "--batch=31 --strategy=asgd --deal=dynamic --split=fixed",
		SOFTMAX LONGER "--batch=31 --strategy=ssp --deal=dynamic --split=dirichlet:0.05",
		SOFTMAX LONGER
		"--batch=31 --strategy=easgd --sync-every=3 --deal=dynamic --split=dirichlet:1",
		SOFTMAX LONGER
		"--batch=31 --strategy=asgd --deal=dynamic --split=fixed --speed=1:0.1"};
	struct result r[COUNT(how)];
	train_all(3, COUNT(how), how, r);
	for (size_t i = 0; i < COUNT(how); i++) {
		ck_assert_double_eq(r[i].rows, TRAIN_ROWS);
		ck_assert_double_lt(r[i].test_loss, 0.9 * r[i].first_test_loss);
	}
}

TEST(split_of_one_worker_has_all_rows)
{
	expect_same(1, SOFTMAX "--batch=31 --strategy=serial --split=fixed", 1,
		    SOFTMAX "--batch=31 --strategy=serial", 0);
	expect_same(2, SOFTMAX "--batch=31 --strategy=model_parallel --split=dirichlet:0.1", 1,
		    SOFTMAX "--batch=31 --strategy=serial", 1e-5);
}

TEST(simulated_split_equals_the_real_one)
{
	static const char *const split[] = {"shuffled", "fixed", "dirichlet:0.1",
					    "dirichlet_classes:0.1"};
	const char *how[COUNT(split)];
	struct result real[COUNT(split)];
	for (size_t i = 0; i < COUNT(split); i++)
		how[i] = words(SOFTMAX "--batch=30 --strategy=periodic --sync-every=7 --split=%s",
			       split[i]);
	train_all(2, COUNT(split), how, real);
	for (size_t i = 0; i < COUNT(split); i++) {
		struct result sim = run_simulated(2, words("%s " SIM, how[i]));
		ck_assert_msg(sim.status == 0, "%s: %s", how[i], sim.output);
		ck_assert_double_le(distance(&sim, &real[i]), 1e-6);
		for (size_t k = 0; k < i; k++)
			ck_assert_double_gt(distance(&real[k], &real[i]), 1e-4);
	}
}

/* 2,400 rows of ten classes, four workers, and the rows of each. */
TEST(rows_of_each_worker_are_recorded)
{
	static const char all[] =
		"SELECT count(*), count(DISTINCT worker), sum(rows), "
		"max(n) - min(n), max(top) > 0.3, max(top) < 0.2 FROM (SELECT *, "
		"sum(rows) OVER w AS n, max(rows) OVER w * 1.0 / sum(rows) OVER w "
		"AS top FROM shard WINDOW w AS (PARTITION BY worker))";
	static const struct {
		const char *words, *want;
	} row[] = {
		{"--strategy=allreduce --workers=4 --split=fixed", "40,4,2400,0,0,1\r\n"},
		{"--strategy=allreduce --workers=4 --split=dirichlet:0.05", "40,4,2400,0,1,0\r\n"},
		{"--strategy=hybrid --hybrid.group=2 --workers=4 --split=dirichlet:1e6",
		 "20,2,2400,0,0,1\r\n"},
		{"--strategy=allreduce --workers=4", "0,0,,,,\r\n"},
	};
	for (size_t i = 0; i < COUNT(row); i++) {
		char *how AUTOFREE = sentence(
			SOFTMAX "--epochs=1 --batch=30 --platform=sim " SIM "%s", row[i].words);
		expect_recorded("", how, all, row[i].want);
	}
	char out[512];
	char *export AUTOFREE = sentence("./mvbench export --table=shards --db=%s/run.db", folder);
	expect_recorded("",
			SOFTMAX "--epochs=1 --batch=30 --strategy=asgd --workers=2 --split=fixed "
				"--deal=auto --platform=sim " SIM,
			"SELECT split, deal, min(worker), max(worker), sum(rows) FROM run "
			"JOIN shard ON run_id = id",
			"fixed,dynamic,0,1,2400\r\n");
	ck_assert_int_eq(command_output(export, out, sizeof out), EXIT_OK);
	ck_assert_msg(strstr(out, "run_id,worker,class,rows\r\n1,0,0,"), "%s", out);
	expect_recorded(
		"",
		"--workload=perceptron --epochs=1 --strategy=allreduce --workers=2 "
		"--split=fixed --platform=sim " SIM,
		"SELECT group_concat(worker || ' ' || class || ' ' || rows, '; ') FROM shard",
		"0 -1 5000; 1 -1 5000\r\n");
}

/* The recorded order only fits workers that train on the same rows. */
TEST(replay_has_the_same_split)
{
	expect_recorded("",
			SOFTMAX "--batch=30 --strategy=asgd --workers=2 --split=dirichlet:0.2 "
				"--record",
			"SELECT status FROM run", "done\r\n");
	char out[4096];
	int status = run_mvbench("", "--platform=sim --sim.replay=1 " SIM, out, sizeof out);
	ck_assert_msg(status == EXIT_OK, "%s", out);
	expect_row("SELECT a.model_hash IS b.model_hash, b.split, (SELECT count(*) FROM shard "
		   "WHERE run_id = 2), EXISTS (SELECT worker, class, rows FROM shard WHERE run_id "
		   "= 1 EXCEPT SELECT worker, class, rows FROM shard WHERE run_id = 2) FROM run AS "
		   "a, run AS b WHERE a.id = 1 AND b.id = 2",
		   "1,dirichlet:0.2,20,0\r\n");
}

TEST(impossible_splits_are_refused)
{
	static const struct {
		const char *words, *says;
	} row[] = {
		{"--split=dirichlet:0",
		 "--split=dirichlet:0: give shuffled, fixed, dirichlet:ALPHA or "},
		{"--split=dirichlet:-1", "--split=dirichlet:-1:"},
		{"--split=dirichlet:nan", "--split=dirichlet:nan:"},
		{"--split=dirichlet:", "--split=dirichlet::"},
		{"--split=dirichlet", "--split=dirichlet:"},
		{"--split=dirichlet_classes:0", "--split=dirichlet_classes:0:"},
		{"--split=dirichlet_classes", "--split=dirichlet_classes:"},
		{"--split=even", "--split=even:"},
		{"--split=dirichlet:1 --workload=perceptron --strategy=allreduce --workers=2",
		 "--split=dirichlet:1: it divides the rows by class"},
	};
	for (size_t i = 0; i < COUNT(row); i++)
		expect_refused("", row[i].words, row[i].says);
}
