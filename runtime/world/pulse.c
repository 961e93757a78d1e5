/*
 * pulse.c - what this process's rank does now: plain stores, which others read.
 */
#include "runtime/world/world.h"

#include <time.h>

_Static_assert(sizeof(struct pulse) == 64, "a pulse is one cache line");

static struct pulse unseen, *pulse = &unseen;

void pulse_of(struct pulse *p)
{
	enum phase phase = (enum phase)pulse->phase;
	pulse = p ? p : &unseen;
	pulse_phase(phase);
}

struct pulse *pulse_mine(void)
{
	return pulse;
}

void pulse_step(void)
{
	PULSE_PUT(pulse->events, pulse->events + 1);
}

void pulse_alive(struct pulse *p)
{
	struct timespec all, mine;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &all);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &mine);
	PULSE_PUT(p->cpu,
		  (nsec)(all.tv_sec - mine.tv_sec) * 1000000000 + all.tv_nsec - mine.tv_nsec);
	PULSE_PUT(p->beat, p->beat + 1);
}

void pulse_phase(enum phase phase)
{
	PULSE_PUT(pulse->phase, (int16_t)phase);
	pulse_step();
}

const char *const spent_names[SPENT_KINDS] = {
#define ROW(id, name) [SPENT_##id] = #name,
	SPENT_LIST(ROW)
#undef ROW
};
