/*
 * launch.h - starting the workers of a run, and watching them.
 */
#ifndef LAUNCH_H
#define LAUNCH_H

#include "runtime/config/config.h"

/* How a launched run is watched. */
struct watcher {
	void *self;
	void (*tick)(void *self, const struct status_page *page); /* ten times a second or more */
};
/* Starts the workers (in a child, or through mpirun), waits for them, returns the exit status that
 * they ended with. Each is this program with the command's words, its name first (they end at
 * NULL), and then the configuration's; worker(ctx, page) is what a child without mpirun runs. The
 * reason for a status other than 0 is in *why (heap). page_out gets the status page; unmap with
 * status_free. */
int launch(const struct config *c, const char *const *command,
	   int (*worker)(void *ctx, struct status_page *page), void *ctx,
	   const struct watcher *watcher, struct status_page **page_out, char **why);
/* In a worker, first of all: its errors, and the watcher of its run, can then say who it is. page:
 * NULL = nobody watches. */
void worker_introduce(const struct config *c, struct status_page *page);

#endif
