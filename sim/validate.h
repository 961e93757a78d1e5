/*
 * validate.h - what validate.c, which runs cells in both worlds, and its report share.
 */
#ifndef VALIDATE_H
#define VALIDATE_H

#include "runtime/base/base.h"

struct validate_flags {
	const char *only, *format, *out;
	int64_t rounds;
	double median, p90; /* [%] */
	bool calibrate;
};

/* On the cells (JSON; "[]": all that there are) of a label. NULL or a sentence; *past: the errors
 * are past a threshold, or cells are missing. */
char *validate_report(const char *db, const char *label, const char *cells,
		      const struct validate_flags *f, FILE *out, bool *past);

#endif
