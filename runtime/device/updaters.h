/*
 * updaters.h - the updaters of parameter-server tables, elementwise. An updater is one row and one
 * formula, for both processors (runtime/table/updater.c) and GPUs (cuda/table.cu).
 *
 * Sources: AdaGrad, Duchi et al., JMLR 12 (2011); delay compensation, Zheng et al., arXiv
 * 1609.08326; staleness-aware steps, Zhang et al., arXiv 1511.05950; momentum_ema in
 * Multiverso's form; Adam, Kingma, Ba, arXiv 1412.6980; delayed Nesterov, Liu et al., arXiv
 * 2401.09135. Cost: one pass, 3 to 7 floats of traffic per parameter.
 */
#ifndef UPDATERS_H
#define UPDATERS_H

#include "mvbench.h"
#include "runtime/device/rules.h"

#include <math.h>

/* Name, formula, vectors that it keeps besides W (STATE: one per table, OWN: one per worker, MORE:
 * two per table; all start at 0), whether it reads the last pull of the pushing worker k (bak_k),
 * and other fields of struct updater. tau: pushes of other workers since that pull; t: number of
 * this push to the shard. */
#define UPDATER_LIST(X) \
	X(add, "W += d", NOTHING, false, .additive = true) \
	X(sgd, "W -= lr g", NOTHING, false, .wants.gradient = true, .additive = true) \
	X(momentum, "v = m v + g; W -= lr v", STATE, false, .wants.gradient = true, \
	  .wants.momentum = true) \
	X(momentum_ema, "v = m v + (1-m) g; W -= lr v", STATE, false, .wants.gradient = true, \
	  .wants.momentum = true) \
	X(adagrad, "G_k += g^2; W -= rho / sqrt(G_k + 1e-6) g", OWN, false, \
	  .wants.gradient = true, .wants.evens = true, .additive = true) \
	X(adagrad_shared, "G += g^2; W -= rho / sqrt(G + 1e-6) g", STATE, false, \
	  .wants.gradient = true) \
	X(dcasgd, "W -= lr (g + lambda g^2 (W - bak_k))", NOTHING, true, .wants.gradient = true) \
	X(dcasgda, \
	  "M_k = m M_k + (1-m) g^2; W -= lr (g + lambda / sqrt(M_k + 1e-7) g^2 (W - bak_k))", OWN, \
	  true, .wants.gradient = true, .wants.squares = true) \
	X(adam, \
	  "M = b1 M + (1-b1) g; S = b2 S + (1-b2) g^2; " \
	  "W -= lr M / (1-b1^t) / (sqrt(S / (1-b2^t)) + eps)", \
	  MORE, false, .wants.gradient = true, .wants.momentum = true, .wants.betas = true) \
	X(delayed_nesterov, \
	  "W += a (d + c m M), D += d; but each N-th push: M = m M + D, D = 0, W += a (d + " \
	  "(1 - c N + c) m M)", \
	  MORE, false, .wants.change = true) \
	X(staleness, "W -= lr / max(tau, 1) g", NOTHING, false, .wants.gradient = true, \
	  .wants.whole = true, .additive = true, .staleness = true)

#define UPDATER_KIND(word, ...) UPDATER_##word,
enum updater_kind { UPDATER_LIST(UPDATER_KIND) };

/* MORE: STATE, and a second vector of that length; T: the number of their pushes. */
enum keeps { KEEPS_NOTHING, KEEPS_STATE, KEEPS_OWN, KEEPS_MORE, KEEPS_T };

/* One float of a table, and what else a formula reads. A formula changes w, kept and more. */
struct table_element {
	float w, g;          /* g: the pushed float */
	float state, pulled; /* 0 if the row does not name them */
	float tau;
	float more, unbias[2]; /* only for MORE */
};
#define FORMULA(word) \
	static inline ON_DEVICE struct table_element push_##word(struct table_element x, \
								 struct push by)

FORMULA(add)
{
	x.w += by.scale * x.g;
	return x;
}

/* Operations in the same order as in the local optimiser. */
FORMULA(sgd)
{
	x.w -= by.lr * x.g;
	return x;
}

FORMULA(momentum)
{
	x.state = (float)by.momentum * x.state + x.g;
	x.w -= by.lr * x.state;
	return x;
}

