/*
 * link.h - what the files that call MPI share: mpi.c (start, stop), link.c (messages, collectives,
 * shared memory), window.c, mailbox.c. All are compiled twice: against Open MPI, and against SMPI.
 */
#ifndef LINK_H
#define LINK_H

#include "runtime/comm/comm.h"

#include <mpi.h>

struct mailbox;

struct link {
	MPI_Comm comm; /* MPI_COMM_NULL: one worker alone */
	int rank, size;
	struct sums *sums; /* of simulated workers: where they sum; NULL in the real world */
	MPI_Request slot[LINK_SLOTS];
	struct mailbox *mailbox; /* NULL until there is some */
};

enum { SHARED_ALIGN = 64 };

bool in_mpi(void); /* begun, and not over */
void mailbox_free(struct mailbox *m);

/* MPI counts in int. */
static inline int count(size_t n)
{
	CHECK(n <= INT_MAX, "%zu in one message, %d is the most", n, INT_MAX);
	return (int)n;
}

#endif
