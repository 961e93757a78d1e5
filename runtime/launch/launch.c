/*
 * launch.c - starts the workers of a run, and watches them: one worker in a child of this process,
 * several through mpirun. The watching process shares a status page with rank 0 (struct
 * status_page), draws from it, and learns there how the run ended; so workers print nothing, and a
 * worker's exit status is only asked when the page says that the run did not end by itself.
 *
 * Who died comes from two sides. mpirun names the first rank that died, on any machine, in banners
 * on its stderr; the watcher reads them there and passes on all else. But mpirun does not always
 * say it, and a worker that leaves before MPI_Init can make it wait forever. So every worker
 * introduces itself with a line on its stderr, and the watcher keeps an eye (a pidfd) on those of
 * this machine.
 */
#include "runtime/launch/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define INTRODUCTION "\036mvbench" /* rank, host, pid follow */
#define OURS         "mvbench: "   /* what we print begins so */
/* After Ctrl-C the workers have PATIENCE_S to end. After a worker's death mpirun has GRACE_S to end
 * the others (it takes one or two), and LAST_S more when told to. */
enum { TICK_MS = 100, PATIENCE_S = 10, GRACE_S = 5, LAST_S = 2 };
enum { HOST = 256, HELD = 8192, RULE = 70, MPIRUN_WORDS = 16 /* at most, before a run's own */ };

/* ---- Who is who ---------------------------------------------------------- */

/* All workers are one process then. */
static bool is_simulated(const struct config *c)
{
	return strcmp(c->run.platform, "sim") == 0;
}

static int ranks_of(const struct config *c)
{
	return (int)(c->run.workers + c->run.servers);
}

static void host_name(char host[HOST])
{
	memset(host, 0, HOST);
	gethostname(host, HOST - 1);
}

/* From the heap. rank -1 and host "": not known. */
static char *name_of(const struct config *c, int rank, const char *host)
{
	const char *on = *host ? " on " : "";
	int server = rank - (int)c->run.workers;
	if (is_simulated(c))
		return sentence("the simulator%s%s", on, host);
	if (rank < 0)
		return sentence("a worker%s%s", on, host);
	if (server >= 0)
		return sentence("server %d (rank %d)%s%s", server, rank, on, host);
	return sentence("worker %d%s%s", rank, on, host);
}

void worker_introduce(const struct config *c)
{
	int rank = rank_of_launcher();
	char host[HOST];
	if (rank < 0 || ranks_of(c) == 1)
		return;
	host_name(host);
	panic_as(name_of(c, rank, host));
	if (getenv(STATUS_VARIABLE)) /* a watcher reads it, and does not show it */
		dprintf(STDERR_FILENO, INTRODUCTION " %d %s %d\n", rank, host, (int)getpid());
}

/* ---- The watcher's knowledge --------------------------------------------- */

struct death { /* of the first rank that died, as mpirun tells it; -1, "": it does not */
	int rank, signal, status;
	char host[HOST];
};

enum { FD_SIGNAL, FD_STDERR, FD_RANK }; /* then one for each rank */

/* What reads mpirun's stderr. */
struct stderr_parser {
	char held[HELD + 1]; /* not passed on yet; ends at a NUL */
	size_t nheld, line;  /* line: where the last line begins in held */
	bool passing;        /* the rest of a line of which the start was passed on */
	enum { NO_BANNER, BANNER_RULE, BANNER_TEXT } banner; /* what held begins with */
	char last_words[512]; /* of the first worker that could say what is wrong with it */
};

struct watch {
	const struct config *config;
	const char *command;
	struct status_page *page;
	pid_t child; /* mpirun, or the only worker */
	int ranks;
	struct pollfd *fd;  /* [FD_RANK + ranks]; a rank's is a pidfd, or -1 */
	char (*host)[HOST]; /* [ranks]; "" before the introduction */
	char here[HOST];    /* this machine */

	struct death death;
	nsec died;                /* when the first death was seen, 0 = none yet */
	int introduced, vanished; /* ranks; vanished: of this machine, ended */
	int first;                /* the one that ended while all others lived; -1 = not known */
	int last;                 /* the one that ended last */
	bool heard;               /* mpirun has said that a worker died, if not which */
	bool interrupted;         /* from outside */
	bool given_up;            /* mpirun did not end by itself */
	nsec patience;            /* until when mpirun may live, 0 = without end */
	struct stderr_parser parser;
};

