/*
 * check_networks.c - simulated networks that options describe: messages take the time that rates
 * and latencies give, workers stand where they are placed, and large models need no memory.
 */
#include "runtime/config/clusters.h"
#include "tests/made.h"
#include "tests/suites.h"
#include "tests/fixture.h"

#include <math.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { ROWS = 2400, SOFTMAX = 7850 /* parameters */ };
static const double envelope = 16; /* what SMPI adds to a message [bytes] */

static void set_up(void)
{
	folder_new();
	setenv("FOLDER", folder, 1);
	idx_put_set(ROWS, 200, false, '-');
}

static double asked(const char *query)
{
	sqlite3 *db = made_again("run.db");
	double number = made_number(db, query);
	sqlite3_close(db);
	return number;
}

/* The seconds of a step beyond its computation, of this many workers. */
static double talked_s(int workers, const char *how)
{
	enum { STEPS = 10 };
	char *words AUTOFREE =
		sentence("--platform=sim --workload=softmax --epochs=1 --batch=1 --workers=%d "
			 "--train-rows=%d --sim.train=false --sim.step-time=1ms %s",
			 workers, STEPS * workers, how);
	record_only(words);
	return (asked("SELECT seconds FROM epoch WHERE epoch = 1") -
		asked("SELECT compute_s FROM epoch WHERE epoch = 1")) /
	       STEPS;
}

/* A ring of N workers: 2 (N - 1) steps with a piece of 1 / N each, which take latency and bytes at
 * the rate [byte/s] of the slowest way. */
static double ring_s(int workers, double latency_s, double rate)
{
	double bytes = sizeof(float) * ceil((double)SOFTMAX / workers) + envelope;
	return 2 * (workers - 1) * (latency_s + bytes / rate);
}

CASE("networks", .limit = 300, .set_up = set_up, .tear_down = folder_free, .once = true);

#define RING    "--strategy=allreduce --sim.platform=cluster "
#define MB(x)   ((x)*1e6)
#define MBIT(x) ((x)*1e6 / 8)

TEST(messages_take_the_given_rates_and_latencies, 11)
{
	static const struct {
		const char *how;
		int workers;
		double latency_s, rate; /* of the slowest step of the ring */
	} row[] = {
		{RING "--sim.rate=80mbit --sim.latency=2ms", 4, 2e-3, MBIT(80)},
		{RING "--sim.rate=10MB --sim.latency=2ms", 5, 2e-3, MB(10)},
		{RING "--sim.rate=1gbit --sim.latency=1us", 3, 1e-6, MBIT(1000)},
		/* two machines of four: two of eight ways are between machines */
		{RING "--sim.gpus=4 --sim.rate=80mbit --sim.latency=3ms --sim.inner-rate=800mbit "
		      "--sim.inner-latency=10us",
		 8, 3e-3, MBIT(80)},
		/* all in one machine */
		{RING "--sim.gpus=4 --sim.rate=80mbit --sim.inner-rate=160mbit "
		      "--sim.inner-latency=1ms",
		 4, 1e-3, MBIT(160)},
		/* one way of each direction crosses the line of a site */
		{RING "--sim.sites=2 --sim.rate=80mbit --sim.latency=1ms --sim.site-rate=8mbit "
		      "--sim.site-latency=20ms",
		 4, 21e-3, MBIT(8)},
		{RING "--sim.sites=2 --sim.gpus=2 --sim.rate=80mbit --sim.latency=1ms "
		      "--sim.inner-rate=8gbit --sim.inner-latency=1us --sim.site-rate=160mbit "
		      "--sim.site-latency=20ms",
		 8, 21e-3, MBIT(80)},
		/* four workers send at once through a switch that carries one of their links */
		{RING "--sim.rate=80mbit --sim.latency=2ms --sim.oversubscription=4", 4, 2e-3,
		 MBIT(20)},
		{RING "--sim.gpus=2 --sim.rate=80mbit --sim.latency=2ms --sim.inner-rate=8gbit "
		      "--sim.oversubscription=2",
		 4, 2e-3, MBIT(40)},
		/* links of a named platform, all alike */
		{"--strategy=allreduce --sim.platform=infiniband_fattree --sim.rate=80mbit "
		 "--sim.latency=50ms",
		 4, 50e-3, MBIT(80)},
		{"--strategy=allreduce --sim.platform=h100_cluster --sim.rate=80mbit "
		 "--sim.latency=50ms --sim.gpus=1",
		 4, 50e-3, MBIT(80)},
	};
	double want = ring_s(row[_i].workers, row[_i].latency_s, row[_i].rate);
	/* the barrier at the end of the ten steps is several messages */
	ck_near(row[_i].how, talked_s(row[_i].workers, row[_i].how), want,
		0.01 * want + 0.8 * row[_i].latency_s);
}

