/*
 * topics.c - help on the tables and views of the database: the schema, read.
 */
#include "results/db/db.h"
#include "runtime/cli/cli.h"

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

static void print_table(const struct help *p, const struct topic *t)
{
	const char *create = t->of;
	bool view = strncmp(create, "CREATE VIEW", 11) == 0;
	char *above AUTOFREE = comment_above(database_schema(), create);
	if (!p->roff)
		fprintf(p->f, "%s %s of the database\n", view ? "view" : "table", t->name);
	if (*above)
		help_verbatim(p, above);
	if (view) {
		struct store *s AUTOCLOSE = sql_schema(); /* the schema's text has only the query */
		char *columns AUTOFREE = NULL;
		complain_if(sql_first(s, &columns,
				      "SELECT group_concat(name, ', ') FROM pragma_table_info(?1)",
				      "t", t->name));
		char *text AUTOFREE = sentence("Columns: %s", columns);
		help_words(p, text);
	} else {
		const char *body = strchr(create, '\n') + 1, *end = strstr(body, "\n)");
		char *text AUTOFREE = sentence("%.*s", (int)(end - body), body);
		help_verbatim(p, text);
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
