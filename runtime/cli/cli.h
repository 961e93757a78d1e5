/*
 * cli.h - the command line: arguments, commands and their help, lists of what there is to choose.
 */
#ifndef CLI_H
#define CLI_H

#include "runtime/config/settings.h"

/* A parsed command line: options in the order given, and positional words. */
struct arguments {
	struct setting *option; /* value NULL: none was given */
	size_t options;
	size_t all;        /* in option[]: these, then those that arguments_take took */
	const char **word; /* [words], then NULL */
	size_t words;
	bool help;     /* --help */
	bool help_all; /* --help=all */
};
/* bare(ctx, name): does this option never take the next word as its value? NULL = all do take
 * it. */
char *arguments_read(struct arguments *a, int argc, char **argv,
		     bool (*bare)(const void *ctx, const char *name), const void *ctx);
void arguments_free(struct arguments *a);
/* Sets fields from the options in the table, and removes those from a. A message, or NULL. */
char *arguments_take(struct arguments *a, const struct option *table, void *fields);
bool arguments_took(const struct arguments *a, const char *name);
/* The last given value of an option that is still in a; NULL = none. */
const char *arguments_value(const struct arguments *a, const char *name);
/* NULL, or a message about the first option that was not taken, with the table's nearest name. */
char *arguments_refuse(const struct arguments *a, const struct option *table);

/* ---- Commands (command.c); main.c lists them ---------------------------- */

struct word {             /* a possible argument of a command */
	const char *kind; /* "figure", "job file" */
	const char *name, *summary, *needs;
	const char *path; /* of its files, without .sql and .gp */
};

struct command {
	const char *name, *summary;
	/* The words after the name. The first one states the argument: FILE.ini, FIGURE, TOPIC, or
	 * a choice a|b|c; in brackets if it is optional. */
	const char *usage;
	const char *about;            /* for --help: paragraphs, an empty line between them */
	const struct option *options; /* its own; ends at name NULL */
	size_t size;                  /* of the struct that has their fields */
	bool run_options;             /* also takes every option of mvbench run */
	bool any_option;              /* also takes any other option, without a value */
	bool pages;                   /* a terminal shows its output through a pager */
	struct setting alone;         /* an own option with its value if the user gives none */
	const char *example; /* an option, for a command that takes no words; NULL = words */
	/* The possible first words, if only the command knows them; NULL = see usage. */
	void (*words)(void (*each)(void *ctx, const struct word *w), void *ctx);
	/* options: its own; rest: the other options, and the words. Returns NULL, or a message. The
	 * exit status is *status; EXIT_OK with a message means EXIT_USER. */
	char *(*run)(void *options, struct arguments *rest, int *status);
	/* Prints help after the options; given: the other arguments, or NULL. NULL, or a message.
	 * The slot is NULL if there is no more help. */
	char *(*more)(FILE *f, const struct arguments *given);
	/* What the user can do after Ctrl-C; it follows "interrupted; ". NULL: nothing is said. */
	const char *interrupted;
};
#define GOES_ON      "the same command continues"
#define STARTS_AGAIN "the same command starts again"
/* Reads the words after the command's name and runs it, or prints --help; returns the exit
 * status. */
int command_start(const struct command *c, int argc, char **argv);
/* From here on a pager shows what is printed, if stdout is a terminal and there is one. */
void pager_start(void);
/* Do people see on a terminal what is written to f, directly or through the pager? */
bool on_terminal(FILE *f);
/* Prints the message once, although every rank of a launcher finds it, and frees it; returns the
 * exit status. */
int command_refuse(char *wrong);

/* A page of help: as text, or as the source of a manual page (roff). Each part except a title
 * begins with an empty line. */
struct help {
	FILE *f;
	bool roff;
};
void help_head(const struct help *p, int level, const char *text); /* level: 1 or 2 */
void help_words(const struct help *p, const char *text); /* paragraphs, an empty line between */
void help_row(const struct help *p, const char *left, const char *right);
void help_options(const struct help *p, const char *owner, const struct option *table);
void help_rows(const struct help *p, const char *owner,
	       const struct option *table); /* without the empty line */
void help_verbatim(const struct help *p, const char *text);
/* Prints the --help of a command from its row. level: of its headings. */
void help_command(const struct help *p, int level, const struct command *c);

/* A workload's recipe as options; heap. */
char *recipe_words(const struct setting *recipe);

/* Everything that a user can choose (list.c). */
struct choice {
	/* "strategy", "updater", "optimizer", "codec", "workload", "device", "platform" */
	const char *kind;
	const char *name, *summary;
	const struct plugin *plugin; /* has its options; NULL: no plug-in */
	const void *of;              /* the strategy, updater, workload or device */
};
void catalogue_each(void (*each)(void *ctx, const struct choice *e), void *ctx);

/* ---- Help (topic.c, manual.c, completion.c) ---- */

/* A help topic, made from the tables of commands, options, plug-ins and figures, and of rooms
 * above. Several topics may have the same name. */
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
/* Adds a topic; its name and summary are copied. */
struct topics;
struct topic *topic_add(struct topics *l, const char *kind, const char *name, const char *summary,
			topic_function *print);
/* What adds topics of rooms above this one; main.c lists them. Ends at NULL. */
typedef void topic_source(struct topics *l);
extern topic_source *const topic_sources[];
/* Ends at name NULL; for topics_free. */
struct topic *topics_make(void);
void topics_free(struct topic *all);
static inline void topics_autofree(struct topic **all)
{
	topics_free(*all);
}
#define AUTOTOPICS __attribute__((cleanup(topics_autofree)))
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
