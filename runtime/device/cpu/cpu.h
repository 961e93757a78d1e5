/*
 * cpu.h - shared by the files of the CPU: the operations that they define for its table.
 */
#ifndef CPU_H
#define CPU_H

#include "runtime/device/device.h"

/* Most operations do not use their device. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

/* glibc has vector versions of these (libmvec, within 4 ulp). Its header declares them only under
 * -ffast-math, which would also lose NaNs. 1.3 and 0.7 ns per number; oneDNN's tanh: 4.6. */
#if defined __x86_64__ && defined __GLIBC__ && !defined __clang__
__attribute__((simd("notinbranch"), const)) float tanhf(float);
__attribute__((simd("notinbranch"), const)) float expf(float);
#if __GLIBC_PREREQ(2, 35)
__attribute__((simd("notinbranch"), const)) float erff(float);
#endif
#endif

#include "runtime/device/maps.h"

#define CPU_OP(name, params, ...) void cpu_##name DEVICE_PARAMS(params);
DEVICE_OPS(CPU_OP)
#define CPU_LAYER(name) \
	void *cpu_##name##_new(struct device *d, const struct shape *s); \
	void cpu_##name##_free(struct device *d, void *name);
DEVICE_LAYERS(CPU_LAYER)

/* By oneDNN: y[m x n] = by op(a)[m x k] op(b)[k x n]; rows are lda, ldb, ldy apart. */
void cpu_product(float *y, size_t ldy, bool at, const float *a, size_t lda, bool bt, const float *b,
		 size_t ldb, size_t m, size_t n, size_t k, float by);
float *cpu_alloc(struct device *d, size_t n);
void cpu_free(struct device *d, float *p, size_t n);
void cpu_close(struct device *d); /* frees what convolutions keep in device->at */

#endif
