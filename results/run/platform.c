/*
 * platform.c - writes SimGrid platforms: of calibrations, this machine, where messages go through
 * memory, and hosts that each have a wire to a switch; and clusters that options describe.
 */
#include "results/run/run.h"

#include <math.h>
#include <string.h>

/* SMPI charges latency x lat-factor + bytes / (bandwidth x bw-factor) for a message, with factors
 * by size. Factors from the line through two neighbouring measurements reproduce the measured
 * times. */
enum { LATENCY_NS = 1000, ENVELOPE = 16 /* bytes that SMPI adds to a message */ };

struct factors {
	double bytes_per_s; /* of the link; its latency is LATENCY_NS */
	struct text bandwidth, latency;
	size_t n;
	double last; /* length */
};

/* The first factor also holds for shorter messages. SMPI accepts each length only once. */
static void add_factor(struct factors *f, double from, double fixed_s, double byte_s)
{
	const char *comma = f->n ? ";" : "";
	from = f->n ? round(from) : 0;
	if (f->n && from <= f->last)
		return;
	fprintf(f->latency.f, "%s%.0f:%.6g", comma, from, fixed_s / (1e-9 * LATENCY_NS));
	fprintf(f->bandwidth.f, "%s%.0f:%.6g", comma, from, 1 / (byte_s * f->bytes_per_s));
	f->last = from;
	f->n++;
}

/* Factors between two lengths, as SMPI counts them. A latency cannot be negative: where the line
 * would need one, it is cut into pieces, each without latency and exact in its middle. */
static void add_line(struct factors *f, double from, double y0, double to, double y1)
{
	enum { PIECES = 32 };
	const double byte_s_least = 1e-12;
	double slope = fmax((y1 - y0) / (to - from), byte_s_least), fixed = y0 - slope * from;
	if (fixed >= 0) {
		add_factor(f, from, fixed, slope);
		return;
	}
	for (int k = 0; k < PIECES; k++) {
		double start = from * pow(to / from, (double)k / PIECES),
		       middle = from * pow(to / from, (k + 0.5) / PIECES);
		if (round(start) < to)
			add_factor(f, start, 0, (fixed + slope * middle) / middle);
	}
}

static void add_factors(struct factors *f, const struct points *p)
{
	const struct point *before = NULL;
	double last = 0;
	for (size_t i = 0; i < p->n; i++) {
		struct point *m = &p->point[i];
		if (strcmp(m->name, "message") != 0)
			continue;
		double y = fmax(m->value, last); /* noise: a longer message is never faster */
		if (before)
			add_line(f, before->x + ENVELOPE, last, m->x + ENVELOPE, y);
		before = m;
		last = y;
	}
}

/* SMPI's message factors, from the points "message". Heap. */
static char *config_text(const struct points *p, double bytes_per_s)
{
	struct factors f = {.bytes_per_s = bytes_per_s};
	text_open(&f.bandwidth);
	text_open(&f.latency);
	add_factors(&f, p);
	char *bandwidths AUTOFREE = text_close(&f.bandwidth);
	char *latencies AUTOFREE = text_close(&f.latency);
	return f.n ? sentence("\t<prop id=\"smpi/bw-factor\" value=\"%s\"/>\n"
			      "\t<prop id=\"smpi/lat-factor\" value=\"%s\"/>\n",
			      bandwidths, latencies)
		   : must(strdup(""));
}

#define XML_HEAD \
	"<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM " \
	"\"https://simgrid.org/simgrid.dtd\">\n"

char *platform_local(const struct points *p, int cores)
{
	const double bandwidth = 1e10; /* [bytes/s] */
	char *config AUTOFREE = config_text(p, bandwidth);
	return sentence(
		XML_HEAD
		"<!-- This machine, as mvbench calibrate measured it: messages go through memory; "
		"the factors\n     reproduce their measured times. -->\n"
		"<platform version=\"4.1\">\n<config>\n%s</config>\n"
		"<zone id=\"local\" routing=\"Full\">\n"
		"\t<prop id=\"description\" value=\"this machine, as calibrated\"/>\n"
		"\t<host id=\"local\" speed=\"1Gf\" core=\"%d\"/>\n"
		"\t<link id=\"memory\" bandwidth=\"%.0fBps\" latency=\"%dns\" "
		"sharing_policy=\"FATPIPE\"/>\n"
		"\t<route src=\"local\" dst=\"local\" symmetrical=\"NO\"><link_ctn "
		"id=\"memory\"/></route>\n"
		"</zone>\n</platform>\n",
		config, cores, bandwidth, LATENCY_NS);
}

