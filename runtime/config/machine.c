/*
 * machine.c - provenance: the machine, libraries and source of a result; and the machine's free
 * memory.
 */
#include "runtime/config/config.h"
#include "runtime/config/plan.h"
#include "runtime/comm/comm.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef MVBENCH_COMMIT
#define MVBENCH_COMMIT "unknown"
#endif

static const char *cpu_model(void)
{
	static char model[128];
	char *text AUTOFREE = text_read("/proc/cpuinfo");
	const char *line = text ? strstr(text, "model name") : NULL,
		   *value = line ? strstr(line, ": ") : NULL, *name = value ? value + 2 : "unknown";
	snprintf(model, sizeof model, "%.*s", (int)strcspn(name, "\n"), name);
	return model;
}

const struct machine *machine(void)
{
	static struct machine m;
	static char host[256], commit[64];
	static struct device_facts cpu;
	if (m.host)
		return &m;
	gethostname(host, sizeof host - 1);
	/* text in the program, where a packager can see it and a test can change it */
	static const char *const volatile built = MVBENCH_COMMIT;
	snprintf(commit, sizeof commit, "%s", built);
	char *dirty = strstr(commit, "-dirty");
	if (dirty)
		*dirty = '\0';
	device_cpu.probe(&cpu);
	m = (struct machine){
		.host = host,
		.cpu = cpu_model(),
		.mpi = platform_version(),
		.onednn = cpu.version,
		.git_commit = commit,
		.git_dirty = dirty != NULL,
		.version = built,
		.cores = usable_cores(),
	};
	return &m;
}

/* ---- Free memory and processes ------------------------------------------- */

/* The number after this name in a text file of the system; -1: not found. */
static int64_t number_after(const char *path, const char *name)
{
	char *text AUTOFREE = text_read(path);
	const char *at = text ? strstr(text, name) : NULL;
	long long n;
	return at && sscanf(at + strlen(name), "%lld", &n) == 1 ? n : -1;
}

/* The rest of this process's control group limit; INT64_MAX: no limit is known. */
static int64_t left_of_group(const char *group, const char *what)
{
	char *most AUTOFREE = sentence("/sys/fs/cgroup%s/%s.max", group, what),
		   *now AUTOFREE = sentence("/sys/fs/cgroup%s/%s.current", group, what);
	int64_t limit = number_after(most, ""), used = number_after(now, "");
	return limit < 0 || used < 0 ? INT64_MAX : limit > used ? limit - used : 0;
}

/* Adds the page cache and reclaimable kernel memory: the group's use includes them, but the kernel
 * can free them. */
static int64_t memory_of_group(const char *group)
{
	static const char *const can_go[] = {"\ninactive_file ", "\nactive_file ",
					     "\nslab_reclaimable "};
	char *path AUTOFREE = sentence("/sys/fs/cgroup%s/memory.stat", group);
	int64_t left = left_of_group(group, "memory");
	for (size_t i = 0; left < INT64_MAX && i < sizeof can_go / sizeof *can_go; i++) {
		int64_t bytes = number_after(path, can_go[i]);
		left += bytes > 0 ? bytes : 0;
	}
	return left;
}

char *host_room(int processes, size_t *bytes)
{
	enum { PROCESS_BYTES = 16 << 20 }; /* basic need of a rank with MPI; measured: 14 MB */
	/* "0::/group" of version 2; "/" in a container */
	char *groups AUTOFREE = text_read("/proc/self/cgroup");
	const char *own_group = groups ? strstr(groups, "0::/") : NULL;
	char *group AUTOFREE = own_group
				       ? must(strndup(own_group + 3, strcspn(own_group + 3, "\n")))
				       : must(strdup(""));
	int64_t kilobytes = number_after("/proc/meminfo", "MemAvailable:"),
		room = memory_of_group(group), most = left_of_group(group, "pids"),
		own = (int64_t)processes * PROCESS_BYTES;
	if (kilobytes >= 0 && kilobytes * 1024 < room)
		room = kilobytes * 1024;
	*bytes = room == INT64_MAX ? SIZE_MAX : room > own ? (size_t)(room - own) : 0;
	if (processes > most)
		return sentence("%d processes, but only %lld more may be started here: give fewer "
				"workers or servers",
				processes, (long long)most);
	if (*bytes == 0)
		return sentence("%d processes need %.3f GB for themselves, but only %.3f GB are "
				"free: give fewer workers or servers",
				processes, 1e-9 * (double)own, 1e-9 * (double)room);
	return NULL;
}