/* Clusters with rates of their own, in one machine and in two. */
TEST(named_clusters_take_their_rates)
{
	enum { STEPS = 10, MLP = 1590010 };
	int named = 0;
	for (const struct cluster_shape *k = clusters; k->name; k++) {
		named += k->rate > 0;
		for (int machines = 1; machines <= 2 && k->rate > 0; machines++) {
			int n = machines * (int)k->gpus;
			char *how AUTOFREE = sentence(
				"--platform=sim --workload=mlp --mlp.hidden=2000 --epochs=1 "
				"--batch=1 --workers=%d --train-rows=%d --strategy=allreduce "
				"--sim.train=false --sim.step-time=1ms --sim.platform=%s",
				n, STEPS * n, k->name);
			record_only(how);
			double bits = machines == 1 ? k->inner_rate : fmin(k->rate, k->inner_rate),
			       latency_s = machines == 1 ? k->inner_latency : k->latency,
			       piece = sizeof(float) * ceil((double)MLP / n) + envelope,
			       want = 2 * (n - 1) * (latency_s + piece * 8 / bits);
			ck_near(how, asked("SELECT seconds - compute_s FROM epoch WHERE epoch = 1"),
				STEPS * want, STEPS * (0.01 * want + 0.8 * latency_s));
		}
	}
	ck_assert_int_ge(named, 3);
}

/* The groups of periodic are machines, or sites if there are several: here two of two neighbours.
 */
TEST(groups_are_machines_or_sites, 2)
{
	static const char *const places[] = {"--sim.gpus=2 --sim.inner-rate=10gbit",
					     "--sim.sites=2 --sim.site-rate=100mbit"};
	double loss[3];
	for (int i = 0; i < 3; i++) {
		char *words AUTOFREE = sentence(
			"--platform=sim --workload=softmax --epochs=1 --batch=20 --workers=4 "
			"--strategy=periodic --sync-every=20 %s --sim.platform=cluster "
			"--sim.rate=1gbit --sim.step-time=1ms %s",
			i == 0   ? "--periodic.group-every=3"
			: i == 1 ? "--periodic.group-every=3 --periodic.group=2"
				 : "",
			places[_i]);
		record_only(words);
		loss[i] = asked("SELECT train_loss FROM epoch WHERE epoch = 1");
	}
	ck_assert_double_eq(loss[0], loss[1]);
	ck_assert_double_ne(loss[0], loss[2]);
}

/* The messages of tables are simulated without SimGrid's activities, but by its model. */
TEST(flows_of_tables_are_simgrids, 7)
{
	static const char *const where[] = {
		"ethernet_10g", "wide_area", "gpu8_pcie",
		"cluster --sim.rate=1gbit --sim.gpus=4 --sim.inner-rate=20GB",
		"cluster --sim.rate=10gbit --sim.sites=3 --sim.site-rate=100mbit "
		"--sim.oversubscription=4",
		/* flows that their own link limits; flows of one rack and of several */
		"cluster --sim.rate=1gbit --sim.slow-link=1:0.1,2:0.3",
		"ethernet_10g --placement=2@0,2@32,2@64,2@96"};
	char out[4096],
		*command AUTOFREE = sentence(
			"./tests/tools/sim_flows --workload=perceptron --strategy=allreduce "
			"--workers=8 --epochs=1 --platform=sim --sim.step-time=1ms "
			"--sim.platform=%s 2>&1",
			where[_i]);
	long long messages = 0;
	double apart = 1;
	ck_assert_int_eq(command_output(command, out, sizeof out), 0);
	ck_assert_msg(sscanf(out, "%lld messages, differ by %lg", &messages, &apart) == 2, "%s",
		      out);
	ck_assert_int_eq(messages, 240);
	/* SimGrid ends the search for rates at a relative precision of 1e-5, several times a
	 * message
	 */
	ck_assert_msg(apart < 1e-3, "%s: %s", where[_i], out);
}

