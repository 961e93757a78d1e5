/*
 * check_plots.c - figures: every figure of the folder, from databases that are empty, have little
 * data, or have names that try to break out of the picture.
 */
#include "plots/plot.h"
#include "runtime/comm/comm.h"
#include "tests/fixture.h"
#include "tests/made.h"
#include "tests/suites.h"

#include <dirent.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern const struct command command_plot;

static char database[96];
static sqlite3 *db; /* the database, empty at first */

static void set_up(void)
{
	folder_new();
	snprintf(database, sizeof(database), "%s/results.db", folder);
	setenv("XDG_CONFIG_HOME", folder, 1); /* not the figures of the user who runs the tests */
	db = made_open("results.db");
}

static void tear_down(void)
{
	sqlite3_close(db);
	folder_free();
}

static char *contents(const char *path, size_t *n)
{
	FILE *f = fopen(path, "rb");
	ck_assert_msg(f != NULL, "%s is not there", path);
	char *all = must(calloc(1, 16 << 20));
	*n = fread(all, 1, (16 << 20) - 1, f);
	fclose(f);
	return all;
}

/* A file of the program. */
static char *installed_text(const char *name)
{
	char *path AUTOFREE = installed_path(name), *text = text_read(path);
	ck_assert_msg(text != NULL, "%s is not there", name);
	return text;
}

/* ---- Databases ----------------------------------------------------------- */

/* A finished run. In epoch e its accuracy is best + 0.01 e, or its loss is 1/e if best < 0. asgd
 * pushes 100 times an epoch. */
static void add_run(const char *workload, const char *strategy, int workers, int seed, double best,
		    const char *label, int epochs)
{
	made_format(db,
		    INSERT_RUN(", label, params, train_size, test_size, deal, table_home, "
			       "transport, codec_feedback",
			       "'done', 'x', %Q, %Q, %d, %d, %d, 32, 1, 'mpi', 0, %Q, 10, 100, 10, "
			       "'static', iif(%Q = 'asgd', 'shared', NULL), 'ipc', 'false'"),
		    workload, strategy, workers, seed, epochs, label, strategy);
	long long id = sqlite3_last_insert_rowid(db);
	for (int e = 0; e <= epochs; e++) {
		double seconds = 4.0 / workers + 0.1 * seed;
		bool pushes = strcmp(strategy, "asgd") == 0 && e > 0;
		made_format(
			db,
			"INSERT INTO epoch (run_id, epoch, test_loss, train_loss, test_accuracy, "
			"seconds, compute_s, comm_s, wait_s, staleness_mean, staleness_max, "
			"pushes, dropped, consensus) VALUES (%lld, %d, %f, %f, iif(%f < 0, NULL, "
			"%f), nullif(%f, 0), %f, 0.2, 0.1, %s)",
			id, e, 1.0 / (e + 1), 1.0 / (e + 1), best, best + 0.01 * e, e ? seconds : 0,
			seconds - 0.4,
			pushes ? "1.5, 4, 100, 0, 0.25" : "NULL, NULL, NULL, NULL, NULL");
		if (pushes)
			made_format(db,
				    "INSERT INTO staleness VALUES (%lld, %d, 0, 20), "
				    "(%lld, %d, 1, 40), (%lld, %d, 2, 20), (%lld, %d, 3, 10), "
				    "(%lld, %d, 4, 10)",
				    id, e, id, e, id, e, id, e, id, e);
	}
}

static const char *const hostile[] = {"",
				      "\"",
				      "\\",
				      "'",
				      "%s%n",
				      "`touch PWNED`",
				      "$(touch PWNED)",
				      "'; system('touch PWNED'); '",
				      "@style_a {b} a_b ^2 <script>alert(1)</script> &amp; </svg>",
				      "two\nlines\tand \x01 control",
				      "not UTF-8: \xff\xc3",
				      "\xe6\x97\xa5\xe6\x9c\xac",
				      "=",
				      "# comment",
				      " ",
				      "a long name, a long name, a long name, a long name, a long "
				      "name, a long name, a long name"};

static void fill_one(void)
{
	add_run("mlp", "serial", 1, 1, 0.8, "", 1);
}

/* Each run a second time, as a simulation that took a tenth longer. */
static void simulate_all(void)
{
	made_sql(db, "CREATE TEMP TABLE copy AS SELECT * FROM run;"
		     "UPDATE copy SET id = id + 1000, platform = 'sim', sim_platform = 'local',"
		     " sim_train = 1, sim_step_time = 'auto', sim_update_time = 'auto',"
		     " sim_slow_link = '', sim_replay = 0;"
		     "INSERT INTO run SELECT * FROM copy; DROP TABLE copy;"
		     "CREATE TEMP TABLE copy AS SELECT * FROM epoch;"
		     "UPDATE copy SET run_id = run_id + 1000, seconds = 1.1 * seconds;"
		     "INSERT INTO epoch SELECT * FROM copy; DROP TABLE copy");
}

static void fill_hostile(void)
{
	for (int seed = 1; seed <= 3; seed++) {
		add_run("mlp", "serial", 1, seed, 0.8, "", 5);
		for (size_t i = 0; i < COUNT(hostile); i++)
			add_run("mlp", "asgd", 4, seed, 0.7 + 0.01 * (double)i, hostile[i], 5);
	}
	add_run("perceptron", "serial", 1, 1, -1, "", 5);
	add_run("perceptron", "asgd", 20, 1, -1, "", 5);
	add_run("../<b>\"x\" `touch PWNED`", "asgd", 2, 1, 0.5, "", 5);
	add_run("..\\<b>\"x\" `touch PWNED`", "asgd", 2, 1, 0.5, "", 5);
	simulate_all();
	made_sql(db, "UPDATE run SET target_accuracy = 0.765 WHERE workload <> 'perceptron';"
		     "UPDATE run SET oversubscribed = workers > 2");
}

/* ---- The command, and what it prints ------------------------------------- */

/* Runs `mvbench plot` on the words, up to NULL. Returns what it prints, from the heap. */
static char *plot(int *status, const char *const *word)
{
	char *argv[16], *said AUTOFREE = in_folder("said");
	int argc = 0;
	for (; word[argc]; argc++)
		argv[argc] = (char *)(uintptr_t)word[argc];
	argv[argc] = NULL;
	fflush(NULL);
	pid_t child = fork();
	ck_assert_int_ge(child, 0);
	if (child == 0) {
		int f = open(said, O_WRONLY | O_CREAT | O_TRUNC, 0600);
		dup2(f, STDOUT_FILENO);
		dup2(f, STDERR_FILENO);
		int rc = chdir(folder) == 0 ? command_start(&command_plot, argc, argv) : 99;
		fflush(NULL);
		_exit(rc);
	}
	ck_assert_int_eq(waitpid(child, status, 0), child);
	ck_assert(WIFEXITED(*status));
	*status = WEXITSTATUS(*status);
	return text_read(said);
}
#define PLOT(status, ...) plot(status, (const char *const[]){__VA_ARGS__, NULL})

/* It must end with this status. What it prints must contain these words, or equal them if they are
 * whole lines. */
static void expect_plot(int want, const char *says, const char *const *word)
{
	int status;
	char *text AUTOFREE = plot(&status, word);
	bool lines = *says && says[strlen(says) - 1] == '\n';
	ck_assert_msg(status == want && (lines ? strcmp(text, says) == 0 : !!strstr(text, says)),
		      "%s: exit %d, not %d and \"%s\": %s", word[0], status, want, says, text);
}
#define EXPECT_PLOT(want, says, ...) \
	expect_plot(want, says, (const char *const[]){__VA_ARGS__, NULL})

static void check_picture(const char *path)
{
	size_t n;
	char *all AUTOFREE = contents(path, &n);
	const unsigned char *u = (const unsigned char *)all;
	if (strstr(path, ".png")) {
		ck_assert_msg(n > 4000, "%s: only %zu bytes", path, n);
		ck_assert_int_eq(memcmp(all, "\x89PNG\r\n\x1a\n", 8), 0);
		unsigned wide = u[18] << 8 | u[19], high = u[22] << 8 | u[23];
		ck_assert_msg(wide > 1000 && wide < 6000 && high > 300 && high < 4000,
			      "%s: %u x %u", path, wide, high);
	} else {
		ck_assert_msg(n > 1000 && strncmp(all, "<?xml", 5) == 0, "%s: no SVG", path);
		ck_assert_ptr_null(strstr(all, "<script"));
		const char *end = strstr(all, "</svg>"); /* the only one */
		ck_assert_msg(end && strlen(end) < 12, "%s: does not end where it should", path);
		for (size_t i = 0; i < n; i++)
			ck_assert_msg(u[i] >= ' ' || strchr("\t\r\n", u[i]),
				      "%s: control character %d", path, u[i]);
	}
}

static const char *only = "--where="; /* draws only these runs */

/* Draws the words into a fresh folder, checks each picture, and returns their number. */
static int draw(const char *name, const char *format)
{
	int status, n = 0;
	char *out AUTOFREE = sentence("%s/%s-%s", folder, name, format);
	char *to AUTOFREE = sentence("--out=%s", out),
		 *as AUTOFREE = sentence("--format=%s", format);
	char *text AUTOFREE = PLOT(&status, name, "--db=results.db", to, as, only);
	/* if a figure was asked for by name, an empty picture is no success */
	bool nothing = strstr(text, "there is nothing to draw") != NULL;
	ck_assert_msg(status == (nothing ? EXIT_FAILED : EXIT_OK), "%s: exit %d: %s", name, status,
		      text);
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"), n++) {
		if (nothing && strncmp(line, "mvbench: ", 9) == 0) {
			n--;
			continue;
		}
		ck_assert_msg(strncmp(line, out, strlen(out)) == 0, "%s said: %s", name, line);
		ck_assert_ptr_null(strchr(line + strlen(out) + 1, '/'));
		check_picture(line);
	}
	return n;
}

static bool has_end(const char *name, const char *end)
{
	return strlen(name) > strlen(end) && strcmp(name + strlen(name) - strlen(end), end) == 0;
}

/* The picture that draw made of a figure; which: "-" and the workload, if there are several. */
static char *svg_of(const char *figure, const char *which)
{
	char *name AUTOFREE = sentence("%s-svg/%s%s.svg", figure, figure, which);
	return folder_read(name);
}

/* Calls each on the name of every figure; returns how many there are. */
static int each_figure(void (*each)(const char *name))
{
	char *plots AUTOFREE = installed_path("plots");
	int n = 0;
	ck_assert_ptr_nonnull(plots);
	DIR *d = opendir(plots);
	for (struct dirent *e; (e = readdir(d));) {
		if (!has_end(e->d_name, ".gp") || strcmp(e->d_name, "style.gp") == 0)
			continue;
		e->d_name[strlen(e->d_name) - 3] = '\0';
		each(e->d_name);
		n++;
	}
	closedir(d);
	return n;
}

/* ---- Tests --------------------------------------------------------------- */

CASE("plots", .limit = 120, .set_up = set_up, .tear_down = tear_down);

TEST(each_figure_has_sql_and_gp)
{
	char *plots AUTOFREE = installed_path("plots");
	ck_assert_ptr_nonnull(plots);
	DIR *d = opendir(plots);

	for (struct dirent *e; (e = readdir(d));) {
		bool query = has_end(e->d_name, ".sql");
		if ((!query && !has_end(e->d_name, ".gp")) || strcmp(e->d_name, "report.sql") == 0)
			continue; /* the report uses the other figures' .gp files */
		char *other AUTOFREE =
			sentence("%s/%.*s.%s", plots, (int)(strrchr(e->d_name, '.') - e->d_name),
				 e->d_name, query ? "gp" : "sql");
		ck_assert_msg(access(other, R_OK) == 0, "%s has no pair", e->d_name);
		if (query) {
			char *path AUTOFREE = sentence("%s/%s", plots, e->d_name),
				   *text AUTOFREE = text_read(path);
			ck_assert_msg(strncmp(text, "-- ", 3) == 0 && text[3] > ' ',
				      "%s: the first line is no summary", e->d_name);
		}
	}
	closedir(d);
}

