/*
 * pager.c - shows long output one screen at a time, as git does: on a terminal, standard output
 * becomes a pipe to $MVBENCH_PAGER, $PAGER or less. With LESS=FRX, less ends at once if all fits.
 */
#include "runtime/cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t pager; /* 0 = none */

/* NULL = no pager. */
static const char *pager_command(void)
{
	const char *own = getenv("MVBENCH_PAGER"), *any = getenv("PAGER");
	const char *command = own ? own : any;
	if (!command)
		return program_exists("less") ? "less" : NULL;
	return *command && strcmp(command, "cat") != 0 ? command : NULL;
}

/* The terminal is the pager's until it ends. */
static void pager_end(void)
{
	close(STDOUT_FILENO);
	if (!isatty(STDERR_FILENO))
		close(STDERR_FILENO);
	while (waitpid(pager, NULL, 0) < 0 && errno == EINTR)
		;
}

static void flush_and_end(void)
{
	fflush(stdout);
	pager_end();
}

static void interrupted(int signal)
{
	(void)signal;
	outputs_remove();
	pager_end();
	_exit(EXIT_INTERRUPTED);
}

static void exec_pager(const char *command, int in)
{
	setenv("LESS", "FRX", 0);
	dup2(in, STDIN_FILENO);
	execl("/bin/sh", "sh", "-c", command, (char *)NULL);
	_exit(127);
}

void pager_start(void)
{
	const char *command = isatty(STDOUT_FILENO) ? pager_command() : NULL;
	char columns[16];
	int ends[2];
	if (!command || pager || pipe2(ends, O_CLOEXEC) != 0)
		return;
	fflush(NULL);
	snprintf(columns, sizeof columns, "%d", terminal_columns());
	if (strcmp(columns, "0") != 0)
		setenv("COLUMNS", columns, 0); /* the pipe has none */
	pager = fork();
	if (pager == 0)
		exec_pager(command, ends[0]);
	if (pager > 0) {
		dup2(ends[1], STDOUT_FILENO);
		if (isatty(STDERR_FILENO))
			dup2(ends[1], STDERR_FILENO);
		signal(SIGINT, interrupted);
		atexit(flush_and_end);
	} else {
		pager = 0;
	}
	close(ends[0]);
	close(ends[1]);
}

bool on_terminal(FILE *f)
{
	return isatty(fileno(f)) || (pager && fileno(f) == STDOUT_FILENO);
}
