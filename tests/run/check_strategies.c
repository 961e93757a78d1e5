/*
 * check_strategies.c - the identities of gossip, hybrid and the outer optimisers and schedules of
 * periodic; and their refusals.
 */
#include "results/gate/gate.h"
#include "runtime/config/config.h"
#include "tests/made.h"
#include "tests/suites.h"
#include "tests/trained.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Without momentum and schedule: the recipe has both, and outer optimisers would add to them. */
#define MLP "--workload=mlp --mlp.hidden=32 --lr=0.05 --lr-schedule=constant --momentum=0 "

enum { EPOCHS_MAX = 24 };

/* The losses of every epoch of a result. */
struct epochs {
	int n;
	double bytes[EPOCHS_MAX + 1], formula[EPOCHS_MAX + 1];
	double train[EPOCHS_MAX + 1], test[EPOCHS_MAX + 1]; /* losses */
};

static struct epochs epochs_of(const struct result *r)
{
	struct epochs t = {.n = -1};
	for (const char *line = r->output; line; line = strchr(line, '\n')) {
		double bytes, formula, train, test;
		int e;
		line += *line == '\n';
		if (sscanf(line, "epoch %d bytes %lf formula %lf train %lf test %lf", &e, &bytes,
			   &formula, &train, &test) != 5)
			continue;
		ck_assert_int_eq(e, t.n + 1);
		ck_assert_int_le(e, EPOCHS_MAX);
		t.bytes[e] = bytes, t.formula[e] = formula;
		t.train[e] = train, t.test[e] = test;
		t.n = e;
	}
	return t;
}

/* ---- Gossip -------------------------------------------------------------- */

CASE("identities", .limit = 300, .set_up = trained_data, .tear_down = folder_free, .once = true);

static const char *const schedules[] = {"ring",  "hypercube", "pairs",       "neighbours",
					"torus", "one_peer",  "exponential", "complete"};

/* Two workers average models after one step from equal models: that averages their gradients. */
TEST(gossip_of_two_workers_is_allreduce)
{
	enum { N = COUNT(schedules) };
	const char *how[N + 1];
	struct result r[N + 1];
	for (size_t i = 0; i < N; i++)
		how[i] = words(MLP "--epochs=1 --batch=24 --strategy=gossip --gossip.schedule=%s",
			       schedules[i]);
	how[N] = MLP "--epochs=1 --batch=24 --strategy=allreduce";
	train_all(2, N + 1, how, r);
	for (size_t i = 0; i < N; i++)
		compare_runs(&r[i], how[i], &r[N], how[N], 1e-6);
}

/* One round at the end of epoch 1, and one at the end of epoch 2, when the learning rate is almost
 * 0. The two rounds of four workers make one average, so all workers start epoch 3 with the same
 * model. */
TEST(gossip_rounds_average_all, 2)
{
	const char *freeze =
		MLP "--epochs=3 --batch=24 --sync-every=25 --lr-schedule=step:1:x1e-30";
	const char *how[] = {
		words("%s --strategy=gossip --gossip.schedule=%s", freeze, schedules[_i]),
		words("%s --strategy=periodic", freeze)};
	struct result r[2], *a = &r[0], *b = &r[1];
	train_all(4, 2, how, r);
	struct epochs ea = epochs_of(a), eb = epochs_of(b);
	ck_assert_msg(fabs(ea.train[2] - eb.train[2]) > 1e-4 * eb.train[2],
		      "%s: one round of pairs has averaged four", schedules[_i]);
	ck_assert_msg(fabs(ea.train[3] - eb.train[3]) <= 1e-6 * eb.train[3],
		      "%s: train loss %.9g after two rounds, %.9g with the average", schedules[_i],
		      ea.train[3], eb.train[3]);
	ck_assert_msg(distance(a, b) <= 1e-6, "%s: the rounds moved the mean by %g", schedules[_i],
		      distance(a, b));
	ck_assert_double_lt(ea.test[1], 0.9 * ea.test[0]);
}

/* Rounds without learning end with one model on all workers, whose loss over an epoch does not
 * depend on its order; also with an odd number of workers. */
