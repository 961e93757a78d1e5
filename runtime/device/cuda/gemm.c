/*
 * gemm.c - products of matrices on the GPU, through cuBLAS.
 */
#include "runtime/device/cuda/cuda.h"

#include <cublas_v2.h>
#include <limits.h>

/* cuBLAS stores matrices by columns and therefore computes the transpose: y^T = op(b)^T op(a)^T. */
static void multiply(struct device *d, void *y, cudaDataType_t y_type, bool at, const void *a,
		     bool bt, const void *b, cudaDataType_t type, int m, int n, int k)
{
	struct cuda *c = cuda_of(d);
	const float one = 1, zero = 0;
	cublasComputeType_t compute = c->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
	TRY_BLAS(d,
		 cublasGemmEx(c->blas, bt ? CUBLAS_OP_T : CUBLAS_OP_N,
			      at ? CUBLAS_OP_T : CUBLAS_OP_N, n, m, k, &one, b, type, bt ? k : n, a,
			      type, at ? m : k, &zero, y, y_type, n, compute, CUBLAS_GEMM_DEFAULT));
}

void cuda_gemm(struct device *d, float *y, bool at, const float *a, bool bt, const float *b,
	       size_t m, size_t n, size_t k)
{
	struct cuda *c = cuda_of(d);
	CHECK(m <= INT_MAX && n <= INT_MAX && k <= INT_MAX, "gemm of %zu x %zu x %zu", m, n, k);
	if (m == 0 || n == 0)
		return;
	if (!c->bf16) {
		multiply(d, y, CUDA_R_32F, at, a, bt, b, CUDA_R_32F, (int)m, (int)n, (int)k);
		return;
	}
	CHECK(!(at && bt), "gemm in bf16: at and bt cannot both be set");
	if (at) {
		multiply(d, y, CUDA_R_32F, at, a, bt, b, CUDA_R_16BF, (int)m, (int)n, (int)k);
		return;
	}
	void *weight = cuda_workspace(d, n * k * sizeof(uint16_t));

	cuda_move(
		d,
		&(struct cuda_piece){b, weight, (unsigned)n, (unsigned)k, (unsigned)n, (unsigned)k},
		1, false, true);
	multiply(d, y, CUDA_R_16BF, at, a, bt, weight, CUDA_R_16BF, (int)m, (int)n, (int)k);
}
