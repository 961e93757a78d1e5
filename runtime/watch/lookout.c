/*
 * lookout.c - ranks that watch each other, in users' programs and under a user's own launcher. The
 * ranks of a machine share a page with a pulse of each, as with mvbench's watcher. Each rank has a
 * thread that polls it, because a stopped rank cannot report itself.
 *
 * Between machines a rank's thread sends its pulse once a second, as a datagram, to one rank of
 * each other machine, in turn. The receiver writes it into the page. A machine whose datagrams
 * never arrive, because a firewall drops them, is not watched.
 * That all ranks wait is then not reported either.
 *
 * While MPI starts and ends, ranks have no page. Then a thread of each rank limits its own wait.
 */
#include "runtime/watch/watch.h"

#include <ifaddrs.h>
#include <math.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ADDRESSES = 4 };

struct member {
	int32_t pid, machine; /* machine: the lowest rank there */
	uint64_t pids;        /* the pid's namespace */
	char host[64];
	in_addr_t address[ADDRESSES]; /* IPv4; 0: none */
	in_port_t port;
	uint64_t job;     /* rank 0's counts */
	char page[128];   /* variable of the machine's page, from its lowest rank */
	int fd;           /* pidfd, opened by each rank; -1: another namespace, or process gone */
	int place, peers; /* among the ranks of its machine, and their number */
};

struct report {
	uint64_t job; /* a random number, against datagrams of others */
	int64_t rank;
	struct pulse pulse;
};

struct lookout {
	struct stall stall;
	struct status_page *page;
	struct member *member; /* [ranks] */
	int ranks, me;
	uint64_t job;
	int sock; /* -1: all ranks are on one machine */
	int64_t seconds;
	pthread_t thread;
	sem_t end; /* ends the thread */
};

static struct {
	double timeout_s;
	const char *setting; /* NULL: another process watches this one */
} limits;

void lookout_limits(double timeout_s, const char *setting)
{
	limits.timeout_s = timeout_s;
	limits.setting = setting;
}

/* Waits a second for the thread's end; false: it has to end. */
static bool wait_a_second(sem_t *end)
{
	struct timespec next;
	clock_gettime(CLOCK_MONOTONIC, &next);
	next.tv_sec++;
	return sem_clockwait(end, CLOCK_MONOTONIC, &next) != 0;
}

/* Waits before it ends: mpirun forwards no output after such an end of a rank. */
static _Noreturn void end_process(const char *why)
{
	fprintf(stderr, "mvbench: %s: ended\n", why);
	clock_delay(500000000);
	_exit(EXIT_FAILED);
}

/* ---- The start and the end of MPI ------------------------------------------------- */

/* Only ranks 0 and 1 of a machine report: more would repeat it, and one of the two may be the rank
 * that is missing. */
static struct {
	char *who;
	bool reports;
	pthread_t thread;
	sem_t end;
} guard;

/* Counts its own seconds, so that a stop of this process is no wait. Reads no environment variable:
 * MPI sets some meanwhile. */
static void *guard_loop(void *unused)
{
	const char *who = guard.who;
	(void)unused;
	for (int s = 1; wait_a_second(&guard.end); s++) {
		bool ends = limits.timeout_s > 0 && s > fmax(limits.timeout_s, STALL_NAMED_S);
		if (s == STALL_NAMED_S && guard.reports) {
			fprintf(stderr, "mvbench: %s, for %d s now", who, s);
			if (limits.timeout_s > 0)
				fprintf(stderr, "; after %.0f s the run ends (%s)",
					limits.timeout_s, limits.setting);
			fputc('\n', stderr);
		}
		if (ends)
			end_process(sentence("%s, for %d s (%s=%g%s)", who, s, limits.setting,
					     limits.timeout_s, *limits.setting == '-' ? "s" : ""));
	}
	return NULL;
}

void lookout_guard(const char *what)
{
	char host[64] = "";
	if (!limits.setting)
		return;
	gethostname(host, sizeof host - 1);
	guard.who = sentence("rank %d (process %d on %s) waits in %s", rank_of_launcher(),
			     (int)getpid(), host, what);
	guard.reports = rank_on_node() < 2;
	sem_init(&guard.end, 0, 0);
	CHECK(thread_start(&guard.thread, guard_loop, NULL), "no thread can be started");
}

void lookout_unguard(void)
{
	if (!limits.setting)
		return;
	sem_post(&guard.end);
	pthread_join(guard.thread, NULL);
	free(guard.who);
}

/* ---- The ranks --------------------------------------------------------------------- */

static bool is_here(const struct lookout *o, int rank)
{
	return o->member[rank].machine == o->member[o->me].machine;
}

