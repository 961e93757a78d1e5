/*
 * interpreter.c - the Python interpreter: which one, the program that it runs (driver.py), and its
 * runs that only read a file: they write its description, or its data.
 */
#include "runtime/config/plugins.h"
#include "runtime/config/python/python.h"
#include "workloads/net.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TEXT_FILE(driver, "runtime/config/python/driver.py");

const char *python_interpreter(void)
{
	const char *chosen = getenv(PYTHON_VARIABLE);
	return chosen && *chosen ? chosen : "python3";
}

const char *python_program(void)
{
	return driver;
}

char *python_missing(int error)
{
	return sentence("%s: %s; install python3, or give an interpreter with --python=PATH",
			python_interpreter(), strerror(error));
}

/* ---- Files that it reads ---- */

struct describing {
	const char *program, *what, *out;
	char *const *path;
	size_t n;
};

static void exec_python(const void *ctx)
{
	const struct describing *d = ctx;
	const char **argv = must(calloc(d->n + 5, sizeof *argv));
	const char *const first[] = {python_interpreter(), d->program, d->what, d->out};
	memcpy(argv, first, sizeof first);
	memcpy(argv + 4, d->path, d->n * sizeof *argv);
	execvp(argv[0], (char **)(uintptr_t)argv);
	char *wrong = python_missing(errno);
	printf("%s", wrong);
	fflush(stdout);
}

/* Python reads the files, and writes out. NULL, or a message. */
static char *python_write(const char *what, const char *out, char *const *path, size_t n)
{
	char said[4096], *name AUTOFREE = file_in_memory(driver);
	int program AUTOCLOSED = atoi(name + strlen(IN_MEMORY));
	const struct describing d = {name, what, out, path, n};
	(void)program;
	int status = child_run(exec_python, &d, said, sizeof said);
	if (status == 0)
		return NULL;
	size_t length = strlen(said);
	while (length > 0 && said[length - 1] == '\n')
		said[--length] = '\0';
	return length ? sentence("%s", said) : sentence("%s cannot read it", python_interpreter());
}

char *python_describe(const char *out, char *const *path, size_t n)
{
	return python_write("describe", out, path, n);
}

int data_of_python(const char *file, char **wrong)
{
	char *path = (char *)(uintptr_t)file;
	if (plugin_naming(file) != NAMED_BY_USER) {
		*wrong = sentence("--data-dir=%s: a file names it, and you have not: mvbench runs "
				  "only Python files that you type. Give --data-dir=%s",
				  file, file);
		return -1;
	}
	char *out AUTOFREE = file_in_memory("");
	char *said AUTOFREE = python_write("export", out, &path, 1);
	int fd = atoi(out + strlen(IN_MEMORY));
	*wrong = said ? sentence("--data-dir=%s: %s", file, said) : NULL;
	return fd;
}