static void see_death(struct watch *w)
{
	if (!w->died)
		w->died = clock_now();
}

/* ---- What mpirun says ---------------------------------------------------- */

/* -1: those words are not there. */
static int number_after(const char *text, const char *words)
{
	const char *at = strstr(text, words);
	return at ? atoi(at + strlen(words)) : -1;
}

/* "[[12345,1],3]", "[12345,3]": its last number. */
static int rank_after(const char *text, const char *words)
{
	const char *at = strstr(text, words);
	if (!at)
		return -1;
	size_t n = strcspn(at, "\n");
	while (n > 0 && at[n] != ',')
		n--;
	return n > 0 ? atoi(at + n + 1) : -1;
}

static void read_death(struct watch *w, const char *text)
{
	struct death d = {.signal = number_after(text, "exited on signal "),
			  .status = number_after(text, "Exit code:")};
	const char *node = strstr(text, "node ");
	d.rank = number_after(text, "process rank ");
	if (d.rank < 0)
		d.rank = rank_after(text, "Process name: ");
	if (d.rank < 0 && strstr(text, "in communicator MPI_COMM_WORLD"))
		d.rank = number_after(text, "invoked on rank ");
	if (d.rank < 0)
		d.rank = rank_after(text, "*** reported by process ");
	if (strstr(text, "exiting improperly"))
		d.status = 0;
	w->heard = true;
	see_death(w);
	if (d.rank < 0 || d.rank >= w->ranks || w->death.rank >= 0)
		return;
	if (node)
		snprintf(d.host, sizeof d.host, "%.*s", (int)strcspn(node + 5, " \n"), node + 5);
	w->death = d;
}

/* Does a banner about a death begin so? */
static bool tells_death(const char *line)
{
	static const char *const words[] = {
		"Primary job ", " noticed that process rank ", " has exited due to process rank ",
		" detected that one or more processes exited", "MPI_ABORT was invoked on rank "};
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (strstr(line, words[i]))
			return true;
	return false;
}

static bool read_introduction(struct watch *w, const char *line)
{
	char host[HOST];
	int rank, pid;
	if (sscanf(line, INTRODUCTION " %d %255s %d", &rank, host, &pid) != 3 || rank < 0 ||
	    rank >= w->ranks)
		return false;
	struct pollfd *fd = &w->fd[FD_RANK + rank];
	w->introduced += !*w->host[rank];
	memcpy(w->host[rank], host, HOST);
	if (strcmp(host, w->here) == 0 && fd->fd < 0) {
		fd->fd = pidfd_open(pid, 0);
		if (fd->fd < 0 && errno == ESRCH) {
			w->vanished++;
			w->last = rank;
		}
	}
	return true;
}

/* Of panic.c: the reason of the run's end, and shown as that. */
static bool read_last_words(struct watch *w, const char *line)
{
	char *said = w->parser.last_words;
	if (*said || strncmp(line, OURS, strlen(OURS)) != 0 ||
	    !(strstr(line, ": " BUG ": ") || strstr(line, ": " FAILURE ": ") ||
	      strstr(line, ": out of memory\n")))
		return false;
	line += strlen(OURS);
	snprintf(said, sizeof w->parser.last_words, "%.*s", (int)strcspn(line, "\n"), line);
	see_death(w);
	return true;
}

static void pass_on(const char *text, size_t n)
{
	while (n > 0) {
		ssize_t done = write(STDERR_FILENO, text, n);
		if (done < 0 && errno != EINTR)
			return;
		text += done > 0 ? done : 0;
		n -= done > 0 ? (size_t)done : 0;
	}
}

static void hold_back(struct stderr_parser *e, size_t n)
{
	e->nheld = e->line = n;
	e->held[n] = '\0';
	e->banner = NO_BANNER;
}

static void pass_on_held(struct stderr_parser *e)
{
	pass_on(e->held, e->nheld);
	hold_back(e, 0);
}

