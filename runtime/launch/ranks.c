/*
 * ranks.c - the process and host of each rank, and the ranks that have ended.
 *
 * Every worker introduces itself with a line on its stderr. The watcher has a pidfd of each worker
 * on this machine, because mpirun does not always report which rank failed, and waits forever if a
 * worker ends before MPI_Init.
 */
#include "runtime/config/config.h"
#include "runtime/launch/watcher.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

int ranks_of(const struct config *c)
{
	return (int)(c->run.workers + c->run.servers);
}

/* Heap. rank -1, host "": not known. */
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

void worker_introduce(const struct config *c, struct status_page *page)
{
	int rank = rank_of_launcher();
	char host[HOST] = "";
	if (rank < 0 || (ranks_of(c) == 1 && (is_simulated(c) || !getenv(STATUS_VARIABLE))))
		return;
	if (page && !is_simulated(c) && rank < page->ranks)
		pulse_of(status_pulse(page, rank));
	gethostname(host, sizeof host - 1);
	panic_as(name_of(c, rank, host));
	/* the watcher reads this line and does not show it; the simulator's it would show */
	if (getenv(STATUS_VARIABLE) && !is_simulated(c))
		dprintf(STDERR_FILENO, INTRODUCTION " %d %s %d\n", rank, host, (int)getpid());
}

bool ranks_read(struct watch *w, const char *line)
{
	char host[HOST];
	int rank, pid;
	if (sscanf(line, INTRODUCTION " %d %255s %d", &rank, host, &pid) != 3 || rank < 0 ||
	    rank >= w->ranks)
		return false;
	struct pollfd *fd = &w->fd[FD_RANK + rank];
	text_disarm(host);
	w->introduced += !*w->rank[rank].host;
	memcpy(w->rank[rank].host, host, HOST);
	w->rank[rank].pid = pid;
	struct rank_seen *seen = &w->stall.seen[rank];
	seen->lived = seen->got_on = clock_now();
	if (strcmp(host, w->here) == 0 && fd->fd < 0) {
		fd->fd = pidfd_open(pid, 0);
		if (fd->fd < 0 && errno == ESRCH) {
			w->vanished++;
			w->last = rank;
		}
	}
	return true;
}

void ranks_poll(struct watch *w)
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
		note_failure(w);
}

void ranks_kill(struct watch *w)
{
	for (int rank = 0; rank < w->ranks; rank++)
		if (w->fd[FD_RANK + rank].fd >= 0)
			pidfd_send_signal(w->fd[FD_RANK + rank].fd, SIGKILL, NULL, 0);
}

int ranks_first_failed(const struct watch *w)
{
	int silent = -1;
	if (!config_needs_mpirun(w->config))
		return 0;
	if (w->rank_failure.rank >= 0)
		return w->rank_failure.rank;
	if (!w->heard && !w->given_up)
		return -1; /* mpirun ended first, and all ranks with it */
	for (int rank = 0; w->introduced == w->ranks - 1 && rank < w->ranks; rank++)
		if (!*w->rank[rank].host)
			silent = rank;
	return w->first >= 0 ? w->first : silent;
}

/* Without an introduction: as the hostfile has it; otherwise, or for rank -1, the host of all
 * others, if it is one. "": not known. */
static const char *host_of(const struct watch *w, int rank)
{
	const char *host = "";
	if (!config_needs_mpirun(w->config))
		return w->here;
	if (rank >= 0 && *w->rank[rank].host)
		return w->rank[rank].host;
	if (rank >= 0 && rank == w->rank_failure.rank && *w->rank_failure.host)
		return w->rank_failure.host;
	if (rank >= 0 && *w->rank[rank].planned)
		return w->rank[rank].planned;
	for (int i = 0; i < w->ranks; i++)
		if (*w->rank[i].host && *host && strcmp(w->rank[i].host, host) != 0)
			return "";
		else if (*w->rank[i].host)
			host = w->rank[i].host;
	return host;
}

const char *ranks_other_host(const struct watch *w)
{
	const char *other = "";
	for (int i = 0; i < w->ranks; i++) {
		const char *host = w->rank[i].host;
		if (strcmp(host, w->here) == 0 || strcmp(host, other) == 0)
			continue;
		if (*other)
			return "another machine";
		other = host;
	}
	return other;
}

char *ranks_name(const void *watch, int rank)
{
	const struct watch *w = watch;
	return name_of(w->config, rank, host_of(w, rank));
}
