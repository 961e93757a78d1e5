/*
 * option.h - options as rows of a table: reading, printing, error messages.
 */
#ifndef OPTION_H
#define OPTION_H

#include "runtime/base/text.h"
#include "runtime/config/option_row.h"

void option_default(const struct option *table, void *fields);
/* NULL, or a message: the field keeps its value. Strings and choices are not copied: text must
 * outlive the fields. text NULL: a bare flag. owner: the plug-in's name, or NULL. */
bool option_is_flag(const struct option *o); /* may it be given without a value, as true? */
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
/* The help of an option: name and default, and its description; both on the heap. */
void option_words(const struct option *o, const char *owner, char **left, char **right);
/* The shortest decimal that reads back as x; a whole number below 1e15 has no exponent. */
void real_digits(double x, char *buf, size_t room);
void option_json(FILE *f, const struct option *o, const void *fields); /* the value */
/* The value of a number without its unit: bytes, seconds, bit/s. */
void option_number(const struct option *o, const void *fields, char *buf, size_t room);
/* The last value of this option; NULL: it is not given. */
const char *setting_value(const struct setting *given, size_t n, const char *name);

#endif
