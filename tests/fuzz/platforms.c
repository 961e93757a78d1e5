/*
 * platforms.c - malformed platforms of SimGrid. SimGrid ends the process on an error; each platform
 * is therefore simulated in a process of its own (FUZZ_PROGRAM), which must report an error or
 * simulate. SimGrid is not instrumented: coverage does not guide the changes. They change whole
 * values and lines only; most results are still XML.
 */
#include "tests/fuzz/fuzz.h"
#include "results/db/db.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The index of the n-th mark of this kind, from 0; size if it is missing. */
static size_t find(const uint8_t *data, size_t size, char mark, size_t n)
{
	size_t at = 0;
	for (; at < size; at++)
		if (data[at] == mark && n-- == 0)
			break;
	return at;
}

static size_t count(const uint8_t *data, size_t size, char mark)
{
	size_t n = 0;
	for (size_t i = 0; i < size; i++)
		n += data[i] == mark;
	return n;
}

/* Replaces the bytes from `at` to `end` by n bytes of text. Returns the new size. */
static size_t replace(uint8_t *data, size_t size, size_t most, size_t at, size_t end,
		      const char *text, size_t n)
{
	if (size - (end - at) + n > most)
		return size;
	char *copy AUTOFREE = must(malloc(n + 1));
	memcpy(copy, text, n); /* text may point into data */
	memmove(data + at + n, data + end, size - end);
	memcpy(data + at, copy, n);
	return size - (end - at) + n;
}

size_t mutate_platform(uint8_t *data, size_t size, size_t most, unsigned seed)
{
	static const char *const value[] = {
		"0",       "-1",          "1",          "nan",
		"inf",     "1e308",       "1e-308",     "1e999",
		"",        "1Gf",         "1us",        "-1Bps",
		"100MBps", "1e30s",       "0-3",        "0-0",
		"3-1",     "64",          "1000000000", "SHARED",
		"FATPIPE", "SPLITDUPLEX", "Full",       "Floyd",
		"Cluster", "Vivaldi",     "a&amp;b",    "&lt;",
		"&quot;",  "node-0",      "../x",       "0:1.5;1024:0.9",
		"0:0",     ";",           "%s",         "\xff"};
	size_t lines = count(data, size, '\n'), quotes = count(data, size, '"'), from, to;
	if (seed % 8 == 0 && lines > 1) { /* deletes a line */
		from = find(data, size, '\n', seed / 8 % lines);
		to = find(data, size, '\n', seed / 8 % lines + 1);
		return replace(data, size, most, from, to, "", 0);
	}
	if (seed % 8 == 1 && lines > 1) { /* copies a line elsewhere */
		from = find(data, size, '\n', seed / 8 % lines);
		to = find(data, size, '\n', seed / 8 % lines + 1);
		size_t at = find(data, size, '\n', seed / 97 % lines);
		return replace(data, size, most, at, at, (const char *)data + from, to - from);
	}
	if (quotes < 2)
		return size;
	from = find(data, size, '"', seed / 8 % (quotes - 1)) + 1;
	to = from + find(data + from, size - from, '"', 0);
	const char *text = value[seed / 1009 % (sizeof value / sizeof *value)];
	if (seed % 8 == 2) { /* copies another value */
		size_t other = find(data, size, '"', seed / 1009 % (quotes - 1)) + 1;
		return replace(data, size, most, from, to, (const char *)data + other,
			       find(data + other, size - other, '"', 0));
	}
	return replace(data, size, most, from, to, text, strlen(text));
}

/* Its output goes to folder/said. Returns its wait status. */
static int simulate(const char *platform)
{
	const char *program = getenv("FUZZ_PROGRAM");
	char *xml AUTOFREE = sentence("--sim.platform=%s", platform),
		  *db AUTOFREE = sentence("--db=%s/p.db", folder),
		  *said AUTOFREE = sentence("%s/said", folder);
	char *const words[] = {"prlimit",
			       "--cpu=20",
			       "--as=16000000000",
			       (char *)(uintptr_t)program,
			       "run",
			       "--workload=perceptron",
			       "--strategy=allreduce",
			       "--workers=3",
			       "--epochs=1",
			       "--batch=400",
			       "--platform=sim",
			       "--sim.step-time=1ms",
			       xml,
			       db,
			       NULL};
	posix_spawn_file_actions_t files;
	pid_t child;
	int status = 0;
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, 1, said, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	posix_spawn_file_actions_adddup2(&files, 1, 2);
	CHECK(program && posix_spawnp(&child, *words, &files, NULL, words, environ) == 0,
	      "FUZZ_PROGRAM must name the program that simulates: %m");
	while (waitpid(child, &status, 0) < 0) /* libFuzzer's timer interrupts it */
		CHECK(errno == EINTR, "waitpid: %m");
	posix_spawn_file_actions_destroy(&files);
	database_remove(db + strlen("--db="));
	return status;
}

void read_platform(const uint8_t *data, size_t size)
{
	char *path AUTOFREE = write_file("platform.xml", data, size);
	int status = simulate(path);
	if (WIFEXITED(status) &&
	    (WEXITSTATUS(status) == EXIT_OK || WEXITSTATUS(status) == EXIT_USER))
		return;
	char *said AUTOFREE = sentence("%s/said", folder), *text AUTOFREE = text_read(said);
	fprintf(stderr, "ended as %#x: %s\n", (unsigned)status, text ? text : "");
	abort();
}
