/*
 * plugins.c - strategies, workloads, optimisers and codecs by name: built-in ones, and those loaded
 * from users' files (plugin_file.c), which stay loaded until the process ends.
 */
#include "runtime/config/plugins.h"
#include "runtime/config/python/python.h"
#include "workloads/net.h"

#include <stdlib.h>
#include <string.h>

static struct loaded *loaded;
static size_t nloaded;

static const struct plugin *built_in(enum part part, size_t i)
{
	if (part == PART_STRATEGY)
		return strategies[i] ? &strategies[i]->plugin : NULL;
	if (part == PART_WORKLOAD)
		return workloads[i] ? &workloads[i]->plugin : NULL;
	if (part == PART_CODEC)
		return codecs[i] ? &codecs[i]->plugin : NULL;
	return optimizers[i] ? &optimizers[i]->plugin : NULL;
}

const struct plugin *plugin_at(enum part part, size_t i)
{
	const struct plugin *p;
	for (size_t k = 0; (p = built_in(part, k)); k++)
		if (i-- == 0)
			return p;
	for (size_t k = 0; k < nloaded; k++)
		if (loaded[k].part == part && i-- == 0)
			return loaded[k].plugin;
	return NULL;
}

const void *plugin_find(enum part part, const char *name)
{
	const struct plugin *p;
	for (size_t i = 0; (p = plugin_at(part, i)); i++)
		if (strcmp(p->name, name) == 0)
			return p;
	return NULL;
}

size_t plugin_names(enum part part, const char *name[PLUGINS_MOST])
{
	const struct plugin *p;
	size_t n = 0;
	for (enum part k = 0; k < PART_COUNT; k++)
		for (size_t i = 0;
		     (part == PART_COUNT || part == k) && n < PLUGINS_MOST && (p = plugin_at(k, i));
		     i++)
			name[n++] = p->name;
	return n;
}

/* ---- From files ---------------------------------------------------------- */

static char *without_options(const char *typed)
{
	const char *options = plugin_options(typed);
	return must(strndup(typed, options ? (size_t)(options - typed) : strlen(typed)));
}

bool plugin_is_file(const char *typed)
{
	char *name AUTOFREE = without_options(typed);
	size_t n = strlen(name);
	return strpbrk(name, "/#") || (n > 2 && strcmp(name + n - 2, ".c") == 0) ||
	       (n > 3 && (strcmp(name + n - 3, ".so") == 0 || strcmp(name + n - 3, ".py") == 0));
}

char *plugin_typed(const struct plugin *p)
{
	for (size_t i = 0; i < nloaded; i++)
		if (loaded[i].plugin == p)
			return sentence("%s#%s", *loaded[i].path ? loaded[i].path : p->name,
					loaded[i].source);
	return sentence("%s", p->name);
}

void plugin_sources(const struct plugin *p, source_function *keep, void *ctx)
{
	for (size_t i = 0; i < nloaded; i++)
		if (loaded[i].plugin == p)
			plugin_file_sources(&loaded[i], keep, ctx);
}

/* The process keeps the version of a file that it loaded first. */
static const struct loaded *loaded_before(enum part part, const char *file)
{
	const char *hash = strrchr(file, '#');
	char *real AUTOFREE = hash ? NULL : realpath(file, NULL);
	for (size_t i = 0; i < nloaded; i++)
		if ((part == PART_COUNT || loaded[i].part == part) &&
		    (hash   ? strcmp(loaded[i].source, hash + 1) == 0
		     : real ? strcmp(loaded[i].path, real) == 0
			    : false))
			return &loaded[i];
	return NULL;
}

static bool is_built_in(const struct plugin *p)
{
	const struct plugin *own;
	for (enum part k = 0; k < PART_COUNT; k++)
		for (size_t i = 0; (own = built_in(k, i)); i++)
			if (strcmp(own->name, p->name) == 0)
				return true;
	return false;
}

static char *load_plugin(enum part part, const char *file, const struct plugin **out)
{
	const struct loaded *before = loaded_before(part, file);
	struct loaded l;
	if (before) {
		*out = before->plugin;
		return NULL;
	}
	TRY(plugin_file_load(part, file, &l));
	if (is_built_in(l.plugin)) {
		const char *name = l.plugin->name, *hash = strrchr(file, '#');
		size_t n = hash ? (size_t)(hash - file) : strlen(file);
		bool python = n > 3 && strncmp(file + n - 3, ".py", 3) == 0;
		char *field AUTOFREE = python ? sentence("a line name = \"my_%s\"", name)
					      : sentence(".plugin.name");
		return sentence("%s: mvbench has a plug-in %s itself: give yours another name "
				"(%s), because options and results use it",
				file, name, field);
	}
	APPEND(loaded, nloaded, l);
	*out = l.plugin;
	return NULL;
}

/* "--strategy=asgdd: unknown name; did you mean asgd? Known: serial, asgd, ..." */
static char *no_such_plugin(enum part part, const char *what, const char *typed)
{
	const char *name[PLUGINS_MOST];
	size_t n = plugin_names(part, name);
	const char *near = nearest(typed, name, n);
	char *list AUTOFREE = text_list(name, n, ", ");
	if (near)
		return sentence("--%s=%s: unknown name; did you mean %s? Known: %s", what, typed,
				near, list);
	return sentence("--%s=%s: unknown name; known: %s", what, typed, list);
}

/* The value of NAME.source for this name; NULL: not given. */
static const char *source_given(const char *name, const struct setting *given, size_t n)
{
	char *option AUTOFREE = sentence("%s.source", name);
	return setting_value(given, n, option);
}

/* --python decides what reads a file, and therefore takes effect before the file is loaded. */
static void choose_python(const struct setting *given, size_t n)
{
	const char *python = setting_value(given, n, "python");
	if (python && *python)
		setenv(PYTHON_VARIABLE, python, 1);
}

char *plugin_choose(enum part part, const char *typed, const struct setting *given, size_t n,
		    const struct plugin **out)
{
	char *name AUTOFREE = without_options(typed ? typed : "");
	choose_python(given, n);
	if (plugin_is_file(name))
		return load_plugin(part, name, out);
	const char *source = source_given(name, given, n);
	if (source) {
		char *file AUTOFREE = sentence("%s#%s", name, source);
		return load_plugin(part, file, out);
	}
	*out = plugin_find(part, name);
	return *out ? NULL : no_such_plugin(part, part_names[part], name);
}

char *plugin_of_pulls(const char *typed, const struct plugin **out)
{
	char *name AUTOFREE = without_options(typed);
	*out = NULL;
	if (strcmp(typed, "true") == 0 || strcmp(typed, "false") == 0 || strcmp(typed, "none") == 0)
		return NULL;
	*out = plugin_find(PART_CODEC, name);
	if (*out)
		return NULL;
	if (plugin_is_file(name))
		return sentence("--codec.pull=%s: give a name of mvbench list codecs; with "
				"--codec=%s, true is the codec of this file",
				typed, name);
	return no_such_plugin(PART_CODEC, "codec.pull", name);
}

char *plugins_load(const struct setting *given, size_t n)
{
	const struct plugin *p;
	for (enum part k = 0; k < PART_COUNT; k++)
		for (size_t i = 0; i < n; i++) {
			const char *value = given[i].value;
			if (value && strcmp(given[i].name, part_names[k]) == 0 &&
			    (plugin_is_file(value) || source_given(value, given, n)))
				TRY(plugin_choose(k, value, given, n, &p));
		}
	return NULL;
}
