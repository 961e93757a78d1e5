/*
 * check_replay.c - replays: the simulator repeats the recorded order of arrival of a run and
 * reaches the same model, bit for bit. What cannot be repeated is refused, and a changed recording
 * is detected.
 */
#include "results/gate/gate.h"
#include "runtime/table/table.h"
#include "tests/made.h"
#include "tests/suites.h"
#include "tests/trained.h"

#include <stdlib.h>
#include <string.h>

enum { OUTPUT = 8192 };

#define SMALL "--workload=mlp --mlp.hidden=16 --epochs=2 --batch=48 "
#define SIM   "--platform=sim "

/* Changes the folder's database behind mvbench. */
#define alter(text) sql_in("run.db", text)

/* Run 1 of a new database. */
static void record(const char *how)
{
	record_only(words("--record --device=cpu %s", how));
}

/* The status must be this, and the output must have these words. */
static void replay(const char *how, int status, const char *says)
{
	char out[OUTPUT];
	int got = run_mvbench("timeout 60 env", words("--sim.replay=1 %s", how), out, sizeof out);
	ck_assert_msg(got == status && strstr(out, says),
		      "%s: status %d, wanted %d and \"%s\":\n%s", how, got, status, says, out);
}

#define EQUALS "the model equals run 1's, bit for bit"

/* Run 2 equals run 1: the same model, losses and staleness, and, if it recorded too, the same
 * order, except which worker found that a round was over. Losses are sums over the workers, in any
 * order. */
static void expect_equal_runs(void)
{
	expect_row("SELECT a.model_hash IS b.model_hash, length(a.model_hash), b.status "
		   "FROM run AS a, run AS b WHERE a.id = 1 AND b.id = 2",
		   "1,16,done\r\n");
	expect_row("SELECT count(*) > 1 AND count(b.running_loss) = count(*) - 1, "
		   "sum(abs(a.test_loss - b.test_loss) > 1e-12 * a.test_loss), "
		   "sum(abs(a.train_loss - b.train_loss) > 1e-12 * a.train_loss), "
		   "sum(abs(a.running_loss - b.running_loss) > 1e-12 * a.running_loss), "
		   "sum(a.pushes IS NOT b.pushes OR a.dropped IS NOT b.dropped) "
		   "FROM epoch AS a JOIN epoch AS b ON b.epoch = a.epoch AND b.run_id = 2 "
		   "WHERE a.run_id = 1 AND a.test_loss > 0",
		   "1,0,0,0,0\r\n");
	for (int i = 1; i <= 2; i++) {
		const char *const rows[] = {
			"epoch, staleness, pushes FROM staleness",
			"table_id, shard, seq, iif(kind = 'round', 0, worker), kind "
			"FROM arrival"};
		for (size_t k = 0; k < COUNT(rows); k++)
			expect_row(words("SELECT count(*) FROM (SELECT %s WHERE run_id = %d EXCEPT "
					 "SELECT %s WHERE run_id = %d)",
					 rows[k], i, rows[k], 3 - i),
				   "0\r\n");
	}
}

