/*
 * check_contract.c - the contract of a plug-in: what it gets, reports and promises. Probes in
 * tests/tools/train (MVBENCH_PROBE) test this from inside, in real and in simulated runs.
 */
#include "runtime/config/config.h"
#include "tests/suites.h"
#include "tests/trained.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MLP       "--workload=mlp --mlp.hidden=32 --lr=0.05 --lr-schedule=constant --epochs=2 "
#define SIMULATED "--sim.platform=ethernet_10g --sim.step-time=1ms "

/* A run with this probe, real or simulated. */
static struct result probed(const char *probe, int workers, bool simulated, const char *how)
{
	setenv("MVBENCH_PROBE", probe, 1);
	struct result r = simulated ? run_simulated(workers, words(SIMULATED "%s", how))
				    : run_tool(workers, how);
	unsetenv("MVBENCH_PROBE");
	return r;
}

static struct result probed_ok(const char *probe, int workers, bool simulated, const char *how)
{
	struct result r = probed(probe, workers, simulated, how);
	ck_assert_msg(r.status == 0, "%s, %d workers%s, %s: status %d\n%s", probe, workers,
		      simulated ? ", simulated" : "", how, r.status, r.output);
	ck_assert_msg(r.allocations == 0, "%s: %g allocations between steps", probe, r.allocations);
	return r;
}

/* ---- fetch ---- */

CASE("contract", .limit = 300, .set_up = trained_data, .tear_down = folder_free, .once = true);

/* Momentum with gradients at the look-ahead point is Nesterov's. The test holds only if fetch's
 * param is also that of the gradient and of step, and fetch's rows are those of the step. */
TEST(lookahead_gradient_equals_nesterov, 4)
{
	int n = _i / 2 + 1;
	const char *how = words(MLP "--momentum=0.9 --batch=%d --strategy=%s", 48 / n,
				n == 1 ? "serial" : "allreduce");
	struct result ahead = probed_ok("ahead", n, _i % 2, how);
	const char *both[] = {words("%s --optimizer=nesterov", how), how};
	struct result r[2], *nesterov = &r[0], *plain = &r[1];
	train_all(n, 2, both, r);
	ck_assert_msg(distance(plain, nesterov) > 1e-3, "Nesterov's momentum changes nothing");
	compare_runs(&ahead, "ahead", nesterov, how, 1e-5);
}

/* 7 workers take 342 rows each, so the second step has 6 of 2,400 rows left. fetch is called there,
 * too. */
TEST(fetch_is_called_for_steps_without_rows)
{
	const char *how = MLP "--momentum=0.9 --strategy=allreduce --batch=342";
	for (int simulated = 0; simulated < 2; simulated++)
		probed_ok("ahead", 7, simulated, how);
}

/* ---- worker_loss ---- */

/* The losses that workers read after each step, or after three steps together, give the epoch's
 * running loss. Reading changes neither that loss nor the model. */
TEST(step_losses_give_the_epoch_loss, 6)
{
	static const char *const strategy[] = {"serial", "allreduce", "periodic"};
	int n = _i / 2 + 1;
	const char *how = words(MLP "--batch=%d --strategy=%s", 48 / n, strategy[n - 1]);
	struct result r = probed_ok("loss", n, _i % 2, how);
	struct result plain =
		_i % 2 ? run_simulated(n, words(SIMULATED "%s", how)) : train_ok(n, how);
	const char *said = strstr(r.output, "asked ");
	ck_assert_msg(said, "%s", r.output);
	double asked = strtod(said + 6, NULL);
	ck_assert_msg(fabs(asked - r.running_loss) <= 1e-8 * r.running_loss,
		      "workers read a loss of %.9g, the epoch's is %.9g", asked, r.running_loss);
	ck_assert_double_eq_tol(r.running_loss, plain.running_loss, 1e-8 * plain.running_loss);
	ck_assert_double_le(distance(&r, &plain), n == 1 ? 0 : 1e-6);
}

/* A GPU repeats its steps from graphs; the loss is read between two steps. */
TEST(step_losses_of_a_gpu_give_the_epoch_loss)
{
	const char *how = MLP "--batch=48 --strategy=serial --device=cuda";
	if (!have_gpu()) {
		skipped("there is no nvcc, so the emulated GPU was not built");
		return;
	}
	use_gpu();
	struct result r = probed_ok("loss", 1, false, how), plain = train_ok(1, how);
	const char *said = strstr(r.output, "asked ");
	ck_assert_msg(said && fabs(strtod(said + 6, NULL) - r.running_loss) <=
				      1e-8 * r.running_loss,
		      "%s", r.output);
	ck_assert_double_eq_tol(r.running_loss, plain.running_loss, 1e-6 * plain.running_loss);
}

/* ---- worker_report ---- */

