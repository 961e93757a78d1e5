/*
 * loss.c - losses and their gradients. Sums are float64.
 */
#include "runtime/device/cpu/cpu.h"

#include <math.h>

/*
 * Per row: loss = log sum_j exp(z_j - max) - (z_label - max), z = (softmax(z) - onehot) / over.
 * Three passes, because exp then runs over all rows at once. A NaN or an infinity among the scores
 * makes the row's sum and the loss a NaN; such a row is not correct.
 */
void cpu_softmax_xent(struct device *d, float *restrict z, const float *restrict target,
		      size_t rows, size_t n, float over)
{
	double loss = 0;
	for (size_t r = 0; r < rows; r++) {
		float *row = z + r * n, max = row[0];
		size_t label = (size_t)target[r];
		bool best = true; /* among equal scores the first wins; with a NaN none wins */

		CHECK(label < n, "softmax_xent: label %g of %zu classes", (double)target[r], n);
		for (size_t j = 1; j < n; j++)
			max = row[j] > max ? row[j] : max;
		for (size_t j = 0; j < n; j++)
			best &= j < label ? row[j] < max : row[j] <= max;
		d->tally.correct += best && row[label] == max;
		for (size_t j = 0; j < n; j++)
			row[j] -= max;
		loss -= row[label];
	}
#pragma omp simd
	for (size_t i = 0; i < rows * n; i++)
		z[i] = expf(z[i]);
	for (size_t r = 0; r < rows; r++) {
		float *row = z + r * n, sum = row[0];
		size_t label = (size_t)target[r];

		for (size_t j = 1; j < n; j++)
			sum += row[j];
		float scale = 1 / (sum * over);

		for (size_t j = 0; j < n; j++)
			row[j] *= scale;
		row[label] -= 1.0f / over;
		loss += logf(sum);
	}
	d->tally.loss += loss;
	d->tally.rows += rows;
}

/* Per row: loss = mean_j (z_j - t_j)^2, z = 2 (z - t) / (over n). */
void cpu_mse(struct device *d, float *restrict z, const float *restrict target, size_t rows,
	     size_t n, float over)
{
	float scale = 2.0f / (over * (float)n);
	double sum = 0;
	for (size_t i = 0; i < rows * n; i++) {
		float e = z[i] - target[i];

		sum += (double)e * e;
		z[i] = scale * e;
	}
	d->tally.loss += sum / n;
	d->tally.rows += rows;
}