static void draws_explanation(const char *name)
{
	ck_assert_int_eq(draw(name, "svg"), 1);
	char *text AUTOFREE = svg_of(name, "");
	ck_assert_ptr_nonnull(strstr(text, "Nothing to draw"));
	EXPECT_PLOT(EXIT_FAILED, "there is nothing to draw. Needs ", name, "--db=results.db",
		    "--out=named.svg");
}

TEST(empty_database_draws_explanation)
{
	if (lacks_program("gnuplot"))
		return;
	ck_assert_int_ge(each_figure(draws_explanation), 7);
	EXPECT_PLOT(EXIT_OK, "all/speedup.png", "--db=results.db", "--out=all");
}

static void draws_one(const char *name)
{
	ck_assert_int_eq(draw(name, "png"), 1);
	ck_assert_int_eq(draw(name, "svg"), 1);
}

TEST(one_run_is_drawn)
{
	if (lacks_program("gnuplot"))
		return;
	fill_one();
	each_figure(draws_one);

	/* Without a name, only figures that have data are drawn. */
	int status;
	char *text AUTOFREE = PLOT(&status, "--db=results.db", "--out=all", "--format=svg");
	ck_assert_int_eq(status, EXIT_OK);
	ck_assert_ptr_nonnull(strstr(text, "all/accuracy_epoch.svg\n"));
	ck_assert_ptr_null(strstr(text, "staleness"));
}

static void draws_something(const char *name)
{
	ck_assert_int_ge(draw(name, "svg"), 1);
}

/* Simulations without gradients have times but no losses. */
TEST(runs_without_accuracy_are_drawn)
{
	if (lacks_program("gnuplot"))
		return;
	add_run("mlp", "serial", 1, 1, 0.8, "", 2);
	add_run("mlp", "asgd", 2, 1, 0.8, "", 2);
	add_run("softmax", "serial", 1, 1, 0.8, "", 2);
	made_sql(db, "UPDATE run SET target_accuracy = 0.5;"
		     "UPDATE epoch SET train_loss = NULL, test_loss = NULL, test_accuracy = NULL"
		     " WHERE run_id <> 1");
	each_figure(draws_something);

	/* Infinite losses are not drawn. */
	made_sql(db, "UPDATE epoch SET train_loss = 9e999");
	EXPECT_PLOT(EXIT_FAILED, "", "loss_time", "--db=results.db", "--out=infinite.svg");
}

static void draws_hostile(const char *name)
{
	/* mlp and at least one other workload: each has a picture. One figure is for all workloads,
	 * and some have no data here: several intervals, a timeline, trials */
	bool single = strcmp(name, "simulated_real") == 0 ||
		      strcmp(name, "accuracy_interval") == 0 || strcmp(name, "timeline") == 0 ||
		      strcmp(name, "sensitivity") == 0 || strcmp(name, "best_of_k") == 0 ||
		      strcmp(name, "history") == 0 ||        /* two commits */
		      strcmp(name, "utilisation") == 0 ||    /* several rates */
		      strcmp(name, "accuracy_bytes") == 0 || /* runs that sent something */
		      strcmp(name, "speedup") == 0 ||        /* several numbers of workers */
		      strcmp(name, "efficiency") == 0 ||
		      strcmp(name, "xy") == 0; /* no columns are given */
	int least = single ? 1 : 2;
	int drawn = draw(name, "svg");
	ck_assert_msg(drawn >= least, "%s: %d pictures, at least %d are wanted", name, drawn,
		      least);
	only = "--where=workload = 'mlp'";
	ck_assert_int_eq(draw(name, "png"), 1); /* without data it says what it needs */
	only = "--where=";
}

TEST(hostile_names_are_shown_never_run)
{
	if (lacks_program("gnuplot"))
		return;
	fill_hostile();
	each_figure(draws_hostile);

	const char *figure[] = {"accuracy_epoch", "pareto", "seeds", "time_to_accuracy"};
	const char *shown[] = {"@style_a {b} a_b ^2 &lt;script>",
			       "`touch PWNED`",
			       "%s%n",
			       ", \\",
			       ", \"",
			       ", '",
			       "$(touch PWNED)",
			       "two↵lines and",
			       ", =",
			       ", # comment"};
	for (size_t f = 0; f < COUNT(figure); f++) {
		char *text AUTOFREE = svg_of(figure[f], "-mlp");
		for (size_t i = 0; i < COUNT(shown); i++)
			ck_assert_msg(strstr(text, shown[i]) != NULL, "%s: %s is not shown",
				      figure[f], shown[i]);
	}

	ck_assert_int_ne(access("PWNED", F_OK), 0);
	char *path AUTOFREE = in_folder("PWNED");
	ck_assert_int_ne(access(path, F_OK), 0);
}

/* A connection in which names.sql and style.sql have run for all runs, and then this file. */
static sqlite3 *styled(const char *more)
{
	const char *made[] = {"results/ask/names.sql", "plots/style.sql",
			      more ? "results/ask/held.sql" : NULL, more};
	sqlite3 *styles;
	ck_assert_int_eq(sqlite3_open(database, &styles), SQLITE_OK);
	made_sql(styles, "CREATE TEMP TABLE run_summary AS SELECT * FROM main.run_summary");
	for (int i = 0; i < 4 && made[i]; i++) {
		char *text AUTOFREE = installed_text(made[i]), *sql AUTOFREE = sql_medians(text);
		made_sql(styles, sql);
	}
	return styles;
}

/* The rows of a query there, from the heap: ";" between them. */
static char *rows_of(const char *query)
{
	sqlite3 *styles = styled(NULL);
	char *rows = made_rows(styles, query);
	sqlite3_close(styles);
	return rows;
}

static void expect_asked(const char *query, const char *want)
{
	char *rows AUTOFREE = rows_of(query);
	ck_assert_msg(strcmp(rows, want) == 0, "%s\ngave %s\nnot  %s", query, rows, want);
}

/* The names of all runs, in the order in which they were added. */
static void expect_names(const char *want)
{
	expect_asked("SELECT name FROM selected ORDER BY id", want);
}

/* The rows of a figure's own query, cut to fit into another one. */
static char *query_of(const char *figure)
{
	char *name AUTOFREE = sentence("plots/%s.sql", figure),
		   *text AUTOFREE = installed_text(name);
	*strrchr(text, ';') = '\0';
	return sql_medians(text);
}

/* A figure's rows, each in this format, a C string of its columns. */
static void expect_rows(const char *figure, const char *columns, const char *want)
{
	char *query AUTOFREE = query_of(figure),
		    *ask AUTOFREE = sentence("SELECT format(%s) FROM (%s)", columns, query);
	expect_asked(ask, want);
}

TEST(curves_show_medians)
{
	add_run("mlp", "serial", 1, 1, 0.5, "", 2);
	add_run("mlp", "serial", 1, 2, 0.9, "", 2);
	add_run("mlp", "serial", 1, 3, 0.6, "", 2);
	add_run("mlp", "asgd", 2, 1, 0.4, "", 2);
	add_run("mlp", "asgd", 2, 2, 0.6, "", 2);
	made_sql(db, "UPDATE run SET status = 'diverged' WHERE id = 6");
	expect_asked("SELECT format('%s|%d|%.6g|%.6g|%.6g', title, epoch, median, low, high)"
		     " FROM quality ORDER BY place, epoch",
		     "serial (n=3)|1|61|51|91;serial (n=3)|2|62|52|92;"
		     "asgd 2w (n=2)|1|51|41|61;asgd 2w (n=2)|2|52|42|62");
}

TEST(figure_intervals_lie_between_ranks)
{
	for (int seed = 1; seed <= 9; seed++) /* ranks 2 and 8 */
		add_run("mlp", "serial", 1, seed, 0.1 * seed, "", 2);
	add_run("softmax", "serial", 1, 1, 0.5, "", 2);
	add_run("softmax", "serial", 1, 2, 0.6, "", 2);
	expect_rows("accuracy_epoch", "'%s|%d|%g|%g|%g', title, epoch, median, low, high",
		    "serial|1|51|21|81;serial|2|52|22|82;"
		    "serial|1|56|51|61;serial|2|57|52|62");
	expect_rows("accuracy_final", "'%s|%g|%g|%g', title, median, low, high",
		    "serial|52|22|82;serial|57|52|62");
	expect_rows("time_epoch", "'%s|%d|%g|%g|%g', title, epoch, median, low, high",
		    "serial|1|4.5|4.2|4.8;serial|2|9|8.4|9.6;"
		    "serial|1|4.15|4.1|4.2;serial|2|8.3|8.2|8.4");
	expect_rows("seeds", "'%g|%g|%g|%g|%d', value, median, low, high, i",
		    "12|52|22|82|1;22|52|22|82|2;32|52|22|82|3;42|52|22|82|4;"
		    "52|52|22|82|5;62|52|22|82|6;72|52|22|82|7;82|52|22|82|8;"
		    "92|52|22|82|9;52|57|52|62|1;62|57|52|62|2");

	if (lacks_program("gnuplot"))
		return;
	for (int i = 0; i < 2; i++) { /* pictures explain their bars */
		const char *figure = i ? "seeds" : "accuracy_epoch",
			   *workload = i ? "-softmax" : "-mlp";
		ck_assert_int_eq(draw(figure, "svg"), 2);
		char *text AUTOFREE = svg_of(figure, workload);
		ck_assert_msg(strstr(text, i ? "median, min to max (50 %)<"
					     : "Median; 95 % interval<") != NULL,
			      "%s%s does not say what its intervals are", figure, workload);
	}
}

/* Four trials of one configuration. One diverged: it counts as the untrained model. */
TEST(best_of_k_curve_is_the_expected_maximum)
{
	static const double value[] = {0.4, 0, 0.2, 0.3};
	for (int k = 0; k < 4; k++)
		add_run("mlp", "serial", 1, k + 1, 0.5, "", 1);
	made_sql(
		db,
		"UPDATE run SET config_hash = 'h' || id, lr = 0.1 * id;"
		"UPDATE run SET status = 'diverged' WHERE id = 2;"
		"UPDATE epoch SET validation_accuracy = 0.1;"
		"INSERT INTO study (name, hash, made, objective, budget, search) VALUES ('s', 'x', "
		"'', 'accuracy', 4, '{}');"
		"INSERT INTO trial SELECT 1, 'a', 'trial', id, json_object('lr', lr), config_hash "
		"FROM run");
	for (int k = 0; k < 4; k++)
		made_format(db,
			    "UPDATE epoch SET validation_accuracy = %g WHERE run_id = %d AND "
			    "epoch = 1",
			    value[k], k + 1);
	/* sorted .1 .2 .3 .4: for k = 1 their mean; for k = 2 (1 .1 + 3 .2 + 5 .3 + 7 .4) / 16; and
	 * so on */
	expect_rows("best_of_k", "'%s|%d|%.6g|%d', title, k, value, is_loss",
		    "a|1|25|0;a|2|31.25|0;a|3|34.375|0;a|4|36.1719|0");
	expect_rows("sensitivity", "'%s|%g|%g|%d|%d', title, lr, value, lost, alone",
		    "a|0.1|40|0|1;a|0.2|10|1|1;a|0.3|20|0|1;a|0.4|30|0|1");
	/* in the colour of serial */
	expect_rows("best_of_k", "'%d', (look - 1) % 7", "4;4;4;4");
	expect_rows("sensitivity", "'%d', (look - 1) % 7", "4;4;4;4");
	/* trials of another study, of another workload, are separate */
	add_run("softmax", "serial", 1, 9, 0.5, "", 1);
	made_sql(
		db,
		"UPDATE run SET config_hash = 'k' WHERE id = 5;"
		"UPDATE epoch SET validation_accuracy = 0.3 WHERE run_id = 5;"
		"INSERT INTO study (name, hash, made, objective, budget, search) VALUES ('t', 'y', "
		"'', 'accuracy', 1, '{}');"
		"INSERT INTO trial VALUES (2, 'a', 'trial', 1, '{\"lr\": 0.1, \"momentum\": 0.5}', "
		"'k')");
	expect_rows("sensitivity", "'%s|%g|%d', title, lr, alone",
		    "a|0.1|1;a|0.2|1;a|0.3|1;a|0.4|1;a|0.1|0");
}

