/*
 * check_library.c - libmvbench in other programs: the seeds' programs on one, two and four workers,
 * every function and every mistake with every placement of tables, processes that start one by one,
 * programs in C++ and with an MPI of their own, and what is installed. The programs are those of
 * tests/seeds and tests/lib. timeout stops a program that hangs, and its test fails.
 */
#include "tests/suites.h"
#include "tests/fixture.h"
#include "tests/shell.h"
#include "runtime/lib/libmvbench.h"

#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- Programs ------------------------------------------------------------------ */

static const struct {
	const char *name, *prints;
} seed[] = {
	{"tutorial", "everyone's model, epoch 200"},
	{"logistic 3", "Epoch: 3 Test accuracy: "},
	{"params", "53 parameters"},
	{"perceptron", "Epoch: 5 Mean Squared Error: "},
	{"perceptron 5 page 1", "Mean Squared Error of the last model: "},
	{"data_parallel", "synchronised by hand, once an epoch: "},
	{"model_parallel", "gradients differ by"},
};
enum { SEEDS = sizeof seed / sizeof *seed };
static const int ranks[] = {1, 2, 4};

CASE("seeds", .limit = 240, .set_up = folder_new, .tear_down = folder_free);

TEST(seeds_programs_run, 3 * SEEDS)
{
	int i = _i / 3, n = ranks[_i % 3];
	bool data = strncmp(seed[i].name, "logistic", 8) != 0 ||
		    system("ls /usr/share/datasets/fashion-mnist/*.gz >/dev/null 2>&1") == 0;
	run(data ? 0 : 77, MPIRUN "%d tests/seeds/%s", n, seed[i].name);
	if (data)
		expect(seed[i].prints);
	else
		expect("nothing to train on");
}

CASE("programs", .limit = 240, .set_up = folder_new, .tear_down = folder_free);

TEST(program_without_launcher_is_one_worker)
{
	run(0, "ASAN_OPTIONS=detect_leaks=0 tests/seeds/params && tests/lib/tables");
	expect("one process, tables: shared");
}

TEST(every_library_function_works, 9)
{
	static const char *const how[] = {
		"1 tests/lib/tables shared",    "2 tests/lib/tables shared",
		"3 tests/lib/tables auto",      "4 tests/lib/tables shared",
		"2 tests/lib/tables onesided",  "4 tests/lib/tables onesided",
		"2 tests/lib/tables servers 1", "3 tests/lib/tables servers 1",
		"4 tests/lib/tables auto 2",
	};
	run(0, MPIRUN "%s", how[_i]);
	expect(_i < 4 ? "tables: shared" : _i < 6 ? "tables: onesided" : "tables: servers");
}

TEST(assertions_of_the_originals_hold, 4)
{
	run(0, MPIRUN "%d tests/lib/originals", _i + 1);
	ck_assert_str_eq(printed, "");
}

TEST(starts_of_reductions_are_timed, 2)
{
	run(0, MPIRUN "%d tests/lib/starts 256 20", 2 * _i + 1);
	expect("mvb_grads_ready ");
	expect(" us, mvb_allreduce_start ");
}

/* Few floats, and enough for a ring. The fastest of 20 starts, because this machine may be busy:
 * each takes 100 ms if it waits. */
TEST(started_sum_waits_for_no_late_worker, 2)
{
	static const char *const how[] = {"2 tests/lib/starts 256 20",
					  "4 tests/lib/starts 200000 20"};
	static const char fastest[] = "the fastest ";
	run(0, MPIRUN "%s", how[_i]);
	expect(fastest);
	ck_assert_double_lt(strtod(strstr(printed, fastest) + strlen(fastest), NULL), 50);
}

/* The sizes divide neither by two nor by three; with four workers some hold nothing. */
TEST(split_layers_equal_whole_ones, 8)
{
	run(0, MPIRUN "%d tests/lib/linear %s", _i % 4 + 1, _i < 4 ? "13 11 5" : "3 2 1");
	expect("split layers differ from whole ones by ");
}

