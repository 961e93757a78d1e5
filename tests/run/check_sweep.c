/*
 * check_sweep.c - job files: what they expand to, what is wrong with them and where, and that a
 * sweep goes on where it stopped.
 */
#include "results/run/run.h"
#include "tests/made.h"
#include "tests/suites.h"
#include "tests/trained.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const struct command command_sweep;

static void reads(const char *text, const struct setting *given, size_t n, struct sweep *s)
{
	folder_text("job.ini", text);
	char *wrong = sweep_read("job.ini", given, n, s);
	ck_assert_msg(!wrong, "%s", wrong);
}

/* ---- Expansion ----------------------------------------------------------- */

START_TEST(lists_and_ranges_cross)
{
	struct sweep s;
	reads("[defaults]\nworkload = mlp\nepochs = 3\nseed = 1..3\n"
	      "[single]\nstrategy = serial\n"
	      "[multiverso]\nstrategy = asgd\nworkers = 1, 2,4\nsync-every = 1,3,16\n",
	      NULL, 0, &s);
	ck_assert_uint_eq(s.cells, 3 + 27);
	ck_assert_str_eq(s.cell[0].config.run.strategy, "serial");
	ck_assert_int_eq(s.cell[2].config.run.seed, 3);
	ck_assert_int_eq(s.cell[2].config.run.epochs, 3);
	ck_assert_str_eq(s.cell[3].section, "multiverso");
	ck_assert_int_eq(s.cell[4].config.run.sync_every, 3); /* the last key turns fastest */
	ck_assert_int_eq(s.cell[6].config.run.workers, 2);
	ck_assert_str_eq(s.cell[4].what, "mlp, asgd, 1 worker, seed 1, sync-every 3");
	ck_assert_uint_eq(s.duplicates, 0);
	sweep_free(&s);
}
END_TEST

START_TEST(sections_replace_defaults_and_the_command_line_both)
{
	const struct setting given[] = {{"seed", "7..8"}, {"epochs", "2"}, {"epochs", "5"}};
	struct sweep s;
	reads("[defaults]\nseed = 1..9\nepochs = 4\nbatch = 10\n[a]\nbatch = 20\nepochs = 1,2,3\n",
	      given, 3, &s);
	ck_assert_uint_eq(s.cells, 2);
	ck_assert_int_eq(s.cell[1].config.run.seed, 8);
	ck_assert_int_eq(s.cell[1].config.run.epochs, 5);
	ck_assert_int_eq(s.cell[1].config.run.batch, 20);
	sweep_free(&s);
}
END_TEST

START_TEST(equal_cells_are_one)
{
	struct sweep s;
	/* periodic.start says nothing to asgd, 0.10 is 0.1, and [b] repeats */
	reads("[defaults]\nperiodic.start = 0,5\nlr = 0.1\n[a]\nstrategy = asgd,periodic\n"
	      "[b]\nstrategy = asgd\nlr = 0.10\n",
	      NULL, 0, &s);
	ck_assert_uint_eq(s.cells, 3);
	ck_assert_uint_eq(s.duplicates, 3);
	sweep_free(&s);
}
END_TEST

START_TEST(odd_but_right_files_are_read)
{
	struct sweep s;
	/* a mark of UTF-8, DOS line ends, indentation, comments, an empty section */
	reads("\xef\xbb\xbf; all\r\n[defaults]\r\n  epochs = 2 ; two\r\n\tbatch = 5\r\n# "
	      "more\r\n[a]\r\n"
	      "[b]\nseed=2\n",
	      NULL, 0, &s);
	ck_assert_uint_eq(s.cells, 2);
	ck_assert_int_eq(s.cell[0].config.run.epochs, 2);
	ck_assert_int_eq(s.cell[0].config.run.batch, 5);
	ck_assert_str_eq(s.cell[1].section, "b");
	sweep_free(&s);
	reads("[defaults]\nepochs = 1,2\n", NULL, 0, &s);
	ck_assert_uint_eq(s.cells, 2);
	sweep_free(&s);
}
END_TEST

START_TEST(what_comes_with_the_program_is_valid)
{
	char *sweeps = installed_path("workloads/sweeps");
	DIR *d = opendir(sweeps ? sweeps : "/nowhere");
	int files = 0;
	ck_assert_ptr_nonnull(d);
	for (struct dirent *e; (e = readdir(d));) {
		if (!strstr(e->d_name, ".ini"))
			continue;
		char *path = sentence("%s/%s", sweeps, e->d_name);
		struct sweep s;
		char *wrong = sweep_read(path, NULL, 0, &s);
		ck_assert_msg(!wrong, "%s", wrong);
		ck_assert_uint_gt(s.cells, 0);
		sweep_free(&s);
		free(path);
		files++;
	}
	ck_assert_int_gt(files, 0);
	closedir(d);
	free(sweeps);
}
END_TEST

