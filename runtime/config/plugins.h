/*
 * plugins.h - plug-ins: built-in ones, and those of users' files (plugins.c, plugin_file.c).
 */
#ifndef PLUGINS_H
#define PLUGINS_H

#include "runtime/config/settings.h"

enum part { PART_STRATEGY, PART_WORKLOAD, PART_OPTIMIZER, PART_CODEC, PART_COUNT };
extern const char *const part_names[PART_COUNT]; /* "strategy", ...: also the choosing option */
/* The part whose plug-in this core option chooses; PART_COUNT = none. */
enum part option_chooses(const struct option *o);
/* The i-th plug-in of a part: the first member of a strategy, workload, optimizer or codec. NULL:
 * the end. */
const struct plugin *plugin_at(enum part part, size_t i);
/* The plug-in of this name, a pointer to its struct plugin, too. NULL: unknown name. */
const void *plugin_find(enum part part, const char *name);
/* The plug-in of this part of a configuration, and its options. */
const struct plugin *config_plugin(const struct config *c, enum part part, void **opts);
/* The names of one part, or of all (PART_COUNT). */
enum { PLUGINS_MOST = 256 };
size_t plugin_names(enum part part, const char *name[PLUGINS_MOST]);
/* The plug-in that a user gives by name or file. A file is compiled and loaded once; it may be of
 * any part if part is PART_COUNT. given: its NAME.source chooses among several files of that name.
 * NULL, or a message. */
char *plugin_choose(enum part part, const char *typed, const struct setting *given, size_t n,
		    const struct plugin **out);
/* The codec that --codec.pull names, of those that are there; NULL: true, false or none. */
char *plugin_of_pulls(const char *typed, const struct plugin **out);
/* Loads the plug-ins of all parts that settings name, before their options are used. NULL, or a
 * message. */
char *plugins_load(const struct setting *given, size_t n);
bool plugin_is_file(const char *typed); /* a file, not a name */
/* In "topk:share=0.1:of=tensors", from the first colon on: options after the name or file. NULL:
 * there are none. */
const char *plugin_options(const char *typed);
/* The text by which this program or a worker finds the same version again. Heap. */
char *plugin_typed(const struct plugin *p);

/* The file of a plug-in, loaded (plugin_file.c). */
struct loaded {
	enum part part;
	const struct plugin *plugin; /* in a copy, which has one more option: `source` */
	char *path;                  /* "" = from the cache, by its source only */
	char source[SHA256_ROOM];    /* of the file and the files that it includes next to it */
};
/* Gets a file of a plug-in's source; the plug-in itself is the first. */
typedef void source_function(void *ctx, const char *hash, const char *file, const char *text);
/* Calls keep for the files that the plug-in was made from, if it was loaded from a .c or .py that
 * is still the same. */
void plugin_file_sources(const struct loaded *l, source_function *keep, void *ctx);
void plugin_sources(const struct plugin *p, source_function *keep, void *ctx);
/* The option `source`: the hash, in a field at this offset. */
struct option plugin_source(const char *source, size_t offset);
/* file: PATH, PATH#SHA256, or NAME#SHA256 for a compiled one in the cache. NULL, or a message. */
char *plugin_file_load(enum part part, const char *file, struct loaded *out);

/* Who names a plug-in's file decides what happens to it. */
enum naming {
	NAMED_BY_DATA, /* a database, a baseline, an import: the file is not opened */
	NAMED_BY_JOB,  /* a job file that is only looked at: the file is read, not compiled */
	NAMED_BY_USER, /* the command line, or a job file that runs: it is compiled and loaded */
};
/* Adds each item of a comma list, without #SHA256 and options. arguments_read adds the values of
 * --strategy, --workload, --optimizer and --codec. */
void plugins_name(const char *list, enum naming how);
enum naming plugin_naming(const char *name);

#endif
