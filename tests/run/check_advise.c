/*
 * check_advise.c - mvbench advise: its ranking compared with a sweep of the same cells, the
 * calibrations and recorded runs that it uses, and what it refuses.
 */
#include "results/ask/ask.h"
#include "tests/made.h"
#include "tests/suites.h"
#include "tests/trained.h"

#include <math.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OUTPUT = 65536, TRAIN = 6400, BATCH = 32, BINS = 64 };
enum { STEPS_ONE = TRAIN / BATCH };

#define CLUSTER \
	"--workers=2 --platform=sim --sim.platform=ethernet_1g --sim.step-time=1ms " \
	"--sim.update-time=200us "
/* Of a job file with the same setup. */
#define CLUSTER_JOB \
	"[defaults]\n" \
	"workload = softmax\n" \
	"workers = 2\n" \
	"platform = sim\n" \
	"sim.platform = ethernet_1g\n" \
	"sim.step-time = 1ms\n" \
	"sim.update-time = 200us\n"

static char out[OUTPUT];

static void set_up(void)
{
	folder_new();
	idx_put_set(TRAIN, 320, false, '-');
}

/* Runs mvbench advise for softmax on the folder's data and database; it trains, and simulates
 * changes, only if the words say so. Its stderr goes to file err. */
static int advise(const char *words)
{
	char *command AUTOFREE =
		sentence("mkdir -p %s/tmp && TMPDIR=%s/tmp ./mvbench advise --workload=softmax "
			 "--batch=%d --data-dir=%s --db=%s/run.db %s %s %s 2>%s/err",
			 folder, folder, BATCH, folder, folder,
			 strstr(words, "--train=") ? "" : "--train=0s",
			 strstr(words, "--changes") ? "" : "--changes=false", words, folder);
	int status = command_output(command, out, sizeof out);
	char *tmp AUTOFREE = sentence("%s/tmp", folder);
	ck_assert_msg(rmdir(tmp) == 0, "%s: files are left in %s", words, tmp);
	return status;
}

static void ck_advise(int status, const char *words, const char *says)
{
	int got = advise(words);
	char *err AUTOFREE = folder_read("err");
	ck_assert_msg(got == status && (strstr(out, says) || strstr(err, says)),
		      "%s: status %d, wanted \"%s\":\n%.2000s%.2000s", words, got, says, out, err);
}

/* The same; sentences lose their line breaks. */
static void ck_sentence(const char *words, const char *says)
{
	ck_advise(0, words, "");
	for (char *at = out; (at = strstr(at, "\n  "));)
		memmove(at, at + 2, strlen(at + 2) + 1);
	ck_assert_msg(strstr(out, says), "%s: wanted \"%s\":\n%.3000s", words, says, out);
}

/* A number from the rows of a JSON answer; NaN: there is none. */
static double number(const char *sql)
{
	char *rows AUTOFREE = sentence("[%s", out);
	for (char *at = rows; (at = strchr(at, '\n'));)
		*at = at[1] ? ',' : ']';
	sqlite3 *db;
	ck_assert_int_eq(sqlite3_open(":memory:", &db), SQLITE_OK);
	char *quoted = sqlite3_mprintf(sql, rows);
	double x = made_number(db, quoted);
	sqlite3_free(quoted);
	sqlite3_close(db);
	return x;
}

/* x 0: a strategy without an interval. */
static double ranked(const char *column, const char *strategy, int x)
{
	char *sql AUTOFREE = sentence("SELECT value ->> '%s' FROM json_each(%%Q) WHERE value ->> "
				      "'strategy' = '%s' AND ifnull(value ->> 'sync_every', 0) = "
				      "%d",
				      column, strategy, x);
	return number(sql);
}

static void ck_share(double x, double y, double share)
{
	ck_assert_msg(fabs(x - y) <= share * fabs(y), "%.9g is not within %g of %.9g", x, share, y);
}

static void sweep(const char *jobs, const char *db)
{
	folder_text("job.ini", jobs);
	char *command AUTOFREE =
		sentence("./mvbench sweep %s/job.ini --batch=%d --data-dir=%s --db=%s/%s 2>&1",
			 folder, BATCH, folder, folder, db);
	ck_assert_msg(command_output(command, out, sizeof out) == 0, "%s", out);
}

CASE("advise", .limit = 60, .set_up = set_up, .tear_down = folder_free);

/* ---- Simulated clusters -------------------------------------------------- */