/* From its last epoch on, a diverged run ranks below all others. No picture shows it, but it
 * changes medians. */
TEST(diverged_runs_count_in_figures)
{
	for (int seed = 1; seed <= 4; seed++)
		add_run("mlp", "serial", 1, seed, 0.1 + 0.2 * seed, "", 3);
	add_run("mlp", "asgd", 2, 1, 0.6, "", 3);
	add_run("mlp", "asgd", 2, 2, 0.6, "", 3);
	made_sql(db, "UPDATE run SET status = 'diverged' WHERE id IN (4, 6);"
		     "DELETE FROM epoch WHERE run_id IN (4, 6) AND epoch = 3");
	/* asgd: the median is that of half of its runs */
	expect_rows("accuracy_epoch", "'%s|%d|%g|%g|%g', title, epoch, median, low, high",
		    "serial (n=3)|1|61|31|91;serial (n=3)|2|42|31|72;serial (n=3)|3|43|31|73;"
		    "asgd 2w (n=1)|1|61|61|61");
	expect_rows("accuracy_final", "'%s|%g|%g|%g', title, median, low, high",
		    "serial (n=3)|43|31|73");
	expect_rows("loss_time", "'%s|%g|%g|%g', title, median, low, high",
		    "serial (n=3)|0.5|0.5|0.5;serial (n=3)|0.333333|0.333333|0.5;"
		    "serial (n=3)|0.25|0.25|0.5;asgd 2w (n=1)|0.5|0.5|0.5");
	/* of four runs and of two; of times, of three */
	expect_asked("SELECT runs || ' ' || text FROM interval_name",
		     "done min to max (75 %);ended min to max (50 % or more)");
}

/* A run that missed its target or diverged is shown, and counts as later than all others. */
TEST(missed_targets_are_shown)
{
	add_run("mlp", "serial", 1, 1, 0.5, "", 2);
	add_run("mlp", "serial", 1, 2, 0.605, "", 2);
	add_run("mlp", "serial", 1, 3, 0.611, "", 2);
	add_run("mlp", "asgd", 2, 1, 0.1, "", 2);
	add_run("mlp", "asgd", 2, 2, 0.9, "", 2);
	add_run("mlp", "periodic", 2, 1, 0.9, "", 2);
	add_run("softmax", "serial", 1, 1, 0.9, "", 2);
	made_sql(db, "UPDATE run SET target_accuracy = 0.62 WHERE workload = 'mlp';"
		     "UPDATE run SET status = 'diverged' WHERE id IN (5, 6);"
		     "UPDATE epoch SET test_accuracy = NULL WHERE run_id IN (5, 6)");
	expect_rows(
		"time_to_accuracy",
		"'%s|%g|%g|%g|%d|%d|%g|%g', title, seconds, low, high, reached, n, tried, target",
		"serial|6.3|3.87|-1|2|3|8.2|62;"
		"asgd 2w|-1|-1|-1|0|2|4.4|62;"
		"periodic 2w, diverged|-1|-1|-1|0|1|4.2|62");

	if (lacks_program("gnuplot"))
		return;
	ck_assert_int_eq(draw("time_to_accuracy", "png"), 1);
	ck_assert_int_eq(draw("time_to_accuracy", "svg"), 1);
	char *text AUTOFREE = svg_of("time_to_accuracy", "-mlp");
	const char *shown[] = {"6.30 s, not reached 1/3<", ">not reached 2/2<", ">not reached 1/1<",
			       "62 % accuracy [s]", "2 runs diverged"};
	for (size_t i = 0; i < COUNT(shown); i++)
		ck_assert_msg(strstr(text, shown[i]) != NULL, "%s is not shown", shown[i]);
}

TEST(pareto_front_has_the_unbeaten_runs)
{
	add_run("mlp", "serial", 1, 1, 0.8, "", 2);    /* 8.2 s, 82 % */
	add_run("mlp", "allreduce", 2, 1, 0.8, "", 2); /* 4.2 s, 82 %: as good, and faster */
	add_run("mlp", "asgd", 2, 1, 0.7, "", 2);      /* 4.2 s, 72 % */
	add_run("mlp", "asgd", 4, 1, 0.75, "", 2);     /* 2.2 s, 77 % */
	add_run("mlp", "easgd", 2, 3, 0.85, "", 2);    /* 4.6 s, 87 % */
	add_run("perceptron", "serial", 1, 1, -1, "", 2);
	add_run("perceptron", "asgd", 2, 1, -1, "", 3); /* a lower (better) loss, faster */
	expect_rows("pareto", "'%s|%g|%.3g|%d', title, seconds, median, front",
		    "asgd 4w|2.2|77|1;allreduce 2w|4.2|82|1;easgd 2w|4.6|87|1;"
		    "serial|8.2|82|0;asgd 2w|4.2|72|0;"
		    "asgd 2w epochs=3|6.3|0.25|1;serial epochs=2|8.2|0.333|0");
}

TEST(efficiency_is_speed_up_per_worker)
{
	add_run("mlp", "serial", 1, 1, 0.8, "", 2);
	add_run("mlp", "asgd", 2, 1, 0.8, "", 2);
	add_run("mlp", "asgd", 4, 1, 0.8, "", 2);
	add_run("mlp", "asgd", 4, 19, 0.8, "", 2);
	add_run("softmax", "asgd", 4, 1, 0.8, "", 2); /* no run of one worker */
	made_sql(db, "UPDATE run SET oversubscribed = workers > 2");
	expect_rows("efficiency",
		    "'%s|%d|%.4g|%.4g|%.4g|%d', title, workers, efficiency, low, high, crowded",
		    "asgd (n=1..2)|2|0.9762|0.9762|0.9762|0;"
		    "asgd (n=1..2)|4|0.5125|0.3534|0.9318|1");
}

/* The rate is no part of a curve's name, in any unit; a single rate makes no curve. */
TEST(utilisation_has_a_curve_for_each_strategy_and_interval)
{
	for (int i = 1; i <= 7; i++)
		add_run("mlp",
			i <= 2   ? "allreduce"
			: i == 7 ? "gossip"
				 : "periodic",
			2, 1, 0.5, "", 1);
	made_sql(db, "UPDATE epoch SET seconds = 1, compute_s = 0.1 * run_id WHERE epoch > 0;"
		     "UPDATE run SET platform = 'sim', sim_platform = 'cluster', sim_train = 0,"
		     " sim_step_time = '1ms', sim_update_time = 'auto', sim_slow_link = '',"
		     " sim_replay = 0, sim_rate = iif(id % 2, 9.5e5, 1.25e12),"
		     " sync_every = iif(id IN (5, 6), 4, 1)");
	expect_rows("utilisation", "'%s|%g|%g', title, rate, utilisation",
		    "allreduce 2w|0.00095|0.1;allreduce 2w|1250|0.2;"
		    "periodic 2w|0.00095|0.3;periodic 2w|1250|0.4;"
		    "periodic 2w X=4|0.00095|0.5;periodic 2w X=4|1250|0.6");
}

TEST(bytes_of_epochs_add_up)
{
	for (int seed = 1; seed <= 3; seed++)
		add_run("mlp", "allreduce", 2, seed, 0.4 + 0.1 * seed, "", 2);
	for (int seed = 1; seed <= 3; seed++) /* sends nothing, and has no point */
		add_run("mlp", "serial", 1, seed, 0.5, "", 2);
	made_sql(db, "UPDATE epoch SET bytes_sent = 1000 * epoch * run_id WHERE run_id <= 3");
	expect_rows("accuracy_bytes", "'%s|%g|%g', title, bytes, median",
		    "allreduce 2w|2000|61;allreduce 2w|6000|62");
}

/* gnuplot silently drops entries that do not fit into a key. */
TEST(omitted_names_are_counted_in_figures)
{
	static const char *const figure[] = {"accuracy_epoch", "accuracy_time", "loss_time",
					     "time_epoch",     "pareto",        "efficiency",
					     "speedup",        "seeds",         "time_to_accuracy",
					     "accuracy_final"};
	char label[32];
	if (lacks_program("gnuplot"))
		return;
	made_sql(db, "BEGIN");
	for (int i = 0; i < 65; i++) {
		snprintf(label, sizeof(label), "number %d", i);
		add_run("mlp", "allreduce", i ? 2 : 4, 1, 0.5, label, 2);
	}
	add_run("mlp", "serial", 1, 1, 0.5, "", 2);
	made_sql(db, "UPDATE run SET target_accuracy = 0.5; COMMIT");
	for (size_t i = 0; i < COUNT(figure); i++) {
		ck_assert_int_eq(draw(figure[i], "svg"), 1);
		char *text AUTOFREE = svg_of(figure[i], "");
		int shown = 0, all = strstr(text, "<text>ideal<") ? 65 : 66;
		for (char *at = text; (at = strstr(at, ", number ")); at++)
			for (char *from = at; from > text && *from != '\n'; from--)
				shown += strncmp(from, "<text", 5) == 0;
		shown += all == 66; /* serial */
		ck_assert_msg(shown == 60, "%s: %d names, not 60", figure[i], shown);
		char *want AUTOFREE = sentence("The first 60 of %d are shown", all);
		ck_assert_msg(strstr(text, want) != NULL, "%s does not say: %s", figure[i], want);
	}
}

TEST(staleness_shares_are_of_all_pushes)
{
	char *query AUTOFREE = query_of("staleness");
	char *ask AUTOFREE = sentence(
		"SELECT format('%%s|%%g|%%g|%%g|%%d', title, staleness, share, mean, most) "
		"FROM (%s) WHERE share > 0 UNION ALL SELECT count(*) FROM (%s)",
		query, query);
	/* two runs of one configuration: the second has late pushes, in a bin that is 8 wide */
	add_run("mlp", "asgd", 4, 1, 0.5, "", 1);
	add_run("mlp", "asgd", 4, 2, 0.5, "", 1);
	made_sql(db, "UPDATE epoch SET staleness_mean = 140, staleness_max = 143, pushes = 300 "
		     "WHERE run_id = 2 AND epoch = 1;"
		     "DELETE FROM staleness WHERE run_id = 2;"
		     "INSERT INTO staleness VALUES (2, 1, 136, 300), (2, 0, 5, 1000)");
	expect_asked(ask, "asgd 4w|0|5|105.375|143;asgd 4w|1|10|105.375|143;"
			  "asgd 4w|2|5|105.375|143;asgd 4w|3|2.5|105.375|143;"
			  "asgd 4w|4|2.5|105.375|143;"
			  "asgd 4w|139.5|9.375|105.375|143;130");
}

/* C code and the figure's query both compute the bins. */
TEST(staleness_bins_equal_the_recorded_ones)
{
	char *query AUTOFREE = query_of("staleness"),
		    *want AUTOFREE = sentence("%d,%d", STALENESS_BINS, STALENESS_BINS);
	char *ask AUTOFREE = sentence("SELECT count(*) || ',' || sum(share > 0) FROM (%s)", query);
	add_run("mlp", "asgd", 4, 1, 0.5, "", 1);
	made_sql(db, "DELETE FROM staleness");
	for (int i = 0; i < STALENESS_BINS; i++)
		made_format(db, "INSERT INTO staleness VALUES (1, 1, %lld, 1)",
			    (long long)staleness_of_bin(i));
	expect_asked(ask, want);
}

static char *drawn(const char *figure)
{
	int status;
	char *out AUTOFREE = sentence("--out=%s.svg", figure);
	char *text AUTOFREE = PLOT(&status, figure, "--db=results.db", out);
	ck_assert_msg(status == (strstr(text, "nothing to draw") ? EXIT_FAILED : EXIT_OK), "%s",
		      text);
	ck_assert_msg(!strstr(text, "warns"), "%s", text);
	return folder_read(out + strlen("--out="));
}

/* How many different places from the left the markers of an SVG have. */
static int columns_of_points(const char *text)
{
	double all[64], x;
	int n = 0;
	for (const char *at = text; (at = strstr(at, "xlink:href='#gpPt")); at++) {
		int i = 0;
		if (sscanf(at, "xlink:href='#gpPt%*d' transform='translate(%lf", &x) != 1)
			continue;
		while (i < n && all[i] != x)
			i++;
		if (i == n && n < (int)COUNT(all))
			all[n++] = x;
	}
	return n;
}

