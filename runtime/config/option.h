/*
 * option.h - options as rows of a table: reading, printing, error messages; and text for people.
 */
#ifndef OPTION_H
#define OPTION_H

#include "runtime/base/base.h"
#include "runtime/config/option_row.h"

void option_default(const struct option *table, void *fields);
/* NULL, or a message: the field keeps its value. Strings and choices are not copied: text must
 * outlive the fields. text NULL: a bare flag. owner: the plug-in's name, or NULL. */
char *option_set(const struct option *o, void *fields, const char *owner, const char *text);
/* "batch", "asgd.updater": the name as a user types it. owner: as above. Heap. */
char *option_full_name(const char *owner, const struct option *o);
/* The value as a user would type it. */
void option_text(const struct option *o, const void *fields, char *buf, size_t room);
/* NULL: the table has no option of this name. */
const struct option *option_find(const struct option *table, const char *name);
/* The message for an unknown option of prefix (a plug-in's name, or ""). run: the command whose
 * --help lists the table: "mvbench run ", or "" for the current command. */
char *option_unknown(const char *prefix, const char *typed, const struct option *table,
		     const char *run);
/* The name in the list that is nearest to the typed one, or NULL if none is near. */
const char *nearest(const char *typed, const char *const *names, size_t n);
/* "--x=TYPED: there is no such WHAT; did you mean NAME?", with the nearest of n names; without a
 * near one, `lists` says where they are. before: "--x=", or "". Heap. */
char *no_such(const char *what, const char *before, const char *typed, const char *const *name,
	      size_t n, const char *lists);
/* The help of an option: name and default, and its description; both on the heap. */
void option_words(const struct option *o, const char *owner, char **left, char **right);
/* Columns of lines that people read on stdout: $COLUMNS, or those of the terminal; 0 = any number.
 */
int terminal_columns(void);
/* Prints words from this column on, in lines that fit the terminal and have at most 100 columns. */
void text_wrap(FILE *f, const char *text, int column);
/* The words joined by `between`; heap. */
char *text_list(const char *const *word, size_t n, const char *between);
/* The text with `by` in the place of every `what`; heap. */
char *text_replaced(const char *text, const char *what, const char *by);
void text_row(FILE *f, const char *left, const char *right); /* in two columns, like options */
/* The shortest decimal that reads back as x; a whole number below 1e15 has no exponent. */
void real_digits(double x, char *buf, size_t room);
void option_json(FILE *f, const struct option *o, const void *fields); /* the value */
/* The value of a number without its unit: bytes, seconds, bit/s. */
void option_number(const struct option *o, const void *fields, char *buf, size_t room);
void text_json(FILE *f, const char *s); /* "s", escaped, and valid UTF-8 whatever s is */
/* Writes JSON that SQLite made, which leaves DEL and U+0080 to U+009F in its strings as they are:
 * they become escapes here, because a terminal would obey them. */
void text_json_made(FILE *f, const char *json);
/* Writes it as text or a quoted attribute of XML and HTML, with U+FFFD for control characters. */
void text_xml(FILE *f, const char *s);
/* Writes it so that TeX shows it. */
void text_tex(FILE *f, const char *s);
/* Reads one character of UTF-8 and moves past it; returns U+FFFD for an invalid byte. */
uint32_t text_character(const char **s);
char *text_valid(const char *s); /* a copy that is valid UTF-8; heap */
/* A copy on one line, for terminals: control characters become text, such as \\x1b. Heap. */
char *text_visible(const char *s);

/* Prints a word for a shell, in quotes if the shell needs them. */
void word_put(FILE *f, const char *word);
char *word_quoted(const char *word); /* the same, on the heap */

/* The last value of this option; NULL: it is not given. */
const char *setting_value(const struct setting *given, size_t n, const char *name);

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
/* Who names a plug-in's file decides what happens to it. */
enum naming {
	NAMED_BY_DATA, /* a database, a baseline, an import: the file is not opened */
	NAMED_BY_JOB,  /* a job file that is only looked at: the file is read, not compiled */
	NAMED_BY_USER, /* the command line, or a job file that runs: it is compiled and loaded */
};
/* Adds each item of a comma list, without #SHA256. arguments_read adds the values of --strategy,
 * --workload and --optimizer. */
void arguments_name(const char *list, enum naming how);
enum naming arguments_named(const char *name);
void arguments_free(struct arguments *a);
/* Sets fields from the options in the table, and removes those from a. A message, or NULL. */
char *arguments_take(struct arguments *a, const struct option *table, void *fields);
bool arguments_took(const struct arguments *a, const char *name);
/* The last given value of an option that is still in a; NULL = none. */
const char *arguments_value(const struct arguments *a, const char *name);
/* NULL, or a message about the first option that was not taken, with the table's nearest name. */
char *arguments_refuse(const struct arguments *a, const struct option *table);

#endif
