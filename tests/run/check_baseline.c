/*
 * check_baseline.c - mvbench check as a command: saving a baseline, each of its verdicts, refusals,
 * and the export and import of baselines.
 */
#include "results/gate/gate.h"
#include "tests/made.h"
#include "tests/suites.h"
#include "tests/trained.h"

#include <math.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#define sql(text)    sql_in("run.db", text)
#define number(text) number_in("run.db", text)

/* ---- The command ---------------------------------------------------------- */

/* Runs mvbench check with words, in which DIR is the folder, on the folder's database. */
static void expect(const char *words, int status, const char *says)
{
	char *there AUTOFREE = text_replaced(words, "DIR", folder),
		    *command AUTOFREE = sentence("ASAN_OPTIONS=detect_leaks=0 ./mvbench check "
						 "--db=%s/run.db %s 2>&1",
						 folder, there);
	expect_command(status, command, says);
}

#define CELL "--workload=softmax --epochs=1 --batch=50 --data-dir=%s "

static void record(int seeds, const char *words)
{
	for (int seed = 1; seed <= seeds; seed++) {
		char *all AUTOFREE = sentence(CELL "%s --seed=%d", folder, words, seed), text[4096];
		ck_assert_msg(run_mvbench("", all, text, sizeof text) == EXIT_OK, "%s", text);
	}
}

static void serial_data(void)
{
	folder_new();
	idx_put_set(600, 200, false, '-');
}

/* Runs a shell command, in which DIR is the folder; it must succeed. */
static void shell(const char *words)
{
	char *command AUTOFREE = text_replaced(words, "DIR", folder);
	ck_assert_msg(command_output(command, output, sizeof output) == 0, "%s: %s", command,
		      output);
}

CASE("command", .limit = 60, .set_up = serial_data, .tear_down = folder_free);

TEST(baseline_is_saved_and_compared)
{
	record(2, "");
	expect("", EXIT_OK, "has no baselines yet");
	expect("--against=main", EXIT_USER, "has no baselines yet");
	expect("--against=\"it's\"", EXIT_USER, "check --save='it'\\''s' makes one");
	expect("--save=main", EXIT_USER, "one of the cells has fewer than 3 seeds");
	ck_assert_msg(strstr(output, "for seed in 3; do mvbench run --workload=softmax "
				     "--strategy=serial --epochs=1 --batch=50"),
		      "%s", output);
	record(3, ""); /* the newest run of a seed counts */
	expect("--save=main", EXIT_OK, "baseline main: 1 cell, 3 runs\n");
	expect("--against=main --rerun=never", EXIT_FAILED,
	       "0 runs compared, 0 made now\nNo run was made since the baseline was saved");
	ck_assert_msg(!strstr(output, "If the change is intended"), "%s", output);
	near(number("SELECT count(*) FROM baseline"), 3, 0);
	near(number("SELECT min(run_id) FROM baseline"), 3, 0);
	expect("--save=main", EXIT_USER, "--replace");
	expect("--save=main --replace", EXIT_OK, "");
	expect("", EXIT_OK, "main");
	expect("--against=main", EXIT_OK, "identical");
	ck_assert_msg(strstr(output, "3 runs compared, 3 made now"), "%s", output);
	/* an interrupted check resumes: runs that this program has made are not repeated */
	sql("UPDATE checked SET run_id = NULL WHERE seed = 2; DELETE FROM run WHERE seed = 2 AND "
	    "id "
	    "> 5");
	expect("--against=main", EXIT_OK, "3 runs compared, 1 made now");
	/* it takes over the row of a run that had not begun */
	sql("PRAGMA foreign_keys = ON; DELETE FROM epoch WHERE run_id = 8;"
	    "UPDATE run SET status = 'pending', pid = NULL WHERE id = 8");
	int64_t runs = (int64_t)number("SELECT count(*) FROM run");
	expect("--against=main", EXIT_OK, "3 runs compared, 1 made now");
	near(number("SELECT count(*) FROM run"), (double)runs, 0);
	near(number("SELECT count(*) FROM run WHERE id = 8 AND status = 'done'"), 1, 0);
	expect("--against=main --rerun=always --jobs=3", EXIT_OK, "3 runs compared, 3 made now");
	/* other seeds are compared unpaired; runs of another program do not count as this
	 * program's */
	expect("--against=main --seeds=4,6..7", EXIT_OK, "unsure ");
	sql("UPDATE checked SET program = 'another'; UPDATE run SET git_dirty = 1");
	expect("--against=main --seeds=4,6..7", EXIT_OK, "3 made now");
	expect("--against=main --rerun=never", EXIT_OK, "0 made now");
	/* runs of other seeds must have the same data, too */
	sql("UPDATE baseline SET test_size = 1");
	expect("--against=main --seeds=4,6..7 --rerun=never", EXIT_USER,
	       "is of another configuration: softmax serial has 1 rows to test on there");
	expect("--delete=main", EXIT_OK, "");
	near(number("SELECT count(*) FROM baseline, checked"), 0, 0);
}