/* The longest point with that name, of at most this length. */
static const struct point *longest(const struct points *p, const char *name, double most)
{
	const struct point *found = NULL;
	for (size_t i = 0; i < p->n; i++)
		if (strcmp(p->point[i].name, name) == 0 && p->point[i].x <= most)
			found = &p->point[i];
	return found;
}

/* The bandwidth of a wire, from the time difference of a long and a shorter message [bytes/s]. */
static double bandwidth_of(const struct points *p)
{
	const struct point *all = longest(p, "message", INFINITY),
			   *part = all ? longest(p, "message", all->x / 4) : NULL;
	if (!all || !part || all->value <= part->value)
		return all && all->value > 0 ? all->x / all->value : 1e9;
	return (all->x - part->x) / (all->value - part->value);
}

/* Does a message slow down one in the opposite direction? SimGrid models this as 5 % of the
 * bandwidth; half of that is the threshold. */
static bool slows_back(const struct points *p)
{
	const struct point *one = longest(p, "message", INFINITY),
			   *both = longest(p, "both", INFINITY);
	return one && both && both->value > 1.025 * one->value;
}

char *platform_hosts(const struct points *p, int hosts, int cores)
{
	double bandwidth = bandwidth_of(p);
	char *config AUTOFREE = config_text(p, bandwidth);
	return sentence(
		XML_HEAD
		"<!-- Hosts, each with a wire to a switch, as mvbench calibrate measured them: "
		"the factors\n     reproduce the measured times of messages. Within a host "
		"messages go through memory, at an assumed 8 GB/s. -->\n"
		"<platform version=\"4.1\">\n<config>\n%s"
		"\t<prop id=\"network/crosstraffic\" value=\"%s\"/>\n</config>\n"
		"<zone id=\"hosts\" routing=\"Full\">\n"
		"\t<prop id=\"description\" value=\"%d hosts and their wires, as calibrated\"/>\n"
		"\t<cluster id=\"wires\" prefix=\"host-\" suffix=\"\" radical=\"0-%d\" "
		"speed=\"1Gf\" core=\"%d\"\n"
		"\t\tbw=\"%.0fBps\" lat=\"%dns\" sharing_policy=\"SPLITDUPLEX\"\n"
		"\t\tloopback_bw=\"8GBps\" loopback_lat=\"1ns\"/>\n"
		"</zone>\n</platform>\n",
		config, slows_back(p) ? "yes" : "no", hosts, hosts - 1, cores, bandwidth,
		LATENCY_NS / 2);
}

/* ---- Clusters -------------------------------------------------------------------------- */

/* One way of a route has half of its latency. */
static void put_link(FILE *f, const char *name, int64_t number, double bits, double latency_s)
{
	fprintf(f,
		"<link id=\"%s-%lld\" bandwidth=\"%.17gBps\" latency=\"%.17gs\" "
		"sharing_policy=\"SPLITDUPLEX\"/>\n",
		name, (long long)number, bits / 8, latency_s / 2);
}

/* A zone that is only a router: the middle of a star. */
static void put_middle(FILE *f, const char *name)
{
	fprintf(f, "<zone id=\"%s-zone\" routing=\"None\"><router id=\"%s\"/></zone>\n", name,
		name);
}

/* From a part with a gate to the middle of the zone around it. shared: a link that all ways use;
 * "": none. */
static void put_way(FILE *f, const char *part, int64_t number, const char *link, const char *shared,
		    const char *middle)
{
	fprintf(f,
		"<zoneRoute src=\"%s-%lld\" dst=\"%s-zone\" gw_src=\"%s-%lld-gate\" gw_dst=\"%s\">"
		"<link_ctn id=\"%s-%lld\" direction=\"UP\"/>",
		part, (long long)number, middle, part, (long long)number, middle, link,
		(long long)number);
	if (*shared)
		fprintf(f, "<link_ctn id=\"%s\" direction=\"UP\"/>", shared);
	fputs("</zoneRoute>\n", f);
}