TEST(gossip_converges_to_one_model, 2, 5)
{
	struct result r = train_ok(_i, words(MLP "--epochs=4 --batch=%d --strategy=gossip "
						 "--lr-schedule=step:1:x1e-30",
					     48 / _i));
	struct epochs e = epochs_of(&r);
	ck_assert_msg(fabs(e.train[4] - e.train[3]) <= 1e-6 * e.train[3],
		      "%d workers: train losses %.9g and %.9g without learning", _i, e.train[3],
		      e.train[4]);
	ck_assert_double_lt(e.test[1], 0.9 * e.test[0]);
}

/* Each pair exchanges P floats a trainer; of three trainers one sends nothing. */
TEST(gossip_bytes_equal_the_formula, 2, 5)
{
	int senders = _i - _i % 2;
	struct result r = train_ok(
		_i, words(MLP "--epochs=1 --batch=%d --sync-every=5 --strategy=gossip", 48 / _i));
	ck_assert_double_eq(r.bytes, 10.0 * senders * 4 * (double)r.params);
	ck_assert_double_eq_tol(r.formula, r.bytes, 1e-9 * r.bytes);
}

/* Messages that a trainer sends in a round. */
TEST(gossip_bytes_follow_the_schedule, 3)
{
	static const int workers[] = {2, 4, 6};
	const char *how[COUNT(schedules)];
	double want[COUNT(schedules)]; /* messages of all trainers in 10 rounds */
	struct result r[COUNT(schedules)];
	size_t runs = 0;
	int n = workers[_i];
	static const double messages[COUNT(schedules)][COUNT(workers)] = {
		{1, 1, 1}, {1, 1, 0}, {1, 1, 1}, {1, 2, 2},
		{1, 2, 3}, {1, 1, 1}, {1, 2, 3}, {1, 1.5, 5 / 3.0}};
	for (size_t s = 0; s < COUNT(schedules); s++) {
		if (messages[s][_i] == 0) /* no hypercube */
			continue;
		want[runs] = 10.0 * messages[s][_i] * n;
		how[runs++] = words(MLP "--epochs=1 --batch=%d --sync-every=5 --strategy=gossip "
					"--gossip.schedule=%s",
				    48 / n, schedules[s]);
	}
	train_all(n, runs, how, r);
	for (size_t i = 0; i < runs; i++) {
		double bytes = want[i] * 4 * (double)r[i].params;
		ck_assert_msg(fabs(r[i].bytes - bytes) <= 1e-9 * bytes, "%s: %g bytes, not %g",
			      how[i], r[i].bytes, bytes);
		ck_assert_msg(fabs(r[i].formula - r[i].bytes) <= 1e-9 * r[i].bytes,
			      "%s: %g bytes, %g by the formula", how[i], r[i].bytes, r[i].formula);
	}
}

/* With all others, gossip is averaging; its outer step is then that of a common sgd. The epoch ends
 * with a round. */
TEST(complete_gossip_is_periodic, 3, 5)
{
	const char *same = MLP "--epochs=1 --batch=10 --sync-every=20 --momentum=0.9";
	const char *how[] = {
		words("%s --strategy=gossip --gossip.schedule=complete", same),
		words("%s --strategy=periodic", same),
		words("%s --strategy=gossip --gossip.schedule=complete --gossip.outer-lr=0.7 "
		      "--gossip.outer-momentum=0.5",
		      same),
		words("%s --strategy=periodic --periodic.outer=sgd --periodic.outer-lr=0.7 "
		      "--periodic.outer-momentum=0.5",
		      same)};
	expect_pairs(_i, 2, how, 2e-6);
}

/* Bit for bit. The mix makes its path that of many fragments, and changes no float but a 0. Sums of
 * two are the same in any order. */
TEST(one_fragment_without_delay_is_diloco)
{
	static const char *const outer[] = {"nesterov --periodic.outer-lr=0.7 "
					    "--periodic.outer-momentum=0.9",
					    "momentum", "adamw --periodic.outer-lr=0.001"};
	const char *how[2 * COUNT(outer)];
	for (size_t i = 0; i < COUNT(outer); i++) {
		char *same = words(MLP "--epochs=1 --batch=24 --strategy=periodic --sync-every=10 "
				       "--periodic.outer=%s",
				   outer[i]);
		how[2 * i] = words("%s --periodic.fragments=1 --periodic.delay=0 "
				   "--periodic.mix=1e-30",
				   same);
		how[2 * i + 1] = same;
	}
	expect_pairs(2, COUNT(outer), how, 0);
}

