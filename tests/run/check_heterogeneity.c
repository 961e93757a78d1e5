/*
 * check_heterogeneity.c - unequal workers: slow ones, ones that pause or leave, ones behind slow
 * links. In virtual time the effect on an epoch is known exactly; real workers must show about the
 * same.
 */
#include "sim/model/model.h"
#include "tests/made.h"
#include "tests/suites.h"
#include "tests/trained.h"

#include <stdlib.h>
#include <string.h>

/* 600 rows: 20 steps an epoch, of 30 rows for one worker, 15 for two. */
#define ONE "--workload=softmax --lr=0.01 --epochs=3 --batch=30 --strategy=serial "
#define TWO "--workload=softmax --lr=0.01 --epochs=3 --batch=15 --workers=2 "
/* A step takes 1 ms. On one host messages take almost no time. */
#define COSTS   "--platform=sim --sim.step-time=1ms --sim.update-time=0.001us "
#define SIM     COSTS "--sim.platform=$FOLDER/one.xml "
#define NETWORK COSTS "--sim.platform=$FOLDER/net.xml "

enum { STEPS = 20 };
static const double step_s = 1e-3;

static void set_up(void)
{
	folder_new();
	setenv("FOLDER", folder, 1);
	idx_put_set(600, 100, false, '-');
	put_hosts("one.xml", 1, 4, 0);
	put_hosts("net.xml", 4, 1, 0);
}

/* ---- Runs and what they recorded ---------------------------------------------- */

static double asked(const char *sql)
{
	return number_in("run.db", sql);
}

/* A column, or an expression, of an epoch's row. */
static double of(int run, int epoch, const char *what)
{
	char *sql AUTOFREE =
		sentence("SELECT %s FROM epoch WHERE run_id = %d AND epoch = %d", what, run, epoch);
	return asked(sql);
}

static double of_rank(int run, int epoch, int rank, const char *what)
{
	char *sql AUTOFREE =
		sentence("SELECT %s FROM rank_epoch WHERE run_id = %d AND epoch = %d AND "
			 "rank = %d",
			 what, run, epoch, rank);
	return asked(sql);
}

#define OTHER "seconds - compute_s - comm_s - wait_s"

/* ---- Slow workers --------------------------------------------------------------- */

CASE("heterogeneity", .limit = 120, .set_up = set_up, .tear_down = folder_free, .once = true);

/* All steps of a slow worker take longer by the same factor, also straggling ones. */
TEST(slow_worker_takes_longer, 2)
{
	static const char *const how[] = {"", "--straggle=0.5 "};
	char *plain AUTOFREE = sentence(ONE SIM "%s", how[_i]),
		    *slow AUTOFREE = sentence(ONE SIM "--speed=0:0.25 %s", how[_i]);
	record_only(plain);
	record_run(slow);
	for (int e = 1; e <= 3; e++) {
		if (_i == 0)
			ck_near("an epoch", of(1, e, "seconds"), STEPS * step_s, 1e-8);
		else
			ck_assert_double_gt(of(1, e, "seconds"), 1.05 * STEPS * step_s);
		ck_near("at a quarter of the speed", of(2, e, "seconds"), 4 * of(1, e, "seconds"),
			1e-6);
		ck_near("all of it computing", of(2, e, "compute_s"), of(2, e, "seconds"), 1e-8);
		ck_near("the same model", of(2, e, "test_loss"), of(1, e, "test_loss"), 0);
	}
}

/* A worker that waits for a slow worker is as slow as it; a worker that does not wait keeps its
 * speed. */
TEST(slow_worker_slows_workers_that_wait_for_it)
{
	const double slow = 2 * STEPS * step_s;
	record_only(TWO SIM "--strategy=allreduce");
	record_run(TWO SIM "--strategy=allreduce --speed=1:0.5");
	record_run(TWO SIM "--strategy=asgd --deal=static --barrier-every=0 --speed=1:0.5");
	record_run(TWO SIM
		   "--strategy=ssp --deal=static --ssp.bound=2 --barrier-every=0 --speed=1:0.5");
	ck_near("allreduce", of(2, 2, "seconds") - of(1, 2, "seconds"), slow / 2, 1e-6);
	ck_near("its slow worker", of_rank(2, 2, 1, "compute_s"), slow, 1e-6);
	ck_near("its fast worker", of_rank(2, 2, 0, "compute_s"), slow / 2, 1e-6);
	ck_near("which waits", of_rank(2, 2, 0, "wait_s"), slow / 2, 1e-4);
	ck_near("asgd's slow worker", of_rank(3, 1, 1, "seconds"), slow, 1e-4);
	ck_near("asgd's fast worker", of_rank(3, 1, 0, "seconds"), slow / 2, 1e-4);
	/* it waits when it is three pushes ahead; by then the slow worker has made one */
	ck_near("ssp's fast worker", of_rank(4, 1, 0, "seconds"), slow - 4 * step_s,
		1.01 * 2 * step_s);
	/* an epoch ends, for all, when its last row has been trained on */
	for (int e = 1; e <= 3; e++)
		ck_near("an epoch of asgd", of(3, e, "seconds"), slow, 1e-4);
	ck_near("all epochs", asked("SELECT sum(seconds) FROM epoch WHERE run_id = 3"), 3 * slow,
		1e-4);
}