/* A schedule takes all epochs: X is 4, 2 and 1. */
static const char compared[] = CLUSTER_JOB "sim.train = false\n"
					   "[one]\n"
					   "strategy = serial\n"
					   "workers = 1\n"
					   "epochs = 1\n"
					   "[two]\n"
					   "strategy = allreduce, model_parallel\n"
					   "epochs = 1\n"
					   "[apart]\n"
					   "strategy = asgd, gossip\n"
					   "sync-every = 4\n"
					   "epochs = 1\n"
					   "[down]\n"
					   "strategy = periodic\n"
					   "sync-every = 4\n"
					   "periodic.schedule = down\n"
					   "epochs = 3\n";

static double swept(const char *strategy)
{
	char *sql AUTOFREE = sentence("SELECT seconds_total / epochs_done FROM run_summary WHERE "
				      "strategy = '%s'",
				      strategy);
	return number_in("sweep.db", sql);
}

TEST(ranking_equals_a_sweep_of_the_same_cells)
{
	static const char *const paced[] = {"asgd", "gossip"}, *const other[] = {"serial",
										 "allreduce",
										 "model_parallel"};
	sweep(compared, "sweep.db");
	ck_advise(0, CLUSTER "--epochs=3 --intervals=4 --format=json", "asgd");
	for (size_t i = 0; i < COUNT(paced); i++)
		ck_share(ranked("epoch_seconds", paced[i], 4), swept(paced[i]), 1e-9);
	for (size_t i = 0; i < COUNT(other); i++)
		ck_share(ranked("epoch_seconds", other[i], 0), swept(other[i]), 1e-9);
	ck_share(ranked("epoch_seconds", "periodic schedule=down", 4), swept("periodic"), 1e-9);
	ck_share(ranked("speedup", "asgd", 4), swept("serial") / swept("asgd"), 1e-9);
	ck_assert(ranked("staleness", "asgd", 4) > 0);
	/* every strategy is there, in the order of the times */
	for (int i = 0; strategies[i]; i++)
		ck_assert_msg(isfinite(ranked("epoch_seconds", strategies[i]->plugin.name,
					      strategy_has_interval(strategies[i]) ? 4 : 0)),
			      "%s is not ranked: %s", strategies[i]->plugin.name, out);
	ck_assert_double_eq(
		number("WITH r AS (SELECT value ->> 'epoch_seconds' AS s, value ->> 'place' AS i "
		       "FROM json_each(%Q)) SELECT count(*) FROM r AS a JOIN r AS b ON a.i < b.i "
		       "AND a.s > b.s"),
		0);
	/* nothing was recorded */
	char *path AUTOFREE = sentence("%s/run.db", folder);
	ck_assert_int_ne(access(path, F_OK), 0);
}

/* A cell of a codec takes the time of a run with it. Strategies without messages for a codec are
 * ranked once. */
TEST(codecs_are_ranked_as_in_a_sweep)
{
	sweep(CLUSTER_JOB "sim.train = false\nepochs = 1\nstrategy = allreduce\ncodec = topk\n",
	      "sweep.db");
	ck_advise(0, CLUSTER "--codecs=none,topk,topk:share=0.1 --intervals=4 --format=json", "");
	ck_share(ranked("epoch_seconds", "allreduce codec=topk", 0), swept("allreduce"), 1e-9);
	ck_assert_double_lt(ranked("epoch_seconds", "allreduce codec=topk", 0),
			    ranked("epoch_seconds", "allreduce codec=topk:share=0.1", 0));
	ck_assert_double_lt(ranked("epoch_seconds", "allreduce codec=topk", 0),
			    ranked("epoch_seconds", "allreduce", 0));
	ck_assert(isfinite(ranked("epoch_seconds", "periodic codec=topk", 4)));
	ck_assert(isfinite(ranked("epoch_seconds", "asgd codec=topk", 4)));
	ck_assert(isnan(ranked("epoch_seconds", "model_parallel codec=topk", 0)));
	ck_assert_double_eq(number("SELECT count(*) FROM json_each(%Q) WHERE value ->> 'strategy' "
				   "IN ('serial', 'model_parallel')"),
			    2);
}

static const char coded[] = CLUSTER_JOB "epochs = 2\nseed = 1, 2\nlabel = tried\n"
					"strategy = allreduce\n"
					"codec = none, topk\n";

