/*
 * installed.c - finds the files that come with the program: plots, job files, platforms.
 */

#include "runtime/base/base.h"

#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

char *program_path(void)
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self);
	if (n > 0)
		return sentence("%.*s", (int)n, self);
	/* without /proc: the name by which the kernel was told to start it */
	const char *name = (const char *)getauxval(AT_EXECFN);
	return sentence("%s", name && realpath(name, self) ? self : "");
}

char *installed_path(const char *name)
{
	const char *home = getenv("MVBENCH_HOME");
	char *self AUTOFREE = program_path();
	/* build/mvbench in the source tree, build/sanitize/mvbench, PREFIX/bin/mvbench */
	const char *const from_self[] = {"", "/..", "/../..", "/../share/mvbench"};
	for (size_t i = home && *home ? 0 : 1; i < (*self ? 4 : 1); i++) {
		char *path = i ? sentence("%.*s%s/%s", (int)(strrchr(self, '/') - self), self,
					  from_self[i], name)
			       : sentence("%s/%s", home, name);
		if (access(path, R_OK) == 0)
			return path;
		free(path);
	}
	return NULL;
}

void installed_each(const char *folder, const char *ending,
		    void (*each)(void *ctx, const char *name, const char *path), void *ctx)
{
	char *where AUTOFREE = installed_path(folder);
	struct dirent **file;
	int n = where ? scandir(where, &file, NULL, versionsort) : -1;
	for (int i = 0; i < n; i++) {
		char *dot = strrchr(file[i]->d_name, '.');
		char *path AUTOFREE = sentence("%s/%s", where, file[i]->d_name);
		if (dot && dot > file[i]->d_name && strcmp(dot, ending) == 0) {
			*dot = '\0';
			each(ctx, file[i]->d_name, path);
		}
		free(file[i]);
	}
	if (n >= 0)
		free(file);
}

bool program_exists(const char *program)
{
	const char *path = getenv("PATH");
	bool found = false;
	for (int n; path && *path && !found; path += n + (path[n] == ':')) {
		n = (int)strcspn(path, ":");
		char *file AUTOFREE = sentence("%.*s/%s", n, path, program);
		found = access(file, X_OK) == 0;
	}
	return found;
}
