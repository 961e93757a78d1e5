/*
 * completion.c - prints the bash completion script of mvbench: a table of all words, and a function
 * that looks them up. The keys of the table:
 *
 *	words COMMAND           words after the command; words: the commands
 *	options COMMAND         its options
 *	plugin NAME             options of a plug-in
 *	values COMMAND OPTION   values of an option; COMMAND is - for options of mvbench run
 */
#include "runtime/cli/cli.h"
#include "runtime/config/clusters.h"

#include <stdlib.h>
#include <string.h>

/* The function that bash calls; it uses the table that the script has before it. */
TEXT_FILE(completion_function, "runtime/cli/completion.bash");

/* File names may contain any character; the script gets only plain names. */
static bool is_plain(const char *name)
{
	return *name && name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
					  "0123456789_.:+-")] == '\0';
}

static void put_word(FILE *f, const char *word)
{
	if (is_plain(word))
		fprintf(f, " %s", word);
}

/* ---- Options ------------------------------------------------------------- */

static bool needs_no_value(const struct option *o)
{
	return o->type == OPT_BOOL && strcmp(o->def, "false") == 0;
}

static void put_options(FILE *f, const char *owner, const struct option *table)
{
	for (const struct option *o = table; o && o->name; o++)
		fprintf(f, " --%s%s%s%s", owner ? owner : "", owner ? "." : "", o->name,
			needs_no_value(o) ? "" : "=");
}

/* ---- Values -------------------------------------------------------------- */

struct kind {
	FILE *f;
	const char *kind;
};

static void put_name(void *ctx, const struct choice *e)
{
	const struct kind *k = ctx;
	if (strcmp(e->kind, k->kind) == 0)
		put_word(k->f, platform_name(e->name));
}

static void put_commands(FILE *f)
{
	for (const struct command *const *c = commands; *c; c++)
		put_word(f, (*c)->name);
}

static bool ends_in(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);
	return n >= m && strcmp(text + n - m, end) == 0;
}

/* Prints the parts of "a|b|c"; those in capitals are placeholders. */
static void put_choices(FILE *f, const char *text, size_t n)
{
	for (size_t i = 0, part; i < n; i += part + 1) {
		part = strcspn(text + i, "|] ");
		if (text[i] < 'A' || text[i] > 'Z')
			fprintf(f, " %.*s", (int)part, text + i);
	}
}

/* The values that an option can have, from its type, its unit or the plug-ins that it chooses. */
static void put_values(FILE *f, const struct option *o)
{
	const char *dot = strrchr(o->name, '.');
	if (o->type == OPT_CHOICE)
		put_choices(f, o->choices, strlen(o->choices));
	else if (o->type == OPT_BOOL)
		fputs(" true false", f);
	else if (ends_in(o->help, "[file]") || ends_in(o->help, "[folder]") ||
		 ends_in(o->help, "[path]"))
		fputs(" @file", f);
	else if (ends_in(o->help, "[command]"))
		put_commands(f);
	else
		catalogue_each(put_name, &(struct kind){f, dot ? dot + 1 : o->name});
}

/* Without known values, an option has no row. */
static void value_rows(FILE *f, const char *command, const char *owner, const struct option *table)
{
	for (const struct option *o = table; o && o->name; o++) {
		struct text t;
		put_values(text_open(&t), o);
		char *words AUTOFREE = text_close(&t);
		if (*words)
			fprintf(f, "\t['values %s %s%s%s']='%s'\n", command, owner ? owner : "",
				owner ? "." : "", o->name, words);
	}
}

/* ---- Words after the command --------------------------------------------- */

static void put_known(void *ctx, const struct word *w)
{
	put_word(ctx, w->name);
}

static void put_topics(FILE *f)
{
	struct topic *all AUTOTOPICS = topics_make();
	for (const struct topic *t = all; t->name; t++)
		put_word(f, t->name);
}

/* Words after the command, from the first word of its usage; see struct command. */
static void put_usage_words(FILE *f, const struct command *c)
{
	const char *usage = c->usage;
	size_t n;
	usage += *usage == '[';
	n = strcspn(usage, " ]");
	if (strncmp(usage, "FILE.ini", n) == 0)
		fputs(" @ini", f);
	if (c->words) {
		c->words(put_known, f);
	} else if (strncmp(usage, "TOPIC", n) == 0) {
		put_topics(f);
	} else if (strncmp(usage, "FILE", 4) == 0) {
		fputs(" @file", f);
	} else if (memchr(usage, '|', n) || *usage >= 'a') {
		put_choices(f, usage, n);
	}
}

/* ---- The script ---------------------------------------------------------- */

static void command_rows(FILE *f, const struct command *c)
{
	fprintf(f, "\t['words %s']='", c->name);
	put_usage_words(f, c);
	fprintf(f, "'\n\t['options %s']='--help", c->name);
	put_options(f, NULL, c->options);
	if (c->run_options)
		put_options(f, NULL, run_options);
	fputs("'\n", f);
	value_rows(f, c->name, NULL, c->options);
}

static void plugin_rows(void *ctx, const struct choice *e)
{
	if (!e->plugin)
		return;
	fprintf(ctx, "\t['plugin %s']='", e->name);
	put_options(ctx, e->name, e->plugin->options);
	fputs("'\n", ctx);
	value_rows(ctx, "-", e->name, e->plugin->options);
}

void completion_bash(FILE *f)
{
	fputs("# Completes the words of mvbench in bash. Made by: mvbench help "
	      "--completion=bash\n\n"
	      "declare -gA _mvbench_table=(\n\t['words']='",
	      f);
	put_commands(f);
	fputs(" --help --version'\n", f);
	for (const struct command *const *c = commands; *c; c++)
		command_rows(f, *c);
	value_rows(f, "-", NULL, run_options);
	catalogue_each(plugin_rows, f);
	fputs(")\n\n", f);
	fputs(completion_function, f);
}
