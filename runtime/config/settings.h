/*
 * settings.h - one experiment as other files hand it on: its settings and options, and functions on
 * a struct config whose fields they do not use. A new core option compiles none of these files
 * again; those that use fields include config.h.
 */
#ifndef SETTINGS_H
#define SETTINGS_H

#include "runtime/config/option.h"

#include <stdint.h>

#define DATABASE "mvbench.db" /* the default */

struct config; /* config.h */
struct data;
struct plan;
struct run; /* run.h */
struct simulation;
struct strategy;

extern const struct option run_options[]; /* of struct config; ends at name NULL */

/* Later settings win, also over the workload's recipe. lenient: options of plug-ins that this
 * configuration does not use are checked by name only (job files share their defaults). */
char *config_init(struct config *c, const struct setting *given, size_t n, bool lenient);
/* The same of what a file has recorded. Opens none of the files that it names: all that they decide
 * is recorded, too. */
char *config_init_recorded(struct config *c, const struct setting *given, size_t n);
void config_fini(struct config *c);
/* NULL: workers may make different numbers of steps in an epoch; otherwise why they may not. */
const char *config_why_static(const struct config *c);
/* Both are freed at the end of their block: struct config c AUTOCONFIG = {0}. */
#define AUTOCONFIG __attribute__((cleanup(config_fini)))
#define AUTOWORDS  __attribute__((cleanup(autowords)))
/* NULL, or a message: does each option exist, and have a value if it needs one? */
char *settings_check(const struct setting *given, size_t n);
/* NULL, or a message: does this option exist, core or a plug-in's, and is the value valid? */
char *config_check(const char *name, const char *value, const struct option **out);
/* The options of a configuration with their values as text, one after the other:
 *	for (struct config_option at = {.config = c}; config_next(&at);)
 *		... at.option, at.value ... */
struct config_option {
	const struct config *config;
	const struct option *option;
	const char *owner;  /* the plug-in's name; NULL: a core option */
	const char *part;   /* "run", or the owner's: "strategy", ... */
	const char *value;  /* valid until the next call */
	const void *fields; /* from here on: private to config_next */
	int next;
	char number[64];
};
bool config_next(struct config_option *at);
void config_hash(const struct config *c, char hex[17]); /* the identity of a cell */
/* Is this value part of a cell's identity? */
bool option_decides(const struct option *o, const char *value);
/* Does the value follow from another option? Then it must not be given. */
bool option_follows(const struct config_option *at);
/* The name of its column in the database: '_' for '-' and '.'. Returns column. */
enum { COLUMN_ROOM = 64 };
const char *option_column(const struct option *o, char column[COLUMN_ROOM]);

/* The arguments that give this configuration again: --name=value ..., ends at NULL; free with
 * free_words. */
char **config_words(const struct config *c);
void free_words(char **words);
static inline void autowords(char ***words)
{
	free_words(*words);
}
/* NULL, or a message: is this "auto" (NaN) or a time above 0? seconds may be NULL. */
char *time_check(const char *name, const char *text, double *seconds);
/* Does the strategy read --sync-every, as its epoch_time says? */
bool strategy_has_interval(const struct strategy *s);
/* The number of workers that share one model: from the strategy, or 1. */
int config_model_workers(const struct config *c);
/* Rows of all workers' mini-batches in a step. */
int64_t config_step_rows(const struct config *c);
/* Steps of a pass over so many rows, if all workers make the same number. */
int64_t config_epoch_steps(const struct config *c, size_t rows);

#endif