TEST(recorded_runs_show_what_a_codec_costs)
{
	sweep(coded, "run.db");
	ck_advise(0, CLUSTER "--epochs=2 --codecs=none,topk --intervals=4 --label=tried",
		  "Compared with allreduce, allreduce codec=topk changed the test accuracy");
	ck_assert_ptr_null(strstr(out, "X=0"));
}

/* Worker 1 is four times slower: rounds wait for it, asgd gives it less to do. */
TEST(slow_worker_makes_asynchronous_strategies_win)
{
	ck_advise(0,
		  CLUSTER "--speed=1:0.25 --intervals=8 --format=json "
			  "--label=\"'; DROP TABLE run; --\"",
		  "Not simulated:");
	double alone = ranked("epoch_seconds", "asgd", 8);
	ck_assert_double_lt(alone, 0.6 * ranked("epoch_seconds", "allreduce", 0));
	ck_assert_double_lt(alone, 0.6 * ranked("epoch_seconds", "bsp", 8));
	ck_assert_double_gt(ranked("wait_fraction", "bsp", 8), 0.2);
	char *err AUTOFREE = folder_read("err");
	const char *not_simulated = strstr(err, "Not simulated:");
	ck_assert(not_simulated && strstr(not_simulated, "serial"));
}

/* The strategies whose epoch_time has an X, and only these, take other times with another X. One
 * without an X that reads the interval ends its run. */
TEST(epoch_time_names_the_interval, LISTED(strategies))
{
	const struct strategy *s = strategies[_i];
	char *jobs AUTOFREE = sentence(CLUSTER_JOB "sim.train = false\n"
						   "epochs = 1\n"
						   "sync-every = 1, 4\n"
						   "strategy = %s\n%s",
				       s->plugin.name, s->local ? "[one]\nworkers = 1\n" : "");
	sweep(jobs, "run.db");
	ck_assert_int_eq(
		(int)number_in("run.db", "SELECT count(DISTINCT epoch_seconds) FROM run_summary"),
		strategy_has_interval(s) ? 2 : 1);
}

/* ---- Recorded runs ------------------------------------------------------- */

static const char trained[] = CLUSTER_JOB "epochs = 2\n"
					  "seed = 1, 2\n"
					  "label = tried\n"
					  "[every step]\n"
					  "strategy = allreduce\n"
					  "[local]\n"
					  "strategy = periodic\n"
					  "sync-every = 4\n";

TEST(recorded_runs_show_what_an_interval_costs)
{
	sweep(trained, "run.db");
	ck_sentence(CLUSTER "--epochs=2 --intervals=4 --label=tried",
		    "Compared with allreduce, periodic changed the test accuracy here, in points: "
		    "X=4 ");
	ck_assert_ptr_nonnull(strstr(out, " (2) (medians; in brackets the runs; 2 of allreduce)"));
	ck_assert_ptr_null(strstr(out, "No run here"));
	/* the median of a run and one that diverged */
	sql_in("run.db",
	       "UPDATE run SET status = 'diverged' WHERE strategy = 'periodic' AND seed = "
	       "(SELECT min(seed) FROM run)");
	ck_sentence(CLUSTER "--epochs=2 --intervals=4 --label=tried", "X=4 diverged");
	/* runs of another length, or with another label, say nothing */
	ck_advise(0, CLUSTER "--epochs=3 --intervals=4 --label=tried --format=json", "periodic");
	ck_assert(isnan(ranked("test_accuracy", "allreduce", 0)));
	ck_advise(0, CLUSTER "--epochs=2 --intervals=4 --label=other --format=json", "periodic");
	ck_assert(isnan(ranked("test_accuracy", "allreduce", 0)));
	expect_in("run.db", "SELECT count(*) FROM run", "4"); /* none was added */
}

TEST(accuracies_are_those_of_selected_runs)
{
	sweep(trained, "run.db");
	ck_advise(0, CLUSTER "--epochs=2 --intervals=4 --where=seed=2 --format=json", "periodic");
	ck_share(ranked("test_accuracy", "periodic", 4),
		 number_in("run.db", "SELECT test_accuracy FROM run_summary WHERE strategy = "
				     "'periodic' AND seed = 2"),
		 1e-12);
	ck_assert_double_eq(ranked("accuracy_n", "allreduce", 0), 1);
	/* these have another schedule, or another strategy */
	ck_assert(isnan(ranked("test_accuracy", "periodic schedule=down", 4)));
	ck_assert(isnan(ranked("test_accuracy", "asgd", 4)));
	/* as do these: another option of the training, or of the optimiser */
	sql_in("run.db",
	       "UPDATE run SET decay = 'weights' WHERE strategy = 'periodic';"
	       "INSERT INTO run_option (run_id, part, name, value) SELECT id, 'optimizer', "
	       "'beta2', '0.9' FROM run WHERE strategy = 'allreduce'");
	ck_advise(0, CLUSTER "--epochs=2 --intervals=4 --where=seed=2 --format=json", "periodic");
	ck_assert(isnan(ranked("test_accuracy", "periodic", 4)));
	ck_assert(isnan(ranked("test_accuracy", "allreduce", 0)));
}

