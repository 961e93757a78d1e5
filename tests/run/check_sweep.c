/*
 * check_sweep.c - job files: their expansion, their mistakes with line numbers, and that an
 * interrupted sweep resumes.
 */
#include "results/run/cells.h"
#include "results/run/study.h"
#include "runtime/config/machine.h"
#include "tests/made.h"
#include "tests/suites.h"
#include "tests/trained.h"

#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

extern const struct command command_sweep, command_submit, command_watch;

/* Reads the text into s, and frees the cells that s had. */
static void reads(const char *text, const struct setting *given, size_t n, struct sweep *s)
{
	sweep_free(s);
	folder_text("job.ini", text);
	char *wrong = sweep_read("job.ini", given, n, s, NULL, true);
	ck_assert_msg(!wrong, "%s", wrong);
}

/* ---- Expansion ----------------------------------------------------------- */

CASE("sweep", .limit = 120, .set_up = folder_enter, .tear_down = folder_free);

TEST(lists_and_ranges_cross)
{
	struct sweep s ENDS_WITH(sweep_free) = {.cell = NULL};
	reads("[defaults]\nworkload = mlp\nepochs = 3\nseed = 1..3\n"
	      "[single]\nstrategy = serial\n"
	      "[multiverso]\nstrategy = asgd\nworkers = 1, 2,4\nsync-every = 1,3,16\n",
	      NULL, 0, &s);
	ck_assert_uint_eq(s.cells, 3 + 27);
	ck_assert_str_eq(s.cell[0].config.run.strategy, "serial");
	ck_assert_int_eq(s.cell[2].config.run.seed, 3);
	ck_assert_int_eq(s.cell[2].config.run.epochs, 3);
	ck_assert_str_eq(s.cell[3].section, "multiverso");
	ck_assert_int_eq(s.cell[4].config.run.sync_every, 3); /* the last key varies fastest */
	ck_assert_int_eq(s.cell[6].config.run.workers, 2);
	ck_assert_str_eq(s.cell[4].what, "mlp, asgd, 1 worker, seed 1, sync-every 3");
	ck_assert_uint_eq(s.duplicates, 0);
}

TEST(sections_override_defaults_and_options_override_both)
{
	const struct setting given[] = {{"seed", "7..8"}, {"epochs", "2"}, {"epochs", "5"}};
	struct sweep s ENDS_WITH(sweep_free) = {.cell = NULL};
	reads("[defaults]\nseed = 1..9\nepochs = 4\nbatch = 10\n[a]\nbatch = 20\nepochs = 1,2,3\n",
	      given, 3, &s);
	ck_assert_uint_eq(s.cells, 2);
	ck_assert_int_eq(s.cell[1].config.run.seed, 8);
	ck_assert_int_eq(s.cell[1].config.run.epochs, 5);
	ck_assert_int_eq(s.cell[1].config.run.batch, 20);
}

TEST(option_set_twice_in_a_section_is_refused)
{
	struct sweep s = {.cell = NULL};
	folder_text("job.ini", "[a]\neval-every = 2\neval-every = 2\n");
	char *wrong AUTOFREE = sweep_read("job.ini", NULL, 0, &s, NULL, true);
	ck_assert_msg(wrong && strstr(wrong, "eval-every is already set on line 2"), "%s", wrong);
	sweep_free(&s);
}

TEST(equal_cells_are_merged)
{
	struct sweep s ENDS_WITH(sweep_free) = {.cell = NULL};
	/* asgd does not use periodic.start, 0.10 is 0.1, and [b] repeats */
	reads("[defaults]\nperiodic.start = 0,5\nlr = 0.1\n[a]\nstrategy = asgd,periodic\n"
	      "[b]\nstrategy = asgd\nlr = 0.10\n",
	      NULL, 0, &s);
	ck_assert_uint_eq(s.cells, 3);
	ck_assert_uint_eq(s.duplicates, 3);
}

TEST(unusual_valid_job_files_are_read)
{
	struct sweep s ENDS_WITH(sweep_free) = {.cell = NULL};
	/* a mark of UTF-8, DOS line ends, indentation, comments, an empty section */
	reads("\xef\xbb\xbf; all\r\n[defaults]\r\n  epochs = 2 ; two\r\n\tbatch = 5\r\n# "
	      "more\r\n[a]\r\n"
	      "[b]\nseed=2\n",
	      NULL, 0, &s);
	ck_assert_uint_eq(s.cells, 2);
	ck_assert_int_eq(s.cell[0].config.run.epochs, 2);
	ck_assert_int_eq(s.cell[0].config.run.batch, 5);
	ck_assert_str_eq(s.cell[1].section, "b");
	reads("[defaults]\nepochs = 1,2\n", NULL, 0, &s);
	ck_assert_uint_eq(s.cells, 2);
}

TEST(included_job_files_are_valid)
{
	char *sweeps AUTOFREE = installed_path("workloads/sweeps");
	DIR *d = opendir(sweeps ? sweeps : "/nowhere");
	int files = 0;
	ck_assert_ptr_nonnull(d);
	for (struct dirent *e; (e = readdir(d));) {
		if (!strstr(e->d_name, ".ini"))
			continue;
		char *path AUTOFREE = sentence("%s/%s", sweeps, e->d_name);
		struct sweep s ENDS_WITH(sweep_free) = {.cell = NULL};
		struct search search = {.range = NULL};
		bool tunes = strncmp(e->d_name, "tuned", 5) == 0;
		char *wrong = sweep_read(path, NULL, 0, &s, tunes ? &search : NULL, true);
		ck_assert_msg(!wrong, "%s", wrong);
		ck_assert_uint_gt(s.cells, 0);
		ck_assert_int_eq(search.ranges > 0, tunes);
		search_free(&search);
		files++;
	}
	ck_assert_int_gt(files, 0);
	closedir(d);
}

/* A label is text: a comma does not split it, in the file or on the command line. */
TEST(labels_may_have_commas)
{
	const struct setting over = {"label", "p, \"q\""}, lacking = {"epochs", NULL};
	struct sweep s ENDS_WITH(sweep_free) = {.cell = NULL};
	folder_text("job.ini", "[a]\nlabel = x, 1..3,\nworkers = 1,2\n");
	ck_assert_ptr_null(sweep_read("job.ini", NULL, 0, &s, NULL, true));
	ck_assert_uint_eq(s.cells, 2);
	ck_assert_str_eq(s.cell[0].config.harness.label, "x, 1..3,");
	sweep_free(&s);
	ck_assert_ptr_null(sweep_read("job.ini", &over, 1, &s, NULL, true));
	ck_assert_str_eq(s.cell[1].config.harness.label, "p, \"q\"");
	sweep_free(&s);
	char *wrong AUTOFREE = sweep_read("job.ini", &lacking, 1, &s, NULL, true);
	ck_assert_msg(wrong && strstr(wrong, "--epochs: give a value"), "%s", wrong);
	sweep_free(&s);
}

