/*
 * check_ask.c - the commands that query the database: two runs or configurations compared, a
 * configuration over commits with its steps, and tables sorted and cut.
 */
#include "results/ask/ask.h"
#include "tests/fixture.h"
#include "tests/made.h"
#include "tests/suites.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void set_up(void)
{
	folder_new();
	new_database("run.db");
}

/* ---- Made runs ----------------------------------------------------------- */

struct made {
	const char *workload, *strategy, *label, *commit;
	int workers, seed, day; /* day: when it was made */
	double accuracy[4];     /* of its epochs; ends at 0 */
	double seconds;         /* of each; all are equal */
	int batch;
};

static void add(struct made m)
{
	struct text t;
	FILE *f = text_open(&t);
	fprintf(f,
		INSERT_RUN(", train_size, test_size, params, host, cpu, label, git_commit, "
			   "git_dirty, started",
			   "'running', 'h%d', '%s', '%s', %d, %d, 4, %d, 1, 'mpi', 0, 1000, 0, 7, "
			   "'here', 'a CPU', '%s', '%s', 0, '2026-01-%02dT00:00:00Z';"),
		m.seed, m.workload ? m.workload : "mlp", m.strategy, m.workers, m.seed,
		m.batch ? m.batch : 64, m.label ? m.label : "", m.commit, m.day);
	for (int e = 0; e < 4 && m.accuracy[e] > 0; e++)
		fprintf(f,
			"INSERT INTO epoch (run_id, epoch, seconds, test_loss, test_accuracy, "
			"bytes_sent) SELECT max(id), %d, %.17g, %.17g, %.17g, %d FROM run;",
			e + 1, m.seconds, 1 - m.accuracy[e], m.accuracy[e], 1000 * m.workers);
	fputs("UPDATE run SET status = 'done' WHERE id = (SELECT max(id) FROM run)", f);
	char *sql AUTOFREE = text_close(&t);
	sql_in("run.db", sql);
}

/* serial and asgd with three seeds each: paired differences of -0.8, -1.0 and -1.2 points. */
static void add_two(void)
{
	for (int seed = 1; seed <= 3; seed++) {
		add((struct made){.strategy = "serial",
				  .workers = 1,
				  .seed = seed,
				  .commit = "abc",
				  .day = 1,
				  .accuracy = {0.3, 0.5, 0.7, 0.8 + 0.01 * seed},
				  .seconds = 2 + 0.01 * seed});
		add((struct made){.strategy = "asgd",
				  .workers = 2,
				  .seed = seed,
				  .commit = "def",
				  .day = 2,
				  .accuracy = {0.2, 0.4, 0.6, 0.794 + 0.008 * seed},
				  .seconds = 1 + 0.01 * seed});
	}
}

static void says(int status, const char *words, const char *text)
{
	char *command AUTOFREE = sentence("./mvbench %s --db=%s/run.db 2>&1", words, folder);
	expect_command(status, command, text);
}

static void silent(const char *text)
{
	ck_assert_msg(!strstr(output, text), "\"%s\" in\n%s", text, output);
}

/* ---- compare --------------------------------------------------------------- */

CASE("commands", .limit = 60, .set_up = set_up, .tear_down = folder_free);

