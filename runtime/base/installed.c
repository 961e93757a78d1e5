/*
 * installed.c - where the files that come with the program are: plots, job files, platforms.
 */

#include "runtime/base/base.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *if_there(char *path)
{
	if (access(path, R_OK) == 0)
		return path;
	free(path);
	return NULL;
}

char *installed_path(const char *name)
{
	const char *home = getenv("MVBENCH_HOME");
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	char *path = home && *home ? if_there(sentence("%s/%s", home, name)) : NULL;

	if (path || n <= 0)
		return path;
	self[n] = '\0';
	*strrchr(self, '/') = '\0';
	/* build/mvbench in the source tree, build/sanitize/mvbench, PREFIX/bin/mvbench */
	if ((path = if_there(sentence("%s/../%s", self, name))) ||
	    (path = if_there(sentence("%s/../../%s", self, name))))
		return path;
	return if_there(sentence("%s/../share/mvbench/%s", self, name));
}
