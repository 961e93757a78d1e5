/*
 * text.h - text for people and for programs that read it; names that a user has probably meant.
 */
#ifndef TEXT_H
#define TEXT_H

#include "runtime/base/base.h"

/* Columns of lines that people read on stdout: $COLUMNS, or those of the terminal; 0 = any number.
 */
int terminal_columns(void);
/* Prints words from this column on, in lines that fit the terminal and have at most 100 columns. */
void text_wrap(FILE *f, const char *text, int column);
void text_wrap_at(FILE *f, const char *text, int column, int width); /* in lines of this width */
/* The words joined by `between`; heap. */
char *text_list(const char *const *word, size_t n, const char *between);
/* The text with `by` in the place of every `what`; heap. */
char *text_replaced(const char *text, const char *what, const char *by);
void text_row(FILE *f, const char *left, const char *right); /* in two columns, like options */
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
/* Prints a command of such words in lines that fit the terminal, which a shell joins. */
void command_put(FILE *f, const char *command);

/* The name in the list that is nearest to the typed one, or NULL if none is near. */
const char *nearest(const char *typed, const char *const *names, size_t n);
/* "--x=TYPED: there is no such WHAT; did you mean NAME?", with the nearest of n names; without a
 * near one, `lists` says where they are. before: "--x=", or "". Heap. */
char *no_such(const char *what, const char *before, const char *typed, const char *const *name,
	      size_t n, const char *lists);

#endif