/* ---- Dynamic assignment of mini-batches ---------------------------------- */

/* 20 x 2 mini-batches, 1 1/2 of them in the time of a step. */
TEST(slow_worker_takes_fewer_mini_batches, 6)
{
	static const char *const how[] = {
		"asgd",  "ssp --ssp.bound=100", "downpour",
		"easgd", "asgd --servers=1",    "asgd --table-home=onesided"};
	const double all = 2 * STEPS * step_s;
	char *words AUTOFREE = sentence(
		TWO SIM "--deal=auto --speed=1:0.5 --barrier-every=0 --strategy=%s", how[_i]);
	record_only(words);
	ck_near(words, asked("SELECT sum(seconds) FROM epoch"), 3 * all / 1.5, 1.01 * 2 * step_s);
	for (int e = 1; e <= 3; e++) {
		double slow = of_rank(1, e, 1, "compute_s") / 2;
		ck_near(words, of_rank(1, e, 0, "compute_s") + slow, all, 1e-5);
		ck_near(words, slow, all / 3, 1.01 * 2 * step_s);
	}
	ck_near("its deal", asked("SELECT deal = 'dynamic' FROM run"), 1, 0);
}

/* With a barrier at the end of each epoch, epochs take the same time: what a slow worker lacks at a
 * barrier is not made up for after it. */
TEST(staleness_bound_counts_from_the_last_barrier, 4)
{
	static const char *const where[] = {"", "--servers=1", "--servers=2",
					    "--table-home=onesided"};
	char *words AUTOFREE =
		sentence("--workload=softmax --lr=0.01 --epochs=5 --batch=10 --workers=3 "
			 "--strategy=ssp --ssp.bound=20 --speed=2:0.3 --deal=dynamic " SIM "%s",
			 where[_i]);
	record_only(words);
	for (int e = 1; e <= 5; e++)
		ck_near(words, of(1, e, "seconds"), 3 * STEPS / 2.3 * step_s, 4 * step_s);
	ck_assert_double_gt(asked("SELECT min(a.pushes - b.pushes) FROM rank_epoch AS a JOIN "
				  "rank_epoch AS b USING (run_id, epoch) WHERE a.rank = 0 AND "
				  "b.rank = 2"),
			    5);
}

/* The slow worker's pushes are dropped; all workers train on their rows at the end. */
TEST(slow_backup_worker_is_not_waited_for)
{
	record_only("--workload=softmax --lr=0.01 --epochs=3 --batch=10 --workers=3 --strategy=bsp "
		    "--bsp.backup=1 --deal=auto --speed=2:0.5 " SIM);
	for (int e = 1; e <= 3; e++) {
		/* rounds of two workers; the slow worker's own last round ends up to two steps
		 * later */
		ck_near("an epoch", of(1, e, "seconds"), (3 * STEPS - 1) / 2.0 * step_s,
			2.6 * step_s);
		ck_near("pushes that count", of(1, e, "pushes"), 3 * STEPS, 0);
		ck_assert_double_ge(of(1, e, "dropped"), 10);
	}
}

#define THREE \
	"--workload=softmax --lr=0.01 --epochs=3 --batch=10 --workers=3 --speed=2:0.25 " SIM \
	"--strategy=bsp --bsp.backup=1 --bsp.late=join --barrier-every=0 "

/* 60 mini-batches an epoch. Two workers push every 1 ms, the third every 4 ms. Rounds of two let
 * each go on at its speed. With 1.5 ms of grace, rounds end after 2.5 ms and after 4 ms, when the
 * third has pushed, too. A long grace waits for all. No push is dropped. */
TEST(quorum_waits_for_late_pushes_in_its_grace, 6)
{
	static const char *const where[] = {"", "--servers=1"}, *const grace[] = {"0s", "1.5ms",
										  "1s"};
	/* without grace: with servers the slow worker's push comes before those of the same moment,
	 * the round is full after one more, and the other one waits for the next round */
	const double want[] = {_i % 2 ? 3 * 60 / 2.0 : 3 * 60 / 2.25, 3 * 60 * 4 / 5.0,
			       3 * 60 * 4 / 3.0};
	char *words AUTOFREE = sentence(THREE "--bsp.grace=%s %s", grace[_i / 2], where[_i % 2]);
	record_only(words);
	ck_near(words, asked("SELECT sum(seconds) FROM epoch"), want[_i / 2] * 1e-3,
		0.05 * want[_i / 2] * 1e-3 + 4e-3);
	ck_near(words, asked("SELECT sum(dropped) FROM epoch"), 0, 0);
}

/* Intervals follow the speeds: of equally fast workers they are all X, bit for bit. A worker at
 * half the speed has X / 2. A pause decides which worker comes first. */
