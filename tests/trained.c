/*
 * trained.c - runs tests/tools/train, or its simulated version, in processes of its own, on a small
 * made set of images. It reads the output and the model file.
 */
#include "tests/trained.h"

#include <check.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void trained_data(void)
{
	folder_new();
	idx_put_set(TRAIN_ROWS, TEST_ROWS, false, '-');
}

/* ---- Running the tool ---------------------------------------------------- */

/* Every number that the tool prints. A number that it does not print stays NaN, and its test
 * fails. */
static void read_line(struct result *r, const char *line)
{
	double epoch, bytes, formula, train, test, stale, pushes, most;
	if (sscanf(line,
		   "epoch %lf bytes %lf formula %lf train %lf test %lf staleness %lf/%lf most %lf",
		   &epoch, &bytes, &formula, &train, &test, &stale, &pushes, &most) == 8) {
		r->bytes = bytes, r->formula = formula, r->running_loss = train;
		r->test_loss = test;
		r->stale = stale, r->pushes = pushes, r->most_stale = most;
		if (epoch == 0)
			r->first_test_loss = test;
	}
	sscanf(line, "spread %lf", &r->spread);
	sscanf(line, "allocations %lf", &r->allocations);
	sscanf(line, "computed %lf", &r->computed_s);
	sscanf(line, "communicated %lf", &r->communicated_s);
	char kind[16];
	double seconds;
	if (sscanf(line, "spent %15s %lf", kind, &seconds) == 2)
		for (int k = 0; k < SPENT_KINDS; k++)
			if (strcmp(kind, spent_names[k]) == 0)
				r->spent_s[k] = seconds;
	sscanf(line, "rows %lf sum %lf", &r->rows, &r->numbers);
}

/* The parameters of all results, until the process of the test ends. */
struct kept {
	struct kept *next;
	float param[];
};
static struct kept *kept;

static void read_model(struct result *r, const char *path)
{
	FILE *f = fopen(path, "r");
	ck_assert_ptr_nonnull(f);
	fseek(f, 0, SEEK_END);
	r->params = (size_t)ftell(f) / sizeof(float);
	rewind(f);
	struct kept *k = must(malloc(sizeof *k + r->params * sizeof(float)));
	k->next = kept;
	kept = k;
	r->param = k->param;
	ck_assert_uint_eq(fread(r->param, sizeof(float), r->params, f), r->params);
	fclose(f);
	unlink(path);
}

/* The output of one run, from where the run before it ended; after a failure all of it. */
static const char *read_output(struct result *r, const char *text)
{
	const char *end = r->status ? NULL : strstr(text, "\nstatus ");
	size_t n = end ? strcspn(end + 1, "\n") + (size_t)(end + 1 - text) : strlen(text);
	snprintf(r->output, sizeof r->output, "%.*s", (int)n, text);
	for (const char *line = r->output; line; line = strchr(line, '\n'))
		read_line(r, line += *line == '\n');
	return r->status ? text : text + n;
}

/* One process, or the processes of the launcher, train n times. If one run fails, all get its
 * status. */
static void run_program(const char *launcher, const char *program, int workers, size_t n,
			const char *const *words, struct result *r)
{
	static int serial_number;
	static char printed[RUNS_MOST * sizeof r->output];
	char *model AUTOFREE = sentence("%s/model-%d-%d", folder, (int)getpid(), serial_number++);
	char *command = sentence("%s ./tests/%s %s", launcher, program, model);
	ck_assert_uint_le(n, RUNS_MOST);
	for (size_t i = 0; i < n; i++) {
		char *longer = sentence("%s %s --data-dir=%s --workers=%d %s", command,
					i ? "+" : "", folder, workers, words[i]);
		free(command);
		command = longer;
	}
	char *both AUTOFREE = sentence("%s 2>&1", command);
	int status = command_output(both, printed, sizeof printed);
	const char *text = printed;
	for (size_t i = 0; i < n; i++) {
		char *path AUTOFREE = i ? sentence("%s.%zu", model, i) : sentence("%s", model);
		r[i] = (struct result){.bytes = NAN,
				       .formula = NAN,
				       .running_loss = NAN,
				       .test_loss = NAN,
				       .stale = NAN,
				       .pushes = NAN,
				       .most_stale = NAN,
				       .first_test_loss = NAN,
				       .spread = NAN,
				       .allocations = NAN,
				       .rows = NAN,
				       .numbers = NAN,
				       .computed_s = NAN,
				       .communicated_s = NAN,
				       .status = status};
		text = read_output(&r[i], text);
		if (status == 0)
			read_model(&r[i], path);
	}
	free(command);
}