static pid_t process_of(const void *self, int rank)
{
	const struct lookout *o = self;
	const struct member *m = &o->member[rank];
	struct pollfd end = {.fd = m->fd, .events = POLLIN}; /* -1 is never ready */
	if (!is_here(o, rank))
		return PULSE_GET(status_pulse(o->page, rank)->beat) ? PROCESS_FAR : PROCESS_UNSEEN;
	return poll(&end, 1, 0) > 0 ? PROCESS_ENDED : m->fd >= 0 ? m->pid : PROCESS_UNKNOWN;
}

static char *name_of(const void *self, int rank)
{
	const struct lookout *o = self;
	const struct member *m = &o->member[rank];
	return o->sock < 0 ? sentence("rank %d of %d (process %d)", rank, o->ranks, m->pid)
			   : sentence("rank %d of %d (process %d on %s)", rank, o->ranks, m->pid,
				      m->host);
}

/* Kills the ranks of this machine; the launcher then ends those on other machines. */
static void end_all(void *self, char *why)
{
	const struct lookout *o = self;
	for (int i = 0; i < o->ranks; i++)
		if (i != o->me && o->member[i].fd >= 0)
			pidfd_send_signal(o->member[i].fd, SIGKILL, NULL, 0);
	end_process(why);
}

/* ---- Other machines ---------------------------------------------------------------- */

/* Only the owner of a pulse, or the receiver of its reports, writes it. */
static void copy_pulse(struct pulse *to, const struct pulse *from)
{
	PULSE_PUT(to->events, PULSE_GET(from->events));
	PULSE_PUT(to->cpu, PULSE_GET(from->cpu));
	PULSE_PUT(to->expected, PULSE_GET(from->expected));
	PULSE_PUT(to->peer, PULSE_GET(from->peer));
	PULSE_PUT(to->phase, PULSE_GET(from->phase));
	for (size_t i = 0; i < sizeof to->doing - 1; i++)
		PULSE_PUT(to->doing[i], PULSE_GET(from->doing[i]));
}

static void receive_reports(struct lookout *o)
{
	struct report r;
	ssize_t n;
	while ((n = recv(o->sock, &r, sizeof r, MSG_DONTWAIT)) >= 0) {
		if (n != sizeof r || r.job != o->job || r.rank < 0 || r.rank >= o->ranks ||
		    is_here(o, (int)r.rank))
			continue;
		struct pulse *pulse = status_pulse(o->page, (int)r.rank);
		copy_pulse(pulse, &r.pulse);
		__atomic_fetch_add(&pulse->beat, 1, __ATOMIC_RELAXED);
	}
}

/* A rank of each other machine; all: every rank there. */
static void send_report(struct lookout *o, bool all)
{
	struct report r = {.job = o->job, .rank = o->me};
	copy_pulse(&r.pulse, status_pulse(o->page, o->me));
	for (int i = 0; i < o->ranks; i++) {
		const struct member *m = &o->member[i];
		if (is_here(o, i) || (!all && (o->seconds + o->me) % m->peers != m->place))
			continue;
		for (int k = 0; k < ADDRESSES && m->address[k]; k++) {
			struct sockaddr_in to = {.sin_family = AF_INET,
						 .sin_port = m->port,
						 .sin_addr.s_addr = m->address[k]};
			(void)!sendto(o->sock, &r, sizeof r, MSG_DONTWAIT | MSG_NOSIGNAL,
				      (const struct sockaddr *)&to, sizeof to);
		}
	}
}

static void find_addresses(struct member *m)
{
	struct ifaddrs *all = NULL;
	int n = 0;
	if (getifaddrs(&all) != 0)
		return;
	for (const struct ifaddrs *i = all; i && n < ADDRESSES; i = i->ifa_next)
		if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET &&
		    (i->ifa_flags & (IFF_UP | IFF_LOOPBACK)) == IFF_UP) {
			const struct sockaddr_in *in = (const void *)i->ifa_addr;
			m->address[n++] = in->sin_addr.s_addr;
		}
	freeifaddrs(all);
}

/* A socket for reports of other machines; its port goes to m. -1: there is none. */
static int open_socket(struct member *m)
{
	struct sockaddr_in any = {.sin_family = AF_INET};
	socklen_t n = sizeof any;
	int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (sock < 0 || bind(sock, (const struct sockaddr *)&any, n) != 0 ||
	    getsockname(sock, (struct sockaddr *)&any, &n) != 0)
		return sock;
	m->port = any.sin_port;
	find_addresses(m);
	return sock;
}

/* ---- The watch --------------------------------------------------------------------- */

/* Is this rank able to report? A rank on another machine is, if it has been seen lately. A rank
 * that waits for the end has closed its lookout. */