TEST(dynamic_local_updates_follow_the_speeds)
{
	const char *how = TWO SIM "--strategy=asgd --sync-every=4 --barrier-every=0 "
				  "--pause=1:0s:300us ";
	char *dynamic AUTOFREE = sentence("%s --asgd.local=dynamic", how),
		      *slow AUTOFREE = sentence("%s --speed=1:0.5", dynamic);
	record_only(how);
	record_run(dynamic);
	record_run(slow);
	for (int e = 1; e <= 3; e++)
		ck_near("the same model", of(2, e, "test_loss"), of(1, e, "test_loss"), 0);
	ck_near("mean interval",
		asked("SELECT value FROM epoch_value WHERE run_id = 2 AND "
		      "epoch = 3 AND name = 'interval'"),
		4, 0);
	ck_near("mean interval",
		asked("SELECT value FROM epoch_value WHERE run_id = 3 AND "
		      "epoch = 3 AND name = 'interval'"),
		3, 0.2);
}

/* The epoch ends when the fast worker is done: it takes the mini-batches of the dropped pushes, and
 * those that the slow worker would finish last. */
TEST(fast_workers_finish_the_epoch, 9)
{
	static const char *const placement[] = {"", "--servers=1", "--servers=2"};
	static const char *const slow[] = {"0.02", "0.05", "0.1"};
	record_only(words("--workload=softmax --lr=0.01 --epochs=3 --batch=6 --workers=2 "
			  "--strategy=bsp --bsp.backup=1 --deal=auto --sim.train=%s --speed=1:%s "
			  "%s " SIM,
			  _i % 2 ? "false" : "true", slow[_i % 3], placement[_i / 3]));
	for (int e = 1; e <= 3; e++) {
		ck_near("an epoch", of(1, e, "seconds"), 100 * step_s, 3.5 * step_s);
		ck_near("pushes that count", of(1, e, "pushes"), 100, 0);
	}
}

/* Their number is recorded, and reported at the end of the run. */
TEST(lost_rows_are_counted, 2)
{
	static const char *const deal[] = {"static", "dynamic"};
	char out[4096];
	forget_runs();
	int status = run_mvbench("",
				 words("--workload=softmax --epochs=2 --batch=10 --workers=3 "
				       "--strategy=bsp --bsp.backup=1 --sync-every=4 --deal=%s "
				       "--speed=2:0.7 " SIM,
				       deal[_i]),
				 out, sizeof out);
	ck_assert_int_eq(status, EXIT_OK);
	double lost = asked("SELECT total(value * reports) FROM epoch_value "
			    "WHERE name = 'rows of a dropped push'"),
	       pushes = asked("SELECT sum(dropped) FROM epoch");
	ck_assert_double_ge(pushes, 4);
	char *says AUTOFREE = sentence("%.0f rows were not trained on", lost);
	if (_i == 0) {
		/* an epoch has 20 steps of 10 rows: 5 pushes of 40 rows */
		ck_near("lost rows", lost, 40 * pushes, 0);
		ck_assert_msg(strstr(out, says), "no \"%s\": %s", says, out);
	} else {
		ck_near("lost rows", lost, 0, 0);
		ck_assert_msg(!strstr(out, "not trained on"), "%s", out);
	}
}

/* A worker that is behind and only reads the model for an evaluation stays behind: its push is
 * dropped as before. Assignment is static: a dynamic epoch ends in a race for the last
 * mini-batches, and a read takes a little time. */
TEST(evaluation_read_joins_no_bsp_round)
{
	static const char *const home[] = {"", "--servers=1"};
	for (int e = 0; e < 2; e++) {
		const char *how = words("--workload=softmax --lr=0.01 --epochs=2 --batch=3 "
					"--workers=3 --strategy=bsp --bsp.backup=1 "
					"--deal=static --sync-every=8 "
					"--speed=0:0.45,1:0.8 %s " SIM,
					home[e]);
		record_only(how);
		record_run(words("%s --eval-every=1", how));
		ck_near(home[e], asked("SELECT count(DISTINCT dropped) FROM epoch WHERE epoch = 2"),
			1, 0);
		/* at a server an evaluation read is a message, behind which others' messages
		 * wait */
		if (e == 0)
			ck_near("hashes", asked("SELECT count(DISTINCT model_hash) FROM run"), 1,
				0);
	}
}

/* The mean is over the pushes that count: here one push, so the mean is its sum. */
TEST(mean_is_over_pushes_that_count)
{
	record_only(TWO SIM
		    "--deal=auto --strategy=bsp --bsp.backup=1 --momentum=0.9 --speed=1:0.5 "
		    "--reduce=mean");
	record_run(TWO SIM "--deal=auto --strategy=bsp --bsp.backup=1 --momentum=0.9 --speed=1:0.5 "
			   "--reduce=sum");
	ck_near("models", asked("SELECT count(DISTINCT model_hash) FROM run"), 1, 0);
}

/* Worker 1's first two pushes come too late, or it is so slow that its only push comes when no
 * other worker is left. Both bring the same gradient, except for the model's change until then. If
 * the two dropped gradients stayed in v, it would bring nearly three. */