static const char *const runs[] = {
	"--workload=softmax --strategy=asgd --workers=2 --epochs=3 --batch=24",
	SMALL "--strategy=asgd --workers=3 --momentum=0.9",
	SMALL "--strategy=asgd --workers=2 --sync-every=7 --weight-decay=0.001",
	"--workload=perceptron --strategy=asgd --workers=2 --epochs=1",
	"--workload=perceptron --strategy=asgd --workers=3 --epochs=1",
	"--workload=lenet --lenet.dropout=0.5 --strategy=asgd --workers=2 --epochs=1 --batch=100",
	SMALL "--strategy=asgd --workers=1",
	SMALL "--strategy=ssp --ssp.bound=1 --workers=3 --batch=8 --straggle=1",
	SMALL "--strategy=ssp --ssp.bound=0 --workers=2",
	SMALL "--strategy=downpour --workers=2",
	SMALL "--strategy=downpour --downpour.send=3 --sync-every=2 --workers=3",
	SMALL "--strategy=easgd --sync-every=2 --workers=3",
	SMALL "--strategy=bsp --workers=3",
	SMALL "--strategy=bsp --bsp.backup=1 --workers=3 --batch=8 --straggle=1",
	SMALL "--strategy=bsp --bsp.backup=2 --workers=4 --batch=8 --straggle=1",
	SMALL "--strategy=asgd --workers=2 --servers=1",
	SMALL "--strategy=asgd --workers=3 --servers=2 --asgd.updater=staleness",
	SMALL "--strategy=ssp --ssp.bound=1 --workers=3 --servers=2 --batch=8 --straggle=1",
	SMALL "--strategy=downpour --downpour.send=3 --sync-every=2 --workers=2 --servers=1",
	SMALL "--strategy=easgd --sync-every=2 --workers=2 --servers=2",
	SMALL "--strategy=bsp --bsp.backup=1 --workers=3 --servers=2 --batch=8 --straggle=1",
	SMALL "--strategy=asgd --deal=dynamic --workers=3 --momentum=0.9",
	SMALL "--strategy=asgd --deal=dynamic --workers=3 --servers=2 --speed=1:0.3",
	SMALL "--strategy=ssp --deal=dynamic --ssp.bound=1 --workers=3 --batch=8 --straggle=1",
	SMALL "--strategy=downpour --deal=dynamic --sync-every=4 --workers=2 --servers=1",
	SMALL "--strategy=easgd --deal=dynamic --sync-every=2 --workers=3",
	SMALL "--strategy=bsp --deal=dynamic --bsp.backup=1 --workers=3 --batch=8 --straggle=1",
};

CASE("replay", .limit = 180, .set_up = trained_data, .tear_down = folder_free, .once = true);

/* Any times give the same model. */
TEST(replay_reaches_the_same_model, COUNT(runs))
{
	record(runs[_i]);
	replay(SIM "--record --sim.step-time=1ms --sim.platform=ethernet_1g", EXIT_OK, EQUALS);
	expect_equal_runs();
	replay(SIM "--straggle=2 --sim.step-time=20us --sim.platform=gpu4_nvlink", EXIT_OK, EQUALS);
	expect_row("SELECT a.model_hash IS b.model_hash, b.record, b.sim_replay "
		   "FROM run AS a, run AS b WHERE a.id = 1 AND b.id = 3",
		   "1,0,1\r\n");
}

TEST(replay_is_bit_identical_for_every_updater, LISTED(updaters))
{
	record(words(SMALL "--strategy=asgd --workers=3 --sync-every=2 --lr=0.01 --momentum=%s "
			   "--asgd.updater=%s",
		     updaters[_i]->wants.betas ? "0" : "0.5", updaters[_i]->name));
	replay(SIM "--record --sim.step-time=1ms --sim.platform=ethernet_1g", EXIT_OK, EQUALS);
	expect_equal_runs();
}

/* The recording of a simulated run can be replayed too. */
TEST(simulated_run_is_replayed)
{
	record(SIM SMALL "--strategy=asgd --workers=3 --straggle=1 --sim.step-time=1ms "
			 "--sim.platform=gpu4_nvlink");
	replay(SIM "--record --straggle=0.1 --sim.step-time=3ms --sim.platform=gpu4_pcie", EXIT_OK,
	       EQUALS);
	expect_equal_runs();
}

/* A number below n, from *state. */
static unsigned drawn(unsigned *state, unsigned n)
{
	*state = *state * 1664525 + 1013904223;
	return (*state >> 16) % n;
}

/* Strategy, placement, number of workers, sync interval, assignment, backup workers and delays are
 * drawn. The replay has other delays and another network. */
