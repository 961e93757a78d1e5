/*
 * named.c - files with code by who has named them. Only what the user has named is compiled and
 * loaded.
 */
#include "runtime/config/plugins.h"

#include <string.h>

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

void plugins_name(const char *list, enum naming how)
{
	char *all AUTOFREE = must(strdup(list)), *rest = all, *one;
	while ((one = strsep(&rest, ","))) {
		one += strspn(one, " \t\r\n");
		size_t n = strcspn(one, "#");
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