TEST(dropped_push_drops_its_gradient)
{
	static const char *const how =
		"--workload=softmax --lr=%s --momentum=0.9 --epochs=1 "
		"--batch=150 --strategy=bsp --bsp.backup=1 --deal=auto --speed=1:%s " SIM;
	struct result dropped = run_simulated(2, words(how, "1e-4", "0.7")),
		      alone = run_simulated(2, words(how, "1e-4", "0.3")),
		      untrained = run_simulated(2, words(how, "0", "0.3"));
	ck_assert_msg(dropped.params == alone.params && alone.params > 0, "%s", dropped.output);
	double moved = distance(&untrained, &alone), apart = distance(&dropped, &alone);
	ck_assert_msg(apart < 0.03 * moved, "%g apart, where training moves %g", apart, moved);
}

/* Every row of an epoch is trained on once. With lr 0 the mean loss is serial's. If pushes are
 * dropped, the number that counts equals the number of mini-batches. */
TEST(dynamic_deal_trains_on_every_row_once, 5)
{
	static const char *const how[] = {"asgd", "asgd --sync-every=7", "easgd --sync-every=3",
					  "ssp --ssp.bound=1 --servers=1",
					  "bsp --bsp.backup=1 --servers=2"};
	char *words AUTOFREE =
		sentence("--workload=softmax --lr=0 --epochs=3 --batch=7 --workers=3 " SIM
			 "--deal=auto --speed=1:0.3 --straggle=0.5 --leave=2:31ms --strategy=%s",
			 how[_i]);
	record_only("--workload=softmax --lr=0 --epochs=3 --batch=7 --strategy=serial " SIM);
	record_run(words);
	double once = of(1, 1, "running_loss");
	for (int e = 1; e <= 3; e++) /* with lr 0 every row has one loss */
		if (_i < 4)
			ck_near(words, of(2, e, "running_loss"), once, 1e-5);
		else
			ck_near("pushes that count", of(2, e, "pushes"), 3 * 29, 0);
}

/* With own rows a fast worker goes on in its shard: the epoch takes as long as with shuffled rows.
 * At equal speeds, and with lr 0, an epoch has the loss of all rows. */
TEST(fast_worker_makes_more_passes_over_its_shard, 5)
{
	static const char *const how[] = {"asgd", "downpour --downpour.send=2 --sync-every=4",
					  "easgd", "ssp --ssp.bound=100", "bsp --bsp.backup=1"};
	static const char *const split[] = {"fixed", "dirichlet:0.1"};
	char *words AUTOFREE =
		sentence("--workload=softmax --lr=0 --epochs=3 --batch=3 --workers=4 " SIM
			 "--speed=3:0.5 --strategy=%s",
			 how[_i]);
	char *equal AUTOFREE =
		sentence("--workload=softmax --lr=0 --epochs=3 --batch=15 --workers=2 " SIM
			 "--split=fixed --strategy=%s",
			 how[_i]);
	record_only(words);
	for (int i = 0; i < 2; i++) {
		char *own AUTOFREE = sentence("%s --split=%s", words, split[i]),
			  *even AUTOFREE = sentence("%s --split=%s --deal=static", words, split[i]);
		record_run(own);
		record_run(even);
		for (int e = 1; e <= 3; e++) {
			const double shuffled = of(1, e, "seconds"),
				     raced = of(2 * i + 2, e, "seconds");
			ck_near(own, raced / shuffled, 1, 0.05);
			ck_near("pushes", of(2 * i + 2, e, "pushes"), of(1, e, "pushes"), 0);
			/* its n / 4 rows take the slow worker 1 / 2; 3.5 workers take n in 1 / 3.5
			 */
			if (_i < 4)
				ck_assert_double_gt(of(2 * i + 3, e, "seconds") / raced, 1.6);
		}
	}
	record_only("--workload=softmax --lr=0 --epochs=1 --batch=15 --strategy=serial " SIM);
	record_run(equal);
	for (int e = 1; e <= 3 && _i < 4; e++)
		ck_near(equal, of(2, e, "running_loss"), of(1, 1, "running_loss"), 1e-5);
}

/* No other worker can take mini-batches. */
TEST(dynamic_deal_of_one_worker_equals_static_deal)
{
	record_only(ONE SIM "--strategy=asgd --deal=dynamic");
	record_run(ONE SIM "--strategy=asgd --deal=static");
	ck_near("models", asked("SELECT count(DISTINCT model_hash) FROM run"), 1, 0);
	ck_near("losses", asked("SELECT count(DISTINCT running_loss) FROM epoch"), 3, 0);
}

TEST(synchronous_strategies_refuse_dynamic_deal, 7)
{
	static const char *const how[][2] = {
		{"allreduce", "all its workers take part in every exchange"},
		{"model_parallel", "all its workers take part"},
		{"gossip", "all its workers take part"},
		{"serial", "all its workers take part"},
		{"bsp", "give --bsp.backup=1"},
		{"bsp --bsp.backup=1 --barrier-every=0", "give --barrier-every=1"},
		{"ssp --ssp.bound=0", "every push waits"}};
	char *words AUTOFREE =
		sentence("--workload=softmax --workers=%d --deal=dynamic --strategy=%s",
			 _i == 3 ? 1 : 2, how[_i][0]);
	expect_refused("", words, how[_i][1]);
}

