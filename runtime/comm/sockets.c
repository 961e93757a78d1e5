/*
 * sockets.c - sleeps until a TCP connection of this process has something to do, or another process
 * of its machine wakes it.
 *
 * Between machines MPI's messages come over TCP, but its own waits spin. A rank that must not spin
 * sleeps here: until a connection has bytes to read, or until one that was full takes more bytes.
 * MPI has written to a connection what it could, so it has more to write only to a full one.
 *
 * All TCP sockets of the process count, also those of a user's program: the worst that they can do
 * is to end a sleep early. A socket that always does so costs a nap each time.
 *
 * Messages between ranks of one machine are in shared memory, where no sleep ends. Their sender
 * sends a datagram to a Unix socket, too, because no rank can sleep on a semaphore and on
 * connections at once.
 */
#include "runtime/comm/comm.h"

#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
	NUMBERS = 1024,    /* file descriptors below this are looked at, */
	GAP = 64,          /* up to so many closed ones in a row */
	SOCKETS = 256,     /* at most */
	QUICK_MOST = 1000, /* sleeps in a row that ended at once */
	SIGNALS = 1024     /* wake-up signals that are taken at once */
};
/* New connections are found after scan_ns at the latest. */
static const nsec scan_ns = 20000000, quick_ns = 10000, nap_ns = 500000, short_ns = 100000;

enum state { QUIET, SENDS /* its bytes are on their way */, READY /* has bytes to read */ };

static struct {
	struct pollfd socket[SOCKETS + 1]; /* the last: for wake-up signals */
	nfds_t n;
	nsec scanned;
	int quick; /* sleeps in a row that ended at once */
} known;

static int wakeups = -1, users; /* the socket of wake-up signals; -1: none */

static int option_of(int number, int option)
{
	int value = -1;
	socklen_t size = sizeof value;
	return getsockopt(number, SOL_SOCKET, option, &value, &size) == 0 ? value : -1;
}

static void scan(void)
{
	known.n = 0;
	for (int i = 0, gap = 0; i < NUMBERS && gap < GAP && known.n < SOCKETS; i++) {
		const int domain = option_of(i, SO_DOMAIN);
		gap = domain < 0 && errno == EBADF ? gap + 1 : 0;
		if ((domain == AF_INET || domain == AF_INET6) &&
		    option_of(i, SO_TYPE) == SOCK_STREAM)
			known.socket[known.n++].fd = i;
	}
}

/* What each socket waits for: a full one also for room. One that is closed, or not connected yet,
 * waits for nothing. One that sends may have been full when MPI wrote to it, and is no more. */
static enum state look(void)
{
	enum state state = QUIET;
	for (nfds_t i = 0; i < known.n; i++)
		known.socket[i].events = POLLIN | POLLOUT;
	poll(known.socket, known.n, 0);
	for (nfds_t i = 0; i < known.n; i++) {
		struct pollfd *s = &known.socket[i];
		int unsent = 0;
		if (s->revents & (POLLHUP | POLLERR | POLLNVAL)) {
			s->fd = -1;
			continue;
		}
		if (s->revents & POLLIN)
			state = READY;
		else if (state == QUIET && ioctl(s->fd, SIOCOUTQ, &unsent) == 0 && unsent > 0)
			state = SENDS;
		s->events = s->revents & POLLOUT ? POLLIN : POLLIN | POLLOUT;
	}
	return state;
}

void sockets_open(char name[SOCKET_NAME])
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	socklen_t size = sizeof at;
	memset(name, 0, SOCKET_NAME);
	if (users++ == 0)
		wakeups = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	/* without a name: the kernel gives it one that no socket of this network has */
	if (bind(wakeups, (const struct sockaddr *)&at, sizeof at.sun_family) == 0 &&
	    getsockname(wakeups, (struct sockaddr *)&at, &size) == 0)
		memcpy(name, at.sun_path + 1, SOCKET_NAME - 1);
}

void sockets_close(void)
{
	if (--users > 0)
		return;
	if (wakeups >= 0)
		close(wakeups);
	wakeups = -1;
}

/* A full socket has signals enough, and one that is gone needs none. */
void sockets_wake(const char name[SOCKET_NAME])
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	const size_t length = strlen(name), start = offsetof(struct sockaddr_un, sun_path) + 1;
	memcpy(to.sun_path + 1, name, length);
	sendto(wakeups, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL, (const struct sockaddr *)&to,
	       (socklen_t)(start + length));
}

bool sockets_woken(void)
{
	char signal;
	int n = 0;
	while (wakeups >= 0 && n < SIGNALS && recv(wakeups, &signal, 1, 0) >= 0)
		n++;
	return n > 0;
}

bool sockets_sleep(nsec most)
{
	const nsec since = clock_now();
	if (known.scanned == 0 || since - known.scanned > scan_ns) {
		scan();
		known.scanned = since;
	}
	const enum state state = sockets_woken() ? READY : look();
	known.socket[known.n] = (struct pollfd){.fd = wakeups, .events = POLLIN};
	if (state == SENDS && most > short_ns)
		most = short_ns;
	const struct timespec limit = {.tv_sec = most / 1000000000, .tv_nsec = most % 1000000000};
	const bool woken = state == READY || ppoll(known.socket, known.n + 1, &limit, NULL) > 0;
	sockets_woken(); /* signals come after messages: the caller finds those of all */
	known.quick = woken && clock_now() - since < quick_ns ? known.quick + 1 : 0;
	if (known.quick > QUICK_MOST)
		clock_delay(most < nap_ns ? most : nap_ns);
	return woken;
}
