/*
 * check_run.c - the program from outside: what a run leaves behind when it is stopped, killed,
 * reads bad data, or diverges; exit statuses, the database, and that no worker is left.
 */
#include "results/db/db.h"
#include "tests/made.h"
#include "tests/suites.h"
#include "tests/trained.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OUTPUT = 8192 };

static void make_data(void)
{
	folder_new();
	idx_put_set(600, 100, false, '-');
}

static char *run_words(const char *words)
{
	return sentence("run --data-dir=%s --mlp.hidden=16 %s", folder, words);
}

/* A run on the folder's data and database must end with this status, and print these words. */
static void expect_run(int want, const char *words, const char *says)
{
	char *run AUTOFREE = run_words(words),
		  *command AUTOFREE = sentence("ASAN_OPTIONS=detect_leaks=0 ./mvbench %s "
					       "--db=%s/run.db 2>&1",
					       run, folder);
	expect_command(want, command, says);
}

/* One number from the database; -1 or NaN if it cannot be read yet. */
static double asked(const char *sql)
{
	char *path AUTOFREE = in_folder("run.db");
	struct store *s AUTOCLOSE = NULL;
	double number = -1;
	char *wrong AUTOFREE = store_open(&s, path, STORE_READ);
	if (!wrong)
		wrong = sql_reals(s, &number, 1, sql, "");
	return number;
}

static bool database_exists(void)
{
	char *path AUTOFREE = sentence("%s/run.db", folder);
	return access(path, F_OK) == 0;
}

/* Starts a long run, its stderr to folder/said. more: another word; NULL: none. */
static pid_t start_run_with(const char *strategy, int workers, const char *more)
{
	char *words AUTOFREE = sentence("--strategy=%s", strategy),
		    *number AUTOFREE = sentence("--workers=%d", workers);
	char *data AUTOFREE = sentence("--data-dir=%s", folder),
		   *db AUTOFREE = sentence("--db=%s/run.db", folder);
	char *said AUTOFREE = sentence("%s/said", folder);
	pid_t child = fork();
	if (child == 0) {
		if (!freopen(said, "w", stderr) || !freopen("/dev/null", "w", stdout))
			_exit(99);
		setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
		execl("./mvbench", "mvbench", "run", "--workload=mlp", "--mlp.hidden=16",
		      "--epochs=1000000", words, number, data, db, more, (char *)NULL);
		_exit(99);
	}
	return child;
}

static pid_t start_run(const char *strategy, int workers)
{
	return start_run_with(strategy, workers, NULL);
}

static void wait_for_an_epoch(void)
{
	for (int i = 0; i < 600; i++) {
		usleep(50000);
		if (database_exists() && asked("SELECT count(*) FROM epoch") >= 2)
			break;
	}
}