/* The fragments of a model that are all due in each step are one model; a fragment's layout does
 * not matter then. */
TEST(fragments_of_every_step_are_one_model)
{
	const char *how[2 * 4];
	for (int i = 0; i < 4; i++) {
		char *same = words(MLP "--epochs=1 --batch=24 --momentum=0.9 --strategy=periodic "
				       "--periodic.outer=%s",
				   i % 2 ? "nesterov --periodic.outer-lr=0.7"
					 : "adamw --periodic.outer-lr=0.001");
		how[2 * i] = words("%s --periodic.fragments=2 --periodic.layout=%s", same,
				   i / 2 ? "strides" : "neighbours");
		how[2 * i + 1] = same;
	}
	expect_pairs(2, 4, how, 1e-6);
}

/* A round that is mixed with nothing of the others is no round: all workers train alone. */
TEST(mix_of_one_keeps_the_own_model)
{
	const char *same = MLP "--epochs=1 --batch=24 --strategy=periodic "
			       "--lr-schedule=step:1:x1e-30";
	const char *how[] = {
		words("%s --sync-every=1000", same),
		words("%s --sync-every=5 --periodic.mix=1 --periodic.fragments=1", same),
		words("%s --sync-every=5 --periodic.mix=1 --periodic.fragments=2", same)};
	struct result r[3];
	train_all(2, 3, how, r);
	for (int i = 1; i < 3; i++)
		ck_assert_double_eq_tol(r[i].running_loss, r[0].running_loss, 1e-6);
}

/* A group of all workers averages as all do; groups of one do nothing. */
TEST(groups_are_averaged_between_rounds)
{
#define GROUPED MLP "--epochs=1 --batch=12 --momentum=0.9 --strategy=periodic "
	static const char *const how[] = {
		GROUPED "--sync-every=100 --periodic.group=4 --periodic.group-every=5",
		GROUPED "--sync-every=5",
		GROUPED "--sync-every=10 --periodic.group=1 --periodic.group-every=5",
		GROUPED "--sync-every=10",
		GROUPED "--sync-every=1 --periodic.group=2 --periodic.group-every=1",
		GROUPED "--sync-every=1"};
	expect_pairs(4, 3, how, 2e-6);
}

/* One worker has no others whose changes are late: eager updates are DiLoCo. */
TEST(eager_updates_of_one_worker_are_diloco, 2)
{
	const char *how = words(MLP "--epochs=1 --batch=48 --sync-every=5 --strategy=periodic "
				    "--periodic.outer=%s",
				_i ? "none" : "nesterov --periodic.outer-lr=0.7");
	expect_same(1, words("%s --periodic.eager --periodic.delay=5", how), 1, how, 1e-6);
}

/* With a delay of --sync-every a sum arrives when the next one starts: the steps of the round
 * before must be in one of them. */
TEST(late_sums_go_on_learning)
{
#define LATE MLP "--epochs=2 --batch=24 --sync-every=5 --strategy=periodic "
	static const char *const how[] = {
		LATE "--periodic.delay=2 --periodic.mix=0.5",
		LATE "--periodic.delay=5",
		LATE "--periodic.delay=5 --periodic.mix=0.5",
		LATE "--periodic.delay=5 --periodic.fragments=2 --codec=int8",
		LATE "--periodic.delay=5 --periodic.eager",
		LATE "--periodic.delay=5 --periodic.outer=nesterov --periodic.outer-lr=0.7 "
		     "--periodic.outer-momentum=0.3",
	};
	struct result r[COUNT(how)];
	train_all(2, COUNT(how), how, r);
	for (size_t i = 0; i < COUNT(how); i++) {
		struct epochs e = epochs_of(&r[i]);
		ck_assert_msg(e.test[1] < e.test[0] && e.test[2] < e.test[1],
			      "%s: test losses %g, %g, %g", how[i], e.test[0], e.test[1],
			      e.test[2]);
	}
}

