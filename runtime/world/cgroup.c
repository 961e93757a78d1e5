/*
 * cgroup.c - the control groups of this process (version 2, and 1). A limit of a group holds for
 * the groups in it, too; systemd and Slurm often set it there only.
 */
#include "runtime/world/world.h"

#include <string.h>

/* Is this word in a list such as "cpu,cpuacct"? */
static bool is_listed(const char *list, const char *word)
{
	size_t n = strlen(word);
	for (const char *at = list; (at = strstr(at, word)); at += n)
		if ((at == list || at[-1] == ',') && (at[n] == ',' || !at[n]))
			return true;
	return false;
}

/* Lines are "0::/group" (version 2) and "4:memory:/group". In a container the path may be that of
 * the host: folders that are missing have no limits. */
void cgroup_each(const char *controller, void (*each)(void *ctx, const char *folder), void *ctx)
{
	char *text AUTOFREE = text_read("/proc/self/cgroup"), *rest = NULL;
	for (char *line = text ? strtok_r(text, "\n", &rest) : NULL; line;
	     line = strtok_r(NULL, "\n", &rest)) {
		char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
		if (!path)
			continue;
		*path++ = '\0';
		bool second = !*++names;
		if (!second && !is_listed(names, controller))
			continue;
		for (char *end = path + strlen(path); end; end = strrchr(path, '/')) {
			*end = '\0';
			char *folder AUTOFREE = sentence("/sys/fs/cgroup%s%s%s", second ? "" : "/",
							 second ? "" : controller, path);
			each(ctx, folder);
		}
	}
}
