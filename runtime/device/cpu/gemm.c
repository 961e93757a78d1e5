/*
 * gemm.c - products of matrices on the CPU: oneDNN's sgemm, and own loops up to TINY.
 *
 * Costs, one core of a 2.45 GHz Zen 3: sgemm runs at 75 to 95 GFLOP/s on hidden layers and at 40 on
 * 10 outputs.
 */
#include "runtime/device/cpu/cpu.h"

#include <oneapi/dnnl/dnnl.h>

/* y[m x n] = op(a)[m x k] op(b)[k x n], by definition. Also for matrices that are too narrow for
 * the blocks below. */
static void gemm_plain(float *restrict y, bool at, const float *restrict a, bool bt,
		       const float *restrict b, size_t m, size_t n, size_t k)
{
	size_t ai = at ? 1 : k, ap = at ? m : 1, bj = bt ? k : 1, bp = bt ? 1 : n;
	for (size_t i = 0; i < m; i++)
		for (size_t j = 0; j < n; j++) {
			float sum = 0;

			for (size_t p = 0; p < k; p++)
				sum += a[i * ai + p * ap] * b[j * bj + p * bp];
			y[i * n + j] = sum;
		}
}

/* Eight floats, unaligned; the compiler maps them to the machine's vectors. */
enum { LANES = 8 };
typedef float lanes __attribute__((vector_size(LANES * sizeof(float)), aligned(4), may_alias));

static inline lanes load(const float *p)
{
	return *(const lanes *)p;
}

#define PICK __builtin_shufflevector

/* Lane i of the result is the sum of the lanes of v[i]. */
static inline lanes sums_of(const lanes v[LANES])
{
	lanes two[4], four[2];
	for (int i = 0; i < 4; i++)
		two[i] = PICK(v[2 * i], v[2 * i + 1], 0, 8, 1, 9, 4, 12, 5, 13) +
			 PICK(v[2 * i], v[2 * i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
	for (int i = 0; i < 2; i++)
		four[i] = PICK(two[2 * i], two[2 * i + 1], 0, 1, 8, 9, 4, 5, 12, 13) +
			  PICK(two[2 * i], two[2 * i + 1], 2, 3, 10, 11, 6, 7, 14, 15);
	return PICK(four[0], four[1], 0, 1, 2, 3, 8, 9, 10, 11) +
	       PICK(four[0], four[1], 4, 5, 6, 7, 12, 13, 14, 15);
}

/* Blocks of eight; the last one ends at n and may overlap the one before it. */
static inline size_t block(size_t at, size_t n)
{
	return at + LANES <= n ? at : n - LANES;
}

/* y[m x n] = a[m x k] b^T, b[n x k]: eight dot products at once. n and k at least LANES. */
static void gemm_dots(float *restrict y, const float *restrict a, const float *restrict b, size_t m,
		      size_t n, size_t k)
{
	size_t tail = k % LANES;
	for (size_t i = 0; i < m; i++, a += k) {
		lanes last = load(a + k - LANES); /* end of a, without floats of whole blocks */

		for (size_t p = 0; p < LANES - tail; p++)
			last[p] = 0;
		for (size_t j = 0; j < n; j += LANES) {
			const float *rows = b + block(j, n) * k;
			lanes sum[LANES] = {0};

			for (size_t p = 0; p + LANES <= k; p += LANES)
				for (size_t r = 0; r < LANES; r++)
					sum[r] += load(a + p) * load(rows + r * k + p);
			if (tail)
				for (size_t r = 0; r < LANES; r++)
					sum[r] += last * load(rows + r * k + k - LANES);
			*(lanes *)(y + i * n + block(j, n)) = sums_of(sum);
		}
	}
}

/* Returns a . b, both [k]. */
static float dot(const float *restrict a, const float *restrict b, size_t k)
{
	float sum = 0;
#pragma omp simd reduction(+ : sum)
	for (size_t p = 0; p < k; p++)
		sum += a[p] * b[p];
	return sum;
}

/* y[m x n] = op(a) b, b[k x n]: sums of rows of b, eight columns at once. n at least LANES. */
static void gemm_rows(float *restrict y, bool at, const float *restrict a, const float *restrict b,
		      size_t m, size_t n, size_t k)
{
	size_t ai = at ? 1 : k, ap = at ? m : 1;
	for (size_t i = 0; i < m; i++, a += ai)
		for (size_t j = 0; j < n; j += LANES) {
			size_t first = block(j, n);
			lanes sum = a[0] * load(b + first);

			for (size_t p = 1; p < k; p++)
				sum += a[p * ap] * load(b + p * n + first);
			*(lanes *)(y + i * n + first) = sum;
		}
}

/* y[m x n] = a b^T, the outer product of a[m] and b[n]. n at least LANES. */
static void gemm_outer(float *restrict y, const float *restrict a, const float *restrict b,
		       size_t m, size_t n)
{
	for (size_t j = 0; j < n; j += LANES) {
		size_t first = block(j, n);
		lanes row = load(b + first);

		for (size_t i = 0; i < m; i++)
			*(lanes *)(y + i * n + first) = a[i] * row;
	}
}

void cpu_product(float *y, size_t ldy, bool at, const float *a, size_t lda, bool bt, const float *b,
		 size_t ldb, size_t m, size_t n, size_t k, float by)
{
	dnnl_status_t status = dnnl_sgemm(at ? 'T' : 'N', bt ? 'T' : 'N', (dnnl_dim_t)m,
					  (dnnl_dim_t)n, (dnnl_dim_t)k, by, a, (dnnl_dim_t)lda, b,
					  (dnnl_dim_t)ldb, 0, y, (dnnl_dim_t)ldy);
	CHECK(status == dnnl_success, "sgemm of %zu x %zu x %zu: oneDNN status %d", m, n, k,
	      status);
}

/*
 * Up to TINY multiply-adds the loops above are faster: a call of sgemm costs 0.4 us before it
 * computes, and it is inefficient on thin matrices. Measured [us], these loops and sgemm: 1 x 100 x
 * 10 with b transposed 0.10, 0.45; 100 x 10 x 1 0.08, 0.68; 16 x 16 x 16 0.3, 0.4; 20 x 20 x 20
 * 0.65, 0.65; 32 x 32 x 32 1.7 to 2.5, 1.0.
 */
enum { TINY = 20 * 20 * 20 };

void cpu_gemm(struct device *d, float *y, bool at, const float *a, bool bt, const float *b,
	      size_t m, size_t n, size_t k)
{
	if (m * n * k <= TINY) {
		if (bt && !at && n >= LANES && k >= LANES)
			gemm_dots(y, a, b, m, n, k);
		else if (m == 1 && n == 1)
			*y = dot(a, b, k);
		else if (!bt && n >= LANES && k == 1)
			gemm_outer(y, a, b, m, n);
		else if (!bt && n >= LANES && k > 1)
			gemm_rows(y, at, a, b, m, n, k);
		else
			gemm_plain(y, at, a, bt, b, m, n, k);
		return;
	}
	cpu_product(y, n, at, a, at ? m : k, bt, b, bt ? k : n, m, n, k, 1);
}
