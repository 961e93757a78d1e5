/*
 * database.h - what store.c, query.c and table.c share; plots, which run queries of their own, see
 * it too.
 */
#ifndef DATABASE_H
#define DATABASE_H

#include "results.h"

#include <sqlite3.h>

struct store {
	sqlite3 *db;
	char *path;  /* as the user gave it */
	int64_t run; /* that the sink writes, 0 = none */
};

/* A sentence about a failed call on s->db that says what to do. */
char *database_error(const struct store *s, int rc);

const char *database_schema(void); /* schema.sql */

/* NULL, or a sentence: is `where` one SQL condition on the columns of run_summary? "" is one. */
char *database_condition(struct store *s, const char *where);
/* The columns of run_summary, indented, in lines. */
void database_columns(struct store *s, FILE *f);
/* Makes statistics those of some runs: on this connection run_summary becomes a table of the runs
 * for which the condition holds and which have the label ("" = all), and finished,
 * configuration_summary, compared and comparison are made of these alone. The file itself is only
 * read. NULL or a sentence. */
char *database_choose(struct store *s, const char *where, const char *label);

#endif