TEST(every_library_mistake_returns_an_error, 6)
{
	static const char *const how[] = {
		"2 tests/lib/errors",
		"2 tests/lib/errors stay",
		"2 tests/lib/errors go onesided 0",
		"2 tests/lib/errors stay onesided 0",
		"3 tests/lib/errors go servers 1",
		"3 tests/lib/errors stay servers 1",
	};
	run(0, MPIRUN "%s", how[_i]);
	ck_assert_str_eq(printed, "");
}

TEST(library_works_beside_the_programs_mpi)
{
	run(0, MPIRUN "1 tests/lib/mpi");
	run(0, MPIRUN "3 tests/lib/mpi");
	run(0, MPIRUN "2 tests/lib/mpi finalize first");
}

/* Starts the ranks one by one in the background; the last status that is not 0 counts. */
#define ONE_BY_ONE \
	"f=%s/meet; s=0; export ASAN_OPTIONS=detect_leaks=0; for r in %s; do timeout 60 " \
	"tests/lib/file $f $r %d %s & p=\"$p $!\"; done; for i in $p; do wait $i || s=$?; done; " \
	"sleep 0.5; [ ! -e $f ] || echo the file is left; exit $s"

TEST(processes_find_each_other_through_a_file)
{
	run(0, ONE_BY_ONE, folder, "0 1", 2, "");
	expect("2 workers, Open MPI");
	ck_assert_ptr_null(strstr(printed, "the file is left"));
	run(0, ONE_BY_ONE, folder, "2 0 3 1", 4, "");
	expect("4 workers, Open MPI");
	run(0, ONE_BY_ONE, folder, "0", 1, "");
	expect("1 workers, one process");
}

TEST(processes_that_do_not_connect_get_an_error)
{
	run(3, ONE_BY_ONE, folder, "0 2", 3, "1");
	expect("MVB_ERR_START: mvb_init: of 3 ranks, 1 had not connected to");
	ck_assert_ptr_null(strstr(printed, "the file is left"));
	run(3, "tests/lib/file %s/none/meet 0 2", folder);
	expect("No such file or directory");
	run(1, MPIRUN "1 tests/lib/file %s/meet 1 2", folder);
	expect("but the launcher made it rank 0 of 1");
	run(1, MPIRUN "2 tests/lib/file %s/meet 0 2", folder);
	expect("MVB_ERR_PEER: process 1: mvb_init: rank 0 of 2, but the launcher made it rank 1 of "
	       "2");
}

/* ---- Other users' rendezvous files and helpers ------------------------------------- */

enum { NOBODY = 65534 };

/* A socket of a helper that listens at, or (connect) a rank that connects to, an abstract name. */
static int rendezvous_socket(const char *name, bool listens)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	memcpy(to.sun_path + 1, name, strlen(name));
	if (listens)
		ck_assert_int_eq(bind(sock, (struct sockaddr *)&to, length) | listen(sock, 4), 0);
	else
		ck_assert_int_eq(connect(sock, (struct sockaddr *)&to, length), 0);
	return sock;
}

/* Writes the rendezvous file of a helper of this name. */
static void rendezvous_file(const char *name)
{
	char *path AUTOFREE = sentence("%s/meet", folder), host[256] = "";
	gethostname(host, sizeof host - 1);
	FILE *f = fopen(path, "w");
	fprintf(f, "rendezvous 1 %s %s\n", name, host);
	ck_assert_int_eq(fclose(f), 0);
	ck_assert_int_eq(chmod(path, 0600), 0);
}

/* Starts a helper that sends this to the first rank. */
static pid_t fake_helper(uid_t user, const char *name, const char *says, size_t length)
{
	int ready[2];
	char text[512];
	ck_assert_int_eq(pipe(ready), 0);
	pid_t helper = fork();
	if (helper == 0) {
		if (user != geteuid() && (setgid(user) || setuid(user)))
			_exit(1);
		int listener = rendezvous_socket(name, true);
		if (write(ready[1], "", 1) != 1)
			_exit(1);
		int sock = accept(listener, NULL, NULL);
		if (recv(sock, text, sizeof text, 0) > 0)
			send(sock, says, length, MSG_NOSIGNAL);
		_exit(0);
	}
	ck_assert_int_eq(read(ready[0], text, 1), 1);
	close(ready[0]), close(ready[1]);
	return helper;
}

