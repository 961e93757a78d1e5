/*
 * machine.c - provenance: the machine, libraries and source of a result; and the machine's free
 * memory.
 */
#include "runtime/config/machine.h"
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

/* What a control group's limit leaves; INT64_MAX: no limit is known. */
static int64_t left_of(const char *folder, const char *limit, const char *use)
{
	char *most AUTOFREE = sentence("%s/%s", folder, limit),
		   *now AUTOFREE = sentence("%s/%s", folder, use);
	int64_t all = number_after(most, ""), used = number_after(now, "");
	/* version 1 of groups states no limit as the largest number of whole pages */
	bool limited = all >= 0 && used >= 0 && all < INT64_MAX / 2;
	return !limited ? INT64_MAX : all > used ? all - used : 0;
}

static void least_processes(void *ctx, const char *folder)
{
	int64_t *least = ctx, left = left_of(folder, "pids.max", "pids.current");
	*least = left < *least ? left : *least;
}

/* Adds the page cache and reclaimable kernel memory: the group's use includes them, but the kernel
 * can free them. */
static void least_memory(void *ctx, const char *folder)
{
	static const struct {
		const char *limit, *use, *can_go[3];
	} version[] = {{"memory.max",
			"memory.current",
			{"\ninactive_file ", "\nactive_file ", "\nslab_reclaimable "}},
		       {"memory.limit_in_bytes",
			"memory.usage_in_bytes",
			{"\ntotal_inactive_file ", "\ntotal_active_file "}}};
	int64_t *least = ctx;
	char *path AUTOFREE = sentence("%s/memory.stat", folder);
	for (size_t v = 0; v < sizeof version / sizeof *version; v++) {
		int64_t left = left_of(folder, version[v].limit, version[v].use);
		for (int i = 0; left < *least && i < 3 && version[v].can_go[i]; i++) {
			int64_t bytes = number_after(path, version[v].can_go[i]);
			left += bytes > 0 ? bytes : 0;
		}
		*least = left < *least ? left : *least;
	}
}

char *host_room(int processes, size_t *bytes)
{
	enum { PROCESS_BYTES = 16 << 20 }; /* basic need of a rank with MPI; measured: 14 MB */
	int64_t kilobytes = number_after("/proc/meminfo", "MemAvailable:"), room = INT64_MAX,
		most = INT64_MAX, own = (int64_t)processes * PROCESS_BYTES;
	cgroup_each("memory", least_memory, &room);
	cgroup_each("pids", least_processes, &most);
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
