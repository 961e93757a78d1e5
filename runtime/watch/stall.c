/*
 * stall.c - finds ranks that make no progress, from their pulses. A rank has stalled if
 *   it gives no sign of life (on another machine), or is stopped (on this one);
 *   or it computes for too long without any progress, or waits for something other than ranks
 *   (a database, a checkpoint) for too long;
 *   or, without such a rank, all ranks wait and none makes progress: then all have stalled.
 * While a rank starts or loads, CPU use is progress too. A stopped launcher counts as a rank.
 * In programs that use the library (lib), computing counts only while another rank waits; if all
 * wait, they are reported, but the run is not ended. A rank that waits for a stalled one is not
 * reported. Except for stopped ranks, STALL_NAMED_S is the shortest stall: a busy machine makes
 * ranks wait for seconds. Times are what this process has seen: all restart after it was stopped
 * itself.
 */

#include "runtime/watch/watch.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { GAP_S = 3 };
static const nsec second = 1000000000;

bool process_is_stopped(pid_t pid, nsec *cpu)
{
	char path[64], text[1024], state;
	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	const char *name_end = text_begins(path, text, sizeof text) ? strrchr(text, ')') : NULL;
	unsigned long user = 0, kernel = 0;
	if (!name_end || sscanf(name_end + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
				&state, &user, &kernel) != 3)
		return false;
	if (cpu)
		*cpu = (nsec)(user + kernel) * (second / sysconf(_SC_CLK_TCK));
	return state == 'T' || state == 't';
}

static nsec larger(nsec a, nsec b)
{
	return a > b ? a : b;
}

static bool is_waiting(const struct pulse *p)
{
	return PULSE_GET(p->doing[0]) && PULSE_GET(p->peer) != WAITS_LEGITIMATELY;
}

