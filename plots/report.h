/*
 * report.h - parts of a report page (report_page.c), and its figures.
 */
#ifndef REPORT_H
#define REPORT_H

#include "plots/plot.h"

struct report {
	FILE *f;
	struct store *s;
	int pictures;     /* so far: ids of each get its number */
	struct sql spark; /* page_spark's query, of ?1 run and ?2 points */
};

/* printf that escapes every %s (text_xml); supports only %s, %d and %%. */
void page_print(struct report *p, const char *fmt, ...);

/* A cell, sorted by x; NaN = unknown; infinity = "not reached". */
enum figure_kind {
	FIGURE_COUNT,
	FIGURE_PERCENT,
	FIGURE_LOSS,
	FIGURE_SECONDS,
	FIGURE_FACTOR,
	FIGURE_RATE
};
void page_number(struct report *p, enum figure_kind kind, double x, double low, double high);
/* A small line chart of a run's accuracy, or loss, by epoch. */
void page_spark(struct report *p, int64_t run);
/* Begins a table that scrolls. heads: separated by |; # before the head of a column of numbers. */
void page_table(struct report *p, const char *label, const char *heads);
/* The column of this name; "" and NaN for NULL. */
const char *cell_text(const struct sql *q, const char *name);
double cell_number(const struct sql *q, const char *name);

/* ---- Figures (report_pictures.c) --------------------------------------------- */

struct pictures {
	struct picture *picture;
	size_t n;
};

/* Draws every figure that has data. If one fails, prints the error and leaves it out. */
int pictures_draw(struct store *s, const struct figures *fs, struct pictures *ps);
/* Writes those of this workload. */
void pictures_put(struct report *p, const struct pictures *ps, const char *workload);
void pictures_free(struct pictures *ps);

#endif