static const struct {
	int late; /* one push of this staleness */
	const char *key, *tic, *no_tic;
} lateness[] = {
	{5, "asgd 4w, mean 1.50, max 5<", "> 4<", "> 50<"},
	{60, "asgd 4w, mean 1.50, max 60<", "> 50<", "> 3<"},
	{4000, "asgd 4w, mean 1.50, max 4000<", "> 300<", "> 50<"},
};

TEST(stale_pushes_are_drawn, COUNT(lateness))
{
	if (lacks_program("gnuplot"))
		return;
	add_run("mlp", "asgd", 4, 1, 0.5, "", 3);
	made_format(db,
		    "INSERT INTO staleness VALUES (1, 2, %d, 1);"
		    "UPDATE epoch SET staleness_max = %d WHERE epoch = 2",
		    lateness[_i].late, lateness[_i].late);
	char *text AUTOFREE = drawn("staleness"), *epochs AUTOFREE = drawn("staleness_epoch");
	ck_assert_ptr_nonnull(strstr(text, lateness[_i].key));
	ck_assert_ptr_nonnull(strstr(text, lateness[_i].tic));
	ck_assert_ptr_null(strstr(text, lateness[_i].no_tic));
	ck_assert_ptr_nonnull(strstr(text, "> 20<")); /* % */
	ck_assert_ptr_nonnull(strstr(epochs, "thin: maximum"));
	ck_assert_ptr_nonnull(strstr(epochs, lateness[_i].tic));

	/* pushes are counted, but there is no histogram of them */
	made_sql(db, "DELETE FROM staleness; UPDATE epoch SET pushes = NULL");
	char *none AUTOFREE = drawn("staleness"), *still AUTOFREE = drawn("staleness_epoch");
	ck_assert_ptr_nonnull(strstr(none, "push to a parameter server"));
	ck_assert_ptr_nonnull(strstr(still, "thin: maximum"));
}

/* Points have gaps, but the highest has none: of 13 and 14, which are near, both are drawn. The key
 * has a third. */
TEST(peak_of_staleness_has_a_marker)
{
	if (lacks_program("gnuplot"))
		return;
	add_run("mlp", "asgd", 16, 1, 0.5, "", 1);
	made_sql(db, "DELETE FROM staleness;"
		     "INSERT INTO staleness VALUES (1, 1, 13, 10), (1, 1, 14, 90)");
	char *text AUTOFREE = drawn("staleness");
	ck_assert_int_eq(columns_of_points(text), 3);
}

TEST(timeline_names_the_network_once)
{
	add_run("mlp", "asgd", 2, 1, 0.5, "", 1);
	simulate_all();
	made_sql(db,
		 "DELETE FROM run WHERE platform <> 'sim'; INSERT INTO event (run_id, rank, seq, "
		 "epoch, step, name, start_s, duration_s) VALUES (1001, 0, 1, 1, 1, 'step', 0, 1)");
	char *query AUTOFREE = query_of("timeline"),
		    *ask AUTOFREE = sentence("SELECT DISTINCT cut FROM (%s)", query);
	expect_asked(ask, "asgd 2w");
	expect_asked("SELECT shared FROM configuration", ", sim:local");
}

/* In one configuration all pushes have the same staleness; in the other every push has another.
 * There is no point to mark. */
TEST(staleness_of_one_value_draws_without_warning)
{
	if (lacks_program("gnuplot"))
		return;
	add_run("mlp", "asgd", 1, 1, 0.5, "", 1);
	add_run("mlp", "asgd", 2, 1, 0.5, "", 1);
	made_sql(db, "DELETE FROM staleness; INSERT INTO staleness VALUES (1, 1, 0, 1000);"
		     "WITH bin(k) AS (SELECT 0 UNION ALL SELECT k + 1 FROM bin WHERE k < 120)"
		     "INSERT INTO staleness SELECT 2, 1, k, 1 FROM bin");
	free(drawn("staleness"));
}

/* Names give the placement of tables if strategies with tables differ in it, not because other
 * strategies have no tables. */
TEST(placements_are_named_where_they_differ)
{
	add_run("mlp", "serial", 1, 1, 0.5, "", 1);
	add_run("mlp", "asgd", 2, 1, 0.5, "", 1);
	add_run("mlp", "asgd", 2, 1, 0.5, "", 1);
	made_sql(db, "UPDATE run SET table_home = 'servers', servers = 1 WHERE id = 3");
	expect_names("serial;asgd 2w;asgd 2w+1s");
	made_sql(db, "UPDATE run SET table_home = 'onesided', servers = 0 WHERE id = 3");
	expect_names("serial;asgd 2w table-home=shared;asgd 2w table-home=onesided");
}

/* Names omit what the program chose for each strategy. */
TEST(names_omit_automatic_choices)
{
	add_run("mlp", "asgd", 2, 1, 0.5, "", 1);
	add_run("mlp", "allreduce", 2, 1, 0.5, "", 1);
	made_sql(db, "UPDATE run SET deal = iif(strategy = 'asgd', 'dynamic', 'static')");
	expect_names("asgd 2w;allreduce 2w");
}

/* It is shown for the strategy whose runs differ in it, and for no other; and not where it follows
 * from that strategy's options. */
TEST(chosen_options_are_named_where_they_decide)
{
	add_run("mlp", "asgd", 2, 1, 0.5, "", 1);
	add_run("mlp", "asgd", 2, 1, 0.5, "", 1);
	add_run("mlp", "allreduce", 2, 1, 0.5, "", 1);
	add_run("mlp", "bsp", 2, 1, 0.5, "", 1);
	add_run("mlp", "bsp", 2, 1, 0.5, "", 1);
	made_sql(db, "UPDATE run SET deal = iif(id IN (2, 5), 'dynamic', 'static');"
		     "INSERT INTO run_option VALUES (4, 'strategy', 'backup', '0'), "
		     "(5, 'strategy', 'backup', '1')");
	expect_names("asgd 2w deal=static;asgd 2w deal=dynamic;allreduce 2w;"
		     "bsp 2w bsp.backup=0;bsp 2w bsp.backup=1");
}

/* Runs of twelve strategies on 1, 2 and 4 workers, of two workloads, real and simulated. */
static void fill_twelve(void)
{
	char name[16];
	made_sql(db, "BEGIN");
	for (int i = 0; i < 12; i++)
		for (int workers = 1; workers <= 4; workers *= 2) {
			snprintf(name, sizeof(name), i ? "plan%02d" : "serial", i);
			add_run("mlp", name, workers, 1, 0.5 + 0.01 * i, "", 2);
			add_run("softmax", name, workers, 1, 0.5 + 0.01 * i, "", 2);
		}
	made_sql(db, "UPDATE run SET config_hash = workload || strategy || workers");
	simulate_all();
	made_sql(db, "COMMIT");
}

TEST(configuration_has_one_line_style_in_all_figures)
{
	static const char *const figure[] = {"accuracy_epoch", "accuracy_time", "accuracy_final",
					     "loss_time",      "time_epoch",    "pareto",
					     "seeds"};
	fill_twelve();
	char *want = NULL;
	for (size_t i = 0; i < COUNT(figure); i++) {
		char *query AUTOFREE = query_of(figure[i]);
		char *ask AUTOFREE =
			sentence("SELECT DISTINCT format('%%s %%s %%d', workload, title, look) "
				 "FROM (%s) ORDER BY 1",
				 query);
		char *rows = rows_of(ask);
		ck_assert_msg(!want || strcmp(rows, want) == 0, "%s:\n%s%s", figure[i], rows, want);
		free(want);
		want = rows;
	}
	free(want);
	/* lines of several workers look like one of their configurations */
	expect_rows("speedup",
		    "'%d %d', count(DISTINCT look), total(look IN (SELECT look FROM "
		    "configuration)) = count(*)",
		    "24 1");
	expect_asked("SELECT count(DISTINCT ((look - 1) % 7) || ' ' || ((look - 1) % 12)), "
		     "count(*) FROM configuration WHERE workload = 'mlp'",
		     "72,72");
}

/* Counts the different texts of up to `length` characters that follow the 13 characters of
 * `what`. */
static int different(const char *text, const char *what, size_t length)
{
	int n = 0;
	for (const char *at = text; (at = strstr(at, what)); at++) {
		bool before = false;
		for (const char *b = text; !before && (b = strstr(b, what)) && b < at; b++)
			before = strncmp(b + 13, at + 13, length) == 0;
		n += !before;
	}
	return n;
}

TEST(twelve_strategies_have_distinct_line_styles)
{
	if (lacks_program("gnuplot"))
		return;
	fill_twelve();
	expect_rows("simulated_real",
		    "'%d %d', count(DISTINCT title), count(DISTINCT ((look - 1) % 7) || ' ' || "
		    "((look - 1 + shift) % 12))",
		    "24 24");
	char *text AUTOFREE = drawn("simulated_real");
	/* <use xlink:href='#gpPt5' transform='translate(1.00,2.00) scale(3.60)' color='rgb( */
	ck_assert_int_ge(different(text, "xlink:href='#gpPt", 6), 12); /* markers */
	ck_assert_int_ge(different(text, "color='rgb(", 13), 7);
}

/* Accuracies of 40, 10, 20 and 30 %: two are more than 15 points below the best. */
TEST(trials_far_below_the_best_are_counted_and_not_drawn)
{
	if (lacks_program("gnuplot"))
		return;
	for (int k = 0; k < 4; k++)
		add_run("mlp", "serial", 1, k + 1, 0.5, "", 1);
	made_sql(
		db,
		"UPDATE run SET config_hash = 'h' || id, lr = 0.1 * id;"
		"UPDATE epoch SET validation_accuracy = 0.1 * (1 + (run_id + 2) % 4);"
		"INSERT INTO study (name, hash, made, objective, budget, search) VALUES ('s', 'x', "
		"'', 'accuracy', 4, '{}');"
		"INSERT INTO trial SELECT 1, 'a', 'trial', id, json_object('lr', lr), config_hash "
		"FROM run");
	char *squeezed AUTOFREE = drawn("sensitivity");
	ck_assert_msg(strstr(squeezed, ">2 trials below 25 % not drawn<"), "%s", squeezed);
	made_sql(db, "UPDATE epoch SET validation_accuracy = 0.3 + 0.02 * run_id");
	char *near AUTOFREE = drawn("sensitivity");
	ck_assert_ptr_null(strstr(near, "not drawn"));
}

struct place { /* from the left and from the top [points of the picture] */
	double x, y;
};

/* Where the first text that begins so is in an SVG. The label of a y axis is left of this point. */
static struct place place_of(const char *text, const char *begins)
{
	char *title AUTOFREE = sentence("<title>%s", begins), *whole = title + strlen("<title");
	static const char shift[] = "translate(";
	const char *end = strstr(text, whole), *at = NULL;
	for (char *rest; end && strncmp(end - strlen("<title"), title, strlen(title)) == 0;
	     end = rest)
		rest = strstr(end + 1, whole);
	ck_assert_msg(end, "no %s in %.3000s", begins, text);
	for (const char *next = text; (next = strstr(next, shift)) && next < end; next++)
		at = next;
	ck_assert_ptr_nonnull(at);
	char *rest;
	double x = strtod(at + strlen(shift), &rest);
	return (struct place){x, strtod(rest + 1, NULL)}; /* after a comma */
}

/* gnuplot leaves out a label that long tics move out of the picture. Its letters are 11 points
 * high. */
TEST(labels_of_axes_with_long_tics_are_whole)
{
	if (lacks_program("gnuplot"))
		return;
	add_run("mlp", "asgd", 2, 1, 0.8, "", 3);
	made_sql(db, "UPDATE epoch SET consensus = 0.0011 + 0.00005 * epoch, test_accuracy = 0.8 + "
		     "0.0001 * epoch, train_loss = 0.385 + 0.001 * epoch WHERE epoch >= 1");
	char *consensus AUTOFREE = drawn("consensus"), *accuracy AUTOFREE = drawn("accuracy_epoch"),
			*loss AUTOFREE = drawn("loss_time");
	ck_assert_double_ge(place_of(consensus, "Consensus distance<").x, 11);
	ck_assert_double_ge(place_of(accuracy, "Test accuracy [%]<").x, 11);
	ck_assert_double_ge(place_of(loss, "Training loss<").x, 11);
}

