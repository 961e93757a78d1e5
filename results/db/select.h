/*
 * select.h - the options by which a command says which runs it is about.
 */
#ifndef SELECT_H
#define SELECT_H

#include "results/db/db.h"

struct select {
	const char *db, *where, *label;
};

/* The rows, of an OWNER that has these three as fields, or the struct: at is then `select.`. file:
 * what the database is for; which: "", or when they choose, as in "for latest: ". */
#define SELECT_OPTIONS(at, file, which) \
	OPTION(at db, STRING, "db", DATABASE, file " [file]"), SELECT_WHERE(at where, which), \
		OPTION(at label, STRING, "label", "", which "only runs with this label [text]")
#define SELECT_BUSY(field) \
	OPTION(field, CHOICE, "busy", "keep", \
	       "epochs in which a worker had less than 90 % of its core, because others ran " \
	       "there; drop: they count for no median of epoch times [name]", \
	       .choices = "keep|drop")
#define SELECT_WHERE(field, which) \
	OPTION(field, STRING, "where", "", \
	       which "only runs for which this SQL condition holds; mvbench table --help lists " \
		     "the columns [SQL]")

#endif
