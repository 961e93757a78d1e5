/*
 * main.c - the only list of the commands, in the order in which help shows them; finds a command
 * and runs it. Help on the database, which stands above the command line, is handed to it here.
 */
#include "results/gate/gate.h"
#include "runtime/cli/cli.h"
#include "runtime/config/machine.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define COMMANDS(X) \
	X(run) \
	X(sweep) \
	X(submit) \
	X(tune) \
	X(list) \
	X(table) \
	X(show) \
	X(status) \
	X(compare) \
	X(history) \
	X(watch) \
	X(plot) \
	X(report) \
	X(export) \
	X(import) \
	X(delete) \
	X(relabel) \
	X(bench) \
	X(calibrate) \
	X(validate) \
	X(lab) \
	X(check) \
	X(trace) \
	X(blame) \
	X(spread) \
	X(advise) \
	X(manual)

#define DECLARE(name) extern const struct command command_##name;
#define POINT(name)   &command_##name,

COMMANDS(DECLARE)
const struct command *const commands[] = {COMMANDS(POINT) NULL};
topic_source *const topic_sources[] = {table_topics, NULL};

static bool is(const char *word, const char *a, const char *b)
{
	return strcmp(word, a) == 0 || strcmp(word, b) == 0;
}

/* Flushes stdout; the command fails if its output was not written. */
static int printed(int status)
{
	errno = 0;
	bool full = fflush(stdout) != 0 || ferror(stdout);
	if (full && status == EXIT_OK) {
		int why = errno ? errno : stream_failure(stdout);
		complain(sentence("standard output cannot be written (%s)",
				  why ? strerror(why) : "is the disk full?"));
		status = EXIT_FAILED;
	}
	return status;
}

static int command_main(int argc, char **argv)
{
	const struct command *c = NULL;
	if (argc < 2) {
		manual_overview(stderr);
		return EXIT_USER;
	}
	if (is(argv[1], "--help", "-h")) {
		manual_overview(stdout);
		return EXIT_OK;
	}
	if (is(argv[1], "--version", "version")) {
		const struct machine *m = machine();
		printf("mvbench " MVBENCH_VERSION " (%s), %s\n", m->version, m->mpi);
		return EXIT_OK;
	}
	char *wrong = command_find("", argv[1], &c);
	return wrong ? complain(wrong) : command_start(c, argc - 2, argv + 2);
}

int main(int argc, char **argv)
{
	atexit(launcher_hear_out);
	signal(SIGXFSZ, SIG_IGN); /* a file limit (ulimit -f) is then an error that is reported */
	return printed(command_main(argc, argv));
}
