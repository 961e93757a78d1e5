/*
 * check_run.c - the program from outside: what a run leaves behind when it is stopped, killed, fed
 * bad data, or diverges; exit statuses, the database, and that no worker is left.
 */
#include "fixture.h"
#include "suites.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OUTPUT = 8192 };

static void make_data(void)
{
	folder_new();
	idx_put_set(600, 100, false, '-');
}

/* Runs ./mvbench with words, on a database in the folder. */
static int mvbench(char out[OUTPUT], const char *words)
{
	char *command = sentence("ASAN_OPTIONS=detect_leaks=0 ./mvbench %s --db=%s/run.db 2>&1",
				 words, folder);
	int status = command_output(command, out, OUTPUT);
	free(command);
	return status;
}

static char *run_words(const char *words)
{
	return sentence("run --data-dir=%s --mlp.hidden=16 %s", folder, words);
}

/* One number from the database; -1 when it cannot be asked (it is being made). */
static double asked(const char *sql)
{
	char *path = sentence("%s/run.db", folder), *wrong, *text = NULL;
	double number = -1;
	struct store *s;
	size_t n = 0;
	FILE *f = open_memstream(&text, &n);
	wrong = store_open(&s, path, STORE_READ);
	if (!wrong) {
		wrong = query_print(s, f, FORMAT_CSV, sql, NULL, 0, NULL);
		store_close(s);
	}
	fclose(f);
	if (!wrong)
		number = atof(strchr(text, '\n') + 1);
	free(wrong);
	free(text);
	free(path);
	return number;
}

static bool database_exists(void)
{
	char *path = sentence("%s/run.db", folder);
	bool there = access(path, F_OK) == 0;
	free(path);
	return there;
}