/* ---- AD-PSGD ------------------------------------------------------------- */

TEST(adpsgd_of_one_worker_is_serial)
{
	expect_same(1, MLP "--epochs=1 --batch=48 --momentum=0.9 --strategy=adpsgd", 1,
		    MLP "--epochs=1 --batch=48 --momentum=0.9 --strategy=serial", 0);
}

/* Without learning an averaging keeps the mean of the models, and they become one: in any
 * placement, whoever comes first. */
TEST(averagings_of_adpsgd_keep_the_mean, 7)
{
	static const char *const how[] = {
		"--table-home=shared",
		"--servers=1 --adpsgd.graph=neighbours",
		"--table-home=onesided --adpsgd.graph=exponential",
		"--sync-every=2 --adpsgd.graph=torus",
		"--adpsgd.form=push",
		"--adpsgd.form=push --servers=2",
		"--adpsgd.form=push --table-home=onesided --adpsgd.graph=neighbours"};
	/* Workers that run one after the other mix little in an epoch of push-sum: it has more. */
	int servers = _i == 1 ? 1 : _i == 5 ? 2 : 0;
	int learns = _i >= 4 ? 4 : 1, end = _i >= 4 ? 24 : 8;
	struct result r = train_ok(
		4 + servers, words(MLP "--epochs=%d --batch=12 --strategy=adpsgd --workers=4 %s "
				       "--lr-schedule=step:%d:x1e-30",
				   end, how[_i], learns));
	struct epochs e = epochs_of(&r);
	ck_assert_double_eq_tol(e.test[end], e.test[learns], 1e-5 * e.test[learns]);
	ck_assert_double_lt(e.test[learns], 0.9 * e.test[0]);
	ck_assert_double_eq_tol(e.train[end], e.train[end - 1], 1e-5 * e.train[end - 1]);
}

/* The slow worker answers after all of the other's steps, more than a float can halve 1. */
TEST(pushes_without_an_answer_lose_no_weight)
{
	struct result r = run_simulated(
		2, MLP "--epochs=1 --batch=2 --strategy=adpsgd --workers=2 --adpsgd.form=push "
		       "--speed=1:0.001 --sim.platform=ethernet_10g --sim.step-time=1ms");
	struct epochs e = epochs_of(&r);
	ck_assert_int_eq(r.status, 0);
	ck_assert_double_lt(e.test[1], e.test[0]);
}

/* ---- Quorum -------------------------------------------------------------- */

#define QUORUM MLP "--epochs=1 --batch=12 --sync-every=5 --momentum=0.9 --strategy=bsp "

/* A quorum of all is bsp; so is a smaller one that waits long enough for the others. */
TEST(quorum_of_all_is_bsp, 3)
{
	static const char *const where[] = {"", "--servers=1", "--bsp.updater=delayed_nesterov"};
	const char *all = words(QUORUM "--deal=static --workers=4 %s", where[_i]);
	const char *how[] = {words("%s --bsp.late=join --bsp.grace=0s", all), all,
			     words("%s --bsp.late=join --bsp.grace=100s --bsp.backup=2", all), all};
	expect_pairs(4 + (_i == 1), 2, how, 1e-6);
}

/* One part that is the whole model is averaging. */
TEST(sparta_of_the_whole_model_is_periodic, 2, 5)
{
	const char *how = words(MLP "--epochs=1 --batch=%d --sync-every=5 --momentum=0.9", 48 / _i);
	expect_same(_i, words("%s --strategy=sparta --sparta.share=1", how), _i,
		    words("%s --strategy=periodic", how), 1e-6);
}

/* Without learning, as many rounds as there are parts make all models their mean: the loss of an
 * epoch on one model does not depend on which worker has which rows. */
