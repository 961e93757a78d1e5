/*
 * check_sockets.c - sleeping until a TCP connection has something to do, or a process wakes this
 * one (runtime/comm/sockets.c). The connections are those of this process, to itself.
 */
#include "runtime/comm/comm.h"
#include "tests/suites.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CONNECTIONS = 2, LIMIT_S = 60 };
static const nsec shortly = 1000000, long_time = 30000000000;

/* The two ends of a connection. */
static void connect_to_itself(int end[2])
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof at;
	int door = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ck_assert_int_ge(door, 0);
	ck_assert_int_eq(bind(door, (const struct sockaddr *)&at, size), 0);
	ck_assert_int_eq(listen(door, 1), 0);
	ck_assert_int_eq(getsockname(door, (struct sockaddr *)&at, &size), 0);
	end[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(connect(end[0], (const struct sockaddr *)&at, size), 0);
	end[1] = accept(door, NULL, NULL);
	ck_assert_int_ge(end[1], 0);
	for (int i = 0; i < 2; i++)
		fcntl(end[i], F_SETFL, O_NONBLOCK);
	close(door);
}

/* Until the sender's connection takes no more. */
static size_t fill(int end)
{
	static char bytes[1 << 16];
	size_t sent = 0;
	for (ssize_t n; (n = send(end, bytes, sizeof bytes, MSG_NOSIGNAL)) > 0;)
		sent += (size_t)n;
	return sent;
}

/* Each test is a process of its own, which knows no sockets at first. */
CASE("sockets", .limit = LIMIT_S);

TEST(sleep_ends_when_bytes_arrive)
{
	int end[CONNECTIONS][2];
	for (int i = 0; i < CONNECTIONS; i++)
		connect_to_itself(end[i]);
	ck_assert(!sockets_sleep(shortly));
	for (int i = 0; i < CONNECTIONS; i++) {
		char byte = 'x';
		ck_assert_int_eq(send(end[i][0], &byte, 1, 0), 1);
		const nsec since = clock_now();
		ck_assert(sockets_sleep(long_time));
		ck_assert_int_lt(clock_now() - since, long_time / 2);
		ck_assert_int_eq(recv(end[i][1], &byte, 1, 0), 1);
		ck_assert(!sockets_sleep(shortly));
	}
}

/* Another process reads. */
TEST(sleep_ends_when_a_full_connection_takes_more)
{
	static char bytes[1 << 20];
	int end[2];
	connect_to_itself(end);
	pid_t reader = fork();
	if (reader == 0) {
		close(end[0]);
		usleep(200000); /* the other process sleeps by then; nothing depends on it */
		fcntl(end[1], F_SETFL, 0);
		while (recv(end[1], bytes, sizeof bytes, 0) > 0)
			;
		_exit(0);
	}
	close(end[1]);
	ck_assert_int_gt(fill(end[0]), 0);
	const nsec since = clock_now();
	do
		sockets_sleep(long_time);
	while (fill(end[0]) == 0);
	ck_assert_int_lt(clock_now() - since, long_time / 2);
	close(end[0]);
}

/* A connection whose other end is gone does not end each sleep. */
TEST(closed_connection_ends_no_sleep)
{
	int end[2];
	connect_to_itself(end);
	close(end[1]);
	shutdown(end[0], SHUT_WR);
	for (int i = 0; i < 3; i++) /* the first may see its end */
		sockets_sleep(shortly);
	const nsec since = clock_now();
	sockets_sleep(10 * shortly);
	ck_assert_int_ge(clock_now() - since, 9 * shortly);
}

/* One that was taken ends no other sleep, and a closed socket has no name to wake. */
TEST(signal_of_another_process_ends_a_sleep)
{
	char name[SOCKET_NAME], again[SOCKET_NAME];
	sockets_open(name);
	sockets_open(again);
	ck_assert_uint_gt(strlen(name), 0);
	ck_assert_str_eq(again, name);
	sockets_close(); /* the first is still open */
	ck_assert(!sockets_sleep(shortly));
	pid_t other = fork();
	if (other == 0) {
		usleep(200000); /* this process sleeps by then; nothing depends on it */
		sockets_wake(name);
		_exit(0);
	}
	const nsec since = clock_now();
	ck_assert(sockets_sleep(long_time));
	ck_assert_int_lt(clock_now() - since, long_time / 2);
	ck_assert_int_eq(waitpid(other, NULL, 0), other);
	ck_assert(!sockets_sleep(shortly));
	sockets_wake(name);
	ck_assert(sockets_sleep(long_time));
	ck_assert(!sockets_woken());
	sockets_wake(name);
	ck_assert(sockets_woken());
	sockets_close();
	sockets_wake(name);
	ck_assert(!sockets_sleep(shortly));
}
