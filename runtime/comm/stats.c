/*
 * stats.c - counters of a worker: times, bytes, pushes and their staleness.
 *
 * The histogram of staleness has bins of width 1 below STALENESS_EXACT, then 16 bins an octave.
 */
#include "runtime/comm/comm.h"

#include <stdlib.h>

void stats_init(struct stats *s, size_t room)
{
	*s = (struct stats){.room = room};
	s->joint_op = must(calloc(s->room, sizeof *s->joint_op));
}

void stats_fini(struct stats *s)
{
	free(s->joint_op);
}

void stats_reset(struct stats *s)
{
	*s = (struct stats){.joint_op = s->joint_op, .room = s->room, .trace = s->trace};
}

void stats_step(struct stats *s, int64_t sent_before)
{
	if (s->bytes_sent - sent_before > s->peak_bytes)
		s->peak_bytes = s->bytes_sent - sent_before;
}

static int staleness_bin(int64_t staleness)
{
	int octave = 0;
	while (staleness >> octave >= STALENESS_EXACT * 2 && octave < 15)
		octave++;
	if (staleness < STALENESS_EXACT)
		return (int)staleness;
	int64_t sixteenth = (staleness >> octave) / (STALENESS_EXACT / 16) - 16;
	return STALENESS_EXACT + 16 * octave + (int)(sixteenth < 15 ? sixteenth : 15);
}

int64_t staleness_of_bin(int bin)
{
	int above = bin - STALENESS_EXACT;
	if (above < 0)
		return bin;
	return (int64_t)(16 + above % 16) * (STALENESS_EXACT / 16) << above / 16;
}

void stats_push(struct stats *s, int64_t staleness)
{
	s->pushes++;
	s->staleness_sum += staleness;
	s->staleness[staleness_bin(staleness)]++;
	if (staleness > s->staleness_max)
		s->staleness_max = staleness;
}

/* Operations that were not compared count with the average waiting time of the others. */
nsec stats_waited(const struct stats *s, size_t first, size_t last)
{
	size_t kept = s->compared, end = smaller(last, kept);
	double waited = 0;
	if (last <= first || kept == 0)
		return 0;
	if (first >= end)
		return (nsec)((double)stats_waited(s, 0, kept) * (double)(last - first) /
			      (double)kept);
	for (size_t i = first; i < end; i++)
		waited += s->joint_op[i].s - s->joint_op[i].shortest_s;
	return (nsec)(1e9 * waited * (double)(last - first) / (double)(end - first));
}
