/*
 * check_tune.c - mvbench tune: ranges and what is drawn from them; all configurations get the same
 * number of trials; the best trial is chosen on rows held out and run again with other seeds; a
 * study resumes.
 */
#include "results/run/study.h"
#include "tests/made.h"
#include "tests/suites.h"
#include "tests/trained.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const struct command command_tune, command_sweep, command_table, command_plot;

/* ---- Ranges -------------------------------------------------------------- */

CASE("tune", .limit = 120, .set_up = folder_enter, .tear_down = folder_free);

TEST(search_points_are_a_halton_sequence)
{
	static const double two[] = {0, 0.5, 0.25, 0.75, 0.125, 0.625}, three[] = {0, 3, 6, 1, 4};
	for (uint64_t i = 0; i < COUNT(two); i++)
		near(halton(0, i), two[i], 0);
	for (uint64_t i = 0; i < COUNT(three); i++)
		near(halton(1, i), three[i] / 9, 1e-15);
	for (size_t j = 0; j < RANGES_MOST; j++) { /* any 1000 consecutive ones are spread evenly */
		double sum = 0;
		for (uint64_t i = 0; i < 1000; i++)
			sum += halton(j, 700001 + i) / 1000;
		near(sum, 0.5, 0.01);
	}
}

static struct range range_of(const char *name, const char *text)
{
	struct range r;
	char *wrong = range_read(&r, name, text);
	ck_assert_msg(!wrong, "%s", wrong);
	return r;
}

static double drawn(const struct range *r, double u)
{
	char *text AUTOFREE = range_at(r, u);
	return strtod(text, NULL);
}

TEST(range_values_are_drawn_evenly)
{
	struct range lr = range_of("lr", "0.001..0.1 log"), m = range_of("momentum", " 0 .. 0.9"),
		     X = range_of("sync-every", "1..64 log"),
		     E = range_of("periodic.start", "2..4"), r = range_of("reduce", "mean , sum"),
		     odd = range_of("lr", "0.123451..0.123453");
	near(drawn(&lr, 0), 0.001, 0);
	near(drawn(&lr, 0.5), 0.01, 1e-9);
	near(drawn(&m, 0.5), 0.45, 1e-9);
	near(drawn(&X, 0), 1, 0);
	near(drawn(&X, 0.9999999), 64, 0);
	near(drawn(&E, 0.34), 3, 0); /* each whole number is equally likely */
	near(drawn(&E, 0.99), 4, 0);
	char *mean AUTOFREE = range_at(&r, 0.49), *sum AUTOFREE = range_at(&r, 0.51);
	ck_assert_str_eq(mean, "mean");
	ck_assert_str_eq(sum, "sum");
	near(drawn(&odd, 0.5), 0.123452, 1e-12); /* four digits would be outside the range */
	range_fini(&lr), range_fini(&m), range_fini(&X), range_fini(&E), range_fini(&r),
		range_fini(&odd);
}

/* ---- The command --------------------------------------------------------- */

#define RUN(name, ...) start_command(&command_##name, (const char *const[]){__VA_ARGS__, NULL})

static void expect(const char *query, const char *want)
{
	expect_in("t.db", query, want);
}

/* Ten steps of 1,000 rows; rates from 0.1 on diverge. */
#define FILE_OF(search) \
	"[defaults]\nworkload = perceptron\nbatch = 1000\nepochs = 1\nlr = 0.001\nseed = 7\n" \
	"[plain]\nstrategy = serial\n[decayed]\nlr-schedule = cosine\n[search]\n" search
#define TUNE(...) RUN(tune, "job.ini", "--db=t.db", __VA_ARGS__)

TEST(options_of_the_optimiser_are_searched)
{
	folder_text("job.ini", FILE_OF("adamw.beta1 = 0.5..0.9\n"));
	ck_assert_int_eq(TUNE("--budget=2", "--optimizer=adamw", "--dry-run"), EXIT_OK);
	expect_said("out", "trial 2: adamw.beta1 0.", true);
}

