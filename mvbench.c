/*
 * mvbench.c - finds the command and runs it; nothing else.
 */
#include "results/results.h"

#include <string.h>

#define COMMANDS(X) \
	X(run, "train one configuration, and record it") \
	X(sweep, "run the cross product of a job file") \
	X(list, "show the strategies, updaters, workloads, devices and platforms that there are") \
	X(table, "print results as a table") \
	X(plot, "draw results") \
	X(calibrate, "measure this machine for the simulator") \
	X(validate, "hold the simulator against real runs, cell by cell")

static const struct command {
	const char *name, *summary;
	int (*run)(int argc, char **argv);
} commands[] = {
#define ROW(name, summary) {#name, summary, command_##name},
	COMMANDS(ROW)
#undef ROW
};
enum { COUNT = sizeof commands / sizeof *commands };

static void help(FILE *f)
{
	fprintf(f, "usage: mvbench COMMAND [--option=value ...]\n\n"
		   "A benchmark of synchronisation strategies for distributed SGD.\n\n");
	for (size_t i = 0; i < COUNT; i++)
		fprintf(f, "  %-8s %s\n", commands[i].name, commands[i].summary);
	fprintf(f, "\nmvbench COMMAND --help says more. To begin with:\n"
		   "  mvbench run --workload=mlp --strategy=allreduce --workers=2 --epochs=3\n"
		   "  mvbench table\n");
}

static const struct command *find(const char *name)
{
	const char *names[COUNT], *near;

	for (size_t i = 0; i < COUNT; i++) {
		names[i] = commands[i].name;
		if (strcmp(name, names[i]) == 0)
			return &commands[i];
	}
	near = nearest(name, names, COUNT);
	if (near)
		fprintf(stderr, "mvbench: %s: there is no such command; did you mean %s?\n", name,
			near);
	else
		fprintf(stderr,
			"mvbench: %s: there is no such command; mvbench --help lists them\n", name);
	return NULL;
}

static bool is(const char *word, const char *a, const char *b)
{
	return strcmp(word, a) == 0 || strcmp(word, b) == 0;
}

int main(int argc, char **argv)
{
	static char *ask_help[] = {"--help", NULL};
	const struct command *c;

	if (argc < 2) {
		help(stderr);
		return EXIT_USER;
	}
	if (is(argv[1], "--help", "-h") || (argc == 2 && is(argv[1], "help", "help"))) {
		help(stdout);
		return EXIT_OK;
	}
	if (is(argv[1], "--version", "version")) {
		const struct machine *m = machine();
		printf("mvbench %s%s, %s\n", m->git_commit, m->git_dirty ? "-dirty" : "", m->mpi);
		return EXIT_OK;
	}
	if (strcmp(argv[1], "help") == 0)
		return (c = find(argv[2])) ? c->run(1, ask_help) : EXIT_USER;
	return (c = find(argv[1])) ? c->run(argc - 2, argv + 2) : EXIT_USER;
}
