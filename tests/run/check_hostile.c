/*
 * check_hostile.c - malformed files, and output names that would destroy other files: results stay,
 * no code from a database runs, and every refusal is a message.
 */
#include "results/db/store.h"
#include "runtime/config/machine.h"
#include "tests/made.h"
#include "tests/suites.h"
#include "tests/trained.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <utime.h>

/* A run in folder/run.db, and the folder as a fixture. All commands take its small data set: the
 * package's takes longer to read and to evaluate than to train on. */
static void recorded(void)
{
	small_data();
	setenv("MVBENCH_DATA", folder, 1);
	record_run("--workload=softmax --epochs=2 --batch=100");
}

static void shell(int status, const char *format, const char *says)
{
	char *command AUTOFREE = text_replaced(format, "DIR", folder);
	expect_command(status, command, says);
}

static double runs(void)
{
	return number_in("run.db", "SELECT count(*) FROM run");
}

/* ---- Names of outputs ---------------------------------------------------- */

CASE("hostile", .limit = 60, .set_up = recorded, .tear_down = folder_free);

TEST(outputs_replace_no_database)
{
	static const char *const words[] = {
		"table --out=DIR/run.db",
		"table --runs --format=csv --out=DIR/run.db",
		"export --format=csv --out=DIR/run.db",
		"export --format=jsonl --out=DIR/run.db",
		"report --out=DIR/run.db",
		"report --out=DIR/link.db",
		"table --out=DIR/run.db-wal",
		"table --out=DIR/run.db-journal",
		"table --out=DIR/to-wal",
		"table --out=DIR/to-shm",
		"table --out=DIR/hard",
		"table --out=DIR/hard-wal",
		"table --out=DIR/hard-shm",
	};
	char *link AUTOFREE = sentence("%s/link.db", folder);
	ck_assert_int_eq(symlink("run.db", link), 0);
	/* a writer that was killed leaves both files, and more names can lead to them */
	shell(0,
	      "cd DIR && ln -s run.db-wal to-wal && ln -s to-wal2 to-shm && "
	      "ln -s run.db-shm to-wal2 && ln run.db hard && cp run.db o.db && "
	      "sqlite3 o.db 'UPDATE run SET label = 1' "
	      "'.shell ln o.db-wal hard-wal; ln o.db-shm hard-shm' && ls",
	      "hard-shm\n");
	for (size_t i = 0; i < COUNT(words); i++) {
		char *line AUTOFREE = sentence("! ./mvbench %s --db=DIR/run.db 2>&1", words[i]);
		shell(0, line, "this is a database, or belongs to one");
		ck_assert_double_eq(runs(), 1);
	}
}

/* Other users' files with such names stay, and so do permissions. */
TEST(output_changes_no_other_file)
{
	struct stat st;
	char *path AUTOFREE = sentence("%s/t.csv", folder);
	shell(0,
	      "cd DIR && echo mine >t.csv.part && ln -s t.csv.part t.csv.link && echo old "
	      ">t.csv && "
	      "chmod 640 t.csv && $MVBENCH_HOME/build/mvbench table --format=csv --out=t.csv "
	      "--db=run.db && cat t.csv.part && ls -A | grep -c '[.]mvbench-'; true",
	      "mine\n0\n");
	shell(0,
	      "cd DIR && $MVBENCH_HOME/build/mvbench table --out=t.csv.link --db=run.db && test -L "
	      "t.csv.link && grep -c softmax t.csv.part",
	      "1\n");
	ck_assert(stat(path, &st) == 0 && st.st_size > 100 && (st.st_mode & 07777) == 0640);
}

/* The file that links lead to gets the output as a whole; the links stay. */
TEST(output_is_written_through_links)
{
	struct output o;
	shell(0,
	      "cd DIR && mkdir far && echo old >far/file && chmod 640 far/file && "
	      "ln -s far/file one && ln -s $PWD/one two && ln -s far/none new && "
	      "ln -s loop loop && ls -i far/file >before",
	      "");
	char *two AUTOFREE = in_folder("two"), *loop AUTOFREE = in_folder("loop");
	ck_assert_ptr_null(output_open(&o, "", two));
	fputs("half", o.f);
	fflush(o.f);
	shell(0, "cat DIR/far/file; ls -A DIR/far | grep -c '[.]part$'", "old\n1\n");
	free(output_close(&o, sentence("no more")));
	shell(0, "cat DIR/far/file; ls -A DIR/far | wc -l", "old\n1\n");
	shell(0,
	      "./mvbench table --db=DIR/run.db --out=DIR/two && ./mvbench table --db=DIR/run.db "
	      "--out=DIR/new && cd DIR && test -L one && test -L two && test -L new && ! ls -i "
	      "far/file | cmp -s - before && stat -c %a far/file && grep -l softmax far/file "
	      "far/none",
	      "640\nfar/file\nfar/none\n");
	char *wrong AUTOFREE = output_open(&o, "--out=", loop);
	ck_assert_msg(wrong && strstr(wrong, "symbolic links"), "%s", wrong ? wrong : "");
}

/* Such a name is an open file. Another one in its place would not have the text before. */
TEST(output_to_an_open_file_keeps_the_file)
{
	shell(0,
	      "cd DIR && exec >o && ls -i o >before && $MVBENCH_HOME/build/mvbench table "
	      "--db=run.db --out=/dev/stdout && ls -i o | cmp - before && grep -q softmax o",
	      "");
}

/* Where the C library has lost the error number, the message asks about the disk. */
static bool is_reason(const char *says)
{
	return strstr(says, "No space left on device") || strstr(says, "is the disk full?");
}

TEST(full_standard_output_is_a_failure)
{
	static const char *const words[] = {
		"list",
		"--help",
		"run --help",
		"help topics",
		"--version",
		"run --dry-run --workload=tanh_mlp",
		"list strategies",
		"run --workload=tanh_mlp --epochs=1 --format=json --db=DIR/full.db",
	};
	for (size_t i = 0; i < COUNT(words); i++) {
		char *line AUTOFREE = sentence("./mvbench %s 2>&1 >/dev/full", words[i]);
		shell(1, line, "standard output cannot be written");
		ck_assert_msg(is_reason(output), "%s: %s", words[i], output);
	}
	shell(1, "./mvbench show 1 --db=DIR/run.db 2>&1 >/dev/full",
	      "the output cannot be written");
	ck_assert_msg(is_reason(output), "%s", output);
	shell(1, "./mvbench table --db=DIR/run.db 2>&1 >/dev/full", "cannot be written");
	ck_assert_msg(is_reason(output), "%s", output);
}

/* The kernel would end the process by a signal. Where SQLite has lost the error number, the reason
 * is an input/output error. */