static const char exact_jobs[] = CLUSTER_JOB "epochs = 2\n"
					     "label = tried\n"
					     "[one]\n"
					     "strategy = serial\n"
					     "workers = 1\n"
					     "[two]\n"
					     "strategy = allreduce\n";

static double tried(const char *strategy)
{
	char *sql AUTOFREE = sentence("SELECT test_accuracy FROM run_summary WHERE label = 'tried' "
				      "AND strategy = '%s'",
				      strategy);
	return number_in("run.db", sql);
}

/* Workers that share a model train as one worker, those with a model each as allreduce. */
TEST(exact_strategies_have_the_accuracy_of_their_global_batch)
{
	static const char *const shares[] = {"serial", "model_parallel", "hybrid"};
	sweep(exact_jobs, "run.db");
	sweep(CLUSTER_JOB "epochs = 2\nstrategy = model_parallel\n", "sweep.db");
	ck_advise(0, CLUSTER "--epochs=2 --intervals=4 --label=tried --format=json", "asgd");
	for (size_t i = 0; i < COUNT(shares); i++)
		ck_share(ranked("test_accuracy", shares[i], 0), tried("serial"), 1e-12);
	ck_share(ranked("test_accuracy", "allreduce overlap", 0), tried("allreduce"), 1e-12);
	ck_share(ranked("test_accuracy", "model_parallel", 0),
		 number_in("sweep.db", "SELECT test_accuracy FROM run_summary"), 0.02);
	ck_assert(isnan(ranked("test_accuracy", "asgd", 4)));
}

/* A strategy that is known to lose more is no choice, however fast; one that loses less is. */
TEST(one_rule_decides_what_is_accurate_enough)
{
	static const struct {
		double lost;
		const char *says;
	} row[] = {
		{0.0052, "More than half a point is lost against allreduce by periodic with X=64 "
			 "(-0.52, 2 runs)."},
		{0.0048, " % (79.52..79.52), -0.48 points from allreduce (2 runs, and 2 of "
			 "allreduce)."},
	};
	char *jobs AUTOFREE = text_replaced(trained, "sync-every = 4", "sync-every = 64");
	sweep(jobs, "run.db");
	for (size_t i = 0; i < COUNT(row); i++) {
		char *change AUTOFREE = sentence(
			"UPDATE epoch SET test_accuracy = 0.8 - %g * (SELECT strategy = 'periodic' "
			"FROM run WHERE id = run_id); UPDATE run SET status = status",
			row[i].lost);
		sql_in("run.db", change);
		ck_sentence(CLUSTER "--epochs=2 --intervals=64 --label=tried --sim.rate=10mbit",
			    row[i].says);
		ck_assert_msg(!strstr(out, "Choose periodic with") == (i == 0), "%s", out);
		ck_assert_msg(!strstr(out, "lost against allreduce by") == (i == 1), "%s", out);
	}
}

/* ---- This machine -------------------------------------------------------- */

static const double alone_s = 0.002, together_s = 0.004; /* of a step */

/* With one worker, and with two. */
static void make_calibrations(void)
{
	static const struct {
		const char *name;
		double x, s;
	} cost[] = {
		{"allreduce", 7850, 1500e-6}, {"sgd", 7850, 300e-6},     {"scale", 7850, 75e-6},
		{"sync", 7850, 900e-6},       {"sync", 1, 1e-6},         {"elastic", 7850, 450e-6},
		{"push", 7850, 600e-6},       {"read", 7850, 240e-6},    {"axpy", 7850, 120e-6},
		{"message", 4, 5e-6},         {"message", 31400, 510e-6}};
	sqlite3 *db = made_open("run.db");
	for (int workers = 1; workers <= 2; workers++) {
		made_format(
			db,
			"INSERT INTO calibration (id, made, device, precision, threads, workload, "
			"workload_options, batch, params, workers, cores) VALUES (%d, "
			"'2026-01-01', 'cpu', 'float32', 1, 'softmax', '', %d, 7850, %d, 2)",
			workers, BATCH, workers);
		for (int k = 0; k < BINS; k++)
			made_format(db,
				    "INSERT INTO calibration_point VALUES (%d, 'step', %d, %!.17g)",
				    workers, k, workers == 1 ? alone_s : together_s);
		for (size_t i = 0; i < COUNT(cost); i++)
			made_format(db,
				    "INSERT INTO calibration_point VALUES (%d, %Q, %!.17g, %!.17g)",
				    workers, cost[i].name, cost[i].x, cost[i].s);
	}
	sqlite3_close(db);
}