/* A real worker at a fifth of the speed, beside one at full speed: nominally allreduce takes 3
 * times as long, 5 against 2 / 1.2. The runs alternate and their fastest epochs count, because
 * other load takes a core from the worker that is idle first. */
TEST(real_slow_worker_takes_fewer_mini_batches)
{
	static const char *const words =
		"--workload=mlp --mlp.hidden=256 --batch=10 --epochs=6 --workers=2 "
		"--platform=mpi --speed=1:0.2 --strategy=";
	char *waits AUTOFREE = sentence("%sallreduce", words),
		    *goes AUTOFREE = sentence("%sasgd --deal=auto", words);
	double even = 0, free_ = 1;
	forget_runs();
	for (int turn = 0; turn < 12 && even <= 1.4 * free_; turn++) {
		record_run(waits);
		record_run(goes);
		even = asked("SELECT min(seconds) FROM epoch WHERE run_id % 2 = 1 AND epoch > 0");
		free_ = asked("SELECT min(seconds) FROM epoch WHERE run_id % 2 = 0 AND epoch > 0");
	}
	/* leaves a factor of two for a busy machine */
	ck_assert_msg(even > 1.4 * free_, "allreduce %g s, asgd %g s", even, free_);
}

/* A real worker. Its fastest epochs count, because other load on the machine slows some. */
TEST(real_worker_is_slowed)
{
	static const char *const words = "--workload=mlp --mlp.hidden=256 --batch=100 "
					 "--strategy=serial --platform=mpi ";
	char *whole AUTOFREE = sentence("%s--speed=0:1 --epochs=60", words),
		    *tenth AUTOFREE = sentence("%s--speed=0:0.1 --epochs=6", words);
	record_only(whole);
	record_run(tenth);
	double fast = asked("SELECT min(compute_s) FROM epoch WHERE run_id = 1 AND epoch > 0"),
	       slow = asked("SELECT min(compute_s) FROM epoch WHERE run_id = 2 AND epoch > 0");
	ck_assert_msg(slow > 3 * fast && slow < 30 * fast,
		      "at a tenth of the speed %g s, otherwise %g s", slow, fast);
}

/* A step takes the given time, real or simulated; --speed then slows it. */
TEST(step_takes_the_given_time)
{
	static const char *const world[] = {"mpi", "sim --sim.platform=$FOLDER/one.xml"};
	for (int w = 0; w < 2; w++) {
		forget_runs();
		char *words AUTOFREE = sentence(ONE "--batch=60 --step-time=20ms --platform=%s",
						world[w]),
			    *slow AUTOFREE = sentence("%s --speed=0:0.5", words);
		record_run(words);
		record_run(slow);
		double least[] = {
			asked("SELECT min(seconds) FROM epoch WHERE run_id = 1 AND epoch > 0"),
			asked("SELECT min(seconds) FROM epoch WHERE run_id = 2 AND epoch > 0")};
		for (int k = 0; k < 2; k++)
			ck_assert_msg(least[k] > 0.1999 * (k + 1) && least[k] < 0.25 * (k + 1),
				      "%s: run %d: %g s", world[w], k + 1, least[k]);
	}
}

/* ---- Pauses ------------------------------------------------------------------------ */

/* The first step after that time waits. A worker's own time is that of the segments, without
 * evaluation. */
TEST(pause_adds_its_duration, 6)
{
	static const struct {
		const char *at;
		int epoch; /* the epoch that it falls into */
	} row[] = {{"0", 1}, {"19.5ms", 2}, {"20ms", 2}, {"41us", 1}, {"58.5ms", 3}, {"59.5ms", 0}};
	char *words AUTOFREE = sentence(ONE SIM "--pause=0:%s:100ms", row[_i].at);
	record_only(words);
	for (int e = 1; e <= 3; e++) {
		double pause = e == row[_i].epoch ? 0.1 : 0;
		ck_near("an epoch", of(1, e, "seconds"), STEPS * step_s + pause, 1e-8);
		ck_near("its computing", of(1, e, "compute_s"), STEPS * step_s, 1e-8);
		ck_near("its pause", of(1, e, OTHER), pause, 1e-8);
	}
}

/* An evaluation takes longer than the 3.5 steps of the third epoch before the pause. If evaluations
 * counted as training, the first two would move the pause into the second epoch. */
TEST(evaluation_does_not_advance_the_time_of_a_pause)
{
	record_only(TWO NETWORK "--strategy=asgd --deal=static --sync-every=1000");
	double two = asked("SELECT sum(seconds) FROM rank_epoch WHERE rank = 1 AND epoch < 3");
	double all = asked("SELECT sum(seconds) FROM epoch");
	double evaluations = asked("SELECT simulated_s FROM run") - all;
	ck_assert_double_gt(evaluations / 4, 3.5 * step_s);
	char *words AUTOFREE = sentence(
		TWO NETWORK "--strategy=asgd --deal=static --sync-every=1000 --pause=1:%.9fs:1s",
		two + 3.5 * step_s);
	record_run(words);
	ck_near("epoch 2", of_rank(2, 2, 1, OTHER), 0, 1e-6);
	ck_near("epoch 3", of_rank(2, 3, 1, OTHER), 1, 1e-6);
	ck_near("its other worker waits", of_rank(2, 3, 0, "wait_s"), 1, 0.05);
}

