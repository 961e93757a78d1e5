/*
 * browser.h - a page in chromium without a window, controlled over its debugging pipe.
 */
#ifndef BROWSER_H
#define BROWSER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct browser {
	int to, from; /* messages of JSON, a NUL after each */
	pid_t process;
	int id; /* of the last message that was sent */
	char session[80];
	char *answer; /* to the last one */
	char *events; /* everything that it sent by itself, a line each */
	char *read;   /* read, but not split into messages yet */
	size_t unread;
};

/* profile: a folder for its files. The page is loaded when this returns. */
void browser_open(struct browser *b, const char *profile, const char *path);
/* Calls a method of the DevTools protocol; params: JSON, in braces. */
const char *browser_call(struct browser *b, const char *method, const char *params);
/* The expression (JavaScript without double quotes) must give this string. */
void browser_expect(struct browser *b, const char *expression, const char *want);
void browser_close(struct browser *b);

#endif