/* The second one ends while the first makes its runs. */
TEST(checks_of_one_database_do_not_disturb_each_other)
{
	record(3, "--pause=0:0s:1s");
	record(3, "--lr=0.03");
	expect("--save=slow --where=\"pause <> ''\"", EXIT_OK, "");
	expect("--save=quick --where=\"pause = ''\"", EXIT_OK, "");
	shell("./mvbench check --db=DIR/run.db --against=slow --rerun=always >DIR/slow 2>&1 & "
	      "first=$!; sleep 1; "
	      "./mvbench check --db=DIR/run.db --against=quick --rerun=never; wait $first");
	shell("cat DIR/slow");
	ck_assert_msg(strstr(output, "\n1 cell of baseline slow: 0 failed"), "%s", output);
}

TEST(baseline_is_of_one_network)
{
	record(3, "");
	sql("UPDATE run SET hosts = 'a,b', network = iif(seed = 3, '1 Gbit/s', '2 Gbit/s')");
	expect("--save=main", EXIT_USER,
	       "are on several networks (a,b: 2 Gbit/s,a,b: 1 Gbit/s): choose one with --where");
	near(number("SELECT count(*) FROM baseline"), 0, 0);
	sql("UPDATE run SET network = '2 Gbit/s'");
	expect("--save=main", EXIT_OK, "");
	expect("--against=main", EXIT_OK,
	       "baseline main was made over another network (a,b: 2 Gbit/s there, one machine "
	       "here)");
}

TEST(check_reports_every_verdict)
{
	record(3, "");
	expect("--save=main", EXIT_OK, "");
	expect("--against=main", EXIT_OK, "0 failed, 1 passed (0 better, 1 identical)");
	sql("UPDATE baseline SET test_loss = test_loss * (0.97 + 0.001 * seed)");
	expect("--against=main", EXIT_FAILED, "WORSE");
	ck_assert_msg(strstr(output, "--replace --save=main"), "%s", output);
	expect("--against=main --min-loss=10", EXIT_OK, "ok");
	/* the loss rose by 2.9 %, or by up to 4.5 %: at this alpha that is uncertain */
	expect("--against=main --alpha=1e-9", EXIT_OK, "unsure ");
	ck_assert_msg(strstr(output, "1 passed (0 better, 0 identical, 1 unsure)"), "%s", output);
	ck_assert_msg(strstr(output, " seeds would decide\n"), "%s", output);
	expect("--against=main --alpha=1e-9 --unsure=fail", EXIT_FAILED, "UNSURE ");
	expect("--against=main --alpha=1e-9 --unsure=fail --min-loss=10", EXIT_OK, "ok ");
	expect("--save=other --unsure=fail", EXIT_USER, "--unsure: valid only with --against");
	sql("UPDATE baseline SET test_loss = test_loss * 1.1, test_accuracy = NULL");
	expect("--against=main", EXIT_OK, "better");
	ck_assert_msg(strstr(output, "use --better=fail"), "%s", output);
	expect("--against=main --better=fail", EXIT_FAILED, "BETTER");
	sql("UPDATE run SET status = 'diverged', reason = 'its loss is \"nan\" & <more>' WHERE id "
	    "= "
	    "6");
	expect("--against=main", EXIT_FAILED, "1 of 3 runs diverged: its loss is \"nan\"");
	sql("UPDATE run SET status = 'failed' WHERE id = 6");
	expect("--against=main --rerun=never", EXIT_FAILED, "1 of 3 runs failed");
	expect("--against=main", EXIT_OK, "1 made now"); /* a failed run is repeated */
	sql("DELETE FROM run WHERE id > 3");
	expect("--against=main --rerun=never", EXIT_FAILED, "3 of 3 runs are missing");
}

