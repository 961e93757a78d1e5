/*
 * help.h - help topics, as text, as a manual page and for shell completion.
 */
#ifndef HELP_H
#define HELP_H

#include "results/db/db.h"

/* ---- Help (topic.c, manual.c, completion.c) ---- */

/* A help topic, made from the tables of commands, options, plug-ins, figures and the database.
 * Several topics may have the same name. */
struct topic;
typedef void topic_function(const struct help *p, const struct topic *t);

struct topic {
	const char *kind; /* "command", "option", "strategy", ...: see topic.c */
	char *name, *summary;
	char *path;        /* of a figure, see struct word; otherwise NULL */
	const char *owner; /* of an option: its plug-in or command; otherwise NULL */
	const void *of;    /* the data of the topic; its type depends on kind */
	topic_function *print;
	size_t place; /* index in the list */
};
/* Ends at name NULL; for topics_free. */
struct topic *topics_make(void);
void topics_free(struct topic *all);
static inline void topics_autofree(struct topic **all)
{
	topics_free(*all);
}
#define AUTOTOPICS ENDS_WITH(topics_autofree)
/* Prints a row for each topic of this kind. */
void topics_list(const struct help *p, const struct topic *all, const char *kind);
/* Prints all topics of this name (or KIND:NAME, or an option as typed); false: no such topic. */
bool topic_print(const struct help *p, const struct topic *all, const char *name);

/* Prints a script that completes mvbench's words in bash. */
void completion_bash(FILE *f);

extern const struct command *const commands[]; /* all commands, ends at NULL */
/* NULL, or a sentence: there is no such command. before: the option that names it, or "". */
char *command_find(const char *before, const char *name, const struct command **found);
void manual_overview(FILE *f); /* printed by mvbench without arguments */

#endif
