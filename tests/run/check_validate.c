/*
 * check_validate.c - simulated runs compared with real ones: the arithmetic of the view
 * `validation` on made runs, the report and its exit status, and one validation from start to end.
 */
#include "results/run/cells.h"
#include "results/run/run.h"
#include "runtime/config/clusters.h"
#include "sim/validate.h"
#include "tests/made.h"
#include "tests/suites.h"
#include "tests/trained.h"

#include <math.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Made runs ----------------------------------------------------------- */

static sqlite3 *db;

#define sql(text) made_sql(db, text)

static void set_up(void)
{
	folder_new();
	db = made_open("run.db");
}

static void tear_down(void)
{
	sqlite3_close(db);
	folder_free();
}

struct made {
	const char *strategy;
	int workers, sync_every;
	double seconds; /* of its only epoch: a quarter is communication, 0.05 s is waiting */
	double loss;
};

/* Returns its id. Each run starts later than those before it. */
static int64_t add(bool simulated, struct made m)
{
	made_format(
		db,
		INSERT_RUN(", sim_platform, label, oversubscribed, host, started",
			   "'done', %Q, 'mlp', %Q, %d, 1, 1, 32, %d, %Q, 0, %Q, 'validate', 0, "
			   "'here', format('2026-01-01T00:00:%%02dZ', (SELECT count(*) FROM run))"),
		simulated ? "sim" : "real", m.strategy, m.workers, m.sync_every,
		simulated ? "sim" : "mpi", simulated ? "local" : NULL);
	int64_t id = sqlite3_last_insert_rowid(db);
	made_format(db,
		    "INSERT INTO epoch (run_id, epoch, seconds, compute_s, comm_s,"
		    " wait_s, test_loss) VALUES (%lld, 0, NULL, NULL, NULL, NULL, 2.3),"
		    " (%lld, 1, %!.17g, 0.1, %!.17g, 0.05, %!.17g)",
		    id, id, m.seconds, m.seconds / 4, m.loss);
	return id;
}

static void add_pushes(int64_t run, int staleness, int pushes)
{
	made_format(db, "INSERT INTO staleness VALUES (%lld, 1, %d, %d)", run, staleness, pushes);
}

/* ---- The view ------------------------------------------------------------ */

CASE("report", .set_up = set_up, .tear_down = tear_down);

TEST(validation_errors_compare_medians)
{
	const struct made cell = {"asgd", 2, 4, 1.0, 0.5};
	int64_t real[3];
	const double seconds[3] = {0.8, 1.0, 1.6}, loss[3] = {0.4, 0.6, 0.5};
	for (int i = 0; i < 3; i++) {
		struct made m = cell;
		m.seconds = seconds[i];
		m.loss = loss[i];
		real[i] = add(false, m);
	}
	int64_t old = add(true, (struct made){"asgd", 2, 4, 9.0, 9.0}); /* a newer one follows */
	int64_t simulated = add(true, (struct made){"asgd", 2, 4, 1.25, 0.55});
	/* real: 10 + 20 + 10 at 0, 10 at 1, 50 at 136: shares 0.4, 0.1, 0.5; simulated 0.2, 0.8 */
	add_pushes(real[0], 0, 10);
	add_pushes(real[1], 0, 20);
	add_pushes(real[1], 1, 10);
	add_pushes(real[2], 0, 10);
	add_pushes(real[2], 136, 50);
	add_pushes(old, 7, 1000);
	add_pushes(simulated, 0, 1);
	add_pushes(simulated, 1, 4);
	expect_row("SELECT n, config, real_s, real_low, real_high, simulated_s,"
		   " round(time_error, 12), round(real_share, 12), round(simulated_share, 12),"
		   " round(share_error, 12), round(staleness_distance, 12), real_loss,"
		   " simulated_loss, round(loss_error, 12) FROM validation",
		   /* shares: 0.25 + 0.05 / 1, and / 1.25; distance (0.2 + 0.7 + 0.5) / 2 */
		   "3,asgd 2w X=4,1,0.8,1.6,1.25,0.25,0.3,0.29,-0.01,0.7,0.5,0.55,0.1\r\n");
	/* an even number: the mean of the middle two; the others do not count */
	add(false, (struct made){"asgd", 2, 4, 1.2, 0.5});
	expect_row("SELECT n, round(real_s, 12), round(time_error, 12) FROM validation",
		   "4,1.1,0.136363636364\r\n");
}