TEST(other_configurations_are_refused)
{
	static const struct {
		const char *words, *says;
	} idle[] = {
		{"--against=main --where=1", "--where: valid only with --save, not with --against"},
		{"--against=main --replace", "--replace: valid only with --import or --save, not"},
		{"--save=x --seeds=1", "--seeds: valid only with --against, not with --save"},
		{"--save=x --format=json", "--format: valid only with --against"},
		{"--import=x --where=1", "--where: valid only with --save, not with --import"},
		{"--delete=main --label=x", "--label: valid only with --save or --against, not"},
		{"--against=main --export=- --alpha=0.1", ", not with --export"},
		{"--against=main --export=- --lr=1", "--lr: there is no such option"},
		{"--list --out=x", "--out: valid only with --against, not with --list"},
		{"--better=fail", "--better: valid only with --against, not alone"},
		{"--against=main --pairs=7", "--pairs: valid only with --time=warn or --time=fail"},
		{"--against=main --min-time=7", "--min-time: valid only with --time=warn"},
		{"--against=main --program=x", "--program: valid only with --time=warn"},
		{"--against=main --time=fail --program=x --format=junit",
		 "--time=fail: --format=junit has no times"},
		{"--against=main --seed=1", "--seed: a check runs several seeds"},
		{"--save=", "--save=: give a name"},
		{"--against=main --rerun=never --label=x", "--label=x: no runs are made"},
	};
	record(3, "");
	expect("--save=main", EXIT_OK, "");
	expect("--against=main --epochs=8", EXIT_USER,
	       "--epochs=8: baseline main was made with "
	       "epochs=1");
	expect("--against=main --batch=50 --epochs=1", EXIT_OK, "identical");
	expect("--against=main --lr=fast", EXIT_USER, "--lr=fast");
	expect("--against=mein", EXIT_USER, "it has main");
	expect("--against=main --seeds=3..1", EXIT_USER,
	       "--seeds=3..1: seed: the range 3..1 does not");
	expect("--against=main --save=x", EXIT_USER, "give only one of");
	expect("--save=x --epochs=2", EXIT_USER, "--epochs: there is no such option");
	expect("--save=x --where=\"lr >\"", EXIT_USER, "--where");
	expect("--save=x --label=none", EXIT_USER, "--label=none: there is no such label");
	expect("--save=x --where=\"seed = 99\"", EXIT_USER, "none of the finished runs");
	expect("--against=main --time=warn", EXIT_USER, "--program");
	int64_t runs = (int64_t)number("SELECT count(*) FROM run");
	expect("--against=main --rerun=always --time=warn --program=/bin/true", EXIT_USER,
	       "--program=/bin/true: not an mvbench");
	shell("printf '#!/bin/sh\\nkill -INT $PPID\\n' >DIR/stops && chmod +x DIR/stops");
	shell("./mvbench check --against=main --time=warn --program=DIR/stops --db=DIR/run.db; "
	      "test $? = 130");
	near(number("SELECT count(*) FROM run"), (double)runs, 0);
	for (size_t i = 0; i < COUNT(idle); i++)
		expect(idle[i].words, EXIT_USER, idle[i].says);
	expect("--against=main --trace=4", EXIT_USER, "--trace: runs with a timeline");
	expect("main", EXIT_USER, "--against=main");
	sql("UPDATE baseline SET params = 7851");
	expect("--against=main --rerun=always", EXIT_USER, "has 7851 parameters there, and 7850");
	expect("--against=main --rerun=never", EXIT_USER, "7851 parameters there, and 7850 in run");
	sql("UPDATE baseline SET params = 7850, cpu = 'Z80'");
	expect("--against=main", EXIT_OK, "another machine (cpu: Z80 there");
	sql("UPDATE baseline SET options = json_set(options, '$.lr', '7')");
	expect("--against=main", EXIT_USER, "another configuration");
}

/* Virtual times are equal or they are not; there are no seeds to compare. */
TEST(simulated_times_equal_the_baseline)
{
	char words[] = "--strategy=allreduce --workers=4 --platform=sim --sim.train=false "
		       "--sim.platform=ethernet_10g --sim.step-time=1ms";
	char *traced AUTOFREE = sentence("%s --trace=4", words);
	record(1, words);
	record(1, traced); /* its times are rounded differently */
	expect("--save=sim", EXIT_OK, "");
	near(number("SELECT run_id FROM baseline"), 1, 0);
	sql("UPDATE baseline SET made = '2000-01-01T00:00:00Z'");
	expect("--against=sim --rerun=never", EXIT_FAILED, "No run was made");
	expect("--against=sim", EXIT_OK, "identical");
	ck_assert_msg(strstr(output, "1 run compared, 1 made now"), "%s", output);
	/* the untimed part may take another time, which changes the rounding of nanoseconds */
	sql("UPDATE baseline SET simulated_s = 2 * simulated_s, "
	    "epoch_seconds = epoch_seconds * (1 + 1e-7)");
	expect("--against=sim", EXIT_OK, "identical");
	sql("UPDATE baseline SET epoch_seconds = epoch_seconds * (1 + 1e-5)");
	expect("--against=sim", EXIT_FAILED, "TIME");
	sql("UPDATE baseline SET epoch_seconds = epoch_seconds / 2");
	expect("--against=sim", EXIT_FAILED, "simulated time is 100 % longer");
	sql("UPDATE baseline SET calibration = '2026-01-31T00:00:00Z there'");
	expect("--against=sim", EXIT_FAILED,
	       "calibrated again: simulated times cannot be compared");
}