TEST(sparta_averages_each_part_once)
{
	struct result r = train_ok(4, MLP "--epochs=4 --batch=12 --strategy=sparta "
					  "--sparta.share=0.125 --lr-schedule=step:1:x1e-30");
	struct epochs e = epochs_of(&r);
	ck_assert_double_eq_tol(e.train[4], e.train[3], 1e-6 * e.train[3]);
	ck_assert_msg(fabs(e.train[2] - e.train[3]) > 1e-6 * e.train[3],
		      "the models were equal after epoch 1: %.9g", e.train[2]);
}

/* A part is a column of the model as a matrix, or what is behind its last row. */
TEST(sparta_bytes_equal_the_formula, 2, 5)
{
	struct result r = train_ok(_i, words(MLP "--epochs=1 --batch=%d --strategy=sparta "
						 "--sparta.share=0.1",
					     48 / _i));
	/* 50 steps are five rounds of ten parts, or almost as many of eleven */
	ck_assert_double_eq_tol(r.bytes, r.formula, 0.12 * r.formula);
	ck_assert_double_eq_tol(
		r.formula, 50 * 2 * (_i - 1) * 4 * (double)r.params / (10 + (r.params % 10 > 0)),
		1e-9 * r.formula);
}

/* A period of as many pushes as there are workers is the default; one of each push is another step,
 * except on one worker. */
TEST(period_of_delayed_nesterov_is_the_workers, 2)
{
	int workers = 1 + _i;
	for (int period = 0; period <= 2; period++)
		record_run(words(
			MLP "--epochs=1 --batch=24 --strategy=asgd --sync-every=10 "
			    "--asgd.updater=delayed_nesterov --asgd.period=%d --workers=%d "
			    "--servers=1 --deal=static --platform=sim --sim.platform=ethernet_10g "
			    "--sim.step-time=1ms",
			period, workers));
	expect_in("run.db",
		  "SELECT group_concat(a.model_hash = b.model_hash, ' ') FROM run AS a JOIN run AS "
		  "b ON b.id > 1 WHERE a.id = 1",
		  workers == 1 ? "1 0" : "0 1");
	forget_runs();
}

/* In rounds, and for one worker, a delayed Nesterov step is DiLoCo's. */
TEST(delayed_nesterov_in_rounds_is_diloco, 4)
{
	int workers = 1 + _i;
	const char *how = words(MLP "--epochs=1 --batch=%d --sync-every=5 --momentum=0.9 "
				    "--deal=static",
				48 / workers);
	expect_same(workers,
		    words("%s --strategy=%s.updater=delayed_nesterov", how,
			  workers == 1 ? "asgd --asgd" : "bsp --bsp"),
		    workers,
		    words("%s --strategy=periodic --periodic.outer=nesterov "
			  "--periodic.outer-lr=0.7 --periodic.outer-momentum=0.9",
			  how),
		    1e-6);
}

/* ---- Hybrid -------------------------------------------------------------- */

#define SAME "--epochs=1 --momentum=0.9 --lr-schedule=constant "

TEST(hybrid_with_groups_of_one_is_allreduce, 2, 5)
{
	const char *same = MLP SAME "--batch=24 --weight-decay=1e-3";
	expect_same(_i, words("%s --strategy=hybrid --hybrid.group=1", same), _i,
		    words("%s --strategy=allreduce", same), 1e-6);
}

TEST(hybrid_with_one_group_is_model_parallel, 2, 5)
{
	const char *same = MLP SAME "--batch=48 --weight-decay=1e-3";
	expect_same(_i, words("%s --strategy=hybrid --hybrid.group=%d", same, _i), _i,
		    words("%s --strategy=model_parallel", same), 1e-6);
}

/* Two groups of two, the default, equal the serial run with twice the batch. 37 hidden units make
 * the parts unequal. The last of three linear layers splits a whole x and owes its gradient. */
TEST(hybrid_is_serial_with_the_groups_batch, 3)
{
	static const char *const model[] = {
		"--workload=softmax --lr=0.05",
		"--workload=mlp --mlp.hidden=37 --mlp.depth=2 --lr=0.05",
		"--workload=tanh_mlp --tanh_mlp.hidden=37 --lr=0.05",
	};
	static const char *const group[] = {"", "--hybrid.group=2", "--reduce=sum --lr=0.025"};
	const char *hybrid =
		words("%s " SAME "--batch=24 --strategy=hybrid %s", model[_i], group[_i]);
	const char *serial = words("%s " SAME "--batch=48 --strategy=serial", model[_i]);
	struct result r = train_ok(4, hybrid), whole = train_ok(1, serial);
	ck_assert_double_eq_tol(r.formula, r.bytes, 1e-9 * r.bytes);
	compare_runs(&r, hybrid, &whole, serial, 1e-5);
}

