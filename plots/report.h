/*
 * report.h - parts of a report page, and its figures (report_page.c).
 */
#ifndef REPORT_H
#define REPORT_H

#include "plots/plot.h"

struct report {
	FILE *f;
	struct store *s;
};

/* printf that escapes every %s (text_xml); supports only %s, %d and %%. */
void page_print(struct report *p, const char *fmt, ...);

struct pictures {
	struct picture *picture;
	size_t n;
};

/* Draws every figure that has data. If one fails, prints the error and leaves it out. The pictures
 * refer to fs. */
int pictures_draw(struct store *s, const struct figures *fs, struct pictures *ps);
/* Writes those of this workload. */
void pictures_put(struct report *p, const struct pictures *ps, const char *workload);
void pictures_free(struct pictures *ps);

#endif