/* A text file carries a baseline: the import equals it, line by line. A damaged file is refused. */
TEST(baseline_survives_export_and_import)
{
	static const struct {
		const char *edit, *says;
	} damage[] = {
		{"3s/.$//", ":3: not a complete JSON object"},
		{"2s/\"softmax\"/\"mlp\"/", ":2: the options do not make config_hash"},
		{"2s/\"batch\":\"50\"/\"batch\":\"big\"/", ":2: --batch=big"},
		{"2s/\"seed\":1/\"seed\":\"1\"/", ":2: \"seed\" is of type text"},
		{"2s/\"test_loss\":[^,]*/\"test_loss\":1e999/", ":2: \"test_loss\":1e999 is out"},
		{"2s/\"params\"/\"perams\"/", ":2: \"perams\" is not a field"},
		{"2s/\"config_hash\":[^,]*,//", ":2: \"config_hash\" is missing"},
		{"3{p;}", ":4: this run occurs twice"},
		{"$d", "the first line announces 3 runs, but the file has 2"},
		{"1d", ":1: the first line of a baseline looks like"},
		{"1s/:2,/:9,/", ":1: the file was made by a newer mvbench"},
		{"d", "the file is empty"},
	};
	record(3, "");
	sql("UPDATE epoch SET test_loss = 0.1 + 0.2, train_loss = 1e-300 / 3 WHERE epoch = 1");
	expect("--save=main", EXIT_OK, "");
	expect("--against=main --export=DIR/a", EXIT_OK, "");
	for (size_t i = 0; i < COUNT(damage); i++) {
		char *command AUTOFREE = sentence("sed '%s' DIR/a >DIR/damaged", damage[i].edit);
		shell(command);
		expect("--import=DIR/damaged --replace", EXIT_USER, damage[i].says);
		near(number("SELECT count(*) FROM baseline WHERE name = 'main'"), 3, 0);
	}
	near(number("SELECT count(*) FROM baseline WHERE test_loss = 0.1 + 0.2 AND train_loss = "
		    "1e-300 / 3"),
	     3, 0);
	sql("CREATE TABLE before AS SELECT * FROM baseline; DELETE FROM baseline");
	for (int again = 0; again < 2; again++) { /* a second import changes nothing */
		expect("--import=DIR/a", EXIT_OK, "baseline main has 3 runs");
		near(number("SELECT count(*) FROM (SELECT * FROM baseline EXCEPT SELECT * FROM "
			    "before)"),
		     0, 0);
		near(number("SELECT count(*) FROM baseline"), 3, 0);
	}
	/* train_loss in version 1 of the file is today's running_loss */
	shell("sed '1s/:2,/:1,/; s/\"running_loss\":[^,]*,//' DIR/a >DIR/old");
	expect("--import=DIR/old --save=old", EXIT_OK, "baseline old has 3 runs");
	near(number("SELECT count(*) FROM baseline WHERE name = 'old' AND train_loss IS NULL AND "
		    "running_loss = 1e-300 / 3"),
	     3, 0);
	sql("DELETE FROM baseline WHERE name = 'old'");
	expect("--import=DIR/a --save=copy", EXIT_OK, "baseline copy has 3 runs");
	expect("--against=main --export=- | cmp - DIR/a", EXIT_OK, "");
	sql("UPDATE baseline SET made = '2020-01-01T00:00:00Z'");
	expect("--import=DIR/a", EXIT_USER, "--replace");
}