TEST(limit_of_file_sizes_is_reported)
{
	static const struct {
		const char *blocks, *says;
	} row[] = {{"0", "cannot make a small file"}, {"16", "reading or writing failed ("}};
	if (command_output("unshare -rm true 2>&1", output, sizeof output) != 0) {
		skipped("no namespaces here");
		return;
	}
	for (size_t i = 0; i < COUNT(row); i++) {
		char *line AUTOFREE = sentence(
			"unshare -rm sh -c 'mount -t tmpfs shm /dev/shm; (ulimit -f %s; ./mvbench "
			"run --workload=tanh_mlp --epochs=1 --train-rows=300 --device=cpu "
			"--db=DIR/limit.db) 2>&1; echo status $?; ls /dev/shm | grep mvbench; "
			"true'",
			row[i].blocks);
		shell(0, line, row[i].says);
		ck_assert_msg(strstr(output, "status 1\n") || strstr(output, "status 2\n"), "%s",
			      output);
		ck_assert_msg(!strstr(output, "mvbench-status") && !strstr(output, "Success"), "%s",
			      output);
	}
}

/* The text of the user's that is in the file already, and what was written, stay as they are. */
TEST(full_disk_of_an_output_is_named)
{
	if (command_output("unshare -rm true 2>&1", output, sizeof output) != 0) {
		skipped("no namespaces here");
		return;
	}
	shell(0,
	      "unshare -rm sh -c 'mkdir DIR/full && mount -t tmpfs -o size=64k none DIR/full && "
	      "echo mine >DIR/full/t; echo old >DIR/full/r.html; ./mvbench help --man "
	      ">>DIR/full/t; echo status $?; tr -d \"\\0\" <DIR/full/t | cmp - DIR/full/t && head "
	      "-n 1 DIR/full/t; rm DIR/full/t; ./mvbench report --db=DIR/run.db "
	      "--out=DIR/full/r.html; echo status $?; ls -A DIR/full; cat DIR/full/r.html' 2>&1",
	      "r.html\nold\n");
	ck_assert_msg(strstr(output, "status 1\nmine\n") &&
			      strstr(output, "r.html: the file cannot be written (No space left") &&
			      strstr(output, "standard output cannot be written (No space left") &&
			      !strstr(output, "status 0"),
		      "%s", output);
}

/* A pipe without an end does not take all memory. */
TEST(endless_files_are_refused)
{
	static const char *const words[] = {
		"check --import=/dev/zero",
		"run --workload=tanh_mlp --workers=2 --strategy=allreduce --hostfile=/dev/zero",
		"run --dry-run --workload=tanh_mlp --workers=2 --strategy=allreduce "
		"--hostfile=/dev/stdin",
		"check --import=/dev/stdin",
	};
	for (size_t i = 0; i < COUNT(words); i++) {
		char *line AUTOFREE =
			sentence("yes | timeout 30 ./mvbench %s --db=DIR/none.db 2>&1", words[i]);
		shell(2, line, "(File too large)");
	}
}

/* ---- Databases -------------------------------------------------------------- */

/* The views and triggers of a file are not run: they are created again. */
TEST(views_and_triggers_of_a_file_are_not_trusted)
{
	static const char *const change[] = {
		"DROP VIEW finished; CREATE VIEW finished AS WITH RECURSIVE n(x) AS (SELECT 1 "
		"UNION ALL "
		"SELECT x + 1 FROM n) SELECT x AS id FROM n",
		"DROP VIEW configuration_summary",
		"CREATE TRIGGER t AFTER INSERT ON run BEGIN INSERT INTO run_kept WITH "
		"RECURSIVE n(x) AS "
		"(SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT * FROM n; END",
		"DROP TRIGGER run_changed",
		"DROP VIEW run_summary; CREATE VIEW RUN_SUMMARY AS SELECT 1",
		"DROP TRIGGER run_changed; DROP TABLE run_kept; CREATE VIEW run_kept AS WITH "
		"RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n",
	};
	sql_in("run.db", "CREATE VIEW mine AS SELECT 1"); /* a user's own views stay */
	for (size_t i = 0; i < COUNT(change); i++) {
		sql_in("run.db", change[i]);
		shell(0, "timeout 20 ./mvbench table --db=DIR/run.db 2>&1", "softmax");
		record_run("--workload=softmax --epochs=1 --batch=100");
		ck_assert_double_eq(runs(), 2 + (double)i);
		shell(0,
		      "sqlite3 DIR/run.db \"SELECT count(*) FROM sqlite_master WHERE name IN "
		      "('finished', 'configuration_summary', 'run_changed', 'run_summary') AND sql "
		      "NOT LIKE '%RECURSIVE%'; SELECT count(*) FROM sqlite_master WHERE name "
		      "= 't'\"",
		      "4\n0\n");
	}
	shell(0, "./mvbench table --db=DIR/run.db >/dev/null; sqlite3 DIR/run.db '.schema mine'",
	      "CREATE VIEW mine");
}

#define ENDLESS \
	"WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n"

/* Import and advise change a copy of the file before its triggers are made again. */
TEST(triggers_of_a_copied_file_are_not_run)
{
	record_run("--workload=softmax --epochs=1 --batch=50");
	sql_in("run.db", "UPDATE run SET status = 'running', pid = 1 WHERE id = 2; "
			 "CREATE TRIGGER t AFTER UPDATE ON run BEGIN UPDATE run SET reason = "
			 "(" ENDLESS "); END");
	shell(0, "timeout 20 ./mvbench import DIR/run.db --db=DIR/into.db 2>&1",
	      "1 new run, 1 not ended");
	char *from AUTOFREE = in_folder("run.db"), *to AUTOFREE = in_folder("copy.db");
	ck_assert_ptr_null(database_copy(from, to));
	ck_assert_double_eq(number_in("copy.db", "SELECT count(*) FROM run WHERE pid IS NULL"), 1);
	sql_in("run.db",
	       "DROP TRIGGER t; DROP TRIGGER run_changed; ALTER TABLE run RENAME TO r; "
	       "CREATE VIEW run AS SELECT * FROM r; CREATE TRIGGER t INSTEAD OF UPDATE ON "
	       "run BEGIN UPDATE r SET reason = (" ENDLESS "); END");
	shell(0, "timeout 20 ./mvbench import DIR/run.db --db=DIR/into.db 2>&1", "0 new runs");
}

/* If nothing can be written, the views are created in memory. */
TEST(views_of_a_read_only_database_are_not_trusted)
{
	shell(0,
	      "sqlite3 DIR/run.db \"DROP VIEW finished; CREATE VIEW finished AS SELECT 1 AS id\"; "
	      "unshare -rm true 2>/dev/null || { echo softmax; exit 0; }; unshare -rm sh -c "
	      "'mount --bind DIR DIR && mount -o remount,bind,ro DIR && ./mvbench table "
	      "--db=DIR/run.db 2>&1 && ! touch DIR/x 2>/dev/null'",
	      "softmax");
}

