/*
 * trained.c - trains tests/tools/train, or its simulated twin, in processes of its own, on a small
 * made set of images, and reads what it prints and the model that it leaves.
 */
#include "tests/trained.h"

#include <check.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void trained_data(void)
{
	folder_new();
	idx_put_set(TRAIN_ROWS, TEST_ROWS, false, '-');
}

/* ---- Running the tool ---------------------------------------------------- */

/* Every number that the tool prints; one that it does not print stays NaN, and fails its test. */
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
	sscanf(line, "rows %lf sum %lf", &r->rows, &r->numbers);
}

static void read_model(struct result *r, const char *path)
{
	FILE *f = fopen(path, "r");
	ck_assert_ptr_nonnull(f);
	fseek(f, 0, SEEK_END);
	r->params = (size_t)ftell(f) / sizeof(float);
	rewind(f);
	r->param = must(malloc((r->params + 1) * sizeof(float)));
	ck_assert_uint_eq(fread(r->param, sizeof(float), r->params, f), r->params);
	fclose(f);
	unlink(path);
}

static struct result run_program(const char *launcher, const char *program, int workers,
				 const char *words)
{
	static int serial_number;
	struct result r = {.bytes = NAN,
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
			   .computed_s = NAN};
	char command[1024], model[128];
	snprintf(model, sizeof model, "%s/model-%d-%d", folder, (int)getpid(), serial_number++);
	snprintf(command, sizeof command, "%s ./tests/%s %s --data-dir=%s --workers=%d %s 2>&1",
		 launcher, program, model, folder, workers, words);
	r.status = command_output(command, r.output, sizeof r.output);
	for (const char *line = r.output; line; line = strchr(line, '\n'))
		read_line(&r, line += *line == '\n');
	if (r.status == 0)
		read_model(&r, model);
	return r;
}

struct result run_tool(int ranks, const char *words)
{
	char launcher[128] = "";
	if (ranks > 1)
		snprintf(launcher, sizeof launcher, MPIRUN "%d", ranks);
	return run_program(launcher, "tools/train", ranks, words);
}

struct result run_simulated(int workers, const char *words)
{
	char *all = sentence("--platform=sim %s", words);
	struct result r = run_program("", "tools/sim_train", workers, all);
	free(all);
	return r;
}

/* The tool must end well and allocate nothing between steps. */
struct result train_ok(int ranks, const char *words)
{
	struct result r = run_tool(ranks, words);
	ck_assert_msg(r.status == 0, "%d ranks, %s: status %d\n%s", ranks, words, r.status,
		      r.output);
	ck_assert_msg(r.allocations == 0, "%d ranks, %s: %g allocations between steps", ranks,
		      words, r.allocations);
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

void expect_same(int ranks, const char *words, int ranks_b, const char *words_b, double tolerance)
{
	struct result a = train_ok(ranks, words), b = train_ok(ranks_b, words_b);
	double d = distance(&a, &b);
	ck_assert_msg(d <= tolerance, "%d ranks, %s\n%d ranks, %s\ndiffer by %g, allowed %g", ranks,
		      words, ranks_b, words_b, d, tolerance);
	ck_assert_msg(fabs(a.test_loss - b.test_loss) <= 1e-4 * b.test_loss + 1e-12,
		      "%s: test loss %g, %s: %g", words, a.test_loss, words_b, b.test_loss);
	ck_assert_msg(b.test_loss < 0.9 * b.first_test_loss, "%s learns nothing: %g, at first %g",
		      words_b, b.test_loss, b.first_test_loss);
	free(a.param);
	free(b.param);
}

char *words(const char *fmt, ...)
{
	static char text[8][512];
	static int next;
	va_list args;
	va_start(args, fmt);
	vsnprintf(text[next = (next + 1) % 8], sizeof *text, fmt, args);
	va_end(args);
	return text[next];
}
