/*
 * ask.h - what the commands that ask share.
 */
#ifndef ASK_H
#define ASK_H

#include "results/db/db.h"

/* A run by its number, or "latest": the newest with this label ("" = any) that `where`, a condition
 * on run_summary, and `among`, one of ours, match ("" = all). NULL or a sentence (trace.c). */
char *run_find(struct store *s, const char *word, const char *where, const char *label,
	       const char *among, int64_t *id);

#endif