/* The values of an option over the cells: "1 2 4". */
static void takes(const struct sweep *s, const char *name, const char *want)
{
	char got[400] = "";
	for (size_t i = 0; i < s->cells; i++) {
		char **word = config_words(&s->cell[i].config);
		char *option AUTOFREE = sentence("--%s=", name);
		for (size_t k = 0; word[k]; k++)
			if (strncmp(word[k], option, strlen(option)) == 0)
				snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s",
					 *got ? " " : "", word[k] + strlen(option));
		free_words(word);
	}
	ck_assert_str_eq(got, want);
}

TEST(ranges_have_steps_and_decades)
{
	static const struct {
		const char *key, *list, *values;
	} row[] = {
		{"lr", "0.01..0.07 by 0.01", "0.01 0.02 0.03 0.04 0.05 0.06 0.07"},
		{"lr", "0.1..0.35 by 0.1", "0.1 0.2 0.3"},
		{"lr", "0..0.2 by 0.1, 1", "0 0.1 0.2 1"},
		{"epochs", "1..10 by 3, 20", "1 4 7 10 20"},
		{"lr", "1e-4..1 log 5", "0.0001 0.001 0.01 0.1 1"},
		{"lr", "1..10 log 4", "1 2.154 4.642 10"},
		{"lr", "1..1.0004 log 3", "1 1.00019998000400 1.0004"},
		{"batch", "16 .. 256 log 5", "16 32 64 128 256"},
		{"batch", "1..3 log 9", "1 2 3"}, /* whole numbers between, each once */
		{"step-time", "1ms, 0.002s, 3ms", "1ms 2ms 3ms"}, /* a list, with units */
	};
	for (size_t i = 0; i < COUNT(row); i++) {
		struct sweep s ENDS_WITH(sweep_free) = {.cell = NULL};
		char *text AUTOFREE = sentence("[a]\n%s = %s\n", row[i].key, row[i].list);
		reads(text, NULL, 0, &s);
		if (i == 6) { /* its digits depend on libm */
			ck_assert_uint_eq(s.cells, 3);
			near(s.cell[1].config.run.lr, 1.00019998, 1e-8);
		} else {
			takes(&s, row[i].key, row[i].values);
		}
	}
}

TEST(zipped_lists_advance_together)
{
	const struct setting over = {"lr", "0.5,0.6,0.7"};
	struct sweep s ENDS_WITH(sweep_free) = {.cell = NULL};
	static const char text[] = "[defaults]\nzip = workers, lr\nworkers = 1,2\nlr = 0.1,0.2\n"
				   "[a]\nstrategy = allreduce\nbatch = 10,20\n"
				   "[b]\nstrategy = asgd\nworkers = 2..4\nlr = 0.2..0.4 by 0.1\n"
				   "zip = batch momentum\nbatch = 7,8\nmomentum = 0.7,0.8\n";
	reads(text, NULL, 0, &s);
	takes(&s, "workers", "1 1 2 2 2 2 3 3 4 4");
	takes(&s, "lr", "0.1 0.1 0.2 0.2 0.2 0.2 0.3 0.3 0.4 0.4");
	takes(&s, "batch", "10 20 10 20 7 8 7 8 7 8");
	takes(&s, "momentum", "0.9 0.9 0.9 0.9 0.7 0.8 0.7 0.8 0.7 0.8");
	ck_assert_str_eq(s.cell[5].what, "mlp, asgd, 2 workers, lr 0.2, batch 8, momentum 0.8");
	reads(text, &over, 1, &s); /* lists cross */
	ck_assert_uint_eq(s.cells, 2 * 2 * 3 + 3 * 2 * 3);
}

/* A cell is described by what varies in it, not by options of a plug-in that only another cell
 * has. */
TEST(options_of_plugins_describe_their_cells)
{
	struct sweep s ENDS_WITH(sweep_free) = {.cell = NULL};
	reads("[a]\noptimizer = adamw,sgd\nadamw.beta1 = 0.8,0.9\n", NULL, 0, &s);
	ck_assert_uint_eq(s.cells, 3);
	ck_assert_str_eq(s.cell[1].what, "mlp, serial, 1 worker, optimizer adamw, adamw.beta1 0.9");
	ck_assert_str_eq(s.cell[2].what, "mlp, serial, 1 worker, optimizer sgd");
}

/* A strategy that does not read an interval has one cell for all of them, which does not name it.
 */
TEST(interval_makes_no_cells_of_strategies_without_one)
{
	struct sweep s ENDS_WITH(sweep_free) = {.cell = NULL};
	reads("[a]\nstrategy = allreduce, periodic\nworkers = 2\nsync-every = 4, 16\n", NULL, 0,
	      &s);
	takes(&s, "sync-every", "1 4 16");
	ck_assert_uint_eq(s.duplicates, 1);
	ck_assert_str_eq(s.cell[0].what, "mlp, allreduce, 2 workers");
	ck_assert_str_eq(s.cell[1].what, "mlp, periodic, 2 workers, sync-every 4");
}

TEST(each_plugin_of_a_list_may_have_options)
{
	struct sweep s ENDS_WITH(sweep_free) = {.cell = NULL};
	reads("[a]\nstrategy = allreduce\nworkers = 2\n"
	      "codec = none, topk:share=0.05:of=tensors, topk:share=0.1, int8\n"
	      "exclude = codec=topk topk.share=0.1\n",
	      NULL, 0, &s);
	takes(&s, "codec", "none topk int8");
	takes(&s, "topk.share", "0.05");
	takes(&s, "topk.of", "tensors");
	ck_assert_uint_eq(s.excluded, 1);
}

TEST(excluded_cells_are_left_out)
{
	struct sweep s ENDS_WITH(sweep_free) = {.cell = NULL};
	static const char cross[] = "[a]\nstrategy = serial,asgd,periodic\nworkers = 1,2,4\n"
				    "periodic.start = 0,3\n";
	reads("[defaults]\nexclude = strategy=serial workers=2, 4\n"
	      "exclude = workers=1 strategy=asgd,periodic\n"
	      "[a]\nstrategy = serial,asgd\nworkers = 1,2,4\nlr = 0.10,0.2\n"
	      "exclude = lr=0.1 workers=2..3\n"
	      "[b]\nstrategy = asgd\nworkers = 1,2,4\nlr = 0.1\n",
	      NULL, 0, &s);
	takes(&s, "strategy", "serial serial asgd asgd asgd asgd");
	takes(&s, "workers", "1 1 2 4 4 2"); /* [a]'s exclude is not for [b]; the 4 is [a]'s */
	ck_assert_uint_eq(s.excluded, 4 + 2 + 1 + 1);
	ck_assert_uint_eq(s.duplicates, 1);
	/* excludes by an option of a plug-in, and by one that the file does not set */
	char *text AUTOFREE =
		sentence("%sexclude = periodic.start=3\nexclude = batch=32 workers=4\n", cross);
	reads(text, NULL, 0, &s);
	takes(&s, "strategy", "serial serial asgd asgd periodic periodic");
	takes(&s, "periodic.start", "0 0");
}

/* ---- Order --------------------------------------------------------------- */

static void orders(const char *text, int64_t seed, struct sweep *s)
{
	reads(text, NULL, 0, s);
	sweep_shuffle(s, seed);
}