TEST(two_configurations_are_compared)
{
	add_two();
	says(EXIT_OK, "compare serial 'asgd 2w'",
	     "side  workload  configuration  runs      ids        from          to\n"
	     "----  --------  -------------  ----  -------  ----------  ----------\n"
	     "A     mlp       serial            3  1, 3, 5  2026-01-01  2026-01-01\n"
	     "B     mlp       asgd 2w           3  2, 4, 6  2026-01-02  2026-01-02\n\n"
	     "setting   A       B\n"
	     "--------  ------  ----\n"
	     "strategy  serial  asgd\n"
	     "workers   1       2\n"
	     "commit    abc     def\n\n");
	/* the mean difference, its interval by t of 2 degrees of freedom, 4.303 * 0.2 / sqrt(3),
	 * and p of t = 1 / (0.2 / sqrt(3)) */
	ck_assert_msg(strstr(output,
			     "accuracy %      82.00 (81.00..83.00, 75 %)  81.00 (80.20..81.80, "
			     "75 %)        -1.00 (-1.50..-0.50)"),
		      "%s", output);
	ck_assert_msg(strstr(output, "worse, p = 0.013 (t, 3 pairs)\n"), "%s", output);
	ck_assert_msg(strstr(output, "better, p < 0.0001 (Welch, 3 and 3 runs)\n"), "%s", output);
	ck_assert_msg(
		strstr(output,
		       "bytes an epoch                       1,000                       2,000"),
		"%s", output);
	/* as in the table */
	says(EXIT_OK,
	     "table --versus=serial --format=json --where=\"strategy = 'asgd' OR seed < 4\"",
	     "\"test_accuracy_p_worse\": 0.0065");
	/* the sides exchanged */
	says(EXIT_OK, "compare 'mlp asgd 2w' serial", "better, p = 0.013 (t, 3 pairs)\n");
	ck_assert(strstr(output, "+1.00 (+0.50..+1.50)"));
}

/* The interval of a pair is narrower than that of a table, which has the correction for its rows.
 */
TEST(comparison_says_what_its_columns_are)
{
	add_two();
	says(EXIT_OK, "compare serial 'asgd 2w'", "\nA, B: medians of the runs");
	ck_assert_msg(strstr(output, "are of this pair alone. mvbench table corrects both"), "%s",
		      output);
	silent("of its core");
	sql_in("run.db", "UPDATE epoch SET run_delay_s = 0.5 * seconds WHERE run_id IN (1, 2);"
			 "UPDATE run SET status = status");
	says(EXIT_OK, "compare serial 'asgd 2w'",
	     "\nIn 2 runs a worker had less than 90 % of its core");
	/* one run on a side has no test */
	says(EXIT_OK, "compare 3 4", "\nA, B: medians of the runs");
	silent("this pair alone");
	silent("of its core");
}

static size_t longest_line(const char *text)
{
	size_t most = 0, n = 0;
	for (; *text; text++) {
		n = *text == '\n' ? 0 : n + ((*text & 0xc0) != 0x80);
		most = n > most ? n : most;
	}
	return most;
}

TEST(comparison_fits_the_terminal)
{
	add_two();
	setenv("COLUMNS", "80", 1);
	says(EXIT_OK, "compare serial 'asgd 2w'", "\nFigures of these curves:\n");
	ck_assert_msg(longest_line(output) <= 80, "%s", output);
	char *joined AUTOFREE = text_replaced(output, " \\\n    ", " ");
	ck_assert_msg(strstr(joined, "run.db --where='id IN (1, 3, 5, 2, 4, 6)'\n"), "%s", joined);
}

/* Options of simulations do not apply to real runs. */
TEST(real_run_has_no_simulation_options)
{
	add_two();
	sql_in("run.db", "UPDATE run SET platform = 'sim', sim_platform = 'local', sim_train = "
			 "seed <> 2 WHERE strategy = 'asgd'");
	says(EXIT_OK, "compare 1 2 --format=csv", "setting,sim.train,,,,true,");
	says(EXIT_OK, "compare 1 4 --format=csv", "setting,sim.train,,,,false,");
	says(EXIT_OK, "compare 2 1 --format=csv", "setting,sim.train,true,,,,");
}

/* Medians would show a difference that the test does not have. */
TEST(comparison_with_a_diverged_run_has_no_difference)
{
	add_two();
	sql_in("run.db", "UPDATE run SET status = 'diverged' WHERE strategy = 'asgd' AND seed = 1");
	says(EXIT_OK, "compare serial 'asgd 2w' --format=csv", "\r\nfigure,test_accuracy,");
	char *line = strstr(output, "\r\nfigure,test_accuracy,") + 2;
	line[strcspn(line, "\r")] = '\0';
	ck_assert_msg(strstr(line, ",,,"), "%s", line);
}