static void end_line(struct watch *w)
{
	struct stderr_parser *e = &w->parser;
	const char *line = e->held + e->line;
	bool rule = strspn(line, "-") >= RULE && strspn(line, "-\n") == strlen(line);
	if (read_introduction(w, line)) {
		e->nheld = e->line;
		e->held[e->nheld] = '\0';
	} else if (rule && e->banner == BANNER_TEXT) {
		read_death(w, e->held);
		hold_back(e, 0);
	} else if (rule) {
		size_t n = e->nheld - e->line;
		pass_on(e->held, e->line);
		memmove(e->held, line, n);
		hold_back(e, n);
		e->banner = BANNER_RULE;
	} else if (e->banner == BANNER_TEXT || (e->banner == BANNER_RULE && tells_death(line))) {
		e->banner = BANNER_TEXT;
		e->line = e->nheld;
	} else {
		if (strstr(line, "*** reported by process "))
			read_death(w, line);
		if (read_last_words(w, line))
			e->nheld = e->line;
		pass_on_held(e);
	}
}

/* May this start of a line become one that is not shown, or is read? Others are passed on before
 * they are whole. */
static bool of_interest(const struct stderr_parser *e)
{
	const char *line = e->held + e->line;
	size_t n = e->nheld - e->line, ours = strlen(OURS);
	return e->banner != NO_BANNER || *line == *INTRODUCTION || *line == '[' ||
	       strncmp(line, OURS, n < ours ? n : ours) == 0 || strspn(line, "-") == n;
}

static void feed(struct watch *w, const char *text, size_t n)
{
	struct stderr_parser *e = &w->parser;
	for (size_t i = 0; i < n; i++) {
		size_t first = i;
		/* An unfinished line may be cut by another rank's introduction, or a banner. */
		while (e->passing && i < n && text[i] != *INTRODUCTION && text[i] != '-')
			e->passing = text[i++] != '\n';
		pass_on(text + first, i - first);
		if (i == n)
			break;
		e->passing = false;
		e->held[e->nheld++] = text[i];
		e->held[e->nheld] = '\0';
		if (text[i] == '\n') {
			end_line(w);
		} else if (!of_interest(e)) {
			pass_on_held(e);
			e->passing = true;
		}
		if (e->nheld == HELD) { /* no room for another */
			pass_on_held(e);
			e->passing = text[i] != '\n';
		}
	}
}

/* All that there is now. Not until the end of the file: an ssh of mpirun's may outlive it. */
static void read_stderr(struct watch *w)
{
	char text[4096];
	ssize_t n;
	while ((n = read(w->fd[FD_STDERR].fd, text, sizeof text)) > 0)
		feed(w, text, (size_t)n);
	if (n == 0) {
		close(w->fd[FD_STDERR].fd);
		w->fd[FD_STDERR].fd = -1;
	}
}

/* ---- The start ----------------------------------------------------------- */

/* Does not return. More ranks than cores: unbound, and waiting ranks give up the core. */
static void exec_mpirun(const struct config *c, const char *command, const char *page_path)
{
	char self[PATH_MAX], ranks[24];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	self[n > 0 ? n : 0] = '\0';
	snprintf(ranks, sizeof ranks, "%d", ranks_of(c));
	bool crowded = !*c->run.hostfile && ranks_of(c) > usable_cores();
	char **words = config_words(c);
	size_t k = 0, given = 0;
	while (words[given])
		given++;
	const char **argv = must(calloc(MPIRUN_WORDS + given + 1, sizeof *argv));
	argv[k++] = "mpirun";
	argv[k++] = "-n";
	argv[k++] = ranks;
	argv[k++] = "-x";
	argv[k++] = STATUS_VARIABLE;
	if (*c->run.hostfile) {
		argv[k++] = "--hostfile";
		argv[k++] = c->run.hostfile;
	} else {
		argv[k++] = "--oversubscribe";
	}
	argv[k++] = "--bind-to";
	argv[k++] = crowded || getenv("MVBENCH_UNBOUND") ? "none" : "core:overload-allowed";
	argv[k++] = self;
	argv[k++] = command;
	for (size_t i = 0; i < given; i++)
		argv[k++] = words[i];
	setenv(STATUS_VARIABLE, page_path, 1);
	if (geteuid() == 0) {
		setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
		setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
	}
	if (crowded)
		setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
	execvp("mpirun", (char *const *)argv);
	fprintf(stderr, "mvbench: cannot start mpirun: %s\n", strerror(errno));
	_exit(127);
}