/* Also if a section has seeds of its own: block k has each cell's k-th seed, not the seed k. */
TEST(block_has_every_configuration_once)
{
	static const char text[] = "[a]\nseed = 1..3\nlr = 0.1,0.2\n"
				   "[b]\nseed = 7..9\nepochs = 1..3\n[c]\nlr = 0.5\n";
	static const size_t in_round[] = {0, 6, 5, 5};
	struct sweep s ENDS_WITH(sweep_free) = {.cell = NULL};
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
}

/* Each of two cells comes first about equally often, independently in each block. */
TEST(each_block_is_shuffled_independently)
{
	enum { SEEDS = 400, ROUNDS = 2 };
	int first[ROUNDS] = {0}, alike = 0;
	struct sweep s ENDS_WITH(sweep_free) = {.cell = NULL},
		       t ENDS_WITH(sweep_free) = {.cell = NULL};
	for (int k = 0; k < SEEDS; k++) {
		bool is[ROUNDS];
		orders("[a]\nlr = 0.1\nseed = 1,2\n[b]\nlr = 0.2\nseed = 1,2\n", k, &s);
		for (int i = 0; i < ROUNDS; i++)
			first[i] += is[i] = strcmp(s.cell[2 * i].section, "a") == 0;
		alike += is[0] == is[1];
	}
	for (int i = 0; i < ROUNDS; i++)
		near(first[i], SEEDS / 2.0, 50); /* five standard deviations */
	near(alike, SEEDS / 2.0, 50);

	/* an added cell does not change the order of the others */
	orders("[a]\nlr = 0.1,0.2,0.3,0.4,0.5\n", 5, &s);
	orders("[a]\nlr = 0.1,0.2,0.3,0.4,0.5,0.6,0.7\n", 5, &t);
	for (size_t i = 0, k = 0; i < s.cells; i++, k++) {
		while (k < t.cells && strcmp(t.cell[k].hash, s.cell[i].hash) != 0)
			k++;
		ck_assert_uint_lt(k, t.cells);
	}
}

/* ---- Bad files ----------------------------------------------------------- */

TEST(bad_job_files_are_refused_with_their_line)
{
	static const struct {
		const char *text, *says;
	} row[] = {
		{"", "job.ini: there is nothing in it"},
		{"epochs = 1\n", "job.ini:1: epochs is in no section"},
		{"[a]\nepochs\n", "job.ini:2: "},
		{"[a\nepochs = 1\n", "job.ini:1: a section looks like [name]"},
		{"[]\nepochs = 1\n", "job.ini:1: a section looks like [name]"},
		{"\n[a]\n\nstratgy = asgd\n",
		 "job.ini:4: --stratgy: there is no such option; did you mean "
		 "--strategy?"},
		{"[a]\nstrategy = asgdd\n", "job.ini:2: --strategy=asgdd"},
		{"[a]\nepochs = 1,x\n", "job.ini:2: --epochs=x"},
		{"[a]\nepochs = 1,,2\n", "job.ini:2: epochs: the list \"1,,2\" has an empty item"},
		{"[a]\nepochs = 1,\n", "job.ini:2: epochs: the list"},
		{"[a]\nepochs = 5..1\n", "job.ini:2: epochs: the range 5..1"},
		{"[a]\nepochs = 0..2\n", "job.ini:2: --epochs=0"},
		{"[a]\nepochs = 1\nlr = 1\nepochs = 2\n",
		 "job.ini:4: epochs is already set on line 2"},
		{"[a]\nepochs = 1\n[a]\nlr = 1\n", "job.ini:3: [a] is already on line 1"},
		{"[a]\nepochs = 1\n[defaults]\nlr = 1\n",
		 "job.ini:3: [defaults] must be the first section"},
		{"[a]\nasgd.foo = 1\n", "job.ini:2: --asgd.foo"},
		{"[a]\nstrategy = allreduce # mean\n", "a comment begins with a semicolon"},
		{"[a]\nperiodic.strat = 1\n", "did you mean --periodic.start?"},
		{"[a]\ntransport = mpi,ipc\n", "job.ini:2: transport: give one value"},
		{"[a]\ndb = x\n[b]\ndb = y\nseed = 2\n", "job.ini:3: a sweep has one database"},
		{"[a]\nseed = 1..9999\nepochs = 1..9999\n", "job.ini:1: [a] makes more than"},
		{"[a]\nlr = 0.01..0.1\n",
		 "job.ini:2: lr: the range 0.01..0.1 has no step; write 0.01..0.1 by STEP"},
		{"[a]\nlr = 0.1..1 by 0\n",
		 "job.ini:2: lr: range 0.1..1 by 0: give a number above 0"},
		{"[a]\nlr = 0.1..1 log\n", "give a number above 0 after log"},
		{"[a]\nlr = 0.1..1 log 2.5\n", "give a whole number of at least 2"},
		{"[a]\nlr = 0.1..1 log 1\n", "give a whole number of at least 2"},
		{"[a]\nlr = 0..1 log 3\n", "begins at 0; a logarithmic range must"},
		{"[a]\nlr = 1..0.1 by 0.1\n", "does not rise"},
		{"[a]\nlr = 0..1 by 1e-9\n", "or has more than"},
		{"[a]\nepochs = 1..2 by 0.5\n", "job.ini:2: --epochs=1.5: give a whole number"},
		{"[a]\nlr = 0.1..1 to 3\n", "job.ini:2: --lr=0.1..1 to 3: give a number"},
		{"[a]\nlr = 1,2\nworkers = 1,2,3\nzip = lr, workers\n",
		 "job.ini:4: [a] zip: lr has 2 values and workers has 3; zipped lists"},
		{"[a]\nzip = lr workers\nlr = 1,2\n", "job.ini:2: [a] zip: workers is not set"},
		{"[a]\nlr = 1\nzip = lr\n", "job.ini:3: zip: give the names of at least two"},
		{"[a]\nlr=1\nseed=2\nbatch=3\nzip = lr seed\nzip = batch lr\n",
		 "job.ini:6: [a] zip: lr is already zipped with other lists"},
		{"[a]\nzip = lr lr\nlr = 1,2\n", "zip: lr is already zipped with other lists"},
		{"[a]\nexclude =\n", "job.ini:2: exclude: give conditions"},
		{"[a]\nexclude = workers\n", "job.ini:2: exclude: \"workers\" is not a condition"},
		{"[a]\nexclude = workers = 2\n", "\"workers\" is not a condition"},
		{"[a]\nexclude = =2\n", "is not a condition"},
		{"[a]\nexclude = workrs=2\n",
		 "job.ini:2: --workrs: there is no such option; did you"},
		{"[a]\nexclude = lr=0.1 workers=x\n",
		 "job.ini:2: --workers=x: give a whole number"},
		{"[a]\nexclude = codec=topk:share=0.1\n",
		 "exclude: codec=topk:share=0.1: give options as conditions of their own"},
		{"exclude = lr=0.1\n", "job.ini:1: exclude is in no section"},
		{"[a]\nworkers = 1,2\nexclude = workers=1..2\n",
		 "job.ini: its exclude lines leave no cell"},
	};
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct sweep s;
		folder_text("job.ini", row[i].text);
		char *wrong AUTOFREE = sweep_read("job.ini", NULL, 0, &s, NULL, true);
		ck_assert_msg(wrong != NULL, "accepted: %s", row[i].text);
		ck_assert_msg(strstr(wrong, row[i].says) != NULL, "\"%s\" does not say \"%s\"",
			      wrong, row[i].says);
		sweep_free(&s);
	}
}