TEST(logarithmic_axes_have_no_raised_exponents)
{
	if (lacks_program("gnuplot"))
		return;
	add_run("mlp", "asgd", 2, 1, 0.8, "", 3);
	made_sql(db, "UPDATE epoch SET consensus = iif(epoch = 1, 0.5, 2e-8) WHERE epoch >= 1");
	char *text AUTOFREE = drawn("consensus");
	ck_assert_ptr_nonnull(strstr(text, "1e-07<"));
	ck_assert_ptr_null(strstr(text, "font-size=\"8.8\""));
	ck_assert_double_ge(place_of(text, "Consensus distance<").x, 11);
}

/* Colours are those of strategies. */
TEST(parts_of_an_epoch_are_grey)
{
	if (lacks_program("gnuplot"))
		return;
	add_run("mlp", "asgd", 2, 1, 0.8, "", 3);
	char *text AUTOFREE = drawn("comm_split");
	for (const char *at = text; (at = strstr(at, "rgb(")); at++) {
		int red, green, blue, n = sscanf(at, "rgb(%d,%d,%d)", &red, &green, &blue);
		ck_assert_msg(n == 3 && red == green && green == blue, "%.20s", at);
	}
}

/* Six configurations with long names, of which one has a run that diverged. */
static void fill_long_names(void)
{
	static const char *const strategy[] = {"adpsgd", "allreduce", "asgd",
					       "bsp",    "easgd",     "periodic"};
	for (size_t i = 0; i < COUNT(strategy); i++)
		add_run("mlp", strategy[i], 2, 1, 0.5 + 0.01 * (double)i,
			"a label of thirty letters and more", 3);
	add_run("mlp", "asgd", 2, 2, 0.5, "a label of thirty letters and more", 3);
	made_sql(db, "UPDATE run SET label = 'another' WHERE strategy = 'bsp';"
		     "UPDATE run SET status = 'diverged' WHERE seed = 2");
}

TEST(notes_are_below_the_key)
{
	if (lacks_program("gnuplot"))
		return;
	fill_long_names();
	char *text AUTOFREE = drawn("accuracy_epoch");
	ck_assert_double_gt(place_of(text, "One run diverged").y,
			    place_of(text, "periodic 2w").y + 11);
}

/* An 84 mm column has the width of 349 units, that is 45 letters next to the margins. */
TEST(narrow_figures_fold_long_names, 2)
{
	static const char *const figure[] = {"accuracy_epoch", "accuracy_final"};
	int high, wide = 0;
	if (lacks_program("gnuplot"))
		return;
	fill_long_names();
	EXPECT_PLOT(EXIT_OK, "a.svg\n", figure[_i], "--db=results.db", "--out=a.svg",
		    "--size=84mm");
	char *text AUTOFREE = folder_read("a.svg"), *box = strstr(text, "viewBox=\"0 0 ");
	ck_assert_int_eq(sscanf(box, "viewBox=\"0 0 %d %d", &wide, &high), 2);
	ck_assert_msg(wide <= 350, "%s is %d units wide", figure[_i], wide);
	const char *line[] = {"<text>allreduce 2w, a label of", "<text>One run diverged"};
	for (size_t i = 0; i < COUNT(line); i++) {
		const char *at = strstr(text, line[i]);
		ck_assert_ptr_nonnull(at);
		ck_assert_msg(strcspn(at + strlen("<text>"), "<") <= 45, "%.60s", at);
	}
}

static int count_of(const char *text, const char *what)
{
	int n = 0;
	for (const char *at = text; (at = strstr(at, what)); at++)
		n++;
	return n;
}

/* The plot area is 400 points wide and 270 high. Ends that touch, long names, and more than four
 * curves have a key below. */
TEST(few_curves_have_their_names_at_their_ends)
{
	const double below = 300;
	if (lacks_program("gnuplot"))
		return;
	add_run("mlp", "serial", 1, 1, 0.5, "", 3);
	add_run("mlp", "asgd", 2, 1, 0.7, "", 3);
	char *apart AUTOFREE = drawn("accuracy_epoch");
	ck_assert_double_gt(place_of(apart, "asgd 2w<").x, 400);
	ck_assert_double_gt(place_of(apart, "serial<").x, 400);
	ck_assert_double_lt(place_of(apart, "serial<").y, below);
	add_run("mlp", "bsp", 2, 1, 0.701, "", 3);
	char *touching AUTOFREE = drawn("accuracy_epoch");
	ck_assert_double_gt(place_of(touching, "serial<").y, below);
	made_sql(db, "DELETE FROM run WHERE strategy = 'bsp';"
		     "UPDATE run SET speed = '0:0.5,1:0.5,0:0.25,1:0.125,0:0.0625' WHERE workers = "
		     "2");
	char *longer AUTOFREE = drawn("accuracy_epoch");
	ck_assert_double_gt(place_of(longer, "serial<").y, below);
	for (int workers = 2; workers <= 4; workers++)
		add_run("mlp", "allreduce", workers, 1, 0.3 + 0.2 * workers, "", 3);
	char *many AUTOFREE = drawn("accuracy_epoch");
	ck_assert_double_gt(place_of(many, "serial<").y, below);
}

static const struct {
	const char *figure, *change;
} named[] = {
	{"speedup", ""},
	{"efficiency", ""},
	{"accuracy_interval",
	 "UPDATE run SET sync_every = iif(workers = 4, 64, 1), workers = 2 WHERE workers > 1"},
	{"accuracy_bytes",
	 "UPDATE epoch SET bytes_sent = 1000 * epoch * epoch WHERE epoch >= 1 AND run_id % 2"},
	{"utilisation",
	 "UPDATE run SET platform = 'sim', sim_platform = 'cluster', sim_train = 0, sim_step_time ="
	 " '1ms', sim_update_time = 'auto', sim_slow_link = '', sim_replay = 0, sim_rate ="
	 " iif(workers = 4, 1.25e9, 1e6), workers = min(workers, 2)"},
};

static void add_two_curves(void)
{
	add_run("mlp", "serial", 1, 1, 0.3, "", 3);
	for (int workers = 2; workers <= 4; workers += 2)
		add_run("mlp", "asgd", workers, 1, 0.5, "", 3);
	for (int workers = 2; workers <= 4; workers += 2)
		add_run("mlp", "periodic", workers, 1, 0.8, "", 3);
	made_sql(db, "UPDATE epoch SET seconds = 2 * seconds WHERE run_id >= 4");
}

/* A key, which has the line of the ideal, begins below the plot area. */
TEST(line_figures_have_names_at_their_curves, COUNT(named))
{
	if (lacks_program("gnuplot"))
		return;
	add_two_curves();
	made_sql(db, named[_i].change);
	char *text AUTOFREE = drawn(named[_i].figure);
	ck_assert_double_gt(place_of(text, "asgd").x, 400);
	ck_assert_double_gt(place_of(text, "periodic").x, 400);
	if (strstr(text, ">ideal<"))
		ck_assert_double_lt(place_of(text, "ideal<").x, 400);
	else
		ck_assert_int_ge(_i, 2);
}

/* Two curves at 2 and 4 workers: bars of two seeds are beside each other, points of one are not. */
TEST(points_without_bars_are_at_their_x)
{
	if (lacks_program("gnuplot"))
		return;
	add_two_curves();
	char *plain AUTOFREE = drawn("speedup");
	ck_assert_int_eq(columns_of_points(plain), 2);
	for (int workers = 2; workers <= 4; workers += 2)
		add_run("mlp", "asgd", workers, 2, 0.5, "", 3);
	char *barred AUTOFREE = drawn("speedup");
	ck_assert_int_eq(columns_of_points(barred), 4);
}

TEST(xy_has_names_at_its_lines_and_its_label_below_words)
{
	int status;
	if (lacks_program("gnuplot"))
		return;
	add_two_curves();
	made_sql(db, "DELETE FROM run WHERE strategy = 'serial'");
	char *lines AUTOFREE = PLOT(&status, "--db=results.db", "--x=workers", "--y=test_accuracy",
				    "--out=lines.svg");
	ck_assert_msg(status == EXIT_OK && !strstr(lines, "warns"), "%s", lines);
	char *text AUTOFREE = folder_read("lines.svg");
	ck_assert_double_gt(place_of(text, "asgd").x, 400);
	ck_assert_double_gt(place_of(text, "periodic").x, 400);
	EXPECT_PLOT(EXIT_OK, "words.svg\n", "--db=results.db", "--x=strategy", "--y=test_accuracy",
		    "--out=words.svg");
	char *words AUTOFREE = folder_read("words.svg");
	ck_assert_double_ge(place_of(words, "strategy<").y, place_of(words, "asgd<").y + 11);
}

TEST(logarithmic_axis_of_one_to_two_decades_has_tics_between)
{
	int status;
	if (lacks_program("gnuplot"))
		return;
	add_run("mlp", "asgd", 1, 1, 0.5, "", 1);
	add_run("mlp", "asgd", 64, 1, 0.5, "", 1);
	char *said AUTOFREE = PLOT(&status, "--db=results.db", "--x=workers", "--y=test_accuracy",
				   "--out=wide.svg");
	ck_assert_msg(status == EXIT_OK, "%s", said);
	char *text AUTOFREE = folder_read("wide.svg");
	ck_assert_ptr_nonnull(strstr(text, ">20<"));
}

/* One number of workers is no curve of a speed-up. */
TEST(speed_up_marks_more_workers_than_cores_and_needs_two_numbers)
{
	if (lacks_program("gnuplot"))
		return;
	add_run("mlp", "serial", 1, 1, 0.8, "", 2);
	add_run("mlp", "asgd", 4, 1, 0.8, "", 2);
	expect_rows("speedup", "'%s', title", "");
	add_run("mlp", "asgd", 2, 1, 0.8, "", 2);
	char *roomy AUTOFREE = drawn("speedup");
	ck_assert_ptr_null(strstr(roomy, "more workers than cores"));
	made_sql(db, "UPDATE run SET oversubscribed = workers > 2");
	char *crowded AUTOFREE = drawn("speedup");
	ck_assert_ptr_nonnull(strstr(crowded, "more workers than cores"));
}

/* A band is a polygon. */
TEST(more_than_four_curves_have_no_bands)
{
	if (lacks_program("gnuplot"))
		return;
	for (int workers = 1; workers <= 5; workers++) {
		for (int seed = 1; seed <= 3; seed++)
			add_run("mlp", "asgd", workers, seed, 0.1 * workers + 0.01 * seed, "", 3);
		char *text AUTOFREE = drawn("accuracy_epoch");
		ck_assert_int_eq(count_of(text, "fill-opacity"), workers <= 4 ? workers : 0);
	}
}

/* The points that figure xy draws of two columns, one row a line. */
static char *points_of(const struct axes *a, const char *columns)
{
	struct store *s = NULL;
	char *plots AUTOFREE = installed_path("plots"), *query AUTOFREE = query_of("xy");
	char *ask AUTOFREE = sentence("SELECT format(%s) FROM (%s)", columns, query);
	char *wrong AUTOFREE = store_open(&s, database, STORE_READ);
	struct text t;
	FILE *f = text_open(&t);
	wrong = wrong ? wrong : plot_choose(s, &(struct select){database, "", ""}, plots, false);
	wrong = wrong ? wrong : axes_choose(s, a);
	if (!wrong) {
		struct sql q = sql_select(s, ask, "");
		while (sql_next(&q))
			fprintf(f, "%s\n", sql_text(&q, 0));
		wrong = sql_done(&q);
	}
	fputs(wrong ? wrong : "", f);
	store_close(s);
	return text_close(&t);
}

