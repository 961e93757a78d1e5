/*
 * trained.h - short trainings for the suites that compare strategies: one result is one run of
 * tests/tools/train.
 */
#ifndef TRAINED_H
#define TRAINED_H

#include "tests/fixture.h"

enum { TRAIN_ROWS = 2400, TEST_ROWS = 200, RUNS_MOST = 9 };

/* A leak checker would report what Open MPI leaves behind. */
#define MPIRUN "ASAN_OPTIONS=detect_leaks=0 mpirun --quiet --oversubscribe --bind-to none -n "

struct result {
	/* of the last epoch */
	double bytes, formula, running_loss, test_loss, stale, pushes, most_stale;
	double first_test_loss;
	double spread, allocations, rows, numbers, computed_s, communicated_s;
	double spent_s[SPENT_KINDS]; /* of all workers together */
	float *param;                /* valid until the test ends */
	size_t params;
	char output[8192];
	int status;
};

/* A fixture: the made set of images in a folder of its own. folder_free ends it. */
void trained_data(void);
/* words: options of the run, with --workers and --servers if not all ranks are workers. */
struct result run_tool(int ranks, const char *words);
/* The same in a simulation; words give the platform, and the time of a step. */
struct result run_simulated(int workers, const char *words);
/* The tool must end well and allocate nothing between steps. */
struct result train_ok(int ranks, const char *words);
/* One run for each of the words, up to RUNS_MOST, one after the other. The ranks start once,
 * because that takes longer than the training. */
void train_all(int ranks, size_t n, const char *const *words, struct result *r);
/* |a - b| / |b| over all parameters. */
double distance(const struct result *a, const struct result *b);
/* Both must learn and end with the same parameters. */
void compare_runs(struct result *a, const char *words, struct result *b, const char *words_b,
		  double tolerance);
/* The same for words[0] and words[1], words[2] and words[3], ... */
void expect_pairs(int ranks, size_t pairs, const char *const *words, double tolerance);
void expect_same(int ranks, const char *words, int ranks_b, const char *words_b, double tolerance);
/* A formatted string; the last 2 RUNS_MOST strings stay valid. */
char *words(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