TEST(too_long_job_file_line_is_refused)
{
	char text[600] = "[a]\nlabel = ";
	struct sweep s;
	memset(text + strlen(text), 'x', 400);
	folder_text("job.ini", text);
	char *wrong AUTOFREE = sweep_read("job.ini", NULL, 0, &s, NULL, true);
	ck_assert_ptr_nonnull(wrong);
	ck_assert_ptr_nonnull(strstr(wrong, "job.ini:2: a line has at most"));
	sweep_free(&s);
}

/* ---- The command --------------------------------------------------------- */

#define SWEEP(...) start_command(&command_sweep, (const char *const[]){__VA_ARGS__, NULL})

#define SMALL "[a]\nworkload = perceptron\nbatch = 100\nepochs = 1\n"

/* In a job file one interval is for all strategies. */
TEST(interval_on_the_command_line_without_effect_is_noted)
{
	static const char says[] = "--sync-every has no effect on some cells, such as those of "
				   "allreduce";
	folder_text("job.ini", SMALL "strategy = allreduce, periodic\nworkers = 2\n"
				     "sync-every = 4\n");
	ck_assert_int_eq(SWEEP("job.ini", "--db=r.db", "--dry-run"), EXIT_OK);
	expect_said("err", says, false);
	ck_assert_int_eq(SWEEP("job.ini", "--db=r.db", "--dry-run", "--sync-every=8"), EXIT_OK);
	expect_said("err", says, true);
}

TEST(interrupted_sweep_resumes)
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

/* mvbench, which lies next to the program of the tests. */
static char *mvbench_path(void)
{
	char *self AUTOFREE = program_path();
	return sentence("%.*s/mvbench", (int)(strrchr(self, '/') - self), self);
}

/* The watcher is stopped until the cell's process has ended, so that the signal comes too late for
 * this cell. The shell lets its background commands ignore SIGINT. */
TEST(signal_at_the_end_of_a_cell_ends_the_sweep)
{
	folder_text("job.ini",
		    "[a]\nworkload = perceptron\nbatch = 100\nepochs = 200\nseed = 1..4\n");
	char *program AUTOFREE = mvbench_path();
	char *command AUTOFREE = sentence(
		"ASAN_OPTIONS=detect_leaks=0 %s sweep job.ini --db=r.db >said 2>&1 & run=$!; "
		"for i in $(seq 1000); do pgrep -P $run >child && break; sleep 0.01; done; "
		"kill -STOP $run; for i in $(seq 400); do pgrep -r Z -P $run >child && break; "
		"sleep 0.05; done; kill -TERM $run; kill -CONT $run; wait $run; echo status $?; "
		"cat said",
		program);
	expect_command(EXIT_OK, command, "status 130\n");
	ck_assert_msg(strstr(output, "mvbench: interrupted; the same command continues\n"), "%s",
		      output);
	expect_in("r.db",
		  "SELECT sum(status = 'done') > 0, sum(status = 'failed'), "
		  "sum(status = 'pending') > 0 FROM run",
		  "1,0,1");
	ck_assert_int_eq(SWEEP("job.ini", "--db=r.db"), EXIT_OK);
	expect_said("out", "4 cells: 4 done, 0 diverged, 0 failed, 0 left; finished", true);
}

TEST(pending_signal_begins_no_cell)
{
	folder_text("job.ini", SMALL "seed = 1,2\n");
	char *program AUTOFREE = mvbench_path();
	char *command AUTOFREE = sentence("env --block-signal=INT sh -c 'kill -INT $$; exec %s "
					  "sweep job.ini --db=r.db' 2>&1",
					  program);
	expect_command(EXIT_INTERRUPTED, command, "2 cells: 0 done, 0 diverged, 0 failed, 2 left");
	ck_assert_msg(strstr(output, "mvbench: interrupted; the same command continues\n"), "%s",
		      output);
	expect_in("r.db", "SELECT group_concat(status) FROM run", "pending,pending");
}

/* Drift of a machine must not affect one section or one seed only. The database records the
 * order; rows are numbered as in the file. */
TEST(lines_of_cells_fit_the_terminal)
{
	static const char *const how[] = {"--dry-run", "--retry"};
	folder_text("job.ini", "[a section whose name has several words]\nworkload = perceptron\n"
			       "batch = 100\nepochs = 1\nseed = 1,2\n");
	setenv("COLUMNS", "70", 1);
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(SWEEP("job.ini", "--db=r.db", how[i]), EXIT_OK);
		expect_said("out", "[a section whose name has several words]", true);
		expect_said("out", "seed 2", true);
		char *out AUTOFREE = folder_read("out");
		for (char *line = strtok(out, "\n"); line; line = strtok(NULL, "\n"))
			ck_assert_msg(strlen(line) <= 70, "%s", line);
	}
}

TEST(sweep_runs_in_blocks_and_records_them)
{
	folder_text("job.ini",
		    SMALL "seed = 1,2\n[b]\nworkload = perceptron\nbatch = 200\nepochs = 1\n"
			  "seed = 1,2\n");
	ck_assert_int_eq(SWEEP("job.ini", "--db=r.db", "--order-seed=3"), EXIT_OK);
	static const char *const seed_of[] = {"1/4", "seed 1", "2/4", "seed 1",
					      "3/4", "seed 2", "4/4", "seed 2"};
	char *out AUTOFREE = folder_read("out");
	const char *at = out;
	for (size_t i = 0; i < COUNT(seed_of); i++)
		ck_assert_msg((at = strstr(at, seed_of[i])), "no %s in its place: %s", seed_of[i],
			      out);
	expect_in("r.db",
		  "SELECT group_concat(batch || ':' || seed || ':' || sweep_round || ':' || "
		  "sweep_seed, ' ') FROM (SELECT * FROM run ORDER BY id)",
		  "100:1:1:3 100:2:2:3 200:1:1:3 200:2:2:3");
	ck_assert_int_eq(SWEEP("job.ini", "--db=f.db", "--order=file"), EXIT_OK);
	expect_in("f.db",
		  "SELECT group_concat(batch || ':' || seed, ' ') FROM run "
		  "WHERE sweep_round IS NULL AND sweep_seed IS NULL ORDER BY id",
		  "100:1 100:2 200:1 200:2");
}