/* A change to one of the four real runs, and how many then remain. */
static const struct {
	const char *change;
	int left;
} others[] = {
	{"UPDATE run SET status = 'failed' WHERE id = 1", 3},
	{"UPDATE run SET status = 'diverged' WHERE id = 1", 3},
	{"UPDATE run SET label = 'mine' WHERE id = 1", 3},
	{"UPDATE run SET seed = 2 WHERE id = 1", 3},
	{"UPDATE run SET lr = 0.2 WHERE id = 1", 3},
	{"UPDATE run SET table_home = 'onesided' WHERE id = 1", 3},
	{"INSERT INTO run_option VALUES (1, 'strategy', 'damp', '1')", 3},
	{"UPDATE run SET host = 'there' WHERE id = 1", 3},
	{"UPDATE run SET host = 'there' WHERE id = 4", 1},
	{"UPDATE run SET hostfile = 'machines' WHERE id = 1", 4},
	{"UPDATE run SET placement = '1@0,1@1' WHERE id = 1", 3},
	{"UPDATE run SET network = '1 Gbit/s' WHERE id = 1", 3},
	{"UPDATE run SET transport = 'ipc' WHERE id = 1", 4},
	{"UPDATE run SET git_commit = 'older' WHERE id = 1", 4},
	/* a calibration between the second and the third; and one after all of them */
	{"UPDATE run SET calibration_id = 1 WHERE platform = 'sim'", 2},
	{"UPDATE run SET calibration_id = 2 WHERE platform = 'sim'", 4},
};

TEST(only_equal_cells_are_compared, COUNT(others))
{
	char *left AUTOFREE = sentence("%d\r\n", others[_i].left);
	for (int i = 0; i < 4; i++)
		add(false, (struct made){"asgd", 2, 1, 1 + 0.1 * i, 0.5});
	add(true, (struct made){"asgd", 2, 1, 1, 0.5});
	sql("INSERT INTO calibration (id, made, device, precision, threads, workload,"
	    " workload_options, batch, params, workers) VALUES"
	    " (1, '2026-01-01T00:00:02Z', 'cpu', 'float32', 1, 'mlp', '', 32, 1, 1),"
	    " (2, '2026-01-01T00:00:09Z', 'cpu', 'float32', 1, 'mlp', '', 32, 1, 1)");
	expect_row("SELECT n FROM validation", "4\r\n");
	sql(others[_i].change);
	expect_row("SELECT n FROM validation", left);
}

TEST(missing_values_are_null)
{
	int64_t id;
	/* one worker does not communicate, and its pushes have no staleness */
	id = add(false, (struct made){"asgd", 1, 1, 1, 0.5});
	add_pushes(id, 0, 10);
	id = add(true, (struct made){"asgd", 1, 1, 1, 0.5});
	add_pushes(id, 0, 10);
	expect_row("SELECT n, real_share, simulated_share, share_error, staleness_distance"
		   " FROM validation",
		   "1,,,,\r\n");
	/* pushes on one side only, and no loss */
	sql("UPDATE run SET workers = 2; DELETE FROM staleness WHERE run_id = 1;"
	    "UPDATE epoch SET test_loss = NULL WHERE run_id = 2");
	expect_row("SELECT round(real_share, 12), staleness_distance, real_loss, loss_error"
		   " FROM validation",
		   "0.3,,0.5,\r\n");
}

/* ---- The report ---------------------------------------------------------- */

static void expect_report(const char *words, int want, const char *says)
{
	char *command AUTOFREE =
		sentence("ASAN_OPTIONS=detect_leaks=0 ./mvbench validate --only=report "
			 "--db=%s/run.db %s 2>&1",
			 folder, words);
	expect_command(want, command, says);
}

/* Ten cells with errors of 1, 2, ..., 10 %; every other cell is too fast. */
static void add_ten(void)
{
	for (int i = 1; i <= 10; i++) {
		double error = i % 2 ? 0.01 * i : -0.01 * i;
		add(false, (struct made){"asgd", 2, i, 1, 0.5});
		add(true, (struct made){"asgd", 2, i, 1 + error, 0.5 * (1 + error)});
	}
}

TEST(percentiles_are_of_absolute_errors)
{
	add_ten();
	expect_report("--format=json --threshold-median=6 --threshold-p90=10", EXIT_OK, "");
	double median, p90, worst;
	char *line = strstr(
		output, "{\"measure\": \"epoch_seconds\", \"ranks\": \"several\", \"cells\": 10, ");
	ck_assert_msg(line, "%s", output);
	ck_assert_int_eq(sscanf(strstr(line, "\"median\""),
				"\"median\": %lf, \"p90\": %lf, \"worst\": %lf", &median, &p90,
				&worst),
			 3);
	ck_assert_double_eq_tol(median, 0.055, 1e-12);
	ck_assert_double_eq_tol(p90, 0.09, 1e-12);
	ck_assert_double_eq_tol(worst, 0.10, 1e-12);
	ck_assert_ptr_nonnull(strstr(line, "\"worst_cell\": \"mlp asgd 2w X=10\"}"));
	ck_assert_ptr_nonnull(strstr(
		output, "{\"measure\": \"test_loss\", \"ranks\": \"several\", \"cells\": 10, "));
	ck_assert_ptr_nonnull(strstr(output, "{\"cell\": \"mlp asgd 2w X=4\", "));

	expect_report("", EXIT_FAILED, "");
	ck_assert_msg(strstr(output, "mlp asgd 2w X=4   1       1         -   0.96     -4.0  "),
		      "%s", output);
	ck_assert_msg(
		strstr(output,
		       "epoch time [%]                several     10    5.50             9.00  "
		       "10.00  mlp asgd 2w X=10\n"),
		"%s", output);
	char *words AUTOFREE = sentence("--format=csv --threshold-median=6 --out=%s/cells.csv",
					folder),
		    *lines AUTOFREE = sentence("wc -l <%s/cells.csv", folder);
	expect_report(words, EXIT_OK, "error of ");
	command_output(lines, output, sizeof output);
	ck_assert_str_eq(output, "11\n");
}