static const struct {
	struct axes axes;
	const char *columns, *want;
} pairs[] = {
	/* a line for each configuration, without x; medians over seeds; a diverged run counts as
	 * the worst */
	{{"workers", "test_accuracy", "", "auto"},
	 "'%s|%g|%g|%g|%g', title, at, median, low, high",
	 "serial (n=1)|1|52|52|52\n"
	 "asgd (n=4..5)|2|57|42|72\nasgd (n=4..5)|4|62|42|67\n"},
	/* the speed-up of a run depends on no other run's seeds; options have their names */
	{{"asgd.damp", "speedup", "strategy", "none"},
	 "'%s|%g|%.4g|%s', title, at, median, x_label",
	 "asgd (n=9)|0.3|1.952|asgd.damp\n"},
	{{"strategy", "epoch-seconds", "workers,label", "x"},
	 "'%s|%d|%s|%.3g|%s', title, at, x, median, y_label",
	 "workers=1 (n=1)|2|serial|4.1|epoch_seconds [s]\n"
	 "workers=2 (n=5)|1|asgd|2.2|epoch_seconds [s]\n"
	 "workers=4 (n=4)|1|asgd|1.25|epoch_seconds [s]\n"},
	/* if x is measured, each configuration is a point */
	{{"epoch_seconds", "test_loss", "strategy", "auto"},
	 "'%s|%.3g|%.3g|%d', title, at, median, lined",
	 "serial (n=1)|4.1|0.333|0\nasgd (n=4..5)|1.3|0.333|0\nasgd (n=4..5)|2.25|0.333|0\n"},
	{{"lrr", "speedup", "", "auto"}, "1", "--x=lrr: there is no such column; did you mean lr?"},
	{{"lr", "learning-rate", "", "auto"},
	 "1",
	 "--y=learning-rate: there is no such column; did you mean lr?"},
	{{"lr", "speedup", "worker", "auto"},
	 "1",
	 "--group=worker: there is no such column; did you mean workers?"},
	{{"lr", "strategy", "", "auto"},
	 "1",
	 "--x=lr --y=strategy: none of the 10 chosen finished runs has both, with a number for y"},
};

TEST(points_of_any_two_columns_are_right, COUNT(pairs))
{
	add_run("mlp", "serial", 1, 1, 0.5, "", 2);
	/* a newer run of the seed replaces its model, not its time */
	add_run("mlp", "asgd", 2, 1, 0.9, "", 2);
	for (int seed = 1; seed <= 4; seed++)
		add_run("mlp", "asgd", 2, seed, 0.3 + 0.1 * seed, "", 2);
	for (int seed = 1; seed <= 5; seed++)
		add_run("mlp", "asgd", 4, seed, 0.55 + 0.05 * (seed % 3), "", 2);
	made_sql(db, "UPDATE run SET status = 'diverged' WHERE id = 11;"
		     "INSERT INTO run_option SELECT id, 'strategy', 'damp', '0.3' FROM run WHERE "
		     "strategy = 'asgd'");
	char *rows AUTOFREE = points_of(&pairs[_i].axes, pairs[_i].columns);
	bool refused = strncmp(pairs[_i].want, "--", 2) == 0;
	ck_assert_msg(strcmp(rows, pairs[_i].want) == 0 ||
			      (refused && strstr(rows, pairs[_i].want)),
		      "%s", rows);
}

/* There are four dashes: a marker tells the first interval from the fifth. */
TEST(lines_of_one_strategy_have_distinct_looks)
{
	static const struct axes axes = {"workers", "epoch_seconds", "", "auto"};
	add_run("mlp", "serial", 1, 1, 0.5, "", 1);
	for (int x = 1; x <= 16; x *= 2)
		for (int workers = 2; workers <= 32; workers *= 2) {
			add_run("mlp", "periodic", workers, 1, 0.5, "", 1);
			made_format(db,
				    "UPDATE run SET sync_every = %lld, config_hash = id WHERE id = "
				    "(SELECT max(id) FROM run)",
				    (long long)x);
		}
	expect_rows("speedup", "'%d', count(DISTINCT look)", "5");
	expect_rows("accuracy_interval", "'%d', count(DISTINCT look)", "5");
	char *looks AUTOFREE = points_of(&axes, "'%d', count(DISTINCT look)");
	ck_assert_str_eq(looks, "6\n");
}

/* Also where the short name contains x. */
static const char *const parts[][2] = {
	{"servers", "1"},     {"sync_every", "4"},    {"device", "'cuda'"}, {"precision", "'bf16'"},
	{"speed", "'0:0.5'"}, {"pause", "'0:1s:1s'"}, {"leave", "'0:1s'"}};

TEST(xy_line_joins_runs_that_differ_only_in_x, COUNT(parts))
{
	const struct axes axes = {parts[_i][0], "test_accuracy", "", "none"};
	add_run("mlp", "asgd", 2, 1, 0.5, "", 1);
	add_run("mlp", "asgd", 2, 1, 0.5, "", 1);
	char *sql AUTOFREE =
		sentence("UPDATE run SET %s = %s WHERE id = 2", parts[_i][0], parts[_i][1]);
	made_sql(db, sql);
	char *titles AUTOFREE = points_of(&axes, "'%s', title");
	ck_assert_str_eq(titles, "asgd 2w\nasgd 2w\n");
}

TEST(names_of_xy_are_without_the_heading)
{
	static const struct axes axes = {"sync_every", "epoch_seconds", "", "none"};
	for (int i = 0; i < 4; i++)
		add_run("mlp", "asgd", 2, 1, 0.5, "", 1);
	made_sql(db, "UPDATE run SET seed = 1 + id % 2, sync_every = 1 + id / 3, config_hash = id");
	simulate_all();
	made_sql(db, "DELETE FROM run WHERE platform = 'mpi'");
	char *titles AUTOFREE = points_of(&axes, "'%s', title");
	ck_assert_str_eq(titles, "asgd 2w\nasgd 2w\n");
}

TEST(plot_draws_any_two_columns)
{
	if (lacks_program("gnuplot"))
		return;
	int status;
	fill_hostile();
	char *text = PLOT(&status, "--db=results.db", "--x=workers", "--y=test_loss", "--out=figs",
			  "--group=label");
	ck_assert_msg(status == EXIT_OK && strstr(text, "figs/test_loss-workers-mlp.png\n") &&
			      !strstr(text, "warns"),
		      "%s", text);
	free(text);
	EXPECT_PLOT(EXIT_OK, "l.svg\n", "--db=results.db", "--x=label", "--y=epoch-seconds",
		    "--log=y", "--out=l.svg", "--where=workload='mlp'");
	char *path AUTOFREE = in_folder("l.svg");
	check_picture(path);
	text = text_read(path);
	ck_assert(strstr(text, "`touch PWNED`") && strstr(text, "epoch_seconds [s]"));
	free(text);
	ck_assert_int_ne(access("PWNED", F_OK), 0);
	static const char *const mistake[][3] = {
		{"--x=workers", "--db=results.db", "give --x and --y, as in mvbench plot --x="},
		{"speedup", "--x=workers",
		 "speedup: --x, --y, --group and --log are for figure xy"},
		{"--x=sync", "--y=speedup",
		 "--x=sync: there is no such column; did you mean sync_every?"},
	};
	for (size_t i = 0; i < COUNT(mistake); i++)
		EXPECT_PLOT(EXIT_USER, mistake[i][2], mistake[i][0], mistake[i][1],
			    "--db=results.db");
}

TEST(figures_of_times_note_busy_cores)
{
	if (lacks_program("gnuplot"))
		return;
	add_run("mlp", "asgd", 2, 1, 0.5, "", 1);
	add_run("mlp", "asgd", 4, 1, 0.5, "", 1);
	made_sql(db, "UPDATE epoch SET run_delay_s = 0.5 * seconds WHERE run_id = 1;"
		     "UPDATE run SET status = status");
	EXPECT_PLOT(EXIT_OK, "in 1 of these runs a worker had less than 90 % of its core",
		    "--db=results.db", "--x=workers", "--y=epoch_seconds", "--out=b.svg");
	EXPECT_PLOT(EXIT_OK, "in 1 of these runs", "time_epoch", "--db=results.db", "--out=b.svg");
	EXPECT_PLOT(EXIT_OK, "b.svg\n", "--db=results.db", "--x=workers", "--y=test_accuracy",
		    "--out=b.svg");
}

TEST(names_tell_configurations_apart)
{
	for (int i = 0; i < 4; i++)
		add_run("mlp", "asgd", 2, i, 0.5, i == 3 ? "tuned" : "", 1);
	made_sql(db, "UPDATE run SET lr = 0.2 WHERE id = 2;"
		     "INSERT INTO run_option VALUES (1, 'strategy', 'damp', '0'), (2, 'strategy', "
		     "'damp', '0'),"
		     " (3, 'strategy', 'damp', '1'), (4, 'strategy', 'damp', '0')");
	expect_names("asgd 2w lr=0.1 asgd.damp=0;asgd 2w lr=0.2 asgd.damp=0;"
		     "asgd 2w lr=0.1 asgd.damp=1;asgd 2w lr=0.1 asgd.damp=0, tuned");
}

/* An option of mvbench itself that is 0 is off, at any position. */
TEST(names_omit_options_that_are_off)
{
	add_run("mlp", "asgd", 2, 1, 0.5, "", 1);
	add_run("mlp", "asgd", 2, 1, 0.5, "0", 1);
	made_sql(db,
		 "UPDATE run SET validation = 50, global_batch = 64, eval_every = 5, target_loss = "
		 "0.5, arrival_seed = 3 WHERE id = 2");
	expect_names("asgd 2w;asgd 2w global-batch=64 arrival-seed=3 validation=50 "
		     "target-loss=0.5 eval-every=5, 0");
}

/* Beside simulated runs, real runs: neither names an option that only the other kind has, or one
 * that is off. The label comes before long settings. */
TEST(names_show_only_differences)
{
	add_run("mlp", "asgd", 2, 1, 0.5, "", 1);
	add_run("mlp", "asgd", 2, 1, 0.5, "", 1);
	simulate_all();
	made_sql(db,
		 "UPDATE run SET target_accuracy = 0.9 WHERE id = 2;"
		 "UPDATE run SET label = 'night', data_dir = '/a/folder/with/a/long/name' WHERE id "
		 "= 1002");
	expect_names("asgd 2w;asgd 2w target-accuracy=0.9;asgd 2w sim:local;"
		     "asgd 2w sim:local, night data-dir=/a/folder/with/a/long/name");
}

/* Names differ by the short name of a configuration, or by the settings that names.sql adds. */
TEST(names_tell_every_option_apart)
{
	for (const struct option *o = run_options; o->name; o++) {
		if (o->incidental || strcmp(o->name, "seed") == 0)
			continue;
		char column[COLUMN_ROOM];
		option_column(o, column);
		bool text = o->type == OPT_STRING || o->type == OPT_CHOICE;
		made_sql(db, "DELETE FROM run");
		add_run("mlp", "asgd", 2, 1, 0.5, "", 1);
		add_run("mlp", "asgd", 2, 2, 0.5, "", 1);
		if (strncmp(o->name, "sim.", 4) == 0) /* NULL in real runs */
			made_format(db, "UPDATE run SET platform = 'sim', %s = %s", column,
				    text ? "''" : "0");
		made_format(db, "UPDATE run SET %s = ifnull(%s, %s WHERE seed = 2", column, column,
			    text ? "'') || 'x'" : "0) + 1");
		char *rows AUTOFREE =
			rows_of("SELECT count(DISTINCT workload || ' ' || name) FROM selected");
		ck_assert_msg(strcmp(rows, "2") == 0, "--%s is not shown", o->name);
	}
}

/* Tables and figures use the same names, also for a run that has not begun and does not know its
 * placement yet. */