/* Starts a long run, waits until it has recorded an epoch, and sends its first process a signal. */
static int stop_with(int signal_number, const char *strategy, int workers)
{
	char *words = sentence("--strategy=%s", strategy),
	     *number = sentence("--workers=%d", workers);
	char *data = sentence("--data-dir=%s", folder), *db = sentence("--db=%s/run.db", folder);
	int status = 0;
	pid_t child = fork();
	if (child == 0) {
		if (!freopen("/dev/null", "w", stderr) || !freopen("/dev/null", "w", stdout))
			_exit(99);
		setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
		execl("./mvbench", "mvbench", "run", "--workload=mlp", "--mlp.hidden=16",
		      "--epochs=1000000", words, number, data, db, (char *)NULL);
		_exit(99);
	}
	for (int i = 0; i < 600; i++) {
		usleep(50000);
		if (database_exists() && asked("SELECT count(*) FROM epoch") >= 2)
			break;
	}
	kill(child, signal_number);
	waitpid(child, &status, 0);
	free(words);
	free(number);
	free(data);
	free(db);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Workers carry the folder in their words. */
static int workers_left(void)
{
	char out[OUTPUT], *command = sentence("pgrep -cf -- '--db=%s/run.[d]b'", folder);
	command_output(command, out, sizeof out);
	free(command);
	return atoi(out);
}

START_TEST(ctrl_c_ends_all_ranks_and_marks_the_row)
{
	int workers = _i;
	const char *strategy = workers == 1 ? "serial" : "allreduce";
	ck_assert_int_eq(stop_with(SIGINT, strategy, workers), EXIT_INTERRUPTED);
	ck_assert_int_eq(workers_left(), 0);
	ck_assert(asked("SELECT count(*) FROM run WHERE status = 'failed' AND reason = "
			"'interrupted'") == 1);
	ck_assert(asked("SELECT count(*) FROM epoch") >= 2);
}
END_TEST

/* Nobody is there to mark the row; the next start does, and the workers end by themselves. */
START_TEST(a_killed_run_is_marked_by_the_next)
{
	char out[OUTPUT];
	stop_with(SIGKILL, "serial", 1);
	for (int i = 0; i < 100 && workers_left(); i++)
		usleep(50000);
	ck_assert_int_eq(workers_left(), 0);
	ck_assert(asked("SELECT count(*) FROM run WHERE status = 'running'") == 1);
	char *words = run_words("--epochs=1");
	ck_assert_int_eq(mvbench(out, words), EXIT_OK);
	ck_assert(asked("SELECT count(*) FROM run WHERE status = 'failed' AND reason LIKE "
			"'interrupted%'") == 1);
	ck_assert(asked("SELECT count(*) FROM run WHERE status = 'done'") == 1);
	free(words);
}
END_TEST

START_TEST(divergence_has_its_own_status)
{
	char out[OUTPUT];
	char *words = run_words(_i == 1 ? "--lr=1000 --epochs=5"
					: "--lr=1000 --epochs=5 --strategy=allreduce --workers=2");
	ck_assert_int_eq(mvbench(out, words), EXIT_DIVERGED);
	ck_assert_msg(strstr(out, "--lr"), "%s", out);
	ck_assert_msg(!strstr(out, "-----"), "mpirun makes a fuss:\n%s", out);
	ck_assert(asked("SELECT count(*) FROM run WHERE status = 'diverged' AND reason LIKE 'epoch "
			"1:%'") == 1);
	free(words);
}
END_TEST

/* Headers are whole, so it is found only while the workers load: still nothing is written. */
START_TEST(cut_data_is_refused_by_all_ranks)
{
	char out[OUTPUT], *path = sentence("%s/train-images-idx3-ubyte", folder);
	char *words = run_words(_i == 1 ? "--strategy=serial" : "--strategy=allreduce --workers=3");
	ck_assert_int_eq(truncate(path, 5000), 0);
	ck_assert_int_eq(mvbench(out, words), EXIT_USER);
	ck_assert_msg(strstr(out, "train-images-idx3-ubyte"), "%s", out);
	ck_assert_msg(!strstr(out, "-----"), "mpirun makes a fuss:\n%s", out);
	ck_assert(!database_exists());
	free(words);
	free(path);
}
END_TEST

/* Times of an epoch: the parts add up to no more than the whole, on every rank and for the means,
 * and a straggler is waited for. */
START_TEST(the_split_adds_up)
{
	char out[OUTPUT];
	char *barrier = sentence("--strategy=allreduce --workers=2 --epochs=3 --straggle=1 "
				 "--barrier-every=%d",
				 _i);
	char *words = run_words(barrier);
	ck_assert_int_eq(mvbench(out, words), EXIT_OK);
	ck_assert(asked("SELECT count(*) FROM epoch WHERE epoch > 0 AND "
			"compute_s + comm_s + wait_s <= seconds * 1.001 AND compute_s > 0 AND "
			"comm_s > 0 "
			"AND compute_s + comm_s + wait_s > seconds * 0.5") == 3);
	ck_assert(asked("SELECT count(*) FROM rank_epoch WHERE epoch > 0 AND "
			"compute_s + comm_s + wait_s <= seconds * 1.001 AND wait_s > 0") == 6);
	free(words);
	free(barrier);
}
END_TEST

Suite *run_suite(void)
{
	Suite *s = suite_create("run");
	TCase *t = tcase_create("run");
	tcase_set_timeout(t, 120);
	tcase_add_checked_fixture(t, make_data, folder_free);
	tcase_add_loop_test(t, ctrl_c_ends_all_ranks_and_marks_the_row, 1, 3);
	tcase_add_test(t, a_killed_run_is_marked_by_the_next);
	tcase_add_loop_test(t, divergence_has_its_own_status, 1, 3);
	tcase_add_loop_test(t, cut_data_is_refused_by_all_ranks, 1, 3);
	tcase_add_loop_test(t, the_split_adds_up, 0, 3);
	suite_add_tcase(s, t);
	return s;
}
