/*
 * plan.h - the facts that probing finds before a run starts, and whether it can start.
 */
#ifndef PLAN_H
#define PLAN_H

#include "runtime/config/settings.h"
#include "runtime/device/device.h"

/* Device memory that one worker needs [bytes]. */
struct footprint {
	size_t parameters; /* with gradients, optimiser state and copies of the model */
	size_t activations;
	size_t data;      /* the data set */
	size_t workspace; /* upper bound: of libraries, and of the device itself */
};

/* The facts that probing finds before a run starts. */
struct plan {
	struct data train, validation, test; /* shapes only */
	int64_t params, buffers;             /* of the whole model [floats] */
	double row_flops;                    /* of the gradient of a row; 0: not known */
	uint64_t layout;                     /* hash of its layers: equal models, equal layouts */
	int64_t steps;                       /* of one epoch, if workers make the same number */
	bool dynamic;                        /* an idle worker takes the next mini-batch */
	int cores;                           /* of this machine */
	bool oversubscribed;                 /* fewer cores than compute threads */
	bool share_gpus;                     /* fewer GPUs than workers */
	const char *device;                  /* given, or chosen by `auto` */
	const char *passed_over;    /* why auto took the cpu although there is a GPU; NULL */
	struct device_facts facts;  /* of the device */
	struct footprint footprint; /* of one worker */
	const struct simulation *simulation; /* NULL in the real world */
};
/* The most evaluations between ends of epochs (--eval-every) from one barrier to the next. */
int64_t plan_points(const struct run *run, int64_t steps);
int64_t plan_segment_epochs(const struct run *run); /* between two barriers */
/* Can its options be combined, on any machine? NULL, or a message. */
char *plan_refuse(const struct config *c);
/* Can its tables be placed as asked? near: all workers are on one machine. NULL, or a message. */
char *plan_tables(const struct config *c, bool near);
/* Checks that this configuration can run here; lays out the model without allocating it. */
char *plan_make(const struct config *c, struct plan *p);

/* Memory that this machine has for this many processes, without their basic needs [bytes]. NULL, or
 * a message: there is no room for them. */
char *host_room(int processes, size_t *bytes);

#endif