/* Special characters in names and reasons do not break the format of a report. */
TEST(reports_are_well_formed)
{
	static const char name[] = "a\"b'c,<script>&|é";
	record(3, "");
	expect("--save=main", EXIT_OK, "");
	expect("--save='two\nlines'", EXIT_USER, "one line");
	expect("--against=main", EXIT_OK, "");
	char *text = sqlite3_mprintf(
		"UPDATE baseline SET name = %Q, config = config || '|<b>&'; UPDATE checked SET "
		"name = %Q; UPDATE run SET status = 'diverged', reason = "
		"'<a> & \"b\" | ' || char(10, 27, 233) || CAST(x'ff' AS TEXT) WHERE id = 4",
		name, name);
	sql(text);
	sqlite3_free(text);
	static const char *const format[] = {"junit", "json", "markdown", "text"};
	for (size_t i = 0; i < COUNT(format); i++) {
		char *words AUTOFREE =
			sentence("--against='a\"b'\\''c,<script>&|é' --rerun=never --format=%s "
				 "--out=DIR/out",
				 format[i]);
		expect(words, EXIT_FAILED, strcmp(format[i], "text") ? "1 failed" : "");
	}
	expect("--against='a\"b'\\''c,<script>&|é' --rerun=never --format=junit --out=DIR/out.xml",
	       EXIT_FAILED, "");
	shell("grep -q '<failure type=\"diverged\" message=\".*; 1 of 3 runs diverged: "
	      "&lt;a&gt; &amp; &quot;b&quot; | &#10;\xef\xbf\xbdé\xef\xbf\xbd' DIR/out.xml");
	if (!lacks_program("xmllint"))
		shell("xmllint --noout DIR/out.xml");
}

/* A program whose epochs take a millionth of a second, or a year. */
TEST(wall_times_are_compared_in_turn)
{
	record(3, "");
	expect("--save=main", EXIT_OK, "");
	for (int slow = 0; slow < 2; slow++) {
		char *text AUTOFREE =
			sentence("printf '#!/bin/sh\\n[ $1 = run ] || exec echo mvbench 1\\necho x "
				 ">>DIR/turns\\necho \"{\\\\\"epoch_seconds\\\\\": %s}\"\\n' "
				 ">DIR/other && chmod +x DIR/other",
				 slow ? "3e7" : "1e-6");
		char *words AUTOFREE = sentence("--against=main --time=%s --program=DIR/other",
						slow ? "fail" : "warn");
		shell(text);
		expect(words, EXIT_OK, slow ? "faster" : "SLOWER");
	}
	shell("sed -i s/3e7/1e-9/ DIR/other");
	expect("--against=main --time=fail --program=DIR/other", EXIT_FAILED, "1 cell slower");
	shell("test $(wc -l <DIR/turns) = 18");
}

/* SIGTERM, unlike Ctrl-C, reaches only mvbench. */
TEST(ended_check_ends_the_run_that_it_times)
{
	record(3, "");
	expect("--save=main", EXIT_OK, "");
	shell("printf '#!/bin/sh\\n[ $1 = run ] || exec echo mvbench 1\\necho $$ >DIR/pid\\n"
	      "exec sleep 60\\n' >DIR/other && chmod +x DIR/other");
	shell("./mvbench check --against=main --time=warn --program=DIR/other --db=DIR/run.db & "
	      "for i in $(seq 400); do test -s DIR/pid && break; sleep 0.05; done; "
	      "kill -TERM $!; wait $!; test $? = 143 && sleep 0.5 && "
	      "! grep -qs sleep /proc/$(cat DIR/pid)/cmdline");
}

/* The other program gets the options of the cell, also a value that older runs have without a word,
 * and those that are given. */
TEST(timed_runs_have_the_options_of_their_cell)
{
	record(3, "--strategy=asgd --workers=2 --deal=static");
	expect("--save=main", EXIT_OK, "");
	shell("printf '#!/bin/sh\\n[ $1 = run ] || exec echo mvbench 1\\necho $* >>DIR/said\\n"
	      "echo \"{\\\\\"epoch_seconds\\\\\": 3e7}\"\\n' >DIR/other && chmod +x DIR/other");
	expect("--against=main --time=warn --program=DIR/other --data-dir=DIR", EXIT_OK, "faster");
	shell("test $(grep -c -e '--deal=static.* --data-dir=DIR$' DIR/said) = 6");
}

/* A mistake makes no database. */
TEST(refused_check_makes_no_database)
{
	static const char *const words[] = {"--against=main",       "--delete=main",
					    "--save=main",          "--import=DIR/none",
					    "--import=DIR/damaged", "--list"};
	folder_text("damaged", "{}\n");
	for (size_t i = 0; i < COUNT(words); i++) {
		char *all AUTOFREE = sentence("%s --db=DIR/typo.db", words[i]);
		expect(all, EXIT_USER, "");
		shell("test ! -e DIR/typo.db");
	}
}