/* More workers than RING_MOST send one step of the ring; the others take its time. */
TEST(long_rings_take_the_time_of_their_steps, 4)
{
	static const int workers[] = {63, 65, 96, 130};
	static const char *const network[] = {
		RING "--sim.rate=8mbit --sim.latency=1ms",
		RING "--sim.gpus=8 --sim.rate=8mbit --sim.latency=1ms --sim.inner-rate=8gbit"};
	for (size_t i = 0; i < COUNT(network); i++) {
		double want = ring_s(workers[_i], 1e-3, MBIT(8));
		ck_near(network[i], talked_s(workers[_i], network[i]), want, 0.01 * want);
	}
}

/* The time of one step of a ring hardly changes from 64 workers, whose messages are all sent, to
 * 65, on networks where messages share links. */
TEST(long_rings_continue_short_ones, 3)
{
	static const char *const network[] = {
		"--strategy=allreduce --sim.platform=ethernet_10g --sim.rate=1mbit",
		"--strategy=allreduce --sim.platform=cluster --sim.rate=1mbit "
		"--sim.oversubscription=8",
		"--strategy=allreduce --sim.platform=cluster --sim.rate=100mbit --sim.sites=5 "
		"--sim.site-rate=1mbit"};
	double all = talked_s(64, network[_i]) / (2 * 63) / ceil(SOFTMAX / 64.0),
	       one = talked_s(65, network[_i]) / (2 * 64) / ceil(SOFTMAX / 65.0);
	ck_near(network[_i], one / all, 1, 0.03);
}

/* The seconds of an epoch of allreduce with 12 workers on a file. output: what the run printed. */
static double epoch_on_file(int steps)
{
	enum { WORKERS = 12 };
	char *command AUTOFREE = sentence(
		"./mvbench run --platform=sim --workload=mlp --mlp.hidden=2000 --epochs=1 "
		"--batch=1 --workers=%d --train-rows=%d --strategy=allreduce --sim.train=false "
		"--sim.step-time=1ms --sim.platform=$FOLDER/own.xml --data-dir=$FOLDER "
		"--db=$FOLDER/run.db 2>&1",
		WORKERS, steps * WORKERS);
	forget_runs();
	expect_command(EXIT_OK, command, "factors of messages: ");
	return asked("SELECT seconds FROM epoch WHERE epoch = 1");
}

/* 12 hosts, 2 ms and 1 GB/s from one to another: a sum of 1.6 million floats takes 55.7 ms. With
 * SMPI's own factors, which files without any once had, it takes 525 ms. (529 ms were reported,
 * with a part of the barrier at the end.) SimGrid's own default counts 5 % of the bytes on the way
 * back. */
TEST(run_states_the_factors_of_a_users_file, 4)
{
#define ONE_WAY "<prop id='network/crosstraffic' value='0'/>"
	enum { STEPS = 10, PIECE = (1590010 + 11) / 12 /* floats */ };
	static const struct {
		const char *factors, *says;
		double latency, bandwidth; /* of a piece */
	} row[] = {
		{ONE_WAY, "latency x 1 (default), bandwidth x 1 (default)\n", 1, 1},
		{ONE_WAY "<prop id='smpi/bw-factor' value='1024:0.5'/>",
		 "latency x 1 (default), bandwidth x 0.5 to 1\n", 1, 0.5},
		{ONE_WAY
		 "<prop id='smpi/lat-factor' value='0:2.01467;257:1.95341;732:1.9503;1426:1.61075;"
		 "3484:1.88101;5776:2.18796;9376:2.59299;15424:3.48845;65472:11.6436'/>"
		 "<prop id='smpi/bw-factor' value='0:0.812084;257:0.338112;732:0.341987;"
		 "1426:0.608902;3484:0.77493;5776:1.08739;9376:0.58729;15424:0.697866;"
		 "65472:0.940694'/>",
		 "latency x 1.611 to 11.64, bandwidth x 0.3381 to 1.087\n", 11.6436, 0.940694},
		{"<prop id='network/loopback-lat' value='1e-9'/>",
		 "latency x 1 (default), bandwidth x 1 (default)\n", 1, 1 / 1.05},
	};
	char *text AUTOFREE = sentence(
		"<?xml version='1.0'?><!DOCTYPE platform SYSTEM "
		"'https://simgrid.org/simgrid.dtd'><platform version='4.1'><config>%s"
		"</config><zone id='z' routing='Full'>"
		"<cluster id='c' prefix='n' suffix='' radical='0-11' speed='1Gf' bw='1GBps' "
		"lat='1ms'/></zone></platform>",
		row[_i].factors);
	folder_text("own.xml", text);
	/* the barrier at the end is in both */
	double one = epoch_on_file(STEPS), two = epoch_on_file(2 * STEPS);
	ck_assert_msg(strstr(output, row[_i].says), "not in it, %s: %s", row[_i].says, output);
	ck_near(row[_i].says, (two - one) / STEPS - 1e-3,
		2 * 11 *
			(row[_i].latency * 2e-3 +
			 (sizeof(float) * PIECE + envelope) / (row[_i].bandwidth * 1e9)),
		strstr(row[_i].factors, ONE_WAY) ? 1e-6 : 2e-5);
}

