/*
 * trace.h - a rank's part of the timeline: trace.c records it, trace_gather.c sends it.
 */
#ifndef TRACE_H
#define TRACE_H

#include "runtime/comm/comm.h"

struct trace {
	struct slice *event, lost_event;
	size_t n, room, lost;
	int32_t rank, epoch, step, seq;
	nsec offset; /* from this rank's clock to the timeline */
};

struct trace *trace_make(int rank, int ranks, size_t room, nsec offset);

#endif
