/*
 * explore.h - explores every order in which a few workers can run the real code that accesses what
 * they share.
 *
 * That code is compiled as for ThreadSanitizer. explore.c implements the functions that it then
 * calls at each memory access; world.c implements locks, monitors and barriers. Each worker is a
 * stack that stops before every step that others can see:
 *
 *   a lock, a poll of a lock, an unlock, an atomic operation, a wait, a barrier
 *   a run of plain accesses to shared memory: one step, as long as no other worker's next step
 *     accesses the same place; if one does, and one of them writes, that is a race: an error
 *
 * The explorer, depth first, continues each worker that can continue. It undoes a step by writing
 * back what has changed. A hash of 64 bits identifies a state (all memory, and where each worker
 * is); each state is continued once. Errors are: a failed check of a scenario (wrong), a race, an
 * access to another process's own memory, workers that wait for each other, and a state that comes
 * back (a loop without progress). Each is printed with the steps that lead there.
 *
 * Without races, a processor can only run the code as an order of such steps (C11 guarantees it).
 * In longer scenarios all that is done under a lock is one step (not fine): a worker that polls
 * that lock then finds it free.
 *
 * A death is one more step: the worker stops for good, at any step, with the locks that it holds.
 */
#ifndef EXPLORE_H
#define EXPLORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WORKERS = 3 };

/* What a worker needs to continue. */
enum need {
	NOT_STARTED,
	FREE,    /* nothing: an atomic operation, a poll of a lock, an unlock */
	PLAIN,   /* nothing: accesses that others must not see half done */
	LOCK,    /* struct owner *at without an owner */
	WAKEUP,  /* the same, and *woken */
	BARRIER, /* all workers at as many barriers as this one */
	BEGIN,   /* the start of the exploration */
	ENDED    /* never continues */
};

struct owner {
	int32_t who; /* 0: no worker; otherwise rank + 1 */
};

/* This worker's number, while it runs. */
int me(void);
/* Zeroed memory that is never freed: shared by the workers, and this worker's own. */
void *shared_alloc(size_t bytes);
void *own_alloc(size_t bytes);
/* Stops until the need is met. what: names the step when steps are printed; must stay valid. */
void stop_before(enum need need, const char *what, void *at, const int64_t *woken);
/* An error of the explored code: prints the steps and ends the program with status 1. */
void wrong(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));
/* Code before this call runs in one order. Exploration begins when all workers have called it. */
void begin_here(void);
void release(struct owner *o);       /* of a lock that it has */
bool is_fine(void);                  /* is an unlock a step? */
void pass_barrier(const char *what); /* a barrier of all workers */

struct exploration {
	void (*worker)(void); /* main function of each worker */
	/* A flag that is 0 and becomes 1 at any time while worker k runs; NULL: none. */
	int64_t *(*tick)(int k);
	bool deaths;     /* one worker fails, at any step */
	bool fine;       /* as above; false: what is done under a lock is one step */
	int preemptions; /* most stops of workers that could continue; 0: no limit */
};
struct explored {
	uint64_t states, steps, ends, dead_ends;
	size_t longest; /* [steps] */
};
/* Ends the program if anything is wrong. */
struct explored explore(const struct exploration *e);

#endif