/* All steps of a study, checked together because its runs take time. */
TEST(configurations_get_equal_trials_and_fresh_seeds)
{
	folder_text("job.ini", FILE_OF("lr = 1e-6..10 log\nmomentum = 0..0.5\n"));
	int status = TUNE("--budget=6", "--seeds=3", "--jobs=2");
	char *err AUTOFREE = folder_read("err");
	ck_assert_msg(status == EXIT_OK, "status %d: %.2000s", status, err);
	expect_said("err", "--validation=1000 rows", true);
	expect_said("out", "trial 6: lr", true);
	expect_said("out", "validation loss", true);
	expect("SELECT count(*) || ' ' || count(DISTINCT validation) || ' ' || max(train_size) "
	       "FROM run",
	       "24 1 9000");
	/* the same points for both configurations, all with the file's seed */
	expect("SELECT count(*) || ' ' || count(DISTINCT number) || ' ' || count(DISTINCT "
	       "options) FROM trial WHERE kind = 'trial'",
	       "12 6 6");
	expect("SELECT count(*) FROM study_run JOIN run ON id = run_id WHERE kind = 'trial' AND "
	       "run.seed = 7 AND json_extract(options, '$.lr') = run.lr AND json_extract(options, "
	       "'$.momentum') = run.momentum",
	       "12");
	/* some trials diverge and rank last: they are recorded, but not chosen */
	expect("SELECT sum(lost) > 0 AND max(value) < 9e999 AND min(value) > 0 FROM study_trial",
	       "1");
	expect("SELECT count(*) FROM study_trial AS l JOIN study_trial AS k USING (study_id) "
	       "WHERE l.lost AND NOT k.lost AND l.value < k.value",
	       "0");
	expect("SELECT count(*) FROM study_best AS b WHERE figure = (SELECT min(e.validation_loss) "
	       "FROM study_run AS u JOIN epoch AS e USING (run_id) WHERE u.contestant = "
	       "b.contestant AND u.kind = 'trial' AND e.epoch = 1) AND trials = 6 AND lost > 0",
	       "2");
	/* the reported runs have other seeds, with the chosen options and with the file's */
	expect("SELECT group_concat(kind || ':' || n, ' ') FROM study_result",
	       "tuned:3 default:3 tuned:3 default:3");
	expect("SELECT group_concat(DISTINCT number) FROM trial WHERE kind <> 'trial'", "8,9,10");
	expect("SELECT count(*) FROM study_run AS u JOIN run AS r ON r.id = u.run_id JOIN "
	       "study_best "
	       "AS b USING (study_id, contestant) WHERE u.kind = 'tuned' AND r.seed = u.number AND "
	       "r.lr = json_extract(b.options, '$.lr')",
	       "6");
	expect("SELECT count(*) FROM study_run AS u JOIN run AS r ON r.id = u.run_id WHERE u.kind "
	       "= "
	       "'default' AND r.lr = 0.001 AND u.options = '{}'",
	       "6");
	expect("SELECT count(*) FROM study_result AS s WHERE test_loss = (SELECT test_loss FROM "
	       "(SELECT test_loss, row_number() OVER (ORDER BY test_loss) AS i FROM study_run AS u "
	       "WHERE u.contestant = s.contestant AND u.kind = s.kind) WHERE i = 2)",
	       "4");
	/* a trial is no run of the configuration that it chose: three seeds are three runs */
	expect("SELECT group_concat(DISTINCT s.n || ' of ' || s.seeds) FROM "
	       "configuration_summary AS s "
	       "JOIN run_summary AS r USING (config_key) JOIN study_run AS u ON u.run_id = r.id "
	       "WHERE u.kind <> 'trial'",
	       "3 of 3");
	expect("SELECT count(*) > 0 FROM finished JOIN study_run ON run_id = id "
	       "WHERE kind = 'trial'",
	       "1"); /* the others are there */
	ck_assert_int_eq(RUN(table, "--db=t.db", "--tuned"), EXIT_OK);
	expect_said("out", "decayed", true);
	expect_said("out", "default", true);
	expect_said("out", "6 (", true);
	ck_assert_int_eq(RUN(table, "--db=t.db", "--tuned", "--where=id < 0"), EXIT_OK);
	expect_said("err", "no tuned comparison that matches", true);
	ck_assert_int_eq(RUN(table, "--db=t.db", "--tuned", "--runs"), EXIT_USER);
	ck_assert_int_eq(RUN(table, "--db=t.db", "--tuned", "--margin-loss=2"), EXIT_USER);
	expect_said("err", "leave --margin-loss out", true);
	sql_in("t.db", "UPDATE run SET status = 'failed' WHERE id = (SELECT run_id FROM study_run "
		       "WHERE kind = 'tuned' AND contestant = 'plain' LIMIT 1)");
	ck_assert_int_eq(RUN(table, "--db=t.db", "--tuned"), EXIT_OK);
	expect_said("out", "3 (1 failed)", true);
	if (lacks_program("gnuplot"))
		return;
	ck_assert_int_eq(RUN(plot, "sensitivity", "best_of_k", "--db=t.db", "--out=."), EXIT_OK);
	expect_said("out", "sensitivity.png", true);
	expect_said("err", "gnuplot", false);
}

