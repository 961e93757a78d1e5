/*
 * lab_probe.c - measures a wire with messages over plain TCP. The measuring host connects to a port
 * of the other host, and both go through the same list of messages.
 */
#include "runtime/launch/lab.h"
#include "runtime/world/world.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define PROBE_PORT "7878"
enum { REPETITIONS = 7, PATIENCE_S = 5 };

/* Sends `out` bytes and receives `in` bytes at the same time. */
static bool move(int fd, size_t out, size_t in)
{
	static char room[1 << 16];
	while (out || in) {
		struct pollfd p = {.fd = fd,
				   .events = (short)((out ? POLLOUT : 0) | (in ? POLLIN : 0))};
		if (poll(&p, 1, PATIENCE_S * 1000) <= 0)
			return false;
		ssize_t n = out && (p.revents & POLLOUT)
				    ? send(fd, room, smaller(out, sizeof room), MSG_NOSIGNAL)
				    : 0;
		if (n < 0 && errno != EAGAIN)
			return false;
		out -= n > 0 ? (size_t)n : 0;
		n = p.revents & (POLLIN | POLLHUP | POLLERR)
			    ? recv(fd, room, smaller(in, sizeof room), 0)
			    : 1;
		if (n == 0 || (n < 0 && errno != EAGAIN))
			return false;
		in -= p.revents & POLLIN && n > 0 ? (size_t)n : 0;
	}
	return true;
}

/* The list: a byte there and back, PROBE_BYTES one way, PROBE_BYTES both ways at once. The first of
 * each does not count, because TCP must find its speed. */
static bool probe_measure_all(int fd, bool starts, struct lab_wire *out)
{
	const struct {
		size_t there, back;
		double *median;
	} part[] = {{1, 0, &out->round_trip},
		    {PROBE_BYTES, 0, &out->one_way},
		    {PROBE_BYTES, PROBE_BYTES, &out->both_ways}};
	for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
		double took[REPETITIONS + 1];
		for (int k = 0; k <= REPETITIONS; k++) {
			nsec since = clock_now();
			size_t here = starts ? part[i].there : part[i].back;
			size_t from_there = starts ? part[i].back : part[i].there;
			/* at the end each side confirms with a byte that it has received all */
			if (!move(fd, here, from_there) ||
			    !(starts ? move(fd, 0, 1) && move(fd, 1, 0)
				     : move(fd, 1, 0) && move(fd, 0, 1)))
				return false;
			took[k] = 1e-9 * (double)(clock_now() - since);
		}
		qsort(took + 1, REPETITIONS, sizeof *took, by_value);
		*part[i].median = took[1 + REPETITIONS / 2];
	}
	return true;
}

static void set_up(int fd)
{
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

static char *no_wire(const char *host)
{
	return sentence("%s: no answer over this wire (%s)", host,
			errno ? strerror(errno) : "the connection ended");
}

char *lab_probe_answer(void)
{
	struct sockaddr_in any = {.sin_family = AF_INET,
				  .sin_port = htons((uint16_t)atoi(PROBE_PORT))};
	struct lab_wire unused;
	int fd AUTOCLOSED = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
	if (bind(fd, (struct sockaddr *)&any, sizeof any) != 0 || listen(fd, 1) != 0)
		return sentence("port " PROBE_PORT " is in use (%s)", strerror(errno));
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int connection AUTOCLOSED =
		poll(&p, 1, PATIENCE_S * 1000) == 1 ? accept(fd, NULL, NULL) : -1;
	set_up(connection);
	bool whole = connection >= 0 && probe_measure_all(connection, false, &unused);
	return whole ? NULL : sentence("no host probed this wire, or the probe ended early");
}

/* The other end may not listen yet. */
static int connect_to(const char *host)
{
	struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found = NULL;
	const struct timeval patience = {.tv_sec = PATIENCE_S};
	int fd = -1;
	if (getaddrinfo(host, PROBE_PORT, &hints, &found) != 0)
		return -1;
	for (int tries = 0; fd < 0 && tries < PATIENCE_S * 100; tries++) {
		fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
		if (connect(fd, found->ai_addr, found->ai_addrlen) == 0)
			break;
		bool refused = errno == ECONNREFUSED;
		close(fd);
		fd = -1;
		if (!refused)
			break;
		clock_delay(10000000);
	}
	freeaddrinfo(found);
	return fd;
}

char *lab_probe(const char *host, struct lab_wire *out)
{
	int fd AUTOCLOSED = connect_to(host);
	if (fd < 0)
		return no_wire(host);
	set_up(fd);
	errno = 0;
	return probe_measure_all(fd, true, out) ? NULL : no_wire(host);
}
