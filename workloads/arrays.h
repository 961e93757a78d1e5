/*
 * arrays.h - a user's own rows and classes: files of NumPy and of text. Internal to data sets.
 */
#ifndef ARRAYS_H
#define ARRAYS_H

#include "workloads/datasets.h"

/* All of a file, unzipped, with a 0 after its end; at is freed by the caller, also of an error. */
struct content {
	char *path; /* of messages; not freed */
	uint8_t *at;
	size_t n;
};
/* fd: the open file, which is closed; -1: path is opened. */
char *content_read(struct content *c, char *path, int fd);

/* ---- npy.c ---- */

/* An array of NumPy, in memory of its file. */
struct array {
	char *name; /* of messages, heap; NULL: there is none */
	int dims;
	size_t size[4];
	char kind;    /* b, u, i or f */
	size_t width; /* of a value [bytes] */
	bool swapped; /* its bytes begin with the other end */
	const uint8_t *value;
	uint8_t *own; /* what holds the values; heap */
};
void array_free(struct array *a);
/* Values of all further dimensions. */
size_t array_row(const struct array *a);
double array_value(const struct array *a, size_t i);
/* Takes over c->at, whatever it returns. */
char *npy_read(struct array *a, struct content *c);
/* Reads the members that have these names, with ".npy". a[i].name stays NULL if it is not there.
 * all gets the names of all members, heap. */
char *npz_read(struct array *a, const char *const *name, size_t n, const struct content *c,
	       char **all);

/* ---- csv.c ---- */

/* Rows of numbers with a label. */
struct csv {
	struct content content; /* has the labels */
	size_t n, features;
	float *x;     /* [n x features] */
	char **label; /* [n] */
};
void csv_free(struct csv *c);
char *csv_read(struct csv *c, char *path);
bool csv_number(const char *text, float *x); /* is all of it a finite number? */

/* ---- arrays.c: the set of --data-dir ---- */

bool name_ends_in(const char *text, const char *end);

/* Does --data-dir name a file, also a missing one with such an ending, or a folder that has arrays
 * or tables under their usual names? */
bool arrays_given(const struct run *run);
/* values: for regression, the labels are any numbers and not classes. */
char *arrays_get(const struct run *run, struct data *train, struct data *test, bool values,
		 bool load);

/* ---- text.c ---- */

/* That of n >= 1 paths with the largest numbers: 6.12 comes after 6.9. */
const char *newest_version(char *const *path, size_t n);

#endif
