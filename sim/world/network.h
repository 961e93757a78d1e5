/*
 * network.h - the network of simulated tables: network.c has it, mailbox.c and window.c use it.
 */
#ifndef NETWORK_H
#define NETWORK_H

#include "sim/sim.h"

/* A sequence of messages and delays, one at a time. Its user owns it and sets `least_s`. */
struct passage {
	/* After what is under way, this time passes at least before an actor must know. The
	 * simulator may then look at many passages at once, instead of waking for each of their
	 * messages. */
	double least_s;
	/* of network.c: */
	enum { PASSAGE_IDLE, PASSAGE_DELAYED, PASSAGE_LATENT, PASSAGE_FLOWS, PASSAGE_BESIDE } state;
	double at;                              /* the time of its next event */
	uint64_t order;                         /* of events at the same time */
	size_t place, number;                   /* in the heap of events; in the list of all */
	void (*then)(struct passage *p);        /* what follows */
	const struct way *way;                  /* the links of its message, */
	double left, factor, rate, since, mark; /* bytes left, since this time, at this rate */
	int *spot, spots;                       /* [links of the way] its place among their flows */
};

/* An actor waits for p, until passage_over. */
void passage_begin(struct passage *p);
void passage_over(struct passage *p);
/* Calls then at the end: of a time; of a message from rank to rank, which is sent after a time. */
void passage_delay(struct passage *p, double seconds, void (*then)(struct passage *p));
void passage_send(struct passage *p, double after, int from, int to, double bytes,
		  void (*then)(struct passage *p));
/* The time of a message alone. [s] */
double message_least(int from, int to, double bytes);

/* Brings all passages to this time. Call it in an actor before it begins one, and before it looks
 * at what they change. */
void network_advance(void);
double network_now(void); /* the time of the event that is being handled */
void network_free(void);

#endif
