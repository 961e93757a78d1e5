/*
 * report.h - the pieces that a report page is made of (report_page.c), and its figures.
 */
#ifndef REPORT_H
#define REPORT_H

#include "plots/plot.h"

struct report {
	FILE *f;
	struct store *s;
	int pictures;     /* so far: each needs names of its own within the page */
	struct sql spark; /* page_spark's query, of ?1 run and ?2 points */
};

/* Text as HTML, in elements and in quoted attributes: what is no UTF-8, or no character, is shown
 * as U+FFFD. */
void page_text(struct report *p, const char *text);
/* printf, where every %s is escaped so; only %s, %d and %% are understood. */
void page_print(struct report *p, const char *fmt, ...);

/* A cell, sorted by x; NaN = nothing is known; infinity = "not reached". */
enum figure_kind {
	FIGURE_COUNT,
	FIGURE_PERCENT,
	FIGURE_LOSS,
	FIGURE_SECONDS,
	FIGURE_FACTOR,
	FIGURE_RATE
};
void page_number(struct report *p, enum figure_kind kind, double x, double low, double high);
/* A small line of a run's accuracy, or loss, by epoch. */
void page_spark(struct report *p, int64_t run);
/* Begins a table that scrolls: its heads, a | between them, # before one of numbers. */
void page_table(struct report *p, const char *label, const char *heads);
/* The column of this name; "" and NaN where there is nothing. */
const char *cell_text(const struct sql *q, const char *name);
double cell_number(const struct sql *q, const char *name);

/* ---- Figures (report_pictures.c) --------------------------------------------- */

struct pictures {
	struct picture *picture;
	size_t n;
};

/* Every figure that there is data for. One that fails is said on stderr, and left out. */
int pictures_draw(struct store *s, const struct figures *fs, struct pictures *ps);
/* Those of this workload. */
void pictures_put(struct report *p, const struct pictures *ps, const char *workload);
void pictures_free(struct pictures *ps);

#endif
