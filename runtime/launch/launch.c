/*
 * launch.c - starts the workers of a run, and watches them: one worker in a child of this process,
 * several, and those of a hostfile, through mpirun. The watcher shares a status page (struct
 * status_page) with the workers. It shows progress from the page and learns there how the run
 * ended. Workers therefore print nothing; a worker's exit status matters only if the page has no
 * end of the run. The watcher detects failed ranks in two ways: from mpirun (mpirun.c), and from
 * the workers' processes (ranks.c).
 */
#include "runtime/config/config.h"
#include "runtime/config/hosts.h"
#include "runtime/launch/lab.h"
#include "runtime/launch/watcher.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netdb.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

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
	execvp(argv[0], (char *const *)argv);
	fprintf(stderr, OURS "cannot start %s: %s\n", argv[0], strerror(errno));
	_exit(127);
}

/* Does the name belong to an address of this machine? A socket can be bound only to these. */
static bool is_here(const char *name)
{
	struct addrinfo hints = {.ai_socktype = SOCK_DGRAM}, *all = NULL;
	bool here = false;
	if (getaddrinfo(name, NULL, &hints, &all) != 0)
		return false;
	for (struct addrinfo *a = all; a && !here; a = a->ai_next) {
		int fd AUTOCLOSED = socket(a->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		here = fd >= 0 && bind(fd, a->ai_addr, a->ai_addrlen) == 0;
	}
	freeaddrinfo(all);
	return here;
}

/* Replaces the names of this machine by its host name, the only one that mpirun knows of it. */
static void name_this_machine(const struct host_list *l, const char *name)
{
	for (size_t i = 0; i < l->n; i++)
		if (strcmp(l->host[i].name, name) != 0 && is_here(l->host[i].name)) {
			free(l->host[i].name);
			l->host[i].name = must(strdup(name));
		}
}

/* Writes the machines for mpirun's sequential mapper: one line for each rank. */
static char *write_hosts(struct watch *w)
{
	const struct config *c = w->config;
	struct host_list l;
	int *number AUTOFREE = must(calloc((size_t)ranks_of(c), sizeof *number));
	char *path =
		sentence("%s/mvbench-hosts-XXXXXX", w->folder[0] ? w->folder[0] : folder_for_now());
	int fd AUTOCLOSED = mkstemp(path);
	char *wrong = host_list_read(c->harness.hostfile, &l);
	if (!wrong)
		wrong = host_list_deal(&l, c, number);
	name_this_machine(&l, w->here);
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

/* Ranks on other machines get these variables: otherwise data, GPU switches and compiler options
 * would differ between the ranks of a run. */
static bool is_for_ranks(const char *variable)
{
	static const char *const start[] = {"MVBENCH_", "CC="};
	bool is = false;
	for (size_t i = 0; i < sizeof start / sizeof *start; i++)
		is |= strncmp(variable, start[i], strlen(start[i])) == 0;
	return is;
}

/* Are all ranks on this machine? Without --hostfile mpirun asks the scheduler for machines. */
static bool all_here(const struct watch *w)
{
	static const char *const machines[] = {"OMPI_MCA_orte_default_hostfile",
					       "SLURM_JOB_ID",
					       "PBS_JOBID",
					       "LSB_JOBID",
					       "PE_HOSTFILE",
					       "COBALT_JOBID"};
	for (size_t i = 0; !w->hosts && i < sizeof machines / sizeof *machines; i++)
		if (getenv(machines[i]))
			return false;
	for (int i = 0; w->hosts && i < w->ranks; i++)
		if (strcmp(w->rank[i].planned, w->here) != 0)
			return false;
	return true;
}

/* The user's own settings have precedence. */
static void stay_off_the_network(const struct watch *w)
{
	struct ifreq lo = {.ifr_name = "lo"};
	int fd AUTOCLOSED = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ranks_stay_off_the_network(w->ranks);
	if (ioctl(fd, SIOCGIFFLAGS, &lo) == 0 && lo.ifr_flags & IFF_UP && /* mpirun needs one */
	    !getenv("OMPI_MCA_oob_tcp_if_exclude"))
		setenv("OMPI_MCA_oob_tcp_if_include", "lo", 0);
}

/* Does not return: becomes mpirun, or the simulator, a program next to this one. With more compute
 * threads than cores, waiting ranks yield their core. */
static void exec_launcher(const struct watch *w)
{
	const struct config *c = w->config;
	char *self = program_path();
	const char *const simulator[] = {sentence("%s-sim", self), NULL};
	setenv(STATUS_VARIABLE, status_variable(w->page, w->page_path), 1);
	if (is_simulated(c))
		exec_words(w, simulator);
	const int64_t threads = c->run.workers * c->run.threads + c->run.servers;
	bool crowded = !w->hosts && threads > usable_cores();
	/* the threads of a bound rank share one core */
	bool unbound = crowded || c->run.threads > 1 || getenv("MVBENCH_UNBOUND");
	const char *const words[] = {"mpirun",
				     "-n",
				     sentence("%d", w->ranks),
				     "--bind-to",
				     unbound ? "none" : "core:overload-allowed",
				     "--oversubscribe"};
	const char *const there[] = {"--hostfile", w->hosts, "--map-by", "seq"};
	const char **front = NULL;
	size_t n = 0;
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		APPEND(front, n, words[i]);
	for (size_t i = 0; w->hosts && i < sizeof there / sizeof *there; i++)
		APPEND(front, n, there[i]);
	for (char **e = environ; *e; e++)
		if (is_for_ranks(*e)) {
			APPEND(front, n, "-x");
			APPEND(front, n, sentence("%.*s", (int)strcspn(*e, "="), *e));
		}
	APPEND(front, n, self);
	APPEND(front, n, NULL);
	if (geteuid() == 0) {
		setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
		setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
	}
	if (access("/sys/devices/system/cpu", F_OK) != 0)
		setenv("HWLOC_HIDE_ERRORS", "2", 0); /* otherwise every rank prints an error */
	for (size_t i = 0; !w->hosts && i < sizeof mpi_files / sizeof *mpi_files; i++)
		if (w->folder[mpi_files[i].shared])
			setenv(mpi_files[i].name, w->folder[mpi_files[i].shared], 0);
	if (all_here(w))
		stay_off_the_network(w);
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
	bool here = !config_needs_mpirun(w->config) || strcmp(w->rank[rank].host, w->here) == 0;
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

static void start_child(struct watch *w, const sigset_t *signals,
			int (*worker)(void *ctx, struct status_page *page), void *ctx)
{
	int pipe_fd[2] = {-1, -1};
	bool through_mpirun = config_needs_mpirun(w->config);
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
	for (int i = 0; i < FD_RANK + w->ranks; i++)
		w->fd[i] = (struct pollfd){.fd = -1, .events = POLLIN};
	w->fd[FD_SIGNAL].fd = signalfd(-1, signals, SFD_CLOEXEC | SFD_NONBLOCK);
	CHECK(w->fd[FD_SIGNAL].fd >= 0, "signalfd: %s", strerror(errno));
	if (through_mpirun) {
		CHECK(pipe2(pipe_fd, O_CLOEXEC) == 0, "pipe: %s", strerror(errno));
		fcntl(pipe_fd[0], F_SETFL, O_NONBLOCK);
		w->fd[FD_STDERR].fd = pipe_fd[0];
	}
	fflush(NULL);
	w->child = fork();
	if (w->child == 0) {
		be_child(signals);
		if (through_mpirun)
			dup2(pipe_fd[1], STDERR_FILENO);
		if (through_mpirun || is_simulated(w->config))
			exec_launcher(w);
		panic_to(w->page->reason, sizeof w->page->reason);
		pulse_of(status_pulse(w->page, 0));
		int status = worker(ctx, w->page);
		fflush(NULL);
		_exit(status);
	}
	CHECK(w->child > 0, "fork: %s", strerror(errno));
	if (through_mpirun)
		w->stall.launcher = w->child;
	else
		w->rank[0].pid = w->child;
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
static int watch_child(struct watch *w, const struct watcher *watcher)
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
	bool through_mpirun = config_needs_mpirun(c), killed = WIFSIGNALED(wait_status);
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

/* Prints the last words of a rank, unless they repeat the reason, as when all ranks find the same
 * error, or the run was killed, which `why` explains. */
static void print_last_words(const struct watch *w, bool ended)
{
	const char *words = w->parser.last_words;
	if (*words && (ended ? !strstr(words, w->page->reason) : w->interrupted))
		fprintf(stderr, OURS "%s\n", words);
}

/* The exit status of the run. *why (heap): what made it another than 0. */
static int status_of_run(struct watch *w, int wait_status, bool ended, char **why)
{
	if (ended) {
		*why = w->page->status ? sentence("%s", w->page->reason) : NULL;
		return w->page->status;
	}
	if (w->interrupted) {
		*why = sentence(INTERRUPTED);
		return EXIT_INTERRUPTED;
	}
	if (w->stalled) {
		*why = sentence("%s", w->stalled);
		return EXIT_FAILED;
	}
	return end_of_child(w, wait_status, why);
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
	gethostname(w.here, sizeof w.here - 1);
	bool alone = !config_needs_mpirun(c) && !is_simulated(c);
	sigset_t signals = end_signals(), before;
	sigaddset(&signals, SIGCHLD);
	sigaddset(&signals, SIGPIPE); /* nobody reads the progress any more: as Ctrl-C */
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
	start_child(&w, &signals, worker, ctx);
	int wait_status = watch_child(&w, watcher);
	end_watch(&w);
	unlink_page(&w);
	if (w.hosts)
		unlink(w.hosts);
	remove_folders(&w);
	sigprocmask(SIG_SETMASK, &before, NULL);
	page->interrupted = w.interrupted;
	bool ended = __atomic_load_n(&page->state, __ATOMIC_ACQUIRE) == STATUS_ENDED;
	print_last_words(&w, ended);
	int status = status_of_run(&w, wait_status, ended, why);
	free(w.rank);
	free(w.hosts);
	free(w.stalled);
	return status;
}
