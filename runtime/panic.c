/*
 * panic.c - how a process ends early, and the sentences that say why.
 *
 * A bug of ours ends all ranks with a file and a line. A user's error is one sentence that says
 * what to do; a worker hands it to whoever set a handler, so that it reaches the terminal once.
 */
#include "platform.h"

#include <stdarg.h>
#include <stdlib.h>

static user_error_fn *handler;

static char *format(const char *fmt, va_list args)
{
	char *s;

	return vasprintf(&s, fmt, args) < 0 ? must(NULL) : s;
}

char *sentence(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	char *s = format(fmt, args);
	va_end(args);
	return s;
}

void *must(void *p)
{
	if (!p) {
		fputs("mvbench: out of memory\n", stderr);
		platform_abort(EXIT_FAILED);
	}
	return p;
}

void panic(const char *file, int line, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	fflush(stdout);
	fprintf(stderr, "mvbench: bug: %s:%d: ", file, line);
	vfprintf(stderr, fmt, args);
	fputc('\n', stderr);
	va_end(args);
	platform_abort(EXIT_FAILED);
}

user_error_fn *user_error_handler(user_error_fn *f)
{
	user_error_fn *before = handler;

	handler = f;
	return before;
}

void user_error(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	char *s = format(fmt, args);
	va_end(args);
	if (handler)
		handler(s);
	fprintf(stderr, "mvbench: %s\n", s);
	exit(EXIT_USER);
}
