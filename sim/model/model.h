/*
 * model.h - the costs of simulated work, measured (mvbench calibrate) or given. This is the part of
 * the simulator that results and plans use, too.
 */
#ifndef MODEL_H
#define MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct codec;
struct recording;

/* Costs of work, measured (mvbench calibrate) or given: vector operations [floats] (fill: y = a);
 * operations on a table [floats]; an allreduce beyond its messages [floats]; a plug-in's work on
 * the host [floats]; from a monitor's wake-up signal until a sleeping worker resumes [1]. */
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
struct curve { /* seconds as a function of the amount of work; no points: 0 */
	int n;
	double x[CURVE_POINTS], y[CURVE_POINTS]; /* x ascending */
};
/* Linear between points; before the first point constant, beyond the last one in proportion. */
double curve_at(const struct curve *c, double x);

/* Figures of a machine, as sim/measure.c takes them and table calibration_point keeps them. */
struct point {
	char name[24];
	double x, value;
};
struct points {
	struct point *point;
	size_t n;
};
void points_add(struct points *p, const char *name, double x, double value);

/* Durations of steps (steps.c): s[i] is that of the steps from share from[i] to from[i + 1] of all
 * steps, in STEP_BINS-ths, sorted from the shortest. */
enum { STEP_BINS = 64, TAIL_MOST = 1024, STEPS_MOST = STEP_BINS + TAIL_MOST };
struct steps {
	int n;
	double from[STEPS_MOST], s[STEPS_MOST];
};
/* The figures of n measured steps [s]: name "step", x = STEP_BINS repetition + from. NaN: no
 * duration. Sorts step. */
void steps_points(struct points *out, float *step, size_t n, int repetition);
void steps_add(struct steps *s, double from, double seconds); /* in order */
double steps_draw(const struct steps *s, double u);           /* u uniform in [0, 1) */

struct simulation {
	char *platform_file;    /* SimGrid XML */
	int64_t calibration_id; /* of the step times; 0 = they were given */
	struct steps step;      /* a whole local step (batch, gradient, update) of `rows` rows */
	double rows;
	bool sleeps; /* a step takes no core */
	struct curve cost[COSTS];
	/* On this machine, whose ranks sum in shared memory: a sum [floats]. No points: messages
	 * and cost[COST_SUM] instead. */
	struct curve allreduce;
	/* Measured times of the layers, as struct layout's flops count them; layers = 0: not
	 * measured. */
	double *layer_s; /* [layers + 1] */
	size_t layers;
	struct points points; /* figures of the calibration; steps of one repetition */
	int64_t wires_id;     /* of the links between hosts; 0 = none */
	struct points wires;
	/* In which the run's codec, and then that of pulls, encodes the whole model, and decodes
	 * it; NaN: by its passes. */
	struct code_time {
		const struct codec *codec;
		double s[2];
	} code[2];
	double update_s;   /* of a push with its pull of the whole model; NaN = use the curves */
	double connect_s;  /* before a worker's first sum */
	double push_share; /* of a push with the run's updater, as a share of one with "add"; NaN:
			    * it was not measured */
	struct recording *replay; /* the recorded order of table operations; NULL = none */
};

#endif
