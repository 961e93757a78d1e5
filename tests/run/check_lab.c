/*
 * check_lab.c - real runs on several virtual hosts: what a lab provides; that runs on it are right
 * with every strategy and placement; that failures of one host are reported; and that nothing is
 * left behind.
 */
#include "runtime/config/clusters.h"
#include "runtime/config/config.h"
#include "runtime/config/hosts.h"
#include "runtime/launch/lab.h"
#include "tests/fixture.h"
#include "tests/made.h"
#include "tests/suites.h"

#include <signal.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OUTPUT = 1 << 15, TIMEOUT_S = 120 };

#define RUN \
	"./mvbench run --workload=softmax --epochs=2 --batch=30 --lr=0.01 --data-dir=$FOLDER " \
	"--db=$FOLDER/run.db "

/* Queries are in files, because the words of a lab are between quotes already. */
#define ASK "sqlite3 $FOLDER/run.db <$FOLDER/"

static bool allowed;

static void set_up(void)
{
	small_data();
	setenv("FOLDER", folder, 1);
	/* a waiting process must get a message as soon as it arrives, because times are compared */
	setenv("OMPI_MCA_mpi_yield_when_idle", "0", 1);
	setenv("ASAN_OPTIONS", "detect_leaks=0", 1); /* Open MPI leaves memory behind */
	char out[OUTPUT];
	allowed = command_output("./mvbench lab run 1 -- true 2>&1", out, sizeof out) == EXIT_OK;
	if (!allowed && getenv("MVBENCH_REQUIRE_LAB"))
		ck_abort_msg("%s", out);
	if (!allowed)
		skipped(out);
}

static void tear_down(void)
{
	setenv("OMPI_MCA_mpi_yield_when_idle", "1", 1); /* the setting of the other suites */
	unsetenv("ASAN_OPTIONS");
	folder_free();
}

/* Runs a command in a lab, on its first host. Returns the exit status. */
static int in_lab(const char *words, const char *command, char out[OUTPUT])
{
	char *all AUTOFREE = sentence("./mvbench lab run %s -- sh -c '%s' 2>&1", words, command);
	return command_output(all, out, OUTPUT);
}

static void expect_in_lab(const char *words, const char *command, int want, const char *says)
{
	char out[OUTPUT];
	int status = in_lab(words, command, out);
	ck_assert_msg(status == want, "%s: status %d: %s", command, status, out);
	ck_assert_msg(strstr(out, says), "%s: \"%s\" is not in: %s", command, says, out);
}

/* ---- Which ranks a host gets --------------------------------------------- */

static void ck_placed(const char *text, int workers, int servers, const char *placement,
		      const char *want)
{
	struct host_list l;
	struct config c = {.run = {.workers = workers, .servers = servers},
			   .harness = {.placement = placement}};
	int number[16] = {0};
	const char *host[16];
	folder_text("hosts", text);
	char *path AUTOFREE = sentence("%s/hosts", folder);
	char *wrong AUTOFREE = host_list_read(path, &l);
	if (!wrong)
		wrong = host_list_deal(&l, &c, number);
	for (int r = 0; !wrong && r < workers + servers; r++)
		host[r] = l.host[number[r]].name;
	char *got AUTOFREE =
		wrong ? sentence("%s", wrong) : text_list(host, (size_t)(workers + servers), " ");
	ck_assert_msg(strstr(got, want) && (wrong || strlen(got) == strlen(want)), "%s: %s", text,
		      got);
	host_list_fini(&l);
	if (!wrong && *placement) {
		char *again AUTOFREE = placement_text(number, workers, servers);
		ck_assert_str_eq(again, placement);
	}
}

static void ck_deal(const char *text, int workers, int servers, const char *want)
{
	ck_placed(text, workers, servers, "", want);
}

CASE("rules", .set_up = folder_new, .tear_down = folder_free);

TEST(placement_sets_the_host_of_each_rank)
{
	static const char abc[] = "a\nb slots=1\nc\n";
	ck_placed(abc, 4, 0, "2@0,2@1", "a a b b");
	ck_placed(abc, 4, 0, "1@2,1@0,2@1", "c a b b");
	ck_placed(abc, 2, 2, "1@0,1@1+1@1,1@0", "a b b a");
	ck_placed(abc, 3, 1, "2@0,1@2+1@1", "a a c b");
	ck_placed(abc, 4, 0, "2@0", "it has to place 4 workers");
	ck_placed(abc, 2, 0, "2@0,2@1", "it has to place 2 workers");
	ck_placed(abc, 2, 1, "2@0+2@1", "the servers after a +");
	ck_placed(abc, 2, 0, "1@0+1@1", "it has to place 2 workers");
	ck_placed(abc, 4, 0, "2@0,2@3", "no machine 3");
	ck_placed(abc, 4, 0, "2@0,x", "\"x\" is not RANKS@HOST");
	ck_placed(abc, 4, 0, "0@0,4@1", "is not RANKS@HOST");
	ck_placed(abc, 1, 1, "1@0+1@1+1@2", "is not RANKS@HOST");
	ck_placed(abc, 1, 0, "+1@0", "is not RANKS@HOST");
	ck_placed(abc, 1, 0, "99999999999@0", "is not RANKS@HOST");
	ck_placed(abc, 4, 3, "1@0,1@1,1@0,1@2+1@0,1@1,1@2", "a b a c a b c");
}

