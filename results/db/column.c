/*
 * column.c - the columns of a table that the user selects and sorts by: by the names that csv and
 * json have, or by the heads.
 */
#include "results/db/column.h"

#include <string.h>

void columns_names(const struct column *all, FILE *f)
{
	const char *between = "";
	for (const struct column *c = all; c->name; c++, between = ", ")
		fprintf(f, "%s%s", between, c->name);
}

static char *no_such_column(const struct column *all, const char *option, const char *typed)
{
	const char **name AUTOFREE = NULL;
	size_t n = 0;
	struct text t;
	for (const struct column *c = all; c->name; c++)
		APPEND(name, n, c->name);
	for (const struct column *c = all; c->name; c++)
		if (c->head)
			APPEND(name, n, c->head);
	fputs("there are ", text_open(&t));
	columns_names(all, t.f);
	char *names AUTOFREE = text_close(&t);
	return no_such("column", option, typed, name, n, names);
}

static char *column_find(const struct column *all, const char *option, const char *typed,
			 const struct column **found)
{
	for (*found = all; (*found)->name; (*found)++)
		if (strcmp(typed, (*found)->name) == 0)
			return NULL;
	for (*found = all; (*found)->name; (*found)++)
		if ((*found)->head && strcmp(typed, (*found)->head) == 0)
			return NULL;
	return no_such_column(all, option, typed);
}

/* ---- Which columns -------------------------------------------------------- */

/* The next word between commas, moving *rest past it; NULL after the last, or if *rest is NULL. */
static char *next_word(char **rest)
{
	char *word = strsep(rest, ",");
	return word ? word + strspn(word, " ") : NULL;
}

char *columns_choose(const struct column *all, const char *list, struct column **chosen)
{
	char *words AUTOFREE = must(strdup(list)), *rest = *list ? words : NULL, *word;
	const struct column *found;
	size_t n = 0;
	*chosen = NULL;
	for (const struct column *every = all; !*list && every->name; every++)
		APPEND(*chosen, n, *every);
	while ((word = next_word(&rest))) {
		TRY(column_find(all, "--columns=", word, &found));
		struct column asked = *found;
		asked.rare = false; /* the user asked for it */
		asked.front = FRONT_MOST;
		asked.head = asked.head ? asked.head : asked.name;
		APPEND(*chosen, n, asked);
	}
	APPEND(*chosen, n, (struct column){.name = NULL});
	return NULL;
}

void columns_for_paper(struct column *all)
{
	const struct column *c = all;
	size_t n = 0;
	while (c->name && !c->front)
		c++;
	if (!c->name)
		return;
	for (c = all; c->name; c++)
		if (c->key || c->front)
			all[n++] = *c;
	all[n].name = NULL;
}

/* ---- In which order ------------------------------------------------------- */

static char *sort_by(FILE *order, const struct column *all, char *word)
{
	const struct column *by;
	char *way = strrchr(word, ':');
	bool descends = *word == '-';
	if (way && (strcmp(way, ":desc") == 0 || strcmp(way, ":asc") == 0)) {
		descends = strcmp(way, ":desc") == 0;
		*way = '\0';
	}
	TRY(column_find(all, "--sort=", word + (*word == '-'), &by));
	fprintf(order, "\"%s\" %s NULLS LAST, ", by->name, descends ? "DESC" : "ASC");
	return NULL;
}

char *columns_sort(struct store *s, const struct column *all, const char *from, const char *list,
		   int64_t top, const char *to)
{
	struct text t;
	FILE *f = text_open(&t);
	char *words AUTOFREE = must(strdup(list)), *rest = *list ? words : NULL, *word,
		    *wrong = NULL;
	while (!wrong && (word = next_word(&rest)))
		wrong = sort_by(f, all, word);
	char *order AUTOFREE = text_close(&t);
	TRY(wrong);
	char *sql AUTOFREE = sentence("CREATE TEMP TABLE %s AS SELECT * FROM "
				      "(SELECT *, row_number() OVER () AS place FROM %s) "
				      "ORDER BY %splace LIMIT %lld",
				      to, from, order, top ? (long long)top : -1LL);
	return sql_script(s, sql);
}
