/*
 * time.c - compares wall times of two programs. They run in turn (A B B A A B ...), so that changes
 * in load affect both alike. The ratio of a pair says how much longer the epochs of this program
 * take.
 *
 * The interval of the median ratio is exact (median.sql). A cell is slower if the lower end is
 * beyond --min-time.
 */
#include "results/gate/gate.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct timing {
	struct store *store;
	const struct gate_options *o;
	const struct arguments *a; /* options of run that were given */
	char *self, *folder;
	bool interrupted;
	int64_t busy; /* runs of this cell that had less than CORES_SHARE_LEAST of their cores */
};

struct program {
	char *const *words;
	int error; /* its standard error */
	const sigset_t *signals;
};

static void exec_program(const void *ctx)
{
	const struct program *p = ctx;
	sigprocmask(SIG_SETMASK, p->signals, NULL);
	prctl(PR_SET_PDEATHSIG, SIGTERM); /* a signal to this process only ends both */
	dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
	dup2(p->error, STDERR_FILENO);
	execv(p->words[0], p->words);
	dprintf(STDERR_FILENO, "mvbench: cannot start %s: %s\n", p->words[0], strerror(errno));
}

/* Runs a program; its standard output goes into text. Returns the exit status. Ctrl-C also reaches
 * it, and it may end before it notices. SIGINT is therefore blocked here, and checked when it has
 * ended. */
static int run_program(char *const *words, bool quiet, char *text, size_t room)
{
	int error AUTOCLOSED = quiet ? open("/dev/null", O_WRONLY | O_CLOEXEC)
				     : fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
	sigset_t interrupt, before;
	sigemptyset(&interrupt);
	sigaddset(&interrupt, SIGINT);
	sigprocmask(SIG_BLOCK, &interrupt, &before);
	int status = child_run(exec_program, &(struct program){words, error, &before}, text, room);
	CHECK(status != -1, "cannot start a child process: %m");
	bool stopped = sigtimedwait(&interrupt, NULL, &(struct timespec){.tv_sec = 0}) == SIGINT;
	sigprocmask(SIG_SETMASK, &before, NULL);
	return WIFEXITED(status) && !stopped ? WEXITSTATUS(status) : EXIT_INTERRUPTED;
}

/* Measures the median seconds of an epoch in one run. */
static char *time_run(struct timing *t, char **words, double *x)
{
	char text[8192];
	int status = run_program(words, false, text, sizeof text);
	double got[2] = {NAN, NAN};
	t->interrupted |= status == EXIT_INTERRUPTED;
	if (status == EXIT_OK)
		TRY(sql_reals(t->store, got, 2, "SELECT ?1->>'epoch_seconds', ?1->>'cores_share'",
			      "t", text));
	t->busy += got[1] < CORES_SHARE_LEAST;
	*x = got[0];
	if (t->interrupted || *x > 0)
		return NULL;
	return sentence("--time: %s run printed no time of its epochs (exit status %d)", words[0],
			status);
}

/* Makes the command of a run, of this program or the other one. It has the options of the baseline
 * and those that were given, and no defaults, except those that changed (earlier). */
static char *timing_words(struct timing *t, const struct sql *cell, bool own, char ***words)
{
	struct settings all ENDS_WITH(settings_free) = {.setting = NULL};
	size_t n = 0;
	TRY(gate_settings(t->store, sql_text(cell, 1), sql_int(cell, 2), t->a->option,
			  t->a->options, &all));
	APPEND(*words, n, must(strdup(own ? t->self : t->o->program)));
	APPEND(*words, n, must(strdup("run")));
	APPEND(*words, n, sentence("--db=%s/%d.db", t->folder, own));
	APPEND(*words, n, must(strdup("--format=json")));
	for (const struct setting *at = all.setting; at < all.setting + all.n; at++)
		APPEND(*words, n, sentence("--%s=%s", at->name, at->value ? at->value : "true"));
	APPEND(*words, n, NULL);
	return NULL;
}

static char *time_cell(struct timing *t, FILE *f, const struct sql *cell, bool *slower)
{
	int64_t n = t->o->pairs;
	double ratio, m[3]; /* the median of the ratios, and its interval */
	double took[2];     /* by the other program, and by this one */
	char **other AUTOWORDS = NULL, **own AUTOWORDS = NULL;
	*slower = false;
	t->busy = 0;
	TRY(timing_words(t, cell, false, &other));
	TRY(timing_words(t, cell, true, &own));
	TRY(sql_script(t->store, "DROP TABLE IF EXISTS temp.figure; "
				 "CREATE TEMP TABLE figure (number, name, x)"));
	for (int64_t i = 0; i < n; i++) {
		for (int64_t k = i; k < i + 2 && !t->interrupted; k++)
			TRY(time_run(t, k % 2 ? own : other, &took[k % 2]));
		if (t->interrupted)
			return NULL;
		ratio = took[1] / took[0];
		TRY(sql_change(t->store, "INSERT INTO figure VALUES ('', '', ?1)", "r", ratio));
		complain(sentence("%s, pair %lld of %lld: %.3f", sql_text(cell, 0),
				  (long long)i + 1, (long long)n, ratio));
	}
	TRY(sql_reals(t->store, m, 3, "WITH /* MEDIANS */ SELECT mid, low, high FROM median", ""));
	*slower = m[1] > 1 + t->o->min_time / 100;
	char *name AUTOFREE = text_visible(sql_text(cell, 0));
	fprintf(f, "%s  %s  epochs take %.3f (%.3f..%.3f) times as long, %lld pairs",
		*slower                           ? "SLOWER"
		: m[2] < 1 - t->o->min_time / 100 ? "faster"
						  : "ok    ",
		name, m[0], m[1], m[2], (long long)n);
	if (t->busy)
		fprintf(f, "; %lld of %lld runs had less than 90 %% of their cores",
			(long long)t->busy, (long long)(2 * n));
	fputc('\n', f);
	return NULL;
}

char *gate_time_check(const struct gate_options *o)
{
	static const char name[] = "mvbench ";
	char *program AUTOFREE = must(strdup(o->program)), version[] = "--version", said[256];
	int status = run_program((char *[]){program, version, NULL}, true, said, sizeof said);
	if (status == EXIT_INTERRUPTED)
		raise(SIGINT); /* nothing has begun */
	return strncmp(said, name, strlen(name)) == 0
		       ? NULL
		       : sentence("--program=%s: not an mvbench: it prints no version with "
				  "--version",
				  o->program);
}

static char *time_cells(struct timing *t, FILE *f, int64_t *slower)
{
	struct sql q AUTODONE =
		sql_select(t->store,
			   "SELECT options->>'workload' || ' ' || config, options, min(seed) "
			   "FROM baseline WHERE name = ?1 AND options->>'platform' <> 'sim' "
			   "GROUP BY cell ORDER BY options",
			   "t", t->o->against);
	bool slow;
	while (!t->interrupted && sql_next(&q)) {
		TRY(time_cell(t, f, &q, &slow));
		*slower += slow;
	}
	return sql_done(&q);
}

int gate_time(struct check *c, FILE *f)
{
	char *self AUTOFREE = program_path(), *folder AUTOREMOVED = NULL;
	char *wrong = folder_temporary("time", &folder);
	struct timing t = {.store = c->store, .o = c->o, .a = c->a, .self = self, .folder = folder};
	if (!wrong)
		wrong = time_cells(&t, f, &c->slower);
	if (wrong)
		return complain(wrong);
	return t.interrupted ? EXIT_INTERRUPTED : EXIT_OK;
}
