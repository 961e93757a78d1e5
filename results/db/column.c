/*
 * column.c - the columns of a table that the user selects and sorts by: by the names that csv and
 * json have, or by the heads.
 */
#include "results/db/column.h"

#include <string.h>

/* Calls each(ctx, word) for each word between commas, up to the first that is wrong. */
static char *each_word(const char *list, char *(*each)(void *ctx, char *word), void *ctx)
{
	char *all AUTOFREE = must(strdup(list)), *rest = all, *word;
	while (rest && *list && (word = strsep(&rest, ",")))
		TRY(each(ctx, word + strspn(word, " ")));
	return NULL;
}

void columns_names(const struct column *all, FILE *f)
{
	const char *between = "";
	for (const struct column *c = all; c->name; c++, between = ", ")
		fprintf(f, "%s%s", between, c->name);
}

static char *no_such_column(const struct column *all, const char *option, const char *typed)
{
	const char **name AUTOFREE = NULL, *near;
	size_t n = 0;
	for (const struct column *c = all; c->name; c++)
		APPEND(name, n, c->name);
	if ((near = nearest(typed, name, n)))
		return sentence("%s%s: there is no such column; did you mean %s?", option, typed,
				near);
	struct text t;
	columns_names(all, text_open(&t));
	char *names AUTOFREE = text_close(&t);
	return sentence("%s%s: there is no such column; there are %s", option, typed, names);
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

struct choosing {
	const struct column *all;
	struct column *chosen;
	size_t n;
};

static char *choose_one(void *ctx, char *word)
{
	struct choosing *c = ctx;
	const struct column *found;
	TRY(column_find(c->all, "--columns=", word, &found));
	APPEND(c->chosen, c->n, *found);
	struct column *last = &c->chosen[c->n - 1];
	last->rare = false; /* the user asked for it */
	if (!last->head)
		last->head = last->name;
	return NULL;
}

char *columns_choose(const struct column *all, const char *list, struct column **chosen)
{
	struct choosing c = {.all = all};
	char *wrong = each_word(list, choose_one, &c);
	for (const struct column *every = all; !*list && every->name; every++)
		APPEND(c.chosen, c.n, *every);
	APPEND(c.chosen, c.n, (struct column){.name = NULL});
	*chosen = c.chosen;
	return wrong;
}

/* ---- In which order ------------------------------------------------------- */

struct sorting {
	const struct column *all;
	FILE *order;
};

static char *sort_one(void *ctx, char *word)
{
	struct sorting *s = ctx;
	const struct column *by;
	char *way = strrchr(word, ':');
	bool descends = *word == '-';
	if (way && (strcmp(way, ":desc") == 0 || strcmp(way, ":asc") == 0)) {
		descends = strcmp(way, ":desc") == 0;
		*way = '\0';
	}
	TRY(column_find(s->all, "--sort=", word + (*word == '-'), &by));
	fprintf(s->order, "\"%s\" %s NULLS LAST, ", by->name, descends ? "DESC" : "ASC");
	return NULL;
}

char *columns_sort(struct store *s, const struct column *all, const char *from, const char *list,
		   int64_t top, const char *to)
{
	struct text t;
	struct sorting sorting = {all, text_open(&t)};
	char *wrong = each_word(list, sort_one, &sorting);
	char *order AUTOFREE = text_close(&t);
	TRY(wrong);
	char *sql AUTOFREE = sentence("CREATE TEMP TABLE %s AS SELECT * FROM "
				      "(SELECT *, row_number() OVER () AS place FROM %s) "
				      "ORDER BY %splace LIMIT %lld",
				      to, from, order, top ? (long long)top : -1LL);
	return sql_script(s, sql);
}
