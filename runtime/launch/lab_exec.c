/*
 * lab_exec.c - runs a command on another host of a lab, like ssh on real hosts. The first process
 * of each host listens on a socket in a folder that all hosts see. It gets words, a folder and
 * three open files, and replies with the exit status. A process could not enter another host's
 * namespaces instead: that needs rights over them, which a sibling does not have.
 *
 *   request   one packet: the folder, then the words, each with its NUL; and stdin, stdout, stderr
 *   signals   a packet of a byte each, while the command runs
 *   reply     one packet: the exit status
 */
#include "runtime/config/hosts.h"
#include "runtime/launch/lab.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STREAMS = 3, REQUEST_MOST = 1 << 17, WAITING_MOST = 64 };

/* ---- On the host --------------------------------------------------------- */

static struct sockaddr_un address_of(const char *host)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	snprintf(a.sun_path, sizeof a.sun_path, LAB_FOLDER "/%.60s.socket", host);
	return a;
}

int lab_listen(const char *host)
{
	struct sockaddr_un a = address_of(host);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	unlink(a.sun_path);
	if (fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof a) == 0 &&
	    listen(fd, WAITING_MOST) == 0)
		return fd;
	close(fd);
	return -1;
}

/* The words of a request, in its text; the first is the folder. Ends at NULL. */
static char **words_of(char *text, size_t n)
{
	size_t words = 0;
	char **word = must(calloc(n + 1, sizeof *word));
	for (size_t at = 0; at < n; at += strlen(text + at) + 1)
		word[words++] = text + at;
	return word;
}

