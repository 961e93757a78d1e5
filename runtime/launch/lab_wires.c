/*
 * lab_wires.c - the wires of a lab: cut, healed, and their rates.
 */
#include "runtime/config/clusters.h"
#include "runtime/config/hosts.h"
#include "runtime/launch/lab.h"

#include <string.h>
#include <unistd.h>

char *lab_at(const char *host, const char *line, int *status)
{
	const char *const words[] = {"sh", "-c", line, NULL};
	return lab_exec(host, words, status);
}

/* A cut wire loses all packets without an error on any host, as if a switch failed. */
char *lab_wire_set(const char *host, bool whole, int *status)
{
	char *line AUTOFREE = sentence("bridge link set dev '%s' state %d", host, whole ? 3 : 0);
	return lab_at(LAB_SWITCH, line, status);
}

char *lab_rate_set(const char *rate, const char *host, int *status)
{
	char *shape AUTOFREE = lab_shape(rate);
	bool none = bit_rate(rate) <= 0;
	char *of_switch AUTOFREE = none ? sentence("tc qdisc del dev '%s' root 2>&-; true", host)
					: sentence("tc qdisc replace dev '%s' %s", host, shape);
	char *of_host AUTOFREE = none ? sentence("tc qdisc del dev eth0 root 2>&-; true")
				      : sentence("tc qdisc replace dev eth0 %s", shape);
	TRY(lab_at(LAB_SWITCH, of_switch, status));
	if (*status == 0)
		TRY(lab_at(host, of_host, status));
	if (*status == 0)
		lab_file_write(host, "rate", rate);
	return NULL;
}

/* For all hosts that are on; others: only wires that have another rate. */
char *lab_rates_set(const char *rate, bool others, int *status)
{
	char name[LAB_NAME];
	for (int k = 1; k <= LAB_HOSTS_MOST && *status == 0; k++) {
		char *there AUTOFREE = sentence(LAB_FOLDER "/%s.socket", lab_name(k, name)),
			    *has AUTOFREE = lab_rate_read(name);
		if (access(there, F_OK) == 0 && !(others && strcmp(has, rate) == 0))
			TRY(lab_rate_set(rate, name, status));
	}
	return NULL;
}

char *lab_rate_all(const char *rate)
{
	int status = 0;
	TRY(lab_rates_set(rate, true, &status));
	return status ? sentence("--lab.rate=%s: the wires could not be set", rate) : NULL;
}
