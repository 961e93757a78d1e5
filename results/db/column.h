/*
 * column.h - tables for people and programs: their columns, and how they are rounded.
 */
#ifndef COLUMN_H
#define COLUMN_H

#include "results/db/db.h"

struct column {
	const char *name;  /* of the value, in csv and json; NULL = not there */
	const char *head;  /* in text and markdown; NULL = not there */
	const char *shown; /* rounded, in text and markdown; NULL = the value */
	bool rare;         /* people do not see it if it is NULL, 0 or empty in all rows */
	bool key;          /* names the row; such columns are the first ones */
	/* Its place, from 2 on, behind the keys if the table is too wide for the terminal; a paper
	 * has only keys and such columns. 0: behind these. */
	int front;
	/* These are for HTML, which has a value to sort by for each shown one. */
	const char *about; /* hint of the head */
	bool most;         /* the greatest value is the best */
	bool html;         /* the shown value is HTML already */
};

#define ROUND(fmt, x) "iif(" x " IS NULL, NULL, printf('" fmt "', " x "))"
#define PERCENT(x)    ROUND("%.2f", "100 * (" x ")")
#define LOSS(x)       ROUND("%.4g", x)
/* A run that diverged is below all accuracies and above all losses. */
#define FINITE(x, text) "iif(abs(" x ") = 9e999, 'diverged', " text ")"
/* For the text of a figure: its interval in brackets, with its coverage if that is below 95 %;
 * nothing if a part is NULL. */
#define BETWEEN(low, high, coverage) \
	" || ifnull(' (' || " low " || '..' || " high " || iif(" coverage \
	" < 0.95, printf(', %.3g %%', 100 * " coverage "), '') || ')', '')"
#define INTERVAL(x, text, coverage) \
	BETWEEN(FINITE(x "_low", text(x "_low")), FINITE(x "_high", text(x "_high")), coverage)

#define COLUMN(x, ...) \
	{ \
		.name = x, __VA_ARGS__ \
	}
/* x, which people see rounded, as shown_, under this head. */
#define SHOWN(x, head_, shown_) COLUMN(x, .head = head_, .shown = shown_)
/* The same, but omitted if it is NULL, 0 or empty in all rows. */
#define RARE(x, head_, shown_) COLUMN(x, .head = head_, .shown = shown_, .rare = true)
/* x as it is, under its own name. */
#define PLAIN(x) COLUMN(x, .head = x)
/* x as it is, a part of the name of its row. */
#define KEY(x) COLUMN(x, .head = x, .key = true)
/* x, for csv and json only. */
#define HIDDEN(x) COLUMN(x, .head = NULL)

/* Is it text, markdown or latex, which show rounded numbers? */
bool for_people(enum format format);
/* Prints the rows of a table or view, as query_print does. from: its name, and what follows it in a
 * SELECT; columns end at one without a name. A table that is wider than the terminal is printed in
 * parts below each other; each begins with the keys. parts: their number, or NULL. */
char *columns_print(struct store *s, FILE *f, enum format format, const struct column *columns,
		    const char *from, int64_t *rows, int *parts);

/* Prints text for people next to a table, in lines that fit the terminal; latex: in small letters
 * below the table. */
void note_put(FILE *f, enum format format, const char *text);

enum { FRONT_MOST = 9 };
/* Removes the columns that a paper has no room for: those without a place in front, if any has one.
 */
void columns_for_paper(struct column *all);

/* The columns that people see of these rows: those with a head, without rare ones that have
 * nothing. Heap, also with an error; it ends at one without a name. */
char *columns_seen(struct store *s, const struct column *all, const char *from,
		   struct column **seen);

/* ---- HTML (html.c) ---- */

/* Defines html(TEXT) on this connection: text_xml in SQL. */
char *html_function(struct store *s);
/* Prints the rows as a table that scrolls; the first column is the head of its row. class: of the
 * table; label: its name for screen readers. from: with a rare column, without a WHERE. */
char *columns_html(struct store *s, FILE *f, const struct column *columns, const char *from,
		   const char *class, const char *label);

/* ---- --columns and --sort (column.c): names or heads, separated by commas ---- */

void columns_names(const struct column *all, FILE *f);
/* Chooses the columns of the list, in its order ("" = all as they are); heap, also with an error.
 * NULL or a sentence: there is no such column, with the nearest name. */
char *columns_choose(const struct column *all, const char *list, struct column **chosen);
/* Makes the temporary table `to` of the rows of `from`, sorted by the columns of the list: NAME or
 * NAME:asc: the least first; -NAME or NAME:desc: the greatest first. NULL comes last, equal rows
 * keep their order. top: at most this number of rows; 0 = all. NULL or a sentence. */
char *columns_sort(struct store *s, const struct column *all, const char *from, const char *list,
		   int64_t top, const char *to);

#endif