/* A query ends when it is interrupted, and otherwise at its limit. */
TEST(endless_query_is_ended)
{
	char *path AUTOFREE = in_folder("run.db");
	struct store *s AUTOCLOSE = NULL;
	int64_t x;
	sigset_t signals, before;
	ck_assert_ptr_null(store_open(&s, path, STORE_READ));
	s->until = clock_now() + 200000000;
	char *late AUTOFREE = sql_number(s, &x, ENDLESS, "");
	ck_assert_msg(late && strstr(late, "the query was ended after"), "%s", late);
	s->until = 0;
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigprocmask(SIG_BLOCK, &signals, &before);
	kill(getpid(), SIGTERM);
	char *wrong AUTOFREE = sql_number(s, &x, ENDLESS, "");
	ck_assert_msg(wrong && strstr(wrong, "the query was interrupted"), "%s", wrong);
	sigtimedwait(&signals, NULL, &(struct timespec){.tv_sec = 0});
	sigprocmask(SIG_SETMASK, &before, NULL);
}

/* Commands with a condition of the user; readers also of a file that is brought up in memory. */
TEST(endless_condition_is_ended)
{
	static const struct {
		const char *words;
		bool writes;
	} row[] = {
		{"table", false},
		{"export", false},
		{"show latest", false},
		{"trace latest --out=DIR/t.json", false},
		{"blame latest", false},
		{"compare latest softmax", false},
		{"plot --out=DIR/plots", false},
		{"report --out=DIR/page.html", false},
		{"history", false},
		{"check --save=main", true},
		{"delete", true},
		{"import DIR/other.db", true},
	};
	const bool spaces = command_output("unshare -rm true 2>&1", output, sizeof output) == 0;
	shell(0,
	      "cp DIR/run.db DIR/other.db; sqlite3 DIR/run.db 'PRAGMA journal_mode = DELETE; "
	      "CREATE TRIGGER other AFTER UPDATE ON run BEGIN SELECT 1; END'",
	      "");
	for (size_t i = 0; i < COUNT(row); i++) {
		char *line AUTOFREE = sentence(
			"export MVBENCH_QUERY_TIMEOUT=0.3; timeout 20 %s "
			"\"./mvbench %s --db=DIR/run.db --where='(" ENDLESS ") = 1' 2>&1\"",
			spaces && !row[i].writes ? "unshare -rm sh -c 'mount --bind DIR DIR && "
						   "mount -o remount,bind,ro DIR && eval \"$1\"' sh"
						 : "sh -c",
			row[i].words);
		shell(2, line, "the query was ended after 0.3 s (MVBENCH_QUERY_TIMEOUT)");
	}
}

/* SQLite's own polls of the time count steps, of which slow functions need few. */
TEST(condition_with_slow_functions_is_ended)
{
	shell(2,
	      "MVBENCH_QUERY_TIMEOUT=0.3 timeout 20 ./mvbench table --db=DIR/run.db --where='(WITH "
	      "RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT "
	      "max(length(randomblob(1e7))) FROM n) > 1' 2>&1",
	      "the query was ended after 0.3 s (MVBENCH_QUERY_TIMEOUT)");
	shell(2,
	      "timeout 20 ./mvbench table --db=DIR/run.db --where='length(randomblob(2e8)) > 1' "
	      "2>&1",
	      "string or blob too big");
}

/* The user moves, removes or replaces the database while runs record into it. What was committed is
 * in the moved file; nothing is made at its old name, and a file that came there stays. */
TEST(database_moved_during_a_run_loses_nothing, 8)
{
	static const char *const move[] = {
		"mv run.db d.db",
		"mv run.db d.db; mv o.db run.db",
		"mv run.db d.db; cp o.db run.db",
		"rm run.db",
	};
	static const char *const train[] = {
		"run --workload=tanh_mlp --strategy=allreduce --workers=2",
		"sweep DIR/job.ini --workload=tanh_mlp --strategy=serial --seed=1,2",
	};
	const bool replaced = strstr(move[_i % 4], "o.db"), removed = strstr(move[_i % 4], "rm ");
	folder_text("job.ini", "[a]\nepochs = 60\n");
	shell(0, "cd DIR && sqlite3 run.db 'DELETE FROM run' && cp run.db o.db && cp o.db o2.db",
	      "");
	char *line AUTOFREE = sentence(
		"./mvbench %s --epochs=60 --step-time=10ms --train-rows=300 --batch=30 "
		"--device=cpu --db=DIR/run.db >DIR/said 2>&1 & p=$!; "
		"until [ \"$(sqlite3 DIR/run.db 'SELECT count(*) >= 4 FROM epoch')\" = 1 ]; do "
		"sleep 0.05; done; n=$(sqlite3 DIR/run.db 'SELECT count(*) FROM epoch'); "
		"cd DIR; %s; wait $p; s=$?; test $s != 0 || echo status $s; "
		"grep -q 'moved or removed' said || cat said; "
		"test -e d.db || exit 0; test $(sqlite3 d.db 'SELECT count(*) FROM epoch') -ge $n "
		"&& sqlite3 d.db 'PRAGMA integrity_check'",
		train[_i / 4], move[_i % 4]);
	shell(0, line, removed ? "" : "ok\n");
	ck_assert_msg(!strstr(output, "status") && (!removed || !*output), "%s", output);
	shell(0,
	      replaced ? "cmp DIR/o2.db DIR/run.db && echo same"
		       : "test ! -e DIR/run.db && ls -A DIR",
	      replaced ? "same\n" : "o.db\n");
}

/* The same for commands that start runs or measurements of their own. */
TEST(moved_database_ends_tune_check_and_calibrate, 12)
{
	static const char *const move[] = {
		"mv run.db d.db",
		"mv run.db d.db; mv o.db run.db",
		"mv run.db d.db; cp o.db run.db",
		"rm run.db",
	};
	/* words, and the query that counts what is recorded */
	static const char *const train[][2] = {
		{"tune DIR/job.ini --budget=2 --seeds=1", "SELECT count(*) FROM epoch"},
		{"check --against=b --rerun=always", "SELECT count(*) FROM epoch"},
		{"calibrate --workload=tanh_mlp --counts=1 --seconds=20ms --repetitions=2 "
		 "--train-rows=300 --batch=30 --device=cpu",
		 "SELECT count(*) FROM calibration_point"},
	};
	const char *words = train[_i / 4][0], *query = train[_i / 4][1], *moves = move[_i % 4];
	const bool replaced = strstr(moves, "o.db"), removed = strstr(moves, "rm "),
		   checks = strncmp(words, "check", 5) == 0;
	folder_text("job.ini", "[defaults]\nworkload = tanh_mlp\nepochs = 15\nstep-time = 10ms\n"
			       "train-rows = 300\nbatch = 30\ndevice = cpu\nvalidation = 100\n"
			       "[search]\nlr = 0.01..0.1 log\n[a]\nstrategy = serial\n");
	sql_in("run.db", "DELETE FROM run");
	for (int seed = 1; checks && seed <= 3; seed++) {
		char *run AUTOFREE = sentence(
			"--workload=tanh_mlp --strategy=serial --epochs=15 --step-time=10ms "
			"--train-rows=300 --batch=30 --lr=0.01 --device=cpu --seed=%d",
			seed);
		record_run(run);
	}
	if (checks)
		shell(0, "./mvbench check --save=b --db=DIR/run.db", "");
	shell(0, "cd DIR && cp run.db o.db && cp o.db o2.db", "");
	char *line AUTOFREE = sentence(
		"count() { sqlite3 -cmd '.timeout 5000' $1 '%s'; }; old=$(count DIR/run.db); "
		"%stimeout 120 ./mvbench %s --db=DIR/run.db >DIR/said 2>&1 & p=$!; "
		"until n=$(count DIR/run.db) && [ $n -ge $((old + 3)) ] || ! kill -0 $p; do sleep "
		"0.05; done; cd DIR; %s; wait $p; s=$?; [ $s = 1 ] || [ $s = 2 ] || { echo status "
		"$s; cat said; }; grep -q 'moved or removed' said || cat said; "
		"grep -e 'another process runs' -e 'is another check' said | grep -v replaced | "
		"sed 's/^/says only: /'; test -e d.db || exit 0; "
		"test $(count d.db) -ge $n && sqlite3 d.db 'PRAGMA integrity_check'",
		query,
		/* measurements on much data leave time to move the database between two of them */
		query == train[2][1] ? "env -u MVBENCH_DATA " : "", words, moves);
	shell(0, line, removed ? "" : "ok\n");
	ck_assert_msg(!strstr(output, "status") && !strstr(output, "says only") &&
			      (!removed || !*output),
		      "%s: %s", words, output);
	/* nothing is recorded in a file in its place */
	shell(0,
	      replaced ? "cmp DIR/o2.db DIR/run.db && echo same"
		       : "test ! -e DIR/run.db && ls -A DIR",
	      replaced ? "same\n" : "o.db\n");
}

