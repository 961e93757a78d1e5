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

#endif