TEST(compared_curves_have_one_scale)
{
	add_two();
	says(EXIT_OK, "compare serial 'asgd 2w'",
	     "\ntest accuracy by epoch, up to 4; from 20 to 82 %\n"
	     "A  ▂▄▇█\n"
	     "B  ▁▃▆█\n");
	/* asgd needs half the time: its line ends there */
	const char *line = strstr(output, "\ntest accuracy by time of training, up to 8.12 s;");
	ck_assert_msg(line, "%s", output);
	const char *a = strstr(line, "\nA  ") + 4, *b = strstr(line, "\nB  ") + 4;
	size_t cells[2] = {0};
	for (; *a != '\n'; text_character(&a))
		cells[0]++;
	for (; *b != '\n'; text_character(&b))
		cells[1]++;
	ck_assert_uint_eq(cells[0], 60);
	ck_assert_uint_eq(cells[1], 31); /* of its 4.12 s */
	ck_assert_msg(strstr(output, "\nmvbench plot accuracy_epoch accuracy_time --db="), "%s",
		      output);
	ck_assert_msg(strstr(output, " --where='id IN (1, 3, 5, 2, 4, 6)'\n"), "%s", output);
	/* the median curve of a side waits for its slowest run */
	sql_in("run.db", "UPDATE epoch SET seconds = 1.9 WHERE run_id = 6");
	says(EXIT_OK, "compare serial 'asgd 2w'", "\nB                ▁");
	silent("\nB         ▁");
	/* a workload without accuracies shows losses */
	sql_in("run.db", "UPDATE epoch SET test_accuracy = NULL");
	says(EXIT_OK, "compare serial 'asgd 2w'",
	     "\ntest loss by epoch, up to 4; from 0.18 to 0.8\nA  ▇▅▂▁\nB  █▆▃▁\n");
	silent("accuracy %");
}

TEST(one_run_on_a_side_gives_no_test)
{
	add_two();
	says(EXIT_OK, "compare 1 2", "no test: A and B have one run only");
	silent("p = ");
	silent("p < ");
	ck_assert(strstr(output, "-0.80")); /* the difference is shown nevertheless */
	says(EXIT_OK, "compare 1 'asgd 2w'", "no test: A has one run only");
	silent("p = ");
	says(EXIT_OK, "compare serial latest", "no test: B has one run only");
	/* runs of one configuration differ in their seeds only */
	says(EXIT_OK, "compare 1 3", "setting  A  B\n-------  -  -\nseed     1  2\n\n");
	silent("mvbench plot");
	sql_in("run.db", "UPDATE run SET seed = 1 WHERE id = 3");
	says(EXIT_OK, "compare 1 3", "\nno setting differs\n");
}

/* The same cell before and after a change, by labels. */
TEST(configurations_are_compared_by_label)
{
	for (int seed = 1; seed <= 4; seed++)
		for (int after = 0; after < 2; after++)
			add((struct made){.strategy = "serial",
					  .workers = 1,
					  .seed = seed,
					  .label = after ? "after" : "before",
					  .commit = after ? "new" : "old",
					  .day = 1 + after,
					  .accuracy = {0.8 + 0.01 * seed},
					  .seconds = 2 + 0.01 * seed + after});
	says(EXIT_OK, "compare before after",
	     "setting  A       B\n"
	     "-------  ------  -----\n"
	     "label    before  after\n"
	     "commit   old     new\n\n");
	ck_assert_msg(strstr(output, "equal, p = 1 (t, 4 pairs)\n"), "%s", output);
	ck_assert_msg(strstr(output, "worse, p < 0.0001 (Welch, 4 and 4 runs)\n"), "%s", output);
}

