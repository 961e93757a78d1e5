/*
 * select.h - the options that select the runs of a command.
 */
#ifndef SELECT_H
#define SELECT_H

#include "results/db/db.h"

struct select {
	const char *db, *where, *label;
};

/* Rows of an option table, for an OWNER that has these three fields, or that has the struct: at is
 * then `select.`. file: help of --db; which: "", or when they apply, as in "for latest: ". */
#define SELECT_OPTIONS(at, file, which) \
	OPTION(at db, STRING, "db", DATABASE, file " [file]"), SELECT_WHERE(at where, which), \
		OPTION(at label, STRING, "label", "", which "only runs with this label [text]")
#define SELECT_BUSY(field) \
	OPTION(field, CHOICE, "busy", "keep", \
	       "epochs in which a worker had less than 90 % of its core, because other " \
	       "processes ran there; drop: leave them out of medians of epoch times [name]", \
	       .choices = "keep|drop")
#define SELECT_WHERE(field, which) \
	OPTION(field, STRING, "where", "", \
	       which "only runs for which this SQL condition holds; mvbench table --help lists " \
		     "the columns [SQL]")

#endif
