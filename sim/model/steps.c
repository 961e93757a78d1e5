/*
 * steps.c - the durations of steps: a distribution of the measured ones, from which each simulated
 * step draws.
 *
 * The sorted steps are divided into STEP_BINS equal parts. Each part except the last is stored as
 * its mean. The last part, the tail, is stored step by step (more than TAIL_MOST steps: as the
 * means of TAIL_MOST parts). The mean is therefore that of all steps. The longest of N draws is on
 * average the longest of N measured steps, for every N. This matters because a synchronous step
 * waits for the tail.
 */
#include "runtime/world/world.h"
#include "sim/model/model.h"

#include <math.h>
#include <stdlib.h>

static int by_float(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;
	return x < y ? -1 : x > y;
}

/* The mean of the sorted steps first to end - 1 of n; adds nothing if there are none. */
static void add_part(struct points *out, const float *step, size_t n, size_t first, size_t end,
		     int repetition)
{
	double sum = 0, from = (double)STEP_BINS * (double)first / (double)n;
	for (size_t i = first; i < end; i++)
		sum += step[i];
	if (first < end)
		points_add(out, "step", repetition * STEP_BINS + from, sum / (double)(end - first));
}

void steps_points(struct points *out, float *step, size_t n, int repetition)
{
	size_t all = n;
	n = 0;
	for (size_t i = 0; i < all; i++)
		if (!isnan(step[i]))
			step[n++] = step[i];
	size_t tail = part_of(n, STEP_BINS, STEP_BINS - 1), kept = smaller(n - tail, TAIL_MOST);
	qsort(step, n, sizeof *step, by_float);
	for (size_t k = 0; k + 1 < STEP_BINS; k++)
		add_part(out, step, n, part_of(n, STEP_BINS, k), part_of(n, STEP_BINS, k + 1),
			 repetition);
	for (size_t i = 0; i < kept; i++)
		add_part(out, step, n, tail + part_of(n - tail, kept, i),
			 tail + part_of(n - tail, kept, i + 1), repetition);
}

void steps_add(struct steps *s, double from, double seconds)
{
	if (s->n == STEPS_MOST)
		return;
	s->from[s->n] = from;
	s->s[s->n++] = seconds;
}

double steps_draw(const struct steps *s, double u)
{
	int low = 0, high = s->n;
	while (high - low > 1) {
		int middle = (low + high) / 2;
		if (s->from[middle] <= u * STEP_BINS)
			low = middle;
		else
			high = middle;
	}
	return s->s[low];
}