TEST(this_machine_is_simulated_as_calibrated)
{
	int place;
	double seconds = 0;
	make_calibrations();
	ck_advise(0, "--workers=2 --intervals=4 --reduce=sum", "2 workers on simulated local");
	const char *row = strstr(out, " serial ");
	ck_assert_msg(row, "%s", out);
	while (row > out && row[-1] != '\n')
		row--;
	ck_assert_msg(sscanf(row, "%d serial - %lf", &place, &seconds) == 2, "%s", row);
	ck_share(seconds, STEPS_ONE * alone_s, 0.01);
	ck_assert_ptr_nonnull(strstr(out, "Not simulated:"));
	ck_assert_ptr_nonnull(strstr(out, "--reduce=sum: gossip averages"));
	ck_assert_ptr_nonnull(strstr(out, "steps (step + push and pull / X)"));
	ck_assert_ptr_nonnull(strstr(out, "No run here"));
	ck_advise(0, "--workers=2 --intervals=4 --sim.step-factor=3 --format=json", "asgd");
	ck_share(ranked("epoch_seconds", "serial", 0), 3 * STEPS_ONE * alone_s, 0.01);
}

TEST(calibration_of_a_busy_machine_is_doubted)
{
	const char *const doubt = "of its cores, because other processes ran";
	make_calibrations();
	sql_in("run.db", "INSERT INTO calibration_point SELECT id, 'cores_share', 0, 0.95 FROM "
			 "calibration");
	ck_advise(0, "--workers=2 --intervals=4", "2 workers on simulated local");
	ck_assert_msg(!strstr(out, doubt), "%s", out);
	sql_in("run.db", "UPDATE calibration_point SET value = 0.5 WHERE name = 'cores_share'");
	ck_sentence("--workers=2 --intervals=4", doubt);
	ck_assert_msg(strstr(out, "mvbench calibrate --workload=softmax --batch=32"), "%s", out);
	new_database("run.db");
	char *command AUTOFREE = sentence(
		"p=; for i in 1 2 3; do taskset -c 0 sh -c 'while :; do :; done' & "
		"p=\"$p $!\"; done; "
		"taskset -c 0 ./mvbench calibrate --workload=softmax --batch=32 --data-dir=%s "
		"--counts=1 --seconds=0.2s --repetitions=1 --quiet-wait=1s --db=%s/run.db 2>&1; "
		"e=$?; kill $p; exit $e",
		folder, folder);
	ck_assert_msg(command_output(command, out, sizeof out) == 0, "%s", out);
	ck_assert_ptr_nonnull(strstr(out, "waiting until the cores are idle"));
	ck_assert_ptr_nonnull(strstr(out, "other processes ran: a measurement had only"));
	ck_assert_msg(!strstr(out, "--quiet-wait=60s"), "it has waited: %s", out);
	double share = number_in("run.db", "SELECT value FROM calibration_point WHERE name = "
					   "'cores_share'");
	ck_assert_double_gt(share, 0);
	ck_assert_double_lt(share, 0.9);
}

/* Messages between the hosts take the time of their calibrated links, not of this machine's memory.
 */
