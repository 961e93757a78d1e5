/*
 * panic.c - early ends of a process, and their messages.
 *
 * A bug in mvbench ends all ranks with a file and a line. A user's error is one message that states
 * what to do. A worker passes it to the handler, because it must reach the terminal only once.
 */

#include "runtime/base/base.h"

#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static void (*handler)(const char *sentence);
static void (*abort_all)(int status) = exit; /* does not return */
static const char *speaker;                  /* NULL: this is the only process */
static char *redirected; /* [redirected_room]: another process prints this; NULL = print it here */
static size_t redirected_room;

/* In UTF-8, control characters are 0..1f, 7f, and c2 before 80..9f. */
void text_disarm(char *s)
{
	for (unsigned char *c = (unsigned char *)s; *c; c++) {
		bool second = *c == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0;
		if (second || *c == 0x7f || (*c < 0x20 && *c != '\n' && *c != '\t'))
			*c = '?';
		if (second)
			*++c = '?';
	}
}

/* In one call, because other ranks may print at the same time. */
static void print_message(char *text)
{
	text_disarm(text);
	fprintf(stderr, "mvbench: %s%s%s\n", speaker ? speaker : "", speaker ? ": " : "", text);
}

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

/* Does not use the heap, which may be corrupt. head: start of the message. */
static void last_words(const char *head, const char *fmt, va_list args) __attribute__((noreturn));
static void last_words(const char *head, const char *fmt, va_list args)
{
	char text[1024];
	size_t n = (size_t)snprintf(text, sizeof text, "%s", head);
	vsnprintf(text + n, sizeof text - n, fmt, args);
	fflush(stdout);
	if (redirected)
		snprintf(redirected, redirected_room, "%s", text);
	else
		print_message(text);
	abort_all(EXIT_FAILED);
	abort();
}

void panic(const char *file, int line, const char *fmt, ...)
{
	char head[512];
	va_list args;
	snprintf(head, sizeof head, BUG ": %s:%d: ", file, line);
	va_start(args, fmt);
	last_words(head, fmt, args);
}

void failure(const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	last_words(FAILURE ": ", fmt, args);
}

void panic_abort_with(void (*f)(int status))
{
	abort_all = f;
}

void panic_to(char *text, size_t room)
{
	redirected = text;
	redirected_room = room;
}

void panic_as(const char *name)
{
	speaker = name;
}

void print_failure(const char *text)
{
	if (!speaker)
		return;
	fprintf(stderr, "mvbench: %s: " FAILURE ": %s\n", speaker, text);
}

void *must(void *p)
{
	if (!p)
		failure("out of memory");
	return p;
}

void user_error_handler(void (*f)(const char *sentence))
{
	handler = f;
}

void user_error(const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	char *s = format(fmt, args);
	va_end(args);
	text_disarm(s);
	if (handler)
		handler(s);
	fprintf(stderr, "mvbench: %s\n", s);
	exit(EXIT_USER);
}

int complain(char *wrong)
{
	text_disarm(wrong);
	fprintf(stderr, "mvbench: %s\n", wrong);
	free(wrong);
	return EXIT_USER;
}

/* Linux keeps a blocked signal even if it is ignored, as by nohup. */
sigset_t end_signals(void)
{
	static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
	sigset_t signals;
	sigemptyset(&signals);
	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
		struct sigaction now;
		if (sigaction(ends[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
			sigaddset(&signals, ends[i]);
	}
	return signals;
}

bool end_is_requested(void)
{
	sigset_t pending, signals = end_signals();
	sigpending(&pending);
	sigandset(&pending, &pending, &signals);
	return !sigisemptyset(&pending);
}

bool end_take(void)
{
	const struct timespec now = {0};
	sigset_t signals = end_signals();
	bool taken = false;
	while (sigtimedwait(&signals, NULL, &now) > 0)
		taken = true;
	return taken;
}

bool thread_start(pthread_t *thread, void *(*loop)(void *self), void *self)
{
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	bool started = pthread_create(thread, NULL, loop, self) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return started;
}