TEST(study_resumes_and_grows)
{
	folder_text("job.ini", FILE_OF("lr = 1e-6..1e-3 log\n"));
	ck_assert_int_eq(TUNE("--budget=2", "--seeds=1", "--validation=500"), EXIT_OK);
	expect("SELECT count(*) || ' ' || max(validation) FROM run", "8 500");
	ck_assert_int_eq(TUNE("--budget=2", "--seeds=1", "--validation=500"), EXIT_OK);
	expect("SELECT count(*) FROM run", "8"); /* no run is repeated */
	sql_in("t.db", "DELETE FROM run WHERE id IN (SELECT run_id FROM study_run WHERE contestant "
		       "= 'plain' AND kind = 'trial' AND number = 2)");
	ck_assert_int_eq(TUNE("--budget=2", "--seeds=1", "--validation=500"), EXIT_OK);
	expect("SELECT count(*) || ' ' || max(id) FROM run", "8 9");
	/* the test set does not affect the choice */
	sql_in("t.db", "UPDATE epoch SET test_loss = -validation_loss");
	ck_assert_int_eq(TUNE("--budget=3", "--seeds=1", "--validation=500"), EXIT_OK);
	expect("SELECT count(*) FROM study", "1");
	expect("SELECT budget FROM study", "3");
	expect("SELECT count(*) FROM trial WHERE kind = 'trial'", "6");
	expect("SELECT count(*) >= 10 AND count(*) <= 12 FROM run", "1");
	expect("SELECT count(*) FROM study_best AS b WHERE figure = (SELECT min(figure) FROM "
	       "study_run AS u WHERE u.contestant = b.contestant AND u.kind = 'trial')",
	       "2");
	/* small rates learn too little: the best is the largest one tried */
	expect("SELECT group_concat(edge) FROM study_best", "lr high,lr high");
	expect_said("out", "edge: the best trial", true);
	/* nothing is chosen while another process still runs a trial */
	char *held AUTOFREE = sentence(
		"UPDATE run SET status = 'running', process = NULL, pid = %d WHERE id = (SELECT "
		"run_id FROM study_run WHERE kind = 'trial' LIMIT 1)",
		(int)getpid());
	sql_in("t.db", held);
	ck_assert_int_eq(TUNE("--budget=3", "--seeds=1", "--validation=500"), EXIT_FAILED);
	expect_said("err", "1 of 6 trials have not ended", true);
	/* the earlier report remains */
	expect("SELECT group_concat(kind || n, ' ') FROM study_result",
	       "tuned1 default1 tuned1 default1");
	/* another start gives another study */
	ck_assert_int_eq(TUNE("--budget=1", "--seeds=1", "--validation=500", "--search-seed=2"),
			 EXIT_OK);
	expect("SELECT count(DISTINCT options) || ' ' || count(DISTINCT study_id) FROM trial "
	       "WHERE number = 1 AND kind = 'trial'",
	       "2 2");
}

TEST(listed_values_are_drawn_where_they_apply)
{
	folder_text("job.ini",
		    "[defaults]\nworkload = perceptron\nbatch = 1000\nepochs = 1\nlr = 1e-4\n"
		    "workers = 2\nplatform = sim\nsim.platform = ethernet_10g\n"
		    "sim.step-time = 1ms\n[sum]\nstrategy = asgd\n[mean]\nstrategy = periodic\n"
		    "[search]\nreduce = mean, sum\nasgd.updater = add, sgd\n");
	ck_assert_int_eq(TUNE("--budget=4", "--dry-run"), EXIT_OK);
	expect_said("out", "[mean] perceptron, periodic, 2 workers, trial 1: reduce", true);
	expect_said("out", "equal to another", true);
	ck_assert_int_ne(access("t.db", F_OK), 0);
	folder_text("job.ini", FILE_OF("lr = 50..100\n"));
	ck_assert_int_eq(TUNE("--budget=2", "--seeds=1"), EXIT_DIVERGED);
	expect_said("err", "plain: all 2 trials diverged; search smaller rates", true);
	expect("SELECT group_concat(kind || n, ' ') FROM study_result", "default1 default1");
	sql_in("t.db", "UPDATE run SET status = 'failed' WHERE id = (SELECT run_id FROM study_run "
		       "WHERE kind = 'trial' AND contestant = 'plain' LIMIT 1)");
	ck_assert_int_eq(TUNE("--budget=2", "--seeds=1"), EXIT_FAILED);
	expect_said("err", "plain: of 2 trials 1 failed and 1 diverged; ", true);
}

/* --deal and --batch follow from the drawn values: those of the base configuration do not exclude
 * any. */