TEST(impossible_comparisons_are_refused)
{
	add_two();
	add((struct made){.strategy = "serial",
			  .workers = 1,
			  .seed = 1,
			  .label = "mixed",
			  .commit = "abc",
			  .day = 3,
			  .accuracy = {0.5},
			  .seconds = 1});
	add((struct made){.strategy = "asgd",
			  .workers = 4,
			  .seed = 1,
			  .label = "mixed",
			  .commit = "abc",
			  .day = 3,
			  .accuracy = {0.5},
			  .seconds = 1});
	says(EXIT_USER, "compare", "give two");
	says(EXIT_USER, "compare 1", "give two");
	says(EXIT_USER, "compare 1 99", "99: ");
	says(EXIT_USER, "compare 1 1", "run 1 is on both sides");
	says(EXIT_USER, "compare 2 'asgd 2w'", "run 2 is on both sides");
	says(EXIT_USER, "compare 1 asgd2w", "did you mean \"asgd 2w\"?");
	says(EXIT_USER, "compare 1 nothing", "there is no such run, configuration or label");
	says(EXIT_USER, "compare 1 mixed",
	     "these are several configurations, name one: mlp asgd 4w");
	says(EXIT_OK, "compare 1 mixed --where='workers = 4'", "B     mlp       asgd 4w");
	sql_in("run.db", "UPDATE run SET status = 'failed' WHERE strategy = 'asgd'");
	says(EXIT_USER, "compare 1 'asgd 2w'", "none of its runs has ended yet");
	/* times of different work are not tested */
	for (int seed = 1; seed <= 3; seed++)
		add((struct made){.strategy = "serial",
				  .workers = 1,
				  .seed = seed,
				  .label = "halves",
				  .commit = "abc",
				  .day = 4,
				  .accuracy = {0.8},
				  .seconds = 2 + 0.01 * seed,
				  .batch = 32});
	says(EXIT_OK, "compare 1 halves", "no test: the work is not the same");
}

/* The numbers are in the order of time, and do not depend on the chosen runs. */
TEST(changed_data_are_numbered_in_names)
{
	add_two();
	sql_in("run.db", "UPDATE run SET data_hash = format('%d123456789abcdef', 9 - seed) "
			 "WHERE strategy = 'serial'");
	says(EXIT_OK, "table", "serial data=1 ");
	ck_assert_msg(strstr(output, "serial data=3 ") && strstr(output, "asgd 2w "), "%s", output);
	says(EXIT_USER, "compare serial 'asgd 2w'",
	     "these are several configurations, name one: mlp serial data=1; mlp serial data=2; "
	     "mlp serial data=3");
	says(EXIT_OK, "compare 'serial data=2' 'asgd 2w'", "serial data=2 ");
	says(EXIT_OK, "table --where='seed > 1'", "serial data=2 ");
}

/* Two labels that would be equal if they were cut, and two rates that are printed alike. */
TEST(configurations_of_one_name_are_not_pooled)
{
	static const char *const middle[] = {"one", "two"};
	for (int i = 0; i < 4; i++) {
		char *label AUTOFREE = sentence("a-label-that-is-longer-than-any-figure-is-wide-"
						"and-differs-%s-in-its-middle-alone",
						middle[i / 2]);
		add((struct made){.strategy = "serial",
				  .workers = 1,
				  .seed = 1 + i % 2,
				  .label = label,
				  .commit = "abc",
				  .day = 1,
				  .accuracy = {0.8},
				  .seconds = 2});
	}
	says(EXIT_OK, "table", "differs-one-");
	ck_assert_msg(strstr(output, "differs-two-"), "%s", output);
	sql_in("run.db",
	       "UPDATE run SET label = 'same'; UPDATE run SET lr = 0.10000001 WHERE id > 2");
	says(EXIT_USER, "compare 1 same",
	     "these are several configurations, name one: mlp serial (run 1); mlp serial (run 3)");
}

/* ---- history --------------------------------------------------------------- */

/* Twelve commits with three runs each; from the seventh on, an epoch takes a quarter longer. */
static void add_commits(void)
{
	static const double noise[] = {0.00, 0.01, -0.01, 0.02, -0.02, 0.01,
				       0.00, 0.02, -0.01, 0.01, -0.02, 0.00};
	for (int c = 0; c < 12; c++)
		for (int seed = 1; seed <= 3; seed++) {
			char commit[8];
			snprintf(commit, sizeof commit, "c%02d", c + 1);
			add((struct made){.strategy = "asgd",
					  .workers = 2,
					  .seed = seed,
					  .label = c > 8 ? "late" : "",
					  .commit = commit,
					  .day = c + 1,
					  .accuracy = {0.8 + 0.01 * noise[(c * 5 + seed) % 12]},
					  .seconds = (c < 6 ? 1 : 1.25) + noise[c] + 0.001 * seed});
		}
}

