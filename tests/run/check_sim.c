/*
 * check_sim.c - simulations: they train as real runs do, repeat themselves, and take the time that
 * platform and calibration give, which is known exactly for small ones.
 */
#include "results/db/db.h"
#include "runtime/config/config.h"
#include "sim/model/model.h"
#include "tests/made.h"
#include "tests/suites.h"
#include "tests/trained.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- Platforms ------------------------------------------------------------------- */

static const double latency_s = 2e-3, byte_s = 1e-6; /* from one host to another */
static const double envelope = 16;                   /* what SMPI adds to a message [bytes] */

#define ONE_HOST "--sim.platform=$FOLDER/one.xml "
#define HOSTS    "--sim.platform=$FOLDER/hosts.xml "
#define STEP     "--sim.step-time=1ms "

enum { ROWS = 2400, BATCH = 60, STEPS = ROWS / BATCH, SOFTMAX = 7850 /* parameters */ };
static const double step_s = 1e-3;

static void set_up(void)
{
	folder_new();
	setenv("FOLDER", folder, 1);
	idx_put_set(ROWS, 200, false, '-');
	put_hosts("one.xml", 1, 4, 0);
	put_hosts("hosts.xml", 6, 1, 0);
}

/* ---- Runs and what they recorded ----------------------------------------------------- */

static void record_sim(const char *how)
{
	char *all AUTOFREE = sentence("--platform=sim %s", how);
	record_run(all);
}

#define sql(text) sql_in("run.db", text)

/* As record_sim, in a new database. */
static void sim_only(const char *how)
{
	forget_runs();
	record_sim(how);
}