TEST(real_worker_pauses)
{
	record_only(ONE "--platform=mpi --pause=0:0s:300ms");
	double pause = of(1, 1, OTHER), none = of(1, 2, OTHER);
	ck_assert_msg(pause >= 0.3 && none < 0.2, "%g s with a pause of 0.3, %g s without", pause,
		      none);
}

/* ---- Workers that leave --------------------------------------------------------------- */

/* The options that a strategy needs so that one worker may leave. */
static const char *terms(const struct strategy *s)
{
	return strcmp(s->plugin.name, "bsp") == 0 ? "--bsp.backup=1" : "";
}

static const char *const placements[] = {"", "--servers=1", "--servers=2", "--table-home=onesided"};

/* For every strategy, the others do what the worker would have done, or the strategy refuses. A
 * worker first finishes the mini-batches that it has taken. Steps begin on whole milliseconds,
 * because no worker pushes before the end of an epoch. */
TEST(other_workers_continue_when_one_leaves, LISTED(strategies))
{
	const struct strategy *s = strategies[_i];
	const double left = 5 * step_s, whole = 2 * STEPS * step_s;
	for (int who = 0; who < 2; who++)
		for (size_t placement = 0; placement < COUNT(placements); placement++) {
			char *words AUTOFREE = sentence(
				TWO SIM "--deal=auto --strategy=%s --sync-every=1000 %s %s "
					"--leave=%d:5ms",
				s->plugin.name, terms(s), placements[placement], who);
			if (!s->may_leave) {
				if (!s->refuse || strcmp(s->plugin.name, "serial") != 0)
					expect_refused("", words, "and none can leave");
				continue;
			}
			if (*terms(s) && strstr(placements[placement], "onesided"))
				continue;
			record_only(words);
			for (int e = 1; e <= 3; e++) {
				double worked = of_rank(1, e, who, "compute_s");
				double others = whole - worked;
				ck_near(words, worked, e == 1 ? left + step_s : 0,
					e == 1 ? 1.01 * step_s : 1e-5);
				ck_near(words, of_rank(1, e, !who, "compute_s"), others, 1e-5);
				ck_near(words, of_rank(1, e, who, "wait_s"), others - worked, 1e-3);
				ck_near(words, of(1, e, "seconds"), others, 1e-3);
			}
		}
}

/* Without barriers the times of a worker that has left still add up. Another worker's snapshots
 * give the model, because its own no longer change. */
TEST(worker_leaves_without_barriers)
{
	record_only(TWO SIM "--strategy=asgd --barrier-every=0 --leave=0:25ms --epochs=4");
	double there = asked("SELECT sum(seconds) FROM rank_epoch WHERE run_id = 1 AND rank = 1"),
	       left = asked("SELECT sum(seconds) FROM rank_epoch WHERE run_id = 1 AND rank = 0");
	ck_near("all epochs", left, there, 1e-5);
	for (int e = 1; e <= 4; e++) {
		ck_near("all of an epoch", of_rank(1, e, 0, OTHER), 0, 1e-5);
		ck_near("an epoch", of_rank(1, e, 0, "seconds"), of_rank(1, e, 1, "seconds"), 2e-3);
	}
	ck_near("losses", asked("SELECT count(DISTINCT test_loss) FROM epoch WHERE run_id = 1"), 5,
		0);
	/* for a worker that is alone a barrier changes nothing */
	record_run(TWO SIM "--strategy=asgd --barrier-every=0 --leave=0:0");
	record_run(TWO SIM "--strategy=asgd --barrier-every=1 --leave=0:0");
	for (int e = 0; e <= 3; e++)
		ck_near("a loss", of(2, e, "test_loss"), of(3, e, "test_loss"), 0);
}

/* The others push what it would have pushed. With static assignment its share is missing. */
TEST(other_workers_push_for_one_that_left)
{
#define PUSHES(run) "SELECT sum(pushes) FROM staleness WHERE run_id = " run
	record_only(TWO SIM "--strategy=asgd --deal=auto --leave=1:0");
	record_run(TWO SIM "--strategy=asgd --deal=auto --leave=1:20ms");
	record_run(TWO SIM "--strategy=asgd --leave=1:0 --deal=static");
	record_run(TWO SIM "--strategy=asgd --leave=1:20ms --deal=static");
	record_run(TWO SIM "--strategy=asgd --leave=1:4.5ms --sync-every=4 --deal=static");
	ck_near("pushes without it", asked(PUSHES("1")), 3 * 2 * STEPS, 0);
	ck_near("pushes without it in the end", asked(PUSHES("2")), 3 * 2 * STEPS, 0);
	ck_near("pushes without its share", asked(PUSHES("3")), 3 * STEPS, 0);
	ck_assert_double_ge(asked(PUSHES("4")), 4 * STEPS);
	/* one at 4 steps, one of the fifth step when it leaves */
	ck_near("with outstanding steps", asked(PUSHES("5")), 3 * STEPS / 4 + 2, 0);
}

