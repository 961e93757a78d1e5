/*
 * step.c - finds the steps of a noisy series, by the piecewise constant fit with which airspeed
 * velocity (asv/step_detect.py) reports changes. The fit cuts n groups of N values into k segments,
 * each of two values or more, with their medians m. Of all such cuts it is the one of the least
 *
 *	ln(s + sum |x - m| / N) + 4 k ln(n) / n
 *
 * The sum is that of noise with long tails (Laplace). Dynamic programming finds the exact least sum
 * of each k (Friedrich et al., J. Comput. Graph. Stat. 17, 2008). Schwarz's criterion (Yao, Stat.
 * Probab. Lett. 6, 1988), with asv's factor 4, finds the number of segments. s, as in asv, is a
 * thousandth of the median: smaller differences count as noise. n is the number of groups, because
 * values of one group drift together. O(n (N^2 + n^2)) time, O(n^2) memory.
 */
#include "results/ask/ask.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST = 2 }; /* values of a segment */

/* Keeps the n values sorted. */
static void insert(double *sorted, size_t n, double x)
{
	size_t low = 0, high = n;
	while (low < high) {
		size_t mid = (low + high) / 2;
		if (sorted[mid] < x)
			low = mid + 1;
		else
			high = mid;
	}
	memmove(sorted + low + 1, sorted + low, (n - low) * sizeof *sorted);
	sorted[low] = x;
}

static double median(const double *sorted, size_t n)
{
	return n ? (sorted[(n - 1) / 2] + sorted[n / 2]) / 2 : NAN;
}

/* cost[i * n + j]: sum |x - m| of a segment of the groups i to j, middle[]: its m. */
static void weigh_segments(const double *x, const size_t *end, size_t n, double *cost,
			   double *middle)
{
	double *sorted AUTOFREE = must(malloc((end[n - 1] + 1) * sizeof *sorted));
	for (size_t i = 0; i < n; i++) {
		size_t first = i ? end[i - 1] : 0, at = first;
		for (size_t j = i; j < n; j++) {
			double sum = 0;
			for (; at < end[j]; at++)
				insert(sorted, at - first, x[at]);
			middle[i * n + j] = median(sorted, at - first);
			for (size_t v = 0; v < at - first; v++)
				sum += fabs(sorted[v] - middle[i * n + j]);
			cost[i * n + j] = at - first < LEAST ? INFINITY : sum;
		}
	}
}

/* least[j] is the least sum of a fit to the groups 0 to j: of k segments before, of k + 1 after
 * this call. from[j]: the group with which the last segment begins. */
static void add_segment(const double *cost, size_t n, double *least, size_t *from)
{
	for (size_t j = n; j-- > 0;) { /* downwards: least[i - 1] is still that of k */
		double best = INFINITY;
		from[j] = 0;
		for (size_t i = 1; i <= j; i++)
			if (least[i - 1] + cost[i * n + j] < best) {
				best = least[i - 1] + cost[i * n + j];
				from[j] = i;
			}
		least[j] = best;
	}
}

void steps_find(const double *x, const size_t *end, size_t n, bool *begins, double *level)
{
	if (n == 0)
		return;
	double *cost AUTOFREE = must(malloc(n * n * sizeof *cost)),
		     *middle AUTOFREE = must(malloc(n * n * sizeof *middle)),
		     *least AUTOFREE = must(malloc(n * sizeof *least));
	size_t *from AUTOFREE = must(calloc(n * n, sizeof *from)), segments = 1;
	CHECK(end[n - 1] <= SERIES_MOST, "%zu values", end[n - 1]);
	weigh_segments(x, end, n, cost, middle);
	memcpy(least, cost, n * sizeof *least);
	double values = (double)end[n - 1], floor = fmax(DBL_MIN, 0.001 * fabs(middle[n - 1])),
	       best = INFINITY;
	for (size_t k = 1; k <= n && isfinite(least[n - 1]); k++) {
		double worth = log(floor + least[n - 1] / values) +
			       4.0 * (double)k * log((double)n) / (double)n;
		if (worth < best) {
			best = worth;
			segments = k;
		}
		if (k < n)
			add_segment(cost, n, least, from + k * n);
	}
	memset(begins, 0, n * sizeof *begins);
	for (size_t k = segments, j = n - 1;; j = from[(k - 1) * n + j] - 1, k--) {
		size_t i = k > 1 ? from[(k - 1) * n + j] : 0;
		begins[i] = true;
		for (size_t g = i; g <= j; g++)
			level[g] = middle[i * n + j];
		if (k == 1)
			break;
	}
}