/* A label is text: nothing cuts it, in the file or on the command line. */
START_TEST(labels_may_have_commas)
{
	const struct setting over = {"label", "p, \"q\""}, lacking = {"epochs", NULL};
	struct sweep s;
	folder_text("job.ini", "[a]\nlabel = x, 1..3,\nworkers = 1,2\n");
	ck_assert_ptr_null(sweep_read("job.ini", NULL, 0, &s));
	ck_assert_uint_eq(s.cells, 2);
	ck_assert_str_eq(s.cell[0].config.own.label, "x, 1..3,");
	sweep_free(&s);
	ck_assert_ptr_null(sweep_read("job.ini", &over, 1, &s));
	ck_assert_str_eq(s.cell[1].config.own.label, "p, \"q\"");
	sweep_free(&s);
	char *wrong = sweep_read("job.ini", &lacking, 1, &s);
	ck_assert_msg(wrong && strstr(wrong, "--epochs: a value is wanted"), "%s", wrong);
	free(wrong);
}
END_TEST

/* ---- Order --------------------------------------------------------------- */

static void orders(const char *text, int64_t seed, struct sweep *s)
{
	reads(text, NULL, 0, s);
	sweep_shuffle(s, seed);
}

/* Also where a section has seeds of its own: a round is not a number of a seed. */
START_TEST(a_round_has_every_configuration_once)
{
	static const char text[] = "[a]\nseed = 1..3\nlr = 0.1,0.2\n"
				   "[b]\nseed = 7..9\nepochs = 1..3\n[c]\nlr = 0.5\n";
	static const size_t in_round[] = {0, 6, 5, 5};
	struct sweep s;
	orders(text, 1, &s);
	size_t seen[4] = {0};
	ck_assert_uint_eq(s.cells, 16);
	for (size_t i = 0; i < s.cells; i++) {
		const struct cell *c = &s.cell[i];
		bool first = strcmp(c->section, "b") == 0 ? c->config.run.seed == 6 + c->round
							  : c->config.run.seed == c->round;
		ck_assert_msg(first, "[%s] seed %d in round %d", c->section,
			      (int)c->config.run.seed, (int)c->round);
		ck_assert(i == 0 || s.cell[i - 1].round <= c->round);
		seen[c->round]++;
	}
	for (int k = 1; k <= 3; k++)
		ck_assert_uint_eq(seen[k], in_round[k]);
	sweep_free(&s);
}
END_TEST

/* Each of two cells comes first about as often, in each round by itself. */
START_TEST(a_seed_shuffles_each_round_anew)
{
	enum { SEEDS = 400, ROUNDS = 2 };
	int first[ROUNDS] = {0}, alike = 0;
	struct sweep s, t;
	for (int k = 0; k < SEEDS; k++) {
		bool is[ROUNDS];
		orders("[a]\nlr = 0.1\nseed = 1,2\n[b]\nlr = 0.2\nseed = 1,2\n", k, &s);
		for (int i = 0; i < ROUNDS; i++)
			first[i] += is[i] = strcmp(s.cell[2 * i].section, "a") == 0;
		alike += is[0] == is[1];
		sweep_free(&s);
	}
	for (int i = 0; i < ROUNDS; i++)
		near(first[i], SEEDS / 2.0, 50); /* five standard deviations */
	near(alike, SEEDS / 2.0, 50);

	/* what is added moves nothing of what was there */
	orders("[a]\nlr = 0.1,0.2,0.3,0.4,0.5\n", 5, &s);
	orders("[a]\nlr = 0.1,0.2,0.3,0.4,0.5,0.6,0.7\n", 5, &t);
	for (size_t i = 0, k = 0; i < s.cells; i++, k++) {
		while (k < t.cells && strcmp(t.cell[k].hash, s.cell[i].hash) != 0)
			k++;
		ck_assert_uint_lt(k, t.cells);
	}
	sweep_free(&s);
	sweep_free(&t);
}
END_TEST

/* ---- Bad files ----------------------------------------------------------- */