static void end_helper(pid_t helper)
{
	kill(helper, SIGKILL);
	waitpid(helper, NULL, 0);
}

static const struct {
	const char *make, *says; /* with the folder in $f */
	bool root;
} untrusted_files[] = {
	{"touch $f/meet; chmod 0620 $f/meet", "can be written by other users", false},
	{"touch $f/meet; chmod 0602 $f/meet", "can be written by other users", false},
	{"touch $f/other; ln -s other $f/meet", "is a symbolic link", false},
	{"mkfifo -m 600 $f/meet", "is not a plain file", false},
	{"touch $f/meet; chmod 0600 $f/meet; chown 65534 $f/meet", "belongs to another user", true},
};

TEST(rendezvous_file_that_others_may_write_is_refused, COUNT(untrusted_files))
{
	if (untrusted_files[_i].root && geteuid() != 0) {
		skipped("only root can give a file to another user");
		return;
	}
	run(3, "f=%s; %s; timeout 60 tests/lib/file $f/meet 0 2 1; s=$?; cat $f/other; exit $s",
	    folder, untrusted_files[_i].make);
	expect(untrusted_files[_i].says);
	ck_assert_ptr_null(strstr(printed, "rendezvous 1"));
}

TEST(rendezvous_helper_of_another_user_is_refused)
{
	static const char says[] = "+PMIX_RANK=0";
	if (geteuid() != 0) {
		skipped("only root can start a process of another user");
		return;
	}
	char *name AUTOFREE = sentence("mvbench-test-%d", (int)getpid());
	rendezvous_file(name);
	pid_t helper = fake_helper(NOBODY, name, says, sizeof says);
	run(3, "timeout 60 tests/lib/file %s/meet 0 2 1", folder);
	end_helper(helper);
	expect("runs as another user (65534)");
}

static const struct {
	const char *sent;
	size_t length;
	const char *names;
} unknown_variables[] = {
	{"+EVIL=1", 8, "EVIL"},
	{"+PMIX_RANK=0\0OMPI_MCA_mca_base_component_path=evil", 51, "OMPI_MCA_mca_base_component"},
	{"+PMIX_MCA_mca_base_component_path=evil", 39, "PMIX_MCA_mca_base_component_path"},
	{"+PMIX_RANK=0\0LD_PRELOAD", 24, "a variable without a value"},
};

TEST(rendezvous_helper_that_sends_other_variables_is_refused, COUNT(unknown_variables))
{
	char *name AUTOFREE = sentence("mvbench-test-%d", (int)getpid());
	rendezvous_file(name);
	pid_t helper = fake_helper(geteuid(), name, unknown_variables[_i].sent,
				   unknown_variables[_i].length);
	run(3, "timeout 60 tests/lib/file %s/meet 0 2 1", folder);
	end_helper(helper);
	expect(unknown_variables[_i].names);
}

/* Three ranks: only the first is started; this process sends what a rank would. */
TEST(rendezvous_ranks_beyond_the_size_are_refused, 2)
{
	static const char *const sent[] = {"3 3 1", "-1 3 1"};
	char name[64] = "", reply[512] = "", *path AUTOFREE = sentence("%s/meet", folder);
	struct timeval patience = {.tv_sec = 20};
	run(0,
	    "timeout 60 tests/lib/file %s/meet 0 3 30 >/dev/null 2>&1 & echo $! >%s/pid; "
	    "for i in $(seq 100); do [ -s %s/meet ] && break; sleep 0.1; done",
	    folder, folder, folder);
	FILE *f = fopen(path, "r");
	ck_assert_int_eq(fscanf(f, "rendezvous 1 %63s", name), 1);
	fclose(f);
	int sock = rendezvous_socket(name, false);
	setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	ck_assert_int_gt(send(sock, sent[_i], strlen(sent[_i]), MSG_NOSIGNAL), 0);
	recv(sock, reply, sizeof reply - 1, 0);
	close(sock);
	run(0,
	    "kill $(cat %s/pid); for i in $(seq 100); do [ -e %s/meet ] || break; sleep 0.1; done",
	    folder, folder);
	ck_assert_msg(strstr(reply, "is not possible"), "reply: %s", reply);
}

