/*
 * shell.c - shell commands of tests, and what they print.
 */
#include "tests/shell.h"
#include "tests/fixture.h"
#include "tests/suites.h"

#include <check.h>
#include <stdarg.h>
#include <stdlib.h>
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

const char *python_with(const char *module)
{
	static const char *const python[] = {"python3", "/usr/bin/python3"};
	const char *require = getenv("MVBENCH_REQUIRE");
	if (lacks_program("python3"))
		return NULL;
	for (size_t i = 0; i < COUNT(python); i++) {
		char *look AUTOFREE = sentence("%s -c 'import %s' 2>/dev/null", python[i], module);
		int status = system(look);
		if (status == 0)
			return python[i];
	}
	ck_assert_msg(!require || strcmp(require, "1") != 0 || strcmp(module, "numpy") != 0,
		      "NumPy is not installed, and MVBENCH_REQUIRE=1");
	char *why AUTOFREE = sentence("Python has no module %s", module);
	skipped(why);
	return NULL;
}

void expect(const char *words)
{
	ck_assert_msg(strstr(printed, words), "expected \"%s\" in\n%s", words, printed);
}
