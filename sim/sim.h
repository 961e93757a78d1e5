/*
 * sim.h - shared by the files of the simulator. A simulated worker is a SimGrid actor with a stack
 * of its own. All workers run in one process and one thread, one at a time.
 */
#ifndef SIM_H
#define SIM_H

#include "runtime/cli/cli.h"
#include "runtime/table/table.h"
#include "sim/model/model.h"

struct arguments;
extern const struct plan *sim_plan; /* of this simulation (world.c), with its costs */

struct sim_worker {
	int rank;
	uint64_t node;         /* its machine */
	struct worker *worker; /* once it has a device */
	uint64_t rng;          /* of step times */
	double away_until_s;   /* until then it computes, or sleeps, outside MPI; 0: it does not */
	int64_t stretches;     /* number of such stretches that have ended */
	/* Pending time: work is done, but has not advanced the clock. asleep_s: of a step that
	 * takes no core. */
	double charged_s[SPENT_KINDS], asleep_s;
	double spent_s[SPENT_KINDS]; /* the ledger: all time within segments, by kind, */
	double known_s;              /* until this time */
	double pending_s;            /* of a gradient whose layers become ready one by one */
	double gradient_s;           /* of the whole model, of which this worker has a part */
	bool quiet;                  /* the device's operations are charged as a whole */
	bool updating;               /* likewise */
	bool off_clock;              /* collectives take no time */
	bool connected;              /* it has begun a sum on the clock */
	bool summed; /* in shared memory; world_charge_sum has still to charge the time */
	struct mailbox *mailbox; /* mailbox.c; NULL before its first message */
	/* for the report of a deadlock */
	const char *doing;
	int peer;
	bool over;
	int status;
};

struct mailbox;
struct sim_worker *sim_self(void); /* NULL outside an actor, as before the start */
struct sim_worker *sim_worker_of(int rank);
int sim_ranks(void); /* workers and servers */
void mailbox_free(struct mailbox *m);
struct s4u_Host *sim_host_of(int rank);
void sim_charge(enum spent kind, double seconds);
void sim_charge_for(enum spent kind, enum cost what, double amount);

/* engine.c */
/* NULL, or why mvbench does not accept this platform. A platform that SimGrid does not accept ends
 * the process. */
char *engine_start(const char *platform, int workers);
/* NULL, or one of both errors. */
char *engine_try(const char *file);
/* What the platform's file adds to a message of this length: factors of latency and bandwidth; the
 * time of the sender's processor, blocking or not, and of the receiver's [s]. */
enum message_cost {
	FACTOR_LATENCY,
	FACTOR_BANDWIDTH,
	TIME_SEND,
	TIME_ISEND,
	TIME_RECV,
	MESSAGE_COSTS
};
double engine_factor(enum message_cost what, double bytes);
void engine_print_factors(FILE *f);
enum { MESSAGE_ENVELOPE = 16 /* bytes, as SMPI's */ };

/* measure.c: collective; rank 0 gets the figures. seconds below 1: fewer measurements of each. */
void measure_costs(struct worker *w, double seconds, struct points *out);
/* One rank on each of several hosts. */
void measure_wires(struct worker *w, double seconds, struct points *out);
void measure_steps(struct worker *w, const float *step, size_t n, int repetition,
		   struct points *out);

/* calibrate.c */
/* Launches repetition `repetition` (0: a new calibration, with all costs) of the calibration that c
 * needs, with this number of workers and seconds of training. far: measures instead the links
 * between this number of hosts of c's hostfile, with one rank on each. simulated: repeats the
 * measurement in the simulator, with the costs measured so far. Returns an exit status and prints
 * errors. */
int calibration_repeat(const struct config *c, int workers, bool far, bool simulated,
		       int repetition, double seconds);
/* *far: are other machines meant? lab: number of hosts of a lab, in which this command then
 * restarts, unless it is in one; 0 = none. If *far is false, the hostfile of the environment is
 * ignored. NULL, or a message. */
char *calibration_is_far(const struct arguments *a, int64_t lab, bool *far);

#endif