/* ---- Periodic: outer optimisers ------------------------------------------ */

TEST(outer_step_without_momentum_is_averaging, 4)
{
	const char *same =
		words(MLP "--epochs=2 --batch=24 --momentum=0.5 --sync-every=7 --strategy=periodic "
			  "%s",
		      _i / 2 ? "--reduce=sum --lr=0.02" : "--reduce=mean");
	expect_same(3,
		    words("%s --periodic.outer=%s --periodic.outer-momentum=0", same,
			  _i % 2 ? "nesterov" : "momentum"),
		    3, same, 1e-6);
}

/* After one local step the models have moved by lr times the mean gradient. The outer momentum is
 * then the momentum of allreduce, and the outer learning rate a factor. */
TEST(outer_momentum_every_step_is_allreduce, 1, 4)
{
	const char *how[2 * 2];
	for (int sum = 0; sum < 2; sum++) {
		const char *same =
			words(MLP "--epochs=1 --batch=24 --reduce=%s", sum ? "sum" : "mean");
		how[2 * sum] = words("%s --lr=%g --strategy=periodic --periodic.outer=momentum "
				     "--periodic.outer-momentum=0.8 --periodic.outer-lr=0.5",
				     same, sum ? 0.01 : 0.05);
		how[2 * sum + 1] = words("%s --lr=%g --strategy=allreduce --momentum=0.8", same,
					 sum ? 0.005 : 0.025);
	}
	expect_pairs(_i, 2, how, 1e-6);
}

/* This also holds if the learning rate changes: SlowMo's momentum is in units of 1/lr. */
TEST(outer_momentum_scales_with_the_learning_rate, 2)
{
	static const char *const rates[] = {"step:1:x0.2", "warmup:1+cosine"};
	const char *same =
		words(MLP "--epochs=2 --batch=24 --lr-schedule=%s --sync-every=1", rates[_i]);
	expect_same(2,
		    words("%s --strategy=periodic --periodic.outer=momentum "
			  "--periodic.outer-momentum=0.8 --periodic.outer-lr=0.5",
			  same),
		    2, words("%s --strategy=allreduce --momentum=0.8 --lr=0.025", same), 1e-6);
}

/* Within a round, the evaluated model is the result of a synchronisation at that point. Epoch 1
 * synchronises at every step, so there is momentum; epoch 2 synchronises at its end, or would do so
 * later. */
TEST(last_outer_step_is_evaluated, 4)
{
	static const char *const outer[] = {"momentum", "nesterov"};
	const char *how[2 * 2];
	for (int i = 0; i < 2 * 2; i++)
		how[i] = words(MLP
			       "--epochs=2 --batch=24 --strategy=periodic --periodic.schedule=up "
			       "--periodic.outer=%s --periodic.outer-momentum=0.6 "
			       "--periodic.outer-lr=0.7 --lr-schedule=step:1:x0.5 %s "
			       "--sync-every=%d --barrier-every=%d",
			       outer[_i % 2], i / 2 ? "--reduce=sum --lr=0.01" : "--lr=0.02",
			       i % 2 ? 70 : 50, _i / 2);
	expect_pairs(2, 2, how, 1e-6);
}

/* Epoch 1 is allreduce; epoch 2 takes half steps from its last model. */
TEST(outer_steps_begin_after_start)
{
	const char *same = MLP "--epochs=2 --batch=24";
	expect_same(2,
		    words("%s --strategy=periodic --periodic.start=50 --periodic.outer=momentum "
			  "--periodic.outer-momentum=0 --periodic.outer-lr=0.5",
			  same),
		    2, words("%s --strategy=allreduce --lr-schedule=step:1:x0.5", same), 1e-6);
}