static bool is_awake(const struct lookout *o, int rank)
{
	if (PULSE_GET(status_pulse(o->page, rank)->expected) == NO_END)
		return false;
	pid_t pid = process_of(o, rank);
	if (pid == PROCESS_FAR)
		return clock_now() - o->stall.seen[rank].lived <= (nsec)STALL_NAMED_S * 1000000000;
	return pid == PROCESS_UNKNOWN || (pid > 0 && !process_is_stopped(pid, NULL));
}

/* Only the first rank that is awake reports. */
static void poll_pulses(struct lookout *o)
{
	bool first = true;
	pulse_alive(status_pulse(o->page, o->me));
	if (o->sock >= 0) {
		send_report(o, false);
		receive_reports(o);
	}
	o->seconds++;
	for (int i = 0; i < o->me && first; i++)
		first = !is_awake(o, i);
	stall_poll(&o->stall, !first);
}

static void *poll_loop(void *self)
{
	struct lookout *o = self;
	do
		poll_pulses(o);
	while (wait_a_second(&o->end));
	return NULL;
}

/* Gathers all members and numbers those of each machine. */
static void find_members(struct lookout *o, const struct lookout_ranks *all, char path[PATH_MAX])
{
	struct stat pids;
	struct member mine;
	memset(&mine, 0, sizeof mine); /* all bytes are sent */
	mine.pid = (int32_t)getpid();
	mine.machine = all->machine;
	gethostname(mine.host, sizeof mine.host - 1);
	if (stat("/proc/self/ns/pid", &pids) == 0)
		mine.pids = pids.st_ino;
	if (o->me == all->machine && (o->page = status_new(0, o->ranks, NULL, path))) {
		char *variable AUTOFREE = status_variable(o->page, path);
		snprintf(mine.page, sizeof mine.page, "%s", variable);
	}
	o->sock = all->several ? open_socket(&mine) : -1;
	mine.job = (uint64_t)clock_now() ^ (uint64_t)mine.pid << 40;
	o->member = must(calloc((size_t)o->ranks, sizeof mine));
	all->gather(all->self, &mine, o->member, sizeof mine);
	o->job = o->member[0].job;
	for (int i = 0; i < o->ranks; i++) {
		struct member *m = &o->member[i];
		bool seen = m->machine == mine.machine && mine.pids && m->pids == mine.pids;
		m->fd = seen ? pidfd_open(m->pid, 0) : -1;
		m->place = o->member[m->machine].peers++;
	}
	for (int i = 0; i < o->ranks; i++)
		o->member[i].peers = o->member[o->member[i].machine].peers;
}

/* Maps the page of this machine; without it on all its ranks there is none. */
static bool share_page(struct lookout *o, const struct lookout_ranks *all, const char *path)
{
	int32_t *has = must(calloc((size_t)o->ranks, sizeof *has)), mine;
	if (o->me != all->machine)
		o->page = status_find(o->member[all->machine].page);
	mine = o->page != NULL;
	all->gather(all->self, &mine, has, sizeof mine);
	for (int i = 0; i < o->ranks; i++)
		mine &= !is_here(o, i) || has[i];
	free(has);
	if (*path)
		unlink(path);
	return mine;
}

static void lookout_free(struct lookout *o)
{
	status_free(o->page);
	for (int i = 0; i < o->ranks; i++)
		if (o->member[i].fd >= 0)
			close(o->member[i].fd);
	if (o->sock >= 0)
		close(o->sock);
	free(o->member);
	free(o);
}

struct lookout *lookout_open(const struct lookout_ranks *all, int workers, bool programs)
{
	char path[PATH_MAX] = "";
	if (all->ranks == 1)
		return NULL;
	struct lookout *o = must(calloc(1, sizeof *o));
	o->me = all->rank;
	o->ranks = all->ranks;
	find_members(o, all, path);
	if (!share_page(o, all, path)) {
		lookout_free(o);
		return NULL;
	}
	o->stall = (struct stall){.ranks = o->ranks,
				  .workers = workers,
				  .pulse = status_pulse(o->page, 0),
				  .timeout_s = limits.timeout_s,
				  .setting = limits.setting,
				  .programs = programs,
				  .process = process_of,
				  .name = name_of,
				  .end = end_all,
				  .self = o};
	stall_open(&o->stall);
	pulse_of(status_pulse(o->page, o->me));
	sem_init(&o->end, 0, 0);
	CHECK(thread_start(&o->thread, poll_loop, o), "no thread can be started");
	return o;
}

void lookout_close(struct lookout *o)
{
	if (!o)
		return;
	sem_post(&o->end);
	pthread_join(o->thread, NULL);
	world_wait("the end", NO_END); /* this rank is not stalled while others continue */
	if (o->sock >= 0)
		send_report(o, true);
	pulse_of(NULL);
	stall_close(&o->stall);
	lookout_free(o);
}