TEST(randomly_drawn_runs_are_replayed, 20)
{
	static const char *const tried[] = {"asgd", "downpour", "easgd", "ssp",
					    "bsp",  "bsp",      "bsp"},
				 *const deals[] = {"auto", "auto", "static"};
	unsigned x = 77 + (unsigned)_i;
	drawn(&x, 2);
	unsigned workers = 2 + drawn(&x, 3);
	const char *s = tried[drawn(&x, COUNT(tried))];
	const char *backup = "";
	char backups[32];
	if (strcmp(s, "bsp") == 0 && drawn(&x, 4)) {
		snprintf(backups, sizeof backups, "--bsp.backup=%u", 1 + drawn(&x, workers - 1));
		backup = backups;
	}
	record(words(SIM SMALL "--strategy=%s %s --workers=%u --servers=%u --sync-every=%u "
			       "--deal=%s --speed=%u:0.%u --straggle=0.%u --seed=%u "
			       "--sim.step-time=1ms --sim.platform=gpu4_nvlink",
		     s, backup, workers, drawn(&x, 3), 1 + drawn(&x, 7),
		     deals[drawn(&x, COUNT(deals))], drawn(&x, workers), 1 + drawn(&x, 9),
		     drawn(&x, 9), 1 + drawn(&x, 60)));
	replay(SIM "--record --straggle=0.3 --sim.step-time=3ms --sim.platform=wide_area", EXIT_OK,
	       EQUALS);
	expect_equal_runs();
}

/* A run that diverges does so again, and its replay has the same status. */
TEST(diverged_run_is_replayed)
{
	char out[OUTPUT];
	forget_runs();
	int status = run_mvbench("",
				 SMALL "--record --device=cpu --strategy=asgd --workers=2 "
				       "--lr=1000 --lr-schedule=constant --epochs=20",
				 out, sizeof out);
	ck_assert_int_eq(status, EXIT_DIVERGED);
	replay(SIM "--sim.step-time=1ms --sim.platform=gpu4_pcie", EXIT_DIVERGED, EQUALS);
	expect_row("SELECT status FROM run WHERE id = 2", "diverged\r\n");
}

/* Two neighbours are exchanged: another order gives another model. */
#define FIND \
	"CREATE TABLE swapped AS SELECT min(a.seq) AS seq FROM arrival AS a JOIN arrival AS b " \
	"ON b.seq = a.seq + 1 WHERE a.seq > 10 AND a.kind = 'sync' AND b.kind = 'sync' " \
	"AND a.worker != b.worker;"
#define SWAP \
	"UPDATE arrival SET worker = 1 - worker WHERE seq - (SELECT seq FROM swapped) IN (0, 1)"

TEST(another_order_gives_another_model, 2)
{
	static const char *const servers[] = {"", "--servers=1"};
	record(words(SMALL "--strategy=asgd --deal=static --workers=2 %s", servers[_i]));
	alter(FIND SWAP);
	replay(SIM "--sim.step-time=1ms --sim.platform=gpu4_pcie", EXIT_FAILED,
	       "the model differs from run 1's");
	expect_row("SELECT status, (SELECT model_hash FROM run WHERE id = 1) != model_hash "
		   "FROM run WHERE id = 2",
		   "done,1\r\n");
	alter(SWAP); /* back again */
	replay(SIM "--sim.step-time=1ms --sim.platform=gpu4_pcie", EXIT_OK, EQUALS);
}

/* Worker 1 takes its mini-batches after worker 0 has taken all of its own, but worker 0's pushes
 * wait for worker 1's. */
TEST(replay_deadlock_is_reported, 2)
{
	static const char *const servers[] = {"", "--servers=1"};
	record(words(SMALL "--strategy=asgd --deal=dynamic --workers=2 %s", servers[_i]));
	alter("CREATE TABLE turn AS SELECT row_number() OVER (ORDER BY worker, seq) - 1 AS seq, "
	      "worker FROM arrival WHERE table_id = 1;"
	      "UPDATE arrival SET worker = turn.worker FROM turn "
	      "WHERE table_id = 1 AND arrival.seq = turn.seq");
	replay(SIM "--sim.step-time=1ms --sim.platform=gpu4_pcie", EXIT_FAILED,
	       "wait for each other");
}