/* Two of three leave at different times; one of them pauses until it has to leave. */
TEST(several_workers_leave, 5)
{
	static const char *const how[] = {"asgd", "ssp --ssp.bound=1", "downpour --downpour.send=3",
					  "easgd", "bsp --bsp.backup=2"};
	char *words AUTOFREE =
		sentence("--workload=softmax --lr=0.01 --epochs=3 --batch=10 --workers=3 " SIM
			 "--deal=auto --sync-every=2 --leave=2:7ms,0:31ms --pause=2:3ms:50ms "
			 "--straggle=0.3 --strategy=%s",
			 how[_i]);
	record_only(words);
	double two = asked("SELECT sum(compute_s) FROM rank_epoch WHERE rank = 2"),
	       none = asked("SELECT sum(compute_s) FROM rank_epoch WHERE rank = 0 AND epoch = 3");
	/* it repeats its dropped rows before it leaves */
	double most = strstr(how[_i], "backup") ? STEPS * step_s : 8 * step_s;
	ck_assert_msg(two >= 3 * step_s && two < most, "%s: worker 2 computed for %g s", words,
		      two);
	ck_near(words, none, 0, 1e-5);
	ck_assert_double_ge(of_rank(1, 3, 1, "compute_s"), STEPS * step_s - 1e-6);
}

TEST(worker_that_left_does_not_pause)
{
	record_only(TWO SIM "--strategy=asgd --leave=1:3ms --pause=1:10ms:5s");
	ck_assert_double_lt(asked("SELECT max(seconds) FROM epoch"), 0.1);
}

/* A pause at its start lets the others end the epoch first. */
TEST(late_worker_that_leaves_makes_no_step, 6)
{
	static const char *const how[] = {"--workers=2 --bsp.backup=1",
					  "--workers=3 --bsp.backup=1",
					  "--workers=3 --bsp.backup=2"};
	char *words AUTOFREE =
		sentence("--workload=softmax --lr=0.01 --epochs=3 --batch=10 --deal=dynamic " SIM
			 "--strategy=bsp --sync-every=%d --pause=1:0ms:5s --leave=1:0s %s",
			 1 + _i / 3, how[_i % 3]);
	record_only(words);
	ck_near(words,
		asked("SELECT total(pushes) + total(dropped) FROM rank_epoch WHERE rank = 1"), 0,
		0);
	ck_near(words, asked("SELECT sum(pushes) FROM rank_epoch WHERE epoch = 3") > 0, 1, 0);
}

TEST(real_workers_leave, LISTED(strategies))
{
	const struct strategy *s = strategies[_i];
	if (!s->may_leave)
		return;
	for (int who = 0; who < 2; who++)
		for (int barrier = 0; barrier < 2; barrier++) {
			char *words AUTOFREE = sentence(TWO "--platform=mpi --barrier-every=%d "
							    "--strategy=%s %s --leave=%d:0s",
							barrier, s->plugin.name, terms(s), who);
			char *pushed AUTOFREE = sentence(
				"SELECT ifnull(sum(pushes), 0) FROM rank_epoch WHERE rank = %d",
				who);
			record_only(words);
			ck_near(words, asked(pushed), 0, 0);
			ck_assert_msg(of(1, 3, "test_loss") < of(1, 0, "test_loss"),
				      "%s: nothing is learned", words);
		}
}

/* All of these options together, twice: the same rows. */
TEST(heterogeneous_runs_repeat)
{
	static const char *const words =
		"--workload=softmax --lr=0.01 --epochs=3 --batch=10 --workers=3 "
		"--sync-every=2 " NETWORK
		"--strategy=ssp --leave=2:70ms --pause=1:30ms:50ms --speed=0:0.7 --straggle=0.3 "
		"--sim.slow-link=1:0.5";
	record_only(words);
	record_run(words);
	ck_near("epochs that differ",
		asked("SELECT count(*) FROM (SELECT epoch, rank, seconds, compute_s, comm_s, "
		      "wait_s, pushes FROM rank_epoch GROUP BY 1, 2, 3, 4, 5, 6, 7 "
		      "HAVING count(*) <> 2)"),
		0, 0);
	ck_near("models", asked("SELECT count(DISTINCT model_hash) FROM run"), 1, 0);
}

/* ---- Slow links ----------------------------------------------------------------------------- */

/* A softmax model has 7,850 floats. Each step both workers send it: 31.4 ms at 1 MB/s. */
TEST(slow_link_slows_an_allreduce, 2)
{
	const double wire = STEPS * 7850 * 4 / 1e6;
	char *slow AUTOFREE =
		sentence(TWO NETWORK "--strategy=allreduce --sim.slow-link=%d:0.1", _i);
	record_only(TWO NETWORK "--strategy=allreduce");
	record_run(slow);
	double fast = of(1, 2, "seconds");
	ck_assert_double_gt(fast, wire);
	ck_near("what the link adds", of(2, 2, "seconds") - fast, 9 * wire, 0.01 * wire);
}