/* The value is the mean over all reports of all workers, also in an epoch without a barrier. */
TEST(worker_reports_are_averaged, 4)
{
	static const char *const want[] = {"reported 1 rank 1 150", "reported 1 half 0.5 10",
					   "reported 2 worker_2 -1 1"};
	const char *how = words(MLP "--strategy=allreduce --batch=16 --barrier-every=%d", _i / 2);
	struct result r = probed_ok("report", 3, _i % 2, how);
	int said = 0;
	for (size_t i = 0; i < COUNT(want); i++)
		ck_assert_msg(strstr(r.output, want[i]), "no \"%s\" in\n%s", want[i], r.output);
	for (const char *at = r.output; (at = strstr(at, "reported ")); at++)
		said++;
	ck_assert_int_eq(said, COUNT(want));
}

/* With a figure of the user's own. */
static void draw_intervals(void)
{
	char text[8192];
	folder_text("gaps.sql",
		    "-- The interval against epochs.\n"
		    "WITH figure AS (SELECT s.place AS number, v.epoch AS name, v.value AS x FROM "
		    "selected AS s JOIN epoch_value AS v ON v.run_id = s.id WHERE v.name = "
		    "'interval'), /* MEDIANS */ SELECT c.workload, c.title, m.name, m.mid FROM "
		    "median AS m JOIN configuration AS c ON c.place = m.number ORDER BY m.name;\n");
	folder_text("gaps.gp", "eval layout_curves\nset xlabel 'Epoch'\n"
			       "plot for [i = 1:blocks] data index i - 1 using 1:2 with "
			       "linespoints title name[i]\n");
	char *plot AUTOFREE =
		sentence("./mvbench plot gaps --figures=%s --db=%s/run.db --out=%s/gaps.svg && "
			 "grep -c 'periodic' %s/gaps.svg",
			 folder, folder, folder, folder);
	int status = command_output(plot, text, sizeof text);
	ck_assert_msg(status == 0, "%s: %s", plot, text);
}

/* 50 steps an epoch, every fourth ends in a synchronisation; then X falls from 4 to 1. */
TEST(periodic_reports_are_stored_and_shown)
{
	char text[8192];
	int status;
	record_only("--workload=softmax --strategy=periodic --workers=2 --batch=24 --epochs=2 "
		    "--sync-every=4 --periodic.schedule=down");
	expect_row("SELECT epoch, name, printf('%.2f', value), reports FROM epoch_value",
		   "1,interval,4.00,24\r\n2,interval,1.04,100\r\n");
	char *show AUTOFREE = sentence("./mvbench show --db=%s/run.db 2>&1", folder);
	status = command_output(show, text, sizeof text);
	ck_assert_msg(status == 0 && strstr(text, "reported") && strstr(text, "interval 1.04"),
		      "%s", text);
	for (int runs = 0; runs < 2; runs++) {
		char *table AUTOFREE = sentence("./mvbench table --db=%s/run.db %s 2>&1", folder,
						runs ? "--runs" : "");
		status = command_output(table, text, sizeof text);
		ck_assert_msg(status == 0 && strstr(text, "reported") &&
				      strstr(text, "interval 1.04"),
			      "%s\n%s", table, text);
	}
	if (!lacks_program("gnuplot"))
		draw_intervals();
	record_run("--workload=softmax --strategy=allreduce --workers=2 --batch=24 --epochs=1");
	status = command_output(show, text, sizeof text);
	ck_assert_msg(status == 0 && !strstr(text, "reported"), "%s", text);
	/* its interval is in its name */
	record_run("--workload=softmax --strategy=periodic --workers=2 --batch=24 --epochs=1 "
		   "--sync-every=4");
	char *fixed AUTOFREE =
		sentence("./mvbench table --db=%s/run.db --where='id = 3' 2>&1", folder);
	status = command_output(fixed, text, sizeof text);
	ck_assert_msg(status == 0 && strstr(text, "X=4") && !strstr(text, "reported"), "%s", text);
}

/* ---- comm ---- */

/* Values and bytes equal those of a real run (tests/tools/comm). */
TEST(simulated_reductions_support_all_kinds, 2, 5)
{
	const char *how = words(MLP "--strategy=gossip --batch=%d --epochs=1", 48 / _i);
	struct result r = probed_ok("kinds", _i, true, how);
	struct result none = probed_ok("none", _i, true, how);
	ck_assert_double_eq(r.bytes - none.bytes, 50 * 3 * 2 * (_i - 1) * 4.0 * 64);
}

/* A gather of equal lengths needs one round of messages less; virtual time shows it exactly. */
TEST(gather_of_equal_lengths_takes_less_time)
{
	const char *how = MLP "--strategy=gossip --batch=12 --epochs=1";
	double took[2], bytes[2];
	static const char *const probe[] = {"gather", "gather_equal"};
	for (int i = 0; i < 2; i++) {
		struct result r = probed_ok(probe[i], 4, true, how);
		const char *said = strstr(r.output, "communicated ");
		while (said && strstr(said + 1, "communicated "))
			said = strstr(said + 1, "communicated ");
		ck_assert_msg(said, "%s", r.output);
		took[i] = strtod(said + 13, NULL);
		bytes[i] = r.bytes;
	}
	ck_assert_double_eq(bytes[0], bytes[1]);
	/* 50 times at least two latencies, because log2 of 4 workers is 2 */
	ck_assert_msg(took[1] < took[0] - 50 * 2 * 1e-5, "%g s, of equal lengths %g s", took[0],
		      took[1]);
}