TEST(connections_open_once)
{
	const char *how = RING "--sim.rate=80mbit";
	double before = talked_s(4, how) * 10;
	char *opens AUTOFREE = sentence("%s --sim.connect=700ms", how);
	ck_near(how, talked_s(4, opens) * 10 - before, 0.7, 1e-6);
}

/* How many workers are where, in the line of the run. */
TEST(run_tells_where_workers_are, 7)
{
	static const struct {
		int workers;
		const char *how, *says;
	} row[] = {
		{4, "--sim.platform=wide_area", "(1 ireland, 1 oregon, 1 tokyo, 1 virginia)"},
		{6, "--sim.platform=wide_area", "(1 ireland, 2 oregon, 1 tokyo, 2 virginia)"},
		{256, "--sim.platform=wide_area", "(64 ireland, 64 oregon, 64 tokyo, 64 virginia)"},
		{4, "--sim.platform=wide_area --placement=3@0,1@64", "(3 ireland, 1 oregon)"},
		{16, "--sim.platform=a100_cluster", "(8 on each of 2 machines)"},
		{12, "--sim.platform=a100_cluster --placement=8@0,4@1 --sim.nodes=2",
		 "(4 to 8 on each of 2 machines)"},
		{6, "--sim.platform=cluster --sim.rate=1gbit --sim.sites=3 --sim.site-rate=100mbit",
		 "(2 site-0, 2 site-1, 2 site-2)"},
	};
	char *command AUTOFREE =
		sentence("./mvbench run --platform=sim --workload=softmax --epochs=1 --batch=9 "
			 "--workers=%d --strategy=periodic --sync-every=8 --sim.train=false "
			 "--sim.step-time=1ms %s --data-dir=$FOLDER --db=$FOLDER/run.db 2>&1",
			 row[_i].workers, row[_i].how);
	forget_runs();
	expect_command(EXIT_OK, command, row[_i].says);
}

/* Between sites each averaging crosses the wide area; on one machine it does not. */
TEST(placement_decides_what_crosses_the_wide_area)
{
	const char *how = "--strategy=allreduce --sim.platform=wide_area";
	char *near AUTOFREE = sentence("%s --placement=1@0,1@1,1@2,1@3", how),
		   *one AUTOFREE = sentence("%s --placement=4@0", how);
	ck_assert_double_gt(talked_s(4, how), 2 * 3 * 40e-3);
	ck_assert_double_lt(talked_s(4, near), 2e-3);
	ck_assert_double_lt(talked_s(4, one), 1e-3);
}

/* Rates are options: a job file crosses them, equal rates are one cell, and columns hold numbers.
 */
