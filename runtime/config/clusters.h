/*
 * clusters.h - simulated platforms: clusters that options describe (clusters.c), rates, and files.
 */
#ifndef CLUSTERS_H
#define CLUSTERS_H

#include "runtime/config/settings.h"

#include <string.h>

/* nodes machines of `gpus` workers each, evenly over the sites. Rates [bit/s], in each direction;
 * latencies of an empty message [s]. */
struct cluster_shape {
	const char *name, *summary;
	int64_t nodes, gpus, sites;
	double rate, latency;             /* between machines */
	double inner_rate, inner_latency; /* between workers of one machine */
	double site_rate, site_latency;   /* site_latency: in addition */
	double oversubscription;
};
extern const struct cluster_shape clusters[]; /* the named ones; ends at name NULL */
/* Does --sim.platform name one? *k: what the options make of it. */
bool cluster_of(const struct config *c, struct cluster_shape *k);
char *cluster_refuse(const struct config *c); /* NULL, or a message */

/* A simulated platform as mvbench list shows it, sim:NAME, without the front. */
static inline const char *platform_name(const char *name)
{
	return strncmp(name, "sim:", 4) == 0 ? name + 4 : name;
}
/* Does this configuration simulate the calibrated hosts (sim:hosts)? */
bool config_simulates_hosts(const struct config *c);
/* "100mbit" in bit/s; 0 = unshaped. bit_rate_check: NULL, or a message if text is not a rate. */
double bit_rate(const char *text);
char *bit_rate_check(const struct option *o, const char *text);

#endif
