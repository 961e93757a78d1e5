/*
 * launch.c - starts the workers of a run, and watches them: one worker in a child of this process,
 * several through mpirun. The watcher shares a status page (struct status_page) with the workers.
 * It shows progress from the page and learns there how the run ended. Workers therefore print
 * nothing; a worker's exit status matters only if the page has no end of the run. The watcher
 * detects failed ranks in two ways: from mpirun (mpirun.c), and from the workers' processes
 * (ranks.c).
 */
#include "runtime/launch/lab.h"
#include "runtime/launch/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- The start ----------------------------------------------------------- */

/* Does not return. front: the words before the command, the program first; ends at NULL. */
static void exec_words(const struct watch *w, const char *const *front)
{
	const char *const *const part[] = {front, w->command,
					   (const char *const *)config_words(w->config)};
	const char **argv = NULL;
	size_t n = 0;
	for (size_t i = 0; i < sizeof part / sizeof *part; i++)
		for (const char *const *word = part[i]; *word; word++)
			APPEND(argv, n, *word);
	APPEND(argv, n, NULL);
	char *variable = status_variable(w->page, w->page_path);
	setenv(STATUS_VARIABLE, variable, 1);
	execvp(argv[0], (char *const *)argv);
	fprintf(stderr, OURS "cannot start %s: %s\n", argv[0], strerror(errno));
	_exit(127);
}

/* Writes the machines for mpirun's sequential mapper: one line for each rank. launch removes the
 * file. */
static char *write_hosts(struct watch *w)
{
	const struct config *c = w->config;
	struct host_list l;
	int *number AUTOFREE = must(calloc((size_t)ranks_of(c), sizeof *number));
	char *path = sentence("%s/mvbench-hosts-XXXXXX", folder_for_now());
	int fd AUTOCLOSED = mkstemp(path);
	char *wrong = host_list_read(c->harness.hostfile, &l);
	if (!wrong)
		wrong = host_list_deal(&l, c, number);
	for (int i = 0; !wrong && fd >= 0 && i < w->ranks; i++) {
		dprintf(fd, "%s\n", l.host[number[i]].name);
		snprintf(w->rank[i].planned, HOST, "%s", l.host[number[i]].name);
	}
	free(wrong); /* the plan found no error; after a change mpirun reports it */
	host_list_fini(&l);
	return path;
}

/* Files that remain if Open MPI or mvbench is killed are in folders that the next run removes. */
static const struct {
	const char *name;
	bool shared;
} mpi_files[] = {{"OMPI_MCA_orte_tmpdir_base", false},
		 {"OMPI_MCA_btl_vader_backing_directory", true},
		 {"OMPI_MCA_osc_sm_backing_directory", true},
		 {"OMPI_MCA_osc_rdma_backing_directory", true}};

static void make_folders(struct watch *w)
{
	const char *const parent[] = {folder_for_now(), "/dev/shm"};
	for (int i = 0; i < 2; i++)
		free(folder_locked(parent[i], "run", &w->folder[i])); /* may fail: no own folder */
}

static void remove_folders(struct watch *w)
{
	for (int i = 0; i < 2; i++) {
		if (w->folder[i])
			folder_remove(w->folder[i]);
		free(w->folder[i]);
	}
}

/* Does not return: becomes mpirun, or the simulator, a program next to this one. With more ranks
 * than cores, ranks are not bound, and waiting ranks yield their core. */