TEST(ranks_are_assigned_to_hosts)
{
	ck_deal("a\nb\n", 2, 0, "a b");
	ck_deal("a\nb\n", 4, 2, "a a b b a b");
	ck_deal("a\nb\nc\n", 4, 0, "a a b c");
	ck_deal("a slots=2 # two\n\n# none\nb slots=1\n", 3, 1, "a a b a");
	ck_deal("a slots=1\nb\n", 3, 0, "a b b");
	ck_deal("a slots=3\nb slots=1\n", 2, 2, "a a a a");
	ck_deal("a slots=1\nb slots=1\n", 3, 0, "slots of the hostfile: 2");
	ck_deal("a\na\nb\nb\n", 4, 2, "a a b b a b");
	ck_deal("a\nb slots=2\nc slots=2\n", 4, 2, "b b c c b c");
	ck_deal("a slots=0\nb slots=2\n", 2, 0, "b b");
	ck_deal("a slots=0\nb\n", 3, 0, "b b b");
	ck_deal("a slots=0\nb slots=2\n", 3, 0, "slots of the hostfile: 2");
	ck_deal("a slots=0\na\nb\n", 3, 0, "a b b");
	ck_deal("# nobody\n", 1, 0, "it names no machine");
}

TEST(lab_rates_are_parsed)
{
	static const struct option o = {.name = "rate"};
	static const char *const wrong[] = {"",        "100",    "mbit",    "-1mbit",
					    "1e9gbit", "10kbit", "100mbits"};
	ck_assert_double_eq(bit_rate("100mbit"), 1e8);
	ck_assert_double_eq(bit_rate("2.5gbit"), 2.5e9);
	ck_assert_ptr_null(bit_rate_check(&o, "none"));
	ck_assert_ptr_null(bit_rate_check(&o, "100kbit"));
	for (size_t i = 0; i < COUNT(wrong); i++) {
		char *says AUTOFREE = bit_rate_check(&o, wrong[i]);
		ck_assert_msg(says && strstr(says, "a rate from 100kbit"), "%s", wrong[i]);
	}
	/* the burst is 1 ms of the rate, at least two packets */
	char *slow AUTOFREE = lab_shape("10mbit"), *fast AUTOFREE = lab_shape("1gbit");
	ck_assert_str_eq(slow, "root tbf rate 10000000bit burst 3028 limit 262144");
	ck_assert_str_eq(fast, "root tbf rate 1000000000bit burst 125000 limit 6250000");
}

/* ---- What a lab is ------------------------------------------------------- */

CASE("hosts", .limit = TIMEOUT_S, .set_up = set_up, .tear_down = tear_down, .once = true);

TEST(lab_hosts_are_isolated)
{
	if (!allowed)
		return;
	expect_in_lab("2", "hostname", 0, "lab1\n");
	expect_in_lab("2", "./mvbench lab exec lab2 hostname", 0, "lab2\n");
	expect_in_lab("2",
		      "cat /proc/sys/net/ipv4/tcp_congestion_control; ./mvbench lab exec lab2 cat "
		      "/proc/sys/net/ipv4/tcp_congestion_control",
		      0, "reno\nreno\n");
	expect_in_lab("2", "exit 7", 7, "");
	expect_in_lab("2", "./mvbench lab exec lab2 -- sh -c \"exit 9\"", 9, "");
	expect_in_lab("2", "touch /dev/shm/mine; ./mvbench lab exec lab2 ls /dev/shm | wc -l", 0,
		      "0\n");
	expect_in_lab("2",
		      "echo \"pid 1 is $(cat /proc/1/comm), and there are $(ls -d /proc/[0-9]* | "
		      "wc -l)\"",
		      0, "pid 1 is mvbench");
	expect_in_lab("2 --clock-offset=400ms", "cat /proc/self/timens_offsets", 0,
		      "monotonic           0 400000000\n");
	expect_in_lab("2 --clock-offset=1000s",
		      "b=$(./mvbench lab exec lab2 -- cut -d. -f1 /proc/uptime); "
		      "a=$(cut -d. -f1 /proc/uptime); echo ahead by $(( (b - a + 50) / 100 ))",
		      0, "ahead by 10\n");
	/* the streams and the folder are those of the caller */
	expect_in_lab("2", "echo word | ./mvbench lab exec lab2 cat", 0, "word\n");
	expect_in_lab("2", "[ \"$(./mvbench lab exec lab2 pwd)\" = \"$(pwd)\" ]", 0, "");
	static const char *const verbs[] = {"exec lab3 true", "cut lab3", "off lab3",
					    "rate 1mbit lab3", "probe lab3"};
	for (size_t i = 0; i < COUNT(verbs); i++) {
		char *command AUTOFREE = sentence("./mvbench lab %s", verbs[i]);
		expect_in_lab("2", command, EXIT_USER, "lab3: there is no such host in this lab");
	}
	expect_in_lab("2", "./mvbench lab off lab2; ./mvbench lab exec lab2 true", EXIT_USER,
		      "or it is off");
}

CASE_OF("wires", "wires", .limit = TIMEOUT_S, .set_up = set_up, .tear_down = tear_down,
	.once = true);

/* Both directions at once, by messages of mvbench over TCP. A wire that is cut carries nothing. */
TEST(wires_keep_their_rate)
{
	char out[OUTPUT];
	double there, both, back, limit = 1, slowest = 1e9;
	if (!allowed)
		return;
	/* never faster; slower only if other processes take the cores */
	for (int i = 0; i < 10 && slowest > 1.2 * limit; i++) {
		int status = in_lab("2 --rate=20mbit", "true", out);
		ck_assert_msg(status == 0, "%s", out);
		ck_assert_msg(
			sscanf(out,
			       "mvbench: lab: 407 KB to lab2 take %lf ms one way and %lf ms both "
			       "ways at once, a byte there and back %lf ms; at 20mbit they "
			       "take %lf "
			       "ms",
			       &there, &both, &back, &limit) == 4,
			"%s", out);
		ck_assert_double_eq_tol(limit, 170.2, 0.2);
		ck_assert_msg(there > 0.9 * limit && both > 0.9 * limit, "%s", out);
		slowest = fmax(there, both);
	}
	ck_assert_msg(slowest < 1.2 * limit, "%s", out);

	expect_in_lab("2 --rate=1gbit --probe=false",
		      "./mvbench lab rate 20mbit && ./mvbench lab probe lab2", 0, "at ");
	expect_in_lab("2 --probe=false", "./mvbench lab cut lab2 && ./mvbench lab probe lab2",
		      EXIT_USER, "no answer over this wire");
	expect_in_lab(
		"2 --probe=false",
		"./mvbench lab cut lab2 && ./mvbench lab heal lab2 && ./mvbench lab probe lab2", 0,
		"407 KB to lab2");
}