static const struct {
	const char *thresholds;
	int status;
	const char *says, *not ;
} judged[] = {
	{"--threshold-median=5.51 --threshold-p90=9.01", EXIT_OK, "", "past"},
	{"--threshold-median=5.49 --threshold-p90=9.01", EXIT_FAILED,
	 "the median error of epoch times, 5.50 %, is above --threshold-median=5.49", "p90"},
	{"--threshold-median=5.51 --threshold-p90=8.99", EXIT_FAILED,
	 "the errors of epoch times, 9.00 %, is above --threshold-p90=8.99", "median="},
	{"", EXIT_FAILED, "is above --threshold-median=5\n", "p90"},
};

TEST(thresholds_decide_the_status, COUNT(judged))
{
	add_ten();
	expect_report(judged[_i].thresholds, judged[_i].status, judged[_i].says);
	ck_assert_msg(!strstr(output, judged[_i].not ), "%s: %s", judged[_i].thresholds, output);
}

static void set_communication(int64_t run, double seconds)
{
	made_format(
		db,
		"UPDATE epoch SET comm_s = %!.17g, wait_s = 0 WHERE run_id = %lld AND epoch = 1",
		seconds, run);
}

/* Ten cells whose epochs are right within 2 %, and whose communication is wrong by 2, 4, ..., 20 %.
 * In one more it is 4 % of the epoch, and half of it is missing: that cell does not count. */
TEST(errors_of_communication_are_relative_to_itself)
{
	for (int i = 1; i <= 11; i++) {
		set_communication(add(false, (struct made){"asgd", 2, i, 1, 0.5}),
				  i <= 10 ? 0.15 : 0.04);
		set_communication(add(true, (struct made){"asgd", 2, i, 0.98, 0.5}),
				  i <= 10 ? 0.15 * (1 - 0.02 * i) : 0.02);
	}
	sql("UPDATE run SET status = status");
	expect_row("SELECT real_comm_s, round(simulated_comm_s, 12), round(comm_error, 12) FROM "
		   "validation WHERE sync_every = 5",
		   "0.15,0.135,-0.1\r\n");
	expect_report("--threshold-comm-median=11.1 --threshold-comm-p90=18.1", EXIT_OK, "");
	ck_assert_msg(strstr(output, "communication time [%]        several     10   11.00"), "%s",
		      output);
	expect_report("", EXIT_FAILED,
		      "the median error of communication times, 11.00 %, is above "
		      "--threshold-comm-median=10");
	expect_report("--threshold-comm-median=11.1 --threshold-comm-p90=17.9", EXIT_FAILED,
		      "the errors of communication times, 18.00 %, is above "
		      "--threshold-comm-p90=17.9");
}

/* What is wrong about an epoch: its computation, or its communication. */
TEST(errors_of_computation_are_compared_apart)
{
	for (int i = 0; i < 3; i++)
		add(false, (struct made){"asgd", 2, 1, 1, 0.5});
	int64_t simulated = add(true, (struct made){"asgd", 2, 1, 1, 0.5});
	sql("UPDATE epoch SET compute_s = 0.5 WHERE epoch = 1");
	made_format(db, "UPDATE epoch SET compute_s = 0.625 WHERE epoch = 1 AND run_id = %lld",
		    simulated);
	sql("UPDATE run SET status = status");
	expect_row("SELECT time_error, round(comm_error, 12), real_compute_s, "
		   "simulated_compute_s, compute_error FROM validation",
		   "0,0,0.5,0.625,0.25\r\n");
	expect_report("--format=json", EXIT_OK, "\"compute_error\": 0.25");
}

TEST(oversubscribed_cells_are_listed_apart)
{
	add(false, (struct made){"asgd", 2, 1, 1, 0.5});
	add(true, (struct made){"asgd", 2, 1, 1.01, 0.5});
	add(false, (struct made){"asgd", 4, 1, 1, 0.5});
	add(true, (struct made){"asgd", 4, 1, 3, 0.5});
	expect_report("", EXIT_FAILED, "");
	sql("UPDATE run SET oversubscribed = 1 WHERE workers = 4 AND platform = 'mpi'");
	expect_report("", EXIT_OK, "");
	const char *apart = strstr(output, "\nOversubscribed: "),
		   *four = strstr(output, "mlp asgd 4w ");
	const char *summary = strstr(output, "\nerror of ");
	ck_assert_msg(apart && four && summary && apart < four && four < summary, "%s", output);
	ck_assert_msg(strstr(output, "mlp asgd 2w ") < apart, "%s", output);
	ck_assert_msg(!strstr(apart, "mlp asgd 2w  1 "), "%s", output);
	ck_assert_msg(strstr(summary, "epoch time [%]                several      1    1.00 "),
		      "%s", output);
	expect_report("--format=csv", EXIT_OK, "mlp asgd 4w,mlp,asgd,4,0,1,32,1,1,1,");

	sql("UPDATE run SET oversubscribed = 1 WHERE platform = 'mpi'");
	expect_report("", EXIT_OK, "");
	ck_assert_ptr_nonnull(strstr(output, "every cell is oversubscribed: no threshold applies"));
	ck_assert_ptr_null(strstr(output, "error of"));
}

