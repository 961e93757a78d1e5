/*
 * child.c - runs a function in a child process, and reads what it prints.
 */
#include "runtime/base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Reads to the end, because the child must not wait for room in the pipe. */
static void read_output(int fd, char *said, size_t room)
{
	char part[512];
	size_t n = 0;
	ssize_t got;
	while ((got = read(fd, part, sizeof part)) > 0 || (got < 0 && errno == EINTR)) {
		size_t kept = got > 0 ? smaller((size_t)got, room - 1 - n) : 0;
		memcpy(said + n, part, kept);
		n += kept;
	}
	said[n] = '\0';
}

int child_run(void (*body)(const void *ctx), const void *ctx, char *said, size_t room)
{
	struct sigaction usual = {.sa_handler = SIG_DFL}, before;
	int ends[2], status = -1;
	if (said && pipe2(ends, O_CLOEXEC) != 0)
		return -1;
	fflush(NULL);
	sigaction(SIGCHLD, &usual, &before); /* waitpid fails if SIGCHLD is ignored */
	pid_t child = fork();
	if (child == 0) {
		for (int fd = STDOUT_FILENO; said && fd <= STDERR_FILENO; fd++)
			dup2(ends[1], fd);
		body(ctx);
		_exit(127);
	}
	if (said) {
		close(ends[1]);
		read_output(ends[0], said, room);
		close(ends[0]);
	}
	while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
		continue;
	sigaction(SIGCHLD, &before, NULL);
	return status;
}