/* In a network namespace all ports are of these processes. With a server, tables use messages, too.
 */
TEST(ranks_of_a_rendezvous_listen_on_loopback_only, 2)
{
	if (lacks_program("ss"))
		return;
	if (system("unshare -rn ip link set lo up 2>/dev/null") != 0) {
		skipped("no namespaces here");
		return;
	}
	run(0,
	    "export ASAN_OPTIONS=detect_leaks=0; f=%s; unshare -rn sh -c 'ip link set lo up; f=%s; "
	    "for r in 0 1 2; do timeout 60 tests/lib/endless %d $f/meet $r 3 >>$f/out 2>&1 & "
	    "p=\"$p $!\"; done; for i in $(seq 300); do [ $(grep -c ready $f/out) = %d ] && break; "
	    "sleep 0.1; done; ss -ltnpuH | grep -v 127.0.0.1 >$f/ports; kill $p; wait'; "
	    "grep -c ready $f/out; "
	    "cat $f/ports; echo end",
	    folder, folder, _i, 3 - _i);
	char *want AUTOFREE = sentence("%d\nend\n", 3 - _i);
	expect(want);
}

/* ---- Failed processes ---------------------------------------------------- */

/* One of three processes is killed while all are at work. */
static const struct {
	bool launched; /* otherwise they find each other through a file */
	int servers, rank;
} killed[] = {
	{.launched = true, .servers = 0, .rank = 1},  {.launched = true, .servers = 1, .rank = 2},
	{.launched = false, .servers = 0, .rank = 1}, {.launched = false, .servers = 1, .rank = 2},
	{.launched = false, .servers = 1, .rank = 0},
};
enum { KILLED = sizeof killed / sizeof *killed };

TEST(killed_library_process_is_named, KILLED)
{
	int servers = killed[_i].servers, rank = killed[_i].rank;
	char host[256] = "", *named, *start;
	gethostname(host, sizeof host - 1);
	if (killed[_i].launched) {
		start = sentence("timeout 60 mpirun --oversubscribe --bind-to none -n 3 sh -c "
				 "'echo rank $OMPI_COMM_WORLD_RANK is $$; "
				 "exec tests/lib/endless %d' >$f/out &",
				 servers);
		named = sentence("rank %d with PID 0 on node %s exited on signal 9", rank, host);
	} else {
		start = sentence("for r in 0 1 2; do timeout 60 sh -c 'echo rank $0 is $$; "
				 "exec tests/lib/endless %d $1/meet $0 3' $r $f >>$f/out & done;",
				 servers);
		named = sentence("rank %d of 3 (process", rank);
	}
	run(0,
	    "export ASAN_OPTIONS=detect_leaks=0; f=%s; %s for i in $(seq 300); do "
	    "[ $(grep -c ready $f/out) = %d ] && break; sleep 0.1; done; "
	    "pid() { sed -n \"s/^rank $1 is //p\" $f/out; }; kill -9 $(pid %d); t=$(date +%%s%%N); "
	    "wait; t=$((($(date +%%s%%N) - t) / 1000000)); [ $t -lt 10000 ] || echo late: $t ms; "
	    "for r in 0 1 2; do grep -s State /proc/$(pid $r)/status | grep -v zombie && "
	    "echo $r is left; done; for i in $(seq 40); do [ -e $f/meet ] || break; sleep 0.1; "
	    "done; [ ! -e $f/meet ] || echo the file is left",
	    folder, start, 3 - servers, rank);
	expect(named);
	expect(host);
	ck_assert_msg(!strstr(printed, "late: ") && !strstr(printed, " is left"), "%s", printed);
	free(named);
	free(start);
}

