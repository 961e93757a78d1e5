/*
 * browser.c - a page in chromium, over the DevTools protocol on a pipe.
 */
#include "tests/browser.h"
#include "tests/fixture.h"

#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void start(struct browser *b, const char *profile)
{
	int down[2], up[2];
	char *folder_of AUTOFREE = sentence("--user-data-dir=%s", profile);
	ck_assert(pipe(down) == 0 && pipe(up) == 0);
	b->process = fork();
	ck_assert_int_ge(b->process, 0);
	if (b->process == 0) {
		/* chromium reads on 3 and writes on 4. Both may be in use here, so the pipes get
		 * higher numbers first */
		int in = dup2(down[0], 20), out = dup2(up[1], 21);
		for (int i = 3; i < 20; i++)
			close(i);
		dup2(in, 3);
		dup2(out, 4);
		close(in);
		close(out);
		if (!freopen("/dev/null", "w", stderr) || !freopen("/dev/null", "w", stdout))
			_exit(126);
		execlp("chromium", "chromium", "--headless=new", "--no-sandbox", "--disable-gpu",
		       "--disable-dev-shm-usage", "--no-first-run", "--remote-debugging-pipe",
		       folder_of, NULL);
		_exit(127);
	}
	close(down[0]);
	close(up[1]);
	b->to = down[1];
	b->from = up[0];
}

/* The next message, from the heap. */
static char *message(struct browser *b)
{
	for (;;) {
		char *end = b->unread ? memchr(b->read, '\0', b->unread) : NULL;
		if (end) {
			size_t n = (size_t)(end - b->read) + 1;
			char *one = must(strdup(b->read));
			b->unread -= n;
			memmove(b->read, b->read + n, b->unread);
			return one;
		}
		b->read = must(realloc(b->read, b->unread + 65536));
		ssize_t got = read(b->from, b->read + b->unread, 65536);
		ck_assert_msg(got > 0, "chromium has ended: %s", strerror(errno));
		b->unread += (size_t)got;
	}
}

static void note(struct browser *b, char *event)
{
	size_t had = b->events ? strlen(b->events) : 0, more = strlen(event);
	b->events = must(realloc(b->events, had + more + 2));
	memcpy(b->events + had, event, more);
	memcpy(b->events + had + more, "\n", 2);
	free(event);
}

const char *browser_call(struct browser *b, const char *method, const char *params)
{
	char *session AUTOFREE =
		*b->session ? sentence(", \"sessionId\": \"%s\"", b->session) : must(strdup(""));
	char *text AUTOFREE = sentence("{\"id\": %d, \"method\": \"%s\", \"params\": %s%s}",
				       ++b->id, method, params, session);
	char *own AUTOFREE = sentence("{\"id\":%d,", b->id);
	size_t n = strlen(text) + 1;
	ck_assert_int_eq(write(b->to, text, n), (ssize_t)n);
	free(b->answer);
	while (strncmp(b->answer = message(b), own, strlen(own)) != 0)
		note(b, b->answer);
	ck_assert_msg(!strstr(b->answer, "\"error\":"), "%s: %s", text, b->answer);
	return b->answer;
}

static void word_after(const char *text, const char *name, char *word, size_t room)
{
	const char *at = strstr(text, name);
	ck_assert_msg(at, "no %s in %s", name, text);
	at += strlen(name);
	snprintf(word, room, "%.*s", (int)strcspn(at, "\""), at);
}

void browser_open(struct browser *b, const char *profile, const char *path)
{
	static const char *const watched[] = {"Page.enable", "Runtime.enable", "Log.enable",
					      "Network.enable"};
	char target[80];
	*b = (struct browser){.id = 0};
	signal(SIGPIPE, SIG_IGN);
	start(b, profile);
	word_after(browser_call(b, "Target.createTarget", "{\"url\": \"about:blank\"}"),
		   "\"targetId\":\"", target, sizeof target);
	char *attach AUTOFREE = sentence("{\"targetId\": \"%s\", \"flatten\": true}", target);
	word_after(browser_call(b, "Target.attachToTarget", attach), "\"sessionId\":\"", b->session,
		   sizeof b->session);
	for (size_t i = 0; i < COUNT(watched); i++)
		browser_call(b, watched[i], "{}");
	char *go AUTOFREE = sentence("{\"url\": \"file://%s\"}", path);
	browser_call(b, "Page.navigate", go);
	while (!b->events || !strstr(b->events, "Page.loadEventFired"))
		note(b, message(b));
}

void browser_expect(struct browser *b, const char *expression, const char *want)
{
	char *params AUTOFREE = sentence("{\"expression\": \"String(%s)\"}", expression);
	char *value AUTOFREE = sentence("\"type\":\"string\",\"value\":\"%s\"", want);
	const char *got = browser_call(b, "Runtime.evaluate", params);
	ck_assert_msg(strstr(got, value), "%s: wanted %s, got %s", expression, want, got);
}

void browser_close(struct browser *b)
{
	browser_call(b, "Browser.close", "{}");
	waitpid(b->process, NULL, 0);
	close(b->to);
	close(b->from);
	free(b->answer);
	free(b->events);
	free(b->read);
}
