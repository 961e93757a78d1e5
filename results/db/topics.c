/*
 * topics.c - help on the tables and views of the database: the schema, read.
 */
#include "results/db/db.h"
#include "runtime/base/text.h"
#include "runtime/cli/cli.h"

#include <stdlib.h>
#include <string.h>

/* The comment that ends where `at` does, without its dashes; on the heap. */
static char *comment_above(const char *schema, const char *at)
{
	const char *from = at;
	while (from > schema) {
		const char *line = from - 1;
		while (line > schema && line[-1] != '\n')
			line--;
		if (strncmp(line, "--", 2) != 0)
			break;
		from = line;
	}
	struct text t;
	FILE *f = text_open(&t);
	while (from < at) {
		int line = (int)strcspn(from, "\n"), skip = strncmp(from, "-- ", 3) == 0 ? 3 : 2;
		fprintf(f, "%.*s\n", line - skip, from + skip);
		from += line + 1;
	}
	return text_close(&t);
}

/* ---- Comments and columns that fit the terminal ------------------------------ */

struct item {
	char *left, *right; /* left NULL: a paragraph */
	int indent;
};

static void item_end(const struct help *p, struct item *i)
{
	if (i->left) {
		help_row(p, i->left, i->right);
	} else if (i->right) {
		fprintf(p->f, "%*s", i->indent, "");
		text_wrap(p->f, i->right, i->indent);
	}
	free(i->left);
	free(i->right);
	*i = (struct item){.left = NULL};
}

static void item_go_on(struct item *i, const char *text, int n)
{
	char *all = i->right ? sentence("%s %.*s", i->right, n, text) : sentence("%.*s", n, text);
	free(i->right);
	i->right = all;
}

/* Lines flow together. One that is indented by 2 begins an item if it has a gap of two blanks, as
 * between a name and its meaning, or if it begins with a capital. */
static void print_comment(const struct help *p, const char *text)
{
	struct item item = {.left = NULL};
	while (*text) {
		int n = (int)strcspn(text, "\n"), indent = (int)strspn(text, " ");
		const char *word = text + indent, *gap = strstr(word, "  ");
		bool named = indent == 2 && gap && gap < text + n;
		if (named || (indent == 2 && *word >= 'A' && *word <= 'Z') || indent < item.indent)
			item_end(p, &item);
		if (!item.right)
			item.indent = indent;
		if (named) {
			item.left = must(strndup(word, (size_t)(gap - word)));
			word = gap + strspn(gap, " ");
		}
		item_go_on(&item, word, (int)(text + n - word));
		text += n + (text[n] == '\n');
	}
	item_end(p, &item);
}

/* The columns between the brackets of CREATE TABLE, each with the comment behind it. */
static void print_columns(const struct help *p, const char *body, const char *end)
{
	enum { BESIDE = 30 }; /* a longer column is above its comment */
	struct item above = {.left = NULL};
	while (body < end) {
		int n = (int)strcspn(body, "\n"), skip = (int)strspn(body, "\t ");
		const char *note = strstr(body, "-- ");
		int stop = note && note < body + n ? (int)(note - body) : n, left = stop;
		while (left > skip && strchr(" ,", body[left - 1]))
			left--;
		char *column AUTOFREE =
			sentence("%.*s", left > skip ? left - skip : 0, body + skip);
		char *means AUTOFREE =
			stop < n ? sentence("%.*s", n - stop - 3, body + stop + 3) : NULL;
		body += n + (body[n] == '\n');
		if (!*column && means) {
			above.indent = 2;
			item_go_on(&above, means, (int)strlen(means));
			continue;
		}
		item_end(p, &above);
		if (means && left - skip <= BESIDE) {
			help_row(p, column, means);
			continue;
		}
		item_end(p, &(struct item){.right = must(strdup(column)), .indent = 2});
		if (means)
			help_row(p, "", means);
	}
	item_end(p, &above);
}

/* ---- Topics -------------------------------------------------------------- */

/* A manual page has only the list of tables. */
static void print_table(const struct help *p, const struct topic *t)
{
	const char *create = t->of;
	bool view = strncmp(create, "CREATE VIEW", 11) == 0;
	char *above AUTOFREE = comment_above(database_schema(), create);
	fprintf(p->f, "%s %s of the database\n\n", view ? "view" : "table", t->name);
	print_comment(p, above);
	if (view) {
		struct store *s AUTOCLOSE = sql_schema(); /* the schema's text has only the query */
		char *columns AUTOFREE = NULL;
		complain_if(sql_first(s, &columns,
				      "SELECT group_concat(name, ', ') FROM pragma_table_info(?1)",
				      "t", t->name));
		char *text AUTOFREE = sentence("Columns: %s", columns);
		help_words(p, text);
	} else {
		const char *body = strchr(create, '\n') + 1;
		fputc('\n', p->f);
		print_columns(p, body, strstr(body, "\n)"));
	}
}

/* Cuts the text before the first full stop, colon or semicolon, and makes it one line. */
static void shorten(char *text)
{
	char *c = text;
	for (; *c && !(strchr(".:;", *c) && strchr(" \n", c[1])); c++)
		if (*c == '\n')
			*c = ' ';
	*c = '\0';
}

void table_topics(struct topics *l)
{
	static const char *const starts[] = {"\nCREATE TABLE ", "\nCREATE VIEW "};
	for (size_t i = 0; i < 2; i++)
		for (const char *at = database_schema(); (at = strstr(at, starts[i])); at++) {
			const char *from = at + strlen(starts[i]);
			char *name AUTOFREE = must(strndup(from, strcspn(from, " (\n")));
			char *above AUTOFREE = comment_above(database_schema(), at + 1);
			shorten(above);
			topic_add(l, "table", name,
				  *above ? above
				  : i    ? "a view"
					 : "a table",
				  print_table)
				->of = at + 1;
		}
}
