/*
 * clusters.c - simulated clusters that options describe: machines with one or several workers, a
 * link from each to a switch, and perhaps several sites with a line each.
 *
 * A message takes the latencies on its way, and its bytes at the lowest share of a link's rate.
 * Rates are those that bytes of messages reach: headers are not subtracted. An Ethernet with frames
 * of 1,500 bytes reaches 0.94 of its rate (1448 of 1538 bytes), with frames of 9,000 bytes 0.99.
 *
 * The named clusters have the rates that NCCL (src/graph/topo.h: SM80_NVLINK_BW, SM90_NVLINK_BW,
 * SM100_NVLINK_BW) and SimAI (CX6_BW, CX7_BW) reckon with for one NVLink and one
 * network card. A machine has 12 NVLinks a GPU (A100) or 18 (H100, B200), and one card a GPU: HDR
 * InfiniBand of 200 Gbit/s, or NDR InfiniBand or RoCE of 400 Gbit/s. Sums of 8 GPUs use all 8
 * cards, so that a machine's link is one of 8 cards. 3.4 and 14 us are NCCL's constants for a
 * message over NVLink and the network (src/graph/tuning.cc, hwLat, ring, Simple).
 */
#include "runtime/config/clusters.h"
#include "runtime/config/config.h"

#define BYTES_PER_S(x) (8.0 * (x))

const struct cluster_shape clusters[] = {
	{.name = "cluster",
	 .summary = "machines as --sim.nodes, --sim.gpus, --sim.rate, --sim.sites and so on "
		    "describe them",
	 .gpus = 1,
	 .latency = 25e-6,
	 .inner_latency = 3.4e-6},
	{.name = "a100_cluster",
	 .summary = "machines of 8 A100: NVLink 240 GB/s, 8 InfiniBand HDR of 23.5 GB/s each",
	 .gpus = 8,
	 .rate = BYTES_PER_S(8 * 23.5e9),
	 .latency = 14e-6,
	 .inner_rate = BYTES_PER_S(12 * 20e9),
	 .inner_latency = 3.4e-6},
	{.name = "h100_cluster",
	 .summary =
		 "machines of 8 H100: NVLink 371 GB/s, 8 InfiniBand NDR or RoCE of 48.5 GB/s each",
	 .gpus = 8,
	 .rate = BYTES_PER_S(8 * 48.5e9),
	 .latency = 14e-6,
	 .inner_rate = BYTES_PER_S(18 * 20.6e9),
	 .inner_latency = 3.4e-6},
	{.name = "b200_cluster",
	 .summary =
		 "machines of 8 B200: NVLink 722 GB/s, 8 InfiniBand NDR or RoCE of 48.5 GB/s each",
	 .gpus = 8,
	 .rate = BYTES_PER_S(8 * 48.5e9),
	 .latency = 14e-6,
	 .inner_rate = BYTES_PER_S(18 * 40.1e9),
	 .inner_latency = 3.4e-6},
	{.name = NULL},
};

static double given_or(double given, double otherwise)
{
	return given > 0 ? given : otherwise;
}

bool cluster_of(const struct config *c, struct cluster_shape *k)
{
	const struct harness_options *h = &c->harness;
	size_t i = 0;
	while (clusters[i].name && strcmp(clusters[i].name, c->run.sim_platform) != 0)
		i++;
	if (!clusters[i].name || !is_simulated(c))
		return false;
	*k = clusters[i];
	k->gpus = h->sim_gpus ? h->sim_gpus : k->gpus;
	k->sites = h->sim_sites;
	int64_t ranks = c->run.workers + c->run.servers, filled = (ranks + k->gpus - 1) / k->gpus;
	k->nodes = h->sim_nodes ? h->sim_nodes : filled > k->sites ? filled : k->sites;
	k->rate = given_or(h->sim_rate, k->rate);
	k->latency = given_or(h->sim_latency, k->latency);
	k->inner_rate = given_or(h->sim_inner_rate, k->inner_rate);
	k->inner_latency = given_or(h->sim_inner_latency, k->inner_latency);
	k->site_rate = h->sim_site_rate;
	k->site_latency = h->sim_site_latency;
	k->oversubscription = h->sim_oversubscription;
	return true;
}

/* The first of the options that only clusters have and that is given; NULL: none. */
static const char *cluster_option(const struct harness_options *h)
{
	return h->sim_nodes                   ? "nodes"
	       : h->sim_gpus                  ? "gpus"
	       : h->sim_inner_rate > 0        ? "inner-rate"
	       : h->sim_inner_latency > 0     ? "inner-latency"
	       : h->sim_sites > 1             ? "sites"
	       : h->sim_site_rate > 0         ? "site-rate"
	       : h->sim_oversubscription != 1 ? "oversubscription"
					      : NULL;
}

char *cluster_refuse(const struct config *c)
{
	const struct harness_options *h = &c->harness;
	const char *name = c->run.sim_platform, *own = cluster_option(h);
	bool measured = strcmp(name, "local") == 0 || strcmp(name, "hosts") == 0;
	struct cluster_shape k;
	if (!is_simulated(c))
		return NULL;
	if (!cluster_of(c, &k)) {
		if (measured && !own && (h->sim_rate > 0 || h->sim_latency > 0))
			own = h->sim_rate > 0 ? "rate" : "latency";
		return own ? sentence("--sim.%s: --sim.platform=%s has machines and links of its "
				      "own; leave it out, or give --sim.platform=cluster",
				      own, name)
			   : NULL;
	}
	if (k.rate == 0)
		return sentence("--sim.platform=%s: give the rate of a machine's link, such as "
				"--sim.rate=10gbit",
				name);
	if (k.gpus > 1 && k.inner_rate == 0)
		return sentence("--sim.gpus=%lld: give the rate inside a machine, such as "
				"--sim.inner-rate=300GB",
				(long long)k.gpus);
	if (k.sites > 1 && k.site_rate == 0)
		return sentence("--sim.sites=%lld: give the rate of a site's line, such as "
				"--sim.site-rate=1gbit",
				(long long)k.sites);
	if (k.sites > k.nodes)
		return sentence("--sim.sites=%lld: more than the %lld machines of --sim.nodes",
				(long long)k.sites, (long long)k.nodes);
	if (k.nodes * k.gpus < c->run.workers)
		return sentence("--sim.nodes=%lld: room for %lld workers, and --workers=%lld; give "
				"more machines, or leave it out",
				(long long)k.nodes, (long long)(k.nodes * k.gpus),
				(long long)c->run.workers);
	return NULL;
}