START_TEST(bad_files_are_refused_with_their_line)
{
	static const struct {
		const char *text, *says;
	} row[] = {
		{"", "job.ini: there is nothing in it"},
		{"epochs = 1\n", "job.ini:1: epochs stands in no section"},
		{"[a]\nepochs\n", "job.ini:2: "},
		{"[a\nepochs = 1\n", "job.ini:1: a section looks like [name]"},
		{"[]\nepochs = 1\n", "job.ini:1: a section looks like [name]"},
		{"\n[a]\n\nstratgy = asgd\n",
		 "job.ini:4: --stratgy: there is no such option; did you mean "
		 "--strategy?"},
		{"[a]\nstrategy = asgdd\n", "job.ini:2: --strategy=asgdd"},
		{"[a]\nepochs = 1,x\n", "job.ini:2: --epochs=x"},
		{"[a]\nepochs = 1,,2\n", "job.ini:2: epochs: the list \"1,,2\" has an empty place"},
		{"[a]\nepochs = 1,\n", "job.ini:2: epochs: the list"},
		{"[a]\nepochs = 5..1\n", "job.ini:2: epochs: the range 5..1"},
		{"[a]\nepochs = 0..2\n", "job.ini:2: --epochs=0"},
		{"[a]\nepochs = 1\nlr = 1\nepochs = 2\n",
		 "job.ini:4: epochs is set on line 2 already"},
		{"[a]\nepochs = 1\n[a]\nlr = 1\n", "job.ini:3: [a] stands on line 1 already"},
		{"[a]\nepochs = 1\n[defaults]\nlr = 1\n", "job.ini:3: [defaults] stands before"},
		{"[a]\nasgd.foo = 1\n", "job.ini:2: --asgd.foo"},
		{"[a]\nperiodic.strat = 1\n", "did you mean --periodic.start?"},
		{"[a]\ntransport = mpi,ipc\n", "job.ini:2: transport: one value"},
		{"[a]\ndb = x\n[b]\ndb = y\nseed = 2\n", "job.ini:3: a sweep has one database"},
		{"[a]\nseed = 1..9999\nepochs = 1..9999\n", "job.ini:1: [a] makes more than"},
	};
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct sweep s;
		folder_text("job.ini", row[i].text);
		char *wrong = sweep_read("job.ini", NULL, 0, &s);
		ck_assert_msg(wrong != NULL, "accepted: %s", row[i].text);
		ck_assert_msg(strstr(wrong, row[i].says) != NULL, "\"%s\" does not say \"%s\"",
			      wrong, row[i].says);
		free(wrong);
	}
}
END_TEST

START_TEST(long_lines_are_not_cut)
{
	char text[600] = "[a]\nlabel = ";
	struct sweep s;
	memset(text + strlen(text), 'x', 400);
	folder_text("job.ini", text);
	char *wrong = sweep_read("job.ini", NULL, 0, &s);
	ck_assert_ptr_nonnull(wrong);
	ck_assert_ptr_nonnull(strstr(wrong, "job.ini:2: a line has at most"));
	free(wrong);
}
END_TEST

/* ---- The command --------------------------------------------------------- */

#define SWEEP(...) start_command(&command_sweep, (const char *const[]){__VA_ARGS__, NULL})

#define SMALL "[a]\nworkload = perceptron\nbatch = 100\nepochs = 1\n"

START_TEST(a_sweep_goes_on_where_it_stopped)
{
	folder_text("job.ini", SMALL "seed = 1,2\n");
	ck_assert_int_eq(SWEEP("job.ini", "--db=r.db"), EXIT_OK);
	expect_said("out", "1/2 [a] perceptron, serial, 1 worker, seed 1: test loss", true);
	expect_said("out", "2 cells: 2 done", true);
	ck_assert_int_eq(SWEEP("job.ini", "--db=r.db"), EXIT_OK);
	expect_said("out", "1/", false);
	expect_said("out", "not run again", true);
	ck_assert_int_eq(SWEEP("job.ini", "--db=r.db", "--seed=1..3"), EXIT_OK);
	expect_said("out", "1/1 [a] perceptron, serial, 1 worker, seed 3", true);
	ck_assert_int_eq(SWEEP("job.ini", "--db=r.db", "--resume=no"), EXIT_OK);
	expect_said("out", "2/2", true);
}
END_TEST

/* Drift of a machine must not be one section's or one seed's alone; a reader sees how it was. */
START_TEST(a_sweep_runs_in_rounds_and_records_them)
{
	folder_text("job.ini",
		    SMALL "seed = 1,2\n[b]\nworkload = perceptron\nbatch = 200\nepochs = 1\n"
			  "seed = 1,2\n");
	ck_assert_int_eq(SWEEP("job.ini", "--db=r.db", "--order-seed=3"), EXIT_OK);
	expect_said("out", "4/4", true);
	expect_in("r.db",
		  "SELECT group_concat(seed || ':' || sweep_round || ':' || sweep_seed, ' ') "
		  "FROM run ORDER BY id",
		  "1:1:3 1:1:3 2:2:3 2:2:3");
	ck_assert_int_eq(SWEEP("job.ini", "--db=f.db", "--order=file"), EXIT_OK);
	expect_in("f.db",
		  "SELECT group_concat(batch || ':' || seed, ' ') FROM run "
		  "WHERE sweep_round IS NULL AND sweep_seed IS NULL ORDER BY id",
		  "100:1 100:2 200:1 200:2");
}
END_TEST

