/*
 * check_export.c - exports for other programs, and imports from the database of another machine.
 */
#include "tests/made.h"
#include "tests/suites.h"
#include "tests/trained.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- A made database, and commands ------------------------------ */

#define RUN_VALUES(status, strategy, seed) \
	"'" status "', 'h" #seed "', 'mlp', '" strategy "', 2, " #seed ", 2, 32, 1, 'mpi', 0"
#define ASGD(id, label, status, seed) \
	INSERT_RUN(", id, label", RUN_VALUES(status, "asgd", seed) ", " #id ", " label ";")

#define ALPHA_RUNS \
	ASGD(11, "'a,\"b\"' || char(10) || '<c>'", "done", 1) \
	ASGD(12, "''", "diverged", 2) \
	ASGD(13, "''", "running", 3) \
	ASGD(20, "''", "done", 4) \
	ASGD(21, "''", "done", 5)

/* Runs 11 and 12 of host `alpha`, of which 12 diverged; 13 is running; 20 repeats 11, simulated
 * with a calibration; 21 repeats a run that is missing. Run 11 has epochs, ranks, an option, a
 * baseline, ... */
static const char alpha[] =
	"INSERT INTO calibration (id, made, host, device, precision, threads, workload, "
	"workload_options, batch, params, workers) VALUES "
	"(5, '2026-01-01T00:00:00Z', 'alpha', 'cpu', 'float32', 1, 'mlp', '', 32, 7, 2);"
	"INSERT INTO calibration_point VALUES (5, 'step', 0, 0.25);" ALPHA_RUNS
	"UPDATE run SET host = 'alpha', cpu = 'a cpu', pid = 100 + id, "
	"started = '2026-01-02T03:04:05Z', finished = '2026-01-02T03:04:09Z';"
	"UPDATE run SET sim_replay = 11, calibration_id = 5, platform = 'sim', "
	"sim_platform = 'local' WHERE id = 20;"
	"UPDATE run SET sim_replay = 3, platform = 'sim', sim_platform = 'local' WHERE id = 21;"
	"INSERT INTO run_option VALUES (11, 'workload', 'hidden', '64');"
	"INSERT INTO epoch (run_id, epoch, seconds, test_loss, test_accuracy, bytes_sent) VALUES "
	"(11, 0, 0, 2.5, 0.125, 0), (11, 1, 2, 1.5, 0.75, 640), (11, 2, 1.5, 0.75, 0.875, 640), "
	"(12, 1, 2, 9e999, 0.125, 640), (20, 1, 1, 1, 0.5, 1), (21, 1, 1, 1, 0.5, 1);"
	"INSERT INTO rank (run_id, rank, role, host, slot, cores) VALUES "
	"(11, 0, 'worker', 'alpha', 0, 4);"
	"INSERT INTO rank_epoch (run_id, epoch, rank, seconds) VALUES (11, 1, 0, 2), (11, 1, 1, 2);"
	"INSERT INTO staleness VALUES (11, 1, 3, 9);"
	"INSERT INTO epoch_value VALUES (11, 1, 'gap', 0.5, 2), (11, 2, 'gap', 0.25, 2), "
	"(11, 2, 'all/x', 8, 1), (11, 1, 'gone', NULL, 1);"
	"INSERT INTO arrival VALUES (11, 0, 0, 0, 1, 'push');"
	"INSERT INTO event (run_id, rank, seq, epoch, step, name, start_s, duration_s) "
	"VALUES (11, 0, 0, 1, 1, 'compute', 0, 1);"
	"INSERT INTO baseline (name, cell, seed, made, config, options, config_hash, run_id) "
	"VALUES ('main', 'c', 1, 'then', 'asgd 2w', '{}', 'h1', 11), "
	"('other', 'c', 1, 'then', 'asgd 2w', '{}', 'h1', NULL);";

static void command(const char *words, int want, const char *says)
{
	char *line AUTOFREE = sentence("cd %s && $OLDPWD/mvbench %s 2>&1", folder, words);
	expect_command(want, line, says);
}

static void expect_file(const char *name, const char *want)
{
	char *got AUTOFREE = folder_read(name);
	ck_assert_str_eq(got, want);
}

/* ---- Exports -------------------------------------------------------------------- */

static void tear_down(void);
CASE("export", .limit = 60, .set_up = folder_new, .tear_down = tear_down);

TEST(tables_are_exported_as_text)
{
	new_database("a.db");
	sql_in("a.db", alpha);
	command("export --db=a.db --table=epochs --where='id = 11 AND 1' --out=epochs.csv", EXIT_OK,
		"");
	expect_file("epochs.csv",
		    "run_id,epoch,seconds,compute_s,comm_s,wait_s,running_loss,running_accuracy,"
		    "train_loss,train_accuracy,validation_loss,validation_accuracy,test_loss,"
		    "test_accuracy,bytes_sent,"
		    "staleness_mean,staleness_max,pushes,dropped,consensus,user_s,system_s,"
		    "run_delay_s,preemptions,steal_s,share,peak_bytes\r\n"
		    "11,0,0,,,,,,,,,,2.5,0.125,0,,,,,,,,,,,1,\r\n"
		    "11,1,2,,,,,,,,,,1.5,0.75,640,,,,,,,,,,,1,\r\n"
		    "11,2,1.5,,,,,,,,,,0.75,0.875,640,,,,,,,,,,,1,\r\n");
	command("export --db=a.db --where=id=11", EXIT_OK, "\"a,\"\"b\"\"\n<c>\"");
	command("export --db=a.db --format=jsonl --where=id=11", EXIT_OK,
		"\"label\": \"a,\\\"b\\\"\\u000a<c>\"");
	ck_assert(strstr(output, "\"test_accuracy\": 0.875") && strchr(output, '\n')[1] == '\0');
	/* JSON has no numbers that are not finite */
	command("export --db=a.db --format=jsonl --table=epochs --where=id=12", EXIT_OK,
		"\"test_loss\": null, \"test_accuracy\": 0.125");
	command("export --db=a.db --table=ranks", EXIT_OK, "11,1,1,2,");
	command("export --db=a.db --table=options", EXIT_OK, "11,workload,hidden,64\r\n");
	command("export --db=a.db --table=staleness", EXIT_OK, "11,1,3,9\r\n");
	command("export --db=a.db --table=values", EXIT_OK,
		"run_id,epoch,name,value,reports\r\n11,1,gap,0.5,2\r\n11,1,gone,,1"
		"\r\n11,2,all/x,8,1"
		"\r\n11,2,gap,0.25,2\r\n");
	command("export --db=a.db --table=arrivals", EXIT_OK, "11,0,0,0,1,push\r\n");
	command("export --db=a.db --table=events", EXIT_OK, "11,0,0,1,1,compute,0,1,");
	command("export --db=a.db --table=places", EXIT_OK, "\r\n11,0,worker,alpha,0,");
	command("export --db=a.db --table=options --where='id = 99'", EXIT_OK,
		"run_id,part,name,value\r\n");
	ck_assert_ptr_null(strstr(output, "hidden"));
	command("export --db=a.db --table=rows", EXIT_USER, "--table=rows");
	/* text that is not UTF-8 still gives valid JSON */
	sql_in("a.db", "UPDATE run SET label = CAST(x'61ff62' AS TEXT) WHERE id = 11");
	command("export --db=a.db --format=jsonl --where=id=11", EXIT_OK,
		"\"label\": \"a\xef\xbf\xbd"
		"b\"");
	ck_assert_ptr_null(strchr(output, 0xff));
	command("export --db=a.db --where=no", EXIT_USER, "--where=no");
	command("export --db=a.db --out=no/file.csv", EXIT_USER, "--out=no/file.csv");
	command("export --db=none.db", EXIT_USER, "none.db");
}

TEST(exported_runs_have_every_figure)
{
	new_database("a.db");
	sql_in("a.db", alpha);
	command("export --db=a.db --out=runs.csv && for c in $(sqlite3 a.db \"SELECT name FROM "
		"pragma_table_info('run_summary')\"); do head -1 runs.csv | tr -d '\\r' | "
		"tr , '\\n' | grep -qx $c || echo $c is missing; done",
		EXIT_OK, "");
	ck_assert_msg(!strstr(output, "missing"), "%s", output);
}

/* ---- Imports -------------------------------------------------------------------- */

TEST(import_brings_all_rows_of_a_run)
{
	new_database("a.db");
	sql_in("a.db", alpha);
	new_database("b.db");
	sql_in("b.db", INSERT_RUN("", RUN_VALUES("done", "serial", 1)));
	sql_in("b.db", "INSERT INTO baseline (name, cell, seed, made, config, options, "
		       "config_hash) VALUES ('other', 'd', 1, 'now', 'x', '{}', 'y')");
	command("import a.db --db=b.db", EXIT_OK,
		"a.db: 4 new runs, 1 not ended and left out, 1 calibration, 1 baseline\n");
	expect_in("b.db", "SELECT group_concat(id || ':' || ifnull(origin_id, '-'), ' ') FROM run",
		  "1:- 2:11 3:12 4:20 5:21");
	expect_in("b.db",
		  "SELECT group_concat(status, ' ') FROM (SELECT status FROM run ORDER BY id)",
		  "done done diverged done done");
	expect_in("b.db", "SELECT label || host || pid FROM run WHERE id = 2",
		  "a,\"b\"\n<c>alpha111");
	expect_in("b.db",
		  "SELECT origin LIKE '/%/a.db' AND imported GLOB '20*T*Z' FROM run WHERE id = 2",
		  "1");
	expect_in("b.db",
		  "SELECT count(*) FROM run WHERE id > 1 AND (origin IS NULL OR imported IS NULL)",
		  "0");
	/* references to runs and calibrations get the new numbers */
	expect_in("b.db", "SELECT sim_replay || '/' || calibration_id FROM run WHERE id = 4",
		  "2/1");
	expect_in("b.db", "SELECT sim_replay FROM run WHERE id = 5", "-3");
	expect_in("b.db", "SELECT value FROM calibration_point WHERE calibration_id = 1", "0.25");
	expect_in("b.db", "SELECT run_id || config FROM baseline WHERE name = 'main'", "2asgd 2w");
	expect_in("b.db", "SELECT group_concat(cell) FROM baseline WHERE name = 'other'", "d");
	expect_in("b.db",
		  "SELECT (SELECT count(*) FROM epoch) || (SELECT count(*) FROM rank_epoch WHERE "
		  "run_id = 2) || "
		  "(SELECT count(*) FROM staleness WHERE run_id = 2) || (SELECT count(*) FROM "
		  "arrival) || "
		  "(SELECT count(*) FROM event) || (SELECT value FROM run_option WHERE run_id = 2)",
		  "6211164");
	expect_in("b.db",
		  "SELECT group_concat(value) FROM epoch_value WHERE run_id = 2 AND name = 'gap'",
		  "0.5,0.25");
	expect_in("b.db",
		  "SELECT test_accuracy || ' ' || epoch_seconds FROM run_summary WHERE id = 2",
		  "0.875 1.75");
	expect_in("b.db", "SELECT count(*) FROM pragma_foreign_key_check", "0");
	/* a second import adds nothing, by any path; the source is unchanged */
	command("import a.db --db=b.db", EXIT_OK,
		"a.db: 0 new runs, 4 here already, 1 not ended and left out, 1 baseline left out: "
		"name taken");
	command("import b.db --db=c.db", EXIT_OK, "b.db: 5 new runs, 1 calibration");
	command("import a.db --db=c.db", EXIT_OK, "a.db: 0 new runs, 4 here already");
	command("import b.db --db=a.db", EXIT_OK, "b.db: 1 new run, 4 here already");
	expect_in("a.db", "SELECT count(*) FROM run", "6");
	expect_in("b.db", "SELECT count(*) FROM calibration", "1");
	expect_in("c.db",
		  "SELECT origin LIKE '%/a.db' AND origin_id = 11 FROM run WHERE label <> ''", "1");
	/* more runs in the source, of which some are chosen; a simulation brings the run that it
	 * repeats */
	command("import a.db --db=d.db --where=\"platform = 'sim' AND seed = 4\"", EXIT_OK,
		"a.db: 2 new runs");
	expect_in("d.db",
		  "SELECT group_concat(origin_id || '>' || ifnull(sim_replay, 0), ' ') FROM run",
		  "11>0 20>1");
}

/* A study comes with its trials, also those that have not run. A study that is here already gets
 * the trials that it lacks. */
TEST(import_brings_studies_with_their_runs)
{
	static const char study[] =
		"INSERT INTO study (id, name, hash, made, objective, budget, search) VALUES "
		"(7, 'one', 'x', 'then', 'loss', 2, '{}'), (8, 'two', 'y', 'then', 'loss', "
		"2, '{}');"
		"INSERT INTO trial VALUES (7, 'asgd', 'trial', 1, '{\"lr\":1}', 'h1'), "
		"(7, 'asgd', 'trial', 2, '{}', 'h99'), (8, 'asgd', 'trial', 1, '{}', 'h77')";
	new_database("a.db");
	sql_in("a.db", alpha);
	sql_in("a.db", study);
	new_database("b.db");
	sql_in("b.db", "INSERT INTO study (name, hash, made, objective, budget, search) VALUES "
		       "('other', 'z', 'then', 'loss', 9, '{}')");
	command("import a.db --db=b.db", EXIT_OK, "1 calibration, 1 study, 1 baseline\n");
	expect_in(
		"b.db",
		"SELECT group_concat(s.id || name || budget || contestant || kind || number || "
		"t.options || config_hash, ' ') FROM study AS s JOIN trial AS t ON study_id = s.id",
		"2one2asgdtrial1{\"lr\":1}h1 2one2asgdtrial2{}h99");
	expect_in("b.db", "SELECT count(*) || (SELECT count(*) FROM study_run) FROM study", "21");
	/* more trials of a study that is here */
	sql_in("a.db", "UPDATE study SET budget = 3 WHERE id = 7;"
		       "INSERT INTO trial VALUES (7, 'asgd', 'trial', 3, '{}', 'h98')");
	command("import a.db --db=b.db --where=id=12", EXIT_OK, "0 new runs");
	expect_in("b.db", "SELECT count(*) FROM trial", "2");
	command("import a.db --db=b.db", EXIT_OK, "0 new runs, 4 here already");
	expect_in("b.db",
		  "SELECT count(*) || (SELECT count(*) || max(budget) FROM study) FROM trial",
		  "329");
	expect_in("b.db", "SELECT budget FROM study WHERE hash = 'x'", "3");
}

/* The resumed run replaces its older state completely. */
TEST(import_replaces_a_run_that_resumed)
{
	new_database("a.db");
	sql_in("a.db", alpha);
	sql_in("a.db", "PRAGMA foreign_keys = ON;"
		       "UPDATE run SET status = 'failed', checkpoint = 'k' WHERE id = 11;"
		       "DELETE FROM epoch WHERE run_id = 11 AND epoch = 2");
	command("import a.db --db=b.db", EXIT_OK, "a.db: 4 new runs");
	command("import b.db --db=c.db", EXIT_OK, "b.db: 4 new runs");
	sql_in("a.db", "UPDATE run SET status = 'done', resumed = 1, pid = 222, host = 'beta', "
		       "started = '2026-01-03T01:02:03Z' WHERE id = 11;"
		       "INSERT INTO epoch (run_id, epoch, seconds) VALUES (11, 2, 0.25);"
		       "INSERT INTO resumption VALUES (11, 1, 1, '2026-01-02T01:02:03Z', "
		       "'2026-01-03T01:02:03Z')");
	command("import a.db --db=b.db", EXIT_OK,
		"a.db: 0 new runs, 1 resumed since, 3 here already");
	expect_in("b.db",
		  "SELECT count(*) || (SELECT id || status || host || (SELECT count(*) FROM "
		  "epoch WHERE "
		  "run_id = r.id) || (SELECT epoch FROM resumption WHERE run_id = r.id) FROM run "
		  "AS r "
		  "WHERE checkpoint = 'k') FROM run",
		  "41donebeta31");
	expect_in("b.db", "SELECT count(*) FROM run_kept", "4");
	command("import a.db --db=b.db", EXIT_OK, "a.db: 0 new runs, 4 here already");
	/* the older state does not replace the newer one, which can come from any database */
	command("import c.db --db=b.db", EXIT_OK, "c.db: 0 new runs, 4 here already");
	command("import b.db --db=c.db", EXIT_OK,
		"b.db: 0 new runs, 1 resumed since, 3 here already");
	expect_in("c.db", "SELECT count(*) || sum(resumed) FROM run", "41");
}

#define STATE(id, status, resumed) \
	ASGD(id, "''", status, 1) \
	"UPDATE run SET checkpoint = 'k', resumed = " #resumed " WHERE id = " #id ";"
#define STATES \
	"SELECT count(*) || ' ' || group_concat(id || status || ifnull(resumed, 0), ' ') FROM run"

/* Several rows of one run, which an older program kept, in the source or here. */
TEST(import_takes_the_last_row_of_a_run)
{
	new_database("a.db");
	sql_in("a.db", STATE(1, "failed", NULL) STATE(2, "failed", 1) STATE(3, "done", 2));
	command("import a.db --db=b.db", EXIT_OK, "a.db: 1 new run, 2 here already");
	expect_in("b.db", STATES, "1 1done2");
	new_database("c.db");
	sql_in("c.db", STATE(7, "failed", NULL));
	command("import a.db --db=c.db", EXIT_OK, "1 resumed since, 2 here already");
	expect_in("c.db", STATES, "1 7done2");
	command("import b.db --db=a.db", EXIT_OK, "b.db: 0 new runs, 1 here already");
	expect_in("a.db", STATES, "1 3done2");
}

TEST(import_replaces_no_finished_run)
{
	new_database("a.db");
	new_database("b.db");
	sql_in("a.db", STATE(1, "done", 1));
	sql_in("b.db", STATE(1, "failed", 2));
	command("import b.db --db=a.db", EXIT_OK, "b.db: 0 new runs, 1 here already");
	expect_in("a.db", STATES, "1 1done1");
	command("import a.db --db=b.db", EXIT_OK, "a.db: 0 new runs, 1 resumed since");
	expect_in("b.db", STATES, "1 1done1");
}

TEST(older_databases_are_imported_and_newer_refused)
{
	new_database("old.db");
	sql_in("old.db",
	       INSERT_RUN(", split", RUN_VALUES("done", "asgd",
						1) ", 'dirichlet:1'") ";PRAGMA user_version = 16");
	command("import old.db --db=new.db", EXIT_OK, "old.db: 1 new run\n");
	expect_in("old.db", "PRAGMA user_version", "16");
	expect_in("new.db", "SELECT split FROM run", "dirichlet_classes:1");
	command("import old.db --db=new.db", EXIT_OK, "old.db: 0 new runs, 1 here already\n");
	sql_in("old.db", "PRAGMA user_version = 999");
	command("import old.db --db=new.db", EXIT_USER, "schema 999");
	command("import new.db --db=./new.db", EXIT_USER, "is the database to import into");
	command("import none.db --db=new.db", EXIT_USER, "none.db cannot be read");
	command("import . --db=new.db", EXIT_USER, "is a folder");
	command("import --db=new.db", EXIT_USER, "give another database");
	command("import new.db --db=b.db --where=no", EXIT_USER, "--where=no");
	char *path AUTOFREE = in_folder("text.db");
	FILE *f = fopen(path, "w");
	fputs("some text\n", f);
	fclose(f);
	command("import text.db --db=new.db", EXIT_USER,
		"is not a results database: name another file\n");
	ck_assert_int_eq(system("ls /tmp/mvbench-import-* 2>/dev/null | wc -l | grep -q '^0$'"), 0);
}

/* Every file and --where are checked before anything is imported. */
TEST(refused_import_makes_no_database)
{
	new_database("a.db");
	sql_in("a.db", alpha);
	folder_text("text.db", "x\n");
	command("import a.db --db=new.db --where='no such'", EXIT_USER, "--where=no such");
	command("import a.db none.db --db=new.db", EXIT_USER, "none.db cannot be read");
	command("import a.db text.db --db=new.db", EXIT_USER, "is not a results database");
	command("list >/dev/null; test ! -e new.db && echo none", EXIT_OK, "none\n");
}

/* All or nothing: another process holds the file, or the file cannot grow. */
TEST(failed_import_changes_nothing)
{
	new_database("a.db");
	sql_in("a.db", alpha);
	new_database("b.db");
	sqlite3 *db = made_again("b.db");
	made_sql(db, "BEGIN IMMEDIATE");
	command("import a.db --db=b.db", EXIT_USER, "b.db is locked by another process");
	sqlite3_close(db);
	sql_in("a.db",
	       "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) "
	       "INSERT INTO arrival SELECT 11, 1, 0, i, 1, 'push' FROM n");
	char *line AUTOFREE = sentence("B=$PWD && cd %s && ulimit -f 400 && trap '' XFSZ && "
				       "$B/mvbench import a.db --db=b.db 2>&1",
				       folder);
	ck_assert_int_eq(command_output(line, output, sizeof output), EXIT_USER);
	ck_assert_msg(strstr(output, "room"), "%s", output);
	expect_in("b.db", "SELECT count(*) FROM run", "0");
}

static void tear_down(void)
{
	char *folders AUTOFREE = sentence("rm -rf %s/runs %s/ml", folder, folder);
	ck_assert_int_eq(system(folders), 0);
	folder_free();
}

/* ---- Runs that are edited and shown -------------------------------------- */

TEST(runs_are_deleted_and_relabelled)
{
	new_database("a.db");
	sql_in("a.db", alpha);
	command("delete --db=a.db", EXIT_USER, "give numbers of runs, --where or --label");
	command("delete 12 --label=x --db=a.db", EXIT_USER, "not both");
	command("delete latest --db=a.db", EXIT_USER, "latest: give the number of a run; ");
	command("delete 99 --db=a.db", EXIT_USER, "99: a.db has no such run");
	command("delete 11 13 --db=a.db", EXIT_USER, "run 13 is running");
	command("delete 1 --db=none.db", EXIT_USER, "none.db cannot be read");
	command("delete --where='id > 11 AND id <> 13' --dry-run --db=a.db", EXIT_OK,
		"3 runs would be deleted");
	expect_in("a.db", "SELECT count(*) FROM run", "5");
	command("relabel good 11 12 12 --db=a.db", EXIT_OK, "2 runs relabelled");
	expect_in("a.db", "SELECT group_concat(id) FROM run WHERE label = 'good'", "11,12");
	command("relabel --db=a.db", EXIT_USER, "give a label and runs");
	command("delete --label=goood --db=a.db", EXIT_USER,
		"--label=goood: there is no such label; did you mean good?");
	command("delete --label=good --db=a.db", EXIT_OK, "2 runs deleted");
	expect_in("a.db", "SELECT group_concat(id) FROM run", "13,20,21");
	/* all rows of run 11 are gone; its baseline stays */
	expect_in("a.db",
		  "SELECT ((SELECT count(*) FROM epoch WHERE run_id = 11) + (SELECT count(*) FROM "
		  "rank_epoch WHERE run_id = 11) + (SELECT count(*) FROM event WHERE run_id = "
		  "11)) || '|' || "
		  "(SELECT count(*) FROM baseline WHERE name = 'main' AND run_id IS NULL)",
		  "0|1");
}

TEST(stored_run_is_shown)
{
	new_database("a.db");
	sql_in("a.db", alpha);
	command("show 11 --db=a.db", EXIT_OK, "mvbench run --workload=mlp");
	ck_assert(strstr(output, "a cpu") && strstr(output, "0.875") && !strstr(output, "0.125,"));
	command("show --label=nobody --db=a.db", EXIT_USER, "there is no such label");
	command("export --label=nobody --db=a.db", EXIT_USER, "there is no such label");
	command("status --db=a.db", EXIT_OK, "1 running, 0 pending");
	ck_assert(strstr(output, "asgd 2w") && strstr(output, "alpha"));
}

/* The page shows how often and from where the run resumed. The time left follows from the epochs
 * since then: one in 100 s. */
TEST(resumed_run_is_shown)
{
	new_database("a.db");
	sql_in("a.db", alpha);
	sql_in("a.db",
	       "UPDATE run SET epochs = 10, resumed = 2, started = strftime('%Y-%m-%dT%H:%M:%SZ', "
	       "'now', '-100 seconds') WHERE id = 13;"
	       "INSERT INTO resumption VALUES (13, 2, 5, '', ''), (13, 1, 3, '', '');"
	       "INSERT INTO epoch (run_id, epoch, seconds) VALUES (13, 6, 1)");
	command("show 13 --db=a.db", EXIT_OK, "2 (after epoch 3, 5)\n");
	command("status --db=a.db", EXIT_OK, "1 running, 0 pending, about 6:4");
}
