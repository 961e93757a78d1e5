/*
 * lab.h - a cluster of virtual hosts on this machine: lab.c is the command, lab_hosts.c builds
 * hosts and wires, lab_exec.c runs commands on them, lab_probe.c measures a wire.
 */
#ifndef LAB_H
#define LAB_H

#include "runtime/config/config.h"

#include <sys/types.h>

/* In LAB_FOLDER: a socket of each host, the list of hosts as mpirun reads it, and their temporary
 * files. */
#define LAB_SWITCH "switch" /* where the wires meet: a host without a network of its own */
enum { LAB_HOSTS_MOST = 64, LAB_NAME = 16 };

struct lab {
	int64_t hosts;
	const char *rate; /* of each wire, each way, as tc has it; "none": as fast as it goes */
	double offset;    /* host k's monotonic clock is k times that ahead [s] */
	bool stays;       /* after its first command, until it is told to go */
};

/* "lab3": host k, from 1. */
const char *lab_name(int k, char name[LAB_NAME]);
/* What a host's wire was last set to. Heap; "none" where there is no such host. */
char *lab_rate_read(const char *host);
void lab_rate_write(const char *host, const char *rate);
/* Gives all wires of the lab that this process is in this rate, those that have another. NULL, or a
 * sentence. */
char *lab_rate_all(const char *rate);
/* What tc is told of an end of a wire. Heap. */
char *lab_shape(const char *rate);

/* Builds it, in a child of this process. *child: which all of it ends with; *first: for
 * lab_request, a way to host 1. NULL, or a sentence. */
char *lab_build(const struct lab *l, pid_t *child, int *first);

/* Begins this process's command anew in a lab of so many hosts; NULL: this is one. */
char *lab_enter(int64_t hosts);

/* Serves requests that come to this socket, for good; or one, that has come. */
int lab_listen(const char *host);
void lab_serve(int fd) __attribute__((noreturn));
void lab_serve_one(int connection);
/* Runs words (ends at NULL) at the other end of the connection, or on a host, with the standard
 * streams and in the folder of this process, which hands on the signals that would end it.
 * *status: as a shell tells it. NULL, or a sentence. */
char *lab_request(int connection, const char *const *words, int *status);
char *lab_exec(const char *host, const char *const *words, int *status);

/* What a wire does with messages of PROBE_BYTES: medians [s]. */
enum { PROBE_BYTES = 407000 };
struct lab_wire {
	double round_trip; /* of a byte */
	double one_way, both_ways;
};
char *lab_probe(const char *host, struct lab_wire *out); /* from this host to that one */
char *lab_probe_answer(void);                            /* the other end */

#endif
