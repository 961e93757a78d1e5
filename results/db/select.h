/*
 * select.h - the options by which a command says which runs it is about.
 */
#ifndef SELECT_H
#define SELECT_H

#include "results/db/db.h"

struct select {
	const char *db, *where, *label;
};

/* The rows, of an OWNER that has the struct as its field `select`. db: what the file is for; which:
 * "" or when they choose, as in "for latest: ". */
#define SELECT_WHERE(field, which) \
	OPTION(field, STRING, "where", "", \
	       which \
	       "only runs for which this SQL condition holds, as in --where=\"workload='mlp' " \
	       "AND workers IN (2, 4)\"; mvbench table --help lists the columns [SQL]")
#define SELECT_OPTIONS(file, which) \
	OPTION(select.db, STRING, "db", DATABASE, file " [file]"), \
		SELECT_WHERE(select.where, which), \
		OPTION(select.label, STRING, "label", "", \
		       which "only runs with this label [text]")

#endif