/* A real run is 20 % off the median: its cell can be neither right nor wrong. */
TEST(noisy_cells_are_marked_and_excluded)
{
	const double seconds[3] = {0.98, 1.0, 1.2};
	for (int x = 1; x <= 3; x++) {
		for (int i = 0; i < 3; i++)
			add(false, (struct made){"asgd", 2, x, x == 1 ? seconds[i] : 1, 0.5});
		add(true, (struct made){"asgd", 2, x, x == 1 ? 1.5 : 1.01, 0.5});
	}
	expect_report("", EXIT_OK, "noisy\n");
	ck_assert_msg(strstr(output, "1 of 3 cells are excluded"), "%s", output);
	ck_assert_msg(strstr(output, "epoch time [%]                several      2    1.00 "), "%s",
		      output);
	expect_report("--threshold-p90=20.1", EXIT_FAILED,
		      "several      3    1.00            50.00");
	/* most cells: no error is reported */
	sql("DELETE FROM run WHERE sync_every = 3");
	add(false, (struct made){"asgd", 2, 4, 1, 0.5});
	add(false, (struct made){"asgd", 2, 4, 2, 0.5});
	add(true, (struct made){"asgd", 2, 4, 1.5, 0.5});
	expect_report("", EXIT_FAILED, "2 of 3 cells are excluded");
}

/* The real runs agree, but others used a worker's core for 8, 6 and 4 % of the time. */
TEST(busy_cells_are_marked_and_excluded)
{
	for (int x = 1; x <= 5; x++) {
		for (int i = 0; i < 3; i++)
			add(false, (struct made){"asgd", 2, x, 1, 0.5});
		add(true, (struct made){"asgd", 2, x, x <= 2 ? 1.5 : 1.01, 0.5});
	}
#define SET_OF_REAL(figures, runs) \
	"UPDATE epoch SET " figures \
	" WHERE run_id IN (SELECT id FROM run WHERE platform = 'mpi' " runs ");"
	sql(SET_OF_REAL("run_delay_s = 0, steal_s = 0", "") SET_OF_REAL("run_delay_s = 0.08",
									"AND sync_every = 1")
		    SET_OF_REAL("steal_s = 0.06", "AND sync_every = 2")
			    SET_OF_REAL("run_delay_s = 0.04",
					"AND sync_every = 3") "UPDATE run SET status = status");
	expect_report("", EXIT_OK, "busy\n");
	ck_assert_msg(strstr(output, "2 of 5 cells are excluded"), "%s", output);
	ck_assert_msg(strstr(output, "epoch time [%]                several      3    1.00 "), "%s",
		      output);
	expect_report("--threshold-p90=17 --threshold-median=100", EXIT_FAILED, "several      5 ");
}

/* Steps took 1 ms before the runs and 1.3 ms after them: 13 % off the mean. */
TEST(drifting_machine_makes_cells_noisy)
{
	for (int x = 1; x <= 3; x++) {
		add(false, (struct made){"asgd", 2, x, 1, 0.5});
		add(true, (struct made){"asgd", 2, x, x == 1 ? 1.5 : 1.01, 0.5});
	}
	sql("INSERT INTO calibration (id, made, device, precision, threads, workload, "
	    "workload_options, batch, params, workers) VALUES (1, '', 'cpu', 'float32', 1, 'mlp', "
	    "'', 32, 1, 2), (2, '', 'cpu', 'float32', 1, 'mlp', '', 32, 1, 2)");
	sql("INSERT INTO calibration_point (calibration_id, name, x, value) VALUES (1, 'step', 16, "
	    "0.0008), (1, 'step', 47, 0.0012), (1, 'step', 63.5, 9), (1, 'step', 80, 0.0013), "
	    "(2, 'step', 31, 0.001), (2, 'step', 95, 0.0012)");
	sql("UPDATE run SET calibration_id = iif(sync_every = 1, 1, 2) WHERE platform = 'sim'");
	expect_report("", EXIT_OK, "1 of 3 cells are excluded");
	expect_report("--threshold-p90=13.1", EXIT_FAILED, "");
	ck_assert_msg(!strstr(output, "noisy"), "%s", output);
}

/* Correct cells of one rank do not hide wrong cells of several. */
TEST(cells_of_one_worker_are_compared_apart)
{
	for (int x = 1; x <= 20; x++) {
		add(false, (struct made){"asgd", 1, x, 1, 0.5});
		add(true, (struct made){"asgd", 1, x, 1, 0.5});
	}
	add(false, (struct made){"asgd", 2, 1, 1, 0.5});
	add(true, (struct made){"asgd", 2, 1, 1.06, 0.5});
	expect_report("", EXIT_FAILED, "the median error of epoch times, 6.00 %, is above");
	ck_assert_msg(strstr(output, "epoch time [%]                one         20    0.00 "), "%s",
		      output);
}

/* ---- Randomly drawn cells ------------------------------------------------ */

