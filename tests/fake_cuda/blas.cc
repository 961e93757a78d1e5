/*
 * blas.cc - the part of cuBLAS that mvbench uses, and the matrix product of the fake cuDNN.
 *
 * Inputs are rounded as the hardware unit would: to TF32 if the compute type asks for it. A wrong
 * type therefore shows in the results. Sums are float32.
 */
#include "fake.h"

#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <dnnl.h>
#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

struct cublasContext {
	cudaStream_t stream;
};

namespace fake
{
void matmul(float *c, const float *a, bool at, const float *b, bool bt, size_t m, size_t n,
	    size_t k)
{
	omp_set_num_threads(1); /* oneDNN's */
	dnnl_sgemm(at ? 'T' : 'N', bt ? 'T' : 'N', (dnnl_dim_t)m, (dnnl_dim_t)n, (dnnl_dim_t)k, 1,
		   a, (dnnl_dim_t)(at ? m : k), b, (dnnl_dim_t)(bt ? k : n), 0, c, (dnnl_dim_t)n);
}

void load(float *y, const void *x, bool bf16, size_t n, rounding how)
{
	if (bf16) {
		const __nv_bfloat16 *from = (const __nv_bfloat16 *)x;
		for (size_t i = 0; i < n; i++)
			y[i] = __bfloat162float(from[i]);
		return;
	}
	memcpy(y, x, n * sizeof *y);
	if (how == TF32)
		for (size_t i = 0; i < n; i++) {
			uint32_t bits; /* to the nearest of 10 bits, ties to even; NaN stays */
			memcpy(&bits, &y[i], sizeof bits);
			if ((bits & 0x7f800000) != 0x7f800000)
				bits = (bits + 0xfff + (bits >> 13 & 1)) & ~0x1fffu;
			memcpy(&y[i], &bits, sizeof bits);
		}
}

void store(void *y, bool bf16, const float *x, float beta, size_t n)
{
	if (bf16) {
		__nv_bfloat16 *to = (__nv_bfloat16 *)y;
		for (size_t i = 0; i < n; i++)
			to[i] = __float2bfloat16(beta == 0 ? x[i]
							   : x[i] + beta * __bfloat162float(to[i]));
	} else {
		float *to = (float *)y;
		for (size_t i = 0; i < n; i++)
			to[i] = beta == 0 ? x[i] : x[i] + beta * to[i];
	}
}

} // namespace fake

using namespace fake;

cublasStatus_t cublasCreate_v2(cublasHandle_t *handle)
{
	if (enter(true) != cudaSuccess)
		return CUBLAS_STATUS_NOT_INITIALIZED;
	*handle = new cublasContext{};
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle)
{
	delete handle;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream)
{
	handle->stream = stream;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t, void *workspace, size_t bytes)
{
	bool good = (uintptr_t)workspace % 256 == 0 && (!bytes || reaches(workspace, bytes));
	return good ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

/* Column-major: c[m x n] = alpha op(a) op(b) + beta c. Its rows are the columns of the transposed
 * product, so b is the first operand. */
cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb,
			    int m, int n, int k, const void *alpha, const void *a,
			    cudaDataType atype, int lda, const void *b, cudaDataType btype, int ldb,
			    const void *beta, void *c, cudaDataType ctype, int ldc,
			    cublasComputeType_t compute, cublasGemmAlgo_t)
{
	struct matrix {
		const void *data;
		int rows, columns, ld;
		bool bf16;
	};
	bool at = ta != CUBLAS_OP_N, bt = tb != CUBLAS_OP_N;
	const matrix in[2] = {{a, at ? k : m, at ? m : k, lda, atype == CUDA_R_16BF},
			      {b, bt ? n : k, bt ? k : n, ldb, btype == CUDA_R_16BF}};
	const matrix out = {c, m, n, ldc, ctype == CUDA_R_16BF};
	if (enter() != cudaSuccess)
		return CUBLAS_STATUS_EXECUTION_FAILED;
	for (cudaDataType t : {atype, btype, ctype})
		if (t != CUDA_R_32F && t != CUDA_R_16BF)
			fail("cublasGemmEx: the fake knows no type %d", (int)t);
	if (atype != btype || (atype == CUDA_R_32F && ctype == CUDA_R_16BF) ||
	    (compute != CUBLAS_COMPUTE_32F && compute != CUBLAS_COMPUTE_32F_FAST_TF32 &&
	     compute != CUBLAS_COMPUTE_32F_PEDANTIC))
		return CUBLAS_STATUS_NOT_SUPPORTED;
	for (const matrix &x : {in[0], in[1], out}) {
		size_t size = x.bf16 ? 2 : 4;
		size_t n_of = (size_t)x.ld * (size_t)(x.columns - 1) + (size_t)x.rows;
		if (x.rows < 1 || x.columns < 1 || x.ld < x.rows || !reaches(x.data, n_of * size)) {
			note("cublasGemmEx: a matrix of %d x %d, %d apart, at %p", x.rows,
			     x.columns, x.ld, x.data);
			return CUBLAS_STATUS_INVALID_VALUE;
		}
	}
	rounding how = compute == CUBLAS_COMPUTE_32F_FAST_TF32 ? TF32 : EXACT;
	float scale = *(const float *)alpha, keep = *(const float *)beta;
	cudaError_t e = enqueue(handle->stream, [=] {
		std::vector<float> dense[2], product((size_t)m * (size_t)n);
		for (int i = 0; i < 2; i++) {
			const matrix &x = in[i];
			size_t rows = (size_t)x.rows, size = x.bf16 ? 2 : 4;
			dense[i].resize(rows * (size_t)x.columns);
			for (size_t j = 0; j < (size_t)x.columns; j++)
				load(&dense[i][j * rows],
				     (const char *)x.data + j * (size_t)x.ld * size, x.bf16, rows,
				     how);
		}
		matmul(product.data(), dense[1].data(), bt, dense[0].data(), at, (size_t)n,
		       (size_t)m, (size_t)k);
		for (float &x : product)
			x *= scale;
		for (int j = 0; j < n; j++)
			store((char *)c + (size_t)j * (size_t)ldc * (out.bf16 ? 2 : 4), out.bf16,
			      &product[(size_t)j * (size_t)m], keep, (size_t)m);
	});
	return e == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

cublasStatus_t cublasGetProperty(libraryPropertyType type, int *value)
{
	*value = type == MAJOR_VERSION   ? CUBLAS_VER_MAJOR
		 : type == MINOR_VERSION ? CUBLAS_VER_MINOR
					 : CUBLAS_VER_PATCH;
	return CUBLAS_STATUS_SUCCESS;
}

const char *cublasGetStatusString(cublasStatus_t status)
{
	return status == CUBLAS_STATUS_SUCCESS ? "CUBLAS_STATUS_SUCCESS" : "a fake cuBLAS error";
}