/* What an interrupted sweep left pending is run in the order of the one that goes on. */
START_TEST(pending_cells_get_the_order_of_who_runs_them)
{
	folder_text("job.ini", SMALL);
	ck_assert_int_eq(SWEEP("job.ini", "--db=r.db", "--order-seed=3"), EXIT_OK);
	sql_in("r.db", "UPDATE run SET status = 'pending'");
	ck_assert_int_eq(SWEEP("job.ini", "--db=r.db", "--order-seed=4"), EXIT_OK);
	expect_in("r.db", "SELECT group_concat(id || status || sweep_seed) FROM run", "1done4");
}
END_TEST

START_TEST(a_diverged_cell_does_not_stop_a_sweep)
{
	folder_text("job.ini", SMALL "lr = 100,1e-4\n");
	ck_assert_int_eq(SWEEP("job.ini", "--db=r.db"), EXIT_DIVERGED);
	expect_said("out", "lr 100: diverged: epoch 1", true);
	expect_said("out", "2 cells: 1 done, 1 diverged, 0 failed, 0 left", true);
	ck_assert_int_eq(SWEEP("job.ini", "--db=r.db"), EXIT_DIVERGED);
	expect_said("out", "1/1", false);
	ck_assert_int_eq(SWEEP("job.ini", "--db=r.db", "--retry"), EXIT_DIVERGED);
	expect_said("out", "1/1", true);
}
END_TEST

START_TEST(jobs_run_side_by_side)
{
	folder_text("job.ini", SMALL "seed = 1..5\n");
	ck_assert_int_eq(SWEEP("job.ini", "--db=r.db", "--jobs=3", "--format=json"), EXIT_OK);
	expect_said("err", "5 cells: 5 done", true);
	FILE *f = fopen("out", "r");
	int lines = 0;
	for (int c; (c = getc(f)) != EOF;)
		lines += c == '\n';
	fclose(f);
	ck_assert_int_eq(lines, 5);
}
END_TEST

START_TEST(nothing_is_written_when_a_cell_cannot_run)
{
	folder_text("job.ini", SMALL "[b]\nworkers = 2\n");
	ck_assert_int_eq(SWEEP("job.ini", "--db=r.db"), EXIT_USER);
	expect_said("err", "job.ini:5: [b]", true);
	ck_assert_int_eq(access("r.db", F_OK), -1);
	folder_text("job.ini", SMALL);
	ck_assert_int_eq(SWEEP("job.ini", "--db=r.db", "--dry-run"), EXIT_OK);
	expect_said("out", "1 cell, 1 to run", true);
	ck_assert_int_eq(access("r.db", F_OK), -1);
	ck_assert_int_eq(SWEEP("lost.ini", "--db=r.db"), EXIT_USER);
	expect_said("err", "lost.ini: there is no such job file", true);
}
END_TEST

Suite *sweep_suite(void)
{
	Suite *s = suite_create("sweep");
	TCase *t = tcase_create("sweep");
	suite_add_tcase(s, t);
	tcase_add_checked_fixture(t, folder_enter, folder_free);
	tcase_set_timeout(t, 120);
	tcase_add_test(t, lists_and_ranges_cross);
	tcase_add_test(t, sections_replace_defaults_and_the_command_line_both);
	tcase_add_test(t, equal_cells_are_one);
	tcase_add_test(t, odd_but_right_files_are_read);
	tcase_add_test(t, what_comes_with_the_program_is_valid);
	tcase_add_test(t, labels_may_have_commas);
	tcase_add_test(t, a_round_has_every_configuration_once);
	tcase_add_test(t, a_seed_shuffles_each_round_anew);
	tcase_add_test(t, bad_files_are_refused_with_their_line);
	tcase_add_test(t, long_lines_are_not_cut);
	tcase_add_test(t, a_sweep_goes_on_where_it_stopped);
	tcase_add_test(t, a_sweep_runs_in_rounds_and_records_them);
	tcase_add_test(t, pending_cells_get_the_order_of_who_runs_them);
	tcase_add_test(t, a_diverged_cell_does_not_stop_a_sweep);
	tcase_add_test(t, jobs_run_side_by_side);
	tcase_add_test(t, nothing_is_written_when_a_cell_cannot_run);
	return s;
}