/* Those that find the database locked wait. 12 is enough for the check of a change. */
TEST(runs_that_start_together_are_all_recorded)
{
	const int n = getenv("MVBENCH_TEST_QUICK") ? 12 : 40;
	char *line AUTOFREE = sentence(
		"for i in $(seq %d); do (timeout 150 ./mvbench run --workload=softmax "
		"--strategy=serial --data-dir=DIR --train-rows=60 --epochs=1 --device=cpu "
		"--seed=$((100 + i)) --db=DIR/new.db >DIR/said$i 2>&1 || { echo run $i; cat "
		"DIR/said$i; }) & done; wait",
		n);
	shell(0, line, "");
	ck_assert_msg(!*output, "%s", output);
	char *want AUTOFREE = sentence("%d,%d,done,%d", n, n, 2 * n);
	expect_in("new.db",
		  "SELECT count(*), count(DISTINCT seed), group_concat(DISTINCT status), (SELECT "
		  "count(*) FROM epoch) FROM run",
		  want);
}

/* A single call hears no interrupt of SQLite. */
TEST(condition_with_one_long_call_is_ended, 2)
{
	static const char *const words[] = {"table", "delete"};
	char *line AUTOFREE = sentence(
		"MVBENCH_QUERY_TIMEOUT=0.3 timeout 30 ./mvbench %s --db=DIR/run.db "
		"--where=\"instr(hex(zeroblob(8000000)), hex(zeroblob(4000000)) || 'b') = 0\" "
		"2>&1",
		words[_i]);
	shell(2, line, "the query was ended after 0.3 s (MVBENCH_QUERY_TIMEOUT)");
	ck_assert_double_eq(runs(), 1);
}

/* A run waits for another process's lock, and says so; a command that reads does not wait long. */
TEST(locked_database_delays_a_run)
{
	shell(0,
	      "sqlite3 DIR/run.db 'BEGIN EXCLUSIVE' '.shell touch DIR/locked; sleep 6' COMMIT & "
	      "while [ ! -e DIR/locked ]; do sleep 0.1; done; "
	      "./mvbench run --workload=tanh_mlp --epochs=1 --train-rows=300 --device=cpu "
	      "--db=DIR/run.db 2>&1",
	      "run.db is locked by another process: waiting for up to 54 s");
	ck_assert_double_eq(number_in("run.db", "SELECT sum(status = 'done') FROM run"), 2);
}

/* Without a stall timeout it waits without an end, also to write a result. */
TEST(locked_database_delays_a_run_without_a_timeout, 2)
{
	static const char *const lock[] = {
		"sqlite3 DIR/run.db 'BEGIN EXCLUSIVE' '.shell touch DIR/locked; sleep 5' COMMIT",
		/* while the run is in its epochs */
		"until [ \"$(sqlite3 DIR/run.db 'SELECT count(*) > 5 FROM epoch')\" = 1 ]; do "
		"sleep 0.05; done; sqlite3 DIR/run.db '.timeout 5000' 'BEGIN IMMEDIATE' "
		"'.shell touch DIR/locked; sleep 5' COMMIT",
	};
	char *line AUTOFREE = sentence(
		"(%s) & %s ./mvbench run --workload=tanh_mlp --epochs=40 --train-rows=300 "
		"--batch=30 --step-time=10ms --device=cpu --db=DIR/run.db --stall-timeout=0 2>&1",
		lock[_i], _i ? "" : "until [ -e DIR/locked ]; do sleep 0.05; done;");
	shell(0, line, "waiting until it is free (--stall-timeout=0)");
	ck_assert_double_eq(number_in("run.db", "SELECT sum(status = 'done') FROM run"), 2);
}

/* Has a process opened one of the watched files? */
static bool opened(int watch)
{
	char events[4096];
	return read(watch, events, sizeof events) > 0;
}

/* Files that a row can name: a folder of pipes, and pipes. saved.db is run.db with three runs, and
 * their baseline b. */
static void put_pipes(void)
{
	record_run("--workload=softmax --epochs=2 --batch=100 --seed=2");
	record_run("--workload=softmax --epochs=2 --batch=100 --seed=3");
	shell(0,
	      "./mvbench check --save=b --db=DIR/run.db 2>&1 && cd DIR && mkdir tree && mkfifo "
	      "pipe pipe.xml tree/train-images-idx3-ubyte tree/train-labels-idx1-ubyte && "
	      "echo text "
	      ">tree/x.txt && cp run.db saved.db",
	      "baseline b");
}

/* The files that a row names can be anything, such as a pipe that is waited for. A command that
 * reads rows opens none of them. */
