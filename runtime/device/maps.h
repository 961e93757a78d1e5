/*
 * maps.h - elementwise operations, y[i] = f(y[i], x[i], a): a formula for each row of SCALED_LIST
 * and, without a, of MAP_LIST, for both processors (cpu/elementwise.c) and GPUs
 * (cuda/elementwise.cu). Where f ignores one of them, x may be y.
 */
#ifndef MAPS_H
#define MAPS_H

#include "runtime/device/draw.h"

#include <math.h>

#define MAP(name, formula) \
	static inline ON_DEVICE float map_##name(float y, float x, float a) \
	{ \
		(void)y, (void)x, (void)a; \
		return formula; \
	}
MAP(fill, a)
MAP(scale, (a * y))
MAP(axpy, y + a * x)
MAP(relu, y < 0 ? 0 : y) /* a NaN stays a NaN */
MAP(relu_grad, x == 0 ? 0 : y)
MAP(tanh, tanhf(y))
MAP(tanh_grad, (1 - x * x) * y)
MAP(add, y + x)
/* Constants: sqrt(1/2), 1 / sqrt(2 pi). */
MAP(gelu, 0.5f * x * (1 + erff(0.70710678f * x)))
MAP(gelu_grad, (0.5f * (1 + erff(0.70710678f * x)) + 0.39894228f * x * expf(-0.5f * x * x)) * y)
#undef MAP

#endif