TEST(random_cells_cover_all_strategies)
{
	enum { CELLS = 400 };
	char *text AUTOFREE = random_cells(CELLS, 7, 0),
		   *again AUTOFREE = random_cells(CELLS, 7, 0);
	char *other AUTOFREE = random_cells(CELLS, 8, 0);
	int cells = 0, batch, x, least = 1 << 30, most = 0, longest = 0;
	ck_assert_str_eq(text, again);
	ck_assert_str_ne(text, other);
	for (const char *at = text; (at = strstr(at, "\nbatch = ")); at++, cells++) {
		ck_assert_int_eq(sscanf(at, "\nbatch = %d sync-every = %d", &batch, &x), 2);
		least = batch < least ? batch : least;
		most = batch > most ? batch : most;
		longest = x > longest ? x : longest;
		ck_assert_int_ge(x, 1);
	}
	ck_assert_int_eq(cells, CELLS);
	ck_assert_msg(least >= 20 && least < 25 && most <= 300 && most > 250 && longest > 15 &&
			      longest <= 20,
		      "batches of %d to %d rows, intervals of up to %d", least, most, longest);
	for (size_t i = 0; strategies[i]; i++) {
		char *line AUTOFREE =
			sentence("strategy = %s\nworkers = %d\n", strategies[i]->plugin.name,
				 strategies[i]->local ? 1 : 2);
		ck_assert_msg(strstr(text, line), "no %s", line);
	}
	static const char *const drawn[] = {
		"workers = 3\n",    "workers = 4\n",    "step-time = 10ms\n",
		"overlap = true\n", "overlap = next\n", "workload = resnet\n",
		"workload = gpt\n", "servers = 1\n",    "codec = "};
	for (size_t i = 0; i < COUNT(drawn); i++)
		ck_assert_msg(strstr(text, drawn[i]), "no %s", drawn[i]);
	for (size_t i = 0; optimizers[i]; i++) {
		char *line AUTOFREE = sentence("optimizer = %s\n", optimizers[i]->plugin.name);
		ck_assert_msg(strstr(text, line), "no %s", line);
	}
	/* at this rate no test loss changes, and an equal one says nothing */
	ck_assert(!strstr(text, "\nlr = 0.001\n"));
	folder_text("drawn.ini", text);
	char *path AUTOFREE = sentence("%s/drawn.ini", folder);
	struct sweep s = {.cell = NULL};
	char *wrong = sweep_read(path, NULL, 0, &s, NULL, true);
	if (!wrong)
		wrong = sweep_plan(path, &s);
	ck_assert_msg(!wrong, "%s", wrong); /* each can run */
	sweep_free(&s);
}

static int times(const char *text, const char *what)
{
	int n = 0;
	for (const char *at = text; (at = strstr(at, what)); at++)
		n++;
	return n;
}

static const struct {
	const char *name;
	size_t cells;
	bool between_hosts;
} job_files[] = {
	{"validate_lab", 63, true}, {"validate_overlap", 18, true}, {"validate_parts", 12, false}};

TEST(job_files_of_validate_have_their_cells, COUNT(job_files))
{
	char *file AUTOFREE = sentence("workloads/sweeps/%s.ini", job_files[_i].name),
		   *path AUTOFREE = installed_path(file);
	struct sweep s = {.cell = NULL};
	char *wrong AUTOFREE = sweep_read(path, NULL, 0, &s, NULL, true);
	ck_assert_msg(!wrong, "%s", wrong);
	ck_assert_uint_eq(s.cells, job_files[_i].cells);
	for (size_t i = 0; i < s.cells; i++)
		ck_assert_msg(!*s.cell[i].config.harness.lab_rate != job_files[_i].between_hosts,
			      "%s: a rate, or none", s.cell[i].what);
	if (!job_files[_i].between_hosts)
		wrong = sweep_plan(path, &s);
	ck_assert_msg(!wrong, "%s", wrong); /* each can run */
	sweep_free(&s);
}

/* In a lab every cell has several workers, steps of a given time, and a rate. */
TEST(random_cells_of_a_lab_have_rates)
{
	enum { CELLS = 200 };
	char *text AUTOFREE = random_cells(CELLS, 7, 3), *pair AUTOFREE = random_cells(CELLS, 7, 2);
	ck_assert_int_eq(times(text, "\nlab.rate = "), CELLS);
	ck_assert_int_eq(times(text, "\nstep-time = 20ms\n"), CELLS);
	ck_assert_int_eq(times(text, "\nworkers = 2\n") + times(text, "\nworkers = 3\n"), CELLS);
	ck_assert_int_gt(times(text, "\nworkers = 3\n"), CELLS / 4);
	ck_assert_int_eq(times(pair, "\nworkers = 2\n"), CELLS);
	static const char *const rate[] = {"10mbit", "50mbit", "100mbit", "1gbit"};
	for (size_t i = 0; i < COUNT(rate); i++) {
		char *line AUTOFREE = sentence("lab.rate = %s\n", rate[i]);
		int n = times(text, line);
		ck_assert_msg(n > CELLS / 20 && n < CELLS / 4, "%d cells with %s", n, line);
	}
}

