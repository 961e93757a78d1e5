/*
 * ask.h - what the commands that ask share.
 */
#ifndef ASK_H
#define ASK_H

#include "results/db/select.h"

/* A run by its number, or "latest": the newest that is selected and that `among`, a condition of
 * ours on run_summary, matches ("" = all). NULL or a sentence (trace.c). */
char *run_find(struct store *s, const char *word, const struct select *of, const char *among,
	       int64_t *id);

#endif
