/*
 * loss.cu - losses and their gradients. Sums are float64 over warps and blocks. The last block to
 * finish adds the sums of all blocks: a loss costs one launch.
 */
#include "runtime/device/cuda/kernel.h"

#include <cmath>

namespace
{
constexpr unsigned TALLY_BLOCKS = 128;

/* All threads of a block must call; only thread 0's loss and correct count. */
__device__ inline void tally_add(double loss, unsigned long long correct, size_t rows,
				 double divisor, struct tally *tally, cuda_stage stage)
{
	double *losses = (double *)stage.partial;
	unsigned long long *corrects = (unsigned long long *)(losses + TALLY_BLOCKS);
	if (threadIdx.x == 0) {
		losses[blockIdx.x] = loss;
		corrects[blockIdx.x] = correct;
	}
	if (!last_block(stage.counter) || threadIdx.x != 0)
		return;
	loss = 0;
	correct = 0;
#pragma unroll 8
	for (unsigned b = 0; b < gridDim.x; b++) {
		loss += losses[b];
		correct += corrects[b];
	}
	tally->loss += loss / divisor;
	tally->correct += correct;
	tally->rows += rows;
}

/* One warp per row. A NaN among the scores is never the maximum, but makes the sum a NaN; so does
 * an infinity, by inf - inf. Among equal scores the first wins; with a NaN none wins. */
template <typename T>
__global__ void __launch_bounds__(THREADS)
	softmax_xent(T *z, const float *target, size_t rows, size_t n, float over,
		     struct tally *tally, cuda_stage stage)
{
	unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	double loss = 0;
	unsigned correct = 0;
	for (size_t r = (size_t)blockIdx.x * WARPS + warp; r < rows;
	     r += (size_t)gridDim.x * WARPS) {
		T *row = z + r * n;
		float t = target[r], max = -INFINITY, sum = 0, score = 0, beaten = 0;
		bool is_class = t >= 0 && t < n;
		size_t label = is_class ? (size_t)t : n;

		for (size_t j = lane; j < n; j += 32)
			max = number(row[j]) > max ? number(row[j]) : max;
		max = warp_max(max);
		for (size_t j = lane; j < n; j += 32) {
			float x = number(row[j]);
			sum += expf(x - max);
			score += j == label ? x : 0;
			beaten += !(j < label ? x < max : x <= max);
		}
		sum = warp_sum(sum);
		score = warp_sum(score);
		beaten = warp_sum(beaten);
		loss += is_class ? (double)logf(sum) - (score - max) : (double)NAN;
		correct += is_class && beaten == 0 && score == max;
		float share = 1 / (sum * over), hit = 1.0f / over;

		for (size_t j = lane; j < n; j += 32)
			row[j] = rounded<T>(expf(number(row[j]) - max) * share -
					    (j == label ? hit : 0));
	}
	double *losses = shared_doubles();

	if (lane == 0) {
		losses[warp] = loss;
		losses[WARPS + warp] = correct;
	}
	__syncthreads();
	for (unsigned w = 1; threadIdx.x == 0 && w < WARPS; w++) {
		loss += losses[w];
		correct += (unsigned)losses[WARPS + w];
	}
	tally_add(loss, correct, rows, 1, tally, stage);
}

template <typename T>
__global__ void __launch_bounds__(THREADS) mse(T *z, const float *target, size_t rows, size_t n,
					       float over, struct tally *tally, cuda_stage stage)
{
	float factor = 2.0f / (over * (float)n);
	double sum = 0, *s = shared_doubles();
	for (size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x; i < rows * n;
	     i += (size_t)gridDim.x * THREADS) {
		float e = number(z[i]) - target[i];
		sum += (double)e * e;
		z[i] = rounded<T>(factor * e);
	}
	s[threadIdx.x] = sum;
	block_reduce<1>(s, threadIdx.x, THREADS, 1);
	tally_add(s[threadIdx.x], 0, rows, (double)n, tally, stage);
}

struct cuda_stage tally_stage(struct device *d)
{
	return cuda_stage_of(d, TALLY_BLOCKS * (sizeof(double) + sizeof(unsigned long long)));
}

} // namespace

/* The host cannot check labels here: an invalid one makes the loss a NaN, which ends the run. */
void cuda_softmax_xent(struct device *d, float *z, const float *target, size_t rows, size_t n,
		       float over)
{
	if (rows && n)
		OF_TYPE(d, QUEUE(d, softmax_xent<T>, blocks_for(rows * 32, TALLY_BLOCKS), THREADS,
				 (T *)z, target, rows, n, over, &cuda_of(d)->state->tally,
				 tally_stage(d)));
}

void cuda_mse(struct device *d, float *z, const float *target, size_t rows, size_t n, float over)
{
	if (rows && n)
		OF_TYPE(d, QUEUE(d, mse<T>, blocks_for(rows * n, TALLY_BLOCKS), THREADS, (T *)z,
				 target, rows, n, over, &cuda_of(d)->state->tally, tally_stage(d)));
}