/* Of the time of a cell of a lab: its bytes without a codec. A sum of two workers, and a push with
 * its pull, carry each float twice. */
static double share_of(const char *cell)
{
	char workload[32], rate[32];
	int every;
	ck_assert_int_eq(sscanf(cell, "workload = %31s", workload), 1);
	ck_assert_int_eq(sscanf(strstr(cell, "sync-every = "), "sync-every = %d", &every), 1);
	ck_assert_int_eq(sscanf(strstr(cell, "lab.rate = "), "lab.rate = %31s", rate), 1);
	const double params = strcmp(workload, "mlp") == 0 ? 101770 : 7850,
		     wire_s = 2 * 32 * params / bit_rate(rate);
	return wire_s / (wire_s + 0.02 * every);
}

TEST(random_cells_of_a_lab_communicate_in_half_of_them)
{
	enum { CELLS = 200 };
	char *text AUTOFREE = random_cells(CELLS, 7, 4);
	int talk = 0, most = 0;
	for (const char *at = text; (at = strstr(at, "workload = ")); at++) {
		const double share = share_of(at);
		talk += share >= 0.05;
		most += share > 0.5;
	}
	ck_assert_msg(talk >= CELLS / 2 && talk < CELLS && most > 0 && most < CELLS / 2,
		      "%d of %d cells communicate for 5 %% or more, %d for most of the time", talk,
		      CELLS, most);
	ck_assert_int_gt(times(text, "\nworkers = 4\n"), CELLS / 6);
}

TEST(names_tell_cells_apart)
{
	for (int i = 0; i < 2; i++) {
		add(false, (struct made){"asgd", 2, 1, 1, 0.5});
		add(true, (struct made){"asgd", 2, 1, 1, 0.5});
		sql(i ? "" : "UPDATE run SET batch = 64, seed = 7");
	}
	add(false, (struct made){"asgd", 2, 2, 1, 0.5});
	add(true, (struct made){"asgd", 2, 2, 1, 0.5});
	expect_report("", EXIT_OK, "mlp asgd 2w batch=32 seed=1  ");
	ck_assert_msg(strstr(output, "mlp asgd 2w batch=64 seed=7  "), "%s", output);
	ck_assert_msg(strstr(output, "mlp asgd 2w X=2  "), "%s", output);
}

TEST(missing_cells_are_reported)
{
	expect_report("", EXIT_USER,
		      "no cell with the label \"validate\" that was run both real and "
		      "simulated: mvbench validate --db=");
	add_ten();
	expect_report("--label=other", EXIT_USER, "no cell with the label \"other\"");
	/* a cell that was never run is asked for, and one that failed */
	sql("UPDATE run SET config_hash = 'x'");
	expect_report("--workload=mlp --workers=1", EXIT_USER, "");
}

/* ---- From start to end --------------------------------------------------- */

static int mvbench(const char *words)
{
	char *command AUTOFREE = sentence("ASAN_OPTIONS=detect_leaks=0 ./mvbench %s --db=%s/run.db "
					  "--data-dir=%s 2>&1",
					  words, folder, folder);
	return command_output(command, output, sizeof output);
}

static const char job[] = "[defaults]\n"
			  "workload = softmax\n"
			  "batch = 32\n"
			  "epochs = 1\n"
			  "[a]\n"
			  "strategy = asgd\n"
			  "sync-every = 4\n"
			  "workers = 1, 2\n";

static const char host[] =
	"<?xml version='1.0'?>\n"
	"<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
	"<platform version=\"4.1\"><zone id=\"all\" routing=\"Full\">\n"
	"<host id=\"here\" speed=\"1Gf\" core=\"2\"/>\n"
	"<link id=\"memory\" bandwidth=\"5GBps\" latency=\"1us\"/>\n"
	"<route src=\"here\" dst=\"here\"><link_ctn id=\"memory\"/></route></zone></platform>\n";

static void make_data(void)
{
	folder_new();
	idx_put_set(600, 100, false, '-');
	folder_text("job.ini", job);
	folder_text("host.xml", host);
}

#define ANY_ERROR \
	"--threshold-median=1e6 --threshold-p90=1e6 --threshold-comm-median=1e6 " \
	"--threshold-comm-p90=1e6"

/* Runs validate on the job file, simulated on the host, with more words. */
static int validate(const char *words)
{
	char *all AUTOFREE =
		sentence("validate %s/job.ini --sim.platform=%s/host.xml "
			 "--sim.step-time=40us --sim.update-time=20us " ANY_ERROR " %s",
			 folder, folder, words);
	return mvbench(all);
}

CASE("runs", .limit = 120, .set_up = make_data, .tear_down = folder_free);