CASE("hosts");

/* Between hosts there is no shared memory; a wire of 20 Mbit/s carries 2.5 MB/s each way. */
TEST(bench_measures_communication_between_hosts)
{
	char out[OUTPUT];
	double bus = 0;
	if (!allowed)
		return;
	int status = in_lab("2 --rate=20mbit --probe=false",
			    "./mvbench bench comm --servers=2 --min=64KiB --max=64KiB "
			    "--repetitions=1 --format=csv",
			    out);
	ck_assert_msg(status == 0 && strstr(out, "2 workers and 2 servers on lab1,lab2"), "%s",
		      out);
	ck_assert_msg(strstr(out, "\npush_pull,servers,65536,") && !strstr(out, "shared"), "%s",
		      out);
	const char *row = strstr(out, "\nbroadcast,mpi,65536,16384,");
	ck_assert_msg(row && sscanf(row, "\nbroadcast,mpi,65536,16384,%*f,%*f,%lf,0", &bus) == 1,
		      "%s", out);
	ck_assert_msg(bus > 0 && bus < 1.2 * 2.5e-3, "%g GB/s: %s", bus, out);
}

static const struct {
	const char *words, *says;
} mistakes[] = {
	{"", "lab: give run, up, exec"},
	{"fly", "lab fly: give run, up, exec"},
	{"run", "give a number of hosts from 1 to 64"},
	{"run 0 -- true", "a number of hosts from 1 to 64"},
	{"run 65 -- true", "a number of hosts from 1 to 64"},
	{"run two -- true", "a number of hosts from 1 to 64"},
	{"run 2", "lab run: give a command"},
	{"run 2 --rate=fast -- true", "--rate=fast: give a rate from 100kbit to 100gbit"},
	{"run 2 --clock-offset=-1 -- true", "--clock-offset=-1"},
	{"exec", "give a host"},
	{"exec lab1", "lab exec: give a command for lab1"},
	{"exec lab1 true", "there is no lab here"},
	{"cut lab1", "there is no lab here"},
	{"rate", "give a rate"},
	{"rate 5", "--rate=5: give a rate from"},
	{"down", "no lab is up"},
};

CASE("rules");

TEST(lab_mistakes_are_refused, COUNT(mistakes))
{
	char out[OUTPUT];
	char *all AUTOFREE = sentence("./mvbench lab %s 2>&1", mistakes[_i].words);
	int status = command_output(all, out, sizeof out);
	ck_assert_msg(status == EXIT_USER && strstr(out, mistakes[_i].says), "%s: %d: %s", all,
		      status, out);
}

/* ---- Runs ---------------------------------------------------------------- */

static const char *const runs[] = {
	"--strategy=allreduce --workers=2",
	"--strategy=allreduce --allreduce.overlap=true --workers=3",
	"--strategy=periodic --sync-every=3 --workers=2",
	"--strategy=gossip --workers=3",
	"--strategy=model_parallel --workers=2",
	"--strategy=hybrid --hybrid.group=2 --workers=4",
	"--strategy=asgd --workers=2",
	"--strategy=asgd --workers=2 --table-home=onesided",
	"--strategy=asgd --workers=3 --servers=1",
	"--strategy=bsp --workers=2",
	"--strategy=bsp --workers=2 --table-home=onesided",
	"--strategy=ssp --workers=2",
	"--strategy=downpour --workers=2 --sync-every=2",
	"--strategy=easgd --workers=2 --table-home=onesided",
	"--strategy=asgd --workers=4 --servers=2 --epochs=6", /* pushes come in any order */
};

CASE("hosts");

/* As many hosts as fit, at most three. The database must record the run as done. */
TEST(every_strategy_runs_in_a_lab, COUNT(runs))
{
	if (!allowed)
		return;
	char *command AUTOFREE =
		sentence(RUN "%s && sqlite3 $FOLDER/run.db \"SELECT status, test_accuracy > "
			     "0.5 FROM run JOIN epoch ON run_id = id ORDER BY id DESC, epoch DESC "
			     "LIMIT 1\"",
			 runs[_i]);
	expect_in_lab(strstr(command, "workers=2") ? "2" : "3", command, 0, "done|1\n");
}

/* Sums between hosts that travel while their ranks compute, or nap in a delay, are those that the
 * ranks wait for, up to the order of the ranks. */
TEST(overlap_between_hosts_leaves_the_model_the_same, 2, 5)
{
	if (!allowed)
		return;
	char *hosts AUTOFREE = sentence("%d", _i);
	char *command AUTOFREE = sentence(
		"for o in false true next; do " RUN "--strategy=allreduce --workers=%d "
		"--step-time=2ms --allreduce.overlap=$o >$FOLDER/said 2>&1 || { cat $FOLDER/said; "
		"exit 1; }; done; " ASK "ask.sql",
		_i);
	forget_runs();
	folder_text("ask.sql", "SELECT count(*), max(test_loss) - min(test_loss) < 1e-5, "
			       "max(test_accuracy) > 0.5 FROM epoch WHERE epoch = 2");
	expect_in_lab(hosts, command, 0, "3|1|1\n");
}

