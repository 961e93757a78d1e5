/*
 * watch.h - what the watcher of a run knows: launch.c starts and watches, mpirun.c reads what
 * mpirun says, ranks.c who is who and who has ended.
 */
#ifndef WATCH_H
#define WATCH_H

#include "runtime/base/stall.h"
#include "runtime/launch/launch.h"

#include <poll.h>
#include <sys/types.h>

#define INTRODUCTION "\036mvbench" /* rank, host, pid follow */
#define OURS         "mvbench: "   /* what we print begins so */
enum { HOST = 256, HELD = 8192 };
/* After Ctrl-C the workers have PATIENCE_S to end. After a worker's death mpirun has GRACE_S to end
 * the others (it takes one or two), and LAST_S more when told to. */
enum { TICK_MS = 100, PATIENCE_S = 10, GRACE_S = 5, LAST_S = 2 };

struct death { /* of the first rank that died, as mpirun tells it; -1, "": it does not */
	int rank, signal, status;
	char host[HOST];
};

enum { FD_SIGNAL, FD_STDERR, FD_RANK }; /* then one for each rank */

/* What reads mpirun's stderr. */
struct stderr_parser {
	char held[HELD + 1]; /* not passed on yet; ends at a NUL */
	size_t nheld, line;  /* line: where the last line begins in held */
	bool passing;        /* the rest of a line of which the start was passed on */
	enum { NO_BANNER, BANNER_RULE, BANNER_TEXT } banner; /* what held begins with */
	char last_words[512]; /* of the first worker that could say what is wrong with it */
};

struct watch {
	const struct config *config;
	const char *const *command;
	struct status_page *page;
	char page_path[PATH_MAX]; /* "" once nobody else will open it */
	char *folder[2];          /* for files, and for shared memory; NULL = none of its own */
	char *hosts;              /* a file that says where each rank is to be; NULL = all here */
	pid_t child;              /* mpirun, or the only worker */
	int ranks;
	struct pollfd *fd;  /* [FD_RANK + ranks]; a rank's is a pidfd, or -1 */
	char (*host)[HOST]; /* [ranks]; "" before the introduction */
	pid_t *pid;         /* [ranks]; 0 before the introduction */
	char here[HOST];    /* this machine */

	char lost[HOST]; /* a machine that mpirun cannot reach any more; "" = none */
	struct death death;
	nsec died;                /* when the first death was seen, 0 = none yet */
	int introduced, vanished; /* ranks; vanished: of this machine, ended */
	int first;                /* the one that ended while all others lived; -1 = not known */
	int last;                 /* the one that ended last */
	bool heard;               /* mpirun has said that a worker died, if not which */
	bool interrupted;         /* from outside */
	bool given_up;            /* mpirun did not end by itself */
	nsec patience;            /* until when mpirun may live, 0 = without end */
	struct stall stall;
	char *stalled; /* why the run was ended, heap; NULL = it was not */
	struct stderr_parser parser;
};

static inline void see_death(struct watch *w)
{
	if (!w->died)
		w->died = clock_now();
}

/* ---- mpirun.c ---- */

/* All that there is now. Not until the end of the file: an ssh of mpirun's may outlive it. */
void mpirun_listen(struct watch *w);
void mpirun_release(struct stderr_parser *e); /* passes on what was held */

/* ---- ranks.c ---- */

bool is_simulated(const struct config *c); /* all workers are one process then */
int ranks_of(const struct config *c);
void host_name(char host[HOST]);
bool ranks_read(struct watch *w, const char *line); /* an introduction; false: it is none */
void ranks_look(struct watch *w);
void ranks_kill(struct watch *w);
int ranks_dead(const struct watch *w); /* the first that died; -1: not known */
/* What that one is called, and where it is; -1: not known. Heap. */
char *ranks_name(const struct watch *w, int rank);

#endif