/* The number that a query gives. */
static double asked(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static double asked(const char *fmt, ...)
{
	char text[8192];
	sqlite3 *db = made_again("run.db");
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	double number = made_number(db, text);
	sqlite3_close(db);
	return number;
}

static double epoch_of(int run, const char *what)
{
	return asked("SELECT %s FROM epoch WHERE run_id = %d AND epoch = 1", what, run);
}

/* ---- Every strategy -------------------------------------------------------------------- */

/* Can the strategy run with this many workers? */
static bool takes(const struct strategy *s, int workers)
{
	char number[16];
	struct setting set[] = {{"data-dir", folder},
				{"workload", "mlp"},
				{"strategy", s->plugin.name},
				{"workers", number}};
	struct config c;
	struct plan p;
	snprintf(number, sizeof number, "%d", workers);
	char *wrong AUTOFREE = config_init(&c, set, COUNT(set), false);
	ck_assert_msg(!wrong, "%s", wrong);
	wrong = plan_make(&c, &p);
	bool takes_them = !wrong;
	config_fini(&c);
	return takes_them;
}

/* The largest number of workers, up to `most`, that it accepts; 1 if none. */
static int workers_for(const struct strategy *s, int most)
{
	while (most > 1 && !takes(s, most))
		most--;
	return most;
}

/* Placements of its tables; a strategy without tables uses the first only. */
static const char *const placements[] = {"", "--servers=1", "--table-home=onesided"};

static size_t placements_of(const struct strategy *s)
{
	return s->terms ? COUNT(placements) : 1;
}

/* ---- Equal to real runs -------------------------------------------------- */

#define MODEL \
	"--workload=mlp --mlp.hidden=24 --lr=0.05 --momentum=0.5 --weight-decay=1e-3 --epochs=2 " \
	"--sync-every=3 "

enum { EPOCHS_MOST = 4 };

static int losses(const struct result *r, double test[EPOCHS_MOST])
{
	int n = 0;
	for (const char *line = r->output; line && n < EPOCHS_MOST; line = strchr(line + 1, '\n')) {
		const char *at = strstr(line, "epoch "), *loss = at ? strstr(at, " test ") : NULL;
		if (!loss)
			break;
		test[n++] = strtod(loss + 6, NULL);
		line = loss;
	}
	return n;
}

static void expect_equal(const struct result *sim, const struct result *real, const char *how,
			 double tolerance)
{
	double a[EPOCHS_MOST], b[EPOCHS_MOST];
	ck_assert_msg(sim->status == 0, "%s: status %d: %s", how, sim->status, sim->output);
	double apart = distance(sim, real);
	ck_assert_msg(apart <= tolerance, "%s: parameters differ by %g", how, apart);
	ck_assert_int_eq(losses(sim, a), 3);
	ck_assert_int_eq(losses(real, b), 3);
	/* A relative change of d in both layers moves a logit z by 2 d |z|, and a small loss by the
	 * same relative amount. |z| is about 10; two real runs differ by 2e-6, at 5e-7 apart. */
	for (int e = 0; e < 3; e++)
		ck_assert_msg(fabs(a[e] - b[e]) <= 20 * tolerance * (b[e] + 0.01),
			      "%s: epoch %d: test loss %.9g, of the real run %.9g", how, e, a[e],
			      b[e]);
	ck_assert_msg(a[2] < 0.9 * a[0], "%s learns nothing: %g, at first %g", how, a[2], a[0]);
}

CASE("sim", .limit = 300, .set_up = set_up, .tear_down = folder_free, .once = true);

/* With 2, 3 and 4 workers, as far as the strategy accepts them; on one host, on several, and with
 * servers. A strategy that depends on the order of arrival runs with one worker: bit for bit the
 * real model. */
TEST(simulated_model_equals_the_real_one, LISTED(strategies))
{
	const struct strategy *s = strategies[_i];
	bool alone = arrival_decides(s) || !(takes(s, 2) || takes(s, 4));
	int least = alone ? 1 : 2, most = alone ? 1 : takes(s, 3) ? 3 : 4;
	for (int n = least; n <= most; n++) {
		if (!takes(s, n))
			continue;
		const char *how = words(MODEL "--batch=%d --strategy=%s", 48 / n, s->plugin.name);
		double tolerance = alone ? 0 : 1e-6;
		struct result real = train_ok(n, how);
		struct result near_by = run_simulated(n, words("%s " ONE_HOST STEP, how));
		expect_equal(&near_by, &real, how, tolerance);
		ck_assert_double_eq(near_by.bytes, real.bytes);
		ck_assert_double_eq(near_by.rows, real.rows);
		ck_assert_double_eq(near_by.numbers, real.numbers);
		for (size_t h = 0; h < placements_of(s) && n > 1; h++) {
			how = words(MODEL "--batch=%d --strategy=%s %s " HOSTS STEP, 48 / n,
				    s->plugin.name, placements[h]);
			struct result far = run_simulated(n, how);
			expect_equal(&far, &real, how, tolerance);
		}
	}
}

TEST(simulated_options_equal_real_ones, 13)
{
	static const struct {
		double within;
		int workers;
		const char *words;
	} row[] = {
		{1e-6, 2, "allreduce --allreduce.overlap=true --allreduce.bucket=4KiB"},
		{1e-6, 3, "allreduce --allreduce.overlap=true --allreduce.bucket=4KiB"},
		{1e-6, 4, "gossip --gossip.schedule=hypercube"},
		{1e-6, 3,
		 "periodic --periodic.outer=nesterov --periodic.start=10 --periodic.schedule=up"},
		{1e-6, 2, "periodic --periodic.fragments=2 --periodic.delay=2 --periodic.mix=0.5"},
		/* a real ring adds in another order, and outer momentum amplifies that */
		{1e-5, 3,
		 "periodic --periodic.outer=nesterov --sync-every=2 --periodic.delay=2 "
		 "--periodic.eager --periodic.fragments=2"},
		{1e-6, 4, "periodic --sync-every=6 --periodic.group=2 --periodic.group-every=2"},
		{1e-6, 4, "gossip --gossip.schedule=torus --gossip.order=before"},
		{1e-6, 3, "gossip --gossip.schedule=exponential"},
		{1e-6, 3, "gossip --gossip.schedule=pairs --gossip.outer-lr=0.7"},
		{1e-6, 3, "sparta --sparta.share=0.3"},
		{1e-6, 2, "bsp --bsp.updater=sgd --reduce=sum --lr-scale=sqrt --lr=0.02"},
		{1e-6, 3, "model_parallel --workload=tanh_mlp --tanh_mlp.hidden=37"},
	};
	int n = row[_i].workers;
	const char *how = words("--workload=mlp --lr=0.05 --epochs=2 --sync-every=3 --batch=%d "
				"--strategy=%s",
				48 / n, row[_i].words);
	struct result real = train_ok(n, how);
	struct result sim = run_simulated(n, words("%s " ONE_HOST STEP, how));
	expect_equal(&sim, &real, how, row[_i].within);
	ck_assert_double_eq(sim.bytes, real.bytes);
}

TEST(simulated_asynchronous_workers_learn, LISTED(strategies))
{
	const struct strategy *s = strategies[_i];
	for (size_t h = 0; h < placements_of(s) && arrival_decides(s); h++) {
		const char *how = words(MODEL "--batch=16 --strategy=%s %s " HOSTS STEP,
					s->plugin.name, placements[h]);
		struct result r = run_simulated(3, how);
		ck_assert_msg(r.status == 0, "%s: status %d: %s", how, r.status, r.output);
		ck_assert_msg(r.test_loss < 0.9 * r.first_test_loss,
			      "%s learns nothing: %g, at first %g", how, r.test_loss,
			      r.first_test_loss);
		ck_assert_msg(r.pushes > 0 && r.stale > 0, "%s: no push is stale", how);
	}
}

/* ---- Repetitions --------------------------------------------------------- */

static const char *const recorded[] = {"epoch", "rank_epoch", "staleness"};

/* Rows of the table that only one of the two runs has. */
static double differing(const char *table, int a, int b)
{
	sqlite3 *db = made_again("run.db");
	char *names AUTOFREE = sentence(
		"SELECT group_concat(name) FROM pragma_table_info('%s') WHERE name <> 'run_id'",
		table);
	char *columns AUTOFREE = made_rows(db, names);
	sqlite3_close(db);
	return asked("WITH a AS (SELECT %s FROM %s WHERE run_id = %d), "
		     "b AS (SELECT %s FROM %s WHERE run_id = %d) "
		     "SELECT (SELECT count(*) FROM (SELECT * FROM a EXCEPT SELECT * FROM b)) + "
		     "(SELECT count(*) FROM (SELECT * FROM b EXCEPT SELECT * FROM a))",
		     columns, table, a, columns, table, b);
}

#define COMMON "--workload=softmax --lr=0.05 --batch=60 --epochs=2 --sync-every=2 "

/* Four runs: twice with one seed, once with another, and once without gradients. */
static void record_four(const char *how)
{
	static const char *const more[] = {"", "", "--seed=2", "--sim.train=false"};
	forget_runs();
	for (size_t i = 0; i < COUNT(more); i++) {
		char *all AUTOFREE = sentence("%s %s", how, more[i]);
		record_sim(all);
	}
}

TEST(simulations_repeat_themselves, LISTED(strategies))
{
	const struct strategy *s = strategies[_i];
	for (size_t h = 0; h < placements_of(s); h++) {
		const char *how =
			words(COMMON HOSTS STEP "--straggle=0.3 --strategy=%s --workers=%d %s",
			      s->plugin.name, workers_for(s, 4), placements[h]);
		record_four(how);
		for (size_t t = 0; t < COUNT(recorded); t++)
			ck_near(how, differing(recorded[t], 1, 2), 0, 0);
		ck_near(how, asked("SELECT count(DISTINCT model_hash) FROM run WHERE id < 3"), 1,
			0);
		ck_assert_double_gt(differing("epoch", 1, 3), 0);
		ck_assert_double_gt(differing("rank_epoch", 1, 3), 0);
		/* time alone: its rows are those of the first, without the results of training */
		ck_near(how,
			asked("SELECT count(*) FROM epoch WHERE run_id = 4 AND "
			      "coalesce(running_loss, running_accuracy, train_loss, "
			      "train_accuracy, test_loss, test_accuracy, consensus) IS NULL"),
			3, 0);
		asked("UPDATE epoch SET running_loss = NULL, running_accuracy = NULL, train_loss = "
		      "NULL, train_accuracy = NULL, test_loss = NULL, test_accuracy = NULL, "
		      "consensus = NULL");
		for (size_t t = 0; t < COUNT(recorded); t++)
			ck_near(how, differing(recorded[t], 1, 4), 0, 0);
		ck_near(how,
			asked("SELECT count(*) FROM run WHERE status = 'done' AND reason IS NULL"),
			4, 0);
		ck_near(how, asked("SELECT count(model_hash) FROM run WHERE model_hash <> ''"), 3,
			0);
	}
}

/* ResNet-32 with the shape of CIFAR-10, whose images need not be there: 390.6 mini-batches of
 * 128. */
TEST(resnet_is_simulated_without_images)
{
	sim_only("--workload=resnet --strategy=allreduce --workers=2 --batch=128 --epochs=1 "
		 "--data-dir=cifar10 --sim.platform=gpu2_pcie --sim.train=false " STEP);
	ck_near("images", asked("SELECT train_size FROM run"), 50000, 0);
	ck_near("parameters", asked("SELECT params FROM run"), 464154, 0);
	/* 196 steps of nearly equal parts of the set */
	ck_near("computing", epoch_of(1, "compute_s"), 50000 / 256.0 * step_s, 1e-4);
	ck_assert_double_gt(epoch_of(1, "seconds"), 50000 / 256.0 * step_s);
}

/* ---- Exact times ------------------------------------------------------------------------- */

#define SOFT "--workload=softmax --lr=0.05 --epochs=1 "

TEST(serial_epoch_is_the_sum_of_its_steps, 4)
{
	static const struct {
		const char *time;
		double s;
	} row[] = {{"1ms", 1e-3}, {"2.5ms", 2.5e-3}, {"40us", 40e-6}, {"3s", 3}};
	char *how AUTOFREE = sentence(
		SOFT "--batch=60 --strategy=serial " HOSTS "--sim.step-time=%s", row[_i].time);
	sim_only(how);
	ck_near(how, epoch_of(1, "seconds"), STEPS * row[_i].s, 1e-8);
	ck_near(how, epoch_of(1, "compute_s"), STEPS * row[_i].s, 1e-8);
	ck_near(how, epoch_of(1, "comm_s"), 0, 0);
}

/* The time of an epoch on hosts.xml with these factors in place of its own. */
static double seconds_with_factors(const char *factors, const char *how)
{
	static const char *const own =
		"<prop id='smpi/bw-factor' value='0:1'/><prop id='smpi/lat-factor' value='0:1'/>\n";
	char *text AUTOFREE = folder_read("hosts.xml"), *at = strstr(text, own);
	ck_assert_ptr_nonnull(at);
	*at = '\0';
	char *changed AUTOFREE = sentence("%s%s%s", text, factors, at + strlen(own));
	folder_text("factors.xml", changed);
	sim_only(words("%s --sim.platform=$FOLDER/factors.xml --sim.train=false " STEP, how));
	return epoch_of(1, "seconds");
}

/* A factor that the file of a user does not give is 1; one that it gives holds. */
TEST(platform_without_factors_takes_its_own_latency_and_bandwidth, LISTED(strategies))
{
#define FACTOR(of, value) "<prop id='smpi/" of "-factor' value='" value "'/>"
	const struct strategy *s = strategies[_i];
	const char *how = words(SOFT "--batch=60 --strategy=%s --workers=%d", s->plugin.name,
				workers_for(s, 6));
	double plain = seconds_with_factors(FACTOR("bw", "0:1") FACTOR("lat", "0:1"), how),
	       slow = seconds_with_factors(FACTOR("bw", "0:1") FACTOR("lat", "0:3"), how),
	       thin = seconds_with_factors(FACTOR("bw", "0:0.5") FACTOR("lat", "0:1"), how);
	ck_near(how, seconds_with_factors("", how), plain, 0);
	ck_near(how, seconds_with_factors("<!-- " FACTOR("lat", "0:3") " -->", how), plain, 0);
	ck_near(how, seconds_with_factors(FACTOR("lat", "0:3"), how), slow, 0);
	ck_near(how, seconds_with_factors(FACTOR("bw", "0:0.5"), how), thin, 0);
	if (strcmp(s->plugin.name, "serial") == 0)
		return;
	ck_assert_double_gt(slow, plain);
	ck_assert_double_gt(thin, plain);
}

/* Two workers a second apart, over 1 GB/s: each sends two halves, one after the other. TCP's window
 * counts only if the file gives one. */
TEST(platform_without_a_window_sends_at_its_bandwidth)
{
	static const struct {
		const char *window;
		double rate;
	} row[] = {{"", 1e9}, {"<prop id='network/TCP-gamma' value='4194304'/>", 4194304 / 2.0}};
	for (size_t i = 0; i < COUNT(row); i++) {
		char *text AUTOFREE = sentence(
			"<?xml version='1.0'?><!DOCTYPE platform SYSTEM "
			"'https://simgrid.org/simgrid.dtd'><platform version='4.1'><config>%s"
			"<prop id='network/crosstraffic' value='0'/></config>"
			"<zone id='all' routing='Full'><host id='a' speed='1Gf'/><host id='b' "
			"speed='1Gf'/><link id='l' bandwidth='1GBps' latency='1s' "
			"sharing_policy='SPLITDUPLEX'/><route src='a' dst='b'><link_ctn id='l' "
			"direction='UP'/></route></zone></platform>",
			row[i].window);
		folder_text("far.xml", text);
		sim_only(SOFT "--batch=1200 --strategy=allreduce --workers=2 --sim.train=false "
			      "--sim.platform=$FOLDER/far.xml " STEP);
		ck_near("an epoch", epoch_of(1, "seconds"),
			step_s + 2 + 7850 * sizeof(float) / row[i].rate, 1e-4);
	}
}

/* A step of fewer rows is shorter: 2,400 rows in 41 parts of 58 or 59. */
TEST(step_time_is_proportional_to_rows)
{
	sim_only(SOFT "--batch=59 --strategy=serial " HOSTS STEP);
	ck_near("an epoch", epoch_of(1, "seconds"), ROWS / 59.0 * step_s, 1e-6);
	sim_only(SOFT "--batch=59 --strategy=serial --sim.step-factor=2.5 " HOSTS STEP);
	ck_near("with a factor", epoch_of(1, "seconds"), 2.5 * ROWS / 59.0 * step_s, 1e-6);
}

/* --sim.step-time and --step-time are of a whole --global-batch, which N workers share, evenly or
 * not: 2,400 rows take the same compute time in all, whatever N is. */
TEST(global_batch_step_time_is_shared_by_workers, 6)
{
	static const struct {
		const char *how;
		int workers;
	} row[] = {{"--strategy=serial", 1},
		   {"--strategy=allreduce --workers=2", 2},
		   {"--strategy=allreduce --workers=3", 3},
		   {"--strategy=allreduce --workers=4", 4},
		   {"--strategy=periodic --workers=7", 7},
		   {"--strategy=bsp --workers=4 --servers=1", 4}};
	static const char *const time[] = {"--sim.step-time=1ms", "--step-time=1ms"};
	for (size_t i = 0; i < COUNT(time); i++) {
		char *how AUTOFREE = sentence(SOFT "--global-batch=60 %s %s --platform=sim "
						   "--sim.platform=ethernet_10g --sim.train=false",
					      row[_i].how, time[i]);
		record_only(how);
		double mean = asked("SELECT avg(compute_s) FROM rank_epoch WHERE epoch = 1");
		/* one row of a step is what an uneven share is more or less than N-th part */
		ck_near(how, mean, STEPS * step_s / row[_i].workers, 1e-5);
	}
}

/* Workers whose steps --step-time paces need no core each, and take that time on a slow host. */
TEST(paced_steps_take_no_core, 4)
{
	static const char *const how[] = {
		"--strategy=allreduce --workers=8 " ONE_HOST, /* on four cores */
		"--strategy=asgd --workers=8 --deal=static " ONE_HOST,
		"--strategy=allreduce --workers=6 --allreduce.overlap=true " ONE_HOST,
		"--strategy=periodic --workers=4 --sim.platform=$FOLDER/slow.xml"};
	char *words AUTOFREE =
		sentence(SOFT "--batch=60 --step-time=10ms --sim.train=false %s", how[_i]);
	put_hosts("slow.xml", 4, 1, 2);
	sim_only(words);
	ck_near(words, asked("SELECT avg(compute_s) FROM rank_epoch WHERE epoch = 1"),
		10e-3 * STEPS / asked("SELECT workers FROM run"), 1e-5);
}

/* Two workers exchange the whole vector. More workers form a ring: N - 1 parts of the vector go
 * round to be summed, and the same number with the sums. */
static double allreduce_s(int workers, double floats)
{
	int messages = workers == 2 ? 1 : 2 * (workers - 1);
	double part = workers == 2 ? floats : ceil(floats / workers);
	return messages * (latency_s + (sizeof(float) * part + envelope) * byte_s);
}

TEST(allreduce_time_is_that_of_its_messages, 2, 5)
{
	int n = _i;
	char *how AUTOFREE = sentence(
		SOFT "--batch=%d --strategy=allreduce --workers=%d " HOSTS STEP, BATCH / n, n);
	sim_only(how);
	/* the barrier at the end takes a few messages more */
	ck_near(how, epoch_of(1, "seconds"), STEPS * (step_s + allreduce_s(n, SOFTMAX)),
		2 * n * latency_s + 1e-4);
	ck_near(how, epoch_of(1, "compute_s"), STEPS * step_s, 1e-8);
	ck_near(how, epoch_of(1, "comm_s"), STEPS * allreduce_s(n, SOFTMAX), 1e-4);
}

/* Between epochs, before the first and after the last, there are dozens of collectives. Each of
 * them would be several messages in a row. The start of MPI, and each epoch, takes a few
 * messages. */
TEST(untimed_phases_send_no_messages, 2)
{
	static const char *const strategy[] = {"allreduce", "periodic"};
	enum { EPOCHS = 4 };
	double rest_s[2];
	for (int k = 0; k < 2; k++) {
		char *how AUTOFREE =
			sentence("--workload=softmax --lr=0.05 --batch=%d --epochs=%d "
				 "--workers=5 --sim.train=false --strategy=%s " HOSTS STEP,
				 BATCH, k ? EPOCHS : 1, strategy[_i]);
		sim_only(how);
		rest_s[k] = asked("SELECT simulated_s - (SELECT total(seconds) FROM epoch) "
				  "FROM run");
	}
	ck_assert_msg(rest_s[0] < 8 * latency_s, "%s: %g s", strategy[_i], rest_s[0]);
	double each_s = (rest_s[1] - rest_s[0]) / (EPOCHS - 1);
	ck_assert_msg(each_s < 5 * latency_s, "%s: %g s an epoch", strategy[_i], each_s);
}

/* A push and its pull, on the host that has the tables; alone, each of them takes half. */
TEST(update_takes_the_given_time, 6)
{
	static const struct {
		const char *strategy;
		double pushes, pulls; /* of a step */
	} row[] = {{"asgd", 1, 1},
		   {"asgd --sync-every=4", 0.25, 0.25},
		   {"bsp", 1, 1},
		   {"ssp --ssp.bound=0", 1, 1},
		   {"easgd --sync-every=2", 0.5, 0.5},
		   {"downpour --sync-every=2 --downpour.send=1", 1, 0.5}};
	char *how AUTOFREE =
		sentence(SOFT "--batch=60 --strategy=%s " ONE_HOST STEP "--sim.update-time=300us",
			 row[_i].strategy);
	sim_only(how);
	ck_near(how, epoch_of(1, "seconds"),
		STEPS * (step_s + (row[_i].pushes + row[_i].pulls) * 150e-6), 1e-6);
	ck_near(how, epoch_of(1, "compute_s"), STEPS * step_s, 1e-6);
}

/* A server makes one update after the other: if updates take long, they alone count. */
TEST(busy_server_makes_workers_wait)
{
	const char *how = SOFT "--batch=60 --strategy=asgd --deal=static --workers=4 "
			       "--servers=1 " HOSTS STEP;
	char *longer AUTOFREE = sentence("%s --sim.update-time=300ms", how);
	char *still AUTOFREE = sentence("%s --sim.update-time=500ms", how);
	sim_only(longer);
	record_sim(still);
	ck_near("pushes", epoch_of(1, "pushes"), STEPS, 0);
	ck_near("what 200 ms more add", epoch_of(2, "seconds") - epoch_of(1, "seconds"),
		STEPS * 0.2, 1e-6);
	/* no worker asks when all have computed, or while the last answer is on its way */
	ck_near("an epoch", epoch_of(1, "seconds"), STEPS * 0.3 + 0.7, 0.7);
}

/* Two workers share one core: each step takes twice as long. With a host for each it does not. */
TEST(workers_share_a_core)
{
	forget_runs();
	put_hosts("core.xml", 1, 1, 0);
	record_sim(SOFT "--batch=30 --strategy=allreduce --workers=2 " HOSTS STEP);
	record_sim(SOFT "--batch=30 --strategy=allreduce --workers=2 --sim.platform=$FOLDER/"
			"core.xml " STEP);
	record_sim(SOFT "--batch=15 --strategy=allreduce --workers=4 --sim.platform=$FOLDER/"
			"core.xml " STEP);
	record_sim(SOFT "--batch=15 --strategy=allreduce --workers=4 " ONE_HOST STEP);
	ck_near("hosts of their own", epoch_of(1, "compute_s"), STEPS * step_s, 1e-8);
	ck_near("two on one core", epoch_of(2, "compute_s"), 2 * STEPS * step_s, 1e-5);
	ck_near("four on one core", epoch_of(3, "compute_s"), 4 * STEPS * step_s, 1e-5);
	ck_near("four on four cores", epoch_of(4, "compute_s"), STEPS * step_s, 1e-5);
}

/* Given times are those of the fastest host. */
TEST(slow_host_takes_longer)
{
	forget_runs();
	put_hosts("slow.xml", 2, 1, 1);
	record_sim(SOFT "--batch=60 --strategy=serial --sim.platform=$FOLDER/slow.xml " STEP);
	record_sim(SOFT "--batch=30 --strategy=allreduce --workers=2 --sim.platform=$FOLDER/"
			"slow.xml " STEP);
	ck_near("on the slow host", epoch_of(1, "seconds"), 2 * STEPS * step_s, 1e-8);
	for (int rank = 0; rank < 2; rank++)
		ck_near(rank ? "the fast worker" : "the slow worker",
			asked("SELECT compute_s FROM rank_epoch WHERE run_id = 2 AND epoch = 1 AND "
			      "rank = %d",
			      rank),
			(rank ? 1 : 2) * STEPS * step_s, 1e-6);
	ck_near("both", epoch_of(2, "seconds"), STEPS * (2 * step_s + allreduce_s(2, SOFTMAX)),
		4 * latency_s + 1e-4);
}

/* A layer takes its share of the flops; the lowest layer computes no gradient for a layer below.
 * Each layer is sent while those below it compute. All of the sending but the last layer's is
 * hidden. */
TEST(overlap_hides_messages)
{
	enum { LOW = (784 + 1) * 64, MIDDLE = (64 + 1) * 64, TOP = (64 + 1) * 10 };
	const char *how = "--workload=mlp --mlp.hidden=64 --mlp.depth=2 --epochs=1 --batch=30 "
			  "--workers=2 --strategy=allreduce " HOSTS "--sim.step-time=300ms ";
	char *hidden AUTOFREE = sentence("%s --allreduce.overlap --allreduce.bucket=1", how);
	const double floats = LOW + MIDDLE + TOP;
	sim_only(how);
	record_sim(hidden);
	ck_near("parameters", asked("SELECT params FROM run WHERE id = 1"), floats, 0);
	/* the backward pass of the lowest layer takes 131 of 300 ms: enough for the others */
	const double low = 784 * 64, others = 64 * 64 + 64 * 10;
	ck_assert_double_gt(0.3 * low / (2 * low + 3 * others),
			    2 * latency_s + (MIDDLE + TOP) * 4 * byte_s);
	ck_near("without overlap", epoch_of(1, "seconds"), STEPS * (0.3 + allreduce_s(2, floats)),
		0.01);
	ck_near("with overlap", epoch_of(2, "seconds"), STEPS * (0.3 + allreduce_s(2, LOW)), 0.01);
	ck_near("the same model", asked("SELECT count(DISTINCT model_hash) FROM run"), 1, 0);
}

/* A sum that is started takes what one takes that is waited for: with a step of 1 us nothing is
 * hidden. */
TEST(started_allreduce_takes_the_time_of_a_blocking_one, 5)
{
	static const int workers[] = {2, 3, 4, 5, 6};
	int n = workers[_i];
	char *how AUTOFREE = sentence(
			  SOFT "--batch=%d --strategy=allreduce --workers=%d --sim.train=false "
			       "--sim.step-time=1us " HOSTS,
			  240 / n, n),
		  *started AUTOFREE = sentence("%s --allreduce.overlap", how);
	sim_only(how);
	record_sim(started);
	ck_near(how, epoch_of(2, "seconds"), epoch_of(1, "seconds"), 1e-4 * epoch_of(1, "seconds"));
}

/* lenet's multiplications of a row, forward. */
static const double conv1 = 28 * 28 * 25 * 32, conv2 = 14 * 14 * 25 * 32 * 64, fc1 = 3136 * 128,
		    fc2 = 128 * 10;

/* For any number of workers, network, model and bucket: an overlapped step takes no longer than one
 * without overlap. It takes at least the forward pass, and then the longer of the backward pass and
 * the sums. */
TEST(overlap_is_never_slower, 20)
{
	static const char *const bucket[] = {"", "64KiB", "400000", "1MiB", "20MiB"};
	static const char *const model[] = {"mlp", "lenet"};
	static const char *const network[] = {"ethernet_1g", "$FOLDER/many.xml"};
	static const int workers[] = {2, 3, 4, 8, 16};
	int n = workers[_i / 4], steps = (ROWS + 240 / n * n - 1) / (240 / n * n);
	const char *where = network[_i % 2];
	char *how AUTOFREE =
		sentence("--workload=%s --epochs=1 --batch=%d --strategy=allreduce --workers=%d "
			 "--sim.train=false --sim.platform=%s --sim.step-time=%s",
			 model[_i / 2 % 2], 240 / n, n, where, _i % 2 ? "3s" : "20ms");
	double step = (_i % 2 ? 3 : 0.02) * ROWS / (240 / n * n);
	/* the backward pass has twice the multiplications, in the lowest layer as many */
	double all = _i / 2 % 2 ? conv1 + conv2 + fc1 + fc2 : 784 * 128 + 128 * 10,
	       lowest = _i / 2 % 2 ? conv1 : 784 * 128, forward = step * all / (3 * all - lowest);
	put_hosts("many.xml", 16, 1, 0);
	sim_only(how);
	double apart = epoch_of(1, "seconds"), sums = apart - step;
	ck_assert_double_gt(sums, 0.01 * step);
	for (size_t i = 0; i < COUNT(bucket); i++) {
		char *overlap AUTOFREE =
			sentence("%s --allreduce.overlap %s%s", how,
				 *bucket[i] ? "--allreduce.bucket=" : "", bucket[i]);
		record_sim(overlap);
		double together = epoch_of(2 + (int)i, "seconds");
		ck_assert_msg(together <= 1.001 * apart + 1e-4 * steps, "%s: %g s, without %g s",
			      overlap, together, apart);
		ck_assert_msg(together >= 0.999 * (forward + fmax(step - forward, sums)),
			      "%s: %g s; forward %g s, backward %g s, sums %g s", overlap, together,
			      forward, step - forward, sums);
		if (i == 0) /* the default bucket hides something of each of these models */
			ck_assert_msg(together < apart, "%s: %g s, without %g s", overlap, together,
				      apart);
	}
}

/* The default bucket hides a part of the sums of every model: most of them, unless the lowest layer
 * has nearly all parameters. */
TEST(default_bucket_overlaps_every_model, 5)
{
	static const struct {
		const char *model;
		double left; /* largest share of the sums that is not hidden */
	} row[] = {{"mlp", 1},
		   {"tanh_mlp", 1},
		   {"lenet", 0.5},
		   {"resnet --data-dir=cifar10", 0.5},
		   {"gpt --data-dir=$FOLDER/words", 0.5}};
	char text[60001] = "";
	memset(text, 'a', sizeof text - 1);
	folder_text("words", text);
	char *how AUTOFREE = sentence(
			  "--strategy=allreduce --workers=4 --epochs=1 --batch=60 "
			  "--sim.train=false --sim.platform=ethernet_1g --sim.step-time=500ms "
			  "--workload=%s",
			  row[_i].model),
		  *overlap AUTOFREE = sentence("%s --allreduce.overlap", how);
	sim_only(how);
	record_sim(overlap);
	double step = epoch_of(1, "compute_s"), sums = epoch_of(1, "seconds") - step;
	ck_assert_double_gt(sums, 0);
	ck_assert_double_lt(epoch_of(2, "seconds") - step, row[_i].left * sums);
}

/* The linear layers and the attention of gpt are split evenly; each worker has the last layer. */
TEST(split_gpt_takes_its_share, 2)
{
	const double L = 2, D = 32, T = _i ? 1024 : 16, last = 1536 * D,
		     split = L * (72 * D * D + 12 * T * D);
	char text[60001] = "";
	memset(text, 'a', sizeof text - 1);
	folder_text("words", text);
	char *how AUTOFREE =
		sentence("--workload=gpt --data-dir=$FOLDER/words --gpt.layers=2 --gpt.width=32 "
			 "--gpt.heads=4 --gpt.context=%g --batch=1 --epochs=1 --sim.train=false "
			 "--sim.platform=gpu2_nvlink --sim.step-time=1s --strategy=",
			 T);
	char *serial AUTOFREE = sentence("%sserial", how),
		     *both AUTOFREE = sentence("%smodel_parallel --workers=2", how);
	sim_only(serial);
	record_sim(both);
	ck_near("share", epoch_of(2, "compute_s") / epoch_of(1, "compute_s"),
		(split / 2 + last) / (split + last), 1e-6);
}

/* The outer muon orthogonalises the first matrix of mlp by five iterations, once in an epoch here.
 */
TEST(products_outside_gradients_take_time)
{
	const double n = 128, k = 784, muon = 5 * (4 * n * n * k + 2 * n * n * n),
		     gradient = 4 * n * k + 6 * n * 10;
	const char *how = "--workload=mlp --batch=60 --epochs=1 --strategy=periodic --workers=2 "
			  "--sync-every=20 --sim.platform=gpu2_nvlink " STEP;
	char *outer AUTOFREE = sentence("%s --periodic.outer=muon", how);
	sim_only(how);
	record_sim(outer);
	ck_near("what muon adds", epoch_of(2, "seconds") - epoch_of(1, "seconds"),
		muon / (60 * gradient) * step_s, 1e-6);
}

/* When rank 0 begins to send its i-th message of step 1, in 1,000 s. */
static double sends_after(size_t i)
{
	return asked("SELECT e.start_s - s.start_s FROM event AS e JOIN event AS s ON s.rank = 0 "
		     "AND s.name = 'step' WHERE e.rank = 0 AND e.name = 'send' AND e.step = 1 "
		     "ORDER BY e.start_s LIMIT 1 OFFSET %d",
		     (int)i) /
	       1000;
}

/* lenet's first linear layer has 88 % of the parameters, and 4 % of the backward pass: its gradient
 * is ready early. */
TEST(gradients_are_ready_by_flops)
{
	const double forward = conv1 + conv2 + fc1 + fc2;
	const double at[] = {forward + 2 * fc2, forward + 2 * fc2 + 2 * fc1,
			     forward + 2 * fc2 + 2 * fc1 + 2 * conv2,
			     forward + 2 * fc2 + 2 * fc1 + 2 * conv2 + conv1};
	sim_only("--workload=lenet --epochs=1 --batch=300 --workers=2 --strategy=allreduce "
		 "--allreduce.overlap --allreduce.bucket=1 --trace=1 --sim.train=false " HOSTS
		 "--sim.step-time=1000s");
	for (size_t i = 0; i < COUNT(at); i++)
		ck_near("ready", sends_after(i), at[i] / at[3], 1e-3);
}

/* Only lenet's linear layers are split: two workers save half of 4 %. */
TEST(convolutions_are_not_split)
{
	const double linear = fc1 + fc2, all = 2 * conv1 + 3 * conv2 + 3 * linear;
	sim_only("--workload=lenet --epochs=1 --batch=300 --workers=2 "
		 "--strategy=model_parallel --sim.train=false " HOSTS "--sim.step-time=1000s");
	ck_near("a step", epoch_of(1, "compute_s") / (ROWS / 300) / 1000, 1 - 1.5 * linear / all,
		1e-3);
}

/* ---- Calibrations ---------------------------------------------------------------------------- */

TEST(calibrated_curves_are_linear_between_points)
{
	static const struct curve c = {.n = 3, .x = {10, 20, 40}, .y = {1, 5, 7}};
	static const struct curve none = {.n = 0};
	static const double at[][2] = {{0, 1},  {10, 1}, {15, 3},  {20, 5},
				       {30, 6}, {40, 7}, {80, 14}, {400, 70}};
	for (size_t i = 0; i < COUNT(at); i++)
		ck_near("curve", curve_at(&c, at[i][0]), at[i][1], 1e-12);
	ck_near("no points", curve_at(&none, 7), 0, 0);
}

struct made {
	const char *workload, *options;
	int batch, workers, cores;
	double step_s;
	bool spread; /* 64 equally likely times: from 2 / 65 to 2 x 64 / 65 of step_s */
};

/* Makes a calibration, the newest one so far. */
static void calibrated(struct made m)
{
	new_database("run.db");
	char *text AUTOFREE = sentence(
		"INSERT INTO calibration (made, device, precision, threads, workload, "
		"workload_options, batch, params, workers, cores) VALUES ('2026-01-01T00:00:00Z', "
		"'cpu', 'float32', 1, '%s', '%s', %d, 1, %d, %d);"
		"WITH RECURSIVE bin(k) AS (SELECT 0 UNION ALL SELECT k + 1 FROM bin WHERE k < %d) "
		"INSERT INTO calibration_point SELECT (SELECT max(id) FROM calibration), 'step', "
		"k, "
		"%.17g * iif(%d, 2.0 * (k + 1) / (%d + 1), 1) FROM bin;"
		"INSERT INTO calibration_point SELECT max(id), 'message', 0, 1e-9 FROM calibration;"
		"INSERT INTO calibration_point SELECT max(id), 'message', 1, 1e-9 FROM "
		"calibration;",
		m.workload, m.options, m.batch, m.workers, m.cores, STEP_BINS - 1, m.step_s,
		(int)m.spread, STEP_BINS);
	sql(text);
}

/* Adds a point to the newest calibration. */
static void point(const char *name, double x, double value)
{
	char *text AUTOFREE = sentence("INSERT INTO calibration_point VALUES ((SELECT max(id) FROM "
				       "calibration), '%s', %.17g, %.17g)",
				       name, x, value);
	sql(text);
}

/* Measured times of layers replace flops: the forward pass takes 2 of 10 parts, and then the layers
 * from the last to the first. Those of a model with other layers do not. */
TEST(gradients_are_ready_by_measured_times, 2)
{
	static const double part[] = {4, 1, 3, 2}, at[] = {0.5, 0.6, 1};
	const char *how = "--workload=mlp --mlp.hidden=64 --mlp.depth=2 --epochs=1 --batch=300 "
			  "--workers=2 --strategy=allreduce --allreduce.overlap "
			  "--allreduce.bucket=1 --trace=1 --sim.train=false " HOSTS;
	forget_runs();
	calibrated((struct made){"mlp", "--mlp.hidden=64 --mlp.depth=2", 300, 1, 2, 1000, false});
	for (size_t i = (size_t)_i; i < COUNT(part); i++)
		point("layer", (double)(i - (size_t)_i), part[i]);
	record_sim(how);
	for (size_t i = 0; i < COUNT(at) && !_i; i++)
		ck_near("ready", sends_after(i), at[i], 1e-3);
	const double low = 784 * 64, middle = 64 * 64, top = 64 * 10, forward = low + middle + top;
	if (_i)
		ck_near("by flops", sends_after(0), (forward + 2 * top) / (3 * forward - low),
			1e-3);
}

/* Workers that compute side by side without messages. */
#define APART SOFT "--strategy=periodic --sync-every=1000000000 "

TEST(steps_are_drawn_from_the_calibration)
{
	const int epochs = 25;
	forget_runs();
	calibrated((struct made){"softmax", "", 60, 1, 2, step_s, true});
	char *how AUTOFREE = sentence(
		"--workload=softmax --lr=0.05 --batch=60 --strategy=serial --epochs=%d " ONE_HOST
		"--sim.train=false --db=%s/run.db",
		epochs, folder);
	char *other AUTOFREE = sentence("%s --seed=2", how);
	record_sim(how);
	record_sim(how);
	record_sim(other);
	ck_near("which", asked("SELECT calibration_id FROM run WHERE id = 1"), 1, 0);
	/* the mean of 1,000 draws, each 0.58 from its mean */
	double mean = asked("SELECT avg(compute_s) FROM epoch WHERE run_id = 1 AND epoch > 0");
	ck_near("a step", mean / STEPS, step_s, 5 * 0.58 * step_s / sqrt(STEPS * epochs));
	ck_assert_double_gt(
		asked("SELECT max(compute_s) - min(compute_s) FROM epoch WHERE run_id = 1 AND "
		      "epoch > 0"),
		0.05 * mean);
	ck_near("again", differing("rank_epoch", 1, 2), 0, 0);
	ck_assert_double_gt(differing("rank_epoch", 1, 3), 0);
	/* the update is a part of the step */
	point("sgd", SOFTMAX, 0.01 * step_s);
	record_sim(how);
	ck_near("with an update",
		asked("SELECT avg(compute_s) FROM epoch WHERE run_id = 4 AND epoch > 0"), mean,
		1e-9);
}

/* The update counts as a whole, whatever the optimiser does: products, or groups of parameters,
 * whose measured times are far longer here. Clipping takes two more passes over the gradient, or
 * one if a step is one pass. */
TEST(update_takes_the_calibrated_time, 8)
{
	enum { MLP = 784 * 128 + 128 + 128 * 10 + 10 };
	const double pass_s = 1e-5;
	static const struct {
		const char *words, *options;
		int passes;
	} row[] = {{" --optimizer=muon", "", 0},
		   {" --optimizer=adamw", "--weight-decay=0.1 --decay=weights", 0},
		   {" --optimizer=muon", "--clip=1", 2},
		   {"", "--clip=1", 1}};
	static const char *const strategy[] = {"serial", "allreduce --workers=2"};
	int k = _i % (int)COUNT(row), workers = 1 + _i / (int)COUNT(row);
	char *key AUTOFREE = sentence("--mlp.hidden=128 --mlp.depth=1%s", row[k].words);
	char *how AUTOFREE = sentence("--workload=mlp %s %s --batch=%d --epochs=1 --strategy=%s "
				      "--sim.platform=local --sim.train=false",
				      key, row[k].options, BATCH / workers, strategy[workers - 1]);
	forget_runs();
	calibrated((struct made){"mlp", key, BATCH / workers, workers, workers, step_s, false});
	point("sgd", 1, 0.4 * step_s);
	point("sgd", MLP, 0.5 * step_s);
	point("scale", MLP, pass_s);
	point("axpy", MLP, 10 * step_s);
	record_sim(how);
	ck_near(how, epoch_of(1, "compute_s"), STEPS * (step_s + row[k].passes * pass_s), 1e-7);
}

/* Work of a plug-in on the host takes time: the calibrated time, with copies to the host and back,
 * or a nanosecond a float. */
TEST(work_on_the_host_takes_time)
{
	enum { PASSES = 40 };
	const double pass_s = 3e-6, copy_s = 1e-6;
	for (int measured = 0; measured < 2; measured++) {
		double took[2];
		for (int works = 0; works < 2; works++) {
			forget_runs();
			calibrated((struct made){"softmax", "", 60, 1, 2, step_s, false});
			if (measured) {
				point("host", SOFTMAX, pass_s);
				point("copy", SOFTMAX, copy_s);
			}
			char *how AUTOFREE =
				sentence("--workload=softmax --batch=60 --strategy=serial "
					 "--epochs=1 " ONE_HOST "--db=%s/run.db",
					 folder);
			char passes[16];
			snprintf(passes, sizeof passes, "%d", works * PASSES);
			setenv("MVBENCH_HOST_PASSES", passes, 1);
			struct result r = run_simulated(1, how);
			unsetenv("MVBENCH_HOST_PASSES");
			ck_assert_msg(r.status == 0, "%s", r.output);
			took[works] = r.computed_s;
		}
		ck_near("a step", took[0] / STEPS, step_s + (measured ? 2 * copy_s : 0), 1e-9);
		ck_near("its work", (took[1] - took[0]) / STEPS / PASSES,
			measured ? pass_s : 1e-9 * SOFTMAX, 1e-9);
	}
}

/* ---- The ledger of virtual time ---- */

/* Calibrated costs, such that no sum of them is another one. */
static const double update_s = 0.11e-3, vector_s = 17e-6, table_s = 310e-6, sum_s = 130e-6,
		    wake_s = 23e-6;

static void calibrate_for_the_ledger(void)
{
	static const char *const vector[] = {"fill", "copy", "scale", "axpy"}, *const push[] = {
										       "read",
										       "push",
										       "sync",
										       "elastic"};
	forget_runs();
	calibrated((struct made){"softmax", "", 60, 1, 2, step_s, false});
	point("sgd", 1, update_s);
	point("sgd", 1e9, update_s);
	point("sum", 1, sum_s);
	point("sum", 1e9, sum_s);
	point("wake", 1, wake_s);
	for (size_t i = 0; i < COUNT(vector); i++) {
		point(vector[i], 1, vector_s);
		point(vector[i], 1e9, vector_s);
		point(push[i], 1, table_s);
		point(push[i], 1e9, table_s);
	}
}

/* Each operation of the kind costs `one`. The simulator's clock is exact to 1e-9 s. */
static void whole_times(const char *how, double spent, double one)
{
	ck_near(how, spent / one, round(spent / one), 1e-3);
}

/* What is charged is charged once, under the right kind, and the kinds add up to the times that the
 * workers themselves have measured, except for what they do not count: at most this share, and this
 * number of latencies. push: of one operation on a table [s]. Returns the seconds of work on the
 * host. */
static double ledger_adds_up(const struct strategy *s, int n, const char *more, double steps,
			     double push, double share, double latencies)
{
	const char *how = words("--workload=softmax --batch=60 --epochs=1 --sync-every=2 "
				"--straggle=0 --strategy=%s %s --db=%s/run.db",
				s->plugin.name, more, folder);
	struct result r = run_simulated(n, how);
	ck_assert_msg(r.status == 0, "%s: %s", how, r.output);
	const double *spent = r.spent_s;
	double computed = spent[SPENT_STEP] + spent[SPENT_UPDATE] + spent[SPENT_VECTOR],
	       talked = spent[SPENT_PUSH] + spent[SPENT_SUM] + spent[SPENT_WAKE] +
			spent[SPENT_MESSAGE] + spent[SPENT_SLEEP]; /* naps of a poll */
	/* that of codecs is in their messages */
	*(strcmp(s->plugin.name, "adasum") == 0 ? &computed : &talked) += spent[SPENT_HOST];
	ck_near(how, spent[SPENT_STEP], steps, 1e-9);
	/* vector operations of a flush are communication */
	if (s->flush)
		ck_near(how, computed - n * r.computed_s,
			vector_s * round((computed - n * r.computed_s) / vector_s), 1e-6);
	else
		ck_near(how, computed, n * r.computed_s, 1e-6);
	whole_times(how, spent[SPENT_UPDATE], update_s);
	whole_times(how, spent[SPENT_VECTOR], vector_s);
	whole_times(how, spent[SPENT_PUSH], push);
	whole_times(how, spent[SPENT_SUM], sum_s);
	whole_times(how, spent[SPENT_WAKE], wake_s);
	ck_near(how, talked, n * r.communicated_s, share * talked + latencies * latency_s);
	return spent[SPENT_HOST];
}

TEST(charges_of_a_step_add_up_to_its_time, LISTED(strategies))
{
	const struct strategy *s = strategies[_i];
	int n = workers_for(s, 4);
	calibrate_for_the_ledger();
	for (size_t h = 0; h < placements_of(s); h++) {
		/* workers do not count the barriers of an epoch, nor those of one-sided tables */
		double host = ledger_adds_up(s, n, words("%s " HOSTS, placements[h]),
					     STEPS * (step_s - update_s), table_s, 0.04, 8 * n);
		/* adasum combines two gradients on the host, at 1 ns a float */
		whole_times(s->plugin.name, host, 2e-9 * SOFTMAX);
		ck_assert_int_eq(host > 0, strcmp(s->plugin.name, "adasum") == 0);
	}
}

/* The same with codecs, paced steps, given updates, assigned mini-batches and several machines: 40
 * steps of four workers, which exchange after each second step, except those of allreduce. */
TEST(charges_add_up_in_other_runs, 14)
{
#define CODES     "--sim.encode-time=370us --sim.decode-time=190us "
#define UNCHANGED "--codec.feedback=false "
#define MACHINES \
	"--sim.platform=cluster --sim.gpus=2 --sim.rate=80mbit --sim.latency=2ms " \
	"--sim.inner-rate=800mbit "
	enum { EXCHANGES = STEPS / 2 };
	static const double encode_s = 370e-6, decode_s = 190e-6, pass_s = 1e-9 * SOFTMAX;
	const struct {
		const char *strategy, *more;
		double step_s, push_s, host_s; /* host_s: NAN = some, which depends on parts */
	} row[] = {
		/* of four messages; what each lost is kept in four passes */
		{"allreduce", HOSTS CODES UNCHANGED "--codec=topk", 0, table_s,
		 STEPS * (encode_s + 4 * decode_s)},
		{"gossip", HOSTS CODES "--codec=topk", 0, table_s,
		 EXCHANGES * (encode_s + 2 * decode_s + 4 * pass_s)},
		{"periodic", HOSTS CODES "--codec=int8", 0, table_s, NAN},
		/* the server decodes */
		{"asgd", MACHINES CODES UNCHANGED "--codec=topk --servers=1 --deal=static", 0,
		 table_s, EXCHANGES * encode_s},
		/* the worker decodes, too; the difference, and what it moves by, are two passes */
		{"easgd", MACHINES CODES "--codec=topk --servers=1 --deal=static", 0, table_s,
		 EXCHANGES * (encode_s + decode_s + 2 * pass_s)},
		/* the worker decodes what it pulls */
		{"asgd", MACHINES CODES "--codec.pull=int8 --servers=1 --deal=static", 0, table_s,
		 EXCHANGES * decode_s},
		/* the update comes in addition */
		{"allreduce", HOSTS "--step-time=7ms", 7e-3, table_s, 0},
		{"periodic", HOSTS "--step-time=7ms", 7e-3, table_s, 0},
		{"asgd", HOSTS "--table-home=onesided --deal=dynamic", 0, table_s, 0},
		{"asgd", HOSTS "--table-home=onesided --deal=static --sim.update-time=300us", 0,
		 150e-6, 0},
		{"allreduce", MACHINES, 0, table_s, 0},
		{"allreduce", MACHINES "--allreduce.hierarchical", 0, table_s, 0},
		{"bsp", MACHINES "--servers=1", 0, table_s, 0},
		{"asgd", MACHINES "--table-home=onesided", 0, table_s, 0},
	};
	size_t k = 0;
	while (strcmp(strategies[k]->plugin.name, row[_i].strategy) != 0)
		k++;
	calibrate_for_the_ledger();
	double one = row[_i].step_s > 0 ? row[_i].step_s : step_s - update_s,
	       host = ledger_adds_up(strategies[k], 4, row[_i].more, STEPS * one, row[_i].push_s, 0,
				     8);
	if (isnan(row[_i].host_s))
		ck_assert_double_gt(host, 0);
	else
		ck_near(row[_i].more, host, row[_i].host_s, 1e-8);
}

TEST(nearest_calibration_is_used)
{
	static const struct {
		int workers;
		double step_ms;
		int id;
	} row[] = {{1, 7, 6}, {2, 2, 2}, {3, 2, 2}, {4, 4, 3}, {6, 4, 3}};
	forget_runs();
	calibrated((struct made){"softmax", "", 60, 1, 8, 1e-3, false});
	calibrated((struct made){"softmax", "", 60, 2, 8, 2e-3, false});
	calibrated((struct made){"softmax", "", 60, 4, 8, 4e-3, false});
	calibrated((struct made){"softmax", "", 30, 1, 8, 5e-3, false});
	calibrated((struct made){"mlp", "--mlp.hidden=128", 60, 1, 8, 6e-3, false});
	calibrated((struct made){"softmax", "", 60, 1, 8, 7e-3, false});
	for (size_t i = 0; i < COUNT(row); i++) {
		char *how AUTOFREE = sentence(APART "--batch=60 --workers=%d --sim.platform=local "
						    "--sim.train=false",
					      row[i].workers);
		record_sim(how);
		int run = (int)i + 1, steps = ROWS / 60 / row[i].workers;
		ck_near(how, asked("SELECT calibration_id FROM run WHERE id = %d", run), row[i].id,
			0);
		ck_near(how, epoch_of(run, "compute_s"),
			ROWS / 60.0 / row[i].workers * 1e-3 * row[i].step_ms,
			1e-3 * row[i].step_ms * (steps + 1) / 60 + 1e-8);
	}
	/* other machines: the calibration of one worker */
	record_sim(APART "--batch=60 --workers=2 --sim.train=false " HOSTS);
	ck_near("on other machines", asked("SELECT calibration_id FROM run WHERE id = 6"), 6, 0);
	/* there is none for fewer workers */
	forget_runs();
	calibrated((struct made){"softmax", "", 60, 4, 8, 4e-3, false});
	record_sim(APART "--batch=60 --workers=2 --sim.platform=local --sim.train=false");
	ck_near("of more workers", epoch_of(1, "compute_s"), STEPS / 2 * 4e-3, 1e-6);
}

/* The calibration of four workers on two cores has 4 ms, because the workers share the cores. */
TEST(oversubscribed_workers_share_cores)
{
	forget_runs();
	calibrated((struct made){"softmax", "", 30, 2, 2, 2.5e-3, false});
	calibrated((struct made){"softmax", "", 30, 4, 2, 4e-3, false});
	record_sim(APART "--batch=30 --workers=4 --sim.platform=local --sim.train=false");
	ck_near("four", epoch_of(1, "compute_s"), ROWS / 30.0 / 4 * 4e-3, 1e-5);
	record_sim(APART "--batch=30 --workers=2 --sim.platform=local --sim.train=false");
	ck_near("two", epoch_of(2, "compute_s"), ROWS / 30.0 / 2 * 2.5e-3, 1e-6);
}

/* 31,400 bytes in both directions each step: between, at, and beyond the measured lengths. */
TEST(messages_take_the_calibrated_time, 4)
{
	static const struct {
		double x[3], s[3], want;
	} row[] = {
		{{4, 31400, 1e6}, {1e-6, 20e-6, 1e-3}, 20e-6},
		{{4, 30000, 40000}, {2e-6, 10e-6, 16e-6}, 10e-6 + 0.14 * 6e-6},
		{{4, 1000, 3140}, {2e-6, 3e-6, 5.14e-6}, 33.4e-6},
		{{4, 31400, 1e6}, {1e-6, 3e-3, 4e-3}, 3e-3},
	};
	forget_runs();
	calibrated((struct made){"softmax", "", 30, 2, 2, step_s, false});
	for (int i = 0; i < 3; i++)
		point("message", row[_i].x[i], row[_i].s[i]);
	record_sim(SOFT "--batch=30 --workers=2 --strategy=gossip --sim.platform=local "
			"--sim.train=false");
	ck_near("messages", epoch_of(1, "comm_s") / STEPS, row[_i].want, 0.01 * row[_i].want);
}

/* The time of an allreduce beyond its messages, and of an operation on a table. */
TEST(sums_and_table_updates_take_the_calibrated_time)
{
	forget_runs();
	calibrated((struct made){"softmax", "", 30, 2, 2, step_s, false});
	point("message", 4, 1e-9);
	point("message", 1e6, 2e-9);
	point("sum", SOFTMAX / 2, 100e-6);
	point("sum", SOFTMAX * 3 / 2, 300e-6);
	point("sync", SOFTMAX, 50e-6);
	record_sim(SOFT "--batch=30 --workers=2 --strategy=allreduce --sim.platform=local");
	ck_near("sums", epoch_of(1, "comm_s") / STEPS, 200e-6, 1e-7);
	record_sim(SOFT "--batch=30 --workers=2 --strategy=asgd --sim.platform=local");
	ck_near("passes", epoch_of(2, "comm_s") / STEPS, 50e-6, 1e-6);
}

/* Ranks of this machine sum in shared memory: the sum takes its calibrated time, although its
 * messages would take longer. */
TEST(sums_of_one_machine_take_the_calibrated_time)
{
	forget_runs();
	calibrated((struct made){"softmax", "", 30, 2, 2, step_s, false});
	point("message", 4, 1e-6);
	point("message", 1e6, 1e-3);
	point("allreduce", SOFTMAX / 2, 2e-6);
	point("allreduce", SOFTMAX * 3 / 2, 6e-6);
	point("sum", SOFTMAX, 0);
	record_sim(SOFT "--batch=30 --workers=2 --strategy=allreduce --sim.platform=local");
	ck_near("sums", epoch_of(1, "comm_s") / STEPS, 4e-6, 1e-8);
	record_sim(SOFT "--batch=30 --workers=2 --strategy=allreduce --allreduce.overlap=true "
			"--sim.platform=local");
	ck_assert_double_gt(epoch_of(2, "comm_s") / STEPS, 10e-6); /* a message takes 31 us */
}

static void refused(const char *how, const char *says)
{
	char *all AUTOFREE = sentence("--platform=sim %s", how);
	expect_refused("timeout 60 env", all, says);
}

static void no_run_is_left(void)
{
	char *path AUTOFREE = sentence("%s/run.db", folder);
	if (access(path, F_OK) == 0)
		ck_near("runs", asked("SELECT count(*) FROM run"), 0, 0);
}

/* The calibrations are of other work. */
TEST(missing_calibration_is_named)
{
	forget_runs();
	calibrated((struct made){"mlp", "--mlp.hidden=64 --mlp.depth=1", 60, 1, 2, 1e-3, false});
	calibrated((struct made){"lenet", "", 60, 1, 2, 1e-3, false});
	calibrated((struct made){"softmax", "", 32, 1, 2, 1e-3, false});
	refused("--workload=softmax --batch=60 " ONE_HOST,
		"give --sim.step-time, or run: mvbench calibrate --workload=softmax --batch=60 ");
	refused("--workload=softmax --batch=60 --sim.platform=local",
		"this machine was not calibrated for this workload and batch; run: mvbench "
		"calibrate --workload=softmax --batch=60 ");
	refused("--workload=softmax --batch=60 " STEP "--sim.platform=local", "run: mvbench");
	refused("--workload=mlp --batch=60 " ONE_HOST, "--mlp.hidden=128");
	refused("--workload=softmax --batch=32 --threads=2 " ONE_HOST, " --threads=2 ");
	refused("--workload=softmax --batch=32 --momentum=0.9 " ONE_HOST,
		"--batch=32 --momentum=0.9 --data-dir=");
	refused("--workload=lenet --batch=60 --momentum=0 " ONE_HOST, " --momentum=0 ");
	no_run_is_left();
}

/* Another momentum takes the same time. The suggested command is accepted. */
TEST(calibration_belongs_to_an_optimiser)
{
	char out[16384];
	const char *how = "--workload=softmax --batch=60 --strategy=serial --epochs=1 "
			  "--sim.train=false --optimizer=";
	char *adamw AUTOFREE = sentence("%sadamw --adamw.beta1=0.8 " ONE_HOST, how),
		    *nesterov AUTOFREE =
			    sentence("--platform=sim %snesterov --momentum=0.5 " ONE_HOST, how),
		    *other AUTOFREE = sentence("%snesterov --momentum=0.9 " ONE_HOST, how);
	forget_runs();
	refused(adamw, " --optimizer=adamw --adamw.beta1=0.8 ");
	ck_assert_int_eq(run_mvbench("", nesterov, out, sizeof out), EXIT_USER);
	char *command = strstr(out, "mvbench calibrate ");
	ck_assert_msg(command && strstr(out, " --momentum=0.5 "), "%s", out);
	char *again AUTOFREE = sentence("./%.*s --seconds=0.05s --repetitions=1 --counts=1 2>&1",
					(int)strcspn(command, "\n"), command);
	int status = command_output(again, out, sizeof out);
	ck_assert_msg(status == EXIT_OK, "%s: status %d: %s", again, status, out);
	record_sim(other);
}

/* Tables are local: 20 pushes of 60 rows each. A calibration has the time of a push with "add" for
 * all lengths, and with each other updater for one. */
TEST(push_takes_the_time_of_its_updater)
{
	static const char how[] = "--workload=softmax --batch=60 --strategy=asgd --workers=1 "
				  "--epochs=1 --sim.train=false --sim.platform=local ";
	static const char *const updater[] = {"", "--asgd.updater=sgd",
					      "--asgd.updater=adam "
					      "--momentum=0"};
	static const double push_s[] = {0, 2e-3, 12e-3}; /* add needs no pushes, but syncs */
	char *adagrad AUTOFREE = sentence("%s--asgd.updater=adagrad", how);
	forget_runs();
	calibrated((struct made){"softmax", "", 60, 1, 2, step_s, false});
	point("push", 1, 1e-3);
	point("push", 10000, 1e-3);
	point("push_sgd", 5000, 2e-3);
	point("push_adam", 5000, 12e-3);
	point("push_adagrad", 5000, -1);
	for (int i = 0; i < 3; i++) {
		char *run AUTOFREE = sentence("%s%s", how, updater[i]);
		record_sim(run);
		ck_near(updater[i], epoch_of(i + 1, "seconds"), STEPS * (step_s + push_s[i]), 1e-3);
	}
	refused(adagrad, "has no time of a push with the updater adagrad");
	char *given AUTOFREE = sentence("%s --sim.update-time=1ms", adagrad);
	record_sim(given);
}

/* In each of 40 steps of two workers a codec encodes once (powersgd in two rounds) and decodes:
 * topk both messages, the others the sum. Rank 4 takes twice the time of the default. */
TEST(codec_takes_the_calibrated_time, 5)
{
	static const struct {
		const char *words;
		double each_s;
	} row[] = {
		{"topk", 3e-3 + 2 * 1e-3},
		{"randomk --sim.encode-time=5ms --sim.decode-time=2ms", 5e-3 + 2e-3},
		{"topk --sim.encode-time=7ms", 7e-3 + 2 * 1e-3},
		{"powersgd --powersgd.rank=4", 2 * (2 * 2e-3 + 1e-3)},
		{"powersgd --powersgd.rank=4 --sim.decode-time=9ms", 2 * 2 * 2e-3 + 9e-3},
	};
	forget_runs();
	calibrated((struct made){"softmax", "", 30, 2, 2, step_s, false});
	point("message", 4, 1e-9);
	point("message", 1e6, 2e-9);
	point("host", 1, 1);
	point("encode_topk", SOFTMAX, 3e-3);
	point("decode_topk", SOFTMAX, 1e-3);
	point("encode_powersgd", SOFTMAX / 2, 1e-3);
	point("decode_powersgd", SOFTMAX / 2, 0.5e-3);
	char *how AUTOFREE = sentence(SOFT "--batch=30 --workers=2 --strategy=allreduce "
					   "--codec.feedback=false --sim.platform=local --codec=%s",
				      row[_i].words);
	record_sim(how);
	ck_near(row[_i].words, epoch_of(1, "seconds"), STEPS * (step_s + row[_i].each_s), 1e-3);
}

static double calibrated_ratio(void)
{
	static const int batch[] = {1200, 2399};
	char out[4096];
	forget_runs();
	for (int i = 0; i < 2; i++) {
		char *calibrate AUTOFREE =
			sentence("./mvbench calibrate --workload=softmax --batch=%d --counts=1 "
				 "--seconds=0.05s --data-dir=%s --db=%s/run.db 2>&1",
				 batch[i], folder, folder);
		char *how AUTOFREE = sentence("--workload=softmax --batch=%d --strategy=serial "
					      "--epochs=1 --sim.train=false --sim.platform=local",
					      batch[i]);
		int status = command_output(calibrate, out, sizeof out);
		ck_assert_msg(status == EXIT_OK, "%s: status %d: %s", calibrate, status, out);
		record_sim(how);
	}
	return epoch_of(2, "compute_s") / epoch_of(1, "compute_s");
}

/* An epoch of 2,400 rows has two steps of 1,200 for both batches. They take the same time: a
 * calibrated step is stored as that of a whole mini-batch. A busy machine can disturb one of three
 * measurements. */
TEST(calibrated_step_is_of_a_whole_mini_batch)
{
	double ratio = NAN;
	for (int tries = 3; tries > 0 && !(ratio > 0.7 && ratio < 1.4); tries--)
		ratio = calibrated_ratio();
	ck_assert_msg(ratio > 0.7 && ratio < 1.4, "the same steps take %g times as long", ratio);
}

/* Values that cannot be measurements do not count. */
TEST(damaged_calibrations_are_ignored)
{
	static const char work[] = "--workload=softmax --batch=60 ";
	char *serial AUTOFREE = sentence("%s--strategy=serial --epochs=1 --sim.train=false ", work);
	char *here AUTOFREE = sentence("%s--sim.platform=local", serial);
	char *there AUTOFREE = sentence("%s" ONE_HOST, serial);
	forget_runs();
	calibrated((struct made){"softmax", "", 60, 1, 2, step_s, false});
	sql("UPDATE calibration_point SET value = 9e999 WHERE name = 'step' AND x = 63;"
	    "UPDATE calibration_point SET value = -9e999 WHERE name = 'step' AND x = 62;"
	    "INSERT INTO calibration_point VALUES (1, 'step', 1e300, 1), (1, 'sgd', 0, 1)");
	record_sim(here);
	ck_near("steps", epoch_of(1, "compute_s"), STEPS * step_s, 1e-6);
	sql("UPDATE calibration SET cores = -1");
	refused(here, "this machine was not calibrated for this workload");
	sql("UPDATE calibration SET cores = 2; DELETE FROM calibration_point WHERE name = 'step'");
	refused(there, "the time of a step was not calibrated");
}

/* The command that the message suggests is run, and then the simulation runs. Its epochs take about
 * as long as real ones. There are three tries, because the load of a busy machine changes. */
TEST(suggested_calibration_makes_the_simulation_run)
{
	const char *how = "--workload=mlp --mlp.hidden=64 --batch=30 --epochs=8 --strategy=asgd "
			  "--workers=";
	char out[16384], *sim AUTOFREE = sentence("--platform=sim %s2", how);
	char *alone AUTOFREE = sentence("%s1", how),
		    *sim_alone AUTOFREE = sentence("--platform=sim %s1", how);
	double ratio = NAN;
	size_t listed = 0;
	while (codecs[listed])
		listed++;
	forget_runs();
	int status = run_mvbench("", sim, out, sizeof out);
	ck_assert_int_eq(status, EXIT_USER);
	char *command = strstr(out, "run: mvbench calibrate --workload=mlp ");
	ck_assert_msg(command, "no command in %s", out);
	char *again AUTOFREE = sentence("./%.*s --seconds=0.05s --repetitions=1 --counts=1,2 2>&1",
					(int)strcspn(command + 5, "\n"), command + 5);
	for (int i = 0; i < 3 && !(ratio > 0.5 && ratio < 2); i++) {
		forget_runs();
		status = command_output(again, out, sizeof out);
		ck_assert_msg(status == EXIT_OK, "%s: status %d: %s", again, status, out);
		ck_assert_ptr_nonnull(strstr(out, ", batch 30, 2 workers side by side"));
		record_run(alone);
		record_run(sim_alone);
		record_run(sim);
		ratio = asked(
			"SELECT (SELECT min(seconds) FROM epoch WHERE run_id = 2 AND epoch > 0)"
			" / (SELECT min(seconds) FROM epoch WHERE run_id = 1 AND epoch > 0)");
	}
	ck_assert_msg(ratio > 0.5 && ratio < 2, "%g of the time of a real epoch", ratio);
	ck_near("calibrations", asked("SELECT count(*) FROM calibration"), 2, 0);
	ck_near("steps",
		asked("SELECT count(*) FROM calibration_point WHERE name = 'step' AND x = 0"), 2,
		0);
	ck_near("sums",
		asked("SELECT count(DISTINCT calibration_id) FROM calibration_point WHERE name "
		      "= 'sum'"),
		1, 0);
	ck_near("allreduces whose messages took no time",
		asked("SELECT count(*) + (SELECT count(*) = 0 FROM calibration_point WHERE name = "
		      "'sim_allreduce') FROM calibration_point WHERE name = 'sim_allreduce' AND "
		      "value <= 0"),
		0, 0);
	ck_near("codecs",
		asked("SELECT sum(name GLOB 'encode_*') + sum(name GLOB 'decode_*') FROM "
		      "calibration_point WHERE value > 0 AND x = (SELECT params FROM run)"),
		2 * 2 * (double)(listed - 1), 0); /* without none */
	ck_near("of one", asked("SELECT calibration_id FROM run WHERE id = 2"), 1, 0);
	ck_near("of two", asked("SELECT calibration_id FROM run WHERE id = 3"), 2, 0);
	ck_assert_double_gt(epoch_of(3, "comm_s"), 0);
}

/* ---- Bad input --------------------------------------------------------------------------------
 */

/* A platform with these elements in its <config>. */
static void put_config(const char *file, const char *elements)
{
	char *text AUTOFREE = sentence(
		PLATFORM_HEAD "<config>%s</config><zone id='all' routing='Full'>"
			      "<host id='a' speed='1Gf'/><host id='b' speed='1Gf'/>"
			      "<link id='l' bandwidth='1GBps' latency='1us'/><route src='a' "
			      "dst='b'><link_ctn id='l'/></route></zone></platform>\n",
		elements);
	folder_text(file, text);
}

TEST(valid_values_of_platforms_are_accepted, 7)
{
	static const char *const config[] = {
		"<prop id='smpi/os' value='0:350ns:100ps;16384:4us:0;'/>",
		"<prop id = \"smpi/or\" value\n= \"0:-1e-6:1ns:2;;65536:1m:0 \"/>",
		"<!-- <prop id='smpi/ois' value='64'/> -->",
		"<prop value='0&#58;1;2147483647:0.5:7' id='smpi/bw-factor'/>",
		"<prop id='smpi/lat-factor' value='0:0'/><prop id='smpi/os' value=''/>",
		"<prop id='network/bandwidth-factor' value='0.97'/>",
		"<prop id='network/latency-factor' value='0'/>",
	};
	put_config("good.xml", config[_i]);
	sim_only(SOFT "--batch=60 --strategy=allreduce --workers=2 " STEP
		      "--sim.platform=$FOLDER/good.xml");
}

TEST(simulation_mistakes_are_refused)
{
	static const struct {
		const char *words, *says;
	} row[] = {
		{STEP "--sim.platform=$FOLDER/nothing.xml",
		 "No such file or directory; give a name"},
		{STEP "--sim.platform=nosuch", "--sim.platform=nosuch: unknown platform"},
		{STEP "--sim.platform=$FOLDER/text.xml", "text.xml: "},
		{STEP "--sim.platform=$FOLDER/other.xml", "other.xml: "},
		{STEP "--sim.platform=$FOLDER/cut.xml", "cut.xml: "},
		{STEP "--sim.platform=$FOLDER/empty.xml", "empty.xml: "},
		{STEP "--sim.platform=$FOLDER/nohosts.xml", "nohosts.xml: it has no hosts"},
		{STEP "--sim.platform=$FOLDER/or.xml",
		 "or.xml: smpi/or is 64: give a time and a time per byte, by size in bytes, as in "
		 "0:2us:0"},
		{STEP "--sim.platform=$FOLDER/os.xml", "os.xml: smpi/os is 0:inf:0: give a time"},
		{STEP "--sim.platform=$FOLDER/ois.xml", "ois.xml: smpi/ois is 0:2us: give a time"},
		{STEP "--sim.platform=$FOLDER/size.xml", "size.xml: smpi/os is 4e+05:2us:0: give"},
		{STEP "--sim.platform=$FOLDER/large.xml",
		 "smpi/lat-factor is 0:1;2147483648:1: give"},
		{STEP "--sim.platform=$FOLDER/unit.xml", "unit.xml: smpi/os is 0:2xs:0: give"},
		{STEP "--sim.platform=$FOLDER/factor.xml",
		 "factor.xml: smpi/bw-factor is 0:1;2: give factors by size"},
		{STEP "--sim.platform=$FOLDER/single.xml",
		 "single.xml: network/bandwidth-factor is 0: give a factor above 0"},
		{STEP "--sim.platform=$FOLDER/zero.xml", "zero.xml: line 9: "},
		{STEP "--sim.platform=$FOLDER/name.xml",
		 "name.xml: host a&b has a name with \", & or <"},
		{STEP "--sim.platform=$FOLDER/", "$FOLDER/: "},
		{STEP HOSTS "--strategy=allreduce --workers=7",
		 "hosts.xml: it has room for 6 workers on 6 hosts; --workers=7 is"},
		{"--sim.step-time=0 " HOSTS, "--sim.step-time=0: give auto or a time above 0"},
		{"--sim.step-time=-1s " HOSTS, "--sim.step-time=-1s: give auto or a time above 0"},
		{"--sim.step-time=abc " HOSTS, "--sim.step-time=abc: give auto or a time above 0"},
		{"--sim.step-time= " HOSTS, "--sim.step-time=: give auto or a time above 0"},
		{STEP HOSTS "--sim.encode-time=7", "--sim.encode-time=7: give auto or a time"},
		{STEP HOSTS "--sim.update-time=0s",
		 "--sim.update-time=0s: give auto or a time above 0"},
		{STEP "--sim.platfrm=local", "did you mean --sim.platform?"},
		{STEP HOSTS "--sim.train=perhaps", "--sim.train=perhaps"},
	};
	folder_text("text.xml", "this is no platform\n");
	folder_text("other.xml", "<?xml version='1.0'?>\n<html><body/></html>\n");
	folder_text("cut.xml", PLATFORM_HEAD "<zone id='all' routing='Full'>\n<host id='h");
	folder_text("empty.xml", "");
	folder_text("nohosts.xml",
		    PLATFORM_HEAD "<zone id='all' routing='Full'></zone></platform>\n");
	folder_text("name.xml", PLATFORM_HEAD "<zone id='all' routing='Full'><host id='a&amp;b' "
					      "speed='1Gf'/></zone></platform>\n");
	put_config("or.xml", "<prop id = 'smpi/or' value = \"64\"/>");
	put_config("os.xml", "<prop id='smpi/os' value='0:inf:0'/>");
	put_config("ois.xml", "<prop value='0:2us' id='smpi/ois'/>");
	put_config("size.xml", "<prop id='smpi/os' value='4e+05:2us:0'/>");
	put_config("large.xml", "<prop id='smpi/lat-factor' value='0:1;2147483648:1'/>");
	put_config("unit.xml", "<prop id='smpi/os' value='0:2xs:0'/>");
	put_config("factor.xml", "<prop id='smpi/bw-factor' value='0:1;2'/>");
	put_config("single.xml", "<prop id='network/bandwidth-factor' value='0'/>");
	folder_put("zero.xml", PLATFORM_HEAD "\0</platform>\n", sizeof PLATFORM_HEAD + 12, false);
	forget_runs();
	for (size_t i = 0; i < COUNT(row); i++) {
		char *how AUTOFREE = sentence(SOFT "--batch=60 %s", row[i].words);
		char *says AUTOFREE = text_replaced(row[i].says, "$FOLDER", folder);
		refused(how, says);
	}
	no_run_is_left();
}

/* SimGrid would write the files that a platform names, read others, and load a library as code. The
 * name of the platform can stand in a database or a job file. */
TEST(platform_reaches_no_other_file)
{
	static const struct {
		const char *file, *config, *zone, *says;
	} row[] = {
		{"trace.xml",
		 "<prop id='tracing' value='yes'/><prop id='tracing/filename' value='mine'/>", "",
		 "property tracing: not one of the costs of messages"},
		{"name.xml", "<prop id='tracing/filename' value='mine'/>", "",
		 "property tracing/filename: not one"},
		{"trees.xml", "<prop id='smpi/papi-events' value='x'/>", "",
		 "property smpi/papi-events: not one"},
		{"other.xml", "", "<host id='c' speed='1Gf' speed_file='mine'/>",
		 "speed_file of <host>: "},
		{"element.xml", "", "<trace id='t' file='mine'/>",
		 "<trace>: not an element that describes machines"},
		{"actor.xml", "",
		 "</zone><actor host='a' function='f'/><zone id='z' "
		 "routing='Full'>",
		 "<actor>: not an element"},
		{"hidden.xml", "<![CDATA[<prop id='tracing' value='yes'/>]]>", "",
		 "a CDATA section: remove it"},
		{"order.xml", "<?x <prop id='tracing' value='yes'/>?>", "", "<?x?>: remove it"},
		{"library.so", "", "", "a platform is a plain file of XML"},
	};
	char *mine AUTOFREE = in_folder("mine"), *fifo AUTOFREE = in_folder("fifo.xml");
	forget_runs();
	folder_text("mine", "precious\n");
	for (size_t i = 0; i < COUNT(row); i++) {
		char *own AUTOFREE = text_replaced(row[i].config, "'mine'", "'$FOLDER/mine'"),
			  *config AUTOFREE = text_replaced(own, "$FOLDER", folder);
		char *text AUTOFREE =
			sentence(PLATFORM_HEAD "<config>%s</config><zone id='all' routing='Full'>"
					       "<host id='a' speed='1Gf'/>%s</zone></platform>\n",
				 config, row[i].zone);
		folder_text(row[i].file, text);
		for (int dry = 0; dry < 2; dry++) {
			char *how AUTOFREE =
				sentence(SOFT "--batch=60 " STEP "--sim.platform=$FOLDER/%s%s",
					 row[i].file, dry ? " --dry-run" : "");
			refused(how, row[i].says);
		}
	}
	ck_assert_int_eq(mkfifo(fifo, 0600), 0);
	refused(SOFT "--batch=60 " STEP "--sim.platform=$FOLDER/fifo.xml",
		"a platform is a plain file of XML");
	char *now AUTOFREE = text_read(mine);
	ck_assert_str_eq(now, "precious\n");
	no_run_is_left();
}

#ifdef __SANITIZE_ADDRESS__
#define ROOM "" /* the sanitizer's shadow of all memory does not fit into any limit */
#else
#define ROOM "ulimit -v 8000000; "
#endif

/* Memory is allocated for workers, not for cores: these cores would take 16 GB. */
TEST(unused_cores_take_no_memory)
{
	static const char host[] = "speed='1Gf' core='1000000000'/>";
	char *text AUTOFREE =
		sentence("%s<zone id='all' routing='Full'><host id='a' %s<host id='b' %s"
			 "<link id='l' bandwidth='1GBps' latency='1us'/><route src='a' "
			 "dst='b'><link_ctn id='l'/></route></zone></platform>\n",
			 PLATFORM_HEAD, host, host);
	folder_text("cores.xml", text);
	forget_runs();
	expect_command(EXIT_OK,
		       ROOM "./mvbench run --platform=sim " SOFT
			    "--strategy=allreduce --workers=2 --batch=30 --sim.train=false " STEP
			    "--sim.platform=$FOLDER/cores.xml --data-dir=$FOLDER "
			    "--db=$FOLDER/run.db 2>&1",
		       "");
}

/* SimGrid writes to /tmp. */
TEST(simulation_without_tmp_is_refused)
{
	char out[16384];
	int status = command_output(
		"unshare -rm sh -c 'mount --rbind /tmp /tmp && "
		"mount -o remount,bind,ro /tmp || exit 77; "
		"TMPDIR=/dev/shm ./mvbench run --platform=sim " SOFT
		"--strategy=allreduce --workers=2 --batch=30 " STEP
		"--sim.platform=ethernet_1g --data-dir=$FOLDER --db=/dev/shm/check-$$.db; "
		"status=$?; "
		"rm -f /dev/shm/check-$$.db*; exit $status' 2>&1",
		out, sizeof out);
	if (status == 77 || strstr(out, "unshare: "))
		skipped("no namespace here in which /tmp cannot be written");
	else
		ck_assert_msg(status == EXIT_USER && strstr(out, "needs 1 MiB in /tmp"),
			      "status %d: %s", status, out);
}

/* Workers that cannot start on their simulated platform are refused before anything runs. */
static const struct {
	const char *command, *says;
} unstartable[] = {
	{"run " SOFT "--strategy=bsp --bsp.backup=1 --workers=2 --platform=sim " STEP HOSTS,
	 "dropped"},
	{"run --dry-run " SOFT
	 "--strategy=bsp --bsp.backup=1 --workers=2 --platform=sim " STEP HOSTS,
	 "dropped"},
	{"run --dry-run " SOFT
	 "--strategy=asgd --asgd.updater=adam --workers=2 --platform=sim " STEP HOSTS,
	 "the updater adam needs a server"},
	{"run --dry-run " SOFT "--strategy=ssp --record --workers=3 --platform=sim " STEP HOSTS,
	 "no order to record"},
	{"run --dry-run " SOFT
	 "--strategy=asgd --workers=1025 --platform=sim --sim.platform=ethernet_10g " STEP,
	 "it has room for 1024 workers"},
	{"trace " SOFT "--strategy=bsp --bsp.backup=1 --workers=2 --platform=sim " STEP HOSTS,
	 "dropped"},
	{"sweep $FOLDER/sweep.ini", "sweep.ini:"},
	{"sweep $FOLDER/sweep.ini", "dropped"},
	{"tune $FOLDER/tune.ini --budget=2", "dropped"},
	{"validate $FOLDER/cells.ini --repetitions=1 " STEP HOSTS, "dropped"},
};

TEST(workers_that_cannot_start_are_refused_by_all_commands, COUNT(unstartable))
{
	const char *defaults =
		"[defaults]\nworkload = softmax\nbatch = 30\nepochs = 1\nworkers = 2\n";
	const char *simulated =
		"platform = sim\nsim.step-time = 1ms\nsim.platform = ethernet_10g\n";
	const char *bsp = "[bsp]\nstrategy = bsp\nbsp.backup = 1\n";
	const char *const file[][4] = {{"sweep.ini", bsp, defaults, simulated},
				       {"tune.ini", bsp, defaults, simulated},
				       {"cells.ini", bsp, defaults, ""}};
	for (size_t i = 0; i < COUNT(file); i++) {
		char *text AUTOFREE = sentence("%s%s%s%s", file[i][2], file[i][3], file[i][1],
					       i == 1 ? "[search]\nlr = 0.01..0.1 log\n" : "");
		folder_text(file[i][0], text);
	}
	char *command AUTOFREE =
		sentence("FOLDER=%s; ./mvbench %s --data-dir=%s --db=%s/run.db 2>&1", folder,
			 unstartable[_i].command, folder, folder);
	forget_runs();
	expect_command(EXIT_USER, command, unstartable[_i].says);
	no_run_is_left();
}

/* The file of the platform has changed since the run: workers no longer share memory. */
TEST(spread_refuses_a_platform_file_that_has_changed)
{
	char *command AUTOFREE =
		sentence("./mvbench spread 1 --repeats=2 --db=%s/run.db 2>&1", folder);
	put_hosts("changed.xml", 1, 4, 0);
	sim_only(SOFT "--strategy=asgd --asgd.updater=adam --momentum=0 --workers=2 "
		      "--straggle=0.5 " STEP "--sim.platform=$FOLDER/changed.xml");
	put_hosts("changed.xml", 6, 1, 0);
	expect_command(EXIT_USER, command, "changed.xml is now");
	ck_near("runs", asked("SELECT count(*) FROM run"), 1, 0);
}

/* Only mvbench may start the simulator. */
TEST(simulator_is_started_by_mvbench_only)
{
	expect_command(EXIT_USER, "./mvbench-sim run --workload=softmax --platform=sim 2>&1",
		       "this is the simulator");
	char *command AUTOFREE =
		sentence(MPIRUN "2 ./mvbench run --workload=softmax --strategy=allreduce "
				"--workers=2 --platform=sim " STEP HOSTS "--data-dir=%s "
				"--db=%s/run.db 2>&1",
			 folder, folder);
	forget_runs();
	expect_command(EXIT_USER, command, "without a launcher");
	no_run_is_left();
}

/* A start of the simulator takes longer than most simulations. */
TEST(run_starts_the_simulator_once)
{
	char *command AUTOFREE = sentence(
		"cd %s && cp $OLDPWD/mvbench . && printf '#!/bin/sh\\necho >>starts\\nexec '$OLDPWD"
		"'/mvbench-sim \"$@\"\\n' >mvbench-sim && chmod +x mvbench-sim && FOLDER=. && "
		"./mvbench run " SOFT "--strategy=allreduce --workers=2 --platform=sim " STEP HOSTS
		"--data-dir=. --db=starts.db 2>&1 && wc -l <starts",
		folder);
	expect_command(EXIT_OK, command, "\n1\n");
}

/* ---- Interruptions ------------------------------------------------------- */

/* Starts a simulation that would never end; returns when it trains. */
static pid_t start_endless(const char *out)
{
	char *command AUTOFREE =
		sentence("exec ./mvbench run --data-dir=%s --db=%s/run.db --workload=softmax "
			 "--batch=1 --lr=0.001 --epochs=10000 --strategy=gossip "
			 "--workers=6 --platform=sim " HOSTS STEP ">%s 2>&1",
			 folder, folder, out);
	struct timespec nap = {.tv_nsec = 20000000};
	char *path AUTOFREE = sentence("%s/run.db", folder);
	double running = 0;
	forget_runs();
	pid_t child = fork();
	ck_assert(child >= 0);
	if (child == 0) {
		execl("/bin/sh", "sh", "-c", command, (char *)NULL);
		_exit(127);
	}
	for (int i = 0; i < 1000 && !(running > 0); i++) {
		nanosleep(&nap, NULL);
		if (access(path, F_OK) == 0 &&
		    asked("SELECT count(*) FROM sqlite_schema WHERE name = 'run'") > 0)
			running = asked("SELECT count(*) FROM run JOIN epoch ON run_id = id");
	}
	ck_assert_msg(running > 0, "it does not begin");
	return child;
}

static pid_t child_of(pid_t parent)
{
	char *path AUTOFREE = sentence("/proc/%d/task/%d/children", (int)parent, (int)parent);
	FILE *f = fopen(path, "r");
	int child = 0;
	ck_assert_msg(f && fscanf(f, "%d", &child) == 1, "%s names no child", path);
	fclose(f);
	return child;
}

/* Ctrl-C or another signal ends mvbench; or its simulator is killed. */
TEST(interrupted_simulation_ends, 3)
{
	static const struct {
		int signal;
		bool simulator;
		int status;
		const char *reason;
	} row[] = {
		{SIGINT, false, EXIT_INTERRUPTED, "interrupted"},
		{SIGTERM, false, EXIT_INTERRUPTED, "interrupted"},
		{SIGKILL, true, EXIT_FAILED, "the simulator on % was killed by signal 9 (Killed)"}};
	char *out AUTOFREE = sentence("%s/out", folder);
	pid_t mvbench = start_endless(out), simulator = child_of(mvbench);
	struct timespec since, now;
	int status;
	clock_gettime(CLOCK_MONOTONIC, &since);
	ck_assert_int_eq(kill(row[_i].simulator ? simulator : mvbench, row[_i].signal), 0);
	ck_assert_int_eq(waitpid(mvbench, &status, 0), mvbench);
	clock_gettime(CLOCK_MONOTONIC, &now);
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == row[_i].status, "status %d",
		      status);
	ck_assert_int_lt(now.tv_sec - since.tv_sec, 8);
	ck_assert_msg(kill(simulator, 0) == -1 && errno == ESRCH, "the simulator still runs");
	ck_near("rows",
		asked("SELECT count(*) FROM run WHERE status = 'failed' AND reason LIKE '%s'",
		      row[_i].reason),
		1, 0);
}