/* ---- Options ------------------------------------------------------------- */

/* Options that decide the result come from the run; they may be repeated. */
TEST(replay_takes_options_from_its_run)
{
	record(SMALL "--strategy=asgd --asgd.updater=dcasgd --asgd.lambda=0.3 --workers=2 "
		     "--sync-every=3 --lr=0.0123456789012345 --seed=7 --label=real");
	replay(SIM "--sim.step-time=1ms --sim.platform=gpu4_pcie --workers=2 --batch=48 "
		   "--lr=1.23456789012345e-2 --device=auto --table-home=shared --asgd.lambda=3e-1 "
		   "--target-accuracy=0.5 --label=again",
	       EXIT_OK, EQUALS);
	expect_row("SELECT b.workload, b.sync_every, b.lr = a.lr, b.lr_schedule = a.lr_schedule, "
		   "b.seed, b.platform, b.label, b.record, b.sim_replay, b.target_accuracy, "
		   "(SELECT group_concat(part || name || value) FROM (SELECT * FROM run_option "
		   "WHERE run_id = 1 ORDER BY part, name)) = "
		   "(SELECT group_concat(part || name || value) FROM (SELECT * FROM run_option "
		   "WHERE run_id = 2 ORDER BY part, name)) "
		   "FROM run AS a, run AS b WHERE a.id = 1 AND b.id = 2",
		   "mlp,3,1,1,7,sim,again,0,1,0.5,1\r\n");
}

TEST(replay_with_other_options_is_refused)
{
	static const struct {
		const char *words, *says;
	} row[] = {
		{"", "give --platform=sim"},
		{"--platform=mpi", "give --platform=sim"},
		{SIM "--batch=64", "--batch=64: run 1 had 48"},
		{SIM "--workers=3", "--workers=3: run 1 had 2"},
		{SIM "--workload=softmax", "--workload=softmax: run 1 had mlp"},
		{SIM "--strategy=ssp", "--strategy=ssp: run 1 had asgd"},
		{SIM "--servers=1", "--servers=1: run 1 had 0"},
		{SIM "--lr=0.0500001", "--lr=0.0500001: run 1 had 0.05, and"},
		{SIM "--leave=1:1s", "--leave=1:1s: run 1 had none"},
		{SIM "--mlp.hidden=17", "--mlp.hidden=17: run 1 had 16"},
		{SIM "--asgd.updater=sgd", "--asgd.updater=sgd: run 1 had add"},
		{SIM "--ssp.bound=3", "an option of strategy ssp"},
		{SIM "--table-home=onesided", "--table-home=onesided: run 1 had shared"},
		{SIM "--sim.train=false", "a replay must train"},
		{SIM "--sim.replay=9", "has no run 9"},
		{SIM "--sim.replay=x", "--sim.replay=x"},
		{SIM "--db=/nowhere/no.db", "/nowhere/no.db"},
	};
	record(SMALL "--strategy=asgd --workers=2 --lr=0.05");
	for (size_t i = 0; i < COUNT(row); i++)
		replay(row[i].words, EXIT_USER, row[i].says);
	expect_row("SELECT count(*) FROM run", "1\r\n");
}