static int exit_status(pid_t child)
{
	int status = 0;
	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Starts a long run, waits until it has recorded an epoch, and sends its first process a signal. */
static int stop_with(int signal_number, const char *strategy, int workers)
{
	pid_t child = start_run(strategy, workers);
	wait_for_an_epoch();
	kill(child, signal_number);
	return exit_status(child);
}

/* The command lines of workers contain the folder. */
static int workers_left(void)
{
	char out[OUTPUT], *command AUTOFREE = sentence("pgrep -cf -- '--db=%s/run.[d]b'", folder);
	command_output(command, out, sizeof out);
	return atoi(out);
}

CASE("run", .limit = 120, .set_up = make_data, .tear_down = folder_free);

TEST(ctrl_c_ends_all_ranks_and_marks_the_row, 1, 3)
{
	int workers = _i;
	const char *strategy = workers == 1 ? "serial" : "allreduce";
	ck_assert_int_eq(stop_with(SIGINT, strategy, workers), EXIT_INTERRUPTED);
	ck_assert_int_eq(workers_left(), 0);
	ck_assert(asked("SELECT count(*) FROM run WHERE status = 'failed' AND reason = "
			"'interrupted'") == 1);
	ck_assert(asked("SELECT count(*) FROM epoch") >= 2);
}

/* As `mvbench run ... 2>&1 | head -1`: the run ends like one that Ctrl-C ends. */
TEST(closed_output_ends_the_run_and_marks_the_row, 3)
{
	static const char *const of[] = {"--strategy=serial", "--strategy=allreduce --workers=2",
					 "--strategy=allreduce --workers=2 --platform=sim "
					 "--sim.platform=ethernet_10g --sim.step-time=5ms"};
	char out[OUTPUT],
		*command AUTOFREE = sentence(
			"./mvbench run --workload=mlp --device=cpu --epochs=100000 --data-dir=%s "
			"--db=%s/run.db %s 2>&1 | "
			"head -1",
			folder, folder, of[_i]);
	command_output(command, out, sizeof out);
	ck_assert_msg(strncmp(out, "epoch 0/100000 ", 15) == 0, "%s", out);
	/* several workers end after the process whose output is closed */
	for (int i = 0; i < 400 && asked("SELECT count(*) FROM run WHERE status = 'running'"); i++)
		usleep(50000);
	ck_assert(asked("SELECT count(*) FROM run WHERE status = 'failed' AND reason = "
			"'interrupted'") == 1);
	ck_assert_int_eq(workers_left(), 0);
	snprintf(out, sizeof out, "./mvbench status --db=%s/run.db", folder);
	char said[OUTPUT];
	command_output(out, said, sizeof said);
	ck_assert_msg(strstr(said, " 1 interrupted, ") && !strstr(said, "failed"), "%s", said);
}

/* As under nohup, or in the background of a script. */
TEST(ignored_signal_does_not_end_a_run, 1, 3)
{
	static const int ignored[] = {SIGHUP, SIGINT};
	for (size_t i = 0; i < COUNT(ignored); i++)
		signal(ignored[i], SIG_IGN);
	pid_t child = start_run(_i == 1 ? "serial" : "allreduce", _i);
	wait_for_an_epoch();
	for (size_t i = 0; i < COUNT(ignored); i++)
		kill(child, ignored[i]);
	double before = asked("SELECT count(*) FROM epoch");
	for (int i = 0; i < 600 && asked("SELECT count(*) FROM epoch") < before + 20; i++)
		usleep(50000);
	ck_assert(asked("SELECT count(*) FROM run WHERE status = 'running'") == 1);
	kill(child, SIGTERM);
	ck_assert_int_eq(exit_status(child), EXIT_INTERRUPTED);
}

/* A library makes the process slow between the folder and what follows. */
TEST(run_that_is_ended_at_its_start_leaves_no_folder)
{
	char out[OUTPUT];
	if (lacks_program("cc"))
		return;
	folder_text("slow.c", "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <unistd.h>\n"
			      "char *mkdtemp(char *name)\n{\n\tchar *(*make)(char *) = (char "
			      "*(*)(char *))dlsym(RTLD_NEXT, \"mkdtemp\");\n\tchar *made = "
			      "make(name);\n\tusleep(1000000);\n\treturn made;\n}\n");
	char *words AUTOFREE = run_words("--strategy=allreduce --workers=2 --epochs=1000");
	char *command AUTOFREE = sentence(
		"f=%s; cc -shared -fPIC -o $f/slow.so $f/slow.c -ldl && mkdir $f/tmp && "
		"{ TMPDIR=$f/tmp ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0 "
		"LD_PRELOAD=$f/slow.so ./mvbench %s --db=$f/run.db >$f/said 2>&1 & } && "
		"for i in $(seq 400); do ls -A $f/tmp | grep -q mvbench && break; sleep 0.05; "
		"done; kill -TERM $!; "
		"wait $!; echo $?; ls -A $f/tmp",
		folder, words);
	command_output(command, out, sizeof out);
	ck_assert_str_eq(out, "130\n");
}

/* The folder of the run stays. The next run removes it. */
TEST(killed_run_leaves_no_list_of_hosts)
{
	char out[OUTPUT], *words AUTOFREE = run_words("--strategy=allreduce --workers=2 "
						      "--epochs=100000");
	char *command AUTOFREE = sentence(
		"f=%s; mkdir $f/tmp; uname -n >$f/hosts; TMPDIR=$f/tmp ./mvbench %s --db=$f/run.db "
		"--hostfile=$f/hosts >$f/said 2>&1 & for i in $(seq 400); do "
		"grep -q 'epoch 1' $f/said && break; sleep 0.05; done; kill -KILL $!; "
		"grep -om1 'epoch 1/' $f/said; ls $f/tmp | grep -c mvbench",
		folder, words);
	command_output(command, out, sizeof out);
	ck_assert_str_eq(out, "epoch 1/\n0\n");
	for (int i = 0; i < 400 && workers_left(); i++)
		usleep(50000);
}

/* Bound to a core, they would share it. */
TEST(threads_of_a_worker_have_all_cores)
{
	cpu_set_t all;
	ck_assert_int_eq(sched_getaffinity(0, sizeof all, &all), 0);
	char *word AUTOFREE = run_words("--strategy=allreduce --workers=2 --epochs=1");
	for (int threads = 1; threads <= 2; threads++) {
		char *words AUTOFREE = sentence("%s --threads=%d", word + strlen("run "), threads);
		record_run(words);
	}
	char *cores AUTOFREE = sentence("%d\r\n", 2 * CPU_COUNT(&all));
	expect_row("SELECT sum(cores) FROM rank WHERE run_id = 2", cores);
}

/* No process is left to mark the row. The next start marks it, and the workers and servers end by
 * themselves. */
TEST(killed_run_is_marked_by_the_next_start, 3)
{
	static const struct {
		const char *strategy, *word;
		int workers;
	} row[] = {{"serial", NULL, 1}, {"allreduce", NULL, 3}, {"asgd", "--servers=1", 2}};
	pid_t child = start_run_with(row[_i].strategy, row[_i].workers, row[_i].word);
	wait_for_an_epoch();
	kill(child, SIGKILL);
	exit_status(child);
	for (int i = 0; i < 400 && workers_left(); i++) /* under sanitizers they end slowly */
		usleep(50000);
	ck_assert_int_eq(workers_left(), 0);
	ck_assert(asked("SELECT count(*) FROM run WHERE status = 'running'") == 1);
	expect_run(EXIT_OK, "--epochs=1", "");
	ck_assert(asked("SELECT count(*) FROM run WHERE status = 'failed' AND reason LIKE "
			"'interrupted%'") == 1);
	ck_assert(asked("SELECT count(*) FROM run WHERE status = 'done'") == 1);
}

/* The process of this rank; 0: none. */
static pid_t worker_of_rank(int rank)
{
	char out[OUTPUT];
	char *command AUTOFREE =
		sentence("for p in $(pgrep -f -- '--db=%s/run.[d]b'); do tr '\\0' '\\n' "
			 "</proc/$p/environ 2>/dev/null | "
			 "grep -qx OMPI_COMM_WORLD_RANK=%d && echo $p; done",
			 folder, rank);
	command_output(command, out, sizeof out);
	return (pid_t)atoi(out);
}

/* The run's stderr without its epochs: there are many, and Check shows at most 4,000 bytes. */
static void said(char out[OUTPUT])
{
	char *command AUTOFREE =
		sentence("grep -v ^epoch %s/said | cut -c-120 | tail -c 3800", folder);
	command_output(command, out, OUTPUT);
}

static const struct failure {
	const char *strategy, *word; /* word: another one; NULL: none */
	int workers, rank, signal;
} failures[] = {
	{"allreduce", NULL, .workers = 3, .rank = 1, .signal = SIGKILL},
	{"allreduce", NULL, .workers = 3, .rank = 0, .signal = SIGKILL},
	{"allreduce", NULL, .workers = 3, .rank = 2, .signal = SIGABRT},
	{"allreduce", NULL, .workers = 3, .rank = 1, .signal = SIGTERM},
	{"asgd", "--table-home=shared", .workers = 3, .rank = 1, .signal = SIGKILL},
	{"bsp", "--table-home=shared", .workers = 3, .rank = 2, .signal = SIGKILL},
	{"asgd", "--table-home=onesided", .workers = 3, .rank = 1, .signal = SIGKILL},
	{"asgd", "--servers=1", .workers = 2, .rank = 1, .signal = SIGKILL},
	{"asgd", "--servers=1", .workers = 2, .rank = 2, .signal = SIGKILL},
};
enum { FAILURES = sizeof failures / sizeof *failures };

TEST(failed_worker_is_named, FAILURES)
{
	const struct failure *d = &failures[_i];
	char out[OUTPUT], host[256] = "";
	pid_t child = start_run_with(d->strategy, d->workers, d->word);
	wait_for_an_epoch();
	pid_t worker = worker_of_rank(d->rank);
	ck_assert_int_gt(worker, 0);
	nsec failed_at = clock_now();
	kill(worker, d->signal);
	ck_assert_int_eq(exit_status(child), EXIT_FAILED);
	ck_assert_double_lt(1e-9 * (double)(clock_now() - failed_at), 10);
	ck_assert_int_eq(workers_left(), 0);

	gethostname(host, sizeof host - 1);
	char *who AUTOFREE = d->rank < d->workers ? sentence("worker %d", d->rank)
						  : sentence("server %d (rank %d)",
							     d->rank - d->workers, d->rank);
	char *why AUTOFREE = sentence("%s on %s was killed by signal %d (%s)", who, host, d->signal,
				      strsignal(d->signal));
	char *sql AUTOFREE =
		sentence("SELECT count(*) FROM run WHERE status = 'failed' AND reason = '%s'", why);
	ck_assert_msg(asked(sql) == 1, "no row has the reason: %s", why);
	ck_assert(
		asked("SELECT count(*) FROM pragma_integrity_check WHERE integrity_check = 'ok'") ==
		1);
	said(out);
	ck_assert_msg(strstr(out, why), "%s", out);
	ck_assert_msg(!strstr(out, "-----"), "mpirun's banner is shown:\n%s", out);
	ck_assert_msg(!strchr(out, '\036'), "an introduction is shown:\n%s", out);
	ck_assert_msg(strstr(out, "*** Process received signal") || d->signal != SIGABRT,
		      "the worker's output is missing:\n%s", out);
}

/* The worker ends before it has joined the others, when not all have introduced themselves. */
TEST(worker_failure_at_the_start_ends_the_run)
{
	char out[OUTPUT];
	pid_t child = start_run("allreduce", 3), worker = 0;
	for (int i = 0; i < 200 && worker == 0; i++)
		worker = worker_of_rank(1);
	ck_assert_int_gt(worker, 0);
	nsec failed_at = clock_now();
	kill(worker, SIGKILL);
	ck_assert_int_eq(exit_status(child), EXIT_FAILED);
	ck_assert_double_lt(1e-9 * (double)(clock_now() - failed_at), 10);
	ck_assert_int_eq(workers_left(), 0);
	said(out);
	ck_assert_msg(strstr(out, "was killed by signal 9 (Killed)"), "%s", out);
}

/* No process of mvbench watches here: the workers watch each other. */
TEST(stopped_worker_under_the_users_mpirun_is_named, 2)
{
	char out[OUTPUT];
	int rank = _i;
	pid_t child = fork();
	if (child == 0) {
		char *words = run_words("--strategy=allreduce --workers=2 --epochs=1000000 "
					"--stall-timeout=3s");
		char *command = sentence("exec mpirun --quiet --bind-to none -n 2 ./mvbench %s "
					 "--db=%s/run.db 2>%s/said",
					 words, folder, folder);
		setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
		setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
		setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
		execl("/bin/sh", "sh", "-c", command, (char *)NULL);
		_exit(99);
	}
	wait_for_an_epoch();
	pid_t worker = worker_of_rank(rank);
	ck_assert_int_gt(worker, 0);
	nsec since = clock_now();
	kill(worker, SIGSTOP);
	ck_assert_int_ne(exit_status(child), 0);
	ck_assert_double_lt(1e-9 * (double)(clock_now() - since), 20);
	for (int i = 0; i < 100 && workers_left(); i++)
		usleep(50000);
	ck_assert_int_eq(workers_left(), 0);
	char *who AUTOFREE =
		sentence("mvbench: rank %d of 2 (process %d) is stopped", rank, (int)worker);
	char *command AUTOFREE = sentence("grep '^mvbench: rank' %s/said", folder);
	command_output(command, out, sizeof out);
	ck_assert_msg(strstr(out, who) && strstr(out, " s (--stall-timeout=3s): ended"),
		      "%s is not in: %s", who, out);
}

/* Without mpirun, workers train on, but they cannot end. */
TEST(stopped_mpirun_ends_the_run)
{
	char out[OUTPUT];
	pid_t child = start_run_with("allreduce", 2, "--stall-timeout=1s");
	wait_for_an_epoch();
	char *command AUTOFREE = sentence("pgrep -x -P %d mpirun", (int)child);
	command_output(command, out, sizeof out);
	pid_t mpirun = (pid_t)atoi(out);
	ck_assert_int_gt(mpirun, 0);
	kill(mpirun, SIGSTOP);
	ck_assert_int_eq(exit_status(child), EXIT_FAILED);
	ck_assert_int_eq(workers_left(), 0);
	said(out);
	ck_assert_msg(strstr(out, "mpirun is stopped, for"), "%s", out);
	ck_assert(asked("SELECT count(*) FROM run WHERE status = 'failed' AND reason LIKE "
			"'mpirun is stopped, for % s (--stall-timeout=1s)'") == 1);
}

/* Runs in which rank 1 does not start, or opens a pipe in MPI_Init that has no other end. The third
 * is under the user's mpirun. All at once, because each takes ten seconds. */
TEST(hang_at_the_start_ends_the_run)
{
	char out[OUTPUT], host[256] = "";
	gethostname(host, sizeof host - 1);
	folder_text(
		"hang.sh",
		"f=$1; shift; [ \"$OMPI_COMM_WORLD_RANK\" != 1 ] || case $HANG in start) exec "
		"sleep 1000 ;; init) export OMPI_MCA_mca_base_param_files=$f/pipe ;; esac; exec "
		"\"$@\"\n");
	folder_text("mpirun",
		    "#!/bin/sh\nfor a; do shift; case $a in */mvbench) set -- \"$@\" sh "
		    "$F/hang.sh $F;; esac; set -- \"$@\" \"$a\"; done; exec $REAL \"$@\"\n");
	char *words AUTOFREE = run_words("--strategy=allreduce --workers=2 --stall-timeout=8s");
	char *command AUTOFREE = sentence(
		"export ASAN_OPTIONS=detect_leaks=0 OMPI_ALLOW_RUN_AS_ROOT=1 "
		"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 F=%s REAL=$(command -v mpirun); "
		"mkfifo $F/pipe; chmod +x $F/mpirun; "
		"HANG=start PATH=$F:$PATH ./mvbench %s --db=$F/a.db >$F/a 2>&1 & a=$!; "
		"HANG=init PATH=$F:$PATH ./mvbench %s --db=$F/run.db >$F/b 2>&1 & b=$!; "
		"HANG=start mpirun --bind-to none -n 2 sh $F/hang.sh $F ./mvbench %s --db=$F/c.db "
		">$F/c 2>&1 & c=$!; wait $a; echo a: $?; wait $b; echo b: $?; wait $c; "
		"[ $? = 0 ] || echo c fails; grep -h ^mvbench: $F/a $F/b $F/c",
		folder, words, words, words);
	nsec since = clock_now();
	command_output(command, out, sizeof out);
	ck_assert_double_lt(1e-9 * (double)(clock_now() - since), 40);
	char *const says[] = {
		sentence("a: 1\nb: 1\nc fails\n"),
		sentence("worker 1 on %s has not started yet, for ", host),
		sentence("worker 1 on %s waits for others (MPI_Init), like all ranks, for ", host),
		sentence(" on %s) waits in MPI_Init, for 9 s (--stall-timeout=8s): ended\n", host)};
	for (size_t i = 0; i < COUNT(says); i++) {
		ck_assert_msg(strstr(out, says[i]), "\"%s\" is not in:\n%s", says[i], out);
		free(says[i]);
	}
	ck_assert_int_eq(workers_left(), 0);
}

/* A rank of the user's launcher that fails; *from: its messages. */
static pid_t failing_rank(int *from)
{
	int end[2];
	ck_assert_int_eq(pipe(end), 0);
	pid_t child = fork();
	if (child == 0) {
		dup2(end[1], STDERR_FILENO);
		close(end[0]);
		close(end[1]);
		setenv("OMPI_COMM_WORLD_SIZE", "1", 1);
		setenv("OMPI_COMM_WORLD_RANK", "0", 1);
		execl("./mvbench", "mvbench", "nothing", (char *)NULL);
		_exit(99);
	}
	close(end[1]);
	*from = end[0];
	return child;
}

/* mpirun may stop reading as soon as a rank has failed. */
TEST(failed_rank_waits_until_its_message_is_read)
{
	char out[OUTPUT] = "";
	int from, status;
	pid_t child = failing_rank(&from);
	ck_assert_int_eq(poll(&(struct pollfd){.fd = from, .events = POLLIN}, 1, 10000), 1);
	usleep(300000);
	ck_assert_int_eq(waitpid(child, &status, WNOHANG), 0);
	ck_assert_int_gt(read(from, out, sizeof out - 1), 0);
	ck_assert_msg(strstr(out, "nothing: there is no such command"), "%s", out);
	ck_assert_int_eq(exit_status(child), EXIT_USER);
	close(from);
	child = failing_rank(&from);
	poll(&(struct pollfd){.fd = from, .events = POLLIN}, 1, 10000);
	nsec since = clock_now();
	close(from); /* the launcher was killed */
	exit_status(child);
	ck_assert_double_lt(1e-9 * (double)(clock_now() - since), 3);
}

/* Only mpirun knows the reason and prints it. */
TEST(message_of_mpirun_is_shown)
{
	folder_text("hosts", "elsewhere slots=3\n");
	setenv("OMPI_MCA_plm_rsh_agent", "false", 1);
	char *hosts AUTOFREE =
		sentence("--strategy=allreduce --workers=3 --hostfile=%s/hosts", folder);
	expect_run(EXIT_USER, hosts, "see its messages above");
	ck_assert_msg(strstr(output, "-----") && strstr(output, "daemon"), "%s", output);
	folder_text("hosts", "localhost slots=1\n");
	expect_run(EXIT_USER, hosts, "slots of the hostfile: 1");
}

/* mpirun then says that it could not start its daemons. */
TEST(machine_that_ends_while_ranks_run_is_named, 2)
{
	static const char *const others[] = {"far", "far further"},
				 *const says[] = {"the connection to far was lost",
						  "the connection to another machine was lost"};
	char *path AUTOFREE = sentence("%s:%s", folder, getenv("PATH"));
	char *program AUTOFREE = sentence("%s/mpirun", folder);
	char *text AUTOFREE =
		sentence("#!/bin/sh\nr=0; exec >&2; for h in $(hostname) %s; do\n"
			 "printf '\\036mvbench %%d %%s %%d\\n' $r $h $$; r=$((r + 1)); done\n"
			 "rule=$(printf '%%080d' 0 | tr 0 -); echo $rule\n"
			 "echo 'ORTE was unable to reliably start one or more daemons.'\n"
			 "echo $rule; exit 1\n",
			 others[_i]);
	folder_text("mpirun", text);
	chmod(program, 0755);
	setenv("PATH", path, 1);
	char *words AUTOFREE = sentence("--strategy=allreduce --workers=%d", 2 + _i);
	expect_run(EXIT_FAILED, words, says[_i]);
	ck_assert_msg(!strstr(output, "-----"), "%s", output);
}

/* mpirun's sequential mapper knows this machine only by its host name. */
TEST(every_name_of_this_machine_is_known, 2)
{
	static const char *const name[] = {"localhost", "127.0.0.1", "127.0.0.2"};
	for (size_t i = 0; i < COUNT(name); i++) {
		char *line AUTOFREE = sentence("%s slots=2\n", name[i]);
		folder_text("hosts", line);
		char *words AUTOFREE = sentence("--strategy=allreduce --epochs=1 --workers=%d "
						"--hostfile=%s/hosts",
						_i + 1, folder);
		expect_run(EXIT_OK, words, "");
	}
	expect_row("SELECT count(*), count(DISTINCT host) FROM rank", _i ? "6,1\r\n" : "3,1\r\n");
}

/* Without PMI each task would start an mpirun, and they would wait for each other's processors. */
TEST(srun_without_pmi_is_refused)
{
	setenv("SLURM_STEP_NUM_TASKS", "2", 1);
	setenv("SLURM_PROCID", "0", 1);
	expect_run(EXIT_USER, "--strategy=allreduce --workers=2", "give srun --mpi=pmix");
}

/* In the shell of a batch job, SLURM_PROCID does not mean that a launcher started this process. */
TEST(simulation_in_a_batch_job_prints_only_its_results)
{
	setenv("SLURM_PROCID", "0", 1);
	expect_run(EXIT_OK,
		   "--strategy=allreduce --workers=2 --epochs=1 --platform=sim "
		   "--sim.platform=gpu4_pcie --sim.step-time=1ms --sim.update-time=100us",
		   "epoch 1/1");
	ck_assert_msg(!strstr(output, "\036"), "%s", output);
}

TEST(divergence_has_its_own_status, 1, 3)
{
	expect_run(EXIT_DIVERGED,
		   _i == 1 ? "--lr=1000 --epochs=5"
			   : "--lr=1000 --epochs=5 --strategy=allreduce --workers=2",
		   "--lr");
	ck_assert_msg(!strstr(output, "-----"), "mpirun's banner is shown:\n%s", output);
	ck_assert(asked("SELECT count(*) FROM run WHERE status = 'diverged' AND reason LIKE 'epoch "
			"1:%'") == 1);
}

/* Headers are whole, so the error is found only while the workers load. Still nothing is
 * written. */
TEST(cut_data_is_refused_by_all_ranks, 1, 3)
{
	char *path AUTOFREE = in_folder("train-images-idx3-ubyte");
	ck_assert_int_eq(truncate(path, 5000), 0);
	expect_run(EXIT_USER, _i == 1 ? "--strategy=serial" : "--strategy=allreduce --workers=3",
		   "train-images-idx3-ubyte");
	ck_assert_msg(!strstr(output, "-----"), "mpirun's banner is shown:\n%s", output);
	ck_assert(!database_exists());
}

/* Times of an epoch: the parts sum up to no more than the whole, on every rank and for the means,
 * and workers wait for a straggler. The time that other load takes between the parts is in none of
 * them. A gap in the program's own times would be in every epoch. */
TEST(times_of_an_epoch_add_up, 3)
{
	char *words AUTOFREE = sentence("--strategy=allreduce --workers=2 --epochs=3 --straggle=1 "
					"--barrier-every=%d",
					_i);
	expect_run(EXIT_OK, words, "");
	ck_assert(asked("SELECT count(*) FROM epoch WHERE epoch > 0 AND "
			"compute_s + comm_s + wait_s <= seconds * 1.001 AND compute_s > 0 AND "
			"comm_s > 0") == 3);
	ck_assert_double_gt(asked("SELECT max((compute_s + comm_s + wait_s) / seconds) FROM epoch "
				  "WHERE epoch > 0"),
			    0.5);
	ck_assert(asked("SELECT count(*) FROM rank_epoch WHERE epoch > 0 AND "
			"compute_s + comm_s + wait_s <= seconds * 1.001 AND wait_s > 0") == 6);
}

/* A dry run names an option like its column. */
TEST(dry_run_names_options_like_the_table)
{
	char column[COLUMN_ROOM];
	expect_run(EXIT_OK, "--dry-run --format=json", "");
	for (const struct option *o = run_options; o->name; o++) {
		char *key AUTOFREE = sentence("\"%s\": ", option_column(o, column));
		ck_assert_msg(strstr(output, key) && !strpbrk(column, ".-"), "%s: %s", key, output);
	}
}

TEST(interval_without_effect_is_noted)
{
	expect_run(EXIT_OK, "--dry-run --workers=2 --strategy=allreduce --sync-every=4",
		   "--sync-every=4 has no effect: allreduce has no interval");
	expect_run(EXIT_OK, "--dry-run --workers=2 --strategy=periodic --sync-every=4", "");
	ck_assert_msg(!strstr(output, "no effect"), "%s", output);
}

/* The first step has two rows. Two of four workers have had none, and count as little as those that
 * are not there. With --lr=0 the loss depends on the statistics only. */
TEST(norm_statistics_of_workers_without_rows_do_not_count)
{
	char out[OUTPUT];
	const char *const how[] = {"--workers=2 --batch=2", "--workers=4 --batch=1"};
	for (size_t i = 0; i < COUNT(how); i++) {
		char *words AUTOFREE =
			sentence("--workload=resnet --resnet.depth=20 --resnet.augment=false "
				 "--train-rows=5 --steps=1 --lr=0 --device=cpu "
				 "--strategy=allreduce %s",
				 how[i]);
		ck_assert_msg(run_mvbench("", words, out, sizeof out) == EXIT_OK, "%s", out);
	}
	expect_row("SELECT count(*), max(test_loss) / min(test_loss) < 1 + 1e-4 FROM epoch WHERE "
		   "epoch = 1",
		   "2,1\r\n");
}

/* Recomputed norm statistics depend on the model alone. They depend neither on the training, as
 * statistics kept in training do, nor on the worker that computes them. */
TEST(recomputed_norm_statistics_depend_on_the_model_only)
{
	char out[OUTPUT];
	const char *const how[] = {"--norm-statistics=recompute",
				   "--norm-statistics=recompute --strategy=asgd --workers=2", ""};
	for (size_t i = 0; i < COUNT(how); i++) {
		char *words AUTOFREE =
			sentence("--workload=resnet --resnet.depth=20 --epochs=1 "
				 "--train-rows=100 --batch=25 --lr=0 --device=cpu %s",
				 how[i]);
		ck_assert_msg(run_mvbench("", words, out, sizeof out) == EXIT_OK, "%s", out);
	}
	expect_row(
		"SELECT count(*), sum(abs(test_loss / first - 1) < 1e-5), sum(accuracy IS NULL) "
		"FROM (SELECT run_id, test_loss, test_accuracy AS accuracy, first_value(test_loss) "
		"OVER (ORDER BY run_id, epoch) AS first FROM epoch)",
		"6,4,0\r\n");
	expect_refused("", "--workload=mlp --norm-statistics=recompute",
		       "--norm-statistics=recompute: mlp has no batch norms");
	expect_refused("", "--workload=mlp --norm-statistics=first",
		       "--norm-statistics=first: mlp has no batch norms");
}