static void exec_launcher(const struct watch *w)
{
	const struct config *c = w->config;
	char *self = program_path(), ranks[24];
	const char *const simulator[] = {sentence("%s-sim", self), NULL};
	if (is_simulated(c))
		exec_words(w, simulator);
	bool crowded = !w->hosts && w->ranks > usable_cores();
	bool unbound = crowded || getenv("MVBENCH_UNBOUND");
	snprintf(ranks, sizeof ranks, "%d", w->ranks);
	const char *front[16] = {"mpirun",
				 "-n",
				 ranks,
				 "-x",
				 STATUS_VARIABLE,
				 "--bind-to",
				 unbound ? "none" : "core:overload-allowed",
				 "--oversubscribe"};
	const char *const there[] = {"--hostfile", w->hosts, "--map-by", "seq"};
	size_t n = 8;
	for (size_t i = 0; w->hosts && i < sizeof there / sizeof *there; i++)
		front[n++] = there[i];
	front[n++] = self;
	if (geteuid() == 0) {
		setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
		setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
	}
	if (access("/sys/devices/system/cpu", F_OK) != 0)
		setenv("HWLOC_HIDE_ERRORS", "2", 0); /* otherwise every rank prints an error */
	for (size_t i = 0; !w->hosts && i < sizeof mpi_files / sizeof *mpi_files; i++)
		if (w->folder[mpi_files[i].shared])
			setenv(mpi_files[i].name, w->folder[mpi_files[i].shared], 0);
	if (crowded)
		setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
	/* mpirun and its daemons on other machines notice a dead connection within half a minute,
	 * and end */
	setenv("OMPI_MCA_oob_tcp_keepalive_time", "10", 0);
	setenv("OMPI_MCA_oob_tcp_keepalive_intvl", "5", 0);
	setenv("OMPI_MCA_oob_tcp_keepalive_probes", "3", 0);
	exec_words(w, front);
}

/* Prepares the child: its own process group, because a terminal's Ctrl-C must reach only the
 * watcher; it ends with the watcher; no terminal input. */
static void be_child(const sigset_t *signals)
{
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	sigprocmask(SIG_UNBLOCK, signals, NULL);
	int null = open("/dev/null", O_RDONLY);
	if (null >= 0) {
		dup2(null, STDIN_FILENO);
		close(null);
	}
}

static pid_t process_of(const void *self, int rank)
{
	const struct watch *w = self;
	bool here = w->ranks == 1 || strcmp(w->rank[rank].host, w->here) == 0;
	return here ? w->rank[rank].pid : *w->rank[rank].host ? PROCESS_FAR : PROCESS_UNKNOWN;
}

static void end_stalled(void *self, char *why)
{
	struct watch *w = self;
	w->stalled = why;
	w->given_up = true;
	kill(-w->child, SIGTERM);
	kill(-w->child, SIGCONT);
	ranks_kill(w);
	w->patience = clock_now() + (nsec)LAST_S * 1000000000;
}

static void start(struct watch *w, const sigset_t *signals,
		  int (*worker)(void *ctx, struct status_page *page), void *ctx)
{
	int pipe_fd[2] = {-1, -1};
	w->fd = must(calloc((size_t)(FD_RANK + w->ranks), sizeof *w->fd));
	w->stall = (struct stall){.ranks = w->ranks,
				  .pulse = status_pulse(w->page, 0),
				  .timeout_s = w->config->harness.stall_timeout,
				  .setting = "--stall-timeout",
				  .process = process_of,
				  .name = ranks_name,
				  .end = end_stalled,
				  .self = w};
	stall_open(&w->stall);
	if (is_simulated(w->config)) /* its virtual time has no pulse: CPU use is progress */
		status_pulse(w->page, 0)->phase = PHASE_LOADS;
	gethostname(w->here, sizeof w->here - 1);
	for (int i = 0; i < FD_RANK + w->ranks; i++)
		w->fd[i] = (struct pollfd){.fd = -1, .events = POLLIN};
	w->fd[FD_SIGNAL].fd = signalfd(-1, signals, SFD_CLOEXEC | SFD_NONBLOCK);
	CHECK(w->fd[FD_SIGNAL].fd >= 0, "signalfd: %s", strerror(errno));
	if (w->ranks > 1) {
		CHECK(pipe2(pipe_fd, O_CLOEXEC) == 0, "pipe: %s", strerror(errno));
		fcntl(pipe_fd[0], F_SETFL, O_NONBLOCK);
		w->fd[FD_STDERR].fd = pipe_fd[0];
	}
	fflush(NULL);
	w->child = fork();
	if (w->child == 0) {
		be_child(signals);
		if (w->ranks > 1)
			dup2(pipe_fd[1], STDERR_FILENO);
		if (w->ranks > 1 || is_simulated(w->config))
			exec_launcher(w);
		panic_to(w->page->reason, sizeof w->page->reason);
		pulse_of(status_pulse(w->page, 0));
		int status = worker(ctx, w->page);
		fflush(NULL);
		_exit(status);
	}
	CHECK(w->child > 0, "fork: %s", strerror(errno));
	if (w->ranks == 1)
		w->rank[0].pid = w->child;
	else
		w->stall.launcher = w->child;
	setpgid(w->child, w->child); /* here too, because a signal may come before the child runs */
	if (pipe_fd[1] >= 0)
		close(pipe_fd[1]);
}