/* Does not return. The simulator is the program beside this one. */
static void exec_simulator(const struct config *c, const char *command, const char *page_path)
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	self[n > 0 ? n : 0] = '\0';
	char *program = sentence("%s-sim", self), **words = config_words(c);
	size_t given = 0;
	while (words[given])
		given++;
	const char **argv = must(calloc(given + 3, sizeof *argv));
	argv[0] = program;
	argv[1] = command;
	memcpy(argv + 2, words, given * sizeof *argv);
	setenv(STATUS_VARIABLE, page_path, 1);
	execv(program, (char *const *)argv);
	fprintf(stderr, "mvbench: cannot start %s: %s\n", program, strerror(errno));
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
		if (w->ranks > 1) {
			dup2(pipe_fd[1], STDERR_FILENO);
			exec_mpirun(w->config, w->command, page_path);
		}
		if (is_simulated(w->config))
			exec_simulator(w->config, w->command, page_path);
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

static void look_at_ranks(struct watch *w)
{
	int before = w->vanished;
	for (int rank = 0; rank < w->ranks; rank++) {
		struct pollfd *fd = &w->fd[FD_RANK + rank];
		if (fd->fd < 0 || !fd->revents)
			continue;
		close(fd->fd);
		fd->fd = -1;
		w->vanished++;
		w->last = rank;
	}
	if (before == 0 && w->vanished == 1 && w->introduced == w->ranks)
		w->first = w->last;
	if (w->vanished)
		see_death(w);
}

static void kill_ranks(struct watch *w)
{
	for (int rank = 0; rank < w->ranks; rank++)
		if (w->fd[FD_RANK + rank].fd >= 0)
			pidfd_send_signal(w->fd[FD_RANK + rank].fd, SIGKILL, NULL, 0);
}

static void keep_time(struct watch *w)
{
	nsec now = clock_now();
	if (w->died && !w->given_up && now > w->died + (nsec)GRACE_S * 1000000000) {
		w->given_up = true;
		if (w->vanished == 1)
			w->first = w->last;
		kill(-w->child, SIGTERM);
		kill_ranks(w);
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
				read_stderr(w);
			look_at_ranks(w);
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
		read_stderr(w);
	pass_on_held(&w->parser);
	kill_ranks(w); /* none is left, unless mpirun was killed */
	for (int i = 0; i < FD_RANK + w->ranks; i++)
		if (w->fd[i].fd >= 0)
			close(w->fd[i].fd);
	free(w->fd);
}

/* ---- The end ------------------------------------------------------------- */

/* The first rank that died; -1: not known. */
static int dead_rank(const struct watch *w)
{
	int silent = -1;
	if (w->ranks == 1)
		return 0;
	if (w->death.rank >= 0)
		return w->death.rank;
	if (!w->heard && !w->given_up)
		return -1; /* mpirun ended, and they all ended with it */
	for (int rank = 0; w->introduced == w->ranks - 1 && rank < w->ranks; rank++)
		if (!*w->host[rank])
			silent = rank;
	return w->first >= 0 ? w->first : silent;
}

/* rank -1, or no introduction: where all others are. "": not known. */
static const char *host_of(const struct watch *w, int rank)
{
	const char *host = "";
	if (w->ranks == 1)
		return w->here;
	if (rank >= 0 && *w->host[rank])
		return w->host[rank];
	if (rank >= 0 && rank == w->death.rank && *w->death.host)
		return w->death.host;
	for (int i = 0; i < w->ranks; i++)
		if (*w->host[i] && *host && strcmp(w->host[i], host) != 0)
			return "";
		else if (*w->host[i])
			host = w->host[i];
	return host;
}

/* Of a child that ended without the last words of its run. */
static int end_of_child(const struct watch *w, int wait_status, char **why)
{
	const struct config *c = w->config;
	const struct death *told = &w->death;
	bool through_mpirun = w->ranks > 1, killed = WIFSIGNALED(wait_status);
	int rank = dead_rank(w), status = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 0;
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
				*c->run.hostfile ? "; look at --hostfile=" : "", c->run.hostfile);
		return EXIT_USER;
	}
	if (told->signal > 0 || told->status >= 0) {
		signal = told->signal > 0 ? told->signal : 0;
		status = told->status;
	}
	bool mpirun_itself = through_mpirun && killed && told->rank < 0;
	char *who = mpirun_itself && !w->given_up ? sentence("mpirun")
						  : name_of(c, rank, host_of(w, rank));
	if (w->given_up && told->rank < 0)
		*why = sentence("%s ended before its run did, unnoticed by mpirun", who);
	else if (signal)
		*why = sentence("%s was killed by signal %d (%s)", who, signal, strsignal(signal));
	else
		*why = sentence("%s ended with status %d before its run did", who, status);
	free(who);
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