TEST(files_that_rows_name_are_not_opened, 5)
{
	static const char *const names[] = {"tree", "pipe", "pipe.xml"};
	static const char *const change[] = {
		"init_from = 'DIR/pipe', initial_model = ''",
		"hostfile = 'DIR/pipe', workers = 2",
		"data_dir = 'DIR/tree', data_hash = ''",
		"workload = 'gpt', data_dir = 'DIR/tree', data_hash = ''",
		"platform = 'sim', sim_platform = 'DIR/pipe.xml'",
	};
	static const char *const reads[] = {
		"show 1",
		"table",
		"history",
		"compare 1 2",
		"export --format=csv",
		"report --out=DIR/r.html",
		"import DIR/run.db --db=DIR/into.db",
		"check --save=main --replace",
		"check --against=b --rerun=never",
		"check --import=DIR/b.jsonl --save=c --replace",
	};
	put_pipes();
	int watch AUTOCLOSED = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	for (size_t i = 0; i < COUNT(names); i++) {
		char *name AUTOFREE = in_folder(names[i]);
		ck_assert_int_ge(inotify_add_watch(watch, name, IN_OPEN), 0);
	}
	shell(0, "cat DIR/tree/x.txt", "text");
	ck_assert(opened(watch)); /* the test can fail */
	char *own AUTOFREE = text_replaced(change[_i], "DIR", folder),
		  *sql AUTOFREE = sentence("UPDATE run SET %s", own);
	sql_in("run.db", sql);
	sql_in("run.db",
	       "UPDATE baseline SET options = (SELECT json_set(options, '$.data-dir', data_dir, "
	       "'$.init-from', init_from) FROM run LIMIT 1)");
	shell(0,
	      "timeout 60 ./mvbench check --against=b --export=DIR/b.jsonl --db=DIR/run.db 2>&1; "
	      "true",
	      "");
	for (size_t k = 0; k < COUNT(reads); k++) {
		bool named = strstr(reads[k], "--db=");
		char *line AUTOFREE =
			sentence("timeout 20 ./mvbench %s%s >DIR/o 2>&1; s=$?; test $s -lt 3 || "
				 "echo status $s; echo end",
				 reads[k], named ? "" : " --db=DIR/run.db");
		shell(0, line, "");
		ck_assert_msg(strcmp(output, "end\n") == 0 && !opened(watch), "%s: %s: %s",
			      change[_i], reads[k], output);
	}
}

/* It does open them, but waits for no pipe. */
TEST(run_from_a_row_waits_for_no_pipe)
{
	put_pipes();
	shell(0,
	      "sqlite3 DIR/run.db \"UPDATE run SET data_dir = "
	      "'DIR/tree', data_hash = '', platform = 'sim', sim_platform = 'ethernet_10g', "
	      "sim_train = 1, sim_step_time = '1ms'\"; timeout 20 ./mvbench spread 1 "
	      "--db=DIR/run.db 2>&1; test $? -lt 3 && echo ended",
	      "ended\n");
}

/* Such an option would be taken over into the runs of a check. */
TEST(baseline_with_options_that_decide_nothing_is_refused, 4)
{
	static const char *const option[] = {"save", "hostfile", "db", "python"};
	record_run("--workload=softmax --epochs=2 --batch=100 --seed=2");
	record_run("--workload=softmax --epochs=2 --batch=100 --seed=3");
	shell(0,
	      "./mvbench check --save=b --db=DIR/run.db 2>&1 && "
	      "./mvbench check --against=b --export=DIR/b.jsonl --db=DIR/run.db",
	      "baseline b");
	char *change AUTOFREE = sentence(
		"sed -i 's|\"options\":{|&\"%s\":\"DIR/mine\",|' DIR/b.jsonl; grep -c DIR/mine "
		"DIR/b.jsonl",
		option[_i]);
	shell(0, change, "3\n");
	char *says AUTOFREE = sentence("only options that decide results, and not %s", option[_i]);
	shell(2, "./mvbench check --import=DIR/b.jsonl --save=c --db=DIR/run.db 2>&1", says);
	char *set AUTOFREE = sentence(
		"UPDATE baseline SET options = json_set(options, '$.%s', 'DIR/mine')", option[_i]);
	sql_in("run.db", set);
	shell(2, "./mvbench check --against=b --db=DIR/run.db 2>&1", says);
	shell(2, "./mvbench check --against=b --rerun=never --db=DIR/run.db 2>&1", says);
}

/* A reader writes nothing and leaves no file beside the database. */
TEST(readers_write_nothing)
{
	char *path AUTOFREE = sentence("%s/run.db", folder);
	struct store *s;
	ck_assert_ptr_null(store_open(&s, path, STORE_READ));
	char *wrong = sql_change(s, "DELETE FROM run", "");
	ck_assert_msg(wrong && strstr(wrong, "not authorized"), "%s", wrong ? wrong : "deleted");
	free(wrong);
	static const char *const pragma[] = {"PRAGMA user_version = 99",
					     "PRAGMA journal_mode = DELETE"};
	for (size_t i = 0; i < COUNT(pragma); i++) {
		wrong = sql_script(s, pragma[i]);
		ck_assert_msg(wrong && strstr(wrong, "not authorized"), "%s", pragma[i]);
		free(wrong);
	}
	ck_assert_ptr_null(sql_script(s, "CREATE TEMP TABLE t AS SELECT * FROM run; DROP TABLE t"));
	store_close(s);
	ck_assert_double_eq(runs(), 1);
	shell(0,
	      "./mvbench table --db=DIR/run.db >DIR/t; ./mvbench export --format=csv "
	      "--db=DIR/run.db >DIR/t; cd DIR && ls run.db*",
	      "run.db\n");
	ck_assert_str_eq(output, "run.db\n");
}

/* A spreadsheet runs no cell as a formula; numbers stay numbers. */
TEST(exported_cell_is_never_a_formula)
{
	sql_in("run.db", "UPDATE run SET label = '=1+cmd|x'");
	shell(0, "./mvbench export --format=csv --db=DIR/run.db", "'=1+cmd|x");
	ck_assert_ptr_null(strstr(output, ",=1"));
	sql_in("run.db", "UPDATE run SET label = '-1.5'");
	shell(0, "./mvbench export --format=csv --db=DIR/run.db", ",-1.5,");
	sql_in("run.db", "UPDATE run SET label = 'a' || char(27) || '[31m'");
	shell(0, "./mvbench table --runs --db=DIR/run.db", "a\\x1b[31m");
}

/* Text that only looks like a number is a formula to a spreadsheet. */
TEST(exported_number_is_a_whole_number)
{
	static const char *const cell[][2] = {{"-1.5", ",-1.5,"},
					      {"+2e3", ",+2e3,"},
					      {"-1+E5", ",'-1+E5,"},
					      {"@x", ",'@x,"},
					      {"-2*(3)", ",'-2*(3),"}};
	for (size_t i = 0; i < COUNT(cell); i++) {
		char *set AUTOFREE = sentence("UPDATE run SET label = '%s'", cell[i][0]);
		sql_in("run.db", set);
		shell(0, "./mvbench export --format=csv --db=DIR/run.db", cell[i][1]);
	}
}

#define ESCAPES "'a' || char(27) || '[2J' || char(155) || '2J' || char(127)"

#define SHOWN "a\\x1b[2J\\x9b2J\\x7f"
#define JSON  "a\\u001b[2J\\u009b2J\\u007f"
#define SAID  "a?[2J??2J?"