/* Cells that an interrupted sweep left pending run in the order of the sweep that resumes. */
TEST(pending_cells_run_in_the_order_of_the_resuming_sweep)
{
	folder_text("job.ini", SMALL);
	ck_assert_int_eq(SWEEP("job.ini", "--db=r.db", "--order-seed=3"), EXIT_OK);
	sql_in("r.db", "UPDATE run SET status = 'pending'");
	ck_assert_int_eq(SWEEP("job.ini", "--db=r.db", "--order-seed=4"), EXIT_OK);
	expect_in("r.db", "SELECT group_concat(id || status || sweep_seed) FROM run", "1done4");
}

/* Combinations that the options forbid are not failures. */
TEST(refused_combinations_are_counted_as_refused)
{
	folder_text("job.ini", SMALL "workers = 1, 2\n");
	ck_assert_int_eq(SWEEP("job.ini", "--db=r.db"), EXIT_OK);
	expect_said("out", "1 cell: 1 done, 0 diverged, 0 failed, 0 left, 1 refused\n", true);
	expect_said("out", " epoch in ", true);
	/* a cell that was refused when it began */
	sql_in("r.db",
	       "UPDATE run SET status = 'failed', reason = 'refused: no room' WHERE id = 1");
	ck_assert_int_eq(SWEEP("job.ini", "--db=r.db"), EXIT_USER);
	expect_said("out", "0 done, 0 diverged, 0 failed, 0 left, 2 refused", true);
	expect_in("r.db", "SELECT lacks FROM lacking", "refused");
}

/* Other data in the same files are another cell; the same data again are the old one. */
TEST(changed_data_are_another_cell)
{
	folder_text("job.ini", "[a]\nworkload = softmax\nbatch = 100\nepochs = 1\ndata-dir = .\n");
	idx_put_set(600, 60, false, '-');
	ck_assert_int_eq(SWEEP("job.ini", "--db=r.db"), EXIT_OK);
	idx_put_set(500, 60, false, '-');
	ck_assert_int_eq(SWEEP("job.ini", "--db=r.db", "--dry-run"), EXIT_OK);
	expect_said("out", "1 cell, 1 to run, 0 finished", true);
	expect_said("err",
		    "mvbench: the data have changed: 1 of these cells ended with other data "
		    "(data-hash ",
		    true);
	expect_said("err", " now has ", true);
	ck_assert_int_eq(SWEEP("job.ini", "--db=r.db"), EXIT_OK);
	expect_in("r.db",
		  "SELECT count(*), count(DISTINCT data_hash), count(DISTINCT config_hash), "
		  "count(DISTINCT config_key), min(length(data_hash)) FROM run JOIN run_figures ON "
		  "run_id = id",
		  "2,2,2,2,16");
	idx_put_set(600, 60, false, '-');
	ck_assert_int_eq(SWEEP("job.ini", "--db=r.db", "--dry-run"), EXIT_OK);
	expect_said("out", "1 cell, 0 to run, 1 finished", true);
	expect_said("err", "the data have changed", false);
	/* as many rows, one byte of which is another */
	size_t n;
	char *path AUTOFREE = sentence("%s/t10k-images-idx3-ubyte", folder);
	char *images AUTOFREE = bytes_read(path, &n);
	FILE *f = fopen(path, "w");
	images[n - 1] ^= 1;
	ck_assert_uint_eq(fwrite(images, 1, n, f), n);
	fclose(f);
	ck_assert_int_eq(SWEEP("job.ini", "--db=r.db", "--dry-run"), EXIT_OK);
	expect_said("out", "1 cell, 1 to run, 0 finished", true);
}

/* A table of the new label would be empty. */
TEST(finished_cells_of_another_label_are_named)
{
	folder_text("job.ini", SMALL "seed = 1,2\n");
	for (size_t i = 0; i < 2; i++) {
		ck_assert_int_eq(SWEEP("job.ini", "--db=r.db"), EXIT_OK);
		expect_said("err", "label", false);
		ck_assert_int_eq(SWEEP("job.ini", "--db=r.db", "--label=new"), EXIT_OK);
		expect_said("out", "finished cells were not run again", true);
		char *says AUTOFREE = sentence(
			"mvbench: 2 finished cells have another label than new, such as %s; "
			"mvbench relabel new 1 2 --db=r.db changes it\n",
			i ? "mine" : "none");
		expect_said("err", says, true);
		sql_in("r.db", "UPDATE run SET label = 'mine'");
	}
	sql_in("r.db", "UPDATE run SET label = 'new'");
	ck_assert_int_eq(SWEEP("job.ini", "--db=r.db", "--label=new"), EXIT_OK);
	expect_said("err", "label", false);
}

/* Only the program starts the simulator. */
static void simulated_sweep(void)
{
	char *program AUTOFREE = mvbench_path();
	char *command AUTOFREE = sentence("%s sweep job.ini --db=r.db 2>&1", program);
	expect_command(EXIT_OK, command, "1 cell: 1 done");
}

/* gpt's text is that of the machine, also without --data-dir. */
TEST(texts_of_a_machine_have_a_hash)
{
	folder_text("job.ini", "[a]\nworkload = gpt\nplatform = sim\nsim.platform = ethernet_10g\n"
			       "sim.step-time = 1ms\nsim.train = false\nepochs = 1\n");
	simulated_sweep();
	expect_in("r.db", "SELECT length(data_hash) FROM run", "16");
}

/* Only the content of a user's platform file counts, not its name. */
TEST(changed_platform_file_is_another_cell)
{
	folder_text("job.ini", SMALL "platform = sim\nsim.platform = ./p.xml\nsim.step-time = 1ms\n"
				     "sim.train = false\n");
	put_hosts("p.xml", 2, 1, 0);
	simulated_sweep();
	put_hosts("p.xml", 3, 1, 0);
	ck_assert_int_eq(SWEEP("job.ini", "--db=r.db", "--dry-run"), EXIT_OK);
	expect_said("out", "1 cell, 1 to run, 0 finished", true);
	simulated_sweep();
	expect_in("r.db",
		  "SELECT count(DISTINCT sim_platform_hash), count(DISTINCT config_key), "
		  "min(length(sim_platform_hash)) FROM run JOIN run_figures ON run_id = id",
		  "2,2,16");
	put_hosts("p.xml", 2, 1, 0);
	ck_assert_int_eq(SWEEP("job.ini", "--db=r.db", "--dry-run"), EXIT_OK);
	expect_said("out", "1 cell, 0 to run, 1 finished", true);
}

TEST(diverged_cell_does_not_stop_a_sweep)
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

/* ---- The same with Slurm ------------------------------------------------- */

#define SUBMIT(...) start_command(&command_submit, (const char *const[]){__VA_ARGS__, NULL})

