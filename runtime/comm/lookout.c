/*
 * lookout.c - ranks that watch each other, in users' programs and under a user's own launcher. The
 * ranks of a machine share a page with a pulse of each, as with mvbench's watcher. Each rank has a
 * thread that polls it, because a stopped rank cannot report itself. Ranks of other machines cannot
 * be seen; only waiting for them can.
 */
#include "runtime/base/stall.h"
#include "runtime/comm/comm.h"

#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <unistd.h>

struct member {
	int rank, pid;
	uint64_t pids; /* the pid's namespace */
	int fd;        /* pidfd, opened by each rank; -1: another namespace, or process gone */
};

struct lookout {
	struct stall stall;
	struct status_page *page;
	struct member *member; /* [ranks of this machine] */
	int members, me;
	int ranks; /* on all machines */
	pthread_t thread;
	sem_t end; /* ends the thread */
};

static bool has_ended(const struct member *m)
{
	struct pollfd end = {.fd = m->fd, .events = POLLIN};
	return m->fd >= 0 && poll(&end, 1, 0) > 0;
}

static pid_t process_of(const void *self, int i, bool *far)
{
	const struct lookout *o = self;
	(void)far;
	if (has_ended(&o->member[i]))
		return -1;
	return o->member[i].fd >= 0 ? o->member[i].pid : 0;
}

static char *name_of(const void *self, int i)
{
	const struct lookout *o = self;
	return sentence("rank %d of %d (process %d)", o->member[i].rank, o->ranks,
			o->member[i].pid);
}

/* Kills the ranks of this machine; the launcher then ends those on other machines. */
static void end_all(void *self, char *why)
{
	const struct lookout *o = self;
	fprintf(stderr, "mvbench: %s: ended\n", why);
	clock_delay(500000000); /* mpirun forwards no output after such an end of a rank */
	for (int i = 0; i < o->stall.ranks; i++)
		if (i != o->me && o->member[i].fd >= 0)
			pidfd_send_signal(o->member[i].fd, SIGKILL, NULL, 0);
	_exit(EXIT_FAILED);
}

static void poll_pulses(struct lookout *o)
{
	bool speaks = true, far;
	for (int i = 0; i < o->me && speaks; i++) {
		pid_t pid = process_of(o, i, &far);
		speaks = pid < 0 || (pid > 0 && process_is_stopped(pid));
	}
	stall_poll(&o->stall, true, !speaks);
}

static void *poll_loop(void *self)
{
	struct lookout *o = self;
	struct timespec next;
	do {
		poll_pulses(o);
		clock_gettime(CLOCK_MONOTONIC, &next);
		next.tv_sec++;
	} while (sem_clockwait(&o->end, CLOCK_MONOTONIC, &next) != 0);
	return NULL;
}

/* The page that the ranks of a machine share, or NULL. */
static struct status_page *shared_page(struct link *node)
{
	char path[PATH_MAX] = "", variable[PATH_MAX + 64] = "";
	struct status_page *page = NULL;
	if (link_rank(node) == 0 && (page = status_new(0, link_size(node), NULL, path))) {
		char *text AUTOFREE = status_variable(page, path);
		snprintf(variable, sizeof variable, "%s", text);
	}
	link_broadcast(node, 0, variable, sizeof variable);
	if (link_rank(node) > 0)
		page = status_find(variable);
	double all = page != NULL;
	link_reduce_all(node, &all, 1, REDUCE_MIN);
	if (*path)
		unlink(path);
	if (page && all == 0)
		status_free(page);
	return all > 0 ? page : NULL;
}

static struct member this_rank(const struct link *all)
{
	struct stat pids;
	struct member m = {.rank = link_rank(all), .pid = (int)getpid(), .fd = -1};
	if (stat("/proc/self/ns/pid", &pids) == 0)
		m.pids = pids.st_ino;
	return m;
}

static void lookout_free(struct lookout *o)
{
	for (int i = 0; i < o->members; i++)
		if (o->member[i].fd >= 0)
			close(o->member[i].fd);
	free(o->member);
	free(o);
}

struct lookout *lookout_open(struct link *all, int workers, double timeout_s, const char *setting)
{
	if (link_size(all) == 1)
		return NULL;
	struct lookout *o = must(calloc(1, sizeof *o));
	struct link *node = link_of_node(all);
	struct member mine = this_rank(all);
	int n = link_size(node);
	sigset_t signals, before;
	o->members = n;
	o->me = link_rank(node);
	o->ranks = link_size(all);
	o->member = must(calloc((size_t)n, sizeof *o->member));
	link_gather_bytes(node, &mine, o->member, sizeof mine);
	link_broadcast(node, 0, o->member, (size_t)n * sizeof mine);
	for (int i = 0; i < n; i++)
		if (mine.pids && o->member[i].pids == mine.pids)
			o->member[i].fd = pidfd_open(o->member[i].pid, 0);
	o->page = shared_page(node);
	link_free(node);
	if (!o->page) {
		lookout_free(o);
		return NULL;
	}
	o->stall = (struct stall){.ranks = n,
				  .pulse = status_pulse(o->page, 0),
				  .timeout_s = timeout_s,
				  .setting = setting,
				  .programs = true,
				  .elsewhere = n < o->ranks,
				  .process = process_of,
				  .name = name_of,
				  .end = end_all,
				  .self = o};
	for (int i = 0; i < n; i++)
		o->stall.workers += o->member[i].rank < workers;
	stall_open(&o->stall);
	pulse_of(status_pulse(o->page, o->me));
	sem_init(&o->end, 0, 0);
	sigfillset(&signals);
	pthread_sigmask(SIG_BLOCK, &signals, &before); /* signals are for the program's threads */
	CHECK(pthread_create(&o->thread, NULL, poll_loop, o) == 0, "no thread can be started");
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return o;
}

void lookout_close(struct lookout *o)
{
	if (!o)
		return;
	sem_post(&o->end);
	pthread_join(o->thread, NULL);
	world_wait("the end"); /* this rank is not stalled while others continue */
	pulse_of(NULL);
	stall_close(&o->stall);
	status_free(o->page);
	lookout_free(o);
}