CASE_OF("wires", "wires");

/* On a slow wire a step takes the time of its bytes: 1 % of softmax's floats with their places are
 * 2 x 79 of 7850 words. The step itself and the wire's latency leave at least a fifth of that. */
TEST(codec_makes_steps_of_a_slow_wire_shorter)
{
	if (!allowed)
		return;
	const char *words = RUN "--strategy=allreduce --workers=2 ";
	char *command AUTOFREE = sentence("for c in none topk; do %s--codec=$c >$FOLDER/said 2>&1 "
					  "|| { cat $FOLDER/said; exit 1; }; done; " ASK "ask.sql",
					  words);
	forget_runs();
	folder_text("ask.sql",
		    "SELECT max(b) * 2 * 79 = min(b) * 7850, iif(max(t) > 5 * min(t), 1, max(t) / "
		    "min(t)) FROM (SELECT max(bytes_sent) AS b, min(seconds) AS t FROM epoch JOIN "
		    "run ON id = run_id WHERE epoch > 0 GROUP BY codec)");
	expect_in_lab("2 --rate=20mbit --probe=false", command, 0, "1|1\n");
}

/* A sum of softmax's gradient takes 12.6 ms on this wire, about as long as a step: a sum that
 * travels during the step leaves little more than half of the time. */
TEST(overlap_hides_the_sum_on_a_slow_wire)
{
	if (!allowed)
		return;
	char *command AUTOFREE = sentence(
		"for o in false true; do %s--strategy=allreduce --workers=2 --step-time=12ms "
		"--allreduce.overlap=$o >$FOLDER/said 2>&1 || { cat $FOLDER/said; exit 1; }; "
		"done; " ASK "ask.sql",
		RUN);
	forget_runs();
	folder_text("ask.sql", "SELECT iif(min(t) FILTER (WHERE run_id = 2) < 0.8 * min(t) FILTER "
			       "(WHERE run_id = 1), 1, group_concat(t, ' s, ')) FROM (SELECT "
			       "run_id, min(seconds) AS t FROM epoch WHERE epoch > 0 GROUP BY 1)");
	expect_in_lab("2 --rate=20mbit --probe=false", command, 0, "1\n");
}

/* Beside a slow worker, the pushes of a fast worker take as long as alone. With one-sided windows,
 * which their owner has to serve, they take twenty times as long. The fastest epochs of several
 * runs count, because other processes may take the cores. */
TEST(asynchronous_pushes_do_not_wait_for_a_slow_worker)
{
	if (!allowed)
		return;
	const char *words = RUN "--strategy=asgd --epochs=6 --deal=static --barrier-every=0 ";
	char *command AUTOFREE =
		sentence("for i in $(seq 6); do { "
			 "%s--workers=1 --servers=2 --label=alone && "
			 "%s--workers=2 --speed=1:0.02 --label=beside; } >$FOLDER/said 2>&1 || "
			 "{ cat $FOLDER/said; exit 1; }; t=$(" ASK "ask.sql); [ $t = 1 ] && "
			 "break; done; echo $t",
			 words, words);
	forget_runs();
	folder_text("ask.sql", "SELECT iif(max(t) < 4 * min(t), 1, max(t) / min(t)) FROM (SELECT "
			       "min((compute_s + comm_s) / pushes) AS t FROM rank_epoch JOIN run "
			       "ON id = run_id WHERE epoch > 0 AND rank = 0 GROUP BY label)");
	expect_in_lab("2 --probe=false", command, 0, "1\n");
}

/* `time` reports what a server without requests uses in four seconds: its start, and a share. */
TEST(idle_server_of_another_host_sleeps)
{
	if (!allowed)
		return;
	char out[OUTPUT];
	double user = NAN, sys = NAN, real = NAN;
	char *train AUTOFREE = sentence(
		"./mvbench run --workload=softmax --epochs=2 --batch=30 --lr=0.01 --data-dir=%s "
		"--db=%s/idle.db --strategy=asgd --workers=1 --servers=1 --sync-every=1000000 "
		"--barrier-every=0 --step-time=100ms",
		folder, folder);
	char *serve AUTOFREE = sentence("TIMEFORMAT=\"served %%U %%S %%R\"\ntime %s\n", train);
	char *command AUTOFREE = sentence("mpirun --quiet -n 1 --host lab1 %s : -n 1 --host lab2 "
					  "bash %s/serve.sh",
					  train, folder);
	folder_text("serve.sh", serve);
	int status = in_lab("2 --probe=false", command, out);
	const char *said = strstr(out, "served ");
	ck_assert_msg(status == 0 && said &&
			      sscanf(said, "served %lf %lf %lf", &user, &sys, &real) == 3,
		      "status %d: %s", status, out);
	ck_assert_msg(user + sys < 0.25 + 0.3 * real, "an idle server computes for %g of %g s",
		      user + sys, real);
}

static const char *const exact[] = {
	"allreduce --workers=2", "periodic --sync-every=3 --workers=2", "gossip --workers=2",
	"model_parallel --workers=2", "hybrid --hybrid.group=2 --workers=4",
	/* codecs: workers add messages in the order of ranks */
	"allreduce --codec=int8 --workers=3", "allreduce --codec=topk --workers=3"};

CASE("hosts");