/* Heap. */
static char *doing_of(const struct pulse *p)
{
	char doing[sizeof p->doing];
	for (size_t i = 0; i < sizeof doing; i++)
		doing[i] = PULSE_GET(p->doing[i]);
	doing[sizeof doing - 1] = '\0';
	return sentence("%s", doing);
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

static void poll_rank(struct stall *t, int rank, nsec now, bool again)
{
	struct rank_seen *s = &t->seen[rank];
	const struct pulse *p = &t->pulse[rank];
	int64_t beat = PULSE_GET(p->beat), events = PULSE_GET(p->events);
	bool alive = beat != s->beat, gets_on = events != s->events;
	if (again || alive || gets_on)
		s->lived = now;
	if (gets_on && !again && s->computes)
		s->computed = larger(s->computed, now - s->got_on);
	if (again || gets_on) {
		s->got_on = now;
		s->stopped = 0;
	}
	if (gets_on && s->named) {
		fprintf(stderr, "mvbench: %s makes progress again\n", s->named);
		free(s->named);
		s->named = NULL;
	}
	s->computes = !PULSE_GET(p->doing[0]) && PULSE_GET(p->phase) == PHASE_WORKS;
	s->beat = beat;
	s->events = events;
}

/* The rank does what words and more say. The limits rise for a worker that has computed for longer
 * before; computed: that time. Returns true: it has stalled. */
static bool check_limits(struct stall *t, int rank, nsec lasted, nsec computed, const char *words,
			 const char *more, bool ends)
{
	enum { TIMES_NAMED = 2, TIMES_ENDED = 3 };
	struct rank_seen *s = &t->seen[rank];
	double given = t->timeout_s, taken = 1e-9 * (double)computed;
	double limit = given > 0 && ends ? fmax(given, TIMES_ENDED * taken) : INFINITY;
	double named = fmin(fmax(STALL_NAMED_S, TIMES_NAMED * taken), limit);
	double lasted_s = 1e-9 * (double)lasted;
	char *name AUTOFREE = rank < t->ranks ? t->name(t->self, rank) : sentence("mpirun");
	if (!s->named && lasted_s > named) {
		fprintf(stderr, "mvbench: %s %s%s, for %.0f s now", name, words, more, lasted_s);
		if (limit < INFINITY)
			fprintf(stderr, "; after %.0f s the run ends (%s)", limit, t->setting);
		fputc('\n', stderr);
		s->named = must(strdup(name));
	}
	if (lasted_s > limit && !t->over) {
		t->over = true;
		t->end(t->self,
		       sentence("%s %s%s, for %.0f s (%s=%g%s)", name, words, more, lasted_s,
				t->setting, given, *t->setting == '-' ? "s" : ""));
	}
	return true;
}

/* Notes when a process stopped: after the last polls, and after its last progress. Returns that
 * time; 0: it runs. */
static nsec stopped_since(struct rank_seen *s, bool stopped, nsec now)
{
	if (!stopped || !s->stopped)
		s->stopped = stopped ? larger(s->got_on, now - 2 * second) : 0;
	return s->stopped;
}

/* A rank that computes, or starts. */
static bool check_computing(struct stall *t, int rank, nsec now)
{
	struct rank_seen *s = &t->seen[rank];
	int phase = PULSE_GET(t->pulse[rank].phase);
	const char *words = phase == PHASE_STARTS  ? "has not started yet"
			    : phase == PHASE_LOADS ? "loads without progress"
						   : "computes without progress";
	nsec since = t->programs ? larger(s->got_on, first_to_wait(t)) : s->got_on;
	return now - since >= STALL_NAMED_S * second &&
	       check_limits(t, rank, now - since, s->computed, words, "", true);
}

/* Has this rank itself stalled, or does it make no progress although it need not wait? */
static bool check_rank(struct stall *t, int rank, nsec now)
{
	struct rank_seen *s = &t->seen[rank];
	const struct pulse *p = &t->pulse[rank];
	bool waits = PULSE_GET(p->doing[0]), others = is_waiting(p);
	nsec used = PULSE_GET(p->cpu), expected = waits && !others ? PULSE_GET(p->expected) : 0;
	if (now - s->got_on <= second || expected == NO_END)
		return false;
	pid_t pid = t->process(t->self, rank);
	if (pid < PROCESS_FAR)
		return false;
	char *doing AUTOFREE = doing_of(p), *last AUTOFREE = sentence("%s%s%s", *doing ? " (" : "",
								      doing, *doing ? ")" : "");
	if (pid == PROCESS_FAR && now - s->lived > STALL_NAMED_S * second)
		return check_limits(t, rank, now - s->lived, 0, "gives no sign of life", last,
				    true);
	if (stopped_since(s, pid > 0 && process_is_stopped(pid, &used), now))
		return check_limits(t, rank, now - s->stopped, 0, "is stopped", last, true);
	if (PULSE_GET(p->phase) != PHASE_WORKS && !waits && s->cpu && used > s->cpu)
		s->got_on = now;
	s->cpu = used;
	if (!waits)
		return check_computing(t, rank, now);
	nsec late = now - s->got_on - expected;
	return !others && late >= STALL_NAMED_S * second &&
	       check_limits(t, rank, late, 0, "waits for ", doing, true);
}

/* Do all ranks that have not ended wait? Since when has none made progress? */
static bool all_wait(const struct stall *t, nsec *since)
{
	*since = 0;
	for (int rank = 0; rank < t->ranks; rank++) {
		pid_t pid = t->process(t->self, rank);
		if (pid == PROCESS_UNSEEN || (pid != PROCESS_ENDED && !is_waiting(&t->pulse[rank])))
			return false;
		*since = larger(*since, t->seen[rank].got_on);
	}
	return true;
}

static bool check_launcher(struct stall *t, nsec now)
{
	struct rank_seen *s = &t->seen[t->ranks];
	if (t->launcher <= 0 || !stopped_since(s, process_is_stopped(t->launcher, NULL), now)) {
		free(s->named);
		s->named = NULL;
		return false;
	}
	return check_limits(t, t->ranks, now - s->stopped, 0, "is stopped", "", true);
}

void stall_poll(struct stall *t, bool silent)
{
	nsec now = clock_now(), since;
	bool again = now - t->looked > GAP_S * second, any = false;
	if (now - t->looked < second)
		return;
	t->looked = now;
	for (int rank = 0; rank < t->ranks; rank++)
		poll_rank(t, rank, now, again);
	if (again)
		t->seen[t->ranks].stopped = 0;
	if (t->over || silent || check_launcher(t, now))
		return;
	for (int rank = 0; rank < t->ranks; rank++)
		any |= check_rank(t, rank, now);
	if (any || !all_wait(t, &since) || now - since < STALL_NAMED_S * second)
		return;
	for (int rank = 0; rank < t->ranks; rank++) {
		if (t->process(t->self, rank) == PROCESS_ENDED)
			continue;
		char *doing AUTOFREE = doing_of(&t->pulse[rank]);
		char *more AUTOFREE = sentence("(%s), like all ranks", doing);
		check_limits(t, rank, now - since, 0, "waits for others ", more, !t->programs);
	}
}

void stall_open(struct stall *t)
{
	t->seen = must(calloc((size_t)t->ranks + 1, sizeof *t->seen));
	t->looked = 0;
	t->over = false;
}

void stall_close(struct stall *t)
{
	for (int i = 0; i <= t->ranks; i++)
		free(t->seen[i].named);
	free(t->seen);
}