/* ---- Deadlocks ----------------------------------------------------------------------------------
 */

/* The program's own output, without up to three lines of the address sanitizer about the
 * simulator's stacks. */
static const char *after_sanitizer(const char *out)
{
	for (int line = 0; line < 3 && (line > 0 || strncmp(out, "==", 2) == 0); line++)
		out += strcspn(out, "\n") + 1;
	return out;
}

TEST(simulated_deadlocks_are_reported, 6)
{
	static const struct {
		const char *kind, *words, *says[4];
	} row[] = {
		{"recv",
		 "--workers=2 " HOSTS,
		 {"deadlock: 2 of 2 workers wait for each other: ",
		  "worker 0 in recv with 1 (epoch 1, step 3)",
		  "worker 1 in recv with 0 (epoch 1, step 3)"}},
		{"send",
		 "--workers=3 " HOSTS,
		 {"deadlock: 3 of 3 workers", "worker 0 in send with 1",
		  "worker 2 in send with 0"}},
		{"collectives",
		 "--workers=2 " HOSTS,
		 {"deadlock: 2 of 2 workers", "worker 1 in recv with 0 (epoch 1, step 3)"}},
		{"table",
		 "--workers=4 " ONE_HOST,
		 {"worker 0 in others' pushes (epoch 1, step 3)", "worker 3 in recv with 0"}},
		{"table",
		 "--workers=3 " HOSTS,
		 {"worker 0 in others' pushes (epoch 1, step 3)", "worker 2 in recv with 0"}},
		{"table",
		 "--workers=3 --servers=1 " HOSTS,
		 {"deadlock: 4 of 4 workers and servers", "worker 2 in recv with 0",
		  "server 0 in mailbox"}},
	};
	char out[4096],
		*command AUTOFREE =
			sentence("timeout 60 ./tests/tools/sim_deadlock %s --workload=perceptron "
				 "--strategy=asgd --deal=static --platform=sim " STEP "%s 2>&1",
				 row[_i].kind, row[_i].words);
	int status = command_output(command, out, sizeof out);
	ck_assert_msg(status == EXIT_FAILED, "%s: status %d: %s", command, status, out);
	for (size_t i = 0; i < COUNT(row[_i].says) && row[_i].says[i]; i++)
		ck_assert_msg(strstr(out, row[_i].says[i]), "%s: no \"%s\" in: %s", command,
			      row[_i].says[i], out);
	const char *said = after_sanitizer(out);
	ck_assert_msg(strncmp(said, "mvbench: failure: deadlock: ", 28) == 0 &&
			      strchr(said, '\n') == said + strlen(said) - 1,
		      "%s says more than one sentence: %s", command, out);
}