TEST(history_names_the_commit_that_steps)
{
	add_commits();
	says(EXIT_OK, "history 'asgd 2w'",
	     "workload  configuration  figure         which is\n"
	     "--------  -------------  -------------  --------------------------\n"
	     "mlp       asgd 2w        epoch_seconds  median seconds of an epoch\n\n"
	     "commit  first run         n                      median   change     step\n");
	ck_assert_msg(strstr(output, "\nc07     2026-01-07 00:00  3  1.252 (1.251..1.253, 75 %)  "
				     "+23.7 %  +24.3 %\n"),
		      "%s", output);
	const char *end = "\n\nstep  at           of  after   from     to   change  is\n"
			  "----  ---  ----------  -----  -----  -----  -------  -----\n"
			  "up    c07  2026-01-07  c06    1.007  1.252  +24.3 %  worse\n";
	const char *step = strstr(output, end);
	ck_assert_msg(step && !step[strlen(end)], "%s", output);
	/* the label does not matter, and a run's number selects its configuration; the only
	 * configuration need not be named */
	says(EXIT_OK, "history 36", "\nup    c07 ");
	says(EXIT_OK, "history", "\nup    c07 ");
	says(EXIT_OK, "history --where='id <= 18'", "\nno step of epoch_seconds among 6 commits\n");
	says(EXIT_OK, "history --figure=accuracy_final",
	     "test_accuracy  after the last epoch [%]\n");
	ck_assert_msg(strstr(output, "no step of test_accuracy among 12 commits"), "%s", output);
	/* as JSON: one step, and all values of a segment have its level */
	says(EXIT_OK, "history --format=json",
	     "{\"git_commit\": \"c07\", \"started\": "
	     "\"2026-01-07T00:00:00Z\", \"n\": 3, ");
	int none = 0;
	for (const char *at = output; (at = strstr(at, "\"step\": null")); at++)
		none++;
	ck_assert_int_eq(none, 11);
	/* points of accuracy: more is better */
	sql_in("run.db", "UPDATE epoch SET test_accuracy = test_accuracy + 0.05 WHERE run_id > 12;"
			 "UPDATE run SET status = status");
	says(EXIT_OK, "history --figure=test_accuracy", "\nup    c05  2026-01-05  c04 ");
	ck_assert_msg(strstr(output, "  +5.0") && strstr(output, "  better\n"), "%s", output);
	/* diverged runs are counted; they are no step */
	sql_in("run.db", "UPDATE run SET status = 'diverged' WHERE id IN (34, 35)");
	says(EXIT_OK, "history --figure=best_test_accuracy", "diverged..");
	says(EXIT_OK, "history --figure=test_accuracy", "diverged..");
	ck_assert_msg(strstr(output, "\nup    c05  2026-01-05  c04 "), "%s", output);
	says(EXIT_OK, "history", "\nup    c07 ");
	/* control characters of a file do not reach a terminal */
	sql_in("run.db", "UPDATE run SET git_commit = char(27) || '[2J' WHERE git_commit = 'c07'");
	says(EXIT_OK, "history", "\nup    \\x1b[2J ");
	silent("\x1b");
	says(EXIT_OK, "compare 19 22", "commit   \\x1b[2J  c08\n");
	silent("\x1b");
}