/* One of three processes is stopped while all are at work. */
static const struct {
	bool launched;
	int servers, rank;
} stopped[] = {
	{.launched = true, .servers = 0, .rank = 0},
	{.launched = true, .servers = 1, .rank = 2},
	{.launched = false, .servers = 0, .rank = 1},
};
enum { STOPPED = sizeof stopped / sizeof *stopped };

TEST(stopped_library_process_is_named, STOPPED)
{
	int servers = stopped[_i].servers, rank = stopped[_i].rank;
	char *named AUTOFREE = sentence("rank %d of 3 (process", rank);
	char *start AUTOFREE =
		stopped[_i].launched
			? sentence("timeout 60 mpirun --oversubscribe --bind-to none -n 3 "
				   "sh -c 'echo rank $OMPI_COMM_WORLD_RANK is $$; "
				   "exec tests/lib/endless %d' >$f/out 2>&1 &",
				   servers)
			: sentence("for r in 0 1 2; do timeout 60 sh -c 'echo rank $0 is $$; "
				   "exec tests/lib/endless %d $1/meet $0 3' $r $f "
				   ">>$f/out 2>&1 & done;",
				   servers);
	run(0,
	    "export ASAN_OPTIONS=detect_leaks=0 MVBENCH_STALL_TIMEOUT=3; f=%s; %s for i in $(seq "
	    "300); do [ $(grep -c ready $f/out) = %d ] && break; sleep 0.1; done; "
	    "pid() { sed -n \"s/^rank $1 is //p\" $f/out; }; kill -STOP $(pid %d); "
	    "t=$(date +%%s); wait; t=$(($(date +%%s) - t)); [ $t -lt 20 ] || echo late: $t s; "
	    "for r in 0 1 2; do grep -s State /proc/$(pid $r)/status | grep -v zombie && "
	    "echo $r is left; done; grep mvbench: $f/out",
	    folder, start, 3 - servers, rank);
	expect(named);
	expect(") is stopped");
	expect(" s the run ends (MVBENCH_STALL_TIMEOUT)");
	expect(" s (MVBENCH_STALL_TIMEOUT=3): ended");
	ck_assert_msg(!strstr(printed, "late: ") && !strstr(printed, " is left"), "%s", printed);
}

/* A worker that others wait for is named; two workers that are busy are not. */
TEST(late_library_process_is_named)
{
	run(0,
	    MPIRUN
	    "2 tests/lib/late 2>&1 |"
	    " sed 's/process [0-9]*/process N/; s/for [0-9]* s/for T s/' >%s/late; cat %s/late",
	    folder, folder);
	expect("mvbench: rank 1 of 2 (process N) computes without progress, for T s now\n"
	       "mvbench: rank 1 of 2 (process N) makes progress again\n");
	ck_assert_msg(!strstr(strstr(printed, "again\n") + 6, "mvbench:"), "%s", printed);
}

/* ---- What is built and installed -------------------------------------------------- */

CASE("built", .limit = 240, .set_up = folder_new, .tear_down = folder_free);

TEST(only_the_interface_is_visible)
{
	run(0,
	    "nm -D --defined-only libmvbench.so | awk '$2 != \"A\" { print $3 }' | grep -v '^_' |"
	    " sed 's/@@MVBENCH_0.3$//' | sort >%s/so; nm -g --defined-only libmvbench.a | "
	    "awk 'NF == 3 { print $3 }' | "
	    "grep -v '^_' | sort >%s/a; sed -n 's/^[a-z][^(]*[ *]\\(mvb_[a-z_]*\\)(.*/\\1/p' "
	    "$MVBENCH_HOME/runtime/lib/libmvbench.h | sort >%s/h; wc -l <%s/h; diff %s/h %s/so && "
	    "diff %s/h %s/a",
	    folder, folder, folder, folder, folder, folder, folder, folder);
	ck_assert_int_gt(atoi(printed), 40);
}

