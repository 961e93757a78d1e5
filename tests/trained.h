/*
 * trained.h - short trainings for the suites that compare strategies: one result is one run of
 * tests/tools/train.
 */
#ifndef TRAINED_H
#define TRAINED_H

#include "tests/fixture.h"

enum { TRAIN_ROWS = 2400, TEST_ROWS = 200, RUNS_MOST = 8 };

/* A leak checker, if there is one, would report what Open MPI leaves behind. */
#define MPIRUN "ASAN_OPTIONS=detect_leaks=0 mpirun --quiet --oversubscribe --bind-to none -n "

struct result {
	/* of the last epoch */
	double bytes, formula, running_loss, test_loss, stale, pushes, most_stale;
	double first_test_loss;
	double spread, allocations, rows, numbers, computed_s;
	float *param;
	size_t params;
	char output[8192];
	int status;
};

/* The made set of images, in a folder of its own: a fixture; folder_free is its end. */
void trained_data(void);
/* words: options of the run, --workers and --servers among them where ranks are not all workers. */
struct result run_tool(int ranks, const char *words);
/* The same in the simulated world; words say on which platform, and what a step takes. */
struct result run_simulated(int workers, const char *words);
/* The tool must end well and allocate nothing between steps. The caller frees param. */
struct result train_ok(int ranks, const char *words);
/* As often as there are words, up to RUNS_MOST, one after the other, with ranks that are started
 * once: that takes longer than what they train. */
void train_all(int ranks, size_t n, const char *const *words, struct result *r);
/* |a - b| / |b| over all parameters. */
double distance(const struct result *a, const struct result *b);
/* Both learn, and end with the same parameters. Frees them. */
void compare_runs(struct result *a, const char *words, struct result *b, const char *words_b,
		  double tolerance);
/* So do words[0] and words[1], words[2] and words[3], ... */
void expect_pairs(int ranks, size_t pairs, const char *const *words, double tolerance);
void expect_same(int ranks, const char *words, int ranks_b, const char *words_b, double tolerance);
/* A formatted string; the last 2 RUNS_MOST stay. */
char *words(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