/* For programs: the settings that differ, and figures that are not rounded. */
TEST(comparison_is_printed_as_a_table)
{
	add_two();
	says(EXIT_OK, "compare serial 'asgd 2w' --format=csv",
	     "part,name,A,A_low,A_high,B,B_low,B_high,difference,difference_low,"
	     "difference_high,p,B_is");
	ck_assert_msg(strstr(output, "\r\nside,configuration,serial,,,asgd 2w,") &&
			      strstr(output, "\r\nsetting,workers,1,,,2,") &&
			      strstr(output, "\r\nfigure,epoch_seconds,2.02,2.01,2.03,1.02,"),
		      "%s", output);
	says(EXIT_OK, "compare serial 'asgd 2w' --format=json",
	     "{\"part\": \"figure\", \"name\": \"test_accuracy\", \"A\": 0.82");
	ck_assert_msg(strstr(output, "\"B_is\": \"worse, p = 0.013 (t, 3 pairs)\"}"), "%s", output);
	char *file AUTOFREE = sentence("compare 1 4 --format=json --out=%s/c.json", folder);
	says(EXIT_OK, file, "");
	ck_assert_str_eq(output, "");
	/* a side with a diverged run has no number */
	sql_in("run.db", "UPDATE run SET status = 'diverged' WHERE strategy = 'asgd'");
	says(EXIT_OK, "compare serial 'asgd 2w' --format=json",
	     "\"name\": \"test_accuracy\", \"A\": 0.82");
	silent("inf");
	says(EXIT_USER, "compare 1 4 --format=xml", "--format=xml");
}

TEST(history_mistakes_are_refused)
{
	add_two();
	says(EXIT_USER, "history", "name one configuration");
	ck_assert_msg(strstr(output, "there are mlp asgd 2w; mlp serial\n"), "%s", output);
	says(EXIT_USER, "history serail", "did you mean \"serial\"?");
	says(EXIT_USER, "history serial --figure=epoch_second", "did you mean epoch_seconds?");
	says(EXIT_USER, "history serial --figure=xyz", "there are epoch_seconds, test_accuracy, ");
	says(EXIT_USER, "history asgd 2w", "put a name with blanks in quotes");
	says(EXIT_USER, "history --where='id > 99'", "loosen --where");
	says(EXIT_OK, "history serial", "no step of epoch_seconds among 1 commit\n");
	sql_in("run.db", "UPDATE run SET host = 'there' WHERE id = 1");
	says(EXIT_OK, "history serial",
	     "warning: not all times were measured in one place: a step can be a change of "
	     "machine");
}

/* ---- Steps ------------------------------------------------------------------ */

static uint64_t state;

static double uniform(void)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (double)(state >> 11) / 9007199254740992.0;
}

