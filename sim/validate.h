/*
 * validate.h - shared by validate.c, which runs the cells, and its report.
 */
#ifndef VALIDATE_H
#define VALIDATE_H

#include "runtime/base/base.h"

struct validate_flags {
	const char *only, *format, *out;
	int64_t repetitions, random, lab;
	double median, p90, comm_median, comm_p90; /* [%] */
	double seconds;                            /* of a calibration */
	bool calibrate;
};

/* A job file of n cells, drawn from the seed, on this machine (hosts 0) or on up to this number of
 * hosts of a lab (validate_random.c). From the heap. */
char *random_cells(int64_t n, int64_t seed, int64_t hosts);

/* Reports on the cells (JSON; "[]": all that there are) of a label. NULL or a message; *past: the
 * errors exceed a threshold, or cells are missing. */
char *validate_report(const char *db, const char *label, const char *cells,
		      const struct validate_flags *f, FILE *out, bool *past);

#endif
