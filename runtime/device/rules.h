/*
 * rules.h - the rules of optimisers, elementwise. A rule is a row and a formula, for both
 * processors (cpu/rules.c) and GPUs (cuda/elementwise.cu).
 *
 * Sources: the heavy ball, Polyak, USSR Comp. Math. 4 (1964); Nesterov's gradient in the form of
 * PyTorch's SGD; AdamW, Loshchilov, Hutter, arXiv 1711.05101; Lion, Chen et al., arXiv 2302.06675;
 * AdaGrad, Duchi et al., JMLR 12 (2011); Adam, Kingma, Ba, arXiv 1412.6980.
 * Cost: one pass, which reads x, g and the moments and writes all but g: 3 + 2 moments floats per
 * parameter.
 */
#ifndef RULES_H
#define RULES_H

#include "mvbench.h"
#include "runtime/device/draw.h"

#include <float.h>
#include <math.h>

/* Kind, name of its formula, number of moments. */
#define RULE_LIST(X) \
	X(SGD, sgd, 0) \
	X(MOMENTUM, momentum, 1) \
	X(NESTEROV, nesterov, 1) \
	X(ADAMW, adamw, 2) \
	X(LION, lion, 1) \
	X(ADAGRAD, adagrad, 1) \
	X(ADAM, adam, 2)

/* A float, its gradient, and its moments. */
struct moving {
	float x, g, a, b;
};
/* The values that change from step to step. */
struct moving_step {
	float lr, unbias[MOMENTS_MOST];
};
/* beta, and its rest to one: each is rounded by itself. */
static inline ON_DEVICE float rule_keep(const struct rule *by, int k)
{
	return (float)by->beta[k];
}
static inline ON_DEVICE float rule_take(const struct rule *by, int k)
{
	return (float)(1 - by->beta[k]);
}

#define RULE(word) \
	static inline ON_DEVICE struct moving rule_##word(struct moving f, struct rule by, \
							  struct moving_step now)

RULE(sgd)
{
	f.x -= now.lr * (by.scale * f.g + by.decay * f.x);
	return f;
}

RULE(momentum)
{
	f.a = rule_keep(&by, 0) * f.a + (by.scale * f.g + by.decay * f.x);
	f.x -= now.lr * f.a;
	return f;
}

/* The terms are added one after the other: results of periodic's outer step depend on the order. */
RULE(nesterov)
{
	float x = f.x;
	f.a = rule_keep(&by, 0) * f.a + (by.scale * f.g + by.decay * x);
	f.x -= now.lr * rule_keep(&by, 0) * f.a;
	f.x -= now.lr * by.scale * f.g;
	f.x -= now.lr * by.decay * x;
	return f;
}

/* f.b - f.b: 0, or NaN if the square of a finite gradient is too large for a float: a step of 0
 * would hide that, so the run diverges. unbias: 1 / (1 - beta_1^t), 1 / sqrt(1 - beta_2^t) */
RULE(adamw)
{
	float g = by.scale * f.g;
	f.a = rule_keep(&by, 0) * f.a + rule_take(&by, 0) * g;
	f.b = rule_keep(&by, 1) * f.b + rule_take(&by, 1) * g * g;
	f.x -= now.lr * (now.unbias[0] * f.a / (now.unbias[1] * sqrtf(f.b) + by.eps) + (f.b - f.b) +
			 by.decay * f.x);
	return f;
}

/* u - u: 0, or NaN if u is not finite, so that the run diverges. */
RULE(lion)
{
	float g = by.scale * f.g, u = rule_keep(&by, 0) * f.a + rule_take(&by, 0) * g;
	f.a = rule_keep(&by, 1) * f.a + rule_take(&by, 1) * g;
	f.x -= now.lr * ((float)(u > 0) - (float)(u < 0) + (u - u) + by.decay * f.x);
	return f;
}

RULE(adagrad)
{
	float g = by.scale * f.g + by.decay * f.x;
	f.a += g * g;
	f.x -= now.lr * g / (sqrtf(f.a) + by.eps) + (f.a - f.a); /* as in adamw */
	return f;
}

/* The direction of adamw's step, without decay. */
RULE(adam)
{
	float g = by.scale * f.g;
	(void)now.lr;
	f.a = rule_keep(&by, 0) * f.a + rule_take(&by, 0) * g;
	f.b = rule_keep(&by, 1) * f.b + rule_take(&by, 1) * g * g;
	f.x = now.unbias[0] * f.a / (now.unbias[1] * sqrtf(f.b) + by.eps) + (f.b - f.b);
	return f;
}

/* The factor of vec_limit: it limits the length to `most` if least = most; with least near 0 it
 * makes the length `most`. In two parts, because the factor of a huge gradient may be too small for
 * a float: its floats are multiplied by `first`, 1 otherwise, and then by `then`. */
struct limit {
	float first, then;
};
#define SQUARES_SCALE 0x1p-192 /* of square[1]: 2^32 floats of the largest size fit */
static inline ON_DEVICE struct limit limit_of(const float *square, float most, float least)
{
	const bool huge = square[0] > FLT_MAX;
	const float first = huge ? 0x1p-96f : 1; /* the root of the scale */
	const float norm = sqrtf(square[huge]);
	struct limit by = {1, most / least};
	if (!(norm <= least * first)) { /* also where it is NaN, so that the run diverges */
		by.first = first;
		by.then = most / norm;
	}
	return by;
}

/* The factor of vec_ratio. NaN where a norm is, so that the run diverges. */
static inline ON_DEVICE float norm_of_square(const float *square)
{
	return square[0] > FLT_MAX ? 0x1p96f * sqrtf(square[1]) : sqrtf(square[0]);
}
static inline ON_DEVICE float ratio_of(const float *w, const float *u, float most, float decay)
{
	const float of_w = norm_of_square(w), over = norm_of_square(u) + decay * of_w;
	return of_w == 0 || over == 0 ? 1 : most * of_w / over;
}

#define RULE_MOMENTS(kind, word, moments) moments,
static inline int rule_moments(enum rule_kind kind)
{
	static const int moments[] = {RULE_LIST(RULE_MOMENTS)};
	return moments[kind];
}

#endif
