/*
 * launch.c - starts the workers of a run, and watches them: one worker in a child of this process,
 * several through mpirun. The watching process shares a status page with rank 0 (struct
 * status_page), draws from it, and learns there how the run ended; so workers print nothing, and a
 * worker's exit status is only asked when the page says that the run did not end by itself.
 * Who died comes from two sides: from mpirun (mpirun.c), and from the workers (ranks.c).
 */
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

/* After Ctrl-C the workers have PATIENCE_S to end. After a worker's death mpirun has GRACE_S to end
 * the others (it takes one or two), and LAST_S more when told to. */
enum { TICK_MS = 100, PATIENCE_S = 10, GRACE_S = 5, LAST_S = 2 };

/* ---- The start ----------------------------------------------------------- */

/* Does not return. The words before the command's own begin with the program. */
static void exec_words(const struct watch *w, const char *const *front, size_t n,
		       const char *page_path)
{
	char **words = config_words(w->config);
	size_t given = 0;
	while (words[given])
		given++;
	const char **argv = must(calloc(n + given + 2, sizeof *argv));
	memcpy(argv, front, n * sizeof *argv);
	argv[n] = w->command;
	memcpy(argv + n + 1, words, given * sizeof *argv);
	setenv(STATUS_VARIABLE, page_path, 1);
	execvp(argv[0], (char *const *)argv);
	fprintf(stderr, OURS "cannot start %s: %s\n", argv[0], strerror(errno));
	_exit(127);
}

/* Does not return: mpirun, or the simulator, which is the program beside this one. More ranks than
 * cores: unbound, and waiting ranks give up the core. */
static void exec_launcher(const struct watch *w, const char *page_path)
{
	const struct config *c = w->config;
	char *self = program_path(), ranks[24];
	const char *simulator = sentence("%s-sim", self), *hostfile = c->own.hostfile;
	if (is_simulated(c))
		exec_words(w, &simulator, 1, page_path);
	bool crowded = !*hostfile && w->ranks > usable_cores();
	bool unbound = crowded || getenv("MVBENCH_UNBOUND");
	snprintf(ranks, sizeof ranks, "%d", w->ranks);
	const char *const here[] = {"mpirun",
				    "-n",
				    ranks,
				    "-x",
				    STATUS_VARIABLE,
				    "--bind-to",
				    unbound ? "none" : "core:overload-allowed",
				    *hostfile ? "--hostfile" : "--oversubscribe",
				    *hostfile ? hostfile : self,
				    self};
	if (geteuid() == 0) {
		setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
		setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
	}
	if (access("/sys/devices/system/cpu", F_OK) != 0)
		setenv("HWLOC_HIDE_ERRORS", "2", 0); /* else every rank says that it is missing */
	if (crowded)
		setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
	exec_words(w, here, sizeof here / sizeof *here - !*hostfile, page_path);
}

/* What a child does first: its own process group, so that a terminal's Ctrl-C comes to the watcher
 * alone; an end when the watcher ends; no terminal input. */
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