/* ---- Platforms of the program ---- */

TEST(every_platform_file_runs)
{
	char names[4096], list[16384], *path AUTOFREE = installed_path("sim/platforms"), *next;
	int count = 0;
	ck_assert_ptr_nonnull(path);
	char *command AUTOFREE = sentence("cd %s && ls *.xml | sed 's/.xml$//'", path);
	ck_assert_int_eq(command_output(command, names, sizeof names), 0);
	ck_assert_int_eq(command_output("./mvbench list platforms 2>&1", list, sizeof list), 0);
	for (char *name = strtok_r(names, "\n", &next); name; name = strtok_r(NULL, "\n", &next)) {
		char *how AUTOFREE = sentence(SOFT "--batch=30 --workers=2 --strategy=allreduce "
						   "--sim.platform=%s --sim.train=false " STEP,
					      name);
		char *described AUTOFREE = sentence("\n  sim:%s ", name);
		const char *line = strstr(list, described);
		sim_only(how);
		double took = epoch_of(1, "seconds");
		ck_assert_msg(took > STEPS * step_s && took < STEPS * (step_s + 1),
			      "%s: an epoch takes %g s", name, took);
		ck_assert_msg(line && strspn(line + strlen(described), " ") <
					      strcspn(line + strlen(described), "\n"),
			      "mvbench list platforms says nothing of %s: %s", name, list);
		count++;
	}
	ck_assert_int_ge(count, 13);
}

/* ---- Many workers ---- */

CASE("many", .limit = 300, .set_up = set_up, .tear_down = folder_free, .once = true);

TEST(many_simulated_workers_learn, 3)
{
	static const char *const how[] = {"allreduce", "periodic --sync-every=2",
					  "asgd --servers=1 --deal=static --lr=0.05 --epochs=1"};
	char *all AUTOFREE =
		sentence("--workload=softmax --lr=0.1 --batch=1 --epochs=3 --workers=256 "
			 "--sim.platform=ethernet_10g " STEP "--strategy=%s",
			 how[_i]);
	sim_only(all);
	ck_near("workers", asked("SELECT count(DISTINCT rank) FROM rank_epoch WHERE epoch > 0"),
		256, 0);
	double first = asked("SELECT test_loss FROM epoch WHERE epoch = 0"),
	       last = asked("SELECT test_loss FROM epoch ORDER BY epoch DESC LIMIT 1");
	ck_assert_msg(last < 0.9 * first, "%s: test loss %g, at first %g", all, last, first);
}