/* A strategy that waits in every exchange trains the same model as on one machine, bit for bit. */
TEST(hosts_do_not_change_the_model, COUNT(exact))
{
	if (!allowed)
		return;
	char *command AUTOFREE =
		sentence(RUN "--strategy=%s && " RUN "--strategy=%s --hostfile=$FOLDER/one && " ASK
			     "ask.sql",
			 exact[_i], exact[_i]);
	folder_text("one", "lab1 slots=8\n");
	folder_text(
		"ask.sql",
		"SELECT count(*), count(DISTINCT model_hash), count(DISTINCT hosts) FROM (SELECT "
		"* FROM run ORDER BY id DESC LIMIT 2)");
	expect_in_lab("2", command, 0, "\n2|1|2\n");
}

/* Workers of one machine add in the order of ranks. MPI, between hosts, has an order of its own. */
TEST(hosts_change_sums_of_three_in_the_last_bits_only)
{
	if (!allowed)
		return;
	folder_text("one", "lab1 slots=8\n");
	folder_text("ask.sql",
		    "SELECT count(*), count(DISTINCT hosts), max(test_loss) / min(test_loss) - 1 < "
		    "1e-6 FROM (SELECT * FROM run_summary ORDER BY id DESC LIMIT 2)");
	expect_in_lab("2",
		      RUN "--strategy=allreduce --workers=3 && " RUN
			  "--strategy=allreduce --workers=3 --hostfile=$FOLDER/one && " ASK
			  "ask.sql",
		      0, "\n2|2|1\n");
}

/* The recorded order in which pushes came to servers on several hosts. */
TEST(recording_from_several_hosts_is_replayed)
{
	if (!allowed)
		return;
	folder_text("ask.sql", "SELECT max(id) FROM run");
	expect_in_lab("3",
		      RUN "--strategy=asgd --workers=3 --record && ./mvbench run --platform=sim "
			  "--sim.replay=$(" ASK "ask.sql) --sim.platform=ethernet_1g "
			  "--sim.step-time=1ms --data-dir=$FOLDER --db=$FOLDER/run.db",
		      0, "bit for bit");
}

CASE_OF("wires", "wires");

/* The clocks of the hosts differ by 1,000 seconds. In a timeline no push is applied before it is
 * made, or later than the run lasts. */
TEST(timelines_use_one_clock)
{
	if (!allowed)
		return;
	folder_text(
		"ask.sql",
		"SELECT count(*) > 20, min(a.start_s - p.start_s) > -1e-3, max(a.start_s - "
		"p.start_s) < 5, count(DISTINCT a.rank), count(DISTINCT p.rank) FROM event AS a "
		"JOIN event AS p USING (run_id, flow) WHERE a.name = 'apply' AND p.name = 'push' "
		"AND run_id = (SELECT max(id) FROM run)");
	expect_in_lab("3 --clock-offset=1000s",
		      RUN "--strategy=asgd --workers=3 --trace=10 && " ASK "ask.sql", 0,
		      "\n1|1|1|3|3\n");
}

/* ---- What the database records ------------------------------------------- */

TEST(machines_and_network_are_recorded)
{
	if (!allowed)
		return;
	folder_text("ask.sql",
		    "SELECT group_concat(rank || role || host || slot || (address <> '') || "
		    "(git_commit = (SELECT git_commit || iif(git_dirty, '-dirty', '') FROM run)) "
		    "|| (libraries LIKE 'Open MPI%'), ' ') FROM rank; "
		    "SELECT hosts, placement, launcher, network_bandwidth BETWEEN 10e6 AND 13e6, "
		    "network_latency BETWEEN 1e-6 AND 0.02, network LIKE '% Mbit/s, %s' AND "
		    "abs(CAST(network AS REAL) - network_bandwidth * 8e-6) < 1, "
		    "mpi_settings LIKE '%osc=^ucx%', heartbeat >= started, oversubscribed = "
		    "(cores < 3) FROM run");
	/* one of several runs, because other processes may take the cores while the wires are
	 * measured */
	char *command AUTOFREE =
		sentence("for i in $(seq 6); do rm -f $FOLDER/run.db*; %s--strategy=asgd "
			 "--workers=4 >$FOLDER/said 2>&1 || { cat $FOLDER/said; exit 1; }; "
			 "a=$(" ASK "ask.sql); "
			 "case $a in *1\\|1\\|1\\|1\\|1\\|1) break;; esac; done; echo \"$a\"",
			 RUN);
	expect_in_lab("3 --rate=100mbit", command, 0,
		      "0workerlab10111 1workerlab11111 2workerlab20111 3workerlab30111 "
		      "4serverlab12111 5serverlab21111 6serverlab31111\n"
		      "lab1,lab2,lab3|2@0,1@1,1@2+1@0,1@1,1@2|mpirun|1|1|1|1|1|1\n");
}

CASE("hosts");

/* Runs on other machines, with another placement, or over another network are not repetitions. Runs
 * with another file that names the same machines are. */
TEST(networks_and_hosts_are_kept_apart)
{
	if (!allowed)
		return;
	forget_runs();
	static const char run[] = RUN "--strategy=allreduce --workers=2 --epochs=1 ";
	folder_text("a", "lab1\nlab2\n");
	folder_text("b", "lab1 slots=1\nlab2 slots=1\n");
	folder_text("c", "lab1\nlab3\n");
	folder_text(
		"keys.sql",
		"SELECT group_concat(n, ' ') FROM (SELECT group_concat(seed) AS n FROM "
		"run_summary GROUP BY config_key ORDER BY 1); SELECT count(DISTINCT compare_key) "
		"FROM run_summary");
	char *command AUTOFREE = sentence(
		"%s--hostfile=$FOLDER/a && %s--hostfile=$FOLDER/b --seed=2 && "
		"%s--hostfile=$FOLDER/c --seed=3 && %s--hostfile=$FOLDER/a --placement=1@1,1@0 "
		"--seed=4 && ./mvbench lab rate 20mbit && %s--hostfile=$FOLDER/a --seed=5 && " ASK
		"keys.sql && ./mvbench table --format=csv --db=$FOLDER/run.db 2>&- | grep -c "
		",allreduce",
		run, run, run, run, run);
	expect_in_lab("3 --rate=100mbit", command, 0, "1,2 3 4 5\n1\n4\n");
}