/* ---- The watch ----------------------------------------------------------- */

static void handle_signals(struct watch *w)
{
	struct signalfd_siginfo info;
	while (read(w->fd[FD_SIGNAL].fd, &info, sizeof info) == sizeof info) {
		if (info.ssi_signo == SIGCHLD)
			continue;
		kill(-w->child, w->interrupted ? SIGKILL : SIGTERM);
		w->interrupted = true;
		w->patience = clock_now() + (nsec)PATIENCE_S * 1000000000;
	}
}

static void keep_time(struct watch *w)
{
	nsec now = clock_now();
	if (w->failed_at && !w->given_up && now > w->failed_at + (nsec)GRACE_S * 1000000000) {
		w->given_up = true;
		if (w->vanished == 1)
			w->first = w->last;
		kill(-w->child, SIGTERM);
		ranks_kill(w);
		if (!w->patience)
			w->patience = now + (nsec)LAST_S * 1000000000;
	}
	if (w->patience && now > w->patience)
		kill(-w->child, SIGKILL);
}

/* Early, because a killed watcher must not leave a page. */
static void unlink_page(struct watch *w)
{
	if (*w->page_path)
		unlink(w->page_path);
	*w->page_path = '\0';
}

/* Until the child has ended; returns its wait status. */
static int watch(struct watch *w, const struct watcher *watcher)
{
	for (;;) {
		int wait_status = 0;
		if (poll(w->fd, (nfds_t)(FD_RANK + w->ranks), TICK_MS) > 0) {
			handle_signals(w);
			if (w->fd[FD_STDERR].fd >= 0)
				mpirun_listen(w);
			ranks_poll(w);
		}
		keep_time(w);
		if (w->page->state != STATUS_STARTING)
			unlink_page(w); /* all ranks of this machine have opened it */
		stall_poll(&w->stall, w->interrupted || w->failed_at);
		pid_t child = waitpid(w->child, &wait_status, WNOHANG);
		bool ended = child == w->child || (child < 0 && errno == ECHILD);
		if (watcher && watcher->tick)
			watcher->tick(watcher->self, w->page);
		if (ended)
			return wait_status;
	}
}

static void end_watch(struct watch *w)
{
	if (w->fd[FD_STDERR].fd >= 0)
		mpirun_listen(w);
	mpirun_release(&w->parser);
	ranks_kill(w); /* ranks remain only if mpirun was killed */
	for (int i = 0; i < FD_RANK + w->ranks; i++)
		if (w->fd[i].fd >= 0)
			close(w->fd[i].fd);
	free(w->fd);
	stall_close(&w->stall);
}

/* ---- The end ------------------------------------------------------------- */

