/*
 * launch.h - starting the workers of a run, and watching them.
 */
#ifndef LAUNCH_H
#define LAUNCH_H

#include "runtime/config/settings.h"
#include "runtime/watch/watch.h"

/* The caller's view of a launched run. */
struct watcher {
	void *self;
	void (*tick)(void *self, const struct status_page *page); /* ten times a second or more */
};
/* Starts the workers (in a child, or through mpirun), waits for them, and returns the run's exit
 * status. Each worker is this program with the words of command (its name first; they end at NULL)
 * and then the configuration's words. A child without mpirun runs worker(ctx, page). watcher may be
 * NULL. *why (heap) has the reason for a status other than 0. page_out gets the status page; free
 * it with status_free. */
int launch(const struct config *c, const char *const *command,
	   int (*worker)(void *ctx, struct status_page *page), void *ctx,
	   const struct watcher *watcher, struct status_page **page_out, char **why);
/* The first call of a worker: its error messages and its run's watcher can then name it. page: NULL
 * = no watcher. */
void worker_introduce(const struct config *c, struct status_page *page);

#endif