TEST(job_files_cross_rates)
{
	folder_text("rates.ini", "[rates]\nplatform = sim\nworkload = softmax\nepochs = 1\n"
				 "strategy = allreduce\nworkers = 2\nsim.platform = cluster\n"
				 "sim.train = false\nsim.step-time = 1ms\n"
				 "sim.rate = 50mbit, 200mbit, 1gbit, 1000mbit\n");
	forget_runs();
	expect_command(EXIT_OK,
		       "./mvbench sweep $FOLDER/rates.ini --data-dir=$FOLDER --db=$FOLDER/run.db "
		       "2>&1",
		       "");
	expect_row("SELECT group_concat(CAST(sim_rate AS INTEGER)) FROM (SELECT sim_rate FROM run "
		   "ORDER BY 1)",
		   "\"50000000,200000000,1000000000\"\r\n");
	expect_row("SELECT count(*) FROM run_summary WHERE utilisation BETWEEN 0.01 AND 0.99 AND "
		   "utilisation = compute_fraction",
		   "3\r\n");
	expect_command(EXIT_OK, "./mvbench table --db=$FOLDER/run.db 2>&1", "sim.rate=50mbit");
	expect_command(EXIT_OK,
		       "./mvbench plot utilisation --db=$FOLDER/run.db --out=$FOLDER/u.svg 2>&1",
		       "");
	expect_command(EXIT_OK,
		       "./mvbench plot --x=sim_rate --y=utilisation --log=x --db=$FOLDER/run.db "
		       "--out=$FOLDER/xy.svg 2>&1 && grep -o 'sim_rate.*bit.s.' $FOLDER/xy.svg && "
		       "grep -o 'utilisation .%.' $FOLDER/xy.svg",
		       "utilisation [%]");
}

TEST(impossible_networks_are_refused)
{
	static const struct {
		const char *how, *says;
	} row[] = {
		{"--sim.platform=cluster", "give the rate of a machine's link"},
		{"--sim.platform=cluster --sim.rate=5", "--sim.rate=5: give a rate with its unit"},
		{"--sim.platform=cluster --sim.rate=1gbit --sim.gpus=2",
		 "--sim.gpus=2: give the rate inside a machine"},
		{"--sim.platform=cluster --sim.rate=1gbit --sim.sites=2",
		 "--sim.sites=2: give the rate of a site's line"},
		{"--sim.platform=cluster --sim.rate=1gbit --sim.nodes=1",
		 "--sim.nodes=1: room for 1 workers, and --workers=2"},
		{"--sim.platform=cluster --sim.rate=1gbit --sim.nodes=2 --sim.sites=3 "
		 "--sim.site-rate=1gbit",
		 "--sim.sites=3: more than the 2 machines"},
		{"--sim.platform=ethernet_1g --sim.gpus=8",
		 "--sim.gpus: --sim.platform=ethernet_1g has machines and links of its own"},
		{"--sim.platform=local --sim.rate=1gbit", "--sim.rate: --sim.platform=local has"},
		{"--sim.platform=wide_area --sim.rate=1gbit", "are for links that are all alike"},
		{"--sim.platform=cluster --sim.rate=1gbit --placement=1@0,1@2",
		 "--placement=1@0,1@2: there is no machine 2; there are 2, from 0"},
	};
	for (size_t i = 0; i < COUNT(row); i++) {
		char *how AUTOFREE =
			sentence("--platform=sim --workload=softmax --strategy=allreduce "
				 "--workers=2 --sim.step-time=1ms %s",
				 row[i].how);
		expect_refused("timeout 60 env", how, row[i].says);
	}
}

/* ---- Large models ------------------------------------------------------------- */

#define GPT \
	"./mvbench run --platform=sim --sim.train=false --workload=gpt --epochs=1 --batch=1 " \
	"--train-rows=64 --workers=64 --db=$FOLDER/run.db "

#ifdef __SANITIZE_ADDRESS__
#define ROOM "" /* the sanitizer's shadow of all memory does not fit into any limit */
enum { LIMITED = false };
#else
#define ROOM "ulimit -v 6000000; "
enum { LIMITED = true };
#endif