/* A sweep with another file of the same machines has nothing to do. --placement makes cells of its
 * own. */
TEST(placement_is_part_of_the_cell)
{
	if (!allowed)
		return;
	forget_runs();
	folder_text("a", "lab1\nlab2\n");
	folder_text("b", "lab1 slots=1\nlab2 slots=1\n");
	folder_text("s.ini", "[cell]\nworkload = softmax\nstrategy = allreduce\nworkers = 2\n"
			     "epochs = 1\nplacement = 1@0 1@1, 1@1 1@0\n");
	expect_in_lab("2",
		      "for f in a b; do ./mvbench sweep $FOLDER/s.ini --hostfile=$FOLDER/$f "
		      "--data-dir=$FOLDER --db=$FOLDER/run.db || exit; done",
		      0, "2 cells: 2 done, 0 diverged, 0 failed, 0 left; finished cells were not");
}

TEST(job_file_crosses_networks)
{
	if (!allowed)
		return;
	forget_runs();
	folder_text("rates.ini", "[cell]\nworkload = softmax\nstrategy = allreduce\nworkers = 2\n"
				 "epochs = 1\nlab.rate = 20mbit, 100mbit\n");
	folder_text("ask.sql",
		    "SELECT lab_rate, count(*), min(network_bandwidth * 8e-6 / "
		    "lab_rate BETWEEN 0.8 AND 1.1) FROM run GROUP BY 1; SELECT "
		    "count(DISTINCT network), count(DISTINCT config_key) FROM run_summary");
	expect_in_lab("2",
		      "for s in 1 2; do ./mvbench sweep $FOLDER/rates.ini --seed=$s "
		      "--data-dir=$FOLDER --db=$FOLDER/run.db || exit; done; " ASK "ask.sql",
		      0, "100mbit|2|1\n20mbit|2|1\n2|2\n");
	char out[OUTPUT];
	int status = command_output("./mvbench run --workers=2 --strategy=allreduce "
				    "--lab.rate=20mbit --dry-run 2>&1",
				    out, sizeof out);
	ck_assert_msg(status == EXIT_USER && strstr(out, "it needs the wires of a lab"), "%s", out);
}

CASE_OF("wires", "wires");

/* The set rates of the wires are in a platform that a simulation reads; and an allreduce over
 * them. */
TEST(wires_are_calibrated)
{
	if (!allowed)
		return;
	char out[OUTPUT];
	forget_runs();
	int status = command_output(
		"./mvbench calibrate --lab=3 --lab.rate=50mbit --counts=2 --seconds=0.2s "
		"--workload=softmax --data-dir=$FOLDER --db=$FOLDER/run.db "
		"--out=$FOLDER/wires.xml 2>&1",
		out, sizeof out);
	ck_assert_msg(status == EXIT_OK && strstr(out, "50mbit"), "status %d: %s", status, out);
	double rate = number_in("run.db", "SELECT max(x / value) FROM calibration_point WHERE "
					  "name = 'message' AND x > 4e5");
	ck_assert_msg(rate > 4e6 && rate < 6.25e6, "%g bytes a second", rate);
	ck_assert_double_lt(number_in("run.db",
				      "SELECT max(abs(s.value / m.value - 1)) FROM "
				      "calibration_point AS m JOIN calibration_point AS s "
				      "USING (x) WHERE m.name = 'message' AND s.name = "
				      "'sim_message' AND x > 4e5"),
			    0.02);
	ck_assert_double_lt(number_in("run.db",
				      "SELECT max(abs(s.value / m.value - 1)) FROM "
				      "calibration_point AS m JOIN calibration_point AS s "
				      "USING (x) WHERE m.name = 'allreduce' AND s.name = "
				      "'sim_allreduce' AND x > 1e5"),
			    0.1);
	static const char *const sims[] = {
		"--sim.platform=hosts --lab.rate=50mbit --placement=1@0,1@1 --step-time=20ms",
		"--sim.platform=$FOLDER/wires.xml --sim.step-time=20ms"};
	for (int i = 0; i < 2; i++) {
		char *words AUTOFREE =
			sentence(RUN "--platform=sim --workers=2 --strategy=allreduce "
				     "--sim.train=false %s 2>&1",
				 sims[i]);
		status = command_output(words, out, sizeof out);
		ck_assert_msg(status == EXIT_OK, "%s: %s", words, out);
	}
	/* 10 steps of 20 ms, each with an allreduce of 31,400 bytes in both directions */
	double seconds[] = {number_in("run.db", "SELECT min(seconds) FROM epoch WHERE epoch > 0"),
			    number_in("run.db", "SELECT max(seconds) FROM epoch WHERE epoch > 0")};
	ck_assert_msg(seconds[0] > 0.2 + 10 * 0.7 * 31400 / 6e6 && seconds[1] < 0.4, "%g to %g s",
		      seconds[0], seconds[1]);
	status = command_output(RUN "--platform=sim --workers=2 --strategy=allreduce "
				    "--sim.platform=hosts --lab.rate=20mbit 2>&1",
				out, sizeof out);
	ck_assert_msg(status == EXIT_USER &&
			      strstr(out, "no wires of 20mbit were calibrated; run: mvbench "
					  "calibrate --hostfile=FILE --lab.rate=20mbit"),
		      "%s", out);
}

/* The cells of a job file in a lab, compared with simulations of its wires; repeated if other
 * processes took the cores. */
