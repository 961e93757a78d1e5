/*
 * mvbench.c - finds the command and runs it; nothing else.
 */
#include "results/results.h"

#include <string.h>

static const struct command *find(const char *name)
{
	const char *names[64], *near;
	size_t n = 0;

	for (; n < sizeof names / sizeof *names && commands[n]; n++) {
		names[n] = commands[n]->name;
		if (strcmp(name, names[n]) == 0)
			return commands[n];
	}
	near = nearest(name, names, n);
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
	const struct command *c;

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
		printf("mvbench %s%s, %s\n", m->git_commit, m->git_dirty ? "-dirty" : "", m->mpi);
		return EXIT_OK;
	}
	return (c = find(argv[1])) ? c->run(argc - 2, argv + 2) : EXIT_USER;
}
