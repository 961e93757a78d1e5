/*
 * hosts.h - the machines of a run: --hostfile, --placement, and where ranks stand (hosts.c).
 */
#ifndef HOSTS_H
#define HOSTS_H

#include "runtime/config/settings.h"

#define HOSTFILE_VARIABLE "MVBENCH_HOSTFILE"
#define LAB_FOLDER        "/run/mvbench-lab" /* exists in a lab (runtime/launch/lab.h) */

struct host {
	char *name;
	int slots; /* -1: not given */
};
struct host_list {
	struct host *host;
	size_t n;
};
char *host_list_read(const char *path, struct host_list *l);
void host_list_fini(struct host_list *l);
/* Sets number[workers + servers], the host of each rank, by --placement or by slots. NULL, or a
 * message. */
char *host_list_deal(const struct host_list *l, const struct config *c, int *number);
char *config_hosts(const struct config *c, int *number); /* the same, of --hostfile */
int hosts_with_workers(const int *number, int workers);
/* The value of --placement for these hosts; "" = all ranks on one host. Heap. */
char *placement_text(const int *number, int workers, int servers);

#endif
