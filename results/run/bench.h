/*
 * bench.h - what the files of mvbench bench share: bench.c (the command) and bench_comm.c (what its
 * workers measure).
 */
#ifndef BENCH_H
#define BENCH_H

#include "results/run/run.h"

struct bench_flags {
	int64_t min, max; /* sizes, from and to [bytes]; each `factor` times the one before */
	int64_t factor, iterations, repetitions;
	const char *format;
};

/* One repetition: a call took so long, and so many elements arrived wrong, over all workers. */
struct bench_row {
	size_t way; /* which operation and transport: in this order they are shown */
	const char *operation, *transport;
	int64_t bytes, count; /* that the operation is said to move; elements of one worker */
	double bus;           /* bus bandwidth over algorithm bandwidth */
	int64_t repetition, wrong;
	double seconds;
};

struct bench_rows {
	struct bench_row *row; /* heap */
	size_t n;
};

/* Collective: every operation that these workers can make, of every size, in turns. transport: of
 * vectors on GPUs, auto = all that can be had. The caller frees out's rows. */
void bench_comm(struct worker *w, const struct bench_flags *f, const char *transport,
		struct bench_rows *out);

/* x[n]: what worker `rank` gives: the i-th element is bench_number(rank) times 1 + i mod 97, so
 * that sums over the workers are exact, and elements in wrong places are seen. */
void bench_fill(float *x, size_t n, int rank);
double bench_number(int rank);
/* How many of x[n] are not `number` times 1 + i mod 97. */
size_t bench_wrong(const float *x, size_t n, double number);

/* The rows' medians over repetitions, and bandwidths, on stdout. NULL or a sentence. */
char *bench_print(const struct bench_rows *rows, enum format format);

#endif