/* Code for any x86-64 has the loops of tables twice; one of them uses AVX2. */
TEST(plain_code_has_loops_for_newer_processors)
{
#if defined __x86_64__ && !defined __clang__
	run(0,
	    "cd $MVBENCH_HOME && for f in table/updater table/apply lib/linear; do gcc -I. "
	    "-std=c11 "
	    "-D_GNU_SOURCE -O3 -fopenmp-simd -fno-math-errno -fPIC -c runtime/$f.c -o %s/o && "
	    "nm %s/o | grep -c 'arch_x86_64_v3$' && objdump -d %s/o | grep -q ymm || exit; done",
	    folder, folder, folder);
	ck_assert_str_eq(printed, "11\n3\n2\n");
#endif
}

/* As for a user's program, with the sanitizers of this build, if there are any. */
#define COMPILE "${CC:-cc} $LDFLAGS -Wall -Wextra -Werror -O1 "

TEST(cpp_program_uses_the_library)
{
	if (system("g++ --version >/dev/null 2>&1") != 0)
		return;
	run(0,
	    "g++ $LDFLAGS -Wall -Wextra -Werror -x c++ $MVBENCH_HOME/tests/seeds/params.c -x none "
	    "-I$MVBENCH_HOME/runtime/lib -L. -lmvbench -Wl,-rpath,$PWD -o %s/cpp && " MPIRUN
	    "2 %s/cpp",
	    folder, folder);
	expect("all as expected");
}

/* As in check_bindings.c. */
#define NO_JOBSERVER "unset MAKEFLAGS MFLAGS MAKELEVEL; "
#define INSTALL \
	NO_JOBSERVER "make -s -C $MVBENCH_HOME " \
		     "B=\"$(realpath --relative-to=$MVBENCH_HOME .)\" install PREFIX=%s"

TEST(installed_library_builds_programs)
{
	char prefix[128], env[512];
	snprintf(prefix, sizeof prefix, "%s/prefix", folder);
	snprintf(env, sizeof env,
		 "export PKG_CONFIG_PATH=%s/lib/pkgconfig LD_LIBRARY_PATH=%s/lib; ", prefix,
		 prefix);
	run(0, INSTALL, prefix);
	run(0,
	    "%spkg-config --modversion libmvbench && grep -F MVB_VERSION %s/include/libmvbench.h",
	    env, prefix);
	run(0,
	    "%s" COMPILE "$MVBENCH_HOME/tests/seeds/tutorial.c $(pkg-config --cflags --libs "
	    "libmvbench) -o %s/shared && " MPIRUN "2 %s/shared",
	    env, folder, folder);
	expect("2 workers, Open MPI");
	run(0,
	    "%s rm %s/lib/libmvbench.so*; " COMPILE "$MVBENCH_HOME/tests/seeds/tutorial.c "
	    "$(pkg-config --static --cflags --libs libmvbench) -o %s/static && " MPIRUN
	    "2 %s/static",
	    env, prefix, folder, folder);
	expect("2 workers, Open MPI");
}

/* The header's version satisfies its own number, and neither of two later ones. */
TEST(cmake_finds_the_installed_library)
{
	if (lacks_program("cmake"))
		return;
	run(0, INSTALL "/prefix", folder);
	run(0,
	    NO_JOBSERVER
	    "cd %s && cp $MVBENCH_HOME/tests/seeds/params.c $MVBENCH_HOME/tests/seeds/seeds.h . && "
	    "for v in " MVB_VERSION " 0.4 1; do printf '%%s\n' "
	    "'cmake_minimum_required(VERSION 3.13)' 'project(p C)' "
	    "\"find_package(libmvbench $v REQUIRED)\" 'add_executable(params params.c)' "
	    "'target_link_libraries(params mvbench::mvbench)' >CMakeLists.txt; rm -rf b; "
	    "CFLAGS=\"$LDFLAGS\" cmake -B b -DCMAKE_PREFIX_PATH=%s/prefix >log 2>&1 && "
	    "cmake --build b >log && LD_LIBRARY_PATH=%s/prefix/lib b/params >log && echo $v; done; "
	    "grep -o 'compatible with requested' log",
	    folder, folder, folder);
	ck_assert_str_eq(printed, MVB_VERSION "\ncompatible with requested\n");
}