/* Ranks of a machine: those of the largest cell, including servers that it gets automatically. */
TEST(sweep_becomes_slurm_jobs)
{
	folder_text("job.ini",
		    "[a]\nworkload = softmax\nstrategy = allreduce, asgd\nworkers = 3, 5\n"
		    "threads = 2\n");
	ck_assert_int_eq(SUBMIT("job.ini", "--dry-run", "--array=4", "--nodes=2", "--db=a b.db",
				"--sbatch=--time=1:00:00", "--epochs=2", "--label=it's",
				"--trace=2"),
			 EXIT_OK);
	static const char *const lines[] = {
		"#SBATCH --job-name=job\n",
		"#SBATCH --time=1:00:00\n#SBATCH --array=1-4\n#SBATCH --nodes=2\n"
		"#SBATCH --ntasks-per-node=4\n#SBATCH --cpus-per-task=2\n",
		"scontrol show hostnames >\"$hosts\"\n",
		"/job.ini --epochs=2 --label='it'\\''s' --trace=2 "
		"--share=\"$SLURM_ARRAY_TASK_ID/4\" "
		"--db='a b'-\"$SLURM_ARRAY_TASK_ID\"-of-4.db\n",
		"for part in 'a b'-[0-9]*-of-4.db; do\n",
		" import \"$part\" --db='a b.db' || bad=1\n"};
	for (size_t i = 0; i < COUNT(lines); i++)
		expect_said("out", lines[i], true);
	folder_text("own.ini", "[defaults]\ndb = own.db\n[a]\nworkload = softmax\n");
	ck_assert_int_eq(SUBMIT("own.ini", "--dry-run"), EXIT_OK);
	expect_said("out", " --db=own-\"$SLURM_ARRAY_TASK_ID\"-of-1.db\n", true);
	expect_said("out", " table --db=own.db\n", true);
	ck_assert_int_eq(SUBMIT("job.ini", "--dry-run"), EXIT_OK);
	expect_said("out", "--ntasks-per-node=5\n", true);
	expect_said("out", "scontrol", false);
	/* a shell that srun started may submit, but not start workers */
	setenv("PMIX_RANK", "0", 1);
	ck_assert_int_eq(SUBMIT("job.ini", "--dry-run"), EXIT_OK);
	ck_assert_int_eq(SWEEP("job.ini"), EXIT_USER);
	unsetenv("PMIX_RANK");
	expect_said("err", "run it without mpirun or srun", true);
	ck_assert_int_eq(SUBMIT("job.ini", "--dry-run", "--array=5"), EXIT_USER);
	expect_said("err", "--array=5: there are 4 cells", true);
	ck_assert_int_eq(SUBMIT("job.ini", "--workers=0"), EXIT_USER);
	char *before AUTOFREE = must(strdup(getenv("PATH")));
	setenv("PATH", "/nowhere", 1);
	ck_assert_int_eq(SUBMIT("job.ini"), EXIT_USER);
	setenv("PATH", before, 1);
	expect_said("err", "sbatch did not take the job", true);
}

TEST(damaged_part_keeps_no_other_out_of_a_merge)
{
	folder_text("job.ini", SMALL "seed = 1,2\n");
	ck_assert_int_eq(SWEEP("job.ini", "--db=r-2-of-2.db"), EXIT_OK);
	folder_text("r-1-of-2.db", "no database");
	ck_assert_int_eq(SUBMIT("job.ini", "--dry-run", "--array=2", "--db=r.db"), EXIT_OK);
	char *self AUTOFREE = program_path();
	char *command AUTOFREE =
		sentence("sed '1,/ended:/d; s|%s|%.*s/mvbench|' %s/out >%s/merge; cd %s; "
			 "sh merge 2>&1",
			 self, (int)(strrchr(self, '/') - self), self, folder, folder, folder);
	expect_command(1, command, "r-1-of-2.db");
	expect_in("r.db", "SELECT count(*) FROM run WHERE status = 'done'", "2");
}

TEST(jobs_run_side_by_side)
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

/* Each cell takes at least 1.5 s: when the first two have ended, the bar counts them for as long.
 */
TEST(jobs_side_by_side_show_the_time_left)
{
	char shown[65536], *self AUTOFREE = program_path();
	if (lacks_program("script"))
		return;
	folder_text("job.ini", SMALL "step-time = 15ms\nseed = 1..4\n");
	char *command AUTOFREE =
		sentence("TERM=xterm script -qec '%.*s/mvbench sweep job.ini --db=r.db --jobs=2' "
			 "/dev/null </dev/null 2>&1",
			 (int)(strrchr(self, '/') - self), self);
	command_output(command, shown, sizeof shown);
	ck_assert_msg(strstr(shown, "\rcell 2/4 [") && strstr(shown, "  50 %  ETA 0:0"), "%s",
		      shown);
	/* the line of a cell, and the sum, take the place of the bar */
	ck_assert_msg(strstr(shown, "\r\033[K4/4 [a] ") && strstr(shown, "\r\033[K4 cells: 4 done"),
		      "%s", shown);
}

/* The refusal comes before cells are written down. */
TEST(jobs_that_disturb_each_other_are_refused)
{
	folder_text("job.ini", SMALL "quiet-wait = 1s\n");
	ck_assert_int_eq(SWEEP("job.ini", "--db=r.db", "--jobs=2"), EXIT_USER);
	expect_said("err", "--jobs=2", true);
	ck_assert(access("r.db", F_OK) != 0);
}

/* Every cell is in one part, and in the same one whatever else is in the file. */
TEST(every_cell_is_in_one_share)
{
	enum { PARTS = 3 };
	folder_text("job.ini", SMALL "seed = 1..12\n");
	for (int i = 1; i <= PARTS; i++) {
		char *share AUTOFREE = sentence("--share=%d/%d", i, PARTS);
		ck_assert_int_eq(SWEEP("job.ini", "--db=r.db", share), EXIT_OK);
		expect_said("out", "not run again", false);
	}
	expect_in("r.db", "SELECT count(*) || min(status) FROM run", "12done");
	folder_text("job.ini", SMALL "seed = 3..5\n");
	for (int i = 1; i <= PARTS; i++) {
		char *share AUTOFREE = sentence("--share=%d/%d", i, PARTS);
		ck_assert_int_eq(SWEEP("job.ini", "--db=r.db", share), EXIT_OK);
	}
	expect_in("r.db", "SELECT count(*) FROM run", "12");
	ck_assert_int_eq(SWEEP("job.ini", "--db=r.db", "--share=4/3"), EXIT_USER);
	expect_said("err", "not a part I/N", true);
}

/* The second sweep takes free cells, and neither runs a cell of the other. */
TEST(two_sweeps_share_their_cells)
{
	int status = -1;
	folder_text("job.ini", SMALL "seed = 1..8\n");
	pid_t other = fork();
	if (other == 0)
		_exit(SWEEP("job.ini", "--db=r.db", "--order-seed=2"));
	int mine = SWEEP("job.ini", "--db=r.db");
	ck_assert_int_eq(waitpid(other, &status, 0), other);
	ck_assert_msg(mine <= EXIT_FAILED && WEXITSTATUS(status) <= EXIT_FAILED, "%d and %d", mine,
		      WEXITSTATUS(status));
	expect_in("r.db", "SELECT count(*) || ' ' || count(DISTINCT seed) || min(status) FROM run",
		  "8 8done");
}

/* Another container with the same host name and folder: its processes have other numbers. Here one
 * sweep has a PID namespace of its own; it begins while the other one runs its cells. */