TEST(derived_options_do_not_limit_trials)
{
#define SIMULATED \
	"[defaults]\nworkload = perceptron\nbatch = 100\nepochs = 1\nlr = 1e-4\nworkers = 4\n" \
	"platform = sim\nsim.platform = ethernet_10g\nsim.step-time = 1ms\n"
	folder_text("job.ini", SIMULATED "[a]\nstrategy = easgd\n[search]\n"
					 "easgd.form = asynchronous, synchronous\n");
	ck_assert_int_eq(TUNE("--budget=2", "--dry-run"), EXIT_OK);
	expect_said("out", "easgd.form asynchronous", true);
	expect_said("out", "easgd.form synchronous", true);
	folder_text("job.ini", SIMULATED "[a]\nstrategy = bsp\n[search]\nbsp.backup = 0..2\n");
	ck_assert_int_eq(TUNE("--budget=3", "--dry-run"), EXIT_OK);
	folder_text("job.ini", SIMULATED "[a]\nstrategy = allreduce\n[search]\n"
					 "global-batch = 64..512\n");
	ck_assert_int_eq(TUNE("--budget=2", "--dry-run"), EXIT_OK);
	expect_said("out", "trial 2: global-batch ", true);
}

TEST(tune_mistakes_are_refused)
{
	static const struct {
		const char *text, *option, *says;
	} row[] = {
		{"[a]\nworkload = perceptron\n", NULL, "job.ini: there is no section [search]"},
		{FILE_OF(""), NULL, "job.ini: there is no section [search]"},
		{FILE_OF("lr = 0.3..0.001\n"), NULL, "the range \"0.3..0.001\" is empty"},
		{FILE_OF("lr = 0.3..0.3\n"), NULL, "is empty"},
		{FILE_OF("lr = 0..0.3 log\n"), NULL, "job.ini:12: lr: the range"},
		{FILE_OF("lr = 0.1\n"), NULL, "is a single value"},
		{FILE_OF("lr = 0.1, x\n"), NULL, "--lr=x"},
		{FILE_OF("lr = 0.1..\n"), NULL, "--lr="},
		{FILE_OF("momentum = 0..2\n"), NULL, "--momentum=2"},
		{FILE_OF("lrr = 0..1\n"), NULL, "--lrr: there is no such option"},
		{FILE_OF("seed = 1..9\n"), NULL, "seed: it defines what is compared"},
		{FILE_OF("reduce = mean..sum\n"), NULL, "is not a range of plain numbers"},
		{FILE_OF("lr = 1..2\nlr = 1..2\n"), NULL, "job.ini:13: lr is already in [search]"},
		{FILE_OF("asgd.updater = add, sgd\n"), NULL, "has none of the options in [search]"},
		{FILE_OF("lr = 0.1..1\nasgd.updater = add, sgd\n"), NULL,
		 "job.ini: [search] asgd.updater is not an option of any configuration"},
		{FILE_OF("sim.train = true, false\n"), NULL,
		 "sim.train: it defines what is compared"},
		{FILE_OF("lr = 0.1..1\n"), "--budget=0", "--budget=0"},
		{FILE_OF("lr = 0.1..1\n"), "--seeds=0", "--seeds=0"},
		{FILE_OF("lr = 0.1..1\n"), "--objective=accuracy",
		 "perceptron has no accuracy; give --objective=loss"},
		{FILE_OF("lr = 0.1..1\n"), "--seed=1,2", "differs from another configuration in"},
		{FILE_OF("lr = 0.1..1\n"), "--lr=1,2", "differs from another configuration in"},
		{FILE_OF("lr = 0.1..1\n"), "--validation=10000", "give at most --validation=9999"},
		{FILE_OF("lr = 0.1..1\n[search]\n"), NULL, "[search] is already on line 11"},
	};
	for (size_t i = 0; i < COUNT(row); i++) {
		folder_text("job.ini", row[i].text);
		int status = TUNE(row[i].option ? row[i].option : "--budget=2");
		expect_said("err", row[i].says, true);
		ck_assert_int_eq(status, EXIT_USER);
		ck_assert_int_ne(access("t.db", F_OK), 0);
	}
	folder_text("job.ini", FILE_OF("lr = 0.1..1\n"));
	ck_assert_int_eq(TUNE("--platform=sim", "--sim.train=false", "--sim.step-time=1ms",
			      "--sim.platform=ethernet_10g"),
			 EXIT_USER);
	expect_said("err", "sim.train=false", true);
	ck_assert_int_eq(RUN(sweep, "job.ini", "--db=t.db"), EXIT_USER);
	expect_said("err", "job.ini:11: [search] is only for mvbench tune", true);
}