TEST(simulations_are_validated_against_wires)
{
	if (!allowed)
		return;
	char out[OUTPUT] = "";
	int status = -1;
	folder_text("wires.ini",
		    "[defaults]\nworkload = softmax\nstep-time = 20ms\nbatch = 30\nepochs = 2\n"
		    "lr = 0.01\nsim.train = false\nworkers = 2\nlab.rate = 20mbit\n"
		    "[cells]\nstrategy = allreduce, asgd\n");
	for (int i = 0; i < 4 && (status || !strstr(out, "fastest")); i++) {
		forget_runs();
		status = command_output(
			"./mvbench validate $FOLDER/wires.ini --lab=2 --repetitions=3 "
			"--seconds=0.2s --data-dir=$FOLDER --db=$FOLDER/run.db "
			"--threshold-median=20 --threshold-p90=40 --threshold-comm-median=1e6 "
			"--threshold-comm-p90=1e6 2>&1",
			out, sizeof out);
	}
	ck_assert_msg(status == EXIT_OK, "status %d: %s", status, out);
	ck_assert_msg(strstr(out, "softmax allreduce 2w") && strstr(out, "softmax asgd 2w+2s"),
		      "%s", out);
	ck_assert_msg(strstr(out, "fastest"), "%s", out);
}

static const struct {
	const char *there, *says;
} differences[] = {
	{"mkdir $FOLDER/other; cp $FOLDER/train-images* $FOLDER/other; cd $FOLDER/other; f=$(ls); "
	 "printf x | dd of=$f bs=1 seek=100 conv=notrunc status=none; cd -; "
	 "./mvbench lab exec lab2 -- mount --bind $FOLDER/other/$f $FOLDER/$f",
	 "rank 1 on lab2: the files of its data set differ from those of rank 0"},
	{"c=$(./mvbench --version | grep -o '[0-9a-f]\\{12\\}' | head -1); "
	 "LC_ALL=C sed s/$c/0123456789ab/g mvbench >$FOLDER/built; chmod +x $FOLDER/built; "
	 "./mvbench lab exec lab2 -- mount --bind $FOLDER/built $(pwd)/mvbench",
	 "rank 1 on lab2 runs mvbench 0123456789ab"},
};

CASE("hosts");

TEST(differing_builds_and_data_are_refused, COUNT(differences))
{
	if (!allowed)
		return;
	folder_text("there.sh", differences[_i].there);
	expect_in_lab("2", "sh -e $FOLDER/there.sh && " RUN "--strategy=allreduce --workers=2",
		      EXIT_USER, differences[_i].says);
}

/* ---- Failures ------------------------------------------------------------ */

TEST(rank_0_may_be_on_another_host)
{
	char out[OUTPUT];
	if (!allowed)
		return;
	folder_text("hosts", "lab2\nlab3\n");
	int status = in_lab(
		"3",
		RUN "--strategy=allreduce --workers=2 --hostfile=$FOLDER/hosts "
		    "--format=json && sqlite3 $FOLDER/run.db \"SELECT host, status FROM run\"",
		out);
	ck_assert_msg(status == 0 && strstr(out, "lab2|done\n"), "status %d: %s", status, out);
	ck_assert_msg(strstr(out, "epoch 2/2"), "no progress is printed: %s", out);

	/* also the only worker */
	expect_in_lab("3",
		      RUN "--hostfile=$FOLDER/hosts --placement=1@1 && sqlite3 $FOLDER/run.db "
			  "\"SELECT host, status FROM run WHERE workers = 1\"",
		      0, "lab3|done\n");

	/* a user's mistake that only the workers find */
	status = in_lab("3",
			RUN "--strategy=allreduce --workers=2 --hostfile=$FOLDER/hosts --lr=1000 "
			    "--epochs=5",
			out);
	ck_assert_msg(status == EXIT_DIVERGED && strstr(out, "--lr"), "status %d: %s", status, out);
}

/* Otherwise the ranks of other hosts would look for the data in another folder. */
TEST(environment_variables_reach_other_hosts)
{
	if (!allowed)
		return;
	expect_in_lab("2",
		      "MVBENCH_DATA=$FOLDER ./mvbench run --workload=softmax --epochs=1 "
		      "--batch=30 --strategy=allreduce --workers=2 --db=$FOLDER/run.db",
		      0, "epoch 1/1");
}

TEST(path_of_the_program_may_have_blanks)
{
	if (!allowed)
		return;
	expect_command(EXIT_OK,
		       "p=\"$FOLDER/it is: one's\"; mkdir \"$p\" && cp mvbench \"$p\" && "
		       "\"$p/mvbench\" lab run 2 -- \"$p/mvbench\" run --workload=softmax "
		       "--epochs=1 --data-dir=$FOLDER --strategy=allreduce --workers=2 "
		       "--db=$FOLDER/run.db 2>&1",
		       "epoch 1/1");
}

/* On one host an empty folder covers the data folder. */
TEST(missing_data_of_one_host_is_reported)
{
	char out[OUTPUT];
	if (!allowed)
		return;
	nsec since = clock_now();
	int status = in_lab("2",
			    "./mvbench lab exec lab2 -- mount -t tmpfs none $FOLDER && " RUN
			    "--strategy=allreduce --workers=2",
			    out);
	ck_assert_msg(status != 0 && strstr(out, "worker 1 on lab2") && strstr(out, "train-images"),
		      "status %d: %s", status, out);
	ck_assert_double_lt(1e-9 * (double)(clock_now() - since), 15);
}

/* The ranks on a host, without its first process and the processes that watch commands. */
#define RANK  "^[^ ]*mvbench run "
#define RANKS "-f \"" RANK "\""