static void run_tools(int ranks, size_t n, const char *const *words, struct result *r)
{
	char launcher[128] = "";
	if (ranks > 1)
		snprintf(launcher, sizeof launcher, MPIRUN "%d", ranks);
	run_program(launcher, "tools/train", ranks, n, words, r);
}

struct result run_tool(int ranks, const char *words)
{
	struct result r;
	run_tools(ranks, 1, &words, &r);
	return r;
}

struct result run_simulated(int workers, const char *words)
{
	struct result r;
	const char *all = sentence("--platform=sim %s", words);
	run_program("", "tools/sim_train", workers, 1, &all, &r);
	free((char *)(uintptr_t)all);
	return r;
}

/* The tool must end well and allocate nothing between steps. */
void train_all(int ranks, size_t n, const char *const *words, struct result *r)
{
	run_tools(ranks, n, words, r);
	for (size_t i = 0; i < n; i++) {
		ck_assert_msg(r[i].status == 0, "%d ranks, %s: status %d\n%s", ranks, words[i],
			      r[i].status, r[i].output);
		ck_assert_msg(r[i].allocations == 0, "%d ranks, %s: %g allocations between steps",
			      ranks, words[i], r[i].allocations);
	}
}

struct result train_ok(int ranks, const char *words)
{
	struct result r;
	train_all(ranks, 1, &words, &r);
	return r;
}

/* |a - b| / |b| over all parameters. */
double distance(const struct result *a, const struct result *b)
{
	double d = 0, n = 0;
	ck_assert_uint_eq(a->params, b->params);
	for (size_t i = 0; i < a->params; i++) {
		d += ((double)a->param[i] - b->param[i]) * ((double)a->param[i] - b->param[i]);
		n += (double)b->param[i] * b->param[i];
	}
	return sqrt(d / n);
}

/* MVBENCH_TEST_PAIRS=FILE collects the differences, which a test that passes does not print. */
static void collect(double d, double tolerance, const char *words, const char *words_b)
{
	const char *path = getenv("MVBENCH_TEST_PAIRS");
	FILE *f = path ? fopen(path, "a") : NULL;
	if (!f)
		return;
	fprintf(f, "%.2g | %g | %s | %s\n", d, tolerance, words, words_b);
	fclose(f);
}

void compare_runs(struct result *a, const char *words, struct result *b, const char *words_b,
		  double tolerance)
{
	double d = distance(a, b);
	collect(d, tolerance, words, words_b);
	ck_assert_msg(d <= tolerance, "%s\n%s\ndiffer by %g, allowed %g", words, words_b, d,
		      tolerance);
	ck_assert_msg(fabs(a->test_loss - b->test_loss) <= 1e-4 * b->test_loss + 1e-12,
		      "%s: test loss %g, %s: %g", words, a->test_loss, words_b, b->test_loss);
	ck_assert_msg(b->test_loss < 0.9 * b->first_test_loss, "%s learns nothing: %g, at first %g",
		      words_b, b->test_loss, b->first_test_loss);
}

void expect_pairs(int ranks, size_t pairs, const char *const *words, double tolerance)
{
	struct result r[RUNS_MOST];
	train_all(ranks, 2 * pairs, words, r);
	for (size_t i = 0; i < 2 * pairs; i += 2)
		compare_runs(&r[i], words[i], &r[i + 1], words[i + 1], tolerance);
}

void expect_same(int ranks, const char *words, int ranks_b, const char *words_b, double tolerance)
{
	const char *const both[] = {words, words_b};
	if (ranks == ranks_b) {
		expect_pairs(ranks, 1, both, tolerance);
	} else {
		struct result a = train_ok(ranks, words), b = train_ok(ranks_b, words_b);
		compare_runs(&a, words, &b, words_b, tolerance);
	}
}

char *words(const char *fmt, ...)
{
	static char text[2 * RUNS_MOST][512];
	static int next;
	va_list args;
	va_start(args, fmt);
	vsnprintf(text[next = (next + 1) % (2 * RUNS_MOST)], sizeof *text, fmt, args);
	va_end(args);
	return text[next];
}
