/*
 * help.h - what one can ask help for, as text, as a manual page, and for completion.
 */
#ifndef HELP_H
#define HELP_H

#include "results/db/db.h"

/* ---- Help (topic.c, manual.c, completion.c) ---- */

/* What one can ask help for; made from the tables of commands, options, plug-ins, figures and the
 * database. Several may have one name. */
struct topic;
typedef void topic_function(const struct help *p, const struct topic *t);

struct topic {
	const char *kind; /* "command", "option", "strategy", ...: see topic.c */
	char *name, *summary;
	char *path;        /* of a figure, see struct word; else NULL */
	const char *owner; /* of an option: its plug-in or command; else NULL */
	const void *of;    /* what kind says */
	topic_function *print;
	size_t place; /* in the list */
};
/* Ends at name NULL; for topics_free. */
struct topic *topics_make(void);
void topics_free(struct topic *all);
static inline void topics_autofree(struct topic **all)
{
	topics_free(*all);
}
#define AUTOTOPICS ENDS_WITH(topics_autofree)
/* A row a topic of this kind. */
void topics_list(const struct help *p, const struct topic *all, const char *kind);
/* Prints all that have this name (or KIND:NAME, or an option as typed); false: there is none. */
bool topic_print(const struct help *p, const struct topic *all, const char *name);

/* A script that completes mvbench's words in bash. */
void completion_bash(FILE *f);

extern const struct command *const commands[]; /* all, ends at NULL */
void manual_overview(FILE *f);                 /* what mvbench says by itself */

#endif