/* What a terminal would obey, in any text of a database, is shown as text. */
TEST(terminal_gets_no_control_characters)
{
	static const char running[] = "UPDATE run SET status = 'running', pid = 1 WHERE id = 4",
			  malformed[] =
				  "UPDATE baseline SET options = replace(options, "
				  "'\"workload\"', '\"x' || char(27) || '[2J' || char(155) || "
				  "'2J' || char(127) || '\":\"\",\"workload\"')";
	static const struct {
		const char *words, *says, *before; /* SQL; NULL: none */
	} row[] = {
		{"table", SHOWN, NULL},
		{"table --runs", SHOWN, NULL},
		{"table --runs --format=json", JSON, NULL},
		{"show 1", SAID, NULL},
		{"compare 1 2", SHOWN, NULL},
		{"history", SAID, NULL},
		{"blame 4 --format=json", JSON, NULL},
		{"export --format=jsonl", JSON, NULL},
		{"export --format=csv", SAID, NULL},
		{"trace 4 --out=/dev/stdout", JSON, NULL},
		{"check --list", SHOWN, NULL},
		{"check --export=- --against=main", JSON, NULL},
		{"check --rerun=never --against=main", SHOWN, NULL},
		{"check --rerun=never --against=main --format=json", SHOWN, NULL},
		{"check --rerun=never --against=main --format=junit", SHOWN, NULL},
		{"check --export=- --against=main", "\"x\\u001b[2J\\u009b2J\\u007f\"", malformed},
		{"status", SHOWN, running},
		{"watch --every=0.1", SHOWN, running},
	};
	for (int seed = 2; seed <= 3; seed++) {
		char *again AUTOFREE =
			sentence("--workload=softmax --epochs=2 --batch=100 --seed=%d", seed);
		record_run(again);
	}
	shell(0, "./mvbench check --save=main --db=DIR/run.db", "baseline main");
	record_run("--workload=softmax --strategy=asgd --workers=2 --epochs=1 --trace=4");
	sql_in("run.db",
	       "UPDATE run SET label = " ESCAPES ", host = id || " ESCAPES ", cpu = " ESCAPES
	       ", reason = " ESCAPES ", git_commit = " ESCAPES ", hosts = " ESCAPES
	       ", workload = workload || " ESCAPES "; UPDATE baseline SET made = " ESCAPES);
	for (size_t i = 0; i < COUNT(row); i++) {
		if (row[i].before)
			sql_in("run.db", row[i].before);
		char *line AUTOFREE =
			sentence("timeout %d script -qec './mvbench %s --db=DIR/run.db' /dev/null "
				 "</dev/null 2>&1; true",
				 strncmp(row[i].words, "watch", 5) == 0 ? 3 : 20, row[i].words);
		shell(0, line, "");
		ck_assert_msg(strstr(output, row[i].says), "%s lacks %s: %.1000s", row[i].words,
			      row[i].says, output);
		ck_assert_msg(!strstr(output, "\x1b[2J") && !strstr(output, "\xc2\x9b") &&
				      !strchr(output, '\x7f'),
			      "%s: %.1000s", row[i].words, output);
	}
	struct text t;
	text_xml(text_open(&t), "a\x1b[2J\xc2\x9b\x7f<");
	char *xml AUTOFREE = text_close(&t);
	ck_assert_str_eq(xml, "a\xef\xbf\xbd[2J\xef\xbf\xbd\xef\xbf\xbd&lt;");
}

/* ---- Leftovers -------------------------------------------------------------- */

/* Folders of a killed process are removed; those of a living one stay. */
TEST(folders_of_killed_processes_are_removed)
{
	char *dead AUTOFREE = sentence("%s/.mvbench-import-%s-dead00", folder, machine()->host),
		   *young, *mine = NULL, *next = NULL;
	struct utimbuf old = {.actime = 1000, .modtime = 1000};
	ck_assert_int_eq(setenv("TMPDIR", folder, 1), 0);
	ck_assert_int_eq(mkdir(dead, 0700), 0);
	young = sentence("%s/file", dead);
	close(open(young, O_CREAT | O_WRONLY, 0600));
	ck_assert_int_eq(utime(dead, &old), 0);
	/* files that a user named so, or that may be another process's, stay */
	static const char *const others[] = {
		"mvbench-import-dead00", ".mvbench-import-other-dead00", ".mvbench-plot-dead00"};
	for (size_t i = 0; i < COUNT(others); i++) {
		char *other AUTOFREE = sentence("%s/%s", folder, others[i]);
		ck_assert(mkdir(other, 0700) == 0 && utime(other, &old) == 0);
	}
	ck_assert_ptr_null(folder_temporary("import", &mine));
	ck_assert_int_ne(access(dead, F_OK), 0);
	for (size_t i = 0; i < COUNT(others); i++) {
		char *other AUTOFREE = sentence("%s/%s", folder, others[i]);
		ck_assert_int_eq(rmdir(other), 0);
	}
	ck_assert_int_eq(utime(mine, &old), 0);
	pid_t child = fork(); /* the child has no lock of this process */
	if (child == 0) {
		execl("/bin/sh", "sh", "-c", "./mvbench import $TMPDIR/run.db --db=$TMPDIR/o.db",
		      NULL);
		_exit(127);
	}
	waitpid(child, NULL, 0);
	ck_assert_int_eq(access(mine, F_OK), 0);
	ck_assert_ptr_null(folder_temporary("import", &next));
	folder_remove(mine);
	folder_remove(next);
	free(mine);
	free(next);
	free(young);
}

static int unlocked; /* files that were not locked when they were renamed */

