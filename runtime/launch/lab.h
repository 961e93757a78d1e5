/*
 * lab.h - a cluster of virtual hosts on this machine: lab_hosts.c builds hosts and wires,
 * lab_wires.c sets these, lab_exec.c runs commands on hosts, lab_probe.c measures a wire. The
 * command is results/run/lab.c.
 */
#ifndef LAB_H
#define LAB_H

#include "runtime/config/settings.h"

#include <sys/types.h>

/* LAB_FOLDER has a socket of each host, mpirun's list of hosts, and their temporary files. */
#define LAB_SWITCH "switch" /* joins all wires: a host without its own network */
enum { LAB_HOSTS_MOST = 64, LAB_NAME = 16 };

struct lab {
	int64_t hosts;
	const char *rate; /* of each wire, each way, in tc's units; "none": unlimited */
	double offset;    /* host k's monotonic clock is k times that ahead [s] */
	bool stays;       /* after its first command, until mvbench lab down */
	bool probed;      /* host 1 first measures the wire to host 2 */
};

/* "lab3": host k, from 1. */
const char *lab_name(int k, char name[LAB_NAME]);
/* The rate that a host's wire was last set to. Heap; "none": no such host. */
char *lab_rate_read(const char *host);
void lab_file_write(const char *host, const char *ending, const char *text); /* "rate", "pid" */
/* Sets all wires of this process's lab that have another rate to this one. NULL, or a message. */
char *lab_rate_all(const char *rate);
/* These run on the hosts; *status: of the last command. NULL, or a message.
 * lab_at: a line of shell on a host. lab_wire_set: whole, or cut. lab_rates_set: of all hosts that
 * are on; others: only wires that have another rate. */
char *lab_at(const char *host, const char *line, int *status);
char *lab_wire_set(const char *host, bool whole, int *status);
char *lab_rate_set(const char *rate, const char *host, int *status);
char *lab_rates_set(const char *rate, bool others, int *status);
/* tc's arguments for one end of a wire. Heap. */
char *lab_shape(const char *rate);

/* Builds a lab in a child of this process. *child: the lab ends with it; *first: a connection to
 * host 1, for lab_request. NULL, or a message. */
char *lab_build(const struct lab *l, pid_t *child, int *first);

/* lab_listen: makes the socket of a host. lab_serve: serves its requests forever. lab_serve_one:
 * serves one request of an accepted connection. */
int lab_listen(const char *host);
void lab_serve(int fd) __attribute__((noreturn));
void lab_serve_one(int connection);
/* Runs words (ends at NULL) at the other end of the connection, or on a host, with the standard
 * streams and the folder of this process. Signals that would end this process are forwarded.
 * *status: as in a shell. NULL, or a message. */
char *lab_request(int connection, const char *const *words, int *status);
char *lab_exec(const char *host, const char *const *words, int *status);

/* Times of a wire for messages of PROBE_BYTES: medians [s]. */
enum { PROBE_BYTES = 407000 };
struct lab_wire {
	double round_trip; /* of a byte */
	double one_way, both_ways;
};
char *lab_probe(const char *host, struct lab_wire *out); /* from this host to that one */
char *lab_probe_answer(void);                            /* the other end */

#endif
