/*
 * sockets.c - sleeps until a TCP connection of this process has something to do.
 *
 * Between machines MPI's messages come over TCP, but its own waits spin. A rank that must not spin
 * sleeps here: until a connection has bytes to read, or until one that was full takes more bytes.
 * MPI has written to a connection what it could, so it has more to write only to a full one.
 *
 * All TCP sockets of the process count, also those of a user's program: the worst that they can do
 * is to end a sleep early. A socket that always does so costs a nap each time.
 */
#include "runtime/comm/comm.h"

#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

enum {
	NUMBERS = 1024,   /* file descriptors below this are looked at, */
	GAP = 64,         /* up to so many closed ones in a row */
	SOCKETS = 256,    /* at most */
	QUICK_MOST = 1000 /* sleeps in a row that ended at once */
};
/* New connections are found after scan_ns at the latest. */
static const nsec scan_ns = 20000000, quick_ns = 10000, nap_ns = 500000, short_ns = 100000;

enum state { QUIET, SENDS /* its bytes are on their way */, READY /* has bytes to read */ };

static struct {
	struct pollfd socket[SOCKETS];
	nfds_t n;
	nsec scanned;
	int quick; /* sleeps in a row that ended at once */
} known;

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

bool sockets_sleep(nsec most)
{
	const nsec since = clock_now();
	if (known.scanned == 0 || since - known.scanned > scan_ns) {
		scan();
		known.scanned = since;
	}
	const enum state state = look();
	if (state == SENDS && most > short_ns)
		most = short_ns;
	const struct timespec limit = {.tv_sec = most / 1000000000, .tv_nsec = most % 1000000000};
	const bool woken = state == READY || ppoll(known.socket, known.n, &limit, NULL) > 0;
	known.quick = woken && clock_now() - since < quick_ns ? known.quick + 1 : 0;
	if (known.quick > QUICK_MOST)
		clock_delay(most < nap_ns ? most : nap_ns);
	return woken;
}