/* ---- Promises ---- */

static const struct {
	const char *probe, *words, *says;
	int workers;
	bool always; /* also without --check-promises */
} wrong[] = {
	{"wrong_local", "--strategy=allreduce",
	 "strategy allreduce: .local is set, but its step, with optimizer sgd, communicates", 2,
	 false},
	{"wrong_local_state", "--strategy=serial",
	 "strategy serial: .local is set, but its step, with optimizer sgd, changes the strategy's "
	 "state",
	 1, false},
	{"wrong_local_host", "--strategy=serial",
	 "strategy serial: .local is set, but its step, with optimizer sgd, reads or writes "
	 "vectors "
	 "on the host",
	 1, false},
	{"wrong_average", "--strategy=gossip --sync-every=3",
	 "strategy gossip: .average is not set, but after epoch 1 trainers have different models",
	 3, false},
	{"wrong_wants_layer", "--strategy=allreduce", "only for layers that wants_layer names", 2,
	 false},
	{"wrong_meets", "--strategy=periodic", "strategy periodic: .meets is MEETS_NEVER", 2, true},
	{"wrong_interval", "--strategy=allreduce",
	 "strategy allreduce reads --sync-every, but its epoch_time has no X", 2, true},
	{"wrong_host", "--strategy=serial", "workload mlp: .host is not set", 1, false},
	{"wrong_layers", "--strategy=serial", "workload mlp: its gradient calls layer_ready", 1,
	 false},
};

/* The message names the plug-in and the flag. Without --check-promises only what costs nothing is
 * checked. */
TEST(broken_promise_is_found, COUNT(wrong))
{
	const char *how = words(MLP "--epochs=1 --batch=48 %s", wrong[_i].words);
	for (int simulated = 0; simulated < 2; simulated++) {
		struct result r = probed(wrong[_i].probe, wrong[_i].workers, simulated,
					 words("%s --check-promises", how));
		ck_assert_msg(r.status != 0 && strstr(r.output, wrong[_i].says),
			      "%s%s: status %d, without \"%s\":\n%s", wrong[_i].probe,
			      simulated ? ", simulated" : "", r.status, wrong[_i].says, r.output);
	}
	struct result r = probed(wrong[_i].probe, wrong[_i].workers, false, how);
	ck_assert_msg((r.status != 0) == wrong[_i].always &&
			      (r.status == 0 || strstr(r.output, wrong[_i].says)),
		      "%s: status %d: %s", wrong[_i].probe, r.status, r.output);
}

TEST(tables_without_terms_are_found)
{
	struct result r = probed("no_terms", 2, false, MLP "--strategy=asgd");
	ck_assert_msg(r.status != 0 && strstr(r.output, "asgd has tables, but no .terms"),
		      "status %d\n%s", r.status, r.output);
}

/* The plug-in that breaks the promise of wants_layer is correct if it wants all layers. */
TEST(layer_sums_are_allowed_if_all_layers_are_wanted)
{
	const char *how = MLP "--batch=24 --strategy=allreduce --check-promises";
	for (int simulated = 0; simulated < 2; simulated++)
		probed_ok("right_wants_layer", 2, simulated, how);
}

/* All strategies of the tree keep theirs, also without a barrier after every epoch and with few
 * rows. Checking changes no result. */
TEST(all_strategies_keep_their_promises, LISTED(strategies))
{
	const struct strategy *s = strategies[_i];
	const char *how = words("--workload=mlp --mlp.hidden=32 --epochs=3 --batch=24 "
				"--barrier-every=2 --sync-every=2 --strategy=%s --workers=%d",
				s->plugin.name, strcmp(s->plugin.name, "serial") ? 2 : 1);
	record_only(how);
	record_run(words("%s --check-promises", how));
	record_run(words("%s --check-promises --platform=sim " SIMULATED, how));
	expect_row(arrival_decides(s) || s->terms
			   ? "SELECT count(*) FROM run"
			   : "SELECT count(DISTINCT model_hash) + 2 FROM run "
			     "WHERE platform = 'mpi'",
		   "3\r\n");
}

TEST(all_workloads_keep_their_promises, LISTED(workloads))
{
	const struct workload *w = workloads[_i];
	struct data train, test;
	struct run run = {.data_dir = folder};
	char *lacks AUTOFREE = w->dataset->probe(&run, &train, &test);
	if (lacks)
		skipped(lacks);
	else
		record_run(words("--workload=%s --epochs=1 --batch=200 --train-rows=1200 "
				 "--strategy=serial --check-promises",
				 w->plugin.name));
}
