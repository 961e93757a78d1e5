/*
 * time.c - wall times, of two programs: they run in turn (A B B A A B ...), so that the moods
 * of a machine hit both alike, and a pair's ratio says how much longer this one's epochs take.
 *
 * The interval of the median ratio is the exact bootstrap's: the view bootstrap_rank says which of
 * the sorted ratios are its ends. A cell is slower when the lower end is beyond --min-time.
 */
#include "results/gate/gate.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct timing {
	struct store *store;
	const struct gate_options *o;
	char self[4096], folder[64];
	bool interrupted;
};

/* Runs program with these words; its standard output into text. Returns the exit status. Ctrl-C
 * reaches that run too, which may be done before it looks: so it is kept for us until then. */
static int run_program(struct timing *t, const char *program, char **words, char *text, size_t room)
{
	size_t n = 0, got = 0;
	int out[2], status;
	sigset_t interrupt, before;

	while (words[n])
		n++;
	const char **argv = must(calloc(n + 5, sizeof *argv));
	char *db = sentence("--db=%s/%d.db", t->folder, program == t->self);
	argv[0] = program;
	argv[1] = "run";
	memcpy(argv + 2, words, n * sizeof *argv);
	argv[n + 2] = db;
	argv[n + 3] = "--format=json";
	CHECK(pipe(out) == 0, "pipe: %s", strerror(errno));
	fflush(NULL);
	sigemptyset(&interrupt);
	sigaddset(&interrupt, SIGINT);
	sigprocmask(SIG_BLOCK, &interrupt, &before);
	pid_t pid = fork();
	CHECK(pid >= 0, "fork: %s", strerror(errno));
	if (pid == 0) {
		sigprocmask(SIG_SETMASK, &before, NULL);
		dup2(out[1], STDOUT_FILENO);
		close(out[0]);
		close(out[1]);
		execv(program, (char *const *)argv);
		fprintf(stderr, "mvbench: cannot start %s: %s\n", program, strerror(errno));
		_exit(127);
	}
	close(out[1]);
	for (ssize_t k; got + 1 < room && (k = read(out[0], text + got, room - 1 - got)) > 0;)
		got += (size_t)k;
	text[got] = '\0';
	close(out[0]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		continue;
	bool stopped = sigtimedwait(&interrupt, NULL, &(struct timespec){.tv_sec = 0}) == SIGINT;
	sigprocmask(SIG_SETMASK, &before, NULL);
	free(db);
	free(argv);
	return WIFEXITED(status) && !stopped ? WEXITSTATUS(status) : EXIT_INTERRUPTED;
}

/* The median seconds of an epoch of one run; NaN, and *wrong, when it did not work. */
static double time_run(struct timing *t, const char *program, char **words, char **wrong)
{
	char text[8192];
	double x = NAN;
	int status = run_program(t, program, words, text, sizeof text);

	t->interrupted |= status == EXIT_INTERRUPTED;
	if (status == EXIT_OK)
		*wrong = sql_reals(t->store, &x, 1, "SELECT ?1->>'epoch_seconds'", "t", text);
	if (!*wrong && !t->interrupted && !(x > 0))
		*wrong = sentence("--time: %s run does not say how long its epochs take (exit "
				  "status %d)",
				  program, status);
	return x;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Sorts the ratios: their median, and its interval. */
static char *sum_up(struct timing *t, double *ratio, int64_t n, double *median, double *low,
		    double *high)
{
	double rank[2];
	char *wrong = sql_reals(t->store, rank, 2,
				"SELECT low, high FROM bootstrap_rank WHERE n = ?1", "i", n);

	qsort(ratio, (size_t)n, sizeof *ratio, by_size);
	*median = (ratio[(n - 1) / 2] + ratio[n / 2]) / 2;
	*low = isnan(rank[0]) ? ratio[0] : ratio[(int64_t)rank[0] - 1];
	*high = isnan(rank[1]) ? ratio[n - 1] : ratio[(int64_t)rank[1] - 1];
	return wrong;
}

/* Words that both programs know: what the baseline has, and nothing that is left at its default. */
static char *words_of(struct timing *t, const struct sql *cell, char ***words)
{
	struct sql q =
		sql_select(t->store, "SELECT key, atom FROM json_each(?1)", "t", sql_text(cell, 1));
	size_t n = 0;

	*words = must(calloc(2, sizeof **words));
	(*words)[n++] = sentence("--seed=%lld", (long long)sql_int(cell, 2));
	while (sql_next(&q)) {
		*words = must(realloc(*words, (n + 2) * sizeof **words));
		(*words)[n++] = sentence("--%s=%s", sql_text(&q, 0), sql_text(&q, 1));
		(*words)[n] = NULL;
	}
	return sql_done(&q);
}

static char *time_cell(struct timing *t, FILE *f, const struct sql *cell, bool *slower)
{
	int64_t n = t->o->pairs;
	double *ratio = must(calloc((size_t)n, sizeof *ratio)), median = NAN, low = NAN, high = NAN;
	char **words, *wrong = words_of(t, cell, &words);

	for (int64_t i = 0; !wrong && i < n && !t->interrupted; i++) {
		const char *first = i % 2 ? t->self : t->o->program;
		const char *second = i % 2 ? t->o->program : t->self;
		double a = time_run(t, first, words, &wrong);
		double b = wrong || t->interrupted ? NAN : time_run(t, second, words, &wrong);
		ratio[i] = i % 2 ? a / b : b / a;
		if (!wrong && !t->interrupted)
			fprintf(stderr, "mvbench: %s, pair %lld of %lld: %.3f\n", sql_text(cell, 0),
				(long long)i + 1, (long long)n, ratio[i]);
	}
	if (!wrong && !t->interrupted)
		wrong = sum_up(t, ratio, n, &median, &low, &high);
	*slower = !wrong && !t->interrupted && low > 1 + t->o->min_time / 100;
	if (!wrong && !t->interrupted)
		fprintf(f, "%s  %s  epochs take %.3f (%.3f..%.3f) times as long, %lld pairs\n",
			*slower                           ? "SLOWER"
			: high < 1 - t->o->min_time / 100 ? "faster"
							  : "ok    ",
			sql_text(cell, 0), median, low, high, (long long)n);
	free_words(words);
	free(ratio);
	return wrong;
}

static void remove_folder(const struct timing *t)
{
	for (int i = 0; i < 2; i++) {
		char *path = sentence("%s/%d.db", t->folder, i);
		database_remove(path);
		free(path);
	}
	rmdir(t->folder);
}

/* Files of the current folder are found without a path, as by run_program. */
char *gate_time_check(const struct gate_options *o)
{
	static const char name[] = "mvbench ";
	char said[sizeof name] = "", *quoted = word_quoted(o->program);
	char *command = sentence("%s%s --version </dev/null 2>/dev/null",
				 strchr(o->program, '/') ? "" : "./", quoted);
	FILE *f = popen(command, "r");
	bool good = f && fgets(said, sizeof said, f) && strcmp(said, name) == 0;

	if (f)
		pclose(f);
	free(command);
	free(quoted);
	return good ? NULL
		    : sentence("--program=%s: this is no mvbench: it does not say which version "
			       "it is with --version",
			       o->program);
}

int gate_time(struct store *s, FILE *f, const struct gate_options *o, int64_t *slower)
{
	struct timing t = {.store = s, .o = o, .folder = "/tmp/mvbench-time-XXXXXX"};
	ssize_t n = readlink("/proc/self/exe", t.self, sizeof t.self - 1);
	bool slow;

	t.self[n > 0 ? n : 0] = '\0';
	if (!mkdtemp(t.folder))
		return complain(sentence("%s: %s", t.folder, strerror(errno)));
	struct sql q =
		sql_select(s,
			   "SELECT options->>'workload' || ' ' || config, options, min(seed) "
			   "FROM baseline WHERE name = ?1 AND options->>'platform' <> 'sim' "
			   "GROUP BY cell ORDER BY options",
			   "t", o->against);
	char *wrong = NULL;
	while (!wrong && !t.interrupted && sql_next(&q)) {
		wrong = time_cell(&t, f, &q, &slow);
		*slower += slow;
	}
	wrong = first_wrong(wrong, sql_done(&q));
	remove_folder(&t);
	if (wrong)
		return complain(wrong);
	return t.interrupted ? EXIT_INTERRUPTED : EXIT_OK;
}
