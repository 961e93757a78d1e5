/*
 * simulator.c - asks the simulator whether the workers of a configuration can start on its
 * platform. Only SimGrid knows the machines of a platform: how many workers they take, and whether
 * these share memory.
 */
#include "results/run/run.h"
#include "runtime/config/dataset.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The answers so far: the cells of a sweep ask for few different starts. */
static struct answer {
	char *words, *wrong; /* wrong NULL: nothing */
} * answers;
static size_t count;

/* The options, without those that do not change how workers start. */
static char *words_of_start(char *const *words)
{
	static const char *const other[] = {
		"--seed=",   "--arrival-seed=", "--label=", "--lr=",
		"--epochs=", "--straggle=",     "--batch=", "--momentum="};
	struct text t;
	FILE *f = text_open(&t);
	for (; *words; words++) {
		bool counts = true;
		for (size_t i = 0; i < sizeof other / sizeof *other; i++)
			counts &= strncmp(*words, other[i], strlen(other[i])) != 0;
		if (counts)
			fprintf(f, "%s\n", *words);
	}
	return text_close(&t);
}

static char *simulator_path(void)
{
	char *self AUTOFREE = program_path();
	return sentence("%s-sim", self);
}

static void exec_simulator(const void *ctx)
{
	char *const *words = ctx, *simulator = simulator_path();
	const char **argv = NULL;
	size_t n = 0;
	APPEND(argv, n, simulator);
	APPEND(argv, n, "run");
	for (; *words; words++)
		APPEND(argv, n, *words);
	APPEND(argv, n, "--dry-run");
	APPEND(argv, n, NULL);
	execv(simulator, (char *const *)argv);
	dprintf(STDERR_FILENO, "%s: %s", simulator, strerror(errno));
}

/* Sets a->wrong: NULL, or a message. */
static void ask(struct answer *a, char *const *words)
{
	char text[16384];
	int status = child_run(exec_simulator, words, text, sizeof text);
	CHECK(status != -1, "a child process: %m");
	const char *ours = strstr(text, "mvbench: "), *from = ours ? ours + 9 : text;
	if (status != 0 && !WIFSIGNALED(status)) /* a run tells why the simulator dies */
		a->wrong = sentence("%.*s", (int)strcspn(from, "\n"), from);
}

char *simulator_try(const struct config *c)
{
	char *simulator AUTOFREE = simulator_path(), **words AUTOWORDS = config_words(c);
	char *start AUTOFREE = words_of_start(words);
	size_t i = 0;
	if (access(simulator, X_OK) != 0) /* a run says that it is missing */
		return NULL;
	while (i < count && strcmp(answers[i].words, start) != 0)
		i++;
	if (i == count) {
		struct answer new = {.words = must(strdup(start))};
		ask(&new, words);
		APPEND(answers, count, new);
	}
	if (answers[i].wrong)
		return must(strdup(answers[i].wrong));
	char *tried AUTOFREE = platform_tried(c);
	setenv(PLATFORM_TRIED, tried, 1);
	return NULL;
}
