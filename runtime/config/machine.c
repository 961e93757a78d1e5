/*
 * machine.c - provenance: which machine, libraries and source a result comes from.
 */
#include "runtime/config/config.h"
#include "runtime/comm/comm.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef MVBENCH_COMMIT
#define MVBENCH_COMMIT "unknown"
#endif

static const char *cpu_model(void)
{
	static char text[128];
	char line[512];
	FILE *f = fopen("/proc/cpuinfo", "r");
	while (f && !*text && fgets(line, sizeof line, f)) {
		char *value = strchr(line, ':');
		if (strncmp(line, "model name", 10) == 0 && value)
			snprintf(text, sizeof text, "%.*s", (int)strcspn(value + 2, "\n"),
				 value + 2);
	}
	if (f)
		fclose(f);
	return *text ? text : "unknown";
}

const struct machine *machine(void)
{
	static struct machine m;
	static char host[256], commit[64];
	static struct device_facts cpu;
	if (m.host)
		return &m;
	gethostname(host, sizeof host - 1);
	snprintf(commit, sizeof commit, "%s", MVBENCH_COMMIT);
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
		.cores = usable_cores(),
	};
	return &m;
}