TEST(sweeps_of_two_pid_spaces_share_their_cells)
{
	static char said[16384];
	if (command_output("unshare -rpf --mount-proc true 2>&1", said, sizeof said) != 0) {
		skipped("no PID namespaces here");
		return;
	}
	folder_text("job.ini", SMALL "step-time = 5ms\nseed = 1..8\n");
	char *self AUTOFREE = program_path();
	char *line AUTOFREE = sentence(
		"s='timeout 100 %.*s/mvbench sweep job.ini --db=r.db'; $s >first 2>&1 & p=$!; "
		"until [ \"$(sqlite3 -cmd '.timeout 5000' r.db \"SELECT count(*) FROM run WHERE "
		"status = 'running'\" 2>/dev/null)\" = 1 ] || ! kill -0 $p; do sleep 0.02; done; "
		"unshare -rpf --mount-proc $s --order-seed=2 2>&1; a=$?; wait $p; b=$?; "
		"[ $a -le 1 ] && [ $b -le 1 ] || { echo ended with $a and $b; cat first; }",
		(int)(strrchr(self, '/') - self), self);
	int status = command_output(line, said, sizeof said);
	ck_assert_msg(status == 0 && !strstr(said, "ended with"), "%s", said);
	expect_in("r.db",
		  "SELECT count(*) || ' ' || count(DISTINCT seed) || ' ' || group_concat(DISTINCT "
		  "status) FROM run",
		  "8 8 done");
	/* both ran some: a name ends with the start of its process, after the namespaces */
	expect_in("r.db", "SELECT count(DISTINCT rtrim(process, '0123456789')) FROM run", "2");
}

/* A cell is taken while the process in its row lives; after that it is free again. */
TEST(cell_of_a_living_process_is_skipped)
{
	folder_text("job.ini", SMALL);
	ck_assert_int_eq(SWEEP("job.ini", "--db=r.db"), EXIT_OK);
	sql_in("r.db",
	       "UPDATE run SET status = 'pending', pid = 1, process = NULL, started = NULL");
	ck_assert_int_eq(SWEEP("job.ini", "--db=r.db"), EXIT_FAILED);
	expect_said("out", "is run by process 1 on ", true);
	expect_said("out", "1 left", true);
	sql_in("r.db", "UPDATE run SET pid = 1, started = '2001-01-01T00:00:00Z'");
	ck_assert_int_eq(SWEEP("job.ini", "--db=r.db"), EXIT_OK);
	expect_in("r.db", "SELECT group_concat(id || status) FROM run", "1done");
}

/* Also those that ran already when the sweep began. A cell that ends meanwhile is not left. */
TEST(sweep_names_cells_that_others_have)
{
	folder_text("job.ini", SMALL "seed = 1..4\n");
	ck_assert_int_eq(SWEEP("job.ini", "--db=r.db"), EXIT_OK);
	char *set AUTOFREE =
		sentence("UPDATE run SET status = 'running', finished = NULL, process = NULL, "
			 "pid = %d WHERE seed "
			 "= 2; UPDATE run SET status = 'pending', pid = 1, process = NULL, "
			 "started = NULL WHERE "
			 "seed = 3",
			 (int)getpid());
	sql_in("r.db", set);
	ck_assert_int_eq(SWEEP("job.ini", "--db=r.db"), EXIT_FAILED);
	char *who AUTOFREE =
		sentence("seed 2: is run by process %d on %s\n", (int)getpid(), machine()->host);
	expect_said("err", who, true);
	expect_said("err", "seed 3: is run by process 1 on ", true);
	expect_said("err", "seed 1", false);
	expect_said("out", "2 done, 0 diverged, 0 failed, 2 left", true);
}

/* Another process runs seed 2 when the sweep begins, and ends it while the sweep runs seed 1. */
TEST(cell_that_ends_meanwhile_is_not_left)
{
	folder_text("job.ini", SMALL "step-time = 50ms\nseed = 1,2\n");
	ck_assert_int_eq(SWEEP("job.ini", "--db=r.db"), EXIT_OK);
	char *set AUTOFREE =
		sentence("UPDATE run SET status = 'running', finished = NULL, process = NULL, "
			 "pid = %d WHERE seed "
			 "= 2; DELETE FROM run WHERE seed = 1",
			 (int)getpid());
	sql_in("r.db", set);
	pid_t other = fork();
	if (other == 0) {
		for (int i = 0; i < 2000; i++) {
			if (number_in("r.db", "SELECT count(*) FROM run WHERE seed = 1 AND "
					      "status = 'running'") == 1)
				break;
			usleep(10000);
		}
		sql_in("r.db", "UPDATE run SET status = 'done' WHERE seed = 2");
		_exit(0);
	}
	int status = SWEEP("job.ini", "--db=r.db");
	waitpid(other, NULL, 0);
	expect_said("err", "left:", false);
	expect_said("out", "2 done, 0 diverged, 0 failed, 0 left", true);
	ck_assert_int_eq(status, EXIT_OK);
}

/* Starts mvbench watch in a child; its output goes to the file watched. */
static pid_t start_watch(void)
{
	char *argv[] = {"--db=r.db", "--every=0.2"};
	pid_t child = fork();
	if (child == 0) {
		if (!freopen("watched", "w", stdout))
			_exit(99);
		int status = command_start(&command_watch, 2, argv);
		fflush(NULL);
		_exit(status);
	}
	return child;
}

/* Waits until it has printed once. */
static void wait_for_watch(void)
{
	bool seen = false;
	for (int i = 0; i < 200 && !seen; i++) {
		char *said AUTOFREE = access("watched", R_OK) == 0 ? folder_read("watched") : NULL;
		seen = said && strstr(said, "pending");
		usleep(50000);
	}
	ck_assert(seen);
}

/* Cells that are done, one that a living process runs, and one that is pending. */
static void work_under_way(void)
{
	folder_text("job.ini", SMALL "seed = 1..4\n");
	ck_assert_int_eq(SWEEP("job.ini", "--db=r.db"), EXIT_OK);
	char *set AUTOFREE = sentence(
		"UPDATE run SET started = strftime('%%Y-%%m-%%dT%%H:%%M:%%SZ', 'now', '-10 "
		"seconds'); "
		"UPDATE run SET status = 'running', finished = NULL, epochs = 4, process = NULL, "
		"pid = %d WHERE seed = 3; UPDATE run SET status = 'pending', started = NULL, "
		"finished = NULL, pid = NULL WHERE seed = 4; UPDATE epoch SET seconds = "
		"0.5, test_accuracy = 0.75 WHERE epoch = 1; UPDATE run SET train_size = "
		"600",
		(int)getpid());
	sql_in("r.db", set);
}

TEST(sweep_is_watched_until_its_end)
{
	int status = -1;
	work_under_way();
	pid_t watch = start_watch();
	wait_for_watch();
	sql_in("r.db", "UPDATE run SET status = 'done', started = "
		       "strftime('%Y-%m-%dT%H:%M:%SZ', 'now'), finished = "
		       "strftime('%Y-%m-%dT%H:%M:%SZ', 'now') WHERE seed > 2");
	ck_assert_int_eq(waitpid(watch, &status, 0), watch);
	ck_assert_int_eq(WEXITSTATUS(status), EXIT_OK);
	expect_said("watched", "2/4 cells done, 1 running, 1 pending, about ", true);
	expect_said("watched", ", seed 3: epoch 1/4, 0.5 s an epoch, 1200 samples/s, loss ", true);
	expect_said("watched", "accuracy 75.00 %\n", true);
	expect_said("watched", "4/4 cells done, 0 running, 0 pending\nnothing is left\n", true);
	expect_said("watched", "\033", false); /* the file is no terminal */
}

