/*
 * sim.h - what the files of the simulated world share. A simulated worker is an actor of SimGrid's
 * with a stack of its own; all of them run in one process and one thread, one at a time.
 */
#ifndef SIM_H
#define SIM_H

#include "runtime/table/table.h"
#include "sim/model/model.h"

struct arguments;
struct sim_worker {
	int rank;
	uint64_t node;         /* the machine that it is on */
	struct worker *worker; /* once it has a device */
	uint64_t rng;          /* of step times */
	double away_until_s;   /* it computes, or sleeps, outside MPI; 0: it does not */
	int64_t stretches;     /* of that, that have ended */
	double owed_s;         /* work that is done, and has not taken its time yet */
	double pending_s;      /* of a gradient whose layers are told one by one */
	double gradient_s;     /* of the whole model that this worker has a part of */
	bool quiet;            /* what the device does is paid for as a whole */
	bool updating;         /* likewise */
	bool off_clock;        /* what is done together takes no time */
	/* for those who ask what it was doing when nothing went on any more */
	const char *doing;
	int peer;
	bool over;
	int status;
};

struct sim_worker *sim_self(void); /* NULL: nobody, as before the start */
const struct simulation *sim_costs(void);
double sim_params(void); /* of the whole model */
void sim_owe(double seconds);
void sim_owe_for(enum cost what, double amount);

/* engine.c */
void engine_start(const char *platform, int workers);
/* NULL, or what SimGrid says of this platform. */
char *engine_try(const char *file, int workers);

/* measure.c: collective; rank 0 gets the figures. Of less than a second: each less often. */
void measure_costs(struct worker *w, double seconds, struct points *out);
/* One rank on each of several hosts. */
void measure_wires(struct worker *w, double seconds, struct points *out);
void measure_steps(struct worker *w, const float *step, size_t n, int repetition,
		   struct points *out);

/* device.c: makes the operations of w's device take time. train false: they do nothing else. */
void sim_device(struct worker *w, bool train);

/* calibrate.c */
/* Launches repetition `repetition` (0: a new calibration, and all costs) of what c needs, with so
 * many workers and seconds of training; or, simulated, the measuring on this machine as it was
 * found. Returns an exit status, says what is wrong. */
int calibration_repeat(const struct config *c, int workers, int repetition, double seconds,
		       bool simulated);
/* The same of the wires between so many hosts of c's hostfile, one rank on each, in both worlds. */
int calibration_of_wires(const struct config *c, int hosts, double seconds);
/* Are other machines meant? lab: hosts of a lab, in which this command then begins anew, unless it
 * is in one; 0 = none. If not, those of the environment are forgotten. NULL, or a sentence. */
char *calibration_is_far(const struct arguments *a, int64_t lab, bool *far);

#endif