/* Workers 0 to 2 and a server on hosts of their own: only worker 1's messages are slow. */
TEST(slow_link_affects_one_worker)
{
	const double wire = 7850 * 4 / 1e6;
	const char *words = "--workload=softmax --epochs=2 --batch=10 --workers=3 --servers=1 "
			    "--strategy=asgd --sync-every=1000 --sim.slow-link=1:0.1 " NETWORK;
	record_only(words);
	for (int rank = 0; rank < 3; rank++) {
		double comm = of_rank(1, 2, rank, "comm_s");
		bool slow = rank == 1;
		ck_assert_msg(slow ? comm > 2 * 10 * wire : comm < 2 * 3 * wire + 0.1,
			      "worker %d communicates for %g s", rank, comm);
	}
}

/* Two cores a host: workers 0 and 1 share one link, which is slowed once. */
TEST(workers_on_one_host_share_a_slow_link)
{
	static const char *const slow[] = {"0:0.1", "1:0.1", "1:0.1,0:0.1", "0:0.1,1:0.5"};
	put_hosts("pairs.xml", 2, 2, 0);
	forget_runs();
	for (size_t i = 0; i < COUNT(slow); i++) {
		char *words AUTOFREE =
			sentence("--workload=softmax --epochs=1 --batch=50 --workers=4 "
				 "--strategy=periodic --sync-every=3 " COSTS
				 "--sim.platform=$FOLDER/pairs.xml --sim.slow-link=%s",
				 slow[i]);
		record_run(words);
		ck_near(words, of((int)i + 1, 1, "seconds"), of(1, 1, "seconds"), 1e-8);
	}
	ck_assert_double_gt(of(1, 1, "seconds"), 10 * 7850 * 4 / 1e6);
}

/* ---- Bad input ------------------------------------------------------------------------------- */

TEST(heterogeneity_mistakes_are_refused)
{
	static const struct {
		const char *words, *says;
	} row[] = {
		{"--speed=0", "\"0\" should be RANK:FACTOR"},
		{"--speed=0:2", "no worker can be made faster"},
		{"--speed=0:0", "a factor above 0"},
		{"--speed=0:0.5:1", "should be RANK:FACTOR"},
		{"--speed=a:0.5", "should be RANK:FACTOR"},
		{"--speed=-1:0.5", "should be RANK:FACTOR"},
		{"--speed=0:0.5,", "\"\" should be RANK:FACTOR"},
		{"--speed=0:0.5,0:0.2", "worker 0 is named twice"},
		{"--speed=1:0.5", "there is no worker 1; with --workers=1 the last one is 0"},
		{"--speed=99999:0.5", "there is no worker 99999"},
		{"--pause=0:1s", "\"0:1s\" should be RANK:AT:DURATION"},
		{"--pause=0:1s:0", "should be RANK:AT:DURATION"},
		{"--pause=0:1parsec:1s", "should be RANK:AT:DURATION"},
		{"--leave=0:-1s", "should be RANK:AT"},
		{"--leave=0:1s", "no worker would be left to train"},
		{"--leave=1:1s --strategy=bsp --workers=2", "give --bsp.backup=1"},
		{"--leave=1:1s --strategy=ssp --ssp.bound=0 --workers=2", "give a bound of 1"},
		{"--leave=1:1s --strategy=allreduce --workers=2",
		 "with asgd, bsp, ssp, downpour, easgd and adpsgd they can"},
		{"--sim.slow-link=0:0.5", "give --platform=sim with it"},
		{"--sim.slow-link=0:1.5 --platform=sim", "should be RANK:FACTOR"},
		{"--sim.slow-link=0:0.5 --strategy=allreduce --workers=2 " SIM,
		 "all are on one host"},
	};
	for (size_t i = 0; i < COUNT(row); i++) {
		char *words AUTOFREE = sentence("--workload=softmax %s", row[i].words);
		expect_refused("", words, row[i].says);
	}
}

/* In a job file a comma begins another cell. */
TEST(job_file_lists_are_separated_by_blanks)
{
	const char *job = "[defaults]\nworkload = softmax\nworkers = 2\nstrategy = asgd\n"
			  "speed = 0:0.5 1:0.25, 0:0.5\n[cells]\nepochs = 1\n",
		   *bad = "[defaults]\nworkload = softmax\n[cells]\nspeed = 0:7\n";
	folder_text("good.ini", job);
	folder_text("bad.ini", bad);
	char *good AUTOFREE = sentence("./mvbench sweep %s/good.ini --dry-run --data-dir=%s "
				       "--db=%s/s.db 2>&1",
				       folder, folder, folder),
		   *wrong AUTOFREE = text_replaced(good, "good.ini", "bad.ini");
	expect_command(EXIT_OK, good, "0:0.5 1:0.25");
	expect_command(EXIT_OK, good, "2 cells");
	expect_command(EXIT_USER, wrong, "bad.ini:4: --speed=0:7");
}