TEST(replay_without_a_usable_recording_is_refused)
{
	static const struct {
		const char *sql, *says;
	} row[] = {
		{"UPDATE run SET record = 0", "made with --record"},
		{"UPDATE run SET record = 1, status = 'failed'", "did not end (failed)"},
		{"UPDATE run SET status = 'done', device = 'cuda'", "computed on cuda"},
		{"UPDATE run SET device = 'cpu', leave = '1:3s'", "--leave=1:3s"},
		{"UPDATE run SET leave = '', model_hash = NULL", "an older mvbench"},
		{"UPDATE run SET model_hash = ''", "computed no gradients"},
		{"UPDATE run SET model_hash = 'x'; DELETE FROM arrival WHERE seq = 17",
		 "is damaged: table 0, shard 0 has no operation 17"},
		{"UPDATE arrival SET seq = 17, worker = 2 WHERE seq = 18; "
		 "UPDATE arrival SET seq = seq - 1 WHERE seq > 18",
		 "has worker 2 at table 0"},
		{"DELETE FROM arrival", "has no row of it"},
	};
	record(SMALL "--strategy=asgd --workers=2");
	for (size_t i = 0; i < COUNT(row); i++) {
		alter(row[i].sql);
		replay(SIM "--sim.step-time=1ms --sim.platform=gpu4_pcie", EXIT_USER, row[i].says);
	}
	expect_row("SELECT count(*) FROM run", "1\r\n");
}

/* In a job file a cell has options of its own. */
TEST(sweep_refuses_replays)
{
	folder_text("job.ini", "[a]\nplatform = sim\nsim.step-time = 1ms\nsim.replay = 1, 2\n");
	expect_command(EXIT_USER, words("./mvbench sweep %s/job.ini 2>&1", folder),
		       "use mvbench run");
}

/* ---- Changed recordings -------------------------------------------------- */

#define LAST    "(SELECT max(seq) FROM arrival WHERE kind = 'sync')"
#define CHANGED "was it changed since it was made?"

static const struct {
	const char *words, *sql, *says;
} changed[] = {
	{"asgd", "DELETE FROM arrival WHERE seq > 50", "ends after 51 operations"},
	{"asgd --deal=dynamic",
	 "UPDATE arrival SET worker = 1 - worker WHERE table_id = 1 AND seq = 20",
	 "does not fit"}, /* another worker would get its rows */
	{"asgd --deal=static", "UPDATE arrival SET worker = 1 - worker WHERE seq = " LAST,
	 "makes no more before the next barrier"},
	{"asgd", "UPDATE arrival SET kind = 'pull' WHERE seq = 20", "is a \"pull\" of worker"},
	{"asgd --deal=static",
	 "INSERT INTO arrival SELECT run_id, table_id, shard, seq + 1, worker, kind "
	 "FROM arrival WHERE seq = " LAST,
	 "has 105 operations, and this run made 104"},
	{"asgd --servers=1", "DELETE FROM arrival WHERE seq > 50", "ends after 51 operations"},
	{"asgd --deal=static --servers=1",
	 "UPDATE arrival SET worker = 1 - worker WHERE seq = " LAST,
	 "makes no more before the next barrier"},
	{"asgd --servers=1", "UPDATE arrival SET kind = 'pull' WHERE seq = 20",
	 "is a \"pull\" of worker"},
	{"asgd --deal=static --servers=1",
	 "INSERT INTO arrival SELECT run_id, table_id, shard, seq + 1, worker, kind FROM "
	 "arrival WHERE seq = " LAST,
	 "has 105 operations, and this run made 104"},
	/* in the first round, one worker would read a table to which the other has not pushed
	 * yet */
	{"bsp",
	 "UPDATE arrival SET kind = 'pull', worker = (SELECT worker FROM arrival "
	 "WHERE seq = 2) WHERE seq = 3",
	 "2 of 2 workers wait for each other"},
	{"bsp --servers=1",
	 "UPDATE arrival SET kind = 'pull', worker = (SELECT worker FROM arrival WHERE "
	 "seq = 2) WHERE seq = 3",
	 "wait for each other"},
};

/* Each replay ends by itself, with a message. */
TEST(changed_recording_is_detected, COUNT(changed))
{
	record(words(SMALL "--workers=2 --strategy=%s", changed[_i].words));
	alter(changed[_i].sql);
	replay(SIM "--sim.step-time=1ms --sim.platform=gpu4_pcie", EXIT_FAILED, changed[_i].says);
	expect_row("SELECT count(*), sum(reason LIKE '%" CHANGED "%') FROM run "
		   "WHERE id > 1 AND status = 'failed'",
		   "1,1\r\n");
}
