/*
 * model.h - what simulated work costs, as it was measured (mvbench calibrate) or given: the part of
 * the simulated world that results and plans know, too.
 */
#ifndef MODEL_H
#define MODEL_H

#include <stddef.h>
#include <stdint.h>

struct recording;

/* What work costs, as it was measured (mvbench calibrate) or given: of vectors [floats] (fill: y =
 * a), of operations on a table [floats], what an allreduce takes beside its
 * messages [floats], what plug-ins do on the host [floats], and from the ring of a monitor until a
 * sleeper goes on [1]. */
#define COST_LIST(X) \
	X(FILL, fill) \
	X(COPY, copy) \
	X(SCALE, scale) \
	X(AXPY, axpy) \
	X(SGD, sgd) \
	X(READ, read) \
	X(PUSH, push) \
	X(SYNC, sync) \
	X(ELASTIC, elastic) \
	X(SUM, sum) \
	X(HOST, host) \
	X(WAKE, wake)
enum cost {
#define ROW(id, name) COST_##id,
	COST_LIST(ROW)
#undef ROW
		COSTS
};
extern const char *const cost_names[COSTS];

enum { CURVE_POINTS = 64 };
struct curve { /* seconds over an amount of work; no points: 0 */
	int n;
	double x[CURVE_POINTS], y[CURVE_POINTS]; /* x ascending */
};
/* On straight lines between points; before the first as there, beyond the last in proportion. */
double curve_at(const struct curve *c, double x);

/* Figures of a machine, as sim/measure.c takes them and table calibration_point keeps them. */
struct point {
	char name[16];
	double x, value;
};
struct points {
	struct point *point;
	size_t n, room;
};
void points_add(struct points *p, const char *name, double x, double value);

/* What steps take (steps.c): s[i] of those between the shares from[i] and from[i + 1] of all, in
 * STEP_BINS-ths, sorted from the shortest. */
enum { STEP_BINS = 64, TAIL_MOST = 1024, STEPS_MOST = STEP_BINS + TAIL_MOST };
struct steps {
	int n;
	double from[STEPS_MOST], s[STEPS_MOST];
};
/* The figures of n measured steps [s], which get sorted: name "step", x = STEP_BINS repetition +
 * from. */
void steps_points(struct points *out, float *step, size_t n, int repetition);
void steps_add(struct steps *s, double from, double seconds); /* in order */
double steps_draw(const struct steps *s, double u);           /* u uniform in [0, 1) */

struct simulation {
	char *platform_file;    /* SimGrid XML */
	int64_t calibration_id; /* of the step times; 0 = they were given */
	struct steps step;      /* a whole local one (batch, gradient, update) of so many rows */
	double rows;
	struct curve cost[COSTS];
	struct points points; /* all that the calibration says */
	int64_t wires_id;     /* of the wires between hosts; 0 = none */
	struct points wires;
	double update_s; /* of a push with its pull of the whole model; NaN = as the curves say */
	const struct recording *replay; /* the order that operations on tables keep; NULL = none */
};

#endif