TEST(hostfile_is_simulated_with_its_links)
{
	char *words AUTOFREE =
		sentence("--workers=2 --hostfile=%s/hosts --sim.step-time=1ms", folder);
	char *asked AUTOFREE = sentence("%s --intervals=4 --format=json", words);
	char *one AUTOFREE = sentence("%s --workload=softmax --batch=%d --strategy=allreduce "
				      "--epochs=1 --platform=sim --sim.platform=hosts "
				      "--sim.train=false",
				      words, BATCH);
	folder_text("hosts", "a slots=1\nb slots=1\n");
	new_database("run.db");
	sql_in("run.db", "INSERT INTO calibration (id, made, device, precision, threads, workload,"
			 " workload_options, batch, params, workers, cores, hosts) VALUES (1, "
			 "'2026-01-01', 'cpu', 'float32', 1, 'softmax', '', 32, 7850, 2, 1, 'a,b');"
			 "INSERT INTO calibration_point VALUES (1, 'message', 4, 1e-4), "
			 "(1, 'message', 4096, 2e-4), (1, 'message', 65536, 1e-3), "
			 "(1, 'both', 65536, 1e-3)");
	ck_advise(0, asked, "asgd");
	record_run(one);
	ck_share(ranked("epoch_seconds", "allreduce", 0),
		 number_in("run.db", "SELECT epoch_seconds FROM run_summary"), 1e-9);
	ck_assert_double_gt(ranked("comm_fraction", "allreduce", 0), 0.1);
	/* without a hostfile or a placement: the hosts share the workers evenly */
	for (int workers = 1; workers <= 3; workers += 2) {
		char *bare AUTOFREE =
			sentence("--workers=%d --workload=softmax --batch=%d --strategy=%s "
				 "--epochs=1 --platform=sim --sim.platform=hosts "
				 "--sim.train=false --sim.step-time=1ms",
				 workers, BATCH, workers == 1 ? "serial" : "allreduce");
		record_run(bare);
	}
}

/* A user's one command from a model and a cluster to an answer with accuracy. */
TEST(advice_trains_the_fastest_until_one_is_accurate)
{
	const char *const words =
		CLUSTER "--epochs=2 --intervals=1,16 --sim.rate=100mbit --train=60s ";
	char *changed AUTOFREE = sentence("%s --changes", words);
	ck_sentence(changed, "Trained here in");
	ck_assert_msg(strstr(out, "- Choose ") && strstr(out, "- Choose ") < strstr(out, "speedup"),
		      "the answer comes first: %.3000s", out);
	ck_assert_msg(strstr(out, " of the strategies and intervals, in ") &&
			      strstr(out, "half the rate the answer ") &&
			      strstr(out, "twice the rate the answer ") &&
			      strstr(out, "half the step time the answer ") &&
			      strstr(out, "twice the step time the answer "),
		      "%.3000s", out);
	/* each part of the work begins with a line, also in a pipe, and all but the first with the
	 * time left */
	char *err AUTOFREE = folder_read("err");
	ck_assert_msg(strstr(err, "mvbench: simulates ") &&
			      strstr(err, "mvbench: trains allreduce; about ") &&
			      strstr(err, " cells with half the rate; about "),
		      "%.3000s", err);
	ck_assert_msg(!strstr(out, "No run here"), "%.3000s", out);
	char *json AUTOFREE = sentence("%s --format=json", words);
	ck_advise(0, json, "asgd");
	double accuracy = ranked("test_accuracy", "allreduce", 0);
	ck_assert_msg(accuracy > 0 && accuracy <= 1, "%g: %.3000s", accuracy, out);
	/* of approximations only those that are surely faster */
	ck_assert_double_eq(
		number("WITH r AS (SELECT value ->> 'epoch_seconds' AS t, value ->> 'strategy' AS "
		       "s, value ->> 'test_accuracy' AS a FROM json_each(%Q)) SELECT count(*) FROM "
		       "r WHERE a IS NOT NULL AND s NOT IN ('serial', 'allreduce', 'allreduce "
		       "overlap', 'model_parallel', 'hybrid') AND 1.068 * t >= (SELECT t FROM r "
		       "WHERE s = 'allreduce')"),
		0);
	ck_assert_double_ge(number("SELECT max(value ->> 'accuracy_n') FROM json_each(%Q)"), 3);
	ck_sentence(CLUSTER "--epochs=2 --intervals=16", "let --train=1min train the fastest.");
	ck_assert_ptr_null(strstr(out, "half the rate"));
}

