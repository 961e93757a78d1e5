/*
 * option.h - options as rows of a table: reading, printing, refusing; and text for people.
 */
#ifndef OPTION_H
#define OPTION_H

#include "runtime/base/base.h"

/* Where nothing is to be freed: what is wrong is the caller's answer, too. */
#define TRY(wrong) \
	do { \
		char *wrong_ = (wrong); \
		if (wrong_) \
			return wrong_; \
	} while (0)

void option_default(const struct option *table, void *fields);
/* Strings and choices are not copied: text must outlive the fields. owner: of a plug-in's, or
 * NULL. */
char *option_set(const struct option *o, void *fields, const char *owner, const char *text);
/* The value as a user would type it. */
void option_text(const struct option *o, const void *fields, char *buf, size_t room);
/* NULL: the table has none of this name. */
const struct option *option_find(const struct option *table, const char *name);
/* Why there is no such option of prefix (of a plug-in, or ""), whose options the table has. run:
 * "mvbench run " and "" where its --help and a command's own list them. */
char *option_unknown(const char *prefix, const char *typed, const struct option *table,
		     const char *run);
/* The name in the list that is nearest to what was typed, or NULL when none is near. */
const char *nearest(const char *typed, const char *const *names, size_t n);
/* What help shows of an option: as one types its default, and what it is; both on the heap. */
void option_words(const struct option *o, const char *owner, char **left, char **right);
/* Prints words from this column on, in lines of at most 100. */
void text_wrap(FILE *f, const char *text, int column);
/* The words one after the other, with `between` between each two; from the heap. */
char *text_list(const char *const *word, size_t n, const char *between);
void text_row(FILE *f, const char *left, const char *right); /* in two columns, as options are */
void option_json(FILE *f, const struct option *o, const void *fields); /* the value */
void text_json(FILE *f, const char *s); /* "s", escaped, and valid UTF-8 whatever s is */
/* Reads one character of UTF-8 and moves past it; U+FFFD for a byte that is none. */
uint32_t text_character(const char **s);
/* Writes that character; or all of them, for what people typed need not be UTF-8. */
void text_put(FILE *f, const char **s);
void text_utf8(FILE *f, const char *s);

/* A command line cut up: options in the order given, then positional words. */
struct arguments {
	struct setting *option; /* value NULL where there is none */
	size_t options;
	const char **taken; /* names of the options that arguments_take took */
	size_t ntaken;
	const char **word;
	size_t words;
	bool help;
};
/* bare(ctx, name): does this option take no value when none is given with '='? NULL = none does. */
char *arguments_read(struct arguments *a, int argc, char **argv,
		     bool (*bare)(const void *ctx, const char *name), const void *ctx);
void arguments_free(struct arguments *a);
/* Sets fields from the options that the table has, and takes those out of a. A sentence, or
 * NULL. */
char *arguments_take(struct arguments *a, const struct option *table, void *fields);
bool arguments_took(const struct arguments *a, const char *name);
/* The value that is left of an option: the last one given; NULL = none. */
const char *arguments_value(const struct arguments *a, const char *name);
/* NULL, or a sentence about the first option that nobody took, with the table's nearest name. */
char *arguments_refuse(const struct arguments *a, const struct option *table);

#endif