static ssize_t receive_streams(int connection, char *text, int stream[STREAMS])
{
	union {
		char room[CMSG_SPACE(STREAMS * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec all = {.iov_base = text, .iov_len = REQUEST_MOST};
	struct msghdr m = {.msg_iov = &all,
			   .msg_iovlen = 1,
			   .msg_control = control.room,
			   .msg_controllen = sizeof control.room};
	ssize_t n = recvmsg(connection, &m, 0);
	struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;
	if (!c || c->cmsg_len != CMSG_LEN(STREAMS * sizeof(int)) || text[n - 1] != '\0')
		return -1;
	memcpy(stream, CMSG_DATA(c), STREAMS * sizeof(int));
	return n;
}

/* Does not return. The command gets its own session: it gets only the forwarded signals, and only
 * once. */
static void exec_command(char **word, const int stream[STREAMS])
{
	setsid();
	for (int i = 0; i < STREAMS; i++)
		dup2(stream[i], i);
	for (int i = 0; i < STREAMS; i++)
		if (stream[i] >= STREAMS)
			close(stream[i]);
	if (chdir(word[0]) != 0 && chdir("/") != 0)
		_exit(127);
	execvp(word[1], word + 1);
	fprintf(stderr, "mvbench: %s: cannot be run (%s)\n", word[1], strerror(errno));
	_exit(127);
}

/* Waits until the command has ended or the requester has closed the connection. */
static void wait_for_command(int connection, pid_t child)
{
	struct pollfd fd[] = {{.fd = pidfd_open(child, 0), .events = POLLIN},
			      {.fd = connection, .events = POLLIN}};
	unsigned char signal_of_theirs;
	while (poll(fd, 2, -1) >= 0 || errno == EINTR) {
		if (fd[0].revents) {
			int ended = 0;
			waitpid(child, &ended, 0);
			int status =
				WIFSIGNALED(ended) ? 128 + WTERMSIG(ended) : WEXITSTATUS(ended);
			send(connection, &status, sizeof status, MSG_NOSIGNAL);
			return;
		}
		if (fd[1].revents && recv(connection, &signal_of_theirs, 1, 0) != 1)
			return;
		if (fd[1].revents)
			kill(-child, signal_of_theirs);
	}
}

void lab_serve_one(int connection)
{
	int stream[STREAMS];
	char *text = must(malloc(REQUEST_MOST));
	signal(SIGCHLD, SIG_DFL);
	ssize_t n = receive_streams(connection, text, stream);
	if (n < 0)
		_exit(EXIT_FAILED);
	char **word = words_of(text, (size_t)n);
	pid_t child = word[0] && word[1] ? fork() : -1;
	if (child == 0)
		exec_command(word, stream);
	for (int i = 0; i < STREAMS; i++)
		close(stream[i]); /* only the command keeps them: a pipe ends with it */
	if (child > 0)
		wait_for_command(connection, child);
	_exit(EXIT_OK);
}

void lab_serve(int fd)
{
	signal(SIGCHLD, SIG_IGN); /* reaps children and orphans, a duty of the first process */
	for (;;) {
		int connection = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
		if (connection < 0)
			continue;
		if (fork() == 0) {
			close(fd);
			lab_serve_one(connection);
		}
		close(connection);
	}
}

/* ---- The requester ------------------------------------------------------- */

static bool lab_send_request(int connection, const char *const *words)
{
	union {
		char room[CMSG_SPACE(STREAMS * sizeof(int))];
		struct cmsghdr align;
	} control = {{0}};
	const int stream[STREAMS] = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO};
	char folder[PATH_MAX];
	struct text text;
	FILE *f = text_open(&text);
	fprintf(f, "%s%c", getcwd(folder, sizeof folder) ? folder : "/", '\0');
	for (; *words; words++)
		fprintf(f, "%s%c", *words, '\0');
	char *all AUTOFREE = text_close(&text);
	struct iovec part = {.iov_base = all, .iov_len = text.n};
	struct msghdr m = {.msg_iov = &part,
			   .msg_iovlen = 1,
			   .msg_control = control.room,
			   .msg_controllen = sizeof control.room};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	*c = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
			      .cmsg_type = SCM_RIGHTS,
			      .cmsg_len = CMSG_LEN(sizeof stream)};
	memcpy(CMSG_DATA(c), stream, sizeof stream);
	return text.n <= REQUEST_MOST && sendmsg(connection, &m, MSG_NOSIGNAL) >= 0;
}

char *lab_request(int connection, const char *const *words, int *status)
{
	sigset_t signals = end_signals(), before;
	char *wrong = NULL;
	sigprocmask(SIG_BLOCK, &signals, &before);
	struct pollfd fd[] = {{.fd = connection, .events = POLLIN},
			      {.fd = signalfd(-1, &signals, SFD_CLOEXEC), .events = POLLIN}};
	if (!lab_send_request(connection, words))
		wrong = sentence("%s: cannot be sent to that host (%s)", words[0], strerror(errno));
	while (!wrong && (poll(fd, 2, -1) >= 0 || errno == EINTR)) {
		struct signalfd_siginfo info;
		if (fd[0].revents) {
			if (recv(connection, status, sizeof *status, 0) != sizeof *status)
				wrong = sentence("the host on which %s ran has ended", words[0]);
			break;
		}
		if (!fd[1].revents || read(fd[1].fd, &info, sizeof info) != sizeof info)
			continue;
		unsigned char number = (unsigned char)info.ssi_signo;
		send(connection, &number, 1, MSG_NOSIGNAL);
	}
	close(fd[1].fd);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return wrong;
}

char *lab_exec(const char *host, const char *const *words, int *status)
{
	struct sockaddr_un a = address_of(host);
	int fd AUTOCLOSED = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof a) != 0)
		return errno == EACCES || errno == EPERM
			       ? sentence("%s: this lab belongs to another user", host)
		       : access(LAB_FOLDER, F_OK) == 0
			       ? sentence("%s: there is no such host in this lab, or it is off",
					  host)
			       : sentence("%s: there is no lab here; start one with mvbench lab "
					  "run or mvbench lab up",
					  host);
	return lab_request(fd, words, status);
}