/* The status and reason if the child ended without a final state in the page. */
static int end_of_child(const struct watch *w, int wait_status, char **why)
{
	const struct config *c = w->config;
	const struct rank_failure *reported = &w->rank_failure;
	bool through_mpirun = w->ranks > 1, killed = WIFSIGNALED(wait_status);
	int rank = ranks_first_failed(w),
	    status = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 0;
	int signal = killed                                                  ? WTERMSIG(wait_status)
		     : through_mpirun && status > 128 && status < 128 + NSIG ? status - 128
									     : 0;
	const char *last_words = through_mpirun ? w->parser.last_words : w->page->reason;
	if (*last_words) {
		*why = sentence("%s", last_words);
		return EXIT_FAILED;
	}
	if (through_mpirun && rank < 0 && !w->heard && !w->given_up &&
	    w->page->state == STATUS_STARTING && !killed) {
		*why = sentence(
			"mpirun could not start the workers%s%s: see its messages above%s%s",
			*w->not_started ? " on " : "", w->not_started,
			*c->harness.hostfile ? "; look at --hostfile=" : "", c->harness.hostfile);
		return EXIT_USER;
	}
	if (*w->lost && reported->rank < 0) {
		*why = sentence("the connection to %s was lost", w->lost);
		return EXIT_FAILED;
	}
	if (reported->signal > 0 || reported->status >= 0) {
		signal = reported->signal > 0 ? reported->signal : 0;
		status = reported->status;
	}
	bool mpirun_itself = through_mpirun && killed && reported->rank < 0;
	char *name AUTOFREE =
		mpirun_itself && !w->given_up ? sentence("mpirun") : ranks_name(w, rank);
	if (w->given_up && reported->rank < 0)
		*why = sentence("%s ended before the run did; mpirun did not report it", name);
	else if (signal)
		*why = sentence("%s was killed by signal %d (%s)", name, signal, strsignal(signal));
	else
		*why = sentence("%s ended with status %d before the run did", name, status);
	return EXIT_FAILED;
}

int launch(const struct config *c, const char *const *command,
	   int (*worker)(void *ctx, struct status_page *page), void *ctx,
	   const struct watcher *watcher, struct status_page **page_out, char **why)
{
	int ranks = is_simulated(c) ? 1 : ranks_of(c);
	*page_out = NULL;
	*why = *c->harness.lab_rate && !is_simulated(c) ? lab_rate_all(c->harness.lab_rate) : NULL;
	if (*why)
		return EXIT_USER;
	struct watch w = {.config = c,
			  .command = command,
			  .ranks = ranks,
			  .rank_failure = {.rank = -1, .signal = -1, .status = -1},
			  .first = -1};
	bool alone = ranks == 1 && !is_simulated(c);
	sigset_t signals = end_signals(), before;
	int status;
	sigaddset(&signals, SIGCHLD);
	sigprocmask(SIG_BLOCK, &signals, &before); /* while there are files that launch removes */
	if (!alone)
		make_folders(&w);
	struct status_page *page = status_new(c->run.epochs, ranks, w.folder[1], w.page_path);
	w.page = page;
	signal(SIGCHLD, SIG_DFL); /* a parent may have ignored it; waitpid would then fail */
	*page_out = page;
	if (!page) {
		*why = sentence(
			"cannot make a small file in /dev/shm, /tmp or this folder: %s; free "
			"some space",
			strerror(errno));
		remove_folders(&w);
		sigprocmask(SIG_SETMASK, &before, NULL);
		return EXIT_USER;
	}
	w.rank = must(calloc((size_t)ranks, sizeof *w.rank));
	if (alone)
		unlink_page(&w); /* the child has it */
	else if (!is_simulated(c) && *c->harness.hostfile)
		w.hosts = write_hosts(&w);
	start(&w, &signals, worker, ctx);
	int wait_status = watch(&w, watcher);
	end_watch(&w);
	unlink_page(&w);
	remove_folders(&w);
	if (w.hosts)
		unlink(w.hosts);
	sigprocmask(SIG_SETMASK, &before, NULL);
	page->interrupted = w.interrupted;
	bool ended = __atomic_load_n(&page->state, __ATOMIC_ACQUIRE) == STATUS_ENDED;
	/* not if it repeats the reason, as when all ranks find the same error */
	if (*w.parser.last_words && (ended || w.interrupted) &&
	    !(ended && strstr(w.parser.last_words, page->reason)))
		fprintf(stderr, OURS "%s\n", w.parser.last_words);
	if (ended) {
		status = page->status;
		if (status)
			*why = sentence("%s", page->reason);
	} else if (w.interrupted) {
		status = EXIT_INTERRUPTED;
		*why = sentence(INTERRUPTED);
	} else if (w.stalled) {
		status = EXIT_FAILED;
		*why = sentence("%s", w.stalled);
	} else {
		status = end_of_child(&w, wait_status, why);
	}
	free(w.rank);
	free(w.hosts);
	free(w.stalled);
	return status;
}