TEST(cells_run_real_and_simulated)
{
	int status = validate("--repetitions=2");
	ck_assert_msg(status == EXIT_OK, "status %d: %s", status, output);
	ck_assert_msg(strstr(output, "1/6 simulated: softmax, asgd, 1 worker: "), "%s", output);
	ck_assert_msg(strstr(output, "6/6 real, round 2: softmax, asgd, 1 worker: "), "%s", output);
	ck_assert_msg(strstr(output, "softmax asgd X=4     2  "), "%s", output);
	expect_row("SELECT group_concat(platform || workers || label || status, ' ') FROM run",
		   "sim1validatedone sim2validatedone mpi1validatedone mpi2validatedone "
		   "mpi2validatedone mpi1validatedone\r\n");
	expect_row("SELECT count(*), sum(n), sum(staleness_distance BETWEEN 0 AND 1),"
		   " sum(time_error IS NOT NULL), sum(loss_error IS NOT NULL),"
		   " count(DISTINCT config_hash) FROM validation",
		   "2,4,1,2,2,2\r\n");

	/* the same from the recorded runs; with the cells named, and not; and above a threshold */
	ck_assert_int_eq(validate("--only=report"), EXIT_OK);
	expect_report("--threshold-median=1e-9 --threshold-p90=1e6", EXIT_FAILED,
		      "is above --threshold-median=1e-09");

	/* a new simulation is compared with the existing real runs */
	ck_assert_int_eq(validate("--only=sim --sim.step-time=80us"), EXIT_OK);
	expect_row("SELECT min(simulated_id), sum(n) FROM validation", "7,4\r\n");
	expect_row("SELECT count(*) FROM run WHERE platform = 'mpi'", "4\r\n");

	/* cells that cannot be compared are named */
	ck_assert_int_eq(validate("--only=report --workers=1,3"), EXIT_FAILED);
	ck_assert_msg(strstr(output, "softmax, asgd, 3 workers  not run  not run"), "%s", output);
	ck_assert_msg(strstr(output, "1 cell could not be compared"), "%s", output);
}

/* Each cell of a job is run once, real and simulated. Calibration starts from the first cell,
 * whatever it is. */
static void calibrate_and_run(const char *sections, int cells)
{
	char want[32];
	const char *batch = strstr(sections, "batch") ? "" : "batch = 60\n";
	char *text AUTOFREE = sentence("[defaults]\n%sepochs = 2\n%s", batch, sections);
	folder_text("job.ini", text);
	char *words AUTOFREE = sentence("validate %s/job.ini --sim.platform=local --repetitions=1 "
					"--seconds=50ms " ANY_ERROR,
					folder);
	int status = mvbench(words);
	ck_assert_msg(status == EXIT_OK, "%s: status %d: %s", words, status, output);
	snprintf(want, sizeof want, "%d,%d,done,done\r\n", 2 * cells, cells);
	expect_row("SELECT count(*), sum(platform = 'sim'), min(status), max(status) FROM run",
		   want);
}

TEST(every_strategy_is_calibrated_and_run)
{
	char *list = sentence("asgd");
	int cells = 1;
	for (size_t i = 0; strategies[i]; i++) {
		const char *name = strategies[i]->plugin.name;
		if (strcmp(name, "asgd") == 0 || strcmp(name, "serial") == 0 ||
		    strcmp(name, "hybrid") == 0) /* serial has one worker, hybrid four */
			continue;
		char *longer = sentence("%s, %s", name, list);
		free(list);
		list = longer;
		cells++;
	}
	char *sections AUTOFREE = sentence("[a]\nworkload = softmax\nstrategy = %s\nworkers = 2\n"
					   "[b]\nworkload = softmax\nstrategy = serial\n",
					   list);
	calibrate_and_run(sections, cells + 1);
	free(list);
}

/* Calibration measures times, with a learning rate of its own. */
TEST(calibration_works_at_a_diverging_rate)
{
	int status = mvbench("calibrate --workload=softmax --batch=60 --lr=1000 --counts=1 "
			     "--repetitions=1 --seconds=0.05s");
	ck_assert_msg(status == EXIT_OK, "status %d: %s", status, output);
}

static const struct {
	const char *sections;
	int cells;
} other_cells[] = {
	{"[a]\nworkload = mlp\nmlp.hidden = 16\nstrategy = hybrid\nhybrid.group = 2\n"
	 "workers = 4\n",
	 1},
	{"[a]\nworkload = softmax\nworkers = 2\nstrategy = easgd\ntable-home = shared, onesided\n"
	 "[b]\nworkload = softmax\nworkers = 2\nstrategy = ssp\nservers = 1\n",
	 3},
	{"[a]\nworkload = tanh_mlp, perceptron, lenet\ntrain-rows = 240\nstrategy = gossip\n"
	 "workers = 2\n",
	 3},
	{"[a]\nworkload = softmax\nstrategy = asgd\neval-every = 3\nworkers = 2\n"
	 "[b]\nworkload = mlp\nstrategy = model_parallel\nglobal-batch = 64\nworkers = 2\n",
	 2},
	{"[a]\nworkload = mlp\nmlp.hidden = 16\nstrategy = allreduce\nallreduce.overlap = true\n"
	 "workers = 2\n[b]\nworkload = softmax\nstrategy = asgd\nworkers = 3\nstep-time = 1ms\n",
	 2},
	/* a vote, which the periodic averaging of a calibration refuses */
	{"[a]\nworkload = softmax\nlr = 0.001\nstrategy = allreduce\ncodec = majority\n"
	 "workers = 2\n[b]\nworkload = softmax\nstrategy = allreduce\ncodec = powersgd\n"
	 "codec.feedback = true\npowersgd.rank = 1\nworkers = 2\n",
	 2},
};