/* Two synchronisations, each at the end of an epoch. After the first both runs have the same model,
 * w0 - a (1 + mu) d1, and therefore the same d2 at the second, where
 *   nesterov           w1 - a (mu (mu d1 + d2) + d2) = w1 - a (1 + mu) d2 - a mu^2 d1
 *   no momentum        w1 - a (1 + mu) d2
 * and d1 = w0 - w of plain averaging after epoch 1. */
TEST(outer_nesterov_equals_the_formula)
{
	const char *same = MLP "--batch=24 --sync-every=50 --strategy=periodic";
	double a = 0.7, mu = 0.6, d = 0, n = 0;
	const char *how[] = {words("%s --epochs=1 --lr=0", same), words("%s --epochs=1", same),
			     words("%s --epochs=2 --periodic.outer=momentum "
				   "--periodic.outer-momentum=0 --periodic.outer-lr=%g",
				   same, a * (1 + mu)),
			     words("%s --epochs=2 --periodic.outer=nesterov "
				   "--periodic.outer-momentum=%g --periodic.outer-lr=%g",
				   same, mu, a)};
	struct result r[4], *w0 = &r[0], *m1 = &r[1], *plain = &r[2], *nesterov = &r[3];
	train_all(2, 4, how, r);
	for (size_t i = 0; i < w0->params; i++) {
		double d1 = (double)w0->param[i] - m1->param[i];
		double want = plain->param[i] - a * mu * mu * d1;
		d += pow(nesterov->param[i] - want, 2);
		n += pow(a * mu * mu * d1, 2);
	}
	ck_assert_msg(n > 0 && sqrt(d / n) <= 1e-4, "off by %g of what momentum adds", sqrt(d / n));
}

/* ---- Periodic: schedules ------------------------------------------------- */

/* Synchronisations an epoch, counted by hand. Each sends 2 (N - 1) P floats over all N workers. */
TEST(schedules_synchronise_as_often_as_counted)
{
	static const struct {
		const char *words;
		int epochs, joint_ops[EPOCHS_MAX];
		bool even; /* the interval divides the epoch: the formula is exact */
	} row[] = {
		/* 40 steps: X = 4, 2, 1 */
		{"--batch=30 --epochs=3 --sync-every=4 --periodic.schedule=down",
		 3,
		 {10, 20, 40},
		 true},
		{"--batch=30 --epochs=3 --sync-every=4 --periodic.schedule=up",
		 3,
		 {40, 20, 10},
		 true},
		/* 50 steps: X = 8, 3, 1: synchronisations at 8 .. 48, 51 .. 99, 101 .. 150 */
		{"--batch=24 --epochs=3 --sync-every=8 --periodic.schedule=down",
		 3,
		 {6, 17, 50},
		 false},
		{"--batch=24 --epochs=3 --sync-every=8 --periodic.schedule=fixed",
		 3,
		 {6, 6, 6},
		 false},
		{"--batch=24 --epochs=1 --sync-every=10 --periodic.schedule=down", 1, {5}, true},
		/* with and without outer optimiser, from a start in the middle of an epoch: the 20
		 * steps of allreduce send the same amount; fixed synchronises at 21, 28, 35, 42,
		 * 49; up, X = 1, 7 */
		{"--batch=24 --epochs=2 --sync-every=7 --periodic.start=20", 2, {25, 7}, false},
		{"--batch=24 --epochs=2 --sync-every=7 --periodic.start=20 "
		 "--periodic.schedule=up --periodic.outer=nesterov --lr=0.01",
		 2,
		 {50, 7},
		 false},
		{"--batch=24 --epochs=2 --sync-every=7 --periodic.start=20 "
		 "--periodic.schedule=down",
		 2,
		 {24, 50},
		 false},
	};
	const char *how[COUNT(row)];
	struct result r[COUNT(row)];
	for (size_t i = 0; i < COUNT(row); i++)
		how[i] = words(MLP "--strategy=periodic %s", row[i].words);
	train_all(2, COUNT(row), how, r);
	for (size_t i = 0; i < COUNT(row); i++) {
		struct epochs t = epochs_of(&r[i]);
		ck_assert_int_eq(t.n, row[i].epochs);
		for (int e = 1; e <= t.n; e++) {
			double want = row[i].joint_ops[e - 1] * 2.0 * 4 * (double)r[i].params;
			ck_assert_msg(t.bytes[e] == want, "%s: epoch %d counts %g bytes, not %g",
				      row[i].words, e, t.bytes[e], want);
			ck_assert_msg(!row[i].even || fabs(t.formula[e] - want) <= 1e-9 * want,
				      "%s: epoch %d: the formula says %g bytes, not %g",
				      row[i].words, e, t.formula[e], want);
		}
		ck_assert_double_lt(t.test[t.n], 0.9 * t.test[0]);
	}
}