/* Hosts first to end - 1 with a link of their own each, and no more than that: SimGrid computes
 * their routes fastest. limit: of the switch above them [bit/s]; 0 = none. */
static void put_star(FILE *f, const char *id, int64_t number, const char *prefix, int64_t first,
		     int64_t end, double bits, double latency_s, double limit)
{
	fprintf(f,
		"<cluster id=\"%s-%lld\" prefix=\"%s\" suffix=\"\" radical=\"%lld-%lld\" "
		"speed=\"1Gf\" bw=\"%.17gBps\" lat=\"%.17gs\" loopback_bw=\"8GBps\" "
		"loopback_lat=\"500ns\" router_id=\"%s-%lld-gate\"",
		id, (long long)number, prefix, (long long)first, (long long)end - 1, bits / 8,
		latency_s / 2, id, (long long)number);
	if (limit > 0)
		fprintf(f, " bb_bw=\"%.17gBps\" bb_lat=\"0s\"", limit / 8);
	fputs(">\n", f);
}

/* The machines of a site: a zone "site-N" with the router "site-N-gate". */
static void put_site(FILE *f, const struct cluster_shape *k, int64_t site)
{
	int64_t first = (int64_t)part_of((size_t)k->nodes, (size_t)k->sites, (size_t)site),
		end = (int64_t)part_of((size_t)k->nodes, (size_t)k->sites, (size_t)site + 1);
	double limit =
		k->oversubscription > 1 ? (double)(end - first) * k->rate / k->oversubscription : 0;
	if (k->gpus == 1) {
		put_star(f, "site", site, "node-", first, end, k->rate, k->latency, limit);
		fprintf(f, "<prop id=\"site\" value=\"site-%lld\"/></cluster>\n", (long long)site);
		return;
	}
	fprintf(f, "<zone id=\"site-%lld\" routing=\"Floyd\">\n", (long long)site);
	for (int64_t i = first; i < end; i++) {
		char *prefix AUTOFREE = sentence("node-%lld-gpu-", (long long)i);
		put_star(f, "node", i, prefix, 0, k->gpus, k->inner_rate, k->inner_latency, 0);
		fprintf(f,
			"<prop id=\"node\" value=\"node-%lld\"/>"
			"<prop id=\"site\" value=\"site-%lld\"/></cluster>\n",
			(long long)i, (long long)site);
	}
	char *gate AUTOFREE = sentence("site-%lld-gate", (long long)site),
		   *fabric AUTOFREE =
			   limit > 0 ? sentence("fabric-%lld", (long long)site) : must(strdup(""));
	put_middle(f, gate);
	for (int64_t i = first; i < end; i++)
		put_link(f, "wire", i, k->rate, fmax(0, k->latency - k->inner_latency));
	if (limit > 0)
		put_link(f, "fabric", site, limit, 0);
	for (int64_t i = first; i < end; i++)
		put_way(f, "node", i, "wire", fabric, gate);
	fputs("</zone>\n", f);
}

char *platform_cluster(const struct cluster_shape *k)
{
	struct text t;
	FILE *f = text_open(&t);
	fprintf(f, XML_HEAD "<platform version=\"4.1\">\n<config>\n"
			    "\t<prop id=\"network/crosstraffic\" value=\"0\"/>\n</config>\n"
			    "<zone id=\"cluster\" routing=\"Floyd\">\n");
	for (int64_t i = 0; i < k->sites; i++)
		put_site(f, k, i);
	if (k->sites > 1) {
		put_middle(f, "middle");
		for (int64_t i = 0; i < k->sites; i++)
			put_link(f, "line", i, k->site_rate, k->site_latency);
		for (int64_t i = 0; i < k->sites; i++)
			put_way(f, "site", i, "line", "", "middle");
	}
	fputs("</zone>\n</platform>\n", f);
	return text_close(&t);
}
