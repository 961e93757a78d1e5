/*
 * explore.h - every order in which a few workers can do what they do, over the real code of what
 * they share.
 *
 * That code is compiled as for ThreadSanitizer, whose calls at each access of memory are ours
 * (explore.c); locks, monitors and barriers are those of world.c. So each worker is a stack that
 * stands still before whatever others can see:
 *
 *   a lock, a look for a lock, an unlock, an atomic operation, a wait, a barrier
 *   a run of plain accesses to shared memory: one step, as long as nobody else's next one is to the
 *     same place; if it is, and one of them writes, that is a race, and an error
 *
 * and the explorer, depth first, lets each of those go on that can. What was done is undone by
 * writing back what has changed; states (all memory, and where each worker is) are known again by a
 * hash of 64 bits, so that each is gone on from once. Errors are: what the checks of a scenario say
 * (wrong), a race, an access to another process's own memory, workers that wait for each other, and
 * a state that comes back (they turn in a circle without getting on). Each is shown with the steps
 * that lead there.
 *
 * Where there are no races, orders of such steps are all that a processor can make of the code (C11
 * promises it). Longer scenarios take what is done under a lock as one step (not fine): who looks
 * for that lock finds it free then.
 *
 * A death is one step more: that worker does nothing any more, wherever it stood, whatever it held.
 */
#ifndef EXPLORE_H
#define EXPLORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WORKERS = 3 };

/* What a worker stands before. FREE: it can go on; else when that is so. */
enum need {
	UNBORN,
	FREE,    /* nothing: an atomic operation, a look for a lock, an unlock */
	PLAIN,   /* nothing: accesses that others are not to see half done */
	LOCK,    /* struct owner *at is nobody's */
	WAKEUP,  /* the same, and *woken */
	BARRIER, /* all workers have come as often as this one */
	BEGIN,   /* the exploration */
	ENDED    /* never: its life is over */
};

struct owner {
	int32_t who; /* 0 = nobody, else rank + 1 */
};

/* This worker's number, while it runs. */
int me(void);
/* Zeroed memory, which is never given back: of the workers together, and this worker's own. */
void *shared_alloc(size_t bytes);
void *own_alloc(size_t bytes);
/* Stands still until that is so; what: a word for the steps that are shown, which must last. */
void stand(enum need need, const char *what, void *at, const int64_t *woken);
/* An error of the code that is explored: its steps are shown, and the program ends with status 1.
 */
void wrong(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));
/* Before it everything happens in one order; with it exploration begins, once all have come. */
void begin_here(void);
void release(struct owner *o); /* of a lock that it has */
bool is_fine(void);            /* is an unlock a step? */
void meet(const char *what);   /* a barrier of all workers */

struct exploration {
	void (*life)(void); /* of each worker */
	/* What becomes 1 at any time of worker k's life, and is 0 before; NULL: nothing. */
	int64_t *(*tick)(int k);
	bool deaths;     /* one worker dies, wherever it is */
	bool fine;       /* as above; else what is done under a lock is one step */
	int preemptions; /* of a worker that could go on, at most; 0: as often as there can be */
};
struct explored {
	uint64_t states, steps, ends, dead_ends;
	size_t longest; /* [steps] */
};
/* Ends the program if anything is wrong. */
struct explored explore(const struct exploration *e);

#endif
