/*
 * cpu.h - what the files of the CPU share: the operations that they define for its table.
 */
#ifndef CPU_H
#define CPU_H

#include "runtime/device/device.h"

/* Most operations need nothing of their device. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define CPU_OP(name, params, ...) void cpu_##name WITH_DEVICE params;
DEVICE_OPS(CPU_OP)
#define CPU_LAYER(name) \
	void *cpu_##name##_new(struct device *d, const struct shape *s); \
	void cpu_##name##_free(struct device *d, void *name);
DEVICE_LAYERS(CPU_LAYER)

float *cpu_alloc(struct device *d, size_t n);
void cpu_free(struct device *d, float *p, size_t n);
void cpu_conv_close(struct device *d); /* ends what convolutions keep in device->at */

#endif