TEST(tables_and_figures_agree_on_names)
{
	add_run("mlp", "asgd", 2, 1, 0.5, "", 1);
	add_run("mlp", "asgd", 2, 1, 0.5, "tuned", 1);
	add_run("mlp", "easgd", 2, 1, 0.5, "", 1);
	add_run("mlp", "easgd", 2, 2, 0.5, "", 1);
	simulate_all();
	made_sql(db,
		 "UPDATE run SET params = 7;"
		 "INSERT INTO run_option VALUES (3, 'strategy', 'beta', '0.3'), "
		 "(4, 'strategy', 'beta', '0.3'), (1003, 'strategy', 'beta', '0.5'), "
		 "(1004, 'strategy', 'beta', '0.5');"
		 "UPDATE run SET lr = 0.25 WHERE id = 2;"
		 "UPDATE run SET table_home = 'shared' WHERE strategy = 'asgd';"
		 "UPDATE run SET table_home = 'onesided' WHERE strategy = 'easgd';"
		 /* not begun: what it chooses is not known */
		 "UPDATE run SET status = 'pending', params = NULL, device = 'auto', table_home = "
		 "'auto', transport = 'auto', deal = 'auto' WHERE id = 4;"
		 "UPDATE run SET transport = NULL, deal = 'static', device = 'cpu' WHERE id <> 4");
	char *figures AUTOFREE = rows_of("SELECT DISTINCT name FROM selected ORDER BY 1");
	ck_assert_str_eq(figures, "asgd 2w lr=0.1;asgd 2w lr=0.25, tuned;"
				  "asgd 2w sim:local lr=0.1;asgd 2w sim:local lr=0.1, tuned;"
				  "easgd 2w lr=0.1 easgd.beta=0.3;"
				  "easgd 2w sim:local lr=0.1 easgd.beta=0.5");
	char *command AUTOFREE =
		sentence("./mvbench table --db=%s --columns=configuration --format=json | sed "
			 "'s/.*: \"//; s/\"}//' | sort >%s/names",
			 database, folder);
	ck_assert_int_eq(system(command), 0);
	char *table AUTOFREE = folder_read("names");
	for (char *at = table; (at = strchr(at, '\n'));)
		*at = at[1] ? ';' : '\0';
	ck_assert_str_eq(table, figures);
}

/* Of configurations with the same strategy, workers and interval, the first one of the job file is
 * the first. By name, 100mbit would come before 20mbit. */
TEST(rows_and_bars_are_in_the_order_of_the_job_file)
{
	static const char want[] = "asgd 2w lr=0.5;asgd 2w lr=0.1;asgd 2w lr=0.25";
	for (int i = 0; i < 3; i++)
		add_run("mlp", "asgd", 2, 1, 0.5, "", 1);
	made_sql(db, "UPDATE run SET lr = iif(id = 1, 0.5, iif(id = 2, 0.1, 0.25))");
	char *bars AUTOFREE = rows_of("SELECT name FROM configuration ORDER BY place");
	ck_assert_str_eq(bars, want);
	char *command AUTOFREE = sentence("./mvbench table --db=%s --columns=configuration "
					  "--format=csv | sed 1d | tr -d '\\r' | paste -sd';'",
					  database);
	char rows[400];
	ck_assert_int_eq(command_output(command, rows, sizeof rows), 0);
	rows[strcspn(rows, "\n")] = '\0';
	ck_assert_str_eq(rows, want);
}

/* Seeds that were run again: real ones (serial), simulated ones (asgd), and some that diverged
 * before or after that (allreduce). Table, report and figures count the same runs, which are those
 * here. */
TEST(table_report_and_figures_count_the_same_runs)
{
	static const char want[] = "allreduce 2w n=3 diverged=1 0.62 0.72 2.2;"
				   "asgd 2w sim n=4 diverged=0 0.72 0.92 2.2;"
				   "serial n=4 diverged=0 0.72 0.92 4.15";
	static const char *const query[] = {
		"SELECT t.configuration || printf(' n=%d diverged=%d %.6g %.6g %.6g', s.n, "
		"s.diverged, s.test_accuracy, s.test_accuracy_high, s.epoch_seconds) "
		"FROM configuration_summary AS s JOIN title AS t USING (config_key) ORDER BY 1",
		"SELECT name || printf(' n=%d diverged=%d %.6g %.6g %.6g', n, diverged, accuracy, "
		"accuracy_high, seconds) FROM report_configuration ORDER BY 1",
		"SELECT c.name || printf(' n=%d diverged=%d %.6g %.6g %.6g', c.n, "
		"(SELECT count(*) FROM lost_run AS l WHERE l.place = c.place), f.median / 100, "
		"f.high / 100, p.seconds) FROM configuration AS c JOIN final AS f USING (place) "
		"JOIN pace AS p USING (place) ORDER BY 1"};
	static const double best[] = {0.5, 0.9, 0.6, 0.7};
	for (int i = 0; i < 4; i++) {
		add_run("mlp", "serial", 1, i % 3 + 1, best[i], "", 2);
		add_run("mlp", "asgd", 2, i % 3 + 1, best[i], "", 2);
	}
	made_sql(db, "UPDATE run SET platform = 'sim' WHERE strategy = 'asgd'");
	add_run("mlp", "allreduce", 2, 1, 0.5, "", 2); /* diverged, then done */
	add_run("mlp", "allreduce", 2, 1, 0.7, "", 2);
	add_run("mlp", "allreduce", 2, 2, 0.9, "", 2); /* done, then diverged */
	add_run("mlp", "allreduce", 2, 2, 0.9, "", 2);
	add_run("mlp", "allreduce", 2, 3, 0.6, "", 2);
	made_sql(db, "UPDATE run SET status = 'diverged' WHERE id IN (9, 12)");
	sqlite3 *styles = styled("plots/report.sql");
	for (size_t i = 0; i < COUNT(query); i++)
		made_expect(styles, query[i], want);
	sqlite3_close(styles);
}

/* Five commits with three runs each. From the third on, epochs take twice as long, whatever the
 * label. Another configuration does not change. */
TEST(steps_between_commits_are_drawn)
{
	if (lacks_program("gnuplot"))
		return;
	for (int i = 0; i < 30; i++)
		add_run("mlp", i < 15 ? "asgd" : "serial", i < 15 ? 2 : 1, i % 3 + 1, 0.5,
			i < 6 ? "early" : "", 2);
	made_sql(db, "UPDATE run SET git_commit = 'commit' || ((id - 1) % 15 / 3), git_dirty = 0, "
		     "started = printf('2026-01-%02dT00:00:00Z', 1 + (id - 1) % 15 / 3);"
		     "UPDATE epoch SET seconds = (SELECT iif(strategy = 'asgd' AND "
		     "git_commit > 'commit1', 2, 1) + 0.001 * seed FROM run WHERE id = run_id) "
		     "WHERE epoch > 0");
	expect_asked("SELECT count(*) FROM past", "0");
	EXPECT_PLOT(EXIT_OK, "", "history", "--db=results.db", "--out=h.svg");
	char *svg AUTOFREE = folder_read("h.svg");
	ck_assert(strstr(svg, "+99.8 %") && strstr(svg, "commit4") &&
		  strstr(svg, ">epoch_seconds [s]<"));
	ck_assert(strstr(svg, ">asgd 2w<") && strstr(svg, ">serial<"));
	/* no arrow if nothing steps */
	EXPECT_PLOT(EXIT_OK, "", "history", "--db=results.db", "--y=test_accuracy", "--out=h.svg");
	char *flat AUTOFREE = folder_read("h.svg");
	ck_assert(strstr(flat, ">test_accuracy [%]<") && !strstr(flat, "+99.8"));
	EXPECT_PLOT(EXIT_USER,
		    "--y=epoch_second: there is no such figure; did you mean epoch_seconds?",
		    "history", "--db=results.db", "--y=epoch_second", "--out=h.svg");
	EXPECT_PLOT(EXIT_USER, "are for figure xy", "history", "--db=results.db", "--x=lr",
		    "--y=test_loss", "--out=h.svg");
	made_sql(db, "UPDATE run SET git_commit = 'one'");
	EXPECT_PLOT(EXIT_FAILED, "by two commits or more", "history", "--db=results.db",
		    "--out=h.svg");
}

static const char own_query[] = "-- Final loss.\n-- Needs runs.\n"
				"SELECT s.workload, s.title, s.workers, test_loss"
				" FROM selected AS s JOIN run_summary USING (id);\n";
static const char own_gp[] = "eval layout_curves\nplot for [i = 1:blocks] data index i - 1"
			     " using 1:2 with points title name[i]\n";

/* Writes the two files of a figure, without their ends: those that are not NULL. */
static void put_figure(const char *name, const char *query, const char *gp)
{
	char *sql AUTOFREE = sentence("%s.sql", name),
		  *plot_file AUTOFREE = sentence("%s.gp", name);
	if (query)
		folder_text(sql, query);
	if (gp)
		folder_text(plot_file, gp);
}

TEST(added_sql_and_gp_make_a_figure)
{
	if (lacks_program("gnuplot"))
		return;
	char *plots AUTOFREE = installed_path("plots"),
		    *mine AUTOFREE = sentence("%s/plots", folder);
	const char *shared[] = {"style.sql", "style.gp"};
	ck_assert_int_eq(mkdir(mine, 0700), 0);
	for (int i = 0; i < 2; i++) {
		char *from AUTOFREE = sentence("%s/%s", plots, shared[i]),
			   *real AUTOFREE = realpath(from, NULL);
		char *to AUTOFREE = sentence("%s/%s", mine, shared[i]);
		ck_assert_int_eq(symlink(real, to), 0);
	}
	put_figure("plots/loss", own_query, own_gp);
	setenv("MVBENCH_HOME", folder, 1);
	fill_one();
	EXPECT_PLOT(EXIT_OK, "loss  Final loss.\n", "--list");
	ck_assert_int_eq(draw("loss", "png"), 1);

	/* A figure with a mistake: the message names the figure and the line. */
	char *broken_gp AUTOFREE = sentence("%splot nonsense(\n", own_gp);
	int status;
	put_figure("plots/loss", own_query, broken_gp);
	char *text AUTOFREE = PLOT(&status, "loss", "--db=results.db");
	ck_assert_int_eq(status, EXIT_FAILED);
	ck_assert_msg(strstr(text, "loss.gp") && strstr(text, "line 3"), "%s", text);
}

/* The second figure ends after more than a second; the path of the third takes the place of the
 * bar. */
TEST(figures_on_a_terminal_show_the_time_left)
{
	static const char *const name[] = {"first", "second", "third"};
	char shown[8192], *slow AUTOFREE = sentence("%ssystem('sleep 0.7')\n", own_gp);
	if (lacks_program("gnuplot") || lacks_program("script"))
		return;
	fill_one();
	for (size_t i = 0; i < COUNT(name); i++)
		put_figure(name[i], own_query, slow);
	char *command AUTOFREE = sentence(
		"TERM=xterm script -qec './mvbench plot first second third --figures=%s --db=%s "
		"--out=%s/figs' /dev/null </dev/null 2>&1",
		folder, database, folder);
	ck_assert_int_eq(command_output(command, shown, sizeof shown), 0);
	ck_assert_msg(strstr(shown, "\rfigure 2/3 [") && strstr(shown, "  67 %  ETA 0:0"), "%s",
		      shown);
	char *third AUTOFREE = sentence("\r\033[K%s/figs/third.png", folder);
	ck_assert_msg(strstr(shown, third), "%s", shown);
}

/* Users' figures work beside the ones of the program, without a change to that folder. */
static void add_path(void *text, const struct word *w)
{
	size_t n = strlen(text);
	snprintf((char *)text + n, 4096 - n, "%s:%s ", w->name, w->path);
}

TEST(user_folders_add_figures)
{
	if (lacks_program("gnuplot"))
		return;
	int status;
	char *path AUTOFREE = sentence("%s/mvbench/plots", folder),
		   *list AUTOFREE = sentence("(yours: %s)", path);
	fill_one();

	/* in the user's configuration folder; one of these replaces a figure of the program */
	char *parent AUTOFREE = sentence("%s/mvbench", folder);
	ck_assert_int_eq(mkdir(parent, 0700), 0);
	ck_assert_int_eq(mkdir(path, 0700), 0);
	put_figure("mvbench/plots/my_loss", own_query, own_gp);
	put_figure("mvbench/plots/speedup", "-- Mine.\nSELECT 'mlp', 'x y', 1, 2", own_gp);
	char *text = PLOT(&status, "--list");
	ck_assert_int_eq(status, EXIT_OK);
	ck_assert_msg(strstr(text, "Final loss. (yours") && strstr(text, list), "%s", text);
	ck_assert_msg(strstr(text, "Mine. (yours") && !strstr(text, "ideal line"), "%s", text);
	ck_assert_ptr_nonnull(strstr(text, "\naccuracy_time "));
	free(text);
	char *whole AUTOFREE = sentence("my_loss:%s/my_loss ", path), all[4096] = "";
	command_plot.words(add_path, all);
	ck_assert_msg(strstr(all, whole), "%s", all);
	ck_assert_msg(strstr(all, "accuracy_time:plots/accuracy_time "), "%s", all);
	ck_assert_int_eq(draw("my_loss", "png"), 1);
	ck_assert_int_eq(draw("my_loss", "svg"), 1);
	ck_assert_int_eq(draw("speedup", "svg"), 1);
	text = svg_of("speedup", "");
	ck_assert_ptr_nonnull(strstr(text, "x y"));
	free(text);

	/* or in a folder that an option names */
	char *other AUTOFREE = sentence("%s/other", folder);
	ck_assert_int_eq(mkdir(other, 0700), 0);
	put_figure("other/other_loss", own_query, own_gp);
	EXPECT_PLOT(EXIT_OK, "o.svg\n", "other_loss", "--figures=other", "--db=results.db",
		    "--out=o.svg");
	EXPECT_PLOT(EXIT_USER, "no such figure", "my_loss", "--figures=other", "--db=results.db",
		    "--out=o.svg");
	EXPECT_PLOT(EXIT_USER, "--figures=nowhere: ", "--figures=nowhere", "--list");
}