TEST(cells_of_all_kinds_are_calibrated_and_run, COUNT(other_cells))
{
	calibrate_and_run(other_cells[_i].sections, other_cells[_i].cells);
}

TEST(interruption_keeps_finished_runs)
{
	char *command AUTOFREE = sentence(
		"(echo older >%s/report; ASAN_OPTIONS=detect_leaks=0 timeout --preserve-status "
		"-s INT 2 ./mvbench validate %s/job.ini --db=%s/run.db --data-dir=%s --workers=1 "
		"--only=real --repetitions=1000 --seed=1..50 --out=%s/report; echo status $?; cat "
		"%s/report*) 2>&1 | tail -n 4",
		folder, folder, folder, folder, folder, folder);
	command_output(command, output, sizeof output);
	ck_assert_msg(strstr(output, "status 130\n"), "%s", output);
	ck_assert_msg(strstr(output, "mvbench: interrupted; the same command starts again\n"), "%s",
		      output);
	ck_assert_msg(strstr(output, " of 50000 runs are recorded"), "%s", output);
	/* the earlier report remains */
	ck_assert_msg(strstr(output, "status 130\nolder\n"), "%s", output);
	expect_row("SELECT count(*) > 0 FROM run WHERE status = 'done'", "1\r\n");
}

/* The interrupted repetition may have ended by itself: the watcher is stopped until it has. */
TEST(interrupted_calibration_ends_validate)
{
	char *command AUTOFREE = sentence(
		"./mvbench calibrate --workload=softmax --batch=60 --counts=1 --repetitions=3 "
		"--seconds=0.5s --db=%s/run.db --data-dir=%s >%s/said 2>&1 & run=$!; "
		"for i in $(seq 1000); do pgrep -P $run >%s/child && break; sleep 0.01; done; "
		"kill -STOP $run; for i in $(seq 400); do pgrep -r Z -P $run >%s/child && break; "
		"sleep 0.05; done; kill -TERM $run; kill -CONT $run; wait $run; echo status $?; "
		"cat %s/said",
		folder, folder, folder, folder, folder, folder);
	command_output(command, output, sizeof output);
	ck_assert_msg(strstr(output, "status 130\n") && !strstr(output, "repetition 2 of 3"), "%s",
		      output);
}

TEST(calibration_opens_its_output_first)
{
	int status = mvbench("calibrate --workload=softmax --counts=1,2 --out=/nowhere/x.xml");
	ck_assert_msg(status == EXIT_USER && strstr(output, "--out=/nowhere/x.xml"), "%s", output);
	ck_assert_ptr_null(strstr(output, "repetition"));
}

static const struct {
	const char *words, *says;
} refused[] = {
	{"--hostfile=/nowhere/x", "--hostfile=/nowhere/x: the file cannot be read (No such file"},
	{"--lab.rate=10mbit", "--lab.rate=10mbit: this is the rate of a lab's links; give --lab=N"},
	{"--lab=65", "--lab=65: give a whole number from 0 to 64"},
	{"--platform=sim", "validate runs every cell on both platforms"},
	{"nothing.ini", "there is no such job file"},
	{"a b", "b: validate takes one job file, a"},
	{"a --random=3", "a: --random=3 draws the cells"},
	{"--random=-1", "--random=-1: give a whole number from 0 to 1000"},
	{"--repetitions=0", "--repetitions=0: give a whole number from 1 to 1000"},
	{"--only=both", "give one of all, real, sim, report"},
	{"--threshold-median=-1", "--threshold-median=-1: give a number from 0"},
	{"--format=html", "one of text, markdown, csv, json"},
	{"--speling=1", "there is no such option"},
	{"--sim.step-time=1ms,2ms", "give each option of sim.* one value"},
	{"--sim.platform=/nowhere/x.xml --sim.step-time=1ms", "--sim.platform=/nowhere/x.xml"},
	{"--calibrate=false", "run: mvbench calibrate --workload=mlp --batch=32"},
	{"--only=real --workload=softmax --workers=3000", "--workers=3000"},
	{"--only=real --out=/nowhere/report", "--out=/nowhere/report"},
};

TEST(validate_mistakes_are_refused, COUNT(refused))
{
	char *words AUTOFREE = sentence("validate %s", refused[_i].words);
	int status = mvbench(words);
	char *path AUTOFREE = sentence("%s/run.db", folder);
	ck_assert_msg(status == EXIT_USER && strstr(output, refused[_i].says), "%s: status %d: %s",
		      refused[_i].words, status, output);
	ck_assert_msg(access(path, F_OK) != 0, "%s: there is a database", refused[_i].words);
}

/* A platform that the simulator refuses ends validate before the first real run. */
TEST(unusable_platform_ends_validate_at_once)
{
	folder_text("host.xml", "no XML");
	int status = validate("--repetitions=1");
	ck_assert_msg(status == EXIT_USER, "status %d: %s", status, output);
	ck_assert_msg(strstr(output, "mvbench: --sim.platform="), "%s", output);
	ck_assert_msg(strstr(output, "host.xml") && !strstr(output, "real"), "%s", output);
}
