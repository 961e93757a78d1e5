/*
 * column.h - tables that people read and programs do: which columns, and how they are rounded.
 */
#ifndef COLUMN_H
#define COLUMN_H

#include "results/db/db.h"

struct column {
	const char *name;  /* of the value, for csv and json; NULL = not there */
	const char *head;  /* for text and markdown; NULL = not there */
	const char *shown; /* what stands below that head, rounded; NULL = the value */
	bool rare;         /* text and markdown leave it out where no row has it, or all have 0 */
};

#define ROUND(fmt, x) "iif(" x " IS NULL, NULL, printf('" fmt "', " x "))"
#define PERCENT(x)    ROUND("%.2f", "100 * (" x ")")
#define LOSS(x)       ROUND("%.4g", x)
/* Who diverged is below all accuracies, above all losses. */
#define FINITE(x, text) "iif(abs(" x ") = 9e999, 'diverged', " text ")"
/* An interval; of few values it holds less than 95 %. What does not exist leaves the whole NULL. */
#define BETWEEN(low, high, coverage) \
	low " || '..' || " high " || iif(" coverage \
	    " < 0.95, printf(' (%.3g %%)', 100 * " coverage "), '')"
#define INTERVAL(x, text, coverage) \
	BETWEEN(FINITE(x "_low", text(x "_low")), FINITE(x "_high", text(x "_high")), coverage)

/* x, which people see below that head and rounded, as shown. */
#define SHOWN(x, head_, shown_) \
	{ \
		.name = x, .head = head_, .shown = shown_ \
	}
/* The same, but left out where no row has it, or all have 0. */
#define RARE(x, head_, shown_) \
	{ \
		.name = x, .head = head_, .shown = shown_, .rare = true \
	}
/* x as it is, below its own name. */
#define PLAIN(x) \
	{ \
		.name = x, .head = x \
	}
/* x, for csv and json only. */
#define HIDDEN(x) \
	{ \
		.name = x \
	}

/* Text and markdown: what they show is rounded. */
bool for_people(enum format format);
/* The rows of a table or view, with what follows its name in a SELECT, as query_print does; columns
 * end at one without a name. */
char *columns_print(struct store *s, FILE *f, enum format format, const struct column *columns,
		    const char *from, int64_t *rows);

/* ---- As --columns and --sort name them (column.c): by name, or head, with commas between. ---- */

void columns_names(const struct column *all, FILE *f);
/* Those of the list, in its order ("" = all as they are), heap, also where something is wrong. NULL
 * or a sentence: there is no such column, with the nearest. */
char *columns_choose(const struct column *all, const char *list, struct column **chosen);
/* Makes the temporary table `to` of the rows of `from`, sorted by the columns of the list: NAME or
 * NAME:asc, the least first, -NAME or NAME:desc the greatest; NULL comes last, equals stay in their
 * order. top: so many of them at most, 0 = all. Likewise. */
char *columns_sort(struct store *s, const struct column *all, const char *from, const char *list,
		   int64_t top, const char *to);

#endif