/* 70 billion parameters, whose floats would be 280 GB for each worker, in less than 2 GiB. */
TEST(time_alone_needs_no_memory_for_parameters, 7)
{
	static const char *const strategy[] = {"--strategy=allreduce",
					       "--strategy=periodic --sync-every=2",
					       "--strategy=gossip",
					       "--strategy=asgd --servers=8",
					       "--strategy=allreduce --allreduce.hierarchical",
					       "--strategy=allreduce --codec=bf16",
					       "--strategy=periodic --sync-every=2 --codec=sign"};
	char *command AUTOFREE = sentence(
		ROOM GPT "--gpt.layers=80 --gpt.width=8192 --gpt.heads=64 --gpt.vocabulary=680000 "
			 "--sim.platform=h100_cluster --sim.flops=400T %s 2>&1",
		strategy[_i]);
	forget_runs();
	expect_command(EXIT_OK, command, "gpt, ");
	expect_row("SELECT params BETWEEN 69.9e9 AND 70.1e9 FROM run", "1\r\n");
	struct rusage most; /* of the largest descendant */
	ck_assert_int_eq(getrusage(RUSAGE_CHILDREN, &most), 0);
	ck_assert_msg(most.ru_maxrss > 10 << 10 && (!LIMITED || most.ru_maxrss < 2 << 20),
		      "%s: %ld KiB", strategy[_i], most.ru_maxrss);
}

/* Coded sums are longer than the room of messages without data, too. Scattered: a message of a part
 * to each other worker, and back; gathered: one of the whole. */
TEST(coded_sums_of_large_models_take_the_time_of_their_bytes, 2)
{
	enum { WORKERS = 8, STEPS = 2 };
	static const struct {
		const char *codec;
		double messages, bytes; /* of a parameter, in each */
	} row[] = {{"int8", 2 * (WORKERS - 1), (1 + 4.0 / 256) / WORKERS},
		   {"sign", WORKERS - 1, 1.0 / 8}};
	char *command AUTOFREE = sentence(
		"./mvbench run --platform=sim --sim.train=false --workload=gpt --gpt.shape=gpt2-xl "
		"--epochs=1 --batch=1 --train-rows=%d --workers=%d --strategy=allreduce "
		"--codec=%s --codec.feedback=false --sim.encode-time=1us --sim.decode-time=1us "
		"--sim.platform=cluster --sim.rate=10GB --sim.step-time=1ms "
		"--db=$FOLDER/run.db 2>&1",
		STEPS * WORKERS, WORKERS, row[_i].codec);
	forget_runs();
	expect_command(EXIT_OK, command, "gpt, ");
	double bytes = row[_i].bytes * asked("SELECT params FROM run"),
	       want = STEPS * row[_i].messages * (25e-6 + bytes / 10e9);
	ck_near(row[_i].codec, asked("SELECT seconds - compute_s FROM epoch WHERE epoch = 1"), want,
		0.01 * want);
}

/* Two machines of four: a ring in each, an exchange between two workers, and a chain, which passes
 * 1.56 billion floats on in 64 pieces. */
TEST(long_broadcasts_take_the_time_of_a_chain)
{
	enum { STEPS = 2, WORKERS = 8, GPUS = 4, PIECES = 64 };
	char *command AUTOFREE = sentence(
		"./mvbench run --platform=sim --sim.train=false --workload=gpt --gpt.shape=gpt2-xl "
		"--epochs=1 --batch=1 --train-rows=%d --workers=%d --strategy=allreduce "
		"--allreduce.hierarchical --sim.platform=cluster --sim.gpus=%d --sim.rate=10GB "
		"--sim.inner-rate=100GB --sim.step-time=1ms --db=$FOLDER/run.db 2>&1",
		STEPS * WORKERS, WORKERS, GPUS);
	forget_runs();
	expect_command(EXIT_OK, command, "gpt, ");
	double bytes = sizeof(float) * asked("SELECT params FROM run"),
	       ring = 2.0 * (GPUS - 1) / GPUS, chain = (PIECES + GPUS - 2.0) / PIECES,
	       want = STEPS * bytes * ((ring + chain) / 100e9 + 1 / 10e9);
	ck_near("seconds", asked("SELECT seconds - compute_s FROM epoch WHERE epoch = 1"), want,
		0.01 * want);
}

/* Six flops a parameter and token, except for the places and the attention's own. */
TEST(step_time_follows_from_flops)
{
	forget_runs();
	expect_command(EXIT_OK,
		       "./mvbench run --platform=sim --sim.train=false --workload=gpt --epochs=1 "
		       "--batch=4 --train-rows=8 --gpt.context=64 --gpt.layers=2 --gpt.width=512 "
		       "--gpt.heads=4 --sim.platform=cluster --sim.rate=1gbit --sim.flops=2G "
		       "--strategy=serial --db=$FOLDER/run.db 2>&1",
		       "");
	const double width = 512, context = 64, layers = 2,
		     forward = 2 * (12 * layers * width * width + 2 * layers * context * width +
				    256 * width);
	ck_near("an epoch", asked("SELECT seconds FROM epoch WHERE epoch = 1"),
		3 * 8 * context * forward / 2e9, 1e-3);
}

