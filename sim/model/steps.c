/*
 * steps.c - how long steps take: a distribution made of those that were measured, from which each
 * simulated step draws.
 *
 * The steps, sorted, are cut into STEP_BINS equal parts, of which each but the last is kept as its
 * mean; the last, the tail, is kept step by step (of more than TAIL_MOST, cut as finely as that).
 * So the mean is that of all, and the longest of N drawn is on average the longest of N measured,
 * whatever N: it is the tail that a synchronous step waits for.
 */
#include "runtime/base/base.h"
#include "sim/model/model.h"

#include <stdlib.h>

static int by_float(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;
	return x < y ? -1 : x > y;
}

/* The mean of steps first to end - 1 of n, which are sorted; nothing where there are none. */
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