/* Replaces the library's function. */
int rename(const char *from, const char *to)
{
	int fd = open(from, O_RDONLY | O_CLOEXEC);
	unlocked += fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
	close(fd);
	return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

/* Otherwise the cleanup of another process could remove a complete file that has no name yet. */
TEST(output_is_locked_until_it_has_its_name)
{
	struct output o;
	char *path AUTOFREE = in_folder("out.csv");
	unlocked = 0;
	ck_assert_ptr_null(output_open(&o, "", path));
	fputs("all", o.f);
	ck_assert_ptr_null(output_close(&o, NULL));
	ck_assert_int_eq(unlocked, 0);
	ck_assert_int_eq(access(path, F_OK), 0);
}

/* A process that writes beside DIR/x, and then waits. */
static pid_t writer(const char *path)
{
	int ready[2];
	char byte;
	ck_assert_int_eq(pipe(ready), 0);
	pid_t child = fork();
	if (child == 0) {
		struct output o;
		char *wrong = output_open(&o, "", path);
		write_all(ready[1], wrong ? "n" : "y", 1);
		pause();
		_exit(0);
	}
	ck_assert(read(ready[0], &byte, 1) == 1 && byte == 'y');
	close(ready[0]);
	close(ready[1]);
	return child;
}

static void write_there(const char *path)
{
	struct output o;
	ck_assert_ptr_null(output_open(&o, "", path));
	ck_assert_ptr_null(output_close(&o, NULL));
}

/* The next output removes what a killed process left beside it. It keeps the parts of a living
 * process, and files with other names. */
TEST(part_files_of_killed_processes_are_removed)
{
	struct utimbuf old = {.actime = 1000, .modtime = 1000};
	const char *host = machine()->host;
	char *path AUTOFREE = sentence("%s/x", folder), *part,
		   *others[] = {sentence("%s/.mvbench-out-%s-1-0.part.bak", folder, host),
				sentence("%s/.mvbench-out-%s-1-x.part", folder, host),
				sentence("%s/.mvbench-out-%s--0.part", folder, host),
				sentence("%s/.mvbench-out-elsewhere-1-0.part", folder),
				sentence("%s/mvbench-out-%s-1-0.part", folder, host)};
	char *link AUTOFREE = sentence("%s/.mvbench-out-%s-1-1.part", folder, host);
	for (size_t i = 0; i < COUNT(others); i++) {
		close(open(others[i], O_CREAT | O_WRONLY, 0600));
		ck_assert_int_eq(utime(others[i], &old), 0);
	}
	ck_assert_int_eq(symlink("x", link), 0);
	pid_t child = writer(path);
	part = sentence("%s/.mvbench-out-%s-%d-0.part", folder, host, (int)child);
	ck_assert_int_eq(utime(part, &old), 0);
	write_there(path);
	ck_assert_int_eq(access(part, F_OK), 0);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	ck_assert_int_eq(access(part, F_OK), 0);
	write_there(path);
	ck_assert_int_ne(access(part, F_OK), 0);
	close(open(part, O_CREAT | O_WRONLY, 0600)); /* just made, and not locked yet */
	write_there(path);
	ck_assert_int_eq(access(part, F_OK), 0);
	for (size_t i = 0; i < COUNT(others); i++) {
		ck_assert_int_eq(access(others[i], F_OK), 0);
		free(others[i]);
	}
	ck_assert_int_eq(unlink(link), 0);
	free(part);
}

/* A folder that is removed gives its lock back. */
TEST(removed_folders_leave_no_open_descriptors)
{
	for (int i = 0; i < 2000; i++) {
		char *path = NULL;
		ck_assert_ptr_null(folder_temporary("many", &path));
		folder_remove(path);
		ck_assert_int_ne(access(path, F_OK), 0);
		free(path);
	}
	int fd = open("/dev/null", O_RDONLY);
	ck_assert(fd >= 0 && fd < 64);
	close(fd);
}

/* No process opens it after all have it. A watcher that is killed therefore leaves no file. */
TEST(status_page_has_no_name_while_workers_train)
{
	char *words AUTOFREE =
		sentence("./mvbench run --workload=tanh_mlp --strategy=allreduce --workers=2 "
			 "--epochs=200 --batch=20 --step-time=20ms --db=%s/run.db >%s/said 2>&1 & "
			 "P=$!; for i in $(seq 100); do sleep 0.1; sqlite3 %s/run.db 'SELECT "
			 "max(epoch) FROM epoch WHERE run_id = 2' | grep -q '[1-9]' && break; "
			 "done; "
			 "ls -l /proc/$P/map_files | grep mvbench-status; kill -9 $P; sleep 1",
			 folder, folder, folder);
	shell(0, words, "(deleted)");
}

/* A run whose tables do not fit is refused before it starts. If Open MPI needs more than the
 * tables, the failed run says why. */
TEST(small_shared_memory_is_named, 7)
{
	static const struct {
		const char *megabytes, *words, *says;
		int status;
	} row[] = {
		{"1", "--strategy=allreduce", "test accuracy", EXIT_OK},
		{"1", "--strategy=asgd --servers=1", "test accuracy", EXIT_OK},
		{"1", "--strategy=asgd",
		 "the shared model needs 8.5 MB in /dev/shm, and 1.0 MB are free there", EXIT_USER},
		{"9", "--strategy=asgd", "test accuracy", EXIT_OK},
		{"9", "--strategy=asgd --asgd.updater=adam --momentum=0",
		 "the shared model needs 25.4 MB", EXIT_USER},
		/* under mpirun ranks find out themselves */
		{"1", "--strategy=asgd", "cannot share 8.", EXIT_USER},
		{"1", "--strategy=asgd --table-home=onesided", "cannot share 4.", EXIT_USER},
	};
	if (command_output("unshare -rm true 2>&1", output, sizeof output) != 0) {
		skipped("no namespaces here");
		return;
	}
	char *line AUTOFREE =
		sentence("unshare -rm sh -c 'mount -t tmpfs -o size=%sm shm /dev/shm && %s"
			 "./mvbench run --workload=tanh_mlp --workers=2 --device=cpu "
			 "--epochs=1 --train-rows=300 --db=DIR/shm.db %s' 2>&1; "
			 "[ $? != 0 ] || exit 0; exit 2",
			 row[_i].megabytes, strstr(row[_i].says, "cannot share") ? MPIRUN "2 " : "",
			 row[_i].words);
	shell(row[_i].status, line, row[_i].says);
}

/* ---- The network ---------------------------------------------------------- */

/* In a network namespace all ports are of this run. mpirun has one of its own on all addresses. */
TEST(ranks_of_one_machine_listen_on_loopback_only)
{
	if (lacks_program("ss") ||
	    command_output("unshare -rn ip link set lo up 2>&1", output, sizeof output) != 0) {
		skipped("no namespaces here");
		return;
	}
	shell(0,
	      "unshare -rn sh -c 'ip link set lo up; ./mvbench run --workload=tanh_mlp "
	      "--strategy=allreduce --workers=2 --device=cpu --epochs=3 --train-rows=300 "
	      "--step-time=50ms --db=DIR/ports.db >DIR/out 2>&1 & while kill -0 $! 2>/dev/null; "
	      "do ss -ltnpH; sleep 0.2; done >DIR/ports; wait $! || cat DIR/out'; "
	      "grep -c mpirun DIR/ports; grep mvbench DIR/ports | grep -v 127.0.0.1; echo end",
	      "\nend\n");
	ck_assert_msg(atoi(output) > 0 && !strstr(output, "mvbench"), "%s", output);
}

TEST(messages_have_limits_and_no_zeros)
{
	shell(2, "./mvbench run --dry-run --split=dirichlet:1e300 2>&1",
	      "a number above 0 and up to 1e9");
	if (command_output("unshare -rm true 2>&1", output, sizeof output) != 0) {
		skipped("no namespaces here");
		return;
	}
	shell(2,
	      "unshare -rm sh -c 'mount -t tmpfs -o size=4k shm /dev/shm && ./mvbench run "
	      "--workload=softmax --strategy=asgd --workers=2 --device=cpu --epochs=1 "
	      "--train-rows=300 --dry-run' 2>&1",
	      " kB in /dev/shm, and 4 kB are free there");
}

/* ---- A small machine -------------------------------------------------------- */

/* Another text in this process's /proc/self/cgroup, which has exec afterwards. */
#define GROUPS(text) "echo " text " >DIR/own; mount --bind DIR/own /proc/$$/cgroup; "

/* The program asks the kernel for its own path in another way. */
TEST(program_without_proc_finds_its_files)
{
	if (command_output("unshare -rm true 2>&1", output, sizeof output) != 0) {
		skipped("no namespaces here");
		return;
	}
	shell(0,
	      "unset MVBENCH_HOME; unshare -rm sh -c 'mount -t tmpfs none /proc && ./mvbench run "
	      "--workload=tanh_mlp --dry-run --platform=sim --sim.platform=ethernet_1g "
	      "--sim.step-time=1ms' 2>&1",
	      "ethernet_1g");
}

/* The kernel's figures are replaced by others: /proc/meminfo, and the control group's. */
TEST(small_machine_refuses_what_does_not_fit, 13)
{
	static const struct {
		const char *set, *words, *says;
		int status;
	} row[] = {
		{"echo 20 >$g/pids.max", "--workers=2", "test accuracy", EXIT_OK},
		{"echo 12 >$g/pids.max", "--workers=3",
		 "3 processes, but only 2 more may be started here: give fewer workers", EXIT_USER},
		{"echo MemAvailable: 20000 kB >DIR/meminfo", "--workers=2",
		 "2 processes need 0.034 GB for themselves, but only 0.020 GB are free", EXIT_USER},
		{"echo 40000000 >$g/memory.max; echo 39000000 >$g/memory.current", "--workers=2",
		 "2 processes need 0.034 GB for themselves, but only 0.001 GB are free", EXIT_USER},
		{"echo 400000000 >$g/memory.max; (echo; "
		 "echo inactive_file 300000000) >$g/memory.stat; echo 399000000 "
		 ">$g/memory.current",
		 "--workers=2", "test accuracy", EXIT_OK},
		/* limits of a group around the own one; and of version 1 */
		{GROUPS("0::/a/b") "mkdir -p DIR/group/a/b; echo 40000000 "
				   ">DIR/group/a/memory.max; echo 39000000 "
				   ">DIR/group/a/memory.current",
		 "--workers=2", "need 0.034 GB for themselves, but only 0.001 GB", EXIT_USER},
		{GROUPS("0::/a/b") "mkdir -p DIR/group/a/b; echo 12 >DIR/group/a/pids.max; echo "
				   "10 >DIR/group/a/pids.current",
		 "--workers=3", "only 2 more may be started here", EXIT_USER},
		{GROUPS("9:x,memory:/a") "mkdir -p DIR/group/memory; echo 40000000 "
					 ">DIR/group/memory/memory.limit_in_bytes; echo 39000000 "
					 ">DIR/group/memory/memory.usage_in_bytes",
		 "--workers=2", "need 0.034 GB for themselves, but only 0.001 GB", EXIT_USER},
		{"echo 50000 100000 >$g/cpu.max", "--workers=2 --dry-run", " 1, oversubscribed",
		 EXIT_OK},
		{"echo max 100000 >$g/cpu.max", "--workers=2 --dry-run", "device used", EXIT_OK},
		{GROUPS("3:cpu,cpuacct:/a") "mkdir -p DIR/group/cpu/a; echo 100000 "
					    ">DIR/group/cpu/a/cpu.cfs_quota_us; echo 100000 "
					    ">DIR/group/cpu/a/cpu.cfs_period_us",
		 "--workers=2 --dry-run", " 1, oversubscribed", EXIT_OK},
		{"echo MemAvailable: 400000 kB >DIR/meminfo", "--tanh_mlp.hidden=20000 --batch=600",
		 " would fit", EXIT_USER},
		{"echo MemAvailable: 400000 kB >DIR/meminfo",
		 "--tanh_mlp.hidden=20000 --batch=20 --lr=1e-6", "test accuracy", EXIT_OK},
	};
	if (command_output("unshare -rm sh -c 'mount --bind /proc/version /proc/meminfo && mount "
			   "--bind /tmp /sys/fs/cgroup' 2>&1",
			   output, sizeof output) != 0) {
		skipped("no namespaces here");
		return;
	}
	char *line AUTOFREE =
		sentence("unshare -rm sh -c 'g=DIR/group$(sed -n s/^0:://p /proc/self/cgroup); "
			 "rm -rf DIR/group; mkdir -p $g; for w in pids memory; do echo max "
			 ">$g/$w.max; echo 10 >$g/$w.current; done; : >$g/memory.stat; "
			 "echo MemAvailable: 4000000 kB "
			 ">DIR/meminfo; %s; mount --bind DIR/meminfo /proc/meminfo && mount --bind "
			 "DIR/group /sys/fs/cgroup && exec ./mvbench run --workload=tanh_mlp "
			 "--strategy=allreduce --device=cpu --epochs=1 --train-rows=600 "
			 "--data-dir=DIR --db=DIR/small.db %s' 2>&1",
			 row[_i].set, row[_i].words);
	shell(row[_i].status, line, row[_i].says);
}

/* ---- A busy machine --------------------------------------------------------- */

/* Another process uses half of the core: the run, the database and the table report it. (Other
 * tests get all of the core when they need it.) */
TEST(busy_machine_is_detected)
{
	unsetenv("MVBENCH_DATA"); /* an epoch has to last a while */
	shell(0,
	      "nice -n 19 taskset -c 0 sh -c 'while :; do :; done' & B=$!; nice -n 19 taskset -c 0 "
	      "./mvbench run --workload=tanh_mlp --tanh_mlp.hidden=64 --epochs=1 --quiet-wait=1s "
	      "--db=DIR/busy.db 2>&1; kill $B",
	      "cores here: waiting until the cores are idle");
	ck_assert_msg(strstr(output, "other processes still use ") &&
			      strstr(output, "a worker had only ") &&
			      strstr(output, " % of its core, because other processes used it"),
		      "%s", output);
	shell(0,
	      "sqlite3 DIR/busy.db \"SELECT cores_share < 0.9, quiet_epoch_seconds IS NULL, "
	      "(SELECT count(*) FROM epoch WHERE epoch > 0 AND user_s > 0 AND run_delay_s > 0.1 * "
	      "seconds AND preemptions > 0), (SELECT load >= 0 FROM rank), config FROM "
	      "run_summary\"",
	      "1|1|1|1|serial\n");
	shell(0, "./mvbench table --db=DIR/busy.db", "*: in 1 run a worker had less than 90 %");
	shell(0, "./mvbench table --busy=drop --format=json --db=DIR/busy.db",
	      "\"epoch_seconds\": null");
}

/* A simulation has no cores. */
TEST(simulated_runs_have_no_core_shares)
{
	shell(0,
	      "./mvbench run --workload=perceptron --strategy=asgd --workers=4 --platform=sim "
	      "--sim.platform=ethernet_1g --sim.step-time=1ms --epochs=1 --quiet-wait=100s "
	      "--db=DIR/sim.db && "
	      "sqlite3 DIR/sim.db 'SELECT cores_share IS NULL, quiet_epoch_seconds = "
	      "epoch_seconds, "
	      "(SELECT count(*) FROM epoch WHERE coalesce(user_s, system_s, run_delay_s, "
	      "preemptions) "
	      "IS NOT NULL AND epoch > 0) FROM run_summary'",
	      "1|1|0\n");
}