static double normal(void)
{
	return sqrt(-2 * log(1 - uniform())) * cos(2 * 3.14159265358979 * uniform());
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double deviation(const double *x, size_t n, double *mid)
{
	double sorted[64], sum = 0;
	memcpy(sorted, x, n * sizeof *x);
	qsort(sorted, n, sizeof *sorted, ascending);
	*mid = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
	for (size_t i = 0; i < n; i++)
		sum += fabs(x[i] - *mid);
	return sum;
}

/* The objective that the fit minimises, for segments that begin at these groups; infinite if a
 * segment has a single value. */
static double objective(const double *x, const size_t *end, size_t n, unsigned begins)
{
	double sum = 0, mid, all, segments = 0;
	for (size_t i = 0, j; i < n; i = j) {
		for (j = i + 1; j < n && !(begins >> j & 1); j++)
			continue;
		size_t first = i ? end[i - 1] : 0;
		if (end[j - 1] - first < 2)
			return INFINITY;
		sum += deviation(x + first, end[j - 1] - first, &mid);
		segments++;
	}
	deviation(x, end[n - 1], &all);
	return log(0.001 * fabs(all) + sum / (double)end[n - 1]) +
	       4 * segments * log((double)n) / (double)n;
}

CASE("steps", .limit = 60);

/* In short series the fit is the best of all possible segmentations. */
TEST(step_fit_is_optimal)
{
	state = 1;
	int cut = 0;
	for (int trial = 0; trial < 400; trial++) {
		double x[64], level[10], shift = 0, best = INFINITY;
		size_t end[10], n = 2 + (size_t)(9 * uniform()), values = 0;
		bool begins[10];
		unsigned found = 0;
		for (size_t i = 0; i < n; i++) {
			shift += uniform() < 0.3 ? 20 * normal() : 0;
			for (size_t k = 1 + (size_t)(3 * uniform()); k > 0; k--)
				x[values++] = 100 + shift + normal();
			end[i] = values;
		}
		steps_find(x, end, n, begins, level);
		for (size_t i = 1; i < n; i++)
			found |= (unsigned)begins[i] << i;
		for (unsigned way = 0; way < 1u << n; way += 2)
			best = fmin(best, objective(x, end, n, way));
		ck_assert(begins[0]);
		near(objective(x, end, n, found), best, 1e-12 * fabs(best));
		for (size_t i = 0, j; i < n; i = j) {
			double mid;
			size_t first = i ? end[i - 1] : 0;
			for (j = i + 1; j < n && !begins[j]; j++)
				continue;
			deviation(x + first, end[j - 1] - first, &mid);
			for (size_t g = i; g < j; g++)
				near(level[g], mid, 1e-12);
		}
		cut += found != 0;
	}
	ck_assert_int_gt(cut, 100);
	ck_assert_int_lt(cut, 350);
}

/* Of `series` series of n groups, with `each` values a group, noise of sd 1 around 100 and a drift
 * of this sd between groups: how many are cut. With a step in the middle: how many are cut only
 * there. */
static int cuts(size_t n, size_t each, double drift, double step, int series)
{
	int count = 0;
	for (int trial = 0; trial < series; trial++) {
		double x[1000], level[100];
		size_t end[100], values = 0, steps = 0;
		bool begins[100];
		for (size_t i = 0; i < n; i++) {
			double shift = drift * normal() + (i >= n / 2 ? step : 0);
			for (size_t k = 0; k < each; k++)
				x[values++] = 100 + shift + normal();
			end[i] = values;
		}
		steps_find(x, end, n, begins, level);
		for (size_t i = 1; i < n; i++)
			steps += begins[i];
		count += step > 0 ? steps == 1 && begins[n / 2] : steps > 0;
	}
	return count;
}

TEST(history_finds_steps_but_none_in_noise)
{
	state = 2;
	ck_assert_int_le(cuts(5, 3, 0, 0, 200), 4);
	ck_assert_int_le(cuts(12, 1, 0, 0, 200), 4);
	ck_assert_int_le(cuts(12, 5, 0, 0, 200), 4);
	ck_assert_int_le(cuts(40, 3, 0, 0, 100), 2);
	ck_assert_int_le(cuts(12, 5, 1, 0, 200), 4); /* drift between commits */
	ck_assert_int_ge(cuts(12, 3, 0, 6, 200), 190);
	ck_assert_int_ge(cuts(40, 3, 0, 4, 100), 90);
	ck_assert_int_ge(cuts(4, 3, 0, 20, 200), 190);
}

TEST(history_of_few_values_has_no_step)
{
	bool begins[4];
	double level[4];
	steps_find(NULL, NULL, 0, begins, level);
	steps_find((double[]){5}, (size_t[]){1}, 1, begins, level);
	ck_assert(begins[0]);
	steps_find((double[]){1, 2, 3}, (size_t[]){1, 2, 3}, 3, begins, level);
	ck_assert(begins[0] && !begins[1] && !begins[2]);
	/* all equal, and all 0 */
	steps_find((double[]){0, 0, 0, 0}, (size_t[]){1, 2, 3, 4}, 4, begins, level);
	ck_assert(!begins[1] && !begins[2] && !begins[3]);
	/* exact figures, as of simulations: a small step counts */
	double x[12];
	size_t end[12];
	bool cut[12];
	double at[12];
	for (size_t i = 0; i < 12; i++) {
		x[i] = i < 6 ? 1 : 1.01;
		end[i] = i + 1;
	}
	steps_find(x, end, 12, cut, at);
	for (size_t i = 1; i < 12; i++)
		ck_assert_int_eq(cut[i], i == 6);
}

/* ---- table ------------------------------------------------------------------ */

CASE("commands");

TEST(table_is_sorted_and_limited)
{
	add_two();
	add((struct made){.strategy = "easgd",
			  .workers = 2,
			  .seed = 1,
			  .commit = "abc",
			  .day = 3,
			  .accuracy = {0.9},
			  .seconds = 3});
	char *csv AUTOFREE =
		sentence("./mvbench table --db=%s/run.db --format=csv --columns=", folder);
	const struct {
		const char *words, *want;
	} cut[] = {
		{"configuration", "configuration|serial|asgd 2w|easgd 2w|"},
		{"configuration,n --sort=configuration",
		 "configuration,n|asgd 2w,3|easgd 2w,1|serial,3|"},
		{"n,configuration --sort=-test_accuracy",
		 "n,configuration|1,easgd 2w|3,serial|3,asgd 2w|"},
		{"configuration --sort=test_accuracy:desc --top=1", "configuration|easgd 2w|"},
		{"configuration --sort=epoch_seconds:asc --top=2", "configuration|asgd 2w|serial|"},
		{"configuration --sort=workers,-epoch_seconds",
		 "configuration|serial|easgd 2w|asgd 2w|"},
		/* by the heading that is printed */
		{"configuration,\"accuracy %\" --sort=\"-accuracy %\" --top=1",
		 "configuration,test_accuracy|easgd 2w,0.9|"},
		/* unknown values come last in both directions; equal ones keep their order */
		{"configuration --sort=samples_per_second",
		 "configuration|easgd 2w|serial|asgd 2w|"},
		{"configuration --sort=comm_fraction", "configuration|serial|asgd 2w|easgd 2w|"},
		{"configuration --sort=test_accuracy_difference",
		 "configuration|asgd 2w|easgd 2w|serial|"},
		{"configuration --sort=-test_accuracy_difference",
		 "configuration|easgd 2w|asgd 2w|serial|"},
		{"id,seed --runs --sort=-seed,id --top=3", "id,seed|5,3|6,3|3,2|"},
	};
	for (size_t i = 0; i < COUNT(cut); i++) {
		char *command AUTOFREE =
			sentence("%s%s 2>&1 | tr -d '\\r' | tr '\\n' '|'", csv, cut[i].words);
		command_output(command, output, sizeof output);
		ck_assert_msg(strcmp(output, cut[i].want) == 0, "%s: %s", cut[i].words, output);
	}
	/* the text format shows every column that was asked for, even if it is empty */
	says(EXIT_OK,
	     "table --columns=configuration,target_accuracy,epoch_seconds --sort=-n --top=1",
	     "configuration  target_accuracy                  epoch s\n"
	     "-------------  ---------------  -----------------------\n");
	silent("versus"); /* nothing is marked */
	says(EXIT_OK, "table --columns=configuration,test_accuracy_mark", "\nversus the control");
}

TEST(unknown_columns_suggest_similar_ones)
{
	add_two();
	says(EXIT_USER, "table --sort=test_acuracy",
	     "--sort=test_acuracy: there is no such column; did you mean test_accuracy?");
	says(EXIT_USER, "table --sort=-configuratoin", "did you mean configuration?");
	says(EXIT_USER, "table --columns=workload,wokers",
	     "--columns=wokers: there is no such column; did you mean workers?");
	says(EXIT_USER, "table --columns=not_done", "did you mean not done?");
	says(EXIT_USER, "table --columns=qqqqqqq", "there is no such column; there are workload, ");
	/* runs have other columns */
	says(EXIT_USER, "table --sort=reason", "--sort=reason: there is no such column");
	says(EXIT_OK, "table --runs --sort=reason", "configuration");
	says(EXIT_USER, "table --tuned --sort=n", "leave --sort out");
	says(EXIT_USER, "table --tuned --busy=drop", "leave --busy out");
	says(EXIT_USER, "table --runs --versus=serial", "--versus: runs are not compared");
	says(EXIT_USER, "table --runs --margin-time=9", "--margin-time: runs are not compared");
	says(EXIT_USER, "table --top=-1", "--top=-1");
	says(EXIT_OK, "table --help",
	     "Columns of --runs, for --sort and --columns:\n  id, workload,");
}