/* Every function of the header, in a page that groff formats without a warning. */
TEST(manual_page_has_every_function)
{
	run(0,
	    "h=$MVBENCH_HOME/runtime/lib/libmvbench.h; "
	    "$MVBENCH_HOME/runtime/lib/manual.sh $h >%s/page && "
	    "for f in $(sed -n 's/^[a-z][^(]*[ *]\\(mvb_[a-z_]*\\)(.*/\\1/p' $h); do "
	    "grep -q \"^[^/].*[ *]$f(.*[,;]\" %s/page || echo no $f; done; "
	    "grep -c '^[.]SH' %s/page",
	    folder, folder, folder);
	ck_assert_str_eq(printed, "10\n");
	if (!lacks_program("groff"))
		run(0,
		    "out=$(groff -man -ww -Tascii %s/page 2>&1 >/dev/null); echo \"$out\"; "
		    "[ -z \"$out\" ]",
		    folder);
}

TEST(package_installation_has_the_final_prefix)
{
	run(0, INSTALL " DESTDIR=%s/package", "/usr", folder);
	run(0,
	    "cd %s/package/usr && ls bin/mvbench include/libmvbench.h lib/libmvbench.a "
	    "lib/libmvbench.so lib/libmvbench.so.1 share/lua/5.1/mvbench.lua "
	    "share/lua/5.1/mvbench_layers.lua share/lua/5.1/mvbench_abi.lua "
	    "share/lua/5.1/multiverso.lua share/lua/5.1/torchmpi.lua share/lua/5.1/torchad_nn.lua "
	    "share/lua/5.1/torchad_nn/datamodule.lua lib/cmake/libmvbench/libmvbench-config.cmake "
	    "lib/python3/dist-packages/multiverso/py.typed "
	    "lib/python3/dist-packages/multiverso/theano_ext/sharedvar.py "
	    "lib/python3/dist-packages/multiverso/theano_ext/lasagne_ext/param_manager.py && "
	    "grep -qx '.so man3/libmvbench.3' share/man/man3/mvb_init.3 && "
	    "ls lib/python3/dist-packages && cat lib/pkgconfig/libmvbench.pc",
	    folder);
	expect("mvbench.py\nmvbench_abi.py\nmvbench_layers.py\nprefix=/usr\n");
	ck_assert_ptr_null(strstr(printed, folder));
}

/* PAGES.md says what each line of the originals' pages does, and which program or test shows it. */
TEST(page_of_the_originals_names_programs_and_tests_that_exist)
{
	run(0,
	    "cd $MVBENCH_HOME && p=runtime/lib/PAGES.md && "
	    "for f in $(grep -o '`tests/[a-z/_]*[.][a-z]*`' $p | tr -d '`'); do echo $f; "
	    "[ -e $f ] || echo no $f; done >%s/files; "
	    "for t in $(sed -n 's/.*| `\\([a-z_]*\\)` |$/\\1/p' $p); do echo $t; "
	    "grep -rq \"^TEST($t[,)]\" tests/run || echo no $t; done >%s/tests; "
	    "grep -h '^no ' %s/files %s/tests; wc -l <%s/files; wc -l <%s/tests",
	    folder, folder, folder, folder, folder, folder);
	ck_assert_ptr_null(strstr(printed, "no "));
	char *at = printed;
	ck_assert_int_gt(strtol(at, &at, 10), 10);
	ck_assert_int_gt(strtol(at, &at, 10), 1);
}

CASE("programs");

/* The README of the library shows a whole program: this one, character by character. */
TEST(readme_example_runs)
{
	run(0, MPIRUN "3 tests/lib/example");
	expect("y = 3.00 x + 2.00; workers: 3");
	run(0, "awk '/^```$/{ on = 0 } on { print } /^```c$/{ on = 1 }' "
	       "$MVBENCH_HOME/runtime/lib/README.md | diff - $MVBENCH_HOME/tests/lib/example.c");
}