/* Steps of a second: no network matters, and all are ties. */
TEST(ties_are_counted_and_changes_keep_the_answer)
{
	const char *const words = CLUSTER "--intervals=1,64 --sim.step-time=1s ";
	char *json AUTOFREE = sentence("%s --format=json", words),
		   *changed AUTOFREE = sentence("%s --changes", words);
	ck_advise(0, json, "asgd");
	double ties = number(
		"WITH r AS (SELECT value ->> 'epoch_seconds' AS t, value ->> 'workers' AS w, value "
		"->> 'strategy' AS s FROM json_each(%Q)), c AS (SELECT min(t) AS t FROM r WHERE w "
		"> 1 AND s IN ('allreduce', 'allreduce overlap', 'model_parallel', 'hybrid')) "
		"SELECT count(*) - 1 FROM r JOIN c WHERE w > 1 AND r.t <= 1.068 * c.t AND 1.068 * "
		"r.t >= c.t");
	char *rest AUTOFREE = sentence("and %.0f more within 6.8 %%.", ties - 4);
	ck_assert_double_gt(ties, 4);
	ck_sentence(changed, rest);
	ck_assert_msg(strstr(out, "With half the rate the answer stays; with twice the rate the "
				  "answer stays.") &&
			      strstr(out, "With half the step time the answer stays; with twice "
					  "the step time the answer stays."),
		      "%.3000s", out);
	ck_assert_msg(strstr(out, "step-time 1s: "), "%.3000s", out);
	ck_assert_msg(strstr(out, " times as fast as allreduce") ||
			      strstr(out, "- Choose allreduce:"),
		      "%.3000s", out);
}

/* 50 epochs take longer than that: nothing is waited for, and no row has an accuracy. */
TEST(training_ends_with_its_time)
{
	ck_sentence(CLUSTER "--epochs=50 --intervals=16 --train=50ms",
		    "50 epochs of allreduce do not end within --train=0.05s");
	ck_advise(0, CLUSTER "--epochs=50 --intervals=16 --train=50ms --format=json", "asgd");
	ck_assert_double_eq(number("SELECT count(*) FROM json_each(%Q) WHERE value ->> "
				   "'test_accuracy' IS NOT NULL"),
			    0);
}

/* Simulations with twice the step time as the "real" runs of others: the error is so large that
 * every time is a tie, and an exact strategy is the choice. Few cells do not count. */
TEST(exact_strategy_wins_ties_within_the_validated_error)
{
	static const char jobs[] = CLUSTER_JOB "sim.train = false\n"
					       "epochs = 1\n"
					       "label = validate\n"
					       "seed = 1..%d\n"
					       "sim.step-factor = %d\n"
					       "[one]\n"
					       "strategy = allreduce, gossip\n";
	const char *const words = CLUSTER "--sim.rate=100mbit --intervals=64";
	for (int seeds = 4; seeds <= 5; seeds++) {
		char *real AUTOFREE = sentence(jobs, seeds, 1),
			   *simulated AUTOFREE = sentence(jobs, seeds, 40);
		forget_runs();
		sweep(real, "run.db");
		sql_in("run.db", "UPDATE run SET platform = 'mpi'");
		sweep(simulated, "run.db");
		ck_sentence(words, seeds < 5 ? "51 cells of mvbench validate on another machine"
					     : "10 cells of mvbench validate here");
		const char *choice = strstr(out, "- Choose ") + strlen("- Choose ");
		bool exact = strncmp(choice, "allreduce", 9) == 0 ||
			     strncmp(choice, "model_parallel", 14) == 0 ||
			     strncmp(choice, "hybrid", 6) == 0;
		ck_assert_msg(exact == (seeds == 5), "%.3000s", out);
	}
}

/* The lines of hundreds of cells would push the answer's context off the screen. */
TEST(cells_of_advice_have_no_lines_on_a_terminal)
{
	if (lacks_program("script"))
		return;
	char *command AUTOFREE = sentence(
		"TERM=xterm script -qec './mvbench advise --workload=softmax --batch=%d "
		"--data-dir=%s --db=%s/run.db --train=0s --changes=false --intervals=4 " CLUSTER
		"' /dev/null </dev/null 2>&1",
		BATCH, folder, folder);
	ck_assert_int_eq(command_output(command, out, sizeof out), 0);
	ck_assert_msg(strstr(out, "- Choose ") && !strstr(out, " of virtual time"), "%.3000s", out);
	ck_advise(0, CLUSTER "--intervals=4", " of virtual time");
}

TEST(advice_fits_the_terminal)
{
	setenv("COLUMNS", "80", 1);
	ck_advise(0, CLUSTER "--intervals=4 --changes --reduce=sum", "- Choose ");
	/* each part of the table, above its rule, names its rows */
	const char *above = "";
	for (const char *line = strtok(out, "\n"); line; above = line, line = strtok(NULL, "\n")) {
		ck_assert_msg(strlen(line) <= 80, "%s", line);
		if (*line && line[strspn(line, "- ")] == '\0')
			ck_assert_msg(strstr(above, "strategy"), "%s", above);
	}
}