TEST(missing_program_of_one_host_is_reported)
{
	if (!allowed)
		return;
	expect_in_lab(
		"2 --probe=false",
		"mkdir $FOLDER/program; cp mvbench $FOLDER/program; ./mvbench lab exec lab2 -- "
		"mount -t tmpfs none $FOLDER/program; $FOLDER/program/mvbench run "
		"--workload=softmax --epochs=1 --data-dir=$FOLDER --db=$FOLDER/run.db "
		"--strategy=allreduce --workers=2",
		EXIT_USER, "mpirun could not start the workers on lab2: see its messages");
}

/* Starts a long run in a lab, in the background; after it has begun, the shell does `then`. */
static int disturb(const char *words, const char *then, char out[OUTPUT])
{
	char *command AUTOFREE = sentence(
		RUN "--epochs=1000000 %s >$FOLDER/said 2>&1 & run=$!; for i in $(seq 200); do "
		    "grep -q \"epoch 1/\" $FOLDER/said && break; sleep 0.1; done; sleep 0.5; "
		    "%s; wait $run; echo status $?; grep -v ^epoch $FOLDER/said; for i in $(seq "
		    "30); do n=$(./mvbench lab exec lab2 -- pgrep -c " RANKS "); [ \"$n\" = 0 ] && "
		    "break; sleep 0.1; done; echo \"$n ranks are left\"",
		words, then);
	return in_lab("2", command, out);
}

static const struct {
	const char *words, *then;
	const char *says[4];
} disturbances[] = {
	{"--strategy=allreduce --workers=2",
	 "./mvbench lab exec lab2 -- pkill -KILL " RANKS,
	 {"worker 1 on lab2 was killed by signal 9", "status 1\n", "\n0 ranks are left", ""}},
	{"--strategy=allreduce --workers=2 --stall-timeout=9s",
	 "./mvbench lab cut lab2",
	 {"worker 1 on lab2 gives no sign of life", "--stall-timeout", "status 1\n", ""}},
	{"--strategy=asgd --workers=2 --stall-timeout=9s",
	 "./mvbench lab exec lab2 -- pkill -STOP " RANKS,
	 {"on lab2 gives no sign of life", "--stall-timeout", "status 1\n", "\n0 ranks are left"}},
	{"--strategy=allreduce --workers=2 --stall-timeout=3s",
	 "pkill -STOP -P $(pgrep -x mpirun)",
	 {"worker 0 on lab1 is stopped", "--stall-timeout", "status 1\n", "\n0 ranks are left"}},
	{"--strategy=allreduce --workers=2",
	 "kill -TERM $run",
	 {"", "status 130\n", "\n0 ranks are left", ""}},
	{"--strategy=allreduce --workers=2",
	 "./mvbench lab off lab2",
	 {"the connection to lab2 was lost", "status 1\n", "", ""}},
};

TEST(disturbances_end_runs, COUNT(disturbances))
{
	char out[OUTPUT];
	if (!allowed)
		return;
	nsec since = clock_now();
	disturb(disturbances[_i].words, disturbances[_i].then, out);
	for (size_t i = 0; i < COUNT(disturbances[_i].says); i++)
		ck_assert_msg(strstr(out, disturbances[_i].says[i]), "%s: \"%s\" is not in: %s",
			      disturbances[_i].then, disturbances[_i].says[i], out);
	ck_assert_double_lt(1e-9 * (double)(clock_now() - since), 45);
}

/* No process of mvbench watches programs that use the library, and runs under the user's mpirun:
 * the ranks of the first host detect that those of the other host are silent. */
TEST(ranks_detect_silent_ranks_of_other_hosts)
{
	char out[OUTPUT];
	if (!allowed)
		return;
	const char *command =
		"export MVBENCH_STALL_TIMEOUT=9; m=\"mpirun --map-by node --bind-to none -n 2\"; "
		"$m tests/lib/endless 0 >$FOLDER/a 2>&1 & a=$!; $m ./mvbench run "
		"--strategy=allreduce --workers=2 --workload=softmax --data-dir=$FOLDER "
		"--epochs=1000000 --stall-timeout=9s --db=$FOLDER/run.db >$FOLDER/b 2>&1 & b=$!; "
		"for i in $(seq 200); do grep -q ready $FOLDER/a && grep -q \"epoch 1/\" $FOLDER/b "
		"&& break; sleep 0.1; done; sleep 1.5; ./mvbench lab exec lab2 -- pkill -STOP -f "
		"\"^tests/lib/endless|" RANK "\"; wait $a || echo a fails; wait $b || echo b "
		"fails; pgrep -f ^tests/lib/endless; pgrep " RANKS
		"; grep -h mvbench: $FOLDER/a $FOLDER/b";
	in_lab("2 --probe=false", command, out);
	static const char *const says[] = {"a fails\nb fails\nmvbench: rank 1 of 2 (process ",
					   " on lab2) gives no sign of life",
					   "s (MVBENCH_STALL_TIMEOUT=9): ended",
					   "s (--stall-timeout=9s): ended"};
	ck_assert_ptr_null(strstr(out, "oversubscribed"));
	for (size_t i = 0; i < COUNT(says); i++)
		ck_assert_msg(strstr(out, says[i]), "\"%s\" is not in: %s", says[i], out);
}

/* A cut of a few seconds is survived. */
TEST(run_survives_a_short_network_cut)
{
	if (!allowed)
		return;
	expect_in_lab("2",
		      RUN
		      "--strategy=allreduce --workers=2 --epochs=40 --speed=1:0.02 & run=$!; sleep "
		      "2; ./mvbench lab cut lab2; sleep 4; ./mvbench lab heal lab2; wait $run",
		      0, "epoch 40/40");
}
