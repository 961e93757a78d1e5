/*
 * named.c - names of plug-ins: of their kinds, and of files: who has named one, and the option that
 * records its source. Only what the user has named is compiled and loaded.
 */
#include "runtime/config/plugins.h"

#include <string.h>

const char *const part_names[PART_COUNT] = {[PART_STRATEGY] = "strategy",
					    [PART_WORKLOAD] = "workload",
					    [PART_OPTIMIZER] = "optimizer",
					    [PART_CODEC] = "codec"};

static struct named {
	char *name;
	enum naming how;
} * named;
static size_t nnamed;

static struct named *named_find(const char *name)
{
	size_t i = 0;
	while (i < nnamed && strcmp(named[i].name, name) != 0)
		i++;
	return i < nnamed ? &named[i] : NULL;
}

/* A path may have colons, too, but hardly one before a word and an equals sign. */
const char *plugin_options(const char *typed)
{
	for (const char *at = strchr(typed, ':'); at; at = strchr(at + 1, ':')) {
		size_t n = strspn(at + 1, "abcdefghijklmnopqrstuvwxyz0123456789_-");
		if (n > 0 && at[1 + n] == '=')
			return at;
	}
	return NULL;
}

void plugins_name(const char *list, enum naming how)
{
	char *all AUTOFREE = must(strdup(list)), *rest = all, *one;
	while ((one = strsep(&rest, ","))) {
		one += strspn(one, " \t\r\n");
		const char *options = plugin_options(one);
		size_t n = strcspn(one, "#");
		if (options && (size_t)(options - one) < n)
			n = (size_t)(options - one);
		while (n > 0 && strchr(" \t\r\n", one[n - 1]))
			n--;
		one[n] = '\0';
		struct named *before = named_find(one);
		if (!before)
			APPEND(named, nnamed, (struct named){must(strdup(one)), how});
		else if (how > before->how)
			before->how = how;
	}
}

enum naming plugin_naming(const char *name)
{
	const struct named *n = named_find(name);
	return n ? n->how : NAMED_BY_DATA;
}

static char *check_source(const struct option *o, const char *text)
{
	return strcmp(o->def, text) == 0
		       ? NULL
		       : sentence("--NAME.%s=%s: the given plug-in has another source, %s", o->name,
				  text, o->def);
}

struct option plugin_source(const char *source, size_t offset)
{
	return (struct option){.name = "source",
			       .type = OPT_STRING,
			       .offset = offset,
			       .def = must(strdup(source)),
			       .check = check_source,
			       .core = {.always = true},
			       .help = "hash of its source: recorded, not to be given [sha256]"};
}