TEST(known_shapes_have_their_parameters)
{
	static const struct {
		const char *shape;
		double parameters; /* as the papers count them */
	} row[] = {{"gpt2", 124.4e6},
		   {"gpt2-xl", 1557.6e6},
		   {"gpt3-6.7b", 6.66e9},
		   {"gpt3-175b", 174.6e9}};
	for (size_t i = 0; i < COUNT(row); i++) {
		char *command AUTOFREE = sentence(
			"./mvbench run --platform=sim --sim.train=false --workload=gpt --epochs=1 "
			"--batch=1 --train-rows=1 --gpt.shape=%s --sim.platform=cluster "
			"--sim.rate=1gbit --sim.flops=1P --strategy=serial --db=$FOLDER/run.db "
			"2>&1",
			row[i].shape);
		forget_runs();
		expect_command(EXIT_OK, command, "");
		ck_near(row[i].shape, asked("SELECT params FROM run"), row[i].parameters,
			0.005 * row[i].parameters);
	}
	expect_refused("", "--workload=gpt --gpt.shape=gpt2 --gpt.layers=3",
		       "--gpt.layers: --gpt.shape=gpt2 sets it");
}

/* ---- The question -------------------------------------------------------- */

/* By hand: allreduce of two workers takes latency and all floats; utilisation 0.8 leaves a quarter
 * of the step. */
TEST(advice_finds_the_least_rate)
{
	expect_command(EXIT_OK,
		       "./mvbench advise --platform=sim --sim.platform=cluster --sim.latency=1us "
		       "--workload=softmax --batch=60 --workers=2 --sim.step-time=100ms "
		       "--intervals=1,4 --utilisation=0.8 --format=csv --data-dir=$FOLDER "
		       "--db=$FOLDER/none.db 2>/dev/null",
		       "strategy,sync_every,sim_rate");
	const char *at = strstr(output, "\nallreduce,,"), *four = strstr(output, "\nperiodic,4,");
	ck_assert_msg(at && four, "%s", output);
	double want = SOFTMAX * 32 / 25e-3, found = strtod(at + strlen("\nallreduce,,"), NULL);
	ck_near("allreduce", found, want, 0.02 * want);
	ck_near("periodic, X=4", strtod(four + strlen("\nperiodic,4,"), NULL), want / 4,
		0.02 * want / 4);
}

/* A step takes 100 s, and 31 kB at the lowest rate that is tried 2.5 s. */
TEST(rates_are_sought_on_a_cluster_by_default)
{
	static const struct {
		const char *how, *says;
	} row[] = {
		{"--sim.rate=1gbit", "--sim.rate=1gbit: --utilisation seeks the rate"},
		{"--sim.platform=local", "--sim.platform=local: --utilisation seeks the rate of"},
	};
	const char *advise = "./mvbench advise --utilisation=0.8 --platform=sim --workload=softmax "
			     "--batch=60 --train-rows=120 --workers=2 --sim.step-time=100s "
			     "--intervals=2,4,8 --data-dir=$FOLDER --db=$FOLDER/none.db";
	char *found AUTOFREE = sentence("%s 2>/dev/null", advise);
	expect_command(EXIT_OK, found, "2 workers on simulated cluster");
	ck_assert_msg(strstr(output, "compute for 80 % of their time:") &&
			      strstr(output, "\n- allreduce: at most 0.1"),
		      "%s", output);
	/* of each strategy, the shortest and the longest interval */
	int rows = 0;
	for (const char *at = output; (at = strstr(at, "\nperiodic  ")); at++)
		rows++;
	ck_assert_msg(rows == 2 && strstr(output, "rows: --all prints all)"), "%s", output);
	for (size_t i = 0; i < COUNT(row); i++) {
		char *wrong AUTOFREE = sentence("%s %s 2>&1", advise, row[i].how);
		expect_command(EXIT_USER, wrong, row[i].says);
	}
}