/* ---- Refusals ------------------------------------------------------------ */

TEST(strategy_mistakes_are_refused, 18)
{
	static const struct {
		struct setting set[4];
		const char *says; /* NULL: the options are accepted */
	} row[] = {
		{{{"strategy", "gossip"}, {"workers", "6"}, {"gossip.schedule", "hypercube"}},
		 "--workers=6: a hypercube needs a power of two"},
		{{{"strategy", "gossip"}, {"workers", "4"}, {"gossip.schedule", "hypercube"}},
		 NULL},
		{{{"strategy", "gossip"}, {"workers", "1"}, {"gossip.schedule", "hypercube"}},
		 NULL},
		{{{"strategy", "gossip"}, {"workers", "6"}}, NULL},
		{{{"strategy", "gossip"}, {"workers", "2"}, {"reduce", "sum"}}, "--reduce=sum: "},
		{{{"strategy", "periodic"}, {"sync-every", "5"}, {"periodic.eager", "true"}},
		 "give --periodic.delay=5"},
		{{{"strategy", "periodic"}, {"workers", "4"}, {"periodic.group", "2"}},
		 "--periodic.group-every"},
		{{{"strategy", "bsp"}, {"workers", "2"}, {"bsp.grace", "1s"}}, "--bsp.late=join"},
		{{{"strategy", "adpsgd"}, {"workers", "2"}, {"reduce", "sum"}}, "--reduce=sum: "},
		{{{"strategy", "adpsgd"}, {"workers", "2"}, {"record", "true"}}, "--record: "},
		{{{"strategy", "asgd"},
		  {"workers", "2"},
		  {"record", "true"},
		  {"asgd.local", "dynamic"}},
		 "--record: with --asgd.local=dynamic"},
		{{{"strategy", "hybrid"}, {"workers", "2"}, {"hybrid.group", "4"}},
		 "--hybrid.group=4: there are only 2 workers"},
		{{{"strategy", "hybrid"}, {"workers", "1"}, {"hybrid.group", "4"}},
		 "--hybrid.group=4: there is only 1 worker to share"},
		{{{"strategy", "hybrid"}, {"workers", "3"}}, "--workers=3: "},
		{{{"strategy", "hybrid"}, {"workers", "6"}, {"hybrid.group", "3"}}, NULL},
		{{{"strategy", "hybrid"}, {"workers", "1"}}, NULL},
		/* mlp's output layer of 10 joins in pairs with its hidden layer of 128 outputs */
		{{{"strategy", "hybrid"}, {"workers", "129"}, {"hybrid.group", "129"}},
		 "hybrid splits the 128 outputs of a linear layer"},
		{{{"strategy", "model_parallel"}, {"workers", "129"}}, "let at most 128 share one"},
	};
	struct config c;
	struct plan plan;
	struct setting set[5] = {{"data-dir", folder}};
	size_t n = 1;
	for (; n < 5 && row[_i].set[n - 1].name; n++)
		set[n] = row[_i].set[n - 1];
	char *wrong AUTOFREE = config_init(&c, set, n, false);
	ck_assert_msg(!wrong, "%s", wrong);
	wrong = plan_make(&c, &plan);
	if (row[_i].says)
		ck_assert_msg(wrong && strstr(wrong, row[_i].says), "\"%s\" does not say \"%s\"",
			      wrong ? wrong : "", row[_i].says);
	else
		ck_assert_msg(!wrong, "%s", wrong);
	config_fini(&c);
}
