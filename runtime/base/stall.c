/*
 * stall.c - finds ranks that make no progress, from their pulses. A rank has stalled if
 *   it gives no sign of life (on another machine), or is stopped (on this one);
 *   or it starts or ends its device for too long;
 *   or it computes for too long without any progress;
 *   or, without such a rank, all ranks wait and none makes progress: then all have stalled.
 * In programs that use the library (lib), computing counts only while another rank waits; if all
 * wait, they are reported, but the run is not ended. A rank that waits for a stalled one is not
 * reported. Times are what this process has seen: all restart after it was stopped itself.
 */
#include "runtime/base/stall.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NAMED_S = 8, GAP_S = 3 }; /* a stall is reported within 10 s, polling included */
static const nsec second = 1000000000;

bool process_is_stopped(pid_t pid)
{
	char *path AUTOFREE = sentence("/proc/%d/stat", (int)pid);
	char *text AUTOFREE = text_read(path);
	const char *name_end = text ? strrchr(text, ')') : NULL;
	return name_end && name_end[1] && strchr("Tt", name_end[2]);
}

static nsec larger(nsec a, nsec b)
{
	return a > b ? a : b;
}

static bool is_waiting(const struct pulse *p)
{
	return PULSE_GET(p->doing[0]) && PULSE_GET(p->peer) > WAITS_LEGITIMATELY;
}

/* Start of the longest current wait; INT64_MAX: no worker waits. */
static nsec first_to_wait(const struct stall *t)
{
	nsec first = INT64_MAX;
	for (int rank = 0; rank < t->workers; rank++)
		if (is_waiting(&t->pulse[rank]) && t->seen[rank].got_on < first)
			first = t->seen[rank].got_on;
	return first;
}

/* Why this rank itself has stalled, and since when; NULL: it makes progress, or may wait. */
static const char *stalled_itself(struct stall *t, int rank, bool computing, nsec now, nsec *since)
{
	struct seen *s = &t->seen[rank];
	bool far = false, idle = now - s->got_on > second;
	pid_t pid = t->process(t->self, rank, &far);
	*since = s->lived;
	if (far && now - s->lived > NAMED_S * second)
		return "gives no sign of life";
	bool stopped = idle && pid > 0 && process_is_stopped(pid);
	s->stopped = !stopped ? 0 : s->stopped ? s->stopped : now;
	*since = stopped ? s->stopped : s->got_on;
	if (stopped)
		return "is stopped";
	if (PULSE_GET(t->pulse[rank].doing[0]) &&
	    PULSE_GET(t->pulse[rank].peer) == WAITS_FOR_DEVICE &&
	    now - s->got_on > NAMED_S * second)
		return "waits for its device";
	if (t->programs)
		*since = larger(s->got_on, first_to_wait(t));
	if (computing && pid >= 0 && !PULSE_GET(t->pulse[rank].doing[0]) &&
	    now - *since > NAMED_S * second)
		return "computes without progress";
	return NULL;
}

/* Do all ranks wait? Since when has none made progress? */
static bool all_wait(const struct stall *t, nsec *since)
{
	*since = 0;
	for (int rank = 0; rank < t->ranks; rank++) {
		if (!is_waiting(&t->pulse[rank]))
			return false;
		*since = larger(*since, t->seen[rank].got_on);
	}
	return true;
}

static void poll_rank(struct stall *t, int rank, nsec now, bool again)
{
	struct seen *s = &t->seen[rank];
	const struct pulse *p = &t->pulse[rank];
	int64_t beat = PULSE_GET(p->beat), events = PULSE_GET(p->events);
	bool alive = beat != s->beat, gets_on = events != s->events;
	if (again || alive || gets_on)
		s->lived = now;
	if (gets_on && !again)
		s->longest = larger(s->longest, now - s->got_on);
	if (again || gets_on)
		s->got_on = now;
	if (gets_on && s->named)
		fprintf(stderr, "mvbench: %s makes progress again\n", s->named);
	if (gets_on) {
		free(s->named);
		s->named = NULL;
	}
	s->beat = beat;
	s->events = events;
}

/* The limits rise for a worker that has needed longer before. */
static void check_limits(struct stall *t, int rank, nsec lasted, const char *words, bool ends)
{
	enum { TIMES_NAMED = 3, TIMES_ENDED = 10 };
	struct seen *s = &t->seen[rank];
	double given = t->timeout_s, taken = 1e-9 * (double)s->longest;
	double limit = given > 0 && ends ? fmax(given, TIMES_ENDED * taken) : INFINITY;
	double named = fmin(fmax(NAMED_S, TIMES_NAMED * taken), limit);
	double lasted_s = 1e-9 * (double)lasted;
	char *name AUTOFREE = t->name(t->self, rank);
	if (!s->named && lasted_s > named) {
		fprintf(stderr, "mvbench: %s %s, for %.0f s now", name, words, lasted_s);
		if (limit < INFINITY)
			fprintf(stderr, "; after %.0f s the run ends (%s)", limit, t->setting);
		fputc('\n', stderr);
		s->named = must(strdup(name));
	}
	if (lasted_s > limit && !t->over) {
		t->over = true;
		t->end(t->self, sentence("%s %s, for %.0f s (%s=%g)", name, words, lasted_s,
					 t->setting, given));
	}
}

void stall_poll(struct stall *t, bool computing, bool silent)
{
	nsec now = clock_now(), since;
	bool again = now - t->looked > GAP_S * second, any = false;
	if (now - t->looked < second)
		return;
	t->looked = now;
	for (int rank = 0; rank < t->ranks; rank++)
		poll_rank(t, rank, now, again);
	if (t->over || silent)
		return;
	for (int rank = 0; rank < t->ranks; rank++) {
		const char *how = stalled_itself(t, rank, computing, now, &since);
		if (how)
			check_limits(t, rank, now - since, how, true);
		any |= how != NULL;
	}
	if (any || !computing || t->elsewhere || !all_wait(t, &since))
		return;
	for (int rank = 0; rank < t->ranks; rank++) {
		char doing[sizeof t->pulse[rank].doing];
		for (size_t i = 0; i < sizeof doing; i++)
			doing[i] = PULSE_GET(t->pulse[rank].doing[i]);
		doing[sizeof doing - 1] = '\0';
		char *words AUTOFREE = sentence("waits for others (%s), like all ranks", doing);
		check_limits(t, rank, now - since, words, !t->programs);
	}
}

void stall_open(struct stall *t)
{
	t->seen = must(calloc((size_t)t->ranks, sizeof *t->seen));
	t->looked = 0;
	t->over = false;
}

void stall_close(struct stall *t)
{
	for (int i = 0; i < t->ranks; i++)
		free(t->seen[i].named);
	free(t->seen);
}
