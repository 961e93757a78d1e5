/*
 * link.h - shared by the files that call MPI: mpi.c (start, stop), link.c (messages, collectives,
 * shared memory), ring.c, node.c (sums), window.c, mailbox.c, together.c. All are compiled twice:
 * against Open MPI and SMPI.
 */
#ifndef LINK_H
#define LINK_H

#include "runtime/comm/comm.h"

#include <mpi.h>

struct mailbox;
struct rings;
struct node;

struct link {
	MPI_Comm comm; /* MPI_COMM_NULL: one worker alone */
	int rank, size;
	struct sums *sums;            /* simulated workers sum here; NULL in the real world */
	MPI_Request slot[LINK_SLOTS]; /* of link_allgather_start and link_alltoall_start */
	struct rings *rings;          /* started sums; NULL before the first */
	struct node *node;            /* NULL before the first sum that all ranks wait for */
	struct mailbox *mailbox;      /* NULL before its first use; then: */
	void (*mailbox_free)(struct mailbox *m);
	bool borrowed; /* another link frees comm */
};

enum { SHARED_ALIGN = 64 };

bool in_mpi(void); /* MPI is initialized and not finalized */
bool has_infiniband(void);
/* After a call that allocated shared memory with MPI_ERRORS_RETURN: ends all ranks if it failed. */
void link_memory_check(struct link *l, int code, size_t bytes);

/* together.c: simulated ranks, which share their memory, off the clock. Like link_..., except: */
bool are_together(const struct link *l);
void together_barrier(struct link *l);
void together_broadcast(struct link *l, int root, void *x, size_t bytes);
/* x: doubles; for REDUCE_LEAST struct least */
void together_reduce(struct link *l, void *x, int n, enum link_reduce how);
/* all: for ranks that need the result, otherwise NULL */
void together_gather(struct link *l, const void *mine, size_t bytes, void *all);
/* Also on the clock: a split takes no virtual time. */
struct link *together_split(struct link *l, int color);

/* ring.c: sums that travel while their ranks compute. rings_prepare: the memory of one more sum. */
void rings_prepare(struct link *l, size_t n);
void ring_start(struct link *l, int slot, float *x, size_t n);
void ring_start_if(struct link *l, int slot, float *x, size_t n, struct link *facts_link,
		   double *facts, int facts_n);
void ring_wait(struct link *l, int slot);
void rings_free(struct link *l); /* no sum of l is under way */
bool rings_are_under_way(void);  /* of any link of this process */
bool rings_advance(void);        /* moves their messages; true: one was completed */

/* node.c: sums of ranks that share memory. node_open: collective, before the first; one_node: they
 * are on one machine. node_sum: false: they share none, and nothing was done. */
void node_open(struct link *l, bool one_node);
bool node_sum(struct link *l, float *x, size_t n);
void node_free(struct link *l);

size_t piece_of(size_t n); /* how many of n floats one message carries */
struct length {
	int n;
	MPI_Datatype type;
};
struct length length_of(size_t n); /* of a piece */
#define FLOATS(floats) length_of(floats).n, length_of(floats).type

/* MPI counts in int. */
static inline int count(size_t n)
{
	CHECK(n <= INT_MAX, "%zu in one message, %d is the most", n, INT_MAX);
	return (int)n;
}

#endif
