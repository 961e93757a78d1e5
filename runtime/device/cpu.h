/*
 * cpu.h - what cpu.c takes from cpu_image.c: the last slots of its table, and the end of what they
 * keep in device->at.
 */
#ifndef CPU_H
#define CPU_H

#include "runtime/device/device.h"

void *cpu_conv_new(struct device *d, const struct shape *s);
void cpu_conv_free(struct device *d, void *conv);
void cpu_conv_forward(struct device *d, void *conv, float *y, const float *x, const float *weight,
		      const float *bias, size_t rows);
void cpu_conv_backward_weight(struct device *d, void *conv, float *dweight, float *dbias,
			      const float *x, const float *dy, size_t rows);
void cpu_conv_backward_data(struct device *d, void *conv, float *dx, const float *dy,
			    const float *weight, bool add, size_t rows);
void *cpu_pool_new(struct device *d, const struct shape *s);
void cpu_pool_free(struct device *d, void *pool);
void cpu_pool_forward(struct device *d, void *pool, float *y, const float *x, size_t rows);
void cpu_pool_backward(struct device *d, void *pool, float *dx, const float *dy, const float *x,
		       const float *y, size_t rows);
void *cpu_norm_new(struct device *d, const struct shape *s);
void cpu_norm_free(struct device *d, void *norm);
void cpu_norm_forward(struct device *d, void *norm, float *y, const float *x, const float *add,
		      const float *scale, float *running, bool training, size_t rows);
void cpu_norm_backward(struct device *d, void *norm, float *dx, float *dscale, float *dy,
		       const float *x, const float *y, const float *scale, size_t rows);
void cpu_shortcut(struct device *d, float *restrict y, const float *restrict x, struct image in,
		  size_t stride, size_t out, size_t rows);
void cpu_shortcut_grad(struct device *d, float *restrict dx, const float *restrict dy,
		       struct image in, size_t stride, size_t out, size_t rows);
void cpu_image_close(struct device *d);

#endif
