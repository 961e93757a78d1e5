/*
 * shell.c - shell commands of tests, and what they print.
 */
#include "tests/shell.h"
#include "tests/fixture.h"

#include <check.h>
#include <stdarg.h>
#include <string.h>

char printed[65536];

void run(int status, const char *fmt, ...)
{
	char command[2048];
	va_list args;
	va_start(args, fmt);
	size_t n = (size_t)snprintf(command, sizeof command, "{ ");
	n += (size_t)vsnprintf(command + n, sizeof command - n, fmt, args);
	va_end(args);
	ck_assert_uint_lt(n, sizeof command - 16);
	strcat(command, "\n} 2>&1");
	int got = command_output(command, printed, sizeof printed);
	ck_assert_msg(got == status, "%s: status %d, expected %d\n%s", command, got, status,
		      printed);
}

void expect(const char *words)
{
	ck_assert_msg(strstr(printed, words), "expected \"%s\" in\n%s", words, printed);
}
