/*
 * bench.h - what the files of mvbench bench share: bench.c (the command) and bench_comm.c (what its
 * workers measure).
 */
#ifndef BENCH_H
#define BENCH_H

#include "results/run/run.h"

struct bench_flags {
	int64_t min, max; /* sizes [bytes]; each is `factor` times the one before */
	int64_t factor, iterations, repetitions;
	const char *format;
};

/* One repetition: seconds per call, and the number of wrong elements over all workers. */
struct bench_row {
	size_t way; /* index of operation and transport; rows are shown in this order */
	const char *operation, *transport;
	int64_t bytes, count; /* nominal size of the operation; elements of one worker */
	double bus;           /* bus bandwidth over algorithm bandwidth */
	int64_t repetition, wrong;
	double seconds;
};

struct bench_rows {
	struct bench_row *row; /* heap */
	size_t n;
};

/* Collective: measures every operation of these workers at every size, in turns. transport: for
 * vectors on GPUs; auto = every one that works here. The caller frees out's rows. */
void bench_comm(struct worker *w, const struct bench_flags *f, const char *transport,
		struct bench_rows *out);

/* x[n] = the data of worker `rank`: x[i] = bench_number(rank) * (1 + i mod 97). Sums over the
 * workers are then exact, and misplaced elements are detected. */
void bench_fill(float *x, size_t n, int rank);
double bench_number(int rank);
/* How many of x[n] are not `number` times 1 + i mod 97. */
size_t bench_wrong(const float *x, size_t n, double number);

/* The rows' medians over repetitions, and bandwidths, on stdout. NULL or a sentence. */
char *bench_print(const struct bench_rows *rows, enum format format);

#endif
