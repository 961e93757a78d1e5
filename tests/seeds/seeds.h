/*
 * seeds.h - what the programs of this folder share.
 */
#ifndef SEEDS_H
#define SEEDS_H

#include <libmvbench.h>

#include <stdio.h>
#include <stdlib.h>

/* Ends this process if the library returns an error; the launcher then ends the others. */
static inline void must(int code)
{
	if (code == MVB_OK)
		return;
	fprintf(stderr, "worker %d: %s: %s\n", mvb_worker_id(), mvb_error_name(code),
		mvb_message());
	exit(1);
}

#endif