FORMULA(momentum_ema)
{
	x.state = (float)by.momentum * x.state + (float)(1 - by.momentum) * x.g;
	x.w -= by.lr * x.state;
	return x;
}

FORMULA(adagrad)
{
	x.state += x.g * x.g;
	x.w -= by.rho / sqrtf(x.state + 1e-6f) * x.g + (x.state - x.state); /* as in adamw */
	return x;
}

FORMULA(adagrad_shared)
{
	return push_adagrad(x, by);
}

FORMULA(dcasgd)
{
	x.w -= by.lr * (x.g + by.lambda * x.g * x.g * (x.w - x.pulled));
	return x;
}

FORMULA(dcasgda)
{
	float square = x.g * x.g;
	x.state = (float)by.momentum * x.state + (float)(1 - by.momentum) * square;
	x.w -= by.lr * (x.g + by.lambda / sqrtf(x.state + 1e-7f) * square * (x.w - x.pulled));
	return x;
}

static inline ON_DEVICE struct rule adam_rule(struct push by)
{
	struct rule r = {RULE_ADAMW, 0, 1, 0, by.eps, {by.beta[0], by.beta[1]}};
	return r;
}

/* The local optimiser's formula, with a decay of 0. */
FORMULA(adam)
{
	struct moving f = {x.w, x.g, x.state, x.more};
	struct rule r = adam_rule(by);
	struct moving_step now = {by.lr, {x.unbias[0], x.unbias[1]}};
	f = rule_adamw(f, r, now);
	x.w = f.x;
	x.state = f.a;
	x.more = f.b;
	return x;
}

/* a: the learning rate without the weight of the push, which the delta has. */
FORMULA(delayed_nesterov)
{
	float d = by.scale * x.g, a = by.lr / by.scale, share = by.lambda;
	x.more += d;
	if (x.unbias[0] > 0) {
		x.state = (float)by.momentum * x.state + x.more;
		x.more = 0;
		share = 1 - by.lambda * fmaxf(by.period, 1) + by.lambda;
	}
	x.w += a * (d + share * (float)by.momentum * x.state);
	return x;
}

FORMULA(staleness)
{
	x.w -= by.lr / fmaxf(x.tau, 1) * x.g;
	return x;
}

/* Selects the formula, for a kernel that serves all updaters. */
static inline ON_DEVICE struct table_element push_any(enum updater_kind kind,
						      struct table_element x, struct push by)
{
#define UPDATER_CASE(word, ...) \
	case UPDATER_##word: \
		return push_##word(x, by);
	switch (kind) {
		UPDATER_LIST(UPDATER_CASE)
	}
	return x;
}

/* ---- An operation on n floats -------------------------------------------- */

enum op_kind {
	OP_READ,    /* out = W */
	OP_PUSH,    /* updater(W, in); then out = W if out is set */
	OP_SYNC,    /* W += scale (out - pulled); out = W */
	OP_ELASTIC, /* d = scale (out - W); W += d; out -= d */
	OP_SET,     /* W = in; in the host's memory, neither in rounds nor onesided */
};

/* Pointers are to the first of the operation's n floats; NULL: not present, or not asked for. */
struct update {
	float *w;
	float *state, *more; /* kept with the table, besides W */
	float *own;          /* the pushing worker's */
	float *pulled;       /* the last pull of the pushing worker */
	const float *values; /* the push; may be out */
	float *out;
	struct push by;
	int64_t staleness; /* tau */
	int64_t number;    /* t, from 1 */
	bool keep;         /* copies out to pulled as well */
	bool large;        /* the table is larger than the caches */
};

/* The vector that a formula reads as `kept`; NULL: none. */
static inline float *update_state(const struct update *u, enum keeps state)
{
	return state == KEEPS_STATE || state == KEEPS_MORE ? u->state
	       : state == KEEPS_OWN                        ? u->own
							   : NULL;
}

/* Bias corrections of the moments at push t, because they start at 0; as in adamw.c. With a period:
 * whether a period ends. */
static inline void update_unbias(const struct update *u, float by[2])
{
	if (u->by.period > 0) {
		by[0] = u->number % (int64_t)u->by.period == 0;
		return;
	}
	by[0] = (float)(1 / (1 - pow(u->by.beta[0], (double)u->number)));
	by[1] = (float)(1 / sqrt(1 - pow(u->by.beta[1], (double)u->number)));
}

#endif
