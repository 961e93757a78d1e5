/*
 * command.c - what help says of a command: from its row, and nothing else; and the pages on which
 * it says so, as text or as roff (man(7)).
 */
#include "runtime/config/config.h"
#include "runtime/table/table.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- roff ---------------------------------------------------------------- */

/* What stands for a character that roff reads as something else; NULL = it stands for itself. */
static const char *roff_of(char c)
{
	static const struct {
		char c;
		const char *roff;
	} row[] = {{'\\', "\\e"},  {'-', "\\-"},   {'\'', "\\(aq"}, {'`', "\\(ga"},
		   {'^', "\\(ha"}, {'~', "\\(ti"}, {'"', "\\(dq"}};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++)
		if (row[i].c == c)
			return row[i].roff;
	return NULL;
}

/* No line of the text is taken for an order, and no quote ends an argument. */
static void put_roff(FILE *f, const char *text, bool starts)
{
	for (; *text; text++) {
		const char *roff = roff_of(*text);
		if (starts && (*text == '.' || *text == '\''))
			fputs("\\&", f);
		if (roff)
			fputs(roff, f);
		else
			fputc(*text, f);
		starts = *text == '\n';
	}
}

static void put_quoted(FILE *f, const char *text)
{
	fputc('"', f);
	put_roff(f, text, false);
	fputs("\"\n", f);
}

/* ---- Parts of a page ----------------------------------------------------- */

void help_head(const struct help *p, int level, const char *text)
{
	if (!p->roff) {
		fprintf(p->f, "\n%s\n", text);
		return;
	}
	fputs(level == 1 ? ".SH " : ".SS ", p->f);
	put_quoted(p->f, text);
}

static void help_paragraph(const struct help *p, const char *text)
{
	if (p->roff) {
		fputs(".PP\n", p->f);
		put_roff(p->f, text, true);
		fputc('\n', p->f);
	} else {
		fputc('\n', p->f);
		text_wrap(p->f, text, 0);
	}
}

void help_words(const struct help *p, const char *text)
{
	const char *end;

	for (; *text; text = end + strspn(end, "\n")) {
		end = strstr(text, "\n\n");
		end = end ? end : text + strlen(text);
		char *one = must(strndup(text, (size_t)(end - text)));
		help_paragraph(p, one);
		free(one);
	}
}

void help_row(const struct help *p, const char *left, const char *right)
{
	if (!p->roff) {
		text_row(p->f, left, right);
		return;
	}
	fputs(".TP\n.B ", p->f);
	put_quoted(p->f, left);
	put_roff(p->f, right, true);
	fputc('\n', p->f);
}

void help_options(const struct help *p, const char *owner, const struct option *table)
{
	char *left, *right;

	if (!p->roff && table && table->name)
		fputc('\n', p->f);
	for (const struct option *o = table; o && o->name; o++) {
		option_words(o, owner, &left, &right);
		help_row(p, left, right);
		free(left);
		free(right);
	}
}

void help_verbatim(const struct help *p, const char *text)
{
	size_t n = strlen(text);
	const char *end = n && text[n - 1] == '\n' ? "" : "\n";

	if (!p->roff) {
		fprintf(p->f, "\n%s%s", text, end);
		return;
	}
	fputs(".PP\n.nf\n", p->f);
	put_roff(p->f, text, true);
	fprintf(p->f, "%s.fi\n", end);
}

char *recipe_words(const struct setting *recipe)
{
	char *text = must(strdup(""));

	for (; recipe && recipe->name; recipe++) {
		char *longer = sentence("%s%s--%s=%s", text, *text ? " " : "", recipe->name,
					recipe->value);
		free(text);
		text = longer;
	}
	return text;
}

/* ---- A command ----------------------------------------------------------- */

static void help_more(const struct help *p, const struct command *c)
{
	char *text = NULL;
	size_t n = 0;
	FILE *f = must(open_memstream(&text, &n));

	c->more(f);
	fclose(f);
	if (n)
		help_verbatim(p, text);
	free(text);
}

void help_command(const struct help *p, int level, const struct command *c)
{
	char *usage = sentence("mvbench %s %s", c->name, c->usage);

	if (p->roff && level == 1)
		help_head(p, 1, "SYNOPSIS");
	if (p->roff)
		help_paragraph(p, usage);
	else
		fprintf(p->f, "usage: %s\n", usage);
	free(usage);
	if (p->roff && level == 1)
		help_head(p, 1, "DESCRIPTION");
	help_words(p, c->about);
	if (p->roff && level == 1)
		help_head(p, 1, "OPTIONS");
	help_options(p, NULL, c->options);
	if (c->run_options && strcmp(c->name, "run") != 0)
		help_words(p, "It takes the options of mvbench run too: mvbench run --help.");
	if (c->more && !p->roff)
		help_more(p, c);
}

void command_help(FILE *f, const struct command *c)
{
	help_command(&(struct help){.f = f}, 1, c);
}