static const struct {
	const char *query, *gp, *says[2];
} broken[] = {
	{"SELECT nonsense", own_gp, {"/other/mine.sql: ", "no such column: nonsense"}},
	{"SELECT 1, 2", own_gp, {"/other/mine.sql: ", "workload, title and at least one number"}},
	{"-- nothing", own_gp, {"/other/mine.sql: ", "no SELECT"}},
	{"DELETE FROM run; SELECT 1, 2, 3", own_gp, {"/other/mine.sql: ", "not authorized"}},
	{own_query, "eval layout_curves\nplot nonsense(", {"/other/mine.gp: ", "line 2: "}},
	{own_query, "# nothing", {"/other/mine.gp: ", "it drew nothing"}},
	{own_query, "print 'a'; exit status 3", {"/other/mine.gp: ", "gnuplot failed: a"}},
	{own_query, NULL, {"has mine.sql, but no mine.gp", "/other "}},
	{NULL, own_gp, {"has mine.gp, but no mine.sql", "/other "}},
};

TEST(broken_figure_is_named, COUNT(broken))
{
	if (lacks_program("gnuplot"))
		return;
	int status;
	char *other AUTOFREE = sentence("%s/other", folder);
	fill_one();
	ck_assert_int_eq(mkdir(other, 0700), 0);
	put_figure("other/mine", broken[_i].query, broken[_i].gp);
	char *text AUTOFREE = PLOT(&status, "mine", "--figures=other", "--db=results.db");
	ck_assert_msg(status == (broken[_i].query && broken[_i].gp ? EXIT_FAILED : EXIT_USER),
		      "exit %d: %s", status, text);
	for (int i = 0; i < 2; i++)
		ck_assert_msg(strstr(text, broken[_i].says[i]) != NULL, "%s", text);
	ck_assert_msg(strchr(text, '\n') == strrchr(text, '\n'), "more than a line: %s", text);
}

TEST(output_file_is_named)
{
	if (lacks_program("gnuplot"))
		return;
	fill_one();
	EXPECT_PLOT(EXIT_OK, "my.svg\n", "time_epoch", "--db=results.db", "--out=my.svg",
		    "--title=\"It's\" %s");
	char *text AUTOFREE = folder_read("my.svg");
	ck_assert_msg(strstr(text, "It's") || strstr(text, "It&apos;s"), "the title is not shown");

	/* Another workload: now one file for each, but only for those that have data. */
	add_run("soft max", "serial", 1, 1, 0.7, "", 2);
	EXPECT_PLOT(EXIT_OK,
		    "mvbench: --out=my.svg: 2 workloads have data for time_epoch, so each has a "
		    "file with its name; --where=\"workload='NAME'\" chooses one\n"
		    "my-mlp.svg\nmy-soft-max.svg\n",
		    "time_epoch", "--db=results.db", "--out=my.svg");
	add_run("mlp", "asgd", 2, 1, 0.8, "", 1);
	EXPECT_PLOT(EXIT_OK, "my.svg\n", "staleness", "--db=results.db", "--out=my.svg");
	EXPECT_PLOT(EXIT_OK, "my.svg\n", "time_epoch", "--db=results.db", "--out=my.svg",
		    "--where=workload='mlp'");
}

/* The width of an 84 mm column is 238 pt. Fonts are in the file, and letters keep their size. */
TEST(figures_for_papers_have_the_width_and_their_fonts)
{
	if (lacks_program("gnuplot"))
		return;
	double x, width = 0;
	fill_one();
	EXPECT_PLOT(EXIT_OK, "a.pdf\n", "accuracy_epoch", "--db=results.db", "--out=a.pdf",
		    "--size=84mm");
	char box[400];
	char *grep AUTOFREE = sentence("grep -a -o 'MediaBox[^/]*' %s/a.pdf; grep -a -c /FontFile "
				       "%s/a.pdf",
				       folder, folder);
	command_output(grep, box, sizeof box);
	ck_assert_msg(sscanf(box, "MediaBox [ %lf %lf %lf", &x, &x, &width) == 3, "%s", box);
	ck_assert_msg(fabs(width - 84 / 25.4 * 72) < 1.5, "%s", box);
	ck_assert_msg(atoi(strchr(box, '\n') + 1) > 0, "no font: %s", box);
	EXPECT_PLOT(EXIT_OK, "a.eps\n", "accuracy_final", "--db=results.db", "--out=a.eps",
		    "--size=3.5in");
	char *eps AUTOFREE = folder_read("a.eps"), *at = strstr(eps, "%%BoundingBox:");
	ck_assert(at && strncmp(eps, "%!PS-Adobe-3.0 EPSF", 19) == 0);
	double left, bottom, right;
	ck_assert_int_eq(sscanf(at + 14, "%lf %lf %lf", &left, &bottom, &right), 3);
	ck_assert_msg(right <= 253 && right > 200, "%.60s", at);
	ck_assert_msg(strstr(eps, "FontType 42") || strstr(eps, "FontFile") ||
			      strstr(eps, "%%BeginResource: font"),
		      "no font");
}

TEST(tex_shows_text_as_it_is)
{
	if (lacks_program("gnuplot"))
		return;
	fill_one();
	made_sql(db, "UPDATE run SET label = 'a_b \\input{x} 5 % & #$~^' WHERE id = 1");
	add_run("mlp", "asgd", 2, 1, 0.5, "", 2);
	EXPECT_PLOT(EXIT_OK, "a.tex\n", "accuracy_epoch", "--db=results.db", "--out=a.tex");
	char *text AUTOFREE = folder_read("a.tex");
	ck_assert_msg(strncmp(text, "\\begin{tikzpicture}", 19) == 0, "%.100s", text);
	ck_assert_msg(strstr(text, "a\\_b \\textbackslash{}input\\{x\\} 5 \\% \\& \\#\\$"
				   "\\textasciitilde{}\\textasciicircum{}"),
		      "%s", text);
	ck_assert_msg(strstr(text, "{Test accuracy [\\%]}"), "%s", text);
	ck_assert_msg(!strstr(text, "\\input"), "%s", text);
}

/* A strategy has one colour, an interval one dash; markers tell all of a strategy apart. */
TEST(colour_is_of_strategy_and_dash_of_interval)
{
	static const char *const strategy[] = {"asgd", "easgd", "periodic"};
	for (int i = 0; i < 3; i++)
		for (int x = 1; x <= 9; x += 4)
			for (int workers = 2; workers <= 4; workers *= 2) {
				add_run("mlp", strategy[i], workers, 1, 0.5, "", 1);
				made_format(db,
					    "UPDATE run SET sync_every = %lld, config_hash = id "
					    "WHERE id = (SELECT max(id) FROM run)",
					    (long long)x);
			}
	expect_asked("SELECT max(n) FROM (SELECT count(DISTINCT (look - 1) % 7) AS n FROM "
		     "configuration GROUP BY strategy UNION ALL SELECT count(DISTINCT (look - 1) / "
		     "84 % 4) FROM configuration GROUP BY sync_every)",
		     "1");
	expect_asked("SELECT count(DISTINCT (look - 1) % 7), count(DISTINCT (look - 1) / 84 % 4), "
		     "count(DISTINCT ((look - 1) % 12) || strategy) FROM configuration",
		     "3,3,18");
}

/* Neither other strategies nor plug-ins change it. */
TEST(colour_of_built_in_strategy_is_fixed)
{
	static const char ask[] = "SELECT group_concat((look - 1) % 7) FROM (SELECT look FROM "
				  "configuration WHERE strategy IN ('asgd', 'periodic') "
				  "ORDER BY strategy)";
	add_run("mlp", "periodic", 2, 1, 0.5, "", 1);
	add_run("mlp", "asgd", 2, 1, 0.5, "", 1);
	expect_asked(ask, "1,3");
	add_run("mlp", "a_plug_in", 2, 1, 0.5, "", 1);
	for (size_t i = 0; strategies[i]; i++)
		if (strcmp(strategies[i]->plugin.name, "asgd") != 0 &&
		    strcmp(strategies[i]->plugin.name, "periodic") != 0)
			add_run("mlp", strategies[i]->plugin.name, 2, 1, 0.5, "", 1);
	expect_asked(ask, "1,3");
	/* the list of style.sql has all of mvbench */
	expect_asked("SELECT count(DISTINCT colour) = count(*), max(colour) = (SELECT colour FROM "
		     "hue WHERE strategy = 'a_plug_in') FROM hue",
		     "1,1");
}

TEST(configurations_of_one_strategy_have_shades_and_markers)
{
	add_run("mlp", "serial", 1, 1, 0.5, "", 1);
	for (int workers = 2; workers <= 16; workers *= 2)
		add_run("mlp", "allreduce", workers, 1, 0.5, "", 1);
	expect_asked(
		"SELECT count(DISTINCT (look - 1) % 12), count(DISTINCT ((look - 1) % 7) || ' ' "
		"|| ((look - 1) / 336)) FROM configuration",
		"5,5");
}

static const struct {
	const char *word, *more, *sentence;
} refused[] = {
	{"speed_up", NULL, "did you mean speedup"},
	{"--lits=1", NULL, "did you mean --list"},
	{"--where=nonsense = 1", NULL, "no such column: nonsense"},
	{"--where=1) -- ", NULL, "--where=1) -- : "},
	{"--where=1); DELETE FROM run; SELECT (1", NULL, "nothing after it"},
	{"--format=gif", NULL, "--format=gif"},
	{"--out=a.png", NULL, "one file holds one figure"},
	{"--out=a.png", "--format=svg", "disagree"},
	{"--out=a.gif", NULL, "end in .png, .svg, .pdf, .eps or .tex"},
	{"--out=figures/a.xyz", NULL, "the name of a new folder with a dot in /"},
	{"--size=84", NULL, "--size=84: give a width from 36mm to 1000mm"},
	{"--size=3mm", NULL, "--size=3mm: give a width"},
	{"--log=y", "--format=png", "speedup: --x, --y, --group and --log are for figure xy"},
	{"--out=results.db/x", NULL, "cannot make this folder"},
	{"--db=none.db", NULL, "none.db"},
	{"--label=typo", NULL, "--label=typo: there is no such label"},
};

TEST(plot_mistakes_are_refused, COUNT(refused))
{
	int status;
	fill_one();

	char *text AUTOFREE = refused[_i].more ? PLOT(&status, "--db=results.db", "speedup",
						      refused[_i].word, refused[_i].more)
					       : PLOT(&status, "--db=results.db", refused[_i].word);
	ck_assert_msg(status == EXIT_USER, "%s: exit %d", refused[_i].word, status);
	ck_assert_msg(strstr(text, refused[_i].sentence) != NULL, "%s: %s", refused[_i].word, text);
	ck_assert_msg(strchr(text, '\n') == strrchr(text, '\n'), "more than a line: %s", text);
}

TEST(missing_gnuplot_is_reported)
{
	fill_one();
	setenv("PATH", folder, 1);
	EXPECT_PLOT(EXIT_USER, "apt-get install gnuplot-nox", "--db=results.db");
}