TEST(rows_that_are_left_out_are_printed_with_all)
{
	int rows = 0;
	ck_advise(0, CLUSTER "--intervals=1,4,16", "rows: --all prints all)");
	ck_advise(0, CLUSTER "--intervals=1,4,16 --all", " easgd  ");
	for (const char *at = out; (at = strstr(at, " easgd  ")); at++)
		rows++;
	ck_assert_int_eq(rows, 3);
	ck_assert_ptr_null(strstr(out, "--all prints all"));
}

TEST(help_names_the_options_of_the_job)
{
	static const struct {
		const char *command, *names[12];
	} row[] = {
		{"advise",
		 {"--workload", "--epochs", "--db", "--sim.platform", "--sim.step-time",
		  "--sim.rate", "--sim.latency", "--sim.nodes", "--sim.gpus", "--sim.inner-rate"}},
		{"calibrate", {"--workload", "--quiet-wait", "--db", "--hostfile"}},
	};
	for (size_t i = 0; i < COUNT(row); i++) {
		char *command AUTOFREE = sentence("./mvbench %s --help", row[i].command);
		ck_assert_int_eq(command_output(command, out, sizeof out), 0);
		for (const char *const *name = row[i].names; *name; name++)
			ck_assert_msg(strstr(out, *name), "%s lacks %s", command, *name);
	}
}

/* ---- Refusals ------------------------------------------------------------ */

TEST(advise_mistakes_are_refused)
{
	ck_advise(2, "--workers=2", "run: mvbench calibrate --workload=softmax --batch=32");
	ck_advise(2, CLUSTER "--sim.platform=nosuch", "--sim.platform=nosuch: unknown platform");
	ck_advise(2, "--workers=1", "give --workers=2 or more");
	ck_advise(2, "--workers=2 --device=cuda", "--sim.platform=gpu4_nvlink, or --device=cpu");
	ck_advise(2, "--strategy=asgd", "advise compares them all");
	ck_advise(2, "--intervals=1,,2", "--intervals=1,,2: give whole numbers");
	ck_advise(2, "--intervals=0", "--intervals=0: give whole numbers");
	ck_advise(2, "--intervals=", "whole numbers");
	ck_advise(2, "--intervals=4x", "whole numbers");
	ck_advise(2, "--codecs=none,topkk",
		  "--codecs=none,topkk: give names of mvbench list codecs");
	ck_advise(2, "--codecs=none,topk --codec=int8", "leave one of the two out");
	ck_advise(2, "--formt=json", "did you mean --format?");
	ck_advise(2, "--momentm=1", "did you mean --momentum?");
	ck_advise(2, "--momentum=1", "--momentum=1");
	ck_advise(2, "word", "advise takes options only");
}

static const struct {
	const char *words, *says;
} checked_first[] = {
	{CLUSTER "--where='1); DROP TABLE run; --'", "--where="},
	{CLUSTER "--where=wrkers=1", "no such column: wrkers"},
	{CLUSTER "--out=/dev/null/x", "--out=/dev/null/x: the file cannot"},
	{CLUSTER, "run.db is not a results database"},
};

/* Nothing is simulated before these are checked. */
TEST(conditions_and_outputs_are_checked_first, COUNT(checked_first))
{
	if (_i == COUNT(checked_first) - 1)
		folder_text("run.db",
			    "this is no database, but has more than a hundred characters, which "
			    "is what the header of a database takes at least");
	ck_advise(2, checked_first[_i].words, checked_first[_i].says);
	char *err AUTOFREE = folder_read("err");
	ck_assert_ptr_null(strstr(err, "virtual time"));
}

TEST(stopped_advice_leaves_everything_as_it_was)
{
	char *command AUTOFREE = sentence(
		"cd %s && mkdir tmp && echo old >answer && touch err && export TMPDIR=$PWD/tmp; "
		"\"$OLDPWD/mvbench\" advise --workload=softmax --batch=%d --data-dir=. " CLUSTER
		"--out=answer 2>err & until grep -q 'virtual time' err || ! kill -0 $!; do "
		"sleep 0.05; done; kill -TERM $!; wait $!; echo $?; cat answer; rmdir tmp && ls",
		folder, BATCH);
	static const char left[] = "130\nold\nanswer\nerr\nt10k-";
	command_output(command, out, sizeof out);
	ck_assert_msg(strncmp(out, left, strlen(left)) == 0, "%s", out);
}
