/*
 * watch.h - the state of a run's watcher: launch.c starts and watches, mpirun.c reads mpirun's
 * stderr, ranks.c knows the ranks and which have ended.
 */
#ifndef WATCHER_H
#define WATCHER_H

#include "runtime/launch/launch.h"

#include <poll.h>
#include <sys/types.h>

#define INTRODUCTION "\036mvbench" /* rank, host, pid follow */
#define OURS         "mvbench: "   /* starts our messages */
enum { HOST = 256, HELD = 8192 };
/* After Ctrl-C the workers have PATIENCE_S to end. After a rank has failed, mpirun has GRACE_S to
 * end the others (it takes 1 or 2 s), and LAST_S more after SIGTERM. */
enum { TICK_MS = 100, PATIENCE_S = 10, GRACE_S = 5, LAST_S = 2 };

struct rank {
	char host[HOST], planned[HOST]; /* "" before the introduction; "" = no hostfile */
	pid_t pid;                      /* 0 before the introduction */
};

struct rank_failure { /* mpirun's report of the first failed rank; -1, "": not reported */
	int rank, signal, status;
	char host[HOST];
};

enum { FD_SIGNAL, FD_STDERR, FD_RANK }; /* then one for each rank */

/* The parser of mpirun's stderr. */
struct stderr_parser {
	char held[HELD + 1]; /* not passed on yet; ends at a NUL */
	size_t nheld, line;  /* line: start of the last line in held */
	bool passing;        /* passes on the rest of a line whose start was passed on */
	enum { NO_BANNER, BANNER_RULE, BANNER_TEXT } banner; /* state of held */
	char last_words[512]; /* the last message of the first worker that printed one */
};

struct watch {
	const struct config *config;
	const char *const *command;
	struct status_page *page;
	char page_path[PATH_MAX]; /* "" after unlink: no other process will open it */
	char *folder[2];          /* for files, and for shared memory; NULL = no own folder */
	char *hosts;              /* a file with the host of each rank; NULL = all here */
	pid_t child;              /* mpirun, or the only worker */
	int ranks;
	struct pollfd *fd; /* [FD_RANK + ranks]; a rank's is a pidfd, or -1 */
	struct rank *rank; /* [ranks] */
	char here[HOST];   /* this machine */

	char lost[HOST];        /* a machine that mpirun can no longer reach; "" = none */
	char not_started[HOST]; /* a machine where mpirun could not start the program; "" = none */
	struct rank_failure rank_failure;
	nsec failed_at;           /* when the first failure was seen, 0 = none yet */
	int introduced, vanished; /* ranks; vanished: ended, on this machine */
	int first;                /* the rank that ended while all others ran; -1 = not known */
	int last;                 /* the rank that ended last */
	bool heard;               /* mpirun has reported a failed rank, maybe without a number */
	bool interrupted;         /* from outside */
	bool given_up;            /* mpirun did not end by itself */
	nsec patience;            /* SIGKILL for mpirun after this time, 0 = never */
	struct stall stall;
	char *stalled; /* message of the stall that ended the run, heap; NULL = no stall */
	struct stderr_parser parser;
};

static inline void note_failure(struct watch *w)
{
	if (!w->failed_at)
		w->failed_at = clock_now();
}

/* ---- mpirun.c ---- */

/* Reads all text that is there now. It does not wait for the end of the file, because an ssh that
 * mpirun started may outlive it. */
void mpirun_listen(struct watch *w);
void mpirun_release(struct stderr_parser *e); /* passes on the held text */

/* ---- ranks.c ---- */

int ranks_of(const struct config *c);
bool ranks_read(struct watch *w, const char *line); /* an introduction; false: another line */
void ranks_poll(struct watch *w);
void ranks_kill(struct watch *w);
int ranks_first_failed(const struct watch *w); /* the first failed rank; -1: not known */
/* The only other host of the ranks, or words for one of several. */
const char *ranks_other_host(const struct watch *w);
/* The name of a rank of a struct watch, with its host; rank -1: not known. Heap. */
char *ranks_name(const void *watch, int rank);

#endif