TEST(watch_ends_at_a_signal_and_leaves_nothing)
{
	int status = -1;
	work_under_way();
	pid_t watch = start_watch();
	wait_for_watch();
	ck_assert_int_eq(kill(watch, SIGINT), 0);
	ck_assert_int_eq(waitpid(watch, &status, 0), watch);
	ck_assert(WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), EXIT_INTERRUPTED);
	ck_assert_int_eq(access("r.db-wal", F_OK), -1);
	ck_assert_int_eq(access("r.db-shm", F_OK), -1);
	expect_in("r.db", "SELECT group_concat(status) FROM (SELECT status FROM run ORDER BY seed)",
		  "done,done,running,pending");
}

/* Without a progress bar, a long cell is reported once a minute. The time left of a resumed cell
 * follows from the epochs since then. */
TEST(long_cell_is_logged_once_a_minute)
{
	int status = -1;
	pid_t child = fork();
	if (child == 0) {
		struct status_page *page = must(calloc(1, sizeof *page + sizeof(struct epoch_row)));
		struct progress p = {.before = "3/24 asgd "};
		if (!freopen("err", "w", stderr))
			_exit(99);
		*page = (struct status_page){
			.state = STATUS_TRAINING, .epochs = 4, .epoch = 3, .step = 5, .steps = 10};
		progress_start(&p);
		progress_tick(&p, page);
		p.drawn -= INT64_C(61000000000);
		progress_tick(&p, page);
		progress_tick(&p, page);
		page->step = 10;
		p.began -= INT64_C(100000000000);
		p.drawn -= INT64_C(61000000000);
		progress_tick(&p, page);
		fflush(NULL);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	char *said AUTOFREE = folder_read("err");
	ck_assert_msg(strncmp(said,
			      "3/24 asgd epoch 3/4   62 %\n3/24 asgd epoch 3/4   75 %  ETA 3:2",
			      60) == 0,
		      "%s", said);
}

/* Nothing in the first second; then the part that is done, and an estimate from it. */
TEST(meter_shows_the_part_and_the_time_left)
{
	int status = -1;
	pid_t child = fork();
	if (child == 0) {
		struct meter m;
		if (!freopen("err", "w", stderr))
			_exit(99);
		meter_start(&m, "table", 4);
		m.terminal = true;
		meter_step(&m, 1);
		fputs("(after a second)", stderr);
		m.began -= INT64_C(30000000000);
		meter_step(&m, 1);
		m.later = 4; /* (2 + 4) * 15 s, and another minute */
		m.later_s = 60;
		m.drawn = 0;
		meter_step(&m, 2);
		meter_end(&m);
		fflush(NULL);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	char *said AUTOFREE = folder_read("err");
	ck_assert_msg(strncmp(said, "(after a second)\rtable 1/4 [", 28) == 0 &&
			      strstr(said, "  25 %  ETA 1:30") &&
			      strstr(said, "  50 %  ETA 2:30") && strstr(said, "\r\033[K"),
		      "%s", said);
}

/* Processor seconds of reading a job file of n sections, each with one cell, the last one twice. */
static double read_seconds(int n)
{
	struct sweep s ENDS_WITH(sweep_free) = {.cell = NULL};
	struct text t;
	FILE *f = text_open(&t);
	fputs(SMALL, f);
	for (int i = 2; i <= n; i++)
		fprintf(f, "[s%d]\nseed = %d\n", i, i < n ? i : 2);
	char *text AUTOFREE = text_close(&t);
	clock_t began = clock();
	reads(text, NULL, 0, &s);
	ck_assert_uint_eq(s.cells, (size_t)n - 1);
	ck_assert_uint_eq(s.duplicates, 1);
	return (double)(clock() - began) / CLOCKS_PER_SEC;
}

/* Eight times the sections take about eight times as long, not 64 times. */
TEST(long_job_file_is_read_in_linear_time)
{
	double few = read_seconds(2500), many = read_seconds(20000);
	ck_assert_msg(many < 20 * few, "2,500 sections: %g s, 20,000: %g s", few, many);
}

TEST(job_file_that_does_not_end_is_refused)
{
	ck_assert_int_eq(SWEEP("/dev/zero", "--db=r.db", "--dry-run"), EXIT_USER);
	expect_said("err", "a job file is a plain file or a pipe", true);
	FILE *f = fopen("job.ini", "w");
	ck_assert_int_eq(fseek(f, 17 << 20, SEEK_SET) | fputc('\n', f), '\n');
	ck_assert_int_eq(fclose(f), 0);
	ck_assert_int_eq(SWEEP("job.ini", "--db=r.db", "--dry-run"), EXIT_USER);
	expect_said("err", "a job file has at most 16 MiB", true);
}

TEST(job_file_can_be_a_pipe)
{
	struct sweep s ENDS_WITH(sweep_free) = {.cell = NULL};
	int fd[2];
	ck_assert_int_eq(pipe(fd), 0);
	ck_assert_int_eq(write(fd[1], SMALL, strlen(SMALL)), strlen(SMALL));
	close(fd[1]);
	char *path AUTOFREE = sentence("/dev/fd/%d", fd[0]);
	char *wrong AUTOFREE = sweep_read(path, NULL, 0, &s, NULL, true);
	ck_assert_msg(!wrong, "%s", wrong);
	ck_assert_uint_eq(s.cells, 1);
	close(fd[0]);
}

TEST(sweep_with_an_invalid_cell_writes_nothing)
{
	folder_text("job.ini", SMALL "[b]\nworkers = 2\n");
	ck_assert_int_eq(SWEEP("job.ini", "--db=r.db"), EXIT_USER);
	expect_said("err", "job.ini:5: [b]", true);
	ck_assert_int_eq(access("r.db", F_OK), -1);
	folder_text("job.ini", SMALL);
	ck_assert_int_eq(SWEEP("job.ini", "--db=r.db", "--dry-run"), EXIT_OK);
	expect_said("out", "1 cell, 1 to run", true);
	ck_assert_int_eq(access("r.db", F_OK), -1);
	folder_text("job.ini", SMALL "lr = 0.1..0.3 by 0.1\nexclude = lr=0.2\n");
	ck_assert_int_eq(SWEEP("job.ini", "--db=r.db", "--dry-run"), EXIT_OK);
	expect_said("out", "[a] perceptron, serial, 1 worker, lr 0.3", true);
	expect_said("out", "lr 0.2", false);
	expect_said("out", "0 equal to another, 1 excluded", true);
	ck_assert_int_eq(SWEEP("lost.ini", "--db=r.db"), EXIT_USER);
	expect_said("err", "lost.ini: there is no such job file", true);
}
