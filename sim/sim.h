/*
 * sim.h - what the files of the simulated world share. A simulated worker is an actor of SimGrid's
 * with a stack of its own; all of them run in one process and one thread, one at a time.
 */
#ifndef SIM_H
#define SIM_H

#include "runtime/table/table.h"
#include "sim/model/model.h"

struct sim_worker {
	int rank;
	uint64_t node;         /* the machine that it is on */
	struct worker *worker; /* once it has a device */
	uint64_t rng;          /* of step times */
	double owed_s;         /* work that is done, and has not taken its time yet */
	double pending_s;      /* of a gradient whose layers are told one by one */
	double gradient_s;     /* of the whole model that this worker has a part of */
	bool quiet;            /* what the device does is paid for as a whole */
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

/* measure.c: collective; rank 0 gets the figures. */
void measure_costs(struct worker *w, struct points *out);
void measure_steps(struct worker *w, const float *step, size_t n, int repetition,
		   struct points *out);

/* device.c: makes the operations of w's device take time. train false: they do nothing else. */
void sim_device(struct worker *w, bool train);

/* calibrate.c */
/* Launches repetition `repetition` (0: a new calibration, and all costs) of what c needs, with c's
 * workers; or, simulated, the measuring on this machine as it was found. Returns an exit status,
 * says what is wrong. */
int calibration_repeat(const struct config *c, int repetition, bool simulated);

#endif
