/*
 * launch.c - starts the workers of a run, and watches them: one worker in a child of this process,
 * several through mpirun. The watching process shares a page with rank 0 (struct live), draws from
 * it, and learns there how the run ended; so workers print nothing, and a worker's exit status is
 * only asked when the page says that the run did not end by itself.
 */
#include "platform.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LIVE_VARIABLE "MVBENCH_LIVE"
enum { TICK_MS = 100, PATIENCE_S = 10 };

static size_t live_bytes(int64_t epochs)
{
	return sizeof(struct live) + (size_t)(epochs + 1) * sizeof(struct epoch_row);
}

static struct live *live_map(int fd, size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return p == MAP_FAILED ? NULL : p;
}

/* A page in a file that mpirun's children can find; path gets its name. */
static struct live *live_new(int64_t epochs, char path[PATH_MAX])
{
	static const char *const folders[] = {"/dev/shm", "/tmp", "."};
	struct live *l = NULL;
	for (size_t i = 0; !l && i < sizeof folders / sizeof *folders; i++) {
		snprintf(path, PATH_MAX, "%s/mvbench-live-XXXXXX", folders[i]);
		int fd = mkstemp(path);
		if (fd < 0)
			continue;
		errno = posix_fallocate(fd, 0, (off_t)live_bytes(epochs));
		if (errno == 0)
			l = live_map(fd, live_bytes(epochs));
		close(fd);
		if (!l)
			unlink(path);
	}
	if (l)
		l->epochs = epochs;
	return l;
}

void live_free(struct live *l)
{
	if (l)
		munmap(l, live_bytes(l->epochs));
}

void live_end(struct live *l, int status, const char *reason)
{
	snprintf(l->reason, sizeof l->reason, "%s", reason);
	l->status = status;
	__atomic_store_n(&l->state, LIVE_ENDED, __ATOMIC_RELEASE);
}

struct live *live_of_launcher(void)
{
	const char *path = getenv(LIVE_VARIABLE);
	struct live *l = NULL;
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	if (fd < 0)
		return NULL;
	off_t bytes = lseek(fd, 0, SEEK_END);
	if (bytes >= (off_t)sizeof *l)
		l = live_map(fd, (size_t)bytes);
	close(fd);
	return l;
}

/* Does not return. More ranks than cores: unbound, and waiting ranks give up the core. */
static void exec_mpirun(const struct config *c, const char *live_path)
{
	char self[PATH_MAX], ranks[24];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	self[n > 0 ? n : 0] = '\0';
	snprintf(ranks, sizeof ranks, "%d", (int)(c->run.workers + c->run.servers));
	bool crowded = !*c->run.hostfile && c->run.workers + c->run.servers > usable_cores();
	char **words = config_words(c);
	const char *argv[32];
	size_t k = 0, given = 0;
	const char *head[] = {"mpirun", "-n", ranks, "-x", LIVE_VARIABLE};
	for (size_t i = 0; i < sizeof head / sizeof *head; i++)
		argv[k++] = head[i];
	if (*c->run.hostfile) {
		argv[k++] = "--hostfile";
		argv[k++] = c->run.hostfile;
	} else {
		argv[k++] = "--oversubscribe";
	}
	argv[k++] = "--bind-to";
	argv[k++] = crowded || getenv("MVBENCH_UNBOUND") ? "none" : "core:overload-allowed";
	argv[k++] = self;
	argv[k++] = "run";
	while (words[given])
		given++;
	const char **all = must(calloc(k + given + 1, sizeof *all));
	memcpy(all, argv, k * sizeof *all);
	memcpy(all + k, words, given * sizeof *all);
	setenv(LIVE_VARIABLE, live_path, 1);
	if (geteuid() == 0) {
		setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
		setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
	}
	if (crowded)
		setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
	execvp("mpirun", (char *const *)all);
	fprintf(stderr, "mvbench: cannot start mpirun: %s\n", strerror(errno));
	_exit(127);
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

/* Of a child that ended without the last words of its run. */
static int end_of_child(const struct config *c, const struct live *live, int wait_status,
			bool through_mpirun, char **why)
{
	int status = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 0;
	int signal = WIFSIGNALED(wait_status)                                ? WTERMSIG(wait_status)
		     : through_mpirun && status > 128 && status < 128 + NSIG ? status - 128
									     : 0;
	if (through_mpirun && live->state == LIVE_STARTING && !WIFSIGNALED(wait_status)) {
		*why = sentence("mpirun could not start the workers and says why above%s%s",
				*c->run.hostfile ? "; look at --hostfile=" : "", c->run.hostfile);
		return EXIT_USER;
	}
	if (signal)
		*why = sentence("a worker was killed by signal %d (%s)", signal, strsignal(signal));
	else
		*why = sentence("a worker ended with status %d before its run did", status);
	return EXIT_FAILED;
}

static int watch(pid_t child, const sigset_t *signals, struct live *live,
		 const struct watcher *watcher, bool *interrupted)
{
	struct timespec tick = {.tv_nsec = TICK_MS * 1000000};
	nsec patience = 0;
	int wait_status = 0;
	for (;;) {
		int sig = sigtimedwait(signals, NULL, &tick);
		if (sig > 0 && sig != SIGCHLD) {
			kill(-child, *interrupted ? SIGKILL : SIGTERM);
			*interrupted = true;
			patience = clock_now() + (nsec)PATIENCE_S * 1000000000;
		}
		if (patience && clock_now() > patience)
			kill(-child, SIGKILL);
		pid_t ended = waitpid(child, &wait_status, WNOHANG);
		if (watcher && watcher->tick)
			watcher->tick(watcher->self, live);
		if (ended == child || (ended < 0 && errno == ECHILD))
			return wait_status;
	}
}

int launch(const struct config *c, int (*worker)(void *ctx, struct live *live), void *ctx,
	   const struct watcher *watcher, struct live **live_out, char **why)
{
	bool through_mpirun = c->run.workers + c->run.servers > 1, interrupted = false;
	char path[PATH_MAX];
	struct live *live = live_new(c->run.epochs, path);
	sigset_t signals, before;
	*why = NULL;
	*live_out = live;
	if (!live) {
		*why = sentence(
			"cannot make a small file in /dev/shm, /tmp or this folder: %s; free "
			"some space",
			strerror(errno));
		return EXIT_USER;
	}
	if (!through_mpirun)
		unlink(path); /* the child inherits the page */
	sigemptyset(&signals);
	sigaddset(&signals, SIGCHLD);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGHUP);
	sigprocmask(SIG_BLOCK, &signals, &before);
	fflush(NULL);
	pid_t child = fork();
	if (child == 0) {
		be_child(&signals);
		if (through_mpirun)
			exec_mpirun(c, path);
		int status = worker(ctx, live);
		fflush(NULL);
		_exit(status);
	}
	CHECK(child > 0, "fork: %s", strerror(errno));
	setpgid(child, child); /* whoever comes first: a signal may come before the child has run */
	int wait_status = watch(child, &signals, live, watcher, &interrupted);
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (through_mpirun)
		unlink(path);
	if (__atomic_load_n(&live->state, __ATOMIC_ACQUIRE) == LIVE_ENDED) {
		if (live->status)
			*why = sentence("%s", live->reason);
		return live->status;
	}
	if (interrupted) {
		*why = sentence(INTERRUPTED);
		return EXIT_INTERRUPTED;
	}
	return end_of_child(c, live, wait_status, through_mpirun, why);
}