static void start(struct watch *w, const sigset_t *signals, const char *page_path,
		  int (*worker)(void *ctx, struct status_page *page), void *ctx)
{
	int pipe_fd[2] = {-1, -1};
	w->fd = must(calloc((size_t)(FD_RANK + w->ranks), sizeof *w->fd));
	w->host = must(calloc((size_t)w->ranks, sizeof *w->host));
	host_name(w->here);
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
			exec_launcher(w, page_path);
		panic_to(w->page->reason, sizeof w->page->reason);
		int status = worker(ctx, w->page);
		fflush(NULL);
		_exit(status);
	}
	CHECK(w->child > 0, "fork: %s", strerror(errno));
	setpgid(w->child, w->child); /* whoever comes first: a signal may come before it has run */
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
	if (w->died && !w->given_up && now > w->died + (nsec)GRACE_S * 1000000000) {
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

/* Until the child has ended; returns its wait status. */
static int watch(struct watch *w, const struct watcher *watcher)
{
	for (;;) {
		int wait_status = 0;
		if (poll(w->fd, (nfds_t)(FD_RANK + w->ranks), TICK_MS) > 0) {
			handle_signals(w);
			if (w->fd[FD_STDERR].fd >= 0)
				mpirun_listen(w);
			ranks_look(w);
		}
		keep_time(w);
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
	ranks_kill(w); /* none is left, unless mpirun was killed */
	for (int i = 0; i < FD_RANK + w->ranks; i++)
		if (w->fd[i].fd >= 0)
			close(w->fd[i].fd);
	free(w->fd);
}

/* ---- The end ------------------------------------------------------------- */

/* Of a child that ended without the last words of its run. */
static int end_of_child(const struct watch *w, int wait_status, char **why)
{
	const struct config *c = w->config;
	const struct death *told = &w->death;
	bool through_mpirun = w->ranks > 1, killed = WIFSIGNALED(wait_status);
	int rank = ranks_dead(w), status = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 0;
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
		*why = sentence("mpirun could not start the workers and says why above%s%s",
				*c->own.hostfile ? "; look at --hostfile=" : "", c->own.hostfile);
		return EXIT_USER;
	}
	if (told->signal > 0 || told->status >= 0) {
		signal = told->signal > 0 ? told->signal : 0;
		status = told->status;
	}
	bool mpirun_itself = through_mpirun && killed && told->rank < 0;
	char *who AUTOFREE =
		mpirun_itself && !w->given_up ? sentence("mpirun") : ranks_name(w, rank);
	if (w->given_up && told->rank < 0)
		*why = sentence("%s ended before its run did, unnoticed by mpirun", who);
	else if (signal)
		*why = sentence("%s was killed by signal %d (%s)", who, signal, strsignal(signal));
	else
		*why = sentence("%s ended with status %d before its run did", who, status);
	return EXIT_FAILED;
}

int launch(const struct config *c, const char *command,
	   int (*worker)(void *ctx, struct status_page *page), void *ctx,
	   const struct watcher *watcher, struct status_page **page_out, char **why)
{
	char path[PATH_MAX];
	struct status_page *page = status_new(c->run.epochs, path);
	struct watch w = {.config = c,
			  .command = command,
			  .page = page,
			  .ranks = is_simulated(c) ? 1 : ranks_of(c),
			  .death = {.rank = -1, .signal = -1, .status = -1},
			  .first = -1};
	sigset_t signals, before;
	int status;
	signal(SIGCHLD, SIG_DFL); /* ignored, as a parent may leave it, the child's end is lost */
	*why = NULL;
	*page_out = page;
	if (!page) {
		*why = sentence(
			"cannot make a small file in /dev/shm, /tmp or this folder: %s; free "
			"some space",
			strerror(errno));
		return EXIT_USER;
	}
	bool inherited = w.ranks == 1 && !is_simulated(c);
	if (inherited)
		unlink(path);
	sigemptyset(&signals);
	sigaddset(&signals, SIGCHLD);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGHUP);
	sigprocmask(SIG_BLOCK, &signals, &before);
	start(&w, &signals, path, worker, ctx);
	int wait_status = watch(&w, watcher);
	end_watch(&w);
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (!inherited)
		unlink(path);
	page->interrupted = w.interrupted;
	bool ended = __atomic_load_n(&page->state, __ATOMIC_ACQUIRE) == STATUS_ENDED;
	if (*w.parser.last_words && (ended || w.interrupted))
		fprintf(stderr, OURS "%s\n", w.parser.last_words); /* not the reason */
	if (ended) {
		status = page->status;
		if (status)
			*why = sentence("%s", page->reason);
	} else if (w.interrupted) {
		status = EXIT_INTERRUPTED;
		*why = sentence(INTERRUPTED);
	} else {
		status = end_of_child(&w, wait_status, why);
	}
	free(w.host);
	return status;
}
